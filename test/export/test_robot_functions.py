# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Functions for one robot, called as C does, agree with the engine on random states."""

import ctypes
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

import dyn_ros
import peer
from dyn_ros.engine.kernel.fields import axis_lengths
from dyn_ros.engine.machine_code.targets import best_target
from dyn_ros.export.functions import find_functions
from dyn_ros.export.robot_functions import robot_parameters, specialize_function
from dyn_ros.export.specialize import trace

llvm = pytest.importorskip("llvmlite.binding")
if not shutil.which("cc"):
    pytest.skip("needs cc to link", allow_module_level=True)

STATES = 200
TOLERANCE = 1e-13  # relative to the largest number of a result


def load_arm():
    return dyn_ros.Model.from_urdf_file(Path(dyn_ros.__file__).parent / "robots" / "arm7.urdf")


@pytest.fixture(scope="module")
def arm():
    return load_arm()


def load(robot_function, folder):
    """Load a function in a library that needs only the C library."""
    path = folder / robot_function.symbol
    path.with_suffix(".o").write_bytes(robot_function.content)
    subprocess.run(
        ["cc", "-shared", "-Wl,--no-undefined", "-o", f"{path}.so", f"{path}.o"], check=True
    )
    return ctypes.CDLL(f"{path}.so")[robot_function.symbol]


def call(function, inputs, results):
    """Call a function with arrays; return the status."""
    return function(*(ctypes.c_void_p(x.ctypes.data) for x in (*inputs, *results)))


class Peer:
    """Function of the engine, with the inputs and results of the C function."""

    def __init__(self, model, name, with_inputs=(), arguments=()):
        (self.function,) = find_functions([name])
        optional = self.function.algorithm.optional
        self.inputs = [
            f for f in self.function.inputs if f not in optional or f.name[1:] in with_inputs
        ]
        self.model, self.data = model, dyn_ros.Data(model)
        self.name, self.arguments = name, arguments

    def state(self, rng):
        return [
            self.model.random_configuration(rng)
            if f.name == "_q"
            else rng.standard_normal(axis_lengths(self.model, f.shape))
            for f in self.inputs
        ]

    def results(self, inputs):
        results = getattr(dyn_ros, self.name)(self.model, self.data, *inputs, *self.arguments)
        results = results if isinstance(results, tuple) else (results,)
        return [
            np.ascontiguousarray(np.swapaxes(x, -1, -2) if f.transposed else x, float).ravel()
            for f, x in zip(self.function.results, results)
        ]


def compare(
    model, name, folder, settable, with_inputs=(), states=STATES, options=None, arguments=()
):
    target = best_target()
    robot_function = specialize_function(
        model, name, "robot", target, settable, with_inputs, options
    )
    function, engine = load(robot_function, folder), Peer(model, name, with_inputs, arguments)
    rng = np.random.default_rng(0)
    parameters = [robot_parameters(model)] if settable else []
    for _ in range(states):
        state = engine.state(rng)
        expected = engine.results(state)
        results = [np.full_like(x, np.nan) for x in expected]
        assert call(function, state, [*results, *parameters]) == 0
        for x, y in zip(results, expected):
            assert np.abs(x - y).max() <= TOLERANCE * np.abs(y).max(initial=1e-300)


@pytest.mark.parametrize("settable", (False, True))
@pytest.mark.parametrize("name", ("rnea", "aba", "crba"))
def test_agrees_with_the_engine(arm, tmp_path, name, settable):
    compare(arm, name, tmp_path, settable)


@pytest.mark.parametrize(
    "robot, root_joint",
    (("panda", None), ("talos_reduced", None), ("solo12", "floating"), ("every_joint", "planar")),
)
def test_of_other_robots(tmp_path, robot, root_joint):
    """With mimic joints, a floating and a planar base, and all kinds of joints."""
    model = dyn_ros.Model.from_urdf(peer.urdf(robot), root_joint)
    for name in ("rnea", "aba"):
        compare(model, name, tmp_path, True, states=20)


def test_of_a_robot_with_one_joint(arm, tmp_path):
    """Sines are computed together, if there are several."""
    pendulum = arm.reduced(dict.fromkeys(arm.joint_names[1:], 0.3))
    for name in ("rnea", "aba", "crba"):
        compare(pendulum, name, tmp_path, True, states=5)


