# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Measure the latency of dynamics_node, compared with a bare echo node, in one run.

A client publishes a JointState of the 7-joint arm at 1 kHz and measures the time until it receives
the response with the same stamp. In turns of one second, the response comes from

- an echo node that republishes what it receives, as a message or as its bytes (raw); each with
  rclpy.spin, as in most nodes, and with the events executor, which dynamics_node uses,
- dynamics_node with its output ~/gravity, ~/nle or ~/state.

The output includes the processor time per message of the responding process (of all threads, so
including DDS), the resident memory of the node, and the time from its start until it is active with
a warm cache.

    python benchmarks/node_latency.py [--rounds 10] [--rate 1000]
"""

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path

ARM7 = Path(__file__).resolve().parents[1] / "dyn_ros" / "robots" / "arm7.urdf"
RAW_EVENTS = "raw echo, events"
SPIN = """
try:
    if sys.argv[2] == "events":
        from rclpy.experimental import EventsExecutor
        executor = EventsExecutor()
        executor.add_node(node)
        while rclpy.ok():
            executor.spin_once(1.0)
    else:
        rclpy.spin(node)
except BaseException:
    pass
"""
ECHO = (
    """
import sys
import rclpy
from rclpy.qos import QoSProfile, ReliabilityPolicy
from sensor_msgs.msg import JointState

rclpy.init()
node = rclpy.create_node("echo", namespace=sys.argv[1])
publisher = node.create_publisher(JointState, "~/echo", 10)
node.create_subscription(
    JointState, "joint_states", publisher.publish,
    QoSProfile(depth=10, reliability=ReliabilityPolicy.BEST_EFFORT), raw=sys.argv[3] == "raw")
"""
    + SPIN
)


def start_echo(namespace, executor, form):
    return subprocess.Popen([sys.executable, "-c", ECHO, namespace, executor, form])


def start_node(namespace, **streams):
    return subprocess.Popen(
        [
            sys.executable,
            "-m",
            "dyn_ros.nodes.dynamics_node",
            "--ros-args",
            "-r",
            f"__ns:={namespace}",
            "-p",
            f"robot_description_file:={ARM7}",
        ],
        **streams,
    )


class Client:
    """Client that publishes joint states in several namespaces and measures response times."""

    def __init__(self):
        import rclpy

        rclpy.init()
        self.node = rclpy.create_node("latency_client")
        self.executor = rclpy.executors.SingleThreadedExecutor()
        self.executor.add_node(self.node)
        self.publishers = {}

    def spin_until(self, ready, seconds):
        end = time.perf_counter() + seconds
        while not ready():
            remaining_time = end - time.perf_counter()
            if remaining_time <= 0.0:
                return False
            self.executor.spin_once(remaining_time)
        return True

    def _publisher(self, namespace):
        from sensor_msgs.msg import JointState

        if namespace not in self.publishers:
            self.publishers[namespace] = self.node.create_publisher(
                JointState, namespace + "/joint_states", 10
            )
        return self.publishers[namespace]

    def round_trips(self, namespace, topic, kind, message, rate, seconds, pid):
        """Return round-trip times [us], missing responses, and the processor time of pid [us]."""
        publisher = self._publisher(namespace)
        answers = []
        subscription = self.node.create_subscription(
            kind,
            namespace + topic,
            lambda answer: answers.append((answer.header.stamp.nanosec, time.perf_counter())),
            10,
        )
        count = round(rate * seconds)
        ready = self.spin_until(
            lambda: publisher.get_subscription_count() and subscription.get_publisher_count(), 20.0
        )
        assert ready, f"{namespace + topic}: no answer"
        message.header.stamp.sec += 1
        # The publishers and subscriptions of both processes are matched after these.
        trips = [self._round_trip(publisher, message, nanosec, answers) for nanosec in range(50)]
        if not any(trips):
            raise SystemExit(
                f"{namespace + topic}: none of 50 messages was answered; end other "
                "ROS processes of this machine and run it again"
            )
        times, lost = [], 0
        start_processor_time = processor_time(pid)
        tick = time.perf_counter()
        for nanosec in range(1000, 1000 + count):
            duration = self._round_trip(publisher, message, nanosec, answers)
            if duration is None:
                lost += 1
            else:
                times.append(1e6 * duration)
            tick = max(tick + 1.0 / rate, time.perf_counter() - 1.0 / rate)
            while time.perf_counter() < tick:
                self.executor.spin_once(max(tick - time.perf_counter(), 0.0))
        used_time = 1e6 * (processor_time(pid) - start_processor_time)
        self.node.destroy_subscription(subscription)
        return times, lost, used_time

    def _round_trip(self, publisher, message, nanosec, answers):
        """Return the time until the answer [s]; None if there is none within 0.1 s."""
        message.header.stamp.nanosec = nanosec
        answers.clear()
        start = time.perf_counter()
        publisher.publish(message)
        if self.spin_until(lambda: answers and answers[-1][0] == nanosec, 0.1):
            return answers[-1][1] - start
        return None


def time_to_active(count):
    """Return the seconds from the start of the process until it is active, and its memory [MB]."""
    seconds, memory = [], []
    for i in range(count):
        start = time.perf_counter()
        node = start_node(f"/start{i}", stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        for line in node.stdout:
            if line.rstrip().endswith(": active"):
                break
        seconds.append(time.perf_counter() - start)
        memory.append(resident_memory(node.pid))
        node.terminate()
        node.wait()
    return sorted(seconds), max(memory)


def resident_memory(pid):
    """Return the resident memory of a process [MB]."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def processor_time(pid):
    """Return the processor time of all threads of a process [s]."""
    nanoseconds = 0
    for thread in os.listdir(f"/proc/{pid}/task"):
        nanoseconds += int(Path(f"/proc/{pid}/task/{thread}/schedstat").read_text().split()[0])
    return 1e-9 * nanoseconds


