# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Jumps of positions in recordings from which quantities are computed."""

import dataclasses

import numpy as np
import pytest
from logs.states import model_of, moving

from dyn_ros.logs.quantities import QuantitySettings, compute_observer_results
from dyn_ros.logs.state_jumps import leave_out_jumps
from dyn_ros.recordings.plan import Part
from dyn_ros.recordings.recording import Recording
from dyn_ros.states.joint_states import States

MODEL = model_of()
SETTINGS = QuantitySettings()


def recorded(change=lambda q: None):
    """Return a recording of 2 s at 1 kHz whose positions a function changes."""
    states = States(*moving(MODEL))
    change(states.q)
    return Recording(Part("recording", model=MODEL), states, 100, 50)


def residuals(recording):
    """Return the residuals of the states in the interval."""
    results = compute_observer_results(MODEL, recording.states, SETTINGS, ["residual"])
    rows = slice(recording.leading_count, len(results["residual"]) - recording.trailing_count)
    return results["residual"][rows]


def test_a_motion_without_jumps_is_unchanged():
    recording = recorded()
    result, warnings = leave_out_jumps(MODEL, recording)
    assert result.states is recording.states and not warnings


@pytest.mark.parametrize("count, restarts", [(3, False), (20, True)])
def test_states_of_a_glitch_are_left_out(count, restarts):
    def change(q):
        q[1000 : 1000 + count, 3] += 1.0

    result, warnings = leave_out_jumps(MODEL, recorded(change))
    expected = residuals(recorded())
    assert len(result) == len(expected) - count
    error = residuals(result) - np.delete(expected, np.s_[900 : 900 + count], axis=0)
    assert np.nanmax(np.abs(error)) < 0.5
    assert np.isnan(error).any() == restarts
    (warning,) = warnings
    assert f"'elbow_pitch' by 1 rad; left out {count} rows in between" in warning


@pytest.mark.parametrize("row, count", [(10, 0), (1000, 1), (1960, 0)])
def test_observers_restart_after_a_break(row, count):
    def change(q):
        q[row:] += 1.0

    result, warnings = leave_out_jumps(MODEL, recorded(change))
    assert len(warnings) == count  # of jumps in the interval only
    settled = np.isfinite(residuals(result)).all(axis=1)
    restarted = ~settled & np.isfinite(residuals(recorded())).all(axis=1)
    assert restarted.any() == (count == 1)
    assert not restarted[:900].any() and not restarted[1000:].any()


def test_whole_turns_remain():
    def change(q):
        q[1000:, 6] += 2.0 * np.pi

    recording = recorded(change)
    result, warnings = leave_out_jumps(MODEL, recording)
    assert result.states is recording.states
    assert np.allclose(residuals(result), residuals(recorded()), equal_nan=True)
    assert len(warnings) == 1 and "whole turns" in warnings[0]


def test_dates_keep_their_digits():
    def change(q):
        q[1000:, 3] += 1.0

    recording = recorded(change)
    stamp = int(recording.states.stamp[1000])
    _, (warning,) = leave_out_jumps(MODEL, recording)
    assert f"at {1e-9 * stamp:.6f} s" in warning
    with_overlap = dataclasses.replace(recording, leading_count=1001)
    assert not leave_out_jumps(MODEL, with_overlap)[1]
