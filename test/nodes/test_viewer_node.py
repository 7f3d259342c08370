# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The viewer's node without a browser: what it shows, and what it publishes and reports."""
import math
import os
import signal
import time
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("rclpy", reason="no ROS: run `make test`")
pytest.importorskip("viser", reason="no viser: pip install viser")

import rclpy
from geometry_msgs.msg import WrenchStamped
from nav_msgs.msg import Odometry
from rclpy.executors import SingleThreadedExecutor
from rclpy.parameter import Parameter
from rclpy.qos import DurabilityPolicy
from sensor_msgs.msg import JointState
from std_msgs.msg import String
from std_srvs.srv import SetBool
from visualization_msgs.msg import Marker, MarkerArray

from dyn_ros.nodes import viewer_node
from dyn_ros.nodes.viewer_node import ViewerNode

from .conftest import NodeProcess

ARM7 = (Path(__file__).parents[2] / "dyn_ros" / "robots" / "arm7.urdf").read_text()
BAR = """<robot name="bar"><link name="bar_base"/><link name="bar_tip"/>
  <joint name="bar_joint" type="continuous"><parent link="bar_base"/><child link="bar_tip"/>
    <axis xyz="0 1 0"/></joint></robot>"""
NAMES = ["shoulder_yaw", "shoulder_pitch", "upper_arm_roll", "elbow_pitch", "forearm_roll",
         "wrist_pitch", "wrist_roll"]


class Viewer:
    """A node in this process, updated by the test."""

    count = 0

    def __init__(self, client, **parameters):
        Viewer.count += 1
        self.client, self.namespace = client, f"/viewer{Viewer.count}"
        self.node = ViewerNode(
            "viewer", context=client.context, namespace=self.namespace,
            parameter_overrides=[Parameter(name, value=value) for name, value in
                                 {"port": 0, **parameters}.items()])
        self.executor = SingleThreadedExecutor(context=client.context)
        self.executor.add_node(self.node)
        try:
            self.node.start()
        except ValueError:
            self.close()
            raise
        if self.node.active:
            self.node.timer.cancel()        # the test updates it
        self.now = time.monotonic()

    def close(self):
        self.executor.shutdown()
        self.node.close()
        self.node.destroy_node()

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
            assert time.monotonic() < end, (self.status, list(self.node._problems))
            if again:
                again()
            self.update()
            self.client.executor.spin_once(0.02)

    def say(self, kind, topic, message, ready, **qos):
        """Publish until something holds."""
        publisher = self.client.node.create_publisher(
            kind, self.topic(topic), rclpy.qos.QoSProfile(depth=10, **qos))
        try:
            self.until(ready, lambda: publisher.publish(message))
        finally:
            self.client.node.destroy_publisher(publisher)

    def describe(self, description):
        latched = {"durability": DurabilityPolicy.TRANSIENT_LOCAL}
        self.say(String, "robot_description", String(data=description),
                 lambda: self.node.description.current == description, **latched)

    @property
    def status(self):
        return self.node._panel._status.content if self.node._panel else ""

    def reports(self, word):
        return lambda: any(word in text for _, text in self.node._problems)

    def slide(self, slot, value):
        """As a user does it."""
        self.node._panel.events.put(("slide", slot, value))


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
    return JointState(name=NAMES[:len(position)], position=position, **more)


def test_it_waits_for_a_robot_and_shows_the_latest(open_viewer):
    viewer = open_viewer()
    viewer.update()
    viewer.describe(ARM7)
    assert viewer.node._robot.names == NAMES
    viewer.describe(BAR)
    assert viewer.node._robot.names == ["bar_joint"]
    names = viewer.node._server.scene._handle_from_node_name
    assert "/robot/0" in names and "/robot/0/1" not in names
    viewer.update()


def test_a_bad_description_is_reported_and_the_robot_stays(viewer):
    viewer.say(String, "robot_description", String(data="<robot>"),
               viewer.reports("not well-formed"), durability=DurabilityPolicy.TRANSIENT_LOCAL)
    assert viewer.node._robot.names == NAMES


