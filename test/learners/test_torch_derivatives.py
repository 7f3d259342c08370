# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""`dyn_ros.torch`: values and derivatives, beside the engine, plain torch and differences."""

import functools

import pytest

torch = pytest.importorskip("torch", reason="no torch: run `make test`")

from learners import cases  # noqa: E402
from learners.cases import FUNCTIONS, functions, robots  # noqa: E402

import dyn_ros  # noqa: E402
import dyn_ros.torch as dt  # noqa: E402

torch.set_num_threads(1)
CHECKS = {"atol": 1e-5, "rtol": 1e-4, "fast_mode": True}


def check(actual, expected):
    cases.close(actual.value, expected.value, 1e-10)
    cases.close(actual.tangent, expected.tangent)
    cases.close(actual.gradient, expected.gradient)
    cases.close(actual.second, expected.second, 1e-8)


def check_forward_over_forward(f, arrays, function, expected):
    """Check the derivative along s of the derivative along t, for random weights w."""
    x, t, s = (
        tuple(torch.tensor(each) for each in part)
        for part in (
            arrays,
            cases.directions(function, arrays, 5),
            cases.directions(function, arrays, 7),
        )
    )

    def derivative(*x):
        return torch.func.jvp(lambda *y: tuple(f(*y)), x, t)[1]

    second = torch.func.jvp(derivative, x, s)[1]
    w = cases.directions(function, second, 6)
    found = [sum((a * torch.tensor(b)).sum() for a, b in zip(second, w, strict=True))]
    wanted = [sum((torch.tensor(a) * b).sum() for a, b in zip(expected.second, s))]
    cases.close(found, wanted, 1e-8)


@robots
@functions
def test_values_are_the_engines(robot, function):
    arrays, _ = cases.inputs(robot, function)
    found = cases.call(dt, robot, function, [torch.tensor(array) for array in arrays])
    assert all(each.dtype == torch.float64 and not each.requires_grad for each in found)
    cases.close(found, cases.engine(robot, function, arrays), 1e-12)


@robots
@functions
def test_derivatives(robot, function):
    arrays, expected = cases.expected(robot, function)
    check(
        cases.derivatives(lambda *x: cases.call(dt, robot, function, x), arrays, function), expected
    )


@robots
@functions
def test_forward_over_forward(robot, function):
    arrays, expected = cases.expected(robot, function)
    check_forward_over_forward(
        lambda *x: cases.call(dt, robot, function, x), arrays, function, expected
    )


@robots
@pytest.mark.parametrize("function", [name for name, f in FUNCTIONS.items() if f.parameters])
def test_derivatives_in_parameters(robot, function):
    arrays, expected = cases.expected(robot, function, True)
    split = cases.with_parameters(
        function, FUNCTIONS[function].parameters, cases.torch_placements(robot)
    )

    def f(*x):
        x, parameters = split(x)
        return cases.call(dt, robot, function, x, **parameters)

    check(cases.derivatives(f, arrays, function), expected)
    check_forward_over_forward(f, arrays, function, expected)


@robots
@functions
def test_finite_differences(robot, function):
    arrays, _ = cases.inputs(robot, function)
    x = [torch.tensor(array, requires_grad=True) for array in arrays]

    def f(*x):
        found = cases.call(dt, robot, function, x)
        return tuple(each / 100.0 for each in found)

    assert torch.autograd.gradcheck(f, x, check_forward_ad=True, **CHECKS)
    if function != "joint_friction":
        assert torch.autograd.gradgradcheck(f, x, **CHECKS)


@pytest.mark.parametrize("function", ["rnea", "aba", "crba", "contact_dynamics"])
def test_every_entry_by_finite_differences(function):
    """Not only in random directions, and in all parameters."""
    arrays, names = cases.inputs("arm7", function, True)
    x = [torch.tensor(array, requires_grad=True) for array in arrays]
    split = cases.with_parameters(function, names, cases.torch_placements("arm7"))

    def f(*x):
        x, parameters = split(x)
        found = cases.call(dt, "arm7", function, x, **parameters)
        return tuple(each / 100.0 for each in found)

    checks = {"atol": 1e-5, "rtol": 1e-3}
    assert torch.autograd.gradcheck(f, x, check_forward_ad=True, **checks)


@robots
@functions
def test_gradients_in_the_tangent_space(robot, function):
    """The first nv numbers are those along the velocities; the others are zero."""
    from learners import plain

    if "q" not in FUNCTIONS[function].inputs or function == "integrate":
        pytest.skip("has no gradient in q")
    model = cases.model_of(robot)
    arrays, _ = cases.inputs(robot, function)
    q, *rest = (torch.tensor(array) for array in arrays)
    moved = torch.zeros(model.nv, dtype=torch.float64, requires_grad=True)
    expected = cases.call(plain, robot, function, [plain.stepped(model, q, moved), *rest])
    w = [torch.tensor(each) for each in cases.directions(function, expected)]
    total = sum((a * b).sum() for a, b in zip(expected, w, strict=True))
    (wanted,) = torch.autograd.grad(total, moved)
    q.requires_grad_()
    found = cases.call(dt, robot, function, [q, *rest], tangent=True)
    total = sum((a * b).sum() for a, b in zip(found, w, strict=True))
    (gradient,) = torch.autograd.grad(total, q)
    assert gradient.shape == (model.nq,) and not gradient[model.nv :].any()
    cases.close([gradient[: model.nv]], [wanted])


@pytest.mark.parametrize("name", ["rnea", "aba"])
@pytest.mark.parametrize("robot", ["arm7", "solo12", "every_joint"])
def test_jacobians_are_those_of_numpy(robot, name):
    model = cases.model_of(robot)
    given = cases.state(robot, 3)
    given["q"] = model.normalize(given["q"])
    x = [given[key] for key in FUNCTIONS[name].inputs[:3]]
    expected = getattr(dyn_ros, f"{name}_derivatives")(model, dyn_ros.Data(model), *x)
    f = functools.partial(getattr(dt, name), model, tangent=True)
    found = torch.func.jacrev(f, argnums=(0, 1, 2))(*map(torch.tensor, x))
    cases.close([found[0][:, : model.nv], *found[1:]], expected, 1e-10)


def test_forward_mode_is_the_transpose_of_reverse_mode():
    given = cases.state("solo12", 3)
    x = [torch.tensor(given[key]) for key in FUNCTIONS["aba"].inputs[:3]]
    f = functools.partial(dt.aba, cases.model_of("solo12"))
    forward = torch.func.jacfwd(f, argnums=(0, 1, 2))(*x)
    cases.close(forward, torch.func.jacrev(f, argnums=(0, 1, 2))(*x), 1e-10)


@pytest.mark.parametrize("name", ["rnea", "aba"])
def test_second_derivatives_are_those_of_numpy(name):
    model, given = cases.model_of("arm7"), cases.state("arm7", 3)
    x = [given[key] for key in FUNCTIONS[name].inputs[:3]]
    expected = getattr(dyn_ros, f"{name}_second_order_derivatives")(model, dyn_ros.Data(model), *x)
    found = torch.func.hessian(lambda *y: getattr(dt, name)(model, *y), argnums=(0, 1, 2))(
        *map(torch.tensor, x)
    )
    cases.close([found[0][0], found[1][1], found[0][1]], expected[:3])
