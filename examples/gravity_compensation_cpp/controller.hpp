// Copyright dyn_ros contributors
// SPDX-License-Identifier: Apache-2.0
//
// A gravity compensation for a controller of ros2_control. This header does not include ros2_control, and the
// controller has not been compiled against it. The controller's methods use the class as follows:
//
//   on_init                           declares the parameters `joints` and `model_file`
//   command_interface_configuration   requests JOINT/effort of each joint
//   state_interface_configuration     requests JOINT/position of each joint
//   on_configure                      calls configure in a try block, logs and returns an error, and resizes the
//                                     vectors of positions and efforts
//   on_activate                       calls update once, so that its memory is in RAM, and discards the efforts;
//                                     returns the error of update, so that the controller does not become active
//   update                            copies state interfaces to positions, calls update, and copies efforts to
//                                     command interfaces; returns the error of update
//   on_deactivate                     writes nothing: the last efforts hold the arm until the next controller writes
//
// Zero efforts on deactivation would let the arm fall for a cycle at each switch of controllers. Activate the next
// controller in the same switch. Without one, the last efforts hold the arm in this posture only, and only if the
// hardware keeps applying them: some hardware idles its motors when no controller claims them. Engage the brakes first,
// and support an arm without brakes.
//
// Positions are NaN until the hardware has read them, or if an encoder fails. Then update returns an error and leaves
// efforts as they were. If update of a controller returns an error, the controller manager deactivates the controller,
// and activates its fallback_controllers if there are any: choose one that needs no positions, such as one that engages
// the brakes.
//
// Set the payload of a gripper between two calls of update, from a real-time buffer. For feed-forward torques of a
// trajectory, use dyn_ros::Rnea with velocities and accelerations.

#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include <dyn_ros.hpp>

class GravityCompensation {
public:
  // Throws if the file cannot be used, or has no joint of this name with one number.
  void configure(const std::string &file, const std::vector<std::string> &joints)
  {
    model_ = std::make_unique<dyn_ros::Model>(file);
    gravity_ = std::make_unique<dyn_ros::GeneralizedGravity>(*model_);
    q_.resize(model_->nq());
    joints_.clear();
    for (const std::string &name : joints) {
      const dyn_ros_joint joint = model_->joint_info(model_->joint(name));
      if (joint.nv != 1) throw dyn_ros::Error(name, DYN_ROS_NO_SUCH_JOINT);
      joints_.push_back(joint);
    }
    if (int error = model_->neutral(q_)) throw dyn_ros::Error(file, error);
    model_->set_checks(true);
  }

  // Positions and efforts in the order of the joints; 0, or an error, after which efforts are unchanged.
  int update(const std::vector<double> &positions, std::vector<double> &efforts) noexcept
  {
    for (std::size_t n = 0; n < joints_.size(); ++n) q_[static_cast<std::size_t>(joints_[n].idx_q)] = positions[n];
    if (int error = (*gravity_)(q_)) return error;
    for (std::size_t n = 0; n < joints_.size(); ++n) {
      const auto k = static_cast<std::size_t>(joints_[n].idx_v);
      const double limit = model_->effort_limit()[k];
      efforts[n] = std::clamp(gravity_->g()[k], -limit, limit);
    }
    return DYN_ROS_OK;
  }

private:
  std::unique_ptr<dyn_ros::Model> model_;
  std::unique_ptr<dyn_ros::GeneralizedGravity> gravity_;
  std::vector<dyn_ros_joint> joints_;
  std::vector<double> q_;
};
