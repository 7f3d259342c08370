"""Run the demo: the robot and the dynamics node as processes, the table in this one."""
import ctypes
import os
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path

from rich.console import Console

from ..model.urdf import ONE_DOF, read_urdf
from .screens import Lines, Terminal, save_picture

ARM = Path(__file__).parent.parent / "robots" / "arm7.urdf"
NODE_START_LIMIT = 300.0      # seconds; compiling on a slow machine takes a minute
DISCOVERY_LIMIT = 5.0         # seconds until publishers that were there before are known
PRCTL = getattr(ctypes.CDLL(None), "prctl", None)      # Linux has it


class DemoError(Exception):
    """The demo cannot go on; the message says why and what would do."""


def run(urdf=ARM, root_joint="fixed", rate=500.0, duration=None, snapshot=None):
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
    with ExitStack() as stack:
        stopped = stack.enter_context(stop_signals())
        node = stack.enter_context(Child(
            "dynamics_node", "dyn_ros.nodes.dynamics_node", "--ros-args",
            "-p", f"root_joint:={root_joint}", "-p", "base_source:=parameter",
            "-p", "derivatives:=false"))
        robot = stack.enter_context(Child(
            "the robot", "dyn_ros.demo.robot", str(urdf), "--rate", str(rate)))
        listener = stack.enter_context(Listener())
        show = Terminal if console.is_terminal else Lines
        screen = stack.enter_context(show(console, tree))
        watch(listener, screen, [node, robot], stopped, duration)
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
        tree = read_urdf(urdf.read_text(encoding="utf-8"),
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
        # pread leaves the file's position, which the process shares, where it is.
        size = os.fstat(self._output.fileno()).st_size
        tail = os.pread(self._output.fileno(), 4096, max(0, size - 4096))
        lines = tail.decode(errors="replace").split("\n")
        return next((line.strip() for line in reversed(lines) if line.strip()), "")

    def check(self):
        """Raise ``DemoError`` when the process has ended."""
        code = self._process.poll()
        if code is not None:
            raise DemoError(self.last_line() or f"{self.name} ended with exit code {code}")

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


def watch(listener, screen, children, stopped, duration):
    """Show what the listener hears until a signal, the duration's end or a child's death."""
    start, end = time.monotonic(), None
    while not stopped:
        listener.listen(screen.period)
        for child in children:
            child.check()
        now = time.monotonic()
        # the one that came last gives way
        if now < start + DISCOVERY_LIMIT and listener.publishers("joint_states") > 1:
            raise DemoError("another robot publishes joint_states in this ROS domain: stop it, or "
                            "set ROS_DOMAIN_ID to a number of your own (0 to 101)")
        if listener.message is None:
            if now > start + NODE_START_LIMIT:
                raise DemoError(f"the node sent nothing in {NODE_START_LIMIT:.0f} s; its last "
                                f"words: {children[0].last_line()}")
            screen.wait(now - start, children[0].last_line())
            continue
        screen.show(listener)
        if end is None:
            end = now + duration if duration is not None else float("inf")
        if now >= end:
            return
