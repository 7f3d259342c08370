# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""State of a robot at one instant, states of a recording, and names of joints in messages."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from enum import Enum
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..engine.kernel.names import join_names
from ..engine.kernel.types import Array
from ..engine.model.model import Model
from ..engine.model.urdf import ONE_DOF, find_unreported_joint, has_root_joint

NO_STAMP = -(1 << 62)  # [ns]; nothing has been received yet
STALENESS = 0.5  # s; default of the largest difference between the stamps within one state
MAX_NAME_LISTS = 1000  # bounds the memory if a publisher never repeats its list of names
MAX_MAGNITUDE = 1e12  # any unit; doubles resolve larger angles poorly, and results overflow
QUATERNION_TOLERANCE = 1e-3  # deviation of the norm from 1; allows for rounded digits
Numbers: TypeAlias = "Sequence[float] | Array"
Integers: TypeAlias = NDArray[np.int64]
STATE_HINT = "publish it on joint_states, or specify a state in the request"


class Reception(Enum):
    """Outcome of a message that a collector has received."""

    NEW_STATE = "a state is complete, and due"
    NO_STATE = "a state is incomplete, or not due yet"
    UNREAD = "the bytes must be deserialized by the caller"


class Rejected(ValueError):
    """Error of input that cannot be used; its text states the reason."""


def find_duplicates(names: Iterable[str]) -> list[str]:
    """Return the names that occur more than once."""
    return sorted(name for name, count in Counter(names).items() if count > 1)


def abbreviate_names(names: Sequence[str]) -> str:
    """Join names for a message: the first twenty, and the number of the others."""
    return join_names(names, 20)


def joint_rows(model: Model, joints: Iterable[str]) -> tuple[list[int], list[int]]:
    """Return the rows of joints in q and in v, in their order."""
    indices = [model.joint_index(name) for name in joints]
    return (
        [row for k in indices for row in range(model.idx_q[k], model.idx_q[k] + model.nqs[k])],
        [row for k in indices for row in range(model.idx_v[k], model.idx_v[k] + model.nvs[k])],
    )


def base_kind(model: Model) -> str | None:
    """Return "floating", "planar", or None for a fixed base.

    Raise a ValueError for another joint with several coordinates, see `find_unreported_joint`.
    """
    unreported = find_unreported_joint(model.tree)
    if unreported is not None:
        raise ValueError(f"joint '{unreported.joint}' {unreported.reason}; {unreported.remedy}")
    root = model.tree.joints[0] if has_root_joint(model.tree) else None
    return root.kind if root is not None and root.kind not in ONE_DOF else None


class State(NamedTuple):
    """A robot's state at one instant, in the order of the model."""

    q: Array  # (nq,)
    raw_velocities: Array  # (nv,), meaningless for the joints in `unknown`
    stamp: int = 0  # [ns]; 0 if the state is from a request
    unknown: Sequence[str] = ()  # names of the joints whose velocity is unknown
    effort: Array | None = None  # (nv,); None if not collected, or unknown for a joint
    acceleration: Array | None = None  # (nv,); None as for effort; see `MessageCollector.cutoff`

    @property
    def v(self) -> Array | None:
        """All velocities; None if one is unknown."""
        return None if self.unknown else self.raw_velocities

    def require_velocities(self) -> Array:
        """Return all velocities; raise `Rejected` if one is unknown."""
        if self.unknown:
            raise Rejected(f"unknown velocity of {abbreviate_names(self.unknown)}: {STATE_HINT}")
        return self.raw_velocities


class States(NamedTuple):
    """The states of a robot, in the order of the messages that completed them.

    `log_time` is the time at which that message was recorded, `stamp` the newest stamp in the
    state, `behind` its difference to the oldest one: (n,) [ns]. Positions `q` (n, nq) [rad, m];
    velocities and efforts (n, nv) [rad/s, m/s], [N m, N]: NaN where they are unknown.
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
        """Return the states of several parts of a recording as one."""
        if len(parts) == 1:
            return parts[0]
        if not parts:
            return cls.empty(0, nq, nv)
        return cls(*(np.concatenate(arrays) for arrays in zip(*parts)))

    @classmethod
    def empty(cls, count: int, nq: int, nv: int) -> States:
        """Return memory for `count` states."""
        return cls(
            np.empty(count, np.int64),
            np.empty(count, np.int64),
            np.empty((count, nq)),
            np.empty((count, nv)),
            np.empty((count, nv)),
            np.empty(count, np.int64),
        )


class Note(NamedTuple):
    """Messages that were rejected for one reason."""

    messages: int  # count
    first: int  # log time of the first one [ns]
    example: str  # description of the first one

    def merge(self, later: Note) -> Note:
        """Return the note of both; the earlier example remains."""
        earlier = self if self.first <= later.first else later
        return earlier._replace(messages=self.messages + later.messages)
