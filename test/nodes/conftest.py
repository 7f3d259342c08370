# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Nodes in the test process or in a process of their own, and a client that talks to them.

Both kinds have the same interface, and the client uses the same topics, services and parameters
for both. A node in the test process runs whenever the client spins, so that nothing has to be
discovered, compiled again or waited for. A test of the process itself (its end, its memory, its
arguments, two participants) uses `start_process`.
"""

import array
import contextlib
import importlib
import itertools
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
from participants import wait_until_alone

ARM7 = Path(__file__).parents[2] / "dyn_ros" / "robots" / "arm7.urdf"
Q = np.array([0.3, -0.6, 0.9, -1.2, 1.5, 0.4, -0.2])
V = np.array([0.5, 0.4, -0.3, 0.2, -0.1, 0.6, 0.7])
TIMEOUT = 180.0  # seconds; the first start on a machine compiles
LOG_LINE = re.compile(r"\[\w+\] \[[\d.]+\] \[([^\]]*)\]: ")
_numbers = itertools.count()


class StartedNode:
    """A node in a namespace of its own, with the arguments of its command line."""

    def __init__(self, arguments, module, parameters):
        self.namespace = f"/test{next(_numbers)}"
        self.name = f"{self.namespace}/{module.split('.')[-1].removesuffix('_node')}"
        self.arguments = ["--ros-args", "-r", f"__ns:={self.namespace}", *arguments]
        for name, value in parameters.items():
            if value is not None:
                self.arguments += ["-p", f"{name}:={value}"]

    def topic(self, name):
        return f"{self.namespace}/{name}"


class NodeProcess(StartedNode):
    """A node in its own process."""

    def __init__(self, folder, *arguments, module="dyn_ros.nodes.dynamics_node", **parameters):
        super().__init__(arguments, module, parameters)
        self.log = folder / f"log{self.namespace[5:]}.txt"
        run = (
            "import faulthandler, runpy, signal; faulthandler.register(signal.SIGUSR1); "
            f"runpy.run_module({module!r}, run_name='__main__', alter_sys=True)"
        )
        self.process = subprocess.Popen(
            [sys.executable, "-c", run, *self.arguments],
            stdout=self.log.open("wb"),
            stderr=subprocess.STDOUT,
        )

    def output(self):
        return self.log.read_text()

    def resident(self):
        """Memory [MB]."""
        pages = int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1])
        return pages * 4096 / 1e6

    def report(self):
        """Return its exit code or the stacks of its threads, and the end of its output."""
        code = self.process.poll()
        if code is None:
            self.process.send_signal(signal.SIGUSR1)
            time.sleep(0.5)  # it writes the stacks to its output
        return f"{self.name} (exit code {code}):\n{self.output()[-5000:]}"

    def stop(self, how=signal.SIGINT):
        """End it; return its exit code."""
        if self.process.poll() is None:
            self.process.send_signal(how)
        try:
            return self.process.wait(TIMEOUT)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise


class LocalNode(StartedNode):
    """A node in the test process, with those that live in its process.

    The executor of the client serves them. Their timers do not run: `Client.diagnostics` makes
    them publish diagnostics.
    """

    def __init__(self, client, *arguments, module="dyn_ros.nodes.dynamics_node", **parameters):
        super().__init__(arguments, module, parameters)
        self._client = client
        self._begin = client.log.size()
        with client.log.recording(), _arguments_of_nodes(client.context, self.arguments):
            node_class, name = _entry_point(module)
            self.node = node_class(name)
            client.serve(self.nodes())
            self.node.start()

    def nodes(self):
        return [self.node, *self.node.members]

    def output(self):
        """Return what has been logged since the start, without the lines of other nodes."""
        lines, own = [], True
        for line in self._client.log.text(self._begin).splitlines(keepends=True):
            header = LOG_LINE.match(line)
            if header:  # the lines of a longer text follow without one
                own = f"{header[1]}.".startswith(self.namespace[1:] + ".") or not re.match(
                    r"test\d+\.", header[1]
                )
            if own:
                lines.append(line)
        return "".join(lines)

    def stop(self):
        """End it, as at the end of its process; once more does nothing."""
        if self.node:
            self._client.forget(self)
            with self._client.log.recording():
                self.node.end()
                for each in reversed(self.nodes()):
                    each.destroy_node()
            self.node = None


def _entry_point(module):
    """The class and the name that a module's `main` runs."""
    module = importlib.import_module(module)
    with mock.patch.object(module, "run_node", lambda node_class, name, args: (node_class, name)):
        return module.main([])


