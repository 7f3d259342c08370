# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Preparation of a recording for identification: filtered, with velocities and accelerations."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...drives.efforts import convert_to_torques
from ...engine.kernel.names import short_repr
from ...engine.kernel.types import Array, ArrayLike
from ...engine.kernel.validation import finite_number
from ...engine.model.coordinates import JointSlices, joint_slices
from ...engine.model.model import Model
from ...recordings.jumps import find_jumps
from ...recordings.tables.row_selection import (
    MAX_GAP_PERIODS,
    find_complete_rows,
    format_stamp,
    uncorrupted_rows,
)
from . import filtering, measurements, stamps
from .cutoff import cutoff_from_torques
from .filtering import Segment, Spectrum, cutoff_from_spectra, joint_velocities, lowest_cutoff
from .lag import describe_velocity_lag
from .numerics import BLOCK_SIZE, MIN_TRAVEL, NOISE_LIMIT
from .saturation import find_saturated_efforts

_MAX_JOINED_GAP = 0.125  # periods of the cutoff; the motion is interpolated over shorter gaps
_REST_WEIGHT = 10.0  # total weight of a stretch at rest; a sample in motion has 1
_MIN_SEGMENT_SAMPLES = 10  # samples, without those dropped at both ends
_LIMIT_TOLERANCE = 0.01  # relative to the effort limit, for rounding
_MAX_PERIOD = 0.5  # s; longer sampling periods may be in another unit
_PERIOD_RANGE = 1e-6, 10.0  # s; other sampling periods are in another unit
_MAX_GIVEN_CUTOFF_RATIO = 0.4  # relative to the sampling rate


