# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The demo as users run it: real processes, real DDS, a clean exit."""

import fcntl
import io
import math
import os
import pty
import signal
import struct
import subprocess
import sys
import termios
import time
import webbrowser
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

import dyn_ros
from dyn_ros.demo.run import ARM, DISCOVERY_LIMIT, can_serve_page, has_screen
from dyn_ros.demo.table import Lines

pytest.importorskip("rclpy", reason="no ROS: run `make test`")
pytest.importorskip("dyn_ros.msg", reason="the messages are not built: run `make test`")

START = 120.0  # seconds; the first start on a machine compiles
MIXED = """<robot name="mixed">
  <link name="base"/>
  <joint name="slide" type="prismatic"><parent link="base"/><child link="cart"/>
    <axis xyz="1 0 0"/><limit lower="-1" upper="1" effort="50" velocity="1"/></joint>
  <link name="cart"><inertial><mass value="2"/>
    <inertia ixx="0.1" iyy="0.1" izz="0.1" ixy="0" ixz="0" iyz="0"/></inertial></link>
  <joint name="swing" type="continuous"><parent link="cart"/><child link="pole"/>
    <axis xyz="0 1 0"/></joint>
  <link name="pole"><inertial><origin xyz="0 0 0.5"/><mass value="1"/>
    <inertia ixx="0.1" iyy="0.1" izz="0.1" ixy="0" ixz="0" iyz="0"/></inertial></link>
</robot>"""


@pytest.fixture
def environment(other_domain):
    """A ROS domain that no other test is using."""
    return dict(os.environ, ROS_DOMAIN_ID=str(other_domain), PYTHONUNBUFFERED="1")


def command(*arguments):
    return [sys.executable, "-m", "dyn_ros", "demo", "--no-page", *arguments]


def finished(environment, *arguments):
    """Run the demo to its end."""
    return subprocess.run(
        command(*arguments), env=environment, capture_output=True, text=True, timeout=START
    )


def descendants(pid):
    """All descendants of a process."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [int(child) for child in children] + [
        below for child in children for below in descendants(child)
    ]


def alive(pids):
    return [pid for pid in pids if Path(f"/proc/{pid}").exists()]


def table_rows(text):
    """The numbers in the row of every joint, in the order printed."""
    names = [joint.name for joint in dyn_ros.engine.model.urdf.read_urdf(ARM.read_text()).joints]
    rows = [
        line.split() for line in text.splitlines() if line.split()[:1] and line.split()[0] in names
    ]
    return names, [(row[0], [float(word) for word in row[1:5]]) for row in rows]


@pytest.fixture
def running(environment):
    """A demo that has drawn its first table, and the ids of its children."""
    with subprocess.Popen(
        command(), env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        children = []
        try:
            until(process, "Hz")
            children = descendants(process.pid)
            yield process, children
        finally:
            process.kill()
            wait_for_end(children)  # otherwise the next demo yields to this robot


def wait_for_end(pids):
    end = time.monotonic() + START
    while alive(pids):
        assert time.monotonic() < end, f"processes {alive(pids)} did not end"
        time.sleep(0.1)


def until(process, word):
    end = time.monotonic() + START
    while word not in (line := process.stdout.readline()):
        assert line and time.monotonic() < end, process.stderr.read()


def test_shows_the_arms_dynamics_and_ends_by_itself(environment):
    done = finished(environment, "--duration", "3")
    assert (done.returncode, done.stderr) == (0, "")
    names, rows = table_rows(done.stdout)
    tables = [rows[i : i + 7] for i in range(0, len(rows), 7)]
    assert len(tables) >= 3
    for table in tables:
        assert [name for name, _ in table] == names
        assert all(math.isfinite(number) for _, numbers in table for number in numbers)
    assert tables[0] != tables[-1]
    words = done.stdout.splitlines()[-1].split()
    assert words[1:3] == ["messages", "at"] and "median latency" in done.stdout
    assert int(words[0]) > 100 and float(words[3]) > 0 and float(words[-2]) > 0


def test_shown_numbers_are_those_of_the_engine(environment):
    done = finished(environment, "--duration", "2")
    _, rows = table_rows(done.stdout)
    position, gravity, _, inertia = np.array([numbers for _, numbers in rows[-7:]]).T
    model = dyn_ros.Model.from_urdf_file(ARM)
    data = dyn_ros.Data(model)

    def shown(q):
        diagonal = np.diag(dyn_ros.crba(model, data, q)).copy()
        return np.array([dyn_ros.generalized_gravity(model, data, q).copy(), diagonal])

    # The effect of rounding to the printed digits, position included, to first order.
    slack = sum(
        abs(shown(position + step) - shown(position - step)) / 2 for step in 0.5e-3 * np.eye(7)
    )
    error = abs(shown(position) - np.array([gravity, inertia]))
    assert np.all(error <= 1.01 * slack + np.array([[0.5001e-2], [0.5001e-4]]))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_cleanly(running, number):
    process, children = running
    assert len(children) == 2
    process.send_signal(number)
    out, err = process.communicate(timeout=20)
    assert (process.returncode, err) == (0, "")
    assert "messages at" in out.splitlines()[-1]
    assert not alive(children)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux signals the end of a parent")
def test_no_orphan_when_it_is_killed(running):
    process, children = running
    process.kill()
    process.wait()
    wait_for_end(children)


def test_ctrl_c_while_the_node_starts(environment):
    with subprocess.Popen(
        command(), env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        end = time.monotonic() + 20
        while len(descendants(process.pid)) < 2 and time.monotonic() < end:
            time.sleep(0.01)
        children = descendants(process.pid)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=20)
    assert (process.returncode, err) == (0, "")
    assert "before the first message from the node" in out
    assert not alive(children)


def test_a_robot_of_ones_own(environment, tmp_path):
    urdf, picture = tmp_path / "mixed.urdf", tmp_path / "picture.svg"
    urdf.write_text(MIXED)
    done = finished(
        environment,
        "--robot",
        str(urdf),
        "--duration",
        "1",
        "--rate",
        "100",
        "--snapshot",
        str(picture),
    )
    assert (done.returncode, done.stderr) == (0, "")
    slide, swing = [
        next(line.split() for line in done.stdout.splitlines() if line.split()[:1] == [name])
        for name in ("slide", "swing")
    ]
    assert "[kg m² | kg]" in done.stdout
    assert float(slide[4]) == pytest.approx(3.0)  # cart and pole: 2 kg + 1 kg
    assert float(swing[4]) == pytest.approx(0.35)  # 0.1 kg m2 + 1 kg (0.5 m)^2
    assert swing[-1] == "-"  # no effort limit, no load
    assert "slide" in picture.read_text() and "<svg" in picture.read_text()


def test_a_snapshot_that_cannot_be_written(environment, tmp_path):
    picture = tmp_path / "missing" / "picture.svg"
    done = finished(environment, "--duration", "1", "--snapshot", str(picture))
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert str(picture) in line


def test_a_reader_that_leaves(environment):
    """As in `dyn_ros demo | head -1`: no traceback, no child left."""
    with subprocess.Popen(
        command(), env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        until(process, "Hz")
        children = descendants(process.pid)
        process.stdout.close()
        process.wait(20)
        assert "Traceback" not in process.stderr.read()
    assert len(children) == 2 and not alive(children)


def test_a_floating_base(environment):
    done = finished(environment, "--root-joint", "floating", "--duration", "1")
    assert (done.returncode, done.stderr) == (0, "")
    weight = next(
        line.split()
        for line in done.stdout.splitlines()
        if line.split()[:1] == ["root_joint/linear_z"]
    )
    assert weight[1] == "-"
    assert float(weight[2]) == pytest.approx(18.0 * 9.81, abs=0.0051)
    assert float(weight[4]) == pytest.approx(18.0, abs=0.51e-4)


def assert_gave_way(done):
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert "joint_states" in line and "ROS_DOMAIN_ID" in line


def test_it_gives_way_to_a_robot_that_was_there_before(environment):
    robot = """
