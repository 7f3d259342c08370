# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Compilation of kernels to LLVM's intermediate representation, with Numba.

This is the only module that compiles with Numba. Numba compiles each function to a library of
machine code, with wrappers for Python and for C. Here, functions are compiled only to the
intermediate representation, without those passes of Numba that kernels do not require. It is
optimized once, together with all functions that are inlined into it. Each level of calls therefore
optimizes the code of all levels below it again. A subroutine ends this: its callers call it, and an
entry receives its optimized representation as it is.

The result depends on the number of lanes, but not on the processor: code is optimized for one of
the middle level, and ``emit.py`` generates machine code for others as well.
"""

import contextlib
import functools
import gc
import importlib
import weakref
from collections.abc import Callable, Iterator
from types import FunctionType
from typing import Any

import llvmlite.binding as llvm
from llvmlite import ir
from numba import types
from numba.core import cgutils, config, errors, sigutils, typed_passes, untyped_passes
from numba.core.codegen import JITCodeLibrary, JITCPUCodegen
from numba.core.compiler import Compiler
from numba.core.compiler_lock import global_compiler_lock
from numba.core.registry import CPUDispatcher, cpu_target
from numba.core.targetconfig import ConfigStack
from numba.core.typing.templates import infer_global
from numba.extending import intrinsic as numba_intrinsic
from numba.extending import overload as numba_overload
from numba.extending import typeof_impl

from .declare import FLAGS, IMPLEMENTATIONS, KERNELS, SUBROUTINES

_OPTIONS: dict[str, Any] = {
    "fastmath": set(FLAGS),
    "error_model": "numpy",
    "boundscheck": False,
    "nopython": True,
    "no_cpython_wrapper": True,
    "no_cfunc_wrapper": True,
    "_nrt": False,
}
_ARGUMENT_TYPES = {"q": types.int64, "p": types.int64, "d": types.float64}
_OPTIMIZATION_CPU = "x86-64-v3" if "x86_64" in llvm.get_process_triple() else ""
# Subroutines by the names of their compiled functions.
_subroutines: "weakref.WeakValueDictionary[str, _SubroutineLibrary]" = weakref.WeakValueDictionary()


class _Codegen(JITCPUCodegen):
    """Code generator that optimizes for a processor of the middle level, such as x86-64-v3."""

    def _get_host_cpu_name(self) -> str:
        return _OPTIMIZATION_CPU

    def _get_host_cpu_features(self) -> str:
        return ""


@functools.cache
def _codegen() -> _Codegen:
    return _Codegen("dyn_ros")


class _FunctionLibrary(JITCodeLibrary):
    """Representation of a function; linked with its callees and optimized on demand."""

    _optimized: Any = None
    is_subroutine = False

    def add_ir_module(self, ir_module: Any) -> None:
        module = llvm.parse_assembly(cgutils.normalize_ir_text(str(ir_module)))
        module.name = ir_module.name
        self._final_module.link_in(module)

    def add_linking_library(self, library: Any) -> None:
        if library not in self._linking_libraries:
            self._linking_libraries.append(library)

    def finalize(self) -> None:
        self._finalized = True

    def optimized(self) -> Any:
        """Return the code with its callees; subroutines are only declared."""
        if self._optimized is None:
            self._link_callees()
            self._optimize_final_module()
            for function in self._final_module.functions:
                if not function.is_declaration and function.linkage == llvm.Linkage.external:
                    function.linkage = "linkonce_odr"
            self._optimized = self._final_module
        return self._optimized

    def _link_callees(self) -> None:
        """Link all callees except subroutines."""
        for callee in self._linking_libraries:
            if not isinstance(callee, _FunctionLibrary):
                callee._ensure_finalized()
                self._final_module.link_in(callee._get_module_for_linking(), preserve=True)
            elif not callee.is_subroutine:
                self._final_module.link_in(callee.optimized(), preserve=True)

    @staticmethod
    def _link_subroutines(module: Any) -> None:
        """Link the subroutines that a module declares, and those that they declare."""
        while missing := [
            function.name
            for function in module.functions
            if function.is_declaration and function.name in _subroutines
        ]:
            for name in missing:
                module.link_in(_subroutines[name].optimized(), preserve=True)
                module.get_function(name).linkage = "internal"

    def linked_text(self, symbol: str) -> str:
        """Return the text of the code with all callees, in which only ``symbol`` is visible."""
        self._link_callees()
        _make_internal(self._final_module, symbol)
        self._optimize_final_module()
        self._link_subroutines(self._final_module)
        _make_internal(self._final_module, symbol)
        self._final_module.verify()
        return str(self._final_module)

    def _get_module_for_linking(self) -> Any:
        """Return the code with all subroutines, for functions that Numba alone compiles."""
        module = self.optimized().clone()
        self._link_subroutines(module)
        for function in module.functions:
            if not function.is_declaration:
                function.linkage = "linkonce_odr"
        return module


class _SubroutineLibrary(_FunctionLibrary):
    """A function that is called: its callers only declare it."""

    is_subroutine = True

    def add_ir_module(self, ir_module: Any) -> None:
        super().add_ir_module(ir_module)
        _subroutines.update(
            (function.name, self) for function in ir_module.functions if not function.is_declaration
        )


def _make_internal(module: Any, symbol: str) -> None:
    for item in (*module.functions, *module.global_variables):
        if not item.is_declaration and item.name != symbol:
            item.linkage = "internal"


class _Lowering(typed_passes.NativeLowering):
    """Numba's lowering without machine code; its key is a placeholder."""

    def run_pass(self, state: Any) -> bool:
        state.flags.no_compile = True
        super().run_pass(state)
        key: Any = [].append  # unique while it exists; Numba expects this type
        state.targetctx.insert_user_function(key, state.cr.fndesc, [state.library])
        state["cr"] = state.cr._replace(cfunc=key)
        return True


