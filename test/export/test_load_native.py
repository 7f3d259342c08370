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
from nodes.robot.test_context import VALUES

from dyn_ros.export.robot_c_library import export_robot_library
from dyn_ros.nodes.robot.context import RobotContext, SettingError

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
    return [
        dyn_ros.rnea(model, data, q, v, a).copy(),
        data.f.copy(),
        data.a_gf.copy(),
        dyn_ros.aba(model, data, q, v, a).copy(),
        dyn_ros.crba(model, data, q).copy(),
    ]


def test_its_functions_are_used_and_agree(path):
    model = dyn_ros.Model.from_urdf_file(ARM)
    model.set_payload("box", "tool", 1.5, [0.0, 0.1, 0.2], 0.01 * np.eye(3))
    expected = results(model)
    assert sorted(dyn_ros.load_native(path, model)) == sorted(NAMES)
    assert all(robot_library.find_code(ALGORITHMS[name], model) for name in NAMES)
    assert not robot_library.find_code(ALGORITHMS["minverse"], model)
    for x, y in zip(results(model), expected, strict=True):
        assert np.allclose(x, y, rtol=1e-12, atol=1e-12)
    assert any(not np.array_equal(x, y) for x, y in zip(results(model), expected, strict=True))


def test_another_robot_is_refused_and_keeps_its_functions(path):
    other = dyn_ros.Model.from_urdf_file(ARM, root_joint="floating")
    with pytest.raises(ValueError, match=r"is not for Model.*export it again"):
        dyn_ros.load_native(path, other)
    dyn_ros.load_native(path)
    assert not robot_library.find_code(ALGORITHMS["rnea"], other)


def test_what_is_no_such_library_is_refused(tmp_path):
    with pytest.raises(OSError, match="absent"):
        dyn_ros.load_native(tmp_path / "absent.so")
    library_of_all = tmp_path / "small.so"
    shutil.copy(path_of_libm(), library_of_all)
    with pytest.raises(ValueError, match="no functions for Python"):
        dyn_ros.load_native(library_of_all)


def test_a_file_name_without_a_folder(path, tmp_path, monkeypatch):
    """It is a file here; the loader alone would search in the folders of the system."""
    shutil.copy(path, tmp_path / "here.so")
    monkeypatch.chdir(tmp_path)
    assert sorted(dyn_ros.load_native("here.so")) == sorted(NAMES)
    with pytest.raises(OSError, match="libm.so.6: there is no such file"):
        dyn_ros.load_native("libm.so.6")


def test_what_would_end_the_process_is_refused(path, tmp_path):
    """The loader maps an incomplete file: reading what it does not have is a bus error."""
    content, file = path.read_bytes(), tmp_path / "part.so"
    for length in (70, 1000, 5000, len(content) // 2):
        file.write_bytes(content[:length])
        with pytest.raises(OSError, match="part.so: the file is incomplete"):
            dyn_ros.load_native(file)
    for other in (b"", b"no library", content[:18] + b"\xff\xff" + content[20:]):
        file.write_bytes(other)
        with pytest.raises(OSError, match="part.so: no shared library for this machine"):
            dyn_ros.load_native(file)
    with pytest.raises(OSError, match="there is no such file"):
        dyn_ros.load_native(tmp_path)


def test_a_file_that_was_replaced(path, tmp_path):
    """The loader would return the old one."""
    file = tmp_path / "arm.so"
    shutil.copy(path, file)
    assert dyn_ros.load_native(file) == dyn_ros.load_native(file)
    file.unlink()
    export_robot_library(tmp_path, dyn_ros.Model.from_urdf_file(ARM), "arm", ["crba"], python=True)
    shutil.copy(tmp_path / "lib" / "libarm.so", file)
    with pytest.raises(OSError, match="has changed since it was loaded; write it to another"):
        dyn_ros.load_native(file)


def test_functions_without_an_entry_for_python(tmp_path):
    """Such as one with several optional inputs; those with one are there."""
    model = dyn_ros.Model.from_urdf_file(ARM)
    export_robot_library(tmp_path, model, "arm", ["forward_kinematics", "crba"], python=True)
    assert dyn_ros.load_native(tmp_path / "lib" / "libarm.so", model) == ["crba"]


def test_a_robot_with_another_placement(path):
    text = ARM.read_text().replace('xyz="0.03 0 0.185"', 'xyz="0.03 0 0.186"')
    other = dyn_ros.Model.from_urdf(text)
    assert not np.array_equal(results(other)[4], results(dyn_ros.Model.from_urdf_file(ARM))[4])
    with pytest.raises(ValueError, match="is not for Model"):
        dyn_ros.load_native(path, other)


def test_rounding_errors_of_another_processor(path):
    """Where a library was exported, placements may differ in their last bits."""
    for change, is_accepted in ((2.0**-51, True), (1e-9, False)):
        model = dyn_ros.Model.from_urdf_file(ARM)
        model._floats *= 1.0 + change
        dyn_ros.load_native(path)
        assert bool(robot_library.find_code(ALGORITHMS["rnea"], model)) == is_accepted


def test_the_parameter_of_nodes(path):
    values = {**VALUES, "native_library": str(path)}
    model = RobotContext(ARM.read_text(), values).model
    assert robot_library.find_code(ALGORITHMS["rnea"], model)
    with pytest.raises(SettingError, match="native_library: .*is not for Model"):
        RobotContext(ARM.read_text(), values | {"root_joint": "floating"})


def path_of_libm():
    for line in Path("/proc/self/maps").read_text().splitlines():
        if "/libm.so" in line or "/libm-" in line:
            return line.split()[-1]
    pytest.skip("the C library's mathematics are part of another file")
