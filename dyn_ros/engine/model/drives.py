# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Drives of a robot: the efforts that they report, and their friction."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..kernel.names import join_names, short_repr
from ..kernel.types import Array
from ..kernel.validation import finite_array, require_entries

_FLAG_DEFAULTS = {"is_compensated": False, "is_link_side": False, "has_smooth_friction": False}
_NOT_NEGATIVE = ("load_friction", "friction_velocity", "friction_distance", "rotor_inertia")
_POSITIVE = ("stribeck_velocity",)
_DEFAULTS = {"gain": 1.0, "stribeck_velocity": np.inf, **_FLAG_DEFAULTS}
_MIN_SINGULAR_VALUE = 1e-9  # relative to the largest; below it, a coupling is singular

MAX_MEASUREMENT = 1e12
"""Limit of measurements, and of the numbers of a drive [rad, m, N m, N]."""


@dataclass(frozen=True, eq=False, repr=False)
class Drives:
    """Meaning of the measured efforts, and friction beyond the damping and friction of a URDF.

    Arrays are (nv,), in the order of ``model.velocity_names``. The torque at the joint is ::

        gain * effort [+ gravity torque, if the drive subtracts it]

    and equals the torque that moves the links plus the offset and friction ::

        damping v + (friction + root_friction sqrt|v| + stribeck exp(-(v / stribeck_velocity)^2)
        + load_friction |torque|) s(v)

    with ``model.damping`` and ``model.friction``, and s(v) = v / friction_velocity between -1
    and 1, or tanh(v / friction_velocity) with ``has_smooth_friction``. After a reversal, s
    differs from its new value by a part that decreases by a factor of e in each
    ``friction_distance`` (Dahl 1968), wherever the motion before is known: in observers, recordings
    and identification. With a ``coupling``, all of this holds for the motors.

    Attributes
    ----------
    unit : tuple of str
        Unit of the efforts, such as "N m" or "A"; for messages.
    gain : (nv,) ndarray
        Torque at the joint per unit of effort, of either sign; not 0.
    delay : (nv,) ndarray
        Time by which efforts lag behind positions [s]; negative if they lead.
    is_compensated : (nv,) ndarray of bool
        True if the drive subtracts the gravity torque from the effort.
    is_link_side : (nv,) ndarray of bool
        True if the effort is measured behind the gear, where rotors do not act.
    offset : (nv,) ndarray
        Constant part of the torque at the joint [N m, N].
    load_friction : (nv,) ndarray
        Coulomb friction per transmitted torque, 0 or more.
    root_friction : (nv,) ndarray
        Friction that grows with the square root of the velocity [N m (s/rad)^0.5, N (s/m)^0.5].
    stribeck, stribeck_velocity : (nv,) ndarray
        Friction that vanishes with velocity [N m, N], of either sign, and the velocity of its
        decrease [rad/s, m/s].
    friction_velocity : (nv,) ndarray
        Velocity up to which friction is proportional to it [rad/s, m/s]; with 0, friction jumps.
    has_smooth_friction : (nv,) ndarray of bool
        True if friction is a hyperbolic tangent of the velocity, as of lubricated joints and in
        many simulators; it reaches 76 % at ``friction_velocity``.
    friction_distance : (nv,) ndarray
        Travel in which friction changes its sign after a reversal [rad, m]; with 0, at once.
    rotor_inertia : (nv,) ndarray
        Inertia of the rotors of coupled motors [kg m2, kg]; zeros without a coupling. Without it,
        ``model.armature`` has the rotor inertia; with it, the diagonal of its matrix at the joints.
    coupling : (nv, nv) ndarray or None
        Motor velocities are ``coupling @ v``, torques at the joints ``coupling.T @`` the motors'
        torques. Motor k has the name, the gain and the friction of velocity k. With None, each
        motor moves its own joint.

    Examples
    --------
    >>> drives = dyn_ros.Drives.of(2, gain=[12.1, -9.8], unit=("A", "A"))
    >>> print(drives.gain)
    [12.1 -9.8]
    """

    unit: tuple[str, ...]
    gain: Array
    delay: Array
    is_compensated: NDArray[np.bool_]
    is_link_side: NDArray[np.bool_]
    offset: Array
    load_friction: Array
    root_friction: Array
    stribeck: Array
    stribeck_velocity: Array
    friction_velocity: Array
    has_smooth_friction: NDArray[np.bool_]
    friction_distance: Array
    rotor_inertia: Array
    coupling: Array | None = None

    def __post_init__(self) -> None:
        for value in vars(self).values():
            if isinstance(value, np.ndarray):
                value.flags.writeable = False  # _has_own_friction is cached

    @classmethod
    def of(cls, nv: int, **values: Any) -> Drives:
        """Create the drives of nv velocities, which report torques except for ``values``.

        Raises
        ------
        ValueError
            A wrong shape, or a number that is not finite or out of range; names it.
        """
        names = [field.name for field in fields(cls)]
        for name in values.keys() - set(names):
            raise ValueError(f"no property {name!r} of drives; available: {join_names(names)}")
        unit = tuple(values.pop("unit", ("N m",) * nv))
        if len(unit) != nv:
            raise ValueError(f"unit: expected {nv} units, got {len(unit)}")
        coupling = values.pop("coupling", None)
        arrays = {
            name: _checked_array(name, values.get(name, _DEFAULTS.get(name, 0.0)), nv)
            for name in names
            if name not in ("unit", "coupling")
        }
        return cls(
            unit, **arrays, coupling=None if coupling is None else _checked_coupling(coupling, nv)
        )

    def with_values(self, **values: Any) -> Drives:
        """Return these drives with some values replaced; all are checked."""
        return Drives.of(len(self.gain), **{**vars(self), **values})

    def take(self, indices: Sequence[int]) -> Drives:
        """Return the drives of some of the velocities."""
        rows = np.asarray(indices, int)
        arrays = {
            name: value[rows]
            for name, value in vars(self).items()
            if isinstance(value, np.ndarray) and name != "coupling"
        }
        coupling = None if self.coupling is None else self.coupling[np.ix_(rows, rows)]
        return replace(self, unit=tuple(self.unit[k] for k in rows), coupling=coupling, **arrays)

    def put(self, indices: Sequence[int], replacements: Drives) -> Drives:
        """Return these drives with replacements for some velocities."""
        rows, values = np.asarray(indices, int), dict(vars(self))
        for name, value in vars(replacements).items():
            if isinstance(value, np.ndarray) and name != "coupling":
                values[name] = values[name].copy()
                values[name][rows] = value
        unit = list(self.unit)
        for k, label in zip(indices, replacements.unit):
            unit[k] = label
        if replacements.coupling is not None:
            coupling = np.eye(len(unit)) if self.coupling is None else self.coupling.copy()
            coupling[np.ix_(rows, rows)] = replacements.coupling
            values["coupling"] = coupling
        return Drives(**{**values, "unit": tuple(unit)})

    @property
    def has_own_friction(self) -> bool:
        """True if there is more friction than ``model.damping`` and ``model.friction`` express."""
        return _has_own_friction(self)

    @property
    def reports_torque(self) -> bool:
        """True if efforts are the torques at the joints."""
        return (
            self.coupling is None
            and not self.is_compensated.any()
            and bool((self.gain == 1.0).all())
        )

    def to_torque(self, effort: Array) -> Array:
        """Return the torques at the joints, (..., nv), that efforts mean [N m, N].

        Gravity torques that drives have subtracted are not added again.
        """
        return self.to_joints(self.gain * effort)

    def to_motors(self, torque: Array) -> Array:
        """Return motor torques (..., nv) of joint torques (..., nv) [N m, N]."""
        return torque if self.coupling is None else torque @ np.linalg.inv(self.coupling)

    def to_joints(self, torque: Array) -> Array:
        """Return joint torques (..., nv) of motor torques (..., nv) [N m, N]."""
        return torque if self.coupling is None else torque @ self.coupling

    def from_motor_gradient(self, gradient: Array) -> Array:
        """Return gradients with respect to joint torques (..., nv) of those for motor torques."""
        return gradient if self.coupling is None else gradient @ np.linalg.inv(self.coupling).T

    def rotor_torque(self, a: Array) -> Array:
        """Compute the torques of coupled rotors that ``model.armature`` lacks, (..., nv).

        ``model.armature`` has the diagonal of G' J G, with the rotor inertias J and the coupling G.
        """
        if self.coupling is None:
            return np.zeros_like(a)
        G = self.coupling
        H = G.T @ (self.rotor_inertia[:, None] * G)
        torque: Array = a @ (H - np.diag(np.diag(H)))
        return torque

    def motor_velocity(self, v: Array) -> Array:
        """Return motor velocities (..., nv) of joint velocities (..., nv) [rad/s, m/s]."""
        return v if self.coupling is None else v @ self.coupling.T

    def __repr__(self) -> str:
        return f"Drives(nv={len(self.gain)})"


