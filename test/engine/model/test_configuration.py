# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Configuration space: agreement with Pinocchio, the axioms of a Lie group, bad input."""

import math

import numpy as np
import pinocchio
import pytest

import dyn_ros
import peer

EVERY = pytest.mark.parametrize("root_joint", [None, "floating", "planar"])
# half of each is a floating joint's linear, half its angular part
STEPS = (0.0, 1e-300, 1e-12, 1e-9, 1e-8, 1e-6, 1e-4, 1e-3, 0.1, 1.0, 3.0)


def free_pair(robot, root_joint):
    """A pair without mimics: in Pinocchio's q each has its own number."""
    return peer.pair(robot, root_joint, "ignore")


def angles(model):
    """Indices into v of the joints whose q in Pinocchio is cos and sin of one angle."""
    return [
        v
        for joint, v in zip(model.tree.joints, model.idx_v, strict=True)
        if joint.kind == "continuous" and not joint.mimic
    ]


def wrapped(v, model):
    """v with the turns of continuous joints brought into +-pi, as Pinocchio measures them."""
    v = np.array(v)
    at = angles(model)
    v[..., at] = np.arctan2(np.sin(v[..., at]), np.cos(v[..., at]))
    return v


def turning(model):
    """Slices of v that turn: the angular part of floating joints, and spherical joints."""
    return [
        slice(v + nv - 3, v + nv)
        for v, nv, nq in zip(model.idx_v, model.nvs, model.nqs, strict=True)
        if nq > nv
    ]


def same_configuration(model, actual, expected, rtol=1e-12):
    """As places, not as numbers: q and -q of a quaternion are one rotation."""
    actual, expected = np.array(actual), np.array(expected)
    assert actual.shape == expected.shape
    for k in quaternions(model):
        sign = np.sign((actual[..., k : k + 4] * expected[..., k : k + 4]).sum(-1, keepdims=True))
        actual[..., k : k + 4] *= sign
    for k in planar_angles(model):
        actual[..., k] = expected[..., k] + np.angle(
            np.exp(1j * (actual[..., k] - expected[..., k]))
        )
    peer.close(actual, expected, rtol)


def quaternions(model):
    return [q + nq - 4 for q, nq in zip(model.idx_q, model.nqs, strict=True) if nq in (4, 7)]


def planar_angles(model):
    return [q + 2 for q, nq in zip(model.idx_q, model.nqs, strict=True) if nq == 3]


def step(pair, size, seed=0):
    """A velocity whose rotations have this size, in random directions."""
    v = size * pair.state(seed)[1]
    for part in turning(pair.model):
        way = np.random.default_rng(seed).normal(size=3)
        v[part] = size * way / np.linalg.norm(way)
    return v


# ---------------------------------------------------------------------------- Pinocchio


@peer.robots(root_joints=(None, "floating", "planar"))
def test_neutral_is_pinocchios(robot, root_joint):
    pair = free_pair(robot, root_joint)
    peer.close(pair.to_pin_q(pair.model.neutral()), pinocchio.neutral(pair.pin))
    assert pair.model.neutral().shape == (pair.model.nq,)


@peer.robots(root_joints=(None, "floating", "planar"))
def test_integrate_is_pinocchios(robot, root_joint):
    pair = free_pair(robot, root_joint)
    for seed, size in enumerate(STEPS):
        q, v = pair.state(seed)[0], step(pair, size, seed)
        expected = pinocchio.integrate(pair.pin, pair.to_pin_q(q), v)
        # as places: angles meet in their cos and sin, quaternions up to their sign
        same_configuration(
            pair.model,
            pair.from_pin_q(pair.to_pin_q(pair.model.integrate(q, v))),
            pair.from_pin_q(expected),
            1e-12,
        )


