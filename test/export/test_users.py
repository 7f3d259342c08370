# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""What users of the library have: headers, C++, packages, the command, the example."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from export.tools import require_tools, robot, run_program

import dyn_ros
from dyn_ros.command.main import main
from dyn_ros.engine.machine_code.targets import best_target
from dyn_ros.export.functions import find_functions

pytest.importorskip("numba", reason="nothing can be compiled")
from dyn_ros.export.c_library import export_library, resolve_targets
from dyn_ros.export.model_file import write_model

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "gravity_compensation_cpp"
STRICT = ("-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Werror")
EIGEN = Path("/usr/include/eigen3")


@pytest.mark.parametrize("standard", ["c99", "c17"])
def test_the_header_is_strict_c(library, tmp_path, standard):
    (tmp_path / "user.c").write_text('#include "dyn_ros.h"\n#include "dyn_ros.h"\nint x;\n')
    run_program(
        [
            "cc",
            f"-std={standard}",
            *STRICT,
            f"-I{library}/include",
            "-c",
            tmp_path / "user.c",
            "-o",
            tmp_path / "user.o",
        ]
    )


def test_the_header_documents_every_function(library):
    text = (library / "include" / "dyn_ros.h").read_text()
    for function in find_functions():
        comment, call = re.search(
            rf"/\* ((?:(?!/\*).)*?) \*/\nsize_t dyn_ros_{function.name}_workspace.*?"
            rf"\nint dyn_ros_{function.name}\((.*?)\);",
            text,
            re.DOTALL,
        ).groups()
        names = re.findall(r"(\w+)(?:,|$)", call)[2:]
        described = re.findall(r"^     (\w+): ", comment, re.MULTILINE)
        assert described == names, function.name
        for result in function.results:
            beginning = " ".join(result.doc.split()[:5]).replace("``", "")[:20]
            assert beginning and beginning in " ".join(comment.split())
    assert "``" not in text and not re.search(r"@\w+@|data\.|model\.\w|Python|numpy|\w\(\)", text)
    assert max(map(len, text.splitlines())) <= 120


@pytest.fixture(params=[False, True], ids=["plain", "eigen"])
def user(request, library, tmp_path):
    require_tools("c++")
    if request.param and not EIGEN.exists():
        pytest.skip("Eigen is not installed")
    include = ["-isystem", EIGEN] if request.param else []
    run_program(
        [
            "c++",
            "-std=c++17",
            "-O1",
            *STRICT,
            *include,
            f"-I{library}/include",
            Path(__file__).with_name("user.cpp"),
            library / "lib" / "libdyn_ros.a",
            "-o",
            tmp_path / "user",
        ]
    )
    return tmp_path / "user"


def test_cpp(user, tmp_path):
    model = robot("panda")
    write_model(model, tmp_path / "panda.dynros")
    lines = run_program([user, tmp_path / "panda.dynros", "panda_hand"]).splitlines()
    words = {line.split()[0]: line.split()[1:] for line in lines}
    numbers = {
        name: np.array(words[name], float)
        for name in (
            "rnea",
            "frame_jacobian",
            "entry",
            "height",
            "contact_dynamics",
            "mass",
            "changed",
            "limits",
        )
    }
    data, q, v = dyn_ros.Data(model), model.neutral(), np.full(model.nv, 0.5)
    J = dyn_ros.frame_jacobian(model, data, q, "panda_hand", 1, [0.1, 0.2, 0.3])
    assert np.array_equal(numbers["rnea"], dyn_ros.rnea(model, data, q, v, v))
    assert np.array_equal(numbers["frame_jacobian"], J.T.ravel())
    assert numbers["entry"] == J[4, 1]
    assert numbers["height"] == dyn_ros.forward_kinematics(model, data, q)[0][2, 2, 3]
    _, forces = dyn_ros.contact_dynamics(
        model, data, q, v, v, [dyn_ros.Contact("panda_hand", 3, 1)]
    )
    assert np.array_equal(numbers["contact_dynamics"], forces.lambda_c)
    assert numbers["mass"][0] == model.total_mass and words["names"] == [
        "panda",
        "panda_joint2",
        "panda_hand",
    ]
    model.gravity, model.armature = (1.0, 0.0, 2.0), np.full(model.nv, 0.2)
    model.set_payload("load", "panda_hand", 1.5, [0.0, 0.0, 0.1], 0.01 * np.eye(3))
    q = model.integrate(q, np.full(model.nv, 0.1))
    tau = dyn_ros.rnea(model, data, q, v, v)
    assert abs(numbers["changed"] - tau).max() < 1e-13 * abs(tau).max()
    assert abs(numbers["mass"][1] - model.total_mass) < 1e-14 * model.total_mass
    assert np.array_equal(numbers["limits"], model.upper)
    assert [line for line in lines if line.split()[0] not in {"names", *numbers}] == [
        "an array has more or fewer numbers than the header says",
        "a is NULL, but not optional",
        "no such file: the file cannot be read",
        "frame nothing: no such frame, or no joint moves "
        "it, or both frames of a contact belong to one body",
        "joint 99: no such joint, or it is a mimic joint",
        "q has a number that is not finite",
    ]


