# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The ``dyn_ros`` command."""

import argparse
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from .. import __version__
from ..check import Examination, examine_urdf
from ..engine.call import precompile as compilation
from ..engine.machine_code.cache import cache_folder
from ..engine.model import Model
from ..engine.model.model import RootJoint
from ..engine.model.urdf import read_urdf
from . import arguments, ctrl_c, failures
from .arguments import (
    Commands,
    UsageError,
    folder,
    page,
    positive_number,
    read_robot,
    report_errors,
)
from .calibrate import add_calibrate
from .export import add_export
from .failures import OutputError
from .identify import add_identify
from .log import add_log
from .payload import add_payload
from .standard_streams import replace_standard_streams
from .view import add_view

_MAX_CONDITION_NUMBER = 1000.0
_EXIT_CODES = (
    "exit codes: 0; 1: check has findings, or log found damaged recordings; 2: the input is "
    "invalid, or the output cannot be written; 3: warnings above the tables of identify or payload "
    "make them unusable; 130: Ctrl-C"
)
_COMPLETION_HELP = """bash: add to ~/.bashrc:
  source <(dyn_ros completion bash)
zsh: write it to a folder of $fpath:
  dyn_ros completion zsh > ~/.zfunc/_dyn_ros
fish:
  dyn_ros completion fish > ~/.config/fish/completions/dyn_ros.fish"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the ``dyn_ros`` command; return its exit code, see ``_EXIT_CODES``.

    ``argv`` are arguments without the program's name; by default, the arguments of the process.
    Arguments that ``ros2 run`` and launch append after ``--ros-args`` are ignored.
    """
    if argv is not None:
        return _run_arguments(argv)
    replace_standard_streams()
    exit_code: Any = failures.EXIT_CODE
    try:
        exit_code = _run_arguments(sys.argv[1:])
    except SystemExit as error:  # argparse and the handler of SIGTERM raise it
        exit_code = error.code
    except Exception as error:
        failures.report_error(error)
    try:
        sys.stdout.flush()
    except OutputError as error:
        failures.report_error(error)
        exit_code = failures.EXIT_CODE
    ctrl_c.exit_immediately_on_sigint()  # Python ends now
    return exit_code


def _run_arguments(argv: Sequence[str]) -> int:
    """Run the command with these arguments; return its exit code."""
    command_arguments, xacro_arguments = arguments.split_arguments(_remove_ros_arguments(argv))
    parser = _make_parser()
    options = parser.parse_args(command_arguments, argparse.Namespace(xacro=xacro_arguments))
    robots = [getattr(options, option, None) for option in ("robot", "file", "page")]
    if xacro_arguments and not any(robots):
        name, value = next(iter(xacro_arguments.items()))
        parser.error(f"{name}:={value} is an argument for a xacro file, but no robot is specified")
    try:
        ctrl_c.raise_on_sigint()
        arguments.find_robots(options)
        return options.run(options) or 0
    except UsageError as error:
        text = arguments.name_options(options, " ".join(str(error).split()))
        print(f"dyn_ros {options.command}: {text}", file=sys.stderr)
        return failures.EXIT_CODE
    except KeyboardInterrupt:
        return ctrl_c.INTERRUPTED_EXIT_CODE
    except (ImportError, MemoryError, OSError, OutputError) as error:
        failures.report_error(error, options.command)
        return failures.EXIT_CODE


def demo() -> int:
    """Run ``dyn_ros demo`` (``ros2 run dyn_ros demo``)."""
    return main(["demo", *sys.argv[1:]])


def precompile() -> int:
    """Run ``dyn_ros precompile`` (``ros2 run dyn_ros precompile``)."""
    return main(["precompile", *sys.argv[1:]])


def _remove_ros_arguments(argv: Sequence[str]) -> list[str]:
    """Remove ROS arguments: each ``--ros-args`` up to ``--`` or the end."""
    command_arguments: list[str] = []
    is_ros = False
    for argument in argv:
        if argument == "--ros-args":
            is_ros = True
        elif is_ros:
            is_ros = argument != "--"
        else:
            command_arguments.append(argument)
    return command_arguments


