# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Run the demo: the robot, the nodes and the page as processes, the table in this one."""
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
from contextlib import ExitStack, contextmanager
from pathlib import Path

from rich.console import Console

from ..model.urdf import ONE_DOF, read_description, read_urdf
from .screens import Lines, Terminal, save_picture

ARM = Path(__file__).parent.parent / "robots" / "arm7.urdf"
NODE_START_LIMIT = 300.0      # seconds; compiling on a slow machine takes a minute
DISCOVERY_LIMIT = 5.0         # seconds in which the demo gives way to any other robot
PAGE_RATE = 60.0              # what a page has a use for [Hz]
ADDRESS = re.compile(r"http://\S+")
PRCTL = getattr(ctypes.CDLL(None), "prctl", None)      # Linux has it


class DemoError(Exception):
    """The demo cannot go on; the message says why and what would do."""


def run(urdf=ARM, root_joint="fixed", rate=500.0, duration=None, snapshot=None, browser=True,
        port=8080):
    """Show the dynamics of a moving robot until Ctrl-C or for some time.

    Parameters
    ----------
    urdf : pathlib.Path
        The robot's description.
    root_joint : {"fixed", "floating", "planar"}
        What holds the robot's root link.
    rate : float
        Joint states per second [Hz].
    duration : float, optional
        Seconds from the first answer of the node to the end.
    snapshot : pathlib.Path, optional
        SVG file for the last picture.
    browser : bool
        Serve a page with the robot too, and open it where there are a terminal and a screen.
    port : int
        Of the page; the next free one where it is taken.

    Raises
    ------
    DemoError
        The description cannot be read, ROS is missing, a process ended early, or the snapshot
        cannot be written.
    """
    tree = read_tree(urdf, root_joint)
    try:
        from .listener import Listener
    except ImportError as error:
        raise DemoError(
            f"ROS 2 or this package's messages are missing ({error}): run `make demo`, or build "
            "the package with colcon and source its setup file") from error
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
            stack.enter_context(Child(
                "the robot", "dyn_ros.demo.robot", str(urdf), "--rate", str(rate)))]
        page, later = None, ()
        if browser and can_show(console):
            page = stack.enter_context(Page(console, urdf, port))
            later = nodes_of_page(tree, root_joint)
        listener = stack.enter_context(Listener())
        show = Terminal if console.is_terminal else Lines
        screen = stack.enter_context(show(console, tree))
        watch(listener, begin, screen, children, stopped, duration, page,
              lambda: children.extend(stack.enter_context(each) for each in later))
        if snapshot is not None and listener.message is not None:
            try:
                save_picture(snapshot, tree, listener)
            except OSError as error:
                raise DemoError(f"{snapshot}: {error.strerror}") from error
    flow = listener.flow
    if not flow.messages:
        console.print("Ended before the node's first message.")
        return
    console.print(f"{flow.messages} messages at {flow.total_rate():.0f} Hz, median latency "
                  f"{flow.total_latency() * 1e3:.2f} ms", highlight=False)


def read_tree(urdf, root_joint):
    """Read a robot's description, or raise ``DemoError`` with the reason."""
    try:
        tree = read_urdf(read_description(urdf),
                         root_joint=None if root_joint == "fixed" else root_joint)
    except OSError as error:
        raise DemoError(f"{urdf}: {error.strerror}") from error
    except ValueError as error:
        raise DemoError(f"{urdf}: {error}") from error
    if not any(joint.kind in ONE_DOF for joint in tree.joints):
        raise DemoError(f"{urdf}: no joint moves; the demo needs one that is revolute, continuous "
                        "or prismatic")
    return tree


@contextmanager
def stop_signals():
    """Give a list that fills when the process is asked to end (Ctrl-C or kill)."""
    stopped = []
    names = [signal.SIGINT, signal.SIGTERM]
    before = [signal.signal(name, lambda number, _: stopped.append(number)) for name in names]
    try:
        yield stopped
    finally:
        for name, handler in zip(names, before):
            signal.signal(name, handler)


class Child:
    """A module run as a process that ends with this one, its output kept off the screen."""

    def __init__(self, name, module, *arguments):
        self.name = name
        self._output = tempfile.TemporaryFile()
        # A session of its own: Ctrl-C reaches this process alone, which then ends the others.
        self._process = subprocess.Popen(
            [sys.executable, "-m", module, *arguments], stdin=subprocess.DEVNULL,
            stdout=self._output, stderr=subprocess.STDOUT, start_new_session=True,
            preexec_fn=_end_with_parent)

    def last_line(self):
        """What the process said last, or "" when it said nothing yet."""
        lines = self._read(os.fstat(self._output.fileno()).st_size - 4096).split("\n")
        return next((line.strip() for line in reversed(lines) if line.strip()), "")

    def find(self, pattern):
        """The first place in its first words that a pattern matches, or ""."""
        match = pattern.search(self._read(0))
        return match.group() if match else ""

    def _read(self, start):
        # pread leaves the file's position, which the process shares, where it is.
        return os.pread(self._output.fileno(), 4096, max(0, start)).decode(errors="replace")

    def ended(self):
        """Whether the process has."""
        return self._process.poll() is not None

    def check(self):
        """Raise ``DemoError`` when the process has ended."""
        if self.ended():
            raise DemoError(self.last_line() or
                            f"{self.name} ended with exit code {self._process.returncode}")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for end in (self._process.terminate, self._process.kill):
            end()
            try:
                self._process.wait(3.0)
                break
            except subprocess.TimeoutExpired:
                continue
        self._output.close()


