# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Count how often the intervals of identified parameters and gains contain the truth.

    python benchmarks/intervals.py [--count 100] [--robot ur10]

Each recording is of another robot: other inertias and friction than described, 40 s of motion, 500
samples per second, encoders of 2^19 counts, and torque noise of 1, 2 or 3 %. Some have friction
that turns over 10 mrad, decreases with velocity or changes its sign smoothly, as tanh(v / width)
with a width of 1 to 30 % of the largest speed, or errors that last: colored noise, a ripple of
the torque over the angle of the joint, or friction that changes between two or five recordings.
"""

import argparse
import copy
import dataclasses
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import numpy as np
from scipy.signal import lfilter

import dyn_ros

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "test"))
from identification.faults import with_presliding
from identification.recordings import (
    Recording,
    offsets,
    perturbed,
    record,
    record_flying,
    record_standing,
    waves,
)
from identification.robots import load, truth
from identification.test_gains import GAINS, MASS, currents

FREQUENCIES = [0.1, 0.2, 0.4, 0.7]  # Hz
WIDTHS = (0.01, 0.03, 0.1, 0.3)  # relative to the largest speed
FRICTION = ("damping", "friction", "offset", "stribeck", "root_friction", "load_friction")

Case: TypeAlias = tuple[dyn_ros.Model, Recording, list[dyn_ros.Samples]]
"""Described model, a recording of the true robot, and samples to identify from."""


def arm(
    robot: str,
    seed: int,
    add_fault: Callable[[Recording], Recording] = lambda recording: recording,
    stribeck: float = 0.0,
    width: float = 0.0,
) -> Case:
    """Return a model, a recording of a robot that differs from it, and samples of two recordings.

    Stribeck friction is relative to Coulomb friction, the width of its smooth step to the largest
    speed.
    """
    model = load(robot)
    true = perturbed(model, seed=seed)
    if stribeck:
        true.drives = true.drives.with_values(
            stribeck=stribeck * true.friction, stribeck_velocity=0.2
        )
    limits = [
        np.where(np.isfinite(limit), limit, default)
        for limit, default in ((model.lower, -3.0), (model.upper, 3.0))
    ]
    middle = np.clip(0.5 * (limits[0] + limits[1]), -3.0, 3.0)
    motion = waves(middle, np.minimum(1.2, 0.45 * (limits[1] - limits[0])), FREQUENCIES, seed)
    if width:
        max_speed = np.abs(motion(np.arange(0.0, 20.0, 0.01))[1]).max(axis=0)
        true.drives = true.drives.with_values(
            friction_velocity=width * max_speed, has_smooth_friction=True
        )
    first, second = (
        add_fault(
            record(
                true,
                motion,
                noise=0.01 * (1 + seed % 3),
                offset=offsets(true, seed),
                seed=seed + part,
            )
        )
        for part in (0, 1000)
    )
    return model, first, [first.samples(model), second.samples(model)]


def colored(seed: int, seconds: float = 0.2) -> Case:
    """Return an arm with additional noise that is correlated over some time [s]."""
    model, recording, samples = arm("ur10", seed)
    rng, share = np.random.default_rng(seed), np.exp(-0.002 / seconds)

    def noise(tau: np.ndarray) -> np.ndarray:
        white = rng.standard_normal(tau.shape) * np.sqrt(1.0 - share**2)
        return 0.01 * tau.std(axis=0) * lfilter([1.0], [1.0, -share], white, axis=0)

    return (
        model,
        recording,
        [
            dataclasses.replace(recorded, tau=recorded.tau + noise(recorded.tau))
            for recorded in samples
        ],
    )


def rippled(seed: int) -> Case:
    """Return an arm with a torque ripple over the angle of each joint, which the model lacks."""
    model, recording, samples = arm("ur10", seed)
    return (
        model,
        recording,
        [
            dataclasses.replace(
                recorded,
                tau=recorded.tau
                + 0.02 * recorded.tau.std(axis=0) * np.sin(12.0 * recorded.q + seed),
            )
            for recorded in samples
        ],
    )


def drifting(seed: int, count: int = 5, size: float = 0.1) -> Case:
    """Return an arm whose friction changes between recordings."""
    model = load("ur10")
    true, rng, samples = perturbed(model, seed=seed), np.random.default_rng(seed), []
    for n in range(count):
        drifted = copy.copy(true)
        drifted.friction, drifted.damping = (
            x * (1.0 + size * rng.standard_normal(6)) for x in (true.friction, true.damping)
        )
        motion = waves(np.zeros(6), 1.2, FREQUENCIES, count * seed + n)
        recording = record(drifted, motion, offset=offsets(true, seed), seed=count * seed + n)
        samples.append(recording.samples(model))
    return model, dataclasses.replace(recording, true=true), samples


def quadruped(record_motion: Callable[..., Recording], seed: int) -> Case:
    """Return a quadruped in contact or in flight."""
    model = load("solo12", "floating")
    true = perturbed(model, seed=seed)
    recording = record_motion(true, offset=offsets(true, seed), seed=seed)
    options = {"f_ext": None} if record_motion is record_standing else {}
    return model, recording, [recording.samples(model, **options)]


KINDS = {
    "ur10": lambda seed: arm("ur10", seed),
    "panda": lambda seed: arm("panda", seed),
    "ur10, friction turns": lambda seed: arm("ur10", seed, with_presliding),
    "ur10, friction decreases": lambda seed: arm("ur10", seed, stribeck=0.6),
    "ur10, smooth friction": lambda seed: arm("ur10", seed, width=WIDTHS[seed % len(WIDTHS)]),
    "panda, smooth friction": lambda seed: arm("panda", seed, width=WIDTHS[seed % len(WIDTHS)]),
    "ur10, smooth friction decreases": lambda seed: arm("ur10", seed, stribeck=0.6, width=0.03),
    "ur10, colored noise": colored,
    "ur10, ripple": rippled,
    "ur10, friction drifts": drifting,
    "ur10, friction differs": lambda seed: drifting(seed, 2),
    "solo12, in contact": lambda seed: quadruped(record_standing, seed),
    "solo12, in flight": lambda seed: quadruped(record_flying, seed),
}


def main() -> None:
    """Print a line for each robot."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=100, help="recordings (default: 100)")
    parser.add_argument("--robot", choices=[*KINDS, "gains"], help="only this one")
    options = parser.parse_args()
    for name in [options.robot] if options.robot else [*KINDS, "gains"]:
        if name == "gains":
            show_gains(options.count)
        else:
            show(name, KINDS[name], options.count)


