# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Arguments that several commands have: the robot, recordings and others; errors about them."""

from __future__ import annotations

import argparse
import importlib
import io
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
from ..engine.kernel.names import name_arguments
from ..engine.kernel.types import Array
from ..engine.model import Model
from ..engine.model.model import RootJoint
from ..engine.model.urdf import MAX_CHARACTERS, read_description
from ..files.limits import MAX_CHUNK_SIZE
from ..files.reading import read_regular_file
from ..logs.quantity_settings import QuantitySettings
from ..observer.settings import settings_in
from ..recordings.formats import SUFFIX_LIST
from ..states.joint_states import STALENESS
from .limited_process import LimitError, call_within_limits

OBSERVER_SETTINGS = "gain", "smoothing", "effort_delay", "effort_constant"
"""Settings of the observer that are options of commands."""

ESTIMATE = "estimate"
"""The value of options whose numbers are estimated from the recordings."""

Commands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"
Result = TypeVar("Result")
ROBOT = (
    "URDF or xacro file, with arguments as NAME:=VALUE; - is standard input; or a description of "
    "the package robot_descriptions, such as panda_description"
)
_STANDARD_INPUT = Path("-")
_ARGUMENT = re.compile(r"([A-Za-z_][\w.-]*):=(.*)", re.DOTALL)
_DESCRIPTION_NAME = re.compile(r"[a-z]\w*_description")
_COMMENT = re.compile(r"<!--.*?(?:-->|\Z)", re.DOTALL)
_XACRO_MEMORY = 800_000_000  # bytes; a description of 4 million characters takes 160 MB
_XACRO_TIME = 30  # s, of processor time; a description of 4 million characters takes 3 s
_XACRO_ELEMENT = re.compile(r"<xacro:\w")
_XACRO_NAME = re.compile(r"<xacro:([^\s/>]+)")
_XACRO_MACRO = re.compile(r"<xacro:macro\s[^<>]*?\bname\s*=\s*[\"']([^\"']+)")
_ESTIMATE_REMEDY = "estimate it from a known load (dyn_ros identify --effort-constant estimate)"
_DESTINATIONS = {"topics": "topic", "mesh_paths": "mesh_path", "reduced": "lock"}
"""Options, as argparse stores them, whose names differ from the arguments in messages."""


class UsageError(Exception):
    """The user's input cannot be used; the message names a remedy."""


@contextmanager
def report_errors(file: object = None, always: bool = False) -> Iterator[None]:
    """Raise errors as a `UsageError` that names the file: OSErrors, or all errors if ``always``."""
    try:
        yield
    except OSError as error:
        name = file if always else error.filename or file
        raise UsageError(f"{name}: {error.strerror or error}" if name else error) from error
    except (ImportError, ValueError) as error:
        raise UsageError(f"{file}: {error}" if always else error) from error


def name_options(options: argparse.Namespace, text: object) -> str:
    """Return a message with options of the command instead of arguments of Python functions.

    Advice is left out if the command, whose options are given, has no such option.
    """

    def name_option(argument: str, value: str) -> str:
        destination = _DESTINATIONS.get(argument, argument)
        if not hasattr(options, destination):
            return ""
        name = destination.replace("_", "-")
        if (argument, value) == ("root_joint", "None"):
            return "--root-joint fixed"
        return {"True": f"--{name}", "False": f"--no-{name}"}.get(
            value, f"--{name} {value}".rstrip()
        )

    return name_arguments(str(text), name_option)


def print_warning(options: argparse.Namespace, text: object, prefix: str = "warning: ") -> None:
    """Print a warning to stderr that names options of the command, see `name_options`."""
    print(f"{prefix}{name_options(options, text)}", file=sys.stderr)


# --- the robot


def split_arguments(argv: Sequence[str]) -> tuple[list[str], dict[str, str]]:
    """Split arguments of a command into arguments for argparse, and NAME:=VALUE for xacro."""
    command_arguments: list[str] = []
    xacro_arguments: dict[str, str] = {}
    for argument in argv:
        match = _ARGUMENT.fullmatch(argument)
        if match:
            xacro_arguments[match[1]] = match[2]
        else:
            command_arguments.append(argument)
    return command_arguments, xacro_arguments


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


