# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The command ``dyn_ros view``: a robot, or a recording of one, in the browser; without ROS."""

from __future__ import annotations

import argparse
import sys
import time
import webbrowser
from collections.abc import Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from ..engine.model.model import RootJoint
from ..engine.model.urdf import read_urdf
from ..recordings.formats import SUFFIX_LIST, recording_suffix
from . import arguments
from .arguments import ROBOT, Commands, UsageError, folder, mesh_folders, read_robot, report_errors

if TYPE_CHECKING:
    from ..viewer.local import LocalRobot
    from ..viewer.replay import Replay
    from ..viewer.session import Session

UPDATE_RATE = 30.0  # Hz
_UNSUPPORTED_SUFFIXES = (".pq", ".zstd", ".zst", ".gz")  # recordings that reading rejects


def add_view(commands: Commands) -> None:
    """Add the command ``view``."""
    text = "Show a robot or a recording in the browser; move it, push it, and see its torques."
    command = commands.add_parser("view", help=text, description=text + " ROS is not needed.")
    command.set_defaults(run=_run_view)
    command.add_argument(
        "file",
        type=Path,
        nargs="?",
        metavar="FILE",
        help=f"robot to simulate ({ROBOT}), or recording to replay ({SUFFIX_LIST}, or "
        "the folder of a bag) (default: arm7, part of this package)",
    )
    command.add_argument(
        "--robot",
        type=Path,
        metavar="FILE.urdf",
        help="robot of a recording (default: the one in it)",
    )
    arguments.add_drives(command)
    arguments.add_gravity(command)
    command.add_argument(
        "--root-joint",
        choices=["fixed", "floating", "planar"],
        help="how the root link is attached to the world (default: fixed; for a "
        "recording with odometry: floating)",
    )
    command.add_argument(
        "--mesh-path",
        type=folder,
        action="append",
        default=[],
        metavar="FOLDER",
        help="folder with packages that contain meshes, in addition to the "
        "folders above the robot's file; repeatable",
    )
    command.add_argument(
        "--topic",
        action="append",
        default=[],
        metavar="TOPIC",
        help="topic of joint states in a recording (default: all whose last part "
        "is joint_states); repeatable",
    )
    command.add_argument(
        "--odometry",
        metavar="TOPIC",
        help="topic of the odometry of a moving base in a recording (default: odom or odometry)",
    )
    arguments.add_max_chunk_size(command)
    command.add_argument(
        "--host",
        default="127.0.0.1",
        help="address to serve the page on (default: 127.0.0.1, this machine "
        "only; 0.0.0.0: anyone who can reach this machine)",
    )
    command.add_argument(
        "--port",
        type=arguments.port,
        default=8080,
        help="port of the page; if it is in use, the next free one (default: 8080)",
    )
    command.add_argument(
        "--allow-host",
        action="append",
        default=[],
        metavar="HOST",
        help="another name under which browsers may open the page; repeatable",
    )
    arguments.add_no_browser(command)


def _run_view(options: argparse.Namespace) -> None:
    """Run the command ``view``."""
    from ..demo.run import ARM

    options.file = options.file or ARM
    if not find_spec("viser"):
        raise UsageError('the page requires viser: pip install "dyn_ros[viewer]"')
    try:
        if is_recording(options.file):
            _view_recording(options)
        else:
            _view_robot(options)
    except ImportError as error:
        raise UsageError(
            f'{error}; pip install "dyn_ros[viewer]"' if error.name else str(error)
        ) from error


def is_recording(path: Path) -> bool:
    """Return True if a file is a recording according to its name, or a folder."""
    return (
        path.is_dir()
        or recording_suffix(path.name) is not None
        or path.suffix.lower() in _UNSUPPORTED_SUFFIXES
    )


# --- a robot


def _view_robot(options: argparse.Namespace) -> None:
    """Simulate a robot, and serve its page."""
    from ..engine.model import Model
    from ..viewer.local import CURVES, LocalRobot

    if options.robot is not None:
        raise UsageError(
            f"--robot: {options.file} is a robot description, not a recording; pass one of the two"
        )
    if options.drives is not None:
        raise UsageError(
            f"--drives: {options.file} is a robot description, which is simulated; "
            "pass drives with a recording"
        )
    options.robot, options.root_joint = options.file, options.root_joint or "fixed"
    model = read_robot(options, Model.from_urdf)
    arguments.set_gravity(options, model)
    for warning in model.tree.warnings:
        arguments.print_warning(options, f"{options.file}: {warning}", prefix="")
    _serve_page(
        options,
        LocalRobot(model),
        arguments.robot_text(options),
        mesh_folders(options),
        CURVES,
        is_live=True,
    )


# --- a recording


def _view_recording(options: argparse.Namespace) -> None:
    """Replay a recording, and serve its page."""
    from ..recordings.formats.sources import require_packages
    from ..viewer.replay import CURVES, Replay, open_recording

    with report_errors():
        require_packages([options.file])
    xml = None
    if options.robot is not None:
        xml = read_robot(options, _require_valid_urdf)
        arguments.warn_of_drives(options)
    with report_errors(options.file):
        recording = open_recording(
            options.file,
            xml,
            options.root_joint,
            tuple(options.topic),
            options.odometry,
            options.drives,
            options.gravity,
            options.max_chunk_size,
        )
    replay = Replay(recording)
    folders = [*options.file.absolute().parents]
    if xml is not None:
        folders += mesh_folders(options)
    try:
        _serve_page(options, replay, recording.xml, folders, CURVES, is_live=False)
    finally:
        replay.close()


def _require_valid_urdf(xml: str, root_joint: RootJoint) -> str:
    """Return a description; raise a ValueError if it cannot be read."""
    read_urdf(xml, root_joint)
    return xml


# --- the page


def _serve_page(
    options: argparse.Namespace,
    source: LocalRobot | Replay,
    xml: str,
    folders: Sequence[Path],
    curves: Sequence[str],
    is_live: bool,
) -> None:
    """Serve the page until the process is asked to stop."""
    from ..demo.run import has_screen, stop_signals
    from ..viewer.actor import PageSettings
    from ..viewer.page.page import PageError, is_loopback
    from ..viewer.session import Session

    settings = PageSettings(
        mesh_paths=[*options.mesh_path, *folders],
        has_motion=is_live,
        can_hang=is_live,
        can_push=is_live,
        curves=curves,
        allowed_hosts=options.allow_host,
        advise=partial(arguments.name_options, options),
    )
    with stop_signals() as stopped:
        try:
            session = Session(options.host, options.port, source, settings)
        except (PageError, ValueError) as error:
            raise UsageError(error) from error
        try:
            if options.port and session.server.get_port() != options.port:
                print(f"port {options.port} is in use", file=sys.stderr)
            if not is_loopback(options.host):
                print(
                    f"host {options.host}: anyone who can reach this machine can open the page; "
                    "there is no password",
                    file=sys.stderr,
                )
            print(f"The robot is at {session.address} (Ctrl-C to quit)", flush=True)
            if not options.no_browser and has_screen():
                webbrowser.open(session.address)
            source.show(session, xml)
            _update_page(session, source, stopped)
        finally:
            session.close()


def _update_page(session: Session, source: LocalRobot | Replay, stopped: Sequence[int]) -> None:
    """Update the page until the process is asked to stop."""
    previous = due = time.monotonic()
    while not stopped:
        now = time.monotonic()
        source.update(session, now - previous)
        session.update(now, now - previous)
        previous, due = now, max(due + 1.0 / UPDATE_RATE, now)
        time.sleep(max(0.0, due - time.monotonic()))
