# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Frames in messages: the axes that a frame_id denotes, and wrenches at frames."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from geometry_msgs.msg import WrenchStamped

import dyn_ros
from dyn_ros import Model, ReferenceFrame
from dyn_ros.engine.kernel.names import unknown_name
from dyn_ros.engine.kernel.types import Array
from dyn_ros.engine.kernel.validation import finite_array
from dyn_ros.engine.model.frames import frame_number, frame_selector
from dyn_ros.engine.model.inertia import link_frame

from ...states.joint_states import Rejected
from ..robot import RobotContext, parameter_errors
from . import message_fields


def coinciding_link(model: Model, frame: str | int) -> str:
    """Return the link with a frame in TF that coincides with the frame of a link or joint."""
    return model.tree.frames[link_frame(model.tree, frame_number(model, frame))].name


def axes_link(robot: RobotContext, field: str, name: str) -> str | None:
    """Return the link whose axes the name in a field denotes; None: the world."""
    frames = robot.model.frame_names
    if name in frames:
        return coinciding_link(robot.model, name)
    world_ids = [world for world in world_names(robot) if world not in frames]
    if name in world_ids:
        return None
    raise Rejected(
        f"{field}: "
        + unknown_name("frame", name, [*frames, *(f"{world} (the world)" for world in world_ids)])
    )


def world_names(robot: RobotContext) -> list[str]:
    """Return the frame_ids of the world: `world_frame` and, for a fixed base, "world"."""
    if robot.has_moving_base:
        return [robot.world_frame]
    return list(dict.fromkeys([robot.world_frame, "world"]))


def reference_frame_id(
    robot: RobotContext, frame: str | int, reference_frame: ReferenceFrame | int
) -> str:
    """Return the frame_id of the axes of a frame and a `dyn_ros.ReferenceFrame`."""
    frame_selector(robot.model, frame, reference_frame)
    if reference_frame == ReferenceFrame.LOCAL:
        return coinciding_link(robot.model, frame)
    return robot.world_frame


def axes_rotation(axes: int | None, oMf: Array) -> Array:
    """Return the rotation matrix from the axes of a frame, None: of the world, to the world."""
    return np.eye(3) if axes is None else oMf[axes, :3, :3]


class Wrench(NamedTuple):
    """A wrench that acts at the origin of a frame."""

    frame: int  # index
    axes: int | None  # index of the frame in whose axes it is expressed; None: the world
    components: Array  # (6,), N, N m; force and moment
    f_ext: Array | None  # (njoints, 6), N, N m; None unless `axes` is `frame`


@dataclass(frozen=True)
class WrenchReader:
    """Converter from geometry_msgs/WrenchStamped to `Wrench`."""

    frame: str  # the wrenches act at its origin; empty: the frame in the header
    field: str  # field or parameter with the frame, for error messages

    def __call__(self, robot: RobotContext, message: WrenchStamped) -> Wrench:
        """Return the `Wrench`; raise a ValueError if it does not fit the robot."""
        model, axes = robot.model, message.header.frame_id
        name = self.frame or self._frame_in_header(robot, axes)
        with parameter_errors(self.field if self.frame else "header.frame_id"):
            index = model.frame_index(name)
        numbers = finite_array(
            f"wrench on {name}", message_fields.wrench_numbers(message.wrench), (6,)
        )
        if not self.frame or axes == self.frame:
            return Wrench(index, index, numbers, model.external_forces({name: numbers}))
        link = axes_link(robot, "header.frame_id", axes)
        return Wrench(index, None if link is None else model.frame_index(link), numbers, None)

    def _frame_in_header(self, robot: RobotContext, name: str) -> str:
        """Return the frame in a header; raise `Rejected` if it is the world."""
        if name not in robot.model.frame_names and name in world_names(robot):
            raise Rejected(
                f"header.frame_id: {name!r:.80} is the world, which specifies axes, but "
                f"not where it acts; specify a frame of the robot in "
                f"{self.field}"
            )
        return name


def frame_names_of_wrenches(
    field: str, frames: Sequence[str], items: str, count: int
) -> Sequence[str]:
    """Return the frame of each of `count` wrenches or topics; empty: the frame in the header.

    Raises `Rejected` if `frames` has another length; `field` and `items` name the frames and the
    wrenches or topics in the error message.
    """
    if len(frames) not in (0, count):
        raise Rejected(
            f"{field}: expected one name for each of the {count} {items}, or none, "
            f"got {len(frames)}"
        )
    return frames or [""] * count


def external_forces(robot: RobotContext, wrenches: Sequence[Wrench], q: Array) -> Array | None:
    """Return `f_ext` (njoints, 6), the sum of wrenches at q; None without wrenches."""
    if not wrenches:
        return None
    forces = [wrench.f_ext for wrench in wrenches if wrench.f_ext is not None]
    rotated_wrenches = [wrench for wrench in wrenches if wrench.f_ext is None]
    with np.errstate(over="ignore"):  # the engine rejects infinite numbers
        if rotated_wrenches:
            oMf = dyn_ros.frame_placements(robot.model, robot.data, q)
            forces += [_joint_forces(robot.model, wrench, oMf) for wrench in rotated_wrenches]
        return np.sum(forces, axis=0)


def _joint_forces(model: Model, wrench: Wrench, oMf: Array) -> Array:
    """Return `f_ext` of a wrench that is expressed in axes other than its frame's."""
    R = oMf[wrench.frame, :3, :3].T @ axes_rotation(wrench.axes, oMf)
    return model.external_forces(
        {model.frame_names[wrench.frame]: (R @ wrench.components.reshape(2, 3, 1)).ravel()}
    )


def requested_forces(robot: RobotContext, request: Any, q: Array) -> Array | None:
    """Return `f_ext` of the wrenches in a request; None if there are none."""
    messages = request.wrenches
    frames = frame_names_of_wrenches(
        "wrench_frame", request.wrench_frame, "wrenches", len(messages)
    )
    return external_forces(
        robot,
        [
            WrenchReader(frame, "wrench_frame")(robot, message)
            for frame, message in zip(frames, messages)
        ],
        q,
    )
