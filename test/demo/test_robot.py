# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The node of the demo's simulated robot: pushes, payloads, commands."""

import math
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

pytest.importorskip("rclpy", reason="no ROS: run `make test`")
pytest.importorskip("dyn_ros.msg", reason="the messages are not built: run `make test`")

import rclpy
from geometry_msgs.msg import WrenchStamped
from participants import wait_until_alone
from rclpy.executors import SingleThreadedExecutor
from sensor_msgs.msg import JointState
from std_srvs.srv import SetBool

import dyn_ros
from dyn_ros.demo.robot import PUSH_TIMEOUT, DemoRobot
from dyn_ros.demo.run import ARM
from dyn_ros.srv import ClearPayload, SetPayload
from dyn_ros.viewer.motion import SineMotion
from dyn_ros.viewer.simulation import MAX_ADVANCE, CompliantRobot

LIMIT = 30.0  # seconds


class Person:
    """A node that pushes and commands a robot in this process, whose clock the tests advance."""

    def __init__(self):
        model = dyn_ros.Model.from_urdf_file(ARM)
        self.motion = SineMotion(model.tree)
        self.simulated = CompliantRobot(model, self.motion)
        self.robot = DemoRobot(ARM.read_text(), self.motion, self.simulated)
        self.node = rclpy.create_node("person")
        self.executor = SingleThreadedExecutor()
        self.executor.add_node(self.robot)
        self.executor.add_node(self.node)
        self.push = self.node.create_publisher(WrenchStamped, "push", 1)
        self.command = self.node.create_publisher(JointState, "demo_robot/command", 1)

    def until(self, ready, again=None):
        end = time.monotonic() + LIMIT
        while not ready():
            assert time.monotonic() < end
            if again:
                again()
            self.executor.spin_once(0.01)

    def call(self, kind, service, **fields):
        client = self.node.create_client(kind, f"demo_robot/{service}")
        self.until(client.service_is_ready)
        future = client.call_async(kind.Request(**fields))
        self.until(future.done)
        self.node.destroy_client(client)
        return future.result()

    def advance(self, seconds):
        """Simulate."""
        end = self.robot._now + seconds
        while self.robot._now < end:
            self.robot._advance(self.robot._now + 0.01)

    @property
    def desired(self):
        return self.robot._steering.advance(0.0)[0]

    @property
    def position(self):
        return self.simulated.position

    def close(self):
        self.executor.shutdown()
        self.robot.destroy_node()
        self.node.destroy_node()


@pytest.fixture(scope="module")
def listener():
    """A node that keeps the DDS participant of this process, while other nodes come and go."""
    rclpy.init(args=[])
    node = rclpy.create_node("listener")
    yield node
    wait_until_alone(node)
    node.destroy_node()
    rclpy.shutdown()


@pytest.fixture
def person(listener):
    person = Person()
    yield person
    person.close()


def wrench(frame, *force):
    message = WrenchStamped()
    message.header.frame_id = frame
    message.wrench.force.x, message.wrench.force.y, message.wrench.force.z = force
    return message


def test_a_push_lasts_as_long_as_its_messages(person):
    person.advance(1.0)
    assert abs(person.position - person.desired).max() < 1e-3
    person.until(
        lambda: math.isfinite(person.robot._push_end),
        lambda: person.push.publish(wrench("tool", 20.0, 0.0, 0.0)),
    )
    begin = person.robot._now = person.robot._push_end - PUSH_TIMEOUT
    person.advance(PUSH_TIMEOUT - 0.02)
    assert abs(person.position - person.desired).max() > 1e-2
    person.advance(4.0)
    assert person.robot._now > begin + 3.0
    assert abs(person.position - person.desired).max() < 1e-3


def test_a_push_on_no_link_is_ignored(person):
    person.until(lambda: person.push.get_subscription_count())
    for message in (wrench("nowhere", 1.0, 0.0, 0.0), wrench("tool", math.nan, 0.0, 0.0)):
        person.push.publish(message)
        end = time.monotonic() + 0.2
        person.until(lambda end=end: time.monotonic() > end)
        assert person.robot._push_end == math.inf


