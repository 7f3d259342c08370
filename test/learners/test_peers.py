# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""`dyn_ros.torch` and `dyn_ros.jax` in place of frax and adam: their examples agree.

`make learners` installs both libraries.
"""

import importlib.util
import os
import sys
from pathlib import Path
from unittest import mock

import numpy as np
import pytest

import dyn_ros
from dyn_ros import ReferenceFrame
from dyn_ros.demo.run import ARM

BENCHMARK = Path(__file__).resolve().parents[2] / "benchmarks" / "learners.py"
POSES = np.random.default_rng(0).uniform(-1.0, 1.0, (16, 7))


@pytest.fixture(scope="module")
def jax():
    """JAX with numbers of 64 bits."""
    jax = pytest.importorskip("jax", reason="no jax: run `make test`")
    before = jax.config.jax_enable_x64
    jax.config.update("jax_enable_x64", True)
    yield jax
    jax.config.update("jax_enable_x64", before)


@pytest.fixture
def frax(jax):
    return pytest.importorskip("frax", reason="no frax: run `make learners`")


@pytest.fixture
def adam():
    """adam's class for torch."""
    pytest.importorskip("torch", reason="no torch: run `make test`")
    pytest.importorskip("adam", reason="no adam: run `make learners`")
    return importlib.import_module("adam.pytorch").KinDynComputations


def test_benchmark_agrees(frax, adam, monkeypatch):
    """The gradients that `benchmarks/learners.py` times, of an arm and of a quadruped."""
    spec = importlib.util.spec_from_file_location("benchmark_of_learners", BENCHMARK)
    benchmark = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, benchmark)
    with mock.patch.dict(os.environ):  # it sets options of JAX
        spec.loader.exec_module(benchmark)
    columns = benchmark.installed()
    assert set(columns) == set(benchmark.STEPS)
    for robot in benchmark.robots():
        for column in columns:
            for function in benchmark.FUNCTIONS:
                assert benchmark.check(robot, column, function) < 1e-8


def test_mass_matrix_of_the_readme_of_frax(jax, frax):
    import dyn_ros.jax as dj

    robot, model = frax.Robot(str(ARM)), dyn_ros.Model.from_urdf_file(ARM)
    q = np.zeros(robot.nq)
    expected = jax.jit(robot.mass_matrix)(q)
    found = jax.jit(lambda q: dj.crba(model, q))(q)
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)
    many = jax.jit(jax.vmap(robot.mass_matrix))(POSES)
    np.testing.assert_allclose(dj.crba(model, POSES), many, rtol=1e-12, atol=1e-12)


def test_operational_space_control_of_frax(jax, frax):
    """The torques of frax's demo panda_osc_demo.py: M, its inverse, gravity and the Jacobian."""
    import jax.numpy as jnp

    import dyn_ros.jax as dj

    robot, model = frax.Robot(str(ARM)), dyn_ros.Model.from_urdf_file(ARM)
    rng = np.random.default_rng(1)
    v, force = rng.normal(size=7), rng.normal(size=6)

    def torques(M, bias, J):
        """Forces in the space of the tool, decoupled by its inertia."""
        inertia = jnp.linalg.inv(J @ jnp.linalg.inv(M) @ J.T)
        return J.T @ inertia @ (force - 3.0 * J @ v) + bias

    def of_dyn_ros(q):
        J = dj.frame_jacobian(model, q, "tool", ReferenceFrame.LOCAL_WORLD_ALIGNED)
        return torques(dj.crba(model, q), dj.nonlinear_effects(model, q, v), J)

    def of_frax(q):
        J = dj.frame_jacobian(model, q, "tool", ReferenceFrame.LOCAL_WORLD_ALIGNED)
        return torques(robot.mass_matrix(q), robot.nonlinear_bias(q, v), J)

    for q in POSES[:3]:
        np.testing.assert_allclose(of_dyn_ros(q), of_frax(q), rtol=1e-9, atol=1e-9)
        found, expected = (jax.jacfwd(f)(q) for f in (of_dyn_ros, of_frax))
        np.testing.assert_allclose(found, expected, rtol=1e-7, atol=1e-7)


def test_readme_of_adam(adam):
    """Mass matrix, placement of a frame and center of mass, of one state and of a batch."""
    import torch

    import dyn_ros.torch as dt

    model = dyn_ros.Model.from_urdf_file(ARM, "floating")
    names = [name for name in model.joint_names if name != "root_joint"]
    known = adam(str(ARM), names, dtype=torch.float64, device=torch.device("cpu"))
    known.set_frame_velocity_representation(
        importlib.import_module("adam").Representations.BODY_FIXED_REPRESENTATION
    )
    base = torch.eye(4, dtype=torch.float64)
    for joints in (torch.tensor(POSES[0]), torch.tensor(POSES)):
        lead = joints.shape[:-1]
        q = torch.tensor(model.neutral()).repeat(*lead, 1)
        q[..., 7:] = joints
        H = base.expand(*lead, 4, 4)
        for found, expected in (
            (dt.crba(model, q), known.mass_matrix(H, joints)),
            (
                dt.frame_placement(model, q, "tool"),
                known.forward_kinematics("tool", H, joints),
            ),
            (dt.center_of_mass(model, q), known.CoM_position(H, joints)),
        ):
            torch.testing.assert_close(found.reshape(expected.shape), expected)


def test_neural_inverse_kinematics_of_adam(adam):
    """Some steps of adam's neural_ik.py: a network learns the joints of placements."""
    import torch

    import dyn_ros.torch as dt

    model = dyn_ros.Model.from_urdf_file(ARM)
    known = adam(str(ARM), list(model.joint_names), dtype=torch.float64, device=torch.device("cpu"))
    H = torch.eye(4, dtype=torch.float64).expand(len(POSES), 4, 4)
    targets = dt.frame_placement(model, torch.tensor(POSES), "tool")[:, :3, 3]

    def train(positions):
        torch.manual_seed(0)
        network = torch.nn.Sequential(
            torch.nn.Linear(3, 32), torch.nn.Tanh(), torch.nn.Linear(32, 7)
        ).double()
        optimizer, losses = torch.optim.Adam(network.parameters(), lr=1e-2), []
        for _ in range(20):
            loss = (positions(network(targets)) - targets).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        return losses

    found = train(lambda q: dt.frame_placement(model, q, "tool")[:, :3, 3])
    expected = train(lambda q: known.forward_kinematics("tool", H, q)[:, :3, 3])
    assert found[-1] < 0.5 * found[0]
    np.testing.assert_allclose(found, expected, rtol=1e-9)
