# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Trace of the operations that a kernel executes for one robot.

A kernel is plain arithmetic, so it also runs on numbers that record the operations with them. Its
loops and branches depend on the robot only, so the trace is straight-line code. It omits operations
with the zeros and ones among the robot's constants.
"""

from __future__ import annotations

import builtins
import math
from collections.abc import Callable, Iterable
from types import CodeType, FunctionType, ModuleType
from typing import Any

from ...engine.kernel import lanes as la
from ...engine.kernel import packing

Operand = int | float
"""Index of an operation, or a constant."""
Operation = tuple[Any, ...]
"""Name of an operation and its operands; of an input, the array and the index in it."""
_COMMUTATIVE = ("add", "mul")
_BRANCH_ON_INPUT = "a branch depends on a number of the caller"


class NotTraceable(Exception):
    """Error of a function that exists only for all robots; the message states why."""


class Trace:
    """Operations of a kernel: tuples of a name and operands, each of which is recorded once.

    ``checks`` are the conditions a > b of pivots, with the status of the call if they do not hold.
    """

    def __init__(self) -> None:
        self.operations: list[Operation] = []
        self.checks: list[tuple[Operand, Operand, int]] = []
        self._results: dict[Operation, Number] = {}
        self._failed_condition: tuple[Operand, Operand, int] | None = None

    def record(self, name: str, *operands: Any) -> Number:
        """Record an operation, unless it is recorded; return its result."""
        key = name, *operands
        if name in _COMMUTATIVE and str(operands[0]) > str(operands[1]):
            key = name, operands[1], operands[0]
        result = self._results.get(key)
        if result is None:
            result = self._results[key] = Number(self, len(self.operations))
            self.operations.append(key)
        return result

    def record_input(self, source: str, k: int) -> Number:
        """Return number k of an array that the caller passes."""
        return self.record("input", source, k)

    def fail_condition(self, a: Operand, b: Operand) -> None:
        """Note the condition a > b of a pivot; the kernel must call ``report_small_pivot`` next."""
        self.require_no_failure()
        self._failed_condition = a, b, len(self.operations)

    def record_status(self, status: int) -> None:
        """Record the status that ``report_small_pivot`` in packing.py stores after a condition."""
        if self._failed_condition is None or self._failed_condition[2] != len(self.operations):
            raise NotTraceable("sets the status without a condition on one pivot")
        self.checks.append((*self._failed_condition[:2], status))
        self._failed_condition = None

    def require_no_failure(self) -> None:
        """Raise NotTraceable unless ``report_small_pivot`` was called after the last condition."""
        if self._failed_condition is not None:
            raise NotTraceable(_BRANCH_ON_INPUT)


class Number:
    """Number that depends on numbers of the caller; arithmetic with it is recorded."""

    __slots__ = ("index", "trace")
    __array_ufunc__ = None  # NumPy leaves operations with it to this class

    def __init__(self, trace: Trace, index: int) -> None:
        self.trace, self.index = trace, index

    def _is_negative(self) -> bool:
        """Return True if it is the result of a change of sign."""
        return self.trace.operations[self.index][0] == "neg"

    def _without_sign(self) -> Number:
        """Return the number whose sign was changed, if ``_is_negative``."""
        return Number(self.trace, self.trace.operations[self.index][1])

    def __neg__(self) -> Number:
        return self._without_sign() if self._is_negative() else self.trace.record("neg", self.index)

    def __add__(self, other: Any) -> Any:
        if isinstance(other, Number):
            if other._is_negative():
                return self - other._without_sign()
            if self._is_negative():
                return other - self._without_sign()
        elif other == 0.0:
            return self
        return self.trace.record("add", self.index, _as_operand(other))

    __radd__ = __add__

    def __sub__(self, other: Any) -> Any:
        if isinstance(other, Number):
            if other._is_negative():
                return self + other._without_sign()
            if other.index == self.index:
                return 0.0
        elif other == 0.0:
            return self
        return self.trace.record("sub", self.index, _as_operand(other))

    def __rsub__(self, other: Any) -> Any:
        if other == 0.0:
            return -self
        return self.trace.record("sub", _as_operand(other), self.index)

    def __mul__(self, other: Any) -> Any:
        if isinstance(other, Number):
            if other._is_negative():
                return -(self * other._without_sign())
            if self._is_negative():
                return -(self._without_sign() * other)
        elif other == 0.0:
            return 0.0
        elif other == 1.0:
            return self
        elif other < 0.0:
            return -(self * -other)
        elif self._is_negative():
            return -(self._without_sign() * other)
        return self.trace.record("mul", self.index, _as_operand(other))

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> Any:
        if not isinstance(other, Number) and math.frexp(other)[0] in (0.5, -0.5):
            return self * (1.0 / other)
        return self.trace.record("div", self.index, _as_operand(other))

    def __rtruediv__(self, other: Any) -> Any:
        return 0.0 if other == 0.0 else self.trace.record("div", _as_operand(other), self.index)

    def __bool__(self) -> bool:
        raise NotTraceable(_BRANCH_ON_INPUT)

    __gt__ = __lt__ = __ge__ = __le__ = lambda self, other: bool(self)

    def __eq__(self, other: object) -> bool:
        raise NotTraceable(_BRANCH_ON_INPUT)

    __hash__ = None  # type: ignore[assignment]


def _as_operand(x: Any) -> Operand:
    """Return a number as an operand; a constant is a float."""
    return x.index if isinstance(x, Number) else float(x)


def as_operands(numbers: Iterable[Any]) -> list[Operand]:
    """Return numbers of a workspace as operands."""
    return [_as_operand(x) for x in numbers]


# --- operations of lanes.py on Number


def _load_number(a: list[Any], i: int) -> Any:
    """Return number i of a workspace."""
    return a[i]


def _store_number(a: list[Any], i: int, x: Any) -> None:
    """Set number i of a workspace."""
    a[i] = x


def _record_or_compute(name: str, float_function: Callable) -> Callable:
    """Return a function that records an operation, or computes it if all arguments are floats."""

    def record_or_call(*arguments: Any) -> Any:
        for x in arguments:
            if isinstance(x, Number):
                return x.trace.record(name, *as_operands(arguments))
        return float_function(*arguments)

    return record_or_call


def _sincos(x: Any) -> tuple[Any, Any]:
    """Return the sine and the cosine of an angle, recorded unless it is a float."""
    if not isinstance(x, Number):
        return math.sin(x), math.cos(x)
    return x.trace.record("sin", x.index), x.trace.record("cos", x.index)


def _all_above(a: Any, b: Any) -> bool:
    """Return False for numbers of the caller: the kernel takes the branch of a singular pivot."""
    for x in (a, b):
        if isinstance(x, Number):
            x.trace.fail_condition(_as_operand(a), _as_operand(b))
            return False
    return a > b


_OPERATIONS: dict[str, Callable] = {
    "load": _load_number,
    "store": _store_number,
    "constant": _load_number,
    "lift": lambda value, like: value,
    "all_above": _all_above,
    "holds_lanes": lambda a: False,
    "simd_width": lambda a: 1,
    "load_simd": lambda a, i, count: a[i],
    "store_simd": lambda a, i, count, x: _store_number(a, i, x),
    "select_above": _record_or_compute("select", lambda a, b, x, y: x if a > b else y),
    "fma": _record_or_compute("fma", la.fma),
    "rint": _record_or_compute("rint", round),
    "sqrt": _record_or_compute("sqrt", math.sqrt),
    "fabs": _record_or_compute("fabs", abs),
    "sincos": _sincos,
}


class _ReboundModule:
    """Module whose functions are rebound."""

    def __init__(self, module: ModuleType, rebinding: Rebinding) -> None:
        self._module, self._rebinding = module, rebinding

    def __getattr__(self, name: str) -> Any:
        return self._rebinding.rebound_value(getattr(self._module, name))


class Rebinding:
    """Copies of kernels, with ``operations`` in place of the ones in ``lanes.py``."""

    def __init__(self, operations: dict[str, Callable] = _OPERATIONS) -> None:
        self._values: dict[int, Any] = {
            id(_python_function(getattr(la, name))): function
            for name, function in operations.items()
        }
        # Objects whose ids are keys of _values.
        self._referenced: list[Any] = []

    def rebound_value(self, value: Any) -> Any:
        """Return a value that a kernel refers to; functions and modules are rebound."""
        value = _python_function(value)
        if id(value) in self._values:
            return self._values[id(value)]
        if isinstance(value, FunctionType):
            return self.rebound_function(value)
        if isinstance(value, ModuleType):
            self._referenced.append(value)
            module = self._values[id(value)] = _ReboundModule(value, self)
            return module
        return value

    def rebound_function(self, function: Any) -> Any:
        """Return a copy of a function; everything that it calls is rebound."""
        function = _python_function(function)
        namespace: dict[str, Any] = {"__builtins__": builtins}
        cells = tuple(_new_cell(None) for _ in function.__closure__ or ())
        copy = FunctionType(
            function.__code__, namespace, function.__name__, function.__defaults__, cells
        )
        self._values[id(function)] = copy
        self._referenced.append(function)
        for name in _referenced_names(function.__code__):
            if name in function.__globals__:
                namespace[name] = self.rebound_value(function.__globals__[name])
        for cell, original in zip(cells, function.__closure__ or ()):
            cell.cell_contents = self.rebound_value(original.cell_contents)
        return copy


def _python_function(function: Any) -> Any:
    """Return the Python function of a compiled one; anything else as it is."""
    return getattr(function, "py_func", function)


def _new_cell(value: Any) -> Any:
    """Return a cell of a closure that contains a value."""
    return (lambda: value).__closure__[0]  # type: ignore[index]


def _referenced_names(code: CodeType) -> set[str]:
    """Return all names that code refers to, including the code of functions within it."""
    names = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            names |= _referenced_names(constant)
    return names


class TracedCallIntegers(list):
    """Integers of a call; a kernel can only store the status, after a condition of a pivot."""

    def __init__(self, numbers: Iterable[int], trace: Trace) -> None:
        super().__init__(numbers)
        self._trace = trace

    def __setitem__(self, k: Any, value: Any) -> None:
        if k != packing.STATUS:
            raise NotTraceable("writes to the integers of the call")
        self._trace.record_status(value)


def run_kernels(trace: Trace, kernels: Iterable[Any], arrays: packing.KernelArgs) -> None:
    """Run kernels on lists of numbers, which they change in place, and record in the trace.

    Raise NotTraceable if a branch depends on a number of the caller.
    """
    rebinding = Rebinding()
    for kernel in kernels:
        rebinding.rebound_function(kernel)(arrays)
    trace.require_no_failure()


def trace_of_sincos() -> tuple[Trace, tuple[Operand, ...]]:
    """Return the operations of ``sincos`` on one number, and its two results."""
    trace = Trace()
    operations = {name: function for name, function in _OPERATIONS.items() if name != "sincos"}
    sine, cosine = Rebinding(operations).rebound_function(la.sincos)(trace.record_input("x", 0))
    return trace, (_as_operand(sine), _as_operand(cosine))
