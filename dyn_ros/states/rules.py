# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Validation of joint states and odometry: the reasons to reject a message, and their texts.

The rules are kernels: compiled code applies them to messages, and Python to requests and
parameters.
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
    MAX_MAGNITUDE,
    QUATERNION_TOLERANCE,
    Numbers,
    Rejected,
    abbreviate_names,
    find_duplicates,
)

BASE_NUMBERS = (
    *("x", "y", "z", "qx", "qy", "qz", "qw"),
    *("linear_x", "linear_y", "linear_z", "angular_x", "angular_y", "angular_z"),
)
_POSE_LABEL = "pose of the base that is not finite or too large"
_TWIST_LABEL = "twist of the base that is not finite or too large"


class Reason(IntEnum):
    """Reasons to reject a message; the last two are counted, but do not reject it.

    UNKNOWN_POSITION: some of its joints count as not reported. STAMP_JUMP: the collected state is
    discarded.

    `label` goes with a count of messages, `template` describes one message by its `Evidence`.
    Each ..._NOT_FINITE is followed by its ..._TOO_LARGE: the reason to reject a number is its
    ..._NOT_FINITE plus its usability, NOT_FINITE or TOO_LARGE.
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
    POSITION_NOT_FINITE = (
        "position that is not finite",
        "position is not finite: {0.unusable}",
    )
    POSITION_TOO_LARGE = "position that is too large", "position is too large: {0.unusable}"
    VELOCITY_NOT_FINITE = (
        "velocity that is not finite",
        "velocity is not finite: {0.unusable}",
    )
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
    UNKNOWN_POSITION = "position of NaN", "its position is NaN: {0.unusable}"
    STAMP_JUMP = (
        "stamp that jumps back",
        "stamps jumped back by {0.seconds:g} s; discarding the collected state",
    )


REASONS = tuple(Reason)


@dataclass(frozen=True)
class Evidence:
    """Content of a rejected message, from which the template of the reason is filled.

    `numbers` are in the order of `names`, field by field. `details` were written by the rules. For
    LATE_STAMP and STAMP_JUMP, details[STAMP_LAG] is the difference to the last stamp [ns]. For
    ..._NOT_FINITE and ..._TOO_LARGE, details[PLACE_COUNT] is the number of unusable numbers, and
    their indices in `numbers` follow.
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
        """Number of names."""
        return len(self.names)

    @property
    def duplicates(self) -> str:
        """Names that occur more than once."""
        return abbreviate_names(find_duplicates(self.names))

    @property
    def seconds(self) -> float:
        """Difference to the last stamp [s]."""
        return self.details[STAMP_LAG] * 1e-9

    @property
    def norm(self) -> float:
        """Norm of the quaternion of a base."""
        return base_quaternion_norm(self.numbers, 0)

    @property
    def unusable(self) -> str:
        """Unusable numbers with their names, such as "elbow = nan"."""
        places = self.details[FIRST_PLACE : FIRST_PLACE + self.details[PLACE_COUNT]]
        return ", ".join(f"{self.names[k % self.size]} = {self.numbers[k]:g}" for k in places)


NO_FAULT = -1  # in place of a reason
NOT_FINITE, TOO_LARGE, USABLE = range(3)  # usability; added to a reason ..._NOT_FINITE
MAX_LISTED_PLACES = 10  # unusable numbers in a text
STAMP_LAG, PLACE_COUNT, FIRST_PLACE = 0, 0, 1  # indices in the details of an `Evidence`
DETAIL_COUNT = 1 + MAX_LISTED_PLACES  # length of the details
_POSE_NOT_FINITE = int(Reason.POSE_NOT_FINITE)  # compiled code has no enums
_QUATERNION_NORM = int(Reason.QUATERNION_NORM)
_TWIST_NOT_FINITE = int(Reason.TWIST_NOT_FINITE)


@kernel
def usability(number: float) -> int:
    """Return USABLE, TOO_LARGE or NOT_FINITE for a number."""
    if abs(number) <= MAX_MAGNITUDE:
        return USABLE
    return TOO_LARGE if abs(number) < math.inf else NOT_FINITE


@kernel
def all_usable(numbers: Numbers, start: int, count: int) -> bool:
    """Return True if `count` numbers from index `start` on are usable."""
    usable_count = 0
    for k in range(start, start + count):  # without branches, which is faster
        usable_count = usable_count + (abs(numbers[k]) <= MAX_MAGNITUDE)
    return usable_count == count


@kernel
def is_unknown(number: float) -> bool:
    """Return True for NaN, which broadcasters send for what the hardware does not measure."""
    return number != number


@kernel
def add_place(details: Any, place: int) -> None:
    """Append the place of an unusable number to details, up to MAX_LISTED_PLACES of them."""
    if details[PLACE_COUNT] < MAX_LISTED_PLACES:
        details[PLACE_COUNT] = details[PLACE_COUNT] + 1
        details[details[PLACE_COUNT]] = place


@kernel
def least_usability(
    numbers: Numbers, start: int, first: int, count: int, details: Any, may_be_unknown: bool
) -> int:
    """Return the least usability of `count` numbers from place `first` on.

    Appends the places of unusable numbers to details; they are counted from `start`. Unknown
    numbers do not matter if they `may_be_unknown`.
    """
    least = USABLE
    for k in range(first, first + count):
        number = numbers[start + k]
        number_usability = usability(number)
        if number_usability != USABLE and not (may_be_unknown and is_unknown(number)):
            least = min(least, number_usability)
            add_place(details, k)
    return least


