# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Identification in parts, which agrees with identification in memory."""

import dataclasses

import numpy as np
import pytest
from identification.faults import with_presliding
from identification.recordings import perturbed, record, waves
from identification.robots import load as load_robot
from logs import recorded
from logs.part_samples import load, save
from logs.recorded import JointState, Sent

import dyn_ros
from dyn_ros.identification import Samples
from dyn_ros.identification.identify_options import IdentifyOptions
from dyn_ros.logs.identify_recordings import identify_parts, spread_indices
from dyn_ros.logs.run.local_workers import Call, LocalWorkers
from dyn_ros.recordings.tables import columns

OPTIONS = dict(huber=3.0)
PART_LENGTH = 2000  # samples


@pytest.fixture(scope="module")
def recording(tmp_path_factory):
    """Two minutes of an arm with other parameters."""
    return record_two_minutes(
        tmp_path_factory.mktemp("recording"), perturbed(load_robot("ur10"), seed=1)
    )


@pytest.fixture(scope="module")
def loaded(tmp_path_factory):
    """A recording of the arm with friction that depends on the load."""
    true = perturbed(load_robot("ur10"), seed=1)
    true.drives = true.drives.with_values(load_friction=[0.0, 0.08, 0.0, 0.0, 0.0, 0.0])
    return record_two_minutes(tmp_path_factory.mktemp("loaded"), true)


def record_two_minutes(folder, true):
    motion = waves(np.zeros(6), 1.2, [0.1, 0.2, 0.4, 0.7])

    def longer(time):
        return motion(time)

    longer.time = np.array([0.0, 120.0])
    longer.at = motion
    return save_recording(folder, record(true, longer))


def save_recording(folder, recording):
    save(folder, time=recording.time, q=recording.q, tau=recording.tau)
    return folder, recording


@pytest.fixture(scope="module")
def pushed(recording, tmp_path_factory):
    """A recording in which something pushes the arm for 0.2 s."""
    tau = recording[1].tau.copy()
    tau[20000:20100] += 30.0
    return save_recording(
        tmp_path_factory.mktemp("pushed"), dataclasses.replace(recording[1], tau=tau)
    )


@pytest.fixture(scope="module")
def workers():
    local_workers = LocalWorkers(2, retries=0)
    yield local_workers
    local_workers.close()


def part_calls(folder, model, count):
    return [
        Call(load, (folder, model, start, start + PART_LENGTH, 300))
        for start in range(0, count, PART_LENGTH)
    ]


@pytest.mark.parametrize(
    "name, changes",
    [
        ("recording", {}),
        ("recording", dict(huber=None)),
        ("pushed", {}),
        ("pushed", dict(stribeck=0.1, motor_constants=2.0)),
    ],
)
def test_parts_give_what_memory_gives(request, workers, name, changes):
    folder, recording = request.getfixturevalue(name)
    model, options = load_robot("ur10"), OPTIONS | changes
    progress = []
    result = identify_parts(
        model,
        part_calls(folder, model, len(recording.time)),
        workers,
        cutoff=10.0,
        progress=lambda fraction, label: progress.append(fraction),
        notify=pytest.fail,
        options=IdentifyOptions(**options),
    )
    expected = dyn_ros.identify(
        model,
        Samples.from_arrays(model, recording.time, recording.q, recording.tau, cutoff=10.0),
        **options,
    )
    assert (
        abs(result.size - expected.size) <= 4
    )  # rounding decides about samples at the ends of the filter
    deviations = (result.base.estimate - expected.base.estimate) / expected.base.deviation
    assert np.abs(deviations).max() < 0.1
    ratio = result.base.deviation / expected.base.deviation
    assert ratio.min() > 0.7 and ratio.max() < 1.4
    change = result.identified.inertial_parameters - expected.identified.inertial_parameters
    size = np.abs(expected.identified.inertial_parameters).max()
    assert np.abs(change).max() < 1e-2 * size
    for joint, expected_joint in zip(result.joints, expected.joints):
        assert joint.torque == pytest.approx(expected_joint.torque, rel=0.2)
        assert joint.after == pytest.approx(expected_joint.after, rel=0.2)
    assert result.base.excitation == expected.base.excitation
    assert progress == sorted(progress) and progress[-1] == 1.0


def test_parts_have_the_same_terms_of_friction(loaded, workers):
    """The load comes from an estimate of some parts, which differs a little."""
    folder, table = loaded
    model = load_robot("ur10")
    result = identify_parts(
        model,
        part_calls(folder, model, len(table.time)),
        workers,
        cutoff=10.0,
        progress=lambda fraction, label: None,
        notify=pytest.fail,
        options=IdentifyOptions(**OPTIONS),
    )
    expected = dyn_ros.identify(
        model, Samples.from_arrays(model, table.time, table.q, table.tau, cutoff=10.0), **OPTIONS
    )
    friction = [
        identification.identified.drives.load_friction for identification in (result, expected)
    ]
    assert np.flatnonzero(friction[0]).tolist() == [1]
    np.testing.assert_allclose(*friction, rtol=0.01)
    sample = expected.samples.take(slice(None, None, 50))
    difference = np.sqrt(np.mean((result.torque(sample) - expected.torque(sample)) ** 2, axis=0))
    assert (difference < [0.05 * joint.noise for joint in expected.joints]).all()


