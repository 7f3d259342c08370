# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The robot on the page: its joints as scene nodes, its shapes."""

import importlib.metadata
import io
from pathlib import Path

import numpy as np
import pytest

import dyn_ros
from dyn_ros.check.meshes import MeshError
from dyn_ros.demo.run import ARM
from dyn_ros.engine.model.urdf import read_urdf

pytest.importorskip("viser", reason="no viser: pip install viser")

import trimesh

from dyn_ros.viewer.scene.scene import TRANSPARENT_OPACITY, RobotScene, load_mesh
from peer import EXAMPLE_ROBOTS, FILES

EVERY_JOINT = Path(__file__).parents[2] / "robots" / "every_joint.urdf"
SHAPES = "<visual><geometry><{}/></geometry></visual>"
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


def shown(server, xml, folders=()):
    return RobotScene(server.scene, read_urdf(xml), xml, folders)


def placement(server, node):
    """Return the placement of a node in the world, as the browser computes it, (4, 4)."""
    result = np.eye(4)
    parts = node.strip("/").split("/")
    for i in range(len(parts)):
        handle = server.scene.get_handle_by_name("/" + "/".join(parts[: i + 1]))
        w, x, y, z = handle.wxyz
        at = np.eye(4)
        at[:3, :3] = dyn_ros.SE3(_matrix(w, x, y, z), handle.position).rotation
        at[:3, 3] = handle.position
        result = result @ at
    return result


def _matrix(w, x, y, z):
    skew = np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]])
    return np.eye(3) + 2 * w * skew + 2 * skew @ skew


@pytest.mark.parametrize("path", [ARM, EVERY_JOINT], ids=["arm7", "every_joint"])
def test_frames_are_where_the_engine_says(server, path):
    robot = shown(server, path.read_text())
    model = dyn_ros.Model.from_urdf_file(path)
    data = dyn_ros.Data(model)
    q, rng = model.neutral(), np.random.default_rng(0)
    for _ in range(3):
        positions = rng.uniform(-2.0, 2.0, len(robot.names))
        for name, x in zip(robot.names, positions):
            q[model.idx_q[model.joint_index(name)]] = x
        robot.move(positions)
        places = dyn_ros.frame_placements(model, data, q)
        for name, place in zip(model.frame_names, places):
            np.testing.assert_allclose(placement(server, robot.node(name)), place, atol=1e-12)


def test_what_did_not_move_is_not_sent(server, monkeypatch):
    robot = shown(server, ARM.read_text())
    q = np.linspace(0.1, 0.7, 7)
    robot.move(q)
    sent = []
    monkeypatch.setattr(
        type(server.scene), "_queue_scene_message", lambda self, message: sent.append(message)
    )
    robot.move(q)
    assert not sent
    q[3] += 0.1
    robot.move(q)
    assert len(sent) == 1


def test_the_root_moves_with_odometry(server):
    robot = shown(server, ARM.read_text())
    robot.place((1.0, 2.0, 3.0, 0.0, 0.0, 2.0, 0.0))
    np.testing.assert_allclose(
        placement(server, robot.node("base_link")) @ (1, 0, 0, 1), (0, 2, 3, 1), atol=1e-15
    )


def nodes(server, word):
    return [name for name in server.scene._handle_from_node_name if word in name]


def test_shapes(server):
    shown(server, ARM.read_text())
    assert len(nodes(server, ":visual")) == ARM.read_text().count("<visual>")
    assert not nodes(server, ":collision") and not nodes(server, "bone")


def chain(first, second):
    return f"""<robot name="chain"><link name="a">{first}</link><link name="b">{second}</link>
      <joint name="j" type="revolute"><parent link="a"/><child link="b"/>
        <origin xyz="0 0 1"/><axis xyz="0 1 0"/>
        <limit lower="-1" upper="1" effort="1" velocity="1"/></joint></robot>"""


def test_a_capsule_is_drawn(server):
    capsule = SHAPES.format('capsule radius="0.1" length="0.5"')
    robot = shown(server, chain(capsule, capsule))
    assert not robot.problems and len(nodes(server, ":visual")) == 2 and not nodes(server, "bone")
    assert robot.envelope()[:, 2].max() > 0.34


def test_a_robot_without_shapes_has_bones(server):
    shown(server, chain("", ""))
    assert len(nodes(server, "bone")) == 3  # two balls, and a line between them


def test_a_missing_mesh_is_reported_and_the_rest_is_shown(server):
    mesh = SHAPES.format('mesh filename="package://nobody/a.stl"')
    robot = shown(server, chain(SHAPES.format('box size="1 1 1"'), mesh))
    (problem,) = robot.problems
    assert "link 'b'" in problem and "package://nobody/a.stl" in problem
    assert len(nodes(server, ":visual")) == 1
    assert nodes(server, "bone") == ["/robot/0/bone"]


