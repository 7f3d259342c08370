# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Jumps of positions that no motion explains: whole turns, glitches, and joined recordings."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..engine.kernel.types import Array
from ..engine.model.coordinates import JointSlices, joint_slices
from ..engine.model.model import Model
from ..states.jump_kernel import STAMP_ERROR
from .tables.row_selection import format_stamp

_HIDDEN_PERIODS = 2.0  # sampling periods of the joint, if these are longer than `STAMP_ERROR`

MAX_GLITCH_TIME = 1.0
"""Longest time for which a sensor is wrong [s]; afterwards, the zero may have been set again."""

_DEFAULT_SPEED_LIMIT = 2.0, 0.5  # rad/s, m/s; without a limit, or with a lower one
_MAX_SPEED_LIMIT = 30.0, 3.0  # rad/s, m/s; larger limits are in another unit, or mean none
_NEIGHBOR_STEPS = 5  # steps on each side, whose median is not affected by two jumps
_NET_STEPS = 4  # steps on each side, whose sum is small if two publishers alternate; even
_OWN_SPEED_QUANTILE = 0.95  # faster steps do not show the speed that a joint reaches
_MIN_CHANGES = 10  # fewer do not show for how many rows a position is held
_HOLD_QUANTILE = 0.25  # above it, rows between changes may be at rest
_MAX_GLITCH_FRACTION = 0.1  # relative to all rows; a fault of a sensor lasts for fewer
_BLOCK_SIZE = 1 << 12  # rows
_TURN = 2.0 * math.pi
_MAX_TURNS = 2  # in one jump; from one end of the range of an encoder to the other


class Jump(NamedTuple):
    """A step of one joint that is too fast to be a motion.

    Attributes
    ----------
    joint : str
    column : int
        Its column in q.
    row, stop : int
        First row after the step, and after the step back; equal if there is none.
    step : float
        Step beyond the motion [rad, m].
    unit : str
    turns : int
        Whole turns in the step; 0 if it is none.
    """

    joint: str
    column: int
    row: int
    stop: int
    step: float
    unit: str
    turns: int


class Jumps:
    """The jumps in the positions of a recording.

    A jump by whole turns is an angle that was wrapped. Rows between a jump and the jump back are a
    glitch. Other jumps are breaks: what follows is not a continuation.
    """

    def __init__(self, time: Array, jumps: list[Jump]) -> None:
        self._time = time
        jumps = sorted(jumps, key=lambda jump: (jump.row, -abs(jump.step)))
        self.turns = [jump for jump in jumps if jump.turns]
        self.glitches = [jump for jump in jumps if jump.stop > jump.row]
        self.breaks = [jump for jump in jumps if not jump.turns and jump.stop == jump.row]

    def remove_turns(self, q: Array) -> None:
        """Remove whole turns from positions (B, nq), in place."""
        for jump in self.turns:
            q[jump.row :, jump.column] -= _TURN * jump.turns

    def glitch_mask(self) -> NDArray[np.bool_]:
        """Return a mask (B,) of the rows of glitches."""
        is_glitch = np.zeros(len(self._time), bool)
        for jump in self.glitches:
            is_glitch[jump.row : jump.stop] = True
        return is_glitch

    def break_mask(self) -> NDArray[np.bool_]:
        """Return a mask (B,) of the first row after each break."""
        is_break = np.zeros(len(self._time), bool)
        is_break[[jump.row for jump in self.breaks]] = True
        return is_break

    def warnings(self, rows: slice = slice(None)) -> Iterator[str]:
        """Yield a warning on each kind of jump in the rows, with joint, time and step of one."""
        first, last, _ = rows.indices(len(self._time))
        glitch_rows = int(np.count_nonzero(self.glitch_mask()[rows]))
        left_out = f"left out {glitch_rows} rows in between"
        if glitch_rows > _MAX_GLITCH_FRACTION * (last - first):
            left_out += "; two publishers may report these joints, record one of them"
        split = (
            "no joint moves so fast, so the recording is split there; if the joint has another "
            "zero afterwards, use one part: pass until=, or since="
        )
        for all_jumps, what, consequence in (
            (self.turns, "jumps by whole turns", "whole turns are ignored"),
            (self.glitches, "jumps and jumps back", left_out),
            (self.breaks, "jumps", split),
        ):
            jumps = [jump for jump in all_jumps if first <= jump.row < last]
            if jumps:
                place = f"at {format_stamp(self._time[jumps[0].row])} s"
                yield f"the position {what} {place}: {_describe_jumps(jumps)}; {consequence}"


