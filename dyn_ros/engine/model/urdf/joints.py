# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""A joint's axis, limits, damping and friction."""
import math

import numpy as np

from .error import UrdfError
from .tree import FARTHEST_ANGLE, LARGEST, ONE_DOF, Joint


def make_joint(joint, inertia, rule, warnings):
    lower, upper, velocity, effort = _limits(joint, warnings)
    return Joint(
        joint.name, joint.type, joint.parent, joint.placement, _axis(joint, warnings),
        inertia, rule, lower, upper, velocity, effort, *_losses(joint, warnings),
    )


def _axis(joint, warnings):
    axis = np.array([1.0, 0.0, 0.0] if joint.axis is None else joint.axis)
    if joint.type == "floating":
        return np.array([1.0, 0.0, 0.0])
    if joint.type == "planar":
        if joint.axis is not None and (axis[0] or axis[1] or axis[2] <= 0):
            warnings.append(
                f'axis of planar joint "{joint.name}" is {_plain(axis)} and is ignored: the joint '
                "moves in the x-y plane of its frame; rotate its origin instead, and set the axis "
                "to 0 0 1"
            )
        return np.array([0.0, 0.0, 1.0])
    largest = np.abs(axis).max()
    if largest == 0.0:
        raise UrdfError(
            f'axis of joint "{joint.name}" is zero; set a direction, such as 0 0 1'
        )
    axis /= largest  # avoids underflow and overflow of the norm
    return axis / np.linalg.norm(axis)


def _plain(vector):
    return " ".join(f"{number:g}" for number in vector)


def _limits(joint, warnings):
    """Lower, upper, velocity and effort limit."""
    limit = joint.limit
    if joint.type not in ONE_DOF or limit is None:
        if joint.type in ("revolute", "prismatic"):
            warnings.append(f'{joint.type} joint "{joint.name}" has no <limit>: assumed unlimited')
        return -math.inf, math.inf, math.inf, math.inf
    lower, upper = limit.lower, limit.upper
    farthest = LARGEST if joint.type == "prismatic" else FARTHEST_ANGLE
    if joint.type == "continuous":
        lower, upper = -math.inf, math.inf
    elif lower > upper:
        warnings.append(
            f'joint "{joint.name}" has a lower limit {lower:g} above its upper limit {upper:g}: '
            "assumed unlimited"
        )
        lower, upper = -math.inf, math.inf
    elif lower > farthest or upper < -farthest:
        warnings.append(
            f'joint "{joint.name}" has the limits {lower:g} and {upper:g}: at most '
            f"{farthest:g} is supported"
        )
    return lower, upper, limit.velocity, limit.effort


def _losses(joint, warnings):
    """Damping and friction."""
    dynamics = joint.dynamics
    if dynamics is None:
        return 0.0, 0.0
    damping, friction = dynamics.damping or 0.0, dynamics.friction or 0.0
    for what, value in (("damping", damping), ("friction", friction)):
        if value < 0.0:
            raise UrdfError(f'{what} of joint "{joint.name}" is {value:g}; expected 0 or more')
        if value and joint.type not in ONE_DOF:
            warnings.append(
                f'{what} of {joint.type} joint "{joint.name}" is {value:g} and is ignored; set '
                f"model.{what}, which has a number for each of its velocities"
            )
    return (damping, friction) if joint.type in ONE_DOF else (0.0, 0.0)
