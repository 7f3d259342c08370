# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Types for the annotations of public functions."""
from typing import TYPE_CHECKING, Any, TypeAlias

from ..kernel.types import Array as Array
from ..kernel.types import ArrayLike as ArrayLike

if TYPE_CHECKING:
    from ..call.data import Data as Data
    from .model import Model as Model
else:
    # By name only, so that kernels do not depend on the module that reads descriptions.
    Data, Model = "Data", "Model"

# A float for one state, (B,) for a batch, which cannot be inferred from the argument types.
Scalar: TypeAlias = Any
