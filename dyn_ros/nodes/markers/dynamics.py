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

from ...viewer.scene import geometry, marker_arrays
from ...viewer.scene.marker_arrays import MarkerArrays, Screws, rows_of_joints
from ..base.markers import Draw, Kind, Look
from ..base.parameters import Spec
from ..messages.frames import rotation
from ..robot import RobotContext, State, Terms, blamed_on

LOCAL_WORLD_ALIGNED = dyn_ros.ReferenceFrame.LOCAL_WORLD_ALIGNED


def _torque_reads(values: Mapping[str, Any]) -> tuple[str, ...]:
    source = {"gravity": "g", "nle": "nle", "effort": "effort"}[values["markers.torque.source"]]
    return "oMi", source


def manipulability(
    half_axes: Callable[[Array], Array], node: Any, robot: RobotContext, look: Look
) -> Draw:
    """The ellipsoid of velocities or forces at a frame's origin, given the velocities' one."""
    model, data = robot.model, robot.data
    if not look.frame:
        return lambda state, terms: ()
    with blamed_on(f"markers.{look.name}.frame"):
        frame = model.frame_index(look.frame)
    _, rows = rows_of_joints(model)
    solids = MarkerArrays(look, Marker.SPHERE)

    def ellipsoid(state: State) -> tuple[Array, Array]:
        J = dyn_ros.frame_jacobian(model, data, state.q, look.frame, LOCAL_WORLD_ALIGNED)
        half, axes = geometry.velocity_ellipsoid(J[:3, rows])
        return half, matrix_quaternion(axes)

    def draw(state: State, terms: Terms) -> Iterable[MarkerArrays]:
        half, turn = robot.once(state, f"ellipsoid of {look.frame}", lambda: ellipsoid(state))
        if half[0] > 0.0:
            solids.show_solids(
                [0], terms.oMf[frame, :3, 3], turn, 2.0 * look.scale * half_axes(half)
            )
        else:
            solids.show([])  # a frame on the base
        return [solids]

    return draw


def wrench(topics: str, timeout: str, node: Any, robot: RobotContext, look: Look) -> Draw:
    """The wrenches on the topics in a parameter, with a maximum age in another one."""
    screws = Screws(look)

    def draw(state: State, terms: Terms) -> Iterable[MarkerArrays]:
        values, latest = node.parameters.values, {}
        for id, topic in enumerate(values[topics]):
            with suppress(ValueError):  # missing or too old
                latest[id] = node.inputs.numbers(topic, robot, values[timeout])
        if not latest:
            return screws.hide()
        wrenches = latest.values()
        oMf = terms.oMf[[wrench.frame for wrench in wrenches]]
        numbers = np.array([wrench.numbers for wrench in wrenches])
        axes = np.array([rotation(wrench.axes, terms.oMf) for wrench in wrenches])
        return screws.show(list(latest), oMf[:, :3, 3], rotated(axes, numbers))

    return draw


def rotated(R: Array, vectors: Array) -> Array:
    """Rotate both parts of vectors (n, 6) by rotations (n, 3, 3), or by one, (3, 3)."""
    return (R[..., None, :, :] @ vectors.reshape(-1, 2, 3, 1)).reshape(-1, 6)


def placements_if(parameter: str) -> Callable[[Mapping[str, Any]], tuple[str, ...]]:
    return lambda values: ("oMf",) if values[parameter] else ()


_FRAME = Spec("frame", "", "Frame at whose origin to show it. Empty: hidden.")
WRENCH = "the wrenches on the robot"
NEWTON = (0.01, "Length of 1 N, radius of 1 N m [m].", [0.84, 0.09, 0.6, 1.0])

DYNAMICS = (
    Kind(
        "torque",
        lambda node, robot, look: marker_arrays.torque(robot.model, look),
        "the torque of each joint",
        0.1,
        "Radius, or length for a prismatic joint [m].",
        [0.94, 0.55, 0.0, 1.0],
        Spec(
            "full_color",
            [0.88, 0.04, 0.11, 1.0],
            "Color at the effort limit.",
            size=4,
            limits=(0.0, 1.0),
        ),
        Spec("unlimited", 100.0, "Full load without an effort limit [N m, N].", limits=(1e-6, 1e9)),
        Spec("source", "gravity", "Torque to show.", choices=("gravity", "nle", "effort")),
        reads=_torque_reads,
    ),
    Kind(
        "inertia",
        lambda node, robot, look: marker_arrays.inertia(robot.model, look, robot.payloads),
        "homogeneous bodies with the mass and inertia of each body",
        1.0,
        "Factor of the true size.",
        [0.61, 0.18, 1.0, 0.4],
        Spec("shape", "ellipsoid", "Shape of the bodies.", choices=("ellipsoid", "box")),
        reads=("oMi",),
    ),
    Kind(
        "velocity_ellipsoid",
        partial(manipulability, lambda half: half),
        "the frame velocities for joint velocities of norm 1",
        0.2,
        "Length of 1 m/s for 1 rad/s [m].",
        [0.0, 0.68, 0.61, 0.4],
        _FRAME,
        reads=placements_if("markers.velocity_ellipsoid.frame"),
        kernels=("frame_jacobian",),
    ),
    Kind(
        "force_ellipsoid",
        partial(manipulability, geometry.force_semi_axes),
        "the frame forces for joint torques of norm 1",
        0.05,
        "Length of 1 N for 1 N m [m].",
        [1.0, 0.38, 0.0, 0.4],
        _FRAME,
        reads=placements_if("markers.force_ellipsoid.frame"),
        kernels=("frame_jacobian",),
    ),
    Kind(
        "wrench",
        partial(wrench, "markers.wrench.topics", "markers.lifetime"),
        WRENCH,
        *NEWTON,
        Spec("topics", Parameter.Type.STRING_ARRAY, "Topics (geometry_msgs/WrenchStamped)."),
        Spec(
            "frames",
            Parameter.Type.STRING_ARRAY,
            "Frame where the wrenches of each topic act. Empty: header.frame_id.",
        ),
        reads=placements_if("markers.wrench.topics"),
    ),
)
