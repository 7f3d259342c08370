# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""`dyn_ros.torch` as its users call it: batches, transforms, compilation, threads, errors."""

import copy
import gc
import re
import weakref
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="no torch: run `make test`")

from learners import cases  # noqa: E402
from learners.cases import FUNCTIONS, functions  # noqa: E402

import dyn_ros  # noqa: E402
import dyn_ros.torch as dt  # noqa: E402

torch.set_num_threads(1)
SIZES = 0, 1, 2, 3, 7, 8, 9, 63, 64, 65
MODEL = cases.model_of("arm7")


def tensors(robot, function, lead=(), seed=1, dtype=torch.float64):
    given = cases.state(robot, seed, lead)
    return [torch.tensor(given[name], dtype=dtype) for name in FUNCTIONS[function].inputs]


def call(robot, function, arrays, **options):
    return cases.call(dt, robot, function, arrays, **options)


def gradients(robot, function, arrays, **options):
    """The gradients of a weighted sum of the results."""
    arrays = [array.detach().requires_grad_() for array in arrays]
    results = call(robot, function, arrays, **options)
    total = sum((each * torch.cos(each.detach() / 10.0)).sum() for each in results)
    return torch.autograd.grad(total, arrays)


# ---------------------------------------------------------------------------- shapes


@functions
@pytest.mark.parametrize("robot", ["panda", "solo12"])
def test_batches_are_loops(robot, function):
    arrays = tensors(robot, function, (max(SIZES),))
    rows = [[array[k] for array in arrays] for k in range(max(SIZES))]
    values = [torch.stack(each) for each in zip(*(call(robot, function, row) for row in rows))]
    slopes = [torch.stack(each) for each in zip(*(gradients(robot, function, row) for row in rows))]
    for size in SIZES:
        batch = [array[:size] for array in arrays]
        cases.close(call(robot, function, batch), [each[:size] for each in values], 1e-12)
        cases.close(gradients(robot, function, batch), [each[:size] for each in slopes], 1e-12)


@functions
def test_leading_axes_broadcast(function):
    lead = (2, 3)
    whole = tensors("solo12", function, lead)
    shapes = [(3,), (2, 1), (), (2, 3)]
    arrays = []
    for array, shape in zip(whole, shapes):
        place = tuple(0 if size == 1 else slice(None) for size in lead[len(lead) - len(shape) :])
        cut = array[(0,) * (len(lead) - len(shape))][place] if len(shape) < 2 else array[:, :1]
        arrays.append(array if shape == lead else cut)
    expanded = []
    lead = np.broadcast_shapes(*(shape for shape, _ in zip(shapes, whole)))
    for name, array in zip(FUNCTIONS[function].inputs, arrays):
        own = array.shape[array.ndim - cases.AXES.get(name, 1) :]
        expanded.append(array.expand(*lead, *own))
    found = call("solo12", function, arrays)
    cases.close(found, call("solo12", function, expanded), 1e-12)
    slopes = gradients("solo12", function, arrays)
    for slope, array, whole in zip(slopes, arrays, gradients("solo12", function, expanded)):
        cases.close([slope], [whole.sum_to_size(array.shape)], 1e-11)


def test_strided_and_transposed_tensors():
    q, v, a, f_ext = tensors("solo12", "rnea", (6,))
    expected = dt.rnea(cases.model_of("solo12"), q, v, a, f_ext)
    q, v = (torch.stack([x, x], -1)[..., 0] for x in (q, v))
    a = a.T.contiguous().T
    assert not (q.is_contiguous() or v.is_contiguous() or a.is_contiguous())
    cases.close([dt.rnea(cases.model_of("solo12"), q, v, a, f_ext)], [expected], 1e-12)