@peer.robots(root_joints=(None, "floating", "planar"))
def test_difference_is_pinocchios(robot, root_joint):
    pair = free_pair(robot, root_joint)
    for seed in range(5):
        q0, q1 = pair.state(seed)[0], pair.state(seed + 100)[0]
        expected = pinocchio.difference(pair.pin, pair.to_pin_q(q0), pair.to_pin_q(q1))
        peer.close(wrapped(pair.model.difference(q0, q1), pair.model), expected)


@peer.robots(root_joints=(None, "floating", "planar"))
@pytest.mark.parametrize("u", [0.0, 0.3, 1.0])
def test_interpolate_is_pinocchios(robot, root_joint, u):
    pair = free_pair(robot, root_joint)
    q0, q1 = pair.state(0)[0], pair.state(1)[0]
    for k, joint in enumerate(pair.model.tree.joints):  # so that Pinocchio's short way is ours
        if joint.kind == "continuous":
            at = pair.model.idx_q[k]
            q1[at] = q0[at] + math.remainder(q1[at] - q0[at], 2.0 * math.pi)
    expected = pinocchio.interpolate(pair.pin, pair.to_pin_q(q0), pair.to_pin_q(q1), u)
    found = pair.from_pin_q(pair.to_pin_q(pair.model.interpolate(q0, q1, u)))
    same_configuration(pair.model, found, pair.from_pin_q(expected), 1e-10)


# ---------------------------------------------------------------------------- axioms


def test_neutral_is_zeros_and_no_turn():
    model = peer.pair("every_joint", "floating").model
    q = model.neutral()
    start = model.idx_q[model.joint_index("satellite_free")]
    assert q[start : start + 7].tolist() == [0, 0, 0, 0, 0, 0, 1]
    assert q.sum() == 2.0 and np.count_nonzero(q) == 2  # the w of both floating joints
    assert peer.pair("ball_joints").model.neutral().tolist() == [0, 0, *[0, 0, 0, 1, 0, 0] * 3]


@EVERY
@pytest.mark.parametrize("size", STEPS + (math.pi - 1e-3, math.pi - 1e-6, math.pi - 1e-9))
def test_difference_undoes_integrate(root_joint, size):
    pair = peer.pair("every_joint_on_balls", root_joint)
    for seed in range(5):
        q, v = pair.state(seed)[0], step(pair, size, seed)
        back = pair.model.difference(q, pair.model.integrate(q, v))
        # q itself is of size pi, and is rounded
        peer.close(back, v, 1e-12, scale=max(size, math.pi))


@pytest.mark.parametrize("size", [1e-12, 1e-9, 1e-6, 1e-3])
def test_small_steps_from_neutral_keep_their_digits(size):
    """At the neutral configuration nothing large hides a small rotation's error."""
    pair = peer.pair("every_joint", "floating")
    v = step(pair, size)
    peer.close(
        pair.model.difference(pair.model.neutral(), pair.model.integrate(pair.model.neutral(), v)),
        v,
        1e-12,
    )


@EVERY
def test_integrate_undoes_difference(root_joint):
    pair = peer.pair("every_joint_on_balls", root_joint)
    for seed in range(20):
        q0, q1 = pair.state(seed)[0], pair.state(seed + 100)[0]
        same_configuration(pair.model, pair.model.integrate(q0, pair.model.difference(q0, q1)), q1)


@EVERY
def test_half_turns(root_joint):
    """At a half turn, where the logarithm has two answers, either leads to the place."""
    pair = peer.pair("every_joint_on_balls", root_joint)
    for axis in np.vstack([np.eye(3), -np.eye(3), [[1, 2, 3], [-1, 2, -3]]]):
        q, v = pair.state()[0], step(pair, 0.5)
        for part in turning(pair.model):
            v[part] = math.pi * axis / np.linalg.norm(axis)
        there = pair.model.integrate(q, v)
        back = pair.model.difference(q, there)
        same_configuration(pair.model, pair.model.integrate(q, back), there, 1e-12)
        for part in turning(pair.model):
            peer.close(np.linalg.norm(back[part]), math.pi, 1e-12)


