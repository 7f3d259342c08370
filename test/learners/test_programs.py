# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Random programs of the functions, differentiated in reverse, forward, and by differences.

torch and JAX run the same programs, and must agree.
"""

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="no torch: run `make test`")
jax = pytest.importorskip("jax", reason="no jax: run `make test`")

import jax.numpy as jnp  # noqa: E402
from learners import cases  # noqa: E402

import dyn_ros  # noqa: E402
import dyn_ros.jax as dj  # noqa: E402
import dyn_ros.torch as dt  # noqa: E402
from dyn_ros import ReferenceFrame  # noqa: E402

LENGTH = 6
TORCH, JAX = (dt, torch), (dj, jnp)
AXES = list(ReferenceFrame)


@pytest.fixture(autouse=True)
def x64():
    before = jax.config.jax_enable_x64
    jax.config.update("jax_enable_x64", True)
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_enable_x64", before)
    jax.config.update("jax_disable_most_optimizations", False)


def vectors(model, frame):
    """Functions of a configuration and two vectors, whose result is one with nv numbers.

    tanh and small factors keep all numbers in a range in which differences are accurate.
    """
    contacts = [dyn_ros.Contact(frame, 3)]

    def scaled(function, scale):
        return lambda f, xp, q, v, u: xp.tanh(function(f, q, v, u) / scale)

    def product(function):
        def compute(f, xp, q, v, u):
            return 0.5 * u + xp.tanh((function(f, q, v) @ u[..., None])[..., 0] / 10.0)

        return compute

    def weighted(function):
        def compute(f, xp, q, v, u):
            found = function(f, q, v)
            found = found.reshape(*q.shape[:-1], -1) if found.ndim >= q.ndim else found[..., None]
            return u * xp.tanh(found.sum(-1)[..., None] / 10.0)

        return compute

    return {
        "rnea": scaled(lambda f, q, v, u: f.rnea(model, q, v, u), 100.0),
        "aba": scaled(lambda f, q, v, u: f.aba(model, q, v, u), 100.0),
        "nonlinear_effects": scaled(lambda f, q, v, u: f.nonlinear_effects(model, q, u), 100.0),
        "gravity": scaled(lambda f, q, v, u: f.generalized_gravity(model, q), 100.0),
        "contacts": scaled(
            lambda f, q, v, u: f.contact_dynamics(model, q, v, u, contacts, damping=0.01)[0], 100.0
        ),
        "crba": product(lambda f, q, v: f.crba(model, q)),
        "minverse": product(lambda f, q, v: f.minverse(model, q)),
        "placement": weighted(lambda f, q, v: f.frame_placement(model, q, frame)),
        "placements": weighted(lambda f, q, v: f.forward_kinematics(model, q)[..., -1, :, :]),
        "com": weighted(lambda f, q, v: f.center_of_mass(model, q)),
        "momentum": weighted(lambda f, q, v: f.centroidal_momentum(model, q, v)),
        "energy": weighted(lambda f, q, v: f.mechanical_energy(model, q, v)),
        **{
            f"velocity {axes.name}": weighted(
                lambda f, q, v, axes=axes: f.frame_velocity(model, q, v, frame, axes)
            )
            for axes in AXES
        },
        **{
            f"jacobian {axes.name}": weighted(
                lambda f, q, v, axes=axes: f.frame_jacobian(model, q, frame, axes)
            )
            for axes in AXES
        },
    }


def random_program(robot, seed):
    """A scalar function of (module, library, q, v, tau), of random functions and operands."""
    rng = np.random.default_rng(seed)
    model = cases.model_of(robot)
    known = vectors(model, *cases.of_frame(robot))
    steps = []
    for n in range(LENGTH):
        moves = n % 3 == 2
        name = "integrate" if moves else str(rng.choice(list(known)))
        steps.append((name, rng.integers(1 + n // 3), rng.integers(2 + n - n // 3, size=2)))

    def run(f, xp, q, v, tau):
        configurations, speeds = [q], [v, tau]
        for name, at, (i, j) in steps:
            if name == "integrate":
                moved = f.integrate(model, configurations[at], 0.1 * speeds[i])
                configurations.append(moved)
            else:
                speeds.append(known[name](f, xp, configurations[at], speeds[i], speeds[j]))
        last = [*speeds, *configurations]
        return sum((xp.sin(x) ** 2).sum() for x in last) / 10.0

    run.steps = [name for name, *_ in steps]
    return run


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("robot", ["panda", "solo12", "every_joint"])
def test_random_programs(robot, seed):
    program = random_program(robot, seed)
    given = cases.state(robot, seed, (3,))
    x = [given[name] for name in ("q", "v", "tau")]
    rng = np.random.default_rng(seed)
    t = [rng.normal(size=array.shape) for array in x]

    def in_torch(*x):
        return program(*TORCH, *x)

    def in_jax(*x):
        return program(*JAX, *x)

    leaves = [torch.tensor(array, requires_grad=True) for array in x]
    value = in_torch(*leaves)
    reverse = [each.numpy() for each in torch.autograd.grad(value, leaves)]
    _, forward = torch.func.jvp(in_torch, tuple(map(torch.tensor, x)), tuple(map(torch.tensor, t)))
    values, slopes = [], jax.jit(jax.value_and_grad(in_jax, (0, 1, 2)))(*x)
    _, forward_jax = jax.jit(lambda x, t: jax.jvp(in_jax, x, t))(tuple(x), tuple(t))

    step = 1e-4
    for k in (-2.0, -1.0, 1.0, 2.0):
        moved = [torch.tensor(a + k * step * b) for a, b in zip(x, t, strict=True)]
        values.append(float(in_torch(*moved)))
    difference = (8.0 * (values[2] - values[1]) - (values[3] - values[0])) / (12.0 * step)

    along = sum((a * b).sum() for a, b in zip(reverse, t, strict=True))
    np.testing.assert_allclose(along, difference, rtol=1e-6, atol=1e-7, err_msg=str(program.steps))
    np.testing.assert_allclose(float(forward), along, rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(float(forward_jax), along, rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(float(slopes[0]), float(value.detach()), rtol=1e-10)
    cases.close(slopes[1], reverse)


@pytest.mark.parametrize("seed", range(3))
def test_second_derivatives_of_random_programs(seed):
    """Hessian-vector products: reverse over reverse, forward over reverse, and differences."""
    program = random_program("solo12", 100 + seed)
    given = cases.state("solo12", seed)
    x = tuple(torch.tensor(given[name]) for name in ("q", "v", "tau"))
    rng = np.random.default_rng(seed)
    t = tuple(torch.tensor(rng.normal(size=each.shape)) for each in x)
    gradient = torch.func.grad(lambda *x: program(*TORCH, *x), argnums=(0, 1, 2))

    _, forward = torch.func.jvp(gradient, x, t)
    reverse = torch.func.vjp(gradient, *x)[1](t)
    cases.close(forward, reverse, 1e-8)
    in_jax = jax.grad(lambda *x: program(*JAX, *x), (0, 1, 2))
    arrays = [tuple(jnp.asarray(each.numpy()) for each in group) for group in (x, t)]
    _, found = jax.jit(lambda x, t: jax.jvp(in_jax, x, t))(*arrays)
    cases.close(found, reverse, 1e-8)

    step, values = 1e-4, []
    for k in (-2.0, -1.0, 1.0, 2.0):
        moved = gradient(*(a + k * step * b for a, b in zip(x, t, strict=True)))
        values.append([each.numpy() for each in moved])
    differences = [
        (8.0 * (c - b) - (d - a)) / (12.0 * step) for a, b, c, d in zip(*values, strict=True)
    ]
    cases.close(reverse, differences, 1e-6)