def test_parameters_have_leading_axes():
    q, v, a, _ = tensors("arm7", "rnea", (5,))
    armature = torch.rand(5, MODEL.nv, dtype=torch.float64, requires_grad=True)
    gravity = torch.tensor(MODEL.gravity, requires_grad=True)
    tau = dt.rnea(MODEL, q, v, a, armature=armature, gravity=gravity)
    rows = [
        dt.rnea(MODEL, q[k], v[k], a[k], armature=armature[k], gravity=gravity) for k in range(5)
    ]
    cases.close([tau.detach()], [torch.stack(rows).detach()], 1e-12)
    tau.sum().backward()
    cases.close([armature.grad], [a], 1e-12)
    assert gravity.grad.shape == (3,)
    theta = torch.tensor(MODEL.inertial_parameters).expand(5, 1, MODEL.njoints, 10)
    tau = dt.rnea(MODEL, q, v, a, inertial_parameters=theta)
    assert tau.shape == (5, 5, MODEL.nv)


def test_changes_of_a_model_are_seen():
    model = copy.copy(MODEL)
    q, v, a, _ = tensors("arm7", "rnea")
    before = dt.rnea(model, q, v, a)
    model.gravity = (0.0, 0.0, -1.0)
    model.inertial_parameters = 2.0 * model.inertial_parameters
    data = dyn_ros.Data(model)
    expected = dyn_ros.rnea(model, data, *(x.numpy() for x in (q, v, a)))
    after = dt.rnea(model, q, v, a)
    cases.close([after], [expected], 1e-12)
    assert abs(after - before).max() > 0.1
    cases.close([dt.rnea(MODEL, q, v, a)], [before], 0.0)


def test_models_are_not_kept():
    model = copy.copy(MODEL)
    q, v, a, _ = (x.requires_grad_() for x in tensors("arm7", "rnea"))
    dt.rnea(model, q, v, a).sum().backward()
    reference = weakref.ref(model)
    del model
    gc.collect()
    assert reference() is None


# ---------------------------------------------------------------------------- float32


@functions
@pytest.mark.parametrize("robot", ["arm7", "solo12", "talos"])
def test_float32(robot, function):
    single = tensors(robot, function, (9,), dtype=torch.float32)
    double = [array.double() for array in single]
    found = call(robot, function, single)
    assert all(each.dtype == torch.float32 for each in found)
    cases.close(found, call(robot, function, double), 1e-4)
    slopes = gradients(robot, function, single)
    assert all(each.dtype == torch.float32 for each in slopes)
    cases.close(slopes, gradients(robot, function, double), 1e-4)


# ---------------------------------------------------------------------------- transforms


@functions
@pytest.mark.parametrize("robot", ["solo12", "every_joint"])
def test_vmap_over_any_axis(robot, function):
    arrays = tensors(robot, function, (4,))

    def f(*x):
        return tuple(call(robot, function, x))

    expected = call(robot, function, arrays)
    cases.close(torch.func.vmap(f)(*arrays), expected, 1e-12)
    for axis in (1, -1):
        moved = [array.movedim(0, axis) for array in arrays]
        cases.close(torch.func.vmap(f, in_dims=axis)(*moved), expected, 1e-12)
    some = [axis if k else None for k, axis in enumerate([0] * len(arrays))]
    if any(axis == 0 for axis in some):
        mixed = [arrays[0][0], *arrays[1:]]
        expected = call(robot, function, [arrays[0][:1].expand_as(arrays[0]), *arrays[1:]])
        cases.close(torch.func.vmap(f, in_dims=tuple(some))(*mixed), expected, 1e-12)


@pytest.mark.parametrize("function", ["rnea", "aba", "crba", "centroidal_momentum", "integrate"])
def test_transforms_of_transforms(function):
    arrays = tensors("solo12", function, (3,))

    def loss(*x):
        return sum(
            (each * torch.cos(each.detach() / 10.0)).sum() for each in call("solo12", function, x)
        )

    argnums = tuple(range(len(arrays)))
    gradient = torch.func.grad(loss, argnums=argnums)
    expected = gradients("solo12", function, arrays)
    cases.close(torch.func.vmap(gradient)(*arrays), expected, 1e-11)
    first = [array[0] for array in arrays]
    hessian = torch.func.hessian(loss)(*first)
    reverse = torch.func.jacrev(torch.func.jacrev(loss))(*first)
    cases.close([hessian], [reverse], 1e-8)
    cases.close([hessian], [hessian.T], 1e-8)
    each = torch.func.vmap(torch.func.hessian(loss))(*arrays)
    cases.close([each[0]], [hessian], 1e-9)
    functional = torch.autograd.functional.hessian(lambda q: loss(q, *first[1:]), first[0])
    cases.close([functional], [hessian], 1e-8)