@EVERY
def test_difference_goes_the_short_way(root_joint):
    pair = peer.pair("every_joint_on_balls", root_joint)
    q, v = pair.state()[0], step(pair, math.pi + 0.5)
    back = pair.model.difference(q, pair.model.integrate(q, v))
    for part in turning(pair.model):
        peer.close(back[part], v[part] * (1.0 - 2.0 * math.pi / (math.pi + 0.5)), 1e-12)


@EVERY
def test_nothing_moves_nothing(root_joint):
    pair = peer.pair("every_joint_on_balls", root_joint)
    q = pair.state()[0]
    peer.close(pair.model.integrate(q, np.zeros(pair.model.nv)), q, 1e-15)
    peer.close(pair.model.difference(q, q), np.zeros(pair.model.nv), 1e-15, scale=math.pi)


@EVERY
def test_steps_along_one_velocity_add_up(root_joint):
    pair = peer.pair("every_joint_on_balls", root_joint)
    q, v = pair.state()[0], step(pair, 1.0)
    two = pair.model.integrate(pair.model.integrate(q, 0.3 * v), 0.7 * v)
    same_configuration(pair.model, two, pair.model.integrate(q, v))


@EVERY
def test_both_signs_of_a_quaternion_are_one_place(root_joint):
    pair = peer.pair("every_joint_on_balls", root_joint)
    q0, q1 = pair.state(0)[0], pair.state(1)[0]
    other = q1.copy()
    for k in quaternions(pair.model):
        other[k : k + 4] *= -1.0
    peer.close(pair.model.difference(q0, other), pair.model.difference(q0, q1), 1e-14)


def test_quaternions_stay_unit():
    pair = peer.pair("every_joint", "floating")
    q, v = pair.state()[0], step(pair, 0.1)
    for _ in range(1000):
        q = pair.model.integrate(q, v)
    for k in quaternions(pair.model):
        peer.close(np.linalg.norm(q[k : k + 4]), 1.0, 1e-15)


def test_velocity_is_that_of_the_engine():
    """integrate moves the robot by the velocity that kinetic energy and rnea speak of."""
    pair = peer.pair("every_joint", "floating")
    q, v, _, _ = pair.state()
    h = 1e-4
    power = (
        pair.potential_energy(pair.model.integrate(q, h * v))
        - pair.potential_energy(pair.model.integrate(q, -h * v))
    ) / (2.0 * h)
    gravity = dyn_ros.generalized_gravity(pair.model, pair.data, q)
    peer.close(power, gravity @ v, 1e-7, scale=np.abs(gravity) @ np.abs(v))


# ---------------------------------------------------------------------------- derivatives

ROUNDS = (0.0, 0.1, 0.5, 1.0, 2.0, 3.0, math.pi - 1e-3)  # where Pinocchio has all digits
ALL = STEPS + (9.9e-3, 1.01e-2, 0.999, 1.001, math.pi - 1e-3, math.pi - 1e-6, math.pi - 1e-9)


def turned_by(pair, size, seed=0):
    """As `step`; linear velocities and those of all other joints are of size 1."""
    v = step(pair, 1.0, seed)
    for part in turning(pair.model):
        v[part] *= size
    for joint, start in zip(pair.model.tree.joints, pair.model.idx_v):
        if joint.kind == "planar":
            v[start + 2] = size
    return v


@peer.robots(
    ("every_joint", "ball_joints", "every_joint_on_balls", "solo12", "kinova"),
    (None, "floating", "planar"),
)
def test_derivatives_are_pinocchios(robot, root_joint):
    pair = free_pair(robot, root_joint)
    ends = pinocchio.ARG0, pinocchio.ARG1
    for seed, size in enumerate(ROUNDS):
        q, v = pair.state(seed)[0], turned_by(pair, size, seed)
        q1 = pair.model.integrate(q, v)
        for end, found in zip(ends, pair.model.d_integrate(q, v)):
            peer.close(found, pinocchio.dIntegrate(pair.pin, pair.to_pin_q(q), v, end), 1e-12)
        for end, found in zip(ends, pair.model.d_difference(q, q1)):
            peer.close(
                found,
                pinocchio.dDifference(pair.pin, pair.to_pin_q(q), pair.to_pin_q(q1), end),
                1e-12,
            )


