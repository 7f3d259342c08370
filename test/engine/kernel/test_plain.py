# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The kernels as functions of Python."""

import numpy as np
import pytest

from dyn_ros.engine.kernel import algebra, lanes

RNG = np.random.default_rng(4)


def test_kernels_are_functions_of_python():
    motion = algebra.Motion((1.0, 2.0, 3.0), (4.0, 5.0, 6.0))
    product = algebra.motion_cross(motion, algebra.Motion((1, 0, 0), (0, 0, 1)))
    assert product == algebra.Motion((2.0, 5.0, -5.0), (5.0, -4.0, 0.0))


@pytest.mark.parametrize("reach", [1.0, 10.0, 1e3, 1e6, 1e10, 9e13])
def test_sine_and_cosine_without_a_compiler(reach):
    sincos = lanes.sincos
    for x in [*RNG.uniform(-reach, reach, 200), reach]:
        s, c = sincos(float(x))
        assert abs(s - np.sin(x)) < 4e-16
        assert abs(c - np.cos(x)) < 4e-16


@pytest.mark.parametrize("x", [1e14, -2e14, 1e17, -1e100, 1e300, -1.7e308])
def test_sine_and_cosine_of_an_angle_too_large_to_turn_back_are_nan_without_a_compiler(x):
    with np.errstate(all="ignore"):
        assert np.isnan(lanes.sincos(np.float64(x))).all()


@pytest.mark.parametrize(
    "a, b, c, expected",
    [
        (1.0 + 2.0**-52, 1.0 + 2.0**-52, -1.0 - 2.0**-51, 2.0**-104),  # 106 digits of a product
        (3.0, 1.0 / 3.0, -1.0, -(2.0**-54)),
        (1e-200, 1e-200, 1.0, 1.0),
        (np.inf, 1.0, 1.0, np.inf),
        (1e200, 1e200, -1.0, np.inf),
    ],
)
def test_product_is_not_rounded_before_the_sum_without_a_compiler(a, b, c, expected):
    with np.errstate(all="ignore"):
        found = lanes.fma(a, b, c)
    assert found == expected and isinstance(found, np.float64)


@pytest.mark.parametrize("like", [1.5, np.float64(1.5), np.inf, np.float64(np.nan)])
def test_a_constant_stays_what_it_is_without_a_compiler(like):
    found = lanes.lift(0.25, like)
    assert found == 0.25 and type(found) is type(like)
