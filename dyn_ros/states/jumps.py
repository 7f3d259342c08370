# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Positions that change faster than their joints can move: two publishers of a joint, or a fault.

The kernels in `jump_kernel` find the jumps, which a `PositionJumps` counts and describes.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable

import numpy as np

from ..engine.kernel.types import Array
from ..engine.model.model import Model
from .jump_kernel import STAMP_ERROR

MIN_SPEED_LIMIT = 1.0
"""Least limit that is applied [rad/s, m/s]; 5 % of 1200 joints in published descriptions have less,
and positions of a joint that shakes or is noisy change faster."""
MAX_SPEED_LIMIT = 10.0
"""Largest limit that is applied, also to joints without a limit [rad/s, m/s]. A joint may be faster
than its limit, as its motion is continuous; limits of 100 or 1000 are placeholders."""
HOLD = 2.0
"""Time after a jump in which commands stop [s]: two periods of a publisher at 1 Hz, or of the
diagnostics."""
MIN_RETURNS = 3
"""Jumps between the same two positions, after the first one, that show two sources; a glitch of an
encoder has one."""


def smallest_jumps(model: Model) -> dict[str, float]:
    """Return the largest step within `STAMP_ERROR` of each joint with one coordinate [rad, m]."""
    return {
        name: STAMP_ERROR * speed
        for name, speed in zip(model.velocity_names, _speed_limits(model).tolist())
    }


def _speed_limits(model: Model) -> Array:
    """Return the speed limits that are applied, (nv,) [rad/s, m/s]."""
    limit = model.velocity_limit
    limit = np.where(limit > 0.0, limit, MAX_SPEED_LIMIT)  # neither zero nor NaN
    limits: Array = np.clip(limit, MIN_SPEED_LIMIT, MAX_SPEED_LIMIT)
    return limits


def turning_joints(model: Model) -> set[str]:
    """Return the names of the joints that may turn by 2 pi without any effect on the robot.

    Mimic joints that follow them must turn as well, by whole turns.
    """
    joints = model.tree.joints
    names = {joint.name for joint in joints if joint.kind in ("revolute", "continuous")}
    for joint in joints:
        if joint.mimic and not (joint.name in names and joint.mimic.multiplier.is_integer()):
            names.discard(joints[joint.mimic.joint].name)
    return names


class PositionJumps:
    """The jumps of a robot's positions: how many, and a description of the last ones.

    `log(key, text)` is called for the first jump after a while without any, if positions alternate,
    and for the first whole turn of each joint; of lines with the same key, it may omit some.
    `publishers()` returns who publishes positions, and what to do if two publish the same ones.
    `may_restart()` returns True if time may start again from zero, as in a simulation.
    `count` are the jumps that are no whole turns; `latest` describes the latest jump. `alternates`
    is True if positions alternate, while there is a `fault`.
    """

    def __init__(
        self,
        log: Callable[[str, str], object] = lambda key, text: None,
        publishers: Callable[[], str] = lambda: "two publishers report it",
        may_restart: Callable[[], bool] = lambda: True,
    ) -> None:
        self._log, self._publishers, self._may_restart = log, publishers, may_restart
        self.count, self.latest, self.alternates = 0, "", False
        self._fault = ""
        self._fault_end = self._latest_time = -math.inf  # by time.perf_counter [s]
        self._restart, self._restart_end = "", -math.inf
        # lower and higher position of the latest jump of each joint, and how often it was repeated
        self._pairs: dict[str, tuple[float, float, int]] = {}
        self._turned: set[str] = set()  # joints whose whole turns have been logged

    def fault(self) -> str:
        """Return what is wrong with positions now, until `HOLD` after a jump."""
        return self._fault if time.perf_counter() < self._fault_end else ""

    def command_fault(self) -> str:
        """Return why commands must not follow positions now: a fault, or time that starts again."""
        is_restart = time.perf_counter() < self._restart_end
        return self.fault() or (self._restart if is_restart else "")

    def record_turns(self, joint: str, before: float, after: float, stamp: int) -> None:
        """Record that a position jumped by whole turns [rad] in the message with a stamp [ns]."""
        self.latest = (
            f"the position of {joint} jumped from {before:.6g} to {after:.6g} at "
            f"{_format_stamp(stamp)}, by whole turns, which change no torque"
        )
        if joint not in self._turned:
            self._turned.add(joint)
            self._log(f"turns of {joint}", self.latest)

    def record(
        self, joint: str, before: float, after: float, stamp: int, stamp_jumped: bool = False
    ) -> None:
        """Record that a position jumped [rad, m] in the message with a stamp [ns].

        If the stamp jumped back as well, as when a bag loops, this is no fault unless it recurs.
        """
        now = time.perf_counter()
        if now >= self._latest_time + HOLD:
            self._fault, self.alternates, self._pairs = "", False, {}
        self._latest_time = now
        low, high = sorted((before, after))
        if self._count_returns(joint, low, high) >= MIN_RETURNS and not self.alternates:
            self.alternates = True
            self._fault = (
                f"the position of {joint} alternates between {low:.6g} and {high:.6g} at "
                f"{_format_stamp(stamp)}: {self._publishers()}"
            )
            self._log("alternating positions", self._fault)
        if stamp_jumped and not self.alternates:
            if not self._may_restart():
                self._restart_end = now + HOLD
                self._restart = (
                    f"the position of {joint} jumped from {before:.6g} to {after:.6g} with its "
                    f"stamp, at {_format_stamp(stamp)}"
                )
            return
        self.count, self._fault_end = self.count + 1, now + HOLD
        self.latest = (
            f"the position of {joint} jumped from {before:.6g} to {after:.6g} at "
            f"{_format_stamp(stamp)}, faster than it can move; check its encoder, and whether its "
            "driver has been restarted"
        )
        if not self._fault:
            self._fault = self.latest
            self._log("position jump", self._fault)

    def _count_returns(self, joint: str, low: float, high: float) -> int:
        """Return how many successive jumps of a joint have been between about these positions."""
        *earlier, returns = self._pairs.get(joint, (math.inf, math.inf, 0))
        distance = max(abs(low - earlier[0]), abs(high - earlier[1]))
        returns = returns + 1 if distance < 0.5 * (high - low) else 0
        self._pairs[joint] = low, high, returns
        return returns


def _format_stamp(stamp: int) -> str:
    """Return a stamp [ns] in seconds, with all digits."""
    seconds, nanoseconds = divmod(stamp, 1_000_000_000)
    return f"{seconds}.{nanoseconds:09d} s"
