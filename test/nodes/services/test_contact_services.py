# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The services of dynamics_node with contacts, impacts, and in the operational space."""

import math

import numpy as np
import pytest

import dyn_ros
import peer

pytest.importorskip("rclpy", reason="no ROS: run `make test`")
pytest.importorskip("dyn_ros.srv", reason="the services are not built: run `make test`")

from geometry_msgs.msg import Pose, Quaternion, WrenchStamped

from dyn_ros import ReferenceFrame
from dyn_ros.msg import Contact, RobotState
from dyn_ros.nodes.messages import message_fields
from service_stub import feed, matrix, node, state_message

WORLD, LOCAL, LWA = ReferenceFrame
FEET = ["FL_FOOT", "FR_FOOT", "HL_FOOT", "HR_FOOT"]
ROBOTS = pytest.mark.parametrize(
    "robot, root_joint",
    [("ur5", "fixed"), ("panda", "fixed"), ("solo12", "floating"), ("simple_humanoid", "planar")],
)
TURNED = dyn_ros.SE3.from_quaternion([0.5, 0.5, -0.5, 0.5], [0.1, -0.2, 0.3])


def make_service_node(name, root_joint="fixed", **values):
    return node(peer.urdf(name), root_joint=root_joint, **values)


def pinocchio_pair(name, root_joint):
    return peer.pair(name, None if root_joint == "fixed" else root_joint)


def vector(message):
    return np.array([message.x, message.y, message.z])


def wrench(force):
    """Force and torque of a dyn_ros/ContactForce."""
    return np.concatenate([vector(force.wrench.force), vector(force.wrench.torque)])


def on_feet(dimension=3, frame=LWA, **fields):
    return [
        Contact(frame=foot, dimension=dimension, reference_frame=frame, **fields) for foot in FEET
    ]


def in_world(service_node, force, q):
    """Force and moment about the world's origin, in its axes, of a dyn_ros/ContactForce."""
    model, point, f = service_node.robot.model, vector(force.point), wrench(force)
    if force.header.frame_id in model.frame_names:
        oMf = dyn_ros.frame_placements(model, dyn_ros.Data(model), q)
        X = oMf[model.frame_index(force.header.frame_id)]
        point, f = X[:3, :3] @ point + X[:3, 3], (X[:3, :3] @ f.reshape(2, 3, 1)).ravel()
    return np.concatenate([f[:3], f[3:] + np.cross(point, f[:3])])


# Contacts


@ROBOTS
@pytest.mark.parametrize("dimension", [3, 6])
@pytest.mark.parametrize("frame", ReferenceFrame)
def test_motion_and_forces_are_the_engines(robot, root_joint, dimension, frame):
    """The forces, wherever the message places them, are those of the equation of motion."""
    pair, service_node = pinocchio_pair(robot, root_joint), make_service_node(robot, root_joint)
    q, v, _, tau = pair.state(3)
    model = pair.model
    name = FEET[0] if robot == "solo12" else model.frame_names[-1]
    contact_message = Contact(
        frame=name,
        dimension=dimension,
        reference_frame=frame,
        kp=3.0,
        kd=2.0,
        placement=message_fields.to_pose(TURNED),
    )
    answer = service_node.ask(
        "get_contact_dynamics",
        state=state_message(model, q, v),
        contacts=[contact_message],
        name=list(model.velocity_names),
        effort=tau.tolist(),
        damping=1e-3,
    )
    contact = dyn_ros.Contact(name, dimension, frame, placement=TURNED, kp=3.0, kd=2.0)
    a, forces = dyn_ros.contact_dynamics(
        model, dyn_ros.Data(model), q, v, tau, [contact], damping=1e-3
    )
    assert list(answer.name) == list(model.velocity_names)
    assert answer.header.frame_id == service_node.robot.root_link
    peer.close(answer.acceleration, a)
    assert answer.rank == forces.rank and answer.residual == pytest.approx(forces.residual)

    [force] = answer.forces
    assert force.name == name and force.active
    index = model.frame_index(name)
    place = dyn_ros.frame_placements(model, dyn_ros.Data(model), q)[index]
    J = dyn_ros.frame_jacobian(model, dyn_ros.Data(model), q, index, WORLD)
    peer.close(pair.rnea(q, v, a), tau + J.T @ in_world(service_node, force, q), 1e-8)
    c1 = place @ TURNED.as_homogeneous()
    if frame == LOCAL:
        assert force.header.frame_id in model.frame_names
        peer.close(vector(force.point), TURNED.translation)
    else:
        assert force.header.frame_id == service_node.robot.world_frame
        peer.close(
            vector(force.point), 0.0 * c1[:3, 3] if frame == WORLD and dimension == 6 else c1[:3, 3]
        )
    if dimension == 3:
        assert not wrench(force)[3:].any()


