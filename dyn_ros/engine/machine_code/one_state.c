/* Copyright dyn_ros contributors
   SPDX-License-Identifier: Apache-2.0

   The call of an algorithm for one state.

   A Prepared has the addresses of everything that such a call reads and writes. Whatever is not a
   plain call with valid arrays is left to Python, which converts arguments or reports errors.
   Between the look-up of a Prepared and its results, no Python code runs. */
#define NO_IMPORT_ARRAY
#include "extension.h"

#define UNIT_TOLERANCE 1e-6             /* for squared norms of quaternions, as in lie.py */

/* --- Prepared: the call of an algorithm for one state of a Data */

/* Rows of int64 arrays that Python passes, with addresses of what a call reads and writes. */
typedef struct {
    int64_t code, ints, call_ints, floats, work, nconstraints, max_constraints, quaternions,
        nquaternions;
} Places;

typedef struct {
    int64_t target, is_passed;          /* addresses; is_passed is 1 if the caller passed it */
    int64_t rows, columns;              /* columns is 0 of a vector, and if their number is open */
    int64_t is_required, is_open, is_configuration;
} Input;

typedef struct {
    PyObject_HEAD
    PyObject *model, *memory, *results, *finish;    /* finish: returns the results, or is None */
    const Places *places;
    const Input *inputs;
    const Option *options;
    Py_ssize_t ninputs, noptions;
} Prepared;

/* Copy numbers; return true if all are finite. Compilers vectorize it, as it has no branches. */
static bool
copy_finite(double *restrict target, const double *restrict source, int64_t count)
{
    uint64_t nonfinite_bits = 0;
    for (int64_t k = 0; k < count; k++) {
        double difference = source[k] - source[k];      /* +-0 if finite, otherwise NaN */
        uint64_t bits;
        memcpy(&bits, &difference, sizeof bits);
        nonfinite_bits |= bits;
        target[k] = source[k];
    }
    return nonfinite_bits << 1 == 0;
}

/* The same for an array of one or two axes with any strides, in the order of C. */
static bool
copy_finite_strided(double *restrict target, PyArrayObject *array)
{
    const int last = PyArray_NDIM(array) - 1;
    const npy_intp rows = last > 0 ? PyArray_DIM(array, 0) : 1;
    const npy_intp columns = PyArray_DIM(array, last), step = PyArray_STRIDE(array, last);
    bool is_finite = true;
    for (npy_intp i = 0; i < rows; i++) {
        const char *source = PyArray_BYTES(array) + i * PyArray_STRIDE(array, 0);
        for (npy_intp k = 0; k < columns; k++) {
            const double x = *(const double *)(source + k * step);
            is_finite &= x - x == 0.0;
            *target++ = x;
        }
    }
    return is_finite;
}

bool
copy_numbers(double *restrict target, PyArrayObject *array)
{
    return PyArray_IS_C_CONTIGUOUS(array)
               ? copy_finite(target, PyArray_DATA(array), PyArray_SIZE(array))
               : copy_finite_strided(target, array);
}

static bool
are_unit(const Places *places, const double *q)
{
    const int64_t *starts = AT(const int64_t, places->quaternions);
    for (int64_t n = 0; n < places->nquaternions; n++) {
        const double *x = q + starts[n];
        double e = x[0] * x[0] + x[1] * x[1] + x[2] * x[2] + x[3] * x[3] - 1.0;
        if (!(e * e < UNIT_TOLERANCE * UNIT_TOLERANCE)) {
            return false;
        }
    }
    return true;
}

/* Set the number of constraints; return false if another input has a different one. */
static bool
set_constraints(const Places *places, int64_t length)
{
    int64_t *nconstraints = AT(int64_t, places->nconstraints);
    if (length > places->max_constraints || (*nconstraints >= 0 && *nconstraints != length)) {
        return false;
    }
    *nconstraints = length;
    return true;
}

static bool
has_shape(const Places *places, const Input *input, PyArrayObject *array)
{
    const int ndim = PyArray_NDIM(array);
    const npy_intp *shape = PyArray_DIMS(array);
    if (input->is_open) {
        const int expected = input->rows > 1 ? 2 : 1;
        return ndim == expected && (expected == 1 || shape[0] == input->rows)
               && set_constraints(places, shape[ndim - 1]);
    }
    if (input->columns > 0) {
        return ndim == 2 && shape[0] == input->rows && shape[1] == input->columns;
    }
    return ndim == 1 && shape[0] == input->rows;
}

