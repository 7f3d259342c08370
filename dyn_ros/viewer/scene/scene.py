# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""A robot as a tree of viser's scene nodes; the browser computes the positions of its links.

The node of each moving joint is a child of its parent joint's node. A state is sent as one
rotation or one translation for each joint that moved, regardless of the links below it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ...check.hulls import Hull, measure_sphere
from ...check.meshes import Folders, MeshError, find_mesh, read_mesh
from ...check.shapes import PRIMITIVES, Color, Shape, read_shapes
from ...engine.kernel import algebra as al
from ...engine.kernel.lie import matrix_quaternion, quaternion_product
from ...engine.kernel.types import Array, ArrayLike
from ...engine.model.urdf import Frame, Joint, Tree
from .camera import CAMERA_DIRECTION
from .tree_kinematics import TreeKinematics, display_range

if TYPE_CHECKING:
    import trimesh
    import viser

MIN_MASS_FRACTION = 0.005  # joints that carry less of the robot's mass, such as fingers, are minor
MIN_JOINT_CHANGE = 1e-6  # rad, m; smaller changes are not sent
DEFAULT_SHAPE_COLOR = (0.75, 0.75, 0.78, 1.0)
DEFAULT_MESH_COLOR = (0.7, 0.7, 0.7, 1.0)
BONE_COLOR = (235, 140, 40)
LAYERS = ("collision shapes", "link frames", "joint axes")
"""Names of layers that a page can show in addition to the shapes of the links."""

COLLISION_COLOR, COLLISION_OPACITY = (1.0, 0.55, 0.1, 1.0), 0.35
TRANSPARENT_OPACITY = 0.4
AXIS_COLOR = (30, 110, 255)
MARK_SIZE = 0.08  # length of the axes of a frame / reach of the robot
MIN_MARKED_SIZE = 0.1  # m; reach of a smaller robot
SAMPLE_DIRECTIONS = np.concatenate(
    [measure_sphere(1.0)[0][::20], np.eye(3), -np.eye(3)]
)  # about 100


def scalar_first(q: Array) -> Array:
    """Convert quaternions (..., 4) from scalar last to scalar first, which viser uses."""
    return np.roll(q, 1, axis=-1)


def to_wxyz(R: ArrayLike) -> Array:
    """Convert rotation matrices (..., 3, 3) to unit quaternions (..., 4), scalar first."""
    return scalar_first(matrix_quaternion(np.asarray(R)))


class DrawnShape(NamedTuple):
    """A node with a shape of a link; `name` is the last part of the node's name."""

    handle: viser.SceneNodeHandle
    frame: Frame
    name: str
    shape: Shape


