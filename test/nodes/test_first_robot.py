# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The pages of docs/first_robot, followed with simulated drivers whose truth is known."""

import re
import shlex

import numpy as np
import pytest
import yaml

pytest.importorskip("rclpy", reason="no ROS: run `make test`")
pytest.importorskip("dyn_ros.msg", reason="the messages are not built: run `make test`")

from geometry_msgs.msg import WrenchStamped
from identification.recordings import perturbed
from sensor_msgs.msg import JointState

import dyn_ros
import peer
from dyn_ros.command import main as cli

from .conftest import ARM7
from .simulated_driver import SimulatedDriver, launched
from .test_commands import ROOT, commands

OBSERVER = "ros2 launch dyn_ros observer.launch.py"
UR = peer.EXAMPLE_ROBOTS / "ur_description" / "urdf"
PANDA = peer.EXAMPLE_ROBOTS / "panda_description" / "urdf" / "panda.urdf"
PAGES = ROOT / "docs" / "first_robot"
UNTESTABLE = {  # commands of other packages by their beginning, and why they do not run here
    "ros2 launch ur_robot_driver ur_control.launch.py ur_type:=ur5e robot_ip:=192.168.56.101 "
    "use_currents_as_efforts:=": "needs the driver and the robot",
    "ros2 launch franka_bringup franka.launch.py robot_type:=fr3 "
    "robot_ip:=172.16.0.2": "needs the driver and the robot",
    "ros2 launch tiago_bringup tiago_bringup.launch.py": "needs the robot",
    "ros2 bag record -s mcap -o free ": "needs rosbag2; the simulated driver writes the bag",
    "ros2 topic echo --once --full-length --field data "
    "/robot_description > ": "needs ros2cli; the test writes what it prints",
    "ros2 topic echo --once /joint_states": "shows what the driver publishes",
}


class Page:
    """A page in a folder, in which its files are written."""

    def __init__(self, name, folder):
        self.path, self.folder = PAGES / name, folder
        text = self.path.read_text()
        self.blocks = re.findall(
            r"[Ss]ave [^`]* as\s`(\S+\.yaml)`(?:(?!```).)*?```yaml\n(.*?)```", text, re.DOTALL
        )
        for file, content in self.blocks:
            (folder / file).write_text(content)
        self.unused_commands = [
            command for command in commands(self.path) if not command.startswith(tuple(UNTESTABLE))
        ]

    def take(self, *words):
        """The next command with these words, which is then followed."""
        match = next(
            command for command in self.unused_commands if all(word in command for word in words)
        )
        self.unused_commands.remove(match)
        return match


@pytest.fixture
def follow(tmp_path, monkeypatch):
    """Open a page; at the end, all its commands must have been followed."""
    pages = []

    def follow(name):
        pages.append(Page(name, tmp_path))
        monkeypatch.chdir(tmp_path)
        return pages[-1]

    yield follow
    for page in pages:
        assert page.unused_commands == []


def save_description(page, xml):
    """Return what `ros2 topic echo` prints of the topic robot_description."""
    [command] = (each for each in commands(page.path) if "--field data" in each)
    (page.folder / command.split(" > ")[1]).write_text(xml + "\n---\n")


def echo(client, node, command, kind):
    """A list of the messages of a topic that a command shows."""
    topic = shlex.split(command)[-1].removeprefix(f"/{node.subspace}" if node.subspace else "")
    return client.listen(kind, node.namespace + topic)


def set_parameter(client, node, command):
    name, parameter, value = shlex.split(command.removeprefix("ros2 param set "))
    assert name == f"/{node.subspace}/{node.name.split('/')[-1]}".replace("//", "/")
    assert client.set_parameters(node, **{parameter: yaml.safe_load(value)}) == (True, "")


def run(command):
    """Run the command dyn_ros here."""
    assert cli.main(shlex.split(command.removeprefix("dyn_ros "))) == 0


def said(capsys, command):
    """Return the standard error of a command."""
    capsys.readouterr()
    run(command)
    return capsys.readouterr().err


def largest(message):
    return np.abs(message.effort).max()


