# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Locking of joints that were not recorded or do not move, before an identification."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Collection, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from ..engine.kernel.names import short_repr, similar_names
from ..engine.kernel.types import Array
from ..engine.kernel.validation import require_model
from ..engine.model.coordinates import independent_joint_indices, single_coordinate_joints
from ..engine.model.drives import MAX_MEASUREMENT
from ..engine.model.model import Model
from ..engine.model.moments import Moment
from ..recordings.formats.spans import Source
from ..recordings.options import ReadOptions
from ..recordings.selection import find_reported_joints
from ..recordings.tables.columns import Columns, joint_and_coordinate_names, name_file_in_errors
from ..recordings.tables.files import Table
from ..recordings.tables.row_selection import interval_mask
from .motion.numerics import MIN_TRAVEL
from .samples import Samples


def lock_joints(
    model: Model, samples: Samples, joints: Mapping[str, float | None] | None = None
) -> tuple[Model, Samples]:
    """Lock joints of a robot and of its recording.

    A joint that does not move, such as a finger, adds parameters that the recording does not
    determine. If the joint is locked, its body becomes a part of the body that carries it.
    ``Identification.write_urdf`` can write the parameters that are identified for the smaller
    robot to the description of the whole robot: locked links keep their inertias.

    Parameters
    ----------
    model : Model
    samples : Samples
        A recording of this robot.
    joints : dict of str to float or None, optional
        Positions of joints with one coordinate [rad, m], by name; None: the mean of the recording.
        By default, joints that move by less than 0.001 rad or m, at their mean. A root joint is
        not among them.

    Returns
    -------
    Model
        See ``Model.reduced``.
    Samples
        The recording of this model. A warning names the joints that were locked, if any.

    Raises
    ------
    ValueError
        An unknown joint or one with several coordinates, external forces, or no joint remains.

    Examples
    --------
    >>> arm, motion = dyn_ros.lock_joints(model, recording, {"wrist_roll": None})
    >>> arm.nv, motion.q.shape[1]
    (6, 6)
    """
    if not isinstance(samples, Samples):
        raise TypeError(
            f"samples: expected dyn_ros.Samples, got {type(samples).__name__}: "
            f"{short_repr(samples)}"
        )
    reason = "its mean"
    if joints is None:
        joints, reason = _unmoved_joints(require_model(model), samples), "does not move"
    if not joints:
        return model, samples
    if samples.f_ext is not None:
        raise ValueError(
            "samples: joints of a recording with external forces cannot be locked; "
            "create it with the model from Model.reduced"
        )
    for name in joints:
        require_single_coordinate(model, name)
    positions, warnings = _locked_positions(
        model,
        joints,
        {name: samples.q[:, model.idx_q[model.joint_names.index(name)]] for name in joints},
        reason,
    )
    reduced = _lock_at(model, positions)
    q, v = remaining_coordinates(model, reduced)
    noise = samples.motion_noise
    return reduced, dataclasses.replace(
        samples,
        q=samples.q[:, q],
        v=samples.v[:, v],
        a=samples.a[:, v],
        tau=samples.tau[:, v],
        repeats=None if samples.repeats is None else samples.repeats[:, v],
        motion_noise=None if noise is None else noise[:, v],
        warnings=(*samples.warnings, *warnings),
    )


def lock_unrecorded(
    model: Model,
    recordings: Sequence[tuple[Table, Columns | Source]],
    joints: Mapping[str, float | None],
    read_options: ReadOptions,
) -> tuple[Model, tuple[str, ...]]:
    """Lock joints that are in ``joints`` or in no recording; return the robot and warnings.

    ``recordings`` are paths or tables, each with what it was opened as. ``joints`` are positions by
    name; None: the mean of the positions in the tables. Reads these columns, and messages at the
    start of other recordings.
    """
    recorded: set[str] = set()
    tables: list[tuple[Table, Columns]] = []
    for recording, opened in recordings:
        if isinstance(opened, Columns):
            tables.append((recording, opened))
            recorded |= {*opened.owners("position"), *opened.owners("effort")}
        elif opened.spans:
            recorded |= find_reported_joints(opened, model, read_options.topics)
    robot, warnings = _lock_unnamed_joints(model, recorded, joints)
    remaining = {name: x for name, x in joints.items() if name in robot.joint_names}
    positions, lock_warnings = _locked_positions(
        robot,
        remaining,
        {
            name: np.concatenate(
                [
                    np.zeros(0),
                    *(
                        _recorded_positions(
                            table, opened, name, read_options.since, read_options.until
                        )
                        for table, opened in tables
                        if opened.has_signal("position", name)
                    ),
                ]
            )
            for name in remaining
        },
    )
    return _lock_at(robot, positions) if positions else robot, (*warnings, *lock_warnings)


