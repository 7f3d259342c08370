# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Markers of visualization_msgs as viser's scene nodes.

Each marker that the nodes of this package publish has a scene node of its own. The browser moves
scene nodes in the frame in which it receives their poses, as it does the links of the robot; it
applies all other changes one frame later. The pose of such a node therefore contains the motion of
its marker, and the other values its shape, which is sent again only if it changes visibly.

Other markers of one topic, namespace and frame that look alike are instances of one node. A message
is sent to the browser as a few arrays, regardless of the number of markers.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Set
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ...check.meshes import Folders, MeshError
from ...engine.kernel.types import Array
from . import marker_arrays
from .glyphs import Glyph, read_glyph
from .legend import LEGEND_BY_FAMILY, is_shown_at_first, is_text_for_rviz
from .scene import draw_shape, to_wxyz

if TYPE_CHECKING:
    import trimesh
    import viser
    from visualization_msgs.msg import Marker, MarkerArray

MIN_SHAPE_CHANGE = 1e-3  # m; smaller changes are not sent
MIN_COLOR_CHANGE = 3  # 0 to 255; smaller changes are not sent
MIN_POSE_CHANGE = 1e-6  # m, and 1 for quaternions; smaller changes are not sent
MAX_IDLE_NODES = 100  # nodes kept without markers

MarkerKey: TypeAlias = tuple[str, str, int]
"""The identity of a marker: topic, namespace, id."""

Values: TypeAlias = dict[str, Any]
"""Arrays with a row for each instance, and values common to all instances, by name."""

NodeUpdate: TypeAlias = tuple[Values, Callable[..., Any]]
"""The properties of a scene node that may change, and the function that adds the node."""


class NodeKey(NamedTuple):
    """The identity of a node of markers that look alike."""

    topic: str
    namespace: str
    parent: str  # name of the scene node of the markers' frame
    style: tuple[str | float, ...]  # see `Glyph`
    id: int | None  # None if the node shows several markers


class _ReceivedMarker(NamedTuple):
    """A marker as received."""

    marker: Marker
    end: float  # s; end of its lifetime


def marker_family(key: MarkerKey) -> tuple[str, str]:
    """Return topic and family of a marker, by which users show and hide it.

    The family is the namespace up to its first slash.
    """
    return key[0], key[1].partition("/")[0]


def _describe_marker(key: MarkerKey) -> str:
    return f"marker {key[1]}/{key[2]} of {key[0]}"


