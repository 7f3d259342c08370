/* Copyright dyn_ros contributors
   SPDX-License-Identifier: Apache-2.0
   Parameters of a model that can be set: gravity, armature, locked joints, inertias and payloads. */
#include <string.h>

#include "runtime.h"

#define LOCKED 1e30     /* armature of a locked joint */
#define MAX_VALUE 1e30  /* limit of masses, centers of mass and inertias, as in Python */

static double *section(dyn_ros_model *model, int n) { return (double *)(intptr_t)dyn_ros_private_section(model, n); }

static double *body(const dyn_ros_model *model, int joint)      /* parameters with payloads */
{
  return model->floats + ROWS + FLOATS_ROW * (joint + 1) + INERTIA;
}

static double *armature(const dyn_ros_model *model) { return model->floats + ROWS + FLOATS_ROW * (model->njoints + 1); }

static double *link(const dyn_ros_model *model, int frame)      /* parameters with payloads */
{
  return armature(model) + model->nv + FRAME_ROW * model->nframes + INERTIA_ROW * frame;
}

int dyn_ros_set_gravity(dyn_ros_model *model, const double gravity[3])
{
  if (!is_ready(model)) return DYN_ROS_NO_MODEL;
  if (!gravity) return DYN_ROS_MISSING;
  if (!dyn_ros_are_finite(gravity, 3)) return DYN_ROS_NOT_FINITE;
  memcpy(model->floats + GRAVITY, gravity, 3 * sizeof(double));
  return DYN_ROS_OK;
}

int dyn_ros_set_armature(dyn_ros_model *model, const double *values)
{
  if (!is_ready(model)) return DYN_ROS_NO_MODEL;
  if (!values) return DYN_ROS_MISSING;
  if (!dyn_ros_are_finite(values, (size_t)model->nv)) return DYN_ROS_NOT_FINITE;
  memcpy(section(model, SECTION_ARMATURE), values, sizeof(double) * (size_t)model->nv);
  for (int k = 0; k < model->nv; k++)
    if (armature(model)[k] != LOCKED) armature(model)[k] = values[k];
  return DYN_ROS_OK;
}

int dyn_ros_lock_joint(dyn_ros_model *model, int joint, int is_locked)
{
  dyn_ros_joint info;
  int error = dyn_ros_joint_info(model, joint, &info);
  if (error || !info.nv) return error ? error : DYN_ROS_NO_SUCH_JOINT;
  for (int k = info.idx_v; k < info.idx_v + info.nv; k++)
    armature(model)[k] = is_locked ? LOCKED : section(model, SECTION_ARMATURE)[k];
  return DYN_ROS_OK;
}

double dyn_ros_total_mass(const dyn_ros_model *model)
{
  double mass = 0.0;
  for (int i = 0; is_ready(model) && i < model->njoints; i++) mass += body(model, i)[0];
  return mass;
}

/* --- inertias: ten parameters m, m c, Ixx, Ixy, Iyy, Ixz, Iyz, Izz */

static double *slot_of(dyn_ros_model *model, int slot) { return section(model, SECTION_PAYLOADS) + PAYLOAD * slot; }

static int joint_of(const double *slot) { return (int)slot[0]; }
static int link_of(const double *slot) { return (int)slot[1]; }
static int is_empty(const double *slot) { return slot[2] == 0.0; }

static void add(double *total, const double *parameters, double factor)
{
  for (int k = 0; k < INERTIA_ROW; k++) total[k] += factor * parameters[k];
}

/* Add the payloads on a joint or on a link to its parameters without payloads, in the order of slots, so that rounding
   errors do not accumulate. */
static void compose(dyn_ros_model *model, double *total, const double *bare, int (*place_of)(const double *),
                    int place)
{
  double loads[INERTIA_ROW] = {0};
  for (int n = 0; n < MAX_PAYLOADS; n++) {
    const double *slot = slot_of(model, n);
    if (!is_empty(slot) && place_of(slot) == place) add(loads, slot + 2, 1.0);
  }
  memcpy(total, bare, sizeof loads);
  add(total, loads, 1.0);
}

