# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""LLVM's intermediate representation (IR) of a trace of operations, and its machine code."""

from __future__ import annotations

import functools
import importlib.util
import struct
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from .order import find_dependencies, find_needed_operations
from .trace import NotTraceable, Operand, Operation, trace_of_sincos

# All numbers are finite if the caller's are, so that 0 x and x - x are zero. Sums keep their order,
# as in kernels.
_FAST_MATH_FLAGS = "nnan ninf nsz arcp contract"
_BINARY_INSTRUCTIONS = {"add": "fadd", "sub": "fsub", "mul": "fmul", "div": "fdiv"}
_INTRINSICS = {"sqrt": "sqrt", "fabs": "fabs", "rint": "rint", "fma": "fma"}
_FUSED_SIGNS = {"muladd": (False, False), "mulsub": (False, True), "submul": (True, False)}
"""For a b + c, a b - c and c - a b: True if a is negated, and if c is."""
_MIN_LLVM_VERSION = (20, 0, 0)
_MAX_SINE_WIDTH = 8  # angles in a vector whose sines are computed together


class InstructionWriter:
    """Writer of the operations of a trace as instructions on numbers, or on vectors of ``width``.

    ``inputs`` are the pointers of arrays by name; ``sine_widths`` are the widths of the vectors of
    angles whose sines are computed.
    """

    def __init__(
        self, operations: Sequence[Operation], inputs: Mapping[str, str], width: int = 1
    ) -> None:
        self.lines: list[str] = []
        self.sine_widths: set[int] = set()
        self._operations, self._inputs, self._width = operations, inputs, width
        self._kind = "double" if width == 1 else f"<{width} x double>"
        self._suffix = "f64" if width == 1 else f"v{width}f64"
        self._names: dict[int, str] = {}
        self._result_count = 0

    def append(self, instruction: str) -> str:
        """Append an instruction; return the name of its result."""
        self._result_count += 1
        self.lines.append(f"  %x{self._result_count} = {instruction}")
        return f"%x{self._result_count}"

    def operand_text(self, operand: Operand) -> str:
        """Return the text of an operand."""
        if isinstance(operand, int):
            return self._names[operand]
        return splat_constant(self._width, hexadecimal_float(operand))

    def write_operations(self, order: Sequence[int]) -> None:
        """Write operations in this order, but angles and their sines first."""
        operations = self._operations
        trigonometric = [n for n in order if operations[n][0] in ("sin", "cos")]
        angles = list(dict.fromkeys(operations[n][1] for n in trigonometric))
        for n in self._dependencies(angles):
            self._names[n] = self._write_operation(*operations[n])
        sines = self._write_sines(angles)
        for n in trigonometric:
            name, angle = operations[n]
            self._names[n] = sines[angle][name == "cos"]
        for n in order:
            if n not in self._names:
                self._names[n] = self._write_operation(*operations[n])

    def _dependencies(self, angles: Sequence[Operand]) -> list[int]:
        """Return the operations that angles depend on, in order."""
        dependencies, pending = set[int](), [angle for angle in angles if isinstance(angle, int)]
        while pending:
            n = pending.pop()
            if n not in dependencies:
                dependencies.add(n)
                if self._operations[n][0] in ("sin", "cos"):
                    raise NotTraceable("a sine of a sine")
                pending += find_dependencies(self._operations[n])
        return sorted(dependencies)

    def _write_sines(self, angles: Sequence[Operand]) -> dict[Operand, tuple[str, str]]:
        """Write the sines and cosines of angles, in vectors; return their names by angle."""
        sines: dict[Operand, tuple[str, str]] = {}
        for start in range(0, len(angles), _MAX_SINE_WIDTH):
            lanes = angles[start : start + _MAX_SINE_WIDTH]
            width = 1 << (len(lanes) - 1).bit_length()
            self.sine_widths.add(width)
            kind, vector = f"<{width} x double>", "zeroinitializer"
            for lane, angle in enumerate(lanes):
                vector = self.append(
                    f"insertelement {kind} {vector}, double {self.operand_text(angle)}, i32 {lane}"
                )
            pair = self.append(f"call {{{kind}, {kind}}} @sincos{width}({kind} {vector})")
            halves = [self.append(f"extractvalue {{{kind}, {kind}}} {pair}, {n}") for n in (0, 1)]
            for lane, angle in enumerate(lanes):
                sine, cosine = (
                    self.append(f"extractelement {kind} {half}, i32 {lane}") for half in halves
                )
                sines[angle] = sine, cosine
        return sines

    def _write_operation(self, name: str, *operands: Any) -> str:
        """Append the instructions of an operation; return the name of its result."""
        kind = self._kind
        if name == "input":
            source, k = operands
            return self.append_load(self._inputs[source], k)
        values = [self.operand_text(x) for x in operands]
        if name in _BINARY_INSTRUCTIONS:
            return self.append(
                f"{_BINARY_INSTRUCTIONS[name]} {_FAST_MATH_FLAGS} {kind} {values[0]}, {values[1]}"
            )
        if name in _FUSED_SIGNS:
            for n, is_negated in zip((0, 2), _FUSED_SIGNS[name]):
                if is_negated:
                    values[n] = self.append(f"fneg {_FAST_MATH_FLAGS} {kind} {values[n]}")
            name = "fma"
        if name == "neg":
            return self.append(f"fneg {_FAST_MATH_FLAGS} {kind} {values[0]}")
        if name == "select":
            bits = "i1" if self._width == 1 else f"<{self._width} x i1>"
            above = self.append(f"fcmp ogt {kind} {values[0]}, {values[1]}")
            return self.append(f"select {bits} {above}, {kind} {values[2]}, {kind} {values[3]}")
        arguments = ", ".join(f"{kind} {value}" for value in values)
        function = f"@llvm.{_INTRINSICS[name]}.{self._suffix}"
        return self.append(f"call {_FAST_MATH_FLAGS} {kind} {function}({arguments})")

    def append_load(self, pointer: str, k: int) -> str:
        """Load number k at a pointer; a vector is passed by value, and returned as it is."""
        if self._width > 1 or pointer == "%angle":
            return pointer
        address = self.append(f"getelementptr double, ptr {pointer}, i64 {k}")
        return self.append(f"load double, ptr {address}, align 8")

    def append_store(self, pointer: str, k: int, value: Operand) -> None:
        """Store a value as number k at a pointer."""
        address = self.append(f"getelementptr double, ptr {pointer}, i64 {k}")
        self.lines.append(f"  store double {self.operand_text(value)}, ptr {address}, align 8")

    def append_status(self, checks: Sequence[tuple[Operand, Operand, int]]) -> str:
        """Append the checks; return the name of the status of the first that fails, or of zero.

        A check (a, b, status) fails unless a > b.
        """
        status = "0"
        for a, b, failure_status in reversed(checks):
            holds = self.append(f"fcmp ogt double {self.operand_text(a)}, {self.operand_text(b)}")
            status = self.append(f"select i1 {holds}, i64 {status}, i64 {failure_status}")
        return status


