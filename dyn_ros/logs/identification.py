# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Identification from recordings that are too long for the memory of one process.

A first estimate from some parts, evenly spread over the recordings, decides which equations count:
the noise of each joint, outliers, what is near reversals. Then the normal equations of all parts
are computed, each part in a worker, and added up as a tree. This is repeated only if there are so
many outliers that the first estimate matters.
"""
from __future__ import annotations

import dataclasses
import math
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from ..engine.kernel.types import ArrayLike
from ..engine.model import Model
from ..identification import Identification, Samples
from ..identification import identify as identify_samples
from ..identification.columns import Columns
from ..identification.identify import Solution, joint_results, solution
from ..identification.least_squares import Estimate, block_length, estimate, small_sample
from ..identification.physical import physical_parameters
from ..states.joint_states import STALENESS
from .files import discover, open_source
from .jobs import Done, Jobs, Part, Progress
from .parallel import open_workers
from .part import states
from .plan import Moment, Task
from .prepare import Prepared, Request, prepare
from .recording import read, recording_of
from .selection import Selection
from .stage import Load, Stage, Sums, add
from .workers import Workers

_FIRST = 16             # parts of which the first estimate is made, at most
_CUTOFFS = 5            # of these, whose spectra decide the filter
_WEIGHTINGS = 6         # passes over all parts, at most
_PRECISION = 0.05       # of the standard deviation of an estimate

_MOST = 1_000_000       # samples that are kept in memory
_SIZE = 8e6             # of a part [bytes]
_OVERLAP = 1.0          # s, of which the filter drops some
_TABLES = ".csv", ".parquet"


def identify(model: Model, recordings: str | PathLike[str] | Iterable[str | PathLike[str]], *,
             cutoff: float | None = None, armature: bool = True, friction: bool = True,
             stribeck: ArrayLike | None = None, motor_constants: ArrayLike | None = None,
             noise: ArrayLike | None = None, regularization: float = 1.0,
             huber: float | None = 3.0, held_out: float = 0.2, seed: int = 0, threads: int = 1,
             contact_dimension: int = 3, topics: Iterable[str] | None = None,
             odometry: str | None = None, since: Moment | None = None,
             until: Moment | None = None, staleness: float = STALENESS,
             workers: int | None = None, scheduler: str | None = None,
             progress: Progress | None = None) -> Identification:
    """Estimate the parameters of a robot from recordings of any kind and length.

    Recordings of up to a million states are read into memory, as ``dyn_ros.identify`` requires.
    Longer ones, and all with ``workers`` or ``scheduler``, are processed in parts: a first estimate
    from some of them decides about noise and outliers, then the normal equations of all parts are
    added up. Where both are possible, the estimates differ by less than a tenth of their standard
    deviations. The errors of ``Identification.joints`` are then those of the first estimate, on all
    parts that it does not know.

    Parameters
    ----------
    model : Model
    recordings : str, PathLike, or iterable of them
        Files, folders and patterns.
    cutoff : float, optional
        Of the filter of the positions [Hz]; see ``Samples.from_arrays``.
    armature, friction, stribeck, motor_constants, noise, regularization, huber, held_out, seed
        As for ``dyn_ros.identify``.
    threads : int
        Number of threads, in memory.
    contact_dimension : int
        As for ``dyn_ros.identify``. Contacts are read from tables only, in memory.
    topics, odometry, since, until, staleness
        As for ``read``.
    workers, scheduler
        As for ``map``.
    progress : callable, optional
        Called with the fraction that is done, and a word for what is being done.

    Returns
    -------
    Identification

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
    progress = progress or (lambda done, what: None)
    given = [recordings] if isinstance(recordings, (str, PathLike)) else recordings
    paths = discover(given)
    options: dict[str, Any] = dict(
        armature=armature, friction=friction, stribeck=stribeck, motor_constants=motor_constants,
        noise=noise, regularization=regularization, huber=huber, held_out=held_out, seed=seed,
        threads=threads, contact_dimension=contact_dimension)
    request = Request(robot=model, topics=None if topics is None else tuple(topics),
                      odometry=odometry, since=since, until=until, staleness=staleness,
                      overlap=(_OVERLAP, _OVERLAP), size=_SIZE)
    if workers is None and scheduler is None and _states(paths, model) <= _MOST:
        samples = [_samples(path, model, request, cutoff) for path in paths]
        return identify_samples(model, samples, progress=progress, **options)
    _require_no_contacts(paths)
    processes = open_workers(workers, scheduler)
    try:
        parts = _all_parts(processes, paths, request)
        return identify_parts(model, parts, load_part, processes, cutoff=cutoff, progress=progress,
                              **options)
    finally:
        processes.close()


def _states(paths: Sequence[Path], model: Model) -> float:
    """About how many states recordings have."""
    message = 100.0 + 40.0 * model.nv           # bytes
    return sum(span.size for path in paths for span in open_source(path).spans) / message


