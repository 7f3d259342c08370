# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Writes the tables of topics, services and parameters on the pages of the nodes.

    python docs/generate.py

A table stands between `<!-- vereshchagin parameters -->`, a node and what of it, and
`<!-- end -->`. It tells what the running node has.
"""
import re
import sys
from contextlib import contextmanager
from pathlib import Path

import rclpy
from rclpy.parameter import Parameter
from rclpy.signals import SignalHandlerOptions

from dyn_ros.nodes.base import SPECS
from dyn_ros.nodes.centroidal_node import CentroidalNode
from dyn_ros.nodes.dyn_ros_node import DynRosNode
from dyn_ros.nodes.dynamics_node import DynamicsNode
from dyn_ros.nodes.vereshchagin_node import VereshchaginNode
from dyn_ros.nodes.viewer_node import SPECS as VIEWER

ROOT = Path(__file__).resolve().parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
PLACE = re.compile(r"(<!-- (\w+) (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)

NODES = {   # of each its class, and parameters with which it has all its inputs
    "dynamics": (DynamicsNode, {"markers.wrench.topics": ["wrench"]}),
    "centroidal": (CentroidalNode, {}),
    "vereshchagin": (VereshchaginNode, {"feedforward": "topic", "wrench_topics": ["wrench"]}),
    "dyn_ros": (DynRosNode, {}),
}
SHARED_INPUTS = {
    "robot_description": "the robot as URDF; comes before the parameters of that name",
    "joint_states": "positions, and velocities and efforts where they are known",
    "odom": "pose and twist of a floating or planar base; `child_frame_id` is the root link",
}
INPUTS = {
    "~/constraints": "what is constrained, while the parameter `constraints` is `topic`",
    "~/feedforward": "what the joints give besides, while the parameter `feedforward` is `topic`",
    "wrench": "the topics that the parameter {} names: what acts on the robot",
}
TYPES = {bool: "bool", int: "integer", float: "double", str: "string",
         Parameter.Type.STRING_ARRAY: "string array", Parameter.Type.DOUBLE_ARRAY: "double array"}


@contextmanager
def opened(name):
    """A node with its topics and services, and without anything compiled."""
    node_class, given = NODES[name]
    arguments = ["--ros-args", "--log-level", "fatal"]
    for key, value in given.items():
        arguments += ["-p", f"{key}:={value}"]
    rclpy.init(args=arguments, signal_handler_options=SignalHandlerOptions.NO)
    try:
        node = node_class(name)
        for each in (node, *node.members):
            each.kernels = ()
            each.trigger_configure()
            assert each.robot is None
        yield node
        for each in (*node.members, node):
            each.destroy_node()
    finally:
        rclpy.shutdown()


def table(head, rows):
    lines = [head, ["---"] * len(head), *rows]
    return "".join("| " + " | ".join(str(cell).replace("|", "\\|") for cell in line) + " |\n"
                   for line in lines)


def kind(message):
    """A message's or a service's type, as `ros2 interface` writes it without its folder."""
    return f"{message.__module__.split('.')[0]}/{message.__name__}"


def quality(profile):
    """reliable or best effort, what is kept for those who come late, how many."""
    words = [profile.reliability.name.lower().replace("_", " ")]
    if profile.durability.name == "TRANSIENT_LOCAL":
        words.append("transient local")
    return ", ".join([*words, f"depth {profile.depth}"])


def what(function):
    """The first sentence of a docstring, in a table."""
    text = " ".join(function.__doc__.split("\n\n")[0].split()).rstrip(".")
    return re.sub(r"^`\S+`: ", "", text)


def outputs(node):
    """What it publishes."""
    publishers = {each.topic: each for each in node.publishers}
    return table(("publishes", "type", "QoS", "what"), [
        (f"`{each.topic}`", kind(each.type), quality(publishers[each.topic].qos_profile),
         what(each.make)) for each in node.outputs])


def _inputs(node, told):
    there = {_own(node, each): each for each in node.subscriptions}
    return table(("listens to", "type", "QoS", "what"), [
        ("topics of a parameter" if topic == "wrench" else f"`{topic}`",
         kind(there[topic].msg_type), quality(there[topic].qos_profile), text)
        for topic, text in told.items() if topic in there])


def _own(node, subscription):
    return re.sub(rf"^{node.get_fully_qualified_name()}/", "~/",
                  subscription.topic_name).removeprefix("/")


def shared(node):
    """What all nodes listen to."""
    return _inputs(node, SHARED_INPUTS)


def inputs(node):
    """What it listens to besides."""
    [by] = [f"`{name}`" for name in NODES[node.get_name()][1] if "topics" in name]
    told = {topic: text.format(by) for topic, text in INPUTS.items()}
    known = {*told, *SHARED_INPUTS}
    for each in node.subscriptions:
        if _own(node, each) not in known:
            raise KeyError(f"docs/generate.py does not say what {each.topic_name} is for")
    return _inputs(node, told)


def services(node):
    """What it serves."""
    return table(("serves", "type", "asks for", "what"), [
        (f"`{each.name}`", kind(each.type), ", ".join(
            f"`{field}`" for field in each.type.Request.get_fields_and_field_types()),
         what(each.answer)) for each in node.offers])


def _allowed(spec):
    words = []
    if spec.choices:
        words.append(", ".join(f"`{choice}`" for choice in spec.choices))
    if spec.size:
        words.append(f"{spec.size} numbers")
    if spec.limits:
        words.append("{:g} to {:g}".format(*spec.limits))
    if spec.read_only:
        words.append("set at start only")
    return "; ".join(words)


def _type(default):
    if isinstance(default, list):
        return TYPES[type(default[0])] + " array"
    return TYPES[default if isinstance(default, Parameter.Type) else type(default)]


def _default(value):
    """As YAML has it."""
    if isinstance(value, Parameter.Type):
        return "[]"
    if isinstance(value, str):
        return value or '""'
    return str(value).lower().replace("'", "")


def _parameters(specs):
    return table(("parameter", "type", "default", "allowed", "what"), [
        (f"`{spec.name}`", _type(spec.default),
         f"`{_default(spec.default)}`", _allowed(spec), spec.description) for spec in specs])


def parameters(node):
    """Its own parameters."""
    common = {spec.name for spec in SPECS}
    return _parameters([spec for spec in node.parameters.specs.values()
                        if spec.name not in common])


def common(node):
    """The parameters that all nodes have."""
    return _parameters(SPECS)


def members(node):
    """Which node of the process has which of the parameters that all nodes have."""
    return table(("node", "parameters"), [
        (f"`{each.get_name()}`", ", ".join(
            f"`{spec.name}`" for spec in SPECS if spec.name in each.parameters.specs))
        for each in (node, *node.members)])


TABLES = {each.__name__: each
          for each in (outputs, shared, inputs, services, parameters, common, members)}


def written(page):
    """The text of a page with its tables made anew."""
    def fill(place):
        begin, name, part, end = place.groups()
        if (name, part) == ("viewer", "parameters"):    # a node that opens a page for a browser
            return begin + _parameters(VIEWER) + end
        with opened(name) as node:
            return begin + TABLES[part](node) + end
    return PLACE.sub(fill, page.read_text())


def main():
    for page in PAGES:
        text = written(page)
        if text != page.read_text():
            page.write_text(text)
            print(page.relative_to(ROOT))


if __name__ == "__main__":
    sys.exit(main())
