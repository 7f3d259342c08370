# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Measure the benefit of running all nodes in one process, compared with two processes.

A client publishes joint states of the 7-joint arm and subscribes to ~/state of the dynamics and
the centroidal node. These are provided in turns by dyn_ros_node, and by dynamics_node and
centroidal_node in two processes; and by a node that computes nothing, but publishes the same bytes
with the stamp of each joint state, which is the minimum in Python. The output is, for each:
processor time per joint state (of all threads, so including DDS), time until both responses arrive,
and resident memory. In addition, this process measures the time of the engine for one joint state,
with one pass for both nodes and with a pass for each node.

    python benchmarks/one_process.py [--rounds 5] [--rate 500]
"""

import argparse
import array
import os
import subprocess
import sys
import time

from node_latency import ARM7, SPIN, processor_time, quantile, resident_memory

VARIANTS = {
    "two processes": ("dynamics_node", "centroidal_node"),
    "one process": ("dyn_ros_node",),
    "raw echo, events": ("echo",),
}
ECHO = (
    """
import sys
import rclpy
from rclpy.serialization import serialize_message
from sensor_msgs.msg import JointState
from dyn_ros.msg import CentroidalState, JointSpaceDynamics

rclpy.init(args=[])
node = rclpy.create_node("echo", namespace=sys.argv[1])
dynamics = JointSpaceDynamics(name=[f"joint_{i}" for i in range(7)])
dynamics.position = dynamics.velocity = dynamics.gravity = dynamics.nle = [0.0] * 7
dynamics.inertia.data = [0.0] * 49
echoes = [(node.create_publisher(type(message), topic, 10), bytearray(serialize_message(message)))
          for topic, message in (("dynamics/state", dynamics),
                                 ("centroidal/state", CentroidalState()))]

def echo(data):
    for publisher, message in echoes:
        message[4:12] = data[4:12]
        publisher.publish(bytes(message))

node.create_subscription(JointState, "joint_states", echo, 10, raw=True)
"""
    + SPIN
)


def start_process(module, namespace):
    if module == "echo":
        return subprocess.Popen([sys.executable, "-c", ECHO, namespace, "events"])
    return subprocess.Popen(
        [
            sys.executable,
            "-m",
            f"dyn_ros.nodes.{module}",
            "--ros-args",
            "-r",
            f"__ns:={namespace}",
            "-p",
            f"robot_description_file:={ARM7}",
        ],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


class Variant:
    """Processes of one variant, and their responses."""

    def __init__(self, node, name, executables, spin):
        from sensor_msgs.msg import JointState

        from dyn_ros.msg import CentroidalState, JointSpaceDynamics

        self.namespace = "/" + name.replace(",", "").replace(" ", "_")
        self.processes = [start_process(executable, self.namespace) for executable in executables]
        self.publisher = node.create_publisher(JointState, self.namespace + "/joint_states", 10)
        self.answer_times = {}
        self.subscriptions = [
            node.create_subscription(kind, f"{self.namespace}/{topic}/state", self._on_answer, 10)
            for topic, kind in (("dynamics", JointSpaceDynamics), ("centroidal", CentroidalState))
        ]
        self.spin, self.durations = spin, []
        self.used_time, self.states = 0.0, 0

    def _on_answer(self, message):
        key = message.header.stamp.sec, message.header.stamp.nanosec
        self.answer_times.setdefault(key, []).append(time.perf_counter())

    def processor_time(self):
        return sum(processor_time(process.pid) for process in self.processes)

    def round(self, message, rate, seconds):
        self.answer_times.clear()
        publish_times = {}
        start_processor_time, start = self.processor_time(), time.perf_counter()
        message.header.stamp.sec += 1
        for nanosec in range(round(rate * seconds)):
            message.header.stamp.nanosec = nanosec
            publish_times[message.header.stamp.sec, nanosec] = time.perf_counter()
            self.publisher.publish(message)
            while time.perf_counter() < start + (nanosec + 1) / rate:
                self.spin(max(start + (nanosec + 1) / rate - time.perf_counter(), 0.0))
        self.spin(0.05)
        self.used_time += self.processor_time() - start_processor_time
        self.states += len(publish_times)
        self.durations += [
            max(self.answer_times[key]) - publish_time
            for key, publish_time in publish_times.items()
            if len(self.answer_times.get(key, ())) == 2
        ]


def engine_times():
    """Return the engine's microseconds per joint state: one pass for both nodes, one for each."""
    import numpy as np

    import dyn_ros

    model = dyn_ros.Model.from_urdf_file(ARM7)
    data = dyn_ros.Data(model)
    q, v = model.random_configuration(np.random.default_rng(1)), np.full(model.nv, 0.1)

    def fastest(*passes):
        times = []
        for _ in range(20):
            start = time.perf_counter()
            for _ in range(500):
                for terms in passes:
                    dyn_ros.all_terms(model, data, q, v, only=terms)
            times.append((time.perf_counter() - start) / 500)
        return 1e6 * min(times)

    dynamics, centroidal = ("g", "M", "nle"), ("com", "Ig", "hg")
    return fastest(dynamics + centroidal), fastest(dynamics, centroidal)


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--rounds", type=int, default=5, help="seconds for each variant")
    parser.add_argument("--rate", type=float, default=500.0, help="joint states per second")
    options = parser.parse_args(argv)
    os.environ["ROS_AUTOMATIC_DISCOVERY_RANGE"] = "LOCALHOST"
    os.environ.setdefault("ROS_DOMAIN_ID", str(1 + os.getpid() % 100))

    import rclpy
    from sensor_msgs.msg import JointState

    import dyn_ros

    rclpy.init()
    node = rclpy.create_node("client")
    executor = rclpy.executors.SingleThreadedExecutor()
    executor.add_node(node)
    variants = {
        name: Variant(node, name, executables, executor.spin_once)
        for name, executables in VARIANTS.items()
    }
    try:
        model = dyn_ros.Model.from_urdf_file(ARM7)
        message = JointState(name=list(model.joint_names))
        message.position = array.array("d", [0.1] * model.nq)
        message.velocity = array.array("d", [0.2] * model.nv)
        message.header.stamp.sec = 1
        end = time.monotonic() + 60.0
        while not all(
            len(variant.answer_times) >= 20
            and len(max(variant.answer_times.values(), key=len)) == 2
            for variant in variants.values()
        ):
            assert time.monotonic() < end, "no answers"
            message.header.stamp.nanosec += 1
            for variant in variants.values():
                variant.publisher.publish(message)
            executor.spin_once(0.02)
        for _ in range(options.rounds):
            for variant in variants.values():
                variant.round(message, options.rate, 1.0)
        print(
            f"{'':16}{'processor':>12}{'both outputs [us]':>20}{'lost':>6}{'memory':>9}"
            f"   at {options.rate:g} Hz, 7 joints"
        )
        for name, variant in variants.items():
            memory = sum(resident_memory(process.pid) for process in variant.processes)
            p50, p99 = (1e6 * quantile(variant.durations, fraction) for fraction in (0.5, 0.99))
            print(
                f"{name:16}{1e6 * variant.used_time / variant.states:9.0f} us"
                f"{p50:8.0f} p50{p99:8.0f}"
                f"{variant.states - len(variant.durations):6}{memory:6.0f} MB"
            )
    finally:
        for variant in variants.values():
            for process in variant.processes:
                process.terminate()
                process.wait()
    one_pass, two_passes = engine_times()
    print(f"of this, the engine: {one_pass:.2f} us; with a pass for each node: {two_passes:.2f} us")


if __name__ == "__main__":
    main()
