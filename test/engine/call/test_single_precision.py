# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Data of float32: batches and single states in single precision."""

import copy
import pickle

import numpy as np
import pytest
from engine.call.test_contract import arguments
from engine.call.test_small_batches import arrays_of, batch_arguments

import dyn_ros
import peer
from dyn_ros.engine.algorithms.regressors.normal_equations import NFEATURES
from dyn_ros.engine.call.algorithm import ALGORITHMS, Algorithm
from dyn_ros.engine.call.batch_rows import SINGLE
from dyn_ros.engine.machine_code.declare import JIT

SIZES = 1, 15, 16, 17, 33
TOLERANCE = 1e-4  # relative to the largest number of a result
FUNCTIONS = [name for name, algorithm in ALGORITHMS.items() if name != "normal_equations"]


def single(pair):
    return dyn_ros.Data(pair.model, dtype=np.float32)


def with_type(given, dtype):
    """Return arguments whose arrays of floats, also as lists, have a type."""
    arrays = {name: np.asarray(value) for name, value in given.items()}
    return {
        name: arrays[name].astype(dtype) if arrays[name].dtype.kind == "f" else value
        for name, value in given.items()
    }


def largest(array):
    return np.abs(array).max(initial=0.0)


@pytest.mark.parametrize("name", FUNCTIONS)
@peer.robots(("panda", "solo12"))
def test_results_are_those_of_float64(robot, root_joint, name):
    pair = peer.new_pair(robot, root_joint)
    data = single(pair)
    for size in SIZES if JIT else (2,):
        given = with_type(batch_arguments(pair, name, size, True), np.float32)
        wide = with_type(given, np.float64)
        found = arrays_of(getattr(dyn_ros, name)(pair.model, data, **given))
        expected = arrays_of(getattr(dyn_ros, name)(pair.model, dyn_ros.Data(pair.model), **wide))
        for x, y in zip(found, expected, strict=True):
            assert x.shape == y.shape
            assert x.dtype == (np.float32 if y.dtype == float else y.dtype)  # ranks are integers
            in_double = ALGORITHMS[name].needs_double or not JIT
            tolerance = np.finfo(np.float32).eps if in_double else TOLERANCE
            assert largest(x - y) <= tolerance * max(largest(y), 1e-3), (name, size)


@peer.robots(("every_joint", "solo12"))
def test_a_single_state_is_a_row_of_a_batch_in_new_arrays(robot, root_joint):
    pair = peer.new_pair(robot, root_joint)
    data, (q, v, a, _) = single(pair), pair.states(3)
    rows = dyn_ros.rnea_derivatives(pair.model, data, q, v, a)
    found = dyn_ros.rnea_derivatives(pair.model, data, q[1], v[1], a[1])
    for x, y in zip(found, rows):
        assert np.array_equal(x, y[1]) and x.dtype == np.float32
    again = dyn_ros.rnea_derivatives(pair.model, data, q[1], v[1], a[1])
    assert not any(np.shares_memory(x, y) for x, y in zip(found, again))
    energy = dyn_ros.kinetic_energy(pair.model, data, q[0], v[0])
    assert isinstance(energy, float)


@pytest.mark.skipif(not JIT, reason="there are no lanes without a compiler")
def test_threads_and_stores_past_the_caches_change_nothing(monkeypatch):
    pair = peer.new_pair("solo12", "floating")
    q, v, a, _ = pair.states(200)
    names = ("rnea", "crba", "forward_kinematics", "rnea_derivatives")
    given = {"rnea": (q, v, a), "crba": (q,), "forward_kinematics": (q, v, a)}
    expected = {}
    for past_caches in (False, True):
        if past_caches:
            monkeypatch.setattr("dyn_ros.engine.call.batch._MIN_UNCACHED_SIZE", 1)
        for name in names:
            for threads in (1, 2):
                call, arguments = getattr(dyn_ros, name), given.get(name, (q, v, a))
                found = arrays_of(call(pair.model, single(pair), *arguments, threads=threads))
                for x, y in zip(found, expected.setdefault(name, found), strict=True):
                    assert np.array_equal(x, y), (name, threads, past_caches)


