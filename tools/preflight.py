"""Name what this machine lacks to build dyn_ros, with the package that brings it.

Runs on any Python 3, with nothing installed: it is what `make` runs first.
"""
import importlib.util
import os
import platform
import shutil
import sys
import sysconfig

OLDEST, NEWEST = (3, 10), (3, 14)
ELSEWHERE = ("Elsewhere dyn_ros needs a ROS installation: put it into a colcon workspace and run"
             " `rosdep install` and `colcon build`.")


def unsupported():
    """Return why the ROS wheels do not serve here, or an empty string."""
    version = "{}.{}".format(*sys.version_info[:2])
    if not OLDEST <= sys.version_info[:2] <= NEWEST:
        return ("Python {} at {}: the ROS wheels are for Python 3.10 to 3.14. If another Python is"
                " installed, name it: `make demo PYTHON=python3.12`.".format(version, sys.executable))
    if platform.python_implementation() != "CPython":
        return "{}: the ROS wheels are for CPython.".format(platform.python_implementation())
    if (sys.platform, platform.machine()) != ("linux", "x86_64"):
        return "{} on {}: the ROS wheels are for Linux on x86_64. {}".format(
            sys.platform, platform.machine(), ELSEWHERE)
    if platform.libc_ver()[0] != "glibc":
        return "A C library other than glibc: the ROS wheels need glibc 2.28 or newer. " + ELSEWHERE
    return ""


def missing():
    """Return (what, Debian package) for everything absent."""
    python = "python3"
    if os.path.realpath("/usr/bin/python3") != os.path.realpath(sys.executable):
        python = "python{}.{}".format(*sys.version_info[:2])
    if not all(importlib.util.find_spec(name) for name in ("venv", "ensurepip")):
        yield "the venv module of " + sys.executable, python + "-venv"
    if not os.path.exists(os.path.join(sysconfig.get_path("include"), "Python.h")):
        yield "the headers of " + sys.executable + " (Python.h)", python + "-dev"
    if not shutil.which(os.environ.get("CXX") or "c++") or not shutil.which(
            os.environ.get("CC") or "cc"):
        yield "a C and C++ compiler", "g++"


def main():
    """Return what to tell the user, or None where nothing is missing."""
    reason = unsupported()
    if reason:
        return reason
    absent = list(missing())
    if absent:
        lines = ["Missing: " + what for what, _ in absent]
        packages = " ".join(package for _, package in absent)
        return "\n".join(lines + ["On Debian or Ubuntu: sudo apt install " + packages])


if __name__ == "__main__":
    sys.exit(main())
