# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Measure the cost of ~/markers: processor time of dyn_ros_node with and without subscribers.

The robot is a humanoid with 32 joints and a floating base. Joint states are published at 100 Hz
and markers at 30 Hz: all kinds that are shown by default, and the manipulability of a hand whose
pose is constrained. The output is the load of one core, measured in turns of several seconds, in
total and minus the load without subscribers.

    python benchmarks/markers.py [--seconds 5] [--rounds 2] [--rate 30] [--every]
"""

import argparse
import array
import importlib.metadata
import os
import subprocess
import sys
import time
from pathlib import Path

ROBOT = "talos_data/robots/talos_reduced.urdf"
FRAME = "gripper_left_base_link"
PARAMETERS = """
/**/dyn_ros:
  ros__parameters:
    robot_description_file: {path}
    root_joint: floating
    base_source: parameter
/**/dynamics:
  ros__parameters:
    markers.rate: {rate}
    markers.velocity_ellipsoid.frame: {frame}
    markers.force_ellipsoid.frame: {frame}
/**/centroidal:
  ros__parameters:
    markers.rate: {rate}
    markers.subtree_com.show: {every}
    markers.locked_inertia.show: {every}
/**/vereshchagin:
  ros__parameters:
    markers.rate: {rate}
    constraints: hold_pose
    tip_frame: {frame}
"""


def robot_file():
    """Return the robot description from the package example-robot-data."""
    distribution = importlib.metadata.distribution("example-robot-data")
    return Path(distribution.locate_file("cmeel.prefix/share/example-robot-data/robots")) / ROBOT


def start_nodes(parameters):
    return subprocess.Popen(
        [
            sys.executable,
            "-m",
            "dyn_ros.nodes.dyn_ros_node",
            "--ros-args",
            "--params-file",
            str(parameters),
            "--log-level",
            "error",
        ]
    )


def processor_time(pid):
    """Return the processor time that a process has used so far [s]."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Client:
    """Client that publishes joint states at 100 Hz and subscribes to markers."""

    def __init__(self, model):
        import rclpy
        from sensor_msgs.msg import JointState

        rclpy.init()
        self.node = rclpy.create_node("markers_client")
        self.executor = rclpy.executors.SingleThreadedExecutor()
        self.executor.add_node(self.node)
        self.publisher = self.node.create_publisher(JointState, "joint_states", 10)
        self.message = JointState(name=list(model.joint_names[1:]))
        self.message.position = array.array("d", [0.3] * (model.nq - 7))
        self.message.velocity = array.array("d", [0.2] * (model.nv - 6))
        self.node.create_timer(0.01, self.send)

    def send(self):
        self.message.header.stamp = self.node.get_clock().now().to_msg()
        self.publisher.publish(self.message)

    def spin(self, seconds):
        end = time.perf_counter() + seconds
        while time.perf_counter() < end:
            self.executor.spin_once(0.1)

    def measure_load(self, pid, topics, seconds):
        """Return the load of a core, the arrays per second and their size [bytes]."""
        from visualization_msgs.msg import MarkerArray

        received = {topic: [] for topic in topics}
        subscriptions = [
            self.node.create_subscription(MarkerArray, topic, messages.append, 10, raw=True)
            for topic, messages in received.items()
        ]
        self.spin(1.0)
        for messages in received.values():
            messages.clear()
        start, start_processor_time = time.perf_counter(), processor_time(pid)
        self.spin(seconds)
        seconds = time.perf_counter() - start
        load = (processor_time(pid) - start_processor_time) / seconds
        for subscription in subscriptions:
            self.node.destroy_subscription(subscription)
        self.spin(0.5)
        return load, [
            (len(messages) / seconds, len(messages[-1])) for messages in received.values()
        ]


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--seconds", type=float, default=5.0, help="duration of each measurement")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--rate", type=float, default=30.0, help="markers.rate [Hz]")
    parser.add_argument(
        "--every", action="store_true", help="include the kinds that are hidden by default"
    )
    options = parser.parse_args(argv)
    os.environ["ROS_AUTOMATIC_DISCOVERY_RANGE"] = "LOCALHOST"
    os.environ.setdefault("ROS_DOMAIN_ID", str(1 + os.getpid() % 100))

    import tempfile

    import dyn_ros

    model = dyn_ros.Model.from_urdf_file(robot_file(), root_joint="floating")
    nodes = ("dynamics", "centroidal", "vereshchagin")
    topics_of_cases = {
        "no subscribers": [],
        **{name: [f"/{name}/markers"] for name in nodes},
        "all": [f"/{name}/markers" for name in nodes],
    }
    with tempfile.TemporaryDirectory() as folder:
        parameters = Path(folder) / "parameters.yaml"
        parameters.write_text(
            PARAMETERS.format(
                path=robot_file(), frame=FRAME, rate=options.rate, every=str(options.every).lower()
            )
        )
        process = start_nodes(parameters)
        try:
            client = Client(model)
            while not client.node.count_publishers("/vereshchagin/markers"):
                client.spin(0.5)
            client.spin(1.0)
            min_loads = {}
            for _ in range(options.rounds):
                for name, topics in topics_of_cases.items():
                    load, arrays = client.measure_load(process.pid, topics, options.seconds)
                    min_loads[name] = min(min_loads.get(name, (load, arrays)), (load, arrays))
        finally:
            process.terminate()
            process.wait()
    idle_load = min_loads["no subscribers"][0]
    print(f"{model.njoints - 1} joints, 100 joint states per second")
    print(f"{'~/markers of':18}{'core load':>10}{'markers':>9}   arrays per second, bytes of each")
    for name, (load, arrays) in min_loads.items():
        rates = ", ".join(f"{rate:.0f}, {size}" for rate, size in arrays)
        print(f"{name:18}{100 * load:9.1f}%{100 * (load - idle_load):8.1f}%   {rates}")


if __name__ == "__main__":
    main()
