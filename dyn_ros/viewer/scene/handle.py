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
from .looks import segments_frame
from .scene import paint, wxyz

if TYPE_CHECKING:
    import viser

    from .scene import RobotScene

PULL = (230, 50, 180)       # color of the arrow; red, green, blue
LENGTH = 0.2        # of the arrow at rest / reach of the robot
GRIP = 0.032        # radius of the grip / reach of the robot
SHAFT = 0.009       # radius of the shaft / reach of the robot
HEAD = 0.06         # length of the arrow's head / reach of the robot
TOWARD = 0.7        # how much the arrow at rest points toward the camera
BACK = 12.0         # rate at which the grip returns when it is released [1/s]
LEAST = 1e-3        # shorter displacements are none [m]
AROUND = 2.8        # what can be dragged / the grip: a ball that moves is hard to hit
INVITATION = "pull me"


class PushHandle:
    """A grip at the end of an arrow that points away from a link, dragged in the screen's plane.

    The displacement in the world is the force; the grip stays at the pointer while the robot gives
    way. `scale` is the force per displacement [N/m], `rest` (3,) where the grip rests, in the link;
    `force` (3,) acts on the link at its origin, in its frame [N]. `text` is the label: the force,
    or "pull me" if it `invites`. `pulled`: it has been dragged.
    """

    def __init__(self, robot: RobotScene, gui: viser.GuiApi, link: str, scale: float,
                 invites: bool = True) -> None:
        self._robot, self.link, self.scale = robot, link, scale
        self.force, self.pulled = np.zeros(3), False
        self._lock = threading.Lock()
        self._grabbed: Array | None = None      # where in the grip, from its center, in the world
        self._pointer: Array | None = None      # in the world
        self._offset = np.zeros(3)              # of the grip from its place at rest, in the link
        size = max(robot.reach, 0.1)
        self.rest = LENGTH * size * outward(robot, link)
        node, scene = robot.node(link), robot.scene
        self._grip = scene.add_frame(f"{node}/grip", show_axes=False, position=self.rest)
        scene.add_icosphere(f"{node}/grip/ball", GRIP * size, PULL, cast_shadow=False)
        self._around = scene.add_glb(f"{node}/grip/around", invisible_ball(),
                                     scale=AROUND * GRIP * size, cast_shadow=False)
        self._arrow = scene.add_arrows(
            f"{node}/pull", np.zeros((1, 2, 3)), PULL, shaft_radius=SHAFT * size,
            head_radius=2.2 * SHAFT * size, head_length=HEAD * size)
        self.text = INVITATION if invites else ""
        self._radius = GRIP * size
        self._label = gui.add_html(self._html())
        self._drawn = np.zeros(3)               # offset of the grip
        self._point_arrow(self.rest)
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
        place = self._robot.placement(self.link)
        center: Array = place[:3, :3] @ (self.rest + self._offset) + place[:3, 3]
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
                center = self._pointer - self._grabbed - place[:3, 3]
                self._offset = place[:3, :3].T @ center - self.rest
                self.force = self.scale * self._offset
            pulling, offset = self._pointer is not None, self._offset
        self._draw(pulling, offset)
        return self.force

    def _draw(self, pulling: bool, offset: Array) -> None:
        text = "" if self.pulled else self.text
        newtons = float(np.linalg.norm(self.force))
        if pulling and newtons >= 0.5:
            text = f"{newtons:.0f} N"
        if self.text != text:
            self.text = text
            self._label.content = self._html()
        if abs(offset - self._drawn).max() > LEAST / 10.0:
            self._drawn = offset.copy()
            self._grip.position = tuple((self.rest + offset).tolist())
            self._point_arrow(self.rest + offset)

    def _html(self) -> str:
        """Return the label, hidden: the script page.js shows it at the grip."""
        return (f'<div class="dyn-pull" data-node="{self._grip.name}" '
                f'data-radius="{self._radius:.4g}" hidden>{self.text}</div>')

    def _point_arrow(self, tip: Array) -> None:
        """Draw the arrow from the link to the grip: turned by its pose, which follows at once."""
        _, R = segments_frame(np.array([[np.zeros(3), tip]]))
        points = np.array([[np.zeros(3), (0.0, 0.0, np.linalg.norm(tip))]])
        if abs(self._arrow.points - points).max() > LEAST:
            self._arrow.points = points
        self._arrow.wxyz = wxyz(R)

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


def outward(robot: RobotScene, link: str) -> Array:
    """Return a unit vector in a link's frame, (3,), for an arrow that users see.

    It points away from the other links, and toward the camera of a page that has just been opened.
    """
    place = robot.placement(link)
    others = [robot.placement(other)[:3, 3] for other in robot.links]
    away = place[:3, 3] - np.mean(others, axis=0)
    size = float(np.linalg.norm(away))
    seen = (away / size if size > 1e-6 else np.zeros(3)) + TOWARD * DIRECTION
    direction: Array = place[:3, :3].T @ (seen / np.linalg.norm(seen))
    return direction
