# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Outputs of the same shape: a vector of efforts by joint, a point in the world."""
from __future__ import annotations

from collections.abc import Callable

from geometry_msgs.msg import PointStamped
from sensor_msgs.msg import JointState

from dyn_ros.engine.kernel.types import Array

from ...cdr.template import Template
from ..messages import conversions
from ..robot import RobotContext, State, Terms
from .dispatch import Compute


def efforts(robot: RobotContext, read: Callable[[State, Terms], Array | None]) -> Compute:
    """Return what publishes a vector (nv,) as the effort of the rows to publish."""
    message = conversions.named(JointState, robot)
    message.effort = conversions.zeros(len(robot.names))
    template = Template(message)
    effort, rows = template.array("effort"), robot.rows

    def compute(state: State, terms: Terms) -> Template | None:
        vector = read(state, terms)
        if vector is None:
            return None
        effort[:] = vector[rows]
        return template
    return compute


def point(robot: RobotContext, read: Callable[[State, Terms], Array | None]) -> Compute:
    """Return what publishes a point (3,) in the world."""
    message = PointStamped()

    def compute(state: State, terms: Terms) -> PointStamped | None:
        position = read(state, terms)
        if position is None:
            return None
        message.header.frame_id = robot.world_frame
        conversions.set_vector(message.point, *position.tolist())
        return message
    return compute
