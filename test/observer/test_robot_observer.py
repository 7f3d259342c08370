# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""An observer that runs by itself: a state at a time, and a recording at once."""

import numpy as np
import pytest
from observer import motions

from dyn_ros.observer.robot_observer import RobotObserver
from dyn_ros.observer.settings import ObserverSettings

SECOND = 1_000_000_000
ROBOTS = {"arm": ("panda", None), "legs": ("solo12", "floating"), "balls": ("ball_joints", None)}


def settings_of(**values):
    """Settings with bandwidths that differ."""
    return ObserverSettings(**{"gain": 60.0, "smoothing": 80.0, **values})


def recorded(model, seconds=1.0):
    """Stamps and samples of a motion with gaps, a stamp twice, and a jump to the past."""
    times = np.arange(round(200 * seconds)) / 200.0
    motion = motions.motion(model, times)
    stamp = 7 * SECOND + np.round(times * SECOND).astype(np.int64)
    third = len(stamp) // 3
    stamp[third:] += SECOND // 4  # longer than max_gap
    stamp[third + 5] = stamp[third + 4]
    stamp[2 * third :] -= 4 * SECOND
    return stamp, motion.q, motion.v, motion.tau


def one_by_one(observer, stamp, q, v, tau, known):
    """Results of updates, NaN where nothing is valid."""
    nothing = np.full(observer.model.nv, np.nan)
    rows = {"external": [], "speed": [], "residual": [], "frictionless": []}
    for k in range(len(stamp)):
        observer.update(
            int(stamp[k]),
            q[k],
            v[k],
            observer.to_torque(tau[k]),
            "" if known[k] else "unknown",
            residual=True,
        )
        for name in ("external", "speed"):
            rows[name].append(getattr(observer, name) if observer.valid else nothing)
        for name in ("residual", "frictionless"):
            rows[name].append(getattr(observer, name) if observer.residual_valid else nothing)
    return {name: np.array(values) for name, values in rows.items()}


@pytest.mark.parametrize("robot", ROBOTS)
@pytest.mark.parametrize(
    "values",
    [
        {},
        {"smoothing": 0.0},
        {"method": "direct"},
        {"method": "kalman"},
        {"effort_delay": 0.013},
        {"effort_delay": -0.013},
        {"effort_delay": 1e-10},
        {"friction": False, "friction_velocity": 0.1},
    ],
    ids=str,
)
def test_one_by_one_equals_all_at_once(robot, values):
    model = motions.lossy(*ROBOTS[robot])
    stamp, q, v, tau = recorded(model)
    known = np.ones(len(stamp), bool)
    known[70] = False
    settings = settings_of(**values)
    expected = one_by_one(RobotObserver(model, settings), stamp, q, v, tau, known)
    found = RobotObserver(model, settings).run(stamp, q, v, tau, known, expected)
    for name, rows in expected.items():
        assert np.isfinite(rows).any()
        np.testing.assert_array_equal(found[name], rows, err_msg=name)


@pytest.mark.parametrize("first", [-9 * SECOND, -SECOND // 2, -1, 0])
def test_stamps_may_be_negative(first):
    model = motions.lossy("panda")
    stamp, q, v, tau = (rows[:60] for rows in recorded(model))
    settings, known = settings_of(), np.ones(60, bool)
    later = one_by_one(RobotObserver(model, settings), stamp, q, v, tau, known)
    stamp = stamp - stamp[0] + first
    found = one_by_one(RobotObserver(model, settings), stamp, q, v, tau, known)
    assert np.isfinite(later["external"]).any()
    at_once = RobotObserver(model, settings).run(stamp, q, v, tau, known, later)
    for name, rows in later.items():
        np.testing.assert_array_equal(found[name], rows, err_msg=name)
        np.testing.assert_array_equal(at_once[name], rows, err_msg=name)


def test_why_it_restarts():
    model = motions.lossy("panda")
    stamp, q, v, tau = recorded(model)
    reasons = []
    observer = RobotObserver(model, settings_of(), reasons.append)
    results = one_by_one(observer, stamp, q, v, tau, np.arange(len(stamp)) != 30)
    assert reasons == [
        "the observer restarts: unknown",
        "the observer restarts: no states for 0.255 s, longer than max_gap, 0.2 s",
        "the observer restarts: stamps jumped back by 3.995 s",
    ]
    assert observer.restarts == 3 and not observer.problem and not observer.is_settling
    assert np.isnan(results["external"][30:40]).all()


@pytest.mark.parametrize("values", [{}, {"method": "kalman"}, {"effort_delay": 0.013}], ids=str)
def test_states_without_efforts_or_velocities_are_left_out(values):
    model = motions.lossy("panda")
    stamp, q, v, tau = recorded(model)
    rows = np.setdiff1d(np.arange(len(stamp)), [30, 31, 33, 90])
    usable = np.ones(len(rows), bool)
    expected = RobotObserver(model, settings_of(**values)).run(
        stamp[rows], q[rows], v[rows], tau[rows], usable, ["external", "residual", "speed"]
    )
    tau[[30, 33], 2] = np.nan
    v[[31, 90], 1] = np.nan
    observer = RobotObserver(model, settings_of(**values))
    found = observer.run(stamp, q, v, tau, np.ones(len(stamp), bool), expected)
    for name, results in expected.items():
        np.testing.assert_array_equal(found[name][rows], results, err_msg=name)
        assert np.isnan(np.delete(found[name], rows, axis=0)).all()
        assert np.isfinite(results[30:35]).all()


def test_efforts_that_are_missing_for_long_restart_it():
    model = motions.lossy("panda")
    stamp, q, v, tau = recorded(model)
    reasons = []
    observer = RobotObserver(model, settings_of(), reasons.append)
    for k in range(60):
        missing = "unknown effort" if k >= 10 else ""
        observer.update(int(stamp[k]), q[k], v[k], None if missing else tau[k], missing)
        assert observer.problem == missing and not (missing and observer.valid)
    assert reasons == ["the observer restarts: unknown effort"] and observer.restarts == 1


def test_values_that_cannot_be_measured():
    model = motions.lossy("panda")
    _, _, v, tau = recorded(model)
    observer = RobotObserver(model, settings_of())
    assert observer.is_plausible(v, tau).all() and not observer.implausibility(v[0], tau[0])
    v[3, 1], tau[5, 2] = -1e9, 1e9
    assert np.flatnonzero(~observer.is_plausible(v, tau)).tolist() == [3, 5]
    assert observer.implausibility(v[3], tau[3]).startswith(
        f"the velocity of {model.velocity_names[1]} is -1e+09, but more than "
    )
    assert observer.implausibility(v[5], tau[5]).endswith("its sensor, and effort_constant")
