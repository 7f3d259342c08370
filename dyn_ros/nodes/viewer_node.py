# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Shows a robot, its markers and its torques in a browser, with sliders and a push handle."""

from __future__ import annotations

import sys
import time
from array import array
from collections.abc import Mapping, Sequence, Set
from functools import partial
from typing import TYPE_CHECKING, Any

from geometry_msgs.msg import WrenchStamped
from nav_msgs.msg import Odometry
from rclpy.clock import Clock, ClockType
from rclpy.parameter import Parameter
from rclpy.qos import QoSProfile, ReliabilityPolicy
from sensor_msgs.msg import JointState
from std_srvs.srv import SetBool
from visualization_msgs.msg import MarkerArray

from dyn_ros.engine.kernel.types import Array
from dyn_ros.engine.model.urdf import read_urdf

from ..cdr.field_ranges import PatternReader
from ..msg import ExternalContact
from .base.lifecycle import LOG_INTERVAL, description_subject, parameter_description
from .base.node_parameters import DESCRIPTION_PARAMETERS, Spec
from .base.process import run_node
from .messages import message_fields
from .messages.serialized_messages import joint_state_reader, marker_array_reader
from .services.page_client import PageClient

if TYPE_CHECKING:
    from dyn_ros.viewer.actor import PageSettings
    from dyn_ros.viewer.session import Session
    from dyn_ros.viewer.touch_tab import TouchTab

TORQUE_TOPICS = {
    "gravity": "dynamics/gravity",
    "nle": "dynamics/nle",
    "constraint": "vereshchagin/constraint_torques",
}
"""JointState topics whose effort is plotted, by the name of the curve."""

SPECS = (
    Spec(
        "host",
        "127.0.0.1",
        "Address of the page. 127.0.0.1: this machine only. 0.0.0.0: all machines, which can then "
        "move the robot.",
        read_only=True,
    ),
    Spec(
        "allowed_hosts",
        Parameter.Type.STRING_ARRAY,
        "Other names of the page: host or host:port.",
        read_only=True,
    ),
    Spec(
        "port",
        8080,
        "First port to try; if it is in use, the next free one. 0: any free port.",
        read_only=True,
    ),
    Spec("rate", 30.0, "Update rate of the page [Hz].", limits=(1.0, 60.0)),
    Spec("plot_seconds", 10.0, "Time span of the plots [s].", limits=(1.0, 600.0), read_only=True),
    Spec(
        "marker_topics",
        ["dynamics/markers", "centroidal/markers", "vereshchagin/markers", "observer/markers"],
        "Topics of markers (visualization_msgs/MarkerArray).",
    ),
    Spec(
        "world_frames",
        ["world", "map", "odom"],
        "frame_ids of the world, in addition to the frame_id of odom.",
    ),
    Spec(
        "mesh_paths",
        Parameter.Type.STRING_ARRAY,
        "Folders with packages that contain meshes, in addition to the ROS prefixes.",
    ),
    Spec("push_scale", 100.0, "Force per displacement of the ball [N/m].", limits=(1e-3, 1e6)),
    Spec(
        "motion_service",
        "",
        "Service (std_srvs/SetBool) that starts or stops a simulated robot.",
        read_only=True,
    ),
    Spec(
        "command_topic",
        "joint_states",
        "Topic (sensor_msgs/JointState) of the sliders.",
        read_only=True,
    ),
    Spec(
        "simulated_robot",
        "",
        "Node of a simulated robot, with the services set_payload, clear_payload, and hold "
        "(std_srvs/SetBool).",
        read_only=True,
    ),
)


