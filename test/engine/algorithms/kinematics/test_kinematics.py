# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Placements, velocities, accelerations and Jacobians of joints and frames."""

import numpy as np
import pinocchio
import pytest

import dyn_ros
import peer
from dyn_ros import ReferenceFrame
from peer import along, in_time

ROBOTS = peer.robots()
PLANAR = peer.robots(("every_joint", "ur5", "solo12"), ("planar",))
SOME = peer.robots(("every_joint", "panda", "tiago", "solo12", "ball_joints"))
REFERENCES = list(ReferenceFrame)
PIN_REFERENCES = {reference: getattr(pinocchio, reference.name) for reference in ReferenceFrame}


def vectors(motions):
    return np.array([motion.vector for motion in list(motions)[1:]]).reshape(-1, 6)


def homogeneous(placements):
    return np.array([X.homogeneous for X in placements]).reshape(-1, 4, 4)


def pin_frames(pair):
    """Pinocchio's indices of dyn_ros's frames; each side has the other's names and kinds."""
    kinds = {"joint": pinocchio.JOINT, "fixed_joint": pinocchio.FIXED_JOINT, "body": pinocchio.BODY}
    return [pair.pin.getFrameId(frame.name, kinds[frame.kind]) for frame in pair.model.tree.frames]


def a_few(pair):
    """Frames far out, in the middle, on the base; joints and links."""
    count = len(pair.model.frame_names)
    return sorted({0, 1, count // 3, count // 2, count - 2, count - 1})


def update(pair, q, v, a):
    pinocchio.forwardKinematics(pair.pin, pair.pin_data, pair.to_pin_q(q), pair.G @ v, pair.G @ a)
    pinocchio.updateFramePlacements(pair.pin, pair.pin_data)


# --- all joints


@ROBOTS
def test_forward_kinematics_is_pinocchios(robot, root_joint):
    pair = peer.pair(robot, root_joint)
    q, v, a, _ = pair.state(1)
    oMi, liMi, v_, a_, ov, oa = dyn_ros.forward_kinematics(pair.model, pair.data, q, v, a)
    update(pair, q, v, a)
    peer.close(oMi, homogeneous(list(pair.pin_data.oMi)[1:]))
    peer.close(liMi, homogeneous(list(pair.pin_data.liMi)[1:]))
    peer.close(v_, vectors(pair.pin_data.v))
    peer.close(a_, vectors(pair.pin_data.a))
    world = [X.toActionMatrix() for X in list(pair.pin_data.oMi)[1:]]
    peer.close(ov, [X @ m for X, m in zip(world, vectors(pair.pin_data.v))])
    peer.close(oa, [X @ m for X, m in zip(world, vectors(pair.pin_data.a))])


@pytest.mark.parametrize("robot", ["panda", "talos_reduced"])
def test_angles_of_every_size(robot):
    pair = peer.pair(robot)
    angles = np.array([0.0, 1e-300, -1e-9, 0.5, np.pi / 2, np.pi, -np.pi, 2 * np.pi, 3e3, -1e5])
    several = [np.resize(np.roll(angles, k), pair.model.nq) for k in range(len(angles))]
    batch = dyn_ros.forward_kinematics(pair.model, pair.data, np.array(several))[1]
    for q, of_batch in zip(several, batch):
        liMi = dyn_ros.forward_kinematics(pair.model, pair.data, q)[1]
        update(pair, q, 0.0 * q, 0.0 * q)
        expected = homogeneous(list(pair.pin_data.liMi)[1:])[:, :3, :3]
        assert np.abs(liMi[:, :3, :3] - expected).max() < 2e-15
        assert np.abs(of_batch[:, :3, :3] - expected).max() < 2e-15


@SOME
def test_forward_kinematics_without_motion(robot, root_joint):
    pair = peer.pair(robot, root_joint)
    q, v, a, _ = pair.state(2)
    zero = np.zeros(pair.model.nv)
    for given, full in (((), (zero, zero)), ((v,), (v, zero)), ((None, a), (zero, a))):
        got = [x.copy() for x in dyn_ros.forward_kinematics(pair.model, pair.data, q, *given)]
        for mine, theirs in zip(got, dyn_ros.forward_kinematics(pair.model, pair.data, q, *full)):
            assert np.array_equal(mine, theirs)


@SOME
def test_accelerations_less_gravity_are_rneas(robot, root_joint):
    pair = peer.new_pair(robot, root_joint)
    pair.set_gravity((1.0, -2.0, 3.0))
    q, v, a, _ = pair.state(3)
    a_gf, oa_gf = (
        x.copy() for x in dyn_ros.accelerations_less_gravity(pair.model, pair.data, q, v, a)
    )
    pair.rnea(q, v, a)
    peer.close(a_gf, vectors(pair.pin_data.a_gf))
    oa = dyn_ros.forward_kinematics(pair.model, pair.data, q, v, a)[5]
    peer.close(oa_gf, oa - [1.0, -2.0, 3.0, 0.0, 0.0, 0.0])
    dyn_ros.rnea(pair.model, pair.data, q, v, a)
    peer.close(pair.data.a_gf, a_gf)


@SOME
def test_bias_acceleration_is_that_of_no_joint_acceleration(robot, root_joint):
    pair = peer.pair(robot, root_joint)
    q, v, a, _ = pair.state(4)
    bias = dyn_ros.bias_acceleration(pair.model, pair.data, q, v).copy()
    peer.close(bias, dyn_ros.forward_kinematics(pair.model, pair.data, q, v)[5])
    rate = in_time(
        pair,
        q,
        v,
        0.0 * a,
        lambda q, v: dyn_ros.forward_kinematics(pair.model, pair.data, q, v)[4].copy(),
    )
    peer.close(bias, rate, 1e-9)


@ROBOTS
def test_frame_placements_are_pinocchios(robot, root_joint):
    pair = peer.pair(robot, root_joint)
    q, v, a, _ = pair.state(5)
    update(pair, q, v, a)
    peer.close(
        dyn_ros.frame_placements(pair.model, pair.data, q),
        homogeneous([pair.pin_data.oMf[f] for f in pin_frames(pair)]),
    )


# --- one frame


@pytest.mark.parametrize("reference", REFERENCES, ids=lambda reference: reference.name)
@ROBOTS
def test_frame_motion_is_pinocchios(robot, root_joint, reference):
    pair = peer.pair(robot, root_joint)
    q, v, a, _ = pair.state(6)
    update(pair, q, v, a)
    frames = pin_frames(pair)
    for frame in a_few(pair):
        asked = pair.pin, pair.pin_data, frames[frame], PIN_REFERENCES[reference]
        v_frame = pinocchio.getFrameVelocity(*asked).vector
        scale = max(1.0, np.abs(v_frame).max())
        peer.close(
            dyn_ros.frame_velocity(pair.model, pair.data, q, v, frame, reference),
            v_frame,
            scale=scale,
        )
        peer.close(
            dyn_ros.frame_acceleration(pair.model, pair.data, q, v, a, frame, reference),
            pinocchio.getFrameAcceleration(*asked).vector,
            scale=scale**2,
        )
        peer.close(
            dyn_ros.frame_classical_acceleration(pair.model, pair.data, q, v, a, frame, reference),
            pinocchio.getFrameClassicalAcceleration(*asked).vector,
            scale=scale**2,
        )


@pytest.mark.parametrize("reference", REFERENCES, ids=lambda reference: reference.name)
@ROBOTS
def test_frame_jacobian_is_pinocchios(robot, root_joint, reference):
    pair = peer.pair(robot, root_joint)
    q, v, _, _ = pair.state(7)
    pinocchio.computeJointJacobiansTimeVariation(
        pair.pin, pair.pin_data, pair.to_pin_q(q), pair.G @ v
    )
    pinocchio.updateFramePlacements(pair.pin, pair.pin_data)
    frames = pin_frames(pair)
    for frame in a_few(pair):
        asked = pair.pin, pair.pin_data, frames[frame], PIN_REFERENCES[reference]
        peer.close(
            dyn_ros.frame_jacobian(pair.model, pair.data, q, frame, reference),
            pinocchio.getFrameJacobian(*asked) @ pair.G,
        )
        expected = pinocchio.getFrameJacobianTimeVariation(*asked) @ pair.G
        peer.close(
            dyn_ros.frame_jacobian_time_variation(pair.model, pair.data, q, v, frame, reference),
            expected,
            scale=max(1.0, np.abs(expected).max()),
        )


@pytest.mark.parametrize("reference", REFERENCES, ids=lambda reference: reference.name)
@SOME
def test_a_joint_is_its_frame(robot, root_joint, reference):
    pair = peer.pair(robot, root_joint)
    model, data = pair.model, pair.data
    q, v, _, _ = pair.state(8)
    for i, name in enumerate(model.joint_names):
        frame = next(
            f
            for f, known in enumerate(model.tree.frames)
            if known.kind == "joint" and known.parent == i
        )
        for place in (i, name):
            for joint_function, frame_function, given in (
                (dyn_ros.joint_jacobian, dyn_ros.frame_jacobian, (q,)),
                (
                    dyn_ros.joint_jacobian_time_variation,
                    dyn_ros.frame_jacobian_time_variation,
                    (q, v),
                ),
                (dyn_ros.joint_hessian, dyn_ros.frame_hessian, (q,)),
            ):
                mine = joint_function(model, data, *given, place, reference).copy()
                assert np.array_equal(mine, frame_function(model, data, *given, frame, reference))
        pin_q = pair.to_pin_q(q)
        pinocchio.computeJointJacobians(pair.pin, pair.pin_data, pin_q)
        expected = (
            pinocchio.getJointJacobian(pair.pin, pair.pin_data, i + 1, PIN_REFERENCES[reference])
            @ pair.G
        )
        peer.close(dyn_ros.joint_jacobian(model, data, q, name, reference), expected)


@pytest.mark.parametrize("reference", REFERENCES, ids=lambda reference: reference.name)
@SOME
def test_jacobian_times_velocity(robot, root_joint, reference):
    """J v is the velocity; J a + dJ v the spatial or the classical acceleration."""
    pair = peer.pair(robot, root_joint)
    model, data = pair.model, pair.data
    q, v, a, _ = pair.state(9)
    acceleration = (
        dyn_ros.frame_classical_acceleration
        if reference == ReferenceFrame.LOCAL_WORLD_ALIGNED
        else dyn_ros.frame_acceleration
    )
    for frame in a_few(pair):
        J = dyn_ros.frame_jacobian(model, data, q, frame, reference).copy()
        dJ = dyn_ros.frame_jacobian_time_variation(model, data, q, v, frame, reference)
        scale = max(1.0, np.abs(dJ).max(), np.abs(J).max())
        peer.close(J @ v, dyn_ros.frame_velocity(model, data, q, v, frame, reference), scale=scale)
        peer.close(
            J @ a + dJ @ v, acceleration(model, data, q, v, a, frame, reference), scale=scale
        )


@pytest.mark.parametrize("reference", REFERENCES, ids=lambda reference: reference.name)
@pytest.mark.parametrize("point", [None, (0.1, -0.2, 0.3)], ids=["origin", "offset"])
@SOME
def test_time_variation_is_the_rate_of_the_jacobian(robot, root_joint, reference, point):
    pair = peer.pair(robot, root_joint)
    model, data = pair.model, pair.data
    q, v, a, _ = pair.state(10)
    for frame in a_few(pair):
        rate = in_time(
            pair,
            q,
            v,
            a,
            lambda q, v, frame=frame: dyn_ros.frame_jacobian(
                model, data, q, frame, reference, point
            ).copy(),
        )
        peer.close(
            dyn_ros.frame_jacobian_time_variation(model, data, q, v, frame, reference, point),
            rate,
            1e-9,
            scale=max(1.0, np.abs(rate).max()),
        )


@SOME
def test_point_jacobian(robot, root_joint):
    """A point at an offset moves as it is differentiated; its axes are the frame's."""
    pair = peer.pair(robot, root_joint)
    model, data = pair.model, pair.data
    q, v, _, _ = pair.state(11)
    point = np.array([0.3, -0.1, 0.2])
    for frame in a_few(pair):

        def place(q, frame=frame):
            return dyn_ros.frame_placements(model, data, q)[frame] @ np.append(point, 1.0)

        R = dyn_ros.frame_placements(model, data, q)[frame, :3, :3].copy()
        aligned = dyn_ros.frame_jacobian(model, data, q, frame, 2, point).copy()
        rate = along(pair, q, v, place)[:3]
        peer.close(aligned[:3] @ v, rate, 1e-9, scale=max(1.0, np.abs(rate).max()))
        at_origin = dyn_ros.frame_jacobian(model, data, q, frame, 2).copy()
        peer.close(aligned[3:], at_origin[3:])
        local = dyn_ros.frame_jacobian(model, data, q, frame, 1, point).copy()
        peer.close(local, np.vstack([R.T @ aligned[:3], R.T @ aligned[3:]]))
        assert np.allclose(
            dyn_ros.frame_jacobian(model, data, q, frame, 0, point),
            dyn_ros.frame_jacobian(model, data, q, frame, 0).copy(),
            atol=1e-13,
        )


@pytest.mark.parametrize("reference", REFERENCES, ids=lambda reference: reference.name)
@pytest.mark.parametrize(
    "robot, root_joint",
    [
        ("every_joint", "floating"),
        ("every_joint", "planar"),
        ("panda", None),
        ("tiago", "floating"),
        ("solo12", "floating"),
        ("ball_joints", "floating"),
    ],
)
def test_hessian_is_the_derivative_of_the_jacobian(robot, root_joint, reference):
    pair = peer.pair(robot, root_joint)
    model, data = pair.model, pair.data
    q, v, _, _ = pair.state(12)
    for frame in a_few(pair):
        H = dyn_ros.frame_hessian(model, data, q, frame, reference).copy()
        for k, direction in enumerate(np.eye(model.nv)):
            slope = along(
                pair,
                q,
                direction,
                lambda q, frame=frame: dyn_ros.frame_jacobian(
                    model, data, q, frame, reference
                ).copy(),
            )
            peer.close(H[:, :, k], slope, 1e-9, scale=max(1.0, np.abs(slope).max()))
        peer.close(
            H @ v,
            dyn_ros.frame_jacobian_time_variation(model, data, q, v, frame, reference),
            scale=max(1.0, np.abs(H).max()),
        )


# --- Jacobians of all joints


@ROBOTS
def test_joint_jacobians_are_pinocchios(robot, root_joint):
    pair = peer.pair(robot, root_joint)
    model, data = pair.model, pair.data
    q, v, _, _ = pair.state(13)
    pinocchio.computeJointJacobiansTimeVariation(
        pair.pin, pair.pin_data, pair.to_pin_q(q), pair.G @ v
    )
    ratios = np.abs(pair.G).sum(axis=1)  # each joint's column has its multiplier in it
    signs = np.sign(pair.G.sum(axis=1))
    peer.close(dyn_ros.joint_jacobians(model, data, q), pair.pin_data.J * (ratios * signs))
    expected = pair.pin_data.dJ * (ratios * signs)
    peer.close(
        dyn_ros.joint_jacobians_time_variation(model, data, q, v),
        expected,
        scale=max(1.0, np.abs(expected).max()),
    )


@SOME
def test_rates_of_joint_jacobians(robot, root_joint):
    pair = peer.pair(robot, root_joint)
    model, data = pair.model, pair.data
    q, v, a, _ = pair.state(14)
    rate = in_time(pair, q, v, a, lambda q, v: dyn_ros.joint_jacobians(model, data, q).copy())
    peer.close(dyn_ros.joint_jacobians_time_variation(model, data, q, v), rate, 1e-9)
    rate = in_time(
        pair, q, v, a, lambda q, v: dyn_ros.joint_jacobians_time_variation(model, data, q, v).copy()
    )
    peer.close(dyn_ros.joint_jacobians_second_time_variation(model, data, q, v, a), rate, 1e-9)


# --- batches


@PLANAR
def test_planar_bases(robot, root_joint):
    test_forward_kinematics_is_pinocchios(robot, root_joint)
    test_joint_jacobians_are_pinocchios(robot, root_joint)
    for reference in REFERENCES:
        test_frame_motion_is_pinocchios(robot, root_joint, reference)
        test_frame_jacobian_is_pinocchios(robot, root_joint, reference)


FUNCTIONS = {  # name -> its arguments
    "forward_kinematics": "qva",
    "accelerations_less_gravity": "qva",
    "bias_acceleration": "qv",
    "frame_placements": "q",
    "joint_jacobians": "q",
    "joint_jacobians_time_variation": "qv",
    "joint_jacobians_second_time_variation": "qva",
    "frame_velocity": "qvf",
    "frame_acceleration": "qvaf",
    "frame_classical_acceleration": "qvaf",
    "frame_jacobian": "qfp",
    "frame_jacobian_time_variation": "qvfp",
    "frame_hessian": "qf",
    "joint_jacobian": "qf",
    "joint_jacobian_time_variation": "qvf",
    "joint_hessian": "qf",
}


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("name", FUNCTIONS)
@peer.robots(("every_joint", "tiago", "ball_joints"), (None, "floating"))
def test_a_batch_is_its_states(robot, root_joint, name, threads):
    pair = peer.pair(robot, root_joint)
    model, data, function = pair.model, pair.data, getattr(dyn_ros, name)
    count = 19
    q, v, a, _ = pair.states(count)
    points = np.random.default_rng(0).uniform(-1.0, 1.0, (count, 3))
    last = model.njoints - 1
    references = REFERENCES if "f" in FUNCTIONS[name] else [None]
    for reference in references:

        def call(q, v, a, point, reference=reference, **more):
            given = {"q": [q], "v": [v], "a": [a], "f": [last, reference], "p": [point]}
            arguments = [x for key in FUNCTIONS[name] for x in given[key]]
            found = function(model, data, *arguments, **more)
            return found if isinstance(found, tuple) else (found,)

        batch = call(q, v, a, points, threads=threads)
        for n in range(count):
            for mine, one in zip(batch, call(q[n], v[n], a[n], points[n])):
                peer.close(mine[n], one, 1e-13, scale=max(1.0, np.abs(one).max()))
        assert all(len(mine) == count for mine in batch)


# --- bad input


@pytest.fixture
def arm():
    pair = peer.pair("panda")
    return pair.model, pair.data, *pair.state()[:2]


@pytest.mark.parametrize(
    "name, words",
    [
        ("nowhere", ["frame", "'nowhere'", "panda_link7"]),
        (-1, ["frame", "-1", "from 0 to 24,", "panda_link7"]),
        (10**6, ["frame", "1000000"]),
        (None, ["frame", "None"]),
        ([1], ["frame", r"\[1\]"]),
        (1.5, ["frame", "1.5"]),
    ],
)
def test_an_unknown_frame(arm, name, words):
    model, data, q, v = arm
    for call in (
        lambda: dyn_ros.frame_jacobian(model, data, q, name, 0),
        lambda: dyn_ros.frame_velocity(model, data, q, v, name, 0),
        lambda: dyn_ros.frame_hessian(model, data, q, name, 0),
    ):
        for word in words:
            with pytest.raises(ValueError, match=word):
                call()


@pytest.mark.parametrize(
    "name, words",
    [
        ("panda_link7", ["joint", "'panda_link7'", "panda_joint7"]),
        (9, ["joint", "9", "from 0 to 8,"]),
        ([1], ["joint", r"\[1\]"]),
    ],
)
def test_an_unknown_joint(arm, name, words):
    model, data, q, _ = arm
    for word in words:
        with pytest.raises(ValueError, match=word):
            dyn_ros.joint_jacobian(model, data, q, name, 0)


@pytest.mark.parametrize("reference", [3, -1, "LOCAL", None, 0.5, [0]])
def test_an_unknown_reference_frame(arm, reference):
    model, data, q, _ = arm
    with pytest.raises(ValueError, match=r"reference_frame: .*WORLD 0, LOCAL 1"):
        dyn_ros.frame_jacobian(model, data, q, "panda_link7", reference)


@pytest.mark.parametrize(
    "point, words",
    [
        ((1.0, 2.0), ["offset", r"\(3,\)", r"\(2,\)"]),
        ((1.0, np.nan, 2.0), ["offset", "nan", r"offset\[1\]"]),
    ],
)
def test_a_bad_offset(arm, point, words):
    model, data, q, _ = arm
    for word in words:
        with pytest.raises(ValueError, match=word):
            dyn_ros.frame_jacobian(model, data, q, "panda_link7", 0, point)


def test_a_link_before_a_joint_of_its_name():
    """Where a joint and a link share a name, the link's frame is meant."""
    model = dyn_ros.Model.from_urdf("""<robot name="r"><link name="a"/><link name="same">
      <inertial><mass value="1"/><inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/>
      </inertial></link><joint name="same" type="prismatic"><parent link="a"/>
      <child link="same"/><axis xyz="1 0 0"/><limit lower="0" upper="1" effort="1" velocity="1"/>
      </joint></robot>""")
    assert model.tree.frames[model.frame_index("same")].kind == "body"
    J = dyn_ros.frame_jacobian(model, dyn_ros.Data(model), [0.5], "same", 0)
    assert J.tolist() == [[1.0], [0.0], [0.0], [0.0], [0.0], [0.0]]


@pytest.mark.parametrize("joint", ["elbow", 0])
def test_a_robot_without_joints_has_none_to_select(joint):
    model = dyn_ros.Model.from_urdf('<robot name="rock"><link name="rock"/></robot>')
    with pytest.raises(ValueError, match=f"^joint: the robot has none, got {joint!r}$"):
        dyn_ros.joint_jacobian(model, dyn_ros.Data(model), [], joint, 0)
