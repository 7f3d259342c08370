# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The C extension: machine code by its address, libraries, and how it is built."""

import ctypes
import ctypes.util
import gc
import os
import platform
import subprocess
import sys
import sysconfig
import weakref
from pathlib import Path

import numpy as np
import pytest

from dyn_ros.engine.machine_code import cache, extension
from dyn_ros.engine.machine_code.declare import JIT

pytestmark = pytest.mark.skipif(not JIT, reason="nothing is compiled, and no extension needed")
PACKED = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.POINTER(ctypes.c_int64))
KERNEL = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * 4)
COPY = """
from pathlib import Path
from dyn_ros.engine.machine_code import cache, extension
native = extension.native()
print(native.__file__)
"""


def function(code, letters, kind=PACKED):
    made = kind(code)
    return extension.native().Function(ctypes.cast(made, ctypes.c_void_p).value, letters, made)


def slots(letters):
    """A function whose slots are returned in a list."""
    found = []

    def code(arguments):
        found[:] = arguments[: len(letters)]
        return 7

    return function(code, letters), found


def as_float(slot):
    return np.int64(slot).view(np.float64)


# --- functions


def test_arguments_are_packed_by_their_letters():
    call, found = slots("qdp")
    x = np.arange(3.0)
    assert call(-5, 0.25, x) == 7
    assert found[0] == -5 and as_float(found[1]) == 0.25 and found[2] == x.ctypes.data
    assert call(np.int32(9), 3, None) == 7
    assert found[0] == 9 and as_float(found[1]) == 3.0 and found[2] == 0
    for array in (
        x.astype(np.uint8),
        np.zeros((0, 3)),
        np.array(2.0),
        np.arange(6).reshape(2, 3),
        x.view(type("Own", (np.ndarray,), {})),
    ):
        call(True, np.float32(1.5), array)
        assert found == [1, np.float64(1.5).view(np.int64), array.ctypes.data]
    content = b"abc"
    call(0, 0.0, content)
    assert ctypes.string_at(found[2]) == content
    read_only = x.copy()
    read_only.flags.writeable = False
    assert call(0, 0.0, read_only) == 7


def test_a_kernel_has_four_arguments():
    found = []
    call = function(lambda *given: found.append(given) or -3, "qqqq", KERNEL)
    assert call(1, 2, 3, -(1 << 63)) == -3
    assert found == [(1, 2, 3, -(1 << 63))]
    assert function(lambda arguments: arguments[3], "qqqp")(1, 2, 3, None) == 0
    assert function(lambda arguments: 4, "")() == 4
    assert function(lambda arguments: arguments[63], 64 * "q")(*range(64)) == 63


@pytest.mark.parametrize(
    "given, error",
    [
        ((1.0, 0.0, None), TypeError),
        (("1", 0.0, None), TypeError),
        ((None, 0.0, None), TypeError),
        ((1 << 63, 0.0, None), OverflowError),
        ((1, "0.0", None), TypeError),
        ((1, 10**400, None), OverflowError),
        ((1, None, None), TypeError),
        ((1, 1j, None), TypeError),
        ((1, 0.0, [1.0]), TypeError),
        ((1, 0.0, 0), TypeError),
        ((1, 0.0, np.zeros(4)[::2]), TypeError),
        ((1, 0.0, np.zeros((2, 3)).T), TypeError),
        ((1, 0.0, np.zeros(2, ">f8")), TypeError),
        ((1, 0.0), TypeError),
        ((1, 0.0, None, None), TypeError),
        ((), TypeError),
    ],
)
def test_wrong_arguments(given, error):
    call, found = slots("qdp")
    with pytest.raises(error):
        call(*given)
    assert found == []


