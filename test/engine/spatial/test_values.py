# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Values: immutability, conversion, comparison, copies, rejected input; placements near pi."""

import copy
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

import dyn_ros
from dyn_ros.engine.spatial import (
    SE3,
    ArticulatedBodyInertia,
    Force,
    Inertia,
    Motion,
    TransformDerivative,
    TransformSecondDerivative,
)
from peer import close

RNG = np.random.default_rng(1)
X = SE3.exp(RNG.normal(size=6))
VALUES = [
    (X, ("rotation", "translation"), (4, 4)),
    (Motion(RNG.normal(size=6)), ("linear", "angular"), (6,)),
    (Force(RNG.normal(size=6)), ("linear", "angular"), (6,)),
    (Inertia(2.0, [0.1, 0.2, 0.3], np.diag([1.0, 2.0, 2.5])), ("com", "rotational"), (6, 6)),
    (ArticulatedBodyInertia(np.diag(np.arange(6.0))), ("matrix",), (6, 6)),
    (
        TransformDerivative(RNG.normal(size=(3, 3)), RNG.normal(size=3)),
        ("rotation", "translation"),
        (4, 4),
    ),
    (
        TransformSecondDerivative(RNG.normal(size=(3, 3)), RNG.normal(size=3)),
        ("rotation", "translation"),
        (4, 4),
    ),
]
values = pytest.mark.parametrize(
    "value, parts, shape", VALUES, ids=[type(value).__name__ for value, *_ in VALUES]
)


@values
def test_a_value_never_changes(value, parts, shape):
    before = np.asarray(value)
    for part in parts:
        with pytest.raises(ValueError, match="read-only"):
            getattr(value, part)[0] = 7.0
        with pytest.raises(AttributeError, match="is immutable"):
            setattr(value, part, None)
        with pytest.raises(AttributeError, match="is immutable"):
            delattr(value, part)
    with pytest.raises(AttributeError, match="is immutable"):
        value.something = 1
    np.asarray(value)[0] = 7.0
    assert np.array_equal(np.asarray(value), before)


@pytest.mark.parametrize(
    "value",
    [
        Motion([1.0] * 6),
        Force([1.0] * 6),
        TransformDerivative.zero(),
        TransformSecondDerivative.zero(),
    ],
)
@pytest.mark.parametrize("factor", [np.nan, np.inf, np.float32("-inf")])
def test_a_factor_that_is_not_finite_is_refused(value, factor):
    for multiply in (lambda: factor * value, lambda: value * factor):
        with pytest.raises(ValueError, match="factor: expected a finite number, got .*(nan|inf)"):
            multiply()


def test_a_value_keeps_no_array_of_the_callers():
    numbers = np.arange(6.0)
    m = Motion(numbers)
    numbers[0] = 7.0
    assert m.linear[0] == 0.0


@values
def test_numbers(value, parts, shape):
    array = np.asarray(value)
    assert array.shape == shape and array.dtype == float
    assert np.asarray(value, dtype=np.float32).dtype == np.float32
    assert np.array([value, value]).shape == (2, *shape)
    for part in parts:
        assert getattr(value, part).dtype == float


@values
def test_equality_and_no_hash(value, parts, shape):
    with pytest.raises(TypeError, match="unhashable"):
        hash(value)
    others = [other for other, *_ in VALUES if other is not value]
    assert value == pickle.loads(pickle.dumps(value))
    assert not any(value == other for other in others)
    assert value != 1.0 and value != np.asarray(value).tolist()
    with pytest.raises(TypeError, match="expected " + type(value).__name__):
        value.isclose(others[0])


@values
def test_isclose(value, parts, shape):
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        assert pickle.loads(pickle.dumps(value, protocol)) == value
    nearly = type(value)._of(
        type(value._tuple)(
            *(
                tuple(np.array(part) * (1.0 + 1e-10)) if isinstance(part, tuple) else part
                for part in value._tuple
            )
        )
    )
    assert nearly != value and nearly.isclose(value) and value.isclose(nearly)
    assert not nearly.isclose(value, rtol=1e-11, atol=0.0)
    assert value.isclose(value, rtol=0.0, atol=0.0)


def test_isclose_looks_at_each_part_by_itself():
    a = Motion([1e6, 0, 0], [0, 0, 1e-3])
    assert not a.isclose(Motion([1e6, 0, 0], [0, 0, 1.1e-3]))
    assert a.isclose(Motion([1e6, 1e-4, 0], [0, 0, 1e-3]))
    assert not a.isclose(Motion._of(type(a._tuple)((1e6, 0.0, 0.0), (0.0, 0.0, float("nan")))))


@values
def test_copies(value, parts, shape):
    assert copy.copy(value) is value and copy.deepcopy([value])[0] is value
    back = pickle.loads(pickle.dumps(value))
    with pytest.raises(ValueError, match="read-only"):
        getattr(back, parts[0])[0] = 7.0


