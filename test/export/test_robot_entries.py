# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Entries for one robot: they leave the same fields as those of any robot."""

import ctypes
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

import dyn_ros
from dyn_ros.engine.call import entries
from dyn_ros.engine.call.algorithm import ALGORITHMS
from dyn_ros.engine.call.robot_library import code_digest as robot_digest
from dyn_ros.engine.call.workspace import Workspace, new_field
from dyn_ros.engine.kernel import packing
from dyn_ros.engine.kernel.fields import public_view
from dyn_ros.engine.machine_code.targets import best_target
from dyn_ros.export.robot_entries import specialize_entry
from dyn_ros.export.specialize.trace import NotTraceable

pytest.importorskip("llvmlite")
if not shutil.which("cc"):
    pytest.skip("needs cc to link", allow_module_level=True)


def load_arm():
    return dyn_ros.Model.from_urdf_file(Path(dyn_ros.__file__).parent / "robots" / "arm7.urdf")


def load_entry(entry, folder):
    path = folder / entry.symbol
    path.with_suffix(".o").write_bytes(entry.content)
    subprocess.run(
        ["cc", "-shared", "-Wl,--no-undefined", "-o", f"{path}.so", f"{path}.o"], check=True
    )
    return ctypes.CDLL(f"{path}.so")


def fields(model, algorithm, values, call):
    """Return the status and the public fields of a call with these inputs."""
    program = algorithm.program(model)
    arrays = {f: new_field(model, f) for f in (*algorithm.results, *algorithm.also_writes)}
    space = Workspace(model, program.fields, public_arrays=arrays)
    for f, value in values.items():
        space.call_ints[packing.HAS_INPUT + f] = 1
        space[f][...] = value
    status = call(*entries.kernel_args_addresses(model, space))
    return status, {f.name: public_view(model, f, array) for f, array in arrays.items()}


@pytest.mark.parametrize(
    "name, optional",
    (("rnea", False), ("rnea", True), ("aba", False), ("crba", False), ("minverse", False)),
)
def test_leaves_the_same_fields(tmp_path, name, optional):
    """With and without the optional input, and after gravity and an inertia have changed."""
    model, algorithm, rng = load_arm(), ALGORITHMS[name], np.random.default_rng(0)
    entry = specialize_entry(model, name, best_target())
    function = load_entry(entry, tmp_path)[entry.symbol]
    function.restype, function.argtypes = ctypes.c_int64, 4 * [ctypes.c_int64]
    model.gravity = [1.0, 2.0, -9.0]
    model.set_payload("box", "tool", 2.0, [0.1, 0.2, 0.3], 0.1 * np.eye(3))
    general_entry = algorithm.program(model).one
    general_entry.load()
    for _ in range(20):
        values = {
            f: rng.standard_normal((model.njoints, 6) if f.name == "_f_ext" else model.nv)
            for f in algorithm.inputs
            if optional or f not in algorithm.optional
        }
        status, expected = fields(model, algorithm, values, general_entry.call)
        assert (status, 0) == (fields(model, algorithm, values, function)[0], 0)
        for key, array in fields(model, algorithm, values, function)[1].items():
            size = np.abs(expected[key]).max()
            assert np.abs(array - expected[key]).max() <= 1e-13 * size, key


def test_digest_of_the_robot(tmp_path):
    """It depends on the structure and on constants, not on what a model can change."""
    model, other, rnea = load_arm(), load_arm(), ALGORITHMS["rnea"]
    entry = specialize_entry(model, "rnea", best_target())
    word = ctypes.c_int64.in_dll(load_entry(entry, tmp_path), entry.digest_symbol)
    code_digest = robot_digest(model, rnea)
    assert word.value == code_digest
    other.gravity, other.armature = [0.0, 0.0, -1.6], np.ones(7)
    assert robot_digest(other, rnea) == code_digest
    assert robot_digest(model, ALGORITHMS["aba"]) != code_digest
    assert (
        robot_digest(
            dyn_ros.Model.from_urdf_file(
                Path(dyn_ros.__file__).parent / "robots" / "quadruped.urdf"
            ),
            rnea,
        )
        != code_digest
    )


def test_refuses_options():
    with pytest.raises(NotTraceable, match="frame_jacobian has options"):
        specialize_entry(load_arm(), "frame_jacobian", "x86-64-v3")
