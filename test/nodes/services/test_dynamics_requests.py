# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The services for matrices, energies, derivatives of frames, trajectories and the model."""

import math

import numpy as np
import pinocchio
import pytest

import dyn_ros
import peer

pytest.importorskip("rclpy", reason="no ROS: run `make test`")
pytest.importorskip("dyn_ros.srv", reason="the services are not built: run `make test`")

from geometry_msgs.msg import InertiaStamped, Pose
from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint

from dyn_ros.msg import RobotState
from dyn_ros.nodes.base.service import requested_state
from dyn_ros.nodes.messages import message_fields
from service_stub import SERVICES, feed, matrix, node, state_message

ROBOTS = pytest.mark.parametrize(
    "robot, root_joint",
    [("ur5", "fixed"), ("panda", "fixed"), ("solo12", "floating"), ("simple_humanoid", "planar")],
)


def make_service_node(name, root_joint="fixed", **values):
    return node(peer.urdf(name), root_joint=root_joint, **values)


def pinocchio_pair(name, root_joint):
    return peer.pair(name, None if root_joint == "fixed" else root_joint)


def numbers(point):
    return [point.x, point.y, point.z]


def assert_unknown(message, rows, cols):
    assert (message.rows, message.cols) == (rows, cols)
    assert len(message.data) == rows * cols and np.isnan(message.data).all()


# States in requests


@ROBOTS
def test_a_requested_state_is_the_state_and_new_each_time(robot, root_joint):
    pair = pinocchio_pair(robot, root_joint)
    q, v, _, _ = pair.state(1)
    message = state_message(pair.model, q, v)
    first, second = (requested_state(pair.model, message) for _ in range(2))
    for result, again, expected in zip(first, second, (q, v)):
        np.testing.assert_allclose(result, expected, rtol=0.0, atol=1e-15)
        np.testing.assert_array_equal(result, again)
        assert not np.shares_memory(result, again)
    at_rest = state_message(pair.model, q)
    np.testing.assert_array_equal(requested_state(pair.model, at_rest)[1], np.zeros(pair.model.nv))


@pytest.mark.parametrize("size, fault", [(math.inf, "not finite"), (1e13, "too large")])
def test_a_base_twist_that_cannot_be_used(size, fault):
    pair = pinocchio_pair("solo12", "floating")
    message = state_message(pair.model, pair.model.neutral())
    message.base_twist.angular.y = size
    with pytest.raises(ValueError, match=f"the base's twist is {fault}: angular_y = "):
        requested_state(pair.model, message)


# Matrices and energies


@ROBOTS
def test_dynamics_are_pinocchios(robot, root_joint):
    pair, service_node = pinocchio_pair(robot, root_joint), make_service_node(robot, root_joint)
    q, v, _, _ = pair.state(2)
    model = pair.model
    answer = service_node.ask("get_dynamics", state=state_message(model, q, v))
    assert list(answer.name) == list(model.velocity_names) and answer.velocity_valid
    peer.close(matrix(answer.inertia), pair.crba(q))
    peer.close(answer.nle, pair.nonlinear_effects(q, v))
    peer.close(answer.gravity, pair.generalized_gravity(q))
    C = matrix(answer.coriolis)
    peer.close(C @ v + answer.gravity, answer.nle)
    step = 1e-6
    M = [
        matrix(
            service_node.ask(
                "get_dynamics", state=state_message(model, model.integrate(q, x))
            ).inertia
        )
        for x in (step * v, -step * v)
    ]
    peer.close(C + C.T, (M[0] - M[1]) / (2.0 * step), 1e-6)
    energies = service_node.ask("get_energies", state=state_message(model, q, v))
    assert energies.velocity_valid and energies.header.frame_id == service_node.robot.world_frame
    kinetic = 0.5 * v @ matrix(answer.inertia) @ v
    com = dyn_ros.center_of_mass(model, pair.data, q)[0]
    potential = -model.total_mass * model.gravity @ com
    peer.close(
        [energies.kinetic, energies.potential, energies.mechanical],
        [kinetic, potential, kinetic + potential],
    )


