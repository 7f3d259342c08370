# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The program on the page about JavaScript, and the command that writes what it uses."""

import re
import shutil
from pathlib import Path

import numpy as np
import pytest
from export.tools import run_program
from export.web.conftest import export_module

import dyn_ros
from dyn_ros.__main__ import main

ROOT = Path(__file__).parents[3]
(PROGRAM,) = re.findall(
    r"```js\n(.*?)```", (ROOT / "docs" / "web.md").read_text(encoding="utf-8"), re.DOTALL
)
ROBOT = ROOT / "dyn_ros" / "robots" / "arm7.urdf"


def test_the_program_in_javascript(node, tmp_path):
    export_module(tmp_path / "dyn_ros_web", "wasm32", ["frame_jacobian", "rnea"])
    shutil.copy(ROBOT, tmp_path / "my_robot.urdf")
    (tmp_path / "program.mjs").write_text(PROGRAM)
    first, second = run_program([node, "program.mjs"], cwd=tmp_path).splitlines()
    model = dyn_ros.Model.from_urdf_file(ROBOT)
    data, zero = dyn_ros.Data(model), np.zeros(model.nv)
    tau = dyn_ros.rnea(model, data, model.neutral(), zero, zero)
    J = dyn_ros.frame_jacobian(model, data, model.neutral(), "tool", 2)
    assert first == f"torque of shoulder_yaw: {tau[0]:g} N m"
    numbers = [float(x) for x in re.findall(r"[-\d.e]+(?=[, ])", second.partition("[")[2])]
    assert np.array_equal(numbers, J[:, 0])


@pytest.mark.parametrize(
    "arguments, error",
    [
        (["--robot", "x.urdf", "--out", "x"], "--robot cannot be combined with --target wasm32"),
        (["x86-64-v2", "--out", "x"], "export wasm32 alone, to a folder of its own"),
        (["--page", "--out", "x"], "--target needs --out FOLDER without --page"),
        (["--functions", "nothing", "--out", "x"], "'nothing' cannot be exported; available: aba"),
    ],
)
def test_wrong_options(arguments, error, capsys):
    assert main(["export", "--target", "wasm32", *arguments]) == 2
    assert error in capsys.readouterr().err


def test_missing_tools_are_named(monkeypatch, capsys, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name == "ziglang" else 1)
    assert main(["export", "--target", "wasm32", "--out", str(tmp_path / "x")]) == 2
    assert "install clang and lld" in capsys.readouterr().err
