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
from .text_line import text_line

if TYPE_CHECKING:
    import viser


class Curve(NamedTuple):
    """Color, dash pattern and explanation of a curve.

    The color is readable on white and on black. The pattern is an SVG dash array, empty for a
    solid line.
    """

    color: str
    dash: tuple[int, ...]
    explanation: str


class Progress(NamedTuple):
    """A description of work in progress, for users, and the fraction of it that is done.

    The text is empty if nothing is in progress.
    """

    text: str = ""
    fraction: float = 0.0


NO_PROGRESS = Progress()

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

LIVE_CURVES = "gravity", "nle", "effort", "constraint"
"""The curves of a robot in operation, not of a recording or a simulation."""

PLOTS_PER_PAGE = 8  # browsers do not draw more plots smoothly
PLOT_HEIGHT = 88  # px
TOP_PADDING, BOTTOM_PADDING = 7, 7  # px
AXIS_WIDTH = 44  # px; numbers at the left
LABEL_WIDTH = 118  # px; names and values at the right
LABEL_HEIGHT = 13  # px
MAX_OUTLIER_SPREAD = 4.0  # range with outliers / without; above it, outliers are not shown
SAMPLES_PER_OUTLIER = 20  # one in so many samples may be an outlier, at each end
MIN_RELATIVE_RANGE = 0.05  # range / largest magnitude
MIN_LIMIT_RANGE = 0.01  # range / effort limit
MIN_ROBOT_RANGE = 1e-3  # range / largest torque of all joints, of joints without an effort limit
TORQUE_NOISE = 1e-9  # N m, N; smaller values are numerical noise
MIN_FILL = 0.35  # range of the curves / range of the axis; below it, the axis shrinks
PREFIXES = ((1e4, 1e-3, "k"), (2e-2, 1.0, ""), (2e-5, 1e3, "m"), (0.0, 1e6, "\u00b5"))
"""Unit prefixes: smallest magnitude [N m, N] they are used for, factor, and symbol."""
LIMIT_COLOR = "#868e96"
NO_CHOICE = "nothing"
NO_TORQUES = "No torques yet. The nodes publish them once joint states arrive."


class History(NamedTuple):
    """Torques over time; NaN, which interrupts a curve, if unknown."""

    title: str  # names the time span
    span: tuple[float, float]  # s; the ends of the horizontal axis
    times: Array  # (k,), s
    torques: Array  # (k, curves, joints), N m or N
    present: Array  # (curves, joints), N m or N; shown as numbers
    cursor: float | None = None  # s; a vertical line, if users can choose the time


class Scale(NamedTuple):
    """The vertical axis of a plot, from the first to the last of its ticks."""

    factor: float  # number shown per N m or N
    prefix: str  # prefix of the unit
    ticks: tuple[float, ...]
    decimals: int

    @property
    def range(self) -> tuple[float, float]:
        """The numbers shown at the lower and upper end of the axis."""
        return self.ticks[0], self.ticks[-1]

    def tick_labels(self) -> list[str]:
        """Return the texts of the ticks."""
        return [f"{tick + 0.0:.{self.decimals}f}" for tick in self.ticks]

    def format_value(self, value: float) -> str:
        """Return a value [N m, N] as a number in the unit of the axis."""
        text = f"{self.factor * value:.{max(self.decimals, 2)}f}"
        return text[1:] if float(text) == 0.0 and text[0] == "-" else text


def recent_history(seconds: float, times: Array, torques: Array) -> History:
    """Return the history of torques (k, curves, joints) at times (k,) [s], up to the last one."""
    return History(f"last {seconds:g} s", (-seconds, 0.0), times - times[-1], torques, torques[-1])


def effort_limit(joint: Joint) -> float:
    """Return the effort limit of a joint [N m, N]; infinite without one."""
    return joint.effort if 0.0 < joint.effort < math.inf else math.inf


