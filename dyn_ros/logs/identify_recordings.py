# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Identification from recordings that are too long for the memory of one process.

A first estimate from a few parts decides about noise and outliers. Then a pass over all parts adds
up their equations. Another pass follows only if the fit depends on the estimate before it.
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
from ..engine.kernel.names import name_file
from ..engine.model import Model
from ..engine.model.moments import Moment
from ..files.limits import MAX_CHUNK_SIZE
from ..identification import Identification, Samples
from ..identification.equation_sums import add_sums
from ..identification.identify import estimate_confidence_intervals
from ..identification.identify_options import IdentifyOptions
from ..identification.locking import remaining_coordinates
from ..identification.recorded_samples import lock_unrecorded_joints, read_recordings
from ..identification.solution import Solution, estimate_parameters
from ..identification.torque_equations import Notify
from ..recordings.formats import is_table
from ..recordings.formats.sources import find_recordings, open_source
from ..recordings.options import ReadOptions, accept_options
from ..recordings.part import read_part
from ..recordings.plan import Part
from ..recordings.selection import open_parts
from ..recordings.tables.columns import Columns, name_file_in_errors
from ..states.joint_states import STALENESS
from . import part_sums
from .parallel import open_workers
from .run.jobs import Reduction, StageProgress, Workers, run_calls
from .run.local_workers import Call, Failure

TableColumns = Mapping[Path, Mapping[str, str]]
PartLoader = Callable[..., tuple[Samples, np.ndarray]]

_MAX_FIRST_ESTIMATE_PARTS = 16
_MAX_CUTOFF_PARTS = 5  # parts of the first estimate that determine the cutoff of the filter
_MAX_PASSES = 6
_MAX_SAMPLES_IN_MEMORY = 1_000_000  # longer recordings are processed in parts
_PART_SIZE = 8e6  # bytes
_NO_SAMPLES = "the filter leaves no samples of it"
_PART_OVERLAP = 1.0  # s, before and after a part; the filter drops its ends


@accept_options(IdentifyOptions)
def identify(
    model: Model,
    recordings: str | PathLike[str] | Iterable[str | PathLike[str]],
    *,
    cutoff: float | None = None,
    velocity: bool = False,
    topics: Iterable[str] | None = None,
    odometry: str | None = None,
    columns: TableColumns | Mapping[str, Mapping[str, str]] | None = None,
    since: Moment | None = None,
    until: Moment | None = None,
    staleness: float = STALENESS,
    max_chunk_size: float = MAX_CHUNK_SIZE,
    workers: int | None = None,
    scheduler: str | None = None,
    progress: StageProgress | None = None,
    notify: Notify | None = None,
    **options: Any,
) -> Identification:
    """Estimate the parameters of a robot from recordings of any kind and length.

    Recordings of up to a million states are read into memory, as ``dyn_ros.identify`` requires;
    joints that were not recorded or do not move are locked, see ``dyn_ros.lock_joints``. Longer
    recordings, and all recordings with ``workers`` or ``scheduler``, are processed in parts. Up to
    16 parts determine a first estimate, which is the result if there are no other parts.
    Otherwise, the first estimate determines noise and outliers, and the normal equations of all
    parts are added up. Both methods give estimates that differ by less than a tenth of a standard
    deviation, or less than a quarter if ``friction_distance`` is much shorter than the motion. The
    errors in ``Identification.joints`` are then errors of the first estimate, on all parts that it
    did not use.

    Parameters
    ----------
    model : Model
    recordings : str, PathLike, or iterable of them
        Files, folders and patterns.
    cutoff : float, optional
        Cutoff of the filter of the positions [Hz]; see ``Samples.from_arrays``.
    velocity : bool
        Use measured velocities as well; see ``Samples.from_recording``.
    **options
    topics, odometry, since, until, staleness, max_chunk_size
        As for ``read``.
    columns : dict of path to dict of str to str, optional
        For tables, by path as in ``recordings``, columns that have other names, such as
        ``{"recording.csv": {"time": "t", "position.elbow": "q_3"}}``.
    workers, scheduler
        As for ``map``.
    progress : callable, optional
        Called with the fraction that is done, and a word for what is being done.
    notify : callable, optional
        As for ``dyn_ros.identify``.

    Raises
    ------
    ValueError
        A recording cannot be used, or as ``dyn_ros.identify``; names the value and a remedy.
    OSError
        A file cannot be read.

    Examples
    --------
    >>> found = dyn_ros.logs.identify(model, recording_file)
    >>> found.size > 1900, bool(found.identified.is_physical.all())
    (True, True)
    """
    paths, identify_options = find_recordings(recordings), IdentifyOptions(**options)
    columns_of = {Path(path): names for path, names in (columns or {}).items()}
    if unknown := [path for path in columns_of if path not in paths or not is_table(path)]:
        raise ValueError(
            f"columns: expected names by the path of each table, got "
            f"{str(unknown[0])!r}; the recordings are "
            f"{', '.join(map(str, paths[:5]))}"
        )
    return identify_recordings(
        model,
        paths,
        lambda locked_model, samples: identify_options.for_velocities(
            remaining_coordinates(model, locked_model)[1], model.nv
        ),
        ReadOptions(
            topics=None if topics is None else tuple(topics),
            odometry=odometry,
            since=since,
            until=until,
            staleness=staleness,
            columns=columns_of,
            max_chunk_size=max_chunk_size,
        ),
        cutoff=cutoff,
        velocity=velocity,
        workers=workers,
        scheduler=scheduler,
        progress=progress,
        notify=notify,
    )


