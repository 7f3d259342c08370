# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The command ``dyn_ros calibrate``."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from ..logs.quantity_settings import CalibrationOptions, QuantitySettings
from . import arguments, recorded
from .arguments import Commands, positive, reported

if TYPE_CHECKING:
    from ..logs.calibration import Calibration

_LISTED = 10  # alarms


def add_calibrate(commands: Commands) -> None:
    """Add the command ``calibrate``."""
    text = (
        "Calibrate thresholds of external efforts from recordings in which nothing touches "
        "the robot."
    )
    command = arguments.add_command(commands, "calibrate", _calibrate, text)
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
    recorded.add_velocity(command)
    arguments.add_settings(command, "cutoff")
    recorded.add_columns(command)
    recorded.add_lock(
        command, "its mean, in tables", ". Joints without columns in tables are locked anyway"
    )
    command.add_argument(
        "--false-alarms",
        type=positive,
        default=CalibrationOptions.false_alarms,
        metavar="PER_HOUR",
        help=f"rate of false alarms to aim at (default: {CalibrationOptions.false_alarms:g})",
    )
    arguments.add_settings(
        command,
        *arguments.OBSERVER,
        gain="a tenth of the sampling rate, up to 100",
        smoothing="the gain",
    )


def _calibrate(options: argparse.Namespace) -> None:
    from rich.progress import TimeElapsedColumn

    from ..logs.calibration import calibrate, save
    from ..recordings.formats.sources import discover
    from . import tables

    model = arguments.read_model(options)
    arguments.require_folders(options.output)
    given = arguments.given_settings(options)
    gain, smoothing = given.pop("gain", None), given.pop("smoothing", None)
    with tables.progress("reading", TimeElapsedColumn()), reported():
        paths = discover(options.recordings)
        arm = recorded.locked(options, model, paths)
        arguments.require_gains(options, arm)
        found = calibrate(
            arm,
            paths,
            CalibrationOptions(
                QuantitySettings(velocity=options.velocity, **given),
                gain,
                smoothing,
                options.false_alarms,
            ),
            columns=recorded.given_columns(options, model, paths),
            topics=tuple(options.topic) or None,
            odometry=options.odometry,
            since=options.since,
            until=options.until,
            staleness=options.staleness,
        )
        save(found, model.name, options.output)
    print(f"wrote {options.output}")
    _show(found)


def _show(found: Calibration) -> None:
    from . import tables

    limits, settings = found.thresholds, found.settings
    tables.show_thresholds(found.velocity_names, limits)
    hours = found.seconds / 3600.0
    rate = (
        f"; wanted: {limits.false_alarms:g} per hour"
        if hours
        else ": the recordings are too short for a check"
    )
    print(
        f"False alarms in stretches that were held out in turn: {len(found.held_out)} in "
        f"{found.seconds:.0f} s{rate}. Gain {settings.gain:.4g}/s, smoothing "
        f"{settings.smoothing:.4g}/s, {limits.duration:.0f} s of recordings."
    )
    for what, alarms in (("held out", found.held_out), ("contained", found.contained)):
        for path, alarm in alarms[:_LISTED]:
            print(f"{what}: {path.name}, {alarm}, {alarm.ratio:.3g} times the threshold")
        if len(alarms) > _LISTED:
            print(f"{what}: {len(alarms) - _LISTED} more")
    for text in found.warnings:
        print(f"warning: {text}", file=sys.stderr)
    if found.contained:
        print(
            "warning: the recordings themselves contain alarms. If something touched the robot, "
            "leave these times out with --since and --until",
            file=sys.stderr,
        )
