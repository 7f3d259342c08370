# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""What the tests of export share: programs, and robots."""

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


def done(command, **options):
    """Run a program; it must succeed. Returns what it printed."""
    result = subprocess.run(
        [str(word) for word in command], capture_output=True, text=True, **options
    )
    output = result.stdout[-2000:] + result.stderr[-4000:]
    assert result.returncode == 0, f"{command}: {result.returncode}\n{output}"
    return result.stdout


def robot(name):
    """A new model."""
    path = peer.EXAMPLE_ROBOTS / peer.FILES[name]  # which is absolute for our own
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return dyn_ros.Model.from_urdf_file(path, root_joint=ROBOTS[name])


def differences(output, names=None):
    """The largest relative difference of each function that a caller printed."""
    found = dict(line.split() for line in output.splitlines())
    assert sorted(found) == sorted(names or function_names())
    return {name: float(number) for name, number in found.items()}
