# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Thresholds, and rates of false alarms that a short calibration promises."""

import numpy as np
import pytest
from identification.robots import load
from observer.simulated import Arm, moves, waves, with_friction
from scipy.signal import lfilter

import dyn_ros

DT, GAIN = 1e-3, 50.0
DECAY = np.exp(-GAIN * DT)


def filtered(noise):
    return lfilter([1.0 - DECAY], [1.0, -DECAY], noise, axis=0)


def alarms(thresholds, external, v):
    """Exceedances that are 0.25 s apart."""
    rows = np.flatnonzero(thresholds.exceeded(external, v).any(axis=1))
    return 1 + int(np.sum(np.diff(rows) > 250)) if rows.size else 0


def test_thresholds_of_a_velocity():
    thresholds = dyn_ros.Thresholds([1.0, 2.0], [0.5, 0.0], at_rest=[0.0, 4.0])
    np.testing.assert_allclose(thresholds.of([-2.0, 0.0]), [2.0, 6.0])
    np.testing.assert_allclose(thresholds.of([[0.0, 0.025], [4.0, -1.0]]), [[1.0, 4.0], [3.0, 2.0]])
    assert thresholds.exceeded([-2.1, 5.9], [2.0, 0.0]).tolist() == [True, False]
    assert thresholds.exceeded([1.0, 2.0], [0.0, 1.0]).tolist() == [False, False]


@pytest.mark.parametrize(
    "arguments, message",
    [
        (([1.0, -1.0],), "fixed: expected numbers that are not negative, got -1 in fixed[1]"),
        (([1.0, 1.0], [0.0, -2.0]), "per_speed: expected numbers that are not negative, got -2 in"),
        (([1.0, np.nan],), "fixed: expected 2 finite numbers"),
        (([1.0, 1.0], [1.0, 1.0, 1.0]), "per_speed: expected 2 finite numbers, got shape (3,)"),
    ],
)
def test_invalid_thresholds(arguments, message):
    with pytest.raises(ValueError) as error:
        dyn_ros.Thresholds(*arguments)
    assert message in str(error.value)


def test_gaussian_noise():
    rng = np.random.default_rng(0)
    external = filtered(rng.standard_normal((3600_000, 1)))
    v = np.zeros_like(external)
    sigma = external.std()
    for seconds, widest in ((60, 8.0), (300, 6.8)):
        count = 0
        for start in range(0, 3_000_000, 300_000):
            part = slice(start, start + round(seconds / DT))
            found = dyn_ros.calibrate_thresholds(external[part], v[part], DT)
            assert 5.0 < found.fixed[0] / sigma < widest
            assert found.shape[0] > 1.4
            count += alarms(found, external, v)
        assert count <= 2  # of 10 hours at 0.1 per hour


def test_noise_in_proportion_to_speed():
    rng = np.random.default_rng(1)
    time = np.arange(600_000) * DT
    v = sum(np.sin(2 * np.pi * f * time + k) for k, f in enumerate((0.07, 0.13, 0.22)))[:, None]
    external = filtered(rng.standard_normal(v.shape)) * (0.2 + 2.0 * np.abs(v))
    found = dyn_ros.calibrate_thresholds(external[:120_000], v[:120_000], DT)
    assert found.per_speed[0] > found.fixed[0]
    plain = dyn_ros.calibrate_thresholds(external[:120_000], np.zeros((120_000, 1)), DT)
    assert found.of(v).mean() < 0.8 * plain.fixed[0]
    assert alarms(found, external, v) == 0


def test_a_lower_rate_results_in_larger_thresholds():
    external = filtered(np.random.default_rng(2).standard_normal((60_000, 2)))
    v = np.zeros_like(external)
    levels = [
        dyn_ros.calibrate_thresholds(external, v, DT, rate).fixed for rate in (100.0, 1.0, 0.01)
    ]
    assert (np.diff(levels, axis=0) > 0.0).all()
    doubled = dyn_ros.calibrate_thresholds(2.0 * external, v, DT, 1.0)
    np.testing.assert_allclose(doubled.fixed, 2.0 * levels[1], rtol=1e-9)


def test_the_report():
    rng = np.random.default_rng(3)
    external = filtered(rng.standard_normal((20_000, 2))) + [0.5, 0.0]
    found = dyn_ros.calibrate_thresholds(
        external, np.ones_like(external), DT, 1.0, least=[0.0, 7.0], friction=0.25
    )
    np.testing.assert_allclose(found.mean, external.mean(axis=0))
    np.testing.assert_allclose(found.deviation, external.std(axis=0))
    np.testing.assert_allclose(found.largest, np.abs(external).max(axis=0) / found.of([1.0, 1.0]))
    assert (found.largest < 1.0).all()
    assert found.fixed[1] == 7.0
    np.testing.assert_allclose(found.at_rest, np.hypot(found.fixed, 0.25) - found.fixed)
    assert (found.duration, found.false_alarms, found.extrapolated) == (20.0, 1.0, True)
    assert (found.peaks > 5).all()


def test_a_perfect_simulation():
    zero = np.zeros((20_000, 2))
    found = dyn_ros.calibrate_thresholds(zero, zero, DT, least=0.1)
    assert found.fixed.tolist() == [0.1, 0.1]
    assert found.largest.tolist() == [0.0, 0.0]


