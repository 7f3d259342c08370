# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""A robot as a tree of viser's scene nodes; the browser computes the positions of its links.

The node of each moving joint is a child of its parent joint's node. A state is sent as one
rotation or one translation for each joint that moved, regardless of the links below it.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ...check.hulls import sphere
from ...check.meshes import Folders, MeshError, find_mesh, read_mesh
from ...check.shapes import PRIMITIVES, Color, Shape, read_shapes
from ...engine.kernel import algebra as al
from ...engine.kernel.lie import matrix_quaternion, quaternion_product
from ...engine.kernel.types import Array, ArrayLike
from ...engine.model.urdf import Frame, Tree
from .camera import DIRECTION
from .tree_kinematics import TreeKinematics, stroke

if TYPE_CHECKING:
    import trimesh
    import viser

LIGHT = 0.005  # joints that carry less of the robot's mass, such as fingers, are minor
MOVED = 1e-6  # smaller motions of a joint are not sent [rad, m]
GRAY = (0.75, 0.75, 0.78, 1.0)
BONE = (235, 140, 40)
# in which a shape is measured: about a hundred
AROUND = np.concatenate([sphere(1.0)[0][::20], np.eye(3), -np.eye(3)])


def scalar_first(q: Array) -> Array:
    """Convert quaternions (..., 4) from scalar last to scalar first, which viser uses."""
    return np.roll(q, 1, axis=-1)


def wxyz(R: ArrayLike) -> Array:
    """Convert rotation matrices (..., 3, 3) to unit quaternions (..., 4), scalar first."""
    return scalar_first(matrix_quaternion(np.asarray(R)))