@kernel
def lengths_match(size: int, positions: int, velocities: int, efforts: int) -> bool:
    """Return True if each name has a position, and each or none a velocity and an effort."""
    # compiled, the operator `in` would load a module of Numba at the start of each process
    return (
        positions == size
        and (velocities == size or velocities == 0)
        and (efforts == size or efforts == 0)
    )


@kernel
def find_base_fault(numbers: Numbers, start: int, details: Any, twist_may_be_unknown: bool) -> int:
    """Return the reason why the pose or the twist of a base cannot be used, or NO_FAULT.

    `numbers[start:]` are the pose (x y z qx qy qz qw) and the twist. The norm of the quaternion may
    differ from 1 by `QUATERNION_TOLERANCE`. Appends the places of unusable numbers to details.
    """
    least = least_usability(numbers, start, 0, 7, details, False)
    if least != USABLE:
        return _POSE_NOT_FINITE + least
    if abs(base_quaternion_norm(numbers, start) - 1.0) > QUATERNION_TOLERANCE:
        return _QUATERNION_NORM
    least = least_usability(numbers, start, 7, 6, details, twist_may_be_unknown)
    return NO_FAULT if least == USABLE else _TWIST_NOT_FINITE + least


@kernel
def base_quaternion_norm(numbers: Numbers, start: int) -> float:
    """Return the norm of the quaternion in the pose at numbers[start:]."""
    x, y, z, w = numbers[start + 3], numbers[start + 4], numbers[start + 5], numbers[start + 6]
    return math.sqrt(x * x + y * y + z * z + w * w)


@subroutine
def exact_quotient(x: float, y: float) -> float:
    """Return x / y, rounded once.

    Not inlined: the compiler would replace divisions by one number by products with its reciprocal.
    """
    return x / y


@kernel
def copy_base(is_planar: bool, numbers: Numbers, start: int, q: Array, v: Array) -> None:
    """Set the coordinates q and velocities v of a base from the pose and twist at numbers[start:].

    The twist is expressed in the base frame. A planar base takes the position in the plane, the
    yaw, and the corresponding velocities. A floating base takes all numbers, and normalizes the
    quaternion.
    """
    twist = start + 7
    if is_planar:
        x, y, z, w = numbers[start + 3], numbers[start + 4], numbers[start + 5], numbers[start + 6]
        q[0], q[1] = numbers[start], numbers[start + 1]
        q[2] = math.atan2(2.0 * (w * z + x * y), 1.0 - 2.0 * (y * y + z * z))
        v[0], v[1], v[2] = numbers[twist], numbers[twist + 1], numbers[twist + 5]
    else:
        norm = base_quaternion_norm(numbers, start)
        for k in range(3):
            q[k] = numbers[start + k]
        for k in range(3, 7):
            q[k] = exact_quotient(numbers[start + k], norm)
        for k in range(6):
            v[k] = numbers[twist + k]


def is_root_link(child: str, root_link: str) -> bool:
    """Return True if a child_frame_id is the root link, perhaps with a prefix, or empty."""
    return not child or child == root_link or child.endswith("/" + root_link)


def check_names(names: Sequence[str]) -> None:
    """Raise `Rejected` if the names of joints are not unique."""
    if len(set(names)) != len(names):
        raise Rejected(Evidence(names).text(Reason.DUPLICATE_NAMES))


def check_interface_counts(
    names: Sequence[str], interface_names: Sequence[Sequence[str]], values: Sequence[Numbers]
) -> None:
    """Raise `Rejected` unless each name has interfaces, and each interface has a value."""
    if len(names) != len(values):
        raise Rejected(
            f"{len(names)} joint_names, but {len(values)} interface_values; expected one for each "
            "name"
        )
    for name, entry_interfaces, entry_values in zip(names, interface_names, values):
        if len(entry_interfaces) != len(entry_values):
            raise Rejected(
                f"{name}: {len(entry_interfaces)} interface_names, but {len(entry_values)} values; "
                "expected one for each name"
            )


def check_usable(not_finite_reason: Reason, names: Sequence[str], numbers: Sequence[float]) -> None:
    """Raise `Rejected` if a number is not finite, or too large.

    `not_finite_reason` is a reason ..._NOT_FINITE; the next one is raised for too large numbers.
    """
    details = [0] * DETAIL_COUNT
    least = least_usability(numbers, 0, 0, len(numbers), details, False)
    if least != USABLE:
        raise Rejected(Evidence(names, numbers, details).text(not_finite_reason + least))


def check_base(pose: Sequence[float], twist: Sequence[float] = (0.0,) * 6) -> None:
    """Raise `Rejected` for a base's pose or twist that cannot be used, see `find_base_fault`."""
    numbers, details = [*pose, *twist], [0] * DETAIL_COUNT
    fault = find_base_fault(numbers, 0, details, False)
    if fault != NO_FAULT:
        raise Rejected(Evidence(BASE_NUMBERS, numbers, details).text(fault))


def set_base(kind: str, q: Array, v: Array, pose: Sequence[float], twist: Sequence[float]) -> None:
    """Set the coordinates and velocities of a "floating" or "planar" base, see `copy_base`.

    Raises `Rejected` for a pose (x y z qx qy qz qw) or a twist that cannot be used.
    """
    check_base(pose, twist)
    copy_base(kind == "planar", [*pose, *twist], 0, q, v)
