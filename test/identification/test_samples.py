# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Samples: filtered recordings against analytic motions, and what is wrong with recordings."""

import copy
import dataclasses
import importlib.util
import subprocess
import sys

import numpy as np
import pytest
from identification.recordings import record_flying
from identification.robots import load

import dyn_ros
import peer
from dyn_ros.identification import Samples
from dyn_ros.identification.equation_sums import add_motion_noise
from dyn_ros.recordings.tables import columns

RATE = 500.0
FREQUENCIES = np.array([0.2, 0.5, 0.8])


@pytest.fixture(scope="module")
def arm():
    return dyn_ros.Model.from_urdf(peer.urdf("ur5"))


def waves(count, time, seed=0):
    """Sums of sines, (B, count), with their derivatives."""
    rng = np.random.default_rng(seed)
    size, phase = rng.uniform(0.2, 0.5, (count, 3)), rng.uniform(0.0, 6.0, (count, 3))
    w = 2.0 * np.pi * FREQUENCIES
    angle = np.asarray(time)[:, None, None] * w + phase
    return (
        (size * np.sin(angle)).sum(-1),
        (size * w * np.cos(angle)).sum(-1),
        -(size * w * w * np.sin(angle)).sum(-1),
    )


def steps(seconds, rate=RATE):
    return np.arange(0.0, seconds, 1.0 / rate)


def worst(actual, expected):
    """Largest error of each column, relative to its largest number."""
    return (np.abs(actual - expected).max(0) / np.abs(expected).max(0)).max()


def typical(actual, expected):
    """RMS error of each column, relative to its RMS."""
    return np.sqrt(((actual - expected) ** 2).mean(0) / (expected**2).mean(0)).max()


@pytest.mark.parametrize("bits, v_error, a_error", [(17, 1e-4, 6e-4), (20, 7e-5, 4e-4)])
def test_quantized_positions(arm, bits, v_error, a_error):
    time = steps(30.0)
    q, v, a = waves(arm.nv, time)
    count = 2.0 * np.pi / 2**bits
    tau = np.random.default_rng(0).standard_normal(v.shape)
    samples = Samples.from_arrays(arm, time, np.round(q / count) * count, tau)
    rows = np.searchsorted(time, samples.time)
    assert np.array_equal(samples.tau, tau[rows])
    assert typical(samples.v, v[rows]) < v_error
    assert typical(samples.a, a[rows]) < a_error
    assert worst(samples.a, a[rows]) < 4e-3
    assert np.abs(samples.q - q[rows]).max() < 1e-4
    assert samples.warnings == () and samples.weight.min() == 1.0
    assert "order 4" in samples.filter and "chosen from their spectra" in samples.filter


def test_noise_of_the_encoder_lowers_the_cutoff(arm):
    time = steps(30.0)
    q = waves(arm.nv, time)[0]
    rng = np.random.default_rng(1)
    cutoffs = [
        float(
            Samples.from_arrays(arm, time, q + noise * rng.standard_normal(q.shape), q)
            .filter.split("cutoff ")[1]
            .split()[0]
        )
        for noise in (1e-7, 1e-5, 1e-3)
    ]
    assert cutoffs == sorted(cutoffs, reverse=True)
    assert cutoffs[2] > 2.0 * FREQUENCIES[-1]


def test_exact_positions(arm):
    time = steps(20.0)
    q, v, a = waves(arm.nv, time)
    samples = Samples.from_arrays(arm, time, q, v, cutoff=50.0)
    rows = np.searchsorted(time, samples.time)
    assert worst(samples.v, v[rows]) < 1e-4
    assert worst(samples.a, a[rows]) < 3e-3
    middle = slice(1000, -1000)
    assert worst(samples.a[middle], a[rows][middle]) < 1e-7


@pytest.mark.parametrize("root_joint", ["floating", "planar"])
@pytest.mark.parametrize("robot", ["solo12", "ball_joints"])
def test_joints_with_several_coordinates(robot, root_joint):
    """The motion is one of exponential coordinates; engine and filter agree on its rates."""
    if robot == "ball_joints":
        model = peer.new_pair(robot, root_joint).model
    else:
        model = dyn_ros.Model.from_urdf(peer.urdf(robot), root_joint=root_joint)
    time = steps(12.0)

    def moved(t):
        return model.integrate(np.tile(model.neutral(), (len(t), 1)), waves(model.nv, t)[0])

    h = 1e-3
    near = {k: moved(time + k * h) for k in (-2, -1, 0, 1, 2)}

    def velocity(k):
        return model.difference(near[k - 1], near[k + 1]) / (2.0 * h)

    v, a = velocity(0), (velocity(1) - velocity(-1)) / (2.0 * h)
    q = near[0].copy()
    for k in model._unit_quaternions:
        q[::7, k : k + 4] *= -1.0
    samples = Samples.from_arrays(model, time, q, np.zeros_like(v))
    rows = np.searchsorted(time, samples.time)
    middle = slice(1000, -1000)
    assert worst(samples.v[middle], v[rows][middle]) < 1e-4
    assert worst(samples.a[middle], a[rows][middle]) < 3e-4
    assert np.abs(model.difference(samples.q[middle], near[0][rows][middle])).max() < 1e-6
    assert model.is_normalized(samples.q).all()


