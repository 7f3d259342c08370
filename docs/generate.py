# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Writes the tables of topics, services and parameters on the pages of the nodes.

    python docs/generate.py

A table is between a comment with the node and the kind of table, such as
`<!-- vereshchagin parameters -->`, and `<!-- end -->`. Its content comes from the running node.
"""
import re
import sys
from contextlib import contextmanager
from pathlib import Path

import rclpy
from rclpy.parameter import Parameter
from rclpy.signals import SignalHandlerOptions

from dyn_ros.nodes.base.parameters import SPECS
from dyn_ros.nodes.centroidal_node import CentroidalNode
from dyn_ros.nodes.dyn_ros_node import DynRosNode
from dyn_ros.nodes.dynamics_node import DynamicsNode
from dyn_ros.nodes.observer_node import ObserverNode
from dyn_ros.nodes.vereshchagin_node import VereshchaginNode
from dyn_ros.nodes.viewer_node import ViewerNode

ROOT = Path(__file__).resolve().parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
PLACE = re.compile(r"(<!-- (\w+) (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)

NODES = {   # for each, its class and the parameters with which it has all its inputs
    "dynamics": (DynamicsNode, {"markers.wrench.topics": ["wrench"]}),
    "centroidal": (CentroidalNode, {"contact_source": "topic"}),
    "vereshchagin": (VereshchaginNode, {"feedforward": "topic", "wrench_topics": ["wrench"]}),
    "observer": (ObserverNode, {}),
    "dyn_ros": (DynRosNode, {}),
}
SHARED_INPUTS = {
    "robot_description": "the robot as URDF; overrides the parameters",
    "joint_states": "positions; velocities and efforts if known",
    "odom": "pose and twist of a moving base; `child_frame_id` is the root link",
}
INPUTS = {
    "~/constraints": "the constraints, if `constraints` is `topic`",
    "~/contacts": "which of `contact_frames` touch the ground, if `contact_source` is `topic`",
    "~/feedforward": "feed-forward torques, if `feedforward` is `topic`",
    "wrench": "wrenches on the robot, on the topics in {}",
}
TYPES = {Parameter.Type.STRING_ARRAY: "strings", Parameter.Type.DOUBLE_ARRAY: "numbers"}


@contextmanager
def opened(name):
    """A node with its topics and services, without compiling anything."""
    node_class, values = NODES[name]
    arguments = ["--ros-args", "--log-level", "fatal"]
    for key, value in values.items():
        arguments += ["-p", f"{key}:={value}"]
    rclpy.init(args=arguments, signal_handler_options=SignalHandlerOptions.NO)
    try:
        node = node_class(name)
        for member in (node, *node.members):
            member.kernels = ()
            member.trigger_configure()
            assert member.robot is None
        yield node
        for member in (*node.members, node):
            member.destroy_node()
    finally:
        rclpy.shutdown()


def table(head, rows):
    lines = [head, ["---"] * len(head), *rows]
    return "".join("| " + " | ".join(str(cell).replace("|", "\\|") for cell in line) + " |\n"
                   for line in lines)


def kind(message):
    """Return the type of a message or service, as in `ros2 interface` without the folder."""
    return f"{message.__module__.split('.')[0]}/{message.__name__}"


def quality(profile):
    """Return reliability, durability if it is transient local, and depth."""
    words = [profile.reliability.name.lower().replace("_", " ")]
    if profile.durability.name == "TRANSIENT_LOCAL":
        words.append("transient local")
    return ", ".join([*words, f"depth {profile.depth}"])


def description(function):
    """Return the first sentence of a docstring, for a table."""
    text = " ".join(function.__doc__.split("\n\n")[0].split()).rstrip(".")
    return re.sub(r"^`\S+`: ", "", text)


def outputs(node):
    """The topics that a node publishes, which have one QoS."""
    [qos] = {quality(publisher.qos_profile) for publisher in node.publishers
             if publisher.topic in {output.topic for output in node.outputs}}
    return table((f"published topic ({qos})", "type", "description"), [
        (f"`{output.topic}`", kind(output.type), description(output.make))
        for output in node.outputs])


def _inputs(node, descriptions):
    subscriptions = {_private_name(node, subscription): subscription
                     for subscription in node.subscriptions}
    return table(("subscribed topic", "type", "QoS", "description"), [
        ("from a parameter" if topic == "wrench" else f"`{topic}`",
         kind(subscriptions[topic].msg_type), quality(subscriptions[topic].qos_profile), text)
        for topic, text in descriptions.items() if topic in subscriptions])


def _private_name(node, subscription):
    return re.sub(rf"^{node.get_fully_qualified_name()}/", "~/",
                  subscription.topic_name).removeprefix("/")


def shared(node):
    """The topics that all nodes subscribe to."""
    return _inputs(node, SHARED_INPUTS)


def inputs(node):
    """The other topics that a node subscribes to."""
    parameters = [f"`{name}`" for name in NODES[node.get_name()][1] if "topics" in name]
    descriptions = {topic: text.format(*parameters) for topic, text in INPUTS.items()
                    if "{}" not in text or parameters}
    known = {*descriptions, *SHARED_INPUTS}
    for subscription in node.subscriptions:
        if _private_name(node, subscription) not in known:
            raise KeyError(f"docs/generate.py has no description of {subscription.topic_name}")
    return _inputs(node, descriptions)


def services(node):
    """The services of a node."""
    return table(("service", "type", "description"), [
        (f"`{service.name}`", kind(service.type), description(service.answer))
        for service in node.offers])


def _default(value):
    """Return a default as written in YAML, with the type of an empty array."""
    if isinstance(value, Parameter.Type):
        return f"`[]` ({TYPES[value]})"
    if isinstance(value, str):
        return f"`{value}`" if value else '`""`'
    return "`{}`".format(str(value).lower().replace("'", ""))


def _described(spec):
    """Return the description of a parameter, with the choices that it does not mention."""
    text = spec.description
    if not all(re.search(rf"\b{choice}\b", text) for choice in spec.choices):
        text = ", ".join(f"`{choice}`" for choice in spec.choices) + ". " + text
    return text + " Fixed at startup." * spec.read_only


def _parameters(specs):
    return table(("parameter", "default", "description"), [
        (f"`{spec.name}`", _default(spec.default), _described(spec)) for spec in specs])


def parameters(node):
    """The parameters of a node, except the common ones and the marker parameters."""
    common = {spec.name for spec in SPECS}
    return _parameters([spec for spec in node.parameters.specs.values()
                        if spec.name not in common and not spec.name.startswith("markers.")])


def of_markers(node):
    """The parameters that all markers of a node have in common."""
    return _parameters([spec for spec in node.parameters.specs.values()
                        if re.fullmatch(r"markers\.\w+", spec.name)])


def markers(node):
    """The kinds of markers of a node: what each shows, its scale, its other parameters."""
    kinds = {}
    for spec in node.parameters.specs.values():
        if found := re.fullmatch(r"markers\.(\w+)\.(\w+)", spec.name):
            kinds.setdefault(found[1], {})[found[2]] = spec
    return table(("kind", "shows", "`scale`", "other parameters"), [
        (f"`{kind}`", _shown(specs["show"]),
         f"{specs['scale'].default}: {specs['scale'].description}",
         " ".join(map(_attribute, (spec for name, spec in specs.items()
                                   if name not in ("show", "scale", "color")))))
        for kind, specs in kinds.items()])


def _attribute(spec):
    values = ", ".join(f"`{choice}`" for choice in spec.choices) or (
        "a color" if "color" in spec.name else TYPES.get(spec.default) or _default(spec.default))
    return f"`{spec.name.rpartition('.')[2]}` ({values}): {spec.description}"


def _shown(spec):
    text = re.sub(r"^Whether ~/markers shows (the )?|\.$", "", spec.description)
    return text if spec.default else f"{text} (hidden)"


def common(node):
    """The parameters that all nodes have in common."""
    return _parameters(SPECS)


def members(node):
    """The nodes of the process, with the common parameters that each of them has."""
    return table(("node", "parameters"), [
        (f"`{member.get_name()}`", ", ".join(
            f"`{spec.name}`" for spec in SPECS if spec.name in member.parameters.specs))
        for member in (node, *node.members)])


TABLES = {function.__name__: function
          for function in (outputs, shared, inputs, services, parameters, common, members,
                           of_markers, markers)}


def written(page):
    """Return the text of a page with up-to-date tables."""
    def fill(place):
        begin, name, part, end = place.groups()
        if (name, part) == ("viewer", "parameters"):    # running it would serve a page
            return begin + _parameters(ViewerNode.all_specs()) + end
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
