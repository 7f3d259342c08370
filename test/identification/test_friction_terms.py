# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Terms of friction are chosen where a joint has them, and recovered."""

import dataclasses
import re

import numpy as np
import pytest
import yaml
from identification.faults import with_presliding
from identification.recordings import perturbed, record, waves
from identification.robots import load, truth

import dyn_ros
from dyn_ros.engine.algorithms.dynamics.friction import smooth_sign, smooth_sign_change
from dyn_ros.identification.equation_sums import border_equations, invert_bordered
from dyn_ros.identification.friction_terms import (
    choose_terms,
    friction_direction_changes,
    friction_directions,
)


def motion(nv=6, seed=0):
    return waves(np.zeros(nv), 1.2, [0.1, 0.23, 0.41], seed)


def identified(**drives):
    """A recording of a ur10 with such drives, and what is identified from it."""
    true = perturbed(load("ur10"), seed=1)
    true.drives = true.drives.with_values(**drives)
    recording = record(true, motion(), noise=0.01, rate=250.0)
    return recording, dyn_ros.identify(load("ur10"), recording.samples(load("ur10")))


def single_joint(k, value):
    return np.where(np.arange(6) == k, value, 0.0)


def test_none_is_chosen_without_a_reason():
    _, result = identified()
    drives = result.identified.drives
    assert not drives.load_friction.any() and not drives.root_friction.any()
    assert not drives.stribeck.any() and not np.isfinite(drives.stribeck_velocity).any()
    assert len(result.base.matrix[0]) == 60 + 5 * 6


def test_load_friction():
    _, result = identified(load_friction=single_joint(1, 0.08) + single_joint(2, 0.06))
    drives = result.identified.drives
    assert (drives.load_friction > 0.0).tolist() == [False, True, True, False, False, False]
    np.testing.assert_allclose(drives.load_friction[1:3], [0.08, 0.06], rtol=0.1)
    errors = [joint.after / joint.noise for joint in result.joints]
    assert max(errors) < 1.1
    assert "load_friction(elbow_joint)" in " ".join(result.base.names)


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_friction_that_vanishes_with_velocity_has_any_sign(sign):
    size = 0.8 * perturbed(load("ur10"), seed=1).friction[0]
    recording, result = identified(stribeck=single_joint(0, sign * size), stribeck_velocity=0.3)
    drives, v = result.identified.drives, np.linspace(0.1, 1.2, 20)
    speeds = np.zeros((20, 6))
    speeds[:, 0] = v
    expected = dyn_ros.joint_friction(recording.true, speeds)[:, 0]
    estimate = dyn_ros.joint_friction(result.identified, speeds)[:, 0] - result.offset[0]
    np.testing.assert_allclose(estimate, expected, atol=0.1 * abs(expected).max())
    assert drives.stribeck[0] * sign > 0.0 or drives.root_friction[0] * sign < 0.0


def test_a_ramp_at_low_speed():
    _, result = identified(friction_velocity=single_joint(3, 0.15))
    width, other_joints = result.identified.drives.friction_velocity, [0, 1, 2, 4, 5]
    assert 0.08 < width[3] < 0.3
    assert (width[other_joints] < 0.01 * np.abs(result.samples.v).max(axis=0)[other_joints]).all()


@pytest.mark.parametrize("length", [0.0005, 0.002])
def test_friction_that_turns_over_a_distance(length):
    model = load("ur10")
    recording = with_presliding(record(perturbed(model), motion(), noise=0.01, rate=250.0), length)
    samples = recording.samples(model)
    result = dyn_ros.identify(model, samples)
    distance = result.identified.drives.friction_distance
    np.testing.assert_allclose(distance, length, rtol=0.05)
    unseen = with_presliding(
        record(recording.true, waves(np.zeros(6), 1.0, [0.15, 0.31], seed=3), noise=0.01), length
    )
    noise, samples = rms(unseen.tau - unseen.exact_tau), unseen.samples(model)
    assert (rms(samples.tau - result.torque(samples)) < 1.05 * noise).all()


@pytest.mark.parametrize("size, length", [(1.0, 0.002), (1.0, 0.01), (0.05, 0.01)])
def test_intervals_where_friction_turns_over_a_distance(size, length):
    """In the smallest motion, a reversal often comes before friction has turned."""
    model, inside = load("ur10"), []
    for seed in range(5):
        recording = with_presliding(
            record(
                perturbed(model, seed=seed),
                waves(model.neutral(), size, [0.1, 0.23, 0.41], seed=seed),
                noise=0.001,
                seed=seed,
            ),
            length,
        )
        base, true = dyn_ros.identify(model, recording.samples(model)).base, truth(recording)
        of_friction = [n for n, name in enumerate(base.names) if name.startswith("friction(")]
        value = (base.matrix[:, : len(true)] @ true)[of_friction]
        inside += list((base.lower[of_friction] < value) & (value < base.upper[of_friction]))
    assert np.mean(inside) > 0.9