def test_dynamics_in_the_order_of_the_node():
    names = ["wrist_1_joint", "elbow_joint"]
    service_node, whole = make_service_node("ur5", joints=names), make_service_node("ur5")
    q, v, _, _ = pinocchio_pair("ur5", "fixed").state(3)
    state = state_message(service_node.robot.model, q, v)
    part, full = (each.ask("get_dynamics", state=state) for each in (service_node, whole))
    rows = [list(full.name).index(name) for name in names]
    assert list(part.name) == names
    for field in ("inertia", "coriolis"):
        np.testing.assert_array_equal(
            matrix(getattr(part, field)), matrix(getattr(full, field))[np.ix_(rows, rows)]
        )
    for field in ("gravity", "nle"):
        np.testing.assert_array_equal(getattr(part, field), np.array(getattr(full, field))[rows])


def test_what_needs_an_unknown_velocity_is_nan():
    service_node, pair = make_service_node("ur5"), pinocchio_pair("ur5", "fixed")
    q, _, _, _ = pair.state(4)
    feed(service_node, q)
    answer = service_node.ask("get_dynamics")
    assert answer.header.stamp.sec == 7 and not answer.velocity_valid
    peer.close(matrix(answer.inertia), pair.crba(q))
    peer.close(answer.gravity, pair.generalized_gravity(q))
    assert len(answer.nle) == 6 and np.isnan(answer.nle).all()
    assert_unknown(answer.coriolis, 6, 6)
    energies = service_node.ask("get_energies")
    assert not energies.velocity_valid and math.isfinite(energies.potential)
    assert math.isnan(energies.kinetic) and math.isnan(energies.mechanical)
    jacobian = service_node.ask("get_com_jacobian")
    assert not jacobian.velocity_valid and np.isfinite(jacobian.jacobian.data).all()
    assert_unknown(jacobian.jacobian_time_variation, 3, 6)
    momentum = service_node.ask("get_centroidal_map")
    assert not momentum.velocity_valid and np.isfinite(momentum.centroidal_map.data).all()
    assert_unknown(momentum.centroidal_map_time_variation, 6, 6)
    assert "unknown velocity of shoulder_pan_joint" in service_node.rejection(
        "get_frame_derivatives", frame="tool0"
    )


# Frames and the center of mass


@ROBOTS
@pytest.mark.parametrize("reference", range(3))
def test_frame_derivatives_are_the_engines(robot, root_joint, reference):
    pair, service_node = pinocchio_pair(robot, root_joint), make_service_node(robot, root_joint)
    q, v, a, _ = pair.state(5)
    model, frame = pair.model, pair.model.frame_names[-1]
    answer = service_node.ask(
        "get_frame_derivatives",
        frame=frame,
        reference_frame=reference,
        state=state_message(model, q, v),
        name=list(model.velocity_names),
        acceleration=a.tolist(),
    )
    data = dyn_ros.Data(model)
    place = frame, reference
    velocity = dyn_ros.frame_velocity_derivatives(model, data, q, v, *place)
    for name, expected in zip(("v_partial_dq", "v_partial_dv"), velocity):
        peer.close(matrix(getattr(answer, name)), expected)
    acceleration = dyn_ros.frame_acceleration_derivatives(model, data, q, v, a, *place)
    for name, expected in zip(
        ("v_partial_dq", "a_partial_dq", "a_partial_dv", "a_partial_da"), acceleration
    ):
        peer.close(matrix(getattr(answer, name)), expected)


