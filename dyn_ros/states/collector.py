# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""States from blocks of decoded messages, as recordings have them."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from ..engine.call.algorithm import compiled
from ..engine.kernel.types import Array
from ..engine.model.model import Model
from . import joint_states as rules
from . import kernel
from . import memory as mem
from .joint_states import NEVER, Rejected
from .states import Integers, Note, States

Base = tuple[Sequence[float], Sequence[float]]


class Messages(Protocol):
    """Decoded messages, in order of the time when they were recorded."""

    @property
    def layout(self) -> NDArray[np.int32]: ...
    @property
    def log_time(self) -> Integers: ...
    @property
    def stamp(self) -> Integers: ...
    @property
    def counts(self) -> NDArray[np.int32]: ...
    @property
    def start(self) -> Integers: ...
    @property
    def numbers(self) -> Array: ...


class Names(Protocol):
    """The lists of joint names and the child frames that messages refer to by number."""

    @property
    def layouts(self) -> Sequence[tuple[str, ...]]: ...
    @property
    def children(self) -> Sequence[str]: ...


class Joints(NamedTuple):
    """The joints whose states are collected, and the columns of their numbers."""

    names: tuple[str, ...]
    idx_q: tuple[int, ...]
    idx_v: tuple[int, ...]
    nvs: tuple[int, ...]
    neutral: Array
    ignored: frozenset[str] = frozenset()       # mimic joints
    base: str | None = None
    root_link: str = ""

    @classmethod
    def of(cls, model: Model) -> Joints:
        """The joints of a model that have coordinates of their own."""
        own = [i for i, joint in enumerate(model.tree.joints) if joint.mimic is None]
        names = tuple(model.joint_names[i] for i in own)
        idx_q, idx_v, nvs = (tuple(int(column[i]) for i in own)
                             for column in (model.idx_q, model.idx_v, model.nvs))
        return cls(names, idx_q, idx_v, nvs, np.array(model.neutral(), float),
                   frozenset(model.joint_names) - frozenset(names), rules.base_kind(model),
                   next(frame.name for frame in model.tree.frames if frame.kind == "body"))


class Layout(NamedTuple):
    """What the compiled rules need of a list of names; see `memory`."""

    part: int
    size: int
    entries: Integers           # (count, 4)


class Collector:
    """Combines the latest positions and velocities of all joints into states.

    Joints are matched by name, in any order. Names that are not in the model are ignored, and so
    are mimic joints, whose state follows from their masters'. Each publisher may report a subset
    of the joints. A state is complete when every joint is known and none is more than `staleness`
    behind the newest. It is then due at the rate of the fastest publisher: with the message that
    completes a round of all publishers or, if one of them lags, with each message of the others.

    A message that cannot be used changes nothing: here it is counted. If stamps jump back by more
    than `staleness` (a bag that loops, a simulation that was reset), the collected state is
    discarded.

    Parameters
    ----------
    model : Model
        The base may be floating or planar (first joint below the universe); any other joint of
        several degrees of freedom is a `ValueError`, as no message reports its state.
    staleness : float
        Largest difference between stamps within one state [s].
    base : tuple of two arrays, optional
        Constant pose (x y z qx qy qz qw) and twist (linear, angular, expressed in the base frame)
        of the base. If omitted, a floating or planar base waits for odometry. Raises `Rejected`,
        a ValueError, if it is not finite or too large, or if the quaternion's norm is not 1.

    Attributes
    ----------
    names : tuple of str
        The joints that messages report.
    needs_odometry : bool
        Whether the pose and twist of the base come from odometry.
    rejected : dict of str to Note
        Messages that were rejected, by reason, see `kernel.REASONS`.
    resets : Note or None
        Stamps that jumped back by more than the staleness: the collected state was discarded.
    unknown : dict of str to None
        Names that are not joints of the model.
    """

    def __init__(self, model: Model, staleness: float = rules.STALENESS,
                 base: Base | None = None) -> None:
        self._start(Joints.of(model), staleness, base)

    @classmethod
    def of_names(cls, names: Sequence[str], staleness: float = rules.STALENESS) -> Collector:
        """Return a collector without a model: a position and a velocity for each unique name."""
        rules.check_names(list(names))
        columns = tuple(range(len(names)))
        collector = cls.__new__(cls)
        collector._start(Joints(tuple(names), columns, columns, (1,) * len(names),
                                np.zeros(len(names))), staleness, None)
        return collector

    def _start(self, joints: Joints, staleness: float, base: Base | None) -> None:
        names, nq, nv = joints.names, len(joints.neutral), sum(joints.nvs)
        self._joints = joints
        self.needs_odometry = joints.base is not None and base is None
        self.names = names if joints.base is None else names[1:]
        self._slots = {name: slot for slot, name in enumerate(names) if name in self.names}
        self.rejected: dict[str, Note] = {}
        self.resets: Note | None = None
        self.unknown: dict[str, None] = {}
        self._layouts: dict[tuple[str, ...], Layout] = {}
        self._part_of: dict[tuple[int, ...], int] = {}
        self._decoder: Names | None = None
        empty = np.zeros(0, np.int64)
        self._memory = mem.Memory(
            **dict.fromkeys(mem.Memory._fields, empty),
        )._replace(
            slots=np.repeat(np.arange(len(names), dtype=np.int64), joints.nvs),
            q=np.array(joints.neutral), v=np.zeros(nv), tau=np.zeros(nv),
            stamps=np.full(len(names), NEVER), has_velocity=np.zeros(len(names), np.int64),
            has_effort=np.zeros(nv, np.int64), acceleration=np.zeros(nv), v_before=np.zeros(nv),
            stamps_before=np.full(nv, NEVER), has_acceleration=np.zeros(nv, np.int64),
            cutoff=np.zeros(1), scalars=np.zeros(mem.SCALARS, np.int64),
            faults=np.zeros((len(kernel.REASONS) + 1, 3), np.int64))
        self._scalars = self._memory.scalars
        self._scalars[[mem.NEWEST, mem.ALLOWED, mem.BASE_PART, mem.LATEST_LIST]] = (
            NEVER, round(staleness * 1e9), -1, -1)
        self._scalars[[mem.JOINTS, mem.NQ, mem.NV]] = len(names), nq, nv
        self._scalars[mem.IS_PLANAR] = joints.base == "planar"
        self._clear_layouts()
        if joints.base is not None:
            self._add_base(base)

    def _add_base(self, base: Base | None) -> None:
        memory = self._memory
        memory.has_effort[:self._joints.nvs[0]] = True      # zero: no message reports its wrench
        if base is None:
            self._add_base_part()
            return
        rules.check_base(*base)
        numbers = np.array([*base[0], *base[1]], float)
        rules.set_base(self._joints.base == "planar", numbers, 0, rules.base_norm(numbers, 0),
                       memory.q, memory.v)
        memory.has_velocity[0] = self._scalars[mem.GIVEN] = True
