# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""A recording on the page: its states at any time, and the quantities computed from them.

A recording is read and computed in parts, in a thread of its own, so that a recording of any length
opens at once and needs little memory.
"""

from __future__ import annotations

import math
import threading
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..drives import load_drives
from ..drives.efforts import effort_conflicts
from ..engine.kernel.types import Array
from ..engine.model import Model
from ..engine.model.model import RootJoint
from ..files.limits import MAX_CHUNK_SIZE
from ..logs.kernels import KERNELS
from ..logs.quantities import (
    QuantitySettings,
    compute_quantities,
    measured_torques,
    required_overlap,
)
from ..recordings.formats.sources import find_robot_description, open_source
from ..recordings.formats.spans import Source
from ..recordings.options import ReadOptions
from ..recordings.part import read_part
from ..recordings.plan import Part, divide_part
from ..recordings.selection import ODOMETRY, require_messages, select_part
from .motion import coordinate_indices
from .overview import Overview
from .page.plots import History, Progress, recent_history
from .scene.inertia_markers import BodyCheck
from .session import Session
from .standalone import DynamicsMarkers, StandaloneActor, compile_torques
from .time_bar import TimeBar

CURVES = ("effort", "gravity", "nle", "residual", "external")
QUANTITIES = ("gravity", "nle", "residual", "external")
ALGORITHMS = ("all_terms", "nonlinear_effects", "momentum_terms", "momentum_observer_step")
PART_SIZE = 4e6  # bytes, uncompressed; about 10 s at 1 kHz
MAX_LOADED_PARTS = 4
COMPILE = -1  # replaces the number of a part
MIN_DURATION = 1e-3  # s; of a time axis
MIN_GAP = 0.5  # s; a longer time without states is a gap
PLOT_SAMPLES = 100  # per curve, of the last seconds


# --- opening


@dataclass(frozen=True, eq=False)
class OpenRecording:
    """A recording of which no state has been read yet."""

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
    gravity: Sequence[float] | None = None,
    max_chunk_size: float = MAX_CHUNK_SIZE,
) -> OpenRecording:
    """Open a recording, and find its parts without reading states.

    The robot description is the one in the recording unless it is passed; without ``root_joint``,
    the base is floating if the recording contains odometry, otherwise fixed; ``drives`` is the path
    of a file for ``load_drives``; ``gravity`` [m/s2] is downward by default; ``max_chunk_size``
    [bytes] is as for ``logs.read``. Raise a ValueError if
    there is no recording, description, joint state, or joint of the robot in it, and an ImportError
    with the name of a missing package.
    """
    source = open_source(Path(path), max_chunk_size=max_chunk_size)
    require_messages(source)
    xml = find_robot_description(source) if xml is None else xml
    if xml is None:
        raise ValueError(f"{source.name}: the recording contains no robot description; pass robot=")
    if root_joint is None:
        root_joint = "floating" if odometry or _has_odometry(source) else "fixed"
    joint: RootJoint = "planar" if root_joint == "planar" else "floating"
    try:
        model = Model.from_urdf(xml, None if root_joint == "fixed" else joint)
    except ValueError as error:
        raise ValueError(f"{source.name}: the robot description: {error}") from error
    if gravity is not None:
        model.gravity = gravity
    if drives is not None:
        load_drives(model, drives)
    selection = select_part(source, ReadOptions(model, tuple(topics) or None, odometry))
    parts = divide_part(
        selection, PART_SIZE, required_overlap(QUANTITIES, QuantitySettings(), model)
    )
    if not parts:
        raise ValueError(f"{source.name}: the recording is empty")
    return OpenRecording(source.name, xml, model, parts)


def _has_odometry(source: Source) -> bool:
    """Return True if messages of a topic named odom or odometry were recorded."""
    return any(
        topic.type == ODOMETRY
        and topic.count != 0
        and topic.name.rpartition("/")[2] in ("odom", "odometry")
        for topic in source.topics
    )


# --- parts


class LoadedPart(NamedTuple):
    """The states of a part of a recording, and the torques computed from them."""

    log_time: NDArray[np.int64]  # (k,), ns
    q: Array  # (k, nq)
    v: Array  # (k, nv)
    torques: dict[str, Array]  # by curve, (k, nv), N m
    problems: tuple[str, ...] = ()


class Loader:
    """A thread that reads and computes requested parts, the latest request's first.

    `progress` describes what is being compiled, for users. `gaps` are the times without states in
    parts that have been read, pairs of start and stop [ns]. While no part is requested, it reads
    others for the `overview`, if one is wanted.
    """

    def __init__(self, recording: OpenRecording) -> None:
        self._recording = recording
        self._parts: OrderedDict[int, LoadedPart] = OrderedDict()
        self._requested: list[int] = []
        self._change = threading.Condition()
        self._is_compiled = self._is_closed = False
        self.progress = Progress()
        self.gaps: set[tuple[int, int]] = set()
        parts, shape = recording.parts, (len(CURVES), recording.model.nv)
        self.overview = Overview(parts[0].start, parts[-1].stop, len(parts), shape, MIN_GAP)
        self._wants_overview = False
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End the thread."""
        with self._change:
            self._is_closed = True
            self._change.notify()

    def get(self, number: int) -> LoadedPart | None:
        """Return a part by its number; None if it is not loaded."""
        return self._parts.get(number)

    def request(self, numbers: Sequence[int]) -> None:
        """Request parts, the most urgent one first, in place of those requested before."""
        requested = [number for number in numbers if 0 <= number < len(self._recording.parts)]
        with self._change:
            if requested != self._requested:
                self._requested = requested
                self._change.notify()

    def want_overview(self, wanted: bool) -> None:
        """Read all parts for the overview, or only those that are requested."""
        with self._change:
            self._wants_overview = wanted
            self._change.notify()

    def _next_task(self) -> int | None:
        """Wait for a task; return the number of a part to load, `COMPILE`, or None at the end."""
        with self._change:
            while not self._is_closed:
                for number in self._requested:
                    part = self._parts.get(number)
                    if part is None or self._is_compiled and "gravity" not in part.torques:
                        return number
                if self._parts and not self._is_compiled:
                    return COMPILE
                next_part = self.overview.next_part() if self._wants_overview else None
                if next_part is not None:
                    return next_part
                self._change.wait()
        return None

    def _run(self) -> None:
        """Process tasks until the end; a part that cannot be read has no states, but a problem."""
        while (number := self._next_task()) is not None:
            if number == COMPILE:
                self._compile()
                continue
            try:
                part = self._load(number)
            except Exception as error:
                empty = np.zeros((0, 0))
                part = LoadedPart(
                    np.zeros(0, np.int64), empty, empty, {"gravity": empty}, (str(error),)
                )
            if self._is_compiled:
                self._add_to_overview(number, part)
            with self._change:
                if number not in self._requested:
                    continue
                self._parts[number] = part
                self._parts.move_to_end(number)
                unrequested = [number for number in self._parts if number not in self._requested]
                for number in unrequested:
                    if len(self._parts) > MAX_LOADED_PARTS:
                        del self._parts[number]

    def _add_to_overview(self, number: int, part: LoadedPart) -> None:
        """Add the torques of a part to the overview."""
        shape = len(part.log_time), self._recording.model.nv
        torques = [part.torques.get(curve, np.full(shape, np.nan)) for curve in CURVES]
        self.overview.add(number, part.log_time, np.stack(torques, axis=1))

    def _compile(self) -> None:
        """Compile the functions that compute the torques."""

        def report(progress: Progress) -> None:
            self.progress = progress

        compile_torques(self._recording.model, ALGORITHMS, report, more=KERNELS)
        self._is_compiled, self.progress = True, Progress()

    def _load(self, number: int) -> LoadedPart:
        """Read a part; compute its torques if the functions for them are compiled."""
        model = self._recording.model
        part = read_part(self._recording.parts[number])
        conflicts = effort_conflicts(model, part.effort_interfaces)
        for joint in conflicts:
            part.states.tau[:, model.velocity_names.index(joint)] = np.nan
        states = part.states_in_interval
        self.gaps |= find_gaps(states.log_time)
        torques = {"effort": states.tau}
        if self._is_compiled:
            torques["effort"] = measured_torques(model, states.q, states.tau)
            table = compute_quantities(
                model,
                part.states,
                part.leading_count,
                QUANTITIES,
                QuantitySettings(),
                part.trailing_count,
            )
            for quantity in QUANTITIES:
                torques[quantity] = (
                    np.stack(
                        [table.columns[f"{quantity}.{name}"] for name in model.velocity_names],
                        axis=-1,
                    )
                    if model.nv
                    else np.zeros((len(states.log_time), 0))
                )
        warnings = (*part.warnings, *conflicts.values())
        return LoadedPart(states.log_time, states.q, states.v, torques, warnings)


