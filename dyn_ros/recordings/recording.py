# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""A recording as arrays: positions, velocities and efforts over time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..engine.kernel.types import Array
from ..engine.model.model import Model, RootJoint
from ..engine.model.moments import Moment
from ..states.joint_states import STALENESS, Note, abbreviated
from .formats.sources import open_source
from .part import PartStates, Progress, read_part
from .plan import Part
from .selection import Base, Request, Robot, Selection, prepared
from .tables.rows import GAP

if TYPE_CHECKING:
    import pandas
    import pyarrow

    from .. import Samples


@dataclass(frozen=True, eq=False, repr=False)
class Recording:
    """The states of a robot, in the order in which they were recorded.

    Returned by ``read``, and passed to the function of ``map``.

    Attributes
    ----------
    name : str
        Of the file without its suffix, or of the folder.
    path : str
    position_names : tuple of str, length nq
        Of the columns of q: joints; for a base that moves, such as ``root_joint/qw``.
    velocity_names : tuple of str, length nv
        Of the columns of v and effort.
    stamp : (n,) ndarray of int64
        The newest stamp in each state [ns], since 1970 or the start of a simulation.
    q : (n, nq) ndarray
        Positions [rad, m].
    v, effort : (n, nv) ndarray
        Velocities [rad/s, m/s] and efforts as recorded [N m, N, or the unit of the drives]; NaN
        where they are unknown.
    model : Model or None
        The robot; None if the recording has no description and none was passed.
    warnings : tuple of str
        What is wrong with the recording but does not make it unusable.
    gaps : tuple of (float, float)
        Times of the states before and after each gap, or jump back, of the stamps [s].

    Examples
    --------
    The gravity torques of ten seconds of a recording:

    >>> states = dyn_ros.logs.read(recording_file, model, since="+5", until="+15")
    >>> dyn_ros.generalized_gravity(model, data, states.q).shape == states.effort.shape
    True
    """

    name: str
    path: str
    position_names: tuple[str, ...]
    velocity_names: tuple[str, ...]
    stamp: NDArray[np.int64]
    q: Array
    v: Array
    effort: Array
    model: Model | None = None
    warnings: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.stamp)

    def __repr__(self) -> str:
        duration = 1e-9 * int(self.stamp[-1] - self.stamp[0]) if len(self) else 0.0
        return (
            f"Recording({self.name!r}, {len(self)} states, {duration:.6g} s, "
            f"nq={len(self.position_names)}, nv={len(self.velocity_names)})"
        )

    @property
    def time(self) -> Array:
        """The stamps as a new array, (n,) [s]."""
        return np.multiply(1e-9, self.stamp, dtype=float)

    @property
    def gaps(self) -> tuple[tuple[float, float], ...]:
        """Times before and after each gap or jump back [s]."""
        steps = np.diff(self.stamp)
        ahead = steps[steps > 0]
        longest = GAP * np.median(ahead) if len(ahead) else np.inf
        before = np.flatnonzero((steps < 0) | (steps > longest))
        return tuple(zip(self.time[before].tolist(), self.time[before + 1].tolist()))

    def take(self, rows: slice | NDArray[Any] | Sequence[int]) -> Recording:
        """Return some of the states.

        Parameters
        ----------
        rows : slice, or ndarray of int or bool
            A slice returns views of the same arrays.
        """
        arrays: dict[str, Any] = {
            field.name: value[rows]
            for field in fields(self)
            if isinstance(value := getattr(self, field.name), np.ndarray)
        }
        return replace(self, **arrays)

    def columns(self) -> dict[str, NDArray[Any]]:
        """Return all columns by name.

        Returns
        -------
        dict of str to (n,) ndarray
            ``time`` [s], ``stamp`` [ns], ``position.NAME``, ``velocity.NAME`` and ``effort.NAME``:
            a table that ``Samples.from_table`` reads.
        """
        columns: dict[str, NDArray[Any]] = {"time": self.time, "stamp": self.stamp}
        for signal, names, values in (
            ("position", self.position_names, self.q),
            ("velocity", self.velocity_names, self.v),
            ("effort", self.velocity_names, self.effort),
        ):
            columns |= {f"{signal}.{name}": values[:, k] for k, name in enumerate(names)}
        return columns

    def to_arrow(self) -> pyarrow.Table:
        """Return the columns as a table of Arrow.

        Raises
        ------
        ImportError
            pyarrow is not installed.
        """
        try:
            import pyarrow
        except ImportError:
            raise ImportError('to_arrow requires pyarrow: pip install "dyn_ros[logs]"') from None
        return pyarrow.table(self.columns())

    def to_pandas(self) -> pandas.DataFrame:
        """Return the columns as a table of pandas.

        Raises
        ------
        ImportError
            pandas is not installed.
        """
        try:
            import pandas
        except ImportError:
            raise ImportError("to_pandas requires pandas: pip install pandas") from None
        return pandas.DataFrame(self.columns())

    def to_samples(
        self, model: Model | None = None, cutoff: float | None = None, velocity: bool = False
    ) -> Samples:
        """Prepare the recording for identification.

        Parameters
        ----------
        model : Model, optional
            With the same coordinates; default: that of the recording.
        cutoff : float, optional
            See ``Samples.from_arrays``.
        velocity : bool
            See ``Samples.from_recording``.

        Raises
        ------
        ValueError
            Without a model, columns of it are missing, an effort is never known, or as for
            ``Samples.from_arrays``.
        """
        from .. import Samples

        model = model or self.model
        if model is None:
            raise ValueError(f"{self.name}: expected a model, as the recording has no description")
        return Samples.from_recording(model, self, cutoff=cutoff, velocity=velocity)


