# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""What all nodes share: lifecycle, parameters, robot description, state, outputs, diagnostics."""
import functools
import os
import signal
import sys
import threading
import time
import traceback
from dataclasses import dataclass
from operator import attrgetter

import rclpy
from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus, KeyValue
from nav_msgs.msg import Odometry
from rclpy.clock import Clock, ClockType
from rclpy.executors import ExternalShutdownException, SingleThreadedExecutor
from rclpy.lifecycle import LifecycleNode, TransitionCallbackReturn
from rclpy.parameter import Parameter
from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy
from rclpy.qos_overriding_options import QoSOverridingOptions
from sensor_msgs.msg import JointState
from std_msgs.msg import String
from visualization_msgs.msg import MarkerArray

import dyn_ros
from dyn_ros.model.urdf import read_description

from . import conversions
from .inputs import Inputs
from .markers import Kind, Markers, header_of
from .pace import Pace
from .parameters import Parameters, Spec
from .robot import Robot, SettingError
from .services import Service, answers
from .state import Refused, some

THROTTLE = 5.0      # seconds between two log lines about the same thing
GRACE = 1.0         # seconds from a signal to the end of a process that does not end by itself

SPECS = (
    Spec("autostart", True, "Configure and activate at start; false: wait for a lifecycle manager.",
         read_only=True),
    Spec("max_rate", 0.0, "Publish at most this often [Hz]; 0: every state.", limits=(0.0, 1e5)),
    Spec("robot_description", "",
         "The robot as URDF text; what the topic robot_description tells replaces it.", robot=True),
    Spec("robot_description_file", "", "Path of a URDF file, read if robot_description is empty.",
         robot=True),
    Spec("root_joint", "fixed", "How the root link moves in the world.",
         choices=("fixed", "floating", "planar"), robot=True),
    Spec("gravity", [0.0, 0.0, -9.81], "Gravity in the world frame [m/s2].", size=3,
         limits=(-1e6, 1e6), robot=True),
    Spec("mimic", "project", "Mimic joints follow their master, or are free joints.",
         choices=("project", "ignore"), robot=True),
    Spec("strict", False, "Refuse a robot description that gives warnings.", robot=True),
    Spec("joints", Parameter.Type.STRING_ARRAY,
         "Joints to publish, in this order; empty: all, as the model orders them.", robot=True),
    Spec("armature", Parameter.Type.DOUBLE_ARRAY,
         "Rotor inertia of each published row [kg m2, kg]; empty: none.", robot=True),
    Spec("frame_id", "", "frame_id of what is published; empty: the root link.", robot=True),
    Spec("world_frame", "",
         "frame_id of what is told in the world, with a floating or planar base; empty: the "
         "frame_id of odom, or world.", robot=True),
    Spec("staleness", 0.5,
         "Largest difference of stamps within one state, and largest age of one in a service [s].",
         limits=(1e-3, 3600.0), robot=True),
    Spec("base_source", "odometry",
         "Where a floating or planar base's pose and twist come from: topic odom, or base_pose.",
         choices=("odometry", "parameter"), robot=True),
    Spec("base_pose", [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0],
         "Pose of the base in the world: x y z [m], qx qy qz qw.", size=7, robot=True),
    Spec("base_twist", [0.0] * 6,
         "Twist of the base in its own axes: linear [m/s], angular [rad/s].", size=6, robot=True),
)


@dataclass(frozen=True)
class Output:
    """A topic that a node publishes for each state.

    `make(robot)` returns a function without arguments that computes from `robot.state` and returns
    the message, or None while it has to wait. `terms` are the names of `dyn_ros.Terms` that it
    takes from `robot.terms()`; a function that gives them is asked for each state, and where it
    gives None that state is left out. `header(message)` is what is stamped later.
    `gone()` returns the message that takes away what the node has shown, when it stops.
    """

    topic: str
    type: type
    make: object
    terms: object = ()
    header: object = attrgetter("header")
    gone: object = None


