# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""`dyn_ros.jax`: values and derivatives beside the engine and torch, transforms, bad input."""

import copy
import re
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

jax = pytest.importorskip("jax", reason="no jax: run `make test`")
pytest.importorskip("torch", reason="no torch, which computes what is expected: run `make test`")

import jax.numpy as jnp  # noqa: E402
from jax.test_util import check_grads  # noqa: E402
from learners import cases  # noqa: E402
from learners.cases import FUNCTIONS  # noqa: E402

import dyn_ros  # noqa: E402
import dyn_ros.jax as dj  # noqa: E402

SIZES = 0, 1, 2, 3, 7, 8, 9, 63, 64, 65
SOME = ("rnea", "aba", "crba", "frame_velocity LOCAL", "center_of_mass", "integrate")
"""Functions for tests whose cases take seconds to compile; dyn_ros.torch shares their rules."""
CASES = [
    (robot, function)
    for robot in cases.ROBOTS
    for function in (FUNCTIONS if robot in ("solo12", "every_joint") else SOME)
]
QUICK_DIFFERENCES = [
    *((robot, function) for robot in cases.ROBOTS for function in SOME[:2]),
    ("solo12", "crba"),
]
some_functions = pytest.mark.parametrize("function", SOME)
MODEL = cases.model_of("arm7")


@pytest.fixture(autouse=True)
def x64():
    """Numbers of 64 bits, and a compiler that takes less time."""
    before = jax.config.jax_enable_x64
    jax.config.update("jax_enable_x64", True)
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_enable_x64", before)
    jax.config.update("jax_disable_most_optimizations", False)


def arrays_of(robot, function, lead=(), seed=1):
    given = cases.state(robot, seed, lead)
    return [given[name] for name in FUNCTIONS[function].inputs]


def bound(robot, function, **options):
    """A function of arrays, which returns a tuple."""
    f = cases.bound(dj, robot, function, **options)
    return lambda *x: tuple(f(*x))


def derivatives(f, arrays, function):
    """As `cases.derivatives`, by JAX."""
    x = [jnp.asarray(array) for array in arrays]
    t = [jnp.asarray(direction) for direction in cases.directions(function, arrays, 5)]
    w = [
        jnp.asarray(direction) for direction in cases.directions(function, jax.eval_shape(f, *x), 6)
    ]

    def along(x, w):
        value, tangent = jax.jvp(f, tuple(x), tuple(t))
        total = sum(jnp.vdot(a, b) for a, b in zip(tangent, w, strict=True))
        return total, (value, tangent)

    @jax.jit
    def everything(x, w):
        (_, (value, tangent)), second = jax.value_and_grad(along, argnums=(0, 1), has_aux=True)(
            x, w
        )
        gradient = jax.vjp(f, *x)[1](tuple(w))
        return value, tangent, gradient, [*second[0], *second[1]]

    return cases.Expected(*everything(x, w))


def exponential(matrix):
    """The exponential of a small matrix, which compiles sooner than JAX's."""
    total = term = jnp.broadcast_to(jnp.eye(4), matrix.shape)
    for k in range(1, 15):
        term = term @ matrix / k
        total = total + term
    return total


def check(actual, expected):
    cases.close(actual.value, expected.value, 1e-10)
    cases.close(actual.tangent, expected.tangent)
    cases.close(actual.gradient, expected.gradient)
    cases.close(actual.second, expected.second, 1e-8)


def loss_of(robot, function, **options):
    f = bound(robot, function, **options)
    return lambda *x: sum(jnp.sum(jnp.sin(each / 10.0) ** 2) for each in f(*x))


def gradient_of(robot, function, **options):
    count = len(FUNCTIONS[function].inputs)
    return jax.grad(loss_of(robot, function, **options), argnums=tuple(range(count)))


# ---------------------------------------------------------------------------- derivatives


