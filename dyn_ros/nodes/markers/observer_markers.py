# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Markers of observer_node: external efforts, the wrench at the tip, the isolated contact."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from visualization_msgs.msg import Marker

from ...viewer.scene.marker_arrays import JointArrows, MarkerArrays, Screws
from ..base.marker_output import Draw, MarkerKind, MarkerStyle, warning_color_spec
from ..robot import DynamicsTerms, RobotContext, State


def make_external_wrench_markers(node: Any, robot: RobotContext, style: MarkerStyle) -> Draw:
    """Return the `Draw` of the external wrench at the tip."""
    screws = Screws(style)

    def draw(state: State, terms: DynamicsTerms) -> Iterable[MarkerArrays]:
        estimate = node.external_wrench(robot, state)
        if estimate is None:
            return screws.hide()
        X = terms.oMf[robot.model.frame_index(node.tip_frame(robot))]
        wrench = (X[:3, :3] @ estimate.wrench.reshape(2, 3, 1)).reshape(1, 6)
        return screws.show([0], X[None, :3, 3], wrench)

    return draw


def make_contact_markers(node: Any, robot: RobotContext, style: MarkerStyle) -> Draw:
    """Return the `Draw` of the force of the isolated contact."""
    arrows = MarkerArrays(style, Marker.ARROW)

    def draw(state: State, terms: DynamicsTerms) -> Iterable[MarkerArrays]:
        contact = node.contact(robot, state)
        if contact is None or not contact.line_valid or not np.isfinite(contact.direction).all():
            arrows.show([])
            return [arrows]
        force = style.scale * contact.magnitude * contact.direction
        arrows.show_arrows([0], (contact.point - force)[None], force[None])
        return [arrows]

    return draw


def make_external_effort_markers(node: Any, robot: RobotContext, style: MarkerStyle) -> Draw:
    """Return the `Draw` of the external effort of each joint, relative to its threshold.

    Efforts beyond it have another color, unless the base moves: the ground exerts such efforts on
    legs without a collision.
    """
    arrows = JointArrows(robot.model, style)
    collision_color = style.color if robot.has_moving_base else style.collision_color
    colors = np.array([style.color, collision_color])

    def draw(state: State, terms: DynamicsTerms) -> Iterable[MarkerArrays]:
        observation = node.valid_observation(robot)
        if observation is None:
            return arrows.hide()
        ratio = observation.external[arrows.rows] / observation.positive_thresholds()[arrows.rows]
        exceeded = observation.exceeded[arrows.rows].astype(int)
        return arrows.show(terms.oMi, np.clip(ratio, -1.0, 1.0), colors[exceeded])

    return draw


OBSERVER = (
    MarkerKind(
        "external_effort",
        make_external_effort_markers,
        "the external effort of each joint",
        0.15,
        "Radius, or length for a prismatic joint, at the threshold [m].",
        [0.11, 0.63, 1.0, 1.0],
        warning_color_spec("collision_color", "Color beyond the threshold, if the base is fixed."),
        reads=("oMi",),
    ),
    MarkerKind(
        "external_wrench",
        make_external_wrench_markers,
        "the wrench at tip_frame",
        0.01,
        "Length of 1 N, radius of 1 N m [m].",
        [0.63, 0.51, 0.0, 1.0],
        reads=("oMf",),
    ),
    MarkerKind(
        "contact",
        make_contact_markers,
        "the force of the contact",
        0.01,
        "Length of 1 N [m].",
        [1.0, 0.0, 0.39, 1.0],
        reads=(),
    ),
)
