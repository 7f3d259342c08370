# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The command ``dyn_ros identify``."""

from __future__ import annotations

import argparse
import dataclasses
import sys
from collections.abc import Callable, Sequence
from os.path import realpath
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ..drives.efforts import rescale_torques
from ..drives.file import drives_text
from ..engine.kernel.types import Array
from ..engine.model import Model
from ..engine.model.drives import MAX_MEASUREMENT
from ..engine.model.urdf.text import encoding_of
from ..engine.model.write import write_urdf
from ..files.writing import write_whole_files
from . import arguments, recording_arguments
from .arguments import ESTIMATE, Commands, UsageError, positive_number, report_errors
from .failures import UNUSABLE_EXIT_CODE

if TYPE_CHECKING:
    from ..identification import GainEstimate, GravityEstimate, Identification, JointResult, Samples

_KNOWN_LOAD_REMEDY = "pass --effort-constant estimate, with recordings of a known load"


def add_identify(commands: Commands) -> None:
    """Add the command ``identify``."""
    text = "Estimate a robot's inertias and friction from recordings of its torques."
    command = arguments.add_command(commands, "identify", _run_identify, text)
    arguments.add_robot(command)
    arguments.add_drives(command)
    arguments.add_recordings(command)
    command.add_argument(
        "-o",
        "--output",
        type=arguments.urdf_file,
        metavar="FILE.urdf",
        help="write the description with the identified parameters, and next to "
        "it FILE.drives.yaml with values that a URDF cannot express",
    )
    command.add_argument(
        "--report",
        type=arguments.page,
        metavar="FILE.html",
        help="write a page with plots of the result",
    )
    arguments.add_root_joint(command)
    arguments.add_gravity_or_estimate(command)
    command.add_argument(
        "--validate",
        nargs="+",
        default=[],
        type=Path,
        metavar="RECORDING",
        help="recordings that are not used; the errors on them are printed, and "
        "in the report. --since and --until do not apply to them",
    )
    command.add_argument(
        "--effort-constant",
        nargs="+",
        default=[],
        metavar="X",
        help="torque per unit of measured effort, such as N m per ampere, with "
        "its sign, in addition to the gain in --drives; one number, one for "
        "each joint in order, JOINT=X, or 'estimate' from recordings with a "
        "load (default: 1)",
    )
    command.add_argument(
        "--loaded",
        nargs="+",
        default=[],
        type=Path,
        metavar="RECORDING",
        help="with --effort-constant estimate, the same motions with a load",
    )
    command.add_argument(
        "--load",
        nargs="+",
        default=[],
        type=positive_number,
        metavar="KG",
        help="mass of the load, or one mass for each of these recordings",
    )
    command.add_argument(
        "--load-frame",
        metavar="FRAME",
        help="frame of the link that carries the load, close to the load",
    )
    recording_arguments.add_options(command)
    command.add_argument(
        "--no-shapes",
        action="store_true",
        help="do not keep the masses of links within their shapes",
    )
    command.add_argument(
        "--no-friction", action="store_true", help="do not estimate friction and offsets"
    )
    command.add_argument(
        "--no-armature", action="store_true", help="do not estimate rotor inertias"
    )
    command.add_argument(
        "--stribeck",
        type=positive_number,
        metavar="VELOCITY",
        help="also estimate friction that decreases up to this velocity [rad/s, m/s]",
    )
    command.add_argument(
        "--friction-terms",
        nargs="+",
        metavar="TERM",
        choices=("load_friction", "root_friction", "stribeck", "friction_distance", "none"),
        help="load_friction, root_friction, stribeck, friction_distance or none: "
        "further terms of friction that joints may have (default: all, where "
        "they lower the error of held-out torques)",
    )
    command.add_argument(
        "--regularization",
        type=positive_number,
        default=1.0,
        metavar="X",
        help="weight of the distance from the description (default: 1)",
    )
    command.add_argument(
        "--contact-dimension",
        type=int,
        choices=(3, 6),
        default=3,
        help="whether the frames of the columns in_contact.FRAME transmit a "
        "force (3), or also a moment (6) (default: 3)",
    )
    command.add_argument(
        "--threads",
        type=arguments.count,
        default=1,
        metavar="N",
        help="number of threads, if all samples fit in memory (default: 1)",
    )
    arguments.add_workers(
        command,
        "; with this or --scheduler, the recordings are processed in parts; otherwise "
        "only if they do not fit in memory (default: the cores)",
    )


