# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Around which posture a robot swings: above its base if it can; a legged robot stands."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ..engine.kernel.types import Array
from ..engine.model.urdf import Joint
from .scene.tree_kinematics import TreeKinematics, stroke

TIMES = np.linspace(0.0, 60.0, 80)  # at which the height of a motion is examined [s]
CENTERS = 9  # positions of a joint to try
SHARES = 1.0, 0.6, 0.3  # of the amplitudes, if smaller ones are needed
THICK = 0.02  # distance from a joint's origin to the surface of its link / reach
BENT, CROUCH = 0.3, 0.3  # of the hips of legs that stand, and how much more they bend [rad]
CROUCHING = 6.0  # period [s]
LEVEL = 0.05  # difference in height of feet that stand on the same ground / height
PARALLEL = 0.95  # cosine between axes that count as parallel
MOST_TURNS = 3  # of a leg about parallel axes: hip, knee and ankle
FOLDING = 1.0, -2.0, 1.0  # how these turn if the foot stays level, below a hip


class Swing(NamedTuple):
    """Sines of joints, (n,) each: center and amplitude [rad, m], angular frequency [rad/s]."""

    center: Array
    amplitude: Array
    frequency: Array

    def at(self, times: Array) -> Array:
        """Return positions at times (k,), (k, n)."""
        return self.center + self.amplitude * np.sin(times[:, None] * self.frequency)


def choose_swing(robot: TreeKinematics) -> tuple[Swing, bool]:
    """Return the motion of a robot, and whether it stands on legs."""
    swing = Swing(
        *np.array([_own(joint, number) for number, joint in enumerate(robot.joints)])
        .reshape(-1, 3)
        .T
    )
    legs = find_legs(robot)
    return (_standing(robot, legs, swing), True) if legs else (_raised(robot, swing), False)


def _own(joint: Joint, number: int) -> tuple[float, float, float]:
    """Return center, amplitude and angular frequency [rad/s] of one joint's sine."""
    bounded = math.isfinite(joint.lower) and math.isfinite(joint.upper)
    center = (joint.lower + joint.upper) / 2 if bounded else 0.0
    reach = (joint.upper - joint.lower) / 2 if bounded else math.inf
    period = 5.0 + 4.0 * (0.618 * number % 1.0)  # seconds; different for each joint
    frequency = 2 * math.pi / period
    widest = 0.15 if joint.kind == "prismatic" else 1.0
    return center, min(0.7 * reach, widest, 0.6 * joint.velocity / frequency), frequency


def _neutral(robot: TreeKinematics) -> Array:
    """Return the positions nearest to zero within the limits, (n,)."""
    limits = np.array([(joint.lower, joint.upper) for joint in robot.joints]).reshape(-1, 2)
    return np.clip(0.0, limits[:, 0], limits[:, 1])


# --- above the base


def _raised(robot: TreeKinematics, swing: Swing) -> Swing:
    """Return a motion above the plane of the base, if there is one, near the given one.

    A robot that hangs from its base keeps its motion.
    """
    at_center = robot.heights(swing.center[None])[:, 0]
    plane = min(0.0, float(at_center[-1]))
    moved = [
        i
        for i in range(len(robot.moving))
        if robot.chain(i) and np.ptp(robot.heights(swing.at(TIMES))[i]) > 1e-3
    ]
    if not moved or at_center[moved].mean() < plane:
        return swing
    reach = max(
        float(np.linalg.norm(points, axis=-1).max())
        for points in robot.points(_neutral(robot)[None])
    )

    def clearance(tried: Swing) -> tuple[float, int]:
        """Return the least height above the plane [m], and the joint that moves this point."""
        heights = robot.heights(tried.at(TIMES))[moved].min(axis=1) - plane
        lowest = int(heights.argmin())
        return float(heights[lowest]) - THICK * reach, moved[lowest]

    for share in SHARES:
        tried = swing._replace(amplitude=share * swing.amplitude)
        free, lowest = clearance(tried)
        for slot in robot.chain(lowest) * 2:
            if free >= 0.0:
                return tried
            for center in _centers(robot.joints[slot], tried.center[slot], tried.amplitude[slot]):
                other = tried._replace(center=tried.center.copy())
                other.center[slot] = center
                found, _ = clearance(other)
                if found > free + 1e-3 * reach and free < 0.0:
                    tried, free = other, found
    return swing


