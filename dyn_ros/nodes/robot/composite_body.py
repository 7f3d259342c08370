# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The robot with its joints locked as one body, base link included."""
from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from dyn_ros.engine.model.bodies import Body, joined, moved

from ...states.joint_states import Rejected
from ...states.states import State
from .context import RobotContext
from .terms import Terms

COMPOSITE_TERMS = "com", "Ig", "hg"     # that `composite_body` reads
TOO_LARGE = "the numbers in the state are too large to compute with"


class CompositeBody(NamedTuple):
    """The robot as one body."""

    body: Body
    momentum: Sequence[float] | None    # (6,) about the center of mass; None: unknown velocity
    lever: Sequence[float]      # from the robot's center of mass to that of the moving links


def composite_body(robot: RobotContext, state: State, terms: Terms) -> CompositeBody:
    """Return the robot as one body; computed once for each state."""
    return robot.once(state, "composite body", lambda: _computed(robot, state, terms))


def _computed(robot: RobotContext, state: State, terms: Terms) -> CompositeBody:
    moving = Body.of_links(terms.Ig, terms.com)
    if not math.isfinite(moving.mass + sum(moving.com) + sum(moving.rotational)):
        raise Rejected(TOO_LARGE)
    body, lever = joined(moving, robot.base)
    momentum = None if state.v is None else moved(lever, terms.hg.tolist())
    return CompositeBody(body, momentum, lever)
