# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The settings of an observer: those of the node, of files with its parameters, and of options.

Each setting is listed once, with its default, description, unit and range. The node declares them
as parameters, ``dyn_ros calibrate`` writes them to files, and ``dyn_ros log`` reads these and has
some as options.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from ..engine.kernel.names import short_repr
from ..engine.kernel.types import Array
from ..engine.model.model import Model
from .momentum_observer import METHODS

KALMAN_NOISE = ("torque", "velocity", "disturbance")
"""Standard deviations that the method "kalman" requires: settings ``noise_...``."""

POSITIVE = (1e-12, 1e12)
"""The range of settings that are positive, of any size."""

_GROUPS = ("noise_", "thresholds_")  # prefixes with a dot in parameters: ``noise.torque``
_ASSUMED_PERIOD = 0.01  # s; the bandwidth of "kalman" depends on the sampling period
_WARM_UP_TIME_CONSTANTS = 40.0  # exp(-40) is below the rounding error
Value = TypeVar("Value")
Rows: TypeAlias = "slice | list[int] | NDArray[np.intp]"


@dataclasses.dataclass(frozen=True)
class Setting:
    """A setting: its default, description, unit and range.

    A tuple as the default stands for numbers of velocities: one for each, or one for all;
    ``empty`` is then what no numbers mean. ``limits`` are the range of the parameter. Recordings
    can have values outside of it, but of the same sign: more than 0 if the lower limit is.
    """

    default: Any
    description: str
    unit: str = ""
    note: str = ""
    limits: tuple[float, ...] = ()
    choices: tuple[str, ...] = ()
    empty: Any = None

    @property
    def label(self) -> str:
        """The description, with the unit."""
        return self.description + (f" [{self.unit}]" if self.unit else "")

    @property
    def is_array(self) -> bool:
        """True if there may be a number for each velocity."""
        return isinstance(self.default, tuple)

    def fault(self, value: Any) -> str:
        """Return what is wrong with a value, or an empty string."""
        got = f"got {short_repr(value)}"
        if self.choices:
            return (
                "" if value in self.choices else f"expected one of {', '.join(self.choices)}, {got}"
            )
        if isinstance(self.default, bool):
            return "" if isinstance(value, bool) else f"expected True or False, {got}"
        try:
            numbers = np.asarray(value)
        except ValueError:  # lists of different lengths
            numbers = np.empty((0, 0))
        has_flags = isinstance(value, (list, tuple)) and any(isinstance(x, bool) for x in value)
        if numbers.dtype.kind not in "fiu" or numbers.ndim != self.is_array or has_flags:
            return f"expected {'numbers' if self.is_array else 'a number'}, {got}"
        if not np.isfinite(numbers).all():
            return f"expected finite numbers, {got}"
        if self.limits[0] > 0.0 and not (numbers > 0.0).all():
            return f"expected more than 0, {got}"
        if self.limits[0] == 0.0 and not (numbers >= 0.0).all():
            return f"expected at least 0, {got}"
        return ""


def setting_field(default: Value, description: str, **more: Any) -> Value:
    """Return a field of a dataclass that is a setting; for the arguments see ``Setting``."""
    spec = Setting(default, description, **more)
    field: Value = dataclasses.field(default=default, metadata={"setting": spec})
    return field


def settings_in(of: Any) -> dict[str, Setting]:
    """Return the settings of a dataclass, or of an instance, by the names of its fields."""
    return {
        field.name: field.metadata["setting"]
        for field in dataclasses.fields(of)
        if "setting" in field.metadata
    }


def parameter_name(name: str) -> str:
    """Return the parameter name of a setting: ``noise.torque`` of ``noise_torque``."""
    group = next((group for group in _GROUPS if name.startswith(group)), "")
    return group.replace("_", ".") + name[len(group) :]


