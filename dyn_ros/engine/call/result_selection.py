# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Calls that compute and return some results of an algorithm, chosen by name."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable
from typing import Any

from ..kernel.names import join_names, short_repr
from .algorithm import Algorithm


class ResultSelection:
    """The calls of an algorithm that return some of its results.

    Its only option is ``TERMS``, with a bit for each result in the order of the declaration. The
    kernel reads it with ``is_requested``.
    """

    def __init__(self, algorithm: Algorithm) -> None:
        self._algorithm = algorithm
        self._names = [field.name for field in algorithm.results]
        self._find = functools.lru_cache(self._make_call)

    def find_call(self, only: Any) -> tuple[int, Callable[..., Any]]:
        """Return the bits of results, and the call that returns these; ValueError if unknown."""
        names: tuple[Any, ...] = ()
        if not isinstance(only, str):
            with contextlib.suppress(TypeError):
                names = tuple(only)
        if not names or not all(isinstance(name, str) for name in names):
            raise ValueError(
                f"only: expected a sequence of names of results, got {short_repr(only)}; "
                f"available: {join_names(self._names)}"
            )
        return self._find(names)

    def _make_call(self, names: tuple[str, ...]) -> tuple[int, Callable[..., Any]]:
        unknown = [name for name in names if name not in self._names]
        if unknown:
            raise ValueError(
                f"only: expected names of results, got {join_names(unknown, write=repr)}; "
                f"available: {join_names(self._names)}"
            )
        numbers = [self._names.index(name) for name in names]
        return (
            sum(1 << number for number in set(numbers)),
            self._algorithm.make_call(results=[self._algorithm.results[k] for k in numbers]),
        )