static void compose_around(dyn_ros_model *model, int joint, int frame)
{
  compose(model, link(model, frame), section(model, SECTION_LINKS) + INERTIA_ROW * frame, link_of, frame);
  if (joint >= 0)
    compose(model, body(model, joint), section(model, SECTION_BODIES) + INERTIA_ROW * joint, joint_of, joint);
}

static double determinant(const double m[9])
{
  return m[0] * (m[4] * m[8] - m[5] * m[7]) - m[1] * (m[3] * m[8] - m[5] * m[6]) + m[2] * (m[3] * m[7] - m[4] * m[6]);
}

static int is_positive_definite(const double m[9])
{
  return m[0] > 0.0 && m[0] * m[4] > m[1] * m[3] && determinant(m) > 0.0;
}

/* Return 1 if a body can have this inertia: it is 0, of a point mass, or it is positive definite and no principal moment
   exceeds the sum of the others. */
static int is_physical(double mass, const double com[3], const double inertia[9])
{
  double half_trace = 0.5 * (inertia[0] + inertia[4] + inertia[8]) * (1.0 + 1e-6), moments[9];
  int is_point = 1;
  if (!(mass > 0.0) || mass > MAX_VALUE) return 0;
  if (inertia[1] != inertia[3] || inertia[2] != inertia[6] || inertia[5] != inertia[7]) return 0;
  for (int k = 0; k < 9; k++) {
    moments[k] = (k % 4 ? 0.0 : half_trace) - inertia[k];
    is_point = is_point && inertia[k] == 0.0;
    if (inertia[k] > MAX_VALUE || inertia[k] < -MAX_VALUE) return 0;
    if (com[k % 3] > MAX_VALUE || com[k % 3] < -MAX_VALUE) return 0;
  }
  return is_point || (is_positive_definite(inertia) && is_positive_definite(moments));
}

/* Compute the ten parameters of a body in the frame of its joint from values in a frame that has the rotation R and
   the origin R[9 ...] there. */
static void place(const double *R, double mass, const double com[3], const double inertia[9],
                  double parameters[INERTIA_ROW])
{
  double c[3], RI[9], I[9], square = 0.0;
  for (int i = 0; i < 3; i++) {
    c[i] = R[9 + i];
    for (int k = 0; k < 3; k++) c[i] += R[3 * i + k] * com[k];
    square += c[i] * c[i];
  }
  for (int i = 0; i < 3; i++)
    for (int j = 0; j < 3; j++) {
      RI[3 * i + j] = 0.0;
      for (int k = 0; k < 3; k++) RI[3 * i + j] += R[3 * i + k] * inertia[3 * k + j];
    }
  for (int i = 0; i < 3; i++)
    for (int j = 0; j < 3; j++) {
      I[3 * i + j] = mass * ((i == j ? square : 0.0) - c[i] * c[j]);
      for (int k = 0; k < 3; k++) I[3 * i + j] += RI[3 * i + k] * R[3 * j + k];
    }
  const double result[INERTIA_ROW] = {mass, mass * c[0], mass * c[1], mass * c[2],
                                      I[0], I[1], I[4], I[2], I[5], I[8]};
  memcpy(parameters, result, sizeof result);
}

