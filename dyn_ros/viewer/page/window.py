# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""What the server knows of each browser's window and pointer. The script page.js sends it."""
from __future__ import annotations

import dataclasses
from typing import ClassVar, NamedTuple

from viser._messages import Message

WIDE = 1150     # from this width on [px], there is room for a second panel beside the robot


class Window(NamedTuple):
    """A browser's window: size of the page in it [px], and whether its user prefers a dark page.

    `software`: it draws without a graphics card.
    """

    width: int
    height: int
    dark: bool
    software: bool = False

    @property
    def wide(self) -> bool:
        """Whether there is room for a second panel."""
        return self.width >= WIDE


@dataclasses.dataclass
class DynRosWindowMessage(Message, include_in_scene_serialization=False):   # type: ignore[call-arg]
    """The message of the script, see `Window`."""

    width: int
    height: int
    dark: bool
    software: bool

    LARGEST: ClassVar[int] = 100_000

    def window(self) -> Window:
        """Return the window, with a size that can be computed with."""
        width, height = (min(max(x, 1), self.LARGEST) for x in (self.width, self.height))
        return Window(width, height, bool(self.dark), bool(self.software))


@dataclasses.dataclass
class DynRosReachMessage(Message, include_in_scene_serialization=False):   # type: ignore[call-arg]
    """Whether the pointer is near the ball that pulls the robot, or drags it."""

    reaches: bool


# viser remembers the kinds of messages that it has found
Message._subclass_from_type_string.cache_clear()
