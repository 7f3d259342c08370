# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Quantities that are computed from the states of a recording, as columns of a table.

Gravity, nonlinear effects, the center of mass and the results of the observer equal those that the
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
from ..engine.algorithms.dynamics.friction import add_compensated_gravity
from ..engine.call.data import Data
from ..engine.kernel.names import short_repr
from ..engine.kernel.types import Array
from ..engine.model import Model
from ..engine.model.composite_bodies import Body, join_bodies, move_reference_point
from ..engine.model.coordinates import independent_joint_indices, is_linear
from ..observer.contact_intervals import ContactInterval, find_contact_intervals
from ..observer.robot_observer import RobotObserver, split_runs
from ..observer.thresholds import Thresholds
from ..states.joint_states import States, joint_rows
from .quantity_settings import QuantitySettings as QuantitySettings
from .velocities import MIN_RUN_LENGTH, compute_missing_velocities
from .write import quantity_table
from .write.quantity_table import Table

_BATCH_SIZE = 1 << 13  # states; their intermediate results fit in the caches
_SETTLING_TIME = 16.0  # periods of the cutoff; beyond it, the end of a filter's input has no effect
_TERMS_BY_QUANTITY = {
    "gravity": ("g",),
    "nle": ("nle",),
    "centroidal": ("com", "Ig", "hg"),
    "energy": ("kinetic_energy", "potential_energy"),
}
_VELOCITY_TERMS = ("nle", "hg", "kinetic_energy")
VELOCITY_QUANTITIES = {*quantity_table.REQUIREMENTS, "centroidal", "energy"}
_OBSERVER_RESULTS_BY_QUANTITY = {
    "residual": ("residual",),
    "external": ("external",),
    "contacts": ("external", "speed"),
}


def select_joints(model: Model, joints: Sequence[str] = ()) -> tuple[list[int], list[int]]:
    """Return the rows in q and in v of the named joints; by default of all independent joints."""
    available = independent_joints(model)
    for name in joints:
        if name not in available:
            what = (
                "is a mimic joint, without coordinates of its own"
                if name in model.joint_names
                else "is no joint of the robot"
            )
            raise ValueError(
                f"joints: {short_repr(name)} {what}; available: {', '.join(available)}"
            )
    if len(set(joints)) != len(joints):
        raise ValueError(f"joints: expected each name once, got {', '.join(joints)}")
    return joint_rows(model, joints or available)


def effort_constants(model: Model, settings: QuantitySettings) -> Array:
    """Return the factors from recorded efforts to efforts of the drives, (nv,)."""
    return settings.velocity_values(
        "effort_constant", model, select_joints(model, settings.joints)[1]
    )


# --- quantities


def required_overlap(
    quantities: Collection[str], settings: QuantitySettings, model: Model | None = None
) -> tuple[float, float]:
    """Return the durations before and after a part whose states its quantities depend on [s].

    The drives of the model may add a delay of efforts.
    """
    before = after = 0.0
    if _OBSERVER_RESULTS_BY_QUANTITY.keys() & set(quantities):
        delay = np.zeros(0) if model is None else model.drives.delay
        before = settings.warm_up + float(np.abs(delay).max(initial=0.0))
    may_differentiate = settings.velocity is not True and bool(
        VELOCITY_QUANTITIES & set(quantities)
    )
    if "torque" in quantities or may_differentiate:
        after = _SETTLING_TIME / settings.cutoff
    return before + after if may_differentiate else max(before, after), after


