# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Builds msg/ and srv/ for pip and uv, with CMakeLists.txt and the ROS wheels (PEP 517).

The wheel contains what CMake installs beside the Python package ``dyn_ros``, which is a wheel of
its own: the generated modules, libraries and files in share/, the launch files, and the commands
of the nodes.
"""

import base64
import configparser
import hashlib
import os
import re
import subprocess
import sys
import sysconfig
import tempfile
import zipfile
from importlib.metadata import version
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
NAME = "dyn_ros_interfaces"
DISTRIBUTIONS = ("jazzy", "kilted")
SITE = Path(sysconfig.get_path("purelib", "posix_prefix", {"base": "."}))
SETUP = configparser.ConfigParser()
SETUP.read(ROOT / "setup.cfg", encoding="utf-8")
VERSION = SETUP["metadata"]["version"]
INFORMATION = f"{NAME}-{VERSION}.dist-info"
PYTHON = f"cp{sys.version_info.major}{sys.version_info.minor}"
TAG = f"{PYTHON}-{PYTHON}-{re.sub('[-.]', '_', sysconfig.get_platform())}"


def pins(distribution):
    """Return the pinned requirements of a build for a distribution."""
    lines = []
    for name in ("build", distribution):
        text = (ROOT / "requirements" / f"{name}.txt").read_text(encoding="utf-8")
        lines += re.findall(r"^[\w.-]+.*==.*$", text, re.MULTILINE)
    return lines


def get_requires_for_build_wheel(config_settings=None):
    """Return what a build needs for the distribution in the setting ``ros``; default: jazzy."""
    distribution = (config_settings or {}).get("ros", DISTRIBUTIONS[0])
    if distribution not in DISTRIBUTIONS:
        raise SystemExit(
            f"--config-settings=ros={distribution}: expected " + " or ".join(DISTRIBUTIONS)
        )
    return pins(distribution)


def installed_distribution():
    """Return the distribution whose wheels this environment has."""
    series = version("ros-std-msgs").rpartition(".")[0]
    for name in DISTRIBUTIONS:
        if any(line.startswith(f"ros-std-msgs=={series}.") for line in pins(name)):
            return name
    raise SystemExit(
        f"ros-std-msgs {series} is of no distribution that dyn_ros supports: "
        + ", ".join(DISTRIBUTIONS)
    )


def ros_prefix():
    """Return the prefix of the ROS wheels, such as a venv."""
    import rosidl_pycommon

    return next(
        folder
        for folder in Path(rosidl_pycommon.__file__).resolve().parents
        if (folder / "share" / "ament_index").is_dir()
    )


def cmake_install(build):
    """Build in an empty folder with CMake, and return the installation prefix."""
    prefix, ros = build / "prefix", str(ros_prefix())
    environment = {**os.environ, "AMENT_PREFIX_PATH": ros, "CMAKE_PREFIX_PATH": ros}
    for command in (
        [
            "cmake",
            "-G",
            "Ninja",
            "-S",
            ROOT,
            "-B",
            build,
            f"-DCMAKE_INSTALL_PREFIX={prefix}",
            f"-DPython3_EXECUTABLE={sys.executable}",
            f"-DPYTHON_INSTALL_DIR={SITE}",
            "-DCMAKE_BUILD_TYPE=Release",
            "-DBUILD_TESTING=OFF",
            "-DINTERFACES_ONLY=ON",
        ],
        ["cmake", "--build", build],
        ["cmake", "--install", build],
    ):
        subprocess.run(command, check=True, env=environment)
    return prefix


def contents(prefix):
    """Yield (name in the wheel, file) of everything that is installed."""
    generated = prefix / SITE / "dyn_ros"
    for path in sorted(generated.rglob("*")):
        own = path != generated / "__init__.py"  # that of the engine's wheel is not empty
        if path.is_file() and own and path.suffix not in (".c", ".pyc"):
            yield path.relative_to(prefix / SITE), path
    data = Path(f"{NAME}-{VERSION}.data", "data")
    for path in sorted(prefix.rglob("*")):
        place = path.relative_to(prefix)
        if path.is_file() and not place.is_relative_to(SITE) and place.parts[0] != "bin":
            yield data / place, path
    for folder in ("config", "launch"):
        for path in sorted((ROOT / folder).glob("*.*")):
            yield data / "share" / "dyn_ros" / folder / path.name, path


def metadata():
    """Yield (name, text) of the files that describe the wheel."""
    executables = SETUP["options.entry_points"]["ros2_run"]
    nodes = re.findall(r"^(\w+_node) = (.*)$", executables, re.MULTILINE)
    yield (
        "METADATA",
        (
            f"Metadata-Version: 2.1\nName: {NAME}\nVersion: {VERSION}\n"
            "Summary: Messages, services and nodes of dyn_ros for ROS 2\nLicense: Apache-2.0\n"
            f"Requires-Python: >=3.10\nRequires-Dist: dyn_ros[ros-{installed_distribution()}]"
            f" == {VERSION}\n"
        ),
    )
    yield "WHEEL", (f"Wheel-Version: 1.0\nGenerator: dyn_ros\nRoot-Is-Purelib: false\nTag: {TAG}\n")
    yield (
        "entry_points.txt",
        "[console_scripts]\n" + "".join(f"{name} = {function}\n" for name, function in nodes),
    )


def prepare_metadata_for_build_wheel(metadata_directory, config_settings=None):
    """Write what describes the wheel, without building it, and return the folder's name."""
    folder = Path(metadata_directory, INFORMATION)
    folder.mkdir()
    for file, text in metadata():
        (folder / file).write_text(text, encoding="utf-8")
    return folder.name


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    """Build the wheel in a folder, and return its file name."""
    name = f"{NAME}-{VERSION}-{TAG}.whl"
    record = []

    with (
        tempfile.TemporaryDirectory() as build,
        zipfile.ZipFile(Path(wheel_directory, name), "w", zipfile.ZIP_DEFLATED) as wheel,
    ):

        def add(place, data, mode):
            entry = zipfile.ZipInfo(str(place))
            entry.compress_type, entry.external_attr = zipfile.ZIP_DEFLATED, mode << 16
            wheel.writestr(entry, data)
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).decode().rstrip("=")
            record.append(f"{place},sha256={digest},{len(data)}\n")

        for place, path in contents(cmake_install(Path(build))):
            add(place, path.read_bytes(), path.stat().st_mode)
        for file, text in metadata():
            add(f"{INFORMATION}/{file}", text.encode(), 0o100644)
        record.append(f"{INFORMATION}/RECORD,,\n")
        wheel.writestr(f"{INFORMATION}/RECORD", "".join(record))
    return name


def build_sdist(sdist_directory, config_settings=None):
    """Refuse: the sources are those of the folder above."""
    raise SystemExit("The interfaces need a checkout of dyn_ros: pip install . ./interfaces")
