# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Markers of dynamics_node: torques, inertias, manipulability, wrenches."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any

import numpy as np
from rclpy.parameter import Parameter
from visualization_msgs.msg import Marker

import dyn_ros
from dyn_ros.engine.kernel.lie import matrix_quaternion
from dyn_ros.engine.kernel.types import Array

from ...viewer.scene import geometry
from ...viewer.scene.inertia_markers import make_inertia_markers
from ...viewer.scene.marker_arrays import (
    MarkerArrays,
    Screws,
    make_torque_markers,
    rows_of_joints,
)
from ..base.marker_output import Draw, MarkerKind, MarkerStyle, warning_color_spec
from ..base.node_parameters import Spec
from ..messages.frame_ids import axes_rotation
from ..robot import DynamicsTerms, RobotContext, State, parameter_errors

LOCAL_WORLD_ALIGNED = dyn_ros.ReferenceFrame.LOCAL_WORLD_ALIGNED


def _torque_reads(values: Mapping[str, Any]) -> tuple[str, ...]:
    source = {"gravity": "g", "nle": "nle", "effort": "effort"}[values["markers.torque.source"]]
    return "oMi", source


def make_ellipsoid_marker(
    half_axes: Callable[[Array], Array], node: Any, robot: RobotContext, style: MarkerStyle
) -> Draw:
    """Return the `Draw` of the velocity or force ellipsoid at the origin of a frame.

    `half_axes` converts the half axes of the velocity ellipsoid.
    """
    model, data = robot.model, robot.data
    if not style.frame:
        return lambda state, terms: ()
    with parameter_errors(f"markers.{style.name}.frame"):
        frame = model.frame_index(style.frame)
    _, rows = rows_of_joints(model)
    solids = MarkerArrays(style, Marker.SPHERE)

    def velocity_ellipsoid(state: State) -> tuple[Array, Array]:
        J = dyn_ros.frame_jacobian(model, data, state.q, style.frame, LOCAL_WORLD_ALIGNED)
        half, axes = geometry.velocity_ellipsoid(J[:3, rows])
        return half, matrix_quaternion(axes)

    def draw(state: State, terms: DynamicsTerms) -> Iterable[MarkerArrays]:
        half, turn = robot.compute_once(
            state, f"ellipsoid of {style.frame}", lambda: velocity_ellipsoid(state)
        )
        if half[0] > 0.0:
            solids.show_solids(
                [0], terms.oMf[frame, :3, 3], turn, 2.0 * style.scale * half_axes(half)
            )
        else:
            solids.show([])  # a frame on the base
        return [solids]

    return draw


def make_wrench_markers(
    topics: str, timeout: str, node: Any, robot: RobotContext, style: MarkerStyle
) -> Draw:
    """Return the `Draw` of received wrenches; `topics` and `timeout` are names of parameters."""
    screws = Screws(style)

    def draw(state: State, terms: DynamicsTerms) -> Iterable[MarkerArrays]:
        values, latest = node.parameters.values, {}
        for id, topic in enumerate(values[topics]):
            with suppress(ValueError):  # it is missing or too old
                latest[id] = node.inputs.latest_value(topic, robot, values[timeout])
        if not latest:
            return screws.hide()
        wrenches = latest.values()
        oMf = terms.oMf[[wrench.frame for wrench in wrenches]]
        numbers = np.array([wrench.components for wrench in wrenches])
        axes = np.array([axes_rotation(wrench.axes, terms.oMf) for wrench in wrenches])
        return screws.show(list(latest), oMf[:, :3, 3], rotate_vectors(axes, numbers))

    return draw


def rotate_vectors(R: Array, vectors: Array) -> Array:
    """Rotate the linear and angular parts of vectors (n, 6) by R, (n, 3, 3) or (3, 3)."""
    return (R[..., None, :, :] @ vectors.reshape(-1, 2, 3, 1)).reshape(-1, 6)


def placement_reads(parameter: str) -> Callable[[Mapping[str, Any]], tuple[str, ...]]:
    """Return `MarkerKind.reads` of markers at frames, shown if a parameter is not empty."""
    return lambda values: ("oMf",) if values[parameter] else ()


_FRAME_SPEC = Spec("frame", "", "Frame at whose origin to show it. Empty: hidden.")
WRENCH_TEXT = "the wrenches on the robot"
WRENCH_SCALE = (0.01, "Length of 1 N, radius of 1 N m [m].", [0.84, 0.09, 0.6, 1.0])

DYNAMICS = (
    MarkerKind(
        "torque",
        lambda node, robot, style: make_torque_markers(robot.model, style),
        "the torque of each joint",
        0.1,
        "Radius, or length for a prismatic joint [m].",
        [0.94, 0.55, 0.0, 1.0],
        warning_color_spec("full_color", "Color at the effort limit."),
        Spec("unlimited", 100.0, "Full load without an effort limit [N m, N].", limits=(1e-6, 1e9)),
        Spec("source", "gravity", "Torque to show.", choices=("gravity", "nle", "effort")),
        Spec(
            "numbers",
            "largest",
            "Torques to show as numbers: none, the largest in % of its limit, or all in N m, N.",
            choices=("none", "largest", "all"),
        ),
        reads=_torque_reads,
    ),
    MarkerKind(
        "inertia",
        lambda node, robot, style: make_inertia_markers(
            robot.model, style, robot.payloads, robot.body_check
        ),
        "homogeneous bodies with the mass and inertia of each body",
        1.0,
        "Factor of the true size.",
        [0.61, 0.18, 1.0, 0.4],
        Spec("shape", "ellipsoid", "Shape of the bodies.", choices=("ellipsoid", "box")),
        warning_color_spec(
            "finding_color", "Color of the outline of a body whose inertia `dyn_ros check` reports."
        ),
        show=False,
        reads=("oMi",),
    ),
    MarkerKind(
        "velocity_ellipsoid",
        partial(make_ellipsoid_marker, lambda half: half),
        "the frame velocities for joint velocities of norm 1",
        0.2,
        "Length of 1 m/s for 1 rad/s [m].",
        [0.0, 0.68, 0.61, 0.4],
        _FRAME_SPEC,
        reads=placement_reads("markers.velocity_ellipsoid.frame"),
        kernels=("frame_jacobian",),
    ),
    MarkerKind(
        "force_ellipsoid",
        partial(make_ellipsoid_marker, geometry.force_semi_axes),
        "the frame forces for joint torques of norm 1",
        0.05,
        "Length of 1 N for 1 N m [m].",
        [1.0, 0.38, 0.0, 0.4],
        _FRAME_SPEC,
        reads=placement_reads("markers.force_ellipsoid.frame"),
        kernels=("frame_jacobian",),
    ),
    MarkerKind(
        "wrench",
        partial(make_wrench_markers, "markers.wrench.topics", "markers.lifetime"),
        WRENCH_TEXT,
        *WRENCH_SCALE,
        Spec("topics", Parameter.Type.STRING_ARRAY, "Topics (geometry_msgs/WrenchStamped)."),
        Spec(
            "frames",
            Parameter.Type.STRING_ARRAY,
            "Frame where the wrenches of each topic act. Empty: header.frame_id.",
        ),
        reads=placement_reads("markers.wrench.topics"),
    ),
)
