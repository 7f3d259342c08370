# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Functions that read recordings of any format: bags, tables, and columns in memory."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from os import PathLike
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ..engine.kernel.types import Array
from ..engine.model.model import Model, RootJoint
from ..engine.model.moments import Moment
from ..files.limits import MAX_CHUNK_SIZE
from ..states.joint_states import STALENESS, States, base_kind
from .formats.sources import open_source
from .formats.spans import qualify_damage
from .options import ReadOptions, Robot
from .part import ByteProgress, read_part
from .plan import Base, Part, divide_part
from .recording import Recording, rate_mask
from .selection import select_part
from .tables.columns import Columns
from .tables.files import Table
from .tables.row_selection import find_complete_rows, select_interval
from .tables.times import NO_TIME, Clock, StampCheck, limit_stamps


def read(
    path: str | PathLike[str],
    robot: Robot = None,
    *,
    topics: str | Iterable[str] | None = None,
    odometry: str | None = None,
    since: Moment | None = None,
    until: Moment | None = None,
    joints: Sequence[str] = (),
    rate: float | None = None,
    staleness: float = STALENESS,
    root_joint: RootJoint = None,
    base: Base | None = None,
    max_chunk_size: float = MAX_CHUNK_SIZE,
    progress: ByteProgress | None = None,
) -> Recording:
    """Read a recording into memory.

    Messages become states by the rules of the nodes: joints are matched by name, several
    publishers are merged, a state is complete if no joint is more than the staleness behind the
    newest. What the nodes reject is left out, and mentioned in the warnings.

    Parameters
    ----------
    path : str or PathLike
        A file ``.mcap``, ``.db3``, ``.bag``, ``.csv`` or ``.parquet``, or the folder of a rosbag2.
    robot : Model, or path of a URDF, optional
        Default: the description in the recording; without one, the columns have the names in the
        messages.
    topics : str or iterable of str, optional
        Of joint states. Default: all whose last part is ``joint_states``; without one, all whose
        last part is ``dynamic_joint_states``.
    odometry : str, optional
        Of a floating or planar base. Default: the topic whose last part is ``odom`` or
        ``odometry``.
    since, until : float, str or datetime, optional
        Read this interval: seconds since 1970, an ISO date, in UTC unless it states its zone, or
        ``"+S"``: seconds after the start of the recording.
    joints : sequence of str
        Return only the columns of these joints, in this order.
    rate : float, optional
        Largest number of states per second, which are selected, not resampled.
    staleness : float
        Largest difference between stamps within one state [s].
    root_joint : None, "floating" or "planar"
        How the root link of a URDF moves in the world.
    base : tuple of two sequences, optional
        Constant pose (x y z qx qy qz qw) and twist of a base that moves, instead of odometry.
    max_chunk_size : float
        Largest size of a chunk, or of a message outside chunks [bytes, uncompressed]; larger ones
        are skipped. Reading takes several times as much memory.
    progress : callable, optional
        Called as ``progress(read, total)`` with numbers of bytes.

    Raises
    ------
    ValueError
        No recording, no topic of joint states, no joint of the robot in it (names the joints of
        both), two topics that report the same joint, or an argument that is not understood.
    OSError
        The file cannot be read.
    ImportError
        A package for this kind of file is missing.

    Examples
    --------
    >>> states = dyn_ros.logs.read(recording_file, model)
    >>> len(states), states.q.shape
    (2000, (2000, 7))
    """
    rate_mask(np.zeros(0, np.int64), rate)  # raises a ValueError for a rate that is not valid
    if isinstance(robot, Model) and root_joint is not None:
        raise ValueError(f"root_joint: expected None for a Model, got {root_joint!r}")
    options = ReadOptions(
        robot,
        topics,
        odometry,
        joints,
        since,
        until,
        staleness,
        root_joint,
        base,
        max_chunk_size=max_chunk_size,
    )
    return read_as_messages(path, options, rate, progress)


