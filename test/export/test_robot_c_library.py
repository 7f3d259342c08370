# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Libraries of functions for one robot: numbers, what can be set, names, the command."""

import ctypes
import re

import numpy as np
import pytest
from export.tools import robot, run_program

import dyn_ros
from dyn_ros.command.main import main

pytest.importorskip("numba", reason="nothing can be compiled")
from dyn_ros.export.robot_c_library import export_robot_library

FUNCTIONS = ("rnea", "crba", "aba", "frame_jacobian:frame=hand,reference_frame=LOCAL")


def pointer(array):
    return array.ctypes.data_as(ctypes.POINTER(ctypes.c_double))


def call(library, name, arguments, shape, parameters=()):
    result = np.full(shape, 7.0)
    error = getattr(library, name)(*map(pointer, arguments), pointer(result), *parameters)
    assert error == 0
    return result


@pytest.fixture(scope="module")
def model():
    return robot("panda").with_frame("hand", "panda_hand")


@pytest.fixture(scope="module")
def folder(model, tmp_path_factory):
    """The library of a robot whose parameters can be set."""
    folder = tmp_path_factory.mktemp("robot")
    export_robot_library(folder, model, "my_arm", FUNCTIONS, inputs=["f_ext"])
    return folder


@pytest.fixture
def library(folder):
    return ctypes.CDLL(str(folder / "lib" / "libmy_arm.so"))


def states(model, n=5):
    rng = np.random.default_rng(2)
    for _ in range(n):
        yield (
            model.random_configuration(rng),
            *rng.standard_normal((3, model.nv)),
            rng.standard_normal((model.njoints, 6)),
        )


def compare(model, library, parameters, f_ext=True):
    data, n = dyn_ros.Data(model), model.nv
    for q, v, a, tau, forces in states(model):
        optional_inputs = [forces] * f_ext
        for name, arguments, shape in (
            ("rnea", (q, v, a, *optional_inputs), n),
            ("crba", (q,), (n, n)),
            ("aba", (q, v, tau, *optional_inputs), n),
        ):
            result = call(library, f"my_arm_{name}", arguments, shape, parameters)
            expected = getattr(dyn_ros, name)(model, data, *arguments)
            assert abs(result - expected).max() < 1e-13 * abs(expected).max(), name


def test_numbers(model, library):
    defaults = ctypes.c_double.in_dll(library, "my_arm_defaults")
    compare(model, library, [ctypes.byref(defaults)])
    for q, *_ in states(model):
        J = call(
            library,
            "my_arm_frame_jacobian_hand_local",
            (q,),
            (model.nv, 6),
            [ctypes.byref(defaults)],
        )
        assert (
            abs(J.T - dyn_ros.frame_jacobian(model, dyn_ros.Data(model), q, "hand", 1)).max()
            < 1e-13
        )


def test_parameters_are_an_argument(model, library):
    other, count = robot("panda").with_frame("hand", "panda_hand"), 3 + 10 * 9 + 8
    numbers = np.array((ctypes.c_double * count).in_dll(library, "my_arm_defaults"))
    other.gravity = numbers[:3] = 1.0, 2.0, 3.0
    other.set_payload("load", "hand", 1.5, [0.0, 0.0, 0.1], 0.01 * np.eye(3))
    numbers[3:93] = other.inertial_parameters.ravel()
    other.armature = numbers[93:] = np.linspace(0.1, 0.2, 8)
    compare(other, library, [pointer(numbers)])


def test_fixed_parameters(model, tmp_path):
    export_robot_library(tmp_path, model, "my_arm", ["rnea", "crba", "aba"], settable=False)
    compare(model, ctypes.CDLL(str(tmp_path / "lib" / "libmy_arm.so")), (), f_ext=False)
    assert "defaults" not in (tmp_path / "include" / "my_arm.h").read_text()