@pytest.mark.parametrize("robot, function", CASES)
def test_derivatives(robot, function):
    arrays, expected = cases.expected(robot, function)
    cases.close(bound(robot, function)(*arrays), cases.engine(robot, function, arrays), 1e-12)
    check(derivatives(bound(robot, function), arrays, function), expected)


@pytest.mark.parametrize("robot", ["solo12"])
@pytest.mark.parametrize("function", [name for name, f in FUNCTIONS.items() if f.parameters])
def test_derivatives_in_parameters(robot, function):
    arrays, expected = cases.expected(robot, function, True)
    fixed = jnp.asarray(cases.fixed_placements(robot))
    split = cases.with_parameters(
        function,
        FUNCTIONS[function].parameters,
        lambda motions: fixed @ exponential(cases.hat(motions, jnp.stack)),
    )

    def f(*x):
        x, parameters = split(x)
        return tuple(cases.call(dj, robot, function, x, **parameters))

    check(derivatives(f, arrays, function), expected)


@pytest.mark.parametrize(
    "robot, function, order",
    [
        *((robot, function, 2) for robot, function in QUICK_DIFFERENCES),
        *(("solo12", function, 1) for function in FUNCTIONS if function not in SOME[:3]),
        *(
            pytest.param(robot, function, 2, marks=pytest.mark.long)
            for robot in cases.ROBOTS
            for function in FUNCTIONS
            if (robot, function) not in QUICK_DIFFERENCES
        ),
    ],
)
def test_finite_differences(robot, function, order):
    arrays, _ = cases.inputs(robot, function)
    f = jax.jit(lambda *x: [each / 100.0 for each in bound(robot, function)(*x)])
    check_grads(f, arrays, order, ("fwd", "rev"), atol=1e-4, rtol=1e-4, eps=1e-5)


@some_functions
@pytest.mark.parametrize("robot", ["solo12", "every_joint"])
def test_gradients_in_the_tangent_space(robot, function):
    """They are those of torch, which `test_torch_derivatives.py` checks."""
    import torch

    import dyn_ros.torch as dt

    model, arrays = cases.model_of(robot), cases.inputs(robot, function)[0]
    found = gradient_of(robot, function, tangent=True)(*arrays)
    x = [torch.tensor(array, requires_grad=True) for array in arrays]
    values = cases.call(dt, robot, function, x, tangent=True)
    total = sum((torch.sin(each / 10.0) ** 2).sum() for each in values)
    cases.close(found, torch.autograd.grad(total, x))
    assert not found[0][model.nv :].any()


@pytest.mark.parametrize("name", ["rnea", "aba"])
@pytest.mark.parametrize("robot", ["arm7", "solo12", "every_joint"])
def test_jacobians_are_those_of_numpy(robot, name):
    model = cases.model_of(robot)
    given = cases.state(robot, 3)
    given["q"] = model.normalize(given["q"])
    x = [given[key] for key in FUNCTIONS[name].inputs[:3]]
    expected = getattr(dyn_ros, f"{name}_derivatives")(model, dyn_ros.Data(model), *x)
    for transform in (jax.jacrev, jax.jacfwd):
        found = transform(lambda *y: getattr(dj, name)(model, *y, tangent=True), (0, 1, 2))(*x)
        cases.close([found[0][:, : model.nv], *found[1:]], expected, 1e-10)


@pytest.mark.parametrize("name", ["rnea", "aba"])
def test_second_derivatives_are_those_of_numpy(name):
    given = cases.state("arm7", 3)
    x = [given[key] for key in FUNCTIONS[name].inputs[:3]]
    expected = getattr(dyn_ros, f"{name}_second_order_derivatives")(MODEL, dyn_ros.Data(MODEL), *x)
    found = jax.jit(jax.hessian(lambda *y: getattr(dj, name)(MODEL, *y), (0, 1, 2)))(*x)
    cases.close([found[0][0], found[1][1], found[0][1]], expected[:3])


