# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Samples: a recording of a robot, ready for identification."""
from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Sequence
from os import PathLike
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ..model.inputs import as_array, coordinate, finite_array, require_model, require_valid
from ..model.types import Array, ArrayLike, Model
from . import columns
from .coordinates import Coordinates, coordinates, make_continuous, velocities, velocity_noise
from .filtering import (
    HIGHEST,
    ORDER,
    Part,
    Spectrum,
    choose_cutoff,
    derivatives,
    parts_of,
    settling_samples,
    spectrum,
)

GAP = 3.5
"""Sampling periods without a sample that end a segment."""

STATIONARY = 10.0
"""Total weight of a stretch of samples at rest: that of so many samples in motion."""

_SHORTEST = 10                  # samples that must remain of a segment
_STUCK = 1e-3                   # rad, m: a joint that moves less is reported
_AT_REST = 5.0                  # times the noise of a velocity
_NEARLY = 1e-3                  # of the largest velocity of a joint: at rest, without noise
_AT_LIMIT = 0.999               # of the effort limit
_SHORTEST_PERIOD, _LONGEST_PERIOD = 1e-6, 10.0      # s
_REPEATED = 0.4                 # of the samples
_FASTEST = 0.4                  # largest cutoff that can be chosen, relative to the rate
_CHUNK = 65536