@lru_cache(maxsize=16)
def _has_own_friction(drives: Drives) -> bool:
    """Return True if drives have friction that damping and friction of a model do not express."""
    return drives.coupling is not None or any(
        getattr(drives, name).any()
        for name in (
            "offset",
            "load_friction",
            "root_friction",
            "stribeck",
            "friction_velocity",
            "friction_distance",
        )
    )


def with_torque_efforts(model: Any) -> Any:
    """Return a copy of a model whose efforts are torques at the joints."""
    model = copy.copy(model)
    model.drives = Drives.of(model.nv)
    return model


def _checked_array(name: str, value: Any, nv: int) -> Any:
    """Return a value of drives, (nv,); raise a ValueError if it is not valid."""
    kind, accepted_kinds = (bool, "fiub") if name in _FLAG_DEFAULTS else (float, "fiu")
    try:
        array = np.asarray(value)
        if array.dtype.kind not in accepted_kinds:
            raise ValueError
        array = np.array(np.broadcast_to(array, (nv,)), kind)
    except ValueError:
        raise ValueError(f"{name}: expected one number, or {nv}, got {short_repr(value)}") from None
    if kind is bool:
        return array
    finite = np.isfinite(array) | ((array == np.inf) & (name in _POSITIVE))
    for accepted, expected in (
        (finite, "finite numbers"),
        ((array != 0.0) | (name != "gain"), "numbers other than 0"),
        ((array >= 0.0) | (name not in _NOT_NEGATIVE), "0 or more"),
        ((array > 0.0) | (name not in _POSITIVE), "more than 0"),
    ):
        require_entries(name, array, accepted, expected)
    return array


def _checked_coupling(value: Any, nv: int) -> Array:
    """Return a coupling, (nv, nv), of full rank; raise a ValueError otherwise."""
    matrix = finite_array("coupling", value, (nv, nv))
    sizes = np.linalg.svd(matrix, compute_uv=False)
    if nv and not sizes[-1] > _MIN_SINGULAR_VALUE * sizes[0]:
        raise ValueError(
            "coupling: the motors do not determine the velocities of all joints; "
            "expected a matrix of full rank"
        )
    return matrix
