# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Markers of visualization_msgs as viser's scene nodes.

The markers of the nodes of this package have a scene node each. The browser moves scene nodes in
the frame in which it receives their poses, as it does the links of the robot; it applies all other
changes one frame later. The pose of such a node therefore contains the motion of its marker, and
the rest is its shape, which is sent again only if it changes visibly.

Of other markers, those of one topic, namespace and frame that look alike are instances of one node.
A message is sent to the browser as a few arrays, regardless of the number of markers.
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
from . import glyphs, marker_arrays
from .legend import LEGEND_BY_FAMILY, is_shown_at_first
from .scene import draw_shape, wxyz

if TYPE_CHECKING:
    import trimesh
    import viser
    from visualization_msgs.msg import Marker, MarkerArray

SHAPE = 1e-3  # smaller changes of a shape are not sent [m]
SHADE = 3  # smaller changes of a color are not sent; of 255
MOST_IDLE = 100  # nodes that are kept without markers
MOVED = 1e-6  # smaller changes of a pose are not sent [m], [1]

MarkerKey: TypeAlias = tuple[str, str, int]
"""Identifies a marker: topic, namespace, id."""

Values: TypeAlias = dict[str, Any]
"""Arrays with a row for each instance, and values common to all instances, by name."""

Sent: TypeAlias = tuple[Values, Callable[..., Any]]


class NodeKey(NamedTuple):
    """Identifies the node of markers that look alike, below the scene node `parent` of their frame.

    `style` is what the instances of the node have in common, see `Glyph`; `id` is that of a marker
    that has a node of its own.
    """

    topic: str
    namespace: str
    parent: str
    style: tuple[str | float, ...]
    id: int | None


class _Received(NamedTuple):
    """A marker as received, and the end of its lifetime [s]."""

    marker: Marker
    end: float


def family(key: MarkerKey) -> tuple[str, str]:
    """Topic, and namespace up to its first slash: what users show and hide."""
    return key[0], key[1].partition("/")[0]


def _named(key: MarkerKey) -> str:
    return f"marker {key[1]}/{key[2]} of {key[0]}"


