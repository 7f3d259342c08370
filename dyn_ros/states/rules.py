# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""What joint states and odometry may contain: why a message is rejected, and the words for it.

The rules are kernels: compiled code decides by them about messages, and Python calls them for
requests and parameters.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from ..engine.kernel.types import Array
from ..engine.machine_code.declare import kernel, subroutine
from .joint_states import (
    LARGEST,
    QUATERNION_TOLERANCE,
    Numbers,
    Rejected,
    abbreviated,
    duplicates,
)

BASE_NUMBERS = (
    *("x", "y", "z", "qx", "qy", "qz", "qw"),
    *("linear_x", "linear_y", "linear_z", "angular_x", "angular_y", "angular_z"),
)
_POSE_LABEL = "pose of the base that is not finite or too large"
_TWIST_LABEL = "twist of the base that is not finite or too large"


class Reason(IntEnum):
    """Why a message is rejected; the last one, why the collected state is discarded.

    `label` counts messages, `template` describes one of them by its `Evidence`.
    """

    label: str
    template: str

    def __new__(cls, label: str, template: str) -> Reason:
        number = len(cls.__members__)
        reason = int.__new__(cls, number)
        reason._value_, reason.label, reason.template = number, label, template
        return reason

    NO_NAMES = "no joint names", "no joint names"
    DUPLICATE_NAMES = "duplicate joint names", "duplicate joint names: {0.duplicates}"
    LENGTHS = (
        "numbers of positions, velocities and efforts that do not match",
        "{0.size} names, but {0.counts[0]} positions, {0.counts[1]} velocities and {0.counts[2]} "
        "efforts; expected one position for each name, and one velocity and effort for each name "
        "or none",
    )
    POSITION_NOT_FINITE = "position that is not finite", "position is not finite: {0.unusable}"
    POSITION_TOO_LARGE = "position that is too large", "position is too large: {0.unusable}"
    VELOCITY_NOT_FINITE = "velocity that is not finite", "velocity is not finite: {0.unusable}"
    VELOCITY_TOO_LARGE = "velocity that is too large", "velocity is too large: {0.unusable}"
    LATE_STAMP = (
        "stamp that is older than the last one",
        "its stamp is {0.seconds:g} s older than the last one of these joints",
    )
    POSE_NOT_FINITE = _POSE_LABEL, "the base's pose is not finite: {0.unusable}"
    POSE_TOO_LARGE = _POSE_LABEL, "the base's pose is too large: {0.unusable}"
    QUATERNION_NORM = (
        "quaternion of the base whose norm is not 1",
        "the norm of the base's quaternion is {0.norm:g}, expected 1",
    )
    TWIST_NOT_FINITE = _TWIST_LABEL, "the base's twist is not finite: {0.unusable}"
    TWIST_TOO_LARGE = _TWIST_LABEL, "the base's twist is too large: {0.unusable}"
    CHILD_FRAME = (
        "child_frame_id that is not the root link",
        "child_frame_id is '{0.child}', expected the root link '{0.root_link}', whose pose and "
        "twist are needed",
    )
    STAMP_JUMP = (
        "stamp that jumps back",
        "stamps jumped back by {0.seconds:g} s; discarding the collected state",
    )


REASONS = tuple(Reason)


@dataclass(frozen=True)
class Evidence:
    """What the rules have found in a message, and what a template needs to describe it.

    `numbers` are those of the message, in the order of `names`, field by field; `details` are from
    the rules: how much later the last stamp was [ns], or how many numbers are unusable, and where.
    """

    names: Sequence[str]
    numbers: Numbers = ()
    details: Sequence[int] = ()
    counts: Sequence[int] = ()
    child: str = ""
    root_link: str = ""

    def text(self, reason: int) -> str:
        """Describe the message that was rejected for a reason."""
        return REASONS[reason].template.format(self)

    @property
    def size(self) -> int:
        return len(self.names)

    @property
    def duplicates(self) -> str:
        return abbreviated(duplicates(self.names))

    @property
    def seconds(self) -> float:
        return self.details[0] * 1e-9

    @property
    def norm(self) -> float:
        return base_norm(self.numbers, 0)

    @property
    def unusable(self) -> str:
        places = self.details[1 : 1 + self.details[0]]
        return ", ".join(f"{self.names[k % self.size]} = {self.numbers[k]:g}" for k in places)


FINE = -1  # instead of a reason
NOT_FINITE, TOO_LARGE, USABLE = range(3)  # usability; added to a reason, the first two select one
MAX_PLACES = 10  # of unusable numbers in a text
DETAILS = 1 + MAX_PLACES  # numbers in the details of an `Evidence`
_POSE_NOT_FINITE = int(Reason.POSE_NOT_FINITE)  # compiled code has no enums
_QUATERNION_NORM = int(Reason.QUATERNION_NORM)
_TWIST_NOT_FINITE = int(Reason.TWIST_NOT_FINITE)