def _describe_jumps(jumps: list[Jump]) -> str:
    """Return the joint and the step of the first jump, and the number of further ones."""
    row_count = len({jump.row for jump in jumps})
    joint_count = sum(jump.row == jumps[0].row for jump in jumps)
    return "".join(
        (
            f"{jumps[0].joint!r} by {jumps[0].step:.3g} {jumps[0].unit}",
            f" and {joint_count - 1} more joints" if joint_count > 1 else "",
            f", and {row_count - 1} more times" if row_count > 1 else "",
        )
    )


def find_jumps(model: Model, time: Array, q: Array) -> Jumps:
    """Find the jumps of joints with one coordinate in positions q (B, nq) at times (B,) [s].

    A jump is a step that its neighbors do not continue, and for which the joint would take more
    than ``STAMP_ERROR`` at its velocity limit, and at the speed before or after it.
    """
    joints_and_limits = [
        (joint, _speed_limit(model, joint))
        for joint in joint_slices(model)
        if joint.q.stop - joint.q.start == joint.v.stop - joint.v.start == 1
    ]
    jumps: list[Jump] = []
    lowest_limit = min((limit for _, limit in joints_and_limits), default=math.inf)
    if _largest_step(q) <= STAMP_ERROR * lowest_limit:
        return Jumps(time, jumps)
    increments = np.diff(time)
    increments = increments[increments > 0.0]
    period = float(np.median(increments)) if len(increments) else 0.0
    for joint, speed_limit in joints_and_limits if period else ():
        steps = np.diff(q[:, joint.q.start])
        if joint.kind == "continuous":
            steps -= _TURN * np.round(steps / _TURN)
        if np.abs(steps).max(initial=0.0) > STAMP_ERROR * speed_limit:
            jumps += _JointSteps(time, steps, period, speed_limit).find(joint)
    return Jumps(time, jumps)


def _largest_step(q: Array) -> float:
    """Return the largest absolute step between rows of positions (B, nq)."""
    largest = 0.0
    for start in range(0, len(q), _BLOCK_SIZE):  # blocks fit in the caches
        block = q[start : start + _BLOCK_SIZE + 1]
        steps = block[1:] - block[:-1]
        largest = max(largest, float(np.abs(steps, out=steps).max(initial=0.0)))
    return largest


def _speed_limit(model: Model, joint: JointSlices) -> float:
    """Return the velocity limit of a joint if it is plausible, otherwise a usual one."""
    kind = int(joint.kind == "prismatic")
    limit = float(model.velocity_limit[joint.v.start])
    is_plausible = _DEFAULT_SPEED_LIMIT[kind] < limit <= _MAX_SPEED_LIMIT[kind]
    return limit if is_plausible else _DEFAULT_SPEED_LIMIT[kind]


def _neighbor_speeds(steps: Array, duration: Array) -> Array:
    """Return the speeds (2, B) before and after each of the steps (B,) of some duration [s].

    Neither two jumps nor the steps back and forth between two publishers affect them.
    """
    medians = np.median(_windows(steps / duration, _NEIGHBOR_STEPS), axis=1)
    travel = _windows(steps, _NET_STEPS).sum(axis=1)
    means = travel / np.maximum(_windows(duration, _NET_STEPS).sum(axis=1), duration.min())
    median = np.stack([medians[: len(steps)], medians[_NEIGHBOR_STEPS + 1 :]])
    mean = np.stack([means[: len(steps)], means[_NET_STEPS + 1 :]])
    neighbors: Array = np.where(np.abs(mean) < np.abs(median), mean, median)
    return neighbors


