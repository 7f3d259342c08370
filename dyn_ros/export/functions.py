# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The functions of the C library: what they take and return, from what algorithms declare."""
from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..engine import algorithms
from ..engine.algorithms.contacts.packed import ROWS
from ..engine.call.algorithm import ALGORITHMS, Algorithm
from ..engine.kernel.fields import Field, Option

EXCLUDED = ("normal_equations",)
"""Sums over recordings, which need the functions of Python that prepare and complete them."""


@dataclass(frozen=True)
class Function:
    """A function of the library."""

    name: str
    algorithm: Algorithm
    arguments: tuple[Field | Option, ...]       # in the order of C; without ROWS
    results: tuple[Field, ...]

    @property
    def inputs(self) -> tuple[Field, ...]:
        """The arguments that are arrays."""
        return tuple(x for x in self.arguments if isinstance(x, Field))

    @property
    def options(self) -> tuple[Option, ...]:
        """The arguments that are integers, or tables of contacts or constraints."""
        return tuple(x for x in self.arguments if isinstance(x, Option))

    @property
    def document(self) -> str:
        """The docstring of the public function."""
        return inspect.cleandoc(getattr(algorithms, self.name).__doc__ or "")


def argument_name(known: Field | Option) -> str:
    """The name of an argument."""
    return known.name.lstrip("_")


def available() -> list[str]:
    """The names of all functions that can be exported."""
    return sorted(set(ALGORITHMS) - set(EXCLUDED))


def functions(names: Sequence[str] | None = None) -> list[Function]:
    """The functions of these names, by default all, in the order of their names.

    A ValueError names an unknown one, and lists those that are available.
    """
    known = available()
    unknown = [name for name in names or () if name not in known]
    if unknown:
        raise ValueError(f"functions: no function named {', '.join(map(repr, unknown))} can be "
                         f"exported; available: {', '.join(known)}")
    return [_function(name) for name in sorted(set(known if names is None else names))]


def _function(name: str) -> Function:
    algorithm: Any = ALGORITHMS[name]
    place = {parameter: n for n, parameter in enumerate(
        inspect.signature(getattr(algorithms, name)).parameters)}
    arguments = [x for x in (*algorithm.inputs, *algorithm.options) if x is not ROWS]
    arguments.sort(key=lambda x: place.get(argument_name(x), len(place)))
    return Function(name, algorithm, tuple(arguments), tuple(algorithm.results))
