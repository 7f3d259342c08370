# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Joints that a hand on sliders moves: smoothly, as a robot does."""
import numpy as np

STIFFNESS = 8.0     # [1/s]: a joint is at its slider after about half a second


class Hand:
    """Joints that follow targets, each as a critically damped spring pulls it.

    Parameters
    ----------
    position : array_like (n,)
        Where the joints rest, and their first targets [rad, m].

    Attributes
    ----------
    position, velocity : (n,) ndarray
        [rad, m], [rad/s, m/s].
    target : (n,) ndarray
        Where the sliders are.
    """

    def __init__(self, position):
        self.position = np.array(position, float)
        self.velocity = np.zeros_like(self.position)
        self.target = self.position.copy()

    def step(self, seconds):
        """Go on for some time, exactly as the spring does: x'' = -w^2 (x - target) - 2 w x'."""
        w, t = STIFFNESS, seconds
        away = self.position - self.target
        rate = self.velocity + w * away
        decay = np.exp(-w * t)
        self.position = self.target + (away + rate * t) * decay
        self.velocity = (self.velocity - w * rate * t) * decay
