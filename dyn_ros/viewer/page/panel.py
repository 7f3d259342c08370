# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The panels beside the robot: sliders, what touches it, torques, the choice of markers."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from html import escape
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ...engine.kernel.types import Array
from ...engine.model.urdf import Joint
from ..scene.legend import LEGEND, LEGEND_BY_FAMILY, LegendEntry
from ..scene.scene import LAYERS
from .plots import LIVE_CURVES, NO_CHOICE, NO_PROGRESS, History, Plots, Progress
from .text_line import text_line

if TYPE_CHECKING:
    import viser

    from .page import DynRosWindow, Server

MAX_LEFT_WIDTH, MIN_LEFT_WIDTH = 300, 240  # px
LEFT_WIDTH_FRACTION = 0.35  # width of left panel / small window
RIGHT_WIDTH = 360  # px
MAX_UNGROUPED_JOINTS = 12  # more joints are in groups that can be folded, and can be filtered
OTHER_JOINTS = "other joints"
UNLIMITED_ANGLE, UNLIMITED_DISTANCE = math.pi, 1.0  # rad, m; sliders of joints without limits

FAMILY_LABELS = {
    "com": "center of mass",
    "com_projection": "its projection",
    "subtree_com": "centers of mass of subtrees",
    "zmp": "zero moment point",
}
"""Labels of families of markers whose label is not the family with spaces."""


class Unit(NamedTuple):
    """A unit of joint positions, and how to round positions in it."""

    name: str
    per_si: float  # number of units per rad or m
    decimals: int
    mark_decimals: int  # decimals of the limits below a slider


RAD, DEG = Unit("rad", 1.0, 3, 2), Unit("deg", math.degrees(1.0), 1, 0)
METER = Unit("m", 1.0, 3, 2)