def _make_parser() -> argparse.ArgumentParser:
    """Return the parser of all commands."""
    parser = argparse.ArgumentParser(
        prog="dyn_ros", description="Rigid-body dynamics of robots.", epilog=_EXIT_CODES
    )
    parser.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    commands = parser.add_subparsers(dest="command", required=True)
    add_view(commands)
    _add_demo(commands)
    _add_info(commands)
    _add_torque(commands)
    _add_check(commands)
    add_identify(commands)
    add_payload(commands)
    _add_excite(commands)
    add_calibrate(commands)
    add_log(commands)
    add_export(commands)
    _add_precompile(commands)
    _add_completion(commands, parser)
    return parser


def _add_demo(commands: Commands) -> None:
    """Add the command ``demo``."""
    text = "Move a robot and show its gravity torques, nonlinear effects and inertia live."
    command = arguments.add_command(commands, "demo", _run_demo, text)
    command.add_argument(
        "--robot",
        type=Path,
        metavar="FILE",
        help=f"another robot: {arguments.ROBOT} (default: arm7, part of this package)",
    )
    arguments.add_root_joint(command)
    command.add_argument(
        "--rate",
        type=positive_number,
        default=500.0,
        metavar="HZ",
        help="joint states per second (default: 500)",
    )
    command.add_argument(
        "--duration",
        type=positive_number,
        metavar="SECONDS",
        help="stop after this time (default: run until Ctrl-C)",
    )
    command.add_argument(
        "--snapshot", type=Path, metavar="FILE.svg", help="save the last table as an image"
    )
    command.add_argument(
        "--port",
        type=arguments.port,
        default=8080,
        help="port of the page with the robot; if it is in use, the next free one (default: 8080)",
    )
    arguments.add_no_browser(command)
    command.add_argument("--no-page", action="store_true", help="show only the table, no page")


def _run_demo(options: argparse.Namespace) -> None:
    """Run the command ``demo``."""
    from ..demo.run import ARM, DemoError, run_demo

    settings = (
        options.root_joint,
        options.rate,
        options.duration,
        options.snapshot,
        not options.no_page,
        not options.no_browser,
        options.port,
    )
    robot = options.robot or ARM
    try:
        if robot.suffix != ".xacro" and robot != Path("-"):
            return run_demo(robot, *settings)
        read_robot(options, read_urdf)
        # the processes of the demo read a file
        with tempfile.TemporaryDirectory(prefix="dyn_ros-demo-") as temporary_folder:
            expanded = Path(temporary_folder, "robot.urdf")
            expanded.write_text(arguments.robot_text(options), encoding="utf-8")
            return run_demo(expanded, *settings, mesh_folders=arguments.mesh_folders(options))
    except DemoError as error:
        raise UsageError(error) from error


def _add_info(commands: Commands) -> None:
    """Add the command ``info``."""
    text = "Show a robot's joints, masses and limits, and warnings about its description."
    command = arguments.add_command(commands, "info", _run_info, text)
    arguments.add_robot(command)
    arguments.add_root_joint(command)
    arguments.add_formats(command)


def _run_info(options: argparse.Namespace) -> None:
    """Run the command ``info``."""
    from . import tables

    tables.show_info(read_robot(options, Model.from_urdf), options)


def _add_torque(commands: Commands) -> None:
    """Add the command ``torque``."""
    text = "Show the torques of a robot in a state: gravity, nonlinear effects, inverse dynamics."
    command = arguments.add_command(commands, "torque", _run_torque, text)
    arguments.add_robot(command)
    arguments.add_root_joint(command)
    arguments.add_formats(command)
    for name, what in (
        ("q", "positions [rad, m] (default: neutral)"),
        ("v", "velocities [rad/s, m/s] (default: 0)"),
        ("a", "accelerations [rad/s2, m/s2] (default: 0)"),
    ):
        command.add_argument(
            f"--{name}",
            nargs="+",
            metavar="X",
            default=[],
            help=f"{what}: all values in order, or NAME=X for some",
        )
    arguments.add_gravity(command)


