# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The functions of the C library: what they take and return, from what algorithms declare."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..engine import algorithms
from ..engine.algorithms.contacts.packed import CONTACTS, ROWS
from ..engine.algorithms.dynamics.cholesky import OPERATION, UT_SOLVE
from ..engine.algorithms.filters.momentum_observer import COULOMB, OBSERVER_GAIN
from ..engine.call.algorithm import ALGORITHMS, Algorithm
from ..engine.kernel.fields import CONSTRAINTS, FRAME, REFERENCE_FRAME, TERMS, Field, Option
from ..engine.kernel.names import listed
from ..engine.model.frames import ReferenceFrame

_TABLES = {CONTACTS: "contacts", CONSTRAINTS: "constraints"}
_EXCLUDED = ("normal_equations",)  # sums over recordings, with functions of Python around it
_NAMES = {OBSERVER_GAIN: "gain", COULOMB: "friction"}
# Arguments that the public function does not have are placed beside these.
_BESIDE = {"damping": "friction", "constraints": "tip", "contacts": "frame"}


@dataclass(frozen=True)
class Function:
    """A function of the library; its parameters are in the order of those in Python."""

    name: str
    algorithm: Algorithm
    parameters: tuple[Field | Option, ...]
    selects_joint: bool  # by an index of a joint instead of a frame

    @property
    def inputs(self) -> tuple[Field, ...]:
        """The parameters that are numbers."""
        return tuple(x for x in self.parameters if isinstance(x, Field))

    @property
    def results(self) -> tuple[Field, ...]:
        """The fields that it returns."""
        return tuple(self.algorithm.results)

    def parameter_name(self, known: Field | Option) -> str:
        """The name of a parameter."""
        if self.selects_joint and known is FRAME:
            return "joint"
        return parameter_name(known)

    def result_name(self, known: Field) -> str:
        """The name of a result, which no parameter has."""
        name = known.name.lstrip("_")
        return f"{name}_out" if name in map(self.parameter_name, self.parameters) else name


def table_name(known: Field | Option) -> str:
    """The structure in C of an option that is the address of a table, or an empty string."""
    return _TABLES.get(known, "") if isinstance(known, Option) else ""


def parameter_name(known: Field | Option) -> str:
    """The name of a parameter that is a field or an option."""
    if isinstance(known, Field) and known in _NAMES:
        return _NAMES[known]
    return table_name(known) or known.name.lstrip("_")


def option_end(algorithm: Algorithm, option: Option) -> int:
    """The number after the last one that an option can be."""
    ends = {
        OPERATION: UT_SOLVE + 1,
        REFERENCE_FRAME: len(ReferenceFrame),
        TERMS: 1 << len(algorithm.results),
    }
    return ends.get(option, 1 << option.bits)


def public_function(name: str) -> Any:
    """The function of this name in Python."""
    return getattr(algorithms, name)


def available() -> list[str]:
    """The names of all functions that can be exported."""
    return sorted(set(ALGORITHMS) - set(_EXCLUDED))


def functions(names: Sequence[str] | None = None) -> list[Function]:
    """The functions of these names, by default all, in alphabetical order.

    A ValueError names an unknown one, and lists those that are available.
    """
    known = available()
    unknown = sorted(set(names or ()) - set(known))
    if unknown:
        raise ValueError(
            f"functions: {listed(unknown, write=repr)} cannot be exported; "
            f"available: {listed(known)}"
        )
    return [_function(name) for name in sorted(set(known if names is None else names))]


def _function(name: str) -> Function:
    algorithm: Any = ALGORITHMS[name]
    places = {
        other: n for n, other in enumerate(inspect.signature(public_function(name)).parameters)
    }
    selects_joint = "joint" in places
    hidden = [TERMS, REFERENCE_FRAME] if selects_joint else [TERMS]

    def place(known: Field | Option) -> int:
        own = "joint" if selects_joint and known is FRAME else parameter_name(known)
        beside = places.get(_BESIDE.get(own, own), places.get("frame", len(places)))
        return places.get(own, beside)

    known = [
        *(x for x in algorithm.inputs if x is not ROWS),
        *(x for x in algorithm.options if x not in hidden),
    ]
    return Function(name, algorithm, tuple(sorted(known, key=place)), selects_joint)
