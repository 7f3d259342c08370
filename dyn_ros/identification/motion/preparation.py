# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Prepares a recording for identification: filters it, computes velocities and accelerations."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...drives.efforts import to_torques
from ...engine.kernel.types import Array, ArrayLike
from ...engine.kernel.validation import finite_number
from ...engine.model.coordinates import JointSlices, joint_slices
from ...engine.model.model import Model
from ...recordings.tables.rows import GAP, measured_rows, readable
from . import arrays, filtering, stamps
from .cutoff import cutoff_from_torques
from .filtering import Segment, Spectrum, cutoff_from_spectra, lowest_cutoff, velocities
from .lag import late_velocities
from .numerics import BLOCK_SIZE, MIN_TRAVEL, NOISE_LIMIT

_SHORT = 0.125  # periods of the cutoff: gaps over which the motion is interpolated
_STATIONARY = 10.0  # samples in motion that weigh as much as a stretch at rest
_SHORTEST = 10  # samples that must remain of a segment
_AT_LIMIT = 0.01  # of the effort limit: a larger difference is not rounding
_SLOW = 0.5  # s: motions are not measured so rarely
_PERIOD_RANGE = 1e-6, 10.0  # s; other sampling periods are in another unit
_FASTEST = 0.4  # largest cutoff that can be chosen, relative to the rate


def prepare(
    model: Model,
    time: ArrayLike,
    raw: dict[str, Array | None],
    contacts: Sequence[str],
    in_contact: ArrayLike | None,
    cutoff: float | None,
) -> dict[str, Any]:
    """Turn a recording into the fields of ``Samples``; see ``Samples.from_arrays``.

    ``raw`` has q, v, a, tau and f_ext, a row for each time stamp, or None if unknown; q and tau are
    always known. The arrays are changed in place.
    """
    states = arrays.known_contacts(model, contacts, in_contact)
    times = arrays.stamps_of(time)
    rows = measured_rows(times, raw)
    arrays.check(model, times, raw, states, rows)
    recording = _Preparation(model, {"time": times, **raw, "in_contact": states})
    recording.drop_corrupt(rows)
    recording.drop_repeated()
    filtering.make_continuous(model, recording.arrays["q"])
    recording.drop_glitches()
    recording.split()
    recording.to_torques()
    v, a = recording.arrays["v"], recording.arrays["a"]
    repeats = held = np.zeros(0, bool)
    if recording.is_filtered:
        recording.correct_stamps()
        recording.choose(cutoff)
        recording.join_gaps()
        recording.report_gaps()
        recording.drop_short()
        recording.report_late()
        repeats, held = recording.repeats(), recording.held()
        v, a = recording.differentiate()
    elif cutoff is not None:
        raise ValueError(f"cutoff: expected None, since v and a are given, got {cutoff!r}")
    else:
        recording.report_gaps()
    kept = recording.keep()
    recording.report_limits(kept["tau"])
    recording.report_constant(kept["q"], kept["tau"])
    segment = np.repeat(
        np.arange(len(recording.segments), dtype=np.int32),
        [len(segment) - 2 * recording.drop for segment in recording.segments],
    )
    weight = _weights(kept["q"], v, recording.noise[1], segment)
    recording.report_repeats(repeats[weight[: len(repeats)] == 1.0])
    kept |= {"v": v, "a": a, "weight": weight, "segment": segment}
    if held.any():
        kept = {
            name: None if array is None else _compact(array, np.flatnonzero(~held))
            for name, array in kept.items()
        }
    return {
        **kept,
        "contacts": tuple(contacts),
        "warnings": tuple(recording.warnings),
        "filter": recording.filter,
        "cutoff": recording.cutoff,
        "motion_noise": recording.noise,
    }


