# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Batches with small results, which the extension runs without Python code."""

import gc
import inspect
import sys
import threading
import weakref

import numpy as np
import pytest
from engine.call.test_contract import arguments

import dyn_ros
import peer
from dyn_ros.engine.algorithms.all_terms import Terms
from dyn_ros.engine.call.algorithm import ALGORITHMS, Algorithm
from dyn_ros.engine.call.caller import MAX_PREPARED_CALLS
from dyn_ros.engine.call.workspace import MIN_POOLED_SIZE
from dyn_ros.engine.machine_code.declare import JIT

pytestmark = pytest.mark.skipif(not JIT, reason="there is no extension without a compiler")

SIZES = 1, 2, 3, 7, 8, 9, 63, 64, 65
FUNCTIONS = [
    name for name, algorithm in ALGORITHMS.items() if not any(f.summed for f in algorithm.results)
]


def arrays_of(result):
    """Return the arrays in the result of a function."""
    if isinstance(result, tuple):
        return [array for part in result for array in arrays_of(part)]
    return [result.lambda_c if isinstance(result, dyn_ros.ContactForces) else result]


def layout(array):
    """Return the strides within a state; those between states depend on padding."""
    axes = zip(array.shape[1:], array.strides[1:])
    return [stride for count, stride in axes if count > 1]


def batch_arguments(pair, name, size, f_ext=False):
    """Return arguments of a function: batches of states; the others are the same for all states."""
    given = arguments(pair, name, f_ext)
    states = dict(zip(("q", "v", "a", "tau"), pair.states(size)))
    return {
        key: states.get(key, np.array(value) if key in ("beta", "offset") else value)
        for key, value in given.items()
    }


@pytest.fixture
def without_python(monkeypatch):
    """Return a function after which calls that Python has to handle fail."""

    def handle(algorithm, *_):
        raise AssertionError(f"{algorithm.name} was called by Python")

    return lambda: monkeypatch.setattr(Algorithm, "validate_arguments", handle)


@pytest.mark.parametrize("f_ext", [False, True], ids=["free", "pushed"])
@peer.robots(("every_joint", "panda", "solo12", "ball_joints"))
def test_results_equal_those_of_python(robot, root_joint, f_ext):
    pair = peer.new_pair(robot, root_joint)
    data = dyn_ros.Data(pair.model)
    for name in FUNCTIONS:
        for size in SIZES:
            given = batch_arguments(pair, name, size, f_ext)
            by_python, by_extension = (
                arrays_of(getattr(dyn_ros, name)(pair.model, each, **given))
                for each in (dyn_ros.Data(pair.model), data)
            )
            for expected, found in zip(by_python, by_extension, strict=True):
                assert np.array_equal(found, expected), (name, size)
                assert found.flags.writeable and layout(found) == layout(expected), (name, size)


@peer.robots(("every_joint", "solo12"))
def test_few_states_have_the_results_of_single_states(robot, root_joint):
    """To the bit, in each thread; a tile of lanes rounds differently."""
    pair = peer.new_pair(robot, root_joint)
    data = dyn_ros.Data(pair.model)
    for name in FUNCTIONS:
        given = batch_arguments(pair, name, 1)
        state = {key: x[0] if key in ("q", "v", "a", "tau") else x for key, x in given.items()}
        call = getattr(dyn_ros, name)
        expected = [np.array(x) for x in arrays_of(call(pair.model, data, **state))]
        threads = inspect.signature(call).parameters.get("threads") is not None
        for _ in range(2):
            for options in ({}, {"threads": 2}) if threads else ({},):
                batch = arrays_of(call(pair.model, data, **given, **options))
                for found, right in zip(batch, expected, strict=True):
                    assert np.array_equal(found[0], right), name


