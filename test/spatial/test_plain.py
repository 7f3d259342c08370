# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The kernels' source as plain Python gives what it gives compiled."""
import numpy as np
import pytest

from dyn_ros.spatial import algebra, lanes
from dyn_ros.spatial.compiler import JIT
from dyn_ros.spatial.plain import interpreted

RNG = np.random.default_rng(4)


def test_nothing_compiled_is_called():
    plain = interpreted(algebra)
    assert not [name for name, value in vars(plain).items() if hasattr(value, "py_func")]
    motion = algebra.Motion((1.0, 2.0, 3.0), (4.0, 5.0, 6.0))
    product = plain.motion_cross(motion, algebra.Motion((1, 0, 0), (0, 0, 1)))
    assert product == algebra.Motion((2.0, 5.0, -5.0), (5.0, -4.0, 0.0))
    if JIT:
        assert product == algebra.motion_cross(motion, algebra.Motion((1.0, 0.0, 0.0),
                                                                      (0.0, 0.0, 1.0)))


@pytest.mark.parametrize("reach", [1.0, 10.0, 1e3, 1e6])
def test_sine_and_cosine_without_a_compiler(reach):
    sincos = interpreted(lanes).sincos
    for x in [*RNG.uniform(-reach, reach, 200), reach * np.pi]:
        s, c = sincos(float(x))
        assert abs(s - np.sin(x)) < 1e-15 + 1e-19 * reach
        assert abs(c - np.cos(x)) < 1e-15 + 1e-19 * reach
