# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The public names of dyn_ros: every algorithm is imported under its name."""

import importlib
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import dyn_ros
from dyn_ros import check


def test_an_algorithm_without_its_import_line_is_reported(tmp_path):
    copy = shutil.copytree(
        Path(dyn_ros.__file__).parent,
        tmp_path / "dyn_ros",
        ignore=shutil.ignore_patterns("__pycache__"),
    )
    listed = copy / "engine" / "algorithms" / "__init__.py"
    line = "from .dynamics.momenta_and_energy import joint_forces as joint_forces\n"
    assert line in listed.read_text()
    listed.write_text(listed.read_text().replace(line, ""))
    result = subprocess.run(
        [sys.executable, "-c", "import dyn_ros"],
        capture_output=True,
        text=True,
        timeout=300,
        cwd=tmp_path,
    )
    assert result.returncode == 1
    assert result.stderr.splitlines()[-1] == (
        "ImportError: dyn_ros/engine/algorithms/__init__.py does not import joint_forces; add an "
        "import for each public function"
    )


def test_precompile_of_nothing_compiles_nothing():
    seen = []
    assert dyn_ros.precompile([], progress=lambda *of: seen.append(of)) == []
    assert seen == [(0, 0, "")]


def test_documented_modules_keep_their_names():
    assert importlib.import_module("dyn_ros.model.check").examine_urdf is check.examine_urdf
    pytest.importorskip("geometry_msgs", reason="no ROS: run `make test`")
    assert importlib.import_module("dyn_ros.nodes.conversions").to_pose
    assert importlib.import_module("dyn_ros.identification.report").write_report
