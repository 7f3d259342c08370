# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Identification of simulated robots whose parameters are known."""

import copy
import dataclasses
import functools
import itertools

import numpy as np
import pytest
from identification import faults
from identification.recordings import (
    offsets,
    perturbed,
    record,
    record_flying,
    record_standing,
    waves,
)
from identification.robots import UR10, load, truth
from scipy.signal import lfilter

import dyn_ros
from dyn_ros import Samples, identify
from dyn_ros.identification.equation_sums import rounding_deviation
from dyn_ros.identification.solution import split_held_out

FREQUENCIES = [0.1, 0.2, 0.4, 0.7]


@functools.cache
def recorded(robot, seed=0, noise=0.02):
    """A recording of a perturbed arm, and the arm as described."""
    model = load(robot)
    true = perturbed(model, seed=seed)
    middle = np.clip((model.lower + model.upper) / 2.0, -3.0, 3.0)
    middle = np.where(np.isfinite(middle), middle, 0.0)
    size = np.minimum(1.2, 0.45 * np.nan_to_num(model.upper - model.lower, posinf=3.0))
    motion = waves(middle, size, FREQUENCIES, seed)
    return model, record(true, motion, noise=noise, offset=offsets(true, seed), seed=seed)


@functools.cache
def identified(robot, seed=0):
    model, recording = recorded(robot, seed)
    return identify(model, recording.samples(model), seed=seed)


def scores(result, recording):
    """Errors of the base parameters, in standard deviations."""
    base = result.base
    return ((base.estimate - base.matrix @ truth(recording)) / base.deviation)[
        np.isfinite(base.deviation)
    ]


def true_noise(recording):
    return (recording.tau - recording.exact_tau).std(axis=0)


# --- what the result is worth


@pytest.mark.parametrize("robot", ["ur10", "panda"])
def test_held_out_torques_are_explained_to_the_noise(robot):
    _, recording = recorded(robot)
    result = identified(robot)
    for joint, noise in zip(result.joints, true_noise(recording)):
        assert joint.after < 1.05 * noise
        assert joint.noise == pytest.approx(noise, rel=0.05)
        assert joint.before > 2.0 * joint.after
    assert not result.warnings


def test_errors_on_another_recording():
    model, recording = recorded("ur10")
    result = identified("ur10")
    motion = waves(np.zeros(6), 0.8, [0.15, 0.3, 0.5], seed=5)
    unseen = record(recording.true, motion, offset=recording.offset, seed=5)
    for joint, noise in zip(result.errors(unseen.samples(model)), true_noise(unseen)):
        assert joint.after < 1.1 * noise
        assert joint.noise == pytest.approx(noise, rel=0.06)
        assert joint.before > 2.0 * joint.after
    with pytest.raises(ValueError, match="samples: expected a recording without contacts"):
        result.errors(recorded("panda")[1].samples())


@pytest.mark.parametrize("robot", ["ur10", "panda"])
def test_every_body_is_physical(robot):
    result = identified(robot)
    assert dyn_ros.is_physical(result.identified.inertial_parameters).all()
    for name in ("armature", "damping", "friction"):
        assert (getattr(result.identified, name) >= 0.0).all()


@pytest.mark.parametrize("robot", ["ur10", "panda"])
def test_intervals_contain_the_truth(robot):
    """Four recordings; benchmarks/intervals.py has a hundred."""
    deviations = np.concatenate(
        [scores(identified(robot, seed), recorded(robot, seed)[1]) for seed in range(4)]
    )
    assert 0.9 < (np.abs(deviations) < 1.96).mean() < 0.99
    assert 0.8 < deviations.std() < 1.2
    assert abs(deviations.mean()) < 0.2


def inside_of(base, values):
    """Return a mask of intervals that contain the truth; missing values are zero."""
    exact = base.matrix[:, : len(values)] @ values
    return (base.lower < exact) & (exact < base.upper)


@pytest.mark.parametrize("robot", ["ur10", "panda"])
def test_intervals_of_the_physical_estimate_contain_the_truth(robot):
    inside = []
    for seed in range(4):
        base = identified(robot, seed).base
        is_inside = inside_of(base, truth(recorded(robot, seed)[1]))
        inside += is_inside[np.isfinite(base.deviation)].tolist()
    assert 0.9 < np.mean(inside) < 0.99