def compute_quantities(
    model: Model,
    states: States,
    leading_count: int,
    quantities: Sequence[str],
    settings: QuantitySettings | None = None,
    trailing_count: int = 0,
) -> Table:
    """Compute quantities of states, which are in the order in which they were recorded.

    The table does not contain the first ``leading_count`` and the last ``trailing_count`` states,
    on which the quantities of the others depend, see ``required_overlap``. ``quantities`` are names
    of ``quantity_table``; raise a ValueError for others, or for settings of another robot.
    """
    settings = settings or QuantitySettings()
    quantities = quantity_table.order_quantities(quantities)
    table_rows = slice(leading_count, len(states.stamp) - trailing_count)
    recorded_v = states.v[table_rows]
    if VELOCITY_QUANTITIES & set(quantities):
        states = compute_missing_velocities(model, states, settings)
    builder = _TableBuilder(model, states, table_rows, settings, recorded_v)
    builder.add("time", 1e-9 * builder.stamp, "s")
    builder.add("stamp", builder.stamp, "ns")
    terms = builder.compute_terms(
        [term for name in quantities for term in _TERMS_BY_QUANTITY.get(name, ())]
    )
    results = dict.fromkeys(
        result for name in quantities for result in _OBSERVER_RESULTS_BY_QUANTITY.get(name, ())
    )
    observed = compute_observer_results(model, states, settings, results)
    for name in quantities:
        if name == "contacts":
            builder.contacts(observed["external"][table_rows], observed["speed"][table_rows])
        elif name in observed:
            builder.add_joint_columns(name, observed[name][table_rows])
        else:
            getattr(builder, name)(terms)
    frame = model.tree.root_link
    base = model.tree.joints[0].kind if model.njoints else ""
    base_moves = base in ("floating", "planar")
    return Table(
        builder.columns,
        states.log_time[table_rows],
        builder.units,
        list(builder.rows),
        list(builder.position_rows),
        frame,
        "world" if base_moves else frame,
        base if base_moves and 0 in builder.rows.values() else "",
        builder.contacts_found,
    )