class RobotScene:
    """The scene nodes of a robot.

    `tree` is from `read_urdf` without a root joint; for `folders` see `find_mesh`. For `joints`,
    `names` and `slots` see `TreeKinematics`. `reach` is the largest distance of a point of the
    robot from the origin of the root link, with all joints at zero [m]. `problems` are the reasons
    why shapes are not shown; the first line of each is a summary.
    """

    def __init__(self, scene: viser.SceneApi, tree: Tree, xml: str, folders: Folders = ()) -> None:
        self.scene = self._scene = scene
        self._tree, self._folders = tree, folders
        self._root = scene.add_frame("/robot", show_axes=False)
        self.kinematics = kinematics = TreeKinematics(tree)
        self._tree_joints = kinematics.tree_joints
        self.joints, self.names = kinematics.joints, kinematics.names
        self.slots = kinematics.slots
        self._joint_nodes = self._add_joint_nodes()
        self._frames = {frame.name: frame for frame in tree.frames}
        self._frame_nodes: dict[str, viser.FrameHandle] = {}
        self._layers: dict[str, list[viser.SceneNodeHandle]] = {}
        self._add_shapes(xml)
        zero = np.zeros((1, len(self.names)))
        self.reach = max(
            float(np.linalg.norm(points, axis=-1).max(initial=0.0))
            for points in kinematics.points(zero)
        )
        self.move(zero[0])

    def _add_joint_nodes(self) -> list[viser.FrameHandle]:
        """Add a node for each joint, as a child of its parent joint's node; return the nodes."""
        joints = self._tree_joints
        self._node_names = ["/robot"]  # last: the root link
        nodes = []
        for i, joint in enumerate(joints):
            self._node_names.insert(i, f"{self._node_names[joint.parent]}/{i}")
            nodes.append(
                self._scene.add_frame(
                    self._node_names[i],
                    show_axes=False,
                    wxyz=to_wxyz(joint.placement[:3, :3]),
                    position=joint.placement[:3, 3],
                )
            )
        placements = np.array([joint.placement for joint in joints]).reshape(-1, 4, 4)
        R = placements[:, :3, :3]
        # joint axes in the joint's frame, and in the parent's
        self._axes = np.array([joint.axis for joint in joints]).reshape(-1, 3)
        self._parent_axes = (R @ self._axes[..., None])[..., 0]
        self._quaternions, self._origins = matrix_quaternion(R), placements[:, :3, 3]
        self._is_prismatic = [joint.kind == "prismatic" for joint in joints]
        self._shown_positions = np.zeros(len(joints))
        return nodes

    # --- shapes

    def _add_shapes(self, xml: str) -> None:
        """Draw the visual shapes.

        Collision shapes replace visual shapes that cannot be shown, also if there are no visual
        shapes at all. Bones are drawn for links whose shapes cannot be shown, or for all joints if
        no link has a shape that can be shown.
        """
        visual, self._collision, self.problems = read_shapes(xml)
        drawn_shapes = self._draw_links("visual", visual)
        drawn_links = {drawn.frame.name for drawn in drawn_shapes}
        replacements = {
            link: shapes
            for link, shapes in self._collision.items()
            if link not in drawn_links and (visual.get(link) or not drawn_links)
        }
        drawn_shapes += self._draw_links("collision", replacements)
        self._shapes = drawn_shapes
        self._hulls: list[tuple[Frame, Array]] = []  # link, and points in its joint's frame
        for drawn in drawn_shapes:
            points = extreme_points(drawn.shape, self._folders)
            X = drawn.frame.placement @ drawn.shape.placement
            points = points @ X[:3, :3].T + X[:3, 3]
            self.kinematics.add_points(drawn.frame.parent, points)
            self._hulls.append((drawn.frame, points))
        drawn_joints = {drawn.frame.parent for drawn in drawn_shapes}
        undrawn_joints = {frame.parent for frame in self._tree.links if visual.get(frame.name)}
        all_joints = range(-1, len(self._tree_joints))
        for joint in sorted(undrawn_joints - drawn_joints if drawn_joints else all_joints):
            self._add_bones(joint)

    def _draw_links(
        self, kind: str, shapes: Mapping[str, Sequence[Shape]], opacity: float = 1.0
    ) -> list[DrawnShape]:
        """Draw the shapes of all links by their names; report those that cannot be drawn."""
        drawn_shapes, failures = [], []
        for frame in self._tree.links:
            for i, shape in enumerate(shapes.get(frame.name, [])):
                name = f"{frame.name.replace('/', '|')}:{kind}{i}"
                try:
                    drawn_shapes.append(self._draw_shape(frame, name, shape, opacity))
                except MeshError as error:
                    failures.append(f"link '{frame.name}': {error}")
        if len(failures) > 1:
            first = failures[0].partition(": ")[2]
            failures.insert(0, f"{len(failures)} {kind} shapes are not shown, the first: {first}")
        if failures:
            self.problems.append("\n".join(failures))
        return drawn_shapes

    def _draw_shape(self, frame: Frame, name: str, shape: Shape, opacity: float) -> DrawnShape:
        """Draw a shape of a link; raise a `MeshError` if it cannot be drawn."""
        X = frame.placement @ shape.placement
        handle: viser.SceneNodeHandle = draw_shape(
            self._scene,
            f"{self._node_names[frame.parent]}/{name}",
            shape,
            self._folders,
            opacity,
            wxyz=to_wxyz(X[:3, :3]),
            position=X[:3, 3],
        )
        return DrawnShape(handle, frame, name, shape)

    def _add_bones(self, joint: int) -> None:
        """Show a ball at a joint (-1: at the root link), and lines to its child frames."""
        children: list[Joint | Frame] = [*self._tree_joints, *self._tree.frames]
        origins = [child.placement[:3, 3] for child in children if child.parent == joint]
        ends = np.array([end for end in origins if np.linalg.norm(end) > 1e-6]).reshape(-1, 3)
        name = self._node_names[joint]
        width = 0.1 * max([0.1, *np.linalg.norm(ends, axis=1)])
        self._scene.add_icosphere(f"{name}/bone", radius=width, color=BONE_COLOR, subdivisions=2)
        if len(ends):
            self._scene.add_line_segments(
                f"{name}/bones",
                np.stack([np.zeros_like(ends), ends], axis=1),
                BONE_COLOR,
                thickness=0.5 * width,
            )

    # --- layers

    def show_layer(self, layer: str, is_visible: bool) -> None:
        """Show or hide one of `LAYERS`, which is drawn when it is first shown."""
        if is_visible and layer not in self._layers:
            self._layers[layer] = list(self._draw_layer(layer))
        for node in self._layers.get(layer, ()):
            node.visible = is_visible

    def _draw_layer(self, layer: str) -> Iterator[viser.SceneNodeHandle]:
        """Draw a layer; yield its nodes."""
        size = MARK_SIZE * max(self.reach, MIN_MARKED_SIZE)
        if layer == "collision shapes":
            shapes = {
                link: [replace(shape, color=COLLISION_COLOR) for shape in link_shapes]
                for link, link_shapes in self._collision.items()
            }
            for drawn in self._draw_links("bound", shapes, COLLISION_OPACITY):
                yield drawn.handle
        elif layer == "link frames":
            for i, frame in enumerate(self._tree.links):
                yield self._scene.add_frame(
                    f"{self._node_names[frame.parent]}/axes{i}",
                    axes_length=size,
                    axes_radius=0.05 * size,
                    wxyz=to_wxyz(frame.placement[:3, :3]),
                    position=frame.placement[:3, 3],
                )
        else:
            for i, joint in enumerate(self._tree_joints):
                yield self._scene.add_line_segments(
                    f"{self._node_names[i]}/axis",
                    size * np.array([[-joint.axis, joint.axis]]),
                    AXIS_COLOR,
                    thickness=0.1 * size,
                )

    def make_transparent(self, is_transparent: bool) -> None:
        """Draw the shapes again, so that markers inside them can be seen."""
        opacity = TRANSPARENT_OPACITY if is_transparent else 1.0
        self._shapes = [
            self._draw_shape(drawn.frame, drawn.name, drawn.shape, opacity)
            for drawn in self._shapes
        ]

    # --- queries

    @property
    def links(self) -> list[str]:
        """The names of all links, the root link first."""
        return [link.name for link in self._tree.links]

    @property
    def tip(self) -> str:
        """The last of the links that the most joints move; minor joints do not count.

        Of several chains of as many joints, such as legs, it is the one that is nearest to the
        camera of a page that has just been opened.
        """
        joints = self._tree_joints
        carried_mass = [joint.inertia.mass for joint in joints]
        for i, joint in reversed(list(enumerate(joints))):
            if joint.parent >= 0:
                carried_mass[joint.parent] += carried_mass[i]
        total_mass = self._tree.base_inertia.mass + sum(joint.inertia.mass for joint in joints)
        origins = self.kinematics.placements(np.zeros((1, len(self.names))))[:, 0, :3, 3]
        ranks = [(0, 0.0)] * (len(joints) + 1)  # depth and nearness; last: the root link
        for i, joint in enumerate(joints):
            depth, nearness = ranks[joint.parent]
            if joint.name in self.slots and carried_mass[i] >= MIN_MASS_FRACTION * total_mass:
                depth, nearness = depth + 1, round(float(origins[i] @ CAMERA_DIRECTION), 6)
            ranks[i] = depth, nearness
        return max(reversed(self.links), key=lambda link: ranks[self._frames[link].parent])

    def node(self, frame_name: str) -> str:
        """Return the name of the node of a link or joint; child nodes move with it.

        Raise a ValueError if the robot has no such frame, as `placement` and `rotate_to_world` do.
        """
        if frame_name not in self._frames:
            raise ValueError(f"the robot has no frame '{frame_name}'")
        frame = self._frames[frame_name]
        name = self._node_names[frame.parent]
        if np.array_equal(frame.placement, np.eye(4)):
            return name
        if frame_name not in self._frame_nodes:
            self._frame_nodes[frame_name] = self._scene.add_frame(
                f"{name}/frame{list(self._frames).index(frame_name)}",
                show_axes=False,
                wxyz=to_wxyz(frame.placement[:3, :3]),
                position=frame.placement[:3, 3],
            )
        return self._frame_nodes[frame_name].name

    def placement(self, frame_name: str) -> Array:
        """Return the placement in the world of a link or joint as it is shown, (4, 4)."""
        self.node(frame_name)
        frame = self._frames[frame_name]
        X_root = _node_placement(self._root)
        X_world: Array = X_root @ self._joint_placement(frame.parent) @ frame.placement
        return X_world

    def _joint_placement(self, joint: int) -> Array:
        """Return the placement of a joint's node in the root link as it is shown, (4, 4)."""
        X = np.eye(4)
        while joint >= 0:
            X = _node_placement(self._joint_nodes[joint]) @ X
            joint = self._tree_joints[joint].parent
        return X

    def link_at(self, origin: Array, direction: Array) -> str | None:
        """Return the first link whose shapes a ray meets; None if it meets no link.

        The ray is two vectors (3,), in the root link. Of each shape, the convex hull counts.
        """
        nearest, link = math.inf, None
        for frame, points in self._hulls:
            X = np.linalg.inv(self._joint_placement(frame.parent))
            distance = distance_to_hull(
                points, X[:3, :3] @ origin + X[:3, 3], X[:3, :3] @ direction
            )
            if distance < nearest:
                nearest, link = distance, frame.name
        return link

    def joint_of(self, link: str) -> str:
        """Return the name of the joint that moves a link; "" for the root link."""
        parent = self._frames[link].parent
        return self._tree_joints[parent].name if parent >= 0 else ""

    def envelope(self, count: int = 300, extra_points: Sequence[tuple[str, Array]] = ()) -> Array:
        """Return points of the robot at zero and at random positions of the joints.

        They are (n, 3), in the root link: origins of frames, points of shapes, and `extra_points`,
        pairs of a link and a vector (3,) from its origin, in axes of the root link.
        """
        rng = np.random.default_rng(0)
        q = np.zeros((count, len(self.joints)))
        for slot, joint in enumerate(self.joints):
            q[1:, slot] = rng.uniform(*display_range(joint), count - 1)
        return self.points_at(q, extra_points)

    def points_at(self, q: Array, extra_points: Sequence[tuple[str, Array]] = ()) -> Array:
        """Return the points of `envelope` at positions (k, n) of `joints`."""
        points = self.kinematics.points(q)
        placements = self.kinematics.placements(q)
        for link, vector in extra_points:
            frame = self._frames[link]
            origins = (placements[frame.parent] @ frame.placement[:, 3])[:, :3]
            points.append(origins + vector)
        return np.concatenate([joint_points.reshape(-1, 3) for joint_points in points])

    @property
    def lowest(self) -> float:
        """Height of the lowest point with all joints at zero, relative to the root link [m]."""
        return self.lowest_at(np.zeros(len(self.names)))

    def lowest_at(self, q: Array) -> float:
        """Return the height [m] of the lowest point at positions (n,), in the root link."""
        return float(self.kinematics.heights(q[None]).min())

    def rotate_to_world(self, frame_name: str, vector: ArrayLike) -> Array:
        """Rotate a vector (3,) from the axes of a link or joint to world axes."""
        world_vector: Array = self.placement(frame_name)[:3, :3] @ np.asarray(vector)
        return world_vector

    # --- motion

    def move(self, q: ArrayLike) -> None:
        """Set the joint positions, (n,) in the order of `names`; send the changed ones."""
        if not self._tree_joints:
            return
        q = self.kinematics.all_positions(q)
        indices = np.flatnonzero(abs(q - self._shown_positions) > MIN_JOINT_CHANGE)
        if not len(indices):
            return
        half_angle = 0.5 * q[indices, None]
        rotations = np.hstack([np.sin(half_angle) * self._axes[indices], np.cos(half_angle)])
        quaternions = scalar_first(quaternion_product(self._quaternions[indices], rotations))
        origins = self._origins[indices] + q[indices, None] * self._parent_axes[indices]
        for i, quaternion, origin in zip(indices, quaternions, origins):
            if self._is_prismatic[i]:
                self._joint_nodes[i].position = origin
            else:
                self._joint_nodes[i].wxyz = quaternion
        self._shown_positions[indices] = q[indices]

    def place_joints(self, placements: Array) -> None:
        """Set the placements of all joints in their parents, (joints, 4, 4), of any kind."""
        quaternions = to_wxyz(placements[:, :3, :3])
        for node, quaternion, X in zip(self._joint_nodes, quaternions, placements):
            node.wxyz, node.position = quaternion, X[:3, 3]
        self._shown_positions[:] = np.nan  # the next `move` sets all

    def place(self, pose: Sequence[float] | Array) -> None:
        """Set the pose of the root link in the world: x y z qx qy qz qw, of any norm."""
        quaternion = np.array(pose[3:])
        self._root.position = pose[:3]
        self._root.wxyz = scalar_first(quaternion / np.linalg.norm(quaternion))

    def remove(self) -> None:
        """Remove the robot and all nodes that are attached to its links."""
        self._root.remove()