class _Preparation:
    """A recording during its preparation; ``noise`` is ``Samples.motion_noise``."""

    def __init__(self, model: Model, arrays: dict[str, Any]) -> None:
        self.model, self.arrays = model, arrays
        self.warnings: list[str] = []
        self.filter = "Not filtered: velocities and accelerations were given."
        self.noise = np.zeros((3, model.nv))
        self.cutoff, self.period = math.inf, 0.0
        self.segments: list[Segment] = []
        self.drop = 0  # rows at both ends of each segment that are not kept
        self.slots = np.arange(len(arrays["time"]))  # numbers of rows among those measured
        self.is_filtered = arrays["v"] is None or arrays["a"] is None

    def drop_corrupt(self, rows: slice) -> None:
        """Keep these rows only."""
        for start, stop in ((0, rows.start), (rows.stop, len(self.arrays["time"]))):
            if start < stop:
                self.warnings.append(
                    f"left out rows {start} to {stop - 1}, counted from 0, with "
                    "numbers or stamps that cannot be measured"
                )
        self.arrays = {
            name: None if array is None else array[rows] for name, array in self.arrays.items()
        }

    def drop_repeated(self) -> None:
        same = np.concatenate([[False], np.diff(self.arrays["time"]) == 0.0])
        self._drop(same, "that repeat the time stamp of the sample before")
        self.slots = np.arange(len(self.arrays["time"]))
        if self.is_filtered:
            self._drop(stamps.repeats(self.arrays), "that repeat all numbers of the sample before")

    def drop_glitches(self) -> None:
        if self.is_filtered:
            found, first = arrays.glitches(self.model, self.arrays)
            self._drop(
                found,
                "with a position or effort that jumps, and jumps back within two "
                f"samples ({first})",
            )

    def _drop(self, wrong: NDArray[np.bool_], what: str) -> None:
        if not wrong.any():
            return
        first = float(self.arrays["time"][np.argmax(wrong)])
        self.warnings.append(
            f"dropped {np.sum(wrong)} samples {what}, the first at {readable(first)} s"
        )
        rows = np.flatnonzero(~wrong)
        self.arrays = {
            name: None if array is None else _compact(array, rows)
            for name, array in self.arrays.items()
        }
        self.slots = self.slots[rows]

    def correct_stamps(self) -> None:
        """Remove the jitter of the stamps."""
        time, rate = self.arrays["time"], 1.0 / self.period
        corrected = stamps.corrected(
            time,
            self.arrays["q"],
            self.slots,
            self.segments,
            self._joined(filtering.highest_cutoff(rate)),
            rate,
        )
        if corrected is not None:
            self.warnings.append(
                f"time stamps jitter by {1e3 * np.std(corrected - time):.2g} ms "
                "(RMS), as the positions show; they are corrected"
            )
            self.arrays["time"] = corrected

    def split(self) -> None:
        time = self.arrays["time"]
        if len(time) < 2:
            raise ValueError("time: all samples have the same time stamp")
        self.segments, self.period = filtering.split_at_gaps(time, GAP)
        if not _PERIOD_RANGE[0] < self.period < _PERIOD_RANGE[1]:
            raise ValueError(
                f"time: expected stamps in s, got a sampling period of "
                f"{self.period:.6g} s; convert other units"
            )

    def to_torques(self) -> None:
        """Turn efforts into torques, which are not held where drives compensate gravity."""
        held = stamps.held(self.arrays["q"], self.arrays["tau"])
        self.arrays = to_torques(self.model, {**self.arrays, "held": held}, self.segments)
        self._held = self.arrays.pop("held")
        self.split()

    def join_gaps(self) -> None:
        """Interpolate the motion over gaps that are short for the filter."""
        self.segments = self._joined(self.cutoff)

    def _joined(self, cutoff: float) -> list[Segment]:
        longest = max(GAP, _SHORT / (cutoff * self.period))
        return filtering.split_at_gaps(self.arrays["time"], longest, self.period)[0]

    def report_gaps(self) -> None:
        time = self.arrays["time"]
        if len(self.segments) == 1:
            return
        steps = [
            (time[segment.start] - time[segment.start - 1], time[segment.start - 1])
            for segment in self.segments[1:]
        ]
        for what, jumps in (
            ("gaps", [pair for pair in steps if pair[0] > 0.0]),
            ("jumps back", [pair for pair in steps if pair[0] < 0.0]),
        ):
            if jumps:
                largest, when = max(jumps, key=lambda pair: abs(pair[0]))
                self.warnings.append(
                    f"time has {len(jumps)} {what}, the largest of "
                    f"{abs(largest):.6g} s at {readable(when)} s"
                )

    def choose(self, cutoff: float | None) -> None:
        """Choose the cutoff, and estimate the noise of the motion that it leaves."""
        rate = 1.0 / self.period
        given = self.arrays["v"] is not None
        source = self.arrays["v" if given else "q"]
        if max(map(len, self.segments)) < 2 * _SHORTEST:
            raise ValueError(
                f"expected a segment of at least {2 * _SHORTEST} samples without a "
                f"gap, got {max(map(len, self.segments))}; the sampling period is "
                f"{self.period:.6g} s"
            )
        if self.period > _SLOW:
            self.warnings.append(
                f"the sampling period is {self.period:.3g} s; if time stamps are "
                "in ms, convert them to s"
            )
        spectra = [
            filtering.spectrum(self.arrays["time"], column, self.segments, rate)
            for column in source.T
        ]
        how = "given"
        if cutoff is None:
            longest = self.period * max(map(len, self.segments))
            first, lowest = (
                limit(spectra, rate, longest, 1 if given else 2)
                for limit in (cutoff_from_spectra, lowest_cutoff)
            )
            self.cutoff = first
            if self.arrays["f_ext"] is None and self.arrays["in_contact"] is None:
                self.cutoff = cutoff_from_torques(
                    self.model,
                    self.arrays["tau"],
                    self._joined(first),
                    rate,
                    (first, lowest),
                    self._rates,
                )
            how = f"chosen {'from their spectra' if self.cutoff == first else 'by torque errors'}"
            if self.cutoff > 0.99 * filtering.MAX_CUTOFF_RATIO * rate:
                self.warnings.append(
                    f"the motion contains frequencies up to {self.cutoff:.3g} Hz, too many for "
                    f"{rate:.6g} samples per second; record more samples per second, or slower "
                    "motions"
                )
        else:
            self.cutoff = finite_number("cutoff", cutoff)
            if not 0.0 < self.cutoff <= _FASTEST * rate:
                raise ValueError(
                    f"cutoff: expected more than 0 and at most {_FASTEST * rate:.6g} "
                    f"Hz, {_FASTEST} of the sampling rate, got {self.cutoff:g}"
                )
        self.drop = filtering.settling_samples(rate, self.cutoff)
        self._estimate_noise(spectra, given)
        self.filter = (
            f"Butterworth low-pass of order {filtering.FILTER_ORDER}, forward and backward, of "
            f"{'velocities' if given else 'positions'} at {rate:.6g} samples per second; cutoff "
            f"{self.cutoff:.4g} Hz, {how}; "
            f"{self.drop} samples dropped at each end of a segment; torques are not filtered."
        )

    def _estimate_noise(self, spectra: list[Spectrum], given: bool) -> None:
        for n in range(2 if given else 3):
            noise = np.array([spectrum.noise(self.cutoff, n) for spectrum in spectra])
            if given:
                self.noise[1 + n] = noise
                continue
            for joint in joint_slices(self.model):
                self.noise[n, joint.v] = filtering.velocity_noise(joint.kind, noise[joint.q])

    def drop_short(self) -> None:
        least = 2 * self.drop + _SHORTEST
        short = [segment for segment in self.segments if len(segment) < least]
        if len(short) == len(self.segments):
            longest = max(map(len, short))
            raise ValueError(
                f"the longest segment has {longest} samples ({longest * self.period:.3g} s); the "
                f"filter with the cutoff {self.cutoff:.4g} Hz needs {least}. Record longer "
                "motions without gaps, or pass a larger cutoff"
            )
        if short:
            self.warnings.append(
                f"dropped {len(short)} segments of fewer than {least} samples, "
                f"{sum(map(len, short))} samples in total"
            )
            self.segments = [segment for segment in self.segments if len(segment) >= least]

    def differentiate(self) -> tuple[Array, Array]:
        """Filter positions in place; return velocities and accelerations of the kept rows."""
        kept = sum(len(segment) - 2 * self.drop for segment in self.segments)
        v, a = np.empty((2, kept, self.model.nv))
        for joint in joint_slices(self.model):
            row = 0
            for segment in self.segments:
                rows = slice(row, row + len(segment) - 2 * self.drop)
                self._differentiate(joint, segment, rows, v, a)
                row = rows.stop
        return v, a

    def _differentiate(
        self, joint: JointSlices, segment: Segment, rows: slice, v: Array, a: Array
    ) -> None:
        """One joint in one segment; writes its kept rows, which never precede what is read."""
        inner = slice(self.drop, len(segment) - self.drop)
        self.arrays["q"][rows, joint.q], v[rows, joint.v], a[rows, joint.v] = self._rates(
            [joint], segment, inner, self.cutoff
        )

    def _rates(
        self, joints: Sequence[JointSlices], segment: Segment, inner: slice, cutoff: float
    ) -> tuple[Array, Array, Array]:
        """Filtered q, v and a of consecutive joints in some rows of a segment."""
        rows, given, first, last = slice(*segment), self.arrays["v"], joints[0], joints[-1]
        time, begin = self.arrays["time"][rows], first.q.start
        smooth = _smooth(time, self.arrays["q"][rows, begin : last.q.stop], inner, cutoff, 2)
        q, v, a = (
            np.concatenate(columns, axis=1)
            for columns in zip(
                *(
                    velocities(
                        joint.kind,
                        [rate[:, joint.q.start - begin : joint.q.stop - begin] for rate in smooth],
                    )
                    for joint in joints
                )
            )
        )
        if given is not None:
            v, a = _smooth(time, given[rows, first.v.start : last.v.stop], inner, cutoff, 1)
        return q, v, a

    def report_late(self) -> None:
        """Report measured velocities that lag behind the positions."""
        rows = slice(*max(self.segments, key=len))
        time, q, v = (self.arrays[name] for name in ("time", "q", "v"))
        late = "" if v is None else late_velocities(self.model, time[rows], q[rows], v[rows])
        if late:
            self.warnings.append(
                f"{late}, as a filter delays them; use the positions alone "
                "(--no-velocity, velocity=False)"
            )

    def repeats(self) -> NDArray[np.bool_]:
        """Whether each kept row has the positions of the row before."""
        q = self.arrays["q"]
        same = np.ones(len(q), bool)
        for column in q.T:
            same[1:] &= column[1:] == column[:-1]
        return same[self.rows()]

    def held(self) -> NDArray[np.bool_]:
        """Whether each kept row repeats the efforts of the row before, as most rows do."""
        held = self._held
        if held is None:
            return np.zeros(0, bool)
        self.warnings.append(
            f"{100.0 * held.mean():.0f} % of the samples repeat the efforts of "
            "the sample before; efforts are published less often than positions, "
            "so these samples are not used"
        )
        return held[self.rows()]

    def report_repeats(self, repeats: NDArray[np.bool_]) -> None:
        share = repeats.mean() if repeats.size else 0.0
        if share > stamps.REPEATED:
            self.warnings.append(
                f"{100.0 * share:.0f} % of the samples in motion repeat the positions of the "
                "sample before, because they are published more often than measured; record "
                "each measurement once"
            )

    def report_limits(self, tau: Array) -> None:
        for k, name in enumerate(self.model.velocity_names):
            limit = self.model.effort_limit[k]
            if not 0.0 < limit < math.inf:
                continue
            beyond = int(np.sum(np.abs(tau[:, k]) > (1.0 + _AT_LIMIT) * limit))
            count = int(np.sum(np.abs(tau[:, k]) >= (1.0 - _AT_LIMIT) * limit)) - beyond
            if count > beyond:  # otherwise the unit or the limit is another one
                self.warnings.append(
                    f"the effort of joint {name!r} is at its limit of {limit:g} in {count} of "
                    f"{len(tau)} samples; if it is saturated, the measured one is not the real one"
                )

    def report_constant(self, q: Array, tau: Array) -> None:
        for joint in joint_slices(self.model):
            k = joint.v.start
            if joint.v.stop - k > 1 or np.ptp(q[:, joint.q]) < MIN_TRAVEL:
                continue
            if not np.ptp(tau[:, k]) > 0.0:
                self.warnings.append(
                    f"the effort of joint {joint.name!r} is {tau[0, k]:g} in all samples; it is "
                    "not measured, and identify does not use it"
                )

    def rows(self) -> NDArray[np.int_]:
        """Indices of the rows that are kept."""
        return np.concatenate(
            [
                np.arange(segment.start + self.drop, segment.stop - self.drop)
                for segment in self.segments
            ]
        )

    def keep(self) -> dict[str, Any]:
        """Return the arrays without dropped rows; q is in place already, if it was filtered."""
        rows = self.rows()
        kept: dict[str, Any] = {}
        for name, array in self.arrays.items():
            if name in ("v", "a"):
                continue
            if array is None:
                kept[name] = None
            elif name == "q" and self.drop:
                kept[name] = array[: len(rows)]
            else:
                kept[name] = _compact(array, rows)
        return kept