def test_parts_have_the_distances_over_which_friction_turns(recording, workers, tmp_path):
    """There are 60 parts of 1000 samples, of which the first estimate has 16."""
    folder, table = save_recording(tmp_path, with_presliding(recording[1]))
    model, options = load_robot("ur10"), OPTIONS | dict(friction_terms=["friction_distance"])
    calls = [
        Call(load, (folder, model, start, start + 1000, 300))
        for start in range(0, len(table.time), 1000)
    ]
    result = identify_parts(
        model,
        calls,
        workers,
        IdentifyOptions(**options),
        cutoff=10.0,
        progress=lambda fraction, label: None,
        notify=pytest.fail,
    )
    expected = dyn_ros.identify(
        model, Samples.from_arrays(model, table.time, table.q, table.tau, cutoff=10.0), **options
    )
    distances = [
        identification.identified.drives.friction_distance for identification in (result, expected)
    ]
    np.testing.assert_allclose(*distances, rtol=0.005)
    np.testing.assert_allclose(distances[0], 0.01, rtol=0.05)
    deviations = (result.base.estimate - expected.base.estimate) / expected.base.deviation
    assert np.abs(deviations).max() < 0.3
    ratio = result.base.deviation / expected.base.deviation
    assert ratio.min() > 0.7 and ratio.max() < 1.4


def test_the_filter_is_chosen_from_a_few_parts(recording, workers):
    folder, table = recording
    model = load_robot("ur10")
    result = identify_parts(
        model,
        part_calls(folder, model, len(table.time)),
        workers,
        cutoff=None,
        progress=lambda fraction, label: None,
        notify=pytest.fail,
        options=IdentifyOptions(**OPTIONS),
    )
    assert 1.0 < result.samples.cutoff <= 20.0


def test_parts_that_are_too_short_are_reported(recording, workers):
    folder, table = recording
    model = load_robot("ur10")
    calls = part_calls(folder, model, len(table.time))
    calls.insert(5, Call(load, (folder, model, 100, 110, 0)))  # the last has a single sample
    result = identify_parts(
        model,
        calls,
        workers,
        IdentifyOptions(**OPTIONS),
        cutoff=10.0,
        progress=lambda fraction, label: None,
        notify=pytest.fail,
    )
    assert any("2 of 32 parts of the recordings were not used" in text for text in result.warnings)


def test_no_part_can_be_used(recording, workers):
    folder, _ = recording
    model = load_robot("ur10")
    with pytest.raises(ValueError, match="no part can be used: expected a segment"):
        identify_parts(
            model,
            [Call(load, (folder, model, 100, 110, 0))],
            workers,
            cutoff=10.0,
            progress=lambda fraction, label: None,
            notify=pytest.fail,
            options=IdentifyOptions(**OPTIONS),
        )


def test_parts_are_chosen_evenly():
    assert spread_indices(5, 16) == [0, 1, 2, 3, 4]
    assert spread_indices(101, 3) == [0, 50, 100]
    assert spread_indices(1, 3) == [0]


@pytest.mark.parametrize("options", [{}, {"workers": 1}])
def test_joints_that_no_message_reports_are_locked(tmp_path, options):
    model = load_robot("panda")
    true = perturbed(model.reduced({"panda_finger_joint1": 0.0}), seed=2)
    motion = waves((true.lower + true.upper) / 2.0, 1.2, [0.1, 0.2, 0.4, 0.7])
    recording = record(true, motion)
    stamps = np.round(1e9 * recording.time).astype(int) + 10**9
    path = recorded.write_mcap(
        tmp_path / "arm.mcap",
        (
            Sent(
                "/joint_states",
                stamp,
                JointState(list(true.joint_names), q.tolist(), [], tau.tolist(), stamp),
            )
            for stamp, q, tau in zip(stamps.tolist(), recording.q, recording.tau)
        ),
    )
    result = dyn_ros.logs.identify(model, path, motor_constants=np.ones(model.nv), **options)
    assert result.warnings[0] == "locked: panda_finger_joint1 = 0 (no columns)"
    assert result.model.joint_names == true.joint_names
    for joint in result.joints:
        assert joint.after < 1.05 * joint.noise


@pytest.mark.parametrize("options", [{}, {"workers": 1}])
def test_tables_with_other_columns(tmp_path, options):
    true = load_robot("ur10")
    recording, path = (
        record(true, waves(np.zeros(6), 1.2, [0.1, 0.2, 0.4, 0.7])),
        tmp_path / "t.csv",
    )
    table = {f"x{n}": column for n, column in enumerate(recording.table().values())}
    column_names = dict(zip(recording.table(), table))
    columns.write_columns(path, table)
    result = dyn_ros.logs.identify(true, path, columns={str(path): column_names}, **options)
    assert max(joint.after / joint.noise for joint in result.joints) < 1.05
    columns.write_columns(
        tmp_path / "other.csv",
        {name: column for name, column in recording.table().items() if "effort" not in name},
    )
    with pytest.raises(ValueError, match="other.csv: .*effort"):
        dyn_ros.logs.identify(true, tmp_path / "other.csv", **options)
    with pytest.raises(
        ValueError,
        match="columns: expected names by the path of each table, got "
        "'time'; the recordings are .*t.csv",
    ):
        dyn_ros.logs.identify(true, path, columns=column_names, **options)
