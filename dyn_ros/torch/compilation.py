# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""What ``torch.compile`` needs: a custom operator, and functions that it does not trace.

Dynamo puts a call of a public function into its graph as a whole; AOTAutograd then traces it with
tensors without numbers, for which the operator ``dyn_ros::call`` stands for the engine. In graphs,
numbers stand for models and other objects: a graph keeps the parameters of the model that it was
compiled with.
"""

from __future__ import annotations

import functools
import itertools
import weakref
from collections.abc import Callable, Sequence
from typing import Any, ParamSpec, TypeVar

import torch
from torch import Tensor

from ..differentiable.operations import OPERATIONS, Kind
from ..differentiable.rules import Call
from .engine import Inputs, empty_results, place, run_engine

P = ParamSpec("P")
R = TypeVar("R")


class _Objects:
    """Objects by number, and numbers by object. Some objects cannot be referenced weakly."""

    def __init__(self) -> None:
        self._objects: Any = weakref.WeakValueDictionary()
        self._strong: dict[int, Any] = {}
        self._numbers: dict[int, int] = {}
        self._next = itertools.count()

    def number_of(self, item: Any) -> int:
        """Return the number of an object."""
        number = self._numbers.get(id(item))
        if number is not None and self._find(number) is item:
            return number
        number = self._numbers[id(item)] = next(self._next)
        try:
            self._objects[number] = item
        except TypeError:
            self._strong[number] = item
        return number

    def _find(self, number: int) -> Any:
        return self._strong[number] if number in self._strong else self._objects.get(number)

    def __getitem__(self, number: int) -> Any:
        return self._find(number)


_OBJECTS = _Objects()


@torch._dynamo.assume_constant_result
def _number_of(item: Any) -> int:
    return _OBJECTS.number_of(item)


# --- the operator


def run_operator(call: Call, inputs: Inputs, wanted: Sequence[bool]) -> list[Tensor]:
    """Run a call by the custom operator; return the wanted results."""
    results: list[Tensor] = torch.ops.dyn_ros.call(
        [x for x in inputs if x is not None],
        [x is not None for x in inputs],
        _OBJECTS.number_of(call.model),
        call.operation.name,
        call.kind.value,
        list(wanted),
    )
    return results


@torch.library.custom_op("dyn_ros::call", mutates_args=())
def _call(
    tensors: list[Tensor],
    passed: list[bool],
    model: int,
    operation: str,
    kind: str,
    wanted: list[bool],
) -> list[Tensor]:
    """Run a call in the engine; return the wanted results."""
    call = Call(_OBJECTS[model], OPERATIONS[operation], Kind(kind))
    return run_engine(call, place(passed, tensors), wanted)


@_call.register_fake
def _(
    tensors: list[Tensor],
    passed: list[bool],
    model: int,
    operation: str,
    kind: str,
    wanted: list[bool],
) -> list[Tensor]:
    call = Call(_OBJECTS[model], OPERATIONS[operation], Kind(kind))
    return empty_results(call, place(passed, tensors), wanted)


# --- functions as nodes of a graph

_PLAIN_TYPES = (Tensor, bool, int, float, str)
_OBJECT, _SEQUENCE, _VALUE = range(3)
_functions: dict[str, Callable[..., Any]] = {}


def _describe(value: Any) -> tuple[int, Any]:
    """Return an argument as what a graph can contain."""
    if value is None or type(value) in _PLAIN_TYPES or isinstance(value, Tensor):
        return _VALUE, value
    if isinstance(value, (list, tuple)):
        return _SEQUENCE, tuple(_describe(item) for item in value)
    return _OBJECT, _number_of(value)


def _restore(described: tuple[int, Any]) -> Any:
    how, value = described
    if how == _SEQUENCE:
        return [_restore(item) for item in value]
    return _OBJECTS[value] if how == _OBJECT else value


@torch.compiler.allow_in_graph
def _call_function(name: str, args: Any, keywords: Any) -> Any:
    return _functions[name](
        *map(_restore, args), **{key: _restore(value) for key, value in keywords}
    )


def compilable(function: Callable[P, R]) -> Callable[P, R]:
    """Return a function that ``torch.compile`` does not trace."""
    name = function.__name__
    _functions[name] = function

    @functools.wraps(function)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        if not torch.compiler.is_compiling():
            return function(*args, **kwargs)
        result: R = _call_function(
            name,
            tuple(_describe(arg) for arg in args),
            tuple((key, _describe(value)) for key, value in kwargs.items()),
        )
        return result

    return run
