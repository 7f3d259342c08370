/* Copyright dyn_ros contributors
   SPDX-License-Identifier: Apache-2.0

   The call of an algorithm for a batch: tiles of as many states as there are lanes. */
#define NO_IMPORT_ARRAY
#include "extension.h"

#include <stdlib.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

#define STATUS 0                        /* an integer of the call, as in kernel/packing.py */
#define LINE 64                         /* bytes of a cache line, as in batch_rows.py */
#define MAX_STAGED 32                   /* results of a call */
#define MAX_STAGED_SIZE (1 << 18)       /* bytes of a tile of states, which stay in the caches */

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

/* Results of which rows are no whole cache lines, but tiles of states are: they are scattered to
   memory in the caches, and copied from there past the caches. */
typedef struct {
    int64_t *output;                    /* the row of the result */
    char *target, *staging;
} Staged;

/* Copy bytes, with stores that bypass the caches where they fill cache lines. */
static void
copy_past_caches(char *target, const char *source, int64_t count)
{
    const char *end = target + count;
#ifdef __SSE2__
    int64_t before = (int64_t)(-(uintptr_t)target % LINE);
    before = before < count ? before : count;
    memcpy(target, source, (size_t)before);
    target += before;
    source += before;
    for (; end - target >= LINE; target += LINE, source += LINE) {
        for (int k = 0; k < LINE; k += 16) {
            _mm_stream_si128((__m128i *)(target + k),
                             _mm_loadu_si128((const __m128i *)(source + k)));
        }
    }
#endif
    memcpy(target, source, (size_t)(end - target));
}

/* Choose how the results are stored. Return the number of those that are staged. */
static int
choose_stores(const int64_t *arguments, Staged *staged, char **memory)
{
    int64_t *output = AT(int64_t, arguments[OUTPUTS]), bytes = 0;
    int count = 0;
    *memory = NULL;
    for (int64_t n = 0; n < arguments[NOUTPUTS]; n++, output += ARRAY) {
        const int64_t row = output[COLUMNS] * arguments[NUMBER_SIZE];
        const bool has_lines = row % LINE == 0 && output[ADDRESS] % LINE == 0
                               && output[ORDER] == 0;
        output[PAST_CACHES] = arguments[IS_LARGE] && has_lines;
#ifdef __SSE2__
        const int64_t needed = bytes + row * arguments[LANES];
        if (arguments[IS_LARGE] && !has_lines && row > 0 && count < MAX_STAGED
            && needed <= MAX_STAGED_SIZE) {
            staged[count++] = (Staged){output, AT(char, output[ADDRESS]), NULL};
            bytes = needed;
        }
#endif
    }
    if (count == 0 || (*memory = malloc((size_t)bytes)) == NULL) {
        return 0;
    }
    char *next = *memory;
    for (int n = 0; n < count; n++) {
        staged[n].staging = next;
        next += staged[n].output[COLUMNS] * arguments[NUMBER_SIZE] * arguments[LANES];
    }
    return count;
}

#define SIGNATURE "qqqqqqqqqpqpqpqqqq"

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
    Staged staged[MAX_STAGED];
    char *memory;
    const int nstaged = choose_stores(arguments, staged, &memory);
    for (int64_t first = arguments[FIRST]; first < arguments[LAST]; first += lanes) {
        const int64_t remaining = arguments[LAST] - first;
        const int64_t states = remaining < lanes ? remaining : lanes;
        const int64_t inputs[] = {first, states, arguments[WORK], arguments[INPUTS],
                                  arguments[NINPUTS], arguments[SCRATCH]};
        const int64_t outputs[] = {first, states, arguments[WORK], arguments[OUTPUTS],
                                   arguments[NOUTPUTS], arguments[SCRATCH], arguments[EMPTY]};
        if (gather(inputs) != 0) {
            status = REJECTED;
            break;
        }
        status = code(ints, call_ints, floats, work);
        for (int n = 0; n < nstaged; n++) {             /* row `first` is the one to store next */
            const int64_t row = staged[n].output[COLUMNS] * arguments[NUMBER_SIZE];
            staged[n].output[ADDRESS] = (int64_t)(intptr_t)staged[n].staging - first * row;
        }
        scatter(outputs);
        for (int n = 0; n < nstaged; n++) {
            const int64_t row = staged[n].output[COLUMNS] * arguments[NUMBER_SIZE];
            copy_past_caches(staged[n].target + first * row, staged[n].staging, states * row);
        }
    }
    free(memory);
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