def read_as_messages(
    path: str | PathLike[str],
    options: ReadOptions,
    rate: float | None = None,
    progress: ByteProgress | None = None,
) -> Recording:
    """Read the states of a bag or a table, whose rows are read as messages; see `read`.

    ``rate`` is the largest number of states per second; None keeps all.
    """
    source = open_source(path, max_chunk_size=options.max_chunk_size)
    part = select_part(source, options)
    recording = read_part(next(iter(divide_part(part, math.inf)), part), progress).thinned(rate)
    problems = recording.problems
    if source.damage:
        problems = f"the recording {qualify_damage(source.damage, problems)}", *problems
    return replace(recording, problems=problems)


# --- tables


def read_table(
    model: Model,
    table: Table,
    *,
    columns: Mapping[str, str] | None = None,
    velocity: bool = False,
    since: Moment | None = None,
    until: Moment | None = None,
    max_chunk_size: float = MAX_CHUNK_SIZE,
) -> Recording:
    """Read a table row by row, each as a state; the arguments are as for `Samples`.

    Velocities are NaN unless ``velocity``. Efforts of joints with several coordinates may be
    missing; they are 0. Rows that lack a number are left out, with a warning. Raise a ValueError
    for columns that are missing or no numbers, for stamps that cannot be times, or if no row is in
    the interval.
    """
    source = Columns(table, model, columns, max_chunk_size=max_chunk_size)
    multiple_coordinates = {
        name
        for start, count in zip(model.idx_v, model.nvs)
        if count > 1
        for name in model.velocity_names[start : start + count]
    }
    if not all(source.has_signal("position", name) for name in model.position_names):
        base_kind(model)  # raises an error for a moving base within the description
    position = source.find_columns("position", model.position_names)
    rates = source.find_columns("velocity", model.velocity_names) if velocity else []
    effort = source.find_columns("effort", model.velocity_names, multiple_coordinates)
    frames = tuple(dict.fromkeys(source.owners("in_contact")))
    groups: list[Sequence[str | None]] = [
        position,
        rates,
        effort,
        source.find_columns("in_contact", frames),
    ]
    arrays, time, clock = source.read_with_time(*groups)
    is_complete, warning = find_complete_rows(
        [*zip(groups, arrays), (clock.names[:1], time[:, None])], len(time)
    )
    if is_complete is not None:
        arrays, time = [array[is_complete] for array in arrays], time[is_complete]
    stamp = _to_stamps(time)
    _check_stamps(clock, time, stamp)
    q, v, tau, in_contact, stamp, time = select_interval(since, until, time, *arrays, stamp)
    path = str(table) if isinstance(table, (str, PathLike)) else ""
    stamp[stamp == NO_TIME] = 0  # corrupt
    behind = np.broadcast_to(np.int64(0), stamp.shape)
    if not velocity:
        v = np.broadcast_to(np.nan, tau.shape)
    return Recording(
        Part(path, Path(path).stem, model),
        States(stamp, stamp, q, v, tau, behind),
        problems=(
            *source.warn_of_unknown_joints(model),
            *filter(None, [warning, clock.note]),
        ),
        contacts=frames,
        in_contact=in_contact if frames else None,
        table_time=time,
    )


def _check_stamps(clock: Clock, time: Array, stamps: NDArray[np.int64]) -> None:
    """Raise a ValueError if times [s] and stamps [ns] cannot belong to the rows."""
    check = StampCheck(clock)
    usable = stamps[stamps != NO_TIME]
    if 2 * len(usable) < len(stamps):
        first = float(time[stamps == NO_TIME][0])
        raise ValueError(
            f"time: expected stamps in s, got {first:.6g} in the column {clock.names[0]!r}"
        )
    check.add(usable)
    if error := check.error():
        raise ValueError(error)


def _to_stamps(time: Array) -> NDArray[np.int64]:
    """Return times [s] as stamps [ns], or NO_TIME."""
    return limit_stamps(np.round(1e9 * time))