def identify_recordings(
    model: Model,
    paths: Sequence[Path],
    make_options: Callable[[Model, Samples | None], IdentifyOptions],
    read_options: ReadOptions,
    *,
    lock: Mapping[str, float | None] | None = None,
    cutoff: float | None = None,
    velocity: bool = False,
    in_memory: bool = False,
    workers: int | None = None,
    scheduler: str | None = None,
    progress: StageProgress | None = None,
    notify: Notify | None = None,
) -> Identification:
    """Identify a robot, in memory or in parts, see ``identify``; ``in_memory`` prevents parts.

    ``make_options`` is called with the robot without locked joints, and with its samples if they
    are in memory, else None. ``lock`` are joints to lock, as for ``lock_joints``; those with
    neither positions nor efforts are locked as well and, in memory, those that do not move.
    """
    progress = progress or (lambda fraction, label: None)
    notify = notify or (lambda text: None)
    if in_memory or (
        workers is None and scheduler is None and _fit_in_memory(paths, model, read_options)
    ):
        locked_model, samples = read_recordings(
            model, paths, read_options, lock=lock, cutoff=cutoff, velocity=velocity
        )
        return identification.identify(
            locked_model,
            samples,
            progress=progress,
            notify=notify,
            **vars(make_options(locked_model, samples)),
        )
    _require_no_contacts(paths, model, read_options)
    locked_model, warnings = lock_unrecorded_joints(model, paths, read_options, lock)
    read_options = dataclasses.replace(
        read_options, robot=locked_model, overlap=(_PART_OVERLAP, _PART_OVERLAP), size=_PART_SIZE
    )
    with closing(open_workers(workers, scheduler)) as processes:
        result = identify_parts(
            locked_model,
            _plan_parts(processes, paths, read_options, velocity),
            processes,
            make_options(locked_model, None),
            cutoff=cutoff,
            progress=progress,
            notify=notify,
        )
    return dataclasses.replace(result, warnings=(*warnings, *result.warnings))


def _fit_in_memory(paths: Sequence[Path], model: Model, read_options: ReadOptions) -> bool:
    """Return True if recordings have few states, or contacts, which cannot be used in parts."""
    count = 0.0
    for path in paths:
        if not is_table(path):  # estimated from a typical size of messages
            source = open_source(path, max_chunk_size=read_options.max_chunk_size)
            size = sum(span.size for span in source.spans)
            count += size / (100.0 + 40.0 * model.nv)
            continue
        with name_file_in_errors(path):
            table = Columns(
                path,
                model,
                read_options.columns.get(path),
                max_chunk_size=read_options.max_chunk_size,
            )
            if table.owners("in_contact"):
                return True
            count += len(table)
    return count <= _MAX_SAMPLES_IN_MEMORY


def _require_no_contacts(paths: Sequence[Path], model: Model, read_options: ReadOptions) -> None:
    """Raise a ValueError if a table has contacts."""
    for path in paths:
        with name_file_in_errors(path):
            if is_table(path) and Columns(path, model, read_options.columns.get(path)).owners(
                "in_contact"
            ):
                raise ValueError(
                    "contacts, the columns in_contact, cannot be used when recordings "
                    "are processed in parts; leave out workers and scheduler, and "
                    "pass shorter recordings"
                )


