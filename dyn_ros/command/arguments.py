# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Arguments of the commands: the robot, recordings and others; and what is wrong with them."""

from __future__ import annotations

import argparse
import importlib
import logging
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import numpy as np

from ..drives import load_drives
from ..drives.file import missing_gains
from ..engine.kernel.types import Array
from ..engine.model import Model
from ..engine.model.model import RootJoint
from ..engine.model.urdf import read_description
from ..logs.quantity_settings import QuantitySettings
from ..observer.settings import settings_in
from ..recordings.formats import LISTED
from ..states.joint_states import STALENESS

OBSERVER = "gain", "smoothing", "effort_delay", "effort_constant"
"""The settings of the observer that are options."""

Commands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"
Read = TypeVar("Read")
ROBOT = "URDF or xacro file, with arguments as NAME:=VALUE; - is standard input"
_STANDARD_INPUT = Path("-")
_ARGUMENT = re.compile(r"([A-Za-z_][\w.-]*):=(.*)", re.DOTALL)
_XACRO_ELEMENT = re.compile(r"<xacro:\w")
_ESTIMATE = "estimate it from a known load (dyn_ros identify --effort-constant estimate)"
_KEYWORDS = {
    "robot=": "--robot",
    "topics=": "--topic",
    "odometry=": "--odometry",
    "base=": "--root-joint fixed",
}


class UsageError(Exception):
    """The user's input cannot be used; the message names a remedy."""


@contextmanager
def reported(file: object = None, always: bool = False) -> Iterator[None]:
    """Raise errors as a `UsageError`; errors of the system name the file, all if ``always``."""
    try:
        yield
    except OSError as error:
        name = file if always else error.filename or file
        raise UsageError(f"{name}: {error.strerror or error}" if name else error) from error
    except (ImportError, ValueError) as error:
        raise UsageError(as_option(f"{file}: {error}" if always else str(error))) from error


def as_option(text: str) -> str:
    """A message about arguments of a function, as one about options."""
    for keyword, option in _KEYWORDS.items():
        text = re.sub(rf"\b(pass|passes) {keyword}", rf"\1 {option}", text)
    return text


# --- the robot


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


def add_command(
    commands: Commands, name: str, run: Callable[[argparse.Namespace], int | None], text: str
) -> argparse.ArgumentParser:
    """Add a command; ``run`` returns its exit code, or None for 0."""
    command = commands.add_parser(name, help=text, description=text)
    command.set_defaults(run=run)
    return command


def add_robot(command: argparse.ArgumentParser) -> None:
    """Add the robot description as the first argument."""
    command.add_argument("robot", type=Path, metavar="FILE", help=ROBOT)


def add_drives(command: argparse.ArgumentParser) -> None:
    """Add the option ``--drives``."""
    command.add_argument(
        "--drives",
        type=Path,
        metavar="FILE",
        help="YAML file that declares what efforts are, rotor inertias and "
        "friction (default: torques, with the friction of the robot's "
        "description)",
    )


def add_root_joint(command: argparse.ArgumentParser) -> None:
    """Add the option ``--root-joint``."""
    command.add_argument(
        "--root-joint",
        choices=["fixed", "floating", "planar"],
        default="fixed",
        help="how the root link is attached to the world (default: fixed)",
    )


def robot_name(options: argparse.Namespace) -> str:
    """Return how messages name the robot's file."""
    return "standard input" if options.robot == _STANDARD_INPUT else str(options.robot)


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
    with reported(robot_name(options), always=True):
        return read(text, root_joint)


def read_model(options: argparse.Namespace) -> Model:
    """Read the robot's description, and its drives if there are any; errors name the file."""
    model = read_robot(options, Model.from_urdf)
    warn_of_drives(options)
    if options.drives is not None:
        with reported(options.drives):
            load_drives(model, options.drives)
    return model


def warn_of_drives(options: argparse.Namespace) -> None:
    """Warn of drives beside the robot's file, as ``identify`` writes them, if none are used."""
    beside = options.robot.with_suffix(".drives.yaml")
    if options.drives is None and beside.is_file():
        print(
            f"warning: {beside} lies beside the description, but is not used; pass --drives "
            f"{beside}",
            file=sys.stderr,
        )


def require_gains(options: argparse.Namespace, model: Model, remedy: str = _ESTIMATE) -> None:
    """Raise a `UsageError` if the drives of a joint have a unit but no gain, for torques in N m.

    ``remedy`` is what helps instead of a gain in the file, or a constant in ``--effort-constant``.
    """
    words = [str(word) for word in getattr(options, "effort_constant", None) or ()]
    if options.drives is None or any("=" not in word for word in words):
        return
    given = {word.rpartition("=")[0] for word in words}
    for name, text in missing_gains(options.drives, model.velocity_names).items():
        if name not in given:
            raise UsageError(f"{options.drives}: {text}, or {remedy}")


