# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Markers of centroidal_node: centers of mass, momentum, the inertia with locked joints.

As in base/markers.py, a kind is one function and one entry at the end of this file.
"""
from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from rclpy.parameter import Parameter
from visualization_msgs.msg import Marker

from dyn_ros.engine.kernel.lie import matrix_quaternion
from dyn_ros.engine.kernel.types import Array

from ...viewer.scene import shapes
from ...viewer.scene.marker_arrays import MarkerArrays
from ..base.markers import Draw, Look, kind
from ..base.parameters import Spec
from ..robot import RobotContext, State, Terms
from ..robot.composite_body import COMPOSITE_TERMS, composite_body


def com(node: Any, robot: RobotContext, look: Look) -> Draw:
    """The center of mass of the whole robot, including the base link of a fixed base."""
    return ball_at(look, lambda state, terms: np.array(
        composite_body(robot, state, terms).body.com))


def ball_at(look: Look, read: Callable[[State, Terms], Array | None]) -> Draw:
    """Return what shows a ball at the point that `read` returns, unless it is None."""
    balls = MarkerArrays(look, Marker.SPHERE)

    def draw(state: State, terms: Terms) -> Iterable[MarkerArrays]:
        point = read(state, terms)
        if point is None:
            balls.show([])
        else:
            balls.balls([0], point[None], np.array([look.scale]))
        return [balls]
    return draw


def com_projection(node: Any, robot: RobotContext, look: Look) -> Draw:
    """The projection of the center of mass onto the ground, and a line to it."""
    discs = MarkerArrays(look, Marker.CYLINDER)
    lines = MarkerArrays(look, Marker.LINE_STRIP, "line", 2)
    up = shapes.upward(robot.model.gravity)
    turn, widths = shapes.facing(up), np.array([look.scale, look.scale, 0.0])

    def draw(state: State, terms: Terms) -> Iterable[MarkerArrays]:
        center = np.array(composite_body(robot, state, terms).body.com)
        ground = shapes.on_ground(center, up, look.height)
        discs.solids([0], ground, turn, widths)
        lines.lines([0], np.array([[center, ground]]))
        return discs, lines
    return draw


def subtree_com(node: Any, robot: RobotContext, look: Look) -> Draw:
    """The center of mass of each joint's subtree, as a ball with a volume according to its mass."""
    model = robot.model
    try:
        chosen = [model.joint_index(name) for name in look.joints]
    except ValueError as error:
        raise ValueError(f"markers.{look.name}.joints: {error}") from None
    joints = np.array(chosen or range(model.njoints), int)
    balls = MarkerArrays(look, Marker.SPHERE)

    def draw(state: State, terms: Terms) -> Iterable[MarkerArrays]:
        centers, mass = terms.subtree_com, terms.subtree_mass
        heavy = joints[mass[joints] > 0.0]
        share = mass[heavy] / model.total_mass
        balls.balls((heavy + 1).tolist(), centers[heavy], look.scale * np.cbrt(share))
        return [balls]
    return draw


def linear_momentum(node: Any, robot: RobotContext, look: Look) -> Draw:
    """An arrow from the center of mass, if all velocities are known."""
    return _momentum(robot, look, slice(3))


def angular_momentum(node: Any, robot: RobotContext, look: Look) -> Draw:
    """An arrow from the center of mass along the angular momentum."""
    return _momentum(robot, look, slice(3, 6))


def _momentum(robot: RobotContext, look: Look, part: slice) -> Draw:
    arrows = MarkerArrays(look, Marker.ARROW)

    def draw(state: State, terms: Terms) -> Iterable[MarkerArrays]:
        body, h, _ = composite_body(robot, state, terms)
        if h is None:
            arrows.show([])
        else:
            arrows.arrows([0], np.array([body.com]), look.scale * np.array([h[part]]))
        return [arrows]
    return draw


def locked_inertia(node: Any, robot: RobotContext, look: Look) -> Draw:
    """The homogeneous ellipsoid with the inertia of the robot with its joints locked."""
    solids = MarkerArrays(look, Marker.SPHERE)

    def draw(state: State, terms: Terms) -> Iterable[MarkerArrays]:
        body = composite_body(robot, state, terms).body
        if body.mass > 0.0:
            spread, axes = shapes.principal_spread(body.mass, body.matrix())
            solids.solids([0], body.com, matrix_quaternion(axes),
                          look.scale * shapes.ELLIPSOID * spread)
        return [solids]
    return draw


CENTROIDAL = (
    kind("com", com, "the robot's center of mass", 0.08, "Diameter [m].", [0.12, 0.36, 1.0, 1.0],
         reads=COMPOSITE_TERMS),
    kind("com_projection", com_projection,
         "the center of mass projected along gravity onto the ground",
         0.1, "Diameter [m].", [0.0, 0.63, 0.78, 1.0],
         Spec("height", 0.0,
              "Height of the ground in the frame of the markers, against gravity [m].",
              limits=(-1e6, 1e6)),
         reads=COMPOSITE_TERMS),
    kind("subtree_com", subtree_com,
         "the center of mass of each joint's subtree",
         0.08, "Diameter for a subtree with the total mass [m].", [0.76, 0.53, 0.95, 1.0],
         Spec("joints", Parameter.Type.STRING_ARRAY,
              "Joints whose subtrees to show; empty: all."),
         show=False, reads=("subtree_com", "subtree_mass")),
    kind("linear_momentum", linear_momentum, "the linear momentum, from the center of mass",
         0.05, "Length of 1 kg m/s [m].", [0.07, 0.64, 0.23, 1.0], reads=COMPOSITE_TERMS),
    kind("angular_momentum", angular_momentum,
         "the angular momentum about the center of mass, along its axis",
         0.2, "Length of 1 kg m2/s [m].", [0.64, 0.13, 0.27, 1.0], reads=COMPOSITE_TERMS),
    kind("locked_inertia", locked_inertia,
         "the homogeneous ellipsoid with the mass and inertia of the robot with its joints locked",
         1.0, "Scale factor; 1 is the true size.", [0.16, 0.33, 0.74, 0.25], show=False,
         reads=COMPOSITE_TERMS),
)
