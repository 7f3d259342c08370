# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""A Dask cluster on loopback: a scheduler and two workers, one of which is killed."""

import concurrent.futures
import json
import operator
import os
import re
import signal
import subprocess
import sys
import threading
import time
from functools import partial
from unittest.mock import Mock

import numpy as np
import pytest
from logs import part_functions as functions
from logs.run.test_jobs import events_of, jobs_of, run_jobs

import dyn_ros
from dyn_ros import logs
from dyn_ros.command import main as cli

pytest.importorskip("distributed", reason="distributed is not installed: run `make test`")

from dyn_ros.logs.run.cluster import ClusterWorkers
from dyn_ros.logs.run.local_workers import Call


class Cluster:
    """A scheduler and workers, each a process."""

    def __init__(self, folder):
        self.folder, self.processes = folder, []
        self.scheduler = self.start(
            "scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard", "--no-show"
        )
        self.address = self.expect(self.scheduler, r"Scheduler at:\s+(tcp://\S+)")

    def start(self, *arguments):
        log = self.folder / f"{len(self.processes)}.log"
        code = "import sys; from dask.__main__ import main; sys.exit(main())"
        process = subprocess.Popen(
            [sys.executable, "-c", code, *arguments],
            stdout=log.open("w"),
            stderr=subprocess.STDOUT,
            cwd=self.folder,
            env={
                **os.environ,
                "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
                "DASK_DISTRIBUTED__ADMIN__SYSTEM_MONITOR__GIL__ENABLED": "false",
            },
        )
        process.log = log
        self.processes.append(process)
        return process

    def start_worker(self):
        worker = self.start(
            "worker",
            self.address,
            "--nthreads",
            "1",
            "--no-nanny",
            "--no-dashboard",
            "--memory-limit",
            "0",
            "--local-directory",
            str(self.folder),
        )
        self.expect(worker, r"Registered to:\s+(tcp://\S+)")
        return worker

    def expect(self, process, pattern):
        """Wait until a process has printed something; return it."""
        deadline = time.monotonic() + 60.0
        while time.monotonic() < deadline:
            if match := re.search(pattern, process.log.read_text()):
                return match[1]
            assert process.poll() is None, process.log.read_text()
            time.sleep(0.05)
        raise AssertionError(process.log.read_text())

    def stop(self):
        for process in self.processes:
            process.kill()
            process.wait()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    dask_cluster = Cluster(tmp_path_factory.mktemp("cluster"))
    dask_cluster.workers = [dask_cluster.start_worker(), dask_cluster.start_worker()]
    yield dask_cluster
    dask_cluster.stop()


@pytest.fixture
def workers(cluster):
    workers = ClusterWorkers(cluster.address)
    yield workers
    workers.close()


def test_values_are_combined_in_their_order(workers):
    counts = [9, 0, 70, -1, 1]
    jobs, events = run_jobs(workers, functions.part_text, counts, reduce=operator.add)
    assert jobs.total == ["".join(f"{count}:{n} " for count in counts for n in range(count))]
    failed = [event for event in events if event.failure is not None]
    assert [str(event.failure) for event in failed] == ["-1 is negative"]


def test_failures_are_not_repeated(workers):
    _, events = run_jobs(workers, functions.fail_on_two, [4])
    failed = [event for event in events if event.failure is not None]
    assert [str(event.failure) for event in failed] == ["part-2: No space left on device"]


def test_an_exception_that_cannot_be_unpickled(workers):
    _, events = run_jobs(workers, functions.raise_unreadable, [1])
    assert str(events[-1].failure) == "Unreadable: 1 and 2"


def test_a_worker_is_killed_and_each_result_is_there_once(cluster, workers, tmp_path):
    jobs = jobs_of(workers, partial(functions.leave_mark, tmp_path), [40], reduce=operator.add)
    done = []
    for event in events_of(jobs):
        if event.number is not None:
            done.append(event)
            if len(done) == 10:
                cluster.workers.pop().send_signal(signal.SIGKILL)
    assert sorted(event.number for event in done) == list(range(40))
    assert all(event.failure is None for event in done)
    assert jobs.total == [40]
    assert {file.name for file in tmp_path.iterdir()} == {f"40-{n}" for n in range(40)}
    cluster.workers.append(cluster.start_worker())


