# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""States of a robot: what joint states and odometry may contain, and what is made of them."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..engine.kernel.types import Array
from ..engine.model.model import Model

NEVER = -(1 << 62)  # stamp of a value that has not been received yet
STALENESS = 0.5  # s, the default of the largest difference between stamps within one state
MAX_LAYOUTS = 1000  # bounds the memory if a publisher never repeats its list of names
LARGEST = 1e12  # doubles resolve larger angles poorly, and results overflow
QUATERNION_TOLERANCE = 1e-3  # largest deviation of a norm from 1, to allow for rounded digits
_POSE = ("x", "y", "z", "qx", "qy", "qz", "qw")
_TWIST = ("linear_x", "linear_y", "linear_z", "angular_x", "angular_y", "angular_z")
Numbers: TypeAlias = "Sequence[float] | Array"
Integers: TypeAlias = NDArray[np.int64]
STATE_HINT = "publish it on joint_states, or specify a state in the request"


class Rejected(ValueError):
    """Input that cannot be used; the text states the reason."""


def duplicates(names: Iterable[str]) -> list[str]:
    """Return the names that occur more than once."""
    return sorted(name for name, count in Counter(names).items() if count > 1)


def abbreviated(names: Sequence[str]) -> str:
    """Join names for a message: the first twenty, and the number of the others."""
    return ", ".join(names[:20]) + (f" and {len(names) - 20} more" if len(names) > 20 else "")


def joint_rows(model: Model, joints: Iterable[str]) -> tuple[list[int], list[int]]:
    """Return the rows of joints in q and in v, in their order."""
    numbers = [model.joint_index(name) for name in joints]
    return (
        [row for k in numbers for row in range(model.idx_q[k], model.idx_q[k] + model.nqs[k])],
        [row for k in numbers for row in range(model.idx_v[k], model.idx_v[k] + model.nvs[k])],
    )


def base_kind(model: Model) -> str | None:
    """Return "floating", "planar", or None for a fixed base.

    Any other joint of several degrees of freedom is a `ValueError`: no message reports its state.
    """
    base = None
    for i, joint in enumerate(model.tree.joints):
        if joint.kind in ("floating", "planar"):
            if i > 0:
                raise ValueError(
                    f"joint '{joint.name}' is {joint.kind} and not the base, and no message "
                    "reports its state; make it fixed, or use the engine without the node"
                )
            base = joint.kind
    return base


def check_lengths(
    names: Sequence[str], position: Numbers, velocity: Numbers, effort: Numbers
) -> None:
    """Raise `Rejected` if joint states have no names, duplicate ones, or lengths that differ."""
    if not names:
        raise Rejected("no joint names")
    check_names(names)
    size = len(names)
    if len(position) != size or len(velocity) not in (0, size) or len(effort) not in (0, size):
        raise Rejected(
            f"{size} names, but {len(position)} positions, {len(velocity)} velocities and "
            f"{len(effort)} efforts; expected one position for each name, and one velocity "
            "and effort for each name or none"
        )


def check_names(names: Sequence[str]) -> None:
    """Raise `Rejected` if the names of joints are not unique."""
    if len(set(names)) != len(names):
        raise Rejected(f"duplicate joint names: {abbreviated(duplicates(names))}")


def check_usable(what: str, names: Iterable[str], values: Sequence[float]) -> None:
    """Raise `Rejected` if a value is not finite or exceeds `LARGEST`; names the first ten."""
    bad = [f"{name} = {value:g}" for name, value in zip(names, values) if not abs(value) <= LARGEST]
    if bad and all(map(math.isfinite, values)):
        raise Rejected(f"{what} is too large: {', '.join(bad[:10])}")
    if bad:
        raise Rejected(f"{what} is not finite: {', '.join(bad[:10])}")


def check_pose(pose: Sequence[float]) -> None:
    """Raise `Rejected` for a base's pose (x y z qx qy qz qw) that cannot be used.

    The norm of its quaternion may differ from 1 by `QUATERNION_TOLERANCE`; callers normalize it.
    """
    check_usable("the base's pose", _POSE, pose)
    norm = base_norm(pose, 0)
    if abs(norm - 1.0) > QUATERNION_TOLERANCE:
        raise Rejected(f"the norm of the base's quaternion is {norm:g}, expected 1")


def check_base(pose: Sequence[float], twist: Sequence[float]) -> None:
    """Raise `Rejected` for a base's pose, see `check_pose`, or twist that cannot be used."""
    check_pose(pose)
    check_usable("the base's twist", _TWIST, twist)


