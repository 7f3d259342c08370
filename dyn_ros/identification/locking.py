# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Joints that are locked for an identification: those that were not recorded, or do not move."""

from __future__ import annotations

import copy
import dataclasses
import difflib
from collections.abc import Collection, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..engine.kernel.types import Array
from ..engine.model.drives import LARGEST
from ..engine.model.inputs import require_model
from ..engine.model.model import Model
from ..engine.model.moments import Moment
from ..recordings.tables.columns import Columns, Table, errors_of, known_names
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
    require_model(model)
    sources = []
    for table in tables:
        with errors_of(table):
            sources.append(Columns(table, model, columns))
    given = dict(lock or {})
    for name in given:
        _require_single(model, name)
    incomplete = {
        name: x
        for name, x in given.items()
        if not all(
            source.has(signal, name) for source in sources for signal in ("position", "effort")
        )
    }
    arm, warnings = lock_in_tables(
        model, [*zip(tables, sources)], incomplete, options.get("since"), options.get("until")
    )
    samples = []
    for table, source in zip(tables, sources):
        with errors_of(table):
            own = None if columns is None else source.given
            samples.append(Samples.from_table(arm, table, columns=own, **options))
    joined = concatenated(samples, tables)
    joined = dataclasses.replace(joined, warnings=(*warnings, *joined.warnings))
    given = {name: x for name, x in given.items() if name in arm.joint_names}
    locked = lock_joints(arm, joined, given)
    return lock_joints(*locked) if lock_still else locked


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


def lock_in_tables(
    model: Model,
    sources: Sequence[tuple[Table, Columns]],
    joints: Mapping[str, float | None],
    since: Moment | None = None,
    until: Moment | None = None,
) -> tuple[Model, tuple[str, ...]]:
    """The robot without joints that are given, or have no columns in any table, and warnings."""
    arm, warnings = without_unrecorded(
        model,
        {
            owner
            for _, source in sources
            for signal in ("position", "effort")
            for owner in source.owners(signal)
        },
        joints,
    )
    left = {name: x for name, x in joints.items() if name in arm.joint_names}
    positions, more = _places(
        arm,
        left,
        {
            name: np.concatenate(
                [
                    np.zeros(0),
                    *(
                        _recorded(table, source, name, since, until)
                        for table, source in sources
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
    absent = [name for name in _single(model) if name not in ends]
    locked = {}
    for name in absent if len(absent) < len(_single(model)) else ():
        if not difflib.get_close_matches(name, unknown, 1, 0.8):
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


def _single(model: Model) -> list[str]:
    """The joints with one coordinate of their own."""
    return [name for name, nq, nv in zip(model.joint_names, model.nqs, model.nvs) if nq == nv == 1]


def _require_single(model: Model, name: str) -> None:
    if name not in (single := _single(model)):
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
        for name in _single(model)
        if np.ptp(samples.q[:, model.idx_q[model.joint_names.index(name)]]) < STUCK
    }
    return still if len(still) < sum(count > 0 for count in model.nvs) else {}


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
