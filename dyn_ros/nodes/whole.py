# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The whole robot as one body, base link included. Independent of ROS."""
from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import dyn_ros
from dyn_ros.model.types import Array

from .dispatch import Terms
from .robot import RobotContext
from .state import Rejected, State

WHOLE = "com", "Ig", "hg"       # the terms that `whole_robot` reads
TOO_LARGE = "the numbers in the state are too large to compute with"


class Whole(NamedTuple):
    """The robot as one body.

    Attributes
    ----------
    body : dyn_ros.Inertia
    momentum : sequence of float (6,), optional
        About the center of mass; None if a velocity is unknown.
    lever : ndarray (3,)
        From the center of mass of the robot to that of the moving links.
    """

    body: dyn_ros.Inertia
    momentum: Sequence[float] | None
    lever: Array


def whole_robot(robot: RobotContext, state: State, terms: Terms) -> Whole:
    """Return the robot as one body; computed once for each state."""
    return robot.once(state, "whole", lambda: _whole(robot, state, terms))


def _whole(robot: RobotContext, state: State, terms: Terms) -> Whole:
    Ig = terms.Ig
    try:
        whole = moving = dyn_ros.Inertia(Ig[0, 0], terms.com, Ig[3:, 3:])
    except ValueError:
        raise Rejected(TOO_LARGE) from None
    base = robot.model.base_inertia
    if base.mass > 0.0:
        whole = moving + base
    lever = moving.com - whole.com
    return Whole(whole, None if state.v is None else moved(lever, terms.hg), lever)


def moved(lever: Array, force: Array) -> Sequence[float]:
    """Shift a momentum or its rate to the point at -`lever` from its own; returns six numbers."""
    x, y, z = lever.tolist()
    fx, fy, fz, mx, my, mz = force.tolist()
    return fx, fy, fz, mx + y * fz - z * fy, my + z * fx - x * fz, mz + x * fy - y * fx
