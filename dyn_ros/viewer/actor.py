# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""What the page needs of its robot: what users may do with it, and how it is shown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from ..engine.kernel.types import Array
from ..engine.spatial import Inertia
from .page.plots import LIVE

if TYPE_CHECKING:
    from .touch_tab import TouchTab


class Actor(Protocol):
    """Carries out what users do on the page; by default, nothing."""

    def can_move(self) -> bool:
        """Whether sliders may move the robot."""
        return False

    def can_weigh(self) -> bool:
        """Whether payloads can be weighed."""
        return False

    def move(self, names: list[str], position: Array, velocity: Array) -> None:
        """Move the joints, as they follow the sliders."""
        return

    def play(self, plays: bool) -> None:
        """Start or stop the robot's own motion."""
        return

    def hold(self, holds: bool) -> None:
        """Slow the robot's own motion to a stop while users reach for it, or continue it."""
        return

    def push(self, link: str, force: Array) -> None:
        """Push a link at its origin, with a force (3,) in its frame [N]; called in each update."""
        return

    def hang(self, link: str, body: Inertia | None) -> None:
        """Hang a body on a link, or take it off (None)."""
        return

    def weigh(self, touch: TouchTab) -> None:
        """Estimate the payload, and show the result."""
        return

    def reject(self, what: str, why: object) -> None:
        """Report what cannot be shown."""

    def report_refusal(self, line: str) -> None:
        """Report a refused request; called in another thread."""


@dataclass
class PageSettings:
    """What a page is like; for `allowed_hosts` see `page.serve`."""

    plot_seconds: float = 10.0  # time span of the plots [s]
    push_scale: float = 100.0  # force per meter of handle displacement [N/m]
    mesh_paths: Sequence[str | Path] = ()  # folders to search for packages with meshes
    world_frames: Sequence[str] = ("world",)  # frames that markers use for the world
    plays: bool = False  # it has a motion of its own that can be stopped
    hangs: bool = False  # a payload can be hung on it
    allowed_hosts: Sequence[str] = ()
    curves: Sequence[str] = LIVE  # keys of `plots.CURVES`
    pushes: bool = True
