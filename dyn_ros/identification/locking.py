# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Joints that are locked for an identification: those that were not recorded, or do not move."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Collection, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..engine.kernel.arguments import require_model
from ..engine.kernel.names import similar
from ..engine.kernel.types import Array
from ..engine.model.coordinates import own_joints, single_joints
from ..engine.model.drives import LARGEST
from ..engine.model.model import Model
from ..engine.model.moments import Moment
from ..recordings.formats import is_table
from ..recordings.formats.sources import open_source
from ..recordings.formats.spans import Source
from ..recordings.options import ReadOptions
from ..recordings.reading import read_bag
from ..recordings.selection import reported_joints
from ..recordings.tables.columns import Columns, errors_of, known_names
from ..recordings.tables.files import Table
from ..recordings.tables.rows import rows_within
from .motion.preparation import STUCK
from .samples import Samples

_NAMED = 3  # recordings in a warning


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
        _require_single(model, name)
    positions, warnings = _places(
        model,
        joints,
        {name: samples.q[:, model.idx_q[model.joint_names.index(name)]] for name in joints},
        reason,
    )
    reduced = _reduced(model, positions)
    q, v = remaining(model, reduced)
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


def read_tables(
    model: Model,
    tables: Sequence[Table],
    *,
    lock: Mapping[str, float | None] | None = None,
    lock_still: bool = True,
    columns: Mapping[str, str] | None = None,
    **options: Any,
) -> tuple[Model, Samples]:
    """Prepare recordings of one robot from tables, with joints locked that did not move.

    These are the joints with neither positions nor efforts in the tables, at 0 or the nearest
    limit, and those whose positions remain the same; see ``lock_joints``. Joints that are given
    need no efforts, and no positions if they have one.

    Parameters
    ----------
    model : Model
    tables : sequence of str, PathLike, or Mapping of str to (B,) array_like
    lock : dict of str to float or None, optional
        More joints to lock, as for ``lock_joints``.
    lock_still : bool
        Whether to lock joints whose positions remain the same.
    columns
        As for ``Samples.from_table``; joints are numbered before any is locked.
    options
        Other ones of ``Samples.from_table``.

    Returns
    -------
    Model, Samples
        As of ``lock_joints``.

    Raises
    ------
    ValueError
        As ``Samples.from_table``, after the name of the file, and ``lock_joints``.
    OSError
        A file cannot be read.

    Examples
    --------
    >>> table = {"time": recording.time}
    >>> for k, name in enumerate(model.joint_names[:4]):
    ...     table |= {f"position.{name}": recording.q[:, k], f"effort.{name}": recording.tau[:, k]}
    >>> arm, samples = dyn_ros.read_tables(model, [table])
    >>> arm.nv, samples.warnings[0]
    (4, 'locked: forearm_roll = 0, wrist_pitch = 0, wrist_roll = 0 (no columns)')
    """
    interval = {name: options.pop(name, None) for name in ("since", "until")}
    return _read(
        model,
        [(table, columns) for table in tables],
        ReadOptions(**interval),
        lock or {},
        lock_still,
        options,
    )


def read_recordings(
    model: Model,
    paths: Sequence[Path],
    read: ReadOptions,
    *,
    lock: Mapping[str, float | None] | None = None,
    lock_still: bool = True,
    cutoff: float | None = None,
    velocity: bool = False,
) -> tuple[Model, Samples]:
    """Prepare recordings of any kind, see ``read_tables``; of bags, what is locked is reported."""
    return _read(
        model,
        [(path, read.columns.get(path)) for path in paths],
        read,
        lock or {},
        lock_still,
        dict(cutoff=cutoff, velocity=velocity),
    )


