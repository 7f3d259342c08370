/* Copyright dyn_ros contributors
   SPDX-License-Identifier: Apache-2.0

   Operators: machine code of lanes that runs on the memory of other libraries, such as torch and JAX.

   An Operator has its own workspaces and no owner, so that any number of threads can run it at the
   same time, also without the GIL. Inputs have any leading axes, which broadcast. Numbers that are not
   finite are not rejected; they propagate to the results. */
#define NO_IMPORT_ARRAY
#include "extension.h"

#include <pthread.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define MAX_BUFFERS 64                  /* inputs, and also results; bits of a mask */
#define MAX_LEADING_AXES 16
#define ALIGNMENT 64                    /* bytes; of workspaces, as in workspace.py */

/* Rows of int64 arrays that Python passes. */
typedef struct {
    int64_t row;                        /* first row of the workspace, counted in numbers */
    int64_t columns;                    /* numbers of one state */
    int64_t part;                       /* of a dual number */
    int64_t is_passed;                  /* index of call_ints that is 1 if it is passed or wanted; or -1 */
    int64_t is_parameter;               /* 1 for an input of prepare_code */
} Slot;

/* Memory of one call; its work and call_ints follow. */
typedef struct Space {
    struct Space *next;
    double *work;
    int64_t *call_ints;
} Space;

typedef struct {
    PyObject_HEAD
    PyObject *memory;                   /* keeps the arrays below */
    kernel_code code, prepare_code;     /* prepare_code sets the constants, or is NULL */
    const int64_t *ints;
    const double *floats;               /* constants of the model */
    int64_t nfloats, constants;         /* how many are copied, and to which row of the workspace */
    int64_t lanes, nparts;
    const double *work;                 /* initial workspace */
    int64_t nwork;
    const int64_t *call_ints;
    int64_t ncall_ints;
    const Slot *inputs, *results;
    Py_ssize_t ninputs, nresults;
    pthread_mutex_t mutex;
    Space *free;
    int64_t key;                        /* for XLA; 0 until it is registered */
} Operator;

/* An array: leading axes, then `columns` numbers. */
typedef struct {
    void *data;                         /* NULL: zero, or not wanted */
    bool is_float32;
    int64_t ndim;                       /* leading axes */
    const int64_t *shape;
} Buffer;

/* How the states of a call lie in an array. */
typedef struct {
    bool is_constant, is_full;
    int64_t strides[MAX_LEADING_AXES];
} Walk;

/* --- workspaces */