def _samples(path: Path, model: Model, request: Request, cutoff: float | None) -> Samples:
    if _is_table(path):
        return Samples.from_table(model, path, cutoff=cutoff)
    recording = read(path, model, topics=request.topics, odometry=request.odometry,
                     since=request.since, until=request.until, staleness=request.staleness)
    return recording.to_samples(model, cutoff)


def _is_table(path: Path) -> bool:
    return path.suffix.lower() in _TABLES


def _require_no_contacts(paths: Sequence[Path]) -> None:
    for path in paths:
        if _is_table(path) and Columns(path).owners("in_contact"):
            raise ValueError(f"{path}: contacts, the columns in_contact, are not known where "
                             "recordings are processed in parts: leave out workers and scheduler, "
                             "and pass shorter recordings")


def _all_parts(workers: Workers, paths: Sequence[Path], request: Request) -> list[Part]:
    """The parts of all recordings."""
    found: dict[int, Prepared] = {}
    for event in Jobs(workers, partial(prepare, request), lambda index, described: ([], 0.0),
                      load_part, paths, [1.0] * len(paths)):
        if event.failure is not None:
            raise ValueError(f"{paths[event.recording]}: {event.failure}")
        found[event.recording] = event.value
    return [Part(task.number, (found[n].selection, task), task.size)
            for n in sorted(found) for task in found[n].tasks]


def load_part(cutoff: float | None, selection: Selection,
              task: Task) -> tuple[Samples, float, float]:
    """Samples of a part and of what surrounds it; the times of its own first and last state."""
    part = states(task, selection)
    own = part.own.stamp
    if not len(own):
        raise ValueError("it contains no complete state")
    recording = recording_of(part, selection, task.path, whole=True)
    known = np.isfinite(recording.effort).all(axis=1)
    start = int(recording.stamp[known][:1].sum())       # the time 0 of the samples
    samples = recording.to_samples(cutoff=cutoff)
    return samples, 1e-9 * (int(own[0]) - start), 1e-9 * (int(own[-1]) - start)


def identify_parts(model: Model, parts: Sequence[Part], load: Load, workers: Workers, *,
                   cutoff: float | None, progress: Progress, **options: Any) -> Identification:
    """Estimate the parameters of a robot from parts of recordings.

    Parameters
    ----------
    model : Model
    parts : sequence of Part
        Of all recordings.
    load : callable
        ``load(cutoff, *part.arguments)`` is called in a worker. It returns the samples of a part
        and of what surrounds it, and the times of the first and the last one that belong to it.
    workers : Workers
    cutoff : float or None
        Of the filter [Hz].
    progress : callable
    **options
        All those of ``solution``.

    Returns
    -------
    Identification
        Its samples are those of the first estimate.

    Raises
    ------
    ValueError
        As ``dyn_ros.identify``; or no part can be used.
    """
    began = time.perf_counter()
    some = evenly(len(parts), _FIRST)
    cutoff = cutoff or _cutoff(parts, some, load, workers)
    first = _first_solution(model, [parts[k] for k in some], load, workers, cutoff, progress,
                            options)
    stage = _stage(first, cutoff, len(parts) / len(some), options)
    known = set(some)
    for n in range(_WEIGHTINGS):
        total = _total(workers, stage, load, parts, known, _from(1.0 - 0.7 * 0.5 ** n, progress))
        found = _estimate(first, total)
        if not _depends(stage, found, total):
            break
        stage = dataclasses.replace(stage, estimate=found.parameters)
    result = _final(first, stage, total, found, len(parts), time.perf_counter() - began)
    progress(1.0, "done")
    return result


def evenly(count: int, most: int) -> list[int]:
    """Indices of at most so many of ``count`` parts, from the first to the last."""
    return sorted({int(k) for k in np.linspace(0, count - 1, min(count, most)).round()})


def _collected(workers: Workers, parts: Sequence[Part], function: Callable[..., Any],
               progress: Progress) -> list[Any]:
    """The values of a function of each part, in their order; without those that failed."""
    numbered = [part._replace(number=n) for n, part in enumerate(parts)]
    found, reason = {}, None
    for event in Jobs(workers, None, lambda index, described: (described, 0.0), function,
                      [numbered], [1.0], progress=lambda done, what: progress(done, "reading")):
        if isinstance(event, Done) and event.failure is None:
            found[event.number] = event.value
        else:
            reason = event.failure
    if not found:
        raise ValueError(f"recordings: no part can be used: {reason or 'they are empty'}")
    return [found[n] for n in sorted(found)]


def _cutoff(parts: Sequence[Part], some: Sequence[int], load: Load, workers: Workers) -> float:
    """The median of what the spectra of a few parts suggest."""
    chosen = [parts[some[k]] for k in evenly(len(some), _CUTOFFS)]
    found = _collected(workers, chosen, partial(_chosen_cutoff, load), lambda done, what: None)
    return float(np.median(found))


def _chosen_cutoff(load: Load, *arguments: Any) -> float:
    return load(None, *arguments)[0].cutoff


