# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Convert a dyn_ros/RobotState with joint names to q and v."""
from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import numpy as np

from dyn_ros import Model
from dyn_ros.engine.kernel.types import Array
from dyn_ros.msg import RobotState

from ...states.joint_states import (
    Rejected,
    abbreviated,
    base_kind,
    check_base,
    check_names,
    check_usable,
    set_base,
)
from . import conversions


def requested_state(model: Model, given: RobotState) -> tuple[Array, Array]:
    """Return q and v of a state that contains joint names, as new arrays in the order of the model.

    All joints with their own coordinate are required; mimic joints and names that are not in the
    model are ignored. Without velocities, the robot is at rest. The base may be floating or planar;
    any other joint of several degrees of freedom is a ValueError. `Rejected` are duplicate names,
    lengths that do not match, a joint that is missing, and a value that is not finite or exceeds
    `LARGEST`.
    """
    q, v = np.array(model.neutral(), float), np.zeros(model.nv)
    joints = {joint.name: i for i, joint in enumerate(model.tree.joints) if joint.mimic is None}
    base = base_kind(model)
    if base is not None:
        del joints[model.joint_names[0]]
        pose, twist = (conversions.pose_numbers(given.base_pose),
                       conversions.twist_numbers(given.base_twist))
        check_base(pose, twist)
        set_base(base, q, v, pose, twist)
    _check_lengths(given)
    used = [k for k, name in enumerate(given.name) if name in joints]
    own = [joints[given.name[k]] for k in used]
    q[[model.idx_q[i] for i in own]] = _usable("position", given.name, given.position, used)
    if len(given.velocity):
        v[[model.idx_v[i] for i in own]] = _usable("velocity", given.name, given.velocity, used)
    _check_complete(model, joints, given.name)
    return q, v


def _check_lengths(given: RobotState) -> None:
    check_names(given.name)
    size, positions, velocities = len(given.name), len(given.position), len(given.velocity)
    if positions != size or velocities not in (0, size):
        raise Rejected(f"{size} names, but {positions} positions and {velocities} velocities; "
                       "expected one position for each name, and one velocity for each name or "
                       "none")


def _usable(field: str, names: Sequence[str], values: Sequence[float],
            used: Sequence[int]) -> list[float]:
    """Return the values at the indices `used`; raise `Rejected` if one cannot be used."""
    chosen = [values[k] for k in used]
    check_usable(field, [names[k] for k in used], chosen)
    return chosen


def _check_complete(model: Model, joints: Mapping[str, int], names: Collection[str]) -> None:
    missing = sorted(joints.keys() - set(names), key=joints.__getitem__)
    if missing:
        others = [name for name in names if name not in joints and name not in model.joint_names]
        raise Rejected(f"state: missing position of {abbreviated(missing)}" + (
            f"; not in the model: {abbreviated(others)}" if others else ""))
