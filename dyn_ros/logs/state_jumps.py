# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""States of a recording without jumps of their positions."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ..engine.model.model import Model
from ..recordings.jumps import find_jumps
from ..recordings.recording import Recording

_OUTDATED_AGE = 2**62  # ns; observers and filters restart at a state with such joints


def leave_out_jumps(model: Model, recording: Recording) -> tuple[Recording, list[str]]:
    """Return a recording whose states can be continued, and warnings on its interval.

    States in a glitch are left out. The first state after another jump counts as outdated, so that
    observers and filters restart. Positions remain as recorded: whole turns change no torque.
    """
    states, count = recording.states, len(recording.states.stamp)
    jumps = find_jumps(model, np.multiply(1e-9, states.stamp, dtype=float), states.q)
    start, stop = recording.leading_count, count - recording.trailing_count
    warnings = list(jumps.warnings(slice(start, stop)))
    if jumps.breaks:
        behind = np.where(jumps.break_mask(), _OUTDATED_AGE, states.behind)
        states = states._replace(behind=behind)
    if jumps.glitches:
        is_kept = ~jumps.glitch_mask()
        start, stop = (int(np.count_nonzero(is_kept[:row])) for row in (start, stop))
        states = states.take(is_kept)
        count = len(states.stamp)
    return replace(
        recording, states=states, leading_count=start, trailing_count=count - stop
    ), warnings
