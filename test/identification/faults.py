# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Faults of real recordings, added to simulated ones whose truth is known.

    recording = record(true, stopping(excite(model), 9.0))      # an abrupt stop
    faulty = jittered(with_gaps(recording), 3e-4)               # faults can be combined
    samples = faulty.samples(model)

The exact arrays of the result have the same rows. Where values repeat, they are the true values
of the time of measurement.
"""

import dataclasses

import numpy as np


def rows_of(recording, rows):
    """Return a subset of the rows of a recording."""
    arrays = {
        field.name: value[rows]
        for field in dataclasses.fields(recording)
        if field.name != "offset"
        and isinstance(value := getattr(recording, field.name), np.ndarray)
    }
    return dataclasses.replace(recording, **arrays)


def jittered(recording, size=3e-4, seed=0):
    """Delay each time stamp by a random time [s], as a receiving computer does; keep the order.

    The times of the measurements do not change.
    """
    rng = np.random.default_rng(seed)
    delay = np.clip(size * rng.standard_normal(len(recording.time)), -3.0 * size, 3.0 * size)
    stamps = np.sort(recording.time + delay)
    return dataclasses.replace(recording, time=stamps)


def with_repeats(recording, share=0.05, seed=0):
    """Repeat the numbers of the previous row with a new stamp, never twice in succession."""
    rng = np.random.default_rng(seed)
    repeated = rng.random(len(recording.time)) < share
    repeated[0] = False
    repeated[1:] &= ~repeated[:-1]
    return dataclasses.replace(
        rows_of(recording, np.arange(len(repeated)) - repeated), time=recording.time
    )


def with_gaps(recording, count=10, length=8, seed=0):
    """Remove a few consecutive samples, several times."""
    rng = np.random.default_rng(seed)
    lost = np.zeros(len(recording.time), bool)
    for start in rng.integers(1, len(lost) - length, count):
        lost[start : start + length] = True
    return rows_of(recording, ~lost)


def with_coarse_efforts(recording, step=0.0, held=1):
    """Round efforts to steps [N m], and hold each for ``held`` samples."""
    rows = np.arange(len(recording.time)) // held * held
    tau = recording.tau[rows]
    return dataclasses.replace(recording, tau=np.round(tau / step) * step if step else tau)


def stopping(motion, stop, within=0.05):
    """Return a motion that stops abruptly: a function of time to q, v, a, as `waves` returns."""
    function = motion.at if hasattr(motion, "at") else motion

    def stopped(time):
        x = np.clip((np.asarray(time) - stop) / within, 0.0, 1.0)[:, None]
        braking = (x > 0.0) & (x < 1.0)
        speed = 1.0 - 3.0 * x**2 + 2.0 * x**3  # rate of the motion's own time
        change = np.where(braking, (6.0 * x**2 - 6.0 * x) / within, 0.0)
        passed = within * (x - x**3 + 0.5 * x**4)[:, 0]
        q, v, a = function(np.minimum(time, stop) + passed)
        return q, speed * v, speed**2 * a + change * v

    return stopped


def with_presliding(recording, length=0.01):
    """Let Coulomb friction lag behind its sign by a distance [rad, m] (Dahl 1968)."""
    v, steps = recording.exact_v, np.diff(recording.time, prepend=0.0)
    direction, directions = np.zeros(v.shape[1]), np.empty(v.shape)
    for n, step in enumerate(steps):
        end = np.sign(v[n])
        directions[n] = direction = end + (direction - end) * np.exp(-np.abs(v[n]) * step / length)
    change = recording.true.friction * (directions - np.sign(v))
    return dataclasses.replace(
        recording, tau=recording.tau + change, exact_tau=recording.exact_tau + change
    )
