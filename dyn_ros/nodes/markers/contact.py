# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Markers of centroidal_node about the ground: contact forces, friction cones, support polygon.

As in base/markers.py, a kind is one function and one entry at the end of this file.
"""
from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any, Protocol

import numpy as np
from visualization_msgs.msg import Marker

from dyn_ros.engine.kernel.types import Array

from ...viewer.scene import shapes
from ...viewer.scene.marker_arrays import THINNEST, MarkerArrays, Screws
from ..base.markers import Draw, Look, kind
from ..base.parameters import Parameters, Spec
from ..robot import RobotContext, State, Terms
from ..robot.ground import convex_hull
from ..robot.support import Support, rate_reads, reads
from .centroidal import ball_at

FINE = 0.3          # width of the lines of a cone / width of other lines


class Ground(Protocol):
    """Returns what the ground exerts on the robot in a state."""

    def support(self, robot: RobotContext, state: State, terms: Terms) -> Support | None: ...

    def center_of_pressure(self, robot: RobotContext, state: State,
                           terms: Terms) -> Array | None: ...


class GroundNode(Protocol):
    """What the markers use of their node."""

    parameters: Parameters
    feet: Ground

    def zero_moment_point(self, robot: RobotContext, state: State,
                          terms: Terms) -> Array | None: ...


def contact_force(node: GroundNode, robot: RobotContext, look: Look) -> Draw:
    """The force of the ground on each foot, relative to the weight of the robot."""
    screws = Screws(look)

    def draw(state: State, terms: Terms) -> Iterable[MarkerArrays]:
        support = node.feet.support(robot, state, terms)
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


def friction_cone(node: GroundNode, robot: RobotContext, look: Look) -> Draw:
    """The forces at each foot that do not make it slip, in another color if its force does."""
    up = shapes.upward(robot.model.gravity)
    cone = shapes.cone(up, look.scale, look.coefficient * look.scale)
    lines = MarkerArrays(look, Marker.LINE_STRIP, points=len(cone), width=FINE * look.width)
    colors = np.array([look.color, look.slip_color])

    def draw(state: State, terms: Terms) -> Iterable[MarkerArrays]:
        support = node.feet.support(robot, state, terms)
        if support is None or not support.active.any():
            lines.show([])
            return [lines]
        ids = np.flatnonzero(support.active)
        lines.lines(ids.tolist(), support.points[ids, None] + cone)
        slips = shapes.outside_cone(support.forces[ids, :3], up, look.coefficient)
        lines.paint(ids.tolist(), colors[slips.astype(int)])
        return [lines]
    return draw


def support_polygon(node: GroundNode, robot: RobotContext, look: Look) -> Draw:
    """The convex hull of the feet in contact, on the ground."""
    up = shapes.upward(robot.model.gravity)
    across = np.array([direction[0] for direction in shapes.across(up[None])]).T
    count = len(node.parameters.values["contact_frames"]) + 1
    lines = MarkerArrays(look, Marker.LINE_STRIP, points=count, width=max(look.scale, THINNEST))

    def draw(state: State, terms: Terms) -> Iterable[MarkerArrays]:
        support = node.feet.support(robot, state, terms)
        if support is None or support.active.sum() < 2:
            lines.show([])
            return [lines]
        corners = convex_hull(support.points[support.active] @ across)
        closing = np.linspace(corners[-1], corners[0], count - len(corners) + 1)[1:]
        height = node.parameters.values["ground_height"]
        points = np.concatenate([corners, closing]) @ across.T + height * up
        lines.lines([0], points[None])
        return [lines]
    return draw


def zmp(node: GroundNode, robot: RobotContext, look: Look) -> Draw:
    """The zero moment point, if the rates are known."""
    return ball_at(look, partial(node.zero_moment_point, robot))


def center_of_pressure(node: GroundNode, robot: RobotContext, look: Look) -> Draw:
    """The center of pressure, as a disc on the ground."""
    discs = MarkerArrays(look, Marker.CYLINDER)
    up = shapes.upward(robot.model.gravity)
    turn, widths = shapes.facing(up), np.array([look.scale, look.scale, 0.0])

    def draw(state: State, terms: Terms) -> Iterable[MarkerArrays]:
        point = node.feet.center_of_pressure(robot, state, terms)
        if point is None:
            discs.show([])
        else:
            discs.solids([0], point, turn, widths)
        return [discs]
    return draw


def _zmp_reads(values: Mapping[str, Any]) -> tuple[str, ...]:
    return () if values["acceleration_source"] == "none" else rate_reads(values)


CONTACT = (
    kind("contact_force", contact_force,
         "the force of the ground on each of contact_frames: a straight arrow for the force, a "
         "curved one for the moment",
         0.4, "Length of a force that equals the weight of the robot; radius of a moment that "
         "equals the weight at a lever of 1 m [m].", [1.0, 0.48, 0.4, 1.0], reads=reads),
    kind("friction_cone", friction_cone,
         "the friction cone of each of contact_frames: forces inside do not make it slip",
         0.1, "Height [m].", [0.52, 0.66, 0.0, 1.0],
         Spec("coefficient", 0.7, "Coefficient of friction.", limits=(0.0, 100.0)),
         Spec("slip_color", [0.88, 0.04, 0.11, 1.0], "Color if the force is outside.", size=4,
              limits=(0.0, 1.0)),
         reads=reads),
    kind("support_polygon", support_polygon,
         "the support polygon: the convex hull of those of contact_frames that are in contact, on "
         "the ground",
         0.01, "Width of the line [m].", [0.12, 0.41, 0.2, 1.0], reads=reads),
    kind("center_of_pressure", center_of_pressure,
         "the center of pressure, on the ground",
         0.05, "Diameter [m].", [0.58, 0.16, 0.71, 1.0], reads=reads),
    kind("zmp", zmp,
         "the zero moment point, on the ground, if acceleration_source is not none",
         0.03, "Diameter [m].", [0.89, 0.53, 0.62, 1.0], reads=_zmp_reads),
)