class _TableBuilder:
    """Columns of a table of ``states[rows]``, to which the method of each quantity adds its own.

    ``recorded_v`` (n, nv) are the velocities in the recording; those in ``states`` may be computed
    from the positions.
    """

    def __init__(
        self,
        model: Model,
        states: States,
        table_rows: slice,
        settings: QuantitySettings,
        recorded_v: Array,
    ) -> None:
        self._recorded_v = recorded_v
        self._model, self._data, self._settings = model, Data(model), settings
        self._states, self._table_rows = states, table_rows
        position_rows, rows = select_joints(model, settings.joints)
        self.position_rows = {model.position_names[row]: row for row in position_rows}
        self.rows = {model.velocity_names[row]: row for row in rows}
        self.stamp = states.stamp[table_rows]
        self._q, self._v = states.q[table_rows], states.v[table_rows]
        self._tau = states.tau[table_rows]
        self._linear_rows = set(np.flatnonzero(is_linear(model)).tolist())
        self.columns: dict[str, Any] = {}
        self.contacts_found: list[ContactInterval] = []
        self.units: dict[str, str] = {}

    def add(self, column: str, values: Any, unit: str) -> None:
        """Add a column."""
        self.columns[column], self.units[column] = np.ascontiguousarray(values), unit

    def add_joint_columns(self, quantity: str, efforts: Array) -> None:
        """Add a column for each selected joint, from efforts of all joints, (n, nv)."""
        for name, row in self.rows.items():
            unit = "N" if row in self._linear_rows else "N m"
            self.add(f"{quantity}.{name}", efforts[:, row], unit)

    def compute_terms(self, names: Sequence[str]) -> dict[str, Array]:
        """Return results of ``all_terms`` for all states, by name.

        Where a velocity is unknown, results that depend on velocities are NaN.
        """
        if not names:
            return {}
        is_known = np.asarray(np.isfinite(self._v).all(axis=1))
        v = np.where(is_known[:, None], self._v, 0.0)
        results: dict[str, Array] = {}
        # one batch even without states, for the shapes of the results
        for start in range(0, max(len(self._q), 1), _BATCH_SIZE):
            batch = slice(start, start + _BATCH_SIZE)
            values = all_terms(self._model, self._data, self._q[batch], v[batch], only=names)
            for name, array in zip(names, values if len(names) > 1 else [values]):
                if name not in results:
                    results[name] = np.empty((len(self._q), *array.shape[1:]))
                results[name][batch] = array
        for name in _VELOCITY_TERMS:
            if name in results:
                results[name][~is_known] = math.nan
        return results

    # --- quantities

    def contacts(self, external: Array, speed: Array) -> None:
        """Add external efforts relative to their thresholds; find when they exceed them."""
        limits = contact_thresholds(self._model, self._settings).of(speed)
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = external / limits
        for name, row in self.rows.items():
            self.add(f"contacts.{name}", ratio[:, row], "")
        self.contacts_found = find_contact_intervals(
            np.multiply(1e-9, self.stamp, dtype=float), external, limits, self._model.velocity_names
        )

    def state(self, terms: dict[str, Array]) -> None:
        """Add positions, velocities and efforts as recorded."""
        for name, row in self.position_rows.items():
            self.add(f"position.{name}", self._q[:, row], self._position_unit(name))
        for name, row in self.rows.items():
            self.add(
                f"velocity.{name}",
                self._recorded_v[:, row],
                "m/s" if row in self._linear_rows else "rad/s",
            )
        self.add_joint_columns("effort", self._tau)
        for name, row in self.rows.items():
            if (unit := self._model.drives.unit[row]) != "N m":  # otherwise not declared
                self.units[f"effort.{name}"] = unit

    def _position_unit(self, name: str) -> str:
        """Return the unit of a position; empty for parts of a quaternion or of a direction."""
        if name in self.rows:
            return "m" if self.rows[name] in self._linear_rows else "rad"
        coordinate = name.rpartition("/")[2]
        if coordinate in ("x", "y", "z"):
            return "m"
        return "rad" if coordinate in ("yaw", "theta") else ""

    def gravity(self, terms: dict[str, Array]) -> None:
        """Add the torques that hold the robot still."""
        self.add_joint_columns("gravity", terms["g"])

    def nle(self, terms: dict[str, Array]) -> None:
        """Add gravity, Coriolis and centrifugal torques."""
        self.add_joint_columns("nle", terms["nle"])

    def torque(self, terms: dict[str, Array]) -> None:
        """Add the inverse dynamics of the filtered acceleration."""
        from ..identification.motion.filtering import filter_derivatives, settling_samples

        states, settings = self._states, self._settings
        torque = np.full(states.v.shape, np.nan)
        for rows in split_runs(
            states.stamp,
            recent_state_mask(states, settings.max_gap),
            settings.max_gap,
            np.asarray(np.isfinite(states.v).all(axis=1)),
        ):
            time = 1e-9 * (states.stamp[rows] - states.stamp[rows[0]])
            if len(rows) < MIN_RUN_LENGTH:
                continue
            margin = settling_samples((len(rows) - 1) / time[-1], settings.cutoff)
            inner = slice(margin, len(rows) - margin)
            if len(rows) <= 2 * margin:
                continue
            v = states.v[rows]
            a = filter_derivatives(time, v.T, settings.cutoff, 1)[1].T
            torque[rows[inner]] = rnea(
                self._model, self._data, states.q[rows[inner]], v[inner], a[inner]
            )
        self.add_joint_columns("torque", torque[self._table_rows])

    def centroidal(self, terms: dict[str, Array]) -> None:
        """Add the robot as one body: center of mass, momentum and locked inertia."""
        body, lever = join_bodies(
            Body.of_links(terms["Ig"], terms["com"]), Body.of(self._model.base_inertia)
        )
        fx, fy, fz, mx, my, mz = move_reference_point(lever, terms["hg"].T)
        self.add("mass", body.mass, "kg")
        self._add_vector("com", body.com, "m")
        with np.errstate(divide="ignore", invalid="ignore"):
            com_velocity = np.where(body.mass > 0.0, [fx, fy, fz] / body.mass, math.nan)
        self._add_vector("com_velocity", com_velocity, "m/s")
        self._add_vector("linear_momentum", (fx, fy, fz), "kg m/s")
        self._add_vector("angular_momentum", (mx, my, mz), "kg m2/s")
        for name, numbers in zip(quantity_table.INERTIA, body.rotational):
            self.add(f"locked_inertia.{name}", numbers, "kg m2")

    def _add_vector(self, name: str, numbers: Any, unit: str) -> None:
        """Add columns for the x, y and z of vectors, (3, n)."""
        for axis, values in zip(quantity_table.AXES, numbers):
            self.add(f"{name}.{axis}", values, unit)

    def energy(self, terms: dict[str, Array]) -> None:
        """Add the energy of the moving links."""
        kinetic, potential = terms["kinetic_energy"], terms["potential_energy"]
        self.add("energy.kinetic", kinetic, "J")
        self.add("energy.potential", potential, "J")
        self.add("energy.total", kinetic + potential, "J")

    def power(self, terms: dict[str, Array]) -> None:
        """Add the mechanical power of the motors, for each joint and in total."""
        constant = effort_constants(self._model, self._settings)
        power = measured_torques(self._model, self._q, self._tau * constant) * self._v
        for name, row in self.rows.items():
            self.add(f"power.{name}", power[:, row], "W")
        self.add("power.total", power.sum(axis=1), "W")