static bool
copy_input(const Places *places, const Input *input, PyObject *object)
{
    int64_t *is_passed = AT(int64_t, input->is_passed);
    *is_passed = 0;
    if (object == Py_None) {
        return !input->is_required;
    }
    if (!PyArray_CheckExact(object)) {
        return false;
    }
    PyArrayObject *array = (PyArrayObject *)object;
    double *target = AT(double, input->target);
    if (PyArray_TYPE(array) != NPY_DOUBLE || !PyArray_ISBEHAVED_RO(array)
        || !has_shape(places, input, array) || !copy_numbers(target, array)
        || (input->is_configuration && !are_unit(places, target))) {
        return false;
    }
    *is_passed = 1;
    return true;
}

static int64_t
run_one(const Prepared *prepared, const DataBase *data, PyObject *model, int64_t selector,
        PyObject *const *inputs, Py_ssize_t count)
{
    const Places *places = prepared->places;
    if (data->owner != (long long)PyThread_get_thread_ident() || model != prepared->model
        || count != prepared->ninputs) {
        return REJECTED;
    }
    *AT(int64_t, places->nconstraints) = -1;
    set_options(prepared->options, prepared->noptions, selector);
    for (Py_ssize_t n = 0; n < count; n++) {
        if (!copy_input(places, &prepared->inputs[n], inputs[n])) {
            return REJECTED;
        }
    }
    return ((kernel_code)places->code)(AT(const int64_t, places->ints), AT(int64_t, places->call_ints),
                                       AT(const double, places->floats), AT(double, places->work));
}

int64_t
run_state(PyObject *object, int64_t selector, int64_t constraints, PyObject *const *inputs,
          int64_t state)
{
    const Prepared *prepared = (const Prepared *)object;
    const Places *places = prepared->places;
    *AT(int64_t, places->nconstraints) = constraints;
    set_options(prepared->options, prepared->noptions, selector);
    for (Py_ssize_t n = 0; n < prepared->ninputs; n++) {
        const Input *input = &prepared->inputs[n];
        const bool is_passed = inputs[n] != Py_None;
        *AT(int64_t, input->is_passed) = is_passed;
        if (!is_passed) {
            continue;
        }
        PyArrayObject *array = (PyArrayObject *)inputs[n];
        const bool is_matrix = input->is_open ? input->rows > 1 : input->columns > 0;
        double *target = AT(double, input->target);
        bool is_valid;
        if (PyArray_NDIM(array) == 1 + is_matrix) {
            is_valid = copy_numbers(target, array);
        }
        else {
            const double *source = PyArray_DATA(array);
            const int64_t count = PyArray_SIZE(array) / PyArray_DIM(array, 0);
            is_valid = copy_finite(target, source + state * count, count);
        }
        if (!is_valid || (input->is_configuration && !are_unit(places, target))) {
            return REJECTED;
        }
    }
    return ((kernel_code)places->code)(AT(const int64_t, places->ints), AT(int64_t, places->call_ints),
                                       AT(const double, places->floats), AT(double, places->work));
}

static PyTypeObject DataBaseType;

static PyObject *
prepared_run(PyObject *self, PyObject *arguments)
{
    PyObject *data, *model, *number, *inputs;
    int64_t selector;
    if (!PyArg_ParseTuple(arguments, "O!OOO!:run", &DataBaseType, &data, &model, &number,
                          &PyTuple_Type, &inputs)
        || as_integer(number, &selector) < 0) {
        return NULL;
    }
    return PyLong_FromLongLong(run_one(
        (Prepared *)self, (DataBase *)data, model, selector, PySequence_Fast_ITEMS(inputs),
        PyTuple_GET_SIZE(inputs)));
}

const void *
rows_of(PyObject *object, size_t size, Py_ssize_t *count)
{
    PyArrayObject *array = (PyArrayObject *)object;
    const npy_intp width = (npy_intp)(size / sizeof(int64_t));
    if (!PyArray_Check(object) || PyArray_TYPE(array) != NPY_INT64 || !PyArray_ISCARRAY_RO(array)
        || PyArray_NDIM(array) != 2 || PyArray_DIM(array, 1) != width) {
        return PyErr_Format(PyExc_ValueError, "expected a contiguous array of int64, (n, %zd)",
                            (Py_ssize_t)width);
    }
    *count = PyArray_DIM(array, 0);
    return PyArray_DATA(array);
}

