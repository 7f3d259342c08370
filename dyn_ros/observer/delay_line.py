# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Efforts and the states in which the motors exerted them, of samples that arrive and of all."""
from __future__ import annotations

import math
from collections import deque
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..engine.kernel.types import Array
from ..engine.model.inputs import finite_array, require_model
from ..engine.model.model import Model


class Sample(NamedTuple):
    """A state and the efforts of the motors in it."""

    time: float
    q: Array
    v: Array
    tau: Array


class DelayLine:
    """Brings efforts that lag behind positions and velocities together with these, as they arrive.

    Positions and velocities are interpolated at the time at which the motors exerted a measured
    effort; if efforts lead, these are interpolated.

    Parameters
    ----------
    model : Model
    delay : float
        By how much the efforts lag, such as ``estimate_effort_delay(...).delay``; negative: they
        lead [s].

    Raises
    ------
    ValueError
        A delay that is not a finite number.

    Examples
    --------
    Efforts that arrive 5 ms late are paired with the positions of 5 ms ago:

    >>> line = dyn_ros.DelayLine(model, 0.005)
    >>> for k in range(20):
    ...     state = line.push(0.001 * k, q + 0.001 * k * v, v, tau)
    >>> round(float(state[0]), 4)
    0.014
    """

    def __init__(self, model: Model, delay: float) -> None:
        self.delay = float(finite_array("delay", delay, ()))
        self._blend = Blend(model)
        self._samples: deque[Sample] = deque()

    def reset(self) -> None:
        """Forget all samples, after a gap or a jump of time."""
        self._samples.clear()

    def push(self, time: float, q: Array, v: Array, tau: Array) -> Sample | None:
        """Add a measured sample; return the newest state whose effort is known.

        Parameters
        ----------
        time : float
            Later than that of the sample before [s].
        q : (nq,) ndarray
        v, tau : (nv,) ndarray

        Returns
        -------
        Sample or None
            None until samples have arrived for as long as the delay.

        Raises
        ------
        ValueError
            The time is not later.
        """
        samples, newest = self._samples, Sample(time, q, v, tau)
        if self.delay == 0.0:
            return newest
        if samples and not time > samples[-1].time:
            raise ValueError(f"time: expected more than {samples[-1].time:.9f} s, the time of the "
                             f"sample before, got {time!r}; call reset after a jump")
        samples.append(Sample(time, np.array(q), np.array(v), np.array(tau)))
        lag = abs(self.delay)           # differences of times only: exact for integers as well
        while len(samples) > 2 and time - samples[1].time >= lag:
            samples.popleft()
        if len(samples) < 2 or time - samples[0].time < lag:
            return None
        before, after = samples[0], samples[1]
        share = (time - before.time - lag) / (after.time - before.time)
        if self.delay < 0.0:
            return Sample(time, q, v, before.tau + share * (after.tau - before.tau))
        return Sample(time - lag, self._blend(before.q, after.q, share),
                      before.v + share * (after.v - before.v), tau)


class StampedMotion(NamedTuple):
    """Samples in order of time: numbers and stamps [ns], (n,); q (n, nq); v and tau (n, nv)."""

    rows: NDArray[np.int64]
    stamp: NDArray[np.int64]
    q: Array
    v: Array
    tau: Array


def aligned(model: Model, motion: StampedMotion, delay: int) -> StampedMotion:
    """What a ``DelayLine`` with a delay in ns returns for each sample, without the first ones.

    ``stamp`` and ``rows`` remain those of the samples that it was pushed with.
    """
    lag = abs(delay)
    before = np.searchsorted(motion.stamp, motion.stamp - lag, side="right") - 1
    kept = np.flatnonzero(before >= 0)
    before = before[kept]
    after = before + 1
    share = ((motion.stamp[kept] - motion.stamp[before] - lag)
             / (motion.stamp[after] - motion.stamp[before]))[:, None]
    rows, stamp = motion.rows[kept], motion.stamp[kept]
    q, v, tau = motion.q[kept], motion.v[kept], motion.tau[kept]
    if delay < 0:
        tau = motion.tau[before] + share * (motion.tau[after] - motion.tau[before])
    else:
        q = Blend(model)(motion.q[before], motion.q[after], share[:, 0])
        v = motion.v[before] + share * (motion.v[after] - motion.v[before])
    return StampedMotion(rows, stamp, q, v, tau)


class Blend:
    """Configurations between two others; angles of continuous joints may have jumped by a turn."""

    def __init__(self, model: Model) -> None:
        self._model = require_model(model)
        self._wraps = np.flatnonzero([
            joint.kind == "continuous" for joint, nq in zip(model.tree.joints, model.nqs)
            for _ in range(nq)])
        self._is_flat = model.nq == model.nv and all(
            joint.kind != "planar" for joint in model.tree.joints)

    def __call__(self, q0: Array, q1: Array, share: float | Array) -> Array:
        """The configuration at a share of the way, (nq,), or (B, nq) with shares (B,)."""
        if not self._is_flat:
            return self._model.interpolate(q0, q1, share)
        step = q1 - q0
        if self._wraps.size:
            turns = step[..., self._wraps] / (2.0 * math.pi)
            step[..., self._wraps] -= 2.0 * math.pi * np.round(turns)
        blended: Array = q0 + np.asarray(share)[..., None] * step
        return blended