def test_feet_that_stand_carry_the_weight_and_their_torques_give_them_back():
    service_node, pair = (
        make_service_node("solo12", "floating"),
        pinocchio_pair("solo12", "floating"),
    )
    model, data = pair.model, dyn_ros.Data(pair.model)
    q = model.neutral()
    q[7:] = np.tile([0.1, 0.7, -1.4], 4)
    v = a = np.zeros(model.nv)
    contacts = [dyn_ros.Contact(foot, 3, LWA) for foot in FEET]
    tau, forces = dyn_ros.contact_inverse_dynamics(model, data, q, v, a, contacts)
    expected = {name: forces[name].copy() for name in FEET}
    answer = service_node.ask(
        "get_contact_dynamics",
        state=state_message(model, q, v),
        contacts=on_feet(),
        name=list(model.velocity_names),
        effort=tau.tolist(),
    )
    assert [force.name for force in answer.forces] == FEET
    np.testing.assert_allclose(answer.acceleration, 0.0, atol=1e-9)
    total = sum(vector(force.wrench.force) for force in answer.forces)
    np.testing.assert_allclose(total, [0.0, 0.0, 9.81 * model.total_mass], atol=1e-9)
    for force in answer.forces:
        np.testing.assert_allclose(vector(force.wrench.force), expected[force.name], atol=1e-9)
    assert answer.rank == 12 and answer.residual < 1e-9


def test_a_wrench_a_second_body_and_names():
    service_node, pair = (
        make_service_node("solo12", "floating"),
        pinocchio_pair("solo12", "floating"),
    )
    q, v, _, tau = pair.state(4)
    push = WrenchStamped()
    push.header.frame_id, push.wrench.force.x = "base_link", 5.0
    model = pair.model
    f_ext = model.external_forces({"base_link": [5.0, 0.0, 0.0, 0.0, 0.0, 0.0]})
    target = dyn_ros.SE3.from_quaternion([0.0, 0.0, 0.0, 1.0], [0.3, 0.2, 0.1])
    answer = service_node.ask(
        "get_contact_dynamics",
        state=state_message(model, q, v),
        wrenches=[push],
        name=list(model.velocity_names),
        effort=tau.tolist(),
        contacts=[
            Contact(name="bar", frame="FL_FOOT", other="HR_FOOT", dimension=3),
            Contact(
                name="floor",
                frame="FL_FOOT",
                dimension=6,
                reference_frame=LOCAL,
                kp=5.0,
                other_placement=message_fields.to_pose(target),
            ),
        ],
    )
    contacts = [
        dyn_ros.Contact("FL_FOOT", 3, WORLD, "HR_FOOT", name="bar"),
        dyn_ros.Contact("FL_FOOT", 6, LOCAL, other_placement=target, kp=5.0, name="floor"),
    ]
    a, forces = dyn_ros.contact_dynamics(model, dyn_ros.Data(model), q, v, tau, contacts, f_ext)
    peer.close(answer.acceleration, a)
    assert [force.name for force in answer.forces] == ["bar", "floor"]
    peer.close(wrench(answer.forces[0])[:3], forces["bar"])
    peer.close(wrench(answer.forces[1]), forces["floor"])


def test_some_joints_the_latest_state_and_no_contacts():
    rows = ["elbow_joint", "shoulder_pan_joint"]
    service_node, pair = make_service_node("ur5", joints=rows), pinocchio_pair("ur5", "fixed")
    q, v, _, tau = pair.state(5)
    feed(service_node, q, v)
    answer = service_node.ask("get_contact_dynamics", name=rows, effort=[1.0, 2.0])
    tau = np.zeros(6)
    chosen = [pair.model.joint_index(name) for name in rows]
    tau[chosen] = 1.0, 2.0
    peer.close(answer.acceleration, pair.aba(q, v, tau)[chosen])
    assert list(answer.name) == rows and answer.header.stamp.sec == 7
    assert not answer.forces and answer.rank == 0 and answer.residual == 0.0


# Impacts


