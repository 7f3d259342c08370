# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Entries for one robot, which calls from Python use instead of the general entries.

They have the arguments of kernels: the integers of the model, the table of the call, the floats of
the model, and the work space. The structure of the robot is part of the code; gravity, inertias and
armature are read from the floats, since a model can change them. Inputs and results are where the
table says.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from ..engine.call.algorithm import ALGORITHMS, Algorithm
from ..engine.call.robot_library import constants
from ..engine.call.robot_library import digest as robot_digest
from ..engine.kernel import packing as ly
from ..engine.kernel.fields import Field, axis_lengths
from ..engine.model.model import Model
from .robot_functions import recorded, settable_floats
from .specialize.emit import Writer, declarations, has_fma, object_of, sincos_functions
from .specialize.order import ordered
from .specialize.trace import NotTraceable


class SpecializedEntry(NamedTuple):
    """The object of an entry, its symbol, and the symbol of its robot's digest, 8 bytes."""

    content: bytes
    symbol: str
    digest_symbol: str


def specialized_entry(model: Model, name: str, target: str) -> SpecializedEntry:
    """The entry of an algorithm for one state of one robot.

    The symbols are ``dyn_ros_NAME_one`` and ``dyn_ros_NAME_robot``. Optional inputs are read if the
    table says that the caller has passed them.

    Raises NotTraceable if the algorithm has options, more than one optional input, or branches
    that depend on the numbers of a call.
    """
    algorithm = ALGORITHMS[name]
    if algorithm.options or len(algorithm.optional) > 1:
        raise NotTraceable(f"{name} has options, or several optional inputs")
    symbol, widths, functions = f"dyn_ros_{name}_one", set[int](), ""
    calls = []
    for suffix, optional in (("without", ()), ("with", algorithm.optional)):
        if suffix == "without" or optional:
            inner, call, some = _inner(model, algorithm, optional, suffix, has_fma(target))
            widths |= some
            functions += inner
            calls.append(call)
    digest = robot_digest(model, algorithm)
    text = (
        declarations(widths)
        + sincos_functions(widths)
        + functions
        + _entry(symbol, algorithm, calls)
        + f"@dyn_ros_{name}_robot = constant i64 {digest}\n"
    )
    return SpecializedEntry(object_of(text, target), symbol, f"dyn_ros_{name}_robot")


def _inner(
    model: Model, algorithm: Algorithm, optional: tuple[Field, ...], name: str, fuse: bool
) -> tuple[str, list[str], set[int]]:
    """A function of separate arrays, the lines that call it, and the widths of its sines."""
    inputs = [f for f in algorithm.inputs if f not in algorithm.optional or f in optional]
    settable = {k: ("floats", k) for k in settable_floats(model)}
    record = recorded(model, algorithm, inputs, {}, settable, constants(model))
    stored = {
        f: [(k, x) for k, x in enumerate(values) if isinstance(x, int) or x == x]
        for f, values in sorted(record.fields.items())
    }
    kept = [
        *(x for values in stored.values() for _, x in values),
        *(x for a, b, _ in record.trace.checks for x in (a, b)),
    ]
    operations, order = ordered(record.trace.operations, kept, fuse)
    writer = Writer(operations, {f.name: f"%{f.name}" for f in inputs} | {"floats": "%floats"})
    writer.write(order)
    for f, values in stored.items():
        before = math.prod(axis_lengths(model, f.shape)) - len(record.fields[f])
        for k, x in values:
            writer.store(f"%{f.name}", before + k, x)
    writer.lines.append(f"  ret i64 {writer.status(record.trace.checks)}")
    arrays = [*inputs, *stored]
    arguments = ", ".join(f"ptr noalias %{f}" for f in (*(f.name for f in arrays), "floats"))
    body = "\n".join(writer.lines)
    text = f"define internal i64 @{name}({arguments}) noinline nounwind {{\n{body}\n}}\n"
    return text, _call(name, arrays), writer.widths


def _call(name: str, arrays: Sequence[Field]) -> list[str]:
    """Call a function of separate arrays, which begin at the addresses in the table."""
    lines, values = [], []
    for n, known in enumerate(arrays):
        here = f"%{name}{n}"
        lines += [
            f"  {here}p = getelementptr i64, ptr %table, i64 {ly.OFFSET + known}",
            f"  {here}o = load i64, ptr {here}p",
            f"  {here} = getelementptr double, ptr %work, i64 {here}o",
        ]
        values.append(f"ptr {here}")
    arguments = ", ".join([*values, "ptr %floats"])
    return [
        *lines,
        f"  %{name}s = call i64 @{name}({arguments})",
        f"  store i64 %{name}s, ptr %status",
        f"  ret i64 %{name}s",
    ]


def _entry(symbol: str, algorithm: Algorithm, calls: Sequence[list[str]]) -> str:
    """The entry, which calls the function without or with the optional input."""
    lines = [f"  %status = getelementptr i64, ptr %table, i64 {ly.STATUS}"]
    if algorithm.optional:
        passed = ly.HAS_INPUT + algorithm.optional[0]
        lines += [
            f"  %p = getelementptr i64, ptr %table, i64 {passed}",
            "  %x = load i64, ptr %p",
            "  %b = icmp ne i64 %x, 0",
            "  br i1 %b, label %yes, label %no",
            "yes:",
            *calls[1],
            "no:",
        ]
    body = "\n".join([*lines, *calls[0]])
    return (
        f"define i64 @{symbol}(ptr %ints, ptr %table, ptr %floats, ptr %work) nounwind {{\n"
        f"{body}\n}}\n"
    )