def test_results_go_to_arrays_of_float32():
    pair = peer.new_pair("panda", None)
    q, v, a, _ = pair.states(20)
    data, out = single(pair), np.empty((20, pair.model.nv), np.float32)
    tau = dyn_ros.rnea(pair.model, data, q, v, a, out=out)
    assert tau is out and np.array_equal(out, dyn_ros.rnea(pair.model, data, q, v, a))
    with pytest.raises(ValueError, match="out: tau: expected a writable, C-contiguous array of f"):
        dyn_ros.rnea(pair.model, data, q, v, a, out=np.empty((20, pair.model.nv)))


def test_sums_are_those_of_float64():
    pair = peer.new_pair("panda", None)
    given = [x.astype(np.float32) for x in pair.states(20)]
    features = np.ones((20, pair.model.nv, NFEATURES), np.float32)
    found, expected = (
        dyn_ros.normal_equations(pair.model, data, *given, features=features)
        for data in (single(pair), dyn_ros.Data(pair.model))
    )
    for x, y in zip(found, expected):
        assert x.dtype == np.float32 and np.array_equal(x, y.astype(np.float32))


@pytest.mark.parametrize("value", [np.nan, np.inf, 1e39], ids=str)
def test_numbers_that_float32_cannot_express_are_rejected(value):
    pair = peer.new_pair("panda", None)
    q, v, a, _ = pair.states(20)
    v[17, 2] = value
    found = "nan" if np.isnan(value) else "inf"
    with pytest.raises(ValueError, match=rf"v: expected finite numbers, got {found} in v\[17, 2\]"):
        dyn_ros.rnea(pair.model, single(pair), q, v, a)


def test_a_singular_matrix_is_found_in_float64():
    pair = peer.new_pair("panda", None)
    robot = copy.copy(pair.model)
    robot.inertial_parameters, robot.armature = 0.0 * robot.inertial_parameters, np.zeros(robot.nv)
    q = pair.states(20)[0]
    with pytest.raises(np.linalg.LinAlgError):
        dyn_ros.minverse(robot, dyn_ros.Data(robot, dtype=np.float32), q)


def test_copies_have_the_type():
    data = single(peer.new_pair("panda", None))
    for other in (copy.deepcopy(data), pickle.loads(pickle.dumps(data))):
        assert other._precision is SINGLE
    assert "dtype=float32" in repr(data)


@pytest.mark.parametrize("dtype", [np.float16, int, "double", "x", None, 3], ids=str)
def test_other_types_are_rejected(dtype):
    model = peer.new_pair("panda", None).model
    if dtype in ("double", None):  # as NumPy reads them
        assert dyn_ros.crba(model, dyn_ros.Data(model, dtype), np.zeros(model.nq)).dtype == float
        return
    with pytest.raises(ValueError, match="dtype: expected np.float64 or np.float32, got"):
        dyn_ros.Data(model, dtype=dtype)


@pytest.mark.skipif(not JIT, reason="there is no extension without a compiler")
@peer.robots(("every_joint", "solo12"))
def test_small_batches_and_single_states_without_python(robot, root_joint, monkeypatch):
    """The extension has the results of Python, also after a change of the model."""
    pair = peer.new_pair(robot, root_joint)
    data, calls = single(pair), []
    for name in FUNCTIONS:
        # momentum_observer_step passes gains of float64, which Python converts.
        if ALGORITHMS[name].needs_double or name == "momentum_observer_step":
            continue
        for size in (1, 7, 16, 17):
            calls.append((name, with_type(batch_arguments(pair, name, size, True), np.float32)))
        calls.append((name, with_type(arguments(pair, name, True), np.float32)))

    def results(call_data):
        return [
            arrays_of(getattr(dyn_ros, name)(pair.model, call_data(), **given))
            for name, given in calls
        ]

    results(lambda: data)
    pair.model.inertial_parameters = 1.5 * pair.model.inertial_parameters
    by_python = results(lambda: single(pair))

    def handle(algorithm, *_):
        raise AssertionError(f"{algorithm.name} was called by Python")

    monkeypatch.setattr(Algorithm, "validate_arguments", handle)
    for (name, _), found, expected in zip(calls, results(lambda: data), by_python, strict=True):
        for x, y in zip(found, expected, strict=True):
            assert np.array_equal(x, y) and type(x) is type(y), name
            assert np.asarray(x).dtype == np.asarray(y).dtype
