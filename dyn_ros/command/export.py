# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The command ``dyn_ros export``: libraries for C, C++ and JavaScript, and their model files."""

import argparse
import contextlib
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from ..engine.model import Model
from . import arguments
from .arguments import Commands, UsageError, read_robot, report_errors, robot_text


def add_export(commands: Commands) -> None:
    """Add the command ``export``."""
    text = "Write a library for C and C++ or JavaScript, a robot's file for it, or a web page."
    command = arguments.add_command(commands, "export", _run_export, text)
    command.add_argument(
        "-o",
        "--out",
        type=Path,
        metavar="PATH",
        help="folder of the library; with --model, the file to write (default: "
        "the robot's path, with the suffix .dynros)",
    )
    command.add_argument(
        "--functions",
        nargs="+",
        metavar="FUNCTION",
        help="functions of the library, for example rnea crba (default: all; "
        "with --robot aba, crba, generalized_gravity, nonlinear_effects, "
        "rnea). With --robot, options are constants: "
        "frame_jacobian:frame=tool,reference_frame=LOCAL",
    )
    command.add_argument(
        "--target",
        nargs="+",
        metavar="TARGET",
        help="x86-64-v2, x86-64-v3, x86-64-v4 or aarch64; of several for x86-64, "
        "the loader chooses one (default: this processor). wasm32: a WebAssembly module for "
        "browsers and Node.js, without --robot; wasm32-without-simd: for browsers of before 2023",
    )
    command.add_argument(
        "--model",
        dest="file",
        type=Path,
        metavar="FILE",
        help=f"write the model file of a robot: {arguments.ROBOT}",
    )
    command.add_argument(
        "--robot",
        type=Path,
        metavar="FILE",
        help="write functions for this robot alone, which are faster",
    )
    command.add_argument(
        "--page",
        nargs="*",
        type=Path,
        metavar="FILE",
        help="write a web page that shows the dynamics of robots, with their meshes (default: four "
        f"simple robots): {arguments.ROBOT}",
    )
    command.add_argument(
        "--name",
        help="with --robot, what the library and its functions are "
        "called (default: the robot's name)",
    )
    command.add_argument(
        "--fixed",
        action="store_true",
        help="with --robot, gravity and inertias are constants, not arguments",
    )
    command.add_argument(
        "--inputs",
        nargs="+",
        metavar="INPUT",
        default=[],
        help="optional inputs of the functions with --robot, for example f_ext",
    )
    command.add_argument(
        "--python",
        action="store_true",
        help="with --robot, a library that Python (load_native) and nodes "
        "(native_library) can use, too",
    )
    arguments.add_root_joint(command)
    command.add_argument(
        "--mimic",
        choices=["project", "ignore"],
        default="project",
        help="whether mimic joints follow their master or are independent (default: project)",
    )
    arguments.add_gravity(command)
    command.add_argument(
        "--strict", action="store_true", help="treat warnings about the robot as errors"
    )


_ROBOT_OPTIONS: dict[str, object] = {"name": None, "fixed": False, "inputs": [], "python": False}
_LIBRARY_OPTIONS = {"functions": None, "target": None}
_MODEL_OPTIONS = {"root_joint": "fixed", "mimic": "project", "gravity": None, "strict": False}
_MAX_OMITTED = 10  # meshes and images of a page that are named


def _run_export(options: argparse.Namespace) -> None:
    """Run the command ``export``."""
    if options.robot is None:
        _reject_options(options, _ROBOT_OPTIONS, "--robot")
        if any(":" in name for name in options.functions or ()):
            raise UsageError(
                "--functions: options such as :frame=tool require --robot; functions "
                "for all robots take them as arguments"
            )
    if options.page is not None:
        _write_page(options)
    elif options.file is not None:
        _write_model(options)
    elif options.out is None:
        raise UsageError("specify --out FOLDER for the library, or --model FILE for a robot")
    elif any(name.startswith("wasm32") for name in options.target or ()):
        _write_web_module(options)
    else:
        _write_library(options)