# ---------------------------------------------------------------------------- transforms


@pytest.mark.parametrize("compiled", [False, True])
@some_functions
def test_vmap_over_any_axis(function, compiled):
    arrays = arrays_of("solo12", function, (4,))
    f, change = bound("solo12", function), jax.jit if compiled else lambda g: g
    expected = f(*arrays)
    for axis in (0, 1, -1):
        moved = [np.moveaxis(array, 0, axis) for array in arrays]
        cases.close(change(jax.vmap(f, in_axes=axis))(*moved), expected, 1e-12)
    if len(arrays) > 1:
        axes = (None,) + (0,) * (len(arrays) - 1)
        expected = f(np.broadcast_to(arrays[0][:1], arrays[0].shape), *arrays[1:])
        found = change(jax.vmap(f, in_axes=axes))(arrays[0][0], *arrays[1:])
        cases.close(found, expected, 1e-12)


@some_functions
def test_gradients_under_transforms(function):
    """jit, vmap over two axes, and the gradient of a batch are the gradients of each state."""
    arrays = arrays_of("solo12", function, (2, 3))
    gradient = jax.jit(gradient_of("solo12", function))
    rows = [gradient(*(array[i, j] for array in arrays)) for i in range(2) for j in range(3)]
    expected = [np.reshape(each, (2, 3, *each[0].shape)) for each in zip(*rows)]
    cases.close(gradient(*arrays), expected, 1e-11)
    cases.close(jax.vmap(jax.vmap(gradient, in_axes=0))(*arrays), expected, 1e-11)
    moved = [np.moveaxis(array, 1, -1) for array in arrays]
    cases.close(jax.vmap(jax.vmap(gradient, in_axes=-1))(*moved), expected, 1e-11)


@pytest.mark.parametrize("function", ["rnea", "aba"])
def test_hessians(function):
    arrays = arrays_of("solo12", function)
    loss = loss_of("solo12", function)
    argnums = tuple(range(len(arrays)))
    hessian = jax.jit(jax.hessian(loss, argnums))(*arrays)
    reverse = jax.jit(jax.jacrev(jax.grad(loss, argnums), argnums))(*arrays)
    flat = [each for row in hessian for each in row]
    cases.close(flat, [each for row in reverse for each in row], 1e-8)
    cases.close([hessian[0][0]], [hessian[0][0].T], 1e-8)
    batch = arrays_of("solo12", function, (3,))
    each = jax.vmap(jax.hessian(loss))(*batch)
    cases.close([each[1]], [jax.hessian(loss)(*(array[1] for array in batch))])


def test_control_flow():
    """A rollout by scan, and a condition."""

    def rollout(q, v, tau):
        def step(carry, torque):
            q, v = carry
            v = v + 0.01 * dj.aba(MODEL, q, v, torque)
            return (dj.integrate(MODEL, q, 0.01 * v), v), q

        return jax.lax.scan(step, (q, v), tau)[0]

    def loss(q, v, tau):
        q, v = rollout(q, v, tau)
        return jax.lax.cond(q[0] > 0.0, lambda: jnp.sum(q**2), lambda: jnp.sum(v**2))

    q, v, tau, _ = (jnp.asarray(each) for each in arrays_of("arm7", "aba", (16,)))
    check_grads(jax.jit(loss), (q[0], v[0], tau), 1, ("fwd", "rev"), 1e-4, 1e-4)


def test_parameters_are_pytrees():
    q, v, a, _ = arrays_of("arm7", "rnea", (5,))
    parameters = {
        "inertial_parameters": MODEL.inertial_parameters,
        "armature": np.random.default_rng(0).uniform(size=(5, 7)),
        "gravity": MODEL.gravity,
    }

    @jax.jit
    @jax.grad
    def gradient(parameters):
        return jnp.sum(dj.rnea(MODEL, q, v, a, **parameters))

    found = gradient(parameters)
    assert found["gravity"].shape == (3,) and found["inertial_parameters"].shape == (7, 10)
    cases.close([found["armature"]], [a], 1e-12)
    theta = np.broadcast_to(MODEL.inertial_parameters, (3, 1, 7, 10))
    assert dj.rnea(MODEL, q, v, a, inertial_parameters=theta).shape == (3, 5, 7)