def _plan_parts(
    workers: Workers, paths: Sequence[Path], read_options: ReadOptions, velocity: bool
) -> list[Call]:
    """Return calls that load the parts of all recordings."""
    parts: dict[int, list[Part]] = {}
    calls = deque(
        Call(open_parts, (read_options, path), recording=n) for n, path in enumerate(paths)
    )
    for call, handle, failure in run_calls(workers, calls):
        if failure is not None:
            raise ValueError(name_file(paths[call.recording], str(failure)))
        _, parts[call.recording] = workers.value(handle)
    load = partial(load_part, velocity=velocity)
    return [Call(load, (part,), part.size, recording=n) for n in sorted(parts) for part in parts[n]]


def load_part(
    cutoff: float | None, part: Part, velocity: bool = False
) -> tuple[Samples, np.ndarray]:
    """Load the samples of a part with its surroundings; return them, and the rows of the part.

    Errors name the file.
    """
    with name_file_in_errors(part.path):
        recording = read_part(part)
        if not len(recording):
            raise ValueError("a part of it contains no complete state")
        with_overlap = dataclasses.replace(recording, leading_count=0, trailing_count=0)
        is_known = np.isfinite(with_overlap.effort).all(axis=1)
        start = int(with_overlap.stamp[is_known][:1].sum())  # the time 0 of the samples
        samples = with_overlap.to_samples(cutoff=cutoff, velocity=velocity)
        ends = (1e-9 * (int(stamp) - start) for stamp in recording.stamp[[0, -1]])
        return samples, rows_between(samples, *ends)


def rows_between(samples: Samples, start: float, end: float) -> np.ndarray:
    """Return the rows of samples from one time to another [s]."""
    return np.flatnonzero((samples.time >= start) & (samples.time <= end))


def identify_parts(
    model: Model,
    calls: Sequence[Call],
    workers: Workers,
    options: IdentifyOptions,
    *,
    cutoff: float | None,
    progress: StageProgress,
    notify: Notify,
) -> Identification:
    """Estimate the parameters of a robot from parts of recordings.

    Each part is given by a call of a function such as ``load_part``, without its first argument,
    the cutoff of the filter [Hz]. The result has the samples of the first estimate, which is the
    result if it used all parts.
    """
    start_time = time.perf_counter()
    first_parts = spread_indices(len(calls), _MAX_FIRST_ESTIMATE_PARTS)
    cutoff = cutoff or _median_cutoff([calls[k] for k in first_parts], workers)
    first_solution, failures = _solve_first_parts(
        model, [calls[k] for k in first_parts], workers, cutoff, progress, notify, options
    )
    if len(first_parts) == len(calls):
        result = estimate_confidence_intervals(first_solution, start_time)
        warnings = _failure_warnings(failures, len(calls))
        progress(1.0, "done")
        return dataclasses.replace(result, warnings=(*result.warnings, *warnings))
    current_pass = part_sums.make_first_pass(first_solution, len(calls))
    for n in range(_MAX_PASSES):
        sum_calls = [
            _call_with_loader(
                partial(_compute_sums, current_pass, cutoff, k in first_parts, call.recording), call
            )
            for k, call in enumerate(calls)
        ]
        pass_progress = _make_pass_progress(1.0 - 0.7 * 0.5**n, progress)
        total, failures = _sum_parts(workers, sum_calls, pass_progress)
        fit, step = part_sums.fit_total(first_solution, current_pass, total)
        if n + 1 == _MAX_PASSES or not current_pass.requires_next_pass(fit, step, total):
            break
        current_pass = current_pass.make_next_pass(fit, step)
    warnings = _failure_warnings(failures, len(calls))
    result = part_sums.make_total_result(
        first_solution, current_pass, total, fit, step, warnings, time.perf_counter() - start_time
    )
    progress(1.0, "done")
    return result


def _failure_warnings(failures: Counter[str], count: int) -> list[str]:
    """Return a warning if parts were not used."""
    return [
        f"{failures.total()} of {count} parts of the recordings were not used, most "
        f"of them because: {reason}"
        for reason, _ in failures.most_common(1)
    ]


def spread_indices(count: int, max_count: int) -> list[int]:
    """Return at most ``max_count`` indices from 0 to ``count - 1``, evenly spaced."""
    return sorted({int(k) for k in np.linspace(0, count - 1, min(count, max_count)).round()})


def _numbered_outcomes(
    workers: Workers, calls: Sequence[Call], progress: StageProgress, label: str
) -> Iterator[tuple[int, Any, Failure | None]]:
    """Yield the index of each call as soon as it is done, the handle of its value, its failure."""
    numbered = deque(call._replace(number=n) for n, call in enumerate(calls))
    finished_size, total_size = 0.0, sum(call.size for call in calls) or 1.0
    for call, handle, failure in run_calls(workers, numbered):
        finished_size += call.size
        progress(min(finished_size / total_size, 1.0), label)
        yield call.number or 0, handle, failure


