// Copyright dyn_ros contributors
// SPDX-License-Identifier: Apache-2.0
// Measures KDL's solvers on one chain. Compiled and run by libraries.py.
//
// Standard input: n, repeats, rounds; per joint its kind (0 revolute, 1 prismatic), its pose in the
// parent (3 + 9 numbers, row-major), axis (3), armature, mass, center of mass (3), inertia about it
// (xx yy zz xy xz yz); then q, v, a (n each).
// Standard output: the time per call in the fastest round [us] of gravity torques, inverse
// dynamics, inertia matrix and Jacobian; then the gravity torques and those of inverse dynamics.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <iostream>

#include <kdl/chain.hpp>
#include <kdl/chaindynparam.hpp>
#include <kdl/chainidsolver_recursive_newton_euler.hpp>
#include <kdl/chainjnttojacsolver.hpp>

#include "kdl_segment.hpp"

namespace
{
template<class Call>
double fastest(int repeats, int rounds, Call call)
{
  double best = 1e300;
  for (int round = 0; round < rounds; ++round) {
    const auto start = std::chrono::steady_clock::now();
    for (int k = 0; k < repeats; ++k) call();
    const std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - start;
    best = std::min(best, took.count() / repeats);
  }
  return best;
}
}  // namespace

int main()
{
  const int n = number(), repeats = number(), rounds = number();
  KDL::Chain chain;
  for (int i = 0; i < n; ++i) chain.addSegment(segment());
  KDL::JntArray q(n), v(n), a(n), weight(n), torques(n);
  for (KDL::JntArray * each : {&q, &v, &a})
    for (int i = 0; i < n; ++i) (*each)(i) = number();
  const KDL::Vector gravity(0.0, 0.0, -9.81);
  KDL::ChainDynParam parameters(chain, gravity);
  KDL::ChainIdSolver_RNE inverse(chain, gravity);
  KDL::ChainJntToJacSolver jacobians(chain);
  KDL::JntSpaceInertiaMatrix inertia(n);
  KDL::Jacobian jacobian(n);
  const KDL::Wrenches pushes(n, KDL::Wrench::Zero());
  std::printf("%.17g\n", fastest(repeats, rounds, [&] {parameters.JntToGravity(q, weight);}));
  std::printf("%.17g\n", fastest(repeats, rounds, [&] {inverse.CartToJnt(q, v, a, pushes, torques);}));
  std::printf("%.17g\n", fastest(repeats, rounds, [&] {parameters.JntToMass(q, inertia);}));
  std::printf("%.17g\n", fastest(repeats, rounds, [&] {jacobians.JntToJac(q, jacobian);}));
  for (int i = 0; i < n; ++i) std::printf("%.17g\n", weight(i));
  for (int i = 0; i < n; ++i) std::printf("%.17g\n", torques(i));
}
