# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Markers on the page: every type, deletion, and invalid ones."""

import math
from itertools import pairwise

import numpy as np
import pytest

pytest.importorskip("viser", reason="no viser: pip install viser")
messages = pytest.importorskip("visualization_msgs.msg", reason="no ROS: run `make test`")

from geometry_msgs.msg import Point  # noqa: E402
from std_msgs.msg import ColorRGBA  # noqa: E402

from dyn_ros.viewer.scene import marker_arrays, marker_drawing  # noqa: E402
from dyn_ros.viewer.scene.marker_drawing import Drawing  # noqa: E402

Marker, MarkerArray = messages.Marker, messages.MarkerArray
POINTS = [(0.0, 0.0, 0.0), (1.0, 0.0, 0.0), (1.0, 1.0, 0.0), (0.0, 0.0, 2.0)]


def frames(name):
    if name not in ("base", "hand"):
        raise ValueError(f"there is no frame '{name}'")
    return {"base": "", "hand": "/hand"}[name]


def marker(type=Marker.SPHERE, id=0, ns="kind", frame="base", points=(), colors=(), **fields):
    made = Marker(type=type, id=id, ns=ns, **fields)
    made.header.frame_id = frame
    made.scale.x, made.scale.y, made.scale.z = 0.1, 0.2, 0.3
    made.color = ColorRGBA(r=1.0, g=0.5, b=0.0, a=0.4)
    made.pose.position.x = 3.0
    made.points = [Point(x=x, y=y, z=z) for x, y, z in points]
    made.colors = [ColorRGBA(r=r, g=g, b=b, a=a) for r, g, b, a in colors]
    return made


@pytest.fixture
def drawing(server):
    server.scene.add_frame("/hand", show_axes=False, position=(0.0, 0.0, 9.0))
    return Drawing(server.scene, frames)


def take(drawing, *all, now=0.0, topic="markers"):
    """Take and draw; return what could not be shown."""
    problems = drawing.receive(topic, MarkerArray(markers=list(all)), now)
    return problems + drawing.draw(now)


def nodes(drawing):
    return [node.handle for node in drawing._nodes.values()]


def test_the_types_are_those_of_the_message():
    for name in (
        "ARROW",
        "CUBE",
        "SPHERE",
        "CYLINDER",
        "LINE_STRIP",
        "LINE_LIST",
        "CUBE_LIST",
        "SPHERE_LIST",
        "POINTS",
        "TEXT_VIEW_FACING",
        "MESH_RESOURCE",
        "TRIANGLE_LIST",
        "ADD",
        "DELETE",
        "DELETEALL",
    ):
        assert getattr(marker_arrays, name) == getattr(Marker, name)


@pytest.mark.parametrize("type", [Marker.SPHERE, Marker.CUBE, Marker.CYLINDER])
def test_solids(drawing, type):
    upright, turned = marker(type), marker(type, id=1)
    turned.pose.orientation.w, turned.pose.orientation.z = math.sqrt(0.5), math.sqrt(0.5)
    assert not take(drawing, upright, turned)
    (node,) = nodes(drawing)
    np.testing.assert_allclose(node.batched_positions, [(3, 0, 0)] * 2)
    np.testing.assert_allclose(node.batched_scales, [(0.1, 0.2, 0.3)] * 2, rtol=1e-6)
    np.testing.assert_allclose(
        node.batched_wxyzs, [(1, 0, 0, 0), (math.sqrt(0.5), 0, 0, math.sqrt(0.5))], atol=1e-6
    )
    np.testing.assert_array_equal(node.batched_colors, [(255, 128, 0)] * 2)
    np.testing.assert_allclose(node.batched_opacities, [0.4] * 2, rtol=1e-6)