def group_of(joint):
    """The numbers of a twist that a joint has."""
    return {"floating": [0, 1, 2, 3, 4, 5], "planar": [0, 1, 5], "spherical": [3, 4, 5]}[joint.kind]


def series(twist, shift):
    """The sum of (-ad)^k / (k + shift)!, accurate for twists of any size here."""
    w, v = (np.cross(x, np.eye(3)).T for x in (twist[3:], twist[:3]))
    ad = np.block([[w, v], [np.zeros((3, 3)), w]])
    total, power = np.zeros((6, 6)), np.eye(6)
    for k in range(60):
        total += power / float(math.factorial(k + shift))
        power = -ad @ power
    return total


@EVERY
@pytest.mark.parametrize("size", ALL)
def test_derivatives_keep_their_digits(root_joint, size):
    """By the series of the group, where Pinocchio's formulas cancel as well."""
    pair = free_pair("every_joint_on_balls", root_joint)
    model, q, v = pair.model, pair.state(3)[0], turned_by(pair, size, 4)
    expected_q, expected_v = np.eye(model.nv), np.eye(model.nv)
    for joint, start, nv in zip(model.tree.joints, model.idx_v, model.nvs):
        if nv > 1:
            own, at = group_of(joint), slice(start, start + nv)
            twist = np.zeros(6)
            twist[own] = v[at]
            expected_q[at, at] = series(twist, 0)[np.ix_(own, own)]
            expected_v[at, at] = series(twist, 1)[np.ix_(own, own)]
    dq, dv = model.d_integrate(q, v)
    peer.close(dq, expected_q, 1e-14)
    peer.close(dv, expected_v, 1e-14)
    d0, d1 = model.d_difference(q, model.integrate(q, v))
    peer.close(d1, np.linalg.inv(expected_v), 1e-13)
    peer.close(d0, -np.linalg.solve(expected_v, expected_q), 1e-13)


@EVERY
@pytest.mark.parametrize("size", [0.0, 1e-3, 0.7, 3.0])
def test_derivatives_by_differences(root_joint, size):
    pair = peer.pair("every_joint_on_balls", root_joint)
    model, q, v = pair.model, pair.state(5)[0], turned_by(pair, size, 6)
    there = model.integrate(q, v)

    def slope(function, h=1e-3):
        """Along each velocity, to the fourth order."""
        ways = h * np.eye(model.nv)
        return (
            8.0 * (function(ways) - function(-ways))
            - (function(2.0 * ways) - function(-2.0 * ways))
        ).T / (12.0 * h)

    dq, dv = model.d_integrate(q, v)
    peer.close(
        dq,
        slope(lambda x: model.difference(there, model.integrate(model.integrate(q, x), v))),
        1e-10,
    )
    peer.close(dv, slope(lambda y: model.difference(there, model.integrate(q, v + y))), 1e-10)
    d0, d1 = model.d_difference(q, there)
    peer.close(d0, slope(lambda x: model.difference(model.integrate(q, x), there)), 1e-10)
    peer.close(d1, slope(lambda y: model.difference(q, model.integrate(there, y))), 1e-10)


def test_derivatives_of_joints_with_one_coordinate():
    pair = peer.pair("panda")  # with a mimic joint
    q, v, _, _ = pair.state()
    one = np.eye(pair.model.nv)
    assert pair.has_mimics
    for found, expected in zip(
        (*pair.model.d_integrate(q, v), *pair.model.d_difference(q, q)), (one, one, -one, one)
    ):
        np.testing.assert_array_equal(found, expected)


# ---------------------------------------------------------------------------- distance and norm