@kernel
def usability(number: float) -> int:
    """Return whether a number is USABLE, TOO_LARGE or NOT_FINITE."""
    if abs(number) <= LARGEST:
        return USABLE
    return TOO_LARGE if abs(number) < math.inf else NOT_FINITE


@kernel
def add_place(details: Any, place: int) -> None:
    """Add the place of an unusable number to details, unless there are enough."""
    if details[0] < MAX_PLACES:
        details[0] = details[0] + 1
        details[details[0]] = place


@kernel
def least_usability(numbers: Numbers, start: int, first: int, count: int, details: Any) -> int:
    """Return the least usability of numbers from a first one on; add the places of unusable ones.

    Places count from the start.
    """
    least = USABLE
    for k in range(first, first + count):
        found = usability(numbers[start + k])
        if found != USABLE:
            least = min(least, found)
            add_place(details, k)
    return least


@kernel
def lengths_match(size: int, positions: int, velocities: int, efforts: int) -> bool:
    """Whether each name has a position, and each or none a velocity and an effort."""
    # without `in`, which loads a module of Numba at the start of each process
    return (
        positions == size
        and (velocities == size or velocities == 0)
        and (efforts == size or efforts == 0)
    )


@kernel
def base_fault(numbers: Numbers, start: int, details: Any) -> int:
    """Return why the pose (x y z qx qy qz qw) or the twist of a base cannot be used, or FINE.

    The norm of the quaternion may differ from 1 by `QUATERNION_TOLERANCE`.
    """
    least = least_usability(numbers, start, 0, 7, details)
    if least != USABLE:
        return _POSE_NOT_FINITE + least
    if abs(base_norm(numbers, start) - 1.0) > QUATERNION_TOLERANCE:
        return _QUATERNION_NORM
    least = least_usability(numbers, start, 7, 6, details)
    return FINE if least == USABLE else _TWIST_NOT_FINITE + least


@kernel
def base_norm(numbers: Numbers, start: int) -> float:
    """Return the norm of the quaternion in a pose that starts there."""
    x, y, z, w = numbers[start + 3], numbers[start + 4], numbers[start + 5], numbers[start + 6]
    return math.sqrt(x * x + y * y + z * z + w * w)


@subroutine
def quotient(x: float, y: float) -> float:
    """Exact: inlined, divisions by one number become products with its reciprocal."""
    return x / y


@kernel
def copy_base(is_planar: bool, numbers: Numbers, start: int, q: Array, v: Array) -> None:
    """Set the first coordinates and velocities from a pose and a twist in the base frame.

    A planar base takes the position in the plane, the yaw, and the corresponding velocities; a
    floating one all, and a quaternion of unit length.
    """
    twist = start + 7
    if is_planar:
        x, y, z, w = numbers[start + 3], numbers[start + 4], numbers[start + 5], numbers[start + 6]
        q[0], q[1] = numbers[start], numbers[start + 1]
        q[2] = math.atan2(2.0 * (w * z + x * y), 1.0 - 2.0 * (y * y + z * z))
        v[0], v[1], v[2] = numbers[twist], numbers[twist + 1], numbers[twist + 5]
    else:
        norm = base_norm(numbers, start)
        for k in range(3):
            q[k] = numbers[start + k]
        for k in range(3, 7):
            q[k] = quotient(numbers[start + k], norm)
        for k in range(6):
            v[k] = numbers[twist + k]


def is_root_link(child: str, root_link: str) -> bool:
    """Whether the child_frame_id of odometry is the root link, perhaps with a prefix, or empty."""
    return not child or child == root_link or child.endswith("/" + root_link)


def check_names(names: Sequence[str]) -> None:
    """Raise `Rejected` if the names of joints are not unique."""
    if len(set(names)) != len(names):
        raise Rejected(Evidence(names).text(Reason.DUPLICATE_NAMES))


def check_usable(not_finite: Reason, names: Sequence[str], numbers: Sequence[float]) -> None:
    """Raise `Rejected` if a number is unusable: for this reason, or the next if all are finite."""
    details = [0] * DETAILS
    least = least_usability(numbers, 0, 0, len(numbers), details)
    if least != USABLE:
        raise Rejected(Evidence(names, numbers, details).text(not_finite + least))


def check_base(pose: Sequence[float], twist: Sequence[float] = (0.0,) * 6) -> None:
    """Raise `Rejected` for a base's pose or twist that cannot be used, see `base_fault`."""
    numbers, details = [*pose, *twist], [0] * DETAILS
    fault = base_fault(numbers, 0, details)
    if fault != FINE:
        raise Rejected(Evidence(BASE_NUMBERS, numbers, details).text(fault))


def set_base(kind: str, q: Array, v: Array, pose: Sequence[float], twist: Sequence[float]) -> None:
    """Set the coordinates and velocities of a "floating" or "planar" base, see `copy_base`.

    Raises `Rejected` for a pose (x y z qx qy qz qw) or a twist that cannot be used.
    """
    check_base(pose, twist)
    copy_base(kind == "planar", [*pose, *twist], 0, q, v)
