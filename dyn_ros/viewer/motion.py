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

RESUME_RATE = 2.0  # 1/s; rate at which a resumed motion converges to the original one
HOLD_TIME = 0.2  # s; time constant with which a motion is held and continues
SPRING_FREQUENCY = 8.0  # rad/s; a joint reaches its slider after about half a second


class SineMotion:
    """Position of each joint over time, with exact derivatives.

    Joints with one degree of freedom move, except mimic joints: `names`, in the order of the model.
    A robot that `stands` bends its legs together; any other robot stays above the plane of its base
    if it can.
    """

    def __init__(self, tree: Tree) -> None:
        robot = TreeKinematics(tree)
        self.names = robot.names
        self.swing, self.stands = choose_swing(robot)
        self._center, self._amplitude, self._frequency = self.swing

    def state_at(self, time: float) -> tuple[Array, Array, Array]:
        """Return position, velocity and acceleration of every joint at a time [s].

        They are (n,) each [rad or m, and per s, s^2]. At time 0, all joints rest at the centers of
        their sines.
        """
        # The sines run in the time s(t) = sqrt(1 + t^2) - 1, so that they start at rest. Its
        # derivatives are s' = t / sqrt(1 + t^2) < 1 and s'' = 1 / sqrt(1 + t^2)^3.
        root = math.hypot(1.0, time)
        phase = self._frequency * (root - 1.0)
        position = self._center + self._amplitude * np.sin(phase)
        max_velocity, rate = self._amplitude * self._frequency, time / root
        velocity = max_velocity * np.cos(phase) * rate
        acceleration = max_velocity * (
            np.cos(phase) / root**3 - self._frequency * np.sin(phase) * rate**2
        )
        return position, velocity, acceleration


class ResumedMotion:
    """A motion that starts at rest at any position [rad, m], and converges to another motion.

    With k = `RESUME_RATE`, the initial offset decays as a critically damped spring does:
    offset (1 + k t) exp(-k t).
    """

    def __init__(self, motion: SineMotion, position: ArrayLike) -> None:
        self._motion = motion
        self._offset = np.asarray(position) - motion.state_at(0.0)[0]

    def state_at(self, time: float) -> tuple[Array, Array, Array]:
        """Return position, velocity and acceleration at a time [s], as `SineMotion.state_at`."""
        position, velocity, acceleration = self._motion.state_at(time)
        offset = self._offset * math.exp(-RESUME_RATE * time)
        return (
            position + offset * (1.0 + RESUME_RATE * time),
            velocity - offset * RESUME_RATE**2 * time,
            acceleration - offset * RESUME_RATE**2 * (1.0 - RESUME_RATE * time),
        )


class SpringFollower:
    """Joints (n,) that follow targets [rad, m], each like a critically damped spring.

    Their first targets are their initial positions.
    """

    def __init__(self, position: ArrayLike, velocity: ArrayLike | float = 0.0) -> None:
        self.position = np.array(position, float)
        self.velocity = np.zeros_like(self.position) + velocity
        self.target = self.position.copy()

    @property
    def acceleration(self) -> Array:
        """The present acceleration (n,) of the spring."""
        w = SPRING_FREQUENCY
        return w * w * (self.target - self.position) - 2.0 * w * self.velocity

    def step(self, seconds: float) -> None:
        """Advance by the exact solution of the spring: x'' = -w^2 (x - target) - 2 w x'."""
        w, t = SPRING_FREQUENCY, seconds
        offset = self.position - self.target
        rate = self.velocity + w * offset
        decay = np.exp(-w * t)
        self.position = self.target + (offset + rate * t) * decay
        self.velocity = (self.velocity - w * rate * t) * decay


class Steering:
    """A robot's own motion, which users can hold, stop, steer and resume."""

    def __init__(self, motion: SineMotion) -> None:
        self._original_motion = motion
        self._motion: SineMotion | ResumedMotion = motion
        self._motion_time = 0.0  # s
        self._pace = self._target_pace = 1.0  # change of the motion's time / time
        self._follower: SpringFollower | None = None  # replaces the motion unless None

    @property
    def target(self) -> Array | None:
        """The commanded positions (n,); None while the robot moves by itself."""
        return None if self._follower is None else self._follower.target

    def play(self, plays: bool) -> None:
        """Start the robot's own motion, or stop it and follow commands."""
        position, velocity, _ = self._state()
        if plays and self._follower is not None:
            self._motion, self._follower = ResumedMotion(self._original_motion, position), None
            self._motion_time = 0.0
        elif not plays and self._follower is None:
            self._follower = SpringFollower(position, velocity)

    def command(self, position: ArrayLike) -> None:
        """Set the positions to follow; ignored while the robot moves by itself."""
        if self._follower is not None:
            self._follower.target = np.array(position, float)

    def hold(self, holds: bool) -> None:
        """Slow the robot's own motion to a stop, or continue it."""
        self._target_pace = 0.0 if holds else 1.0

    def advance(self, seconds: float) -> tuple[Array, Array, Array]:
        """Advance by a time [s]; return position, velocity and acceleration (n,) of every joint."""
        if self._follower is not None:
            self._follower.step(seconds)
        else:
            pace, target = self._pace, self._target_pace
            self._pace = target + (pace - target) * math.exp(-seconds / HOLD_TIME)
            self._motion_time += target * seconds + (pace - self._pace) * HOLD_TIME
        return self._state()

    def _state(self) -> tuple[Array, Array, Array]:
        """Return the present position, velocity and acceleration of every joint."""
        follower = self._follower
        if follower is not None:
            return follower.position, follower.velocity, follower.acceleration
        position, velocity, acceleration = self._motion.state_at(self._motion_time)
        pace_rate = (self._target_pace - self._pace) / HOLD_TIME
        return (
            position,
            self._pace * velocity,
            self._pace**2 * acceleration + pace_rate * velocity,
        )


def coordinate_indices(
    model: dyn_ros.Model,
    names: Sequence[str],
) -> tuple[NDArray[np.int_], NDArray[np.int_]]:
    """Return the indices in q and in v of joints with one degree of freedom, (n,) each."""
    joints = np.array([model.joint_index(name) for name in names], int)
    return np.array(model.idx_q, int)[joints], np.array(model.idx_v, int)[joints]
