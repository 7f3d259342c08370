# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Functions of the C library: their parameters and results, from the declarations of algorithms."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..engine import algorithms
from ..engine.algorithms.contacts.packed_contacts import CONTACT_ROWS, CONTACTS
from ..engine.algorithms.dynamics.cholesky import OPERATION, UT_SOLVE
from ..engine.algorithms.filters.momentum_observer_step import COULOMB, OBSERVER_GAIN
from ..engine.call.algorithm import ALGORITHMS, Algorithm
from ..engine.kernel.fields import CONSTRAINTS, FRAME, REFERENCE_FRAME, TERMS, Field, Option
from ..engine.kernel.names import join_names
from ..engine.model.frames import ReferenceFrame

_STRUCTURES = {CONTACTS: "contacts", CONSTRAINTS: "constraints"}
_EXCLUDED = ("normal_equations",)  # sums over recordings; most of it is Python
_PARAMETER_NAMES = {OBSERVER_GAIN: "gain", COULOMB: "friction"}
# Parameters that only C has are placed next to these parameters.
_NEIGHBORS = {"damping": "friction", "constraints": "tip", "contacts": "frame"}


@dataclass(frozen=True)
class Function:
    """Function of the library.

    Its parameters are in the order of Python. With ``selects_joint``, its frame is the frame of
    a joint, which C passes as the index of the joint.
    """

    name: str
    algorithm: Algorithm
    parameters: tuple[Field | Option, ...]
    selects_joint: bool

    @property
    def inputs(self) -> tuple[Field, ...]:
        """Parameters that are arrays or numbers, not options."""
        return tuple(x for x in self.parameters if isinstance(x, Field))

    @property
    def results(self) -> tuple[Field, ...]:
        """Fields that it returns."""
        return tuple(self.algorithm.results)

    def parameter_name(self, parameter: Field | Option) -> str:
        """Return the name of a parameter in C."""
        if self.selects_joint and parameter is FRAME:
            return "joint"
        return parameter_name(parameter)

    def result_name(self, result: Field) -> str:
        """Return the name of a result in C, which differs from the names of all parameters."""
        name = result.name.lstrip("_")
        return f"{name}_out" if name in map(self.parameter_name, self.parameters) else name


def structure_name(parameter: Field | Option) -> str:
    """Return the name of the C structure that an option points to; "" for other parameters."""
    return _STRUCTURES.get(parameter, "") if isinstance(parameter, Option) else ""


def parameter_name(parameter: Field | Option) -> str:
    """Return the name of a parameter that is a field or an option."""
    if isinstance(parameter, Field) and parameter in _PARAMETER_NAMES:
        return _PARAMETER_NAMES[parameter]
    return structure_name(parameter) or parameter.name.lstrip("_")


def option_end(algorithm: Algorithm, option: Option) -> int:
    """Return the exclusive upper bound of an option's values."""
    ends = {
        OPERATION: UT_SOLVE + 1,
        REFERENCE_FRAME: len(ReferenceFrame),
        TERMS: 1 << len(algorithm.results),
    }
    return ends.get(option, 1 << option.bits)


def public_function(name: str) -> Any:
    """Return the Python function of this name."""
    return getattr(algorithms, name)


def function_names() -> list[str]:
    """Return the names of all functions that can be exported."""
    return sorted(set(ALGORITHMS) - set(_EXCLUDED))


def find_functions(names: Sequence[str] | None = None) -> list[Function]:
    """Return the functions of these names, by default all, in alphabetical order.

    Raise a ValueError, which lists the available names, if one is unknown.
    """
    available = function_names()
    unknown = sorted(set(names or ()) - set(available))
    if unknown:
        raise ValueError(
            f"functions: {join_names(unknown, write=repr)} cannot be exported; "
            f"available: {join_names(available)}"
        )
    return [_declare_function(name) for name in sorted(set(available if names is None else names))]


def _declare_function(name: str) -> Function:
    """Return a function whose parameters are in the order of its Python parameters."""
    algorithm = ALGORITHMS[name]
    python_parameters = inspect.signature(public_function(name)).parameters
    positions = {parameter: n for n, parameter in enumerate(python_parameters)}
    selects_joint = "joint" in positions
    hidden_options = [TERMS, REFERENCE_FRAME] if selects_joint else [TERMS]

    def python_position(parameter: Field | Option) -> int:
        is_joint = selects_joint and parameter is FRAME
        c_name = "joint" if is_joint else parameter_name(parameter)
        neighbor = _NEIGHBORS.get(c_name, c_name)
        end = positions.get("frame", len(positions))
        return positions.get(c_name, positions.get(neighbor, end))

    parameters = [
        *(x for x in algorithm.inputs if x is not CONTACT_ROWS),
        *(x for x in algorithm.options if x not in hidden_options),
    ]
    return Function(name, algorithm, tuple(sorted(parameters, key=python_position)), selects_joint)
