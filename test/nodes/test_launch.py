"""launch/dynamics.launch.py, run by launch_ros, which comes with a ROS installation."""
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

for _module in ("rclpy", "launch", "launch_ros"):
    pytest.importorskip(
        _module, reason=f"{_module} is not importable: it comes with a ROS installation")

from lifecycle_msgs.srv import GetState  # noqa: E402
from sensor_msgs.msg import JointState  # noqa: E402

import dyn_ros  # noqa: E402

LAUNCH = Path(__file__).parents[2] / "launch" / "dynamics.launch.py"
ARM7 = Path(dyn_ros.__file__).parent / "robots" / "arm7.urdf"
RUN = """
import sys
from launch import LaunchDescription, LaunchService
from launch.actions import IncludeLaunchDescription
from launch.launch_description_sources import PythonLaunchDescriptionSource

file, *arguments = sys.argv[1:]
include = IncludeLaunchDescription(
    PythonLaunchDescriptionSource(file),
    launch_arguments=[argument.split(":=") for argument in arguments])
service = LaunchService()
service.include_launch_description(LaunchDescription([include]))
sys.exit(service.run())
"""


def describe():
    """The launch file's description, made by launch itself."""
    from launch.launch_description_sources import get_launch_description_from_python_launch_file
    return get_launch_description_from_python_launch_file(str(LAUNCH))


def test_every_argument_is_described():
    arguments = {each.name: each for each in describe().get_launch_arguments()}
    assert set(arguments) == {
        "name", "namespace", "params_file", "robot_description_file", "use_sim_time", "autostart",
        "log_level", "respawn"}
    assert all(len(each.description) > 10 for each in arguments.values())


@pytest.fixture
def launch(tmp_path):
    """Launch with arguments; gives the log so far. It is ended as Ctrl-C does."""
    processes = []
    log = tmp_path / "log.txt"
    bin = Path(sys.executable).parent       # scripts begin with `env python3`: this one
    environment = {**os.environ, "PATH": f"{bin}{os.pathsep}{os.environ['PATH']}"}

    def launch(**arguments):
        processes.append(subprocess.Popen(
            [sys.executable, "-c", RUN, str(LAUNCH),
             *(f"{name}:={value}" for name, value in arguments.items())],
            stdout=log.open("wb"), stderr=subprocess.STDOUT, start_new_session=True,
            env=environment))
        return log.read_text

    yield launch
    for process in processes:
        os.killpg(process.pid, signal.SIGINT)
        assert process.wait(30) == 0
    assert "Traceback" not in log.read_text()


def test_the_node_runs_with_its_arguments(client, launch, tmp_path):
    parameters = tmp_path / "parameters.yaml"
    parameters.write_text("/**:\n  ros__parameters:\n    joints: [elbow_pitch]\n")
    log = launch(name="forces", namespace="left", params_file=parameters,
                 robot_description_file=ARM7, log_level="debug")
    gravity = client.listen(JointState, "/left/forces/gravity")
    model = dyn_ros.Model.from_urdf_file(ARM7)
    message = JointState(name=list(model.joint_names), position=[0.1] * 7)
    publisher = client.publisher(JointState, "/left/joint_states")
    client.wait(lambda: gravity, log, again=lambda: publisher.publish(message))
    assert list(gravity[0].name) == ["elbow_pitch"]
    assert "[DEBUG]" in log()


def test_without_autostart_the_node_waits_and_respawn_starts_it_again(client, launch):
    log = launch(autostart="false", respawn="true", robot_description_file=ARM7)
    state = client.call(GetState, "/dynamics/get_state", GetState.Request()).current_state
    assert state.label == "unconfigured"
    [pid] = re.findall(r"process started with pid \[(\d+)\]", log())
    os.kill(int(pid), signal.SIGKILL)
    client.wait(lambda: log().count("process started with pid") == 2, log)
    client.diagnostics(SimpleNamespace(name="/dynamics", output=log))
