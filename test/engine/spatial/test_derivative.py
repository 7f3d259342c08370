# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""TransformDerivative against iDynTree and finite differences; the second derivative too."""

import numpy as np
import pytest

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

SEEDS = range(8)


class Curve:
    """A moving placement, its derivatives and what it moves."""

    def __init__(self, seed):
        rng = np.random.default_rng(seed)
        self.start, self.v, self.a = (
            SE3.exp(rng.normal(size=6)),
            *map(Motion, rng.normal(size=(2, 6))),
        )
        self.m, self.f = Motion(rng.normal(size=6)), Force(rng.normal(size=6))
        A = rng.normal(size=(6, 6))
        self.Ia = ArticulatedBodyInertia(A + A.T)
        self.X = self(0.0)
        self.dX = TransformDerivative.from_body_twist(self.X, self.v)
        self.ddX = TransformSecondDerivative.from_body_twist(self.X, self.v, self.a)
        self.any = TransformDerivative(rng.normal(size=(3, 3)), rng.normal(size=3))

    def __call__(self, t):
        """The placement at a time. exp(t v + t^2 a / 2) has velocity v, acceleration a at 0."""
        return self.start * SE3.exp(t * self.v + 0.5 * t * t * self.a)


def first(function, h=2e-3):
    """d/dt at 0, to sixth order."""
    at = [np.asarray(function(k * h)) - np.asarray(function(-k * h)) for k in (1, 2, 3)]
    return (45.0 * at[0] - 9.0 * at[1] + at[2]) / (60.0 * h)


def second(function, h=1e-2):
    """d2/dt2 at 0, to sixth order."""
    at = [np.asarray(function(k * h)) + np.asarray(function(-k * h)) for k in (1, 2, 3)]
    return (270.0 * at[0] - 27.0 * at[1] + 2.0 * at[2] - 490.0 * np.asarray(function(0.0))) / (
        180.0 * h * h
    )


@pytest.fixture(params=SEEDS)
def curve(request):
    return Curve(request.param)


def product(curve, other):
    return lambda t: curve(t) * other(t)


# --- iDynTree


@pytest.fixture
def idyn():
    return pytest.importorskip("idyntree.swig", reason="iDynTree is not installed")


def to_transform(idyn, X):
    rotation, position = idyn.Rotation(), idyn.Position()
    for i in range(3):
        position.setVal(i, float(X.translation[i]))
        for j in range(3):
            rotation.setVal(i, j, float(X.rotation[i, j]))
    return idyn.Transform(rotation, position)


def to_derivative(idyn, dX):
    theirs = idyn.TransformDerivative()
    rotation, position = idyn.Matrix3x3(), idyn.Vector3()
    for i in range(3):
        position.setVal(i, float(dX.translation[i]))
        for j in range(3):
            rotation.setVal(i, j, float(dX.rotation[i, j]))
    theirs.setRotationDerivative(rotation)
    theirs.setPositionDerivative(position)
    return theirs


def array(theirs):
    return np.array(theirs.toNumPy())


def six(idyn, kind, value):
    theirs = getattr(idyn, kind)()
    for i, x in enumerate(np.asarray(value)):
        theirs.setVal(i, float(x))
    return theirs


def to_articulated(idyn, Ia):
    """ArticulatedBodyInertia has no setter in Python: it is a sum of w U U' instead."""
    weights, columns = np.linalg.eigh(np.asarray(Ia))
    total = idyn.ArticulatedBodyInertia()
    total.zero()
    for weight, column in zip(weights, columns.T):
        U = six(idyn, "SpatialForceVector", column * np.sqrt(abs(weight)))
        dyad = idyn.ArticulatedBodyInertia.ABADyadHelper(U, float(np.sign(weight)))
        total = total + dyad
    return total


def both_derivatives(curve):
    """One that is tangent to X, and one that is not."""
    return curve.dX, curve.any


