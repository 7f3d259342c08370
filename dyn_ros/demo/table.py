# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The demo's table: one message of the node, joint by joint, in a terminal, as lines or as SVG."""

from __future__ import annotations

import io
import math
import re
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

if TYPE_CHECKING:
    from ..msg import JointSpaceDynamics

# Lines of the view other than joints: title, heading (2), rule, "more", footer (2), blank (2).
OTHER_LINES = 9
BAR_WIDTH = 10
WIDTH = 92  # columns if there is no terminal
# rich's SVG format, without the fonts that it would fetch from a server
SVG = re.sub(r"@font-face \{\{.*?\}\}", "", CONSOLE_SVG_FORMAT, flags=re.DOTALL)


@dataclass(frozen=True)
class Row:
    """One degree of freedom: torques [N m or N], M's diagonal [kg m2 or kg]."""

    name: str
    position: float | None  # [rad or m]; None for a base, which has several numbers
    gravity: float
    nle: float  # NaN if the velocity is unknown
    inertia: float
    effort_limit: float  # NaN if the robot description specifies none

    @property
    def load(self) -> float:
        """Ratio of nle to the effort limit; NaN if one of them is unknown."""
        return abs(self.nle) / self.effort_limit


def rows_of(message: JointSpaceDynamics, effort_limits: Mapping[str, float]) -> list[Row]:
    """Return the rows of a message; an effort limit [N m or N] of 0 or inf is none."""

    def limit(name: str) -> float:
        value = effort_limits.get(name, math.nan)
        return value if 0 < value < math.inf else math.nan

    position = dict(zip(message.position_name, message.position))
    matrix, cols = message.inertia.data, message.inertia.cols
    return [
        Row(
            name,
            position.get(name),
            message.gravity[i],
            message.nle[i],
            matrix[i * cols + i],
            limit(name),
        )
        for i, name in enumerate(message.name)
    ]


class Flow:
    """Counts messages, and measures their rate [Hz] and median latency [s] by one clock.

    ``rate`` and ``latency`` cover the last second before ``now``, the others all messages (the
    latency at most the last 100 000). Rates are based on the stamps, so that drawing a picture
    between two arrivals has no effect on them.
    """

    def __init__(self) -> None:
        self.messages = 0
        self._first_stamp = math.nan
        self._recent: deque[tuple[float, float]] = deque(maxlen=100_000)  # (stamp, arrival)

    def add(self, stamp: float, arrival: float) -> None:
        if not self.messages:
            self._first_stamp = stamp
        self.messages += 1
        self._recent.append((stamp, arrival))

    def _last_second(self, now: float) -> list[tuple[float, float]]:
        return list(takewhile(lambda sample: sample[1] > now - 1.0, reversed(self._recent)))

    def rate(self, now: float) -> float:
        recent = self._last_second(now)
        return _rate(len(recent), recent[-1][0], recent[0][0]) if recent else 0.0

    def latency(self, now: float) -> float:
        latencies = [arrival - stamp for stamp, arrival in self._last_second(now)]
        return median(latencies) if latencies else math.nan

    def total_rate(self) -> float:
        return _rate(self.messages, self._first_stamp, self._recent[-1][0])

    def total_latency(self) -> float:
        return median(arrival - stamp for stamp, arrival in self._recent)


def _rate(messages: int, first: float, last: float) -> float:
    return (messages - 1) / (last - first) if last > first else 0.0


def joint_table(rows: Sequence[Row], linear: bool = False, limit: int | None = None) -> Table:
    """Return the table of joints; `linear`: some are, and the heading shows both units.

    After `limit` rows, a last line states how many are not shown.
    """

    def unit(turning: str, sliding: str) -> str:
        return f"[dim]\\[{turning} | {sliding}][/]" if linear else f"[dim]\\[{turning}][/]"

    table = Table(box=box.SIMPLE, header_style="bold", show_edge=False, padding=(0, 1, 0, 0))
    # rich shortens the column that may wrap first if the terminal is narrow.
    table.add_column("joint\n", overflow="ellipsis", max_width=28)
    table.add_column("position\n" + unit("rad", "m"), justify="right", no_wrap=True)
    table.add_column("gravity\n" + unit("N m", "N"), justify="right", no_wrap=True, style="cyan")
    table.add_column("nle\n" + unit("N m", "N"), justify="right", no_wrap=True, style="green")
    table.add_column(
        "M diagonal\n" + unit("kg m²", "kg"), justify="right", no_wrap=True, style="magenta"
    )
    limited = not all(math.isnan(row.effort_limit) for row in rows)
    if limited:
        table.add_column("load\n[dim]nle of limit[/]", no_wrap=True)
    for row in rows[:limit]:
        cells = [
            row.name,
            _number(row.position, 3),
            _number(row.gravity, 2),
            _number(row.nle, 2),
            _number(row.inertia, 4),
        ]
        table.add_row(*cells, *([_load(row)] if limited else []))
    if limit is not None and len(rows) > limit:
        table.add_row(f"[dim]… and {len(rows) - limit} more[/]")
    return table