class ViewerNode(PageClient):
    """Shows a robot, its markers and its torques in a browser, with sliders and a push handle."""

    specs = SPECS
    state_queue_depth = 500  # joint states; markers are drawn with the one of their stamp

    def __init__(self, name: str, **kwargs: Any) -> None:
        self.session: Session | None = None
        self._joint_state_reader = joint_state_reader()
        self._marker_topics: set[str] = set()
        self._joint_state_publisher: Any = None  # created when a slider is first moved
        self._motion_client: Any = None
        super().__init__(name, self.all_specs(), **kwargs)

    @property
    def address(self) -> str:
        """The address of the page, or ""."""
        return self.session.address if self.session else ""

    # --- lifecycle

    def start(self) -> None:
        """Serve the page, unless autostart is false; raise a ValueError if it cannot be served."""
        super().start()
        if self.parameters.values["autostart"] and self.session is None:
            raise ValueError(self.report.count.last_rejection)

    def end(self) -> None:
        """Close the page."""
        self.close()

    def open(self) -> None:
        """Serve the page; create publishers, clients, subscriptions and the timer of `update`."""
        from dyn_ros.viewer.page import page
        from dyn_ros.viewer.session import Session

        values = self.parameters.values
        if not 0 <= values["port"] <= 65535:
            raise ValueError(f"port: expected 0 to 65535, but got {values['port']}")
        self.session = Session(values["host"], values["port"], self, self._page_settings())
        self.get_logger().info(f"the robot is at {self.address}")
        if values["port"] and self.session.server.get_port() != values["port"]:
            self.get_logger().warning(f"port {values['port']} is in use")
        if not page.is_loopback(values["host"]):
            self.get_logger().warning(
                f"host {values['host']}: anyone who can reach this machine can see the robot and "
                "move it; there is no password"
            )
        self.session.wait(
            "It appears once its description arrives on the topic robot_description. Start "
            "robot_state_publisher, or set the parameter robot_description_file of the viewer."
        )
        self._push_publisher = self.create_publisher(WrenchStamped, "push", 10)
        if values["motion_service"]:
            self._motion_client = self.create_client(SetBool, values["motion_service"])
        self.open_services(values["simulated_robot"])
        latest_qos = QoSProfile(depth=1, reliability=ReliabilityPolicy.BEST_EFFORT)
        for curve, topic in TORQUE_TOPICS.items():
            self.subscribe(JointState, topic, partial(self._on_torque_message, curve), latest_qos)
        self.subscribe(
            ExternalContact,
            "observer/contacts",
            partial(self._pass_to_touch_tab, "receive_contact"),
            latest_qos,
        )
        self.subscribe(
            WrenchStamped,
            "observer/external_wrench",
            partial(self._pass_to_touch_tab, "receive_wrench"),
            latest_qos,
        )
        self._subscribe_to_markers()
        self._update_time = time.monotonic()
        self._set_timer()

    def close(self) -> None:
        """Close the page and remove what `open` created."""
        if self.session is None:
            return
        self.destroy_timer(self.timer)
        self.session.close()
        self.destroy_publisher(self._push_publisher)
        if self._joint_state_publisher is not None:
            self.destroy_publisher(self._joint_state_publisher)
        if self._motion_client is not None:
            self.destroy_client(self._motion_client)
        self.close_services()
        self.session = self._joint_state_publisher = self._motion_client = None
        self._marker_topics = set()

    def _page_settings(self) -> PageSettings:
        """Return the settings of the page in the parameters."""
        from dyn_ros.viewer.actor import PageSettings

        values = self.parameters.values
        return PageSettings(
            values["plot_seconds"],
            values["push_scale"],
            values["mesh_paths"],
            values["world_frames"],
            bool(values["motion_service"]),
            bool(values["simulated_robot"]),
            values["allowed_hosts"],
            advise=self.advise,
        )

    def _set_timer(self) -> None:
        """Create the timer that updates the page with the parameter `rate`."""
        # without a parameter, which kilted passes information about the timer to
        self.timer = self.create_timer(
            1.0 / self.parameters.values["rate"],
            lambda: self.guard("update", self._tick),
            clock=Clock(clock_type=ClockType.STEADY_TIME),
        )

    def _tick(self) -> None:
        """Call `update` with the time since the last call."""
        now = time.monotonic()
        seconds, self._update_time = now - self._update_time, now
        self.update(now, seconds)

    def update(self, now: float, seconds: float) -> None:
        """Refresh the page at a time [s], a number of seconds after the last update."""
        if self.session is not None and self.active:
            self.session.update(now, seconds)

    # --- topics

    def _subscribe_to_markers(self) -> None:
        """Subscribe to the marker_topics, and to no other topics of markers."""
        assert self.session is not None
        topics = set(self.parameters.values["marker_topics"])
        for topic in self._marker_topics - topics:
            self.unsubscribe(topic)
            self.session.forget_markers(topic)
        for topic in topics - self._marker_topics:
            # reliable: a deletion is published only once
            self.subscribe(
                MarkerArray,
                topic,
                partial(self._on_markers, topic, marker_array_reader()),
                QoSProfile(depth=10),
                raw=True,
            )
        self._marker_topics = topics

    def on_joint_states(self, data: bytes) -> None:
        """Pass a joint state to the page."""
        self.report.count.messages += 1
        fields = self._joint_state_reader.read(data)
        if self.session is not None:
            self.session.receive_joint_state(
                fields.name, fields.position, fields.effort, fields.stamp
            )

    def _on_torque_message(self, curve: str, message: JointState) -> None:
        """Plot the efforts of a message as a curve, a key of `TORQUE_TOPICS`."""
        if self.session is not None:
            self.session.receive_torques(curve, message.name, message.effort)

    def on_odometry(self, message: Odometry) -> None:
        """Move the robot on the page to the pose of its base."""
        if self.session is not None:
            header = message.header
            self.session.place(
                message_fields.pose_numbers(message.pose.pose),
                header.frame_id,
                message_fields.stamp_nanoseconds(header.stamp),
            )

    def _on_markers(self, topic: str, reader: PatternReader[Any], data: bytes) -> None:
        """Pass serialized markers of a topic to the page."""
        if self.session is not None:
            self.session.receive_markers(topic, reader.read(data))

    def _pass_to_touch_tab(self, receive: str, message: Any) -> None:
        """Call the method `receive` of the page's `TouchTab`, if it has one."""
        if self.session is not None and self.session.touch is not None:
            getattr(self.session.touch, receive)(message)

    # --- parameters and robot

    def accept_parameters(self, values: Mapping[str, Any], changed: Set[str]) -> None:
        """Raise a ValueError if a changed robot description is invalid."""
        if DESCRIPTION_PARAMETERS & changed and (text := parameter_description(values)):
            read_urdf(text)

    def parameters_changed(self, changed: Set[str]) -> None:
        """Apply changed parameters to the page."""
        if self.session is None:
            return
        self.session.settings = self._page_settings()
        if "marker_topics" in changed:
            self._subscribe_to_markers()
        if "rate" in changed:
            self.destroy_timer(self.timer)
            self._set_timer()
        if DESCRIPTION_PARAMETERS & changed and (
            text := parameter_description(self.parameters.values)
        ):
            self.receive_description(text, description_subject(self.parameters.values))

    def replace_robot(self, text: str) -> None:
        """Show the robot of a description (URDF); raise an exception if it is invalid."""
        tree = read_urdf(text)
        assert self.session is not None
        self.forget_estimate()
        self.session.show_robot(tree, text)
        assert self.session.robot is not None
        self.get_logger().info(
            f"robot '{tree.name}': {len(self.session.robot.links)} links, "
            f"{len(self.session.robot.names)} joints that move"
        )

    def shows(self, touch: TouchTab) -> bool:
        return self.session is not None and self.session.touch is touch

    # --- actions of users on the page, see viewer/actor.py

    def can_move(self) -> bool:
        publishers = self.count_publishers(self.parameters.values["command_topic"])
        return self._motion_client is not None or publishers <= (
            self._joint_state_publisher is not None
        )

    def move(self, names: list[str], position: Array, velocity: Array) -> None:
        if self._joint_state_publisher is None:
            self._joint_state_publisher = self.create_publisher(
                JointState, self.parameters.values["command_topic"], 10
            )
        message = JointState(
            name=names, position=array("d", position), velocity=array("d", velocity)
        )
        message.header.stamp = self.get_clock().now().to_msg()
        self._joint_state_publisher.publish(message)

    def play(self, plays: bool) -> None:
        if self._motion_client is not None:
            self._motion_client.call_async(SetBool.Request(data=plays))

    def push(self, link: str, force: Array) -> None:
        """Publish the force of the ball, but no zeros between the pushes of another program."""
        if self._push_publisher.get_subscription_count() and (
            force.any() or not self._has_other_push_publisher()
        ):
            message = WrenchStamped()
            message.header.stamp = self.get_clock().now().to_msg()
            message.header.frame_id = link
            message_fields.set_vector(message.wrench.force, *force.tolist())
            self._push_publisher.publish(message)

    def _has_other_push_publisher(self) -> bool:
        """Return True if another node publishes pushes."""
        publishers = self.get_publishers_info_by_topic(self._push_publisher.topic_name)
        return any(publisher.node_name != self.get_name() for publisher in publishers)

    def report_refusal(self, line: str) -> None:
        self.get_logger().warning(line)

    # --- diagnostics

    def diagnose(self, busy: str = "") -> None:
        """Publish diagnostics."""
        count, session = self.report.count, self.session
        waiting = "" if self.active else self.state_label
        if self.active and (session is None or session.robot is None):
            waiting = self.missing_description()
        waiting = waiting if not self.active else self.description_fault or waiting
        seconds = max(time.monotonic() - count.since, 1e-3)
        self.report.publish(
            waiting,
            self.parameters.faults,
            "",
            {
                "lifecycle state": self.state_label,
                "address": self.address,
                "viewers": len(session.server.get_clients()) if session else 0,
                "joint_states received [Hz]": f"{count.messages / seconds:.1f}",
            },
        )

    def reject(self, subject: str, reason: object, interval: float = LOG_INTERVAL) -> None:
        """Reject an input as `BaseNode` does, and show the reason on the page."""
        if self.session is not None:
            self.session.show_problem(subject, reason)
        super().reject(subject, reason, interval)

    def fail(self, subject: str, reason: object) -> None:
        """Report a failure as `BaseNode` does, and show the reason on the page."""
        if self.session is not None:
            self.session.show_problem(subject, reason)
        super().fail(subject, reason)


def main(args: Sequence[str] | None = None) -> int:
    """Run the node until it is asked to shut down."""
    try:
        import viser  # noqa: F401
    except ImportError as error:
        print(f'viewer: {error}; pip install "dyn_ros[viewer]"', file=sys.stderr)
        return 1
    return run_node(ViewerNode, "viewer", args)


if __name__ == "__main__":
    raise SystemExit(main())