@pytest.mark.parametrize(
    "robot, root_joint", [("ur5", "fixed"), ("solo12", "floating"), ("simple_humanoid", "planar")]
)
def test_center_of_mass_and_momentum_of_all_links(robot, root_joint):
    """With a floating root joint at rest, Pinocchio includes the base link of a fixed base."""
    service_node, pair = make_service_node(robot, root_joint), pinocchio_pair(robot, root_joint)
    q, v, a, _ = pair.state(6)
    model, state = pair.model, state_message(pair.model, q, v)
    jacobian = service_node.ask("get_com_jacobian", state=state)
    momentum = service_node.ask("get_centroidal_map", state=state)
    if root_joint == "fixed":
        pair = pinocchio_pair(robot, "floating")
        q = np.concatenate([[0.0] * 6, [1.0], q])
        v, a = (np.concatenate([np.zeros(6), each]) for each in (v, a))
    pin, data = pair.pin, pair.pin_data
    pinocchio.centerOfMass(pin, data, pair.to_pin_q(q), v, np.zeros(len(v)))
    com, vcom, drift = (np.array(each[0]) for each in (data.com, data.vcom, data.acom))
    peer.close(jacobian.mass, pinocchio.computeTotalMass(pin))
    joints = v[-model.nv :]
    for answer in (jacobian, momentum):
        assert answer.header.frame_id == service_node.robot.world_frame
        assert list(answer.name) == list(model.velocity_names)
        peer.close(numbers(answer.com), com)
    peer.close(matrix(jacobian.jacobian) @ joints, vcom)
    peer.close(
        matrix(jacobian.jacobian),
        pinocchio.jacobianCenterOfMass(pin, data, pair.to_pin_q(q))[:, -model.nv :],
    )
    peer.close(matrix(jacobian.jacobian_time_variation) @ joints, drift)
    pinocchio.computeCentroidalMomentumTimeVariation(pin, data, pair.to_pin_q(q), v, a)
    peer.close(matrix(momentum.centroidal_map) @ joints, data.hg.vector)
    peer.close(
        matrix(momentum.centroidal_map) @ a[-model.nv :]
        + matrix(momentum.centroidal_map_time_variation) @ joints,
        data.dhg.vector,
    )
    pinocchio.dccrba(pin, data, pair.to_pin_q(q), v)
    peer.close(matrix(momentum.centroidal_map), data.Ag[:, -model.nv :])
    peer.close(matrix(momentum.centroidal_map_time_variation), data.dAg[:, -model.nv :])


# Trajectories


def trajectory(names, q, v=None, a=None):
    points = [JointTrajectoryPoint(positions=each.tolist()) for each in q]
    for field, rows in (("velocities", v), ("accelerations", a)):
        for point, row in zip(points, () if rows is None else rows):
            setattr(point, field, row.tolist())
    return JointTrajectory(joint_names=list(names), points=points)


def test_efforts_along_a_trajectory_of_all_joints_need_no_state():
    service_node, pair = make_service_node("ur5"), pinocchio_pair("ur5", "fixed")
    names = pair.model.joint_names
    q, v, a = (np.array(rows) for rows in zip(*(pair.state(seed)[:3] for seed in range(20))))
    a *= 50.0
    order = [3, 1, 0, 2, 5, 4]
    shuffled = [names[i] for i in order]
    answer = service_node.ask(
        "get_trajectory_efforts",
        trajectory=trajectory(shuffled, *(rows[:, order] for rows in (q, v, a))),
    )
    expected = [pair.rnea(*rows) for rows in zip(q, v, a)]
    assert list(answer.name) == list(names)
    peer.close(matrix(answer.effort), expected)
    np.testing.assert_array_equal(answer.effort_limit, pair.model.effort_limit)
    over = np.argwhere(np.abs(matrix(answer.effort)) > pair.model.effort_limit)
    assert 0 < len(over) < np.size(expected)
    assert list(zip(answer.exceeding_point, answer.exceeding_name)) == [
        (point, names[joint]) for point, joint in over
    ]
    still = service_node.ask("get_trajectory_efforts", trajectory=trajectory(names, q))
    peer.close(matrix(still.effort), [pair.generalized_gravity(each) for each in q])


def test_other_joints_and_the_base_are_those_of_the_state():
    service_node, pair = (
        make_service_node("solo12", "floating"),
        pinocchio_pair("solo12", "floating"),
    )
    q, v, _, _ = pair.state(1)
    names = ["HR_KFE", "FL_HAA"]
    points_message = trajectory(
        names, np.array([[0.1, 0.2], [0.3, 0.4]]), a=np.array([[1.0, 2.0]] * 2)
    )
    assert "unknown or stale position of root_joint" in service_node.rejection(
        "get_trajectory_efforts", trajectory=points_message
    )
    feed(service_node, q, v)
    for fields in ({}, {"state": state_message(pair.model, q, v)}):
        answer = service_node.ask("get_trajectory_efforts", trajectory=points_message, **fields)
        assert answer.header.stamp.sec == (0 if fields else 7)
        for point, effort in zip(points_message.points, matrix(answer.effort)):
            moved, speed, a = q.copy(), v.copy(), np.zeros(pair.model.nv)
            for name, position, acceleration in zip(names, point.positions, point.accelerations):
                joint = pair.model.joint_index(name)
                moved[pair.model.idx_q[joint]] = position
                speed[pair.model.idx_v[joint]] = 0.0
                a[pair.model.idx_v[joint]] = acceleration
            peer.close(effort, pair.rnea(moved, speed, a))
    assert answer.effort_limit[0] == math.inf


