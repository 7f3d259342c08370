# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Frames in requests and responses: whose axes header.frame_id denotes, and where wrenches act."""

import numpy as np
import pytest

import dyn_ros
import peer

pytest.importorskip("rclpy", reason="no ROS: run `make test`")
pytest.importorskip("dyn_ros.srv", reason="the services are not built: run `make test`")

from geometry_msgs.msg import Point, WrenchStamped

from dyn_ros.msg import AccelerationConstraints, ReferenceFrame
from dyn_ros.nodes.base.input_topics import InputTopic, wrench_subscriptions
from dyn_ros.nodes.messages.acceleration_constraints import (
    achieved_acceleration,
    constraints_from_message,
    constraints_from_preset,
    solve_constraints,
)
from dyn_ros.nodes.messages.frame_ids import (
    WrenchReader,
    axes_link,
    coinciding_link,
    external_forces,
)
from service_stub import matrix, node, state_message

NUMBERS = np.array([1.0, -2.0, 3.0, 0.5, 0.25, -0.75])
LWA = dyn_ros.ReferenceFrame.LOCAL_WORLD_ALIGNED
REQUESTS = (
    "get_inverse_dynamics",
    "get_forward_dynamics",
    "get_rnea_derivatives",
    "get_aba_derivatives",
)


def arm(**values):
    own = node(peer.urdf("ur5").replace('"world"', '"ground"'), **values)
    rng = np.random.default_rng(3)
    model = own.robot.model
    return own, model.random_configuration(rng), rng.normal(size=model.nv)


def floating(**values):
    own = node(peer.urdf("solo12"), root_joint="floating", **values)
    rng = np.random.default_rng(4)
    model = own.robot.model
    return own, model.random_configuration(rng), rng.normal(size=model.nv)


def wrench(axes, numbers=NUMBERS):
    message = WrenchStamped()
    message.header.frame_id = axes
    f, n = message.wrench.force, message.wrench.torque
    f.x, f.y, f.z, n.x, n.y, n.z = map(float, numbers)
    return message


def placements(own, q):
    model = own.robot.model
    return dict(
        zip(model.frame_names[::-1], dyn_ros.frame_placements(model, dyn_ros.Data(model), q)[::-1])
    )


@pytest.mark.parametrize("make", [arm, floating])
def test_each_frame_coincides_with_its_link(make):
    own, q, _ = make()
    model = own.robot.model
    oMf = dyn_ros.frame_placements(model, own.robot.data, q)
    links = [frame.name for frame in model.tree.frames if frame.kind == "body"]
    for index, frame in enumerate(model.tree.frames):
        link = coinciding_link(model, index)
        assert link in links
        np.testing.assert_allclose(oMf[index], oMf[model.frame_index(link)], atol=1e-15)
        if frame.kind == "body":
            assert link == frame.name


@pytest.mark.parametrize("make, world", [(arm, "ground"), (floating, "world")])
@pytest.mark.parametrize("name", ["get_jacobian", "get_frame_state", "get_frame_derivatives"])
def test_the_header_is_the_frame_of_the_axes(make, world, name):
    own, q, v = make()
    model = own.robot.model
    for frame in model.frame_names:
        for reference in range(3):
            answer = own.ask(
                name, frame=frame, reference_frame=reference, state=state_message(model, q, v)
            )
            assert answer.header.frame_id == (
                coinciding_link(model, frame) if reference == ReferenceFrame.LOCAL else world
            )
            if name == "get_frame_state":
                assert answer.pose.header.frame_id == world


def test_names_of_the_world():
    own, _, _ = arm()
    assert axes_link(own.robot, "f", "world") is None
    assert axes_link(own.robot, "f", "ground") == "ground"
    assert axes_link(own.robot, "f", "elbow_joint") == "forearm_link"
    with pytest.raises(
        ValueError,
        match=r"f: no frame named 'map'; available: ground, .*tool0.*, "
        r"world \(the world\)$",
    ):
        axes_link(own.robot, "f", "map")
    own, _, _ = arm(frame_id="cell")
    assert axes_link(own.robot, "f", "cell") is None
    own, _, _ = floating(world_frame="map")
    assert axes_link(own.robot, "f", "map") is None
    with pytest.raises(ValueError, match=r"no frame named 'world'; .*, map \(the world\)$"):
        axes_link(own.robot, "f", "world")
    linked = node(peer.urdf("ur5"))  # the root link has this name
    assert axes_link(linked.robot, "f", "world") == "world"


