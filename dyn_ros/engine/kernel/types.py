# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Types for annotations of numbers."""

from collections.abc import Sequence
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray


class SupportsArray(Protocol):
    """Anything that ``np.asarray`` converts to numbers: an array, or a value of this package."""

    def __array__(self) -> NDArray[np.floating | np.integer | np.bool_]: ...


Array: TypeAlias = NDArray[np.float64]
# numpy.typing.ArrayLike accepts strings
ArrayLike: TypeAlias = (
    SupportsArray
    | Sequence[float]
    | Sequence[SupportsArray]
    | Sequence[Sequence[float]]
    | Sequence[Sequence[SupportsArray]]
    | Sequence[Sequence[Sequence[float]]]
)
# Arrays for the results of a batch: of one result, or of each of several; None: a new one.
OutArrays: TypeAlias = Array | Sequence[Array | None]
# A float for one state, (B,) for a batch, which cannot be inferred from the argument types.
Scalar: TypeAlias = Any
