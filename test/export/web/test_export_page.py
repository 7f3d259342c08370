# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""What the export of the static page writes about robots, and what the command says."""

import base64
import gzip
import json
import struct
import sys
from pathlib import Path
from types import ModuleType

import pytest

from dyn_ros.command import main as cli
from dyn_ros.export.web import page, page_meshes

SECRET = b"-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXktdjE\n"
STL = bytes(80) + struct.pack("<I12fH", 1, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0)
TEXT_STL = b"""solid s\nfacet normal 0 0 1\nouter loop
 vertex 0 0 0\r\n vertex 1e0 0 0\n vertex 0 -.5 0\nendloop\nendfacet\nendsolid s\n"""
OBJ = b"mtllib a.mtl\nusemtl red\nv 0 0 0\nv 0.2 0 0\nv 0 .2 0\nf 1//1 2//1 3//1\n"
MTL = b"newmtl red\nKd 1 0 0\nmap_Kd -s 1 1 1 ../textures/a.png\n"
PNG = b"\x89PNG\r\n\x1a\n" + bytes(20)
JPEG = b"\xff\xd8\xff\xe0" + bytes(20)
BMP = b"BM" + struct.pack("<IIII", 58, 0, 54, 40) + bytes(40)
XACRO = 'name="r" xmlns:xacro="http://www.ros.org/wiki/xacro"'
COLLADA = """<?xml version="1.0"?><COLLADA xmlns="http://www.collada.org/2005/11/COLLADASchema">
<library_images><image><init_from>{}</init_from></image></library_images>
<library_effects><surface><init_from>an_image</init_from></surface></library_effects>
<library_geometries><geometry id="g"/></library_geometries></COLLADA>"""


def describe(*uris):
    meshes = "".join(
        f'<visual><geometry><mesh filename="{uri}"/></geometry></visual>' for uri in uris
    )
    return f'<robot name="r"><link name="base">{meshes}</link></robot>'


def write(folder, files):
    """Write files by their paths, as text or bytes."""
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())


def content_of(script):
    """Return what a script registers."""
    start, end = script.text.index(", {") + 2, script.text.rindex(")")
    return json.loads(script.text[start:end])


def files_of(script):
    files = content_of(script)["files"]
    return {key: gzip.decompress(base64.b64decode(text)) for key, text in files.items()}


def export(folder, files, *uris):
    """Write files and a description of meshes in ``robot``; return the robot's script."""
    write(folder, {**files, "robot/r.urdf": describe(*uris)})
    return page.robot_script("r", folder / "robot" / "r.urdf")


@pytest.mark.parametrize(
    "uri",
    ["../secret/id_rsa", "file:///etc/passwd", "/etc/hostname", "package://secret/id_rsa"]
    + [f"../secret/key.{suffix}" for suffix in ("txt", "stl", "STL", "obj", "dae", "ply")],
)
def test_files_that_are_no_meshes_are_not_published(tmp_path, uri):
    suffixes = ("txt", "stl", "STL", "obj", "dae", "ply")
    secrets = {f"secret/key.{suffix}": SECRET for suffix in suffixes} | {"secret/id_rsa": SECRET}
    script = export(tmp_path, secrets, uri)
    assert content_of(script)["files"] == {} and script.mesh_count == 0
    assert len(script.omitted) == 1 and uri in script.omitted[0]


@pytest.mark.parametrize(
    "name, content",
    [
        ("a.stl", b""),
        ("a.stl", bytes(84)),
        ("a.stl", STL[:-1]),
        ("a.stl", STL[:96] + b"\0\0\xc0\x7f" + STL[100:]),  # not a number
        ("a.stl", b"solid secret\n" + SECRET),
        ("a.obj", b"v 1 2 3\n" + SECRET),
        ("a.obj", b"\0" + OBJ),
        ("a.dae", b"<COLLADA><asset/></COLLADA>"),
        ("a.dae", b"<passwords><geometry/></passwords>"),
        ("a.dae", b"<COLLADA>"),
        ("a.dae", b"<?xml version='1.0' encoding='ucs-9'?><COLLADA><geometry/></COLLADA>"),
    ],
)
def test_meshes_must_look_like_meshes(tmp_path, name, content):
    script = export(tmp_path, {f"robot/{name}": content}, name)
    assert content_of(script)["files"] == {}
    assert script.omitted[0].startswith(f"mesh '{name}' is left out: ")


