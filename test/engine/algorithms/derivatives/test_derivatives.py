# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""First-order derivatives: of inverse and forward dynamics, statics, frames and the momentum."""

import numpy as np
import pinocchio
import pytest

import dyn_ros
import peer
from dyn_ros import ReferenceFrame
from peer import as_tuple

EVERY = peer.robots(root_joints=(None, "floating", "planar"))
SOME = peer.robots(
    (
        "every_joint",
        "double_pendulum",
        "panda",
        "kinova",
        "tiago",
        "solo12",
        "talos_reduced",
        "pr2",
        "ball_joints",
        "every_joint_on_balls",
    )
)
REFERENCES = pytest.mark.parametrize("reference", list(ReferenceFrame), ids=lambda x: x.name)
GRAVITY = (1.5, -2.5, 9.0)
DIFFERENCES = 1e-9


def copies(results):
    return [np.array(x) for x in results]


def inputs(pair, seed=0):
    q, v, a, tau = pair.state(seed)
    return {"q": q, "v": v, "a": a, "tau": tau, "f_ext": pair.wrenches(seed)}


def free(pair, q, *motions):
    """A state as arguments for Pinocchio."""
    return pair.pin, pair.pin_data, pair.to_pin_q(q), *(pair.G @ x for x in motions)


def forces(pair, f_ext):
    return () if f_ext is None else (pair.to_pin_f(f_ext),)


def projected(pair, matrix):
    """A matrix of torques by coordinates of the free robot, of the one with mimics."""
    return pair.G.T @ matrix @ pair.G


def full(upper):
    return np.triu(upper) + np.triu(upper, 1).T


def close(actual, expected, rtol, *factors):
    """peer.close where sums of products of these factors may cancel to nearly nothing."""
    summands = np.prod([np.abs(x).max(initial=0.0) for x in factors])
    peer.close(actual, expected, rtol, max(summands, np.abs(expected).max(initial=0.0)))


def summands(pair, columns):
    """What forces by configuration or velocity are sums of; velocities are at most 1 here."""
    return np.hstack([columns, pair.pin_data.dFda])


def by_configuration(pair, q, function):
    """The derivative of an array along each velocity, as its last axis."""
    ways = np.eye(pair.model.nv)
    return np.stack([peer.along(pair, q, way, function, 5e-4) for way in ways], -1)


def by_motion(x, function):
    """The derivative of an array by a vector, as its last axis; exact for squares."""
    return np.stack(
        [0.5 * (np.array(function(x + way)) - function(x - way)) for way in np.eye(len(x))], -1
    )


# --- inverse dynamics


def pin_rnea_derivatives(pair, q, v, a, f_ext):
    pinocchio.computeRNEADerivatives(*free(pair, q, v, a), *forces(pair, f_ext))
    d = pair.pin_data
    return [projected(pair, x) for x in (d.dtau_dq, d.dtau_dv, full(d.M))]


@EVERY
@pytest.mark.parametrize("pushed", [False, True], ids=["free", "pushed"])
def test_rnea_derivatives_are_pinocchios(robot, root_joint, pushed):
    pair = peer.pair(robot, root_joint)
    for seed in range(3):
        q, v, a, _ = pair.state(seed)
        f_ext = pair.wrenches(seed) if pushed else None
        found = dyn_ros.rnea_derivatives(pair.model, pair.data, q, v, a, f_ext)
        expected = pin_rnea_derivatives(pair, q, v, a, f_ext)
        d = pair.pin_data
        for x, y, columns in zip(found, expected, (d.dFdq, d.dFdv, d.dFda), strict=True):
            close(x, y, 1e-12, d.J, summands(pair, columns))
        peer.close(pair.data.tau, pair.rnea(q, v, a, f_ext), 1e-12)


@SOME
def test_rnea_derivatives_with_armature_and_another_gravity(robot, root_joint):
    pair = peer.new_pair(robot, root_joint)
    pair.set_gravity(GRAVITY)
    pair.set_armature(np.random.default_rng(1).uniform(0.01, 0.5, pair.model.nv))
    q, v, a, _ = pair.state(4)
    found = copies(dyn_ros.rnea_derivatives(pair.model, pair.data, q, v, a))
    for x, y in zip(found, pin_rnea_derivatives(pair, q, v, a, None), strict=True):
        peer.close(x, y, 1e-12)
    peer.close(pair.data.tau, dyn_ros.rnea(pair.model, dyn_ros.Data(pair.model), q, v, a), 1e-12)


