# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Plots of results: a picture, or a page whose panels zoom together.

There is a row of panels for each joint, with a column for each kind of quantity, so that a peak
belongs to a joint at a glance and what has one unit can be compared. Below are those of the whole
robot.
"""

from __future__ import annotations

import datetime
import html
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ...engine.kernel.types import Array
from .atomic import whole_file
from .curves import Curve, Curves, Piece, read_curves

SUFFIXES = ".png", ".html"

_GRAY, _GREEN, _ORANGE, _BLUE, _RED, _DARK = (
    "#a8aeb7",
    "#5b9a5f",
    "#d08a35",
    "#2a6db0",
    "#b3372f",
    "#3c4043",
)
_GRID, _LINE, _TEXT, _QUIET = "#e8eaed", "#c9ccd1", "#3c4043", "#6b7078"
_AXES = (("x", _RED), ("y", _GREEN), ("z", _BLUE))
_UNITS = (
    (3 * 86400.0, 86400.0, "d"),
    (3 * 3600.0, 3600.0, "h"),
    (600.0, 60.0, "min"),
    (0.0, 1.0, "s"),
)

_PNG_POINTS = 3000  # intervals of a curve in a picture
_HTML_POINTS = 10_000  # of a curve in a page, at most
_ALL_POINTS = 150_000  # of all curves in a page
_DPI = 110
_UNKNOWN = "unknown in all states"


class Line(NamedTuple):
    column: str
    label: str
    color: str


# title, and the curves from back to front; a column of a joint also has its name
_OF_JOINTS: tuple[tuple[str, tuple[Line, ...]], ...] = (
    ("position", (Line("position", "position", _DARK),)),
    ("velocity", (Line("velocity", "velocity", _DARK),)),
    (
        "effort",
        (
            Line("effort", "measured", _GRAY),
            Line("torque", "torque", _BLUE),
            Line("nle", "nle", _ORANGE),
            Line("gravity", "gravity", _GREEN),
        ),
    ),
    (
        "external effort",
        (Line("residual", "residual", _ORANGE), Line("external", "external", _BLUE)),
    ),
    ("power", (Line("power", "power", _DARK),)),
)
_OF_ROBOT = (
    *(
        (title, tuple(Line(f"{column}.{axis}", axis, color) for axis, color in _AXES))
        for title, column in (
            ("center of mass", "com"),
            ("velocity of the center of mass", "com_velocity"),
            ("angular momentum", "angular_momentum"),
        )
    ),
    (
        "energy",
        (
            Line("energy.total", "total", _GRAY),
            Line("energy.potential", "potential", _GREEN),
            Line("energy.kinetic", "kinetic", _BLUE),
        ),
    ),
    ("power of all joints", (Line("power.total", "power", _DARK),)),
)


class Panel(NamedTuple):
    """A panel: row, place in the row, title, unit, lines; joint, or empty."""

    row: int
    place: int
    places: int
    title: str
    unit: str
    lines: list[Line]
    joint: str


def plot(files: Mapping[str, Sequence[Path]], path: str | Path) -> None:
    """Plot the Parquet files of recordings, in order of time, by the name of the recording.

    The path ends with .png or .html. A page contains all that it needs; its panels zoom together. A
    ValueError for another suffix, or nothing to plot; an ImportError names the command that
    installs a package.
    """
    target = Path(path)
    if target.suffix.lower() not in SUFFIXES:
        raise ValueError(f"plot: expected a file that ends with .png or .html, got {str(path)!r}")
    is_picture = target.suffix.lower() == ".png"
    curves = _curves(files, is_picture)
    content = _picture(curves) if is_picture else _page(curves)
    with whole_file(target) as file:
        file.write(content)


def _curves(files: Mapping[str, Sequence[Path]], is_picture: bool) -> Curves:
    from pyarrow import parquet

    names = {
        name
        for paths in files.values()
        for path in paths[:1]
        for name in parquet.read_schema(path).names
    }
    wanted = {line.column for panel in arrange(names, {}) for line in panel.lines}
    if not wanted:
        raise ValueError(
            "plot: expected results with a column that can be plotted, got "
            + (", ".join(sorted(names)[:20]) or "none")
        )
    points = _PNG_POINTS if is_picture else min(_HTML_POINTS, _ALL_POINTS // len(wanted))
    return read_curves(files, points, wanted)


def arrange(columns: Collection[str], units: Mapping[str, str]) -> list[Panel]:
    """The panels for these columns, row by row."""
    joints = list(
        dict.fromkeys(
            name.partition(".")[2]
            for _, lines in _OF_JOINTS
            for line in lines
            for name in columns
            if name.startswith(f"{line.column}.") and name != "power.total"
        )
    )
    kinds: list[tuple[str, list[Line]]] = []
    for title, lines in _OF_JOINTS:
        present = [
            line for line in lines if any(f"{line.column}.{joint}" in columns for joint in joints)
        ]
        if present:
            is_title = len(present) > 1 or present[0].label == "measured"
            kinds.append((title if is_title else present[0].label, present))
    panels = []
    for row, joint in enumerate(joints):
        for place, (title, present) in enumerate(kinds):
            own = [
                line._replace(column=f"{line.column}.{joint}")
                for line in present
                if f"{line.column}.{joint}" in columns
            ]
            if own:
                panels.append(
                    Panel(row, place, len(kinds), title, units.get(own[0].column, ""), own, joint)
                )
    row = len(joints)
    for title, lines in _OF_ROBOT:
        if own := [line for line in lines if line.column in columns]:
            panels.append(Panel(row, 0, 1, title, units.get(own[0].column, ""), own, ""))
            row += 1
    return panels


def _axis_of_time(pieces: Sequence[Piece]) -> tuple[float, str, str]:
    """Seconds in a unit of time, the label of the axis, and what is plotted."""
    span = _span(pieces)
    seconds, unit = next((seconds, unit) for least, seconds, unit in _UNITS if span >= least)
    if len(pieces) == 1:
        return seconds, f"time [{unit}]", f"{pieces[0].name}, from {_date(pieces[0].stamp)}"
    return (
        seconds,
        f"recorded time [{unit}]",
        f"{len(pieces)} recordings, one after the other, from {_date(pieces[0].stamp)}",
    )


def _span(pieces: Sequence[Piece]) -> float:
    """The time that is shown [s]: some, if there is a single state."""
    return pieces[-1].stop or 1.0


def _has_date(stamp: int) -> bool:
    """Whether a stamp is a date, and not the time of a simulation."""
    return stamp >= 10**17


def _date(stamp: int) -> str:
    if not _has_date(stamp):
        return f"{1e-9 * stamp:.3f} s"
    moment = datetime.datetime.fromtimestamp(stamp // 10**9, datetime.timezone.utc)
    return f"{moment:%Y-%m-%d %H:%M:%S} UTC"


def _layout(curves: Curves, low: float, high: float) -> tuple[list[Panel], int, list[float]]:
    """The panels, the number of columns, and the heights of rows: high for the whole robot."""
    panels = arrange(list(curves.units), curves.units)
    of_robot = {panel.row for panel in panels if not panel.joint}
    rows = 1 + max(panel.row for panel in panels)
    return (
        panels,
        max(panel.places for panel in panels),
        [high if row in of_robot else low for row in range(rows)],
    )


def _is_known(panel: Panel, curves: Curves) -> bool:
    return any(curves.by_column[line.column].is_known for line in panel.lines)


# --- picture


def _picture(curves: Curves) -> bytes:
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        raise ImportError(
            'pictures require matplotlib: pip install "dyn_ros[logs]"; a page, '
            ".html, requires plotly"
        ) from None
    import io

    panels, places, heights = _layout(curves, 1.05, 1.6)
    rows = len(heights)
    last_of_joints = max((panel.row for panel in panels if panel.joint), default=-1)
    heights.insert(last_of_joints + 1, 0.05)  # a space above those of the whole robot
    width, height = max(10.0, 4.4 * places), sum(heights) + 1.3
    figure = Figure(figsize=(width, height), dpi=_DPI, facecolor="white")
    FigureCanvasAgg(figure)
    grids = {
        count: figure.add_gridspec(
            rows + 1,
            count,
            height_ratios=heights,
            hspace=0.42,
            wspace=0.16,
            left=0.75 / width,
            right=1.0 - 0.2 / width,
            top=1.0 - 0.85 / height,
            bottom=0.5 / height,
        )
        for count in {panel.places for panel in panels}
    }
    seconds, label, title = _axis_of_time(curves.pieces)
    figure.text(
        0.2 / width, 1.0 - 0.12 / height, title, va="top", fontsize=12, weight="bold", color=_TEXT
    )
    for panel in panels:
        row = panel.row + (0 if panel.joint else 1)
        axes = figure.add_subplot(grids[panel.places][row, panel.place])
        _draw(axes, panel, curves, seconds)
        if panel.row not in (last_of_joints, rows - 1):
            axes.tick_params(labelbottom=False)
        if panel.row == rows - 1:
            axes.set_xlabel(label, fontsize=8.5, color=_QUIET)
        _add_titles(axes, panel, panels, curves.pieces, seconds)
    picture = io.BytesIO()
    figure.savefig(picture, format="png")
    return picture.getvalue()


def _draw(axes: Any, panel: Panel, curves: Curves, seconds: float) -> None:
    from matplotlib.ticker import MaxNLocator

    axes.yaxis.set_major_locator(MaxNLocator(3, min_n_ticks=2))
    for line in panel.lines:
        curve = curves.by_column[line.column]
        is_behind = line.color == _GRAY and len(panel.lines) > 1
        axes.plot(
            curve.x / seconds,
            curve.y,
            color=line.color,
            linewidth=1.8 if is_behind else 0.8,
            solid_joinstyle="round",
        )
        alone = curve.alone
        axes.plot(alone.x / seconds, alone.y, ".", color=line.color, markersize=4.0)
    if not _is_known(panel, curves):
        axes.set_yticks([])
        axes.annotate(
            _UNKNOWN,
            (0.5, 0.5),
            xycoords="axes fraction",
            fontsize=8.5,
            color=_QUIET,
            ha="center",
            va="center",
        )
    for piece in curves.pieces[1:]:
        axes.axvline(piece.start / seconds, color=_LINE, linewidth=0.8, linestyle=(0, (2, 2)))
    end = _span(curves.pieces) / seconds
    axes.set_xlim(-0.005 * end, 1.005 * end)
    axes.grid(color=_GRID, linewidth=0.7)
    axes.set_axisbelow(True)
    axes.tick_params(labelsize=7.5, colors=_QUIET, length=0)
    for side, spine in axes.spines.items():
        spine.set_visible(side == "bottom")
        spine.set_color(_LINE)


def _add_titles(
    axes: Any, panel: Panel, panels: Sequence[Panel], pieces: Sequence[Piece], seconds: float
) -> None:
    """Name the joint, and above the first panel of a column what is in it."""
    above = [
        other
        for other in panels
        if bool(other.joint) == bool(panel.joint) and other.place == panel.place
    ]
    is_first = not panel.joint or panel is above[0]
    unit = f" [{panel.unit}]" if panel.unit else ""
    if panel.joint:
        other = unit if not is_first and panel.unit != above[0].unit else ""
        axes.set_title(
            (panel.joint if panel.place == 0 else "") + other,
            loc="left",
            fontsize=8.5,
            color=_TEXT,
            pad=2.5,
        )
    if not is_first:
        return
    lift = 17 if panel.joint else 3
    x = 0.0
    labels = [(line.label, line.color) for line in panel.lines if len(panel.lines) > 1]
    for text, color in ((panel.title + unit, _TEXT), *labels):
        label = axes.annotate(
            text,
            (0.0, 1.0),
            xytext=(x, lift),
            xycoords="axes fraction",
            textcoords="offset points",
            fontsize=9,
            color=color,
            weight="bold",
        )
        x += label.get_window_extent().width * 72.0 / _DPI + 9.0
    if panel.row == 0 and len(pieces) > 1:
        for piece in pieces:
            axes.annotate(
                piece.name,
                (piece.start / seconds, 1.0),
                xycoords=("data", "axes fraction"),
                xytext=(2, -8),
                textcoords="offset points",
                fontsize=6.5,
                color=_QUIET,
                bbox={"facecolor": "white", "alpha": 0.8, "edgecolor": "none", "pad": 0.8},
            )


# --- page


def _page(curves: Curves) -> bytes:
    try:
        from plotly import subplots
    except ImportError:
        raise ImportError(
            'pages require plotly: pip install "dyn_ros[logs]"; a picture, .png, '
            "requires matplotlib"
        ) from None
    panels, places, heights = _layout(curves, 105, 150)
    rows = len(heights)
    height = round(sum(heights)) + 130
    at = {(panel.row, panel.place): panel for panel in panels}
    specs = [
        [
            None if (row, place) not in at else {"colspan": places // at[row, place].places}
            for place in range(places)
        ]
        for row in range(rows)
    ]
    titles = [_title(panel, panels) for panel in panels]
    figure = subplots.make_subplots(
        rows=rows,
        cols=places,
        specs=specs,
        row_heights=heights,
        horizontal_spacing=0.05,
        vertical_spacing=min(0.22 / rows, 26.0 / height),
        subplot_titles=titles,
    )
    x_of, label = _times(curves)
    for trace, panel in _traces(panels, curves, x_of):
        figure.add_trace(trace, panel.row + 1, panel.place + 1)
    for panel in panels:
        if not _is_known(panel, curves):
            _show_unknown(figure, panel)
    titled = [panel for panel, title in zip(panels, titles) if title]
    for panel, heading in zip(titled, figure.layout.annotations):
        domain = figure.get_subplot(panel.row + 1, panel.place + 1).xaxis.domain
        heading.update(x=domain[0], xanchor="left", align="left", font_size=11.5)
    title = html.escape(_axis_of_time(curves.pieces)[2])
    _style(figure, curves, title, height, rows, label)
    page: str = figure.to_html(
        include_plotlyjs=True,
        full_html=True,
        config={
            "displaylogo": False,
            "responsive": True,
            "scrollZoom": True,
            "modeBarButtonsToRemove": ["select2d", "lasso2d"],
        },
    )
    return page.replace(
        "<head>", f'<head><title>{title}</title><link rel="icon" href="data:,">', 1
    ).encode()


def _traces(
    panels: Sequence[Panel], curves: Curves, x_of: Callable[[Curve], Array]
) -> Iterator[tuple[Any, Panel]]:
    """The curves of all panels, and marks where a line would not be seen."""
    from plotly import graph_objects

    total = sum(len(curves.by_column[line.column].x) for panel in panels for line in panel.lines)
    # thousands of points are drawn by the graphics processor
    scatter = graph_objects.Scattergl if total > 60_000 else graph_objects.Scatter
    for panel in panels:
        for line in panel.lines:
            curve, name = curves.by_column[line.column], html.escape(line.label)
            is_behind = line.color == _GRAY and len(panel.lines) > 1
            yield (
                scatter(
                    x=x_of(curve),
                    y=curve.y,
                    name=name,
                    mode="lines",
                    line={"color": line.color, "width": 3.0 if is_behind else 1.2},
                    hovertemplate=f"%{{y:.5g}} {panel.unit}<extra>{name}</extra>",
                ),
                panel,
            )
            alone = curve.alone
            if len(alone.x):
                yield (
                    scatter(
                        x=x_of(alone),
                        y=alone.y,
                        mode="markers",
                        hoverinfo="skip",
                        marker={"color": line.color, "size": 5},
                    ),
                    panel,
                )


def _show_unknown(figure: Any, panel: Panel) -> None:
    place = figure.get_subplot(panel.row + 1, panel.place + 1)
    place.yaxis.showticklabels = False
    names = (axis.plotly_name.replace("axis", "") for axis in (place.xaxis, place.yaxis))
    x, y = (f"{name} domain" for name in names)
    figure.add_annotation(
        x=0.5,
        y=0.5,
        xref=x,
        yref=y,
        text=_UNKNOWN,
        showarrow=False,
        font={"size": 11, "color": _QUIET},
    )


def _title(panel: Panel, panels: Sequence[Panel]) -> str:
    """The title of a panel as plotly shows it."""
    unit = f" [{panel.unit}]" if panel.unit else ""
    above = [other for other in panels if other.joint and other.place == panel.place]
    joint = html.escape(panel.joint) if panel.place == 0 else ""
    if panel.joint and panel is not above[0]:
        return joint + (unit if panel.unit != above[0].unit else "")
    title = f"<b>{html.escape(panel.title)}</b>{unit}"
    labels = [
        f'<b style="color:{line.color}">{html.escape(line.label)}</b>'
        for line in panel.lines
        if len(panel.lines) > 1
    ]
    if panel.place:  # where the first column has the name of the joint
        return f"{title}<br>{'  '.join(labels) or '&nbsp;'}"
    return "  ".join([title, *labels]) + (f"<br>{joint}" if joint else "")


def _times(curves: Curves) -> tuple[Callable[[Curve], Array], str]:
    """A function from a curve to its times, and the label of the axis: dates or seconds."""
    first, is_one = curves.pieces[0], len(curves.pieces) == 1
    if is_one and _has_date(first.stamp):
        return (lambda curve: 1e3 * (curve.x - first.start) + 1e-6 * first.stamp), "UTC"
    return (lambda curve: curve.x), "time [s]" if is_one else "recorded time [s]"


def _style(figure: Any, curves: Curves, title: str, height: int, rows: int, label: str) -> None:
    figure.update_layout(
        height=height,
        paper_bgcolor="white",
        plot_bgcolor="white",
        dragmode="zoom",
        hovermode="x",
        margin={"l": 64, "r": 20, "t": 90, "b": 48},
        font={"family": "system-ui, sans-serif", "size": 12, "color": _TEXT},
        title={
            "text": title,
            "x": 0.01,
            "y": 1.0,
            "yanchor": "top",
            "pad": {"t": 12},
            "font": {"size": 17},
        },
        showlegend=False,
    )
    axis = {"gridcolor": _GRID, "zerolinecolor": _LINE, "zerolinewidth": 1, "linecolor": _LINE}
    figure.update_xaxes(
        matches="x", showticklabels=False, type="date" if label == "UTC" else "linear", **axis
    )
    figure.layout.xaxis.matches = None
    figure.update_xaxes(row=rows, showticklabels=True, title_text=label, title_font_size=12)
    figure.update_yaxes(nticks=4, **axis)
    for piece in curves.pieces[1:]:
        figure.add_vline(piece.start, line={"color": _LINE, "width": 1, "dash": "dot"})
    if len(curves.pieces) > 1:
        for piece in curves.pieces:
            figure.add_annotation(
                x=piece.start,
                y=1.0,
                xref="x",
                yref="y domain",
                xanchor="left",
                yanchor="top",
                text=html.escape(piece.name),
                showarrow=False,
                font={"size": 10, "color": _QUIET},
                bgcolor="rgba(255,255,255,0.8)",
                borderpad=1,
            )
