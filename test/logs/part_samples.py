# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Samples of parts of a table in memory-mapped files, for the tests of identification."""

from pathlib import Path

import numpy as np

from dyn_ros.identification import Samples
from dyn_ros.logs.identify_recordings import rows_between


def save(folder, **arrays):
    for name, array in arrays.items():
        np.save(Path(folder) / f"{name}.npy", array)


def load(cutoff, folder, model, start, stop, around):
    """Return samples of rows with surrounding ones for the filter, and the rows themselves."""
    time, q, tau = (
        np.load(Path(folder) / f"{name}.npy", mmap_mode="r") for name in ("time", "q", "tau")
    )
    rows = slice(max(start - around, 0), stop + around)
    samples = Samples.from_arrays(model, time[rows], q[rows], tau[rows], cutoff=cutoff)
    return samples, rows_between(samples, time[start], time[min(stop, len(time)) - 1])