def test_zero_and_parts_are_idyntrees(idyn, curve):
    zero = TransformDerivative.zero()
    assert np.array_equal(
        np.asarray(zero), array(idyn.TransformDerivative.Zero().asHomogeneousTransformDerivative())
    )
    for dX in both_derivatives(curve):
        theirs = to_derivative(idyn, dX)
        assert np.array_equal(array(theirs.getRotationDerivative()), dX.rotation)
        assert np.array_equal(array(theirs.getPositionDerivative()), dX.translation)
        back = TransformDerivative.from_homogeneous(
            array(theirs.asHomogeneousTransformDerivative())
        )
        assert back == dX


def test_matrices_are_idyntrees(idyn, curve):
    for dX in both_derivatives(curve):
        theirs, X = to_derivative(idyn, dX), to_transform(idyn, curve.X)
        close(dX.as_homogeneous(), array(theirs.asHomogeneousTransformDerivative()), 1e-12)
        close(dX.as_adjoint(curve.X), array(theirs.asAdjointTransformDerivative(X)), 1e-12)
        close(
            dX.as_adjoint_wrench(curve.X),
            array(theirs.asAdjointTransformWrenchDerivative(X)),
            1e-12,
        )


def test_product_and_inverse_are_idyntrees(idyn, curve):
    other = SE3.exp(curve.m)
    for dX in both_derivatives(curve):
        theirs, X = to_derivative(idyn, dX), to_transform(idyn, curve.X)
        close(
            dX * other,
            array((theirs * to_transform(idyn, other)).asHomogeneousTransformDerivative()),
            1e-12,
        )
        close(
            dX.derivative_of_inverse(curve.X),
            array(theirs.derivativeOfInverse(X).asHomogeneousTransformDerivative()),
            1e-12,
        )


def test_transform_is_idyntrees(idyn, curve):
    Ia = to_articulated(idyn, curve.Ia)
    close(curve.Ia, array(Ia.asMatrix()), 1e-12)
    for dX in both_derivatives(curve):
        theirs, X = to_derivative(idyn, dX), to_transform(idyn, curve.X)
        force = theirs.transform(X, six(idyn, "SpatialForceVector", curve.f))
        close(dX.transform(curve.X, curve.f), array(force), 1e-12)
        motion = theirs.transform(X, six(idyn, "SpatialMotionVector", curve.m))
        close(dX.transform(curve.X, curve.m), array(motion), 1e-12)
        close(dX.transform(curve.X, curve.Ia), array(theirs.transform(X, Ia).asMatrix()), 1e-12)


# --- finite differences


def test_derivatives(curve):
    X, dX = curve.X, curve.dX
    close(dX, first(curve), 1e-11)
    close(dX.as_adjoint(X), first(lambda t: curve(t).as_adjoint()), 1e-11)
    close(dX.as_adjoint_wrench(X), first(lambda t: curve(t).as_adjoint_wrench()), 1e-11)
    close(dX.derivative_of_inverse(X), first(lambda t: curve(t).inverse()), 1e-11)
    for value in (curve.m, curve.f, curve.Ia):
        close(dX.transform(X, value), first(lambda t, y=value: curve(t) * y), 1e-11)
    fixed = SE3.exp(curve.m)
    close(dX * fixed, first(lambda t: curve(t) * fixed), 1e-11)
    close(fixed * dX, first(lambda t: fixed * curve(t)), 1e-11)


def test_second_derivatives(curve):
    X, dX, ddX = curve.X, curve.dX, curve.ddX
    close(ddX, second(curve), 1e-9)
    close(ddX.as_adjoint(X, dX), second(lambda t: curve(t).as_adjoint()), 1e-9)
    close(ddX.as_adjoint_wrench(X, dX), second(lambda t: curve(t).as_adjoint_wrench()), 1e-9)
    close(ddX.derivative_of_inverse(X, dX), second(lambda t: curve(t).inverse()), 1e-9)
    for value in (curve.m, curve.f, curve.Ia):
        close(ddX.transform(X, dX, value), second(lambda t, y=value: curve(t) * y), 1e-9)
    fixed = SE3.exp(curve.m)
    close(ddX * fixed, second(lambda t: curve(t) * fixed), 1e-9)
    close(fixed * ddX, second(lambda t: fixed * curve(t)), 1e-9)