def test_continuous_joints_are_unwrapped():
    model = dyn_ros.Model.from_urdf(peer.urdf("kinova"))
    turning = [k for k, joint in enumerate(model.tree.joints) if joint.kind == "continuous"]
    assert turning
    time = steps(20.0)
    q, v, _ = waves(model.nv, time)
    q[:, turning] += 2.0 * time[:, None]
    v[:, turning] += 2.0
    wrapped = q.copy()
    wrapped[:, turning] = np.remainder(q[:, turning] + np.pi, 2.0 * np.pi) - np.pi
    samples = Samples.from_arrays(model, time, wrapped, np.zeros_like(v))
    rows = np.searchsorted(time, samples.time)
    assert worst(samples.v, v[rows]) < 1e-3


def test_jitter(arm):
    """The motion is evaluated at the stamps; torques remain as they are."""
    time = steps(20.0) + np.random.default_rng(0).uniform(-6e-4, 6e-4, 10000)
    q, v, a = waves(arm.nv, time)
    tau = np.random.default_rng(0).standard_normal(v.shape)
    samples = Samples.from_arrays(arm, time, q, tau)
    rows = np.searchsorted(time, samples.time)
    assert np.array_equal(samples.tau, tau[rows])
    assert typical(samples.v, v[rows]) < 1e-4
    assert typical(samples.a, a[rows]) < 1e-3


def test_stamps_of_the_epoch(arm):
    time = steps(20.0)
    q, v, a = waves(arm.nv, time)
    samples = Samples.from_arrays(arm, time + 1.75e9, q, v)
    expected = Samples.from_arrays(arm, time, q, v)
    assert len(samples) == len(expected)
    assert np.abs(samples.a - expected.a).max() < 1e-3 * np.abs(a).max()


@pytest.mark.parametrize("unit", [1e9, 1e-6])
def test_stamps_in_other_units(arm, unit):
    time = steps(20.0)
    q, v, _ = waves(arm.nv, time)
    with pytest.raises(ValueError, match="time: expected stamps in s, got a sampling period of"):
        Samples.from_arrays(arm, unit * time, q, v)


def test_gaps_resets_and_repeats(arm):
    time = steps(40.0)
    q, v, a = waves(arm.nv, time)
    time[10000:] += 0.5  # a gap
    time[15000:] -= 20.0  # a reset
    rows = np.r_[:4000, 3999, 4000 : len(time)]  # a repeated message
    samples = Samples.from_arrays(
        arm,
        time[rows],
        q[rows],
        v[rows],
        in_contact=np.ones((len(rows), 1)),
        contacts=["tool0"],
        f_ext=np.tile(rows[:, None, None], (1, arm.njoints, 6)),
    )
    assert np.array_equal(np.unique(samples.segment), [0, 1, 2])
    assert len(samples.warnings) == 3
    assert "dropped 1 samples that repeat" in samples.warnings[0] and "7.998" in samples.warnings[0]
    assert "1 gaps" in samples.warnings[1] and "1 jumps back" in samples.warnings[2]
    rows = samples.f_ext[:, 0, 0].astype(int)
    assert np.array_equal(samples.time, time[rows])
    assert np.array_equal(samples.tau, v[rows])
    assert typical(samples.v, v[rows]) < 1e-4
    assert typical(samples.a, a[rows]) < 1e-3
    assert samples.in_contact.all() and samples.in_contact.shape == (len(samples), 1)


def test_short_segments_are_dropped(arm):
    time = steps(20.0)
    q, v, _ = waves(arm.nv, time)
    time[9900:] += 1.0
    samples = Samples.from_arrays(arm, time, q, v, cutoff=10.0)
    assert set(samples.segment) == {0}
    assert "dropped 1 segments of fewer than" in samples.warnings[1]
    with pytest.raises(ValueError, match=r"longest segment has 50 samples \(0.1 s\).*10 Hz needs"):
        Samples.from_arrays(arm, time[:50], q[:50], v[:50], cutoff=10.0)


def test_lost_samples(arm):
    time = steps(20.0)
    time = time[np.random.default_rng(0).random(len(time)) > 0.3]
    q, v, _ = waves(6, time)
    samples = Samples.from_arrays(arm, time, q, 0.0 * q)
    assert "gaps" in samples.warnings[0]
    expected = v[np.searchsorted(time, samples.time)]
    assert worst(samples.v, expected) < 0.05


