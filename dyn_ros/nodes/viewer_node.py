# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Shows a robot, its markers and its torques in a browser, with sliders and a push handle."""
import math
import sys
import time
import traceback
from array import array
from collections import deque

import numpy as np
import rclpy
from geometry_msgs.msg import WrenchStamped
from nav_msgs.msg import Odometry
from rclpy.executors import ExternalShutdownException, SingleThreadedExecutor
from rclpy.node import Node
from rclpy.parameter import Parameter
from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy
from rclpy.qos_overriding_options import QoSOverridingOptions
from sensor_msgs.msg import JointState
from std_msgs.msg import String
from std_srvs.srv import SetBool
from visualization_msgs.msg import MarkerArray

from dyn_ros.model.urdf import read_urdf

from . import base, conversions
from .parameters import Parameters, Spec
from .rate_limiter import RateLimiter
from .state import abbreviated, check_pose

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
    *(spec for spec in base.SPECS if spec.name in ("robot_description", "robot_description_file")),
)


class ViewerNode(Node):
    """Serves the page; `update` refreshes it.

    Parameters
    ----------
    name : str
    """

    def __init__(self, name, **kwargs):
        from dyn_ros.viewer import page
        from dyn_ros.viewer.markers import Drawing
        super().__init__(name, **kwargs)
        self.received = False           # whether a callback has run, see `drain`
        self._robot = self._panel = self._follower = None
        self._description = ""
        self._last_logged, self._problems = {}, deque(maxlen=MOST_PROBLEMS)
        self._odometry_frame = None
        self._handle = self._arrow = self._pushed = None
        self._marker_subscriptions = {}
        self._publisher = None          # of joint states; created when a slider is first moved
        self.parameters = Parameters(self, SPECS, self._accept, self._changed)
        values = self.parameters.values
        for fault in self.parameters.faults.values():
            self.problem("parameters", fault)
        self._accept(values, ())
        self._server = page.serve(values["host"], values["port"], "dyn_ros")
        self._drawing = Drawing(self._server.scene, values["mesh_paths"])
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
        self._motion = None
        if values["motion_service"]:
            self._motion = self.create_client(SetBool, values["motion_service"])
        self._listen()
        self._take_parameter_description()

    @property
    def address(self):
        """The address of the page."""
        return self._served

    def close(self):
        """Stop serving the page."""
        self._server.stop()

    # Topics

    def _listen(self):
        latched = QoSProfile(depth=1, reliability=ReliabilityPolicy.RELIABLE,
                             durability=DurabilityPolicy.TRANSIENT_LOCAL)
        states = QoSProfile(depth=10, reliability=ReliabilityPolicy.BEST_EFFORT)
        newest = QoSProfile(depth=1, reliability=ReliabilityPolicy.BEST_EFFORT)
        self._subscribe(String, "robot_description", self._on_robot_description, latched)
        self._subscribe(JointState, "joint_states", self._on_joint_states, states)
        self._subscribe(Odometry, "odom", self._on_odometry, newest)
        for curve, topic in TOPICS.items():
            self._subscribe(JointState, topic, self._reader(curve), newest)
        self._listen_to_markers()

    def _reader(self, curve):
        return lambda message: self._on_torques(curve, message)

    def _listen_to_markers(self):
        wanted = set(self.parameters.values["marker_topics"])
        for topic in self._marker_subscriptions.keys() - wanted:
            self.destroy_subscription(self._marker_subscriptions.pop(topic))
            self._drawing.clear(topic)
        for topic in wanted - self._marker_subscriptions.keys():
            # reliable: a deletion is published only once
            self._marker_subscriptions[topic] = self._subscribe(
                MarkerArray, topic, self._marker_reader(topic), QoSProfile(depth=10))

    def _marker_reader(self, topic):
        return lambda message: self._on_markers(topic, message)

    def _subscribe(self, kind, topic, callback, qos):
        def guarded(message):
            self.received = True
            try:
                callback(message)
            except ValueError as error:
                self.problem(topic, f"{topic}: {error}")
            except Exception:
                self.problem(topic, f"{topic}: {traceback.format_exc()}")
        return self.create_subscription(
            kind, topic, guarded, qos,
            qos_overriding_options=QoSOverridingOptions.with_default_policies())

    def _on_robot_description(self, message):
        self._take_robot(message.data)

    def _on_joint_states(self, message):
        robot = self._robot
        if robot is None:
            return
        slots = self._slots(message.name)
        position = _array("positions", message.position, len(message.name))
        for name, slot, x in zip(message.name, slots, position):
            if slot is not None:
                if math.isfinite(x):
                    self._q[slot] = x
                else:
                    self.problem("joint_states", f"joint_states: the position of {name} is {x:g}")
        self._states += 1
        if len(message.effort) == len(slots):
            self._on_torques("effort", message)

    def _on_torques(self, curve, message):
        if self._robot is not None:
            effort = _array("efforts", message.effort, len(message.name))
            for slot, x in zip(self._slots(message.name), effort):
                if slot is not None:
                    self._torques[curve][slot] = x
            self._last_received[curve] = time.monotonic()

    def _slots(self, names):
        """Return, for each name, the index of the joint or None."""
        names = tuple(names)
        if names not in self._layouts:
            if len(self._layouts) > 100:
                self._layouts.clear()
            self._layouts[names] = [self._robot.slot(name) for name in names]
        return self._layouts[names]

    def _on_odometry(self, message):
        if self._robot is None:
            return
        pose = conversions.pose_numbers(message.pose.pose)
        check_pose(pose)
        self._robot.place(pose)
        self._odometry_frame = message.header.frame_id

    def _on_markers(self, topic, message):
        if self._robot is None:
            return
        for problem in self._drawing.receive(topic, message, self._node_of, time.monotonic()):
            self.problem(f"marker {topic}", problem)

    def _node_of(self, frame):
        if frame == self._odometry_frame or frame in self.parameters.values["world_frames"]:
            return ""
        return self._robot.node(frame)

    # Parameters and robot

    def _accept(self, values, changed):
        if not 0 <= values["port"] <= 65535:
            raise ValueError(f"port: expected 0 to 65535, but got {values['port']}")

    def _changed(self, changed):
        if "marker_topics" in changed:
            self._listen_to_markers()
        if {"robot_description", "robot_description_file"} & set(changed):
            self._take_parameter_description()

    def _take_parameter_description(self):
        try:
            description = base.parameter_description(self.parameters.values)
            if description:
                self._take_robot(description)
        except (OSError, ValueError) as error:
            self.problem("robot_description", f"robot_description: {error}")

    def _take_robot(self, description):
        """Show another robot; a ValueError for an invalid description leaves the current one."""
        from dyn_ros.viewer.panel import CURVES, Panel
        from dyn_ros.viewer.scene import RobotScene
        if description == self._description:
            return
        tree = read_urdf(description)
        self._stop_pushing()
        self._drawing.clear()
        self._drawing.draw(0.0)
        if self._robot:
            self._robot.remove()
        values = self.parameters.values
        self._robot = robot = RobotScene(
            self._server.scene, tree, description, values["mesh_paths"])
        self._description = description
        self._layouts = {}
        self._q = np.full(len(robot.names), math.nan)
        self._torques = {curve: np.full(len(robot.names), math.nan) for curve in CURVES}
        self._last_received = dict.fromkeys(CURVES, -math.inf)
        self._states = 0
        self._follower, self._plays = None, True
        self._panel = Panel(self._server, tree.name, robot.joints, robot.links,
                            values["plot_seconds"], PLOTS, self._motion is not None)
        self._place_camera()
        self._start_pushing()
        for problem in robot.problems:
            self.problem(problem, problem)
        self.get_logger().info(f"robot '{tree.name}': {len(robot.links)} links, "
                               f"{len(robot.names)} joints that move")

    def _place_camera(self):
        reach = max(self._robot.reach, 0.1)
        camera = self._server.initial_camera
        camera.fov = math.radians(50.0)
        camera.position = tuple(reach * x for x in (1.15, 0.9, 0.85))
        camera.look_at = (0.0, 0.0, 0.4 * reach)

    # User input

    def _handle_events(self):
        """Carry out what users did on the page."""
        while not self._panel.events.empty():
            what, *values = self._panel.events.get()
            if what == "slide":
                self._start_manual_motion()
                slot, position = values
                self._follower.target[slot] = position
            elif what == "pause":
                self._start_manual_motion()
            elif what == "play":
                self._set_playing(True)
            elif what == "push":
                self._start_pushing()
            elif what == "let go":
                self._let_go()
            else:
                self._drawing.show(*values)

    def _start_manual_motion(self):
        from dyn_ros.viewer.follower import SpringFollower
        if self._follower is None:
            self._set_playing(False)
            self._follower = SpringFollower(
                np.where(np.isfinite(self._q), self._q, self._panel.positions))
            if self._publisher is None:
                self._publisher = self.create_publisher(JointState, "joint_states", 10)

    def _set_playing(self, plays):
        """Start or stop the robot's own motion."""
        self._plays = plays
        self._panel.show_playing(plays)
        if plays:
            self._follower = None
        if self._motion is not None:
            self._motion.call_async(SetBool.Request(data=plays))

    def _move(self, seconds):
        """Publish the positions of the joints as they follow the sliders."""
        follower = self._follower
        follower.step(seconds)
        message = JointState(name=self._robot.names, position=array("d", follower.position),
                             velocity=array("d", follower.velocity))
        message.header.stamp = self.get_clock().now().to_msg()
        self._publisher.publish(message)

    # Pushing

    def _start_pushing(self):
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

    def _stop_pushing(self):
        """Remove the handle, and publish a zero force."""
        if self._handle is not None:
            self._let_go()
            self._publish_push()
        for each in (self._handle, self._arrow):
            if each is not None:
                each.remove()
        self._handle = self._arrow = self._pushed = None
        if self._panel:
            self._panel.show_force(None)

    def _let_go(self):
        if self._handle is not None:
            self._handle.position = (0.0, 0.0, 0.0)

    def _publish_push(self):
        """Publish the force on the pushed link, at its origin and expressed in its frame."""
        if self._handle is None:
            return
        pulled = np.array(self._handle.position)
        force = self.parameters.values["push_scale"] * pulled
        if self._push.get_subscription_count():
            message = WrenchStamped()
            message.header.stamp = self.get_clock().now().to_msg()
            message.header.frame_id = self._pushed
            conversions.set_vector(message.wrench.force, *force.tolist())
            self._push.publish(message)
        self._arrow.visible = bool(np.linalg.norm(pulled) > 1e-3)
        self._arrow.points = np.array([[np.zeros(3), pulled]])
        self._panel.show_force(force)

    # The page

    @property
    def period(self):
        """Time between two updates [s]."""
        return 1.0 / self.parameters.values["rate"]

    def update(self, now, seconds):
        """Refresh the page at a time [s], a number of seconds after the last update."""
        if self._panel is None:
            return
        self._handle_events()
        if self._follower is not None:
            self._move(seconds)
        watched = bool(self._server.get_clients())
        plots = self._plot_limiter.due(now)
        if plots:
            self._forget_torques(now)
            self._panel.sample(now, self._torques)
        if self._status_limiter.due(now):
            self._show_status(now)
        with self._server.atomic():
            self._publish_push()
            for problem in self._drawing.draw(now):
                self.problem("markers", problem)
            if not watched:
                return
            self._robot.move(np.where(np.isfinite(self._q), self._q, 0.0))
            if plots:
                self._panel.show_numbers()
                if self._follower is None:
                    self._panel.show_positions(self._q)

    def _forget_torques(self, now):
        """Mark torques that are no longer published as unknown."""
        for curve, received in self._last_received.items():
            if now - received > STALE:
                self._torques[curve][:] = math.nan

    def _show_status(self, now):
        """Update the status line, the problems and the check boxes, once a second."""
        states, self._states = self._states, 0
        others = self.count_publishers("joint_states") - (self._publisher is not None)
        free = self._motion is not None or others < 1
        self._panel.enable(free)
        unknown = [name for name, x in zip(self._robot.names, self._q) if not math.isfinite(x)]
        if states and unknown:
            text = "unknown position of " + abbreviated(unknown)
        elif states:
            text = "moved by the sliders" if self._follower else "receiving joint states"
            text += "" if free else "; another program moves the robot, the sliders are read-only"
        else:
            text = "no joint states: move a slider" if free else "no joint states"
        while self._problems and now - self._problems[0][0] > FORGET:
            self._problems.popleft()
        lasting = self._robot.problems[:MOST_PROBLEMS]
        self._panel.show_status(text, [*lasting, *dict.fromkeys(
            problem for _, problem in self._problems if problem not in lasting)])
        self._panel.show_families(self._drawing.families)

    def problem(self, key, text):
        """Report a problem on the page and, throttled, in the log."""
        now = time.monotonic()
        self._problems.append((now, text.strip().split("\n")[-1]))
        if now - self._last_logged.get(key, -base.THROTTLE) >= base.THROTTLE:
            self._last_logged[key] = now
            self.get_logger().warning(text)


