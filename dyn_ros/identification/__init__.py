# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Identification of inertial parameters and friction from recordings of a robot.

From a recording to a result, by module:

- ``recorded_samples``, ``samples``: recordings become ``Samples``, which the package ``motion``
  filters and differentiates; ``locking`` removes joints that do not move.
- ``friction_terms``: choice of the terms of each joint's friction.
- ``torque_equations``, ``equation_sums``: the equations of each sample, and their weighted sums.
- ``base_parameters``: the combinations of parameters that torques depend on.
- ``least_squares``: estimate, noise, outliers and covariance of these combinations.
- ``physical``, ``link_hulls``: physical parameters near the description, within the links' shapes.
- ``solution``, ``identify``, ``result``: the steps of an identification, and its result;
  the package ``report`` writes a page.

Beside it, ``payload`` and ``gains`` estimate a load and the gains of drives; ``excitation`` and
``trajectory_search`` compute motions to record.
"""

from .base_parameters import BaseParameters as BaseParameters
from .base_parameters import base_parameters as base_parameters
from .excitation import Excitation as Excitation
from .excitation import excite as excite
from .gains import GainEstimate as GainEstimate
from .gains import estimate_gains as estimate_gains
from .gravity import GravityEstimate as GravityEstimate
from .gravity import estimate_gravity as estimate_gravity
from .identify import identify as identify
from .link_hulls import link_shapes as link_shapes
from .locking import lock_joints as lock_joints
from .payload import PayloadEstimate as PayloadEstimate
from .payload import identify_payload as identify_payload
from .recorded_samples import read_tables as read_tables
from .result import BaseEstimate as BaseEstimate
from .result import Identification as Identification
from .result import JointResult as JointResult
from .result import PlainModel as PlainModel
from .samples import Samples as Samples

__all__ = [
    "BaseEstimate",
    "BaseParameters",
    "Excitation",
    "GainEstimate",
    "GravityEstimate",
    "Identification",
    "JointResult",
    "PayloadEstimate",
    "PlainModel",
    "Samples",
    "base_parameters",
    "estimate_gains",
    "estimate_gravity",
    "excite",
    "identify",
    "identify_payload",
    "link_shapes",
    "lock_joints",
    "read_tables",
]
