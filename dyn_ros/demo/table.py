# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The demo's table: one message of the node, joint by joint, in a terminal, as lines or as SVG."""

from __future__ import annotations

import io
import math
import re
import shutil
import time
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from rich import box
from rich.console import CONSOLE_SVG_FORMAT, Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from ..engine.model.urdf import Tree
from ..files.writing import write_whole_text

if TYPE_CHECKING:
    from ..msg import JointSpaceDynamics

# title, heading (2), rule, "more", footer (2), blank (2)
LINES_WITHOUT_JOINTS = 9
BAR_WIDTH = 10  # columns
DEFAULT_WIDTH = 92  # columns, if there is no terminal
# rich's SVG format, without the fonts that it would fetch from a server
SVG_FORMAT = re.sub(r"@font-face \{\{.*?\}\}", "", CONSOLE_SVG_FORMAT, flags=re.DOTALL)


@dataclass(frozen=True)
class Row:
    """One degree of freedom."""

    name: str
    position: float | None  # rad or m; None for a base, which has several numbers
    gravity: float  # N m or N
    nle: float  # N m or N; NaN if the velocity is unknown
    inertia: float  # kg m2 or kg; diagonal of M
    effort_limit: float  # N m or N; NaN if the robot description specifies none

    @property
    def load(self) -> float:
        """Ratio of nle to the effort limit; NaN if one of them is unknown."""
        return abs(self.nle) / self.effort_limit


def message_rows(message: JointSpaceDynamics, effort_limits: Mapping[str, float]) -> list[Row]:
    """Return the rows of a message; effort limits [N m or N] of 0 or inf count as unspecified."""

    def effort_limit(name: str) -> float:
        limit = effort_limits.get(name, math.nan)
        return limit if 0 < limit < math.inf else math.nan

    position = dict(zip(message.position_name, message.position))
    matrix, cols = message.inertia.data, message.inertia.cols
    return [
        Row(
            name,
            position.get(name),
            message.gravity[i],
            message.nle[i],
            matrix[i * cols + i],
            effort_limit(name),
        )
        for i, name in enumerate(message.name)
    ]


class Flow:
    """Number, rate [Hz] and median latency [s] of messages, measured by one clock.

    ``rate`` and ``latency`` cover the last second before ``now``, ``total_rate`` all messages, and
    ``total_latency`` at most the last 100 000. Rates are based on the stamps, so that drawing a
    picture between two arrivals has no effect on them.
    """

    def __init__(self) -> None:
        self.messages = 0
        self._first_stamp = math.nan
        self._recent: deque[tuple[float, float]] = deque(maxlen=100_000)  # (stamp, arrival)

    def add(self, stamp: float, arrival: float) -> None:
        """Add a message with its stamp and its time of arrival [s]."""
        if not self.messages:
            self._first_stamp = stamp
        self.messages += 1
        self._recent.append((stamp, arrival))

    def _last_second(self, now: float) -> list[tuple[float, float]]:
        """Return stamps and arrivals in the last second before a time, newest first."""
        return list(takewhile(lambda sample: sample[1] > now - 1.0, reversed(self._recent)))

    def rate(self, now: float) -> float:
        """Return the rate in the last second [Hz]."""
        recent = self._last_second(now)
        return _message_rate(len(recent), recent[-1][0], recent[0][0]) if recent else 0.0

    def latency(self, now: float) -> float:
        """Return the median latency in the last second [s]; NaN without messages."""
        latencies = [arrival - stamp for stamp, arrival in self._last_second(now)]
        return median(latencies) if latencies else math.nan

    def total_rate(self) -> float:
        """Return the rate of all messages [Hz]."""
        return _message_rate(self.messages, self._first_stamp, self._recent[-1][0])

    def total_latency(self) -> float:
        """Return the median latency of at most the last 100 000 messages [s]."""
        return median(arrival - stamp for stamp, arrival in self._recent)


def _message_rate(messages: int, first: float, last: float) -> float:
    """Return the rate of messages with a first and a last stamp [s]; 0 if they are equal."""
    return (messages - 1) / (last - first) if last > first else 0.0


def joint_table(rows: Sequence[Row], linear: bool = False, limit: int | None = None) -> Table:
    """Return the table of joints.

    The heading shows both units if some joints are `linear`. After `limit` rows, a last line states
    how many are not shown.
    """

    def unit(angular_unit: str, linear_unit: str) -> str:
        """Return the units of a column, for its heading."""
        units = f"{angular_unit} | {linear_unit}" if linear else angular_unit
        return f"[dim]\\[{units}][/]"

    table = Table(box=box.SIMPLE, header_style="bold", show_edge=False, padding=(0, 1, 0, 0))
    # rich shortens the column that may wrap first if the terminal is narrow.
    table.add_column("joint\n", overflow="ellipsis", max_width=28)
    table.add_column("position\n" + unit("rad", "m"), justify="right", no_wrap=True)
    table.add_column("gravity\n" + unit("N m", "N"), justify="right", no_wrap=True, style="cyan")
    table.add_column("nle\n" + unit("N m", "N"), justify="right", no_wrap=True, style="green")
    table.add_column(
        "M diagonal\n" + unit("kg m²", "kg"), justify="right", no_wrap=True, style="magenta"
    )
    has_limits = not all(math.isnan(row.effort_limit) for row in rows)
    if has_limits:
        table.add_column("load\n[dim]nle of limit[/]", no_wrap=True)
    for row in rows[:limit]:
        cells = [
            row.name,
            _format_number(row.position, 3),
            _format_number(row.gravity, 2),
            _format_number(row.nle, 2),
            _format_number(row.inertia, 4),
        ]
        table.add_row(*cells, *([_load_cell(row)] if has_limits else []))
    if limit is not None and len(rows) > limit:
        table.add_row(f"[dim]… and {len(rows) - limit} more[/]")
    return table


