# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Builds the package for pip and uv: packs what CMakeLists.txt installs.

colcon runs CMakeLists.txt itself; both ways end with the same tree below the prefix.
"""
import os
import shutil
import subprocess
import sys
import sysconfig
from importlib.metadata import version
from pathlib import Path

from setuptools import Distribution, setup
from setuptools.command.build_py import build_py

HERE = Path(__file__).resolve().parent
BUILD = HERE / "build" / f"pip-{sys.implementation.cache_tag}"
SITE = Path(sysconfig.get_path("purelib", "posix_prefix", {"base": "."}))
MESSAGES = ("diagnostic", "geometry", "nav", "sensor", "std", "trajectory", "visualization")


def ros_requirements():
    """Return the ROS wheels to run with, for the distribution that the interfaces are built for."""
    compatible = ".".join(version("ros-std-msgs").split(".")[:2])
    messages = [f"ros-{name}-msgs == {compatible}.*" for name in MESSAGES]
    rclpy = version("ros-rclpy").split(".")[0]
    return [f"ros-rclpy[fastrtps] == {rclpy}.*", f"ros-std-srvs == {compatible}.*", *messages]


def ros_prefix():
    """Return the prefix of the ROS wheels, such as a venv."""
    import rosidl_pycommon
    return next(folder for folder in Path(rosidl_pycommon.__file__).resolve().parents
                if (folder / "share" / "ament_index").is_dir())


def cmake_install():
    """Build from scratch with CMake and return the installation prefix."""
    shutil.rmtree(BUILD, ignore_errors=True)
    prefix = BUILD / "prefix"
    ros = str(ros_prefix())
    environment = {**os.environ, "AMENT_PREFIX_PATH": ros, "CMAKE_PREFIX_PATH": ros}
    for command in (
            ["cmake", "-G", "Ninja", "-S", HERE, "-B", BUILD, f"-DCMAKE_INSTALL_PREFIX={prefix}",
             f"-DPython3_EXECUTABLE={sys.executable}", f"-DPYTHON_INSTALL_DIR={SITE}",
             "-DCMAKE_BUILD_TYPE=Release", "-DBUILD_TESTING=OFF"],
            ["cmake", "--build", BUILD],
            ["cmake", "--install", BUILD]):
        subprocess.run(command, check=True, env=environment)
    return prefix


class InstalledByCMake(build_py):
    """Copies the Python package and all other files from CMake's installation."""

    def run(self):
        """Fill the build folder and list the data files."""
        if self.editable_mode:
            raise SystemExit("An editable install cannot contain the interfaces. `make setup`"
                             " creates a venv that runs the sources in place.")
        prefix = cmake_install()
        package = Path(self.build_lib) / "dyn_ros"
        shutil.rmtree(package, ignore_errors=True)
        shutil.copytree(prefix / SITE / "dyn_ros", package,
                        ignore=shutil.ignore_patterns("__pycache__", "*.c"))
        files = {}
        for path in sorted(prefix.rglob("*")):
            folder = path.relative_to(prefix).parent
            if folder == Path("bin"):           # pip creates the commands
                continue
            if path.is_file() and not folder.is_relative_to(SITE):
                files.setdefault(str(folder), []).append(str(path.relative_to(HERE)))
        self.distribution.data_files = list(files.items())


class BinaryDistribution(Distribution):
    """Marks the wheel as specific to a Python version and platform."""

    def has_ext_modules(self):
        """Return True: the interfaces are compiled."""
        return True


requirements = Distribution()
requirements.parse_config_files()
setup(distclass=BinaryDistribution, cmdclass={"build_py": InstalledByCMake},
      install_requires=[*requirements.install_requires, *ros_requirements()])
