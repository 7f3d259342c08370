# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Launch descriptions of the launch files: their arguments, the nodes that they start, checks."""

from __future__ import annotations

import importlib.util
import os
import shlex
import tempfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from ament_index_python.packages import (
    PackageNotFoundError,
    get_package_prefix,
    get_package_share_directory,
)
from launch.actions import DeclareLaunchArgument, OpaqueFunction, Shutdown
from launch.logging import get_logger
from launch.substitutions import Command, LaunchConfiguration
from launch_ros.actions import Node
from launch_ros.parameter_descriptions import ParameterFile, ParameterValue

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
RVIZ_CONFIG = "dyn_ros.rviz"
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
    ("port", "8080", "First port to try; if it is in use, the next free one."),
)


def launch_description(executable: str, config: str, name: str | None = None) -> LaunchDescription:
    """Return a description that starts an executable; `name` is the default name of its node."""
    return _make_description(_node_arguments(config, name), _node_actions, executable, name)


def view_description() -> LaunchDescription:
    """Return a description that starts RViz, the frame publishers and all nodes."""
    arguments = (
        (
            "rviz_config",
            _config_path(RVIZ_CONFIG),
            "Configuration file of RViz. The default one gets a camera that sees the whole robot "
            "in robot_description_file.",
        ),
        (
            "fixed_frame",
            "",
            "Fixed frame of RViz. Empty: the root link in robot_description_file, odom if "
            "params_file says that it moves, or without a file as in rviz_config.",
        ),
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


def require_files_description() -> LaunchDescription:
    """Return a description that checks the files named by arguments of an including launch file."""
    text = "Names of the arguments of the including launch file that are paths of files."

    def check(context: LaunchContext) -> None:
        for argument in _argument_text(context, "arguments").split():
            _raise_if_missing(context, argument)

    return LaunchDescription(
        [
            DeclareLaunchArgument("arguments", description=text),
            OpaqueFunction(function=check),
        ]
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


def _config_path(file: str) -> str:
    """Return the path of an installed file in the folder config."""
    return os.path.join(get_package_share_directory("dyn_ros"), "config", file)


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


def _argument_path(context: Any, argument: str) -> str:
    """Return the path that a launch argument names; ``~`` is the home folder."""
    return os.path.expanduser(_argument_text(context, argument))


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
    path = _argument_path(context, "robot_description_file")
    if path.endswith(".xacro"):
        parameters["robot_description"] = ParameterValue(_read_description(context), value_type=str)
    elif path:
        parameters["robot_description_file"] = path
    if drives := _argument_path(context, "drives"):
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
                ParameterFile(_argument_path(context, "params_file"), allow_substs=True),
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


def _read_description(context: Any) -> str:
    """Return the URDF in `robot_description_file`, which xacro expands if it ends in .xacro."""
    path = _argument_path(context, "robot_description_file")
    if path.endswith(".xacro"):
        return str(Command(["xacro ", shlex.quote(path)]).perform(context))
    try:
        return read_description_file(path)
    except (OSError, ValueError) as error:
        raise LaunchError(f"robot_description_file: '{path}': {error}") from None


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

    nodes, arguments = [], ["-d", _argument_path(context, "rviz_config")]
    fixed_frame = _argument_text(context, "fixed_frame")
    if path := _argument_path(context, "robot_description_file"):
        description = _read_description(context)
        text = ParameterValue(description, value_type=str)
        nodes.append(make_node("robot_state_publisher", robot_description=text))
        try:
            fitted_config, root_frame = _fit_rviz(context, description)
        except ValueError as error:
            raise LaunchError(f"robot_description_file: '{path}': {error}") from None
        fixed_frame = fixed_frame or root_frame
        if arguments[1] == _config_path(RVIZ_CONFIG):
            arguments[1] = fitted_config
    if _argument_flag(context, "gui"):
        nodes.append(make_node("joint_state_publisher_gui"))
    if _argument_flag(context, "nodes"):
        nodes += _node_actions(context, "dyn_ros_node", None)
    if fixed_frame:
        arguments += ["-f", fixed_frame]
    return [*nodes, make_node("rviz2", arguments, on_exit=Shutdown())]


def _fit_rviz(context: Any, description: str) -> tuple[str, str]:
    """Return the path of a configuration of RViz for a robot, and the fixed frame.

    Raises a ValueError if the description is invalid.
    """
    from ... import Model  # takes a second, and is only used here
    from ...files.yaml_text import flatten_ros_parameters, read_yaml
    from .rviz_config import choose_fixed_frame, write_fitted_config

    robot = Model.from_urdf(description)
    parameters = flatten_ros_parameters(read_yaml(_argument_path(context, "params_file")))
    frame = choose_fixed_frame(robot, parameters)
    path = Path(tempfile.mkdtemp(prefix="dyn_ros_"), RVIZ_CONFIG)
    write_fitted_config(_config_path(RVIZ_CONFIG), path, robot, parameters)
    return str(path), frame


class LaunchError(RuntimeError):
    """A missing file or package; the message states a remedy."""


def require_file(argument: str) -> OpaqueFunction:
    """Return an action that raises a `LaunchError` if a file named by an argument is missing."""
    return OpaqueFunction(function=_raise_if_missing, args=[argument])


def _raise_if_missing(context: LaunchContext, argument: str) -> None:
    """Raise a `LaunchError` if the file that an argument names is missing."""
    path = _argument_path(context, argument)
    if path and not os.path.exists(path):
        raise LaunchError(
            f"{argument}: there is no file '{path}' (current folder: "
            f"{os.getcwd()}); specify the path of an existing file"
        )


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
