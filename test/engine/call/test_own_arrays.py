# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Results in arrays of the caller, ``out``."""

import inspect
import re

import numpy as np
import pytest
from engine.call.test_small_batches import FUNCTIONS, arrays_of, batch_arguments

import dyn_ros
import peer
from dyn_ros.engine.call import batch
from dyn_ros.engine.call.algorithm import Algorithm
from dyn_ros.engine.machine_code.declare import JIT

pytestmark = pytest.mark.skipif(not JIT, reason="a batch is a loop without a compiler")

SIZES = 0, 1, 2, 3, 7, 8, 9, 63, 64, 65
OBJECTS = {  # functions whose results are no arrays, and the results that are
    "contact_dynamics": ("ddq", "lambda_c"),
    "impulse_dynamics": ("v_after", "impulse_c"),
    "contact_inverse_dynamics": ("tau", "lambda_c"),
    "contact_forces": ("lambda_c",),
    "constrained_dynamics": (),
    "vereshchagin": (),
}
NAMES = [
    name
    for name in FUNCTIONS
    if name not in OBJECTS and "out" in inspect.signature(getattr(dyn_ros, name)).parameters
]


@pytest.fixture(scope="module")
def panda():
    return peer.new_pair("panda")


def new_arrays(expected):
    """Return arrays of NaN, as an argument ``out``."""
    arrays = [np.full(array.shape, np.nan) for array in expected]
    return arrays[0] if len(arrays) == 1 else arrays


def test_all_functions_of_batches_have_the_argument():
    without = set(FUNCTIONS) - {*NAMES, *OBJECTS}
    assert without == {"momentum_observer_step"}
    assert "out" not in inspect.signature(dyn_ros.normal_equations).parameters  # sums


@peer.robots(("every_joint", "panda", "solo12", "ball_joints"))
def test_arrays_have_the_results_of_a_call_without_them(robot, root_joint):
    """In the first call, which Python handles, and in the second one, by the extension."""
    pair = peer.new_pair(robot, root_joint)
    data = dyn_ros.Data(pair.model)
    for name in NAMES:
        call = getattr(dyn_ros, name)
        for size in SIZES:
            given = batch_arguments(pair, name, max(size, 1))
            if size == 0:
                given |= {key: given[key][:0] for key in ("q", "v", "a", "tau") if key in given}
            expected = arrays_of(call(pair.model, data, **given))
            for each in (dyn_ros.Data(pair.model), data):
                out = new_arrays(expected)
                found = arrays_of(call(pair.model, each, **given, out=out))
                for array, own, right in zip(
                    found,
                    arrays_of(tuple(out)) if isinstance(out, list) else [out],
                    expected,
                    strict=True,
                ):
                    assert array is own, (name, size)
                    assert np.array_equal(array, right), (name, size)


@pytest.mark.parametrize("name", NAMES)
def test_python_does_not_handle_the_second_call(panda, name, monkeypatch):
    data, call = dyn_ros.Data(panda.model), getattr(dyn_ros, name)
    given = batch_arguments(panda, name, 9)
    out = new_arrays(arrays_of(call(panda.model, data, **given)))

    def handle(algorithm, *_):
        raise AssertionError(f"{algorithm.name} was called by Python")

    monkeypatch.setattr(Algorithm, "validate_arguments", handle)
    call(panda.model, data, **given, out=out)
    assert not any(np.isnan(array).any() for array in arrays_of(tuple(out)))


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("uncached", [False, True])
@pytest.mark.parametrize("shift", range(9))
def test_large_results_at_any_address(panda, threads, uncached, shift, monkeypatch):
    """Nothing but the array is written."""
    if uncached:
        monkeypatch.setattr(batch, "_MIN_UNCACHED_SIZE", 1)
    size = 4001
    q, v, a, _ = panda.states(size)
    for function, arguments in (
        (dyn_ros.rnea, (q, v, a)),
        (dyn_ros.crba, (q,)),
        (dyn_ros.joint_jacobians, (q,)),
        (dyn_ros.joint_torque_regressor, (q, v, a)),
        (dyn_ros.kinetic_energy, (q, v)),
    ):
        expected = function(panda.model, panda.data, *arguments)
        memory = np.full(expected.size + 100, -7.0)
        out = memory[shift : shift + expected.size].reshape(expected.shape)
        out[...] = np.nan
        found = function(panda.model, panda.data, *arguments, out=out, threads=threads)
        assert found is out and np.array_equal(out, expected)
        assert (memory[:shift] == -7.0).all() and (memory[shift + expected.size :] == -7.0).all()


@pytest.mark.parametrize("out", [[None, "array"], ["array"], ("array", None)])
def test_results_without_an_array_are_new(panda, out):
    q, v, _, _ = panda.states(9)
    p, rate = dyn_ros.momentum_terms(panda.model, panda.data, q, v)
    for _ in range(3):
        own = [np.empty_like(p) if item else None for item in out]
        found = dyn_ros.momentum_terms(panda.model, panda.data, q, v, out=type(out)(own))
        assert np.array_equal(found[0], p) and np.array_equal(found[1], rate)
        assert [item is None or item is array for item, array in zip(own, found)] == [True] * len(
            own
        )
        assert not np.shares_memory(*found)


@pytest.mark.parametrize("name", [name for name, results in OBJECTS.items() if results])
def test_functions_that_return_objects(name):
    pair = peer.new_pair("solo12", "floating")
    data, call = dyn_ros.Data(pair.model), getattr(dyn_ros, name)
    given = batch_arguments(pair, name, 9)
    expected = arrays_of(call(pair.model, data, **given))
    for _ in range(2):
        out = new_arrays(expected)
        found = arrays_of(call(pair.model, data, **given, out=out))
        for array, own, right in zip(found, [out] if len(expected) == 1 else out, expected):
            assert array is own and np.array_equal(own, right)