def test_compositions_of_two_that_move(curve):
    other = Curve(99)
    X, dX, ddX, Y, dY, ddY = (curve.X, curve.dX, curve.ddX, other.X, other.dX, other.ddX)
    close(TransformDerivative.of_composition(X, dX, Y, dY), first(product(curve, other)), 1e-11)
    close(
        TransformSecondDerivative.of_composition(X, dX, ddX, Y, dY, ddY),
        second(product(curve, other)),
        1e-9,
    )


# --- identities


def test_either_twist(curve):
    X, v, a = curve.X, curve.v, curve.a
    close(TransformDerivative.from_world_twist(X, X * v), curve.dX, 1e-14)
    close(TransformSecondDerivative.from_world_twist(X, X * v, X * a), curve.ddX, 1e-13)
    close(curve.dX.as_adjoint(X), X.as_adjoint() @ v.as_cross(), 1e-13)
    close(curve.dX.as_adjoint_wrench(X), X.as_adjoint_wrench() @ v.as_cross_force(), 1e-13)
    close(curve.dX.transform(X, curve.m), X * v.cross(curve.m), 1e-13)
    close(curve.dX.transform(X, curve.f), X * v.cross(curve.f), 1e-13)


def test_a_rigid_body_changes_by_its_variation(curve):
    body = Inertia.from_box(3.0, [0.3, 0.2, 0.1]) + SE3.exp(curve.m) * Inertia.from_sphere(1.0, 0.2)
    world = curve.X * body
    close(curve.dX.transform(curve.X, body), world.variation(curve.X * curve.v), 1e-12)
    close(
        curve.dX.transform(curve.X, body),
        curve.dX.transform(curve.X, ArticulatedBodyInertia(body)),
        1e-15,
    )


def test_x_and_its_inverse_make_a_constant(curve):
    X, dX, ddX = curve.X, curve.dX, curve.ddX
    dY, ddY = dX.derivative_of_inverse(X), ddX.derivative_of_inverse(X, dX)
    close(
        TransformDerivative.of_composition(X, dX, X.inverse(), dY),
        TransformDerivative.zero(),
        1e-13,
        scale=10.0,
    )
    close(
        TransformSecondDerivative.of_composition(X, dX, ddX, X.inverse(), dY, ddY),
        TransformSecondDerivative.zero(),
        1e-13,
        scale=100.0,
    )


def test_a_vector_space(curve):
    dX, dZ = curve.dX, curve.any
    close(
        2.0 * dX + dZ - dX * 3.0,
        2.0 * np.asarray(dX) + np.asarray(dZ) - 3.0 * np.asarray(dX),
        1e-15,
    )
    assert -dX == -1.0 * dX == TransformDerivative.zero() - dX
    assert dX + TransformDerivative.zero() == dX


def test_what_is_refused(curve):
    with pytest.raises(ValueError, match="last row of zeros"):
        TransformDerivative.from_homogeneous(np.eye(4))
    with pytest.raises(ValueError, match=r"rotation: expected shape \(3, 3\), got \(2, 3\)"):
        TransformDerivative(np.zeros((2, 3)), np.zeros(3))
    with pytest.raises(TypeError, match="X: expected SE3, got TransformDerivative"):
        curve.dX.as_adjoint(curve.dX)
    with pytest.raises(TypeError, match="expected Motion, Force, .* got SE3"):
        curve.dX.transform(curve.X, curve.X)
    with pytest.raises(TypeError, match="twist: expected Motion, got Force"):
        TransformDerivative.from_body_twist(curve.X, curve.f)
    with pytest.raises(TypeError, match="unsupported operand"):
        curve.dX + curve.ddX
    with pytest.raises(TypeError, match="unsupported operand"):
        curve.dX * curve.dX