def test_a_trajectory_needs_the_velocities_of_the_other_joints_only():
    service_node, pair = make_service_node("ur5"), pinocchio_pair("ur5", "fixed")
    q, v, _, _ = pair.state(2)
    feed(service_node, q)
    names = pair.model.joint_names
    reason = service_node.rejection(
        "get_trajectory_efforts", trajectory=trajectory(names[:5], q[None, :5])
    )
    assert reason.startswith("unknown velocity of wrist_3_joint: ")
    answer = service_node.ask(
        "get_trajectory_efforts", trajectory=trajectory(names, q[None], v[None])
    )
    peer.close(matrix(answer.effort), [pair.nonlinear_effects(q, v)])


def test_mimic_joints_in_a_trajectory_are_ignored():
    service_node, pair = make_service_node("panda"), pinocchio_pair("panda", "fixed")
    names = [name for name, nv in zip(pair.model.joint_names, pair.model.nvs) if nv]
    q, _, _, _ = pair.state(3)
    answer = service_node.ask(
        "get_trajectory_efforts",
        trajectory=trajectory([*names, "panda_finger_joint2"], np.array([[*q, math.nan]])),
    )
    peer.close(matrix(answer.effort), [pair.generalized_gravity(q)])


UR5 = list(dyn_ros.Model.from_urdf(peer.urdf("ur5")).joint_names)


@pytest.mark.parametrize(
    "names, points, why",
    [
        (UR5, [], "trajectory: expected at least one point, got 0"),
        (
            [*UR5, "elbow"],
            [{}],
            "trajectory: there is no joint 'elbow' with one coordinate; available: "
            "shoulder_pan_joint",
        ),
        ([*UR5, UR5[0]], [{}], "trajectory: duplicate joint names: shoulder_pan_joint"),
        (UR5, [{}], "trajectory: point 0 has 0 positions, expected 6, one for each joint"),
        (
            UR5,
            [{"positions": [0.0] * 6, "velocities": [0.0] * 2}],
            "trajectory: point 0 has 2 velocities, expected 6, one for each joint, or none",
        ),
        (
            UR5,
            [{"positions": [0.0] * 6}, {"positions": [0.0] * 6, "accelerations": [0.0]}],
            "trajectory: point 1 has 1 accelerations, expected 6",
        ),
        (
            UR5,
            [{"positions": [0.0] * 6}, {"positions": [0.0, math.nan, 0.0, 0.0, 0.0, 0.0]}],
            "trajectory: positions of point 1: shoulder_lift_joint = nan is not finite",
        ),
        (
            UR5,
            [{"positions": [0.0] * 6, "velocities": [1e200] * 6}],
            "trajectory: velocities of point 0: shoulder_pan_joint = 1e+200 is too large",
        ),
    ],
)
def test_a_trajectory_that_is_not_usable(names, points, why):
    service_node = make_service_node("ur5")
    points_message = JointTrajectory(
        joint_names=names, points=[JointTrajectoryPoint(**fields) for fields in points]
    )
    state = RobotState(name=UR5, position=[0.0] * 6)
    reason = service_node.rejection(
        "get_trajectory_efforts", trajectory=points_message, state=state
    )
    assert why in reason and len(reason) < 3000


# The model


