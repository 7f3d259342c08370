# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The package as it is built and installed: versions, executables, files, imports."""

import base64
import configparser
import csv
import hashlib
import importlib
import importlib.util
import os
import re
import runpy
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import xml.etree.ElementTree as ET
import zipfile
from importlib.metadata import version
from itertools import chain
from pathlib import Path

import pytest
import yaml

import dyn_ros
from dyn_ros.engine.machine_code import library
from dyn_ros.engine.machine_code.targets import best_target

ROOT = Path(__file__).resolve().parents[1]
SETUP = configparser.ConfigParser()
SETUP.read(ROOT / "setup.cfg")
VERSION = SETUP["metadata"]["version"]
EXTRAS = {name: lines.split("\n")[1:] for name, lines in SETUP["options.extras_require"].items()}
PACKAGE = ET.parse(ROOT / "package.xml").getroot()
EXECUTABLES = dict(
    line.split(" = ")
    for lines in SETUP["options.entry_points"].values()
    for line in lines.split("\n")[1:]
)
FILES = [
    str(path.relative_to(ROOT))
    for folder in ("config", "launch", "msg", "srv")
    for path in sorted((ROOT / folder).rglob("*"))
    if path.is_file() and path.suffix != ".pyc"
]


def pins(name):
    """The pinned requirements of a file, as {normalized name: line without its marker}."""
    text = (ROOT / "requirements" / f"{name}.txt").read_text()
    lines = re.findall(r"^[\w.-]+.*==.*$", text, re.MULTILINE)
    pairs = [line.split(";")[0].strip() for line in lines]
    return {re.split(r"[\[=]", pair)[0].replace("_", "-").lower(): pair for pair in pairs}


def find_ros():
    """Return the prefix of the installed package; skip the test without ROS."""
    pytest.importorskip("rclpy", reason="no ROS: run `make test`")
    pytest.importorskip("dyn_ros.msg", reason="the messages are not built: run `make test`")
    if "AMENT_PREFIX_PATH" not in os.environ:  # ROS from wheels
        return Path(sys.prefix)
    from ament_index_python.packages import get_package_prefix

    return Path(get_package_prefix("dyn_ros"))


def test_one_version():
    sections = re.findall(
        r"^(\S+)(?: \((.*)\))?\n-+$", (ROOT / "CHANGELOG.rst").read_text(), re.MULTILINE
    )
    released = [version for version, date in sections if date != "unreleased"]
    assert "unreleased" not in [date for _, date in sections[1:]]
    assert PACKAGE.findtext("version") == VERSION
    assert dyn_ros.__version__ == VERSION
    assert released[0] == VERSION
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert citation["version"] == VERSION
    assert citation["license"] == SETUP["metadata"]["license"]


def test_installed_version():
    find_ros()
    assert version("dyn_ros") == VERSION


@pytest.mark.parametrize("name", EXECUTABLES)
def test_executable_can_be_called(name):
    module, function = EXECUTABLES[name].split(":")
    if module.startswith("dyn_ros.nodes"):
        find_ros()
    assert callable(getattr(importlib.import_module(module), function))


def test_executables_are_installed():
    folder = find_ros() / "lib" / "dyn_ros"
    assert {path.name for path in folder.iterdir()} == set(EXECUTABLES)
    for name in EXECUTABLES:
        text = (folder / name).read_text()
        module, function = EXECUTABLES[name].split(":")
        assert f"from {module} import {function}\n" in text
        assert (folder / name).stat().st_mode & 0o111


@pytest.mark.parametrize("name", EXECUTABLES)
def test_ctrl_c_while_python_imports_ends_it_quietly(name, tmp_path):
    (tmp_path / "numpy.py").write_text("raise KeyboardInterrupt")
    path = os.pathsep.join(filter(None, (str(tmp_path), os.environ.get("PYTHONPATH"))))
    result = subprocess.run(
        [sys.executable, find_ros() / "lib" / "dyn_ros" / name],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "PYTHONPATH": path},
    )
    code = 0 if EXECUTABLES[name].startswith("dyn_ros.nodes") else 130
    assert (result.returncode, result.stdout, result.stderr) == (code, "", "")


