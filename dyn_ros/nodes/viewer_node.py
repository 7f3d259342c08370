# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Shows a robot, its markers and its torques in a browser, with sliders and a push handle."""
from __future__ import annotations

import math
import sys
import time
from array import array
from collections import deque
from collections.abc import Mapping, Sequence, Set
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from diagnostic_msgs.msg import DiagnosticStatus
from geometry_msgs.msg import WrenchStamped
from nav_msgs.msg import Odometry
from rclpy.clock import Clock, ClockType
from rclpy.parameter import Parameter
from rclpy.qos import QoSProfile, ReliabilityPolicy
from sensor_msgs.msg import JointState
from std_srvs.srv import SetBool
from visualization_msgs.msg import MarkerArray

from dyn_ros.model.joint_states import check_pose
from dyn_ros.model.types import Array
from dyn_ros.model.urdf import read_urdf

from . import conversions, description
from .cdr import JointStateFields
from .description import parameter_description
from .diagnostics import THROTTLE
from .lifecycle import BaseNode
from .parameters import Spec
from .process import run
from .rate_limiter import RateLimiter
from .state import abbreviated
from .viewer_touch import PAYLOAD, Touch

if TYPE_CHECKING:
    from dyn_ros.viewer.follower import SpringFollower
    from dyn_ros.viewer.markers import Drawing
    from dyn_ros.viewer.panel import Panel
    from dyn_ros.viewer.scene import RobotScene

TOPICS = {"gravity": "dynamics/gravity", "nle": "dynamics/nle",
          "constraint": "vereshchagin/constraint_torques"}
"""JointState topics whose effort is plotted, by the name of the curve."""

PLOTS = 10.0        # update rate of the numbers and plots [Hz]
STALE = 1.0         # age at which a torque that is no longer published becomes unknown [s]
FORGET = 10.0       # how long a problem stays on the page [s]
MOST_PROBLEMS = 4   # shown on the page at once

SPECS = (
    Spec("host", "127.0.0.1",
         "Address to serve the page on. 127.0.0.1: reachable from this machine only. 0.0.0.0: "
         "anyone who can reach this machine can move the robot.", read_only=True),
    Spec("port", 8080, "First port to try, from 0 (any free port) to 65535; if it is in use, the "
         "next ones are tried.", read_only=True),
    Spec("rate", 30.0, "Update rate of the page [Hz].", limits=(1.0, 60.0)),
    Spec("plot_seconds", 10.0, "Time span of the plots [s].", limits=(1.0, 600.0),
         read_only=True),
    Spec("marker_topics", ["dynamics/markers", "centroidal/markers", "vereshchagin/markers"],
         "Topics (visualization_msgs/MarkerArray) with the markers to show."),
    Spec("world_frames", ["world", "map", "odom"],
         "frame_ids that markers use for the world, in addition to the frame_id of the topic odom. "
         "Without odometry, the root link is at the origin of the world."),
    Spec("mesh_paths", Parameter.Type.STRING_ARRAY,
         "Folders to search for packages with meshes, in addition to the ROS prefixes."),
    Spec("push_scale", 100.0, "Force per meter of handle displacement [N/m].",
         limits=(1e-3, 1e6)),
    Spec("motion_service", "",
         "Service (std_srvs/SetBool) that starts the robot's own motion (true), or stops it and "
         "its joint_states (false) when a slider is moved; empty: none.", read_only=True),
    Spec("command_topic", "joint_states",
         "Topic (sensor_msgs/JointState) on which the sliders publish positions and velocities.",
         read_only=True),
    Spec("simulated_robot", "",
         "Node of a simulated robot, on which its services set_payload and clear_payload hang a "
         "payload; empty: none.", read_only=True),
)


