/* Copyright dyn_ros contributors
   SPDX-License-Identifier: Apache-2.0
   The neutral configuration, and steps along a velocity. */
#include <string.h>

#include "runtime.h"

int dyn_ros_neutral(const dyn_ros_model *model, double *q)
{
  if (!is_ready(model)) return DYN_ROS_NO_MODEL;
  if (!q) return DYN_ROS_MISSING;
  memset(q, 0, sizeof(double) * (size_t)model->nq);
  for (int64_t n = 0; n < model->ints[INTS_NUNIT]; n++) q[model->ints[model->ints[INTS_UNIT_LIST] + n] + 3] = 1.0;
  return DYN_ROS_OK;
}

/* c = a b, quaternions (x y z w) */
static void product(const double a[4], const double b[4], double c[4])
{
  const double result[4] = {a[3] * b[0] + a[0] * b[3] + a[1] * b[2] - a[2] * b[1],
                            a[3] * b[1] + a[1] * b[3] + a[2] * b[0] - a[0] * b[2],
                            a[3] * b[2] + a[2] * b[3] + a[0] * b[1] - a[1] * b[0],
                            a[3] * b[3] - a[0] * b[0] - a[1] * b[1] - a[2] * b[2]};
  memcpy(c, result, sizeof result);
}

static void cross(const double a[3], const double b[3], double c[3])
{
  const double result[3] = {a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]};
  memcpy(c, result, sizeof result);
}

static void rotate(const double q[4], const double a[3], double result[3])
{
  double t[3], u[3];
  cross(q, a, t);
  cross(q, t, u);
  for (int i = 0; i < 3; i++) result[i] = a[i] + 2.0 * (q[3] * t[i] + u[i]);
}

/* Compute the rotation and the translation of the rigid motion exp(v, w) as series for a small angle, w / 2^n, which
   is then doubled n times: exp(2 x) = exp(x) exp(x). */
static void exponential(const double v[3], const double w[3], double rotation[4], double translation[3])
{
  double square = w[0] * w[0] + w[1] * w[1] + w[2] * w[2], scale = 1.0;
  int doublings = 0;
  while (square > 0.0625 && doublings < 1000) {
    square *= 0.25;
    scale *= 0.5;
    doublings++;
  }
  /* With h = x^2 / 4: sin(x/2) / x and cos(x/2). With x^2: (1 - cos x) / x^2 and (x - sin x) / x^3. */
  double h = 0.25 * square, x = square;
  double sine = 0.5 * (1 - h / 6 * (1 - h / 20 * (1 - h / 42 * (1 - h / 72 * (1 - h / 110)))));
  double cosine = 1 - h / 2 * (1 - h / 12 * (1 - h / 30 * (1 - h / 56 * (1 - h / 90 * (1 - h / 132)))));
  double b = 0.5 * (1 - x / 12 * (1 - x / 30 * (1 - x / 56 * (1 - x / 90 * (1 - x / 132 * (1 - x / 182))))));
  double c = 1.0 / 6 * (1 - x / 20 * (1 - x / 42 * (1 - x / 72 * (1 - x / 110 * (1 - x / 156 * (1 - x / 210))))));
  double u[3], s[3], us[3], uus[3];
  for (int i = 0; i < 3; i++) u[i] = scale * w[i], s[i] = scale * v[i];
  cross(u, s, us);
  cross(u, us, uus);
  for (int i = 0; i < 3; i++) {
    rotation[i] = sine * u[i];
    translation[i] = s[i] + b * us[i] + c * uus[i];
  }
  rotation[3] = cosine;
  for (; doublings > 0; doublings--) {
    rotate(rotation, translation, us);
    for (int i = 0; i < 3; i++) translation[i] += us[i];
    product(rotation, rotation, rotation);
  }
}

static void turn(double q[4], const double rotation[4])
{
  product(q, rotation, q);
  double norm = __builtin_sqrt(q[0] * q[0] + q[1] * q[1] + q[2] * q[2] + q[3] * q[3]);
  for (int i = 0; i < 4; i++) q[i] /= norm;
}

static void move_floating(double *q, const double *v)
{
  double rotation[4], translation[3];
  exponential(v, v + 3, rotation, translation);
  rotate(q + 3, translation, translation);
  for (int i = 0; i < 3; i++) q[i] += translation[i];
  turn(q + 3, rotation);
}

static void move_spherical(double *q, const double *v)
{
  double rotation[4], translation[3] = {0};
  exponential(translation, v, rotation, translation);
  turn(q, rotation);
}

static void move_planar(double *q, const double *v)
{
  const double linear[3] = {v[0], v[1], 0.0}, angular[3] = {0.0, 0.0, v[2]}, heading[3] = {0.0, 0.0, q[2]};
  double rotation[4], translation[3], zero[3] = {0};
  exponential(linear, angular, rotation, translation);
  exponential(zero, heading, rotation, zero);
  rotate(rotation, translation, translation);
  q[0] += translation[0];
  q[1] += translation[1];
  q[2] += v[2];
}

int dyn_ros_integrate(const dyn_ros_model *model, const double *q, const double *v, double *q_out)
{
  dyn_ros_joint joint;
  if (!is_ready(model)) return DYN_ROS_NO_MODEL;
  if (!q || !v || !q_out) return DYN_ROS_MISSING;
  if (!dyn_ros_are_finite(v, (size_t)model->nv)) return DYN_ROS_NOT_FINITE;
  if (q_out != q) memcpy(q_out, q, sizeof(double) * (size_t)model->nq);
  for (int i = 0; i < model->njoints; i++) {
    dyn_ros_joint_info(model, i, &joint);
    if (!joint.nv) continue;                    /* a mimic joint */
    double *at = q_out + joint.idx_q;
    switch (model->ints[TREE + TREE_ROW * (i + 1) + KIND]) {
    case FLOATING: move_floating(at, v + joint.idx_v); break;
    case SPHERICAL: move_spherical(at, v + joint.idx_v); break;
    case PLANAR: move_planar(at, v + joint.idx_v); break;
    default: *at += v[joint.idx_v];
    }
  }
  return DYN_ROS_OK;
}
