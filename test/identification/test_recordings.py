# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The simulated recordings of the tests themselves."""

import numpy as np
import pytest
from identification.recordings import (
    feet,
    offsets,
    perturbed,
    record,
    record_flying,
    record_standing,
    waves,
)

import dyn_ros
import peer

UR10 = "ur_description/urdf/ur10_robot.urdf"


def load(robot, root_joint=None):
    text = (peer.EXAMPLE_ROBOTS / UR10).read_text() if robot == "ur10" else peer.urdf(robot)
    return dyn_ros.Model.from_urdf(text, root_joint=root_joint)


@pytest.mark.parametrize("robot", ["ur10", "panda", "solo12"])
def test_a_perturbed_robot_is_physical(robot):
    model = load(robot, "floating")
    true = perturbed(model, 0.3, seed=2)
    for before, after in zip(model.inertias, true.inertias):
        least = np.linalg.eigvalsh(after.pseudo_inertia())[0]
        assert least > -1e-12 * after.mass
        assert before.mass == after.mass == 0.0 or 0.0 < abs(after.mass / before.mass - 1.0) < 0.31
    assert (true.friction[6:] > 0.0).all() and not true.friction[:6].any()
    assert (true.armature[6:] > 0.0).all() and not true.armature[:6].any()


def test_a_recording_of_an_arm():
    model = load("ur10")
    true = perturbed(model)
    recording = record(true, waves(np.zeros(6), 1.0, [0.1, 0.3, 0.7]), offset=offsets(true))
    samples = recording.samples(model)
    rows = np.searchsorted(recording.time, samples.time - 1e-6)
    tau = dyn_ros.rnea(true, dyn_ros.Data(true), samples.q, samples.v, samples.a)
    tau += dyn_ros.joint_friction(true, samples.v) + recording.offset
    crossing = np.abs(samples.v) < 1e-3
    error = np.where(crossing, 0.0, tau - recording.exact_tau[rows])
    scale = np.sqrt(np.mean(recording.exact_tau**2, axis=0))
    assert (np.sqrt(np.mean(error**2, axis=0)) < 2e-3 * scale).all()
    noise = recording.tau - recording.exact_tau
    assert np.allclose(noise.std(axis=0) / scale, 0.02, rtol=0.05)
    assert set(recording.table()) == {"time"} | {
        f"{signal}.{name}" for signal in ("position", "effort") for name in model.joint_names
    }


@pytest.mark.parametrize("kind", [record_standing, record_flying])
def test_recordings_of_a_quadruped(kind):
    model = load("solo12", "floating")
    assert len(feet(model)) == 4
    true = perturbed(model, seed=3)
    recording = kind(true)
    samples = recording.samples(model)
    keys = {round(stamp * 1e4): row for row, stamp in enumerate(recording.time)}
    rows = np.array([keys[round(stamp * 1e4)] for stamp in samples.time])
    for derived, exact in ((samples.v, recording.exact_v), (samples.a, recording.exact_a)):
        scale = np.sqrt(np.mean(exact**2, axis=0))
        error = np.sqrt(np.mean((derived - exact[rows]) ** 2, axis=0))
        assert (error[6:] < 5e-3 * scale[6:]).all()
        assert (error[:6] < 0.1 * scale[:6]).all()  # noise of motion capture
    tau = dyn_ros.rnea(true, dyn_ros.Data(true), samples.q, samples.v, samples.a, samples.f_ext)
    tau += dyn_ros.joint_friction(true, samples.v)
    moving = np.abs(samples.v) > 1e-2
    error = np.where(moving, tau - recording.exact_tau[rows], 0.0)[:, 6:]
    assert np.sqrt(np.mean(error**2)) < 0.05 * np.sqrt(np.mean(recording.exact_tau**2))
