# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Rigid-body inertias and velocities against Pinocchio; which numbers a body can have."""

import numpy as np
import pinocchio
import pytest

from dyn_ros.engine.spatial import SE3, ArticulatedBodyInertia, Force, Inertia, Motion
from peer import FILES, close, urdf

SEEDS = range(10)
TOLERANCE = 1e-13


@pytest.fixture(params=SEEDS)
def rng(request):
    return np.random.default_rng(request.param)


def random_inertia(rng):
    A = rng.normal(size=(3, 3))
    second = A @ A.T
    return Inertia(rng.uniform(0.1, 5.0), rng.normal(size=3), np.trace(second) * np.eye(3) - second)


def to_pin(value):
    if isinstance(value, SE3):
        return pinocchio.SE3(np.array(value.rotation), np.array(value.translation))
    if isinstance(value, Inertia):
        return pinocchio.Inertia(value.mass, np.array(value.com), np.array(value.rotational))
    return getattr(pinocchio, type(value).__name__)(np.asarray(value))


def same(ours, theirs):
    close(ours.mass, theirs.mass, TOLERANCE)
    close(ours.com, theirs.lever, TOLERANCE)
    close(ours.rotational, theirs.inertia, TOLERANCE)
    close(ours, theirs.matrix(), TOLERANCE)


def test_primitives():
    same(Inertia.from_box(3.0, [0.1, 0.2, 0.5]), pinocchio.Inertia.FromBox(3.0, 0.1, 0.2, 0.5))
    same(Inertia.from_sphere(3.0, 0.2), pinocchio.Inertia.FromSphere(3.0, 0.2))
    same(Inertia.from_cylinder(3.0, 0.2, 0.7), pinocchio.Inertia.FromCylinder(3.0, 0.2, 0.7))


def test_a_body(rng):
    body, v, f = random_inertia(rng), Motion(rng.normal(size=6)), Force(rng.normal(size=6))
    theirs, w = to_pin(body), to_pin(v)
    same(body, theirs)
    close(body.dynamic_parameters(), theirs.toDynamicParameters(), TOLERANCE)
    same(Inertia.from_dynamic_parameters(theirs.toDynamicParameters()), theirs)
    close(body.pseudo_inertia(), theirs.toPseudoInertia().toMatrix(), TOLERANCE)
    close(body * v, theirs * w, TOLERANCE)
    close(v.cross(body * v), theirs.vxiv(w), TOLERANCE)
    close(v.dot(body * v), theirs.vtiv(w), TOLERANCE)
    close(body.vxi(v), theirs.vxi(w), TOLERANCE)
    close(body.ivx(v), theirs.ivx(w), TOLERANCE)
    close(body.variation(v), theirs.variation(w), TOLERANCE)
    close(v.cross(f), w.cross(to_pin(f)), TOLERANCE)


def test_bodies_in_frames(rng):
    X, body, other = SE3.exp(rng.normal(size=6)), random_inertia(rng), random_inertia(rng)
    same(X * body, to_pin(X) * to_pin(body))
    same(X.act_inverse(body), to_pin(X).actInv(to_pin(body)))
    same(body + other, to_pin(body) + to_pin(other))


def test_a_light_body_far_away_costs_no_digits():
    near = Inertia(1.0, np.zeros(3), 1e-6 * np.eye(3))
    far = Inertia(1e-9, [1e3, 0.0, 0.0], np.zeros((3, 3)))
    for both in (near + far, far + near):
        moment = 1e-6 + 1e-9 / (1.0 + 1e-9) * 1e6
        close(both.rotational, np.diag([1e-6, moment, moment]), 1e-14)
        close(both.com, [1e-6 / (1.0 + 1e-9), 0.0, 0.0], 1e-14)


