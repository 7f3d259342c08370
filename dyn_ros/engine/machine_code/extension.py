# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""C extension that calls machine code: the installed one, or one that is built once.

In a source checkout, it is built beside its sources, or in the private folder of the cache if that
is not possible. It is built again if a source has changed.
"""

import functools
import hashlib
import importlib.machinery
import importlib.util
import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path
from types import ModuleType

import numpy as np

from . import cache

_FOLDER = Path(__file__).parent
SOURCES = tuple(
    _FOLDER / name
    for name in (
        "extension.c",
        "one_state.c",
        "batches.c",
        "buffers.c",
        "small_batch.c",
        "operators.c",
        "extension.h",
    )
)
_MODULE_NAME = f"{__package__}._native"
SUFFIX = sysconfig.get_config_var("EXT_SUFFIX") or ".so"
_REMEDY = "install gcc and the headers of Python (python3-dev), or a wheel of dyn_ros"
# An extension that was built with NumPy 2 runs with NumPy 1, but not conversely.
_NUMPY_MAJOR = min(int(np.__version__.split(".")[0]), 2)


def _digest(numpy: int = _NUMPY_MAJOR) -> str:
    """Return the digest of an extension's sources, with the interface of NumPy."""
    sources = b"\0".join(path.read_bytes() for path in SOURCES)
    return f"{hashlib.sha256(sources).hexdigest()[:32]}-numpy{numpy}"


def c_compiler() -> list[str]:
    """Return the command of a C compiler: CC, the one that built Python, or cc."""
    for command in (os.environ.get("CC"), sysconfig.get_config_var("CC"), "cc"):
        words = shlex.split(command or "")
        if words and shutil.which(words[0]):
            return words
    raise ImportError(f"dyn_ros has no C compiler to build its extension: {_REMEDY}")


def build(target: str | os.PathLike[str]) -> None:
    """Build the extension for this Python and NumPy, atomically; failures are ImportErrors."""
    include = sysconfig.get_path("include")
    if not os.path.exists(os.path.join(include, "Python.h")):
        raise ImportError(f"dyn_ros finds no {include}/Python.h to build its extension: {_REMEDY}")
    link = ["-bundle", "-undefined", "dynamic_lookup"] if sys.platform == "darwin" else ["-shared"]
    command = [
        *c_compiler(),
        "-std=c11",
        "-O3",
        "-DNDEBUG",
        f'-DDIGEST="{_digest()}"',
        "-fPIC",
        "-fvisibility=hidden",
        *link,
        f"-I{include}",
        f"-I{np.get_include()}",
        *(str(path) for path in SOURCES if path.suffix == ".c"),
        "-o",
    ]
    descriptor, temporary = tempfile.mkstemp(prefix=".native-", dir=Path(target).parent)
    os.close(descriptor)
    try:
        process = subprocess.run([*command, temporary], capture_output=True, text=True)
        if process.returncode:
            raise ImportError(
                f"dyn_ros could not build its extension: {shlex.join(command)} "
                f"{target} failed; {_REMEDY}\n{process.stderr[-2000:]}"
            )
        os.chmod(temporary, 0o755)
        os.replace(temporary, target)
    finally:
        if os.path.exists(temporary):
            os.unlink(temporary)


def _is_current(path: Path) -> bool:
    """Return True if an extension was built from these sources, which a wheel need not have."""
    if not path.exists():
        return False
    if not all(source.exists() for source in SOURCES):
        return True
    content = path.read_bytes()
    return any(_digest(numpy).encode() in content for numpy in {_NUMPY_MAJOR, 2})


def _extension_path() -> Path:
    """Return the path of the extension next to its sources, or in the cache; build it if needed."""
    path = _FOLDER / f"_native{SUFFIX}"
    if not _is_current(path) and _NUMPY_MAJOR == 1:
        path = _FOLDER / f"_native_numpy1{SUFFIX}"
    if not _is_current(path):
        if not os.access(_FOLDER, os.W_OK):
            path = cache.cache_folder() / f"native-{_digest()}{SUFFIX}"
            if cache.is_private(path):
                os.utime(path)  # the cache keeps it for another 60 days
                return path
        build(path)
    return path


@functools.cache
def native() -> ModuleType:
    """Return the extension module; raise an ImportError if there is none that can be built."""
    path = _extension_path()
    loader = importlib.machinery.ExtensionFileLoader(_MODULE_NAME, str(path))
    spec = importlib.util.spec_from_file_location(_MODULE_NAME, path, loader=loader)
    assert spec
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    sys.modules[_MODULE_NAME] = module
    return module
