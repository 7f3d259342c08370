# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Public functions for one library of arrays."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Concatenate, ParamSpec, TypeVar

from ..engine.call.data import Data
from .library import Library

P = ParamSpec("P")
R = TypeVar("R")


def bind(
    function: Callable[Concatenate[Library, P], R], lib: Library, module: str
) -> Callable[P, R]:
    """Return a function without its first argument, the library, as a function of a module."""
    signature = inspect.signature(function)
    parameters = list(signature.parameters.values())[1:]
    names = [x.name for x in parameters if x.default is x.empty and x.kind is not x.VAR_KEYWORD]

    @functools.wraps(function)
    def bound(*args: P.args, **kwargs: P.kwargs) -> R:
        if len(args) > 1 and isinstance(args[1], Data):
            call = f"{function.__name__}({', '.join(names)})"
            raise TypeError(f"expected no Data: call {call}; results are new arrays")
        return function(lib, *args, **kwargs)

    bound.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    bound.__module__ = module
    del bound.__wrapped__
    return bound
