/* Copyright dyn_ros contributors
   SPDX-License-Identifier: Apache-2.0

   The calls from Python to machine code: extension.py builds this module, call/ uses it.

   A prepared call has the addresses of everything that a call for one state reads and writes.
   Whatever is not a plain call with valid arrays is left to Python, which converts, or explains
   what is wrong. Between the look-up of a prepared call and its results, no Python code runs. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <structmember.h>

#define NPY_NO_DEPRECATED_API NPY_1_22_API_VERSION
#define NPY_TARGET_VERSION NPY_1_22_API_VERSION
#include <numpy/arrayobject.h>

#include <dlfcn.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

#define STATUS 0                /* entry of a table; those of layout.py */
#define REJECTED (-1)           /* a status: Python has to handle the call */

typedef int64_t (*kernel_code)(const int64_t *ints, int64_t *table, const double *floats,
                               double *work);
typedef int64_t (*packed_code)(const int64_t *arguments);

/* --- arguments */

static int
as_integer(PyObject *object, int64_t *value)
{
    PyObject *index = PyNumber_Index(object);
    if (index == NULL) {
        return -1;
    }
    *value = PyLong_AsLongLong(index);
    Py_DECREF(index);
    return *value == -1 && PyErr_Occurred() ? -1 : 0;
}

/* The address of the data of a contiguous array, or of bytes; 0 for None. */
static int
as_address(PyObject *object, int64_t *value)
{
    if (object == Py_None) {
        *value = 0;
        return 0;
    }
    if (PyBytes_Check(object)) {
        *value = (int64_t)(intptr_t)PyBytes_AS_STRING(object);
        return 0;
    }
    if (!PyArray_Check(object) || !PyArray_ISCARRAY_RO((PyArrayObject *)object)) {
        PyErr_Format(PyExc_TypeError, "expected a contiguous NumPy array, bytes or None, got %.80s",
                     Py_TYPE(object)->tp_name);
        return -1;
    }
    *value = (int64_t)(intptr_t)PyArray_DATA((PyArrayObject *)object);
    return 0;
}

static int
as_slot(char letter, PyObject *object, int64_t *slot)
{
    if (letter == 'q') {
        return as_integer(object, slot);
    }
    if (letter == 'p') {
        return as_address(object, slot);
    }
    double value = PyFloat_AsDouble(object);
    if (value == -1.0 && PyErr_Occurred()) {
        return -1;
    }
    memcpy(slot, &value, sizeof value);
    return 0;
}

static int
has_keywords(const char *name, PyObject *names)
{
    if (names == NULL || PyTuple_GET_SIZE(names) == 0) {
        return 0;
    }
    PyErr_Format(PyExc_TypeError, "%s takes no keyword arguments, got %R", name,
                 PyTuple_GET_ITEM(names, 0));
    return -1;
}

/* --- Function: machine code at an address */

#define MOST_ARGUMENTS 64

typedef struct {
    PyObject_HEAD
    vectorcallfunc vectorcall;
    PyObject *owner;                    /* of the machine code, kept in memory; or NULL */
    intptr_t code;
    Py_ssize_t count;
    char letters[MOST_ARGUMENTS + 1];
} Function;

static PyObject *
function_call(PyObject *self, PyObject *const *arguments, size_t nargsf, PyObject *names)
{
    Function *function = (Function *)self;
    Py_ssize_t count = PyVectorcall_NARGS(nargsf);
    int64_t slots[MOST_ARGUMENTS], result;
    if (has_keywords("the function", names) < 0) {
        return NULL;
    }
    if (count != function->count) {
        return PyErr_Format(PyExc_TypeError, "expected %zd arguments, got %zd", function->count,
                            count);
    }
    for (Py_ssize_t n = 0; n < count; n++) {
        if (as_slot(function->letters[n], arguments[n], &slots[n]) < 0) {
            return NULL;
        }
    }
    Py_BEGIN_ALLOW_THREADS
    if (strcmp(function->letters, "qqqq") == 0) {
        result = ((kernel_code)function->code)(
            (const int64_t *)(intptr_t)slots[0], (int64_t *)(intptr_t)slots[1],
            (const double *)(intptr_t)slots[2], (double *)(intptr_t)slots[3]);
    }
    else {
        result = ((packed_code)function->code)(slots);
    }
    Py_END_ALLOW_THREADS
    return PyLong_FromLongLong(result);
}