class _Compiler(Compiler):
    """Compiler with only those passes that kernels require."""

    _PASSES = (
        untyped_passes.TranslateByteCode(),
        untyped_passes.FixupArgs(),
        untyped_passes.IRProcessing(),
        untyped_passes.GenericRewrites(),
        untyped_passes.ReconstructSSA(),
        typed_passes.NopythonTypeInference(),
        typed_passes.PreLowerStripPhis(),
        typed_passes.IRLegalization(),
        _Lowering(),
        typed_passes.NoPythonBackend(),
    )
    _library = _FunctionLibrary

    def _compile_core(self) -> Any:
        state = self.state
        state.library = self._library(_codegen(), state.func_id.func_qualname)
        with ConfigStack().enter(state.flags.copy()):
            for optimization in self._PASSES:
                optimization.run_pass(state)
        return state.cr


class _SubroutineCompiler(_Compiler):
    """Compiler of subroutines."""

    _library = _SubroutineLibrary


class _CompiledFunction(CPUDispatcher):
    """The compiled form of a function that is called from compiled code."""

    def __init__(self, function: FunctionType, inline: bool) -> None:
        super().__init__(
            py_func=function,
            pipeline_class=_Compiler if inline else _SubroutineCompiler,
            targetoptions=dict(_OPTIONS, forceinline=inline),
        )

    def add_overload(self, cres: Any) -> None:
        self.overloads[tuple(cres.signature.args)] = cres

    def compile(self, sig: Any) -> Any:
        args, return_type = sigutils.normalize_signature(sig)
        if tuple(args) not in self.overloads:
            with global_compiler_lock, self._compiling_counter:
                self.add_overload(self._compiler.compile(args, return_type))
        return self.overloads[tuple(args)].entry_point

    def get_call_template(self, args: Any, kws: Any) -> Any:
        """Return one version for all numbers, instead of one for each literal."""
        general = [types.unliteral(arg) for arg in args]
        try:
            return super().get_call_template(general, kws)
        except errors.TypingError:
            if general == list(args):
                raise
            return super().get_call_template(args, kws)


@functools.cache
def _compiled_function(function: FunctionType) -> _CompiledFunction:
    return _CompiledFunction(function, inline=function in KERNELS)


