# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Handlers of signals, so that they end the command ``dyn_ros`` and nodes without a traceback.

``dyn_ros/__init__.py`` imports this module first, for signals while Python imports the engine, so
it imports little itself. Programs that import dyn_ros are not affected.
"""

from __future__ import annotations

import os
import signal
import sys

INTERRUPTED_EXIT_CODE = 130  # 128 plus the number of SIGINT


def exit_immediately_on_sigint() -> None:
    """Exit immediately on SIGINT, without a traceback or cleanup."""
    _replace_handler(signal.default_int_handler, _exit_process)


def raise_on_sigint() -> None:
    """Raise a KeyboardInterrupt on SIGINT, as Python does by default."""
    _replace_handler(_exit_process, signal.default_int_handler)


def is_dyn_ros_command() -> bool:
    """Return True if this process is the command ``dyn_ros``, or ``python -m dyn_ros``."""
    name = os.path.basename(next(iter(getattr(sys, "argv", ())), ""))
    return name == "dyn_ros" or name == "-m" and "dyn_ros" in sys.orig_argv


def is_node() -> bool:
    """Return True if this process is the executable of a node, or ``python -m dyn_ros.nodes...``.

    ROS installs executables to ``lib/dyn_ros``; pip installs them beside Python.
    """
    package = os.path.dirname(os.path.dirname(__file__))
    folder, name = os.path.split(os.path.abspath(next(iter(getattr(sys, "argv", ())), "")))
    if name == "-m":
        return any(word.startswith("dyn_ros.nodes.") for word in sys.orig_argv)
    return (
        os.path.basename(folder) == "dyn_ros" or folder == os.path.dirname(sys.executable)
    ) and os.path.exists(os.path.join(package, "nodes", f"{name}.py"))


def exit_node_immediately_on_signal() -> None:
    """Exit immediately with code 0 on SIGINT and SIGTERM, until the node handles them.

    Executables block these signals before Python starts, see CMakeLists.txt.
    """
    numbers = (signal.SIGINT, signal.SIGTERM)
    for number in numbers:
        signal.signal(number, lambda number, frame: os._exit(0))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, numbers)


def _replace_handler(previous: object, replacement: object) -> None:
    """Replace the handler of SIGINT if it is ``previous``; keep another program's."""
    if signal.getsignal(signal.SIGINT) is previous:
        try:  # contextlib would take longer to import      # noqa: SIM105
            signal.signal(signal.SIGINT, replacement)  # type: ignore[arg-type]
        except ValueError:  # not in the main thread
            pass


def _exit_process(number: int, frame: object) -> None:
    """Exit at once, without ending threads or flushing files."""
    os._exit(INTERRUPTED_EXIT_CODE)


if is_dyn_ros_command():
    exit_immediately_on_sigint()
elif is_node():
    exit_node_immediately_on_signal()
