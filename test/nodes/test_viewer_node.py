# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The viewer's node without a browser: what it shows, and what it publishes and reports."""

import inspect
import math
import signal
import time
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("rclpy", reason="no ROS: run `make test`")
pytest.importorskip("viser", reason="no viser: pip install viser")

import rclpy
from geometry_msgs.msg import InertiaStamped, WrenchStamped
from nav_msgs.msg import Odometry
from pulling import pull
from rclpy.executors import SingleThreadedExecutor
from rclpy.parameter import Parameter
from rclpy.qos import DurabilityPolicy
from sensor_msgs.msg import JointState
from std_msgs.msg import String
from std_srvs.srv import SetBool
from visualization_msgs.msg import Marker, MarkerArray

import dyn_ros
from dyn_ros.msg import ExternalContact
from dyn_ros.nodes.viewer_node import ViewerNode
from dyn_ros.srv import ClearPayload, EstimatePayload, SetPayload
from dyn_ros.viewer import session

from .conftest import NodeProcess

ARM7 = (Path(__file__).parents[2] / "dyn_ros" / "robots" / "arm7.urdf").read_text()
BAR = """<robot name="bar"><link name="bar_base"/><link name="bar_tip"/>
  <joint name="bar_joint" type="continuous"><parent link="bar_base"/><child link="bar_tip"/>
    <axis xyz="0 1 0"/></joint></robot>"""
NAMES = [
    "shoulder_yaw",
    "shoulder_pitch",
    "upper_arm_roll",
    "elbow_pitch",
    "forearm_roll",
    "wrist_pitch",
    "wrist_roll",
]


class Viewer:
    """A node in this process, updated by the test."""

    count = 0

    def __init__(self, client, **parameters):
        Viewer.count += 1
        self.client, self.namespace = client, f"/viewer{Viewer.count}"
        self.node = ViewerNode(
            "viewer",
            context=client.context,
            namespace=self.namespace,
            parameter_overrides=[
                Parameter(name, value=value) for name, value in {"port": 0, **parameters}.items()
            ],
        )
        self.executor = SingleThreadedExecutor(context=client.context)
        self.executor.add_node(self.node)
        try:
            self.node.start()
        except ValueError:
            self.close()
            raise
        if self.node.active:
            self.node.timer.cancel()  # the test updates it
        self.now = time.monotonic()

    def close(self):
        self.executor.shutdown()
        self.node.close()
        self.node.destroy_node()

    @property
    def session(self):
        return self.node.session

    def topic(self, name):
        return f"{self.namespace}/{name}"

    def update(self, seconds=0.1):
        for _ in range(20):
            self.executor.spin_once(0.0)
        self.now += seconds
        self.node.update(self.now, seconds)

    def until(self, ready, again=None):
        """Bring it up to date until something holds."""
        end = time.monotonic() + 60.0
        while not ready():
            assert time.monotonic() < end, (self.status, list(self.session._problems._lines))
            if again:
                again()
            self.update()
            self.client.executor.spin_once(0.02)

    def say(self, kind, topic, message, ready, **qos):
        """Publish until something holds."""
        publisher = self.client.node.create_publisher(
            kind, self.topic(topic), rclpy.qos.QoSProfile(depth=10, **qos)
        )
        try:
            self.until(ready, lambda: publisher.publish(message))
        finally:
            self.client.node.destroy_publisher(publisher)

    def describe(self, description):
        latched = {"durability": DurabilityPolicy.TRANSIENT_LOCAL}
        self.say(
            String,
            "robot_description",
            String(data=description),
            lambda: self.node.description == description,
            **latched,
        )

    @property
    def status(self):
        return self.session.panel._status.content if self.session.panel else ""

    def reports(self, word):
        return lambda: any(word in text for _, text in self.session._problems._lines)

    def slide(self, slot, value):
        """As a user does it."""
        self.session.panel.events.put(("slide", slot, value))


@pytest.fixture
def open_viewer(client):
    viewers = []

    def start(**parameters):
        viewers.append(Viewer(client, **parameters))
        return viewers[-1]

    yield start
    for viewer in viewers:
        viewer.close()


@pytest.fixture
def viewer(open_viewer):
    return open_viewer(robot_description=ARM7)


def states(position, **more):
    return JointState(name=NAMES[: len(position)], position=position, **more)


