# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The page of an arm of one's own: from a rough description and counts to torques in N m."""

import re
import shlex
import shutil

import numpy as np
import pytest
import yaml
from scipy.interpolate import BPoly

pytest.importorskip("rclpy", reason="no ROS: run `make test`")
pytest.importorskip("dyn_ros.msg", reason="the messages are not built: run `make test`")
pytest.importorskip("zstandard", reason="no zstandard: run `make test`")

from sensor_msgs.msg import JointState

import dyn_ros
import peer
from dyn_ros.command import main as cli

from .simulated_driver import SimulatedDriver, launched
from .test_commands import ROOT, commands

PAGE = ROOT / "docs" / "first_robot" / "own_arm.md"
ROUGH = peer.OWN_ROBOTS / "servo_arm.urdf"
GAINS = [0.0048, 0.0050, 0.0047, 0.0048]  # N m for one count of the current
ANGLE, SPEED = 2.0 * np.pi / 4096, 0.229 * np.pi / 30.0  # resolution of servos [rad, rad/s]
LOAD = 0.2  # kg
TRUE = {  # kg, m, kg m2
    "turret": (0.11, [0.0, 0.0, 0.02], 6e-5),
    "upper_arm": (0.19, [0.008, 0.002, 0.08], 4e-4),
    "forearm": (0.16, [0.07, -0.003, 0.002], 3e-4),
    "hand": (0.21, [0.045, 0.004, -0.003], 3e-4),
}


def real():
    """The arm as it is."""
    model = dyn_ros.Model.from_urdf_file(ROUGH)
    model.inertial_parameters = [
        dyn_ros.Inertia(mass, com, inertia * np.eye(3)).dynamic_parameters()
        for mass, com, inertia in TRUE.values()
    ]
    model.friction, model.damping = [0.10, 0.12, 0.09, 0.08], [0.04, 0.05, 0.04, 0.03]
    model.armature = [0.008] * 4
    model.drives = model.drives.with_values(gain=GAINS, load_friction=0.1)
    return model


class Servos(SimulatedDriver):
    """Follow a trajectory; positions and velocities have the resolution of the servos."""

    def __init__(self, true, trajectory):
        super().__init__(true, rate=100.0, jitter=1e-3, noise=1.0, step=1.0)
        rows = [
            (
                each["time_from_start"]["sec"] + 1e-9 * each["time_from_start"]["nanosec"],
                [each[name] for name in ("positions", "velocities", "accelerations")],
            )
            for each in trajectory["points"]
        ]
        self.path = BPoly.from_derivatives(*map(list, zip(*rows)))
        self.start = self.time

    def motion(self, when):
        along = np.clip(when - self.start, 0.0, self.path.x[-1])
        return [self.path(along, order) for order in range(3)]

    def states(self, seconds, forces=None):
        for stamp, q, v, effort in super().states(seconds, forces):
            yield (
                stamp,
                [ANGLE * round(x / ANGLE) for x in q],
                [SPEED * round(x / SPEED) for x in v],
                effort,
            )


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Follow the commands of the page as far as the identified arm."""
    folder = tmp_path_factory.mktemp("arm")
    shutil.copy(ROUGH, folder / "my_robot.urdf")
    loaded = real()
    loaded.set_payload("load", "tool", LOAD, [0.02, 0.0, -0.01], 2e-5 * np.eye(3))
    robots = {"free": real(), "loaded": loaded}
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for command in commands(PAGE):
            if bag := re.fullmatch(r"ros2 bag record -s mcap -o (\w+) /joint_states", command):
                motion = yaml.safe_load((folder / "motion.yaml").read_text())
                Servos(robots.pop(bag[1]), motion).record(folder / bag[1], 60.0)
            elif command.startswith("dyn_ros ") and not command.startswith("dyn_ros view"):
                assert cli.main(shlex.split(command)[1:]) == 0, command
    assert not robots
    return folder


def test_gains_and_masses_are_measured(folder):
    true = real()
    identified = dyn_ros.Model.from_urdf_file(folder / "my_robot_identified.urdf")
    dyn_ros.load_drives(identified, folder / "my_robot_identified.drives.yaml")
    np.testing.assert_allclose(identified.drives.gain, GAINS, rtol=0.03)
    np.testing.assert_allclose(identified.friction, true.friction, rtol=0.05)
    rng = np.random.default_rng(0)
    q = np.array([true.random_configuration(rng) for _ in range(100)])
    gravity, expected = (
        dyn_ros.generalized_gravity(model, dyn_ros.Data(model), q) for model in (identified, true)
    )
    np.testing.assert_allclose(gravity, expected, atol=0.01)
    rough = dyn_ros.Model.from_urdf_file(folder / "my_robot.urdf")
    before = dyn_ros.generalized_gravity(rough, dyn_ros.Data(rough), q)
    assert np.abs(before - expected).max() > 0.3


def test_counts_show_a_load(start, client, folder, monkeypatch):
    monkeypatch.chdir(folder)
    [command] = [each for each in commands(PAGE) if each.startswith("ros2 launch dyn_ros")]
    node = launched(start, command)
    driver = Servos(real(), yaml.safe_load((folder / "motion.yaml").read_text()))
    driver.connect(client, node)
    efforts = client.listen(JointState, node.topic("observer/external_efforts"))
    driver.run(5.0)
    moving = np.array([each.effort for each in efforts[100:]])
    assert np.sqrt(np.mean(moving**2, axis=0)).max() < 0.02
    expected = driver.run(1.0, {"tool": [0.0, 0.0, -9.81 * LOAD]})
    np.testing.assert_allclose(efforts[-1].effort, [*expected.values()], atol=0.1)


def test_a_description_without_masses_is_refused(folder, monkeypatch, capsys):
    monkeypatch.chdir(folder)
    text = re.sub("<inertial>.*?</inertial>", "", ROUGH.read_text(), flags=re.DOTALL)
    (folder / "massless.urdf").write_text(text)
    [command] = [each for each in commands(PAGE) if each.startswith("dyn_ros identify")]
    words = shlex.split(command.replace("my_robot", "massless"))[1:]
    assert cli.main(words) == 2
    assert "no joint moves a mass in the description" in capsys.readouterr().err
    assert "`no joint moves a mass in the description`" in PAGE.read_text()
    command = (ROOT / "dyn_ros" / "command" / "identify.py").read_text()
    assert "the gain is not determined" in command and "`the gain is not" in PAGE.read_text()
