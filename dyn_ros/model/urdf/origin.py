# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Placements in a description."""
import math
from collections.abc import Sequence

import numpy as np

from ..types import Array


def origin_placement(origin):
    """The homogeneous matrix of an <origin>; the identity if it is missing."""
    return np.eye(4) if origin is None else placement(origin.xyz, origin.rpy)


def placement(xyz: Sequence[float], rpy: Sequence[float]) -> Array:
    """The homogeneous matrix of a translation [m] and fixed-axis angles [rad]."""
    result = np.eye(4)
    result[:3, :3] = _rotation(*rpy)
    result[:3, 3] = xyz
    return result


def _rotation(roll, pitch, yaw):
    cr, sr = math.cos(roll), math.sin(roll)
    cp, sp = math.cos(pitch), math.sin(pitch)
    cy, sy = math.cos(yaw), math.sin(yaw)
    return np.array([
        [cy * cp, cy * sp * sr - sy * cr, cy * sp * cr + sy * sr],
        [sy * cp, sy * sp * sr + cy * cr, sy * sp * cr - cy * sr],
        [-sp, cp * sr, cp * cr],
    ])
