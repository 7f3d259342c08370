# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Run all nodes in one process for minutes at full load, and count lost messages.

A client publishes joint states of the 7-joint arm at 1 kHz, subscribes to ten outputs of
dyn_ros_node, and calls its services 18 times a second. The output is, each minute and in the end:
joint states without an answer on each topic, the latency from the joint state to each message,
calls without a response, and the resident memory.

    python benchmarks/soak.py [--minutes 10] [--rate 1000]
"""

import argparse
import array
import os
import subprocess
import time

import numpy as np
from node_latency import ARM7, resident_memory
from one_process import start_process

CALL_RATE = 18.0  # 1/s
NAMESPACE = "/soak"
# Outputs that are not published for each joint state.
MARKER_TOPICS = ("dynamics/markers", "vereshchagin/markers", "centroidal/markers")


def outputs():
    from sensor_msgs.msg import JointState
    from visualization_msgs.msg import MarkerArray

    from dyn_ros.msg import (
        CentroidalState,
        ConstrainedDynamics,
        JointSpaceDynamics,
        JointSpaceInertia,
    )

    return {
        "dynamics/gravity": JointState,
        "dynamics/nle": JointState,
        "dynamics/inertia": JointSpaceInertia,
        "dynamics/state": JointSpaceDynamics,
        "vereshchagin/constraint_torques": JointState,
        "vereshchagin/solution": ConstrainedDynamics,
        "centroidal/state": CentroidalState,
        **dict.fromkeys(MARKER_TOPICS, MarkerArray),
    }


def requests():
    from dyn_ros import srv

    return {
        "dynamics/get_jacobian": srv.GetJacobian.Request(frame="tool", hessian=True),
        "dynamics/get_dynamics": srv.GetDynamics.Request(),
        "dynamics/get_energies": srv.GetEnergies.Request(),
        "dynamics/get_frame_state": srv.GetFrameState.Request(frame="tool"),
        "dynamics/get_model": srv.GetModel.Request(),
        "dynamics/get_rnea_derivatives": srv.GetRneaDerivatives.Request(),
        "dynamics/get_aba_derivatives": srv.GetAbaDerivatives.Request(),
        "centroidal/get_centroidal_map": srv.GetCentroidalMap.Request(),
        "centroidal/get_com_jacobian": srv.GetComJacobian.Request(),
    }


class Client:
    """Client that publishes joint states and stores the latency of each answer."""

    def __init__(self, max_states):
        import rclpy
        from rclpy.experimental import EventsExecutor
        from rclpy.qos import QoSProfile
        from sensor_msgs.msg import JointState

        import dyn_ros

        self.node = rclpy.create_node("soak_client")
        self.executor = EventsExecutor()
        self.executor.add_node(self.node)
        model = dyn_ros.Model.from_urdf_file(ARM7)
        self.message = JointState(name=list(model.joint_names))
        self.message.position = array.array("d", [0.1] * model.nq)
        self.message.velocity = array.array("d", [0.2] * model.nv)
        self.publisher = self.node.create_publisher(JointState, NAMESPACE + "/joint_states", 10)
        self.constraints, self.constraints_publisher = self.create_constraints()
        self.publish_times = np.zeros(max_states)
        self.count = 0
        self.latency = {}  # NaN: no answer
        self.calls, self.failed, self.open = 0, 0, {}
        for topic, kind in outputs().items():
            self.latency[topic] = np.full(max_states, np.nan, np.float32)
            self.node.create_subscription(
                kind,
                f"{NAMESPACE}/{topic}",
                lambda data, topic=topic: self.receive(topic, data),
                QoSProfile(depth=1000),
                raw=True,
            )
        self.clients = {}
        for service, request in requests().items():
            kind = getattr(
                __import__("dyn_ros.srv", fromlist=["srv"]),
                type(request).__name__.removesuffix("_Request"),
            )
            self.clients[service] = (
                self.node.create_client(kind, f"{NAMESPACE}/{service}"),
                request,
            )
        self.client_requests = list(self.clients.values())

    def receive(self, topic, data):
        if topic in MARKER_TOPICS:
            # An array of messages, whose latency is not measured.
            self.latency[topic][self.count - 1] = 0.0
            return
        number = (
            int.from_bytes(data[4:8], "little") * 1000
            + int.from_bytes(data[8:12], "little") // 1_000_000
            - 1000
        )
        if 0 <= number < self.count:
            self.latency[topic][number] = time.perf_counter() - self.publish_times[number]

    def create_constraints(self):
        """Return constraints that hold the tool against vertical motion, and their publisher."""
        from dyn_ros.msg import AccelerationConstraints

        constraints = AccelerationConstraints(frame=["tool"])
        constraints.header.frame_id = "base_link"
        constraints.directions.rows, constraints.directions.cols = 6, 1
        constraints.directions.data = array.array("d", [0.0, 0.0, 1.0, 0.0, 0.0, 0.0])
        return constraints, self.node.create_publisher(
            AccelerationConstraints, NAMESPACE + "/vereshchagin/constraints", 10
        )

    def publish(self):
        stamp = self.message.header.stamp
        stamp.sec, stamp.nanosec = 1 + self.count // 1000, self.count % 1000 * 1_000_000
        self.publish_times[self.count] = time.perf_counter()
        self.count += 1
        self.publisher.publish(self.message)
        if self.count % 100 == 0:
            # Constraints older than input_timeout are not used.
            self.constraints_publisher.publish(self.constraints)

    def call(self):
        client, request = self.client_requests[self.calls % len(self.client_requests)]
        self.calls += 1
        number = self.calls
        future = client.call_async(request)
        self.open[number] = future
        future.add_done_callback(lambda future: self.on_answer(number, future))

    def on_answer(self, number, future):
        del self.open[number]
        self.failed += not future.result().success

    def spin_until(self, ready, seconds=60.0):
        end = time.perf_counter() + seconds
        while not ready():
            assert time.perf_counter() < end, "no answer"
            self.executor.spin_once(0.02)

    def warm_up(self, names):
        """Publish until all outputs have arrived, and call each service once."""
        for client, _ in self.client_requests:
            assert client.wait_for_service(60.0)

        def ready():
            self.publish()
            return not any(np.isnan(self.latency[topic]).all() for topic in names)

        self.spin_until(ready)
        for _ in self.client_requests:
            self.call()
        self.spin_until(lambda: not self.open)
        assert not self.failed, "a call has failed"

    def run(self, seconds, rate):
        """Publish and call for some time."""
        start, states, calls = time.perf_counter(), 0, 0
        while (now := time.perf_counter() - start) < seconds:
            if now * rate >= states:
                states += 1
                self.publish()
            if now * CALL_RATE >= calls:
                calls += 1
                self.call()
            self.executor.spin_once(max(0.0, min(states / rate - now, 1.0 / rate)))


def report(client, begin, names, pid):
    """Print losses and latencies since joint state number `begin`; return the losses by topic."""
    rows = {topic: client.latency[topic][begin : client.count] for topic in names}
    lost = {topic: int(np.isnan(row).sum()) for topic, row in rows.items()}
    latencies = np.concatenate([row[~np.isnan(row)] for row in rows.values()]) * 1e6
    p50, p99 = np.percentile(latencies, [50, 99])
    print(
        f"{client.count - begin:8} states, lost: {sum(lost.values()):4} of "
        f"{len(names) * (client.count - begin)} messages; latency {p50:.0f} us, p99 {p99:.0f}, "
        f"longest {latencies.max() / 1000:.1f} ms; {client.calls} calls, {len(client.open)} open, "
        f"{client.failed} failed; {resident_memory(pid):.0f} MB",
        flush=True,
    )
    return lost


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--rate", type=float, default=1000.0, help="joint states per second")
    options = parser.parse_args(argv)
    os.environ["ROS_AUTOMATIC_DISCOVERY_RANGE"] = "LOCALHOST"
    os.environ.setdefault("ROS_DOMAIN_ID", str(1 + os.getpid() % 100))

    import rclpy

    rclpy.init()
    node = start_process("dyn_ros_node", NAMESPACE)
    try:
        client = Client(round(60.0 * options.minutes * options.rate) + 100_000)
        names = [topic for topic in outputs() if topic not in MARKER_TOPICS]
        client.warm_up([*names, *MARKER_TOPICS])
        first = client.count
        remaining_time = 60.0 * options.minutes
        while remaining_time > 0.0:
            begin = client.count
            client.run(min(60.0, remaining_time), options.rate)
            remaining_time -= 60.0
            report(client, begin, names, node.pid)
        client.spin_until(lambda: not client.open, 5.0)
        end = time.perf_counter() + 0.5
        client.spin_until(lambda: time.perf_counter() > end)
        lost = report(client, first, names, node.pid)
        print(", ".join(f"{topic} {n}" for topic, n in lost.items() if n) or "none lost")
    finally:
        node.terminate()
        try:
            node.wait(10.0)
        except subprocess.TimeoutExpired:
            node.kill()


if __name__ == "__main__":
    main()
