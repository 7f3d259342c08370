# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The command ``dyn_ros calibrate``."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from ..logs.quantity_settings import CalibrationOptions, QuantitySettings
from . import arguments, recording_arguments
from .arguments import Commands, positive_number, report_errors

if TYPE_CHECKING:
    from ..logs.calibration import Calibration

_MAX_LISTED_ALARMS = 10


def add_calibrate(commands: Commands) -> None:
    """Add the command ``calibrate``."""
    text = (
        "Calibrate thresholds of external efforts from recordings in which nothing touches "
        "the robot."
    )
    command = arguments.add_command(commands, "calibrate", _run_calibrate, text)
    arguments.add_robot(command)
    arguments.add_drives(command)
    arguments.add_recordings(command)
    command.add_argument(
        "-o",
        "--output",
        type=arguments.yaml_file,
        required=True,
        metavar="FILE.yaml",
        help="write parameters of observer_node, also for log --thresholds",
    )
    arguments.add_root_joint(command)
    arguments.add_gravity(command)
    recording_arguments.add_velocity(command)
    arguments.add_settings(command, "cutoff")
    recording_arguments.add_columns(command)
    recording_arguments.add_lock(
        command, "its mean, in tables", ". Joints without columns in tables are locked anyway"
    )
    command.add_argument(
        "--false-alarms",
        type=positive_number,
        default=CalibrationOptions.false_alarms,
        metavar="PER_HOUR",
        help=f"rate of false alarms to aim at (default: {CalibrationOptions.false_alarms:g})",
    )
    arguments.add_settings(
        command,
        *arguments.OBSERVER_SETTINGS,
        gain="a tenth of the sampling rate, up to 100",
        smoothing="the gain",
    )


def _run_calibrate(options: argparse.Namespace) -> None:
    """Run the command ``calibrate``."""
    from rich.progress import TimeElapsedColumn

    from ..logs.calibration import calibrate_recordings, save_calibration
    from ..recordings.formats.sources import find_recordings
    from . import tables

    model = arguments.read_model(options)
    arguments.require_folders(options.output)
    settings = arguments.settings_in_options(options)
    gain, smoothing = settings.pop("gain", None), settings.pop("smoothing", None)
    with tables.progress_bar("reading", TimeElapsedColumn()), report_errors():
        paths = find_recordings(options.recordings)
        locked_model = recording_arguments.apply_lock_option(options, model, paths)
        arguments.require_gains(options, locked_model)
        calibration = calibrate_recordings(
            locked_model,
            paths,
            CalibrationOptions(
                QuantitySettings(velocity=options.velocity, **settings),
                gain,
                smoothing,
                options.false_alarms,
            ),
            columns=recording_arguments.renamed_columns(options, model, paths),
            topics=tuple(options.topic) or None,
            odometry=options.odometry,
            since=options.since,
            until=options.until,
            staleness=options.staleness,
            max_chunk_size=options.max_chunk_size,
        )
        save_calibration(calibration, model.name, options.output)
    print(f"wrote {options.output}")
    _show_calibration(calibration, options)


def _show_calibration(calibration: Calibration, options: argparse.Namespace) -> None:
    """Print the thresholds, false alarms and warnings."""
    from . import tables

    thresholds, settings = calibration.thresholds, calibration.settings
    tables.show_thresholds(calibration.velocity_names, thresholds)
    hours = calibration.seconds / 3600.0
    rate = (
        f"; wanted: {thresholds.false_alarms:g} per hour"
        if hours
        else ": the recordings are too short for a check"
    )
    print(
        f"False alarms in stretches that were held out in turn: {len(calibration.held_out)} in "
        f"{calibration.seconds:.0f} s{rate}. Gain {settings.gain:.4g}/s, smoothing "
        f"{settings.smoothing:.4g}/s, {thresholds.duration:.0f} s of recordings."
    )
    for label, alarms in (("held out", calibration.held_out), ("contained", calibration.contained)):
        for path, alarm in alarms[:_MAX_LISTED_ALARMS]:
            print(f"{label}: {path.name}, {alarm}, {alarm.ratio:.3g} times the threshold")
        if len(alarms) > _MAX_LISTED_ALARMS:
            print(f"{label}: {len(alarms) - _MAX_LISTED_ALARMS} more")
    for text in calibration.warnings:
        arguments.print_warning(options, text)
    if calibration.contained:
        print(
            "warning: the recordings themselves contain alarms. If something touched the robot, "
            "leave these times out with --since and --until",
            file=sys.stderr,
        )
