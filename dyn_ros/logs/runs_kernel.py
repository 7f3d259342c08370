# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Where an observer restarts among the states of a recording: the rules of the observer node."""
import numpy as np
from numba import types

from ..engine.kernel.compiler import Entry
from ..observer.constants import ADAPTION, LOST, SHORTEST_GAP

NO_RUN, CONTINUES, BEGINS = 0, 1, 2


def find_runs(stamp, usable, max_gap, kind):
    """Whether each state begins a run, continues it or belongs to none, in ``kind``.

    A state whose stamp is that of the one before belongs to none, but does not end a run.
    """
    running, last, usual = False, np.int64(0), 0.0
    for k in range(stamp.shape[0]):
        kind[k] = NO_RUN
        if not usable[k]:
            running = False
            continue
        if running:
            dt = 1e-9 * np.float64(stamp[k] - last)
            period = dt if usual == 0.0 else usual
            if dt < 0.0 or dt > max_gap or dt > max(LOST * period, SHORTEST_GAP):
                running = False
            else:
                usual = period + ADAPTION * (dt - period)
                if stamp[k] == last:
                    continue
        kind[k] = CONTINUES
        if not running:
            running, usual, kind[k] = True, 0.0, BEGINS
        last = stamp[k]
    return 0


_STAMPS, _FLAGS = types.Array(types.int64, 1, "C"), types.Array(types.int8, 1, "C")
RUNS = Entry("logs-runs", find_runs, types.int64(_STAMPS, _FLAGS, types.float64, _FLAGS),
             nogil=True)
