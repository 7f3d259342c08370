# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The demo: robot, nodes and page in processes of their own, and the table in this process."""

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
from .table import Lines, Terminal, save_snapshot

if TYPE_CHECKING:
    from .listener import Listener

ARM = Path(__file__).parent.parent / "robots" / "arm7.urdf"
NODE_START_LIMIT = 300.0  # s; compiling on a slow machine takes a minute
DISCOVERY_LIMIT = 5.0  # s; during this time, the demo yields to any other robot
PAGE_RATE = 60.0  # Hz; the page has no use for a higher rate
OUTPUT_CHUNK = 4096  # bytes; first or last output of a process that is searched
ADDRESS = re.compile(r"http://\S+")
PRCTL = getattr(ctypes.CDLL(None), "prctl", None)  # Linux only


class DemoError(Exception):
    """The demo cannot continue; the message states the reason and a remedy."""


def run_demo(
    urdf: Path = ARM,
    root_joint: str = "fixed",
    rate: float = 500.0,
    duration: float | None = None,
    snapshot: Path | None = None,
    page: bool = True,
    browser: bool = True,
    port: int = 8080,
    mesh_folders: Sequence[Path] | None = None,
) -> None:
    """Show the dynamics of a moving robot until Ctrl-C or for a limited time.

    `rate` is the rate of the joint states [Hz]; `duration` counts from the first message of the
    node [s]. `snapshot` is an SVG file for the last picture. With `page`, the demo also serves a
    page, at `port` or the next free one, and with `browser` opens it if there are a terminal and a
    display. By default, meshes are searched in the folders above the description. Raise a
    `DemoError` if the description cannot be read, ROS is missing, a process ended early, or the
    snapshot cannot be written.
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
    start_time = time.time()
    with ExitStack() as stack:
        stopped = stack.enter_context(stop_signals())
        children = [
            stack.enter_context(start_node("dynamics", root_joint)),
            stack.enter_context(
                Child("the robot", "dyn_ros.demo.robot", str(urdf), "--rate", str(rate))
            ),
        ]
        viewer: Page | None = None
        page_nodes: Iterable[Child] = ()
        if page and can_serve_page(console):
            viewer = Page(console, mesh_folders or urdf.resolve().parents, port, browser)
            stack.enter_context(viewer)
            page_nodes = start_page_nodes(tree, root_joint)
        listener = stack.enter_context(Listener())
        screen = Terminal(console, tree) if console.is_terminal else Lines(console, tree)
        stack.enter_context(screen.live)
        show_messages(
            listener,
            start_time,
            screen,
            children,
            stopped,
            duration,
            viewer,
            lambda: children.extend(stack.enter_context(child) for child in page_nodes),
        )
        if snapshot is not None and listener.message is not None:
            try:
                save_snapshot(snapshot, tree, listener.message, listener.flow)
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
    if os.path.exists(urdf) and not urdf.is_file():
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
    """Yield a list to which SIGINT and SIGTERM append their number, instead of their effect."""
    received: list[int] = []
    signals = [signal.SIGINT, signal.SIGTERM]
    handlers = [
        signal.signal(number, lambda number, _: received.append(number)) for number in signals
    ]
    try:
        yield received
    finally:
        for number, handler in zip(signals, handlers):
            signal.signal(number, handler)


class Child:
    """A process that runs a module, and ends with this process; its output is captured."""

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
        size = os.fstat(self._output.fileno()).st_size
        lines = self._read_output(size - OUTPUT_CHUNK).split("\n")
        return next((line.strip() for line in reversed(lines) if line.strip()), "")

    def find_output(self, pattern: re.Pattern[str]) -> str:
        """Return the first match of a pattern in the start of the output, or ""."""
        match = pattern.search(self._read_output(0))
        return match.group() if match else ""

    def _read_output(self, start: int) -> str:
        """Return the output from a byte on, at most `OUTPUT_CHUNK` bytes."""
        # pread does not move the file position, which the process shares
        output = os.pread(self._output.fileno(), OUTPUT_CHUNK, max(0, start))
        return output.decode(errors="replace")

    def has_ended(self) -> bool:
        """Return True if the process has ended."""
        return self._process.poll() is not None

    def raise_if_ended(self) -> None:
        """Raise a ``DemoError`` if the process has ended."""
        if self.has_ended():
            raise DemoError(
                self.last_line() or f"{self.name} ended with exit code {self._process.returncode}"
            )

    def __enter__(self) -> Child:
        return self

    def __exit__(self, *_: object) -> None:
        for send_signal in (self._process.terminate, self._process.kill):
            send_signal()
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


def start_node(name: str, root_joint: str, **parameters: str | float) -> Child:
    """Start one of the package's nodes with the parameters for the demo."""
    values: dict[str, str | float] = {
        "root_joint": root_joint,
        "base_source": "parameter",
        **parameters,
    }
    if name in ("dynamics", "centroidal"):
        values["derivatives"] = "false"
    if name == "dynamics":
        values["markers.torque.scale"] = 0.15
    arguments = [word for key, value in values.items() for word in ("-p", f"{key}:={value}")]
    return Child(f"{name}_node", f"dyn_ros.nodes.{name}_node", "--ros-args", *arguments)


