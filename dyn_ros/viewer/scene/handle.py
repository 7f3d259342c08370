# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""An arrow with a grip at a link, by which users pull the robot."""

from __future__ import annotations

import math
import threading
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from ...engine.kernel.types import Array
from .camera import CAMERA_DIRECTION
from .glyphs import segments_frame
from .scene import paint_mesh, to_wxyz

if TYPE_CHECKING:
    import viser

    from .scene import RobotScene

HANDLE_COLOR = (230, 50, 180)  # red, green, blue; 0 to 255
REST_LENGTH = 0.2  # length of arrow at rest / reach of robot
GRIP_RADIUS = 0.032  # relative to the reach of the robot
SHAFT_RADIUS = 0.009  # relative to the reach of the robot
HEAD_LENGTH = 0.06  # relative to the reach of the robot
CAMERA_WEIGHT = 0.7  # weight of the camera's direction in the direction of the arrow at rest
MIN_UPWARD = 1.5  # upward component of this direction, because the camera looks down
RETURN_RATE = 12.0  # 1/s; rate at which a released grip returns
MIN_DISPLACEMENT = 1e-3  # m; shorter displacements count as zero
DRAG_RADIUS = 2.8  # radius of area to drag / grip, because a moving ball is hard to hit
INVITATION = "pull me"


class PushHandle:
    """A grip at the end of an arrow that points away from a link, dragged in the screen's plane.

    The displacement in the world, times `scale` [N/m], is the force; the grip stays at the pointer
    while the robot yields. While it is dragged, the arrow shows the force to scale, and a line
    connects the arrow to the grip. `rest_offset` (3,) is the vector from the link's origin to the
    grip at rest, in world axes. `force` (3,) acts on the link at its origin, in its frame [N].
    `text` is the label: the force, or `INVITATION` if it `invites` and has never been pulled.
    """

    def __init__(
        self, robot: RobotScene, gui: viser.GuiApi, link: str, scale: float, invites: bool = True
    ) -> None:
        self._robot, self.link, self.scale = robot, link, scale
        self.force, self.was_pulled = np.zeros(3), False
        self._lock = threading.Lock()
        self._grab_offset: Array | None = None  # (3,), world; from the grip's center
        self._pointer: Array | None = None  # (3,), world; None if no user drags the grip
        self._displacement = np.zeros(3)  # world; from rest
        size = max(robot.reach, 0.1)
        self.rest_offset = REST_LENGTH * size * rest_direction(robot, link)
        node, scene = robot.node(link), robot.scene
        self._grip = scene.add_frame(f"{node}/grip", show_axes=False)
        scene.add_icosphere(
            f"{node}/grip/ball", GRIP_RADIUS * size, HANDLE_COLOR, cast_shadow=False
        )
        self._drag_area = scene.add_glb(
            f"{node}/grip/around",
            invisible_ball(),
            scale=DRAG_RADIUS * GRIP_RADIUS * size,
            cast_shadow=False,
        )
        self._arrow = scene.add_arrows(
            f"{node}/pull",
            np.zeros((1, 2, 3)),
            HANDLE_COLOR,
            shaft_radius=SHAFT_RADIUS * size,
            head_radius=2.2 * SHAFT_RADIUS * size,
            head_length=HEAD_LENGTH * size,
        )
        self._line = scene.add_line_segments(
            f"{node}/grip/line",
            np.array([[np.zeros(3), (0.0, 0.0, -REST_LENGTH * size)]]),
            HANDLE_COLOR,
            thickness=0.3 * SHAFT_RADIUS * size,
            visible=False,
        )
        self.text = INVITATION if invites else ""
        self._radius = GRIP_RADIUS * size
        self._label = gui.add_html(self._label_html())
        self._drawn_vectors = np.full((3, 3), math.nan)  # grip, arrow and line, in the link
        self._draw(False)
        self._drag_area.on_drag("left")(self._on_drag)

    @property
    def is_held(self) -> bool:
        """True while a user drags the grip."""
        return self._pointer is not None

    async def _on_drag(self, event: viser.SceneNodeDragEvent[viser.GlbHandle]) -> None:
        """Follow the pointer of a user who drags the grip, or release the grip."""
        # a coroutine, so that start, motion and end of a drag are handled in order
        if event.phase == "end":
            self.let_go()
            return
        pointer = np.array(event.end_position)
        with self._lock:
            if event.phase == "start" or self._grab_offset is None:
                self._grab_offset = np.array(event.start_position) - self._grip_in_world()
            self._pointer, self.was_pulled = pointer, True

    def _grip_in_world(self) -> Array:
        """Return the center of the grip (3,), in the world."""
        origin = self._robot.placement(self.link)[:3, 3]
        center: Array = origin + self.rest_offset + self._displacement
        return center

    def let_go(self) -> None:
        """Release the grip, which ends the force."""
        with self._lock:
            self._pointer = self._grab_offset = None

    def update(self, seconds: float) -> Array:
        """Draw the handle, a time [s] after the last update; return the force."""
        with self._lock:
            if self._pointer is None or self._grab_offset is None:
                self.force = np.zeros(3)
                self._displacement = self._displacement * math.exp(-RETURN_RATE * seconds)
                if np.linalg.norm(self._displacement) < MIN_DISPLACEMENT:
                    self._displacement = np.zeros(3)
            else:
                X = self._robot.placement(self.link)
                self._displacement = self._pointer - self._grab_offset - X[:3, 3] - self.rest_offset
                self.force = self.scale * X[:3, :3].T @ self._displacement
            is_pulled = self._pointer is not None
        self._draw(is_pulled)
        return self.force

    def _draw(self, is_pulled: bool) -> None:
        """Send the label, the grip, the arrow and the line where they have changed."""
        text = "" if self.was_pulled else self.text
        newtons = float(np.linalg.norm(self.force))
        if is_pulled and newtons >= 0.5:
            text = f"{newtons:.0f} N"
        if self.text != text:
            self.text = text
            self._label.content = self._label_html()
        grip = self.rest_offset + self._displacement
        arrow = self._displacement if is_pulled else grip
        # in the link, because the grip stays where it is in the world while the link turns
        R = self._robot.placement(self.link)[:3, :3]
        vectors = np.array([grip, arrow, self.rest_offset]) @ R
        if is_pulled != self._line.visible:
            self._line.visible = is_pulled
        if not abs(vectors - self._drawn_vectors).max() <= MIN_DISPLACEMENT / 10.0:
            self._drawn_vectors = vectors
            self._grip.position = tuple(vectors[0].tolist())
            self._point_arrow(vectors[1])
            self._line.wxyz = _quaternion_along(vectors[2])

    def _label_html(self) -> str:
        """Return the label as hidden HTML, which the script page.js shows at the grip."""
        return (
            f'<div class="dyn-pull" data-node="{self._grip.name}" '
            f'data-radius="{self._radius:.4g}" hidden>{self.text}</div>'
        )

    def _point_arrow(self, tip: Array) -> None:
        """Point the arrow from the link to a tip (3,), by its pose, which browsers apply first."""
        points = np.array([[np.zeros(3), (0.0, 0.0, np.linalg.norm(tip))]])
        if abs(self._arrow.points - points).max() > MIN_DISPLACEMENT:
            self._arrow.points = points
        self._arrow.wxyz = _quaternion_along(tip)

    def remove(self) -> None:
        """Release the grip, and remove the handle from the page."""
        self.let_go()
        for node in (self._label, self._arrow, self._grip):
            node.remove()


