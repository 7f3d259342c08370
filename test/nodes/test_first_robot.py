# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The first robot, with drivers that report what real ones do, and a known truth."""
import numpy as np
import pytest

pytest.importorskip("rclpy", reason="no ROS: run `make test`")
pytest.importorskip("dyn_ros.msg", reason="the messages are not built: run `make test`")

from sensor_msgs.msg import JointState

import dyn_ros
import peer

from .conftest import ARM7
from .simulated_driver import SimulatedDriver, launched

OBSERVER = "ros2 launch dyn_ros observer.launch.py"


def test_currents_in_the_drivers_order_show_a_push(start, client, tmp_path):
    xml = (peer.EXAMPLE_ROBOTS / "ur_description/urdf/ur5_robot.urdf").read_text()
    true = dyn_ros.Model.from_urdf(xml)
    true.drives = dyn_ros.Drives.of(6, unit=("A",) * 6, gain=[10.0, 11.0, 9.0, 10.0, -9.0, 10.0])
    dyn_ros.save_drives(true, tmp_path / "drives.yaml")
    driver = SimulatedDriver(true, [*true.velocity_names[1:], true.velocity_names[0]], jitter=1e-4,
                             noise=0.02, posture=[0.3, -1.2, 1.5, -0.5, 1.2, 0.0])
    node = launched(start, f"{OBSERVER} drives:={tmp_path}/drives.yaml")
    driver.connect(client, node, xml)
    efforts = client.listen(JointState, node.topic("observer/external_efforts"))
    driver.run(0.5)
    assert np.abs(efforts[-1].effort).max() < 0.3
    expected = driver.run(0.5, {"tool0": [6.0, -8.0, -20.0]})
    assert max(expected.values()) > 10.0
    np.testing.assert_allclose(efforts[-1].effort, list(expected.values()), atol=0.3)


def test_feet_carry_a_floating_base():
    true = dyn_ros.Model.from_urdf_file(ARM7.parent / "quadruped.urdf", root_joint="floating")
    feet = [frame.name for frame in true.tree.frames if frame.name.endswith("_foot")]
    driver = SimulatedDriver(true, feet=feet, posture=[0, 0, 0.4, 0, 0, 0, 1, *[0.0] * 12])
    efforts, external = driver.efforts(3.0)
    q, v, a = driver.motion(3.0)
    tau = dyn_ros.rnea(true, dyn_ros.Data(true), q, v, a)
    np.testing.assert_allclose(external[:6], tau[:6], atol=1e-9)
    np.testing.assert_allclose(efforts, tau - external, atol=1e-9)
    assert external[2] == pytest.approx(9.81 * true.total_mass, rel=0.05)


def test_a_bag_has_what_is_published(tmp_path):
    pytest.importorskip("zstandard", reason="no zstandard: run `make test`")
    true = dyn_ros.Model.from_urdf_file(ARM7)
    true.drives = true.drives.with_values(gain=2.0, delay=0.01)
    driver = SimulatedDriver(true, jitter=1e-3, step=0.25, held=4)
    driver.record(tmp_path / "free", 0.1)
    recording = dyn_ros.logs.read(tmp_path / "free", true)
    assert len(recording) == 50
    again = SimulatedDriver(true, jitter=1e-3, step=0.25, held=4)
    again.time = driver.time - 0.1
    efforts = np.array([effort for _, _, _, effort in again.states(0.1)])
    np.testing.assert_allclose(recording.effort, efforts)
    assert (np.diff(efforts, axis=0)[:3] == 0.0).all() and (efforts % 0.25 == 0.0).all()


def test_a_given_file_is_not_replaced_by_the_drivers_description(start, client):
    node = launched(start, f"{OBSERVER} robot_description_file:={ARM7}")
    assert node.node.robot.model.name == "arm7"
    topics = dict(client.node.get_topic_names_and_types())
    assert node.topic("joint_states") in topics
    assert node.topic("robot_description") not in topics
