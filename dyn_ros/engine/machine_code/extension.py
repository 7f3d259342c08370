# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The C extension that calls machine code: the installed one, or one that is built once.

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
    _FOLDER / name for name in ("extension.c", "one_state.c", "batches.c", "extension.h")
)
_NAME = f"{__package__}._native"
SUFFIX = sysconfig.get_config_var("EXT_SUFFIX") or ".so"
_REMEDY = "install gcc and the headers of Python (python3-dev), or a wheel of dyn_ros"


# What is built with NumPy 2 runs with NumPy 1, but not the other way around.
_NUMPY = min(int(np.__version__.split(".")[0]), 2)


def _digest(numpy: int = _NUMPY) -> str:
    """What an extension depends on: its sources, and the interface of NumPy."""
    sources = b"\0".join(path.read_bytes() for path in SOURCES)
    return f"{hashlib.sha256(sources).hexdigest()[:32]}-numpy{numpy}"


def c_compiler() -> list[str]:
    """The command of a C compiler: CC, the one that built Python, or cc."""
    for command in (os.environ.get("CC"), sysconfig.get_config_var("CC"), "cc"):
        words = shlex.split(command or "")
        if words and shutil.which(words[0]):
            return words
    raise ImportError(f"dyn_ros has no C compiler to build its extension: {_REMEDY}")


def build(target: str | os.PathLike[str]) -> None:
    """Build the extension for this Python and NumPy, atomically; ImportError if that fails."""
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
        done = subprocess.run([*command, temporary], capture_output=True, text=True)
        if done.returncode:
            raise ImportError(
                f"dyn_ros could not build its extension: {shlex.join(command)} "
                f"{target} failed; {_REMEDY}\n{done.stderr[-2000:]}"
            )
        os.chmod(temporary, 0o755)
        os.replace(temporary, target)
    finally:
        if os.path.exists(temporary):
            os.unlink(temporary)


def _is_current(path: Path) -> bool:
    """Whether an extension is of these sources, which a wheel need not have."""
    if not path.exists():
        return False
    if not all(source.exists() for source in SOURCES):
        return True
    content = path.read_bytes()
    return any(_digest(numpy).encode() in content for numpy in {_NUMPY, 2})


def _built() -> Path:
    """The extension beside its sources, or in the cache; built if there is none of these."""
    path = _FOLDER / f"_native{SUFFIX}"
    if not _is_current(path) and _NUMPY == 1:
        path = _FOLDER / f"_native_numpy1{SUFFIX}"
    if not _is_current(path):
        if not os.access(_FOLDER, os.W_OK):
            path = cache.cache_folder() / f"native-{_digest()}{SUFFIX}"
            if cache.is_private(path):
                os.utime(path)  # in use: keep it
                return path
        build(path)
    return path


@functools.cache
def native() -> ModuleType:
    """The extension module; ImportError if it is not installed and cannot be built."""
    path = _built()
    loader = importlib.machinery.ExtensionFileLoader(_NAME, str(path))
    spec = importlib.util.spec_from_file_location(_NAME, path, loader=loader)
    assert spec
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    sys.modules[_NAME] = module
    return module