def base_norm(numbers: Numbers, start: int) -> float:
    """The norm of the quaternion in a pose that starts there."""
    x, y, z, w = numbers[start + 3], numbers[start + 4], numbers[start + 5], numbers[start + 6]
    return math.sqrt(x * x + y * y + z * z + w * w)


def set_base(kind: str, q: Array, v: Array, pose: Sequence[float], twist: Sequence[float]) -> None:
    """Set the coordinates and velocities of a "floating" or "planar" base, see `copy_base`.

    Raises `Rejected` for a pose (x y z qx qy qz qw) or a twist that cannot be used.
    """
    check_base(pose, twist)
    copy_base(kind == "planar", [*pose, *twist], 0, q, v)
    if kind == "floating":
        q[3:7] /= base_norm(pose, 0)


def copy_base(is_planar: bool, numbers: Numbers, start: int, q: Array, v: Array) -> None:
    """Set the first coordinates and velocities from a pose and a twist in the base frame.

    A planar base takes the position in the plane, the yaw, and the corresponding velocities; a
    floating one all, and its quaternion is not normalized. Compiled code uses this, too.
    """
    twist = start + 7
    if is_planar:
        x, y, z, w = numbers[start + 3], numbers[start + 4], numbers[start + 5], numbers[start + 6]
        q[0], q[1] = numbers[start], numbers[start + 1]
        q[2] = math.atan2(2.0 * (w * z + x * y), 1.0 - 2.0 * (y * y + z * z))
        v[0], v[1], v[2] = numbers[twist], numbers[twist + 1], numbers[twist + 5]
    else:
        for k in range(7):
            q[k] = numbers[start + k]
        for k in range(6):
            v[k] = numbers[twist + k]


def check_child_frame(child: str, root_link: str) -> None:
    """Raise `Rejected` if odometry states its child_frame_id, and it is not the root link."""
    if child and child != root_link and not child.endswith("/" + root_link):
        raise Rejected(
            f"child_frame_id is '{child}', expected the root link '{root_link}', whose "
            "pose and twist are needed"
        )


# --- what is made of them


class State(NamedTuple):
    """A robot's state at one instant, in the order of the model."""

    q: Array
    velocities: Array  # meaningless for the joints in `unknown`
    stamp: int = 0  # [ns]; 0 if the state is from a request
    unknown: Sequence[str] = ()  # names of the joints whose velocity is unknown
    effort: Array | None = None  # None: not collected, or that of some joint is unknown
    acceleration: Array | None = None  # as for effort; see `MessageCollector.cutoff`

    @property
    def v(self) -> Array | None:
        """All velocities; None if one is unknown."""
        return None if self.unknown else self.velocities

    def velocity(self) -> Array:
        """Return all velocities; raise `Rejected` if one is unknown."""
        if self.unknown:
            raise Rejected(f"unknown velocity of {abbreviated(self.unknown)}: {STATE_HINT}")
        return self.velocities


class States(NamedTuple):
    """The states of a robot, in the order of the messages that completed them.

    `log_time` is when that message was recorded, `stamp` the newest stamp in the state, `behind` by
    how much the oldest is behind it: (n,) [ns]. Positions `q` (n, nq) [rad, m]; velocities and
    efforts (n, nv) [rad/s, m/s], [N m, N]: NaN where they are unknown.
    """

    log_time: Integers
    stamp: Integers
    q: Array
    v: Array
    tau: Array
    behind: Integers

    def take(self, rows: slice | NDArray[np.intp] | NDArray[np.bool_]) -> States:
        """Return some of the states; a slice returns views."""
        return States._make(array[rows] for array in self)

    @classmethod
    def concatenate(cls, parts: Sequence[States], nq: int, nv: int) -> States:
        """Join states of one robot, which may be none."""
        if len(parts) == 1:
            return parts[0]
        if not parts:
            return cls.empty(0, nq, nv)
        return cls(*(np.concatenate(arrays) for arrays in zip(*parts)))

    @classmethod
    def empty(cls, count: int, nq: int, nv: int) -> States:
        """Memory for so many states."""
        return cls(
            np.empty(count, np.int64),
            np.empty(count, np.int64),
            np.empty((count, nq)),
            np.empty((count, nv)),
            np.empty((count, nv)),
            np.empty(count, np.int64),
        )


class Note(NamedTuple):
    """Messages that were not used for one reason: how many, when the first one was recorded [ns].

    `example` is what was wrong with it.
    """

    messages: int
    first: int
    example: str

    def plus(self, later: Note) -> Note:
        """Add messages, the earlier of which is the example."""
        earlier = self if self.first <= later.first else later
        return earlier._replace(messages=self.messages + later.messages)