def test_command_runs():
    prefix = find_ros()
    command = Path(sysconfig.get_path("scripts")) / "dyn_ros"
    if "AMENT_PREFIX_PATH" in os.environ:
        command = prefix / "bin" / "dyn_ros"
    result = subprocess.run([command, "--help"], capture_output=True, text=True, timeout=120)
    assert result.returncode == 0, result.stderr
    assert "precompile" in result.stdout


def test_setup_files_add_the_command_to_path():
    prefix = find_ros()
    assert (prefix / "bin" / "dyn_ros").stat().st_mode & 0o111
    rules = (prefix / "share" / "dyn_ros" / "environment" / "path.dsv").read_text()
    assert rules.splitlines() == ["prepend-non-duplicate-if-exists;PATH;bin"]


def test_ros2_launch_finds_each_launch_file_once():
    """It walks through share/dyn_ros as here, which leaves out linked folders."""
    found = [name for _, _, names in os.walk(find_ros() / "share" / "dyn_ros") for name in names]
    files = [path.name for path in (ROOT / "launch").glob("*.launch.*")]
    assert files
    assert {name: found.count(name) for name in files} == dict.fromkeys(files, 1)


@pytest.mark.parametrize("file", FILES)
def test_file_is_installed(file):
    installed = find_ros() / "share" / "dyn_ros" / file
    assert installed.read_bytes() == (ROOT / file).read_bytes()


@pytest.mark.parametrize("file", [file for file in FILES if file.endswith((".msg", ".srv"))])
def test_interface_can_be_imported(file):
    find_ros()
    folder, name = Path(file).parts
    interface = getattr(importlib.import_module(f"dyn_ros.{folder}"), Path(name).stem)
    (interface.Request if folder == "srv" else interface)()


def test_only_the_existing_interfaces_are_installed():
    folder = find_ros() / "share" / "dyn_ros"
    installed = {
        str(path.relative_to(folder))
        for suffix in ("msg", "srv")
        for path in folder.glob(f"{suffix}/*.{suffix}")
        if not re.search(r"_(Request|Response|Event)\.msg$", path.name)
    }
    assert installed == {file for file in FILES if file.endswith((".msg", ".srv"))}


def test_robots_are_part_of_the_package():
    folder = Path(dyn_ros.__file__).parent / "robots"
    assert (
        {path.name for path in folder.glob("*.urdf")}
        == {path.name for path in (ROOT / "dyn_ros" / "robots").glob("*.urdf")}
        != set()
    )


def test_import_needs_no_ros():
    code = (
        "import sys, dyn_ros\n"
        "ros = ('rclpy', 'ament_index_python', 'launch', 'rosidl_runtime_py')\n"
        "print([name for name in sys.modules if name.split('.')[0] in ros"
        " or name.split('.')[0].endswith('_msgs')])\n"
    )
    result = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=300,
        cwd=Path(dyn_ros.__file__).parents[1],
    )
    assert result.returncode == 0, result.stderr
    assert result.stdout == "[]\n"


# --- what pip installs


def built(folder, kind, source=ROOT):
    """The wheel or the sdist that pip would build of the engine."""
    code = f"import sys, setuptools.build_meta as b; print(b.build_{kind}(sys.argv[1]))"
    result = subprocess.run(
        [sys.executable, "-c", code, folder],
        capture_output=True,
        text=True,
        timeout=600,
        cwd=source,
        env={**os.environ, "DYN_ROS_BUILD": "host"},
    )
    assert result.returncode == 0, result.stderr
    return folder / result.stdout.splitlines()[-1]