def _inside(load: Load, cutoff: float, *arguments: Any) -> Samples:
    """The samples that belong to a part."""
    samples, first, last = load(cutoff, *arguments)
    return samples.take((samples.time >= first) & (samples.time <= last))


def _first_solution(model: Model, parts: Sequence[Part], load: Load, workers: Workers,
                    cutoff: float, progress: Progress, options: dict[str, Any]) -> Solution:
    samples = _collected(workers, parts, partial(_inside, load, cutoff),
                         lambda done, what: progress(0.1 * done, what))
    filled = [each for each in samples if len(each)]
    if not filled:
        raise ValueError("recordings: the filter leaves no samples of any part; record for longer, "
                         "or pass a larger cutoff")
    whole = Samples.concatenate(filled)
    whole = dataclasses.replace(whole, warnings=tuple(dict.fromkeys(whole.warnings)))
    return solution(model, whole, progress=lambda done, what: progress(0.1 + 0.2 * done, what),
                    **options)


def _stage(first: Solution, cutoff: float, share: float, options: dict[str, Any]) -> Stage:
    """What the first estimate decides; all samples are ``share`` times those that it knows."""
    problem, fitted, nv = first.problem, first.fitted, first.problem.unknowns.model.nv
    constants = options["motor_constants"]
    huber = problem.huber or math.inf
    return Stage(
        model=problem.unknowns.model, chosen=first.chosen, velocity=first.velocity,
        constants=np.ones(nv) * (1.0 if constants is None else constants),
        contact_dimension=first.contact_dimension,
        has_contacts=bool(first.samples.contacts), cutoff=cutoff,
        conditions=first.recording.conditions, independent=problem.base.independent,
        estimate=fitted.estimate.parameters,
        limit=huber * fitted.estimate.noise / np.sqrt(fitted.correlations),
        noise=fitted.estimate.noise, huber=huber, models=(first.described, fitted.parameters),
        length=block_length(problem.base, int(share * len(first.samples)), fitted.correlations))


def _total(workers: Workers, stage: Stage, load: Load, parts: Sequence[Part], known: set[int],
           progress: Progress) -> Sums:
    calls = [Part(n, (load, n in known, *part.arguments), part.size)
             for n, part in enumerate(parts)]
    jobs = Jobs(workers, None, lambda index, described: (described, 0.0), stage.sums, [calls],
                [1.0], reduce=add, progress=lambda done, what: progress(done, "equations"))
    failures = Counter(str(event.failure) for event in jobs if event.failure is not None)
    if jobs.total is None:
        raise ValueError(f"recordings: no part can be used: {failures.most_common(1)[0][0]}")
    total: Sums = workers.value(jobs.total)
    return total._replace(left_out=total.left_out + failures)


def _from(start: float, progress: Progress) -> Progress:
    """Progress of which half of what is left belongs to this pass; another one may follow."""
    return lambda done, what: progress(start + 0.5 * (1.0 - start) * done, what)


def _estimate(first: Solution, total: Sums) -> Estimate:
    problem, before = first.problem, first.fitted
    noise = problem.noise if problem.huber is None else before.estimate.noise
    found = estimate(problem.unknowns, problem.base, problem.scale, total.equations, noise,
                     before.correlations)
    return found.moved(problem.base, before.shift)


def _depends(stage: Stage, found: Estimate, total: Sums) -> bool:
    """Whether the estimate depends on the one that decided which residuals are outliers.

    An error of that one appears in the next one times the fraction of outliers.
    """
    deviation = np.sqrt(np.maximum(np.diag(found.inverse), 1e-300))
    change = np.abs(found.parameters - stage.estimate)[stage.independent] / deviation
    return bool(total.outliers * change.max(initial=0.0) > _PRECISION * max(total.rows, 1))


def _final(first: Solution, stage: Stage, total: Sums, found: Estimate, count: int,
           seconds: float) -> Identification:
    """The result, from the sums of all parts."""
    problem, before = first.problem, first.fitted
    parameters = physical_parameters(problem.unknowns, total.equations, found.noise,
                                     before.shift, problem.reference, problem.regularization,
                                     before.parameters)
    fitted = before._replace(estimate=found, parameters=parameters,
                             outliers=total.outliers / max(total.rows, 1))
    joints = first.joints
    if total.squares.counts[0].any():
        joints = joint_results(stage.model, total.squares,
                               np.array([joint.noise for joint in joints]))
    warnings = list(first.warnings)
    if left_out := sum(total.left_out.values()):
        warnings.append(f"{left_out} of {count} parts of the recordings were not used, most of "
                        f"them because: {total.left_out.most_common(1)[0][0]}")
    spread = (found.inverse @ total.scatter.centered() @ found.inverse
              * small_sample(int(total.scatter.blocks), len(problem.base), stage.model.nv))
    return first._replace(fitted=fitted, joints=joints, warnings=tuple(warnings)).identification(
        spread, int(total.scatter.blocks), total.size, seconds)