class Panel:
    """The panels of a page, for one robot.

    The queue `events` contains user input: ("slide", slot, position), ("reset",), ("play",),
    ("pause",), ("push", link), ("let go",), ("click", (origin, direction)), ("see", topic, family,
    visible), ("layer", name, visible), ("transparent", value), ("fit", client id), and the events
    of `TouchTab`, which fills the container `touch_tab`.

    `joints` have a slider and a plot each. `links` can be pushed, at first `pushed_link`; if this
    is empty, none can. `seconds` is the time span of the plots. If the robot `has_motion` of its
    own, a button stops it. `curves` are keys of `plots.CURVES`. `top` is a container above the
    tabs.
    """

    def __init__(
        self,
        server: Server,
        name: str,
        joints: Sequence[Joint],
        links: Sequence[str],
        seconds: float,
        has_motion: bool,
        curves: Sequence[str] = LIVE_CURVES,
        pushed_link: str = "",
    ) -> None:
        self.events: SimpleQueue[tuple[Any, ...]] = SimpleQueue()
        self._server, self._gui = server, server.gui
        self._joints = joints
        self._loop = server.get_event_loop()
        self._status_shown = ""
        self._plays = True
        self._windows: dict[int, DynRosWindow] = {}  # keys: client ids
        reset_panel(server, name or "robot")
        gui = self._gui
        self._status = gui.add_html("")
        self._selection = gui.add_html("", visible=False)
        self.top = gui.add_folder(None)
        self._tabs = gui.add_tab_group()
        with self._tabs.add_tab("Move"):
            self._play = gui.add_button("Pause", visible=has_motion)
            self._play.on_click(
                lambda event: self.events.put(("pause",) if self._plays else ("play",))
            )
            self._add_sliders()
        self.touch_tab = self._tabs.add_tab("Touch")
        with self.touch_tab:
            self._add_push_controls(links, pushed_link)
        self._narrow_tab = self._tabs.add_tab("Torques")
        with self._narrow_tab:
            self._narrow_plots = Plots(gui, joints, curves, seconds)
        self._markers_tab = self._tabs.add_tab("Markers")
        with self._markers_tab:
            self._add_layers()
            self._add_marker_groups()
        self._right_panel = gui.add_panel(visible=False)
        self._right_panel.dock_right()
        self._right_panel.set_width(RIGHT_WIDTH)
        with self._right_panel.add_tab("Torques"):
            self._wide_plots = Plots(gui, joints, curves, seconds)

    # --- windows

    def arrange(self, client: viser.ClientHandle, window: DynRosWindow) -> None:
        """Lay out the panels in a window: torques in a right panel if the window is wide."""
        from .viser_internals import send_properties, show_tabs

        is_wide = window.is_wide
        show_tabs(self._tabs, lambda tab: not (is_wide and tab is self._narrow_tab), client)
        send_properties(self._right_panel, {"visible": is_wide}, client)
        previous = self._windows.get(client.client_id)
        self._windows[client.client_id] = window
        # Users may have changed the width, so it is set only if it is another one. A window reports
        # its size again when its panels exist, which may be after the width was set first.
        if previous is None or previous == window or left_width(previous) != left_width(window):
            client.gui.main_panel.set_width(left_width(window))

    # --- joints

    def show_playing(self, plays: bool) -> None:
        """Show whether the robot moves by itself, with the sliders following."""
        self._plays = plays
        self._play.label = "Pause" if plays else "Move by itself"

    def _add_sliders(self) -> None:
        """Add the sliders, and the controls of the tab Move that belong to them."""
        self._sliders: tuple[viser.GuiSliderHandle, ...] = ()
        self._enabled = True
        self._angle_unit = RAD
        self._gui.add_button("Fit view", color="gray", hint="Show the whole robot.").on_click(
            lambda event: self.events.put(("fit", event.client_id))
        )
        self._reset = self._gui.add_button(
            "Reset pose", color="gray", hint="Move all joints to zero, or to the nearest limit."
        )
        self._reset.on_click(lambda event: self.events.put(("reset",)))
        degrees = self._gui.add_checkbox(
            "degrees",
            False,
            hint="Show and set angles in degrees instead of radians.",
            visible=any(joint.kind != "prismatic" for joint in self._joints),
        )
        self._filter = self._gui.add_text(
            "find joint",
            "",
            hint="Show only joints whose names contain this text.",
            visible=len(self._joints) > MAX_UNGROUPED_JOINTS,
        )
        self._slider_folder = self._gui.add_folder(None)
        with self._slider_folder:
            self._group_folders = [
                (self._gui.add_folder(title, expand_by_default=number == 0), slots)
                for number, (title, slots) in enumerate(
                    group_joints([joint.name for joint in self._joints])
                )
            ]
        self._make_sliders(np.zeros(len(self._joints)))

        @self._filter.on_update
        async def _(event: viser.GuiEvent) -> None:
            self._filter_joints()

        @degrees.on_update
        async def _(event: viser.GuiEvent) -> None:  # runs in viser's thread, as `_set_sliders`
            positions = self.positions
            self._angle_unit = DEG if event.target.value else RAD
            self._make_sliders(positions)

    def _unit_of(self, joint: Joint) -> Unit:
        """Return the unit in which the positions of a joint are shown."""
        return METER if joint.kind == "prismatic" else self._angle_unit

    def _make_sliders(self, positions: Array) -> None:
        """Replace all sliders by new ones at positions (n,) [rad, m]."""
        for slider in self._sliders:
            slider.remove()
        sliders = {}
        for folder, slots in self._group_folders:
            with folder:
                for slot in slots:
                    joint = self._joints[slot]
                    sliders[slot] = self._make_slider(
                        slot, joint, self._unit_of(joint), float(positions[slot])
                    )
        self._sliders = tuple(sliders[slot] for slot in range(len(self._joints)))

    def _is_found(self, joint: Joint) -> bool:
        """Return True if the name of a joint contains the text of the filter."""
        return self._filter.value.strip().lower() in joint.name.lower()

    def _filter_joints(self) -> None:
        """Show only the sliders of joints that are found, and their groups."""
        for joint, slider in zip(self._joints, self._sliders):
            _show(slider, self._is_found(joint))
        for folder, slots in self._group_folders:
            _show(folder, any(self._is_found(self._joints[slot]) for slot in slots))

    def _make_slider(
        self,
        slot: int,
        joint: Joint,
        unit: Unit,
        position: float,
    ) -> viser.GuiSliderHandle:
        """Return a new slider of the joint in a slot, at a position [rad, m]."""
        limits = slider_limits(joint)
        lower, upper = round_inward(limits, unit)
        step = max(10.0**-unit.decimals, round((upper - lower) / 1000, unit.decimals))
        slider = self._gui.add_slider(
            joint.name,
            lower,
            upper,
            min(step, upper - lower),
            min(max(round(unit.per_si * position, unit.decimals), lower), upper),
            marks=[(lower, mark_text(lower, unit)), (upper, mark_text(upper, unit))],
            hint=hint_text(joint, limits, unit),
            disabled=not self._enabled,
            visible=self._is_found(joint),
        )
        slider.on_update(self._make_slide_handler(slot, unit))
        return slider

    def _make_slide_handler(
        self,
        slot: int,
        unit: Unit,
    ) -> Callable[[viser.GuiEvent], Coroutine[Any, Any, None]]:
        """Return the function that reports that a user has moved the slider of a slot."""

        # A coroutine runs in viser's own thread, before the robot's position is written there.
        async def on_slide(event: viser.GuiEvent) -> None:
            if event.client is None:  # moved by the robot, not by a user
                return
            self._plays = False
            slider = event.target
            position = min(max(slider.value, slider.min), slider.max)
            if position != slider.value:  # a number that was typed
                typed_position, slider.value = slider.value / unit.per_si, position
                self.events.put(("exceed", slot, typed_position))
            self.events.put(("slide", slot, position / unit.per_si))

        return on_slide

    @property
    def positions(self) -> Array:
        """Positions of the sliders [rad, m]."""
        return np.array(
            [
                slider.value / self._unit_of(joint).per_si
                for slider, joint in zip(self._sliders, self._joints)
            ]
        )

    def show_positions(self, q: Array) -> None:
        """Move the sliders to positions (n,), within their range, unless a user moves them."""
        self._loop.call_soon_threadsafe(self._set_sliders, q.tolist())

    def set_positions(self, q: Array) -> None:
        """Move the sliders to positions (n,), within their range, also if a user moves them."""
        self._loop.call_soon_threadsafe(self._write_sliders, q.tolist())

    def _set_sliders(self, q: Sequence[float]) -> None:
        """Move the sliders, in viser's thread; see `show_positions`."""
        if self._plays:
            self._write_sliders(q)

    def _write_sliders(self, q: Sequence[float]) -> None:
        """Move the sliders, in viser's thread."""
        for slider, joint, x in zip(self._sliders, self._joints, q):
            if math.isfinite(x):
                unit = self._unit_of(joint)
                slider.value = min(
                    max(round(unit.per_si * x, unit.decimals), slider.min), slider.max
                )

    def enable(self, enabled: bool) -> None:
        """Enable or disable the sliders."""
        self._enabled = enabled
        self._reset.disabled = not enabled
        for slider in self._sliders:
            slider.disabled = not enabled

    # --- pushing and markers

    def _add_push_controls(self, links: Sequence[str], pushed_link: str) -> None:
        """Add the choice of the link to push, and the force; hidden if no link can be pushed."""
        self._can_push = can_push = bool(pushed_link)
        self._link = self._gui.add_dropdown(
            "push at",
            [NO_CHOICE, *links],
            initial_value=pushed_link or NO_CHOICE,
            visible=can_push,
        )
        self._force = self._gui.add_html("")
        self._link.on_update(lambda event: self.events.put(("push", self.pushed_link)))
        self._let_go = self._gui.add_button("Let go", visible=False)
        self._let_go.on_click(lambda event: self.events.put(("let go",)))
        self.show_force(None)

    @property
    def pushed_link(self) -> str | None:
        """The link that users have chosen to push."""
        return None if self._link.value == NO_CHOICE else self._link.value

    def show_selection(self, link: str, joint: str) -> None:
        """Show a link that a user has clicked, and the joint that moves it; push it from now on."""
        motion = f"moved by {joint}" if joint else "the root link"
        self._selection.content = text_line(f"{link}: {motion}", "selection")
        _show(self._selection, True)
        if self._can_push and self._link.value != link:
            self._link.value = link

    def show_force(self, force: Array | None, is_held: bool = False) -> None:
        """Show the force (3,) of the push [N], and a button to release a handle that is held."""
        _show(self._let_go, is_held)
        if not self._can_push:
            text = "A recording cannot be pushed."
        elif force is None or not np.any(force):
            text = "Drag the ball at this link in the picture."
        else:
            text = "force {:.0f} N ({}, {}, {})".format(
                float(np.linalg.norm(force)), *(round(x) for x in force.tolist())
            )
        self._force.content = text_line(text)

    def _add_layers(self) -> None:
        """Add check boxes for what can be shown of the robot."""
        with self._gui.add_folder("Robot", expand_by_default=False):
            for layer in LAYERS:
                box = self._gui.add_checkbox(layer, False)
                box.on_update(
                    lambda event, layer=layer: self.events.put(("layer", layer, event.target.value))
                )
            box = self._gui.add_checkbox(
                "transparent", False, hint="See what is inside the robot, such as its markers."
            )
            box.on_update(lambda event: self.events.put(("transparent", event.target.value)))

    def _add_marker_groups(self) -> None:
        """Add hidden folders for the groups of the legend, and a text for an empty tab."""
        self._check_boxes: dict[tuple[str, str], viser.GuiCheckboxHandle] = {}
        self._legend: dict[str, LegendEntry] = {}  # keys: ids of check boxes
        self._legend_style = self._gui.add_html(
            text_line(
                "Nothing yet. The nodes of dyn_ros publish markers, such as torques and forces.",
                "soft",
            )
        )
        self._groups: dict[str, viser.GuiFolderHandle] = {}
        for entry in LEGEND:
            if entry.group not in self._groups:
                self._groups[entry.group] = self._gui.add_folder(entry.group, visible=False)
        self._gui.add_html('<div class="dyn-room"></div>', order=math.inf)

    def show_families(self, families: Mapping[tuple[str, str], bool]) -> None:
        """Show a check box for each (topic, family) of markers, checked at first if it is True."""
        from .viser_internals import control_id

        new_keys = [key for key in families if key not in self._check_boxes]
        for topic, family in new_keys:
            entry = LEGEND_BY_FAMILY.get(family)
            title = entry.group if entry else topic
            if title not in self._groups:
                with self._markers_tab:
                    self._groups[title] = self._gui.add_folder(title)
            group = self._groups[title]
            group.visible = True
            with group:
                box = self._gui.add_checkbox(
                    self._family_label(topic, family),
                    families[topic, family],
                    order=float(LEGEND.index(entry)) if entry else None,
                )
            box.on_update(
                lambda event, key=(topic, family): self.events.put(
                    ("see", *key, event.target.value)
                )
            )
            self._check_boxes[topic, family] = box
            self._legend[control_id(box)] = entry or LegendEntry(
                family, topic, "#868e96", f"Markers of the topic {topic}."
            )
        if new_keys:
            self._legend_style.content = _legend_style(self._legend)

    def _family_label(self, topic: str, family: str) -> str:
        """Return the label of a family, with the node's name if the family is already listed."""
        label = FAMILY_LABELS.get(family, family.replace("_", " ")) or topic
        is_listed = any(listed_family == family for _, listed_family in self._check_boxes)
        return f"{label} ({topic.partition('/')[0]})" if is_listed else label

    # --- numbers

    def show_status(self, text: str, problems: Iterable[str], live: bool = True) -> None:
        """Show a line about the robot, highlighted if states arrive, and one for each problem."""
        lines = [
            text_line(text, "status live" if live else "status"),
            *(_problem_lines(problem) for problem in problems),
        ]
        content = f'<div class="dyn-status" role="status">{"".join(lines)}</div>'
        if content != self._status_shown:
            self._status_shown = self._status.content = content

    def show_history(self, history: History, progress: Progress = NO_PROGRESS) -> None:
        """Plot torques over time; `progress` is what unknown ones are waiting for."""
        widths = {window.is_wide for window in self._server.windows.values()}
        if True in widths:
            self._wide_plots.show(history, progress)
        if widths != {True}:
            self._narrow_plots.show(history, progress)


