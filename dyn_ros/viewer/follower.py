# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Joints that follow sliders smoothly, like those of a robot."""
import numpy as np

from ..engine.kernel.types import Array, ArrayLike

STIFFNESS = 8.0     # [1/s]: a joint reaches its slider after about half a second


class SpringFollower:
    """Joints (n,) that follow targets [rad, m], each like a critically damped spring.

    They start at rest at their first targets; `target` are the positions of the sliders.
    """

    def __init__(self, position: ArrayLike) -> None:
        self.position = np.array(position, float)
        self.velocity = np.zeros_like(self.position)
        self.target = self.position.copy()

    @property
    def acceleration(self) -> Array:
        """The acceleration of the spring, (n,) [rad/s2, m/s2]."""
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