@pytest.fixture(scope="module")
def engine(tmp_path_factory):
    """The wheel of the engine."""
    pytest.importorskip("setuptools.command.bdist_wheel", reason="no setuptools: run `make test`")
    pytest.importorskip("numba", reason="builds a library")
    with zipfile.ZipFile(built(tmp_path_factory.mktemp("wheel"), "wheel")) as wheel:
        yield wheel


def requirements(wheel):
    """What the wheel requires, as {normalized name: its extras}."""
    [name] = [name for name in wheel.namelist() if name.endswith(".dist-info/METADATA")]
    found = {}
    for line in re.findall(r"^Requires-Dist: (.*)$", wheel.read(name).decode(), re.MULTILINE):
        package = re.match(r"[\w.-]+", line)[0].replace("_", "-").lower()
        found.setdefault(package, []).extend(re.findall(r"extra == ['\"](.+?)['\"]", line) or [""])
    return found


def files(*folders):
    """The files of the repository in some folders, without what Python compiled."""
    return {
        str(path.relative_to(ROOT))
        for folder in folders
        for path in (ROOT / folder).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts and path.suffix != ".so"
    }


def test_the_engine_is_a_wheel_without_ros_and_numba(engine):
    tag = f"cp{sys.version_info[0]}{sys.version_info[1]}"
    assert Path(engine.filename).name.startswith(f"dyn_ros-{VERSION}-{tag}-{tag}-")
    assert {name for name, extras in requirements(engine).items() if "" in extras} == {
        "numpy",
        "pyyaml",
        "rich",
        "scipy",
        "urdf-parser-py",
    }
    assert requirements(engine)["numba"] == ["compiler"]


def machine_code():
    """The files of machine code in a wheel for the processor of this machine."""
    suffix = sysconfig.get_config_var("EXT_SUFFIX")
    return {
        f"dyn_ros/engine/machine_code/_native{suffix}",
        *(f"dyn_ros/library/{best_target()}/{name}" for name in (library.FILE, library.MANIFEST)),
    }


def test_the_engine_of_a_wheel_computes_without_numba(engine, tmp_path):
    """And loads nothing of LLVM."""
    engine.extractall(tmp_path)
    code = (
        "import sys, numpy as np\nsys.modules['numba'] = sys.modules['llvmlite'] = None\n"
        "import dyn_ros\n"
        "model = dyn_ros.Model.from_urdf_file(sys.argv[1])\ndata = dyn_ros.Data(model)\n"
        "q = np.full((20, model.nv), 0.3)\n"
        "tau = dyn_ros.rnea(model, data, q, 2.0 * q, 3.0 * q)\n"
        "ddq = dyn_ros.aba(model, data, q[0], 2.0 * q[0], tau[0])\n"
        "print(dyn_ros.__file__, abs(ddq - 3.0 * q[0]).max() < 1e-10)\n"
    )
    result = subprocess.run(
        [sys.executable, "-c", code, str(ROOT / "dyn_ros/robots/arm7.urdf")],
        capture_output=True,
        text=True,
        timeout=300,
        cwd=tmp_path,
        env={**os.environ, "DYN_ROS_CACHE_DIR": str(tmp_path / "cache")},
    )
    assert result.stdout == f"{tmp_path}/dyn_ros/__init__.py True\n", result.stderr
    assert not list((tmp_path / "cache").rglob("*-x86*"))