@pytest.mark.parametrize("kind", ["sphere", "cube", "cylinder"])
def test_solids_of_size_one_face_outwards(kind):
    mesh = marker_drawing.unit_solid(kind)
    np.testing.assert_allclose(mesh.bounds, [(-0.5,) * 3, (0.5,) * 3], atol=1e-12)
    volume = {"cube": 1.0, "sphere": math.pi / 6, "cylinder": math.pi / 4}[kind]
    assert mesh.volume == pytest.approx(volume, rel=0.03)


@pytest.mark.parametrize("type", [Marker.SPHERE_LIST, Marker.CUBE_LIST, Marker.POINTS])
def test_lists_of_solids(drawing, type):
    colors = [(0.0, 0.0, 1.0, 1.0)] * 4
    assert not take(drawing, marker(type, points=POINTS, colors=colors))
    (node,) = nodes(drawing)
    np.testing.assert_allclose(node.batched_positions, np.array(POINTS) + (3, 0, 0))
    np.testing.assert_array_equal(node.batched_colors, [(0, 0, 255)] * 4)
    assert len(node.batched_scales) == 4


def test_arrows(drawing):
    by_points = marker(Marker.ARROW, points=POINTS[:2])
    by_pose = marker(Marker.ARROW, id=1)
    by_pose.pose.orientation.w, by_pose.pose.orientation.z = math.sqrt(0.5), math.sqrt(0.5)
    assert not take(drawing, by_points, by_pose)
    first, second = nodes(drawing)
    np.testing.assert_allclose(first.points, [[(3, 0, 0), (4, 0, 0)]])
    assert (first.shaft_radius, first.head_radius, first.head_length) == (0.05, 0.1, 0.3)
    np.testing.assert_allclose(second.points, [[(3, 0, 0), (3, 0.1, 0)]], atol=1e-6)
    assert (second.shaft_radius, second.head_radius) == (0.1, 0.2)


def test_lines(drawing):
    strip = marker(Marker.LINE_STRIP, points=POINTS)
    pairs = marker(Marker.LINE_LIST, id=1, points=POINTS)
    assert not take(drawing, strip, pairs)
    (node,) = nodes(drawing)
    assert node.thickness == pytest.approx(0.1)
    ends = np.array(POINTS) + (3, 0, 0)
    np.testing.assert_allclose(node.points, [*pairwise(ends), ends[:2], ends[2:]])
    assert node.colors.shape == node.points.shape


def test_a_text(drawing):
    text = marker(Marker.TEXT_VIEW_FACING, text="3 kg")
    assert not take(drawing, text)
    (node,) = nodes(drawing)
    assert (node.text, node.font_scene_height) == ("3 kg", 0.3)
    text.text = "4 kg"
    take(drawing, text)
    assert nodes(drawing)[0].text == "4 kg"


def test_triangles(drawing):
    assert not take(drawing, marker(Marker.TRIANGLE_LIST, points=POINTS[:3]))
    assert len(nodes(drawing)) == 1


def test_a_mesh(drawing, tmp_path):
    path = tmp_path / "a.stl"
    path.write_text(
        "solid a\nfacet normal 0 0 1\nouter loop\nvertex 0 0 0\nvertex 1 0 0\n"
        "vertex 0 1 0\nendloop\nendfacet\nendsolid a\n"
    )
    assert not take(drawing, marker(Marker.MESH_RESOURCE, mesh_resource=path.as_uri()))
    (node,) = nodes(drawing)
    np.testing.assert_allclose(node.position, (3, 0, 0))
    (problem,) = take(
        drawing, marker(Marker.MESH_RESOURCE, id=1, mesh_resource="package://no/a.stl")
    )
    assert "package://no/a.stl" in problem


def test_many_that_look_alike_are_one_node(drawing):
    assert not take(drawing, *(marker(id=i) for i in range(100)))
    (node,) = nodes(drawing)
    assert len(node.batched_positions) == 100


