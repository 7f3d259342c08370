# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The command ``dyn_ros log``: quantities of recordings, written to files."""

from __future__ import annotations

import argparse
import hashlib
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

from ..logs.write.quantity_table import QUANTITIES, REQUIREMENTS, ordered_quantities
from . import arguments, recorded
from .arguments import Commands, UsageError, as_option, positive, reported

if TYPE_CHECKING:
    from ..logs.log import Log
    from ..logs.quantities import QuantitySettings

_LINE = 10.0  # s between lines of progress, without a terminal
_LISTED = 50  # recordings that are listed at the end


def add_log(commands: Commands) -> None:
    """Add the command ``log``."""
    text = "Compute torques, external efforts and more from recordings."
    command = arguments.add_command(commands, "log", _log, text)
    arguments.add_recordings(command)
    command.add_argument(
        "--robot",
        type=Path,
        metavar="FILE",
        help=f"{arguments.ROBOT} (default: the one in each recording)",
    )
    arguments.add_drives(command)
    arguments.add_root_joint(command)
    recorded.add_velocity(command)
    recorded.add_columns(command)
    recorded.add_lock(
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
        "--plot", type=_picture, metavar="FILE", help="save a plot of the results, .png or .html"
    )
    command.add_argument(
        "--joints",
        nargs="+",
        default=[],
        metavar="JOINT",
        help="write the columns of these joints only",
    )
    command.add_argument(
        "--rate", type=positive, metavar="HZ", help="write at most this number of states per second"
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
    arguments.add_settings(command, *arguments.OBSERVER, default="the value in --thresholds, or {}")


def _log(options: argparse.Namespace) -> int:
    if options.scheduler is not None and options.out is None:
        raise UsageError("--scheduler: pass --out too, a folder that all workers can write to")
    if options.out is not None and options.out.exists() and not options.out.is_dir():
        raise UsageError(f"--out: {options.out} is a file; choose the name of a folder")
    if options.plot is not None and options.format != "parquet":
        raise UsageError("--plot: results in MCAP cannot be plotted; use --format parquet")
    if options.plot is not None and set(options.compute) == {"contacts"}:
        raise UsageError("--plot: contacts are a table; add external to --compute for the curves")
    with _terminable():
        if options.out is not None:
            return _log_to(options, options.out)
        with tempfile.TemporaryDirectory(prefix="dyn_ros-log-") as folder:
            return _log_to(options, Path(folder))


@contextmanager
def _terminable() -> Iterator[None]:
    """Leave nothing behind when another process ends this one, as Ctrl-C does."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def end(number: int, frame: FrameType | None) -> None:
        sys.exit(128 + number)

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _log_to(options: argparse.Namespace, out: Path) -> int:
    with reported():
        log = _prepared(options, out)
    if not _run(options, log):
        return 130
    if options.plot is not None:
        _plot(options, log)
    _show(log, options.out)
    return 1 if log.damaged else 0


def _prepared(options: argparse.Namespace, out: Path) -> Log:
    """Check everything that can be checked before the work begins."""
    from ..logs.log import EFFORT_QUANTITIES, Log, PartWriter, describe_options
    from ..logs.quantities import require_thresholds, required_overlap, thresholds
    from ..recordings.formats.sources import discover

    settings = _settings(options)
    wanted = options.compute or ["state"]
    if options.format == "mcap":  # which contains the joint states too
        wanted = ["state", *wanted]
    quantities = ordered_quantities(wanted)
    for option in ("drives", "columns", "lock"):
        if getattr(options, option) and options.robot is None:
            raise UsageError(f"--{option}: pass --robot too, the description of the robot")
    if "contacts" in quantities:
        require_thresholds(settings)
    paths = discover(options.recordings)
    model = whole = None if options.robot is None else arguments.read_model(options)
    if whole is not None:
        model = recorded.locked(options, whole, paths)
        if EFFORT_QUANTITIES & set(quantities):
            arguments.require_gains(options, model)
    if model is not None and "contacts" in quantities:
        thresholds(model, settings)
    writer = PartWriter(quantities, settings, options.format, options.rate)
    request = replace(
        recorded.read_options(options, whole, paths),
        robot=model,
        root_joint=None if options.root_joint == "fixed" else options.root_joint,
        overlap=required_overlap(quantities, settings, model),
    )
    robot = None
    if model is not None:
        content = (
            f"{arguments.robot_text(options)}{options.lock}{options.columns}{model.joint_names}"
        ).encode()
        if options.drives is not None:
            content += options.drives.read_bytes()
        robot = hashlib.sha256(content).hexdigest()[:16]
    return Log(
        paths, request, writer, out, describe_options(request, writer, robot), options.overwrite
    )


def _settings(options: argparse.Namespace) -> QuantitySettings:
    """The settings in --thresholds, and in options, which replace them."""
    from ..logs.calibration import load
    from ..logs.quantities import QuantitySettings

    values = {} if options.thresholds is None else load(options.thresholds)
    values |= arguments.given_settings(options)
    return QuantitySettings(joints=tuple(options.joints), velocity=options.velocity, **values)


def _run(options: argparse.Namespace, log: Log) -> bool:
    """Do the work; return whether it is finished."""
    from ..logs.log import WriteError

    try:
        from ..logs.parallel import open_workers

        arguments.report_lost_clusters(options)
        workers = open_workers(options.workers, options.scheduler, fork=True)
        try:
            with _progress(log) as show:
                log.run(workers, show)
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
        raise UsageError(as_option(str(error))) from error
    return True


@contextmanager
def _progress(log: Log) -> Iterator[Any]:
    """A bar on a terminal; elsewhere a line every ten seconds."""
    from rich.progress import TextColumn, TimeRemainingColumn

    from . import tables

    began = time.monotonic()
    if not sys.stderr.isatty():
        printed = began

        def show(done: float, what: str) -> None:
            nonlocal printed
            if time.monotonic() >= printed + _LINE:
                printed = time.monotonic()
                passed = printed - began
                left = passed * (1.0 / done - 1.0) if done > 0.0 else float("inf")
                print(
                    f"{100.0 * done:.0f} %, {log.messages / passed:,.0f} messages/s, "
                    f"{left:.0f} s left",
                    file=sys.stderr,
                )

        yield show
        return
    columns = (
        TextColumn("{task.percentage:>3.0f} %"),
        TextColumn("{task.fields[rate]}"),
        TimeRemainingColumn(),
    )
    with tables.progress("", *columns, total=1.0, rate="") as update:
        yield lambda done, what: update(
            completed=done,
            description=Path(what).name,
            rate=f"{log.messages / (time.monotonic() - began):,.0f} messages/s",
        )


def _picture(text: str) -> Path:
    """Convert the name of a plot, for argparse."""
    from ..logs.write.plot import SUFFIXES

    if Path(text).suffix.lower() not in SUFFIXES:
        raise argparse.ArgumentTypeError(
            f"{text!r}: expected a file that ends with {' or '.join(SUFFIXES)}"
        )
    return Path(text)


def _plot(options: argparse.Namespace, log: Log) -> None:
    from ..logs.write.plot import plot

    files = {
        recording.folder.path.name.removeprefix("recording="): sorted(
            recording.folder.path.glob("part-*.parquet")
        )
        for recording in log.recordings
    }
    files = {name: parts for name, parts in files.items() if parts}
    if files:
        with reported(options.plot):
            plot(files, options.plot)
        print(f"wrote {options.plot}")


def _show(log: Log, out: Path | None) -> None:
    """Print the table of the columns, and what could not be used."""
    from .tables import counted, show_contacts, terminal

    if log.states:
        terminal().print(log.summary.to_rich())
    for path, contacts in log.contacts.items():
        if contacts:
            show_contacts(path, contacts)
    if not any(log.contacts.values()) and any(
        one.count for name, one in log.summary.columns.items() if name.startswith("contacts.")
    ):
        print("no contacts")
    where = "" if out is None else f" in {out}"
    print(f"{log.states:,} states of {counted(len(log.recordings), 'recording')}{where}")
    for text in _unknown(log):
        print(f"warning: {text}", file=sys.stderr)
    for note, path in log.notes.items():
        print(f"warning: {path}: {note}", file=sys.stderr)
    for reason, (number, example) in log.rejected.items():
        print(
            f"warning: {number:,} messages were not used because of {reason}; for example: "
            f"{example}",
            file=sys.stderr,
        )
    for damage in log.damaged[:_LISTED]:
        print(f"{damage.path}: {as_option(str(damage))}", file=sys.stderr)
    if len(log.damaged) > _LISTED:
        print(f"and {len(log.damaged) - _LISTED} more recordings", file=sys.stderr)


def _unknown(log: Log) -> Iterator[str]:
    """Why there are no results."""
    if not log.states and log.interval is None and not log.damaged:
        yield "there are no states; the recordings contain no messages of joint states"
    if not log.states and log.interval is not None:
        first, last = (
            f"{datetime.fromtimestamp(1e-9 * moment, timezone.utc):%Y-%m-%dT%H:%M:%S}"
            for moment in log.interval
        )
        yield f"there are no states; the recordings are from {first} to {last} UTC"
    counts: dict[str, int] = {}
    for name, one in log.summary.columns.items():
        quantity = name.partition(".")[0]
        counts[quantity] = counts.get(quantity, 0) + one.count
    for quantity, count in counts.items():
        if not count and quantity in REQUIREMENTS:
            yield (
                f"{quantity} is unknown in all states; it requires {REQUIREMENTS[quantity]} "
                "of all joints"
            )
