# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""A node in a separate process, and a client that communicates with it over DDS."""
import array
import itertools
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

ARM7 = Path(__file__).parents[2] / "dyn_ros" / "robots" / "arm7.urdf"
TIMEOUT = 180.0    # seconds; the first start on a machine compiles
_numbers = itertools.count()


class NodeProcess:
    """A node in its own process and namespace."""

    def __init__(self, folder, *arguments, module="dyn_ros.nodes.dynamics_node", **parameters):
        self.namespace = f"/test{next(_numbers)}"
        self.name = f"{self.namespace}/{module.split('.')[-1].removesuffix('_node')}"
        self.log = folder / f"log{self.namespace[5:]}.txt"
        arguments = ["--ros-args", "-r", f"__ns:={self.namespace}", *arguments]
        for name, value in parameters.items():
            if value is None:
                continue
            arguments += ["-p", f"{name}:={value}"]
        self.process = subprocess.Popen(
            [sys.executable, "-m", module, *arguments],
            stdout=self.log.open("wb"), stderr=subprocess.STDOUT)

    def topic(self, name):
        return f"{self.namespace}/{name}"

    def output(self):
        return self.log.read_text()

    def resident(self):
        """Memory [MB]."""
        pages = int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1])
        return pages * 4096 / 1e6

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


class Client:
    """A ROS node in the test process."""

    def __init__(self):
        import rclpy
        from diagnostic_msgs.msg import DiagnosticArray
        self.context = rclpy.Context()
        rclpy.init(context=self.context)
        self.node = rclpy.create_node("client", context=self.context)
        self.executor = rclpy.executors.SingleThreadedExecutor(context=self.context)
        self.executor.add_node(self.node)
        self._publishers = {}
        self._clients = {}
        self._speakers = {}
        self._listening = []
        self._diagnostics = {}
        self.node.create_subscription(DiagnosticArray, "/diagnostics", self._on_diagnostics, 10)

    def close(self):
        import rclpy
        self.executor.shutdown()
        self.node.destroy_node()
        rclpy.shutdown(context=self.context)

    def _on_diagnostics(self, message):
        for status in message.status:
            self._diagnostics.setdefault(status.name, []).append(status)

    def wait(self, ready, what, again=None, every=0.5):
        """Spin until `ready()` is true; at once and then every so many seconds call `again()`."""
        end = time.monotonic() + TIMEOUT
        soon = 0.0
        while not ready():
            now = time.monotonic()
            assert now < end, f"nothing came: {what() if callable(what) else what}"
            if again and now >= soon:
                again()
                soon = now + every
            self.executor.spin_once(0.05)

    def listen(self, kind, topic, **qos):
        """A list that fills with the messages of a topic, until `stop_listening`."""
        from rclpy.qos import QoSProfile
        messages = Messages()
        messages.subscription = self.node.create_subscription(
            kind, topic, messages.append, QoSProfile(depth=qos.pop("depth", 1000), **qos))
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
            self._be_found()
        return self._publishers[topic]

    def send(self, kind, name, request):
        """Call a service; return the future of its answer."""
        if name not in self._clients:
            self._clients[name] = self.node.create_client(kind, name)
            self.wait(self._clients[name].service_is_ready, name)
            self._be_found()
        return self._clients[name].call_async(request)

    def _be_found(self):
        """Wait until the other end has discovered this one, which cannot be observed from here.

        Until then it loses what is sent without a guarantee, and a service its answers.
        """
        end = time.monotonic() + 0.3
        while time.monotonic() < end:
            self.executor.spin_once(0.1)

    def call(self, kind, name, request):
        """Call a service and return its response; repeat the request if a response was lost."""
        futures = []
        self.wait(lambda: any(future.done() for future in futures), name, every=5.0,
                  again=lambda: futures.append(self.send(kind, name, request)))
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
        names = [name for name in listed.result.names if not name.startswith(
            ("qos_overrides", "use_sim_time", "start_type_description"))]
        described = self.call(DescribeParameters, node.name + "/describe_parameters",
                              DescribeParameters.Request(names=names))
        return {each.name: each.description for each in described.descriptors}

    def set_parameters(self, node, **values):
        """Set parameters all at once; return (done, reason)."""
        from rcl_interfaces.srv import SetParametersAtomically
        from rclpy.parameter import Parameter
        request = SetParametersAtomically.Request()
        for name, value in values.items():
            given = (name, *value) if isinstance(value, tuple) else (name, None, value)
            parameter = Parameter(given[0], given[1], given[2])
            request.parameters.append(parameter.to_parameter_msg())
        result = self.call(
            SetParametersAtomically, node.name + "/set_parameters_atomically", request).result
        return result.successful, result.reason

    def speaker(self, node):
        return self._speakers.setdefault(node.name, Speaker(self, node))

    def diagnostics(self, node, ready=lambda status, values: True):
        """The next status of the node that is `ready(status, values)`, and its values."""
        name = node.name + ": dynamics"
        self._diagnostics[name] = []
        found = []

        def look():
            for status in self._diagnostics[name]:
                values = {value.key: value.value for value in status.values}
                if ready(status, values):
                    found.append((status, values))
            return found
        self.wait(
            look, lambda: f"diagnostics of {name}: {self._diagnostics[name]}\n{node.output()}")
        return found[0]


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
        self.client.wait(lambda: all(output.at(stamp) for output in outputs),
                         f"an answer of {self.node.name}\n{self.node.output()}",
                         again=lambda: self.send(message))
        return [output.at(stamp) for output in outputs]


@pytest.fixture(scope="session")
def client():
    pytest.importorskip("rclpy", reason="no ROS here: rclpy is not importable")
    client = Client()
    yield client
    client.close()


@pytest.fixture(scope="module")
def start(tmp_path_factory, client):
    """Start a node with the 7-joint arm, or with other parameters; stop all after the module."""
    nodes = []

    def start(*arguments, **parameters):
        parameters.setdefault("robot_description_file", ARM7)
        nodes.append(NodeProcess(tmp_path_factory.mktemp("node"), *arguments, **parameters))
        return nodes[-1]
    yield start
    for node in nodes:
        node.stop()


@pytest.fixture(scope="session")
def arm():
    import dyn_ros
    return dyn_ros.Model.from_urdf_file(ARM7)