static PyObject *
function_new(PyTypeObject *type, PyObject *arguments, PyObject *keywords)
{
    static char *names[] = {"address", "signature", "owner", NULL};
    long long address;
    const char *signature;
    PyObject *owner = NULL;
    if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "Ls|O:Function", names, &address,
                                     &signature, &owner)) {
        return NULL;
    }
    size_t count = strlen(signature);
    if (address == 0 || count > MOST_ARGUMENTS || strspn(signature, "qdp") != count) {
        return PyErr_Format(PyExc_ValueError, "expected an address and a signature of at most %d "
                            "letters q, d and p, got %lld and '%.80s'", MOST_ARGUMENTS, address,
                            signature);
    }
    Function *function = (Function *)type->tp_alloc(type, 0);
    if (function != NULL) {
        function->vectorcall = function_call;
        function->owner = Py_XNewRef(owner);
        function->code = (intptr_t)address;
        function->count = (Py_ssize_t)count;
        memcpy(function->letters, signature, count + 1);
    }
    return (PyObject *)function;
}

static int
function_traverse(PyObject *self, visitproc visit, void *arg)
{
    Py_VISIT(((Function *)self)->owner);
    return 0;
}

static int
function_clear(PyObject *self)
{
    Py_CLEAR(((Function *)self)->owner);
    return 0;
}

static void
function_dealloc(PyObject *self)
{
    PyObject_GC_UnTrack(self);
    function_clear(self);
    Py_TYPE(self)->tp_free(self);
}

static PyTypeObject FunctionType = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "dyn_ros.engine.kernel._native.Function",
    .tp_doc = "Function(address, signature, owner=None): machine code, called without the GIL.\n\n"
              "Letters of the signature: q an integer or address, d a float, p a contiguous array\n"
              "or None. Kernels have the signature qqqq and four arguments, others the address of\n"
              "an array of theirs.",
    .tp_basicsize = sizeof(Function),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL,
    .tp_new = function_new,
    .tp_call = PyVectorcall_Call,
    .tp_vectorcall_offset = offsetof(Function, vectorcall),
    .tp_traverse = function_traverse,
    .tp_clear = function_clear,
    .tp_dealloc = function_dealloc,
};

/* --- Prepared: the call of an algorithm for one state of a Data */

typedef struct {
    double *target;
    int64_t *given;                     /* whether the caller passed it */
    int64_t rows, columns;              /* no columns: a vector. Of open inputs, only the rows */
    int required, open, quaternions;
} Input;

typedef struct {
    int64_t *target;
    int64_t shift, mask;
} Option;

typedef struct {
    PyObject_HEAD
    PyObject *model, *memory, *results, *finish;    /* finish returns the results; or None */
    kernel_code code;
    const int64_t *ints;
    int64_t *table;
    const double *floats;
    double *work;
    int64_t *nconstraints, most_constraints;
    const int64_t *quaternions;         /* where those of a configuration start */
    int64_t nquaternions;
    Py_ssize_t ninputs, noptions;
    Input *inputs;
    Option *options;
} Prepared;

/* Copy numbers; return whether all are finite. Without branches, which compilers vectorize. */
static bool
copy_finite(double *restrict target, const double *restrict source, int64_t count)
{
    uint64_t found = 0;
    for (int64_t k = 0; k < count; k++) {
        double difference = source[k] - source[k];      /* +-0, or NaN */
        uint64_t bits;
        memcpy(&bits, &difference, sizeof bits);
        found |= bits;
        target[k] = source[k];
    }
    return found << 1 == 0;
}