def test_repr():
    assert repr(Motion([1, -2.5, 1 / 3], [0, -0.0, 1e-20])) == (
        "Motion(linear=[1, -2.5, 0.333333], angular=[0, 0, 1e-20])"
    )
    assert repr(SE3(np.eye(3), [1, 2, 3])) == (
        "SE3(rotation=[[1, 0, 0], [0, 1, 0], [0, 0, 1]], translation=[1, 2, 3])"
    )
    assert repr(Inertia.from_sphere(2.0, 0.5)) == (
        "Inertia(mass=2, com=[0, 0, 0], rotational=[[0.2, 0, 0], [0, 0.2, 0], [0, 0, 0.2]])"
    )
    for value, parts, _ in VALUES:
        numbers = {}
        exec(repr(value).replace(type(value).__name__, "numbers.update"), {"numbers": numbers})
        for part in parts:
            close(numbers[part], getattr(value, part), 1e-5)


def test_numpy_numbers_and_arrays():
    m = Motion(np.arange(6))
    assert np.float64(2.0) * m == m * np.float32(2.0) == 2 * m == m + m
    assert m / 2 == 0.5 * m
    for wrong in (
        lambda: np.ones(6) * m,
        lambda: m * np.ones(6),
        lambda: np.ones(6) + m,
        lambda: m + 1.0,
        lambda: m + Force(np.ones(6)),
        lambda: m * m,
        lambda: m / m,
        lambda: "x" * m,
        lambda: np.eye(4) * X,
    ):
        with pytest.raises(TypeError):
            wrong()


def test_the_package_has_them():
    for value, *_ in VALUES:
        assert getattr(dyn_ros, type(value).__name__) is type(value)
        assert type(value).__name__ in dyn_ros.__all__


def test_importing_them_needs_no_more_of_scipy():
    code = (
        "import sys; from dyn_ros import SE3; SE3.exp([1, 2, 3, 4, 5, 6]).log()\n"
        "print([name for name in sys.modules if name.startswith('scipy.spatial')])"
    )
    result = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        cwd=Path(dyn_ros.__file__).parents[2],
    )
    assert result.stdout == "[]\n", result.stderr


# --- placements


def test_ways_to_a_placement():
    rotation, p = Rotation.random(random_state=2), [1.0, 2.0, 3.0]
    expected = SE3(rotation.as_matrix(), p)
    assert SE3(rotation, p) == expected
    assert SE3.from_homogeneous(np.asarray(expected)) == expected
    close(SE3.from_quaternion(rotation.as_quat(), p), expected, 1e-15)
    close(SE3.from_quaternion(-rotation.as_quat() * (1.0 + 1e-7), p), expected, 1e-15)
    close(expected.as_rotation().as_matrix(), rotation.as_matrix(), 1e-15)
    close(expected.as_quaternion(), rotation.as_quat(canonical=True), 1e-15)
    assert SE3(np.eye(3)) == SE3.identity() == SE3.exp(np.zeros(6)) == SE3.exp(Motion.zero())


@pytest.mark.parametrize(
    "angle", [0.0, 1e-12, 1e-8, np.pi - 1e-6, np.pi - 1e-9, np.pi - 1e-12, np.pi]
)
def test_rotations_are_scipys(angle):
    for axis in [*RNG.normal(size=(20, 3)), [1, 0, 0], [0, -1, 0], [0, 0, 1], [1, 1e-9, 0]]:
        axis = np.array(axis) / np.linalg.norm(axis)
        placed = SE3.exp([*RNG.normal(size=3), *(angle * axis)])
        close(placed.rotation, Rotation.from_rotvec(angle * axis).as_matrix(), 1e-15, 2.0)
        close(
            abs(placed.as_quaternion() @ Rotation.from_rotvec(angle * axis).as_quat()), 1.0, 1e-15
        )
        again = SE3(placed.rotation, placed.translation).log()
        close(np.linalg.norm(again.angular), angle, 1e-15, np.pi)
        close(SE3.exp(again), placed, 1e-14)
        if angle < np.pi:
            close(again.angular, angle * axis, 1e-15, np.pi)


@pytest.mark.parametrize("axis", range(3))
def test_half_a_turn_from_its_exact_matrix(axis):
    R = -np.eye(3)
    R[axis, axis] = 1.0
    log = SE3(R, [1.0, 2.0, 3.0]).log()
    assert abs(log.angular[axis]) == np.pi and np.count_nonzero(log.angular) == 1
    close(SE3.exp(log), SE3(R, [1.0, 2.0, 3.0]), 1e-15)


def test_interpolation_turns_the_short_way():
    start, end = (SE3(Rotation.from_euler("z", angle), [angle, 0, 0]) for angle in (3.0, -3.0))
    turns = [start.interpolate(end, u).as_rotation().magnitude() for u in (0.25, 0.5, 0.75)]
    short = np.pi - 3.0
    close(turns, [3.0 + 0.5 * short, np.pi, 3.0 + 0.5 * short], 1e-14)