_GRAVITY_HELP = "gravity in the world [m/s2], such as 0 0 9.81 for a robot on a ceiling{} "
_GRAVITY_HELP += "(default: 0 0 -9.81)"


def add_gravity(command: argparse.ArgumentParser) -> None:
    """Add the option ``--gravity``; by default it is None."""
    command.add_argument(
        "--gravity",
        nargs=3,
        type=float,
        metavar=("X", "Y", "Z"),
        help=_GRAVITY_HELP.format(""),
    )


def add_gravity_or_estimate(command: argparse.ArgumentParser) -> None:
    """Add the option ``--gravity``, which may also be ``ESTIMATE``; by default it is None."""
    command.add_argument(
        "--gravity",
        nargs="+",
        action=_GravityOrEstimate,
        metavar="X",
        help=_GRAVITY_HELP.format(
            ", or 'estimate' from the efforts and the masses of the description"
        ),
    )


class _GravityOrEstimate(argparse.Action):
    """Store three numbers, or the word ``ESTIMATE``."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,
        option_string: str | None = None,
    ) -> None:
        if values == [ESTIMATE]:
            namespace.gravity = ESTIMATE
            return
        try:
            namespace.gravity = [float(word) for word in values]
        except ValueError:
            namespace.gravity = []
        if len(namespace.gravity) != 3:
            raise argparse.ArgumentError(
                self, f"expected three numbers, X Y Z, or {ESTIMATE!r}, got {' '.join(values)!r}"
            )


def add_root_joint(command: argparse.ArgumentParser) -> None:
    """Add the option ``--root-joint``."""
    command.add_argument(
        "--root-joint",
        choices=["fixed", "floating", "planar"],
        default="fixed",
        help="how the root link is attached to the world (default: fixed)",
    )


def find_robots(options: argparse.Namespace) -> None:
    """Replace descriptions of the package robot_descriptions by their files.

    Raise a `UsageError` if a robot that is no file has such a name, but there is no description.
    """
    for option in ("robot", "file"):
        path = getattr(options, option, None)
        if (
            isinstance(path, Path)
            and _DESCRIPTION_NAME.fullmatch(str(path))
            and not os.path.exists(path)
        ):
            module = _import_description(str(path))
            file = getattr(module, "URDF_PATH", None) or getattr(module, "XACRO_PATH", None)
            if file is None:
                raise UsageError(f"{path}: robot_descriptions has no URDF of it; pass a file")
            setattr(options, option, Path(file))
            options.xacro = {**getattr(module, "XACRO_ARGS", {}), **options.xacro}


def _import_description(name: str) -> Any:
    """Import a module of robot_descriptions, which may download a repository."""
    try:
        importlib.import_module("robot_descriptions")
        return importlib.import_module(f"robot_descriptions.{name}")
    except ModuleNotFoundError as error:
        if error.name == "robot_descriptions":
            raise UsageError(
                f"{name}: there is no such file; if it is the name of a description: pip install "
                "robot_descriptions"
            ) from None
        if error.name == f"robot_descriptions.{name}":
            raise UsageError(
                f"{name}: there is no such file, and no such description in robot_descriptions"
            ) from None
        raise UsageError(f"{name}: {error}") from error
    except Exception as error:  # git raises errors of many types
        raise UsageError(f"{name}: robot_descriptions cannot load it: {error}") from error


def robot_name(options: argparse.Namespace) -> str:
    """Return the name of the robot's file in messages."""
    return "standard input" if options.robot == _STANDARD_INPUT else str(options.robot)


def mesh_folders(options: argparse.Namespace) -> list[Path]:
    """Return the folders above the robot's file; for standard input, above the current folder."""
    return [*(options.robot.absolute()).parents]


def robot_text(options: argparse.Namespace) -> str:
    """Return the robot description, with xacro expanded.

    It is read once. Afterwards, ``options.source`` is the text before the expansion. Raise a
    `UsageError` that names the file and a remedy if the description cannot be read.
    """
    if not hasattr(options, "description"):
        options.source = _read_text(options)
        options.description = _expand_xacro(options)
    return options.description


def read_robot(options: argparse.Namespace, read: Callable[[str, RootJoint], Result]) -> Result:
    """Read the robot's description with a function; errors name the file."""
    root_joint = None if options.root_joint == "fixed" else options.root_joint
    text = robot_text(options)
    with report_errors(robot_name(options), always=True):
        return read(text, root_joint)


