# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""SIGINT and SIGTERM end a node with exit code 0 at any moment, without a traceback."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

STARTS = 50
BENCHMARK = Path(__file__).parents[3] / "benchmarks" / "signals.py"
SEND_BOTH = "import os, signal\nfor number in (signal.SIGINT, signal.SIGTERM):\n    {}\n"
SEND = SEND_BOTH.format("os.kill(os.getpid(), number)")
SEND_AT_EXIT = "import atexit\n" + SEND_BOTH.format("atexit.register(os.kill, os.getpid(), number)")


@pytest.fixture(scope="module")
def signals():
    """The module `benchmarks/signals.py`."""
    spec = importlib.util.spec_from_file_location("benchmark_of_signals", BENCHMARK)
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run_with(signals, folder, *command):
    """Run a node that imports modules of a folder first; return its exit code and output."""
    environment = signals.environment()
    path = [str(folder), *filter(None, [environment.get("PYTHONPATH")])]
    result = subprocess.run(
        command,
        env={**environment, "PYTHONPATH": os.pathsep.join(path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=60,
    )
    return result.returncode, result.stdout


def test_nodes_end_cleanly_at_random_moments(signals):
    stops = list(signals.stop_nodes(signals.NODES, range(STARTS), 3))
    assert len(stops) == STARTS
    assert [str(stop) for stop in stops if not stop.is_clean] == []


@pytest.mark.parametrize("node", ["dynamics_node", "viewer_node"])
def test_while_python_starts(signals, node, tmp_path):
    (tmp_path / "sitecustomize.py").write_text(SEND)
    assert run_with(signals, tmp_path, signals.find_executable(node)) == (0, "")


@pytest.mark.parametrize("module", ["numpy", "rclpy", "viser"])
@pytest.mark.parametrize("form", ["executable", "script", "module"])
def test_while_python_imports(signals, form, module, tmp_path):
    (tmp_path / f"{module}.py").write_text(SEND)
    path = signals.find_executable("viewer_node")
    command = {
        "executable": [path],
        "script": [sys.executable, path],
        "module": [sys.executable, "-m", "dyn_ros.nodes.viewer_node"],
    }
    assert run_with(signals, tmp_path, *command[form]) == (0, "")


def test_while_python_ends(signals, tmp_path):
    (tmp_path / "sitecustomize.py").write_text(SEND_AT_EXIT)
    code, output = run_with(signals, tmp_path, signals.find_executable("dynamics_node"), "--help")
    assert code == 0 and output.startswith("usage:"), output


def test_other_programs_are_not_affected():
    code = (
        "import signal, dyn_ros\n"
        "assert signal.getsignal(signal.SIGINT) is signal.default_int_handler\n"
        "assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
