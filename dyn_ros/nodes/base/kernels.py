# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Compiled functions: loaded when a node is configured, compiled on the first start."""
from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial

import dyn_ros

from ...states.kernel import COLLECT
from .lifecycle import BaseNode


def load(node: BaseNode, names: Sequence[str], batch_names: Sequence[str],
         coupled: bool = False) -> None:
    """Compile the public functions that a node calls, and load what each state needs.

    With `coupled`, also what robots with mimic joints need.
    """
    started = time.monotonic()
    node.diagnose("loading functions")
    precompile = partial(dyn_ros.precompile, progress=_progress(node, started), coupled=coupled)
    compiled = precompile(names, batch=False, load=False)
    compiled += precompile(batch_names, load=False)
    compiled += precompile([name for name in names if name == "all_terms"],
                           batch=False, more=(COLLECT,))
    if compiled:
        node.get_logger().info(f"compiled in {time.monotonic() - started:.1f} s")


def _progress(node: BaseNode, started: float) -> Callable[[int, int, str], None]:
    """Return what reports each function that is compiled, at most once a second."""
    last = started

    def progress(done: int, total: int, name: str) -> None:
        nonlocal last
        if not node.context.ok():
            raise KeyboardInterrupt
        if done == total:
            return
        busy = f"compiling {name}, {done + 1} of {total}"
        if last == started:
            node.get_logger().info(
                "compiling functions that are not in the cache, which takes up to a minute on "
                "the first start (run `dyn_ros precompile` to compile them in advance)")
        if last == started or time.monotonic() - last > 1.0:
            last = time.monotonic()
            node.get_logger().info(busy)
            node.diagnose(busy)
    return progress