def test_the_wheel_contains_the_package_its_license_and_no_more(engine):
    information = f"dyn_ros-{VERSION}.dist-info/"
    described = (
        "METADATA",
        "RECORD",
        "WHEEL",
        "entry_points.txt",
        "licenses/LICENSE",
        "top_level.txt",
    )
    assert sorted(engine.namelist()) == sorted(
        [*files("dyn_ros"), *machine_code(), *(information + name for name in described)]
    )
    metadata = engine.read(information + "METADATA").decode()
    assert metadata.endswith("\n\n" + (ROOT / "README.md").read_text())
    for line in (
        f"Version: {VERSION}",
        "License-Expression: Apache-2.0",
        "License-File: LICENSE",
        "Summary: " + SETUP["metadata"]["description"],
        "Requires-Python: >=3.10",
        "Description-Content-Type: text/markdown",
    ):
        assert f"\n{line}\n" in metadata
    assert set(re.findall(r"^Provides-Extra: (.*)$", metadata, re.MULTILINE)) == set(EXTRAS)
    installed = configparser.ConfigParser()
    installed.read_string(engine.read(information + "entry_points.txt").decode())
    assert {name: dict(installed[name]) for name in installed.sections()} == {
        "console_scripts": {"dyn_ros": EXECUTABLES["dyn_ros"]},
        "ros2_run": {name: EXECUTABLES[name] for name in EXECUTABLES if name != "dyn_ros"},
    }


def test_an_sdist_contains_the_sources_of_the_wheel_and_of_the_interfaces(engine, tmp_path):
    with tarfile.open(built(tmp_path, "sdist")) as sdist:
        sdist.extractall(tmp_path, filter="data")
    folder = tmp_path / f"dyn_ros-{VERSION}"
    assert {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()} == {
        "CMakeLists.txt",
        "LICENSE",
        "MANIFEST.in",
        "PKG-INFO",
        "README.md",
        "package.xml",
        "pyproject.toml",
        "setup.cfg",
        "setup.py",
        *files("config", "dyn_ros", "interfaces", "launch", "msg", "requirements", "srv"),
    }
    with zipfile.ZipFile(built(tmp_path, "wheel", folder)) as wheel:
        assert sorted(wheel.namelist()) == sorted(engine.namelist())


def test_a_build_leaves_nothing_behind_that_the_next_one_would_pack(engine):
    assert not [*ROOT.glob("*.egg-info"), *ROOT.glob("build/lib*"), *ROOT.glob("build/bdist*")]


def test_the_top_of_the_repository():
    """Where a user of ROS looks for the parts of a package."""
    expected = "package.xml setup.py setup.cfg dyn_ros/ launch/ config/ msg/ srv/ test/"
    present = {path.name + "/" * path.is_dir() for path in ROOT.iterdir()}
    assert set(expected.split()) <= present


def test_building_the_engine_downloads_nothing_of_ros():
    (requires,) = re.findall(r"\nrequires = (.*)\n", (ROOT / "pyproject.toml").read_text())
    assert "setuptools >= 68" in requires and "ros" not in requires


def test_make_view_builds_with_what_it_installs():
    """The setuptools that a venv begins with may be too old."""
    recipe = (ROOT / "Makefile").read_text().partition("/.view-wheels: ")[2].partition("touch")[0]
    installed = [
        name for file in re.findall(r"requirements/(\w+)\.txt", recipe) for name in pins(file)
    ]
    assert "--no-build-isolation" in recipe and "setuptools" in installed


def test_extras():
    assert {
        "ros-jazzy",
        "ros-kilted",
        "viewer",
        "check",
        "logs",
        "identify",
        "cluster",
        "xacro",
        "mujoco",
        "completion",
        "torch",
        "jax",
        "docs",
        "test",
    } < set(EXTRAS)
    assert EXTRAS["identification"] == ["dyn_ros[identify]"]  # its former name


def test_messages_name_extras_that_exist():
    sources = "".join(path.read_text() for path in (ROOT / "dyn_ros").rglob("*.py"))
    named = {
        name for names in re.findall(r"dyn_ros\[([\w,-]+)\]", sources) for name in names.split(",")
    }
    assert {"viewer", "logs", "identify"} < named
    assert named < set(EXTRAS) - {"identification"}