class Drawing:
    """The markers of all topics, and the scene nodes that show them.

    `frame_node` returns the name of the scene node of a frame_id, or raises a ValueError.
    `families` contains every (topic, family) received so far, in order of appearance, and whether
    it is shown.
    """

    def __init__(
        self, scene: viser.SceneApi, frame_node: Callable[[str], str], folders: Folders = ()
    ) -> None:
        self._scene, self._frame_node, self._folders = scene, frame_node, folders
        self._received: dict[MarkerKey, _ReceivedMarker] = {}
        self._node_keys: dict[MarkerKey, NodeKey] = {}  # without the markers of hidden families
        self._nodes: dict[NodeKey, MarkerNode] = {}
        self._changed: set[NodeKey] = set()
        self._late_topics: frozenset[str] = frozenset()
        self._problems: list[str] = []
        self._node_number = itertools.count()
        self.families: dict[tuple[str, str], bool] = {}

    def __len__(self) -> int:
        """Return the number of markers received and not deleted, hidden ones included."""
        return len(self._received)

    def receive(self, topic: str, array: MarkerArray, now: float) -> list[str]:
        """Process a MarkerArray at a time [s]; return a problem for each marker not shown."""
        for marker in array.markers:
            key = topic, marker.ns, marker.id
            if is_text_for_rviz(marker.ns):
                continue
            if marker.action == marker_arrays.ADD:
                lifetime = marker.lifetime.sec + 1e-9 * marker.lifetime.nanosec
                end = now + lifetime if lifetime > 0.0 else math.inf
                self._received[key] = _ReceivedMarker(marker, end)
                if self.families.setdefault(
                    marker_family(key), is_shown_at_first(marker_family(key)[1])
                ):
                    self._assign_node(key)
            elif marker.action == marker_arrays.DELETE:
                self._delete(key)
            elif marker.action == marker_arrays.DELETEALL:
                self.clear(topic)
            else:
                self._problems.append(f"{_describe_marker(key)}: unknown action {marker.action}")
        problems, self._problems = self._problems, []
        return problems

    def clear(self, topic: str | None = None) -> None:
        """Delete the markers of a topic, or all markers, and their scene nodes."""
        for key in [key for key in self._received if topic in (None, key[0])]:
            self._delete(key)
        for node_key, node in self._nodes.items():
            if topic in (None, node_key.topic):
                node.is_permanent = False
                self._changed.add(node_key)

    def _assign_node(self, key: MarkerKey) -> None:
        """Assign a marker to the node for its style; add a node if there is none."""
        marker = self._received[key].marker
        try:
            glyph = read_glyph(marker)
            if marker_family(key)[1] in LEGEND_BY_FAMILY:
                glyph = glyph.with_pose()
            node_key = NodeKey(
                *key[:2],
                self._frame_node(marker.header.frame_id),
                glyph.style,
                key[2] if glyph.needs_node else None,
            )
        except ValueError as error:
            self._delete(key)
            self._problems.append(f"{_describe_marker(key)}: {error}")
            return
        if self._node_keys.get(key) != node_key:
            self._leave_node(key)
            self._node_keys[key] = node_key
        if node_key not in self._nodes:
            label = (key[1] or key[0]).replace("/", " ")  # a slash separates levels of the tree
            name = f"{node_key.parent}/{label} {next(self._node_number)}"
            self._nodes[node_key] = MarkerNode(name, glyph.kind)
        self._nodes[node_key].glyphs[key] = glyph
        self._nodes[node_key].is_permanent = glyph.pose is not None
        self._changed.add(node_key)

    def _leave_node(self, key: MarkerKey) -> None:
        """Remove a marker from its node, if it has one."""
        node_key = self._node_keys.pop(key, None)
        if node_key is not None:
            del self._nodes[node_key].glyphs[key]
            self._changed.add(node_key)

    def _delete(self, key: MarkerKey) -> None:
        """Forget a marker, and remove it from its node."""
        self._received.pop(key, None)
        self._leave_node(key)

    def show(self, topic: str, family: str, visible: bool) -> None:
        """Show or hide the markers of a family; hidden markers are not sent to browsers."""
        self.families[topic, family] = visible
        for key in [key for key in self._received if marker_family(key) == (topic, family)]:
            if visible:
                self._assign_node(key)
            else:
                self._leave_node(key)

    def hide_late(self, topics: Set[str]) -> None:
        """Hide the markers of these topics, and show all other topics'."""
        changed_topics = self._late_topics.symmetric_difference(topics)
        self._late_topics = frozenset(topics)
        for node_key, node in self._nodes.items():
            if node_key.topic in changed_topics and node.handle is not None:
                node.handle.visible = node_key.topic not in topics and any(
                    not glyph.is_empty for glyph in node.glyphs.values()
                )

    def draw(self, now: float) -> list[str]:
        """Send changed markers at a time [s]; return a problem for each marker not shown."""
        for key in [key for key, received in self._received.items() if received.end < now]:
            self._delete(key)
        problems, self._problems = self._problems, []
        for node_key in self._changed:
            node = self._nodes[node_key]
            try:
                self._draw_node(node, visible=node_key.topic not in self._late_topics)
            except MeshError as error:
                problems.append(f"marker {node_key.namespace} of {node_key.topic}: {error}")
            if not node.glyphs and not node.is_permanent:
                del self._nodes[node_key]
        self._changed.clear()
        idle = [node_key for node_key, node in self._nodes.items() if not node.glyphs]
        if len(idle) > MAX_IDLE_NODES:
            for node_key in idle:
                self._nodes.pop(node_key).remove()
        return problems

    def _draw_node(self, node: MarkerNode, visible: bool) -> None:
        """Send the glyphs of a node; hide or remove it if there are none."""
        values = [glyph.values for glyph in node.glyphs.values() if not glyph.is_empty]
        if not values:
            if not node.is_permanent:
                node.remove()
            elif node.handle is not None:  # browsers hide it at once, but remove it later
                node.handle.visible = False
            return
        merged = {
            name: np.concatenate([glyph_values[name] for glyph_values in values])
            if isinstance(value, np.ndarray)
            else value
            for name, value in values[0].items()
        }
        node.send(*BUILDERS[node.kind](self._scene, node.kind, merged, self._folders))
        pose = next(iter(node.glyphs.values())).pose
        if pose is not None:
            node.move(*pose)
        if node.handle.visible != visible:
            node.handle.visible = visible


