# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""A joint's axis, limits, damping and friction."""
import math

import numpy as np

from ..inertia import LARGEST
from .error import UrdfError
from .tree import FARTHEST_ANGLE, ONE_DOF, Joint


def make_joint(joint, inertia, rule, warnings):
    lower, upper, velocity, effort = _limits(joint, warnings)
    return Joint(
        joint.name, joint.kind, joint.parent, joint.placement, _axis(joint, warnings),
        inertia, rule, lower, upper, velocity, effort, *_losses(joint, warnings),
    )


def _axis(joint, warnings):
    given = None if joint.urdf is None else joint.urdf.axis
    axis = np.array([1.0, 0.0, 0.0] if given is None else given)
    if joint.kind == "floating":
        return np.array([1.0, 0.0, 0.0])
    if joint.kind == "planar":
        if given is not None and (axis[0] or axis[1] or axis[2] <= 0):
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
    limit = None if joint.urdf is None else joint.urdf.limit
    if joint.kind not in ONE_DOF:
        return -math.inf, math.inf, math.inf, math.inf
    if limit is None:
        if joint.kind != "continuous":
            warnings.append(f'{joint.kind} joint "{joint.name}" has no <limit>: assumed unlimited')
        return -math.inf, math.inf, math.inf, math.inf
    if joint.kind == "continuous":
        return -math.inf, math.inf, limit.velocity, limit.effort
    if limit.lower > limit.upper:
        warnings.append(
            f'joint "{joint.name}" has a lower limit {limit.lower:g} above its upper limit '
            f"{limit.upper:g}: assumed unlimited"
        )
        return -math.inf, math.inf, limit.velocity, limit.effort
    farthest = LARGEST if joint.kind == "prismatic" else FARTHEST_ANGLE
    if limit.lower > farthest or limit.upper < -farthest:
        warnings.append(
            f'joint "{joint.name}" has the limits {limit.lower:g} and {limit.upper:g}: at most '
            f"{farthest:g} is supported"
        )
    return limit.lower, limit.upper, limit.velocity, limit.effort


def _losses(joint, warnings):
    """Damping and friction."""
    dynamics = None if joint.urdf is None else joint.urdf.dynamics
    if dynamics is None:
        return 0.0, 0.0
    damping, friction = dynamics.damping or 0.0, dynamics.friction or 0.0
    for what, value in (("damping", damping), ("friction", friction)):
        if value < 0.0:
            raise UrdfError(f'{what} of joint "{joint.name}" is {value:g}; expected 0 or more')
        if value and joint.kind not in ONE_DOF:
            warnings.append(
                f'{what} of {joint.kind} joint "{joint.name}" is {value:g} and is ignored; set '
                f"model.{what}, which has a number for each of its velocities"
            )
    return (damping, friction) if joint.kind in ONE_DOF else (0.0, 0.0)
