# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Choice of the posture around which a robot swings: above its base, or standing on legs.

A *slot* is the index of a joint in `TreeKinematics.joints`, the joints that move independently.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ..engine.kernel.types import Array
from ..engine.model.urdf import Joint
from .scene.tree_kinematics import TreeKinematics, display_range

MOTION_PERIOD = 60.0  # s; after it, a motion repeats, so that its extremes are known
SAMPLE_TIMES = np.linspace(0.0, MOTION_PERIOD, 80)  # s; at which the height of a motion is checked
CENTER_COUNT = 9  # centers of a joint to try
AMPLITUDE_SCALES = 1.0, 0.6, 0.3  # tried in this order
LINK_RADIUS = 0.02  # distance from a joint's origin to the surface of its link / reach
MIN_HIP_ANGLE = 0.3  # rad; hips of a standing robot bend at least this far
CROUCH_ANGLE = 0.3  # rad; motion of the hips beyond this angle
CROUCH_PERIOD = 6.0  # s
FOOT_TOLERANCE = 0.05  # difference in height of feet on the same ground / height of robot
PARALLEL_COSINE = 0.95  # axes with a larger cosine count as parallel
FOLD_RATIOS = 1.0, -2.0, 1.0  # angles of hip, knee and ankle that keep the foot level below the hip
MIN_RISE = 1e-3  # m; joints that rise and fall less do not move
MIN_CLEARANCE_GAIN = 1e-3  # relative to the reach


class Swing(NamedTuple):
    """Sines of joints, (n,) each: center and amplitude [rad, m], angular frequency [rad/s]."""

    center: Array
    amplitude: Array
    frequency: Array

    def positions_at(self, times: Array) -> Array:
        """Return the positions (k, n) at times (k,) [s]."""
        return self.center + self.amplitude * np.sin(times[:, None] * self.frequency)


def choose_swing(robot: TreeKinematics) -> tuple[Swing, bool]:
    """Return the motion of a robot, and True if it stands on legs."""
    sines = [_joint_sine(joint, slot) for slot, joint in enumerate(robot.joints)]
    swing = Swing(*np.array(sines).reshape(-1, 3).T)
    legs = find_legs(robot)
    if legs:
        return _standing_swing(robot, legs, swing), True
    return _raised_swing(robot, swing), False


def _joint_sine(joint: Joint, slot: int) -> tuple[float, float, float]:
    """Return center, amplitude [rad, m] and angular frequency [rad/s] of one joint's sine."""
    has_limits = math.isfinite(joint.lower) and math.isfinite(joint.upper)
    center = (joint.lower + joint.upper) / 2 if has_limits else 0.0
    half_range = (joint.upper - joint.lower) / 2 if has_limits else math.inf
    period = 5.0 + 4.0 * (0.618 * slot % 1.0)  # seconds; different for neighboring joints
    frequency = 2 * math.pi * round(MOTION_PERIOD / period) / MOTION_PERIOD
    max_amplitude = 0.15 if joint.kind == "prismatic" else 1.0
    amplitude = min(0.7 * half_range, max_amplitude, 0.6 * joint.velocity / frequency)
    return center, amplitude, frequency


def _neutral_positions(robot: TreeKinematics) -> Array:
    """Return the positions nearest to zero within the limits, (n,)."""
    limits = np.array([(joint.lower, joint.upper) for joint in robot.joints]).reshape(-1, 2)
    return np.clip(0.0, limits[:, 0], limits[:, 1])


# --- robots without legs


def _raised_swing(robot: TreeKinematics, swing: Swing) -> Swing:
    """Return a motion above the plane of the base, near `swing`.

    Return `swing` itself if the robot hangs from its base, or no motion above is found.
    """
    heights = robot.heights(swing.center[None])[:, 0]
    plane = min(0.0, float(heights[-1]))  # at the lowest point of the root link
    moving_joints = [
        i
        for i in range(len(robot.tree_joints))
        if robot.chain(i) and np.ptp(robot.heights(swing.positions_at(SAMPLE_TIMES))[i]) > MIN_RISE
    ]
    if not moving_joints or heights[moving_joints].mean() < plane:
        return swing
    reach = max(
        float(np.linalg.norm(points, axis=-1).max())
        for points in robot.points(_neutral_positions(robot)[None])
    )

    def measure_clearance(swing: Swing) -> tuple[float, int]:
        """Return the least height above the plane [m], and the joint that moves this point."""
        heights = robot.heights(swing.positions_at(SAMPLE_TIMES))[moving_joints].min(axis=1) - plane
        lowest = int(heights.argmin())
        return float(heights[lowest]) - LINK_RADIUS * reach, moving_joints[lowest]

    for scale in AMPLITUDE_SCALES:
        best = swing._replace(amplitude=scale * swing.amplitude)
        clearance, lowest_joint = measure_clearance(best)
        for slot in robot.chain(lowest_joint) * 2:
            if clearance >= 0.0:
                return best
            centers = _nearby_centers(robot.joints[slot], best.center[slot], best.amplitude[slot])
            for center in centers:
                candidate = best._replace(center=best.center.copy())
                candidate.center[slot] = center
                candidate_clearance, _ = measure_clearance(candidate)
                min_clearance = clearance + MIN_CLEARANCE_GAIN * reach
                if candidate_clearance > min_clearance and clearance < 0.0:
                    best, clearance = candidate, candidate_clearance
    return swing


