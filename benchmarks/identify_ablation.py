# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Measure errors and intervals of identification without each of its heuristics.

    python benchmarks/identify_ablation.py [--recordings FOLDER] [--write docs]
    python benchmarks/identify_ablation.py --count

Each heuristic is replaced by what remains without it, one at a time, and all cases are identified
again. Simulated cases are recordings of a robot that differs from its description, with a fault
each; errors are those of predicted torques of another motion, relative to their RMS and without
noise, and coverage is the fraction of the 95 % intervals of base parameters that contain the truth.
FOLDER contains folders of real robots: robot.urdf, drives.yaml and recordings, *.csv. Several
recordings are divided into two groups, one recording into three parts; each group is predicted from
the other, each part from the others, and errors are RMS differences from measured torques. Samples
that predictions are compared on are always prepared with all heuristics. Each threshold is also
halved and doubled, for the first recording of each simulated case.

With --count, thresholds are counted: numeric constants of modules and numeric fields of classes,
except zeros, which mean that there is nothing.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import copy
import dataclasses
import functools
import importlib
import multiprocessing
import pkgutil
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.signal import lfilter

import dyn_ros

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "test"))
from identification import faults  # noqa: E402
from identification.recordings import (  # noqa: E402
    offsets,
    perturbed,
    record,
    record_flying,
    record_standing,
    waves,
)
from identification.robots import load, truth  # noqa: E402
from identification.test_coupled_motors import COUPLING  # noqa: E402

from dyn_ros.identification.friction_terms import _FormSearch  # noqa: E402

PACKAGE = ROOT / "dyn_ros" / "identification"
NOT_METHODS = "report", "identify_options"  # without thresholds of methods
PREFIX = "dyn_ros.identification."
FREQUENCIES = [0.1, 0.2, 0.4, 0.7]  # Hz
MIN_ERROR_CHANGE = 0.02  # relative; smaller changes of errors are not listed
MIN_COVERAGE_CHANGE = 0.1  # smaller changes of coverage may be single intervals
MAX_LISTED_CASES = 5  # of each heuristic on the page


# --- heuristics


class Heuristic(NamedTuple):
    """Heuristic of a method, with values that replace attributes of modules to disable it."""

    constants: Sequence[str]  # module.NAME
    without: Mapping[str, Any]


def without_widths(
    search: Any, form: Any, transitions: Any = _FormSearch._transition_candidates
) -> list[Any]:
    """Return the transitions of friction in a step, or over a distance."""
    return [candidate for candidate in transitions(search, form) if not candidate.width]


