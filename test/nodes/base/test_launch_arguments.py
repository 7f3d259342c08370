# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Arguments that a launch file does not have; launch, which ROS contains, is replaced."""

import importlib
import sys
from types import SimpleNamespace
from unittest import mock

import pytest

from ..launching import MODULES

DECLARED = ("namespace", "robot_description_file", "drives")


def warnings(argv, **configurations):
    launch = mock.MagicMock()
    with mock.patch.dict(sys.modules, {**dict.fromkeys(MODULES, launch)}):
        sys.modules.pop("dyn_ros.nodes.base.launch_file", None)
        launch_file = importlib.import_module("dyn_ros.nodes.base.launch_file")
        context = SimpleNamespace(launch_configurations=configurations, argv=argv)
        launch_file._warn_of_unknown_arguments(context, *DECLARED)
    sys.modules.pop("dyn_ros.nodes.base.launch_file", None)
    return [call.args[0] for call in launch.get_logger.return_value.warning.mock_calls]


def test_a_misspelt_argument_is_named_with_what_was_meant():
    [text] = warnings(["robot_descriptoin_file:=arm.urdf"], robot_descriptoin_file="arm.urdf")
    assert text == (
        "there is no launch argument robot_descriptoin_file, it is ignored; did you mean "
        "robot_description_file?"
    )


def test_an_unknown_argument_is_named_with_those_that_exist():
    [text] = warnings(["urdf:=arm.urdf"], urdf="arm.urdf")
    assert text.endswith("available: namespace, robot_description_file, drives")


@pytest.mark.parametrize("argv", [[], ["robot:=arm", "robot_description:=arm.urdf"]])
def test_arguments_of_an_including_file_are_not_reported(argv):
    including = {"robot": "arm", "robot_description": "arm.urdf", "gripper": "hand"}
    assert warnings(argv, **including, namespace="left") == []


def test_an_including_file_that_misspells_an_argument_is_warned():
    [text] = warnings([], gripper="hand", drivs="drives.yaml")
    assert "no launch argument drivs, it is ignored; did you mean drives?" in text
    assert warnings([], gripper="hand", drivs="a.yaml", drives="drives.yaml") == []


def test_arguments_that_exist_are_not_reported():
    assert warnings(["drives:=a.yaml"], drives="a.yaml") == []
    assert warnings([]) == []