def _run_torque(options: argparse.Namespace) -> None:
    """Run the command ``torque``."""
    from . import tables

    model = read_robot(options, Model.from_urdf)
    arguments.set_gravity(options, model)
    with report_errors():
        tables.show_torques(model, options.q, options.v, options.a, options.format)


def _add_check(commands: Commands) -> None:
    """Add the command ``check``."""
    text = (
        "Check a description for masses, inertias, meshes and limits that are impossible or "
        "implausible."
    )
    command = arguments.add_command(commands, "check", _run_check, text)
    arguments.add_robot(command)
    arguments.add_root_joint(command)
    command.add_argument(
        "--mesh-path",
        type=folder,
        action="append",
        default=[],
        metavar="FOLDER",
        help="folder with packages that contain meshes, in addition to sourced "
        "workspaces and to the folders above the robot's file; repeatable",
    )
    arguments.add_formats(command)
    command.add_argument(
        "--picture",
        type=page,
        metavar="FILE.html",
        help="save a picture of the links' shapes and inertias, those with findings in red",
    )


def _run_check(options: argparse.Namespace) -> int:
    """Run the command ``check``; return 1 if there are findings."""
    from rich.progress import MofNCompleteColumn

    from . import tables

    arguments.require_folders(options.picture)
    if options.picture is not None:
        with report_errors():
            from ..viewer.scene.inertia_picture import import_plotly

            import_plotly()
    folders = [*options.mesh_path, *arguments.mesh_folders(options)]

    def read(xml: str, root_joint: RootJoint) -> Examination:
        with tables.progress_bar("meshes", MofNCompleteColumn()) as show:
            return examine_urdf(
                xml,
                root_joint,
                folders,
                lambda done, total, name: show(completed=done, total=total, description=name),
            )

    examination = read_robot(options, read)
    if options.picture is not None:
        with report_errors(options.picture):
            from ..viewer.scene.inertia_picture import save_picture

            save_picture(examination, options.picture, Path(arguments.robot_name(options)).stem)
    return 1 if tables.show_findings(examination.findings, examination.unseen, options) else 0


def _add_excite(commands: Commands) -> None:
    """Add the command ``excite``."""
    text = "Compute a motion whose recording determines a robot's parameters well."
    command = commands.add_parser("excite", help=text, description=text)
    command.set_defaults(run=_run_excite, root_joint="fixed")
    arguments.add_robot(command)
    command.add_argument(
        "-o",
        "--output",
        type=Path,
        required=True,
        metavar="FILE",
        help="trajectory to write: .yaml or .json, a trajectory_msgs/JointTrajectory; or .csv",
    )
    command.add_argument(
        "--duration",
        type=positive_number,
        default=20.0,
        metavar="SECONDS",
        help="duration of the motion (default: 20)",
    )
    command.add_argument(
        "--period",
        type=positive_number,
        default=10.0,
        metavar="SECONDS",
        help="period after which the motion repeats (default: 10)",
    )
    command.add_argument(
        "--rate",
        type=positive_number,
        default=10.0,
        metavar="HZ",
        help="points per second of a JointTrajectory (default: 10)",
    )
    command.add_argument(
        "--margin",
        type=positive_number,
        default=0.9,
        metavar="FRACTION",
        help="fraction of the limits that is used (default: 0.9)",
    )
    command.add_argument(
        "--lock",
        type=arguments.locked_joint,
        action="append",
        default=[],
        metavar="JOINT=X",
        help="lock a joint at a position [rad, m], such as a finger; the "
        "trajectory does not contain it; repeatable",
    )
    command.add_argument("--seed", type=int, default=0, help="seed of the search (default: 0)")