def _smooth(time: Array, values: Array, inner: slice, cutoff: float, order: int) -> list[Array]:
    """Filtered signals (n, k) and their derivatives, in some rows."""
    return [rates.T[inner] for rates in filtering.derivatives(time, values.T, cutoff, order)]


def _compact(array: Any, rows: NDArray[np.int_]) -> Any:
    """Move rows to the front of an array, in place, and return them."""
    if len(rows) == rows[-1] - rows[0] + 1:
        return array[rows[0] : rows[-1] + 1]
    for start in range(0, len(rows), BLOCK_SIZE):
        some = rows[start : start + BLOCK_SIZE]
        array[start : start + len(some)] = array[some]
    return array[: len(rows)]


def _weights(q: Array, v: Array, noise: Array, segment: NDArray[np.int32]) -> Array:
    """Weights of the samples: less than 1 at rest in one pose."""
    rest, new = np.ones(len(v), bool), np.zeros(len(v), bool)
    for column, sigma in zip(v.T, noise):
        rest &= np.abs(column) <= NOISE_LIMIT * sigma
    for column in q.T:
        new[1:] |= np.abs(np.diff(column)) > MIN_TRAVEL
    new &= rest  # another pose; of motions there may be millions
    new[1:] |= (rest[1:] != rest[:-1]) | (segment[1:] != segment[:-1])
    weight = np.ones(len(v))
    for stretch in filtering.split_at_cuts(new[1:]):
        if rest[stretch.start]:
            weight[slice(*stretch)] = min(1.0, _STATIONARY / len(stretch))
    return weight
