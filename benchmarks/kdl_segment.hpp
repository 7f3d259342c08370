// Copyright dyn_ros contributors
// SPDX-License-Identifier: Apache-2.0
// Reads a segment of a chain from standard input, as numbers.
#pragma once

#include <iostream>

#include <kdl/segment.hpp>

namespace
{
double number()
{
  double x;
  std::cin >> x;
  return x;
}

KDL::Vector vector()
{
  const double x = number(), y = number(), z = number();
  return KDL::Vector(x, y, z);
}

KDL::Segment segment()
{
  const bool slides = number() != 0.0;
  const KDL::Vector p = vector();
  double R[9];
  for (double & x : R) x = number();
  const KDL::Rotation rotation(R[0], R[1], R[2], R[3], R[4], R[5], R[6], R[7], R[8]);
  const KDL::Vector axis = rotation * vector();
  const double armature = number(), mass = number();
  const KDL::Vector com = vector();
  double I[6];
  for (double & x : I) x = number();
  const KDL::Joint joint(p, axis, slides ? KDL::Joint::TransAxis : KDL::Joint::RotAxis, 1.0, 0.0,
                         armature);
  return KDL::Segment(joint, KDL::Frame(rotation, p), KDL::RigidBodyInertia(
    mass, com, KDL::RotationalInertia(I[0], I[1], I[2], I[3], I[4], I[5])));
}
}  // namespace
