# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Calls of a function for each part of many recordings, on this machine or a cluster."""

from __future__ import annotations

import functools
import pickle
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..engine.kernel.names import short_repr
from ..engine.machine_code.workers import processor_count
from ..engine.model.model import RootJoint
from ..engine.model.moments import Moment
from ..files.limits import MAX_CHUNK_SIZE
from ..recordings.formats.sources import find_recordings
from ..recordings.formats.spans import Source
from ..recordings.options import ReadOptions, Robot
from ..recordings.part import read_part
from ..recordings.plan import Base, Part
from ..recordings.recording import Recording, rate_mask
from ..recordings.selection import load_robot, open_parts
from ..states.joint_states import STALENESS
from . import kernels
from .run.jobs import Jobs, StageProgress, Workers
from .run.local_workers import Call, LocalWorkers
from .write.results import RecordingStat

_MAX_LISTED_FAILURES = 5


class Result(NamedTuple):
    """The value of a function for a part of a recording.

    Attributes
    ----------
    path : str
        Path of the recording.
    number : int or None
        Number of the part, in order of time from 0; None if the recording cannot be read.
    value : object
        Return value of the function.
    error : str or None
        Reason why there is no value.

    Examples
    --------
    >>> [result] = dyn_ros.logs.map(len, recording_file, robot=model, workers=1)
    >>> result.number, result.value, result.error
    (0, 2000, None)
    """

    path: str
    number: int | None
    value: Any
    error: str | None


def map(
    function: Callable[[Recording], Any],
    recordings: str | PathLike[str] | Iterable[str | PathLike[str]],
    *,
    robot: Robot = None,
    workers: int | None = None,
    scheduler: str | None = None,
    reduce: Callable[[Any, Any], Any] | None = None,
    progress: StageProgress | None = None,
    retries: int = 2,
    topics: str | Iterable[str] | None = None,
    odometry: str | None = None,
    since: Moment | None = None,
    until: Moment | None = None,
    joints: Sequence[str] = (),
    rate: float | None = None,
    staleness: float = STALENESS,
    root_joint: RootJoint = None,
    base: Base | None = None,
    max_chunk_size: float = MAX_CHUNK_SIZE,
) -> Any:
    """Call a function for each part of recordings, in several processes.

    A part is an interval of a recording with about 100,000 states. Each state is in one part; the
    division depends on the recording only.

    Parameters
    ----------
    function : callable
        Function of a Recording, which is the part. Locally it has to be importable, such as a
        function of a module, and a script calls ``map`` below ``if __name__ == "__main__":``.
    recordings : str, PathLike, or iterable of them
        Files, folders and patterns.
    robot : Model, or path of a URDF, optional
        Default: the description in each recording.
    workers : int, optional
        Number of processes. Default: one for each core.
    scheduler : str, optional
        Address of the scheduler of a Dask cluster to use instead. Its workers read the recordings
        under the same paths.
    reduce : callable, optional
        Function that combines two values, such as ``operator.add``. Values are combined in order of
        time, eight at a time, so the result does not depend on the number of processes.
    progress : callable, optional
        Called with the fraction that is done, and the recording that is being read.
    retries : int
        Number of times that a part is repeated if its process dies. A cluster has its own setting.
    topics, odometry, since, until, joints, rate, staleness, root_joint, base, max_chunk_size
        As for ``read``.

    Returns
    -------
    iterator of Result, or the combined value
        Without ``reduce``, results in the order in which parts are finished; closing the iterator
        ends the processes. With ``reduce``, the value of all parts; a warning names parts that
        failed, which are left out.

    Raises
    ------
    ValueError
        There are no recordings, the function cannot be sent to other processes, no scheduler
        answers at the address, or with ``reduce`` there is no value at all.

    Examples
    --------
    The number of states in all recordings of a folder:

    >>> import operator
    >>> dyn_ros.logs.map(len, folder.name, robot=model, workers=1, reduce=operator.add)
    2000
    """
    paths = find_recordings(recordings)
    rate_mask(np.zeros(0, np.int64), rate)  # raises a ValueError for a rate that is not valid
    _require_sendable(function, reduce, scheduler)
    read_options = ReadOptions(
        robot=load_robot(robot, root_joint),
        odometry=odometry,
        since=since,
        until=until,
        topics=(topics,) if isinstance(topics, str) else None if topics is None else tuple(topics),
        joints=tuple(joints),
        staleness=staleness,
        root_joint=root_joint,
        base=base,
        max_chunk_size=max_chunk_size,
    )
    start_workers = functools.partial(open_workers, workers, scheduler, retries)
    make_jobs = functools.partial(
        Jobs,
        plan_recording=functools.partial(open_parts, read_options),
        make_part_calls=functools.partial(
            _make_part_calls, functools.partial(_call_with_part, function, rate)
        ),
        recordings=paths,
        sizes=[float(RecordingStat.of_path(path).size) for path in paths],
        progress=progress,
    )
    return (
        _iterate_results(start_workers, make_jobs, paths)
        if reduce is None
        else _reduce_values(start_workers, functools.partial(make_jobs, reduce=reduce), paths)
    )