static bool
are_unit(const Prepared *prepared, const double *q)
{
    for (int64_t n = 0; n < prepared->nquaternions; n++) {
        const double *x = q + prepared->quaternions[n];
        double e = x[0] * x[0] + x[1] * x[1] + x[2] * x[2] + x[3] * x[3] - 1.0;
        if (!(e * e < 1e-12)) {
            return false;
        }
    }
    return true;
}

static bool
copy_input(const Prepared *prepared, const Input *input, PyObject *object)
{
    *input->given = 0;
    if (object == Py_None) {
        return !input->required;
    }
    if (!PyArray_CheckExact(object)) {
        return false;
    }
    PyArrayObject *array = (PyArrayObject *)object;
    if (PyArray_TYPE(array) != NPY_DOUBLE || !PyArray_ISCARRAY_RO(array)) {
        return false;
    }
    const int ndim = PyArray_NDIM(array);
    const npy_intp *shape = PyArray_DIMS(array);
    int64_t count = input->rows;
    if (input->open) {
        if (ndim != (count > 1 ? 2 : 1) || (ndim == 2 && shape[0] != count)) {
            return false;
        }
        const int64_t length = shape[ndim - 1];
        if (length > prepared->most_constraints
            || (*prepared->nconstraints >= 0 && *prepared->nconstraints != length)) {
            return false;
        }
        *prepared->nconstraints = length;
        count *= length;
    }
    else if (input->columns > 0) {
        if (ndim != 2 || shape[0] != count || shape[1] != input->columns) {
            return false;
        }
        count *= input->columns;
    }
    else if (ndim != 1 || shape[0] != count) {
        return false;
    }
    if (!copy_finite(input->target, PyArray_DATA(array), count)
        || (input->quaternions && !are_unit(prepared, input->target))) {
        return false;
    }
    *input->given = 1;
    return true;
}

typedef struct {
    PyObject_HEAD
    long long owner;                    /* identifier of a thread */
    PyObject *prepared;                 /* a list of Prepared or None, by number of the Call */
} DataBase;

static int64_t
run_one(const Prepared *prepared, const DataBase *data, PyObject *model, int64_t selector,
        PyObject *const *inputs, Py_ssize_t count)
{
    if (data->owner != (long long)PyThread_get_thread_ident() || model != prepared->model
        || count != prepared->ninputs) {
        return REJECTED;
    }
    *prepared->nconstraints = -1;
    for (Py_ssize_t n = 0; n < prepared->noptions; n++) {
        const Option *option = &prepared->options[n];
        *option->target = (selector >> option->shift) & option->mask;
    }
    for (Py_ssize_t n = 0; n < count; n++) {
        if (!copy_input(prepared, &prepared->inputs[n], inputs[n])) {
            return REJECTED;
        }
    }
    return prepared->code(prepared->ints, prepared->table, prepared->floats, prepared->work);
}

static PyTypeObject DataBaseType;

static PyObject *
prepared_run(PyObject *self, PyObject *arguments)
{
    PyObject *data, *model, *given, *inputs;
    int64_t selector;
    if (!PyArg_ParseTuple(arguments, "O!OOO!:run", &DataBaseType, &data, &model, &given,
                          &PyTuple_Type, &inputs)
        || as_integer(given, &selector) < 0) {
        return NULL;
    }
    return PyLong_FromLongLong(run_one(
        (Prepared *)self, (DataBase *)data, model, selector, PySequence_Fast_ITEMS(inputs),
        PyTuple_GET_SIZE(inputs)));
}

