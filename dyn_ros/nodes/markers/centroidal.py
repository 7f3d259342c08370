# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Markers of centroidal_node: center of mass, momentum, locked inertia; forces of the ground."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

import numpy as np
from rclpy.parameter import Parameter
from visualization_msgs.msg import Marker

from dyn_ros.engine.kernel.lie import matrix_quaternion
from dyn_ros.engine.kernel.types import Array

from ...viewer.scene import geometry
from ...viewer.scene.marker_arrays import MIN_WIDTH, MarkerArrays, Screws
from ..base.markers import Draw, Kind, Look
from ..base.parameters import Spec
from ..robot import RobotContext, State, Terms, blamed_on
from ..robot import support as ground
from ..robot.support import COMPOSITE_TERMS, composite_body

FINE = 0.3  # width of the lines of a cone / width of other lines


def com(node: Any, robot: RobotContext, look: Look) -> Draw:
    return ball_at(
        look, lambda state, terms: np.array(composite_body(robot, state, terms).body.com)
    )


def ball_at(look: Look, read: Callable[[State, Terms], Array | None]) -> Draw:
    """Return what shows a ball at the point that `read` returns, unless it is None."""
    balls = MarkerArrays(look, Marker.SPHERE)

    def draw(state: State, terms: Terms) -> Iterable[MarkerArrays]:
        point = read(state, terms)
        if point is None:
            balls.show([])
        else:
            balls.show_spheres([0], point[None], np.array([look.scale]))
        return [balls]

    return draw


def com_projection(node: Any, robot: RobotContext, look: Look) -> Draw:
    discs = MarkerArrays(look, Marker.CYLINDER)
    lines = MarkerArrays(look, Marker.LINE_STRIP, "line", 2)
    up = geometry.up_direction(robot.model.gravity)
    turn, widths = geometry.z_axis_quaternion(up), np.array([look.scale, look.scale, 0.0])

    def draw(state: State, terms: Terms) -> Iterable[MarkerArrays]:
        center = np.array(composite_body(robot, state, terms).body.com)
        below = geometry.project_to_ground(center, up, look.height)
        discs.show_solids([0], below, turn, widths)
        lines.show_lines([0], np.array([[center, below]]))
        return discs, lines

    return draw


def subtree_com(node: Any, robot: RobotContext, look: Look) -> Draw:
    model = robot.model
    with blamed_on(f"markers.{look.name}.joints"):
        chosen = [model.joint_index(name) for name in look.joints]
    joints = np.array(chosen or range(model.njoints), int)
    balls = MarkerArrays(look, Marker.SPHERE)

    def draw(state: State, terms: Terms) -> Iterable[MarkerArrays]:
        centers, mass = terms.subtree_com, terms.subtree_mass
        heavy = joints[mass[joints] > 0.0]
        share = mass[heavy] / model.total_mass
        balls.show_spheres((heavy + 1).tolist(), centers[heavy], look.scale * np.cbrt(share))
        return [balls]

    return draw


def momentum(part: slice, node: Any, robot: RobotContext, look: Look) -> Draw:
    """An arrow for a part of the momentum, if all velocities are known."""
    arrows = MarkerArrays(look, Marker.ARROW)

    def draw(state: State, terms: Terms) -> Iterable[MarkerArrays]:
        body, h, _ = composite_body(robot, state, terms)
        if h is None:
            arrows.show([])
        else:
            arrows.show_arrows([0], np.array([body.com]), look.scale * np.array([h[part]]))
        return [arrows]

    return draw


def locked_inertia(node: Any, robot: RobotContext, look: Look) -> Draw:
    solids = MarkerArrays(look, Marker.SPHERE)

    def draw(state: State, terms: Terms) -> Iterable[MarkerArrays]:
        body = composite_body(robot, state, terms).body
        if body.mass > 0.0:
            spread, axes = geometry.principal_spread(body.mass, body.matrix())
            solids.show_solids(
                [0],
                body.com,
                matrix_quaternion(axes),
                look.scale * geometry.ELLIPSOID_WIDTH * spread,
            )
        return [solids]

    return draw


def contact_force(node: Any, robot: RobotContext, look: Look) -> Draw:
    screws = Screws(look)

    def draw(state: State, terms: Terms) -> Iterable[MarkerArrays]:
        support = node.support(robot, state, terms)
        if support is None or not support.active.any():
            return screws.hide()
        ids = np.flatnonzero(support.active)
        return screws.show(ids.tolist(), support.points[ids], support.forces[ids] / _weight(robot))

    return draw


def _weight(robot: RobotContext) -> float:
    """Return the weight [N], on Earth if there is no gravity; 1 without mass."""
    gravity = float(np.linalg.norm(robot.model.gravity))
    mass = robot.model.total_mass + robot.base.mass
    return mass * (gravity or 9.81) or 1.0


def friction_cone(node: Any, robot: RobotContext, look: Look) -> Draw:
    up = geometry.up_direction(robot.model.gravity)
    cone = geometry.cone_outline(up, look.scale, look.coefficient * look.scale)
    lines = MarkerArrays(look, Marker.LINE_STRIP, points=len(cone), width=FINE * look.width)
    colors = np.array([look.color, look.slip_color])

    def draw(state: State, terms: Terms) -> Iterable[MarkerArrays]:
        support = node.support(robot, state, terms)
        if support is None or not support.active.any():
            lines.show([])
            return [lines]
        ids = np.flatnonzero(support.active)
        lines.show_lines(ids.tolist(), support.points[ids, None] + cone)
        slips = geometry.is_outside_cone(support.forces[ids, :3], up, look.coefficient)
        lines.set_colors(ids.tolist(), colors[slips.astype(int)])
        return [lines]

    return draw