@lru_cache
def invisible_ball() -> bytes:
    """Return a ball of radius 1 as glTF that is not drawn, but can be dragged."""
    import trimesh

    ball = trimesh.creation.icosphere(subdivisions=1)
    paint_mesh(ball, (0.0, 0.0, 0.0, 0.0), alphaMode="MASK", alphaCutoff=0.5)
    data: bytes = trimesh.Scene(ball).export(file_type="glb")
    return data


def _quaternion_along(vector: Array) -> Array:
    """Return the quaternion, scalar first, that turns z into the direction of a vector (3,)."""
    _, R = segments_frame(np.array([[np.zeros(3), vector]]))
    return to_wxyz(R)


def rest_direction(robot: RobotScene, link: str) -> Array:
    """Return the direction (3,) of the arrow at rest, a unit vector in the world.

    It points away from the other links, toward the camera of a page that has just been opened, and
    upward, because the floor is below a foot.
    """
    origin = robot.placement(link)[:3, 3]
    origins = [robot.placement(name)[:3, 3] for name in robot.links]
    outward = origin - np.mean(origins, axis=0)
    distance = float(np.linalg.norm(outward))
    outward = outward / distance if distance > 1e-6 else np.zeros(3)
    vector = outward + CAMERA_WEIGHT * CAMERA_DIRECTION
    vector[2] = max(vector[2], MIN_UPWARD)
    direction: Array = vector / np.linalg.norm(vector)
    return direction