def measured_torques(model: Model, q: Array, effort: Array) -> Array:
    """Return torques at the joints (n, nv) of recorded efforts; NaN where an effort is unknown."""
    return add_compensated_gravity(model, Data(model), q, model.drives.to_torque(effort))


def recent_state_mask(states: States, max_gap: float) -> NDArray[np.bool_]:
    """Return True for each state whose joints are recent, (n,)."""
    is_recent: NDArray[np.bool_] = states.behind <= round(max_gap * 1e9)
    return is_recent


def compute_observer_results(
    model: Model, states: States, settings: QuantitySettings, results: Collection[str]
) -> dict[str, Array]:
    """Return results of the observer for each state by name, as its node publishes them.

    ``results`` are names such as "residual", "external" [N m, N] and "speed"; each result is
    (n, nv), and NaN where the node publishes nothing.
    """
    _, rows = select_joints(model, settings.joints)
    return RobotObserver(model, settings, rows=rows).run(
        states.stamp,
        states.q,
        states.v,
        states.tau,
        recent_state_mask(states, settings.max_gap),
        results,
    )


def independent_joints(model: Model) -> tuple[str, ...]:
    """Return the names of the joints with coordinates of their own, all but mimic joints."""
    return tuple(independent_joint_indices(model))


def contact_thresholds(model: Model, settings: QuantitySettings) -> Thresholds:
    """Return the thresholds of contacts in the settings, for all velocities of the model.

    Raise a ValueError if there are none, or they are of another robot.
    """
    require_thresholds(settings)
    joints = independent_joints(model)
    if settings.calibrated not in ((), joints):
        raise ValueError(
            f"thresholds: of a robot with the joints {', '.join(settings.calibrated)};"
            f" this one has {', '.join(joints)}; calibrate them for this robot"
        )
    numbers = {}
    try:
        for field in ("fixed", "per_speed", "at_rest"):
            numbers[field] = settings.velocity_values(
                f"thresholds_{field}", model, slice(None), 0.0
            )
    except ValueError as error:
        raise ValueError(f"{error}; calibrate them for this robot") from None
    return Thresholds(**numbers)


def require_thresholds(settings: QuantitySettings) -> None:
    """Raise a ValueError if contacts cannot be computed, for lack of thresholds."""
    if not settings.thresholds_fixed:
        raise ValueError(
            "contacts: pass thresholds= with the file that `dyn_ros calibrate` writes "
            "from recordings in which nothing touches the robot"
        )
