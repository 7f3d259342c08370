# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The services of dynamics_node without a process: results and rejected requests."""

import math
import re
from types import SimpleNamespace

import numpy as np
import pinocchio
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import dyn_ros
import peer

pytest.importorskip("rclpy", reason="no ROS: run `make test`")
pytest.importorskip("dyn_ros.srv", reason="the services are not built: run `make test`")

from geometry_msgs.msg import InertiaStamped, WrenchStamped

from dyn_ros.msg import ReferenceFrame, RobotState
from dyn_ros.nodes.base import service as services
from dyn_ros.nodes.base.service import service_callback
from dyn_ros.nodes.messages import arrays
from dyn_ros.nodes.robot.context import RobotContext
from dyn_ros.nodes.services.dynamics_services import SERVICES
from dyn_ros.states.joint_states import Rejected
from service_stub import NS, VALUES, Node, feed, joints_of, matrix, node, state_message

REFERENCES = {
    ReferenceFrame.WORLD: pinocchio.WORLD,
    ReferenceFrame.LOCAL: pinocchio.LOCAL,
    ReferenceFrame.LOCAL_WORLD_ALIGNED: pinocchio.LOCAL_WORLD_ALIGNED,
}
ROBOTS = pytest.mark.parametrize(
    "robot, root_joint, frames",
    [
        ("ur5", "fixed", ("tool0", "forearm_link", "shoulder_lift_joint", "base_link")),
        ("solo12", "floating", ("FL_FOOT", "base_link", "HR_KFE")),
        ("simple_humanoid", "planar", ("RARM_LINK6", "base_link", "LLEG_KNEE")),
    ],
)


def six(twist):
    v, w = twist.linear, twist.angular
    return [v.x, v.y, v.z, w.x, w.y, w.z]


def pose_matrix(pose):
    p, q = pose.position, pose.orientation
    return pinocchio.XYZQUATToSE3(np.array([p.x, p.y, p.z, q.x, q.y, q.z, q.w])).homogeneous


def frame_id(pair, name):
    """Return Pinocchio's index of a frame; a name that a joint shares means the link."""
    if pair.pin.existFrame(name, pinocchio.FrameType.BODY):
        return pair.pin.getFrameId(name, pinocchio.FrameType.BODY)
    return pair.pin.getFrameId(name)


def pinocchio_pair(robot, root_joint):
    return peer.pair(robot, None if root_joint == "fixed" else root_joint)


# Numbers, beside Pinocchio


@ROBOTS
def test_jacobian(robot, root_joint, frames):
    pair = pinocchio_pair(robot, root_joint)
    service_node = node(peer.urdf(robot), root_joint=root_joint)
    q, v, _, _ = pair.state(1)
    pinocchio.computeJointJacobiansTimeVariation(pair.pin, pair.pin_data, pair.to_pin_q(q), v)
    pinocchio.updateFramePlacements(pair.pin, pair.pin_data)
    for frame in frames:
        index = frame_id(pair, frame)
        for number, reference in REFERENCES.items():
            answer = service_node.ask(
                "get_jacobian",
                frame=frame,
                reference_frame=number,
                time_variation=True,
                state=state_message(pair.model, q, v),
            )
            assert list(answer.name) == list(pair.model.velocity_names)
            assert (answer.header.stamp.sec, answer.header.stamp.nanosec) == (0, 0)
            place = pair.pin, pair.pin_data, index, reference
            J = pinocchio.getFrameJacobian(*place)
            peer.close(matrix(answer.jacobian), J)
            peer.close(
                matrix(answer.jacobian_time_variation),
                pinocchio.getFrameJacobianTimeVariation(*place),
                scale=abs(J).max(),
            )
            short = service_node.ask(
                "get_jacobian",
                frame=frame,
                reference_frame=number,
                state=state_message(pair.model, q),
            )
            peer.close(matrix(short.jacobian), matrix(answer.jacobian), 1e-14)
            assert short.jacobian_time_variation.rows == 0


@ROBOTS
def test_frame_state(robot, root_joint, frames):
    pair = pinocchio_pair(robot, root_joint)
    service_node = node(peer.urdf(robot), root_joint=root_joint)
    q, v, a, _ = pair.state(2)
    pinocchio.forwardKinematics(pair.pin, pair.pin_data, pair.to_pin_q(q), v, a)
    pinocchio.updateFramePlacements(pair.pin, pair.pin_data)
    names = list(pair.model.velocity_names)
    for frame in frames:
        index = frame_id(pair, frame)
        for number, reference in REFERENCES.items():
            answer = service_node.ask(
                "get_frame_state",
                frame=frame,
                reference_frame=number,
                state=state_message(pair.model, q, v),
                name=names[::-1],
                acceleration=a[::-1].tolist(),
            )
            place = pair.pin, pair.pin_data, index, reference
            peer.close(pose_matrix(answer.pose.pose), pair.pin_data.oMf[index].homogeneous)
            assert answer.velocity_valid
            peer.close(six(answer.velocity), pinocchio.getFrameVelocity(*place).vector)
            peer.close(six(answer.acceleration), pinocchio.getFrameAcceleration(*place).vector)
            peer.close(
                six(answer.classical_acceleration),
                pinocchio.getFrameClassicalAcceleration(*place).vector,
            )
            assert answer.pose.header.frame_id == service_node.robot.world_frame