def test_a_change_is_sent_alone(drawing, monkeypatch):
    take(drawing, *(marker(id=i) for i in range(3)))
    sent = []
    monkeypatch.setattr(
        type(drawing._scene), "_queue_scene_message", lambda self, message: sent.append(message)
    )
    take(drawing, *(marker(id=i) for i in range(3)))
    assert not sent
    moved = marker(id=1)
    moved.pose.position.y = 1.0
    take(drawing, moved)
    (update,) = sent
    assert list(update.updates) == ["batched_positions"]


def test_delete_and_delete_all(drawing):
    take(drawing, marker(id=0), marker(id=1), marker(id=2, ns="other"))
    take(drawing, marker(id=3), topic="another")
    take(drawing, marker(id=0, action=Marker.DELETE), marker(id=9, action=Marker.DELETE))
    assert [len(node.batched_positions) for node in nodes(drawing)] == [1, 1, 1]
    take(drawing, Marker(action=Marker.DELETEALL))
    assert len(drawing) == 1 and len(nodes(drawing)) == 1
    take(drawing, Marker(action=Marker.DELETEALL), topic="another")
    assert len(drawing) == 0 and not nodes(drawing)
    assert not [name for name in drawing._scene._handle_from_node_name if "markers" in name]


def test_lifetime(drawing):
    brief, lasting = marker(id=0), marker(id=1)
    brief.lifetime.sec, brief.lifetime.nanosec = 1, 500_000_000
    take(drawing, brief, lasting, now=10.0)
    drawing.draw(11.4)
    assert len(drawing) == 2
    take(drawing, brief, now=11.4)
    drawing.draw(12.8)
    assert len(drawing) == 2
    drawing.draw(13.0)
    assert len(drawing) == 1
    assert len(nodes(drawing)[0].batched_positions) == 1


def test_they_move_with_their_frame(drawing):
    take(drawing, marker(frame="hand"))
    assert nodes(drawing)[0].name.startswith("/hand/")
    take(drawing, marker(frame="base"))
    (node,) = nodes(drawing)
    assert not node.name.startswith("/hand/")


@pytest.mark.parametrize(
    "spoil, words",
    [
        (lambda m: setattr(m.pose.position, "y", math.nan), "a number is not finite"),
        (lambda m: setattr(m.scale, "x", math.inf), "a number is not finite"),
        (lambda m: setattr(m.pose.orientation, "w", math.nan), "orientation is not finite"),
        (lambda m: setattr(m.color, "r", math.nan), "a number is not finite"),
        (lambda m: setattr(m.header, "frame_id", "nowhere"), "nowhere"),
        (lambda m: setattr(m, "type", 77), "77"),
        (lambda m: setattr(m, "action", 77), "77"),
        (lambda m: (setattr(m, "type", Marker.LINE_LIST), setattr(m, "points", [Point()])), "1"),
        (
            lambda m: (setattr(m, "type", Marker.TRIANGLE_LIST), setattr(m, "points", [Point()])),
            "1",
        ),
        (lambda m: (setattr(m, "type", Marker.ARROW), setattr(m, "points", [Point()])), "1"),
        (
            lambda m: (
                setattr(m, "type", Marker.POINTS),
                setattr(m, "points", [Point()]),
                setattr(m, "colors", [ColorRGBA()] * 2),
            ),
            "2 colors",
        ),
        (
            lambda m: (
                setattr(m, "type", Marker.LINE_STRIP),
                setattr(m, "points", [Point(), Point(x=math.nan)]),
            ),
            "a point",
        ),
    ],
)
def test_a_bad_marker_is_reported_and_the_others_are_shown(drawing, spoil, words):
    bad = marker(id=1)
    spoil(bad)
    (problem,) = take(drawing, marker(id=0), bad, marker(id=2))
    assert "kind/1 of markers" in problem and words in problem
    assert len(drawing) == 2


@pytest.mark.parametrize("type", range(12))
def test_an_empty_one_of_each_type_is_harmless(drawing, type):
    take(drawing, Marker(type=type, header=marker().header))
    take(drawing, Marker(type=type, header=marker().header))