def _run_identify(options: argparse.Namespace) -> int:
    """Run the command ``identify``; return its exit code."""
    from rich.progress import TimeElapsedColumn

    from . import tables

    model, gravity = arguments.read_model(options), None
    shown_faults: list[str] = []

    def show_fault(text: str) -> None:
        """Print a warning at once, since the estimation may take minutes."""
        tables.show_warnings([text], options)
        shown_faults.append(text)

    arguments.require_folders(options.output, options.report)
    _require_packages(options)
    with tables.progress_bar("reading", TimeElapsedColumn(), total=1.0) as show, report_errors():
        if options.gravity == ESTIMATE:
            # before the recordings are read again: torques of drives that subtract gravity need it
            gravity = _estimate_gravity(options, model)
            model.gravity = gravity.gravity
        result, gains = _identify_from_options(
            options,
            model,
            lambda fraction, label: show(completed=fraction, description=label),
            show_fault,
        )
        validation = _read_validation(options, model, result)
        validation_errors = () if validation is None else result.errors(validation)
    with report_errors():
        _write_results(options, model, result, validation_errors)
    if gravity is not None:
        tables.show_gravity(gravity)
    if gains is not None:
        tables.show_gains(result.model.velocity_names, gains)
        for name, upper in zip(result.model.velocity_names, gains.upper):
            if np.isinf(upper):
                print(
                    f"warning: {name}: the gain is not determined, because the effort does "
                    "not depend on the load; attach it farther out, or a heavier one, and "
                    "record more poses",
                    file=sys.stderr,
                )
    # above the tables, with those that are shown already
    tables.show_warnings([text for text in result.faults if text not in shown_faults], options)
    tables.show_identification(result, options, validation, validation_errors)
    return UNUSABLE_EXIT_CODE if result.faults else 0


def _require_packages(options: argparse.Namespace) -> None:
    """Raise a `UsageError` if a package for the recordings or the report is not installed."""
    from ..recordings.formats.sources import find_recordings, require_packages

    with report_errors():
        require_packages(
            find_recordings([*options.recordings, *options.loaded, *options.validate]),
            table_suffixes=(".parquet",),
        )
        if options.report:
            from ..identification import report

            report.require_packages()


def _identify_from_options(
    options: argparse.Namespace,
    model: Model,
    progress: Callable[[float, str], None],
    notify: Callable[[str], None],
) -> tuple[Identification, GainEstimate | None]:
    """Identify the robot; return the result, and the gains if they were estimated."""
    from ..identification.identify_options import IdentifyOptions
    from ..logs.identify_recordings import identify_recordings
    from ..recordings.formats.sources import find_recordings

    paths, terms = find_recordings(options.recordings), options.friction_terms
    in_parts = options.workers is not None or options.scheduler is not None
    estimates_gains = options.effort_constant == [ESTIMATE]
    for option, is_estimated in (
        ("--effort-constant", estimates_gains),
        ("--gravity", options.gravity == ESTIMATE),
    ):
        if in_parts and is_estimated:
            raise UsageError(f"{option} {ESTIMATE}: only without --workers and --scheduler")
    _require_load_options(options, estimates_gains)
    identify_options = IdentifyOptions(
        friction_terms=None if terms is None else [term for term in terms if term != "none"],
        armature=not options.no_armature,
        friction=not options.no_friction,
        stribeck=options.stribeck,
        regularization=options.regularization,
        contact_dimension=options.contact_dimension,
        threads=options.threads,
        shapes=_find_shapes(options, model, progress),
    )
    gains = None

    def make_options(locked_model: Model, samples: Samples | None) -> IdentifyOptions:
        """Return the options for the robot ``arm``; estimate gains from samples if requested."""
        nonlocal gains
        arguments.require_gains(options, locked_model, _KNOWN_LOAD_REMEDY)
        if not estimates_gains or samples is None:
            return dataclasses.replace(
                identify_options, motor_constants=_parse_constants(options, locked_model)
            )
        gains = _estimate_gains(options, model, locked_model, samples)
        constants = np.where(np.isfinite(gains.gain), gains.gain, 1.0)
        return dataclasses.replace(identify_options, motor_constants=constants)

    arguments.silence_distributed_log(options)
    robot, lock = (
        (recording_arguments.apply_lock_option(options, model, paths), {})
        if in_parts
        else recording_arguments.joints_to_lock(options, model, paths)
    )
    result = identify_recordings(
        robot,
        paths,
        make_options,
        recording_arguments.read_options(options, model, paths),
        lock=lock,
        cutoff=options.cutoff,
        velocity=bool(options.velocity),
        in_memory=estimates_gains,
        workers=options.workers,
        scheduler=options.scheduler,
        progress=progress,
        notify=notify,
    )
    return result, gains


def _require_load_options(options: argparse.Namespace, estimates_gains: bool) -> None:
    """Raise a `UsageError` unless the options of a load belong to an estimate of gains."""
    load_options = options.loaded, options.load, options.load_frame
    if any(load_options) and not estimates_gains:
        raise UsageError("--loaded, --load and --load-frame: only with --effort-constant estimate")
    if estimates_gains and not all(load_options):
        raise UsageError(
            "--effort-constant estimate: pass recordings with a load, its mass and "
            "its frame: --loaded FILE --load KG --load-frame FRAME"
        )


