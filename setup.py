# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Builds the package for pip and uv; setup.cfg describes it.

A wheel carries the extension and the library of machine code, for the processors that
``DYN_ROS_BUILD`` names: ``all`` of this architecture, which is the default, ``host``, the one that
builds it, or ``none``, without a library. An editable installation has none, and builds the
extension when it is first imported.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from setuptools import Distribution, setup
from setuptools.command.build_py import build_py

ROOT = Path(__file__).resolve().parent
BUILD = os.environ.get("DYN_ROS_BUILD", "all")
if BUILD not in ("all", "host", "none"):
    sys.exit(f"DYN_ROS_BUILD: expected all, host or none, got {BUILD!r}")


class BuildMachineCode(build_py):
    """Copies the modules, and builds the extension and the library beside them."""

    def run(self):
        super().run()
        if self.editable_mode:
            return
        subprocess.run(
            [
                sys.executable,
                "-m",
                "dyn_ros.command.build",
                "--what",
                BUILD,
                "--out",
                Path(self.build_lib).resolve() / "dyn_ros",
            ],
            check=True,
            env={
                **os.environ,
                "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path]),
                "DYN_ROS_LIBRARY": "none",
            },
            cwd=ROOT,
        )


class WithMachineCode(Distribution):
    """Makes the wheel one for this Python and architecture."""

    def has_ext_modules(self):
        return True


with tempfile.TemporaryDirectory() as folder:  # nothing of an earlier build is packed
    setup(
        cmdclass={"build_py": BuildMachineCode},
        distclass=WithMachineCode,
        options={"build": {"build_base": folder}, "egg_info": {"egg_base": folder}},
    )
