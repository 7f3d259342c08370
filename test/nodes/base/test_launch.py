# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The launch files, run by launch_ros, which comes with a ROS installation."""

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
        _module, reason=f"{_module} is not importable: it comes with a ROS installation"
    )

from lifecycle_msgs.srv import GetState  # noqa: E402
from rcl_interfaces.srv import GetParameters  # noqa: E402
from sensor_msgs.msg import JointState  # noqa: E402

import dyn_ros  # noqa: E402
from dyn_ros.msg import (  # noqa: E402
    CentroidalState,
    ConstrainedDynamics,
    ExternalContact,
    JointSpaceDynamics,
)

LAUNCH = Path(__file__).parents[3] / "launch"
ARM7 = Path(dyn_ros.__file__).parent / "robots" / "arm7.urdf"
RUN = """
import sys
from launch import LaunchDescription, LaunchService
from launch.actions import IncludeLaunchDescription
from launch.launch_description_sources import AnyLaunchDescriptionSource

file, *arguments = sys.argv[1:]
include = IncludeLaunchDescription(
    AnyLaunchDescriptionSource(file),
    launch_arguments=[argument.split(":=") for argument in arguments])
service = LaunchService()
service.include_launch_description(LaunchDescription([include]))
sys.exit(service.run())
"""


ONE_NODE = {  # a topic, and the field that shows that a velocity was used
    "dynamics": (JointSpaceDynamics, "/state", "velocity_valid"),
    "centroidal": (CentroidalState, "/state", "velocity_valid"),
    "vereshchagin": (ConstrainedDynamics, "/solution", "rank"),
    "observer": (ExternalContact, "/contacts", "collision"),
}
HOLD = "    constraints: hold_pose\n    tip_frame: tool\n"
OBSERVE = "    max_gap: 60.0\n    thresholds.fixed: [0.1]\n"


def describe(file):
    """The launch file's description, made by launch itself."""
    from launch.launch_description_sources import get_launch_description_from_python_launch_file

    return get_launch_description_from_python_launch_file(str(LAUNCH / f"{file}.launch.py"))


def test_each_file_is_tested():
    assert {path.name for path in LAUNCH.glob("*.launch.*")} == {
        *(f"{file}.launch.py" for file in (*ONE_NODE, "dyn_ros", "view", "viewer")),
        "require_files.launch.py",
        "example.launch.xml",
        "two_robots.launch.yaml",
    }


@pytest.mark.parametrize("file", [*ONE_NODE, "dyn_ros", "view", "viewer"])
def test_every_argument_is_described(file):
    arguments = {each.name: each for each in describe(file).get_launch_arguments()}
    of_view = {
        "view": {"rviz_config", "fixed_frame", "nodes", "gui"},
        "viewer": {"nodes", "host", "port"},
    }.get(file, set())
    assert (
        set(arguments) - {"name"}
        == {
            "namespace",
            "params_file",
            "robot_description_file",
            "drives",
            "use_sim_time",
            "autostart",
            "log_level",
            "respawn",
        }
        | of_view
    )
    assert ("name" in arguments) == (file in ONE_NODE)
    assert all(len(each.description) > 10 for each in arguments.values())


@pytest.fixture
def launch(client, tmp_path):
    """Launch with arguments; gives the process, and the log so far. It is ended as Ctrl-C does."""
    processes = []
    bin = Path(sys.executable).parent  # scripts begin with `env python3`: this one
    environment = {**os.environ, "PATH": f"{bin}{os.pathsep}{os.environ['PATH']}"}

    def launch(file, prefix=None, **arguments):
        if prefix:
            environment["AMENT_PREFIX_PATH"] = os.pathsep.join(
                filter(None, [str(prefix), os.environ.get("AMENT_PREFIX_PATH")])
            )
        log = tmp_path / f"log{len(processes)}.txt"
        [path] = LAUNCH.glob(f"{file}.launch.*")
        process = subprocess.Popen(
            [
                sys.executable,
                "-c",
                RUN,
                str(path),
                *(f"{name}:={value}" for name, value in arguments.items()),
            ],
            stdout=log.open("wb"),
            stderr=subprocess.STDOUT,
            start_new_session=True,
            env=environment,
        )
        processes.append((process, log))
        client.wait(
            lambda: "process started with pid" in log.read_text() or process.poll() is not None,
            log.read_text,
        )
        assert process.poll() is None, log.read_text()
        return process, log.read_text

    yield launch
    for process, log in processes:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGINT)
        assert process.wait(60) == 0, log.read_text()
        assert "Traceback" not in log.read_text()