def start_page_nodes(tree: Tree, root_joint: str) -> Iterator[Child]:
    """Start and yield further nodes whose results the page shows."""
    tool = tree.links[-1].name
    # the base of the simulated robot is fixed, so its support must not count as a contact
    yield start_node(
        "observer",
        "fixed",
        max_rate=PAGE_RATE,
        tip_frame=tool,
        friction_velocity=FRICTION_VELOCITY,
        **{"thresholds.relative": 0.015},
    )
    yield start_node("centroidal", root_joint, max_rate=PAGE_RATE)
    yield start_node(
        "vereshchagin",
        root_joint,
        max_rate=PAGE_RATE,
        constraints="hold_pose",
        tip_frame=tool,
        feedforward="gravity",
        wrench_topics="[push]",
        input_timeout="0.0",
    )


def can_serve_page(console: Console) -> bool:
    """Return True if the page can be served; otherwise, print what to install."""
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

    def __init__(
        self, console: Console, mesh_folders: Sequence[Path], port: int, browser: bool
    ) -> None:
        self._console, self._is_announced = console, False
        self._opens_browser = browser
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
        """Print the address or the reason of a failure, once; open the page if requested."""
        if self._is_announced:
            return
        address = self.find_output(ADDRESS)
        if address:
            self._is_announced = True
            self._console.print(f"[bold]Open {address}[/] and move the robot with the sliders.")
            if self._opens_browser and self._console.is_terminal and has_screen():
                webbrowser.open(address)
        elif self.has_ended():
            self._is_announced = True
            self._console.print(
                f"The page is not available: {self.last_line()}", style="yellow", markup=False
            )


def has_screen() -> bool:
    """Return True if there is a display, and a browser that opens on it, not in the terminal."""
    if not (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")):
        return False
    try:
        return type(webbrowser.get()) is not webbrowser.GenericBrowser
    except webbrowser.Error:
        return False


def show_messages(
    listener: Listener,
    start_time: float,
    screen: Terminal | Lines,
    children: Sequence[Child],
    stopped: Sequence[int],
    duration: float | None,
    page: Page | None,
    on_first_message: Callable[[], None],
) -> None:
    """Show received messages until a signal, the end of the duration, or the exit of a child.

    `start_time` is the start of the demo by the system clock [s]. `on_first_message`
    starts further nodes, whose compilation would otherwise delay this message.
    """
    start = time.monotonic()
    end: float | None = None
    # counted in pictures, because discovery takes longer on a busy machine
    discovery_rounds = round(DISCOVERY_LIMIT / screen.period)
    while not stopped:
        listener.listen(screen.period)
        for child in children:
            child.raise_if_ended()
        if page is not None:
            page.announce()
        now = time.monotonic()
        # Of two demos, the one started last yields, however late it discovers the first.
        if listener.count_robots() > 1 and (
            discovery_rounds or listener.has_description_before(start_time)
        ):
            raise DemoError(
                "another robot publishes joint_states in this ROS domain; stop it, or "
                "set ROS_DOMAIN_ID to an unused number (0 to 101)"
            )
        discovery_rounds = max(discovery_rounds - 1, 0)
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
            on_first_message()
            end = now + duration if duration is not None else float("inf")
        if now >= end:
            return