def _windows(values: Array, count: int) -> Array:
    """Return the ``count`` values before each of the values (B,), and after the last ones."""
    windows: Array = np.lib.stride_tricks.sliding_window_view(np.pad(values, count), count)
    return windows


class _JointSteps:
    """Steps (B - 1,) of one joint between rows, and the motion before and after each.

    Only steps between different positions count, as positions may be published more often than they
    are measured.
    """

    def __init__(self, time: Array, steps: Array, period: float, speed_limit: float) -> None:
        self._time, self._steps = time, steps
        self._rows = np.flatnonzero(steps)  # the row before each step
        dt = np.diff(time)[self._rows]
        since = time[self._rows + 1] - time[np.append(0, self._rows[:-1] + 1)]
        hold = period
        if len(self._rows) >= _MIN_CHANGES:
            hold *= float(np.quantile(np.diff(self._rows), _HOLD_QUANTILE))
        delay = max(STAMP_ERROR, _HIDDEN_PERIODS * hold)
        duration = np.maximum(np.maximum(dt, np.minimum(since, hold)), period)
        speed = steps[self._rows] / duration
        neighbors = _neighbor_speeds(steps[self._rows], duration)
        own_speed = float(np.quantile(np.abs(neighbors).max(axis=0), _OWN_SPEED_QUANTILE))
        speed_limit = max(speed_limit, own_speed)
        self._speeds = np.sort(np.clip(neighbors, -speed_limit, speed_limit), axis=0)
        reach = np.where(duration > delay, [[-speed_limit], [speed_limit]], self._speeds)
        self._excess = (speed - np.clip(speed, *reach)) * duration
        self._tolerance = delay * np.maximum(speed_limit, np.abs(neighbors).min(axis=0))
        self._is_jump = (np.abs(self._excess) > self._tolerance) & (dt >= 0.0)

    def find(self, joint: JointSlices) -> Iterator[Jump]:
        """Yield the jumps of the joint, in their order."""
        unit = "m" if joint.kind == "prismatic" else "rad"
        candidates = np.flatnonzero(self._is_jump)
        k = 0
        while k < len(candidates):
            start = candidates[k]
            row, excess = int(self._rows[start]) + 1, float(self._excess[start])
            turns = round(excess / _TURN) if joint.kind == "revolute" else 0
            if abs(turns) > _MAX_TURNS or abs(excess - _TURN * turns) > self._tolerance[start]:
                turns = 0
            length = 0 if turns else self._glitch_length(candidates[k:])
            stop = int(self._rows[candidates[k + length]]) + 1
            yield Jump(joint.name, joint.q.start, row, stop, excess, unit, turns)
            k += 1 + length

    def _glitch_length(self, jumps: NDArray[np.int_]) -> int:
        """Return how many further jumps end a glitch that begins with the first one; 0: none is."""
        for length, jump in enumerate(jumps[1:], 1):
            duration = self._time[self._rows[jump]] - self._time[self._rows[jumps[0]]]
            if duration > MAX_GLITCH_TIME:
                break
            if self._continues(jumps[0], jump):
                return length
        return 0

    def _continues(self, start: int, end: int) -> bool:
        """Return True if the motion after a later jump continues the motion before a jump."""
        first, last = int(self._rows[start]), int(self._rows[end]) + 1
        duration, tolerance = self._time[last] - self._time[first], self._tolerance[start]
        low, high = np.sort([self._speeds[:, start], self._speeds[:, end]], axis=None)[[0, -1]]
        travel = float(self._steps[first:last].sum())
        return bool(low * duration - tolerance <= travel <= high * duration + tolerance)
