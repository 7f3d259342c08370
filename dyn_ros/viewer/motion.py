# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""A smooth motion for any robot: slow sines within the limits of every joint, starting at rest."""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

import dyn_ros

from ..engine.kernel.types import Array, ArrayLike
from ..engine.model.urdf import Tree
from .posture import choose_swing
from .scene.tree_kinematics import TreeKinematics

RESUME = 2.0  # [1/s]: how fast a resumed motion converges to the original one
SLOWING = 0.2  # time constant with which a motion is held and continues [s]
STIFFNESS = 8.0  # [1/s]: a joint reaches its slider after about half a second


class SineMotion:
    """Position of each joint over time, with exact derivatives.

    Joints with one degree of freedom move, except mimic joints: `names`, in the order of the model.
    `stands`: on legs, which bend together; otherwise it is above the plane of the base if it can.
    """

    def __init__(self, tree: Tree) -> None:
        robot = TreeKinematics(tree)
        self.names = robot.names
        self.swing, self.stands = choose_swing(robot)
        self._center, self._amplitude, self._frequency = self.swing

    def at(self, time: float) -> tuple[Array, Array, Array]:
        """Return position, velocity and acceleration of every joint [rad or m, and per s, s^2].

        At time 0 [s], all joints rest at the centers of their sines.
        """
        # The motion's time starts at rest: its rate is t / sqrt(1 + t^2), which never exceeds 1.
        root = math.hypot(1.0, time)
        phase = self._frequency * (root - 1.0)
        position = self._center + self._amplitude * np.sin(phase)
        swing, rate = self._amplitude * self._frequency, time / root
        velocity = swing * np.cos(phase) * rate
        acceleration = swing * (np.cos(phase) / root**3 - self._frequency * np.sin(phase) * rate**2)
        return position, velocity, acceleration


class ResumedMotion:
    """A motion from rest at another position [rad, m], which converges to the original one."""

    def __init__(self, motion: SineMotion, position: ArrayLike) -> None:
        self._motion = motion
        self._offset = np.asarray(position) - motion.at(0.0)[0]

    def at(self, time: float) -> tuple[Array, Array, Array]:
        position, velocity, acceleration = self._motion.at(time)
        offset = self._offset * math.exp(-RESUME * time)
        return (
            position + offset * (1.0 + RESUME * time),
            velocity - offset * RESUME**2 * time,
            acceleration - offset * RESUME**2 * (1.0 - RESUME * time),
        )


class SpringFollower:
    """Joints (n,) that follow targets [rad, m], each like a critically damped spring.

    Their first targets are where they start, by default at rest.
    """

    def __init__(self, position: ArrayLike, velocity: ArrayLike | float = 0.0) -> None:
        self.position = np.array(position, float)
        self.velocity = np.zeros_like(self.position) + velocity
        self.target = self.position.copy()

    @property
    def acceleration(self) -> Array:
        w = STIFFNESS
        return w * w * (self.target - self.position) - 2.0 * w * self.velocity

    def step(self, seconds: float) -> None:
        """Advance by the exact solution of the spring: x'' = -w^2 (x - target) - 2 w x'."""
        w, t = STIFFNESS, seconds
        away = self.position - self.target
        rate = self.velocity + w * away
        decay = np.exp(-w * t)
        self.position = self.target + (away + rate * t) * decay
        self.velocity = (self.velocity - w * rate * t) * decay


class Steering:
    """A robot's own motion, which users can hold, stop, steer and resume."""

    def __init__(self, motion: SineMotion) -> None:
        self._motion = motion
        self._moving: SineMotion | ResumedMotion = motion
        self._follower: SpringFollower | None = None  # instead of its own motion
        self._time = 0.0  # of `_moving`
        self._pace = self._wanted_pace = 1.0  # of its own motion

    @property
    def target(self) -> Array | None:
        """The commanded positions (n,); None while the robot moves by itself."""
        return None if self._follower is None else self._follower.target

    def play(self, plays: bool) -> None:
        """Move by itself, or stop and follow commands."""
        position, velocity, _ = self._state()
        if plays and self._follower is not None:
            self._moving, self._follower = ResumedMotion(self._motion, position), None
            self._time = 0.0
        elif not plays and self._follower is None:
            self._follower = SpringFollower(position, velocity)

    def command(self, position: ArrayLike) -> None:
        """Set the positions to follow; ignored while the robot moves by itself."""
        if self._follower is not None:
            self._follower.target = np.array(position, float)

    def hold(self, holds: bool) -> None:
        """Slow its own motion to a stop, or continue it."""
        self._wanted_pace = 0.0 if holds else 1.0

    def advance(self, seconds: float) -> tuple[Array, Array, Array]:
        """Advance; return position, velocity and acceleration, as `SineMotion.at` does."""
        if self._follower is not None:
            self._follower.step(seconds)
        else:
            before, wanted = self._pace, self._wanted_pace
            self._pace = wanted + (before - wanted) * math.exp(-seconds / SLOWING)
            self._time += wanted * seconds + (before - self._pace) * SLOWING
        return self._state()

    def _state(self) -> tuple[Array, Array, Array]:
        follower = self._follower
        if follower is not None:
            return follower.position, follower.velocity, follower.acceleration
        position, velocity, acceleration = self._moving.at(self._time)
        change = (self._wanted_pace - self._pace) / SLOWING
        return (position, self._pace * velocity, self._pace**2 * acceleration + change * velocity)


def coordinates(
    model: dyn_ros.Model,
    names: Sequence[str],
) -> tuple[NDArray[np.int_], NDArray[np.int_]]:
    """Return where q and v contain joints with one degree of freedom, (n,) each."""
    joints = np.array([model.joint_index(name) for name in names], int)
    return np.array(model.idx_q, int)[joints], np.array(model.idx_v, int)[joints]
