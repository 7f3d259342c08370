# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Counts how often the intervals of identified base parameters contain the truth.

    python benchmarks/intervals.py [--count 100] [--robot ur10]

Each recording is of another robot: other inertias and friction than described, 40 s of motion, 500
samples per second, encoders of 2^19 counts, and torque noise of 1, 2 or 3 %.
"""
import argparse
import sys
import time
from pathlib import Path

import numpy as np

import dyn_ros

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "test"))
from identification.recordings import flying, offsets, perturbed, record, standing, waves
from identification.robots import load, truth

FREQUENCIES = [0.1, 0.2, 0.4, 0.7]


def arm(robot, seed):
    """A model and a recording of another robot of this kind."""
    model = load(robot)
    true = perturbed(model, seed=seed)
    limits = [np.where(np.isfinite(limit), limit, default)
              for limit, default in ((model.lower, -3.0), (model.upper, 3.0))]
    middle = np.clip(0.5 * (limits[0] + limits[1]), -3.0, 3.0)
    motion = waves(middle, np.minimum(1.2, 0.45 * (limits[1] - limits[0])), FREQUENCIES, seed)
    first, second = (record(true, motion, noise=0.01 * (1 + seed % 3), offset=offsets(true, seed),
                            seed=seed + part) for part in (0, 1000))
    return model, first, [first.samples(model), second.samples(model)]


def quadruped(kind, seed):
    model = load("solo12", "floating")
    true = perturbed(model, seed=seed)
    recording = kind(true, offset=offsets(true, seed), seed=seed)
    options = {"f_ext": None} if kind is standing else {}
    return model, recording, [recording.samples(model, **options)]


KINDS = {"ur10": lambda seed: arm("ur10", seed), "panda": lambda seed: arm("panda", seed),
         "solo12, in contact": lambda seed: quadruped(standing, seed),
         "solo12, in flight": lambda seed: quadruped(flying, seed)}


def main():
    """Print a line for each robot."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=100, help="recordings (default: 100)")
    parser.add_argument("--robot", choices=KINDS, help="only this one")
    options = parser.parse_args()
    for name in [options.robot] if options.robot else KINDS:
        show(name, KINDS[name], options.count)


def show(name, make, count):
    """Identify ``count`` recordings and print what their intervals are worth."""
    z, ratios, seconds = [], [], 0.0
    for seed in range(count):
        model, recording, samples = make(seed)
        start = time.perf_counter()
        result = dyn_ros.identify(model, samples, seed=seed)
        seconds += time.perf_counter() - start
        base, values = result.base, truth(recording)
        inside = (base.lower < base.matrix @ values) & (base.matrix @ values < base.upper)
        z.append(np.where(np.isfinite(base.deviation), inside, np.nan))
        noise = (recording.tau - recording.exact_tau).std(axis=0)
        ratios.append([joint.after / sigma for joint, sigma in zip(result.joints, noise)
                       if sigma > 0.0])
        if not dyn_ros.is_physical(result.identified.inertial_parameters).all():
            print(f"seed {seed}: a body is not physical")
    coverage = np.nanmean(np.array(z), axis=0)
    share = 100.0 * np.nanmean(np.array(z))
    low, high = 100.0 * coverage.min(), 100.0 * coverage.max()
    print(f"{name}: {share:.1f} % of the 95 % intervals contain the truth (of single base "
          f"parameters {low:.0f} to {high:.0f} %); error / noise {np.mean(ratios):.3f}, at most "
          f"{np.max(ratios):.3f}; {seconds / count:.2f} s each")


if __name__ == "__main__":
    main()
