# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Shapes and meshes of robot descriptions."""
import numpy as np
import pytest

from dyn_ros.check.meshes import MeshError, find_mesh
from dyn_ros.check.shapes import read_shapes
from dyn_ros.demo.run import ARM
from dyn_ros.viewer.scene.scene import load_mesh

TRIANGLE = """solid one
facet normal 0 0 1
 outer loop
  vertex 0 0 0
  vertex 2 0 0
  vertex 0 1 0
 endloop
endfacet
endsolid one
"""
COLLADA = """<?xml version="1.0"?>
<COLLADA xmlns="http://www.collada.org/2005/11/COLLADASchema" version="1.4.1">
  <asset><unit name="centimeter" meter="0.01"/><up_axis>Z_UP</up_axis></asset>
  <library_geometries><geometry id="g"><mesh>
    <source id="p"><float_array id="a" count="9">0 0 0 200 0 0 0 100 0</float_array>
      <technique_common><accessor source="#a" count="3" stride="3">
        <param name="X" type="float"/><param name="Y" type="float"/><param name="Z" type="float"/>
      </accessor></technique_common></source>
    <vertices id="v"><input semantic="POSITION" source="#p"/></vertices>
    <triangles count="1"><input semantic="VERTEX" source="#v" offset="0"/><p>0 1 2</p></triangles>
  </mesh></geometry></library_geometries>
  <library_visual_scenes><visual_scene id="s"><node id="n">
    <instance_geometry url="#g"/></node></visual_scene></library_visual_scenes>
  <scene><instance_visual_scene url="#s"/></scene>
</COLLADA>
"""


def shapes(body):
    visual, collision, problems = read_shapes(
        f'<robot name="r"><material name="red"><color rgba="1 0 0 0.5"/></material>'
        f'<link name="a">{body}</link></robot>')
    return visual.get("a", []), collision.get("a", []), problems


def test_shapes_of_the_arm():
    visual, collision, problems = read_shapes(ARM.read_text())
    assert not problems
    assert sum(map(len, visual.values())) == ARM.read_text().count("<visual>")
    assert sum(map(len, collision.values())) == ARM.read_text().count("<collision>")
    plate, column = visual["base_link"]
    assert (plate.kind, plate.size, plate.color) == ("cylinder", (0.09, 0.02),
                                                     (0.20, 0.22, 0.25, 1.0))
    np.testing.assert_array_equal(column.placement[:3, 3], (0, 0, 0.075))


def test_every_kind():
    visual, collision, problems = shapes("""
      <visual><geometry><box size="1 2 3"/></geometry><material name="red"/></visual>
      <visual><origin xyz="1 0 0" rpy="0 0 1.5707963267948966"/>
        <geometry><sphere radius="0.5"/></geometry></visual>
      <visual><geometry><mesh filename="package://p/m.stl" scale="2 2 2"/></geometry></visual>
      <collision><geometry><cylinder radius="1" length="2"/></geometry></collision>""")
    assert not problems
    assert [shape.kind for shape in visual] == ["box", "sphere", "mesh"]
    assert visual[0].size == (1, 2, 3) and visual[0].color == (1, 0, 0, 0.5)
    np.testing.assert_allclose(visual[1].placement @ (1, 0, 0, 1), (1, 1, 0, 1), atol=1e-15)
    assert visual[1].color is None
    assert (visual[2].uri, visual[2].size) == ("package://p/m.stl", (2, 2, 2))
    assert collision[0].size == (1, 2)


@pytest.mark.parametrize("body, words", [
    ('<visual><geometry><sphere radius="nan"/></geometry></visual>', ("visual", "'a'", "nan")),
    ('<visual><geometry><sphere radius="-1"/></geometry></visual>', ("negative",)),
    ("<visual><geometry><torus/></geometry></visual>", ("torus", "box, cylinder, sphere or mesh")),
    ("<visual/>", ("no geometry",)),
    ('<visual><origin xyz="1 2"/><geometry><sphere radius="1"/></geometry></visual>', ("'1 2'",)),
])
def test_what_cannot_be_read_is_omitted_and_reported(body, words):
    good = '<visual><geometry><sphere radius="1"/></geometry></visual>'
    visual, _, (problem,) = shapes(body + good)
    assert [shape.size for shape in visual] == [(1.0,)]
    assert all(word in problem for word in words)


def test_a_bad_color_loses_the_color_alone():
    visual, _, (problem,) = shapes("""<visual><geometry><sphere radius="1"/></geometry>
      <material name="odd"><color rgba="1 0 zero 1"/></material></visual>""")
    assert visual[0].color is None and "odd" in problem and "zero" in problem


@pytest.fixture
def mesh(tmp_path):
    path = tmp_path / "share" / "robot_pkg" / "meshes" / "a part.stl"
    path.parent.mkdir(parents=True)
    path.write_text(TRIANGLE)
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
    with pytest.raises(MeshError, match="file:///no/such.stl"):
        find_mesh("file:///no/such.stl")


@pytest.mark.parametrize("uri", ["http://example.com/a.stl", "https://example.com/a.stl",
                                 "model://a.stl", "package:///a.stl", ""])
def test_nothing_is_fetched(uri):
    with pytest.raises(MeshError):
        find_mesh(uri)


def test_a_mesh_as_gltf(mesh):
    trimesh = pytest.importorskip("trimesh", reason="no viser: pip install viser")
    data = load_mesh(mesh, (1.0, 0.0, 0.0, 0.5))
    scene = trimesh.load_scene(trimesh.util.wrap_as_stream(data), file_type="glb")
    np.testing.assert_allclose(scene.bounds, [(0, 0, 0), (2, 1, 0)])
    material = next(iter(scene.geometry.values())).visual.material
    np.testing.assert_allclose(material.baseColorFactor, (255, 0, 0, 128), atol=1)


def test_collada_in_its_units(tmp_path):
    trimesh = pytest.importorskip("trimesh", reason="no viser: pip install viser")
    pytest.importorskip("collada", reason="no viser: pip install pycollada")
    path = tmp_path / "part.dae"
    path.write_text(COLLADA)
    scene = trimesh.load_scene(trimesh.util.wrap_as_stream(load_mesh(path)), file_type="glb")
    np.testing.assert_allclose(scene.bounds, [(0, 0, 0), (2, 1, 0)], rtol=1e-6)


@pytest.mark.parametrize("name, content", [("a.stl", "solid nonsense"), ("a.dae", "<no/>"),
                                           ("a.xyzzy", "?"), ("a.obj", "")])
def test_a_broken_mesh_is_reported(tmp_path, name, content):
    pytest.importorskip("trimesh", reason="no viser: pip install viser")
    path = tmp_path / name
    path.write_text(content)
    with pytest.raises(MeshError, match=name):
        load_mesh(path)
