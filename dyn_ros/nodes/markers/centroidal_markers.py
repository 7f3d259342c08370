# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Markers of centroidal_node: center of mass, momentum, locked inertia, contact forces."""

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
from ...viewer.scene.marker_arrays import MIN_WIDTH, THIN_LINE_WIDTH, MarkerArrays, Screws
from ..base.marker_output import Draw, MarkerKind, MarkerStyle, warning_color_spec
from ..base.node_parameters import Spec
from ..robot import DynamicsTerms, RobotContext, State, ground, parameter_errors
from ..robot.ground import COMPOSITE_TERMS, composite_body


def make_com_markers(node: Any, robot: RobotContext, style: MarkerStyle) -> Draw:
    """Return the `Draw` of a ball at the center of mass."""
    return make_ball_marker(
        style, lambda state, terms: np.array(composite_body(robot, state, terms).body.com)
    )


def make_ball_marker(
    style: MarkerStyle, read: Callable[[State, DynamicsTerms], Array | None]
) -> Draw:
    """Return the `Draw` of a ball at the point that `read` returns; None: no ball."""
    balls = MarkerArrays(style, Marker.SPHERE)

    def draw(state: State, terms: DynamicsTerms) -> Iterable[MarkerArrays]:
        point = read(state, terms)
        if point is None:
            balls.show([])
        else:
            balls.show_spheres([0], point[None], np.array([style.scale]))
        return [balls]

    return draw


def make_com_projection_markers(node: Any, robot: RobotContext, style: MarkerStyle) -> Draw:
    """Return the `Draw` of a disc on the ground below the center of mass, and of a line to it."""
    discs = MarkerArrays(style, Marker.CYLINDER)
    lines = MarkerArrays(style, Marker.LINE_STRIP, points=2)
    up = geometry.up_direction(robot.model.gravity)
    turn, widths = geometry.z_axis_quaternion(up), np.array([style.scale, style.scale, 0.0])

    def draw(state: State, terms: DynamicsTerms) -> Iterable[MarkerArrays]:
        center = np.array(composite_body(robot, state, terms).body.com)
        below = geometry.project_to_ground(center, up, style.height)
        discs.show_solids([0], below, turn, widths)
        lines.show_lines([1], np.array([[center, below]]))
        return discs, lines

    return draw


def make_subtree_com_markers(node: Any, robot: RobotContext, style: MarkerStyle) -> Draw:
    """Return the `Draw` of a ball at the center of mass of each subtree."""
    model = robot.model
    with parameter_errors(f"markers.{style.name}.joints"):
        joint_indices = [model.joint_index(name) for name in style.joints]
    joints = np.array(joint_indices or range(model.njoints), int)
    balls = MarkerArrays(style, Marker.SPHERE)

    def draw(state: State, terms: DynamicsTerms) -> Iterable[MarkerArrays]:
        centers, mass = terms.subtree_com, terms.subtree_mass
        heavy = joints[mass[joints] > 0.0]
        share = mass[heavy] / model.total_mass
        balls.show_spheres((heavy + 1).tolist(), centers[heavy], style.scale * np.cbrt(share))
        return [balls]

    return draw


def make_momentum_markers(rows: slice, node: Any, robot: RobotContext, style: MarkerStyle) -> Draw:
    """Return the `Draw` of an arrow for rows of the momentum, if all velocities are known."""
    arrows = MarkerArrays(style, Marker.ARROW)

    def draw(state: State, terms: DynamicsTerms) -> Iterable[MarkerArrays]:
        body, h, _ = composite_body(robot, state, terms)
        if h is None:
            arrows.show([])
        else:
            arrows.show_arrows([0], np.array([body.com]), style.scale * np.array([h[rows]]))
        return [arrows]

    return draw