static PyObject *
prepared_new(PyTypeObject *type, PyObject *arguments, PyObject *keywords)
{
    static char *names[] = {"model", "memory", "results", "finish", "places", "inputs", "options",
                            NULL};
    PyObject *model, *memory, *results, *finish, *places, *inputs, *options;
    Py_ssize_t nplaces;
    if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "OOOOOOO:Prepared", names, &model,
                                     &memory, &results, &finish, &places, &inputs, &options)) {
        return NULL;
    }
    Prepared *prepared = (Prepared *)type->tp_alloc(type, 0);
    if (prepared == NULL) {
        return NULL;
    }
    prepared->model = Py_NewRef(model);
    prepared->results = Py_NewRef(results);
    prepared->finish = Py_NewRef(finish);
    prepared->memory = PyTuple_Pack(4, memory, places, inputs, options);
    prepared->places = rows_of(places, sizeof(Places), &nplaces);
    if (prepared->memory == NULL || prepared->places == NULL
        || (prepared->inputs = rows_of(inputs, sizeof(Input), &prepared->ninputs)) == NULL
        || (prepared->options = rows_of(options, sizeof(Option), &prepared->noptions)) == NULL) {
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
    Py_XDECREF(prepared->model);
    Py_XDECREF(prepared->memory);
    Py_XDECREF(prepared->results);
    Py_XDECREF(prepared->finish);
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

/* They are immutable, and part of a cycle only through a Data, which clears its list. There is no
   tp_clear: after it, a call could find neither results nor memory. */
static PyTypeObject PreparedType = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "dyn_ros.engine.machine_code._native.Prepared",
    .tp_doc = "The memory and the machine code of an algorithm's call for one state of a Data.",
    .tp_basicsize = sizeof(Prepared),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .tp_new = prepared_new,
    .tp_methods = prepared_methods,
    .tp_members = prepared_members,
    .tp_traverse = prepared_traverse,
    .tp_dealloc = prepared_dealloc,
};

/* --- DataBase: the part of a Data that a call reads */

static PyObject *
data_new(PyTypeObject *type, PyObject *Py_UNUSED(arguments), PyObject *Py_UNUSED(keywords))
{
    DataBase *data = (DataBase *)type->tp_alloc(type, 0);
    if (data != NULL && ((data->prepared = PyList_New(0)) == NULL
                         || (data->prepared_batches = PyList_New(0)) == NULL)) {
        Py_CLEAR(data);
    }
    return (PyObject *)data;
}

static int
data_traverse(PyObject *self, visitproc visit, void *arg)
{
    Py_VISIT(((DataBase *)self)->prepared);
    Py_VISIT(((DataBase *)self)->prepared_batches);
    return 0;
}

static int
data_clear(PyObject *self)
{
    Py_CLEAR(((DataBase *)self)->prepared);
    Py_CLEAR(((DataBase *)self)->prepared_batches);
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
    {"_prepared_batches", T_OBJECT_EX, offsetof(DataBase, prepared_batches), READONLY,
     "The calls for small batches, by number; None before the first one."},
    {NULL},
};

static PyTypeObject DataBaseType = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "dyn_ros.engine.machine_code._native.DataBase",
    .tp_doc = "The base of Data: its owner, and what is prepared for its calls.",
    .tp_basicsize = sizeof(DataBase),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
    .tp_new = data_new,
    .tp_members = data_members,
    .tp_traverse = data_traverse,
    .tp_clear = data_clear,
    .tp_dealloc = data_dealloc,
};

/* --- Call: the callable behind an algorithm's public function */

typedef struct {
    PyObject_HEAD
    vectorcallfunc vectorcall;
    PyObject *checked;                  /* (model, data, threads, selector, inputs) */
    PyObject *zero_selector;           /* selector of a call without one */
    Py_ssize_t number;
    int has_selector;
} Call;

/* Return a new reference to the item of a call in a list; NULL if it is not of this type. */
static PyObject *
find_prepared(const Call *call, PyObject *list, const PyTypeObject *type)
{
    if (list == NULL || call->number >= PyList_GET_SIZE(list)) {
        return NULL;
    }
    PyObject *item = PyList_GET_ITEM(list, call->number);
    return Py_IS_TYPE(item, type) ? Py_NewRef(item) : NULL;
}

/* Return the results for one state; NULL, also without an exception, if Python has to call. */
static PyObject *
call_one(const Call *call, DataBase *data, PyObject *model, int64_t selector,
         PyObject *const *inputs, Py_ssize_t count)
{
    Prepared *prepared = (Prepared *)find_prepared(call, data->prepared, &PreparedType);
    if (prepared == NULL) {
        return NULL;
    }
    PyObject *result = NULL;
    if (run_one(prepared, data, model, selector, inputs, count) == 0) {
        result = prepared->finish == Py_None ? Py_NewRef(prepared->results)
                                             : PyObject_CallNoArgs(prepared->finish);
    }
    Py_DECREF(prepared);
    return result;
}

