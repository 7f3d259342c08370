# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Recordings of dynamic_joint_states, whose interfaces state the units of efforts."""

import math

import numpy as np
import pyarrow.parquet as parquet
import pytest
from logs.recorded import (
    START,
    InterfaceState,
    JointState,
    Sent,
    smooth_motion,
    write_bag2,
    write_db3,
    write_mcap,
)

import dyn_ros
from dyn_ros.command.main import main
from dyn_ros.recordings.reading import read

ARM7 = "dyn_ros/robots/arm7.urdf"
IMU = {"imu": {"orientation.x": 0.5}}
COUNT, GAIN = 400, 4.0


@pytest.fixture(scope="module")
def arm():
    return dyn_ros.Model.from_urdf_file(ARM7)


def motion(arm, interface="torque", topics=("joint_states", "dynamic_joint_states")):
    """A motion as joint_state_broadcaster publishes it; joint_states have no effort."""
    time = np.arange(COUNT) / 100.0
    q, v = smooth_motion(time, 7)
    tau = dyn_ros.rnea(arm, dyn_ros.Data(arm), q, v, np.gradient(v, time, axis=0))
    tau = tau / (GAIN if interface == "current" else 1.0)
    for k in range(COUNT):
        stamp = START + k * 10_000_000
        interfaces = ("position", "velocity", interface, "temperature")
        entries = {
            name: dict(zip(interfaces, (q[k, i], v[k, i], tau[k, i], 30.0)))
            for i, name in enumerate(arm.joint_names)
        }
        messages = {
            "joint_states": JointState(arm.joint_names, q[k], v[k], [math.nan] * 7, stamp),
            "dynamic_joint_states": InterfaceState(IMU | entries, stamp),
        }
        for topic in topics:
            yield Sent(f"/{topic}", stamp, messages[topic])


def save_drives(arm, path):
    """Write a drives file of currents."""
    robot = dyn_ros.Model.from_urdf_file(ARM7)
    robot.drives = dyn_ros.Drives.of(7, unit=("A",) * 7, gain=GAIN)
    dyn_ros.save_drives(robot, path)
    return robot, path


@pytest.mark.parametrize(
    "name, write",
    [
        ("a.mcap", write_mcap),
        ("a.mcap", lambda path, sent: write_mcap(path, sent, little=False)),
        ("a", write_db3),
        ("a", lambda path, sent: write_bag2(path, sent, storage="mcap", compression="message")),
    ],
)
def test_bags_give_the_numbers_of_the_interfaces(arm, tmp_path, name, write):
    path = write(tmp_path / name, motion(arm))
    usual = read(path, arm)
    assert usual.part.topics == ("/joint_states",) and np.isnan(usual.effort).all()
    assert usual.effort_interfaces == ()
    found = read(path, arm, topics="/dynamic_joint_states")
    np.testing.assert_array_equal(found.stamp, usual.stamp)
    np.testing.assert_array_equal(found.q, usual.q)
    np.testing.assert_array_equal(found.v, usual.v)
    assert np.isfinite(found.effort).all() and found.warnings == ()
    assert found.effort_interfaces == tuple((joint, "torque") for joint in arm.joint_names)
    without_robot = read(path, topics="/dynamic_joint_states")
    assert without_robot.position_names == arm.joint_names
    np.testing.assert_array_equal(without_robot.effort, found.effort)


def test_dynamic_joint_states_are_read_where_there_are_no_joint_states(arm, tmp_path):
    sent = list(motion(arm, topics=["dynamic_joint_states"]))
    found = read(write_mcap(tmp_path / "a.mcap", sent), arm)
    assert found.part.topics == ("/dynamic_joint_states",) and len(found) == COUNT
    samples = dyn_ros.Samples.from_recording(arm, found)
    assert np.isfinite(samples.tau).all()
    with pytest.raises(
        ValueError,
        match="no readable topic named joint_states of .*, or dynamic_joint_states of .*; it has "
        "/other; pass topics=",
    ):
        read(write_mcap(tmp_path / "b.mcap", [each._replace(topic="/other") for each in sent]))


def test_efforts_that_joint_states_lack_are_found_in_the_other_topic(arm, tmp_path, capsys):
    path = write_mcap(tmp_path / "a.mcap", motion(arm))
    assert main(["payload", ARM7, str(path), "--load-frame", "tool"]) != 0
    assert (
        "the efforts of 'shoulder_yaw' are unknown in all states; pass --topic to read "
        "/dynamic_joint_states instead"
    ) in capsys.readouterr().err
    arguments = ["--robot", ARM7, "--compute", "power", "--out", str(tmp_path / "out")]
    assert main(["log", str(path), *arguments]) == 0
    assert "are unknown; pass --topic to read /dynamic_joint_states instead" in (
        capsys.readouterr().err
    )


@pytest.mark.parametrize(
    "interface, has_drives, words",
    [
        ("torque", True, "in N m, but its drive declares A: remove its unit and gain"),
        ("current", False, "in A, but its drive declares N m: declare unit: A, and gain"),
    ],
)
def test_a_drives_file_that_contradicts_the_interface_is_named(
    arm, tmp_path, capsys, interface, has_drives, words
):
    robot, drives = save_drives(arm, tmp_path / "a.yaml")
    path = write_mcap(tmp_path / "a.mcap", motion(arm, interface, ["dynamic_joint_states"]))
    words = f"joint 'shoulder_yaw': its effort is the interface {interface}, {words}"
    recording = read(path, robot if has_drives else arm)
    with pytest.raises(ValueError, match=words):
        recording.to_samples()
    more = ["--drives", str(drives)] if has_drives else []
    arguments = ["--robot", ARM7, *more, "--out", str(tmp_path / "out")]
    assert main(["log", str(path), *arguments, "--compute", "residual"]) == 1
    assert words in capsys.readouterr().err
    assert main(["log", str(path), *arguments, "--compute", "gravity", "--overwrite"]) == 0
    for command in (
        ["identify", ARM7, str(path), *more],
        ["payload", ARM7, str(path), "--load-frame", "tool", *more],
        ["calibrate", ARM7, str(path), "-o", str(tmp_path / "b.yaml"), *more],
    ):
        assert main(command) != 0
        assert words in capsys.readouterr().err


@pytest.mark.parametrize("interface, unit", [("current", "A"), ("torque", "N m"), ("force", "N")])
def test_the_interface_states_the_unit_of_recorded_efforts(arm, tmp_path, interface, unit):
    path = write_mcap(tmp_path / "a.mcap", motion(arm, interface, ["dynamic_joint_states"]))
    assert main(["log", str(path), "--robot", ARM7, "--out", str(tmp_path / "out")]) == 0
    [part] = (tmp_path / "out").rglob("*.parquet")
    field = parquet.read_schema(part).field("effort.elbow_pitch")
    assert field.metadata[b"unit"].decode() == unit


def test_currents_become_torques_by_the_gains_of_the_drives(arm, tmp_path):
    robot, _ = save_drives(arm, tmp_path / "a.yaml")
    taus = []
    for interface, model in (("current", robot), ("torque", arm)):
        path = tmp_path / f"{interface}.mcap"
        write_mcap(path, motion(arm, interface, ["dynamic_joint_states"]))
        taus.append(read(path, model).to_samples().tau)
    np.testing.assert_allclose(*taus, rtol=1e-12, atol=1e-12)
