# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Samples of recordings for a command: options about their signals and joints, and reading."""

from __future__ import annotations

import argparse
import dataclasses
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..engine.model import Model
from ..recordings.formats import is_table
from . import arguments
from .arguments import UsageError, positive, reported

if TYPE_CHECKING:
    from ..identification import Samples
    from ..recordings.tables.columns import Columns


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
    from ..identification.locking import lock_in_tables

    tables = []
    for path in paths:
        with suppress(UsageError):  # which whoever reads the table reports
            tables.append((path, _columns(options, model, path)))
    unknown = {name: x for name, x in lock.items() if x is None and name in model.joint_names}
    with reported():
        arm = reduced(model, [pair for pair in lock.items() if pair[0] not in unknown])
        arm, lines = lock_in_tables(arm, tables, unknown, options.since, options.until)
    for line in lines:
        print(f"warning: {line}", file=sys.stderr)
    return arm


def _columns(options: argparse.Namespace, model: Model, path: Path) -> Columns:
    """The columns of a table, some of which may have other names; errors name the file."""
    from ..recordings.tables.columns import Columns

    with reported(path, always=True):
        return Columns(path, model, arguments.once("--columns", options.columns) or None)


def read(
    options: argparse.Namespace, model: Model, paths: Sequence[Path], lock_still: bool = True
) -> tuple[Model, Samples]:
    """Read recordings: the robot without locked joints, and its samples.

    Joints that were not recorded are locked, those that do not move if ``lock_still``.
    """
    from ..identification import lock_joints, read_tables

    lock, columns = (
        arguments.once("--lock", options.lock),
        arguments.once("--columns", options.columns),
    )
    prepared: dict[str, Any] = dict(cutoff=options.cutoff, since=options.since, until=options.until)
    if all(map(is_table, paths)):
        return read_tables(
            model,
            paths,
            lock=lock,
            lock_still=lock_still,
            velocity=bool(options.velocity),
            columns=columns or None,
            **prepared,
        )
    if options.columns:
        raise UsageError("--columns: only for tables")
    from ..identification.locking import concatenated
    from ..logs.identification import recorded_robot

    arm, warnings = recorded_robot(reduced(model, options.lock), paths, options.topic or None)
    samples = concatenated(
        [read_one(options, model, arm, path, **prepared) for path in paths], paths
    )
    samples = dataclasses.replace(samples, warnings=(*warnings, *samples.warnings))
    return lock_joints(arm, samples) if lock_still else (arm, samples)


def read_one(
    options: argparse.Namespace,
    model: Model,
    arm: Model,
    path: Path,
    *,
    cutoff: float | None = None,
    since: str | None = None,
    until: str | None = None,
) -> Samples:
    """Read one recording; ``arm`` is the model without locked joints. Errors name the file."""
    from ..identification import Samples

    with reported(path, always=True):
        if is_table(path):
            columns = _columns(options, model, path).given if options.columns else None
            return Samples.from_table(
                arm,
                path,
                columns=columns,
                cutoff=cutoff,
                since=since,
                until=until,
                velocity=bool(options.velocity),
            )
        from ..logs import read

        recording = read(
            path,
            arm,
            topics=options.topic or None,
            odometry=options.odometry,
            staleness=options.staleness,
            since=since,
            until=until,
        )
        return recording.to_samples(cutoff=cutoff, velocity=bool(options.velocity))


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
