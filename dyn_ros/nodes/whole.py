# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The whole robot as one body, base link included. Independent of ROS."""
from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from dyn_ros.engine.model.bodies import Body, joined, moved

from ..states.joint_states import Rejected
from ..states.states import State
from .base.dispatch import Terms
from .base.robot import RobotContext

WHOLE = "com", "Ig", "hg"       # the terms that `whole_robot` reads
TOO_LARGE = "the numbers in the state are too large to compute with"


class Whole(NamedTuple):
    """The robot as one body.

    Attributes
    ----------
    body : Body
    momentum : sequence of float (6,), optional
        About the center of mass; None if a velocity is unknown.
    lever : sequence of float (3,)
        From the center of mass of the robot to that of the moving links.
    """

    body: Body
    momentum: Sequence[float] | None
    lever: Sequence[float]


def whole_robot(robot: RobotContext, state: State, terms: Terms) -> Whole:
    """Return the robot as one body; computed once for each state."""
    return robot.once(state, "whole", lambda: _whole(robot, state, terms))


def _whole(robot: RobotContext, state: State, terms: Terms) -> Whole:
    moving = Body.of_links(terms.Ig, terms.com)
    if not math.isfinite(moving.mass + sum(moving.com) + sum(moving.rotational)):
        raise Rejected(TOO_LARGE)
    whole, lever = joined(moving, robot.base)
    return Whole(whole, None if state.v is None else moved(lever, terms.hg.tolist()), lever)
