# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The panels beside the robot: sliders, what touches it, torques, the choice of markers."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ...engine.kernel.types import Array
from ...engine.model.urdf import Joint
from ..scene.legend import LEGEND, LEGEND_BY_FAMILY, LegendEntry
from .plots import LIVE, NONE, NOTHING, Plots, Progress, line

if TYPE_CHECKING:
    import viser

    from .page import DynRosWindow, Server

LEFT, RIGHT = 300, 360  # widths of the panels [px]
LEAST, SHARE = 240, 0.35  # width of the left one, and its share of a small window
TURN, SLIDE = math.pi, 1.0  # range of the slider of a joint without limits [rad, m]

WORDS = {
    "com": "center of mass",
    "com_projection": "its projection",
    "subtree_com": "centers of mass of subtrees",
    "zmp": "zero moment point",
}
"""Names of families of markers, where the family is not a name."""


class Unit(NamedTuple):
    """A unit of joint positions: how many of it are one rad or one m.

    `decimals` are those of positions, `mark_decimals` those of the limits below a slider.
    """

    name: str
    per_si: float
    decimals: int
    mark_decimals: int


RAD, DEG = Unit("rad", 1.0, 3, 2), Unit("deg", math.degrees(1.0), 1, 0)
METER = Unit("m", 1.0, 3, 2)


