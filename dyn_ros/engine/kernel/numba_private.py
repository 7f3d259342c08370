# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""All code that depends on private parts of Numba.

Numba may change these parts in any release, so importing this module or calling its functions may
fail. ``compiler.py`` then uses the public interface only, which compiles more slowly and without a
cache.

The advantage: Numba compiles each function to a library of machine code, with wrappers for Python
and for C. For the small functions inside a kernel, which are inlined, LLVM's intermediate
representation is sufficient. A ``Helper`` is compiled only to that representation, without those
passes of Numba that kernels do not require. The representation is optimized once, together with
all functions that are inlined into it; the resulting machine code is faster than if only entries
were optimized.

Each level of calls therefore optimizes the code of all levels below it again. A subroutine ends
this: its callers call it, and an entry receives its optimized representation as it is.
"""
import contextlib
import functools
import gc
import pickle
import weakref
from collections.abc import Callable, Iterator
from types import FunctionType
from typing import Any

import llvmlite.binding as llvm
from numba import njit, types
from numba.core import (
    cgutils,
    config,
    datamodel,
    errors,
    pythonapi,
    sigutils,
    typed_passes,
    untyped_passes,
)
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler, CompileResult
from numba.core.compiler_lock import global_compiler_lock
from numba.core.registry import CPUDispatcher, cpu_target
from numba.core.runtime import _nrt_python
from numba.core.serialize import dumps
from numba.core.targetconfig import ConfigStack
from numba.core.typing.templates import builtin_registry
from numba.extending import overload as numba_overload

_helpers: "weakref.WeakSet[Helper]" = weakref.WeakSet()
_implementations: set[FunctionType] = set()
_subroutines: "weakref.WeakValueDictionary[str, _SubroutineLibrary]" = (
    weakref.WeakValueDictionary())      # by the names of their compiled functions


class _Library(JITCodeLibrary):
    """Intermediate representation of a helper; linked with its callees and optimized on demand."""

    _optimized: Any = None
    is_subroutine = False

    def add_ir_module(self, ir_module):
        module = llvm.parse_assembly(cgutils.normalize_ir_text(str(ir_module)))
        module.name = ir_module.name
        self._final_module.link_in(module)

    def add_linking_library(self, library):
        if library not in self._linking_libraries:
            self._linking_libraries.append(library)

    def finalize(self):
        self._finalized = True

    def optimized(self):
        """Its code and that of its callees; subroutines are only declared."""
        if self._optimized is None:
            _link_callees(self)
            self._optimize_final_module()
            for function in self._final_module.functions:
                if not function.is_declaration and function.linkage == llvm.Linkage.external:
                    function.linkage = "linkonce_odr"
            self._optimized = self._final_module
        return self._optimized

    def _get_module_for_linking(self):
        """Its code with all subroutines, for functions that are compiled by Numba alone."""
        module = self.optimized().clone()
        _link_subroutines(module, "linkonce_odr")
        return module


class _SubroutineLibrary(_Library):
    """A helper that is called: its callers only declare it."""

    is_subroutine = True

    def add_ir_module(self, ir_module):
        super().add_ir_module(ir_module)
        _subroutines.update((function.name, self) for function in ir_module.functions
                            if not function.is_declaration)


class _EntryLibrary(JITCodeLibrary):
    """Machine code of an entry. Subroutines in it are not optimized again."""

    _linking_libraries: list[Any]
    vectorizes_loops = False

    def finalize(self):
        _link_callees(self)
        self._linking_libraries = [library for library in self._linking_libraries
                                   if not isinstance(library, _Library)]
        super().finalize()

    def _optimize_final_module(self):
        with _loop_vectorization(self.vectorizes_loops):
            super()._optimize_final_module()
        _link_subroutines(self._final_module, "internal")


def _link_callees(library: Any) -> None:
    """Link what a library calls, except subroutines."""
    for callee in library._linking_libraries:
        if not isinstance(callee, _Library):
            callee._ensure_finalized()
            library._final_module.link_in(callee._get_module_for_linking(), preserve=True)
        elif not callee.is_subroutine:
            library._final_module.link_in(callee.optimized(), preserve=True)


def _link_subroutines(module: Any, linkage: str) -> None:
    """Link the subroutines that a module declares, and those that they declare."""
    while missing := [function.name for function in module.functions
                      if function.is_declaration and function.name in _subroutines]:
        for name in missing:
            module.link_in(_subroutines[name].optimized(), preserve=True)
            module.get_function(name).linkage = linkage


@contextlib.contextmanager
def _loop_vectorization(enabled: bool) -> Iterator[None]:
    """Vectorize loops or not.

    It pays only for loops over many states or samples. Those of kernels have few steps, and
    operations on lanes are vectors already.
    """
    before, config.LOOP_VECTORIZE = config.LOOP_VECTORIZE, enabled
    try:
        yield
    finally:
        config.LOOP_VECTORIZE = before


class _Lowering(typed_passes.NativeLowering):
    """Numba's lowering without machine code; its key is a placeholder."""

    def run_pass(self, state):
        state.flags.no_compile = True
        super().run_pass(state)
        key: Any = [].append                    # unique while it exists, and of the expected type
        state.targetctx.insert_user_function(key, state.cr.fndesc, [state.library])
        state["cr"] = state.cr._replace(cfunc=key)
        return True


class _Compiler(Compiler):
    """Compiles helpers with only those passes that kernels require."""

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
    _library = _Library

    def _compile_core(self):
        state = self.state
        state.library = self._new_library(state.targetctx.codegen(), state.func_id.func_qualname)
        with ConfigStack().enter(state.flags.copy()):
            for optimization in self._PASSES:
                optimization.run_pass(state)
        return state.cr

    def _new_library(self, codegen, name):
        return self._library(codegen, name)