def guarded(callback):
    """Let no exception of a callback end the node: log it and go on."""
    @functools.wraps(callback)
    def call(self, *given):
        try:
            callback(self, *given)
        except Refused as error:
            self.refuse(callback.__name__.strip("_"), error)
        except Exception as error:
            if self.context.ok():       # else a signal came meanwhile, and nothing works any more
                self.refuse(callback.__name__.strip("_"), f"{error}\n{traceback.format_exc()}")
    return call


class RobotNode(LifecycleNode):
    """A lifecycle node that computes messages from the state of one robot.

    A subclass tells what it is for in class attributes: `kernels` (names of the public functions
    it calls, compiled at configure), `outputs`, `offers` (services, from configure on), `markers`
    (the kinds that `~/markers` shows) and, if it has parameters of its own, `specs`, whose values
    are `self.parameters.values`.

    Parameters
    ----------
    name : str
    source : RobotNode, optional
        Another node of this process, which has the parameters of the robot and its topics: this
        one takes the robot and each state from there.
    """

    kernels: tuple[str, ...] = ()
    outputs: tuple[Output, ...] = ()
    offers: tuple[Service, ...] = ()
    markers: tuple[Kind, ...] = ()
    specs: tuple[Spec, ...] = ()

    def __init__(self, name, source=None, **kwargs):
        super().__init__(name, **kwargs)
        change_state = self._service_change_state
        change_state.callback = self._answering(change_state.callback)
        self.source = source or self
        self.members = []           # the nodes that this one is the source of
        if source:
            source.members.append(self)
        self._robot = None
        self.inputs = Inputs(self)
        self._fills = []            # of each output, the function that computes its message
        self._running = False
        self._offered = ""          # the latest description, good or bad
        self._candidate = None      # what `_make` gave for parameters that are being set
        self._waited = ""           # what the last diagnostics told to be waiting for
        self._told = {}             # when a log line about something was last written
        self._count = _Counts()
        self._inlets = []
        self._outlets = []
        self._servers = []
        self.payloads = {}          # see Robot; one robot hands them on to the next
        specs = [spec for spec in SPECS if not (source and spec.robot)] + list(self.specs)
        self._markers = Markers(self, self.markers)
        if self.markers:
            self.kernels = tuple(dict.fromkeys((*self.kernels, *self._markers.kernels)))
            self.outputs = (*self.outputs, Output(
                "~/markers", MarkerArray, self._markers.make, self._markers.terms, header_of,
                self._markers.gone))
            specs += self._markers.specs
        self.parameters = Parameters(
            self, specs, self._accept_parameters, self._parameters_changed)
        self._pace = Pace(self.parameters.values["max_rate"])
        self._diagnostics = self.create_publisher(DiagnosticArray, "/diagnostics", 10)
        self.create_timer(
            1.0, lambda: self._diagnose(), clock=Clock(clock_type=ClockType.STEADY_TIME))

    @property
    def robot(self):
        """The robot, None while there is none; of the source, if this node has one."""
        return self.source._robot

    @property
    def active(self):
        """Whether it publishes and answers."""
        return self._running

    # Lifecycle

    def _answering(self, change):
        """A callback of ~/change_state that answers where rclpy leaves the caller waiting."""
        def call(request, response):
            try:
                return change(request, response)
            except Exception as error:
                if "Transition is not registered" not in str(error):
                    raise
                self.refuse("change_state", "there is no such transition from that state; "
                            "`ros2 lifecycle list` with the node's name tells those there are")
                return response
        return call

    def start(self):
        """Configure and activate this node and its members, each if its autostart says so."""
        if (self.parameters.values["autostart"]
                and self.trigger_configure() == TransitionCallbackReturn.SUCCESS):
            self.trigger_activate()
        for node in self.members:
            node.start()

    def on_configure(self, state):
        """Compile the kernels, open the topics, take the robot of the parameters."""
        try:
            if self.parameters.faults:
                raise ValueError("; ".join(self.parameters.faults.values()))
            if self.kernels:
                self._compile()
            self._open()
            if self.source is self:
                self._listen()
                self._take_parameter_description()
        except Exception as error:
            self._close()
            self.refuse("configure", error)
            return TransitionCallbackReturn.FAILURE
        return super().on_configure(state)

    def on_activate(self, state):
        self._running = True
        self.get_logger().info(
            "active" if self.robot else "active, waiting for the topic robot_description")
        return super().on_activate(state)

    def on_deactivate(self, state):
        self._stop()
        return super().on_deactivate(state)

    def on_cleanup(self, state):
        self._close()
        return super().on_cleanup(state)

    def on_shutdown(self, state):
        self._close()
        return super().on_shutdown(state)

    def on_error(self, state):
        self._close()
        return super().on_error(state)

    def _compile(self):
        started = time.monotonic()
        self.get_logger().info(
            f"loading {len(self.kernels)} functions; those that the cache does not hold are "
            "compiled for this processor, which takes up to a minute at the first start and "
            "happens once (`dyn_ros precompile` does it ahead)")

        def progress(done, total, name):
            if not self.context.ok():
                raise KeyboardInterrupt
            if done < total and time.monotonic() - started > 1.0:
                busy = f"loading {name}, {done + 1} of {total}"
                self.get_logger().info(busy)
                self._diagnose(busy)

        self._diagnose("loading functions")
        compiled = dyn_ros.precompile(list(self.kernels), batch=False, progress=progress)
        if compiled:
            self.get_logger().info(f"compiled in {time.monotonic() - started:.1f} s")

    def _open(self):
        self._outlets = [
            self.create_lifecycle_publisher(
                output.type, output.topic, 10,
                qos_overriding_options=QoSOverridingOptions.with_default_policies())
            for output in self.outputs]
        self._servers = [
            self.create_service(service.type, service.name, answers(self, service))
            for service in self.offers]
        self.inputs.listen(self.wanted_inputs(self.parameters.values))

    def _listen(self):
        latched = QoSProfile(
            depth=1, reliability=ReliabilityPolicy.RELIABLE,
            durability=DurabilityPolicy.TRANSIENT_LOCAL)
        newest = QoSProfile(depth=10, reliability=ReliabilityPolicy.BEST_EFFORT)
        self._inlets = [
            self.create_subscription(
                kind, topic, callback, qos,
                qos_overriding_options=QoSOverridingOptions.with_default_policies())
            for kind, topic, callback, qos in (
                (String, "robot_description", self._on_robot_description, latched),
                (JointState, "joint_states", self._on_joint_states, newest),
                (Odometry, "odom", self._on_odometry, newest))]

    def _stop(self):
        """Publish no more; take away what was shown."""
        if self._running:
            self._running = False
            for publisher, output in zip(self._outlets, self.outputs):
                if output.gone:
                    publisher.publish(output.gone())

    def _close(self):
        self._stop()
        for publisher in self._outlets:
            self.destroy_lifecycle_publisher(publisher)
        for subscriber in self._inlets:
            self.destroy_subscription(subscriber)
        for server in self._servers:
            self.destroy_service(server)
        self._outlets, self._inlets, self._servers = [], [], []
        self.inputs.listen({})
        if self.source is self:
            self._give(None, [[] for _ in (self, *self.members)])

    # Parameters and robot description

    def _accept_parameters(self, values, changed):
        """Refuse what does not fit the robot; keep the robot that the new values make."""
        self._candidate = None
        self.inputs.check(self.wanted_inputs(values))
        if any(spec.robot and spec.name in changed for spec in SPECS):
            self._accept_robot(values, changed)
        if self.robot and any(spec.name in changed for spec in self._markers.specs):
            self._markers.check(self._candidate[0] if self._candidate else self.robot, values)

    def _accept_robot(self, values, changed):
        if "robot_description" in changed or "robot_description_file" in changed:
            description = parameter_description(values)
            if description:
                self._candidate = self._make(description, values)
            return
        errors = []
        for description in {self._offered: 0, self.robot.description if self.robot else "": 0}:
            if description:
                try:
                    self._candidate = self._make(description, values)
                    return
                except ValueError as error:
                    errors.append(error)
        for refusal in reversed(errors):
            if self.robot or isinstance(refusal, SettingError) and refusal.parameter in changed:
                raise refusal

    def _parameters_changed(self, changed):
        self._pace = Pace(self.parameters.values["max_rate"])
        if self._outlets:
            self.inputs.listen(self.wanted_inputs(self.parameters.values))
        if self._candidate and self._inlets:
            self._swap(*self._candidate)
            self._offered = self.robot.description
        self._candidate = None

    def _take_parameter_description(self):
        try:
            description = parameter_description(self.parameters.values)
        except Exception as error:
            self.refuse("robot_description_file", error)
            return
        if description:
            self._offer(description, "parameter robot_description")

    @guarded
    def _on_robot_description(self, message):
        self._offer(message.data, "topic robot_description")

    def _offer(self, description, source):
        """Take a robot description, unless it is bad: then the robot stays as it is."""
        self._offered = description
        if self.robot and self.robot.description == description:
            return
        try:
            made = self._make(description, self.parameters.values)
        except Exception as error:
            kept = "the robot stays as it was" if self.robot else "there is no robot yet"
            self.refuse(source, f"{error} ({kept})", throttle=0.0)
            return
        self._swap(*made)

    def _make(self, description, values):
        """A robot, and for each node's outputs the functions that compute their messages."""
        robot = Robot(description, values, lambda text: self._tell("stamps", text), self.payloads)
        return robot, [[output.make(robot) for output in node.outputs]
                       for node in (self, *self.members)]

    def _give(self, robot, fills):
        self._robot = robot
        for node, own in zip((self, *self.members), fills):
            node._fills = own

    def _swap(self, robot, fills):
        self._give(robot, fills)
        for warning in robot.model.warnings[:10]:
            self.get_logger().warning(f"robot_description: {warning}")
        for left_out in robot.left_out:
            self.get_logger().warning(left_out)
        self.get_logger().info(
            f"robot '{robot.model.name}': {robot.model.njoints} joints, {robot.model.nv} "
            f"coordinates, {robot.model.total_mass:.3f} kg moving")

    # From a message to outputs

    def wanted_inputs(self, values):
        """Of each topic that the parameters want, what `Inputs.listen` takes."""
        return {}

    @guarded
    def on_input(self, inlet, message):
        """Take a message of one of `inputs`."""
        try:
            inlet.take(self.robot, message, self.now())
        except ValueError as error:
            self.refuse(inlet.topic, error)

    def now(self):
        """In s; in a simulation nothing ages while it is paused."""
        clock = self.get_clock()
        if clock.ros_time_is_active:
            return 1e-9 * clock.now().nanoseconds
        return time.monotonic()

    @guarded
    def _on_joint_states(self, message):
        started = time.perf_counter()
        self._count.messages += 1
        robot = self.robot
        if robot is None:
            return
        try:
            due = robot.state.joint_states(
                message.name, message.position, message.velocity, message.effort,
                self._stamp(message))
        except Refused as error:
            self.refuse("joint_states", error)
            return
        if due:
            self._take(robot, started)

    @guarded
    def _on_odometry(self, message):
        started = time.perf_counter()
        robot = self.robot
        if robot is None or not robot.state.needs_odometry:
            return
        try:
            child = message.child_frame_id
            if child and child != robot.root_link and not child.endswith("/" + robot.root_link):
                raise Refused(f"child_frame_id is '{child}', expected the root link "
                              f"'{robot.root_link}', whose pose and twist are needed")
            due = robot.state.odometry(
                conversions.pose_numbers(message.pose.pose),
                conversions.twist_numbers(message.twist.twist), self._stamp(message))
        except Refused as error:
            self.refuse("odom", error)
            return
        robot.odometry_frame = message.header.frame_id
        if due:
            self._take(robot, started)

    def _stamp(self, message):
        """In ns; a message without a stamp counts from now."""
        return (conversions.nanoseconds(message.header.stamp)
                or self.get_clock().now().nanoseconds)

    def _take(self, robot, started):
        """Publish what is listened to of a state, the members too, from terms they share."""
        due = self._due(started)
        nodes = [self, *(node for node in self.members if node._due(started))] if due else []
        wanted = set()
        listened = [node._listened(wanted) for node in nodes]
        robot.take(started, wanted)
        for node, outputs in zip(nodes, listened):
            node._publish(robot, outputs)

    def _due(self, now):
        self._count.states += 1
        return self._running and self._pace.due(now)

    def _listened(self, wanted):
        """What is to be published of a state; the terms that it takes are added to `wanted`."""
        outputs = []
        for publisher, output, fill in zip(self._outlets, self.outputs, self._fills):
            if publisher.get_subscription_count():
                terms = output.terms() if callable(output.terms) else output.terms
                if terms is not None:
                    wanted.update(terms)
                    outputs.append((publisher, output, fill))
        return outputs

    @guarded
    def _publish(self, robot, outputs):
        started, count = time.perf_counter(), self._count
        sec, nanosec = divmod(robot.state.stamp, 1_000_000_000)
        for publisher, output, fill in outputs:
            message = fill()
            if message is not None:
                stamp = output.header(message).stamp
                stamp.sec, stamp.nanosec = sec, nanosec
                publisher.publish(message)
                count.published += 1
        took = time.perf_counter() - started
        count.took += took
        count.longest = max(count.longest, took)

    # What people are told

    def refuse(self, what, why, throttle=THROTTLE):
        """Count, log (throttled) and keep for the diagnostics that something was refused."""
        self._count.refused += 1
        self._count.last_refusal = f"{what}: {why}"
        self._tell(what, f"{what} refused: {why}", throttle, error=True)

    def _tell(self, key, text, throttle=THROTTLE, error=False):
        now = time.monotonic()
        if now - self._told.get(key, -throttle) >= throttle:
            self._told[key] = now
            if error:               # rclpy wants each severity to have a line of its own
                self.get_logger().error(text)
            else:
                self.get_logger().warning(text)

    def _waiting_for(self):
        """What keeps outputs from being published, or an empty string."""
        if not self.source._running:
            return (f"waiting for {self.source.get_fully_qualified_name()}, which is "
                    f"{self.source._state_machine.current_state[1]}")
        if self.robot is None:
            return "waiting for robot_description"
        state = self.robot.state
        missing = state.missing()
        if missing:
            text = "waiting for the position of " + some(missing)
            return text + (f"; not in the model: {some(state.unknown)}" if state.unknown else "")
        if not state.velocity_known:
            return "velocity unknown of " + some(state.missing_velocity())
        if not self._count.states:
            return "no state came in the last second"
        return ""

    @guarded
    def _diagnose(self, busy=""):
        """Publish the diagnostics of the last second, and count anew."""
        count, label = self._count, self._state_machine.current_state[1]
        waiting = "" if busy or not self._running else self._waiting_for()
        if waiting != self._waited:
            self._waited = waiting
            self._told.pop("waiting", None)
        elif waiting:
            self._tell("waiting", waiting, 2 * THROTTLE)
        level, summary = DiagnosticStatus.OK, "running"
        if not self._running:
            level, summary = DiagnosticStatus.WARN, busy or label
        elif waiting:
            level, summary = DiagnosticStatus.WARN, waiting
        if self.parameters.faults:
            level, summary = DiagnosticStatus.ERROR, "; ".join(self.parameters.faults.values())
        elif count.refused:
            level, summary = DiagnosticStatus.WARN, "refused " + count.last_refusal.split("\n")[0]
        seconds = max(time.monotonic() - count.since, 1e-3)
        computing = [output.topic for publisher, output in zip(self._outlets, self.outputs)
                     if self._running and publisher.get_subscription_count()]
        age = float("inf")
        if self.robot and self.robot.state.stamp > 0:
            age = (self.get_clock().now().nanoseconds - self.robot.state.stamp) * 1e-9
        values = {
            "lifecycle state": label,
            "robot": self.robot.model.name if self.robot else "",
            "kernels": busy or (
                "compiled" if self._outlets or not self.kernels else "not yet compiled"),
            **({"joint_states received [Hz]": f"{count.messages / seconds:.1f}"}
               if self.source is self else {}),
            "states [Hz]": f"{count.states / seconds:.1f}",
            "messages published [Hz]": f"{count.published / seconds:.1f}",
            "computing": ", ".join(computing),
            "payloads": ", ".join(self.robot.payloads) if self.robot else "",
            "age of the state [s]": f"{age:.3f}",
            "compute time, mean [us]": f"{1e6 * count.took / max(count.states, 1):.1f}",
            "compute time, longest [us]": f"{1e6 * count.longest:.1f}",
            "messages refused": str(count.refused_before + count.refused),
            "last refusal": count.last_refusal,
        }
        status = DiagnosticStatus(
            level=level, name=f"{self.get_fully_qualified_name()}: dynamics", message=summary,
            hardware_id=values["robot"],
            values=[KeyValue(key=key, value=value) for key, value in values.items()])
        array = DiagnosticArray(status=[status])
        array.header.stamp = self.get_clock().now().to_msg()
        self._diagnostics.publish(array)
        count.restart()