def joint_states(client, topic, position=0.1):
    """Something to call until an answer has come."""
    model = dyn_ros.Model.from_urdf_file(ARM7)
    message = JointState(
        name=list(model.joint_names), position=[position] * 7, velocity=[0.2] * 7, effort=[0.0] * 7
    )
    publisher = client.publisher(JointState, topic)
    return lambda: publisher.publish(message)


def failure(file, **arguments):
    """Return the log of a launch that ends by itself with an error."""
    [path] = LAUNCH.glob(f"{file}.launch.*")
    result = subprocess.run(
        [
            sys.executable,
            "-c",
            RUN,
            str(path),
            *(f"{name}:={value}" for name, value in arguments.items()),
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=60,
    )
    assert result.returncode == 1, result.stdout
    assert "process started" not in result.stdout
    return result.stdout


def test_missing_drives_end_the_launch(tmp_path):
    path = tmp_path / "missing.yaml"
    assert f"drives: there is no file '{path}'" in failure(
        "observer", robot_description_file=ARM7, drives=path
    )


@pytest.mark.parametrize("argument", ["use_sim_time", "autostart", "respawn"])
def test_a_flag_that_is_neither_true_nor_false_ends_the_launch(argument):
    assert f"{argument}: expected true or false, got 'maybe'" in failure(
        "dynamics", robot_description_file=ARM7, **{argument: "maybe"}
    )


@pytest.mark.parametrize(
    "file, argument",
    [
        *(
            (f"{file}.launch.py", "robot_description_file")
            for file in (*ONE_NODE, "dyn_ros", "view", "viewer")
        ),
    ],
)
def test_a_missing_description_ends_the_launch(tmp_path, file, argument):
    path = tmp_path / "missing.urdf"
    assert f"{argument}: there is no file '{path}'" in failure(
        file.partition(".")[0], **{argument: path}
    )


@pytest.mark.parametrize(
    "argument", ["left", "right", "left_drives", "right_drives", "params_file"]
)
def test_both_robots_are_checked_before_one_starts(tmp_path, argument):
    pytest.importorskip("launch_yaml")
    path = tmp_path / "missing"
    output = failure("two_robots", **{"left": ARM7, "right": ARM7, argument: path})
    assert f"{argument}: there is no file '{path}'" in output


@pytest.mark.parametrize(
    "argument, value, required",
    [
        (None, "", True),
        ("gui", "true", True),
        ("gui", "1", True),
        ("gui", "false", False),
        ("gui", None, False),
        ("gui", "", False),
        ("gui", "robot.urdf", True),
    ],
)
def test_a_missing_package_is_named_with_a_remedy(monkeypatch, argument, value, required):
    from dyn_ros.nodes.base.launch_file import LaunchError, require_package
    from launch import LaunchContext

    monkeypatch.setenv("ROS_DISTRO", "jazzy")
    context = LaunchContext()
    if value is not None:
        context.launch_configurations["gui"] = value
    require_package("dyn_ros", argument).execute(context)
    missing = require_package("no_such_package", argument)
    if not required:
        missing.execute(context)
        return
    with pytest.raises(
        LaunchError,
        match=r"the ROS package no_such_package is not installed; on Debian or Ubuntu, run "
        r"`sudo apt install ros-jazzy-no-such-package`$",
    ):
        missing.execute(context)


def test_a_missing_module_is_named_with_a_remedy():
    from dyn_ros.nodes.base.launch_file import LaunchError, require_module
    from launch import LaunchContext

    require_module("numpy", "pip install numpy").execute(LaunchContext())
    with pytest.raises(LaunchError, match=r"no_such_module is not installed: pip install it$"):
        require_module("no_such_module", "pip install it").execute(LaunchContext())


@pytest.mark.parametrize("file", ONE_NODE)
def test_the_node_runs_with_its_arguments(client, launch, tmp_path, file):
    parameters = tmp_path / "parameters.yaml"
    parameters.write_text("/**:\n  ros__parameters:\n    frame_id: somewhere\n" + HOLD + OBSERVE)
    _, log = launch(
        file,
        name="forces",
        namespace="left",
        params_file=parameters,
        robot_description_file=ARM7,
        log_level="debug",
    )
    kind, topic, known = ONE_NODE[file]
    state = client.listen(kind, "/left/forces" + topic)
    client.wait(lambda: state, log, again=joint_states(client, "/left/joint_states"))
    assert state[0].header.frame_id == "somewhere"
    assert getattr(state[0], known)
    assert "[DEBUG]" in log()
    client.stop_listening()


def test_the_description_of_a_driver_does_not_replace_the_file(client, launch):
    _, log = launch("dynamics", namespace="driven", robot_description_file=ARM7)
    state = client.listen(JointSpaceDynamics, "/driven/dynamics/state")
    client.wait(lambda: state, log, again=joint_states(client, "/driven/joint_states"))
    assert client.node.count_subscribers("/driven/robot_description") == 0
    client.stop_listening()


def test_all_nodes_run_with_their_arguments(client, launch, tmp_path):
    parameters = tmp_path / "parameters.yaml"
    parameters.write_text(
        "/**/dyn_ros:\n  ros__parameters:\n    frame_id: somewhere\n"
        "/**/vereshchagin:\n  ros__parameters:\n"
        + HOLD
        + "/**/observer:\n  ros__parameters:\n"
        + OBSERVE
    )
    _, log = launch(
        "dyn_ros",
        namespace="left",
        params_file=parameters,
        robot_description_file=ARM7,
        log_level="debug",
    )
    states = [
        client.listen(kind, f"/left/{name}{topic}") for name, (kind, topic, _) in ONE_NODE.items()
    ]
    client.wait(lambda: all(states), log, again=joint_states(client, "/left/joint_states"))
    assert [state[0].header.frame_id for state in states] == ["somewhere"] * len(ONE_NODE)
    assert "[DEBUG]" in log()
    client.stop_listening()


def test_the_viewer_shows_what_the_nodes_publish(client, launch):
    pytest.importorskip("viser", reason="no viser: pip install viser")
    _, log = launch("viewer", namespace="seen", robot_description_file=ARM7, port=0)
    client.wait(lambda: "the robot is at http://localhost:" in log(), log)
    client.wait(lambda: "robot 'arm7': 9 links" in log(), log)
    nodes = {
        "/seen/dyn_ros",
        "/seen/dynamics",
        "/seen/centroidal",
        "/seen/vereshchagin",
        "/seen/observer",
        "/seen/viewer",
    }
    client.wait(
        lambda: (
            nodes
            <= {
                f"{namespace}/{name}"
                for name, namespace in client.node.get_node_names_and_namespaces()
            }
        ),
        log,
    )


@pytest.mark.parametrize(
    "file, names", [*((file, [file]) for file in ONE_NODE), ("dyn_ros", ["dyn_ros", *ONE_NODE])]
)
def test_without_autostart_the_nodes_wait_and_respawn_starts_them_again(
    client, launch, file, names
):
    _, log = launch(file, autostart="false", respawn="true", robot_description_file=ARM7)

    def states():
        return [
            client.call(GetState, f"/{name}/get_state", GetState.Request()).current_state.label
            for name in names
        ]

    assert states() == ["unconfigured"] * len(names)
    [pid] = re.findall(r"process started with pid \[(\d+)\]", log())
    os.kill(int(pid), signal.SIGKILL)
    client.wait(lambda: log().count("process started with pid") == 2, log)
    for name in names:
        client.diagnostics(SimpleNamespace(name="/" + name, output=log))


@pytest.fixture
def one_file(tmp_path):
    """config/dyn_ros.yaml with other values, some of them for only one of two robots."""
    text = (LAUNCH.parent / "config" / "dyn_ros.yaml").read_text()
    assert text.count("markers.rate: 30.0") == len(ONE_NODE)
    path = tmp_path / "parameters.yaml"
    path.write_text(
        text.replace("markers.rate: 30.0", "markers.rate: 7.0")
        + """
/left/dyn_ros:
  ros__parameters:
    frame_id: left_base
/right/dyn_ros:
  ros__parameters:
    frame_id: right_base
"""
    )
    return path


def check_robot(client, namespace, log, position):
    """Its nodes have the parameters of `one_file`, and its state is its own."""
    state = client.listen(JointSpaceDynamics, f"/{namespace}/dynamics/state")
    client.wait(
        lambda: state, log, again=joint_states(client, f"/{namespace}/joint_states", position)
    )
    assert {each.header.frame_id for each in state} == {f"{namespace}_base"}
    assert {number for each in state for number in each.position} == {position}
    for name in ONE_NODE:
        request = GetParameters.Request(names=["markers.rate"])
        [rate] = client.call(GetParameters, f"/{namespace}/{name}/get_parameters", request).values
        assert rate.double_value == 7.0


def test_the_example_in_xml_runs(client, launch, one_file):
    pytest.importorskip("launch_xml")
    _, log = launch("example", namespace="left", params_file=one_file, robot_description_file=ARM7)
    check_robot(client, "left", log, 0.3)
    client.stop_listening()


def test_two_robots_run_side_by_side(client, launch, one_file):
    pytest.importorskip("launch_yaml")
    _, log = launch("two_robots", left=ARM7, right=ARM7, params_file=one_file)
    for position, namespace in ((0.3, "left"), (0.4, "right"), (0.5, "left")):
        check_robot(client, namespace, log, position)
        client.stop_listening()


STAND_IN = """#!/bin/sh
trap 'kill $!; exit 0' INT TERM
sleep 300 &
echo $$ >{recorded}.pid
echo "$@" >{recorded}.begun
mv {recorded}.begun {recorded}
wait
"""


@pytest.fixture
def others(tmp_path):
    """The programs of other packages, each a stand-in that writes down how it was started."""
    prefix = tmp_path / "prefix"
    recorded = {}
    for name in ("rviz2", "robot_state_publisher", "joint_state_publisher_gui"):
        marker = prefix / "share" / "ament_index" / "resource_index" / "packages" / name
        script, recorded[name] = prefix / "lib" / name / name, tmp_path / name
        for path in (marker, script):
            path.parent.mkdir(parents=True, exist_ok=True)
        marker.touch()
        script.write_text(STAND_IN.format(recorded=recorded[name]))
        script.chmod(0o755)
    return prefix, recorded


def parameters_of(arguments):
    """All in the files of parameters that a program was given."""
    files = re.findall(r"--params-file (\S+)", arguments)
    return "".join(Path(file).read_text() for file in files)


def test_view_shows_a_robot(client, launch, others):
    prefix, recorded = others
    process, log = launch(
        "view",
        prefix,
        namespace="left",
        robot_description_file=ARM7,
        gui="true",
        fixed_frame="tool",
    )
    state = client.listen(CentroidalState, "/left/centroidal/state")
    client.wait(lambda: state, log, again=joint_states(client, "/left/joint_states"))
    client.wait(lambda: all(path.exists() for path in recorded.values()), log)
    given = {name: path.read_text() for name, path in recorded.items()}
    for arguments in given.values():
        assert "__ns:=/left" in arguments and "/tf:=tf" in arguments
    [config] = re.findall(r"-d (\S+)", given["rviz2"])
    assert Path(config).name == "dyn_ros.rviz" and Path(config).exists()
    assert "-f tool" in given["rviz2"]
    assert "arm7" in parameters_of(given["robot_state_publisher"])
    os.kill(int(recorded["rviz2"].with_suffix(".pid").read_text()), signal.SIGTERM)
    client.wait(lambda: process.poll() is not None, log)  # all ends by itself
    assert re.search(r"dyn_ros_node-\d]: process has finished cleanly", log())
    client.stop_listening()


def test_view_of_a_robot_that_runs_already_starts_rviz_alone(client, launch, others):
    prefix, recorded = others
    _, log = launch("view", prefix, nodes="false")
    client.wait(recorded["rviz2"].exists, log)
    assert log().count("process started with pid") == 1
    assert " -f " not in recorded["rviz2"].read_text()