@ROBOTS
def test_dynamics_there_and_back(robot, root_joint, frames):
    pair = pinocchio_pair(robot, root_joint)
    service_node = node(peer.urdf(robot), root_joint=root_joint)
    q, v, a, _ = pair.state(3)
    state, names = state_message(pair.model, q, v), list(pair.model.velocity_names)
    wrenches = [wrench(frame, np.arange(1.0, 7.0) * (k + 1)) for k, frame in enumerate(frames)]
    wrenches.append(wrench(frames[0], np.full(6, 0.5)))
    f_ext = pair.model.external_forces(
        {
            frame: np.arange(1.0, 7.0) * (k + 1) + (0.5 if k == 0 else 0.0)
            for k, frame in enumerate(frames)
        }
    )
    inverse = service_node.ask(
        "get_inverse_dynamics", state=state, name=names, acceleration=a.tolist(), wrenches=wrenches
    )
    assert list(inverse.name) == names
    peer.close(inverse.effort, pair.rnea(q, v, a, f_ext))
    forward = service_node.ask(
        "get_forward_dynamics",
        state=state,
        name=list(inverse.name),
        effort=inverse.effort,
        wrenches=wrenches,
    )
    assert list(forward.name) == names
    peer.close(forward.acceleration, a, 1e-9)
    falls = service_node.ask("get_forward_dynamics", state=state)
    peer.close(falls.acceleration, pair.aba(q, v, np.zeros(pair.model.nv)))
    holds = service_node.ask("get_inverse_dynamics", state=state)
    peer.close(holds.effort, pair.nonlinear_effects(q, v))


def wrench(frame, values):
    message = WrenchStamped()
    message.header.frame_id = frame
    f, n = message.wrench.force, message.wrench.torque
    f.x, f.y, f.z, n.x, n.y, n.z = map(float, values)
    return message


def test_a_point_jacobian_moves_the_point():
    pair = pinocchio_pair("ur5", "fixed")
    service_node = node(peer.urdf("ur5"))
    q, v, _, _ = pair.state(4)
    offset, step = np.array([0.1, -0.2, 0.3]), 1e-6
    request = dict(
        frame="tool0", reference_frame=ReferenceFrame.LOCAL_WORLD_ALIGNED, time_variation=True
    )

    def ask(q):
        fields = dict(request, state=state_message(pair.model, q, v))
        [service] = [service for service in SERVICES if service.name == "~/get_jacobian"]
        message = service.type.Request(**fields)
        message.offset.x, message.offset.y, message.offset.z = offset
        return service_callback(service_node, service)(message, service.type.Response())

    def point(q):
        answer = service_node.ask(
            "get_frame_state", frame="tool0", state=state_message(pair.model, q)
        )
        return (pose_matrix(answer.pose.pose) @ [*offset, 1.0])[:3]

    answer = ask(q)
    moved = (point(q + step * v) - point(q - step * v)) / (2.0 * step)
    peer.close((matrix(answer.jacobian) @ v)[:3], moved, 1e-8)
    varied = (matrix(ask(q + step * v).jacobian) - matrix(ask(q - step * v).jacobian)) / (2 * step)
    peer.close(matrix(answer.jacobian_time_variation), varied, 1e-8)


def test_joints_picks_columns_rows_and_their_order():
    pair = pinocchio_pair("solo12", "floating")
    picked = ["HR_KFE", "root_joint", "FL_HAA"]
    service_node = node(peer.urdf("solo12"), root_joint="floating", joints=picked)
    whole = node(peer.urdf("solo12"), root_joint="floating")
    q, v, a, tau = pair.state(5)
    state = state_message(pair.model, q, v)
    names = ["HR_KFE", *pair.model.velocity_names[:6], "FL_HAA"]
    columns = [list(pair.model.velocity_names).index(name) for name in names]
    ask = dict(frame="HR_FOOT", time_variation=True, state=state)
    ours, all_of = service_node.ask("get_jacobian", **ask), whole.ask("get_jacobian", **ask)
    assert list(ours.name) == names
    np.testing.assert_array_equal(matrix(ours.jacobian), matrix(all_of.jacobian)[:, columns])
    np.testing.assert_array_equal(
        matrix(ours.jacobian_time_variation), matrix(all_of.jacobian_time_variation)[:, columns]
    )
    every = list(pair.model.velocity_names)
    effort = service_node.ask(
        "get_inverse_dynamics", state=state, name=every, acceleration=a.tolist()
    )
    peer.close(effort.effort, pair.rnea(q, v, a)[columns])
    forward = service_node.ask("get_forward_dynamics", state=state, name=every, effort=tau.tolist())
    peer.close(forward.acceleration, pair.aba(q, v, tau)[columns])


