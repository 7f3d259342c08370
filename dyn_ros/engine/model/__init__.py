# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Robot models from URDF."""

from . import parameters
from .drives import Drives
from .frames import ReferenceFrame
from .model import Model
from .parameters import *  # noqa: F403
from .urdf import UrdfError
from .write import write_urdf

__all__ = ["Drives", "Model", "ReferenceFrame", "UrdfError", "write_urdf"]
__all__ += parameters.__all__
