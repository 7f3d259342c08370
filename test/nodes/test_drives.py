# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The parameter drives: currents, compensated gravity, and friction that depends on the load."""

import numpy as np
import pytest

pytest.importorskip("rclpy", reason="no ROS: run `make test`")
pytest.importorskip("dyn_ros.msg", reason="the messages are not built: run `make test`")

from nodes.test_observer_node import FORCE, GAIN, MODULE, Robot, ask
from sensor_msgs.msg import JointState
from std_msgs.msg import Float64MultiArray, String
from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint

import dyn_ros
from dyn_ros.msg import CentroidalState, ContactForces, JointSpaceDynamics, RobotState
from dyn_ros.nodes.base.lifecycle import DESCRIPTION_QOS
from dyn_ros.srv import (
    EstimateEffortDelay,
    EstimatePayload,
    GetInverseDynamics,
    GetTrajectoryEfforts,
)

from .conftest import ARM7, Q, V

GAINS = 12.0, -9.0, 10.0, -10.0, 8.0, 2.0, -3.0


@pytest.fixture
def real():
    """The arm with the drives of the file."""
    model = dyn_ros.Model.from_urdf_file(ARM7)
    model.damping, model.friction = np.full((2, 7), 0.4)
    model.drives = dyn_ros.Drives.of(
        7,
        unit=("A",) * 7,
        gain=GAINS,
        is_compensated=np.arange(7) == 1,
        offset=np.linspace(-1.0, 1.0, 7),
        load_friction=0.08,
        friction_velocity=0.02,
    )
    return model


@pytest.fixture
def drives(real, tmp_path):
    dyn_ros.save_drives(real, tmp_path / "drives.yaml")
    return tmp_path / "drives.yaml"


class Driven(Robot):
    """Publishes the currents of the drives."""

    def efforts(self, q, v, a, force=None, frame="tool"):
        tau = dyn_ros.rnea(self.model, self.data, q, v, a) - self.external(q, force, frame)
        return self.currents(q, v, tau)

    def currents(self, q, v, tau):
        drives = self.model.drives
        tau = tau + dyn_ros.joint_friction(self.model, v, tau)
        gravity = dyn_ros.generalized_gravity(self.model, self.data, q)
        return (tau - drives.is_compensated * gravity) / drives.gain


@pytest.fixture
def node(start, drives):
    return start(module=MODULE, gain=GAIN, smoothing=GAIN, drives=drives)


@pytest.fixture
def robot(client, node, real):
    yield Driven(client, node, real)
    client.stop_listening()


def test_currents_show_a_push(client, node, robot):
    efforts = client.listen(JointState, f"{node.name}/external_efforts")
    robot.say(100, 0.2)
    assert np.abs(efforts[-1].effort).max() < 1e-3
    q, _ = robot.say(150, 0.2, FORCE)
    np.testing.assert_allclose(efforts[-1].effort, robot.external(q, FORCE), atol=0.05)


def test_another_description_keeps_the_drives(client, node, robot):
    publisher = client.publisher(
        String,
        node.topic("robot_description"),
        durability=DESCRIPTION_QOS.durability,
        reliability=DESCRIPTION_QOS.reliability,
    )
    before = node.node.robot
    publisher.publish(String(data=ARM7.read_text().replace("arm7", "other", 1)))
    client.wait(lambda: node.node.robot is not before, "the other robot")
    assert node.node.robot.model.drives.gain.tolist() == list(GAINS)
    test_currents_show_a_push(client, node, robot)


