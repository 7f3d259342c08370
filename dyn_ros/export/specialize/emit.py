# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""From a trace of operations to LLVM's intermediate representation, and to machine code."""

from __future__ import annotations

import functools
import importlib.util
import struct
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from .order import depends_on, needed
from .trace import NotTraceable, Operand, Operation, trace_of_sincos

# All numbers are finite unless the caller's are not, so that 0 x and x - x are zero. As in kernels,
# sums keep their order.
_FLAGS = "nnan ninf nsz arcp contract"
_BINARY = {"add": "fadd", "sub": "fsub", "mul": "fmul", "div": "fdiv"}
_INTRINSIC = {"sqrt": "sqrt", "fabs": "fabs", "rint": "rint", "fma": "fma"}
_FUSED = {"muladd": (False, False), "mulsub": (False, True), "submul": (True, False)}
"""a b + c, a b - c and c - a b: whether a and c are negated."""
_OLDEST = (20, 0, 0)  # LLVM
_WIDEST = 8  # sines computed together


class Writer:
    """Writes the operations of a trace as instructions on numbers, or on vectors of them."""

    def __init__(
        self, operations: Sequence[Operation], inputs: Mapping[str, str], width: int = 1
    ) -> None:
        self.lines: list[str] = []
        self.widths: set[int] = set()  # of the vectors of sines
        self._operations, self._inputs, self._width = operations, inputs, width
        self._kind = "double" if width == 1 else f"<{width} x double>"
        self._suffix = "f64" if width == 1 else f"v{width}f64"
        self._names: dict[int, str] = {}
        self._count = 0

    def new(self, instruction: str) -> str:
        """Append an instruction; the name of its result."""
        self._count += 1
        self.lines.append(f"  %x{self._count} = {instruction}")
        return f"%x{self._count}"

    def name(self, operand: Operand) -> str:
        """The text of an operand."""
        if isinstance(operand, int):
            return self._names[operand]
        return splat(self._width, hexadecimal(operand))

    def write(self, order: Sequence[int]) -> None:
        """Write operations: first those that angles depend on, then their sines, then the rest."""
        operations = self._operations
        turns = [n for n in order if operations[n][0] in ("sin", "cos")]
        angles = list(dict.fromkeys(operations[n][1] for n in turns))
        for n in self._below(angles):
            self._names[n] = self._operation(*operations[n])
        sines = self._sines(angles)
        for n in turns:
            name, angle = operations[n]
            self._names[n] = sines[angle][name == "cos"]
        for n in order:
            if n not in self._names:
                self._names[n] = self._operation(*operations[n])

    def _below(self, angles: Sequence[Operand]) -> list[int]:
        """The operations that angles depend on, in order."""
        below, pending = set(), [angle for angle in angles if isinstance(angle, int)]
        while pending:
            n = pending.pop()
            if n not in below:
                below.add(n)
                if self._operations[n][0] in ("sin", "cos"):
                    raise NotTraceable("a sine of a sine")
                pending += depends_on(self._operations[n])
        return sorted(below)

    def _sines(self, angles: Sequence[Operand]) -> dict[Operand, tuple[str, str]]:
        """The names of the sine and the cosine of each angle; several are computed together."""
        sines: dict[Operand, tuple[str, str]] = {}
        for start in range(0, len(angles), _WIDEST):
            some = angles[start : start + _WIDEST]
            width = 1 << (len(some) - 1).bit_length()
            self.widths.add(width)
            kind, together = f"<{width} x double>", "zeroinitializer"
            for lane, angle in enumerate(some):
                together = self.new(
                    f"insertelement {kind} {together}, double {self.name(angle)}, i32 {lane}"
                )
            both = self.new(f"call {{{kind}, {kind}}} @sincos{width}({kind} {together})")
            parts = [self.new(f"extractvalue {{{kind}, {kind}}} {both}, {n}") for n in (0, 1)]
            for lane, angle in enumerate(some):
                sine, cosine = (
                    self.new(f"extractelement {kind} {part}, i32 {lane}") for part in parts
                )
                sines[angle] = sine, cosine
        return sines

    def _operation(self, name: str, *operands: Any) -> str:
        kind = self._kind
        if name == "input":
            source, k = operands
            return self.load(self._inputs[source], k)
        values = [self.name(x) for x in operands]
        if name in _BINARY:
            return self.new(f"{_BINARY[name]} {_FLAGS} {kind} {values[0]}, {values[1]}")
        if name in _FUSED:
            for n, is_negated in zip((0, 2), _FUSED[name]):
                if is_negated:
                    values[n] = self.new(f"fneg {_FLAGS} {kind} {values[n]}")
            name = "fma"
        if name == "neg":
            return self.new(f"fneg {_FLAGS} {kind} {values[0]}")
        if name == "select":
            bits = "i1" if self._width == 1 else f"<{self._width} x i1>"
            above = self.new(f"fcmp ogt {kind} {values[0]}, {values[1]}")
            return self.new(f"select {bits} {above}, {kind} {values[2]}, {kind} {values[3]}")
        arguments = ", ".join(f"{kind} {value}" for value in values)
        function = f"@llvm.{_INTRINSIC[name]}.{self._suffix}"
        return self.new(f"call {_FLAGS} {kind} {function}({arguments})")

    def load(self, pointer: str, k: int) -> str:
        """Number k at a pointer, or the whole of a vector that is passed by value."""
        if self._width > 1 or pointer == "%angle":
            return pointer
        place = self.new(f"getelementptr double, ptr {pointer}, i64 {k}")
        return self.new(f"load double, ptr {place}, align 8")

    def store(self, pointer: str, k: int, value: Operand) -> None:
        """Store a number."""
        place = self.new(f"getelementptr double, ptr {pointer}, i64 {k}")
        self.lines.append(f"  store double {self.name(value)}, ptr {place}, align 8")

    def status(self, checks: Sequence[tuple[Operand, Operand, int]]) -> str:
        """The status of the call: of the first condition that does not hold, or zero."""
        status = "0"
        for a, b, failed in reversed(checks):
            holds = self.new(f"fcmp ogt double {self.name(a)}, {self.name(b)}")
            status = self.new(f"select i1 {holds}, i64 {status}, i64 {failed}")
        return status