def test_large_meshes_are_left_out(tmp_path, monkeypatch):
    monkeypatch.setattr(page_meshes, "MAX_TEXT_SIZE", 1000)
    script = export(tmp_path, {"robot/a.obj": OBJ * 20, "robot/a.stl": STL}, "a.obj", "a.stl")
    assert list(files_of(script)) == ["a.stl"]
    assert "use a coarser mesh" in script.omitted[0]


def test_meshes_of_other_packages_are_found(tmp_path):
    files = {"arm/m/a b.stl": STL, "hand/m/b.STL": TEXT_STL, "c.stl": STL, "robot/d.stl": STL}
    uris = ["package://arm/m/a%20b.stl", "package://hand/m/b.STL", "../c.stl", "d.stl"]
    script = export(tmp_path, files, *uris, "d.stl", (tmp_path / "c.stl").as_uri())
    assert script.mesh_count == 5 and script.omitted == []
    assert files_of(script) == {
        "arm/m/a b.stl": STL,
        "hand/m/b.STL": TEXT_STL,
        "../c.stl": STL,
        "d.stl": STL,
        str(tmp_path / "c.stl"): STL,
    }


def test_commented_meshes_are_not_published(tmp_path):
    write(tmp_path, {"a.stl": STL, "r.urdf": f"{describe()}<!--{describe('a.stl')}-->"})
    assert files_of(page.robot_script("r", tmp_path / "r.urdf")) == {}


def test_images_and_materials_of_meshes(tmp_path):
    files = {
        "arm/package.xml": "<package/>",
        "arm/meshes/visual/a.obj": OBJ,
        "arm/meshes/visual/a.mtl": MTL,
        "arm/meshes/textures/a.png": PNG,
        "arm/meshes/visual/b.dae": COLLADA.format("../../images/b%20&amp;.jpg"),
        "arm/images/b &.jpg": JPEG,
        "robot/c.dae": COLLADA.format("file://c.bmp"),
        "robot/c.bmp": BMP,
    }
    uris = [f"package://arm/meshes/visual/{name}" for name in ("a.obj", "b.dae")]
    script = export(tmp_path, files, *uris, "c.dae")
    assert script.mesh_count == 3 and script.omitted == []
    assert set(files_of(script)) == {
        "arm/meshes/visual/a.obj",
        "arm/meshes/visual/a.mtl",
        "arm/meshes/textures/a.png",
        "arm/meshes/visual/b.dae",
        "arm/images/b &.jpg",
        "c.dae",
        "c.bmp",
    }


@pytest.mark.parametrize(
    "reference, reason",
    [
        ("../secret/id_rsa", "only reads"),
        ("key.png", "not an image"),
        ("key.bmp", "not an image"),
        ("/etc/passwd", "only reads"),
        ("../secret/photo.png", "outside"),
        ("link.png", "outside"),
        ("none.png", "not found"),
        ("a.mtl", "only reads"),
    ],
)
def test_references_to_other_files_are_not_published(tmp_path, reference, reason):
    files = {
        "secret/id_rsa": SECRET,
        "secret/photo.png": PNG,
        "robot/key.png": SECRET,
        "robot/key.bmp": b"BM" + SECRET,
        "robot/a.mtl": MTL,
        "robot/a.dae": COLLADA.format(reference),
    }
    (tmp_path / "robot").mkdir()
    (tmp_path / "robot" / "link.png").symlink_to("../secret/photo.png")
    script = export(tmp_path, files, "a.dae")
    assert list(files_of(script)) == ["a.dae"] and script.mesh_count == 1
    assert len(script.omitted) == 1 and reason in script.omitted[0]


@pytest.mark.parametrize("library", ["key.stl", "key.mtl", "../secret/id_rsa"])
def test_material_libraries_without_materials_are_not_published(tmp_path, library):
    files = {"secret/id_rsa": SECRET, "robot/key.stl": SECRET, "robot/key.mtl": SECRET}
    files["robot/a.obj"] = OBJ.replace(b"a.mtl", library.encode())
    script = export(tmp_path, files, "a.obj")
    assert list(files_of(script)) == ["a.obj"]
    assert library in script.omitted[0]


def test_names_with_control_characters_are_printed_in_one_line(tmp_path):
    files = {"robot/a.obj": OBJ.replace(b"a.mtl", b"\x1b[2Ja%0a.mtl")}
    script = export(tmp_path, files, "a.obj", "b&#10;c.stl")
    assert script.omitted[0] == "mesh 'a.obj': '?[2Ja?.mtl' not found"
    assert script.omitted[1].startswith("mesh 'b?c.stl' not found")