@pytest.mark.parametrize("restitution", [0.0, 0.4, 1.0])
def test_an_impact_is_the_engines_and_newtons(restitution):
    service_node, pair = (
        make_service_node("solo12", "floating"),
        pinocchio_pair("solo12", "floating"),
    )
    q, v, _, _ = pair.state(6)
    model, data = pair.model, dyn_ros.Data(pair.model)
    contacts = [dyn_ros.Contact(foot, 3, LWA) for foot in FEET[:2]]
    answer = service_node.ask(
        "get_impulse",
        state=state_message(model, q, v),
        contacts=on_feet()[:2],
        restitution=restitution,
    )
    v_after, impulses = dyn_ros.impulse_dynamics(model, data, q, v, contacts, restitution)
    peer.close(answer.velocity, v_after)
    assert answer.rank == 6 and answer.residual < 1e-9
    momentum = pair.crba(q) @ (np.array(answer.velocity) - v)
    for foot, impulse in zip(FEET, answer.impulses):
        peer.close(wrench(impulse)[:3], impulses[foot])
        J = dyn_ros.frame_jacobian(model, data, q, foot, LWA)[:3]
        np.testing.assert_allclose(J @ answer.velocity, -restitution * J @ v, atol=1e-10)
        momentum -= J.T @ wrench(impulse)[:3]
    np.testing.assert_allclose(momentum, 0.0, atol=1e-9)


# The operational space


@ROBOTS
@pytest.mark.parametrize("dimension", [3, 6])
@pytest.mark.parametrize("frame", ReferenceFrame)
def test_the_operational_space_has_the_equations_of_motion(robot, root_joint, dimension, frame):
    pair, service_node = pinocchio_pair(robot, root_joint), make_service_node(robot, root_joint)
    q, v, _, tau = pair.state(7)
    model, data = pair.model, dyn_ros.Data(pair.model)
    name = FEET[0] if robot == "solo12" else model.frame_names[-1]
    state = state_message(model, q, v)
    answer = service_node.ask(
        "get_operational_space", frame=name, reference_frame=frame, dimension=dimension, state=state
    )
    at = LWA if dimension == 3 and frame == WORLD else frame
    J = dyn_ros.frame_jacobian(model, data, q, name, at)[:dimension].copy()
    dJ = dyn_ros.frame_jacobian_time_variation(model, data, q, v, name, at)[:dimension].copy()
    M = pair.crba(q)
    L = matrix(answer.inertia)
    assert (
        answer.header.frame_id
        == service_node.ask(
            "get_jacobian", frame=name, reference_frame=frame, state=state
        ).header.frame_id
    )
    assert answer.velocity_valid and list(answer.name) == list(model.velocity_names)
    core = J @ np.linalg.solve(M, J.T)
    if np.linalg.matrix_rank(core) == dimension:
        peer.close(L @ core, np.eye(dimension), 1e-7)
    peer.close(core @ L @ core, core, 1e-7)
    inverse = matrix(answer.dynamically_consistent_inverse)
    peer.close(inverse, np.linalg.solve(M, J.T) @ L, 1e-8)
    N = matrix(answer.null_space_projector)
    peer.close(N, np.eye(model.nv) - J.T @ inverse.T, 1e-10, scale=1.0)
    free = J @ np.linalg.solve(M, tau)
    peer.close(J @ np.linalg.solve(M, N @ tau), 0.0 * free, 1e-9, scale=abs(free).max())
    g = pair.generalized_gravity(q)
    peer.close(answer.p, inverse.T @ g, 1e-8)
    peer.close(answer.mu, inverse.T @ (pair.nonlinear_effects(q, v) - g) - L @ dJ @ v, 1e-8)


def test_without_velocities_mu_is_nan():
    service_node, pair = make_service_node("ur5"), pinocchio_pair("ur5", "fixed")
    q, _, _, _ = pair.state(8)
    feed(service_node, q)
    answer = service_node.ask(
        "get_operational_space", frame="tool0", reference_frame=LWA, dimension=3
    )
    assert not answer.velocity_valid and len(answer.mu) == 3 and np.isnan(answer.mu).all()
    assert np.isfinite(answer.p).all() and np.isfinite(answer.inertia.data).all()
    for name in ("get_contact_dynamics", "get_impulse"):
        assert service_node.rejection(name).startswith("unknown velocity of shoulder_pan_joint")


# Requests that cannot be answered


