# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The index of a chunk of records."""
from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ...engine.call.algorithm import compiled
from ...engine.kernel.compiler import Entry
from .index_kernel import INDEX_MCAP, MIN_MCAP_RECORD, MIN_ROS1_RECORD


def index_of(entry: Entry, content: NDArray[np.uint8], codes: dict[int, int] | None
             ) -> tuple[NDArray[np.int64], int]:
    """Index of the messages in an uncompressed chunk, and the size of its whole records.

    ``codes`` are those of channels by their numbers. None: all messages, with the number of their
    channel as code, and negative codes for what defines channels.
    """
    least = MIN_MCAP_RECORD if entry is INDEX_MCAP else MIN_ROS1_RECORD
    channels = np.array(sorted((codes or {}).items()), np.int64).reshape(-1, 2)
    index = np.empty((len(content) // least + 1, 4), np.int64)
    state = np.zeros(2, np.int64)
    compiled(entry)(
        content.ctypes.data, len(content), channels.ctypes.data,
        -1 if codes is None else len(channels), index.ctypes.data, state.ctypes.data)
    return index[:state[0]], int(state[1])