def test_it_waits_for_a_robot_and_shows_the_latest(open_viewer):
    viewer = open_viewer()
    viewer.update()
    viewer.describe(ARM7)
    assert viewer.session.robot.names == NAMES
    viewer.describe(BAR)
    assert viewer.session.robot.names == ["bar_joint"]
    names = viewer.session.server.scene._handle_from_node_name
    assert "/robot/0" in names and "/robot/0/1" not in names
    viewer.update()


def test_a_bad_description_is_reported_and_the_robot_stays(viewer):
    viewer.say(
        String,
        "robot_description",
        String(data="<robot>"),
        viewer.reports("not well-formed"),
        durability=DurabilityPolicy.TRANSIENT_LOCAL,
    )
    assert viewer.session.robot.names == NAMES


def test_a_file_that_is_missing_is_reported(open_viewer):
    with pytest.raises(ValueError, match="robot_description_file: .*/no/such.urdf"):
        open_viewer(robot_description_file="/no/such.urdf")


def test_joint_states_move_it_whatever_their_order(viewer):
    message = JointState(name=["other", *reversed(NAMES)], position=[9.0, *np.arange(7) / 10])
    viewer.say(JointState, "joint_states", message, lambda: np.isfinite(viewer.session._q).all())
    np.testing.assert_array_equal(viewer.session._q, np.arange(7)[::-1] / 10)


def test_joint_states_that_cannot_be_used_are_reported(viewer):
    viewer.say(
        JointState, "joint_states", states([0.1, math.nan]), viewer.reports("shoulder_pitch")
    )
    assert viewer.session._q[0] == 0.1 and math.isnan(viewer.session._q[1])
    viewer.say(
        JointState,
        "joint_states",
        JointState(name=NAMES, position=[0.0]),
        viewer.reports("7 names, but 1 positions"),
    )
    viewer.until(lambda: "1 positions" in viewer.status)


def test_torques_come_and_are_forgotten(viewer, monkeypatch):
    effort = JointState(name=NAMES[::-1], effort=np.arange(7.0))
    for topic, curve in (
        ("dynamics/gravity", "gravity"),
        ("dynamics/nle", "nle"),
        ("vereshchagin/constraint_torques", "constraint"),
    ):
        viewer.say(
            JointState,
            topic,
            effort,
            lambda curve=curve: np.isfinite(viewer.session._torques[curve]).all(),
        )
        np.testing.assert_array_equal(viewer.session._torques[curve], np.arange(7.0)[::-1])
    monkeypatch.setattr(session, "MAX_TORQUE_AGE", -math.inf)
    viewer.update()
    assert np.isnan(viewer.session._torques["gravity"]).all()


def test_measured_effort(viewer):
    message = states([0.0] * 7, effort=np.arange(7.0))
    viewer.say(
        JointState,
        "joint_states",
        message,
        lambda: np.isfinite(viewer.session._torques["effort"]).all(),
    )
    np.testing.assert_array_equal(viewer.session._torques["effort"], np.arange(7.0))


def test_odometry_moves_the_root(viewer):
    message = Odometry()
    message.header.frame_id = "hall"
    message.pose.pose.position.x = 2.0
    viewer.say(Odometry, "odom", message, lambda: viewer.session.robot._root.position[0] == 2.0)
    assert viewer.session.frame_node("hall") == ""
    message.pose.pose.orientation.w = math.nan
    viewer.say(Odometry, "odom", message, viewer.reports("the base's pose is not finite"))


def ball(frame):
    marker = Marker(type=Marker.SPHERE, ns="balls")
    marker.header.frame_id = frame
    marker.scale.x = marker.scale.y = marker.scale.z = 0.1
    return MarkerArray(markers=[marker])


def test_markers(viewer):
    viewer.say(MarkerArray, "dynamics/markers", ball("tool"), lambda: len(viewer.session.drawing))
    viewer.say(MarkerArray, "dynamics/markers", ball("nowhere"), viewer.reports("nowhere"))
    assert len(viewer.session.drawing) == 0
    viewer.until(lambda: "nowhere" in viewer.status)
    viewer.until(lambda: viewer.session.panel._check_boxes)


