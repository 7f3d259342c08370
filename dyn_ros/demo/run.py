# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Run the demo: the robot, the nodes and the page in processes of their own, the table in this."""

from __future__ import annotations

import ctypes
import importlib.util
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import webbrowser
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from ..engine.model.urdf import ONE_DOF, Tree, read_description, read_urdf
from ..viewer.simulation import FRICTION_VELOCITY
from .table import Lines, Terminal, save_picture

if TYPE_CHECKING:
    from .listener import Listener

ARM = Path(__file__).parent.parent / "robots" / "arm7.urdf"
NODE_START_LIMIT = 300.0  # seconds; compiling on a slow machine takes a minute
DISCOVERY_LIMIT = 5.0  # seconds during which the demo yields to any other robot
PAGE_RATE = 60.0  # highest rate that is of use to the page [Hz]
ADDRESS = re.compile(r"http://\S+")
PRCTL = getattr(ctypes.CDLL(None), "prctl", None)  # Linux only


class DemoError(Exception):
    """The demo cannot continue; the message states the reason and a remedy."""


def run(
    urdf: Path = ARM,
    root_joint: str = "fixed",
    rate: float = 500.0,
    duration: float | None = None,
    snapshot: Path | None = None,
    browser: bool = True,
    port: int = 8080,
    mesh_folders: Sequence[Path] | None = None,
) -> None:
    """Show the dynamics of a moving robot until Ctrl-C or for a limited time.

    `rate` is that of the joint states [Hz]; `duration` counts from the first message of the node
    [s]. `snapshot` is an SVG file for the last picture. `browser`: also serve a page, at `port` or
    the next free one, and open it if there are a terminal and a display. By default, meshes are
    searched in the folders above the description. A `DemoError` if the description cannot be read,
    ROS is missing, a process ended early, or the snapshot cannot be written.
    """
    tree = read_tree(urdf, root_joint)
    try:
        from .listener import Listener
    except ImportError as error:
        raise DemoError(
            f"ROS 2 or this package's messages are missing ({error}); run `make demo`, or build "
            "the package with colcon and source its setup file"
        ) from error
    console = Console()
    for warning in tree.warnings:
        console.print(f"{urdf.name}: {warning}", style="yellow", markup=False)
    os.environ.setdefault("ROS_AUTOMATIC_DISCOVERY_RANGE", "LOCALHOST")
    os.environ.setdefault("RCUTILS_CONSOLE_OUTPUT_FORMAT", "{message}")
    begin = time.time()
    with ExitStack() as stack:
        stopped = stack.enter_context(stop_signals())
        children = [
            stack.enter_context(node("dynamics", root_joint)),
            stack.enter_context(
                Child("the robot", "dyn_ros.demo.robot", str(urdf), "--rate", str(rate))
            ),
        ]
        page: Page | None = None
        later: Iterable[Child] = ()
        if browser and can_show(console):
            page = Page(console, mesh_folders or urdf.resolve().parents, port)
            stack.enter_context(page)
            later = nodes_of_page(tree, root_joint)
        listener = stack.enter_context(Listener())
        screen = Terminal(console, tree) if console.is_terminal else Lines(console, tree)
        stack.enter_context(screen.live)
        watch(
            listener,
            begin,
            screen,
            children,
            stopped,
            duration,
            page,
            lambda: children.extend(stack.enter_context(child) for child in later),
        )
        if snapshot is not None and listener.message is not None:
            try:
                save_picture(snapshot, tree, listener.message, listener.flow)
            except OSError as error:
                raise DemoError(f"{snapshot}: {error.strerror}") from error
    flow = listener.flow
    if not flow.messages:
        console.print("Ended before the first message from the node.")
        return
    console.print(
        f"{flow.messages} messages at {flow.total_rate():.0f} Hz, median latency "
        f"{flow.total_latency() * 1e3:.2f} ms",
        highlight=False,
    )


