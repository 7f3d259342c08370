# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The fields that a kernel reads and writes, from its source."""

from __future__ import annotations

import ast
import functools
import inspect
import re
import textwrap
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from dyn_ros.engine.kernel import field_rows
from dyn_ros.engine.kernel.fields import Field
from dyn_ros.engine.machine_code.declare import KERNELS, SUBROUTINES

# The second argument of these functions is a field, or a place in one; functions of field_rows.py
# differ by their names.
PLACES = {
    *("offset", "matrix", "matrix_of_width", "matrix_row", "matrix_at", "columns_from"),
    *("matrix_transpose", "Matrix"),
}
ACCESSORS = {
    function.__name__ for function in KERNELS if function.__module__ == field_rows.__name__
} - PLACES
HIGH_LEVEL = {"clear_padding", "zero_unless_input", "has_input"}  # with r as first argument
UPDATERS = {name for name in ACCESSORS if name.startswith("add_to_")} | {"increase"}
WRITERS = {name for name in ACCESSORS if re.match("set_|clear_|accumulate", name)} | {
    *("clear", "clear_padding", "zero_unless_input"),
    *("store", "store3", "store9", "store_spatial", "store_se3", "store_inertia"),
    *("store_articulated", "store_coriolis", "store_simd", "store_lane", "store_symmetric"),
}
READERS = (ACCESSORS - UPDATERS - WRITERS) | {
    *("has_input", "load", "load3", "load9", "load_motion", "load_force", "load_se3"),
    *("load_inertia", "load_articulated", "load_coriolis", "load_simd", "load_lane"),
    "load_symmetric",
}


INDICES = {"r", *"ijkncd", "which", "side", "first", "row", "lane"}
"""Parameters that number rows, and not places, by their names."""


class Parameter(str):
    """The name of a parameter that holds a field, or a place in one."""


Place = Field | Parameter


class Access(NamedTuple):
    """What a kernel reads and writes, and the fields that its result points to."""

    reads: frozenset[Place]
    writes: frozenset[Place]
    result: frozenset[Place]


class _Function(ast.NodeVisitor):
    def __init__(self, function: Callable[..., Any]) -> None:
        source = ast.parse(textwrap.dedent(inspect.getsource(function)))
        self.node = source.body[0]
        assert isinstance(self.node, ast.FunctionDef)
        names = function.__code__.co_freevars
        cells = function.__closure__ or ()
        self.variables = {
            **function.__globals__,
            **{name: cell.cell_contents for name, cell in zip(names, cells)},
        }
        self.parameters = [argument.arg for argument in self.node.args.args]
        self.local: dict[str, set[Place]] = {
            name: {Parameter(name)} for name in self.parameters if name not in INDICES
        }
        self.reads: set[Place] = set()
        self.writes: set[Place] = set()
        self.result: set[Place] = set()

    def access(self) -> Access:
        before = -1
        while before != (size := sum(map(len, self.local.values())) + len(self.local)):
            before = size
            for statement in self.node.body:
                self.visit(statement)
        return Access(frozenset(self.reads), frozenset(self.writes), frozenset(self.result))

    # --- the places that an expression stands for

    def constant(self, node: ast.expr) -> Any:
        if isinstance(node, ast.Name) and node.id not in self.local:
            return self.variables.get(node.id)
        if isinstance(node, ast.Attribute):
            owner = self.constant(node.value)
            return getattr(owner, node.attr, None) if inspect.ismodule(owner) else None
        return None

    def places(self, node: ast.expr | None) -> set[Place]:
        if node is None:
            return set()
        if isinstance(node, ast.Name) and node.id in self.local:
            return set(self.local[node.id])
        value = self.constant(node)
        if isinstance(value, Field):
            return {value}
        if isinstance(value, tuple):
            return {item for item in value if isinstance(item, Field)}
        if isinstance(node, ast.Call):
            return self.called(node)
        if isinstance(node, (ast.Attribute, ast.Subscript, ast.Starred)):
            return self.places(node.value)
        if isinstance(node, ast.BinOp):
            if isinstance(node.op, ast.Mult):  # a stride times an index
                return set()
            return self.places(node.left) | self.places(node.right)
        if isinstance(node, (ast.Tuple, ast.List)):
            return set().union(*map(self.places, node.elts))
        if isinstance(node, ast.IfExp):
            return self.places(node.body) | self.places(node.orelse)
        return set()

    def called(self, node: ast.Call) -> set[Place]:
        function = self.constant(node.func)
        name = getattr(function, "__name__", "")
        arguments = [self.places(argument) for argument in node.args]
        if not function:
            return set()
        if name in PLACES:
            return arguments[1 if ast.unparse(node.args[0]) == "r" else 0]
        if isinstance(function, type) and hasattr(function, "_fields"):
            return set().union(*arguments)
        if name == "transpose_tile":  # (work, source, destination, step)
            self.reads |= arguments[1]
            self.writes |= arguments[2]
            return set()
        if name in READERS | WRITERS | UPDATERS:
            is_field = name in ACCESSORS | HIGH_LEVEL or ast.unparse(node.args[0]) == "r.work"
            touched = arguments[1] if is_field and len(arguments) > 1 else set()
            if name in READERS | UPDATERS:
                self.reads |= touched
            if name in WRITERS | UPDATERS:
                self.writes |= touched
            return set()
        if function in KERNELS or function in SUBROUTINES:
            inner = access(function)
            names = list(inspect.signature(function).parameters)
            passed = dict(zip(names, arguments))
            self.reads |= _substituted(inner.reads, passed)
            self.writes |= _substituted(inner.writes, passed)
            return _substituted(inner.result, passed)
        return set().union(*arguments) if name in ("min", "max") else set()

    # --- statements

    def bind(self, target: ast.expr, value: set[Place]) -> None:
        for name in ast.walk(target):
            if isinstance(name, ast.Name):
                self.local.setdefault(name.id, set()).update(value)

    def visit_Assign(self, node: ast.Assign) -> None:
        for target in node.targets:
            if (
                isinstance(target, ast.Tuple)
                and isinstance(node.value, ast.Tuple)
                and len(target.elts) == len(node.value.elts)
            ):
                for item, value in zip(target.elts, node.value.elts):
                    self.bind(item, self.places(value))
            else:
                self.bind(target, self.places(node.value))
        self.generic_visit(node)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        self.bind(node.target, self.places(node.value))
        self.generic_visit(node)

    def visit_For(self, node: ast.For) -> None:
        self.bind(node.target, self.places(node.iter))
        self.generic_visit(node)

    def visit_Return(self, node: ast.Return) -> None:
        self.result |= self.places(node.value)
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        self.called(node)
        self.generic_visit(node)


def _substituted(places: Iterable[Place], passed: Mapping[str, set[Place]]) -> set[Place]:
    found: set[Place] = set()
    for place in places:
        found |= passed.get(place, set()) if isinstance(place, Parameter) else {place}
    return found


@functools.cache
def access(function: Callable[..., Any]) -> Access:
    """Return the fields that a kernel reads and writes, with all kernels that it calls."""
    if function.__name__ in PLACES | READERS | WRITERS | UPDATERS:
        return Access(frozenset(), frozenset(), frozenset())
    return _Function(function).access()