def test_other_topics_of_markers(viewer, client):
    done = viewer.node.set_parameters_atomically([Parameter("marker_topics", value=["mine"])])
    assert done.successful
    viewer.say(MarkerArray, "mine", ball("base_link"), lambda: len(viewer.session.drawing))
    viewer.node.set_parameters_atomically([Parameter("marker_topics", value=["dynamics/markers"])])
    assert len(viewer.session.drawing) == 0


def test_a_slider_publishes_joint_states(viewer, client):
    heard = []
    client.node.create_subscription(JointState, viewer.topic("joint_states"), heard.append, 10)
    viewer.slide(1, 0.5)
    viewer.until(lambda: heard and abs(heard[-1].position[1] - 0.5) < 1e-4)
    assert heard[-1].name == NAMES
    assert all(abs(x) < 1e-12 for i, x in enumerate(heard[-1].position) if i != 1)
    assert max(message.velocity[1] for message in heard) > 0.1
    assert len(heard[-1].effort) == 0


def test_a_slider_stops_what_moves_by_itself(open_viewer, client):
    asked = []

    def answer(request, response):
        asked.append(request.data)
        response.success = True
        return response

    viewer = open_viewer(robot_description=ARM7, motion_service="move")
    client.node.create_service(SetBool, viewer.topic("move"), answer)
    viewer.until(lambda: viewer.node._motion_client.service_is_ready())
    viewer.slide(0, 0.3)
    viewer.until(lambda: asked == [False])
    assert viewer.session.panel._play.label == "Move by itself"
    viewer.session.panel.events.put(("play",))
    viewer.until(lambda: asked == [False, True])
    assert viewer.session._follower is None and viewer.session.panel._play.label == "Pause"


def test_sliders_only_show_while_another_one_moves_the_robot(viewer):
    sliders = viewer.session.panel._sliders
    viewer.say(JointState, "joint_states", states([0.0] * 7), lambda: sliders[0].disabled)
    viewer.until(lambda: not sliders[0].disabled)


def test_a_push(viewer, client):
    heard = []
    client.node.create_subscription(WrenchStamped, viewer.topic("push"), heard.append, 10)
    viewer.until(lambda: heard)
    assert heard[-1].header.frame_id == "tool" and heard[-1].wrench.force.x == 0.0
    displacement = viewer.session.robot.rotate_to_world("tool", (0.1, 0.0, -0.2))
    pull(viewer.session._handle, displacement)
    viewer.until(lambda: heard[-1].wrench.force.x != 0.0)
    force, torque = heard[-1].wrench.force, heard[-1].wrench.torque
    np.testing.assert_allclose((force.x, force.y, force.z), (10.0, 0.0, -20.0), rtol=1e-6)
    assert (torque.x, torque.y, torque.z) == (0.0, 0.0, 0.0)
    viewer.session.panel._link.value = "nothing"  # a zero force is published
    viewer.until(lambda: heard[-1].wrench.force.x == 0.0)
    viewer.until(lambda: viewer.session._handle is None)
    viewer.session.panel._link.value = "forearm_link"
    viewer.until(lambda: heard[-1].header.frame_id == "forearm_link")


def test_without_a_pull_the_push_of_another_program_has_no_zeros_in_it(viewer, client):
    heard = []
    client.node.create_subscription(WrenchStamped, viewer.topic("push"), heard.append, 10)
    viewer.until(lambda: heard)
    other = client.node.create_publisher(WrenchStamped, viewer.topic("push"), 10)
    viewer.until(viewer.node._has_other_push_publisher)
    client.settle()
    heard.clear()
    for _ in range(20):
        viewer.update()
    client.settle()
    assert not heard
    pull(viewer.session._handle, viewer.session.robot.rotate_to_world("tool", (0.1, 0.0, 0.0)))
    viewer.until(lambda: heard and heard[-1].wrench.force.x != 0.0)
    viewer.session._let_go()
    client.node.destroy_publisher(other)
    viewer.until(lambda: heard[-1].wrench.force.x == 0.0)


@pytest.mark.parametrize(
    "parameters, word", [({"host": "no.such.host.invalid"}, "host"), ({"port": 70000}, "65535")]
)
def test_a_page_that_cannot_be_served(client, parameters, word):
    with pytest.raises(Exception, match=word):
        Viewer(client, **parameters)