def extreme_points(shape: Shape, folders: Folders) -> Array:
    """Return the outermost points of a shape in many directions, (n, 3), in its frame.

    Raise a `MeshError` if it is a mesh that cannot be read.
    """
    if shape.kind == "mesh":
        points = load_mesh(find_mesh(shape.uri, folders), shape.color).points * shape.size
    else:
        points, _ = PRIMITIVES[shape.kind](*shape.size)
    return _select_outermost(points)


def _select_outermost(points: Array) -> Array:
    """Return the points (n, 3) that are farthest in one of `SAMPLE_DIRECTIONS`."""
    # all directions at once would take 0.9 kB for each point
    return points[np.unique([(points @ direction).argmax() for direction in SAMPLE_DIRECTIONS])]


def distance_to_hull(points: Array, origin: Array, direction: Array) -> float:
    """Return the distance to the convex hull of points (n, 3) along a ray, in its lengths.

    It is infinite if the ray misses the hull, or the points have no volume. A ray meets a convex
    body where it has entered all half-spaces before it leaves one.
    """
    from scipy.spatial import ConvexHull, QhullError

    try:
        equations = ConvexHull(points).equations  # normal . x + offset <= 0 inside
    except (QhullError, ValueError):
        return math.inf
    slopes = equations[:, :3] @ direction
    heights = equations[:, :3] @ origin + equations[:, 3]
    if (heights[slopes == 0.0] > 0.0).any():
        return math.inf
    entering, leaving = slopes < 0.0, slopes > 0.0
    enter = (-heights[entering] / slopes[entering]).max(initial=0.0)
    leave = (-heights[leaving] / slopes[leaving]).min(initial=math.inf)
    return float(enter) if enter <= leave else math.inf


