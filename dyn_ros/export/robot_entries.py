# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Entries for one robot, which calls from Python use instead of the general entries.

They have the arguments of kernels: the integers of the model, the integers of the call, the floats
of the model, and the workspace. The structure of the robot is part of the code; gravity, inertias
and armature are read from the floats, since a model can change them. The integers of the call
contain the offsets of inputs and results in the workspace.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from ..engine.call.algorithm import ALGORITHMS, Algorithm
from ..engine.call.robot_library import code_digest as robot_digest
from ..engine.call.robot_library import rounded_floats
from ..engine.kernel import packing
from ..engine.kernel.fields import Field, axis_lengths
from ..engine.model.model import Model
from .robot_functions import record_kernel, settable_floats
from .specialize.llvm_ir import (
    InstructionWriter,
    compile_object,
    has_fma,
    intrinsic_declarations,
    sincos_functions,
)
from .specialize.order import schedule_operations
from .specialize.trace import NotTraceable


class RobotEntry(NamedTuple):
    """ELF object of an entry, its symbol, and the symbol of its robot's digest of 8 bytes."""

    content: bytes
    symbol: str
    digest_symbol: str


def specialize_entry(model: Model, name: str, target: str) -> RobotEntry:
    """Compile the entry of an algorithm for one state of one robot.

    The symbols are ``dyn_ros_NAME_one`` and ``dyn_ros_NAME_robot``. An optional input is read if
    the integers of the call mark it as passed.

    Raise NotTraceable if the algorithm has options, more than one optional input, or branches
    that depend on the numbers of a call.
    """
    algorithm = ALGORITHMS[name]
    if algorithm.options or len(algorithm.optional) > 1:
        raise NotTraceable(f"{name} has options, or several optional inputs")
    symbol, widths, functions = f"dyn_ros_{name}_one", set[int](), ""
    calls = []
    for suffix, optional in (("without", ()), ("with", algorithm.optional)):
        if suffix == "without" or optional:
            function, call, sine_widths = _array_function(
                model, algorithm, optional, suffix, has_fma(target)
            )
            widths |= sine_widths
            functions += function
            calls.append(call)
    code_digest = robot_digest(model, algorithm)
    text = (
        intrinsic_declarations(widths)
        + sincos_functions(widths)
        + functions
        + _entry_text(symbol, algorithm, calls)
        + f"@dyn_ros_{name}_robot = constant i64 {code_digest}\n"
    )
    return RobotEntry(compile_object(text, target), symbol, f"dyn_ros_{name}_robot")


def _array_function(
    model: Model, algorithm: Algorithm, optional: tuple[Field, ...], name: str, fuse: bool
) -> tuple[str, list[str], set[int]]:
    """Return a function of separate arrays, lines that call it, and the widths of its sines."""
    inputs = [f for f in algorithm.inputs if f not in algorithm.optional or f in optional]
    settable = {k: ("floats", k) for k in settable_floats(model)}
    kernel = record_kernel(model, algorithm, inputs, {}, settable, rounded_floats(model))
    stored = {
        f: [(k, x) for k, x in enumerate(values) if isinstance(x, int) or x == x]
        for f, values in sorted(kernel.fields.items())
    }
    needed_operands = [
        *(x for values in stored.values() for _, x in values),
        *(x for a, b, _ in kernel.trace.checks for x in (a, b)),
    ]
    operations, order = schedule_operations(kernel.trace.operations, needed_operands, fuse)
    writer = InstructionWriter(
        operations, {f.name: f"%{f.name}" for f in inputs} | {"floats": "%floats"}
    )
    writer.write_operations(order)
    for f, values in stored.items():
        # The kernel does not write the first row of some fields, the universe's.
        start = math.prod(axis_lengths(model, f.shape)) - len(kernel.fields[f])
        for k, x in values:
            writer.append_store(f"%{f.name}", start + k, x)
    writer.lines.append(f"  ret i64 {writer.append_status(kernel.trace.checks)}")
    arrays = [*inputs, *stored]
    arguments = ", ".join(f"ptr noalias %{f}" for f in (*(f.name for f in arrays), "floats"))
    body = "\n".join(writer.lines)
    text = f"define internal i64 @{name}({arguments}) noinline nounwind {{\n{body}\n}}\n"
    return text, _call_lines(name, arrays), writer.sine_widths


def _call_lines(name: str, arrays: Sequence[Field]) -> list[str]:
    """Return lines that call a function of separate arrays, at the offsets of this call."""
    lines, values = [], []
    for n, field in enumerate(arrays):
        pointer = f"%{name}{n}"
        lines += [
            f"  {pointer}p = getelementptr i64, ptr %call_ints, i64 {packing.OFFSET + field}",
            f"  {pointer}o = load i64, ptr {pointer}p",
            f"  {pointer} = getelementptr double, ptr %work, i64 {pointer}o",
        ]
        values.append(f"ptr {pointer}")
    arguments = ", ".join([*values, "ptr %floats"])
    return [
        *lines,
        f"  %{name}s = call i64 @{name}({arguments})",
        f"  store i64 %{name}s, ptr %status",
        f"  ret i64 %{name}s",
    ]


def _entry_text(symbol: str, algorithm: Algorithm, calls: Sequence[list[str]]) -> str:
    """Return the entry, which calls the function without or with the optional input."""
    lines = [f"  %status = getelementptr i64, ptr %call_ints, i64 {packing.STATUS}"]
    if algorithm.optional:
        has_input = packing.HAS_INPUT + algorithm.optional[0]
        lines += [
            f"  %p = getelementptr i64, ptr %call_ints, i64 {has_input}",
            "  %x = load i64, ptr %p",
            "  %b = icmp ne i64 %x, 0",
            "  br i1 %b, label %yes, label %no",
            "yes:",
            *calls[1],
            "no:",
        ]
    body = "\n".join([*lines, *calls[0]])
    return (
        f"define i64 @{symbol}(ptr %ints, ptr %call_ints, ptr %floats, ptr %work) nounwind {{\n"
        f"{body}\n}}\n"
    )
