# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Recordings of a robot: read, computed and plotted, on one machine and on many."""
from .gufunc import gufunc as gufunc
from .identify import identify as identify
from .parallel import Result as Result
from .parallel import map as map
from .recording import Recording as Recording
from .recording import read as read

__all__ = ["Recording", "Result", "gufunc", "identify", "map", "read"]
