# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Call dyn_ros with random and damaged input, and report everything but a clear error.

Inputs are numbered. Each depends on its number and the seed alone, so that a fault can be repeated
with ``--only NUMBER``, unless it depends on earlier messages or parameters of the nodes. A fault is

- an exception that is not documented, or whose message has more than 3,000 characters,
- a call that takes more than 10 s of processor time, or the limit of the target, or waits for 60 s,
- a process that ends, or whose memory exceeds 1 GB.

    python benchmarks/fuzz.py descriptions [--count 1000000] [--seed 0] [--processes 2]

The targets are descriptions, calls, messages, recordings, drives and parameters. Messages and
parameters require ROS; a message is also a request to a service.
"""

import argparse
import faulthandler
import importlib
import multiprocessing
import os
import random
import resource
import signal
import sys
import tempfile
import time
import traceback
from pathlib import Path

TARGETS = ("descriptions", "calls", "messages", "recordings", "drives", "parameters")
MAX_MEMORY = 1 << 20  # kB, of a process
MAX_WAIT = 60.0  # s
MAX_MESSAGE_LENGTH = 3_000  # characters
MAX_FAULTS = 20  # faults after which a process stops
REPORT_INTERVAL = 10.0  # s


class Late(BaseException):
    """Raised in a call that takes too long; not an Exception, so that nothing handles it."""


def raise_late(number, frame):
    raise Late


def check(target, rng):
    """Run a target with an input.

    Return a description of its fault, or an empty string, and whether the input was accepted.
    """
    started = time.process_time()
    signal.setitimer(signal.ITIMER_PROF, target.TIMEOUT)
    faulthandler.dump_traceback_later(MAX_WAIT, exit=True)
    try:
        is_accepted = target.run(rng) is not False
    except Late:
        return f"takes more than {target.TIMEOUT:g} s\n{traceback.format_exc()}", False
    except target.DOCUMENTED_ERRORS as error:
        if len(str(error)) > MAX_MESSAGE_LENGTH:
            return f"a message of {len(str(error))} characters: {error!s:.300}", False
        return check_resources(target, started), False
    except Exception:
        return traceback.format_exc(), False
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0.0)
        faulthandler.cancel_dump_traceback_later()
    return check_resources(target, started), is_accepted


def check_resources(target, started):
    """Return a description of too much processor time since ``started``, or of too much memory."""
    duration = time.process_time() - started
    if duration > target.TIMEOUT:
        return f"took {duration:.1f} s in compiled code"
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return f"the process has used {memory // 1024} MB" if memory > MAX_MEMORY else ""


def run_inputs(name, seed, numbers, progress, faults, folder):
    """Check inputs in a process.

    ``progress`` contains the number of inputs that are done, and of those that were accepted.
    """
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.signal(signal.SIGPROF, raise_late)
    os.environ["TMPDIR"] = tempfile.tempdir = folder
    target = importlib.import_module(f"fuzzing.{name}").Target(Path(folder))
    fault_count = 0
    parent = multiprocessing.parent_process()
    for number in numbers:
        if not parent.is_alive():
            break
        fault, is_accepted = check(target, random.Random(f"{name} {seed} {number}"))
        progress[0], progress[1] = progress[0] + 1, progress[1] + is_accepted
        if fault:
            faults.put((number, fault))
            fault_count += 1
            if fault_count >= MAX_FAULTS:
                break


class Process:
    """A process that checks inputs."""

    def __init__(self, context, options, numbers, faults):
        self.numbers = numbers
        self.progress = context.Array("q", [0, 0], lock=False)
        self.folder = tempfile.TemporaryDirectory(dir="/dev/shm")
        arguments = options.target, options.seed, numbers, self.progress, faults, self.folder.name
        self.process = context.Process(target=run_inputs, args=arguments)
        self.process.start()

    def remaining_numbers(self):
        """Return the numbers of the inputs after the one that ended the process."""
        return self.numbers[self.progress[0] + 1 :]


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("target", choices=TARGETS)
    parser.add_argument("--count", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--only", type=int, help="repeat this input")
    options = parser.parse_args(argv)
    numbers = (
        range(options.count) if options.only is None else range(options.only, options.only + 1)
    )
    context = multiprocessing.get_context("spawn")
    faults_queue = context.Queue()
    count = min(options.processes, len(numbers))
    processes = [Process(context, options, numbers[k::count], faults_queue) for k in range(count)]
    started = reported = time.monotonic()
    faults = {}
    while running := [process for process in processes if process.process.is_alive()]:
        time.sleep(0.1)
        for process in running:
            if process.process.is_alive() or not process.process.exitcode:
                continue
            number = process.numbers[process.progress[0]]
            faults[number] = f"ended the process with {process.process.exitcode}"
            print(f"--- input {number}: {faults[number]}")
            if process.remaining_numbers() and len(faults) < MAX_FAULTS:
                processes.append(
                    Process(context, options, process.remaining_numbers(), faults_queue)
                )
        while not faults_queue.empty():
            number, faults[number] = faults_queue.get()
            print(f"--- input {number}: {faults[number]}", flush=True)
        if time.monotonic() - reported > REPORT_INTERVAL:
            reported = time.monotonic()
            report(options, processes, faults, reported - started)
    report(options, processes, faults, time.monotonic() - started)
    for process in processes:
        process.folder.cleanup()
    return 1 if faults else 0


def report(options, processes, faults, seconds):
    """Print how many inputs were checked."""
    done, accepted = (sum(process.progress[k] for process in processes) for k in range(2))
    print(
        f"{options.target}, seed {options.seed}: {done} inputs, {accepted} accepted, "
        f"{len(faults)} faults, {seconds:.0f} s",
        flush=True,
    )


if __name__ == "__main__":
    sys.exit(main())
