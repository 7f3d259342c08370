# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Launch descriptions of the launch files: their arguments, the nodes that they start, checks."""

from __future__ import annotations

import importlib.util
import os
import shlex
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias

from ament_index_python.packages import PackageNotFoundError, get_package_prefix
from launch.actions import DeclareLaunchArgument, OpaqueFunction, Shutdown
from launch.logging import get_logger
from launch.substitutions import Command, LaunchConfiguration, PathJoinSubstitution
from launch_ros.actions import Node
from launch_ros.parameter_descriptions import ParameterFile, ParameterValue
from launch_ros.substitutions import FindPackageShare

from launch import LaunchContext, LaunchDescription

from ...engine.kernel.names import join_names, similar_names
from ...engine.model.urdf import read_description_file

Argument: TypeAlias = "tuple[str, Any, str]"
"""Name, default and description of a launch argument."""
NODES_ARGUMENT: Argument = (
    "nodes",
    "true",
    "Start the nodes of this package. false: they are already running.",
)
_BOOLEANS = {
    "true": True,
    "1": True,
    "yes": True,
    "on": True,
    "false": False,
    "0": False,
    "no": False,
    "off": False,
}
_MIN_SIMILARITY = 0.9
"""Similarity of a name to a declared one with which it counts as misspelt; robot_description and
robot_description_file, two names that an including launch file may have, have 0.87."""
VIEWER_ARGUMENTS: Sequence[Argument] = (
    ("host", "127.0.0.1", "Address of the page. 127.0.0.1: for this machine only."),
    ("port", "8080", "First port to try, before the next ones."),
)


def launch_description(executable: str, config: str, name: str | None = None) -> LaunchDescription:
    """Return a description that starts an executable; `name` is the default name of its node."""
    return _make_description(_node_arguments(config, name), _node_actions, executable, name)


def view_description() -> LaunchDescription:
    """Return a description that starts RViz, the frame publishers and all nodes."""
    arguments = (
        ("rviz_config", _config_path("dyn_ros.rviz"), "Configuration file of RViz."),
        ("fixed_frame", "", "Fixed frame of RViz. Empty: as in rviz_config."),
        ("gui", "false", "Start joint_state_publisher_gui, with sliders that move the robot."),
    )
    return _make_description(
        (*_node_arguments("dyn_ros.yaml", None), NODES_ARGUMENT, *arguments), _view_actions
    )


def viewer_description() -> LaunchDescription:
    """Return a description that starts all nodes and the viewer."""
    return _make_description(
        (*_node_arguments("dyn_ros.yaml", None), NODES_ARGUMENT, *VIEWER_ARGUMENTS), _viewer_actions
    )


def _make_description(
    arguments: Iterable[Argument], start: Callable[..., list[Any]], *parameters: Any
) -> LaunchDescription:
    """Return a description that declares arguments, then runs `start(context, *parameters)`."""
    arguments = list(arguments)
    return LaunchDescription(
        [
            OpaqueFunction(
                function=_warn_of_unknown_arguments, args=[name for name, _, _ in arguments]
            ),
            *(
                DeclareLaunchArgument(name, default_value=default, description=description)
                for name, default, description in arguments
            ),
            OpaqueFunction(function=start, args=parameters),
        ]
    )


def _warn_of_unknown_arguments(context: LaunchContext, *declared_arguments: str) -> None:
    """Warn of launch arguments that are not declared, which launch ignores.

    Among the configurations are also the arguments of a launch file that includes this one. They
    are not on the command line, and are only reported if they resemble an argument that is not set.
    """
    configurations = context.launch_configurations
    command_line = {argument.partition(":=")[0] for argument in context.argv}
    is_included = not command_line.issuperset(configurations)
    missing_arguments = [name for name in declared_arguments if name not in configurations]
    for name in sorted({*configurations} - {*declared_arguments}):
        similar = similar_names(
            name, missing_arguments, most=1, least=_MIN_SIMILARITY if is_included else 0.6
        )
        if similar or not is_included:
            remedy = (
                f"did you mean {similar[0]}?"
                if similar
                else f"available: {join_names(declared_arguments)}"
            )
            get_logger("dyn_ros").warning(
                f"there is no launch argument {name}, it is ignored; {remedy}"
            )


def _config_path(file: str) -> PathJoinSubstitution:
    """Return the path of an installed file in the folder config."""
    return PathJoinSubstitution([FindPackageShare("dyn_ros"), "config", file])


def _node_arguments(config: str, name: str | None) -> Sequence[Argument]:
    """Return the launch arguments of a node with a configuration file and a default name."""
    return (
        *([("name", name, "Name of the node.")] if name else []),
        ("namespace", "", "Namespace of the node and its topics."),
        (
            "params_file",
            _config_path(config),
            f"Path of a YAML file with parameters, as in config/{config}.",
        ),
        (
            "robot_description_file",
            "",
            "Path of a URDF file, or of a xacro file that ends in .xacro. Empty: the topic "
            "robot_description, or the parameters.",
        ),
        (
            "drives",
            "",
            "Path of a YAML file with the meaning of efforts, rotor inertias and friction. Empty: "
            "the parameter drives.",
        ),
        ("use_sim_time", "false", "Use the time of the topic /clock."),
        (
            "autostart",
            "true",
            "Configure and activate at startup. false: wait for a lifecycle manager.",
        ),
        ("log_level", "info", "Lowest level of log messages: debug, info, warn, error, or fatal."),
        ("respawn", "false", "Restart the node when it exits."),
    )


