# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Write the lists of topics, services and parameters on the pages of the nodes.

    python docs/generate.py

Each is between a comment with the node and a name in LISTS, such as
`<!-- vereshchagin parameters -->`, and `<!-- end -->`. Its content comes from the running node.
"""

import re
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import rclpy
from rclpy.parameter import Parameter
from rclpy.qos import QoSProfile
from rclpy.signals import SignalHandlerOptions

from dyn_ros.nodes.base.node_parameters import SPECS, Spec
from dyn_ros.nodes.base.robot_node import RobotNode
from dyn_ros.nodes.base.service import Service
from dyn_ros.nodes.centroidal_node import CentroidalNode
from dyn_ros.nodes.dyn_ros_node import DynRosNode
from dyn_ros.nodes.dynamics_node import DynamicsNode
from dyn_ros.nodes.observer_node import ObserverNode
from dyn_ros.nodes.services import model_services
from dyn_ros.nodes.vereshchagin_node import VereshchaginNode
from dyn_ros.nodes.viewer_node import ViewerNode

ROOT = Path(__file__).resolve().parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
LIST_PATTERN = re.compile(r"(<!-- (\w+) (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)

# class of each node, and parameters with which it has all its inputs
NODES = {
    "dynamics": (DynamicsNode, {}),
    "centroidal": (CentroidalNode, {"contact_source": "topic"}),
    "vereshchagin": (VereshchaginNode, {"feedforward": "topic"}),
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
}
OUTPUT_QOS = "reliable, depth 10"


@contextmanager
def running_node(name: str) -> Iterator[RobotNode]:
    """Yield a node with its topics and services, without compiling anything."""
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


def bullets(rows: Iterable[tuple[str, str, str]]) -> str:
    """Return a list with the details of each name, if any, and its description."""
    lines = (
        f"- `{name}`" + (f" ({details})" if details else "") + f": {text}"
        for name, details, text in rows
    )
    return "".join(
        textwrap.fill(
            line, 120, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False
        )
        + "\n"
        for line in lines
    )


def type_name(message: Any) -> str:
    """Return the type of a message or service, as in `ros2 interface` without the folder."""
    return f"{message.__module__.split('.')[0]}/{message.__name__}"


def qos_text(profile: QoSProfile) -> str:
    """Return reliability, durability if it is transient local, and depth."""
    words = [profile.reliability.name.lower().replace("_", " ")]
    if profile.durability.name == "TRANSIENT_LOCAL":
        words.append("transient local")
    return ", ".join([*words, f"depth {profile.depth}"])


def description(function: Callable[..., Any]) -> str:
    """Return the first sentence of a docstring, without "Return" and the like."""
    text = " ".join((function.__doc__ or "").split("\n\n")[0].split()).rstrip(".")
    return re.sub(r"^(Prepare `\S+`: |(Compute|Return) )", "", text)


def outputs(node: RobotNode) -> str:
    """List the topics that a node publishes, except markers; docs/nodes.md has their QoS."""
    topics = {output.topic for output in node.outputs}
    assert {
        qos_text(publisher.qos_profile)
        for publisher in node.publishers
        if publisher.topic in topics
    } == {OUTPUT_QOS}
    return bullets(
        (output.topic, type_name(output.type), description(output.make))
        for output in node.outputs
        if output.topic != "~/markers"
    )


def _inputs(node: RobotNode, descriptions: Mapping[str, str]) -> str:
    subscriptions = {
        _private_name(node, subscription): subscription for subscription in node.subscriptions
    }
    return bullets(
        (
            topic,
            f"{type_name(subscriptions[topic].msg_type)}, "
            f"{qos_text(subscriptions[topic].qos_profile)}",
            text,
        )
        for topic, text in descriptions.items()
        if topic in subscriptions
    )


def _private_name(node: RobotNode, subscription: Any) -> str:
    return re.sub(
        rf"^{node.get_fully_qualified_name()}/", "~/", subscription.topic_name
    ).removeprefix("/")


def shared_inputs(node: RobotNode) -> str:
    """List the topics that all nodes subscribe to."""
    return _inputs(node, SHARED_INPUTS)


def inputs(node: RobotNode) -> str:
    """List the other topics that a node subscribes to."""
    for subscription in node.subscriptions:
        if _private_name(node, subscription) not in {*INPUTS, *SHARED_INPUTS}:
            raise KeyError(f"docs/generate.py has no description of {subscription.topic_name}")
    return _inputs(node, INPUTS)


def services(node: RobotNode) -> str:
    """List the services of a node, except those that several nodes have."""
    return _services(
        service for service in node.provided_services if service not in model_services.SERVICES
    )


def robot_services(node: RobotNode) -> str:
    """List the services that several nodes have."""
    return _services(
        service for service in node.provided_services if service in model_services.SERVICES
    )


def _services(services: Iterable[Service]) -> str:
    """List services; a type is omitted if it is the service's name in CamelCase."""
    rows = []
    for service in services:
        is_default_type = service.name[2:].title().replace("_", "") == service.type.__name__
        text = description(service.answer)
        rows.append(
            (
                service.name,
                "" if is_default_type else type_name(service.type),
                text[0].lower() + text[1:],
            )
        )
    return bullets(rows)