def test_a_file_that_is_missing_is_reported(open_viewer):
    with pytest.raises(ValueError, match="robot_description_file: .*/no/such.urdf"):
        open_viewer(robot_description_file="/no/such.urdf")


def test_joint_states_move_it_whatever_their_order(viewer):
    message = JointState(name=["other", *reversed(NAMES)], position=[9.0, *np.arange(7) / 10])
    viewer.say(JointState, "joint_states", message, lambda: np.isfinite(viewer.node._q).all())
    np.testing.assert_array_equal(viewer.node._q, np.arange(7)[::-1] / 10)


def test_joint_states_that_cannot_be_used_are_reported(viewer):
    viewer.say(JointState, "joint_states", states([0.1, math.nan]),
               viewer.reports("shoulder_pitch"))
    assert viewer.node._q[0] == 0.1 and math.isnan(viewer.node._q[1])
    viewer.say(JointState, "joint_states", JointState(name=NAMES, position=[0.0]),
               viewer.reports("7 names, but 1 positions"))
    viewer.until(lambda: "1 positions" in viewer.status)


def test_torques_come_and_are_forgotten(viewer, monkeypatch):
    effort = JointState(name=NAMES[::-1], effort=np.arange(7.0))
    for topic, curve in (("dynamics/gravity", "gravity"), ("dynamics/nle", "nle"),
                         ("vereshchagin/constraint_torques", "constraint")):
        viewer.say(JointState, topic, effort,
                   lambda curve=curve: np.isfinite(viewer.node._torques[curve]).all())
        np.testing.assert_array_equal(viewer.node._torques[curve], np.arange(7.0)[::-1])
    monkeypatch.setattr(viewer_node, "STALE", -math.inf)
    viewer.update()
    assert np.isnan(viewer.node._torques["gravity"]).all()


def test_measured_effort(viewer):
    message = states([0.0] * 7, effort=np.arange(7.0))
    viewer.say(JointState, "joint_states", message,
               lambda: np.isfinite(viewer.node._torques["effort"]).all())
    np.testing.assert_array_equal(viewer.node._torques["effort"], np.arange(7.0))


def test_odometry_moves_the_root(viewer):
    message = Odometry()
    message.header.frame_id = "hall"
    message.pose.pose.position.x = 2.0
    viewer.say(Odometry, "odom", message,
               lambda: viewer.node._robot._root.position[0] == 2.0)
    assert viewer.node.node_of("hall") == ""
    message.pose.pose.orientation.w = math.nan
    viewer.say(Odometry, "odom", message, viewer.reports("the base's pose is not finite"))


def ball(frame):
    marker = Marker(type=Marker.SPHERE, ns="balls")
    marker.header.frame_id = frame
    marker.scale.x = marker.scale.y = marker.scale.z = 0.1
    return MarkerArray(markers=[marker])


def test_markers(viewer):
    viewer.say(MarkerArray, "dynamics/markers", ball("tool"), lambda: len(viewer.node._drawing))
    viewer.say(MarkerArray, "dynamics/markers", ball("nowhere"), viewer.reports("nowhere"))
    assert len(viewer.node._drawing) == 0
    viewer.until(lambda: "nowhere" in viewer.status)
    viewer.until(lambda: viewer.node._panel._seen)


def test_other_topics_of_markers(viewer, client):
    done = viewer.node.set_parameters_atomically([Parameter("marker_topics", value=["mine"])])
    assert done.successful
    viewer.say(MarkerArray, "mine", ball("base_link"), lambda: len(viewer.node._drawing))
    viewer.node.set_parameters_atomically([Parameter("marker_topics", value=["dynamics/markers"])])
    assert len(viewer.node._drawing) == 0


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
    viewer.until(lambda: viewer.node._motion.service_is_ready())
    viewer.slide(0, 0.3)
    viewer.until(lambda: asked == [False])
    assert viewer.node._panel._play.label == "Move by itself"
    viewer.node._panel.events.put(("play",))
    viewer.until(lambda: asked == [False, True])
    assert viewer.node._follower is None and viewer.node._panel._play.label == "Pause"