def test_payloads(person):
    request = SetPayload.Request(name="weight")
    body = request.inertia.inertia
    request.inertia.header.frame_id = "tool"
    body.m, body.ixx, body.iyy, body.izz = 0.5, 1e-3, 1e-3, 1e-3
    response = person.call(SetPayload, "set_payload", name=request.name, inertia=request.inertia)
    assert response.success and response.payloads == ["weight"]
    assert response.total_mass == pytest.approx(16.1)
    person.advance(2.0)
    assert abs(person.position - person.desired).max() > 3e-3
    body.m = -1.0
    response = person.call(SetPayload, "set_payload", name=request.name, inertia=request.inertia)
    assert not response.success and "-1" in response.message
    response = person.call(ClearPayload, "clear_payload", name="nothing")
    assert not response.success and "weight" in response.message
    assert person.call(ClearPayload, "clear_payload").payloads == []
    person.advance(4.0)
    assert abs(person.position - person.desired).max() < 1e-3


def test_commands_while_it_does_not_move_by_itself(person):
    person.advance(2.0)
    command = JointState(name=["elbow_pitch", "other"], position=[1.5, 2.0])
    before = person.desired.copy()
    assert person.call(SetBool, "move", data=False).success
    np.testing.assert_allclose(person.desired, before, atol=1e-9)
    person.until(
        lambda: person.robot._steering.target[3] == 1.5, lambda: person.command.publish(command)
    )
    person.advance(4.0)
    assert person.position[3] == pytest.approx(1.5, abs=1e-4)
    resting = person.position.copy()
    assert abs(person.simulated.velocity).max() < 1e-4
    command.position = [math.nan, 0.0]
    person.command.publish(command)
    person.advance(1.0)
    np.testing.assert_allclose(person.position, resting, atol=1e-4)
    assert person.call(SetBool, "move", data=True).success
    person.advance(0.05)
    np.testing.assert_allclose(person.position, resting, atol=0.02)  # it does not jump
    person.advance(6.0)
    np.testing.assert_allclose(
        person.desired, person.motion.state_at(person.robot._steering._motion_time)[0], atol=1e-3
    )
    assert abs(person.position - person.desired).max() < 1e-3


def test_it_is_held_while_users_reach_for_it(person):
    person.advance(2.0)
    assert person.call(SetBool, "hold", data=True).success
    person.advance(2.0)
    there = person.position.copy()
    person.advance(2.0)
    np.testing.assert_allclose(person.position, there, atol=1e-3)
    assert person.call(SetBool, "hold", data=False).success
    person.advance(2.0)
    assert abs(person.position - there).max() > 0.05


def test_its_time_stands_still_during_an_interruption(person):
    person.advance(1.0)
    there = person.robot._steering._motion_time
    person.robot._advance(person.robot._now + 100.0)
    assert person.robot._steering._motion_time == pytest.approx(there + MAX_ADVANCE)
    assert abs(person.position - person.desired).max() < 1e-3


def test_what_it_publishes(person):
    heard = []
    person.node.create_subscription(JointState, "joint_states", heard.append, 10)
    person.until(lambda: heard, person.robot._publish)
    message = heard[0]
    assert list(message.name) == person.motion.names
    assert np.isfinite([message.position, message.velocity, message.effort]).all()
    stamp = message.header.stamp.sec + message.header.stamp.nanosec * 1e-9
    assert abs(stamp - time.time()) < LIMIT


@pytest.mark.parametrize(
    "arguments, namespace",
    [(["--rate", "100"], ""), (["--ros-args", "-r", "__ns:=/left"], "/left")],
    ids=["rate", "namespace"],
)
def test_ctrl_c_ends_the_robot_quietly(listener, arguments, namespace):
    command = [sys.executable, "-m", "dyn_ros.demo.robot", str(ARM), *arguments]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    end = time.monotonic() + LIMIT
    while not listener.count_publishers(f"{namespace}/joint_states"):
        assert time.monotonic() < end
        time.sleep(0.1)
    time.sleep(0.3)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=LIMIT)
    assert (process.returncode, errors) == (0, "")


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["nowhere.urdf"], "'nowhere.urdf'"),
        ([__file__], "not XML"),
        ([str(ARM), "--rate", "0"], "the rate, 0, is not a positive number"),
    ],
    ids=["missing", "not XML", "rate"],
)
def test_wrong_arguments_are_named(arguments, message):
    command = [sys.executable, "-m", "dyn_ros.demo.robot", *arguments]
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode == 2
    assert message in result.stderr and "Traceback" not in result.stderr
