# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Kernels as straight-line code: what a kernel computes for one robot, operation by operation.

A kernel is plain arithmetic, so it also runs on numbers that record what is done with them. Its
loops and branches depend on the robot only; they are gone from the record, as are operations with
the zeros and ones among the robot's constants, and those that no result depends on.
"""

from __future__ import annotations

import builtins
import math
from collections.abc import Callable, Iterable
from types import CodeType, FunctionType, ModuleType
from typing import Any

from ...engine.kernel import lanes as la
from ...engine.kernel import packing as ly

Operand = int | float
"""The index of an operation, or a constant."""
Operation = tuple[Any, ...]
"""The name of an operation and its operands; for an input its source, and which number of it."""
_COMMUTATIVE = ("add", "mul")
_BRANCH = "a branch depends on a number of the caller"


class NotTraceable(Exception):
    """There is only the function for any robot; the message states why."""


class Trace:
    """The operations of a kernel: tuples of a name and operands, each of which is recorded once.

    ``checks`` are the conditions a > b of pivots, with the status of the call if they do not hold.
    """

    def __init__(self) -> None:
        self.operations: list[Operation] = []
        self.checks: list[tuple[Operand, Operand, int]] = []
        self._known: dict[Operation, Number] = {}
        self._failed: tuple[Operand, Operand, int] | None = None

    def number(self, name: str, *operands: Any) -> Number:
        """The result of an operation."""
        key = name, *operands
        if name in _COMMUTATIVE and str(operands[0]) > str(operands[1]):
            key = name, operands[1], operands[0]
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = Number(self, len(self.operations))
            self.operations.append(key)
        return known

    def input(self, source: str, k: int) -> Number:
        """Number k of an array that the caller passes."""
        return self.number("input", source, k)

    def fails(self, a: Operand, b: Operand) -> None:
        """Note a condition of a pivot; the kernel must now call ``fail``."""
        self.require_no_failure()
        self._failed = a, b, len(self.operations)

    def take_failure(self, status: int) -> None:
        """Record the status of the last condition; see ``fail`` in layout.py."""
        if self._failed is None or self._failed[2] != len(self.operations):
            raise NotTraceable("sets the status without a condition on one pivot")
        self.checks.append((*self._failed[:2], status))
        self._failed = None

    def require_no_failure(self) -> None:
        """Raise if the kernel did not call ``fail`` after the last condition: it is another one."""
        if self._failed is not None:
            raise NotTraceable(_BRANCH)


class Number:
    """A number that depends on numbers of the caller; arithmetic with it is recorded."""

    __slots__ = ("index", "trace")
    __array_ufunc__ = None  # NumPy leaves operations with it to this class

    def __init__(self, trace: Trace, index: int) -> None:
        self.trace, self.index = trace, index

    def _is_negative(self) -> bool:
        return self.trace.operations[self.index][0] == "neg"

    def _opposite(self) -> Number:
        return Number(self.trace, self.trace.operations[self.index][1])

    def __neg__(self) -> Number:
        return self._opposite() if self._is_negative() else self.trace.number("neg", self.index)

    def __add__(self, other: Any) -> Any:
        if isinstance(other, Number):
            if other._is_negative():
                return self - other._opposite()
            if self._is_negative():
                return other - self._opposite()
        elif other == 0.0:
            return self
        return self.trace.number("add", self.index, _operand(other))

    __radd__ = __add__

    def __sub__(self, other: Any) -> Any:
        if isinstance(other, Number):
            if other._is_negative():
                return self + other._opposite()
            if other.index == self.index:
                return 0.0
        elif other == 0.0:
            return self
        return self.trace.number("sub", self.index, _operand(other))

    def __rsub__(self, other: Any) -> Any:
        if other == 0.0:
            return -self
        return self.trace.number("sub", _operand(other), self.index)

    def __mul__(self, other: Any) -> Any:
        if isinstance(other, Number):
            if other._is_negative():
                return -(self * other._opposite())
            if self._is_negative():
                return -(self._opposite() * other)
        elif other == 0.0:
            return 0.0
        elif other == 1.0:
            return self
        elif other < 0.0:
            return -(self * -other)
        elif self._is_negative():
            return -(self._opposite() * other)
        return self.trace.number("mul", self.index, _operand(other))

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> Any:
        if not isinstance(other, Number) and math.frexp(other)[0] in (0.5, -0.5):
            return self * (1.0 / other)
        return self.trace.number("div", self.index, _operand(other))

    def __rtruediv__(self, other: Any) -> Any:
        return 0.0 if other == 0.0 else self.trace.number("div", _operand(other), self.index)

    def __bool__(self) -> bool:
        raise NotTraceable(_BRANCH)

    __gt__ = __lt__ = __ge__ = __le__ = lambda self, other: bool(self)

    def __eq__(self, other: object) -> bool:
        raise NotTraceable(_BRANCH)

    __hash__ = None  # type: ignore[assignment]


def _operand(x: Any) -> Operand:
    return x.index if isinstance(x, Number) else float(x)


def operands(numbers: Iterable[Any]) -> list[Operand]:
    """Numbers of a workspace as operands."""
    return [_operand(x) for x in numbers]


# --- the operations of lanes.py on such numbers


def _load(a, i):
    return a[i]


def _store(a, i, x):
    a[i] = x


def _function(name: str, of_floats: Callable) -> Callable:
    def apply(*arguments):
        for x in arguments:
            if isinstance(x, Number):
                return x.trace.number(name, *operands(arguments))
        return of_floats(*arguments)

    return apply


def _sincos(x):
    if not isinstance(x, Number):
        return math.sin(x), math.cos(x)
    return x.trace.number("sin", x.index), x.trace.number("cos", x.index)


def _all_above(a, b):
    """False for numbers of the caller, so that the kernel takes the branch of a singular pivot."""
    for x in (a, b):
        if isinstance(x, Number):
            x.trace.fails(_operand(a), _operand(b))
            return False
    return a > b


_OPERATIONS: dict[str, Callable] = {
    "load": _load,
    "store": _store,
    "constant": _load,
    "lift": lambda value, like: value,
    "all_above": _all_above,
    "holds_lanes": lambda a: False,
    "simd_width": lambda a: 1,
    "load_simd": lambda a, i, count: a[i],
    "store_simd": lambda a, i, count, x: _store(a, i, x),
    "select_above": _function("select", lambda a, b, x, y: x if a > b else y),
    "fma": _function("fma", la.fma),
    "rint": _function("rint", round),
    "sqrt": _function("sqrt", math.sqrt),
    "fabs": _function("fabs", abs),
    "sincos": _sincos,
}


class _Names:
    """A module whose functions are rebound."""

    def __init__(self, module: ModuleType, rebinding: Rebinding) -> None:
        self._module, self._rebinding = module, rebinding

    def __getattr__(self, name: str) -> Any:
        return self._rebinding.value(getattr(self._module, name))


class Rebinding:
    """Copies of kernels, with other operations in place of the ones in ``lanes.py``."""

    def __init__(self, operations: dict[str, Callable] = _OPERATIONS) -> None:
        self._values: dict[int, Any] = {
            id(_plain(getattr(la, name))): function for name, function in operations.items()
        }
        self._kept: list[Any] = []

    def value(self, value: Any) -> Any:
        """A value that a kernel refers to; functions and modules are rebound."""
        value = _plain(value)
        if id(value) in self._values:
            return self._values[id(value)]
        if isinstance(value, FunctionType):
            return self.function(value)
        if isinstance(value, ModuleType):
            self._kept.append(value)
            names = self._values[id(value)] = _Names(value, self)
            return names
        return value

    def function(self, function: Any) -> Any:
        """A copy of a function; everything that it calls is rebound."""
        function = _plain(function)
        names: dict[str, Any] = {"__builtins__": builtins}
        cells = tuple(_cell(None) for _ in function.__closure__ or ())
        new = FunctionType(
            function.__code__, names, function.__name__, function.__defaults__, cells
        )
        self._values[id(function)] = new
        self._kept.append(function)
        for name in _names(function.__code__):
            if name in function.__globals__:
                names[name] = self.value(function.__globals__[name])
        for cell, old in zip(cells, function.__closure__ or ()):
            cell.cell_contents = self.value(old.cell_contents)
        return new


def _plain(function: Any) -> Any:
    return getattr(function, "py_func", function)


def _cell(value: Any) -> Any:
    return (lambda: value).__closure__[0]  # type: ignore[index]


def _names(code: CodeType) -> set[str]:
    """All names that code refers to, including the code of functions within it."""
    names = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            names |= _names(constant)
    return names


class Table(list):
    """A table of a call; the status is what a kernel stores after a condition of a pivot."""

    def __init__(self, numbers: Iterable[int], trace: Trace) -> None:
        super().__init__(numbers)
        self._trace = trace

    def __setitem__(self, k: Any, value: Any) -> None:
        if k != ly.STATUS:
            raise NotTraceable("writes to the table of the call")
        self._trace.take_failure(value)


def run(trace: Trace, kernels: Iterable[Any], arrays: ly.KernelArgs) -> None:
    """Run kernels on lists of numbers."""
    rebinding = Rebinding()
    for kernel in kernels:
        rebinding.function(kernel)(arrays)
    trace.require_no_failure()


def trace_of_sincos() -> tuple[Trace, tuple[Operand, ...]]:
    """The operations of ``sincos`` on one number, and its two results."""
    trace = Trace()
    operations = {name: function for name, function in _OPERATIONS.items() if name != "sincos"}
    sine, cosine = Rebinding(operations).function(la.sincos)(trace.input("x", 0))
    return trace, (_operand(sine), _operand(cosine))
