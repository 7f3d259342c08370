# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The page of the mobile manipulator: its tool is held, and currents show what pushes the arm."""

import re

import numpy as np
import pytest

pytest.importorskip("rclpy", reason="no ROS: run `make test`")
pytest.importorskip("dyn_ros.msg", reason="the messages are not built: run `make test`")
pytest.importorskip("zstandard", reason="no zstandard: run `make test`")

from sensor_msgs.msg import JointState

import dyn_ros
import peer

from .simulated_driver import SimulatedDriver, launched
from .test_first_robot import echo, follow, run, save_description  # noqa: F401  (a fixture)

XML = (peer.EXAMPLE_ROBOTS / "tiago_description/robots/tiago_no_hand.urdf").read_text()
ARM = [f"arm_{k}_joint" for k in range(1, 8)]
KNOWN = ["torso_lift_joint", *ARM[:4]]
OTHERS = ["head_1_joint", "head_2_joint", "wheel_left_joint", "wheel_right_joint"]
CASTERS = ["caster_back_left_1_joint", "caster_back_left_2_joint"]  # not in the description
GAINS = [13.6, 13.6, -8.7, -8.7, 20.0, 20.0, 20.0]  # N m/A; of the wrist: not on the page
POSTURE = [0.2, 0.8, -0.5, -1.0, 1.2, 0.3, 0.2, 0.1]


@pytest.fixture
def page(follow, client):  # noqa: F811
    yield follow("mobile_manipulator.md")
    client.stop_listening()


@pytest.fixture
def driver():
    """Reports currents of the arm, quantized, and the force of the torso without gravity."""
    true = dyn_ros.Model.from_urdf(XML)
    names = list(true.velocity_names)
    rows = [names.index(name) for name in ARM]
    gain, friction = np.ones(len(names)), np.zeros(len(names))
    gain[rows], friction[rows[:4]] = GAINS, [4.0, 5.0, 3.0, 2.5]
    true.friction = friction
    true.drives = dyn_ros.Drives.of(
        len(names), gain=gain, is_compensated=[name == "torso_lift_joint" for name in names]
    )
    posture = np.zeros(true.nq)
    posture[[names.index(name) for name in ("torso_lift_joint", *ARM)]] = POSTURE
    return SimulatedDriver(
        true,
        [*CASTERS, *OTHERS, *ARM, "torso_lift_joint"],
        rate=50.0,
        jitter=1e-4,
        step=1e-3,
        posture=posture,
        swing=0.0,
    )


def test_the_tool_is_held(start, client, page, driver):
    node = launched(start, page.take("vereshchagin.launch.py"))
    driver.connect(client, node, XML)
    torques = echo(client, node, page.take("constraint_torques"), JointState)
    driver.run(0.2)
    torque_by_joint = dict(zip(torques[-1].name, torques[-1].effort))
    gravity = dyn_ros.generalized_gravity(driver.true, dyn_ros.Data(driver.true), driver.posture)
    expected = dict(zip(driver.true.velocity_names, gravity))
    assert list(torque_by_joint) == ["torso_lift_joint", *ARM]
    np.testing.assert_allclose(
        [*torque_by_joint.values()], [expected[name] for name in torque_by_joint], atol=1e-6
    )
    assert torque_by_joint["torso_lift_joint"] == pytest.approx(179.0, abs=0.5)
    page.unused_commands.clear()


def test_currents_show_a_push(start, client, page, driver):
    node = launched(start, page.take("observer.launch.py", "tiago.drives.yaml"))
    driver.connect(client, node, XML)
    efforts = echo(client, node, page.take("external_efforts"), JointState)
    driver.run(1.0)
    assert list(efforts[-1].name[:5]) == KNOWN and np.abs(efforts[-1].effort[:5]).max() < 0.1
    expected = driver.run(1.0, {"arm_4_link": [0.0, -20.0, -10.0]})
    np.testing.assert_allclose(efforts[-1].effort[:5], [expected[name] for name in KNOWN], atol=0.1)
    driver.swing = np.where([name in ARM for name in driver.true.velocity_names], 0.05, 0.0)
    driver.run(2.0)
    _, values = client.diagnostics(node)
    faults = re.findall(r"efforts of (\w+)", values["effort faults"])
    assert faults and set(faults) <= set(ARM[4:])
    client.stop_listening()

    save_description(page, XML)
    driver.swing = np.where([name in ARM[:4] for name in driver.true.velocity_names], 0.4, 0.0)
    driver.record("free", 60.0)
    run(page.take("dyn_ros identify"))
    identified = launched(start, page.take("observer.launch.py", "tiago_identified.urdf"))
    errors = driver.errors(client, (node, identified))[:, :5]
    assert errors[0][1:].min() > 1.0 and errors[1].max() < 0.2
    page.take("vereshchagin.launch.py"), page.take("constraint_torques")  # the test before


def test_joints_that_are_not_published_are_named(start, client, page, driver):
    node = launched(start, page.take("observer.launch.py"))
    driver.names = [*OTHERS, *ARM]  # without the torso
    driver.connect(client, node, XML)
    client.listen(JointState, node.topic("observer/external_efforts"))
    driver.run(0.2)
    [quoted] = re.findall(r"`/diagnostics` reports `(.*?)` a joint", page.path.read_text())
    client.diagnostics(node, lambda status, _: status.message == f"{quoted} torso_lift_joint")
    page.unused_commands.clear()
