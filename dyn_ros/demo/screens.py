# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Outputs of the demo's picture: a terminal, plain lines, or a file."""
from __future__ import annotations

import io
import re
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from rich.console import CONSOLE_SVG_FORMAT, Console, Group, RenderableType
from rich.live import Live
from rich.spinner import Spinner
from rich.text import Text

from ..engine.model.urdf import Tree
from .table import OTHER_LINES, joint_table, rows_of, view

if TYPE_CHECKING:
    from .listener import Listener

# rich's SVG format, without the fonts that it would fetch from a server
SVG = re.sub(r"@font-face \{\{.*?\}\}", "", CONSOLE_SVG_FORMAT, flags=re.DOTALL)
WIDTH = 92      # columns if there is no terminal


def picture(tree: Tree, listener: Listener, limit: int | None = None) -> Group:
    """Return the latest message as a table with at most `limit` rows."""
    efforts = {joint.name: joint.effort for joint in tree.joints}
    linear = any(joint.kind in ("prismatic", "planar", "floating") for joint in tree.joints)
    table = joint_table(rows_of(listener.message, efforts), linear, limit)
    title = f"Dynamics of {tree.name} in motion, published by dynamics_node"
    return view(title, table, listener.flow, time.time())


def save_picture(path: Path, tree: Tree, listener: Listener) -> None:
    """Write the latest picture as SVG."""
    console = Console(record=True, width=WIDTH, file=io.StringIO(), force_terminal=True)
    console.print(picture(tree, listener))
    console.save_svg(str(path), title="dyn_ros demo", code_format=SVG)


def _starting(seconds: float, words: str) -> str:
    """Return the text to show until the first message."""
    return f"dynamics_node is starting ({seconds:.0f} s)" + (f": {words}" if words else "")


class Screen(Protocol):
    """Where the demo shows the table."""

    period: float       # seconds between two pictures

    def __enter__(self) -> Screen:
        """Start."""

    def __exit__(self, *_: object) -> None:
        """Leave the last picture."""

    def wait(self, seconds: float, words: str) -> None:
        """Show that the node is starting, with the last line of its output."""

    def show(self, listener: Listener) -> None:
        """Show the latest message."""


def screen_on(console: Console, tree: Tree) -> Screen:
    """Return a table that is updated in place, or plain lines if there is no terminal."""
    return Terminal(console, tree) if console.is_terminal else Lines(console, tree)


class Terminal:
    """A table that is updated in place ten times per second."""

    period = 0.1      # seconds

    def __init__(self, console: Console, tree: Tree) -> None:
        self._console, self._tree = console, tree
        self._spinner = Spinner("dots")
        self._live = Live(console=console, auto_refresh=False)

    def __enter__(self) -> Terminal:
        self._live.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._live.__exit__(*error)

    def wait(self, seconds: float, words: str) -> None:
        """Show that the node is starting, with the last line of its output."""
        text = Text(_starting(seconds, words), no_wrap=True, overflow="ellipsis")
        self._spinner.update(text=text)
        self._live.update(self._spinner, refresh=True)

    def show(self, listener: Listener) -> None:
        """Draw the latest message, with as many joints as fit in the terminal."""
        limit = max(1, self._console.height - OTHER_LINES)
        self._live.update(picture(self._tree, listener, limit), refresh=True)


class Lines:
    """The table printed once a second, for a file or a pipe."""

    period = 1.0      # seconds

    def __init__(self, console: Console, tree: Tree) -> None:
        console.width = WIDTH
        self._console, self._tree = console, tree

    def __enter__(self) -> Lines:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def wait(self, seconds: float, words: str) -> None:
        """Show that the node is starting, with the last line of its output."""
        self._print(Text(_starting(seconds, words)))

    def show(self, listener: Listener) -> None:
        """Print the latest message."""
        self._print(picture(self._tree, listener))

    def _print(self, what: RenderableType) -> None:
        self._console.print(what, highlight=False)
        self._console.file.flush()
