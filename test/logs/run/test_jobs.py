# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Jobs in processes of this machine: order, failures, processes that die."""

import operator
import os
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from logs import part_functions as functions

from dyn_ros.logs.run.jobs import Jobs
from dyn_ros.logs.run.local_workers import Call, Failure, LocalWorkers


@pytest.fixture(scope="module")
def workers():
    workers = LocalWorkers(2, retries=2)
    yield workers
    workers.close()


def calls(function, counts):
    return lambda index, planned: (
        [Call(function, (counts[index], n), number=n) for n in planned],
        0.0,
    )


def jobs_of(workers, function, counts, **options):
    return Jobs(
        workers, functions.plan, calls(function, counts), counts, [1.0] * len(counts), **options
    )


class Done(NamedTuple):
    """A part that was processed, or a recording that was planned, without a number."""

    recording: int
    number: int | None
    value: Any
    failure: Failure | None


def events_of(jobs):
    return (Done(call.recording, call.number, value, failure) for call, value, failure in jobs)


def run_jobs(workers, function, counts, **options):
    jobs = jobs_of(workers, function, counts, **options)
    return jobs, list(events_of(jobs))


def part_events(events):
    return [event for event in events if event.number is not None]


def test_each_part_is_done_once(workers):
    counts, progress = [3, 0, 20], []
    _, events = run_jobs(
        workers,
        functions.part_text,
        counts,
        progress=lambda fraction, name: progress.append((fraction, name)),
    )
    done = part_events(events)
    assert sorted((event.recording, event.number) for event in done) == [
        (index, n) for index, count in enumerate(counts) for n in range(count)
    ]
    assert all(event.value == f"{counts[event.recording]}:{event.number} " for event in done)
    assert sorted(event.recording for event in events if event.number is None) == [0, 1, 2]
    fractions = [fraction for fraction, _ in progress]
    assert fractions == sorted(fractions) and fractions[-1] == pytest.approx(1.0)


def test_values_are_combined_in_their_order(workers):
    counts = [9, 0, 70, 1]
    jobs, events = run_jobs(workers, functions.part_text, counts, reduce=operator.add)
    assert all(event.value is None for event in part_events(events))
    assert jobs.total == ["".join(f"{count}:{n} " for count in counts for n in range(count))]


def test_nothing_to_combine(workers):
    jobs, _ = run_jobs(workers, functions.part_text, [0, -1, 0], reduce=operator.add)
    assert jobs.total == []


def test_failures_are_reported_and_the_rest_is_done(workers):
    jobs, events = run_jobs(workers, functions.fail_on_two, [4, -1], reduce=operator.add)
    failures = [event for event in events if event.failure is not None]
    part, plan = sorted(failures, key=lambda event: event.recording)
    assert (part.recording, part.number) == (0, 2)
    assert str(part.failure) == "part-2: No space left on device"
    assert plan == Done(1, None, None, plan.failure) and str(plan.failure) == "-1 is negative"
    assert jobs.total == [0.0 + 1.0 + 3.0]


def test_an_exception_that_cannot_be_unpickled(workers):
    _, events = run_jobs(workers, functions.raise_unreadable, [1])
    assert str(events[-1].failure) == "Unreadable: 1 and 2"


def test_a_part_that_ends_its_process_costs_that_part_alone(workers):
    _, events = run_jobs(workers, functions.die_on_two, [5, 7, 6])
    done = {(event.recording, event.number): event for event in part_events(events)}
    assert len(done) == 18 == len(part_events(events))
    failed = [key for key, event in done.items() if event.failure is not None]
    assert failed == [(1, 2)]
    assert "died 3 times" in str(done[1, 2].failure)


def test_a_process_that_dies_once(workers, tmp_path):
    _, events = run_jobs(workers, partial(functions.die_once, tmp_path), [12])
    done = part_events(events)
    assert sorted(event.value for event in done) == list(range(12))
    assert all(event.failure is None for event in done)


def test_a_process_that_is_killed_while_it_starts():
    workers = LocalWorkers(2, retries=1)
    try:
        os.kill(next(iter(workers._processes)).pid, signal.SIGKILL)
        _, events = run_jobs(workers, functions.part_text, [5])
        assert [event.failure for event in events] == [None] * 6
    finally:
        workers.close()


def test_closing_ends_the_processes(tmp_path):
    workers = LocalWorkers(2, retries=0)
    jobs = events_of(jobs_of(workers, functions.process_id, [50]))
    next(jobs)
    processes = {next(jobs).value for _ in range(10)}
    workers.close()
    deadline = time.monotonic() + 10.0
    while any(is_alive(process) for process in processes):
        assert time.monotonic() < deadline
        time.sleep(0.01)


COPIES = """
import os, sys
from logs import part_functions as functions
from logs.run.test_jobs import run_jobs
from dyn_ros.logs.run.local_workers import LocalWorkers
workers = LocalWorkers(2, retries=1, fork=True)
try:
    method = {type(process).__name__ for process in workers._processes}
    _, events = run_jobs(workers, functions.linear_algebra_threads, [4])
    values = [event.value for event in events[1:]]
    assert method == {"ForkProcess"} and len(values) == 4, (method, events)
    assert all(parent == os.getpid() and set(threads) == {1} for parent, threads in values), values
    _, events = run_jobs(workers, functions.die_on_two, [7])
    failed = [event for event in events[1:] if event.failure is not None]
    assert [event.number for event in failed] == [2], events
    assert {type(process).__name__ for process in workers._processes} == {"SpawnProcess"}
finally:
    workers.close()
"""


def test_processes_of_a_command_are_copies_with_one_thread_each():
    environment = {name: value for name, value in os.environ.items() if "_NUM_THREADS" not in name}
    path = [str(Path(__file__).resolve().parents[2]), environment.get("PYTHONPATH", "")]
    script = subprocess.run(
        [sys.executable, "-c", COPIES],
        capture_output=True,
        text=True,
        env={**environment, "PYTHONPATH": os.pathsep.join(path)},
    )
    assert script.returncode == 0, script.stderr


def is_alive(process):
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True
