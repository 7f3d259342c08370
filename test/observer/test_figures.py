# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""A push of 5 N on the tool of a moving arm: how soon it is seen, and in which direction."""

import numpy as np
import pytest
from identification.robots import load
from observer.simulated import WORLD_AXES, Arm, Push, with_friction

import dyn_ros

TOOL, DT = {"panda": "panda_hand", "ur5": "tool0"}, 1e-3
PUSHES, BEFORE = 60, 400  # pushes; samples before each


def direction(model, data, recording, external, thresholds, frame):
    """The mean force without a torque, from 100 ms after the start of a push to 300 ms, (3,)."""
    rows = slice(BEFORE + 100, BEFORE + 300, 10)
    J = dyn_ros.frame_jacobian(model, data, recording.q[rows], frame, WORLD_AXES)[:, :3]
    W = thresholds.of(recording.v[rows])[:, None, :] ** -2.0
    A, b = (J * W) @ J.swapaxes(1, 2), (J * W) @ external[rows][:, :, None]
    force = np.linalg.solve(A, b)[:, :, 0].mean(axis=0)
    return force / np.linalg.norm(force)


@pytest.mark.parametrize("name", TOOL)
@pytest.mark.parametrize("velocity", ["rounded", "differences"])
def test_a_push(name, velocity):
    """All pushes are seen within 20 ms, without false alarms; the direction is within 5 degrees.

    The observer is that of observer_node, with its default bandwidths.
    Differences of positions of 2^20 counts per revolution have a noise of 6 mrad/s per sample.
    """
    model = load(name)
    model = with_friction(model.reduced({"panda_finger_joint1": 0.0}) if name == "panda" else model)
    data, arm = dyn_ros.Data(model), Arm(model, velocity=velocity)
    observer = dyn_ros.MomentumObserver(model, gain=100.0)

    def observed(recording):
        observer.reset()
        external = observer.run(recording.q, recording.v, recording.tau, DT)
        return dyn_ros.LowPass(100.0).run(external, DT)

    calibration = arm.record(300.0)
    external = observed(calibration)[300:]
    thresholds = dyn_ros.calibrate_thresholds(
        external, calibration.v[300:], DT, friction=model.friction, least=2e-3 * model.effort_limit
    )
    rng, seen, angles = np.random.default_rng(0), [], []
    for number in range(PUSHES):
        true = rng.standard_normal(3)
        true /= np.linalg.norm(true)
        start = 5000.0 + 3.7 * number
        push = Push(TOOL[name], 5.0 * true, start=start + BEFORE * DT)
        recording = arm.record(0.8, [push], start=start)
        external = observed(recording)
        exceeded = thresholds.exceeded(external, recording.v).any(axis=1)
        assert not exceeded[100:BEFORE].any()  # of the start, the first velocity has noise
        rows = np.flatnonzero(exceeded[BEFORE:])
        seen.append(1000.0 * DT * rows[0] if rows.size else np.inf)
        found = direction(model, data, recording, external, thresholds, TOOL[name])
        angles.append(np.degrees(np.arccos(np.clip(found @ true, -1.0, 1.0))))
    assert max(seen) <= 20.0
    assert max(angles) < 5.0