def test_pkg_config(library):
    require_tools("pkg-config")
    environment = dict(os.environ, PKG_CONFIG_PATH=str(library / "lib" / "pkgconfig"))
    flags = run_program(["pkg-config", "--cflags", "--libs", "dyn_ros"], env=environment).split()
    include, folder, name = flags
    assert (Path(include[2:]) / "dyn_ros.h").exists()
    assert (Path(folder[2:]) / "libdyn_ros.so").exists() and name == "-ldyn_ros"
    version = run_program(["pkg-config", "--modversion", "dyn_ros"], env=environment).strip()
    assert version == dyn_ros.__version__


# --- the command


def test_the_example_runs(library, tmp_path, capsys):
    """Built by CMake with the package, on a model file that the command writes."""
    require_tools("cmake", "c++")
    assert (
        main(
            [
                "export",
                "--model",
                str(ROOT / "dyn_ros" / "robots" / "arm7.urdf"),
                "--out",
                str(tmp_path / "arm7.dynros"),
            ]
        )
        == 0
    )
    assert "arm7, 7 joints" in capsys.readouterr().out
    run_program(
        [
            "cmake",
            "-S",
            EXAMPLE,
            "-B",
            tmp_path,
            f"-DCMAKE_PREFIX_PATH={library}",
            f"-DCMAKE_CXX_FLAGS={' '.join(STRICT)}",
        ]
    )
    run_program(["cmake", "--build", tmp_path])
    output = run_program([tmp_path / "gravity_compensation", tmp_path / "arm7.dynros", "3"])
    assert re.search(r"arm7: 3000 cycles, speed at the end \d", output)
    assert re.search(r"computing torques +median +[\d.]+ us +99.9 % +[\d.]+ us +max", output)


def test_packages_of_cmake(library, tmp_path):
    """Both libraries, and the versions that fit; ROS has a package dyn_ros, too."""
    require_tools("cmake")
    assert [path.name for path in (library / "lib" / "cmake").iterdir()] == ["dyn_ros_library"]
    text = (
        "cmake_minimum_required(VERSION 3.16)\nproject(user C)\n"
        "find_package(dyn_ros_library {} {})\n"
        'if(NOT dyn_ros_library_FOUND)\n  message(FATAL_ERROR "none")\nendif()\n'
        "add_executable(user user.c)\n"
        "target_link_libraries(user PRIVATE dyn_ros_library::dyn_ros_static)\n"
    )
    (tmp_path / "user.c").write_text(
        '#include "dyn_ros.h"\nint main(void) { dyn_ros_model model; '
        "return !dyn_ros_model_init(&model, 0, 0); }\n"
    )
    (tmp_path / "CMakeLists.txt").write_text(text.format(dyn_ros.__version__, "EXACT REQUIRED"))
    run_program(
        ["cmake", "-S", tmp_path, "-B", tmp_path / "build", f"-DCMAKE_PREFIX_PATH={library}"]
    )
    run_program(["cmake", "--build", tmp_path / "build"])
    run_program([tmp_path / "build" / "user"])
    for wrong in ("99.0", "0.1"):
        (tmp_path / "CMakeLists.txt").write_text(text.format(wrong, "QUIET"))
        with pytest.raises(AssertionError, match="none"):
            run_program(
                ["cmake", "-S", tmp_path, "-B", tmp_path / wrong, f"-DCMAKE_PREFIX_PATH={library}"]
            )