static int
read_inputs(Prepared *prepared, PyObject *rows)
{
    prepared->ninputs = PyTuple_GET_SIZE(rows);
    prepared->inputs = PyMem_Calloc((size_t)prepared->ninputs, sizeof(Input));
    if (prepared->inputs == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    for (Py_ssize_t n = 0; n < prepared->ninputs; n++) {
        Input *input = &prepared->inputs[n];
        long long target, given, height, width;
        if (!PyArg_ParseTuple(PyTuple_GET_ITEM(rows, n), "LLLLppp", &target, &given, &height,
                              &width, &input->required, &input->open, &input->quaternions)) {
            return -1;
        }
        input->target = (double *)(intptr_t)target;
        input->given = (int64_t *)(intptr_t)given;
        input->rows = height;
        input->columns = width;
    }
    return 0;
}

static int
read_options(Prepared *prepared, PyObject *rows)
{
    prepared->noptions = PyTuple_GET_SIZE(rows);
    prepared->options = PyMem_Calloc((size_t)prepared->noptions, sizeof(Option));
    if (prepared->options == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    for (Py_ssize_t n = 0; n < prepared->noptions; n++) {
        Option *option = &prepared->options[n];
        long long target, shift, mask;
        if (!PyArg_ParseTuple(PyTuple_GET_ITEM(rows, n), "LLL", &target, &shift, &mask)) {
            return -1;
        }
        option->target = (int64_t *)(intptr_t)target;
        option->shift = shift;
        option->mask = mask;
    }
    return 0;
}

static PyObject *
prepared_new(PyTypeObject *type, PyObject *arguments, PyObject *keywords)
{
    static char *names[] = {"model", "memory", "results", "finish", "code", "addresses",
                            "nconstraints", "most_constraints", "quaternions", "nquaternions",
                            "inputs", "options", NULL};
    PyObject *model, *memory, *results, *finish, *inputs, *options;
    long long code, ints, table, floats, work, nconstraints, most, quaternions, nquaternions;
    if (!PyArg_ParseTupleAndKeywords(
            arguments, keywords, "OOOOL(LLLL)LLLLO!O!:Prepared", names, &model, &memory, &results,
            &finish, &code, &ints, &table, &floats, &work, &nconstraints, &most, &quaternions,
            &nquaternions, &PyTuple_Type, &inputs, &PyTuple_Type, &options)) {
        return NULL;
    }
    Prepared *prepared = (Prepared *)type->tp_alloc(type, 0);
    if (prepared == NULL) {
        return NULL;
    }
    prepared->code = (kernel_code)(intptr_t)code;
    prepared->ints = (const int64_t *)(intptr_t)ints;
    prepared->table = (int64_t *)(intptr_t)table;
    prepared->floats = (const double *)(intptr_t)floats;
    prepared->work = (double *)(intptr_t)work;
    prepared->nconstraints = (int64_t *)(intptr_t)nconstraints;
    prepared->most_constraints = most;
    prepared->quaternions = (const int64_t *)(intptr_t)quaternions;
    prepared->nquaternions = nquaternions;
    prepared->model = Py_NewRef(model);
    prepared->memory = Py_NewRef(memory);
    prepared->results = Py_NewRef(results);
    prepared->finish = Py_NewRef(finish);
    if (read_inputs(prepared, inputs) < 0 || read_options(prepared, options) < 0) {
        Py_CLEAR(prepared);
    }
    return (PyObject *)prepared;
}

static int
prepared_traverse(PyObject *self, visitproc visit, void *arg)
{
    Prepared *prepared = (Prepared *)self;
    Py_VISIT(prepared->model);
    Py_VISIT(prepared->memory);
    Py_VISIT(prepared->results);
    Py_VISIT(prepared->finish);
    return 0;
}

static void
prepared_dealloc(PyObject *self)
{
    Prepared *prepared = (Prepared *)self;
    PyObject_GC_UnTrack(self);
    Py_CLEAR(prepared->model);
    Py_CLEAR(prepared->memory);
    Py_CLEAR(prepared->results);
    Py_CLEAR(prepared->finish);
    PyMem_Free(prepared->inputs);
    PyMem_Free(prepared->options);
    Py_TYPE(self)->tp_free(self);
}

static PyMethodDef prepared_methods[] = {
    {"run", prepared_run, METH_VARARGS,
     "run(data, model, selector, inputs): copy a tuple of inputs, call; return the status."},
    {NULL},
};

static PyMemberDef prepared_members[] = {
    {"results", T_OBJECT_EX, offsetof(Prepared, results), READONLY, NULL},
    {"finish", T_OBJECT_EX, offsetof(Prepared, finish), READONLY, NULL},
    {NULL},
};

/* Immutable, and members of no cycle but through a Data, which clears its list: no tp_clear, after
   which a call could find neither results nor memory. */
static PyTypeObject PreparedType = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "dyn_ros.engine.kernel._native.Prepared",
    .tp_doc = "The memory and the machine code of an algorithm's call for one state of a Data.",
    .tp_basicsize = sizeof(Prepared),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .tp_new = prepared_new,
    .tp_methods = prepared_methods,
    .tp_members = prepared_members,
    .tp_traverse = prepared_traverse,
    .tp_dealloc = prepared_dealloc,
};

/* --- DataBase: what a call reads from a Data */

static PyObject *
data_new(PyTypeObject *type, PyObject *Py_UNUSED(arguments), PyObject *Py_UNUSED(keywords))
{
    DataBase *data = (DataBase *)type->tp_alloc(type, 0);
    if (data != NULL && (data->prepared = PyList_New(0)) == NULL) {
        Py_CLEAR(data);
    }
    return (PyObject *)data;
}

static int
data_traverse(PyObject *self, visitproc visit, void *arg)
{
    Py_VISIT(((DataBase *)self)->prepared);
    return 0;
}

static int
data_clear(PyObject *self)
{
    Py_CLEAR(((DataBase *)self)->prepared);
    return 0;
}

static void
data_dealloc(PyObject *self)
{
    PyObject_GC_UnTrack(self);
    data_clear(self);
    Py_TYPE(self)->tp_free(self);
}

static PyMemberDef data_members[] = {
    {"_owner", T_LONGLONG, offsetof(DataBase, owner), 0, "The identifier of a thread."},
    {"_prepared", T_OBJECT_EX, offsetof(DataBase, prepared), READONLY,
     "The calls for one state, by number; None before the first one."},
    {NULL},
};

static PyTypeObject DataBaseType = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "dyn_ros.engine.kernel._native.DataBase",
    .tp_doc = "The base of Data: its owner, and what is prepared for its calls.",
    .tp_basicsize = sizeof(DataBase),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
    .tp_new = data_new,
    .tp_members = data_members,
    .tp_traverse = data_traverse,
    .tp_clear = data_clear,
    .tp_dealloc = data_dealloc,
};

