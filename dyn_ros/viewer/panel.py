# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The panels beside the robot: sliders, numbers, plots, the choice of markers and pushed link."""
from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from html import escape
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from ..model.urdf import Joint
from ..spatial.types import Array
from .touch_panel import STYLE, TouchPanel, line

if TYPE_CHECKING:
    import viser

CURVES = {"gravity": "#1c7ed6", "nle": "#2f9e44", "effort": "#e8590c", "constraint": "#9c36b5"}
"""The torques shown for each joint, and the colors of their curves."""

ON_A_PAGE = 8           # plots shown at once: browsers do not draw more of them smoothly
PLOT_HEIGHT = 92        # [px]
TURN, SLIDE = math.pi, 1.0          # range of the slider of a joint without limits [rad, m]
NOTHING = "nothing"

Unit = TypeVar("Unit", str, float)      # a unit, or a number with one


class Panel:
    """The panels of a page, for one robot.

    User input is in the queue `events`: ("slide", slot, position), ("play",), ("pause",),
    ("push", link), ("let go",), ("see", topic, family, visible), ("hang", on), ("weigh",).

    Parameters
    ----------
    server : viser.ViserServer
    name : str
        Name of the robot.
    joints : list of dyn_ros.model.urdf.Joint
        Joints to show with a slider and a plot.
    links : list of str
        Links that can be pushed.
    seconds : float
        Time span of the plots.
    rate : float
        Rate at which `sample` is called [Hz].
    plays : bool
        Whether the robot has a motion of its own that can be stopped.
    payload : str
        Label of the check box that hangs a payload on the robot; empty: none.

    Attributes
    ----------
    touch : TouchPanel
        What touches the robot.
    """

    def __init__(self, server: viser.ViserServer, name: str, joints: Sequence[Joint],
                 links: Sequence[str], seconds: float, rate: float, plays: bool,
                 payload: str = "") -> None:
        self.events: SimpleQueue[tuple[Any, ...]] = SimpleQueue()
        self._gui = gui = server.gui
        self._joints = joints
        self._loop = server.get_event_loop()
        self._samples: deque[tuple[float, Array]] = deque(maxlen=max(2, round(seconds * rate)))
        self._seconds = seconds
        self._status_shown = ""
        gui.reset()
        gui.set_panel_label(name or "robot")
        gui.main_panel.dock_left()
        gui.main_panel.set_width(300)
        self._status = gui.add_html("")
        self._add_play(plays)
        self._add_sliders()
        with gui.add_folder("Push", expand_by_default=True):
            self._add_push(links)
        self.touch = TouchPanel(gui, self.events.put, payload)
        self._seen: dict[tuple[str, str], viser.GuiCheckboxHandle] = {}
        self._see = gui.add_folder("Markers", visible=False)
        self._side = gui.add_panel()
        self._side.dock_right()
        self._side.set_width(350)
        with self._side.add_tab("Torques"):
            self._add_plots()

    # Joints

    def _add_play(self, plays: bool) -> None:
        self._play = self._gui.add_button("Pause", visible=plays)
        self._plays = True

        @self._play.on_click
        def _(event: viser.GuiEvent) -> None:
            self.events.put(("pause",) if self._plays else ("play",))

    def show_playing(self, plays: bool) -> None:
        """Show whether the robot moves by itself, with the sliders following."""
        self._plays = plays
        self._play.label = "Pause" if plays else "Move by itself"

    def _add_sliders(self) -> None:
        self._sliders: list[viser.GuiSliderHandle] = []
        with self._gui.add_folder("Joints"):
            for slot, joint in enumerate(self._joints):
                lower, upper = _range(joint)
                slider = self._gui.add_slider(
                    joint.name, lower, upper, max(1e-3, round((upper - lower) / 1000, 3)),
                    min(max(0.0, lower), upper), hint=_unit(joint, "rad", "m"))
                slider.on_update(self._on_slide(slot))
                self._sliders.append(slider)

    def _on_slide(self, slot: int) -> Callable[[viser.GuiEvent], Coroutine[Any, Any, None]]:
        # A coroutine runs in viser's own thread, before the robot's position is written there.
        async def slid(event: viser.GuiEvent) -> None:
            if event.client is not None:        # moved by a user, not by the robot
                self._plays = False
                self.events.put(("slide", slot, event.target.value))
        return slid

    @property
    def positions(self) -> Array:
        """Positions of the sliders."""
        return np.array([slider.value for slider in self._sliders])

    def show_positions(self, q: Array) -> None:
        """Move the sliders to these positions, within their range, unless a user moves them."""
        self._loop.call_soon_threadsafe(self._put, q.tolist())

    def _put(self, q: Sequence[float]) -> None:
        if not self._plays:
            return
        for slider, x in zip(self._sliders, q):
            if math.isfinite(x):
                slider.value = min(max(round(x, 3), slider.min), slider.max)

    def enable(self, enabled: bool) -> None:
        """Enable the sliders, or make them read-only."""
        for slider in self._sliders:
            slider.disabled = not enabled

    # Pushing and markers

    def _add_push(self, links: Sequence[str]) -> None:
        self._link = self._gui.add_dropdown(
            "link", [NOTHING, *links], initial_value=links[-1])
        self._force = self._gui.add_html("")
        self._link.on_update(lambda event: self.events.put(("push", self.pushed_link)))
        self._gui.add_button("Let go").on_click(lambda event: self.events.put(("let go",)))
        self.show_force(None)

    @property
    def pushed_link(self) -> str | None:
        """Name of the pushed link, or None."""
        return None if self._link.value == NOTHING else self._link.value

    def show_force(self, force: Array | None) -> None:
        """Show a force [N], (3,), or None."""
        if force is None or not np.any(force):
            text = "drag the handle at this link"
        else:
            text = "force {:.0f} N ({}, {}, {})".format(
                float(np.linalg.norm(force)), *(round(x) for x in force.tolist()))
        self._force.content = line(text)

    def show_families(self, families: Iterable[tuple[str, str]]) -> None:
        """Show a check box for each (topic, family) of markers."""
        for topic, name in families:
            if (topic, name) not in self._seen:
                self._see.visible = True
                with self._see:
                    box = self._gui.add_checkbox(name or topic, True, hint=topic)
                box.on_update(lambda event, what=(topic, name): self.events.put(
                    ("see", *what, event.target.value)))
                self._seen[topic, name] = box

    # Numbers

    def show_status(self, text: str, problems: Iterable[str]) -> None:
        """Show a line about the robot, and a line for each problem."""
        lines = [line(text)] + [
            line(problem, "color:#c92a2a; overflow-wrap:anywhere") for problem in problems]
        content = "".join(lines)
        if content != self._status_shown:
            self._status_shown = self._status.content = content

    def _add_plots(self) -> None:
        legend = " &nbsp; ".join(
            f'<span style="color:{color}">&#9632; {name}</span>' for name, color in CURVES.items())
        self._gui.add_html(f'<div style="{STYLE}">{legend}</div>')
        self._pages = [range(first, min(first + ON_A_PAGE, len(self._joints)))
                       for first in range(0, len(self._joints), ON_A_PAGE)]
        names = [f"{self._joints[page[0]].name} .. {self._joints[page[-1]].name}"
                 for page in self._pages]
        self._page = self._gui.add_dropdown("joints", names or [NOTHING], visible=len(names) > 1)
        self._plots = [_Plot(self._gui, self._seconds)
                       for _ in (self._pages[0] if self._pages else ())]

    def sample(self, now: float, values: Mapping[str, Array]) -> None:
        """Record the torques at a time [s]: for each curve (n,), NaN for unknown values.

        A plot has no gaps, so the curves restart when a value becomes known or unknown.
        """
        sample = np.array([values[name] for name in CURVES])
        if self._samples and (np.isnan(sample) != np.isnan(self._samples[-1][1])).any():
            self._samples.clear()
        self._samples.append((now, sample))

    def show_numbers(self) -> None:
        """Show the latest sample as numbers, and all samples as curves."""
        if not self._samples or not self._pages:
            return
        now, latest = self._samples[-1]
        page = self._pages[self._page.options.index(self._page.value)]
        times = np.array([time for time, _ in self._samples]) - now
        samples = np.array([values for _, values in self._samples])
        for place, plot in enumerate(self._plots):
            if place < len(page):
                slot = page[place]
                plot.show(_numbers(self._joints[slot], latest[:, slot]), times, samples[:, :, slot])
            else:
                plot.hide()