@pytest.mark.parametrize("distribution", ["jazzy", "kilted"])
def test_extras_of_ros_agree_with_the_pinned_wheels(distribution):
    """The pins are the wheels that CI tests; the extra allows those compatible with them."""
    pinned = pins(distribution)
    for line in EXTRAS[f"ros-{distribution}"]:
        name, series = re.fullmatch(r"(.+) == ([\d.]+)\.\*", line).groups()
        assert re.fullmatch(
            rf"{re.escape(name)}=={re.escape(series)}\.\d+", pinned[name.partition("[")[0]]
        ), line
    wheels = {name for name in pinned if name.endswith(("-msgs", "-srvs", "rclpy"))}
    stated = {
        element.text.replace("_", "-")
        for tag in ("depend", "exec_depend")
        for element in PACKAGE.iter(tag)
    }
    direct = {name for name in wheels if name.removeprefix("ros-") in stated}
    assert direct <= {re.match(r"[\w-]+", line)[0] for line in EXTRAS[f"ros-{distribution}"]}


@pytest.fixture
def backend():
    """The build backend of interfaces/, as a module."""
    return module_of(ROOT / "interfaces" / "backend.py")


def test_the_interfaces_are_built_with_the_pinned_wheels(backend):
    for distribution in ("jazzy", "kilted"):
        needed = backend.get_requires_for_build_wheel({"ros": distribution})
        assert {line.split(";")[0].strip() for line in needed} == {
            *pins("build").values(),
            *pins(distribution).values(),
            *(line.split(";")[0].strip() for line in needed if line.startswith("numpy")),
        }
    assert backend.get_requires_for_build_wheel() == backend.get_requires_for_build_wheel(
        {"ros": "jazzy"}
    )
    with pytest.raises(SystemExit, match="ros=humble: expected jazzy or kilted"):
        backend.get_requires_for_build_wheel({"ros": "humble"})
    with pytest.raises(SystemExit, match=r"pip install \. \./interfaces"):
        backend.build_sdist("")


def test_the_wheel_of_the_interfaces_completes_the_engine(tmp_path, backend, monkeypatch):
    """It contains what is installed beside the engine, from a build that is already there."""
    prefix = find_ros()
    pytest.importorskip("rosidl_pycommon", reason="no ROS wheels: run `make test`")
    installed, site = tmp_path / "prefix", tmp_path / "prefix" / backend.SITE
    shutil.copytree(
        Path(importlib.import_module("dyn_ros.msg").__file__).parents[1],
        site / "dyn_ros",
        ignore=shutil.ignore_patterns("*.py[co]"),
    )
    shutil.copytree(prefix / "lib" / "dyn_ros", installed / "lib" / "dyn_ros")
    shutil.copytree(prefix / "share" / "dyn_ros" / "msg", installed / "share" / "dyn_ros" / "msg")
    monkeypatch.setattr(backend, "cmake_install", lambda build: installed)
    with zipfile.ZipFile(tmp_path / backend.build_wheel(tmp_path)) as wheel:
        names = wheel.namelist()
        rows = list(csv.reader(wheel.read(names[-1]).decode().splitlines()))
        for name, digest, size in rows[:-1]:
            data = wheel.read(name)
            hashed = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).decode()
            assert digest == "sha256=" + hashed.rstrip("=") and int(size) == len(data)
        distribution = backend.installed_distribution()
        assert requirements(wheel) == {"dyn-ros": [""]}
        text = wheel.read(f"dyn_ros_interfaces-{VERSION}.dist-info/METADATA").decode()
        assert f"Requires-Dist: dyn_ros[ros-{distribution}] == {VERSION}\n" in text
        nodes = wheel.read(names[-2]).decode()
        script = wheel.getinfo(f"dyn_ros_interfaces-{VERSION}.data/data/lib/dyn_ros/dynamics_node")
        folder = tmp_path / backend.prepare_metadata_for_build_wheel(tmp_path)
        for path in folder.iterdir():  # the same, before a build
            assert wheel.read(f"{folder.name}/{path.name}") == path.read_bytes()
    assert [row[0] for row in rows] == names
    assert re.search(r"-cp3\d+-cp3\d+-linux_x86_64\.whl$", wheel.filename)
    assert {"dyn_ros/msg/__init__.py", "dyn_ros/srv/__init__.py"} <= set(names)
    assert "dyn_ros/__init__.py" not in names
    assert not any(name.endswith((".c", ".pyc")) for name in names)
    for file in FILES:
        if file.startswith(("config", "launch")):
            assert any(name.endswith(f".data/data/share/dyn_ros/{file}") for name in names)
    assert dict(re.findall(r"(\w+) = (.*)", nodes)) == {
        name: function for name, function in EXECUTABLES.items() if name.endswith("_node")
    }
    assert script.external_attr >> 16 & 0o111


