# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Frames in messages: the axes that a frame_id denotes, and the frame_id of given axes."""
from __future__ import annotations

import numpy as np

from dyn_ros import Model, ReferenceFrame
from dyn_ros.engine.kernel.types import Array
from dyn_ros.engine.model.frames import frame_number, frame_selector

from ...states.joint_states import Rejected
from ..robot import RobotContext


def coinciding_link(model: Model, frame: str | int) -> str:
    """Return the link whose frame coincides with a frame; TF contains the frames of links.

    A link is its own; a joint or fixed joint has its child link.
    """
    frames = model.tree.frames[frame_number(model, frame):]
    return next(link.name for link in frames if link.kind == "body")


def axes_link(robot: RobotContext, field: str, name: str) -> str | None:
    """Return the link with the axes that a frame_id denotes; None for those of the world.

    `field` is the name of the field or parameter, for error messages.
    """
    frames = robot.model.frame_names
    if name in frames:
        return coinciding_link(robot.model, name)
    worlds = [world for world in world_names(robot) if world not in frames]
    if name in worlds:
        return None
    raise Rejected(f"{field}: no frame named {name!r:.80}; available: "
                   + ", ".join([*frames, *(f"{world} (the world)" for world in worlds)]))


def world_names(robot: RobotContext) -> list[str]:
    """Return the names that denote the world: its frame_id and, for a fixed base, "world"."""
    if robot.moving_base:
        return [robot.world_frame]
    return list(dict.fromkeys([robot.world_frame, "world"]))


def reference_frame_id(robot: RobotContext, frame: str | int,
                       reference_frame: ReferenceFrame | int) -> str:
    """Return the frame_id of the axes of a frame and a `dyn_ros.ReferenceFrame`."""
    frame_selector(robot.model, frame, reference_frame)
    if reference_frame == ReferenceFrame.LOCAL:
        return coinciding_link(robot.model, frame)
    return robot.world_frame


def rotation(axes: int | None, oMf: Array) -> Array:
    """Return the rotation (3, 3) from the axes of a frame, or of the world (None), to the world."""
    return np.eye(3) if axes is None else oMf[axes, :3, :3]
