# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""A function of each part of many recordings, on this machine or a cluster."""

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

from ..engine.machine_code.workers import cores
from ..engine.model.model import RootJoint
from ..engine.model.moments import Moment
from ..recordings.formats.sources import discover
from ..recordings.formats.spans import Source
from ..recordings.options import ReadOptions, Robot
from ..recordings.part import read_part
from ..recordings.plan import Base, Part
from ..recordings.recording import Recording, thinned
from ..recordings.selection import prepare, robot_of
from ..states.joint_states import STALENESS
from . import kernels
from .run.jobs import Jobs, Progress, Workers
from .run.local_workers import Call, LocalWorkers
from .write.results import RecordingStat

_LISTED = 5  # failures in a warning


class Result(NamedTuple):
    """The value of a function for a part of a recording.

    Attributes
    ----------
    path : str
        Of the recording.
    number : int or None
        Of the part, in order of time from 0; None if the recording cannot be read.
    value : object
        What the function returned.
    error : str or None
        Why there is no value.

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
    progress: Progress | None = None,
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
) -> Any:
    """Call a function for each part of recordings, in several processes.

    A part contains some 100,000 states that follow each other. Where parts begin depends on the
    recording alone. Each state is in one part.

    Parameters
    ----------
    function : callable
        Called with a Recording, the part. Locally it has to be importable, such as a function of a
        module, and a script calls ``map`` below ``if __name__ == "__main__":``.
    recordings : str, PathLike, or iterable of them
        Files, folders and patterns.
    robot : Model, or path of a URDF, optional
        Default: the description in each recording.
    workers : int, optional
        Number of processes. Default: one for each core.
    scheduler : str, optional
        Address of the scheduler of a Dask cluster, which is used instead. Its workers read the
        recordings under the same paths.
    reduce : callable, optional
        Combines two values, as ``operator.add``. They are combined in order of time, eight at a
        time: the result does not depend on the number of processes.
    progress : callable, optional
        Called with the fraction that is done, and the recording that is being read.
    retries : int
        How often a part is repeated that ends its process. A cluster has its own setting.
    topics, odometry, since, until, joints, rate, staleness, root_joint, base
        As for ``read``.

    Returns
    -------
    iterator of Result, or the combined value
        Without ``reduce``: as soon as each is finished; closing the iterator ends the processes.
        With ``reduce``: parts that failed are left out, with a warning that names them.

    Raises
    ------
    ValueError
        No recordings, a function that cannot be sent to other processes, no scheduler at the
        address, or with ``reduce`` no value at all.

    Examples
    --------
    The number of states in all recordings of a folder:

    >>> import operator
    >>> dyn_ros.logs.map(len, folder.name, robot=model, workers=1, reduce=operator.add)
    2000
    """
    paths = discover(recordings)
    thinned(np.zeros(0, np.int64), rate)
    _require_sendable(function, reduce, scheduler)
    request = ReadOptions(
        robot=robot_of(robot, root_joint),
        odometry=odometry,
        since=since,
        until=until,
        topics=(topics,) if isinstance(topics, str) else None if topics is None else tuple(topics),
        joints=tuple(joints),
        staleness=staleness,
        root_joint=root_joint,
        base=base,
    )
    start = functools.partial(open_workers, workers, scheduler, retries)
    jobs = functools.partial(
        Jobs,
        plan=functools.partial(prepare, request),
        calls=functools.partial(_calls, functools.partial(_call, function, rate)),
        recordings=paths,
        sizes=[float(RecordingStat.of(path).size) for path in paths],
        progress=progress,
    )
    return (
        _each(start, jobs, paths)
        if reduce is None
        else _total(start, functools.partial(jobs, reduce=reduce), paths)
    )


def open_workers(
    workers: int | None, scheduler: str | None, retries: int = 2, fork: bool = False
) -> Workers:
    """Start processes on this machine, or connect to a cluster. ``fork``: see `LocalWorkers`."""
    if scheduler is not None:
        if workers is not None:
            raise ValueError(
                "workers: expected None with a scheduler, which has its own workers, "
                f"got {workers!r}"
            )
        from .run.cluster import ClusterWorkers

        return ClusterWorkers(scheduler)
    if workers is not None and workers < 1:
        raise ValueError(f"workers: expected at least 1, got {workers!r}")
    kernels.prepare()
    return LocalWorkers(workers or cores(), retries, fork)


def _call(function: Callable[[Recording], Any], rate: float | None, part: Part) -> Any:
    return function(read_part(part).thinned(rate))


def _require_sendable(function: Any, reduce: Any, scheduler: str | None) -> None:
    if not callable(function):
        raise ValueError(f"function: expected a function of a Recording, got {function!r:.80}")
    if scheduler is not None:  # which sends functions by their code
        return
    for name, value in (("function", function), ("reduce", reduce)):
        try:
            pickle.dumps(value)
        except Exception as error:
            raise ValueError(
                f"{name}: cannot be sent to other processes: {error}; define it in a "
                "module, not in another function"
            ) from None


def _each(
    start: Callable[[], Workers], jobs: Callable[[Workers], Jobs], paths: Sequence[Path]
) -> Iterator[Result]:
    with closing(start()) as workers:
        yield from _results(jobs(workers), paths)


def _results(jobs: Jobs, paths: Sequence[Path]) -> Iterator[Result]:
    for call, value, failure in jobs:
        if failure is not None or call.number is not None:
            yield Result(
                str(paths[call.recording]),
                call.number,
                value,
                None if failure is None else str(failure),
            )


def _total(
    start: Callable[[], Workers], jobs: Callable[[Workers], Jobs], paths: Sequence[Path]
) -> Any:
    with closing(start()) as workers:
        combined = jobs(workers)
        failed = [result for result in _results(combined, paths) if result.error is not None]
        if not combined.total:
            reason = f": {failed[0].path}: {failed[0].error}" if failed else ""
            raise ValueError(f"recordings: there is no value to combine{reason}")
        if failed:
            names = "; ".join(f"{result.path}: {result.error}" for result in failed[:_LISTED])
            warnings.warn(
                f"{len(failed)} parts or recordings are left out: {names}",
                RuntimeWarning,
                stacklevel=3,
            )
        return combined.total[0]


def _calls(
    function: Callable[..., Any], index: int, prepared: tuple[Source, list[Part]]
) -> tuple[list[Call], float]:
    _, parts = prepared
    return [Call(function, (part,), part.size, part.number) for part in parts], 0.0
