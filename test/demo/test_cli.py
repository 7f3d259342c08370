# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The dyn_ros command: arguments, errors in one line, exit codes."""
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import dyn_ros
from dyn_ros import cli
from dyn_ros.spatial.cache import cache_folder

ROOT = Path(__file__).resolve().parents[2]
BROKEN = "<robot name='broken'><link name='a'/><link name='b'/></robot>"


@pytest.fixture
def ran(monkeypatch):
    """The arguments that the demo would be run with."""
    calls = []
    monkeypatch.setattr("dyn_ros.demo.run.run", lambda *arguments: calls.append(arguments))
    return calls


def test_demo_has_defaults(ran):
    assert cli.main(["demo"]) == 0
    (urdf, root_joint, rate, duration, snapshot, browser, port), = ran
    assert urdf.name == "arm7.urdf" and urdf.is_file()
    assert (root_joint, rate, duration, snapshot) == ("fixed", 500.0, None, None)
    assert (browser, port) == (True, 8080)


def test_demo_takes_its_options(ran, tmp_path):
    robot, picture = tmp_path / "own.urdf", tmp_path / "picture.svg"
    assert cli.main(["demo", "--robot", str(robot), "--root-joint", "floating", "--rate", "50",
                     "--duration", "2.5", "--snapshot", str(picture), "--no-browser", "--port",
                     "9000"]) == 0
    assert ran == [(robot, "floating", 50.0, 2.5, picture, False, 9000)]


@pytest.mark.parametrize("arguments, rate", [
    (["--rate", "20", "--ros-args", "-r", "__ns:=/left", "-p", "rate:=7"], 20.0),
    (["--ros-args", "-p", "rate:=7", "--", "--rate", "20"], 20.0),
    (["--ros-args"], 500.0),
])
def test_ros_run_and_launch_may_add_their_arguments(ran, monkeypatch, arguments, rate):
    monkeypatch.setattr(sys, "argv", ["demo", *arguments])
    assert cli.demo() == 0
    assert ran[0][2] == rate


@pytest.mark.parametrize("option, value", [
    ("--rate", "0"), ("--rate", "-5"), ("--rate", "nan"), ("--duration", "soon"),
    ("--duration", "inf"), ("--root-joint", "ball"),
])
def test_demo_rejects_values(ran, capsys, option, value):
    with pytest.raises(SystemExit) as ended:
        cli.main(["demo", option, value])
    assert ended.value.code == 2
    assert option in capsys.readouterr().err and not ran


