# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The work of the command ``dyn_ros log``: quantities of many recordings, written to files."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from .. import __version__
from ..drives.efforts import UNITS_BY_INTERFACE
from ..engine.kernel.names import without_file
from ..engine.kernel.types import Array
from ..engine.model.model import Model
from ..observer.contact_intervals import ContactInterval, merge_contact_intervals
from ..recordings.formats.spans import Source, join_damage
from ..recordings.options import ReadOptions
from ..recordings.part import read_part
from ..recordings.plan import Part
from ..recordings.recording import Recording, describe_row_notes, rate_mask
from ..recordings.selection import open_parts
from ..recordings.tables.row_selection import escape_braces
from ..states.joint_states import abbreviate_names
from .effort_checks import check_effort_units
from .quantities import VELOCITY_QUANTITIES, QuantitySettings, compute_quantities
from .run.jobs import Jobs, StageProgress, Workers
from .run.local_workers import Call
from .state_jumps import leave_out_jumps
from .velocities import computed_velocity_mask, velocity_notes
from .write import bag, parquet
from .write.quantity_table import REQUIREMENTS, Table
from .write.results import RecordingStat, ResultFolder, lock_folder, result_folders
from .write.summary import Summary

_MAX_REASONS = 20  # problems of a recording, and notes; further ones are not reported
EFFORT_QUANTITIES = {"residual", "external", "contacts", "power"}


class WriteError(Exception):
    """Results cannot be written, because of a full disk for example."""


@contextmanager
def _report_write_errors(file: Path | None = None) -> Iterator[None]:
    """Raise a WriteError in place of an OSError."""
    try:
        yield
    except OSError as error:
        raise WriteError(f"{file or error.filename or ''}: {error.strerror or error}") from error


# --- in the worker processes


@dataclass(frozen=True)
class PartWriter:
    """A function that computes quantities of a part and writes them."""

    quantities: tuple[str, ...]
    settings: QuantitySettings
    kind: str  # "parquet" or "mcap"
    rate: float | None  # largest number of rows per second; None: all rows

    @staticmethod
    def require_packages(kind: str) -> None:
        """Raise an ImportError with a remedy if a package that writes files is not installed."""
        if kind == "mcap":
            bag.import_writer()
        else:
            parquet.import_pyarrow()

    def __call__(self, file: Path, planned: Part) -> dict[str, Any]:
        """Write the part to a file; return a report on it, as JSON can represent it."""
        model = planned.model
        if model is None:
            raise ValueError("the recording contains no robot description; pass robot=")
        part, jump_warnings = leave_out_jumps(model, read_part(planned))
        if EFFORT_QUANTITIES & set(self.quantities):
            part.require_effort_units(model)
        table = compute_quantities(
            model,
            part.states,
            part.leading_count,
            self.quantities,
            self.settings,
            part.trailing_count,
        )
        for joint, interface in part.effort_interfaces:
            if f"effort.{joint}" in table.units and interface in UNITS_BY_INTERFACE:
                table.units[f"effort.{joint}"] = UNITS_BY_INTERFACE[interface]
        contacts = table.contacts
        if self.rate is not None:
            row_mask = rate_mask(part.states.stamp, self.rate)
            table = table.take(row_mask[part.leading_count : len(row_mask) - part.trailing_count])
        if len(table):
            with _report_write_errors(file):
                if self.kind == "parquet":
                    parquet.write_parquet(table, file)
                else:
                    bag.write_mcap(table, file)
        rejected = {reason: [note.messages, note.example] for reason, note in part.rejected.items()}
        return {
            "file": file.name if len(table) else None,
            "messages": part.messages,
            "states": len(table),
            "rejected": rejected,
            "problems": [*part.problems, *filter(None, [part.incomplete])],
            "row_notes": {**part.row_notes, **_incomplete_state_notes(model, part, self)},
            "notes": [
                *jump_warnings,
                *replace(part, row_notes={}).notes,
                *_unknown_signal_notes(model, part, table, self),
                *(self._signal_notes(model, part) if planned.number == 0 else ()),
            ],
            "summary": Summary.of_table(table).to_dict(),
            "contacts": contacts,
        }

    def _signal_notes(self, model: Model, part: Recording) -> Iterator[str]:
        """Yield notes on velocities and efforts that are used and look wrong."""
        if VELOCITY_QUANTITIES & set(self.quantities):
            yield from velocity_notes(model, part.states_in_interval, self.settings)
        if EFFORT_QUANTITIES & set(self.quantities):
            yield from check_effort_units(model, part.states_in_interval, self.settings)