def prepare_recording(
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
    contact_mask = measurements.make_contact_mask(model, contacts, in_contact)
    times = measurements.copy_stamps(time)
    arrays = {"time": times, **raw, "in_contact": contact_mask}
    measurements.require_equal_lengths(times, arrays)
    recording = _Preparation(model, arrays)
    recording.drop_corrupt(uncorrupted_rows(times, raw))
    recording.drop_unknown()
    measurements.check_measurements(model, recording.arrays, recording.row_numbers)
    recording.drop_repeated()
    filtering.make_continuous(model, recording.arrays["q"])
    recording.drop_glitches()
    recording.remove_jumps()
    recording.split_segments()
    recording.find_saturation()
    recording.interpolate_repeats()
    recording.convert_efforts()
    v, a = recording.arrays["v"], recording.arrays["a"]
    is_repeat = is_held = np.zeros(0, bool)
    if recording.is_filtered:
        recording.correct_stamps()
        recording.choose_cutoff(cutoff)
        recording.join_gaps()
        recording.report_gaps()
        recording.drop_short_segments()
        recording.report_velocity_lag()
        is_repeat, is_held = recording.repeat_mask(), recording.held_effort_mask()
        v, a = recording.differentiate()
    elif cutoff is not None:
        raise ValueError(
            f"cutoff: expected None, since v and a are given, got {short_repr(cutoff)}"
        )
    else:
        recording.report_gaps()
    fields = recording.inner_arrays()
    recording.report_effort_limits(fields["tau"])
    recording.report_constant_efforts(fields["q"], fields["tau"])
    segment = np.repeat(
        np.arange(len(recording.segments), dtype=np.int32),
        [len(segment) - 2 * recording.edge_count for segment in recording.segments],
    )
    weight = _sample_weights(fields["q"], v, recording.noise[1], segment)
    recording.report_repeats(is_repeat[weight[: len(is_repeat)] == 1.0])
    fields |= {"v": v, "a": a, "weight": weight, "segment": segment}
    is_unused = recording.saturation_mask()
    if is_held.any():
        is_unused |= is_held
    if is_unused.any():
        used_rows = np.flatnonzero(~is_unused)
        if not len(used_rows):
            raise ValueError(
                f"no sample remains: {'; '.join(recording.warnings)}; record slower motions"
            )
        fields = {
            name: None if array is None else _move_rows_to_front(array, used_rows)
            for name, array in fields.items()
        }
    return {
        **fields,
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
        self.edge_count = (
            0  # rows dropped at each end of a segment, where the filter has not settled
        )
        self.row_numbers = np.arange(len(arrays["time"]))  # row numbers in the recording
        self.is_filtered = arrays["v"] is None or arrays["a"] is None

    def drop_corrupt(self, rows: slice) -> None:
        """Keep only ``rows``; drop and report the others, which are corrupt."""
        for start, stop in ((0, rows.start), (rows.stop, len(self.arrays["time"]))):
            if start < stop:
                self.warnings.append(
                    f"left out rows {start} to {stop - 1}, counted from 0, with "
                    "numbers or stamps that cannot be measured"
                )
        self.arrays = {
            name: None if array is None else array[rows] for name, array in self.arrays.items()
        }
        self.row_numbers = self.row_numbers[rows]

    def drop_unknown(self) -> None:
        """Drop and report rows in which a number is NaN, which means unknown."""
        columns = [
            ([f"{name}.{coordinate}" for coordinate in coordinates], self.arrays[name])
            for name, coordinates in (
                ("q", self.model.position_names),
                *((name, self.model.velocity_names) for name in ("v", "a", "tau")),
            )
            if self.arrays[name] is not None
        ]
        is_complete, warning = find_complete_rows(
            [*columns, (["time"], self.arrays["time"][:, None])],
            len(self.row_numbers),
            "the recording",
            int(self.row_numbers[0]) if len(self.row_numbers) else 0,
        )
        if is_complete is not None:
            self.warnings.append(warning)
            self._keep(np.flatnonzero(is_complete))

    def drop_repeated(self) -> None:
        """Drop rows with the time stamp, or with all numbers, of the row before."""
        is_repeated = np.concatenate([[False], np.diff(self.arrays["time"]) == 0.0])
        self._drop(is_repeated, "that repeat the time stamp of the sample before")
        self.row_numbers = np.arange(len(self.arrays["time"]))
        if self.is_filtered:
            self._drop(
                stamps.find_repeats(self.arrays), "that repeat all numbers of the sample before"
            )

    def drop_glitches(self) -> None:
        """Drop rows with a position or effort that jumps and jumps back."""
        if self.is_filtered:
            is_glitch, first_glitch = measurements.find_glitches(self.model, self.arrays)
            self._drop(
                is_glitch,
                "with a position or effort that jumps, and jumps back within two "
                f"samples ({first_glitch})",
            )

    def _drop(self, is_dropped: NDArray[np.bool_], reason: str) -> None:
        """Drop rows by a mask, and report their number and the time of the first."""
        if not is_dropped.any():
            return
        first_time = float(self.arrays["time"][np.argmax(is_dropped)])
        self.warnings.append(
            f"dropped {np.sum(is_dropped)} samples {reason}, the first at "
            f"{format_stamp(first_time)} s"
        )
        self._keep(np.flatnonzero(~is_dropped))

    def _keep(self, rows: NDArray[np.intp]) -> None:
        """Keep only some rows."""
        self.arrays = {
            name: None if array is None else _move_rows_to_front(array, rows)
            for name, array in self.arrays.items()
        }
        self.row_numbers = self.row_numbers[rows]

    def remove_jumps(self) -> None:
        """Remove whole turns from positions, drop the rows of glitches, and note other jumps."""
        jumps = find_jumps(self.model, self.arrays["time"], self.arrays["q"])
        self.warnings.extend(jumps.warnings())
        jumps.remove_turns(self.arrays["q"])
        self.arrays["piece"] = np.cumsum(jumps.break_mask(), dtype=np.int32)
        if jumps.glitches:
            self._keep(np.flatnonzero(~jumps.glitch_mask()))

    def correct_stamps(self) -> None:
        """Remove the jitter of the stamps."""
        time, rate = self.arrays["time"], 1.0 / self.period
        corrected = stamps.correct_stamps(
            time,
            self.arrays["q"],
            self.row_numbers,
            self.segments,
            self._segments_with_joined_gaps(filtering.highest_cutoff(rate)),
            rate,
        )
        if corrected is not None:
            self.warnings.append(
                f"time stamps jitter by {1e3 * np.std(corrected - time):.2g} ms "
                "(RMS), as the positions show; they are corrected"
            )
            self.arrays["time"] = corrected

    def split_segments(self) -> None:
        """Split the recording into segments at gaps, and check its sampling period."""
        time = self.arrays["time"]
        if len(time) < 2:
            raise ValueError("time: all samples have the same time stamp")
        self.segments, self.period = self._split_at_gaps(MAX_GAP_PERIODS)
        if not _PERIOD_RANGE[0] < self.period < _PERIOD_RANGE[1]:
            raise ValueError(
                f"time: expected stamps in s, got a sampling period of "
                f"{self.period:.6g} s; convert other units"
            )

    def interpolate_repeats(self) -> None:
        """Interpolate the motion of joints that repeat while others are new, and report them.

        Their efforts remain; the mask "repeats" states which do not count.
        """
        self.arrays["repeats"] = None
        repeats = stamps.find_repeated_joints(self.model, self.arrays) if self.is_filtered else None
        if repeats is None:
            return
        self.arrays["repeats"] = repeats
        for joint in joint_slices(self.model):
            for name, column in (("q", joint.q.start), ("v", joint.v.start)):
                if self.arrays[name] is not None and repeats[:, joint.v.start].any():
                    self._interpolate_column(
                        self.arrays[name][:, column], repeats[:, joint.v.start]
                    )
        fractions = repeats.mean(axis=0)
        names = [
            f"{self.model.velocity_names[k]} ({100.0 * fractions[k]:.0f} %)"
            for k in np.flatnonzero(fractions > stamps.MAX_REPEATED_FRACTION)
        ]
        self.warnings.append(
            "joints are published less often than others, so that their values repeat in many "
            f"samples, which are not used for these joints: {', '.join(names)}"
        )

    def _interpolate_column(self, values: Array, repeats: NDArray[np.bool_]) -> None:
        """Replace repeated values (B,) by splines through the new ones, in each segment."""
        for segment in self.segments:
            rows = np.arange(*segment)
            new_rows = rows[~repeats[rows]]
            if 1 < len(new_rows) < len(rows):
                time, new_time = self.arrays["time"][rows], self.arrays["time"][new_rows]
                inner = np.clip(time, new_time[0], new_time[-1])
                values[rows] = filtering.interpolate_signals(new_time, values[new_rows], inner)

    def _split_at_gaps(
        self, max_gap: float, period: float | None = None
    ) -> tuple[list[Segment], float]:
        """Return segments without gaps or jumps; see ``filtering.split_at_gaps``."""
        is_break = np.diff(self.arrays["piece"]) != 0
        return filtering.split_at_gaps(self.arrays["time"], max_gap, period, is_break)

    def find_saturation(self) -> None:
        """Find efforts that stay at their maximum or minimum, and report them."""
        is_saturated, values = find_saturated_efforts(self.arrays["q"], self.arrays["tau"])
        self.arrays["saturated"] = is_saturated.any(axis=1)
        for name, column, limits in zip(self.model.velocity_names, is_saturated.T, values):
            if limits:
                self.warnings.append(
                    f"the effort of joint {name!r} is saturated: it stays at "
                    f"{' and '.join(f'{limit:.6g}' for limit in limits)} in "
                    f"{100.0 * column.mean():.2g} % of the samples, which are not used; its drive "
                    "reaches a limit, or its sensor the end of its range"
                )

    def saturation_mask(self) -> NDArray[np.bool_]:
        """Return a mask of the inner rows with a saturated effort."""
        mask: NDArray[np.bool_] = self.arrays["saturated"][self.inner_rows()]
        return mask

    def convert_efforts(self) -> None:
        """Turn efforts into torques in place, and find samples with held efforts.

        Torques are not held where drives compensate gravity. May drop rows; splits segments again.
        """
        is_held = stamps.find_held_efforts(self.arrays["q"], self.arrays["tau"])
        self.arrays = convert_to_torques(
            self.model, {**self.arrays, "held": is_held}, self.segments
        )
        self._is_held = self.arrays.pop("held")
        self.split_segments()

    def join_gaps(self) -> None:
        """Interpolate the motion over gaps that are short for the filter."""
        self.segments = self._segments_with_joined_gaps(self.cutoff)

    def _segments_with_joined_gaps(self, cutoff: float) -> list[Segment]:
        """Return the segments between gaps that are long for a filter with a cutoff [Hz]."""
        max_gap = max(MAX_GAP_PERIODS, _MAX_JOINED_GAP / (cutoff * self.period))
        return self._split_at_gaps(max_gap, self.period)[0]

    def report_gaps(self) -> None:
        """Report the number of gaps and jumps back between segments, and the largest ones."""
        time = self.arrays["time"]
        if len(self.segments) == 1:
            return
        piece = self.arrays["piece"]
        steps = [
            (time[segment.start] - time[segment.start - 1], time[segment.start - 1])
            for segment in self.segments[1:]
            if piece[segment.start] == piece[segment.start - 1]
        ]
        for kind, jumps in (
            ("gaps", [pair for pair in steps if pair[0] > 0.0]),
            ("jumps back", [pair for pair in steps if pair[0] < 0.0]),
        ):
            if jumps:
                largest, when = max(jumps, key=lambda pair: abs(pair[0]))
                self.warnings.append(
                    f"time has {len(jumps)} {kind}, the largest of "
                    f"{abs(largest):.6g} s at {format_stamp(when)} s"
                )

    def choose_cutoff(self, cutoff: float | None) -> None:
        """Choose the cutoff unless it is given, and estimate the remaining noise of the motion."""
        rate = 1.0 / self.period
        has_velocities = self.arrays["v"] is not None
        signals = self.arrays["v" if has_velocities else "q"]
        if max(map(len, self.segments)) < 2 * _MIN_SEGMENT_SAMPLES:
            raise ValueError(
                f"expected a segment of at least {2 * _MIN_SEGMENT_SAMPLES} samples without a "
                f"gap, got {max(map(len, self.segments))}; the sampling period is "
                f"{self.period:.6g} s"
            )
        if self.period > _MAX_PERIOD:
            self.warnings.append(
                f"the sampling period is {self.period:.3g} s; if time stamps are "
                "in ms, convert them to s"
            )
        spectra = [
            filtering.estimate_spectrum(self.arrays["time"], column, self.segments, rate)
            for column in signals.T
        ]
        origin = "given"
        if cutoff is None:
            longest = self.period * max(map(len, self.segments))
            derivative = 1 if has_velocities else 2
            highest = cutoff_from_spectra(spectra, rate, longest, derivative)
            lowest = lowest_cutoff(spectra, rate, longest, derivative)
            self.cutoff = highest
            if self.arrays["f_ext"] is None and self.arrays["in_contact"] is None:
                self.cutoff = cutoff_from_torques(
                    self.model,
                    self.arrays["tau"],
                    self._segments_with_joined_gaps(highest),
                    rate,
                    (highest, lowest),
                    self._filter_motion,
                )
            method = "from their spectra" if self.cutoff == highest else "by torque errors"
            origin = f"chosen {method}"
            if self.cutoff > 0.99 * filtering.MAX_CUTOFF_RATIO * rate:
                self.warnings.append(
                    f"the motion contains frequencies up to {self.cutoff:.3g} Hz, too many for "
                    f"{rate:.6g} samples per second; record more samples per second, or slower "
                    "motions"
                )
        else:
            self.cutoff = finite_number("cutoff", cutoff)
            if not 0.0 < self.cutoff <= _MAX_GIVEN_CUTOFF_RATIO * rate:
                raise ValueError(
                    "cutoff: expected more than 0 and at most "
                    f"{_MAX_GIVEN_CUTOFF_RATIO * rate:.6g} Hz, {_MAX_GIVEN_CUTOFF_RATIO} of the "
                    f"sampling rate, got {self.cutoff:g}"
                )
        self.edge_count = filtering.settling_samples(rate, self.cutoff)
        self._estimate_noise(spectra, has_velocities)
        self.filter = (
            f"Butterworth low-pass of order {filtering.FILTER_ORDER}, forward and backward, of "
            f"{'velocities' if has_velocities else 'positions'} at {rate:.6g} samples per second; "
            f"cutoff {self.cutoff:.4g} Hz, {origin}; "
            f"{self.edge_count} samples dropped at each end of a segment; torques are not filtered."
        )

    def _estimate_noise(self, spectra: list[Spectrum], has_velocities: bool) -> None:
        """Estimate the noise of filtered q, v and a, from spectra of velocities or positions."""
        for n in range(2 if has_velocities else 3):
            noise = np.array([spectrum.noise(self.cutoff, n) for spectrum in spectra])
            if has_velocities:
                self.noise[1 + n] = noise
                continue
            for joint in joint_slices(self.model):
                self.noise[n, joint.v] = filtering.velocity_noise(joint.kind, noise[joint.q])

    def drop_short_segments(self) -> None:
        """Drop segments in which the filter does not settle; raise a ValueError if none remains."""
        min_length = 2 * self.edge_count + _MIN_SEGMENT_SAMPLES
        short_segments = [segment for segment in self.segments if len(segment) < min_length]
        if len(short_segments) == len(self.segments):
            longest = max(map(len, short_segments))
            raise ValueError(
                f"the longest segment has {longest} samples ({longest * self.period:.3g} s); the "
                f"filter with the cutoff {self.cutoff:.4g} Hz needs {min_length}. Record longer "
                "motions without gaps, or pass a larger cutoff"
            )
        if short_segments:
            self.warnings.append(
                f"dropped {len(short_segments)} segments of fewer than {min_length} samples, "
                f"{sum(map(len, short_segments))} samples in total"
            )
            self.segments = [segment for segment in self.segments if len(segment) >= min_length]

    def differentiate(self) -> tuple[Array, Array]:
        """Filter positions in place; return velocities and accelerations of the inner rows."""
        count = sum(len(segment) - 2 * self.edge_count for segment in self.segments)
        v, a = np.empty((2, count, self.model.nv))
        for joint in joint_slices(self.model):
            row = 0
            for segment in self.segments:
                rows = slice(row, row + len(segment) - 2 * self.edge_count)
                self._differentiate_joint(joint, segment, rows, v, a)
                row = rows.stop
        return v, a

    def _differentiate_joint(
        self, joint: JointSlices, segment: Segment, rows: slice, v: Array, a: Array
    ) -> None:
        """Differentiate a joint in a segment; ``rows`` to write never precede those to read."""
        inner = slice(self.edge_count, len(segment) - self.edge_count)
        self.arrays["q"][rows, joint.q], v[rows, joint.v], a[rows, joint.v] = self._filter_motion(
            [joint], segment, inner, self.cutoff
        )

    def _filter_motion(
        self, joints: Sequence[JointSlices], segment: Segment, inner: slice, cutoff: float
    ) -> tuple[Array, Array, Array]:
        """Return filtered q, v and a of consecutive joints in the inner rows of a segment."""
        rows, measured_v = slice(*segment), self.arrays["v"]
        first, last = joints[0], joints[-1]
        time, q_start = self.arrays["time"][rows], first.q.start
        rates = _filter_rows(time, self.arrays["q"][rows, q_start : last.q.stop], inner, cutoff, 2)
        motions = [
            joint_velocities(
                joint.kind,
                [rate[:, joint.q.start - q_start : joint.q.stop - q_start] for rate in rates],
            )
            for joint in joints
        ]
        if len(motions) == 1:  # without a copy, which would be as large
            q, v, a = motions[0]
        else:
            q, v, a = (np.concatenate(columns, axis=1) for columns in zip(*motions))
        if measured_v is not None:
            v, a = _filter_rows(
                time, measured_v[rows, first.v.start : last.v.stop], inner, cutoff, 1
            )
        return q, v, a

    def report_velocity_lag(self) -> None:
        """Report measured velocities that lag behind the positions."""
        rows = slice(*max(self.segments, key=len))
        time, q, v = (self.arrays[name] for name in ("time", "q", "v"))
        if v is None:
            return
        if lag := describe_velocity_lag(self.model, time[rows], q[rows], v[rows]):
            self.warnings.append(
                f"{lag}, as a filter delays them; use the positions alone, with velocity=False"
            )

    def repeat_mask(self) -> NDArray[np.bool_]:
        """Return a mask of the inner rows with the positions of the row before."""
        q = self.arrays["q"]
        is_repeat = np.ones(len(q), bool)
        for column in q.T:
            is_repeat[1:] &= column[1:] == column[:-1]
        return is_repeat[self.inner_rows()]

    def held_effort_mask(self) -> NDArray[np.bool_]:
        """Return a mask of the inner rows with held efforts, which it reports; empty if none is."""
        is_held = self._is_held
        if is_held is None:
            return np.zeros(0, bool)
        self.warnings.append(
            f"{100.0 * is_held.mean():.0f} % of the samples repeat the efforts of "
            "the sample before; efforts are published less often than positions, "
            "so these samples are not used"
        )
        return is_held[self.inner_rows()]

    def report_repeats(self, is_repeat: NDArray[np.bool_]) -> None:
        """Report that positions repeat in many rows in motion, by a mask of these."""
        fraction = is_repeat.mean() if is_repeat.size else 0.0
        if fraction > stamps.MAX_REPEATED_FRACTION:
            self.warnings.append(
                f"{100.0 * fraction:.0f} % of the samples in motion repeat the positions of the "
                "sample before, because they are published more often than measured; record "
                "each measurement once"
            )

    def report_effort_limits(self, tau: Array) -> None:
        """Report joints whose effort (B, nv) is often at its limit, but rarely beyond it."""
        for k, name in enumerate(self.model.velocity_names):
            limit = self.model.effort_limit[k]
            if not 0.0 < limit < math.inf:
                continue
            beyond = int(np.sum(np.abs(tau[:, k]) > (1.0 + _LIMIT_TOLERANCE) * limit))
            count = int(np.sum(np.abs(tau[:, k]) >= (1.0 - _LIMIT_TOLERANCE) * limit)) - beyond
            if count > beyond:  # otherwise the unit or the limit is another one
                self.warnings.append(
                    f"the effort of joint {name!r} is at its limit of {limit:g} in {count} of "
                    f"{len(tau)} samples; if it is saturated, the measured one is not the real one"
                )

    def report_constant_efforts(self, q: Array, tau: Array) -> None:
        """Report joints that move while their effort (B, nv) is constant."""
        for joint in joint_slices(self.model):
            k = joint.v.start
            if joint.v.stop - k > 1 or np.ptp(q[:, joint.q]) < MIN_TRAVEL:
                continue
            if not np.ptp(tau[:, k]) > 0.0:
                self.warnings.append(
                    f"the effort of joint {joint.name!r} is {tau[0, k]:g} in all samples; it is "
                    "not measured, and identify does not use it"
                )

    def inner_rows(self) -> NDArray[np.int_]:
        """Return the indices of rows that are not near the ends of segments."""
        return np.concatenate(
            [
                np.arange(segment.start + self.edge_count, segment.stop - self.edge_count)
                for segment in self.segments
            ]
        )

    def inner_arrays(self) -> dict[str, Any]:
        """Return the inner rows of all arrays but v and a; filtered q is in place already."""
        rows = self.inner_rows()
        fields: dict[str, Any] = {}
        for name, array in self.arrays.items():
            if name in ("v", "a", "piece", "saturated"):
                continue
            if array is None:
                fields[name] = None
            elif name == "q" and self.edge_count:
                fields[name] = array[: len(rows)]
            else:
                fields[name] = _move_rows_to_front(array, rows)
        return fields


def _filter_rows(
    time: Array, values: Array, inner: slice, cutoff: float, order: int
) -> list[Array]:
    """Return filtered signals (n, k) and their derivatives, in the inner rows."""
    return [rates.T[inner] for rates in filtering.filter_derivatives(time, values.T, cutoff, order)]


def _move_rows_to_front(array: Any, rows: NDArray[np.int_]) -> Any:
    """Move rows to the front of an array, in place, and return them."""
    if len(rows) == rows[-1] - rows[0] + 1:
        return array[rows[0] : rows[-1] + 1]
    for start in range(0, len(rows), BLOCK_SIZE):
        block = rows[start : start + BLOCK_SIZE]
        array[start : start + len(block)] = array[block]
    return array[: len(rows)]


def _sample_weights(q: Array, v: Array, noise: Array, segment: NDArray[np.int32]) -> Array:
    """Return the weights of the samples, less than 1 at rest in one pose."""
    is_rest, is_new_stretch = np.ones(len(v), bool), np.zeros(len(v), bool)
    for column, sigma in zip(v.T, noise):
        is_rest &= np.abs(column) <= NOISE_LIMIT * sigma
    for column in q.T:
        is_new_stretch[1:] |= np.abs(np.diff(column)) > MIN_TRAVEL
    is_new_stretch &= is_rest  # poses of motions are not counted, as there may be millions
    is_new_stretch[1:] |= (is_rest[1:] != is_rest[:-1]) | (segment[1:] != segment[:-1])
    weight = np.ones(len(v))
    for stretch in filtering.split_at_cuts(is_new_stretch[1:]):
        if is_rest[stretch.start]:
            weight[slice(*stretch)] = min(1.0, _REST_WEIGHT / len(stretch))
    return weight
