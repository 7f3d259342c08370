# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Ctrl-C ends the command without a traceback, also before it has begun to work."""

import os
import signal
import subprocess
import sys

import pytest

from dyn_ros.command import ctrl_c
from dyn_ros.command import main as cli

INTERRUPTED = "import os, signal, time; os.kill(os.getpid(), signal.SIGINT); time.sleep(20)"
SCRIPT = "import sys\nfrom dyn_ros.command.main import main\nsys.exit(main())\n"


def run(*arguments, **more):
    return subprocess.run(
        [sys.executable, *map(str, arguments)], capture_output=True, text=True, timeout=120, **more
    )


@pytest.mark.parametrize("module", ["pkgutil", "numpy", "rich"])
@pytest.mark.parametrize("arguments", [["dyn_ros"], ["-m", "dyn_ros"]])
def test_while_python_imports(arguments, module, tmp_path):
    (tmp_path / "modules").mkdir()
    (tmp_path / "modules" / f"{module}.py").write_text(INTERRUPTED)
    (tmp_path / "dyn_ros").write_text(SCRIPT)
    words = arguments if "-m" in arguments else [tmp_path / "dyn_ros"]
    path = os.pathsep.join(
        filter(None, (str(tmp_path / "modules"), os.getcwd(), os.environ.get("PYTHONPATH")))
    )
    result = run(*words, "info", "dyn_ros/robots/arm7.urdf", env={**os.environ, "PYTHONPATH": path})
    assert (result.returncode, result.stdout, result.stderr) == (130, "", "")


def test_other_programs_are_interrupted_as_usual():
    result = run(
        "-c",
        "import signal, dyn_ros\n"
        "print(signal.getsignal(signal.SIGINT) is signal.default_int_handler)",
    )
    assert result.stdout == "True\n", result.stderr


def test_a_program_that_ignores_ctrl_c(tmp_path):
    """As a shell starts it in the background."""
    (tmp_path / "dyn_ros").write_text(
        "import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nimport dyn_ros.command.main\n"
        "dyn_ros.command.main.main(['info', 'dyn_ros/robots/arm7.urdf'])\n"
        "print(signal.getsignal(signal.SIGINT) is signal.SIG_IGN)"
    )
    result = run(
        tmp_path / "dyn_ros",
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join(
                filter(None, (os.getcwd(), os.environ.get("PYTHONPATH")))
            ),
        },
    )
    assert result.stdout.endswith("True\n"), result.stderr


def test_a_function_of_a_program_raises_as_usual(capsys):
    assert cli.main(["info", "dyn_ros/robots/arm7.urdf"]) == 0
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert not ctrl_c.is_dyn_ros_command()