def _nearby_centers(joint: Joint, center: float, amplitude: float) -> Sequence[float]:
    """Return centers to try for the motion of a joint, the nearest to a center first."""
    lower, upper = display_range(joint)
    centers = np.linspace(lower + amplitude, upper - amplitude, CENTER_COUNT)
    return sorted(centers.tolist(), key=lambda candidate: abs(candidate - center))


# --- legged robots


def find_legs(robot: TreeKinematics) -> list[list[int]]:
    """Return the joints of each leg as slots, from the root on; [] if the robot has no legs.

    Legs are two or more chains that end on the same level, below everything else, and share no
    joint. A wheel at the end may be above its point of contact.
    """
    joints = robot.tree_joints
    heights = robot.heights(_neutral_positions(robot)[None])[:, 0]
    for i, joint in enumerate(joints):
        if joint.parent >= 0:
            heights[i] = min(heights[i], heights[joint.parent])
    root_height = heights[-1]  # the root link is the last row
    lowest = heights.min()
    max_foot_height = lowest + FOOT_TOLERANCE * (max(heights.max(), 0.0) - lowest)
    parents = {joint.parent for joint in joints}
    leaves = [i for i in range(len(joints)) if i not in parents]
    legs = [robot.chain(leaf) for leaf in leaves if heights[leaf] <= max_foot_height]
    slots = [slot for leg in legs for slot in leg]
    if (
        len(legs) < 2
        or root_height <= max_foot_height
        or min(map(len, legs)) < 2
        or len(set(slots)) < len(slots)
    ):
        return []
    return legs


def _standing_swing(robot: TreeKinematics, legs: Sequence[Sequence[int]], swing: Swing) -> Swing:
    """Return a motion in which all legs bend together, and other joints move as in a swing."""
    center, amplitude, frequency = (values.copy() for values in swing)
    neutral = _neutral_positions(robot)
    folds = [_find_fold(robot, leg) for leg in legs]
    for leg in legs:
        center[leg], amplitude[leg] = neutral[leg], 0.0
    lower = max([MIN_HIP_ANGLE, *(fold.lower for fold in folds)])
    upper = min([lower + CROUCH_ANGLE, *(fold.upper for fold in folds)])
    if lower < upper:
        for fold in folds:
            for slot, ratio in fold.ratios.items():
                center[slot] = 0.5 * ratio * (lower + upper)
                amplitude[slot] = 0.5 * ratio * (upper - lower)
                frequency[slot] = 2.0 * math.pi / CROUCH_PERIOD
    return Swing(center, amplitude, frequency)


class _Fold(NamedTuple):
    """The motion of a leg that bends."""

    ratios: dict[int, float]  # angle of each joint, by slot / angle of the hip
    lower: float  # rad; limits of the hip's angle, lower > upper if the leg cannot bend
    upper: float


def _find_fold(robot: TreeKinematics, leg: Sequence[int]) -> _Fold:
    """Return the motion in which a leg bends, with its foot level.

    Of the two directions in which the hip can bend, the one with the wider range is chosen. If both
    ranges are equal, it is the one in which the foot rises more, so that legs that mirror each
    other bend in the same direction.
    """
    placements = robot.placements(np.zeros((1, len(robot.joints))))[:, 0, :3, :3]
    axes = {
        slot: placements[robot.tree_indices[slot]] @ robot.joints[slot].axis
        for slot in leg
        if robot.joints[slot].kind != "prismatic"
    }
    horizontal_axes = {
        slot: axis for slot, axis in axes.items() if abs(axis[2]) < 1.0 - PARALLEL_COSINE
    }
    parallel_groups = [
        [slot for slot in horizontal_axes if abs(horizontal_axes[slot] @ axis) > PARALLEL_COSINE]
        for axis in horizontal_axes.values()
    ]
    slots = max(parallel_groups, key=len, default=[])[: len(FOLD_RATIOS)]
    if len(slots) < 2:
        return _Fold({}, math.inf, -math.inf)
    axis = horizontal_axes[slots[0]]
    axis = axis * np.sign(axis[abs(axis).argmax()])  # equal for all legs
    candidates = []
    for direction in (1.0, -1.0):
        ratios = {
            slot: direction * ratio * float(np.sign(horizontal_axes[slot] @ axis))
            for slot, ratio in zip(slots, FOLD_RATIOS)
        }
        hip_ranges = [
            sorted((robot.joints[slot].lower / ratio, robot.joints[slot].upper / ratio))
            for slot, ratio in ratios.items()
        ]
        q = np.zeros((1, len(robot.joints)))
        q[0, list(ratios)] = [MIN_HIP_ANGLE * ratio for ratio in ratios.values()]
        foot_height = round(float(robot.heights(q)[robot.tree_indices[leg[-1]], 0]), 6)
        lower = max(0.0, *(range_lower for range_lower, _ in hip_ranges))
        upper = min(range_upper for _, range_upper in hip_ranges)
        candidates.append((upper - lower, foot_height, _Fold(ratios, lower, upper)))
    _, _, fold = max(candidates, key=lambda candidate: candidate[:2])
    return fold
