# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Quantities of many recordings, written to files: what the command ``dyn_ros log`` does."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from .. import __version__
from ..engine.model.model import Model
from ..observer.contacts import Contact, joined
from ..recordings.formats.spans import Source
from ..recordings.options import ReadOptions
from ..recordings.part import read_part
from ..recordings.plan import Part
from ..recordings.recording import Recording, thinned
from ..recordings.selection import prepare
from ..states.joint_states import abbreviated
from .effort_checks import wrong_units
from .quantities import OF_VELOCITIES, QuantitySettings, compute
from .run.jobs import Jobs, Progress, Workers
from .run.local_workers import Call
from .velocities import are_rates, velocity_notes
from .write import bag, parquet
from .write.quantity_table import REQUIREMENTS, Table
from .write.results import Folder, Origin, alone, folders
from .write.summary import Summary

_MOST_REASONS = 20  # that are kept of a recording
OF_EFFORTS = {"residual", "external", "contacts", "power"}


class NotWritten(Exception):
    """Results cannot be written: a full disk, for example."""


@contextmanager
def _writing(file: Path | None = None) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise NotWritten(f"{file or error.filename or ''}: {error.strerror or error}") from error


# --- in the workers


@dataclass(frozen=True)
class Write:
    """Computes and writes a part, as "parquet" or "mcap", at most so many rows per second."""

    quantities: tuple[str, ...]
    settings: QuantitySettings
    kind: str
    rate: float | None

    def __call__(self, file: Path, planned: Part) -> dict[str, Any]:
        """Do it; return what is known of the part, as JSON has it."""
        part = read_part(planned)
        model = planned.model
        if model is None:
            raise ValueError("the recording contains no robot description; pass --robot FILE.urdf")
        table = compute(model, part.states, part.warm, self.quantities, self.settings, part.after)
        contacts = table.contacts
        if self.rate is not None:
            kept = thinned(part.states.stamp, self.rate)
            table = table.take(kept[part.warm : len(kept) - part.after])
        if len(table):
            with _writing(file):
                if self.kind == "parquet":
                    parquet.write(table, file)
                else:
                    bag.write(table, file)
        rejected = {reason: [note.messages, note.example] for reason, note in part.rejected.items()}
        return {
            "file": file.name if len(table) else None,
            "messages": part.messages,
            "states": len(table),
            "rejected": rejected,
            "problems": [*part.problems, *filter(None, [part.incomplete])],
            "notes": [
                *part.notes,
                *_unknown_signals(model, part, table, self),
                *(self._contradictions(model, part) if planned.number == 0 else ()),
            ],
            "summary": Summary.of(table).to_dict(),
            "contacts": contacts,
        }

    def _contradictions(self, model: Model, part: Recording) -> Iterator[str]:
        """What is unusual about velocities and efforts that are used."""
        if OF_VELOCITIES & set(self.quantities):
            yield from velocity_notes(model, part.own, self.settings)
        if OF_EFFORTS & set(self.quantities):
            yield from wrong_units(model, part.own, self.settings)


def _unknown_signals(model: Model, part: Recording, table: Table, write: Write) -> Iterator[str]:
    """The joints without velocities or efforts, because of which a quantity is unknown."""
    required = " ".join(
        REQUIREMENTS[quantity]
        for quantity in write.quantities
        if quantity in REQUIREMENTS
        and all(
            np.isnan(values).all()
            for name, values in table.columns.items()
            if name.partition(".")[0] == quantity
        )
    )
    states = part.own
    rates = are_rates(model, states, write.settings)  # of which `velocity_notes` speak
    for signal, values in (("velocities", np.where(rates, 0.0, states.v)), ("efforts", states.tau)):
        unknown = np.isnan(values).all(axis=0)
        if signal in required and len(values) and unknown.any():
            names = [model.velocity_names[i] for i in np.flatnonzero(unknown)]
            yield f"the {signal} of {abbreviated(names)} are unknown"


# --- here


@dataclass
class Recorded:
    """A recording and the folder of its results, and what became of it.

    ``waiting`` is the number of parts that are not finished; ``reasons`` are why something could
    not be read or computed, and in how many parts.
    """

    path: Path
    folder: Folder
    waiting: int = 0
    reasons: dict[str, int] = field(default_factory=dict)

    def note(self, reason: str) -> None:
        if reason in self.reasons or len(self.reasons) < _MOST_REASONS:
            self.reasons[reason] = self.reasons.get(reason, 0) + 1

    def __str__(self) -> str:
        return "; ".join(
            reason if count == 1 else f"{reason} ({count} parts)"
            for reason, count in self.reasons.items()
        )