HEURISTICS: dict[str, Heuristic] = {
    "glitches are dropped": Heuristic(
        (
            "measurements._MIN_JUMP_RATIO",
            "measurements._MAX_SPAN_RATIO",
            "measurements._TAIL_FRACTION",
            "numerics.MIN_TRAVEL",
        ),
        {
            "motion.measurements.find_glitches": lambda model, rows: (
                np.zeros(len(rows["time"]), bool),
                "",
            )
        },
    ),
    "repeated rows are dropped": Heuristic(
        ("stamps._NEIGHBOR_ROWS", "stamps.MAX_REPEATED_FRACTION"),
        {"motion.stamps.find_repeats": lambda rows: np.zeros(len(rows["time"]), bool)},
    ),
    "held efforts count once": Heuristic(
        ("stamps.MAX_REPEATED_FRACTION", "stamps._MIN_REGULAR_FRACTION"),
        {"motion.stamps.find_held_efforts": lambda q, tau: None},
    ),
    "joints that are published less often count once": Heuristic(
        (
            "stamps._MIN_NEW_VALUES",
            "stamps._MAX_SUCCESSIVE_FRACTION",
            "stamps._MIN_REGULAR_FRACTION",
            "stamps._MIN_COMMON_FRACTION",
        ),
        {"motion.stamps.find_repeated_joints": lambda model, arrays: None},
    ),
    "time stamps are corrected": Heuristic(
        (
            "filtering.MAX_JITTER",
            "stamps._MAX_DEVIATION_RATIO",
            "stamps._MIN_SPACING",
            "numerics.MIN_SAMPLES",
        ),
        {"motion.stamps.correct_stamps": lambda *arguments: None},
    ),
    "motion is interpolated over short gaps": Heuristic(
        ("preparation._MAX_JOINED_GAP",), {"motion.preparation._MAX_JOINED_GAP": 0.0}
    ),
    "cutoff from spectra": Heuristic(
        ("filtering._BIAS_WEIGHT", "filtering._NOISE_BAND", "filtering._MIN_SIGNAL_TO_NOISE"),
        {
            "motion.preparation.cutoff_from_spectra": lambda spectra, rate, longest, order: (
                0.2 * rate
            ),
            "motion.preparation.cutoff_from_torques": lambda *arguments: arguments[4][0],
        },
    ),
    "cutoff below vibrations": Heuristic(
        ("filtering._MIN_NOISE_BAND_WIDTH",), {"motion.filtering._MIN_NOISE_BAND_WIDTH": 10.0}
    ),
    "cutoff below 20 Hz": Heuristic(
        ("filtering.MAX_CUTOFF",), {"motion.filtering.MAX_CUTOFF": 1e9}
    ),
    "cutoff from torques": Heuristic(
        (
            "cutoff._CUTOFF_RATIOS",
            "filtering._MAX_REMOVED_VELOCITY",
            "numerics.MAX_ERROR_RATIO",
            "numerics.MIN_STANDARD_ERRORS",
        ),
        {"motion.preparation.cutoff_from_torques": lambda *arguments: arguments[4][0]},
    ),
    "a pose at rest counts as ten samples": Heuristic(
        ("preparation._REST_WEIGHT", "numerics.NOISE_LIMIT"),
        {"motion.preparation._sample_weights": lambda q, v, noise, segment: np.ones(len(q))},
    ),
    "samples near reversals are left out": Heuristic(
        (
            "reversals._JUMP_SPREAD",
            "reversals._MAX_EXCLUDED_FRACTION",
            "reversals._MAX_RESIDUAL_RATIO",
            "reversals._MIN_RESIDUALS",
        ),
        {"torque_equations.TorqueEquations.leave_out_reversals": lambda self, x: False},
    ),
    "correlation of the noise": Heuristic(
        ("numerics.FOLDS",),
        {
            "torque_equations.TorqueEquations.correlations": lambda self, x: np.ones(
                self.samples.v.shape[1]
            )
        },
    ),
    "outliers count less": Heuristic(
        ("numerics.MAX_ROUNDS",),
        {
            "least_squares.Estimator._downweight_outliers": (
                lambda self, sums, rows, length, first, _: (
                    sums,
                    first,
                    0.0,
                    np.full(len(first.noise), np.inf),
                )
            )
        },
    ),
    "recurring errors are noise": Heuristic(
        ("least_squares._MAX_NOISE_RESIDUAL",), {"least_squares._MAX_NOISE_RESIDUAL": 1.0}
    ),
    "correction for the noise of the motion": Heuristic(
        (),
        {
            "torque_equations.TorqueEquations.attenuation": lambda self, x, limit, noise: np.zeros(
                len(x)
            )
        },
    ),
    "noise of rounded efforts": Heuristic(
        (), {"solution.rounding_deviation": lambda efforts: np.zeros(efforts.shape[1])}
    ),
    "correlated stretches are merged": Heuristic(
        ("equation_sums._MAX_NEIGHBOR_CORRELATION", "numerics.FOLDS"),
        {"equation_sums._MAX_NEIGHBOR_CORRELATION": 9.0},
    ),
    "wider intervals for two or three recordings": Heuristic(
        ("equation_sums._MIN_RECORDINGS",),
        {
            "equation_sums._variance_ratio": lambda covariance, variance, sizes, numbers, n: (
                np.ones(len(numbers))
            )
        },
    ),
    "short recordings join the previous one": Heuristic(
        ("least_squares._MIN_RELATIVE_LENGTH",), {"least_squares._MIN_RELATIVE_LENGTH": 0.0}
    ),
    "weak prior for parameters missing in the description": Heuristic(
        ("physical.WEAK_WEIGHT",), {"physical.WEAK_WEIGHT": 1.0}
    ),
    "friction distance (Dahl model)": Heuristic(
        ("friction_terms._INITIAL_DISTANCES", "friction_terms._MAX_DISTANCE"),
        {"friction_terms._INITIAL_DISTANCES": ()},
    ),
    "friction ramps and smooth friction": Heuristic(
        ("friction_terms._INITIAL_SPEEDS", "friction_terms._SEARCH_FACTORS"),
        {"friction_terms._FormSearch._transition_candidates": without_widths},
    ),
    "Stribeck friction": Heuristic(
        ("friction_terms._INITIAL_SPEEDS", "friction_terms._SEARCH_FACTORS"),
        {
            "identify_options.OPTIONAL_TERMS": (
                "root_friction",
                "load_friction",
                "friction_distance",
            )
        },
    ),
    "load friction": Heuristic(
        ("solution._MAX_LOAD_CHANGE",),
        {"identify_options.OPTIONAL_TERMS": ("stribeck", "root_friction", "friction_distance")},
    ),
    "outliers count less in the choice of terms": Heuristic(
        (), {"friction_terms._HeldOutLeastSquares._weigh_errors": lambda self, joint, huber: None}
    ),
    "friction terms are kept only if they lower the error significantly": Heuristic(
        ("numerics.MIN_STANDARD_ERRORS",), {"friction_terms.MIN_STANDARD_ERRORS": -np.inf}
    ),
    "fewer stretches for short recordings": Heuristic(
        ("least_squares.MIN_STRETCH_LENGTH",), {"least_squares.MIN_STRETCH_LENGTH": 0}
    ),
    "nearly equal segments in spectra": Heuristic(
        ("filtering.WINDOW_LENGTH_RATIO",), {"motion.filtering.WINDOW_LENGTH_RATIO": 1.0}
    ),
    "the sign of friction is ignored in slow samples": Heuristic(
        ("filtering.REST_SPEED_RATIO",),
        {"friction_terms.REST_SPEED_RATIO": 1e-9, "equation_sums.REST_SPEED_RATIO": 1e-9},
    ),
}
REMOVED = {
    "three rounds of time stamp corrections, their limit, a margin for equal spacing": "none",
    "rest relative to the largest velocity": "none",
    "friction terms must lower the error of most stretches": "none",
    "a lowest cutoff relative to the sampling rate; a highest cutoff of 10 Hz for lags": "none",
    "a wider initial ramp than for tanh; different grids for velocities and widths": (
        "ripple -8 %, late efforts -3 %"
    ),
    "more samples to estimate the scales of friction, causes of errors, and gains": "none",
    "searches for gains near a typical one; signs of gains in later rounds": "none",
    "separate tolerances for rounding, jitter, rest and small jumps": "none",
    "five steps to the scales of friction, and their limits": "none",
    "a cutoff for recordings without motion": "none",
    "least noise relative to the torque; bodies that shrink": "none",
    "priors for changes of friction, and sample counts per direction (payload)": "none",
}
"""Heuristics that were removed, with errors that changed by 2 % and coverage by 1 %."""


# --- cases


class Case(NamedTuple):
    """Recordings to identify from; ``score`` of a result is (errors of joints, inside, total)."""

    model: dyn_ros.Model
    samples: Callable[[], list[dyn_ros.Samples]]  # prepared with all heuristics
    score: Callable[[Any], tuple[np.ndarray, int, int]]
    options: Mapping[str, Any] = {}
    estimate: Callable[..., Any] = dyn_ros.identify