def _number(value: float | None, digits: int) -> str:
    # Rounding can result in -0.0; adding zero makes it 0.0.
    return "-" if value is None or math.isnan(value) else f"{round(value, digits) + 0.0:.{digits}f}"


def _load(row: Row) -> Text | Table:
    if math.isnan(row.load):
        return Text("-", style="dim")
    style = "red" if row.load > 0.8 else "yellow" if row.load > 0.5 else "green"
    line = Table.grid(padding=(0, 1))
    bar = ProgressBar(
        total=1.0,
        completed=min(row.load, 1.0),
        width=BAR_WIDTH,
        complete_style=style,
        finished_style=style,
    )
    line.add_row(bar, f"{row.load:4.0%}")
    return line


def view(title: str, table: Table, flow: Flow, now: float) -> Group:
    """Return the whole picture at a time of the flow's clock: title, table, rate, latency."""
    figures = Text.from_markup(
        f"[bold]{flow.rate(now):.0f}[/] Hz   [bold]{flow.latency(now) * 1e3:.2f}[/] ms from joint "
        f"state to dynamics (median)   [bold]{flow.messages}[/] messages"
    )
    hint = Text("see also:  ros2 topic echo /dynamics/gravity      Ctrl-C to quit", style="dim")
    return Group(Text(title, style="bold"), "", table, "", figures, hint)


def picture(tree: Tree, message: JointSpaceDynamics, flow: Flow, limit: int | None = None) -> Group:
    """Return a message as a table with at most `limit` rows."""
    efforts = {joint.name: joint.effort for joint in tree.joints}
    linear = any(joint.kind in ("prismatic", "planar", "floating") for joint in tree.joints)
    table = joint_table(rows_of(message, efforts), linear, limit)
    title = f"Dynamics of {tree.name} in motion, published by dynamics_node"
    return view(title, table, flow, time.time())


def save_picture(path: Path, tree: Tree, message: JointSpaceDynamics, flow: Flow) -> None:
    console = Console(record=True, width=WIDTH, file=io.StringIO(), force_terminal=True)
    console.print(picture(tree, message, flow))
    console.save_svg(str(path), title="dyn_ros demo", code_format=SVG)


def _starting(seconds: float, words: str) -> str:
    """Return the text to show until the first message, with the last line of the node's output."""
    return f"dynamics_node is starting ({seconds:.0f} s)" + (f": {words}" if words else "")


class Terminal:
    """A table that is updated in place ten times per second, in the context `live`."""

    period = 0.1  # seconds

    def __init__(self, console: Console, tree: Tree) -> None:
        self._console, self._tree = console, tree
        self._spinner = Spinner("dots")
        self.live = Live(console=console, auto_refresh=False)

    def wait(self, seconds: float, words: str) -> None:
        text = Text(_starting(seconds, words), no_wrap=True, overflow="ellipsis")
        self._spinner.update(text=text)
        self.live.update(self._spinner, refresh=True)

    def show(self, message: JointSpaceDynamics, flow: Flow) -> None:
        """Draw a message, with as many joints as fit in the terminal."""
        limit = max(1, self._console.height - OTHER_LINES)
        self.live.update(picture(self._tree, message, flow, limit), refresh=True)


class Lines:
    """The table printed once a second, for a file or a pipe."""

    period = 1.0  # seconds
    live = nullcontext()

    def __init__(self, console: Console, tree: Tree) -> None:
        console.width = WIDTH
        self._console, self._tree = console, tree

    def wait(self, seconds: float, words: str) -> None:
        self._print(Text(_starting(seconds, words)))

    def show(self, message: JointSpaceDynamics, flow: Flow) -> None:
        self._print(picture(self._tree, message, flow))

    def _print(self, what: RenderableType) -> None:
        self._console.print(what, highlight=False)
        self._console.file.flush()
