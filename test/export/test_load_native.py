# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Libraries for one robot, loaded by Python."""
import shutil
from pathlib import Path

import numpy as np
import pytest

import dyn_ros
from dyn_ros.engine.call import robot_library
from dyn_ros.engine.call.algorithm import ALGORITHMS
from dyn_ros.engine.machine_code.declare import JIT

pytest.importorskip("llvmlite", reason="nothing can be compiled")
if not shutil.which("cc") or not JIT:
    pytest.skip("needs cc to link", allow_module_level=True)
from dyn_ros.export.robot_library import export_robot_library

ARM = Path(dyn_ros.__file__).parent / "robots" / "arm7.urdf"
NAMES = ["rnea", "aba", "crba"]


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    folder = tmp_path_factory.mktemp("arm")
    export_robot_library(folder, dyn_ros.Model.from_urdf_file(ARM), "arm", NAMES, python=True)
    return folder / "lib" / "libarm.so"


@pytest.fixture(autouse=True)
def only_here(monkeypatch):
    monkeypatch.setattr(robot_library, "LIBRARIES", {})
    monkeypatch.setattr("dyn_ros.engine.call.load_native.LIBRARIES", robot_library.LIBRARIES)


def results(model):
    rng = np.random.default_rng(0)
    q, v, a = rng.standard_normal((3, model.nv))
    data = dyn_ros.Data(model)
    return [dyn_ros.rnea(model, data, q, v, a).copy(), data.f.copy(), data.a_gf.copy(),
            dyn_ros.aba(model, data, q, v, a).copy(), dyn_ros.crba(model, data, q).copy()]


def test_its_functions_are_used_and_agree(path):
    model = dyn_ros.Model.from_urdf_file(ARM)
    model.set_payload("box", "tool", 1.5, [0.0, 0.1, 0.2], 0.01 * np.eye(3))
    expected = results(model)
    assert sorted(dyn_ros.load_native(path, model)) == sorted(NAMES)
    assert all(robot_library.address(ALGORITHMS[name], model) for name in NAMES)
    assert not robot_library.address(ALGORITHMS["minverse"], model)
    for x, y in zip(results(model), expected, strict=True):
        assert np.allclose(x, y, rtol=1e-12, atol=1e-12)
    assert any(not np.array_equal(x, y) for x, y in zip(results(model), expected, strict=True))


def test_another_robot_is_refused_and_keeps_its_functions(path):
    other = dyn_ros.Model.from_urdf_file(ARM, root_joint="floating")
    with pytest.raises(ValueError, match=r"is not for Model.*export it again"):
        dyn_ros.load_native(path, other)
    dyn_ros.load_native(path)
    assert not robot_library.address(ALGORITHMS["rnea"], other)


def test_what_is_no_such_library_is_refused(tmp_path):
    with pytest.raises(OSError, match="absent"):
        dyn_ros.load_native(tmp_path / "absent.so")
    library_of_all = tmp_path / "small.so"
    shutil.copy(path_of_libm(), library_of_all)
    with pytest.raises(ValueError, match="no functions for Python"):
        dyn_ros.load_native(library_of_all)


def path_of_libm():
    for line in Path("/proc/self/maps").read_text().splitlines():
        if "/libm.so" in line or "/libm-" in line:
            return line.split()[-1]
    pytest.skip("the C library's mathematics are part of another file")