def _centers(joint: Joint, now: float, amplitude: float) -> Sequence[float]:
    """Return other centers for the motion of a joint, the nearest ones first."""
    lower, upper = stroke(joint)
    centers = np.linspace(lower + amplitude, upper - amplitude, CENTERS)
    return sorted(centers.tolist(), key=lambda center: abs(center - now))


# --- on legs


def find_legs(robot: TreeKinematics) -> list[list[int]]:
    """Return the slots of the joints of each leg, from the root on; none if the robot has no legs.

    Legs are two or more chains that end on the same level, below everything else, and share no
    joint. A wheel at the end may be above its point of contact.
    """
    heights = robot.heights(_neutral(robot)[None])[:, 0]
    for i, joint in enumerate(robot.moving):
        if joint.parent >= 0:
            heights[i] = min(heights[i], heights[joint.parent])
    lowest = heights.min()
    near = lowest + LEVEL * (max(heights.max(), 0.0) - lowest)
    parents = {joint.parent for joint in robot.moving}
    feet = [i for i in range(len(robot.moving)) if i not in parents and heights[i] <= near]
    legs = [robot.chain(foot) for foot in feet]
    slots = [slot for leg in legs for slot in leg]
    if (
        len(legs) < 2
        or heights[-1] <= near
        or min(map(len, legs)) < 2
        or len(set(slots)) < len(slots)
    ):
        return []
    return legs


def _standing(robot: TreeKinematics, legs: Sequence[Sequence[int]], swing: Swing) -> Swing:
    """Return a motion in which all legs bend together, and all other joints move as given."""
    center, amplitude, frequency = (values.copy() for values in swing)
    neutral = _neutral(robot)
    folds = [_folds(robot, leg) for leg in legs]
    for leg in legs:
        center[leg], amplitude[leg] = neutral[leg], 0.0
    least = max([BENT, *(lower for _, (lower, _) in folds)])
    most = min([least + CROUCH, *(upper for _, (_, upper) in folds)])
    if least < most:
        for fold, _ in folds:
            for slot, turn in fold.items():
                center[slot], amplitude[slot] = (
                    0.5 * turn * (least + most),
                    0.5 * turn * (most - least),
                )
                frequency[slot] = 2.0 * math.pi / CROUCHING
    return Swing(center, amplitude, frequency)


def _folds(
    robot: TreeKinematics, leg: Sequence[int]
) -> tuple[dict[int, float], tuple[float, float]]:
    """Return how much the joints of a leg turn as its hip bends by 1, and the range of the hip.

    Of both ways to bend, it is the one with the wider range; the range is empty if there is none.
    If both are as wide, the foot rises more, so that legs that mirror each other bend that way.
    """
    places = robot.places(np.zeros((1, len(robot.joints))))[:, 0, :3, :3]
    axes = {
        slot: places[robot.own[slot]] @ robot.joints[slot].axis
        for slot in leg
        if robot.joints[slot].kind != "prismatic"
    }
    level = {slot: axis for slot, axis in axes.items() if abs(axis[2]) < 1.0 - PARALLEL}
    groups = [
        [slot for slot in level if abs(level[slot] @ axis) > PARALLEL] for axis in level.values()
    ]
    group = max(groups, key=len, default=[])[:MOST_TURNS]
    if len(group) < 2:
        return {}, (math.inf, -math.inf)
    first = level[group[0]]
    first = first * np.sign(first[abs(first).argmax()])  # the same one for all legs
    found = []
    for way in (1.0, -1.0):
        turns = {
            slot: way * turn * float(np.sign(level[slot] @ first))
            for slot, turn in zip(group, FOLDING)
        }
        ranges = [
            sorted((robot.joints[slot].lower / turn, robot.joints[slot].upper / turn))
            for slot, turn in turns.items()
        ]
        q = np.zeros((1, len(robot.joints)))
        q[0, list(turns)] = [BENT * turn for turn in turns.values()]
        height = round(float(robot.heights(q)[robot.own[leg[-1]], 0]), 6)
        least, most = max(0.0, *(low for low, _ in ranges)), min(high for _, high in ranges)
        found.append((most - least, height, turns, (least, most)))
    _, _, turns, limits = max(found, key=lambda each: each[:2])
    return turns, limits
