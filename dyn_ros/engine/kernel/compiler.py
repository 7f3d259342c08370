# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Compilation of kernels by Numba, with a cache that is shared by successive processes.

A kernel calls many small functions, all of which are inlined into its machine code. The name of an
entry in the cache contains a digest of everything that its function can reach (``reach.py``), so an
entry is used only as long as compilation would result in the same machine code.
``numba_private.py`` accelerates compilation and makes the cache possible. Without it, Numba's
public interface gives the same results.
"""
import contextlib
import functools
import importlib
import os
import threading
import warnings
from collections.abc import Callable
from typing import Any

import numba
import numba.extending

from . import cache, reach
from .extension import native

JIT = not numba.config.DISABLE_JIT
# NaN and infinity must propagate to results. With "reassoc", LLVM would turn sums of sums into one
# long chain of additions, each of which waits for the one before.
FLAGS = ("contract", "nsz", "arcp")
_OPTIONS: dict[str, Any] = {"fastmath": set(FLAGS), "error_model": "numpy", "boundscheck": False}
_lock = threading.RLock()
# A process that is forked during a compilation could never compile or load anything.
os.register_at_fork(before=_lock.acquire, after_in_parent=_lock.release,
                    after_in_child=_lock.release)
_private: Any = None            # numba_private, or None if it cannot be used at all
_is_fast = True                 # whether it is also used for compiling
_fallback_reason: Exception | None = None       # why one of these is not the case
_has_warned = False
if JIT:
    try:
        from . import numba_private as _private
    except Exception as error:      # deriving from private classes may raise anything
        _fallback_reason = error


def _use_public_interface(error: Exception) -> None:
    """Compile only through Numba's public interface from now on."""
    global _is_fast, _fallback_reason
    _is_fast, _fallback_reason = False, error
    with contextlib.suppress(Exception):
        _private.disable_helpers()


def _warn_once(error: Exception | None) -> None:
    global _has_warned
    if not _has_warned:
        _has_warned = True
        warnings.warn(
            f"dyn_ros does not know the internals of Numba {numba.__version__} "
            f"({type(error).__name__}: {error}): functions take longer to compile, or are compiled "
            "in each process; results are not affected. A newer release of dyn_ros may support "
            "this Numba", RuntimeWarning, stacklevel=2)


def kernel(function: Callable) -> Any:
    """Decorator for functions that run inside a kernel.

    The result is for calls from compiled code; called from Python, it is compiled separately.
    """
    return _helper(function, inline=True)


def subroutine(function: Callable) -> Any:
    """Decorator for large functions that run inside several kernels: called, not inlined.

    Their code is optimized once, for floats and for lanes, instead of within each kernel.
    """
    return _helper(function, inline=False)


def sequence(*kernels: Any) -> Any:
    """A kernel that runs others, one after the other."""
    def pair(first, second):
        @kernel
        def both(r):
            first(r)
            second(r)
        return both
    return functools.reduce(pair, kernels)


def _helper(function: Callable, inline: bool) -> Any:
    if _private is not None and _is_fast:
        try:
            return _private.Helper(function, _OPTIONS, inline)
        except Exception as error:
            _use_public_interface(error)
    return numba.njit(forceinline=inline, **_OPTIONS)(function)


def overload(function: Callable) -> Callable:
    """As ``numba.extending.overload``: implements a function or operator in compiled code."""
    def register(implementation):
        reach.implementations.setdefault(function, []).append(implementation)
        if _private is not None and _is_fast:
            try:
                return _private.overload(function)(implementation)
            except Exception as error:
                _use_public_interface(error)
        return numba.extending.overload(function)(implementation)
    return register


def _plain(function: Callable, letters: str) -> tuple[Callable, Any]:
    """A function of addresses and its signature: four addresses, or that of packed arguments."""
    from numba import int64
    if letters == "qqqq":
        return function, int64(int64, int64, int64, int64)
    lanes = importlib.import_module(f"{__package__}.lanes")
    loads = ", ".join(f"load({'floats' if letter == 'd' else 'integers'}_at(address), {n})"
                      for n, letter in enumerate(letters))
    names = dict(__name__=__name__, load=lanes.load, floats_at=lanes.floats_at,
                 integers_at=lanes.integers_at, function=kernel(function))
    exec(f"def packed(address): return function({loads})", names)
    return names["packed"], int64(int64)