def quantile(values, fraction):
    return sorted(values)[min(int(fraction * len(values)), len(values) - 1)]


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--rounds", type=int, default=10, help="seconds for each kind of response")
    parser.add_argument("--rate", type=float, default=1000.0, help="joint states per second")
    options = parser.parse_args(argv)
    os.environ["ROS_AUTOMATIC_DISCOVERY_RANGE"] = "LOCALHOST"
    os.environ.setdefault("ROS_DOMAIN_ID", str(1 + os.getpid() % 100))

    import array

    from sensor_msgs.msg import JointState

    import dyn_ros
    from dyn_ros.msg import JointSpaceDynamics

    dyn_ros.precompile(["generalized_gravity", "nonlinear_effects", "crba"], batch=False)
    seconds, memory = time_to_active(5)
    print(
        f"start to active: median {seconds[2]:.2f} s, longest {seconds[-1]:.2f} s "
        f"of {len(seconds)}; {memory:.0f} MB resident"
    )

    model = dyn_ros.Model.from_urdf_file(ARM7)
    message = JointState(name=list(model.joint_names))
    message.position = array.array("d", [0.1] * model.nq)
    message.velocity = array.array("d", [0.2] * model.nv)
    responses = {
        "echo": ("/echo", "/echo/echo", JointState),
        "echo, events": ("/echo_events", "/echo/echo", JointState),
        "raw echo": ("/raw", "/echo/echo", JointState),
        RAW_EVENTS: ("/raw_events", "/echo/echo", JointState),
        "~/gravity": ("/node", "/dynamics/gravity", JointState),
        "~/nle": ("/node", "/dynamics/nle", JointState),
        "~/state": ("/node", "/dynamics/state", JointSpaceDynamics),
    }
    processes = {
        "/echo": start_echo("/echo", "single", "typed"),
        "/echo_events": start_echo("/echo_events", "events", "typed"),
        "/raw": start_echo("/raw", "single", "raw"),
        "/raw_events": start_echo("/raw_events", "events", "raw"),
        "/node": start_node("/node", stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL),
    }
    try:
        client = Client()
        times = {name: [] for name in responses}
        lost, used_times = dict.fromkeys(responses, 0), dict.fromkeys(responses, 0.0)
        for _ in range(options.rounds):
            for name, (namespace, topic, kind) in responses.items():
                new_times, new_lost, used_time = client.round_trips(
                    namespace, topic, kind, message, options.rate, 1.0, processes[namespace].pid
                )
                times[name] += new_times
                lost[name] += new_lost
                used_times[name] += used_time
        memory = resident_memory(processes["/node"].pid)
    finally:
        for process in processes.values():
            process.terminate()
            process.wait()
    median = {name: quantile(times[name], 0.5) for name in responses}
    print(
        f"{'round trip [us]':24}{'p50':>8}{'p99':>8}{'to echo':>9}{'lost':>6}"
        f"{'processor [us]':>16}   at {options.rate:g} Hz, 7 joints"
    )
    message_times = {name: used_times[name] / (len(times[name]) + lost[name]) for name in responses}
    for name in responses:
        print(
            f"{name:24}{median[name]:8.0f}{quantile(times[name], 0.99):8.0f}"
            f"{median[name] / median['echo']:9.2f}{lost[name]:6}{message_times[name]:16.0f}"
        )
    print(
        f"~/nle to {RAW_EVENTS}: {median['~/nle'] / median[RAW_EVENTS]:.2f}, "
        f"processor {message_times['~/nle'] / message_times[RAW_EVENTS]:.2f}"
    )
    print(f"resident memory after {len(responses) * options.rounds} s: {memory:.0f} MB")


if __name__ == "__main__":
    main()
