# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The dyn_ros command: arguments, errors in one line, exit codes."""

import argparse
import ast
import csv
import io
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
from hostile_paths import make_path

import dyn_ros
from dyn_ros import Identification
from dyn_ros.command import main as cli
from dyn_ros.command.arguments import name_options
from dyn_ros.command.identify import _write_results
from dyn_ros.engine.kernel.names import name_arguments
from dyn_ros.engine.machine_code.cache import cache_folder

ROOT = Path(__file__).resolve().parents[2]
BROKEN = "<robot name='broken'><link name='a'/><link name='b'/></robot>"


@pytest.fixture
def ran(monkeypatch):
    """The arguments that the demo would be run with."""
    calls = []
    monkeypatch.setattr("dyn_ros.demo.run.run_demo", lambda *arguments: calls.append(arguments))
    return calls


def test_demo_has_defaults(ran):
    assert cli.main(["demo"]) == 0
    ((urdf, root_joint, rate, duration, snapshot, page, browser, port),) = ran
    assert urdf.name == "arm7.urdf" and urdf.is_file()
    assert (root_joint, rate, duration, snapshot) == ("fixed", 500.0, None, None)
    assert (page, browser, port) == (True, True, 8080)


def test_demo_takes_its_options(ran, tmp_path):
    robot, picture = tmp_path / "own.urdf", tmp_path / "picture.svg"
    assert (
        cli.main(
            [
                "demo",
                "--robot",
                str(robot),
                "--root-joint",
                "floating",
                "--rate",
                "50",
                "--duration",
                "2.5",
                "--snapshot",
                str(picture),
                "--no-page",
                "--no-browser",
                "--port",
                "9000",
            ]
        )
        == 0
    )
    assert ran == [(robot, "floating", 50.0, 2.5, picture, False, False, 9000)]


def test_no_browser_has_one_meaning(capsys):
    texts = set()
    for command in ("demo", "view"):
        with pytest.raises(SystemExit):
            cli.main([command, "--help"])
        shown = " ".join(capsys.readouterr().out.split())
        texts.add(shown.partition(" --no-browser ")[2].partition(" --")[0])
    assert texts == {"print the address, but do not open the page"}


@pytest.mark.parametrize(
    "arguments, rate",
    [
        (["--rate", "20", "--ros-args", "-r", "__ns:=/left", "-p", "rate:=7"], 20.0),
        (["--ros-args", "-p", "rate:=7", "--", "--rate", "20"], 20.0),
        (["--ros-args"], 500.0),
    ],
)
def test_ros_run_and_launch_may_add_their_arguments(ran, monkeypatch, arguments, rate):
    monkeypatch.setattr(sys, "argv", ["demo", *arguments])
    assert cli.demo() == 0
    assert ran[0][2] == rate


@pytest.mark.parametrize(
    "option, value",
    [
        ("--rate", "0"),
        ("--rate", "-5"),
        ("--rate", "nan"),
        ("--duration", "soon"),
        ("--duration", "inf"),
        ("--root-joint", "ball"),
    ],
)
def test_demo_rejects_values(ran, capsys, option, value):
    with pytest.raises(SystemExit) as ended:
        cli.main(["demo", option, value])
    assert ended.value.code == 2
    assert option in capsys.readouterr().err and not ran


@pytest.mark.parametrize(
    "text, says",
    [
        (None, "No such file"),
        ("nonsense", "robot.urdf"),
        (BROKEN, "root"),
        ("<robot name='still'><link name='a'/></robot>", "no joint moves"),
    ],
)
def test_bad_robot_ends_in_one_line(tmp_path, text, says):
    urdf = tmp_path / "robot.urdf"
    if text is not None:
        urdf.write_text(text)
    done = subprocess.run(
        [sys.executable, "-m", "dyn_ros", "demo", "--robot", str(urdf)],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 2
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"dyn_ros demo: {urdf}: ") and says in line


