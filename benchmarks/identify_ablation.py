# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Measures what each heuristic of identification buys: errors and intervals without it.

    python benchmarks/identify_ablation.py [--recordings FOLDER] [--write docs/identify_ablation.md]
    python benchmarks/identify_ablation.py --count

Each heuristic is replaced by what remains without it, one at a time, and all cases are identified
again. Simulated cases are recordings of a robot that differs from its description, with a fault
each; errors are those of predicted torques of another motion, relative to their RMS and without
noise, and coverage is the fraction of the 95 % intervals of base parameters that contain the truth.
FOLDER contains folders of real robots: robot.urdf, drives.yaml and recordings, *.csv. Several
recordings are divided into two groups, one recording into three parts; each group is predicted from
the other, each part from the others, and errors are RMS differences from measured torques. Samples
that predictions are compared on are always prepared with all heuristics.

With --count, thresholds are counted: numeric constants of modules and numeric fields of classes.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import copy
import dataclasses
import functools
import importlib
import os
import sys
import time
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

for library in ("OMP", "OPENBLAS", "MKL"):  # several processes run at a time
    os.environ.setdefault(f"{library}_NUM_THREADS", "1")

import multiprocessing

import numpy as np
from scipy.signal import lfilter

import dyn_ros

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "test"))
from identification import faults
from identification.recordings import offsets, perturbed, record, standing, waves
from identification.robots import load, truth
from identification.test_coupled_motors import COUPLING

PACKAGE = ROOT / "dyn_ros" / "identification"
NOT_METHODS = "report", "tables.py"  # pages, and the layout of files
FREQUENCIES = [0.1, 0.2, 0.4, 0.7]  # Hz
IMPORTANT = 0.02  # change of an error that counts


# --- heuristics


class Heuristic(NamedTuple):
    """A part of a method, and what replaces it: values by attribute of a module of the package."""

    what: str
    constants: Sequence[str]  # module.NAME
    without: Mapping[str, Any]
    note: str = ""  # what it buys that is not an error of torques


def _first(*arguments: Any, **options: Any) -> Any:
    return arguments[0]


def _best_cutoff(
    model: Any, tau: Any, segments: Any, rate: Any, limits: Any, rates: Any
) -> float:
    return limits[0]