def _show(control: Any, is_visible: bool) -> None:
    """Show or hide a control; send only changes."""
    if control.visible != is_visible:
        control.visible = is_visible


def _problem_lines(problem: str) -> str:
    """Return a problem as HTML; lines after the first are folded."""
    summary, *details = problem.split("\n")
    if not details:
        return text_line(summary, "bad")
    lines = "".join(text_line(line, "soft") for line in details)
    return f'<details class="dyn bad"><summary>{escape(summary)}</summary>{lines}</details>'


def left_width(window: DynRosWindow) -> int:
    """Return the width of the left panel [px], which leaves room for the robot."""
    return min(MAX_LEFT_WIDTH, max(MIN_LEFT_WIDTH, round(LEFT_WIDTH_FRACTION * window.width)))


def reset_panel(server: Server, label: str) -> None:
    """Replace all controls by an empty panel at the left."""
    gui = server.gui
    gui.reset()
    gui.set_panel_label(label)
    gui.main_panel.dock_left()


def show_waiting(server: Server, text: str) -> None:
    """Show why there is no robot yet, and what to do."""
    reset_panel(server, "dyn_ros")
    title = text_line("Waiting for a robot", "title")
    server.gui.add_html(
        f'<div class="dyn-wait" role="status">{title}{text_line(text, "soft")}</div>'
    )