def _default(value: Any) -> str:
    """Return a default as it is written in YAML."""
    if isinstance(value, Parameter.Type):
        return "`[]`"
    if isinstance(value, str):
        return f"`{value}`" if value else '`""`'
    return "`{}`".format(str(value).lower().replace("'", ""))


def _parameter_text(spec: Spec) -> str:
    """Return the description of a parameter, with the choices that it does not mention."""
    text = spec.description
    if not all(re.search(rf"\b{choice}\b", text) for choice in spec.choices):
        text = ", ".join(f"`{choice}`" for choice in spec.choices) + ". " + text
    return text + " Fixed at startup." * spec.read_only


def _parameters(specs: Iterable[Spec]) -> str:
    return bullets((spec.name, _default(spec.default), _parameter_text(spec)) for spec in specs)


def parameters(node: RobotNode) -> str:
    """List the parameters of a node, except common and marker parameters."""
    return _specific_parameters(node.parameters.specs.values())


def _specific_parameters(specs: Iterable[Spec]) -> str:
    common_names = {spec.name for spec in SPECS}
    return _parameters(
        [
            spec
            for spec in specs
            if spec.name not in common_names and not spec.name.startswith("markers.")
        ]
    )


def shared_marker_parameters(node: RobotNode) -> str:
    """List the parameters that all markers of a node have in common."""
    return _parameters(
        [
            spec
            for spec in node.parameters.specs.values()
            if re.fullmatch(r"markers\.\w+", spec.name)
        ]
    )


def markers(node: RobotNode) -> str:
    """List the kinds of markers of a node with their parameters."""
    marker_specs: dict[str, dict[str, Spec]] = {}
    for spec in node.parameters.specs.values():
        if match := re.fullmatch(r"markers\.(\w+)\.(\w+)", spec.name):
            marker_specs.setdefault(match[1], {})[match[2]] = spec
    return bullets(
        (
            marker,
            "",
            " ".join(
                [
                    _marker_text(specs["show"]) + ".",
                    *(
                        _marker_parameter_text(spec)
                        for name, spec in specs.items()
                        if name not in ("show", "color")
                    ),
                ]
            ),
        )
        for marker, specs in marker_specs.items()
    )


def _marker_parameter_text(spec: Spec) -> str:
    values = ", ".join(f"`{choice}`" for choice in spec.choices) or _default(spec.default)
    default = "" if spec.size or isinstance(spec.default, Parameter.Type) else f" ({values})"
    return f"`{spec.name.rpartition('.')[2]}`{default}: {spec.description}"


def _marker_text(spec: Spec) -> str:
    text = re.sub(r"^Whether ~/markers shows (the )?|\.$", "", spec.description)
    return text if spec.default else f"{text} (hidden by default)"


def common_parameters(node: RobotNode) -> str:
    """List the parameters that all nodes have in common."""
    return _parameters(SPECS)


LISTS = {
    "outputs": outputs,
    "shared": shared_inputs,
    "inputs": inputs,
    "services": services,
    "of_robot": robot_services,
    "parameters": parameters,
    "common": common_parameters,
    "of_markers": shared_marker_parameters,
    "markers": markers,
}
"""Functions that return a list for a node, by the name of the list in a comment."""


def render_page(page: Path) -> str:
    """Return the text of a page with up-to-date lists."""

    def fill(match: re.Match[str]) -> str:
        begin, node_name, list_name, end = match.groups()
        if (node_name, list_name) == ("viewer", "parameters"):  # running it would serve a page
            return begin + _specific_parameters(ViewerNode.all_specs()) + end
        with running_node(node_name) as node:
            return begin + LISTS[list_name](node) + end

    return LIST_PATTERN.sub(fill, page.read_text())


def main() -> None:
    """Write the lists of all pages; print the names of the pages that changed."""
    for page in PAGES:
        text = render_page(page)
        if text != page.read_text():
            page.write_text(text)
            print(page.relative_to(ROOT))


if __name__ == "__main__":
    main()
