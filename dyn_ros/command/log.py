# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The command ``dyn_ros log``: quantities of recordings, written to files."""

from __future__ import annotations

import argparse
import hashlib
import os
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from ..files.reading import read_regular_file
from ..files.yaml_text import MAX_SIZE
from ..logs.write.quantity_table import QUANTITIES, REQUIREMENTS, order_quantities
from . import arguments, recording_arguments
from .arguments import Commands, UsageError, positive_number, print_warning, report_errors

if TYPE_CHECKING:
    from ..logs.log import Log
    from ..logs.quantities import QuantitySettings

_MAX_LISTED_RECORDINGS = 50


def add_log(commands: Commands) -> None:
    """Add the command ``log``."""
    text = "Compute torques, external efforts and more from recordings."
    command = arguments.add_command(commands, "log", _run_log, text)
    arguments.add_recordings(command)
    command.add_argument(
        "--robot",
        type=Path,
        metavar="FILE",
        help=f"{arguments.ROBOT} (default: the one in each recording)",
    )
    arguments.add_drives(command)
    arguments.add_root_joint(command)
    arguments.add_gravity(command)
    recording_arguments.add_velocity(command)
    recording_arguments.add_columns(command)
    recording_arguments.add_lock(
        command, "its mean, in tables", ". Joints without columns in tables are locked anyway"
    )
    command.add_argument(
        "--compute",
        nargs="+",
        action="extend",
        metavar="QUANTITY",
        choices=QUANTITIES,
        default=[],
        help=f"any of {', '.join(QUANTITIES)} (default: state)",
    )
    command.add_argument(
        "--out",
        type=Path,
        metavar="FOLDER",
        help="write the results to this folder; if it contains some, the command continues",
    )
    command.add_argument(
        "--format",
        choices=("parquet", "mcap"),
        default="parquet",
        help="parquet: tables, in a folder for each recording; mcap: bags with "
        "the messages of the nodes (default: parquet)",
    )
    command.add_argument(
        "--overwrite", action="store_true", help="replace results of other options"
    )
    command.add_argument(
        "--plot", type=_plot_file, metavar="FILE", help="save a plot of the results, .png or .html"
    )
    command.add_argument(
        "--joints",
        nargs="+",
        default=[],
        metavar="JOINT",
        help="write the columns of these joints only",
    )
    command.add_argument(
        "--rate",
        type=positive_number,
        metavar="HZ",
        help="write at most this number of states per second",
    )
    arguments.add_workers(command, " (default: one for each core)")
    arguments.add_settings(command, "cutoff")
    command.add_argument(
        "--thresholds",
        type=Path,
        metavar="FILE.yaml",
        help="thresholds and settings of the observer for contacts, which "
        "`dyn_ros calibrate` writes",
    )
    arguments.add_settings(
        command, *arguments.OBSERVER_SETTINGS, default="the value in --thresholds, or {}"
    )


def _run_log(options: argparse.Namespace) -> int:
    """Run the command ``log``; return its exit code."""
    if options.scheduler is not None and options.out is None:
        raise UsageError("--scheduler: pass --out too, a folder that all workers can write to")
    if options.out is not None and os.path.lexists(options.out) and not options.out.is_dir():
        kind = "a file" if os.path.exists(options.out) else "a link to a folder that is missing"
        raise UsageError(f"--out: {options.out} is {kind}; choose the name of a folder")
    if options.plot is not None and options.format != "parquet":
        raise UsageError("--plot: results in MCAP cannot be plotted; use --format parquet")
    if options.plot is not None and set(options.compute) == {"contacts"}:
        raise UsageError("--plot: contacts are a table; add external to --compute for the curves")
    with _exit_on_sigterm():
        if options.out is not None:
            return _log_into_folder(options, options.out)
        with tempfile.TemporaryDirectory(prefix="dyn_ros-log-") as folder:
            return _log_into_folder(options, Path(folder))