class RobotScene:
    """Shows a robot, and moves it.

    `tree` is from `read_urdf` without a root joint; for `folders` see `find_mesh`. `names` and
    `joints` are those with a coordinate of their own: of one degree of freedom, except mimic
    joints; `slots` are their indices by name. `reach` is the largest distance from the origin of
    the root, with all joints at zero [m], `problems` what is not shown, with the reason.
    """

    def __init__(self, scene: viser.SceneApi, tree: Tree, xml: str, folders: Folders = ()) -> None:
        self.scene = self._scene = scene
        self._tree, self._folders = tree, folders
        self._root = scene.add_frame("/robot", show_axes=False)
        self.kinematics = kinematics = TreeKinematics(tree)
        self._moving = kinematics.moving
        self.joints, self.names = kinematics.joints, kinematics.names
        self.slots = kinematics.slots
        self._nodes = self._add_joints()
        self._frames = {frame.name: frame for frame in tree.frames}
        self._added: dict[str, viser.FrameHandle] = {}
        self.problems: list[str] = []
        self._add_shapes(xml)
        zero = np.zeros((1, len(self.names)))
        self.reach = max(
            float(np.linalg.norm(points, axis=-1).max(initial=0.0))
            for points in kinematics.points(zero)
        )
        self.move(zero[0])

    def _add_joints(self) -> list[viser.FrameHandle]:
        self._paths = ["/robot"]  # of the joints; the last one is the root link's
        nodes = []
        for i, joint in enumerate(self._moving):
            self._paths.insert(i, f"{self._paths[joint.parent]}/{i}")
            nodes.append(
                self._scene.add_frame(
                    self._paths[i],
                    show_axes=False,
                    wxyz=wxyz(joint.placement[:3, :3]),
                    position=joint.placement[:3, 3],
                )
            )
        placements = np.array([joint.placement for joint in self._moving]).reshape(-1, 4, 4)
        axes = np.array([joint.axis for joint in self._moving]).reshape(-1, 3)
        self._turn, self._axes = matrix_quaternion(placements[:, :3, :3]), axes
        self._origin = placements[:, :3, 3]
        self._slide = (placements[:, :3, :3] @ axes[..., None])[..., 0]
        self._slides = [joint.kind == "prismatic" for joint in self._moving]
        self._shown = np.zeros(len(self._moving))
        return nodes

    # --- shapes

    def _add_shapes(self, xml: str) -> None:
        visual, collision, problems = read_shapes(xml)
        self.problems += problems
        drawn: set[int] = set()
        bare: set[int] = set()
        for frame in self._tree.links:
            shapes = visual.get(frame.name, []), collision.get(frame.name, [])
            for kind, of_link in zip(("visual", "collision"), shapes):
                shown = [
                    self._add_shape(frame, f"{kind}{i}", shape) for i, shape in enumerate(of_link)
                ]
                if any(shown):
                    drawn.add(frame.parent)
                    break
            else:
                if any(shapes):
                    bare.add(frame.parent)
        for joint in sorted(bare - drawn if drawn else range(-1, len(self._moving))):
            self._add_bones(joint)

    def _add_shape(self, frame: Frame, name: str, shape: Shape) -> bool:
        placed = frame.placement @ shape.placement
        name = f"{self._paths[frame.parent]}/{frame.name.replace('/', '|')}:{name}"
        place = {"wxyz": wxyz(placed[:3, :3]), "position": placed[:3, 3]}
        try:
            draw_shape(self._scene, name, shape, self._folders, **place)
            points = extreme_points(shape, self._folders)
            self.kinematics.add(frame.parent, points @ placed[:3, :3].T + placed[:3, 3])
        except MeshError as error:
            self.problems.append(f"link '{frame.name}': {error}")
            return False
        return True

    def _add_bones(self, joint: int) -> None:
        """Show a ball at a joint (-1: at the root), and lines to its child frames."""
        origins = [shape.placement[:3, 3] for shape in self._moving if shape.parent == joint]
        origins += [frame.placement[:3, 3] for frame in self._tree.frames if frame.parent == joint]
        ends = np.array([end for end in origins if np.linalg.norm(end) > 1e-6]).reshape(-1, 3)
        path = self._paths[joint]
        width = 0.1 * max([0.1, *np.linalg.norm(ends, axis=1)])
        self._scene.add_icosphere(f"{path}/bone", radius=width, color=BONE, subdivisions=2)
        if len(ends):
            self._scene.add_line_segments(
                f"{path}/bones",
                np.stack([np.zeros_like(ends), ends], axis=1),
                BONE,
                thickness=0.5 * width,
            )

    # --- queries

    @property
    def links(self) -> list[str]:
        return [link.name for link in self._tree.links]

    @property
    def tip(self) -> str:
        """The last of the links that the most joints move, minor ones not counted.

        Of several chains of as many joints, such as legs, it is the one that is nearest to the
        camera of a page that has just been opened.
        """
        carried = [joint.inertia.mass for joint in self._moving]
        for i, joint in reversed(list(enumerate(self._moving))):
            if joint.parent >= 0:
                carried[joint.parent] += carried[i]
        whole = self._tree.base_inertia.mass + sum(joint.inertia.mass for joint in self._moving)
        places = self.kinematics.places(np.zeros((1, len(self.names))))[:, 0, :3, 3]
        ends = [(0, 0.0)] * (len(self._moving) + 1)  # depth and nearness; last: the root link
        for i, joint in enumerate(self._moving):
            major = joint.name in self.slots and carried[i] >= LIGHT * whole
            depth, near = ends[joint.parent]
            if major:
                depth, near = depth + 1, round(float(places[i] @ DIRECTION), 6)
            ends[i] = depth, near
        return max(reversed(self.links), key=lambda link: ends[self._frames[link].parent])

    def node(self, frame: str) -> str:
        """Return the name of the node of a link or joint; child nodes move with it.

        A ValueError if the robot has no such frame, as in `placement` and `to_world`.
        """
        if frame not in self._frames:
            raise ValueError(f"the robot has no frame '{frame}'")
        at = self._frames[frame]
        path = self._paths[at.parent]
        if np.array_equal(at.placement, np.eye(4)):
            return path
        if frame not in self._added:
            path = f"{path}/frame{list(self._frames).index(frame)}"
            self._added[frame] = self._scene.add_frame(
                path, show_axes=False, wxyz=wxyz(at.placement[:3, :3]), position=at.placement[:3, 3]
            )
        return self._added[frame].name

    def placement(self, frame: str) -> Array:
        """Return the placement in the world of a link or joint as it is shown, (4, 4)."""
        self.node(frame)
        at = self._frames[frame]
        result, joint = at.placement, at.parent
        while joint >= 0:
            result = _pose(self._nodes[joint]) @ result
            joint = self._moving[joint].parent
        world: Array = _pose(self._root) @ result
        return world

    def envelope(self, count: int = 300, more: Sequence[tuple[str, Array]] = ()) -> Array:
        """Return origins of frames and points of shapes at random positions of the joints.

        They are (n, 3), in the root link. The first position is zero. `more` are points to include:
        links, and (3,) from their origins, in the root link's axes.
        """
        rng = np.random.default_rng(0)
        q = np.zeros((count, len(self.joints)))
        for slot, joint in enumerate(self.joints):
            q[1:, slot] = rng.uniform(*stroke(joint), count - 1)
        return self.reached(q, more)

    def reached(self, q: Array, more: Sequence[tuple[str, Array]] = ()) -> Array:
        """Return what `envelope` does at positions (k, n) of `joints`."""
        points = self.kinematics.points(q)
        places = self.kinematics.places(q)
        for link, away in more:
            frame = self._frames[link]
            points.append((places[frame.parent] @ frame.placement[:, 3])[:, :3] + away)
        return np.concatenate([some.reshape(-1, 3) for some in points])

    @property
    def lowest(self) -> float:
        """Height of the lowest point relative to the root link, at zero [m]."""
        return self.lowest_at(np.zeros(len(self.names)))

    def lowest_at(self, q: Array) -> float:
        """Return the height [m] of the lowest point at positions (n,), in the root link."""
        return float(self.kinematics.heights(q[None]).min())

    def to_world(self, frame: str, vector: ArrayLike) -> Array:
        """Return a vector (3,) in world axes that is given in the axes of a link or joint."""
        world: Array = self.placement(frame)[:3, :3] @ np.asarray(vector)
        return world

    # --- motion

    def move(self, q: ArrayLike) -> None:
        """Set the joint positions, (n,) in the order of `names`; send those that changed."""
        if not self._moving:
            return
        q = self.kinematics.all_positions(q)
        moved = np.flatnonzero(abs(q - self._shown) > MOVED)
        if not len(moved):
            return
        half = 0.5 * q[moved, None]
        turns = scalar_first(
            quaternion_product(
                self._turn[moved], np.hstack([np.sin(half) * self._axes[moved], np.cos(half)])
            )
        )
        shifts = self._origin[moved] + q[moved, None] * self._slide[moved]
        for i, turn, shift in zip(moved, turns, shifts):
            if self._slides[i]:
                self._nodes[i].position = shift
            else:
                self._nodes[i].wxyz = turn
        self._shown[moved] = q[moved]

    def place(self, pose: Sequence[float] | Array) -> None:
        """Set the pose of the root link in the world: x y z qx qy qz qw, of any norm."""
        turn = np.array(pose[3:])
        self._root.position = pose[:3]
        self._root.wxyz = scalar_first(turn / np.linalg.norm(turn))

    def remove(self) -> None:
        """Remove the robot and all that is attached to its links."""
        self._root.remove()