def test_no_contacts(panda):
    q, v, _, tau = panda.states(9)
    out = np.empty_like(tau), np.empty((9, 0))
    ddq, _ = dyn_ros.contact_dynamics(panda.model, panda.data, q, v, tau, [], out=out)
    assert ddq is out[0]
    assert np.array_equal(ddq, dyn_ros.aba(panda.model, panda.data, q, v, tau))


def test_terms_and_motions_in_the_order_of_only(panda):
    q, v, _, _ = panda.states(65)
    every = dyn_ros.all_terms(panda.model, panda.data, q, v)
    out = [np.empty_like(array) for array in (every.nle, every.M)]
    for _ in range(2):
        nle, M = dyn_ros.all_terms(panda.model, panda.data, q, v, only=("nle", "M"), out=out)
        assert nle is out[0] and M is out[1]
        assert np.array_equal(nle, every.nle) and np.array_equal(M, every.M)
    oMi = np.empty((65, panda.model.njoints, 4, 4))
    found = dyn_ros.forward_kinematics(panda.model, panda.data, q, only=("oMi",), out=oMi)
    expected = dyn_ros.forward_kinematics(panda.model, panda.data, q, only=("oMi",))
    assert found is oMi and np.array_equal(oMi, expected)


def read_only(array):
    array.flags.writeable = False
    return array


EXPECTED = "out: M: expected a writable, C-contiguous array of float64, shape (9, 8, 8), got "


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (lambda x: x.tolist(), "out: expected arrays for M, in this order, got 9"),
        (lambda x: "text", EXPECTED + "a str"),
        (lambda x: (x, x), "out: expected arrays for M, in this order, got 2"),
        (lambda x: x.astype(np.float32), EXPECTED + "dtype <f4"),
        (lambda x: x.astype(">f8"), EXPECTED + "dtype >f8"),
        (lambda x: x[:8], EXPECTED + "shape (8, 8, 8)"),
        (lambda x: x[0], EXPECTED + "shape (8, 8)"),
        (lambda x: x.reshape(9, 64), EXPECTED + "shape (9, 64)"),
        (lambda x: x.swapaxes(1, 2), EXPECTED + "one with strides (512, 8, 64)"),
        (np.asfortranarray, EXPECTED + "one with strides (8, 72, 576)"),
        (read_only, EXPECTED + "a read-only one"),
        (lambda x: np.ma.masked_array(x), EXPECTED + "a MaskedArray; pass a view"),
        (
            lambda x: np.empty(x.nbytes + 1, np.uint8)[1:].view(np.float64).reshape(x.shape),
            EXPECTED + "one with strides (512, 64, 8)",
        ),
    ],
)
def test_wrong_arrays_are_rejected(panda, change, text):
    q = panda.states(9)[0]
    expected = dyn_ros.crba(panda.model, panda.data, q)
    assert expected.shape == (9, 8, 8)
    for _ in range(2):
        with pytest.raises(ValueError, match=re.escape(text)):
            dyn_ros.crba(panda.model, panda.data, q, out=change(expected.copy()))
        assert np.array_equal(dyn_ros.crba(panda.model, panda.data, q), expected)


def test_arrays_that_share_memory_are_rejected(panda):
    q, v, a, _ = panda.states(9)
    tau = dyn_ros.rnea(panda.model, panda.data, q, v, a)
    for wrong, text in ((v, "v"), (a, "a")):
        before = wrong.copy()
        with pytest.raises(ValueError, match=f"out: tau shares memory with {text}; pass"):
            dyn_ros.rnea(panda.model, panda.data, q, v, a, out=wrong)
        assert np.array_equal(wrong, before)
    with pytest.raises(ValueError, match="shares memory with out: "):
        dyn_ros.momentum_terms(panda.model, panda.data, q, v, out=(tau, tau))
    memory = np.zeros((10, *v.shape[1:]))
    with pytest.raises(ValueError, match="shares memory with out: "):
        dyn_ros.momentum_terms(panda.model, panda.data, q, v, out=(memory[1:], memory[:-1]))


def test_a_single_state_has_no_array(panda):
    q, v, a, _ = panda.state(1)
    for _ in range(2):
        with pytest.raises(ValueError, match="out: only for batches"):
            dyn_ros.rnea(panda.model, panda.data, q, v, a, out=np.empty(panda.model.nv))
        dyn_ros.rnea(panda.model, panda.data, q, v, a)


def test_a_file(panda, tmp_path):
    q, v, a, _ = panda.states(65)
    out = np.memmap(tmp_path / "tau", np.float64, "w+", shape=a.shape)
    assert dyn_ros.rnea(panda.model, panda.data, q, v, a, out=out) is out
    assert np.array_equal(out, dyn_ros.rnea(panda.model, panda.data, q, v, a))


def test_invalid_numbers_are_found(panda):
    q, v, a, _ = panda.states(65)
    out = np.empty_like(a)
    for _ in range(2):
        a[64, 0] = np.nan
        with pytest.raises(ValueError, match=r"a: expected finite numbers, got nan in a\[64, 0\]"):
            dyn_ros.rnea(panda.model, panda.data, q, v, a, out=out)
        a[64, 0] = 0.0
        dyn_ros.rnea(panda.model, panda.data, q, v, a, out=out)