def test_keywords_and_bad_functions():
    call, _ = slots("q")
    with pytest.raises(TypeError, match="takes no keyword arguments, got 'x'"):
        call(x=3)
    made = extension.native().Function
    for address, letters in ((0, "q"), (1, "x"), (1, 65 * "q")):
        with pytest.raises(ValueError, match="expected an address and a signature"):
            made(address, letters)
    for given in ((), ("1", "q"), (1, None), (1, "q", None, None)):
        with pytest.raises(TypeError):
            made(*given)


class Owner:
    pass


def test_a_function_owns_its_owner():
    owner = Owner()
    owner.cycle = function(lambda arguments: 0, "q")
    own = extension.native().Function(1, "q", owner)
    owner.cycle = own  # which only the garbage collector finds
    dead = weakref.ref(owner)
    del owner
    assert dead() is not None and own is dead().cycle
    del own
    gc.collect()
    assert dead() is None


def test_arguments_keep_their_number_of_references():
    call, _ = slots("qdp")
    given = (1 << 40, 0.125, np.zeros(3))
    before = [sys.getrefcount(each) for each in given]
    for _ in range(1000):
        call(*given)
        with pytest.raises(TypeError):
            call(*given[:2], "wrong")
    assert [sys.getrefcount(each) for each in given] == before


def test_the_address_of_an_array():
    address = extension.native().address
    x = np.zeros((3, 2))
    assert address(x) == x.ctypes.data and address(None) == 0
    assert ctypes.string_at(address(b"some bytes")) == b"some bytes"
    for wrong in (x.T, x[:, 0], [0.0], 0.0, x.astype(">f8")):
        with pytest.raises(TypeError, match="expected a contiguous NumPy array, bytes or None"):
            address(wrong)


def test_rows_of_a_batch_are_checked():
    set_arrays, rows = extension.native().set_arrays, np.zeros((2, 5), np.int64)
    x, y = np.zeros((5, 3)), np.zeros((5, 0))
    assert set_arrays(rows, (x, y)) == 15
    assert rows[:, :2].tolist() == [[x.ctypes.data, 3], [y.ctypes.data, 0]]
    for bad, arrays in (
        (rows, (x,)),
        (rows[:1], (x, y)),
        (rows.astype(float), (x, y)),
        (rows, (x, None)),
        (rows, (x, b"")),
        (rows, (x, [0.0])),
        (rows, (x, x[0])),
        (rows.T, (x, y)),
    ):
        with pytest.raises(ValueError, match="expected"):
            set_arrays(bad, arrays)
    for bad, arrays in ((rows, [x, y]), (None, (x, y)), (rows, (x, x.T))):
        with pytest.raises(TypeError):
            set_arrays(bad, arrays)


# --- libraries


def test_symbols_of_a_library():
    library = extension.native().open_library(ctypes.util.find_library("c"))
    labs = library.address("labs")
    assert labs and library.address("no_such_symbol") == 0
    assert extension.native().Function(library.address("labs"), "qqqq")(-3, 0, 0, 0) == 3
    with pytest.raises(TypeError):
        library.address(3)
    with pytest.raises(TypeError):
        type(library)()


def test_a_library_that_is_none(tmp_path):
    open_library, bad = extension.native().open_library, tmp_path / "bad.so"
    bad.write_text("no machine code")
    for path in (bad, str(bad), os.fsencode(bad), tmp_path / "absent.so"):
        with pytest.raises(OSError, match=r"(bad|absent)\.so"):
            open_library(path)
    for wrong, error in ((3, TypeError), ("a\0b", ValueError)):
        with pytest.raises(error):
            open_library(wrong)


