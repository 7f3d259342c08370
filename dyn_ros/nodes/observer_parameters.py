# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The parameters of observer_node, and the frames that they denote."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rclpy.parameter import Parameter

from dyn_ros.observer.settings import (
    POSITIVE,
    ObserverSettings,
    Setting,
    parameter_name,
    settings_in,
)

from ..states.joint_states import abbreviate_names
from .base.node_parameters import Spec
from .messages.frame_ids import axes_link, coinciding_link
from .robot import RobotContext, SettingError, parameter_errors
from .services import observer_services


def _setting_spec(name: str, setting: Setting) -> Spec:
    """Return the ROS parameter for a setting of the observer."""
    empty = f"{setting.empty:g}" if isinstance(setting.empty, float) else setting.empty
    sentences = (f"{setting.label}.", setting.note, f"Empty: {empty}." if setting.is_array else "")
    return Spec(
        parameter_name(name),
        Parameter.Type.DOUBLE_ARRAY if setting.is_array else setting.default,
        " ".join(filter(None, sentences)),
        limits=setting.limits,
        choices=setting.choices,
    )


OBSERVER_SPECS = tuple(
    _setting_spec(name, setting) for name, setting in settings_in(ObserverSettings).items()
)
SPECS = (
    *OBSERVER_SPECS,
    Spec(
        "noise.external",
        Parameter.Type.DOUBLE_ARRAY,
        "Standard deviation of external efforts without contact [N m, N]. Empty: from the "
        "thresholds or kalman.",
        limits=POSITIVE,
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
RESTARTING_PARAMETERS = frozenset(
    spec.name for spec in OBSERVER_SPECS if not spec.name.startswith("thresholds.")
)
"""Parameters whose change restarts the observer; the others apply while it runs."""


def tip_frame(robot: RobotContext, name: str) -> str:
    """Return the frame in the parameter tip_frame, or the last link of a single chain."""
    model = robot.model
    if name:
        with parameter_errors("tip_frame"):
            index = model.frame_index(name)
        if model.tree.frames[index].parent < 0:
            raise SettingError("tip_frame", f"no joint moves {name!r}; specify a frame that moves")
        return name
    parents = [joint.parent for joint in model.tree.joints]
    if len(set(parents)) < len(parents) or not parents:
        raise SettingError(
            "tip_frame",
            "the robot has several branches: specify a frame, one of "
            + abbreviate_names(model.frame_names),
        )
    return model.tree.links[-1].name


def wrench_frames(robot: RobotContext, values: Mapping[str, Any]) -> tuple[int, int | None]:
    """Return the indices of the frame where the wrench acts and of its axes (None: the world)."""
    frame = tip_frame(robot, values["tip_frame"])
    link = (
        axes_link(robot, "wrench_axes", values["wrench_axes"])
        if values["wrench_axes"]
        else (coinciding_link(robot.model, frame))
    )
    return (robot.model.frame_index(frame), None if link is None else robot.model.frame_index(link))
