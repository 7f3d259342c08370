# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The public values: SE3, Motion, Force, Inertia and others."""

from .derivative import TransformDerivative, TransformSecondDerivative
from .inertia import ArticulatedBodyInertia, Inertia
from .se3 import SE3
from .vectors import Force, Motion

__all__ = [
    "SE3",
    "ArticulatedBodyInertia",
    "Force",
    "Inertia",
    "Motion",
    "TransformDerivative",
    "TransformSecondDerivative",
]