static Space *
take_space(Operator *op)
{
    pthread_mutex_lock(&op->mutex);
    Space *space = op->free;
    if (space != NULL) {
        op->free = space->next;
    }
    pthread_mutex_unlock(&op->mutex);
    if (space != NULL) {
        return space;
    }
    size_t head = (sizeof(Space) + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    size_t work = ((size_t)op->nwork * 8 + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    size_t ints = ((size_t)op->ncall_ints * 8 + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    space = aligned_alloc(ALIGNMENT, head + work + ints);
    if (space == NULL) {
        return NULL;
    }
    space->work = (double *)((char *)space + head);
    space->call_ints = (int64_t *)((char *)space + head + work);
    memcpy(space->work, op->work, (size_t)op->nwork * 8);
    memcpy(space->call_ints, op->call_ints, (size_t)op->ncall_ints * 8);
    return space;
}

static void
return_space(Operator *op, Space *space)
{
    pthread_mutex_lock(&op->mutex);
    space->next = op->free;
    op->free = space;
    pthread_mutex_unlock(&op->mutex);
}

/* --- states of arrays */

/* Find how the states of a call, with some leading axes, lie in an array; false if they do not fit. */
static bool
find_walk(const Buffer *buffer, int64_t columns, int64_t ndim, const int64_t *shape, Walk *walk)
{
    int64_t stride = columns;
    walk->is_constant = walk->is_full = true;
    if (buffer->ndim > ndim) {
        return false;
    }
    for (int64_t axis = ndim - 1; axis >= 0; axis--) {
        int64_t own = axis - (ndim - buffer->ndim);
        int64_t length = own < 0 ? 1 : buffer->shape[own];
        if (length != 1 && length != shape[axis]) {
            return false;
        }
        walk->strides[axis] = length == 1 ? 0 : stride;
        walk->is_constant = walk->is_constant && length == 1;
        walk->is_full = walk->is_full && length == shape[axis];
        stride *= length;
    }
    return true;
}

static inline int64_t
place_of_state(const Walk *walk, int64_t state, int64_t columns, int64_t ndim, const int64_t *shape)
{
    if (walk->is_full) {
        return state * columns;
    }
    int64_t place = 0;
    for (int64_t axis = ndim - 1; axis >= 0 && !walk->is_constant; axis--) {
        place += state % shape[axis] * walk->strides[axis];
        state /= shape[axis];
    }
    return place;
}

/* Load a state of an array into one lane. */
static inline void
load_state(double *restrict lane, int64_t step, const Buffer *buffer, int64_t place, int64_t columns)
{
    if (buffer->is_float32) {
        const float *x = (const float *)buffer->data + place;
        for (int64_t k = 0; k < columns; k++) {
            lane[k * step] = x[k];
        }
    }
    else {
        const double *x = (const double *)buffer->data + place;
        for (int64_t k = 0; k < columns; k++) {
            lane[k * step] = x[k];
        }
    }
}

static inline void
store_state(const double *restrict lane, int64_t step, const Buffer *buffer, int64_t place,
            int64_t columns)
{
    if (buffer->is_float32) {
        float *x = (float *)buffer->data + place;
        for (int64_t k = 0; k < columns; k++) {
            x[k] = (float)lane[k * step];
        }
    }
    else {
        double *x = (double *)buffer->data + place;
        for (int64_t k = 0; k < columns; k++) {
            x[k] = lane[k * step];
        }
    }
}

/* --- calls */

/* Return the row of lanes of a part of the numbers of a slot. */
static inline double *
rows_of_slot(const Operator *op, const Slot *slot, double *work)
{
    return work + (slot->row * op->nparts + slot->part) * op->lanes;
}

/* Copy the constants of the model to all lanes; their derivatives, of earlier calls, become zero. */
static void
spread_constants(const Operator *op, double *work)
{
    int64_t step = op->nparts * op->lanes;
    double *row = work + op->constants * step;
    memset(row, 0, (size_t)(op->nfloats * step) * 8);
    for (int64_t k = 0; k < op->nfloats; k++) {
        for (int64_t lane = 0; lane < op->lanes; lane++) {
            row[k * step + lane] = op->floats[k];
        }
    }
}

/* Run an operator for the states of some leading axes. Return NULL, or what is wrong. */
static const char *
run_operator(Operator *op, const Buffer *inputs, const Buffer *results, int64_t ndim,
             const int64_t *shape)
{
    Walk walks[MAX_BUFFERS];
    int64_t size = 1, step = op->nparts * op->lanes;
    if (ndim > MAX_LEADING_AXES) {
        return "too many leading axes; reshape the arrays to at most 16";
    }
    for (int64_t axis = 0; axis < ndim; axis++) {
        size *= shape[axis];
    }
    for (Py_ssize_t n = 0; n < op->ninputs; n++) {
        if (inputs[n].data != NULL
            && !find_walk(&inputs[n], op->inputs[n].columns, ndim, shape, &walks[n])) {
            return "the leading axes of the arrays do not broadcast";
        }
    }
    if (size == 0) {
        return NULL;
    }
    Space *space = take_space(op);
    if (space == NULL) {
        return "no memory for a workspace";
    }
    double *work = space->work;
    int64_t *call_ints = space->call_ints;
    bool varying_parameters = false;
    for (Py_ssize_t n = 0; n < op->ninputs; n++) {
        const Slot *slot = &op->inputs[n];
        double *rows = rows_of_slot(op, slot, work);
        if (slot->is_passed >= 0) {
            call_ints[slot->is_passed] = inputs[n].data != NULL;
        }
        if (inputs[n].data == NULL) {
            for (int64_t k = 0; k < slot->columns; k++) {
                memset(rows + k * step, 0, (size_t)op->lanes * 8);
            }
        }
        else if (walks[n].is_constant) {
            for (int64_t lane = 0; lane < op->lanes; lane++) {
                load_state(rows + lane, step, &inputs[n], 0, slot->columns);
            }
        }
        else if (slot->is_parameter) {
            varying_parameters = true;
        }
    }
    for (Py_ssize_t n = 0; n < op->nresults; n++) {
        if (op->results[n].is_passed >= 0) {
            call_ints[op->results[n].is_passed] = results[n].data != NULL;
        }
    }
    const double *constants = op->floats;
    if (op->prepare_code != NULL) {
        spread_constants(op, work);
        constants = work + op->constants * step;
        if (!varying_parameters) {
            op->prepare_code(op->ints, call_ints, constants, work);
        }
    }
    for (int64_t first = 0; first < size; first += op->lanes) {
        int64_t count = size - first < op->lanes ? size - first : op->lanes;
        for (Py_ssize_t n = 0; n < op->ninputs; n++) {
            const Slot *slot = &op->inputs[n];
            if (inputs[n].data == NULL || walks[n].is_constant) {
                continue;
            }
            double *rows = rows_of_slot(op, slot, work);
            for (int64_t lane = 0; lane < op->lanes; lane++) {
                int64_t state = first + (lane < count ? lane : count - 1);
                int64_t place = place_of_state(&walks[n], state, slot->columns, ndim, shape);
                load_state(rows + lane, step, &inputs[n], place, slot->columns);
            }
        }
        if (varying_parameters) {
            op->prepare_code(op->ints, call_ints, constants, work);
        }
        op->code(op->ints, call_ints, constants, work);
        for (Py_ssize_t n = 0; n < op->nresults; n++) {
            if (results[n].data == NULL) {
                continue;
            }
            const Slot *slot = &op->results[n];
            const double *rows = rows_of_slot(op, slot, work);
            for (int64_t lane = 0; lane < count; lane++) {
                store_state(rows + lane, step, &results[n], (first + lane) * slot->columns,
                            slot->columns);
            }
        }
    }
    return_space(op, space);
    return NULL;
}

/* --- calls from Python: addresses and shapes */

/* Read a sequence of None or (address, is_float32, leading shape). */
static int
read_buffers(PyObject *sequence, Py_ssize_t count, Buffer *buffers, int64_t (*shapes)[MAX_LEADING_AXES])
{
    PyObject *items = PySequence_Fast(sequence, "expected a sequence");
    if (items == NULL) {
        return -1;
    }
    if (PySequence_Fast_GET_SIZE(items) != count) {
        PyErr_Format(PyExc_ValueError, "expected %zd arrays", count);
        Py_DECREF(items);
        return -1;
    }
    for (Py_ssize_t n = 0; n < count; n++) {
        PyObject *item = PySequence_Fast_GET_ITEM(items, n), *shape;
        long long address;
        int is_float32;
        buffers[n] = (Buffer){NULL, false, 0, shapes[n]};
        if (item == Py_None) {
            continue;
        }
        if (!PyArg_ParseTuple(item, "LpO!", &address, &is_float32, &PyTuple_Type, &shape)) {
            Py_DECREF(items);
            return -1;
        }
        buffers[n].ndim = PyTuple_GET_SIZE(shape);
        buffers[n].is_float32 = is_float32;
        /* An empty array may have no address. */
        buffers[n].data = address == 0 ? AT(void, ALIGNMENT) : AT(void, address);
        if (buffers[n].ndim > MAX_LEADING_AXES) {
            PyErr_SetString(PyExc_ValueError, "too many leading axes; reshape the arrays to at most 16");
            Py_DECREF(items);
            return -1;
        }
        for (int64_t axis = 0; axis < buffers[n].ndim; axis++) {
            shapes[n][axis] = PyLong_AsLongLong(PyTuple_GET_ITEM(shape, axis));
        }
    }
    Py_DECREF(items);
    return PyErr_Occurred() == NULL ? 0 : -1;
}

static PyObject *
operator_run(Operator *op, PyObject *arguments)
{
    PyObject *inputs, *results, *shape;
    Buffer read[MAX_BUFFERS], written[MAX_BUFFERS];
    int64_t shapes[MAX_BUFFERS][MAX_LEADING_AXES], ignored[MAX_BUFFERS][MAX_LEADING_AXES];
    int64_t lead[MAX_LEADING_AXES];
    if (!PyArg_ParseTuple(arguments, "OOO!", &inputs, &results, &PyTuple_Type, &shape)
        || read_buffers(inputs, op->ninputs, read, shapes) < 0
        || read_buffers(results, op->nresults, written, ignored) < 0) {
        return NULL;
    }
    Py_ssize_t ndim = PyTuple_GET_SIZE(shape);
    for (Py_ssize_t axis = 0; axis < ndim && axis < MAX_LEADING_AXES; axis++) {
        lead[axis] = PyLong_AsLongLong(PyTuple_GET_ITEM(shape, axis));
    }
    if (PyErr_Occurred() != NULL) {
        return NULL;
    }
    const char *fault;
    Py_BEGIN_ALLOW_THREADS
    fault = run_operator(op, read, written, ndim, lead);
    Py_END_ALLOW_THREADS
    if (fault != NULL) {
        PyErr_SetString(PyExc_ValueError, fault);
        return NULL;
    }
    Py_RETURN_NONE;
}

/* --- calls from XLA: its foreign function interface for C, as far as it is used here. The structures
   are those of version 0.1 on; later versions add members at their ends only. */

enum {XLA_METADATA = 1, XLA_INVALID_ARGUMENT = 3, XLA_FLOAT32 = 11, XLA_FLOAT64 = 12};
enum {XLA_EXECUTE = 3, XLA_MAJOR = 0, XLA_MINOR = 1};
enum {XLA_OPERATOR, XLA_PASSED, XLA_WANTED, XLA_ATTRIBUTES};    /* sorted by their names */

/* The operators that XLA calls, by number. They are kept: compiled functions can outlive everything
   else that refers to them, and a function that another process has compiled must not be run. */
#define MAX_REGISTERED (1 << 16)
static Operator *registered[MAX_REGISTERED];
static int64_t nregistered = 0;

typedef struct XlaExtension {
    size_t struct_size;
    int type;
    struct XlaExtension *next;
} XlaExtension;

typedef struct {
    size_t struct_size;
    XlaExtension *extensions;
    int major, minor;
} XlaVersion;

typedef struct {
    size_t struct_size;
    XlaVersion version;
    uint32_t traits;
} XlaMetadata;

typedef struct {
    XlaExtension base;
    XlaMetadata *metadata;
} XlaMetadataExtension;

typedef struct {
    size_t struct_size;
    XlaExtension *extensions;
    int type;
    void *data;
    int64_t ndim;
    int64_t *shape;
} XlaBuffer;

typedef struct {
    size_t struct_size;
    XlaExtension *extensions;
    int64_t size;
    int *types;
    XlaBuffer **buffers;
} XlaBuffers;

typedef struct {
    int type;
    void *value;
} XlaScalar;

typedef struct {
    size_t struct_size;
    XlaExtension *extensions;
    int64_t size;
    int *types;
    void **names;
    XlaScalar **values;
} XlaAttributes;

typedef struct {
    size_t struct_size;
    XlaExtension *extensions;
    const char *message;
    int code;
} XlaErrorArguments;

typedef struct {
    size_t struct_size;
    XlaExtension *extensions;
    XlaVersion version;
    void *internal;
    void *(*create_error)(XlaErrorArguments *arguments);
} XlaApi;

typedef struct {
    size_t struct_size;
    XlaExtension *extensions;
    const XlaApi *api;
    void *context;
    int stage;
    XlaBuffers arguments, results;
    XlaAttributes attributes;
} XlaCall;

/* The number of the first operator, different in each process. */
static int64_t
process_key(void)
{
    static int64_t key = 0;
    if (key == 0) {
        struct timespec now;
        clock_gettime(CLOCK_REALTIME, &now);
        key = ((int64_t)now.tv_sec * 1000000000 + now.tv_nsec) ^ ((int64_t)getpid() << 40);
    }
    return key;
}

static int64_t
xla_integer(const XlaCall *call, int which)
{
    return *(int64_t *)call->attributes.values[which]->value;
}

/* Read the arrays of a call; those whose bit in the mask is zero are absent. */
static bool
read_xla_buffers(const XlaBuffers *arrays, const Slot *slots, Py_ssize_t count, int64_t mask,
                 Buffer *buffers)
{
    int64_t position = 0;
    for (Py_ssize_t n = 0; n < count; n++) {
        buffers[n].data = NULL;
        if ((mask >> n & 1) == 0) {
            continue;
        }
        if (position == arrays->size) {
            return false;
        }
        const XlaBuffer *array = arrays->buffers[position++];
        int64_t columns = 1, ndim = array->ndim;
        while (ndim > 0 && columns < slots[n].columns) {
            columns *= array->shape[--ndim];
        }
        if (columns != slots[n].columns || (array->type != XLA_FLOAT32 && array->type != XLA_FLOAT64)) {
            return false;
        }
        void *data = array->data == NULL ? AT(void, ALIGNMENT) : array->data;
        buffers[n] = (Buffer){data, array->type == XLA_FLOAT32, ndim, array->shape};
    }
    return position == arrays->size;
}

static const char *
run_xla_call(const XlaCall *call)
{
    Buffer read[MAX_BUFFERS], written[MAX_BUFFERS];
    if (call->attributes.size != XLA_ATTRIBUTES) {
        return "dyn_ros: unexpected attributes";
    }
    const int64_t key = xla_integer(call, XLA_OPERATOR), number = key - process_key();
    if (number < 0 || number >= __atomic_load_n(&nregistered, __ATOMIC_ACQUIRE)) {
        return "dyn_ros: another process has compiled this function; compile it in this one";
    }
    Operator *op = registered[number];
    if (!read_xla_buffers(&call->arguments, op->inputs, op->ninputs, xla_integer(call, XLA_PASSED),
                          read)
        || !read_xla_buffers(&call->results, op->results, op->nresults,
                             xla_integer(call, XLA_WANTED), written)) {
        return "dyn_ros: unexpected types or shapes of arrays";
    }
    for (Py_ssize_t n = 0; n < op->nresults; n++) {
        if (written[n].data != NULL) {
            return run_operator(op, read, written, written[n].ndim, written[n].shape);
        }
    }
    return NULL;
}

static void *
handle_xla_call(XlaCall *call)
{
    if (call->extensions != NULL && call->extensions->type == XLA_METADATA) {
        XlaMetadata *metadata = ((XlaMetadataExtension *)call->extensions)->metadata;
        metadata->version.major = XLA_MAJOR;
        metadata->version.minor = XLA_MINOR;
        metadata->traits = 0;
        return NULL;
    }
    const char *fault = call->stage == XLA_EXECUTE ? run_xla_call(call) : NULL;
    if (fault == NULL) {
        return NULL;
    }
    XlaErrorArguments arguments = {sizeof arguments, NULL, fault, XLA_INVALID_ARGUMENT};
    return call->api->create_error(&arguments);
}

static PyObject *
xla_handler(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(nothing))
{
    return PyCapsule_New((void *)handle_xla_call, NULL, NULL);
}

/* --- the type */

static PyObject *
operator_new(PyTypeObject *type, PyObject *arguments, PyObject *keywords)
{
    PyObject *memory, *inputs, *results;
    long long code, prepare_code, ints, floats, nfloats, constants, lanes, nparts, work, nwork,
        call_ints, ncall_ints;
    if ((keywords != NULL && PyDict_GET_SIZE(keywords) != 0)
        || !PyArg_ParseTuple(arguments, "OLLLLLLLLLLLLOO", &memory, &code, &prepare_code, &ints, &floats,
                             &nfloats, &constants, &lanes, &nparts, &work, &nwork, &call_ints,
                             &ncall_ints, &inputs, &results)) {
        if (!PyErr_Occurred()) {
            PyErr_SetString(PyExc_TypeError, "Operator takes no keywords");
        }
        return NULL;
    }
    Operator *op = (Operator *)type->tp_alloc(type, 0);
    if (op == NULL) {
        return NULL;
    }
    pthread_mutex_init(&op->mutex, NULL);
    op->inputs = rows_of(inputs, sizeof(Slot), &op->ninputs);
    op->results = op->inputs == NULL ? NULL : rows_of(results, sizeof(Slot), &op->nresults);
    if (op->results == NULL || op->ninputs > MAX_BUFFERS || op->nresults > MAX_BUFFERS) {
        if (!PyErr_Occurred()) {
            PyErr_SetString(PyExc_ValueError, "too many arrays");
        }
        Py_DECREF(op);
        return NULL;
    }
    op->memory = Py_BuildValue("OOO", memory, inputs, results);
    op->code = (kernel_code)(intptr_t)code;
    op->prepare_code = (kernel_code)(intptr_t)prepare_code;
    op->ints = AT(int64_t, ints);
    op->floats = AT(double, floats);
    op->nfloats = nfloats;
    op->constants = constants;
    op->lanes = lanes;
    op->nparts = nparts;
    op->work = AT(double, work);
    op->nwork = nwork;
    op->call_ints = AT(int64_t, call_ints);
    op->ncall_ints = ncall_ints;
    if (op->memory == NULL) {
        Py_CLEAR(op);
    }
    return (PyObject *)op;
}

static void
operator_dealloc(Operator *op)
{
    while (op->free != NULL) {
        Space *space = op->free;
        op->free = space->next;
        free(space);
    }
    pthread_mutex_destroy(&op->mutex);
    Py_XDECREF(op->memory);
    Py_TYPE(op)->tp_free((PyObject *)op);
}

/* Return the number by which XLA refers to an operator, which lives from now on. */
static PyObject *
operator_register(Operator *op, PyObject *Py_UNUSED(nothing))
{
    if (op->key == 0) {
        if (nregistered == MAX_REGISTERED) {
            PyErr_SetString(PyExc_RuntimeError, "too many robots and functions for one process");
            return NULL;
        }
        Py_INCREF(op);
        op->key = process_key() + nregistered;
        registered[nregistered] = op;
        __atomic_store_n(&nregistered, nregistered + 1, __ATOMIC_RELEASE);
    }
    return PyLong_FromLongLong(op->key);
}

static PyMethodDef operator_methods[] = {
    {"run", (PyCFunction)operator_run, METH_VARARGS,
     "Run on inputs and results, (address, is_float32, leading shape) or None, for leading axes."},
    {"register", (PyCFunction)operator_register, METH_NOARGS,
     "Keep the operator; return the number by which XLA refers to it."},
    {NULL},
};

static PyTypeObject OperatorType = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "dyn_ros.engine.machine_code._native.Operator",
    .tp_doc = "Machine code of lanes that runs on the memory of other libraries.",
    .tp_basicsize = sizeof(Operator),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_new = operator_new,
    .tp_dealloc = (destructor)operator_dealloc,
    .tp_methods = operator_methods,
};

static PyMethodDef functions[] = {
    {"xla_handler", xla_handler, METH_NOARGS, "The function that XLA calls, in a capsule."},
    {NULL},
};

int
add_operators(PyObject *module)
{
    if (PyType_Ready(&OperatorType) < 0
        || PyModule_AddObjectRef(module, "Operator", (PyObject *)&OperatorType) < 0) {
        return -1;
    }
    return PyModule_AddFunctions(module, functions);
}