def read_model(options: argparse.Namespace) -> Model:
    """Read the robot's description, and its drives if there are any; errors name the file."""
    model = read_robot(options, Model.from_urdf)
    set_gravity(options, model)
    warn_of_drives(options)
    if options.drives is not None:
        with report_errors(options.drives):
            load_drives(model, options.drives)
    return model


def set_gravity(options: argparse.Namespace, model: Model) -> None:
    """Set the gravity in ``--gravity``, if it is passed."""
    if options.gravity not in (None, ESTIMATE):
        with report_errors("--gravity", always=True):
            model.gravity = options.gravity


def warn_of_drives(options: argparse.Namespace) -> None:
    """Warn of drives beside the robot's file, as ``identify`` writes them, if none are used."""
    beside = options.robot.with_suffix(".drives.yaml")
    if options.drives is None and os.path.isfile(beside):
        print(
            f"warning: {beside} lies beside the description, but is not used; pass --drives "
            f"{beside}",
            file=sys.stderr,
        )


def require_gains(
    options: argparse.Namespace, model: Model, remedy: str = _ESTIMATE_REMEDY
) -> None:
    """Raise a `UsageError` if the drives of a joint have a unit but no gain, for torques in N m.

    ``remedy`` is an alternative to a gain in the file, or a constant in ``--effort-constant``.
    """
    constants = [str(constant) for constant in getattr(options, "effort_constant", None) or ()]
    if options.drives is None or any("=" not in constant for constant in constants):
        return
    joints_with_constant = {constant.rpartition("=")[0] for constant in constants}
    for name, text in missing_gains(options.drives, model.velocity_names).items():
        if name not in joints_with_constant:
            raise UsageError(f"{options.drives}: {text}, or {remedy}")


def _read_text(options: argparse.Namespace) -> str:
    """Read the text of the robot's file, or of standard input."""
    path = options.robot
    if path == _STANDARD_INPUT:
        if sys.stdin is None or sys.stdin.isatty():
            raise UsageError(
                "standard input is a terminal; pipe a description into the command, "
                "or specify a file"
            )
        path = Path("/dev/stdin")
    with report_errors(robot_name(options), always=True):
        return read_description(path)


def _expand_xacro(options: argparse.Namespace) -> str:
    """Expand the robot's text if it is xacro."""
    arguments: Mapping[str, str] = getattr(options, "xacro", {})
    source = _COMMENT.sub("", options.source)
    if options.robot.suffix != ".xacro" and not _XACRO_ELEMENT.search(source):
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
    folder_of_includes = (
        Path.cwd() if options.robot == _STANDARD_INPUT else options.robot.absolute().parent
    )
    xacro.init_stacks(
        str(folder_of_includes / options.robot.name)
    )  # what it includes is relative to this
    xacro.open = _open_include  # instead of the built-in function, for the files that it includes
    try:
        return call_within_limits(
            _process_xacro,
            options,
            xacro,
            source,
            dict(arguments),
            memory=_XACRO_MEMORY,
            processor_time=_XACRO_TIME,
        )
    except LimitError as error:
        raise UsageError(f"{robot_name(options)}: xacro: {error}; simplify the file") from None


def _process_xacro(
    options: argparse.Namespace, xacro: Any, source: str, arguments: Mapping[str, str]
) -> str:
    """Return the text of the robot's xacro file, expanded; ``source`` lacks its comments."""
    try:
        document = xacro.parse(options.source)
        xacro.process_doc(document, mappings=dict(arguments))
    except MemoryError:
        raise
    except Exception as error:  # xacro raises errors of many types
        if isinstance(getattr(error, "exc", None), MemoryError):
            raise MemoryError from error
        raise UsageError(_explain_xacro_error(options, xacro, error)) from error
    if not document.getElementsByTagName("link"):
        names = {*_XACRO_NAME.findall(source)}
        for macro in _XACRO_MACRO.findall(source):
            if macro not in names:
                raise UsageError(
                    f"{robot_name(options)}: defines the macro {macro}, but does not call it; use "
                    "the file that includes this one and calls it"
                )
    _add_banner(document, robot_name(options))
    expanded: str = document.toprettyxml(indent="  ")
    return expanded


