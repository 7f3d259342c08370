# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The base of all nodes: lifecycle, parameters, robot description, state, outputs, diagnostics."""
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
from .parameters import Parameters, Spec
from .rate_limiter import RateLimiter
from .robot import RobotContext, SettingError
from .services import Service, service_callback
from .state import Rejected, abbreviated

THROTTLE = 5.0      # seconds between two log lines about the same thing
GRACE_PERIOD = 1.0  # seconds between a signal and the forced exit of a process that still runs

SPECS = (
    Spec("autostart", True, "Configure and activate at start; false: wait for a lifecycle manager.",
         read_only=True),
    Spec("max_rate", 0.0, "Publish at most this often [Hz]; 0: every state.", limits=(0.0, 1e5)),
    Spec("robot_description", "",
         "The robot as URDF text; overridden by the topic robot_description.", robot=True),
    Spec("robot_description_file", "",
         "Path of a URDF file, read if robot_description is empty.", robot=True),
    Spec("root_joint", "fixed", "How the root link moves in the world.",
         choices=("fixed", "floating", "planar"), robot=True),
    Spec("gravity", [0.0, 0.0, -9.81], "Gravity in the world frame [m/s2].", size=3,
         limits=(-1e6, 1e6), robot=True),
    Spec("mimic", "project", "Mimic joints follow their master, or are free joints.",
         choices=("project", "ignore"), robot=True),
    Spec("strict", False, "Reject a robot description that causes warnings.", robot=True),
    Spec("joints", Parameter.Type.STRING_ARRAY,
         "Joints to publish, in this order; empty: all, in the order of the model.", robot=True),
    Spec("armature", Parameter.Type.DOUBLE_ARRAY,
         "Rotor inertia for each published row [kg m2, kg]; empty: none.", robot=True),
    Spec("frame_id", "", "frame_id of published messages; empty: the root link.", robot=True),
    Spec("world_frame", "",
         "frame_id of quantities expressed in the world, for a floating or planar base; empty: the "
         "frame_id of odom, or world.", robot=True),
    Spec("staleness", 0.5,
         "Largest difference between stamps within one state, and largest age of the state used "
         "by a service [s].", limits=(1e-3, 3600.0), robot=True),
    Spec("base_source", "odometry",
         "Source of the pose and twist of a floating or planar base: the topic odom, or the "
         "parameters base_pose and base_twist.",
         choices=("odometry", "parameter"), robot=True),
    Spec("base_pose", [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0],
         "Pose of the base in the world: x y z [m], qx qy qz qw.", size=7, robot=True),
    Spec("base_twist", [0.0] * 6,
         "Twist of the base, expressed in the base frame: linear [m/s], angular [rad/s].", size=6,
         robot=True),
)


@dataclass(frozen=True)
class Output:
    """A topic that a node publishes for each state.

    `make(robot)` returns a function without arguments that computes from `robot.state` and returns
    the message, or None if an input is missing. `terms` are the names of the `dyn_ros.Terms` that
    it reads from `robot.terms()`, or a function that returns them; it is called for each state,
    and None skips that state. `header(message)` returns the header that is stamped before
    publishing. `clear()` returns the message that removes from displays what the node has shown;
    it is published when the node stops.
    """

    topic: str
    type: type
    make: object
    terms: object = ()
    header: object = attrgetter("header")
    clear: object = None


def guarded(callback):
    """Keep exceptions in a callback from ending the node: log them and continue."""
    @functools.wraps(callback)
    def call(self, *given):
        try:
            callback(self, *given)
        except Rejected as error:
            self.reject(callback.__name__.strip("_"), error)
        except Exception as error:
            if self.context.ok():       # otherwise a signal has shut the context down
                self.fail(callback.__name__.strip("_"), f"{error}\n{traceback.format_exc()}")
    return call


