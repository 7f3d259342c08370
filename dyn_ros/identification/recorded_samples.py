# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Reading of recordings of any kind into samples of one robot."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

from ..engine.kernel.names import join_names
from ..engine.kernel.validation import require_model
from ..engine.model.model import Model
from ..recordings.formats import is_table
from ..recordings.formats.sources import open_source
from ..recordings.formats.spans import Source
from ..recordings.options import ReadOptions
from ..recordings.reading import read_as_messages
from ..recordings.tables.columns import Columns, name_file_in_errors
from ..recordings.tables.files import Table
from .locking import lock_joints, lock_unrecorded, require_single_coordinate
from .samples import Samples


def read_tables(
    model: Model,
    tables: Sequence[Table],
    *,
    lock: Mapping[str, float | None] | None = None,
    lock_still: bool = True,
    columns: Mapping[str, str] | None = None,
    **options: Any,
) -> tuple[Model, Samples]:
    """Prepare recordings of one robot from tables, and lock joints that did not move.

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
        Lock joints whose positions do not change.
    columns
        See ``Samples.from_table``; joints are numbered before any is locked.
    options
        Further options of ``Samples.from_table``.

    Returns
    -------
    Model, Samples
        See ``lock_joints``.

    Raises
    ------
    ValueError
        See ``Samples.from_table`` and ``lock_joints``; the message begins with the file's name.
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
    return _read_and_lock(
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
    read_options: ReadOptions,
    *,
    lock: Mapping[str, float | None] | None = None,
    lock_still: bool = True,
    cutoff: float | None = None,
    velocity: bool = False,
) -> tuple[Model, Samples]:
    """Prepare recordings of any kind as samples of one robot, and lock joints.

    Returns the robot without locked joints, and its samples; see ``read_tables``.
    """
    return _read_and_lock(
        model,
        [(path, read_options.columns.get(path)) for path in paths],
        read_options,
        lock or {},
        lock_still,
        dict(cutoff=cutoff, velocity=velocity),
    )


def _read_and_lock(
    model: Model,
    recordings_and_columns: Sequence[tuple[Table, Mapping[str, str] | None]],
    read_options: ReadOptions,
    lock: Mapping[str, float | None],
    lock_still: bool,
    options: Mapping[str, Any],
) -> tuple[Model, Samples]:
    """Read recordings, each with other names of its columns, and lock joints; see ``read_tables``.

    ``options`` are of ``Samples.from_table`` and ``Samples.from_recording``.
    """
    require_model(model)
    for name in lock:
        require_single_coordinate(model, name)
    opened_recordings = [
        _open_recording(recording, model, columns, read_options)
        for recording, columns in recordings_and_columns
    ]
    incomplete = {
        name: x
        for name, x in lock.items()
        if not all(
            isinstance(opened, Columns) and opened.has_signal(signal, name)
            for opened in opened_recordings
            for signal in ("position", "effort")
        )
    }
    recordings = [recording for recording, _ in recordings_and_columns]
    locked_model, warnings = lock_unrecorded(
        model, [*zip(recordings, opened_recordings)], incomplete, read_options
    )
    samples = concatenate_recordings(
        [
            read_samples(
                locked_model,
                recording,
                read_options,
                opened.renamed_columns if columns and isinstance(opened, Columns) else None,
                **options,
            )
            for (recording, columns), opened in zip(recordings_and_columns, opened_recordings)
        ],
        recordings,
    )
    samples = dataclasses.replace(samples, warnings=(*warnings, *samples.warnings))
    remaining = {name: x for name, x in lock.items() if name in locked_model.joint_names}
    model_and_samples = lock_joints(locked_model, samples, remaining)
    return lock_joints(*model_and_samples) if lock_still else model_and_samples


def _open_recording(
    recording: Table,
    model: Model,
    columns: Mapping[str, str] | None,
    read_options: ReadOptions,
) -> Columns | Source:
    """Open a table, or another recording as a source of messages."""
    with name_file_in_errors(recording):
        if isinstance(recording, (str, PathLike)) and not is_table(Path(recording)):
            return open_source(recording, max_chunk_size=read_options.max_chunk_size)
        return Columns(recording, model, columns, max_chunk_size=read_options.max_chunk_size)


def read_samples(
    model: Model,
    recording: Table,
    read_options: ReadOptions,
    columns: Mapping[str, str] | None = None,
    **options: Any,
) -> Samples:
    """Read and prepare one recording; errors name its file."""
    with name_file_in_errors(recording):
        if isinstance(recording, (str, PathLike)) and not is_table(Path(recording)):
            read_options = dataclasses.replace(read_options, robot=model)
            messages = read_as_messages(recording, read_options)
            return Samples.from_recording(model, messages, **options)
        return Samples.from_table(
            model,
            recording,
            columns=columns,
            since=read_options.since,
            until=read_options.until,
            max_chunk_size=read_options.max_chunk_size,
            **options,
        )


def concatenate_recordings(samples: Sequence[Samples], recordings: Sequence[Table]) -> Samples:
    """Join the samples of recordings of one robot; warnings about some of them name their files."""
    names = [
        Path(recording).name if isinstance(recording, (str, PathLike)) else f"table {n + 1}"
        for n, recording in enumerate(recordings)
    ]
    names_by_warning: dict[str, list[str]] = {}
    for name, recording_samples in zip(names, samples):
        for text in dict.fromkeys(recording_samples.warnings):
            names_by_warning.setdefault(text, []).append(name)
    return dataclasses.replace(
        Samples.concatenate(samples),
        warnings=tuple(
            text if len(affected) == len(names) else f"{text} (in {join_names(affected, most=3)})"
            for text, affected in names_by_warning.items()
        ),
    )


def lock_unrecorded_joints(
    model: Model,
    paths: Sequence[Path],
    read_options: ReadOptions,
    lock: Mapping[str, float | None] | None = None,
) -> tuple[Model, tuple[str, ...]]:
    """Lock joints that are named in ``lock`` or in no recording; return the robot and warnings.

    Opens the recordings, and reads messages at their start.
    """
    for name in lock or {}:
        require_single_coordinate(model, name)
    opened = [
        (path, _open_recording(path, model, read_options.columns.get(path), read_options))
        for path in paths
    ]
    return lock_unrecorded(model, opened, lock or {}, read_options)
