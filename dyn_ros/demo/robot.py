# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The simulated robot of the demo, in a process of its own, with the topics of a real robot.

It publishes ``robot_description`` (transient local) and ``joint_states`` with position, velocity
and the effort that the motion requires, stamped when they are sent. Its service ``~/move`` stops
it, so that another node can publish joint states, and resumes from the position reached by then.
"""
import argparse
import time
from array import array
from pathlib import Path

import rclpy
from rclpy.executors import Executor, SingleThreadedExecutor
from rclpy.node import Node
from rclpy.qos import DurabilityPolicy, QoSProfile
from rclpy.subscription import Subscription
from sensor_msgs.msg import JointState
from std_msgs.msg import String
from std_srvs.srv import SetBool

from ..model import Model
from ..model.urdf import read_description
from .motion import Motion, Motors, Moving, Resumed

POLL_PERIOD = 0.05  # seconds between two checks for requests


def main() -> None:
    """Publish a moving robot until the process is asked to shut down."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("urdf", type=Path)
    parser.add_argument("--rate", type=float, required=True)
    options = parser.parse_args()
    xml = read_description(options.urdf)
    model = Model.from_urdf(xml)
    motion = Motion(model.tree.joints)
    motors = Motors(model, motion.names)
    motors.effort(*motion.at(0.0))      # compile while a signal still ends the process at once
    rclpy.init(args=[])
    robot = DemoRobot(xml, motion, motors)
    executor = SingleThreadedExecutor()
    executor.add_node(robot)
    try:
        robot.run(executor, options.rate)
    finally:
        executor.shutdown()
        robot.destroy_node()
        rclpy.try_shutdown()


class DemoRobot(Node):
    """Publishes its description once, and a joint state every period while it moves."""

    def __init__(self, xml: str, motion: Motion, motors: Motors) -> None:
        super().__init__("demo_robot")
        latched = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
        description = self.create_publisher(String, "robot_description", latched)
        description.publish(String(data=xml))
        self._publisher = self.create_publisher(JointState, "joint_states", 10)
        self._message = JointState(name=motion.names)
        self._motion = motion
        self._moving: Moving = motion
        self._motors = motors
        self._start = time.monotonic()
        # to other nodes' joint states while stopped
        self._others: Subscription | None = None
        self._position: dict[str, float] = {}
        self.create_service(SetBool, "~/move", self._on_move)

    def _on_move(self, request: SetBool.Request, response: SetBool.Response) -> SetBool.Response:
        if request.data and self._others is not None:
            self.destroy_subscription(self._others)
            self._others = None
            self._moving = Resumed(self._motion, list(self._position.values()))
            self._start = time.monotonic()
        elif not request.data and self._others is None:
            self._position = dict(zip(self._message.name, self._message.position))
            self._others = self.create_subscription(
                JointState, "joint_states", self._on_states, 10)
        response.success = True
        return response

    def _on_states(self, message: JointState) -> None:
        self._position.update((name, x) for name, x in zip(message.name, message.position)
                              if name in self._position)

    def run(self, executor: Executor, rate: float) -> None:
        """Publish at a rate [Hz] until the process is asked to shut down."""
        due = polled = time.monotonic()
        while rclpy.ok():
            if self._others is not None:
                executor.spin_once(POLL_PERIOD)
                continue
            self._publish()
            now = time.monotonic()
            if now >= polled:
                executor.spin_once(0.0)
                polled = now + POLL_PERIOD
            due = max(due + 1 / rate, now)
            time.sleep(max(0.0, due - now))

    def _publish(self) -> None:
        position, velocity, acceleration = self._moving.at(time.monotonic() - self._start)
        self._message.position = array("d", position)
        self._message.velocity = array("d", velocity)
        self._message.effort = array("d", self._motors.effort(position, velocity, acceleration))
        self._message.header.stamp = self.get_clock().now().to_msg()
        self._publisher.publish(self._message)


if __name__ == "__main__":
    main()
