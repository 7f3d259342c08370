# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Velocities and accelerations from measured positions: a zero-phase filter and its derivatives.

The filter is a Butterworth low-pass that runs forward and backward, so it delays nothing. Its gain
at the frequency f is 1 / (1 + (f / cutoff)^8): an error of 1.5e-5 at a quarter of the cutoff, and
of 4e-3 at half of it. Derivatives are central differences over nine samples, whose error at a
fifth of the sampling rate, the highest cutoff that is chosen, is 1 % and falls with the eighth
power of the frequency: 3e-8 at 20 Hz and 500 samples per second.
"""
from __future__ import annotations

import itertools
import math
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import signal
from scipy.interpolate import CubicSpline

from ..model.types import Array

ORDER = 4
"""Order of the filter, which is applied twice."""

SETTLED = 2.0
"""Periods of the cutoff after which the ends of a recording no longer matter: 1e-3 of a."""

HIGHEST = 0.2
"""Largest cutoff that is chosen, relative to the sampling rate."""

_LOWEST = 5e-4                  # smallest one
_FIRST = np.array([1 / 280, -4 / 105, 1 / 5, -4 / 5, 0.0, 4 / 5, -1 / 5, 4 / 105, -1 / 280])
_SECOND = np.array([-1 / 560, 8 / 315, -1 / 5, 8 / 5, -205 / 72, 8 / 5, -1 / 5, 8 / 315, -1 / 560])
_WINDOW = 20.0                  # shape of the Kaiser window: 150 dB from a peak to what leaks
_RESOLUTION = 8.0               # length of a window [s]
_NEARLY = 0.8
_NOISE_BAND = 0.25, 0.45        # where spectra contain nothing but noise, relative to the rate
_ABOVE = 30.0                   # times the noise floor: motion, even in a spectrum of few windows
_ROUNDING = 1e-13               # the least noise: that of the arithmetic
_BAND = 0.04                    # width of a band of noise, relative to the sampling rate
_AT_REST = 0.01                 # cutoff if nothing moves, relative to the sampling rate
_UNIFORM = 1e-3                 # largest deviation of time stamps from a grid, in periods


class Part(NamedTuple):
    """Consecutive samples without a gap, ``start`` to ``stop``."""

    start: int
    stop: int

    def __len__(self) -> int:
        return self.stop - self.start


class Spectrum(NamedTuple):
    """Power spectral density of a signal.

    Attributes
    ----------
    frequency : (n,) ndarray
        [Hz], from 0, equally spaced.
    density : (n,) ndarray
        One-sided, per Hz.
    floor : float
        Density of the noise.
    """

    frequency: Array
    density: Array
    floor: float

    def noise(self, cutoff: float, derivative: int) -> float:
        """Standard deviation of the noise of a derivative after the filter."""
        gain = _gain(self.frequency, cutoff) * (2.0 * math.pi * self.frequency) ** derivative
        return math.sqrt(self.floor * float(np.sum(gain ** 2)) * self.frequency[1])


def spectrum(time: Array, column: Array, parts: Iterable[Part], rate: float) -> Spectrum:
    """Estimate the spectrum of a signal and its noise floor, by Welch's method.

    Parameters
    ----------
    time, column : (B,) ndarray
    parts : iterable of Part
    rate : float
        Samples per second.

    Returns
    -------
    Spectrum
    """
    parts = list(parts)
    length = 2 ** round(math.log2(max(_RESOLUTION * rate, 64.0)))
    if max(map(len, parts)) < length:       # other parts that are nearly as long count, too
        length = max(round(_NEARLY * max(map(len, parts))), 2)
    window = np.kaiser(length, _WINDOW)
    total, count = np.zeros(length // 2 + 1), 0
    for part in parts:
        values = _on_grid(time[part.start:part.stop], column[part.start:part.stop])[1]
        for start in range(0, len(part) - length + 1, max(length // 2, 1)):
            piece = values[start:start + length]
            total += np.abs(np.fft.rfft((piece - piece.mean()) * window)) ** 2
            count += 1
    density: Array = total * (2.0 / (max(count, 1) * rate * float(np.sum(window ** 2))))
    frequency: Array = np.arange(len(density)) * (rate / length)
    low, high = (share * rate for share in _NOISE_BAND)
    noise = density[(low <= frequency) & (frequency <= high)]
    floor = max(float(np.median(noise)) if noise.size else 0.0, 2.0 * _ROUNDING ** 2 / rate)
    return Spectrum(frequency, density, floor)


def choose_cutoff(spectra: Iterable[Spectrum], rate: float, longest: float,
                  derivative: int = 2) -> float:
    """Return the cutoff with the smallest predicted error of accelerations [Hz].

    The error is the part of the motion that the filter removes, plus the noise that it leaves.
    What rises above the noise floor of a spectrum is the motion, up to the first wide band of
    noise: what is above that, such as vibrations, or images of positions that are sampled less
    often than they are recorded, is not. Each joint counts relative to its own motion.

    Parameters
    ----------
    spectra : iterable of Spectrum
        Of positions, or of velocities.
    rate : float
        Samples per second.
    longest : float
        Duration of the longest part [s]. The filter settles within a fifth of it.
    derivative : int
        Of which the error counts: 2 for positions, 1 for velocities.

    Returns
    -------
    float
    """
    lowest = min(max(_LOWEST * rate, 5.0 * SETTLED / longest), HIGHEST * rate)
    candidates = np.geomspace(lowest, HIGHEST * rate, 100)
    error = np.zeros(len(candidates))
    for found in spectra:
        power = (2.0 * math.pi * found.frequency) ** (2 * derivative)
        motion = _motion(found, rate) * power
        if not motion.sum() > 0.0:
            continue
        for k, cutoff in enumerate(candidates):
            gain = _gain(found.frequency, cutoff)
            noise = np.sum(found.floor * power * gain ** 2)
            error[k] += (np.sum(motion * (1.0 - gain) ** 2) + noise) / motion.sum()
    if not error.any():                     # nothing moves
        return float(max(lowest, _AT_REST * rate))
    return float(candidates[np.argmin(error)])


def _motion(found: Spectrum, rate: float) -> Array:
    """Density of the motion: zero where there is only noise, and above it."""
    above = found.density > _ABOVE * found.floor
    width = max(2, round(_BAND * rate / found.frequency[1]))
    last = np.flatnonzero(above)
    far = np.flatnonzero(np.diff(last) > width)
    if far.size:
        above[last[far[0]] + 1:] = False
    density: Array = np.where(above, found.density, 0.0)
    return density


def _gain(frequency: Array, cutoff: float) -> Array:
    """Gain of the filter, forward and backward."""
    gain: Array = 1.0 / (1.0 + (frequency / cutoff) ** (2 * ORDER))
    return gain


def settling_samples(rate: float, cutoff: float) -> int:
    """Number of samples at each end of a part that are not accurate."""
    return math.ceil(SETTLED * rate / cutoff) + len(_FIRST) // 2


def derivatives(time: Array, column: Array, cutoff: float, order: int) -> list[Array]:
    """Filter a signal and differentiate it.

    Signals whose time stamps are not equally spaced are interpolated to such a grid by a cubic
    spline, and the results back to the time stamps.

    Parameters
    ----------
    time : (n,) ndarray
        Ascending [s].
    column : (n,) ndarray
    cutoff : float
        [Hz].
    order : int
        Of the highest derivative, at most 2.

    Returns
    -------
    list of (n,) ndarray
        The filtered signal and its derivatives. They are not accurate near the ends.
    """
    grid, values = _on_grid(time, column)
    mean = values.mean()
    step = (time[-1] - time[0]) / (len(time) - 1)
    sections = signal.butter(ORDER, cutoff, fs=1.0 / step, output="sos")
    pad = min(math.ceil(3.0 / (step * cutoff)), len(time) - 1)
    smooth = signal.sosfiltfilt(sections, values - mean, padlen=pad)
    del values
    found = [smooth + mean]
    if order >= 1:
        found.append(np.convolve(smooth, -_FIRST, "same") / step)
    if order >= 2:
        found.append(np.convolve(smooth, _SECOND, "same") / step ** 2)
    return found if grid is time else [CubicSpline(grid, one)(time) for one in found]


def _on_grid(time: Array, column: Array) -> tuple[Array, Array]:
    """Interpolate to equally spaced times; nothing is to be done if the stamps are."""
    step = (time[-1] - time[0]) / (len(time) - 1)
    grid = time[0] + step * np.arange(len(time))
    if np.abs(time - grid).max() <= _UNIFORM * step:
        return time, column
    return grid, CubicSpline(time, column)(grid)


def parts_of(time: Array, gap: float) -> tuple[list[Part], float]:
    """Split time stamps at gaps and where they go back.

    Parameters
    ----------
    time : (B,) ndarray
        [s], at least 2, without repeated stamps.
    gap : float
        Number of sampling periods that is a gap.

    Returns
    -------
    parts : list of Part
    period : float
        The median of the sampling periods [s].
    """
    steps = np.diff(time)
    ahead = steps[steps > 0.0]
    if not ahead.size:
        raise ValueError("time: expected stamps that increase, got none that do")
    period = float(np.median(ahead))
    cuts: NDArray[np.int_] = np.flatnonzero((steps < 0.0) | (steps > gap * period)) + 1
    ends = [0, *map(int, cuts), len(time)]
    return [Part(start, stop) for start, stop in itertools.pairwise(ends)], period