def _open_include(path: str) -> io.BytesIO:
    """Open a file that xacro includes, or from which it loads YAML; regular and of limited size."""
    return io.BytesIO(read_regular_file(path, MAX_CHARACTERS))


def _add_banner(document: Any, name: str) -> None:
    """Add the comments of the xacro command, so that lines have the numbers that it prints."""
    first = document.firstChild
    for text in (
        f" {'=' * 83} ",
        f" |    This document was autogenerated by xacro from {name.replace('--', '-'):<30} | ",
        f" |    EDITING THIS FILE BY HAND IS NOT RECOMMENDED  {'':<30} | ",
        f" {'=' * 83} ",
    ):
        document.insertBefore(document.createComment(text), first)


def _explain_xacro_error(options: argparse.Namespace, xacro: Any, error: Exception) -> str:
    """Return a message about an error of xacro, with a remedy if there is one."""
    text = str(error) or repr(error)
    undefined = re.search(r"[Uu]ndefined substitution argument (\S+)", text)
    if undefined:
        text += f"; pass {undefined[1]}:=VALUE"
    elif "unbound prefix" in text:
        text += (
            '; declare the prefix in <robot>, such as xmlns:xacro="http://www.ros.org/wiki/xacro"'
        )
    elif "ament_index_python" in text or "AMENT_PREFIX_PATH" in text:
        text = "$(find PACKAGE) requires a ROS workspace; source the one with the package"
    files = [Path(file) for file in xacro.filestack or [] if file]
    where = f", in {files[-1]}" if len(files) > 1 else ""
    return f"{robot_name(options)}: xacro: {text}{where}"


# --- types of arguments


def _argument_type(
    convert: Callable[[str], Result], accepts: Callable[[str], bool], fault: str
) -> Callable[[str], Result]:
    """Return a type of arguments; ``fault`` is the message about a text that is not accepted."""

    def convert_accepted(text: str) -> Result:
        if not accepts(text):
            raise argparse.ArgumentTypeError(f"{text!r}{fault}")
        return convert(text)

    return convert_accepted


port = _argument_type(
    int,
    lambda text: text.isdecimal() and int(text) < 65536,
    " is not a port, a number from 0 to 65535",
)
count = _argument_type(
    int, lambda text: text.isdecimal() and int(text) > 0, " is not a whole number of at least 1"
)
folder = _argument_type(Path, os.path.isdir, " is not a folder")
page = _argument_type(
    Path,
    lambda text: Path(text).suffix.lower() in (".html", ".htm"),
    ": expected a file that ends with .html",
)
urdf_file = _argument_type(
    Path,
    lambda text: Path(text).suffix.lower() not in (".yaml", ".yml", ".csv"),
    ": a robot description is written; expected a file that ends with .urdf",
)
yaml_file = _argument_type(
    Path,
    lambda text: Path(text).suffix.lower() in (".yaml", ".yml"),
    ": YAML is written; expected a file that ends with .yaml",
)


def _parse_moment(text: str) -> str:
    """Check a moment, for argparse."""
    from ..engine.model.moments import to_nanoseconds

    try:
        to_nanoseconds(text, 0)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error).removeprefix("time: ")) from None
    return text


