# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Options of commands about the signals and joints of recordings, and reading of samples."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from ..engine.model import Model
from ..recordings.formats import is_table
from ..recordings.options import ReadOptions
from ..recordings.tables.columns import Columns, name_file_in_errors
from . import arguments
from .arguments import UsageError, positive_number, report_errors

if TYPE_CHECKING:
    from ..identification import Samples


def add_options(command: argparse.ArgumentParser) -> None:
    """Add the options about the filter, the columns and the joints of recordings."""
    command.add_argument(
        "--cutoff",
        type=positive_number,
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
    """Add the option ``--velocity``, whose default is None."""
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
        type=arguments.renamed_column,
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
        type=arguments.locked_joint,
        action="append",
        default=[],
        metavar="JOINT[=X]",
        help=f"lock a joint at a position [rad, m] (default: {default}); repeatable{more}",
    )


def read_options(
    options: argparse.Namespace, model: Model | None, paths: Sequence[Path]
) -> ReadOptions:
    """Return the options for reading recordings; columns of tables require a model."""
    return ReadOptions(
        topics=tuple(options.topic) or None,
        odometry=options.odometry,
        since=options.since,
        until=options.until,
        staleness=options.staleness,
        max_chunk_size=options.max_chunk_size,
        columns={} if model is None else renamed_columns(options, model, paths),
    )


def renamed_columns(
    options: argparse.Namespace, model: Model, paths: Sequence[Path]
) -> dict[Path, dict[str, str]]:
    """Return the columns in ``--columns`` for each table, by the names that they usually have."""
    if not options.columns:
        return {}
    for path in paths:
        if not is_table(path):
            raise UsageError(f"--columns: only for tables, got {path}")
    return {path: _open_table(options, model, path).renamed_columns for path in paths}


def apply_lock_option(options: argparse.Namespace, model: Model, paths: Sequence[Path]) -> Model:
    """Return the robot without the joints in ``--lock``, and without joints missing in tables."""
    lock = arguments.require_unique("--lock", options.lock)
    if not all(map(is_table, paths)):
        return lock_at_positions(model, options.lock)
    from ..identification.locking import lock_unrecorded

    tables = []
    for path in paths:
        with suppress(UsageError):  # reading the table later reports the error
            tables.append((path, _open_table(options, model, path)))
    unknown = {name: x for name, x in lock.items() if x is None and name in model.joint_names}
    times = ReadOptions(
        since=options.since, until=options.until, max_chunk_size=options.max_chunk_size
    )
    with report_errors():
        locked_model = lock_at_positions(
            model, [pair for pair in lock.items() if pair[0] not in unknown]
        )
        locked_model, messages = lock_unrecorded(locked_model, tables, unknown, times)
    for message in messages:
        arguments.print_warning(options, message)
    return locked_model


def joints_to_lock(
    options: argparse.Namespace, model: Model, paths: Sequence[Path]
) -> tuple[Model, dict[str, float | None]]:
    """Return the robot, and joints to lock while tables are read; for bags, they are removed."""
    if all(map(is_table, paths)):
        return model, arguments.require_unique("--lock", options.lock)
    return lock_at_positions(model, options.lock), {}


def _open_table(options: argparse.Namespace, model: Model, path: Path) -> Columns:
    """Return the columns of a table, considering ``--columns``; errors name the file."""
    with report_errors(path), name_file_in_errors(path):
        return Columns(
            path,
            model,
            arguments.require_unique("--columns", options.columns) or None,
            max_chunk_size=options.max_chunk_size,
        )


def read_recorded_samples(
    options: argparse.Namespace, model: Model, paths: Sequence[Path], lock_still: bool = True
) -> tuple[Model, Samples]:
    """Read recordings; return the robot without locked joints, and its samples.

    Joints that were not recorded are locked; joints that do not move are locked if ``lock_still``.
    """
    from ..identification.recorded_samples import read_recordings

    robot, lock = joints_to_lock(options, model, paths)
    return read_recordings(
        robot,
        paths,
        read_options(options, model, paths),
        lock=lock,
        lock_still=lock_still,
        cutoff=options.cutoff,
        velocity=bool(options.velocity),
    )


def read_complete(
    options: argparse.Namespace, model: Model, locked_model: Model, path: Path, cutoff: float
) -> Samples:
    """Read one recording completely; ``locked_model`` is the model without locked joints."""
    from ..identification.recorded_samples import read_samples

    complete_read_options = replace(read_options(options, model, [path]), since=None, until=None)
    return read_samples(
        locked_model,
        path,
        complete_read_options,
        complete_read_options.columns.get(path),
        cutoff=cutoff,
        velocity=bool(options.velocity),
    )


def lock_at_positions(model: Model, lock: Sequence[tuple[str, float | None]]) -> Model:
    """Return the robot with joints locked; raise a UsageError if a position is missing."""
    positions = {}
    for name, position in arguments.require_unique("--lock", lock).items():
        if position is None and name in model.joint_names:
            raise UsageError(
                f"--lock {name}: its position is required, unless tables have it, "
                f"such as --lock {name}=0"
            )
        positions[name] = position or 0.0  # ``Model.reduced`` reports an unknown joint
    with arguments.report_errors():
        return model.reduced(positions) if positions else model