/* --- Call: what an algorithm's public function calls */

typedef struct {
    PyObject_HEAD
    vectorcallfunc vectorcall;
    PyObject *checked;                  /* (model, data, threads, selector, inputs) */
    PyObject *zero;                     /* the selector of a call without one */
    Py_ssize_t number;
    int has_selector;
} Call;

/* The new reference to what is prepared for a call; NULL if nothing is. */
static Prepared *
find_prepared(const Call *call, PyObject *data)
{
    if (!PyObject_TypeCheck(data, &DataBaseType)) {
        return NULL;
    }
    PyObject *list = ((DataBase *)data)->prepared;
    if (list == NULL || call->number >= PyList_GET_SIZE(list)) {
        return NULL;
    }
    PyObject *item = PyList_GET_ITEM(list, call->number);
    if (!Py_IS_TYPE(item, &PreparedType)) {
        return NULL;
    }
    return (Prepared *)Py_NewRef(item);
}

static PyObject *
call_checked(const Call *call, PyObject *const *arguments, PyObject *selector, Py_ssize_t before,
             Py_ssize_t count)
{
    PyObject *inputs = PyTuple_New(count);
    if (inputs == NULL) {
        return NULL;
    }
    for (Py_ssize_t n = 0; n < count; n++) {
        PyTuple_SET_ITEM(inputs, n, Py_NewRef(arguments[before + n]));
    }
    PyObject *result = PyObject_CallFunctionObjArgs(
        call->checked, arguments[0], arguments[1], arguments[2], selector, inputs, NULL);
    Py_DECREF(inputs);
    return result;
}

