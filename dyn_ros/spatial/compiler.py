# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Compilation of kernels by Numba, kept from one process to the next.

A kernel calls many small functions that all end up inside its machine code. An entry in the
cache is named by a digest of all that its function can reach (``reach.py``), so it is found again
exactly as long as it would be compiled to the same. ``numba_private.py`` makes this fast and makes
it possible to keep; without it Numba's public interface gives the same results.
"""
import contextlib
import os
import threading
import warnings
from collections.abc import Callable
from typing import Any

import numba
import numba.extending

from . import cache, reach

JIT = not numba.config.DISABLE_JIT
FLAGS = ("contract", "nsz", "arcp", "reassoc")     # keeps NaN and infinity: bad input must show
_OPTIONS: dict[str, Any] = {"fastmath": set(FLAGS), "error_model": "numpy", "boundscheck": False}
_lock = threading.RLock()
# A process that is forked in the midst of a compilation could never compile nor load anything.
os.register_at_fork(before=_lock.acquire, after_in_parent=_lock.release,
                    after_in_child=_lock.release)
_private: Any = None            # numba_private, or None where it cannot be used at all
_is_quick = True                # whether it is used for compiling, too
_doubt: Exception | None = None     # the reason if one of these is not the case
_has_warned = False
if JIT:
    try:
        from . import numba_private as _private
    except Exception as error:      # deriving from private classes may raise anything
        _doubt = error


def _compile_ordinarily(error: Exception) -> None:
    """Compile only through Numba's public interface from now on."""
    global _is_quick, _doubt
    _is_quick, _doubt = False, error
    with contextlib.suppress(Exception):
        _private.compile_ordinarily()


def _warn_once(error: Exception | None) -> None:
    global _has_warned
    if not _has_warned:
        _has_warned = True
        warnings.warn(
            f"Numba {numba.__version__} is not built as dyn_ros expects ({type(error).__name__}: "
            f"{error}): compiling takes longer, or is needed in each process anew; results are the "
            "same. A newer dyn_ros may know this Numba", RuntimeWarning, stacklevel=2)


def kernel(function: Callable) -> Any:
    """Decorator for functions that run inside a kernel.

    Parameters
    ----------
    function : callable

    Returns
    -------
    callable
        It, to be called from compiled code; from Python it is compiled by itself.
    """
    if _private is not None and _is_quick:
        try:
            return _private.Helper(function, _OPTIONS)
        except Exception as error:
            _compile_ordinarily(error)
    return numba.njit(forceinline=True, **_OPTIONS)(function)


def overload(function: Callable) -> Callable:
    """Decorator for the implementation of a function or an operator in compiled code.

    Parameters
    ----------
    function : callable

    Returns
    -------
    callable
        As ``numba.extending.overload``.
    """
    def register(implementation):
        reach.implementations.setdefault(function, []).append(implementation)
        if _private is not None and _is_quick:
            try:
                return _private.overload(function)(implementation)
            except Exception as error:
                _compile_ordinarily(error)
        return numba.extending.overload(function)(implementation)
    return register


ENTRIES: dict[str, "Entry"] = {}
"""All entries, by name."""


class Entry:
    """A compiled function of one signature, called without Numba's dispatch on types.

    Parameters
    ----------
    name : str
        Its name in the cache; unique.
    function : callable
        What to compile.
    signature : numba.core.typing.templates.Signature
        Its only signature. The caller answers for the arguments' types.
    nogil : bool
        Release the interpreter while it runs.
    """

    def __init__(self, name: str, function: Callable, signature: Any, nogil: bool) -> None:
        self.name, self._function, self._signature = name, function, signature
        self._options = dict(_OPTIONS, nogil=nogil)
        self._owner: Any = None                     # of the machine code
        self.call: Any = None
        ENTRIES[name] = self

    def load(self, before_compiling: Callable[[], object] | None = None) -> bool:
        """Load the entry from the cache, or compile it.

        Parameters
        ----------
        before_compiling : callable, optional
            Called where it has to be compiled, before that.

        Returns
        -------
        bool
            True where it had to be compiled.
        """
        if not JIT or self.call is not None:        # without the compiler, callers run the kernel
            return False
        with _lock:
            if self.call is not None:
                return False
            name = self.file_name()
            if name and self._take(name):
                return False
            if before_compiling:
                before_compiling()
            self._compile()
            if name:
                self._keep(name)
            return True

    def is_kept(self) -> bool:
        """Whether the cache holds it.

        Returns
        -------
        bool
        """
        name = self.file_name()
        return name is not None and cache.read(name) is not None

    def file_name(self) -> str | None:
        """Name of its file in the cache, which differs if the machine code would differ.

        Returns
        -------
        str or None
            None where it cannot be kept.
        """
        if _private is None:
            return None
        try:
            options = sorted((key, str(value)) for key, value in self._options.items()
                             if key != "fastmath")
            circumstances = cache.VERSIONS, FLAGS, options, _private.processor()
            return f"{self.name}-" + reach.digest(
                self._function, self._signature, circumstances, _private.parts_of_type)
        except reach.NotComparable as error:
            warnings.warn(f"{self.name} is compiled again in each process, as dyn_ros cannot see "
                          f"whether it changed: {error}", RuntimeWarning, stacklevel=3)
        except Exception as error:
            _warn_once(error)
        return None

    def _take(self, name: str) -> bool:
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
        if _private is not None and _is_quick:
            try:
                with _private.quick():
                    self._compile_now()
                return
            except Exception as error:
                _compile_ordinarily(error)
        self._compile_now()                         # an error in the function itself is raised here
        _warn_once(_doubt)

    def _compile_now(self) -> None:
        dispatcher = numba.njit(**self._options)(self._function)
        self.call = dispatcher.compile(self._signature)
        self._owner = dispatcher

    def _keep(self, name: str) -> None:
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
            warnings.warn(f"{self.name} will be compiled again next time: it could not be "
                          f"kept: {error}", RuntimeWarning, stacklevel=3)
