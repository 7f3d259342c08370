/* Copyright dyn_ros contributors
   SPDX-License-Identifier: Apache-2.0
   Texts of errors. */
#include "runtime.h"

static const char *const texts[] = {
  "no error",
  "the model is NULL or not initialized; call dyn_ros_model_init",
  "the workspace is NULL",
  "the workspace was not initialized for this function and this model; call its workspace_init",
  "an address is NULL or not a multiple of 8 bytes",
  "the workspace is too small; it needs as many bytes as its workspace_size returns",
  "not a model file; write one with dyn_ros export --model",
  "the model file is not complete; write it again",
  "the model file is of another version of dyn_ros than the library; write it again",
  "the content of the model file is damaged, or was in use before; read it again",
  "an argument is NULL, but not optional",
  "a number is not finite",
  "a quaternion in q is not unit",
  "no such frame, or no joint moves it, or both frames of a contact belong to one body",
  "no such joint, or it is a mimic joint",
  "an integer is not one of the values in the header",
  "no body has this mass and inertia",
  "too many contacts, constraints, or constraints on one tip",
  "a number is negative or beyond its limits",
  "an array has more or fewer numbers than the header says",
  "the file cannot be read",
};
#define SINGULAR "a velocity (its index is this number less 1) moves almost no inertia, or inputs are not finite"
#define UNKNOWN "not an error of dyn_ros"
enum { NTEXTS = sizeof texts / sizeof *texts };

int dyn_ros_error_kind(int error) { return error > 0 ? error : -(-(int64_t)error % ARGUMENT); }

const char *dyn_ros_error_text(int error)
{
  int kind = -dyn_ros_error_kind(error), argument = (int)(-(int64_t)error / ARGUMENT) - 1;
  if (error > 0) return SINGULAR;
  if (argument < 0) return kind < NTEXTS ? texts[kind] : UNKNOWN;
  if (argument >= dyn_ros_private_narguments || kind < -DYN_ROS_MISSING || kind > -DYN_ROS_NOT_UNIT) return UNKNOWN;
  return dyn_ros_private_argument_faults[argument][kind + DYN_ROS_MISSING];
}