UR5 = list(dyn_ros.Model.from_urdf(peer.urdf("ur5")).joint_names)
STATE = RobotState(name=UR5, position=[0.1] * 6, velocity=[0.0] * 6)
NO_QUATERNION = Pose(orientation=Quaternion(w=0.0))
BENT = Pose(orientation=Quaternion(x=0.5))
LOST = Pose()
LOST.position.x = math.nan
CONTACT_FAULTS = [
    ([Contact(frame="nose", dimension=3)], "no frame named 'nose'; available: "),
    ([Contact(frame="x" * 100_000, dimension=3)], "no frame named 'xxx"),
    ([Contact(frame="tool0")], "contacts[0] ('tool0'): dimension: expected 6 or 3, got 0"),
    (
        [Contact(frame="tool0", dimension=6), Contact(frame="tool0", dimension=4)],
        "contacts[1] ('tool0'): dimension: expected 6 or 3, got 4",
    ),
    (
        [Contact(frame="tool0", dimension=6, reference_frame=7)],
        "contacts[0] ('tool0'): reference_frame: expected dyn_ros.ReferenceFrame, got 7",
    ),
    ([Contact(frame="tool0", dimension=6, other="tail")], "no frame named 'tail'"),
    ([Contact(frame="base_link", dimension=6)], "no joint moves the frame 'base_link'"),
    ([Contact(frame="tool0", dimension=6, other="ee_link")], "belong to the same body"),
    (
        [Contact(frame="tool0", dimension=6, placement=NO_QUATERNION)],
        "contacts[0] ('tool0'): placement: the norm of its quaternion is 0, expected 1",
    ),
    (
        [Contact(frame="tool0", dimension=6, other_placement=BENT)],
        "other_placement: the norm of its quaternion is 1.11803, expected 1",
    ),
    (
        [Contact(frame="tool0", dimension=6, placement=LOST)],
        "placement: expected finite numbers, got (nan, 0.0",
    ),
    ([Contact(frame="tool0", dimension=6, kp=math.nan)], "kp: expected"),
    ([Contact(frame="tool0", dimension=6, kd=-1.0)], "kd: expected a number of 0 or more, got -1"),
    ([Contact(frame="tool0", dimension=3)] * 2, "contacts: several are named 'tool0'"),
    (
        [Contact(name=str(i), frame="tool0", dimension=6) for i in range(7)],
        "contacts: expected at most 36 rows, 3 or 6 for each contact, got 42 in 7 contacts",
    ),
    ([Contact(frame="tool0", dimension=3)] * 100_000, "contacts: expected at most 12, got 100000"),
]


@pytest.mark.parametrize("name", ["get_contact_dynamics", "get_impulse"])
@pytest.mark.parametrize(
    "contacts, why", CONTACT_FAULTS, ids=lambda x: x[:40] if isinstance(x, str) else ""
)
def test_a_contact_that_cannot_be_used(name, contacts, why):
    service_node = make_service_node("ur5")
    reason = service_node.rejection(name, contacts=contacts, state=STATE)
    assert why in reason and len(reason) < 1000
    assert not service_node.failed


HOLD = [Contact(frame="tool0", dimension=6)]


@pytest.mark.parametrize(
    "name, fields, why",
    [
        (
            "get_contact_dynamics",
            {"damping": -1.0},
            "damping: expected a number of 0 or more, got -1",
        ),
        ("get_contact_dynamics", {"damping": math.nan}, "damping"),
        ("get_contact_dynamics", {"name": ["knee"], "effort": [1.0]}, "knee"),
        ("get_contact_dynamics", {"name": UR5[:1], "effort": [math.inf]}, "effort is not finite"),
        ("get_contact_dynamics", {"wrenches": [WrenchStamped()]}, "header.frame_id"),
        ("get_contact_dynamics", {"name": UR5, "effort": [1e308] * 6}, "not finite"),
        ("get_impulse", {"restitution": 1.5}, "restitution"),
        ("get_impulse", {"restitution": math.nan}, "restitution"),
        ("get_impulse", {"damping": -1.0}, "damping"),
    ],
)
def test_a_number_that_cannot_be_used(name, fields, why):
    service_node = make_service_node("ur5")
    reason = service_node.rejection(name, **{"contacts": HOLD, "state": STATE, **fields})
    assert why in reason and len(reason) < 1000
    assert not service_node.failed
    assert service_node.ask(name, contacts=HOLD, state=STATE).rank == 6


@pytest.mark.parametrize(
    "fields, why",
    [
        ({"frame": "nose"}, "no frame named 'nose'"),
        ({"frame": ""}, "no frame named ''"),
        ({"frame": "base_link"}, "frame: no joint moves 'base_link'"),
        ({"dimension": 0}, "dimension: expected 6 or 3, got 0"),
        ({"reference_frame": 3}, "reference_frame"),
        ({"damping": math.inf}, "damping"),
        ({"state": RobotState(name=UR5, position=[math.nan] * 6)}, "position is not finite"),
    ],
)
def test_an_operational_space_that_cannot_be_computed(fields, why):
    service_node = make_service_node("ur5")
    good = {"frame": "tool0", "reference_frame": LWA, "dimension": 6, "state": STATE}
    reason = service_node.rejection("get_operational_space", **{**good, **fields})
    assert why in reason and len(reason) < 1000
    assert not service_node.failed
    assert service_node.ask("get_operational_space", **good).inertia.rows == 6