def test_stationary_stretches_weigh_little(arm):
    time = steps(30.0)
    moving = np.clip(np.minimum(time - 10.0, 20.0 - time), 0.0, 1.0)[:, None]
    q = waves(arm.nv, time)[0] * moving**3
    q = np.round(q * 2**20) / 2**20
    samples = Samples.from_arrays(arm, time, q, q, cutoff=10.0)
    first = samples.time < 9.5
    assert 0.0 < samples.weight[first].max() < 0.01
    assert 5.0 < samples.weight[samples.time < 9.9].sum() <= 10.0 + 1e-9
    assert samples.weight[(samples.time > 10.7) & (samples.time < 19.3)].min() > 0.5


def test_each_pose_at_rest_counts(arm):
    poses = np.random.default_rng(0).uniform(-1.0, 1.0, (30, 6))
    still = np.zeros((30, 6))
    single = Samples.from_arrays(arm, np.arange(30.0), poses, still, still, still)
    assert single.weight.min() == 1.0
    repeated = Samples.from_arrays(
        arm, np.arange(600.0), np.repeat(poses, 20, axis=0), *[np.zeros((600, 6))] * 3
    )
    assert repeated.weight.tolist() == [0.5] * 600


def test_positions_that_are_published_more_often_than_measured(arm):
    """The images of the steps at 100 Hz do not count as motion."""
    time = steps(30.0)
    q, v, _ = waves(arm.nv, np.floor(time * 100.0 + 1e-6) / 100.0 - 0.004 + 0.5 / 500.0)
    samples = Samples.from_arrays(arm, time, q, v)
    assert samples.warnings == (
        "80 % of the samples in motion repeat the positions of the sample before, because "
        "they are published more often than measured; record each measurement once",
    )
    assert typical(samples.a, waves(arm.nv, samples.time)[2]) < 0.1


def test_a_vibration_is_filtered(arm):
    time = steps(30.0)
    q, v, a = waves(arm.nv, time)
    shaken = q + 1e-5 * np.sin(2.0 * np.pi * 90.0 * time)[:, None]
    shaken += 1e-6 * np.random.default_rng(0).standard_normal(q.shape)
    samples = Samples.from_arrays(arm, time, shaken, v)
    rows = np.searchsorted(time, samples.time)
    assert typical(samples.a, a[rows]) < 1e-3


def test_fast_motions_need_more_samples(arm):
    time = steps(30.0, 8.0)
    (words,) = Samples.from_arrays(arm, time, *waves(arm.nv, time)[:2]).warnings
    assert "too many for 8 samples per second; record more" in words


def test_nothing_moves(arm):
    time = steps(10.0)
    still = np.tile(np.linspace(-1.0, 1.0, 6), (len(time), 1))
    for noise in (0.0, 1e-5):
        rng = np.random.default_rng(0)
        samples = Samples.from_arrays(
            arm, time, still + noise * rng.standard_normal(still.shape), still
        )
        assert not samples.warnings
        assert np.abs(samples.a).max() < 0.05
        assert samples.weight.sum() == pytest.approx(10.0)


def test_saturated_torques_are_reported(arm):
    time = steps(20.0)
    q, v, _ = waves(arm.nv, time)
    tau = 0.1 * v
    tau[100:150, 1] = -arm.effort_limit[1]
    tau[5000:5050, 1] = -arm.effort_limit[1]
    tau[2000, 1] = 1.2 * arm.effort_limit[1]  # an outlier
    [limit] = Samples.from_arrays(arm, time, q, tau).warnings
    assert arm.joint_names[1] in limit and "at its limit of 150 in" in limit


def test_efforts_in_another_unit_are_not_saturated(arm):
    time = steps(20.0)
    q, v, _ = waves(arm.nv, time)
    assert not Samples.from_arrays(arm, time, q, 1000.0 * arm.effort_limit * v).warnings
    slightly = 1.2 * arm.effort_limit / np.abs(v).max(axis=0)  # efforts pass through the limit
    assert not Samples.from_arrays(arm, time, q, slightly * v).warnings


def test_given_velocities(arm):
    time = steps(20.0)
    q, v, a = waves(arm.nv, time)
    unfiltered = Samples.from_arrays(arm, time, q, v, v, a)
    assert len(unfiltered) == len(time)
    assert np.array_equal(unfiltered.v, v) and np.array_equal(unfiltered.a, a)
    assert unfiltered.filter.startswith("Not filtered")
    noisy = v + 1e-4 * np.random.default_rng(0).standard_normal(v.shape)
    derived = Samples.from_arrays(arm, time, q, v, noisy)
    rows = np.searchsorted(time, derived.time)
    assert typical(derived.v, v[rows]) < 1e-4
    assert typical(derived.a, a[rows]) < 1e-3


