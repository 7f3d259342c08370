// Copyright dyn_ros contributors
// SPDX-License-Identifier: Apache-2.0
// Measures KDL's ChainHdSolver_Vereshchagin on one chain. Compiled and run by vereshchagin.py.
//
// Standard input: n, nc, repeats, rounds; per joint its kind (0 revolute, 1 prismatic), its pose
// in the parent (3 + 9 numbers, row-major), axis (3), armature, mass, center of mass (3), inertia
// about it (xx yy zz xy xz yz); then q, v (n), alpha (6 x nc, row-major), beta (nc).
// Standard output: the time per call in the fastest round [us], then the joint accelerations.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <iostream>

#include <kdl/chain.hpp>
#include <kdl/chainhdsolver_vereshchagin.hpp>

#include "kdl_segment.hpp"

int main()
{
  const int n = number(), nc = number(), repeats = number(), rounds = number();
  KDL::Chain chain;
  for (int i = 0; i < n; ++i) chain.addSegment(segment());
  KDL::JntArray q(n), v(n), a(n), beta(nc), feedforward(n), torques(n);
  for (int i = 0; i < n; ++i) q(i) = number();
  for (int i = 0; i < n; ++i) v(i) = number();
  KDL::Jacobian alpha(nc);
  for (int row = 0; row < 6; ++row)
    for (int k = 0; k < nc; ++k) alpha(row, k) = number();
  for (int k = 0; k < nc; ++k) beta(k) = number();
  const KDL::Wrenches pushes(n, KDL::Wrench::Zero());
  KDL::ChainHdSolver_Vereshchagin solver(
    chain, KDL::Twist(KDL::Vector(0.0, 0.0, 9.81), KDL::Vector::Zero()), nc);
  double best = 1e300;
  for (int round = 0; round < rounds; ++round) {
    const auto start = std::chrono::steady_clock::now();
    for (int k = 0; k < repeats; ++k)
      solver.CartToJnt(q, v, a, alpha, beta, pushes, feedforward, torques);
    const std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - start;
    best = std::min(best, took.count() / repeats);
  }
  std::printf("%.17g\n", best);
  for (int i = 0; i < n; ++i) std::printf("%.17g\n", a(i));
}