class States(Protocol):
    """What is read of a ``dyn_ros.logs.Recording``."""

    @property
    def position_names(self) -> tuple[str, ...]: ...
    @property
    def velocity_names(self) -> tuple[str, ...]: ...
    @property
    def stamp(self) -> NDArray[np.int64]: ...
    @property
    def q(self) -> Array: ...
    @property
    def effort(self) -> Array: ...
    @property
    def warnings(self) -> tuple[str, ...]: ...


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Samples:
    """A recording of a robot: motions and the torques that were measured.

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
        From 0 to 1. A stretch of samples at rest in one pose has the total weight of ten samples,
        or of its samples if they are fewer: they repeat one equation, in which Coulomb friction is
        not determined.
    segment : (B,) ndarray of int
        A new number after each gap or reset of the time stamps.
    f_ext : (B, njoints, 6) ndarray or None
        Known external forces, as in ``rnea``.
    contacts : tuple of str
        Names of frames that may be in contact with the environment.
    in_contact : (B, number of contacts) ndarray of bool or None
        Whether each of them is.
    warnings : tuple of str
        What is wrong with the recording but does not make it unusable.
    filter : str
        A sentence that states the filter.
    cutoff : float
        Of the filter [Hz]; infinite without one.

    Examples
    --------
    Velocities and accelerations are computed from the positions:

    >>> samples = dyn_ros.Samples.from_arrays(model, time, angles, efforts)
    >>> samples.q.shape, samples.a.shape
    ((1952, 7), (1952, 7))
    >>> samples.filter.split(",")[0]
    'Butterworth low-pass of order 4'
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

        Returns
        -------
        Samples
        """
        arrays: dict[str, Any] = {
            field.name: value[indices] for field in dataclasses.fields(self)
            if isinstance(value := getattr(self, field.name), np.ndarray)}
        return dataclasses.replace(self, **arrays)

    @classmethod
    def concatenate(cls, recordings: Sequence[Samples]) -> Samples:
        """Join several recordings of one robot.

        Parameters
        ----------
        recordings : sequence of Samples

        Returns
        -------
        Samples
            Its segments are numbered consecutively.

        Raises
        ------
        ValueError
            No recordings, or of different robots or contacts, or only some with external forces.
        """
        if len(recordings) == 1:
            return recordings[0]
        kinds = {(one.q.shape[1], one.v.shape[1], one.f_ext is None, one.contacts,
                  one.in_contact is None) for one in recordings}
        if len(kinds) != 1:
            raise ValueError(f"recordings: expected one or more of one robot, all with the same "
                             f"contacts and external forces, got {len(recordings)} of "
                             f"{len(kinds)} kinds")
        first, segment, count = recordings[0], [], 0
        for one in recordings:
            segment.append(one.segment + np.int32(count))
            count += 1 + int(one.segment.max(initial=-1))
        arrays: dict[str, Any] = {
            field.name: np.concatenate([getattr(one, field.name) for one in recordings])
            for field in dataclasses.fields(cls)
            if isinstance(getattr(first, field.name), np.ndarray)}
        return dataclasses.replace(
            first, **{**arrays, "segment": np.concatenate(segment)},
            warnings=tuple(text for one in recordings for text in one.warnings),
            filter=" ".join(dict.fromkeys(one.filter for one in recordings)))

    @classmethod
    def from_arrays(cls, model: Model, time: ArrayLike, q: ArrayLike, tau: ArrayLike,
                    v: ArrayLike | None = None, a: ArrayLike | None = None, *,
                    cutoff: float | None = None, f_ext: ArrayLike | None = None,
                    contacts: Sequence[str] = (),
                    in_contact: ArrayLike | None = None) -> Samples:
        """Prepare a recording: filter it and compute velocities and accelerations.

        Positions pass a Butterworth low-pass of order 4, forward and backward, which delays
        nothing; velocities and accelerations are its exact derivatives. The samples at the ends of
        each segment are dropped where the filter has not settled, for two periods of the cutoff.
        Torques are not filtered, so that their noise is independent from sample to sample, and are
        not interpolated: if the time stamps are not equally spaced, the motion is evaluated at
        them.

        Quaternions and planar positions are filtered as signals too; angles of continuous joints
        are unwrapped. Samples with the time stamp of the sample before are dropped. A segment ends
        where more than 3.5 sampling periods have no sample, or where time goes back.

        For motions up to 0.5 to 2 Hz and 500 samples per second, encoders of 2^17 counts per
        revolution result in velocities with an RMS error of 7e-5 of their RMS, and accelerations
        with one of 5e-4; with 2^20 counts, of 5e-5 and 3e-4. The error of accelerations is largest,
        3e-3 of the largest acceleration, at the ends of a segment.

        Parameters
        ----------
        model : Model
        time : (B,) array_like
            Time stamps [s].
        q : (B, nq) array_like
            Measured configurations.
        tau : (B, nv) array_like
            Measured torques [N m, N]; zero for a floating base.
        v : (B, nv) array_like, optional
            Measured velocities, if they are more accurate than the positions. They are filtered
            in the same way; accelerations are their derivatives.
        a : (B, nv) array_like, optional
            Accelerations. With both v and a nothing is filtered or dropped at the ends of a
            segment.
        cutoff : float, optional
            Of the filter [Hz]. By default the one with the smallest predicted error of the
            accelerations: what it removes from the part of the spectra above the noise floor, plus
            the noise that it leaves. It is at most a fifth of the sampling rate, and at most 20 Hz.
        f_ext : (B, njoints, 6) array_like, optional
            Known external forces, as in ``rnea``.
        contacts : sequence of str
            Names of frames that may be in contact with the environment.
        in_contact : (B, number of contacts) array_like of bool, optional
            Whether each of them is. All of them always, if None.

        Returns
        -------
        Samples
            Its warnings name joints that do not move, saturated torques, and what was dropped.

        Raises
        ------
        ValueError
            Wrong shape, a number that is not finite (names the joint, index and time), a
            recording that is too short, or an unknown frame.
        """
        raw = {name: None if value is None else _copied(model, name, axes, value)
               for name, axes, value in (
                   ("q", ("nq",), q), ("v", ("nv",), v), ("a", ("nv",), a),
                   ("tau", ("nv",), tau), ("f_ext", ("njoints", 6), f_ext))}
        known = _known_contacts(model, contacts, in_contact)
        stamps = _stamps(time)
        return _prepare(model, stamps, raw, known, cutoff)

    @classmethod
    def from_table(cls, model: Model, table: columns.Table, *, cutoff: float | None = None,
                   velocity: bool = False) -> Samples:
        """Prepare a recording from a table: a CSV or Parquet file, or columns in memory.

        The columns are ``time`` [s], ``position.NAME`` [rad, m] and ``effort.NAME`` [N m, N] for
        each NAME in ``model.position_names`` and ``model.velocity_names``, such as
        ``position.elbow`` or ``position.root_joint/qw``. Columns may also have the names that
        PlotJuggler exports: ``__time`` and ``/joint_states/NAME/position``. Mimic joints need no
        columns, and joints with several coordinates no efforts, which are zero without. Optional
        columns ``in_contact.FRAME`` (0 or 1) state which frames are in contact.

        Parameters
        ----------
        model : Model
        table : str, PathLike or Mapping of str to (B,) array_like
            Path of a ``.csv`` or ``.parquet`` file, or columns by name. Parquet requires pyarrow:
            ``pip install dyn_ros[identify]``.
        cutoff : float, optional
            See ``from_arrays``.
        velocity : bool
            Use the columns ``velocity.NAME`` as well, as ``v`` of ``from_arrays``.

        Returns
        -------
        Samples
            Joints of the table that the robot does not have are ignored, with a warning.

        Raises
        ------
        ValueError
            Columns are missing (names them, similar ones and those that are there), or not
            numbers; and as for ``from_arrays``.
        ImportError
            Parquet without pyarrow.
        OSError
            The file cannot be read.
        """
        require_model(model)
        source = columns.Columns(table)
        several = frozenset(model.velocity_names[k] for joint in coordinates(model)
                            if joint.v.stop - joint.v.start > 1
                            for k in range(joint.v.start, joint.v.stop))
        raw: dict[str, Array | None] = {
            "q": source.signal("position", model.position_names), "a": None, "f_ext": None,
            "v": source.signal("velocity", model.velocity_names) if velocity else None,
            "tau": source.signal("effort", model.velocity_names, several)}
        frames = tuple(dict.fromkeys(source.owners("in_contact")))
        state = source.signal("in_contact", frames) if frames else None
        time = source.time()
        source.load()
        samples = _prepare(model, _stamps(time), raw,
                           _known_contacts(model, frames, state), cutoff)
        return dataclasses.replace(samples, warnings=(*_ignored(model, source),
                                                      *samples.warnings))

    @classmethod
    def from_recording(cls, model: Model, recording: States, *,
                       cutoff: float | None = None) -> Samples:
        """Prepare a recording that was read by ``dyn_ros.logs.read``.

        States without the efforts of all joints are dropped, with a warning.

        Parameters
        ----------
        model : Model
        recording : dyn_ros.logs.Recording
        cutoff : float, optional
            See ``from_arrays``.

        Returns
        -------
        Samples

        Raises
        ------
        ValueError
            The recording has not the coordinates of the model, or an effort is never known; and
            as for ``from_arrays``.
        """
        require_model(model)
        for what, names, own in (
                ("positions", recording.position_names, model.position_names),
                ("velocities", recording.velocity_names, model.velocity_names)):
            if tuple(names) != own:
                raise ValueError(f"recording: expected the {what} {', '.join(own)}, got "
                                 f"{', '.join(names)}; read it with this robot and all joints")
        known: NDArray[np.bool_] = np.isfinite(recording.effort)
        for name, column in zip(model.velocity_names, known.T):
            if len(column) and not column.any():
                raise ValueError(f"recording: the effort of {name!r} is never known")
        rows = np.flatnonzero(known.all(axis=1))
        stamp = recording.stamp[rows]
        time = 1e-9 * (stamp - stamp[:1].sum())     # from 0, as floats resolve dates to 0.2 us
        samples = cls.from_arrays(model, time, recording.q[rows], recording.effort[rows],
                                  cutoff=cutoff)
        unknown = len(known) - len(rows)
        dropped = [f"dropped {unknown} states without the efforts of all joints"] if unknown else []
        return dataclasses.replace(samples, warnings=(
            *recording.warnings, *dropped, *samples.warnings))

    def to_table(self, model: Model, path: str | PathLike[str]) -> None:
        """Write the samples to a file that ``from_table`` reads.

        Parameters
        ----------
        model : Model
            Of the samples: it contains the names of the joints.
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
                ("effort", model.velocity_names, self.tau)):
            if values.shape[1] != len(names):
                raise ValueError(f"model: expected the robot of the samples, with {values.shape[1]}"
                                 f" numbers for {signal}; {model.name!r} has {len(names)}")
            table |= {f"{signal}.{name}": values[:, k] for k, name in enumerate(names)}
        if self.in_contact is not None:
            table |= {f"in_contact.{name}": self.in_contact[:, k].astype(float)
                      for k, name in enumerate(self.contacts)}
        columns.write(path, table)


# --- arguments

def _copied(model: Model, name: str, axes: tuple[str | int, ...], value: ArrayLike) -> Array:
    array, batched = as_array(require_model(model), name, axes, value)
    if not batched:
        shape = ", ".join(str(getattr(model, axis) if isinstance(axis, str) else axis)
                          for axis in axes)
        raise ValueError(f"{name}: expected shape (B, {shape}), a row for each sample, "
                         f"got {array.shape}")
    return array.copy()


def _stamps(time: ArrayLike) -> Array:
    stamps = np.asarray(time)
    if stamps.ndim != 1 or len(stamps) < 2 or stamps.dtype.kind not in "fiu":
        raise ValueError("time: expected the stamps of at least 2 samples in s, shape (B,), got "
                         f"shape {stamps.shape} of {stamps.dtype}")
    finite = np.isfinite(stamps)
    if not finite.all():
        raise ValueError("time: expected finite numbers, got "
                         f"{stamps[np.argmin(finite)]} in time[{np.argmin(finite)}]")
    return np.array(stamps, float)


def _known_contacts(model: Model, contacts: Sequence[str], in_contact: ArrayLike | None
                    ) -> tuple[tuple[str, ...], NDArray[np.bool_] | None]:
    """Check the frames in contact."""
    if isinstance(contacts, str):
        raise ValueError(f"contacts: expected a sequence of names, got the string {contacts!r}")
    for name in contacts:
        if name not in model.frame_names:
            raise ValueError(f"contacts: no frame named {name!r}; available: "
                             f"{', '.join(model.frame_names)}")
    if in_contact is None:
        return tuple(contacts), None
    state = np.asarray(in_contact)
    if state.ndim != 2 or state.shape[1] != len(contacts):
        raise ValueError(f"in_contact: expected shape (B, {len(contacts)}), for contacts "
                         f"{tuple(contacts)}, got {state.shape}")
    if not np.isin(state, (0, 1)).all():
        raise ValueError("in_contact: expected True and False, or 0 and 1")
    return tuple(contacts), state.astype(bool)


def _check(model: Model, time: Array, raw: dict[str, Array | None],
           in_contact: NDArray[np.bool_] | None) -> None:
    """Raise a ValueError unless all rows are finite and as many as time stamps."""
    for name, array in (*raw.items(), ("in_contact", in_contact)):
        if array is not None and len(array) != len(time):
            raise ValueError(f"{name}: expected a row for each of the {len(time)} time stamps, "
                             f"got {len(array)}")
    for name, array in raw.items():
        axes = {"q": ("nq",), "f_ext": ("njoints", 6)}.get(name, ("nv",))
        for start in range(0, len(time), _CHUNK):
            if array is None or np.isfinite(array[start:start + _CHUNK]).all():
                continue
            row, *rest = map(int, np.argwhere(~np.isfinite(array[start:start + _CHUNK]))[0])
            index = (start + row, *rest)
            raise ValueError(
                f"{name}: expected finite numbers, got {array[index]} in "
                f"{name}[{', '.join(map(str, index))}]{coordinate(model, axes, index)} at time "
                f"{time[start + row]:.6f} s; remove these samples")
    if raw["q"] is not None:
        for start in range(0, len(time), _CHUNK):
            require_valid(model, "q", ("nq",), raw["q"][start:start + _CHUNK])


def _ignored(model: Model, source: columns.Columns) -> list[str]:
    """A warning about joints of a table that the robot does not have."""
    known = {*model.position_names, *model.velocity_names, *model.joint_names}
    others = dict.fromkeys(
        owner for signal in ("position", "effort") for owner in source.owners(signal)
        if not any(owner == name or owner.endswith("/" + name) for name in known))
    return [f"ignored joints of the table that the robot does not have: {', '.join(others)}"
            ] if others else []


# --- preparation

def _prepare(model: Model, time: Array, raw: dict[str, Array | None],
             known: tuple[tuple[str, ...], NDArray[np.bool_] | None],
             cutoff: float | None) -> Samples:
    """Turn a recording into samples; the arrays are changed in place."""
    _check(model, time, raw, known[1])
    recording = _Recording(model, time, raw, known[1])
    recording.drop_repeated()
    recording.find_parts()
    make_continuous(model, recording.arrays["q"])
    v, a = recording.arrays["v"], recording.arrays["a"]
    repeats = np.zeros(0, bool)
    if v is None or a is None:
        recording.choose(cutoff)
        recording.drop_short()
        repeats = recording.repeats()
        v, a = recording.differentiate()
    elif cutoff is not None:
        raise ValueError(f"cutoff: expected None, since v and a are given, got {cutoff!r}")
    kept = recording.keep()
    recording.report_limits(kept["tau"])
    recording.report_constant(kept["q"], kept["tau"])
    segment = np.repeat(np.arange(len(recording.parts), dtype=np.int32),
                        [len(part) - 2 * recording.drop for part in recording.parts])
    weight = _weights(kept["q"], v, recording.noise, segment)
    recording.report_repeats(repeats[weight[:len(repeats)] == 1.0])
    return Samples(kept["time"], kept["q"], v, a, kept["tau"], weight, segment, kept["f_ext"],
                   known[0], kept["in_contact"], tuple(recording.warnings), recording.filter,
                   recording.cutoff)


class _Recording:
    """A recording during its preparation.

    Attributes
    ----------
    parts : list of Part
        Rows without a gap.
    drop : int
        Number of rows at the ends of each part that are not kept.
    noise : (nv,) ndarray
        Of the velocities.
    """

    def __init__(self, model: Model, time: Array, raw: dict[str, Array | None],
                 in_contact: NDArray[np.bool_] | None) -> None:
        self.model = model
        self.arrays: dict[str, Any] = {"time": time, **raw, "in_contact": in_contact}
        self.warnings: list[str] = []
        self.filter = "Not filtered: velocities and accelerations were given."
        self.noise = np.zeros(model.nv)
        self.cutoff, self.drop, self.period = math.inf, 0, 0.0
        self.parts: list[Part] = []

    def drop_repeated(self) -> None:
        """Drop samples with the time stamp of the sample before."""
        time = self.arrays["time"]
        new = np.concatenate([[True], np.diff(time) != 0.0])
        if new.all():
            return
        first = float(time[np.argmin(new)])
        self.warnings.append(f"dropped {np.sum(~new)} samples that repeat the time stamp of the "
                             f"sample before, the first at {first:.6f} s")
        self.arrays = {name: None if array is None else _compact(array, np.flatnonzero(new))
                       for name, array in self.arrays.items()}

    def find_parts(self) -> None:
        """Split at gaps and resets."""
        time = self.arrays["time"]
        if len(time) < 2:
            raise ValueError("time: all samples have the same time stamp")
        self.parts, self.period = parts_of(time, GAP)
        if not _SHORTEST_PERIOD < self.period < _LONGEST_PERIOD:
            raise ValueError(f"time: expected stamps in s, got a sampling period of "
                             f"{self.period:.6g} s; convert other units")
        if len(self.parts) == 1:
            return
        steps = [(time[part.start] - time[part.start - 1], time[part.start - 1])
                 for part in self.parts[1:]]
        for what, found in (("gaps", [pair for pair in steps if pair[0] > 0.0]),
                            ("jumps back", [pair for pair in steps if pair[0] < 0.0])):
            if found:
                largest, when = max(found, key=lambda pair: abs(pair[0]))
                self.warnings.append(f"time has {len(found)} {what}, the largest of "
                                     f"{abs(largest):.6g} s at {when:.6f} s")

    def choose(self, cutoff: float | None) -> None:
        """Choose the cutoff, and estimate the noise of the velocities that it leaves."""
        rate = 1.0 / self.period
        given = self.arrays["v"] is not None
        source = self.arrays["v" if given else "q"]
        if max(map(len, self.parts)) < 2 * _SHORTEST:
            raise ValueError(f"expected a segment of at least {2 * _SHORTEST} samples without a "
                             f"gap, got {max(map(len, self.parts))}; the sampling period is "
                             f"{self.period:.6g} s")
        spectra = [spectrum(self.arrays["time"], column, self.parts, rate) for column in source.T]
        if cutoff is None:
            longest = self.period * max(map(len, self.parts))
            self.cutoff = choose_cutoff(spectra, rate, longest, 1 if given else 2)
            if self.cutoff > 0.99 * HIGHEST * rate:
                self.warnings.append(
                    f"the motion contains frequencies up to {self.cutoff:.3g} Hz, too many for "
                    f"{rate:.6g} samples per second: record more samples per second, or slower "
                    "motions")
        else:
            self.cutoff = float(finite_array("cutoff", cutoff, ()))
            if not 0.0 < self.cutoff <= _FASTEST * rate:
                raise ValueError(f"cutoff: expected more than 0 and at most {_FASTEST * rate:.6g} "
                                 f"Hz, {_FASTEST} of the sampling rate, got {self.cutoff:g}")
        self.drop = settling_samples(rate, self.cutoff)
        self._estimate_noise(spectra, given)
        self.filter = (
            f"Butterworth low-pass of order {ORDER}, forward and backward, of "
            f"{'velocities' if given else 'positions'} at {rate:.6g} samples per second; cutoff "
            f"{self.cutoff:.4g} Hz, {'chosen from their spectra' if cutoff is None else 'given'}; "
            f"{self.drop} samples dropped at each end of a segment; torques are not filtered.")

    def _estimate_noise(self, spectra: list[Spectrum], given: bool) -> None:
        noise = np.array([found.noise(self.cutoff, 0 if given else 1) for found in spectra])
        if given:
            self.noise = noise
            return
        for joint in coordinates(self.model):
            self.noise[joint.v] = velocity_noise(joint.kind, noise[joint.q])

    def drop_short(self) -> None:
        """Drop segments of which nothing would remain."""
        least = 2 * self.drop + _SHORTEST
        short = [part for part in self.parts if len(part) < least]
        if len(short) == len(self.parts):
            longest = max(map(len, short))
            raise ValueError(
                f"the longest segment has {longest} samples ({longest * self.period:.3g} s); the "
                f"filter with the cutoff {self.cutoff:.4g} Hz needs {least}. Record longer "
                "motions without gaps, or pass a larger cutoff")
        if short:
            self.warnings.append(f"dropped {len(short)} segments of fewer than {least} samples, "
                                 f"{sum(map(len, short))} samples in total")
            self.parts = [part for part in self.parts if len(part) >= least]

    def differentiate(self) -> tuple[Array, Array]:
        """Filter positions in place; return velocities and accelerations of the kept rows."""
        self._report_frozen()
        kept = sum(len(part) - 2 * self.drop for part in self.parts)
        v, a = np.empty((2, kept, self.model.nv))
        for joint in coordinates(self.model):
            row = 0
            for part in self.parts:
                rows = slice(row, row + len(part) - 2 * self.drop)
                self._differentiate(joint, part, rows, v, a)
                row = rows.stop
        return v, a

    def _differentiate(self, joint: Coordinates, part: Part, rows: slice, v: Array,
                       a: Array) -> None:
        """Compute one joint in one part; write its kept rows, which never precede what is read."""
        time = self.arrays["time"][part.start:part.stop]
        inner = slice(self.drop, len(part) - self.drop)
        q, given = self.arrays["q"], self.arrays["v"]
        rates = self._smooth(time, q[part.start:part.stop, joint.q], inner, 2)
        q[rows, joint.q], v[rows, joint.v], a[rows, joint.v] = velocities(joint.kind, rates)
        if given is not None:
            found = self._smooth(time, given[part.start:part.stop, joint.v], inner, 1)
            v[rows, joint.v], a[rows, joint.v] = found

    def _smooth(self, time: Array, values: Array, inner: slice, order: int) -> list[Array]:
        found = [[rate[inner] for rate in derivatives(time, column, self.cutoff, order)]
                 for column in values.T]
        return [one[0][:, None] if len(one) == 1 else np.stack(one, axis=1)
                for one in zip(*found)]

    def _report_frozen(self) -> None:
        """Warn of joints that do not move."""
        for joint in coordinates(self.model):
            q = self.arrays["q"][:, joint.q]
            if max(np.ptp(column) for column in q.T) < _STUCK:
                self.warnings.append(
                    f"joint {joint.name!r} moves by less than {_STUCK:g} rad or m in the whole "
                    "recording: its friction and what only its motion reveals stay unknown")

    def repeats(self) -> NDArray[np.bool_]:
        """Whether each kept row has the positions of the row before."""
        q = self.arrays["q"]
        same = np.ones(len(q), bool)
        for column in q.T:
            same[1:] &= column[1:] == column[:-1]
        return same[self.rows()]

    def report_repeats(self, repeats: NDArray[np.bool_]) -> None:
        """Warn of positions that are published more often than they are measured."""
        share = repeats.mean() if repeats.size else 0.0
        if share > _REPEATED:
            self.warnings.append(
                f"{100.0 * share:.0f} % of the samples in motion repeat the positions of the "
                "sample before: they are published more often than they are measured; record "
                "each measurement once")

    def report_limits(self, tau: Array) -> None:
        """Warn of torques at their limits."""
        for k, name in enumerate(self.model.velocity_names):
            limit = self.model.effort_limit[k]
            if not 0.0 < limit < math.inf:
                continue
            count = int(np.sum(np.abs(tau[:, k]) >= _AT_LIMIT * limit))
            if count:
                self.warnings.append(
                    f"the effort of joint {name!r} is at its limit of {limit:g} in {count} of "
                    f"{len(tau)} samples; if it is saturated, the measured one is not the real one")

    def report_constant(self, q: Array, tau: Array) -> None:
        """Warn of torques that never change although their joint moves."""
        for joint in coordinates(self.model):
            k = joint.v.start
            if joint.v.stop - k > 1 or np.ptp(q[:, joint.q]) < _STUCK:
                continue
            if not np.ptp(tau[:, k]) > 0.0:
                self.warnings.append(
                    f"the effort of joint {joint.name!r} is {tau[0, k]:g} in all samples: it is "
                    "not measured, and not used by identify")

    def rows(self) -> NDArray[np.int_]:
        """Indices of the rows that are kept."""
        return np.concatenate([np.arange(part.start + self.drop, part.stop - self.drop)
                               for part in self.parts])

    def keep(self) -> dict[str, Any]:
        """Return the arrays without dropped rows; q is in place already, if it was filtered."""
        rows = self.rows()
        filtered = ("q",) if self.drop else ()
        return {name: None if array is None else array[:len(rows)] if name in filtered
                else _compact(array, rows) for name, array in self.arrays.items()
                if name not in ("v", "a")}


def _compact(array: Any, rows: NDArray[np.int_]) -> Any:
    """Move rows to the front of an array, in place, and return them."""
    if len(rows) == rows[-1] - rows[0] + 1:
        return array[rows[0]:rows[-1] + 1]
    for start in range(0, len(rows), _CHUNK):
        some = rows[start:start + _CHUNK]
        array[start:start + len(some)] = array[some]
    return array[:len(rows)]


def is_measured(samples: Samples) -> NDArray[np.bool_]:
    """Whether each torque changes, (nv,): a sensor that does not work shows a constant."""
    found: NDArray[np.bool_] = np.ptp(samples.tau, axis=0) > 0.0
    return found


def _runs(labels: NDArray[Any]) -> list[Part]:
    """Stretches of equal labels."""
    ends = [0, *map(int, np.flatnonzero(np.diff(labels)) + 1), len(labels)]
    return [Part(start, stop) for start, stop in itertools.pairwise(ends)]


def _weights(q: Array, v: Array, noise: Array, segment: NDArray[np.int32]) -> Array:
    """Weights of the samples: less than 1 at rest in one pose."""
    rest, new = np.ones(len(v), bool), np.zeros(len(v), bool)
    for column, sigma in zip(v.T, noise):
        rest &= np.abs(column) <= max(_AT_REST * sigma, _NEARLY * np.abs(column).max())
    for column in q.T:
        new[1:] |= np.abs(np.diff(column)) > _STUCK
    new &= rest                         # another pose; of motions there may be millions
    new[1:] |= (rest[1:] != rest[:-1]) | (segment[1:] != segment[:-1])
    weight = np.ones(len(v))
    for part in _runs(np.cumsum(new, dtype=np.int32)):
        if rest[part.start]:
            weight[part.start:part.stop] = min(1.0, STATIONARY / len(part))
    return weight
