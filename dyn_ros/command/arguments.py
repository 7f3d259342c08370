# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Arguments of the commands, and what is wrong with them."""
from __future__ import annotations

import argparse
import importlib
import logging
import re
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from ..logs.formats import LISTED
from ..states.joint_states import STALENESS
from .errors import UsageError
from .robot import ROBOT, add_robot, add_root_joint, read_robot

__all__ = ["ROBOT", "Commands", "UsageError", "add_formats", "add_recordings", "add_robot",
           "add_root_joint", "add_workers", "as_option", "count", "folder", "page", "port",
           "positive", "read_robot", "workers_of"]

Commands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"
_KEYWORDS = {"robot=": "--robot", "topics=": "--topic", "odometry=": "--odometry", "base=":
             "--root-joint fixed"}

if TYPE_CHECKING:
    from ..logs.run.jobs import Workers


def add_formats(command: argparse.ArgumentParser) -> None:
    """Add the options ``--json`` and ``--csv``; without them, ``format`` is "table"."""
    formats = command.add_mutually_exclusive_group()
    for name, what in (("json", "JSON; infinite and unknown numbers are null"),
                       ("csv", "CSV, with a line of names")):
        formats.add_argument(f"--{name}", action="store_const", dest="format", const=name,
                             default="table", help=f"print {what}; warnings go to stderr")


def add_recordings(command: argparse.ArgumentParser) -> None:
    """Add the recordings, and the options about what of them is read."""
    command.add_argument("recordings", nargs="+", metavar="RECORDING",
                         help=f"file ({LISTED}), folder or pattern")
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
    from ..logs.parallel import open_workers
    report_lost_clusters(options)
    return open_workers(options.workers, options.scheduler, fork=True)


def report_lost_clusters(options: argparse.Namespace) -> None:
    """Report in one line that a scheduler has ended: distributed logs a traceback."""
    if options.scheduler is not None and find_spec("distributed"):
        importlib.import_module("distributed")      # sets the levels
        for name in ("distributed", "distributed.client"):
            logging.getLogger(name).setLevel(logging.CRITICAL)


def as_option(text: str) -> str:
    """A message about arguments of a function, as one about options."""
    for keyword, option in _KEYWORDS.items():
        text = re.sub(rf"\b(pass|passes) {keyword}", rf"\1 {option}", text)
    return text


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
    from ..logs.run.plan import moment
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