/* Return true for a BatchOptions of caller.py, a pair of threads and arrays for the results. */
static bool
has_out(PyObject *threads)
{
    return PyTuple_Check(threads) && !PyTuple_CheckExact(threads) && PyTuple_GET_SIZE(threads) == 2;
}

/* The same for a batch. */
static PyObject *
call_batch(const Call *call, DataBase *data, PyObject *model, PyObject *threads, int64_t selector,
           PyObject *const *inputs, Py_ssize_t count)
{
    int overflow = 0;
    PyObject *out = NULL;
    if (has_out(threads)) {
        out = PyTuple_GET_ITEM(threads, 1);
        threads = PyTuple_GET_ITEM(threads, 0);
    }
    const long nthreads = PyLong_CheckExact(threads) ? PyLong_AsLongAndOverflow(threads, &overflow)
                                                     : 0;
    if (data->owner != (long long)PyThread_get_thread_ident() || nthreads < 1) {
        return NULL;
    }
    PyObject *prepared = find_prepared(call, data->prepared_batches, &PreparedBatchType);
    if (prepared == NULL) {
        return NULL;
    }
    PyObject *result = run_small_batch(prepared, data, model, out, nthreads > 1, selector, inputs,
                                       count);
    Py_DECREF(prepared);
    return result;
}

static PyObject *
call_checked(const Call *call, PyObject *const *arguments, PyObject *selector,
             Py_ssize_t first_input, Py_ssize_t count)
{
    PyObject *inputs = PyTuple_New(count);
    if (inputs == NULL) {
        return NULL;
    }
    for (Py_ssize_t n = 0; n < count; n++) {
        PyTuple_SET_ITEM(inputs, n, Py_NewRef(arguments[first_input + n]));
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
    const Py_ssize_t first_input = 3 + call->has_selector;
    const Py_ssize_t count = PyVectorcall_NARGS(nargsf) - first_input;
    PyObject *selector = call->has_selector && count >= 0 ? arguments[3] : call->zero_selector;
    int64_t options = 0;
    if (has_keywords("the call of an algorithm", names) < 0) {
        return NULL;
    }
    if (count < 0) {
        return PyErr_Format(PyExc_TypeError, "expected model, data, threads, %sand the inputs, got "
                            "%zd arguments", call->has_selector ? "a selector " : "",
                            count + first_input);
    }
    if (call->has_selector && as_integer(selector, &options) < 0) {
        if (!PyErr_ExceptionMatches(PyExc_TypeError)) {
            return NULL;
        }
        PyErr_Clear();                              /* Python reports the error */
        return call_checked(call, arguments, selector, first_input, count);
    }
    if (PyObject_TypeCheck(arguments[1], &DataBaseType)) {
        DataBase *data = (DataBase *)arguments[1];
        PyObject *const *inputs = arguments + first_input;
        PyObject *result = NULL;
        if (!has_out(arguments[2])) {
            result = call_one(call, data, arguments[0], options, inputs, count);
        }
        if (result == NULL && !PyErr_Occurred()) {
            result = call_batch(call, data, arguments[0], arguments[2], options, inputs, count);
        }
        if (result != NULL || PyErr_Occurred()) {
            return result;
        }
    }
    return call_checked(call, arguments, selector, first_input, count);
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
        if ((call->zero_selector = PyLong_FromLong(0)) == NULL) {
            Py_CLEAR(call);
        }
    }
    return (PyObject *)call;
}

static void
call_dealloc(PyObject *self)
{
    Py_XDECREF(((Call *)self)->checked);
    Py_XDECREF(((Call *)self)->zero_selector);
    Py_TYPE(self)->tp_free(self);
}

/* Without support for cycles: a Caller, whose method is `checked`, does not refer to its Call. */
static PyTypeObject CallType = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "dyn_ros.engine.machine_code._native.Call",
    .tp_doc = "Call(number, checked, has_selector): (model, data, threads, [selector,] *inputs).",
    .tp_basicsize = sizeof(Call),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL,
    .tp_new = call_new,
    .tp_call = PyVectorcall_Call,
    .tp_vectorcall_offset = offsetof(Call, vectorcall),
    .tp_dealloc = call_dealloc,
};

/* --- */

int
add_calls(PyObject *module)
{
    return PyModule_AddType(module, &DataBaseType) < 0
                   || PyModule_AddType(module, &PreparedType) < 0
                   || PyModule_AddType(module, &CallType) < 0
               ? -1
               : 0;
}