def test_a_parameter_out_of_range(viewer):
    done = viewer.node.set_parameters([Parameter("rate", value=1000.0)])[0]
    assert not done.successful
    assert viewer.node.timer.timer_period_ns == pytest.approx(1e9 / 30.0, rel=1e-6)
    assert viewer.node.set_parameters([Parameter("rate", value=50.0)])[0].successful
    assert viewer.node.timer.timer_period_ns == pytest.approx(1e9 / 50.0, rel=1e-6)


def test_no_timer_calls_with_information_about_itself(viewer):
    """From kilted on, rclpy passes it to whatever accepts an argument."""
    viewer.node.set_parameters([Parameter("rate", value=50.0)])
    timers = list(viewer.node.timers)
    assert viewer.node.timer in timers and len(timers) == 2
    for timer in timers:
        with pytest.raises(TypeError):
            inspect.signature(timer.callback).bind(object())


def test_the_arm_of_a_real_robot_has_joints_on_pages(open_viewer):
    many = "".join(f'<link name="l{i}"/>' for i in range(12)) + "".join(
        f'<joint name="j{i:02}" type="revolute"><parent link="l{i}"/><child link="l{i + 1}"/>'
        '<axis xyz="0 1 0"/><limit lower="-1" upper="1" effort="1" velocity="1"/></joint>'
        for i in range(11)
    )
    viewer = open_viewer(robot_description=f'<robot name="many">{many}</robot>')
    panel = viewer.session.panel
    plots = panel._narrow_plots
    assert len(plots._plots) == 8
    assert plots._page.options == ("1: j00 .. j07", "2: j08 .. j10")
    viewer.update()
    panel.show_history(viewer.session._received_history())
    assert "j00" in plots._plots[0]._text.content
    plots._page.value = "2: j08 .. j10"
    panel.show_history(viewer.session._received_history())
    assert "j08" in plots._plots[0]._text.content
    assert [plot._text.visible for plot in plots._plots] == [True] * 3 + [False] * 5


def contact(**fields):
    message = ExternalContact(
        collision=True, link="tool", force=9.5, force_deviation=0.25, line_valid=True, **fields
    )
    message.header.frame_id = "base_link"
    message.direction.x, message.direction.z = 0.8, 0.6
    message.point.z = 1.0
    return message


def shown(viewer):
    viewer.update()
    panel = viewer.session.touch
    return panel._lamp.content, panel._forces.content


@pytest.fixture
def watched(viewer, monkeypatch):
    """A viewer with a browser."""
    monkeypatch.setattr(viewer.session.server, "get_clients", lambda: {0: None})
    return viewer


def test_a_contact(watched, monkeypatch):
    viewer, panel = watched, watched.session.touch
    viewer.update()
    assert not panel._contact_folder.visible
    viewer.say(
        ExternalContact,
        "observer/contacts",
        contact(),
        lambda: viewer.session.touch._contact is not None,
    )
    lamp, forces = shown(viewer)
    assert panel._contact_folder.visible
    assert "contact at tool" in lamp and 'data-collision="true"' in lamp
    assert "9.5 \u00b1 0.2 N<" in forces
    arrow = viewer.session.touch._arrow
    assert arrow.visible
    start, end = arrow.points[0]
    np.testing.assert_allclose(end - start, [0.076, 0.0, 0.057], atol=1e-6)  # 100 N/m
    assert (start - [0.0, 0.0, 1.0]) @ (end - start) == pytest.approx(0.0, abs=1e-9)  # beside it
    assert 0.01 < np.linalg.norm(start - [0.0, 0.0, 1.0]) < 0.1
    viewer.say(
        ExternalContact,
        "observer/contacts",
        ExternalContact(),
        lambda: not viewer.session.touch._contact.collision,
    )
    lamp, forces = shown(viewer)
    assert "nothing touches the robot" in lamp and "none" in forces and not arrow.visible
    viewer.session.touch._contact_time = -math.inf  # the node has ended
    viewer.update()
    assert not panel._contact_folder.visible


