# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Nodes that the launch files start, found without launch, which comes with a ROS installation."""

import runpy
import sys
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

ROOT = Path(__file__).resolve().parents[2]
MODULES = (
    "launch",
    "launch.actions",
    "launch.logging",
    "launch.substitutions",
    "launch_ros",
    "launch_ros.actions",
    "launch_ros.parameter_descriptions",
    "launch_ros.substitutions",
)


def nodes_of(file, arguments):
    """Return the arguments of each `Node` that a launch file starts with these arguments."""
    values, functions, nodes, launch = {}, [], [], mock.MagicMock()
    launch.DeclareLaunchArgument = lambda name, default_value, **_: values.update(
        {name: default_value}
    )
    launch.OpaqueFunction = lambda function, args=(): functions.append((function, args))
    launch.LaunchConfiguration = lambda name, default="": SimpleNamespace(
        perform=lambda context: values.get(name, default)
    )
    launch.ParameterFile = lambda path, allow_substs: path
    launch.Node = lambda **node: nodes.append(node)
    with (
        mock.patch.dict(sys.modules, dict.fromkeys(MODULES, launch)),
        mock.patch("ament_index_python.packages.get_package_share_directory", lambda _: str(ROOT)),
    ):
        sys.modules.pop("dyn_ros.nodes.base.launch_file", None)
        runpy.run_path(str(ROOT / "launch" / file))["generate_launch_description"]()
        assert set(arguments) <= set(values), f"{file} has the arguments {', '.join(values)}"
        values.update(arguments)
        for function, args in functions:
            function(SimpleNamespace(launch_configurations=values, argv=()), *args)
    sys.modules.pop("dyn_ros.nodes.base.launch_file", None)
    return nodes
