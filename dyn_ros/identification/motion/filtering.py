# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Velocities and accelerations from measured positions: a zero-phase filter and its derivatives.

The gain of the filter is that of a Butterworth low-pass of order 4 that runs forward and backward,
1 / (1 + (f / cutoff)^8), so it delays nothing. The error is 1.5e-5 at a quarter of the cutoff, and
4e-3 at half of it. The gain is applied to the Fourier transform of overlapping blocks, in which
derivatives are exact: central differences of 500 samples per second have an error of 1e-4 at 2 Hz.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from functools import reduce
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.fft import next_fast_len

from ...engine.kernel import lie
from ...engine.kernel.types import Array
from ...engine.model.coordinates import joint_slices
from ...engine.model.model import Model
from .numerics import FILTER_BLOCK_SIZE, ROUNDOFF

FILTER_ORDER = 4  # order in each direction, forward and backward
MAX_CUTOFF_RATIO = 0.2  # chosen cutoff, relative to the sampling rate
REST_SPEED_RATIO = 0.01  # relative to a joint's largest speed; the sign of slower ones is noise
MAX_CUTOFF = 20.0  # Hz, if chosen; faster parts of a motion are jumps of friction
_SETTLING_PERIODS = 2.0  # periods of the cutoff; farther from the ends, a is accurate to 1e-3
_BLOCK_MARGIN = 8.0  # periods of the cutoff, at each end of a block
_KAISER_BETA = 20.0  # shape of the window; leakage is 150 dB below a peak
_WINDOW_LENGTH = 8.0  # s
WINDOW_LENGTH_RATIO = 0.8  # relative to the longest segment, if all are shorter than the window
_BIAS_WEIGHT = 30.0  # weight of removed motion, relative to noise, which averages out
_NOISE_BAND = 0.25, 0.45  # frequencies without motion, relative to the sampling rate
_MIN_SIGNAL_TO_NOISE = 30.0  # density relative to the noise floor, even with few windows
_MAX_REMOVED_VELOCITY = 0.02  # RMS, relative to the velocities
_MIN_NOISE_BAND_WIDTH = 0.04  # relative to the sampling rate; vibrations follow a wider band
MAX_JITTER = 0.01  # sampling periods; stamps with less are treated as equally spaced
_QUATERNION_INDEX = {"floating": 3, "spherical": 0}  # index of its first number in q, by kind
_ANGLE_INDEX = {"continuous": 0, "planar": 2}  # index in q of an angle without limits, by kind


class Segment(NamedTuple):
    """Half-open range of consecutive samples without a gap."""

    start: int
    stop: int

    def __len__(self) -> int:
        return self.stop - self.start


class Spectrum(NamedTuple):
    """Power spectral density of a signal, and the density of its noise."""

    frequency: Array  # (n,) [Hz], from 0, equally spaced
    density: Array  # (n,) one-sided, unit of the signal squared per Hz
    floor: float  # density of the noise, as above

    def noise(self, cutoff: float, derivative: int) -> float:
        """Return the standard deviation of the noise of a filtered derivative."""
        gain = _filter_gain(self.frequency, cutoff) * (2.0 * math.pi * self.frequency) ** derivative
        return math.sqrt(self.floor * float(np.sum(gain**2)) * self.frequency[1])


