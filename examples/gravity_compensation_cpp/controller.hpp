// Copyright dyn_ros contributors
// SPDX-License-Identifier: Apache-2.0
//
// A gravity compensation for a controller of ros2_control, without the names that ros2_control gives to its methods.

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

  // Positions and efforts in the order of the joints; 0, or an error, after which all efforts are zero.
  int update(const std::vector<double> &positions, std::vector<double> &efforts) noexcept
  {
    for (std::size_t n = 0; n < joints_.size(); ++n) q_[static_cast<std::size_t>(joints_[n].idx_q)] = positions[n];
    const int error = (*gravity_)(q_);
    for (std::size_t n = 0; n < joints_.size(); ++n) {
      const auto k = static_cast<std::size_t>(joints_[n].idx_v);
      const double limit = model_->effort_limit()[k];
      efforts[n] = error ? 0.0 : std::clamp(gravity_->g()[k], -limit, limit);
    }
    return error;
  }

private:
  std::unique_ptr<dyn_ros::Model> model_;
  std::unique_ptr<dyn_ros::GeneralizedGravity> gravity_;
  std::vector<dyn_ros_joint> joints_;
  std::vector<double> q_;
};
