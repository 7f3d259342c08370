"""Compilation of kernels by Numba, and the folder that keeps what was compiled.

A kernel calls many small functions that all end up inside its machine code, so what is
kept is only good for exactly these sources. Numba's own cache looks at one file; here the
folder's name is a digest of every source file of the engine, of Numba and of Python.
Numba adds the processor by itself.
"""
import functools
import hashlib
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path

import llvmlite
import numba
from numba import njit
from numba.core import caching

JIT = not numba.config.DISABLE_JIT
FLAGS = ("contract", "nsz", "arcp", "reassoc")     # keeps NaN and infinity: bad input must show
_OPTIONS = {"fastmath": set(FLAGS), "error_model": "numpy", "boundscheck": False}
_ENGINE = Path(__file__).resolve().parents[1]
_KEEP_DAYS = 60

kernel = njit(forceinline=True, **_OPTIONS)
"""Decorator of every function that runs inside a kernel."""


def _digest():
    state = hashlib.sha256()
    for room in ("spatial", "model", "algorithms"):
        for path in sorted((_ENGINE / room).glob("*.py")):
            state.update(path.name.encode() + b"\0" + path.read_bytes())
    versions = (numba.__version__, llvmlite.__version__, sys.implementation.cache_tag)
    state.update(repr(versions).encode())
    return state.hexdigest()[:16]


def _first_writable(*folders):
    for folder in folders:
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError:
            continue
        if os.access(folder, os.W_OK | os.X_OK):
            return folder
    return Path(tempfile.mkdtemp(prefix="dyn_ros-"))


@functools.cache
def cache_folder():
    """Folder of the compiled kernels that belong to these sources.

    ``DYN_ROS_CACHE_DIR`` names its parent; else it is ``dyn_ros`` in ``XDG_CACHE_HOME`` or
    ``~/.cache``, or a temporary folder where none of these can be written.

    Returns
    -------
    pathlib.Path
        An existing folder. Folders of other versions that nobody used for 60 days are removed.
    """
    named = os.environ.get("DYN_ROS_CACHE_DIR")
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    shared = Path(tempfile.gettempdir()) / f"dyn_ros-{os.getuid()}"
    root = _first_writable(*([Path(named)] if named else []), Path(base) / "dyn_ros", shared)
    folder = _first_writable(root / f"kernels-{_digest()}")
    os.utime(folder)
    for other in root.glob("kernels-*"):
        if other != folder and time.time() - other.stat().st_mtime > _KEEP_DAYS * 86400:
            shutil.rmtree(other, ignore_errors=True)
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
        self.name = name
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
        if self.call is not None:
            return False
        if not JIT:
            self.call = self._dispatcher
            return False
        cache = _Cache(self.name)
        result = cache.load_overload(self._signature, self._dispatcher.targetctx)
        found = result is not None
        if not found:
            if before_compiling:
                before_compiling()
            self._dispatcher.compile(self._signature)
            (result,) = self._dispatcher.overloads.values()
            cache.save_overload(self._signature, result)
        self.call = result.entry_point
        self._result = result                       # owns the machine code
        return not found