def test_a_workspace_beyond_the_caches_is_of_a_single_state(monkeypatch):
    pair = peer.new_pair("solo12", "floating")
    q, v, a, _ = pair.states(11)
    monkeypatch.setattr("dyn_ros.engine.call.batch._MAX_LANES_SIZE", 0)
    data = dyn_ros.Data(pair.model)
    for threads in (1, 1, 2):
        tau = dyn_ros.rnea(pair.model, data, q, v, a, threads=threads)
        assert not data._batch_spaces
        for n in range(len(q)):
            assert np.array_equal(tau[n], dyn_ros.rnea(pair.model, data, q[n], v[n], a[n]))
    with pytest.raises(ValueError, match=r"a: expected finite numbers, got nan in a\[3, 0\]"):
        dyn_ros.rnea(pair.model, data, q, v, np.where(np.arange(11)[:, None] == 3, np.nan, a))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_python_does_not_handle_the_second_call(name, without_python):
    pair = peer.new_pair("panda")
    data = dyn_ros.Data(pair.model)
    call = getattr(dyn_ros, name)
    call(pair.model, data, **batch_arguments(pair, name, 2))
    without_python()
    for size in (1, 8, 11):
        given = batch_arguments(pair, name, size)
        largest = max(array.nbytes for array in arrays_of(call(pair.model, data, **given)))
        assert largest < MIN_POOLED_SIZE


@pytest.mark.parametrize("rows", [1, 2])
def test_another_number_of_constraints(rows):
    pair = peer.new_pair("panda")
    data = dyn_ros.Data(pair.model)
    q, v, _, tau = pair.states(5)
    tip = pair.model.frame_names[-1]
    for count in (rows, 3, 3, rows):
        alpha, beta = np.eye(6)[:, :count].copy(), np.ones(count)
        call = [dyn_ros.vereshchagin, pair.model, q, v, alpha, beta, tip]
        expected, found = (
            arrays_of(call[0](call[1], each, *call[2:], ff_torques=tau))
            for each in (dyn_ros.Data(pair.model), data)
        )
        for one, other in zip(found, expected, strict=True):
            assert np.array_equal(one, other)


def test_the_model_may_change():
    pair = peer.new_pair("panda")
    model, data = pair.model, dyn_ros.Data(pair.model)
    q, v, a, _ = pair.states(5)

    def assert_equal():
        expected = dyn_ros.rnea(model, dyn_ros.Data(model), q, v, a)
        assert np.array_equal(dyn_ros.rnea(model, data, q, v, a), expected)
        return expected

    before = assert_equal()
    model.gravity = [1.0, 2.0, 3.0]
    assert np.abs(assert_equal() - before).max() > 0.1
    before = assert_equal()
    model.set_payload("load", model.frame_names[-1], 2.0, [0.1, 0.0, 0.0])
    assert np.abs(assert_equal() - before).max() > 0.1
    before = assert_equal()
    model.armature = np.full(model.nv, 0.5)
    assert np.abs(assert_equal() - before).max() > 0.1


@pytest.mark.parametrize(
    "convert",
    [list, np.asfortranarray, lambda x: x.astype(np.float32), lambda x: np.repeat(x, 2, 0)[::2]],
    ids=["list", "Fortran", "float32", "strided"],
)
def test_arguments_that_python_converts(convert):
    pair = peer.new_pair("solo12", "floating")
    q, v, a, _ = pair.states(9)
    expected = dyn_ros.rnea(pair.model, pair.data, q, convert(v), a)
    tolerance = 1e-5 if convert(v).__class__ is np.ndarray and convert(v).itemsize == 4 else 1e-12
    peer.close(expected, dyn_ros.rnea(pair.model, pair.data, q, v, a), tolerance)


