# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The controls of a recording on the page: a bar with its time and gaps, and buttons."""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import datetime, timezone
from html import escape
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import viser

    from .page.page import Server
    from .page.panel import Panel

SPEEDS = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
FIRST_DATE = 978_307_200.0  # s since 1970, the year 2001; earlier times, as of tables, begin at 0
SEEK_PAUSE = 0.5  # s; after a user moved the bar, the recording does not move it
STEP_BACK, STEP_FORWARD = "\u25c0 state", "state \u25b6"


class TimeBar:
    """The controls of a recording, from `start` [ns since 1970] on for a `duration` [s].

    The queue `events` contains user input: ("play", True or False), ("speed", factor),
    ("step", -1 or 1), ("seek", seconds) and ("plot all", True or False).
    """

    def __init__(
        self, server: Server, panel: Panel, name: str, start: int, duration: float
    ) -> None:
        self.events: SimpleQueue[tuple[Any, ...]] = SimpleQueue()
        self._name, self._start, self._duration = name, start, duration
        self._plays = False
        self._seek_time = -SEEK_PAUSE
        self._loop = server.get_event_loop()
        gui = server.gui
        with panel.top:
            self._text = gui.add_html("")
            self._bar = gui.add_slider("time [s]", 0.0, max(round(duration, 3), 1e-3), 1e-3, 0.0)
            self._play = gui.add_button("Play")
            self._step = gui.add_button_group("step", (STEP_BACK, STEP_FORWARD))
            self._speed = gui.add_dropdown(
                "speed", [f"{speed:g} x" for speed in SPEEDS], initial_value="1 x"
            )
            self._plots_all = gui.add_checkbox(
                "plot all",
                False,
                hint="Plot the torques of the whole recording, instead of the last seconds.",
            )
        self._plots_all.on_update(
            lambda event: self.events.put(("plot all", self._plots_all.value))
        )
        server.on_seek = lambda fraction: self.events.put(("seek", fraction * duration))
        self._play.on_click(lambda event: self.events.put(("play", not self._plays)))
        for label, hotkey, action in (
            ("Play or pause", "space", lambda: ("play", not self._plays)),
            ("Previous state", "arrowleft", lambda: ("step", -1)),
            ("Next state", "arrowright", lambda: ("step", 1)),
        ):
            command = gui.add_command(label, hotkey=hotkey)
            command.on_trigger(lambda event, action=action: self.events.put(action()))
        self._step.on_click(
            lambda event: self.events.put(("step", 1 if event.target.value == STEP_FORWARD else -1))
        )
        self._speed.on_update(
            lambda event: self.events.put(("speed", float(self._speed.value.split()[0])))
        )

        # A coroutine runs in viser's own thread, before the recording's time is written there.
        @self._bar.on_update
        async def _(event: viser.GuiEvent[viser.GuiSliderHandle[float]]) -> None:
            if event.client is not None:  # moved by a user, not by the recording
                self._seek_time = time.monotonic()
                self.events.put(("seek", event.target.value))

    def show(
        self, seconds: float, plays: bool, note: str, gaps: Sequence[tuple[float, float]] = ()
    ) -> None:
        """Show the time since the start [s], a note, and gaps (start, stop) [s].

        The recording `plays` if its time advances.
        """
        if plays != self._plays:
            self._plays = plays
            self._play.label = "Pause" if plays else "Play"
        start = 1e-9 * self._start
        date = "the time has no date"
        if start > FIRST_DATE:
            date = f"{datetime.fromtimestamp(start + seconds, timezone.utc):%Y-%m-%d %H:%M:%S} UTC"
        text = (
            '<div class="dyn" style="font-variant-numeric:tabular-nums">'
            f'<b>{escape(self._name)}</b><br><span class="time">{seconds:.2f} s</span> of '
            f"{self._duration:.2f} s &nbsp; {date}"
            f'<br><span class="note">{escape(note) or "&nbsp;"}</span>'
            f"{self._strip_html(seconds, gaps)}</div>"
        )
        if text != self._text.content:
            self._text.content = text
            self._loop.call_soon_threadsafe(self._move_bar, seconds)

    def _strip_html(self, seconds: float, gaps: Sequence[tuple[float, float]]) -> str:
        """Return a strip that shows the whole recording, its gaps and the time, as HTML."""

        def percent(seconds: float) -> float:
            return 100.0 * seconds / max(self._duration, 1e-3)

        gap_marks = "".join(
            f'<i style="left:{percent(start):.2f}%;width:{percent(stop - start):.2f}%" '
            f'title="no states for {stop - start:.1f} s"></i>'
            for start, stop in gaps
        )
        mark = f'<b style="left:{percent(seconds):.1f}%"></b>'
        return f'<div class="dyn-strip">{gap_marks}{mark}</div>'

    def _move_bar(self, seconds: float) -> None:
        """Move the bar to a time, unless a user has just moved it."""
        if time.monotonic() - self._seek_time > SEEK_PAUSE:
            self._bar.value = min(max(round(seconds, 3), self._bar.min), self._bar.max)