MAX_WORKERS = 64
"""Processes that may be started on any machine; each takes about 70 MB."""

WORKERS_PER_PROCESSOR = 4
"""Processes that may be started for each processor core, if these are more than `MAX_WORKERS`."""


def open_workers(
    workers: int | None, scheduler: str | None, retries: int = 2, fork: bool = False
) -> Workers:
    """Start processes on this machine, or connect to a cluster. ``fork``: see `LocalWorkers`."""
    if scheduler is not None:
        if workers is not None:
            raise ValueError(
                "workers: expected None with a scheduler, which has its own workers, "
                f"got {short_repr(workers)}"
            )
        from .run.cluster import ClusterWorkers

        return ClusterWorkers(scheduler)
    if workers is not None and workers < 1:
        raise ValueError(f"workers: expected at least 1, got {short_repr(workers)}")
    limit = max(MAX_WORKERS, WORKERS_PER_PROCESSOR * processor_count())
    if workers is not None and workers > limit:
        raise ValueError(
            f"workers: expected at most {limit} for {processor_count()} processor cores, got "
            f"{short_repr(workers)}"
        )
    kernels.compile_kernels()
    return LocalWorkers(workers or processor_count(), retries, fork)


def _call_with_part(function: Callable[[Recording], Any], rate: float | None, part: Part) -> Any:
    """Call a function with a part, thinned to a rate [1/s]."""
    return function(read_part(part).thinned(rate))


def _require_sendable(function: Any, reduce: Any, scheduler: str | None) -> None:
    """Raise a ValueError if a function cannot be sent to other processes."""
    if not callable(function):
        raise ValueError(
            f"function: expected a function of a Recording, got {short_repr(function)}"
        )
    if scheduler is not None:  # a cluster sends functions by their code
        return
    for name, value in (("function", function), ("reduce", reduce)):
        try:
            pickle.dumps(value)
        except Exception as error:
            raise ValueError(
                f"{name}: cannot be sent to other processes: {error}; define it in a "
                "module, not in another function"
            ) from None


def _iterate_results(
    start_workers: Callable[[], Workers],
    make_jobs: Callable[[Workers], Jobs],
    paths: Sequence[Path],
) -> Iterator[Result]:
    """Yield the result of each part as soon as it is done."""
    with closing(start_workers()) as workers:
        yield from _iterate_part_results(make_jobs(workers), paths)


def _iterate_part_results(jobs: Jobs, paths: Sequence[Path]) -> Iterator[Result]:
    """Yield the results of parts, and of recordings that cannot be read."""
    for call, value, failure in jobs:
        if failure is not None or call.number is not None:
            yield Result(
                str(paths[call.recording]),
                call.number,
                value,
                None if failure is None else str(failure),
            )


def _reduce_values(
    start_workers: Callable[[], Workers],
    make_jobs: Callable[[Workers], Jobs],
    paths: Sequence[Path],
) -> Any:
    """Return the combined value of all parts; warn of parts that failed."""
    with closing(start_workers()) as workers:
        jobs = make_jobs(workers)
        failed = [
            result for result in _iterate_part_results(jobs, paths) if result.error is not None
        ]
        if not jobs.total:
            reason = f": {failed[0].path}: {failed[0].error}" if failed else ""
            raise ValueError(f"recordings: there is no value to combine{reason}")
        if failed:
            listed = failed[:_MAX_LISTED_FAILURES]
            errors = "; ".join(f"{result.path}: {result.error}" for result in listed)
            warnings.warn(
                f"{len(failed)} parts or recordings are left out: {errors}",
                RuntimeWarning,
                stacklevel=3,
            )
        return jobs.total[0]


def _make_part_calls(
    function: Callable[..., Any], index: int, prepared: tuple[Source, list[Part]]
) -> tuple[list[Call], float]:
    """Return a call for each part, and 0, the size of parts that need no work, for `Jobs`."""
    _, parts = prepared
    return [Call(function, (part,), part.size, part.number) for part in parts], 0.0
