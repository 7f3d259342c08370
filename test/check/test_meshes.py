# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Files of meshes, found by what robot descriptions call them."""

import json
import os

import pytest
from hostile_paths import KINDS, make_path

from dyn_ros.check.mesh_sizes import require_readable
from dyn_ros.check.meshes import MeshError, find_mesh, measure_meshes, read_mesh


@pytest.fixture
def mesh(tmp_path):
    path = tmp_path / "share" / "robot_pkg" / "meshes" / "a part.stl"
    path.parent.mkdir(parents=True)
    path.touch()
    return path


def test_a_mesh_of_a_package(mesh, tmp_path, monkeypatch):
    uri = "package://robot_pkg/meshes/a%20part.stl"
    with pytest.raises(MeshError, match="robot_pkg.*mesh_paths"):
        find_mesh(uri)
    monkeypatch.setenv("AMENT_PREFIX_PATH", f"/nowhere:{tmp_path}")
    assert find_mesh(uri) == mesh
    monkeypatch.delenv("AMENT_PREFIX_PATH")
    assert find_mesh(uri, [tmp_path / "share"]) == mesh
    monkeypatch.setenv("ROS_PACKAGE_PATH", str(tmp_path / "share"))
    assert find_mesh(uri) == mesh


def test_a_mesh_of_a_file(mesh):
    assert find_mesh(f"file://{mesh}") == mesh
    assert find_mesh(mesh.as_uri()) == mesh
    assert find_mesh(str(mesh)) == mesh
    assert find_mesh("a part.stl", [mesh.parent]) == mesh
    with pytest.raises(
        MeshError, match="'a part.stl' not found; .* or write package://PACKAGE/a p"
    ):
        find_mesh("a part.stl")
    with pytest.raises(
        MeshError, match="'file://meshes/a.stl': expected an absolute .* write 'meshes/a.stl' alone"
    ):
        find_mesh("file://meshes/a.stl")
    with pytest.raises(MeshError, match="file:///no/such.stl"):
        find_mesh("file:///no/such.stl")


@pytest.mark.parametrize(
    "uri",
    [
        "http://example.com/a.stl",
        "https://example.com/a.stl",
        "model://a.stl",
        "package:///a.stl",
        "",
    ],
)
def test_nothing_is_fetched(uri):
    with pytest.raises(MeshError):
        find_mesh(uri)


@pytest.mark.parametrize("kind", KINDS)
def test_a_path_that_is_no_mesh(tmp_path, kind):
    """It is found by its path, or relative to a folder; `measure_meshes` says what is wrong."""
    path = make_path(kind, tmp_path)
    for uri, folders in ((path, ()), (os.path.basename(path), [tmp_path])):
        meshes = measure_meshes([uri], folders)
        assert meshes.measured == {uri: None} and len(meshes.unseen) == 1
        assert len(meshes.unseen[0]) < 1000


def test_a_pipe_is_not_a_missing_mesh(tmp_path):
    with pytest.raises(MeshError, match="is not a regular file, see .*pipe.yaml"):
        find_mesh(make_path("pipe", tmp_path))


def test_a_long_name_is_shortened():
    for uri in ("m" * 100_000, "package://" + "p" * 100_000 + "/m.stl", "file://" + "m" * 100_000):
        with pytest.raises(MeshError, match=r"mesh '.*\.\.\.'") as error:
            find_mesh(uri)
        assert len(str(error.value)) < 1000


@pytest.mark.parametrize("kind", ["pipe", "device", "large"])
def test_a_file_that_a_mesh_refers_to(tmp_path, kind):
    pytest.importorskip("trimesh", reason="no viser: pip install viser")
    os.symlink(make_path(kind, tmp_path), tmp_path / "a.mtl")
    mesh = tmp_path / "a.obj"
    mesh.write_text("mtllib a.mtl\nv 0 0 0\nv 1 0 0\nv 0 1 0\nf 1 2 3\n")
    assert len(read_mesh(mesh).to_mesh().vertices) == 3  # without the colors


@pytest.mark.parametrize("name", ["arm.zip", "arm.zae", "arm.tar.gz", "arm.bz2", "arm"])
def test_archives_are_not_unpacked(tmp_path, name):
    pytest.importorskip("trimesh", reason="no viser: pip install viser")
    (tmp_path / name).write_bytes(b"content")
    with pytest.raises(MeshError, match=r"are not read; convert it to one of \.stl, \.obj"):
        read_mesh(tmp_path / name)


POSITIONS = {"componentType": 5126, "type": "VEC3", "count": 3}
SURFACE = {"attributes": {"POSITION": 0}}


def write_gltf(path, count=3, surfaces=1, meshes_of_nodes=(0,)):
    """Write a glTF file; without a buffer, positions are zero."""
    header = {
        "asset": {"version": "2.0"},
        "scene": 0,
        "scenes": [{"nodes": list(range(len(meshes_of_nodes)))}],
        "nodes": [{"mesh": mesh} for mesh in meshes_of_nodes],
        "meshes": [{"primitives": [SURFACE] * surfaces}],
        "accessors": [POSITIONS | {"count": count}],
    }
    path.write_text(json.dumps(header))
    return path