@peer.robots(("every_joint", "ball_joints", "solo12", "ur5"), (None, "floating", "planar"))
def test_distance_is_pinocchios(robot, root_joint):
    pair = free_pair(robot, root_joint)
    for seed in range(5):
        q0, q1 = pair.state(seed)[0], pair.state(seed + 100)[0]
        for k in angles(pair.model):  # Pinocchio wraps them
            at = pair.model.idx_q[pair.model.idx_v.index(k)]
            q1[at] = q0[at] + math.remainder(q1[at] - q0[at], 2.0 * math.pi)
        expected = pinocchio.distance(pair.pin, pair.to_pin_q(q0), pair.to_pin_q(q1))
        found = pair.model.distance(q0, q1)
        assert isinstance(found, float)
        peer.close(found, expected, 1e-12)
        peer.close(pair.model.distance(q1, q0), expected, 1e-12)
        assert pair.model.distance(q0, q0) < 1e-14


@EVERY
@pytest.mark.parametrize("length", [1.0, 0.3, 1e-200, 5e-324, 1e300])
def test_normalize(root_joint, length):
    model = peer.pair("every_joint_on_balls", root_joint).model
    q = model.random_configuration(np.random.default_rng(0))
    scaled = q.copy()
    for k in quaternions(model):
        scaled[k : k + 4] *= length
    given = scaled.copy()
    found = model.normalize(scaled)
    np.testing.assert_array_equal(scaled, given)
    for k in quaternions(model):
        peer.close(np.linalg.norm(found[k : k + 4]), 1.0, 1e-15)
        if length != 5e-324:  # of which few digits are left
            peer.close(found[k : k + 4], q[k : k + 4], 1e-14)
            found[k : k + 4] = q[k : k + 4]
    if length != 5e-324:
        np.testing.assert_array_equal(found, q)
    assert model.is_normalized(model.normalize(scaled), 1e-14)
    np.testing.assert_array_equal(model.normalize([scaled, q])[0], model.normalize(scaled))


def test_normalize_is_pinocchios():
    pair = free_pair("ball_joints", "floating")
    q = pair.state(1)[0] * 1.3
    peer.close(
        pair.to_pin_q(pair.model.normalize(q)),
        pinocchio.normalize(pair.pin, pair.to_pin_q(q)),
        1e-15,
    )


def test_is_normalized():
    pair = peer.pair("every_joint_on_balls", "floating")
    model, q = pair.model, pair.state()[0]
    assert model.is_normalized(q) is True
    for k in quaternions(model):
        near, far = q.copy(), q.copy()
        near[k : k + 4] *= 1.0 + 4e-7
        far[k : k + 4] *= 1.0 - 6e-7
        assert model.is_normalized(near) is True and model.is_normalized(far) is False
        assert model.is_normalized(near, 1e-7) is False and model.is_normalized(far, 2e-6) is True
        assert model.is_normalized([q, far, near]).tolist() == [True, False, True]
        assert model.integrate(near, np.zeros(model.nv)).shape == q.shape
    assert not model.is_normalized(0.0 * q) and not model.is_normalized(1e200 * q)
    assert peer.pair("ur5").model.is_normalized(np.zeros((3, 6))).tolist() == [True] * 3


def test_a_quaternion_of_zeros():
    model = peer.pair("ball_joints", "floating").model
    q = model.neutral()
    q[3:7] = 0.0
    with pytest.raises(ValueError, match=r"q: expected.*q\[3:7\] \(joint 'root_joint'\), got 0 0"):
        model.normalize(q)
    with pytest.raises(ValueError, match=r"q: expected.*q\[1, 3:7\] \(joint 'root_joint'\)"):
        model.normalize([model.neutral(), q])


@pytest.mark.parametrize("tolerance", [0.0, -1.0, np.nan, np.inf, "small", None, [1e-6]])
def test_bad_tolerance(tolerance):
    model = peer.pair("ball_joints").model
    with pytest.raises(ValueError, match=r"tolerance: expected.*got"):
        model.is_normalized(model.neutral(), tolerance)


