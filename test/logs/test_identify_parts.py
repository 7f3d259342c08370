# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Identification in parts agrees with that in memory."""

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
from dyn_ros.logs.identification import identify_parts, spread_indices
from dyn_ros.logs.run.local_workers import Call, LocalWorkers
from dyn_ros.recordings.tables import columns

OPTIONS = dict(huber=3.0)
SIZE = 2000  # samples of a part


@pytest.fixture(scope="module")
def recording(tmp_path_factory):
    """Two minutes of an arm with other parameters."""
    return two_minutes(tmp_path_factory.mktemp("recording"), perturbed(load_robot("ur10"), seed=1))


@pytest.fixture(scope="module")
def loaded(tmp_path_factory):
    """The same with friction that depends on the load."""
    true = perturbed(load_robot("ur10"), seed=1)
    true.drives = true.drives.with_values(load_friction=[0.0, 0.08, 0.0, 0.0, 0.0, 0.0])
    return two_minutes(tmp_path_factory.mktemp("loaded"), true)


def two_minutes(folder, true):
    motion = waves(np.zeros(6), 1.2, [0.1, 0.2, 0.4, 0.7])

    def longer(time):
        return motion(time)

    longer.time = np.array([0.0, 120.0])
    longer.at = motion
    return saved(folder, record(true, longer))


def saved(folder, recording):
    save(folder, time=recording.time, q=recording.q, tau=recording.tau)
    return folder, recording


@pytest.fixture(scope="module")
def pushed(recording, tmp_path_factory):
    """The same; something pushes the arm for 0.2 s."""
    tau = recording[1].tau.copy()
    tau[20000:20100] += 30.0
    return saved(tmp_path_factory.mktemp("pushed"), dataclasses.replace(recording[1], tau=tau))


@pytest.fixture(scope="module")
def workers():
    found = LocalWorkers(2, retries=0)
    yield found
    found.close()