def test_torques_of_a_ur5e(start, client, follow, capsys):
    page, xml = follow("universal_robots.md"), (UR / "ur5_robot.urdf").read_text()
    true = perturbed(dyn_ros.Model.from_urdf(xml), size=0.1, seed=1)
    true.drives, noise = dyn_ros.Drives.of(6, is_compensated=True), 0.3
    order = [*true.velocity_names[1:], true.velocity_names[0]]
    driver = SimulatedDriver(
        true,
        order,
        rate=125.0,
        jitter=1e-4,
        noise=noise,
        swing=0.0,
        posture=[0.0, -0.6, 1.0, -0.4, 1.5, 0.0],
    )
    node = launched(start, page.take("observer.launch.py", "ur5e.drives.yaml"))
    driver.connect(client, node, xml)
    efforts = echo(client, node, page.take("/external_efforts"), JointState)
    wrenches = echo(client, node, page.take("/external_wrench"), WrenchStamped)
    set_parameter(client, node, page.take("ros2 param set"))
    driver.run(1.0)
    assert largest(efforts[-1]) < 5.0 * noise
    push = {"tool0": [0.0, 0.0, -50.0]}
    expected = driver.run(1.0, push)
    assert 20.0 < expected["shoulder_lift_joint"] < 40.0
    np.testing.assert_allclose(efforts[-1].effort, list(expected.values()), atol=5.0 * noise)
    assert wrenches[-1].header.frame_id == "base_link"
    assert abs(wrenches[-1].wrench.force.z + 50.0) < 5.0
    client.stop_listening()

    save_description(page, xml)
    driver.swing = 0.8 * np.ones(6)
    driver.record("free", 40.0)
    run(page.take("dyn_ros identify"))
    identified = launched(start, page.take("observer.launch.py", "ur5e_identified.urdf"))
    errors = driver.errors(client, (node, identified))
    assert errors[0].max() > 4.0 and errors[1].max() < 0.8

    log = page.take("dyn_ros log")
    assert "if it is already subtracted, declare it in the drives file" in said(capsys, log)


@pytest.mark.parametrize("gain, expected", [(12.0, "times the gravity torque"), (1.0, "")])
def test_a_recording_says_what_efforts_of_a_ur5e_are(tmp_path, monkeypatch, capsys, gain, expected):
    monkeypatch.chdir(tmp_path)
    xml = (UR / "ur5_robot.urdf").read_text()
    (tmp_path / "ur5e.urdf").write_text(xml)
    true = perturbed(dyn_ros.Model.from_urdf(xml), size=0.1, seed=1)
    true.drives = dyn_ros.Drives.of(6, gain=gain)
    SimulatedDriver(
        true, rate=125.0, noise=0.3 / gain, swing=0.8, posture=[0.0, -0.6, 1.0, -0.4, 1.5, 0.0]
    ).record("free", 20.0)
    [log] = (
        each for each in commands(PAGES / "universal_robots.md") if each.startswith("dyn_ros log")
    )
    assert expected in said(capsys, log) and bool(expected) == ("effort" in said(capsys, log))


def test_currents_of_a_ur10e(start, client, follow):
    page, xml = follow("universal_robots.md"), (UR / "ur10_robot.urdf").read_text()
    page.unused_commands.clear()  # the commands are the same
    true = dyn_ros.Model.from_urdf(xml)
    true.drives = dyn_ros.Drives.of(6, unit=("A",) * 6, gain=[11.4, 12.3, 10.1, 10.3, 10.4, 10.3])
    driver = SimulatedDriver(true, noise=0.03, swing=0.1, posture=[0.3, -0.6, 1.0, -0.4, 1.5, 0.0])
    node = launched(start, f"{OBSERVER} drives:=ur10e.drives.yaml")
    driver.connect(client, node, xml)
    efforts = client.listen(JointState, node.topic("observer/external_efforts"))
    driver.run(0.5)
    gravity = dyn_ros.generalized_gravity(true, dyn_ros.Data(true), driver.posture)
    assert largest(efforts[-1]) < 3.0 and np.abs(gravity).max() > 60.0
    before = np.array(efforts[-1].effort)
    expected = driver.run(0.5, {"tool0": [0.0, 0.0, -50.0]})
    np.testing.assert_allclose(efforts[-1].effort - before, list(expected.values()), atol=3.0)
    client.stop_listening()