def test_arguments_do_not_change(arm):
    time = steps(10.0)
    q, v, _ = waves(arm.nv, time)
    before = q.copy(), v.copy()
    Samples.from_arrays(arm, time, q, v)
    assert np.array_equal(q, before[0]) and np.array_equal(v, before[1])


@pytest.mark.parametrize(
    "change, words",
    [
        (dict(q=np.zeros((100, 5))), r"q: expected shape \(6,\), or \(B, 6\)"),
        (dict(q=np.zeros(6)), r"q: expected shape \(B, 6\), a row for each sample"),
        (
            dict(tau=np.zeros((99, 6))),
            "tau: expected a row for each of the 100 time stamps, got 99",
        ),
        (dict(time=np.zeros(100)), "time: all samples have the same"),
        (dict(time=np.zeros((100, 1))), r"time: expected the stamps .* got shape \(100, 1\)"),
        (dict(time=np.full(100, np.inf)), r"time: expected finite numbers, got inf in time\[0\]"),
        (dict(time=np.full(100, np.nan)), "the recording has no row .* 'time' in 100"),
        (dict(cutoff=-1.0), "cutoff: expected more than 0 and at most 200 Hz"),
        (dict(cutoff=201.0), "cutoff: expected more than 0 and at most 200 Hz"),
        (dict(contacts=["tip"]), "contacts: no frame named 'tip'; available: "),
        (dict(contacts="tip"), "contacts: expected a sequence of names"),
        (
            dict(contacts=["tool0"], in_contact=np.zeros((100, 2))),
            r"in_contact: expected shape \(B, 1",
        ),
        (
            dict(contacts=["tool0"], in_contact=np.full((100, 1), 0.5)),
            "in_contact: expected True and",
        ),
        (dict(v=np.zeros((100, 6)), a=np.zeros((100, 6)), cutoff=5.0), "cutoff: expected None"),
    ],
)
def test_invalid_arguments(arm, change, words):
    arguments = dict(time=steps(0.2), q=np.zeros((100, 6)), tau=np.zeros((100, 6)))
    with pytest.raises(ValueError, match=words):
        Samples.from_arrays(arm, **(arguments | change))


@pytest.mark.parametrize("name", ["q", "tau", "v"])
@pytest.mark.parametrize("value", [-np.inf, np.inf])
def test_numbers_that_are_infinite_are_located(arm, name, value):
    time = steps(20.0)
    q, v, _ = waves(arm.nv, time)
    arrays = dict(q=q, tau=v.copy(), v=v.copy())
    arrays[name][7000, 3] = value
    with pytest.raises(ValueError) as error:
        Samples.from_arrays(arm, time, **arrays)
    assert f"{name}: expected finite numbers, got {value} in {name}[7000, 3]" in str(error.value)
    assert arm.joint_names[3] in str(error.value) and "at time 14.000000 s" in str(error.value)


def test_a_quaternion_that_is_not_unit_is_located():
    model = load("solo12", "floating")
    q = np.tile(model.neutral(), (80000, 1))
    q[70000, 3:7] = 0.0, 0.0, 0.0, 0.5
    with pytest.raises(ValueError, match=r"unit quaternion .* in q\[70000, 3:7\] .*length 0.5"):
        Samples.from_arrays(model, steps(160.0), q, np.zeros((80000, model.nv)))


def test_take(arm):
    time = steps(20.0)
    q, v, _ = waves(arm.nv, time)
    samples = Samples.from_arrays(arm, time, q, v)
    assert np.shares_memory(samples.take(slice(10, 20)).q, samples.q)
    assert np.array_equal(samples.take([3, 5]).time, samples.time[[3, 5]])
    assert samples.take([3]).motion_noise is samples.motion_noise


def test_noise_of_the_motion():
    model = load("solo12", "floating")
    recording = record_flying(model, flights=8, seconds=3.0)
    samples = recording.samples(cutoff=15.0)
    rows = np.searchsorted(recording.time, samples.time)
    for sigma, error in zip(
        samples.motion_noise,
        (
            model.difference(recording.exact_q[rows], samples.q),
            samples.v - recording.exact_v[rows],
            samples.a - recording.exact_a[rows],
        ),
    ):
        assert np.allclose(np.std(error, axis=0)[:6], sigma[:6], rtol=0.3)
    plus, minus = add_motion_noise(model, samples, samples.motion_noise)
    change = np.stack([model.difference(minus.q, plus.q), plus.v - minus.v, plus.a - minus.a]) / 2.0
    assert np.allclose(change.std(axis=1), samples.motion_noise, rtol=0.05)
    product = (change[0] * change[2]).mean(axis=0)
    assert np.allclose(product, -(samples.motion_noise[1] ** 2), rtol=0.1)
    joined = Samples.concatenate(
        [samples, dataclasses.replace(samples.take(slice(1000)), motion_noise=None)]
    )
    share = len(samples) / len(joined)
    assert np.allclose(joined.motion_noise, np.sqrt(share) * samples.motion_noise)