def support_polygon(node: Any, robot: RobotContext, look: Look) -> Draw:
    up = geometry.up_direction(robot.model.gravity)
    across = np.array([direction[0] for direction in geometry.perpendicular_vectors(up[None])]).T
    count = len(node.parameters.values["contact_frames"]) + 1
    lines = MarkerArrays(look, Marker.LINE_STRIP, points=count, width=max(look.scale, MIN_WIDTH))

    def draw(state: State, terms: Terms) -> Iterable[MarkerArrays]:
        support = node.support(robot, state, terms)
        if support is None or support.active.sum() < 2:
            lines.show([])
            return [lines]
        corners = ground.convex_hull(support.points[support.active] @ across)
        closing = np.linspace(corners[-1], corners[0], count - len(corners) + 1)[1:]
        height = node.parameters.values["ground_height"]
        points = np.concatenate([corners, closing]) @ across.T + height * up
        lines.show_lines([0], points[None])
        return [lines]

    return draw


def center_of_pressure(node: Any, robot: RobotContext, look: Look) -> Draw:
    discs = MarkerArrays(look, Marker.CYLINDER)
    up = geometry.up_direction(robot.model.gravity)
    turn, widths = geometry.z_axis_quaternion(up), np.array([look.scale, look.scale, 0.0])

    def draw(state: State, terms: Terms) -> Iterable[MarkerArrays]:
        point = node.center_of_pressure(robot, state, terms)
        if point is None:
            discs.show([])
        else:
            discs.show_solids([0], point, turn, widths)
        return [discs]

    return draw


def _zmp_reads(values: Mapping[str, Any]) -> tuple[str, ...]:
    return () if values["acceleration_source"] == "none" else ground.rate_reads(values)


CENTROIDAL = (
    Kind(
        "com",
        com,
        "the center of mass",
        0.08,
        "Diameter [m].",
        [0.12, 0.36, 1.0, 1.0],
        reads=COMPOSITE_TERMS,
    ),
    Kind(
        "com_projection",
        com_projection,
        "the center of mass, projected onto the ground",
        0.1,
        "Diameter [m].",
        [0.0, 0.63, 0.78, 1.0],
        Spec("height", 0.0, "Height of the ground, against gravity [m].", limits=(-1e6, 1e6)),
        reads=COMPOSITE_TERMS,
    ),
    Kind(
        "subtree_com",
        subtree_com,
        "the center of mass of each subtree",
        0.08,
        "Diameter for the total mass [m].",
        [0.76, 0.53, 0.95, 1.0],
        Spec("joints", Parameter.Type.STRING_ARRAY, "Joints of the subtrees. Empty: all."),
        show=False,
        reads=("subtree_com", "subtree_mass"),
    ),
    Kind(
        "linear_momentum",
        partial(momentum, slice(3)),
        "the linear momentum",
        0.05,
        "Length of 1 kg m/s [m].",
        [0.07, 0.64, 0.23, 1.0],
        reads=COMPOSITE_TERMS,
    ),
    Kind(
        "angular_momentum",
        partial(momentum, slice(3, 6)),
        "the angular momentum about the center of mass",
        0.2,
        "Length of 1 kg m2/s [m].",
        [0.64, 0.13, 0.27, 1.0],
        reads=COMPOSITE_TERMS,
    ),
    Kind(
        "locked_inertia",
        locked_inertia,
        "the locked inertia as a homogeneous ellipsoid",
        1.0,
        "Factor of the true size.",
        [0.16, 0.33, 0.74, 0.25],
        show=False,
        reads=COMPOSITE_TERMS,
    ),
)
CONTACT = (
    Kind(
        "contact_force",
        contact_force,
        "the force of the ground on each contact frame",
        0.4,
        "Length for the robot's weight, radius for weight times 1 m [m].",
        [1.0, 0.48, 0.4, 1.0],
        reads=ground.reads,
    ),
    Kind(
        "friction_cone",
        friction_cone,
        "the friction cone at each contact frame",
        0.1,
        "Height [m].",
        [0.52, 0.66, 0.0, 1.0],
        Spec("coefficient", 0.7, "Coefficient of friction.", limits=(0.0, 100.0)),
        Spec(
            "slip_color",
            [0.88, 0.04, 0.11, 1.0],
            "Color if the force is outside.",
            size=4,
            limits=(0.0, 1.0),
        ),
        reads=ground.reads,
    ),
    Kind(
        "support_polygon",
        support_polygon,
        "the convex hull of the frames in contact",
        0.01,
        "Width of the line [m].",
        [0.12, 0.41, 0.2, 1.0],
        reads=ground.reads,
    ),
    Kind(
        "center_of_pressure",
        center_of_pressure,
        "the center of pressure",
        0.05,
        "Diameter [m].",
        [0.58, 0.16, 0.71, 1.0],
        reads=ground.reads,
    ),
    Kind(
        "zmp",
        lambda node, robot, look: ball_at(look, partial(node.zero_moment_point, robot)),
        "the zero moment point",
        0.03,
        "Diameter [m].",
        [0.89, 0.53, 0.62, 1.0],
        reads=_zmp_reads,
    ),
)