def _node_placement(node: viser.SceneNodeHandle) -> Array:
    """Return the placement of a node in its parent, (4, 4)."""
    w, x, y, z = node.wxyz.tolist()
    X = np.eye(4)
    X[:3, :3] = np.reshape(al.quaternion_rotation(x, y, z, w), (3, 3))
    X[:3, 3] = node.position
    return X


def draw_shape(
    scene: viser.SceneApi,
    name: str,
    shape: Shape,
    folders: Folders,
    opacity: float = 1.0,
    **pose: Array,
) -> viser.SceneNodeHandle:
    """Draw a shape as a node; raise a `MeshError` if a mesh cannot be drawn.

    `pose` has the entries `wxyz` and `position`.
    """
    if shape.kind == "mesh":
        data = load_mesh(find_mesh(shape.uri, folders), shape.color, opacity).data
        return scene.add_glb(name, data, scale=shape.size, **pose)
    *rgb, alpha = shape.color or DEFAULT_SHAPE_COLOR
    alpha *= opacity
    properties = {
        "color": tuple(round(255 * x) for x in rgb),
        "opacity": alpha if alpha < 1.0 else None,
        **pose,
    }
    if shape.kind == "box":
        return scene.add_box(name, dimensions=shape.size, **properties)
    if shape.kind == "cylinder":
        return scene.add_cylinder(name, radius=shape.size[0], height=shape.size[1], **properties)
    if shape.kind == "sphere":
        return scene.add_icosphere(name, radius=shape.size[0], **properties)
    hull = Hull(PRIMITIVES[shape.kind](*shape.size)[0])
    return scene.add_mesh_simple(name, hull.points, hull.triangles, **properties)