def test_rejected_calls_change_nothing():
    pair = peer.new_pair("panda")
    q, v, a, _ = pair.states(9)
    expected = dyn_ros.rnea(pair.model, pair.data, q, v, a)
    for wrong in (a[:8], a[:, :-1], a[None], np.full_like(a, np.nan), "text", None):
        with pytest.raises((TypeError, ValueError)):
            dyn_ros.rnea(pair.model, pair.data, q, v, wrong)
        assert np.array_equal(dyn_ros.rnea(pair.model, pair.data, q, v, a), expected)
    for threads in (0, -1, 1.5, "one", 1 << 70):
        with pytest.raises(ValueError, match="threads: expected a whole number"):
            dyn_ros.rnea(pair.model, pair.data, q, v, a, threads=threads)
            if threads == 1 << 70:  # as many as there are tiles
                raise ValueError("threads: expected a whole number")


def test_a_batch_without_states():
    pair = peer.new_pair("panda")
    q, v, a, _ = pair.states(3)
    for _ in range(3):
        dyn_ros.rnea(pair.model, pair.data, q, v, a)
        assert dyn_ros.rnea(pair.model, pair.data, q[:0], v[:0], a[:0]).shape == (0, pair.model.nv)


def test_references_are_balanced():
    pair = peer.new_pair("panda")
    q, v, a, _ = pair.states(9)
    dyn_ros.aba_derivatives(pair.model, pair.data, q, v, a)
    before = [sys.getrefcount(x) for x in (q, v, a, pair.model, pair.data)]
    for _ in range(100):
        results = dyn_ros.aba_derivatives(pair.model, pair.data, q, v, a)
        with pytest.raises(ValueError, match="finite"):
            dyn_ros.aba_derivatives(pair.model, pair.data, q, np.full_like(v, np.inf), a)
    assert [sys.getrefcount(x) for x in (q, v, a, pair.model, pair.data)] == before
    arrays, bases = [weakref.ref(array) for array in results], [array.base for array in results]
    del results
    gc.collect()
    assert [array() for array in arrays] == [None] * len(arrays)
    bases.append(object())
    assert len({sys.getrefcount(base) for base in bases}) == 1


def test_few_states_keep_the_results_of_earlier_calls():
    """The kernel for one state writes to their memory, and to its own for a single state."""
    pair = peer.new_pair("solo12", "floating")
    q, v, a, _ = pair.states(3)
    states = q, v, a
    expected = [
        [x.copy() for x in dyn_ros.forward_kinematics(pair.model, pair.data, *state)]
        for state in zip(*states)
    ]
    batches = [dyn_ros.forward_kinematics(pair.model, pair.data, *states) for _ in range(3)]
    single = dyn_ros.forward_kinematics(pair.model, pair.data, q[1], v[1], a[1])
    for n in range(3):
        for result, parts in enumerate(zip(*batches)):
            for part in parts:
                assert np.array_equal(part[n], expected[n][result])
    assert all(map(np.array_equal, single, expected[1]))


def test_memory_is_used_again_when_no_array_refers_to_it():
    pair = peer.new_pair("panda")
    q = pair.states(64)[0]
    dyn_ros.crba(pair.model, pair.data, q)
    first = dyn_ros.crba(pair.model, pair.data, q)
    address, kept, view = first.ctypes.data, first.copy(), first[3:]
    assert address % 64 == 0
    del first
    second = dyn_ros.crba(pair.model, pair.data, q[::-1].copy())
    assert second.ctypes.data != address
    assert np.array_equal(view, kept[3:]) and np.array_equal(second, kept[::-1])
    del view
    third = dyn_ros.crba(pair.model, pair.data, q)
    assert third.ctypes.data == address and np.array_equal(third, kept)