def test_the_loader_chooses_a_level(tmp_path):
    """Of several targets, by folders of glibc."""
    if not best_target().startswith("x86-64"):
        pytest.skip("other processors have no levels")
    export_library(tmp_path, ["rnea"], ["x86-64-v3", "x86-64-v2"])
    shared = os.path.realpath(tmp_path / "lib" / "libdyn_ros.so")
    level = tmp_path / "lib" / "glibc-hwcaps" / "x86-64-v3" / Path(shared).name
    assert level.read_bytes() != Path(shared).read_bytes()
    (tmp_path / "user.c").write_text(
        '#include <stdio.h>\n#include "dyn_ros.h"\nint main(void) {\n'
        "  puts(dyn_ros_error_text(0)); return 0; }\n"
    )
    run_program(
        [
            "cc",
            f"-I{tmp_path}/include",
            tmp_path / "user.c",
            "-o",
            tmp_path / "user",
            f"-L{tmp_path}/lib",
            "-ldyn_ros",
            f"-Wl,-rpath,{tmp_path}/lib",
        ]
    )
    used = run_program([tmp_path / "user"], env=dict(os.environ, LD_DEBUG="libs"))
    assert used == "no error\n"
    if shutil.which("ldd") and best_target() != "x86-64-v2":
        assert str(level) in run_program(["ldd", tmp_path / "user"])


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (
            ["--out", "OUT", "--functions", "rnea", "nothing"],
            "'nothing' cannot be exported; availab",
        ),
        (["--out", "OUT", "--target", "x86-64-v9"], "no target 'x86-64-v9'; available: x86-64-v2"),
        (["--out", "OUT", "--target", "aarch64", "x86-64-v3"], "different processors; export each"),
        (["--model", "OUT/none.urdf"], "none.urdf: No such file"),
        (
            ["--model", "OUT/none.urdf", "--target", "aarch64"],
            "--target needs --out FOLDER without",
        ),
        (["--out", "OUT", "--python"], "--python needs --robot"),
        (["--out", "OUT", "--inputs", "f_ext"], "--inputs needs --robot"),
        ([], "specify --out FOLDER"),
        (["--out", "OUT", "--functions", "frame_jacobian:frame=tool"], "require --robot"),
    ],
)
def test_errors_of_the_command(tmp_path, capsys, arguments, text):
    arguments = [word.replace("OUT", str(tmp_path)) for word in arguments]
    assert main(["export", *arguments]) == 2
    assert text in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("compiler", "text"),
    [("no_such_compiler", "no_such_compiler is needed to link"), ("false", "false -std=c11")],
)
def test_no_compiler(tmp_path, capsys, monkeypatch, compiler, text):
    monkeypatch.setenv("CC", compiler)
    assert main(["export", "--out", str(tmp_path), "--functions", "rnea"]) == 2
    assert text in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_target_of_another_processor_needs_its_compiler(monkeypatch):
    """Also if DYN_ROS_TARGET makes it the default."""
    if not best_target().startswith("x86-64"):
        pytest.skip("code for x86-64 needs no cross compiler")
    monkeypatch.setenv("DYN_ROS_TARGET", "aarch64")
    monkeypatch.setenv("PATH", "")
    best_target.cache_clear()
    try:
        with pytest.raises(FileNotFoundError, match="aarch64-linux-gnu-gcc is needed"):
            resolve_targets(None)
    finally:
        best_target.cache_clear()


def test_another_library_in_the_folder_is_replaced(tmp_path, monkeypatch):
    """With all of its levels, which the loader would prefer; programs that run keep theirs."""
    if not best_target().startswith("x86-64"):
        pytest.skip("other processors have no levels")
    monkeypatch.setenv("CC", "")
    export_library(tmp_path, ["crba"], ["x86-64-v2", "x86-64-v3"])
    shared = Path(os.path.realpath(tmp_path / "lib" / "libdyn_ros.so"))
    with shared.open("rb") as old:
        content = old.read()
        export_library(tmp_path, ["rnea"], ["x86-64-v2"])
        assert old.seek(0) == 0 and old.read() == content != shared.read_bytes()
    assert not list(tmp_path.glob("lib/glibc-hwcaps/*/*"))


def test_the_loader_refuses_a_library_for_another_processor(tmp_path):
    require_tools("readelf")
    if not best_target().startswith("x86-64"):
        pytest.skip("other processors have no levels")
    export_library(tmp_path, ["rnea"], ["x86-64-v3"])
    assert "x86 ISA needed: x86-64-v3" in run_program(
        ["readelf", "-n", tmp_path / "lib" / "libdyn_ros.so"]
    )


def test_export_without_numba_says_what_to_install(tmp_path):
    """But writes model files."""
    code = (
        "import sys\nsys.modules['numba'] = sys.modules['llvmlite'] = None\n"
        "from dyn_ros.command.main import main\n"
        f"robot, out = {str(ROOT / 'dyn_ros/robots/arm7.urdf')!r}, {str(tmp_path)!r}\n"
        "print(main(['export', '--model', robot, '--out', out + '/arm']))\n"
        "for robots in [], ['--robot', robot]:\n"
        "    print(main(['export', *robots, '--out', out + '/library']))\n"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60
    )
    assert result.stdout.split()[-3:] == ["0", "2", "2"]
    assert result.stderr == 2 * (
        "dyn_ros export: to export functions, install the compiler with "
        '`pip install "dyn_ros[compiler]"`\n'
    )
    assert [path.name for path in tmp_path.iterdir()] == ["arm"]


def test_model_files_have_the_options_of_models(tmp_path):
    path = Path(__file__).parents[1] / "robots" / "every_joint.urdf"
    assert (
        main(
            [
                "export",
                "--model",
                str(path),
                "--out",
                str(tmp_path / "robot"),
                "--root-joint",
                "floating",
                "--mimic",
                "ignore",
                "--gravity",
                "0",
                "0",
                "1.5",
            ]
        )
        == 0
    )
    model = dyn_ros.Model.from_urdf_file(path, "floating", (0.0, 0.0, 1.5), "ignore")
    write_model(model, tmp_path / "same")
    assert (tmp_path / "same").read_bytes() == (tmp_path / "robot").read_bytes()
