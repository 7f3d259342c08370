# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Acceleration constraints from presets and messages, checked against a robot.

Independent of ROS.
"""
from dataclasses import dataclass

import numpy as np

import dyn_ros
from dyn_ros.model.fields import MAX_CONSTRAINTS

from .state import Rejected

UNIT_TOLERANCE = 1e-3       # tolerance on the norm of a direction


@dataclass(frozen=True, eq=False)
class Constraints:
    """Acceleration constraints on frames: arguments of `dyn_ros.constrained_dynamics`.

    Attributes
    ----------
    frame : tuple of str
        The constrained frame of each.
    directions : ndarray (6, m)
    accelerations : ndarray (m,)
    axes : str, optional
        The link in which the directions are expressed; None: the root of the model.
    """

    frame: tuple
    directions: np.ndarray
    accelerations: np.ndarray
    axes: str | None


def from_preset(robot, preset, tip_frame, axis, axis_frame):
    """Return the constraints that parameters specify, which hold one frame.

    Parameters
    ----------
    robot : RobotContext
    preset : str
        hold_pose: all six directions. hold_position: the three linear ones. keep_upright: the
        angular directions perpendicular to gravity. free_along_axis: all but the linear direction
        along `axis`.
    tip_frame : str
        The frame to hold.
    axis : (3,) sequence
        For free_along_axis.
    axis_frame : str
        The link in which that axis is expressed; empty: the root.

    Raises
    ------
    ValueError
        Names the parameter and lists the valid values.
    """
    moved = _moved_frames(robot.model)
    if tip_frame not in moved:
        raise Rejected(f"tip_frame: no moving frame is named {tip_frame!r:.80}; available: "
                       f"{', '.join(moved)}")
    axes = None
    if preset == "hold_pose":
        directions = np.eye(6)
    elif preset == "hold_position":
        directions = np.eye(6)[:3]
    elif preset == "keep_upright":
        directions = np.zeros((2, 6))
        directions[:, 3:] = _across("gravity", robot.model.gravity)
    else:
        directions = np.eye(6)[1:]
        directions[:2, :3] = _across("axis", np.array(axis))
        axes = _link("axis_frame", robot, axis_frame) if axis_frame else None
    return _checked(robot, (tip_frame,) * len(directions), directions, np.zeros(len(directions)),
                    axes)


def from_message(robot, message):
    """Return the constraints of a dyn_ros/AccelerationConstraints.

    Raises
    ------
    ValueError
        Names the field, the expected and the actual value, and lists the valid ones.
    """
    axes = _link("header.frame_id", robot, message.header.frame_id)
    rows, cols, data = message.directions.rows, message.directions.cols, message.directions.data
    if cols != 6 and (rows or cols):
        raise Rejected(f"directions: expected 6 columns (linear, angular), got {rows} x {cols}")
    if len(data) != rows * cols:
        raise Rejected(f"directions: {rows} x {cols}, but {len(data)} numbers")
    if rows > MAX_CONSTRAINTS:
        raise Rejected(f"directions: expected at most {MAX_CONSTRAINTS} rows, got {rows}")
    directions = np.array(data, float).reshape(rows, 6)
    norms = np.linalg.norm(directions, axis=1)
    for row in np.flatnonzero((norms > 0.0) & (abs(norms - 1.0) > UNIT_TOLERANCE)):
        raise Rejected(f"directions: row {row} has the norm {norms[row]:g}, expected 1, or all "
                       "zeros for an inactive row")
    frames, accelerations = tuple(message.frame), np.array(message.accelerations, float)
    return _checked(robot, frames * rows if len(frames) == 1 else frames, directions,
                    accelerations if len(accelerations) else np.zeros(rows), axes)


def _checked(robot, frames, directions, accelerations, axes):
    """Return Constraints that the engine accepts, as a trial solution at rest shows."""
    constraints = Constraints(frames, np.ascontiguousarray(directions.T), accelerations, axes)
    model = robot.model
    solve(robot, model.neutral(), np.zeros(model.nv), constraints)
    return constraints


def solve(robot, q, v, constraints, tau=None, f_ext=None, **how):
    """Call `dyn_ros.constrained_dynamics` with these constraints."""
    return dyn_ros.constrained_dynamics(
        robot.model, robot.data, q, v, constraints.frame, constraints.directions,
        constraints.accelerations, tau, f_ext, axes=constraints.axes, **how)


def moved_links(model):
    """Return, for each joint, the link that it moves."""
    links = {}
    for frame in model.tree.frames:                 # depth first: a joint's own link comes first
        if frame.kind == "body":
            links.setdefault(frame.parent, frame.name)
    return [links[joint] for joint in range(model.njoints)]


def _moved_frames(model):
    return [frame.name for frame in model.tree.frames if frame.parent >= 0]


def _link(field, robot, name):
    """Return a name that must be a link, or None for the world of a moving base."""
    links = [frame.name for frame in robot.model.tree.frames if frame.kind == "body"]
    if name in links:
        return name
    if robot.moving_base:
        if name == robot.world_frame:
            return None
        links.append(f"{robot.world_frame} (the world)")
    raise Rejected(f"{field}: {name!r:.80} is not a link; available: {', '.join(links)}")


def _across(name, axis):
    """Return two unit vectors (2, 3) orthogonal to an axis and to each other."""
    largest = abs(axis).max()
    if not largest > 0.0:
        raise Rejected(f"{name} is zero and has no direction")
    axis = axis / largest               # keeps the squares from overflow and underflow
    axis /= np.linalg.norm(axis)
    least = np.argmin(abs(axis))
    first = np.eye(3)[least] - axis[least] * axis
    first /= np.linalg.norm(first)
    return np.array([first, np.cross(axis, first)])
