# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""A recording on the page: its states at any time, with what is computed from them.

A recording is read and computed in parts, in a thread of its own, so that one of any length opens
at once and needs little memory.
"""

from __future__ import annotations

import math
import threading
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..drives import load_drives
from ..engine.kernel.types import Array
from ..engine.model import Model
from ..engine.model.model import RootJoint
from ..logs.kernels import KERNELS
from ..logs.quantities import QuantitySettings, compute, measured_torques, required_overlap
from ..recordings.formats.sources import description, open_source
from ..recordings.formats.spans import Source
from ..recordings.options import ReadOptions
from ..recordings.part import read_part
from ..recordings.plan import Part, plan
from ..recordings.selection import ODOMETRY, select
from .motion import coordinates
from .page.plots import Progress
from .session import Session
from .standalone import Picture, StandaloneActor, compile_torques
from .time_bar import TimeBar

CURVES = ("effort", "gravity", "nle", "residual", "external")
QUANTITIES = ("gravity", "nle", "residual", "external")
ALGORITHMS = ("all_terms", "nonlinear_effects", "momentum_terms", "momentum_observer_step")
PART = 4e6  # size of a part [bytes, uncompressed]: about 10 s at 1 kHz
MOST_PARTS = 4  # kept in memory
COMPILE = -1  # instead of the number of a part
GAP = 0.5  # a longer time without states is a gap [s]
SPAN = 10.0  # of the plots [s]
SAMPLES = 100  # of each curve in this time


# --- opening


@dataclass(frozen=True, eq=False)
class OpenRecording:
    name: str
    xml: str
    model: Model
    parts: list[Part]


def open_recording(
    path: str | PathLike[str],
    xml: str | None = None,
    root_joint: str | None = None,
    topics: Sequence[str] = (),
    odometry: str | None = None,
    drives: str | PathLike[str] | None = None,
) -> OpenRecording:
    """Open a recording; only what is needed to find its parts is read.

    The robot description is the one in the recording unless it is passed; without ``root_joint``,
    the base is floating if the recording contains odometry, otherwise fixed; ``drives`` is the path
    of a file for ``load_drives``. A ValueError if there is no recording, description, joint state,
    or joint of the robot in it; an ImportError names a package that is missing.
    """
    source = open_source(Path(path))
    if source.damage and not source.spans:
        raise ValueError(source.damage)
    xml = description(source) if xml is None else xml
    if xml is None:
        raise ValueError(f"{source.name}: the recording contains no robot description; pass robot=")
    if root_joint is None:
        root_joint = "floating" if odometry or _has_odometry(source) else "fixed"
    joint: RootJoint = "planar" if root_joint == "planar" else "floating"
    try:
        model = Model.from_urdf(xml, None if root_joint == "fixed" else joint)
    except ValueError as error:
        raise ValueError(f"{source.name}: the robot description: {error}") from error
    if drives is not None:
        load_drives(model, drives)
    chosen = select(source, ReadOptions(model, tuple(topics) or None, odometry))
    parts = plan(chosen, PART, required_overlap(QUANTITIES, QuantitySettings(), model))
    if not parts:
        raise ValueError(f"{source.name}: the recording is empty")
    return OpenRecording(source.name, xml, model, parts)


def _has_odometry(source: Source) -> bool:
    """Whether messages of a topic named odom or odometry were recorded."""
    return any(
        topic.type == ODOMETRY
        and topic.count != 0
        and topic.name.rpartition("/")[2] in ("odom", "odometry")
        for topic in source.topics
    )


# --- parts


class LoadedPart(NamedTuple):
    """A part of a recording: log times of its states [ns], torques by curve, and problems."""

    log_time: NDArray[np.int64]
    q: Array
    v: Array
    torques: dict[str, Array]
    problems: tuple[str, ...] = ()


class Loader:
    """Reads and computes the parts that were asked for, in a thread; the latest request first.

    `progress` says for users what is being compiled; empty: nothing. `gaps` are the times without
    states in parts that have been read, from and to [ns].
    """

    def __init__(self, recording: OpenRecording) -> None:
        self._recording = recording
        self._parts: OrderedDict[int, LoadedPart] = OrderedDict()
        self._wanted: list[int] = []
        self._change = threading.Condition()
        self._is_compiled = self._closed = False
        self.progress = Progress()
        self.gaps: set[tuple[int, int]] = set()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def close(self) -> None:
        with self._change:
            self._closed = True
            self._change.notify()

    def get(self, number: int) -> LoadedPart | None:
        return self._parts.get(number)

    def want(self, numbers: Sequence[int]) -> None:
        """Ask for parts, the most urgent one first; others that wait are given up."""
        wanted = [number for number in numbers if 0 <= number < len(self._recording.parts)]
        with self._change:
            if wanted != self._wanted:
                self._wanted = wanted
                self._change.notify()

    def _next(self) -> int | None:
        """Wait for something to do; None: the end."""
        with self._change:
            while not self._closed:
                for number in self._wanted:
                    part = self._parts.get(number)
                    if part is None or self._is_compiled and "gravity" not in part.torques:
                        return number
                if self._parts and not self._is_compiled:
                    return COMPILE
                self._change.wait()
        return None

    def _run(self) -> None:
        while (number := self._next()) is not None:
            if number == COMPILE:
                self._compile()
                continue
            try:
                part = self._load(number)
            except Exception as error:
                part = LoadedPart(
                    np.zeros(0, np.int64),
                    np.zeros((0, 0)),
                    np.zeros((0, 0)),
                    {"gravity": np.zeros((0, 0))},
                    (str(error),),
                )
            with self._change:
                self._parts[number] = part
                self._parts.move_to_end(number)
                for other in [number for number in self._parts if number not in self._wanted]:
                    if len(self._parts) > MOST_PARTS:
                        del self._parts[other]

    def _compile(self) -> None:
        """Compile what the quantities need, once the first states are shown."""

        def say(progress: Progress) -> None:
            self.progress = progress

        compile_torques(self._recording.model, ALGORITHMS, say, more=KERNELS)
        self._is_compiled, self.progress = True, Progress()

    def _load(self, number: int) -> LoadedPart:
        """Read a part, with its quantities if they are compiled."""
        model = self._recording.model
        part = read_part(self._recording.parts[number])
        own = part.own
        self.gaps |= find_gaps(own.log_time)
        torques = {"effort": own.tau}
        if self._is_compiled:
            torques["effort"] = measured_torques(model, own.q, own.tau)
            table = compute(
                model, part.states, part.warm, QUANTITIES, QuantitySettings(), part.after
            )
            for quantity in QUANTITIES:
                torques[quantity] = (
                    np.stack(
                        [table.columns[f"{quantity}.{name}"] for name in model.velocity_names],
                        axis=-1,
                    )
                    if model.nv
                    else np.zeros((len(own.log_time), 0))
                )
        return LoadedPart(own.log_time, own.q, own.v, torques, part.warnings)


def find_gaps(log_time: NDArray[np.int64]) -> set[tuple[int, int]]:
    """Return the times without states between times (n,), from and to [ns]."""
    before = np.flatnonzero(np.diff(log_time) > 1e9 * GAP)
    return set(zip(log_time[before].tolist(), log_time[before + 1].tolist()))


# --- replay


class Replay(StandaloneActor):
    def __init__(self, recording: OpenRecording) -> None:
        self._recording, self._model = recording, recording.model
        parts = recording.parts
        self._starts = [part.start for part in parts]
        self._first, self._last = parts[0].start, parts[-1].stop - 1
        self._now = self._first  # [ns]
        self._duration = 1e-9 * (self._last - self._first)
        self._speed, self._plays = 1.0, True
        self._loader = Loader(recording)
        self._picture = Picture(self._model)
        self._problems: set[str] = set()
        self._shown: tuple[int, int] | None = None

    def close(self) -> None:
        self._loader.close()

    def show(self, session: Session, xml: str) -> None:
        super().show(session, xml)
        assert session.robot is not None and session.panel is not None
        self._names = [name for name in session.robot.names if name in self._model.joint_names]
        self._idx_q, self._idx_v = coordinates(self._model, self._names)
        self._bar = TimeBar(
            session.server, session.panel, self._recording.name, self._first, self._duration
        )
        session.history = self._history

    # --- time

    def update(self, session: Session, seconds: float) -> None:
        """Advance by a time [s], and show the state of the new time."""
        self._handle_events()
        number = self._number(self._now)
        if self._plays and self._loader.get(number) is not None and session.server.get_clients():
            self._now += round(1e9 * self._speed * seconds)
        if self._now >= self._last:
            self._now, self._plays = self._last, False
        number = self._number(self._now)
        self._loader.want([number, number - 1, number + 1])
        note = self._show(session, number)
        session.progress = self._loader.progress
        session.notice = session.progress.text or "replaying a recording"
        gaps = [
            (1e-9 * (start - self._first), 1e-9 * (stop - self._first))
            for start, stop in sorted(self._loader.gaps)
        ]
        self._bar.show(1e-9 * (self._now - self._first), self._plays, note, gaps)

    def _handle_events(self) -> None:
        while not self._bar.events.empty():
            what, value = self._bar.events.get()
            if what == "play":
                if value and self._now >= self._last:
                    self._now = self._first
                self._plays = value
            elif what == "speed":
                self._speed = value
            elif what == "seek":
                self._now = (
                    self._first + round(1e9 * value)
                    if value < round(self._duration, 3)
                    else self._last
                )  # as on the bar
            else:
                self._plays = False
                self._step(value)

    def _step(self, count: int) -> None:
        number, row, part = self._at(self._now)
        if part is None:
            return
        row += count
        if not 0 <= row < len(part.log_time):
            number, row = number + count, 0 if count > 0 else -1
            part = self._loader.get(number)
        if part is not None and len(part.log_time):
            self._now = int(part.log_time[row])

    def _number(self, now: int) -> int:
        return max(bisect_right(self._starts, now) - 1, 0)

    def _at(self, now: int) -> tuple[int, int, LoadedPart | None]:
        """Return the part and the row of the latest state at a time [ns]; -1: it is not loaded."""
        number = self._number(now)
        for part_number in (number, number - 1):
            part = self._loader.get(part_number)
            if part is not None:
                row = int(np.searchsorted(part.log_time, now, side="right")) - 1
                if row >= 0:
                    return part_number, row, part
        return number, -1, self._loader.get(number)

    # --- what is shown

    def _show(self, session: Session, number: int) -> str:
        """Show the state of this time; return a note."""
        part = self._loader.get(number)
        if part is None:
            return "reading ..."
        problems = part.problems
        for problem in problems:
            if problem not in self._problems:
                self._problems.add(problem)
                session.show_problem(self._recording.name, problem)
        number, row, part = self._at(self._now)
        if row < 0 or part is None:
            return f"no states here: {problems[-1]}" if problems else "no states yet"
        age = 1e-9 * (self._now - int(part.log_time[row]))
        self._draw(session, part, number, row)
        if self._now >= self._last:
            return "end of the recording"
        return f"no states for {age:.1f} s" if age > GAP else ""

    def _draw(self, session: Session, part: LoadedPart, number: int, row: int) -> None:
        q, v = part.q[row], part.v[row]
        session.receive_states(self._names, q[self._idx_q])
        if self._model.njoints and self._model.tree.joints[0].kind in ("floating", "planar"):
            session.place(self._pose(q), "world")
        if "gravity" not in part.torques or (number, row) == self._shown:
            return
        self._shown = number, row
        known = np.where(np.isfinite(v), v, 0.0)
        self._picture.draw(session, known, self._picture.compute(q, known))

    def _pose(self, q: Array) -> list[float]:
        if self._model.tree.joints[0].kind == "floating":
            return q[:7].tolist()
        x, y, yaw = q[:3].tolist()
        return [x, y, 0.0, 0.0, 0.0, math.sin(0.5 * yaw), math.cos(0.5 * yaw)]

    def _history(self) -> Iterator[tuple[float, Array]]:
        """Yield the samples of the plots: those before the time that is shown."""
        unknown = np.full(len(self._names), math.nan)
        for count in range(SAMPLES - 1, -1, -1):
            now = self._now - count * round(1e9 * SPAN / SAMPLES)
            if now < self._first:
                continue
            _, row, part = self._at(now)
            values = {}
            if row >= 0 and part is not None and now - int(part.log_time[row]) < 1e9 * GAP:
                values = {name: torque[row, self._idx_v] for name, torque in part.torques.items()}
            yield (
                1e-9 * (now - self._first),
                np.array([values.get(name, unknown) for name in CURVES]),
            )