def test_the_header_and_the_symbols(model, folder, tmp_path):
    text = (folder / "include" / "my_arm.h").read_text()
    assert "@" not in text and "``" not in text and max(map(len, text.splitlines())) <= 120
    constants = dict(re.findall(r"  MY_ARM_(\w+) = (\d+),", text))
    assert int(constants["NV"]) == model.nv and int(constants["NFRAMES"]) == model.nframes
    for i, name in enumerate(model.joint_names):
        assert int(constants[f"JOINT_{name.upper()}"]) == i
    for k, name in enumerate(model.velocity_names):
        assert int(constants[f"V_{name.upper()}"]) == k
    for name in model.frame_names:
        assert int(constants[f"FRAME_{name.upper()}"]) == model.frame_index(name)
    (tmp_path / "user.c").write_text(
        '#include "my_arm.h"\nint main(void) {\n  double q[MY_ARM_NQ] = {0}, M[MY_ARM_NV * '
        "MY_ARM_NV];\n  return my_arm_crba(q, M, &my_arm_defaults) || M[0] <= 0.0;\n}\n"
    )
    run_program(
        [
            "cc",
            "-std=c99",
            "-Wall",
            "-Wextra",
            "-Wpedantic",
            "-Werror",
            f"-I{folder}/include",
            tmp_path / "user.c",
            folder / "lib" / "libmy_arm.a",
            "-o",
            tmp_path / "user",
        ]
    )
    run_program([tmp_path / "user"])
    library_symbols = [
        line.split()[-2:]
        for line in run_program(["nm", "-D", folder / "lib" / "libmy_arm.so"]).splitlines()
    ]
    assert {name.partition("@")[0] for kind, name in library_symbols if kind == "U"} <= {
        "memcpy",
        "memset",
    }
    assert {name for kind, name in library_symbols if kind != "U"} == {
        "my_arm_defaults",
        *(f"my_arm_{name}" for name in ("rnea", "aba", "crba", "frame_jacobian_hand_local")),
    }


def test_the_command(tmp_path, capsys):
    path = "dyn_ros/robots/arm7.urdf"
    assert (
        main(
            [
                "export",
                "--robot",
                path,
                "--out",
                str(tmp_path),
                "--functions",
                "generalized_gravity",
                "--fixed",
            ]
        )
        == 0
    )
    assert "include (arm7.h) and lib" in capsys.readouterr().out
    model = dyn_ros.Model.from_urdf_file(path)
    library = ctypes.CDLL(str(tmp_path / "lib" / "libarm7.so"))
    q = np.linspace(-1.0, 1.0, 7)
    assert np.allclose(
        call(library, "arm7_generalized_gravity", (q,), 7),
        dyn_ros.generalized_gravity(model, dyn_ros.Data(model), q),
        atol=1e-13,
    )


def test_a_robot_without_joints(tmp_path):
    arm = dyn_ros.Model.from_urdf_file("dyn_ros/robots/arm7.urdf")
    with pytest.raises(ValueError, match="arm7 has no joints"):
        export_robot_library(tmp_path / "out", arm.reduced(dict.fromkeys(arm.joint_names, 0.0)))
    assert not (tmp_path / "out").exists()


def test_functions_of_one_name(tmp_path):
    arm = dyn_ros.Model.from_urdf_file("dyn_ros/robots/arm7.urdf")
    model = arm.with_frame("a-b", "tool").with_frame("a_b", "hand_link")
    with pytest.raises(ValueError, match="two of them would be arm7_frame_jacobian_a_b_local in C"):
        export_robot_library(
            tmp_path / "out",
            model,
            names=[
                f"frame_jacobian:frame={frame},reference_frame=LOCAL" for frame in ("a-b", "a_b")
            ],
        )
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--name", "my arm"], "name: expected an identifier of C, and not dyn_ros, got 'my arm'"),
        (["--name", "dyn_ros"], "and not dyn_ros, got 'dyn_ros'"),
        (["--functions", "contact_dynamics"], "takes constraints or contacts"),
        (
            ["--functions", "frame_jacobian"],
            "options: frame_jacobian expects frame, reference_frame",
        ),
        (["--functions", "nothing"], "'nothing' cannot be exported"),
        (
            ["--functions", "cholesky_solve:operation=6"],
            "options: operation: expected 0 to 5, got '6'",
        ),
        (
            ["--functions", "frame_jacobian:frame=tool,reference_frame=HERE"],
            "options: reference_frame: expected WORLD, LOCAL, LOCAL_WORLD_ALIGNED, got 'HERE'",
        ),
        (
            ["--inputs", "wind"],
            "inputs: no function has the optional input 'wind'; available: f_ext",
        ),
        (["--model", "robot.urdf"], "--model and --robot exclude each other"),
    ],
)
def test_errors(tmp_path, capsys, arguments, text):
    assert (
        main(
            [
                "export",
                "--robot",
                "dyn_ros/robots/arm7.urdf",
                "--out",
                str(tmp_path / "out"),
                *arguments,
            ]
        )
        == 2
    )
    assert text in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