@pytest.mark.parametrize("text, says", [
    (None, "No such file"), ("nonsense", "robot.urdf"), (BROKEN, "root"),
    ("<robot name='still'><link name='a'/></robot>", "no joint moves"),
])
def test_bad_robot_ends_in_one_line(tmp_path, text, says):
    urdf = tmp_path / "robot.urdf"
    if text is not None:
        urdf.write_text(text)
    done = subprocess.run([sys.executable, "-m", "dyn_ros.cli", "demo", "--robot", str(urdf)],
                          capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert done.stdout == ""
    line, = done.stderr.splitlines()
    assert line.startswith(f"dyn_ros demo: {urdf}: ") and says in line


def test_demo_of_a_pipe_asks_for_a_file(tmp_path):
    """Several processes read the description; a pipe can be read once."""
    pipe = tmp_path / "robot.urdf"
    os.mkfifo(pipe)
    done = subprocess.run([sys.executable, "-m", "dyn_ros.cli", "demo", "--robot", str(pipe)],
                          capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert done.stderr == (f"dyn_ros demo: {pipe}: expected a file, because several processes read "
                           "it; save the description to one\n")


def test_without_ros_it_says_what_to_do():
    script = ("import sys; sys.modules['rclpy'] = None; from dyn_ros.cli import main; "
              "sys.exit(main(['demo']))")
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True,
                          timeout=60)
    assert done.returncode == 2
    line, = done.stderr.splitlines()
    assert "rclpy" in line and "`make demo`" in line and "colcon" in line


def test_precompile_names_the_cache_and_has_nothing_to_do_twice(capsys):
    assert cli.main(["precompile", "generalized_gravity"]) == 0
    capsys.readouterr()
    assert cli.main(["precompile", "generalized_gravity"]) == 0
    output = capsys.readouterr().out
    assert "everything is already compiled" in output
    assert str(cache_folder()) in output.replace("\n", "")


def test_precompile_rejects_an_unknown_algorithm(capsys):
    assert cli.main(["precompile", "gravitation"]) == 2
    line, = capsys.readouterr().err.splitlines()
    assert "gravitation" in line and "rnea" in line


def test_a_command_is_needed(capsys):
    with pytest.raises(SystemExit) as ended:
        cli.main([])
    assert ended.value.code == 2
    assert "{demo,info,torque,check,identify,excite,log,precompile}" in capsys.readouterr().err


# --- a robot's description, as tables

ARM7 = ROOT / "dyn_ros" / "robots" / "arm7.urdf"


def output(capsys, *arguments, code=0):
    assert cli.main(list(map(str, arguments))) == code
    return capsys.readouterr()


def test_info_shows_every_joint(capsys):
    model = dyn_ros.Model.from_urdf_file(ARM7)
    text = output(capsys, "info", ARM7).out
    rows = {line.split()[0]: line.split() for line in text.splitlines() if line.split()}
    for name, lower, upper, joint in zip(model.joint_names, model.lower, model.upper,
                                         model.tree.joints):
        assert rows[name][1] == joint.kind
        assert [float(x) for x in rows[name][3:5]] == pytest.approx([lower, upper], rel=1e-4)
        assert float(rows[name][-1]) == pytest.approx(joint.inertia.mass, rel=1e-4)
    assert "nq = 7, nv = 7" in text and "15.6 kg moving, 2.4 kg fixed" in text
    assert "nq = 14, nv = 13" in output(capsys, "info", ARM7, "--root-joint", "floating").out


def test_info_shows_warnings_and_mimics(capsys, tmp_path):
    urdf = tmp_path / "pair.urdf"
    urdf.write_text("""<robot name="pair"><link name="a"/><link name="b"/><link name="c"/>
      <joint name="j" type="continuous"><parent link="a"/><child link="b"/></joint>
      <joint name="k" type="continuous"><parent link="a"/><child link="c"/>
      <mimic joint="j" multiplier="-2" offset="0.5"/></joint></robot>""")
    text = output(capsys, "info", urdf).out
    assert "continuous, -2 j +0.5" in text and 'warning: joint "j" moves no mass' in text


def test_torque_shows_what_the_engine_computes(capsys):
    model = dyn_ros.Model.from_urdf_file(ARM7)
    data = dyn_ros.Data(model)
    q, v, a = np.linspace(-1.0, 1.0, 7), np.zeros(7), np.zeros(7)
    v[6], a[1] = 0.5, -2.0
    text = output(capsys, "torque", ARM7, "--q", *q, "--v", "wrist_roll=0.5", "--a",
                "shoulder_pitch=-2", "--gravity", 0, 1, -3).out
    model.gravity = (0.0, 1.0, -3.0)
    rows = {line.split()[0]: line.split() for line in text.splitlines() if line.split()}
    expected = zip(model.velocity_names, v, a, dyn_ros.generalized_gravity(model, data, q),
                   dyn_ros.nonlinear_effects(model, data, q, v), dyn_ros.rnea(model, data, q, v, a),
                   model.effort_limit)
    for name, *numbers in expected:
        assert [float(x) for x in rows[name][1:7]] == pytest.approx(numbers, rel=1e-4, abs=1e-8)
        torque, limit = numbers[-2:]
        assert float(rows[name][7]) == pytest.approx(100.0 * abs(torque) / limit, abs=0.051)


@pytest.mark.parametrize("arguments, words", [
    (["--q", "1", "2"], ["--q", "7 numbers", "got 2"]),
    (["--q", "elbow=1"], ["no 'elbow'", "elbow_pitch"]),
    (["--v", "wrist_roll=fast"], ["--v", "'fast' is not a number"]),
    (["--a", "wrist_roll=1", "2"], ["--a", "'2'", "NAME=NUMBER"]),
    (["--q", "nan", "0", "0", "0", "0", "0", "0"], ["q[0]", "nan"]),
])
def test_torque_rejects_numbers(capsys, arguments, words):
    error = output(capsys, "torque", ARM7, *arguments, code=2).err
    assert len(error.splitlines()) == 1 and all(word in error for word in words)


def test_check_ends_with_1_where_something_is_doubtful(capsys, tmp_path):
    assert "no findings" in output(capsys, "check", ARM7).out
    urdf = tmp_path / "heavy.urdf"
    urdf.write_text(ARM7.read_text().replace('mass value="3.5"', 'mass value="35000"'))
    text = output(capsys, "check", urdf, code=1).out
    assert "2 findings" in text and "kg/m3" in text and "nearly a point" in text


HEAVY = """<robot name="r"><link name="base"/><link name="arm">
  <visual><geometry><mesh filename="package://robot_pkg/meshes/cube.obj"/></geometry></visual>
  <inertial><mass value="20000"/><inertia ixx="3333" iyy="3333" izz="3333" ixy="0" ixz="0"
  iyz="0"/></inertial></link><joint name="j" type="continuous"><parent link="base"/>
  <child link="arm"/></joint></robot>"""
CUBE = """v 0 0 0\nv 0 0 1\nv 0 1 0\nv 0 1 1\nv 1 0 0\nv 1 0 1\nv 1 1 0\nv 1 1 1
f 1 2 3\nf 6 7 8\nf 4 5 6\n"""


@pytest.fixture
def heavy(tmp_path):
    """A description in the package of its mesh: a cube of 1 m, with 20 t."""
    pytest.importorskip("trimesh", reason="no viser: pip install viser")
    package = tmp_path / "robot_pkg"
    (package / "meshes").mkdir(parents=True)
    (package / "urdf").mkdir()
    (package / "meshes" / "cube.obj").write_text(CUBE)
    urdf = package / "urdf" / "heavy.urdf"
    urdf.write_text(HEAVY)
    return urdf


def test_check_finds_meshes_above_the_file_and_in_folders(capsys, heavy, tmp_path):
    assert "2e+04 kg/m3" in output(capsys, "check", heavy, code=1).out
    elsewhere = tmp_path / "other" / "heavy.urdf"
    elsewhere.parent.mkdir()
    (tmp_path / "robot_pkg").rename(tmp_path / "other" / "robot")
    elsewhere.write_text((tmp_path / "other" / "robot" / "urdf" / "heavy.urdf").read_text())
    text = output(capsys, "check", elsewhere).out
    assert "no findings" in text and "--mesh-path" in text
    (tmp_path / "ws").mkdir()
    (tmp_path / "other" / "robot").rename(tmp_path / "ws" / "robot_pkg")
    assert "kg/m3" in output(capsys, "check", elsewhere, "--mesh-path", tmp_path / "ws",
                             code=1).out


def test_check_as_json(capsys, heavy):
    (finding,) = json.loads(output(capsys, "check", heavy, "--json", code=1).out)
    assert list(finding) == ["where", "what", "advice", "kind", "values", "limits"]
    assert (finding["where"], finding["kind"]) == ('link "arm"', "density")
    assert finding["values"] == {"mass": 20000.0, "volume": pytest.approx(1.0),
                                 "density": pytest.approx(20000.0)}
    assert finding["limits"] == {"density": [5.0, 8500.0]}
    assert json.loads(output(capsys, "check", ARM7, "--json").out) == []
    heavy.write_text(HEAVY.replace("20000", "1e-320").replace("cube.obj", "none.stl"))
    result = output(capsys, "check", heavy, "--json", code=1)
    (finding,) = json.loads(result.out)
    assert finding["values"] == {"spread": None} and "none.stl" in result.err


def test_check_draws_a_picture(capsys, heavy, tmp_path):
    pytest.importorskip("plotly", reason="no plotly: pip install plotly")
    picture = tmp_path / "heavy.html"
    assert "2e+04 kg/m3" in output(capsys, "check", heavy, "--picture", picture, code=1).out
    page = picture.read_text()
    assert '"text":["\\u003cb\\u003earm' in page and "mesh3d" in page and "denser than lead" in page
    assert not re.search(r'<script[^>]* src=|<link[^>]* href="http', page)
    error = output(capsys, "check", heavy, "--picture", tmp_path / "no" / "where.html", code=2).err
    assert error == f"dyn_ros check: {tmp_path / 'no' / 'where.html'}: No such file or directory\n"


def test_a_picture_requires_plotly(capsys, heavy, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "plotly", None)
    monkeypatch.setitem(sys.modules, "plotly.graph_objects", None)
    error = output(capsys, "check", heavy, "--picture", tmp_path / "heavy.html", code=2).err
    assert "requires plotly" in error and "dyn_ros[identification]" in error


@pytest.mark.parametrize("command", ["info", "torque", "check"])
def test_a_robot_that_cannot_be_read_ends_in_one_line(capsys, tmp_path, command):
    error = output(capsys, command, tmp_path / "nowhere.urdf", code=2).err
    assert error == f"dyn_ros {command}: {tmp_path / 'nowhere.urdf'}: No such file or directory\n"
    urdf = tmp_path / "broken.urdf"
    urdf.write_text(BROKEN)
    error = output(capsys, command, urdf, code=2).err
    assert error.startswith(f"dyn_ros {command}: {urdf}: ") and len(error.splitlines()) == 1
