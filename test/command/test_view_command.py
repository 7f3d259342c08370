# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The command ``dyn_ros view``: it serves a page until Ctrl-C, and says what is wrong."""

import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest

import dyn_ros.command.view
from dyn_ros.command.main import main

pytest.importorskip("viser", reason="no viser: pip install viser")

ARM = Path(dyn_ros.__file__).parent / "robots" / "arm7.urdf"
LIMIT = 120.0  # s
WITHOUT_ROS = """
import sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("rclpy", "std_msgs", "sensor_msgs", "geometry_msgs",
                                      "visualization_msgs", "ament_index_python"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Blocked())
from dyn_ros.command.main import main
sys.exit(main())
"""


class Command:
    """The command in a process of its own, in which ROS cannot be imported."""

    def __init__(self, path, *arguments):
        self._output = path.open("w+")
        self.process = subprocess.Popen(
            [sys.executable, "-c", WITHOUT_ROS, "view", "--no-browser", *map(str, arguments)],
            stdin=subprocess.DEVNULL,
            stdout=self._output,
            stderr=subprocess.STDOUT,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )

    def output(self):
        return Path(self._output.name).read_text()

    def address(self):
        end = time.monotonic() + LIMIT
        while not (match := re.search(r"http://\S+(?= )", self.output())):
            assert self.process.poll() is None and time.monotonic() < end, self.output()
            time.sleep(0.05)
        return match.group()

    def stop(self, how=signal.SIGINT):
        if self.process.poll() is None:
            self.process.send_signal(how)
        return self.process.wait(60)


@pytest.fixture
def start(tmp_path):
    commands = []

    def run(*arguments):
        commands.append(Command(tmp_path / f"output{len(commands)}", *arguments))
        return commands[-1]

    yield run
    for command in commands:
        if command.process.poll() is None:
            command.process.kill()
            command.process.wait()


def read(address):
    with urllib.request.urlopen(address, timeout=60.0) as page:
        return page.read().decode()


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_it_serves_a_page_without_ros_until_it_is_stopped(start, how):
    command = start("--port", 0)
    assert "<html" in read(command.address())
    assert command.stop(how) == 0
    assert command.output() == f"The robot is at {command.address()} (Ctrl-C to quit)\n"


def test_a_recording(start, tmp_path):
    names = dyn_ros.Model.from_urdf_file(ARM).joint_names
    table = tmp_path / "table.csv"
    table.write_text(
        "\n".join(
            [",".join(["time", *(f"position.{name}" for name in names)])]
            + [",".join(map(str, [0.01 * row, *[0.0] * 7])) for row in range(100)]
        )
        + "\n"
    )
    command = start(table, "--robot", ARM, "--port", 0)
    assert "<html" in read(command.address())
    assert command.stop() == 0
    assert "Traceback" not in command.output()


def test_a_port_in_use(start):
    with socket.create_server(("127.0.0.1", 0)) as used:
        port = used.getsockname()[1]
        command = start("--port", port)
        assert not command.address().endswith(str(port))
        assert f"port {port} is in use" in command.output()


def test_ctrl_c_while_it_compiles(start, monkeypatch, tmp_path):
    monkeypatch.setenv("DYN_ROS_CACHE_DIR", str(tmp_path / "cache"))
    command = start("--port", 0)
    read(command.address())
    time.sleep(1.0)
    assert command.stop() == 0
    assert "Traceback" not in command.output()


def fails(capsys, *arguments):
    assert main(["view", "--no-browser", "--port", "0", *map(str, arguments)]) == 2
    captured = capsys.readouterr()
    assert captured.out == "" and captured.err.count("\n") == 1
    return captured.err


def test_no_viser(capsys, monkeypatch):
    monkeypatch.setattr(dyn_ros.command.view, "find_spec", lambda name: None)
    assert 'pip install "dyn_ros[viewer]"' in fails(capsys)


def test_robots_that_cannot_be_read(capsys, tmp_path):
    assert "No such file" in fails(capsys, tmp_path / "no.urdf")
    bad = tmp_path / "bad.urdf"
    bad.write_text("<robot>")
    assert "bad.urdf" in fails(capsys, bad)
    assert "--robot" in fails(capsys, ARM, "--robot", ARM)
    assert "--drives: " in fails(capsys, ARM, "--drives", tmp_path / "drives.yaml")


def test_recordings_that_cannot_be_read(capsys, tmp_path):
    assert "no.mcap" in fails(capsys, tmp_path / "no.mcap")
    bad = tmp_path / "bad.mcap"
    bad.write_text("no recording")
    assert "bad.mcap" in fails(capsys, bad)
    table = tmp_path / "table.csv"
    table.write_text("time,position.elbow_pitch\n0,0\n1,0\n")
    assert "--robot FILE.urdf" in fails(capsys, table) or "--robot" in fails(capsys, table)
    table.write_text("time,position.a\n0,0\n1,0\n")
    assert "no joint of the robot" in fails(capsys, table, "--robot", ARM)
    missing = tmp_path / "no.yaml"
    assert f"{missing}: No such file" in fails(capsys, table, "--robot", ARM, "--drives", missing)


def test_a_host_that_is_none(capsys):
    assert "127.0.0.1" in fails(capsys, "--host", "no.such.host.invalid")


def test_the_page_names_options(monkeypatch, tmp_path):
    urdf = tmp_path / "robot.urdf"
    mesh = '<visual><geometry><mesh filename="package://other/a.stl"/></geometry></visual>'
    urdf.write_text(f'<robot name="r"><link name="base">{mesh}</link></robot>')
    shown = []

    def show(session, *rest):
        session.show_problem("a.mcap", "no state; lock joints that are not recorded with lock=")
        monkeypatch.setattr(session.panel, "show_status", lambda *status: shown.extend(status[1]))
        session.update(1.0, 0.1)

    monkeypatch.setattr(dyn_ros.command.view, "_update_page", show)
    assert main(["view", "--no-browser", "--port", "0", str(urdf)]) == 0
    assert shown[0].endswith("or name the folder that contains it in --mesh-path")
    assert shown[-1] == "a.mcap: no state"
