# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The programs that readers save from pages: each runs as a process and exchanges messages."""

import re
import subprocess
import sys

import numpy as np
import pytest

pytest.importorskip("rclpy", reason="no ROS: run `make test`")
pytest.importorskip("dyn_ros.msg", reason="the messages are not built: run `make test`")

from sensor_msgs.msg import JointState
from std_msgs.msg import Float64MultiArray, String

import dyn_ros
from dyn_ros.msg import ExternalContact, JointSpaceDynamics

from .conftest import ARM7
from .test_commands import ROOT

COMMANDS = "/effort_controller/commands"


def programs(page):
    """Return the Python code of a page in docs."""
    return re.findall(r"```python\n(.*?)```", (ROOT / "docs" / page).read_text(), re.DOTALL)


@pytest.fixture
def run(tmp_path, request):
    """Start the first program of a page in a process, which ends after the test."""

    def run(page):
        path = tmp_path / "program.py"
        path.write_text(programs(page)[0])
        process = subprocess.Popen(
            [sys.executable, str(path)], stderr=subprocess.PIPE, text=True, cwd=tmp_path
        )

        def end():
            process.kill()  # rclpy and the middleware may wait for each other after SIGTERM
            process.communicate(timeout=20)

        request.addfinalizer(end)
        return process

    return run


def guided(velocity, is_valid=True):
    return JointSpaceDynamics(
        velocity_valid=is_valid, gravity=[10.0, -70.0], velocity=[velocity, 0.0]
    )


def test_guide_sends_gravity_minus_damping_within_limits(client, run):
    run("hand_guiding.md")
    states = client.publisher(JointSpaceDynamics, "/dynamics/state")
    commands = client.listen(Float64MultiArray, COMMANDS)
    client.wait(lambda: commands, "a command", again=lambda: states.publish(guided(0.5)))
    assert commands[-1].data.tolist() == [8.5, -60.0]
    client.stop_listening(commands)


@pytest.mark.parametrize("state", [guided(1.5), guided(0.0, is_valid=False)])
def test_guide_ends_at_an_unsafe_state(client, run, state):
    process = run("hand_guiding.md")
    states = client.publisher(JointSpaceDynamics, "/dynamics/state")
    client.wait(
        lambda: process.poll() is not None,
        "the end of guide.py",
        again=lambda: states.publish(state),
    )
    assert process.returncode == 1
    assert "the velocity is unknown or too large" in process.communicate()[1]


def test_a_contact_stops_moveit_and_no_contact_does_not(client, run):
    run("moveit.md")
    contacts = client.publisher(ExternalContact, "/observer/contacts")
    events = client.listen(String, "/trajectory_execution_event")
    client.wait(contacts.get_subscription_count, "stop_at_contact.py")
    for _ in range(5):
        contacts.publish(ExternalContact(collision=False))
        client.spin(0.05)
    assert not events
    client.wait(
        lambda: events, "stop", again=lambda: contacts.publish(ExternalContact(collision=True))
    )
    assert events[-1].data == "stop"
    client.stop_listening(events)


def test_the_arm_in_mujoco_holds_with_gravity_torques_and_falls_without(client, run):
    pytest.importorskip("mujoco", reason="no MuJoCo: run `make test`")
    run("simulators.md")
    model = dyn_ros.Model.from_urdf_file(ARM7)
    data = dyn_ros.Data(model)
    states = client.listen(JointState, "/joint_states")
    commands = client.publisher(Float64MultiArray, COMMANDS)

    def command(scale):
        order = [states[-1].name.index(name) for name in model.joint_names]
        torques = dyn_ros.generalized_gravity(model, data, np.array(states[-1].position)[order])
        commands.publish(Float64MultiArray(data=(scale * torques[np.argsort(order)]).tolist()))

    def steps(count, scale):
        end = len(states) + count
        client.wait(lambda: len(states) > end, "states", again=lambda: command(scale), every=0.01)

    client.wait(lambda: states and commands.get_subscription_count(), "mujoco_arm.py")
    before = np.array(states[-1].position)
    client.wait(  # the program may discover this publisher later
        lambda: np.abs(states[-1].effort).max() > 20.0,
        "a state with the commanded torques",
        again=lambda: command(1.0),
        every=0.01,
    )
    steps(200, 1.0)
    assert np.abs(np.array(states[-1].position) - before).max() < 0.02
    steps(300, 0.0)
    assert np.abs(np.array(states[-1].position) - before).max() > 0.3
    client.stop_listening(states)


def test_a_model_of_mjcf_is_read_as_the_page_shows():
    pytest.importorskip("mujoco", reason="no MuJoCo: run `make test`")
    names = {}
    exec(compile(programs("simulators.md")[1], "simulators.md", "exec"), names)
    assert np.allclose(names["qpos"], names["state"].qpos)
    simulated, state = names["simulated"], names["state"]
    names["mujoco"].mj_forward(simulated, state)
    assert np.allclose(names["tau"][[2, 6]], state.qfrc_bias[[2, 6]])