def find_range(samples: Array, min_range: float = 0.0) -> tuple[float, float]:
    """Return the range of samples (k, curves) to show, without short spikes.

    It is never empty: it is -1 to 1 if all samples are zero, and `MIN_RELATIVE_RANGE` of a constant
    around it. It is at least `min_range` [N m, N], so that noise does not fill a plot.
    """
    inner_ends, ends = [], []
    for values in samples.T:
        ordered = np.sort(values[np.isfinite(values)])
        if len(ordered):
            cut = len(ordered) // SAMPLES_PER_OUTLIER
            inner_ends += [ordered[cut], ordered[-1 - cut]]
            ends += [ordered[0], ordered[-1]]
    if not ends:
        return -1.0, 1.0
    lower, upper = _widen_range(min(inner_ends), max(inner_ends))
    if max(ends) - min(ends) <= MAX_OUTLIER_SPREAD * (upper - lower):
        lower, upper = _widen_range(min(ends), max(ends))
    missing = max(min_range - (upper - lower), 0.0)
    return lower - 0.5 * missing, upper + 0.5 * missing


def _widen_range(lower: float, upper: float) -> tuple[float, float]:
    """Widen a range to `MIN_RELATIVE_RANGE`."""
    magnitude = max(abs(lower), abs(upper))
    if magnitude < TORQUE_NOISE:
        return -1.0, 1.0
    excess = MIN_RELATIVE_RANGE * magnitude - (upper - lower)
    return (lower, upper) if excess <= 0.0 else (lower - 0.5 * excess, upper + 0.5 * excess)


def find_scale(lower: float, upper: float) -> Scale:
    """Return an axis with three to five round numbers that contains a range [N m, N]."""
    magnitude = max(abs(lower), abs(upper))
    factor, prefix = next(
        (factor, prefix) for minimum, factor, prefix in PREFIXES if magnitude >= minimum
    )
    lower, upper = factor * lower, factor * upper
    min_power = math.floor(math.log10(upper - lower)) - 1
    for power, digit in ((min_power + k, digit) for k in range(3) for digit in (1, 2, 5)):
        step = digit * 10.0**power
        first, last = math.floor(lower / step + 1e-9), math.ceil(upper / step - 1e-9)
        if last - first <= 3:
            break
    if last - first < 2:
        last += 1
    return Scale(
        factor, prefix, tuple(round(n * step, 12) for n in range(first, last + 1)), max(0, -power)
    )


def is_suitable(scale: Scale, lower: float, upper: float) -> bool:
    """Return True if a scale shows a range [N m, N] well, so that the axis need not change."""
    first, last = scale.range
    lower, upper = scale.factor * lower, scale.factor * upper
    return (
        first <= lower
        and upper <= last
        and upper - lower >= MIN_FILL * (last - first)
        and find_scale(lower / scale.factor, upper / scale.factor).prefix == scale.prefix
    )


class Plots:
    """The plots of a robot's joints in a tab, `PLOTS_PER_PAGE` of them at a time."""

    def __init__(
        self, gui: viser.GuiApi, joints: Sequence[Joint], curves: Sequence[str], seconds: float
    ) -> None:
        self._joints, self._curves = joints, curves
        self._drawn: tuple[Array, str] | None = None  # torques, and the page of joints
        pages = [
            range(first, min(first + PLOTS_PER_PAGE, len(joints)))
            for first in range(0, len(joints), PLOTS_PER_PAGE)
        ]
        names = [
            f"{i + 1}: {joints[page[0]].name} .. {joints[page[-1]].name}"
            for i, page in enumerate(pages)
        ]
        self._pages = dict(zip(names, pages))
        self._legend = gui.add_html(
            "" if joints else text_line("This robot has no joints that move.", "soft")
        )
        self._note = gui.add_html("", visible=False)
        self._page = gui.add_dropdown("joints", names or [NO_CHOICE], visible=len(names) > 1)
        self._plots = [_Plot(gui, curves, seconds) for _ in (pages[0] if pages else ())]

    def show(self, history: History, progress: Progress = NO_PROGRESS) -> None:
        """Show torques over time; `progress` is what unknown torques are waiting for."""
        if not self._pages:
            return
        note = _progress_note(progress, bool(np.isfinite(history.torques).any()))
        if note != self._note.content:
            self._note.content, self._note.visible = note, bool(note)
        legend = _legend_html(self._curves, history.title)
        if legend != self._legend.content:
            self._legend.content = legend
        page = self._pages[self._page.value]
        # The curves of a whole recording stay the same while the time advances.
        has_new_curves = (
            self._drawn is None
            or self._drawn[0] is not history.torques
            or self._drawn[1] != self._page.value
        )
        self._drawn = history.torques, self._page.value
        torques, largest = history.torques, 0.0
        if has_new_curves:
            largest = float(abs(torques).max(initial=0.0, where=np.isfinite(torques)))
        for i, plot in enumerate(self._plots):
            if i >= len(page):
                plot.hide()
                continue
            slot = page[i]
            if has_new_curves:
                plot.draw(
                    self._joints[slot], history.span, history.times, torques[:, :, slot], largest
                )
            plot.label(self._joints[slot], history, history.present[:, slot])