@contextmanager
def _exit_on_sigterm() -> Iterator[None]:
    """Exit on SIGTERM as on Ctrl-C, so that temporary files and processes are removed."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def exit_on_signal(number: int, frame: FrameType | None) -> None:
        sys.exit(128 + number)

    previous_handler = signal.signal(signal.SIGTERM, exit_on_signal)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, previous_handler)


def _log_into_folder(options: argparse.Namespace, out: Path) -> int:
    """Compute, plot and summarize results in a folder; return the exit code."""
    with report_errors():
        log = _prepare_log(options, out)
    if not _compute_log(options, log):
        return 130
    if options.plot is not None:
        _save_plot(options, log)
    _show_results(log, options)
    return 1 if log.damaged_recordings else 0


def _prepare_log(options: argparse.Namespace, out: Path) -> Log:
    """Check options and recordings as far as possible before the work begins; return the log."""
    from ..logs.log import EFFORT_QUANTITIES, Log, PartWriter, describe_options
    from ..logs.quantities import contact_thresholds, require_thresholds, required_overlap
    from ..logs.write import plot
    from ..recordings.formats.sources import find_recordings, require_packages

    settings = _read_settings(options)
    requested = options.compute or ["state"]
    if options.format == "mcap":  # bags contain the joint states too
        requested = ["state", *requested]
    quantities = order_quantities(requested)
    for option in ("drives", "columns", "lock", "gravity"):
        if getattr(options, option) and options.robot is None:
            raise UsageError(f"--{option}: pass --robot too, the description of the robot")
    if "contacts" in quantities:
        require_thresholds(settings)
    paths = find_recordings(options.recordings)
    require_packages(paths)
    PartWriter.require_packages(options.format)
    if options.plot is not None:
        plot.require_packages(options.plot)
    model = whole_model = None if options.robot is None else arguments.read_model(options)
    if whole_model is not None:
        model = recording_arguments.apply_lock_option(options, whole_model, paths)
        if EFFORT_QUANTITIES & set(quantities):
            arguments.require_gains(options, model)
    if model is not None and "contacts" in quantities:
        contact_thresholds(model, settings)
    writer = PartWriter(quantities, settings, options.format, options.rate)
    request = replace(
        recording_arguments.read_options(options, whole_model, paths),
        robot=model,
        root_joint=None if options.root_joint == "fixed" else options.root_joint,
        overlap=required_overlap(quantities, settings, model),
    )
    robot = None
    if model is not None:
        content = (
            f"{arguments.robot_text(options)}{options.lock}{options.columns}{model.joint_names}"
            f"{options.gravity or ''}"
        ).encode()
        if options.drives is not None:
            content += read_regular_file(options.drives, MAX_SIZE)
        robot = hashlib.sha256(content).hexdigest()[:16]
    return Log(
        paths, request, writer, out, describe_options(request, writer, robot), options.overwrite
    )


def _read_settings(options: argparse.Namespace) -> QuantitySettings:
    """Return the settings in ``--thresholds``, replaced by those in other options."""
    from ..logs.calibration import load_settings
    from ..logs.quantities import QuantitySettings

    values = {} if options.thresholds is None else load_settings(options.thresholds)
    values |= arguments.settings_in_options(options)
    return QuantitySettings(joints=tuple(options.joints), velocity=options.velocity, **values)


def _compute_log(options: argparse.Namespace, log: Log) -> bool:
    """Compute the quantities; return False if Ctrl-C stopped it."""
    from ..logs.log import WriteError

    try:
        from ..logs.parallel import open_workers

        arguments.silence_distributed_log(options)
        workers = open_workers(options.workers, options.scheduler, fork=True)
        try:
            with _show_progress(log) as show:
                log.compute_parts(workers, show)
        finally:
            workers.close()
            log.remove_temporary_files()
    except KeyboardInterrupt:
        again = "; run the same command again to continue" if options.out is not None else ""
        print(f"stopped{again}", file=sys.stderr)
        return False
    except WriteError as error:
        raise UsageError(
            f"{error}; what is finished remains; free some space or choose another "
            "--out, and run the command again"
        ) from error
    except (ConnectionError, ImportError, ValueError) as error:
        raise UsageError(error) from error
    return True


@contextmanager
def _show_progress(log: Log) -> Iterator[Any]:
    """Show the rate of the messages beside a bar; yield its function."""
    from rich.progress import TextColumn, TimeRemainingColumn

    from . import tables

    start_time = time.monotonic()
    columns = (
        TextColumn("{task.percentage:>3.0f} %"),
        TextColumn("{task.fields[rate]}"),
        TimeRemainingColumn(),
    )
    with tables.progress_bar("", *columns, total=1.0, rate="") as update:
        yield lambda done, path: update(
            completed=done,
            description=Path(path).name,
            rate=f"{log.messages / (time.monotonic() - start_time):,.0f} messages/s",
        )


def _plot_file(text: str) -> Path:
    """Convert the name of a plot, for argparse."""
    from ..logs.write.plot import SUFFIXES

    if Path(text).suffix.lower() not in SUFFIXES:
        raise argparse.ArgumentTypeError(
            f"{text!r}: expected a file that ends with {' or '.join(SUFFIXES)}"
        )
    return Path(text)


def _save_plot(options: argparse.Namespace, log: Log) -> None:
    """Plot the results of all recordings."""
    from ..logs.write.plot import plot_recordings

    files = {
        recording.folder.path.name.removeprefix("recording="): sorted(
            recording.folder.path.glob("part-*.parquet")
        )
        for recording in log.recordings
    }
    files = {name: parts for name, parts in files.items() if parts}
    if files:
        with report_errors(options.plot):
            plot_recordings(files, options.plot)
        print(f"wrote {options.plot}")


def _show_results(log: Log, options: argparse.Namespace) -> None:
    """Print the table of the columns, contacts, and warnings of what could not be used."""
    from .tables import count_noun, make_console, show_contacts

    if log.states:
        make_console().print(log.summary.to_rich())
    for path, contacts in log.contacts.items():
        if contacts:
            show_contacts(path, contacts)
    if not any(log.contacts.values()) and any(
        column.count for name, column in log.summary.columns.items() if name.startswith("contacts.")
    ):
        print("no contacts")
    place = "" if options.out is None else f" in {options.out}"
    print(f"{log.states:,} states of {count_noun(len(log.recordings), 'recording')}{place}")
    for text in _result_warnings(log):
        print_warning(options, text)
    for note, path in log.notes.items():
        print_warning(options, f"{path}: {note}")
    for reason, (number, example) in log.rejected.items():
        print_warning(
            options,
            f"{number:,} messages were not used because of {reason}; for example: {example}",
        )
    for damage in log.damaged_recordings[:_MAX_LISTED_RECORDINGS]:
        print_warning(options, f"{damage.path}: {damage}", prefix="")
    if len(log.damaged_recordings) > _MAX_LISTED_RECORDINGS:
        print(
            f"and {len(log.damaged_recordings) - _MAX_LISTED_RECORDINGS} more recordings",
            file=sys.stderr,
        )


def _result_warnings(log: Log) -> Iterator[str]:
    """Yield reasons why there are no results, or why a quantity is unknown."""
    if not log.states and log.interval is None and not log.damaged_recordings:
        yield "there are no states; the recordings contain no messages of joint states"
    if not log.states and log.interval is not None:
        first, last = (
            f"{datetime.fromtimestamp(1e-9 * moment, timezone.utc):%Y-%m-%dT%H:%M:%S}"
            for moment in log.interval
        )
        yield f"there are no states; the recordings are from {first} to {last} UTC"
    counts: dict[str, int] = {}
    for name, column in log.summary.columns.items():
        quantity = name.partition(".")[0]
        counts[quantity] = counts.get(quantity, 0) + column.count
    for quantity, count in counts.items():
        if not count and quantity in REQUIREMENTS:
            yield (
                f"{quantity} is unknown in all states; it requires {REQUIREMENTS[quantity]} "
                "of all joints"
            )