class _Plot:
    """A joint's numbers, with the curves below them."""

    def __init__(self, gui: viser.GuiApi, seconds: float) -> None:
        self._known: tuple[bool, ...] = (False,) * len(CURVES)
        self._text = gui.add_html("")
        self._plot = gui.add_uplot(
            (np.zeros(0),) * (1 + len(CURVES)), self._series(), height=PLOT_HEIGHT,
            legend={"show": False}, padding=(4, 6, 4, 0), axes=({"show": False}, {"size": 46}),
            scales={"x": {"time": False, "range": (-seconds, 0.0)}})

    def _series(self) -> tuple[dict[str, Any], ...]:
        return ({}, *({"label": name, "stroke": color, "width": 1.5, "show": known}
                      for known, (name, color) in zip(self._known, CURVES.items())))

    def show(self, text: str, times: Array, samples: Array) -> None:
        """Show times (k,) and values (k, curves); curves that are unknown, NaN, are omitted."""
        self._text.visible = self._plot.visible = True
        self._text.content = text
        known = tuple(np.isfinite(samples[-1]).tolist())
        if known != self._known:
            self._known = known
            self._plot.series = self._series()
        self._plot.data = (times, *np.nan_to_num(samples).T)

    def hide(self) -> None:
        """Hide the plot on a page with fewer joints."""
        self._text.visible = self._plot.visible = False


def _numbers(joint: Joint, values: Array) -> str:
    """Format a joint's name and its torques, each in the color of its curve."""
    numbers = "".join(
        f' <span class="{name}" style="color:{color}; display:inline-block; min-width:3.4em; '
        f'text-align:right">{value + 0.0:.2f}</span>'
        for (name, color), value in zip(CURVES.items(), values.tolist()) if math.isfinite(value))
    unit = _unit(joint, "N m", "N")
    name = escape(joint.name)
    return (f'<div style="{STYLE}; font-variant-numeric:tabular-nums" data-joint="{name}">'
            f'<b>{name}</b>{numbers} {unit if numbers else ""}</div>')


def _unit(joint: Joint, turning: Unit, sliding: Unit) -> Unit:
    return sliding if joint.kind == "prismatic" else turning


def _range(joint: Joint) -> tuple[float, float]:
    """Return the range of a slider: the joint's limits, if they are finite and consistent."""
    reach = _unit(joint, TURN, SLIDE)
    lower = joint.lower if math.isfinite(joint.lower) else -reach
    upper = joint.upper if math.isfinite(joint.upper) else reach
    if lower >= upper:
        lower, upper = upper - reach, lower + reach
    return float(lower), float(upper)
