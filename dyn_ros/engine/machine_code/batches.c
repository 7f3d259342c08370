/* Copyright dyn_ros contributors
   SPDX-License-Identifier: Apache-2.0

   The call of an algorithm for a batch: tiles of as many states as there are lanes. */
#define NO_IMPORT_ARRAY
#include "extension.h"

#define STATUS 0                        /* an integer of the call, as in kernel/packing.py */
#define LINE 8                          /* floats per cache line, as in batch.py */

static PyObject *
set_arrays(PyObject *Py_UNUSED(module), PyObject *arguments)
{
    PyArrayObject *target;
    PyObject *arrays;
    int64_t total = 0;
    if (!PyArg_ParseTuple(arguments, "O!O!:set_arrays", &PyArray_Type, &target, &PyTuple_Type,
                          &arrays)) {
        return NULL;
    }
    const Py_ssize_t count = PyTuple_GET_SIZE(arrays);
    int64_t *row = PyArray_DATA(target);
    if (PyArray_TYPE(target) != NPY_INT64 || !PyArray_ISCARRAY(target)
        || PyArray_SIZE(target) != ARRAY * count) {
        PyErr_SetString(PyExc_ValueError, "expected a row of int64 for each array");
        return NULL;
    }
    for (Py_ssize_t n = 0; n < count; n++, row += ARRAY) {
        PyObject *array = PyTuple_GET_ITEM(arrays, n);
        if (!PyArray_Check(array) || PyArray_NDIM((PyArrayObject *)array) != 2) {
            PyErr_SetString(PyExc_ValueError, "expected arrays with two axes");
            return NULL;
        }
        if (as_address(array, &row[ADDRESS]) < 0) {
            return NULL;
        }
        row[COLUMNS] = PyArray_DIM((PyArrayObject *)array, 1);
        total += PyArray_SIZE((PyArrayObject *)array);
    }
    return PyLong_FromLongLong(total);
}

#define SIGNATURE "qqqqqqqqqpqpqpqqq"

int64_t
run_batch(const int64_t *arguments)
{
    const kernel_code code = (kernel_code)arguments[CODE];
    const packed_code gather = (packed_code)arguments[GATHER];
    const packed_code scatter = (packed_code)arguments[SCATTER];
    const int64_t *ints = AT(const int64_t, arguments[INTS]), lanes = arguments[LANES];
    const double *floats = AT(const double, arguments[FLOATS]);
    int64_t *call_ints = AT(int64_t, arguments[CALL_INTS]), status = call_ints[STATUS] = 0;
    double *work = AT(double, arguments[WORK]);
    int64_t *output = AT(int64_t, arguments[OUTPUTS]);
    for (int64_t n = 0; n < arguments[NOUTPUTS]; n++, output += ARRAY) {
        output[PAST_CACHES] = arguments[IS_LARGE] && output[COLUMNS] % LINE == 0
                              && output[ADDRESS] % (8 * LINE) == 0;     /* only full cache lines */
    }
    for (int64_t first = arguments[FIRST]; first < arguments[LAST]; first += lanes) {
        const int64_t remaining = arguments[LAST] - first;
        const int64_t states = remaining < lanes ? remaining : lanes;
        const int64_t inputs[] = {first, states, arguments[WORK], arguments[INPUTS],
                                  arguments[NINPUTS], arguments[SCRATCH]};
        const int64_t outputs[] = {first, states, arguments[WORK], arguments[OUTPUTS],
                                   arguments[NOUTPUTS], arguments[SCRATCH], arguments[EMPTY]};
        if (gather(inputs) != 0) {
            return REJECTED;
        }
        status = code(ints, call_ints, floats, work);
        scatter(outputs);
    }
    __atomic_thread_fence(__ATOMIC_SEQ_CST);        /* orders stores that bypass the caches */
    return status;
}

static PyMethodDef methods[] = {
    {"set_arrays", set_arrays, METH_VARARGS,
     "set_arrays(rows, arrays): set their addresses and columns in rows; return the total size."},
    {NULL},
};

int
add_batches(PyObject *module)
{
    PyObject *function = new_function(run_batch, SIGNATURE);
    if (function == NULL) {
        return -1;
    }
    const int status = PyModule_AddObjectRef(module, "run_batch", function);
    Py_DECREF(function);
    return status < 0 ? -1 : PyModule_AddFunctions(module, methods);
}