def test_meshes_that_refer_to_each_other(tmp_path):
    files = {"robot/a.obj": OBJ.replace(b"a.mtl", b"b.obj")}
    files["robot/b.obj"] = OBJ.replace(b"a.mtl", b"../robot/a.obj")
    files["robot/c.obj"] = OBJ.replace(b"a.mtl", b"c.obj")
    files["robot/d.obj"] = OBJ.replace(b"a.mtl", b"loop/loop/a.mtl")
    files["robot/a.mtl"] = b"newmtl red\nmtllib loop/a.mtl\nmap_Kd a.mtl\nmap_Kd loop/a.png"
    files["robot/a.png"] = PNG
    (tmp_path / "robot").mkdir()
    (tmp_path / "robot" / "loop").symlink_to(".")
    script = export(tmp_path, files, "a.obj", "b.obj", "c.obj", "d.obj")
    assert script.mesh_count == 4
    assert set(files_of(script)) == {
        *("a.obj", "b.obj", "c.obj", "d.obj"),
        *("loop/loop/a.mtl", "loop/loop/loop/a.png"),
    }


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "latin1"])
def test_encodings_of_descriptions(tmp_path, encoding):
    text = describe().replace('"r"', '"br\xe4zo"')
    if encoding == "latin1":
        text = f'<?xml version="1.0" encoding="latin1"?>{text}'
    (tmp_path / "r.urdf").write_bytes(text.encode(encoding))
    script = page.robot_script("r", tmp_path / "r.urdf")
    assert content_of(script)["urdf"].lstrip("\ufeff") == text


@pytest.mark.parametrize(
    "content", [b"<robot name='\xe9'/>", b"<robot", bytes(10), b"a" * 5_000_001]
)
def test_errors_of_descriptions_name_the_file(tmp_path, content):
    (tmp_path / "r.urdf").write_bytes(content)
    with pytest.raises(page.UrdfError, match=r"/r\.urdf: "):
        page.robot_script("r", tmp_path / "r.urdf")


def test_names_of_robots_differ_where_case_is_ignored():
    files = ["Arm7.urdf", "b/arm7.urdf", "ARM7.URDF", "arm7_1.xml", "..urdf", "-", "a b.urdf.xacro"]
    names = page._robot_names([Path(file) for file in files])
    assert names == ["Arm7", "arm7_1", "ARM7_2", "arm7_1_1", "robot", "robot_1", "a_b"]


def test_shipped_robots_have_their_path_in_the_checkout(tmp_path):
    contents = [content_of(page.robot_script("r", path)) for path in page.SHIPPED_ROBOTS]
    assert {content["path"]: content["root"] for content in contents} == {
        "dyn_ros/robots/arm7.urdf": "",
        "dyn_ros/robots/quadruped.urdf": "",
        "dyn_ros/export/web/page/robots/humanoid.urdf": "",
        "dyn_ros/export/web/page/robots/mobile_arm.urdf": "planar",
    }
    write(tmp_path, {"mobile_arm.urdf": describe()})
    content = content_of(page.robot_script("mobile_arm", tmp_path / "mobile_arm.urdf"))
    assert "path" not in content and content["root"] == ""


# --- the command


@pytest.fixture
def no_build(monkeypatch):
    """The page's files are written without what Node.js and compilers make of them."""
    monkeypatch.setattr(page, "_require_tools", lambda: None)
    monkeypatch.setattr(page, "install_packages", lambda: Path(__file__).parent)
    monkeypatch.setattr(page, "_export_modules", lambda *_: {"engine": b"", "contacts": b""})
    monkeypatch.setattr(page, "_bundle", lambda *_: None)
    monkeypatch.setattr(page, "_write_sources", lambda *_: None)
    monkeypatch.setattr(page.shutil, "copy", lambda *_: None)


def run(*words):
    return cli.main([str(word) for word in words])


def test_the_command_names_meshes_that_are_left_out(tmp_path, no_build, capsys):
    write(tmp_path, {"a.stl": STL, "r.urdf": describe("a.stl", *(f"{k}.stl" for k in range(12)))})
    assert run("export", "--page", tmp_path / "r.urdf", "--out", tmp_path / "page") == 0
    out, err = capsys.readouterr()
    assert " with 1 meshes: open " in out
    lines = err.splitlines()
    assert lines[0].startswith("warning: mesh '0.stl' not found; write package://PACKAGE/0.stl")
    assert len(lines) == 11 and lines[-1] == "and 2 more"


