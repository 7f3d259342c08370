# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""What the observer node publishes for the states of a recording, all of them at once.

The rules are those of ``nodes/observation.py``: the observer restarts after anything that it
cannot be continued over. The states between two restarts are a run. Runs that end before the
observer has settled are not computed at all.
"""
from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, fields
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..engine.algorithms import joint_friction, nonlinear_effects
from ..engine.call.algorithm import compiled
from ..engine.call.data import Data
from ..engine.kernel.types import Array
from ..engine.model import Model
from ..observer import LowPass, MomentumObserver
from ..observer.constants import KALMAN_NOISE, SETTLED
from ..observer.delay import Blend
from ..observer.momentum_observer import METHODS
from ..observer.plausible import largest_efforts, largest_speeds
from .runs_kernel import BEGINS, RUNS

_FORGOTTEN = 40.0       # time constants after which the start of a filter no longer shows
_PERIOD = 0.01          # s: an assumption, by which the bandwidth of "kalman" is estimated
_POSITIVE = ("gain", "max_gap", "cutoff", "joint_gains", "noise_torque", "noise_velocity",
             "noise_disturbance")

Index = NDArray[np.int64]


@dataclass(frozen=True)
class Settings:
    """Settings of what is computed; the defaults are those of the nodes.

    Tuples have a number for each velocity of the selected joints, or one for all; empty: the
    default.

    Attributes
    ----------
    joints : tuple of str
        Names of the joints in the result; empty: all.
    method : str
        Of the external efforts: "momentum", "direct" or "kalman".
    gain, smoothing : float
        Bandwidths of the observer and of the second low pass [1/s]; ``smoothing`` 0: none.
    joint_gains : tuple of float
        Gain for each velocity instead [1/s].
    friction : bool
        Whether damping and Coulomb friction are part of the model of the external efforts.
    friction_velocity : float
        Speed below which Coulomb friction is proportional to the velocity [rad/s, m/s].
    effort_constant : tuple of float
        Factor from the recorded effort to the one at the joint; default 1.
    effort_delay : float
        By how much the efforts lag behind positions and velocities; negative: they lead [s].
    max_gap : float
        Largest time between two states of which one continues the other [s].
    noise_torque, noise_velocity, noise_disturbance : tuple of float
        For "kalman": standard deviation of efforts [N m, N], default 0.5; of velocities [rad/s,
        m/s], default 0.001; of the change of external efforts in one second [N m, N], default 1.
    cutoff : float
        Cutoff frequency of the zero-phase filter of accelerations [Hz].

    Raises
    ------
    ValueError
        A number that cannot be used; names the setting.
    """

    joints: tuple[str, ...] = ()
    method: str = "momentum"
    gain: float = 100.0
    smoothing: float = 100.0
    joint_gains: tuple[float, ...] = ()
    friction: bool = True
    friction_velocity: float = 0.0
    effort_constant: tuple[float, ...] = ()
    effort_delay: float = 0.0
    max_gap: float = 0.2
    noise_torque: tuple[float, ...] = ()
    noise_velocity: tuple[float, ...] = ()
    noise_disturbance: tuple[float, ...] = ()
    cutoff: float = 10.0

    def __post_init__(self) -> None:
        if self.method not in METHODS:
            raise ValueError(f"method: expected one of {', '.join(METHODS)}, got "
                             f"{self.method!r:.80}")
        for each in fields(self):
            value = getattr(self, each.name)
            if each.name in ("joints", "method", "friction"):
                continue
            numbers = np.atleast_1d(np.asarray(value, float))
            if not np.isfinite(numbers).all():
                raise ValueError(f"{each.name}: expected finite numbers, got {value}")
            if each.name in _POSITIVE and not (numbers > 0.0).all():
                raise ValueError(f"{each.name}: expected more than 0, got {value}")
        for name in ("smoothing", "friction_velocity"):
            if getattr(self, name) < 0.0:
                raise ValueError(f"{name}: expected at least 0, got {getattr(self, name)}")

    @property
    def settling(self) -> float:
        """Time from the start of the observer to its first result [s]."""
        return SETTLED * self._time_constants(min(self.joint_gains, default=self.gain))

    @property
    def warm_up(self) -> float:
        """Seconds before a state after which its results no longer depend on earlier states.

        The difference is below 1e-12 of the efforts.
        """
        bandwidth = min(self.joint_gains, default=self.gain)
        if self.method == "kalman":
            slowest = (min(self.noise_disturbance, default=KALMAN_NOISE["disturbance"])
                       / max(self.noise_torque, default=KALMAN_NOISE["torque"]))
            bandwidth = min(bandwidth, slowest / math.sqrt(_PERIOD))
        return (_FORGOTTEN * self._time_constants(bandwidth) + self.max_gap
                + abs(self.effort_delay))

    def _time_constants(self, bandwidth: float) -> float:
        is_smoothed = self.smoothing and self.method != "kalman"
        return 1.0 / bandwidth + (1.0 / self.smoothing if is_smoothed else 0.0)


class Selection(NamedTuple):
    """The selected joints of a model.

    Attributes
    ----------
    position_rows, rows : ndarray of int
        Their rows in q and in v.
    position_names, names : list of str
        The names of these rows.
    """

    position_rows: Index
    rows: Index
    position_names: list[str]
    names: list[str]


def select(model: Model, joints: Sequence[str] = ()) -> Selection:
    """Select joints by name; none: all that have coordinates of their own.

    Raises
    ------
    ValueError
        An unknown name, a mimic joint, or a name that occurs twice.
    """
    own = [name for name, nv in zip(model.joint_names, model.nvs) if nv]
    for name in joints:
        if name not in own:
            what = ("is a mimic joint, without coordinates of its own"
                    if name in model.joint_names else "is no joint of the robot")
            raise ValueError(f"joints: {name!r:.80} {what}; available: {', '.join(own)}")
    if len(set(joints)) != len(joints):
        raise ValueError(f"joints: expected each name once, got {', '.join(joints)}")
    position_rows: list[int] = []
    rows: list[int] = []
    for name in joints or own:
        k = model.joint_index(name)
        position_rows += range(model.idx_q[k], model.idx_q[k] + model.nqs[k])
        rows += range(model.idx_v[k], model.idx_v[k] + model.nvs[k])
    return Selection(np.array(position_rows, np.int64), np.array(rows, np.int64),
                     [model.position_names[row] for row in position_rows],
                     [model.velocity_names[row] for row in rows])


def row_values(model: Model, settings: Settings, name: str, default: float) -> Array:
    """A number for each velocity of the model, (nv,), from a setting.

    Raises
    ------
    ValueError
        Another length than that of the selected joints.
    """
    numbers = getattr(settings, name)
    found = np.full(model.nv, default)
    if not numbers:
        return found
    rows = select(model, settings.joints).rows
    if len(numbers) not in (1, len(rows)):
        raise ValueError(f"{name}: expected one number, or {len(rows)}: one for each velocity of "
                         f"the selected joints; got {len(numbers)}")
    found[rows] = numbers
    return found


# --- runs

def runs(stamp: Index, usable: NDArray[np.bool_], max_gap: float) -> Iterator[Index]:
    """Yield the rows of each run of states that an observer can process without a restart.

    Parameters
    ----------
    stamp : (n,) ndarray of int64
        [ns].
    usable : (n,) ndarray of bool
        Whether all inputs are known.
    max_gap : float
        [s].
    """
    kind = np.empty(len(stamp), np.int8)
    find = compiled(RUNS)
    find(np.ascontiguousarray(stamp), usable.astype(np.int8), max_gap, kind)
    rows = np.flatnonzero(kind)
    starts = np.flatnonzero(kind[rows] == BEGINS)
    for start, stop in zip(starts, [*starts[1:], len(rows)]):
        yield rows[start:stop]


class _Run(NamedTuple):
    """States, and the efforts of the motors in them: samples of one run."""

    rows: Index             # of the states with which the efforts were recorded
    stamp: Index
    q: Array
    v: Array
    tau: Array


def is_moving_known(states: Any, max_gap: float) -> NDArray[np.bool_]:
    """Whether the velocities of a state are known and no joint is too far behind, (n,)."""
    found: NDArray[np.bool_] = (np.isfinite(states.v).all(axis=1)
                                & (states.behind <= round(max_gap * 1e9)))
    return found


def observe(model: Model, states: Any, settings: Settings, wanted: Collection[str]
            ) -> dict[str, Array]:
    """The residual and the external efforts of each state, as the observer node publishes them.

    Parameters
    ----------
    model : Model
    states : States
    settings : Settings
    wanted : collection of str
        Of "residual" and "external".

    Returns
    -------
    dict of str to (n, nv) ndarray
        NaN where the node publishes nothing [N m, N].

    Raises
    ------
    ValueError
        A setting that does not fit the model.
    """
    found = {name: np.full(states.v.shape, np.nan) for name in wanted}
    filters = {name: _Filter(model, settings, is_residual=name == "residual") for name in wanted}
    constant = row_values(model, settings, "effort_constant", 1.0)
    gains = row_values(model, settings, "joint_gains", settings.gain)
    settling = SETTLED * settings._time_constants(float(gains.min(initial=math.inf)))
    known = (is_moving_known(states, settings.max_gap)
             & (np.abs(states.tau * constant) <= largest_efforts(model)).all(axis=1)
             & (np.abs(states.v) <= largest_speeds(model)).all(axis=1))
    if not model.nv:
        return found
    for rows in runs(states.stamp, known, settings.max_gap):
        if 1e-9 * float(states.stamp[rows[-1]] - states.stamp[rows[0]]) < settling:
            continue
        which = _slice(rows)
        run = _Run(rows, states.stamp[which], states.q[which], states.v[which],
                   states.tau[which] * constant)
        if settings.effort_delay:
            run = aligned(model, run, round(1e9 * settings.effort_delay))
        valid = 1e-9 * (run.stamp - run.stamp[:1]) >= settling
        if not valid.any():
            continue
        dt = np.concatenate([[1.0], 1e-9 * np.diff(run.stamp)])     # the first is not used
        for name, one in filters.items():
            found[name][run.rows[valid]] = one.run(run, dt)[valid]
    return found


def _slice(rows: Index) -> Any:
    """A slice instead of consecutive rows, which copies nothing."""
    if len(rows) and rows[-1] - rows[0] == len(rows) - 1:
        return slice(int(rows[0]), int(rows[-1]) + 1)
    return rows


def aligned(model: Model, run: _Run, delay: int) -> _Run:
    """Bring efforts and the states in which the motors exerted them together: see `DelayLine`."""
    lag = abs(delay)
    before = np.searchsorted(run.stamp, run.stamp - lag, side="right") - 1
    kept = np.flatnonzero(before >= 0)
    before = before[kept]
    after = before + 1
    share = ((run.stamp[kept] - run.stamp[before] - lag)
             / (run.stamp[after] - run.stamp[before]))[:, None]
    rows, stamp = run.rows[kept], run.stamp[kept]
    q, v, tau = run.q[kept], run.v[kept], run.tau[kept]
    if delay < 0:
        tau = run.tau[before] + share * (run.tau[after] - run.tau[before])
    else:
        q = Blend(model)(run.q[before], run.q[after], share[:, 0])
        v = run.v[before] + share * (run.v[after] - run.v[before])
    return _Run(rows, stamp, q, v, tau)


class _Filter:
    """The observer and the low pass of one result."""

    def __init__(self, model: Model, settings: Settings, is_residual: bool) -> None:
        self._model, self._data = model, Data(model)
        self._is_residual = is_residual
        self._friction = is_residual or settings.friction
        method: Any = "direct" if is_residual else settings.method
        more: dict[str, Any] = {}
        if method == "kalman":
            more = {f"{name}_noise": row_values(model, settings, f"noise_{name}", default)
                    for name, default in KALMAN_NOISE.items()}
        self._observer = MomentumObserver(
            model, row_values(model, settings, "joint_gains", settings.gain), method=method,
            friction=self._friction, friction_velocity=settings.friction_velocity, **more)
        is_smoothed = settings.smoothing and settings.method != "kalman"
        self._low_pass = LowPass(settings.smoothing) if is_smoothed else None

    def run(self, run: _Run, dt: Array) -> Array:
        """The result for each sample of a run, (n, nv)."""
        self._observer.reset(self._without_acceleration(run.q[0], run.v[0], run.tau[0]))
        found = self._observer.run(run.q, run.v, run.tau, dt)
        if self._low_pass:
            self._low_pass.reset()
            found = self._low_pass.run(found, dt)
        return -found if self._is_residual else found

    def _without_acceleration(self, q: Array, v: Array, tau: Array) -> Array:
        """External efforts of a robot that does not accelerate, to start with."""
        modeled = nonlinear_effects(self._model, self._data, q, v)
        if self._friction:
            modeled = modeled + joint_friction(self._model, v)
        external: Array = modeled - tau
        return external if np.isfinite(external).all() else np.zeros(self._model.nv)
