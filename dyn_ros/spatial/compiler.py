# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Compilation of kernels by Numba, and the folder that keeps what was compiled.

A kernel calls many small functions that all end up inside its machine code, so what is
kept is only good for exactly these sources. Numba's own cache looks at one file; here an
entry's name has a digest of every module that its code can reach, with the numbers that
stand in them, and the folder's one of Numba and of Python. Numba adds the processor by itself.
"""
import contextlib
import functools
import hashlib
import os
import shutil
import stat
import sys
import tempfile
import time
import warnings
from pathlib import Path
from types import ModuleType

import llvmlite
import numba
from numba import njit
from numba.core import caching

from .reach import reach

JIT = not numba.config.DISABLE_JIT
FLAGS = ("contract", "nsz", "arcp", "reassoc")     # keeps NaN and infinity: bad input must show
_OPTIONS = {"fastmath": set(FLAGS), "error_model": "numpy", "boundscheck": False}
_PACKAGE = __name__.split(".")[0] + "."
_KEEP_DAYS = 60

kernel = njit(forceinline=True, **_OPTIONS)
"""Decorator of every function that runs inside a kernel."""


def _hash(*parts):
    return hashlib.sha256(b"\0".join(parts)).hexdigest()[:16]


def _neighbours(module):
    """The package's modules that a module takes names from."""
    for value in vars(module).values():
        name = value.__name__ if isinstance(value, ModuleType) else getattr(
            value, "__module__", None)
        if isinstance(name, str) and name.startswith(_PACKAGE) and name in sys.modules:
            yield sys.modules[name]


def source_digest(*functions):
    """Digest of all source that functions can reach, and of the numbers in its modules.

    Parameters
    ----------
    functions : callable

    Returns
    -------
    str
    """
    found, todo = {}, [sys.modules[function.__module__] for function in functions]
    while todo:
        module = todo.pop()
        if module.__name__ not in found:
            found[module.__name__] = module
            todo += _neighbours(module)
    parts = []
    for name in sorted(found):
        numbers = {key: value for key, value in vars(found[name]).items()
                   if isinstance(value, (int, float))}
        parts += [name.encode(), Path(found[name].__file__).read_bytes(),
                  repr(sorted(numbers.items())).encode()]
    return _hash(*parts)


def _first_writable(*folders):
    for folder in folders:
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError:
            continue
        if os.access(folder, os.W_OK | os.X_OK):
            return folder
    return Path(tempfile.mkdtemp(prefix="dyn_ros-"))


def _private_temporary():
    """This user's folder among the temporary ones; none where others can write to it.

    What is loaded from a cache is run, so nobody else may plant files in it.
    """
    folder = Path(tempfile.gettempdir()) / f"dyn_ros-{os.getuid()}"
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        about = folder.lstat()
    except OSError:
        return []
    mine = stat.S_ISDIR(about.st_mode) and about.st_uid == os.getuid()
    return [folder] if mine and not about.st_mode & 0o022 else []


@functools.cache
def cache_folder():
    """Folder of the compiled kernels for this Python and this Numba.

    ``DYN_ROS_CACHE_DIR`` names its parent; else it is ``dyn_ros`` in ``XDG_CACHE_HOME`` or
    ``~/.cache``, or a temporary folder where none of these can be written.

    Returns
    -------
    pathlib.Path
        An existing folder. What nobody used for 60 days is removed from it.
    """
    named = os.environ.get("DYN_ROS_CACHE_DIR")
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    root = _first_writable(*([Path(named)] if named else []),
                           *([Path(base) / "dyn_ros"] if os.path.isabs(base) else []),
                           *_private_temporary())
    versions = (numba.__version__, llvmlite.__version__, sys.implementation.cache_tag)
    folder = _first_writable(root / f"kernels-{_hash(repr(versions).encode())}")
    os.utime(folder)
    for old in (*root.glob("kernels-*"), *folder.glob("*.nb?")):
        with contextlib.suppress(OSError):          # another process may remove it too
            if time.time() - old.stat().st_mtime > _KEEP_DAYS * 86400:
                shutil.rmtree(old) if old.is_dir() else old.unlink()
    return folder


class _Locator(caching._CacheLocator):
    """The one folder, whatever the function's own file."""

    def get_cache_path(self):
        return str(cache_folder())

    def get_source_stamp(self):
        return 0

    def get_disambiguator(self):
        return None


class _Results(caching.CompileResultCacheImpl):
    def __init__(self, name):
        self._locator = _Locator()
        self._filename_base = name


class _Cache(caching.FunctionCache):
    """One entry, found by its name and signature alone; a damaged file counts as absent."""

    def __init__(self, name):
        self._name = name
        self._impl = _Results(name)
        self._cache_path = self._impl.locator.get_cache_path()
        self._cache_file = caching.IndexDataCacheFile(
            cache_path=self._cache_path, filename_base=name, source_stamp=0)
        self.enable()

    def _index_key(self, sig, codegen):
        return self._name, sig, codegen.magic_tuple()

    def load_overload(self, sig, target_context):
        for path in Path(self._cache_path).glob(f"{self._name}.*nb?"):
            with contextlib.suppress(OSError):
                os.utime(path)                      # in use: keep it
        try:
            return super().load_overload(sig, target_context)
        except Exception:                           # a pickle cut short can raise anything
            self._cache_file.flush()
            return None


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

    def __init__(self, name, function, signature, nogil):
        self.name, self._function = name, function
        self._signature = signature
        self._dispatcher = njit(nogil=nogil, **_OPTIONS)(function)
        self.call = None

    def load(self, before_compiling=None):
        """Take it from the cache or compile it.

        Parameters
        ----------
        before_compiling : callable, optional
            Called where it has to be compiled, before that.

        Returns
        -------
        bool
            True where it had to be compiled.
        """
        if not JIT or self.call is not None:        # without it callers run the kernel themselves
            return False
        cache = _Cache(f"{self.name}-{source_digest(*reach(self._function).functions.values())}")
        result = cache.load_overload(self._signature, self._dispatcher.targetctx)
        found = result is not None
        if not found:
            if before_compiling:
                before_compiling()
            self._dispatcher.compile(self._signature)
            (result,) = self._dispatcher.overloads.values()
            try:
                cache.save_overload(self._signature, result)
            except OSError as error:
                warnings.warn(f"{self.name} will be compiled again next time: it could not be "
                              f"kept: {error}", RuntimeWarning, stacklevel=2)
        self.call = result.entry_point
        self._result = result                       # owns the machine code
        return not found