def test_a_payload_is_weighed_by_currents(client, start, real, tmp_path):
    """Without friction that grows with the load, which hides this payload at rest."""
    real.drives = real.drives.with_values(load_friction=0.0)
    dyn_ros.save_drives(real, tmp_path / "drives.yaml")
    node = start(module=MODULE, gain=GAIN, smoothing=GAIN, drives=tmp_path / "drives.yaml")
    robot = Driven(client, node, real)
    mass, rng = 0.5, np.random.default_rng(1)
    loaded = dyn_ros.Model.from_urdf_file(ARM7)
    loaded.set_payload("load", "tool", mass, [0.02, -0.03, 0.05], 1e-3 * np.eye(3))
    data = dyn_ros.Data(loaded)
    # drawn before the noise, of which there is as much as there are states until the response
    for pose, q in enumerate(rng.uniform(-1.0, 1.0, (4, 7))):
        tau = dyn_ros.generalized_gravity(loaded, data, q).copy()
        robot.time += 1.0  # in which it moves there

        def change(*_, q=q, tau=tau):
            noise = 0.02 * rng.normal(size=7)
            return q, np.zeros(7), robot.currents(q, np.zeros(7), tau + noise)

        answer = ask(
            client,
            robot,
            EstimatePayload,
            "estimate_payload",
            EstimatePayload.Request(duration=0.2, restart=pose == 0),
            50,
            change=change,
        )
    client.stop_listening()
    assert answer.success, answer.message
    assert abs(answer.inertia.inertia.m - mass) < 0.01


def test_a_delay_in_addition_to_the_declared_one_is_set(client, start, real, tmp_path):
    real.drives = real.drives.with_values(delay=0.004)
    dyn_ros.save_drives(real, tmp_path / "drives.yaml")
    node = start(module=MODULE, gain=GAIN, smoothing=GAIN, drives=tmp_path / "drives.yaml")
    robot, waiting = Driven(client, node, real), []

    def late(q, v, tau):
        waiting.append(tau)
        return q, v, waiting.pop(0) if len(waiting) > 12 else waiting[0]

    answer = ask(
        client,
        robot,
        EstimateEffortDelay,
        "estimate_delay",
        EstimateEffortDelay.Request(duration=8.0, apply=True),
        1000,
        swing=0.4,
        change=late,
    )
    assert answer.success, answer.message
    assert abs(answer.delay - 0.012) < 1e-3
    assert node.node.parameters.values["effort_delay"] == pytest.approx(answer.delay - 0.004)


@pytest.mark.parametrize(
    "content, reason",
    [(None, "No such file"), ("joints: {elbow: {}}", "no joint 'elbow'"), ("- 1", "expected 'jo")],
)
def test_a_file_that_cannot_be_used_can_be_corrected(
    client, start, drives, real, tmp_path, content, reason
):
    wrong = tmp_path / "wrong.yaml"
    if content is not None:
        wrong.write_text(content)
    node = start(module=MODULE, drives=wrong)
    _, values = client.diagnostics(node, lambda status, values: values["last rejection"])
    assert "drives: " in values["last rejection"] and reason in values["last rejection"]
    assert client.set_parameters(node, drives=str(drives)) == (True, "")
    assert node.node.robot.model.drives.gain.tolist() == list(GAINS)
    done, why = client.set_parameters(node, drives=str(wrong))
    assert not done and why.startswith("drives: ") and reason in why and str(wrong) in why
    assert node.node.robot.model.drives.gain.tolist() == list(GAINS)
    assert client.set_parameters(node, drives="") == (True, "")
    assert node.node.robot.model.drives.reports_torque


def test_a_unit_without_a_gain_is_stated(client, start, real, tmp_path):
    (tmp_path / "drives.yaml").write_text(f"joints: {{{real.velocity_names[1]}: {{unit: A}}}}")
    node = start(module=MODULE, drives=tmp_path / "drives.yaml")
    robot = Driven(client, node, real)
    efforts = client.listen(JointState, f"{node.name}/external_efforts")
    robot.say(20, 0.2)
    client.diagnostics(
        node,
        lambda status, values: (
            "unit A, and no gain makes them torques" in (f"{status.message} {values}")
        ),
    )
    assert not efforts
    assert client.set_parameters(node, effort_constant=[1.0] * 7) == (True, "")
    robot.say(100, 0.2)
    assert efforts
    client.stop_listening()


def test_delays_that_differ_are_stated(client, start, real, tmp_path):
    real.drives = real.drives.with_values(delay=[0.004] + [0.0] * 6)
    dyn_ros.save_drives(real, tmp_path / "drives.yaml")
    node = start(module=MODULE)
    done, why = client.set_parameters(node, drives=str(tmp_path / "drives.yaml"))
    assert not done and "expected one delay for all joints" in why