def splat(width: int, number: str) -> str:
    """A constant vector with equal entries."""
    return number if width == 1 else "<" + ", ".join([f"double {number}"] * width) + ">"


def hexadecimal(x: float) -> str:
    """A float as LLVM writes it."""
    return f"0x{struct.unpack('<Q', struct.pack('<d', x))[0]:016X}"


@functools.cache
def sincos_function(width: int) -> str:
    """A function that returns the sines and cosines of a vector of angles."""
    trace, results = trace_of_sincos()
    writer = Writer(trace.operations, {"x": "%angle"}, width)
    writer.write(needed(trace.operations, results))
    kind = f"<{width} x double>"
    sine, cosine = (writer.name(x) for x in results)
    if width == 1:
        sine, cosine = (
            writer.new(f"insertelement {kind} poison, double {x}, i32 0") for x in (sine, cosine)
        )
    argument = "%angles" if width == 1 else "%angle"
    first = f"  %angle = extractelement {kind} %angles, i32 0\n" if width == 1 else ""
    body = "\n".join(writer.lines)
    return f"""
define internal {{{kind}, {kind}}} @sincos{width}({kind} {argument}) alwaysinline nounwind {{
{first}{body}
  %s = insertvalue {{{kind}, {kind}}} poison, {kind} {sine}, 0
  %sc = insertvalue {{{kind}, {kind}}} %s, {kind} {cosine}, 1
  ret {{{kind}, {kind}}} %sc
}}
"""


def sincos_functions(widths: Iterable[int]) -> str:
    """The functions that compute the sines of vectors of such widths."""
    return "".join(map(sincos_function, sorted(widths)))


def declarations(widths: Iterable[int]) -> str:
    """The declarations of the intrinsic functions that code on such vectors refers to."""
    lines = []
    for name in _INTRINSIC.values():
        for width in sorted({1, *widths}):
            kind, suffix = (
                ("double", "f64") if width == 1 else (f"<{width} x double>", f"v{width}f64")
            )
            arguments = ", ".join([kind] * (3 if name == "fma" else 1))
            lines.append(f"declare {kind} @llvm.{name}.{suffix}({arguments})")
    return "\n".join(lines) + "\n"


def has_fma(target: str) -> bool:
    """Whether a processor multiplies and adds in one instruction."""
    return target != "x86-64-v2"


def object_of(text: str, target: str) -> bytes:
    """An ELF object with the optimized machine code of a module."""
    if importlib.util.find_spec("llvmlite") is None:
        raise ModuleNotFoundError(
            "functions for one robot are generated by llvmlite; install it "
            'with `pip install "dyn_ros[compiler]"`',
            name="llvmlite",
        )
    import llvmlite.binding as llvm

    from ...engine.machine_code import emit

    version = tuple(map(int, llvm.llvm_version_info))
    if version < _OLDEST:
        raise ImportError(
            f"functions for one robot need LLVM {_OLDEST[0]} or later, but llvmlite "
            f'has {version[0]}; run `pip install "dyn_ros[compiler]"`'
        )
    module = emit.module_for('target datalayout = ""\ntarget triple = ""\n' + text, target)
    tuning = llvm.create_pipeline_tuning_options(speed_level=2)
    tuning.slp_vectorization, tuning.loop_vectorization = True, False
    builder = llvm.create_pass_builder(emit.machine(target), tuning)
    builder.getModulePassManager().run(module, builder)
    return emit.machine(target).emit_object(module)
