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
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
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
from ..identification.identify import solution
from ..identification.least_squares import Estimate, block_length, estimate, small_sample
from ..identification.physical import physical_parameters
from ..identification.solution import Solution, joint_results
from ..states.joint_states import STALENESS
from .formats import TABLES
from .formats.sources import discover, open_source
from .parallel import open_workers
from .part import read_part
from .recording import read, recording_of
from .run.jobs import Progress, Total, Workers, completed
from .run.plan import Moment, Part
from .run.workers import Call, Failure
from .selection import Prepared, Request, Selection, prepare
from .stage import Load, Stage, Sums, add

_FIRST = 16             # parts of which the first estimate is made, at most
_CUTOFFS = 5            # of these, whose spectra decide the filter
_WEIGHTINGS = 6         # passes over all parts, at most
_PRECISION = 0.05       # of the standard deviation of an estimate

_MOST = 1_000_000       # samples that are kept in memory
_SIZE = 8e6             # of a part [bytes]
_OVERLAP = 1.0          # s, of which the filter drops some


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
    paths = discover(recordings)
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
    with closing(open_workers(workers, scheduler)) as processes:
        parts = _all_parts(processes, paths, request)
        return identify_parts(model, parts, processes, cutoff=cutoff, progress=progress, **options)


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
    return path.suffix.lower() in TABLES


def _require_no_contacts(paths: Sequence[Path]) -> None:
    for path in paths:
        if _is_table(path) and Columns(path).owners("in_contact"):
            raise ValueError(f"{path}: contacts, the columns in_contact, are not known where "
                             "recordings are processed in parts: leave out workers and scheduler, "
                             "and pass shorter recordings")


def _all_parts(workers: Workers, paths: Sequence[Path], request: Request) -> list[Call]:
    """A call that loads each part of all recordings."""
    prepared: dict[int, Prepared] = {}
    calls = deque(Call(prepare, (request, path), recording=n) for n, path in enumerate(paths))
    for call, held, failure in completed(workers, calls):
        if failure is not None:
            raise ValueError(f"{paths[call.recording]}: {failure}")
        prepared[call.recording] = workers.value(held)
    return [Call(load_part, (prepared[n].selection, part), part.size)
            for n in sorted(prepared) for part in prepared[n].parts]


def load_part(cutoff: float | None, selection: Selection,
              planned: Part) -> tuple[Samples, float, float]:
    """Samples of a part and of what surrounds it; the times of its own first and last state."""
    part = read_part(planned, selection)
    own = part.own.stamp
    if not len(own):
        raise ValueError("it contains no complete state")
    recording = recording_of(part, selection, planned.path, whole=True)
    known = np.isfinite(recording.effort).all(axis=1)
    start = int(recording.stamp[known][:1].sum())       # the time 0 of the samples
    samples = recording.to_samples(cutoff=cutoff)
    return samples, 1e-9 * (int(own[0]) - start), 1e-9 * (int(own[-1]) - start)


def identify_parts(model: Model, parts: Sequence[Call], workers: Workers, *,
                   cutoff: float | None, progress: Progress, **options: Any) -> Identification:
    """Estimate the parameters of a robot from parts of recordings.

    A part is a call in a worker, whose function gets the cutoff of the filter [Hz] before its
    arguments. It returns the samples of the part and of what surrounds it, and the times of the
    first and the last one that belong to it. The options are those of ``solution``. The samples of
    the result are those of the first estimate.
    """
    began = time.perf_counter()
    some = evenly(len(parts), _FIRST)
    cutoff = cutoff or _cutoff(parts, some, workers)
    first = _first_solution(model, [parts[k] for k in some], workers, cutoff, progress, options)
    stage = _stage(first, cutoff, len(parts) / len(some), options)
    known = set(some)
    for n in range(_WEIGHTINGS):
        total = _total(workers, stage, parts, known, _from(1.0 - 0.7 * 0.5 ** n, progress))
        estimated = _estimate(first, total)
        if not _depends(stage, estimated, total):
            break
        stage = dataclasses.replace(stage, estimate=estimated.parameters)
    result = _final(first, stage, total, estimated, len(parts), time.perf_counter() - began)
    progress(1.0, "done")
    return result


def evenly(count: int, most: int) -> list[int]:
    """Indices of at most so many of ``count`` parts, from the first to the last."""
    return sorted({int(k) for k in np.linspace(0, count - 1, min(count, most)).round()})


def _of_each(workers: Workers, calls: Sequence[Call], progress: Progress, what: str
             ) -> Iterator[tuple[int, Any, Failure | None]]:
    """Yield the place of each call in the sequence as soon as it is done, and its outcome."""
    numbered = deque(call._replace(number=n) for n, call in enumerate(calls))
    done, size = 0.0, sum(call.size for call in calls) or 1.0
    for call, held, failure in completed(workers, numbered):
        done += call.size
        progress(min(done / size, 1.0), what)
        yield call.number or 0, held, failure


def _collected(workers: Workers, calls: Sequence[Call], progress: Progress) -> list[Any]:
    """The values of calls, in their order; without those that failed."""
    values, reason = {}, None
    for number, held, failure in _of_each(workers, calls, progress, "reading"):
        if failure is None:
            values[number] = workers.value(held)
        else:
            reason = failure
    if not values:
        raise ValueError(f"recordings: no part can be used: {reason or 'they are empty'}")
    return [values[n] for n in sorted(values)]