def test_reads_what_is_settable(arm, tmp_path):
    """Gravity, inertias and armature that have changed since the export."""
    robot_function = specialize_function(arm, "rnea", "robot", best_target())
    function = load(robot_function, tmp_path)
    other = load_arm()
    other.gravity, other.armature = [1.0, 2.0, -3.0], np.linspace(0.1, 0.7, arm.nv)
    other.set_payload("box", "tool", 2.0, [0.1, 0.2, 0.3], 0.1 * np.eye(3))
    engine, tau = Peer(other, "rnea"), np.empty(arm.nv)
    state = engine.state(np.random.default_rng(1))
    call(function, state, [tau, robot_parameters(other)])
    np.testing.assert_allclose(tau, engine.results(state)[0], rtol=0, atol=1e-12)


def test_optional_inputs_and_options(arm, tmp_path):
    compare(arm, "rnea", tmp_path, False, with_inputs=("f_ext",))
    compare(
        arm,
        "frame_jacobian",
        tmp_path,
        False,
        options={"frame": "tool", "reference_frame": "LOCAL"},
        arguments=("tool", dyn_ros.ReferenceFrame.LOCAL),
    )
    compare(
        arm,
        "subtree_com_jacobian",
        tmp_path,
        False,
        options={"joint": "elbow_pitch"},
        arguments=("elbow_pitch",),
    )


def test_reports_the_velocity_of_a_singular_pivot(tmp_path):
    """The last body of a chain has no inertia."""
    model = dyn_ros.Model.from_urdf(peer.urdf("double_pendulum"))
    function = load(specialize_function(model, "aba", "robot", best_target()), tmp_path)
    parameters = robot_parameters(model)
    parameters[3 + 10 * (model.njoints - 1) :][:10] = 0.0
    q, v, tau, ddq = np.zeros((4, model.nv))
    assert call(function, [q, v, tau], [ddq, parameters]) == model.nv


def test_names_and_prototypes(arm):
    options = {"frame": "tool", "reference_frame": "WORLD"}
    robot_function = specialize_function(arm, "frame_jacobian", "arm7", "aarch64", options=options)
    assert robot_function.symbol == "arm7_frame_jacobian_tool_world"
    assert robot_function.prototype == (
        "int arm7_frame_jacobian_tool_world(const double *q, "
        "double *frame_jacobian, const arm7_parameters *parameters)"
    )
    assert robot_function.content[18:20] == b"\xb7\x00"  # EM_AARCH64


def test_refuses_what_depends_on_the_inputs(arm):
    for name, settable in (
        ("contact_dynamics", False),
        ("center_of_mass", True),
        ("frame_forces", True),
    ):
        with pytest.raises(trace.NotTraceable):
            specialize_function(arm, name, "robot", "x86-64-v3", settable)


def test_refuses_what_is_faster_with_loops():
    model = dyn_ros.Model.from_urdf(peer.urdf("talos_reduced"))
    with pytest.raises(trace.NotTraceable, match="operations without loops"):
        specialize_function(model, "rnea_derivatives", "robot", "x86-64-v4")


def test_bad_arguments(arm):
    with pytest.raises(ValueError, match="no optional input 'f'; available: f_ext"):
        specialize_function(arm, "rnea", "robot", "x86-64-v3", with_inputs=("f",))
    with pytest.raises(ValueError, match="frame_velocity expects frame, reference_frame, got none"):
        specialize_function(arm, "frame_velocity", "robot", "x86-64-v3")


@pytest.mark.parametrize("target", ("x86-64-v2", "x86-64-v3", "x86-64-v4", "aarch64"))
def test_calls_no_mathematics(arm, target):
    """Code for no processor calls functions of the mathematical library."""
    for name in ("rnea", "minverse"):
        content = specialize_function(arm, name, "robot", target).content
        symbols = llvm.ObjectFileRef.from_data(content)
        assert any(section.is_text() for section in symbols.sections())
        for function in (b"sin", b"cos", b"fma", b"sqrt", b"rint"):
            assert b"\0" + function + b"\0" not in content