class Drawing:
    """The markers of all topics, and the scene nodes that show them.

    `node_of` returns the name of the scene node of a frame_id, or raises a ValueError.
    """

    def __init__(
        self, scene: viser.SceneApi, node_of: Callable[[str], str], folders: Folders = ()
    ) -> None:
        self._scene, self._node_of, self._folders = scene, node_of, folders
        self._received: dict[MarkerKey, _Received] = {}
        self._node_keys: dict[MarkerKey, NodeKey] = {}  # of those that are not hidden
        self._nodes: dict[NodeKey, Node] = {}
        self._changed: set[NodeKey] = set()
        self._late: frozenset[str] = frozenset()  # topics
        self._problems: list[str] = []
        self._count = itertools.count()
        # whether it is shown, of every (topic, family) seen so far, in order of appearance
        self.families: dict[tuple[str, str], bool] = {}

    def __len__(self) -> int:
        return len(self._received)

    def receive(self, topic: str, array: MarkerArray, now: float) -> list[str]:
        """Process a MarkerArray at a time [s]; return what cannot be shown, with the reason."""
        for marker in array.markers:
            key = topic, marker.ns, marker.id
            if marker.action == marker_arrays.ADD:
                lifetime = marker.lifetime.sec + 1e-9 * marker.lifetime.nanosec
                self._received[key] = _Received(
                    marker, now + lifetime if lifetime > 0.0 else math.inf
                )
                if self.families.setdefault(family(key), is_shown_at_first(family(key)[1])):
                    self._place(key)
            elif marker.action == marker_arrays.DELETE:
                self._delete(key)
            elif marker.action == marker_arrays.DELETEALL:
                self.clear(topic)
            else:
                self._problems.append(f"{_named(key)}: unknown action {marker.action}")
        problems, self._problems = self._problems, []
        return problems

    def clear(self, topic: str | None = None) -> None:
        for key in [key for key in self._received if topic in (None, key[0])]:
            self._delete(key)
        for at, node in self._nodes.items():
            if topic in (None, at.topic):
                node.lasts = False
                self._changed.add(at)

    def _place(self, key: MarkerKey) -> None:
        """Assign a marker to the node of those that look like it."""
        marker = self._received[key].marker
        try:
            look = glyphs.read(marker)
            if family(key)[1] in LEGEND_BY_FAMILY:
                look = look.in_own_frame()
            at = NodeKey(
                *key[:2],
                self._node_of(marker.header.frame_id),
                look.style,
                key[2] if look.alone else None,
            )
        except ValueError as error:
            self._delete(key)
            self._problems.append(f"{_named(key)}: {error}")
            return
        if self._node_keys.get(key) != at:
            self._displace(key)
            self._node_keys[key] = at
        if at not in self._nodes:
            self._nodes[at] = Node(f"{at.parent}/markers{next(self._count)}", look.kind)
        self._nodes[at].markers[key] = look
        self._nodes[at].lasts = look.pose is not None
        self._changed.add(at)

    def _displace(self, key: MarkerKey) -> None:
        at = self._node_keys.pop(key, None)
        if at is not None:
            del self._nodes[at].markers[key]
            self._changed.add(at)

    def _delete(self, key: MarkerKey) -> None:
        self._received.pop(key, None)
        self._displace(key)

    def show(self, topic: str, name: str, visible: bool) -> None:
        """Show or hide the markers of a family; what is hidden is not sent to browsers."""
        self.families[topic, name] = visible
        for key in [key for key in self._received if family(key) == (topic, name)]:
            if visible:
                self._place(key)
            else:
                self._displace(key)

    def hide_late(self, topics: Set[str]) -> None:
        """Hide the markers of these topics, and show all others, until the next call."""
        changed = self._late.symmetric_difference(topics)
        self._late = frozenset(topics)
        for at, node in self._nodes.items():
            if at.topic in changed and node.handle is not None:
                node.handle.visible = at.topic not in topics and any(
                    look.shown for look in node.markers.values()
                )

    def draw(self, now: float) -> list[str]:
        """Send what has changed; return what cannot be shown, with the reason."""
        for key in [key for key, received in self._received.items() if received.end < now]:
            self._delete(key)
        problems, self._problems = self._problems, []
        for at in self._changed:
            try:
                self._draw(self._nodes[at], visible=at.topic not in self._late)
            except MeshError as error:
                problems.append(f"marker {at.namespace} of {at.topic}: {error}")
            if not self._nodes[at].markers and not self._nodes[at].lasts:
                del self._nodes[at]
        self._changed.clear()
        idle = [at for at, node in self._nodes.items() if not node.markers]
        if len(idle) > MOST_IDLE:
            for at in idle:
                self._nodes.pop(at).remove()
        return problems

    def _draw(self, node: Node, visible: bool) -> None:
        parts = [look.parts for look in node.markers.values() if look.shown]
        if not parts:
            if not node.lasts:
                node.remove()
            elif node.handle is not None:  # browsers hide it at once, but remove it later
                node.handle.visible = False
            return
        values = {
            name: np.concatenate([part[name] for part in parts])
            if isinstance(parts[0][name], np.ndarray)
            else parts[0][name]
            for name in parts[0]
        }
        node.send(*DRAWS[node.kind](self._scene, node.kind, values, self._folders))
        pose = next(iter(node.markers.values())).pose
        if pose is not None:
            node.move(*pose)
        if node.handle.visible != visible:
            node.handle.visible = visible