@pytest.mark.parametrize("velocity, share", [(0.08, 0.6), (0.3, 0.6), (0.3, -0.6)])
def test_intervals_where_friction_decreases_with_velocity(velocity, share):
    """This velocity is estimated as well; an error of it is an error of all friction."""
    model, inside, errors = load("ur10"), [], []
    for seed in range(4):
        true = perturbed(model, seed=seed)
        true.drives = true.drives.with_values(
            stribeck=share * true.friction, stribeck_velocity=velocity
        )
        recording = record(true, motion(seed=seed), noise=0.01, rate=250.0, seed=seed)
        result = dyn_ros.identify(model, recording.samples(model))
        has_stribeck = np.isfinite(result.stribeck_velocity)  # some joints move little
        assert has_stribeck.sum() >= 4
        np.testing.assert_allclose(result.stribeck_velocity[has_stribeck], velocity, rtol=0.25)
        base, values = result.base, truth(recording)
        of_friction = [
            n
            for n, name in enumerate(base.names)
            for k in np.flatnonzero(has_stribeck)
            if re.match(rf"(damping|friction|stribeck)\({model.joint_names[k]}", name)
        ]
        exact = (base.matrix[:, : len(values)] @ values)[of_friction]
        inside += list((base.lower[of_friction] < exact) & (exact < base.upper[of_friction]))
        errors += list(
            rms(result.torque(result.samples) - result.samples.tau)
            / rms(recording.tau - recording.exact_tau)
        )
    assert np.mean(inside) > 0.9 and len(inside) >= 48
    assert np.mean(errors) < 1.02


@pytest.mark.parametrize("length", [250, 5])
def test_changes_of_directions(length):
    """Their derivatives by the logarithm of the distance, also before friction has turned."""
    model, distance = load("ur10"), np.append(np.geomspace(0.002, 0.2, 5), 0.0)
    speeds = np.repeat([1.0, -1.0, 0.5, 0.0, -2.0], length)
    v = np.resize(speeds, 5000)[:, None] * np.ones(6)
    samples = dyn_ros.Samples.from_arrays(
        model, 0.004 * np.arange(5000), np.zeros((5000, 6)), np.zeros((5000, 6)), v, v
    )

    def drives(factor):
        return model.drives.with_values(friction_distance=factor * distance)

    numeric = (
        friction_directions(drives(1.0 + 1e-5), samples)
        - friction_directions(drives(1.0 - 1e-5), samples)
    ) / 2e-5
    direction, changes = friction_direction_changes(drives(1.0), samples)
    np.testing.assert_array_equal(
        direction[:, :5], friction_directions(drives(1.0), samples)[:, :5]
    )
    np.testing.assert_allclose(changes, numeric, atol=1e-6)
    assert np.abs(numeric).max() > 0.7


def test_inverse_of_bordered_normal_equations():
    rng = np.random.default_rng(0)
    H = rng.standard_normal((30, 7, 7)).sum(axis=0)
    H = H @ H.T + 10.0 * np.eye(7)
    cross, squares = rng.standard_normal((7, 3)), 20.0 * np.eye(3) + rng.random((3, 1))
    squares += squares.T
    bordered = border_equations(H[None], cross[None], squares[None])[0]
    np.testing.assert_allclose(bordered, bordered.T)
    np.testing.assert_allclose(
        invert_bordered(np.linalg.inv(H), bordered), np.linalg.inv(bordered), rtol=1e-9, atol=1e-12
    )


