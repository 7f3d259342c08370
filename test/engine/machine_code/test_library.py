# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The library of machine code: what is taken from it, and what is compiled."""

import ast
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("numba", reason="builds a library")
from dyn_ros.command.build import build_library
from dyn_ros.engine.machine_code import library
from dyn_ros.engine.machine_code.compiler import ENTRIES
from dyn_ros.engine.machine_code.declare import JIT
from dyn_ros.engine.machine_code.targets import best_target

ROOT = Path(__file__).resolve().parents[3]
pytestmark = pytest.mark.skipif(not JIT, reason="nothing is compiled")
LOADED = """
import numpy as np
import dyn_ros
from dyn_ros.engine.machine_code.compiler import ENTRIES
model = dyn_ros.Model.from_urdf_file(ROBOT)
data, q = dyn_ros.Data(model), np.full(7, 0.5)
g = dyn_ros.generalized_gravity(model, data, q).tolist()
potential = dyn_ros.potential_energy(model, data, q)
print([g, potential, *(ENTRIES[f"{name}-one"]._owner is None
                       for name in ("generalized_gravity", "potential_energy"))])
""".replace("ROBOT", repr(str(ROOT / "dyn_ros" / "robots" / "arm7.urdf")))


BATCH = """
import numpy as np
import dyn_ros
from dyn_ros.engine.kernel.lanes import LANES
from dyn_ros.engine.machine_code.compiler import ENTRIES
model = dyn_ros.Model.from_urdf_file(ROBOT)
q = np.linspace(-1.0, 1.0, 77).reshape(11, 7)
g = dyn_ros.generalized_gravity(model, dyn_ros.Data(model), q)
print([LANES, ENTRIES["generalized_gravity-lanes"]._owner is None, g.tolist()])
""".replace("ROBOT", repr(str(ROOT / "dyn_ros" / "robots" / "arm7.urdf")))


def run(folder, root=ROOT, code=LOADED):
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=root,
        text=True,
        capture_output=True,
        env={**os.environ, "PYTHONPATH": str(root), "DYN_ROS_LIBRARY": str(folder)},
    )
    assert done.returncode == 0, done.stderr
    return ast.literal_eval(done.stdout.splitlines()[-1])


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A library with one of the two functions."""
    folder = tmp_path_factory.mktemp("library")
    build_library(folder, [ENTRIES["generalized_gravity-one"]], [best_target()])
    return folder


def test_what_is_in_the_library_is_taken_from_it(folder):
    *numbers, gravity, potential = run(folder)
    assert [gravity, potential] == [True, False]
    assert run("none") == [*numbers, False, False]


def test_its_manifest_describes_what_it_contains(folder):
    manifest = json.loads((folder / best_target() / library.MANIFEST).read_text())
    assert manifest["sources"] == library.digest_of_sources()
    assert manifest["entries"] == {
        "generalized_gravity-one": ENTRIES["generalized_gravity-one"].digest_for(best_target())
    }


@pytest.mark.skipif("x86" not in best_target(), reason="requires an x86-64 processor")
def test_a_library_for_short_vectors_computes_four_states_at_a_time(tmp_path):
    names = ("call-gather", "call-scatter", "generalized_gravity-lanes")
    build_library(tmp_path, [ENTRIES[name] for name in names], ["x86-64-v2"])
    lanes, is_taken, g = run(tmp_path, code=BATCH)
    assert (lanes, is_taken) == (4, True)
    np.testing.assert_allclose(g, run("none", code=BATCH)[2], rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize(
    "old, new, is_taken",
    [
        ("# Copyright", "# An edited comment\n# Copyright", True),
        ("clear_entries(r, tau, nv(r))", "clear_entries(r, tau, nv(r) + 0)", False),
    ],
)
def test_an_edited_kernel_is_compiled_and_an_unedited_one_is_not(
    folder, tmp_path, old, new, is_taken
):
    copy = tmp_path / "copy"
    shutil.copytree(
        ROOT / "dyn_ros", copy / "dyn_ros", ignore=shutil.ignore_patterns("__pycache__")
    )
    path = copy / "dyn_ros" / "engine" / "algorithms" / "dynamics" / "rnea.py"
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new))
    assert run(folder, copy)[2:] == [is_taken, False]


@pytest.mark.parametrize(
    "target, reason",
    [
        ("x86-64-v9", "DYN_ROS_TARGET: no target 'x86-64-v9'; available: x86-64-v2, "),
        (
            "x86-64-v2" if best_target() == "aarch64" else "aarch64",
            f"DYN_ROS_TARGET: this processor ({best_target()}) cannot run code for ",
        ),
    ],
)
def test_a_target_that_cannot_be_used_is_reported(target, reason):
    done = subprocess.run(
        [sys.executable, "-c", LOADED],
        cwd=ROOT,
        text=True,
        capture_output=True,
        env={
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "DYN_ROS_LIBRARY": "none",
            "DYN_ROS_TARGET": target,
        },
    )
    assert reason in done.stderr


def test_a_folder_without_a_library_for_this_processor_is_reported(tmp_path, monkeypatch):
    monkeypatch.setenv("DYN_ROS_LIBRARY", str(tmp_path))
    with pytest.raises(FileNotFoundError) as error:
        library._installed_library.__wrapped__()
    assert str(tmp_path) in str(error.value) and best_target() in str(error.value)


@pytest.mark.parametrize(
    "text, reason",
    [
        ("{", "cannot be read: Expecting property name"),
        ("", "cannot be read"),
        ("[" * 100_000, "cannot be read: JSON: too many arrays"),
        ("[]", "expected sources, entries, programs, checksum"),
        ('{"sources": ""}', "expected sources, entr"),
        ('{"sources": "", "entries": {}, "programs": []}', "expected sources, entries, programs"),
    ],
)
def test_a_damaged_manifest_is_reported(tmp_path, monkeypatch, text, reason):
    code = tmp_path / best_target() / library.FILE
    code.parent.mkdir()
    code.write_bytes(b"")
    (code.parent / library.MANIFEST).write_text(text)
    monkeypatch.setenv("DYN_ROS_LIBRARY", str(tmp_path))
    with pytest.raises(ImportError, match=f"{library.MANIFEST}: {reason}.*LIBRARY to none"):
        library._installed_library.__wrapped__()


@pytest.mark.parametrize("damage", ["cut", "empty", "one bit"])
def test_a_damaged_library_is_reported(damage, folder, tmp_path, monkeypatch):
    copy = shutil.copytree(folder, tmp_path / "copy")
    code = copy / best_target() / library.FILE
    content = bytearray(code.read_bytes())
    content[len(content) // 2] ^= 1
    code.write_bytes({"cut": content[:5000], "empty": b"", "one bit": content}[damage])
    monkeypatch.setenv("DYN_ROS_LIBRARY", str(copy))
    with pytest.raises(ImportError, match="the file is damaged.*set DYN_ROS_LIBRARY to none"):
        assert library._installed_library.__wrapped__().code


def test_a_manifest_that_is_a_pipe_is_reported(folder, tmp_path, monkeypatch):
    copy = shutil.copytree(folder, tmp_path / "copy")
    manifest = copy / best_target() / library.MANIFEST
    manifest.unlink()
    os.mkfifo(manifest)
    monkeypatch.setenv("DYN_ROS_LIBRARY", str(copy))
    with pytest.raises(ImportError, match=f"{library.MANIFEST}: cannot be read: .*a pipe"):
        library._installed_library.__wrapped__()
