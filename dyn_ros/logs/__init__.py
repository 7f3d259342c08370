# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Recordings of a robot: read, computed and plotted, on one machine and on many.

Each process that works on recordings starts faster without the identification.
"""
from typing import TYPE_CHECKING, Any

from .gufunc import gufunc as gufunc
from .parallel import Result as Result
from .parallel import map as map
from .recording import Recording as Recording
from .recording import read as read

if TYPE_CHECKING:
    from .identification import identify as identify
else:
    def __getattr__(name: str) -> Any:
        """Import the identification when it is first used."""
        if name != "identify":
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from .identification import identify
        return identify

__all__ = ["Recording", "Result", "gufunc", "identify", "map", "read"]
