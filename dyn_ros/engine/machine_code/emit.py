# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Machine code from LLVM's intermediate representation, for this processor and others."""

import functools
import re
from typing import Any

import llvmlite.binding as llvm

from .targets import TARGETS, best_target, find_target


@functools.cache
def create_target_machine(target: str) -> Any:
    """Return LLVM's description of a target."""
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    chosen = find_target(target)
    return llvm.Target.from_triple(chosen.triple).create_target_machine(
        cpu=chosen.cpu, features=chosen.features, opt=3, reloc=chosen.reloc, codemodel="small"
    )


def parse_module(text: str, target: str) -> Any:
    """Parse the text of a module, for a target."""
    chosen = find_target(target)
    text = re.sub(r"target triple = .*", f'target triple = "{chosen.triple}"', text)
    text = re.sub(
        r"target datalayout = .*",
        f'target datalayout = "{create_target_machine(target).target_data}"',
        text,
    )
    defined_text = text
    if not chosen.has_fma:
        defined_text = _with_fma(defined_text)
    if chosen.masked_as_select:
        defined_text = _with_selects(defined_text)
    module = llvm.parse_assembly(defined_text)
    if defined_text != text and hasattr(llvm, "PassBuilder"):  # LLVM 14 has none, and calls them
        inliner = llvm.ModulePassManager()
        inliner.add_always_inliner_pass()
        inliner.run(
            module, llvm.PassBuilder(create_target_machine(target), llvm.PipelineTuningOptions())
        )
    return module


def machine_code(text: str, target: str) -> bytes:
    """Return an object with the machine code of a module: ELF, or WebAssembly."""
    return create_target_machine(target).emit_object(parse_module(text, target))


def external_functions(text: str) -> list[str]:
    """Return the names of functions that a module calls, except to copy or clear memory."""
    names = set(re.findall(r'declare [^@\n]*@"?([\w.$]+)', text))
    return sorted(
        name for name in names - {"memcpy", "memset", "memmove"} if not name.startswith("llvm.")
    )


def _with_fma(text: str) -> str:
    """Define the fused a b + c in the text, which would otherwise call the C library.

    The product is the sum of two floats (Dekker, 1971), as is its sum with c (Knuth, 1969). The
    error is at most (0.5 + 2^-50) units in the last place, unless a or b exceeds 1e299, which
    results in NaN, or their product is below 1e-290.
    """
    kinds = {
        suffix: kind
        for kind, suffix in re.findall(r"declare (double|<\d+ x double>) @llvm\.fma\.(\w+)\(", text)
    }
    for suffix, kind in kinds.items():
        text = re.sub(rf"declare .*@llvm\.fma\.{suffix}\(.*", "", text)
        text = text.replace(f"@llvm.fma.{suffix}(", f"@dyn_ros_fma_{suffix}(")
        text += (
            _FMA_TEMPLATE.replace("NUMBER", kind)
            .replace("SUFFIX", suffix)
            .replace("SPLITTER", _constant_text(kind, "134217729.0"))
        )
    return text


def _constant_text(kind: str, number: str) -> str:
    count = int(kind[1:].split()[0]) if kind.startswith("<") else 0
    return "<" + ", ".join([f"double {number}"] * count) + ">" if count else number


def _with_selects(text: str) -> str:
    """Replace masked loads and stores in the text by loads, selections and stores of all numbers.

    A row is stored with the numbers behind it as they were, so that these must be in the same
    block of memory. LLVM rejects the text if another form of an access remains.
    """
    text, count = re.subn(r"^declare .*@llvm\.masked\.(load|store)\..*\n", "", text, flags=re.M)
    if not count:
        return text
    pointer = r"(ptr|<8 x double>\*) (?:[a-z]\w* |align 8 )*(%[^\s,]+), (?:i32 8, )?"
    vector = r"(<[^>]*>|[^\s,)]+)"
    text = re.sub(
        rf"@llvm\.masked\.load\.\w+\.\w+\({pointer}"
        rf"<8 x i1> {vector}, <8 x double> zeroinitializer\)",
        r"@dyn_ros_masked_load(\1 \2, <8 x i1> \3)",
        text,
    )
    text = re.sub(
        rf"@llvm\.masked\.store\.\w+\.\w+\(<8 x double> {vector}, {pointer}<8 x i1> {vector}\)",
        r"@dyn_ros_masked_store(<8 x double> \1, \2 \3, <8 x i1> \4)",
        text,
    )
    has_typed_pointers = "double*" in text  # in LLVM 14
    pointer = "ROW*" if has_typed_pointers else "ptr"
    return text + _SELECT_TEMPLATE.replace("POINTER", pointer).replace("ROW", "<8 x double>")


_SELECT_TEMPLATE = """
define internal ROW @dyn_ros_masked_load(POINTER %row, <8 x i1> %mask) alwaysinline {
  %all = load ROW, POINTER %row, align 8
  %chosen = select <8 x i1> %mask, ROW %all, ROW zeroinitializer
  ret ROW %chosen
}
define internal void @dyn_ros_masked_store(ROW %x, POINTER %row, <8 x i1> %mask) alwaysinline {
  %old = load ROW, POINTER %row, align 8
  %new = select <8 x i1> %mask, ROW %x, ROW %old
  store ROW %new, POINTER %row, align 8
  ret void
}
"""

_FMA_TEMPLATE = """
define internal NUMBER @dyn_ros_fma_SUFFIX(NUMBER %a, NUMBER %b, NUMBER %c) alwaysinline {
  %ta = fmul NUMBER %a, SPLITTER
  %da = fsub NUMBER %ta, %a
  %ah = fsub NUMBER %ta, %da
  %al = fsub NUMBER %a, %ah
  %tb = fmul NUMBER %b, SPLITTER
  %db = fsub NUMBER %tb, %b
  %bh = fsub NUMBER %tb, %db
  %bl = fsub NUMBER %b, %bh
  %p = fmul NUMBER %a, %b
  %hh = fmul NUMBER %ah, %bh
  %hl = fmul NUMBER %ah, %bl
  %lh = fmul NUMBER %al, %bh
  %ll = fmul NUMBER %al, %bl
  %e1 = fsub NUMBER %hh, %p
  %e2 = fadd NUMBER %e1, %hl
  %e3 = fadd NUMBER %e2, %lh
  %e = fadd NUMBER %e3, %ll
  %s = fadd NUMBER %p, %c
  %z = fsub NUMBER %s, %p
  %y = fsub NUMBER %s, %z
  %u = fsub NUMBER %p, %y
  %w = fsub NUMBER %c, %z
  %f = fadd NUMBER %u, %w
  %g = fadd NUMBER %f, %e
  %r = fadd NUMBER %s, %g
  ret NUMBER %r
}
"""


class LoadedCode:
    """Machine code of an object in this process; it is freed with the last reference."""

    def __init__(self, content: bytes, symbol: str) -> None:
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        triple = TARGETS[best_target()].triple  # its objects are ELF on macOS too
        target = llvm.Target.from_triple(triple).create_target_machine()
        self._engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), target)
        self._engine.add_object_file(llvm.ObjectFileRef.from_data(content))
        self._engine.finalize_object()
        self.address: int = self._engine.get_function_address(symbol)