def _lock_unnamed_joints(
    model: Model, recorded: Collection[str], positions: Mapping[str, float | None]
) -> tuple[Model, tuple[str, ...]]:
    """Lock joints of which nothing was recorded; return the robot and a warning that names them.

    They are locked at the given positions, or at 0 or the nearest limit. No joint is locked if
    none was recorded, or if its name resembles a recorded name that is not a joint.
    """
    last_names = {*recorded, *(name.rpartition("/")[2] for name in recorded)}
    unknown = sorted(last_names - joint_and_coordinate_names(model))
    unrecorded = [name for name in single_coordinate_joints(model) if name not in last_names]
    locked_positions = {}
    for name in unrecorded if len(unrecorded) < len(single_coordinate_joints(model)) else ():
        if not similar_names(name, unknown, 1, 0.8):
            position = positions.get(name)
            locked_positions[name] = _nearest_to_zero(model, name) if position is None else position
    return (
        (_lock_at(model, locked_positions), (_lock_warning(locked_positions, "no columns"),))
        if locked_positions
        else (model, ())
    )


def copy_drives(model: Model, reduced: Model) -> Model:
    """Return a copy of a robot with drives, rotor inertias and friction of its reduced robot."""
    rows, robot = remaining_coordinates(model, reduced)[1], copy.copy(model)
    for name in ("armature", "damping", "friction"):
        values = getattr(model, name).copy()
        values[rows] = getattr(reduced, name)
        setattr(robot, name, values)
    robot.drives = model.drives.put(rows.tolist(), reduced.drives)
    return robot


def remaining_coordinates(
    model: Model, reduced: Model
) -> tuple[NDArray[np.int_], NDArray[np.int_]]:
    """Return the indices of positions and velocities of a robot that its reduced robot has."""
    joints = [model.joint_names.index(name) for name in reduced.joint_names]
    q, v = (
        np.concatenate([np.arange(start[i], start[i] + count[i]) for i in joints])
        for start, count in ((model.idx_q, model.nqs), (model.idx_v, model.nvs))
    )
    return q, v


def require_single_coordinate(model: Model, name: str) -> None:
    """Raise a ValueError if a joint does not have one coordinate of its own."""
    if name not in (available := single_coordinate_joints(model)):
        raise ValueError(
            f"lock: no joint {short_repr(name)} that moves by itself, with one coordinate; "
            f"available: {', '.join(available)}"
        )


def _unmoved_joints(model: Model, samples: Samples) -> dict[str, float | None]:
    """Return the joints that do not move, or none if no joint moves."""
    if samples.f_ext is not None:
        return {}
    unmoved: dict[str, float | None] = {
        name: None
        for name in single_coordinate_joints(model)
        if np.ptp(samples.q[:, model.idx_q[model.joint_names.index(name)]]) < MIN_TRAVEL
    }
    return unmoved if len(unmoved) < len(independent_joint_indices(model)) else {}


def _recorded_positions(
    table: Table, columns: Columns, name: str, since: Moment | None, until: Moment | None
) -> Array:
    """Return the positions of a joint in an interval of a table."""
    with name_file_in_errors(table):
        (positions,), time, _ = columns.read_with_time(columns.find_columns("position", [name]))
        rows = interval_mask(since, until, time)
    return positions[rows & (np.abs(positions[:, 0]) < MAX_MEASUREMENT), 0]


def _locked_positions(
    model: Model,
    joints: Mapping[str, float | None],
    recorded: Mapping[str, Array],
    reason: str = "its mean",
) -> tuple[dict[str, float], list[str]]:
    """Return positions at which joints are locked, and warnings.

    ``reason`` explains the positions that are not given.
    """
    groups: dict[str, dict[str, float]] = {}
    motion_warnings = []
    for name, position in joints.items():
        values, explanation = recorded[name], "as given"
        if position is None:
            explanation = reason if len(values) else "no positions"
            position = values.mean() if len(values) else _nearest_to_zero(model, name)
        position = float(position)
        groups.setdefault(explanation, {})[name] = position
        if np.abs(values - position).max(initial=0.0) > MIN_TRAVEL:
            motion_warnings.append(
                f"{name}: locked at {position:.4g}, but recorded from {values.min():.4g} to "
                f"{values.max():.4g}; the model lacks this motion, so leave the joint free, or "
                "lock it where it was"
            )
    positions = {name: x for group in groups.values() for name, x in group.items()}
    return positions, [
        *(_lock_warning(group, explanation) for explanation, group in groups.items()),
        *motion_warnings,
    ]


def _lock_at(model: Model, positions: Mapping[str, float]) -> Model:
    """Return the robot with joints locked at positions; raise a ValueError if none remains."""
    reduced = model.reduced(positions)
    if not reduced.nv:
        raise ValueError(
            "lock: no joint remains that moves; expected positions and efforts of at "
            f"least one of the joints {', '.join(model.joint_names)}"
        )
    return reduced


def _nearest_to_zero(model: Model, name: str) -> float:
    """Return the position of a joint within its limits that is nearest to zero."""
    k = model.idx_q[model.joint_names.index(name)]
    return float(np.clip(0.0, model.lower[k], model.upper[k]))


def _lock_warning(positions: Mapping[str, float], reason: str) -> str:
    """Return a warning that names locked joints."""
    return f"locked: {', '.join(f'{name} = {x:.4g}' for name, x in positions.items())} ({reason})"
