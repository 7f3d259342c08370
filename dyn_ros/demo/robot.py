# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The simulated robot of the demo, in a process of its own, with the topics of a real robot.

It publishes ``robot_description`` (transient local) and ``joint_states`` with position, velocity
and the effort of its motors, measured with a little noise. A WrenchStamped on ``push`` pushes it
while such messages arrive. Its services ``~/set_payload`` and ``~/clear_payload`` hang bodies on
it that neither its motors nor other nodes know. It moves by itself until its service ``~/move``
stops this motion; it then follows the positions in ``~/command`` until the service starts the
motion again. Its service ``~/hold`` slows its own motion to a stop while users reach for it.
"""

import argparse
import contextlib
import math
import time
from array import array
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import rclpy
from geometry_msgs.msg import WrenchStamped
from rclpy.executors import Executor, ExternalShutdownException, SingleThreadedExecutor
from rclpy.node import Node
from rclpy.qos import DurabilityPolicy, QoSProfile
from rclpy.utilities import remove_ros_args
from sensor_msgs.msg import JointState
from std_msgs.msg import String
from std_srvs.srv import SetBool

from ..engine.model import Model
from ..engine.model.urdf import read_description
from ..nodes.messages.message_fields import from_inertia, wrench_numbers
from ..srv import ClearPayload, SetPayload
from ..viewer.motion import SineMotion, Steering
from ..viewer.simulation import CompliantRobot

POLL_PERIOD = 0.01  # s; messages and requests are handled this often
PUSH_TIMEOUT = 1.0  # s; a push ends after this time without a message, as a busy page may be late


def main() -> None:
    """Publish a moving robot until the process is asked to shut down."""
    parser = argparse.ArgumentParser(
        prog="python3 -m dyn_ros.demo.robot",
        description="Simulate a robot that publishes joint_states and robot_description.",
        epilog="ROS arguments can follow, such as a namespace.",
    )
    parser.add_argument("urdf", type=Path, help="URDF of a robot with a fixed base")
    parser.add_argument("--rate", type=float, default=200.0, help="rate of joint states [Hz] (200)")
    options = parser.parse_args(remove_ros_args()[1:])
    if not 0.0 < options.rate < math.inf:
        parser.error(f"the rate, {options.rate:g}, is not a positive number")
    try:
        xml = read_description(options.urdf)
        model = Model.from_urdf(xml)
    except (OSError, ValueError) as error:
        parser.error(f"{str(options.urdf)!r}: {error}")
    motion = SineMotion(model.tree)
    # compiles, so it comes before rclpy changes the signals' default, which ends the process
    robot = CompliantRobot(model, motion)
    rclpy.init()
    node = DemoRobot(xml, motion, robot)
    executor = SingleThreadedExecutor()
    executor.add_node(node)
    try:
        with contextlib.suppress(KeyboardInterrupt, ExternalShutdownException):
            node.publish_states(executor, options.rate)
    finally:
        executor.shutdown()
        node.destroy_node()
        rclpy.try_shutdown()


class DemoRobot(Node):
    """A node that simulates a robot, and publishes its description and its joint states.

    `robot` is at rest at the start of `motion`, its own motion.
    """

    def __init__(self, xml: str, motion: SineMotion, robot: CompliantRobot) -> None:
        super().__init__("demo_robot")
        latched = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
        description = self.create_publisher(String, "robot_description", latched)
        description.publish(String(data=xml))
        self._publisher = self.create_publisher(JointState, "joint_states", 10)
        self._message = JointState(name=motion.names)
        self._steering = Steering(motion)
        self._robot = robot
        self._now = time.monotonic()
        self._push_end = math.inf
        for name, switch in (("move", self._steering.play), ("hold", self._steering.hold)):
            self.create_service(SetBool, f"~/{name}", partial(_call_switch, switch))
        self.create_service(SetPayload, "~/set_payload", self._on_set_payload)
        self.create_service(ClearPayload, "~/clear_payload", self._on_clear_payload)
        self.create_subscription(JointState, "~/command", self._on_command, 1)
        self.create_subscription(WrenchStamped, "push", self._on_push, 1)

    # --- requests

    def _on_command(self, message: JointState) -> None:
        """Set the targets of the joints in a message; ignored while the robot moves by itself."""
        target = self._steering.target
        if target is None:
            return
        positions = dict(zip(message.name, message.position))
        self._steering.command(
            [
                x if math.isfinite(x := positions.get(name, math.nan)) else joint_target
                for name, joint_target in zip(self._message.name, target)
            ]
        )

    def _on_push(self, message: WrenchStamped) -> None:
        """Push the robot with a wrench, which ends after `PUSH_TIMEOUT` without a message."""
        try:
            self._robot.push(message.header.frame_id, wrench_numbers(message.wrench))
        except ValueError as error:
            self.get_logger().warning(f"push: {error}", throttle_duration_sec=10.0)
        else:
            self._push_end = time.monotonic() + PUSH_TIMEOUT

    def _on_set_payload(
        self, request: SetPayload.Request, response: SetPayload.Response
    ) -> SetPayload.Response:
        """Attach a body to the simulated robot."""

        def set_payload() -> None:
            body = from_inertia(request.inertia.inertia)
            self._robot.model.set_payload(
                request.name, request.inertia.header.frame_id, body.mass, body.com, body.rotational
            )

        return self._change_payloads(set_payload, response)

    def _on_clear_payload(
        self, request: ClearPayload.Request, response: ClearPayload.Response
    ) -> ClearPayload.Response:
        """Remove one payload of the simulated robot, or all."""

        def clear_payload() -> None:
            self._robot.model.clear_payload(request.name or None)

        return self._change_payloads(clear_payload, response)

    def _change_payloads(self, change: Callable[[], None], response: Any) -> Any:
        """Call a function that changes the payloads; return the response with the payloads."""
        try:
            change()
            response.success = True
        except ValueError as error:
            response.message = str(error)
        response.payloads = list(self._robot.model.payloads)
        response.total_mass = self._robot.model.total_mass
        return response

    # --- motion

    def publish_states(self, executor: Executor, rate: float) -> None:
        """Publish at a rate [Hz] until the process is asked to shut down."""
        next_state = next_poll = self._now = time.monotonic()
        while rclpy.ok():
            now = time.monotonic()
            if now >= next_state:
                self._publish()
                next_state = max(next_state + 1 / rate, now)
            if now >= next_poll:
                executor.spin_once(0.0)
                next_poll = now + POLL_PERIOD
            time.sleep(max(0.0, min(next_state, next_poll) - time.monotonic()))

    def _publish(self) -> None:
        """Simulate up to now, and publish the joint state."""
        now, stamp = time.monotonic(), self.get_clock().now()
        self._advance(now)
        self._message.position = array("d", self._robot.position)
        self._message.velocity = array("d", self._robot.velocity)
        self._message.effort = array("d", self._robot.measured_effort())
        self._message.header.stamp = stamp.to_msg()
        self._publisher.publish(self._message)

    def _advance(self, now: float) -> None:
        """Simulate up to a time of the monotonic clock."""
        if now > self._push_end:
            self._robot.push()
            self._push_end = math.inf
        seconds, self._now = now - self._now, now
        self._robot.follow(self._steering, seconds)


def _call_switch(
    switch: Callable[[bool], None], request: SetBool.Request, response: SetBool.Response
) -> SetBool.Response:
    """Answer a request for a service by a function that switches something on or off."""
    switch(request.data)
    response.success = True
    return response


if __name__ == "__main__":
    main()
