# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Programs and robots for the tests of export."""

import shutil
import subprocess
import warnings

import pytest

import dyn_ros
import peer
from dyn_ros.export.functions import function_names

ROBOTS = {
    "panda": None,
    "talos_reduced": "floating",
    "solo12": "floating",
    "every_joint": None,
    "baxter": None,
}


def require_tools(*names):
    """Skip the test unless these programs are installed."""
    missing = [name for name in names if shutil.which(name) is None]
    if missing:
        pytest.skip(f"{', '.join(missing)}: not installed")


def run_program(command, **options):
    """Run a program, which must succeed; return what it prints."""
    process = subprocess.run(
        [str(word) for word in command], capture_output=True, text=True, **options
    )
    output = process.stdout[-2000:] + process.stderr[-4000:]
    assert process.returncode == 0, f"{command}: {process.returncode}\n{output}"
    return process.stdout


def robot(name):
    """Return a new model."""
    path = peer.EXAMPLE_ROBOTS / peer.FILES[name]  # paths of test/robots are absolute
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return dyn_ros.Model.from_urdf_file(path, root_joint=ROBOTS[name])


def read_errors(output, names=None):
    """Return the largest relative error of each function that a caller prints."""
    errors = dict(line.split() for line in output.splitlines())
    assert sorted(errors) == sorted(names or function_names())
    return {name: float(number) for name, number in errors.items()}


def require_web_tools(needs_npm=False):
    """Skip the test unless a module, or with npm a page, can be built."""
    from dyn_ros.export.web.module import find_tools
    from dyn_ros.export.web.page import install_packages

    try:
        find_tools()
        if needs_npm:
            require_tools("node", "npm")
            install_packages()
    except OSError as error:  # a tool is missing, or npm reaches no registry
        pytest.skip(str(error))