def show(name: str, make: Callable[[int], Case], count: int) -> None:
    """Identify ``count`` recordings and print the coverage of their intervals."""
    inside_by_name, inside_right_forms, ratios, seconds = {}, [], [], 0.0
    for seed in range(count):
        model, recording, samples = make(seed)
        start = time.perf_counter()
        result = dyn_ros.identify(model, samples, seed=seed)
        seconds += time.perf_counter() - start
        base, values = result.base, truth(recording)
        true = base.matrix[:, : len(values)] @ values
        inside = (base.lower < true) & (true < base.upper)
        is_right = has_true_form(recording.true, result)
        for n in np.flatnonzero(np.isfinite(base.deviation)):
            inside_by_name.setdefault(base.names[n], []).append(inside[n])
            kind, _, joint_text = base.names[n].partition("(")
            if kind in FRICTION and is_right[joint_text.partition(")")[0]]:
                inside_right_forms.append(inside[n])
        noise = (recording.tau - recording.exact_tau).std(axis=0)
        ratios.append(
            [joint.after / sigma for joint, sigma in zip(result.joints, noise) if sigma > 0.0]
        )
        if not dyn_ros.is_physical(result.identified.inertial_parameters).all():
            print(f"seed {seed}: a body is not physical")
    for kind in ("bodies", "friction"):
        shares = [
            np.mean(is_inside)
            for combination, is_inside in inside_by_name.items()
            if combination.startswith(FRICTION) == (kind == "friction")
        ]
        print(
            f"{name}, {kind}: {100.0 * np.mean(shares):.1f} % of the 95 % intervals contain the "
            f"truth (single parameters: {100.0 * min(shares):.0f} to {100.0 * max(shares):.0f} %)"
        )
    print(
        f"    friction whose form is recognized: {100.0 * np.mean(inside_right_forms):.1f} % of "
        f"{len(inside_right_forms)}"
    )
    print(
        f"    error / noise {np.mean(ratios):.3f}, at most {np.max(ratios):.3f}; "
        f"{seconds / count:.2f} s each"
    )


def has_true_form(true: dyn_ros.Model, result: dyn_ros.Identification) -> dict[str, bool]:
    """Return, by joint, True if friction has the terms and transitions of the true robot."""
    drives, names = result.identified.drives, true.velocity_names
    widths, velocities = (
        [f"{scale}({name})" in result.friction_intervals for name in names]
        for scale in ("friction_velocity", "stribeck_velocity")
    )
    is_right = (
        (np.array(widths) == (true.drives.friction_velocity > 0.0))
        & (np.array(velocities) == (true.drives.stribeck != 0.0))
        & (drives.has_smooth_friction == true.drives.has_smooth_friction)
        & (drives.root_friction == 0.0)
        & (drives.load_friction == 0.0)
    )
    return dict(zip(names, is_right))


def show_gains(count: int) -> None:
    """Print the coverage of intervals of drive gains."""
    inside = []
    for seed in range(count):
        estimate = dyn_ros.estimate_gains(load("ur10"), *currents(seed), MASS, "tool0")
        inside.append((estimate.lower < GAINS) & (estimate.upper > GAINS))
    shares = 100.0 * np.mean(inside, axis=0)
    print(
        f"gains: {shares.mean():.1f} % of the 95 % intervals contain the truth (of single joints "
        f"{shares.min():.0f} to {shares.max():.0f} %)"
    )


if __name__ == "__main__":
    main()