def _collect_values(
    workers: Workers, calls: Sequence[Call], progress: StageProgress
) -> tuple[list[tuple[Call, Any]], Counter[str]]:
    """Make calls; return them with their values, in their order, and count reasons of failures."""
    outcomes = sorted(
        _numbered_outcomes(workers, calls, progress, "reading"), key=lambda outcome: outcome[0]
    )
    values = [
        (calls[n], workers.value(handle)) for n, handle, failure in outcomes if failure is None
    ]
    if not values:
        reason = outcomes[-1][2] if outcomes else "there are no states; check since and until"
        raise ValueError(f"recordings: no part can be used: {reason}")
    return values, Counter(str(failure) for _, _, failure in outcomes if failure is not None)


def _call_with_loader(function: Callable[..., Any], part: Call) -> Call:
    """Return a call of a function of the loader of a part and the loader's arguments."""
    return part._replace(function=function, arguments=(part.function, *part.arguments))


def _median_cutoff(calls: Sequence[Call], workers: Workers) -> float:
    """Return the median of the cutoffs that a few parts suggest [Hz]."""
    indices = spread_indices(len(calls), _MAX_CUTOFF_PARTS)
    cutoff_calls = [_call_with_loader(_choose_cutoff, calls[k]) for k in indices]
    values, _ = _collect_values(workers, cutoff_calls, lambda fraction, label: None)
    return float(np.median([cutoff for _, cutoff in values]))


def _choose_cutoff(load: PartLoader, *arguments: Any) -> float:
    """Return the cutoff that the samples of a part suggest [Hz]."""
    return load(None, *arguments)[0].cutoff


def _load_part_samples(cutoff: float, load: PartLoader, *arguments: Any) -> Samples:
    """Return the samples of a part without its surroundings."""
    samples, rows = load(cutoff, *arguments)
    return samples.take(rows)


def _compute_sums(
    current_pass: part_sums.Pass,
    cutoff: float,
    is_in_first_estimate: bool,
    recording: int,
    load: PartLoader,
    *arguments: Any,
) -> part_sums.Sums:
    """Return the contribution of a part to the estimate."""
    samples, rows = load(cutoff, *arguments)
    if not len(rows):
        raise ValueError(_NO_SAMPLES)
    return current_pass.sum_part(samples, rows, is_in_first_estimate, recording)


def _solve_first_parts(
    model: Model,
    calls: Sequence[Call],
    workers: Workers,
    cutoff: float,
    progress: StageProgress,
    notify: Notify,
    options: IdentifyOptions,
) -> tuple[Solution, Counter[str]]:
    """Return an estimate from parts of recordings, and count reasons of parts not used."""
    loaded, failures = _collect_values(
        workers,
        [_call_with_loader(partial(_load_part_samples, cutoff), call) for call in calls],
        lambda fraction, label: progress(0.1 * fraction, label),
    )
    parts = [(call.recording, samples) for call, samples in loaded if len(samples)]
    failures.update((len(loaded) - len(parts)) * [_NO_SAMPLES])
    if not parts:
        raise ValueError(
            "recordings: the filter leaves no samples of any part; record for longer, "
            "or pass a larger cutoff"
        )
    samples = Samples.concatenate([samples for _, samples in parts])
    recordings = np.repeat(*np.transpose([(n, len(samples)) for n, samples in parts]))
    samples = dataclasses.replace(samples, recording=recordings.astype(np.int32))
    solution = estimate_parameters(
        model,
        samples,
        options,
        lambda fraction, label: progress(0.1 + 0.2 * fraction, label),
        notify,
    )
    return solution, failures


def _sum_parts(
    workers: Workers, calls: Sequence[Call], progress: StageProgress
) -> tuple[part_sums.Sums, Counter[str]]:
    """Return the sums of all parts, and count reasons of parts that contribute nothing."""
    total, failures = Reduction(workers, add_sums), Counter[str]()
    for number, handle, failure in _numbered_outcomes(workers, calls, progress, "equations"):
        total.put(number, [handle] if failure is None else [])
        if failure is not None:
            failures[str(failure)] += 1
    combined = total.finish()
    if not combined:
        raise ValueError(f"recordings: no part can be used: {failures.most_common(1)[0][0]}")
    return workers.value(combined[0]), failures


def _make_pass_progress(start: float, progress: StageProgress) -> StageProgress:
    """Return the progress of a pass: half of what remains, since another one may follow."""
    return lambda fraction, label: progress(start + 0.5 * (1.0 - start) * fraction, label)
