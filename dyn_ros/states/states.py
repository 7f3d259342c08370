# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""States of a robot, and the messages of which none could be made."""
from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..engine.kernel.types import Array
from .joint_states import Rejected, abbreviated

Integers = NDArray[np.int64]
STATE_HINT = "publish it on joint_states, or specify a state in the request"


class State(NamedTuple):
    """A robot's state at one instant, in the order of the model."""

    q: Array
    velocities: Array               # meaningless for the joints in `unknown`
    stamp: int = 0                  # [ns]; 0 if the state is from a request
    unknown: Sequence[str] = ()     # names of the joints whose velocity is unknown
    effort: Array | None = None     # None: not collected, or that of some joint is unknown
    acceleration: Array | None = None   # as for effort; see `MessageCollector.cutoff`

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
        return cls(np.empty(count, np.int64), np.empty(count, np.int64), np.empty((count, nq)),
                   np.empty((count, nv)), np.empty((count, nv)), np.empty(count, np.int64))


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