class ViewerNode(BaseNode):
    """Shows a robot, its markers and its torques in a browser, with sliders and a push handle."""

    specs = SPECS

    def __init__(self, name: str, **kwargs: Any) -> None:
        self._server: Any = None
        self._robot: RobotScene | None = None
        self._panel: Panel | None = None
        self._follower: SpringFollower | None = None
        self._problems: deque[tuple[float, str]] = deque(maxlen=MOST_PROBLEMS)
        self._odometry_frame: str | None = None
        self._handle: Any = None
        self._arrow: Any = None
        self._pushed: str | None = None
        self._force = np.zeros(3)       # on this link, in its frame [N]
        self._marker_topics: set[str] = set()
        self._publisher: Any = None     # of joint states; created when a slider is first moved
        self._motion: Any = None
        super().__init__(name, self.all_specs(), **kwargs)

    @property
    def address(self) -> str:
        """The address of the page."""
        return self._served

    # Lifecycle

    def start(self) -> None:
        """Serve the page, unless autostart is false.

        Raises
        ------
        ValueError
            The page cannot be served.
        """
        super().start()
        if self.parameters.values["autostart"] and self._server is None:
            raise ValueError(self.report.count.last_rejection)

    def end(self) -> None:
        self.close()

    def open(self) -> None:
        """Serve the page; subscribe to torques and markers."""
        from dyn_ros.viewer import page
        from dyn_ros.viewer.markers import Drawing
        values = self.parameters.values
        if not 0 <= values["port"] <= 65535:
            raise ValueError(f"port: expected 0 to 65535, but got {values['port']}")
        self._server = page.serve(values["host"], values["port"], "dyn_ros")
        self._drawing: Drawing = Drawing(self._server.scene, values["mesh_paths"])
        self._plot_limiter, self._status_limiter = RateLimiter(PLOTS), RateLimiter(1.0)
        self._served = page.address(self._server)
        self.get_logger().info(f"the robot is at {self._served}")
        if values["port"] and self._server.get_port() != values["port"]:
            self.get_logger().warning(f"port {values['port']} is in use")
        if not page.is_loopback(values["host"]):
            self.get_logger().warning(
                f"host {values['host']}: anyone who can reach this machine can see the robot and "
                "move it; there is no password")
        self._server.gui.add_markdown("Waiting for the topic `robot_description`.")
        self._server.scene.add_grid("/grid", cell_size=0.1, section_size=1.0, width=6.0,
                                    height=6.0, plane_opacity=0.0)
        self._push = self.create_publisher(WrenchStamped, "push", 10)
        if values["motion_service"]:
            self._motion = self.create_client(SetBool, values["motion_service"])
        self._touch = Touch(self, values["simulated_robot"])
        newest = QoSProfile(depth=1, reliability=ReliabilityPolicy.BEST_EFFORT)
        for curve, topic in TOPICS.items():
            self.subscribe(JointState, topic, partial(self._on_torque_message, curve), newest)
        self._listen_to_markers()
        self._updated = time.monotonic()
        self._set_timer()

    def close(self) -> None:
        """Stop serving the page."""
        if self._server is None:
            return
        self.destroy_timer(self.timer)
        self._server.stop()
        self.destroy_publisher(self._push)
        if self._publisher is not None:
            self.destroy_publisher(self._publisher)
        if self._motion is not None:
            self.destroy_client(self._motion)
        self._touch.close()
        self._server = self._robot = self._panel = self._follower = None
        self._publisher = self._motion = self._handle = self._arrow = self._pushed = None
        self._marker_topics = set()

    def _set_timer(self) -> None:
        self.timer = self.create_timer(
            1.0 / self.parameters.values["rate"], partial(self.guard, "update", self._tick),
            clock=Clock(clock_type=ClockType.STEADY_TIME))

    def _tick(self) -> None:
        now = time.monotonic()
        seconds, self._updated = now - self._updated, now
        self.update(now, seconds)

    # Topics

    def _listen_to_markers(self) -> None:
        wanted = set(self.parameters.values["marker_topics"])
        for topic in self._marker_topics - wanted:
            self.unsubscribe(topic)
            self._drawing.clear(topic)
        for topic in wanted - self._marker_topics:
            # reliable: a deletion is published only once
            self.subscribe(MarkerArray, topic, partial(self._on_markers, topic),
                           QoSProfile(depth=10))
        self._marker_topics = wanted

    def on_joint_states(self, fields: JointStateFields) -> None:
        robot = self._robot
        if robot is None:
            return
        slots = self._slots(fields.name)
        position = _array("positions", fields.position, len(fields.name))
        for name, slot, x in zip(fields.name, slots, position.tolist()):
            if slot is not None:
                if math.isfinite(x):
                    self._q[slot] = x
                else:
                    self.reject("joint_states", f"the position of {name} is {x:g}")
        self._states += 1
        if len(fields.effort) == len(slots):
            self._on_torques("effort", fields.name, fields.effort)

    def _on_torque_message(self, curve: str, message: JointState) -> None:
        self._on_torques(curve, message.name, message.effort)

    def _on_torques(self, curve: str, names: Sequence[str], effort: Sequence[float] | Array,
                    ) -> None:
        if self._robot is not None:
            efforts = _array("efforts", effort, len(names))
            for slot, x in zip(self._slots(tuple(names)), efforts.tolist()):
                if slot is not None:
                    self._torques[curve][slot] = x
            self._last_received[curve] = time.monotonic()

    def _slots(self, names: tuple[str, ...]) -> list[int | None]:
        """Return, for each name, the index of the joint or None."""
        assert self._robot is not None
        if names not in self._layouts:
            if len(self._layouts) > 100:
                self._layouts.clear()
            self._layouts[names] = [self._robot.slot(name) for name in names]
        return self._layouts[names]

    def on_odometry(self, message: Odometry) -> None:
        if self._robot is None:
            return
        pose = conversions.pose_numbers(message.pose.pose)
        check_pose(pose)
        self._robot.place(pose)
        self._odometry_frame = message.header.frame_id

    def _on_markers(self, topic: str, message: MarkerArray) -> None:
        if self._robot is None:
            return
        for problem in self._drawing.receive(topic, message, self.node_of, time.monotonic()):
            self.reject(f"marker {topic}", problem)

    def node_of(self, frame: str) -> str:
        """Return the scene's node of a frame, "" for the world; a ValueError for an unknown one."""
        if frame == self._odometry_frame or frame in self.parameters.values["world_frames"]:
            return ""
        assert self._robot is not None
        return self._robot.node(frame)

    # Parameters and robot

    def accept_parameters(self, values: Mapping[str, Any], changed: Set[str]) -> None:
        if description.NAMES & changed:
            text = parameter_description(values)
            if text:
                read_urdf(text)

    def parameters_changed(self, changed: Set[str]) -> None:
        if self._server is None:
            return
        if "marker_topics" in changed:
            self._listen_to_markers()
        if "rate" in changed:
            self.destroy_timer(self.timer)
            self._set_timer()
        if description.NAMES & changed:
            text = parameter_description(self.parameters.values)
            if text:
                self.description.take(text, "parameter robot_description")

    def use_description(self, text: str) -> None:
        """Show another robot; a ValueError for an invalid description leaves the current one."""
        from dyn_ros.viewer.panel import CURVES, Panel
        from dyn_ros.viewer.scene import RobotScene
        tree = read_urdf(text)
        self._stop_pushing()
        self._drawing.clear()
        self._drawing.draw(0.0)
        if self._robot:
            self._robot.remove()
        values = self.parameters.values
        self._robot = robot = RobotScene(self._server.scene, tree, text, values["mesh_paths"])
        self._layouts: dict[tuple[str, ...], list[int | None]] = {}
        self._q = np.full(len(robot.names), math.nan)
        self._torques = {curve: np.full(len(robot.names), math.nan) for curve in CURVES}
        self._last_received = dict.fromkeys(CURVES, -math.inf)
        self._states = 0
        self._follower, self._plays = None, True
        self._panel = Panel(self._server, tree.name, robot.joints, robot.links,
                            values["plot_seconds"], PLOTS, self._motion is not None,
                            PAYLOAD if values["simulated_robot"] else "")
        self._touch.attach(robot, self._panel.touch)
        self._place_camera()
        self._start_pushing()
        for problem in robot.problems:
            self.reject("robot_description", problem)
        self.get_logger().info(f"robot '{tree.name}': {len(robot.links)} links, "
                               f"{len(robot.names)} joints that move")

    def _place_camera(self) -> None:
        assert self._robot is not None
        reach = max(self._robot.reach, 0.1)
        camera = self._server.initial_camera
        camera.fov = math.radians(50.0)
        camera.position = tuple(reach * x for x in (1.15, 0.9, 0.85))
        camera.look_at = (0.0, 0.0, 0.4 * reach)

    # User input

    def _handle_events(self, panel: Panel) -> None:
        """Carry out what users did on the page."""
        while not panel.events.empty():
            what, *values = panel.events.get()
            if what == "slide":
                slot, position = values
                self._start_manual_motion().target[slot] = position
            elif what == "pause":
                self._start_manual_motion()
            elif what == "play":
                self._set_playing(True)
            elif what == "push":
                self._start_pushing()
            elif what == "let go":
                self._let_go()
            elif what == "hang":
                self._touch.hang(*values)
            elif what == "weigh":
                self._touch.weigh()
            else:
                self._drawing.show(*values)

    def _start_manual_motion(self) -> SpringFollower:
        from dyn_ros.viewer.follower import SpringFollower
        if self._follower is None:
            assert self._panel is not None
            self._set_playing(False)
            self._follower = SpringFollower(
                np.where(np.isfinite(self._q), self._q, self._panel.positions))
            if self._publisher is None:
                self._publisher = self.create_publisher(
                    JointState, self.parameters.values["command_topic"], 10)
        return self._follower

    def _set_playing(self, plays: bool) -> None:
        """Start or stop the robot's own motion."""
        assert self._panel is not None
        self._plays = plays
        self._panel.show_playing(plays)
        if plays:
            self._follower = None
        if self._motion is not None:
            self._motion.call_async(SetBool.Request(data=plays))

    def _move(self, robot: RobotScene, follower: SpringFollower, seconds: float) -> None:
        """Publish the positions of the joints as they follow the sliders."""
        follower.step(seconds)
        message = JointState(name=robot.names, position=array("d", follower.position),
                             velocity=array("d", follower.velocity))
        message.header.stamp = self.get_clock().now().to_msg()
        self._publisher.publish(message)

    # Pushing

    def _start_pushing(self) -> None:
        assert self._panel is not None and self._robot is not None
        self._stop_pushing()
        self._pushed = self._panel.pushed_link
        if self._pushed is None:
            return
        node = self._robot.node(self._pushed)
        self._handle = self._server.scene.add_transform_controls(
            f"{node}/push", scale=0.13 * max(self._robot.reach, 0.1), line_width=3.0,
            disable_rotations=True, disable_sliders=True, depth_test=False)
        self._arrow = self._server.scene.add_arrows(
            f"{node}/pushing", np.zeros((1, 2, 3)), (230, 50, 180), visible=False,
            shaft_radius=0.008, head_radius=0.02, head_length=0.04)

    def _stop_pushing(self) -> None:
        """Remove the handle, and publish a zero force."""
        if self._handle is not None:
            self._let_go()
            self._publish_push()
        for each in (self._handle, self._arrow):
            if each is not None:
                each.remove()
        self._handle = self._arrow = self._pushed = None
        self._force = np.zeros(3)
        if self._panel:
            self._panel.show_force(None)

    def _let_go(self) -> None:
        if self._handle is not None:
            self._handle.position = (0.0, 0.0, 0.0)

    def _publish_push(self) -> None:
        """Publish the force on the pushed link, at its origin and expressed in its frame."""
        if self._handle is None or self._panel is None:
            return
        pulled = np.array(self._handle.position)
        force = self.parameters.values["push_scale"] * pulled
        if self._push.get_subscription_count():
            message = WrenchStamped()
            message.header.stamp = self.get_clock().now().to_msg()
            message.header.frame_id = self._pushed
            conversions.set_vector(message.wrench.force, *force.tolist())
            self._push.publish(message)
        self._force = force
        self._arrow.visible = bool(np.linalg.norm(pulled) > 1e-3)
        self._arrow.points = np.array([[np.zeros(3), pulled]])
        self._panel.show_force(force)

    # The page

    def update(self, now: float, seconds: float) -> None:
        """Refresh the page at a time [s], a number of seconds after the last update."""
        panel, robot = self._panel, self._robot
        if panel is None or robot is None or not self.active:
            return
        self._handle_events(panel)
        if self._follower is not None:
            self._move(robot, self._follower, seconds)
        watched = bool(self._server.get_clients())
        plots = self._plot_limiter.due(now)
        if plots:
            self._forget_torques(now)
            panel.sample(now, self._torques)
        if self._status_limiter.due(now):
            self._show_status(panel, robot, now)
        with self._server.atomic():
            self._publish_push()
            self._touch.draw(1.0 / self.parameters.values["push_scale"])
            for problem in self._drawing.draw(now):
                self.reject("markers", problem)
            if not watched:
                return
            robot.move(np.where(np.isfinite(self._q), self._q, 0.0))
            if plots:
                panel.show_numbers()
                self._touch.show(now, self._pushed, self._force)
                if self._follower is None:
                    panel.show_positions(self._q)

    def _forget_torques(self, now: float) -> None:
        """Mark torques that are no longer published as unknown."""
        for curve, received in self._last_received.items():
            if now - received > STALE:
                self._torques[curve][:] = math.nan

    def _show_status(self, panel: Panel, robot: RobotScene, now: float) -> None:
        """Update the status line, the problems and the check boxes, once a second."""
        states, self._states = self._states, 0
        topic = self.parameters.values["command_topic"]
        others = self.count_publishers(topic) - (self._publisher is not None)
        free = self._motion is not None or others < 1
        panel.enable(free)
        unknown = [name for name, x in zip(robot.names, self._q) if not math.isfinite(x)]
        if states and unknown:
            text = "unknown position of " + abbreviated(unknown)
        elif states:
            text = "moved by the sliders" if self._follower else "receiving joint states"
            text += "" if free else "; another program moves the robot, the sliders are read-only"
        else:
            text = "no joint states: move a slider" if free else "no joint states"
        while self._problems and now - self._problems[0][0] > FORGET:
            self._problems.popleft()
        lasting = robot.problems[:MOST_PROBLEMS]
        panel.show_status(text, [*lasting, *dict.fromkeys(
            problem for _, problem in self._problems if problem not in lasting)])
        panel.show_families(self._drawing.families)

    def diagnose(self, busy: str = "") -> None:
        """Publish diagnostics."""
        self.guard("diagnose", self._diagnose)

    def _diagnose(self) -> None:
        count = self.report.count
        level, summary = DiagnosticStatus.OK, "running"
        if not self.active or self._robot is None:
            level = DiagnosticStatus.WARN
            summary = "waiting for robot_description" if self.active else self.state_label
        if self.parameters.faults:
            level, summary = DiagnosticStatus.ERROR, "; ".join(self.parameters.faults.values())
        elif count.rejected:
            level, summary = DiagnosticStatus.WARN, count.summary
        seconds = max(time.monotonic() - count.since, 1e-3)
        self.report.publish(level, summary, "", {
            "lifecycle state": self.state_label,
            "address": self._served if self._server else "",
            "viewers": len(self._server.get_clients()) if self._server else 0,
            "joint_states received [Hz]": f"{count.messages / seconds:.1f}",
        })

    def reject(self, what: str, why: object, throttle: float = THROTTLE) -> None:
        """Report rejected input on the page too."""
        self._show_problem(what, why)
        super().reject(what, why, throttle)

    def fail(self, what: str, why: object) -> None:
        """Report an operation that failed on the page too."""
        self._show_problem(what, why)
        super().fail(what, why)

    def _show_problem(self, what: str, why: object) -> None:
        line = str(why).strip().split("\n")[-1]
        self._problems.append((time.monotonic(), f"{what}: {line}"))


def _array(what: str, values: Sequence[float] | Array, count: int) -> Array:
    if len(values) != count:
        raise ValueError(f"{count} names, but {len(values)} {what}")
    return np.asarray(values)


def main(args: Sequence[str] | None = None) -> int:
    """Run the node until it is asked to shut down."""
    try:
        import viser  # noqa: F401
    except KeyboardInterrupt:
        return 0
    except ImportError as error:
        print(f"viewer: {error}; install viser: pip install viser pycollada", file=sys.stderr)
        return 1
    return run(ViewerNode, "viewer", args)


if __name__ == "__main__":
    raise SystemExit(main())