def test_a_placeholder_of_friction_does_not_pull():
    """Damping of 0.001 in a description, and 1000 times as much in truth."""
    _, recording = recorded("ur10")
    model = load("ur10")
    model.damping, model.friction = np.full((2, 6), 1e-3)
    base = identify(model, recording.samples(model)).base
    of_friction = [name.startswith(("damping", "friction")) for name in base.names]
    change = np.abs(base.after - base.estimate) / base.deviation
    assert change[of_friction].max() < 0.5


def add_correlated_noise(samples, size, seconds, seed):
    """Add noise that is correlated over some time [s]."""
    rng, share = np.random.default_rng(seed), np.exp(-0.002 / seconds)
    noise = lfilter(
        [np.sqrt(1.0 - share**2)], [1.0, -share], rng.standard_normal(samples.tau.shape), axis=0
    )
    return dataclasses.replace(samples, tau=samples.tau + size * samples.tau.std(axis=0) * noise)


def test_intervals_contain_the_truth_if_errors_last():
    """Noise that lasts for 0.2 s is half of the white noise: its sum counts, not its size."""
    model, deviations = load("ur10"), []
    for seed in range(4):
        recording = recorded("ur10", seed)[1]
        result = identify(model, add_correlated_noise(recording.samples(model), 0.01, 0.2, seed))
        deviations.append(scores(result, recording))
    deviations = np.concatenate(deviations)
    assert 0.9 < (np.abs(deviations) < 1.96).mean() < 0.99
    assert 0.7 < deviations.std() < 1.3