def simulated(
    change: Callable[[Any], Any] = lambda recording: recording,
    *,
    robot: str = "ur10",
    true: Callable[[dyn_ros.Model], None] = lambda model: None,
    described: Callable[[dyn_ros.Model], None] = lambda model: None,
    lasting: Callable[[Any], Any] = lambda recording: recording,
    count: int = 1,
    rate: float = 250.0,
    noise: float = 0.01,
    counts: int = 2**19,
    size: float = 1.2,
    frequencies: Sequence[float] = FREQUENCIES,
    options: Mapping[str, Any] = {},
) -> Callable[[int], Case]:
    """A case with a fault of the recording, or of the robot (``true``, ``lasting``)."""

    def make(seed: int) -> Case:
        model = load(robot)
        real = perturbed(model, seed=seed)
        true(real)
        described(model)
        offset = offsets(real, seed) if options.get("friction", True) else np.zeros(real.nv)
        center = np.clip(0.5 * (model.lower + model.upper), -3.0, 3.0)

        def motion(n: int) -> Callable[..., Any]:
            return waves(center, size, frequencies, 100 * seed + n)

        recordings = [
            change(
                lasting(
                    record(
                        real,
                        motion(n),
                        rate=rate,
                        noise=noise,
                        counts=counts,
                        offset=offset,
                        seed=100 * seed + n,
                    )
                )
            )
            for n in range(count)
        ]
        exact = record(real, motion(50), rate=100.0, noise=0.0, counts=None, offset=offset)
        exact = lasting(exact)
        test = dyn_ros.Samples.from_arrays(
            model, exact.time, exact.exact_q, exact.exact_tau, exact.exact_v, exact.exact_a
        )
        values = truth(recordings[0])

        def score(result: Any) -> tuple[np.ndarray, int, int]:
            error = np.sqrt(np.mean((result.torque(test) - test.tau) ** 2, axis=0))
            base = result.base
            matrix = base.matrix[:, : len(values)]
            is_determined = np.isfinite(base.deviation)
            true_values = matrix @ values
            inside = (base.lower < true_values) & (true_values < base.upper)
            return (
                error / np.sqrt(np.mean(test.tau**2, axis=0)),
                int(inside[is_determined].sum()),
                int(is_determined.sum()),
            )

        return Case(
            model,
            lambda: [recording.samples(model) for recording in recordings],
            score,
            {"seed": seed, **options},
        )

    return make


def with_glitches(recording: Any) -> Any:
    """Single positions and efforts that cannot be."""
    rng = np.random.default_rng(0)
    q, tau = recording.q.copy(), recording.tau.copy()
    rows = rng.choice(len(q), 12, replace=False)
    q[rows[:6], 1] += 0.3
    tau[rows[6:], 2] *= -4.0
    return dataclasses.replace(recording, q=q, tau=tau)


def touched(recording: Any) -> Any:
    """Something pushes three joints, for 0.3 s at a time."""
    tau = recording.tau.copy()
    for start in (2.0, 7.0, 11.0, 16.0):
        rows = (recording.time > start) & (recording.time < start + 0.3)
        tau[rows, :3] += 0.5 * tau.std(axis=0)[:3]
    return dataclasses.replace(recording, tau=tau)


def struck(recording: Any) -> Any:
    """Something strikes all joints, for 0.2 s."""
    rows = np.abs(recording.time - 10.0) < 0.1
    tau = recording.tau + np.where(rows, 30.0, 0.0)[:, None]
    return dataclasses.replace(recording, tau=tau)


def with_held_positions(recording: Any) -> Any:
    """Positions that are measured a quarter as often as they are published."""
    rows = np.arange(len(recording.q)) // 4 * 4
    return dataclasses.replace(recording, q=recording.q[rows])


def with_slow_joints(recording: Any) -> Any:
    """Two joints that are published a tenth as often as the others."""
    rows = np.arange(len(recording.q)) // 10 * 10
    q, tau = recording.q.copy(), recording.tau.copy()
    q[:, -2:], tau[:, -2:] = recording.q[rows, -2:], recording.tau[rows, -2:]
    return dataclasses.replace(recording, q=q, tau=tau)


def colored(recording: Any) -> Any:
    """Noise of torques that is correlated over 0.2 s, in addition."""
    rng = np.random.default_rng(1)
    share = np.exp(-(recording.time[1] - recording.time[0]) / 0.2)
    white = rng.standard_normal(recording.tau.shape) * np.sqrt(1.0 - share**2)
    noise = 0.01 * recording.tau.std(axis=0) * lfilter([1.0], [1.0, -share], white, axis=0)
    return dataclasses.replace(recording, tau=recording.tau + noise)


def rippled(recording: Any) -> Any:
    """A torque that repeats with the angle, in addition."""
    ripple = 0.02 * recording.tau.std(axis=0) * np.sin(12.0 * recording.q)
    return dataclasses.replace(recording, tau=recording.tau + ripple)


def resting(recording: Any) -> Any:
    """The robot rests for 40 s before it moves."""
    step = recording.time[1] - recording.time[0]
    n = round(40.0 / step)
    rng = np.random.default_rng(2)
    held = recording.exact_tau[0] * 0.9 + 0.01 * recording.tau.std(axis=0) * rng.standard_normal(
        (n, recording.tau.shape[1])
    )
    return dataclasses.replace(
        recording,
        time=np.concatenate([step * np.arange(n), n * step + recording.time]),
        q=np.concatenate([np.repeat(recording.q[:1], n, axis=0), recording.q]),
        tau=np.concatenate([held, recording.tau]),
    )


