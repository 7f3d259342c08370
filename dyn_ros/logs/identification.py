# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Identification from recordings that are too long for the memory of one process.

The parts are added up again only if there are so many outliers that the first estimate matters.
"""

from __future__ import annotations

import dataclasses
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from .. import identification
from ..engine.model import Model
from ..engine.model.moments import Moment
from ..identification import Identification, Samples
from ..identification.identify import make_result
from ..identification.identify_options import IdentifyOptions
from ..identification.locking import remaining_coordinates
from ..identification.normal_equations import add_sums
from ..identification.recorded_samples import read_recordings, recorded_robot
from ..identification.solution import Solution, solve
from ..recordings.formats import is_table
from ..recordings.formats.sources import discover, open_source
from ..recordings.options import ReadOptions, takes
from ..recordings.part import read_part
from ..recordings.plan import Part
from ..recordings.selection import prepare
from ..recordings.tables.columns import Columns, errors_of
from ..states.joint_states import STALENESS
from . import part_sums
from .parallel import open_workers
from .run.jobs import Progress, Total, Workers, completed
from .run.local_workers import Call, Failure

Given = Mapping[Path, Mapping[str, str]]
Load = Callable[..., tuple[Samples, np.ndarray]]

_FIRST = 16  # parts of which the first estimate is made, at most
_CUTOFFS = 5  # of these, which decide about the filter
_WEIGHTINGS = 6  # passes over all parts, at most
_MOST = 1_000_000  # samples that are kept in memory
_SIZE = 8e6  # of a part [bytes]
_NOTHING_LEFT = "the filter leaves no samples of it"
_OVERLAP = 1.0  # s, of which the filter drops some


@takes(IdentifyOptions)
def identify(
    model: Model,
    recordings: str | PathLike[str] | Iterable[str | PathLike[str]],
    *,
    cutoff: float | None = None,
    velocity: bool = False,
    topics: Iterable[str] | None = None,
    odometry: str | None = None,
    columns: Given | Mapping[str, Mapping[str, str]] | None = None,
    since: Moment | None = None,
    until: Moment | None = None,
    staleness: float = STALENESS,
    workers: int | None = None,
    scheduler: str | None = None,
    progress: Progress | None = None,
    **options: Any,
) -> Identification:
    """Estimate the parameters of a robot from recordings of any kind and length.

    Recordings of up to a million states are read into memory, as ``dyn_ros.identify`` requires;
    joints that were not recorded or do not move are locked, see ``dyn_ros.lock_joints``.
    Longer ones, and all with ``workers`` or ``scheduler``, are processed in parts: a first estimate
    from up to 16 of them is the result if these are all. Otherwise it decides about noise and
    outliers, and the normal equations of all parts are added up. Where both are possible, the
    estimates differ by less than a tenth of a standard deviation, and by less than a quarter where
    friction turns over a distance much shorter than the motion. The errors of
    ``Identification.joints`` are then of the first estimate, on all parts that it did not use.

    Parameters
    ----------
    model : Model
    recordings : str, PathLike, or iterable of them
        Files, folders and patterns.
    cutoff : float, optional
        Of the filter of the positions [Hz]; see ``Samples.from_arrays``.
    velocity : bool
        Use measured velocities as well; see ``Samples.from_recording``.
    **options
    topics, odometry, since, until, staleness
        As for ``read``.
    columns : dict of path to dict of str to str, optional
        For tables, by path as in ``recordings``, the names of columns that have others, such as
        ``{"recording.csv": {"time": "t", "position.elbow": "q_3"}}``.
    workers, scheduler
        As for ``map``.
    progress : callable, optional
        Called with the fraction that is done, and a word for what is being done.

    Raises
    ------
    ValueError
        A recording that cannot be used, or as ``dyn_ros.identify``; names the value and a remedy.
    OSError
        A file cannot be read.

    Examples
    --------
    >>> found = dyn_ros.logs.identify(model, recording_file)
    >>> found.size > 1900, bool(found.identified.is_physical.all())
    (True, True)
    """
    paths, own = discover(recordings), IdentifyOptions(**options)
    given = {Path(path): names for path, names in (columns or {}).items()}
    if unknown := [path for path in given if path not in paths or not is_table(path)]:
        raise ValueError(
            f"columns: expected names by the path of each table, got "
            f"{str(unknown[0])!r}; the recordings are "
            f"{', '.join(map(str, paths[:5]))}"
        )
    return identify_recordings(
        model,
        paths,
        lambda arm, samples: own.for_velocities(remaining_coordinates(model, arm)[1], model.nv),
        ReadOptions(
            topics=None if topics is None else tuple(topics),
            odometry=odometry,
            since=since,
            until=until,
            staleness=staleness,
            columns=given,
        ),
        cutoff=cutoff,
        velocity=velocity,
        workers=workers,
        scheduler=scheduler,
        progress=progress,
    )


def identify_recordings(
    model: Model,
    paths: Sequence[Path],
    options: Callable[[Model, Samples | None], IdentifyOptions],
    read: ReadOptions,
    *,
    lock: Mapping[str, float | None] | None = None,
    cutoff: float | None = None,
    velocity: bool = False,
    whole: bool = False,
    workers: int | None = None,
    scheduler: str | None = None,
    progress: Progress | None = None,
) -> Identification:
    """Identify a robot, in memory or in parts, see ``identify``; ``whole``: in memory always.

    ``options`` is called with the robot without locked joints, and with its samples if they are in
    memory.
    """
    progress = progress or (lambda done, what: None)
    if whole or (workers is None and scheduler is None and _fit_in_memory(paths, model, read)):
        arm, samples = read_recordings(
            model, paths, read, lock=lock, cutoff=cutoff, velocity=velocity
        )
        return identification.identify(
            arm, samples, progress=progress, **vars(options(arm, samples))
        )
    _require_no_contacts(paths, model, read)
    arm, warnings = recorded_robot(model, paths, read, lock)
    read = dataclasses.replace(read, robot=arm, overlap=(_OVERLAP, _OVERLAP), size=_SIZE)
    with closing(open_workers(workers, scheduler)) as processes:
        found = identify_parts(
            arm,
            _all_parts(processes, paths, read, velocity),
            processes,
            options(arm, None),
            cutoff=cutoff,
            progress=progress,
        )
    return dataclasses.replace(found, warnings=(*warnings, *found.warnings))


def _fit_in_memory(paths: Sequence[Path], model: Model, read: ReadOptions) -> bool:
    """Whether recordings have few states, or contacts, which cannot be used in parts."""
    count = 0.0
    for path in paths:
        if not is_table(path):  # about as many as messages of typical sizes
            size = sum(span.size for span in open_source(path).spans)
            count += size / (100.0 + 40.0 * model.nv)
            continue
        with errors_of(path):
            table = Columns(path, model, read.columns.get(path))
            if table.owners("in_contact"):
                return True
            count += len(table)
    return count <= _MOST


def _require_no_contacts(paths: Sequence[Path], model: Model, read: ReadOptions) -> None:
    for path in paths:
        with errors_of(path):
            if is_table(path) and Columns(path, model, read.columns.get(path)).owners("in_contact"):
                raise ValueError(
                    "contacts, the columns in_contact, cannot be used when recordings "
                    "are processed in parts; leave out workers and scheduler, and "
                    "pass shorter recordings"
                )


def _all_parts(
    workers: Workers, paths: Sequence[Path], read: ReadOptions, velocity: bool
) -> list[Call]:
    """A call that loads each part of all recordings."""
    parts: dict[int, list[Part]] = {}
    calls = deque(Call(prepare, (read, path), recording=n) for n, path in enumerate(paths))
    for call, held, failure in completed(workers, calls):
        if failure is not None:
            raise ValueError(f"{paths[call.recording]}: {failure}")
        _, parts[call.recording] = workers.value(held)
    load = partial(load_part, velocity=velocity)
    return [Call(load, (part,), part.size, recording=n) for n in sorted(parts) for part in parts[n]]


def load_part(
    cutoff: float | None, part: Part, velocity: bool = False
) -> tuple[Samples, np.ndarray]:
    """Samples of a part and of what surrounds it, and the rows of its own; errors name the file."""
    with errors_of(part.path):
        read = read_part(part)
        if not len(read):
            raise ValueError("a part of it contains no complete state")
        all_of_it = dataclasses.replace(read, warm=0, after=0)
        known = np.isfinite(all_of_it.effort).all(axis=1)
        start = int(all_of_it.stamp[known][:1].sum())  # the time 0 of the samples
        samples = all_of_it.to_samples(cutoff=cutoff, velocity=velocity)
        ends = (1e-9 * (int(stamp) - start) for stamp in read.stamp[[0, -1]])
        return samples, rows_between(samples, *ends)


def rows_between(samples: Samples, first: float, last: float) -> np.ndarray:
    """The samples from one time to another one [s]."""
    return np.flatnonzero((samples.time >= first) & (samples.time <= last))


def identify_parts(
    model: Model,
    calls: Sequence[Call],
    workers: Workers,
    options: IdentifyOptions,
    *,
    cutoff: float | None,
    progress: Progress,
) -> Identification:
    """Estimate the parameters of a robot from parts of recordings.

    A part is a call of a function such as ``load_part``, without its first argument, the cutoff of
    the filter [Hz]. The samples of the result are those of the first estimate, which is the result
    if it knows all parts.
    """
    began = time.perf_counter()
    some = evenly(len(calls), _FIRST)
    cutoff = cutoff or _cutoff([calls[k] for k in some], workers)
    first, failures = _first_solution(
        model, [calls[k] for k in some], workers, cutoff, progress, options
    )
    if len(some) == len(calls):
        result = make_result(first, began)
        warnings = _of_failures(failures, len(calls))
        progress(1.0, "done")
        return dataclasses.replace(result, warnings=(*result.warnings, *warnings))
    stage = part_sums.stage_after(first, len(calls))
    for n in range(_WEIGHTINGS):
        jobs = [
            _with(partial(_sums, stage, cutoff, k in some, call.recording), call)
            for k, call in enumerate(calls)
        ]
        total, failures = _total(workers, jobs, _from(1.0 - 0.7 * 0.5**n, progress))
        fitted, step = part_sums.fit(first, stage, total)
        if n + 1 == _WEIGHTINGS or not stage.decides(fitted, step, total):
            break
        stage = stage.after(fitted, step)
    warnings = _of_failures(failures, len(calls))
    result = part_sums.identification(
        first, stage, total, fitted, step, warnings, time.perf_counter() - began
    )
    progress(1.0, "done")
    return result


def _of_failures(failures: Counter[str], count: int) -> list[str]:
    """A warning about parts that were not used, if any."""
    return [
        f"{failures.total()} of {count} parts of the recordings were not used, most "
        f"of them because: {reason}"
        for reason, _ in failures.most_common(1)
    ]


def evenly(count: int, most: int) -> list[int]:
    """Indices of at most so many of ``count`` parts, from the first to the last."""
    return sorted({int(k) for k in np.linspace(0, count - 1, min(count, most)).round()})


def _of_each(
    workers: Workers, calls: Sequence[Call], progress: Progress, what: str
) -> Iterator[tuple[int, Any, Failure | None]]:
    """Yield the place of each call in the sequence as soon as it is done, and its outcome."""
    numbered = deque(call._replace(number=n) for n, call in enumerate(calls))
    done, size = 0.0, sum(call.size for call in calls) or 1.0
    for call, held, failure in completed(workers, numbered):
        done += call.size
        progress(min(done / size, 1.0), what)
        yield call.number or 0, held, failure


def _collected(
    workers: Workers, calls: Sequence[Call], progress: Progress
) -> tuple[list[tuple[Call, Any]], Counter[str]]:
    """Calls and their values, in their order, and why others failed."""
    outcomes = sorted(_of_each(workers, calls, progress, "reading"), key=lambda outcome: outcome[0])
    values = [(calls[n], workers.value(held)) for n, held, failure in outcomes if failure is None]
    if not values:
        reason = outcomes[-1][2] if outcomes else "there are no states; check since and until"
        raise ValueError(f"recordings: no part can be used: {reason}")
    return values, Counter(str(failure) for _, _, failure in outcomes if failure is not None)


def _with(function: Callable[..., Any], part: Call) -> Call:
    """A call of a function with the recording of a part, and its arguments."""
    return part._replace(function=function, arguments=(part.function, *part.arguments))


def _cutoff(calls: Sequence[Call], workers: Workers) -> float:
    """The median of what a few parts suggest."""
    few = [_with(_chosen_cutoff, calls[k]) for k in evenly(len(calls), _CUTOFFS)]
    found, _ = _collected(workers, few, lambda done, what: None)
    return float(np.median([cutoff for _, cutoff in found]))


def _chosen_cutoff(load: Load, *arguments: Any) -> float:
    return load(None, *arguments)[0].cutoff


def _inside(cutoff: float, load: Load, *arguments: Any) -> Samples:
    samples, rows = load(cutoff, *arguments)
    return samples.take(rows)


def _sums(
    stage: part_sums.Stage,
    cutoff: float,
    is_known: bool,
    recording: int,
    load: Load,
    *arguments: Any,
) -> part_sums.Sums:
    """What a part contributes; ``is_known``: the first estimate is made of it, too."""
    samples, rows = load(cutoff, *arguments)
    if not len(rows):
        raise ValueError(_NOTHING_LEFT)
    return stage.sums(samples, rows, is_known, recording)


def _first_solution(
    model: Model,
    calls: Sequence[Call],
    workers: Workers,
    cutoff: float,
    progress: Progress,
    options: IdentifyOptions,
) -> tuple[Solution, Counter[str]]:
    """An estimate from parts of recordings, and why parts were not used."""
    found, failures = _collected(
        workers,
        [_with(partial(_inside, cutoff), call) for call in calls],
        lambda done, what: progress(0.1 * done, what),
    )
    filled = [(call.recording, samples) for call, samples in found if len(samples)]
    failures.update((len(found) - len(filled)) * [_NOTHING_LEFT])
    if not filled:
        raise ValueError(
            "recordings: the filter leaves no samples of any part; record for longer, "
            "or pass a larger cutoff"
        )
    samples = Samples.concatenate([samples for _, samples in filled])
    recordings = np.repeat(*np.transpose([(n, len(samples)) for n, samples in filled]))
    samples = dataclasses.replace(samples, recording=recordings.astype(np.int32))
    return solve(
        model, samples, options, lambda done, what: progress(0.1 + 0.2 * done, what)
    ), failures


def _total(
    workers: Workers, calls: Sequence[Call], progress: Progress
) -> tuple[part_sums.Sums, Counter[str]]:
    """The sums of all parts, and why others, such as too short ones, contribute nothing."""
    total, failures = Total(workers, add_sums), Counter[str]()
    for number, held, failure in _of_each(workers, calls, progress, "equations"):
        total.put(number, [held] if failure is None else [])
        if failure is not None:
            failures[str(failure)] += 1
    combined = total.finish()
    if not combined:
        raise ValueError(f"recordings: no part can be used: {failures.most_common(1)[0][0]}")
    return workers.value(combined[0]), failures


def _from(start: float, progress: Progress) -> Progress:
    """Progress of which half of what is left belongs to this pass; another one may follow."""
    return lambda done, what: progress(start + 0.5 * (1.0 - start) * done, what)
