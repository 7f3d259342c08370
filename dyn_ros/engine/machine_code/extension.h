/* Copyright dyn_ros contributors
   SPDX-License-Identifier: Apache-2.0

   Declarations that the parts of the extension share. */
#ifndef DYN_ROS_EXTENSION_H
#define DYN_ROS_EXTENSION_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <structmember.h>

#define NPY_NO_DEPRECATED_API NPY_1_22_API_VERSION
#define NPY_TARGET_VERSION NPY_1_22_API_VERSION
#define PY_ARRAY_UNIQUE_SYMBOL dyn_ros_numpy
#include <numpy/arrayobject.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* The two kinds of machine code: kernels, and all other entries. */
typedef int64_t (*kernel_code)(const int64_t *ints, int64_t *call_ints, const double *floats,
                               double *work);
typedef int64_t (*packed_code)(const int64_t *arguments);

#define REJECTED (-1)           /* status of a call that Python has to handle */

#define AT(type, address) ((type *)(intptr_t)(address))

/* Convert an argument to an integer, or to the address of the data of a contiguous array, 0 for
   None. Return -1 with an exception if that fails; has_keywords does if there are keywords. */
int as_integer(PyObject *object, int64_t *value);
int as_address(PyObject *object, int64_t *value);
int has_keywords(const char *name, PyObject *names);

/* --- one_state.c */

/* The base of Data: its owner, and what is prepared for its calls. */
typedef struct {
    PyObject_HEAD
    long long owner;                    /* identifier of a thread; negative while C runs without GIL */
    PyObject *prepared;                 /* a list of Prepared or None, by number of the Call */
    PyObject *prepared_batches;         /* a list of PreparedBatch or None, likewise */
} DataBase;

typedef struct {
    int64_t target, shift, mask;
} Option;

static inline void
set_options(const Option *options, Py_ssize_t count, int64_t selector)
{
    for (Py_ssize_t n = 0; n < count; n++) {
        *AT(int64_t, options[n].target) = (selector >> options[n].shift) & options[n].mask;
    }
}

/* Copy the numbers of an array of one or two axes; return true if all are finite. */
bool copy_numbers(double *restrict target, PyArrayObject *array);

/* Copy the inputs of one state of a batch, of valid shapes, to the memory of a Prepared, and run.
   Arrays of one state hold for all states. Return the status, or REJECTED. */
int64_t run_state(PyObject *prepared, int64_t selector, int64_t constraints,
                  PyObject *const *inputs, int64_t state);

/* Return the rows of an int64 array; NULL with an exception for another type or width. */
const void *rows_of(PyObject *object, size_t size, Py_ssize_t *count);
int add_calls(PyObject *module);

/* --- batches.c */

/* Columns of the row of an array, as in call/entries.py; set_arrays sets the first two. */
enum {ADDRESS, COLUMNS, START, QUATERNIONS, NQUATERNIONS, ARRAY};
enum {TILES = START, PAST_CACHES = QUATERNIONS, IN_PLACE = QUATERNIONS, ORDER = NQUATERNIONS};

/* The arguments of run_batch. */
enum {CODE, GATHER, SCATTER, INTS, CALL_INTS, FLOATS, WORK, LANES, EMPTY, INPUTS, NINPUTS, OUTPUTS,
      NOUTPUTS, SCRATCH, NUMBER_SIZE, FIRST, LAST, IS_LARGE, NARGUMENTS};

int64_t run_batch(const int64_t *arguments);
int add_batches(PyObject *module);

/* --- buffers.c */

/* Return an object that owns memory for a result of some bytes, which is not initialized. */
PyObject *new_buffer(size_t size);
void *buffer_memory(PyObject *buffer);
int add_buffers(PyObject *module);

/* --- small_batch.c */

extern PyTypeObject PreparedBatchType;

/* Return the results of a batch; NULL without an exception if Python has to handle the call. `out`
   has arrays for results, or is NULL. With `has_threads`, Python handles calls that take longer than
   starting threads. */
PyObject *run_small_batch(PyObject *prepared, DataBase *data, PyObject *model, PyObject *out,
                          bool has_threads, int64_t selector, PyObject *const *inputs,
                          Py_ssize_t count);
int add_small_batches(PyObject *module);

/* --- operators.c */

int add_operators(PyObject *module);

/* --- extension.c */

PyObject *new_function(packed_code code, const char *signature);

#endif
