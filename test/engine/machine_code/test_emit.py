# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Machine code for each target; what this processor can run is run."""

import ctypes
import math
import shutil
import struct
import subprocess
from fractions import Fraction

import numpy as np
import pytest

pytest.importorskip("numba", reason="generates machine code")
import llvmlite.binding as llvm

from dyn_ros.engine.kernel import lanes
from dyn_ros.engine.machine_code import compiler, emit, library, targets

RUNNABLE = targets.no_higher(targets.best_target())
X86_64, AARCH64 = 62, 183  # numbers of machines in ELF
ANGLES = np.linspace(-20.0, 20.0, lanes.LANES)
FMA = """
target triple = ""
target datalayout = ""
declare KIND @llvm.fma.SUFFIX(KIND, KIND, KIND)
define i64 @call(POINTER %a, POINTER %b, POINTER %c, POINTER %result) {
  %x = load KIND, POINTER %a, align 8
  %y = load KIND, POINTER %b, align 8
  %z = load KIND, POINTER %c, align 8
  %r = call KIND @llvm.fma.SUFFIX(KIND %x, KIND %y, KIND %z)
  store KIND %r, POINTER %result, align 8
  ret i64 0
}
""".replace("POINTER", "ptr" if llvm.llvm_version_info[0] > 14 else "KIND*")


def sines(ints, table, floats, work):
    """Sines and cosines of some angles in lanes, and of the first three as one state has them."""
    rows, numbers = lanes.lanes_at(work), lanes.floats_at(work)
    sine, cosine = lanes.sincos(lanes.load(rows, 0))
    lanes.store(rows, 1, sine)
    lanes.store(rows, 2, cosine)
    sine, cosine = lanes.sincos(lanes.load_simd(numbers, 0, 3))
    lanes.store_simd(numbers, 3 * lanes.LANES, 3, sine)
    lanes.store_simd(numbers, 4 * lanes.LANES, 3, cosine)
    return 0


@pytest.fixture(scope="module")
def objects():
    """A small entry for each target."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compiler, "ENTRIES", {})
        text = compiler.Entry("sines", sines).intermediate
    return {target: emit.machine_code(text, target) for target in targets.TARGETS}


@pytest.fixture
def load():
    """Loads machine code that is called with four addresses."""
    kept = []

    def load(content, symbol):
        kept.append(emit.LoadedCode(content, symbol))
        return ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_void_p] * 4)(kept[-1].address)

    return load


@pytest.mark.parametrize("target", targets.TARGETS)
def test_an_object_is_for_the_processor_of_its_target(objects, target):
    content = objects[target]
    assert content[:4] == b"\x7fELF"
    machine = AARCH64 if target == "aarch64" else X86_64
    assert struct.unpack_from("<H", content, 18) == (machine,)


@pytest.mark.skipif(not shutil.which("readelf"), reason="requires readelf")
@pytest.mark.parametrize("target", targets.TARGETS)
def test_an_object_calls_nothing(objects, target, tmp_path):
    """Without instructions for it, LLVM would call fma or rint of the C library."""
    (tmp_path / "sines.o").write_bytes(objects[target])
    shown = subprocess.run(
        ["readelf", "--symbols", "--wide", tmp_path / "sines.o"],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    symbols = [line.split() for line in shown.splitlines()]
    assert any(words[-2:] == [words[6], "dyn_ros_sines"] for words in symbols if len(words) == 8)
    assert not [words for words in symbols if "UND" in words and len(words) == 8]


@pytest.mark.parametrize("target", RUNNABLE)
def test_levels_agree(objects, target, load):
    work = np.full((5, lanes.LANES), np.pi)
    work[0] = ANGLES
    assert load(objects[target], "dyn_ros_sines")(0, 0, 0, work.ctypes.data) == 0
    np.testing.assert_allclose(work[1:3], [np.sin(ANGLES), np.cos(ANGLES)], rtol=0, atol=4e-16)
    np.testing.assert_array_equal(work[3:, :3], work[1:3, :3])
    np.testing.assert_array_equal(work[3:, 3:], np.pi)


@pytest.mark.parametrize("target", RUNNABLE)
@pytest.mark.parametrize("count", [1, lanes.LANES])
def test_product_is_not_rounded_before_the_sum(target, count, load):
    kind, suffix = ("double", "f64") if count == 1 else (f"<{count} x double>", f"v{count}f64")
    text = FMA.replace("KIND", kind).replace("SUFFIX", suffix)
    fma = load(emit.machine_code(text, target), "call")
    rng = np.random.default_rng(5)
    x, y = np.exp(rng.uniform(-20.0, 20.0, (2, 400))) * rng.choice([-1.0, 1.0], (2, 400))
    near = -x * y * (1.0 + rng.integers(-3, 4, 400) * 2.0 ** -rng.integers(20, 54, 400))
    z = np.where(rng.random(400) < 0.8, near, rng.standard_normal(400))
    x[:4], y[:4] = (1.0 + 2.0**-52, 3.0, 1e-100, 0.0), (1.0 + 2.0**-52, 1.0 / 3.0, 1e-100, 5.0)
    z[:4] = -1.0 - 2.0**-51, -1.0, 1.0, -0.5
    for start in range(0, 400, count):
        a, b, c = (np.ascontiguousarray(part[start : start + count]) for part in (x, y, z))
        found = np.empty(count)
        fma(*(array.ctypes.data for array in (a, b, c, found)))
        for *numbers, result in zip(a, b, c, found):
            p, q, r = map(Fraction, map(float, numbers))
            error = abs(Fraction(float(result)) - (p * q + r))
            assert error <= Fraction(math.ulp(result)) * (Fraction(1, 2) + Fraction(1, 2**50))


def test_another_processor_is_reported(monkeypatch):
    monkeypatch.setattr(compiler, "ENTRIES", {})
    monkeypatch.setattr(library, "target", lambda: "")
    with pytest.raises(RuntimeError, match="x86-64-v2 and aarch64"):
        compiler.Entry("sines", sines).load()
