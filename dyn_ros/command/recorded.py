# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Samples of recordings for a command: options about their signals and joints, and reading."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from ..engine.model import Model
from ..recordings.formats import is_table
from ..recordings.options import ReadOptions
from ..recordings.tables.columns import Columns
from . import arguments
from .arguments import UsageError, positive, reported

if TYPE_CHECKING:
    from ..identification import Samples


def add_options(command: argparse.ArgumentParser) -> None:
    """Add the options about what of recordings is read, and how it is prepared."""
    command.add_argument(
        "--cutoff",
        type=positive,
        metavar="HZ",
        help="cutoff of the filter of positions [Hz] (default: from their spectra "
        "and errors of the torques)",
    )
    command.add_argument(
        "--velocity",
        action=argparse.BooleanOptionalAction,
        help="use the measured velocities as well (default: no)",
    )
    add_columns(command)
    add_lock(
        command, "its mean", ". Joints that were not recorded or do not move are locked anyway"
    )


def add_velocity(command: argparse.ArgumentParser) -> None:
    """Add the option ``--velocity``; its value is None without."""
    command.add_argument(
        "--velocity",
        action=argparse.BooleanOptionalAction,
        help="use measured velocities; no: compute them from the positions "
        "(default: compute them for joints without measured velocities)",
    )


def add_columns(command: argparse.ArgumentParser) -> None:
    """Add the option ``--columns``."""
    command.add_argument(
        "--columns",
        type=arguments.column,
        nargs="+",
        default=[],
        metavar="SIGNAL=NAMES",
        help="columns of tables with other names, such as time=t position=q_{} "
        "effort=tau_J_{}, where {} is the name or number of a joint, or "
        "with numbers of columns, time=1 position=2-8 effort=9-15, or of "
        "one joint, position.elbow=q3",
    )


def add_lock(command: argparse.ArgumentParser, default: str, more: str = "") -> None:
    """Add the option ``--lock``."""
    command.add_argument(
        "--lock",
        type=arguments.lock,
        action="append",
        default=[],
        metavar="JOINT[=X]",
        help=f"lock a joint at a position [rad, m] (default: {default}); repeatable{more}",
    )


def read_options(
    options: argparse.Namespace, model: Model | None, paths: Sequence[Path]
) -> ReadOptions:
    """What of recordings is read; columns of tables with a model only."""
    return ReadOptions(
        topics=tuple(options.topic) or None,
        odometry=options.odometry,
        since=options.since,
        until=options.until,
        staleness=options.staleness,
        columns={} if model is None else given_columns(options, model, paths),
    )


def given_columns(
    options: argparse.Namespace, model: Model, paths: Sequence[Path]
) -> dict[Path, dict[str, str]]:
    """The columns of tables that ``--columns`` names, by what they would be called."""
    if not options.columns:
        return {}
    for path in paths:
        if not is_table(path):
            raise UsageError(f"--columns: only for tables, got {path}")
    return {path: _columns(options, model, path).given for path in paths}


def locked(options: argparse.Namespace, model: Model, paths: Sequence[Path]) -> Model:
    """The robot with the joints of ``--lock`` locked, and those without columns in tables."""
    lock = arguments.once("--lock", options.lock)
    if not all(map(is_table, paths)):
        return reduced(model, options.lock)
    from ..identification.locking import lock_unrecorded

    tables = []
    for path in paths:
        with suppress(UsageError):  # which whoever reads the table reports
            tables.append((path, _columns(options, model, path)))
    unknown = {name: x for name, x in lock.items() if x is None and name in model.joint_names}
    read = ReadOptions(since=options.since, until=options.until)
    with reported():
        arm = reduced(model, [pair for pair in lock.items() if pair[0] not in unknown])
        arm, lines = lock_unrecorded(arm, tables, unknown, read)
    for line in lines:
        print(f"warning: {line}", file=sys.stderr)
    return arm


def to_lock(
    options: argparse.Namespace, model: Model, paths: Sequence[Path]
) -> tuple[Model, dict[str, float | None]]:
    """The robot, and the joints to lock while tables are read; of bags, they are locked before."""
    if all(map(is_table, paths)):
        return model, arguments.once("--lock", options.lock)
    return reduced(model, options.lock), {}


def _columns(options: argparse.Namespace, model: Model, path: Path) -> Columns:
    """The columns of a table, some of which may have other names; errors name the file."""
    with reported(path, always=True):
        return Columns(path, model, arguments.once("--columns", options.columns) or None)


def read(
    options: argparse.Namespace, model: Model, paths: Sequence[Path], lock_still: bool = True
) -> tuple[Model, Samples]:
    """Read recordings: the robot without locked joints, and its samples.

    Joints that were not recorded are locked, those that do not move if ``lock_still``.
    """
    from ..identification.recorded_samples import read_recordings

    robot, lock = to_lock(options, model, paths)
    return read_recordings(
        robot,
        paths,
        read_options(options, model, paths),
        lock=lock,
        lock_still=lock_still,
        cutoff=options.cutoff,
        velocity=bool(options.velocity),
    )


def read_one(
    options: argparse.Namespace, model: Model, arm: Model, path: Path, cutoff: float
) -> Samples:
    """Read one recording as a whole; ``arm`` is the model without locked joints."""
    from ..identification.recorded_samples import read_samples

    wanted = replace(read_options(options, model, [path]), since=None, until=None)
    return read_samples(
        arm,
        path,
        wanted,
        wanted.columns.get(path),
        cutoff=cutoff,
        velocity=bool(options.velocity),
    )


def reduced(model: Model, lock: Sequence[tuple[str, float | None]]) -> Model:
    """The robot with joints locked."""
    positions = {}
    for name, position in arguments.once("--lock", lock).items():
        if position is None and name in model.joint_names:
            raise UsageError(
                f"--lock {name}: its position is required, unless tables have it, "
                f"such as --lock {name}=0"
            )
        positions[name] = position or 0.0  # of an unknown joint: an error below
    return model.reduced(positions) if positions else model
