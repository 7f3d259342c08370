# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Plots of each joint's torques: thin lines that end at their names and values."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ...engine.kernel.types import Array
from ...engine.model.urdf import Joint

if TYPE_CHECKING:
    import viser


class Curve(NamedTuple):
    """The look and the meaning of a curve; its color is readable on white and on black."""

    color: str
    dash: tuple[int, ...]
    explanation: str


class Progress(NamedTuple):
    """What is being done, for users, and which share of it is done; without text, nothing."""

    text: str = ""
    share: float = 0.0


NONE = Progress()

CURVES = {
    "gravity": Curve("#2f80ed", (), "The torque that holds the robot still in this position."),
    "nle": Curve(
        "#2b9348", (6, 3), "Nonlinear effects, which are gravity, Coriolis and centrifugal torques."
    ),
    "effort": Curve("#e0620d", (), "The torque that the motor applies, as measured."),
    "constraint": Curve(
        "#a855d8", (2, 3), "The torque that keeps the constraints of the node vereshchagin."
    ),
    "push": Curve("#d63384", (), "The torque that your pull causes."),
    "residual": Curve(
        "#8a7a00", (6, 3), "Measured effort minus the effort that the model needs for this motion."
    ),
    "external": Curve("#e03131", (), "The torque that the environment exerts, as estimated."),
}
"""All curves, by name."""

LIVE = "gravity", "nle", "effort", "constraint"
"""The curves of a robot that moves now."""

ON_A_PAGE = 8  # plots shown at once: browsers do not draw more of them smoothly
HEIGHT = 88  # of a plot [px]
ABOVE, BELOW = 7, 7  # between its edge and its lines [px]
AXIS = 44  # width of the numbers to its left [px]
LABELS = 118  # width of the labels to its right [px]
LINE = 13  # height of a label [px]
SPIKE = 4.0  # a range that outliers enlarge by more than this leaves them out
OUTLIERS = 20  # one sample of so many, at each end, may be an outlier
FLAT = 0.05  # smallest range, relative to the largest value in it
ZERO = 1e-9  # smaller values are numerical noise [N m, N]
LOOSE = 0.35  # the range shrinks when the lines fill less of it
PREFIXES = ((1e4, 1e-3, "k"), (2e-2, 1.0, ""), (2e-5, 1e3, "m"), (0.0, 1e6, "\u00b5"))
NOTHING = "nothing"
UNKNOWN = "No torques yet. The nodes publish them once joint states arrive."


def line(text: str, kind: str = "") -> str:
    """Return a line of text of the panel, as HTML; its kind is a class of page.css."""
    return f'<div class="dyn {kind}">{escape(text)}</div>'


class Scale(NamedTuple):
    """The vertical axis of a plot, from the first to the last of its ticks.

    `factor` is the number shown per N m or N, `prefix` that of the unit.
    """

    factor: float
    prefix: str
    ticks: tuple[float, ...]
    decimals: int

    @property
    def range(self) -> tuple[float, float]:
        return self.ticks[0], self.ticks[-1]

    def texts(self) -> list[str]:
        return [f"{tick + 0.0:.{self.decimals}f}" for tick in self.ticks]

    def number(self, value: float) -> str:
        text = f"{self.factor * value:.{max(self.decimals, 2)}f}"
        return text[1:] if float(text) == 0.0 and text[0] == "-" else text

    def place(self, value: float) -> float:
        """Return where a value [N m, N] is on the axis: 0 at its lower end, 1 at its upper end."""
        lower, upper = self.range
        return min(max((self.factor * value - lower) / (upper - lower), 0.0), 1.0)


def find_range(samples: Array) -> tuple[float, float]:
    """Return the range to show of samples (k, curves), without short spikes.

    It is never empty: around a constant it is a small part of it, around zero from -1 to 1.
    """
    inner, whole = [], []
    for values in samples.T:
        ordered = np.sort(values[np.isfinite(values)])
        if len(ordered):
            cut = len(ordered) // OUTLIERS
            inner += [ordered[cut], ordered[-1 - cut]]
            whole += [ordered[0], ordered[-1]]
    if not whole:
        return -1.0, 1.0
    lower, upper = _wide_enough(min(inner), max(inner))
    if max(whole) - min(whole) <= SPIKE * (upper - lower):
        lower, upper = _wide_enough(min(whole), max(whole))
    return lower, upper


def _wide_enough(lower: float, upper: float) -> tuple[float, float]:
    largest = max(abs(lower), abs(upper))
    if largest < ZERO:
        return -1.0, 1.0
    missing = FLAT * largest - (upper - lower)
    return (lower, upper) if missing <= 0.0 else (lower - 0.5 * missing, upper + 0.5 * missing)