def test_noise_of_measured_velocities(arm):
    time = steps(30.0)
    q, v, a = waves(arm.nv, time)
    noise = 1e-3 * np.random.default_rng(0).standard_normal(v.shape)
    samples = Samples.from_arrays(arm, time, q, np.zeros_like(v), v + noise)
    rows = np.searchsorted(time, samples.time)
    assert not samples.motion_noise[0].any()
    assert np.allclose(samples.motion_noise[1], (samples.v - v[rows]).std(axis=0), rtol=0.3)
    assert np.allclose(samples.motion_noise[2], (samples.a - a[rows]).std(axis=0), rtol=0.3)
    unfiltered = Samples.from_arrays(arm, time, q, np.zeros_like(v), v, a)
    assert not unfiltered.motion_noise.any()


# --- tables


def table(model, time, q, tau):
    return (
        {"time": time}
        | {f"position.{name}": q[:, k] for k, name in enumerate(model.position_names)}
        | {f"effort.{name}": tau[:, k] for k, name in enumerate(model.velocity_names)}
    )


SUFFIXES = [
    ".csv",
    pytest.param(
        ".parquet",
        marks=pytest.mark.skipif(not importlib.util.find_spec("pyarrow"), reason="no pyarrow"),
    ),
]


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_tables_of_a_floating_robot(tmp_path, suffix):
    model = dyn_ros.Model.from_urdf(peer.urdf("solo12"), root_joint="floating")
    time = steps(10.0)
    wave = waves(model.nv, time)[0]
    q = model.integrate(np.tile(model.neutral(), (len(time), 1)), wave)
    feet = ["FL_FOOT", "HR_FOOT"]
    samples = Samples.from_arrays(model, time, q, wave, contacts=feet, in_contact=wave[:, :2] > 0.0)
    samples.to_table(model, tmp_path / f"recording{suffix}")
    again = Samples.from_table(model, tmp_path / f"recording{suffix}", cutoff=50.0)
    expected = Samples.from_arrays(model, samples.time, samples.q, samples.tau, cutoff=50.0)
    for name in ("time", "q", "v", "a", "tau", "weight"):
        assert np.array_equal(getattr(again, name), getattr(expected, name)), name
    rows = np.searchsorted(samples.time, again.time)
    assert again.contacts == tuple(feet)
    assert np.array_equal(again.in_contact, samples.in_contact[rows])
    velocity = Samples.from_table(
        model, tmp_path / f"recording{suffix}", cutoff=50.0, velocity=True
    )
    assert worst(velocity.v, again.v) < 1e-2


def test_names_of_plotjuggler_and_ignored_joints(arm):
    time = steps(10.0)
    q, v, _ = waves(arm.nv, time)
    columns = {"__time": time, "/joint_states/gripper/position": time}
    for k, name in enumerate(arm.joint_names):
        columns |= {
            f"/joint_states/{name}/position": q[:, k],
            f"/joint_states/{name}/effort": v[:, k],
        }
    samples = Samples.from_table(arm, columns)
    assert np.array_equal(samples.q, Samples.from_arrays(arm, time, q, v).q)
    assert samples.warnings == (
        "ignored joints of the table that the robot does not have: gripper",
    )


def test_mimic_joints_need_no_columns_and_a_floating_base_no_efforts():
    model = dyn_ros.Model.from_urdf(peer.urdf("panda"), root_joint="floating")
    time = steps(10.0)
    wave = waves(model.nv, time)[0]
    q = model.integrate(np.tile(model.neutral(), (len(time), 1)), wave)
    columns = {
        name: column
        for name, column in table(model, time, q, wave).items()
        if not name.startswith("effort.root_joint")
    }
    samples = Samples.from_table(model, columns)
    assert not samples.tau[:, :6].any() and samples.tau[:, 6:].any()
    assert "panda_finger_joint2" in model.joint_names
    assert not any("finger_joint2" in name for name in columns)


