# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Compile entries into the cache, in several processes at once.

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

_MOST = 4
_MEMORY = 2.5e9  # free bytes per process; a process requires up to 1.9e9
_PACKAGE = __name__.split(".")[0]
_COMMAND = f"import {_PACKAGE}\nfrom {__name__} import serve\nserve()"


def cores() -> int:
    """Number of processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):  # macOS does not have it
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def processors() -> int:
    """Number of processes to start, 1 to 4: one for each processor if memory suffices."""
    free = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    with contextlib.suppress(OSError, ValueError, StopIteration), open("/proc/meminfo") as file:
        free = 1024 * next(
            int(line.split()[1]) for line in file if line.startswith("MemAvailable:")
        )
    return max(1, min(_MOST, cores(), int(free / _MEMORY)))


def serve() -> None:
    """Compile the entries named on standard input, for targets; print one line for each.

    Ends when standard input does, even if an entry is being compiled: its caller has ended.
    """
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w", buffering=1)
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # keep other output separate
    names: queue.SimpleQueue[str] = queue.SimpleQueue()
    threading.Thread(target=_read, args=(names,), daemon=True).start()
    while True:
        name = names.get()
        try:
            name, *targets = name.split()
            print(name in ENTRIES and ENTRIES[name].compile(targets), file=answers)
        except Exception:  # the caller tries again and reports the error
            print(False, file=answers)


def _read(names: queue.SimpleQueue[str]) -> None:
    for line in sys.stdin:
        names.put(line.strip())
    os._exit(0)


def environment() -> dict[str, str]:
    """The environment of processes with the modules and the cache of this one."""
    return dict(
        os.environ,
        PYTHONPATH=os.pathsep.join(path or os.getcwd() for path in sys.path),
        DYN_ROS_CACHE_DIR=str(cache.cache_folder().parent),
        PYTHONWARNINGS="ignore",
    )


def _start() -> subprocess.Popen:
    return subprocess.Popen(
        [sys.executable, "-c", _COMMAND],
        env=environment(),
        text=True,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        bufsize=1,
    )


def _feed(
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
    of the processes (``processors()`` without a number) start at the other end of the sequence.
    ``starting`` is called in this thread with each entry that a process starts to compile.
    """
    if not entries:
        return set()
    targets = targets or [library.target()]
    todo: deque[Entry] = deque(entries)
    compiled: set[str] = set()
    events: queue.SimpleQueue = queue.SimpleQueue()
    count = min(processes or processors(), len(todo))
    started = [_start() for _ in range(count)]
    try:
        for n, process in enumerate(started):
            take = todo.pop if n % 2 else todo.popleft
            arguments = process, take, events, targets
            threading.Thread(target=_feed, args=arguments, daemon=True).start()
        while count:
            event = events.get()
            if event is None:
                count -= 1
            elif event[1] is None:
                if starting:
                    starting(event[0])
            elif event[1]:
                compiled.add(event[0].name)
    finally:
        for process in started:
            process.kill()
            process.wait()
    return compiled