class _Plot:
    """A plot of one joint: its name, its curves, and their names and values at their ends."""

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
            *({"label": "limit", "stroke": LIMIT_COLOR, "width": 1.0, "dash": (2, 4)},) * 2,
        )
        self._plot = gui.add_uplot(
            (np.zeros(0),) * len(series),
            series,
            height=PLOT_HEIGHT,
            legend={"show": True, "live": True},
            padding=(TOP_PADDING, LABEL_WIDTH, BOTTOM_PADDING, 0),
            cursor={"sync": {"key": "torques"}, "points": {"size": 5}},
            axes=_axes_options(self._scale),
            scales=_scale_options(self._scale, (-seconds, 0.0)),
        )
        self._span = (-seconds, 0.0)
        self._peak_note = ""

    def draw(
        self,
        joint: Joint,
        span: tuple[float, float],
        times: Array,
        samples: Array,
        largest: float,
    ) -> None:
        """Draw samples (k, curves) [N m, N] of a joint at times (k,) [s], and adapt the axes.

        `largest` is the largest magnitude of all joints.
        """
        self._text.visible = self._plot.visible = True
        limit = effort_limit(joint)
        min_range = MIN_LIMIT_RANGE * limit if limit < math.inf else MIN_ROBOT_RANGE * largest
        lower, upper = find_range(samples, min_range)
        is_suited = is_suitable(self._scale, lower, upper)
        if not is_suited:
            self._scale = find_scale(lower, upper)
            self._plot.axes = _axes_options(self._scale)
        if not is_suited or span != self._span:
            self._span = span
            self._plot.scales = _scale_options(self._scale, span)
        self._peak_note = _peak_note(self._scale, samples)
        limits = np.where(np.isfinite([-limit, limit]), [-limit, limit], math.nan)
        curves = np.hstack([samples, np.tile(limits, (len(samples), 1))])
        send_data(self._plot, times, self._scale.factor * curves)

    def label(self, joint: Joint, history: History, values: Array) -> None:
        """Show values (curves,) [N m, N] as numbers, and the cursor of a history."""
        cursor = "" if history.cursor is None else _cursor_html(history.cursor, history.span)
        self._text.content = _plot_labels(
            joint, self._curves, self._scale, values, self._peak_note, cursor
        )

    def hide(self) -> None:
        """Hide the plot and its labels."""
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


def _axes_options(scale: Scale) -> tuple[dict[str, Any], ...]:
    """Return the options of uPlot for the axes: none for the time, and a vertical scale."""
    return (
        {"show": False},
        {
            "size": AXIS_WIDTH,
            "gap": 4,
            "font": "11px system-ui, sans-serif",
            "splits": scale.ticks,
            "values": scale.tick_labels(),
            "ticks": {"show": False},
            "grid": {"stroke": "rgba(128, 128, 128, 0.22)", "width": 1},
        },
    )