def test_sliders_only_show_while_another_one_moves_the_robot(viewer):
    sliders = viewer.node._panel._sliders
    viewer.say(JointState, "joint_states", states([0.0] * 7), lambda: sliders[0].disabled)
    viewer.until(lambda: not sliders[0].disabled)


def test_a_push(viewer, client):
    heard = []
    client.node.create_subscription(WrenchStamped, viewer.topic("push"), heard.append, 10)
    viewer.until(lambda: heard)
    assert heard[-1].header.frame_id == "tool" and heard[-1].wrench.force.x == 0.0
    viewer.node._handle.position = (0.1, 0.0, -0.2)
    viewer.until(lambda: heard[-1].wrench.force.x != 0.0)
    force, torque = heard[-1].wrench.force, heard[-1].wrench.torque
    np.testing.assert_allclose((force.x, force.y, force.z), (10.0, 0.0, -20.0), rtol=1e-6)
    assert (torque.x, torque.y, torque.z) == (0.0, 0.0, 0.0)
    viewer.node._panel._link.value = "nothing"          # a zero force is published
    viewer.until(lambda: heard[-1].wrench.force.x == 0.0)
    viewer.until(lambda: viewer.node._handle is None)
    viewer.node._panel._link.value = "forearm_link"
    viewer.until(lambda: heard[-1].header.frame_id == "forearm_link")


@pytest.mark.parametrize("parameters, word", [
    ({"host": "no.such.host.invalid"}, "host"), ({"port": 70000}, "65535")])
def test_a_page_that_cannot_be_served(client, parameters, word):
    with pytest.raises(Exception, match=word):
        Viewer(client, **parameters)


def test_a_parameter_out_of_range(viewer):
    done = viewer.node.set_parameters([Parameter("rate", value=1000.0)])[0]
    assert not done.successful
    assert viewer.node.timer.timer_period_ns == pytest.approx(1e9 / 30.0, rel=1e-6)
    assert viewer.node.set_parameters([Parameter("rate", value=50.0)])[0].successful
    assert viewer.node.timer.timer_period_ns == pytest.approx(1e9 / 50.0, rel=1e-6)


def test_the_arm_of_a_real_robot_has_joints_on_pages(open_viewer):
    many = "".join(f'<link name="l{i}"/>' for i in range(12)) + "".join(
        f'<joint name="j{i:02}" type="revolute"><parent link="l{i}"/><child link="l{i + 1}"/>'
        '<axis xyz="0 1 0"/><limit lower="-1" upper="1" effort="1" velocity="1"/></joint>'
        for i in range(11))
    viewer = open_viewer(robot_description=f'<robot name="many">{many}</robot>')
    panel = viewer.node._panel
    assert len(panel._plots) == 8 and panel._page.options == ("j00 .. j07", "j08 .. j10")
    viewer.update()
    panel.show_numbers()
    assert "j00" in panel._plots[0]._text.content
    panel._page.value = "j08 .. j10"
    panel.show_numbers()
    assert "j08" in panel._plots[0]._text.content
    assert [plot._text.visible for plot in panel._plots] == [True] * 3 + [False] * 5


def test_each_parameter_is_on_its_page():
    page = (Path(__file__).parents[2] / "docs" / "viewer.md").read_text()
    assert [spec.name for spec in ViewerNode.all_specs() if f"`{spec.name}`" not in page] == []


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_a_process_of_its_own_works_over_dds_and_ends_cleanly(client, tmp_path, how):
    node = NodeProcess(tmp_path, module="dyn_ros.nodes.viewer_node", port=0,
                       robot_description_file=Path(__file__).parents[2] / "dyn_ros" / "robots"
                       / "arm7.urdf")
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


def test_ctrl_c_while_it_imports_ends_it_quietly(tmp_path, monkeypatch):
    (tmp_path / "viser.py").write_text("raise KeyboardInterrupt")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    node = NodeProcess(tmp_path, module="dyn_ros.nodes.viewer_node")
    assert node.process.wait(60) == 0
    assert node.output() == ""
