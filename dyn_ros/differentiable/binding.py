# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Public functions for one library of arrays."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Concatenate, ParamSpec, TypeVar

from .library import Library

P = ParamSpec("P")
R = TypeVar("R")


def bind(
    function: Callable[Concatenate[Library, P], R], lib: Library, module: str
) -> Callable[P, R]:
    """Return a function without its first argument, the library, as a function of a module."""

    @functools.wraps(function)
    def bound(*args: P.args, **kwargs: P.kwargs) -> R:
        return function(lib, *args, **kwargs)

    signature = inspect.signature(function)
    parameters = list(signature.parameters.values())[1:]
    bound.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    bound.__module__ = module
    del bound.__wrapped__
    return bound