class Node:
    """Markers that look alike, and the scene node that shows them."""

    def __init__(self, name: str, kind: str) -> None:
        self.name, self.kind = name, kind
        self.handle: Any = None  # one of viser's scene node handles, or None
        self.count = 0  # number of instances
        self.lasts = False  # kept without markers, until they return
        self.markers: dict[MarkerKey, glyphs.Glyph] = {}

    def send(self, given: Values, add: Callable[..., Any]) -> None:
        """Set the values of the instances; add the scene node if it has another number of them."""
        count = len(next(iter(given.values()))) if given else 0
        if self.handle is None or not given or self.count != count:
            self.count = count
            self.handle = add(name=self.name, **given)
            return
        own = any(look.pose is not None for look in self.markers.values())
        for name, value in given.items():
            if not (own and _looks_the_same(getattr(self.handle, name), value)):
                setattr(self.handle, name, value)

    def move(self, position: Array, turn: Array) -> None:
        """Set the pose of the scene node; the quaternion is scalar first."""
        if abs(self.handle.position - position).max() > MOVED:
            self.handle.position = position
        if abs(self.handle.wxyz - turn).max() > MOVED:
            self.handle.wxyz = turn

    def remove(self) -> None:
        if self.handle is not None:
            self.handle.remove()
            self.handle = None


# What a kind sends: the values of its instances, and the function that adds its node, by name


def _solids(scene: viser.SceneApi, kind: str, values: Values, folders: Folders) -> Sent:
    colors, solid = values["colors"], unit(kind)
    return {
        "batched_wxyzs": wxyz(values["axes"]),
        "batched_positions": values["centers"],
        "batched_scales": values["widths"],
        "batched_colors": _bytes(colors),
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


def _arrows(scene: viser.SceneApi, kind: str, values: Values, folders: Folders) -> Sent:
    return _segments(values), partial(
        scene.add_arrows,
        shaft_radius=0.5 * values["shaft"],
        head_radius=0.5 * values["head"],
        head_length=values["length"],
    )


def _lines(scene: viser.SceneApi, kind: str, values: Values, folders: Folders) -> Sent:
    return _segments(values), partial(scene.add_line_segments, thickness=values["width"])


def _segments(values: Values) -> Values:
    return {"points": values["ends"], "colors": _bytes(values["colors"])}


def _text(scene: viser.SceneApi, kind: str, values: Values, folders: Folders) -> Sent:
    return {}, partial(scene.add_label, **values, font_size_mode="scene", anchor="center-center")


def _triangles(scene: viser.SceneApi, kind: str, values: Values, folders: Folders) -> Sent:
    import trimesh

    vertices = values["vertices"]
    mesh = trimesh.Trimesh(
        vertices,
        np.arange(len(vertices)).reshape(-1, 3),
        process=False,
        vertex_colors=np.round(255 * values["colors"]).astype(np.uint8),
    )
    return {}, partial(scene.add_mesh_trimesh, mesh=mesh)


def _mesh(scene: viser.SceneApi, kind: str, values: Values, folders: Folders) -> Sent:
    return {}, partial(draw_shape, scene, folders=folders, **values)


def _looks_the_same(old: Array, new: Array) -> bool:
    least = SHADE if new.dtype == np.uint8 else SHAPE
    return old.shape == new.shape and bool((abs(old.astype(float) - new) < least).all())


def _bytes(colors: Array) -> NDArray[np.uint8]:
    return np.round(255.0 * np.clip(colors[..., :3], 0.0, 1.0)).astype(np.uint8)


@lru_cache
def unit(kind: str) -> trimesh.Trimesh:
    """Return the solid of width 1; a cylinder has edges, where its profile has points twice."""
    from trimesh.creation import box, revolve

    if kind == "cube":
        return box()
    if kind == "cylinder":
        profile = np.array(
            [(0.0, -0.5), (0.5, -0.5), (0.5, -0.5), (0.5, 0.5), (0.5, 0.5), (0.0, 0.5)]
        )
    else:
        angles = np.linspace(-0.5 * np.pi, 0.5 * np.pi, 17)
        profile = 0.5 * np.stack([np.cos(angles), np.sin(angles)], axis=1)
    return revolve(profile, sections=24, process=False)


DRAWS = {
    "cube": _solids,
    "sphere": _solids,
    "cylinder": _solids,
    "arrow": _arrows,
    "line": _lines,
    "text": _text,
    "triangles": _triangles,
    "mesh": _mesh,
}