def test_where_a_mesh_is_missing_the_collision_shape_replaces_it(server):
    mesh = SHAPES.format('mesh filename="package://nobody/a.stl"')
    simple = SHAPES.format('sphere radius="0.1"').replace("visual", "collision")
    robot = shown(server, chain(SHAPES.format('box size="1 1 1"'), mesh + simple))
    assert robot.problems and len(nodes(server, ":collision")) == 1 and not nodes(server, "bone")


@pytest.mark.parametrize(
    "file", ["ur_description/urdf/ur5_robot.urdf", "panda_description/urdf/panda.urdf"]
)
def test_real_meshes(server, file):
    """COLLADA of two robots."""
    try:
        share = importlib.metadata.distribution("example-robot-data").locate_file(
            "cmeel.prefix/share"
        )
    except importlib.metadata.PackageNotFoundError:
        pytest.skip("no example-robot-data")
    xml = (share / "example-robot-data" / "robots" / file).read_text()
    robot = shown(server, xml, [share])
    assert not robot.problems
    assert len(nodes(server, ":visual")) == xml.count("<visual>")


def test_a_collision_shape_without_a_visual_one_is_hidden(server):
    """It may be a box around a hand, for safety."""
    simple = SHAPES.format('sphere radius="0.1"').replace("visual", "collision")
    robot = shown(server, chain(SHAPES.format('box size="1 1 1"'), simple))
    assert not robot.problems and not nodes(server, ":collision") and not nodes(server, "bone")
    robot.show_layer("collision shapes", True)
    [bound] = nodes(server, ":bound")
    assert server.scene.get_handle_by_name(bound).visible
    robot.show_layer("collision shapes", False)
    assert not server.scene.get_handle_by_name(bound).visible


def test_frames_and_axes_are_shown_on_request(server):
    robot = shown(server, ARM.read_text())
    before = set(nodes(server, "/robot"))
    for layer in ("link frames", "joint axes"):
        robot.show_layer(layer, False)
    assert set(nodes(server, "/robot")) == before
    robot.show_layer("link frames", True)
    assert len(nodes(server, "/axes")) == len(robot.links)
    robot.show_layer("joint axes", True)
    axes = nodes(server, "/axis")
    assert len(axes) == 7
    for name, joint in zip(sorted(axes, key=len), robot.joints):
        [[start, end]] = server.scene.get_handle_by_name(name).points
        np.testing.assert_allclose(np.cross(end - start, joint.axis), 0.0, atol=1e-7)


def test_many_missing_meshes_are_one_line_with_details(server):
    missing = SHAPES.format('mesh filename="package://nobody/{}.stl"')
    robot = shown(server, chain(missing.format("a"), missing.format("b")))
    [problem] = robot.problems
    first, *details = problem.split("\n")
    assert first.startswith("2 visual shapes are not shown, the first: mesh 'package://nobody/a")
    assert "mesh_paths=" in first
    assert [line.split(":")[0] for line in details] == ["link 'a'", "link 'b'"]


@pytest.mark.parametrize("content", [TRIANGLE, COLLADA], ids=["STL", "COLLADA"])
def test_a_transparent_mesh_keeps_its_color(tmp_path, content):
    path = tmp_path / ("mesh.stl" if content is TRIANGLE else "mesh.dae")
    path.write_text(content)
    color = (1.0, 0.5, 0.0, 1.0)
    materials = []
    for opacity in (1.0, TRANSPARENT_OPACITY):
        data = load_mesh(path, color, opacity).data
        [mesh] = trimesh.load(io.BytesIO(data), file_type="glb").geometry.values()
        materials.append(mesh.visual.material)
    opaque, transparent = materials
    assert transparent.alphaMode == "BLEND" and opaque.alphaMode != "BLEND"
    assert transparent.baseColorFactor[3] == pytest.approx(255 * TRANSPARENT_OPACITY, abs=1)
    np.testing.assert_array_equal(transparent.baseColorFactor[:3], opaque.baseColorFactor[:3])


def test_transparent_shapes_replace_the_others(server):
    robot = shown(server, ARM.read_text())
    before = nodes(server, ":visual")
    for is_transparent, opacity in ((True, TRANSPARENT_OPACITY), (False, None)):
        robot.make_transparent(is_transparent)
        assert sorted(nodes(server, ":visual")) == sorted(before)
        assert {server.scene.get_handle_by_name(name).opacity for name in before} == {opacity}


def test_a_link_with_a_strange_name(server):
    robot = shown(server, chain("", "").replace('"b"', '"b/../c"'))
    robot.move(np.array([0.5]))
    assert placement(server, robot.node("b/../c"))[2, 3] == pytest.approx(1.0)


TWO_BOXES = """<robot name="boxes">
<link name="base"><visual><origin xyz="0 0 0.1"/><geometry><box size="0.2 0.2 0.2"/></geometry>
</visual></link>
<joint name="swing" type="revolute"><parent link="base"/><child link="arm"/>
<origin xyz="0 0 0.2"/><axis xyz="0 0 1"/><limit lower="-3" upper="3" effort="1" velocity="1"/>
</joint>
<link name="arm"><visual><origin xyz="0.5 0 0.1"/><geometry><box size="1 0.1 0.1"/></geometry>
</visual></link></robot>"""


