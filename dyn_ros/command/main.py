# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The ``dyn_ros`` command."""

import argparse
import io
import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from importlib.util import find_spec
from pathlib import Path

from .. import __version__
from ..check import Examination, examine_urdf
from ..engine import algorithms
from ..engine.machine_code.cache import cache_folder
from ..engine.model import Model
from ..engine.model.model import RootJoint
from ..engine.model.urdf import read_urdf
from . import arguments, ctrl_c
from .arguments import Commands, UsageError, folder, page, positive, read_robot, reported
from .calibrate import add_calibrate
from .export import add_export
from .identify import add_identify
from .log import add_log
from .payload import add_payload
from .view import add_view

_POOR = 1000.0  # condition number of a motion
_EXIT_CODES = (
    "exit codes: 0; 1: check has findings, or log found damaged recordings; 2: the "
    "input is invalid; 130: Ctrl-C"
)
_COMPLETION = """bash: add to ~/.bashrc:
  source <(dyn_ros completion bash)
zsh: write it to a folder of $fpath:
  dyn_ros completion zsh > ~/.zfunc/_dyn_ros
fish:
  dyn_ros completion fish > ~/.config/fish/completions/dyn_ros.fish"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the ``dyn_ros`` command; return its exit code, see ``_EXIT_CODES``.

    `argv` is without the program's name; by default, that of the process. The arguments that
    ``ros2 run`` and launch append after ``--ros-args`` are ignored.
    """
    own, xacro = arguments.split_arguments(_own_arguments(sys.argv[1:] if argv is None else argv))
    parser = _parser()
    options = parser.parse_args(own, argparse.Namespace(xacro=xacro))
    if xacro and not (getattr(options, "robot", None) or getattr(options, "file", None)):
        name, value = next(iter(xacro.items()))
        parser.error(f"{name}:={value} is an argument for a xacro file, but no robot is specified")
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    try:
        return _run(options)
    finally:
        if argv is None:
            with suppress(OSError):
                sys.stdout.flush()
            ctrl_c.end_at_once()  # while Python ends


