# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Entries: functions whose machine code Python calls.

The code comes from the installed library of machine code, from the cache, or from Numba, which is
imported only then. A kernel calls many small functions, all of which are inlined. The
digest of an entry describes everything that its function can reach (``reach.py``), so code is used
only as long as compilation would result in the same.
"""

import contextlib
import ctypes
import functools
import hashlib
import importlib
import importlib.util
import os
import platform
import threading
import warnings
import zlib
from collections.abc import Callable, Sequence
from typing import Any

from . import cache, library, reach
from .declare import FLAGS, IMPLEMENTATIONS, JIT
from .extension import native
from .targets import find_target

KERNEL = "qqqq"
"""The signature of a kernel: the addresses in ``KernelArgs``."""
_MATH_FUNCTIONS = ("atan2", "expm1")  # C functions that entries other than kernels may call
_lock = threading.RLock()
# A process that is forked during a compilation could never compile or load anything.
os.register_at_fork(
    before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_lock.release
)
ENTRIES: dict[str, "Entry"] = {}
"""All entries, by name."""


class Entry:
    """A function that becomes machine code.

    Its arguments are integers ("q" in ``signature``), floats ("d"), and addresses of arrays or
    bytes ("p"), and it returns an integer. Calls do not check what is at an address. The code of a
    kernel takes four addresses; other code takes the address of its arguments, of 8 bytes
    each. ``name`` is unique.
    """

    def __init__(self, name: str, function: Any, signature: str = KERNEL) -> None:
        self.name, self.function, self.signature = name, function, signature
        self.symbol = "dyn_ros_" + name.replace("-", "_")
        self.address = 0  # address of the machine code, 0 until it is loaded
        self.call: Any = None if JIT else _make_interpreted_call(function, signature)
        # LLVM frees the loaded machine code when nothing refers to this
        self._owner: Any = None
        ENTRIES[name] = self

    def load(self, before_compiling: Callable[[], object] | None = None) -> bool:
        """Load the machine code, or compile it; return True if it was compiled."""
        if not JIT or self.address:  # without the compiler, callers run the kernel
            return False
        with _lock:
            if self.address:
                return False
            library.require_runnable()
            address = library.code_address(self.name, self.symbol, self.digest_for)
            if address:
                self._set_code(address, None)
                return False
            target = library.target()
            code, is_new = self._read_or_compile(target, before_compiling)
            loaded = self._import_module("emit").LoadedCode(code, self.symbol)
            self._set_code(loaded.address, loaded)
            return is_new

    def _set_code(self, address: int, owner: Any) -> None:
        self.address, self._owner = address, owner
        self.call = native().Function(address, self.signature, owner)

    def is_cached(self, target: str | None = None) -> bool:
        """Return True if the machine code need not be compiled."""
        if target is None and library.code_address(self.name, self.symbol, self.digest_for):
            return True
        name = self.file_name(target or library.target())
        return name is not None and cache.read_entry(name) is not None

    def code_for(self, target: str) -> bytes:
        """Return the machine code for a target, from the cache or compiled: an ELF object."""
        with _lock:
            return self._read_or_compile(target, None)[0]

    def compile(self, targets: Sequence[str]) -> bool:
        """Compile the entry into the cache for targets; return True if something was compiled."""
        with _lock:
            compiled = [target for target in targets if self._read_or_compile(target, None)[1]]
            self.__dict__.pop("intermediate", None)
            return bool(compiled)

    def _read_or_compile(
        self, target: str, before_compiling: Callable[[], object] | None
    ) -> tuple[bytes, bool]:
        """Return the ELF object for a target, and True if it was compiled."""
        if not target:
            raise RuntimeError(
                "dyn_ros generates machine code for x86-64-v2 and aarch64, which "
                f"this processor ({platform.machine()}) is not; "
                "NUMBA_DISABLE_JIT=1 runs kernels in Python, slowly"
            )
        name = self.file_name(target)
        code = cache.read_entry(name) if name else None
        if code is not None:
            return code, False
        emit = self._import_module("emit")  # an error is raised before the compilation is announced
        if before_compiling:
            before_compiling()
        code = emit.machine_code(self.intermediate, target)
        if name:
            self._store(name, code)
        return code, True

    @functools.cached_property
    def intermediate(self) -> str:
        """Text of the module in LLVM's intermediate representation, the same for all targets.

        It is cached, since it takes ten times as long to make as machine code does afterwards.
        """
        name = self.digest and f"{self.name}-llvm-{self.digest}"
        if name and (cached := cache.read_entry(name)):
            return zlib.decompress(cached).decode()
        text = self._lower()
        if name:
            with contextlib.suppress(OSError):  # storing the machine code reports it
                cache.write_entry(name, zlib.compress(text.encode(), 1))
        return text

    def _lower(self) -> str:
        """Compile the function to LLVM's intermediate representation."""
        text = self._import_module("lower").lower_to_module(
            self.function, self.signature, self.symbol, self.signature == KERNEL
        )
        allowed = () if self.signature == KERNEL else _MATH_FUNCTIONS
        callees = self._import_module("emit").external_functions(text)
        if forbidden := [name for name in callees if name not in allowed]:
            raise ValueError(
                f"{self.name}: its machine code would call {', '.join(forbidden)}; "
                "use only what kernels offer"
            )
        return text

    def _import_module(self, name: str) -> Any:
        """Import the module that compiles (lower), or emits and loads machine code (emit)."""
        package = "numba" if name == "lower" else "llvmlite"
        if importlib.util.find_spec(package) is None:
            raise ModuleNotFoundError(
                f"dyn_ros has no machine code of {self.name}: its library was built from other "
                "sources or without it; install the compiler with `pip install 'dyn_ros[compiler]'`"
                ", or a wheel of dyn_ros",
                name=package,
            )
        return importlib.import_module(f"{__package__}.{name}")

    @functools.cached_property
    def digest(self) -> str | None:
        """Digest of all that the code depends on but the target; None if it cannot be computed."""
        try:
            return reach.digest(self.function, (self.signature, FLAGS, _describe_implementations()))
        except reach.NotComparable as error:
            warnings.warn(
                f"{self.name} is compiled in each process, because dyn_ros cannot detect "
                f"whether it has changed: {error}",
                RuntimeWarning,
                stacklevel=3,
            )
            return None

    def file_name(self, target: str | None = None) -> str | None:
        """Return the name of the file in the cache, which depends on the machine code."""
        target = target or library.target()
        digest = self.digest_for(target)
        return digest and f"{self.name}-{target}-{digest}"

    def digest_for(self, target: str) -> str | None:
        """Return the digest of all that the code for a target depends on."""
        return self.digest and f"{_target_digest(target)}-{self.digest}"

    def _store(self, name: str, code: bytes) -> None:
        try:
            cache.write_entry(name, code)
        except OSError as error:
            warnings.warn(
                f"{self.name} will be compiled again in the next process, because it "
                f"could not be cached: {error}",
                RuntimeWarning,
                stacklevel=3,
            )


def _make_interpreted_call(function: Callable, signature: str) -> Callable:
    """Return a function that calls an entry in Python, with the addresses of arrays and bytes."""

    def address(value: Any) -> int | None:
        if isinstance(value, bytes):
            return ctypes.cast(ctypes.c_char_p(value), ctypes.c_void_p).value
        return 0 if value is None else value.ctypes.data

    def call(*arguments: Any) -> Any:
        return function(
            *[
                address(value) if letter == "p" else value
                for letter, value in zip(signature, arguments, strict=True)
            ]
        )

    return call


@functools.cache
def _describe_implementations() -> str:
    """Describe the code that compiles, without its comments and docstrings."""
    names = (f"{__package__}.lower", f"{__package__}.emit", *IMPLEMENTATIONS)
    return repr([reach.described_module(name) for name in names])


@functools.cache
def _target_digest(target: str) -> str:
    """Return the digest of a target's description."""
    return hashlib.sha256(repr(find_target(target)).encode()).hexdigest()[:8]