static PyObject *
call_call(PyObject *self, PyObject *const *arguments, size_t nargsf, PyObject *names)
{
    const Call *call = (Call *)self;
    const Py_ssize_t before = 3 + call->has_selector, count = PyVectorcall_NARGS(nargsf) - before;
    PyObject *selector = call->has_selector && count >= 0 ? arguments[3] : call->zero;
    int64_t options = 0;
    if (has_keywords("the call of an algorithm", names) < 0) {
        return NULL;
    }
    if (count < 0) {
        return PyErr_Format(PyExc_TypeError, "expected model, data, threads, %sand the inputs, got "
                            "%zd arguments", call->has_selector ? "a selector " : "",
                            count + before);
    }
    if (call->has_selector && as_integer(selector, &options) < 0) {
        if (!PyErr_ExceptionMatches(PyExc_TypeError)) {
            return NULL;
        }
        PyErr_Clear();                              /* Python explains it */
        return call_checked(call, arguments, selector, before, count);
    }
    Prepared *prepared = find_prepared(call, arguments[1]);
    if (prepared == NULL) {
        return call_checked(call, arguments, selector, before, count);
    }
    PyObject *result = NULL;
    const bool done = run_one(prepared, (DataBase *)arguments[1], arguments[0], options,
                              arguments + before, count) == 0;
    if (done) {
        result = prepared->finish == Py_None ? Py_NewRef(prepared->results)
                                             : PyObject_CallNoArgs(prepared->finish);
    }
    Py_DECREF(prepared);
    return done ? result : call_checked(call, arguments, selector, before, count);
}

static PyObject *
call_new(PyTypeObject *type, PyObject *arguments, PyObject *keywords)
{
    static char *names[] = {"number", "checked", "has_selector", NULL};
    Py_ssize_t number;
    PyObject *checked;
    int has_selector;
    if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "nOp:Call", names, &number, &checked,
                                     &has_selector)) {
        return NULL;
    }
    if (number < 0) {
        return PyErr_Format(PyExc_ValueError, "number: expected 0 or more, got %zd", number);
    }
    Call *call = (Call *)type->tp_alloc(type, 0);
    if (call != NULL) {
        call->vectorcall = call_call;
        call->checked = Py_NewRef(checked);
        call->number = number;
        call->has_selector = has_selector;
        if ((call->zero = PyLong_FromLong(0)) == NULL) {
            Py_CLEAR(call);
        }
    }
    return (PyObject *)call;
}

static int
call_traverse(PyObject *self, visitproc visit, void *arg)
{
    Py_VISIT(((Call *)self)->checked);
    return 0;
}

static void
call_dealloc(PyObject *self)
{
    PyObject_GC_UnTrack(self);
    Py_CLEAR(((Call *)self)->checked);
    Py_CLEAR(((Call *)self)->zero);
    Py_TYPE(self)->tp_free(self);
}

static PyTypeObject CallType = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "dyn_ros.engine.kernel._native.Call",
    .tp_doc = "Call(number, checked, has_selector): (model, data, threads, [selector,] *inputs).",
    .tp_basicsize = sizeof(Call),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL,
    .tp_new = call_new,
    .tp_call = PyVectorcall_Call,
    .tp_vectorcall_offset = offsetof(Call, vectorcall),
    .tp_traverse = call_traverse,
    .tp_dealloc = call_dealloc,
};

/* --- batches */

/* The arguments of gather or scatter, for one array. All are set by set_rows and batch.py, except
   for the states of a tile. Of gather, the last two are quaternions. */
enum {FIRST, STATES, ADDRESS, COLUMNS, WORK, TILES, PAST_CACHES, EMPTY, ROW};

