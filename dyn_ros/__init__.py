"""dyn_ros: a robot's dynamics as it moves."""
import pkgutil

from .algorithms import *  # noqa: F403
from .algorithms import __all__ as _algorithms
from .model import Data, Model, ReferenceFrame, UrdfError
from .spatial import *  # noqa: F403
from .spatial import __all__ as _values

__version__ = "0.1.0"
__all__ = ["Data", "Model", "ReferenceFrame", "UrdfError", *_algorithms, *_values]

# The generated msg and srv modules are installed beside this file; imported from
# the source tree, they are found in the installed copy instead.
__path__ = pkgutil.extend_path(__path__, __name__)    # noqa: F405
