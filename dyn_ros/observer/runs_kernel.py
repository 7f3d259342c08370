# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Rule by which an observer restarts among states in order of time, for each state and for all.

It restarts after a gap longer than ``max_gap``, or than five usual periods and 10 ms, and where
stamps go back. States that lack a velocity or an effort are left out: the step over them is longer.
"""

from ..engine.kernel.lanes import integers_at
from ..engine.kernel.raw import bytes_at
from ..engine.machine_code.compiler import Entry
from ..engine.machine_code.declare import kernel

MAX_MISSED_PERIODS = 5.0  # usual periods; after a longer gap, the motion is unknown
SHORTEST_GAP = 0.01  # s; no shorter one causes a restart
PERIOD_ADAPTATION = 0.05  # weight of the latest period in the usual one
NO_RUN, CONTINUES, BEGINS = 0, 1, 2
UNUSABLE, USABLE, INCOMPLETE = 0, 1, 2


@kernel
def period_after(dt, period, max_gap):
    """Return the usual period after a step of length dt [s]; -1 if the observer must restart.

    ``period`` is the usual period before the step, or 0 for the first step.
    """
    usual = dt if period == 0.0 else period
    if dt < 0.0 or dt > max_gap or dt > max(MAX_MISSED_PERIODS * usual, SHORTEST_GAP):
        return -1.0
    return usual + PERIOD_ADAPTATION * (dt - usual)


def find_runs(stamp, usable, count, max_gap, kind):
    """Write BEGINS, CONTINUES or NO_RUN for each of ``count`` states to ``kind``.

    Reads ``stamp`` [ns] and ``usable``: UNUSABLE states end a run. The arrays are passed by their
    addresses.

    INCOMPLETE states, and states with the same stamp as the state before, belong to no run, but do
    not end it.
    """
    stamp, usable, kind = integers_at(stamp), bytes_at(usable), bytes_at(kind)
    running, last, usual = False, 0, 0.0
    for k in range(count):
        kind[k] = NO_RUN
        if usable[k] != USABLE:
            running = running and usable[k] == INCOMPLETE
            continue
        if running:
            period = period_after(1e-9 * (stamp[k] - last), usual, max_gap)
            if period < 0.0:
                running = False
            else:
                usual = period
                if stamp[k] == last:
                    continue
        kind[k] = CONTINUES
        if not running:
            running, usual, kind[k] = True, 0.0, BEGINS
        last = stamp[k]
    return 0


RUNS = Entry("observer-runs", find_runs, "ppqdp")