@pytest.mark.parametrize("count", [2, 3, 5])
def test_intervals_contain_the_truth_if_friction_changes_between_recordings(count):
    model, inside = load("ur10"), []
    for seed in range(max(4, 24 // count)):
        true, rng, samples = perturbed(model, seed=seed), np.random.default_rng(seed), []
        for n in range(count):
            now = copy.copy(true)
            now.friction, now.damping = (
                x * (1.0 + 0.1 * rng.standard_normal(6)) for x in (true.friction, true.damping)
            )
            motion = waves(np.zeros(6), 1.2, FREQUENCIES, count * seed + n)
            recording = record(
                now, motion, offset=offsets(true, seed), seed=count * seed + n, rate=200.0
            )
            samples.append(recording.samples(model))
        base, values = identify(model, samples).base, truth(recording)
        values[10 * model.njoints :][6:18] = np.concatenate([true.damping, true.friction])
        inside.append(inside_of(base, values))
    of_friction = [name.startswith(("damping", "friction")) for name in base.names]
    share = np.mean(inside, axis=0)
    assert share[of_friction].mean() > 0.92
    assert share.mean() > 0.95 and share.min() > 0.7


def test_brief_recordings_do_not_narrow_intervals():
    model = load("ur10")
    samples = recorded("ur10", 3)[1].samples(model)
    pieces = [
        samples.take(slice(first, first + count))
        for first, count in ((0, 3), (1000, 4000), (5500, 1), (6000, 20), (7000, 2))
    ]
    with_brief, alone = (
        dyn_ros.identify(model, recordings).base.deviation for recordings in (pieces, pieces[1])
    )
    assert (with_brief > 0.5 * alone).all() and (with_brief < 2.0 * alone).all()
    assert np.median(with_brief / alone) == pytest.approx(1.0, abs=0.2)


def test_intervals_contain_the_truth_if_all_efforts_change_between_recordings():
    model, inside = load("ur10"), []
    for seed in range(6):
        true, rng, samples = perturbed(model, seed=seed), np.random.default_rng(seed), []
        for n in range(2):
            recording = record(
                true,
                waves(np.zeros(6), 1.2, FREQUENCIES, 2 * seed + n),
                rate=200.0,
                seed=2 * seed + n,
            )
            gain = 1.0 + 0.02 * rng.standard_normal(6)
            samples.append(dataclasses.replace(recording, tau=gain * recording.tau).samples(model))
        inside += inside_of(identify(model, samples).base, truth(recording)).tolist()
    assert np.mean(inside) > 0.85


def test_a_recording_without_reversals_does_not_leave_out_those_of_another():
    """Most samples of each remain."""
    model, recording = recorded("ur10", seed=1)
    motion = waves(np.zeros(6), 1.2, FREQUENCIES, 5)
    resting = record(
        recording.true,
        lambda time: tuple(
            np.where(np.arange(6) == 5, x, still) for x, still in zip(motion(time), (0.5, 0.0, 0.0))
        ),
    )
    result = identify(model, [recording.samples(model), resting.samples(model)])
    assert max(joint.after / joint.noise for joint in result.joints) < 1.4
    np.testing.assert_allclose(result.identified.friction, recording.true.friction, rtol=0.1)


def test_joints_that_start_and_stop_together():
    """Nothing but their own errors shows then that their accelerations jump."""
    model, errors = load("ur10"), []
    for seed in range(3):
        poses = np.random.default_rng(seed).uniform(-1.2, 1.2, (17, 6))

        def motion(time, poses=poses):
            move = np.minimum(time // 1.2, 15).astype(int)
            x = np.minimum((time - 1.2 * move) / 0.9, 1.0)[:, None]
            start, turn = poses[move], poses[move + 1] - poses[move]
            jump = np.where(x < 1.0 / 3.0, 4.5, np.where(x < 2.0 / 3.0, 0.0, -4.5)) * (x < 1.0)
            speed = np.clip(np.minimum(4.5 * x, 4.5 * (1.0 - x)), 0.0, 1.5)
            way = np.where(
                x < 1.0 / 3.0,
                2.25 * x**2,
                np.where(x < 2.0 / 3.0, 1.5 * x - 0.25, 1.0 - 2.25 * (1.0 - x) ** 2),
            )
            return start + turn * way, turn * speed / 0.9, turn * jump / 0.81

        true = perturbed(model, seed=seed)
        result = identify(model, record(true, motion, noise=0.01, seed=seed).samples(model))
        unseen = record(true, waves(np.zeros(6), 1.2, FREQUENCIES, 9), noise=0.0).exact_samples()
        error = result.torque(unseen) - unseen.tau
        errors.append(np.sqrt(np.mean(error**2, axis=0) / np.mean(unseen.tau**2, axis=0)))
    assert np.mean(errors) < 0.0011


def test_intervals_are_those_of_the_deviation():
    base = identified("ur10").base
    half = 0.5 * (base.upper - base.lower)
    factor = half / base.deviation  # quantile of Student's distribution
    assert 1.96 < factor[0] < 2.37
    np.testing.assert_allclose(factor, factor[0])
    np.testing.assert_allclose(0.5 * (base.upper + base.lower), base.after, atol=1e-12)


def test_friction_is_found():
    _, recording = recorded("ur10")
    result = identified("ur10")
    np.testing.assert_allclose(result.identified.friction, recording.true.friction, rtol=0.03)
    np.testing.assert_allclose(result.identified.damping, recording.true.damping, rtol=0.1)
    np.testing.assert_allclose(
        result.offset, recording.offset, atol=5.0 * true_noise(recording).max() / 10.0
    )


def test_less_noise_is_a_better_estimate():
    model, recording = recorded("ur10", noise=0.001)
    less = identify(model, recording.samples(model))
    assert np.median(less.base.deviation / identified("ur10").base.deviation) < 0.2


def test_the_torque_of_a_result():
    result = identified("ur10")
    samples = result.validation
    moving = np.abs(samples.v) > 0.05 * np.abs(samples.v).max(axis=0)
    for torque, name in (
        (result.torque(samples), "after"),
        (result.described_torque(samples), "before"),
    ):
        error = np.where(moving, samples.tau - torque, np.nan)
        rms = np.sqrt(np.nanmean(error**2, axis=0))
        np.testing.assert_allclose(rms, [getattr(joint, name) for joint in result.joints], rtol=0.1)


def test_what_is_held_out_is_not_used():
    """Held-out torques that are wrong do not affect the model that they are compared with."""
    model, recording = recorded("ur10")
    samples = recording.samples(model)
    held = identified("ur10").held_out
    spoiled = samples.tau.copy()
    for each in held:
        spoiled[each] += 1000.0
    again = identify(model, dataclasses.replace(samples, tau=spoiled))
    assert again.held_out == held
    np.testing.assert_allclose([joint.after for joint in again.joints], 1000.0, rtol=1e-4)


@pytest.mark.parametrize("count", [100, 1234, 20000])
def test_stretches_are_disjoint_and_complete(count):
    training, held_out = split_held_out(count, 0.25, seed=3)
    edges = sorted((stretch.start, stretch.stop) for stretch in (*training, *held_out))
    assert edges[0][0] == 0 and edges[-1][1] == count
    assert all(stretch[1] == following[0] for stretch, following in itertools.pairwise(edges))
    share = sum(stretch.stop - stretch.start for stretch in held_out) / count
    assert share == pytest.approx(0.25, abs=0.06)
    assert split_held_out(count, 0.25, seed=3) == (training, held_out)
    assert split_held_out(count, 0.25, seed=4) != (training, held_out)


def test_friction_counts_as_well_determined_relative_to_itself():
    """Little friction in a description does not say how small a deviation is."""
    model, recording = recorded("ur10")
    model = copy.copy(model)
    model.friction = np.full(6, 0.01)
    samples = recording.samples(model)
    noise = 0.5 * np.random.default_rng(0).normal(size=samples.tau.shape)
    result = identify(
        model, dataclasses.replace(samples, tau=samples.tau + 20.0 * np.sign(samples.v) + noise)
    )
    base = result.base
    for name, value, deviation, excited in zip(
        base.names, base.estimate, base.deviation, base.excitation
    ):
        if name.startswith("friction("):
            assert deviation < 0.1 * value and excited == "well"


# --- options


def test_stribeck_friction():
    model, recording = recorded("ur10")
    samples = recording.samples(model)
    F, v0 = 0.1 * true_noise(recording) / 0.02, 0.05
    extra = F * np.sign(samples.v) * np.exp(-((samples.v / v0) ** 2))
    samples = dataclasses.replace(samples, tau=samples.tau + extra)
    without, result = (
        identify(model, samples, friction_terms=(), **options) for options in ({}, {"stribeck": v0})
    )
    np.testing.assert_allclose(result.stribeck, F, rtol=0.15)
    moving = np.abs(samples.v) > 0.02 * np.abs(samples.v).max(axis=0)
    error = [
        np.sqrt((np.where(moving, samples.tau - each.torque(samples), 0.0) ** 2).mean(axis=0))
        for each in (result, without)
    ]
    assert (error[0] < error[1]).all()


def test_motor_constants():
    model, recording = recorded("ur10")
    samples = recording.samples(model)
    constants = np.array([10.0, 12.0, 9.0, 3.0, 2.0, 1.5])
    currents = dataclasses.replace(samples, tau=samples.tau / constants)
    result = identify(model, currents, motor_constants=constants)
    np.testing.assert_allclose(
        result.base.estimate, identified("ur10").base.estimate, rtol=1e-6, atol=1e-9
    )


def test_motor_constants_leave_compensated_gravity_as_it_is():
    model, recording = recorded("ur10")
    samples = recording.samples(model)
    constants = np.array([10.0, 12.0, 1.0, 3.0, 1.0, 1.5])
    compensated = copy.copy(model)
    compensated.drives = model.drives.with_values(
        is_compensated=[False, True, True, False, True, False]
    )
    gravity = compensated.drives.is_compensated * dyn_ros.generalized_gravity(
        model, dyn_ros.Data(model), samples.q
    )
    currents = dataclasses.replace(samples, tau=(samples.tau - gravity) / constants + gravity)
    result, torques = (
        identify(compensated, currents, motor_constants=constants),
        identify(compensated, samples),
    )
    np.testing.assert_allclose(result.base.estimate, torques.base.estimate, rtol=1e-6, atol=1e-9)
    np.testing.assert_array_equal(result.identified.drives.gain, constants)


@pytest.mark.parametrize("compensated", [[0, 1, 1, 0, 1, 0], np.ones(6)])
def test_drives_that_subtract_the_gravity_of_the_robot_and_not_of_its_description(compensated):
    model, recording = recorded("ur10")
    model, compensated = copy.copy(model), np.asarray(compensated, bool)
    model.drives = model.drives.with_values(is_compensated=compensated)
    effort = recording.tau - compensated * dyn_ros.generalized_gravity(
        recording.true, dyn_ros.Data(recording.true), recording.q
    )
    result = identify(model, Samples.from_arrays(model, recording.time, recording.q, effort))
    for joint in result.joints:
        assert joint.after < 1.15 * joint.noise, joint
    error = np.abs(scores(result, recording))
    assert error.max() < 5.0 and np.median(error) < 1.5
    residual = (result.torque(result.samples) - result.samples.tau).std(axis=0)
    assert (residual < 1.15 * true_noise(recording)).all()


def test_a_joint_that_does_not_move_says_nothing():
    """Its velocities are rounding errors of the filter, of which no friction may be the factor."""
    model, recording = recorded("ur10")
    moves = np.arange(6) < 5
    q = np.where(moves, recording.exact_q, 0.3)
    tau = dyn_ros.rnea(
        recording.true,
        dyn_ros.Data(recording.true),
        q,
        moves * recording.exact_v,
        moves * recording.exact_a,
    )
    tau += 0.01 * tau.std(axis=0) * np.random.default_rng(0).normal(size=tau.shape)
    result = identify(model, Samples.from_arrays(model, recording.time, q, tau))
    assert (np.abs(result.identified.damping) < 1.0).all()
    for joint in result.joints[:5]:
        assert joint.after < 1.1 * joint.noise
    assert np.isnan(result.joints[5].after)
    assert np.isfinite(result.base.deviation).sum() > 30


def test_outliers():
    model, recording = recorded("ur10")
    samples = recording.samples(model)
    rng = np.random.default_rng(0)
    tau = samples.tau.copy()
    hit = rng.random(tau.shape) < 0.01
    tau[hit] += 200.0 * rng.normal(size=hit.sum())
    spoiled = dataclasses.replace(samples, tau=tau)
    robust, plain = identify(model, spoiled), identify(model, spoiled, huber=None)
    error = [
        np.abs(scores(each, recording) * each.base.deviation / identified("ur10").base.deviation)
        for each in (robust, plain)
    ]
    assert np.median(error[0]) < 1.5
    assert np.median(error[1]) > 5.0 * np.median(error[0])


def test_errors_of_the_model_that_recur_do_not_count_as_precise():
    """A joint errs in a part of its range; what fits there must not outweigh the rest."""
    model, recording = recorded("ur10", noise=0.01)
    samples = recording.samples(model)
    training, unseen = samples.take(slice(0, 7000)), samples.take(slice(7000, None))
    q, tau = samples.q[:, 2], samples.tau[:, 2]
    wrong = np.where(q > np.quantile(q, 0.95), 50.0 * true_noise(recording)[2] * tau / tau.std(), 0)
    spoiled = dataclasses.replace(
        training, tau=training.tau + wrong[:7000, None] * (np.arange(6) == 2)
    )
    before, after = (
        np.sqrt(np.mean((unseen.tau - identify(model, part).torque(unseen)) ** 2, 0))
        for part in (training, spoiled)
    )
    assert (after < before * np.where(np.arange(6) == 2, 1.75, 1.01)).all()


def test_without_friction_and_rotors():
    model = load("ur10")
    true = perturbed(model, friction=False)
    recording = record(true, waves(np.zeros(6), 1.2, FREQUENCIES))
    result = identify(model, recording.samples(model), friction=False, armature=False)
    assert not any(result.identified.friction) and not any(result.offset)
    assert len(result.base.names) == len(dyn_ros.base_parameters(model))
    assert all(
        joint.after < 1.05 * noise for joint, noise in zip(result.joints, true_noise(recording))
    )


def test_known_noise_and_regularization():
    model, recording = recorded("ur10")
    samples = recording.samples(model)
    result = identify(model, samples, noise=true_noise(recording))
    np.testing.assert_allclose(
        result.base.estimate,
        identified("ur10").base.estimate,
        atol=0.3 * result.base.deviation.max(),
    )
    stiff = identify(model, samples, regularization=1e9)
    described = model.inertial_parameters
    assert (
        np.abs(stiff.identified.inertial_parameters - described).max()
        < 0.1 * np.abs(result.identified.inertial_parameters - described).max()
    )


def test_several_recordings_and_threads():
    model, recording = recorded("ur10")
    samples = recording.samples(model)
    half = len(samples) // 2
    result = identify(
        model, [samples.take(slice(0, half)), samples.take(slice(half, None))], threads=2
    )
    np.testing.assert_allclose(
        result.base.estimate, identified("ur10").base.estimate, rtol=1e-6, atol=1e-9
    )


def test_progress_ends_at_one():
    model, recording = recorded("ur10")
    heard = []
    identify(model, recording.samples(model), progress=lambda done, what: heard.append(done))
    assert heard[-1] == 1.0 and heard == sorted(heard)


# --- legged robots


def quadruped(kind, **options):
    model = load("solo12", "floating")
    recording = kind(perturbed(model, seed=1), seed=1)
    return recording, identify(model, recording.samples(model, **options))


def test_a_quadruped_whose_contact_forces_are_unknown():
    recording, result = quadruped(record_standing, f_ext=None)
    deviations = scores(result, recording)
    assert (np.abs(deviations) < 1.96).mean() > 0.88
    assert all(joint.after < 0.8 * joint.before for joint in result.joints)
    assert dyn_ros.is_physical(result.identified.inertial_parameters).all()


def test_a_quadruped_whose_contact_forces_are_known():
    model = load("solo12", "floating")
    recording = record_standing(perturbed(model, seed=1), seed=1)
    samples = dataclasses.replace(recording.samples(model), contacts=(), in_contact=None)
    result = identify(model, samples)
    assert (np.abs(scores(result, recording)) < 1.96).mean() > 0.88
    for joint, noise in zip(result.joints[6:], true_noise(recording)[6:]):
        assert joint.after < 1.05 * noise


def test_a_quadruped_in_flight():
    recording, result = quadruped(record_flying)
    assert (np.abs(scores(result, recording)) < 1.96).mean() > 0.93
    assert all(joint.after < 0.2 * joint.before for joint in result.joints[:6])


def test_noise_of_the_motion_does_not_make_bodies_lighter():
    recording, result = quadruped(record_flying, cutoff=30.0)
    samples = dataclasses.replace(result.samples, motion_noise=None)
    plain = scores(identify(result.model, samples), recording)
    total = [name.startswith("m(root_joint)") for name in result.base.names].index(True)
    assert plain[total] < -8.0 and (np.abs(plain) < 1.96).mean() < 0.8
    deviations = scores(result, recording)
    assert abs(deviations[total]) < 2.0 and (np.abs(deviations) < 1.96).mean() > 0.93
    mass, true = (
        model.inertial_parameters[:, 0].sum() for model in (result.identified, recording.true)
    )
    assert abs(mass - true) < 3.0 * result.base.deviation[total]


def test_the_filter_distorts_less_than_noise():
    deviations = []
    for seed in range(4):
        true = perturbed(load("solo12", "floating"), seed=seed)
        recording = record_flying(true, offset=offsets(true, seed), seed=seed)
        result = identify(load("solo12", "floating"), recording.samples())
        deviations.append(scores(result, recording))
    thighs = [name.startswith("m cz") and "HFE" in name for name in result.base.names]
    assert sum(thighs) == 4
    assert abs(np.mean(deviations, axis=0)[thighs].mean()) < 0.6


# --- recordings that say too little, or are wrong


def test_a_joint_that_is_stuck():
    model, recording = recorded("ur10")
    v = recording.exact_v.copy()
    a, q = recording.exact_a.copy(), recording.exact_q.copy()
    q[:, 4], v[:, 4], a[:, 4] = q[0, 4], 0.0, 0.0
    tau = dyn_ros.rnea(recording.true, dyn_ros.Data(recording.true), q, v, a)
    tau += dyn_ros.joint_friction(recording.true, v)
    tau += 0.02 * tau.std(axis=0) * np.random.default_rng(0).normal(size=tau.shape)
    samples = Samples.from_arrays(model, recording.time, q, tau)
    result = identify(model, samples)
    [still] = [text for text in result.warnings if "moves by less" in text]
    assert still.startswith("joint 'wrist_2_joint' moves by less than 0.001 rad or m in all")
    elsewhere = dataclasses.replace(samples, q=samples.q + 0.3 * (np.arange(6) == 4))
    assert still in identify(model, [samples, elsewhere]).warnings
    moving = identify(model, [samples, recording.samples(model)])
    assert not any("moves by less" in text for text in moving.warnings)
    lead = [
        name for name, excited in zip(result.base.names, result.base.excitation) if excited == "not"
    ]
    assert {"damping(wrist_2_joint)", "friction(wrist_2_joint)"} <= set(lead)
    assert any(
        text.startswith("friction(wrist_2_joint): move wrist_2_joint")
        for text in result.undetermined
    )
    assert dyn_ros.is_physical(result.identified.inertial_parameters).all()
    # what is not determined remains as described, as far as it is
    assert np.isinf(result.base.deviation[result.base.names.index("friction(wrist_2_joint)")])


def test_too_little_motion():
    model, recording = recorded("ur10")
    time = recording.time
    q = 0.02 * np.sin(time)[:, None] * np.ones(6)
    v, a = 0.02 * np.cos(time)[:, None] * np.ones(6), -q
    tau = dyn_ros.rnea(model, dyn_ros.Data(model), q, v, a)
    tau += 0.02 * np.abs(tau).max() * np.random.default_rng(0).normal(size=tau.shape)
    result = identify(model, Samples.from_arrays(model, time, q, tau))
    assert sum(each == "not" for each in result.base.excitation) > 10
    assert len(result.undetermined) == sum(each == "not" for each in result.base.excitation)
    assert dyn_ros.is_physical(result.identified.inertial_parameters).all()
    assert all(np.isfinite(joint.after) for joint in result.joints)


def test_no_motion():
    model = load("ur10")
    q = np.zeros((1000, 6))
    samples = Samples.from_arrays(model, np.arange(1000) / 500.0, q, q, q, q)
    with pytest.raises(ValueError, match=r"no joint moves; record a motion.*excite"):
        identify(model, samples)


def test_positions_that_are_rounding():
    model, recording = recorded("ur10")
    still = dataclasses.replace(recording, q=np.tile(recording.q[:1], (len(recording.q), 1)))
    with pytest.raises(ValueError, match="no joint moves"):
        identify(model, still.samples(model))


@pytest.mark.parametrize("noise", [0.0, 1e-9])
def test_torques_without_noise(noise):
    model, recording = recorded("ur10")
    size = noise * np.abs(recording.exact_tau).max(axis=0)
    tau = recording.exact_tau + size * np.random.default_rng(0).normal(size=recording.tau.shape)
    exact = dataclasses.replace(recording, exact_tau=tau).exact_samples()
    for joint in identify(model, exact).joints:
        assert joint.after < 1e-4 * joint.before


@pytest.mark.parametrize("held", [5, 10])
def test_efforts_in_steps_have_the_noise_of_rounding(held):
    """Held efforts that rounding makes constant had a noise of 0, and all the weight."""
    true = perturbed(load("ur10"), seed=1)
    motion = waves(np.zeros(6), 0.5, FREQUENCIES, 1)
    recording = faults.with_coarse_efforts(
        record(true, motion, noise=0.0, rate=500.0, offset=offsets(true)), step=0.05, held=held
    )
    result = identify(load("ur10"), recording.samples(load("ur10")))
    for joint in result.joints[:5]:  # efforts of the last one are below the step
        assert joint.noise > 0.99 * 0.05 / np.sqrt(12.0)
        assert joint.after < 2.0 * joint.noise
    assert not any("more than the noise" in text for text in result.warnings)
    errors = result.errors(recording.samples(load("ur10")))
    assert all(joint.noise > 0.99 * 0.05 / np.sqrt(12.0) for joint in errors[:5])


def test_rounding_of_efforts():
    rng = np.random.default_rng(0)
    smooth = rng.standard_normal(5000)
    steps = np.round(smooth / 0.05) * 0.05 * 12.1
    rounding = rounding_deviation(np.column_stack([smooth, steps, np.zeros(5000)]))
    assert rounding[0] < 1e-6 and rounding[2] == 0.0
    assert rounding[1] == pytest.approx(0.05 * 12.1 / np.sqrt(12.0))


def test_an_effort_that_is_not_measured():
    model, recording = recorded("ur10")
    tau = recording.tau.copy()
    tau[:, 2] = 5.0
    result = identify(model, dataclasses.replace(recording, tau=tau).samples(model))
    assert any("'elbow_joint' is 5 in all samples" in text for text in result.warnings)
    for joint in (*result.joints[:2], *result.joints[3:]):
        assert joint.after < 1.1 * joint.noise
    with pytest.raises(ValueError, match="check the efforts"):
        identify(model, dataclasses.replace(recording, tau=0.0 * tau).samples(model))


def test_a_wrong_sign_is_reported():
    model, recording = recorded("ur10")
    tau = recording.tau * np.array([1.0, -1.0, 1.0, 1.0, 1.0, 1.0])
    result = identify(model, dataclasses.replace(recording, tau=tau).samples(model))
    assert any("shoulder_lift_joint (" in text and "sign" in text for text in result.warnings)


def test_contacts_that_explain_everything():
    model, recording = recorded("ur10")
    with pytest.raises(ValueError, match="in the contacts tool0 can explain"):
        identify(model, recording.samples(model, contacts=("tool0",)), contact_dimension=6)


def test_a_description_that_is_not_physical():
    model, recording = recorded("ur10")
    model = load("ur10")
    wrong = model.inertial_parameters.copy()
    wrong[2, 4:] *= -1.0
    wrong[4] = 0.0
    model.inertial_parameters = wrong
    result = identify(model, recording.samples(model))
    assert sum("is not physical" in text for text in result.warnings) == 2
    assert any("'elbow_joint'" in text for text in result.warnings)
    assert dyn_ros.is_physical(result.identified.inertial_parameters).all()
    assert all(
        joint.after < 1.05 * noise for joint, noise in zip(result.joints, true_noise(recording))
    )


@pytest.mark.parametrize(
    "options, words",
    [
        ({"huber": 0.0}, "huber: expected a positive number, got 0.0"),
        ({"regularization": -1.0}, "regularization: expected a positive number"),
        ({"held_out": 1.0}, "held_out: expected a fraction between 0 and 0.9"),
        ({"stribeck": 0.0}, "stribeck: expected numbers of at least 1e-06, got 0"),
        ({"noise": np.zeros(6)}, "noise: expected positive numbers"),
        ({"motor_constants": [1.0, 2.0]}, "motor_constants: expected 6 finite numbers"),
        ({"noise": np.nan}, "noise"),
        ({"contact_dimension": 4}, "contact_dimension: expected 3 or 6, got 4"),
    ],
)
def test_invalid_options(options, words):
    model, recording = recorded("ur10")
    with pytest.raises(ValueError, match=words):
        identify(model, recording.samples(model), **options)


def test_samples_of_another_robot():
    _, recording = recorded("ur10")
    with pytest.raises(ValueError, match=r"samples: of a robot with nq = 6.*create the samples"):
        identify(load("panda"), recording.samples())


def test_too_few_samples():
    model, recording = recorded("ur10")
    for count in (5, 50):
        with pytest.raises(ValueError, match=r"samples: expected at least \d+ .* s longer"):
            identify(model, recording.samples(model).take(slice(0, count)))


def test_the_description_that_is_written(tmp_path):
    result = identified("ur10")
    path = tmp_path / "identified.urdf"
    result.write_urdf(UR10, path)
    again = dyn_ros.Model.from_urdf_file(path)
    np.testing.assert_allclose(
        again.inertial_parameters, result.identified.inertial_parameters, rtol=1e-9, atol=1e-12
    )
    np.testing.assert_allclose(again.friction, result.identified.friction)
    np.testing.assert_allclose(again.damping, result.identified.damping)


def test_errors_below_a_given_noise_have_no_causes():
    model, recording = recorded("ur10")
    assert (
        identify(model, recording.samples(model), noise=20.0 * true_noise(recording).max()).warnings
        == ()
    )


def test_gravity_that_drives_subtract_loads_the_gears():
    model, true = load("ur10"), perturbed(load("ur10"), seed=1)
    true.drives = true.drives.with_values(load_friction=[0.0, 0.07, 0.07, 0.0, 0.0, 0.0])
    recording = record(
        true, waves(np.zeros(6), 1.2, FREQUENCIES, 1), noise=0.02, rate=150.0, seed=1
    )
    effort = recording.tau - dyn_ros.generalized_gravity(true, dyn_ros.Data(true), recording.q)
    model.drives = model.drives.with_values(is_compensated=True)
    result = identify(model, Samples.from_arrays(model, recording.time, recording.q, effort))
    load_friction = result.identified.drives.load_friction
    assert np.flatnonzero(load_friction).tolist() == [1, 2]
    np.testing.assert_allclose(load_friction[1:3], 0.07, rtol=0.2)


@pytest.mark.parametrize("held_out", [0.01, 0.89])
def test_some_stretches_are_held_out_and_some_are_not(held_out):
    used, held = split_held_out(1000, held_out, 0)
    assert used and held


def test_gravity_of_torques_without_gravity_is_refused():
    model, recording = recorded("ur10")
    samples = recording.samples(model)
    estimate = dyn_ros.estimate_gravity(model, samples)
    assert (abs(estimate.gravity - [0.0, 0.0, -9.81]) < 3.0).all()
    data = dyn_ros.Data(recording.true)
    gravity = dyn_ros.generalized_gravity(recording.true, data, samples.q)
    light = dataclasses.replace(samples, tau=samples.tau - gravity)
    with pytest.raises(ValueError, match="contain no gravity.*gravity_compensated"):
        dyn_ros.estimate_gravity(model, light)