class Panel:
    """The panels of a page, for one robot.

    User input is in the queue `events`: ("slide", slot, position), ("play",), ("pause",),
    ("push", link), ("let go",), ("see", topic, family, visible), ("fit", client id), and those of
    `TouchTab`, whose place is `touch_tab`.

    `joints` have a slider and a plot, `links` can be pushed, at first `pushed` (empty: no pushes).
    `seconds` is the time span of the plots. `plays`: the robot has a motion of its own that can be
    stopped. `curves` are keys of `plots.CURVES`. `top` is a container above the tabs.
    """

    def __init__(
        self,
        server: Server,
        name: str,
        joints: Sequence[Joint],
        links: Sequence[str],
        seconds: float,
        plays: bool,
        curves: Sequence[str] = LIVE,
        pushed: str = "",
    ) -> None:
        self.events: SimpleQueue[tuple[Any, ...]] = SimpleQueue()
        self._server, self._gui = server, server.gui
        self._joints = joints
        self._loop = server.get_event_loop()
        self._status_shown = ""
        self._plays = True
        self._windows: dict[int, DynRosWindow] = {}  # by the clients' ids
        start(server, name or "robot")
        gui = self._gui
        self._status = gui.add_html("")
        self.top = gui.add_folder(None)
        self._tabs = gui.add_tab_group()
        with self._tabs.add_tab("Move"):
            self._play = gui.add_button("Pause", visible=plays)
            self._play.on_click(
                lambda event: self.events.put(("pause",) if self._plays else ("play",))
            )
            self._add_sliders()
        self.touch_tab = self._tabs.add_tab("Touch")
        with self.touch_tab:
            self._add_push(links, pushed)
        self._narrow_tab = self._tabs.add_tab("Torques")
        with self._narrow_tab:
            self._narrow_plots = Plots(gui, joints, curves, seconds)
        self._markers_tab = self._tabs.add_tab("Markers")
        with self._markers_tab:
            self._add_markers()
        self._side = gui.add_panel(visible=False)
        self._side.dock_right()
        self._side.set_width(RIGHT)
        with self._side.add_tab("Torques"):
            self._wide_plots = Plots(gui, joints, curves, seconds)

    # --- windows

    def arrange(self, client: viser.ClientHandle, window: DynRosWindow) -> None:
        """Show the torques in a panel of their own if a window has room for it, else in a tab."""
        from .viser_internals import send_properties, show_tabs

        show_tabs(self._tabs, lambda tab: not (window.wide and tab is self._narrow_tab), client)
        send_properties(self._side, {"visible": window.wide}, client)
        before = self._windows.get(client.client_id)
        self._windows[client.client_id] = window
        # otherwise not again: users may have changed it. The same window reports once more when its
        # panels are there, which may be after the first time.
        if before is None or before == window or left_width(before) != left_width(window):
            client.gui.main_panel.set_width(left_width(window))

    # --- joints

    def show_playing(self, plays: bool) -> None:
        """Show whether the robot moves by itself, with the sliders following."""
        self._plays = plays
        self._play.label = "Pause" if plays else "Move by itself"

    def _add_sliders(self) -> None:
        self._sliders: tuple[viser.GuiSliderHandle, ...] = ()
        self._enabled = True
        self._angle = RAD
        self._gui.add_button("Fit view", color="gray", hint="Show the whole robot.").on_click(
            lambda event: self.events.put(("fit", event.client_id))
        )
        degrees = self._gui.add_checkbox(
            "degrees",
            False,
            hint="Show and set angles in degrees instead of radians.",
            visible=any(joint.kind != "prismatic" for joint in self._joints),
        )
        self._slider_folder = self._gui.add_folder(None)
        self._make_sliders(np.zeros(len(self._joints)))

        @degrees.on_update
        async def _(event: viser.GuiEvent) -> None:  # in viser's thread, as `_put`
            positions = self.positions
            self._angle = DEG if event.target.value else RAD
            self._make_sliders(positions)

    def _unit(self, joint: Joint) -> Unit:
        return METER if joint.kind == "prismatic" else self._angle

    def _make_sliders(self, positions: Array) -> None:
        for slider in self._sliders:
            slider.remove()
        with self._slider_folder:
            self._sliders = tuple(
                self._make_slider(slot, joint, self._unit(joint), x)
                for slot, (joint, x) in enumerate(zip(self._joints, positions.tolist()))
            )

    def _make_slider(
        self,
        slot: int,
        joint: Joint,
        unit: Unit,
        position: float,
    ) -> viser.GuiSliderHandle:
        ends = limits(joint)
        lower, upper = round_inward(ends, unit)
        step = max(10.0**-unit.decimals, round((upper - lower) / 1000, unit.decimals))
        slider = self._gui.add_slider(
            joint.name,
            lower,
            upper,
            min(step, upper - lower),
            min(max(round(unit.per_si * position, unit.decimals), lower), upper),
            marks=[(lower, mark_of(lower, unit)), (upper, mark_of(upper, unit))],
            hint=hint_of(joint, ends, unit),
            disabled=not self._enabled,
        )
        slider.on_update(self._on_slide(slot, unit))
        return slider

    def _on_slide(
        self,
        slot: int,
        unit: Unit,
    ) -> Callable[[viser.GuiEvent], Coroutine[Any, Any, None]]:
        # A coroutine runs in viser's own thread, before the robot's position is written there.
        async def slid(event: viser.GuiEvent) -> None:
            if event.client is not None:  # moved by a user, not by the robot
                self._plays = False
                self.events.put(("slide", slot, event.target.value / unit.per_si))

        return slid

    @property
    def positions(self) -> Array:
        """Positions of the sliders [rad, m]."""
        return np.array(
            [
                slider.value / self._unit(joint).per_si
                for slider, joint in zip(self._sliders, self._joints)
            ]
        )

    def show_positions(self, q: Array) -> None:
        """Move the sliders to these positions, within their range, unless a user moves them."""
        self._loop.call_soon_threadsafe(self._put, q.tolist())

    def _put(self, q: Sequence[float]) -> None:
        if not self._plays:
            return
        for slider, joint, x in zip(self._sliders, self._joints, q):
            if math.isfinite(x):
                unit = self._unit(joint)
                slider.value = min(
                    max(round(unit.per_si * x, unit.decimals), slider.min), slider.max
                )

    def enable(self, enabled: bool) -> None:
        self._enabled = enabled
        for slider in self._sliders:
            slider.disabled = not enabled

    # --- pushing and markers

    def _add_push(self, links: Sequence[str], pushed: str) -> None:
        self._pushes = pushes = bool(pushed)
        self._link = self._gui.add_dropdown(
            "push at", [NOTHING, *links], initial_value=pushed or NOTHING, visible=pushes
        )
        self._force = self._gui.add_html("")
        self._link.on_update(lambda event: self.events.put(("push", self.pushed_link)))
        self._gui.add_button("Let go", visible=pushes).on_click(
            lambda event: self.events.put(("let go",))
        )
        self.show_force(None)

    @property
    def pushed_link(self) -> str | None:
        return None if self._link.value == NOTHING else self._link.value

    def show_force(self, force: Array | None) -> None:
        if not self._pushes:
            text = "A recording cannot be pushed."
        elif force is None or not np.any(force):
            text = "Drag the ball at this link in the picture."
        else:
            text = "force {:.0f} N ({}, {}, {})".format(
                float(np.linalg.norm(force)), *(round(x) for x in force.tolist())
            )
        self._force.content = line(text)

    def _add_markers(self) -> None:
        self._seen: dict[tuple[str, str], viser.GuiCheckboxHandle] = {}
        self._swatches: dict[str, LegendEntry] = {}  # by the id of the check box
        self._style = self._gui.add_html(
            line(
                "Nothing yet. The nodes of dyn_ros publish markers, such as torques and forces.",
                "soft",
            )
        )
        self._groups: dict[str, viser.GuiFolderHandle] = {}
        for kind in LEGEND:
            if kind.group not in self._groups:
                self._groups[kind.group] = self._gui.add_folder(kind.group, visible=False)
        self._gui.add_html('<div class="dyn-room"></div>', order=math.inf)

    def show_families(self, families: Mapping[tuple[str, str], bool]) -> None:
        """Show a check box for each (topic, family) of markers, initially as given."""
        from .viser_internals import identifier

        new = [family for family in families if family not in self._seen]
        for topic, family in new:
            kind = LEGEND_BY_FAMILY.get(family)
            title = kind.group if kind else topic
            if title not in self._groups:
                with self._markers_tab:
                    self._groups[title] = self._gui.add_folder(title)
            group = self._groups[title]
            group.visible = True
            with group:
                box = self._gui.add_checkbox(
                    self._name(topic, family),
                    families[topic, family],
                    order=float(LEGEND.index(kind)) if kind else None,
                )
            box.on_update(
                lambda event, what=(topic, family): self.events.put(
                    ("see", *what, event.target.value)
                )
            )
            self._seen[topic, family] = box
            self._swatches[identifier(box)] = kind or LegendEntry(
                family, topic, "#868e96", f"Markers of the topic {topic}."
            )
        if new:
            self._style.content = _markers_style(self._swatches)

    def _name(self, topic: str, family: str) -> str:
        """Return the label of a family; with the node's name if another node has the same."""
        name = WORDS.get(family, family.replace("_", " ")) or topic
        twice = any(other == family for _, other in self._seen)
        return f"{name} ({topic.partition('/')[0]})" if twice else name

    # --- numbers

    def show_status(self, text: str, problems: Iterable[str], live: bool = True) -> None:
        """Show a line about the robot, whose states arrive or not, and one for each problem."""
        lines = [
            line(text, "status live" if live else "status"),
            *(line(problem, "bad") for problem in problems),
        ]
        content = f'<div class="dyn-status" role="status">{"".join(lines)}</div>'
        if content != self._status_shown:
            self._status_shown = self._status.content = content

    def show_samples(
        self, sampled: Iterable[tuple[float, Array]], progress: Progress = NONE
    ) -> None:
        """Show torques (curves, joints) at times [s], NaN if unknown, where a window has plots.

        `progress` is what torques are waiting for.
        """
        sampled = list(sampled)
        if not sampled:
            return
        times = np.array([time for time, _ in sampled]) - sampled[-1][0]
        samples = np.array([values for _, values in sampled])
        wide = {window.wide for window in self._server.windows.values()}
        if True in wide:
            self._wide_plots.show(times, samples, progress)
        if wide != {True}:
            self._narrow_plots.show(times, samples, progress)


