/* Copyright dyn_ros contributors
   SPDX-License-Identifier: Apache-2.0

   The call of an algorithm for a batch: tiles of as many states as there are lanes. */
#define NO_IMPORT_ARRAY
#include "extension.h"

#define STATUS 0                        /* entry of a table, as in layout.py */

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
    for (int64_t *row = rows; row < rows + ROW * count; row += ROW) {
        row[FIRST] = first;
        row[STATES] = states;
        if (row[COLUMNS] > 0 && move(row) != 0) {
            return REJECTED;
        }
    }
    return 0;
}

/* The arguments of run_batch. */
enum {CODE, GATHER, SCATTER, INTS, TABLE, FLOATS, LANES_WORK, LANES, INPUTS, NINPUTS, OUTPUTS,
      NOUTPUTS, START, STOP, IS_LARGE};
#define SIGNATURE "qqqqqqqqpqpqqqq"

static int64_t
run_batch(const int64_t *arguments)
{
    const int64_t lanes = arguments[LANES], stop = arguments[STOP];
    int64_t *table = AT(int64_t, arguments[TABLE]), *outputs = AT(int64_t, arguments[OUTPUTS]);
    int64_t status = table[STATUS] = 0;
    for (int64_t *row = outputs; row < outputs + ROW * arguments[NOUTPUTS]; row += ROW) {
        row[PAST_CACHES] = arguments[IS_LARGE] && row[COLUMNS] % lanes == 0
                           && row[ADDRESS] % (8 * lanes) == 0;      /* whole cache lines */
    }
    for (int64_t first = arguments[START]; first < stop; first += lanes) {
        const int64_t states = stop - first < lanes ? stop - first : lanes;
        if (move_rows((packed_code)arguments[GATHER], AT(int64_t, arguments[INPUTS]),
                      arguments[NINPUTS], first, states) != 0) {
            return REJECTED;
        }
        status = ((kernel_code)arguments[CODE])(
            AT(const int64_t, arguments[INTS]), table, AT(const double, arguments[FLOATS]),
            AT(double, arguments[LANES_WORK]));
        move_rows((packed_code)arguments[SCATTER], outputs, arguments[NOUTPUTS], first, states);
    }
    __atomic_thread_fence(__ATOMIC_SEQ_CST);        /* after stores past the caches */
    return status;
}

static PyMethodDef methods[] = {
    {"set_rows", set_rows, METH_VARARGS,
     "set_rows(rows, arrays): set the addresses and columns in rows; return the total size."},
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
