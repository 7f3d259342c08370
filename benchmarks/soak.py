# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Run all nodes in one process for an hour at full load, and count what is lost and where.

A client publishes joint states of an arm of 30 joints at 1 kHz and calls services of dyn_ros_node
100 times a second. Three processes subscribe to its outputs. The output is, each minute and in the
end, with numbers since the start of the measurement:

- joint states that were published, that the node has received and that it has answered (by its own
  counts in /diagnostics): the first difference is lost by the transport, the second by the node,
- messages that the node has published, and that arrived at each subscriber: the difference is lost
  by the transport,
- the latency from the joint state to the message,
- service calls without a response, and refused ones with the reason,
- the resident memory of the node.

    python benchmarks/soak.py [--minutes 60] [--rate 1000] [--calls 100] [--joints 30]
"""

import argparse
import array
import collections
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from node_latency import resident_memory

NAMESPACE = "/soak"
SUBSCRIBER_COUNT = 3
SETTLING_TIME = 2.5  # s, until messages have arrived and two diagnostics were published
STARTUP_MARGIN = 200_000  # joint states that are published before the measurement, at most


def arm(joint_count):
    """Return the URDF of an arm that turns about z and x in turn."""
    lines = ['<robot name="soak_arm">', '<link name="base_link"/>']
    for k in range(joint_count):
        parent = f"link_{k - 1}" if k else "base_link"
        name = f"link_{k}" if k < joint_count - 1 else "tool"
        lines.append(
            f'<link name="{name}"><inertial><origin xyz="0 0 0.05"/><mass value="0.5"/>'
            '<inertia ixx="0.001" iyy="0.001" izz="0.0005" ixy="0" ixz="0" iyz="0"/>'
            f'</inertial></link><joint name="joint_{k}" type="revolute"><parent link="{parent}"/>'
            f'<child link="{name}"/><origin xyz="0 0 0.1"/><axis xyz="{k % 2} 0 {1 - k % 2}"/>'
            '<limit lower="-3" upper="3" velocity="5" effort="200"/></joint>'
        )
    return "\n".join([*lines, "</robot>"])


def outputs():
    """Return the types of the topics that are subscribed to."""
    from sensor_msgs.msg import JointState

    from dyn_ros.msg import CentroidalState, JointSpaceInertia

    return {
        "dynamics/gravity": JointState,
        "dynamics/nle": JointState,
        "dynamics/inertia": JointSpaceInertia,
        "centroidal/state": CentroidalState,
    }


def requests():
    """Return a request for each service that is called."""
    from dyn_ros import srv

    return {
        "dynamics/get_jacobian": srv.GetJacobian.Request(frame="tool"),
        "dynamics/get_dynamics": srv.GetDynamics.Request(),
        "dynamics/get_energies": srv.GetEnergies.Request(),
        "dynamics/get_frame_state": srv.GetFrameState.Request(frame="tool"),
        "dynamics/get_model": srv.GetModel.Request(),
        "dynamics/get_rnea_derivatives": srv.GetRneaDerivatives.Request(),
        "dynamics/get_aba_derivatives": srv.GetAbaDerivatives.Request(),
        "centroidal/get_centroidal_map": srv.GetCentroidalMap.Request(),
        "centroidal/get_com_jacobian": srv.GetComJacobian.Request(),
    }


def message_number(data):
    """Return the number of a joint state, from the stamp of a serialized message."""
    seconds, nanoseconds = np.frombuffer(data, "<u4", 2, 4).tolist()
    return 1000 * (seconds - 1) + nanoseconds // 1_000_000


def set_stamp(message, number):
    """Set the stamp from which `message_number` reads the number of a joint state."""
    message.header.stamp.sec = 1 + number // 1000
    message.header.stamp.nanosec = number % 1000 * 1_000_000


def subscribe(publish_times_file):
    """Count messages until a line arrives on stdin; after each line, print the counts as JSON.

    The line is the number of the first joint state that counts. ``publish_times_file`` contains the
    time at which each joint state was published, by time.monotonic [s].
    """
    import threading

    import rclpy
    from rclpy.executors import ExternalShutdownException
    from rclpy.experimental import EventsExecutor
    from rclpy.qos import QoSProfile

    rclpy.init()
    node = rclpy.create_node(f"subscriber_{os.getpid()}", namespace=NAMESPACE)
    publish_times = np.memmap(publish_times_file, np.float64, "r")
    latency = {topic: np.full(len(publish_times), np.nan, np.float32) for topic in outputs()}

    def receive(topic, data):
        number = message_number(data)
        latency[topic][number] = time.monotonic() - publish_times[number]

    for topic, kind in outputs().items():
        node.create_subscription(
            kind,
            topic,
            lambda data, topic=topic: receive(topic, data),
            QoSProfile(depth=1000),
            raw=True,
        )

    def report_counts():
        for line in sys.stdin:
            first = int(line)
            counts, values = {}, []
            for topic, row in latency.items():
                arrived = row[first:][~np.isnan(row[first:])]
                counts[topic] = len(arrived)
                values.append(arrived)
            p50, p99, longest = np.percentile(np.concatenate([*values, [0.0]]), [50, 99, 100])
            print(json.dumps({"counts": counts, "latency": [p50, p99, longest]}), flush=True)
        rclpy.try_shutdown()

    threading.Thread(target=report_counts, daemon=True).start()
    executor = EventsExecutor()
    executor.add_node(node)
    with contextlib.suppress(ExternalShutdownException):
        while rclpy.ok():
            executor.spin_once(0.5)


class Client:
    """Client that publishes joint states, calls services and reads the diagnostics of the nodes."""

    def __init__(self, joint_count, publish_times):
        import rclpy
        from diagnostic_msgs.msg import DiagnosticArray
        from rclpy.experimental import EventsExecutor
        from rclpy.qos import QoSProfile
        from sensor_msgs.msg import JointState

        self.node = rclpy.create_node("soak_client")
        self.executor = EventsExecutor()
        self.executor.add_node(self.node)
        self.message = JointState(name=[f"joint_{k}" for k in range(joint_count)])
        self.message.position = array.array("d", [0.1] * joint_count)
        self.message.velocity = array.array("d", [0.2] * joint_count)
        self.publisher = self.node.create_publisher(JointState, NAMESPACE + "/joint_states", 10)
        self.publish_times = publish_times
        self.count = 0
        self.calls, self.open = 0, {}
        self.refusals = collections.Counter()
        self.diagnostics = {}  # the latest values of each node
        self.node.create_subscription(
            DiagnosticArray, "/diagnostics", self.on_diagnostics, 10 * len(requests())
        )
        self.clients = []
        for service, request in requests().items():
            kind = getattr(
                __import__("dyn_ros.srv", fromlist=["srv"]),
                type(request).__name__.removesuffix("_Request"),
            )
            client = self.node.create_client(
                kind, f"{NAMESPACE}/{service}", qos_profile=QoSProfile(depth=1000)
            )
            self.clients.append((service, client, request))

    def on_diagnostics(self, message):
        for status in message.status:
            self.diagnostics[status.name] = {pair.key: pair.value for pair in status.values}

    @property
    def receiver_values(self):
        """Diagnostics of the node that receives the joint states; empty before the first ones."""
        return next(
            (values for values in self.diagnostics.values() if "joint_states received" in values),
            {},
        )

    def totals(self):
        """Return how many joint states the node has received and answered, and its messages."""
        receiver = self.receiver_values
        published = [
            int(values["messages published"])
            for name, values in self.diagnostics.items()
            if name.startswith((NAMESPACE + "/dynamics:", NAMESPACE + "/centroidal:"))
        ]
        return np.array(
            [int(receiver["joint_states received"]), int(receiver["states"]), sum(published)]
        )

    def publish(self):
        set_stamp(self.message, self.count)
        self.publish_times[self.count] = time.monotonic()
        self.count += 1
        self.publisher.publish(self.message)

    def call(self):
        service, client, request = self.clients[self.calls % len(self.clients)]
        self.calls += 1
        number = self.calls
        future = client.call_async(request)
        self.open[number] = service
        future.add_done_callback(lambda future: self.on_answer(number, future))

    def on_answer(self, number, future):
        service = self.open.pop(number)
        if not future.result().success:
            self.refusals[f"{service}: {future.result().message}"] += 1

    def spin_until(self, ready, seconds=60.0):
        end = time.monotonic() + seconds
        while not ready():
            assert time.monotonic() < end, "no answer"
            self.executor.spin_once(0.02)

    def settle(self):
        """Wait for the last messages and diagnostics."""
        end = time.monotonic() + SETTLING_TIME
        self.spin_until(lambda: time.monotonic() > end)

    def run(self, seconds, rate, call_rate):
        """Publish and call for some time."""
        start, states, calls = time.monotonic(), 0, 0
        while (now := time.monotonic() - start) < seconds:
            if now * rate >= states:
                states += 1
                self.publish()
            if now * call_rate >= calls:
                calls += 1
                self.call()
            self.executor.spin_once(max(0.0, min(states / rate - now, 1.0 / rate)))


def report(client, subscribers, first, totals, pid):
    """Print what was lost since joint state number `first`, when the node had counted `totals`."""
    published = client.count - first
    received, completed, messages = client.totals() - totals
    print(
        f"{published} joint states published; {published - received} lost before the node, "
        f"{received - completed} by the node; {messages} messages published"
    )
    for k, subscriber in enumerate(subscribers):
        subscriber.stdin.write(f"{first}\n")
        subscriber.stdin.flush()
        result = json.loads(subscriber.stdout.readline())
        p50, p99, longest = (1e3 * value for value in result["latency"])
        print(
            f"  subscriber {k + 1}: {messages - sum(result['counts'].values())} lost after the "
            f"node; latency {p50:.2f} ms, p99 {p99:.1f}, longest {longest:.0f}"
        )
    print(
        f"  {client.calls} calls, {len(client.open)} without a response, "
        f"{sum(client.refusals.values())} refused; {resident_memory(pid):.1f} MB",
        flush=True,
    )


def start_processes(folder, options, publish_times_file):
    """Start the nodes, and processes that subscribe to their outputs."""
    robot = Path(folder) / "arm.urdf"
    robot.write_text(arm(options.joints))
    nodes = subprocess.Popen(
        [
            sys.executable,
            *("-m", "dyn_ros.nodes.dyn_ros_node", "--ros-args", "-r", f"__ns:={NAMESPACE}"),
            *("-p", f"robot_description_file:={robot}"),
        ]
    )
    subscribers = [
        subprocess.Popen(
            [sys.executable, __file__, "--publish-times", publish_times_file],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(SUBSCRIBER_COUNT)
    ]
    return nodes, subscribers


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--rate", type=float, default=1000.0, help="joint states per second")
    parser.add_argument("--calls", type=float, default=100.0, help="service calls per second")
    parser.add_argument("--joints", type=int, default=30)
    parser.add_argument("--publish-times", help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    if options.publish_times:
        return subscribe(options.publish_times)
    os.environ["ROS_AUTOMATIC_DISCOVERY_RANGE"] = "LOCALHOST"
    os.environ.setdefault("ROS_DOMAIN_ID", str(1 + os.getpid() % 100))

    import rclpy

    rclpy.init()
    with tempfile.TemporaryDirectory() as folder:
        publish_times_file = os.path.join(folder, "publish_times")
        publish_times = np.memmap(
            publish_times_file,
            np.float64,
            "w+",
            shape=round(60.0 * options.minutes * options.rate) + STARTUP_MARGIN,
        )
        nodes, subscribers = start_processes(folder, options, publish_times_file)
        try:
            client = Client(options.joints, publish_times)
            for service, server, _ in client.clients:
                client.spin_until(server.service_is_ready, 120.0)
                print(f"{service} is ready")
            client.spin_until(lambda: client.receiver_values, 120.0)  # after compilation
            client.run(5.0, options.rate, options.calls)
            client.settle()
            print(f"while it started: {dict(client.refusals)}")
            client.refusals.clear()
            first, totals, client.calls = client.count, client.totals(), 0
            remaining_time = 60.0 * options.minutes
            while remaining_time > 0.0:
                client.run(min(60.0, remaining_time), options.rate, options.calls)
                remaining_time -= 60.0
                client.settle()
                report(client, subscribers, first, totals, nodes.pid)
            for refusal, count in client.refusals.items():
                print(f"refused {count} times: {refusal}")
        finally:
            for process in (nodes, *subscribers):
                process.terminate()
            for process in (nodes, *subscribers):
                try:
                    process.wait(10.0)
                except subprocess.TimeoutExpired:
                    process.kill()


if __name__ == "__main__":
    main()