# ---------------------------------------------------------------------------- interpolate


@EVERY
def test_interpolate_from_one_end_to_the_other(root_joint):
    pair = peer.pair("every_joint_on_balls", root_joint)
    q0, q1 = pair.state(0)[0], pair.state(1)[0]
    same_configuration(pair.model, pair.model.interpolate(q0, q1, 0.0), q0)
    same_configuration(pair.model, pair.model.interpolate(q0, q1, 1.0), q1)
    half = pair.model.interpolate(q0, q1, 0.5)
    peer.close(pair.model.difference(q0, half), pair.model.difference(half, q1), 1e-12)


def test_a_fraction_beyond_the_range_of_floats_is_rejected():
    pair = peer.pair("every_joint")
    q = pair.model.neutral()
    with pytest.raises(ValueError, match="^u: expected a finite number"):
        pair.model.interpolate(q, q, 10**400)


def test_fractions_between_two_configurations_make_a_path():
    pair = peer.pair("every_joint", "floating")
    q0, q1 = pair.state(0)[0], pair.state(1)[0]
    path = pair.model.interpolate(q0, q1, [0.0, 0.5, 1.0])
    assert path.shape == (3, pair.model.nq)
    peer.close(path[1], pair.model.interpolate(q0, q1, 0.5), 1e-15)


# ---------------------------------------------------------------------------- random


def test_random_configurations_are_inside_the_limits():
    rng = np.random.default_rng(0)
    for root_joint in (None, "floating", "planar"):
        model = peer.pair("every_joint_on_balls", root_joint).model
        many = np.array([model.random_configuration(rng) for _ in range(500)])
        assert many.shape == (500, model.nq)
        assert (many >= model.lower).all() and (many <= model.upper).all()
        assert (many.std(axis=0) > 0.0).all()
        limited = np.isfinite(model.lower) & np.isfinite(model.upper)
        middle = (model.lower[limited] + model.upper[limited]) / 2.0
        assert (
            (many[:, limited].min(axis=0) < middle) & (many[:, limited].max(axis=0) > middle)
        ).all()
        for k in quaternions(model):
            peer.close(np.linalg.norm(many[:, k : k + 4], axis=1), np.ones(500), 1e-14)


def test_random_rotations_are_uniform():
    """Every component of the rotation matrix has mean 0 and variance 1/3."""
    model = peer.pair("every_joint", None).model
    rng = np.random.default_rng(0)
    (k,) = quaternions(model)
    x, y, z, w = np.array([model.random_configuration(rng) for _ in range(4000)])[:, k : k + 4].T
    for component in (1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w)):
        assert abs(component.mean()) < 0.04 and abs(component.var() - 1 / 3) < 0.02


def test_random_configurations_repeat_with_the_seed():
    model = peer.pair("every_joint", "floating").model
    one, two, other = (model.random_configuration(np.random.default_rng(s)) for s in (1, 1, 2))
    assert (one == two).all() and (one != other).any()


BODY = (
    '<inertial><mass value="1"/><inertia ixx="1" ixy="0" ixz="0" iyy="1" iyz="0" '
    'izz="1"/></inertial>'
)


def with_joint(kind, lower="0", upper="0"):
    """A model with one joint."""
    return dyn_ros.Model.from_urdf(f"""<robot name="r">
      <link name="a"/><link name="b">{BODY}</link>
      <joint name="j" type="{kind}"><parent link="a"/><child link="b"/>
        <limit lower="{lower}" upper="{upper}" effort="1" velocity="1"/></joint></robot>""")


def ranges(model):
    """The smallest and the largest number of many random configurations, to 1%."""
    many = np.array([model.random_configuration(np.random.default_rng(n)) for n in range(2000)])
    return many.min(axis=0), many.max(axis=0)


PI = math.pi


