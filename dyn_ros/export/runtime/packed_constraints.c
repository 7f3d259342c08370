/* Copyright dyn_ros contributors
   SPDX-License-Identifier: Apache-2.0
   Contacts and constraints packed for kernels, as packed.py and constraints.py create them. */
#include <string.h>

#include "runtime.h"

/* Return the rotation and the origin of a frame in the frame of its joint. */
static const double *frame_placement(const dyn_ros_model *model, int frame)
{
  return model->floats + ROWS + FLOATS_ROW * (model->njoints + 1) + model->nv + FRAME_ROW * frame;
}

static int64_t joint_of(const dyn_ros_model *model, int frame)
{
  return dyn_ros_private_section(model, SECTION_FRAMES)[FRAME * frame];
}

static void put(int64_t *numbers, double x) { memcpy(numbers, &x, sizeof x); }

/* --- contacts */

dyn_ros_contact dyn_ros_contact_at(int frame, int dimension, int reference_frame)
{
  dyn_ros_contact contact = {.frame = frame, .dimension = dimension, .reference_frame = reference_frame, .other = -1};
  for (int d = 0; d < 4; d++) contact.placement[5 * d] = contact.other_placement[5 * d] = 1.0;
  return contact;
}

/* Store the rotation and the origin of a placement P (4, 4) in a frame X (rotation, origin); NULL is the world. */
static void put_placement(int64_t *numbers, const double *X, const double P[16])
{
  static const double world[12] = {1, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0};
  if (!X) X = world;
  for (int i = 0; i < 3; i++)
    for (int j = 0; j < 4; j++) {
      double x = j == 3 ? X[9 + i] : 0.0;
      for (int k = 0; k < 3; k++) x += X[3 * i + k] * P[4 * k + j];
      put(numbers + (j == 3 ? 9 + i : 3 * i + j), x);
    }
}

static int check_contact(const dyn_ros_model *model, const dyn_ros_contact *c)
{
  const double gains[2] = {c->kp, c->kd};
  if (c->frame < 0 || c->frame >= model->nframes) return DYN_ROS_NO_SUCH_FRAME;
  if (c->other < -1 || c->other >= model->nframes) return DYN_ROS_NO_SUCH_FRAME;
  if (joint_of(model, c->frame) == (c->other < 0 ? -1 : joint_of(model, c->other))) return DYN_ROS_NO_SUCH_FRAME;
  if (c->dimension != 3 && c->dimension != 6) return DYN_ROS_NO_SUCH_OPTION;
  if (c->reference_frame < 0 || c->reference_frame > 2) return DYN_ROS_NO_SUCH_OPTION;
  if (!dyn_ros_are_finite(c->placement, 16) || !dyn_ros_are_finite(c->other_placement, 16)) return DYN_ROS_NOT_FINITE;
  if (!dyn_ros_are_finite(gains, 2)) return DYN_ROS_NOT_FINITE;
  return c->kp < 0.0 || c->kd < 0.0 ? DYN_ROS_OUT_OF_RANGE : DYN_ROS_OK;
}

static int put_settings(int64_t *numbers, const dyn_ros_contact_settings *s)
{
  const dyn_ros_contact_settings defaults = {.max_iterations = 1};
  if (!s) s = &defaults;
  if (!(s->damping >= 0.0 && s->residual >= 0.0 && s->restitution >= 0.0 && s->restitution <= 1.0))
    return DYN_ROS_OUT_OF_RANGE;
  if (!dyn_ros_are_finite(&s->damping, 1) || !dyn_ros_are_finite(&s->residual, 1)) return DYN_ROS_OUT_OF_RANGE;
  if (s->max_iterations < 1 || (s->max_iterations > 1 && s->damping == 0.0)) return DYN_ROS_OUT_OF_RANGE;
  put(numbers + CONTACTS_DAMPING, s->damping);
  put(numbers + CONTACTS_TARGET_RESIDUAL, s->residual);
  numbers[CONTACTS_MAX_ITERATIONS] = s->max_iterations;
  put(numbers + CONTACTS_RESTITUTION, s->restitution);
  return DYN_ROS_OK;
}

