# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Positions, velocities and efforts of a recording over time, as arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..drives.efforts import effort_conflicts
from ..engine.kernel.types import Array
from ..engine.model.model import Model
from ..states.joint_states import Note, States, abbreviate_names
from .plan import Part
from .tables.row_selection import MAX_GAP_PERIODS

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
    contacts : tuple of str
        Frames for which the recording states whether they touch the environment.
    in_contact : (n, number of contacts) ndarray or None
        1 for each of these frames that is in contact, otherwise 0.
    table_time : (n,) ndarray or None
        Of a table that was read as it is: its time stamps [s]. Unlike states from messages, its
        rows may be corrupt at the beginning and the end.

    Examples
    --------
    The gravity torques of ten seconds of a recording:

    >>> states = dyn_ros.logs.read(recording_file, model, since="+5", until="+15")
    >>> dyn_ros.generalized_gravity(model, data, states.q).shape == states.effort.shape
    True
    """

    part: Part  # selection that was read
    states: States
    leading_count: int = 0  # states before the interval of the part
    trailing_count: int = 0  # states after it
    messages: int = 0  # number in the interval
    rejected: Mapping[str, Note] = field(default_factory=dict)  # rejected messages, by reason
    problems: tuple[str, ...] = ()  # sentences about content that could not be read
    resets: Note | None = None  # messages with stamps that jumped back
    unreported: Note | None = None  # messages in which a position is NaN
    missing: tuple[str, ...] = ()  # joints whose position is unknown at the end
    unknown: tuple[str, ...] = ()  # names that are not joints of the robot
    contacts: tuple[str, ...] = ()
    in_contact: Array | None = None
    table_time: Array | None = None
    row_notes: Mapping[str, int] = field(default_factory=dict)  # notes on rows, and their numbers
    # (joint, interface) of efforts in messages that state their interfaces
    effort_interfaces: tuple[tuple[str, str], ...] = ()

    def __len__(self) -> int:
        return len(self.states.stamp) - self.leading_count - self.trailing_count

    def __repr__(self) -> str:
        duration = 1e-9 * int(self.stamp[-1] - self.stamp[0]) if len(self) else 0.0
        return (
            f"Recording({self.name!r}, {len(self)} states, {duration:.6g} s, "
            f"nq={len(self.position_names)}, nv={len(self.velocity_names)})"
        )

    @property
    def states_in_interval(self) -> States:
        """States in the interval of the part, without the overlap."""
        return self.states.take(slice(self.leading_count, self.leading_count + len(self)))

    @property
    def name(self) -> str:
        return self.part.name

    @property
    def path(self) -> str:
        return self.part.path

    @property
    def model(self) -> Model | None:
        return self.part.model

    @property
    def position_names(self) -> tuple[str, ...]:
        return tuple(self.part.position_names[k] for k in self.part.columns()[0])

    @property
    def velocity_names(self) -> tuple[str, ...]:
        return tuple(self.part.velocity_names[k] for k in self.part.columns()[1])

    @property
    def stamp(self) -> NDArray[np.int64]:
        return self.states_in_interval.stamp

    @property
    def q(self) -> Array:
        return self.states_in_interval.q

    @property
    def v(self) -> Array:
        return self.states_in_interval.v

    @property
    def effort(self) -> Array:
        return self.states_in_interval.tau

    @property
    def warnings(self) -> tuple[str, ...]:
        rejected = [
            _describe_note(f"rejected because of {reason}", note)
            for reason, note in self.rejected.items()
        ]
        incomplete = filter(None, [self.incomplete])
        return *self.problems, *rejected, *self.notes, *incomplete

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes about unusual but valid content."""
        notes = describe_row_notes(self.row_notes)
        if self.resets:
            notes.append(_describe_note("with stamps that jumped back", self.resets))
        if self.unreported:
            notes.append(_describe_note("in which a position is NaN", self.unreported))
        if self.unknown:
            notes.append(
                f"ignored joints that the robot does not have: {abbreviate_names(self.unknown)}"
            )
        return tuple(notes)

    @property
    def unread_topics_hint(self) -> str:
        """The end of a sentence about unknown numbers: topics that may have them, if any."""
        topics = self.part.unread_topics
        return f"; pass topics= to read {abbreviate_names(topics)} instead" if topics else ""

    @property
    def incomplete(self) -> str:
        """Reason why messages form no state; empty if they do."""
        if len(self) or not self.messages or not self.missing:
            return ""
        return (
            f"no complete state: the position of {abbreviate_names(self.missing)} is unknown, or "
            "older than the others by more than the staleness; "
            "lock joints that are not recorded with lock="
        )

    @property
    def time(self) -> Array:
        """Stamps as a new array, (n,) [s]."""
        if self.table_time is not None:
            return self.table_time.copy()
        return np.multiply(1e-9, self.stamp, dtype=float)

    def require_effort_units(self, model: Model) -> None:
        """Raise a ValueError if the drives of a model declare other units than the interfaces."""
        for conflict in effort_conflicts(model, self.effort_interfaces).values():
            raise ValueError(conflict)

    @property
    def gaps(self) -> tuple[tuple[float, float], ...]:
        """Times of the states before and after each gap, or jump back, of the stamps [s]."""
        steps = np.diff(self.stamp)
        increments = steps[steps > 0]
        max_gap = MAX_GAP_PERIODS * np.median(increments) if len(increments) else np.inf
        rows = np.flatnonzero((steps < 0) | (steps > max_gap))
        return tuple(zip(self.time[rows].tolist(), self.time[rows + 1].tolist()))

    def take(self, rows: slice | NDArray[Any] | Sequence[int]) -> Recording:
        """Return some of the states.

        Parameters
        ----------
        rows : slice, or ndarray of int or bool
            A slice returns views of the same arrays.
        """
        if not isinstance(rows, slice):
            rows = np.asarray(rows)
        arrays: dict[str, Any] = {
            name: values[rows]
            for name in ("in_contact", "table_time")
            if (values := getattr(self, name)) is not None
        }
        return replace(
            self,
            states=self.states_in_interval.take(rows),
            leading_count=0,
            trailing_count=0,
            **arrays,
        )

    def thinned(self, rate: float | None) -> Recording:
        """Return at most ``rate`` states a second, see ``rate_mask``, without the overlap."""
        rows = slice(self.leading_count, self.leading_count + len(self))
        return self.take(slice(None) if rate is None else rate_mask(self.states.stamp, rate)[rows])

    def columns(self) -> dict[str, NDArray[Any]]:
        """Return all columns by name.

        Returns
        -------
        dict of str to (n,) ndarray
            ``time`` [s], ``stamp`` [ns], ``position.NAME``, ``velocity.NAME``, ``effort.NAME`` and
            ``in_contact.FRAME``: a table that ``Samples.from_table`` reads.
        """
        columns: dict[str, NDArray[Any]] = {"time": self.time, "stamp": self.stamp}
        for signal, names, values in (
            ("position", self.position_names, self.q),
            ("velocity", self.velocity_names, self.v),
            ("effort", self.velocity_names, self.effort),
            *([] if self.in_contact is None else [("in_contact", self.contacts, self.in_contact)]),
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


def rate_mask(stamp: NDArray[np.int64], rate: float | None) -> NDArray[np.bool_]:
    """Return a mask of at most ``rate`` states a second: the first in each period of the clock.

    It depends only on the stamps [ns], and on the state before the first one. None keeps all.
    """
    if rate is None:
        return np.ones(len(stamp), bool)
    if not 0.0 < rate <= 1e9:
        raise ValueError(
            f"rate: expected states a second, more than 0 and at most 1e9, got {rate!r}"
        )
    period = stamp // max(round(1e9 / rate), 1)
    return np.concatenate([np.ones(min(len(stamp), 1), bool), period[1:] != period[:-1]])


def describe_row_notes(notes: Mapping[str, int]) -> list[str]:
    """Return notes on rows of a table with the numbers of these rows."""
    return [text.format(f"{count:,}") for text, count in notes.items()]


def _describe_note(description: str, note: Note) -> str:
    """Return a sentence about messages, with the first one as example."""
    return (
        f"{note.messages} messages {description}, the first at {1e-9 * note.first:.6f} s: "
        f"{note.example}"
    )