@pytest.mark.parametrize(
    "angle, origin, direction, link",
    [
        (0.0, (0.5, 2.0, 0.3), (0.0, -1.0, 0.0), "arm"),
        (0.0, (0.5, 2.0, 0.3), (0.0, 1.0, 0.0), None),  # behind the camera
        (0.0, (0.5, 2.0, 0.36), (0.0, -1.0, 0.0), None),
        (0.5 * np.pi, (0.5, 2.0, 0.3), (0.0, -1.0, 0.0), None),
        (0.5 * np.pi, (3.0, 0.9, 0.3), (-20.0, 0.0, 0.0), "arm"),
        (0.0, (0.0, 0.0, 5.0), (0.0, 0.0, -1.0), "arm"),  # it is above the base
        (0.5 * np.pi, (0.08, -0.08, 5.0), (0.0, 0.0, -1.0), "base"),
        (0.0, (0.0, 0.0, 0.1), (0.0, 0.0, 1.0), "base"),  # from its inside
    ],
)
def test_the_link_at_a_ray(server, angle, origin, direction, link):
    robot = shown(server, TWO_BOXES)
    robot.place((1.0, 2.0, 3.0, 0.0, 0.0, 0.6, 0.8))  # the ray is in the root link
    robot.move([angle])
    assert robot.link_at(np.array(origin), np.array(direction)) == link
    assert (robot.joint_of("base"), robot.joint_of("arm")) == ("", "swing")


def test_a_flat_shape_is_not_met(server, tmp_path):
    (tmp_path / "a.stl").write_text(TRIANGLE)
    uri = f"file://{tmp_path / 'a.stl'}"
    robot = shown(
        server,
        f'<robot name="flat"><link name="base">{SHAPES.format(f"""mesh filename="{uri}" """)}'
        "</link></robot>",
    )
    assert robot.link_at(np.array([0.1, 0.1, 5.0]), np.array([0.0, 0.0, -1.0])) is None


def test_an_unknown_frame(server):
    robot = shown(server, ARM.read_text())
    with pytest.raises(ValueError, match="nowhere"):
        robot.node("nowhere")


def test_it_goes_away(server):
    robot = shown(server, ARM.read_text())
    robot.node("tool")
    robot.remove()
    assert not nodes(server, "robot")


@pytest.mark.parametrize(
    "name, tip",
    [
        ("panda", "panda_hand_tcp"),
        ("ur5", "tool0"),
        ("talos_reduced", "gripper_left_"),
        ("solo12", "FL_FOOT"),
        ("tiago", "hand_"),
    ],
)
def test_the_tip_is_at_the_end_of_the_longest_chain(server, name, tip):
    """Not the last link of the description, such as a sensor at the base; of legs, the nearest."""
    xml = (EXAMPLE_ROBOTS / FILES[name]).read_text()
    tree = read_urdf(xml)
    assert RobotScene(server.scene, tree, "<robot/>").tip.startswith(tip)


def test_the_reach_is_measured_and_not_the_sum_of_all_lengths(server):
    """Drawn objects in proportion to it, such as the ball, would hide a robot that is folded."""
    tree = read_urdf((EXAMPLE_ROBOTS / FILES["tiago"]).read_text())
    assert 1.0 < RobotScene(server.scene, tree, "<robot/>").reach < 1.5


def test_a_mesh_as_gltf(tmp_path):
    mesh = tmp_path / "part.stl"
    mesh.write_text(TRIANGLE)
    data, points = load_mesh(mesh, (1.0, 0.0, 0.0, 0.5))
    scene = trimesh.load_scene(trimesh.util.wrap_as_stream(data), file_type="glb")
    assert {tuple(point) for point in points} == {(0, 0, 0), (2, 0, 0), (0, 1, 0)}
    np.testing.assert_allclose(scene.bounds, [(0, 0, 0), (2, 1, 0)])
    material = next(iter(scene.geometry.values())).visual.material
    np.testing.assert_allclose(material.baseColorFactor, (255, 0, 0, 128), atol=1)


def test_collada_in_its_units(tmp_path):
    pytest.importorskip("collada", reason="no viser: pip install pycollada")
    path = tmp_path / "part.dae"
    path.write_text(COLLADA)
    scene = trimesh.load_scene(trimesh.util.wrap_as_stream(load_mesh(path).data), file_type="glb")
    np.testing.assert_allclose(scene.bounds, [(0, 0, 0), (2, 1, 0)], rtol=1e-6)


@pytest.mark.parametrize(
    "name, content",
    [("a.stl", "solid nonsense"), ("a.dae", "<no/>"), ("a.xyzzy", "?"), ("a.obj", "")],
)
def test_a_broken_mesh_is_reported(tmp_path, name, content):
    path = tmp_path / name
    path.write_text(content)
    with pytest.raises(MeshError, match=name):
        load_mesh(path)
