# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""A camera for each browser, fitted to what the robot can reach until its user moves it."""

from __future__ import annotations

import math
import threading
from collections import deque
from typing import TYPE_CHECKING

import numpy as np

from ...engine.kernel.types import Array, ArrayLike

if TYPE_CHECKING:
    import viser

FIELD_OF_VIEW = math.radians(40.0)  # vertical
DIRECTION = np.array([1.0, 0.8, 0.5])  # from the robot to the camera
DIRECTION /= np.linalg.norm(DIRECTION)
MARGIN = 0.05  # of the picture, on each side
ECHO = 2e-3  # difference between a camera that was set and what a browser reports / distance
MOST_ECHOES = 8
VISERS = np.full(3, 3.0), np.zeros(3)  # the camera of viser's client before any is set
STEPS = 10  # until the points are in the middle of the picture
FIRST_ASPECT = 1.0  # until the size of a browser's window is known


def fitted(points: ArrayLike, aspect: float) -> tuple[Array, Array]:
    """Return position and target, (3,) each, of the nearest camera that sees all points.

    There is at least one of them (n, 3), and z is up. `aspect` is width / height.
    """
    points, back = np.asarray(points, float), DIRECTION
    right = np.cross((0.0, 0.0, 1.0), back)
    right /= np.linalg.norm(right)
    up = np.cross(back, right)
    x, y, z = points @ right, points @ up, points @ back
    tangent = math.tan(0.5 * FIELD_OF_VIEW) * (1.0 - 2.0 * MARGIN)
    # the planes through the camera that bound the picture touch the points
    distance = z.max() + 0.01
    for offsets, slope in ((x, tangent * aspect), (y, tangent)):
        above, below = (offsets + z * slope).max(), (z * slope - offsets).max()
        distance = max(distance, (above + below) / (2.0 * slope))
    across = [_middle(offsets, distance - z) for offsets in (x, y)]
    foot = across[0] * right + across[1] * up
    middle = 0.5 * (z.min() + z.max())
    return foot + distance * back, foot + middle * back


def _middle(offsets: Array, depths: Array) -> float:
    """Return the offset of a camera from which points appear as far to one side as to the other."""
    middle = 0.5 * float(offsets.min() + offsets.max())
    for _ in range(STEPS):
        seen = (offsets - middle) / depths
        first, last = seen.argmin(), seen.argmax()
        # where the two outermost points are as far from the middle
        near, far = depths[first], depths[last]
        middle = float((offsets[first] * far + offsets[last] * near) / (near + far))
    return middle


def above(points: Array, ground: float) -> Array:
    """Return points (n, 3) of which none is below the ground, at a height [m]."""
    raised = points.copy()
    raised[:, 2] = np.maximum(points[:, 2], ground)
    return raised


class Cameras:
    def __init__(self, server: viser.ViserServer) -> None:
        self._server = server
        self._lock = threading.Lock()
        self._points = np.zeros((1, 3))
        self._views: dict[int, _View] = {}
        server.on_client_connect(self._connect)
        server.on_client_disconnect(self._disconnect)

    def show(self, points: ArrayLike) -> None:
        """Fit all cameras to other points (n, 3), also those that users have moved."""
        with self._lock:
            self._points = np.asarray(points, float)
            camera = self._server.initial_camera
            camera.fov = FIELD_OF_VIEW
            first = fitted(self._points, FIRST_ASPECT)
            camera.position, camera.look_at = (tuple(vector.tolist()) for vector in first)
            for view in self._views.values():
                view.expect(*first)  # a browser that is just connecting starts with it
                view.fit(self._points)

    def follow(self, points: ArrayLike) -> None:
        """Fit the cameras that no user has moved to points (n, 3) that have moved."""
        with self._lock:
            self._points = np.asarray(points, float)
            for view in self._views.values():
                if not view.moved:
                    view.fit(self._points)

    def fit(self, client: int | None = None) -> None:
        """Fit the camera of a browser, by the id of the client, or all."""
        with self._lock:
            for id, view in self._views.items():
                if client in (None, id):
                    view.fit(self._points)

    async def _connect(self, client: viser.ClientHandle) -> None:
        with self._lock:
            first = [
                (np.array(camera.position), np.array(camera.look_at))
                for camera in (client.camera, self._server.initial_camera)
            ]
            view = self._views[client.client_id] = _View(client, [VISERS, *first])
            view.fit(self._points)

        async def changed(camera: viser.CameraHandle) -> None:
            with self._lock:
                view.notice(self._points)

        client.camera.on_update(changed)

    async def _disconnect(self, client: viser.ClientHandle) -> None:
        with self._lock:
            self._views.pop(client.client_id, None)


class _View:
    """The camera of one browser, which at first is one of those given by position and target."""

    def __init__(self, client: viser.ClientHandle, first: list[tuple[Array, Array]]) -> None:
        self._client = client
        self.moved = False
        self._size = (0, 0)
        # a slow browser reports them after it has been fitted
        self._set = deque(first, maxlen=MOST_ECHOES)

    def expect(self, position: Array, target: Array) -> None:
        """Do not regard a camera as moved by the user."""
        self._set.append((position, target))

    def fit(self, points: Array) -> None:
        camera = self._client.camera
        self.moved = False
        self._size = camera.image_width, camera.image_height
        if min(self._size) <= 0:
            return
        position, target = fitted(points, camera.aspect)
        self.expect(position, target)
        with self._client.atomic():
            camera.fov = FIELD_OF_VIEW
            camera.up_direction = (0.0, 0.0, 1.0)
            camera.position = position
            camera.look_at = target

    def notice(self, points: Array) -> None:
        """Fit again if the window has another size and the user has not moved the camera."""
        camera = self._client.camera
        self.moved = self.moved or not self._is_echo(camera.position, camera.look_at)
        if not self.moved and (camera.image_width, camera.image_height) != self._size:
            self.fit(points)

    def _is_echo(self, position: Array, target: Array) -> bool:
        """Whether a camera was set; a slow browser mixes its position with another target."""
        near = [
            [
                np.linalg.norm(given - wanted) < ECHO * np.linalg.norm(known[0] - known[1])
                for given, wanted in zip((position, target), known)
            ]
            for known in self._set
        ]
        return bool(np.any(near, axis=0).all())