def test_demo_of_a_pipe_asks_for_a_file(tmp_path):
    """Several processes read the description; a pipe can be read once."""
    pipe = tmp_path / "robot.urdf"
    os.mkfifo(pipe)
    done = subprocess.run(
        [sys.executable, "-m", "dyn_ros", "demo", "--robot", str(pipe)],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 2
    assert done.stderr == (
        f"dyn_ros demo: {pipe}: expected a file, because several processes read "
        "it; save the description to one\n"
    )


def test_without_ros_it_says_what_to_do():
    script = (
        "import sys; sys.modules['rclpy'] = None; from dyn_ros.command.main import main; "
        "sys.exit(main(['demo']))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
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
    (line,) = capsys.readouterr().err.splitlines()
    assert "gravitation" in line and "rnea" in line


def test_a_command_is_needed(capsys):
    with pytest.raises(SystemExit) as ended:
        cli.main([])
    assert ended.value.code == 2
    assert (
        "{view,demo,info,torque,check,identify,payload,excite,calibrate,log,export,precompile,"
        "completion}"
    ) in capsys.readouterr().err


# --- a robot's description, as tables

ARM7 = ROOT / "dyn_ros" / "robots" / "arm7.urdf"


def output(capsys, *arguments, code=0):
    assert cli.main(list(map(str, arguments))) == code
    return capsys.readouterr()


def test_info_shows_every_joint(capsys):
    model = dyn_ros.Model.from_urdf_file(ARM7)
    text = output(capsys, "info", ARM7).out
    rows = {line.split()[0]: line.split() for line in text.splitlines() if line.split()}
    for name, lower, upper, joint in zip(
        model.joint_names, model.lower, model.upper, model.tree.joints
    ):
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
    rows = [line.split() for line in text.splitlines()]
    assert ["mimics", "multiplier", "offset"] in [row[-3:] for row in rows]
    assert [row[-3:] for row in rows if row[:1] == ["k"]] == [["j", "-2", "0.5"]]
    assert 'warning: joint "j" moves no mass' in text
    robot = json.loads(output(capsys, "info", urdf, "--json").out)
    assert [
        [joint[key] for key in ("name", "mimic", "multiplier", "offset")]
        for joint in robot["joints"]
    ] == [["j", None, None, None], ["k", "j", -2.0, 0.5]]
    assert "mimics" not in output(capsys, "info", ARM7).out


def test_torque_shows_what_the_engine_computes(capsys):
    model = dyn_ros.Model.from_urdf_file(ARM7)
    data = dyn_ros.Data(model)
    q, v, a = np.linspace(-1.0, 1.0, 7), np.zeros(7), np.zeros(7)
    v[6], a[1] = 0.5, -2.0
    text = output(
        capsys,
        "torque",
        ARM7,
        "--q",
        *q,
        "--v",
        "wrist_roll=0.5",
        "--a",
        "shoulder_pitch=-2",
        "--gravity",
        0,
        1,
        -3,
    ).out
    model.gravity = (0.0, 1.0, -3.0)
    rows = {line.split()[0]: line.split() for line in text.splitlines() if line.split()}
    expected = zip(
        model.velocity_names,
        v,
        a,
        dyn_ros.generalized_gravity(model, data, q),
        dyn_ros.nonlinear_effects(model, data, q, v),
        dyn_ros.rnea(model, data, q, v, a),
        model.effort_limit,
    )
    for (name, *numbers), position in zip(expected, q, strict=True):
        assert [float(x) for x in rows[name][1:8]] == pytest.approx(
            [position, *numbers], rel=1e-4, abs=1e-8
        )
        torque, limit = numbers[-2:]
        assert float(rows[name][8]) == pytest.approx(100.0 * abs(torque) / limit, abs=0.051)


@pytest.mark.parametrize(
    "arguments, words",
    [
        (["--q", "1", "2"], ["--q", "7 numbers", "got 2"]),
        (["--q", "elbow=1"], ["no 'elbow'", "elbow_pitch"]),
        (["--v", "wrist_roll=fast"], ["--v", "'fast' is not a number"]),
        (["--a", "wrist_roll=1", "2"], ["--a", "'2'", "NAME=NUMBER"]),
        (["--q", "nan", "0", "0", "0", "0", "0", "0"], ["q[0]", "nan"]),
    ],
)
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
    assert "kg/m3" in output(capsys, "check", elsewhere, "--mesh-path", tmp_path / "ws", code=1).out


def test_check_as_json(capsys, heavy):
    (finding,) = json.loads(output(capsys, "check", heavy, "--json", code=1).out)
    assert list(finding) == ["where", "what", "advice", "kind", "values", "limits"]
    assert (finding["where"], finding["kind"]) == ('link "arm"', "density")
    assert finding["values"] == {
        "mass": 20000.0,
        "volume": pytest.approx(1.0),
        "density": pytest.approx(20000.0),
    }
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
    assert f"{tmp_path / 'no' / 'where.html'}: there is no folder" in error


def test_a_picture_requires_plotly(capsys, heavy, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "plotly", None)
    monkeypatch.setitem(sys.modules, "plotly.graph_objects", None)
    error = output(capsys, "check", heavy, "--picture", tmp_path / "heavy.html", code=2).err
    assert "requires plotly" in error and "dyn_ros[identify]" in error


def test_check_as_csv(capsys, heavy):
    (finding,) = csv.DictReader(io.StringIO(output(capsys, "check", heavy, "--csv", code=1).out))
    assert (finding["where"], finding["kind"]) == ('link "arm"', "density")
    assert json.loads(finding["values"])["mass"] == 20000.0
    assert json.loads(finding["limits"]) == {"density": [5.0, 8500.0]}
    assert output(capsys, "check", ARM7, "--csv").out == "where,what,advice,kind,values,limits\n"


# --- formats for programs

PAIR = """<robot name="pair">
  <link name="a"/><link name="b">{body}</link><link name="c">{body}</link>
  <joint name="j" type="revolute"><parent link="a"/><child link="b"/><axis xyz="0 1 0"/>
  <limit lower="-1" upper="1" velocity="2" effort="3"/></joint>
  <joint name="k" type="revolute"><parent link="b"/><child link="c"/><axis xyz="0 1 0"/>
  <limit lower="0" upper="1" velocity="2" effort="0"/>
  <mimic joint="j" multiplier="2" offset="0.25"/></joint></robot>""".format(
    body="""<inertial><mass value="1.1"/><origin xyz="0.3 0 0"/><inertia ixx="0.01" iyy="0.01"
    izz="0.01" ixy="0" ixz="0" iyz="0"/></inertial>"""
)


@pytest.fixture
def pair(tmp_path):
    urdf = tmp_path / "pair.urdf"
    urdf.write_text(PAIR)
    return urdf


def test_info_as_json_and_csv_has_all_digits(capsys):
    model = dyn_ros.Model.from_urdf_file(ARM7, root_joint="floating")
    result = output(capsys, "info", ARM7, "--root-joint", "floating", "--json")
    robot = json.loads(result.out, parse_constant=pytest.fail)
    assert {key: robot[key] for key in ("robot", "nq", "nv", "frames")} == {
        "robot": "arm7",
        "nq": 14,
        "nv": 13,
        "frames": len(model.frame_names),
    }
    assert robot["moving_mass"] == model.total_mass
    base, *moving_joints = robot["joints"]
    assert base["lower"] is None and base["parent"] is None
    rows = csv.DictReader(
        io.StringIO(output(capsys, "info", ARM7, "--root-joint", "floating", "--csv").out)
    )
    for row, joint in zip(rows, model.tree.joints, strict=True):
        for key, value in (
            ("lower", joint.lower),
            ("upper", joint.upper),
            ("velocity", joint.velocity),
            ("effort", joint.effort),
            ("mass", joint.inertia.mass),
        ):
            assert float(row[key]) == value
        assert row["mimic"] == row["offset"] == ""
    assert [joint["mass"] for joint in moving_joints] == [
        joint.inertia.mass for joint in model.tree.joints[1:]
    ]


def test_torque_as_json_and_csv_has_all_digits(capsys):
    model = dyn_ros.Model.from_urdf_file(ARM7)
    q, v = np.linspace(-1.0, 1.0, 7) / 3.0, np.full(7, 0.1)
    expected = dyn_ros.nonlinear_effects(model, dyn_ros.Data(model), q, v)
    arguments = ["torque", ARM7, "--q", *map(repr, q.tolist()), "--v", *["0.1"] * 7]
    result = json.loads(output(capsys, *arguments, "--json").out)
    rows = [*csv.DictReader(io.StringIO(output(capsys, *arguments, "--csv").out))]
    assert list(result["joints"][0]) == list(rows[0])
    for joint, row, name, x, nle, limit in zip(
        result["joints"], rows, model.joint_names, q, expected, model.effort_limit, strict=True
    ):
        assert (joint["name"], joint["q"], joint["nle"], joint["limit"]) == (name, x, nle, limit)
        assert joint["load"] == pytest.approx(abs(joint["torque"]) / limit)
        assert [float(row[key]) for key in ("q", "nle", "load")] == [x, nle, joint["load"]]
    assert result["q"] == dict(zip(model.position_names, q))
    assert result["gravity"] == [0.0, 0.0, -9.81]


def test_torque_of_a_floating_base_has_its_pose(capsys):
    arguments = ["torque", ARM7, "--root-joint", "floating", "--q", "root_joint/x=2"]
    assert "root_joint/x = 2" in output(capsys, *arguments).out
    result = json.loads(output(capsys, *arguments, "--json").out)
    assert result["q"]["root_joint/x"] == 2.0 and result["q"]["root_joint/qw"] == 1.0
    assert result["joints"][0]["q"] is None and result["joints"][0]["limit"] is None


def test_torque_asks_for_degrees_if_these_are_within_limits(capsys):
    arguments = ["torque", ARM7, "--q", "elbow_pitch=90", "wrist_pitch=300"]
    lines = output(capsys, *arguments, "--json").err.splitlines()
    assert lines[0].endswith("; did you mean 90 degrees = 1.571 rad?")
    assert lines[1].startswith('warning: q of "wrist_pitch" is 300') and "degrees" not in lines[1]


def test_torque_warns_of_values_outside_of_limits(capsys, pair):
    lines = [
        'q of "j" is -1.5, outside its limits -1 to 1',
        'q of "k" is -2.75, outside its limits 0 to 1',
        'v of "j" is -2.5, above its limit 2',
        'v of "k" is -5, above its limit 2',
    ]
    arguments = ["torque", pair, "--q", "-1.5", "--v", "-2.5"]
    shown = output(capsys, *arguments).out
    for form in ("--json", "--csv"):
        result = output(capsys, *arguments, form)
        assert result.err.splitlines()[:4] == ["warning: " + line for line in lines]
        assert "warning" not in result.out
    assert all("warning: " + line in shown for line in lines)
    inside = output(capsys, "torque", pair, "--q", "0.25", "--json")
    torque = json.loads(inside.out)["joints"][0]["torque"]
    assert abs(torque) > 3.0
    assert inside.err == f'warning: torque of "j" is {torque:.6g}, above its limit 3\n'
    assert "warning" not in output(capsys, "torque", ARM7).out


@pytest.mark.parametrize("form", ["--json", "--csv"])
def test_warnings_of_a_description_go_to_stderr(capsys, tmp_path, form):
    urdf = tmp_path / "nameless.urdf"
    urdf.write_text(PAIR.replace(' name="pair"', "", 1))
    result = output(capsys, "info", urdf, form)
    assert result.err == "warning: <robot> has no name: assumed to be robot\n"
    assert "warning" not in result.out
    assert "warning: <robot> has no name" in output(capsys, "info", urdf).out
    assert "<robot> has no name" in output(capsys, "check", urdf, code=1).out


@pytest.mark.parametrize("command", ["info", "torque", "check"])
def test_formats_exclude_each_other(capsys, command):
    with pytest.raises(SystemExit) as ended:
        cli.main([command, str(ARM7), "--json", "--csv"])
    assert ended.value.code == 2 and "--json" in capsys.readouterr().err


def test_version(capsys):
    with pytest.raises(SystemExit) as ended:
        cli.main(["--version"])
    assert ended.value.code == 0
    assert capsys.readouterr().out == f"dyn_ros {dyn_ros.__version__}\n"


def test_help_lists_the_exit_codes(capsys):
    with pytest.raises(SystemExit):
        cli.main(["--help"])
    assert "2: the input is invalid" in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_knows_commands_options_and_files(capsys, shell):
    pytest.importorskip("shtab", reason="no shtab: pip install shtab")
    script = output(capsys, "completion", shell).out
    for word in (
        "torque",
        "identify",
        "payload",
        "load-frame",
        "root-joint",
        "floating",
        "mesh-path",
    ):
        assert word in script
    if shutil.which(shell):
        done = subprocess.run([shell, "-n"], input=script, text=True, capture_output=True)
        assert (done.returncode, done.stderr) == (0, "")


def completed(script, words, folder):
    """What bash proposes for the last of some words."""
    ask = (
        f'{script}\nCOMP_WORDS=({" ".join(words)} ""); COMP_CWORD={len(words)}\n'
        'COMP_LINE="${COMP_WORDS[*]}"; COMP_POINT=${#COMP_LINE}\n'
        '$(complete -p dyn_ros | grep -o "[-]F [^ ]*" | cut -c4-) dyn_ros "" ""\n'
        'printf "%s\\n" "${COMPREPLY[@]}"'
    )
    done = subprocess.run(["bash", "-c", ask], capture_output=True, text=True, cwd=folder)
    return done.stdout.split()


def test_completion_in_bash(capsys, tmp_path):
    pytest.importorskip("shtab", reason="no shtab: pip install shtab")
    script = output(capsys, "completion", "bash").out
    (tmp_path / "robot.urdf").touch()
    assert {"info", "torque", "view"} <= set(completed(script, ["dyn_ros"], tmp_path))
    assert "robot.urdf" in completed(script, ["dyn_ros", "info"], tmp_path)
    assert set(completed(script, ["dyn_ros", "info", "--root-joint"], tmp_path)) == {
        "fixed",
        "floating",
        "planar",
    }


def test_completion_without_shtab_says_what_to_install(capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "shtab", None)
    assert 'pip install "dyn_ros[completion]"' in output(capsys, "completion", "bash", code=2).err


# --- where a description comes from


def test_standard_input_is_a_description():
    for source in (subprocess.PIPE, ARM7.open()):
        done = subprocess.run(
            [sys.executable, "-m", "dyn_ros", "info", "-", "--csv"],
            capture_output=True,
            text=True,
            timeout=60,
            **(dict(input=ARM7.read_text()) if source == subprocess.PIPE else dict(stdin=source)),
        )
        assert done.returncode == 0, done.stderr
        assert len(done.stdout.splitlines()) == 8
    done = subprocess.run(
        [sys.executable, "-m", "dyn_ros", "check", "-"],
        text=True,
        input=BROKEN,
        capture_output=True,
        timeout=60,
    )
    assert done.returncode == 2 and done.stderr.startswith("dyn_ros check: standard input: ")


def test_a_terminal_is_no_description(capsys, monkeypatch):
    monkeypatch.setattr(sys, "stdin", type("Terminal", (), {"isatty": lambda self: True})())
    assert "is a terminal; pipe a description" in output(capsys, "info", "-", code=2).err


XACRO = """<?xml version="1.0"?>
<robot xmlns:xacro="http://www.ros.org/wiki/xacro" name="made">
<xacro:arg name="mass" default="2"/><xacro:include filename="arm.xacro"/>
<link name="base"/><xacro:arm mass="$(arg mass)"/></robot>"""
MACRO = """<robot xmlns:xacro="http://www.ros.org/wiki/xacro">
<xacro:macro name="arm" params="mass"><link name="arm"><inertial><mass value="${mass}"/>
<origin xyz="0.1 0 0"/><inertia ixx="0.1" iyy="0.2" izz="0.2" ixy="0" ixz="0" iyz="0"/>
</inertial></link><joint name="j" type="continuous">
<parent link="base"/><child link="arm"/><axis xyz="0 1 0"/></joint></xacro:macro></robot>"""


FOLLOWER = """<robot name="pair"><link name="base"/><link name="a"><inertial><mass value="1"/>
<inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial></link>
<joint name="j" type="continuous"><parent link="base"/><child link="a"/><mimic/>
<dynamics damping="1"/></joint></robot>"""


@pytest.fixture
def made(tmp_path):
    """A xacro file that includes another one."""
    pytest.importorskip("xacro", reason="no xacro: pip install xacro")
    (tmp_path / "arm.xacro").write_text(MACRO)
    file = tmp_path / "robot.urdf.xacro"
    file.write_text(XACRO)
    return file


@pytest.mark.parametrize("arguments, mass", [([], 2.0), (["mass:=5.5"], 5.5)])
def test_xacro_is_expanded_with_its_arguments(capsys, made, arguments, mass):
    robot = json.loads(output(capsys, "info", made, *arguments, "--json").out)
    assert robot["robot"] == "made" and robot["joints"][0]["mass"] == mass
    result = json.loads(output(capsys, "torque", made, *arguments, "--json").out)
    assert result["joints"][0]["gravity"] == pytest.approx(-0.981 * mass)


@pytest.mark.parametrize("kind", ["pipe", "device", "large", "loop", "folder"])
@pytest.mark.parametrize("loads_yaml", [False, True])
def test_xacro_includes_regular_files_only(capsys, made, tmp_path, kind, loads_yaml):
    made.with_name("arm.xacro").unlink()
    made.with_name("arm.xacro").symlink_to(make_path(kind, tmp_path))
    if loads_yaml:
        made.write_text(
            '<robot xmlns:xacro="http://www.ros.org/wiki/xacro" name="made">'
            "<link name=\"${xacro.load_yaml('arm.xacro')}\"/></robot>"
        )
    error = output(capsys, "info", made, code=2).err
    assert error.startswith(f"dyn_ros info: {made}: xacro: ")


def test_a_file_name_of_the_greatest_length(capsys, tmp_path):
    """There is no room for the suffix of its drives."""
    path = tmp_path / ("r" * 250 + ".urdf")
    path.write_text(FOLLOWER.replace("<mimic/>", ""))
    output(capsys, "torque", path)
    name = "r" * 300 + "_description"
    assert "there is no such file" in output(capsys, "info", name, code=2).err


def test_xacro_from_standard_input_includes_from_the_current_folder(made):
    done = subprocess.run(
        [sys.executable, "-m", "dyn_ros", "info", "-", "--json", "mass:=7"],
        input=XACRO,
        capture_output=True,
        text=True,
        timeout=60,
        cwd=made.parent,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert json.loads(done.stdout)["joints"][0]["mass"] == 7.0, done.stderr


@pytest.mark.parametrize(
    "old, new, words",
    [
        ('<xacro:arg name="mass" default="2"/>', "", ["argument mass", "pass mass:=VALUE"]),
        ("arm.xacro", "leg.xacro", ["No such file", "leg.xacro"]),
        ("<xacro:arm ", "<xacro:leg ", ["unknown macro", "xacro:leg"]),
        ("</robot>", "", ["no element found"]),
        ('xmlns:xacro="http://www.ros.org/wiki/xacro"', "", ["unbound", "declare the prefix"]),
        ('name="base"', 'name="${1 +}"', ["1 +"]),
        ('<link name="base"/>', '<link name="$(find no_such_package)"/>', ["ROS workspace"]),
    ],
)
def test_what_is_wrong_with_xacro_is_named(capsys, made, monkeypatch, old, new, words):
    monkeypatch.delenv("AMENT_PREFIX_PATH", raising=False)
    made.write_text(XACRO.replace(old, new))
    error = output(capsys, "info", made, code=2).err
    assert error.startswith(f"dyn_ros info: {made}: xacro: ") and len(error.splitlines()) == 1
    assert all(word in error for word in words)


def test_lines_are_those_that_the_xacro_command_prints(capsys, made):
    made.with_name("arm.xacro").write_text(MACRO.replace('izz="0.2"', ""))
    error = output(capsys, "info", made, code=2).err
    place = re.search(r"\(line (\d+) of the URDF that xacro wrote from (.*)\)$", error)
    assert place and place[2] == str(made)
    printed = subprocess.run(
        [sys.executable, "-c", "import xacro; xacro.main()", made],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert printed.splitlines()[int(place[1]) - 1].strip().startswith("<inertia ")


def test_a_file_that_only_defines_macros_is_named(capsys, made):
    error = output(capsys, "info", made.with_name("arm.xacro"), code=2).err
    assert "arm.xacro: defines the macro arm, but does not call it; use the file that" in error


def test_leftovers_of_xacro_in_a_urdf_are_named(capsys, tmp_path):
    urdf = tmp_path / "robot.urdf"
    urdf.write_text(
        "<robot name='r'><!-- <xacro:arm/> --><link name='a'><inertial>"
        "<mass value='${mass}'/></inertial></link></robot>"
    )
    error = output(capsys, "info", urdf, code=2).err
    assert "'${mass}', an expression of xacro; expand it" in error and "ends in .xacro" in error
    urdf.write_text(urdf.read_text().replace("${mass}", "1"))
    assert "1 kg fixed" in output(capsys, "info", urdf).out


@pytest.mark.parametrize(
    "command, xml",
    [
        ("info", FOLLOWER.replace("<mimic/>", '<mimic joint="nobody"/>')),
        ("check", FOLLOWER.replace("<mimic/>", '<mimic joint="nobody"/>')),
        ("info", FOLLOWER.replace("<mimic/>", "").replace('"continuous"', '"planar"')),
        ("info", "no XML"),
        ("info", "<mujoco/>"),
    ],
)
def test_commands_advise_no_python(capsys, tmp_path, command, xml):
    urdf = tmp_path / "robot.urdf"
    urdf.write_text(xml)
    cli.main([command, str(urdf)])
    text = " ".join("".join(capsys.readouterr()).split())
    assert any(
        word in text for word in ("correct or remove", "is ignored", "expected URDF", "expected <r")
    )
    assert not any(word in text for word in ("mimic=", "model.", "Model.", "strict="))


@pytest.mark.parametrize(
    "text, expected",
    [
        ("late; compute them with velocity=False", "late; compute them with --no-velocity"),
        (
            "no time; specify other names with columns=",
            "no time; specify other names with --columns",
        ),
        ("a; pass base=, its pose, or pass root_joint=None", "a; pass --root-joint fixed"),
        ("both report it; pass topics= with", "both report it; pass --topic with"),
        ("rejected because of strict=True: a", "rejected because of --strict: a"),
        (
            'a; lock it, or read it with mimic="ignore"',
            "a; lock it, or read it with --mimic ignore",
        ),
        ("a; use Model.from_urdf_file to read a file; b", "a; b"),
    ],
)
def test_arguments_of_functions_become_options(text, expected):
    options = ("velocity", "columns", "root_joint", "topic", "strict", "mimic")
    assert name_options(argparse.Namespace(**dict.fromkeys(options)), text) == expected


@pytest.mark.parametrize(
    "arguments, absent",
    [
        (["view", "table.csv", "--robot", ARM7], ("--columns", "--lock", "columns=", "lock=")),
        (["view", "short.csv", "--robot", ARM7], ("--columns", "--lock", "columns=", "lock=")),
        (["log", "short.csv", "--robot", ARM7], ("columns=", "lock=")),
        (["identify", ARM7, "short.csv"], ("columns=", "lock=")),
        (["payload", ARM7, "short.csv", "--load-frame", "tool"], ("columns=", "lock=")),
        (["calibrate", ARM7, "short.csv", "-o", "a.yaml"], ("columns=", "lock=")),
    ],
)
def test_commands_advise_only_their_options(
    capfd, monkeypatch, recwarn, tmp_path, arguments, absent
):
    monkeypatch.chdir(tmp_path)
    Path("table.csv").write_text("a,b\n1,2\n3,4\n")
    Path("short.csv").write_text("time,position.nobody\n" + "".join(f"{k},0\n" for k in range(9)))
    assert cli.main([str(argument) for argument in arguments]) in (1, 2)
    text = " ".join("".join(capfd.readouterr()).split())
    assert text and not any(advice in text for advice in absent)


@pytest.mark.parametrize(
    "command",
    [
        ["view", "FILE", "--robot", ARM7],
        ["log", "FILE", "--robot", ARM7],
        ["identify", ARM7, "FILE"],
        ["identify", ARM7, "FILE", "--workers", "1"],
        ["payload", ARM7, "FILE", "--load-frame", "tool"],
        ["calibrate", ARM7, "FILE", "-o", "a.yaml"],
    ],
    ids=lambda command: "-".join(map(str, command[:1] + command[3:4])),
)
@pytest.mark.parametrize("name", ["empty.mcap", "empty.csv", "numbers.csv", "other.mcap"])
def test_commands_name_a_file_once(capfd, monkeypatch, tmp_path, command, name):
    monkeypatch.chdir(tmp_path)
    contents = {"numbers.csv": b"1,2\n3,4\n", "other.mcap": b"no recording"}
    Path(name).write_bytes(contents.get(name, b""))
    assert cli.main([name if each == "FILE" else str(each) for each in command]) in (1, 2)
    text = " ".join(capfd.readouterr().err.split())
    assert text.count(name) == 1, text
    assert ("empty" in text.replace(name, "")) == (name not in contents), text


@pytest.mark.parametrize(
    "package, command",
    [
        ("pyarrow", ["view", "a.parquet", "--robot", ARM7]),
        ("pyarrow", ["view", "a.csv", "--robot", ARM7]),
        ("pyarrow", ["identify", ARM7, "a.parquet"]),
        ("pyarrow", ["identify", ARM7, "b.csv", "--validate", "a.parquet"]),
        ("pyarrow", ["payload", ARM7, "a.parquet", "--load-frame", "tool"]),
        ("pyarrow", ["log", "a.mcap", "--robot", ARM7]),
        ("zstandard", ["view", "a.mcap.zstd", "--robot", ARM7]),
        ("zstandard", ["log", "a.mcap.zstd", "--robot", ARM7]),
        ("mcap.writer", ["log", "a.mcap", "--robot", ARM7, "--out", "out", "--format", "mcap"]),
        ("matplotlib.figure", ["log", "a.mcap", "--robot", ARM7, "--plot", "a.png"]),
        ("plotly", ["log", "a.mcap", "--robot", ARM7, "--plot", "a.html"]),
        ("plotly", ["identify", ARM7, "b.csv", "--report", "a.html"]),
        ("jinja2", ["identify", ARM7, "b.csv", "--report", "a.html"]),
        ("plotly", ["check", ARM7, "--picture", "a.html"]),
    ],
    ids=lambda value: value if isinstance(value, str) else "-".join(map(str, value[:1])),
)
def test_a_missing_package_is_named_before_anything_is_read(
    capfd, monkeypatch, tmp_path, package, command
):
    monkeypatch.chdir(tmp_path)
    for name in ("a.parquet", "a.csv", "b.csv", "a.mcap", "a.mcap.zstd"):
        Path(name).write_bytes(b"")
    monkeypatch.setitem(sys.modules, package, None)
    assert cli.main([str(argument) for argument in command]) == 2
    [line] = capfd.readouterr().err.splitlines()
    assert package.partition(".")[0] in line.lower() and 'pip install "dyn_ros[' in line


OPTION = re.compile(r"(?<![\w`-])--[a-z][a-z-]+")
MADE_BY_COMMAND = re.compile(
    r"\b(dyn_ros|ros2|rostopic|pip|dask)\b[^;]*? \[?--|^--|-Wl|@font-face|var\("
)
ADVICE = re.compile(r"\b(?:pass|with|use|set|in|to) (\w+=)(?![\w\"'{])")


def messages(file):
    """Yield the texts in a file of the package that are not docstrings, and their lines."""
    tree = ast.parse(file.read_text())
    docstrings, parts = set(), set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr):
            docstrings.add(node.value)
        if isinstance(node, ast.JoinedStr):
            parts.update(node.values)
    for node in ast.walk(tree):
        if node in docstrings or node in parts:
            continue
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.lineno, node.value
        if isinstance(node, ast.JoinedStr):
            values = (
                part.value if isinstance(part, ast.Constant) else "{}" for part in node.values
            )
            yield node.lineno, "".join(map(str, values))


def test_messages_name_arguments_and_no_options():
    """The command and the nodes replace arguments by their options and parameters."""
    package = Path(dyn_ros.__file__).parent
    for file in sorted(package.rglob("*.py")):
        if file.relative_to(package).parts[0] in ("command", "export"):
            continue
        for line, text in messages(file):
            if OPTION.search(text):
                assert MADE_BY_COMMAND.search(text), f"{file}:{line}: {text}"
            for argument in ADVICE.findall(text):
                assert "x" in name_arguments(f"a; {argument}", lambda name, value: "x"), text


def test_excite_names_an_unknown_joint_to_lock(capsys, tmp_path):
    arguments = "excite", ARM7, "-o", tmp_path / "motion.yaml", "--lock", "nobody=0"
    error = output(capsys, *arguments, code=2).err
    assert "lock: joint 'nobody' is unknown; available: shoulder_yaw" in error


@pytest.fixture
def descriptions(monkeypatch, made):
    """A package like robot_descriptions, with a URDF, a xacro file and a MuJoCo model."""
    package = ModuleType("robot_descriptions")
    package.__path__ = []
    monkeypatch.setitem(sys.modules, "robot_descriptions", package)
    for name, attributes in (
        ("arm", {"URDF_PATH": str(ARM7)}),
        ("made", {"XACRO_PATH": str(made), "XACRO_ARGS": {"mass": "6"}}),
        ("mujoco", {"MJCF_PATH": "arm.xml"}),
    ):
        module = ModuleType(f"robot_descriptions.{name}_description")
        vars(module).update(attributes)
        monkeypatch.setitem(sys.modules, module.__name__, module)


def test_robots_of_robot_descriptions(capsys, descriptions):
    assert json.loads(output(capsys, "info", "arm_description", "--json").out)["robot"] == "arm7"
    made = json.loads(output(capsys, "info", "made_description", "--json").out)
    assert made["joints"][0]["mass"] == 6.0
    made = json.loads(output(capsys, "info", "made_description", "mass:=7", "--json").out)
    assert made["joints"][0]["mass"] == 7.0
    for name, words in (("mujoco", "has no URDF of it"), ("leg", "no such description in")):
        error = output(capsys, "torque", f"{name}_description", code=2).err
        assert error.startswith(f"dyn_ros torque: {name}_description: ") and words in error


def test_without_robot_descriptions_it_says_what_to_install(capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "robot_descriptions", None)
    error = output(capsys, "view", "panda_description", code=2).err
    assert error.endswith("if it is the name of a description: pip install robot_descriptions\n")


def test_xacro_arguments_are_for_xacro_files(capsys):
    error = output(capsys, "info", ARM7, "mass:=3", code=2).err
    assert error == (
        f"dyn_ros info: mass:=3: {ARM7} is not a xacro file, and takes no arguments; leave it out\n"
    )
    with pytest.raises(SystemExit):
        cli.main(["precompile", "rnea", "mass:=3"])
    assert "no robot is specified" in capsys.readouterr().err


def test_without_xacro_it_says_what_to_install(capsys, made, monkeypatch):
    monkeypatch.setitem(sys.modules, "xacro", None)
    error = output(capsys, "check", made, code=2).err
    assert error.startswith(f"dyn_ros check: {made}: ") and 'pip install "dyn_ros[xacro]"' in error


@pytest.mark.parametrize("is_plain", [False, True])
def test_identified_parameters_are_written_into_what_a_file_expands_to(made, is_plain):
    plain = made.with_name("plain.urdf")
    arm = MACRO[MACRO.index("<link") : MACRO.index("</xacro")].replace("${mass}", "4")
    plain.write_text(f"<!-- kept --><robot name='made'><link name='base'/>{arm}</robot>")
    heavier = dyn_ros.Model.from_urdf(plain.read_text().replace('value="4"', 'value="5.5"'))
    options = argparse.Namespace(
        robot=plain if is_plain else made,
        output=made.with_name("new.urdf"),
        report=None,
        xacro={} if is_plain else {"mass": "4"},
    )
    _write_results(
        options,
        heavier,
        SimpleNamespace(
            identified=heavier,
            write_urdf=lambda *paths: Identification.write_urdf(
                SimpleNamespace(identified=heavier), *paths
            ),
        ),
        (),
    )
    assert dyn_ros.Model.from_urdf_file(options.output).total_mass == 5.5
    assert ("<!-- kept -->" in options.output.read_text()) == is_plain


def test_demo_of_a_xacro_file_runs_what_it_expands_to(monkeypatch, made):
    calls = []

    def run(urdf, *arguments, mesh_folders):
        calls.append((urdf.read_text(), mesh_folders))

    monkeypatch.setattr("dyn_ros.demo.run.run_demo", run)
    assert cli.main(["demo", "--robot", str(made), "mass:=4"]) == 0
    [(text, folders)] = calls
    assert dyn_ros.Model.from_urdf(text).total_mass == 4.0
    assert folders[0] == made.parent


@pytest.mark.parametrize("command", ["info", "torque", "check"])
def test_a_robot_that_cannot_be_read_ends_in_one_line(capsys, tmp_path, command):
    error = output(capsys, command, tmp_path / "nowhere.urdf", code=2).err
    assert error == f"dyn_ros {command}: {tmp_path / 'nowhere.urdf'}: No such file or directory\n"
    urdf = tmp_path / "broken.urdf"
    urdf.write_text(BROKEN)
    error = output(capsys, command, urdf, code=2).err
    assert error.startswith(f"dyn_ros {command}: {urdf}: ") and len(error.splitlines()) == 1