def _end_with_parent():
    """Ask Linux to end this process when its parent dies, however that happens."""
    if PRCTL is not None:
        pr_set_pdeathsig = 1
        PRCTL(pr_set_pdeathsig, signal.SIGTERM)


def node(name, root_joint, **parameters):
    """One of the package's nodes, with what the demo needs of it."""
    given = {"root_joint": root_joint, "base_source": "parameter", **parameters}
    if name != "vereshchagin":
        given["derivatives"] = "false"
    if name == "dynamics":
        given["markers.torque.scale"] = 0.15
    arguments = [word for key, value in given.items() for word in ("-p", f"{key}:={value}")]
    return Child(f"{name}_node", f"dyn_ros.nodes.{name}_node", "--ros-args", *arguments)


def nodes_of_page(tree, root_joint):
    """More nodes, for what the page shows: centers of mass, and a tool that a push acts on."""
    tool = [frame.name for frame in tree.frames if frame.kind == "body"][-1]
    yield node("centroidal", root_joint, max_rate=PAGE_RATE)
    yield node("vereshchagin", root_joint, max_rate=PAGE_RATE, constraints="hold_pose",
               tip_frame=tool, feedforward="gravity", wrench_topics="[push]", input_timeout="0.0")


def can_show(console):
    """Whether there is what the page needs; tells what would do."""
    if importlib.util.find_spec("viser"):
        return True
    console.print("The robot can be seen in a browser too: pip install viser, or `make demo`.",
                  style="yellow")
    return False


class Page:
    """The robot in a browser: the viewer's process, and where it is seen.

    Without it the demo goes on.
    """

    def __init__(self, console, urdf, port):
        self._console, self._told = console, False
        folders = ",".join(f"'{folder}'" for folder in urdf.resolve().parents)
        self._child = Child(
            "the viewer", "dyn_ros.nodes.viewer_node", "--ros-args", "-p", f"port:={port}",
            "-p", "motion_service:=demo_robot/move", "-p", f"mesh_paths:=[{folders}]")

    def tell(self):
        """Once, where it is, or why it is not; opens it where a person can see it."""
        if self._told:
            return
        address = self._child.find(ADDRESS)
        if address:
            self._told = True
            self._console.print(f"[bold]The robot is at {address}[/]: move it with the sliders.")
            if self._console.is_terminal and has_screen():
                webbrowser.open(address)
        elif self._child.ended():
            self._told = True
            self._console.print(f"There is no page to see: {self._child.last_line()}",
                                style="yellow", markup=False)

    def __enter__(self):
        self._child.__enter__()
        return self

    def __exit__(self, *error):
        self._child.__exit__(*error)


def has_screen():
    """Whether there is a screen, and a browser that opens on it and not in the terminal."""
    if not (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")):
        return False
    try:
        return type(webbrowser.get()) is not webbrowser.GenericBrowser
    except webbrowser.Error:
        return False


def watch(listener, begin, screen, children, stopped, duration, page, go_on):
    """Show what the listener hears until a signal, the duration's end or a child's death.

    With the first message it goes on: nodes that compile at the same time would delay it.
    """
    start, end = time.monotonic(), None
    settling = round(DISCOVERY_LIMIT / screen.period)     # in rounds: a busy machine takes longer
    while not stopped:
        listener.listen(screen.period)
        for child in children:
            child.check()
        if page is not None:
            page.tell()
        now = time.monotonic()
        # Of two demos the one that came last gives way, however late it finds the first.
        if listener.robots() > 1 and (settling or listener.described_before(begin)):
            raise DemoError("another robot publishes joint_states in this ROS domain: stop it, or "
                            "set ROS_DOMAIN_ID to a number of your own (0 to 101)")
        settling = max(settling - 1, 0)
        if listener.message is None:
            if now > start + NODE_START_LIMIT:
                raise DemoError(f"the node sent nothing in {NODE_START_LIMIT:.0f} s; its last "
                                f"words: {children[0].last_line()}")
            screen.wait(now - start, children[0].last_line())
            continue
        screen.show(listener)
        if end is None:
            go_on()
            end = now + duration if duration is not None else float("inf")
        if now >= end:
            return
