# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Motors that move several joints: the last one of a wrist turns with both of its joints."""
import numpy as np
import pytest
from identification.recordings import measured, perturbed, waves
from identification.robots import load

import dyn_ros
from dyn_ros import Samples

COUPLING = np.eye(6)
COUPLING[5, 4] = 1.0
ROTORS = np.array([0.5, 0.6, 0.3, 0.02, 0.01, 0.005])


@pytest.fixture(scope="module")
def recording():
    """Efforts of the motors, with their friction and rotors."""
    true = perturbed(load("ur10"), seed=1)
    true.armature = np.zeros(6)
    true.drives = true.drives.with_values(coupling=COUPLING, rotor_inertia=ROTORS)
    time = np.arange(6000) / 250.0
    q, v, a = waves(np.zeros(6), 1.2, [0.1, 0.23, 0.61])(time)
    rigid = dyn_ros.rnea(true, dyn_ros.Data(true), q, v, a)
    tau = rigid + (a @ COUPLING.T * ROTORS) @ COUPLING
    found = measured(true, time, q, v, a, tau, counts=2 ** 19, noise=0.01, offset=None, seed=0)
    return true, time, found.q, found.tau


def described(coupled):
    model = load("ur10")
    if coupled:
        model.drives = model.drives.with_values(coupling=COUPLING)
    return model


def efforts(tau):
    """Torques of the motors from those at the joints."""
    return np.linalg.solve(COUPLING.T, tau.T).T


def test_friction_and_rotors_of_the_motors_are_found(recording):
    true, time, q, tau = recording
    model = described(True)
    samples = Samples.from_arrays(model, time, q, efforts(tau))
    np.testing.assert_allclose(samples.tau, tau[np.searchsorted(time, samples.time)], atol=1e-9)
    found = dyn_ros.identify(model, samples)
    assert max(joint.after / joint.noise for joint in found.joints) < 1.1
    for name in ("friction", "damping"):
        np.testing.assert_allclose(getattr(found.identified, name), getattr(true, name), rtol=0.1)
    np.testing.assert_allclose(found.identified.drives.rotor_inertia[3:], ROTORS[3:], rtol=0.25)
    error, size = ((x ** 2).mean(axis=0) ** 0.5 for x in (found.torque(samples) - samples.tau,
                                                          samples.tau))
    assert (error < 0.012 * size).all()


def test_without_the_coupling_the_wrist_is_wrong(recording):
    _, time, q, tau = recording
    model = described(False)
    found = dyn_ros.identify(model, Samples.from_arrays(model, time, q, tau))
    assert max(joint.after / joint.noise for joint in found.joints[4:]) > 2.0


def test_sums_of_coupled_rows_are_those_of_a_coupling_of_one(recording):
    """A coupling that couples nothing changes nothing."""
    _, time, q, tau = recording
    model, same = described(False), described(False)
    same.drives = same.drives.with_values(coupling=np.eye(6))
    found = [dyn_ros.identify(one, Samples.from_arrays(one, time, q, tau)) for one in (model, same)]
    np.testing.assert_allclose(found[1].base.estimate, found[0].base.estimate, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(found[1].identified.drives.rotor_inertia,
                               found[0].identified.armature, rtol=1e-6)