class Log:
    """Computes quantities of recordings into a folder; results that are finished are kept.

    ``options`` are what the results depend on, as JSON has it; with ``overwrite``, others are
    replaced. ``messages`` are those read in this run, ``states`` the rows of all results,
    ``rejected`` the number of messages that were not used and an example, by reason, ``notes`` what
    is unusual about messages and the first recording in which it is, ``interval`` the first and
    last log time of all recordings [ns].
    """

    def __init__(
        self,
        paths: Sequence[Path],
        request: ReadOptions,
        write: Write,
        out: Path,
        options: dict[str, Any],
        overwrite: bool,
    ) -> None:
        self._request, self._write, self._overwrite = request, write, overwrite
        self._out = out
        self.recordings = [
            Recorded(path, Folder(folder, Origin.of(path), options))
            for path, folder in zip(paths, folders(paths, out, write.kind))
        ]
        self.messages = self.states = 0
        self.rejected: dict[str, tuple[int, str]] = {}
        self.notes: dict[str, Path] = {}
        self.interval: tuple[int, int] | None = None
        self.summary = Summary()
        self._contacts: dict[Path, list[Contact]] = {}

    @property
    def contacts(self) -> dict[Path, list[Contact]]:
        """The contacts in each recording, in order of time [s]."""
        return {path: joined(found) for path, found in self._contacts.items()}

    def run(self, workers: Workers, progress: Progress) -> None:
        """Do everything that is not finished.

        A ValueError if the folder contains results of other options, or another process writes to
        it; `NotWritten` if results cannot be written: what is finished remains.
        """
        with ExitStack() as stack:
            with _writing():
                stack.enter_context(alone(self._out))
            self._run(workers, progress)

    def sweep(self) -> None:
        """Remove what workers that were ended have left of unfinished parts."""
        for recorded in self.recordings:
            recorded.folder.sweep()

    def _run(self, workers: Workers, progress: Progress) -> None:
        jobs = Jobs(
            workers,
            partial(prepare, self._request),
            self._calls,
            [recorded.path for recorded in self.recordings],
            [float(recorded.folder.origin.size) for recorded in self.recordings],
            progress=progress,
        )
        for call, value, failure in jobs:
            recorded = self.recordings[call.recording]
            if failure is not None and failure.kind == NotWritten.__name__:
                raise NotWritten(failure.message)
            if failure is not None:
                recorded.note(str(failure))
            elif call.number is not None:
                self.messages += value["messages"]
                self._add(recorded, value)
                with _writing():
                    recorded.folder.add(call.number, value)
            elif value[0].damage:
                recorded.note(value[0].damage)
            if call.number is not None:
                recorded.waiting -= 1
            is_begun = call.number is not None or failure is None
            if is_begun and not recorded.waiting and self._write.kind == "mcap":
                with _writing():
                    bag.write_metadata(recorded.folder.path)

    def _calls(self, index: int, prepared: tuple[Source, list[Part]]) -> tuple[list[Call], float]:
        """Calls for the parts that are not finished, and the size of those that are."""
        source, parts = prepared
        recorded = self.recordings[index]
        times = [time for span in source.spans for time in (span.start, span.stop)]
        if times:
            known = *times, *(self.interval or ())
            self.interval = min(known), max(known)
        with _writing():
            finished = recorded.folder.open(self._overwrite)
        for facts in finished.values():
            self._add(recorded, facts)
        left = [
            Call(
                self._write,
                (recorded.folder.file(part.number, self._write.kind), part),
                part.size,
                part.number,
            )
            for part in parts
            if part.number not in finished
        ]
        recorded.waiting = len(left)
        return left, sum(part.size for part in parts if part.number in finished)

    def _add(self, recorded: Recorded, facts: dict[str, Any]) -> None:
        self.states += facts["states"]
        for reason, (count, example) in facts["rejected"].items():
            before = self.rejected.get(reason, (0, example))
            self.rejected[reason] = before[0] + count, before[1]
        for problem in facts["problems"]:
            recorded.note(problem)
        for note in facts["notes"]:
            if len(self.notes) < _MOST_REASONS:
                self.notes.setdefault(note, recorded.path)
        self.summary += Summary.from_dict(facts["summary"])
        self._contacts.setdefault(recorded.path, []).extend(
            Contact(*contact) for contact in facts.get("contacts", ())
        )

    @property
    def damaged(self) -> list[Recorded]:
        """Recordings of which something could not be read or computed."""
        return [recorded for recorded in self.recordings if recorded.reasons]


def described(request: ReadOptions, write: Write, robot: str | None) -> dict[str, Any]:
    """What results depend on, as in JSON, by the names of options."""
    return {
        "version": __version__,
        "robot": robot,
        "compute": list(write.quantities),
        "format": write.kind,
        "rate": write.rate,
        **{
            name: getattr(request, name)
            for name in ("topics", "odometry", "since", "until", "staleness", "root_joint", "base")
        },
        **asdict(write.settings),
    }