def estimate_spectrum(
    time: Array, column: Array, segments: Sequence[Segment], rate: float
) -> Spectrum:
    """Return the spectrum of a signal (B,), by Welch's method; the rate is in Hz."""
    length = 2 ** round(math.log2(max(_WINDOW_LENGTH * rate, 64.0)))
    longest = max(map(len, segments))
    if longest < length:  # include segments that are nearly as long
        length = max(round(WINDOW_LENGTH_RATIO * longest), 2)
    window = np.kaiser(length, _KAISER_BETA)
    total, count = np.zeros(length // 2 + 1), 0
    for segment in segments:
        if len(segment) < length:
            continue
        rows = slice(*segment)
        values = _resample_evenly(time[rows], column[rows])[1]
        for start in range(0, len(segment) - length + 1, max(length // 2, 1)):
            piece = values[start : start + length]
            total += np.abs(np.fft.rfft((piece - piece.mean()) * window)) ** 2
            count += 1
    density: Array = total * (2.0 / (max(count, 1) * rate * float(np.sum(window**2))))
    frequency: Array = np.arange(len(density)) * (rate / length)
    low, high = (ratio * rate for ratio in _NOISE_BAND)
    noise = density[(low <= frequency) & (frequency <= high)]
    floor = max(float(np.median(noise)) if noise.size else 0.0, 2.0 * ROUNDOFF**2 / rate)
    return Spectrum(frequency, density, floor)


def highest_cutoff(rate: float) -> float:
    """Return the highest cutoff that is chosen for a sampling rate [Hz]."""
    return min(MAX_CUTOFF_RATIO * rate, MAX_CUTOFF)


def cutoff_from_spectra(
    spectra: Sequence[Spectrum], rate: float, duration: float, derivative: int = 2
) -> float:
    """Return the cutoff with the smallest predicted error of accelerations [Hz].

    The error is the part of the motion that the filter removes, which biases what is identified,
    plus the noise that it leaves. Each joint counts relative to its own motion. The filter settles
    within a fifth of the longest segment, whose duration is in s; ``derivative`` is 2 for spectra
    of positions, 1 for spectra of velocities.
    """
    candidates = np.geomspace(_settled_cutoff(rate, duration), highest_cutoff(rate), 100)
    error = np.zeros(len(candidates))
    gain = _filter_gain(spectra[0].frequency, candidates[:, None])
    stopband_power, passband_power = np.square(1.0 - gain), np.square(gain)
    for spectrum in spectra:
        power = (2.0 * math.pi * spectrum.frequency) ** (2 * derivative)
        motion = _motion_density(spectrum, rate) * power
        if not motion.sum() > 0.0:
            continue
        bias = _BIAS_WEIGHT * (stopband_power @ motion)
        noise = spectrum.floor * (passband_power @ power)
        error += (bias + noise) / motion.sum()
    return float(candidates[np.argmin(error)])


def lowest_cutoff(
    spectra: Sequence[Spectrum], rate: float, duration: float, derivative: int = 2
) -> float:
    """Return the lowest cutoff that leaves all but a fiftieth of the velocities [Hz].

    Each joint counts relative to its own motion; the arguments are as for ``cutoff_from_spectra``.
    """
    candidates = np.geomspace(_settled_cutoff(rate, duration), highest_cutoff(rate), 50)
    removed_power = np.zeros(len(candidates))  # relative, summed over joints
    stopband_power = np.square(1.0 - _filter_gain(spectra[0].frequency, candidates[:, None]))
    for spectrum in spectra:
        power = (2.0 * math.pi * spectrum.frequency) ** (2 * derivative - 2)
        motion = _motion_density(spectrum, rate) * power
        removed_power += stopband_power @ motion / max(motion.sum(), 1e-300)
    removed_power[-1] = 0.0
    return float(candidates[np.argmax(removed_power <= _MAX_REMOVED_VELOCITY**2 * len(spectra))])


def _settled_cutoff(rate: float, duration: float) -> float:
    """Return the cutoff whose filter settles within a fifth of the longest segment [Hz]."""
    return min(5.0 * _SETTLING_PERIODS / duration, highest_cutoff(rate))


def _motion_density(spectrum: Spectrum, rate: float) -> Array:
    """Return the density of the motion: zero where there is only noise, and above its first band.

    Above are vibrations, or images of positions that are sampled less often than recorded.
    """
    is_motion = spectrum.density > _MIN_SIGNAL_TO_NOISE * spectrum.floor
    width = max(2, round(_MIN_NOISE_BAND_WIDTH * rate / spectrum.frequency[1]))
    indices = np.flatnonzero(is_motion)
    gaps = np.flatnonzero(np.diff(indices) > width)
    if gaps.size:
        is_motion[indices[gaps[0]] + 1 :] = False
    density: Array = np.where(is_motion, spectrum.density, 0.0)
    return density


def _filter_gain(frequency: Array, cutoff: float | Array) -> Array:
    """Return the gain of the filter, forward and backward."""
    square = np.square(frequency / cutoff)
    gain: Array = 1.0 / (1.0 + reduce(np.multiply, FILTER_ORDER * [square]))  # faster than a power
    return gain


def settling_samples(rate: float, cutoff: float) -> int:
    """Return the number of samples at each end of a segment that are not accurate."""
    return math.ceil(_SETTLING_PERIODS * rate / cutoff)


def filter_derivatives(time: Array, values: Array, cutoff: float, order: int) -> list[Array]:
    """Return filtered signals (..., n) and their derivatives up to an order of at most 2.

    They are not accurate near the ends. Signals are interpolated if their stamps are not equally
    spaced.
    """
    grid, values = _resample_evenly(time, values)
    step = (time[-1] - time[0]) / (len(time) - 1)
    rates = [np.empty(values.shape) for _ in range(order + 1)]
    margin = math.ceil(_BLOCK_MARGIN / (cutoff * step))
    length = max(FILTER_BLOCK_SIZE, 1 << math.ceil(math.log2(4 * margin)))
    if len(time) + 2 * margin < 2 * length:  # one block
        length = next_fast_len(len(time) + 2 * margin, real=True)
    w = 2.0 * math.pi * np.fft.rfftfreq(length, step)
    gain = _filter_gain(w / (2.0 * math.pi), cutoff)
    inner = length - 2 * margin
    for start in range(0, len(time), inner):
        block = _extend_by_reflection(values, start - margin, start - margin + length)
        count = min(inner, len(time) - start)
        for k, signal in enumerate(_filter_block(block, gain, w, step, order)):
            rates[k][..., start : start + count] = signal[..., margin : margin + count]
    if grid is time:
        return rates
    return [interpolate_signals(grid, signal, time) for signal in rates]


def _filter_block(block: Array, gain: Array, w: Array, step: float, order: int) -> Iterator[Array]:
    """Yield filtered blocks and their derivatives, exact for a line through their ends."""
    count, first = block.shape[-1], block[..., :1]
    slope = (block[..., -1:] - first) / (step * (count - 1))
    line = first + slope * step * np.arange(count)
    transform = gain * np.fft.rfft(block - line)
    yield np.fft.irfft(transform, count) + line
    for k in range(1, order + 1):
        transform *= 1j * w
        yield np.fft.irfft(transform, count) + (slope if k == 1 else 0.0)


def _extend_by_reflection(values: Array, start: int, stop: int) -> Array:
    """Return values from start to stop, reflected at the first and last point beyond the ends."""
    last = values.shape[-1] - 1
    index = np.arange(start, stop)
    clipped = np.clip(index, 0, last)
    mirrored = values[..., np.clip(2 * clipped - index, 0, last)]
    return np.where(index == clipped, mirrored, 2.0 * values[..., clipped] - mirrored)


def interpolate_signals(grid: Array, values: Array, time: Array) -> Array:
    """Return values at other times, by cubic splines."""
    from scipy.interpolate import CubicSpline  # takes 40 MB, and most recordings do not need it

    interpolated: Array = CubicSpline(grid, values, axis=-1)(time)
    return interpolated


def _resample_evenly(time: Array, values: Array) -> tuple[Array, Array]:
    """Return equally spaced times and the values there; the arguments if the stamps are."""
    step = (time[-1] - time[0]) / (len(time) - 1)
    grid = time[0] + step * np.arange(len(time))
    if np.abs(time - grid).max() <= MAX_JITTER * step:
        return time, values
    return grid, interpolate_signals(time, values, grid)


def split_at_gaps(
    time: Array,
    max_gap: float,
    period: float | None = None,
    is_break: NDArray[np.bool_] | bool = False,
) -> tuple[list[Segment], float]:
    """Return segments between gaps, breaks and where stamps go back, and the median period [s].

    The largest gap within a segment is in sampling periods. ``is_break`` (B - 1,) is True for steps
    between rows of different motions.
    """
    steps = np.diff(time)
    if period is None:
        increments = steps[steps > 0.0]
        if not increments.size:
            raise ValueError(
                "time: expected stamps that increase, but no stamp is later than the one before"
            )
        period = float(np.median(increments))
    return split_at_cuts((steps < 0.0) | (steps > max_gap * period) | is_break), period


def split_at_cuts(is_cut: NDArray[np.bool_]) -> list[Segment]:
    """Return the stretches of n samples between cuts, a mask (n - 1,) of the steps."""
    ends = [0, *map(int, np.flatnonzero(is_cut) + 1), len(is_cut) + 1]
    return [Segment(start, stop) for start, stop in itertools.pairwise(ends)]


def split_by_recording(
    recording: NDArray[np.int32] | None, rows: NDArray[Any]
) -> list[NDArray[Any]]:
    """Return the rows of each recording, by the recording (B,) of each row; None if it is one."""
    return np.split(rows, [] if recording is None else np.flatnonzero(np.diff(recording)) + 1)


# --- joints

# Components of quaternions are filtered like other signals: with x = the quaternion and ' its
# conjugate, the angular velocity is 2 x' dx/dt and its derivative 2 x' d2x/dt2, for a quaternion of
# constant length 1. Filtered ones are a little shorter, which the formulas take into account.


def make_continuous(model: Model, q: Array) -> None:
    """Remove jumps by full turns and by changes of sign from q (B, nq), in place."""
    for joint in joint_slices(model):
        if joint.kind in _ANGLE_INDEX:
            angle = q[:, joint.q.start + _ANGLE_INDEX[joint.kind]]
            angle[:] = np.unwrap(angle)
        if joint.kind in _QUATERNION_INDEX:
            x = q[:, joint.q.start + _QUATERNION_INDEX[joint.kind] : joint.q.stop]
            flips = np.sum(x[1:] * x[:-1], axis=1) < 0.0
            x[1:][np.cumsum(flips) % 2 == 1] *= -1.0


def joint_velocities(kind: str, rates: list[Array]) -> tuple[Array, Array, Array]:
    """Return q of unit length, v and a of a joint in its frame, from filtered q, dq/dt, d2q/dt2."""
    q, dq, ddq = rates
    if kind not in ("floating", "planar", "spherical"):
        return q, dq, ddq
    if kind == "planar":
        omega, alpha = dq[:, 2:], ddq[:, 2:]
        inverse_rotation = np.concatenate(
            [np.zeros((len(q), 2)), np.sin(-0.5 * q[:, 2:]), np.cos(0.5 * q[:, 2:])], axis=1
        )
        angular, position = omega * np.array([0.0, 0.0, 1.0]), slice(0, 2)
    else:
        first = _QUATERNION_INDEX[kind]
        x, omega, alpha = _body_rates(*(rate[:, first:] for rate in rates))
        q = np.concatenate([q[:, :first], x], axis=1)
        if kind == "spherical":
            return q, omega, alpha
        inverse_rotation, angular, position = lie.conjugate(x), omega, slice(0, 3)
    count = position.stop
    linear = lie.rotate(inverse_rotation, _pad_to_three(dq[:, position]))
    acceleration = lie.rotate(inverse_rotation, _pad_to_three(ddq[:, position]))
    acceleration -= np.cross(angular, linear)
    return (
        q,
        np.concatenate([linear[:, :count], omega], axis=1),
        np.concatenate([acceleration[:, :count], alpha], axis=1),
    )


def velocity_noise(kind: str, noise: Array) -> Array:
    """Return the standard deviations of a joint's velocities, from the deviations of dq/dt."""
    if kind in _QUATERNION_INDEX:
        first = _QUATERNION_INDEX[kind]
        angular = np.full(3, 2.0 * noise[first:].max())
        return angular if kind == "spherical" else np.r_[np.full(3, noise[:3].max()), angular]
    return noise


def _body_rates(x: Array, dx: Array, ddx: Array) -> tuple[Array, Array, Array]:
    """Return unit quaternions, angular velocities and their derivatives, in the joint's frame."""
    square = np.sum(x * x, axis=1, keepdims=True)
    inverse = lie.conjugate(x) / square
    omega = 2.0 * lie.quaternion_product(inverse, dx)[:, :3]
    change = 2.0 * np.sum(x * dx, axis=1, keepdims=True) / square
    alpha = 2.0 * lie.quaternion_product(inverse, ddx)[:, :3] - change * omega
    return x / np.sqrt(square), omega, alpha


def _pad_to_three(vectors: Array) -> Array:
    """Return vectors (B, 2 or 3) with three components, the last ones 0."""
    padding = 3 - vectors.shape[1]
    return np.pad(vectors, ((0, 0), (0, padding))) if padding else vectors