def parts(folder, model, count):
    return [
        Call(load, (folder, model, start, start + SIZE, 300)) for start in range(0, count, SIZE)
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
    folder, found = request.getfixturevalue(name)
    model, options = load_robot("ur10"), OPTIONS | changes
    progress = []
    result = identify_parts(
        model,
        parts(folder, model, len(found.time)),
        workers,
        cutoff=10.0,
        progress=lambda done, what: progress.append(done),
        options=IdentifyOptions(**options),
    )
    whole = dyn_ros.identify(
        model, Samples.from_arrays(model, found.time, found.q, found.tau, cutoff=10.0), **options
    )
    assert abs(result.size - whole.size) <= 4  # the last one of the filter, by rounding
    deviations = (result.base.estimate - whole.base.estimate) / whole.base.deviation
    assert np.abs(deviations).max() < 0.1
    ratio = result.base.deviation / whole.base.deviation
    assert ratio.min() > 0.7 and ratio.max() < 1.4
    change = result.identified.inertial_parameters - whole.identified.inertial_parameters
    size = np.abs(whole.identified.inertial_parameters).max()
    assert np.abs(change).max() < 1e-2 * size
    for one, other in zip(result.joints, whole.joints):
        assert one.torque == pytest.approx(other.torque, rel=0.2)
        assert one.after == pytest.approx(other.after, rel=0.2)
    assert result.base.excitation == whole.base.excitation
    assert progress == sorted(progress) and progress[-1] == 1.0


def test_parts_have_the_same_terms_of_friction(loaded, workers):
    """The load comes from an estimate of some parts, which differs a little."""
    folder, found = loaded
    model = load_robot("ur10")
    result = identify_parts(
        model,
        parts(folder, model, len(found.time)),
        workers,
        cutoff=10.0,
        progress=lambda done, what: None,
        options=IdentifyOptions(**OPTIONS),
    )
    whole = dyn_ros.identify(
        model, Samples.from_arrays(model, found.time, found.q, found.tau, cutoff=10.0), **OPTIONS
    )
    friction = [each.identified.drives.load_friction for each in (result, whole)]
    assert np.flatnonzero(friction[0]).tolist() == [1]
    np.testing.assert_allclose(*friction, rtol=0.01)
    some = whole.samples.take(slice(None, None, 50))
    difference = np.sqrt(np.mean((result.torque(some) - whole.torque(some)) ** 2, axis=0))
    assert (difference < [0.05 * joint.noise for joint in whole.joints]).all()


def test_parts_have_the_distances_over_which_friction_turns(recording, workers, tmp_path):
    """Parts of 1000 samples are 60; a first estimate has 16 of them."""
    folder, found = saved(tmp_path, with_presliding(recording[1]))
    model, options = load_robot("ur10"), OPTIONS | dict(friction_terms=["friction_distance"])
    calls = [
        Call(load, (folder, model, start, start + 1000, 300))
        for start in range(0, len(found.time), 1000)
    ]
    result = identify_parts(
        model,
        calls,
        workers,
        IdentifyOptions(**options),
        cutoff=10.0,
        progress=lambda done, what: None,
    )
    whole = dyn_ros.identify(
        model, Samples.from_arrays(model, found.time, found.q, found.tau, cutoff=10.0), **options
    )
    distances = [each.identified.drives.friction_distance for each in (result, whole)]
    np.testing.assert_allclose(*distances, rtol=0.005)
    np.testing.assert_allclose(distances[0], 0.01, rtol=0.05)
    deviations = (result.base.estimate - whole.base.estimate) / whole.base.deviation
    assert np.abs(deviations).max() < 0.3
    ratio = result.base.deviation / whole.base.deviation
    assert ratio.min() > 0.7 and ratio.max() < 1.4


def test_the_filter_is_chosen_from_a_few_parts(recording, workers):
    folder, found = recording
    model = load_robot("ur10")
    result = identify_parts(
        model,
        parts(folder, model, len(found.time)),
        workers,
        cutoff=None,
        progress=lambda done, what: None,
        options=IdentifyOptions(**OPTIONS),
    )
    assert 1.0 < result.samples.cutoff <= 20.0


def test_parts_that_are_too_short_are_reported(recording, workers):
    folder, found = recording
    model = load_robot("ur10")
    some = parts(folder, model, len(found.time))
    some.insert(5, Call(load, (folder, model, 100, 110, 0)))  # the last has a single sample
    result = identify_parts(
        model,
        some,
        workers,
        IdentifyOptions(**OPTIONS),
        cutoff=10.0,
        progress=lambda done, what: None,
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
            progress=lambda done, what: None,
            options=IdentifyOptions(**OPTIONS),
        )


def test_parts_are_chosen_evenly():
    assert spread_indices(5, 16) == [0, 1, 2, 3, 4]
    assert spread_indices(101, 3) == [0, 50, 100]
    assert spread_indices(1, 3) == [0]


@pytest.mark.parametrize("options", [{}, {"workers": 1}])
def test_joints_that_no_message_reports_are_locked(tmp_path, options):
    whole = load_robot("panda")
    true = perturbed(whole.reduced({"panda_finger_joint1": 0.0}), seed=2)
    motion = waves((true.lower + true.upper) / 2.0, 1.2, [0.1, 0.2, 0.4, 0.7])
    found = record(true, motion)
    stamps = np.round(1e9 * found.time).astype(int) + 10**9
    path = recorded.write_mcap(
        tmp_path / "arm.mcap",
        (
            Sent(
                "/joint_states",
                stamp,
                JointState(list(true.joint_names), q.tolist(), [], tau.tolist(), stamp),
            )
            for stamp, q, tau in zip(stamps.tolist(), found.q, found.tau)
        ),
    )
    result = dyn_ros.logs.identify(whole, path, motor_constants=np.ones(whole.nv), **options)
    assert result.warnings[0] == "locked: panda_finger_joint1 = 0 (no columns)"
    assert result.model.joint_names == true.joint_names
    for joint in result.joints:
        assert joint.after < 1.05 * joint.noise


@pytest.mark.parametrize("options", [{}, {"workers": 1}])
def test_tables_with_other_columns(tmp_path, options):
    true = load_robot("ur10")
    found, path = record(true, waves(np.zeros(6), 1.2, [0.1, 0.2, 0.4, 0.7])), tmp_path / "t.csv"
    table = {f"x{n}": column for n, column in enumerate(found.table().values())}
    given = dict(zip(found.table(), table))
    columns.write(path, table)
    result = dyn_ros.logs.identify(true, path, columns={str(path): given}, **options)
    assert max(joint.after / joint.noise for joint in result.joints) < 1.05
    columns.write(
        tmp_path / "other.csv",
        {name: column for name, column in found.table().items() if "effort" not in name},
    )
    with pytest.raises(ValueError, match="other.csv: .*effort"):
        dyn_ros.logs.identify(true, tmp_path / "other.csv", **options)
    with pytest.raises(
        ValueError,
        match="columns: expected names by the path of each table, got "
        "'time'; the recordings are .*t.csv",
    ):
        dyn_ros.logs.identify(true, path, columns=given, **options)
