# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Checks that launch files make before they start anything."""
import importlib.util
import os

from ament_index_python.packages import PackageNotFoundError, get_package_prefix
from launch.actions import OpaqueFunction
from launch.substitutions import LaunchConfiguration

from launch import LaunchContext


class LaunchError(RuntimeError):
    """Nothing can be started; the message states the reason and a remedy."""


def require_file(argument: str) -> OpaqueFunction:
    """Return an action that fails if an argument is the path of a file that does not exist."""
    def check(context: LaunchContext) -> None:
        path = _value(context, argument)
        if path and not os.path.exists(path):
            raise LaunchError(f"{argument}: there is no file '{path}' (current folder: "
                              f"{os.getcwd()}); specify the path of an existing file")
    return OpaqueFunction(function=check)


def require_package(name: str, argument: str | None = None) -> OpaqueFunction:
    """Return an action that fails if a ROS package is not installed.

    With an argument, the package is required only if its value is neither empty nor false.
    """
    def check(context: LaunchContext) -> None:
        if argument is not None and _value(context, argument).lower() in ("", "false", "0"):
            return
        try:
            get_package_prefix(name)
        except PackageNotFoundError:
            distribution = os.environ.get("ROS_DISTRO", "<distribution>")
            package = f"ros-{distribution}-{name.replace('_', '-')}"
            raise LaunchError(f"the ROS package {name} is not installed; on Debian or Ubuntu: "
                              f"sudo apt install {package}") from None
    return OpaqueFunction(function=check)


def require_module(name: str, command: str) -> OpaqueFunction:
    """Return an action that fails if a Python module, which a command installs, is missing."""
    def check(context: LaunchContext) -> None:
        if importlib.util.find_spec(name) is None:
            raise LaunchError(f"the Python package {name} is not installed: {command}")
    return OpaqueFunction(function=check)


def _value(context: LaunchContext, argument: str) -> str:
    # The checks precede the declarations: an argument that was not passed has no value yet.
    value: str = LaunchConfiguration(argument, default="").perform(context)
    return value