def test_the_angle_between_push_and_estimate(watched):
    """The robot is turned: yaw of 90 degrees at its first joint."""
    viewer = watched
    viewer.say(
        JointState,
        "joint_states",
        states([np.pi / 2] + [0.0] * 6),
        lambda: np.isfinite(viewer.session._q).all(),
    )
    viewer.until(lambda: viewer.session.robot.rotate_to_world("tool", (0.0, -1.0, 0.0))[0] > 0.999)
    pull(viewer.session._handle, np.array([0.1, 0.0, 0.0]))
    message = contact()
    message.direction.x, message.direction.y, message.direction.z = (
        math.cos(0.1),
        math.sin(0.1),
        0.0,
    )
    viewer.say(
        ExternalContact,
        "observer/contacts",
        message,
        lambda: viewer.session.touch._contact is not None,
    )
    viewer.until(lambda: "10.0 N" in shown(viewer)[1])
    assert "6\u00b0 off" in shown(viewer)[1]


def test_a_contact_without_direction(watched):
    """The wrench at the tip is then shown, if there is one."""
    viewer, message = watched, contact()
    message.direction.x = message.direction.y = message.direction.z = math.nan
    viewer.say(
        ExternalContact,
        "observer/contacts",
        message,
        lambda: viewer.session.touch._contact is not None,
    )
    assert "not determined" in shown(viewer)[1] and viewer.session.touch._arrow is None
    wrench = WrenchStamped()
    wrench.header.frame_id = "tool"
    wrench.wrench.force.y = -4.0
    viewer.say(
        WrenchStamped,
        "observer/external_wrench",
        wrench,
        lambda: viewer.session.touch._wrench is not None,
    )
    assert "4.0 N" in shown(viewer)[1]
    np.testing.assert_allclose(
        np.diff(viewer.session.touch._arrow.points[0], axis=0), [[0.0, -0.04, 0.0]], atol=1e-6
    )


def test_a_contact_in_axes_that_do_not_exist(watched):
    message = contact()
    message.header.frame_id = "nowhere"
    watched.say(ExternalContact, "observer/contacts", message, watched.reports("nowhere"))
    shown(watched)
    assert watched.session.touch._arrow is None


def answer(viewer, client, kind, topic, **fields):
    """Offer a service that returns these fields; return the requests that it receives."""
    asked = []

    def respond(request, response):
        asked.append(request)
        for name, value in fields.items():
            setattr(response, name, value)
        return response

    client.node.create_service(kind, viewer.topic(topic), respond)
    return asked


def test_hanging_and_weighing_a_payload(open_viewer, client):
    viewer = open_viewer(robot_description=ARM7, simulated_robot="arm")
    touch, events = viewer.session.touch, viewer.session.panel.events
    inertia = InertiaStamped()
    inertia.header.frame_id, inertia.inertia.m, inertia.inertia.com.z = "tool", 0.503, 0.031
    hung = answer(viewer, client, SetPayload, "arm/set_payload", success=True)
    taken = answer(viewer, client, ClearPayload, "arm/clear_payload", success=True)
    forgotten = answer(viewer, client, ClearPayload, "observer/clear_payload", success=True)
    weighed = answer(
        viewer,
        client,
        EstimatePayload,
        "observer/estimate_payload",
        success=True,
        applied=True,
        inertia=inertia,
        mass_lower=0.49,
        mass_upper=0.51,
        com_determined=True,
    )
    viewer.until(viewer.node._estimate.service_is_ready)
    assert touch._payload_folder.visible and touch._mass.visible
    viewer.node._simulated["set_payload"].wait_for_service(10.0)
    touch._mass.value = 0.5
    viewer.until(lambda: hung)
    assert hung[0].inertia.header.frame_id == "tool" and hung[0].inertia.inertia.m == 0.5
    names = viewer.session.server.scene._handle_from_node_name
    assert viewer.session.touch._ball.name in names
    for number in (1, 2):
        events.put(("weigh",))
        viewer.until(
            lambda number=number: len(weighed) == number and not touch._weigh_button.disabled
        )
    assert [request.restart for request in weighed] == [True, False]
    assert weighed[0].apply
    assert "0.503 kg (0.490 to 0.510)" in touch._weight.content
    assert "0, 0, 31 mm of tool" in touch._weight.content
    touch._mass.value = 0.0
    viewer.until(lambda: taken and forgotten)
    assert forgotten[0].name == "estimated" and touch._weight.content == ""
    assert viewer.session.touch._ball is None


def test_a_weighing_that_fails(viewer, client):
    answer(viewer, client, EstimatePayload, "observer/estimate_payload", message="no efforts")
    touch = viewer.session.touch
    assert not touch._payload_folder.visible
    viewer.until(viewer.node._estimate.service_is_ready)
    viewer.session.panel.events.put(("weigh",))
    viewer.until(lambda: "no efforts" in touch._weight.content)
    assert not touch._weigh_button.disabled and not touch._mass.visible