def lost(recording: Any) -> Any:
    """A hundredth of the messages is lost."""
    rows = np.random.default_rng(3).random(len(recording.time)) > 0.01
    return faults.rows_of(recording, rows)


def cut(recording: Any) -> Any:
    """The first 4 s."""
    return faults.rows_of(recording, recording.time < 4.0)


def saturated(recording: Any) -> Any:
    """Efforts that do not exceed 90 % of the largest ones."""
    most = 0.9 * np.abs(recording.tau).max(axis=0)
    return dataclasses.replace(recording, tau=np.clip(recording.tau, -most, most))


def delayed(recording: Any) -> Any:
    """Efforts that are 12 ms late."""
    rows = np.maximum(np.arange(len(recording.time)) - 3, 0)
    return dataclasses.replace(recording, tau=recording.tau[rows])


def smooth(recording: Any) -> Any:
    """Coulomb friction that is a tanh of the velocity, 0.05 rad/s wide."""
    v = recording.exact_v
    change = recording.true.friction * (np.tanh(v / 0.05) - np.sign(v))
    return dataclasses.replace(
        recording, tau=recording.tau + change, exact_tau=recording.exact_tau + change
    )


def drifting(size: float, count: int) -> Callable[[int], Case]:
    """Several recordings, between which friction changes."""

    def make(seed: int) -> Case:
        rng = np.random.default_rng(seed)

        def changed(recording: Any) -> Any:
            true = recording.true
            change = size * rng.standard_normal((2, true.nv)) * [true.friction, true.damping]
            v = recording.exact_v
            return dataclasses.replace(
                recording, tau=recording.tau + change[0] * np.sign(v) + change[1] * v
            )

        return simulated(changed, count=count)(seed)

    return make


