// Copyright dyn_ros contributors
// SPDX-License-Identifier: Apache-2.0
//
// Gravity compensation at 1 kHz: an arm without weight, which stays where somebody pushes it. The arm is simulated.

#include <sched.h>
#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <thread>
#include <vector>

#include <dyn_ros.hpp>

using Clock = std::chrono::steady_clock;

constexpr double period = 1e-3;     // [s]
constexpr double damping = 6.0;     // [1/s], times the inertia that a joint moves at the start
constexpr double push = 2.0;        // [rad/s2], times this inertia: the torque of a hand in the first half second
constexpr double rest = 1e-2;       // [rad/s]

// The control law: the torques that carry the arm, less damping.
class Controller {
public:
  Controller(const dyn_ros::Model &model, const std::vector<double> &inertia) : inertia_(inertia), gravity_(model) {}

  int update(const std::vector<double> &q, const std::vector<double> &v, std::vector<double> &tau) noexcept
  {
    if (int error = gravity_(q)) return error;
    for (std::size_t k = 0; k < tau.size(); ++k) tau[k] = gravity_.g()[k] - damping * inertia_[k] * v[k];
    return DYN_ROS_OK;
  }

private:
  const std::vector<double> inertia_;
  dyn_ros::GeneralizedGravity gravity_;
};

// The robot: forward dynamics, and a step of semi-implicit Euler.
class Simulation {
public:
  explicit Simulation(const dyn_ros::Model &model)
      : q(model.nq()), v(model.nv()), model_(model), aba_(model), step_(model.nv())
  {
    model.neutral(q);
    for (std::size_t k = 0; k < q.size(); ++k)
      if (std::isfinite(model.lower()[k])) q[k] = 0.3 * model.lower()[k] + 0.7 * model.upper()[k];
  }

  int move(const std::vector<double> &tau) noexcept
  {
    if (int error = aba_(q, v, tau)) return error;
    for (std::size_t k = 0; k < v.size(); ++k) {
      v[k] += period * aba_.ddq()[k];
      step_[k] = period * v[k];
    }
    return model_.integrate(q, step_);
  }

  std::vector<double> q, v;

private:
  const dyn_ros::Model &model_;
  dyn_ros::Aba aba_;
  std::vector<double> step_;
};

// The inertia that each joint moves [kg m2, kg].
std::vector<double> diagonal(const dyn_ros::Model &model, const std::vector<double> &q)
{
  dyn_ros::Crba crba(model);
  std::vector<double> inertia(model.nv());
  if (int error = crba(q)) throw dyn_ros::Error("crba", error);
  for (std::size_t k = 0; k < inertia.size(); ++k) inertia[k] = crba.M()(k, k);
  return inertia;
}

void print(const char *what, std::vector<double> &times)
{
  std::sort(times.begin(), times.end());
  std::printf("%-22s median %8.2f us   99.9 %% %8.2f us   max %8.2f us\n", what, times[times.size() / 2],
              times[times.size() * 999 / 1000], times.back());
}

double microseconds(Clock::duration duration) { return std::chrono::duration<double, std::micro>(duration).count(); }

// Ask for a real-time thread whose memory stays in RAM.
void become_real_time()
{
  sched_param parameters{};
  parameters.sched_priority = 80;
  if (sched_setscheduler(0, SCHED_FIFO, &parameters) || mlockall(MCL_CURRENT | MCL_FUTURE))
    std::puts("no real-time priority: these are the latencies of an ordinary thread");
}

int run(const char *path, double seconds)
{
  const dyn_ros::Model model(path);
  Simulation robot(model);
  const std::vector<double> inertia = diagonal(model, robot.q);
  Controller controller(model, inertia);
  const auto cycles = static_cast<std::size_t>(seconds / period);
  std::vector<double> tau(model.nv()), computing(cycles), waking(cycles);
  become_real_time();

  auto next = Clock::now();
  for (std::size_t n = 0; n < cycles; ++n) {
    next += std::chrono::microseconds(1000);
    std::this_thread::sleep_until(next);
    const auto begin = Clock::now();
    int error = controller.update(robot.q, robot.v, tau);
    computing[n] = microseconds(Clock::now() - begin);
    waking[n] = microseconds(begin - next);

    if (static_cast<double>(n) * period < 0.5)
      for (std::size_t k = 0; k < tau.size(); ++k) tau[k] += push * inertia[k];
    if (!error) error = robot.move(tau);
    if (error) {
      std::fprintf(stderr, "%s\n", dyn_ros_error_text(error));
      return 1;
    }
  }

  double speed = 0.0;
  for (double v : robot.v) speed = std::max(speed, std::abs(v));
  std::printf("%s: %zu cycles, speed at the end %.1e rad/s\n", model.name().c_str(), cycles, speed);
  print("waking up late by", waking);
  print("computing torques", computing);
  return speed < rest ? 0 : 1;
}

int main(int argc, char **argv)
{
  const double seconds = argc > 2 ? std::atof(argv[2]) : 10.0;
  if (argc < 2 || !(seconds >= period)) {
    std::fprintf(stderr, "usage: %s ROBOT.dynros [SECONDS]\n", argv[0]);
    return 2;
  }
  try {
    return run(argv[1], seconds);
  } catch (const std::exception &error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 2;
  }
}
