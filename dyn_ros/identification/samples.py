# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Samples of a recording, filtered and differentiated, for identification."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Mapping, Sequence
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..engine.kernel.names import short_repr
from ..engine.kernel.types import Array, ArrayLike
from ..engine.kernel.validation import require_model
from ..engine.model.model import Model
from ..engine.model.moments import Moment
from ..files.limits import MAX_CHUNK_SIZE
from ..recordings.reading import read_table
from ..recordings.recording import Recording
from ..recordings.tables.columns import write_columns
from ..recordings.tables.files import Table
from .motion import measurements, preparation


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Samples:
    """A recording of a robot: motions and measured torques.

    Created with ``from_arrays``, ``from_table`` or ``from_recording``.

    Attributes
    ----------
    time : (B,) ndarray
        Time stamps [s].
    q : (B, nq) ndarray
        Configurations, filtered.
    v, a : (B, nv) ndarray
        Velocities and accelerations.
    tau : (B, nv) ndarray
        Measured torques of the motors, including friction [N m, N]; not filtered.
    weight : (B,) ndarray
        Weights from 0 to 1. A stretch of samples at rest in one pose has the total weight of ten
        samples, or of its samples if they are fewer: they repeat one equation, in which Coulomb
        friction is not determined.
    segment : (B,) ndarray of int
        A new number after each gap or reset of the time stamps.
    recording : (B,) ndarray of int or None
        Number of the recording of each sample; friction may change between recordings.
    direction : (B, nv) ndarray or None
        Direction of friction that depends on the previous motion, from -1 to 1, once computed.
    f_ext : (B, njoints, 6) ndarray or None
        Known external forces, as in ``rnea``.
    contacts : tuple of str
        Names of frames that may be in contact with the environment.
    in_contact : (B, number of contacts) ndarray of bool or None
        True for frames that are in contact.
    warnings : tuple of str
        Faults of the recording that do not make it unusable.
    filter : str
        A sentence that states the filter.
    cutoff : float
        Cutoff frequency of the filter [Hz]; infinite without a filter.
    repeats : (B, nv) ndarray of bool or None
        True for torques of joints that are published less often than others, where they repeat
        the sample before. None: no torque repeats for this reason.
    motion_noise : (3, nv) ndarray or None
        Standard deviations of the noise of the measured motion that remains after filtering: in
        positions (of joints with several coordinates, small motions), in velocities and in
        accelerations. None: not known, and taken as zero.

    Examples
    --------
    Velocities and accelerations are computed from the positions:

    >>> samples = dyn_ros.Samples.from_arrays(model, time, angles, efforts)
    >>> samples.q.shape, samples.a.shape, samples.filter.split(",")[0]
    ((1962, 7), (1962, 7), 'Butterworth low-pass of order 4')
    """

    time: Array
    q: Array
    v: Array
    a: Array
    tau: Array
    weight: Array
    segment: NDArray[np.int32]
    f_ext: Array | None = None
    contacts: tuple[str, ...] = ()
    in_contact: NDArray[np.bool_] | None = None
    warnings: tuple[str, ...] = ()
    filter: str = ""
    cutoff: float = math.inf
    motion_noise: Array | None = None
    recording: NDArray[np.int32] | None = None
    direction: Array | None = None
    repeats: NDArray[np.bool_] | None = None

    def __len__(self) -> int:
        return len(self.time)

    def __repr__(self) -> str:
        return f"Samples({len(self)}, nq={self.q.shape[1]}, nv={self.v.shape[1]})"

    def take(self, indices: slice | NDArray[Any] | Sequence[int]) -> Samples:
        """Return some of the samples.

        Parameters
        ----------
        indices : slice, or ndarray of int or bool
            A slice returns views of the same arrays.
        """
        rows: dict[str, Any]
        if isinstance(indices, np.ndarray) and indices.dtype.kind == "i":  # faster
            rows = {name: array.take(indices, axis=0) for name, array in self._rows().items()}
        else:
            rows = {name: array[indices] for name, array in self._rows().items()}
        return dataclasses.replace(self, **rows)

    def _with_repeats(self) -> Samples:
        """Return the samples with a mask of repeated torques."""
        repeats = np.zeros(self.tau.shape, bool) if self.repeats is None else self.repeats
        return dataclasses.replace(self, repeats=repeats)

    def _rows(self) -> dict[str, NDArray[Any]]:
        """Return the arrays with a row for each sample."""
        return {
            name: value
            for name, value in vars(self).items()
            if name != "motion_noise" and isinstance(value, np.ndarray)
        }

    @classmethod
    def concatenate(cls, recordings: Sequence[Samples]) -> Samples:
        """Join several recordings of one robot; segments are numbered consecutively.

        Raises
        ------
        ValueError
            No recordings, or of different robots or contacts, or only some with external forces.
        """
        recordings = list(recordings) if isinstance(recordings, Iterable) else [recordings]
        for recording in recordings:
            if not isinstance(recording, Samples):
                raise TypeError(
                    f"recordings: expected a sequence of dyn_ros.Samples, got "
                    f"{type(recording).__name__}: {short_repr(recording)}"
                )
        if len(recordings) == 1:
            return recordings[0]
        signatures = {
            (
                recording.q.shape[1],
                recording.v.shape[1],
                recording.f_ext is None,
                recording.contacts,
                recording.in_contact is None,
            )
            for recording in recordings
        }
        if len(signatures) != 1:
            raise ValueError(
                f"recordings: expected at least one, all of the same robot with the "
                f"same contacts and external forces, got {len(recordings)} with "
                f"{len(signatures)} different sets"
            )
        first, segment, count = recordings[0], [], 0
        for recording in recordings:
            segment.append(recording.segment + np.int32(count))
            count += 1 + int(recording.segment.max(initial=-1))
        if any(recording.repeats is not None for recording in recordings):
            recordings = [recording._with_repeats() for recording in recordings]
        rows = [recording._rows() for recording in recordings]
        arrays: dict[str, Any] = {
            name: np.concatenate([arrays[name] for arrays in rows])
            for name in rows[0].keys() - {"recording", "direction"}
        }
        squares = [
            len(recording) * np.square(recording.motion_noise)
            for recording in recordings
            if recording.motion_noise is not None
        ]
        noise = np.sqrt(sum(squares) / sum(map(len, recordings))) if squares else None
        recording_numbers = np.repeat(
            np.arange(len(rows), dtype=np.int32), [len(samples) for samples in recordings]
        )
        return dataclasses.replace(
            first,
            **{**arrays, "segment": np.concatenate(segment), "motion_noise": noise},
            recording=recording_numbers,
            direction=None,
            warnings=tuple(
                dict.fromkeys(text for recording in recordings for text in recording.warnings)
            ),
            filter=" ".join(dict.fromkeys(recording.filter for recording in recordings)),
        )

    @classmethod
    def from_arrays(
        cls,
        model: Model,
        time: ArrayLike,
        q: ArrayLike,
        tau: ArrayLike,
        v: ArrayLike | None = None,
        a: ArrayLike | None = None,
        *,
        cutoff: float | None = None,
        f_ext: ArrayLike | None = None,
        contacts: Sequence[str] = (),
        in_contact: ArrayLike | None = None,
    ) -> Samples:
        """Prepare a recording: filter it and compute velocities and accelerations.

        Positions pass a Butterworth low-pass of order 4, forward and backward, which delays
        nothing; velocities and accelerations are its exact derivatives. The samples at the ends of
        each segment are dropped where the filter has not settled, for two periods of the cutoff.
        Torques are not filtered, so that their noise is independent from sample to sample, and are
        not interpolated: if the time stamps are not equally spaced, the motion is evaluated at
        them.

        Quaternions and planar positions are filtered as signals too; angles are unwrapped. A
        segment ends where time goes back or positions jump, and at a gap of more than 3.5 sampling
        periods and an eighth of a period of the cutoff.

        Samples are dropped that have the time stamp of the sample before or, in a motion, all its
        numbers, or one that jumps and jumps back; also with NaN, which is unknown, and where less
        frequent efforts repeat. Of joints that are published less often than others, the motion is
        interpolated, and each torque used once.
        Stamps are corrected if they jitter, as after reception by a computer; samples are then
        equally spaced, or all positions of a row are late by the same time, where this
        makes the motion smoother by more than the noise of the positions explains.

        For motions up to 0.5 to 2 Hz and 500 samples per second, encoders of 2^17 counts per
        revolution result in RMS errors of 4e-5 of the RMS velocity (2^20: 3e-5) and 3e-4 of the RMS
        acceleration; at the ends of a segment, of up to 3e-3 of the largest acceleration.

        Parameters
        ----------
        model : Model
        time : (B,) array_like
            Time stamps [s].
        q : (B, nq) array_like
            Measured configurations.
        tau : (B, nv) array_like
            Measured efforts, which become torques [N m, N] as ``model.drives`` describes; zero for
            a floating base.
        v : (B, nv) array_like, optional
            Measured velocities, if they are more accurate than the positions. They are filtered
            in the same way; accelerations are their derivatives.
        a : (B, nv) array_like, optional
            Accelerations. With both v and a nothing is filtered or dropped at the ends of a
            segment.
        cutoff : float, optional
            Cutoff frequency of the filter [Hz]. By default the one with the smallest predicted
            error of the accelerations: what it removes from the part of the spectra above the noise
            floor, which counts more because it is systematic, plus the noise that it leaves. It is
            at most a fifth of the sampling rate, and at most 20 Hz. A lower one, which leaves all
            but 2 % of the velocities, is chosen if torques prefer it: least squares of a part of
            the samples predict stretches that were held out better, beyond the scatter of the
            stretches; this is tried without contacts and external forces, and for robots with a
            fixed base.
        f_ext, contacts, in_contact
            See the attributes. Contacts are always in contact if in_contact is None.

        Returns
        -------
        Samples
            Its warnings name saturated torques, and what was dropped, such as corrupt rows at the
            beginning or the end.

        Raises
        ------
        ValueError
            Wrong shape, an infinite number (names the joint, index and time), no complete row, a
            recording that is too short, or an unknown frame.
        """
        raw = {
            name: None if value is None else measurements.copy_rows(model, name, axes, value)
            for name, axes, value in (
                ("q", ("nq",), q),
                ("v", ("nv",), v),
                ("a", ("nv",), a),
                ("tau", ("nv",), tau),
                ("f_ext", ("njoints", 6), f_ext),
            )
        }
        return cls(**preparation.prepare_recording(model, time, raw, contacts, in_contact, cutoff))

    @classmethod
    def from_table(
        cls,
        model: Model,
        table: Table,
        *,
        cutoff: float | None = None,
        velocity: bool = False,
        columns: Mapping[str, str] | None = None,
        since: Moment | None = None,
        until: Moment | None = None,
        max_chunk_size: float = MAX_CHUNK_SIZE,
    ) -> Samples:
        """Prepare a recording from a table: a CSV or Parquet file, or columns in memory.

        The columns are ``time`` [s], ``position.NAME`` [rad, m] and ``effort.NAME`` [N m, N] for
        each NAME in ``model.position_names`` and ``model.velocity_names``, such as
        ``position.elbow`` or ``position.root_joint/qw``. Columns may also have the names that
        PlotJuggler exports: ``__time`` and ``/joint_states/NAME/position``. Mimic joints need no
        columns, and joints with several coordinates no efforts, which are zero without. Optional
        columns ``in_contact.FRAME`` (0 or 1) state which frames are in contact. Efforts become
        torques as for ``from_arrays``.

        Parameters
        ----------
        model : Model
        table : str, PathLike or Mapping of str to (B,) array_like
            Path of a ``.csv`` or ``.parquet`` file, or columns by name, also as a table of pandas,
            polars or pyarrow. Rows that lack a number are left out, with a warning. Parquet
            requires pyarrow: ``pip install "dyn_ros[identify]"``.
        cutoff : float, optional
            See ``from_arrays``.
        velocity : bool
            Use the columns ``velocity.NAME`` as well, as ``v`` of ``from_arrays``.
        columns : dict of str to str, optional
            Names of "time", of "position.NAME", or of all columns of a signal. The latter are a
            pattern in which ``{}`` stands for NAME or the number of a joint, from 1 or 0, such as
            ``{"position": "q_{}", "effort": "tau_J_{}"}``; or in the order of the joints, separated
            by commas. Numbers of columns, from 1, such as "2-8", are names as well; a CSV file may
            then lack a line of names.
        since, until : float, str or datetime, optional
            Use this interval: seconds since 1970, an ISO date, in UTC unless it states its zone, or
            ``"+S"``: seconds after the start of the table.
        max_chunk_size : float
            Largest size of a column in a row group of Parquet [bytes, uncompressed], see
            ``dyn_ros.logs.read``.

        Returns
        -------
        Samples
            Joints of the table that the robot does not have are ignored, with a warning.

        Raises
        ------
        ValueError
            Columns are missing (names them, similar ones and those that are there), or not
            numbers; no sample is in the interval; and as for ``from_arrays``.
        ImportError
            Parquet without pyarrow.
        OSError
            The file cannot be read.
        """
        recording = read_table(
            require_model(model),
            table,
            columns=columns,
            velocity=velocity,
            since=since,
            until=until,
            max_chunk_size=max_chunk_size,
        )
        return cls._prepare(model, recording, (), cutoff, velocity)

    @classmethod
    def from_recording(
        cls,
        model: Model,
        recording: Recording,
        *,
        cutoff: float | None = None,
        velocity: bool = False,
    ) -> Samples:
        """Prepare a recording that was read by ``dyn_ros.logs.read``.

        States from messages without the efforts of all joints, or velocities that are used, are
        dropped, with a warning.

        Parameters
        ----------
        model : Model
        recording : dyn_ros.logs.Recording
        cutoff : float, optional
            See ``from_arrays``.
        velocity : bool
            Use the measured velocities as well, as ``v`` of ``from_arrays``.

        Raises
        ------
        ValueError
            The recording has not the coordinates of the model, or an effort or velocity is never
            known, or has another unit than the drives of the model declare; and as for
            ``from_arrays``.
        """
        require_model(model)
        if not isinstance(recording, Recording):
            raise TypeError(
                "recording: expected a Recording, such as dyn_ros.logs.read(path, "
                f"model), got {type(recording).__name__}: {short_repr(recording)}"
            )
        for kind, names, expected_names in (
            ("positions", recording.position_names, model.position_names),
            ("velocities", recording.velocity_names, model.velocity_names),
        ):
            if tuple(names) != expected_names:
                raise ValueError(
                    f"recording: expected the {kind} {', '.join(expected_names)}, got "
                    f"{', '.join(names)}; read it with this robot and all joints"
                )
        recording.require_effort_units(model)
        return cls._prepare(model, *_drop_incomplete_states(recording, velocity), cutoff, velocity)

    @classmethod
    def _prepare(
        cls,
        model: Model,
        recording: Recording,
        warnings: Sequence[str],
        cutoff: float | None,
        velocity: bool,
    ) -> Samples:
        """Prepare all states of a recording, whose arrays are changed in place."""
        time, stamp = recording.table_time, recording.stamp
        if time is None:  # start at 0: floats resolve dates only to 0.2 us
            time = 1e-9 * (stamp - stamp[:1].sum())
        raw: dict[str, Array | None] = {
            "q": recording.q,
            "v": recording.v if velocity else None,
            "a": None,
            "tau": recording.effort,
            "f_ext": None,
        }
        prepared = preparation.prepare_recording(
            model, time, raw, recording.contacts, recording.in_contact, cutoff
        )
        prepared["warnings"] = (*recording.warnings, *warnings, *prepared["warnings"])
        return cls(**prepared)

    def to_table(self, model: Model, path: str | PathLike[str]) -> None:
        """Write the samples to a file that ``from_table`` reads, with a model without drives.

        Its efforts are torques.

        Parameters
        ----------
        model : Model
            The model of the samples, which contains the names of the joints.
        path : str or PathLike
            Ends with ``.csv`` or ``.parquet``, which requires pyarrow.

        Raises
        ------
        ValueError
            Another suffix, or the samples are of another robot.
        ImportError
            Parquet without pyarrow.
        """
        table = {"time": self.time}
        for signal, names, values in (
            ("position", model.position_names, self.q),
            ("velocity", model.velocity_names, self.v),
            ("acceleration", model.velocity_names, self.a),
            ("effort", model.velocity_names, self.tau),
        ):
            if values.shape[1] != len(names):
                raise ValueError(
                    f"model: expected the robot of the samples, with {values.shape[1]}"
                    f" numbers for {signal}; {model.name!r} has {len(names)}"
                )
            table |= {f"{signal}.{name}": values[:, k] for k, name in enumerate(names)}
        if self.in_contact is not None:
            table |= {
                f"in_contact.{name}": self.in_contact[:, k].astype(float)
                for k, name in enumerate(self.contacts)
            }
        write_columns(path, table)


def _drop_incomplete_states(
    recording: Recording, velocity: bool
) -> tuple[Recording, Sequence[str]]:
    """Return a copy without states that lack an effort or, if ``velocity``, a velocity; a warning.

    The warning counts these states. All rows of a table are kept. Raises a ValueError if an effort
    or a velocity is unknown in all states.
    """
    if recording.table_time is not None:
        return recording.take(np.arange(len(recording))), ()
    signals = {"efforts": recording.effort, **({"velocities": recording.v} if velocity else {})}
    is_complete = np.ones(len(recording), bool)
    for what, values in signals.items():
        finite = np.isfinite(values)
        for name, column in zip(recording.velocity_names, finite.T):
            if len(column) and not column.any():
                hint = recording.unread_topics_hint
                raise ValueError(
                    f"recording: the {what} of {name!r} are unknown in all states{hint}"
                )
        is_complete &= finite.all(axis=1)
    states = recording.take(np.flatnonzero(is_complete))
    if len(states) == len(recording):
        return states, ()
    return states, (
        f"dropped {len(recording) - len(states)} states without the {' and '.join(signals)} "
        "of all joints",
    )