def _read(options: argparse.Namespace) -> str:
    path = options.robot
    if path == _STANDARD_INPUT:
        if sys.stdin is None or sys.stdin.isatty():
            raise UsageError(
                "standard input is a terminal; pipe a description into the command, "
                "or specify a file"
            )
        path = Path("/dev/stdin")
    with reported(robot_name(options), always=True):
        return read_description(path)


def _expanded(options: argparse.Namespace) -> str:
    """Expand the robot's text if it is xacro."""
    arguments: Mapping[str, str] = getattr(options, "xacro", {})
    if options.robot.suffix != ".xacro" and not _XACRO_ELEMENT.search(options.source):
        if arguments:
            name = next(iter(arguments))
            raise UsageError(
                f"{name}:={arguments[name]}: {robot_name(options)} is not a xacro "
                "file, and takes no arguments; leave it out"
            )
        return options.source
    try:
        import xacro
    except ImportError as error:
        raise UsageError(
            f"{robot_name(options)}: xacro files require xacro: pip install "
            '"dyn_ros[xacro]", or source a ROS installation that has it'
        ) from error
    place = Path.cwd() if options.robot == _STANDARD_INPUT else options.robot.absolute().parent
    xacro.init_stacks(str(place / options.robot.name))  # what it includes is relative to this
    try:
        document = xacro.parse(options.source)
        xacro.process_doc(document, mappings=dict(arguments))
        return document.documentElement.toxml()
    except Exception as error:  # of many kinds, which the command xacro prints alike
        raise UsageError(_reason(options, xacro, error)) from error


def _reason(options: argparse.Namespace, xacro: Any, error: Exception) -> str:
    """Why a xacro file cannot be expanded, and what would do."""
    text = str(error) or repr(error)
    undefined = re.search(r"[Uu]ndefined substitution argument (\S+)", text)
    if undefined:
        text += f"; pass {undefined[1]}:=VALUE"
    elif "ament_index_python" in text or "AMENT_PREFIX_PATH" in text:
        text = "$(find PACKAGE) requires a ROS workspace; source the one with the package"
    files = [Path(file) for file in xacro.filestack or [] if file]
    where = f", in {files[-1]}" if len(files) > 1 else ""
    return f"{robot_name(options)}: xacro: {text}{where}"


# --- types of arguments


def _type(
    convert: Callable[[str], Read], accepts: Callable[[str], bool], fault: str
) -> Callable[[str], Read]:
    """A type of arguments; the fault describes a text that is not accepted."""

    def converted(text: str) -> Read:
        if not accepts(text):
            raise argparse.ArgumentTypeError(f"{text!r}{fault}")
        return convert(text)

    return converted


port = _type(
    int,
    lambda text: text.isdecimal() and int(text) < 65536,
    " is not a port, a number from 0 to 65535",
)
count = _type(
    int, lambda text: text.isdecimal() and int(text) > 0, " is not a whole number of at least 1"
)
folder = _type(Path, os.path.isdir, " is not a folder")
page = _type(
    Path,
    lambda text: Path(text).suffix.lower() in (".html", ".htm"),
    ": expected a file that ends with .html",
)
urdf_file = _type(
    Path,
    lambda text: Path(text).suffix.lower() not in (".yaml", ".yml", ".csv"),
    ": a robot description is written; expected a file that ends with .urdf",
)
yaml_file = _type(
    Path,
    lambda text: Path(text).suffix.lower() in (".yaml", ".yml"),
    ": YAML is written; expected a file that ends with .yaml",
)


def _moment(text: str) -> str:
    """Check a moment, for argparse."""
    from ..engine.model.moments import moment

    try:
        moment(text, 0)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error).removeprefix("time: ")) from None
    return text


