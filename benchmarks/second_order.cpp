// Copyright dyn_ros contributors
// SPDX-License-Identifier: Apache-2.0
// Measures Pinocchio's second-order derivatives of inverse dynamics, which have no Python binding:
// prints the microseconds per call and writes the tensors. Built and run by second_order.py.
//
//   second_order MODEL STATE RESULT     MODEL: saveToText; STATE: q, v, a; RESULT: qq, vv, qv, aq
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fstream>

#include <pinocchio/algorithm/rnea-second-order-derivatives.hpp>
#include <pinocchio/multibody.hpp>
#include <pinocchio/serialization.hpp>

int main(int, char ** argv)
{
  pinocchio::Model model;
  model.loadFromText(argv[1]);
  pinocchio::Data data(model);
  const int n = model.nv;
  Eigen::VectorXd q(model.nq), v(n), a(n);
  std::ifstream state(argv[2]);
  for (auto * x : {&q, &v, &a})
    for (auto & number : *x)
      state >> number;
  pinocchio::Tensor<double, 3> qq(n, n, n), vv(n, n, n), qv(n, n, n), aq(n, n, n);
  for (auto * tensor : {&qq, &vv, &qv, &aq})
    tensor->setZero();
  double best = 1e300;
  for (int round = 0; round < 100; ++round) {
    const auto start = std::chrono::steady_clock::now();
    for (int k = 0; k < 50; ++k)
      pinocchio::ComputeRNEASecondOrderDerivatives(model, data, q, v, a, qq, vv, qv, aq);
    const std::chrono::duration<double, std::micro> time = std::chrono::steady_clock::now() - start;
    best = std::min(best, time.count() / 50);
  }
  std::printf("%g\n", best);
  std::ofstream result(argv[3], std::ios::binary);
  for (auto * tensor : {&qq, &vv, &qv, &aq})
    result.write(reinterpret_cast<const char *>(tensor->data()), sizeof(double) * tensor->size());
}
