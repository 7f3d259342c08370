# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Units of joints on the page, and the ends and marks of their sliders."""
from __future__ import annotations

import math
from typing import NamedTuple, TypeVar

from ...engine.model.urdf import Joint

TURN, SLIDE = math.pi, 1.0          # range of the slider of a joint without limits [rad, m]

Value = TypeVar("Value")


class Unit(NamedTuple):
    """A unit of joint positions: how many of it are one rad or one m.

    `decimals` are those of positions, `mark_decimals` those of the limits below a slider.
    """

    name: str
    per_si: float
    decimals: int
    mark_decimals: int


RAD, DEG = Unit("rad", 1.0, 3, 2), Unit("deg", math.degrees(1.0), 1, 0)
METER = Unit("m", 1.0, 3, 2)


def unit_of(joint: Joint, turning: Value, sliding: Value) -> Value:
    """Return the second value for a prismatic joint, else the first."""
    return sliding if joint.kind == "prismatic" else turning


def limits(joint: Joint) -> tuple[float, float]:
    """Return the range of a slider [rad, m]: the joint's limits, if finite and consistent."""
    reach = unit_of(joint, TURN, SLIDE)
    lower = joint.lower if math.isfinite(joint.lower) else -reach
    upper = joint.upper if math.isfinite(joint.upper) else reach
    if lower >= upper:
        lower, upper = upper - reach, lower + reach
    return float(lower), float(upper)


def round_inward(ends: tuple[float, float], unit: Unit) -> tuple[float, float]:
    """Convert a range to a unit, rounded so that nothing outside of it can be chosen."""
    lower, upper = (unit.per_si * end for end in ends)
    digits = unit.decimals
    while True:
        scale = 10.0 ** digits
        low = math.ceil(lower * scale - 1e-6) / scale
        high = math.floor(upper * scale + 1e-6) / scale
        if low < high:
            return low + 0.0, high + 0.0
        digits += 1


def _mark(value: float, unit: Unit) -> str:
    text = f"{round(value, unit.mark_decimals) + 0.0:.{unit.mark_decimals}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def _hint(joint: Joint, ends: tuple[float, float], unit: Unit) -> str:
    """Return a joint's name, unit and limits."""
    numbers = " to ".join(f"{unit.per_si * end + 0.0:.{unit.decimals}f}" for end in ends)
    free = "" if math.isfinite(joint.lower) and math.isfinite(joint.upper) else " (no limits)"
    return f"{joint.name}: {numbers} {unit.name}{free}"
