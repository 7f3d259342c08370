# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The controls of a recording on the page: its time, with gaps, and what users do."""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import datetime, timezone
from html import escape
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import viser

    from .page.panel import Panel

SPEEDS = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
HELD = 0.5  # after a user has moved the time bar, it is not moved by the recording [s]
BACK, NEXT = "\u25c0 state", "state \u25b6"


class TimeBar:
    """The controls of a recording, from `start` [ns since 1970] on for a `duration` [s].

    The queue `events` is what users do: ("play", whether), ("speed", factor), ("step", -1 or 1) and
    ("seek", seconds).
    """

    def __init__(
        self, server: viser.ViserServer, panel: Panel, name: str, start: int, duration: float
    ) -> None:
        self.events: SimpleQueue[tuple[Any, ...]] = SimpleQueue()
        self._name, self._start, self._duration = name, start, duration
        self._plays = False
        self._moved = -HELD
        self._loop = server.get_event_loop()
        gui = server.gui
        with panel.top:
            self._text = gui.add_html("")
            self._bar = gui.add_slider("time [s]", 0.0, max(round(duration, 3), 1e-3), 1e-3, 0.0)
            self._play = gui.add_button("Play")
            self._step = gui.add_button_group("step", (BACK, NEXT))
            self._speed = gui.add_dropdown(
                "speed", [f"{speed:g} x" for speed in SPEEDS], initial_value="1 x"
            )
        self._play.on_click(lambda event: self.events.put(("play", not self._plays)))
        self._step.on_click(
            lambda event: self.events.put(("step", 1 if event.target.value == NEXT else -1))
        )
        self._speed.on_update(
            lambda event: self.events.put(("speed", float(self._speed.value.split()[0])))
        )

        # A coroutine runs in viser's own thread, before the recording's time is written there.
        @self._bar.on_update
        async def _(event: viser.GuiEvent[viser.GuiSliderHandle[float]]) -> None:
            if event.client is not None:  # moved by a user, not by the recording
                self._moved = time.monotonic()
                self.events.put(("seek", event.target.value))

    def show(
        self, seconds: float, plays: bool, note: str, gaps: Sequence[tuple[float, float]] = ()
    ) -> None:
        """Show the time since the start [s], whether it advances, a note, and gaps [s]."""
        if plays != self._plays:
            self._plays = plays
            self._play.label = "Pause" if plays else "Play"
        date = datetime.fromtimestamp(1e-9 * self._start + seconds, timezone.utc)
        text = (
            '<div class="dyn" style="font-variant-numeric:tabular-nums">'
            f'<b>{escape(self._name)}</b><br><span class="time">{seconds:.2f} s</span> of '
            f"{self._duration:.2f} s &nbsp; {date:%Y-%m-%d %H:%M:%S} UTC"
            f'<br><span class="note">{escape(note) or "&nbsp;"}</span>'
            f"{self._strip(seconds, gaps)}</div>"
        )
        if text != self._text.content:
            self._text.content = text
            self._loop.call_soon_threadsafe(self._put, seconds)

    def _strip(self, seconds: float, gaps: Sequence[tuple[float, float]]) -> str:
        """Return a picture of the whole recording with its gaps and the time, as HTML."""

        def part(since: float) -> float:
            return 100.0 * since / max(self._duration, 1e-3)

        holes = "".join(
            f'<i style="left:{part(start):.2f}%;width:{part(stop - start):.2f}%" '
            f'title="no states for {stop - start:.1f} s"></i>'
            for start, stop in gaps
        )
        return f'<div class="dyn-strip">{holes}<b style="left:{part(seconds):.1f}%"></b></div>'

    def _put(self, seconds: float) -> None:
        if time.monotonic() - self._moved > HELD:
            self._bar.value = min(max(round(seconds, 3), self._bar.min), self._bar.max)