def _legend_style(entries: Mapping[str, LegendEntry]) -> str:
    """Return the style of the check boxes of markers: a color, and an explanation on hover.

    The page's HTML cannot contain check boxes of its own, but it can style labels by their ids.
    """
    labels = ", ".join(f'label[for="{id}"]' for id in entries)
    rows = ", ".join(f'div:has(> p > label[for="{id}"])' for id in entries)
    rules = "".join(
        f'label[for="{id}"]::before {{ background: {entry.color}; }}'
        f'label[for="{id}"]:hover::after {{ content: {json.dumps(entry.explanation)}; }}'
        for id, entry in entries.items()
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
        f"{text_line('Point at a name to see what it shows.', 'soft')}"
    )


# --- sliders


def group_joints(names: Sequence[str]) -> list[tuple[str | None, list[int]]]:
    """Return titles and indices of groups of joints whose names begin alike.

    Up to `MAX_UNGROUPED_JOINTS` joints are one group without a title. Joints that are alone in
    their group are in the group "other joints".
    """
    if len(names) <= MAX_UNGROUPED_JOINTS:
        return [(None, list(range(len(names))))]
    titles = [re.sub(r"[_-]*\d.*", "", name) for name in names]
    counts = Counter(titles)
    titles = [
        title if title and counts[title] > 1 else re.split(r"[_-]", name)[0]
        for title, name in zip(titles, names)
    ]
    counts = Counter(titles)
    groups: dict[str | None, list[int]] = {}
    for slot, title in enumerate(titles):
        groups.setdefault(title if counts[title] > 1 else OTHER_JOINTS, []).append(slot)
    return sorted(groups.items(), key=lambda group: group[0] == OTHER_JOINTS)