def test_contact_forces_and_accelerations_are_those_of_the_torques(client, start, drives, real):
    node = start(
        module="dyn_ros.nodes.centroidal_node",
        drives=drives,
        contact_frames=["tool"],
        contact_source="always",
        acceleration_source="none",
    )
    data, torque, zero = dyn_ros.Data(real), np.linspace(5.0, -4.0, 7), np.zeros(7)
    gravity = dyn_ros.generalized_gravity(real, data, Q).copy()
    currents = (torque - real.drives.is_compensated * gravity) / real.drives.gain
    tool = dyn_ros.Contact("tool", 3, dyn_ros.ReferenceFrame.LOCAL_WORLD_ALIGNED)
    held = dyn_ros.contact_forces(real, data, Q, zero, zero, torque, [tool])["tool"].copy()
    output, speak = (
        client.listen(ContactForces, node.name + "/contact_forces"),
        client.speaker(node),
    )
    [answer] = speak.ask(speak.message(real.joint_names, Q, zero, currents), output)
    force = answer.forces[0].wrench.force
    np.testing.assert_allclose([force.x, force.y, force.z], held, rtol=1e-9)
    free = dyn_ros.aba(real, data, Q, V, torque).copy()
    rate = dyn_ros.centroidal_momentum_time_derivative(real, data, Q, V, free)[:3].copy()
    assert client.set_parameters(
        node, contact_frames=[""], acceleration_source="forward_dynamics"
    ) == (True, "")
    output = client.listen(CentroidalState, node.name + "/state")
    speak.ask(speak.message(real.joint_names, Q, V, currents), output)
    [state] = speak.ask(speak.message(real.joint_names, Q, V, currents), output)
    rates = state.linear_momentum_rate
    assert state.rates_valid
    np.testing.assert_allclose([rates.x, rates.y, rates.z], rate, rtol=1e-9)


def test_contact_forces_need_a_gain(client, start, drives, real):
    drives.write_text("joints:\n  shoulder_yaw: {unit: A}\n")
    node = start(
        module="dyn_ros.nodes.centroidal_node",
        drives=drives,
        contact_frames=["tool"],
        contact_source="always",
    )
    forces = client.listen(ContactForces, node.name + "/contact_forces")
    output, speak = client.listen(CentroidalState, node.name + "/state"), client.speaker(node)
    for _ in range(3):
        speak.ask(speak.message(real.joint_names, Q, V, np.ones(7)), output)
    assert not forces
    client.diagnostics(
        node,
        lambda status, values: "no gain makes them torques" in f"{status.message} {values}",
    )


def test_friction_depends_on_the_load(client, start, drives, real):
    node = start(drives=drives, include_friction=True, command="nle", command_scale=[1.0])
    data, names = dyn_ros.Data(real), list(real.joint_names)
    nle = dyn_ros.nonlinear_effects(real, data, Q, V).copy()
    expected = nle + dyn_ros.joint_friction(real, V, nle)
    commands = client.listen(Float64MultiArray, node.name + "/command")
    speak = client.speaker(node)
    [state] = speak.ask(
        speak.message(names, Q, V), client.listen(JointSpaceDynamics, node.name + "/state")
    )
    np.testing.assert_allclose(state.nle, expected)
    client.wait(lambda: commands, "a command")
    limits = real.effort_limit
    np.testing.assert_allclose(commands[-1].data, np.clip(expected, -limits, limits))
    effort = client.call(
        GetInverseDynamics,
        node.name + "/get_inverse_dynamics",
        GetInverseDynamics.Request(
            state=RobotState(name=names, position=Q.tolist(), velocity=V.tolist())
        ),
    )
    np.testing.assert_allclose(effort.effort, expected)
    efforts = client.call(
        GetTrajectoryEfforts,
        node.name + "/get_trajectory_efforts",
        GetTrajectoryEfforts.Request(
            trajectory=JointTrajectory(
                joint_names=names,
                points=[JointTrajectoryPoint(positions=Q.tolist(), velocities=V.tolist())],
            )
        ),
    )
    np.testing.assert_allclose(efforts.effort.data, expected)
    assert client.set_parameters(node, command="gravity") == (True, "")
    commands.clear()
    message = speak.message(names, Q, V)
    client.wait(lambda: commands, "a command", again=lambda: speak.send(message))
    held = dyn_ros.generalized_gravity(real, data, Q) + real.drives.offset
    np.testing.assert_allclose(commands[-1].data, np.clip(held, -limits, limits))