@pytest.mark.parametrize("distribution", ["jazzy", "kilted"])
def test_everything_is_pinned(distribution):
    files = [
        path
        for path in (ROOT / "requirements").iterdir()
        if path.stem not in {"jazzy", "kilted"} - {distribution}
    ]
    assert len(files) > 6
    lines = [
        line
        for path in files
        for line in path.read_text().splitlines()
        if line and not line.startswith("#")
    ]
    assert [line for line in lines if "==" not in line] == []
    assert "ros-rclpy" in pins(distribution)
    versions = {}  # one for each package, except in the venv of the documentation
    docs = (ROOT / "requirements" / "docs.txt").read_text().splitlines()
    for line in set(lines) - set(docs):
        package, marker = line.partition("==")[0].lower(), line.partition(";")[2]
        versions.setdefault((package, marker), set()).add(line)
    assert [each for each in versions.values() if len(each) > 1] == []


def test_the_hooks_run_the_pinned_ruff():
    hooks = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())
    assert [f"ruff=={repo['rev'].removeprefix('v')}" for repo in hooks["repos"]] == [
        pins("test")["ruff"]
    ]


def test_package_xml_names_what_is_imported():
    """Each ROS package that a Python file imports is a dependency in package.xml."""
    sources = "\n".join(
        path.read_text()
        for folder in ("dyn_ros", "launch")
        for path in (ROOT / folder).rglob("*.py")
    )
    imported = {
        name
        for name in re.findall(r"^ *(?:from|import) (\w+)", sources, re.MULTILINE)
        if name in ("rclpy", "launch", "launch_ros", "ament_index_python")
        or re.search(r"_(msgs|srvs|interfaces)$", name)
    }
    stated = {element.text for tag in ("depend", "exec_depend") for element in PACKAGE.iter(tag)}
    assert imported - {"control_msgs"} <= stated  # whoever has ros2_control has it
    assert "control_msgs" in {element.text for element in PACKAGE.iter("test_depend")}
    assert "rclpy" in imported
    assert "urdf_parser_py" in sources and "urdfdom_py" in stated  # the package of that module


FOLDERS = (
    ".ci",
    "benchmarks",
    "config",
    "docs",
    "dyn_ros",
    "interfaces",
    "launch",
    "msg",
    "requirements",
    "srv",
    "test",
    "tools",
)
SOURCE = re.compile(
    r".*\.(py|msg|srv|yaml|xml|urdf|cpp|toml|cfg|txt|in|cff)|CMakeLists\.txt|Dockerfile|Makefile|run",
    re.DOTALL,
)
NOTICE = re.compile(
    r"(?:<\?.*\?>\n)*(?:#!.*\n)?"  # XML declarations, or the interpreter of a script
    r"(?:# |// |<!-- )Copyright dyn_ros contributors\n"
    r"(?:# |// | +)SPDX-License-Identifier: Apache-2\.0(?: -->)?\n"
)


def sources():
    """The source files of the repository, without what is built or cached."""
    for path in (
        *ROOT.iterdir(),
        *chain.from_iterable((ROOT / folder).rglob("*") for folder in FOLDERS),
    ):
        if path.is_file() and SOURCE.fullmatch(path.name) and "__pycache__" not in path.parts:
            yield path