def test_mimic_joints_follow_in_a_given_state():
    pair = pinocchio_pair("panda", "fixed")
    service_node = node(peer.urdf("panda"))
    q, v, a, _ = pair.state(6)
    state = state_message(pair.model, q, v)
    state.name = [*state.name, "panda_finger_joint2"]
    state.position = [*state.position, 77.0]
    state.velocity = [*state.velocity, 77.0]
    answer = service_node.ask(
        "get_inverse_dynamics",
        state=state,
        name=list(pair.model.velocity_names),
        acceleration=a.tolist(),
    )
    peer.close(answer.effort, pair.rnea(q, v, a))
    jacobian = service_node.ask("get_jacobian", frame="panda_rightfinger", state=state)
    twist = service_node.ask("get_frame_state", frame="panda_rightfinger", state=state).velocity
    peer.close(matrix(jacobian.jacobian) @ v, six(twist), 1e-13)


# The latest state


@pytest.fixture
def ur5():
    return node(peer.urdf("ur5"))


Q, V = np.array([0.3, -0.6, 0.9, -1.2, 1.5, 0.4]), np.array([0.5, 0.4, -0.3, 0.2, -0.1, 0.6])


def test_an_empty_state_is_the_latest_with_its_stamp(ur5):
    model = ur5.robot.model
    for shift in (0.0, 0.1):
        feed(ur5, Q + shift, V, stamp=round((9.25 + shift) * NS))
        latest = ur5.ask("get_jacobian", frame="tool0", time_variation=True)
        requested = ur5.ask(
            "get_jacobian",
            frame="tool0",
            time_variation=True,
            state=state_message(model, Q + shift, V),
        )
        assert matrix(latest.jacobian).tolist() == matrix(requested.jacobian).tolist()
        assert latest.jacobian_time_variation == requested.jacobian_time_variation
        assert latest.header.frame_id == "world"  # this robot's root link
        assert latest.header.stamp.sec * NS + latest.header.stamp.nanosec == round(
            (9.25 + shift) * NS
        )
    ur5.ask("get_jacobian", frame="tool0", state=state_message(model, -Q, V))
    again = ur5.ask("get_jacobian", frame="tool0")
    np.testing.assert_array_equal(matrix(again.jacobian), matrix(latest.jacobian))


def test_no_state_yet_names_the_joints(ur5):
    reason = ur5.rejection("get_jacobian", frame="tool0")
    assert all(name in reason for name in ur5.robot.model.joint_names)
    assert "specify a state in the request" in reason
    ur5.ask("get_jacobian", frame="tool0", state=state_message(ur5.robot.model, Q))


def test_a_part_that_is_behind_is_named(ur5):
    names = ur5.robot.model.joint_names
    feed(ur5, Q, V)
    ur5.robot.collector.receive_joint_states(names[:2], Q[:2], V[:2], (), 8 * NS)
    reason = ur5.rejection("get_jacobian", frame="tool0")
    assert names[2] in reason and names[0] not in reason


def test_a_stale_state_is_rejected_by_the_time_since_it_came():
    ur5 = node(peer.urdf("ur5"), staleness=600.0)
    feed(ur5, Q, V)
    ur5.robot.received -= 300.0
    ur5.ask("get_frame_state", frame="tool0")
    ur5.robot.received -= 700.0
    reason = ur5.rejection("get_frame_state", frame="tool0")
    assert re.search(r"1\d\d\d\.\d* s old, more than the parameter staleness \(600 s\)", reason)
    ur5.ask("get_frame_state", frame="tool0", state=state_message(ur5.robot.model, Q))


def test_under_simulated_time_a_state_ages_by_its_stamp(ur5):
    feed(ur5, Q, V, stamp=100 * NS)
    ur5.robot.received -= 50.0  # a paused simulation
    ur5.sim_time = 100 * NS + NS // 4
    ur5.ask("get_jacobian", frame="tool0")
    ur5.sim_time = 101 * NS
    assert "1.000 s old" in ur5.rejection("get_jacobian", frame="tool0")
    ur5.sim_time = 99 * NS + 3 * NS // 4
    ur5.ask("get_jacobian", frame="tool0")  # a stamp may be somewhat ahead of the clock
    ur5.sim_time = 10 * NS  # but not so far: the simulation was reset
    assert "90.000 s ahead of the clock" in ur5.rejection("get_jacobian", frame="tool0")