int dyn_ros_set_payload(dyn_ros_model *model, int slot, int frame, double mass, const double com[3],
                        const double inertia[9])
{
  if (!is_ready(model)) return DYN_ROS_NO_MODEL;
  if (slot < 0 || slot >= MAX_PAYLOADS) return DYN_ROS_NO_SUCH_OPTION;
  if (frame < 0 || frame >= model->nframes) return DYN_ROS_NO_SUCH_FRAME;
  if (!com || !inertia) return DYN_ROS_MISSING;
  if (!dyn_ros_are_finite(&mass, 1) || !dyn_ros_are_finite(com, 3) || !dyn_ros_are_finite(inertia, 9))
    return DYN_ROS_NOT_FINITE;
  if (!is_physical(mass, com, inertia)) return DYN_ROS_NOT_PHYSICAL;
  const int64_t *frame_row = dyn_ros_private_section(model, SECTION_FRAMES) + FRAME * frame;
  double *payload = slot_of(model, slot);
  dyn_ros_clear_payload(model, slot);
  payload[0] = (double)frame_row[0];
  payload[1] = (double)frame_row[1];
  place(armature(model) + model->nv + FRAME_ROW * frame, mass, com, inertia, payload + 2);
  compose_around(model, joint_of(payload), link_of(payload));
  return DYN_ROS_OK;
}

int dyn_ros_clear_payload(dyn_ros_model *model, int slot)
{
  if (!is_ready(model)) return DYN_ROS_NO_MODEL;
  if (slot < 0 || slot >= MAX_PAYLOADS) return DYN_ROS_NO_SUCH_OPTION;
  double *payload = slot_of(model, slot);
  if (is_empty(payload)) return DYN_ROS_OK;
  int joint = joint_of(payload), frame = link_of(payload);
  memset(payload, 0, PAYLOAD * sizeof(double));
  compose_around(model, joint, frame);
  return DYN_ROS_OK;
}

/* Return the first link of a joint's body that has mass; without such a link, the first; -1 without links. */
static int first_link(dyn_ros_model *model, int joint)
{
  const int64_t *frames = dyn_ros_private_section(model, SECTION_FRAMES);
  int first = -1;
  for (int n = 0; n < model->nframes; n++) {
    if (frames[FRAME * n] != joint || !frames[FRAME * n + 2]) continue;
    if (section(model, SECTION_LINKS)[INERTIA_ROW * n] != 0.0) return n;
    if (first < 0) first = n;
  }
  return first;
}

int dyn_ros_set_inertia(dyn_ros_model *model, int joint, const double parameters[10])
{
  if (!is_ready(model)) return DYN_ROS_NO_MODEL;
  if (joint < 0 || joint >= model->njoints) return DYN_ROS_NO_SUCH_JOINT;
  if (!parameters) return DYN_ROS_MISSING;
  if (!dyn_ros_are_finite(parameters, INERTIA_ROW)) return DYN_ROS_NOT_FINITE;
  const int64_t *frames = dyn_ros_private_section(model, SECTION_FRAMES);
  double *bodies = section(model, SECTION_BODIES), *links = section(model, SECTION_LINKS), bare[INERTIA_ROW];
  memcpy(bare, parameters, sizeof bare);
  for (int n = 0; n < MAX_PAYLOADS; n++)
    if (!is_empty(slot_of(model, n)) && joint_of(slot_of(model, n)) == joint) add(bare, slot_of(model, n) + 2, -1.0);
  memcpy(bodies + INERTIA_ROW * joint, bare, sizeof bare);
  int first = first_link(model, joint);
  if (first >= 0) {             /* its inertia is that of the body minus the other links */
    for (int n = 0; n < model->nframes; n++)
      if (n != first && frames[FRAME * n] == joint && frames[FRAME * n + 2]) add(bare, links + INERTIA_ROW * n, -1.0);
    memcpy(links + INERTIA_ROW * first, bare, sizeof bare);
    compose(model, link(model, first), links + INERTIA_ROW * first, link_of, first);
  }
  compose(model, body(model, joint), bodies + INERTIA_ROW * joint, joint_of, joint);
  return DYN_ROS_OK;
}

int dyn_ros_get_inertia(const dyn_ros_model *model, int joint, double parameters[10])
{
  if (!is_ready(model)) return DYN_ROS_NO_MODEL;
  if (joint < 0 || joint >= model->njoints) return DYN_ROS_NO_SUCH_JOINT;
  if (!parameters) return DYN_ROS_MISSING;
  memcpy(parameters, body(model, joint), INERTIA_ROW * sizeof(double));
  return DYN_ROS_OK;
}