def test_the_log_command_and_map(cluster, tmp_path, capsys):
    """On a cluster the same results as on this machine, each part once, though a worker dies."""
    pytest.importorskip("mcap")
    pyarrow = pytest.importorskip("pyarrow.parquet")
    from logs import recorded

    robot = "dyn_ros/robots/arm7.urdf"
    bag = recorded.synthetic_mcap(
        tmp_path / "run.mcap", dyn_ros.Model.from_urdf_file(robot), 600_000
    )
    arguments = [bag, "--robot", os.path.abspath(robot), "--compute", "residual", "--out"]
    killer = Killer(cluster, tmp_path / "cluster" / "recording=run")
    killer.start()
    for out, worker_options in (
        (tmp_path / "cluster", ["--scheduler", cluster.address]),
        (tmp_path / "local", ["--workers", "2"]),
    ):
        assert cli.main(["log", *map(str, (*arguments, out, *worker_options))]) == 0
    killer.join()
    cluster.workers.append(cluster.start_worker())
    tables = [pyarrow.read_table(tmp_path / name) for name in ("cluster", "local")]
    assert len(tables[0]) == 600_000 and tables[0].column_names == tables[1].column_names
    for name in tables[0].column_names[:-1]:
        np.testing.assert_array_equal(tables[0][name], tables[1][name])
    lines = (tmp_path / "cluster" / "recording=run" / "_parts.jsonl").read_text().splitlines()
    numbers = sorted(json.loads(line)["part"] for line in lines)
    assert numbers == list(range(len(numbers))) and len(numbers) > 5
    count = logs.map(
        functions.count_states, bag, robot=robot, scheduler=cluster.address, reduce=operator.add
    )
    assert count == 600_000


class Killer(threading.Thread):
    """Kills a worker of a cluster when the first part is there."""

    def __init__(self, cluster, folder):
        super().__init__(daemon=True)
        self.cluster, self.folder = cluster, folder

    def run_jobs(self):
        while not list(self.folder.glob("part-*")):
            time.sleep(0.01)
        self.cluster.workers.pop().kill()


def test_a_scheduler_that_ends(tmp_path):
    cluster = Cluster(tmp_path)
    cluster.start_worker()
    workers = ClusterWorkers(cluster.address)
    try:
        jobs = iter(jobs_of(workers, partial(functions.leave_mark, tmp_path), [40]))
        for _ in range(5):
            next(jobs)
        cluster.scheduler.kill()
        with pytest.raises(ConnectionError, match="ended, or cancelled"):
            list(jobs)
    finally:
        workers.close()
        cluster.stop()


def test_a_value_that_cannot_be_fetched(workers):
    """The scheduler ended after the job was done, or the worker with its value."""
    from distributed.comm import CommClosedError

    workers.submit(Call(int, ()))
    call, held, failure = workers.next_done()
    assert (call.function, workers.value(held), failure) == (int, 0, None)
    for error, text in (
        (CommClosedError("closed"), "ended, or cancelled the jobs"),
        (concurrent.futures.CancelledError(), "ended, or cancelled the jobs"),
        (KeyError("x"), "a value was lost with its worker: KeyError: 'x'"),
    ):
        with pytest.raises(ConnectionError, match=text):
            workers.value(Mock(result=Mock(side_effect=error)))


def test_the_command_reports_a_scheduler_that_ends(tmp_path):
    pytest.importorskip("mcap")
    from logs import recorded

    robot = os.path.abspath("dyn_ros/robots/arm7.urdf")
    bag = recorded.synthetic_mcap(
        tmp_path / "run.mcap", dyn_ros.Model.from_urdf_file(robot), 600_000
    )
    cluster = Cluster(tmp_path)
    try:
        cluster.start_worker()
        process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "dyn_ros",
                "log",
                bag,
                "--robot",
                robot,
                "--compute",
                "residual",
                "--out",
                tmp_path / "out",
                "--scheduler",
                cluster.address,
            ],
            stderr=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            text=True,
        )
        while not list(tmp_path.rglob("part-*")):
            assert process.poll() is None
            time.sleep(0.01)
        cluster.scheduler.kill()
        error = process.communicate(timeout=120.0)[1]
    finally:
        cluster.stop()
    lines = [line for line in error.splitlines() if "messages/s" not in line]
    assert lines == [
        f"dyn_ros log: the scheduler {cluster.address!r} ended, or cancelled the "
        "jobs; start it and run the same again"
    ]
    assert process.returncode == 2


def test_there_is_no_scheduler(monkeypatch):
    monkeypatch.setattr("dyn_ros.logs.run.cluster._CONNECTION_TIMEOUT", 1.0)
    with pytest.raises(ValueError, match=r"no connection to 'tcp://127.0.0.1:1'.*dask scheduler"):
        ClusterWorkers("tcp://127.0.0.1:1")


def test_a_scheduler_without_workers(tmp_path, monkeypatch):
    monkeypatch.setattr("dyn_ros.logs.run.cluster._WORKER_TIMEOUT", 0.5)
    cluster = Cluster(tmp_path)
    try:
        with pytest.raises(ValueError, match="has no workers; start `dask worker tcp"):
            ClusterWorkers(cluster.address)
    finally:
        cluster.stop()


def test_an_address_without_a_port(monkeypatch):
    monkeypatch.setattr("distributed.Client", None)  # which would not end
    with pytest.raises(ValueError, match="missing port number in address '127.0.0.1'"):
        ClusterWorkers("127.0.0.1")