def read_tree(urdf: Path, root_joint: str) -> Tree:
    """Read a robot description; raise ``DemoError`` if it cannot be used."""
    if urdf.exists() and not urdf.is_file():
        raise DemoError(
            f"{urdf}: expected a file, because several processes read it; save the "
            "description to one"
        )
    try:
        tree = read_urdf(
            read_description(urdf), root_joint=None if root_joint == "fixed" else root_joint
        )
    except OSError as error:
        raise DemoError(f"{urdf}: {error.strerror}") from error
    except ValueError as error:
        raise DemoError(f"{urdf}: {error}") from error
    if not any(joint.kind in ONE_DOF for joint in tree.joints):
        raise DemoError(
            f"{urdf}: no joint moves; the demo requires at least one revolute, "
            "continuous or prismatic joint"
        )
    return tree


@contextmanager
def stop_signals() -> Iterator[list[int]]:
    """Yield a list that is no longer empty once the process gets SIGINT or SIGTERM."""
    stopped: list[int] = []
    names = [signal.SIGINT, signal.SIGTERM]
    before = [signal.signal(name, lambda number, _: stopped.append(number)) for name in names]
    try:
        yield stopped
    finally:
        for name, handler in zip(names, before):
            signal.signal(name, handler)


class Child:
    """A module run in a process that ends with this one, with its output captured."""

    def __init__(self, name: str, module: str, *arguments: str) -> None:
        self.name = name
        self._output = tempfile.TemporaryFile()
        # In its own session, so that Ctrl-C reaches only this process, which then ends the others.
        self._process = subprocess.Popen(
            [sys.executable, "-m", module, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=self._output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=_end_with_parent,
        )

    def last_line(self) -> str:
        """Return the last line that the process wrote, or ""."""
        lines = self._read(os.fstat(self._output.fileno()).st_size - 4096).split("\n")
        return next((line.strip() for line in reversed(lines) if line.strip()), "")

    def find(self, pattern: re.Pattern[str]) -> str:
        """Return the first match of a pattern in the start of the output, or ""."""
        match = pattern.search(self._read(0))
        return match.group() if match else ""

    def _read(self, start: int) -> str:
        # pread does not move the file position, which the process shares.
        return os.pread(self._output.fileno(), 4096, max(0, start)).decode(errors="replace")

    def ended(self) -> bool:
        return self._process.poll() is not None

    def check(self) -> None:
        """Raise a ``DemoError`` if the process has ended."""
        if self.ended():
            raise DemoError(
                self.last_line() or f"{self.name} ended with exit code {self._process.returncode}"
            )

    def __enter__(self) -> Child:
        return self

    def __exit__(self, *_: object) -> None:
        for end in (self._process.terminate, self._process.kill):
            end()
            try:
                self._process.wait(3.0)
                break
            except subprocess.TimeoutExpired:
                continue
        self._output.close()


def _end_with_parent() -> None:
    """Ask Linux to end this process when its parent dies, for whatever reason."""
    if PRCTL is not None:
        pr_set_pdeathsig = 1
        PRCTL(pr_set_pdeathsig, signal.SIGTERM)


def node(name: str, root_joint: str, **parameters: str | float) -> Child:
    """Return one of the package's nodes with the parameters for the demo."""
    given: dict[str, str | float] = {
        "root_joint": root_joint,
        "base_source": "parameter",
        **parameters,
    }
    if name in ("dynamics", "centroidal"):
        given["derivatives"] = "false"
    if name == "dynamics":
        given["markers.torque.scale"] = 0.15
    arguments = [word for key, value in given.items() for word in ("-p", f"{key}:={value}")]
    return Child(f"{name}_node", f"dyn_ros.nodes.{name}_node", "--ros-args", *arguments)


def nodes_of_page(tree: Tree, root_joint: str) -> Iterator[Child]:
    """Yield the other nodes for the page: constraints that hold the tool, contacts, centroidal."""
    tool = tree.links[-1].name
    # the robot is fixed, whatever the other nodes assume: what holds its base is no contact
    yield node(
        "observer",
        "fixed",
        max_rate=PAGE_RATE,
        tip_frame=tool,
        friction_velocity=FRICTION_VELOCITY,
        **{"thresholds.relative": 0.015},
    )
    yield node("centroidal", root_joint, max_rate=PAGE_RATE)
    yield node(
        "vereshchagin",
        root_joint,
        max_rate=PAGE_RATE,
        constraints="hold_pose",
        tip_frame=tool,
        feedforward="gravity",
        wrench_topics="[push]",
        input_timeout="0.0",
    )


def can_show(console: Console) -> bool:
    """Whether the page can be served; if not, print what to install."""
    if importlib.util.find_spec("viser"):
        return True
    console.print(
        'To see the robot in a browser as well: pip install "dyn_ros[viewer]", or run `make demo`.',
        style="yellow",
        markup=False,
    )
    return False


class Page(Child):
    """The viewer's process; the demo continues if it fails."""

    def __init__(self, console: Console, mesh_folders: Sequence[Path], port: int) -> None:
        self._console, self._announced = console, False
        folders = ",".join(f"'{folder}'" for folder in mesh_folders)
        super().__init__(
            "the viewer",
            "dyn_ros.nodes.viewer_node",
            "--ros-args",
            "-p",
            f"port:={port}",
            "-p",
            "motion_service:=demo_robot/move",
            "-p",
            "command_topic:=demo_robot/command",
            "-p",
            "simulated_robot:=demo_robot",
            "-p",
            f"mesh_paths:=[{folders}]",
        )

    def announce(self) -> None:
        """Print, once, the address or the reason of a failure; open the page on a display."""
        if self._announced:
            return
        address = self.find(ADDRESS)
        if address:
            self._announced = True
            self._console.print(f"[bold]Open {address}[/] and move the robot with the sliders.")
            if self._console.is_terminal and has_screen():
                webbrowser.open(address)
        elif self.ended():
            self._announced = True
            self._console.print(
                f"The page is not available: {self.last_line()}", style="yellow", markup=False
            )


def has_screen() -> bool:
    """Whether there is a display, and a browser that opens on it rather than in the terminal."""
    if not (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")):
        return False
    try:
        return type(webbrowser.get()) is not webbrowser.GenericBrowser
    except webbrowser.Error:
        return False


def watch(
    listener: Listener,
    begin: float,
    screen: Terminal | Lines,
    children: Sequence[Child],
    stopped: Sequence[int],
    duration: float | None,
    page: Page | None,
    start_others: Callable[[], None],
) -> None:
    """Show what the listener receives until a signal, the end of the duration, or a child's exit.

    The other nodes start after the first message: compiling at the same time would delay it.
    """
    start = time.monotonic()
    end: float | None = None
    settling = round(DISCOVERY_LIMIT / screen.period)  # in rounds: a busy machine takes longer
    while not stopped:
        listener.listen(screen.period)
        for child in children:
            child.check()
        if page is not None:
            page.announce()
        now = time.monotonic()
        # Of two demos, the one started last yields, however late it discovers the first.
        if listener.robots() > 1 and (settling or listener.described_before(begin)):
            raise DemoError(
                "another robot publishes joint_states in this ROS domain; stop it, or "
                "set ROS_DOMAIN_ID to an unused number (0 to 101)"
            )
        settling = max(settling - 1, 0)
        if listener.message is None:
            if now > start + NODE_START_LIMIT:
                raise DemoError(
                    f"no message from the node in {NODE_START_LIMIT:.0f} s; its last "
                    f"output: {children[0].last_line()}"
                )
            screen.wait(now - start, children[0].last_line())
            continue
        screen.show(listener.message, listener.flow)
        if end is None:
            start_others()
            end = now + duration if duration is not None else float("inf")
        if now >= end:
            return