def test_a_quaternion_that_is_not_set_is_no_turn(drawing):
    unset = marker()
    unset.pose.orientation.w = 0.0
    assert not take(drawing, unset)
    np.testing.assert_allclose(nodes(drawing)[0].batched_wxyzs, [(1, 0, 0, 0)])


def test_hidden_ones_stay_hidden_and_are_not_sent(drawing):
    take(drawing, marker(), marker(ns="kind/part"), marker(ns="other"))
    assert list(drawing.families) == [("markers", "kind"), ("markers", "other")]
    drawing.show("markers", "kind", False)
    drawing.draw(0.0)
    assert len(nodes(drawing)) == 1 and len(drawing) == 3
    take(drawing, marker(id=1), marker(Marker.CUBE, ns="kind/more"))
    assert len(nodes(drawing)) == 1 and len(drawing) == 5
    drawing.show("markers", "kind", True)
    drawing.draw(0.0)
    assert sorted(len(node.batched_positions) for node in nodes(drawing)) == [1, 1, 1, 2]
    assert all(node.visible for node in nodes(drawing))


def test_kinds_that_are_not_shown_at_first(drawing):
    take(drawing, marker(ns="com"), marker(ns="inertia"), marker(ns="inertia", id=1))
    assert drawing.families == {("markers", "com"): True, ("markers", "inertia"): False}
    assert len(nodes(drawing)) == 1
    drawing.show("markers", "inertia", True)
    drawing.draw(0.0)
    assert [len(node.batched_positions) for node in nodes(drawing)] == [1, 1, 1]


def test_a_hidden_one_that_cannot_be_shown_is_reported_when_it_is(drawing):
    assert not take(drawing, marker(ns="inertia", frame="nowhere"))
    drawing.show("markers", "inertia", True)
    (problem,) = drawing.draw(0.0)
    assert "inertia/0 of markers" in problem and "nowhere" in problem


def test_late_topics_are_hidden_until_they_are_not(drawing):
    take(drawing, marker())
    take(drawing, marker(), topic="another")
    drawing.hide_late({"another"})
    assert [node.visible for node in nodes(drawing)] == [True, False]
    take(drawing, marker(type=Marker.CUBE, id=1), topic="another")
    assert [node.visible for node in nodes(drawing)] == [True, False, False]
    drawing.hide_late(frozenset())
    assert all(node.visible for node in nodes(drawing))


def in_world(node, points):
    """Points in the frame of a node, as the browser draws them."""
    w, *u = node.wxyz
    t = 2.0 * np.cross(u, points)
    return points + w * t + np.cross(u, t) + node.position


def arrow_marker(start, end):
    made = marker(Marker.ARROW, ns="contact", points=[start, end])
    made.pose.position.x = 0.0
    made.scale.x, made.scale.y, made.scale.z = 0.01, 0.02, 0.04
    return made


def arc_marker(center, axis, angle, color=(1.0, 0.5, 0.0, 1.0)):
    first = np.cross(axis, (0.3, -0.8, 0.5))
    first /= np.linalg.norm(first)
    angles = np.linspace(0.0, angle, 20)[:, None]
    points = center + 0.1 * (np.cos(angles) * first + np.sin(angles) * np.cross(axis, first))
    made = marker(Marker.LINE_STRIP, ns="torque", points=points.tolist())
    made.pose.position.x = 0.0
    made.color = ColorRGBA(**dict(zip("rgba", color)))
    return made


def points_of(made):
    return np.array([(p.x, p.y, p.z) for p in made.points])


