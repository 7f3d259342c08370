# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Work with recordings of a robot: read, compute, write and plot, on one machine or many.

Names are imported when they are first used, so that commands start faster.
"""

import importlib
from typing import TYPE_CHECKING, Any

_MODULES = {
    "Recording": "..recordings.recording",
    "Result": ".parallel",
    "gufunc": ".ufuncs",
    "identify": ".identify_recordings",
    "map": ".parallel",
    "read": "..recordings.reading",
}
__all__ = ["Recording", "Result", "gufunc", "identify", "map", "read"]

if TYPE_CHECKING:
    from ..recordings.reading import read as read
    from ..recordings.recording import Recording as Recording
    from .identify_recordings import identify as identify
    from .parallel import Result as Result
    from .parallel import map as map
    from .ufuncs import gufunc as gufunc
else:

    def __getattr__(name: str) -> Any:
        """Import the module of a name."""
        if name not in _MODULES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(importlib.import_module(_MODULES[name], __name__), name)
