# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The number types: lanes agree with single floats, and both with NumPy."""

import importlib
from fractions import Fraction

import numpy as np
import pytest

from dyn_ros.engine.kernel.lanes import (
    LANES,
    all_above,
    floats_at,
    fma,
    gather_tile,
    lanes_at,
    lift,
    load,
    load_lane,
    rint,
    scatter_tile,
    select_above,
    sincos,
    sqrt,
    store,
    store_lane,
)
from dyn_ros.engine.machine_code.declare import JIT

numba = pytest.importorskip("numba", reason="nothing can be compiled")
if JIT:
    importlib.import_module("dyn_ros.engine.kernel.lanes_llvm")  # for functions of Numba
pytestmark = pytest.mark.skipif(not JIT, reason="there are no lanes without a compiler")
RNG = np.random.default_rng(5)
X, Y = RNG.uniform(0.5, 4.0, (2, LANES))


def compiled(function):
    """A function of two numbers and with two results, for one float and for lanes."""
    body = numba.njit(function)

    @numba.njit
    def run_one(address):
        a = floats_at(address)
        for k, x in enumerate(body(load(a, 0), load(a, 1))):
            store(a, 2 + k, x)

    @numba.njit
    def run_lanes(address):
        a = lanes_at(address)
        for k, x in enumerate(body(load(a, 0), load(a, 1))):
            store(a, 2 + k, x)

    def both(x, y):
        together = np.zeros((4, LANES))
        together[:2] = x, y
        each = together.copy()
        run_lanes(together.ctypes.data)
        for lane in range(LANES):
            column = np.ascontiguousarray(each[:, lane])
            run_one(column.ctypes.data)
            each[:, lane] = column
        return each[2:], together[2:]

    return both


@pytest.mark.parametrize(
    "function",
    [
        lambda x, y: (x + y, x - y),
        lambda x, y: (x * y, x / y),
        lambda x, y: (-x, 2 * y),
        lambda x, y: (1.5 - x, 3 / y),
        lambda x, y: (x + 1, y - 0.25),
    ],
)
def test_arithmetic(function):
    one, lanes = compiled(function)(X, Y)
    expected = np.array(function(X, Y))
    assert np.allclose(one, expected, rtol=4e-16, atol=0)
    assert np.allclose(lanes, expected, rtol=4e-16, atol=0)


def test_functions():
    for numbers in compiled(lambda x, y: (sqrt(x), rint(y)))(X, Y):
        assert np.array_equal(numbers, [np.sqrt(X), np.rint(Y)])
    exact = [float(Fraction(x) * Fraction(y) - 1) for x, y in zip(X, Y)]
    for numbers in compiled(lambda x, y: (fma(x, y, -1.0), lift(2.5, x)))(X, Y):
        assert np.array_equal(numbers, [exact, np.full(LANES, 2.5)])


def test_select_above():
    x, y = X.copy(), Y.copy()
    y[2] = x[2]  # not above
    x[0] = y[3] = np.nan  # nor is this
    for function, expected in (
        (
            lambda x, y: (select_above(x, y, x, y), select_above(x, 2.0, 1.0, y)),
            (np.where(x > y, x, y), np.where(x > 2.0, 1.0, y)),
        ),
        (
            lambda x, y: (select_above(2.0, x, y, x), select_above(x, y, 1.0, 0.0)),
            (np.where(x < 2.0, y, x), np.where(x > y, 1.0, 0.0)),
        ),
    ):
        for numbers in compiled(function)(x, y):
            assert np.array_equal(numbers, expected, equal_nan=True)


def test_sine_and_cosine():
    both = compiled(lambda x, y: sincos(x))
    angles = RNG.uniform(-1.0, 1.0, (400, LANES)) * 10.0 ** RNG.integers(-9, 6, (400, 1))
    angles[0, :4] = [0.0, np.pi, -np.pi / 2, 2 * np.pi]
    for x in angles:
        for s, c in both(x, Y):
            assert np.abs(s - np.sin(x)).max() < 4e-16
            assert np.abs(c - np.cos(x)).max() < 4e-16


def test_sine_and_cosine_of_an_angle_too_large_to_turn_back_are_nan():
    both, near = compiled(lambda x, y: sincos(x)), np.resize([1e13, -9.9e13], LANES)
    for s, c in both(near, Y):
        assert np.abs(s - np.sin(near)).max() < 4e-16
        assert np.abs(c - np.cos(near)).max() < 4e-16
    for far in 1e14, -2e14, 1e17, 1e18, -1e100, 1e300:
        assert np.isnan(both(np.full(LANES, far), Y)).all()


def test_nan_and_infinity_show():
    x = X.copy()
    x[2], x[3] = np.nan, np.inf
    for total, product in compiled(lambda x, y: (x + y, 0.0 * x))(x, Y):
        assert np.isnan(total[2]) and np.isinf(total[3])
        assert np.isnan(product[[2, 3]]).all() and not np.isnan(np.delete(product, [2, 3])).any()


@pytest.mark.parametrize("change, expected", [(0.0, True), (-9.0, False), (np.nan, False)])
def test_all_above_asks_every_lane(change, expected):
    @numba.njit
    def ask(address):
        a = lanes_at(address)
        return all_above(load(a, 0), 0.25)

    row = X.copy()
    row[3] += change
    assert ask(row.ctypes.data) is expected


def test_squares_are_transposed_both_ways():
    @numba.njit
    def there_and_back(source, address, target):
        work = lanes_at(address)
        gather_tile(floats_at(source), 2 * 11 + 1, 11, work, 3)
        store_lane(work, 3, 2, 10.0 + load_lane(work, 3, 2))
        scatter_tile(work, 3, floats_at(target), 1 * 11 + 2, 11)

    source, work = RNG.normal(size=(12, 11)), np.zeros((12, LANES))
    target = np.zeros((12, 11))
    there_and_back(source.ctypes.data, work.ctypes.data, target.ctypes.data)
    expected = source[2 : 2 + LANES, 1 : 1 + LANES].copy()
    expected[2, 0] += 10.0
    assert np.array_equal(work[3 : 3 + LANES], expected.T)
    assert np.array_equal(target[1 : 1 + LANES, 2 : 2 + LANES], expected)
    assert np.count_nonzero(target) == LANES**2