def _write_model(options: argparse.Namespace) -> None:
    """Write the model file of a robot."""
    from ..export.model_file import write_model

    if options.robot is not None:
        raise UsageError(
            "--model and --robot exclude each other; a library for one robot needs no model file"
        )
    _reject_options(options, _LIBRARY_OPTIONS, "--out FOLDER without --model")
    options.robot = options.file
    if options.out is None and str(options.robot) == "-":
        raise UsageError("specify --out FILE, because the robot is read from standard input")
    model = _read_model(options)
    out = options.out or options.robot.with_suffix(".dynros")
    with report_errors(out):
        write_model(model, out)
    print(f"wrote {out}: {model.name}, {model.njoints} joints, {out.stat().st_size} bytes")


def _reject_options(
    options: argparse.Namespace, defaults: Mapping[str, object], required: str
) -> None:
    """Raise a UsageError for an option that would have no effect."""
    for name, default in defaults.items():
        if getattr(options, name) != default:
            raise UsageError(f"--{name.replace('_', '-')} needs {required}")


def _read_model(options: argparse.Namespace) -> Model:
    """Read the robot's description with the gravity and mimic joints of the options."""
    model = read_robot(
        options,
        lambda text, root_joint: Model.from_urdf(
            text, root_joint, mimic=options.mimic, strict=options.strict
        ),
    )
    arguments.set_gravity(options, model)
    return model


def _write_page(options: argparse.Namespace) -> None:
    """Write a web page with robots."""
    if options.file is not None or options.robot is not None:
        raise UsageError("--page, --model and --robot exclude each other")
    _reject_options(options, _LIBRARY_OPTIONS, "--out FOLDER without --page")
    _reject_options(options, _MODEL_OPTIONS, "--model or --robot")
    if options.out is None:
        raise UsageError("specify --out FOLDER for the page")
    texts = {}
    for path in options.page:
        robot = argparse.Namespace(robot=path, xacro=options.xacro)
        arguments.find_robots(robot)
        texts[robot.robot] = robot_text(robot)
    with _show_progress(options.out) as progress:
        from ..export.web.page import export_page

        if texts:
            report = export_page(options.out, list(texts), progress, texts.__getitem__)
        else:
            report = export_page(options.out, progress=progress)
    for line in report.omitted[:_MAX_OMITTED]:
        arguments.print_warning(options, line)
    if len(report.omitted) > _MAX_OMITTED:
        print(f"and {len(report.omitted) - _MAX_OMITTED} more", file=sys.stderr)
    meshes = f" with {report.mesh_count} meshes" if texts else ""
    print(f"wrote {options.out}{meshes}: open {options.out / 'index.html'} in a browser")


def _write_web_module(options: argparse.Namespace) -> None:
    """Write a WebAssembly module and its functions for JavaScript."""
    if options.robot is not None:
        raise UsageError("--robot cannot be combined with --target wasm32")
    if len(options.target) > 1:
        raise UsageError("--target: export wasm32 alone, to a folder of its own")
    with _show_progress(options.out) as progress:
        from ..export.web.module import export_web_module

        export_web_module(options.out, options.functions, options.target[0], progress)
    print(f"wrote {options.out}: {', '.join(sorted(path.name for path in options.out.iterdir()))}")


def _write_library(options: argparse.Namespace) -> None:
    """Write a library, of functions for all robots or for one."""
    model = None if options.robot is None else _read_model(options)
    with _show_progress(options.out) as progress:
        from ..export.c_library import export_library
        from ..export.robot_c_library import export_robot_library

        if model is None:
            export_library(options.out, options.functions, options.target, progress)
        else:
            export_robot_library(
                options.out,
                model,
                options.name,
                options.functions,
                options.target,
                not options.fixed,
                options.inputs,
                options.python,
                progress,
            )
    headers = ", ".join(sorted(path.name for path in (options.out / "include").iterdir()))
    print(f"wrote {options.out}: include ({headers}) and lib")


@contextlib.contextmanager
def _show_progress(out: Path) -> Iterator[Callable[[int, int, str], None]]:
    """Report errors about a path, and show the progress of compilations on a terminal."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn()
    with (
        report_errors(out),
        Progress(*columns, transient=True, disable=not sys.stdout.isatty()) as bar,
    ):
        task = bar.add_task("compiling", total=None)

        def progress(done: int, total: int, name: str) -> None:
            bar.update(task, completed=done, total=total, description=name)

        yield progress
