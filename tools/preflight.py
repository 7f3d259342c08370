# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Print what this machine lacks to build dyn_ros, with the Debian packages that provide it.

`make` runs it first: it requires Python 3.6 or newer and no other packages. With the argument
`engine`, it checks only what the engine requires, without ROS.
"""

import importlib.util
import os
import platform
import shutil
import sys
import sysconfig

MIN_PYTHON, MAX_PYTHON = (3, 10), (3, 14)
OTHER_PLATFORMS = (
    "On other platforms dyn_ros requires a ROS installation: add it to a colcon workspace"
    " and run `rosdep install` and `colcon build`."
)


def engine_fault():
    """Return why this Python does not run the engine, or an empty string."""
    if sys.version_info[:2] < MIN_PYTHON:
        return (
            f"{sys.executable} is Python {platform.python_version()}; dyn_ros requires Python"
            " 3.10 or newer. Specify another one: make view PYTHON=python3.12"
        )
    return ""


def wheels_fault():
    """Return why the ROS wheels do not work on this machine, or an empty string."""
    if not MIN_PYTHON <= sys.version_info[:2] <= MAX_PYTHON:
        return (
            f"{sys.executable} is Python {platform.python_version()}; the ROS wheels are for"
            " Python 3.10 to 3.14. Specify another one: make demo PYTHON=python3.12"
        )
    if platform.python_implementation() != "CPython":
        return f"{sys.executable} is not CPython, which the ROS wheels require."
    if (sys.platform, platform.machine()) != ("linux", "x86_64"):
        return (
            "The ROS wheels are for Linux on x86_64; this is"
            f" {sys.platform} on {platform.machine()}. {OTHER_PLATFORMS}"
        )
    if platform.libc_ver()[0] != "glibc":
        return (
            "The ROS wheels require glibc 2.28 or newer; this system has no glibc."
            f" {OTHER_PLATFORMS}"
        )
    return ""


def missing_items(engine=False):
    """Yield (item, Debian package) for each item that is missing to build all, or the engine."""
    python = "python3"
    if os.path.realpath("/usr/bin/python3") != os.path.realpath(sys.executable):
        python = "python{}.{}".format(*sys.version_info[:2])
    if not all(importlib.util.find_spec(name) for name in ("venv", "ensurepip")):
        yield f"the venv module of {sys.executable}", f"{python}-venv"
    if not os.path.exists(os.path.join(sysconfig.get_path("include"), "Python.h")):
        yield f"the headers of {sys.executable} (Python.h)", f"{python}-dev"
    if not shutil.which(os.environ.get("CC", "cc").split()[0]):
        yield "a C compiler", "gcc"
    if not engine and not shutil.which(os.environ.get("CXX", "c++").split()[0]):
        yield "a C++ compiler", "g++"


def main(engine=False):
    """Return the message for the user, or None if nothing is missing."""
    fault = engine_fault() if engine else wheels_fault()
    missing = list(missing_items(engine))
    if fault or not missing:
        return fault or None
    lines = [f"Missing: {item}" for item, _ in missing]
    packages = " ".join(package for _, package in missing)
    return "\n".join([*lines, f"On Debian or Ubuntu: sudo apt install {packages}"])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:] == ["engine"]))
