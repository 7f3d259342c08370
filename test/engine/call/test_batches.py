# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Batches: tiles of lanes, whole and not, and results larger than the caches."""

import tracemalloc

import numpy as np
import pytest

import dyn_ros
import peer
from dyn_ros.engine.algorithms.all_terms import Terms
from dyn_ros.engine.algorithms.kinematics.kinematics import MOTION
from dyn_ros.engine.call import batch
from dyn_ros.engine.kernel.lanes import LANES
from dyn_ros.engine.machine_code import extension
from dyn_ros.engine.machine_code.declare import JIT

pytestmark = pytest.mark.skipif(not JIT, reason="there are no lanes without a compiler")


@pytest.fixture(scope="module")
def solo():
    return peer.new_pair("solo12", "floating")


@pytest.mark.parametrize("size", [*range(1, LANES + 2), 3 * LANES - 1, 3 * LANES])
@pytest.mark.parametrize("threads", [1, 3])
def test_every_size(solo, size, threads):
    q, v, a, _ = solo.states(size)
    f = solo.wrenches(1)
    tau = dyn_ros.rnea(solo.model, solo.data, q, v, a, f, threads=threads)
    M = dyn_ros.crba(solo.model, solo.data, q, threads=threads)
    for n in range(size):
        peer.close(tau[n], dyn_ros.rnea(solo.model, solo.data, q[n], v[n], a[n], f), 1e-12)
        peer.close(M[n], dyn_ros.crba(solo.model, solo.data, q[n]), 1e-12)


@pytest.mark.parametrize("few", [False, True])
def test_results_larger_than_the_caches(solo, few, monkeypatch):
    """Rows of whole cache lines are stored past them, and others are not."""
    size = 9301
    q, v, a, _ = solo.states(size)
    past = []
    run_batch = extension.native().run_batch

    class Watched:
        set_arrays, address = extension.native().set_arrays, extension.native().address
        PreparedBatch = extension.native().PreparedBatch

        @staticmethod
        def run_batch(*arguments):
            status = run_batch(*arguments)
            past.append(arguments[11][:, 3].tolist())
            return status

    monkeypatch.setattr(batch, "_extension", Watched)
    if few:
        monkeypatch.setattr(batch, "_MIN_UNCACHED_SIZE", 1)
    M = dyn_ros.crba(solo.model, solo.data, q)
    tau = dyn_ros.rnea(solo.model, solo.data, q, v, a)
    assert past == [[1], [0]]  # 18 columns are no whole cache lines
    branches = np.full(M[0].shape, True)
    for n in (*range(0, size, 1501), size - 1):
        M_n = dyn_ros.crba(solo.model, solo.data, q[n]).copy()
        peer.close(M[n], M_n, 1e-12)
        peer.close(tau[n], dyn_ros.rnea(solo.model, solo.data, q[n], v[n], a[n]), 1e-12)
        branches &= M_n == 0.0
    assert branches.any() and not M[:, branches].any()


@pytest.mark.parametrize("state", [0, LANES - 1, LANES, 2 * LANES, 2 * LANES + 1])
def test_a_bad_number_in_any_tile_is_found(solo, state):
    q, v, a, _ = solo.states(2 * LANES + 2)
    for x in (q, v, a):
        kept, x[state, -1] = x[state, -1], np.inf
        with pytest.raises(ValueError, match=rf"expected finite numbers, got inf in .\[{state}, "):
            dyn_ros.rnea(solo.model, solo.data, q, v, a)
        x[state, -1] = kept
    q[state, 3:7] *= 1.0 + 1e-5
    with pytest.raises(ValueError, match="unit quaternion"):
        dyn_ros.crba(solo.model, solo.data, q)


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("only", [("g",), ("nle", "M", "g"), ("com", "Ig", "hg"), ("oMf", "oMf")])
def test_some_terms_are_equal_to_those_of_all(solo, only, threads):
    """Also after other terms, which leave numbers in the workspace."""
    for size in (1, LANES - 1, 3 * LANES + 1):
        q, v = solo.states(size)[:2]
        every = dyn_ros.all_terms(solo.model, dyn_ros.Data(solo.model), q, v)
        for names in (only, ("J", "kinetic_energy"), only):
            found = dyn_ros.all_terms(solo.model, solo.data, q, v, only=names, threads=threads)
            for name, value in zip(names, found if len(names) > 1 else [found], strict=True):
                assert np.array_equal(value, getattr(every, name)), (size, name)


@pytest.mark.parametrize("name", Terms._fields)
def test_a_term_alone_allocates_no_other(solo, name):
    size = 4096
    q, v = solo.states(size)[:2]
    data = dyn_ros.Data(solo.model)
    dyn_ros.all_terms(solo.model, data, q[:1], v[:1])  # which allocates the workspace
    tracemalloc.start()
    value = dyn_ros.all_terms(solo.model, data, q, v, only=(name,))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1.3 * value.nbytes + 8 * size  # rows of whole cache lines


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize(
    "only", [("oMi",), ("v",), ("ov", "v", "liMi"), ("oa",), ("a", "oMi"), ("v", "v")]
)
def test_some_motions_are_equal_to_those_of_all(solo, only, threads):
    names = [field.name for field in MOTION]
    for size in (1, LANES - 1, 3 * LANES + 1):
        q, v, a, _ = solo.states(size)
        data = dyn_ros.Data(solo.model)
        every = dict(zip(names, dyn_ros.forward_kinematics(solo.model, data, q, v, a)))
        for requested in (only, ("oa", "v"), only):
            found = dyn_ros.forward_kinematics(
                solo.model, solo.data, q, v, a, only=requested, threads=threads
            )
            for name, value in zip(requested, found if len(requested) > 1 else [found]):
                assert np.array_equal(value, every[name]), (size, name)