def _read(
    model: Model,
    recordings: Sequence[tuple[Table, Mapping[str, str] | None]],
    read: ReadOptions,
    lock: Mapping[str, float | None],
    lock_still: bool,
    options: Mapping[str, Any],
) -> tuple[Model, Samples]:
    """Read recordings, each with its columns that have other names."""
    require_model(model)
    for name in lock:
        _require_single(model, name)
    opened = [_opened(table, model, columns) for table, columns in recordings]
    incomplete = {
        name: x
        for name, x in lock.items()
        if not all(
            isinstance(source, Columns) and source.has(signal, name)
            for source in opened
            for signal in ("position", "effort")
        )
    }
    names = [table for table, _ in recordings]
    arm, warnings = lock_unrecorded(model, [*zip(names, opened)], incomplete, read)
    samples = concatenated(
        [
            read_samples(
                arm,
                table,
                read,
                source.given if columns and isinstance(source, Columns) else None,
                **options,
            )
            for (table, columns), source in zip(recordings, opened)
        ],
        names,
    )
    samples = dataclasses.replace(samples, warnings=(*warnings, *samples.warnings))
    left = {name: x for name, x in lock.items() if name in arm.joint_names}
    locked = lock_joints(arm, samples, left)
    return lock_joints(*locked) if lock_still else locked


def _opened(recording: Table, model: Model, columns: Mapping[str, str] | None) -> Columns | Source:
    if isinstance(recording, (str, PathLike)) and not is_table(Path(recording)):
        return open_source(recording)
    with errors_of(recording):
        return Columns(recording, model, columns)


def read_samples(
    model: Model,
    recording: Table,
    read: ReadOptions,
    columns: Mapping[str, str] | None = None,
    **options: Any,
) -> Samples:
    """Read and prepare one recording; errors name its file."""
    with errors_of(recording):
        if isinstance(recording, (str, PathLike)) and not is_table(Path(recording)):
            found = read_bag(recording, dataclasses.replace(read, robot=model))
            return Samples.from_recording(model, found, **options)
        return Samples.from_table(
            model, recording, columns=columns, since=read.since, until=read.until, **options
        )


def concatenated(samples: Sequence[Samples], sources: Sequence[Table]) -> Samples:
    """Recordings of one robot as one; a warning about some of them names their files."""
    names = [
        Path(source).name if isinstance(source, (str, PathLike)) else f"table {n + 1}"
        for n, source in enumerate(sources)
    ]
    found: dict[str, list[str]] = {}
    for name, one in zip(names, samples):
        for text in dict.fromkeys(one.warnings):
            found.setdefault(text, []).append(name)
    return dataclasses.replace(
        Samples.concatenate(samples),
        warnings=tuple(
            text if len(own) == len(names) else f"{text} (in {_some(own)})"
            for text, own in found.items()
        ),
    )


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more


def recorded_robot(
    model: Model, paths: Sequence[Path], read: ReadOptions
) -> tuple[Model, tuple[str, ...]]:
    """The robot without joints that no recording contains, and a warning that names them."""
    opened = [(path, _opened(path, model, read.columns.get(path))) for path in paths]
    return lock_unrecorded(model, opened, {}, read)


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
    rows, robot = remaining(model, reduced)[1], copy.copy(model)
    for name in ("armature", "damping", "friction"):
        values = getattr(model, name).copy()
        values[rows] = getattr(reduced, name)
        setattr(robot, name, values)
    robot.drives = model.drives.put(rows.tolist(), reduced.drives)
    return robot


def remaining(model: Model, reduced: Model) -> tuple[NDArray[np.int_], NDArray[np.int_]]:
    """The positions and velocities of a robot that remain when some of its joints are locked."""
    own = [model.joint_names.index(name) for name in reduced.joint_names]
    q, v = (
        np.concatenate([np.arange(start[i], start[i] + count[i]) for i in own])
        for start, count in ((model.idx_q, model.nqs), (model.idx_v, model.nvs))
    )
    return q, v


def _require_single(model: Model, name: str) -> None:
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
        if np.ptp(samples.q[:, model.idx_q[model.joint_names.index(name)]]) < STUCK
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
        if np.abs(own - position).max(initial=0.0) > STUCK:
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