def compiled_gradients_agree(f, arrays):
    torch.compiler.reset()
    arrays = [array.requires_grad_() for array in arrays]

    def loss(*x):
        return sum((torch.sin(each) ** 2).sum() for each in f(*x))

    compiled = torch.compile(loss, fullgraph=True, backend="aot_eager")
    value, expected = compiled(*arrays), loss(*arrays)
    cases.close([value.detach()], [expected.detach()])
    cases.close(torch.autograd.grad(value, arrays), torch.autograd.grad(expected, arrays))


@functions
def test_compiles_without_graph_breaks(function):
    f = cases.bound(dt, "solo12", function)
    compiled_gradients_agree(f, tensors("solo12", function, (5,)))


@pytest.mark.parametrize("function", ["rnea", "aba", "crba", "integrate"])
def test_compiles_for_one_state_and_in_the_tangent_space(function):
    f = cases.bound(dt, "solo12", function, tangent=True)
    compiled_gradients_agree(f, tensors("solo12", function))


def test_compiles_to_machine_code():
    q, v, tau, _ = (x.requires_grad_() for x in tensors("arm7", "aba", (8,)))

    @torch.compile(fullgraph=True)
    def loss(q, v, tau):
        for _ in range(3):
            v = v + 0.01 * dt.aba(MODEL, torch.sin(q), v, tau)
            q = dt.integrate(MODEL, q, 0.01 * v)
        return (q * q).sum()

    found = torch.autograd.grad(loss(q, v, tau), (q, v, tau))
    expected = torch.autograd.grad(loss._torchdynamo_orig_callable(q, v, tau), (q, v, tau))
    cases.close(found, expected)


def test_compiles_with_parameters():
    torch.compiler.reset()
    q, v, a, _ = tensors("arm7", "rnea", (4,))
    parameters = {
        "inertial_parameters": torch.tensor(MODEL.inertial_parameters, requires_grad=True),
        "gravity": torch.tensor(MODEL.gravity, requires_grad=True),
    }

    def loss(parameters):
        return (dt.rnea(MODEL, q, v, a, **parameters) ** 2).sum()

    compiled = torch.compile(loss, fullgraph=True, backend="aot_eager")
    found = torch.autograd.grad(compiled(parameters), list(parameters.values()))
    cases.close(found, torch.autograd.grad(loss(parameters), list(parameters.values())))


# ---------------------------------------------------------------------------- autograd


def test_only_what_is_asked_for_is_differentiated():
    q, v, a, f_ext = tensors("solo12", "rnea", (3,))
    model = cases.model_of("solo12")
    a.requires_grad_()
    tau = dt.rnea(model, q, v, a, f_ext)
    assert tau.requires_grad
    (found,) = torch.autograd.grad(tau.sum(), a)
    expected = dyn_ros.crba(model, dyn_ros.Data(model), model.normalize(q.numpy())).sum(-2)
    cases.close([found], [expected])
    with torch.no_grad():
        assert not dt.rnea(model, q, v, a, f_ext).requires_grad
    with torch.inference_mode():
        assert dt.rnea(model, q, v, a).is_inference()


def test_third_derivatives_are_an_error():
    q, v, a, _ = (x.requires_grad_() for x in tensors("arm7", "rnea"))
    first = torch.autograd.grad(dt.rnea(MODEL, q, v, a).sum(), v, create_graph=True)[0]
    second = torch.autograd.grad((first**2).sum(), v, create_graph=True)[0]
    with pytest.raises((RuntimeError, NotImplementedError)):
        torch.autograd.grad((second**2).sum(), q)


def test_results_are_not_overwritten():
    arrays = tensors("arm7", "rnea")
    first = dt.rnea(MODEL, *arrays)
    copied = first.clone()
    dt.rnea(MODEL, *tensors("arm7", "rnea", seed=2))
    assert torch.equal(first, copied)
    first[0] = 7.0  # it belongs to the caller
    cases.close([dt.rnea(MODEL, *arrays)], [copied], 0.0)


