# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""dyn_ros: rigid-body dynamics of a moving robot."""

import sys

if sys.platform == "win32":
    raise ImportError("dyn_ros does not run on Windows; use it in WSL")

from .command import ctrl_c, failures  # noqa: F401, I001    # first: the other imports take a second
import gc
import importlib
import pkgutil
from typing import TYPE_CHECKING, Any

_collects = gc.isenabled()
gc.disable()  # an import leaves no garbage; searching it would take a sixth of the time
try:
    from .engine.algorithms import *  # noqa: F403
    from .engine.call.data import Data as Data
    from .engine.call.documentation import complete_docstrings as _complete_docstrings
    from .engine.call.load_native import load_native as load_native
    from .engine.call.precompile import precompile as precompile
    from .engine.model import *  # noqa: F403
    from .engine.spatial import *  # noqa: F403
    from .observer import *  # noqa: F403
finally:
    if _collects:
        gc.enable()

_ON_FIRST_USE = {
    **dict.fromkeys(
        (
            "BaseEstimate",
            "BaseParameters",
            "Excitation",
            "GainEstimate",
            "GravityEstimate",
            "Identification",
            "JointResult",
            "PlainModel",
            "PayloadEstimate",
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
        ),
        ".identification",
    ),
    **dict.fromkeys(("load_drives", "save_drives"), ".drives"),
    "RobotPicture": ".viewer.notebook",
    "show": ".viewer.notebook",
}

if TYPE_CHECKING:
    from . import logs as logs
    from .drives import *  # noqa: F403
    from .identification import *  # noqa: F403
    from .viewer.notebook import RobotPicture as RobotPicture
    from .viewer.notebook import show as show
else:  # a type checker reads the lines above
    from .engine.algorithms import __all__ as _algorithms
    from .engine.model import __all__ as _model
    from .engine.model.parameters import __all__ as _parameters
    from .engine.spatial import __all__ as _values
    from .observer import __all__ as _observer

    _complete_docstrings(globals()[name] for name in (*_algorithms, *_parameters))
    __all__ = [
        "Data",
        "load_native",
        "precompile",
        *_model,
        *_algorithms,
        *_observer,
        *_values,
        *_ON_FIRST_USE,
    ]

    def __getattr__(name: str) -> Any:
        """Import what takes time and few need when it is first used."""
        if name == "logs":
            return importlib.import_module(".logs", __name__)
        if name not in _ON_FIRST_USE:
            from .engine.pinocchio_names import find_equivalent

            message = f"module {__name__!r} has no attribute {name!r}"
            if equivalent := find_equivalent(name, __all__, dir(Model)):  # noqa: F405
                message += f"; use {equivalent} for this function of Pinocchio"
            raise AttributeError(message)
        return getattr(importlib.import_module(_ON_FIRST_USE[name], __name__), name)


__version__ = "0.2.0"

# The generated msg and srv modules are installed next to this file; imported from
# the source tree, they are found in the installed copy instead.
__path__ = pkgutil.extend_path(__path__, __name__)  # noqa: F405
