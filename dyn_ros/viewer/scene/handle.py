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
from .camera import DIRECTION
from .glyphs import segments_frame
from .scene import paint, wxyz

if TYPE_CHECKING:
    import viser

    from .scene import RobotScene

PULL = (230, 50, 180)  # color of the arrow; red, green, blue
LENGTH = 0.2  # of the arrow at rest / reach of the robot
GRIP = 0.032  # radius of the grip / reach of the robot
SHAFT = 0.009  # radius of the shaft / reach of the robot
HEAD = 0.06  # length of the arrow's head / reach of the robot
TOWARD = 0.7  # how much the arrow at rest points toward the camera
UP = 1.5  # upward part of this direction, at least: the camera looks down
BACK = 12.0  # rate at which the grip returns when it is released [1/s]
LEAST = 1e-3  # shorter displacements are none [m]
AROUND = 2.8  # what can be dragged / the grip: a ball that moves is hard to hit
INVITATION = "pull me"


class PushHandle:
    """A grip at the end of an arrow that points away from a link, dragged in the screen's plane.

    The displacement in the world is the force; the grip stays at the pointer while the robot gives
    way. While it is dragged, the arrow is the force, to scale, and a line connects it to the grip.
    `scale` is the force per displacement [N/m], `away` (3,) where the grip rests, from the link's
    origin in the world; `force` (3,) acts on the link at its origin, in its frame [N]. `text` is
    the label: the force, or "pull me" if it `invites`. `pulled`: it has been dragged.
    """

    def __init__(
        self, robot: RobotScene, gui: viser.GuiApi, link: str, scale: float, invites: bool = True
    ) -> None:
        self._robot, self.link, self.scale = robot, link, scale
        self.force, self.pulled = np.zeros(3), False
        self._lock = threading.Lock()
        self._grabbed: Array | None = None  # where in the grip, from its center, in the world
        self._pointer: Array | None = None  # in the world
        self._offset = np.zeros(3)  # of the grip from its place at rest, in the world
        size = max(robot.reach, 0.1)
        self.away = LENGTH * size * outward(robot, link)
        node, scene = robot.node(link), robot.scene
        self._grip = scene.add_frame(f"{node}/grip", show_axes=False)
        scene.add_icosphere(f"{node}/grip/ball", GRIP * size, PULL, cast_shadow=False)
        self._around = scene.add_glb(
            f"{node}/grip/around", invisible_ball(), scale=AROUND * GRIP * size, cast_shadow=False
        )
        self._arrow = scene.add_arrows(
            f"{node}/pull",
            np.zeros((1, 2, 3)),
            PULL,
            shaft_radius=SHAFT * size,
            head_radius=2.2 * SHAFT * size,
            head_length=HEAD * size,
        )
        self._line = scene.add_line_segments(
            f"{node}/grip/line",
            np.array([[np.zeros(3), (0.0, 0.0, -LENGTH * size)]]),
            PULL,
            thickness=0.3 * SHAFT * size,
            visible=False,
        )
        self.text = INVITATION if invites else ""
        self._radius = GRIP * size
        self._label = gui.add_html(self._html())
        self._drawn = np.full((3, 3), math.nan)  # grip, arrow and line, in the link
        self._draw(False)
        self._around.on_drag("left")(self._on_drag)

    @property
    def is_held(self) -> bool:
        return self._pointer is not None

    async def _on_drag(self, event: viser.SceneNodeDragEvent[viser.GlbHandle]) -> None:
        # a coroutine: phases in order
        if event.phase == "end":
            self.let_go()
            return
        pointer = np.array(event.end_position)
        with self._lock:
            if event.phase == "start" or self._grabbed is None:
                self._grabbed = np.array(event.start_position) - self._grip_in_world()
            self._pointer, self.pulled = pointer, True

    def _grip_in_world(self) -> Array:
        center: Array = self._robot.placement(self.link)[:3, 3] + self.away + self._offset
        return center

    def let_go(self) -> None:
        """Release the grip: there is no force any more."""
        with self._lock:
            self._pointer = self._grabbed = None

    def update(self, seconds: float) -> Array:
        """Draw the handle, a time [s] after the last update; return the force."""
        with self._lock:
            if self._pointer is None or self._grabbed is None:
                self.force = np.zeros(3)
                self._offset = self._offset * math.exp(-BACK * seconds)
                if np.linalg.norm(self._offset) < LEAST:
                    self._offset = np.zeros(3)
            else:
                place = self._robot.placement(self.link)
                self._offset = self._pointer - self._grabbed - place[:3, 3] - self.away
                self.force = self.scale * place[:3, :3].T @ self._offset
            pulling = self._pointer is not None
        self._draw(pulling)
        return self.force

    def _draw(self, pulling: bool) -> None:
        text = "" if self.pulled else self.text
        newtons = float(np.linalg.norm(self.force))
        if pulling and newtons >= 0.5:
            text = f"{newtons:.0f} N"
        if self.text != text:
            self.text = text
            self._label.content = self._html()
        grip = self.away + self._offset
        arrow = self._offset if pulling else grip
        # the grip stays where it is in the world while the link turns
        drawn = np.array([grip, arrow, self.away]) @ self._robot.placement(self.link)[:3, :3]
        if pulling != self._line.visible:
            self._line.visible = pulling
        if not abs(drawn - self._drawn).max() <= LEAST / 10.0:
            self._drawn = drawn
            self._grip.position = tuple(drawn[0].tolist())
            self._point_arrow(drawn[1])
            self._line.wxyz = _along(drawn[2])

    def _html(self) -> str:
        """Return the label, hidden: the script page.js shows it at the grip."""
        return (
            f'<div class="dyn-pull" data-node="{self._grip.name}" '
            f'data-radius="{self._radius:.4g}" hidden>{self.text}</div>'
        )

    def _point_arrow(self, tip: Array) -> None:
        """Draw the arrow from the link to the grip: turned by its pose, which follows at once."""
        points = np.array([[np.zeros(3), (0.0, 0.0, np.linalg.norm(tip))]])
        if abs(self._arrow.points - points).max() > LEAST:
            self._arrow.points = points
        self._arrow.wxyz = _along(tip)

    def remove(self) -> None:
        self.let_go()
        for node in (self._label, self._arrow, self._grip):
            node.remove()


@lru_cache
def invisible_ball() -> bytes:
    """Return a ball of radius 1 as glTF that is not drawn, but is there for the pointer."""
    import trimesh

    ball = trimesh.creation.icosphere(subdivisions=1)
    paint(ball, (0.0, 0.0, 0.0, 0.0), alphaMode="MASK", alphaCutoff=0.5)
    data: bytes = trimesh.Scene(ball).export(file_type="glb")
    return data


def _along(vector: Array) -> Array:
    """Return the quaternion, scalar first, that turns z into the direction of a vector (3,)."""
    _, R = segments_frame(np.array([[np.zeros(3), vector]]))
    return wxyz(R)


def outward(robot: RobotScene, link: str) -> Array:
    """Return a unit vector in the world, (3,), for an arrow at a link that users see.

    It points away from the other links, toward the camera of a page that has just been opened, and
    upward: below a foot is the floor.
    """
    origin = robot.placement(link)[:3, 3]
    others = [robot.placement(other)[:3, 3] for other in robot.links]
    away = origin - np.mean(others, axis=0)
    size = float(np.linalg.norm(away))
    seen = (away / size if size > 1e-6 else np.zeros(3)) + TOWARD * DIRECTION
    seen[2] = max(seen[2], UP)
    direction: Array = seen / np.linalg.norm(seen)
    return direction
