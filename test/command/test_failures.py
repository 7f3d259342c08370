# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Whatever stops the command, it prints one sentence and never a traceback."""

import os
import re
import resource
import subprocess
import sys
import tempfile

import pytest

from dyn_ros.command import failures
from dyn_ros.command import main as cli

ARM = "dyn_ros/robots/arm7.urdf"
COMMAND = [sys.executable, "-m", "dyn_ros"]
MEMORY = "dyn_ros: there is not enough memory; end other programs, or raise the limit (ulimit -v)\n"


def run(arguments, redirection="", **more):
    """Run the command in a shell; return its exit code and what it wrote to standard error."""
    line = f'"$@" {redirection}'
    result = subprocess.run(
        ["bash", "-c", line, "bash", *COMMAND, *arguments],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        timeout=120,
        **more,
    )
    return result.returncode, result.stderr


@pytest.mark.parametrize(
    "redirection, reason",
    [(">/dev/full", "No space left on device"), (">&-", "Bad file descriptor")],
)
@pytest.mark.parametrize(
    "arguments",
    [
        ["info", ARM],
        ["info", ARM, "--json"],
        ["torque", ARM],
        ["completion", "bash"],
        ["--help"],
        ["export", "--model", ARM, "--out", "/dev/null"],
    ],
)
def test_output_that_cannot_be_written(arguments, redirection, reason):
    exit_code, error = run(arguments, redirection)
    assert exit_code == 2
    assert re.fullmatch(rf"dyn_ros( {arguments[0]})?: standard output: {reason}\n", error)


def test_a_pipe_that_nobody_reads():
    exit_code, error = run(["info", ARM], "> >(exec >&- <&-)")
    assert exit_code in (0, 1)  # 0 if the pipe was closed after the last byte
    reader, writer = os.pipe()
    os.close(reader)
    result = subprocess.run(
        [*COMMAND, "info", ARM], stdout=writer, stderr=subprocess.PIPE, text=True, timeout=120
    )
    os.close(writer)
    assert (result.returncode, result.stderr) == (1, "")
    assert error == ""


@pytest.mark.parametrize("redirection", ["2>/dev/full", "2>&-", ">&- 2>&- <&-"])
@pytest.mark.parametrize("robot, code", [(ARM, 0), ("no.urdf", 2)])
def test_errors_that_cannot_be_written(robot, code, redirection):
    exit_code, _ = run(["info", robot], redirection)
    assert exit_code == (2 if ">&- 2" in redirection else code)


def test_files_do_not_get_the_number_of_a_closed_output(tmp_path):
    output = tmp_path / "motion.csv"
    exit_code, error = run(["excite", ARM, "--duration", "10", "-o", str(output)], ">&-")
    *progress, last = error.splitlines()  # a busy machine takes long enough for progress
    assert (exit_code, last) == (2, "dyn_ros: standard output: Bad file descriptor")
    assert all(line.startswith("searching: ") for line in progress)
    assert output.read_text().startswith("time,") and "wrote" not in output.read_text()


@pytest.mark.parametrize("kind", ["missing", "file", "folder", "pipe"])
def test_a_library_that_is_none(kind, tmp_path):
    path = tmp_path / "library"
    if kind == "file":
        path.write_text("")
    elif kind == "folder":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    exit_code, error = run(["info", ARM], env={**os.environ, "DYN_ROS_LIBRARY": str(path)})
    assert exit_code == 2 and error.count("\n") == 1
    assert error.startswith(f"dyn_ros: DYN_ROS_LIBRARY: {path} has no libdyn_ros.so")


@pytest.mark.parametrize(
    "variables",
    [
        {"HOME": None},
        {"TMPDIR": "/proc/none"},
        dict.fromkeys(("HOME", "TMPDIR", "XDG_CACHE_HOME", "DYN_ROS_CACHE_DIR"), "/proc/none"),
    ],
)
def test_folders_that_do_not_exist(variables):
    environment = {**os.environ, **variables}
    environment = {name: value for name, value in environment.items() if value is not None}
    assert run(["info", ARM], env=environment) == (0, "")


def test_too_little_memory_to_import():
    def limit_memory():
        resource.setrlimit(resource.RLIMIT_AS, (50_000_000, 50_000_000))

    assert run(["info", ARM], preexec_fn=limit_memory) == (2, MEMORY)


@pytest.mark.parametrize(
    "error, message",
    [
        (MemoryError(), "there is not enough memory"),
        (RuntimeError("can't start new thread"), "there is not enough memory"),
        (ImportError("libx.so: failed to map segment from shared object"), "not enough memory"),
        (OSError(28, "No space left on device", "a.csv"), "a.csv: No space left on device"),
        (ImportError("install\nthe package"), "install the package"),
    ],
)
def test_errors_that_are_expected(error, message):
    assert message in failures.describe_error(error)
    assert "\n" not in failures.describe_error(error)


def test_a_lack_of_memory_while_a_command_runs(monkeypatch, capsys):
    def run_out_of_memory(options):
        raise MemoryError

    monkeypatch.setattr(cli, "_run_info", run_out_of_memory)
    assert cli.main(["info", ARM]) == 2
    assert capsys.readouterr().err == MEMORY.replace("dyn_ros:", "dyn_ros info:")


def test_an_unexpected_error_is_kept_for_a_report(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    try:
        _ = 1 // 0
    except ZeroDivisionError as caught:
        error = caught
    text = failures.describe_error(error)
    (file,) = tmp_path.iterdir()
    assert text == (
        "unexpected ZeroDivisionError: integer division or modulo by zero; please report it, with "
        f"the file {file}"
    )
    assert "_ = 1 // 0" in file.read_text() and "Traceback" in file.read_text()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "none"))
    assert f", with its place, {__file__}:" in failures.describe_error(error)


def test_an_unexpected_error_of_the_process(tmp_path):
    code = (
        "import sys\nsys.argv[:] = ['dyn_ros', 'info', 'x']\nfrom dyn_ros.command import main\n"
        "main._run_arguments = lambda argv: 1 // 0\nsys.exit(main.main())"
    )
    result = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )
    (file,) = tmp_path.iterdir()
    assert result.returncode == 2 and result.stderr.count("\n") == 1
    assert result.stderr.startswith("dyn_ros: unexpected ZeroDivisionError: ")
    assert str(file) in result.stderr