def _argument_text(context: Any, argument: str) -> str:
    """Return the value of a launch argument; empty if it is not set."""
    # checks run before the declarations, when an argument that was not passed has no value yet
    return LaunchConfiguration(argument, default="").perform(context)


def _argument_flag(context: Any, argument: str) -> bool:
    """Return the boolean value of a launch argument; raise a `LaunchError` for other texts."""
    value = _argument_text(context, argument)
    if value.lower() not in _BOOLEANS:
        raise LaunchError(f"{argument}: expected true or false, got '{value}'")
    return _BOOLEANS[value.lower()]


def _node_actions(context: Any, executable: str, name: str | None) -> list[Any]:
    """Return the action that starts an executable with the values of `_node_arguments`."""
    parameters: dict[str, Any] = {
        "use_sim_time": _argument_flag(context, "use_sim_time"),
        "autostart": _argument_flag(context, "autostart"),
    }
    path = _argument_text(context, "robot_description_file")
    if path.endswith(".xacro"):
        parameters["robot_description"] = _robot_description(path)
    elif path:
        parameters["robot_description_file"] = path
    if drives := _argument_text(context, "drives"):
        parameters["drives"] = drives
    if executable == "viewer_node":
        parameters.update(
            host=LaunchConfiguration("host"),
            port=ParameterValue(LaunchConfiguration("port"), value_type=int),
        )
    return [
        Node(
            package="dyn_ros",
            executable=executable,
            name=_argument_text(context, "name") if name else None,
            namespace=_argument_text(context, "namespace"),
            parameters=[
                ParameterFile(_argument_text(context, "params_file"), allow_substs=True),
                parameters,
            ],
            # a robot's driver publishes a description too, which would replace the file
            remappings=[("robot_description", "~/robot_description")] if path else [],
            arguments=["--ros-args", "--log-level", _argument_text(context, "log_level")],
            respawn=_argument_flag(context, "respawn"),
            respawn_delay=1.0,
            output="screen",
        )
    ]


def _robot_description(path: str) -> ParameterValue:
    """Return the URDF in a file, or the output of xacro, as the value of a parameter."""
    if path.endswith(".xacro"):
        return ParameterValue(Command(["xacro ", shlex.quote(path)]), value_type=str)
    return ParameterValue(read_description_file(path), value_type=str)


def _viewer_actions(context: Any) -> list[Any]:
    """Return actions that start the requested nodes and the viewer."""
    nodes = _node_actions(context, "dyn_ros_node", None) if _argument_flag(context, "nodes") else []
    return [*nodes, *_node_actions(context, "viewer_node", None)]


def _view_actions(context: Any) -> list[Any]:
    """Return actions that start RViz, whose exit ends the launch, and the requested nodes."""

    def make_node(
        package: str, arguments: Sequence[str] = (), on_exit: Any = None, **parameters: Any
    ) -> Node:
        return Node(
            package=package,
            executable=package,
            namespace=_argument_text(context, "namespace"),
            parameters=[{"use_sim_time": _argument_flag(context, "use_sim_time"), **parameters}],
            arguments=arguments,
            remappings=[("/tf", "tf"), ("/tf_static", "tf_static")],
            output="screen",
            on_exit=on_exit,
        )

    path, fixed_frame = (
        _argument_text(context, name) for name in ("robot_description_file", "fixed_frame")
    )
    nodes = []
    if path:
        nodes.append(make_node("robot_state_publisher", robot_description=_robot_description(path)))
    if _argument_flag(context, "gui"):
        nodes.append(make_node("joint_state_publisher_gui"))
    if _argument_flag(context, "nodes"):
        nodes += _node_actions(context, "dyn_ros_node", None)
    arguments = ["-d", _argument_text(context, "rviz_config")]
    if fixed_frame:
        arguments += ["-f", fixed_frame]
    return [*nodes, make_node("rviz2", arguments, on_exit=Shutdown())]


class LaunchError(RuntimeError):
    """A missing file or package; the message states a remedy."""


def require_file(argument: str) -> OpaqueFunction:
    """Return an action that raises a `LaunchError` if a file named by an argument is missing."""

    def raise_if_missing(context: LaunchContext) -> None:
        path = _argument_text(context, argument)
        if path and not os.path.exists(path):
            raise LaunchError(
                f"{argument}: there is no file '{path}' (current folder: "
                f"{os.getcwd()}); specify the path of an existing file"
            )

    return OpaqueFunction(function=raise_if_missing)


def require_package(name: str, argument: str | None = None) -> OpaqueFunction:
    """Return an action that raises a `LaunchError` if a ROS package is missing.

    With an `argument`, the package is required only if that argument is set.
    """

    def raise_if_missing(context: LaunchContext) -> None:
        if argument is not None and _argument_text(context, argument).lower() in ("", "false", "0"):
            return
        try:
            get_package_prefix(name)
        except PackageNotFoundError:
            distribution = os.environ.get("ROS_DISTRO", "<distribution>")
            package = f"ros-{distribution}-{name.replace('_', '-')}"
            raise LaunchError(
                f"the ROS package {name} is not installed; on Debian or Ubuntu, run "
                f"`sudo apt install {package}`"
            ) from None

    return OpaqueFunction(function=raise_if_missing)


def require_module(name: str, command: str) -> OpaqueFunction:
    """Return an action that raises a `LaunchError` if a Python module is missing.

    The message contains the `command` that installs it.
    """

    def raise_if_missing(context: LaunchContext) -> None:
        if importlib.util.find_spec(name) is None:
            raise LaunchError(f"the Python package {name} is not installed: {command}")

    return OpaqueFunction(function=raise_if_missing)