def find_scale(lower: float, upper: float) -> Scale:
    """Return an axis with three to five round numbers that contains a range [N m, N]."""
    largest = max(abs(lower), abs(upper))
    factor, prefix = next(
        (factor, prefix) for least, factor, prefix in PREFIXES if largest >= least
    )
    lower, upper = factor * lower, factor * upper
    finest = math.floor(math.log10(upper - lower)) - 1
    for power, digit in ((finest + up, digit) for up in range(3) for digit in (1, 2, 5)):
        step = digit * 10.0**power
        first, last = math.floor(lower / step + 1e-9), math.ceil(upper / step - 1e-9)
        if last - first <= 3:
            break
    if last - first < 2:
        last += 1
    return Scale(
        factor, prefix, tuple(round(n * step, 12) for n in range(first, last + 1)), max(0, -power)
    )


def fits(scale: Scale, lower: float, upper: float) -> bool:
    """Whether a scale shows a range [N m, N] well: an axis should not change all the time."""
    first, last = scale.range
    lower, upper = scale.factor * lower, scale.factor * upper
    return (
        first <= lower
        and upper <= last
        and upper - lower >= LOOSE * (last - first)
        and find_scale(lower / scale.factor, upper / scale.factor).prefix == scale.prefix
    )


def spread(places: Sequence[float], least: float, top: float, bottom: float) -> list[float]:
    """Move labels, in any order, apart by at least `least`, within top <= place <= bottom."""
    result = list(places)
    order = sorted(range(len(places)), key=lambda i: places[i])
    edge = top
    for i in order:
        result[i] = edge = max(result[i], edge)
        edge += least
    edge = bottom
    for i in reversed(order):
        result[i] = edge = min(result[i], edge)
        edge -= least
    return result


class Plots:
    """The plots of a robot's joints, a page of them at once, in one container of the page."""

    def __init__(
        self, gui: viser.GuiApi, joints: Sequence[Joint], curves: Sequence[str], seconds: float
    ) -> None:
        self._joints, self._curves = joints, curves
        pages = [
            range(first, min(first + ON_A_PAGE, len(joints)))
            for first in range(0, len(joints), ON_A_PAGE)
        ]
        names = [
            f"{i + 1}: {joints[page[0]].name} .. {joints[page[-1]].name}"
            for i, page in enumerate(pages)
        ]
        self._pages = dict(zip(names, pages))
        self._legend = gui.add_html(
            _legend(curves, seconds)
            if joints
            else line("This robot has no joints that move.", "soft")
        )
        self._note = gui.add_html("", visible=False)
        self._page = gui.add_dropdown("joints", names or [NOTHING], visible=len(names) > 1)
        self._plots = [_Plot(gui, curves, seconds) for _ in (pages[0] if pages else ())]

    def show(self, times: Array, samples: Array, progress: Progress = NONE) -> None:
        """Show samples (k, curves, joints) [N m, N], with gaps at NaN, of times (k,) up to 0.

        `progress` is what unknown torques are waiting for.
        """
        if not self._pages:
            return
        note = _note(progress, bool(np.isfinite(samples).any()))
        if note != self._note.content:
            self._note.content, self._note.visible = note, bool(note)
        page = self._pages[self._page.value]
        for place, plot in enumerate(self._plots):
            if place < len(page):
                joint = self._joints[page[place]]
                plot.show(joint, times, samples[:, :, page[place]])
            else:
                plot.hide()


class _Plot:
    """A joint's name, its curves, and their names and values at their ends."""

    def __init__(self, gui: viser.GuiApi, curves: Sequence[str], seconds: float) -> None:
        self._curves = curves
        self._scale = find_scale(-1.0, 1.0)
        self._text = gui.add_html("")
        series = (
            {"label": "time (s)"},
            *(
                {
                    "label": name,
                    "stroke": CURVES[name].color,
                    "width": 1.25,
                    "dash": CURVES[name].dash,
                }
                for name in curves
            ),
        )
        self._plot = gui.add_uplot(
            (np.zeros(0),) * (1 + len(curves)),
            series,
            height=HEIGHT,
            legend={"show": True, "live": True},
            padding=(ABOVE, LABELS, BELOW, 0),
            cursor={"sync": {"key": "torques"}, "points": {"size": 5}},
            axes=_axes(self._scale),
            scales=_scales(self._scale, seconds),
        )
        self._seconds = seconds

    def show(self, joint: Joint, times: Array, samples: Array) -> None:
        self._text.visible = self._plot.visible = True
        lower, upper = find_range(samples)
        if not fits(self._scale, lower, upper):
            self._scale = find_scale(lower, upper)
            self._plot.axes = _axes(self._scale)
            self._plot.scales = _scales(self._scale, self._seconds)
        self._text.content = _labels(joint, self._curves, self._scale, samples)
        send_data(self._plot, times, self._scale.factor * samples)

    def hide(self) -> None:
        self._text.visible = self._plot.visible = False


