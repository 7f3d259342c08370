# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""A smooth motion for any robot: slow sines within the limits of every joint, starting at rest."""
import math
from collections.abc import Iterable, Sequence
from typing import Protocol

import numpy as np

import dyn_ros

from ..engine.kernel.types import Array, ArrayLike
from ..engine.model.urdf import ONE_DOF, Joint
from .follower import SpringFollower

RESUME = 2.0        # [1/s]: how fast a resumed motion converges to the original one
SLOWING = 0.2       # time constant with which a motion is held and continues [s]


class Moving(Protocol):
    """A motion of joints over time."""

    def at(self, time: float) -> tuple[Array, Array, Array]:
        """Return position, velocity and acceleration, as `Motion.at` does."""


class Motion:
    """Position of each joint over time, with exact derivatives.

    Joints with one degree of freedom move, except mimic joints: `names`, in the order of the model.
    """

    def __init__(self, joints: Iterable[Joint]) -> None:
        moving = [joint for joint in joints if joint.kind in ONE_DOF and joint.mimic is None]
        self.names = [joint.name for joint in moving]
        swings = [_swing(joint, number) for number, joint in enumerate(moving)]
        self._center, self._amplitude, self._frequency = np.array(swings).reshape(-1, 3).T

    def at(self, time: float) -> tuple[Array, Array, Array]:
        """Return position, velocity and acceleration of every joint [rad or m, and per s, s^2].

        At time 0 [s], all joints rest at the center of their range.
        """
        # The motion's time starts at rest: its rate is t / sqrt(1 + t^2), which never exceeds 1.
        root = math.hypot(1.0, time)
        phase = self._frequency * (root - 1.0)
        position = self._center + self._amplitude * np.sin(phase)
        swing, rate = self._amplitude * self._frequency, time / root
        velocity = swing * np.cos(phase) * rate
        acceleration = swing * (np.cos(phase) / root ** 3
                                - self._frequency * np.sin(phase) * rate ** 2)
        return position, velocity, acceleration


class Resumed:
    """A motion from rest at another position [rad, m], which converges to the original one."""

    def __init__(self, motion: Motion, position: ArrayLike) -> None:
        self._motion = motion
        self._offset = np.asarray(position) - motion.at(0.0)[0]

    def at(self, time: float) -> tuple[Array, Array, Array]:
        """Return position, velocity and acceleration, as `Motion.at` does."""
        position, velocity, acceleration = self._motion.at(time)
        offset = self._offset * math.exp(-RESUME * time)
        return (position + offset * (1.0 + RESUME * time),
                velocity - offset * RESUME ** 2 * time,
                acceleration - offset * RESUME ** 2 * (1.0 - RESUME * time))


class Steered:
    """Joints that follow commanded positions smoothly [rad, m], with velocities [rad/s, m/s]."""

    def __init__(self, position: ArrayLike, velocity: ArrayLike) -> None:
        self._follower = SpringFollower(position)
        self._follower.velocity = np.array(velocity, float)
        self._time = 0.0

    @property
    def target(self) -> Array:
        """The commanded positions; at first those at time 0."""
        return self._follower.target

    @target.setter
    def target(self, position: ArrayLike) -> None:
        self._follower.target = np.array(position, float)

    def at(self, time: float) -> tuple[Array, Array, Array]:
        """Return position, velocity and acceleration at a time that is never before the last."""
        self._follower.step(time - self._time)
        self._time = time
        return self._follower.position, self._follower.velocity, self._follower.acceleration


class Steering:
    """A robot's own motion, which users can hold, stop, steer and resume.

    `target` are the commanded positions (n,); None while the robot moves by itself.
    """

    def __init__(self, motion: Motion) -> None:
        self._motion = motion
        self._moving: Moving = motion
        self._steered: Steered | None = None
        self._time = 0.0            # of `_moving`
        self._pace = self._wanted_pace = 1.0    # of its own motion

    @property
    def target(self) -> Array | None:
        """The commanded positions, or None."""
        return None if self._steered is None else self._steered.target

    def play(self, plays: bool) -> None:
        """Move by itself, or stop and follow commands."""
        position, velocity, _ = self._at(self._time)
        if plays and self._steered is not None:
            self._moving, self._steered = Resumed(self._motion, position), None
            self._time = 0.0
        elif not plays and self._steered is None:
            self._moving = self._steered = Steered(position, velocity)
            self._time = 0.0

    def command(self, position: ArrayLike) -> None:
        """Set the positions to follow; ignored while the robot moves by itself."""
        if self._steered is not None:
            self._steered.target = position

    def hold(self, holds: bool) -> None:
        """Slow its own motion to a stop, or continue it."""
        self._wanted_pace = 0.0 if holds else 1.0

    def advance(self, seconds: float) -> tuple[Array, Array, Array]:
        """Advance; return position, velocity and acceleration, as `Motion.at` does."""
        if self._steered is not None:
            self._time += seconds
        else:
            before, wanted = self._pace, self._wanted_pace
            self._pace = wanted + (before - wanted) * math.exp(-seconds / SLOWING)
            self._time += wanted * seconds + (before - self._pace) * SLOWING
        return self._at(self._time)

    def _at(self, time: float) -> tuple[Array, Array, Array]:
        position, velocity, acceleration = self._moving.at(time)
        if self._steered is None:
            change = (self._wanted_pace - self._pace) / SLOWING
            acceleration = self._pace ** 2 * acceleration + change * velocity
            velocity = self._pace * velocity
        return position, velocity, acceleration


class Motors:
    """The motor torques that a motion requires, with the root link fixed.

    Joints that are not in `names` stay at `model.neutral()`.
    """

    def __init__(self, model: dyn_ros.Model, names: Sequence[str]) -> None:
        self._model, self._data = model, dyn_ros.Data(model)
        joints = np.array([model.joint_index(name) for name in names], int)
        self._idx_q, self._idx_v = (
            np.array(each, int)[joints] for each in (model.idx_q, model.idx_v))
        self._q = model.neutral()
        self._v, self._a = np.zeros((2, model.nv))

    def effort(self, position: Array, velocity: Array, acceleration: Array) -> Array:
        """Return the torques [N m] or forces [N] of the moving joints, from `rnea`."""
        self._q[self._idx_q] = position
        self._v[self._idx_v] = velocity
        self._a[self._idx_v] = acceleration
        return dyn_ros.rnea(self._model, self._data, self._q, self._v, self._a)[self._idx_v]


def _swing(joint: Joint, number: int) -> tuple[float, float, float]:
    """Return center, amplitude and angular frequency [rad/s] of one joint's sine."""
    bounded = math.isfinite(joint.lower) and math.isfinite(joint.upper)
    center = (joint.lower + joint.upper) / 2 if bounded else 0.0
    reach = (joint.upper - joint.lower) / 2 if bounded else math.inf
    period = 5.0 + 4.0 * (0.618 * number % 1.0)      # seconds; different for each joint
    frequency = 2 * math.pi / period
    widest = 0.15 if joint.kind == "prismatic" else 1.0
    return center, min(0.7 * reach, widest, 0.6 * joint.velocity / frequency), frequency
