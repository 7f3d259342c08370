# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Compiled functions that recordings require in addition to algorithms."""

from ..cdr.decode_kernel import DECODE
from ..engine.call.algorithm import load_function
from ..observer.runs_kernel import RUNS
from ..recordings.formats.index_kernel import INDEX_MCAP, INDEX_ROS1
from ..states.kernel import COLLECT_MESSAGES

KERNELS = COLLECT_MESSAGES, DECODE, INDEX_MCAP, INDEX_ROS1, RUNS


def compile_kernels() -> None:
    """Compile `KERNELS`, so that worker processes load them from the cache."""
    for entry in KERNELS:
        load_function(entry)
