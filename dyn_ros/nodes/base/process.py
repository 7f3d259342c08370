# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The process of a node: from the command line to the exit code."""
from __future__ import annotations

import gc
import inspect
import os
import signal
import sys
import threading
import traceback
from collections.abc import Sequence
from types import FrameType
from typing import Any

import rclpy
from rclpy.executors import ExternalShutdownException, SingleThreadedExecutor

from .lifecycle import BaseNode

GRACE_PERIOD = 1.0  # seconds between a signal and the forced exit of a process that still runs


class _CtrlC:
    """Python's handler of Ctrl-C, which does nothing once `delegated` to rclpy.

    rclpy ends the loop; a KeyboardInterrupt as well would interrupt whatever callback runs.
    """

    delegated = False

    def __call__(self, number: int, frame: FrameType | None) -> None:
        if not self.delegated:
            raise KeyboardInterrupt


_ctrl_c = _CtrlC()


def _force_exit_after_signal(ended: threading.Event) -> None:
    """Exit soon after a signal, even while LLVM compiles, which can take many seconds."""
    while rclpy.ok() and not ended.wait(0.1):
        pass
    if not ended.wait(GRACE_PERIOD):
        os._exit(0)


def _executor() -> Any:
    """Return the events executor, which halves the processor time, if rclpy provides it."""
    try:
        from rclpy.experimental import EventsExecutor
    except ImportError:
        return SingleThreadedExecutor()
    return EventsExecutor()


def usage(node_class: Any, name: str) -> str:
    """Return the text of `--help`."""
    lines = [f"usage: ros2 run dyn_ros {name}_node [--ros-args -p parameter:=value ...]", "",
             (inspect.getdoc(node_class) or "").split("\n\nParameters")[0], ""]
    specs = node_class.all_specs()
    width = max(len(spec.name) for spec in specs) + 2
    lines += ["parameters:", *(f"  {spec.name:{width}}{spec.description} {spec.allowed()}"
                               for spec in specs)]
    return "\n".join(lines)


def run(node_class: Any, name: str, args: Sequence[str] | None = None) -> int:
    """Run a node until it is asked to shut down; return the exit code of the process.

    `node_class` is a subclass of `BaseNode`, whose only required argument is its name.
    """
    if not {"-h", "--help"}.isdisjoint(sys.argv[1:] if args is None else args):
        print(usage(node_class, name))
        return 0
    node: BaseNode | None = None
    begun, ended = False, threading.Event()
    watch = threading.Thread(target=_force_exit_after_signal, args=(ended,), daemon=True)
    try:
        try:
            signal.signal(signal.SIGINT, _ctrl_c)       # rclpy's handler calls the previous one
            rclpy.init(args=None if args is None else list(args))
            begun = _ctrl_c.delegated = True
            watch.start()
            node = node_class(name)
            node.start()
            gc.freeze()
        except Exception as error:      # arguments, names or parameters that cannot be used
            if begun and not rclpy.ok():
                return 0                # a signal has shut rclpy down
            print(f"{name}: {error}", file=sys.stderr)
            return 1
        _spin(node)
    except (KeyboardInterrupt, ExternalShutdownException):
        pass
    except Exception:
        if rclpy.ok():                  # otherwise a signal has shut rclpy down
            raise
    finally:
        _ctrl_c.delegated = True
        ended.set()
        if watch.is_alive():
            watch.join()                # before rclpy and Python shut down
        if node is not None:
            node.end()
        rclpy.try_shutdown()
    return 0


def _spin(node: BaseNode) -> None:
    executor = _executor()
    for member in (node, *node.members):
        executor.add_node(member)
    while rclpy.ok():
        try:
            executor.spin_once(1.0)
        except ExternalShutdownException:
            raise
        except Exception:
            if not rclpy.ok():
                break
            node.fail("callback", traceback.format_exc())
