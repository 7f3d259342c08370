# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Frames in messages: the axes that a frame_id denotes, and the frame_id of given axes.

Independent of ROS.
"""
from __future__ import annotations

import numpy as np

from dyn_ros import Model, ReferenceFrame
from dyn_ros.engine.kernel.types import Array
from dyn_ros.engine.model.frames import frame_number, frame_selector

from ...states.joint_states import Rejected
from ..base.robot import RobotContext


def coinciding_link(model: Model, frame: str | int) -> str:
    """Return the link whose frame coincides with a frame.

    A link is its own; a joint or fixed joint has its child link. TF contains the frames of links.

    Parameters
    ----------
    model : dyn_ros.Model
    frame : str or int

    Raises
    ------
    ValueError
        An unknown frame (lists the valid ones).
    """
    frames = model.tree.frames[frame_number(model, frame):]
    return next(each.name for each in frames if each.kind == "body")


def axes_link(robot: RobotContext, field: str, name: str) -> str | None:
    """Return the link with the axes that a frame_id denotes; None for those of the world.

    Parameters
    ----------
    robot : RobotContext
    field : str
        The name of the field or parameter, for error messages.
    name : str
        A link, joint or fixed joint, or the world.

    Raises
    ------
    Rejected
        An unknown name (lists the valid ones).
    """
    frames = robot.model.frame_names
    if name in frames:
        return coinciding_link(robot.model, name)
    worlds = [each for each in world_names(robot) if each not in frames]
    if name in worlds:
        return None
    raise Rejected(f"{field}: no frame named {name!r:.80}; available: "
                   + ", ".join([*frames, *(f"{each} (the world)" for each in worlds)]))


def world_names(robot: RobotContext) -> list[str]:
    """Return the names that denote the world: its frame_id and, for a fixed base, "world"."""
    if robot.moving_base:
        return [robot.world_frame]
    return list(dict.fromkeys([robot.world_frame, "world"]))


def reference_frame_id(robot: RobotContext, frame: str | int,
                       reference_frame: ReferenceFrame | int) -> str:
    """Return the frame_id of the axes of a frame and a `dyn_ros.ReferenceFrame`.

    Raises
    ------
    ValueError
        An unknown frame or reference frame (lists the valid ones).
    """
    frame_selector(robot.model, frame, reference_frame)
    if reference_frame == ReferenceFrame.LOCAL:
        return coinciding_link(robot.model, frame)
    return robot.world_frame


def rotation(axes: int | None, oMf: Array) -> Array:
    """Return the rotation from the axes of a frame to the world.

    Parameters
    ----------
    axes : int or None
        Index of the frame; None: the world.
    oMf : ndarray (nframes, 4, 4)
        The placements of the frames.

    Returns
    -------
    ndarray (3, 3)
    """
    return np.eye(3) if axes is None else oMf[axes, :3, :3]