@contextlib.contextmanager
def _arguments_of_nodes(context, arguments):
    """All nodes that are created take these arguments, as if they were those of the process."""
    from rclpy.node import Node

    create = Node.__init__

    def create_with_arguments(node, *args, **kwargs):
        create(node, *args, **{"context": context, "cli_args": arguments, **kwargs})

    with mock.patch.object(Node, "__init__", create_with_arguments):
        yield


class Log:
    """Records what is written to standard output and standard error, also by C++."""

    def __init__(self):
        self._file = tempfile.TemporaryFile()

    def size(self):
        return os.fstat(self._file.fileno()).st_size

    def text(self, begin):
        """Return the text recorded from a byte on."""
        return os.pread(self._file.fileno(), self.size() - begin, begin).decode()

    @contextlib.contextmanager
    def recording(self):
        sys.stdout.flush()
        sys.stderr.flush()
        saved = {standard: os.dup(standard) for standard in (1, 2)}
        try:
            for standard in saved:
                os.dup2(self._file.fileno(), standard)
            yield
        finally:
            for standard, copy in saved.items():
                os.dup2(copy, standard)
                os.close(copy)


class Client:
    """A ROS node in the test process."""

    def __init__(self):
        import rclpy
        from diagnostic_msgs.msg import DiagnosticArray

        try:
            from rclpy.experimental import EventsExecutor as Executor
        except ImportError:
            from rclpy.executors import SingleThreadedExecutor as Executor
        self.context = rclpy.Context()
        rclpy.init(context=self.context)
        self.node = rclpy.create_node("client", context=self.context)
        with mock.patch("faulthandler.enable"):  # its output would be captured; pytest's is not
            self.executor = Executor(context=self.context)
        self.executor.add_node(self.node)
        self.log = Log()
        self._local = {}  # nodes in this process by their full names
        self._publishers = {}
        self._clients = {}
        self._speakers = {}
        self._listening = []
        self._diagnostics = {}
        self.processes = []
        self.node.create_subscription(DiagnosticArray, "/diagnostics", self._on_diagnostics, 10)

    def close(self):
        import rclpy

        self.executor.shutdown()
        wait_until_alone(self.node)
        self.node.destroy_node()
        rclpy.shutdown(context=self.context)

    def serve(self, nodes):
        """Run nodes in this process whenever this client spins."""
        for node in nodes:
            for timer in node.timers:
                timer.cancel()
            self._local[node.get_fully_qualified_name()] = node
            self.executor.add_node(node)

    def forget(self, local):
        """Stop serving nodes; remove what has been created to communicate with them."""
        for node in local.nodes():
            self.executor.remove_node(node)
            del self._local[node.get_fully_qualified_name()]
        for made, destroy in (
            (self._publishers, self.node.destroy_publisher),
            (self._clients, self.node.destroy_client),
        ):
            for name in [name for name in made if name.startswith(local.namespace + "/")]:
                destroy(made.pop(name))

    def spin(self, timeout):
        """Run one callback, of the client or of a node in this process, or wait for one."""
        with self.log.recording():
            self.executor.spin_once(timeout)

    def settle(self):
        """Run callbacks until none is ready."""
        with self.log.recording():
            while self._run_ready():
                pass

    def _run_ready(self):
        """Run the callbacks that are ready now; return how many. They may make others ready."""
        last = self.executor.create_task(lambda: None)
        for count in itertools.count():
            self.executor.spin_once(0.0)
            if last.done():
                return count

    def is_local(self, name):
        """Return True if a topic or a service is one of a node in this process."""
        return any(name.startswith(node.get_namespace() + "/") for node in self._local.values())

    def _on_diagnostics(self, message):
        for status in message.status:
            self._diagnostics.setdefault(status.name, []).append(status)

    def wait(self, ready, what, again=None, every=0.5, idle=0.05):
        """Spin until `ready()` is true; at once and then every so many seconds call `again()`.

        One spin waits at most `idle` seconds for a callback.
        """
        end = time.monotonic() + TIMEOUT
        soon = 0.0
        while not ready():
            now = time.monotonic()
            assert now < end, "\n".join(
                [
                    f"nothing came: {what() if callable(what) else what}",
                    *(process.report() for process in self.processes),
                ]
            )
            if again and now >= soon:
                again()
                soon = now + every
            self.spin(idle)

    def listen(self, kind, topic, **qos):
        """A list that fills with the messages of a topic, until `stop_listening`."""
        from rclpy.qos import QoSProfile

        messages = Messages()
        messages.subscription = self.node.create_subscription(
            kind, topic, messages.append, QoSProfile(depth=qos.pop("depth", 1000), **qos)
        )
        self._listening.append(messages)
        self.wait(messages.subscription.get_publisher_count, topic)
        return messages

    def stop_listening(self, *messages):
        """To these, or to all."""
        for each in messages or list(self._listening):
            self.node.destroy_subscription(each.subscription)
            self._listening.remove(each)

    def publisher(self, kind, topic, **qos):
        from rclpy.qos import QoSProfile

        if topic not in self._publishers:
            publisher = self.node.create_publisher(kind, topic, QoSProfile(depth=10, **qos))
            self._publishers[topic] = publisher
            self.wait(publisher.get_subscription_count, f"a subscriber of {topic}")
            self._be_found(topic)
        return self._publishers[topic]

    def send(self, kind, name, request):
        """Call a service; return the future of its answer."""
        if name not in self._clients:
            self._clients[name] = self.node.create_client(kind, name)
            self.wait(self._clients[name].service_is_ready, name)
            self._be_found(name)
        return self._clients[name].call_async(request)

    def _be_found(self, name):
        """Wait until the other end has discovered this one, which cannot be observed from here.

        Until then it loses what is sent without a guarantee, and a service its answers. A node in
        this process knows this one at once.
        """
        if self.is_local(name):
            return
        end = time.monotonic() + 0.3
        while time.monotonic() < end:
            self.spin(0.1)

    def call(self, kind, name, request):
        """Call a service and return its response; repeat the request if a response was lost."""
        futures = []
        self.wait(
            lambda: any(future.done() for future in futures),
            name,
            every=5.0,
            again=lambda: futures.append(self.send(kind, name, request)),
        )
        return next(future.result() for future in futures if future.done())

    def change_state(self, node, transition):
        """Ask a lifecycle node for a transition; return whether it went well.

        The first one asked for is none that there is, until an answer comes: one whose answer was
        lost could not be asked for again.
        """
        from lifecycle_msgs.srv import ChangeState

        name = node.name + "/change_state"
        request = ChangeState.Request()
        if name not in self._clients:
            request.transition.id = 77
            assert not self.call(ChangeState, name, request).success
        request.transition.id = transition
        return self.call(ChangeState, name, request).success

    def descriptions(self, node):
        """The description of each parameter that rclpy has not declared."""
        from rcl_interfaces.srv import DescribeParameters, ListParameters

        listed = self.call(ListParameters, node.name + "/list_parameters", ListParameters.Request())
        names = [
            name
            for name in listed.result.names
            if not name.startswith(("qos_overrides", "use_sim_time", "start_type_description"))
        ]
        described = self.call(
            DescribeParameters,
            node.name + "/describe_parameters",
            DescribeParameters.Request(names=names),
        )
        return {each.name: each.description for each in described.descriptors}

    def set_parameters(self, node, **values):
        """Set parameters all at once; return (done, reason)."""
        from rcl_interfaces.srv import SetParametersAtomically
        from rclpy.parameter import Parameter

        request = SetParametersAtomically.Request()
        for name, value in values.items():
            fields = (name, *value) if isinstance(value, tuple) else (name, None, value)
            parameter = Parameter(*fields)
            request.parameters.append(parameter.to_parameter_msg())
        result = self.call(
            SetParametersAtomically, node.name + "/set_parameters_atomically", request
        ).result
        return result.successful, result.reason

    def speaker(self, node):
        return self._speakers.setdefault(node.name, Speaker(self, node))

    def diagnostics(self, node, ready=lambda status, values: True):
        """The next status of the node that is `ready(status, values)`, and its values."""
        name = node.name + ": dynamics"
        self._diagnostics[name] = []
        statuses = []

        def look():
            for status in self._diagnostics[name]:
                values = {value.key: value.value for value in status.values}
                if ready(status, values):
                    statuses.append((status, values))
            return statuses

        def once_more():
            """Process what has been sent; then publish the diagnostics, to be looked at once."""
            self.settle()
            self._diagnostics[name].clear()
            with self.log.recording():
                local.diagnose()
            self.settle()

        local = self._local.get(node.name)
        wait_options = {"again": once_more, "every": 0.0, "idle": 0.0} if local else {}
        self.wait(
            look,
            lambda: f"diagnostics of {name}: {self._diagnostics[name]}\n{node.output()}",
            **wait_options,
        )
        return statuses[0]


