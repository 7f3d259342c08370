# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Convert a dyn_ros/RobotState with joint names to q and v."""
import math

import numpy as np

from . import conversions
from .state import LARGEST, Rejected, abbreviated, check_pose, duplicates


def requested_state(model, given):
    """Return q and v of a state that contains joint names, as new arrays in the order of the model.

    Parameters
    ----------
    model : dyn_ros.Model
    given : dyn_ros/RobotState
        All joints with their own coordinate are required. Names that are not in the model are
        ignored, and so are mimic joints. Without velocities, the robot is at rest.

    Returns
    -------
    q, v : ndarray (nq,), (nv,)

    Raises
    ------
    Rejected
        Duplicate names, lengths that do not match, a joint that is missing, or a value that is not
        finite or exceeds `LARGEST`.
    """
    q, v = np.array(model.neutral(), float), np.zeros(model.nv)
    joints = {joint.name: i for i, joint in enumerate(model.tree.joints) if joint.mimic is None}
    kind = model.tree.joints[0].kind if model.njoints else None
    if kind in ("floating", "planar"):
        del joints[model.joint_names[0]]
        _set_base(kind, q, v, conversions.pose_numbers(given.base_pose),
                  conversions.twist_numbers(given.base_twist))
    _check_lengths(given)
    used = [k for k, name in enumerate(given.name) if name in joints]
    own = [joints[given.name[k]] for k in used]
    q[[model.idx_q[i] for i in own]] = _usable("position", given.name, given.position, used)
    if len(given.velocity):
        v[[model.idx_v[i] for i in own]] = _usable("velocity", given.name, given.velocity, used)
    _check_complete(model, joints, given.name)
    return q, v


def _check_lengths(given):
    size, positions, velocities = len(given.name), len(given.position), len(given.velocity)
    if len(set(given.name)) != size:
        raise Rejected(f"duplicate joint names: {abbreviated(duplicates(given.name))}")
    if positions != size or velocities not in (0, size):
        raise Rejected(f"{size} names, but {positions} positions and {velocities} velocities; "
                       "expected one position for each name, and one velocity for each name or "
                       "none")


def _usable(field, names, values, used):
    """Return the values at the indices `used`; raise `Rejected` if one cannot be used."""
    chosen = [values[k] for k in used]
    bad = [f"{names[k]} = {values[k]:g}" for k in used if not abs(values[k]) <= LARGEST]
    if bad:
        fault = "too large" if all(map(math.isfinite, chosen)) else "not finite"
        raise Rejected(f"{field} is {fault}: {', '.join(bad[:10])}")
    return chosen


def _check_complete(model, joints, names):
    missing = sorted(joints.keys() - set(names), key=joints.__getitem__)
    if missing:
        others = [name for name in names if name not in joints and name not in model.joint_names]
        raise Rejected(f"state: missing position of {abbreviated(missing)}" + (
            f"; not in the model: {abbreviated(others)}" if others else ""))


def _set_base(kind, q, v, pose, twist):
    """Set the coordinates and velocities of a base from its pose and its twist."""
    check_pose(pose)
    components = [f"{part}_{axis}" for part in ("linear", "angular") for axis in "xyz"]
    _usable("the base's twist", components, twist, range(6))
    x, y, z, qx, qy, qz, qw = pose
    if kind == "planar":
        yaw = math.atan2(2.0 * (qw * qz + qx * qy), 1.0 - 2.0 * (qy * qy + qz * qz))
        q[:3] = x, y, yaw
        v[:3] = twist[0], twist[1], twist[5]
        return
    norm = math.hypot(qx, qy, qz, qw)
    q[:7] = x, y, z, qx / norm, qy / norm, qz / norm, qw / norm
    v[:6] = twist
