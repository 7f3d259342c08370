# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The robot of a command: a URDF or xacro file, or standard input."""
from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from ..engine.model.model import RootJoint
from ..engine.model.urdf import read_description
from .errors import UsageError

Read = TypeVar("Read")
ROBOT = ("URDF, or xacro file, whose arguments are passed as NAME:=VALUE; -: standard input")
_STANDARD_INPUT = Path("-")
_ARGUMENT = re.compile(r"([A-Za-z_][\w.-]*):=(.*)", re.DOTALL)
_XACRO_ELEMENT = re.compile(r"<xacro:\w")


def split_arguments(argv: Sequence[str]) -> tuple[list[str], dict[str, str]]:
    """Split arguments of a command into those for argparse, and NAME:=VALUE for xacro."""
    own: list[str] = []
    xacro: dict[str, str] = {}
    for argument in argv:
        match = _ARGUMENT.fullmatch(argument)
        if match:
            xacro[match[1]] = match[2]
        else:
            own.append(argument)
    return own, xacro


def add_robot(command: argparse.ArgumentParser) -> None:
    """Add the robot description as the first argument."""
    command.add_argument("robot", type=Path, metavar="FILE", help=ROBOT)


def add_root_joint(command: argparse.ArgumentParser) -> None:
    """Add the option ``--root-joint``."""
    command.add_argument("--root-joint", choices=["fixed", "floating", "planar"], default="fixed",
                         help="how the root link is attached to the world (default: fixed)")


def robot_name(options: argparse.Namespace) -> str:
    """Return how messages name the robot's file."""
    return "standard input" if options.robot == _STANDARD_INPUT else str(options.robot)


def is_plain_file(options: argparse.Namespace) -> bool:
    """Whether the robot is a regular file, which can be read again, that is not xacro."""
    return options.robot.is_file() and robot_text(options) == options.source


def mesh_folders(options: argparse.Namespace) -> list[Path]:
    """Return the folders above the robot's file; of standard input, above the current folder."""
    return [*(options.robot.absolute()).parents]


def robot_text(options: argparse.Namespace) -> str:
    """Return the robot description, with xacro expanded.

    It is read once. Afterwards, ``options.source`` is the text before the expansion. A `UsageError`
    names the file, and a remedy.
    """
    if not hasattr(options, "description"):
        options.source = _read(options)
        options.description = _expanded(options)
    return options.description


def read_robot(options: argparse.Namespace, read: Callable[[str, RootJoint], Read]) -> Read:
    """Read the robot's description with a function; errors name the file."""
    root_joint = None if options.root_joint == "fixed" else options.root_joint
    text = robot_text(options)
    try:
        return read(text, root_joint)
    except ValueError as error:
        raise UsageError(f"{robot_name(options)}: {error}") from error


def _read(options: argparse.Namespace) -> str:
    path = options.robot
    if path == _STANDARD_INPUT:
        if sys.stdin is None or sys.stdin.isatty():
            raise UsageError("standard input is a terminal; pipe a description into the command, "
                             "or specify a file")
        path = Path("/dev/stdin")
    try:
        return read_description(path)
    except OSError as error:
        raise UsageError(f"{robot_name(options)}: {error.strerror}") from error
    except ValueError as error:
        raise UsageError(f"{robot_name(options)}: {error}") from error


def _expanded(options: argparse.Namespace) -> str:
    """Expand the robot's text if it is xacro."""
    arguments: Mapping[str, str] = getattr(options, "xacro", {})
    if options.robot.suffix != ".xacro" and not _XACRO_ELEMENT.search(options.source):
        if arguments:
            name = next(iter(arguments))
            raise UsageError(f"{name}:={arguments[name]}: {robot_name(options)} is not a xacro "
                             "file, and takes no arguments; leave it out")
        return options.source
    try:
        import xacro
    except ImportError as error:
        raise UsageError(f"{robot_name(options)}: xacro files require xacro: pip install "
                         '"dyn_ros[xacro]", or source a ROS installation that has it') from error
    folder = Path.cwd() if options.robot == _STANDARD_INPUT else options.robot.absolute().parent
    xacro.init_stacks(str(folder / options.robot.name))     # what it includes is relative to this
    try:
        document = xacro.parse(options.source)
        xacro.process_doc(document, mappings=dict(arguments))
        return document.documentElement.toxml()
    except Exception as error:      # of many kinds, which the command xacro prints alike
        raise UsageError(_reason(options, xacro, error)) from error


def _reason(options: argparse.Namespace, xacro: Any, error: Exception) -> str:
    """Why a xacro file cannot be expanded, and what would do."""
    text = str(error) or repr(error)
    undefined = re.search(r"[Uu]ndefined substitution argument (\S+)", text)
    if undefined:
        text += f"; pass {undefined[1]}:=VALUE"
    elif "ament_index_python" in text or "AMENT_PREFIX_PATH" in text:
        text = "$(find PACKAGE) requires a ROS workspace; source the one with the package"
    files = [Path(each) for each in xacro.filestack or [] if each]
    where = f", in {files[-1]}" if len(files) > 1 else ""
    return f"{robot_name(options)}: xacro: {text}{where}"
