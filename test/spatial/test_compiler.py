# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The folder of compiled kernels, each case in a process of its own."""
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from dyn_ros.spatial.compiler import JIT

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.skipif(not JIT, reason="nothing is compiled")
COMPILE = "import dyn_ros; print(dyn_ros.precompile(['generalized_gravity'], batch=False))"
FOLDER = "from dyn_ros.spatial.compiler import cache_folder; print(cache_folder())"


def run(code, root=ROOT, **environment):
    done = subprocess.run([sys.executable, "-c", code], cwd=root, text=True, capture_output=True,
                          env=dict(os.environ, PYTHONPATH=str(root), **environment))
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_a_second_process_compiles_nothing_and_damage_is_mended(tmp_path):
    named = {"DYN_ROS_CACHE_DIR": str(tmp_path)}
    assert run(COMPILE, **named) == "['generalized_gravity']"
    assert run(COMPILE, **named) == "[]"
    kept = [path for path in tmp_path.rglob("*") if path.suffix in (".nbc", ".nbi")]
    assert kept
    for path in kept:
        path.write_bytes(path.read_bytes()[:20])
    assert run(COMPILE, **named) == "['generalized_gravity']"
    assert run(COMPILE, **named) == "[]"


def test_where_the_folder_is(tmp_path):
    home = tmp_path / "home"
    home.mkdir()
    unset = {"XDG_CACHE_HOME": "", "DYN_ROS_CACHE_DIR": ""}
    assert Path(run(FOLDER, **dict(unset, HOME=str(home)))).parent == home / ".cache" / "dyn_ros"
    xdg = str(tmp_path / "xdg")
    assert Path(run(FOLDER, **dict(unset, XDG_CACHE_HOME=xdg))).parent.parent == Path(xdg)
    named = str(tmp_path / "named")
    assert Path(run(FOLDER, **dict(unset, DYN_ROS_CACHE_DIR=named))).parent == Path(named)


def test_a_temporary_folder_that_others_can_write_to_is_left(tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("")
    unset = {"XDG_CACHE_HOME": "", "DYN_ROS_CACHE_DIR": "", "HOME": str(blocked),
             "TMPDIR": str(tmp_path)}
    shared = tmp_path / f"dyn_ros-{os.getuid()}"
    assert Path(run(FOLDER, **unset)).parent == shared
    assert shared.stat().st_mode & 0o777 == 0o700
    shared.chmod(0o777)
    assert Path(run(FOLDER, **unset)).parent.parent == tmp_path
    assert Path(run(FOLDER, **unset)).parent != shared
    shutil.rmtree(shared)
    shared.symlink_to(tmp_path)
    assert Path(run(FOLDER, **unset)).parent not in (shared, tmp_path)


def test_a_home_that_is_not_known_is_left(tmp_path):
    """Where there is none, the shell's ~ stands for it; nothing of that name may be made."""
    folder = run(FOLDER, HOME="~", XDG_CACHE_HOME="", DYN_ROS_CACHE_DIR="", TMPDIR=str(tmp_path))
    assert Path(folder).parent == tmp_path / f"dyn_ros-{os.getuid()}"


def test_a_full_disk_costs_the_cache_alone(tmp_path):
    code = ("import resource, warnings\n"
            "import dyn_ros\n"
            "resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))\n"
            "model = dyn_ros.Model.from_urdf_file('dyn_ros/robots/arm7.urdf')\n"
            "with warnings.catch_warnings(record=True) as told:\n"
            "    dyn_ros.generalized_gravity(model, dyn_ros.Data(model), model.neutral())\n"
            "print([str(warning.message) for warning in told])\n")
    told = run(code, DYN_ROS_CACHE_DIR=str(tmp_path))
    assert "generalized_gravity" in told and "compiled again next time" in told
    assert run(COMPILE, DYN_ROS_CACHE_DIR=str(tmp_path)) == "['generalized_gravity']"
    assert run(COMPILE, DYN_ROS_CACHE_DIR=str(tmp_path)) == "[]"


def test_a_folder_that_cannot_be_made_is_left(tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("")
    home = tmp_path / "home"
    home.mkdir()
    folder = run(FOLDER, DYN_ROS_CACHE_DIR=str(blocked), XDG_CACHE_HOME="", HOME=str(home))
    assert Path(folder).parent == home / ".cache" / "dyn_ros"


def test_changed_sources_are_compiled_again_and_others_are_not(tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(ROOT / "dyn_ros", copy / "dyn_ros",
                    ignore=shutil.ignore_patterns("__pycache__"))
    named = {"DYN_ROS_CACHE_DIR": str(tmp_path / "cache")}
    assert run(COMPILE, copy, **named) == "['generalized_gravity']"
    for changed, expected in {"spatial/algebra.py": "['generalized_gravity']",
                              "algorithms/minverse.py": "[]"}.items():
        with open(copy / "dyn_ros" / changed, "a") as file:
            file.write("\n# changed\n")
        assert run(COMPILE, copy, **named) == expected


DIGESTS = """
from importlib import import_module
from dyn_ros.spatial.compiler import source_digest
minverse, crba = (import_module("dyn_ros.algorithms." + name) for name in ("minverse", "crba"))
layout = import_module("dyn_ros.model.layout")
digests = [source_digest(minverse.minverse_kernel), source_digest(minverse.minverse_kernel)]
crba.M += 1
digests.append(source_digest(minverse.minverse_kernel))
layout.RATIO += 1
digests.append(source_digest(minverse.minverse_kernel))
print([digests.index(digest) for digest in digests])
"""


def test_the_digest_reaches_every_module_of_a_kernel_and_its_numbers():
    assert run(DIGESTS) == "[0, 0, 2, 3]"