import rclpy
from sensor_msgs.msg import JointState
rclpy.init()
node = rclpy.create_node("robot")
publisher = node.create_publisher(JointState, "joint_states", 10)
print("here", flush=True)
rclpy.spin(node)
"""
    with subprocess.Popen(
        [sys.executable, "-c", robot], env=environment, text=True, stdout=subprocess.PIPE
    ) as process:
        try:
            until(process, "here")
            assert_gave_way(finished(environment))
        finally:
            process.kill()


def test_the_second_demo_gives_way_however_late_it_finds_the_first(running, environment):
    for _ in range(round(DISCOVERY_LIMIT / Lines.period)):
        until(running[0], "Hz")
    late = """
import sys
import dyn_ros.command.main, dyn_ros.demo.run
dyn_ros.demo.run.DISCOVERY_LIMIT = 0.0
sys.exit(dyn_ros.command.main.main())
"""
    done = subprocess.run(
        [sys.executable, "-c", late, "demo", "--no-page"],
        env=environment,
        capture_output=True,
        text=True,
        timeout=START,
    )
    assert_gave_way(done)
    assert running[0].poll() is None


def test_on_a_terminal(environment):
    """Twelve lines high: the table is cut to fit, and drawn in place."""
    leader, follower = pty.openpty()
    fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", 12, 90, 0, 0))
    process = subprocess.Popen(
        command("--duration", "1"),
        stdin=follower,
        stdout=follower,
        stderr=follower,
        env=dict(environment, TERM="xterm-256color"),
    )
    os.close(follower)
    output = b""
    while True:
        try:
            output += os.read(leader, 65536)
        except OSError:  # the other side is closed
            break
    os.close(leader)
    assert process.wait(20) == 0
    text = output.decode()
    assert "dynamics_node is starting" in text
    assert "shoulder_yaw" in text and "wrist_roll" not in text
    assert "… and 4 more" in text
    assert "Traceback" not in text


def test_without_viser_there_is_the_table_alone(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    console = Console(file=io.StringIO())
    assert not can_serve_page(console)
    assert 'pip install "dyn_ros[viewer]"' in console.file.getvalue()


@pytest.mark.parametrize(
    "display, browser, opens",
    [
        ("", webbrowser.BackgroundBrowser("xdg-open"), False),
        (":0", webbrowser.BackgroundBrowser("xdg-open"), True),
        (":0", webbrowser.GenericBrowser("w3m"), False),
    ],
)
def test_a_browser_opens_on_a_screen_alone(monkeypatch, display, browser, opens):
    monkeypatch.setenv("DISPLAY", display)
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    monkeypatch.setattr(webbrowser, "get", lambda: browser)
    assert has_screen() == opens