class _SubroutineCompiler(_Compiler):
    """Compiles subroutines."""

    _library = _SubroutineLibrary


class EntryCompiler(_Compiler):
    """Compiles entries to machine code.

    Entries for many states or samples release the interpreter lock.
    """

    _PASSES = (*_Compiler._PASSES[:-2], typed_passes.NativeLowering(),
               typed_passes.NoPythonBackend())
    _library = _EntryLibrary

    def _new_library(self, codegen, name):
        library = super()._new_library(codegen, name)
        library.enable_object_caching()
        library.vectorizes_loops = self.state.flags.release_gil
        return library


class Helper(CPUDispatcher):
    """A function that is called from compiled code: inlined, or as a subroutine."""

    def __init__(self, function: FunctionType, options: dict[str, Any],
                 inline: bool = True) -> None:
        super().__init__(
            py_func=function, pipeline_class=_Compiler if inline else _SubroutineCompiler,
            targetoptions=dict(options, nopython=True, forceinline=inline,
                               no_cpython_wrapper=True, no_cfunc_wrapper=True))
        self._from_python = njit(**options)
        _helpers.add(self)

    def add_overload(self, cres):
        self.overloads[tuple(cres.signature.args)] = cres

    def compile(self, sig):
        args, return_type = sigutils.normalize_signature(sig)
        if tuple(args) not in self.overloads:
            with global_compiler_lock, self._compiling_counter:
                self.add_overload(self._compiler.compile(args, return_type))
        return self.overloads[tuple(args)].entry_point

    def get_call_template(self, args, kws):
        """One version for all numbers, instead of one for each literal."""
        general = [types.unliteral(arg) for arg in args]
        try:
            return super().get_call_template(general, kws)
        except errors.TypingError:
            if general == list(args):
                raise
            return super().get_call_template(args, kws)

    def _compile_for_args(self, *args, **kws):
        """Compile an ordinary function for calls from Python."""
        if not isinstance(self._from_python, CPUDispatcher):
            self._from_python = self._from_python(self.py_func)
        return self._from_python._compile_for_args(*args, **kws)


def overload(function: Callable) -> Callable:
    """``numba.extending.overload`` whose implementations are compiled like helpers."""
    options = {"pipeline_class": _Compiler, "forceinline": True, "no_cfunc_wrapper": True}

    def register(implementation):
        _implementations.add(implementation)
        return numba_overload(function, jit_options=options)(implementation)
    return register


def disable_helpers() -> None:
    """Turn all helpers into ordinary, uncompiled functions of Numba."""
    for helper in list(_helpers):
        helper.__class__ = CPUDispatcher
        helper._reset_overloads()
        helper._compiler._failed_cache.clear()
        helper._compiler.pipeline_class = Compiler
        for option in ("no_cpython_wrapper", "no_cfunc_wrapper"):
            helper.targetoptions.pop(option, None)
    for template in builtin_registry.functions:
        if getattr(template, "_overload_func", None) in _implementations:
            template._impl_cache.clear()
            template._compiled_overloads.clear()
            template._jit_options = {"no_cpython_wrapper": True, "nopython": True}


@contextlib.contextmanager
def fast_compilation() -> Iterator[None]:
    """Resolve each call with the same types only once, and suspend garbage collection."""
    context, signatures = cpu_target.typing_context, {}
    resolve = context.resolve_function_type

    def resolve_once(function, args, kws):
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
        try:
            with _loop_vectorization(False):
                yield
        finally:
            del context.resolve_function_type
            if collecting:
                gc.enable()


def processor() -> tuple:
    """The target processor of the machine code, with its features."""
    return cpu_target.target_context.codegen().magic_tuple()


def dump(dispatcher: CPUDispatcher) -> bytes | None:
    """Serialize a dispatcher's only compiled function; None if it is only valid in this process.

    Numba adds the intermediate representation, for functions that link to this one. No function
    does, and reading it takes ten times as long as the machine code; only the names of the
    functions in the machine code are required.
    """
    (result,) = dispatcher.overloads.values()
    if result.library.has_dynamic_globals:
        return None
    names = (result.fndesc.llvm_func_name, result.fndesc.llvm_cpython_wrapper_name,
             result.fndesc.llvm_cfunc_wrapper_name)
    result.library._shared_module = llvm.parse_assembly("\n".join((
        f'target triple = "{llvm.get_process_triple()}"',
        *(f'define void @"{name}"() {{ ret void }}' for name in names))))
    return dumps(result._reduce())


@functools.cache
def _define_runtime() -> None:
    """Define the functions of Numba's runtime that machine code may call.

    ``rtsys.initialize`` also compiles others, which are already part of loaded machine code: LLVM
    occupies another 20 MB after its first compilation.
    """
    for name, address in _nrt_python.c_helpers.items():
        llvm.add_symbol(name if name.startswith("_") else f"NRT_{name}", address)


def load(content: bytes) -> tuple[Callable, Any]:
    """Restore a dumped function; returns it and the object that owns its machine code."""
    with global_compiler_lock:
        _define_runtime()
        result = CompileResult._rebuild(cpu_target.target_context, *pickle.loads(content))
    return result.entry_point, result


def parts_of_type(numba_type: types.Type) -> list[Any]:
    """The classes and functions that determine the memory layout of a type's values."""
    kind = type(numba_type)
    return [kind, type(datamodel.default_manager.lookup(numba_type)),
            pythonapi._unboxers.functions.get(kind)]
