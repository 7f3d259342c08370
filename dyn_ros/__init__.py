# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""dyn_ros: rigid-body dynamics of a moving robot."""
import pkgutil
from typing import TYPE_CHECKING, Any

from .algorithms import *  # noqa: F403
from .model import *  # noqa: F403
from .spatial import *  # noqa: F403

if not TYPE_CHECKING:               # which reads the lines above
    from .algorithms import __all__ as _algorithms
    from .model import __all__ as _model
    from .spatial import __all__ as _values
    __all__ = [*_model, *_algorithms, *_values]

__version__ = "0.2.0"

# The generated msg and srv modules are installed next to this file; imported from
# the source tree, they are found in the installed copy instead.
__path__ = pkgutil.extend_path(__path__, __name__)    # noqa: F405
