# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Count how often the intervals of a payload contain the truth, with friction at rest.

    python benchmarks/payload.py [--count 100]

An arm with 7 joints carries 0.5, 1.5 or 3 kg. Each joint has Coulomb friction of 0.2 to 0.6 N m and
viscous friction; while it rests, its friction is anywhere between its two signs. Torques have noise
of 0.05 N m, and errors of 0.03 N m that last for a second. The friction is part of the model, or is
not known. Printed for the mass: the recordings that are refused, the intervals that contain the
truth, and their median width relative to the mass; and the intervals of the center of mass and of
the inertia that contain the truth.
"""

from __future__ import annotations

import argparse
import copy
import itertools
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy.signal import lfilter

import dyn_ros
from dyn_ros.engine.kernel.types import Array

ARM = Path(__file__).resolve().parents[1] / "dyn_ros" / "robots" / "arm7.urdf"
RATE = 50.0  # Hz
REST, MOVE = 2.0, 3.0  # s; duration of a pose, and of a move between two
NOISE, LASTING_ERROR = 0.05, 0.03  # N m
CORRELATION = 0.95  # between lasting errors of successive samples


class Case(NamedTuple):
    """A kind of recording."""

    name: str
    pose_count: int = 0  # 0: a motion of all joints
    are_joined: bool = False  # the moves between poses are recorded
    speed: float = 1.0  # relative to the frequencies of `wave_motion`


CASES = (
    Case("one pose", 1),
    Case("two poses", 2),
    Case("six poses", 6),
    Case("one move of 3 s", 2, are_joined=True),
    Case("six poses joined by moves", 6, are_joined=True),
    Case("slow motion, 30 s", speed=0.3),
    Case("fast motion, 30 s"),
)


class Motion(NamedTuple):
    """Positions and their derivatives, (B, nv), and the number of the pose of each row or -1."""

    q: Array
    v: Array
    a: Array
    pose: Array


def recorded_motion(model: dyn_ros.Model, case: Case, rng: np.random.Generator) -> Motion:
    """Return the motion of a case."""
    lower, upper = np.maximum(model.lower, -2.0), np.minimum(model.upper, 2.0)
    if not case.pose_count:
        return wave_motion(case, 0.25 * (upper - lower), rng)
    poses = rng.uniform(lower, upper, (case.pose_count, model.nv))
    rest = np.zeros((int(REST * RATE), model.nv))
    s = np.arange(int(MOVE * RATE))[:, None] / (MOVE * RATE)
    blend = (
        10.0 * s**3 - 15.0 * s**4 + 6.0 * s**5,
        (30.0 * s**2 - 60.0 * s**3 + 30.0 * s**4) / MOVE,
        (60.0 * s - 180.0 * s**2 + 120.0 * s**3) / MOVE**2,
    )
    pieces: list[Motion] = []
    for k, (pose, following) in enumerate(zip(poses, [*poses[1:], poses[-1]])):
        pieces.append(Motion(rest + pose, rest, rest, np.full(len(rest), k)))
        if case.are_joined and k + 1 < len(poses):
            step = following - pose
            q, v, a = (factor * step for factor in blend)
            pieces.append(Motion(pose + q, v, a, np.full(len(q), -1)))
    return Motion(*map(np.concatenate, zip(*pieces)))


def wave_motion(case: Case, size: Array, rng: np.random.Generator) -> Motion:
    """Return a motion of all joints with two frequencies, up to a size (nv,) [rad]."""
    t = np.arange(int(30.0 * RATE))[:, None] / RATE
    derivatives = np.zeros((3, len(t), len(size)))
    for frequency in (0.15, 0.45):
        w = 2.0 * np.pi * frequency * case.speed * rng.uniform(0.9, 1.1, len(size))
        angle = w * t + rng.uniform(0.0, 2.0 * np.pi, len(size))
        for n, wave in enumerate((np.sin(angle), np.cos(angle), -np.sin(angle))):
            derivatives[n] += size * w**n * wave
    return Motion(*derivatives, np.full(len(t), -1))


def friction_torque(
    motion: Motion, coulomb: Array, viscous: Array, rng: np.random.Generator
) -> Array:
    """Return the friction of all joints, (B, nv); it is constant while a joint rests."""
    moves = np.abs(motion.v) > 1e-9
    friction = viscous * motion.v + coulomb * np.sign(motion.v) * moves
    for k, column in enumerate(moves.T):
        stretch = np.cumsum(np.diff(column, prepend=column[:1]) != 0) * 1000 + motion.pose
        for number in np.unique(stretch[~column]):
            friction[(stretch == number) & ~column, k] = coulomb[k] * rng.uniform(-1.0, 1.0)
    return friction


def record(
    case: Case, is_known: bool, seed: int
) -> tuple[dyn_ros.Model, dyn_ros.Samples, Array, Array]:
    """Return the model, a recording, and the truth: ten parameters, and the inertia (3, 3)."""
    rng = np.random.default_rng(seed)
    model = dyn_ros.Model.from_urdf_file(ARM)
    coulomb = rng.uniform(0.2, 0.6, model.nv)
    viscous = coulomb * rng.uniform(0.6, 2.0, model.nv)
    model.friction, model.damping = is_known * coulomb, is_known * viscous
    mass, com = rng.choice([0.5, 1.5, 3.0]), rng.uniform([-0.05, -0.05, 0.0], [0.05, 0.05, 0.15])
    inertia = mass * 0.05**2 * np.diag([1.0, 0.8, 0.6]) * rng.uniform(0.5, 2.0)
    loaded = copy.copy(model)
    loaded.set_payload("load", "tool", mass, com, inertia)
    motion = recorded_motion(model, case, rng)
    tau = dyn_ros.rnea(loaded, dyn_ros.Data(loaded), motion.q, motion.v, motion.a)
    tau = tau + friction_torque(motion, coulomb, viscous, rng)
    tau += NOISE * rng.normal(size=tau.shape)
    scale = LASTING_ERROR * np.sqrt(1.0 - CORRELATION**2)
    tau += scale * lfilter([1.0], [1.0, -CORRELATION], rng.normal(size=tau.shape), axis=0)
    time = np.arange(len(tau)) / RATE
    if case.pose_count and not case.are_joined:
        zero = np.zeros_like(tau)
        time = time + 10.0 * motion.pose
        samples = dyn_ros.Samples.from_arrays(model, time, motion.q, tau, v=zero, a=zero)
    else:
        q = motion.q + 1e-5 * rng.normal(size=tau.shape)
        samples = dyn_ros.Samples.from_arrays(model, time, q, tau, cutoff=8.0)
    return model, samples, dyn_ros.Inertia(mass, com, inertia).dynamic_parameters(), inertia


def evaluate(case: Case, is_known: bool, count: int) -> str:
    """Return a line with the results of a case."""
    inside: dict[str, list[bool]] = {"mass": [], "center": [], "inertia": []}
    widths, refused = [], 0
    for seed in range(count):
        model, samples, truth, inertia = record(case, is_known, seed)
        try:
            found = dyn_ros.identify_payload(model, samples, "tool")
        except ValueError:
            refused += 1
            continue
        com = truth[1:4] / truth[0]
        for name, lower, value, upper in (
            ("mass", found.lower[:1], truth[:1], found.upper[:1]),
            ("center", found.com_lower, com, found.com_upper),
            ("inertia", found.inertia_lower, inertia, found.inertia_upper),
        ):
            is_finite = np.isfinite(lower) & np.isfinite(upper)
            inside[name] += ((lower <= value) & (value <= upper))[is_finite].tolist()
        widths.append((found.upper[0] - found.lower[0]) / truth[0])
    shares = " ".join(f"{100.0 * np.mean(x):5.0f} %" if x else "      -" for x in inside.values())
    width = f"{100.0 * np.median(widths):5.1f} %" if widths else "      -"
    known = "known" if is_known else "not known"
    return f"{case.name:26} {known:10} {refused:7} {width} {shares}"


def main() -> None:
    """Print a line for each case."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--count", type=int, default=100, help="recordings of each case")
    count = parser.parse_args().count
    print(f"{'recording':26} {'friction':10} refused   width    mass  center inertia")
    for case, is_known in itertools.product(CASES, (False, True)):
        print(evaluate(case, is_known, count), flush=True)


if __name__ == "__main__":
    main()
