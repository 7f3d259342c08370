# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The C extension that calls machine code: the installed one, or one that is built once.

A source checkout has none. It is then built in the private folder of the cache, for this version of
Python and NumPy.
"""
import functools
import hashlib
import importlib
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

SOURCE = Path(__file__).with_name("extension.c")
_NAME = f"{__package__}._native"
_SUFFIX = sysconfig.get_config_var("EXT_SUFFIX") or ".so"
_REMEDY = "install gcc and the headers of Python (python3-dev), or a wheel of dyn_ros"


def _compiler() -> list[str]:
    """The command of a C compiler: CC, that of Python, or cc."""
    for command in (os.environ.get("CC"), sysconfig.get_config_var("CC"), "cc"):
        words = shlex.split(command or "")
        if words and shutil.which(words[0]):
            return words
    raise ImportError(f"dyn_ros needs a C compiler to build its extension: {_REMEDY}")


def build(target: str | os.PathLike[str]) -> None:
    """Build the extension for this Python and NumPy; ImportError if that is impossible."""
    include = sysconfig.get_path("include")
    if not os.path.exists(os.path.join(include, "Python.h")):
        raise ImportError(f"dyn_ros needs {include}/Python.h to build its extension: {_REMEDY}")
    link = (["-bundle", "-undefined", "dynamic_lookup"] if sys.platform == "darwin"
            else ["-shared"])
    command = [*_compiler(), "-std=c11", "-O3", "-DNDEBUG", "-fPIC", "-fvisibility=hidden",
               *link, f"-I{include}", f"-I{np.get_include()}", str(SOURCE), "-o", str(target)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise ImportError(f"dyn_ros could not build its extension: {shlex.join(command)} failed "
                          f"({_REMEDY}):\n{done.stderr[-2000:]}")


def _built() -> Path:
    """The extension in the cache, which is built if necessary; several processes may do so."""
    parts = (SOURCE.read_bytes(), Path(__file__).read_bytes(), np.__version__.encode(),
             _SUFFIX.encode(), sys.version.encode())
    digest = hashlib.sha256(b"\0".join(parts)).hexdigest()[:32]
    path = cache.cache_folder() / f"native-{digest}{_SUFFIX}"
    if cache.is_private(path):
        os.utime(path)                              # in use: keep it
        return path
    descriptor, temporary = tempfile.mkstemp(prefix=".native-", suffix=_SUFFIX, dir=path.parent)
    os.close(descriptor)
    try:
        build(temporary)
        os.chmod(temporary, 0o700)
        os.replace(temporary, path)
    finally:
        if os.path.exists(temporary):
            os.unlink(temporary)
    return path


@functools.cache
def native() -> ModuleType:
    """The extension module."""
    try:
        return importlib.import_module(_NAME)
    except ModuleNotFoundError:
        path = str(_built())
    loader = importlib.machinery.ExtensionFileLoader(_NAME, path)
    spec = importlib.util.spec_from_file_location(_NAME, path, loader=loader)
    assert spec
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    sys.modules[_NAME] = module
    return module