@pytest.mark.parametrize(
    "change, message",
    [
        (
            dict(external=np.zeros((9_000, 2)), v=np.zeros((9_000, 2))),
            "at least 10 s of motion, got 9",
        ),
        (dict(external=np.zeros(20_000)), "external: expected shape (B, nv)"),
        (dict(v=np.zeros((20_000, 3))), "v: expected the shape of external"),
        (
            dict(external=np.full((20_000, 2), np.inf)),
            "external: expected 20000 x 2 finite numbers",
        ),
        (dict(dt=0.0), "dt: expected a positive number, got 0"),
        (dict(false_alarms=-1.0), "false_alarms: expected a positive number, got -1"),
        (dict(friction=[-1.0, 0.0]), "at_rest: expected numbers that are not negative"),
    ],
)
def test_invalid_calibrations(change, message):
    zero = np.zeros((20_000, 2))
    with pytest.raises(ValueError) as error:
        dyn_ros.calibrate_thresholds(**dict(external=zero, v=zero, dt=DT) | change)
    assert message in str(error.value)


@pytest.mark.parametrize("kind", [waves, moves])
@pytest.mark.parametrize("velocity", ["differences", "rounded"])
def test_an_arm_without_contact(kind, velocity):
    """Friction reversals, rests, quantization: no false alarm in half an hour."""
    model = with_friction(load("panda").reduced({"panda_finger_joint1": 0.0}))
    arm = Arm(model, kind(model), velocity=velocity)
    observer = dyn_ros.MomentumObserver(model, GAIN)

    def external(part):
        return observer.run(part.q, part.v, part.tau, DT)

    calibration = arm.record(60.0)
    observer.reset()
    found = dyn_ros.calibrate_thresholds(
        external(calibration)[300:], calibration.v[300:], DT, friction=model.friction
    )
    observer.reset()
    count = 0
    for number, part in enumerate(arm.parts(1800.0, start=1000.0)):
        skip = 300 if number == 0 else 0
        count += alarms(found, external(part)[skip:], part.v[skip:])
    assert count == 0


def test_a_robot_without_joints_has_no_thresholds():
    none = np.zeros((20000, 0))
    assert dyn_ros.calibrate_thresholds(none, none, DT).fixed.shape == (0,)


@pytest.mark.parametrize("kind, rate", [("gaussian", 1.0), ("laplace", 4.0), ("bounded", 1.0)])
def test_rates_on_time_that_was_not_used(kind, rate):
    """False alarms of twelve hours at one per hour, from calibrations of two minutes."""
    rng = np.random.default_rng(5)
    dt, count, found = 0.01, 360_000, 0
    noise = {
        "gaussian": rng.standard_normal,
        "laplace": lambda size: rng.laplace(size=size),
        "bounded": lambda size: rng.uniform(-1.0, 1.0, size),
    }[kind]
    for _ in range(12):
        external = lfilter([0.5], [1.0, -0.5], noise((12_000 + count, 1)), axis=0)
        v = np.zeros_like(external)
        limits = dyn_ros.calibrate_thresholds(external[:12_000], v[:12_000], dt, 1.0)
        found += alarms(limits, external[12_000:], v[12_000:])
        assert limits.largest[0] > 0.5
    assert found <= 12.0 * rate


def test_an_abrupt_stop_does_not_define_the_threshold():
    external = filtered(np.random.default_rng(6).standard_normal((60_000, 2)))
    v = np.full_like(external, 0.5)
    plain = dyn_ros.calibrate_thresholds(external, v, DT)
    external[30_000:30_100, 0] += 80.0 * external.std()
    found = dyn_ros.calibrate_thresholds(external, v, DT)
    assert found.fixed[0] < 1.1 * plain.fixed[0]
    assert found.largest[0] > 5.0 > 1.0 > found.largest[1]  # an alarm that it contains


def test_regular_stops_are_no_alarms():
    rng = np.random.default_rng(7)
    external = filtered(rng.standard_normal((120_000, 1)))
    for start in range(2_000, 120_000, 5_000):
        external[start : start + 100] += rng.uniform(4.0, 5.0)
    found = dyn_ros.calibrate_thresholds(external, np.full_like(external, 0.5), DT)
    assert found.largest[0] < 1.0 and found.fixed[0] < 4.0 * np.abs(external).max()


def test_friction_at_rest_is_independent_of_errors_of_motions():
    rng = np.random.default_rng(8)
    v = np.repeat(np.tile([0.0, 1.0], 30), 2_000)[:120_000, None]
    external = filtered(rng.standard_normal(v.shape)) * np.where(v > 0.0, 5.0, 0.05)
    external += np.where(v > 0.0, 0.0, 3.0 * rng.uniform(-1.0, 1.0, 60).repeat(2_000)[:, None])
    found = dyn_ros.calibrate_thresholds(external, v, DT, friction=3.0)
    at_rest = found.fixed[0] + found.at_rest[0]
    assert max(3.0, found.fixed[0]) < at_rest < 0.9 * (3.0 + found.fixed[0])
    assert not found.exceeded(external, v).any()