def brief(seed: int) -> Case:
    """A recording, and a second of another one, between which friction changes."""
    case = drifting(0.1, 2)(seed)

    def samples() -> list[dyn_ros.Samples]:
        first, second = case.samples()
        return [first, second.take(slice(0, len(second) // 20))]

    return case._replace(samples=samples)


def with_stribeck(model: dyn_ros.Model) -> None:
    """Friction that decreases with velocity."""
    model.drives = model.drives.with_values(stribeck=0.6 * model.friction, stribeck_velocity=0.2)


def without_friction(model: dyn_ros.Model) -> None:
    """No friction."""
    model.friction = model.damping = np.zeros(model.nv)


def with_load_friction(model: dyn_ros.Model) -> None:
    """Friction that grows with the load."""
    model.drives = model.drives.with_values(load_friction=0.07)


def stopped(seed: int) -> Case:
    """A motion that stops abruptly."""
    case = simulated()(seed)
    real = perturbed(load("ur10"), seed=seed)
    motion = faults.stopping(waves(np.zeros(6), 1.2, FREQUENCIES, 100 * seed), 11.0)
    recording = record(real, motion, rate=250.0, noise=0.01, offset=offsets(real, seed), seed=seed)
    return case._replace(samples=lambda: [recording.samples(case.model)])


def coupled(seed: int) -> Case:
    """Two motors that move both joints of a wrist."""

    def of_motors(recording: Any) -> Any:
        tau = np.linalg.solve(COUPLING.T, recording.tau.T).T
        return dataclasses.replace(recording, tau=tau)

    def couple(model: dyn_ros.Model) -> None:
        model.drives = model.drives.with_values(coupling=COUPLING)

    def free(model: dyn_ros.Model) -> None:
        model.armature = np.zeros(6)
        couple(model)

    return simulated(of_motors, true=free, described=couple)(seed)


def legged(seed: int) -> Case:
    """A quadruped whose contact forces are unknown."""
    model = load("solo12", "floating")
    true = perturbed(model, seed=seed)
    recording = record_standing(
        true, seconds=10.0, rate=250.0, offset=offsets(true, seed), seed=seed
    )
    test = record_standing(true, seconds=5.0, rate=100.0, noise=0.0, counts=None, seed=seed + 50)
    exact = test.exact_samples()
    values = truth(recording)

    def score(result: Any) -> tuple[np.ndarray, int, int]:
        torque = result.torque(exact)[:, 6:] - recording.offset[6:]
        error = np.sqrt(np.mean((torque - exact.tau[:, 6:]) ** 2, axis=0))
        base = result.base
        is_determined = np.isfinite(base.deviation)
        true_values = base.matrix[:, : len(values)] @ values
        inside = (base.lower < true_values) & (true_values < base.upper)
        size = np.sqrt(np.mean(exact.tau[:, 6:] ** 2, axis=0))
        return error / size, int(inside[is_determined].sum()), int(is_determined.sum())

    return Case(model, lambda: [recording.samples(model, f_ext=None)], score, {"seed": seed})


def flight(seed: int) -> Case:
    """A quadruped in flight, the torques of whose base are zero."""
    model = load("solo12", "floating")
    true = perturbed(model, seed=seed)
    recording = record_flying(true, flights=8, rate=250.0, offset=offsets(true, seed), seed=seed)
    exact = record_standing(true, seconds=5.0, rate=100.0, noise=0.0, counts=None).exact_samples()
    torque = dyn_ros.rnea(true, dyn_ros.Data(true), exact.q, exact.v, exact.a).copy()
    values = truth(recording)

    def score(result: Any) -> tuple[np.ndarray, int, int]:
        identified = result.identified
        error = (
            dyn_ros.rnea(identified, dyn_ros.Data(identified), exact.q, exact.v, exact.a) - torque
        )
        base = result.base
        is_determined = np.isfinite(base.deviation)
        true_values = base.matrix[:, : len(values)] @ values
        inside = (base.lower < true_values) & (true_values < base.upper)
        size = np.sqrt(np.mean(torque**2, axis=0))
        return (
            np.sqrt(np.mean(error**2, axis=0)) / size,
            int(inside[is_determined].sum()),
            int(is_determined.sum()),
        )

    return Case(model, lambda: [recording.samples(model)], score, {"seed": seed})


def points(seed: int) -> Case:
    """Motions from point to point, all joints of which start and stop together."""
    case = simulated()(seed)
    poses = np.random.default_rng(seed).uniform(-1.2, 1.2, (17, 6))

    def motion(time: np.ndarray) -> tuple[np.ndarray, ...]:
        move = np.minimum(time // 1.2, 15).astype(int)
        x = np.minimum((time - 1.2 * move) / 0.9, 1.0)[:, None]
        turn = poses[move + 1] - poses[move]
        jump = np.where(x < 1.0 / 3.0, 4.5, np.where(x < 2.0 / 3.0, 0.0, -4.5)) * (x < 1.0)
        speed = np.clip(np.minimum(4.5 * x, 4.5 * (1.0 - x)), 0.0, 1.5)
        way = np.where(
            x < 1.0 / 3.0,
            2.25 * x**2,
            np.where(x < 2.0 / 3.0, 1.5 * x - 0.25, 1.0 - 2.25 * (1.0 - x) ** 2),
        )
        return poses[move] + turn * way, turn * speed / 0.9, turn * jump / 0.81

    real = perturbed(load("ur10"), seed=seed)
    recording = record(real, motion, noise=0.01, offset=offsets(real, seed), seed=seed)
    return case._replace(samples=lambda: [recording.samples(case.model)])


LOAD = 2.0  # kg


def pair(
    seed: int, described: dyn_ros.Model, count: int = 2
) -> tuple[dyn_ros.Model, Callable[[], list[dyn_ros.Samples]]]:
    """A robot that carries a load, and its recordings: without the load (if two), and with it."""
    true = perturbed(load("ur10"), seed=seed)
    loaded = copy.copy(true)
    loaded.set_payload("load", "tool0", LOAD, [0.02, -0.03, 0.1], 0.01 * np.eye(3))
    motion = waves(np.zeros(6), 1.5, [0.1, 0.23, 0.5], seed)
    options: dict[str, Any] = {"rate": 100.0, "noise": 0.02, "offset": offsets(true, seed)}
    recordings = [
        record(robot, motion, seed=2 * seed + n, **options)
        for n, robot in enumerate((true, loaded)[-count:])
    ]
    return true, lambda: [recording.samples(described) for recording in recordings]


def weighed(seed: int) -> Case:
    """A load that an identified robot carries."""
    true, samples = pair(seed, load("ur10"), 1)
    true.drives = true.drives.with_values(offset=offsets(true, seed))
    tool = dyn_ros.Inertia(LOAD, np.array([0.02, -0.03, 0.1]), 0.01 * np.eye(3))
    values = tool.dynamic_parameters()

    def score(result: dyn_ros.PayloadEstimate) -> tuple[np.ndarray, int, int]:
        estimated_values = dyn_ros.Inertia(
            result.mass, result.com, result.inertia
        ).dynamic_parameters()
        inside = (result.lower < values) & (values < result.upper)
        is_determined = np.isfinite(result.deviation)
        errors = np.abs(estimated_values - values) / LOAD / np.repeat([1.0, 0.1, 0.01], [1, 3, 6])
        return errors, int(inside[is_determined].sum()), int(is_determined.sum())

    def estimate(model: dyn_ros.Model, samples: list[dyn_ros.Samples]) -> Any:
        return dyn_ros.identify_payload(model, samples[0], "tool0")

    return Case(true, samples, score, {}, estimate)


def with_gains(seed: int) -> Case:
    """Currents of drives, and a load of known mass."""
    model, gains = load("ur10"), np.array([12.1, -12.4, 10.0, 10.3, -9.2, 10.2])
    _, torques = pair(seed, model)

    def samples() -> list[dyn_ros.Samples]:
        return [dataclasses.replace(recorded, tau=recorded.tau / gains) for recorded in torques()]

    def score(result: dyn_ros.GainEstimate) -> tuple[np.ndarray, int, int]:
        inside = (result.lower < gains) & (gains < result.upper)
        return np.abs(result.gain / gains - 1.0), int(inside.sum()), len(gains)

    def estimate(model: dyn_ros.Model, samples: list[dyn_ros.Samples]) -> Any:
        free, loaded = samples
        return dyn_ros.estimate_gains(model, free, loaded, LOAD, "tool0")

    return Case(model, samples, score, {}, estimate)


SIMULATED: dict[str, Callable[[int], Case]] = {
    "clean": simulated(),
    "panda": simulated(robot="panda"),
    "3 % noise": simulated(noise=0.03),
    "4 s": simulated(cut),
    "50 samples/s": simulated(rate=50.0),
    "fast motion, coarse encoders": simulated(counts=2**13, frequencies=[0.5, 1.1, 2.3], size=0.4),
    "jitter": simulated(lambda recording: faults.jittered(faults.with_repeats(recording), 1e-3)),
    "gaps": simulated(faults.with_gaps),
    "lost messages": simulated(lost),
    "glitches": simulated(with_glitches),
    "two joints published less often": simulated(with_slow_joints),
    "coarse, held efforts": simulated(
        lambda recording: faults.with_coarse_efforts(recording, 0.05, 4)
    ),
    "slow motion, held positions": simulated(
        with_held_positions, rate=500.0, frequencies=[0.05, 0.1]
    ),
    "late efforts": simulated(delayed),
    "saturated": simulated(saturated),
    "colored noise": simulated(colored),
    "ripple": simulated(lasting=rippled),
    "pushes": simulated(touched),
    "a blow": simulated(struck),
    "rest": simulated(resting),
    "rest, no friction": simulated(resting, true=without_friction, options={"friction": False}),
    "abrupt stop": stopped,
    "from point to point": points,
    "friction distance": simulated(lasting=faults.with_presliding),
    "Stribeck friction": simulated(true=with_stribeck),
    "load friction": simulated(true=with_load_friction),
    "smooth friction": simulated(lasting=smooth),
    "friction differs": drifting(0.1, 2),
    "friction drifts": drifting(0.1, 5),
    "friction differs, a brief recording": brief,
    "coupled motors": coupled,
    "contacts": legged,
    "flight": flight,
    "a load": weighed,
    "gains": with_gains,
}


def real_cases(folder: Path) -> Iterator[tuple[str, Callable[[int], Case]]]:
    """Yield the name and the case of each robot of a folder."""
    for robot in sorted(folder.iterdir()):
        if (robot / "robot.urdf").exists():
            yield f"{robot.name}, measured", functools.partial(measured, robot)


@functools.cache
def tables(robot: Path) -> tuple[dyn_ros.Model, list[dict[str, np.ndarray]]]:
    """Return the robot of a folder, without unrecorded joints, and its recordings."""
    model = dyn_ros.Model.from_urdf_file(robot / "robot.urdf")
    dyn_ros.load_drives(model, robot / "drives.yaml")
    recordings = []
    for path in sorted(robot.glob("*.csv")):
        names = path.open().readline().strip().split(",")
        recordings.append(dict(zip(names, np.loadtxt(path, delimiter=",", skiprows=1).T)))
    model, _ = dyn_ros.read_tables(model, recordings)
    return model, recordings


@functools.cache
def prepared(robot: Path, fold: int) -> dyn_ros.Samples:
    """Return the test samples of a fold, prepared with all heuristics."""
    model, _ = tables(robot)
    return dyn_ros.Samples.concatenate(
        [
            dyn_ros.Samples.from_table(model, table, velocity=False)
            for table in training_and_test_tables(robot, fold)[1]
        ]
    )


def training_and_test_tables(robot: Path, fold: int) -> tuple[list[Any], list[Any]]:
    """Return tables to identify from, and tables to predict."""
    _, recordings = tables(robot)
    if len(recordings) > 1:
        groups = [recordings[n::2] for n in range(2)]
        return groups[fold % 2][:4], groups[1 - fold % 2][:4]
    columns = recordings[0]
    is_test = np.arange(len(columns["time"])) * 3 // len(columns["time"]) == fold % 3
    return [[{name: x[rows] for name, x in columns.items()}] for rows in (~is_test, is_test)]


def measured(robot: Path, fold: int) -> Case:
    """Return the case of one fold of the recordings of a real robot."""
    model, _ = tables(robot)
    test = prepared(robot, fold)

    def score(result: Any) -> tuple[np.ndarray, int, int]:
        return np.array([joint.after for joint in result.errors(test)]), 0, 0

    def samples() -> list[dyn_ros.Samples]:
        training = training_and_test_tables(robot, fold)[0]
        return [dyn_ros.Samples.from_table(model, table, velocity=False) for table in training]

    return Case(model, samples, score)


# --- runs


class Outcome(NamedTuple):
    """Result of one identification."""

    error: np.ndarray  # (nv,) relative error of each joint
    inside: int
    total: int
    seconds: float
    failure: str = ""


@contextlib.contextmanager
def replaced(values: Mapping[str, Any]) -> Iterator[None]:
    """Replace attributes of modules of the package, such as "motion.stamps.correct_stamps"."""
    with contextlib.ExitStack() as stack:
        for path, value in values.items():
            module, _, name = path.rpartition(".")
            owner: Any = None
            parts = module.split(".")
            for count in range(len(parts), 0, -1):
                with contextlib.suppress(ModuleNotFoundError):
                    owner = importlib.import_module(
                        "dyn_ros.identification." + ".".join(parts[:count])
                    )
                    break
            for attribute in parts[count:]:  # a class
                owner = getattr(owner, attribute)
            original = getattr(owner, name)
            setattr(owner, name, value)
            stack.callback(setattr, owner, name, original)
        yield


def run(case: Case, without: Mapping[str, Any], prepared: list[Any] | None) -> Outcome:
    """Identify a case without a heuristic; from samples that are prepared, or prepare them."""
    began = time.perf_counter()
    try:
        with replaced({"solution.unexplained_error_warnings": lambda *arguments: [], **without}):
            samples = case.samples() if prepared is None else prepared
            result = case.estimate(case.model, samples, **case.options)
    except (ValueError, np.linalg.LinAlgError, FloatingPointError) as error:
        return Outcome(np.full(case.model.nv, np.nan), 0, 0, 0.0, str(error))
    seconds = time.perf_counter() - began
    return Outcome(*case.score(result), seconds)


@functools.cache
def cases(folder: Path | None) -> dict[str, Callable[[int], Case]]:
    """Return all cases by name."""
    return SIMULATED | dict(real_cases(folder) if folder else ())


@functools.cache
def variants() -> dict[str, Mapping[str, Any]]:
    """Return values that replace attributes of modules, for each heuristic and threshold."""
    replacements: dict[str, Mapping[str, Any]] = {"": {}}
    replacements |= {name: heuristic.without for name, heuristic in HEURISTICS.items()}
    for threshold in thresholds():
        for factor in FACTORS:
            replacements[threshold.variant(factor)] = threshold.times(factor)
    return replacements


def one_case(task: tuple[str, int, Path | None, tuple[str, ...]]) -> dict[str, Outcome]:
    """Return the outcomes of a case with all heuristics, "", and without each of them."""
    name, seed, folder, chosen = task
    case, outcomes = cases(folder)[name](seed), {}
    present = case.samples()
    for variant in ("", *chosen):
        without = variants()[variant]
        is_prepared = not any(path.startswith("motion.") for path in without)
        outcomes[variant] = run(case, without, present if is_prepared else None)
    return outcomes


def memoized(function: Callable[..., Any]) -> Callable[..., Any]:
    """Cache base parameters, which do not change from recording to recording."""
    cache: dict[Any, Any] = {}

    def find_base_parameters(unknowns: Any, seed: int = 0) -> Any:
        key = (
            unknowns.model.name,
            unknowns.model.nv,
            unknowns.features,
            unknowns.is_active.tobytes(),
        )
        if key not in cache:
            cache[key] = function(unknowns, seed)
        return cache[key]

    return find_base_parameters


# --- thresholds


FACTORS = 0.5, 2.0


class Threshold(NamedTuple):
    """Numeric constant of a module or class."""

    module: str  # path in the package, such as motion.filtering
    name: str
    text: str
    comment: str

    @property
    def label(self) -> str:
        return f"{self.module.rpartition('.')[2]}.{self.name}"

    def variant(self, factor: float) -> str:
        return f"{self.module}.{self.name} times {factor:g}"

    def times(self, factor: float) -> Mapping[str, Any]:
        """Return the replacements that multiply it in all modules that use it."""
        value = getattr(importlib.import_module(PREFIX + self.module), self.name)
        users = [
            name.removeprefix(PREFIX)
            for name, module in sorted(sys.modules.items())
            if name.startswith(PREFIX) and getattr(module, self.name, None) is value
        ]
        if self.name.startswith("_"):
            users = [self.module]
        return {f"{module}.{self.name}": scaled(value, factor) for module in users}


def scaled(value: Any, factor: float) -> Any:
    """Multiply numbers by a factor; above 0.5 and below 1, divide the distance to 1 by it."""
    if isinstance(value, tuple):
        return tuple(scaled(number, factor) for number in value)
    if isinstance(value, int):
        return max(1, round(factor * value))
    return 1.0 - (1.0 - value) / factor if 0.5 < value < 1.0 else factor * value


@functools.cache
def thresholds() -> tuple[Threshold, ...]:
    """Return the thresholds of the package."""
    results = []
    for _, name, _ in pkgutil.walk_packages([str(PACKAGE)], PREFIX):
        importlib.import_module(name)
    for path in sorted(PACKAGE.rglob("*.py")):
        place = path.relative_to(PACKAGE).with_suffix("")
        if place.parts[0] in NOT_METHODS:
            continue
        text = path.read_text()
        lines = text.splitlines()
        for node in assignments(ast.parse(text)):
            target = node.targets[0] if isinstance(node, ast.Assign) else node.target
            comment = lines[node.lineno - 1].partition("  # ")[2]
            module = ".".join(place.parts)
            results.append(Threshold(module, ast.unparse(target), ast.unparse(node.value), comment))
    return tuple(results)


def assignments(tree: ast.Module) -> Iterator[Any]:
    """Yield assignments of numbers, other than 0, in a module and in its classes."""
    bodies = [tree.body, *(node.body for node in tree.body if isinstance(node, ast.ClassDef))]
    for node in (node for body in bodies for node in body):
        if (
            isinstance(node, (ast.Assign, ast.AnnAssign))
            and node.value is not None
            and is_numeric(node.value)
            and not (isinstance(node.value, ast.Constant) and node.value.value == 0)
        ):
            yield node


def is_numeric(node: ast.expr) -> bool:
    """Return True if an expression consists of numbers alone."""
    if isinstance(node, ast.Constant):
        return isinstance(node.value, (int, float)) and not isinstance(node.value, bool)
    if isinstance(node, ast.UnaryOp):
        return is_numeric(node.operand)
    if isinstance(node, ast.BinOp):
        return is_numeric(node.left) and is_numeric(node.right)
    return isinstance(node, ast.Tuple) and bool(node.elts) and all(map(is_numeric, node.elts))


# --- the page


def changes(outcomes: Sequence[dict[str, Outcome]], heuristic: str) -> tuple[float, float]:
    """Return the relative change of the mean error, and the change of coverage, of one case."""
    ratios = [np.log(outcome[heuristic].error / outcome[""].error) for outcome in outcomes]
    shares = [
        sum(outcome[name].inside for outcome in outcomes)
        / max(sum(outcome[name].total for outcome in outcomes), 1)
        for name in (heuristic, "")
    ]
    mean = float(np.nanmean([np.nanmean(ratio) for ratio in ratios]))
    return float(np.expm1(mean)), shares[0] - shares[1]


def largest_changes(
    outcomes_by_case: Mapping[str, Sequence[dict[str, Outcome]]],
    threshold: Threshold,
    factor: float,
) -> str:
    """Return the cases whose error and coverage change most with a changed threshold."""
    variant, errors, shares = threshold.variant(factor), [], []
    for case, outcomes in outcomes_by_case.items():
        if not (tested := [outcome for outcome in outcomes if variant in outcome]):
            continue
        if any(outcome[variant].failure for outcome in tested):
            return f"{case} fails"
        error, share = changes(tested, variant)
        errors.append((abs(error), f"{case} {100.0 * error:+.0f} %"))
        shares.append((abs(share), f"{case}: coverage {100.0 * share:+.0f} %"))
    largest = (max(errors), MIN_ERROR_CHANGE), (max(shares), MIN_COVERAGE_CHANGE)
    return "; ".join(text for (size, text), minimum in largest if size > minimum) or "-"


def report_heuristics(
    outcomes_by_case: Mapping[str, Sequence[dict[str, Outcome]]],
) -> Iterator[str]:
    """Yield the lines of the page about heuristics."""
    yield "# Ablation of the heuristics of identification"
    yield ""
    seeds = max(map(len, outcomes_by_case.values()), default=0)
    yield (
        "`benchmarks/identify_ablation.py` writes this page. The first table shows how results "
        "change if one heuristic of `identify` is disabled. An error is the RMS error of the "
        "torques that the identified model predicts for another motion. Coverage is the fraction "
        f"of 95 % intervals that contain the true value. Numbers are means of {seeds} recordings. "
        "Cases named *measured* are recordings of [real "
        "robots](real_robots.md#what-was-measured); all other cases are simulated. A case is "
        "listed if the mean error of its joints changes by at least 2 %, or the coverage by at "
        "least 1 %; of more than five cases, those with the largest changes are listed. Another "
        "page shows [how results depend on the thresholds](identify_thresholds.md)."
    )
    yield ""
    yield "| heuristic | thresholds | without it |"
    yield "| --- | --- | --- |"
    for name, heuristic in HEURISTICS.items():
        rows = []
        for case, outcomes in outcomes_by_case.items():
            if failures := [outcome[name].failure for outcome in outcomes if outcome[name].failure]:
                rows.append((np.inf, np.inf, f"{case} fails: {failures[0]:.80}"))
                continue
            mean, coverage = changes(outcomes, name)
            if abs(mean) > MIN_ERROR_CHANGE or abs(coverage) > 0.01:
                share = f", coverage {100.0 * coverage:+.0f} %" if abs(coverage) > 0.005 else ""
                size = max(abs(mean), abs(coverage))
                rows.append((size, mean, f"{case} {100.0 * mean:+.0f} %{share}"))
        largest = sorted(rows, reverse=True)[:MAX_LISTED_CASES]
        texts = [text for _, _, text in sorted(largest, key=lambda row: row[1], reverse=True)]
        if len(rows) > len(largest):
            texts.append(f"{len(rows) - len(largest)} more")
        listed = "; ".join(texts) or "no change"
        yield f"| {name} | {', '.join(heuristic.constants) or '-'} | {listed} |"
    yield ""
    yield "## Heuristics that are not used"
    yield ""
    yield "Without these heuristics, no error or coverage is worse:"
    yield ""
    yield "| heuristic | case whose error changes |"
    yield "| --- | --- |"
    for name, changes_without in REMOVED.items():
        yield f"| {name} | {changes_without} |"


def report_thresholds(
    outcomes_by_case: Mapping[str, Sequence[dict[str, Outcome]]],
) -> Iterator[str]:
    """Yield the lines of the page about thresholds."""
    yield "# Thresholds of identification"
    yield ""
    yield (
        "`benchmarks/identify_ablation.py` writes this page. Errors, coverage and cases are "
        "explained in the [ablation study](identify_ablation.md). The package has "
        f"{len(thresholds())} thresholds: numeric constants of modules and numeric fields "
        "of classes, except in reports and file formats. This table shows how results change if "
        "one threshold is halved or doubled, with one recording of each simulated case."
        " If a threshold is between 0.5 and 1, its distance to 1 is doubled or halved instead. "
        "Constants that are computed from the threshold are not changed. The table names the case"
        " whose error changes most, if it changes by 2 % or more, and the case whose coverage "
        "changes most, if it changes by 10 % or more (several intervals). A dash means that no "
        "case changes so much. If both are dashes, the threshold is listed below the table: it "
        "need not be exact, or it only affects messages, memory, or other functions."
    )
    yield ""
    yield "| threshold | value | meaning | halved | doubled |"
    yield "| --- | --- | --- | --- | --- |"
    unchanged = []
    for threshold in thresholds():
        changed = [largest_changes(outcomes_by_case, threshold, factor) for factor in FACTORS]
        if changed == ["-", "-"]:
            unchanged.append(f"`{threshold.label}`")
            continue
        meaning = threshold.comment.replace("|", "")
        yield f"| {threshold.label} | {threshold.text} | {meaning} | {' | '.join(changed)} |"
    yield ""
    yield f"These thresholds change no case so much: {', '.join(unchanged)}."


def main() -> None:
    """Run the ablation, or count."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--recordings", type=Path, metavar="FOLDER", help="of real robots")
    parser.add_argument("--seeds", type=int, default=1, help="of each simulated case (default: 1)")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--count", action="store_true", help="count thresholds")
    parser.add_argument("--write", type=Path, metavar="DOCS", help="folder of both pages to write")
    parser.add_argument("cases", nargs="*", metavar="CASE", help="part of a case's name")
    options = parser.parse_args()
    if options.count:
        for threshold in thresholds():
            print(f"{threshold.label} = {threshold.text}  # {threshold.comment}")
        print(len(thresholds()))
        return
    from dyn_ros.identification import solution

    solution.find_base_parameters = memoized(solution.find_base_parameters)  # type: ignore[assignment]
    names = tuple(variants())[1:]
    tasks = [
        (
            name,
            seed,
            options.recordings,
            names[: None if seed == 0 and name in SIMULATED else len(HEURISTICS)],
        )
        for name in cases(options.recordings)
        if not options.cases or any(part in name for part in options.cases)
        for seed in range(options.seeds if name in SIMULATED else 2)
    ]
    outcomes_by_case: dict[str, list[dict[str, Outcome]]] = {}
    with multiprocessing.get_context("fork").Pool(options.processes) as pool:
        for task, result in zip(tasks, pool.imap(one_case, tasks)):
            outcomes_by_case.setdefault(task[0], []).append(result)
            print(task[0], result[""].failure or np.round(result[""].error, 4), flush=True)
    for name, report in (
        ("identify_ablation.md", report_heuristics),
        ("identify_thresholds.md", report_thresholds),
    ):
        lines = list(report(outcomes_by_case))
        print(*lines, sep="\n")
        if options.write:
            (options.write / name).write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