@pytest.mark.parametrize("seed", range(3))
def test_the_motion_of_known_kinds_is_in_the_poses_of_their_nodes(drawing, seed):
    rng = np.random.default_rng(seed)
    drawing.show("markers", "contact", True)
    for _ in range(3):
        start, end = rng.normal(size=(2, 3))
        axis = rng.normal(size=3) / 2.0
        axis /= np.linalg.norm(axis)
        ball = marker(ns="com")
        ball.pose.position.y = rng.normal()
        arrow, arc = arrow_marker(start, end), arc_marker(start, axis, 2.0)
        assert not take(drawing, ball, arrow, arc)
        com, straight, curved = nodes(drawing)
        np.testing.assert_allclose(com.position, (3.0, ball.pose.position.y, 0.0), atol=2e-6)
        np.testing.assert_allclose(in_world(straight, straight.points[0]), [start, end], atol=2e-3)
        ends = in_world(curved, curved.points.reshape(-1, 3)).reshape(-1, 2, 3)
        np.testing.assert_allclose([*ends[:, 0], ends[-1, 1]], points_of(arc), atol=2e-3)


def test_a_rigid_motion_is_sent_as_poses_alone(drawing, monkeypatch):
    axis = np.array([0.0, 0.0, 1.0])
    arc = [
        arc_marker(np.array([x, 0.0, 1.0]), axis, 2.0, (1.0, 0.5 + x / 1000.0, 0.0, 1.0))
        for x in (0.0, 0.4)
    ]
    take(drawing, marker(ns="com"), arc[0])
    sent = []
    monkeypatch.setattr(
        type(drawing._scene), "_queue_scene_message", lambda self, message: sent.append(message)
    )
    moved = marker(ns="com")
    moved.pose.position.y = 1.0
    take(drawing, moved, arc[1])
    assert [type(message).__name__ for message in sent] == ["SetPositionMessage"] * 2


def test_a_change_of_shape_is_sent(drawing):
    drawing.show("markers", "contact", True)
    take(drawing, arrow_marker((0.0, 0.0, 0.0), (0.0, 0.0, 1.0)))
    assert not take(drawing, arrow_marker((0.0, 0.0, 0.0), (0.0, 0.5, 0.0)))
    (node,) = nodes(drawing)
    np.testing.assert_allclose(in_world(node, node.points[0]), [(0, 0, 0), (0, 0.5, 0)], atol=1e-6)


def test_a_straight_strip_and_an_arrow_of_no_length(drawing):
    strip = marker(Marker.LINE_STRIP, ns="torque", points=[(0, 0, 0), (0, 0, 1), (0, 0, 2)])
    point = marker(Marker.ARROW, ns="contact", points=[(0, 0, 0), (0, 0, 0)])
    drawing.show("markers", "contact", True)
    assert not take(drawing, strip, point)
    assert len(nodes(drawing)) == 2
    assert all(np.isfinite(node.wxyz).all() for node in nodes(drawing))


def test_a_known_kind_that_comes_and_goes_keeps_its_node(drawing):
    take(drawing, marker(ns="com"))
    (node,) = nodes(drawing)
    take(drawing, marker(ns="com", action=Marker.DELETE))
    assert nodes(drawing) == [node] and not node.visible and len(drawing) == 0
    drawing.hide_late({"markers"})
    drawing.hide_late(frozenset())
    assert not node.visible
    take(drawing, marker(ns="com"))
    assert nodes(drawing) == [node] and node.visible
    take(drawing, Marker(action=Marker.DELETEALL))
    assert not nodes(drawing) and node._impl.removed


def test_the_number_of_nodes_that_are_kept_is_bounded(drawing):
    for id in range(2 * marker_drawing.MAX_IDLE_NODES):
        take(drawing, marker(ns="com", id=id), marker(ns="com", id=id - 1, action=Marker.DELETE))
    assert len(nodes(drawing)) <= marker_drawing.MAX_IDLE_NODES + 1


def test_texts_for_rviz_are_left_out(server):
    """The page has plots and a legend of its own."""
    drawing = Drawing(server.scene, lambda frame: "")
    take(
        drawing,
        *(marker(ns=ns, type=9, text="a") for ns in ("torque/numbers", "legend", "mine/legend")),
    )
    assert drawing.families == {("markers", "mine"): True}