@pytest.mark.parametrize(
    "kind, lower, upper, low, high",
    [
        ("planar", "0", "0", [-1.0, -1.0, -PI], [1.0, 1.0, PI]),
        ("floating", "0", "0", [-1.0] * 3, [1.0] * 3),
        ("continuous", "0", "0", [-PI], [PI]),
        *(
            (kind, lower, upper, [low], [high])
            for kind, full in (("revolute", 2.0 * PI), ("prismatic", 2.0))
            for lower, upper, low, high in (
                ("-1e308", "1e308", -full / 2.0, full / 2.0),
                ("-1e16", "1e16", -full / 2.0, full / 2.0),
                ("-1e4", "1e4", -1e4, 1e4),
                ("-1e308", "0.5", 0.5 - full, 0.5),
                ("-1e308", "-5", -5.0 - full, -5.0),
                ("-1e308", "9", -full / 2.0, 9.0),
                ("0.5", "1e308", 0.5, 0.5 + full),
                ("5", "1e308", 5.0, 5.0 + full),
                ("-9", "1e308", -9.0, full / 2.0),
                ("-20001", "-20000", -20001.0, -20000.0),
                ("20000", "20001", 20000.0, 20001.0),
            )
        ),
    ],
)
def test_random_configurations_fill_their_range(kind, lower, upper, low, high):
    smallest, largest = ranges(with_joint(kind, lower, upper))
    for n, (start, end) in enumerate(zip(low, high)):
        assert start <= smallest[n] < start + 0.01 * (end - start)
        assert end >= largest[n] > end - 0.01 * (end - start)


@pytest.mark.parametrize("lower", ["0", "-0", "+0.0"])
@pytest.mark.parametrize("upper", ["0", "-0", "-0.0e5"])
def test_random_configuration_between_zeros_of_either_sign(lower, upper):
    model = with_joint("prismatic", lower, upper)
    assert model.random_configuration(np.random.default_rng(0)).tolist() == [0.0]


@pytest.mark.parametrize("kind", ["revolute", "prismatic"])
@pytest.mark.parametrize(
    "lower, upper",
    [
        ("-1e308", "1.7e308"),
        ("-1.7976931348623157e308", "1.7976931348623157e308"),
        ("2", "1"),
        ("1e308", "1.7e308"),
        ("0.5", "0.5"),
    ],
)
def test_random_configuration_with_odd_limits(kind, lower, upper):
    inertial = (
        '<inertial><mass value="1"/><inertia ixx="1" ixy="0" ixz="0" iyy="1" iyz="0" '
        'izz="1"/></inertial>'
    )
    model = dyn_ros.Model.from_urdf(f"""<robot name="r">
      <link name="a"/><link name="b">{inertial}</link>
      <joint name="j" type="{kind}"><parent link="a"/><child link="b"/>
        <limit lower="{lower}" upper="{upper}" effort="1" velocity="1"/></joint></robot>""")
    q = model.random_configuration(np.random.default_rng(0))
    assert np.isfinite(q).all()
    assert (q >= model.lower).all() and (q <= model.upper).all()


# ---------------------------------------------------------------------------- batch


@EVERY
@pytest.mark.parametrize("count", [0, 1, 9])
def test_batch_is_one_after_the_other(root_joint, count):
    pair = peer.pair("every_joint_on_balls", root_joint)
    model = pair.model
    q0, q1 = np.zeros((2, count, model.nq))
    v, u = np.zeros((count, model.nv)), np.linspace(0.0, 1.0, count)
    for row in range(count):
        q0[row], q1[row] = pair.state(row)[0], pair.state(row + 100)[0]
        v[row] = step(pair, STEPS[row], row)
    moved, way = model.integrate(q0, v), model.difference(q0, q1)
    between = model.interpolate(q0, q1, u)
    several = [
        *model.d_integrate(q0, v),
        *model.d_difference(q0, q1),
        model.distance(q0, q1),
        model.normalize(q0),
        model.is_normalized(q0),
    ]
    assert [x.shape[1:] for x in several] == [(model.nv, model.nv)] * 4 + [(), (model.nq,), ()]
    for row in range(count):
        alone = [
            *model.d_integrate(q0[row], v[row]),
            *model.d_difference(q0[row], q1[row]),
            model.distance(q0[row], q1[row]),
            model.normalize(q0[row]),
            model.is_normalized(q0[row]),
        ]
        for x, y in zip(several, alone):
            peer.close(x[row], y, 1e-14)
    assert (moved.shape, way.shape, between.shape) == (q0.shape, v.shape, q0.shape)
    for row in range(count):
        peer.close(moved[row], model.integrate(q0[row], v[row]), 1e-15)
        peer.close(way[row], model.difference(q0[row], q1[row]), 1e-15)
        peer.close(between[row], model.interpolate(q0[row], q1[row], u[row]), 1e-15)