HEURISTICS: dict[str, Heuristic] = {
    # motion
    "glitches": Heuristic("", (), {"motion.arrays.glitches": lambda model, arrays: (np.zeros(len(arrays["time"]), bool), "")}),
    "repeated rows": Heuristic("", (), {"motion.stamps.repeats": lambda arrays: np.zeros(len(arrays["time"]), bool)}),
    "held efforts": Heuristic("", (), {"motion.stamps.held": lambda q, tau: None}),
    "jitter": Heuristic("", (), {"motion.stamps.corrected": lambda *a: None}),
    "jitter: rounds 1": Heuristic("", (), {"motion.stamps._ROUNDS": 1}),
    "jitter: no clip": Heuristic("", (), {"motion.stamps._FARTHEST": 1e9}),
    "jitter: simpler 1": Heuristic("", (), {"motion.stamps._SIMPLER": 1.0}),
    "jitter: explained .9": Heuristic("", (), {"motion.stamps._EXPLAINED": 0.9}),
    "gaps joined": Heuristic("", (), {"motion.preparation._SHORT": 0.0}),
    "cutoff by torques": Heuristic("", (), {"motion.preparation.best_cutoff": _best_cutoff}),
    "cutoff: systematic 1": Heuristic("", (), {"motion.filtering._SYSTEMATIC": 1.0}),
    "cutoff: no band": Heuristic("", (), {"motion.filtering._BAND": 10.0}),
    "cutoff: nearly 1": Heuristic("", (), {"motion.filtering._NEARLY": 1.0}),
    "cutoff: above 10": Heuristic("", (), {"motion.filtering._ABOVE": 10.0}),
    "cutoff: fastest inf": Heuristic("", (), {"motion.filtering.FASTEST": 1e9, "motion.stamps.FASTEST": 1e9}),
    "cutoff: highest": Heuristic("", (), {"motion.preparation.choose_cutoff": lambda spectra, rate, longest, derivative=2: min(20.0, 0.2 * rate), "motion.preparation.best_cutoff": _best_cutoff}),
    "cutoff: resolution 4": Heuristic("", (), {"motion.filtering._RESOLUTION": 4.0}),
    "rest weight": Heuristic("", (), {"motion.preparation._weights": lambda q, v, noise, segment: np.ones(len(q))}),
    "rest: nearly 0": Heuristic("", (), {"motion.preparation._NEARLY": 0.0}),
    "reversals": Heuristic("", (), {"torque_equations.TorqueEquations.leave_out_reversals": lambda self, parameters: False}),
    "reversals: once": Heuristic("", (), {"least_squares._REVERSALS": 1}),
    "reversals: unclipped": Heuristic("", (), {"motion.reversals._CLIPPED": 1e9}),
    "reversals: all left": Heuristic("", (), {"motion.reversals._LEFT_OUT": 1.0}),
    "reversals: spread 0": Heuristic("", (), {"motion.reversals._SPREAD": 0.0}),
    # noise and outliers
    "correlation": Heuristic("", (), {"torque_equations.TorqueEquations.correlations": lambda self, parameters: np.ones(self.samples.v.shape[1])}),
    "huber": Heuristic("", (), {"least_squares.Problem._without_outliers": lambda self, sums, equations, correlation, first, huber: (sums, first, 0.0, np.full(len(first.noise), np.inf))}),
    "huber: weightings 1": Heuristic("", (), {"least_squares._WEIGHTINGS": 1}),
    "huber: weightings 3": Heuristic("", (), {"least_squares._WEIGHTINGS": 3}),
    "recurring 1": Heuristic("", (), {"least_squares._RECURRING": 1.0}),
    "recurring inf": Heuristic("", (), {"least_squares._RECURRING": 1e9}),
    "rounds 3": Heuristic("", (), {"least_squares._ROUNDS": 3}),
    "attenuation": Heuristic("", (), {"torque_equations.TorqueEquations.attenuation": lambda self, parameters, limit, noise: np.zeros(len(parameters))}),
    "precision": Heuristic("", (), {"least_squares._PRECISION": 0.0}),
    "shrinkage": Heuristic("", (), {"least_squares.Problem._shrinkage": lambda self, value: 1.0}),
    "resolution": Heuristic("", (), {"solution.resolution": lambda efforts: np.zeros(efforts.shape[1])}),
    # intervals
    "alike": Heuristic("", (), {"normal_equations._ALIKE": 9.0}),
    "few recordings": Heuristic("", (), {"normal_equations._widening": lambda covariance, variance, sizes, kinds, count: np.ones(len(kinds))}),
    "whole recordings": Heuristic("", (), {"normal_equations._FEWEST_RECORDINGS": 1000}),
    "brief 0": Heuristic("", (), {"least_squares._BRIEF": 0.0}),
    "short 0": Heuristic("", (), {"least_squares._SHORT": 0}),
    "sample of stretches": Heuristic("", (), {"least_squares._SAMPLE": 20000}),
    "least left": Heuristic("", (), {"normal_equations._LEAST_LEFT": 1e-3}),
    # physical
    "weight 1": Heuristic("", (), {"physical._WEIGHT": 1.0}),
    "unknown friction /10": Heuristic("", (), {"physical._UNKNOWN": 0.002}),
    "nothing 1": Heuristic("", (), {"physical._NOTHING": 1.0}),
    "thin 0": Heuristic("", (), {"physical._THIN": 1e-5}),
    # friction
    "friction: ramp": Heuristic("", (), {"friction_terms._WIDTHS": ()}),
    "friction: distance": Heuristic("", (), {"friction_terms._DISTANCES": ()}),
    "friction: stribeck": Heuristic("", (), {"friction_terms.OPTIONAL": ("root_friction", "load_friction", "friction_distance"), "solution.OPTIONAL": ("root_friction", "load_friction", "friction_distance")}),
    "friction: root": Heuristic("", (), {"solution.OPTIONAL": ("stribeck", "load_friction", "friction_distance")}),
    "friction: load": Heuristic("", (), {"solution.OPTIONAL": ("stribeck", "root_friction", "friction_distance")}),
    "friction: none": Heuristic("", (), {"solution.OPTIONAL": (), "friction_terms._WIDTHS": ()}),
    "friction: narrowed": Heuristic("", (), {"friction_terms._SPREADS": (), "friction_terms._CLOSER": ()}),
    "friction: step (GN)": Heuristic("", (), {"solution._with_friction": lambda problem, some, first: first}),
    "friction: 1 step": Heuristic("", (), {"solution._STEPS": 1}),
    "friction: beyond": Heuristic("", (), {"solution._BEYOND": 1e9}),
    "friction: far": Heuristic("", (), {"solution._FAR": 1e9}),
    "friction: furthest step": Heuristic("", (), {"least_squares._FURTHEST": 1e9}),
    "friction: most 5": Heuristic("", (), {"friction_terms._MOST": 0}),
    "friction: furthest": Heuristic("", (), {"friction_terms._FURTHEST": 1e9}),
    "friction: weightings": Heuristic("", (), {"friction_terms._WEIGHTINGS": 1}),
    "load: otherwise": Heuristic("", (), {"solution._OTHERWISE": 1e9}),
    "noise at rest": Heuristic("", (), {"solution._NOISE": 0.0}),
    "at rest": Heuristic("", (), {"friction_terms.AT_REST": 1e-9, "normal_equations.AT_REST": 1e-9, "motion.cutoff.AT_REST": 1e-9}),
    "negligible": Heuristic("", (), {"solution._NEGLIGIBLE": 0.0, "solution._ROUNDING": 0.0}),
}