int dyn_ros_contacts_init(const dyn_ros_model *model, dyn_ros_contacts *contacts, const dyn_ros_contact *list,
                          int count, const dyn_ros_contact_settings *settings)
{
  if (!is_ready(model)) return DYN_ROS_NO_MODEL;
  if (!contacts || (count > 0 && !list)) return DYN_ROS_MISSING;
  memset(contacts, 0, sizeof *contacts);        /* no rows if there is an error */
  if (count < 0 || count > MAX_CONSTRAINTS / 3) return DYN_ROS_TOO_MANY;
  int error = put_settings(contacts->numbers, settings), rows = 0;
  for (int n = 0; n < count && !error; n++) {
    const dyn_ros_contact *c = list + n;
    int64_t *numbers = contacts->numbers + CONTACTS_CONTACT + CONTACTS_CONTACT_SIZE * n;
    error = check_contact(model, c);
    if (error) break;
    if (rows + c->dimension > MAX_CONSTRAINTS) return DYN_ROS_TOO_MANY;
    numbers[CONTACTS_JOINT] = joint_of(model, c->frame) + 1;
    numbers[CONTACTS_JOINT + 1] = c->other < 0 ? 0 : joint_of(model, c->other) + 1;
    numbers[CONTACTS_START] = rows;
    numbers[CONTACTS_STOP] = rows += c->dimension;
    numbers[CONTACTS_REFERENCE] = c->reference_frame;
    if (c->reference_frame == DYN_ROS_WORLD) {  /* kernels compute rows in LOCAL_WORLD_ALIGNED and move the results */
      numbers[CONTACTS_REFERENCE] = DYN_ROS_LOCAL_WORLD_ALIGNED;
      numbers[CONTACTS_AT_ORIGIN] = c->dimension == 6;
    }
    put(numbers + CONTACTS_KP, c->kp);
    put(numbers + CONTACTS_KD, c->kd);
    put_placement(numbers + CONTACTS_PLACEMENT, frame_placement(model, c->frame), c->placement);
    put_placement(numbers + CONTACTS_PLACEMENT + 12, c->other < 0 ? NULL : frame_placement(model, c->other),
                  c->other_placement);
  }
  if (error) return error;
  contacts->numbers[CONTACTS_NCONTACTS] = count;
  contacts->rows = rows;
  contacts->njoints = model->njoints;
  return DYN_ROS_OK;
}

/* --- constraints */

static int check_constraints(const dyn_ros_model *model, const int *tips, const int *axes, int rows)
{
  for (int k = 0; k < rows; k++) {
    int rows_of_tip = 0;
    if (tips[k] < 0 || tips[k] >= model->nframes || joint_of(model, tips[k]) < 0) return DYN_ROS_NO_SUCH_FRAME;
    if (axes && (axes[k] < -1 || axes[k] >= model->nframes)) return DYN_ROS_NO_SUCH_FRAME;
    for (int j = 0; j < rows; j++) rows_of_tip += tips[j] == tips[k];
    if (rows_of_tip > CONSTRAINTS_MAX_PER_TIP) return DYN_ROS_TOO_MANY;
  }
  return DYN_ROS_OK;
}

int dyn_ros_constraints_init(const dyn_ros_model *model, dyn_ros_constraints *constraints, const int *tips,
                             const int *axes, int rows, int singularity, double tolerance, int priority)
{
  static const double usual[] = {1e-12, 1e-14, 1e-6};
  if (!is_ready(model)) return DYN_ROS_NO_MODEL;
  if (!constraints || (rows > 0 && !tips)) return DYN_ROS_MISSING;
  memset(constraints, 0, sizeof *constraints);
  if (rows < 0 || rows > MAX_CONSTRAINTS) return DYN_ROS_TOO_MANY;
  if (singularity < 0 || singularity > 2 || priority < 0 || priority > 3) return DYN_ROS_NO_SUCH_OPTION;
  if (!dyn_ros_are_finite(&tolerance, 1)) return DYN_ROS_NOT_FINITE;
  int error = check_constraints(model, tips, axes, rows), runs = 0;
  if (error) return error;
  int64_t *numbers = constraints->numbers, *run = numbers + CONSTRAINTS_RUNS - CONSTRAINTS_RUN;
  for (int k = 0; k < rows; k++) {
    int axes_frame = axes ? axes[k] : -1;
    if (!runs || run[CONSTRAINTS_TIP] != tips[k] || run[CONSTRAINTS_AXES] != axes_frame) {
      run += CONSTRAINTS_RUN;
      runs++;
    }
    run[CONSTRAINTS_TIP] = tips[k];
    run[CONSTRAINTS_AXES] = axes_frame;
    run[CONSTRAINTS_STOP] = k + 1;
  }
  numbers[CONSTRAINTS_POLICY] = singularity;
  put(numbers + CONSTRAINTS_TOLERANCE, tolerance < 0.0 ? usual[singularity] : tolerance);
  numbers[CONSTRAINTS_OPPOSED] = priority;
  numbers[CONSTRAINTS_NRUNS] = runs;
  constraints->rows = rows;
  constraints->nframes = model->nframes;
  return DYN_ROS_OK;
}