def test_placements(rng):
    X, Y = SE3.exp(rng.normal(size=6)), SE3.exp(rng.normal(size=6))
    theirs = to_pin(X)
    m, f = Motion(rng.normal(size=6)), Force(rng.normal(size=6))
    close(X * Y, (theirs * to_pin(Y)).homogeneous, TOLERANCE)
    close(X.as_adjoint(), theirs.toActionMatrix(), TOLERANCE)
    close(X.as_adjoint_wrench(), theirs.toDualActionMatrix(), TOLERANCE)
    for value in (m, f):
        close(X * value, theirs * to_pin(value), TOLERANCE)
        close(X.act_inverse(value), theirs.actInv(to_pin(value)), TOLERANCE)
    close(m.as_cross(), to_pin(m).action, TOLERANCE)
    close(m.as_cross_force(), to_pin(m).dualAction, TOLERANCE)
    close(SE3.exp(m), pinocchio.exp6(np.asarray(m)), TOLERANCE)
    close(X.log(), pinocchio.log6(theirs), TOLERANCE)
    close(SE3.jexp(m), pinocchio.Jexp6(np.asarray(m)), 1e-12)
    close(X.jlog(), pinocchio.Jlog6(theirs), 1e-12)
    close(X.interpolate(Y, 0.3), pinocchio.SE3.Interpolate(theirs, to_pin(Y), 0.3), TOLERANCE)


@pytest.mark.parametrize("robot", [name for name in FILES if name != "every_joint"])
def test_the_bodies_of_real_robots(robot):
    """Every body, what it weighs moved to the base, and all bodies as one."""
    model = pinocchio.buildModelFromXML(urdf(robot))
    data = model.createData()
    q = pinocchio.neutral(model)
    pinocchio.forwardKinematics(model, data, q)
    pinocchio.ccrba(model, data, q, np.zeros(model.nv))
    whole = Inertia.zero()
    for i in range(1, model.njoints):
        theirs, X = model.inertias[i], SE3.from_homogeneous(data.oMi[i].homogeneous)
        body = Inertia(theirs.mass, theirs.lever, theirs.inertia)
        close(body, theirs.matrix(), TOLERANCE)
        close(body.dynamic_parameters(), theirs.toDynamicParameters(), TOLERANCE)
        close(X * body, (data.oMi[i] * theirs).matrix(), TOLERANCE)
        whole = whole + X * body
    close(whole.com, data.com[0], 1e-12)
    close(SE3(np.eye(3), -whole.com) * whole, data.Ig.matrix(), 1e-11)


# --- physical consistency


def test_every_body_is_consistent(rng):
    points, masses = rng.normal(size=(5, 3)), rng.uniform(0.1, 1.0, 5)
    whole = Inertia.zero()
    for point, mass in zip(points, masses):
        whole = whole + Inertia(mass, point, np.zeros((3, 3)))
    assert whole.inconsistencies() == ()
    assert np.linalg.eigvalsh(whole.pseudo_inertia()).min() > 0.0
    X = SE3.exp(rng.normal(size=6))
    assert (X * whole).inconsistencies() == ()


@pytest.mark.parametrize(
    "body",
    [
        Inertia.from_box(1e-3, [1e-3, 1e-3, 1e-4]),
        Inertia(1.0, [5.0, -3.0, 100.0], np.diag([1.0, 2.0, 3.0])),
        Inertia(1.0, [0.0, 0.0, 0.0], np.diag([1e-9, 2e-9, 3e-9])),
    ],
)
def test_small_far_and_flat_bodies_are_consistent(body):
    turned = SE3.exp([1.0, 2.0, 3.0, 0.4, 0.5, 0.6]) * body
    assert body.inconsistencies() == () == turned.inconsistencies()


@pytest.mark.parametrize(
    "mass, moments, reasons",
    [
        (0.0, (1, 1, 1), ["the mass, 0 kg, is not positive"]),
        (-2.0, (1, 1, 1), ["the mass, -2 kg, is not positive"]),
        (1.0, (0, 1, 1), ["is not positive definite: its smallest principal moment is 0 kg m2"]),
        (1.0, (-0.5, 1, 1), ["smallest principal moment is -0.5 kg m2", "triangle inequality"]),
        (
            1.0,
            (1, 1, 2.001),
            ["its principal moment 2.001 kg m2 is larger than the sum of the others, 1 + 1 kg m2"],
        ),
        (0.0, (-1, -1, -3), ["not positive", "positive definite", "triangle inequality"]),
    ],
)
def test_reasons(mass, moments, reasons):
    body = Inertia(mass, [0.1, 0.2, 0.3], np.diag(np.array(moments, float)))
    told = body.inconsistencies()
    assert len(told) == len(reasons)
    for reason, part in zip(told, reasons):
        assert part in reason