def _scale_options(scale: Scale, span: tuple[float, float]) -> dict[str, dict[str, Any]]:
    """Return the options of uPlot for the ranges of time [s] and values."""
    return {"x": {"time": False, "range": span}, "y": {"range": scale.range}}


def line_sample_html(name: str) -> str:
    """Return a sample of a curve's line, as HTML."""
    color, dash, _ = CURVES[name]
    return (
        '<svg width="22" height="8" aria-hidden="true"><line x1="0" y1="4" x2="22" y2="4" '
        f'stroke="{color}" stroke-width="2" stroke-dasharray="{" ".join(map(str, dash))}"/>'
        "</svg>"
    )


def _legend_html(curves: Sequence[str], title: str) -> str:
    """Return the names, lines and explanations of curves, and the title of the time, as HTML."""
    items = "".join(
        f'<span class="dyn-tip" tabindex="0" data-tip="{escape(CURVES[name].explanation)}">'
        f"{line_sample_html(name)} {name}</span>"
        for name in curves
    )
    return f'<div class="dyn dyn-legend">{items}<span class="soft">{escape(title)}</span></div>'


def _progress_note(progress: Progress, has_values: bool) -> str:
    """Return the reason why curves are missing, as HTML; empty if all are shown."""
    if progress.text:
        return (
            f'<div class="dyn dyn-progress" role="status">{escape(progress.text)}'
            f'<progress value="{progress.fraction:.3f}"></progress>'
            '<span class="soft">Curves follow. The next start will not wait.</span></div>'
        )
    return "" if has_values else text_line(NO_TORQUES, "soft")


def _cursor_html(time: float, span: tuple[float, float]) -> str:
    """Return a vertical line at a time [s] in the plot below, as HTML."""
    fraction = (time - span[0]) / (span[1] - span[0])
    return (
        f'<i class="dyn-cursor" style="height:{PLOT_HEIGHT}px; left:calc({AXIS_WIDTH}px + '
        f'(100% - {AXIS_WIDTH + LABEL_WIDTH}px) * {fraction:.4f})"></i>'
    )


def _plot_labels(
    joint: Joint,
    curves: Sequence[str],
    scale: Scale,
    present: Array,
    peak_note: str,
    cursor: str,
) -> str:
    """Return a joint's name and unit, and the names and present values of its curves, as HTML."""
    values = {
        curve: value for curve, value in zip(curves, present.tolist()) if math.isfinite(value)
    }
    top = 0.5 * (PLOT_HEIGHT - LABEL_HEIGHT * (len(curves) - 1))
    labels = "".join(
        f'<span class="dyn-label" style="color:{CURVES[curve].color}; '
        f'top:{top + LABEL_HEIGHT * row:.0f}px"><i>{curve}</i> '
        f'<span class="{curve}">{scale.format_value(values[curve])}</span></span>'
        for row, curve in enumerate(curves)
        if curve in values
    )
    unit = scale.prefix + ("N" if joint.kind == "prismatic" else "N m")
    limit = scale.factor * effort_limit(joint)
    limit_note = f' <span class="soft">limit {limit:.4g}</span>' if limit < math.inf else ""
    name = escape(joint.name)
    return (
        f'<div class="dyn dyn-joint" data-joint="{name}"><b title="{name}">{name}</b> '
        f'<span class="soft unit">{unit}</span>{limit_note}{peak_note}'
        f'<div class="dyn-labels">{labels}</div>{cursor}</div>'
    )


def _peak_note(scale: Scale, samples: Array) -> str:
    """Return the largest value outside the axis, as HTML; empty if all values are inside."""
    values = scale.factor * samples[np.isfinite(samples)]
    lower, upper = scale.range
    noise = TORQUE_NOISE * scale.factor
    outliers = values[(values < lower - noise) | (values > upper + noise)]
    if not len(outliers):
        return ""
    peak = float(outliers[abs(outliers).argmax()])
    return f' <span class="soft">peak {peak:.4g}</span>'