class _Counts:
    """What happened since the last diagnostics."""

    def __init__(self):
        self.refused_before = self.refused = 0
        self.last_refusal = ""
        self.restart()

    def restart(self):
        self.since = time.monotonic()
        self.messages = self.states = self.published = 0
        self.took = self.longest = 0.0
        self.refused_before += self.refused
        self.refused = 0


def parameter_description(values):
    """The robot description that the parameters give, or an empty string."""
    if values["robot_description"]:
        return values["robot_description"]
    if values["robot_description_file"]:
        return read_description(values["robot_description_file"])
    return ""


class _CtrlC:
    """What Python does at Ctrl-C: nothing once it is `left` to rclpy, which ends the loop.

    A KeyboardInterrupt besides would come out of whatever callback is running.
    """

    left = False

    def __call__(self, number, frame):
        if not self.left:
            raise KeyboardInterrupt


_ctrl_c = _CtrlC()


def _end_what_hears_no_signal(ended):
    """End the process soon after a signal, whatever it does: LLVM compiles for many seconds."""
    while rclpy.ok() and not ended.wait(0.1):
        pass
    if not ended.wait(GRACE):
        os._exit(0)


def _executor():
    """The events executor, which takes half the processor time, where there is one."""
    try:
        from rclpy.experimental import EventsExecutor
    except ImportError:
        return SingleThreadedExecutor()
    return EventsExecutor()


