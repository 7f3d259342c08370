// Copyright dyn_ros contributors
// SPDX-License-Identifier: Apache-2.0
// Measures functions of one robot, called from C++: of the C library, generated for the robot, of
// Pinocchio, and C code by CasADi. native.py builds and runs this program, and writes robot.h.
//
//   native PINOCCHIO_MODEL MODEL_FILE STATES ROUNDS
//
// Contenders take turns. Prints for each: function, contender, least and median nanoseconds, and the
// largest difference from Pinocchio, relative to its largest number.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <iterator>
#include <string>
#include <vector>

#include "dyn_ros.h"
#include "robot.h"

// in native_pinocchio.cpp
int pinocchio_load(const char * path);
const double * pinocchio_rnea(const double * q, const double * v, const double * a);
const double * pinocchio_aba(const double * q, const double * v, const double * tau);
const double * pinocchio_crba(const double * q, const double *, const double *);
const double * pinocchio_rnea_derivatives(const double * q, const double * v, const double * a);

namespace {

constexpr int STATES = 200;

struct Contender
{
  std::string function, name;
  std::function<const double *(const double *, const double *, const double *)> call;
  std::vector<double> times;
  double difference = 0;
};

std::vector<char> content(const char * path)
{
  std::ifstream file(path, std::ios::binary);
  return std::vector<char>(std::istreambuf_iterator<char>(file), {});
}

void * aligned(std::size_t size) { return std::aligned_alloc(64, (size + 63) / 64 * 64); }

}  // namespace

int main(int, char ** argv)
{
  const int n = pinocchio_load(argv[1]);

  const auto file = content(argv[2]);
  void * bytes = aligned(file.size());
  std::memcpy(bytes, file.data(), file.size());
  dyn_ros_model robot;
  if (dyn_ros_model_init(&robot, bytes, file.size()))
    return 1;
  robot.checks = 0;

  const auto numbers = content(argv[3]);
  const double * states = reinterpret_cast<const double *>(numbers.data());
  const auto * parameters = reinterpret_cast<const robot_parameters *>(states + 3 * STATES * n);
  const int rounds = std::atoi(argv[4]);
  std::vector<double> out(n * n), dq(n * n), dv(n * n), da(n * n);
  std::vector<Contender> contenders;
  const auto add = [&](const char * function, const char * name, auto call) {
    contenders.push_back({function, name, call, {}});
  };
#define WORKSPACE(function) \
  const auto size_of_##function = dyn_ros_##function##_workspace_size(&robot); \
  void * work_of_##function = aligned(size_of_##function); \
  if (dyn_ros_##function##_workspace_init(&robot, work_of_##function, size_of_##function)) \
    return 1;
  WORKSPACE(rnea)
  WORKSPACE(aba)
  WORKSPACE(crba)
  WORKSPACE(rnea_derivatives)

  using X = const double *;
  add("rnea", "Pinocchio", pinocchio_rnea);
  add("rnea", "CasADi", [&](X q, X v, X a) {
    static double work[1 << 16];
    static long long integers[64];
    const double * arguments[8] = {q, v, a};
    double * results[8] = {out.data()};
    casadi_rnea(arguments, results, integers, work, 0);
    return out.data(); });
#define ADD(function, name, result, call) \
  add(#function, name, [&](X q, [[maybe_unused]] X v, [[maybe_unused]] X a) { \
    call; \
    return result.data(); });
  ADD(rnea, "generic", out, dyn_ros_rnea(&robot, work_of_rnea, q, v, a, nullptr, out.data()))
  ADD(rnea, "constant", out, constant_rnea(q, v, a, out.data()))
  ADD(rnea, "settable", out, robot_rnea(q, v, a, out.data(), parameters))

  add("aba", "Pinocchio", pinocchio_aba);
  ADD(aba, "generic", out, dyn_ros_aba(&robot, work_of_aba, q, v, a, nullptr, out.data()))
  ADD(aba, "constant", out, constant_aba(q, v, a, out.data()))
  ADD(aba, "settable", out, robot_aba(q, v, a, out.data(), parameters))

  add("crba", "Pinocchio", pinocchio_crba);
  ADD(crba, "generic", out, dyn_ros_crba(&robot, work_of_crba, q, out.data()))
  ADD(crba, "constant", out, constant_crba(q, out.data()))
  ADD(crba, "settable", out, robot_crba(q, out.data(), parameters))

  add("rnea_derivatives", "Pinocchio", pinocchio_rnea_derivatives);
  ADD(rnea_derivatives, "generic", dq, dyn_ros_rnea_derivatives(
    &robot, work_of_rnea_derivatives, q, v, a, nullptr, dq.data(), dv.data(), da.data()))
#ifndef NO_constant_rnea_derivatives
  ADD(rnea_derivatives, "constant", dq, constant_rnea_derivatives(
    q, v, a, dq.data(), dv.data(), da.data()))
#endif
#ifndef NO_robot_rnea_derivatives
  ADD(rnea_derivatives, "settable", dq, robot_rnea_derivatives(
    q, v, a, dq.data(), dv.data(), da.data(), parameters))
#endif

  std::vector<double> expected;
  for (auto & one : contenders) {
    const bool is_matrix = one.function == "crba" || one.function == "rnea_derivatives";
    for (int s = 0; s < STATES; ++s) {
      const double * q = states + 3 * n * s;
      const double * result = one.call(q, q + n, q + 2 * n);
      if (one.name == "Pinocchio" && s == 0)
        expected.clear();
      double largest = 0, error = 0;
      for (int i = 0; i < n; ++i)
        for (int j = 0; j < (is_matrix ? n : 1); ++j) {
          // Pinocchio stores M by columns, and of it the upper triangle
          const int ours = is_matrix ? n * i + j : i;
          const int pinocchios = one.function == "crba" && j > i ? n * j + i : ours;
          if (one.name == "Pinocchio") {
            expected.push_back(result[pinocchios]);
          } else {
            const double x = expected[(is_matrix ? n * n : n) * s + (is_matrix ? ours : i)];
            largest = std::max(largest, std::abs(x));
            error = std::max(error, std::abs(result[ours] - x));
            if (!(result[ours] == result[ours]))
              error = INFINITY;
          }
        }
      if (largest > 0)
        one.difference = std::max(one.difference, error / largest);
    }
  }
  for (int round = 0; round < rounds; ++round)
    for (auto & one : contenders) {
      const auto start = std::chrono::steady_clock::now();
      for (int s = 0; s < STATES; ++s) {
        const double * q = states + 3 * n * s;
        one.call(q, q + n, q + 2 * n);
      }
      const std::chrono::duration<double, std::nano> time =
        std::chrono::steady_clock::now() - start;
      one.times.push_back(time.count() / STATES);
    }
  for (auto & one : contenders) {
    std::sort(one.times.begin(), one.times.end());
    std::printf("%s %s %.1f %.1f %.1e\n", one.function.c_str(), one.name.c_str(), one.times.front(),
                one.times[one.times.size() / 2], one.difference);
  }
}