@pytest.mark.parametrize("make, world", [(arm, "world"), (floating, "world")])
def test_a_wrench_acts_at_one_frame_in_the_axes_of_another(make, world):
    own, q, v = make()
    model, oMf = own.robot.model, placements(own, q)
    acting, turned = model.frame_names[-1], model.frame_names[len(model.frame_names) // 2]
    state = state_message(model, q, v)
    for axes in (turned, acting, world):
        R = np.eye(3) if axes == world else oMf[axes][:3, :3]
        f_ext = dyn_ros.Model.external_forces(
            model, {acting: np.ravel(NUMBERS.reshape(2, 3) @ R.T @ oMf[acting][:3, :3])}
        )
        for name in REQUESTS:
            kind = {
                "wrenches": [wrench(axes), wrench(acting, 0.5 * NUMBERS)],
                "wrench_frame": [acting, ""],
            }
            plain = {
                "wrenches": [
                    wrench(
                        acting,
                        np.ravel(NUMBERS.reshape(2, 3) @ R.T @ oMf[acting][:3, :3]) + 0.5 * NUMBERS,
                    )
                ]
            }
            ours, expected = (own.ask(name, state=state, **each) for each in (kind, plain))
            for field in ("effort", "acceleration"):
                if hasattr(ours, field):
                    peer.close(getattr(ours, field), getattr(expected, field), 1e-12)
            for field in ("dtau_dq", "ddq_dq"):
                if hasattr(ours, field):
                    peer.close(
                        matrix(getattr(ours, field)), matrix(getattr(expected, field)), 1e-12
                    )
        [one] = [WrenchReader(acting, "wrench_frame")(own.robot, wrench(axes))]
        peer.close(external_forces(own.robot, [one], q), f_ext, 1e-13)


@pytest.mark.parametrize("name", REQUESTS)
def test_wrench_frames_that_are_not_usable(name):
    own, q, v = arm()
    state = state_message(own.robot.model, q, v)

    def rejection(axes, *frames):
        return own.rejection(name, state=state, wrenches=[wrench(axes)], wrench_frame=list(frames))

    assert "is the world, which specifies axes, but not where it acts" in rejection("world")
    assert "specify a frame of the robot in wrench_frame" in rejection("world", "")
    assert "no frame named 'hand'; available: " in rejection("world", "hand")
    assert "header.frame_id: no frame named 'map'; available: " in rejection("map", "tool0")
    assert "no frame named 'map'; available: " in rejection("map")
    assert (
        "wrench_frame: expected one name for each of the 1 wrenches, or none, got 2"
        in rejection("tool0", "tool0", "tool0")
    )
    assert "wrench on tool0: expected 6 finite numbers" in own.rejection(
        name, state=state, wrenches=[wrench("world", [np.nan] * 6)], wrench_frame=["tool0"]
    )
    assert "of the 0 wrenches" in own.rejection(name, state=state, wrench_frame=["tool0"])


def test_wrench_topics_and_their_frames():
    own, q, _ = arm()
    by_topic = wrench_subscriptions(["a", "b", "a"], ["tool0", "", "tool0"])
    assert list(by_topic) == ["a", "b"]
    assert [read.frame for _, read, _ in by_topic.values()] == ["tool0", ""]
    assert [read.frame for _, read, _ in wrench_subscriptions(["a", "b"]).values()] == ["", ""]
    with pytest.raises(ValueError, match="expected one name for each of the 2 topics"):
        wrench_subscriptions(["a", "b"], ["tool0"])
    with pytest.raises(ValueError, match="a has the frames 'tool0' and ''"):
        wrench_subscriptions(["a", "a"], ["tool0", ""])
    topic = InputTopic("a", WrenchReader("", "wrench_frames"))
    topic.receive(own.robot, wrench("tool0"), 0.0)
    before = topic.latest_value(own.robot, 0.0, 0.0)
    topic.set_converter(WrenchReader("forearm_link", "wrench_frames"))
    after = topic.latest_value(own.robot, 0.0, 0.0)
    frames = own.robot.model.frame_names
    assert (frames[before.frame], frames[after.frame]) == ("tool0", "forearm_link")
    assert frames[after.axes] == "tool0" and after.f_ext is None
    assert np.abs(external_forces(own.robot, [after], q)[3:]).max() == 0.0


# Constraints


def constraints(axes, frame, directions, acceleration=()):
    message = AccelerationConstraints(frame=frame, acceleration=acceleration)
    message.header.frame_id = axes
    message.directions.rows, message.directions.cols = directions.shape
    message.directions.data = np.ravel(directions).tolist()
    return message


@pytest.mark.parametrize("make", [arm, floating])
def test_constraints_in_any_axes_of_any_norm_are_achieved(make):
    own, q, v = make()
    robot, oMf = own.robot, placements(own, q)
    model = robot.model
    placed = dyn_ros.frame_placements(model, dyn_ros.Data(model), q)
    frames = [model.frame_names[-1]] * 2 + [model.frame_names[-6]] * 2
    rng = np.random.default_rng(5)
    directions, desired = 30.0 * rng.normal(size=(6, 4)), rng.normal(size=4)
    joint = next(frame.name for frame in model.tree.frames[::-1] if frame.kind == "joint")
    fixed = next(frame.name for frame in model.tree.frames[::-1] if frame.kind == "fixed_joint")
    for axes in (joint, fixed, coinciding_link(model, joint), robot.world_frame, "world"):
        given = constraints_from_message(robot, constraints(axes, frames, directions, desired))
        motion = solve_constraints(robot, q, v, given)
        assert motion.rank == 4
        ddq = motion.ddq.copy()
        peer.close(achieved_acceleration(robot, q, v, given, ddq, placed), desired, 1e-9)
        R = oMf[axes][:3, :3] if axes in oMf else np.eye(3)
        data = dyn_ros.Data(model)
        for frame, direction, wanted in zip(frames, directions.T, desired):
            a = dyn_ros.frame_classical_acceleration(model, data, q, v, ddq, frame, LWA)
            peer.close([np.ravel(direction.reshape(2, 3) @ R.T) @ a], [wanted], 1e-9, scale=100.0)


def test_a_column_of_zeros_is_inactive_and_a_contradiction_is_seen():
    own, q, v = arm()
    directions = np.zeros((6, 3))
    directions[2, 0] = directions[2, 2] = 2.0
    given = constraints_from_message(
        own.robot, constraints("world", ["tool0"], directions, [1.0, 5.0, 3.0])
    )
    motion = solve_constraints(own.robot, q, v, given)
    assert motion.rank == 1 and motion.nu[1] == 0.0
    oMf = dyn_ros.frame_placements(own.robot.model, own.robot.data, q)
    achieved = achieved_acceleration(own.robot, q, v, given, motion.ddq.copy(), oMf)
    peer.close(achieved, [2.0, 0.0, 2.0], 1e-12)  # the least squares of 1 and 3


@pytest.mark.parametrize(
    "axis_frame, link",
    [("elbow_joint", "forearm_link"), ("tool0", "tool0"), ("world", None), ("", None)],
)
def test_the_axis_of_a_preset_is_in_the_axes_of_any_frame(axis_frame, link):
    own, _, _ = arm()
    values = {
        "constraints": "free_along_axis",
        "tip_frame": "tool0",
        "axis": [0.0, 0.0, 2.0],
        "axis_frame": axis_frame,
    }
    given = constraints_from_preset(own.robot, values)
    assert given.axes == link
    assert given.directions.shape == (6, 5)
    peer.close(given.directions[:3].T @ [0.0, 0.0, 1.0], np.zeros(5), 1e-15, scale=1.0)
    for preset, m in (("hold_pose", 6), ("hold_position", 3), ("keep_upright", 2)):
        given = constraints_from_preset(own.robot, {**values, "constraints": preset})
        assert given.directions.shape == (6, m)
        peer.close(np.linalg.norm(given.directions, axis=0), np.ones(m), 1e-15)


# The Hessian


@pytest.mark.parametrize("make", [arm, floating])
@pytest.mark.parametrize("reference", range(3))
@pytest.mark.parametrize("offset", [(0.0, 0.0, 0.0), (0.1, -0.2, 0.3)])
def test_the_hessian_is_the_derivative_of_the_jacobian_of_the_point(make, reference, offset):
    own, q, _ = make()
    model = own.robot.model
    frame, step = model.frame_names[-1], 1e-5

    def ask(q, hessian=False):
        return own.ask(
            "get_jacobian",
            frame=frame,
            reference_frame=reference,
            offset=Point(x=offset[0], y=offset[1], z=offset[2]),
            hessian=hessian,
            state=state_message(model, q),
        )

    answer = ask(q, True)
    H = np.reshape(answer.hessian.data, tuple(answer.hessian.shape))
    assert H.shape == (6, model.nv, model.nv)
    assert not ask(q).hessian.data
    for k, direction in enumerate(np.eye(model.nv)):
        ahead, behind = (
            matrix(ask(model.integrate(q, side * step * direction)).jacobian)
            for side in (1.0, -1.0)
        )
        np.testing.assert_allclose(H[:, :, k], (ahead - behind) / (2.0 * step), atol=1e-8)


def test_the_hessian_in_the_order_of_the_node():
    own, q, _ = arm(joints=["wrist_1_joint", "elbow_joint"])
    whole, _, _ = arm()
    given = dict(frame="tool0", hessian=True, state=state_message(own.robot.model, q))
    H = whole.ask("get_jacobian", **given).hessian
    H = np.reshape(H.data, tuple(H.shape))
    part = own.ask("get_jacobian", **given).hessian
    rows = [whole.robot.names.index(name) for name in own.robot.names]
    np.testing.assert_array_equal(np.reshape(part.data, tuple(part.shape)), H[:, rows][:, :, rows])