@typeof_impl.register(FunctionType)
def _type_of_function(function: FunctionType, context: Any) -> Any:
    """Return the type of a kernel or subroutine in compiled code; None for other functions."""
    if function in KERNELS or function in SUBROUTINES:
        return types.Dispatcher(_compiled_function(function))
    return None


def intrinsic(function: Any) -> Callable:
    """Declare a generator of code for calls of a function, as ``numba.extending.intrinsic``."""

    def register(typing: Callable) -> Any:
        generator = numba_intrinsic(typing)
        cpu_target.typing_context.refresh()
        infer_global(function, cpu_target.typing_context.resolve_value_type(generator))
        return generator

    return register


def overload(function: Callable) -> Callable:
    """Declare an implementation, compiled like kernels, as ``numba.extending.overload``."""
    options = {
        "pipeline_class": _Compiler,
        "forceinline": True,
        "no_cfunc_wrapper": True,
        "_nrt": False,
    }
    return numba_overload(function, jit_options=options)


@contextlib.contextmanager
def _fast_compilation(vectorize_loops: bool) -> Iterator[None]:
    """Resolve each call with the same types only once, and suspend garbage collection.

    Vectorization of loops pays only for loops over many samples: loops of kernels have few steps,
    and operations on lanes are vectors already.
    """
    context, signatures = cpu_target.typing_context, {}
    resolve = context.resolve_function_type

    def resolve_once(function: Any, args: Any, kws: Any) -> Any:
        if kws or not isinstance(function, types.Function):
            return resolve(function, args, kws)
        key = function, tuple(args)
        if key not in signatures:
            signature = resolve(function, args, kws)
            if signature is None:
                return None
            signatures[key] = signature
        return signatures[key]

    with global_compiler_lock:
        collecting = gc.isenabled()
        gc.disable()
        context.resolve_function_type = resolve_once
        previous, config.LOOP_VECTORIZE = config.LOOP_VECTORIZE, vectorize_loops
        try:
            yield
        finally:
            config.LOOP_VECTORIZE = previous
            del context.resolve_function_type
            if collecting:
                gc.enable()


def lower_to_module(function: FunctionType, signature: str, symbol: str, is_kernel: bool) -> str:
    """Compile an entry to the text of a module that refers to nothing but ``memcpy`` and the like.

    The module defines the function ``symbol`` with the calling convention of C. It has the
    arguments of a kernel, four addresses, or the address of its arguments, of 8 bytes each.
    """
    for name in IMPLEMENTATIONS:
        importlib.import_module(name)
    numbers = [_ARGUMENT_TYPES[letter] for letter in signature]
    with _fast_compilation(vectorize_loops=not is_kernel):
        compiled = _CompiledFunction(function, inline=True)
        compiled.compile(types.int64(*numbers))
        (result,) = compiled.overloads.values()
        library, context = result.library, result.target_context
        library.add_ir_module(_c_function(context, result.fndesc, symbol, is_kernel))
        return library.linked_text(symbol)


def _c_function(context: Any, descriptor: Any, symbol: str, is_kernel: bool) -> ir.Module:
    """Return a module with a function of C that calls a function of Numba."""
    module = context.create_module(symbol)
    numbers = [context.get_value_type(kind) for kind in descriptor.argtypes]
    word = ir.IntType(64)
    arguments = numbers if is_kernel else [word.as_pointer()]
    entry = ir.Function(module, ir.FunctionType(word, arguments), symbol)
    builder = ir.IRBuilder(entry.append_basic_block())
    values = list(entry.args)
    if not is_kernel:
        values = [
            builder.load(
                builder.bitcast(
                    builder.gep(entry.args[0], [ir.Constant(word, n)]), kind.as_pointer()
                )
            )
            for n, kind in enumerate(numbers)
        ]
    callee = context.declare_function(module, descriptor)
    _, result = context.call_conv.call_function(
        builder, callee, descriptor.restype, descriptor.argtypes, values
    )
    builder.ret(result)
    return module