def make_locked_inertia_markers(node: Any, robot: RobotContext, style: MarkerStyle) -> Draw:
    """Return the `Draw` of the ellipsoid with the mass and inertia of the whole robot."""
    solids = MarkerArrays(style, Marker.SPHERE)

    def draw(state: State, terms: DynamicsTerms) -> Iterable[MarkerArrays]:
        body = composite_body(robot, state, terms).body
        if body.mass > 0.0:
            spread, axes = geometry.principal_spread(body.mass, body.matrix())
            solids.show_solids(
                [0],
                body.com,
                matrix_quaternion(axes),
                style.scale * geometry.ELLIPSOID_WIDTH * spread,
            )
        return [solids]

    return draw


def make_contact_force_markers(node: Any, robot: RobotContext, style: MarkerStyle) -> Draw:
    """Return the `Draw` of the wrench of the ground at each active contact frame."""
    screws = Screws(style)

    def draw(state: State, terms: DynamicsTerms) -> Iterable[MarkerArrays]:
        ground_forces = node.ground_forces(robot, state, terms)
        if ground_forces is None or not ground_forces.active.any():
            return screws.hide()
        ids = np.flatnonzero(ground_forces.active)
        return screws.show(
            ids.tolist(),
            ground_forces.points[ids],
            ground_forces.forces[ids] / _robot_weight(robot),
        )

    return draw


def _robot_weight(robot: RobotContext) -> float:
    """Return the weight of the robot [N], on Earth if there is no gravity; 1 without mass."""
    gravity = float(np.linalg.norm(robot.model.gravity))
    mass = robot.model.total_mass + robot.base.mass
    return mass * (gravity or 9.81) or 1.0


def make_friction_cone_markers(node: Any, robot: RobotContext, style: MarkerStyle) -> Draw:
    """Return the `Draw` of the friction cone at each active contact frame."""
    up = geometry.up_direction(robot.model.gravity)
    cone = geometry.cone_outline(up, style.scale, style.coefficient * style.scale)
    lines = MarkerArrays(
        style, Marker.LINE_STRIP, points=len(cone), width=THIN_LINE_WIDTH * style.width
    )
    colors = np.array([style.color, style.slip_color])

    def draw(state: State, terms: DynamicsTerms) -> Iterable[MarkerArrays]:
        ground_forces = node.ground_forces(robot, state, terms)
        if ground_forces is None or not ground_forces.active.any():
            lines.show([])
            return [lines]
        ids = np.flatnonzero(ground_forces.active)
        lines.show_lines(ids.tolist(), ground_forces.points[ids, None] + cone)
        slips = geometry.is_outside_cone(ground_forces.forces[ids, :3], up, style.coefficient)
        lines.set_colors(ids.tolist(), colors[slips.astype(int)])
        return [lines]

    return draw


def make_support_polygon_markers(node: Any, robot: RobotContext, style: MarkerStyle) -> Draw:
    """Return the `Draw` of the convex hull of the active contact frames, on the ground."""
    up = geometry.up_direction(robot.model.gravity)
    across = np.array([direction[0] for direction in geometry.perpendicular_vectors(up[None])]).T
    count = len(node.parameters.values["contact_frames"]) + 1
    lines = MarkerArrays(style, Marker.LINE_STRIP, points=count, width=max(style.scale, MIN_WIDTH))

    def draw(state: State, terms: DynamicsTerms) -> Iterable[MarkerArrays]:
        ground_forces = node.ground_forces(robot, state, terms)
        if ground_forces is None or ground_forces.active.sum() < 2:
            lines.show([])
            return [lines]
        corners = ground.convex_hull(ground_forces.points[ground_forces.active] @ across)
        closing = np.linspace(corners[-1], corners[0], count - len(corners) + 1)[1:]
        height = node.parameters.values["ground_height"]
        points = np.concatenate([corners, closing]) @ across.T + height * up
        lines.show_lines([0], points[None])
        return [lines]

    return draw