def _unknown_signal_notes(
    model: Model, part: Recording, table: Table, writer: PartWriter
) -> Iterator[str]:
    """Yield a note on joints without velocities or efforts that make a quantity unknown."""
    required_signals = " ".join(
        REQUIREMENTS[quantity]
        for quantity in writer.quantities
        if quantity in REQUIREMENTS
        and all(
            np.isnan(values).all()
            for name, values in table.columns.items()
            if name.partition(".")[0] == quantity
        )
    )
    for signal, values in _used_signals(model, part, writer):
        is_unknown = np.isnan(values).all(axis=0)
        if signal in required_signals and len(values) and is_unknown.any():
            names = [model.velocity_names[i] for i in np.flatnonzero(is_unknown)]
            yield f"the {signal} of {abbreviate_names(names)} are unknown{part.unread_topics_hint}"


def _incomplete_state_notes(model: Model, part: Recording, writer: PartWriter) -> dict[str, int]:
    """Return notes on states that lack velocities or efforts of quantities, and their numbers."""
    notes = {}
    for signal, values in _used_signals(model, part, writer):
        is_unknown = np.isnan(values)
        is_unknown &= ~is_unknown.all(axis=0)  # see ``_unknown_signal_notes``
        quantities = [name for name in writer.quantities if signal in REQUIREMENTS.get(name, "")]
        if not quantities or not is_unknown.any():
            continue
        counts = is_unknown.sum(axis=0)
        worst = escape_braces(repr(model.velocity_names[int(np.argmax(counts))]))
        joint_count = np.count_nonzero(counts)
        more = f" or {joint_count - 1} more joints" if joint_count > 1 else ""
        notes[
            f"{{}} states lack the {signal} of {worst}{more}, and have no {' or '.join(quantities)}"
        ] = int(np.count_nonzero(is_unknown.any(axis=1)))
    return notes


def _used_signals(model: Model, part: Recording, writer: PartWriter) -> Iterator[tuple[str, Array]]:
    """Yield velocities and efforts (n, nv) by name; NaN where they are unknown.

    Velocities that are computed from the positions are the subject of ``velocity_notes``.
    """
    states = part.states_in_interval
    is_computed = computed_velocity_mask(model, states, writer.settings)
    yield "velocities", np.where(is_computed, 0.0, states.v)
    yield "efforts", states.tau


# --- in this process


@dataclass
class LoggedRecording:
    """A recording, the folder of its results, and the state of the work on it."""

    path: Path
    folder: ResultFolder
    unfinished_parts: int = 0
    problems: dict[str, int] = field(default_factory=dict)  # number of parts with each problem

    def add_problem(self, reason: str) -> None:
        """Note why a part could not be read or computed."""
        reason = without_file(self.path, reason)
        if reason in self.problems or len(self.problems) < _MAX_REASONS:
            self.problems[reason] = self.problems.get(reason, 0) + 1

    def __str__(self) -> str:
        first, *rest = (
            reason if count == 1 else f"{reason} ({count} parts)"
            for reason, count in self.problems.items()
        )
        return join_damage(first, rest)


