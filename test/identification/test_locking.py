# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Joints that are locked since they were not recorded or do not move, such as fingers."""

import numpy as np
import pytest
from identification.recordings import perturbed, record, waves
from identification.robots import description, load

import dyn_ros
from dyn_ros.recordings.tables import columns

FINGER = "panda_finger_joint1"
FINGERS = ("panda_leftfinger", "panda_rightfinger")


@pytest.fixture(scope="module")
def recording():
    """An arm with other parameters, whose fingers are half open."""
    true = perturbed(load("panda").reduced({FINGER: 0.02}), seed=2)
    center = (true.lower + true.upper) / 2.0
    return record(true, waves(center, 1.2, [0.1, 0.2, 0.4, 0.7]))


def links(model):
    return {frame.name: frame.inertia for frame in model.tree.frames if frame.kind == "body"}


def test_samples_of_another_type(recording):
    with pytest.raises(TypeError, match=r"samples: expected dyn_ros\.Samples, got dict"):
        dyn_ros.lock_joints(recording.true, {"panda_joint1": 0.0})


@pytest.mark.parametrize("columns", ["absent", "still"])
def test_the_arm_is_identified_and_its_fingers_remain(recording, columns, tmp_path):
    whole, table = load("panda"), recording.table()
    if columns == "still":
        noise = 1e-5 * np.random.default_rng(0).standard_normal(len(recording.time))
        table |= {f"position.{FINGER}": 0.02 + noise, f"effort.{FINGER}": 1.0 + noise}
    arm, samples = dyn_ros.read_tables(
        whole, [table], lock={FINGER: 0.02} if columns == "absent" else None
    )
    assert arm.joint_names == recording.true.joint_names
    reason = "no columns" if columns == "absent" else "does not move"
    assert f"locked: {FINGER} = 0.02 ({reason})" in samples.warnings
    result = dyn_ros.identify(arm, samples)
    assert all(line.startswith("damping(panda_joint") for line in result.undetermined)
    for joint in result.joints:
        assert joint.after < 1.05 * joint.noise
    old, new = tmp_path / "old.urdf", tmp_path / "new.urdf"
    old.write_text(description("panda"))
    result.write_urdf(old, new)
    written = dyn_ros.Model.from_urdf_file(new)
    expected = written.reduced({FINGER: 0.02}).inertial_parameters
    assert np.allclose(expected, result.identified.inertial_parameters, rtol=0.0, atol=1e-9)
    for name in FINGERS:
        assert links(written)[name] == links(whole)[name]


def test_links_beyond_a_locked_joint_keep_their_inertias_if_the_others_can_carry_the_change():
    whole = load("panda")
    arm = whole.reduced({FINGER: 0.02})
    arm.inertial_parameters = 0.4 * arm.inertial_parameters  # link 7 has less than the hand
    written = dyn_ros.Model.from_urdf(dyn_ros.write_urdf(description("panda"), arm))
    assert np.allclose(
        written.reduced({FINGER: 0.02}).inertial_parameters,
        arm.inertial_parameters,
        rtol=0.0,
        atol=1e-9,
    )
    for name in FINGERS:
        assert links(written)[name] == links(whole)[name]
    assert links(written)["panda_hand"] != links(whole)["panda_hand"]


def test_joints_are_numbered_before_any_is_locked(recording):
    table = {
        "time": recording.time,
        **{f"q{k + 1}": recording.q[:, k] for k in range(7)},
        **{f"tau{k + 1}": recording.tau[:, k] for k in range(7)},
    }
    del table["q2"], table["tau2"]
    arm, samples = dyn_ros.read_tables(
        load("panda"), [table], columns={"position": "q{}", "effort": "tau{}"}
    )
    assert arm.joint_names == tuple(f"panda_joint{k}" for k in (1, 3, 4, 5, 6, 7))
    assert np.array_equal(
        samples.tau, recording.tau[np.isin(recording.time, samples.time)][:, [0, 2, 3, 4, 5, 6]]
    )


def test_a_joint_that_is_given_is_locked_where_it_was(recording):
    still = np.isin(np.arange(7), [6])
    whole, table = recording.true, recording.table()
    samples = dyn_ros.Samples.from_table(whole, table)
    arm, locked = dyn_ros.lock_joints(whole, samples, {"panda_joint7": None})
    assert arm.nv == 6 and np.array_equal(locked.v, samples.v[:, ~still])
    mean = samples.q[:, 6].mean()
    assert f"locked: panda_joint7 = {mean:.4g} (its mean)" in locked.warnings
    low, high = samples.q[:, 6].min(), samples.q[:, 6].max()
    assert locked.warnings[-1].startswith(
        f"panda_joint7: locked at {mean:.4g}, but recorded from "
        f"{low:.4g} to {high:.4g}; the model lacks this motion"
    )
    expected = whole.reduced({"panda_joint7": mean}).inertial_parameters
    assert np.array_equal(arm.inertial_parameters, expected)