@SOME
def test_rnea_derivatives_are_those_of_rnea(robot, root_joint):
    pair = peer.pair(robot, root_joint)
    model = pair.model
    q, v, a, _ = pair.state(5)
    f_ext = pair.wrenches(5)
    dtau_dq, dtau_dv, M = copies(dyn_ros.rnea_derivatives(model, pair.data, q, v, a, f_ext))

    def tau(q=q, v=v, a=a):
        return dyn_ros.rnea(model, pair.data, q, v, a, f_ext).copy()

    peer.close(dtau_dq, by_configuration(pair, q, tau), DIFFERENCES)
    peer.close(dtau_dv, by_motion(v, lambda v: tau(v=v)), 1e-11)
    peer.close(M, by_motion(a, lambda a: tau(a=a)), 1e-11)


@EVERY
def test_inertia_matrix_of_rnea_derivatives(robot, root_joint):
    pair = peer.pair(robot, root_joint)
    q, v, a, _ = pair.state(6)
    M = dyn_ros.rnea_derivatives(pair.model, pair.data, q, v, a)[2].copy()
    assert np.array_equal(M, M.T)
    peer.close(M, dyn_ros.crba(pair.model, pair.data, q), 1e-12)


def parents(pair):
    """For each column its joint's parent; 0 is the universe."""
    return np.repeat(list(pair.pin.parents)[1:], list(pair.pin.nvs)[1:])


def crossed(motions, columns):
    return (
        np.array([pinocchio.Motion(m).action @ column for m, column in zip(motions, columns.T)])
        .reshape(-1, 6)
        .T
    )


@SOME
def test_columns_that_rnea_derivatives_leave(robot, root_joint):
    """Under Pinocchio's names, in the world; a mimic joint's with its multiplier in them."""
    pair = peer.pair(robot, root_joint)
    q, v, a, _ = pair.state(7)
    dyn_ros.rnea_derivatives(pair.model, pair.data, q, v, a)
    pin_rnea_derivatives(pair, q, v, a, None)
    mine, theirs, ratio = pair.data, pair.pin_data, pair.G.sum(1)
    for name in ("J", "dJ", "dAdq", "dAdv", "dFdq", "dFdv", "dFda"):
        assert getattr(mine, name).flags.f_contiguous
        peer.close(getattr(mine, name), getattr(theirs, name) * ratio, 1e-12)
    world = [X.toActionMatrix() for X in theirs.oMi]
    ov = np.array([X @ m.vector for X, m in zip(world, theirs.v)])
    peer.close(mine.ov, ov[1:], 1e-12)
    oa_gf = np.vstack([[*-pair.model.gravity, 0, 0, 0], mine.oa_gf])[parents(pair)]
    ov = ov[parents(pair)]
    psid = crossed(ov, theirs.J * ratio)
    scale = max(1.0, np.abs(mine.dJ).max())
    peer.close(mine.psid, psid, 1e-12, scale)
    assert np.array_equal(mine.dVdq, mine.psid)
    psidd = crossed(oa_gf, theirs.J * ratio) + crossed(ov, psid)
    peer.close(mine.psidd, psidd, 1e-12, np.abs(mine.psidd).max())


# --- statics


@EVERY
def test_gravity_and_static_derivatives_are_pinocchios(robot, root_joint):
    pair = peer.pair(robot, root_joint)
    q, f_ext = pair.state(8)[0], pair.wrenches(8)
    peer.close(
        dyn_ros.generalized_gravity_derivatives(pair.model, pair.data, q),
        projected(pair, pinocchio.computeGeneralizedGravityDerivatives(*free(pair, q))),
        1e-12,
    )
    peer.close(
        dyn_ros.static_torque_derivatives(pair.model, pair.data, q, f_ext),
        projected(
            pair, pinocchio.computeStaticTorqueDerivatives(*free(pair, q), pair.to_pin_f(f_ext))
        ),
        1e-12,
    )


@SOME
def test_gravity_and_static_derivatives_are_those_of_torques(robot, root_joint):
    pair = peer.new_pair(robot, root_joint)
    pair.set_gravity(GRAVITY)
    model, data = pair.model, pair.data
    q, f_ext = pair.state(9)[0], pair.wrenches(9)
    peer.close(
        dyn_ros.generalized_gravity_derivatives(model, data, q).copy(),
        by_configuration(pair, q, lambda q: dyn_ros.generalized_gravity(model, data, q).copy()),
        DIFFERENCES,
    )
    peer.close(
        dyn_ros.static_torque_derivatives(model, data, q, f_ext).copy(),
        by_configuration(pair, q, lambda q: dyn_ros.static_torque(model, data, q, f_ext).copy()),
        DIFFERENCES,
    )


@SOME
def test_statics_are_rnea_at_rest(robot, root_joint):
    pair = peer.pair(robot, root_joint)
    q, f_ext, rest = pair.state(10)[0], pair.wrenches(10), np.zeros(pair.model.nv)
    static = dyn_ros.static_torque_derivatives(pair.model, pair.data, q, f_ext).copy()
    peer.close(
        static, dyn_ros.rnea_derivatives(pair.model, pair.data, q, rest, rest, f_ext)[0], 1e-13
    )
    nothing = dyn_ros.static_torque_derivatives(pair.model, pair.data, q, 0.0 * f_ext).copy()
    assert np.array_equal(
        nothing, dyn_ros.generalized_gravity_derivatives(pair.model, pair.data, q)
    )