class DisplayMesh(NamedTuple):
    """A mesh for the browser."""

    data: bytes  # glTF, binary
    points: Array  # (n, 3), m; the outermost vertices


@lru_cache(maxsize=256)
def load_mesh(path: Path, color: Color | None = None, opacity: float = 1.0) -> DisplayMesh:
    """Read a mesh file, in meters.

    If the file has no color, the whole mesh gets the color that is passed. Raise a `MeshError` if
    the file cannot be read.
    """
    try:
        scene = read_mesh(path)
        for mesh in scene.geometry.values():
            if not mesh.visual.defined or path.suffix.lower() == ".stl":
                rgba = color or DEFAULT_MESH_COLOR
                paint_mesh(mesh, rgba, alphaMode="BLEND" if rgba[3] < 1.0 else None)
            if opacity < 1.0:
                _make_mesh_transparent(mesh, opacity)
        points = _select_outermost(np.asarray(scene.to_mesh().vertices))
        return DisplayMesh(scene.export(file_type="glb"), points)
    except Exception as error:  # the library of each format raises its own errors
        raise MeshError(f"mesh '{path}' cannot be read: {error}") from error


def _make_mesh_transparent(mesh: trimesh.Trimesh, opacity: float) -> None:
    """Multiply the opacity of a mesh, which keeps its color or texture."""
    if mesh.visual.kind != "texture":  # colors of faces or corners become one
        paint_mesh(mesh, tuple(mesh.visual.main_color / 255.0))
    material = mesh.visual.material
    if hasattr(material, "to_pbr"):
        material = mesh.visual.material = material.to_pbr()
    factor = material.baseColorFactor
    rgba = np.array([255, 255, 255, 255] if factor is None else factor, float)
    rgba[3] *= opacity
    material.baseColorFactor, material.alphaMode = rgba.astype(np.uint8), "BLEND"


def paint_mesh(mesh: trimesh.Trimesh, color: Color, **material: Any) -> None:
    """Give a mesh a single color."""
    from trimesh.visual import TextureVisuals
    from trimesh.visual.material import PBRMaterial

    mesh.visual = TextureVisuals(
        material=PBRMaterial(
            baseColorFactor=color, metallicFactor=0.1, roughnessFactor=0.8, **material
        )
    )
