# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Limits, armature, damping and friction of the joints of an mjModel, including its actuators."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ...kernel.types import Array
from ..urdf.text import quoted
from .names import ElementNames
from .source import JOINT_TRANSMISSIONS, KINDS, MjModel


def position_limits(source: MjModel, joint: int) -> tuple[float, float]:
    """Return the lower and the upper limit of a joint, infinite without one [rad, m]."""
    if not source.jnt_limited[joint]:
        return -np.inf, np.inf
    lower, upper = source.jnt_range[joint].tolist()
    return lower, upper


def effort_limits(source: MjModel, names: ElementNames, warnings: list[str]) -> Array:
    """Return the effort limit of each joint, (njnt,), infinite without one [N m, N].

    It is the limit of the joint itself or the sum of its actuators' limits, whichever is smaller.
    """
    ranges = np.where(
        source.jnt_actfrclimited[:, None].astype(bool), source.jnt_actfrcrange, [-np.inf, np.inf]
    )
    drives = joint_actuators(source)
    for joint in np.unique(source.actuator_trnid[drives, 0]).tolist():
        indices = drives[source.actuator_trnid[drives, 0] == joint]
        if source.actuator_forcelimited[indices].all():
            gear = source.actuator_gear[indices, :1]
            forces = np.sort(gear * source.actuator_forcerange[indices]).sum(0)
            ranges[joint] = max(ranges[joint, 0], forces[0]), min(ranges[joint, 1], forces[1])
    sizes = np.abs(ranges)
    uneven = np.flatnonzero(sizes[:, 0] != sizes[:, 1]).tolist()
    if uneven:
        warnings.append(
            f"the forces of joints {quoted(names.joints[joint] for joint in uneven)} have limits "
            "that differ between directions: effort_limit is the larger one"
        )
    limits: Array = sizes.max(1)
    return limits


def joint_actuators(source: MjModel) -> NDArray[np.int64]:
    """Return the indices of the actuators that act on a hinge or a slide joint."""
    on_joint = np.flatnonzero(np.isin(source.actuator_trntype, JOINT_TRANSMISSIONS))
    kinds = source.jnt_type[source.actuator_trnid[on_joint, 0]]
    return on_joint[np.isin(kinds, (KINDS.index("prismatic"), KINDS.index("revolute")))]


def dof_armature(source: MjModel) -> Array:
    """Return the armature of each velocity, (nv,), including actuators [kg m2, kg]."""
    return source.dof_armature + _reflected(source, "actuator_armature")


def dof_damping(source: MjModel) -> Array:
    """Return the damping of each velocity, (nv,), including actuators [N m s/rad, N s/m]."""
    return source.dof_damping + _reflected(source, "actuator_damping")


def dof_friction(source: MjModel) -> Array:
    """Return the Coulomb friction of each velocity, (nv,) [N m, N]."""
    return np.array(source.dof_frictionloss)


def _reflected(source: MjModel, attribute: str) -> Array:
    """Return a property of actuators, at their joints, (nv,); MuJoCo 3 has it only in parts."""
    total = np.zeros(source.nv)
    drives = joint_actuators(source)
    if drives.size and hasattr(source, attribute):
        dofs = source.jnt_dofadr[source.actuator_trnid[drives, 0]]
        gear = source.actuator_gear[drives, 0]
        np.add.at(total, dofs, gear * gear * getattr(source, attribute)[drives])
    return total