# ---------------------------------------------------------------------------- batches, precision


@pytest.mark.parametrize("function", ["rnea", "aba", "forward_kinematics"])
def test_batches_are_loops(function):
    arrays = arrays_of("solo12", function, (max(SIZES),))
    f, gradient = jax.jit(bound("solo12", function)), jax.jit(gradient_of("solo12", function))
    rows = [[array[k] for array in arrays] for k in range(max(SIZES))]
    values = [np.array(each) for each in zip(*(f(*row) for row in rows))]
    slopes = [np.array(each) for each in zip(*(gradient(*row) for row in rows))]
    for size in SIZES:
        batch = [array[:size] for array in arrays]
        cases.close(f(*batch), [each[:size] for each in values], 1e-12)
        cases.close(gradient(*batch), [each[:size] for each in slopes], 1e-11)


def test_leading_axes_broadcast():
    model = cases.model_of("solo12")
    q, v, a, f_ext = arrays_of("solo12", "rnea", (2, 3))
    found = dj.rnea(model, q[0], v[:, :1], a[0, 0], f_ext)
    expected = dj.rnea(
        model, *(np.broadcast_to(x, (2, 3, x.shape[-1])) for x in (q[0], v[:, :1], a[0, 0])), f_ext
    )
    cases.close([found], [expected], 1e-12)
    gradient = jax.grad(lambda *x: jnp.sum(jnp.sin(dj.rnea(model, *x, f_ext))), (0, 1, 2))
    shapes = [each.shape for each in gradient(q[0], v[:, :1], a[0, 0])]
    assert shapes == [(3, model.nq), (2, 1, model.nv), (model.nv,)]


@pytest.mark.parametrize("function", ["rnea", "aba", "crba", "center_of_mass"])
def test_32_bits(function):
    robot = "solo12"
    double = [np.float64(np.float32(each)) for each in arrays_of(robot, function, (9,))]
    expected = bound(robot, function)(*double)
    slopes = gradient_of(robot, function)(*double)
    for enabled in (True, False):
        jax.config.update("jax_enable_x64", enabled)
        single = [jnp.asarray(each, jnp.float32) for each in double]
        found = jax.jit(bound(robot, function))(*single)
        assert all(each.dtype == jnp.float32 for each in found)
        cases.close(found, expected, 1e-4)
        found = gradient_of(robot, function)(*single)
        assert all(each.dtype == jnp.float32 for each in found)
        cases.close(found, slopes, 1e-4)


def test_numpy_arrays_without_64_bits():
    jax.config.update("jax_enable_x64", False)
    q, v, a, f_ext = arrays_of("arm7", "rnea")
    tau = dj.rnea(MODEL, q, v, a, f_ext)
    assert tau.dtype == jnp.float32
    cases.close([tau], cases.engine("arm7", "rnea", [q, v, a, f_ext]), 1e-4)


def test_changes_of_a_model_are_seen():
    model = copy.copy(MODEL)
    q, v, a, f_ext = arrays_of("arm7", "rnea")
    before = dj.rnea(model, q, v, a, f_ext)
    model.gravity = (0.0, 0.0, -1.0)
    expected = dyn_ros.rnea(model, dyn_ros.Data(model), q, v, a, f_ext)
    cases.close([dj.rnea(model, q, v, a, f_ext)], [expected], 1e-12)
    cases.close([dj.rnea(MODEL, q, v, a, f_ext)], [before], 0.0)