def _run(options: argparse.Namespace) -> int:
    """Run the command; return its exit code."""
    try:
        ctrl_c.interrupt()
        return options.run(options) or 0
    except UsageError as error:
        print(f"dyn_ros {options.command}: {' '.join(str(error).split())}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return ctrl_c.CODE
    except BrokenPipeError:  # of another program, such as `head`, that reads no more
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1


def demo() -> int:
    """Run ``dyn_ros demo`` (``ros2 run dyn_ros demo``)."""
    return main(["demo", *sys.argv[1:]])


def precompile() -> int:
    """Run ``dyn_ros precompile`` (``ros2 run dyn_ros precompile``)."""
    return main(["precompile", *sys.argv[1:]])


def _own_arguments(argv: Sequence[str]) -> list[str]:
    """Remove ROS arguments: each ``--ros-args`` up to ``--`` or the end."""
    own: list[str] = []
    ros = False
    for argument in argv:
        if argument == "--ros-args":
            ros = True
        elif ros:
            ros = argument != "--"
        else:
            own.append(argument)
    return own


def _parser() -> argparse.ArgumentParser:
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
    text = "Move a robot and show its gravity torques, nonlinear effects and inertia live."
    command = arguments.add_command(commands, "demo", _demo, text)
    command.add_argument(
        "--robot",
        type=Path,
        metavar="FILE",
        help=f"another robot: {arguments.ROBOT} (default: arm7, part of this package)",
    )
    arguments.add_root_joint(command)
    command.add_argument(
        "--rate",
        type=positive,
        default=500.0,
        metavar="HZ",
        help="joint states per second (default: 500)",
    )
    command.add_argument(
        "--duration",
        type=positive,
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
    command.add_argument("--no-browser", action="store_true", help="show only the table, no page")


def _demo(options: argparse.Namespace) -> None:
    from ..demo.run import ARM, DemoError, run

    settings = (
        options.root_joint,
        options.rate,
        options.duration,
        options.snapshot,
        not options.no_browser,
        options.port,
    )
    robot = options.robot or ARM
    try:
        if robot.suffix != ".xacro" and robot != Path("-"):
            return run(robot, *settings)
        read_robot(options, read_urdf)
        with tempfile.TemporaryDirectory(prefix="dyn_ros-demo-") as folder:  # for its processes
            expanded = Path(folder, "robot.urdf")
            expanded.write_text(arguments.robot_text(options), encoding="utf-8")
            return run(expanded, *settings, mesh_folders=arguments.mesh_folders(options))
    except DemoError as error:
        raise UsageError(error) from error


def _add_info(commands: Commands) -> None:
    text = "Show a robot's joints, masses and limits, and warnings about its description."
    command = arguments.add_command(commands, "info", _info, text)
    arguments.add_robot(command)
    arguments.add_root_joint(command)
    arguments.add_formats(command)


def _info(options: argparse.Namespace) -> None:
    from . import tables

    tables.show_info(read_robot(options, Model.from_urdf), options.format)


def _add_torque(commands: Commands) -> None:
    text = "Show the torques of a robot in a state: gravity, nonlinear effects, inverse dynamics."
    command = arguments.add_command(commands, "torque", _torque, text)
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
    command.add_argument(
        "--gravity",
        nargs=3,
        type=float,
        default=(0.0, 0.0, -9.81),
        metavar=("X", "Y", "Z"),
        help="gravity in the world [m/s2] (default: 0 0 -9.81)",
    )


def _torque(options: argparse.Namespace) -> None:
    from . import tables

    model = read_robot(options, Model.from_urdf)
    with reported():
        model.gravity = options.gravity
        tables.show_torques(model, options.q, options.v, options.a, options.format)


def _add_check(commands: Commands) -> None:
    text = (
        "Check a description for masses, inertias, meshes and limits that are impossible or "
        "implausible."
    )
    command = arguments.add_command(commands, "check", _check, text)
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


def _check(options: argparse.Namespace) -> int:
    from rich.progress import MofNCompleteColumn

    from . import tables

    folders = [*options.mesh_path, *arguments.mesh_folders(options)]

    def read(xml: str, root_joint: RootJoint) -> Examination:
        with tables.progress("meshes", MofNCompleteColumn()) as show:
            return examine_urdf(
                xml,
                root_joint,
                folders,
                lambda done, total, name: show(completed=done, total=total, description=name),
            )

    examined = read_robot(options, read)
    if options.picture is not None:
        with reported(options.picture):
            from ..viewer.scene.inertia_picture import save_picture

            save_picture(examined, options.picture, Path(arguments.robot_name(options)).stem)
    return 1 if tables.show_findings(examined.findings, examined.unseen, options.format) else 0


def _add_excite(commands: Commands) -> None:
    text = "Compute a motion whose recording determines a robot's parameters well."
    command = commands.add_parser("excite", help=text, description=text)
    command.set_defaults(run=_excite, root_joint="fixed")
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
        type=positive,
        default=20.0,
        metavar="SECONDS",
        help="duration of the motion (default: 20)",
    )
    command.add_argument(
        "--period",
        type=positive,
        default=10.0,
        metavar="SECONDS",
        help="period after which the motion repeats (default: 10)",
    )
    command.add_argument(
        "--rate",
        type=positive,
        default=10.0,
        metavar="HZ",
        help="points per second of a JointTrajectory (default: 10)",
    )
    command.add_argument(
        "--margin",
        type=positive,
        default=0.9,
        metavar="FRACTION",
        help="fraction of the limits that is used (default: 0.9)",
    )
    command.add_argument(
        "--lock",
        type=arguments.lock,
        action="append",
        default=[],
        metavar="JOINT=X",
        help="lock a joint at a position [rad, m], such as a finger; the "
        "trajectory does not contain it; repeatable",
    )
    command.add_argument("--seed", type=int, default=0, help="seed of the search (default: 0)")


def _excite(options: argparse.Namespace) -> None:
    from rich.progress import MofNCompleteColumn

    from ..identification import excite
    from ..identification.excitation import trajectory_suffix
    from . import recorded, tables

    model = recorded.reduced(read_robot(options, Model.from_urdf), options.lock)
    with (
        tables.progress("searching", MofNCompleteColumn()) as show,
        reported(options.output),
        _one_thread(),
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
    if trajectory.condition > _POOR:
        print(
            f"warning: a condition number above {_POOR:g} means that some parameters will be "
            "determined poorly; use a longer --period, or wider limits",
            file=sys.stderr,
        )


def _one_thread() -> AbstractContextManager[object]:
    """The linear algebra of small matrices in one thread: others would only wait, and use cores."""
    if not find_spec("threadpoolctl"):
        return nullcontext()
    from threadpoolctl import threadpool_limits

    limits: AbstractContextManager[object] = threadpool_limits(1)
    return limits


def _add_precompile(commands: Commands) -> None:
    text = "Compile the algorithms in advance, so that nodes start quickly."
    command = arguments.add_command(commands, "precompile", _precompile, text)
    command.add_argument(
        "algorithms",
        nargs="*",
        metavar="ALGORITHM",
        help="functions to compile, for example rnea crba (default: all)",
    )


def _precompile(options: argparse.Namespace) -> None:
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    from ..logs.kernels import KERNELS

    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn()
    with Progress(*columns) as bar, reported():
        task = bar.add_task("checking the cache", total=None)
        compiled = algorithms.precompile(
            options.algorithms or None,
            more=() if options.algorithms else KERNELS,
            load=False,
            progress=lambda done, total, name: bar.update(
                task, completed=done, total=total, description=name or "done"
            ),
        )
    state = f"compiled: {len(compiled)}" if compiled else "everything is already compiled"
    print(f"{state}; cache: {cache_folder()}")


def _add_completion(commands: Commands, parser: argparse.ArgumentParser) -> None:
    text = "Print a script that completes the arguments of dyn_ros in a shell."
    command = commands.add_parser(
        "completion",
        help=text,
        description=text,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog=_COMPLETION,
    )
    command.set_defaults(run=lambda options: _completion(options, parser))
    command.add_argument("shell", choices=("bash", "zsh", "fish"))


def _completion(options: argparse.Namespace, parser: argparse.ArgumentParser) -> None:
    try:
        import shtab
    except ImportError as error:
        raise UsageError('completion requires shtab: pip install "dyn_ros[completion]"') from error
    completed = {"FILE": shtab.FILE, "RECORDING": shtab.FILE, "FOLDER": shtab.DIRECTORY}
    for action in _actions(parser):
        name = str(action.metavar or "").partition(".")[0]
        if name in completed:
            action.complete = completed[name]  # type: ignore[attr-defined]
    print(shtab.complete(parser, options.shell))


def _actions(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    """Yield the arguments of a command and of its commands."""
    for action in parser._actions:
        yield action
        if isinstance(action, argparse._SubParsersAction):
            for command in action.choices.values():
                yield from _actions(command)