def _array(what, values, count):
    if len(values) != count:
        raise ValueError(f"{count} names, but {len(values)} {what}")
    return values


def drain(node, executor):
    """Process all messages received so far, which is much cheaper than waking up for each."""
    node.received = True
    while node.received:
        node.received = False
        executor.spin_once(0.0)


def main(args=None):
    """Run the node until it is asked to shut down."""
    node = None
    try:
        try:
            import viser  # noqa: F401
        except ImportError as error:
            print(f"viewer: {error}; install viser: pip install viser pycollada", file=sys.stderr)
            return 1
        try:
            rclpy.init(args=args)
            node = ViewerNode("viewer")
        except Exception as error:      # arguments, names, a port, or what rclpy itself rejects
            print(f"viewer: {error}", file=sys.stderr)
            return 1
        executor = SingleThreadedExecutor()
        executor.add_node(node)
        last = time.monotonic()
        while rclpy.ok():
            drain(node, executor)
            now = time.monotonic()
            try:
                node.update(now, now - last)
            except Exception:
                node.problem("update", traceback.format_exc())
            last = now
            time.sleep(max(0.0, now + node.period - time.monotonic()))
    except (KeyboardInterrupt, ExternalShutdownException):
        pass
    except Exception:
        if rclpy.ok():                  # otherwise a signal has shut rclpy down
            raise
    finally:
        if node is not None:
            node.close()
        rclpy.try_shutdown()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
