# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""What the annotations of public functions say."""
from typing import TYPE_CHECKING, Any, TypeAlias

from ..spatial.types import Array as Array
from ..spatial.types import ArrayLike as ArrayLike

if TYPE_CHECKING:
    from .data import Data as Data
    from .model import Model as Model
else:
    # By name alone: a kernel's module that imported them would be compiled again whenever the
    # reader of descriptions changed.
    Data, Model = "Data", "Model"

# A float for one state, (B,) for a batch: the types of the arguments do not tell which.
Scalar: TypeAlias = Any