@ROBOTS
def test_the_model_is_the_nodes(robot, root_joint):
    service_node = make_service_node(robot, root_joint)
    model = service_node.robot.model
    answer = service_node.ask("get_model")
    assert answer.robot_name == model.name and answer.root_joint == root_joint
    assert answer.root_link == service_node.robot.root_link
    assert answer.header.frame_id == service_node.robot.world_frame and answer.header.stamp.sec == 0
    assert numbers(answer.gravity) == model.gravity.tolist()
    assert answer.total_mass == model.total_mass
    assert list(answer.name) == list(model.velocity_names)
    assert list(answer.position_name) == list(model.position_names)
    assert [joint.name for joint in answer.joints] == list(model.joint_names)
    for index, joint in enumerate(answer.joints):
        own_joint = model.tree.joints[index]
        assert joint.type == own_joint.kind
        assert joint.parent == ("" if own_joint.parent < 0 else model.joint_names[own_joint.parent])
        if model.nvs[index] == 1:
            row, column = model.idx_q[index], model.idx_v[index]
            assert (joint.lower, joint.upper, joint.velocity, joint.effort) == (
                model.lower[row],
                model.upper[row],
                model.velocity_limit[column],
                model.effort_limit[column],
            )
        elif model.nvs[index]:
            assert (joint.lower, joint.upper) == (-math.inf, math.inf)
            assert (joint.velocity, joint.effort) == (math.inf, math.inf)
        if not joint.mimic:
            assert (joint.multiplier, joint.offset) == (1.0, 0.0)
    assert [frame.name for frame in answer.frames] == list(model.frame_names)
    assert {frame.kind for frame in answer.frames} <= {"link", "joint", "fixed_joint"}
    bodies = [link for link in answer.links if link.joint]
    assert [link.joint for link in bodies] == list(model.joint_names)
    assert sum(link.inertia.m for link in bodies) == pytest.approx(model.total_mass, rel=1e-14)
    links = {link.name for link in answer.links}.union(*(link.fixed for link in answer.links))
    assert links == {frame.name for frame in answer.frames if frame.kind == "link"}
    assert (root_joint == "fixed") == (not answer.links[0].joint)


def test_placements_in_the_model_chain_up():
    service_node, pair = make_service_node("ur5"), pinocchio_pair("ur5", "fixed")
    answer = service_node.ask("get_model")
    model = pair.model
    oMi = {"": np.eye(4)}
    for joint in answer.joints:  # at position zero
        oMi[joint.name] = oMi[joint.parent] @ homogeneous(joint.origin)
    oMf = dyn_ros.frame_placements(model, dyn_ros.Data(model), model.neutral())
    for frame, placement in zip(answer.frames, oMf):
        np.testing.assert_allclose(
            oMi[frame.parent] @ homogeneous(frame.origin), placement, atol=1e-14
        )


def homogeneous(pose):
    assert isinstance(pose, Pose)
    return message_fields.from_pose(pose).as_homogeneous()


def test_mimic_relations_and_payloads_are_part_of_the_model():
    service_node = make_service_node("panda")
    finger = service_node.ask("get_model").joints[-1]
    assert finger.name == "panda_finger_joint2"
    assert (finger.mimic, finger.multiplier, finger.offset) == ("panda_finger_joint1", 1.0, 0.0)
    assert (finger.lower, finger.upper) == (0.0, 0.04)

    box = InertiaStamped()
    box.header.frame_id, box.inertia.m, box.inertia.com.z = "panda_hand", 2.0, 0.1
    box.inertia.ixx, box.inertia.iyy, box.inertia.izz = 0.01, 0.02, 0.025
    before = service_node.ask("get_model")
    service_node.ask("set_payload", name="box", inertia=box)
    service_node.robot.payloads["lost"] = ("nose", 1.0, [0.0] * 3, np.eye(3).tolist())
    after = service_node.ask("get_model")
    assert [(each.name, each.applied) for each in after.payloads] == [
        ("box", True),
        ("lost", False),
    ]
    assert after.payloads[0].inertia == box
    assert after.links == before.links
    assert after.total_mass == pytest.approx(before.total_mass + 2.0, rel=1e-15)


def test_the_model_of_a_robot_without_joints():
    service_node = node("""<robot name="statue"><link name="floor"/><link name="statue"/>
      <joint name="foot" type="fixed"><parent link="floor"/><child link="statue"/></joint>
      </robot>""")
    answer = service_node.ask("get_model")
    assert not answer.joints and not answer.name and answer.total_mass == 0.0
    assert [(each.name, each.kind, each.link) for each in answer.frames] == [
        ("floor", "link", "floor"),
        ("foot", "fixed_joint", "statue"),
        ("statue", "link", "statue"),
    ]
    [base] = answer.links
    assert (base.name, base.joint, list(base.fixed)) == ("floor", "", ["statue"])
    assert service_node.ask("get_com_jacobian").mass == 0.0
    assert service_node.ask("get_energies").mechanical == 0.0


@pytest.mark.parametrize("name", SERVICES)
def test_an_inactive_node_and_one_without_a_robot_say_so(name):
    service_node = make_service_node("ur5")
    service_node.active = False
    assert "/dynamics is not active" in service_node.rejection(name)
    service_node.active, service_node.robot = True, None
    assert "waiting for robot_description" in service_node.rejection(name)