def left_width(window: DynRosWindow) -> int:
    """Return the width of the panel at the left: there is room for the robot in small windows."""
    return min(LEFT, max(LEAST, round(SHARE * window.width)))


def start(server: Server, label: str) -> None:
    """Begin with an empty panel at the left."""
    gui = server.gui
    gui.reset()
    gui.set_panel_label(label)
    gui.main_panel.dock_left()


def show_waiting(server: Server, text: str) -> None:
    """Show why there is no robot yet, and what to do."""
    start(server, "dyn_ros")
    title = line("Waiting for a robot", "title")
    server.gui.add_html(f'<div class="dyn-wait" role="status">{title}{line(text, "soft")}</div>')


def _markers_style(kinds: Mapping[str, LegendEntry]) -> str:
    """Return the style of the check boxes of markers: a swatch, an explanation on hover.

    The page's HTML cannot contain check boxes of its own, but it can style labels by their ids.
    """
    labels = ", ".join(f'label[for="{id}"]' for id in kinds)
    rows = ", ".join(f'div:has(> p > label[for="{id}"])' for id in kinds)
    rules = "".join(
        f'label[for="{id}"]::before {{ background: {kind.color}; }}'
        f'label[for="{id}"]:hover::after {{ content: {json.dumps(kind.explanation)}; }}'
        for id, kind in kinds.items()
    ).replace("<", "\\3c ")
    return (
        f'<style>:is({labels})::before {{ content: ""; display: inline-block; width: 11px;'
        "height: 11px; border-radius: 3px; margin-right: 8px; vertical-align: -1px; }"
        f":is({rows}) {{ width: auto !important; flex-grow: 1; position: static !important; }}"
        f":is({rows}) + div {{ flex-grow: 0 !important; }}"
        f"div:has(> :is({rows})) {{ position: relative; }}"
        f"{rules}:is({labels}):hover::after {{ position: absolute; z-index: 5; left: 0;"
        "right: 0; top: 100%; padding: 6px 10px; border-radius: 6px; letter-spacing: normal; "
        "color: var(--dyn-panel); background: var(--dyn-text); white-space: normal; "
        "pointer-events: none; }</style>"
        f"{line('Point at a name to see what it shows.', 'soft')}"
    )