def test_every_source_file_states_copyright_and_license():
    found = list(sources())
    assert {path.suffix for path in found} == {
        ".py",
        ".msg",
        ".srv",
        ".yaml",
        ".xml",
        ".urdf",
        ".cpp",
        ".toml",
        ".cfg",
        ".in",
        ".txt",
        ".cff",
        "",
    }
    assert [
        str(path.relative_to(ROOT))
        for path in found
        if not NOTICE.match(path.read_text(encoding="utf-8"))
    ] == []


@pytest.mark.parametrize(
    "text",
    [
        "",
        "import numpy\n",
        "# Copyright dyn_ros contributors\n",
        "# SPDX-License-Identifier: Apache-2.0\n",
        "import numpy\n# Copyright dyn_ros contributors\n# SPDX-License-Identifier: Apache-2.0\n",
    ],
)
def test_a_missing_notice_is_found(text):
    assert not NOTICE.match(text)


@pytest.mark.parametrize("file", [file for file in FILES if file.endswith((".msg", ".srv"))])
def test_the_comment_at_the_top_describes_the_interface_and_not_its_first_field(file):
    """Generated documentation takes it from there; a blank line would move it to the field."""
    parser = pytest.importorskip("rosidl_adapter.parser", reason="no ROS: run `make test`")
    text = (ROOT / file).read_text()
    message = parser.parse_message_string("dyn_ros", Path(file).stem, text.split("\n---\n")[0])
    comment = message.annotations["comment"]
    assert comment[:2] == ["Copyright dyn_ros contributors", "SPDX-License-Identifier: Apache-2.0"]
    assert len(" ".join(comment[2:])) > 20
    top = re.match(r"(?:#.*\n)+", text)[0].count("\n")
    assert len(comment) == top


