/* Copyright dyn_ros contributors
   SPDX-License-Identifier: Apache-2.0
   Workspaces, which consist of the integers of a call and of the fields, and calls, which copy arguments to fields
   and fields to results. */
#include <string.h>

#include "runtime.h"

typedef struct {
  const function *owner;
  const int64_t *ints;          /* those of the model that the workspace is for */
  int64_t call_ints[CALL_INTS];
} head;

enum { HEAD = (sizeof(head) + 63) / 64 * 64, BEHIND = SIMD_WIDTH };   /* kernels may read past the last field */

static double *floats_of(void *work) { return (double *)((char *)work + HEAD); }

static int64_t rounded(int64_t n) { return (n + SIMD_WIDTH - 1) / SIMD_WIDTH * SIMD_WIDTH; }

static int64_t axis_length(const dyn_ros_model *model, int axis, int64_t constraints)
{
  int64_t n = model->njoints;
  switch (axis) {
  case NQ_AXIS: return model->nq;
  case NV_AXIS: return model->nv;
  case NJOINTS_AXIS: return n;
  case ROWS_AXIS: return n + 1;
  case NCOLUMNS_AXIS: return model->ints[INTS_NALLCOLUMNS];
  case NFRAMES_AXIS: return model->nframes;
  case CONSTRAINTS_AXIS: return constraints;
  case PADDED_AXIS: return rounded(model->nv);
  case PARAMETERS_AXIS: return 10 * n;
  case MOMENTS_AXIS: return 4 * n;
  case PLACEMENTS_AXIS: return 6 * n;
  case REGRESSION_AXIS: return rounded(10 * n) + SIMD_WIDTH;
  default: return axis - LENGTH;
  }
}

static int64_t count(const dyn_ros_model *model, const int16_t axes[4], int64_t constraints)
{
  int64_t product = 1;
  for (int n = 0; n < 4 && axes[n] != NOTHING; n++) product *= axis_length(model, axes[n], constraints);
  return product;
}

static const program *program_for(const function *f, const dyn_ros_model *model)
{
  return &f->programs[model->ints[INTS_HAS_MIMIC_JOINTS] != 0];
}

size_t dyn_ros_private_size(const function *f, const dyn_ros_model *model)
{
  if (!is_ready(model)) return 0;
  const program *p = program_for(f, model);
  int64_t floats = BEHIND;
  for (int n = 0; n < p->nfields; n++) floats += count(model, p->fields[n].axes, MAX_CONSTRAINTS);
  return HEAD + sizeof(double) * (size_t)floats;
}

static void fill(double *numbers, int64_t size, int content)
{
  const uint64_t undefined = 0x7ff8000000000000;        /* a NaN: results that depend on it are NaN, too */
  memset(numbers, 0, sizeof(double) * (size_t)size);
  if (content == UNDEFINED) {
    for (int64_t k = 0; k < size; k++) memcpy(&numbers[k], &undefined, sizeof undefined);
  } else if (content == IDENTITIES) {
    for (int64_t k = 0; k < size; k += 16)
      for (int d = 0; d < 4; d++) numbers[k + 5 * d] = 1.0;
  }
}

int dyn_ros_private_init(const function *f, const dyn_ros_model *model, void *work, size_t size)
{
  if (!is_ready(model)) return DYN_ROS_NO_MODEL;
  if (!work) return DYN_ROS_NO_WORKSPACE;
  if ((uintptr_t)work % sizeof(double)) return DYN_ROS_NOT_ALIGNED;
  if (size < dyn_ros_private_size(f, model)) return DYN_ROS_TOO_SMALL;
  const program *p = program_for(f, model);
  head *h = work;
  double *floats = floats_of(work);
  int64_t end = 0;
  memset(h, 0, sizeof *h);
  for (int n = 0; n < p->nfields; n++) {
    const field *a = &p->fields[n];
    int64_t entries = count(model, a->axes, MAX_CONSTRAINTS);
    h->call_ints[OFFSET + a->number] = end;
    h->call_ints[SIZE + a->number] = entries;
    fill(floats + end, entries, a->content);
    end += entries;
  }
  memset(floats + end, 0, BEHIND * sizeof(double));
  h->owner = f;
  h->ints = model->ints;
  return DYN_ROS_OK;
}

/* --- calls */

int dyn_ros_are_finite(const double *numbers, size_t n)
{
  double sum = 0.0;
  for (size_t k = 0; k < n; k++) sum += numbers[k] - numbers[k];        /* NaN unless the number is finite */
  return sum == 0.0;
}

static int are_unit(const dyn_ros_model *model, const double *q)
{
  for (int64_t n = 0; n < model->ints[INTS_NUNIT]; n++) {
    const double *x = q + model->ints[model->ints[INTS_UNIT_LIST] + n];
    double e = x[0] * x[0] + x[1] * x[1] + x[2] * x[2] + x[3] * x[3] - 1.0;
    if (!(e * e < UNIT_TOLERANCE * UNIT_TOLERANCE)) return 0;
  }
  return 1;
}

static int check(const dyn_ros_model *model, const field *a, const double *numbers, int64_t size)
{
  if (!dyn_ros_are_finite(numbers, (size_t)size)) return DYN_ROS_NOT_FINITE - ARGUMENT * (a->text + 1);
  if (a->axes[0] == NQ_AXIS && !are_unit(model, numbers)) return DYN_ROS_NOT_UNIT - ARGUMENT * (a->text + 1);
  return DYN_ROS_OK;
}

int dyn_ros_private_call(const function *f, const dyn_ros_model *model, void *work, const int64_t (*options)[2],
                         int noptions, int64_t constraints, const double *const *inputs, double *const *results)
{
  head *h = work;
  if (!is_ready(model)) return DYN_ROS_NO_MODEL;
  if (!h) return DYN_ROS_NO_WORKSPACE;
  if (h->owner != f || h->ints != model->ints) return DYN_ROS_OTHER_WORKSPACE;
  double *floats = floats_of(work);
  for (int n = 0; n < f->ninputs; n++) {
    const field *a = &f->inputs[n];
    int64_t size = count(model, a->axes, constraints);
    h->call_ints[HAS_INPUT + a->number] = inputs[n] != NULL;
    if (inputs[n]) {
      if (model->checks) {
        int code = check(model, a, inputs[n], size);
        if (code) return code;
      }
      memcpy(floats + h->call_ints[OFFSET + a->number], inputs[n], sizeof(double) * (size_t)size);
    } else if (!a->is_optional && size > 0) {
      return DYN_ROS_MISSING - ARGUMENT * (a->text + 1);
    }
  }
  for (int n = 0; n < noptions; n++) h->call_ints[options[n][0]] = options[n][1];
  h->call_ints[NCONSTRAINTS] = constraints;
  int64_t status = program_for(f, model)->kernel((intptr_t)model->ints, (intptr_t)h->call_ints,
                                                 (intptr_t)model->floats, (intptr_t)floats);
  for (int n = 0; n < f->nresults; n++) {
    const field *a = &f->results[n];
    if (!results[n]) continue;
    int64_t size = count(model, a->axes, constraints), start = h->call_ints[OFFSET + a->number];
    if (a->axes[0] == ROWS_AXIS) {              /* omit the row of the universe */
      int64_t row = size / (model->njoints + 1);
      start += row;
      size -= row;
    }
    memcpy(results[n], floats + start, sizeof(double) * (size_t)size);
  }
  return (int)status;
}