@pytest.mark.parametrize("moments", [(1.0, 1.0, 2.0), (1e-3, 2.0, 2.001), (1e-12, 1e-12, 2e-12)])
def test_a_flat_body_may_be_off_by_rounding(moments):
    low, middle, high = moments
    for part, reasons in ((0.9e-9, 0), (1.1e-9, 1)):
        body = Inertia(1.0, np.zeros(3), np.diag([low, high * (1.0 + part), middle]))
        assert len(body.inconsistencies()) == reasons


def test_the_verdict_is_the_pseudo_inertias():
    """Positive mass and the triangle inequality say the same as its smallest eigenvalue."""
    rng = np.random.default_rng(3)
    verdicts = []
    for _ in range(500):
        moments = rng.uniform(0.0, 1.0, 3)
        body = Inertia(rng.uniform(-0.2, 1.0), rng.normal(size=3), np.diag(moments))
        verdicts.append(not body.inconsistencies())
        assert verdicts[-1] == (np.linalg.eigvalsh(body.pseudo_inertia()).min() >= 0.0)
    assert 100 < sum(verdicts) < 400


# --- bad input


def test_what_is_refused():
    with pytest.raises(
        ValueError, match="symmetric matrix, got one that differs from its transpose by 0.1"
    ):
        Inertia(1.0, np.zeros(3), [[1, 0.1, 0], [0, 1, 0], [0, 0, 1]])
    with pytest.raises(ValueError, match="differs from its transpose by 2"):
        ArticulatedBodyInertia(np.eye(6) + 2.0 * np.eye(6, k=3))
    with pytest.raises(ValueError, match=r"matrix: expected shape \(6, 6\), got \(3, 3\)"):
        ArticulatedBodyInertia(np.eye(3))
    with pytest.raises(ValueError, match="mass: expected a finite number, got nan"):
        Inertia(np.nan, np.zeros(3), np.eye(3))
    with pytest.raises(ValueError, match="mass: expected a finite number, got '1'"):
        Inertia("1", np.zeros(3), np.eye(3))
    with pytest.raises(ValueError, match=r"com: .* got inf in com\[1\]"):
        Inertia(1.0, [0, np.inf, 0], np.eye(3))
    with pytest.raises(ValueError, match=r"parameters: expected shape \(10,\), got \(9,\)"):
        Inertia.from_dynamic_parameters(np.ones(9))
    with pytest.raises(ValueError, match="expected a zero first moment for mass 0, got "):
        Inertia.from_dynamic_parameters([0, 1, 0, 0, 1, 0, 1, 0, 0, 1])
    with pytest.raises(ValueError, match="expected a zero first moment for mass 0, got "):
        Inertia(1.0, [1, 0, 0], np.eye(3)) + Inertia(-1.0, [0, 1, 0], np.eye(3))
    with pytest.raises(ValueError, match="radius: expected a positive number, got -1"):
        Inertia.from_sphere(1.0, -1.0)
    with pytest.raises(ValueError, match="mass: expected a positive number, got 0"):
        Inertia.from_box(0.0, [1, 1, 1])
    with pytest.raises(ValueError, match="size: expected a positive number, got 0"):
        Inertia.from_box(1.0, [1, 0, 1])
    with pytest.raises(TypeError, match="v: expected Motion, got Force"):
        Inertia.from_sphere(1.0, 1.0).variation(Force.zero())
    with pytest.raises(TypeError, match="unsupported operand"):
        Inertia.from_sphere(1.0, 1.0) * Force.zero()
