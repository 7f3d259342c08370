# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Calls of functions whose input may be hostile, within limits of memory and processor time."""

from __future__ import annotations

import multiprocessing
import resource
import signal
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any, TypeVar

Result = TypeVar("Result")


class LimitError(RuntimeError):
    """The call would have exceeded a limit; the message names it."""


def call_within_limits(
    function: Callable[..., Result], *arguments: Any, memory: int, processor_time: int
) -> Result:
    """Return the result of a call in a child process.

    Parameters
    ----------
    function, *arguments
        The result, and exceptions that the function raises, are pickled.
    memory : int
        Memory that the call may take in addition [bytes].
    processor_time : int
        Processor time of the call [s].

    Raises
    ------
    LimitError
        The call exceeds a limit.
    """
    context = multiprocessing.get_context("fork")  # the child has what is imported
    receiver, sender = context.Pipe(duplex=False)
    limits = memory, processor_time
    child = context.Process(target=_call, args=(sender, limits, function, arguments), daemon=True)
    child.start()
    sender.close()
    try:
        is_result, value = receiver.recv()
    except EOFError:
        child.join()
        is_result, value = False, _describe_end(child.exitcode, *limits)
    finally:
        receiver.close()
        child.kill()
        child.join()
    if not is_result:
        raise value
    result: Result = value
    return result


def _call(
    sender: Connection,
    limits: tuple[int, int],
    function: Callable[..., Any],
    arguments: tuple[Any, ...],
) -> None:
    """Send True and the result of a call to the parent, or False and an exception."""
    memory, processor_time = limits
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CPU, (processor_time, processor_time + 1))
    size = _virtual_memory() + memory
    resource.setrlimit(resource.RLIMIT_AS, (size, resource.RLIM_INFINITY))
    try:
        message = True, function(*arguments)
    except MemoryError:
        message = False, _memory_error(memory)
    except Exception as error:
        message = False, error
    sender.send(message)


def _virtual_memory() -> int:
    """Return the address space that this process uses [bytes]."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[0]) * resource.getpagesize()


def _memory_error(memory: int) -> LimitError:
    return LimitError(f"it takes more than {memory / 1e6:.0f} MB of memory")


def _describe_end(exit_code: int | None, memory: int, processor_time: int) -> LimitError:
    """Return the error of a child process that ended without a result."""
    if exit_code in (-signal.SIGXCPU, -signal.SIGKILL):
        return LimitError(f"it takes more than {processor_time} s of processor time")
    return _memory_error(memory)
