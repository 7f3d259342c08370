// Copyright dyn_ros contributors
// SPDX-License-Identifier: Apache-2.0
// What somebody writes who has read dyn_ros.hpp: prints numbers that the test compares with Python.
#include <array>
#include <cstdio>
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
  if (dyn_ros_neutral(&model.c(), q.data())) return 1;

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
  } catch (const std::runtime_error &error) {
    std::puts(error.what());
  }
  try {
    model.frame("nothing");
  } catch (const dyn_ros::Error &error) {
    std::puts(error.what());
  }
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