# ---------------------------------------------------------------------------- bad input

CALLS = {
    "integrate": ("q", "v"),
    "difference": ("q0", "q1"),
    "interpolate": ("q0", "q1", "u"),
    "d_integrate": ("q", "v"),
    "d_difference": ("q0", "q1"),
    "distance": ("q0", "q1"),
}
ALONE = {"normalize": ("q",), "is_normalized": ("q",)}  # of any length of quaternions
SPOILED = {
    "too short": lambda x: x[:-1],
    "too long": lambda x: np.append(x, 0.0),
    "too deep": lambda x: x[None, None],
    "nan": lambda x: x * np.nan,
    "inf": lambda x: x + np.inf,
    "complex": lambda x: x + 1j,
    "text": lambda x: x.astype(str),
    "nothing": lambda x: None,
    "ragged": lambda x: [[1.0], [1.0, 2.0]],
}


@pytest.mark.parametrize("how", SPOILED)
@pytest.mark.parametrize(
    "name, argument",
    [
        (name, argument)
        for name, names in (CALLS | ALONE).items()
        for argument in names
        if argument != "u"
    ],
)
def test_bad_array(name, argument, how):
    pair = peer.pair("every_joint", "floating")
    values = {
        "q": pair.state()[0],
        "q0": pair.state()[0],
        "q1": pair.state(1)[0],
        "v": pair.state()[1],
        "u": 0.5,
    }
    values[argument] = SPOILED[how](values[argument])
    with pytest.raises(ValueError, match=rf"\b{argument}\b.*expected.*got"):
        getattr(pair.model, name)(*(values[key] for key in (CALLS | ALONE)[name]))


@pytest.mark.parametrize("u", [np.nan, np.inf, "half", None, 1j, [[0.5]]])
def test_bad_fraction(u):
    pair = peer.pair("every_joint", "floating")
    with pytest.raises(ValueError, match=r"\bu\b.*expected.*got"):
        pair.model.interpolate(pair.state(0)[0], pair.state(1)[0], u)


@pytest.mark.parametrize("name", CALLS)
def test_batches_of_different_size(name):
    pair = peer.pair("every_joint", "floating")
    values = {
        "q": pair.states(3)[0],
        "q0": pair.states(3)[0],
        "q1": pair.states(2)[0],
        "v": pair.states(2)[1],
        "u": np.array([0.1, 0.2]),
    }
    with pytest.raises(ValueError, match="3.*2"):
        getattr(pair.model, name)(*(values[key] for key in CALLS[name]))


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("length", [0.0, 0.9, 1.001])
def test_quaternion_that_is_not_unit(name, length):
    pair = peer.pair("every_joint", "floating")
    q, v, _, _ = pair.state()
    k = quaternions(pair.model)[-1]
    q[k : k + 4] *= length
    values = {"q": q, "q0": q, "q1": pair.state(1)[0], "v": v, "u": 0.5}
    with pytest.raises(ValueError, match=r"\bq0?\b.*unit quaternion.*satellite_free"):
        getattr(pair.model, name)(*(values[key] for key in CALLS[name]))