def make_center_of_pressure_markers(node: Any, robot: RobotContext, style: MarkerStyle) -> Draw:
    """Return the `Draw` of a disc at the center of pressure."""
    discs = MarkerArrays(style, Marker.CYLINDER)
    up = geometry.up_direction(robot.model.gravity)
    turn, widths = geometry.z_axis_quaternion(up), np.array([style.scale, style.scale, 0.0])

    def draw(state: State, terms: DynamicsTerms) -> Iterable[MarkerArrays]:
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
    MarkerKind(
        "com",
        make_com_markers,
        "the center of mass",
        0.08,
        "Diameter [m].",
        [0.12, 0.36, 1.0, 1.0],
        reads=COMPOSITE_TERMS,
    ),
    MarkerKind(
        "com_projection",
        make_com_projection_markers,
        "the center of mass, projected onto the ground",
        0.1,
        "Diameter [m].",
        [0.0, 0.63, 0.78, 1.0],
        Spec("height", 0.0, "Height of the ground, against gravity [m].", limits=(-1e6, 1e6)),
        reads=COMPOSITE_TERMS,
    ),
    MarkerKind(
        "subtree_com",
        make_subtree_com_markers,
        "the center of mass of each subtree",
        0.08,
        "Diameter for the total mass [m].",
        [0.76, 0.53, 0.95, 1.0],
        Spec("joints", Parameter.Type.STRING_ARRAY, "Joints of the subtrees. Empty: all."),
        show=False,
        reads=("subtree_com", "subtree_mass"),
    ),
    MarkerKind(
        "linear_momentum",
        partial(make_momentum_markers, slice(3)),
        "the linear momentum",
        0.05,
        "Length of 1 kg m/s [m].",
        [0.07, 0.64, 0.23, 1.0],
        reads=COMPOSITE_TERMS,
    ),
    MarkerKind(
        "angular_momentum",
        partial(make_momentum_markers, slice(3, 6)),
        "the angular momentum about the center of mass",
        0.2,
        "Length of 1 kg m2/s [m].",
        [0.64, 0.13, 0.27, 1.0],
        reads=COMPOSITE_TERMS,
    ),
    MarkerKind(
        "locked_inertia",
        make_locked_inertia_markers,
        "the locked inertia as a homogeneous ellipsoid",
        1.0,
        "Factor of the true size.",
        [0.16, 0.33, 0.74, 0.25],
        show=False,
        reads=COMPOSITE_TERMS,
    ),
)
CONTACT = (
    MarkerKind(
        "contact_force",
        make_contact_force_markers,
        "the force of the ground on each contact frame",
        0.4,
        "Length for the robot's weight, radius for weight times 1 m [m].",
        [1.0, 0.48, 0.4, 1.0],
        reads=ground.ground_force_reads,
    ),
    MarkerKind(
        "friction_cone",
        make_friction_cone_markers,
        "the friction cone at each contact frame",
        0.1,
        "Height [m].",
        [0.52, 0.66, 0.0, 1.0],
        Spec("coefficient", 0.7, "Coefficient of friction.", limits=(0.0, 100.0)),
        warning_color_spec("slip_color", "Color if the force is outside."),
        reads=ground.ground_force_reads,
    ),
    MarkerKind(
        "support_polygon",
        make_support_polygon_markers,
        "the convex hull of the frames in contact",
        0.01,
        "Width of the line [m].",
        [0.12, 0.41, 0.2, 1.0],
        reads=ground.ground_force_reads,
    ),
    MarkerKind(
        "center_of_pressure",
        make_center_of_pressure_markers,
        "the center of pressure",
        0.05,
        "Diameter [m].",
        [0.58, 0.16, 0.71, 1.0],
        reads=ground.ground_force_reads,
    ),
    MarkerKind(
        "zmp",
        lambda node, robot, style: make_ball_marker(style, partial(node.zero_moment_point, robot)),
        "the zero moment point",
        0.03,
        "Diameter [m].",
        [0.89, 0.53, 0.62, 1.0],
        reads=_zmp_reads,
    ),
)