def test_missing_columns_are_named(arm):
    time = steps(1.0)
    columns = table(arm, time, *waves(arm.nv, time)[:2])
    columns["position.elbow"] = columns.pop("position.elbow_joint")
    with pytest.raises(ValueError) as error:
        Samples.from_table(arm, columns)
    text = str(error.value)
    assert text.startswith(
        "the table lacks 1 columns of the robot: 'position.elbow_joint' (similar: 'position.elbow'"
    )
    assert "'effort.wrist_3_joint'" in text
    with pytest.raises(ValueError) as error:  # other signals are not what is looked for
        Samples.from_table(
            arm,
            {name: column for name, column in columns.items() if not name.startswith("effort")}
            | {"position.elbow_joint": time},
        )
    assert "'effort.wrist_1_joint', 2 more; its columns" in str(error.value)
    with pytest.raises(ValueError, match="no column 'time' or '__time'"):
        Samples.from_table(
            arm,
            {
                name: column
                for name, column in table(arm, time, *waves(arm.nv, time)[:2]).items()
                if name != "time"
            },
        )
    with pytest.raises(ValueError, match=r"column 'effort.elbow_joint': expected shape \(500,\)"):
        Samples.from_table(
            arm, table(arm, time, *waves(arm.nv, time)[:2]) | {"effort.elbow_joint": time[:5]}
        )
    with pytest.raises(ValueError, match="column 'effort.elbow_joint': expected numbers, got <U"):
        Samples.from_table(
            arm,
            table(arm, time, *waves(arm.nv, time)[:2])
            | {"effort.elbow_joint": np.array(["x"] * 500)},
        )
    with pytest.raises(ValueError, match="several columns contain the position of 'elbow_joint'"):
        Samples.from_table(
            arm,
            {
                name.replace("position.elbow_joint", "a/elbow_joint/position"): column
                for name, column in table(arm, time, *waves(arm.nv, time)[:2]).items()
            }
            | {"b/elbow_joint/position": time},
        )


def test_empty_lines_and_quotes_of_a_csv_file(arm, tmp_path, recwarn):
    time = steps(5.0)
    q, _, _ = waves(6, time)
    names = [f"{signal}.{name}" for signal in ("position", "effort") for name in arm.velocity_names]
    rows = [["time", *names], *np.column_stack([time, q, q]).tolist()]
    path = tmp_path / "recording.csv"
    path.write_text("\n\n".join(",".join(f'"{value}"' for value in row) for row in rows))
    samples = Samples.from_table(arm, path)
    np.testing.assert_array_equal(samples.q, Samples.from_arrays(arm, time, q, q).q)
    assert not recwarn.list


@pytest.mark.parametrize(
    "content, words",
    [
        (b"time;position.elbow\n0;1\n", "separated by commas.*got ';'"),
        (b"time\tposition.elbow\n0\t1\n", "separated by commas"),
        ("time,position.elbow\n0,1\n".encode("utf-16"), "in UTF-8"),
        (b"time,effort.elbow,effort.elbow\n0,1,2\n", "several columns of the name 'effort.elbow'"),
    ],
)
def test_tables_of_other_formats(arm, tmp_path, content, words):
    path = tmp_path / "recording.csv"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=words):
        Samples.from_table(arm, path)


def test_files_that_cannot_be_read(arm, tmp_path):
    with pytest.raises(ValueError, match=r"expected a file that ends with .csv or .parquet"):
        Samples.from_table(arm, tmp_path / "recording.mat")
    with pytest.raises(FileNotFoundError):
        Samples.from_table(arm, tmp_path / "recording.csv")
    time = steps(1.0)
    q, v, a = waves(arm.nv, time)
    samples = Samples.from_arrays(arm, time, q, v, v, a)
    samples.to_table(arm, tmp_path / "recording.csv")
    lines = (tmp_path / "recording.csv").read_text().splitlines()
    lines[100] = lines[100].replace(lines[100].split(",")[1], "idle", 1)
    (tmp_path / "recording.csv").write_text("\n".join(lines))
    with pytest.raises(
        ValueError,
        match=r"recording.csv'.*numbers in the column 'position.*got 'idle' in row 99 of data",
    ):
        Samples.from_table(arm, tmp_path / "recording.csv")


def test_parquet_without_pyarrow(arm, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ImportError, match=r"require pyarrow: pip install .dyn_ros\[logs\]."):
        Samples.from_table(arm, tmp_path / "recording.parquet")


