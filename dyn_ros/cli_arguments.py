# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Arguments of the commands, and what is wrong with them."""
from __future__ import annotations

import argparse
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from .model.joint_states import STALENESS
from .model.model import RootJoint
from .model.urdf import read_description

Commands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"
Read = TypeVar("Read")
_KEYWORDS = {"robot=": "--robot", "topics=": "--topic", "odometry=": "--odometry", "base=":
             "--root-joint fixed"}

if TYPE_CHECKING:
    from .logs.workers import Workers


class UsageError(Exception):
    """The user's input cannot be used; the message names a remedy."""


def add_root_joint(command: argparse.ArgumentParser) -> None:
    """Add the option ``--root-joint``."""
    command.add_argument("--root-joint", choices=["fixed", "floating", "planar"], default="fixed",
                         help="how the root link is attached to the world (default: fixed)")


def add_recordings(command: argparse.ArgumentParser) -> None:
    """Add the recordings, and the options about what of them is read."""
    command.add_argument("recordings", nargs="+", metavar="RECORDING",
                         help="file (.mcap, .db3, .bag, .csv, .parquet), folder or pattern")
    command.add_argument("--topic", action="append", default=[], metavar="TOPIC",
                         help="of joint states (default: all whose last part is joint_states); "
                              "repeatable")
    command.add_argument("--odometry", metavar="TOPIC",
                         help="of a base that moves (default: the topic odom or odometry)")
    command.add_argument("--since", type=_moment, metavar="TIME",
                         help="when to begin: seconds since 1970, a date such as 2025-03-01T12:00 "
                              "(UTC unless it states its zone), or +S, seconds after the start of "
                              "each recording")
    command.add_argument("--until", type=_moment, metavar="TIME", help="when to end")
    command.add_argument("--staleness", type=positive, default=STALENESS, metavar="SECONDS",
                         help="largest difference between stamps within one state (default: "
                              f"{STALENESS:g})")


def add_workers(command: argparse.ArgumentParser, more: str) -> None:
    """Add the options about the processes that do the work."""
    command.add_argument("--workers", type=count, metavar="N",
                         help=f"number of processes{more}")
    command.add_argument("--scheduler", metavar="ADDRESS",
                         help="of a Dask cluster that does the work, such as "
                              "tcp://192.168.1.10:8786")


def workers_of(options: argparse.Namespace) -> Workers:
    """Start the processes, or connect to the cluster."""
    from .logs.parallel import open_workers
    return open_workers(options.workers, options.scheduler)


def as_option(text: str) -> str:
    """A message about arguments of a function, as one about options."""
    for keyword, option in _KEYWORDS.items():
        text = re.sub(rf"\b(pass|passes) {keyword}", rf"\1 {option}", text)
    return text


def read_robot(options: argparse.Namespace, read: Callable[[str, RootJoint], Read]) -> Read:
    """Read the robot's file with a function; errors name the file."""
    root_joint = None if options.root_joint == "fixed" else options.root_joint
    try:
        return read(read_description(options.robot), root_joint)
    except OSError as error:
        raise UsageError(f"{options.robot}: {error.strerror}") from error
    except ValueError as error:
        raise UsageError(f"{options.robot}: {error}") from error


def port(text: str) -> int:
    """Convert a port number, for argparse."""
    if not (text.isdecimal() and int(text) < 65536):
        raise argparse.ArgumentTypeError(f"{text!r} is not a port: a number from 0 to 65535")
    return int(text)


def page(text: str) -> Path:
    """Convert the name of an HTML file, for argparse."""
    if Path(text).suffix.lower() not in (".html", ".htm"):
        raise argparse.ArgumentTypeError(f"{text!r}: expected a file that ends with .html")
    return Path(text)


def folder(text: str) -> Path:
    """Convert the name of a folder that exists, for argparse."""
    if not Path(text).is_dir():
        raise argparse.ArgumentTypeError(f"{text!r} is not a folder")
    return Path(text)


def _moment(text: str) -> str:
    """Check a moment, for argparse."""
    from .logs.plan import moment
    try:
        moment(text, 0)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error).removeprefix("time: ")) from None
    return text


def count(text: str) -> int:
    """Convert a number of at least 1, for argparse."""
    if not (text.isdecimal() and int(text) > 0):
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of at least 1")
    return int(text)


def positive(text: str) -> float:
    """Convert a positive number, for argparse."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is not a positive number")
    return value
