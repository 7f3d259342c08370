// Copyright dyn_ros contributors
// SPDX-License-Identifier: Apache-2.0
// What somebody writes who has read dyn_ros.hpp: prints numbers that the test compares with Python.
#include <array>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "dyn_ros.hpp"

static void print(const char *name, const dyn_ros::Numbers &numbers)
{
  std::printf("%s", name);
  for (double number : numbers) std::printf(" %.17g", number);
  std::printf("\n");
}

int main(int, char **argv)
{
  dyn_ros::Model model(argv[1]);
  std::vector<double> q(model.nq()), v(model.nv(), 0.5);
  std::array<double, 3> point = {0.1, 0.2, 0.3};
  if (model.neutral(q)) return 1;

  dyn_ros::Rnea rnea(model);
  if (rnea(q, v, v)) return 1;
  print("rnea", rnea.tau());

  dyn_ros::FrameJacobian jacobian(model);
  int frame = model.frame(argv[2]);
  if (jacobian(q, frame, DYN_ROS_LOCAL, point)) return 1;
  print("frame_jacobian", jacobian.frame_jacobian());
  std::printf("entry %.17g\n", jacobian.frame_jacobian()(4, 1));

  dyn_ros::ForwardKinematics kinematics(model);
  if (kinematics(q)) return 1;
  std::printf("height %.17g\n", kinematics.oMi()[2](2, 3));

  dyn_ros_contact hand = dyn_ros_contact_at(frame, 3, DYN_ROS_LOCAL);
  dyn_ros_contacts contacts;
  dyn_ros::ContactDynamics dynamics(model);
  if (dyn_ros_contacts_init(&model.c(), &contacts, &hand, 1, nullptr)) return 1;
  if (dynamics(q, v, {v.data(), v.size()}, contacts)) return 1;
  print("contact_dynamics", dynamics.lambda_c());

  point[0] = 0.0;
  std::puts(dyn_ros_error_text(rnea(q, v, point)));
  std::puts(dyn_ros_error_text(rnea(q, v, {})));
  try {
    dyn_ros::Model other("no such file");
  } catch (const dyn_ros::Error &error) {
    std::puts(error.what());
  }
  try {
    model.frame("nothing");
  } catch (const dyn_ros::Error &error) {
    std::puts(error.what());
  }
  std::array<double, 3> gravity = {1.0, 0.0, 2.0}, com = {0.0, 0.0, 0.1};
  std::array<double, 9> inertia = {0.01, 0.0, 0.0, 0.0, 0.01, 0.0, 0.0, 0.0, 0.01};
  std::array<double, 10> body{};
  std::vector<double> step(model.nv(), 0.1), armature(model.nv(), 0.2), few(3);
  const double mass = model.total_mass();
  if (model.integrate(q, step) || model.set_gravity(gravity) || model.set_armature(armature)) return 1;
  if (model.set_payload(0, frame, 1.5, com, inertia)) return 1;
  std::printf("mass %.17g %.17g\n", mass, model.total_mass());
  if (rnea(q, v, v)) return 1;
  print("changed", rnea.tau());
  if (model.clear_payload(0) || model.total_mass() != mass) return 1;
  if (model.get_inertia(2, body)) return 1;
  body[0] += 1.0;
  if (model.set_inertia(2, body) || !(model.total_mass() > mass)) return 1;
  if (model.lock_joint(1, true) || model.armature()[1] != 1e30) return 1;
  if (model.lock_joint(1, false) || model.armature()[1] != 0.2) return 1;
  print("limits", model.upper());
  std::printf("names %s %s %s\n", model.name().c_str(), model.joint_info(1).name, model.frame_info(frame).name);
  if (model.neutral(few) != DYN_ROS_WRONG_SIZE || model.integrate(q, few) != DYN_ROS_WRONG_SIZE) return 1;
  if (model.set_gravity(q) != DYN_ROS_WRONG_SIZE || model.set_armature(few) != DYN_ROS_WRONG_SIZE) return 1;
  if (model.set_payload(0, frame, 1.0, com, com) != DYN_ROS_WRONG_SIZE) return 1;
  if (model.set_inertia(2, few) != DYN_ROS_WRONG_SIZE || model.set_gravity({}) != DYN_ROS_MISSING) return 1;
  try {
    model.joint_info(99);
  } catch (const dyn_ros::Error &error) {
    std::puts(error.what());
  }
  std::size_t size = 0;
  void *bytes = dyn_ros_read_file(argv[1], &size);
  const dyn_ros::Model other(bytes, size);
  if (other.nq() != model.nq() || other.name() != model.name()) return 1;
  if (other.total_mass() != mass || other.gravity()[2] == model.gravity()[2]) return 1;
  try {
    dyn_ros::Model half(bytes, size / 2);
    return 1;
  } catch (const dyn_ros::Error &error) {
    if (error.code() != DYN_ROS_TRUNCATED) return 1;
  }
  std::free(bytes);
  model.set_checks(true);
  q[0] = 0.0 / (few[0] * 0.0);
  std::puts(dyn_ros_error_text(rnea(q, v, v)));
  q[0] = 0.0;
#ifdef DYN_ROS_EIGEN
  Eigen::VectorXd positions = Eigen::Map<Eigen::VectorXd>(q.data(), static_cast<Eigen::Index>(q.size()));
  dyn_ros::Crba crba(model);
  if (crba(positions) || jacobian(positions, frame, DYN_ROS_LOCAL)) return 1;
  Eigen::MatrixXd M = crba.M().eigen(), J = jacobian.frame_jacobian().eigen();
  for (Eigen::Index i = 0; i < M.rows(); ++i)
    for (Eigen::Index j = 0; j < M.cols(); ++j)
      if (M(i, j) != crba.M()(static_cast<std::size_t>(i), static_cast<std::size_t>(j))) return 1;
  for (Eigen::Index i = 0; i < 6; ++i)
    for (Eigen::Index j = 0; j < J.cols(); ++j)
      if (J(i, j) != jacobian.frame_jacobian()(static_cast<std::size_t>(i), static_cast<std::size_t>(j))) return 1;
  if (rnea.tau().eigen()(0) != rnea.tau()[0]) return 1;
#endif
  return 0;
}