COLLADA = """<COLLADA xmlns="http://www.collada.org/2005/11/COLLADASchema" version="1.4.1">
<library_geometries><geometry id="g"/></library_geometries>
<library_nodes><node id="n0"><instance_geometry url="#g"/></node>{nodes}</library_nodes>
<library_visual_scenes><visual_scene id="scene"><node>{scene}</node></visual_scene>
</library_visual_scenes>
<scene><instance_visual_scene url="#scene"/></scene></COLLADA>"""


def write_collada(path, levels):
    """Write a COLLADA file in which a surface occurs 8 times as often on each level."""
    nodes = "".join(
        f'<node id="n{k}">' + 8 * f'<instance_node url="#n{k - 1}"/>' + "</node>"
        for k in range(1, levels + 1)
    )
    path.write_text(COLLADA.format(nodes=nodes, scene=f'<instance_node url="#n{levels}"/>'))
    return path


@pytest.mark.parametrize(
    "write",
    [
        lambda folder: write_gltf(folder / "a.gltf", count=1 << 28),
        lambda folder: write_gltf(folder / "a.gltf", count=300_000, surfaces=2000),
        lambda folder: write_gltf(folder / "a.gltf", count=10_000, meshes_of_nodes=[0] * 1000),
        lambda folder: write_collada(folder / "a.dae", 8),
        lambda folder: write_collada(folder / "a.dae", 300),
    ],
)
def test_surfaces_that_are_used_many_times(tmp_path, write):
    pytest.importorskip("trimesh", reason="no viser: pip install viser")
    with pytest.raises(MeshError, match="its surfaces and instances would take"):
        read_mesh(write(tmp_path))


def test_a_collada_file_that_contains_itself(tmp_path):
    path = tmp_path / "a.dae"
    path.write_text(
        COLLADA.format(
            nodes='<node id="n1"><instance_node url="#n1"/></node>',
            scene='<instance_node url="#n1"/>',
        )
    )
    with pytest.raises(MeshError, match="would take inf bytes"):
        require_readable(path)


def test_surfaces_that_are_used_a_few_times_are_read(tmp_path):
    require_readable(write_gltf(tmp_path / "a.gltf", count=10_000, surfaces=100))
    require_readable(write_collada(tmp_path / "a.dae", 3))


def test_a_text_that_is_too_large(tmp_path):
    path = tmp_path / "a.obj"
    path.write_text("v 0 0 0\nv 1 0 0\nv 0 1 0\n" + "f 1 2 3\n" * 3_000_000)
    with pytest.raises(MeshError, match="it exceeds 20 MB"):
        require_readable(path)


CORNERS = "v 0 0 0\nv 1 0 0\nv 0 1 0\n"
PLY_HEADER = """ply
format binary_little_endian 1.0
element vertex 3
property float x
property float y
property float z
element face {count}
property list uchar uchar vertex_indices
end_header
"""


def write_ply(path, count, corner_count):
    """Write polygons that refer to three points."""
    polygon = bytes([corner_count, *(k % 3 for k in range(corner_count))])
    path.write_bytes(PLY_HEADER.format(count=count).encode() + bytes(36) + polygon * count)
    return path


def write_polygons(path, beginning, count):
    """Write a text that ends with the corners of a polygon."""
    path.write_text(beginning + "1 2 3 " * (count // 3))
    return path


@pytest.mark.parametrize(
    "write, message",
    [
        (lambda folder: write_ply(folder / "a.ply", 1_200_000, 3), "4,800,[0-9]+ numbers"),
        (lambda folder: write_ply(folder / "a.ply", 10_000, 252), "2,500,000 triangles"),
        (
            lambda folder: write_polygons(folder / "a.obj", f"{CORNERS}f ", 4_500_000),
            "4,500,0[0-9]+ numbers",
        ),
        (
            lambda folder: write_polygons(folder / "a.obj", f"{CORNERS}f ", 2_000_001),
            "1,999,999 triangles",
        ),
        (
            lambda folder: write_polygons(
                folder / "a.off", "OFF\n4 1 0\n0 0 0\n1 0 0\n0 1 0\n0 0 1\n2000001 ", 2_000_001
            ),
            "1,999,999 triangles",
        ),
    ],
)
def test_polygons_with_many_corners(tmp_path, write, message):
    pytest.importorskip("trimesh", reason="no viser: pip install viser")
    with pytest.raises(MeshError, match=f"{message}, more than the limit of .* coarser mesh"):
        read_mesh(write(tmp_path))


@pytest.mark.parametrize("suffix, size", [(".stl", 60), (".ply", 20), (".off", 20)])
def test_a_file_that_is_too_large(tmp_path, suffix, size):
    path = tmp_path / f"a{suffix}"
    path.touch()
    os.truncate(path, size * 1_000_000 + 1)
    with pytest.raises(MeshError, match=f"it exceeds {size} MB; use a coarser mesh"):
        require_readable(path)