def slider_limits(joint: Joint) -> tuple[float, float]:
    """Return the range of a slider [rad, m]: the joint's limits, if finite and consistent."""
    half_range = UNLIMITED_DISTANCE if joint.kind == "prismatic" else UNLIMITED_ANGLE
    lower = joint.lower if math.isfinite(joint.lower) else -half_range
    upper = joint.upper if math.isfinite(joint.upper) else half_range
    if lower >= upper:
        lower, upper = upper - half_range, lower + half_range
    return float(lower), float(upper)


def round_inward(limits: tuple[float, float], unit: Unit) -> tuple[float, float]:
    """Convert limits [rad, m] to a unit, rounded so that no value outside them can be chosen."""
    lower, upper = (unit.per_si * limit for limit in limits)
    decimals = unit.decimals
    while True:
        scale = 10.0**decimals
        rounded_lower = math.ceil(lower * scale - 1e-6) / scale
        rounded_upper = math.floor(upper * scale + 1e-6) / scale
        if rounded_lower < rounded_upper:
            return rounded_lower + 0.0, rounded_upper + 0.0
        decimals += 1


def mark_text(value: float, unit: Unit) -> str:
    """Return the text of a mark below a slider, without trailing zeros."""
    text = f"{round(value, unit.mark_decimals) + 0.0:.{unit.mark_decimals}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def hint_text(joint: Joint, limits: tuple[float, float], unit: Unit) -> str:
    """Return what a slider shows on hover: the joint's name and limits [rad, m] in a unit."""
    numbers = " to ".join(f"{unit.per_si * limit + 0.0:.{unit.decimals}f}" for limit in limits)
    note = "" if math.isfinite(joint.lower) and math.isfinite(joint.upper) else " (no limits)"
    return f"{joint.name}: {numbers} {unit.name}{note}"
