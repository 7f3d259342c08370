# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""What annotations say of numbers."""
from collections.abc import Sequence
from typing import Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray


class SupportsArray(Protocol):
    """What ``np.asarray`` makes numbers of: an array, or a value of this package."""

    def __array__(self) -> NDArray[np.floating | np.integer | np.bool_]: ...


Array: TypeAlias = NDArray[np.float64]
# numpy.typing.ArrayLike lets texts pass
ArrayLike: TypeAlias = (
    SupportsArray | Sequence[float] | Sequence[SupportsArray] | Sequence[Sequence[float]]
    | Sequence[Sequence[SupportsArray]] | Sequence[Sequence[Sequence[float]]])