# --- sliders


def limits(joint: Joint) -> tuple[float, float]:
    """Return the range of a slider [rad, m]: the joint's limits, if finite and consistent."""
    reach = SLIDE if joint.kind == "prismatic" else TURN
    lower = joint.lower if math.isfinite(joint.lower) else -reach
    upper = joint.upper if math.isfinite(joint.upper) else reach
    if lower >= upper:
        lower, upper = upper - reach, lower + reach
    return float(lower), float(upper)


def round_inward(ends: tuple[float, float], unit: Unit) -> tuple[float, float]:
    """Convert a range to a unit, rounded so that nothing outside it can be chosen."""
    lower, upper = (unit.per_si * end for end in ends)
    digits = unit.decimals
    while True:
        scale = 10.0**digits
        low = math.ceil(lower * scale - 1e-6) / scale
        high = math.floor(upper * scale + 1e-6) / scale
        if low < high:
            return low + 0.0, high + 0.0
        digits += 1


def mark_of(value: float, unit: Unit) -> str:
    text = f"{round(value, unit.mark_decimals) + 0.0:.{unit.mark_decimals}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def hint_of(joint: Joint, ends: tuple[float, float], unit: Unit) -> str:
    numbers = " to ".join(f"{unit.per_si * end + 0.0:.{unit.decimals}f}" for end in ends)
    free = "" if math.isfinite(joint.lower) and math.isfinite(joint.upper) else " (no limits)"
    return f"{joint.name}: {numbers} {unit.name}{free}"