class RobotNode(LifecycleNode):
    """A lifecycle node that computes messages from the state of one robot.

    A subclass defines class attributes: `kernels` (names of the public functions that it calls,
    compiled at configure), `batch_kernels` (those that it calls for batches), `outputs`, `offers`
    (services, available once configured), `markers` (the kinds that `~/markers` shows) and, for
    parameters of its own, `specs`; their values are in `self.parameters.values`.

    Parameters
    ----------
    name : str
    source : RobotNode, optional
        Another node in this process, which owns the robot's parameters and topics. This node
        uses its robot and its states.
    """

    kernels: tuple[str, ...] = ()
    batch_kernels: tuple[str, ...] = ()
    outputs: tuple[Output, ...] = ()
    offers: tuple[Service, ...] = ()
    markers: tuple[Kind, ...] = ()
    specs: tuple[Spec, ...] = ()

    def __init__(self, name, source=None, **kwargs):
        super().__init__(name, **kwargs)
        change_state = self._service_change_state
        change_state.callback = self._answer_invalid_transition(change_state.callback)
        self.source = source or self
        self.members = []           # nodes whose source is this one
        if source:
            source.members.append(self)
        self._robot = None
        self.inputs = Inputs(self)
        self._fills = []            # for each output, the function that computes its message
        self._running = False
        self._latest_description = ""   # valid or not
        self._has_compiled_coupled = False
        self._candidate = None      # result of `_make` for parameters that are being set
        self._last_waiting = ""     # what the last diagnostics reported as missing
        self._last_logged = {}      # by key: time of the last log line
        self._count = _Counts()
        self._own_subscriptions = []
        self._output_publishers = []
        self._own_services = []
        self.payloads = {}          # passed from one RobotContext to the next
        specs = [spec for spec in SPECS if not (source and spec.robot)] + list(self.specs)
        self._markers = Markers(self, self.markers)
        if self.markers:
            self.kernels = tuple(dict.fromkeys((*self.kernels, *self._markers.kernels)))
            self.outputs = (*self.outputs, Output(
                "~/markers", MarkerArray, self._markers.make, self._markers.terms, header_of,
                self._markers.clear))
            specs += self._markers.specs
        self.parameters = Parameters(
            self, specs, self._accept_parameters, self._parameters_changed)
        self._limiter = RateLimiter(self.parameters.values["max_rate"])
        self._diagnostics = self.create_publisher(DiagnosticArray, "/diagnostics", 10)
        self.create_timer(
            1.0, lambda: self._diagnose(), clock=Clock(clock_type=ClockType.STEADY_TIME))

    @property
    def robot(self):
        """The `RobotContext` of the source or of this node; None if there is no robot yet."""
        return self.source._robot

    @property
    def active(self):
        """Whether the node publishes and answers service requests."""
        return self._running

    # Lifecycle

    def _answer_invalid_transition(self, change):
        """Wrap the callback of ~/change_state to answer requests that rclpy leaves unanswered."""
        def call(request, response):
            try:
                return change(request, response)
            except Exception as error:
                if "Transition is not registered" not in str(error):
                    raise
                self.reject("change_state", "there is no such transition from the current state; "
                            "`ros2 lifecycle list` with the node's name lists the available ones")
                return response
        return call

    def start(self):
        """Configure and activate this node and its members, each according to its autostart."""
        if (self.parameters.values["autostart"]
                and self.trigger_configure() == TransitionCallbackReturn.SUCCESS):
            self.trigger_activate()
        for node in self.members:
            node.start()

    def on_configure(self, state):
        """Compile the kernels, create the topics, load the robot that the parameters specify."""
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
            self.fail("configure", error)
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

    def _compile(self, coupled=False):
        """Load what the node calls; with `coupled`, what robots with mimic joints need as well."""
        started = time.monotonic()
        self.get_logger().info(
            f"loading {len(self.kernels)} functions; those missing from the cache are compiled, "
            "which takes up to a minute on the first start (run `dyn_ros precompile` to compile "
            "them in advance)")

        def progress(done, total, name):
            if not self.context.ok():
                raise KeyboardInterrupt
            if done < total and time.monotonic() - started > 1.0:
                busy = f"loading {name}, {done + 1} of {total}"
                self.get_logger().info(busy)
                self._diagnose(busy)

        self._diagnose("loading functions")
        compiled = dyn_ros.precompile(list(self.kernels), batch=False, progress=progress,
                                      coupled=coupled)
        compiled += dyn_ros.precompile(list(self.batch_kernels), progress=progress,
                                       coupled=coupled)
        if compiled:
            self.get_logger().info(f"compiled in {time.monotonic() - started:.1f} s")

    def _open(self):
        self._output_publishers = [
            self.create_lifecycle_publisher(
                output.type, output.topic, 10,
                qos_overriding_options=QoSOverridingOptions.with_default_policies())
            for output in self.outputs]
        self._own_services = [
            self.create_service(service.type, service.name, service_callback(self, service))
            for service in self.offers]
        self.inputs.listen(self.wanted_inputs(self.parameters.values))

    def _listen(self):
        latched = QoSProfile(
            depth=1, reliability=ReliabilityPolicy.RELIABLE,
            durability=DurabilityPolicy.TRANSIENT_LOCAL)
        newest = QoSProfile(depth=10, reliability=ReliabilityPolicy.BEST_EFFORT)
        self._own_subscriptions = [
            self.create_subscription(
                kind, topic, callback, qos,
                qos_overriding_options=QoSOverridingOptions.with_default_policies())
            for kind, topic, callback, qos in (
                (String, "robot_description", self._on_robot_description, latched),
                (JointState, "joint_states", self._on_joint_states, newest),
                (Odometry, "odom", self._on_odometry, newest))]

    def _stop(self):
        """Stop publishing; clear what displays show."""
        if self._running:
            self._running = False
            for publisher, output in zip(self._output_publishers, self.outputs):
                if output.clear:
                    publisher.publish(output.clear())

    def _close(self):
        self._stop()
        for publisher in self._output_publishers:
            self.destroy_lifecycle_publisher(publisher)
        for subscriber in self._own_subscriptions:
            self.destroy_subscription(subscriber)
        for server in self._own_services:
            self.destroy_service(server)
        self._output_publishers, self._own_subscriptions, self._own_services = [], [], []
        self.inputs.listen({})
        if self.source is self:
            self._set_robot(None, [[] for _ in (self, *self.members)])

    # Parameters and robot description

    def _accept_parameters(self, values, changed):
        """Reject values that do not fit the robot; keep the robot built with the new ones."""
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
        current = self.robot.description if self.robot else ""
        for description in dict.fromkeys((self._latest_description, current)):
            if description:
                try:
                    self._candidate = self._make(description, values)
                    return
                except ValueError as error:
                    errors.append(error)
        for fault in reversed(errors):
            if self.robot or isinstance(fault, SettingError) and fault.parameter in changed:
                raise fault

    def _parameters_changed(self, changed):
        self._limiter = RateLimiter(self.parameters.values["max_rate"])
        if self._output_publishers:
            self.inputs.listen(self.wanted_inputs(self.parameters.values))
        if self._candidate and self._own_subscriptions:
            self._swap(*self._candidate)
            self._latest_description = self.robot.description
        self._candidate = None

    def _take_parameter_description(self):
        try:
            description = parameter_description(self.parameters.values)
        except Exception as error:
            self.reject("robot_description_file", error)
            return
        if description:
            self._take_description(description, "parameter robot_description")

    @guarded
    def _on_robot_description(self, message):
        self._take_description(message.data, "topic robot_description")

    def _take_description(self, description, source):
        """Use a robot description; if it is invalid, keep the current robot."""
        self._latest_description = description
        if self.robot and self.robot.description == description:
            return
        try:
            made = self._make(description, self.parameters.values)
        except Exception as error:
            kept = "keeping the current robot" if self.robot else "there is no robot yet"
            self.reject(source, f"{error} ({kept})", throttle=0.0)
            return
        self._swap(*made)

    def _make(self, description, values):
        """Return a robot and, for each node, the functions that compute its outputs."""
        robot = RobotContext(description, values,
                             lambda text: self._log_throttled("stamps", text), self.payloads)
        if 0 in robot.model.nvs and not self._has_compiled_coupled:
            for node in (self, *self.members):
                node._compile(coupled=True)
            self._has_compiled_coupled = True
        return robot, [[output.make(robot) for output in node.outputs]
                       for node in (self, *self.members)]

    def _set_robot(self, robot, fills):
        self._robot = robot
        for node, own in zip((self, *self.members), fills):
            node._fills = own

    def _swap(self, robot, fills):
        self._set_robot(robot, fills)
        for warning in robot.model.warnings[:10]:
            self.get_logger().warning(f"robot_description: {warning}")
        for left_out in robot.left_out:
            self.get_logger().warning(left_out)
        self.get_logger().info(
            f"robot '{robot.model.name}': {robot.model.njoints} joints, {robot.model.nv} "
            f"coordinates, {robot.model.total_mass:.3f} kg moving")

    # From a message to outputs

    def wanted_inputs(self, values):
        """Return the topics that the parameters require, as `Inputs.listen` expects them."""
        return {}

    @guarded
    def on_input(self, topic, message):
        """Process a message of one of `inputs`."""
        try:
            topic.receive(self.robot, message, self.now())
        except ValueError as error:
            self.reject(topic.name, error)

    def now(self):
        """Return the time [s] by which inputs age; simulation time if the node uses it."""
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
        except Rejected as error:
            self.reject("joint_states", error)
            return
        if due:
            self._process_state(robot, started)

    @guarded
    def _on_odometry(self, message):
        started = time.perf_counter()
        robot = self.robot
        if robot is None or not robot.state.needs_odometry:
            return
        try:
            child = message.child_frame_id
            if child and child != robot.root_link and not child.endswith("/" + robot.root_link):
                raise Rejected(f"child_frame_id is '{child}', expected the root link "
                              f"'{robot.root_link}', whose pose and twist are needed")
            due = robot.state.odometry(
                conversions.pose_numbers(message.pose.pose),
                conversions.twist_numbers(message.twist.twist), self._stamp(message))
        except Rejected as error:
            self.reject("odom", error)
            return
        robot.odometry_frame = message.header.frame_id
        if due:
            self._process_state(robot, started)

    def _stamp(self, message):
        """Return the stamp of a message [ns]; now if it has none."""
        return (conversions.nanoseconds(message.header.stamp)
                or self.get_clock().now().nanoseconds)

    def _process_state(self, robot, started):
        """Publish the subscribed outputs of this node and its members, from shared terms."""
        due = self._due(started)
        nodes = [self, *(node for node in self.members if node._due(started))] if due else []
        wanted = set()
        listened = [node._subscribed_outputs(wanted) for node in nodes]
        robot.begin_state(started, wanted)
        for node, outputs in zip(nodes, listened):
            node._publish(robot, outputs)

    def _due(self, now):
        self._count.states += 1
        return self._running and self._limiter.due(now)

    def _subscribed_outputs(self, wanted):
        """Return the outputs to publish for a state; add the terms they need to `wanted`."""
        outputs = []
        for publisher, output, fill in zip(self._output_publishers, self.outputs, self._fills):
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

    # Logs and diagnostics

    def reject(self, what, why, throttle=THROTTLE):
        """Count rejected input, log it (throttled) and keep the reason for the diagnostics."""
        self._report(what, "rejected", why, throttle)

    def fail(self, what, why):
        """Report an operation that failed, as `reject` reports input."""
        self._report(what, "failed", why, THROTTLE)

    def _report(self, what, verb, why, throttle):
        self._count.rejected += 1
        self._count.last_rejection = f"{what}: {why}"
        self._count.summary = f"{what} {verb}: {why}".split("\n")[0]
        self._log_throttled(what, f"{what} {verb}: {why}", throttle, error=True)

    def _log_throttled(self, key, text, throttle=THROTTLE, error=False):
        now = time.monotonic()
        if now - self._last_logged.get(key, -throttle) >= throttle:
            self._last_logged[key] = now
            if error:               # rclpy requires one call site per severity
                self.get_logger().error(text)
            else:
                self.get_logger().warning(text)

    def _waiting_for(self):
        """Return the reason why outputs are not published, or an empty string."""
        if not self.source._running:
            return (f"waiting for {self.source.get_fully_qualified_name()}, which is "
                    f"{self.source._state_machine.current_state[1]}")
        if self.robot is None:
            return "waiting for robot_description"
        state = self.robot.state
        missing = state.missing()
        if missing:
            text = "waiting for the position of " + abbreviated(missing)
            if state.unknown:
                text += f"; not in the model: {abbreviated(state.unknown)}"
            return text
        if not state.velocity_known:
            return "unknown velocity of " + abbreviated(state.missing_velocity())
        if not self._count.states:
            return "no state received in the last second"
        return ""

    @guarded
    def _diagnose(self, busy=""):
        """Publish the diagnostics of the last second and reset the counters."""
        count, label = self._count, self._state_machine.current_state[1]
        waiting = "" if busy or not self._running else self._waiting_for()
        if waiting != self._last_waiting:
            self._last_waiting = waiting
            self._last_logged.pop("waiting", None)
        elif waiting:
            self._log_throttled("waiting", waiting, 2 * THROTTLE)
        level, summary = DiagnosticStatus.OK, "running"
        if not self._running:
            level, summary = DiagnosticStatus.WARN, busy or label
        elif waiting:
            level, summary = DiagnosticStatus.WARN, waiting
        if self.parameters.faults:
            level, summary = DiagnosticStatus.ERROR, "; ".join(self.parameters.faults.values())
        elif count.rejected:
            level, summary = DiagnosticStatus.WARN, count.summary
        seconds = max(time.monotonic() - count.since, 1e-3)
        computing = [
            output.topic for publisher, output in zip(self._output_publishers, self.outputs)
            if self._running and publisher.get_subscription_count()]
        age = float("inf")
        if self.robot and self.robot.state.stamp > 0:
            age = (self.get_clock().now().nanoseconds - self.robot.state.stamp) * 1e-9
        values = {
            "lifecycle state": label,
            "robot": self.robot.model.name if self.robot else "",
            "kernels": busy or (
                "compiled" if self._output_publishers or not self.kernels else "not yet compiled"),
            **({"joint_states received [Hz]": f"{count.messages / seconds:.1f}"}
               if self.source is self else {}),
            "states [Hz]": f"{count.states / seconds:.1f}",
            "messages published [Hz]": f"{count.published / seconds:.1f}",
            "computing": ", ".join(computing),
            "payloads": ", ".join(self.robot.payloads) if self.robot else "",
            "age of the state [s]": f"{age:.3f}",
            "compute time, mean [us]": f"{1e6 * count.took / max(count.states, 1):.1f}",
            "compute time, longest [us]": f"{1e6 * count.longest:.1f}",
            "messages rejected": str(count.rejected_before + count.rejected),
            "last rejection": count.last_rejection,
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
    """Counters since the last diagnostics."""

    def __init__(self):
        self.rejected_before = self.rejected = 0
        self.last_rejection = self.summary = ""
        self.restart()

    def restart(self):
        self.since = time.monotonic()
        self.messages = self.states = self.published = 0
        self.took = self.longest = 0.0
        self.rejected_before += self.rejected
        self.rejected = 0


def parameter_description(values):
    """Return the robot description that the parameters specify, or an empty string."""
    if values["robot_description"]:
        return values["robot_description"]
    if values["robot_description_file"]:
        return read_description(values["robot_description_file"])
    return ""


class _CtrlC:
    """Python's handler of Ctrl-C, which does nothing once `delegated` to rclpy.

    rclpy ends the loop; a KeyboardInterrupt as well would interrupt whatever callback runs.
    """

    delegated = False

    def __call__(self, number, frame):
        if not self.delegated:
            raise KeyboardInterrupt


_ctrl_c = _CtrlC()


def _force_exit_after_signal(ended):
    """Exit soon after a signal, even while LLVM compiles, which can take many seconds."""
    while rclpy.ok() and not ended.wait(0.1):
        pass
    if not ended.wait(GRACE_PERIOD):
        os._exit(0)


def _executor():
    """Return the events executor, which halves the processor time, if rclpy provides it."""
    try:
        from rclpy.experimental import EventsExecutor
    except ImportError:
        return SingleThreadedExecutor()
    return EventsExecutor()


def run(node_class, name, args=None):
    """Run a node until it is asked to shut down; return the exit code of the process."""
    begun, ended = False, threading.Event()
    watch = threading.Thread(target=_force_exit_after_signal, args=(ended,), daemon=True)
    try:
        try:
            signal.signal(signal.SIGINT, _ctrl_c)       # rclpy's handler calls the previous one
            rclpy.init(args=args)
            begun = _ctrl_c.delegated = True
            watch.start()
            node = node_class(name)
        except Exception as error:      # arguments, names or parameters that rclpy itself rejects
            if begun and not rclpy.ok():
                return 0                # a signal has shut rclpy down
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
                node.fail("callback", traceback.format_exc())
    except (KeyboardInterrupt, ExternalShutdownException):
        pass
    except Exception:
        if rclpy.ok():                  # otherwise a signal has shut rclpy down
            raise
    finally:
        _ctrl_c.delegated = True
        ended.set()
        if watch.is_alive():
            watch.join()                # before rclpy and Python shut down
        rclpy.try_shutdown()
    return 0
