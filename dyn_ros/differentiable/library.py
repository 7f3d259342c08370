# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Interface of a library of arrays, torch or JAX, for the differentiable functions.

The libraries have most functions of ``xp`` in common, such as ``stack`` and ``einsum``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from ..engine.model.model import Model
from .robot import Robot
from .rules import Call


class Library(Protocol):
    """A library of arrays, and calls of the engine that it differentiates."""

    xp: Any

    def robot(self, model: Model) -> Robot:
        """Return the structure of a model."""

    def parameter(self, model: Model, name: str, like: Any) -> Any:
        """Return an attribute of a model, such as gravity, with the type of an array."""

    def run(self, call: Call, inputs: Sequence[Any], wanted: Sequence[bool]) -> list[Any]:
        """Run a call, which is differentiable; return its results, None if not wanted."""

    def array(self, value: Any) -> Any:
        """Return a value as an array; raise a TypeError or ValueError if that is impossible."""

    def as_type(self, value: Any, dtype: Any) -> Any:
        """Return an array with a type."""

    def float_type(self, arrays: Sequence[Any]) -> Any:
        """Return float64 if an array has this type, otherwise float32."""

    def constant(self, value: Any, like: Any) -> Any:
        """Return constants with the type of an array."""

    def eye(self, n: int, like: Any) -> Any:
        """Return the identity matrix with the type of an array."""

    def zeros(self, n: int, like: Any) -> Any:
        """Return a vector of zeros with the type of an array."""

    def with_derivatives(
        self, x: Any, push: Callable[[Any, Any], Any], pull: Callable[[Any, Any], Any]
    ) -> Any:
        """Return x, whose tangents t become push(x, t), and gradients g pull(x, g)."""


OPTIONAL_ARGUMENTS = frozenset(
    {
        "f_ext",
        "torque",
        "inertial_parameters",
        "armature",
        "gravity",
        "joint_placements",
        "damping",
        "friction",
    }
)


def checked(
    lib: Library, model: Model, arguments: dict[str, tuple[tuple[int, ...], Any]]
) -> list[Any]:
    """Return arguments as arrays of one type; raise a ValueError for a wrong shape.

    ``arguments`` are the shape for one state, and the value, by name. Optional ones can be None.
    """
    arrays: dict[str, Any] = {}
    for name, (shape, value) in arguments.items():
        if value is None and name in OPTIONAL_ARGUMENTS:
            arrays[name] = None
            continue
        if value is None:
            raise TypeError(f"{name}: expected an array of shape {_describe(shape)}, got None")
        try:
            array = lib.array(value)
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from None
        except (TypeError, RuntimeError) as error:  # torch raises either
            raise TypeError(f"{name}: {error}") from None
        actual = tuple(array.shape)
        if len(actual) < len(shape) or actual[len(actual) - len(shape) :] != shape:
            raise ValueError(f"{name}: expected an array of shape {_describe(shape)}, got {actual}")
        arrays[name] = array
    passed = [array for array in arrays.values() if array is not None]
    dtype = lib.float_type(passed)
    _require_common_axes(arguments, arrays)
    return [None if array is None else lib.as_type(array, dtype) for array in arrays.values()]


def _describe(shape: tuple[int, ...]) -> str:
    return f"({', '.join(['...', *map(str, shape)])})"


def _require_common_axes(
    arguments: dict[str, tuple[tuple[int, ...], Any]], arrays: dict[str, Any]
) -> None:
    """Raise a ValueError if leading axes do not broadcast."""
    leads = {
        name: tuple(array.shape[: len(array.shape) - len(arguments[name][0])])
        for name, array in arrays.items()
        if array is not None
    }
    first = next(iter(leads.values()))
    if all(lead == first for lead in leads.values()):
        return
    try:
        np.broadcast_shapes(*leads.values())
    except ValueError:
        found = ", ".join(f"{name} {lead}" for name, lead in leads.items() if lead)
        raise ValueError(f"leading axes: expected shapes that broadcast, got {found}") from None