def test_a_gripper_that_the_controller_of_a_ur5e_does_not_know(start, client, follow):
    page, xml = follow("universal_robots.md"), (UR / "ur5_robot.urdf").read_text()
    known, true = (dyn_ros.Model.from_urdf(xml) for _ in range(2))
    true.set_payload("gripper", "tool0", 1.0, [0.0, 0.0, 0.1], 1e-3 * np.eye(3))
    true.drives = dyn_ros.Drives.of(6, is_compensated=True)
    node = launched(start, page.take("observer.launch.py"))
    page.unused_commands.clear()
    errors = []
    for controller in (known, true):
        driver = SimulatedDriver(true, known=controller, posture=[0.0, -0.6, 1.0, -0.4, 1.5, 0.0])
        driver.time = driver.began = driver.began + len(errors)  # 1 s to move to the posture
        driver.connect(client, node, xml)
        efforts = client.listen(JointState, node.topic("observer/external_efforts"))
        driver.run(0.4)
        errors.append(largest(efforts[-1]))
        client.stop_listening()
    assert errors[0] > 5.0 and errors[1] < 0.5


@pytest.mark.parametrize("hand", [False, True])
def test_an_fr3(start, client, follow, hand):
    page, xml = follow("franka.md"), PANDA.read_text().replace("panda_", "fr3_")
    if not hand:
        xml = re.sub(r'<joint name="fr3_finger_joint\d".*?</joint>', "", xml, flags=re.DOTALL)
        xml = re.sub(r'<link name="fr3_(left|right)finger".*?</link>', "", xml, flags=re.DOTALL)
    true = dyn_ros.Model.from_urdf(xml)
    true.drives = true.drives.with_values(offset=0.3)
    driver = SimulatedDriver(
        true,
        [f"fr3_joint{n}" for n in range(1, 8)],
        noise=0.05,
        topic="franka/joint_states",
        rate=1000.0,
        jitter=3e-4,
        swing=0.0,
        posture=[0.0, -0.3, 0.0, -2.0, 0.0, 1.8, 0.8, *[0.0] * hand],
    )
    save_description(page, xml)
    node = launched(start, page.take("observer.launch.py", "fr3.urdf"))
    driver.connect(client, node)
    lock = page.take("locked_joints")
    if hand:
        driver.run(0.1)
        assert "waiting for the position of fr3_finger_joint1" in str(client.diagnostics(node))
        set_parameter(client, node, lock)
    efforts = echo(client, node, page.take("/external_efforts"), JointState)
    wrenches = echo(client, node, page.take("/external_wrench"), WrenchStamped)
    set_parameter(client, node, page.take("wrench_axes"))
    driver.run(0.3)
    assert largest(efforts[-1]) < 1.0
    before = wrenches[-1].wrench.force.z
    driver.run(0.3, {"fr3_hand": [0.0, 0.0, -9.81]})
    assert abs(wrenches[-1].wrench.force.z - before + 9.81) < 0.5
    client.stop_listening()
    identify, again = page.take("dyn_ros identify"), page.take("fr3_identified.urdf")
    if not hand:
        driver.rate, driver.swing = 100.0, 0.5 * np.ones(7)
        driver.record("free", 40.0)
        run(identify)
        node = launched(start, again)
        driver.connect(client, node)
        efforts = client.listen(JointState, node.name + "/external_efforts")
        driver.run(2.0)
        assert largest(efforts[-1]) < 0.3
        client.stop_listening()


def test_drives_of_other_names_are_reported(start, follow):
    page = follow("franka.md")
    save_description(page, PANDA.read_text())
    node = launched(start, page.take("observer.launch.py"))
    assert "no joint 'fr3_joint1'" in node.output()
    page.unused_commands.clear()


def test_a_given_file_is_not_replaced_by_the_drivers_description(start, client):
    node = launched(start, f"{OBSERVER} robot_description_file:={ARM7}")
    assert node.node.robot.model.name == "arm7"
    topics = dict(client.node.get_topic_names_and_types())
    assert node.topic("joint_states") in topics
    assert node.topic("robot_description") not in topics


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
    again.time = again.began = driver.began
    efforts = np.array([effort for _, _, _, effort in again.states(0.1)])
    np.testing.assert_allclose(recording.effort, efforts)
    assert (np.diff(efforts, axis=0)[:3] == 0.0).all() and (efforts % 0.25 == 0.0).all()