def test_threads():
    jobs = [
        (jax.jit(gradient_of("solo12", function)), arrays_of("solo12", function, (size,), seed))
        for seed, function in enumerate(["rnea", "aba", "crba", "centroidal_momentum"])
        for size in (1, 16, 65)
    ]
    expected = [f(*arrays) for f, arrays in jobs]
    with ThreadPoolExecutor(8) as pool:
        found = pool.map(lambda job: job[0](*job[1]), 20 * jobs)
        for one, other in zip(found, 20 * expected, strict=True):
            cases.close(one, other, 1e-12)


# ---------------------------------------------------------------------------- bad input


@pytest.mark.parametrize("function", ["rnea", "aba", "crba", "center_of_mass"])
def test_nan_gives_nan(function):
    arrays = arrays_of("solo12", function, (3,))
    for array in arrays:
        array[1] = np.nan
    found = jax.jit(bound("solo12", function))(*arrays)
    assert all(np.isnan(each[1]).any() for each in found)
    for each in (*found, *gradient_of("solo12", function)(*arrays)):
        assert np.isfinite(each[np.array([0, 2])]).all()


def test_third_derivatives_are_an_error():
    q, v, a, _ = arrays_of("arm7", "rnea")
    f = lambda q: jnp.sum(dj.rnea(MODEL, q, v, a) ** 2)  # noqa: E731
    with pytest.raises((NotImplementedError, TypeError, ValueError)):
        jax.grad(lambda q: jnp.sum(jax.grad(lambda q: jnp.sum(jax.grad(f)(q) ** 2))(q) ** 2))(q)


ONES = np.ones(7)
BAD = {
    "short": ((np.ones(6), ONES, ONES), ValueError, r"q: .*7.*6"),
    "no axis": ((1.0, ONES, ONES), (TypeError, ValueError), r"q: "),
    "axes": ((np.ones((2, 7)), np.ones((3, 7)), ONES), ValueError, r"(broadcast|leading)"),
    "text": (("q", ONES, ONES), (TypeError, ValueError), r"q: "),
    "complex": ((np.ones(7, complex), ONES, ONES), TypeError, r"q: .*complex"),
    "none": ((None, ONES, ONES), TypeError, r"q: .*None"),
}


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("case", BAD)
def test_bad_arguments(case, compiled):
    arguments, kind, message = BAD[case]
    f = lambda *x: dj.rnea(MODEL, *x)  # noqa: E731
    if compiled and case in ("text", "none"):
        pytest.skip("is refused by jit")
    with pytest.raises(kind, match=re.compile(message, re.IGNORECASE | re.DOTALL)):
        (jax.jit(f) if compiled else f)(*arguments)


def test_bad_parameters_and_names():
    with pytest.raises(ValueError, match=r"armature: .*7"):
        dj.rnea(MODEL, ONES, ONES, ONES, armature=np.ones(6))
    with pytest.raises(TypeError, match="armatur"):
        dj.rnea(MODEL, ONES, ONES, ONES, armatur=ONES)
    with pytest.raises(ValueError, match="tol.*tool"):
        dj.frame_placement(MODEL, ONES, "tol")
    with pytest.raises(TypeError, match="[Mm]odel"):
        dj.rnea("arm7.urdf", ONES, ONES, ONES)


def test_a_debugger_without_jit():
    q = jnp.ones(MODEL.nq)
    with jax.disable_jit():
        found = jax.grad(lambda x: dj.crba(MODEL, x)[0, 0])(q)
    cases.close([found], [jax.grad(lambda x: dj.crba(MODEL, x)[0, 0])(q)], 1e-12)


@pytest.mark.parametrize("q", [[0] * 7, np.zeros(7, int), [0.0] * 7])
def test_integers_become_floats(q):
    assert dj.crba(MODEL, q).dtype == jnp.float64


def test_a_data_is_rejected():
    with pytest.raises(TypeError, match=r"expected no Data: call crba\(model, q\)"):
        dj.crba(MODEL, dyn_ros.Data(MODEL), jnp.zeros(7))