@pytest.mark.parametrize(
    "signals, position, line",
    [
        (["effort"], None, "panda_joint7 = {:.4g} (its mean)"),
        (["effort"], 0.5, "panda_joint7 = 0.5 (as given)"),
        (["position"], 0.5, "panda_joint7 = 0.5 (as given)"),
        (["position"], None, "panda_joint7 = 0 (no positions)"),
        (["position", "effort"], None, "panda_joint7 = 0 (no columns)"),
    ],
)
def test_a_joint_that_is_given_needs_no_columns(recording, signals, position, line):
    table = recording.table()
    for signal in signals:
        del table[f"{signal}.panda_joint7"]
    inside = slice(1000, 6000)
    arm, samples = dyn_ros.read_tables(
        recording.true, [table], since="+2", until="+12", lock={"panda_joint7": position}
    )
    assert arm.nv == 6 and samples.q.shape[1] == 6
    mean = recording.q[inside, 6].mean()
    assert f"locked: {line.format(mean)}" in samples.warnings
    assert any("but recorded from" in text for text in samples.warnings) == (
        "position" not in signals
    )
    assert not any("does not have" in text for text in samples.warnings)
    x = float(line.split()[2]) if position is not None or "position" in signals else mean
    assert np.allclose(
        arm.inertial_parameters,
        recording.true.reduced({"panda_joint7": x}).inertial_parameters,
        atol=1e-12,
    )


def test_warnings_about_some_of_several_recordings_name_them(recording, tmp_path, monkeypatch):
    def written(name, **changed):
        columns.write_columns(tmp_path / name, recording.table() | changed)
        return tmp_path / name

    effort = np.zeros(len(recording.time))
    repeated_time = np.round(recording.time, 2)  # five samples with each time stamp
    paths = [
        written(
            f"{k}.csv",
            **({} if k == 0 else {"effort.panda_joint2": effort}),
            **({"time": repeated_time} if k == 1 else {}),
            **{"position.other": effort},
        )
        for k in range(5)
    ]
    _, samples = dyn_ros.read_tables(recording.true, paths)
    ends = {text.partition(" ")[0]: text.rpartition("(")[2] for text in samples.warnings}
    assert ends["ignored"].endswith("does not have: other")
    assert ends["dropped"] == "in 1.csv)" and ends["the"] == "in 1.csv, 2.csv, 3.csv and 1 more)"
    tables = [recording.table(), recording.table() | {"effort.panda_joint2": effort}]
    _, samples = dyn_ros.read_tables(recording.true, tables)
    assert samples.warnings[0].endswith("identify does not use it (in table 2)")
    monkeypatch.chdir(tmp_path)
    result = dyn_ros.logs.identify(recording.true, ["0.csv", "2.csv"], friction_terms=())
    assert [text for text in result.warnings if "identify does not use it (in 2.csv)" in text]


def test_nothing_is_locked_if_all_joints_move(recording):
    samples = dyn_ros.Samples.from_table(recording.true, recording.table())
    assert dyn_ros.lock_joints(recording.true, samples) == (recording.true, samples)


def test_what_cannot_be_locked_is_named(recording):
    whole, table = load("panda"), recording.table()
    with pytest.raises(ValueError, match="no joint 'gripper'.*available: panda_joint1"):
        dyn_ros.read_tables(whole, [table], lock={"gripper": 0.0})
    with pytest.raises(ValueError, match="no joint 'panda_finger_joint2' that moves by itself"):
        dyn_ros.read_tables(whole, [table], lock={"panda_finger_joint2": 0.0})
    with pytest.raises(ValueError, match="no joint remains"):
        dyn_ros.read_tables(whole, [table], lock=dict.fromkeys(recording.true.joint_names))
    with pytest.raises(ValueError, match="lacks 8 columns .*columns="):
        dyn_ros.read_tables(whole, [{"time": recording.time}])
    table["position.panda_joint_7"] = table.pop("position.panda_joint7")
    table["effort.panda_joint_7"] = table.pop("effort.panda_joint7")
    with pytest.raises(ValueError, match="similar: 'position.panda_joint_7'.*lock="):
        dyn_ros.read_tables(whole, [table])
