# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Tables and columns in memory become the same recordings as messages."""

import numpy as np
import pytest
from logs import recorded
from logs.recorded import JointState, Sent

import dyn_ros
from dyn_ros.recordings.reading import read, read_table
from dyn_ros.recordings.tables.columns import Columns, write_columns


@pytest.fixture(scope="module")
def arm():
    return dyn_ros.Model.from_urdf_file("dyn_ros/robots/arm7.urdf")


@pytest.fixture(scope="module")
def table(arm):
    time = 0.01 * np.arange(500)
    q = np.sin(time[:, None] * np.arange(1.0, 8.0))
    return {
        "time": time,
        **{f"position.{name}": q[:, k] for k, name in enumerate(arm.joint_names)},
        **{f"effort.{name}": 10.0 * q[:, k] for k, name in enumerate(arm.joint_names)},
    }


def messages(arm, table):
    for k, stamp in enumerate(np.round(1e9 * table["time"]).astype(int) + 10**18):
        q, tau = (
            [table[f"{signal}.{name}"][k] for name in arm.joint_names]
            for signal in ("position", "effort")
        )
        state = JointState(list(arm.joint_names), q, [], tau, int(stamp))
        yield Sent("/joint_states", int(stamp), state)


def test_every_kind_gives_the_same_numbers(arm, table, tmp_path):
    bag = recorded.write_mcap(tmp_path / "a.mcap", messages(arm, table))
    write_columns(tmp_path / "a.csv", table)
    expected = read_table(arm, table)
    for found in (
        read(bag, arm),
        read(tmp_path / "a.csv", arm),
        read_table(arm, tmp_path / "a.csv"),
    ):
        np.testing.assert_array_equal(found.q, expected.q)
        np.testing.assert_array_equal(found.effort, expected.effort)
        assert np.isnan(found.v).all() and found.v.shape == expected.v.shape
        np.testing.assert_array_equal(np.diff(found.stamp), np.diff(expected.stamp))
        assert found.position_names == arm.position_names and found.model is arm
        assert found.warnings == () and found.gaps == ()
    assert expected.path == "" and found.name == "a" and found.path.endswith("a.csv")


def test_samples_of_the_recording_of_a_table(arm, table):
    expected = dyn_ros.Samples.from_table(arm, table, since="+1")
    recording = read_table(arm, table, since="+1")
    before = recording.q.copy()
    samples = dyn_ros.Samples.from_recording(arm, recording)
    for name in ("time", "q", "v", "a", "tau", "weight"):
        np.testing.assert_array_equal(getattr(samples, name), getattr(expected, name))
    np.testing.assert_array_equal(recording.q, before)
    np.testing.assert_array_equal(recording.time, table["time"][100:])


def test_contacts_and_names_of_their_own(arm, table):
    frame = arm.frame_names[-1]
    touching = np.arange(500) > 250
    own = {f"x{k}": column for k, column in enumerate(table.values())}
    given = dict(zip(table, own))
    found = read_table(
        arm, {**own, f"in_contact.{frame}": touching, "position.gripper": own["x0"]}, columns=given
    )
    assert found.contacts == (frame,)
    np.testing.assert_array_equal(found.in_contact[:, 0], touching)
    assert found.warnings == ("ignored joints of the table that the robot does not have: gripper",)
    again = read_table(arm, found.columns())
    np.testing.assert_array_equal(again.q, found.q)
    np.testing.assert_array_equal(again.in_contact, found.in_contact)
    some = found.take(slice(0, 10))
    assert len(some) == len(some.in_contact) == len(some.time) == 10


def test_columns_by_what_they_contain(table):
    names = {"t": table["time"], "__time": table["time"], "q_1": table["position.elbow_pitch"]}
    columns = Columns(names, columns={"time": "t", "position.elbow": "q_1"})
    assert columns.names_by_content == {"time": "t", "position.elbow": "q_1", "__time": "__time"}
    assert columns.clock.names == ("t",) and columns.owners("position") == ["elbow"]
    assert Columns(names).clock.names == ("__time",)
    with pytest.raises(ValueError, match="no column 'time'"):
        _ = Columns({"q": table["time"]}).clock