def find_gaps(log_time: NDArray[np.int64]) -> set[tuple[int, int]]:
    """Return the gaps between times (n,), pairs of start and stop [ns]."""
    rows = np.flatnonzero(np.diff(log_time) > 1e9 * MIN_GAP)
    return set(zip(log_time[rows].tolist(), log_time[rows + 1].tolist()))


# --- replay


class Replay(StandaloneActor):
    """An actor that replays a recording. Times are log times [ns] unless they are since start."""

    def __init__(self, recording: OpenRecording) -> None:
        self._recording, self._model = recording, recording.model
        parts = recording.parts
        self._part_starts = [part.start for part in parts]
        self._start, self._end = parts[0].start, parts[-1].stop - 1
        self._now = self._start
        self._duration = 1e-9 * (self._end - self._start)  # s
        self._speed, self._plays, self._plots_all = 1.0, True, False
        self._loader = Loader(recording)
        self._shown_problems: set[str] = set()
        self._drawn_state: tuple[int, int] | None = None  # number of the part, row
        self._plotted_overview: tuple[Array, Array] | None = None

    def close(self) -> None:
        """End the thread that loads parts."""
        self._loader.close()

    def show(self, session: Session, xml: str) -> None:
        """Show the robot and the controls of the recording on a page."""
        super().show(session, xml)
        assert session.robot is not None and session.panel is not None
        check = BodyCheck(xml, self._model, session.settings.mesh_paths)
        self._markers = DynamicsMarkers(self._model, check)
        self._names = [name for name in session.robot.names if name in self._model.joint_names]
        self._idx_q, self._idx_v = coordinate_indices(self._model, self._names)
        self._bar = TimeBar(
            session.server, session.panel, self._recording.name, self._start, self._duration
        )
        self._plot_seconds = session.settings.plot_seconds
        session.history = self._history

    # --- time

    def update(self, session: Session, seconds: float) -> None:
        """Advance by a time [s], and show the state of the new time."""
        self._handle_events()
        number = self._part_number(self._now)
        if self._plays and self._loader.get(number) is not None and session.server.get_clients():
            self._now += round(1e9 * self._speed * seconds)
        if self._now >= self._end:
            self._now, self._plays = self._end, False
        number = self._part_number(self._now)
        self._loader.request([number, number - 1, number + 1])
        note = self._show_state(session, number)
        session.progress = self._loader.progress
        session.notice = session.progress.text or "replaying a recording"
        gaps = [
            (1e-9 * (start - self._start), 1e-9 * (stop - self._start))
            for start, stop in sorted(self._loader.gaps)
        ]
        self._bar.show(1e-9 * (self._now - self._start), self._plays, note, gaps)

    def _handle_events(self) -> None:
        """Carry out what users have done on the time bar since the last update."""
        while not self._bar.events.empty():
            action, value = self._bar.events.get()
            if action == "play":
                if value and self._now >= self._end:
                    self._now = self._start
                self._plays = value
            elif action == "speed":
                self._speed = value
            elif action == "plot all":
                self._plots_all = value
                self._loader.want_overview(value)
            elif action == "seek":
                # the bar shows the duration rounded to milliseconds
                is_before_end = value < round(self._duration, 3)
                self._now = self._start + round(1e9 * value) if is_before_end else self._end
            else:
                self._plays = False
                self._step(value)

    def _step(self, count: int) -> None:
        """Go to the next (1) or the previous state (-1)."""
        number, row, part = self._find_state(self._now)
        if part is None:
            return
        row += count
        if not 0 <= row < len(part.log_time):
            number, row = number + count, 0 if count > 0 else -1
            part = self._loader.get(number)
        if part is not None and len(part.log_time):
            self._now = int(part.log_time[row])

    def _part_number(self, now: int) -> int:
        """Return the number of the part that contains a log time [ns]."""
        return max(bisect_right(self._part_starts, now) - 1, 0)

    def _find_state(self, now: int) -> tuple[int, int, LoadedPart | None]:
        """Return the latest state at a time: the number of its part, its row, and the part.

        The row is -1 if the state is not loaded.
        """
        number = self._part_number(now)
        for part_number in (number, number - 1):
            part = self._loader.get(part_number)
            if part is not None:
                row = int(np.searchsorted(part.log_time, now, side="right")) - 1
                if row >= 0:
                    return part_number, row, part
        return number, -1, self._loader.get(number)

    # --- drawing

    def _show_state(self, session: Session, number: int) -> str:
        """Show the present state and the problems of a part; return a note."""
        part = self._loader.get(number)
        if part is None:
            return "reading ..."
        problems = [session.settings.advise(problem) for problem in part.problems]
        for problem in problems:
            if problem not in self._shown_problems:
                self._shown_problems.add(problem)
                session.show_problem(self._recording.name, problem)
        number, row, part = self._find_state(self._now)
        if row < 0 or part is None:
            return f"no states here: {problems[-1]}" if problems else "no states yet"
        age = 1e-9 * (self._now - int(part.log_time[row]))
        self._draw(session, part, number, row)
        if self._now >= self._end:
            return "end of the recording"
        return f"no states for {age:.1f} s" if age > MIN_GAP else ""

    def _draw(self, session: Session, part: LoadedPart, number: int, row: int) -> None:
        """Show a state of a part, and its markers if their functions are compiled."""
        q, v = part.q[row], part.v[row]
        session.receive_joint_state(self._names, q[self._idx_q])
        if self._model.njoints and self._model.tree.joints[0].kind in ("floating", "planar"):
            session.place(self._base_pose(q), "world")
        if "gravity" not in part.torques or (number, row) == self._drawn_state:
            return
        self._drawn_state = number, row
        v = np.where(np.isfinite(v), v, 0.0)
        self._markers.draw(session, v, self._markers.compute(q, v))

    def _base_pose(self, q: Array) -> list[float]:
        """Return the pose of a floating or planar base, x y z qx qy qz qw."""
        if self._model.tree.joints[0].kind == "floating":
            return q[:7].tolist()
        x, y, yaw = q[:3].tolist()
        return [x, y, 0.0, 0.0, 0.0, math.sin(0.5 * yaw), math.cos(0.5 * yaw)]

    def _torques_at(self, now: int) -> Array:
        """Return the torques (curves, joints) at a time; NaN if they are unknown."""
        _, row, part = self._find_state(now)
        values = {}
        if row >= 0 and part is not None and now - int(part.log_time[row]) < 1e9 * MIN_GAP:
            values = {name: torque[row, self._idx_v] for name, torque in part.torques.items()}
        nan = np.full(len(self._names), math.nan)
        return np.array([values.get(name, nan) for name in CURVES])

    def _history(self) -> History:
        """Return the torques of the last seconds, or of the whole recording."""
        if self._plots_all:
            return self._whole_history()
        seconds = self._plot_seconds
        steps = np.arange(PLOT_SAMPLES - 1, -1, -1) * round(1e9 * seconds / PLOT_SAMPLES)
        times = [now for now in (self._now - steps).tolist() if now >= self._start]
        return recent_history(
            seconds,
            1e-9 * (np.array(times) - self._start),
            np.array([self._torques_at(now) for now in times]),
        )

    def _whole_history(self) -> History:
        """Return the torques of the whole recording, as far as it has been read."""
        overview = self._loader.overview
        curves = overview.curves()
        if curves is not self._plotted_overview:
            self._plotted_overview, self._plotted_torques = curves, curves[1][:, :, self._idx_v]
        title = "click a plot to go there"
        if overview.fraction < 1.0:
            title = f"{100.0 * overview.fraction:.0f} % read"
        return History(
            f"all {self._duration:.4g} s, {title}",
            (0.0, max(self._duration, MIN_DURATION)),
            curves[0],
            self._plotted_torques,
            self._torques_at(self._now),
            1e-9 * (self._now - self._start),
        )
