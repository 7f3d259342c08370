# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""What can be computed from the states of a recording, as columns of a table.

Gravity, nonlinear effects, the center of mass and the results of the observer are those that the
nodes publish for the same states. A number that is unknown, or that a node would not publish, is
NaN.
"""
from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..engine.algorithms import all_terms, rnea
from ..engine.algorithms.dynamics.friction import with_gravity
from ..engine.call.data import Data
from ..engine.kernel.types import Array
from ..engine.model import Model
from ..engine.model.bodies import Body, joined, moved
from ..observer.contacts import Contact, contacts_in
from ..observer.momentum_observer import METHODS
from ..observer.session import KALMAN_NOISE, Session, Setup, runs
from ..observer.thresholds import Thresholds
from ..states.joint_states import joint_rows
from .write import columns
from .write.columns import Table

_CHUNK = 1 << 13        # states: their intermediate results remain in the caches
_SETTLED = 16.0         # periods of the cutoff after which the ends of the states no longer matter
_FEWEST = 4             # samples of a run that is differentiated
_OF_TERMS = {"gravity": ("g",), "nle": ("nle",), "centroidal": ("com", "Ig", "hg"),
             "energy": ("kinetic_energy", "potential_energy")}
_NEED_VELOCITY = ("nle", "hg", "kinetic_energy")
_FORGOTTEN = 40.0       # time constants after which the start of a filter no longer shows
_PERIOD = 0.01          # s: an assumption, by which the bandwidth of "kalman" is estimated
THRESHOLDS = {"fixed": "thresholds.fixed", "per_speed": "thresholds.per_speed",
              "at_rest": "thresholds.at_rest"}
"""Thresholds, and the parameters of the observer node that contain them."""

_OF_OBSERVER = {"residual": ("residual",), "external": ("external",),
                "contacts": ("external", "speed")}
_POSITIVE = ("gain", "max_gap", "cutoff", "joint_gains", "noise_torque", "noise_velocity",
             "noise_disturbance")
_NOT_NEGATIVE = ("smoothing", "friction_velocity", *THRESHOLDS.values())


@dataclass(frozen=True)
class Settings:
    """Settings of what is computed; the defaults are those of the nodes.

    Tuples have a number for each velocity of the selected joints, or one for all; empty: the
    default.
    """

    joints: tuple[str, ...] = ()            # in the result; empty: all
    method: str = "momentum"                # or "direct" or "kalman": of the external efforts
    gain: float = 100.0                     # bandwidth of the observer [1/s]
    smoothing: float = 100.0                # bandwidth of the second low pass [1/s]; 0: none
    joint_gains: tuple[float, ...] = ()     # instead of gain, for each velocity [1/s]
    friction: bool = True                   # in the model of the external efforts
    friction_velocity: float = 0.0          # Coulomb friction is proportional below [rad/s, m/s]
    effort_constant: tuple[float, ...] = ()     # from the recorded effort to that at the joint
    effort_delay: float = 0.0               # of efforts behind positions; negative: they lead [s]
    max_gap: float = 0.2                    # between two states, the observer restarts after it [s]
    # for "kalman", standard deviations:
    noise_torque: tuple[float, ...] = ()        # of efforts [N m, N]
    noise_velocity: tuple[float, ...] = ()      # of velocities [rad/s, m/s]
    noise_disturbance: tuple[float, ...] = ()   # of changes of external efforts in 1 s [N m, N]
    # ``THRESHOLDS`` of contacts, for each velocity of the robot, or one for all:
    thresholds_fixed: tuple[float, ...] = ()        # [N m, N]
    thresholds_per_speed: tuple[float, ...] = ()    # [N m s, N s]
    thresholds_at_rest: tuple[float, ...] = ()      # [N m, N]
    cutoff: float = 10.0                    # of the zero-phase filter of accelerations [Hz]

    def __post_init__(self) -> None:
        if self.method not in METHODS:
            raise ValueError(f"method: expected one of {', '.join(METHODS)}, got "
                             f"{self.method!r:.80}")
        for name, value in vars(self).items():
            if name in ("joints", "method", "friction"):
                continue
            name, numbers = THRESHOLDS.get(name.removeprefix("thresholds_"), name), _numbers(
                name, value)
            if not np.isfinite(numbers).all():
                raise ValueError(f"{name}: expected finite numbers, got {value}")
            if name in _POSITIVE and not (numbers > 0.0).all():
                raise ValueError(f"{name}: expected more than 0, got {value}")
            if name in _NOT_NEGATIVE and not (numbers >= 0.0).all():
                raise ValueError(f"{name}: expected at least 0, got {value}")
        if 0.0 in self.effort_constant:
            raise ValueError("effort_constant: expected numbers other than 0, got "
                             f"{self.effort_constant}; fix joints without efforts in the "
                             "description")
        if not isinstance(self.friction, bool):
            raise ValueError(f"friction: expected True or False, got {self.friction!r:.80}")

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
        is_smoothed = self.smoothing and self.method != "kalman"
        time_constants = 1.0 / bandwidth + (1.0 / self.smoothing if is_smoothed else 0.0)
        return _FORGOTTEN * time_constants + self.max_gap + abs(self.effort_delay)


def _numbers(name: str, value: Any) -> NDArray[Any]:
    """A setting as an array, of one dimension if it may have a number for each velocity."""
    several = isinstance(getattr(Settings, name), tuple)
    try:
        numbers = np.asarray(value)
    except ValueError:                      # lists of different lengths
        numbers = np.empty((0, 0))
    if numbers.dtype.kind not in "fiu" or numbers.ndim != several:
        raise ValueError(f"{THRESHOLDS.get(name.removeprefix('thresholds_'), name)}: expected "
                         f"{'numbers' if several else 'a number'}, got {value!r:.80}")
    return numbers


def select(model: Model, joints: Sequence[str] = ()) -> tuple[list[int], list[int]]:
    """Rows in q and in v of joints, by name; none: of all that have coordinates of their own."""
    own = [name for name, nv in zip(model.joint_names, model.nvs) if nv]
    for name in joints:
        if name not in own:
            what = ("is a mimic joint, without coordinates of its own"
                    if name in model.joint_names else "is no joint of the robot")
            raise ValueError(f"joints: {name!r:.80} {what}; available: {', '.join(own)}")
    if len(set(joints)) != len(joints):
        raise ValueError(f"joints: expected each name once, got {', '.join(joints)}")
    return joint_rows(model, joints or own)


def row_values(model: Model, settings: Settings, name: str, default: float) -> Array:
    """A number for each velocity of the model, (nv,), from a setting of the selected joints."""
    numbers = getattr(settings, name)
    values = np.full(model.nv, float(default))
    if not numbers:
        return values
    _, rows = select(model, settings.joints)
    if len(numbers) not in (1, len(rows)):
        raise ValueError(f"{name}: expected one number, or {len(rows)}: one for each velocity of "
                         f"the selected joints; got {len(numbers)}")
    values[rows] = numbers
    return values


# --- quantities


def overlap(quantities: Collection[str], settings: Settings, model: Model | None = None
            ) -> tuple[float, float]:
    """Seconds of states before and after others that their quantities depend on.

    The drives of the model may add a delay of efforts.
    """
    before = after = 0.0
    if _OF_OBSERVER.keys() & set(quantities):
        drives = np.zeros(0) if model is None else model.drives.delay
        before = settings.warm_up + float(np.abs(drives).max(initial=0.0))
    if "torque" in quantities:
        after = _SETTLED / settings.cutoff
    return max(before, after), after


def compute(model: Model, states: Any, warm: int, quantities: Sequence[str],
            settings: Settings | None = None, after: int = 0) -> Table:
    """Compute quantities of states, which are in the order in which they were recorded.

    The first ``warm`` and the last ``after`` states only prepare for the others, see ``overlap``,
    and are not in the table.
    """
    settings = settings or Settings()
    wanted = columns.known_quantities(quantities)
    own = slice(warm, len(states.stamp) - after)
    maker = _Maker(model, states, own, settings)
    maker.add("time", 1e-9 * maker.stamp, "s")
    maker.add("stamp", maker.stamp, "ns")
    terms = maker.terms([term for name in wanted for term in _OF_TERMS.get(name, ())])
    observed = observe(model, states, settings, dict.fromkeys(
        result for name in wanted for result in _OF_OBSERVER.get(name, ())))
    for name in wanted:
        if name == "contacts":
            maker.contacts(*(observed[result][own] for result in _OF_OBSERVER[name]))
        elif name in observed:
            maker.add_rows(name, observed[name][own])
        else:
            getattr(maker, name)(terms)
    frame = next(frame.name for frame in model.tree.frames if frame.kind == "body")
    base = model.tree.joints[0].kind if model.njoints else ""
    moves = base in ("floating", "planar")
    return Table(maker.columns, states.log_time[own], maker.units, list(maker.rows),
                 list(maker.position_rows), frame, "world" if moves else frame,
                 base if moves and 0 in maker.rows.values() else "", maker.found)


def _lengths(model: Model) -> set[int]:
    """The rows of v that are velocities of translations."""
    counts = {"prismatic": 1, "planar": 2, "floating": 3}
    return {int(first) + k for joint, first, nv in zip(model.tree.joints, model.idx_v, model.nvs)
            for k in range(min(nv, counts.get(joint.kind, 0)))}


class _Maker:
    """Makes the columns of quantities, one method for each of them."""

    def __init__(self, model: Model, states: Any, own: slice, settings: Settings) -> None:
        self._model, self._data, self._settings = model, Data(model), settings
        self._states, self._own = states, own
        position_rows, rows = select(model, settings.joints)
        self.position_rows = {model.position_names[row]: row for row in position_rows}
        self.rows = {model.velocity_names[row]: row for row in rows}
        self.stamp = states.stamp[own]
        self._q, self._v, self._tau = states.q[own], states.v[own], states.tau[own]
        self._lengths = _lengths(model)
        self.columns: dict[str, Any] = {}
        self.found: list[Contact] = []
        self.units: dict[str, str] = {}

    def add(self, column: str, values: Any, unit: str) -> None:
        self.columns[column], self.units[column] = np.ascontiguousarray(values), unit

    def add_rows(self, quantity: str, values: Array) -> None:
        """Add a column for each selected joint, of efforts, from those of all, (n, nv)."""
        for name, row in self.rows.items():
            self.add(f"{quantity}.{name}", values[:, row], "N" if row in self._lengths else "N m")

    def terms(self, names: Sequence[str]) -> dict[str, Array]:
        """Results of ``all_terms`` for all states; as if at rest where a velocity is unknown."""
        if not names:
            return {}
        known = np.isfinite(self._v).all(axis=1)
        v = np.where(known[:, None], self._v, 0.0)
        results: dict[str, Array] = {}
        for start in range(0, max(len(self._q), 1), _CHUNK):     # without states: the shapes
            rows = slice(start, start + _CHUNK)
            parts = all_terms(self._model, self._data, self._q[rows], v[rows], only=names)
            for name, part in zip(names, parts if len(names) > 1 else [parts]):
                if name not in results:
                    results[name] = np.empty((len(self._q), *part.shape[1:]))
                results[name][rows] = part
        for name in _NEED_VELOCITY:
            if name in results:
                results[name][~known] = math.nan
        return results

    # --- quantities

    def contacts(self, external: Array, speed: Array) -> None:
        """External efforts relative to their thresholds, and when they exceed them."""
        limits = thresholds(self._model, self._settings).of(speed)
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = external / limits
        for name, row in self.rows.items():
            self.add(f"contacts.{name}", ratio[:, row], "")
        self.found = contacts_in(1e-9 * self.stamp, external, limits, self._model.velocity_names)

    def state(self, terms: dict[str, Array]) -> None:
        """Positions, velocities and efforts as recorded."""
        for name, row in self.position_rows.items():
            self.add(f"position.{name}", self._q[:, row], self._position_unit(name))
        for name, row in self.rows.items():
            self.add(f"velocity.{name}", self._v[:, row],
                     "m/s" if row in self._lengths else "rad/s")
        self.add_rows("effort", self._tau)
        for name, row in self.rows.items():
            if (unit := self._model.drives.unit[row]) != "N m":     # the default
                self.units[f"effort.{name}"] = unit

    def _position_unit(self, name: str) -> str:
        if name in self.rows:
            return "m" if self.rows[name] in self._lengths else "rad"
        last = name.rpartition("/")[2]
        return "m" if last in ("x", "y", "z") else "rad" if last in ("yaw", "theta") else ""

    def gravity(self, terms: dict[str, Array]) -> None:
        """Torques that hold the robot still."""
        self.add_rows("gravity", terms["g"])

    def nle(self, terms: dict[str, Array]) -> None:
        """Gravity, Coriolis and centrifugal torques."""
        self.add_rows("nle", terms["nle"])

    def torque(self, terms: dict[str, Array]) -> None:
        """Inverse dynamics of the filtered acceleration."""
        from ..identification.motion.filtering import derivatives, settling_samples
        states, settings = self._states, self._settings
        torque = np.full(states.v.shape, np.nan)
        for rows in runs(states.stamp, is_moving_known(states, settings.max_gap),
                         settings.max_gap):
            time = 1e-9 * (states.stamp[rows] - states.stamp[rows[0]])
            if len(rows) < _FEWEST:
                continue
            margin = settling_samples((len(rows) - 1) / time[-1], settings.cutoff)
            inner = slice(margin, len(rows) - margin)
            if len(rows) <= 2 * margin:
                continue
            v = states.v[rows]
            a = np.stack([derivatives(time, np.ascontiguousarray(column), settings.cutoff, 1)[1]
                          for column in v.T], axis=1)
            torque[rows[inner]] = rnea(self._model, self._data, states.q[rows[inner]], v[inner],
                                      a[inner])
        self.add_rows("torque", torque[self._own])

    def centroidal(self, terms: dict[str, Array]) -> None:
        """The robot as one body: center of mass, momentum and locked inertia."""
        body, lever = joined(Body.of_links(terms["Ig"], terms["com"]),
                             Body.of(self._model.base_inertia))
        fx, fy, fz, mx, my, mz = moved(lever, terms["hg"].T)
        self.add("mass", body.mass, "kg")
        self._add_vector("com", body.com, "m")
        with np.errstate(divide="ignore", invalid="ignore"):
            speed = np.where(body.mass > 0.0, [fx, fy, fz] / body.mass, math.nan)
        self._add_vector("com_velocity", speed, "m/s")
        self._add_vector("linear_momentum", (fx, fy, fz), "kg m/s")
        self._add_vector("angular_momentum", (mx, my, mz), "kg m2/s")
        for name, numbers in zip(columns.INERTIA, body.rotational):
            self.add(f"locked_inertia.{name}", numbers, "kg m2")

    def _add_vector(self, name: str, numbers: Any, unit: str) -> None:
        for axis, values in zip(columns.AXES, numbers):
            self.add(f"{name}.{axis}", values, unit)

    def energy(self, terms: dict[str, Array]) -> None:
        """Energy of the moving links."""
        kinetic, potential = terms["kinetic_energy"], terms["potential_energy"]
        self.add("energy.kinetic", kinetic, "J")
        self.add("energy.potential", potential, "J")
        self.add("energy.total", kinetic + potential, "J")

    def power(self, terms: dict[str, Array]) -> None:
        """Mechanical power of the motors; the total is that of all joints."""
        constant = row_values(self._model, self._settings, "effort_constant", 1.0)
        power = measured(self._model, self._q, self._tau * constant) * self._v
        for name, row in self.rows.items():
            self.add(f"power.{name}", power[:, row], "W")
        self.add("power.total", power.sum(axis=1), "W")


def measured(model: Model, q: Array, effort: Array) -> Array:
    """Torques at the joints (n, nv) from recorded efforts, NaN where these are unknown."""
    return with_gravity(model, Data(model), q, model.drives.to_torque(effort))


def is_moving_known(states: Any, max_gap: float) -> NDArray[np.bool_]:
    """Whether the velocities of a state are known and no joint is too far behind, (n,)."""
    known: NDArray[np.bool_] = (np.isfinite(states.v).all(axis=1)
                                & (states.behind <= round(max_gap * 1e9)))
    return known


def observe(model: Model, states: Any, settings: Settings, wanted: Collection[str]
            ) -> dict[str, Array]:
    """The "residual" and "external" efforts of each state, as the observer node publishes them.

    They are (n, nv), NaN where the node publishes nothing [N m, N].
    """
    setup = Setup.of(vars(settings), lambda name, default: row_values(
        model, settings, name.replace(".", "_"), default))
    return Session(model, setup).run(states.stamp, states.q, states.v, states.tau,
                                     is_moving_known(states, settings.max_gap), wanted)


def thresholds(model: Model, settings: Settings) -> Thresholds:
    """The thresholds of contacts, of all velocities."""
    numbers = {}
    for field, name in THRESHOLDS.items():
        values = getattr(settings, f"thresholds_{field}") or (0.0,)
        if len(values) not in (1, model.nv):
            raise ValueError(f"{name}: expected one number, or {model.nv}: one for each of "
                             f"{', '.join(model.velocity_names)}; got {len(values)}; calibrate "
                             "them for this robot")
        numbers[field] = np.broadcast_to(np.array(values, float), model.nv)
    if not settings.thresholds_fixed:
        raise ValueError("contacts require thresholds: pass --thresholds FILE, which `dyn_ros "
                         "calibrate` writes from recordings in which nothing touches the robot")
    return Thresholds(**numbers)
