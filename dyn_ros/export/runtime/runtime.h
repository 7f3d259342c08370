/* Copyright dyn_ros contributors
   SPDX-License-Identifier: Apache-2.0
   What the files of the library share; users include dyn_ros.h. */
#ifndef DYN_ROS_RUNTIME_H
#define DYN_ROS_RUNTIME_H

#include "dyn_ros.h"
#include "layout.h"

typedef int64_t (*kernel_function)(const int64_t *ints, int64_t *table, const double *floats, double *work);

/* A field of the workspace: its number, the axes of its shape (LENGTH + an integer for those that do not depend on the robot),
   and what it contains before the first call. */
enum { NOTHING, NQ_AXIS, NV_AXIS, NJOINTS_AXIS, ROWS_AXIS, NCOLUMNS_AXIS, NFRAMES_AXIS, CONSTRAINTS_AXIS, PADDED_AXIS,
       PARAMETERS_AXIS, MOMENTS_AXIS, PLACEMENTS_AXIS, REGRESSION_AXIS, LENGTH };
enum { UNDEFINED, ZEROS, IDENTITIES };
typedef struct { int16_t number; int16_t content; int16_t axes[4]; } field;

typedef struct { kernel_function kernel; const field *fields; int nfields; } program;

/* An argument: which field; for an input whether it is optional, and its number in the texts of errors. */
typedef struct { int16_t number; int16_t is_optional; int16_t text; int16_t axes[4]; } argument;

typedef struct {
  program programs[2];          /* of robots without and with mimic joints */
  const argument *inputs, *results;
  int ninputs, nresults;
} function;

int64_t axis_length(const dyn_ros_model *model, int axis, int64_t constraints);
size_t workspace_size(const function *f, const dyn_ros_model *model);
int workspace_init(const function *f, const dyn_ros_model *model, void *work, size_t size);
/* Options are pairs of a place in the table and a value. */
int call(const function *f, const dyn_ros_model *model, void *work, const int64_t (*options)[2], int noptions,
         int64_t constraints, const double *const *inputs, double *const *results);

#endif
