# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Identification of inertial parameters and friction from recordings of a robot."""

from .base_parameters import BaseParameters as BaseParameters
from .base_parameters import base_parameters as base_parameters
from .excitation import Excitation as Excitation
from .excitation import excite as excite
from .gains import GainEstimate as GainEstimate
from .gains import estimate_gains as estimate_gains
from .identify import identify as identify
from .link_hulls import link_shapes as link_shapes
from .locking import lock_joints as lock_joints
from .payload import PayloadEstimate as PayloadEstimate
from .payload import identify_payload as identify_payload
from .recorded_samples import read_tables as read_tables
from .result import BaseEstimate as BaseEstimate
from .result import Identification as Identification
from .result import JointResult as JointResult
from .samples import Samples as Samples

__all__ = [
    "BaseEstimate",
    "BaseParameters",
    "Excitation",
    "GainEstimate",
    "Identification",
    "JointResult",
    "PayloadEstimate",
    "Samples",
    "base_parameters",
    "estimate_gains",
    "excite",
    "identify",
    "identify_payload",
    "link_shapes",
    "lock_joints",
    "read_tables",
]