ENTRIES: dict[str, "Entry"] = {}
"""All entries, by name."""


class Entry:
    """A compiled function of one signature, called without Numba's dispatch on types.

    Calls do not check the types of the arguments. ``name`` is unique in the cache; with ``nogil``
    the interpreter lock is released while it runs.
    """

    def __init__(self, name: str, function: Callable, signature: Any, nogil: bool = True) -> None:
        self.letters, self.address = signature, 0
        if isinstance(signature, str):
            function, signature = _plain(function, signature)
        self.name, self.function, self._signature = name, function, signature
        self._options = dict(_OPTIONS, nogil=nogil)
        self._owner: Any = None                     # of the machine code
        self.call: Any = None
        ENTRIES[name] = self

    def load(self, before_compiling: Callable[[], object] | None = None) -> bool:
        """Load the entry from the cache, or compile it; return whether it was compiled."""
        if not JIT or self.call is not None:        # without the compiler, callers run the kernel
            return False
        with _lock:
            if self.call is not None:
                return False
            name = self.file_name()
            if name and self._load_cached(name):
                self._use_address()
                return False
            if before_compiling:
                before_compiling()
            self._compile()
            if name:
                self._store(name)
            self._use_address()
            return True

    def _use_address(self) -> None:
        if isinstance(self.letters, str):
            owner = self._owner
            result = owner if hasattr(owner, "library") else next(iter(owner.overloads.values()))
            self.address = result.library.get_pointer_to_function(
                result.fndesc.llvm_cfunc_wrapper_name)
            self.call = native().Function(self.address, self.letters, owner)

    def is_cached(self) -> bool:
        """Whether the cache contains it."""
        name = self.file_name()
        return name is not None and cache.read(name) is not None

    def file_name(self) -> str | None:
        """Name of its file in the cache, which differs if the machine code would differ.

        None if it cannot be cached.
        """
        if _private is None:
            return None
        try:
            options = sorted((key, str(value)) for key, value in self._options.items()
                             if key != "fastmath")
            circumstances = cache.VERSIONS, FLAGS, options, _private.processor()
            return f"{self.name}-" + reach.digest(
                self.function, self._signature, circumstances, _private.parts_of_type)
        except reach.NotComparable as error:
            warnings.warn(f"{self.name} is compiled in each process, because dyn_ros cannot detect "
                          f"whether it has changed: {error}", RuntimeWarning, stacklevel=3)
        except Exception as error:
            _warn_once(error)
        return None

    def _load_cached(self, name: str) -> bool:
        content = cache.read(name)
        if content is None:
            return False
        try:
            self.call, self._owner = _private.load(content)
        except Exception as error:
            _warn_once(error)
            return False
        return True

    def _compile(self) -> None:
        if _private is not None and _is_fast:
            try:
                with _private.fast_compilation():
                    self._compile_now(pipeline_class=_private.EntryCompiler)
                return
            except Exception as error:
                _use_public_interface(error)
        self._compile_now()                         # an error in the function itself is raised here
        _warn_once(_fallback_reason)

    def _compile_now(self, **options: Any) -> None:
        dispatcher = numba.njit(**self._options, **options)(self.function)
        self.call = dispatcher.compile(self._signature)
        self._owner = dispatcher

    def _store(self, name: str) -> None:
        if _private is None:
            return
        try:
            content = _private.dump(self._owner)
        except Exception as error:
            _warn_once(error)
            return
        try:
            if content is not None:
                cache.write(name, content)
        except OSError as error:
            warnings.warn(f"{self.name} will be compiled again in the next process, because it "
                          f"could not be cached: {error}", RuntimeWarning, stacklevel=3)
