# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Drive gains from a load of known mass: recordings of currents, whose truth is known."""

import copy
import dataclasses

import numpy as np
import pytest
from identification.recordings import offsets, perturbed, record, waves
from identification.robots import load

import dyn_ros

GAINS = np.array([12.1, -12.4, 10.0, 10.3, -9.2, 10.2])
MASS = 5.0


def currents(seed=0, mass=MASS, gains=GAINS, load_friction=0.05, noise=0.02):
    """Samples without and with a load, in amperes, of a robot whose inertias are not known."""
    true = perturbed(load("ur10"), seed=1)
    true.drives = true.drives.with_values(load_friction=load_friction)
    loaded = copy.copy(true)
    loaded.set_payload("load", "tool0", mass, [0.03, -0.05, 0.1], 0.02 * np.eye(3))
    motion = waves(np.zeros(6), 1.5, [0.1, 0.23, 0.5], seed)
    pair = []
    for n, robot in enumerate((true, loaded)):
        recording = record(
            robot, motion, noise=noise, rate=100.0, offset=offsets(true), seed=2 * seed + n
        )
        samples = recording.samples(load("ur10"))
        pair.append(dataclasses.replace(samples, tau=samples.tau / gains))
    return pair


def test_gains_of_either_sign_are_found():
    free, loaded = currents()
    estimate = dyn_ros.estimate_gains(load("ur10"), free, loaded, MASS, "tool0")
    np.testing.assert_allclose(estimate.gain[1:], GAINS[1:], rtol=0.03)
    assert (estimate.lower < estimate.gain).all() and (estimate.gain < estimate.upper).all()
    np.testing.assert_allclose(estimate.center, [[0.03, -0.05, 0.1]], atol=0.02)


def test_intervals_contain_the_truth():
    inside = []
    for seed in range(1, 9):
        estimate = dyn_ros.estimate_gains(load("ur10"), *currents(seed), MASS, "tool0")
        inside += ((estimate.lower < GAINS) & (estimate.upper > GAINS)).tolist()
    assert sum(inside) >= 43  # 48 intervals of 95 %: fewer with a probability of 3 %


def test_several_pairs_are_better_than_one():
    model, pairs = load("ur10"), [currents(seed, mass) for seed, mass in ((1, 3.0), (2, 6.0))]
    single_pair = dyn_ros.estimate_gains(model, *pairs[0], 3.0, "tool0")
    two_pairs = dyn_ros.estimate_gains(model, *map(list, zip(*pairs)), [3.0, 6.0], "tool0")
    assert (
        np.log((two_pairs.upper - two_pairs.lower) / (single_pair.upper - single_pair.lower)).mean()
        < 0.0
    )
    np.testing.assert_allclose(two_pairs.gain[1:], GAINS[1:], rtol=0.02)


def test_efforts_that_are_not_measured():
    free, loaded = currents()
    silent = dataclasses.replace(loaded, tau=np.zeros_like(loaded.tau))
    with pytest.raises(ValueError, match="in all recordings; record the same motion with and"):
        dyn_ros.estimate_gains(load("ur10"), free, silent, MASS, "tool0")


def test_recordings_without_the_load():
    free, _ = currents()
    with pytest.raises(ValueError, match="no load, or a .* one than 5 kg; check its mass, in kg"):
        dyn_ros.estimate_gains(load("ur10"), free, free, MASS, "tool0")


def test_a_mass_in_grams():
    with pytest.raises(ValueError, match="much smaller .* than 5000 kg; check its mass, in kg"):
        dyn_ros.estimate_gains(load("ur10"), *currents(), 1000.0 * MASS, "tool0")


def test_a_description_without_masses():
    model = load("ur10")
    model.inertial_parameters = np.zeros_like(model.inertial_parameters)
    with pytest.raises(ValueError, match="no joint moves a mass in the description"):
        dyn_ros.estimate_gains(model, *currents(), MASS, "tool0")


def test_a_description_with_rough_masses():
    model, (free, loaded) = load("ur10"), currents()
    expected = dyn_ros.estimate_gains(model, free, loaded, MASS, "tool0").gain
    for factor in (0.3, 3.0):
        model.inertial_parameters = factor * load("ur10").inertial_parameters
        gain = dyn_ros.estimate_gains(model, free, loaded, MASS, "tool0").gain
        np.testing.assert_allclose(gain, expected, rtol=1e-3)


@pytest.mark.parametrize(
    "arguments, reason",
    [
        ((0.0, "tool0"), "mass: expected more than 0 kg, got 0"),
        (([1.0, 2.0], "tool0"), "mass: expected one for each of 1 recordings with a load, got 2"),
        ((1.0, "base_link"), "frame: 'base_link' is fixed; name one that moves"),
        ((1.0, "tool9"), "tool9"),
        ((1.0, ["tool0", "tool0"]), "frame: expected one for each of 1"),
    ],
)
def test_bad_arguments(arguments, reason):
    free, loaded = (samples.take(slice(0, 500)) for samples in currents())
    with pytest.raises(ValueError) as error:
        dyn_ros.estimate_gains(load("ur10"), free, loaded, *arguments)
    assert reason in str(error.value)