def positive(text: str) -> float:
    """Convert a positive number, for argparse."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is not a positive number")
    return value


def lock(text: str) -> tuple[str, float | None]:
    """Convert JOINT or JOINT=X, for argparse."""
    name, equals, number = text.rpartition("=")
    if not equals:
        return text, None
    try:
        return name, float(number)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r}: {number!r} is not a number") from None


def column(text: str) -> tuple[str, str]:
    """Convert SIGNAL=NAMES, for argparse."""
    signal, equals, names = text.partition("=")
    if not equals or not names:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not SIGNAL=NAMES, such as position=q_{{}}; "
            "write recordings before --columns"
        )
    return signal, names


def once(option: str, pairs: Sequence[tuple[str, Read]]) -> dict[str, Read]:
    """Values of an option by name; a `UsageError` if one is given twice."""
    names = [name for name, _ in pairs]
    for name in names:
        if names.count(name) > 1:
            raise UsageError(f"{option}: {name!r} is given {names.count(name)} times; give it once")
    return dict(pairs)


def require_folders(*outputs: Path | None) -> None:
    """Raise a `UsageError` if the folder of a file to write does not exist."""
    for path in outputs:
        if path is not None and not path.absolute().parent.is_dir():
            raise UsageError(f"{path}: there is no folder {str(path.parent)!r}; create it first")


# --- other arguments


def add_formats(command: argparse.ArgumentParser) -> None:
    """Add the options ``--json`` and ``--csv``; without them, ``format`` is "table"."""
    formats = command.add_mutually_exclusive_group()
    for name, what in (
        ("json", "JSON; infinite and unknown numbers are null"),
        ("csv", "CSV, with a line of names"),
    ):
        formats.add_argument(
            f"--{name}",
            action="store_const",
            dest="format",
            const=name,
            default="table",
            help=f"print {what}; warnings go to stderr",
        )


def add_recordings(command: argparse.ArgumentParser) -> None:
    """Add the recordings, and the options about what of them is read."""
    command.add_argument(
        "recordings", nargs="+", metavar="RECORDING", help=f"file ({LISTED}), folder or pattern"
    )
    command.add_argument(
        "--topic",
        action="append",
        default=[],
        metavar="TOPIC",
        help="topic of joint states (default: all whose last part is joint_states); repeatable",
    )
    command.add_argument(
        "--odometry",
        metavar="TOPIC",
        help="topic of the odometry of a moving base (default: odom or odometry)",
    )
    command.add_argument(
        "--since",
        type=_moment,
        metavar="TIME",
        help="when to begin: seconds since 1970, a date such as 2025-03-01T12:00 "
        "(UTC unless it states its zone), or +S, seconds after the start of "
        "each recording",
    )
    command.add_argument("--until", type=_moment, metavar="TIME", help="when to end")
    command.add_argument(
        "--staleness",
        type=positive,
        default=STALENESS,
        metavar="SECONDS",
        help=f"largest difference between stamps within one state (default: {STALENESS:g})",
    )


def add_settings(
    command: argparse.ArgumentParser, *names: str, default: str = "{}", **defaults: str
) -> None:
    """Add options of settings, see ``given_settings``; the texts are the defaults."""
    for name in names:
        known = settings_in(QuantitySettings)[name]
        clauses = [
            text[0].lower() + text[1:].rstrip(".") for text in (known.label, known.note) if text
        ]
        usual = default.format(f"{known.empty if known.is_array else known.default:g}")
        command.add_argument(
            f"--{name.replace('_', '-')}",
            type=float,
            nargs="+" if known.is_array else None,
            metavar={"s": "SECONDS", "Hz": "HZ"}.get(known.unit, "X"),
            help=f"{'; '.join(clauses)} (default: {defaults.get(name, usual)})",
        )


def given_settings(options: argparse.Namespace) -> dict[str, Any]:
    """Return the settings that are given as options of ``add_settings``, by field name."""
    given = {name: getattr(options, name, None) for name in settings_in(QuantitySettings)}
    return {
        name: tuple(value) if isinstance(value, list) else value
        for name, value in given.items()
        if value is not None
    }


def add_workers(command: argparse.ArgumentParser, more: str) -> None:
    """Add the options about the processes that do the work."""
    command.add_argument("--workers", type=count, metavar="N", help=f"number of processes{more}")
    command.add_argument(
        "--scheduler",
        metavar="ADDRESS",
        help="address of a Dask cluster that does the work, such as tcp://192.168.1.10:8786",
    )


def report_lost_clusters(options: argparse.Namespace) -> None:
    """Report in one line that a scheduler has ended: distributed logs a traceback."""
    if options.scheduler is not None and find_spec("distributed"):
        importlib.import_module("distributed")  # sets the levels
        for name in ("distributed", "distributed.client"):
            logging.getLogger(name).setLevel(logging.CRITICAL)


def numbers(what: str, words: Sequence[str], names: Sequence[str], values: Array) -> Array:
    """Parse numbers of an option: one for each name in order, or NAME=NUMBER for some."""
    if not words:
        return values
    if not any("=" in word for word in words):
        if len(words) != len(names):
            raise ValueError(
                f"--{what}: expected {len(names)} numbers, for {', '.join(names)}, got {len(words)}"
            )
        return np.array([_parsed(what, word) for word in words])
    values = values.copy()
    for word in words:
        name, equals, number = word.rpartition("=")
        if not equals:
            raise ValueError(
                f"--{what}: {word!r} is not NAME=NUMBER; specify all values by name, "
                "or all in order"
            )
        if name not in names:
            raise ValueError(f"--{what}: there is no {name!r}; available: {', '.join(names)}")
        values[names.index(name)] = _parsed(what, number)
    return values


def _parsed(what: str, word: str) -> float:
    try:
        return float(word)
    except ValueError:
        raise ValueError(f"--{what}: {word!r} is not a number") from None