def test_friction_after_rest_does_not_depend_on_the_recording_before():
    model = load("ur10")
    model.friction = np.full(6, 10.0)
    model.drives = model.drives.with_values(friction_distance=0.01)
    times = np.arange(0.0, 2.0, 0.004)
    v = np.multiply.outer(np.where(times < 1.0, 0.0, np.sin(6.0 * (times - 1.0))), np.ones(6))
    samples = dyn_ros.Samples.from_arrays(model, times, np.cumsum(0.004 * v, axis=0), v, v, v)
    result = dyn_ros.identify(load("ur10"), samples, friction=False)
    torque = dataclasses.replace(result, identified=model).torque
    two = torque(dyn_ros.Samples.concatenate([samples, samples]))
    np.testing.assert_allclose(two[: len(two) // 2], two[len(two) // 2 :], atol=1e-12)
    np.testing.assert_allclose(
        two[100], dyn_ros.generalized_gravity(model, dyn_ros.Data(model), samples.q[100])
    )


def test_an_error_that_lasts_is_no_distance_of_a_gear():
    """Torques of springs, which the model lacks; distances of 0.8 to 1 rad would resemble them."""
    model, time = load("ur10"), np.arange(0.0, 60.0, 0.004)
    q, _, _ = motion()(time)
    tau = 10.0 * q + np.random.default_rng(0).standard_normal(q.shape)
    samples = dyn_ros.Samples.from_arrays(model, time, q, tau)
    assert not choose_terms(model, samples, np.full(6, np.inf), huber=5.0).distance.any()


def test_friction_that_is_not_estimated_remains():
    model, described = load("ur10"), load("ur10")
    described.friction = np.full(6, 1.0)
    described.drives = described.drives.with_values(friction_distance=0.003, friction_velocity=0.01)
    samples = record(perturbed(model), motion(), noise=0.01, rate=250.0).samples(model)
    drives = dyn_ros.identify(described, samples, friction=False).identified.drives
    assert (drives.friction_distance == 0.003).all() and (drives.friction_velocity == 0.01).all()


def test_noise_of_velocities_at_rest_causes_little_friction():
    true = perturbed(load("ur10"), seed=1)
    samples = record(true, motion(), noise=0.01, rate=250.0, counts=2**15).samples(load("ur10"))
    result, noise = dyn_ros.identify(load("ur10"), samples), samples.motion_noise[1]
    at_rest = dyn_ros.joint_friction(result.identified, np.array([noise, -noise])) - result.offset
    assert (np.abs(at_rest) < 0.15 * result.identified.friction).all()
    assert max(joint.after / joint.noise for joint in result.joints) < 1.1


def test_slow_motion_counts_where_friction_lags_behind_its_sign():
    """Its error is in the joint that turns only, not of accelerations, which would affect all."""
    model = load("ur10")
    recording = with_presliding(record(perturbed(model), motion(), noise=0.01))
    samples = recording.samples(model)
    training, unseen = samples.take(slice(0, 6000)), samples.take(slice(6000, None))
    error = rms(unseen.tau - dyn_ros.identify(model, training).torque(unseen))
    A, B = (least_squares_rows(model, part) for part in (training, unseen))
    size = np.ones(6)
    for _ in range(3):
        x = np.linalg.lstsq(
            np.concatenate(list(A / size[:, None, None])),
            (training.tau / size).T.ravel(),
            rcond=1e-10,
        )[0]
        size = rms(training.tau - (A @ x).T)
    assert (error < 1.02 * rms(unseen.tau - (B @ x).T)).all()


def least_squares_rows(model, samples):
    """Columns for all bodies, and armature, damping, friction, offset of each joint, (6, B, p)."""
    W = dyn_ros.joint_torque_regressor(model, dyn_ros.Data(model), samples.q, samples.v, samples.a)
    joint_columns = np.stack(
        [samples.a, samples.v, np.sign(samples.v), np.ones_like(samples.v)], axis=2
    )
    return np.stack(
        [np.hstack([W[:, k], np.kron(np.arange(6) == k, joint_columns[:, k])]) for k in range(6)]
    )


def rms(errors):
    return np.sqrt(np.mean(errors**2, axis=0))


def test_terms_can_be_excluded():
    true = perturbed(load("ur10"), seed=1)
    true.drives = true.drives.with_values(load_friction=single_joint(1, 0.08))
    samples = record(true, motion(), noise=0.01, rate=250.0).samples(load("ur10"))
    result = dyn_ros.identify(load("ur10"), samples, friction_terms=())
    assert not result.identified.drives.load_friction.any()
    with pytest.raises(ValueError, match="friction_terms: expected some of stribeck, root"):
        dyn_ros.identify(load("ur10"), samples, friction_terms=["viscous"])


def test_what_a_urdf_cannot_express_is_beside_it(tmp_path):
    """Identify, write, read: the same torques."""
    _, result = identified(
        load_friction=single_joint(1, 0.08), friction_velocity=single_joint(3, 0.15)
    )
    result.write_drives(tmp_path / "ur10.drives.yaml")
    read = load("ur10")
    read.inertial_parameters = result.identified.inertial_parameters
    dyn_ros.load_drives(read, tmp_path / "ur10.drives.yaml")
    subset = result.samples.take(slice(None, None, 50))
    tau = dyn_ros.rnea(read, dyn_ros.Data(read), subset.q, subset.v, subset.a)
    np.testing.assert_allclose(
        tau + dyn_ros.joint_friction(read, subset.v, tau),
        result.torque(subset),
        rtol=1e-8,
        atol=1e-8,
    )


def test_rotors_do_not_act_on_efforts_of_the_link_side():
    true, model = perturbed(load("ur10"), seed=1), load("ur10")
    sides = np.arange(6) != 1
    true.armature = np.where(sides, 0.0, 2.0)
    model.drives = model.drives.with_values(is_link_side=sides)
    result = dyn_ros.identify(model, record(true, motion(), noise=0.01, rate=250.0).samples(model))
    assert not result.identified.armature[sides].any()
    assert (
        [name for name in result.base.names if "armature" in name]
        == [name for name in result.base.names if "armature(shoulder_lift_joint)" in name]
        != []
    )
    np.testing.assert_allclose(result.identified.armature[1], 2.0, rtol=0.05)
    assert max(joint.after / joint.noise for joint in result.joints) < 1.1


@pytest.mark.parametrize("stiffness", [0.3, 0.0])
def test_numbers_that_are_rounding_errors_are_not_written(tmp_path, stiffness):
    """A spring instead of a motor, whose rotor would have none; and efforts that are unknown."""
    true = perturbed(load("ur10"), seed=1)
    recording = record(true, waves(np.zeros(6), 1.2, [0.1, 0.2, 0.4, 0.7]), rate=250.0)
    table = recording.table() | {"effort.wrist_3_joint": stiffness * recording.exact_q[:, 5]}
    result = dyn_ros.identify(true, dyn_ros.Samples.from_table(true, table), stribeck=0.05)
    dyn_ros.save_drives(result.identified, tmp_path / "new.drives.yaml")
    joints = yaml.safe_load((tmp_path / "new.drives.yaml").read_text())["joints"]
    assert joints["elbow_joint"].keys() >= {"armature", "stribeck", "stribeck_velocity"}
    wrist = joints["wrist_3_joint"]
    if stiffness:
        assert "armature" not in wrist and wrist["damping"] != 0.0
    else:
        assert "stribeck" not in wrist and "stribeck_velocity" not in wrist


def smooth(width, seed=0):
    """A recording of a ur10 whose friction is smooth, with a width of 1 for the largest speed."""
    true, move = perturbed(load("ur10"), seed=seed), motion(seed=seed)
    fastest = np.quantile(np.abs(move(np.arange(0.0, 20.0, 0.01))[1]), 0.99, axis=0)
    true.drives = true.drives.with_values(
        friction_velocity=width * fastest, has_smooth_friction=True
    )
    return record(true, move, noise=0.01, rate=250.0, seed=seed)


@pytest.mark.parametrize("width", [0.02, 0.1, 0.3])
def test_intervals_of_smooth_friction(width):
    """The width of the step is estimated with an interval, and no term takes its place."""
    model, inside, widths = load("ur10"), [], []
    for seed in range(3):
        recording = smooth(width, seed)
        result = dyn_ros.identify(model, recording.samples(model))
        drives, true = result.identified.drives, recording.true.drives
        assert not drives.stribeck.any() and not drives.root_friction.any()
        base, values = result.base, truth(recording)
        is_right = drives.has_smooth_friction
        assert is_right.sum() >= 4
        names = np.array(model.joint_names)[is_right]
        of_friction = [
            n
            for n, name in enumerate(base.names)
            if re.match(rf"(damping|friction)\(({'|'.join(names)})", name)
        ]
        exact = (base.matrix[:, : len(values)] @ values)[of_friction]
        inside += list((base.lower[of_friction] < exact) & (exact < base.upper[of_friction]))
        for k in np.flatnonzero(is_right):
            low, high = result.friction_intervals[f"friction_velocity({model.joint_names[k]})"]
            assert low < drives.friction_velocity[k] < high < 2.0 * low
            widths.append(low < true.friction_velocity[k] < high)
    assert np.mean(inside) > 0.9 and np.mean(widths) > 0.8


def test_a_form_of_friction_that_the_torques_cannot_tell_from_another():
    """With much noise, smooth friction resembles a ramp; a step resembles nothing else."""
    recording, model = smooth(0.1), load("ur10")
    rng = np.random.default_rng(0)
    noise = 0.03 * recording.tau.std(axis=0) * rng.standard_normal(recording.tau.shape)
    noisy = dataclasses.replace(recording, tau=recording.tau + noise)
    (text,) = [
        text
        for text in dyn_ros.identify(model, noisy.samples(model)).warnings
        if "do not tell some forms of friction apart" in text
    ]
    assert "smooth_friction" in text and "friction_velocity" in text and "_joint (" in text
    _, result = identified()
    assert not any("forms of friction" in text for text in result.warnings)


@pytest.mark.parametrize("is_smooth", [False, True])
def test_changes_of_the_step(is_smooth):
    v, width = np.linspace(-0.3, 0.3, 60), 0.1
    numeric = (
        smooth_sign(v, width * 1.00001, is_smooth) - smooth_sign(v, width * 0.99999, is_smooth)
    ) / 2e-5
    np.testing.assert_allclose(smooth_sign_change(v, width, is_smooth), numeric, atol=1e-6)
    assert not smooth_sign_change(v, 0.0, is_smooth).any()