@pytest.fixture
def clock(ur5, monkeypatch):
    """A clock that the test sets, and a state with the stamp 7 s that came at 100 s."""
    feed(ur5, np.zeros(6), np.zeros(6), stamp=7 * NS)
    ur5.robot.received = 100.0
    now = SimpleNamespace(seconds=100.0)
    monkeypatch.setattr(services, "time", SimpleNamespace(perf_counter=lambda: now.seconds))
    return now


def test_a_state_may_be_as_old_as_staleness_and_no_older(ur5, clock):
    clock.seconds = 100.5
    ur5.ask("get_jacobian", frame="tool0")
    clock.seconds = 100.5 + 1e-6
    assert "is 0.500 s old, more than" in ur5.rejection("get_jacobian", frame="tool0")


def test_under_simulated_time_a_state_may_be_as_old_as_staleness_and_no_older(ur5, clock):
    clock.seconds = 200.0
    for offset in (NS // 2, -NS // 2):
        ur5.sim_time = 7 * NS + offset
        ur5.ask("get_jacobian", frame="tool0")
    ur5.sim_time = 7 * NS + NS // 2 + 1000
    assert "is 0.500 s old, more than" in ur5.rejection("get_jacobian", frame="tool0")
    ur5.sim_time = 7 * NS - NS // 2 - 1000
    assert "is 0.500 s ahead of the clock" in ur5.rejection("get_jacobian", frame="tool0")


def test_finite_numbers_whose_sum_overflows_are_an_answer():
    for values in ([1e308] * 3, [-1.7e308, -1.7e308, 1.0]):
        assert list(arrays.to_float64_field(np.array(values))) == values


@pytest.mark.parametrize(
    "values", [[math.nan], [1.0, math.inf], [math.inf, -math.inf], [1e308, 1e308, -math.inf]]
)
def test_numbers_that_are_not_finite_are_no_answer(values):
    with pytest.raises(Rejected, match="the result is not finite"):
        arrays.to_float64_field(np.array(values))


def test_an_unknown_velocity_is_rejected_only_where_it_counts(ur5):
    feed(ur5, Q)
    plain = ur5.ask("get_jacobian", frame="tool0")
    assert plain.jacobian.cols == 6
    frame = ur5.ask("get_frame_state", frame="tool0")
    assert not frame.velocity_valid
    assert np.isnan(
        [six(frame.velocity), six(frame.acceleration), six(frame.classical_acceleration)]
    ).all()
    peer.close(pose_matrix(frame.pose.pose)[3], [0.0, 0.0, 0.0, 1.0])
    for name, fields in (
        ("get_jacobian", dict(frame="tool0", time_variation=True)),
        ("get_inverse_dynamics", {}),
        ("get_forward_dynamics", {}),
    ):
        reason = ur5.rejection(name, **fields)
        assert reason.startswith("unknown velocity of shoulder_pan_joint, ")


def test_what_a_given_state_leaves_out_is_zero():
    service_node = node(peer.urdf("solo12"), root_joint="floating")
    pair = pinocchio_pair("solo12", "floating")
    q, v, _, _ = pair.state(7)
    feed(service_node, q, v)
    names, position, _ = joints_of(pair.model, q, None)
    service_node.ask("get_inverse_dynamics", state=state_message(pair.model, q, v))
    answer = service_node.ask(
        "get_inverse_dynamics", state=RobotState(name=names, position=position)
    )
    at_origin = np.concatenate([[0.0] * 6, [1.0], q[7:]])
    peer.close(answer.effort, pair.generalized_gravity(at_origin))


# Rejected requests


def bad_state(**fields):
    """A good state, but for these fields."""
    state = state_message(dyn_ros.Model.from_urdf(peer.urdf("ur5")), Q, V)
    for name, value in fields.items():
        setattr(state, name, value)
    return state


ALL = ("get_jacobian", "get_frame_state", "get_inverse_dynamics", "get_forward_dynamics")
FRAMED = ("get_jacobian", "get_frame_state")
TWICE = ["elbow_joint", "elbow_joint"]
REFUSALS = [
    (FRAMED, {"frame": ""}, "no frame named ''; available: ", "tool0"),
    (FRAMED, {"frame": "nowhere"}, "no frame named 'nowhere'; available: ", "wrist_3_joint"),
    (FRAMED, {"frame": "tool0\0"}, r"no frame named 'tool0\x00'", "tool0"),
    (FRAMED, {"frame": "\n" * 1000}, r"no frame named '\n\n", "tool0"),
    (FRAMED, {"frame": "x" * 1_000_000}, "no frame named 'xxx", "tool0"),
    (FRAMED, {"reference_frame": 3}, "reference_frame", "LOCAL_WORLD_ALIGNED 2"),
    (FRAMED, {"reference_frame": 255}, "got 255", "WORLD 0"),
    (
        ALL,
        {"state": bad_state(name=["elbow_joint"], position=[0.0], velocity=[])},
        "state: missing position of shoulder_pan_joint, shoulder_lift_joint",
        "wrist_3_joint",
    ),
    (
        ALL,
        {"state": bad_state(name=["elbow"], position=[0.0], velocity=[])},
        "missing position of shoulder_pan_joint",
        "not in the model: elbow",
    ),
    (ALL, {"state": bad_state(name=[])}, "no names", "name all joints"),
    (ALL, {"state": bad_state(name=[], position=[], velocity=[1.0])}, "no names", ""),
    (ALL, {"state": bad_state(position=[0.0])}, "7 names, but 1 positions", ""),
    (ALL, {"state": bad_state(velocity=[0.0])}, "1 velocities", ""),
    (
        ALL,
        {"state": bad_state(position=[math.nan] * 7)},
        "position is not finite",
        "elbow_joint = nan",
    ),
    (
        ALL,
        {"state": bad_state(velocity=[-math.inf] * 7)},
        "velocity is not finite",
        "elbow_joint = -inf",
    ),
    (
        ALL,
        {"state": bad_state(name=TWICE, position=[0.0, 0.0], velocity=[])},
        "duplicate joint names: elbow_joint",
        "",
    ),
    (
        ("get_frame_state", "get_inverse_dynamics"),
        {"name": ["elbow"], "acceleration": [1.0]},
        "acceleration: there is no 'elbow'; available: shoulder_pan_joint",
        "wrist_3_joint",
    ),
    (
        ("get_frame_state", "get_inverse_dynamics"),
        {"name": ["x" * 100000], "acceleration": [1.0]},
        "acceleration: there is no 'xxx",
        "wrist_3_joint",
    ),
    (
        ("get_frame_state", "get_inverse_dynamics"),
        {"name": TWICE, "acceleration": [1.0, 2.0]},
        "acceleration: duplicate names: elbow_joint",
        "",
    ),
    (
        ("get_frame_state", "get_inverse_dynamics"),
        {"acceleration": [1.0]},
        "acceleration: 0 names, but 1 numbers",
        "",
    ),
    (
        ("get_frame_state", "get_inverse_dynamics"),
        {"name": ["elbow_joint"], "acceleration": [math.nan]},
        "acceleration is not finite: elbow_joint = nan",
        "",
    ),
    (
        ("get_forward_dynamics",),
        {"name": ["elbow_joint"], "effort": []},
        "effort: 1 names, but 0 numbers",
        "",
    ),
    (
        ("get_forward_dynamics",),
        {"name": ["elbow_joint"], "effort": [math.inf]},
        "effort is not finite: elbow_joint = inf",
        "",
    ),
    (
        ("get_inverse_dynamics", "get_forward_dynamics"),
        {"wrenches": [wrench("hand", [0.0] * 6)]},
        "no frame named 'hand'; available: ",
        "tool0",
    ),
    (
        ("get_inverse_dynamics", "get_forward_dynamics"),
        {"wrenches": [wrench("x" * 100000, [math.nan] * 6)]},
        "no frame named 'xxx",
        "tool0",
    ),
    (
        ("get_inverse_dynamics", "get_forward_dynamics"),
        {"wrenches": [wrench("tool0", [0.0, math.nan, 0.0, 0.0, 0.0, 0.0])]},
        "wrench on tool0: expected 6 finite numbers",
        "",
    ),
    (
        ("get_inverse_dynamics", "get_forward_dynamics"),
        {"wrenches": [wrench("tool0", [1e308] * 6)] * 2},
        "finite",
        "",
    ),
    (
        ("get_inverse_dynamics", "get_forward_dynamics"),
        {"state": bad_state(velocity=[1e200] * 7)},
        "velocity is too large",
        "elbow_joint = 1e+200",
    ),
    (
        ("get_forward_dynamics",),
        {"name": ["elbow_joint"], "effort": [1e308]},
        "the result is not finite",
        "too large",
    ),
]


@pytest.mark.parametrize(
    "name, fields, begins, lists", [(name, *case) for names, *case in REFUSALS for name in names]
)
def test_a_bad_request_is_rejected_with_what_there_is(name, fields, begins, lists):
    ur5 = node(peer.urdf("ur5"), staleness=60.0)  # the process may be stopped for a second
    feed(ur5, Q, V)
    good = {"frame": "tool0"} if name in FRAMED else {}
    ur5.ask(name, **good, state=bad_state())
    reason = ur5.rejection(name, **{**good, **fields})
    assert begins in reason and lists in reason
    assert len(reason) < 3000
    ur5.ask(name, **good)


def test_no_joint_of_an_earlier_request_is_left_in_a_state():
    service_node = node(peer.urdf("solo12"), root_joint="floating")
    model = service_node.robot.model
    service_node.ask("get_jacobian", frame="base_link", state=state_message(model, model.neutral()))
    state = RobotState(name=["FL_HAA"], position=[0.1])
    reason = service_node.rejection("get_jacobian", frame="base_link", state=state)
    assert "missing position of " in reason and "FL_HFE" in reason and "FL_HAA" not in reason
    state.name = ["nobody"]
    reason = service_node.rejection("get_jacobian", frame="base_link", state=state)
    assert "FL_HAA" in reason and reason.endswith("not in the model: nobody")


@pytest.mark.parametrize(
    "pose, why",
    [
        ((math.nan, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0), "the base's pose is not finite"),
        ((0.0,) * 7, "the norm of the base's quaternion is 0, expected 1"),
    ],
)
def test_a_bad_base_is_rejected(pose, why):
    service_node = node(peer.urdf("solo12"), root_joint="floating")
    state = state_message(service_node.robot.model, service_node.robot.model.neutral())
    p, o = state.base_pose.position, state.base_pose.orientation
    p.x, p.y, p.z, o.x, o.y, o.z, o.w = pose
    assert why in service_node.rejection("get_jacobian", frame="base_link", state=state)
    state.name = []
    state.position = []
    assert "no names" in service_node.rejection("get_jacobian", frame="base_link", state=state)


def test_a_joint_that_moves_nothing_is_named():
    xml = """<robot name="r"><link name="a"/><link name="b"/><joint name="j" type="continuous">
      <parent link="a"/><child link="b"/></joint></robot>"""
    service_node = node(xml)
    state = RobotState(name=["j"], position=[0.0])
    assert "'j' moves no inertia" in service_node.rejection("get_forward_dynamics", state=state)
    service_node.ask("get_inverse_dynamics", state=state)


def test_a_robot_without_joints_needs_no_joint_states():
    service_node = node("""<robot name="statue"><link name="floor"/><link name="statue"/>
      <joint name="foot" type="fixed"><parent link="floor"/><child link="statue"/>
        <origin xyz="0 0 0.5"/></joint></robot>""")
    answer = service_node.ask("get_frame_state", frame="statue")
    assert answer.pose.pose.position.z == 0.5 and answer.velocity_valid
    assert service_node.ask("get_jacobian", frame="statue").jacobian.cols == 0
    assert list(service_node.ask("get_inverse_dynamics").effort) == []


@pytest.mark.parametrize("name", [service.name[2:] for service in SERVICES])
def test_an_inactive_node_and_one_without_a_robot_say_so(ur5, name):
    ur5.active = False
    assert "/dynamics is not active" in ur5.rejection(name)
    ur5.active, ur5.robot = True, None
    assert "waiting for robot_description" in ur5.rejection(name)


def test_a_fault_of_the_node_itself_is_reported_and_logged(ur5, monkeypatch):
    def broken(*arguments):
        raise ZeroDivisionError("oh")

    monkeypatch.setattr(dyn_ros, "rnea", broken)
    feed(ur5, Q, V)
    [service] = [service for service in SERVICES if service.name == "~/get_inverse_dynamics"]
    response = service_callback(ur5, service)(service.type.Request(), service.type.Response())
    assert not response.success and response.message == "ZeroDivisionError: oh"
    [(what, why)] = ur5.failed
    assert what == "~/get_inverse_dynamics" and "Traceback" in why and "broken" in why


# Anything at all

NUMBERS = st.one_of(st.floats(), st.floats(-10.0, 10.0), st.sampled_from([0.0, 1e308, 5e-324]))
UR5 = dyn_ros.Model.from_urdf(peer.urdf("ur5"))
TEXT = st.text(st.characters(codec="utf-8"), max_size=20)
JOINTS = st.one_of(
    st.permutations(UR5.joint_names).map(list),
    st.lists(st.one_of(st.sampled_from(UR5.joint_names), TEXT), max_size=9),
)


@st.composite
def numbered(draw, message, *fields):
    """Fill name and fields of a message with names and about as many numbers."""
    message.name = draw(JOINTS)
    for field in fields:
        size = len(message.name) if draw(st.integers(0, 4)) else draw(st.integers(0, 9))
        setattr(message, field, draw(st.lists(NUMBERS, min_size=size, max_size=size)))
    return message


@st.composite
def requests(draw):
    service = draw(st.sampled_from(SERVICES[:6]))
    request = service.type.Request()
    if hasattr(request, "frame"):
        request.frame = draw(st.one_of(st.sampled_from(UR5.frame_names), TEXT))
        request.reference_frame = draw(st.sampled_from([0, 1, 2, 0, 1, 2, 3, 255]))
    if hasattr(request, "offset"):
        request.offset.x, request.offset.z = draw(NUMBERS), draw(NUMBERS)
        request.time_variation = draw(st.booleans())
    if draw(st.booleans()):
        draw(numbered(request.state, "position", "velocity"))
    for field in ("acceleration", "effort"):
        if hasattr(request, field) and draw(st.booleans()):
            draw(numbered(request, field))
    return service, request


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(asked=requests())
def test_whatever_is_asked_the_answer_is_finite_or_says_why(asked):
    service, request = asked
    service_node = node(peer.urdf("ur5"))
    feed(service_node, Q, V)
    response = service_callback(service_node, service)(request, service.type.Response())
    assert response.success != bool(response.message)
    assert len(response.message) < 3000
    assert service_node.failed == []
    if response.success:
        for field in ("effort", "acceleration"):
            numbers = getattr(response, field, [])
            assert np.isfinite(six(numbers) if hasattr(numbers, "linear") else numbers).all()
        for field in ("jacobian", "jacobian_time_variation"):
            if hasattr(response, field):
                assert np.isfinite(getattr(response, field).data).all()


# Payloads

BOX = {
    "m": 2.5,
    "com": (0.03, -0.02, 0.2),
    "inertia": (0.02, 0.003, -0.001, 0.03, 0.002, 0.025),
}  # ixx ixy ixz iyy iyz izz


def inertia(frame, m=BOX["m"], com=BOX["com"], inertia=BOX["inertia"]):
    message = InertiaStamped()
    message.header.frame_id = frame
    body, center = message.inertia, message.inertia.com
    body.m = m
    center.x, center.y, center.z = com
    body.ixx, body.ixy, body.ixz, body.iyy, body.iyz, body.izz = inertia
    return message


def held(service_node, q):
    """The torque that holds the robot still."""
    state = state_message(service_node.robot.model, q)
    return service_node.ask("get_inverse_dynamics", state=state).effort.tolist()


def loaded(xml, frame):
    """The robot with the box as a payload, in Pinocchio."""
    pin = peer.pinocchio_model(xml)
    ixx, ixy, ixz, iyy, iyz, izz = BOX["inertia"]
    body = pinocchio.Inertia(
        BOX["m"],
        np.array(BOX["com"]),
        np.array([[ixx, ixy, ixz], [ixy, iyy, iyz], [ixz, iyz, izz]]),
    )
    place = pin.frames[pin.getFrameId(frame)]
    pin.appendBodyToJoint(place.parentJoint, body, place.placement)
    return pin, pin.createData()


def test_a_payload_counts_until_it_is_cleared(ur5):
    bare, mass = held(ur5, Q), ur5.robot.model.total_mass
    feed(ur5, Q, V)
    answer = ur5.ask("set_payload", name="box", inertia=inertia("tool0"))
    assert list(answer.payloads) == ["box"]
    assert answer.total_mass == pytest.approx(mass + BOX["m"], rel=1e-15)
    pin, data = loaded(peer.urdf("ur5"), "tool0")
    peer.close(held(ur5, Q), pinocchio.computeGeneralizedGravity(pin, data, Q))
    falls = ur5.ask("get_forward_dynamics")
    peer.close(falls.acceleration, pinocchio.aba(pin, data, Q, V, np.zeros(6)))
    answer = ur5.ask("clear_payload", name="box")
    assert (list(answer.payloads), answer.total_mass) == ([], mass)
    assert held(ur5, Q) == bare


def test_a_point_mass_is_a_payload(ur5):
    answer = ur5.ask("set_payload", name="box", inertia=inertia("tool0", inertia=(0.0,) * 6))
    assert answer.success and list(answer.payloads) == ["box"]


def test_several_payloads_one_replaced_all_cleared(ur5):
    bare, mass = held(ur5, Q), ur5.robot.model.total_mass
    ur5.ask("set_payload", name="tool", inertia=inertia("tool0", m=1.0))
    only_tool = held(ur5, Q)
    ur5.ask("set_payload", name="pack", inertia=inertia("forearm_link"))
    answer = ur5.ask("set_payload", name="base", inertia=inertia("base_link", m=50.0))
    assert list(answer.payloads) == ["tool", "pack", "base"]
    assert answer.total_mass == pytest.approx(mass + 1.0 + BOX["m"], rel=1e-15)
    ur5.ask("set_payload", name="pack", inertia=inertia("tool0", m=7.0))
    ur5.ask("clear_payload", name="pack")
    assert held(ur5, Q) == only_tool
    answer = ur5.ask("clear_payload")
    assert (list(answer.payloads), answer.total_mass) == ([], mass)
    assert held(ur5, Q) == bare
    ur5.ask("clear_payload")


def test_payloads_go_on_to_the_next_robot_and_wait_for_their_frame(ur5):
    ur5.ask("set_payload", name="box", inertia=inertia("tool0"))
    ur5.ask("set_payload", name="pack", inertia=inertia("forearm_link"))
    loads, with_both = ur5.robot.payloads, held(ur5, Q)
    again = Node(RobotContext(peer.urdf("ur5"), VALUES, payloads=loads))
    assert again.robot.rejected_payloads == []
    assert held(again, Q) == with_both
    upward = {**VALUES, "gravity": [0.0, 0.0, 9.81]}
    upside = Node(RobotContext(peer.urdf("ur5"), upward, payloads=loads))
    peer.close(held(upside, Q), -np.array(with_both), 1e-13)

    panda = Node(RobotContext(peer.urdf("panda"), VALUES, payloads=loads))
    assert len(panda.robot.rejected_payloads) == 2
    assert (
        "payload 'box' is not applied: no frame named 'tool0'" in panda.robot.rejected_payloads[0]
    )
    assert panda.robot.model.payloads == ()
    answer = panda.ask("set_payload", name="cup", inertia=inertia("panda_hand"))
    assert list(answer.payloads) == ["box", "pack", "cup"]
    assert list(panda.ask("clear_payload", name="pack").payloads) == ["box", "cup"]

    back = Node(RobotContext(peer.urdf("ur5"), VALUES, payloads=loads))
    assert back.robot.model.payloads == ("box",)
    assert "payload 'cup' is not applied" in back.robot.rejected_payloads[0]
    pin, data = loaded(peer.urdf("ur5"), "tool0")
    peer.close(held(back, Q), pinocchio.computeGeneralizedGravity(pin, data, Q))
    back.ask("clear_payload")
    assert back.robot.payloads == {}


@pytest.mark.parametrize(
    "name, message, why",
    [
        ("", inertia("tool0"), "name: expected 1 to 256 characters, got 0"),
        ("x" * 257, inertia("tool0"), "name: expected 1 to 256 characters, got 257"),
        ("box", inertia("hand"), "no frame named 'hand'; available: "),
        ("box", inertia(""), "no frame named ''; available: "),
        ("box", inertia("x" * 100000), "no frame named 'xxx"),
        ("box", inertia("tool0", m=0.0), "mass: expected more than 0 kg, got 0"),
        ("box", inertia("tool0", m=-2.0), "mass: expected more than 0 kg, got -2"),
        ("box", inertia("tool0", m=math.nan), "mass: expected a finite number"),
        ("box", inertia("tool0", com=(0.0, math.inf, 0.0)), "com: expected 3 finite numbers"),
        (
            "box",
            inertia("tool0", inertia=(math.nan,) * 6),
            "inertia: expected 3 x 3 finite numbers",
        ),
        ("box", inertia("tool0", inertia=(0.0,) * 5 + (1e-3,)), "triangle inequality"),
        (
            "box",
            inertia("tool0", inertia=(1.0, 2.0, 0.0, 1.0, 0.0, 1.0)),
            "not positive semidefinite",
        ),
        ("box", inertia("tool0", inertia=(1.0, 0.0, 0.0, 1.0, 0.0, 3.0)), "triangle inequality"),
    ],
)
def test_a_payload_that_no_body_is_is_rejected(ur5, name, message, why):
    ur5.ask("set_payload", name="box", inertia=inertia("forearm_link"))
    before = held(ur5, Q)
    reason = ur5.rejection("set_payload", name=name, inertia=message)
    assert why in reason and len(reason) < 3000
    assert held(ur5, Q) == before
    assert list(ur5.robot.payloads) == ["box"] == list(ur5.robot.model.payloads)


def test_clearing_an_unknown_payload_lists_those_there_are(ur5):
    assert ur5.rejection("clear_payload", name="box") == "no payload named 'box'; available: none"
    ur5.ask("set_payload", name="box", inertia=inertia("tool0"))
    assert ur5.rejection("clear_payload", name="bag") == "no payload named 'bag'; available: box"