static PyObject *
set_rows(PyObject *Py_UNUSED(module), PyObject *arguments)
{
    PyArrayObject *target;
    PyObject *arrays;
    int64_t total = 0;
    if (!PyArg_ParseTuple(arguments, "O!O!:set_rows", &PyArray_Type, &target, &PyTuple_Type,
                          &arrays)) {
        return NULL;
    }
    const Py_ssize_t count = PyTuple_GET_SIZE(arrays);
    int64_t *row = PyArray_DATA(target);
    if (PyArray_TYPE(target) != NPY_INT64 || !PyArray_ISCARRAY(target)
        || PyArray_SIZE(target) != ROW * count) {
        PyErr_SetString(PyExc_ValueError, "expected a row of int64 for each array");
        return NULL;
    }
    for (Py_ssize_t n = 0; n < count; n++, row += ROW) {
        PyObject *array = PyTuple_GET_ITEM(arrays, n);
        if (as_address(array, &row[ADDRESS]) < 0) {
            return NULL;
        }
        if (array == Py_None || PyArray_NDIM((PyArrayObject *)array) != 2) {
            PyErr_SetString(PyExc_ValueError, "expected arrays with two axes");
            return NULL;
        }
        row[COLUMNS] = PyArray_DIM((PyArrayObject *)array, 1);
        total += PyArray_SIZE((PyArrayObject *)array);
    }
    return PyLong_FromLongLong(total);
}

static int64_t
move_rows(packed_code move, int64_t *rows, int64_t count, int64_t first, int64_t states)
{
    for (int64_t n = 0; n < count; n++) {
        rows[ROW * n + FIRST] = first;
        rows[ROW * n + STATES] = states;
        if (move(rows + ROW * n) != 0) {
            return REJECTED;
        }
    }
    return 0;
}

#define BATCH_SIGNATURE "qqqqqqqqpqpqqqq"

static int64_t
run_batch(const int64_t *arguments)
{
    const kernel_code code = (kernel_code)(intptr_t)arguments[0];
    const packed_code gather = (packed_code)(intptr_t)arguments[1];
    const packed_code scatter = (packed_code)(intptr_t)arguments[2];
    const int64_t *ints = (const int64_t *)(intptr_t)arguments[3];
    int64_t *table = (int64_t *)(intptr_t)arguments[4];
    const double *floats = (const double *)(intptr_t)arguments[5];
    double *work = (double *)(intptr_t)arguments[6];
    const int64_t lanes = arguments[7], start = arguments[12], stop = arguments[13];
    int64_t *inputs = (int64_t *)(intptr_t)arguments[8];
    int64_t *outputs = (int64_t *)(intptr_t)arguments[10];
    int64_t status = table[STATUS] = 0;
    for (int64_t n = 0; n < arguments[11]; n++) {
        int64_t *row = outputs + ROW * n;           /* only whole cache lines past the caches */
        row[PAST_CACHES] = arguments[14] && row[COLUMNS] % lanes == 0
                           && row[ADDRESS] % (8 * lanes) == 0;
    }
    for (int64_t first = start; first < stop; first += lanes) {
        const int64_t states = stop - first < lanes ? stop - first : lanes;
        if (move_rows(gather, inputs, arguments[9], first, states) != 0) {
            return REJECTED;
        }
        status = code(ints, table, floats, work);
        move_rows(scatter, outputs, arguments[11], first, states);
    }
    __atomic_thread_fence(__ATOMIC_SEQ_CST);        /* scatter may store past the caches */
    return status;
}

/* --- libraries of machine code */

typedef struct {
    PyObject_HEAD
    void *handle;                       /* never closed: functions in it have no other owner */
} Library;

static PyTypeObject LibraryType;

static PyObject *
open_library(PyObject *Py_UNUSED(module), PyObject *path)
{
    PyObject *bytes;
    if (!PyUnicode_FSConverter(path, &bytes)) {
        return NULL;
    }
    void *handle = dlopen(PyBytes_AS_STRING(bytes), RTLD_NOW | RTLD_LOCAL);
    Py_DECREF(bytes);
    if (handle == NULL) {
        PyErr_SetString(PyExc_OSError, dlerror());
        return NULL;
    }
    Library *library = PyObject_New(Library, &LibraryType);
    if (library != NULL) {
        library->handle = handle;
    }
    return (PyObject *)library;
}

static PyObject *
library_address(PyObject *self, PyObject *symbol)
{
    const char *name = PyUnicode_AsUTF8(symbol);
    if (name == NULL) {
        return NULL;
    }
    return PyLong_FromVoidPtr(dlsym(((Library *)self)->handle, name));
}