class Messages(list):
    """Messages of a topic in the order of reception; equal only to itself."""

    __eq__ = object.__eq__
    __hash__ = object.__hash__

    def at(self, stamp):
        """The message for a joint state, by its stamp in seconds; None if it is missing."""
        return next((m for m in self if header(m).stamp.sec == stamp), None)


def header(message):
    """The header of a message, or the common one of an array of markers."""
    return message.header if hasattr(message, "header") else message.markers[0].header


class Speaker:
    """Publishes joint states to a node, each stamped one second after the last."""

    def __init__(self, client, node):
        self.client, self.node = client, node
        self.seconds = 1000

    def message(self, names, position, velocity=(), effort=(), later=1):
        from sensor_msgs.msg import JointState

        self.seconds += later
        message = JointState()
        message.header.stamp.sec = self.seconds
        message.name = list(names)
        message.position = array.array("d", position)
        message.velocity = array.array("d", velocity)
        message.effort = array.array("d", effort)
        return message

    def send(self, message):
        """Publish once; return the stamp."""
        from sensor_msgs.msg import JointState

        self.client.publisher(JointState, self.node.topic("joint_states")).publish(message)
        return message.header.stamp.sec

    def ask(self, message, *outputs):
        """Publish until each list of messages has a response; return the responses."""
        stamp = message.header.stamp.sec
        self.client.wait(
            lambda: all(output.at(stamp) for output in outputs),
            f"an answer of {self.node.name}\n{self.node.output()}",
            again=lambda: self.send(message),
        )
        return [output.at(stamp) for output in outputs]


