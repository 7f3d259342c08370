# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Robot models from URDF and MJCF."""

from . import parameters
from .drives import Drives
from .frames import ReferenceFrame
from .model import Model
from .mujoco_coordinates import mujoco_to_state, state_to_mujoco
from .parameters import *  # noqa: F403
from .urdf import UrdfError
from .write import write_urdf

__all__ = ["Drives", "Model", "ReferenceFrame", "UrdfError", "mujoco_to_state"]
__all__ += ["state_to_mujoco", "write_urdf"]
__all__ += parameters.__all__