def test_what_is_no_placement():
    R = Rotation.random(random_state=4).as_matrix()
    with pytest.raises(ValueError, match=r"R' R differs from the identity by 0\.0201 .*scipy"):
        SE3(1.01 * R)
    with pytest.raises(ValueError, match=r"R' R differs from the identity by [0-9.]+e-0[78]"):
        SE3(R.astype(np.float32))
    with pytest.raises(ValueError, match="reflection"):
        SE3(np.diag([1.0, 1.0, -1.0]))
    SE3(R + 1e-10)
    SE3(Rotation.from_matrix(R.astype(np.float32)))
    with pytest.raises(ValueError, match=r"rotation: expected shape \(3, 3\), got \(4, 4\)"):
        SE3(np.eye(4))
    with pytest.raises(ValueError, match=r"translation: expected shape \(3,\), got \(2,\)"):
        SE3(R, [1, 2])
    with pytest.raises(ValueError, match=r"expected finite numbers, got nan in rotation\[0, 1\]"):
        SE3([[1, np.nan, 0], [0, 1, 0], [0, 0, 1]])
    with pytest.raises(ValueError, match=r"last row of 0 0 0 1, got \[0. 0. 0. 2.\]"):
        SE3.from_homogeneous(np.diag([1, 1, 1, 2]))
    with pytest.raises(ValueError, match="unit quaternion .* got length 2; normalize it"):
        SE3.from_quaternion([0, 0, 0, 2])
    with pytest.raises(ValueError, match="unit quaternion .* got length 0"):
        SE3.from_quaternion(np.zeros(4))


@pytest.mark.parametrize("entry", range(4))
def test_the_last_row_of_a_placement_may_be_off_by_rounding(entry):
    for off, good in ((0.9e-12, True), (-0.9e-12, True), (1.1e-12, False), (-1.1e-12, False)):
        H = np.eye(4)
        H[3, entry] += off
        if good:
            assert SE3.from_homogeneous(H) == SE3.identity()
        else:
            with pytest.raises(ValueError, match="expected a last row of 0 0 0 1"):
                SE3.from_homogeneous(H)


@pytest.mark.parametrize("sign", [-1.0, 1.0])
def test_a_quaternion_may_be_off_by_rounding(sign):
    rotation = Rotation.random(random_state=5)
    close(
        SE3.from_quaternion(np.sqrt(1.0 + sign * 0.99e-6) * rotation.as_quat()).rotation,
        rotation.as_matrix(),
        1e-15,
    )
    with pytest.raises(ValueError, match=r"unit quaternion .* got length (0.999999|1.0000005)"):
        SE3.from_quaternion(np.sqrt(1.0 + sign * 1.01e-6) * rotation.as_quat())


@pytest.mark.parametrize("sign", [-1.0, 1.0])
def test_a_rotation_may_be_off_by_rounding(sign):
    R = Rotation.random(random_state=6).as_matrix()
    SE3((1.0 + sign * 0.49e-9) * R)
    with pytest.raises(ValueError, match="differs from the identity by 1.02e-09"):
        SE3((1.0 + sign * 0.51e-9) * R)


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda: Motion([1, 2, 3]), r"vector: expected shape \(6,\), got \(3,\)"),
        (lambda: Motion([1, 2, 3], [1, 2]), r"angular: expected shape \(3,\), got \(2,\)"),
        (lambda: Force(np.full(6, np.inf)), r"finite numbers, got inf in vector\[0\]"),
        (lambda: Motion("abcdef"), "real numbers, got dtype"),
        (lambda: Motion(1j * np.ones(6)), "real numbers, got dtype complex128"),
        (lambda: Motion([[1, 2], 3]), "got a list"),
        (lambda: Motion(X), r"expected shape \(6,\), got \(4, 4\)"),
        (lambda: X * np.ones(6), r"points: expected shape \(3,\), got \(6,\)"),
        (lambda: X * [1, 2, np.nan], r"got nan in points\[2\]"),
        (lambda: X * 2.0, r"points: expected shape \(3,\), got \(\)"),
        (lambda: SE3.exp(np.ones(5)), r"motion: expected shape \(6,\), got \(5,\)"),
        (lambda: X.interpolate(X, np.nan), "u: expected a finite number, got nan"),
    ],
)
def test_bad_numbers(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_the_wrong_class():
    m, f = Motion(np.ones(6)), Force(np.ones(6))
    for wrong in (
        lambda: m.dot(m),
        lambda: f.dot(f),
        lambda: m.cross(X),
        lambda: X.interpolate(m, 1),
    ):
        with pytest.raises(TypeError, match="expected (Motion|Force|SE3), got (Motion|Force|SE3)"):
            wrong()


@pytest.mark.parametrize(
    "call, argument",
    [
        (lambda: Inertia.from_box(10**400, [1.0, 1.0, 1.0]), "mass"),
        (lambda: Inertia.from_sphere(1.0, 10**400), "radius"),
        (lambda: X.isclose(X, rtol=10**400), "rtol"),
        (lambda: X.interpolate(X, 10**400), "u"),
        (lambda: Motion(np.ones(6)) * 10**400, "factor"),
    ],
)
def test_an_integer_beyond_the_range_of_floats_is_rejected(call, argument):
    with pytest.raises(ValueError, match=f"^{argument}: expected a finite number, got 1000"):
        call()