# --- cases


class Case(NamedTuple):
    """Recordings to identify from; ``score`` of a result is (errors of joints, inside, total)."""

    model: dyn_ros.Model
    samples: Callable[[], list[dyn_ros.Samples]]  # as prepared with the present heuristics
    score: Callable[[Any], tuple[np.ndarray, int, int]]
    options: Mapping[str, Any] = {}


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
        offset = offsets(real, seed)
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
            known = np.isfinite(base.deviation)
            exactly = matrix @ values
            inside = (base.lower < exactly) & (exactly < base.upper)
            return (
                error / np.sqrt(np.mean(test.tau**2, axis=0)),
                int(inside[known].sum()),
                int(known.sum()),
            )

        return Case(
            model, lambda: [one.samples(model) for one in recordings], score, {"seed": seed, **options}
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


def with_stribeck(model: dyn_ros.Model) -> None:
    """Friction that decreases with velocity."""
    model.drives = model.drives.with_values(stribeck=0.6 * model.friction, stribeck_velocity=0.2)


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

    case = simulated(of_motors, true=free, described=couple)(seed)
    return case


def legged(seed: int) -> Case:
    """A quadruped whose contact forces are unknown."""
    model = load("solo12", "floating")
    true = perturbed(model, seed=seed)
    recording = standing(true, seconds=10.0, rate=250.0, offset=offsets(true, seed), seed=seed)
    test = standing(true, seconds=5.0, rate=100.0, noise=0.0, counts=None, seed=seed + 50)
    exact = test.exact_samples()
    values = truth(recording)

    def score(result: Any) -> tuple[np.ndarray, int, int]:
        torque = result.torque(exact)[:, 6:] - recording.offset[6:]
        error = np.sqrt(np.mean((torque - exact.tau[:, 6:]) ** 2, axis=0))
        base = result.base
        known = np.isfinite(base.deviation)
        exactly = base.matrix[:, : len(values)] @ values
        inside = (base.lower < exactly) & (exactly < base.upper)
        size = np.sqrt(np.mean(exact.tau[:, 6:] ** 2, axis=0))
        return error / size, int(inside[known].sum()), int(known.sum())

    return Case(model, lambda: [recording.samples(model, f_ext=None)], score, {"seed": seed})


SIMULATED: dict[str, Callable[[int], Case]] = {
    "clean": simulated(),
    "panda": simulated(robot="panda"),
    "3 % noise": simulated(noise=0.03),
    "4 s": simulated(cut),
    "50 samples/s": simulated(rate=50.0),
    "fast motion, coarse encoders": simulated(counts=2**13, frequencies=[0.5, 1.1, 2.3], size=0.4),
    "jitter": simulated(lambda one: faults.jittered(faults.with_repeats(one), 1e-3)),
    "gaps": simulated(faults.with_gaps),
    "glitches": simulated(with_glitches),
    "coarse, held efforts": simulated(lambda one: faults.with_coarse_efforts(one, 0.5, 4)),
    "late efforts": simulated(delayed),
    "saturated": simulated(saturated),
    "colored noise": simulated(colored),
    "ripple": simulated(lasting=rippled),
    "pushes": simulated(touched),
    "rest": simulated(resting),
    "abrupt stop": stopped,
    "friction turns": simulated(lasting=faults.with_presliding),
    "friction decreases": simulated(true=with_stribeck),
    "friction of the load": simulated(true=with_load_friction),
    "smooth friction": simulated(lasting=smooth),
    "friction differs": drifting(0.1, 2),
    "friction drifts": drifting(0.1, 5),
    "coupled motors": coupled,
    "contacts": legged,
}


def real_cases(folder: Path) -> Iterator[tuple[str, Callable[[int], Case]]]:
    """A case for each robot of a folder."""
    for robot in sorted(folder.iterdir()):
        if (robot / "robot.urdf").exists() and robot.name != 'ur10e_others':
            yield f"{robot.name}, measured", functools.partial(measured, robot)


@functools.cache
def tables(robot: Path) -> tuple[dyn_ros.Model, list[dict[str, np.ndarray]]]:
    """The robot of a folder, without joints that were not recorded, and its recordings."""
    model = dyn_ros.Model.from_urdf_file(robot / "robot.urdf")
    dyn_ros.load_drives(model, robot / "drives.yaml")
    found = []
    for path in sorted(robot.glob("*.csv")):
        names = path.open().readline().strip().split(",")
        found.append(dict(zip(names, np.loadtxt(path, delimiter=",", skiprows=1).T)))
    model, _ = dyn_ros.read_tables(model, found)
    return model, found


@functools.cache
def prepared(robot: Path, fold: int) -> dyn_ros.Samples:
    """Samples of a fold, prepared with all heuristics."""
    model, _ = tables(robot)
    return dyn_ros.Samples.concatenate(
        [dyn_ros.Samples.from_table(model, one, velocity=False) for one in parts(robot, fold)[1]]
    )


def parts(robot: Path, fold: int) -> tuple[list[Any], list[Any]]:
    """Tables to identify from, and tables that are predicted."""
    _, every = tables(robot)
    if len(every) > 1:
        some = [every[n::2] for n in range(2)]
        return some[fold % 2][:4], some[1 - fold % 2][:4]
    rows = np.arange(len(every[0]["time"])) * 3 // len(every[0]["time"]) == fold % 3
    return [[{name: x[some] for name, x in every[0].items()}] for some in (~rows, rows)]


def measured(robot: Path, fold: int) -> Case:
    """A part of the recordings of a real robot."""
    model, _ = tables(robot)
    test = prepared(robot, fold)

    def score(result: Any) -> tuple[np.ndarray, int, int]:
        return np.array([joint.after for joint in result.errors(test)]), 0, 0

    def samples() -> list[dyn_ros.Samples]:
        given = parts(robot, fold)[0]
        return [dyn_ros.Samples.from_table(model, one, velocity=False) for one in given]

    return Case(model, samples, score)


# --- runs


class Outcome(NamedTuple):
    """What one identification gives."""

    error: np.ndarray  # (nv,)
    inside: int
    total: int
    seconds: float
    failure: str = ""


@contextlib.contextmanager
def replaced(values: Mapping[str, Any]) -> Iterator[None]:
    """Replace attributes of modules of the package, such as "motion.stamps.corrected"."""
    with contextlib.ExitStack() as stack:
        for path, value in values.items():
            module, _, name = path.rpartition(".")
            owner: Any = None
            places = module.split(".")
            for count in range(len(places), 0, -1):
                with contextlib.suppress(ModuleNotFoundError):
                    owner = importlib.import_module(
                        "dyn_ros.identification." + ".".join(places[:count])
                    )
                    break
            for attribute in places[count:]:  # a class
                owner = getattr(owner, attribute)
            before = getattr(owner, name)
            setattr(owner, name, value)
            stack.callback(setattr, owner, name, before)
        yield


def run(case: Case, without: Mapping[str, Any], prepared: list[Any] | None) -> Outcome:
    """Identify a case without a heuristic; from samples that are prepared, or prepare them."""
    began = time.perf_counter()
    try:
        with replaced({"solution.unexplained": lambda *arguments: [], **without}):
            samples = case.samples() if prepared is None else prepared
            result = dyn_ros.identify(case.model, samples, **case.options)
    except (ValueError, np.linalg.LinAlgError, FloatingPointError) as error:
        return Outcome(np.full(case.model.nv, np.nan), 0, 0, 0.0, str(error))
    seconds = time.perf_counter() - began
    return Outcome(*case.score(result), seconds)


@functools.cache
def cases(folder: Path | None) -> dict[str, Callable[[int], Case]]:
    """All cases by name."""
    return SIMULATED | dict(real_cases(folder) if folder else ())


def one_case(task: tuple[str, int, Path | None, tuple[str, ...]]) -> dict[str, Outcome]:
    """The outcomes of a case with all heuristics, "", and without each of them."""
    name, seed, folder, chosen = task
    case, found = cases(folder)[name](seed), {}
    present = case.samples()
    for heuristic in ("", *chosen):
        without = HEURISTICS[heuristic].without if heuristic else {}
        is_prepared = not any(path.startswith("motion.") for path in without)
        found[heuristic] = run(case, without, present if is_prepared else None)
    return found


def memoized(function: Callable[..., Any]) -> Callable[..., Any]:
    """The base parameters of a robot do not change."""
    known: dict[Any, Any] = {}

    def structure(unknowns: Any, seed: int = 0) -> Any:
        key = unknowns.model.name, unknowns.model.nv, unknowns.features, unknowns.active.tobytes()
        if key not in known:
            known[key] = function(unknowns, seed)
        return known[key]

    return structure


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--recordings", type=Path, metavar="FOLDER", help="of real robots")
    parser.add_argument("--seeds", type=int, default=2, help="of each case (default: 2)")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--cases", nargs="*")
    parser.add_argument("--heuristics", nargs="*")
    options = parser.parse_args()
    from dyn_ros.identification import solution

    solution.structure = memoized(solution.structure)
    chosen = tuple(h for h in HEURISTICS if not options.heuristics or any(x in h for x in options.heuristics))
    tasks = [
        (name, seed, options.recordings, chosen)
        for name in cases(options.recordings)
        if not options.cases or any(x in name for x in options.cases)
        for seed in range(options.seeds)
    ]
    outcomes: dict[str, list[dict[str, Outcome]]] = {}
    with multiprocessing.get_context("fork").Pool(options.processes) as pool:
        for task, found in zip(tasks, pool.imap(one_case, tasks)):
            outcomes.setdefault(task[0], []).append(found)
            base = found[""]
            import pickle
            pickle.dump(outcomes, open(f"/tmp/wt/outcomes_{os.getpid()}.pickle", "wb"))
            print("done", task[:2], f"{base.seconds:.2f} s", base.failure or np.round(base.error, 4), base.inside, base.total, flush=True)
    import pickle
    pickle.dump((outcomes), open("/tmp/wt/outcomes.pickle", "wb"))
    for h in chosen:
        rows = []
        for name, found in outcomes.items():
            ratio = [np.log(one[h].error / one[""].error) for one in found]
            mean, worst = np.mean([r.mean() for r in ratio]), np.max(ratio)
            inside = sum(one[h].inside for one in found); total = sum(one[h].total for one in found)
            inside0 = sum(one[""].inside for one in found); total0 = sum(one[""].total for one in found)
            dc = (inside / max(total, 1) - inside0 / max(total0, 1)) * 100
            fail = [one[h].failure for one in found if one[h].failure]
            if abs(mean) > 0.005 or abs(dc) > 0.5 or np.max(np.abs(ratio)) > 0.02 or fail or not np.isfinite(mean):
                rows.append((mean, f"{name}: {100*mean:+.1f} % (joint {100*np.min(ratio):+.0f} to {100*worst:+.0f}), cov {dc:+.1f}{' FAIL ' + fail[0][:60] if fail else ''}"))
        print("##", h)
        for _, text in sorted(rows, reverse=True):
            print("    ", text)
    


if __name__ == "__main__":
    main()