static PyMethodDef library_methods[] = {
    {"address", library_address, METH_O, "The address of a symbol; 0 if it is absent."},
    {NULL},
};

static PyTypeObject LibraryType = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "dyn_ros.engine.kernel._native.Library",
    .tp_doc = "A shared library that is kept open.",
    .tp_basicsize = sizeof(Library),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .tp_methods = library_methods,
};

#if defined(__x86_64__)
/* Not all compilers know the names of levels, and of F16C, MOVBE and LZCNT. */
static const char *
best_level(void)
{
    unsigned a, b, basic, extended, d;
    __builtin_cpu_init();
    if (!__get_cpuid(1, &a, &b, &basic, &d) || !__get_cpuid(0x80000001, &a, &b, &extended, &d)
        || !__builtin_cpu_supports("sse4.2") || !__builtin_cpu_supports("popcnt")) {
        return "";
    }
    const unsigned f16c = 1u << 29, movbe = 1u << 22, lzcnt = 1u << 5;
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")
        || !__builtin_cpu_supports("bmi") || !__builtin_cpu_supports("bmi2")
        || !(basic & f16c) || !(basic & movbe) || !(extended & lzcnt)) {
        return "x86-64-v2";
    }
    if (!__builtin_cpu_supports("avx512f") || !__builtin_cpu_supports("avx512bw")
        || !__builtin_cpu_supports("avx512cd") || !__builtin_cpu_supports("avx512dq")
        || !__builtin_cpu_supports("avx512vl")) {
        return "x86-64-v3";
    }
    return "x86-64-v4";
}
#elif defined(__aarch64__)
static const char *
best_level(void)
{
    return "aarch64";
}
#else
static const char *
best_level(void)
{
    return "";
}
#endif

static PyObject *
level(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(nothing))
{
    return PyUnicode_FromString(best_level());
}

static PyObject *
address(PyObject *Py_UNUSED(module), PyObject *array)
{
    int64_t value;
    return as_address(array, &value) < 0 ? NULL : PyLong_FromLongLong(value);
}

/* --- the module */

static PyMethodDef methods[] = {
    {"address", address, METH_O, "The address of the data of a contiguous array; 0 for None."},
    {"level", level, METH_NOARGS,
     "The best of x86-64-v4, -v3, -v2 and aarch64 that the processor supports; '' if none."},
    {"set_rows", set_rows, METH_VARARGS,
     "set_rows(rows, arrays): set the addresses and columns in rows; return the total size."},
    {"open_library", open_library, METH_O, "Open a shared library, for good; OSError."},
    {NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "dyn_ros.engine.kernel._native",
    .m_doc = "Calls from Python to machine code.",
    .m_size = -1,
    .m_methods = methods,
};

static int
add_type(PyObject *module, const char *name, PyTypeObject *type)
{
    if (PyType_Ready(type) < 0) {
        return -1;
    }
    return PyModule_AddObjectRef(module, name, (PyObject *)type);
}

static int
add_batch(PyObject *module)
{
    PyObject *function = PyObject_CallFunction((PyObject *)&FunctionType, "Ls",
                                               (long long)(intptr_t)run_batch, BATCH_SIGNATURE);
    if (function == NULL) {
        return -1;
    }
    const int status = PyModule_AddObjectRef(module, "run_batch", function);
    Py_DECREF(function);
    return status;
}

PyMODINIT_FUNC
PyInit__native(void)
{
    import_array();
    PyObject *module = PyModule_Create(&definition);
    if (module == NULL) {
        return NULL;
    }
    if (add_type(module, "Function", &FunctionType) < 0
        || add_type(module, "Prepared", &PreparedType) < 0
        || add_type(module, "DataBase", &DataBaseType) < 0
        || add_type(module, "Call", &CallType) < 0
        || add_type(module, "Library", &LibraryType) < 0
        || add_batch(module) < 0) {
        Py_CLEAR(module);
    }
    return module;
}