def _run_excite(options: argparse.Namespace) -> None:
    """Run the command ``excite``."""
    from rich.progress import TextColumn

    from ..identification import excite
    from ..identification.excitation import trajectory_suffix
    from . import recording_arguments, tables

    model = recording_arguments.lock_at_positions(
        read_robot(options, Model.from_urdf), options.lock
    )
    arguments.require_folders(options.output)
    with (
        tables.progress_bar("searching", TextColumn("{task.percentage:>3.0f} %")) as show,
        report_errors(options.output),
        _use_one_thread(),
    ):
        trajectory_suffix(options.output)
        trajectory = excite(
            model,
            duration=options.duration,
            period=options.period,
            margin=options.margin,
            seed=options.seed,
            progress=lambda done, total: show(completed=done, total=total),
        )
        trajectory.write(options.output, options.rate)
    print(
        f"wrote {options.output}: {trajectory.time[-1]:g} s, condition number "
        f"{trajectory.condition:.3g}. Look at the motion before you run it, because "
        "collisions are not checked."
    )
    if trajectory.condition > _MAX_CONDITION_NUMBER:
        print(
            f"warning: a condition number above {_MAX_CONDITION_NUMBER:g} means that some "
            "parameters will be determined poorly; use a longer --period, or wider limits",
            file=sys.stderr,
        )


def _use_one_thread() -> AbstractContextManager[object]:
    """Use one thread for linear algebra in a block, since more do not speed up small matrices."""
    if not find_spec("threadpoolctl"):
        return nullcontext()
    from threadpoolctl import threadpool_limits

    limits: AbstractContextManager[object] = threadpool_limits(1)
    return limits


def _add_precompile(commands: Commands) -> None:
    """Add the command ``precompile``."""
    text = "Compile the algorithms in advance, so that nodes start quickly."
    command = arguments.add_command(commands, "precompile", _run_precompile, text)
    command.add_argument(
        "algorithms",
        nargs="*",
        metavar="ALGORITHM",
        help="functions to compile, for example rnea crba (default: all)",
    )


def _run_precompile(options: argparse.Namespace) -> None:
    """Run the command ``precompile``."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    from ..logs.kernels import KERNELS

    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn()
    with Progress(*columns) as bar, report_errors():
        task = bar.add_task("checking the cache", total=None)
        compiled = compilation.precompile(
            options.algorithms or None,
            more=() if options.algorithms else KERNELS,
            load=False,
            progress=lambda done, total, name: bar.update(
                task, completed=done, total=total, description=name or "done"
            ),
        )
    outcome = f"compiled: {len(compiled)}" if compiled else "everything is already compiled"
    print(f"{outcome}; cache: {cache_folder()}")


def _add_completion(commands: Commands, parser: argparse.ArgumentParser) -> None:
    """Add the command ``completion``."""
    text = "Print a script that completes the arguments of dyn_ros in a shell."
    command = commands.add_parser(
        "completion",
        help=text,
        description=text,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog=_COMPLETION_HELP,
    )
    command.set_defaults(run=lambda options: _run_completion(options, parser))
    command.add_argument("shell", choices=("bash", "zsh", "fish"))


def _run_completion(options: argparse.Namespace, parser: argparse.ArgumentParser) -> None:
    """Run the command ``completion``."""
    try:
        import shtab
    except ImportError as error:
        raise UsageError('completion requires shtab: pip install "dyn_ros[completion]"') from error
    completion_of_metavar = {"FILE": shtab.FILE, "RECORDING": shtab.FILE, "FOLDER": shtab.DIRECTORY}
    for action in _all_actions(parser):
        name = str(action.metavar or "").partition(".")[0]
        if name in completion_of_metavar:
            action.complete = completion_of_metavar[name]  # type: ignore[attr-defined]
    print(shtab.complete(parser, options.shell))


def _all_actions(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    """Yield the arguments of a parser and of its commands."""
    for action in parser._actions:
        yield action
        if isinstance(action, argparse._SubParsersAction):
            for command in action.choices.values():
                yield from _all_actions(command)
