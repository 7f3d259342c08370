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

int add_calls(PyObject *module);        /* one_state.c */
int add_batches(PyObject *module);      /* batches.c */
PyObject *new_function(packed_code code, const char *signature);

#endif