def _estimate_gravity(options: argparse.Namespace, model: Model) -> GravityEstimate:
    """Estimate gravity from the recordings."""
    from ..identification import estimate_gravity
    from ..recordings.formats.sources import find_recordings

    return estimate_gravity(
        *recording_arguments.read_recorded_samples(
            options, model, find_recordings(options.recordings)
        )
    )


def _estimate_gains(
    options: argparse.Namespace, model: Model, locked_model: Model, samples: Samples
) -> GainEstimate:
    """Estimate the gains of the drives from recordings with a load."""
    from ..identification import estimate_gains

    loaded = _read_further_samples(options, model, locked_model, options.loaded, samples.cutoff)
    return estimate_gains(locked_model, samples, loaded, options.load, options.load_frame)


def _read_further_samples(
    options: argparse.Namespace,
    model: Model,
    locked_model: Model,
    paths: Sequence[str],
    cutoff: float,
) -> list[Samples]:
    """Read all of recordings for validation or with a load, filtered like the training samples."""
    from ..recordings.formats.sources import find_recordings

    further_samples = []
    for path in find_recordings(paths):
        samples = recording_arguments.read_complete(options, model, locked_model, path, cutoff)
        for text in samples.warnings:
            arguments.print_warning(options, f"{path}: {text}")
        further_samples.append(samples)
    return further_samples


def _find_shapes(
    options: argparse.Namespace, model: Model, progress: Callable[[float, str], None]
) -> dict[str, Array] | None:
    """Return the shapes of the links whose meshes are found; None with ``--no-shapes``."""
    if options.no_shapes:
        return None
    from ..identification import link_shapes

    progress(0.0, "shapes")
    shapes = link_shapes(arguments.robot_text(options), arguments.mesh_folders(options))
    links = [link.name for link in model.tree.links]
    if unknown_links := [name for name in links if name not in shapes]:
        print(
            f"warning: the shapes of {len(unknown_links)} of {len(links)} links are unknown, "
            f"such as {unknown_links[0]}, so their masses may end outside; source the workspace "
            "with the meshes, or place its packages beside the URDF; `dyn_ros check` names them",
            file=sys.stderr,
        )
    return shapes


def _read_validation(
    options: argparse.Namespace, model: Model, result: Identification
) -> Samples | None:
    """Return the samples of the recordings of ``--validate``, with the cutoff of the result.

    Returns None without such recordings.
    """
    if not options.validate:
        return None
    from ..identification import Samples
    from ..identification.solution import effort_unit_warnings
    from ..recordings.formats.sources import find_recordings

    training_paths = {*map(realpath, find_recordings([*options.recordings, *options.loaded]))}
    for path in (
        path for path in find_recordings(options.validate) if realpath(path) in training_paths
    ):
        print(
            f"warning: --validate: {path} is among the recordings that are used; its errors do "
            "not show how well the model predicts others",
            file=sys.stderr,
        )
    samples = Samples.concatenate(
        _read_further_samples(options, model, result.model, options.validate, result.samples.cutoff)
    )
    constants = result.identified.drives.gain / result.model.drives.gain
    samples = dataclasses.replace(
        samples, tau=rescale_torques(result.model, samples.q, samples.tau, constants)
    )
    for text in effort_unit_warnings(result.model, samples):
        arguments.print_warning(options, f"--validate: {text}")
    return samples


def _parse_constants(options: argparse.Namespace, model: Model) -> Array | None:
    """Return the factors of efforts in ``--effort-constant``; None without this option."""
    words = options.effort_constant
    if not words:
        return None
    if len(words) == 1 and "=" not in words[0]:
        words = words * model.nv
    constants = arguments.parse_numbers(
        "effort-constant", words, model.velocity_names, np.ones(model.nv)
    )
    for name, constant in zip(model.velocity_names, constants):
        if not 0.0 < abs(constant) < MAX_MEASUREMENT:
            raise UsageError(
                f"--effort-constant: expected numbers other than 0, below "
                f"{MAX_MEASUREMENT:g}, got "
                f"{constant:g} for {name}; lock a joint without efforts (--lock)"
            )
    return constants


def _write_results(
    options: argparse.Namespace,
    model: Model,
    result: Identification,
    validation_errors: Sequence[JointResult],
) -> None:
    """Write the description, the drives and the report, as the options require."""
    if options.output:
        from ..identification.locking import copy_drives
        from ..identification.result import urdf_content

        description = arguments.robot_text(options)
        if options.robot.is_file() and description == options.source:
            content = urdf_content(options.robot, result.identified)
        else:  # a pipe, or xacro
            text = write_urdf(description, result.identified)
            content = text.encode(encoding_of(text.encode()))
        drives = options.output.with_suffix(".drives.yaml")
        properties = drives_text(copy_drives(model, result.identified))
        write_whole_files({options.output: content, drives: properties.encode()})
        print(f"wrote {options.output}, and {drives} with what a URDF cannot express")
    if options.report:
        from ..identification.report import write_report

        write_report(result, options.report, validation_errors)
        print(f"wrote {options.report}")