def corners(shape: Shape) -> list[Array]:
    """Return the corners of the box around a shape, homogeneous; the origin of a mesh."""
    half = {
        "box": lambda size: 0.5 * np.asarray(size),
        "cylinder": lambda size: np.array([size[0], size[0], 0.5 * size[1]]),
        "sphere": lambda size: np.full(3, size[0]),
    }.get(shape.kind)
    if half is None:
        return [np.array([0.0, 0.0, 0.0, 1.0])]
    signs = np.array(np.meshgrid(*[[-1.0, 1.0]] * 3)).reshape(3, -1).T
    return [np.append(sign * half(shape.size), 1.0) for sign in signs]


def extreme_points(shape: Shape, folders: Folders) -> Array:
    """Return the outermost points of a shape in many directions, (n, 3), in its frame.

    A `MeshError` if it is a mesh that cannot be read.
    """
    if shape.kind == "mesh":
        points = load_mesh(find_mesh(shape.uri, folders), shape.color).points * shape.size
    else:
        points, _ = PRIMITIVES[shape.kind](*shape.size)
    return _outermost(points)


def _outermost(points: Array) -> Array:
    return points[np.unique((points @ AROUND.T).argmax(axis=0))]


def _pose(node: viser.SceneNodeHandle) -> Array:
    """Return the placement of a node in its parent, (4, 4)."""
    w, x, y, z = node.wxyz.tolist()
    placed = np.eye(4)
    placed[:3, :3] = np.reshape(al.quaternion_rotation(x, y, z, w), (3, 3))
    placed[:3, 3] = node.position
    return placed


def draw_shape(
    scene: viser.SceneApi, name: str, shape: Shape, folders: Folders, **place: Array
) -> viser.SceneNodeHandle:
    """Draw a shape as a node; raise a MeshError if a mesh cannot be drawn."""
    if shape.kind == "mesh":
        data = load_mesh(find_mesh(shape.uri, folders), shape.color).data
        return scene.add_glb(name, data, scale=shape.size, **place)
    *rgb, alpha = shape.color or GRAY
    paint = {
        "color": tuple(round(255 * x) for x in rgb),
        "opacity": alpha if alpha < 1.0 else None,
        **place,
    }
    if shape.kind == "box":
        return scene.add_box(name, dimensions=shape.size, **paint)
    if shape.kind == "cylinder":
        return scene.add_cylinder(name, radius=shape.size[0], height=shape.size[1], **paint)
    return scene.add_icosphere(name, radius=shape.size[0], **paint)


class Mesh(NamedTuple):
    """A mesh as glTF, and its outermost points (n, 3) [m]."""

    data: bytes
    points: Array


@lru_cache(maxsize=256)
def load_mesh(path: Path, color: Color | None = None) -> Mesh:
    """Read a mesh file (STL, OBJ, PLY, glTF, COLLADA), in meters.

    The color is that of the whole mesh if the file has none. A `MeshError` if it cannot be read.
    """
    try:
        scene = read_mesh(path)
        for mesh in scene.geometry.values():
            if not mesh.visual.defined or path.suffix.lower() == ".stl":
                rgba = color or (0.7, 0.7, 0.7, 1.0)
                paint(mesh, rgba, alphaMode="BLEND" if rgba[3] < 1.0 else None)
        points = _outermost(np.asarray(scene.to_mesh().vertices))
        return Mesh(scene.export(file_type="glb"), points)
    except Exception as error:  # the library of each format raises its own errors
        raise MeshError(f"mesh '{path}' cannot be read: {error}") from error


def paint(mesh: trimesh.Trimesh, color: Color, **material: Any) -> None:
    """Give a mesh a single color."""
    from trimesh.visual import TextureVisuals
    from trimesh.visual.material import PBRMaterial

    mesh.visual = TextureVisuals(
        material=PBRMaterial(
            baseColorFactor=color, metallicFactor=0.1, roughnessFactor=0.8, **material
        )
    )
