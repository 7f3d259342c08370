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
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..engine.algorithms import all_terms, rnea
from ..engine.algorithms.dynamics.friction import with_gravity
from ..engine.call.data import Data
from ..engine.kernel.types import Array
from ..engine.model import Model
from ..engine.model.bodies import Body, joined, moved
from ..engine.model.coordinates import is_linear, own_joints
from ..observer.contacts import Contact, contacts_in
from ..observer.session import Session, runs
from ..observer.thresholds import Thresholds
from ..states.joint_states import States, joint_rows
from .quantity_settings import QuantitySettings as QuantitySettings
from .velocities import FEWEST, from_positions
from .write import quantity_table
from .write.quantity_table import Table

_CHUNK = 1 << 13  # states: their intermediate results remain in the caches
_SETTLED = 16.0  # periods of the cutoff after which the ends of the states no longer matter
_OF_TERMS = {
    "gravity": ("g",),
    "nle": ("nle",),
    "centroidal": ("com", "Ig", "hg"),
    "energy": ("kinetic_energy", "potential_energy"),
}
_NEED_VELOCITY = ("nle", "hg", "kinetic_energy")
OF_VELOCITIES = {*quantity_table.REQUIREMENTS, "centroidal", "energy"}
_OF_OBSERVER = {
    "residual": ("residual",),
    "external": ("external",),
    "contacts": ("external", "speed"),
}


def select(model: Model, joints: Sequence[str] = ()) -> tuple[list[int], list[int]]:
    """Rows in q and in v of joints, by name; none: of all that have coordinates of their own."""
    own = joints_of(model)
    for name in joints:
        if name not in own:
            what = (
                "is a mimic joint, without coordinates of its own"
                if name in model.joint_names
                else "is no joint of the robot"
            )
            raise ValueError(f"joints: {name!r:.80} {what}; available: {', '.join(own)}")
    if len(set(joints)) != len(joints):
        raise ValueError(f"joints: expected each name once, got {', '.join(joints)}")
    return joint_rows(model, joints or own)


def effort_constant(model: Model, settings: QuantitySettings) -> Array:
    """Factor from recorded efforts to those of the drives, (nv,)."""
    return settings.of_velocities("effort_constant", model, select(model, settings.joints)[1])


# --- quantities


def overlap(
    quantities: Collection[str], settings: QuantitySettings, model: Model | None = None
) -> tuple[float, float]:
    """Seconds of states before and after others that their quantities depend on.

    The drives of the model may add a delay of efforts.
    """
    before = after = 0.0
    if _OF_OBSERVER.keys() & set(quantities):
        drives = np.zeros(0) if model is None else model.drives.delay
        before = settings.warm_up + float(np.abs(drives).max(initial=0.0))
    has_rates = settings.velocity is not True and bool(OF_VELOCITIES & set(quantities))
    if "torque" in quantities or has_rates:
        after = _SETTLED / settings.cutoff
    return before + after if has_rates else max(before, after), after


def compute(
    model: Model,
    states: States,
    warm: int,
    quantities: Sequence[str],
    settings: QuantitySettings | None = None,
    after: int = 0,
) -> Table:
    """Compute quantities of states, which are in the order in which they were recorded.

    The first ``warm`` and the last ``after`` states only prepare for the others, see ``overlap``,
    and are not in the table.
    """
    settings = settings or QuantitySettings()
    wanted = quantity_table.known_quantities(quantities)
    own = slice(warm, len(states.stamp) - after)
    recorded = states.v[own]
    if OF_VELOCITIES & set(wanted):
        states = from_positions(model, states, settings)
    maker = _Maker(model, states, own, settings, recorded)
    maker.add("time", 1e-9 * maker.stamp, "s")
    maker.add("stamp", maker.stamp, "ns")
    terms = maker.terms([term for name in wanted for term in _OF_TERMS.get(name, ())])
    observed = observe(
        model,
        states,
        settings,
        dict.fromkeys(result for name in wanted for result in _OF_OBSERVER.get(name, ())),
    )
    for name in wanted:
        if name == "contacts":
            maker.contacts(*(observed[result][own] for result in _OF_OBSERVER[name]))
        elif name in observed:
            maker.add_rows(name, observed[name][own])
        else:
            getattr(maker, name)(terms)
    frame = model.tree.root_link
    base = model.tree.joints[0].kind if model.njoints else ""
    moves = base in ("floating", "planar")
    return Table(
        maker.columns,
        states.log_time[own],
        maker.units,
        list(maker.rows),
        list(maker.position_rows),
        frame,
        "world" if moves else frame,
        base if moves and 0 in maker.rows.values() else "",
        maker.found,
    )