# --- Coriolis matrix


@EVERY
def test_coriolis_matrix_is_pinocchios(robot, root_joint):
    pair = peer.pair(robot, root_joint)
    for seed in range(3):
        q, v, _, _ = pair.state(seed)
        expected = projected(pair, pinocchio.computeCoriolisMatrix(*free(pair, q, v)))
        close(
            dyn_ros.coriolis_matrix(pair.model, pair.data, q, v),
            expected,
            1e-12,
            pair.pin_data.J,
            np.hstack([pair.pin_data.dFdv, pair.pin_data.Ag]),
        )


@SOME
def test_identities_of_the_coriolis_matrix(robot, root_joint):
    pair = peer.pair(robot, root_joint)
    model, data = pair.model, pair.data
    q, v, _, _ = pair.state(11)
    C = dyn_ros.coriolis_matrix(model, data, q, v).copy()
    torques = dyn_ros.nonlinear_effects(model, data, q, v).copy()
    size = np.abs(torques).max()
    peer.close(C @ v, torques - dyn_ros.generalized_gravity(model, data, q), 1e-12, size)
    rate = peer.along(pair, q, v, lambda q: dyn_ros.crba(model, data, q).copy(), 5e-4)
    peer.close(C + C.T, rate, DIFFERENCES)
    peer.close(dyn_ros.coriolis_matrix(model, data, q, -2.0 * v), -2.0 * C, 1e-13)
    dtau_dv = dyn_ros.rnea_derivatives(model, data, q, v, 0.0 * v)[1]
    peer.close(dtau_dv @ v, 2.0 * C @ v, 1e-12, np.abs(C).max())  # squares in v


# --- forward dynamics


@EVERY
@pytest.mark.parametrize("pushed", [False, True], ids=["free", "pushed"])
def test_aba_derivatives_are_pinocchios(robot, root_joint, pushed):
    pair = peer.pair(robot, root_joint)
    for seed in range(3):
        q, v, _, tau = pair.state(seed)
        f_ext = pair.wrenches(seed) if pushed else None
        ddq = pair.aba(q, v, tau, f_ext)
        if pair.has_mimics:  # Pinocchio refuses them
            dtau_dq, dtau_dv, M = pin_rnea_derivatives(pair, q, v, ddq, f_ext)
            Minv = np.linalg.inv(M)
            expected = -Minv @ dtau_dq, -Minv @ dtau_dv, Minv
        else:
            pinocchio.computeABADerivatives(*free(pair, q, v, tau), *forces(pair, f_ext))
            d = pair.pin_data
            expected = d.ddq_dq, d.ddq_dv, full(d.Minv)
        found = dyn_ros.aba_derivatives(pair.model, pair.data, q, v, tau, f_ext)
        d = pair.pin_data
        for x, y, columns in zip(found, expected, (d.dFdq, d.dFdv, d.dFda), strict=True):
            close(x, y, 1e-10, expected[2], d.J, summands(pair, columns))
        peer.close(pair.data.ddq, ddq)


@SOME
def test_aba_derivatives_are_those_of_aba(robot, root_joint):
    pair = peer.new_pair(robot, root_joint)
    pair.set_gravity(GRAVITY)
    model, data = pair.model, pair.data
    model.armature = np.random.default_rng(2).uniform(0.1, 0.5, model.nv)
    q, v, _, tau = pair.state(12)
    f_ext = pair.wrenches(12)
    ddq_dq, ddq_dv, ddq_dtau = copies(dyn_ros.aba_derivatives(model, data, q, v, tau, f_ext))
    assert np.array_equal(data.ddq, dyn_ros.aba(model, dyn_ros.Data(model), q, v, tau, f_ext))

    def ddq(q=q, v=v, tau=tau):
        return dyn_ros.aba(model, data, q, v, tau, f_ext).copy()

    peer.close(ddq_dq, by_configuration(pair, q, ddq), DIFFERENCES)
    peer.close(ddq_dv, by_motion(v, lambda v: ddq(v=v)), 1e-11)
    peer.close(ddq_dtau, by_motion(tau, lambda tau: ddq(tau=tau)), 1e-11)


@SOME
def test_aba_derivatives_undo_those_of_rnea(robot, root_joint):
    pair = peer.pair(robot, root_joint)
    model, data = pair.model, pair.data
    q, v, _, tau = pair.state(13)
    ddq_dq, ddq_dv, ddq_dtau = copies(dyn_ros.aba_derivatives(model, data, q, v, tau))
    inside = copies([data.dtau_dq, data.dtau_dv, data.M])
    dtau_dq, dtau_dv, M = copies(dyn_ros.rnea_derivatives(model, data, q, v, data.ddq.copy()))
    for x, y in zip(inside, (dtau_dq, dtau_dv, M), strict=True):
        peer.close(x, y, 1e-12)
    rounding = 1e-14 * np.linalg.norm(ddq_dtau, 2) * np.linalg.norm(M, 2)
    peer.close(M @ ddq_dq, -dtau_dq, rounding)
    peer.close(M @ ddq_dv, -dtau_dv, rounding)
    assert np.array_equal(ddq_dtau, ddq_dtau.T)
    peer.close(ddq_dtau, dyn_ros.minverse(model, data, q), 1e-12)