def test_memory_of_many_results_is_returned():
    pair = peer.new_pair("panda")
    q = pair.states(900)[0]
    dyn_ros.crba(pair.model, pair.data, q[:2])
    expected = dyn_ros.crba(pair.model, pair.data, q)
    results = [dyn_ros.crba(pair.model, pair.data, q[:size]) for size in range(40, 900, 7)]
    while results:
        found = results.pop(len(results) // 2)
        assert np.array_equal(found, expected[: len(found)])
        del found
        again = dyn_ros.crba(pair.model, pair.data, q[::3].copy())
        assert np.array_equal(again, expected[::3])


def test_many_choices_of_results_are_limited():
    pair = peer.new_pair("double_pendulum")
    data, (q, v, _, _) = dyn_ros.Data(pair.model), pair.states(3)
    names = Terms._fields
    for number in range(1, 300):
        only = [name for bit, name in enumerate(names) if number >> bit & 1]
        dyn_ros.all_terms(pair.model, data, q, v, only=only)
    assert 0 < sum(batch is not None for batch in data._prepared_batches) <= MAX_PREPARED_CALLS


def test_a_process_that_is_forked_during_a_long_call_can_call():
    pair = peer.new_pair("solo12", "floating")
    data = dyn_ros.Data(pair.model)
    q, v, _, _ = pair.states(2)
    expected = dyn_ros.kinetic_energy(pair.model, data, q, v)
    object.__setattr__(data, "_owner", -(1 << 40))  # of a thread that the parent had
    assert np.array_equal(dyn_ros.kinetic_energy(pair.model, data, q, v), expected)


def test_other_threads_run_during_long_calls():
    """And get an error if they call with the same Data."""
    pair = peer.new_pair("solo12", "floating")
    data = dyn_ros.Data(pair.model)
    q, v, _, _ = pair.states(MIN_POOLED_SIZE // 8 - 1)  # a number for each state
    seen, stopped, errors = [], threading.Event(), []

    def watch():
        while not stopped.is_set():
            if data._owner < -1:  # minus the identifier of the thread that runs
                seen.append(True)
                try:
                    dyn_ros.kinetic_energy(pair.model, data, q[:2], v[:2])
                except RuntimeError as error:
                    errors.append(str(error))

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        expected = dyn_ros.kinetic_energy(pair.model, data, q, v)
        for _ in range(1000):
            assert np.array_equal(dyn_ros.kinetic_energy(pair.model, data, q, v), expected)
            if errors:
                break
    finally:
        stopped.set()
        thread.join()
    assert seen and errors
    assert all("in use by a batch" in text or "belongs to thread" in text for text in errors)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("empty", range(3))
def test_an_empty_batch_beside_others_is_rejected(dtype, empty):
    pair = peer.new_pair("panda")
    states = [x.astype(dtype) for x in pair.states(3)[:3]]
    data = dyn_ros.Data(pair.model, dtype=dtype)
    dyn_ros.rnea(pair.model, data, *states)
    given = [x[:0] if n == empty else x for n, x in enumerate(states)]
    for function in (dyn_ros.rnea, dyn_ros.aba_derivatives):
        function(pair.model, data, *states)
        with pytest.raises(ValueError, match="same number of states in each"):
            function(pair.model, data, *given)
    state = [x[:0] if n == empty else x[0] for n, x in enumerate(states)]
    assert dyn_ros.rnea(pair.model, data, *state).shape == (0, pair.model.nv)


def test_arrays_for_results_that_change_during_the_call():
    """The call reads the list once, also while it runs without the GIL."""
    pair = peer.new_pair("solo12", "floating")
    states = pair.states(2)[:3]
    call = dyn_ros.aba_derivatives
    expected = [x.copy() for x in call(pair.model, dyn_ros.Data(pair.model), *states)]
    arrays = [np.empty_like(x) for x in expected]
    out, is_done = list(arrays), threading.Event()

    def change():
        while not is_done.is_set():
            out[:] = [None] * len(out)
            out[:] = arrays

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    changer = threading.Thread(target=change)
    changer.start()
    try:
        for _ in range(300):
            data = dyn_ros.Data(pair.model)
            call(pair.model, data, *states)
            found = call(pair.model, data, *states, out=out)
            assert all(map(np.allclose, found, expected))
    finally:
        is_done.set()
        changer.join()
        sys.setswitchinterval(before)
