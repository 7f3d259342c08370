# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The page of the quadruped: torques of its legs show the forces of its feet."""

import re
import shutil
import sys
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("rclpy", reason="no ROS: run `make test`")
pytest.importorskip("dyn_ros.msg", reason="the messages are not built: run `make test`")

from nav_msgs.msg import Odometry
from rclpy.node import Node
from sensor_msgs.msg import JointState

import dyn_ros
import peer
from dyn_ros.msg import ContactForces

from .simulated_driver import SimulatedDriver, launched
from .test_commands import ROOT, commands

PAGE = ROOT / "docs" / "first_robot" / "quadruped.md"
FEET = ["FL_foot", "FR_foot", "RL_foot", "RR_foot"]
MOTORS = [
    f"{leg}_{part}_joint" for leg in ("FR", "FL", "RR", "RL") for part in ("hip", "thigh", "calf")
]
TURN = 0.2  # rad, of the trunk about x
POSTURE = [0, 0, 0, np.sin(TURN / 2), 0, 0, np.cos(TURN / 2), *4 * [0.0, 0.8, -1.5]]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with the files that a reader has, or saves from the page."""
    shutil.copy(peer.EXAMPLE_ROBOTS / peer.FILES["go2"], tmp_path / "go2.urdf")
    for name, code in re.findall(r"`(\w+\.\w+)`:\n\n```\w+\n(.*?)```", PAGE.read_text(), re.S):
        (tmp_path / name).write_text(code)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def converted(folder, client):
    """The node of the page, whose subscription is called with what stands for a LowState."""
    subscribed, names, create = {}, {"__name__": "go2_states"}, Node.__init__
    module = ModuleType("unitree_go.msg")
    module.LowState = type("LowState", (), {})

    def subscribe(node, kind, topic, call, depth):
        subscribed[kind, topic] = call

    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "unitree_go", ModuleType("unitree_go"))
        patch.setitem(sys.modules, "unitree_go.msg", module)
        patch.setattr(Node, "create_subscription", subscribe)
        patch.setattr(
            Node,
            "__init__",
            lambda node, name: create(
                node, name, context=client.context, start_parameter_services=False
            ),
        )
        exec((folder / "go2_states.py").read_text(), names)
        node = names["States"]()
    yield SimpleNamespace(node=node, publish=subscribed[module.LowState, "lowstate"])
    node.destroy_node()


def low_state(driver):
    """Return a message of the robot: motors in its order, and a quaternion that begins with w."""
    [(_, q, v, effort)] = driver.states(1.0 / driver.rate)
    motors = [
        SimpleNamespace(q=np.float32(q[k]), dq=np.float32(v[k]), tau_est=np.float32(effort[k]))
        for k in range(12)
    ]
    unused = SimpleNamespace(q=0.0, dq=0.0, tau_est=0.0)
    x, y, z, w = driver.posture[3:7]
    return SimpleNamespace(
        motor_state=[*motors, *8 * [unused]],
        imu_state=SimpleNamespace(
            quaternion=np.float32([w, x, y, z]), gyroscope=np.zeros(3, np.float32)
        ),
    )


class Standing:
    """The robot, the node that the page starts, and the node of the page between them."""

    def __init__(self, start, client, folder, converted):
        self.client, self._publish = client, converted.publish
        self.model = dyn_ros.Model.from_urdf_file(folder / "go2.urdf", root_joint="floating")
        self.data = dyn_ros.Data(self.model)
        [command] = [each for each in commands(PAGE) if each.startswith("ros2 launch dyn_ros")]
        self.node = launched(start, command)
        assert "ros2 topic echo --once /centroidal/contact_forces" in [*commands(PAGE)]
        self.forces = client.listen(ContactForces, self.node.topic("centroidal/contact_forces"))
        converted.node.joints, converted.node.base = (
            client.publisher(kind, self.node.topic(name))
            for kind, name in ((JointState, "joint_states"), (Odometry, "odom"))
        )

    def send(self, feet=FEET, edit=lambda message: None):
        """Send what the robot reports that stands on some feet; return the driver."""
        driver = SimulatedDriver(self.model, MOTORS, posture=POSTURE, swing=0.0, feet=feet)
        for _ in range(3):
            message = low_state(driver)
            edit(message)
            self._publish(message)
            self.client.settle()
        return driver

    def vertical(self):
        return np.array([each.wrench.force.z for each in self.forces[-1].forces])


@pytest.fixture
def standing(start, client, folder, converted):
    yield Standing(start, client, folder, converted)
    client.stop_listening()


def test_the_forces_of_the_feet_carry_the_weight(standing):
    driver = standing.send()
    _, expected = driver.efforts(driver.time)
    J = np.vstack(
        [
            dyn_ros.frame_jacobian(
                standing.model,
                standing.data,
                driver.posture,
                foot,
                dyn_ros.ReferenceFrame.LOCAL_WORLD_ALIGNED,
            )[:3].copy()
            for foot in FEET
        ]
    )
    assert [each.name for each in standing.forces[-1].forces] == FEET
    forces = [each.wrench.force for each in standing.forces[-1].forces]
    np.testing.assert_allclose(
        J.T @ np.concatenate([[each.x, each.y, each.z] for each in forces]), expected, atol=1e-3
    )
    assert (standing.vertical() > 15.0).all() and standing.forces[-1].residual < 1e-3
    assert standing.vertical().sum() == pytest.approx(158.0, abs=0.5)


def test_a_foot_in_the_air_pulls(standing):
    standing.send(FEET[:3])
    assert standing.vertical().min() < -10.0 and standing.forces[-1].residual < 1e-3


def test_motors_in_another_order_leave_a_residual(standing):
    def left_and_right(message):
        message.motor_state = [
            message.motor_state[k] for k in (3, 4, 5, 0, 1, 2, 9, 10, 11, 6, 7, 8)
        ]

    standing.send(edit=left_and_right)
    assert standing.forces[-1].residual > 1.0
    assert standing.vertical().sum() == pytest.approx(158.0, abs=0.5)


def test_what_is_missing_is_reported(standing, converted):
    joints, base = converted.node.joints, converted.node.base
    converted.node.base = SimpleNamespace(publish=lambda message: None)
    standing.send()
    reported = [standing.client.diagnostics(standing.node)[0].message]
    converted.node.base = base
    converted.node.joints = SimpleNamespace(
        publish=lambda message: joints.publish(
            JointState(header=message.header, name=message.name, position=message.position)
        )
    )
    standing.send()
    reported.append(standing.client.diagnostics(standing.node)[0].message)
    quoted = re.findall(r"`/diagnostics` reports `(.*?)`", PAGE.read_text())
    assert [text[: len(quote)] for text, quote in zip(reported, reversed(quoted), strict=True)] == (
        list(reversed(quoted))
    )