def test_the_level_of_this_processor():
    level = extension.native().level()
    if platform.machine() != "x86_64":
        assert level == ("aarch64" if platform.machine() == "aarch64" else "")
        return
    flags = set(Path("/proc/cpuinfo").read_text().split("flags")[1].split("\n")[0].split())
    needs = {
        "x86-64-v2": {"sse4_2", "popcnt", "cx16"},
        "x86-64-v3": {"avx2", "bmi1", "bmi2", "fma", "f16c", "movbe", "abm"},
        "x86-64-v4": {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"},
    }
    expected = ""
    for name, needed in needs.items():
        if not needed <= flags:
            break
        expected = name
    assert level == expected


# --- how it is built


@pytest.fixture
def folder(tmp_path):
    """A copy of the kernel's folder, without an extension."""
    target = tmp_path / "dyn_ros" / "engine" / "machine_code"
    target.mkdir(parents=True)
    for path in (*extension.SOURCES, Path(extension.__file__), Path(cache.__file__)):
        (target / path.name).write_bytes(path.read_bytes())
    for each in (target, target.parent, target.parent.parent):
        (each / "__init__.py").touch()
    return target


def command(folder):
    return {
        "args": [sys.executable, "-c", COPY],
        "cwd": folder.parents[2],
        "text": True,
        "stdout": subprocess.PIPE,
    }


def loaded(folder, **environment):
    """Load it in another process; return the path, and standard error."""
    done = subprocess.run(
        **command(folder),
        env=dict(
            os.environ,
            **{
                "PYTHONDONTWRITEBYTECODE": "1",
                "DYN_ROS_CACHE_DIR": str(folder.parents[2] / "cache"),
                "PYTHONPATH": "",
                **environment,
            },
        ),
        stderr=subprocess.PIPE,
    )
    return done.stdout.strip(), done.stderr


def test_it_is_built_beside_its_sources_once_and_again_if_they_change(folder):
    numpy = "_numpy1" if np.__version__.startswith("1.") else ""
    expected = folder / f"_native{numpy}{extension.SUFFIX}"
    for process in [subprocess.Popen(**command(folder)) for _ in range(2)]:
        assert process.communicate()[0].strip() == str(expected)
    assert not list(folder.glob(".native-*"))
    before = expected.stat().st_ino
    assert loaded(folder)[0] == str(expected) and expected.stat().st_ino == before
    source = folder / "batches.c"
    source.write_text(source.read_text() + "\n/* changed */\n")
    assert loaded(folder)[0] == str(expected) and expected.stat().st_ino != before
    for source in extension.SOURCES:  # as in a wheel
        (folder / source.name).unlink()
    assert loaded(folder, PATH="")[0] == str(expected)


def test_it_is_built_in_the_cache_if_the_sources_are_read_only(folder):
    text = (folder / "extension.py").read_text()
    (folder / "extension.py").write_text(text.replace("os.access(_FOLDER, os.W_OK)", "False"))
    path, _ = loaded(folder)
    assert Path(path).parent.parent == folder.parents[2] / "cache"
    before = Path(path).stat()
    assert before.st_mode & 0o022 == 0
    assert loaded(folder)[0] == path and Path(path).stat().st_ino == before.st_ino
    Path(path).chmod(0o777)  # others could have written it
    assert loaded(folder)[0] == path and Path(path).stat().st_ino != before.st_ino
    assert not list(folder.glob("*.so"))


def test_without_a_compiler_the_error_says_what_to_install(folder):
    _, error = loaded(folder, PATH="", CC="")
    assert error.strip().split("\n")[-1] == (
        "ImportError: dyn_ros has no C compiler to build its extension: install gcc and the "
        "headers of Python (python3-dev), or a wheel of dyn_ros"
    )


def test_without_headers_the_error_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setattr(sysconfig, "get_path", lambda name: str(tmp_path / name))
    with pytest.raises(ImportError, match=r"finds no .*/include/Python\.h.*: install gcc and the"):
        extension.build(tmp_path / "built.so")
    assert not list(tmp_path.iterdir())


def test_a_compiler_that_fails_is_quoted(tmp_path, monkeypatch):
    monkeypatch.setenv("CC", "false -Wall")
    with pytest.raises(ImportError, match="could not build its extension: false -Wall -std=c11"):
        extension.build(tmp_path / "built.so")
    assert not list(tmp_path.iterdir())