class MarkerNode:
    """Markers that look alike, and the scene node that shows them.

    `handle` is viser's handle of the scene node, None before it is added. A node that
    `is_permanent` is kept without markers, until they return.
    """

    def __init__(self, name: str, kind: str) -> None:
        self.name, self.kind = name, kind
        self.handle: Any = None
        self.count = 0  # instances
        self.is_permanent = False
        self.glyphs: dict[MarkerKey, Glyph] = {}

    def send(self, properties: Values, add: Callable[..., Any]) -> None:
        """Set the properties; add the scene node again if the number of instances changes."""
        count = len(next(iter(properties.values()))) if properties else 0
        if self.handle is None or not properties or self.count != count:
            self.count = count
            self.handle = add(name=self.name, **properties)
            return
        has_pose = any(glyph.pose is not None for glyph in self.glyphs.values())
        for name, value in properties.items():
            if not (has_pose and _is_visibly_equal(getattr(self.handle, name), value)):
                setattr(self.handle, name, value)

    def move(self, position: Array, quaternion: Array) -> None:
        """Set the pose of the scene node; the quaternion is scalar first."""
        if abs(self.handle.position - position).max() > MIN_POSE_CHANGE:
            self.handle.position = position
        if abs(self.handle.wxyz - quaternion).max() > MIN_POSE_CHANGE:
            self.handle.wxyz = quaternion

    def remove(self) -> None:
        """Remove the scene node, if it has been added."""
        if self.handle is not None:
            self.handle.remove()
            self.handle = None


# --- builders: functions that convert the values of glyphs of one kind to a `NodeUpdate`


def _build_solids(scene: viser.SceneApi, kind: str, values: Values, folders: Folders) -> NodeUpdate:
    colors, solid = values["colors"], unit_solid(kind)
    return {
        "batched_wxyzs": to_wxyz(values["axes"]),
        "batched_positions": values["centers"],
        "batched_scales": values["widths"],
        "batched_colors": _color_bytes(colors),
        "batched_opacities": colors[:, 3],
    }, partial(
        scene.add_batched_meshes_simple,
        vertices=solid.vertices,
        faces=solid.faces,
        lod="off",
        flat_shading=kind == "cube",
        opacity=1.0,
        cast_shadow=False,
        receive_shadow=False,
    )


def _build_arrows(scene: viser.SceneApi, kind: str, values: Values, folders: Folders) -> NodeUpdate:
    return _segment_values(values), partial(
        scene.add_arrows,
        shaft_radius=0.5 * values["shaft_width"],
        head_radius=0.5 * values["head_width"],
        head_length=values["head_length"],
    )


def _build_lines(scene: viser.SceneApi, kind: str, values: Values, folders: Folders) -> NodeUpdate:
    return _segment_values(values), partial(scene.add_line_segments, thickness=values["width"])


def _segment_values(values: Values) -> Values:
    """Return the end points and colors of arrows or lines."""
    return {"points": values["ends"], "colors": _color_bytes(values["colors"])}


def _build_text(scene: viser.SceneApi, kind: str, values: Values, folders: Folders) -> NodeUpdate:
    return {}, partial(scene.add_label, **values, font_size_mode="scene", anchor="center-center")


def _build_triangles(
    scene: viser.SceneApi, kind: str, values: Values, folders: Folders
) -> NodeUpdate:
    import trimesh

    vertices = values["vertices"]
    mesh = trimesh.Trimesh(
        vertices,
        np.arange(len(vertices)).reshape(-1, 3),
        process=False,
        vertex_colors=np.round(255 * values["colors"]).astype(np.uint8),
    )
    return {}, partial(scene.add_mesh_trimesh, mesh=mesh)


def _build_mesh(scene: viser.SceneApi, kind: str, values: Values, folders: Folders) -> NodeUpdate:
    return {}, partial(draw_shape, scene, folders=folders, **values)


def _is_visibly_equal(old: Array, new: Array) -> bool:
    """Return True if two arrays have the same shape and differ less than can be seen."""
    tolerance = MIN_COLOR_CHANGE if new.dtype == np.uint8 else MIN_SHAPE_CHANGE
    return old.shape == new.shape and bool((abs(old.astype(float) - new) < tolerance).all())


def _color_bytes(colors: Array) -> NDArray[np.uint8]:
    """Convert colors (..., 3 or 4) from 0 to 1 to bytes, without transparency."""
    return np.round(255.0 * np.clip(colors[..., :3], 0.0, 1.0)).astype(np.uint8)


@lru_cache
def unit_solid(kind: str) -> trimesh.Trimesh:
    """Return a cube, sphere or cylinder of width 1."""
    from trimesh.creation import box, revolve

    if kind == "cube":
        return box()
    if kind == "cylinder":
        # two vertices at each edge, so that it is not shaded smoothly
        profile = np.array(
            [(0.0, -0.5), (0.5, -0.5), (0.5, -0.5), (0.5, 0.5), (0.5, 0.5), (0.0, 0.5)]
        )
    else:
        angles = np.linspace(-0.5 * np.pi, 0.5 * np.pi, 17)
        profile = 0.5 * np.stack([np.cos(angles), np.sin(angles)], axis=1)
    return revolve(profile, sections=24, process=False)


BUILDERS = {
    "cube": _build_solids,
    "sphere": _build_solids,
    "cylinder": _build_solids,
    "arrow": _build_arrows,
    "line": _build_lines,
    "text": _build_text,
    "triangles": _build_triangles,
    "mesh": _build_mesh,
}
