# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Static page that shows the dynamics of a robot: files in ``page``, bundled with the module."""

from __future__ import annotations

import base64
import gzip
import html
import json
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from ...engine.machine_code.cache import cache_folder
from ...engine.model.urdf import UrdfError, read_urdf
from ...engine.model.urdf.text import local_name, parse_elements, read_description_file
from ...files.writing import install_files
from ..c_library import run_command, write_texts
from ..functions import find_functions
from .javascript_module import module_texts
from .module import MEMBERS, export_web_module
from .page_meshes import collect_meshes

PAGE = Path(__file__).parent / "page"
SHIPPED_ROBOTS = (
    *(Path(__file__).parents[2] / "robots" / f"{name}.urdf" for name in ("arm7", "quadruped")),
    *sorted((PAGE / "robots").glob("*.urdf")),
)
_CHECKOUT = Path(__file__).parents[3]
_SHIPPED_ROOT_JOINTS = {"mobile_arm": "planar"}  # where the page would choose another one
# The functions that the page uses. All but the first module are loaded when they are needed.
MODULES: Mapping[str, Sequence[str]] = {
    "engine": (
        "aba",
        "center_of_mass",
        "crba",
        "frame_jacobian",
        "frame_placements",
        "generalized_gravity",
        "nonlinear_effects",
        "potential_energy",
    ),
    "contacts": ("contact_dynamics",),
    "constraints": ("vereshchagin",),
}
_LAZY_SCRIPT = "dynRosRegister({name}, {content})\n"


class PageReport(NamedTuple):
    """Number of meshes in a page, and a line for each file that is missing or left out."""

    mesh_count: int
    omitted: list[str]


def export_page(
    folder: str | os.PathLike[str],
    robots: Sequence[str | os.PathLike[str]] | None = None,
    progress: Callable[[int, int, str], object] | None = None,
    read: Callable[[Path], str] = read_description_file,
) -> PageReport:
    """Write a static page that shows the dynamics of robots, without a server.

    It contains the robots with their meshes, and reads others that users drop into it. Requires
    Node.js with npm, and the tools of `export_web_module`.

    Parameters
    ----------
    folder : str or path
        Where to write ``index.html`` and what belongs to it; it is created if necessary.
    robots : sequence of paths, optional
        Robot descriptions (URDF). The page opens the first one. Default: four simple robots.
    progress : callable, optional
        Called as ``progress(done, total, name)`` before a function is compiled.
    read : callable, optional
        Returns the description in a path as URDF text; it may expand xacro.

    Returns
    -------
    PageReport
        The number of meshes, and a line for each mesh or image that is missing or left out. Only
        files that are meshes or images by their content are written.

    Raises
    ------
    UrdfError
        A robot description cannot be used.
    OSError
        A tool or a file is missing, or a file cannot be written.
    """
    _require_tools()
    paths = [Path(path) for path in (SHIPPED_ROBOTS if robots is None else robots)]
    names = _robot_names(paths)
    scripts = {
        name: robot_script(name, path, read) for name, path in zip(names, paths, strict=True)
    }
    with tempfile.TemporaryDirectory(prefix="dyn_ros-page-") as temporary:
        build, result = Path(temporary) / "build", Path(temporary) / "result"
        packages = install_packages()
        modules = _export_modules(Path(temporary), progress)
        _write_sources(build, modules["engine"])
        write_texts(
            result,
            {
                "index.html": _index_text(names),
                **{
                    f"{name}.js": _script_text(name, _pack(content))
                    for name, content in modules.items()
                    if name != "engine"
                },
            },
        )
        for entry, output in (("main", "page"), ("mesh_formats", "mesh_formats")):
            _bundle(packages, build / "page" / f"{entry}.mjs", result / f"{output}.js")
        shutil.copy(PAGE / "page.css", result)
        shutil.copy(packages / "node_modules" / "three" / "LICENSE", result / "three_license.txt")
        texts = {f"{name}.js": script.text for name, script in scripts.items()}
        write_texts(result / "robots", texts)
        install_files(result, Path(folder))
    omitted = [line for script in scripts.values() for line in script.omitted]
    return PageReport(sum(script.mesh_count for script in scripts.values()), omitted)


def _require_tools() -> None:
    """Raise a FileNotFoundError without Node.js and npm."""
    for tool in ("node", "npm"):
        if not shutil.which(tool):
            raise FileNotFoundError(
                f"{tool} is needed to bundle the page: install Node.js 18 or newer with npm (on "
                "Debian and Ubuntu: sudo apt install nodejs npm)"
            )


