# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The process of a node: from the command line to the exit code; its compiled functions."""

from __future__ import annotations

import gc
import inspect
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import rclpy
from rclpy.executors import ExternalShutdownException, SingleThreadedExecutor
from rclpy.signals import SignalHandlerOptions

import dyn_ros

from ...states.messages import ENTRIES_BY_TYPE
from .lifecycle import BaseNode
from .stop_signals import stop_signals
from .unused_parameters import warn_of_unused_parameters


def help_text(node_class: Any, name: str) -> str:
    """Return the text of `--help`."""
    lines = [
        f"usage: ros2 run dyn_ros {name}_node [--ros-args -p parameter:=value ...]",
        "",
        (inspect.getdoc(node_class) or "").split("\n\nParameters")[0],
        "",
    ]
    specs = node_class.all_specs()
    width = max(len(spec.name) for spec in specs) + 2
    lines += [
        "parameters:",
        *(f"  {spec.name:{width}}{spec.description} {spec.describe_values()}" for spec in specs),
    ]
    return "\n".join(lines)


def run_node(node_class: Any, name: str, args: Sequence[str] | None = None) -> int:
    """Run a subclass of `BaseNode` until it is asked to shut down; return the exit code."""
    if not {"-h", "--help"}.isdisjoint(sys.argv[1:] if args is None else args):
        print(help_text(node_class, name))
        return 0
    node: BaseNode | None = None
    try:
        with stop_signals:
            try:
                rclpy.init(
                    args=None if args is None else list(args),
                    signal_handler_options=SignalHandlerOptions.NO,
                )
                node = node_class(name)
                warn_of_unused_parameters(
                    [node, *node.members], sys.argv[1:] if args is None else args
                )
                if not stop_signals.received:
                    node.start()
                gc.freeze()
            except Exception as error:  # arguments, names or parameters that cannot be used
                print(f"{name}: {error}", file=sys.stderr)
                return 1
            _spin_nodes(node)
    except (KeyboardInterrupt, ExternalShutdownException):
        pass
    finally:
        if node is not None:
            node.end()
        rclpy.try_shutdown()
    return 0


def _spin_nodes(node: BaseNode) -> None:
    """Run the callbacks of a node and its `members` until a signal; log exceptions."""
    executor: Any
    try:  # the events executor halves the processor time
        from rclpy.experimental import EventsExecutor

        executor = EventsExecutor()
    except ImportError:
        executor = SingleThreadedExecutor()
    try:
        for member in (node, *node.members):
            executor.add_node(member)
        with stop_signals.ending_wait(executor):
            while not stop_signals.received:
                try:
                    executor.spin_once(1.0)
                except ExternalShutdownException:
                    raise
                except Exception:
                    node.fail("callback", traceback.format_exc())
    finally:
        executor.shutdown()


def load_kernels(
    node: BaseNode, names: Sequence[str], batch_names: Sequence[str], coupled: bool = False
) -> None:
    """Compile the functions that a node calls, if needed; load those called for each state.

    If `coupled`, compile also for mimic joints.
    """
    started = time.monotonic()
    node.guard("diagnose", node.diagnose, "loading functions")
    precompile = partial(
        dyn_ros.precompile, progress=_make_progress_reporter(node, started), coupled=coupled
    )
    compiled = precompile(names, batch=False, load=False)
    compiled += precompile(batch_names, load=False)
    compiled += precompile(
        [name for name in names if name == "all_terms"],
        batch=False,
        more=(ENTRIES_BY_TYPE[node.joint_state_topic.type_name],),
    )
    if compiled:
        node.get_logger().info(f"compiled in {time.monotonic() - started:.1f} s")


def _make_progress_reporter(node: BaseNode, started: float) -> Callable[[int, int, str], None]:
    """Return a function that reports the progress of compiling, at most once a second."""
    last_report = started

    def report_progress(done: int, total: int, name: str) -> None:
        nonlocal last_report
        if stop_signals.received:
            raise KeyboardInterrupt
        if done == total:
            return
        busy = f"compiling {name}, {done + 1} of {total}"
        if last_report == started:
            node.get_logger().info(
                "compiling functions that are not in the cache, which takes up to a minute on "
                "the first start (run `dyn_ros precompile` to compile them in advance)"
            )
        if last_report == started or time.monotonic() - last_report > 1.0:
            last_report = time.monotonic()
            node.get_logger().info(busy)
            node.guard("diagnose", node.diagnose, busy)

    return report_progress
