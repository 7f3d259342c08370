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

from ...check.mesh_sizes import MAX_TEXT_SIZE, MeshError, require_regular
from ...check.meshes import find_mesh
from ...engine.machine_code.cache import cache_folder
from ...engine.model.urdf import UrdfError, read_urdf
from ...files.writing import install_files
from ..c_library import run_command, write_texts
from ..functions import find_functions
from .javascript_module import module_texts
from .module import MEMBERS, export_web_module

PAGE = Path(__file__).parent / "page"
SHIPPED_ROBOTS = (
    *(Path(__file__).parents[2] / "robots" / f"{name}.urdf" for name in ("arm7", "quadruped")),
    *sorted((PAGE / "robots").glob("*.urdf")),
)
_ROOT_JOINTS = {"mobile_arm": "planar"}  # where the page would choose another one
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
# Files that meshes refer to: images and material libraries.
_REFERENCE = re.compile(
    r"<init_from>(?:<ref>)?\s*([^<]+?)\s*<|^mtllib\s+(.+?)\s*$|^map_Kd\s+(?:.*\s)?(\S+)\s*$",
    re.MULTILINE,
)


def export_page(
    folder: str | os.PathLike[str],
    robots: Sequence[str | os.PathLike[str]] | None = None,
    progress: Callable[[int, int, str], object] | None = None,
) -> None:
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
    scripts = {name: robot_script(name, path) for name, path in zip(names, paths, strict=True)}
    with tempfile.TemporaryDirectory(prefix="dyn_ros-page-") as temporary:
        build, result = Path(temporary) / "build", Path(temporary) / "result"
        packages = _install_packages()
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
        write_texts(result / "robots", {f"{name}.js": text for name, text in scripts.items()})
        install_files(result, Path(folder))


def _require_tools() -> None:
    """Raise a FileNotFoundError without Node.js and npm."""
    for tool in ("node", "npm"):
        if not shutil.which(tool):
            raise FileNotFoundError(
                f"{tool} is needed to bundle the page: install Node.js 18 or newer with npm (on "
                "Debian and Ubuntu: sudo apt install nodejs npm)"
            )


def _install_packages() -> Path:
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
            "--drop:console",  # of three; the page reports what matters
            f"--outfile={output}",
        ]
    )


def _robot_names(paths: Sequence[Path]) -> list[str]:
    """Return a different name for each path; raise a ValueError if there is none."""
    if not paths:
        raise ValueError("robots: expected at least one path of a robot description")
    names: list[str] = []
    for path in paths:
        stem = re.sub(r"[^\w.-]+", "_", path.stem) or "robot"
        numbered = (f"{stem}_{n}" if n else stem for n in range(len(paths)))
        names.append(next(name for name in numbered if name not in names))
    return names


def robot_script(name: str, path: Path) -> str:
    """Return the script with a robot: its description, and its meshes and their images.

    Meshes that are not found are left out; the page lists them. Raise an OSError or an UrdfError
    if the description cannot be read.
    """
    require_regular(path, MAX_TEXT_SIZE)
    text = path.read_text(encoding="utf-8")
    try:
        read_urdf(text)
    except UrdfError as error:
        raise UrdfError(f"{path}: {error}") from None
    files: dict[str, bytes] = {}
    for uri in sorted(set(re.findall(r"<mesh\s[^>]*?filename\s*=\s*[\"']([^\"']+)", text))):
        try:
            mesh = find_mesh(html.unescape(uri), [path.parent, *path.resolve().parents])
            require_regular(mesh)
        except (MeshError, OSError):
            continue
        key = re.sub(r"^\w+://", "", html.unescape(uri))
        files |= _mesh_files(key, mesh)
    packed = {key: _pack(content) for key, content in files.items()}
    content = {"urdf": text, "files": packed, "root": _ROOT_JOINTS.get(name, "")}
    return _script_text(f"robots/{name}", content)


def _mesh_files(key: str, path: Path) -> dict[str, bytes]:
    """Return a mesh and the files that it refers to, by their paths in the page."""
    content = path.read_bytes()
    files = {key: content}
    if path.suffix.lower() not in (".dae", ".obj"):
        return files
    for match in _REFERENCE.finditer(content.decode("utf-8", "replace")):
        reference = next(group for group in match.groups() if group)
        other = path.parent / reference
        is_near = other.resolve().is_relative_to(path.parent.parent.resolve())
        if is_near and other.is_file():
            other_key = os.path.normpath(f"{os.path.dirname(key)}/{reference}")
            if other_key not in files:
                files |= _mesh_files(other_key, other)
    return files


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
