# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Faults of measured efforts: missing, stuck, saturated, of the wrong sign or in other units.

Measured efforts are compared with those that the model needs for the motion, both as means of
intervals of 0.1 s, or of five samples if these take longer. A fault is reported only if neither a
payload nor a push explains it, and if the motion contains enough information. An arm at rest
contains none, nor does a joint with a vertical axis that does not accelerate. What remains
unexplained is not a fault.
"""

from __future__ import annotations

import math
from collections import deque

import numpy as np

from ..engine.call.data import Data
from ..engine.kernel.types import Array, ArrayLike
from ..engine.kernel.validation import one_each, require_model
from ..engine.model.model import Model
from . import fault_checks
from .fault_checks import PERIOD, EffortFault, IntervalMeans
from .momentum_observer import momentum_observer

WINDOW = 60.0
"""Duration of the motion that is compared [s]."""

_RECENT_WINDOW = 20.0  # s; checked separately if the whole window has no fault
_MIN_SAMPLES = 5  # per mean
_SETTLING_TIME_CONSTANTS = 10.0  # earlier samples do not count
_CHECK_PERIOD = 1.0  # s


class EffortMonitor:
    """Finds faults of measured efforts while a robot moves.

    Pass each sample to it, with the external efforts of a ``MomentumObserver``: measured plus
    external efforts are the efforts that the model needs. A sample takes a few microseconds; once
    per second, a check takes a few milliseconds. It examines the last 600 intervals, one minute of
    0.1 s each, and if these contain no fault, the last 200 by themselves. A robot with a floating
    base is compared only while nothing supports it.

    Parameters
    ----------
    model : Model
    gain : float or (nv,) array_like
        Of the observer [1/s].

    Attributes
    ----------
    faults : tuple of EffortFault
        Of the last check.

    Raises
    ------
    ValueError
        A gain that is not positive.

    Examples
    --------
    >>> monitor, observer = dyn_ros.EffortMonitor(model), dyn_ros.MomentumObserver(model)
    >>> holding = dyn_ros.generalized_gravity(model, data, q).copy()
    >>> for _ in range(100):
    ...     external = observer.update(q, np.zeros(7), holding, 0.001)
    ...     checked = monitor.update(q, np.zeros(7), holding, external, 0.001)
    >>> monitor.faults
    ()
    """

    def __init__(self, model: Model, gain: float | ArrayLike = 50.0) -> None:
        self._model = require_model(model)
        self._gain = one_each("gain", gain, model.nv, above=0.0)
        self._data, self._typical_effort = Data(model), fault_checks.typical_efforts(model)
        self.reset()

    def reset(self) -> None:
        """Forget all samples, when the observer starts again."""
        nv = self._model.nv
        self.faults: tuple[EffortFault, ...] = ()
        self._block: list[tuple[Array, Array, Array]] = []
        self._intervals: deque[IntervalMeans] = deque(maxlen=round(WINDOW / PERIOD))
        self._filtered, self._last_tau = np.zeros(nv), np.zeros(nv)
        self._decay, self._dt = np.zeros(nv), 0.0
        self._age, self._elapsed, self._time_since_check = -1.0, 0.0, 0.0
        self._settling_time = _SETTLING_TIME_CONSTANTS / float(self._gain.min(initial=math.inf))

    def update(self, q: Array, v: Array, tau: Array, external: Array, dt: float) -> bool:
        """Add a sample.

        Parameters
        ----------
        q, v, tau, dt
            As for ``MomentumObserver.update``.
        external : (nv,) ndarray
            What it returned.

        Returns
        -------
        bool
            Whether ``faults`` has just been checked.
        """
        if dt != self._dt:
            self._dt, self._decay = dt, np.exp(-self._gain * dt)
        if self._age < 0.0:
            self._filtered, self._age = np.array(tau, float), 0.0
        else:
            mean = 0.5 * (self._last_tau + tau)
            self._filtered = mean + self._decay * (self._filtered - mean)
            self._age += dt
        self._last_tau = np.array(tau, float)
        if self._age < self._settling_time:
            return False
        self._block.append((self._last_tau, self._filtered, np.array(external, float)))
        self._elapsed += dt
        if self._elapsed < PERIOD or len(self._block) < _MIN_SAMPLES:
            return False
        self._intervals.append(
            fault_checks.average_interval(q, v, self._block, self._model.effort_limit)
        )
        self._time_since_check += self._elapsed
        self._block, self._elapsed = [], 0.0
        if self._time_since_check < _CHECK_PERIOD:
            return False
        self._time_since_check = 0.0
        intervals = list(self._intervals)
        self.faults = self._find_faults(intervals) or self._find_faults(
            intervals[-round(_RECENT_WINDOW / PERIOD) :]
        )
        return True

    def _find_faults(self, intervals: list[IntervalMeans]) -> tuple[EffortFault, ...]:
        """Return the faults in successive intervals."""
        return fault_checks.find_faults_in_means(
            self._model, self._data, self._typical_effort, intervals
        )


def find_effort_faults(
    model: Model,
    q: ArrayLike,
    v: ArrayLike,
    tau: ArrayLike,
    dt: float,
    *,
    gain: float | ArrayLike = 50.0,
) -> tuple[EffortFault, ...]:
    """Find faults of the measured efforts of a recording.

    Parameters
    ----------
    model, q, v, tau, gain
        As for ``momentum_observer``, which computes what the model needs.
    dt : float
        Sampling period [s].

    Returns
    -------
    tuple of EffortFault
        At most one of each kind for each coordinate. Empty without faults, or if the motion is too
        short or slow to find them.

    Raises
    ------
    ValueError
        Invalid arrays, as for ``momentum_observer``.

    Examples
    --------
    >>> dyn_ros.find_effort_faults(model, recording.q, recording.v, recording.tau, 0.01)
    ()

    The efforts of the fourth joint have the wrong sign:

    >>> wrong = recording.tau.copy()
    >>> wrong[:, 3] *= -1.0
    >>> faults = dyn_ros.find_effort_faults(model, recording.q, recording.v, wrong, 0.01)
    >>> [(fault.joint, fault.kind) for fault in faults]
    [('elbow_pitch', 'sign')]
    """
    external = momentum_observer(model, q, v, tau, dt, gain)
    monitor = EffortMonitor(model, gain)
    faults: dict[tuple[str, str], EffortFault] = {}
    for sample in zip(np.asarray(q, float), np.asarray(v, float), np.asarray(tau, float), external):
        if monitor.update(*sample, dt):
            for fault in monitor.faults:
                faults.setdefault((fault.joint, fault.kind), fault)
    return tuple(faults.values())
