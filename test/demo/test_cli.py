"""The dyn_ros command: arguments, errors in one line, exit codes."""
import subprocess
import sys

import pytest

from dyn_ros import cli
from dyn_ros.spatial.compiler import cache_folder

BROKEN = "<robot name='broken'><link name='a'/><link name='b'/></robot>"


@pytest.fixture
def ran(monkeypatch):
    """What the demo would be run with."""
    calls = []
    monkeypatch.setattr("dyn_ros.demo.run.run", lambda *arguments: calls.append(arguments))
    return calls


def test_demo_has_defaults(ran):
    assert cli.main(["demo"]) == 0
    (urdf, root_joint, rate, duration, snapshot), = ran
    assert urdf.name == "arm7.urdf" and urdf.is_file()
    assert (root_joint, rate, duration, snapshot) == ("fixed", 500.0, None, None)


def test_demo_takes_its_options(ran, tmp_path):
    robot, picture = tmp_path / "own.urdf", tmp_path / "picture.svg"
    assert cli.main(["demo", "--robot", str(robot), "--root-joint", "floating", "--rate", "50",
                     "--duration", "2.5", "--snapshot", str(picture)]) == 0
    assert ran == [(robot, "floating", 50.0, 2.5, picture)]


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
def test_demo_refuses_values(ran, capsys, option, value):
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
    assert "all compiled already" in output
    assert str(cache_folder()) in output.replace("\n", "")


def test_precompile_refuses_an_unknown_algorithm(capsys):
    assert cli.main(["precompile", "gravitation"]) == 2
    line, = capsys.readouterr().err.splitlines()
    assert "gravitation" in line and "rnea" in line


def test_a_command_is_needed(capsys):
    with pytest.raises(SystemExit) as ended:
        cli.main([])
    assert ended.value.code == 2
    assert "{demo,precompile}" in capsys.readouterr().err