def test_csv_without_pyarrow(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    table = {"time": np.arange(50.0), "position.elbow": np.sin(np.arange(50.0))}
    columns.write_columns(tmp_path / "recording.csv", table)
    source = columns.Columns(tmp_path / "recording.csv")
    (position,), time, _ = source.read_with_time(source.find_columns("position", ["elbow"]))
    np.testing.assert_array_equal(position[:, 0], table["position.elbow"])
    np.testing.assert_array_equal(time, table["time"])


MEMORY = """
import re, sys
import numpy as np
import dyn_ros
from dyn_ros.identification import Samples
from dyn_ros.identification.equation_sums import add_motion_noise
model = dyn_ros.Model.from_urdf_file("dyn_ros/robots/arm7.urdf")
samples = Samples.from_table(model, sys.argv[1])
if sys.argv[1].endswith(".parquet"):  # samples are the same from either
    dyn_ros.identify(model, samples)
status = open("/proc/self/status").read()
print(len(samples), re.search(r"VmHWM:\\s+(\\d+)", status)[1])
"""


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_memory_of_a_million_samples(tmp_path, suffix):
    model = dyn_ros.Model.from_urdf_file("dyn_ros/robots/arm7.urdf")
    time = steps(2000.0)
    q = waves(7, time[:50000])[0].astype(np.float32)
    tau = 10.0 * q + np.random.default_rng(0).standard_normal(q.shape)
    wave = {
        f"{signal}.{name}": np.tile(values[:, k], 20)
        for k, name in enumerate(model.joint_names)
        for signal, values in (("position", q), ("effort", tau))
    }
    columns.write_columns(tmp_path / f"long{suffix}", {"time": time} | wave)
    result = subprocess.run(
        [sys.executable, "-c", MEMORY, tmp_path / f"long{suffix}"],
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    count, kilobytes = map(int, result.stdout.split())
    assert count > 990_000
    assert kilobytes < 500_000


@pytest.mark.parametrize(
    "call, argument",
    [
        (lambda model, samples: Samples.from_recording(model, [1, 2]), "recording: expected a Rec"),
        (lambda model, samples: dyn_ros.base_parameters(3), "model: expected a dyn_ros.Model"),
        (lambda model, samples: dyn_ros.identify(3, samples), "model: expected a dyn_ros.Model"),
        (lambda model, samples: dyn_ros.identify_payload(3, samples, 1), "model: expected a dyn"),
        (lambda model, samples: dyn_ros.identify_payload(model, 3, 1), "samples: expected Samples"),
        (
            lambda model, samples: dyn_ros.excite(model, workspace="tool"),
            "workspace: expected a dict",
        ),
        (lambda model, samples: Samples.from_table(model, 3), "table: expected"),
    ],
)
def test_an_argument_of_another_kind_is_named(arm, call, argument):
    time = 0.01 * np.arange(200)
    q = 0.3 * np.sin(time[:, None] * np.arange(1, arm.nv + 1))
    samples = Samples.from_arrays(arm, time, q, np.zeros_like(q))
    with pytest.raises(TypeError, match=argument):
        call(arm, samples)


@pytest.mark.parametrize(
    "table, kind, message",
    [
        (
            {"time": 5.0},
            ValueError,
            r"column 'time': expected shape \(B,\) as the first column, got",
        ),
        ({1: [0.0, 1.0]}, TypeError, "table: expected names of columns, got int: 1"),
    ],
)
def test_columns_that_are_none_are_rejected(arm, table, kind, message):
    with pytest.raises(kind, match=message):
        Samples.from_table(arm, table)


def with_names(columns, names):
    """The table with other names of its columns."""
    return dict(zip(names, columns.values(), strict=True))


@pytest.mark.parametrize(
    "given, names",
    [
        (
            {"time": "t", "position": "q_{}", "effort": "tau_J_{}"},
            ["t", *(f"q_{k}" for k in range(1, 7)), *(f"tau_J_{k}" for k in range(1, 7))],
        ),
        (
            {"time": "t", "position": "q{}", "effort": "i{}"},
            ["t", *(f"q{k}" for k in range(6)), *(f"i{k}" for k in range(6))],
        ),
        (
            {"time": "1", "position": "2-7", "effort": "8-12,last"},
            [*(f"column {k}" for k in range(12)), "last"],
        ),
        ({"position": "{} angle", "effort.elbow_joint": "torque"}, None),
    ],
)
def test_columns_with_other_names(arm, given, names):
    time = steps(2.0)
    columns = table(arm, time, *waves(arm.nv, time)[:2])
    if names is None:
        names = [
            name.removeprefix("position.") + " angle"
            if name.startswith("position")
            else "torque"
            if name == "effort.elbow_joint"
            else name
            for name in columns
        ]
    samples = Samples.from_table(arm, with_names(columns, names), columns=given)
    expected = Samples.from_table(arm, columns)
    assert np.array_equal(samples.q, expected.q) and np.array_equal(samples.tau, expected.tau)
    assert samples.warnings == expected.warnings


def test_a_table_without_names(arm, tmp_path):
    time = steps(2.0)
    columns, path = table(arm, time, *waves(arm.nv, time)[:2]), tmp_path / "table.csv"
    np.savetxt(path, np.column_stack([*columns.values()]), "%.17g", ",")
    with pytest.raises(
        ValueError, match="the first line has numbers .* with columns=, such as time=1 position"
    ):
        Samples.from_table(arm, path)
    samples = Samples.from_table(
        arm, path, columns={"time": "1", "position": "2-7", "effort": "8-13"}
    )
    assert np.array_equal(samples.q, Samples.from_table(arm, columns).q)


@pytest.mark.parametrize(
    "given, words",
    [
        ({"positions": "q_{}"}, "no signal 'positions'; expected one of time, position"),
        ({"position": "p_{}"}, "position: the table has no column 'p_1' .similar: 'q_1'"),
        ({"position": "q_1,q_x"}, "position: the table has no column 'q_x'"),
        ({"position": "2-14"}, "position=2-14: the table has the columns 1 to 13"),
        ({"position": "2-8"}, "position=2-8 are 7 columns; expected at most 6"),
        (
            {"time": "t", "position": "q_{}"},
            "lacks 6 columns of the robot: 'effort.shoulder_pan_joint",
        ),
        ({"position": "q_{}"}, "no column 'time' or '__time', in s.*columns="),
    ],
)
def test_columns_that_are_not_there_are_named(arm, given, words):
    time = steps(2.0)
    names = ["t", *(f"q_{k}" for k in range(1, 7)), *(f"tau_{k}" for k in range(1, 7))]
    columns = with_names(table(arm, time, *waves(arm.nv, time)[:2]), names)
    if "time" not in given:
        given = {"effort": "tau_{}", **given}
    with pytest.raises(ValueError, match=words):
        Samples.from_table(arm, columns, columns=given)


def test_efforts_become_torques(arm):
    """Currents, of which each lags by a time of its own, and compensated gravity."""
    time = steps(8.0)
    q, v, a = waves(arm.nv, time)
    tau = dyn_ros.rnea(arm, dyn_ros.Data(arm), q, v, a).copy()
    expected = Samples.from_arrays(arm, time, q, tau, cutoff=20.0)
    delay, gain = np.array([0.0, 0.004, 0.0113, -0.006, 0.0, 0.002]), np.linspace(-9.0, 9.5, 6)
    compensated = np.arange(6) == 2
    robot = copy.copy(arm)
    robot.drives = dyn_ros.Drives.of(6, gain=gain, delay=delay, is_compensated=compensated)
    uncompensated = tau - compensated * dyn_ros.generalized_gravity(arm, dyn_ros.Data(arm), q)
    effort = (
        np.stack(
            [np.interp(time - lag, time, column) for lag, column in zip(delay, uncompensated.T)],
            axis=1,
        )
        / gain
    )
    samples = Samples.from_arrays(robot, time, q, effort, cutoff=20.0)
    rows = np.isin(expected.time, samples.time)
    assert np.sum(~rows) == 9 and len(samples) == np.sum(rows)  # 6 and 12 ms at the ends
    np.testing.assert_allclose(samples.q, expected.q[rows], atol=1e-5)
    np.testing.assert_allclose(samples.tau, expected.tau[rows], atol=1e-3 * np.abs(tau).max())
    exact = delay * RATE == np.round(delay * RATE)
    exact &= ~compensated
    np.testing.assert_allclose(samples.tau[:, exact], expected.tau[rows][:, exact], atol=1e-9)
    unfiltered = Samples.from_arrays(robot, time, q, effort, v, a)
    assert unfiltered.time[0] == pytest.approx(0.006) and unfiltered.time[-1] <= time[-1] - 0.0113


def test_torques_of_coupled_motors(arm):
    time, rng = steps(4.0), np.random.default_rng(3)
    q, _, _ = waves(arm.nv, time)
    coupling = np.eye(6) + 0.4 * np.eye(6, k=-1)
    robot, motors = copy.copy(arm), rng.normal(size=q.shape)
    robot.drives = dyn_ros.Drives.of(6, gain=3.0, coupling=coupling)
    samples = Samples.from_arrays(robot, time, q, motors)
    expected = Samples.from_arrays(arm, time, q, 3.0 * motors @ coupling)
    np.testing.assert_allclose(samples.tau, expected.tau, atol=1e-12)


def test_an_effort_that_is_not_measured_stays_constant(arm):
    time = steps(4.0)
    q, _, _ = waves(arm.nv, time)
    robot = copy.copy(arm)
    robot.drives = dyn_ros.Drives.of(6, is_compensated=True)
    effort = np.random.default_rng(0).normal(size=q.shape) * (np.arange(6) != 1)
    samples = Samples.from_arrays(robot, time, q, effort)
    assert (samples.tau[:, 1] == 0.0).all() and np.ptp(samples.tau[:, 2]) > 1.0
    assert any("effort of joint 'shoulder_lift_joint' is 0" in text for text in samples.warnings)


def test_efforts_that_are_held_are_found_although_gravity_is_compensated(arm):
    time = steps(8.0)
    q, _, _ = waves(arm.nv, time)
    effort = np.random.default_rng(0).normal(size=q.shape)[np.arange(len(time)) // 4 * 4]
    robot = copy.copy(arm)
    robot.drives = dyn_ros.Drives.of(6, is_compensated=np.arange(6) == 2)
    plain, samples = (Samples.from_arrays(model, time, q, effort) for model in (arm, robot))
    assert np.diff(plain.time).min() == pytest.approx(4 / RATE)  # held ones are dropped
    np.testing.assert_array_equal(samples.time, plain.time)