def splat_constant(width: int, number: str) -> str:
    """Return a constant vector of ``width`` equal entries; the number itself for a width of 1."""
    return number if width == 1 else "<" + ", ".join([f"double {number}"] * width) + ">"


def hexadecimal_float(x: float) -> str:
    """Return a float as LLVM writes it."""
    return f"0x{struct.unpack('<Q', struct.pack('<d', x))[0]:016X}"


@functools.cache
def sincos_function(width: int) -> str:
    """Return a function that returns the sines and cosines of a vector of angles."""
    trace, results = trace_of_sincos()
    writer = InstructionWriter(trace.operations, {"x": "%angle"}, width)
    writer.write_operations(find_needed_operations(trace.operations, results))
    kind = f"<{width} x double>"
    sine, cosine = (writer.operand_text(x) for x in results)
    if width == 1:
        sine, cosine = (
            writer.append(f"insertelement {kind} poison, double {x}, i32 0") for x in (sine, cosine)
        )
    argument = "%angles" if width == 1 else "%angle"
    extract = f"  %angle = extractelement {kind} %angles, i32 0\n" if width == 1 else ""
    body = "\n".join(writer.lines)
    return f"""
define internal {{{kind}, {kind}}} @sincos{width}({kind} {argument}) alwaysinline nounwind {{
{extract}{body}
  %s = insertvalue {{{kind}, {kind}}} poison, {kind} {sine}, 0
  %sc = insertvalue {{{kind}, {kind}}} %s, {kind} {cosine}, 1
  ret {{{kind}, {kind}}} %sc
}}
"""


def sincos_functions(widths: Iterable[int]) -> str:
    """Return the functions that compute the sines of vectors of these widths."""
    return "".join(map(sincos_function, sorted(widths)))


def intrinsic_declarations(widths: Iterable[int]) -> str:
    """Return the declarations of intrinsic functions for numbers and vectors of these widths."""
    lines = []
    for name in _INTRINSICS.values():
        for width in sorted({1, *widths}):
            kind, suffix = (
                ("double", "f64") if width == 1 else (f"<{width} x double>", f"v{width}f64")
            )
            arguments = ", ".join([kind] * (3 if name == "fma" else 1))
            lines.append(f"declare {kind} @llvm.{name}.{suffix}({arguments})")
    return "\n".join(lines) + "\n"


def has_fma(target: str) -> bool:
    """Return True if a target multiplies and adds in one instruction."""
    return target != "x86-64-v2"


def compile_object(text: str, target: str) -> bytes:
    """Compile a module to an ELF object of optimized machine code."""
    if importlib.util.find_spec("llvmlite") is None:
        raise ModuleNotFoundError(
            "functions for one robot are generated by llvmlite; install it "
            'with `pip install "dyn_ros[compiler]"`',
            name="llvmlite",
        )
    import llvmlite.binding as llvm

    from ...engine.machine_code import emit

    version = tuple(map(int, llvm.llvm_version_info))
    if version < _MIN_LLVM_VERSION:
        raise ImportError(
            f"functions for one robot need LLVM {_MIN_LLVM_VERSION[0]} or later, but llvmlite "
            f'has {version[0]}; run `pip install "dyn_ros[compiler]"`'
        )
    module = emit.parse_module('target datalayout = ""\ntarget triple = ""\n' + text, target)
    tuning = llvm.create_pipeline_tuning_options(speed_level=2)
    tuning.slp_vectorization, tuning.loop_vectorization = True, False
    builder = llvm.create_pass_builder(emit.create_target_machine(target), tuning)
    builder.getModulePassManager().run(module, builder)
    return emit.create_target_machine(target).emit_object(module)
