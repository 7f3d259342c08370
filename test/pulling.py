# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Pulls the ball on a page, as a user's mouse does."""

import asyncio
from types import SimpleNamespace


def drag(handle, phase, start, end):
    """Send one event of the mouse, from and to points in the world."""
    event = SimpleNamespace(phase=phase, start_position=tuple(start), end_position=tuple(end))
    asyncio.run(handle._on_drag(event))


def pull(handle, displacement):
    """Grab the ball at its center, and drag it by a displacement in the world."""
    start = handle._grip_in_world()
    drag(handle, "start", start, start)
    drag(handle, "update", start, start + displacement)
