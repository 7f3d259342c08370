/* Copyright dyn_ros contributors
   SPDX-License-Identifier: Apache-2.0
   Declarations that the files of the library share; users include dyn_ros.h. */
#ifndef DYN_ROS_RUNTIME_H
#define DYN_ROS_RUNTIME_H

#define DYN_ROS_NO_STDIO
#include "dyn_ros.h"
#include "layout.h"

/* Kernels take addresses as integers of 64 bits on every processor: ints, call_ints, floats and work. */
typedef int64_t (*kernel_function)(int64_t, int64_t, int64_t, int64_t);

/* The axes of shapes; LENGTH + n is an axis of n entries. */
enum { NOTHING, NQ_AXIS, NV_AXIS, NJOINTS_AXIS, ROWS_AXIS, NCOLUMNS_AXIS, NFRAMES_AXIS, CONSTRAINTS_AXIS, PADDED_AXIS,
       PARAMETERS_AXIS, MOMENTS_AXIS, PLACEMENTS_AXIS, REGRESSION_AXIS, LENGTH };
enum { UNDEFINED, ZEROS, IDENTITIES };  /* content of a field before the first call */
enum { ARGUMENT = 64 };                 /* an error about argument n, from 0, is its kind - ARGUMENT * (n + 1) */

typedef struct {
  int16_t number;                       /* index of the field in the call's integers */
  int16_t content;                      /* before the first call */
  int16_t is_optional;                  /* inputs only */
  int16_t text;                         /* inputs only: row of argument_faults */
  int16_t axes[4];
} field;

typedef struct {
  kernel_function kernel;
  const field *fields;
  int nfields;
} program;

typedef struct {
  program programs[2];                  /* one for robots without mimic joints, one for others */
  const field *inputs, *results;
  int ninputs, nresults;
} function;

extern const char *const dyn_ros_private_argument_faults[][3];
extern const int dyn_ros_private_narguments;

static inline int is_ready(const dyn_ros_model *model) { return model && model->ints; }

size_t dyn_ros_private_size(const function *f, const dyn_ros_model *model);
int dyn_ros_private_init(const function *f, const dyn_ros_model *model, void *work, size_t size);
/* Options are pairs of an index in the call's integers and the value to store there. */
int dyn_ros_private_call(const function *f, const dyn_ros_model *model, void *work, const int64_t (*options)[2],
                         int noptions, int64_t constraints, const double *const *inputs, double *const *results);
const int64_t *dyn_ros_private_section(const dyn_ros_model *model, int section);

#endif