def _format_number(value: float | None, digits: int) -> str:
    """Return a number as text; "-" if it is unknown."""
    # Rounding can result in -0.0; adding zero makes it 0.0.
    return "-" if value is None or math.isnan(value) else f"{round(value, digits) + 0.0:.{digits}f}"


def _load_cell(row: Row) -> Text | Table:
    """Return a bar and a percentage that show the load of a joint."""
    if math.isnan(row.load):
        return Text("-", style="dim")
    style = "red" if row.load > 0.8 else "yellow" if row.load > 0.5 else "green"
    cell = Table.grid(padding=(0, 1))
    bar = ProgressBar(
        total=1.0,
        completed=min(row.load, 1.0),
        width=BAR_WIDTH,
        complete_style=style,
        finished_style=style,
    )
    cell.add_row(bar, f"{row.load:4.0%}")
    return cell


def make_view(title: str, table: Table, flow: Flow, now: float) -> Group:
    """Return the view at a time of the flow's clock: title, table, rate and latency."""
    statistics = Text.from_markup(
        f"[bold]{flow.rate(now):.0f}[/] Hz   [bold]{flow.latency(now) * 1e3:.2f}[/] ms from joint "
        f"state to dynamics (median)   [bold]{flow.messages}[/] messages"
    )
    hint = "Ctrl-C to quit"
    if shutil.which("ros2"):  # also absent in a venv with ROS that is not activated
        hint = f"see also:  ros2 topic echo /dynamics/gravity      {hint}"
    return Group(Text(title, style="bold"), "", table, "", statistics, Text(hint, style="dim"))


def message_view(
    tree: Tree, message: JointSpaceDynamics, flow: Flow, limit: int | None = None
) -> Group:
    """Return the view of a message, with a table of at most `limit` rows."""
    efforts = {joint.name: joint.effort for joint in tree.joints}
    linear = any(joint.kind in ("prismatic", "planar", "floating") for joint in tree.joints)
    table = joint_table(message_rows(message, efforts), linear, limit)
    title = f"Dynamics of {tree.name} in motion, published by dynamics_node"
    return make_view(title, table, flow, time.time())


def save_snapshot(path: Path, tree: Tree, message: JointSpaceDynamics, flow: Flow) -> None:
    """Save the view of a message as an SVG file."""
    console = Console(record=True, width=DEFAULT_WIDTH, file=io.StringIO(), force_terminal=True)
    console.print(message_view(tree, message, flow))
    write_whole_text(path, console.export_svg(title="dyn_ros demo", code_format=SVG_FORMAT))


def _start_text(seconds: float, output_line: str) -> str:
    """Return the text to show until the first message, with the last line of the node's output."""
    suffix = f": {output_line}" if output_line else ""
    return f"dynamics_node is starting ({seconds:.0f} s)" + suffix


class Terminal:
    """A table that is updated in place ten times per second, in the context `live`."""

    period = 0.1  # s

    def __init__(self, console: Console, tree: Tree) -> None:
        self._console, self._tree = console, tree
        self._spinner = Spinner("dots")
        self.live = Live(console=console, auto_refresh=False)

    def wait(self, seconds: float, output_line: str) -> None:
        """Show that the node is starting."""
        text = Text(_start_text(seconds, output_line), no_wrap=True, overflow="ellipsis")
        self._spinner.update(text=text)
        self.live.update(self._spinner, refresh=True)

    def show(self, message: JointSpaceDynamics, flow: Flow) -> None:
        """Draw a message, with as many joints as fit in the terminal."""
        limit = max(1, self._console.height - LINES_WITHOUT_JOINTS)
        self.live.update(message_view(self._tree, message, flow, limit), refresh=True)


class Lines:
    """A table that is printed once a second, for a file or a pipe."""

    period = 1.0  # s
    live = nullcontext()

    def __init__(self, console: Console, tree: Tree) -> None:
        console.width = DEFAULT_WIDTH
        self._console, self._tree = console, tree

    def wait(self, seconds: float, output_line: str) -> None:
        """Print that the node is starting."""
        self._print(Text(_start_text(seconds, output_line)))

    def show(self, message: JointSpaceDynamics, flow: Flow) -> None:
        """Print a message."""
        self._print(message_view(self._tree, message, flow))

    def _print(self, renderable: RenderableType) -> None:
        self._console.print(renderable, highlight=False)
        self._console.file.flush()