def test_the_command_expands_xacro(tmp_path, no_build, capsys):
    pytest.importorskip("xacro")
    text = describe("${name}.stl").replace('name="r"', XACRO)
    text = text.replace("<link", '<xacro:property name="name" value="a"/><link', 1)
    write(tmp_path, {"a.stl": STL, "r.urdf.xacro": text, "s.urdf": describe()})
    robots = tmp_path / "r.urdf.xacro", tmp_path / "s.urdf"
    assert run("export", "--page", *robots, "--out", tmp_path / "page") == 0
    assert capsys.readouterr().err == ""
    scripts = sorted((tmp_path / "page" / "robots").iterdir())
    assert [script.name for script in scripts] == ["r.js", "s.js"]
    content = scripts[0].read_text()
    assert "a.stl" in content and "${name}" not in content and "xacro:property" not in content


def test_the_command_passes_arguments_to_xacro(tmp_path, no_build, capsys):
    pytest.importorskip("xacro")
    text = describe("$(arg name).stl").replace('name="r"', XACRO)
    text = text.replace("<link", '<xacro:arg name="name" default="b"/><link', 1)
    write(tmp_path, {"a.stl": STL, "r.urdf.xacro": text, "s.urdf": describe()})
    out = "--out", tmp_path / "page"
    assert run("export", "--page", tmp_path / "r.urdf.xacro", "name:=a", *out) == 0
    assert "a.stl" in (tmp_path / "page" / "robots" / "r.js").read_text()
    assert run("export", "--page", tmp_path / "s.urdf", "name:=a", *out) == 2
    assert "s.urdf is not a xacro file, and takes no arguments" in capsys.readouterr().err


def test_the_command_finds_descriptions_by_name(tmp_path, monkeypatch, no_build):
    write(tmp_path, {"a.stl": STL, "named.urdf": describe("a.stl")})
    description = ModuleType("robot_descriptions.arm_description")
    description.URDF_PATH = str(tmp_path / "named.urdf")
    monkeypatch.setitem(sys.modules, "robot_descriptions", ModuleType("robot_descriptions"))
    monkeypatch.setitem(sys.modules, "robot_descriptions.arm_description", description)
    assert run("export", "--page", "arm_description", "--out", tmp_path / "page") == 0
    assert (tmp_path / "page" / "robots" / "named.js").is_file()


@pytest.mark.parametrize(
    "name, content, fault",
    [
        ("r.urdf", b"<robot name='\xe9'/>", "cannot be decoded"),
        ("r.urdf", b"<robot", "not well-formed"),
        ("r.urdf.xacro", f"<robot {XACRO}>${{x}}</robot>", "xacro: name 'x' is not defined"),
        ("r.urdf.xacro", f"<robot {XACRO}/>", "link"),
    ],
)
def test_errors_of_the_command_name_the_file(tmp_path, no_build, capsys, name, content, fault):
    write(tmp_path, {name: content})
    assert run("export", "--page", tmp_path / name, "--out", tmp_path / "page") == 2
    err = capsys.readouterr().err
    assert f"{tmp_path / name}: " in err and fault in err
    assert not (tmp_path / "page").exists()


@pytest.mark.parametrize(
    "words, fault",
    [
        (["--out", "page", "--strict"], "--strict needs --model or --robot"),
        (["--out", "page", "--gravity", "0", "0", "1"], "--gravity needs --model or --robot"),
        (["--out", "page", "--root-joint", "floating"], "--root-joint needs --model or --robot"),
        (["--out", "page", "--mimic", "ignore"], "--mimic needs --model or --robot"),
        (["--out", "page", "--target", "wasm32"], "--target needs --out FOLDER without --page"),
        (["--out", "page", "--functions", "rnea"], "--functions needs --out FOLDER without --page"),
        (["--out", "page", "--model", "r.urdf"], "--page, --model and --robot exclude each other"),
        (["--out", "page", "--fixed"], "--fixed needs --robot"),
        ([], "specify --out FOLDER for the page"),
    ],
)
def test_options_without_effect_on_a_page(tmp_path, monkeypatch, no_build, capsys, words, fault):
    monkeypatch.chdir(tmp_path)
    write(tmp_path, {"r.urdf": describe()})
    assert run("export", "--page", "r.urdf", *words) == 2
    assert f"dyn_ros export: {fault}" in capsys.readouterr().err
    assert not Path("page").exists()
