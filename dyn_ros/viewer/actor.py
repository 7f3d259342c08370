# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The interface of a page to its robot: an actor that carries out user input, and settings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from ..engine.kernel.types import Array
from ..engine.spatial import Inertia
from .page.plots import LIVE_CURVES

if TYPE_CHECKING:
    from .touch_tab import TouchTab


class Actor(Protocol):
    """A robot that carries out what users do on the page; by default, nothing."""

    def can_move(self) -> bool:
        """Return True if sliders may move the robot."""
        return False

    def can_weigh(self) -> bool:
        """Return True if payloads can be weighed."""
        return False

    def move(self, names: list[str], position: Array, velocity: Array) -> None:
        """Command positions [rad, m] and velocities of joints, which follow the sliders."""
        return

    def play(self, plays: bool) -> None:
        """Start or stop the robot's own motion."""
        return

    def hold(self, holds: bool) -> None:
        """Slow the robot's own motion to a stop while users reach for it, or continue it."""
        return

    def push(self, link: str, force: Array) -> None:
        """Push a link at its origin, with a force (3,) in its frame [N].

        The page calls this in each update, with a zero force if nobody pushes.
        """
        return

    def hang(self, link: str, body: Inertia | None) -> None:
        """Hang a payload on a link, or remove it (None)."""
        return

    def weigh(self, touch: TouchTab) -> None:
        """Estimate the payload, and show the result."""
        return

    def reject(self, subject: str, reason: object) -> None:
        """Report something that cannot be shown, such as a topic, and the reason."""

    def report_refusal(self, line: str) -> None:
        """Report a refused request; called in another thread."""


@dataclass
class PageSettings:
    """Settings of a page and of what users can do with its robot."""

    plot_seconds: float = 10.0  # s; time span of the plots
    push_scale: float = 100.0  # N/m; force per displacement of the handle
    mesh_paths: Sequence[str | Path] = ()  # folders to search for packages with meshes
    world_frames: Sequence[str] = ("world",)  # names of the world frame in markers
    has_motion: bool = False  # the robot has a motion of its own that can be stopped
    can_hang: bool = False  # a payload can be hung on the robot
    allowed_hosts: Sequence[str] = ()  # see `page.serve_page`
    curves: Sequence[str] = LIVE_CURVES  # keys of `plots.CURVES`
    can_push: bool = True
    advise: Callable[[str], str] = str  # names what users can set in place of arguments