class _Maker:
    """Makes the columns of quantities, one method for each of them."""

    def __init__(
        self, model: Model, states: States, own: slice, settings: QuantitySettings, recorded: Array
    ) -> None:
        self._recorded = recorded  # velocities (n, nv)
        self._model, self._data, self._settings = model, Data(model), settings
        self._states, self._own = states, own
        position_rows, rows = select(model, settings.joints)
        self.position_rows = {model.position_names[row]: row for row in position_rows}
        self.rows = {model.velocity_names[row]: row for row in rows}
        self.stamp = states.stamp[own]
        self._q, self._v, self._tau = states.q[own], states.v[own], states.tau[own]
        self._lengths = set(np.flatnonzero(is_linear(model)).tolist())
        self.columns: dict[str, Any] = {}
        self.found: list[Contact] = []
        self.units: dict[str, str] = {}

    def add(self, column: str, values: Any, unit: str) -> None:
        self.columns[column], self.units[column] = np.ascontiguousarray(values), unit

    def add_rows(self, quantity: str, values: Array) -> None:
        """Add a column for each selected joint, from efforts of all joints, (n, nv)."""
        for name, row in self.rows.items():
            self.add(f"{quantity}.{name}", values[:, row], "N" if row in self._lengths else "N m")

    def terms(self, names: Sequence[str]) -> dict[str, Array]:
        """Results of ``all_terms`` for all states; as if at rest where a velocity is unknown."""
        if not names:
            return {}
        known = np.asarray(np.isfinite(self._v).all(axis=1))
        v = np.where(known[:, None], self._v, 0.0)
        results: dict[str, Array] = {}
        for start in range(0, max(len(self._q), 1), _CHUNK):  # without states: the shapes
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
        self.found = contacts_in(
            np.multiply(1e-9, self.stamp, dtype=float), external, limits, self._model.velocity_names
        )

    def state(self, terms: dict[str, Array]) -> None:
        """Positions, velocities and efforts as recorded."""
        for name, row in self.position_rows.items():
            self.add(f"position.{name}", self._q[:, row], self._position_unit(name))
        for name, row in self.rows.items():
            self.add(
                f"velocity.{name}",
                self._recorded[:, row],
                "m/s" if row in self._lengths else "rad/s",
            )
        self.add_rows("effort", self._tau)
        for name, row in self.rows.items():
            if (unit := self._model.drives.unit[row]) != "N m":  # the default
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
        for rows in runs(states.stamp, is_moving_known(states, settings.max_gap), settings.max_gap):
            time = 1e-9 * (states.stamp[rows] - states.stamp[rows[0]])
            if len(rows) < FEWEST:
                continue
            margin = settling_samples((len(rows) - 1) / time[-1], settings.cutoff)
            inner = slice(margin, len(rows) - margin)
            if len(rows) <= 2 * margin:
                continue
            v = states.v[rows]
            a = derivatives(time, v.T, settings.cutoff, 1)[1].T
            torque[rows[inner]] = rnea(
                self._model, self._data, states.q[rows[inner]], v[inner], a[inner]
            )
        self.add_rows("torque", torque[self._own])

    def centroidal(self, terms: dict[str, Array]) -> None:
        """The robot as one body: center of mass, momentum and locked inertia."""
        body, lever = joined(
            Body.of_links(terms["Ig"], terms["com"]), Body.of(self._model.base_inertia)
        )
        fx, fy, fz, mx, my, mz = moved(lever, terms["hg"].T)
        self.add("mass", body.mass, "kg")
        self._add_vector("com", body.com, "m")
        with np.errstate(divide="ignore", invalid="ignore"):
            speed = np.where(body.mass > 0.0, [fx, fy, fz] / body.mass, math.nan)
        self._add_vector("com_velocity", speed, "m/s")
        self._add_vector("linear_momentum", (fx, fy, fz), "kg m/s")
        self._add_vector("angular_momentum", (mx, my, mz), "kg m2/s")
        for name, numbers in zip(quantity_table.INERTIA, body.rotational):
            self.add(f"locked_inertia.{name}", numbers, "kg m2")

    def _add_vector(self, name: str, numbers: Any, unit: str) -> None:
        for axis, values in zip(quantity_table.AXES, numbers):
            self.add(f"{name}.{axis}", values, unit)

    def energy(self, terms: dict[str, Array]) -> None:
        """Energy of the moving links."""
        kinetic, potential = terms["kinetic_energy"], terms["potential_energy"]
        self.add("energy.kinetic", kinetic, "J")
        self.add("energy.potential", potential, "J")
        self.add("energy.total", kinetic + potential, "J")

    def power(self, terms: dict[str, Array]) -> None:
        """Mechanical power of the motors, for each joint and in total."""
        constant = effort_constant(self._model, self._settings)
        power = measured(self._model, self._q, self._tau * constant) * self._v
        for name, row in self.rows.items():
            self.add(f"power.{name}", power[:, row], "W")
        self.add("power.total", power.sum(axis=1), "W")