def positive_number(text: str) -> float:
    """Convert a positive number, for argparse."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is not a positive number")
    return value


def locked_joint(text: str) -> tuple[str, float | None]:
    """Convert JOINT or JOINT=X, for argparse."""
    name, equals, number = text.rpartition("=")
    if not equals:
        return text, None
    try:
        return name, float(number)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r}: {number!r} is not a number") from None


def renamed_column(text: str) -> tuple[str, str]:
    """Convert SIGNAL=NAMES, for argparse."""
    signal, equals, names = text.partition("=")
    if not equals or not names:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not SIGNAL=NAMES, such as position=q_{{}}; "
            "write recordings before --columns"
        )
    return signal, names


def require_unique(option: str, pairs: Sequence[tuple[str, Result]]) -> dict[str, Result]:
    """Return values of an option by name; raise a `UsageError` if a name is repeated."""
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


def add_no_browser(command: argparse.ArgumentParser) -> None:
    """Add the option ``--no-browser`` to a command that serves a page."""
    command.add_argument(
        "--no-browser", action="store_true", help="print the address, but do not open the page"
    )


def add_recordings(command: argparse.ArgumentParser) -> None:
    """Add the recordings, and options about their topics, times and staleness."""
    command.add_argument(
        "recordings",
        nargs="+",
        metavar="RECORDING",
        help=f"file ({SUFFIX_LIST}), folder or pattern",
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
        type=_parse_moment,
        metavar="TIME",
        help="when to begin: seconds since 1970, a date such as 2025-03-01T12:00 "
        "(UTC unless it states its zone), or +S, seconds after the start of "
        "each recording",
    )
    command.add_argument("--until", type=_parse_moment, metavar="TIME", help="when to end")
    command.add_argument(
        "--staleness",
        type=positive_number,
        default=STALENESS,
        metavar="SECONDS",
        help=f"largest difference between stamps within one state (default: {STALENESS:g})",
    )
    add_max_chunk_size(command)


def add_max_chunk_size(command: argparse.ArgumentParser) -> None:
    """Add the option ``--max-chunk-size``."""
    command.add_argument(
        "--max-chunk-size",
        type=positive_number,
        default=MAX_CHUNK_SIZE,
        metavar="BYTES",
        help="skip chunks and messages that are larger when uncompressed; reading takes several "
        f"times as much memory (default: {MAX_CHUNK_SIZE:g})",
    )


def add_settings(
    command: argparse.ArgumentParser, *names: str, default: str = "{}", **defaults: str
) -> None:
    """Add options of settings, see ``settings_in_options``.

    In the help, ``default`` describes a default, with {} for its value, and ``defaults`` the
    defaults of other settings, by name.
    """
    for name in names:
        setting = settings_in(QuantitySettings)[name]
        clauses = [
            text[0].lower() + text[1:].rstrip(".") for text in (setting.label, setting.note) if text
        ]
        default_text = default.format(f"{setting.empty if setting.is_array else setting.default:g}")
        command.add_argument(
            f"--{name.replace('_', '-')}",
            type=float,
            nargs="+" if setting.is_array else None,
            metavar={"s": "SECONDS", "Hz": "HZ"}.get(setting.unit, "X"),
            help=f"{'; '.join(clauses)} (default: {defaults.get(name, default_text)})",
        )


def settings_in_options(options: argparse.Namespace) -> dict[str, Any]:
    """Return the settings that are given as options of ``add_settings``, by field name."""
    values = {name: getattr(options, name, None) for name in settings_in(QuantitySettings)}
    return {
        name: tuple(value) if isinstance(value, list) else value
        for name, value in values.items()
        if value is not None
    }


def add_workers(command: argparse.ArgumentParser, more: str) -> None:
    """Add the options about worker processes."""
    command.add_argument("--workers", type=count, metavar="N", help=f"number of processes{more}")
    command.add_argument(
        "--scheduler",
        metavar="ADDRESS",
        help="address of a Dask cluster that does the work, such as tcp://192.168.1.10:8786",
    )


def silence_distributed_log(options: argparse.Namespace) -> None:
    """Silence the log of distributed, so that a scheduler that ends is reported in one line."""
    if options.scheduler is not None and find_spec("distributed"):
        importlib.import_module("distributed")  # sets the levels
        for name in ("distributed", "distributed.client"):
            logging.getLogger(name).setLevel(logging.CRITICAL)


def parse_numbers(option: str, texts: Sequence[str], names: Sequence[str], values: Array) -> Array:
    """Parse numbers of an option: one for each name in order, or NAME=NUMBER for some names."""
    if not texts:
        return values
    if not any("=" in text for text in texts):
        if len(texts) != len(names):
            raise ValueError(
                f"--{option}: expected {len(names)} numbers, for {', '.join(names)}, "
                f"got {len(texts)}"
            )
        return np.array([_parse_number(option, text) for text in texts])
    values = values.copy()
    for text in texts:
        name, equals, number = text.rpartition("=")
        if not equals:
            raise ValueError(
                f"--{option}: {text!r} is not NAME=NUMBER; specify all values by name, "
                "or all in order"
            )
        if name not in names:
            raise ValueError(f"--{option}: there is no {name!r}; available: {', '.join(names)}")
        values[names.index(name)] = _parse_number(option, number)
    return values


def _parse_number(option: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"--{option}: {text!r} is not a number") from None