def test_sliders_with_a_topic_of_their_own(open_viewer, client):
    viewer = open_viewer(robot_description=ARM7, command_topic="arm/command")
    heard = []
    client.node.create_subscription(JointState, viewer.topic("arm/command"), heard.append, 10)
    viewer.slide(1, 0.5)
    viewer.until(lambda: heard and abs(heard[-1].position[1] - 0.5) < 1e-4)
    assert client.node.count_publishers(viewer.topic("joint_states")) == 0


def test_each_parameter_is_on_its_page():
    page = (Path(__file__).parents[2] / "docs" / "viewer.md").read_text()
    assert [spec.name for spec in ViewerNode.all_specs() if f"`{spec.name}`" not in page] == []


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_a_process_of_its_own_works_over_dds_and_ends_cleanly(client, tmp_path, how):
    node = NodeProcess(
        tmp_path,
        module="dyn_ros.nodes.viewer_node",
        port=0,
        robot_description_file=Path(__file__).parents[2] / "dyn_ros" / "robots" / "arm7.urdf",
    )
    try:
        client.wait(lambda: "9 links" in node.output(), node.output)
        client.diagnostics(node, lambda _, values: values["lifecycle state"] == "active")
        assert client.set_parameters(node, push_scale=50.0) == (True, "")
    finally:
        code = node.stop(how)
    assert code == 0 and "Traceback" not in node.output(), node.output()


def test_a_host_that_is_none_ends_it_with_a_line(tmp_path):
    node = NodeProcess(tmp_path, module="dyn_ros.nodes.viewer_node", host="no.such.host.invalid")
    assert node.process.wait(60) == 1
    assert "127.0.0.1 for this machine only" in node.output()
    assert "Traceback" not in node.output()


MARKERS = ("dynamics", "centroidal", "vereshchagin", "observer")


def test_robot_and_markers_of_all_nodes_are_of_one_state(open_viewer, client, tmp_path):
    """While the arm moves quickly: the center of mass is that of the posture on the page."""
    path = Path(__file__).parents[2] / "dyn_ros" / "robots" / "arm7.urdf"
    parameters = tmp_path / "parameters.yaml"
    parameters.write_text(
        "/**/vereshchagin:\n  ros__parameters:\n    constraints: hold_pose\n    tip_frame: tool\n"
    )
    node = NodeProcess(
        tmp_path,
        "--params-file",
        str(parameters),
        module="dyn_ros.nodes.dyn_ros_node",
        robot_description_file=path,
    )
    topics = [f"{node.namespace}/{name}/markers" for name in MARKERS]
    viewer = open_viewer(robot_description=ARM7, marker_topics=topics)
    publishers = [
        client.node.create_publisher(JointState, f"{each.namespace}/joint_states", 10)
        for each in (node, viewer)
    ]
    model = dyn_ros.Model.from_urdf(ARM7)
    data, drawing, compared = dyn_ros.Data(model), viewer.session.drawing, 0

    def publish():
        now = time.time_ns()
        q = np.sin(3.0 * 1e-9 * (now % 10**12) + np.arange(7.0))
        message = states(q.tolist(), velocity=[0.0] * 7, effort=[0.0] * 7)
        message.header.stamp.sec, message.header.stamp.nanosec = divmod(now, 10**9)
        for publisher in publishers:
            publisher.publish(message)

    def compare():
        nonlocal compared
        shown = [
            each
            for at, each in drawing._nodes.items()
            if at.namespace == "com" and each.handle.visible
        ]
        if shown and set(topics) <= {topic for topic, _ in drawing.families}:
            q = viewer.session.robot._shown_positions
            dyn_ros.center_of_mass(model, data, q)
            base = model.base_inertia
            whole = (model.total_mass * data.com + base.mass * np.asarray(base.com)) / (
                model.total_mass + base.mass
            )
            np.testing.assert_allclose(shown[0].handle.position, whole, atol=1e-4)
            compared += 1
        return compared >= 30

    try:
        viewer.until(compare, publish)
    finally:
        node.stop()
        for publisher in publishers:
            client.node.destroy_publisher(publisher)
