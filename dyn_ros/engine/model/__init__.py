# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Robot models from URDF, and the data structure for results."""
from ..call.data import Data
from .frames import ReferenceFrame
from .model import Model
from .parameters import (
    d_from_log_cholesky,
    entropic_divergence,
    from_log_cholesky,
    from_pseudo_inertia,
    is_physical,
    log_cholesky,
    pseudo_inertia,
    riemannian_distance,
)
from .urdf import UrdfError, write_urdf

__all__ = ["Data", "Model", "ReferenceFrame", "UrdfError", "d_from_log_cholesky",
           "entropic_divergence", "from_log_cholesky", "from_pseudo_inertia", "is_physical",
           "log_cholesky", "pseudo_inertia", "riemannian_distance", "write_urdf"]
