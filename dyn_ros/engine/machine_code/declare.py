# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Declaration of the functions that are compiled; they remain functions of Python."""

import functools
import os
from collections.abc import Callable
from types import FunctionType
from typing import Any, TypeVar

JIT = os.environ.get("NUMBA_DISABLE_JIT", "0") in ("", "0")
"""True if kernels run as machine code, False if they run as Python."""
# LLVM's fast-math flags, without those that ignore NaN and infinity, which must propagate to
# results. With "reassoc", LLVM would turn sums of sums into one long chain of additions, each of
# which waits for the one before.
FLAGS = ("contract", "nsz", "arcp")
KERNELS: set[FunctionType] = set()
"""Functions that are inlined into the code that calls them."""
SUBROUTINES: set[FunctionType] = set()
"""Functions that are called."""
IMPLEMENTATIONS: list[str] = []
"""Modules that implement functions in compiled code; importing them requires Numba."""

Function = TypeVar("Function", bound=Callable)


def kernel(function: Function) -> Function:
    """Declare a function that is inlined into compiled code: a kernel, or a part of one."""
    KERNELS.add(function)  # type: ignore[arg-type]
    return function


def subroutine(function: Function) -> Function:
    """Declare a function that is not inlined into the kernels that call it.

    Its code is optimized once for floats and once for lanes, instead of within each kernel. This is
    for large functions, and for those that the optimizer would round differently within a kernel.
    """
    SUBROUTINES.add(function)  # type: ignore[arg-type]
    return function


def sequence(*kernels: Callable) -> Callable:
    """Return a kernel that runs the given kernels, one after the other."""

    def chain(first: Callable, second: Callable) -> Callable:
        @kernel
        def run_both(r: Any) -> None:
            first(r)
            second(r)

        return run_both

    return functools.reduce(chain, kernels)
