# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Motors that move several joints: the last one of a wrist turns with both of its joints."""

import numpy as np
import pytest
from identification.recordings import measure, perturbed, waves
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
    simulated = measure(true, time, q, v, a, tau, counts=2**19, noise=0.01, offset=None, seed=0)
    return true, time, simulated.q, simulated.tau, simulated.exact_tau


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
    result = dyn_ros.identify(model, samples)
    assert max(joint.after / joint.noise for joint in result.joints) < 1.1
    for joint, recomputed in zip(result.joints, result.errors(result.validation)):
        assert (recomputed.torque, recomputed.before, recomputed.after) == pytest.approx(
            (joint.torque, joint.before, joint.after), rel=0.02
        )
    for name in ("friction", "damping"):
        np.testing.assert_allclose(getattr(result.identified, name), getattr(true, name), rtol=0.1)
    np.testing.assert_allclose(result.identified.drives.rotor_inertia[3:], ROTORS[3:], rtol=0.25)
    names = [f"{term}({joint})" for term in ("damping", "friction") for joint in model.joint_names]
    rows, truth = [result.base.names.index(name) for name in names], [*true.damping, *true.friction]
    is_inside = (result.base.lower[rows] < truth) & (truth < result.base.upper[rows])
    assert is_inside.sum() >= 10  # 12 intervals of 95 %
    exact = exact[np.searchsorted(time, samples.time)]
    error = np.sqrt(np.mean((result.torque(samples) - exact) ** 2, axis=0))
    assert (error < 0.002 * np.sqrt(np.mean(exact**2, axis=0))).all()


def test_rotors_and_friction_of_motors_survive_files(recording, tmp_path):
    _, time, q, tau, _ = recording
    model = described(True)
    result = dyn_ros.identify(model, Samples.from_arrays(model, time, q, efforts(tau)))
    result.write_urdf(UR10, tmp_path / "robot.urdf")
    result.write_drives(tmp_path / "robot.drives.yaml")
    read = dyn_ros.Model.from_urdf_file(tmp_path / "robot.urdf")
    dyn_ros.load_drives(read, tmp_path / "robot.drives.yaml")
    subset = result.samples.take(slice(None, None, 50))
    torque = dyn_ros.rnea(read, dyn_ros.Data(read), subset.q, subset.v, subset.a)
    torque += read.drives.rotor_torque(subset.a)
    np.testing.assert_allclose(
        torque + dyn_ros.joint_friction(read, subset.v, torque),
        result.torque(subset),
        rtol=1e-9,
        atol=1e-9,
    )


def test_without_the_coupling_the_wrist_is_wrong(recording):
    _, time, q, tau, _ = recording
    model = described(False)
    result = dyn_ros.identify(model, Samples.from_arrays(model, time, q, tau))
    assert max(joint.after / joint.noise for joint in result.joints[4:]) > 2.0


def test_a_matrix_of_motors_that_is_wrong(recording):
    _, time, q, tau, _ = recording
    for wrong in (np.where(np.eye(6), COUPLING, -COUPLING), COUPLING.T):
        model = load("ur10")
        model.drives = model.drives.with_values(coupling=wrong)
        warnings = "\n".join(
            dyn_ros.identify(model, Samples.from_arrays(model, time, q, efforts(tau))).warnings
        )
        assert "check the matrix of motors" in warnings and "declare motors" not in warnings, (
            warnings
        )


def test_sums_of_coupled_rows_are_those_of_a_coupling_of_one(recording):
    """A coupling that couples nothing changes nothing."""
    _, time, q, tau, _ = recording
    model, coupled = described(False), described(False)
    coupled.drives = coupled.drives.with_values(coupling=np.eye(6))
    results = [
        dyn_ros.identify(robot, Samples.from_arrays(robot, time, q, tau))
        for robot in (model, coupled)
    ]
    np.testing.assert_allclose(
        results[1].base.estimate, results[0].base.estimate, rtol=1e-6, atol=1e-8
    )
    np.testing.assert_allclose(
        results[1].identified.drives.rotor_inertia, results[0].identified.armature, rtol=1e-6
    )
