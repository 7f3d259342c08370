# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Functions that the tests of jobs call in other processes."""

import os
import signal
import time
from pathlib import Path

import numpy as np


def plan(count):
    """Return the numbers of the parts of a recording, which is their count here."""
    if count < 0:
        raise ValueError(f"{count} is negative")
    return list(range(count))


def part_text(count, number):
    return f"{count}:{number} "


def die_on_two(count, number):
    if (count, number) == (7, 2):
        os.kill(os.getpid(), signal.SIGKILL)
    return number


def die_once(folder, count, number):
    """Kill the process in the first call with part 3."""
    mark = Path(folder) / "died"
    if number == 3 and not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return number


def fail_on_two(count, number):
    if number == 2:
        raise OSError(28, "No space left on device", "part-2")
    return float(number)


class Unreadable(Exception):
    """An exception that cannot be unpickled."""

    def __init__(self, first, second):
        super().__init__(f"{first} and {second}")


def raise_unreadable(count, number):
    raise Unreadable(1, 2)


def leave_mark(folder, count, number):
    """Leave a mark in a file that this part was processed, after 0.2 s."""
    time.sleep(0.2)
    with (Path(folder) / f"{count}-{number}").open("a") as file:
        file.write("x")
    return 1


def process_id(count, number):
    return os.getpid()


def count_states(part):
    return len(part)


def sum_of_squares(part):
    return (part.q**2).sum(axis=0)


def linear_algebra_threads(count, n):
    import scipy.linalg
    import threadpoolctl

    scipy.linalg.lu(np.eye(2))
    return os.getppid(), [library["num_threads"] for library in threadpoolctl.threadpool_info()]
