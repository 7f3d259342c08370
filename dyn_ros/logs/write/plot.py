# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Plots of results: a picture, or a page whose subplots zoom together.

There is a row of subplots for each joint, with a column for each kind of quantity, so that the
joint of a peak is seen at a glance and quantities of one unit can be compared. Subplots of the
whole robot are below.
"""

from __future__ import annotations

import datetime
import html
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ...engine.kernel.types import Array
from ...files.writing import write_whole_file
from ...recordings.tables.files import open_for_arrow
from .curves import Curves, DecimatedCurve, RecordingSpan, read_curves

SUFFIXES = ".png", ".html"

_GRAY, _GREEN, _ORANGE, _BLUE, _RED, _DARK = (
    "#a8aeb7",
    "#5b9a5f",
    "#d08a35",
    "#2a6db0",
    "#b3372f",
    "#3c4043",
)
_GRID, _LINE, _TEXT, _SECONDARY_TEXT = "#e8eaed", "#c9ccd1", "#3c4043", "#6b7078"
_AXES = (("x", _RED), ("y", _GREEN), ("z", _BLUE))
_TIME_UNITS = (  # shortest duration with this unit [s], seconds in the unit, its symbol
    (3 * 86400.0, 86400.0, "d"),
    (3 * 3600.0, 3600.0, "h"),
    (600.0, 60.0, "min"),
    (0.0, 1.0, "s"),
)

_INTERVALS_PER_PICTURE_CURVE = 3000
_MAX_INTERVALS_PER_PAGE_CURVE = 10_000
_MAX_INTERVALS_PER_PAGE = 150_000
_DPI = 110
_UNKNOWN_TEXT = "unknown in all states"


class Line(NamedTuple):
    """A curve in a subplot: column of the table, label in the legend, color."""

    column: str
    label: str
    color: str


# title, and the curves from back to front; ``arrange_subplots`` adds the name of a joint to columns
_JOINT_SUBPLOTS: tuple[tuple[str, tuple[Line, ...]], ...] = (
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
_ROBOT_SUBPLOTS = (
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


class Subplot(NamedTuple):
    """Curves on one pair of axes, and its place in the grid."""

    row: int
    grid_column: int
    grid_columns: int  # number of columns in this row
    title: str
    unit: str
    lines: list[Line]
    joint: str  # empty: of the whole robot


def plot_recordings(files: Mapping[str, Sequence[Path]], path: str | Path) -> None:
    """Plot the Parquet files of recordings, in order of time, by the name of the recording.

    The path ends with .png or .html. A page contains all that it needs; its subplots zoom together.
    Raise a ValueError for another suffix or if there is nothing to plot, and an ImportError that
    names the command that installs a missing package.
    """
    target = Path(path)
    if target.suffix.lower() not in SUFFIXES:
        raise ValueError(f"plot: expected a file that ends with .png or .html, got {str(path)!r}")
    require_packages(target)
    is_picture = target.suffix.lower() == ".png"
    curves = _read_curves(files, is_picture)
    content = _make_picture(curves) if is_picture else _make_page(curves)
    with write_whole_file(target, create_folder=True) as file:
        file.write(content)


def require_packages(path: Path) -> None:
    """Raise an ImportError with a remedy if the package that draws a plot is not installed."""
    if path.suffix.lower() == ".png":
        try:
            import matplotlib.figure  # noqa: F401
        except ImportError:
            raise ImportError(
                'pictures require matplotlib: pip install "dyn_ros[logs]"; a page, '
                ".html, requires plotly"
            ) from None
    else:
        try:
            import plotly.subplots  # noqa: F401
        except ImportError:
            raise ImportError(
                'pages require plotly: pip install "dyn_ros[logs]"; a picture, .png, '
                "requires matplotlib"
            ) from None


def _read_curves(files: Mapping[str, Sequence[Path]], is_picture: bool) -> Curves:
    """Read the columns that are plotted; raise a ValueError if there are none."""
    from pyarrow import parquet

    names = {
        name
        for paths in files.values()
        for path in paths[:1]
        for name in parquet.read_schema(open_for_arrow(path)).names
    }
    columns = {line.column for subplot in arrange_subplots(names, {}) for line in subplot.lines}
    if not columns:
        raise ValueError(
            "plot: expected results with a column that can be plotted, got "
            + (", ".join(sorted(names)[:20]) or "none")
        )
    intervals = _INTERVALS_PER_PICTURE_CURVE
    if not is_picture:
        intervals = min(_MAX_INTERVALS_PER_PAGE_CURVE, _MAX_INTERVALS_PER_PAGE // len(columns))
    return read_curves(files, intervals, columns)


def arrange_subplots(columns: Collection[str], units: Mapping[str, str]) -> list[Subplot]:
    """Return the subplots of these columns, row by row."""
    joints = list(
        dict.fromkeys(
            name.partition(".")[2]
            for _, lines in _JOINT_SUBPLOTS
            for line in lines
            for name in columns
            if name.startswith(f"{line.column}.") and name != "power.total"
        )
    )
    kinds: list[tuple[str, list[Line]]] = []
    for title, lines in _JOINT_SUBPLOTS:
        lines_of_kind = [
            line for line in lines if any(f"{line.column}.{joint}" in columns for joint in joints)
        ]
        if lines_of_kind:
            is_title = len(lines_of_kind) > 1 or lines_of_kind[0].label == "measured"
            kinds.append((title if is_title else lines_of_kind[0].label, lines_of_kind))
    subplots = []
    for row, joint in enumerate(joints):
        for grid_column, (title, lines_of_kind) in enumerate(kinds):
            joint_lines = [
                line._replace(column=f"{line.column}.{joint}")
                for line in lines_of_kind
                if f"{line.column}.{joint}" in columns
            ]
            if joint_lines:
                unit = units.get(joint_lines[0].column, "")
                subplots.append(
                    Subplot(row, grid_column, len(kinds), title, unit, joint_lines, joint)
                )
    row = len(joints)
    for title, lines in _ROBOT_SUBPLOTS:
        robot_lines = [line for line in lines if line.column in columns]
        if robot_lines:
            unit = units.get(robot_lines[0].column, "")
            subplots.append(Subplot(row, 0, 1, title, unit, robot_lines, ""))
            row += 1
    return subplots


def _describe_time_axis(spans: Sequence[RecordingSpan]) -> tuple[float, str, str]:
    """Return the seconds in a unit of time, the label of the axis, and the title of the plot."""
    duration = _total_duration(spans)
    seconds, unit = next(
        (seconds, unit) for min_duration, seconds, unit in _TIME_UNITS if duration >= min_duration
    )
    if len(spans) == 1:
        return seconds, f"time [{unit}]", f"{spans[0].name}, from {_format_date(spans[0].stamp)}"
    return (
        seconds,
        f"recorded time [{unit}]",
        f"{len(spans)} recordings, one after the other, from {_format_date(spans[0].stamp)}",
    )


def _total_duration(spans: Sequence[RecordingSpan]) -> float:
    """Return the length of the axis of time [s], which is not 0 if there is a single state."""
    return spans[-1].stop or 1.0


def _has_date(stamp: int) -> bool:
    """Return True if a stamp [ns] is a date, and not the time of a simulation."""
    return stamp >= 10**17


def _format_date(stamp: int) -> str:
    """Return the date of a stamp [ns]; of a simulation, its time."""
    if not _has_date(stamp):
        return f"{1e-9 * stamp:.3f} s"
    moment = datetime.datetime.fromtimestamp(stamp // 10**9, datetime.timezone.utc)
    return f"{moment:%Y-%m-%d %H:%M:%S} UTC"


def _arrange_grid(
    curves: Curves, joint_height: float, robot_height: float
) -> tuple[list[Subplot], int, list[float]]:
    """Return the subplots, the number of columns of the grid, and the heights of its rows."""
    subplots = arrange_subplots(list(curves.units), curves.units)
    robot_rows = {subplot.row for subplot in subplots if not subplot.joint}
    rows = 1 + max(subplot.row for subplot in subplots)
    return (
        subplots,
        max(subplot.grid_columns for subplot in subplots),
        [robot_height if row in robot_rows else joint_height for row in range(rows)],
    )


def _has_points(subplot: Subplot, curves: Curves) -> bool:
    """Return True unless all numbers of a subplot are unknown."""
    return any(curves.by_column[line.column].has_points for line in subplot.lines)


def _top_subplot(subplot: Subplot, subplots: Sequence[Subplot]) -> Subplot:
    """Return the first joint's subplot in the column of the grid of a joint's subplot."""
    return next(top for top in subplots if top.joint and top.grid_column == subplot.grid_column)


# --- picture


def _make_picture(curves: Curves) -> bytes:
    """Draw the curves with matplotlib; return a PNG file."""
    import io

    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    subplots, grid_columns, heights = _arrange_grid(curves, 1.05, 1.6)
    rows = len(heights)
    last_joint_row = max((subplot.row for subplot in subplots if subplot.joint), default=-1)
    heights.insert(last_joint_row + 1, 0.05)  # a space above the rows of the whole robot
    width, height = max(10.0, 4.4 * grid_columns), sum(heights) + 1.3
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
        for count in {subplot.grid_columns for subplot in subplots}
    }
    seconds, label, title = _describe_time_axis(curves.spans)
    figure.text(
        0.2 / width, 1.0 - 0.12 / height, title, va="top", fontsize=12, weight="bold", color=_TEXT
    )
    for subplot in subplots:
        row = subplot.row + (0 if subplot.joint else 1)
        axes = figure.add_subplot(grids[subplot.grid_columns][row, subplot.grid_column])
        _draw_subplot(axes, subplot, curves, seconds)
        if subplot.row not in (last_joint_row, rows - 1):
            axes.tick_params(labelbottom=False)
        if subplot.row == rows - 1:
            axes.set_xlabel(label, fontsize=8.5, color=_SECONDARY_TEXT)
        _add_titles(axes, subplot, subplots, curves.spans, seconds)
    picture = io.BytesIO()
    figure.savefig(picture, format="png")
    return picture.getvalue()


def _draw_subplot(axes: Any, subplot: Subplot, curves: Curves, seconds: float) -> None:
    """Draw the curves of a subplot; ``seconds`` is the unit of the axis of time."""
    from matplotlib.ticker import MaxNLocator

    axes.yaxis.set_major_locator(MaxNLocator(3, min_n_ticks=2))
    for line in subplot.lines:
        curve = curves.by_column[line.column]
        is_behind = line.color == _GRAY and len(subplot.lines) > 1
        axes.plot(
            curve.x / seconds,
            curve.y,
            color=line.color,
            linewidth=1.8 if is_behind else 0.8,
            solid_joinstyle="round",
        )
        points = curve.isolated_points
        axes.plot(points.x / seconds, points.y, ".", color=line.color, markersize=4.0)
    if not _has_points(subplot, curves):
        axes.set_yticks([])
        axes.annotate(
            _UNKNOWN_TEXT,
            (0.5, 0.5),
            xycoords="axes fraction",
            fontsize=8.5,
            color=_SECONDARY_TEXT,
            ha="center",
            va="center",
        )
    for span in curves.spans[1:]:
        axes.axvline(span.start / seconds, color=_LINE, linewidth=0.8, linestyle=(0, (2, 2)))
    end = _total_duration(curves.spans) / seconds
    axes.set_xlim(-0.005 * end, 1.005 * end)
    axes.grid(color=_GRID, linewidth=0.7)
    axes.set_axisbelow(True)
    axes.tick_params(labelsize=7.5, colors=_SECONDARY_TEXT, length=0)
    for side, spine in axes.spines.items():
        spine.set_visible(side == "bottom")
        spine.set_color(_LINE)


def _add_titles(
    axes: Any,
    subplot: Subplot,
    subplots: Sequence[Subplot],
    spans: Sequence[RecordingSpan],
    seconds: float,
) -> None:
    """Write the joint, and above the first subplot of a column its title and legend."""
    is_top = not subplot.joint or subplot is _top_subplot(subplot, subplots)
    unit = f" [{subplot.unit}]" if subplot.unit else ""
    if subplot.joint:
        has_same_unit = is_top or subplot.unit == _top_subplot(subplot, subplots).unit
        axes.set_title(
            (subplot.joint if subplot.grid_column == 0 else "") + ("" if has_same_unit else unit),
            loc="left",
            fontsize=8.5,
            color=_TEXT,
            pad=2.5,
        )
    if not is_top:
        return
    lift = 17 if subplot.joint else 3
    x = 0.0
    labels = [(line.label, line.color) for line in subplot.lines if len(subplot.lines) > 1]
    for text, color in ((subplot.title + unit, _TEXT), *labels):
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
    if subplot.row == 0 and len(spans) > 1:
        for span in spans:
            axes.annotate(
                span.name,
                (span.start / seconds, 1.0),
                xycoords=("data", "axes fraction"),
                xytext=(2, -8),
                textcoords="offset points",
                fontsize=6.5,
                color=_SECONDARY_TEXT,
                bbox={"facecolor": "white", "alpha": 0.8, "edgecolor": "none", "pad": 0.8},
            )


# --- page


def _make_page(curves: Curves) -> bytes:
    """Draw the curves with plotly; return an HTML file."""
    from plotly import subplots as plotly_subplots

    subplots, grid_columns, heights = _arrange_grid(curves, 105, 150)
    rows = len(heights)
    height = round(sum(heights)) + 130
    specs: list[list[dict[str, int] | None]] = [[None] * grid_columns for _ in range(rows)]
    for subplot in subplots:
        colspan = grid_columns // subplot.grid_columns
        specs[subplot.row][subplot.grid_column] = {"colspan": colspan}
    titles = [_subplot_title(subplot, subplots) for subplot in subplots]
    figure = plotly_subplots.make_subplots(
        rows=rows,
        cols=grid_columns,
        specs=specs,
        row_heights=heights,
        horizontal_spacing=0.05,
        vertical_spacing=min(0.22 / rows, 26.0 / height),
        subplot_titles=titles,
    )
    times_of, label = _time_axis(curves)
    for trace, subplot in _make_traces(subplots, curves, times_of):
        figure.add_trace(trace, subplot.row + 1, subplot.grid_column + 1)
    for subplot in subplots:
        if not _has_points(subplot, curves):
            _show_unknown(figure, subplot)
    titled = [subplot for subplot, title in zip(subplots, titles) if title]
    for subplot, heading in zip(titled, figure.layout.annotations):
        domain = figure.get_subplot(subplot.row + 1, subplot.grid_column + 1).xaxis.domain
        heading.update(x=domain[0], xanchor="left", align="left", font_size=11.5)
    title = html.escape(_describe_time_axis(curves.spans)[2])
    _set_style(figure, curves, title, height, rows, label)
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


def _make_traces(
    subplots: Sequence[Subplot], curves: Curves, times_of: Callable[[DecimatedCurve], Array]
) -> Iterator[tuple[Any, Subplot]]:
    """Yield the curves of all subplots, and marks where a line would not be seen."""
    from plotly import graph_objects

    total = sum(
        len(curves.by_column[line.column].x) for subplot in subplots for line in subplot.lines
    )
    # thousands of points are drawn by the graphics processor
    scatter = graph_objects.Scattergl if total > 60_000 else graph_objects.Scatter
    for subplot in subplots:
        for line in subplot.lines:
            curve, name = curves.by_column[line.column], html.escape(line.label)
            is_behind = line.color == _GRAY and len(subplot.lines) > 1
            yield (
                scatter(
                    x=times_of(curve),
                    y=curve.y,
                    name=name,
                    mode="lines",
                    line={"color": line.color, "width": 3.0 if is_behind else 1.2},
                    hovertemplate=f"%{{y:.5g}} {subplot.unit}<extra>{name}</extra>",
                ),
                subplot,
            )
            points = curve.isolated_points
            if len(points.x):
                yield (
                    scatter(
                        x=times_of(points),
                        y=points.y,
                        mode="markers",
                        hoverinfo="skip",
                        marker={"color": line.color, "size": 5},
                    ),
                    subplot,
                )


def _show_unknown(figure: Any, subplot: Subplot) -> None:
    """Write in a subplot that all its numbers are unknown."""
    axes = figure.get_subplot(subplot.row + 1, subplot.grid_column + 1)
    axes.yaxis.showticklabels = False
    names = (axis.plotly_name.replace("axis", "") for axis in (axes.xaxis, axes.yaxis))
    x, y = (f"{name} domain" for name in names)
    figure.add_annotation(
        x=0.5,
        y=0.5,
        xref=x,
        yref=y,
        text=_UNKNOWN_TEXT,
        showarrow=False,
        font={"size": 11, "color": _SECONDARY_TEXT},
    )


def _subplot_title(subplot: Subplot, subplots: Sequence[Subplot]) -> str:
    """Return the title of a subplot, in HTML as plotly shows it."""
    unit = f" [{subplot.unit}]" if subplot.unit else ""
    joint = html.escape(subplot.joint) if subplot.grid_column == 0 else ""
    if subplot.joint and subplot is not (top := _top_subplot(subplot, subplots)):
        return joint + (unit if subplot.unit != top.unit else "")
    title = f"<b>{html.escape(subplot.title)}</b>{unit}"
    labels = [
        f'<b style="color:{line.color}">{html.escape(line.label)}</b>'
        for line in subplot.lines
        if len(subplot.lines) > 1
    ]
    if subplot.grid_column:  # an empty line next to the joint's name in the first column
        return f"{title}<br>{'  '.join(labels) or '&nbsp;'}"
    return "  ".join([title, *labels]) + (f"<br>{joint}" if joint else "")


def _time_axis(curves: Curves) -> tuple[Callable[[DecimatedCurve], Array], str]:
    """Return a function from a curve to its times, dates or seconds, and the axis label."""
    span, is_single = curves.spans[0], len(curves.spans) == 1
    if is_single and _has_date(span.stamp):
        return (lambda curve: 1e3 * (curve.x - span.start) + 1e-6 * span.stamp), "UTC"
    return (lambda curve: curve.x), "time [s]" if is_single else "recorded time [s]"


def _set_style(figure: Any, curves: Curves, title: str, height: int, rows: int, label: str) -> None:
    """Set colors, axes, the title and marks between recordings."""
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
    for span in curves.spans[1:]:
        figure.add_vline(span.start, line={"color": _LINE, "width": 1, "dash": "dot"})
    if len(curves.spans) > 1:
        for span in curves.spans:
            figure.add_annotation(
                x=span.start,
                y=1.0,
                xref="x",
                yref="y domain",
                xanchor="left",
                yanchor="top",
                text=html.escape(span.name),
                showarrow=False,
                font={"size": 10, "color": _SECONDARY_TEXT},
                bgcolor="rgba(255,255,255,0.8)",
                borderpad=1,
            )
