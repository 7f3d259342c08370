# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Robot models from URDF."""
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
from .urdf import UrdfError
from .write import write_urdf

__all__ = ["Model", "ReferenceFrame", "UrdfError", "d_from_log_cholesky",
           "entropic_divergence", "from_log_cholesky", "from_pseudo_inertia", "is_physical",
           "log_cholesky", "pseudo_inertia", "riemannian_distance", "write_urdf"]
