# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The parameters of observer_node, and the frames that they denote."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rclpy.parameter import Parameter

from ..states.joint_states import abbreviated
from .base.parameters import Spec
from .messages.frames import axes_link, coinciding_link
from .robot import RobotContext, SettingError, blamed_on
from .services import observer as observer_services

POSITIVE = (1e-12, 1e12)
SPECS = (
    Spec(
        "method",
        "momentum",
        "momentum: generalized-momentum observer. direct: measured effort minus inverse dynamics. "
        "kalman: disturbance Kalman filter with noise.*.",
        choices=("momentum", "direct", "kalman"),
    ),
    Spec("gain", 100.0, "Bandwidth of momentum, direct and ~/residual [1/s].", limits=(1e-3, 1e5)),
    Spec(
        "smoothing",
        100.0,
        "Bandwidth of a second low-pass filter, except with kalman [1/s]. 0: none.",
        limits=(0.0, 1e5),
    ),
    Spec(
        "joint_gains",
        Parameter.Type.DOUBLE_ARRAY,
        "Gain of each row [1/s]. Empty: gain.",
        limits=(1e-3, 1e5),
    ),
    Spec("friction", True, "Include friction of the robot description and drives."),
    Spec(
        "friction_velocity",
        0.0,
        "Speed below which Coulomb friction is proportional to velocity [rad/s, m/s]. A larger "
        "one in drives takes precedence.",
        limits=(0.0, 1e3),
    ),
    Spec(
        "effort_constant",
        Parameter.Type.DOUBLE_ARRAY,
        "Factor from effort in joint_states to joint effort, in addition to drives. For currents: "
        "torque constant times gear ratio. Empty: 1.",
        limits=(-1e9, 1e9),
    ),
    Spec(
        "effort_delay",
        0.0,
        "Delay of efforts behind positions, in addition to drives [s]. Negative: efforts lead.",
        limits=(-1.0, 1.0),
    ),
    Spec(
        "max_gap",
        0.2,
        "Time between two states after which the observer restarts [s].",
        limits=(1e-4, 60.0),
    ),
    Spec(
        "noise.torque",
        Parameter.Type.DOUBLE_ARRAY,
        "For kalman: standard deviation of efforts [N m, N]. Empty: 0.5.",
        limits=POSITIVE,
    ),
    Spec(
        "noise.velocity",
        Parameter.Type.DOUBLE_ARRAY,
        "For kalman: standard deviation of velocities [rad/s, m/s]. Empty: 0.001.",
        limits=POSITIVE,
    ),
    Spec(
        "noise.disturbance",
        Parameter.Type.DOUBLE_ARRAY,
        "For kalman: standard deviation of the change of external efforts in 1 s [N m, N]. "
        "Empty: 1.",
        limits=POSITIVE,
    ),
    Spec(
        "noise.external",
        Parameter.Type.DOUBLE_ARRAY,
        "Standard deviation of external efforts without contact [N m, N]. Empty: from the "
        "thresholds or kalman.",
        limits=POSITIVE,
    ),
    Spec(
        "thresholds.fixed",
        Parameter.Type.DOUBLE_ARRAY,
        "Threshold of the external effort [N m, N]. Empty: thresholds.relative times the effort "
        "limit.",
        limits=(0.0, 1e12),
    ),
    Spec(
        "thresholds.per_speed",
        Parameter.Type.DOUBLE_ARRAY,
        "Threshold increase per speed [N m s, N s/m]. Empty: 0.",
        limits=(0.0, 1e12),
    ),
    Spec(
        "thresholds.at_rest",
        Parameter.Type.DOUBLE_ARRAY,
        "Threshold increase at rest, down to 0 at 0.05 rad/s or m/s [N m, N]. Empty: friction at "
        "rest.",
        limits=(0.0, 1e12),
    ),
    Spec(
        "thresholds.relative",
        0.05,
        "Default threshold relative to the effort limit.",
        limits=(0.0, 1e3),
    ),
    Spec(
        "thresholds.unlimited",
        5.0,
        "Default threshold without an effort limit [N m, N].",
        limits=(0.0, 1e12),
    ),
    Spec(
        "tip_frame",
        "",
        "Frame at whose origin ~/external_wrench acts. Empty: the last link of a single chain.",
    ),
    Spec(
        "wrench_axes",
        "",
        "Frame or world in whose axes ~/external_wrench is expressed. Empty: tip_frame.",
    ),
    Spec(
        "contact_averaging",
        0.2,
        "Averaging time of forces in ~/contacts [s]. 0: none.",
        limits=(0.0, 60.0),
    ),
    Spec(
        "damping",
        0.01,
        "Lever arm below which ~/external_wrench damps forces [m].",
        limits=(1e-6, 100.0),
    ),
    *observer_services.SPECS,
)
RESTARTING = frozenset(
    {
        "method",
        "gain",
        "joint_gains",
        "smoothing",
        "friction",
        "friction_velocity",
        "effort_constant",
        "effort_delay",
        "max_gap",
        "noise.torque",
        "noise.velocity",
        "noise.disturbance",
    }
)


def tip(robot: RobotContext, name: str) -> str:
    """Return the frame in the parameter tip_frame, or the last link of a single chain."""
    model = robot.model
    if name:
        with blamed_on("tip_frame"):
            index = model.frame_index(name)
        if model.tree.frames[index].parent < 0:
            raise SettingError("tip_frame", f"no joint moves {name!r}; specify a frame that moves")
        return name
    parents = [joint.parent for joint in model.tree.joints]
    if len(set(parents)) < len(parents) or not parents:
        raise SettingError(
            "tip_frame",
            "the robot has several branches: specify a frame, one of "
            + abbreviated(model.frame_names),
        )
    return model.tree.links[-1].name


def place(robot: RobotContext, values: Mapping[str, Any]) -> tuple[int, int | None]:
    """Return the frames where the wrench acts and in whose axes it is; None: the world."""
    frame = tip(robot, values["tip_frame"])
    link = (
        axes_link(robot, "wrench_axes", values["wrench_axes"])
        if values["wrench_axes"]
        else (coinciding_link(robot.model, frame))
    )
    return (robot.model.frame_index(frame), None if link is None else robot.model.frame_index(link))