@dataclasses.dataclass(frozen=True)
class ObserverSettings:
    """Settings of an observer and of its thresholds, with the defaults of the node.

    Numbers of rows are in the order of the published joints.

    Raises
    ------
    ValueError
        A wrong value; names the parameter, the expected and the actual value.
    """

    method: str = setting_field(
        "momentum",
        "momentum: generalized-momentum observer. direct: measured effort minus inverse dynamics. "
        "kalman: disturbance Kalman filter with noise.*",
        choices=METHODS,
    )
    gain: float = setting_field(
        100.0, "Bandwidth of momentum, direct and the residual", unit="1/s", limits=(1e-3, 1e5)
    )
    smoothing: float = setting_field(
        100.0,
        "Bandwidth of a second low-pass filter, except with kalman",
        unit="1/s",
        note="0: none.",
        limits=(0.0, 1e5),
    )
    joint_gains: tuple[float, ...] = setting_field(
        (), "Gain of each row", unit="1/s", limits=(1e-3, 1e5), empty="gain"
    )
    friction: bool = setting_field(True, "Include friction of the robot description and drives")
    friction_velocity: float = setting_field(
        0.0,
        "Speed below which Coulomb friction is proportional to velocity",
        unit="rad/s, m/s",
        note="A larger one in drives takes precedence.",
        limits=(0.0, 1e3),
    )
    effort_constant: tuple[float, ...] = setting_field(
        (),
        "Factor from effort in joint_states to joint effort, in addition to drives",
        note="For currents: torque constant times gear ratio.",
        limits=(-1e9, 1e9),
        empty=1.0,
    )
    effort_delay: float = setting_field(
        0.0,
        "Delay of efforts behind positions, in addition to drives",
        unit="s",
        note="Negative: efforts lead.",
        limits=(-1.0, 1.0),
    )
    max_gap: float = setting_field(
        0.2,
        "Time between two states after which the observer restarts",
        unit="s",
        limits=(1e-4, 60.0),
    )
    noise_torque: tuple[float, ...] = setting_field(
        (),
        "For kalman: standard deviation of efforts",
        unit="N m, N",
        limits=POSITIVE,
        empty=0.5,
    )
    noise_velocity: tuple[float, ...] = setting_field(
        (),
        "For kalman: standard deviation of velocities",
        unit="rad/s, m/s",
        limits=POSITIVE,
        empty=1e-3,
    )
    noise_disturbance: tuple[float, ...] = setting_field(
        (),
        "For kalman: standard deviation of the change of external efforts in 1 s",
        unit="N m, N",
        limits=POSITIVE,
        empty=1.0,
    )
    thresholds_fixed: tuple[float, ...] = setting_field(
        (),
        "Threshold of the external effort",
        unit="N m, N",
        limits=(0.0, 1e12),
        empty="thresholds.relative times the effort limit",
    )
    thresholds_per_speed: tuple[float, ...] = setting_field(
        (),
        "Threshold increase per speed",
        unit="N m s, N s/m",
        limits=(0.0, 1e12),
        empty=0.0,
    )
    thresholds_at_rest: tuple[float, ...] = setting_field(
        (),
        "Threshold increase at rest, down to 0 at 0.05 rad/s or m/s",
        unit="N m, N",
        limits=(0.0, 1e12),
        empty="friction at rest",
    )

    def __post_init__(self) -> None:
        for name, spec in settings_in(self).items():
            if fault := spec.fault(getattr(self, name)):
                raise ValueError(f"{parameter_name(name)}: {fault}")

    # --- parameters

    @staticmethod
    def arguments_in(values: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments of a constructor that are among parameters of a node, or a file."""
        arguments = {}
        for name, spec in settings_in(ObserverSettings).items():
            if (parameter := parameter_name(name)) in values:
                value = values[parameter]
                arguments[name] = _as_tuple(value) if spec.is_array else value
        return arguments

    def parameters(self) -> dict[str, Any]:
        """Return the parameters that are not the default."""
        return {
            parameter_name(name): getattr(self, name)
            for name, spec in settings_in(ObserverSettings).items()
            if getattr(self, name) != spec.default
        }

    # --- numbers

    def velocity_values(
        self, name: str, model: Model, rows: Rows, empty: float | Array | None = None
    ) -> Array:
        """Return a number for each velocity, (nv,), from the setting ``name`` with numbers for
        ``rows``.

        Without numbers, and in other rows, it is ``empty``, or what the setting means then. Raises
        a ValueError if there are neither one nor as many numbers as rows.
        """
        default = settings_in(self)[name].empty if empty is None else empty
        return row_values(parameter_name(name), getattr(self, name), model, rows, default)

    @property
    def second_bandwidth(self) -> float:
        """Bandwidth of the second low pass [1/s]; 0: none."""
        return 0.0 if self.method == "kalman" else self.smoothing

    @property
    def warm_up(self) -> float:
        """Seconds before a state after which its results no longer depend on earlier states.

        The difference is below 1e-12 of the efforts.
        """
        bandwidth = min(self.joint_gains, default=self.gain)
        if self.method == "kalman":
            settings = settings_in(self)
            slowest = min(
                self.noise_disturbance, default=settings["noise_disturbance"].empty
            ) / max(self.noise_torque, default=settings["noise_torque"].empty)
            bandwidth = min(bandwidth, slowest / math.sqrt(_ASSUMED_PERIOD))
        second = self.second_bandwidth
        time_constants = 1.0 / bandwidth + (1.0 / second if second else 0.0)
        return _WARM_UP_TIME_CONSTANTS * time_constants + self.max_gap + abs(self.effort_delay)


def row_values(
    name: str, numbers: Sequence[float], model: Model, rows: Rows, empty: float | Array
) -> Array:
    """Return a number for each velocity, (nv,), from one number for each of ``rows``, or one for
    all.

    Other rows, and all rows without numbers, are ``empty``. Raises a ValueError, in which ``name``
    names the numbers, for another number of them.
    """
    values = np.broadcast_to(np.array(empty, float), model.nv).copy()
    names = np.array(model.velocity_names)[rows]
    if len(numbers) not in (0, 1, len(names)):
        raise ValueError(
            f"{name}: expected one number, or {len(names)}: one for each of {', '.join(names)}; "
            f"got {len(numbers)}"
        )
    if len(numbers):
        values[rows] = numbers
    return values


def _as_tuple(value: Any) -> tuple[Any, ...]:
    """Return the numbers in a parameter or a file as a tuple; () for None."""
    if isinstance(value, (list, tuple)):
        return tuple(value)
    return () if value is None else (value,)