def test_threads():
    """Several call the same functions of the same model at once, forward and backward."""
    jobs = [
        (function, tensors("solo12", function, (size,), seed))
        for seed, function in enumerate(["rnea", "aba", "crba", "centroidal_momentum"] * 4)
        for size in (1, 16, 65)
    ]
    expected = [gradients("solo12", *job) for job in jobs]
    with ThreadPoolExecutor(8) as pool:
        for _ in range(5):
            found = pool.map(lambda job: gradients("solo12", *job), jobs)
            for one, other in zip(found, expected, strict=True):
                cases.close(one, other, 1e-12)


# ---------------------------------------------------------------------------- bad input


@functions
def test_nan_gives_nan(function):
    arrays = tensors("solo12", function, (3,))
    for array in arrays:
        array[1] = torch.nan
    found = call("solo12", function, arrays)
    slopes = gradients("solo12", function, arrays)
    assert all(each[1].isnan().any() for each in found)
    for each in (*found, *slopes):
        assert each[[0, 2]].isfinite().all()
    if function not in ("joint_friction", "integrate"):
        assert slopes[0][1].isnan().any()


def test_other_arrays_and_integers_are_converted():
    q = np.linspace(0.1, 0.7, 7)
    expected = dyn_ros.rnea(MODEL, dyn_ros.Data(MODEL), q, np.ones(7), np.zeros(7))
    cases.close([dt.rnea(MODEL, q, torch.ones(7, dtype=torch.int64), [0.0] * 7)], [expected], 1e-12)


ONES = torch.ones(7, dtype=torch.float64)
BAD = {
    "short": ((torch.ones(6),) + (ONES,) * 2, ValueError, r"q: .*7.*6"),
    "no axis": ((torch.tensor(1.0),) + (ONES,) * 2, ValueError, r"q: "),
    "axes": ((torch.ones(2, 7), torch.ones(3, 7), ONES), ValueError, r"(broadcast|leading)"),
    "complex": ((torch.ones(7, dtype=torch.complex64), ONES, ONES), TypeError, r"q: .*complex64"),
    "text": (("q", ONES, ONES), TypeError, r"q: .*str"),
    "none": ((None, ONES, ONES), TypeError, r"q: .*None"),
    "device": ((torch.ones(7, device="meta"), ONES, ONES), ValueError, r"q: .*meta.*cpu"),
    "sparse": ((torch.ones(7).to_sparse(), ONES, ONES), (TypeError, ValueError), r"q: .*sparse"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_arguments(case):
    arguments, kind, message = BAD[case]
    with pytest.raises(kind, match=re.compile(message, re.IGNORECASE | re.DOTALL)):
        dt.rnea(MODEL, *arguments)


def test_bad_parameters_and_names():
    with pytest.raises(ValueError, match=r"armature: .*7"):
        dt.rnea(MODEL, ONES, ONES, ONES, armature=torch.ones(6, dtype=torch.float64))
    with pytest.raises(ValueError, match=r"inertial_parameters: "):
        dt.rnea(MODEL, ONES, ONES, ONES, inertial_parameters=torch.ones(7, 9))
    with pytest.raises(TypeError, match="armatur"):
        dt.rnea(MODEL, ONES, ONES, ONES, armatur=ONES)
    with pytest.raises(ValueError, match="tol.*tool"):
        dt.frame_placement(MODEL, ONES, "tol")
    with pytest.raises(TypeError, match="[Mm]odel"):
        dt.rnea("arm7.urdf", ONES, ONES, ONES)
    with pytest.raises(ValueError, match="reference_frame"):
        dt.frame_jacobian(MODEL, ONES, "tool", 7)


def test_a_quaternion_of_zeros_is_nan():
    model = cases.model_of("solo12")
    q, v, a, _ = tensors("solo12", "rnea")
    q[3:7] = 0.0
    assert dt.rnea(model, q, v, a).isnan().any()
