# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Motors that move several joints: the last one of a wrist turns with both of its joints."""

import numpy as np
import pytest
from identification.recordings import measured, perturbed, waves
from identification.robots import UR10, load

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
    found = measured(true, time, q, v, a, tau, counts=2**19, noise=0.01, offset=None, seed=0)
    return true, time, found.q, found.tau, found.exact_tau


def described(coupled):
    model = load("ur10")
    if coupled:
        model.drives = model.drives.with_values(coupling=COUPLING)
    return model


def efforts(tau):
    """Torques of the motors from those at the joints."""
    return np.linalg.solve(COUPLING.T, tau.T).T


def test_friction_and_rotors_of_the_motors_are_found(recording):
    true, time, q, tau, exact = recording
    model = described(True)
    samples = Samples.from_arrays(model, time, q, efforts(tau))
    np.testing.assert_allclose(samples.tau, tau[np.searchsorted(time, samples.time)], atol=1e-9)
    found = dyn_ros.identify(model, samples)
    assert max(joint.after / joint.noise for joint in found.joints) < 1.1
    for own, again in zip(found.joints, found.errors(found.validation)):  # both of the motors
        assert (again.torque, again.before, again.after) == pytest.approx(
            (own.torque, own.before, own.after), rel=0.02
        )
    for name in ("friction", "damping"):
        np.testing.assert_allclose(getattr(found.identified, name), getattr(true, name), rtol=0.1)
    np.testing.assert_allclose(found.identified.drives.rotor_inertia[3:], ROTORS[3:], rtol=0.25)
    names = [f"{term}({joint})" for term in ("damping", "friction") for joint in model.joint_names]
    rows, truth = [found.base.names.index(name) for name in names], [*true.damping, *true.friction]
    within = (found.base.lower[rows] < truth) & (truth < found.base.upper[rows])
    assert within.sum() >= 10  # of 12; each interval has 95 %
    exact = exact[np.searchsorted(time, samples.time)]
    error = np.sqrt(np.mean((found.torque(samples) - exact) ** 2, axis=0))
    assert (error < 0.002 * np.sqrt(np.mean(exact**2, axis=0))).all()


def test_rotors_and_friction_of_motors_survive_files(recording, tmp_path):
    _, time, q, tau, _ = recording
    model = described(True)
    found = dyn_ros.identify(model, Samples.from_arrays(model, time, q, efforts(tau)))
    found.write_urdf(UR10, tmp_path / "robot.urdf")
    found.write_drives(tmp_path / "robot.drives.yaml")
    read = dyn_ros.Model.from_urdf_file(tmp_path / "robot.urdf")
    dyn_ros.load_drives(read, tmp_path / "robot.drives.yaml")
    some = found.samples.take(slice(None, None, 50))
    torque = dyn_ros.rnea(read, dyn_ros.Data(read), some.q, some.v, some.a)
    torque += read.drives.rotor_torque(some.a)
    np.testing.assert_allclose(
        torque + dyn_ros.joint_friction(read, some.v, torque),
        found.torque(some),
        rtol=1e-9,
        atol=1e-9,
    )


def test_without_the_coupling_the_wrist_is_wrong(recording):
    _, time, q, tau, _ = recording
    model = described(False)
    found = dyn_ros.identify(model, Samples.from_arrays(model, time, q, tau))
    assert max(joint.after / joint.noise for joint in found.joints[4:]) > 2.0


def test_a_matrix_of_motors_that_is_wrong(recording):
    _, time, q, tau, _ = recording
    for wrong in (np.where(np.eye(6), COUPLING, -COUPLING), COUPLING.T):
        model = load("ur10")
        model.drives = model.drives.with_values(coupling=wrong)
        found = "\n".join(
            dyn_ros.identify(model, Samples.from_arrays(model, time, q, efforts(tau))).warnings
        )
        assert "check the matrix of motors" in found and "declare motors" not in found, found


def test_sums_of_coupled_rows_are_those_of_a_coupling_of_one(recording):
    """A coupling that couples nothing changes nothing."""
    _, time, q, tau, _ = recording
    model, same = described(False), described(False)
    same.drives = same.drives.with_values(coupling=np.eye(6))
    found = [dyn_ros.identify(one, Samples.from_arrays(one, time, q, tau)) for one in (model, same)]
    np.testing.assert_allclose(found[1].base.estimate, found[0].base.estimate, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(
        found[1].identified.drives.rotor_inertia, found[0].identified.armature, rtol=1e-6
    )