def run(node_class, name, args=None):
    """Run a node until it is told to end; returns the exit code for the process."""
    begun, ended = False, threading.Event()
    watch = threading.Thread(target=_end_what_hears_no_signal, args=(ended,), daemon=True)
    try:
        try:
            signal.signal(signal.SIGINT, _ctrl_c)       # rclpy's handler calls the one before it
            rclpy.init(args=args)
            begun = _ctrl_c.left = True
            watch.start()
            node = node_class(name)
        except Exception as error:      # arguments, names or parameters that rclpy itself refuses
            if begun and not rclpy.ok():
                return 0                # a signal came meanwhile
            print(f"{name}: {error}", file=sys.stderr)
            return 1
        node.start()
        executor = _executor()
        for each in (node, *node.members):
            executor.add_node(each)
        while rclpy.ok():
            try:
                executor.spin_once(1.0)
            except ExternalShutdownException:
                raise
            except Exception:
                if not rclpy.ok():
                    break
                node.refuse("callback", traceback.format_exc())
    except (KeyboardInterrupt, ExternalShutdownException):
        pass
    except Exception:
        if rclpy.ok():                  # else a signal came meanwhile, and nothing works any more
            raise
    finally:
        _ctrl_c.left = True
        ended.set()
        if watch.is_alive():
            watch.join()                # it must not meet the end of rclpy, nor that of Python
        rclpy.try_shutdown()
    return 0