def install_packages() -> Path:
    """Install the packages of ``package-lock.json`` in the cache; return their folder."""
    folder = cache_folder().parent / "page"
    lock = (PAGE / "package-lock.json").read_bytes()
    installed = folder / "installed.json"
    if installed.is_file() and installed.read_bytes() == lock:
        return folder
    folder.mkdir(parents=True, exist_ok=True)
    for file in ("package.json", "package-lock.json"):
        shutil.copy(PAGE / file, folder)
    run_command(
        ["npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix", str(folder)]
    )
    installed.write_bytes(lock)
    return folder


def _export_modules(
    folder: Path, progress: Callable[[int, int, str], object] | None
) -> dict[str, bytes]:
    """Return the WebAssembly modules by name."""
    contents = {}
    for name, functions in MODULES.items():
        export_web_module(folder / name, functions, progress=progress)
        contents[name] = (folder / name / "dyn_ros.wasm").read_bytes()
    return contents


def _write_sources(build: Path, engine: bytes) -> None:
    """Write the page's modules and those that they import, as they are bundled."""
    shutil.copytree(PAGE, build / "page")
    names = [name for functions in MODULES.values() for name in functions]
    write_texts(build / "javascript", module_texts(find_functions(names), MEMBERS))
    text = f"export default {json.dumps(_pack(engine))}\n"
    (build / "page" / "engine_module.mjs").write_text(text, encoding="utf-8")


def _bundle(packages: Path, entry: Path, output: Path) -> None:
    """Bundle a module and what it imports to a classic script."""
    (entry.parents[1] / "node_modules").unlink(missing_ok=True)
    (entry.parents[1] / "node_modules").symlink_to(packages / "node_modules")
    run_command(
        [
            str(packages / "node_modules" / ".bin" / "esbuild"),
            str(entry),
            "--bundle",
            "--minify",
            "--format=iife",
            "--target=es2022",
            "--charset=utf8",
            "--legal-comments=none",
            "--log-level=warning",
            "--drop:console",  # three's loaders log; the page reports what matters
            f"--outfile={output}",
        ]
    )


def _robot_names(paths: Sequence[Path]) -> list[str]:
    """Return a different name for each path; raise a ValueError if there is none.

    Names differ even where file systems ignore the case of letters.
    """
    if not paths:
        raise ValueError("robots: expected at least one path of a robot description")
    names: list[str] = []
    used: set[str] = set()
    for path in paths:
        stem = re.sub(r"(\.urdf)?\.\w+$", "", path.name)  # .urdf.xacro, too
        stem = re.sub(r"[^\w.-]+", "_", stem).strip(".-") or "robot"
        numbered = (f"{stem}_{n}" if n else stem for n in range(len(paths)))
        names.append(next(name for name in numbered if name.casefold() not in used))
        used.add(names[-1].casefold())
    return names


class RobotScript(NamedTuple):
    """Script with a robot, how many meshes it has, and a line for each file that it lacks."""

    text: str
    mesh_count: int
    omitted: list[str]


def robot_script(
    name: str, path: Path, read: Callable[[Path], str] = read_description_file
) -> RobotScript:
    """Return the script with a robot: its description, and its meshes and their images.

    The page is published. Therefore, it only contains files that are meshes and images by their
    content. Robots that ship have their path in the checkout. Raise an OSError or an UrdfError if
    the description cannot be read.
    """
    try:
        text = read(path)
        root = parse_elements(text)
        read_urdf(text)
    except ValueError as error:
        raise UrdfError(f"{path}: {error}") from None
    uris = {element.get("filename", "") for element in root.iter() if local_name(element) == "mesh"}
    meshes = collect_meshes(sorted(uris), path)
    packed = {key: _pack(content) for key, content in meshes.files.items()}
    content: dict[str, object] = {"urdf": text, "files": packed, "root": ""}
    if path.absolute() in SHIPPED_ROBOTS:
        content["path"] = path.absolute().relative_to(_CHECKOUT).as_posix()
        content["root"] = _SHIPPED_ROOT_JOINTS.get(path.stem, "")
    script = _script_text(f"robots/{name}", content)
    return RobotScript(script, meshes.mesh_count, meshes.omitted)


def _pack(content: bytes) -> str:
    """Return the gzip file of a content in base64, which is small when it is compressed again."""
    return base64.b64encode(gzip.compress(content, 9, mtime=0)).decode()


def _script_text(name: str, content: object) -> str:
    """Return a script that registers a content."""
    return _LAZY_SCRIPT.format(name=json.dumps(name), content=json.dumps(content))


def _index_text(names: Sequence[str]) -> str:
    """Return ``index.html`` with the robots to choose from."""
    options = "".join(f"<option>{html.escape(name)}</option>" for name in names)
    template = (PAGE / "index.html").read_text(encoding="utf-8")
    return template.replace("<!-- robots -->", options)
