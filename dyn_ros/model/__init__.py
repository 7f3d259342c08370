# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Robot models from URDF, and the data structure for results."""
from .data import Data
from .frames import ReferenceFrame
from .model import Model
from .urdf import UrdfError

__all__ = ["Data", "Model", "ReferenceFrame", "UrdfError"]