def send_data(plot: viser.GuiUplotHandle, times: Array, samples: Array) -> None:
    """Send times (k,) and values (k, curves), with gaps at null: viser's `data` makes it NaN."""
    from .viser_internals import send_properties

    columns: list[Any] = [np.ascontiguousarray(times, float)]
    for values in samples.T:
        columns.append(
            np.ascontiguousarray(values)
            if np.isfinite(values).all()
            else [x if math.isfinite(x) else None for x in values.tolist()]
        )
    send_properties(plot, {"data": tuple(columns)})


def _axes(scale: Scale) -> tuple[dict[str, Any], ...]:
    return (
        {"show": False},
        {
            "size": AXIS,
            "gap": 4,
            "font": "11px system-ui, sans-serif",
            "splits": scale.ticks,
            "values": scale.texts(),
            "ticks": {"show": False},
            "grid": {"stroke": "rgba(128, 128, 128, 0.22)", "width": 1},
        },
    )


def _scales(scale: Scale, seconds: float) -> dict[str, dict[str, Any]]:
    return {"x": {"time": False, "range": (-seconds, 0.0)}, "y": {"range": scale.range}}


def swatch(name: str) -> str:
    """Return a piece of a curve's line, as HTML."""
    color, dash, _ = CURVES[name]
    return (
        '<svg width="22" height="8" aria-hidden="true"><line x1="0" y1="4" x2="22" y2="4" '
        f'stroke="{color}" stroke-width="2" stroke-dasharray="{" ".join(map(str, dash))}"/>'
        "</svg>"
    )


def _legend(curves: Sequence[str], seconds: float) -> str:
    items = "".join(
        f'<span class="dyn-tip" tabindex="0" data-tip="{escape(CURVES[name].explanation)}">'
        f"{swatch(name)} {name}</span>"
        for name in curves
    )
    return f'<div class="dyn dyn-legend">{items}<span class="soft">last {seconds:g} s</span></div>'


def _note(progress: Progress, known: bool) -> str:
    """Return why curves are missing, as HTML; empty: none are."""
    if progress.text:
        return (
            f'<div class="dyn dyn-progress" role="status">{escape(progress.text)}'
            f'<progress value="{progress.share:.3f}"></progress>'
            '<span class="soft">Curves follow. The next start will not wait.</span></div>'
        )
    return "" if known else line(UNKNOWN, "soft")


def _labels(joint: Joint, curves: Sequence[str], scale: Scale, samples: Array) -> str:
    """Return a joint's name and unit, and the labels at the ends of its curves, as HTML."""
    latest = samples[-1].tolist()
    known = [i for i, value in enumerate(latest) if math.isfinite(value)]
    inside = HEIGHT - ABOVE - BELOW
    places = spread(
        [ABOVE + (1.0 - scale.place(latest[i])) * inside for i in known],
        LINE,
        0.5 * LINE,
        HEIGHT - 0.5 * LINE,
    )
    labels = "".join(
        f'<span class="dyn-label" style="color:{CURVES[curves[i]].color}; top:{place:.0f}px">'
        f'<i>{curves[i]}</i> <span class="{curves[i]}">{scale.number(latest[i])}</span></span>'
        for i, place in zip(known, places)
    )
    unit = scale.prefix + ("N" if joint.kind == "prismatic" else "N m")
    name = escape(joint.name)
    return (
        f'<div class="dyn dyn-joint" data-joint="{name}"><b title="{name}">{name}</b> '
        f'<span class="soft unit">{unit}</span>{_beyond(scale, samples)}'
        f'<div class="dyn-labels">{labels}</div></div>'
    )


def _beyond(scale: Scale, samples: Array) -> str:
    """Return the largest value that the axis leaves out, as HTML."""
    numbers = scale.factor * samples[np.isfinite(samples)]
    lower, upper = scale.range
    noise = ZERO * scale.factor
    beyond = numbers[(numbers < lower - noise) | (numbers > upper + noise)]
    if not len(beyond):
        return ""
    peak = float(beyond[abs(beyond).argmax()])
    return f' <span class="soft">peak {peak:.4g}</span>'