@pytest.mark.parametrize("count", [None, 9], ids=["one", "batch"])
def test_aba_derivatives_where_a_joint_moves_nothing(count):
    model = dyn_ros.Model.from_urdf("""<robot name="massless">
      <link name="base"/><link name="hand"/>
      <joint name="loose" type="revolute"><parent link="base"/><child link="hand"/>
        <limit lower="-1" upper="1" effort="1" velocity="1"/></joint></robot>""")
    zero = np.zeros((1,) if count is None else (count, 1))
    with pytest.raises(np.linalg.LinAlgError, match="aba_derivatives.*loose"):
        dyn_ros.aba_derivatives(model, dyn_ros.Data(model), zero, zero, zero)


# --- frames


def a_few(pair):
    """Frames far out, in the middle, on the base; joints and links."""
    count = len(pair.model.frame_names)
    return sorted({0, count // 3, count // 2, count - 1})


def pin_frame(pair, index):
    frame = pair.model.tree.frames[index]
    kinds = {"joint": pinocchio.JOINT, "fixed_joint": pinocchio.FIXED_JOINT, "body": pinocchio.BODY}
    return pair.pin.getFrameId(frame.name, kinds[frame.kind])


def pin_frame_derivatives(pair, index, reference):
    """Pinocchio's derivatives; those with respect to configuration follow from its LOCAL ones.

    In LOCAL, the axes move with the frame; in other axes, each column u has an additional term
    for the motion of the frame. Pinocchio's own derivatives of the acceleration in WORLD and
    LOCAL_WORLD_ALIGNED lack a term in the columns of a floating joint whose parent moves, as
    finite differences show.
    """
    place = pair.pin, pair.pin_data, pin_frame(pair, index)
    X = pair.pin_data.oMf[place[2]]
    if reference == ReferenceFrame.LOCAL_WORLD_ALIGNED:
        X = pinocchio.SE3(X.rotation, np.zeros(3))
    local = pinocchio.getFrameAccelerationDerivatives(*place, pinocchio.LOCAL)
    if reference == ReferenceFrame.LOCAL:
        return local
    rule = getattr(pinocchio, reference.name)
    _, _, da_dv, da_da = pinocchio.getFrameAccelerationDerivatives(*place, rule)
    turning = da_da.copy()
    if reference == ReferenceFrame.LOCAL_WORLD_ALIGNED:
        turning[:3] = 0.0
    motions = (
        pinocchio.getFrameVelocity(*place, rule),
        pinocchio.getFrameAcceleration(*place, rule),
    )
    dv_dq, da_dq = (
        X.toActionMatrix() @ derivative - motion.action @ turning
        for derivative, motion in zip(local, motions)
    )
    return dv_dq, da_dq, da_dv, da_da


@EVERY
@REFERENCES
def test_frame_derivatives_are_pinocchios(robot, root_joint, reference):
    pair = peer.pair(robot, root_joint)
    q, v, a, _ = pair.state(14)
    pinocchio.computeForwardKinematicsDerivatives(*free(pair, q, v, a))
    pinocchio.updateFramePlacements(pair.pin, pair.pin_data)
    for index in a_few(pair):
        expected = [x @ pair.G for x in pin_frame_derivatives(pair, index, reference)]
        found = dyn_ros.frame_acceleration_derivatives(
            pair.model, pair.data, q, v, a, index, reference
        )
        for x, y in zip(found, expected, strict=True):
            peer.close(x, y, 1e-11, scale=max(1.0, np.abs(y).max()))
        found = dyn_ros.frame_velocity_derivatives(pair.model, pair.data, q, v, index, reference)
        for x, y in zip(found, (expected[0], expected[3]), strict=True):
            peer.close(x, y, 1e-11, scale=max(1.0, np.abs(y).max()))


@SOME
def test_how_local_world_aligned_derivatives_differ_from_pinocchios(robot, root_joint):
    """As the docstring says: by (w x u, 0)."""
    pair = peer.pair(robot, root_joint)
    q, v, a, _ = pair.state(14)
    pinocchio.computeForwardKinematicsDerivatives(*free(pair, q, v, a))
    pinocchio.updateFramePlacements(pair.pin, pair.pin_data)
    index = len(pair.model.frame_names) - 1
    place = (pair.pin, pair.pin_data, pin_frame(pair, index), pinocchio.LOCAL_WORLD_ALIGNED)
    dv_dq, J = (x @ pair.G for x in pinocchio.getFrameVelocityDerivatives(*place))
    w = pinocchio.getFrameVelocity(*place).angular
    dv_dq[:3] += np.cross(w, J[:3], axisb=0).T
    peer.close(
        dyn_ros.frame_velocity_derivatives(
            pair.model, pair.data, q, v, index, ReferenceFrame.LOCAL_WORLD_ALIGNED
        )[0],
        dv_dq,
        1e-11,
        scale=max(1.0, np.abs(dv_dq).max()),
    )


@SOME
@REFERENCES
def test_frame_derivatives_are_those_of_motions(robot, root_joint, reference):
    pair = peer.pair(robot, root_joint)
    model, data = pair.model, pair.data
    q, v, a, _ = pair.state(15)
    for index in a_few(pair)[-2:]:

        def velocity(q=q, v=v, index=index):
            return dyn_ros.frame_velocity(model, data, q, v, index, reference).copy()

        def acceleration(q=q, v=v, a=a, index=index):
            return dyn_ros.frame_acceleration(model, data, q, v, a, index, reference).copy()

        expected = (
            by_configuration(pair, q, velocity),
            by_configuration(pair, q, acceleration),
            by_motion(v, lambda v: acceleration(v=v)),
            by_motion(a, lambda a: acceleration(a=a)),
        )
        found = dyn_ros.frame_acceleration_derivatives(model, data, q, v, a, index, reference)
        for x, y in zip(found, expected, strict=True):
            peer.close(x, y, DIFFERENCES, scale=max(1.0, np.abs(y).max()))
        assert np.array_equal(data.v_partial_dv, data.a_partial_da)


@pytest.mark.parametrize("name", ["frame_velocity_derivatives", "frame_acceleration_derivatives"])
def test_an_unknown_frame_or_reference_frame(name):
    pair = peer.pair("panda")
    motions = pair.state()[: 3 if "acceleration" in name else 2]
    function = getattr(dyn_ros, name)
    with pytest.raises(ValueError, match="nowhere.*available: .*panda_link5"):
        function(pair.model, pair.data, *motions, "nowhere", 0)
    with pytest.raises(ValueError, match="reference_frame.*LOCAL_WORLD_ALIGNED 2.*got 3"):
        function(pair.model, pair.data, *motions, "panda_link5", 3)


# --- points fixed to frames, and classical accelerations

OFFSET = np.array([0.3, -0.2, 0.5])


def point_motion(pair, q, v, a, index, reference, classical=False):
    """Velocity and acceleration of the point at OFFSET, from its Jacobian."""
    model, data = pair.model, pair.data
    aligned = reference == ReferenceFrame.LOCAL_WORLD_ALIGNED
    place = index, ReferenceFrame.LOCAL if aligned else reference, OFFSET
    dJ = dyn_ros.frame_jacobian_time_variation(model, data, q, v, *place)
    J = data.frame_jacobian
    velocity, acceleration = J @ v, J @ a + dJ @ v
    if classical:
        acceleration[:3] += np.cross(velocity[3:], velocity[:3])
    if aligned:
        R = np.kron(np.eye(2), dyn_ros.frame_placements(model, data, q)[index][:3, :3])
        velocity, acceleration = R @ velocity, R @ acceleration
    return velocity, acceleration


@SOME
@REFERENCES
@pytest.mark.parametrize("classical", [False, True], ids=["spatial", "classical"])
def test_derivatives_of_points_are_those_of_their_motion(robot, root_joint, reference, classical):
    pair = peer.pair(robot, root_joint)
    model, data = pair.model, pair.data
    q, v, a, _ = pair.state(25)
    for index in a_few(pair)[-2:]:

        def motion(k, q=q, v=v, a=a, index=index):
            return point_motion(pair, q, v, a, index, reference, classical)[k]

        expected = (
            by_configuration(pair, q, lambda q: motion(0, q)),
            by_configuration(pair, q, lambda q: motion(1, q)),
            by_motion(v, lambda v: motion(1, v=v)),
            by_motion(a, lambda a: motion(1, a=a)),
        )
        found = dyn_ros.frame_acceleration_derivatives(
            model, data, q, v, a, index, reference, OFFSET, classical=classical
        )
        for x, y in zip(found, expected, strict=True):
            peer.close(x, y, DIFFERENCES, scale=max(1.0, np.abs(y).max()))
        found = dyn_ros.frame_velocity_derivatives(model, data, q, v, index, reference, OFFSET)
        for x, y in zip(found, (expected[0], expected[3]), strict=True):
            peer.close(x, y, DIFFERENCES, scale=max(1.0, np.abs(y).max()))


@SOME
@REFERENCES
def test_derivatives_of_the_classical_acceleration_of_a_frame(robot, root_joint, reference):
    pair = peer.pair(robot, root_joint)
    model, data = pair.model, pair.data
    q, v, a, _ = pair.state(26)
    index = len(model.frame_names) - 1

    def acceleration(q=q, v=v, a=a):
        return dyn_ros.frame_classical_acceleration(model, data, q, v, a, index, reference).copy()

    expected = (
        by_configuration(pair, q, acceleration),
        by_motion(v, lambda v: acceleration(v=v)),
        by_motion(a, lambda a: acceleration(a=a)),
    )
    found = dyn_ros.frame_acceleration_derivatives(
        model, data, q, v, a, index, reference, classical=True
    )[1:]
    for x, y in zip(found, expected, strict=True):
        peer.close(x, y, DIFFERENCES, scale=max(1.0, np.abs(y).max()))


@EVERY
@pytest.mark.parametrize(
    "reference", [ReferenceFrame.LOCAL, ReferenceFrame.LOCAL_WORLD_ALIGNED], ids=lambda x: x.name
)
def test_derivatives_of_points_are_pinocchios(robot, root_joint, reference):
    pair = peer.pair(robot, root_joint)
    q, v, a, _ = pair.state(27)
    pinocchio.computeForwardKinematicsDerivatives(*free(pair, q, v, a))
    for index in a_few(pair):
        frame = pair.pin.frames[pin_frame(pair, index)]
        point = frame.placement * pinocchio.SE3(np.eye(3), OFFSET)
        place = (
            pair.pin,
            pair.pin_data,
            frame.parentJoint,
            point,
            getattr(pinocchio, reference.name),
        )
        dv_dq, dv_dv = pinocchio.getPointVelocityDerivatives(*place)
        expected = pinocchio.getPointClassicAccelerationDerivatives(*place)
        found = dyn_ros.frame_acceleration_derivatives(
            pair.model, pair.data, q, v, a, index, reference, OFFSET, classical=True
        )
        for x, y in zip((*found, pair.data.v_partial_dv), (*expected, dv_dv), strict=True):
            peer.close(x[:3], y @ pair.G, 1e-11, scale=max(1.0, np.abs(y).max()))
        found = dyn_ros.frame_velocity_derivatives(
            pair.model, pair.data, q, v, index, reference, OFFSET
        )
        for x, y in zip(found, (dv_dq, dv_dv), strict=True):
            peer.close(x[:3], y @ pair.G, 1e-11, scale=max(1.0, np.abs(y).max()))


@REFERENCES
def test_an_offset_of_zero_is_the_origin(reference):
    pair = peer.pair("tiago", "floating")
    q, v, a, _ = pair.state(28)
    index = len(pair.model.frame_names) - 1
    place = pair.model, pair.data, q, v, a, index, reference
    expected = copies(dyn_ros.frame_acceleration_derivatives(*place))
    for x, y in zip(
        dyn_ros.frame_acceleration_derivatives(*place, np.zeros(3)), expected, strict=True
    ):
        assert np.array_equal(x, y)
    if reference == ReferenceFrame.WORLD:  # at the world's origin, whatever the point is
        for x, y in zip(
            dyn_ros.frame_acceleration_derivatives(*place, OFFSET), expected, strict=True
        ):
            peer.close(x, y, 1e-12, scale=np.abs(y).max(initial=1.0))


@pytest.mark.parametrize("offsets", [OFFSET, np.outer(np.arange(9.0), OFFSET)], ids=["one", "each"])
@pytest.mark.parametrize("classical", [False, True], ids=["spatial", "classical"])
@pytest.mark.parametrize("robot", ["tiago", "every_joint"])
def test_a_batch_of_points(robot, classical, offsets):
    pair = peer.pair(robot, "floating")
    model, data = pair.model, pair.data
    q, v, a, _ = pair.states(9, 29)
    place = len(model.frame_names) - 1, ReferenceFrame.LOCAL_WORLD_ALIGNED
    found = dyn_ros.frame_acceleration_derivatives(
        model, data, q, v, a, *place, offsets, classical=classical, threads=2
    )
    velocity = dyn_ros.frame_velocity_derivatives(model, data, q, v, *place, offsets)
    for n, point in enumerate(np.broadcast_to(offsets, (9, 3))):
        state = model, data, q[n], v[n]
        for x, y in zip(
            found,
            dyn_ros.frame_acceleration_derivatives(
                *state, a[n], *place, point, classical=classical
            ),
            strict=True,
        ):
            peer.close(x[n], y, 1e-13, scale=np.abs(y).max(initial=1.0))
        for x, y in zip(
            velocity, dyn_ros.frame_velocity_derivatives(*state, *place, point), strict=True
        ):
            peer.close(x[n], y, 1e-13, scale=np.abs(y).max(initial=1.0))


@pytest.mark.parametrize(
    "offset, words",
    [([0.0, 0.0], r"offset: expected shape \(3,\)"), ([0.0, np.nan, 0.0], "offset: .*nan")],
)
def test_a_wrong_point(offset, words):
    pair = peer.pair("panda")
    q, v, a, _ = pair.state()
    with pytest.raises(ValueError, match=words):
        dyn_ros.frame_velocity_derivatives(pair.model, pair.data, q, v, 3, 0, offset)
    with pytest.raises(ValueError, match=words):
        dyn_ros.frame_acceleration_derivatives(pair.model, pair.data, q, v, a, 3, 0, offset)


# --- momentum


@EVERY
def test_centroidal_derivatives_are_pinocchios(robot, root_joint):
    pair = peer.pair(robot, root_joint)
    for seed in range(3):
        q, v, a, _ = pair.state(seed)
        found = dyn_ros.centroidal_derivatives(pair.model, pair.data, q, v, a)
        expected = pinocchio.computeCentroidalDynamicsDerivatives(*free(pair, q, v, a))
        mine, theirs = pair.data, pair.pin_data
        columns = theirs.dHdq, theirs.dFdq, theirs.dFdv, theirs.dFda
        for x, y, column in zip(found, expected, columns, strict=True):
            close(x, y @ pair.G, 1e-11, summands(pair, column))
        peer.close(mine.hg, theirs.hg.vector, 1e-12)
        peer.close(mine.dhg, theirs.dhg.vector, 1e-12)
        peer.close(mine.com, theirs.com[0], 1e-12)
        for name in ("dHdq", "dFdq", "dFdv", "dFda"):
            column = getattr(theirs, name)
            close(getattr(mine, name), column * pair.G.sum(1), 1e-11, summands(pair, column))
        for name in ("dAdq", "dAdv"):
            close(getattr(mine, name), getattr(theirs, name) * pair.G.sum(1), 1e-11, theirs.J)


@SOME
def test_centroidal_derivatives_are_those_of_the_momentum(robot, root_joint):
    pair = peer.pair(robot, root_joint)
    model, data = pair.model, pair.data
    q, v, a, _ = pair.state(16)
    dh_dq, dhdot_dq, dhdot_dv, dhdot_da = copies(
        dyn_ros.centroidal_derivatives(model, data, q, v, a)
    )

    def h(q):
        return dyn_ros.ccrba(model, data, q, v)[1].copy()

    def dh(q=q, v=v, a=a):
        return dyn_ros.centroidal_momentum_time_derivative(model, data, q, v, a).copy()

    peer.close(dh_dq, by_configuration(pair, q, h), DIFFERENCES)
    peer.close(dhdot_dq, by_configuration(pair, q, dh), DIFFERENCES)
    peer.close(dhdot_dv, by_motion(v, lambda v: dh(v=v)), 1e-11)
    peer.close(dhdot_da, by_motion(a, lambda a: dh(a=a)), 1e-11)
    peer.close(dhdot_da, dyn_ros.ccrba(model, data, q, v)[0], 1e-12)


@EVERY
def test_com_velocity_derivatives(robot, root_joint):
    pair = peer.pair(robot, root_joint)
    model, data = pair.model, pair.data
    q, v, a, _ = pair.state(17)
    found = dyn_ros.com_velocity_derivatives(model, data, q, v).copy()
    vcom = data.vcom.copy()
    pinocchio.centerOfMass(*free(pair, q, v))
    expected = pinocchio.getCenterOfMassVelocityDerivatives(pair.pin, pair.pin_data) @ pair.G
    dh_dq = dyn_ros.centroidal_derivatives(model, data, q, v, a)[0]
    close(found, expected, 1e-11, pair.pin_data.J)
    close(vcom, pair.pin_data.vcom[0], 1e-12, v)
    close(dh_dq[:3], data.mass * found, 1e-12, data.dFda)


@peer.robots(("solo12", "talos_reduced"), ("floating", "planar"))
@pytest.mark.parametrize("count", [None, 9], ids=["one", "batch"])
def test_far_from_the_root_no_digit_is_lost(robot, root_joint, count):
    pair = peer.pair(robot, root_joint)
    state = inputs(pair, 18) if count is None else batch(pair, count)
    away = 3 if root_joint == "floating" else 2
    state["q"][..., :away] = 0.0
    for name in FUNCTIONS:
        near = copies(results(name, pair.model, pair.data, **state))
        far = state["q"].copy()
        far[..., :away] = (4e6, -3e6, 1e5)[:away]
        for x, y in zip(
            results(name, pair.model, pair.data, **{**state, "q": far}), near, strict=True
        ):
            assert np.array_equal(x, y)


def test_a_robot_that_does_not_move():
    model = dyn_ros.Model.from_urdf('<robot name="stone"><link name="base"/></robot>')
    values = {"q": [], "v": [], "a": [], "tau": [], "f_ext": np.zeros((0, 6))}
    for name in FUNCTIONS:
        for x in results(name, model, dyn_ros.Data(model), frame="base", **values):
            assert x.size == 0


# --- calls

FUNCTIONS = {  # name -> its arguments, what it leaves in Data
    "rnea_derivatives": ("q v a f_ext", "dtau_dq dtau_dv M"),
    "generalized_gravity_derivatives": ("q", "dg_dq"),
    "static_torque_derivatives": ("q f_ext", "dtau_dq"),
    "coriolis_matrix": ("q v", "C"),
    "aba_derivatives": ("q v tau f_ext", "ddq_dq ddq_dv Minv"),
    "frame_velocity_derivatives": ("q v frame reference_frame", "v_partial_dq v_partial_dv"),
    "frame_acceleration_derivatives": (
        "q v a frame reference_frame",
        "v_partial_dq a_partial_dq a_partial_dv a_partial_da",
    ),
    "centroidal_derivatives": ("q v a", "dh_dq dhdot_dq dhdot_dv dhdot_da"),
    "com_velocity_derivatives": ("q v", "dvcom_dq"),
}
functions = pytest.mark.parametrize("name", FUNCTIONS)


def arguments(name, model, frame=-2, **values):
    frame = model.frame_names[frame] if isinstance(frame, int) else frame
    values = {**values, "frame": frame, "reference_frame": ReferenceFrame.LOCAL_WORLD_ALIGNED}
    return {key: values[key] for key in FUNCTIONS[name][0].split()}


def results(name, model, data, threads=1, **values):
    return as_tuple(
        getattr(dyn_ros, name)(model, data, **arguments(name, model, **values), threads=threads)
    )


def batch(pair, count):
    states = [inputs(pair, seed) for seed in range(count)]
    return {key: np.array([state[key] for state in states]) for key in states[0]}


def state_of(states, n):
    return {key: value[n] for key, value in states.items()}


@functions
def test_results_are_datas_own(name):
    pair = peer.pair("every_joint", "floating")
    found = results(name, pair.model, pair.data, **inputs(pair))
    for x, field in zip(found, FUNCTIONS[name][1].split(), strict=True):
        assert x is getattr(pair.data, field)


@functions
def test_no_result_depends_on_an_earlier_call(name):
    pair = peer.pair("every_joint", "floating")
    fresh = copies(results(name, pair.model, dyn_ros.Data(pair.model), **inputs(pair)))
    for earlier in FUNCTIONS:
        results(earlier, pair.model, pair.data, **inputs(pair, 1))
        for x, y in zip(results(name, pair.model, pair.data, **inputs(pair)), fresh, strict=True):
            assert np.array_equal(x, y)


@functions
def test_results_that_were_written_over_are_right_again(name):
    pair = peer.pair("talos_reduced", "floating")
    fresh = copies(results(name, pair.model, pair.data, **inputs(pair)))
    for x in results(name, pair.model, pair.data, **inputs(pair)):
        x[...] = 7.0
    for x, y in zip(results(name, pair.model, pair.data, **inputs(pair)), fresh, strict=True):
        assert np.array_equal(x, y)


@functions
@pytest.mark.parametrize("threads", [1, 2])
@peer.robots(("every_joint", "ur5", "talos_reduced", "ball_joints"), (None, "floating"))
def test_a_batch_is_its_states(robot, root_joint, name, threads):
    pair = peer.pair(robot, root_joint)
    for count in (1, 19):
        states = batch(pair, count)
        together = results(name, pair.model, pair.data, threads, **states)
        for n in range(count):
            alone = results(name, pair.model, pair.data, **state_of(states, n))
            for x, y in zip(together, alone, strict=True):
                assert x.shape == (count, *y.shape)
                peer.close(x[n], y, 1e-11, scale=max(1.0, np.abs(y).max()))


@functions
@pytest.mark.parametrize("batched", [False, True], ids=["one", "batch"])
def test_bad_arrays_are_named(name, batched):
    pair = peer.pair("every_joint", "floating")
    state = batch(pair, 9) if batched else inputs(pair)
    for key in set(FUNCTIONS[name][0].split()) - {"frame", "reference_frame"}:
        for bad in (state[key][..., :-1], np.full_like(state[key], np.nan), "words"):
            with pytest.raises(ValueError, match=rf"\b{key}\b.*expected.*got"):
                results(name, pair.model, pair.data, **{**state, key: bad})


@pytest.mark.parametrize("robot", ["every_joint", "ur5"])
def test_without_compiled_code(robot):
    pair = peer.pair(robot, "floating")
    calls = [(name, arguments(name, pair.model, **inputs(pair))) for name in FUNCTIONS]
    for (name, _), found in zip(calls, peer.uncompiled(robot, calls), strict=True):
        for x, y in zip(
            as_tuple(found), results(name, pair.model, pair.data, **inputs(pair)), strict=True
        ):
            peer.close(x, y, 1e-11, scale=max(1.0, np.abs(y).max()))