def thinned(stamp: NDArray[np.int64], rate: float | None) -> NDArray[np.bool_]:
    """Whether each state is kept, at most so many a second: the first in each period of the clock.

    What is kept depends on the stamps [ns] alone, and on the state before the first one; None keeps
    all.
    """
    if rate is None:
        return np.ones(len(stamp), bool)
    if not 0.0 < rate <= 1e9:
        raise ValueError(
            f"rate: expected states a second, more than 0 and at most 1e9, got {rate!r}"
        )
    period = stamp // max(round(1e9 / rate), 1)
    return np.concatenate([np.ones(min(len(stamp), 1), bool), period[1:] != period[:-1]])


def recording_of(
    part: PartStates,
    selection: Selection,
    path: str = "",
    *,
    whole: bool = False,
    rate: float | None = None,
    warnings: Iterable[str] = (),
) -> Recording:
    """Return the states of a part of a recording.

    With ``whole``, those that belong to other parts too; ``warnings`` are added to its own.
    """
    count = len(part.states.stamp)
    rows = slice(0, count) if whole else slice(part.warm, count - part.after)
    states = part.states.take(rows)
    if rate is not None:
        states = states.take(thinned(part.states.stamp, rate)[rows])
    positions, velocities = selection.columns()
    return Recording(
        selection.name,
        path,
        tuple(selection.position_names[k] for k in positions),
        tuple(selection.velocity_names[k] for k in velocities),
        states.stamp,
        _columns(states.q, positions),
        _columns(states.v, velocities),
        _columns(states.tau, velocities),
        selection.model,
        (*warnings, *warnings_of(part)),
    )


def _columns(values: Array, chosen: list[int]) -> Array:
    return values if chosen == list(range(values.shape[1])) else values[:, chosen]


def warnings_of(part: PartStates) -> list[str]:
    """What is wrong with a part, for a person."""
    rejected = [
        _text(f"rejected because of {reason}", note) for reason, note in part.rejected.items()
    ]
    return [*part.problems, *rejected, *notes_of(part), *filter(None, [incomplete_of(part)])]


def notes_of(part: PartStates) -> list[str]:
    notes = []
    if part.resets:
        notes.append(_text("with stamps that jumped back", part.resets))
    if part.unknown:
        notes.append(f"ignored joints that the robot does not have: {abbreviated(part.unknown)}")
    return notes


def incomplete_of(part: PartStates) -> str:
    """Why messages of a part form no state; empty if they do."""
    if len(part.own.stamp) or not part.messages or not part.missing:
        return ""
    return (
        f"no complete state: the position of {abbreviated(part.missing)} is unknown, or older "
        "than the others by more than the staleness; --lock JOINT=X locks a joint that is not "
        "recorded"
    )


def _text(what: str, note: Note) -> str:
    return (
        f"{note.messages} messages {what}, the first at {1e-9 * note.first:.6f} s: {note.example}"
    )


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
    progress: Progress | None = None,
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
        Of joint states. Default: all whose last part is ``joint_states``.
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
    thinned(np.zeros(0, np.int64), rate)
    if isinstance(robot, Model) and root_joint is not None:
        raise ValueError(f"root_joint: expected None for a Model, got {root_joint!r}")
    selection, parts, damage, _ = prepared(
        open_source(path),
        Request(
            robot,
            topics,
            odometry,
            joints,
            since,
            until,
            staleness,
            root_joint,
            base,
            size=float("inf"),
        ),
    )
    part = parts[0] if parts else Part(str(path), 0, 0, 0, (), 0, 0, 0)
    return recording_of(
        read_part(part, selection, progress),
        selection,
        str(path),
        rate=rate,
        warnings=[damage] if damage else [],
    )