class Log:
    """Quantities of recordings, computed into a folder that may contain results already.

    ``options`` are the options that the results depend on, as JSON can represent them; with
    ``overwrite``, results of other options are replaced.

    Attributes
    ----------
    recordings : list of LoggedRecording
    messages : int
        Number of messages that were read in this run.
    states : int
        Number of rows of all results, former runs included.
    rejected : dict of str to (int, str)
        Number of messages that were not used, and an example, by the reason.
    notes : dict of str to Path
        Unusual properties of the messages, and the first recording that has them.
    interval : (int, int) or None
        First and last log time of all recordings [ns].
    summary : Summary
        Statistics of all columns.
    """

    def __init__(
        self,
        paths: Sequence[Path],
        read_options: ReadOptions,
        writer: PartWriter,
        out: Path,
        options: dict[str, Any],
        overwrite: bool,
    ) -> None:
        self._read_options, self._writer, self._overwrite = read_options, writer, overwrite
        self._out = out
        self.recordings = [
            LoggedRecording(path, ResultFolder(folder, RecordingStat.of_path(path), options))
            for path, folder in zip(paths, result_folders(paths, out, writer.kind))
        ]
        self.messages = self.states = 0
        self.rejected: dict[str, tuple[int, str]] = {}
        self._notes: dict[str, Path] = {}
        self._row_notes: dict[Path, Counter[str]] = {}
        self.interval: tuple[int, int] | None = None
        self.summary = Summary()
        self._contacts: dict[Path, list[ContactInterval]] = {}

    @property
    def contacts(self) -> dict[Path, list[ContactInterval]]:
        """The contacts in each recording, in order of time [s]."""
        return {
            path: merge_contact_intervals(contacts) for path, contacts in self._contacts.items()
        }

    @property
    def notes(self) -> dict[str, Path]:
        """Notes on unusual but valid content, with the first recording that each is about."""
        row_notes = {
            note: path
            for path, notes in self._row_notes.items()
            for note in describe_row_notes(notes)
        }
        return dict(itertools.islice({**row_notes, **self._notes}.items(), _MAX_REASONS))

    def compute_parts(self, workers: Workers, progress: StageProgress) -> None:
        """Compute all parts that are not finished.

        Raise a ValueError if the folder contains results of other options, or another process
        writes to it, and a `WriteError` if results cannot be written; finished results remain.
        """
        with ExitStack() as stack:
            with _report_write_errors():
                stack.enter_context(lock_folder(self._out))
            self._run_jobs(workers, progress)

    def remove_temporary_files(self) -> None:
        """Remove incomplete files of workers that were killed."""
        for recording in self.recordings:
            recording.folder.remove_temporary_files()

    def _run_jobs(self, workers: Workers, progress: StageProgress) -> None:
        """Plan all recordings, compute their unfinished parts, and store reports and problems."""
        jobs = Jobs(
            workers,
            partial(open_parts, self._read_options),
            self._make_part_calls,
            [recording.path for recording in self.recordings],
            [float(recording.folder.recording.size) for recording in self.recordings],
            progress=progress,
        )
        for call, value, failure in jobs:
            recording = self.recordings[call.recording]
            if failure is not None and failure.kind == WriteError.__name__:
                raise WriteError(failure.message)
            if failure is not None:
                recording.add_problem(str(failure))
            elif call.number is not None:
                self.messages += value["messages"]
                self._add_report(recording, value)
                with _report_write_errors():
                    recording.folder.add(call.number, value)
            elif value[0].damage:
                recording.add_problem(value[0].damage)
            if call.number is not None:
                recording.unfinished_parts -= 1
            is_begun = call.number is not None or failure is None
            if is_begun and not recording.unfinished_parts and self._writer.kind == "mcap":
                with _report_write_errors():
                    bag.write_metadata(recording.folder.path)

    def _make_part_calls(
        self, index: int, prepared: tuple[Source, list[Part]]
    ) -> tuple[list[Call], float]:
        """Return calls for the parts that are not finished, and the size of the finished ones."""
        source, parts = prepared
        recording = self.recordings[index]
        times = [time for span in source.spans for time in (span.start, span.stop)]
        if times:
            times += self.interval or ()
            self.interval = min(times), max(times)
        with _report_write_errors():
            finished = recording.folder.open(self._overwrite)
        for report in finished.values():
            self._add_report(recording, report)
        calls = [
            Call(
                self._writer,
                (recording.folder.file(part.number, self._writer.kind), part),
                part.size,
                part.number,
            )
            for part in parts
            if part.number not in finished
        ]
        recording.unfinished_parts = len(calls)
        return calls, sum(part.size for part in parts if part.number in finished)

    def _add_report(self, recording: LoggedRecording, report: dict[str, Any]) -> None:
        """Add the report on a finished part."""
        self.states += report["states"]
        for reason, (count, example) in report["rejected"].items():
            previous_count, first_example = self.rejected.get(reason, (0, example))
            self.rejected[reason] = previous_count + count, first_example
        for problem in report["problems"]:
            recording.add_problem(problem)
        for note in report["notes"]:
            if len(self._notes) < _MAX_REASONS:
                self._notes.setdefault(note, recording.path)
        self._row_notes.setdefault(recording.path, Counter()).update(report.get("row_notes", {}))
        self.summary += Summary.from_dict(report["summary"])
        self._contacts.setdefault(recording.path, []).extend(
            ContactInterval(*contact) for contact in report.get("contacts", ())
        )

    @property
    def damaged_recordings(self) -> list[LoggedRecording]:
        """The recordings that could not be read or computed completely."""
        return [recording for recording in self.recordings if recording.problems]


def describe_options(
    read_options: ReadOptions, writer: PartWriter, robot: str | None
) -> dict[str, Any]:
    """Return the options that results depend on by name, as JSON can represent them."""
    return {
        "version": __version__,
        "robot": robot,
        "compute": list(writer.quantities),
        "format": writer.kind,
        "rate": writer.rate,
        **{
            name: getattr(read_options, name)
            for name in (
                "topics",
                "odometry",
                "since",
                "until",
                "staleness",
                "root_joint",
                "base",
                "max_chunk_size",
            )
        },
        **asdict(writer.settings),
    }
