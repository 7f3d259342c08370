# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""From a URDF to a model, and the space where results are kept."""
from .data import Data
from .frames import ReferenceFrame
from .model import Model
from .urdf import UrdfError

__all__ = ["Data", "Model", "ReferenceFrame", "UrdfError"]