def _with(function: Callable[..., Any], part: Call) -> Call:
    """A call of a function with that of a part, and its arguments."""
    return part._replace(function=function, arguments=(part.function, *part.arguments))


def _cutoff(parts: Sequence[Call], some: Sequence[int], workers: Workers) -> float:
    """The median of what the spectra of a few parts suggest."""
    calls = [_with(_chosen_cutoff, parts[some[k]]) for k in evenly(len(some), _CUTOFFS)]
    return float(np.median(_collected(workers, calls, lambda done, what: None)))


def _chosen_cutoff(load: Load, *arguments: Any) -> float:
    return load(None, *arguments)[0].cutoff


def _inside(cutoff: float, load: Load, *arguments: Any) -> Samples:
    """The samples that belong to a part."""
    samples, first, last = load(cutoff, *arguments)
    return samples.take((samples.time >= first) & (samples.time <= last))


def _first_solution(model: Model, parts: Sequence[Call], workers: Workers, cutoff: float,
                    progress: Progress, options: dict[str, Any]) -> Solution:
    samples = _collected(workers, [_with(partial(_inside, cutoff), part) for part in parts],
                         lambda done, what: progress(0.1 * done, what))
    filled = [block for block in samples if len(block)]
    if not filled:
        raise ValueError("recordings: the filter leaves no samples of any part; record for longer, "
                         "or pass a larger cutoff")
    joined = Samples.concatenate(filled)
    joined = dataclasses.replace(joined, warnings=tuple(dict.fromkeys(joined.warnings)))
    return solution(model, joined, progress=lambda done, what: progress(0.1 + 0.2 * done, what),
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
        conditions=first.equations.conditions, independent=problem.base.independent,
        estimate=fitted.estimate.parameters,
        limit=huber * fitted.estimate.noise / np.sqrt(fitted.correlations),
        noise=fitted.estimate.noise, huber=huber, models=(first.described, fitted.parameters),
        length=block_length(problem.base, int(share * len(first.samples)), fitted.correlations))


def _total(workers: Workers, stage: Stage, parts: Sequence[Call], known: set[int],
           progress: Progress) -> Sums:
    calls = [_with(partial(stage.sums, n in known), part) for n, part in enumerate(parts)]
    total, failures = Total(workers, add), Counter[str]()
    for number, held, failure in _of_each(workers, calls, progress, "equations"):
        total.put(number, [held] if failure is None else [])
        if failure is not None:
            failures[str(failure)] += 1
    combined = total.finish()
    if not combined:
        raise ValueError(f"recordings: no part can be used: {failures.most_common(1)[0][0]}")
    sums: Sums = workers.value(combined[0])
    return sums._replace(left_out=sums.left_out + failures)


def _from(start: float, progress: Progress) -> Progress:
    """Progress of which half of what is left belongs to this pass; another one may follow."""
    return lambda done, what: progress(start + 0.5 * (1.0 - start) * done, what)


def _estimate(first: Solution, total: Sums) -> Estimate:
    problem, before = first.problem, first.fitted
    noise = problem.noise if problem.huber is None else before.estimate.noise
    estimated = estimate(problem.unknowns, problem.base, problem.scale, total.equations, noise,
                     before.correlations)
    return estimated.moved(problem.base, before.shift)


def _depends(stage: Stage, estimated: Estimate, total: Sums) -> bool:
    """Whether the estimate depends on the one that decided which residuals are outliers.

    An error of that one appears in the next one times the fraction of outliers.
    """
    deviation = np.sqrt(np.maximum(np.diag(estimated.inverse), 1e-300))
    change = np.abs(estimated.parameters - stage.estimate)[stage.independent] / deviation
    return bool(total.outliers * change.max(initial=0.0) > _PRECISION * max(total.rows, 1))


def _final(first: Solution, stage: Stage, total: Sums, estimated: Estimate, count: int,
           seconds: float) -> Identification:
    """The result, from the sums of all parts."""
    problem, before = first.problem, first.fitted
    parameters = physical_parameters(problem.unknowns, total.equations, estimated.noise,
                                     before.shift, problem.reference, problem.regularization,
                                     before.parameters)
    fitted = before._replace(estimate=estimated, parameters=parameters,
                             outliers=total.outliers / max(total.rows, 1))
    joints = first.joints
    if total.squares.counts[0].any():
        joints = joint_results(stage.model, total.squares,
                               np.array([joint.noise for joint in joints]))
    warnings = list(first.warnings)
    if left_out := sum(total.left_out.values()):
        warnings.append(f"{left_out} of {count} parts of the recordings were not used, most of "
                        f"them because: {total.left_out.most_common(1)[0][0]}")
    spread = (estimated.inverse @ total.scatter.centered() @ estimated.inverse
              * small_sample(int(total.scatter.blocks), len(problem.base), stage.model.nv))
    return first._replace(fitted=fitted, joints=joints, warnings=tuple(warnings)).identification(
        spread, int(total.scatter.blocks), total.size, seconds)
