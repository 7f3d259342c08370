# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Compilation of entries into the cache, in several processes at once.

Each process is started with a command line: forking would copy locks of the caller that no thread
releases, and multiprocessing would import the caller's main module again.
"""

import contextlib
import os
import queue
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Sequence

from . import cache, library
from .compiler import ENTRIES, Entry

_MAX_PROCESSES = 4
_MEMORY_PER_PROCESS = 2.5e9  # bytes that must be free; a process requires up to 1.9e9
_PACKAGE = __name__.split(".")[0]
_COMMAND = f"import {_PACKAGE}\nfrom {__name__} import serve_requests\nserve_requests()"


def processor_count() -> int:
    """Return the number of processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):  # macOS does not have it
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def worker_count() -> int:
    """Return the number of processes to start, 1 to 4: one per processor if memory suffices."""
    free = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    with contextlib.suppress(OSError, ValueError, StopIteration), open("/proc/meminfo") as file:
        free = 1024 * next(
            int(line.split()[1]) for line in file if line.startswith("MemAvailable:")
        )
    return max(1, min(_MAX_PROCESSES, processor_count(), int(free / _MEMORY_PER_PROCESS)))


def serve_requests() -> None:
    """Compile the entries named on standard input, for targets; print one line for each.

    When standard input ends, the caller has ended: the process exits, even during a compilation.
    """
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w", buffering=1)
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # keep other output separate
    names: queue.SimpleQueue[str] = queue.SimpleQueue()
    threading.Thread(target=_read_names, args=(names,), daemon=True).start()
    while True:
        name = names.get()
        try:
            name, *targets = name.split()
            print(name in ENTRIES and ENTRIES[name].compile(targets), file=answers)
        except Exception:  # the caller tries again and reports the error
            print(False, file=answers)


def _read_names(names: queue.SimpleQueue[str]) -> None:
    for line in sys.stdin:
        names.put(line.strip())
    os._exit(0)


def worker_environment() -> dict[str, str]:
    """Return the environment of processes with the modules and the cache of this one."""
    return dict(
        os.environ,
        PYTHONPATH=os.pathsep.join(path or os.getcwd() for path in sys.path),
        DYN_ROS_CACHE_DIR=str(cache.cache_folder().parent),
        PYTHONWARNINGS="ignore",
    )


def _start_process() -> subprocess.Popen:
    return subprocess.Popen(
        [sys.executable, "-c", _COMMAND],
        env=worker_environment(),
        text=True,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        bufsize=1,
    )


def _feed_process(
    process: subprocess.Popen,
    take: Callable[[], Entry],
    events: queue.SimpleQueue,
    targets: Sequence[str],
) -> None:
    """Send entries to one process until none are left or the process has ended."""
    assert process.stdin and process.stdout
    try:
        while True:
            entry = take()
            events.put((entry, None))
            print(entry.name, *targets, file=process.stdin, flush=True)
            answer = process.stdout.readline()
            if not answer:
                break
            events.put((entry, answer.strip() == "True"))
    except (IndexError, OSError, ValueError):
        pass
    finally:
        events.put(None)


def compile_in_processes(
    entries: Sequence[Entry],
    processes: int | None = None,
    starting: Callable[[Entry], object] | None = None,
    targets: Sequence[str] | None = None,
) -> set[str]:
    """Compile entries into the cache, from which this process can load them; return their names.

    Entries that a process fails to compile are omitted. Successive entries share functions, so half
    of the processes (``worker_count()`` without a number) start at the other end of the sequence.
    ``starting`` is called in this thread with each entry that a process starts to compile.
    """
    if not entries:
        return set()
    targets = targets or [library.target()]
    pending: deque[Entry] = deque(entries)
    compiled: set[str] = set()
    events: queue.SimpleQueue = queue.SimpleQueue()
    running = min(processes or worker_count(), len(pending))
    workers = [_start_process() for _ in range(running)]
    try:
        for n, process in enumerate(workers):
            take = pending.pop if n % 2 else pending.popleft
            arguments = process, take, events, targets
            threading.Thread(target=_feed_process, args=arguments, daemon=True).start()
        while running:
            event = events.get()
            if event is None:
                running -= 1
            elif event[1] is None:
                if starting:
                    starting(event[0])
            elif event[1]:
                compiled.add(event[0].name)
    finally:
        for process in workers:
            process.kill()
            process.wait()
    return compiled
