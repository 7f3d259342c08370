# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Arguments of identifications."""
from __future__ import annotations

import numpy as np

from ..engine.kernel.types import Array, ArrayLike
from ..engine.model.inputs import finite_array


def row_numbers(name: str, value: ArrayLike, count: int) -> Array:
    """A finite number for each row, or one for all, as an array (count,)."""
    array = np.asarray(value)
    return finite_array(name, np.full(count, array) if array.ndim == 0 else array, (count,))
