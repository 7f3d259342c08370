# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Joints that are locked for an identification: those that were not recorded, or do not move."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Collection, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from ..engine.kernel.names import similar
from ..engine.kernel.types import Array
from ..engine.kernel.validation import require_model
from ..engine.model.coordinates import own_joints, single_joints
from ..engine.model.drives import LARGEST
from ..engine.model.model import Model
from ..engine.model.moments import Moment
from ..recordings.formats.spans import Source
from ..recordings.options import ReadOptions
from ..recordings.selection import reported_joints
from ..recordings.tables.columns import Columns, errors_of, known_names
from ..recordings.tables.files import Table
from ..recordings.tables.rows import rows_within
from .motion.numerics import MIN_TRAVEL
from .samples import Samples


def lock_joints(
    model: Model, samples: Samples, joints: Mapping[str, float | None] | None = None
) -> tuple[Model, Samples]:
    """Lock joints of a robot and of its recording.

    A joint that does not move, such as a finger, adds parameters that the recording does not
    determine. Locked, its body is a part of the one that carries it. The parameters that are
    identified for the smaller robot can be written to the description of the whole one, by
    ``Identification.write_urdf``: locked links keep their inertias.

    Parameters
    ----------
    model : Model
    samples : Samples
        Of this robot.
    joints : dict of str to float or None, optional
        By name, positions of joints with one coordinate [rad, m]; None: the mean of the recording.
        By default, joints that move by less than 0.001 rad or m, at their mean. A root joint is
        not among them.

    Returns
    -------
    Model
        See ``Model.reduced``.
    Samples
        Of this model. A warning names the joints that were locked, if any.

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
            f"samples: expected dyn_ros.Samples, got {type(samples).__name__}: {samples!r:.80}"
        )
    reason = "its mean"
    if joints is None:
        joints, reason = _still(require_model(model), samples), "does not move"
    if not joints:
        return model, samples
    if samples.f_ext is not None:
        raise ValueError(
            "samples: joints of a recording with external forces cannot be locked; "
            "create it with the model from Model.reduced"
        )
    for name in joints:
        require_single(model, name)
    positions, warnings = _places(
        model,
        joints,
        {name: samples.q[:, model.idx_q[model.joint_names.index(name)]] for name in joints},
        reason,
    )
    reduced = _reduced(model, positions)
    q, v = remaining_coordinates(model, reduced)
    noise = samples.motion_noise
    return reduced, dataclasses.replace(
        samples,
        q=samples.q[:, q],
        v=samples.v[:, v],
        a=samples.a[:, v],
        tau=samples.tau[:, v],
        motion_noise=None if noise is None else noise[:, v],
        warnings=(*samples.warnings, *warnings),
    )


def lock_unrecorded(
    model: Model,
    recordings: Sequence[tuple[Table, Columns | Source]],
    joints: Mapping[str, float | None],
    read: ReadOptions,
) -> tuple[Model, tuple[str, ...]]:
    """The robot without joints that are given, or are in no recording, and warnings."""
    recorded: set[str] = set()
    tables: list[tuple[Table, Columns]] = []
    for recording, source in recordings:
        if isinstance(source, Columns):
            tables.append((recording, source))
            recorded |= {*source.owners("position"), *source.owners("effort")}
        elif source.spans:
            recorded |= reported_joints(source, model, read.topics)
    arm, warnings = without_unrecorded(model, recorded, joints)
    left = {name: x for name, x in joints.items() if name in arm.joint_names}
    positions, more = _places(
        arm,
        left,
        {
            name: np.concatenate(
                [
                    np.zeros(0),
                    *(
                        _recorded(table, source, name, read.since, read.until)
                        for table, source in tables
                        if source.has("position", name)
                    ),
                ]
            )
            for name in left
        },
    )
    return _reduced(arm, positions) if positions else arm, (*warnings, *more)


def without_unrecorded(
    model: Model, recorded: Collection[str], positions: Mapping[str, float | None]
) -> tuple[Model, tuple[str, ...]]:
    """The robot without joints of which nothing was recorded, and a warning that names them.

    They are locked at the given positions, or at 0 or the nearest limit. None is if nothing was
    recorded of all joints; and none whose name is similar to what was recorded of no joint.
    """
    ends = {*recorded, *(name.rpartition("/")[2] for name in recorded)}
    unknown = sorted(ends - known_names(model))
    absent = [name for name in single_joints(model) if name not in ends]
    locked = {}
    for name in absent if len(absent) < len(single_joints(model)) else ():
        if not similar(name, unknown, 1, 0.8):
            position = positions.get(name)
            locked[name] = _nearest_to_zero(model, name) if position is None else position
    return (_reduced(model, locked), (_line(locked, "no columns"),)) if locked else (model, ())


def with_drives(model: Model, reduced: Model) -> Model:
    """A robot with the drives, rotor inertias and friction of one in which joints are locked."""
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
    """The positions and velocities of a robot that remain when some of its joints are locked."""
    own = [model.joint_names.index(name) for name in reduced.joint_names]
    q, v = (
        np.concatenate([np.arange(start[i], start[i] + count[i]) for i in own])
        for start, count in ((model.idx_q, model.nqs), (model.idx_v, model.nvs))
    )
    return q, v


def require_single(model: Model, name: str) -> None:
    if name not in (single := single_joints(model)):
        raise ValueError(
            f"lock: no joint {name!r:.80} that moves by itself, with one coordinate; "
            f"available: {', '.join(single)}"
        )


def _still(model: Model, samples: Samples) -> dict[str, float | None]:
    """The joints that do not move, unless no joint does."""
    if samples.f_ext is not None:
        return {}
    still: dict[str, float | None] = {
        name: None
        for name in single_joints(model)
        if np.ptp(samples.q[:, model.idx_q[model.joint_names.index(name)]]) < MIN_TRAVEL
    }
    return still if len(still) < len(own_joints(model)) else {}


def _recorded(
    table: Table, source: Columns, name: str, since: Moment | None, until: Moment | None
) -> Array:
    """The positions of a joint in an interval of a table."""
    with errors_of(table):
        positions, time = source.read(source.signal("position", [name]), source.time())
        rows = rows_within(since, until, time[:, 0])
    return positions[rows & (np.abs(positions[:, 0]) < LARGEST), 0]


def _places(
    model: Model,
    joints: Mapping[str, float | None],
    recorded: Mapping[str, Array],
    reason: str = "its mean",
) -> tuple[dict[str, float], list[str]]:
    """Where joints are locked, and warnings: those without a position are so for this reason."""
    groups: dict[str, dict[str, float]] = {}
    moves = []
    for name, position in joints.items():
        own, why = recorded[name], "as given"
        if position is None:
            why = reason if len(own) else "no positions"
            position = own.mean() if len(own) else _nearest_to_zero(model, name)
        position = float(position)
        groups.setdefault(why, {})[name] = position
        if np.abs(own - position).max(initial=0.0) > MIN_TRAVEL:
            moves.append(
                f"{name}: locked at {position:.4g}, but recorded from {own.min():.4g} to "
                f"{own.max():.4g}; the model lacks this motion, so leave the joint free, or lock "
                "it where it was"
            )
    positions = {name: x for group in groups.values() for name, x in group.items()}
    return positions, [*(_line(group, why) for why, group in groups.items()), *moves]


def _reduced(model: Model, positions: Mapping[str, float]) -> Model:
    reduced = model.reduced(positions)
    if not reduced.nv:
        raise ValueError(
            "lock: no joint remains that moves; expected positions and efforts of at "
            f"least one of the joints {', '.join(model.joint_names)}"
        )
    return reduced


def _nearest_to_zero(model: Model, name: str) -> float:
    k = model.idx_q[model.joint_names.index(name)]
    return float(np.clip(0.0, model.lower[k], model.upper[k]))


def _line(positions: Mapping[str, float], reason: str) -> str:
    return f"locked: {', '.join(f'{name} = {x:.4g}' for name, x in positions.items())} ({reason})"