@pytest.fixture(scope="session")
def client():
    pytest.importorskip("rclpy", reason="no ROS here: rclpy is not importable")
    client = Client()
    yield client
    client.close()


@pytest.fixture
def new_client():
    """A client that has communicated with no other node.

    After more than a hundred nodes, Fast DDS sometimes delivers small messages of a participant
    and no large ones.
    """
    client = Client()
    yield client
    client.close()


@pytest.fixture(scope="module")
def start(client):
    """Start a node with the 7-joint arm, or with other parameters; stop all after the module.

    It runs in this process.
    """
    nodes = []

    def start(*arguments, **parameters):
        parameters.setdefault("robot_description_file", ARM7)
        nodes.append(LocalNode(client, *arguments, **parameters))
        return nodes[-1]

    yield start
    for node in nodes:
        node.stop()


@pytest.fixture(scope="module")
def start_process(tmp_path_factory, client):
    """The same in a process of its own."""
    nodes = []

    def start(*arguments, **parameters):
        parameters.setdefault("robot_description_file", ARM7)
        nodes.append(NodeProcess(tmp_path_factory.mktemp("node"), *arguments, **parameters))
        client.processes.append(nodes[-1])
        return nodes[-1]

    yield start
    for node in nodes:
        client.processes.remove(node)
        node.stop()


@pytest.fixture(scope="session")
def arm():
    import dyn_ros

    return dyn_ros.Model.from_urdf_file(ARM7)
