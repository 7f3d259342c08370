# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The page of the mobile manipulator: its tool is held, and currents show what pushes the arm."""
import re

import numpy as np
import pytest

pytest.importorskip("rclpy", reason="no ROS: run `make test`")
pytest.importorskip("dyn_ros.msg", reason="the messages are not built: run `make test`")

from sensor_msgs.msg import JointState

import dyn_ros
import peer

from .simulated_driver import SimulatedDriver, launched
from .test_commands import ROOT, commands

PAGE = ROOT / "docs" / "first_robot" / "mobile_manipulator.md"
XML = (peer.EXAMPLE_ROBOTS / "tiago_description/robots/tiago_no_hand.urdf").read_text()
ARM = [f"arm_{k}_joint" for k in range(1, 8)]
OTHERS = ["head_1_joint", "head_2_joint", "wheel_left_joint", "wheel_right_joint"]
CASTERS = ["caster_back_left_1_joint", "caster_back_left_2_joint"]      # not in the description
GAINS = [13.6, 13.6, -8.7, -8.7, 20.0, 20.0, 20.0]      # N m/A; of the wrist: not on the page
POSTURE = [0.2, 0.8, -0.5, -1.0, 1.2, 0.3, 0.2, 0.1]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """What a reader has saved from the page."""
    for name, code in re.findall(r"ave this as `(\S+?)`[^:]*:\n\n```\w+\n(.*?)```",
                                 PAGE.read_text(), re.S):
        (tmp_path / name).write_text(code)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(autouse=True)
def quiet(client):
    yield
    client.stop_listening()


@pytest.fixture
def driver():
    """Reports currents of the arm, quantized, and the force of the torso without gravity."""
    true = dyn_ros.Model.from_urdf(XML)
    names = list(true.velocity_names)
    gain, compensated = np.ones(len(names)), np.zeros(len(names), bool)
    gain[[names.index(name) for name in ARM]] = GAINS
    compensated[names.index("torso_lift_joint")] = True
    true.drives = dyn_ros.Drives.of(len(names), gain=gain, is_compensated=compensated)
    posture = np.zeros(true.nq)
    posture[[names.index(name) for name in ("torso_lift_joint", *ARM)]] = POSTURE
    swing = np.where([name in ARM for name in names], 0.05, 0.0)
    driver = SimulatedDriver(true, [*CASTERS, *OTHERS, *ARM, "torso_lift_joint"], rate=50.0,
                             jitter=1e-4, step=1e-3, posture=posture, swing=swing)
    driver.time = 1000.0
    return driver


def command(file):
    [found] = [each for each in commands(PAGE) if each.startswith(f"ros2 launch dyn_ros {file}")]
    return found


def test_the_tool_is_held(start, client, folder, driver):
    node = launched(start, command("vereshchagin.launch.py"))
    driver.swing = np.zeros(driver.true.nv)
    driver.connect(client, node, XML)
    torques = client.listen(JointState, node.topic("vereshchagin/constraint_torques"))
    driver.run(0.2)
    found = dict(zip(torques[-1].name, torques[-1].effort))
    gravity = dyn_ros.generalized_gravity(driver.true, dyn_ros.Data(driver.true), driver.posture)
    expected = dict(zip(driver.true.velocity_names, gravity))
    assert list(found) == ["torso_lift_joint", *ARM]
    np.testing.assert_allclose([*found.values()], [expected[name] for name in found], atol=1e-6)


def test_currents_show_a_push(start, client, folder, driver):
    node = launched(start, command("observer.launch.py"))
    driver.connect(client, node, XML)
    efforts = client.listen(JointState, node.topic("observer/external_efforts"))
    driver.run(2.0)
    known = ["torso_lift_joint", *ARM[:4]]
    assert list(efforts[-1].name[:5]) == known and np.abs(efforts[-1].effort[:5]).max() < 0.1
    expected = driver.run(1.0, {"arm_4_link": [0.0, -20.0, -10.0]})
    np.testing.assert_allclose(efforts[-1].effort[:5], [expected[name] for name in known],
                               atol=0.1)
    _, values = client.diagnostics(node)
    faults = re.findall(r"efforts of (\w+)", values["effort faults"])
    assert faults and set(faults) <= set(ARM[4:])


def test_joints_that_are_not_published_are_named(start, client, folder, driver):
    node = launched(start, command("observer.launch.py"))
    driver.names = [*OTHERS, *ARM]              # without the torso
    driver.connect(client, node, XML)
    client.listen(JointState, node.topic("observer/external_efforts"))
    driver.run(0.2)
    [quoted] = re.findall(r"`/diagnostics` reports `(.*?)`, and joints", PAGE.read_text())
    client.diagnostics(node, lambda status, _: status.message == f"{quoted} torso_lift_joint")