def measured(model: Model, q: Array, effort: Array) -> Array:
    """Torques at the joints (n, nv) from recorded efforts, NaN where these are unknown."""
    return with_gravity(model, Data(model), q, model.drives.to_torque(effort))


def is_moving_known(states: States, max_gap: float) -> NDArray[np.bool_]:
    """Whether the velocities of a state are known and no joint is too far behind, (n,)."""
    known: NDArray[np.bool_] = np.isfinite(states.v).all(axis=1) & (
        states.behind <= round(max_gap * 1e9)
    )
    return known


def observe(
    model: Model, states: States, settings: QuantitySettings, wanted: Collection[str]
) -> dict[str, Array]:
    """The "residual" and "external" efforts of each state, as the observer node publishes them.

    They are (n, nv), NaN where the node publishes nothing [N m, N].
    """
    _, rows = select(model, settings.joints)
    return Session(model, settings, rows=rows).run(
        states.stamp,
        states.q,
        states.v,
        states.tau,
        is_moving_known(states, settings.max_gap),
        wanted,
    )


def joints_of(model: Model) -> tuple[str, ...]:
    """The joints with coordinates of their own."""
    return tuple(own_joints(model))


def thresholds(model: Model, settings: QuantitySettings) -> Thresholds:
    """The thresholds of contacts, of all velocities."""
    require_thresholds(settings)
    own, numbers = joints_of(model), {}
    if settings.calibrated not in ((), own):
        raise ValueError(
            f"thresholds: of a robot with the joints {', '.join(settings.calibrated)};"
            f" this one has {', '.join(own)}; calibrate them for this robot"
        )
    try:
        for field in ("fixed", "per_speed", "at_rest"):
            numbers[field] = settings.of_velocities(f"thresholds_{field}", model, slice(None), 0.0)
    except ValueError as error:
        raise ValueError(f"{error}; calibrate them for this robot") from None
    return Thresholds(**numbers)


def require_thresholds(settings: QuantitySettings) -> None:
    """Raise a ValueError if contacts cannot be computed, for lack of thresholds."""
    if not settings.thresholds_fixed:
        raise ValueError(
            "contacts: pass --thresholds FILE.yaml, which `dyn_ros calibrate` writes "
            "from recordings in which nothing touches the robot"
        )