def module_of(path):
    """A file as a module of its own."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def tool(name):
    """A script of tools/ as a module."""
    return module_of(ROOT / "tools" / f"{name}.py")


@pytest.mark.parametrize(
    "taken, words",
    [
        ("", ""),
        ('<license file="LICENSE">Apache-2.0</license>', '"license"'),
        ("</package>", "XML"),
    ],
)
def test_package_xml_is_checked(monkeypatch, tmp_path, taken, words):
    pytest.importorskip("catkin_pkg", reason="no catkin_pkg: run `make lint`")
    check_xml = tool("check_xml")
    text = (ROOT / "package.xml").read_text()
    assert taken in text
    (tmp_path / "package.xml").write_text(text.replace(taken, ""))
    monkeypatch.setattr(check_xml, "ROOT", tmp_path)
    fault = check_xml.main()
    assert words in fault if words else fault is None


def test_xml_of_launch_files_is_checked(monkeypatch, tmp_path):
    pytest.importorskip("catkin_pkg", reason="no catkin_pkg: run `make lint`")
    check_xml = tool("check_xml")
    (tmp_path / "launch").mkdir()
    (tmp_path / "package.xml").write_text((ROOT / "package.xml").read_text())
    (tmp_path / "launch" / "bad.launch.xml").write_text("<launch><node></launch>")
    monkeypatch.setattr(check_xml, "ROOT", tmp_path)
    assert "bad.launch.xml" in check_xml.main()


@pytest.fixture
def preflight():
    """The check that `make` runs first, as a module of its own."""
    return tool("preflight")


@pytest.mark.parametrize(
    "lacking, package", [("cc", "gcc"), ("c++", "g++"), ("headers", "-dev"), ("venv", "-venv")]
)
def test_preflight_names_what_is_missing(preflight, monkeypatch, tmp_path, lacking, package):
    present = tmp_path / "Python.h"
    present.touch()
    monkeypatch.setattr(preflight, "wheels_fault", lambda: "")
    monkeypatch.setattr(preflight.sysconfig, "get_path", lambda name: str(tmp_path))
    monkeypatch.setattr(preflight.shutil, "which", lambda name: "/usr/bin/" + name)
    monkeypatch.setattr(preflight.importlib.util, "find_spec", lambda name: name)
    assert preflight.main() is None
    if lacking.startswith("c"):
        monkeypatch.setattr(
            preflight.shutil, "which", lambda name: None if name == lacking else name
        )
    elif lacking == "headers":
        present.unlink()
    else:
        monkeypatch.setattr(
            preflight.importlib.util,
            "find_spec",
            lambda name: None if name == "ensurepip" else name,
        )
    lines = preflight.main().splitlines()
    assert len(lines) == 2 and lines[0].startswith("Missing: ")
    assert lines[1].startswith("On Debian or Ubuntu: sudo apt install ")
    assert lines[1].endswith(package)


def test_preflight_of_the_engine_needs_neither_ros_wheels_nor_cpp(preflight, monkeypatch):
    monkeypatch.setattr(preflight.shutil, "which", lambda name: None if name == "c++" else name)
    monkeypatch.setattr(preflight, "wheels_fault", lambda: "no ROS wheels")
    assert preflight.main(engine=True) is None
    monkeypatch.setattr(
        preflight.importlib.util, "find_spec", lambda name: None if name == "ensurepip" else name
    )
    assert preflight.main(engine=True).endswith("-venv")
    monkeypatch.setattr(preflight, "sys", StandIn("sys.version_info", (3, 9, 0)))
    assert "make view PYTHON=" in preflight.main(engine=True)


def test_the_oldest_versions_are_those_of_the_project(capsys):
    tool("oldest").main()
    names = re.findall(
        r"^[\w-]+",
        "\n".join([SETUP["options"]["install_requires"], *EXTRAS["compiler"]]),
        re.MULTILINE,
    )
    assert [word.partition("==")[0] for word in capsys.readouterr().out.split()] == names


@pytest.mark.parametrize(
    "name, value, hint",
    [
        ("sys.version_info", (3, 9, 0), "PYTHON="),
        ("sys.version_info", (3, 15, 0), "PYTHON="),
        ("platform.machine", lambda: "aarch64", "colcon build"),
        ("platform.libc_ver", lambda: ("", ""), "colcon build"),
    ],
)
def test_preflight_reports_platforms_without_wheels(preflight, monkeypatch, name, value, hint):
    monkeypatch.setattr(preflight, name.split(".")[0], StandIn(name, value))
    assert hint in preflight.main()


class StandIn:
    """A module with one name replaced by another value, unknown to everyone else."""

    def __init__(self, name, value):
        self.module, attribute = importlib.import_module(name.split(".")[0]), name.split(".")[1]
        setattr(self, attribute, value)

    def __getattr__(self, name):
        return getattr(self.module, name)


def test_windows_is_reported_at_import():
    result = subprocess.run(
        [sys.executable, "-c", "import sys\nsys.platform = 'win32'\nimport dyn_ros"],
        capture_output=True,
        text=True,
        cwd=ROOT,
    )
    assert result.returncode == 1
    assert result.stderr.splitlines()[-1] == (
        "ImportError: dyn_ros does not run on Windows; use it in WSL"
    )


def test_scripts_of_executables_can_be_imported_by_worker_processes(tmp_path):
    """Workers of multiprocessing import the script of the command under another name."""
    template = re.search(
        r"CONTENT \[\[\n(.*?)\]\]", (ROOT / "CMakeLists.txt").read_text(), re.DOTALL
    )
    assert template is not None
    script = tmp_path / "script"
    text = template[1].replace("@CMAKE_MATCH_2@", "sys").replace("@CMAKE_MATCH_3@", "exit")
    script.write_text(text.replace("@interrupted_code@", "130"))
    assert runpy.run_path(str(script), run_name="__mp_main__")["exit"] is sys.exit
    with pytest.raises(SystemExit):
        runpy.run_path(str(script), run_name="__main__")
