# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The programs on the page about C and C++ can be compiled, and run."""

import re
from pathlib import Path

import numpy as np
import pytest
from export.tools import require_tools, run_program

import dyn_ros
from dyn_ros.export.model_file import write_model

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "cpp.md").read_text()
(CPP,) = re.findall(r"```cpp\n(.*?)```", PAGE, re.DOTALL)
EXAMPLE = ROOT / "examples" / "gravity_compensation_cpp"
(C,) = re.findall(r"```c\n(.*?)```", PAGE, re.DOTALL)
MAIN = """
#include <cstdio>

#include <controller.hpp>

int main(int, char **argv)
{
  GravityCompensation control;
  control.configure(argv[1], {"elbow_pitch", "shoulder_yaw", "shoulder_pitch"});
  std::vector<double> positions = {0.3, 0.1, 0.2}, efforts(3);
  if (control.update(positions, efforts)) return 1;
  std::printf("%.17g %.17g %.17g\\n", efforts[0], efforts[1], efforts[2]);
  const std::vector<double> previous = efforts;
  positions[1] = 0.0 / (positions[0] - 0.3);
  if (!control.update(positions, efforts) || efforts != previous) return 1;
  try {
    control.configure(argv[1], {"nothing"});
  } catch (const dyn_ros::Error &error) {
    std::puts(error.what());
  }
}
"""


COMMANDS = re.findall(r"^    (g(?:cc|\+\+) (?:.*\\\n)*.*)$", PAGE, re.MULTILINE)


@pytest.mark.parametrize("command", COMMANDS)
def test_the_commands_that_compile(library, arm, tmp_path, command):
    require_tools(command.split()[0], *["pkg-config"] * ("pkg-config" in command))
    (tmp_path / "dyn_ros_cpp").symlink_to(library)
    (tmp_path / "main.c").write_text(C)
    (tmp_path / "main.cpp").write_text(CPP)
    run_program(["sh", "-c", command], cwd=tmp_path)
    assert run_program([tmp_path / "a.out", tmp_path / "arm.dynros"])


@pytest.fixture
def arm(tmp_path):
    model = dyn_ros.Model.from_urdf_file(ROOT / "dyn_ros" / "robots" / "arm7.urdf")
    write_model(model, tmp_path / "arm.dynros")
    return model


def run(compiler, text, library, folder, arguments=("arm.dynros",)):
    suffix, standard = {"cc": (".c", "c99"), "c++": (".cpp", "c++17")}[compiler]
    require_tools(compiler)
    source = folder / f"program{suffix}"
    source.write_text(text)
    run_program(
        [
            compiler,
            f"-std={standard}",
            "-O1",
            "-Wall",
            "-Wextra",
            "-Werror",
            f"-I{library}/include",
            f"-I{EXAMPLE}",
            source,
            library / "lib" / "libdyn_ros.a",
            "-o",
            folder / "program",
        ]
    )
    return run_program([folder / "program", *(folder / name for name in arguments)])


def test_the_program_in_cpp_prints_its_usage(library, tmp_path):
    with pytest.raises(AssertionError, match="usage: .*program ROBOT.dynros"):
        run("c++", CPP, library, tmp_path, arguments=())


def test_the_program_in_cpp(library, arm, tmp_path):
    data, zero = dyn_ros.Data(arm), np.zeros(7)
    tau = dyn_ros.rnea(arm, data, arm.neutral(), zero, zero)
    lines = run("c++", CPP, library, tmp_path).splitlines()
    assert lines[0] == f"torque of the first joint: {tau[0]:g} N m" and len(lines) == 2


def test_the_program_in_c(library, arm, tmp_path):
    M = dyn_ros.crba(arm, dyn_ros.Data(arm), arm.neutral())
    assert run("cc", C, library, tmp_path) == f"inertia of the last joint: {M[-1, -1]:g}\n"


def test_the_controller(library, arm, tmp_path):
    q = np.zeros(7)
    joints = [
        arm.idx_q[arm.joint_index(name)]
        for name in ("elbow_pitch", "shoulder_yaw", "shoulder_pitch")
    ]
    q[joints] = 0.3, 0.1, 0.2
    expected = dyn_ros.generalized_gravity(arm, dyn_ros.Data(arm), q)[joints]
    numbers, error = run("c++", MAIN, library, tmp_path).splitlines()
    assert np.array_equal(np.array(numbers.split(), float), expected)
    assert error.startswith("joint nothing: no such joint")
