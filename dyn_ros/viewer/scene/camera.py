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

FIELD_OF_VIEW = math.radians(40.0)  # rad, vertical
CAMERA_DIRECTION = np.array([1.0, 0.8, 0.5])  # unit vector from the robot to the camera
CAMERA_DIRECTION /= np.linalg.norm(CAMERA_DIRECTION)
MARGIN = 0.08  # empty border on each side / size of the picture
ECHO_TOLERANCE = 2e-3  # error of a camera that a browser reports back / distance to its target
MAX_ECHOES = 8  # cameras that a browser may still report back
VISER_CAMERA = np.full(3, 3.0), np.zeros(3)  # position and target in a new browser
CENTERING_ITERATIONS = 10
INITIAL_ASPECT = 1.0  # width / height; used until a browser reports the size of its window


def fit_camera(points: ArrayLike, aspect: float) -> tuple[Array, Array]:
    """Return position and target, (3,) each, of the nearest camera that sees all points.

    There is at least one point (n, 3), and z is up. `aspect` is width / height.
    """
    points, back = np.asarray(points, float), CAMERA_DIRECTION
    right = np.cross((0.0, 0.0, 1.0), back)
    right /= np.linalg.norm(right)
    up = np.cross(back, right)
    x, y, z = points @ right, points @ up, points @ back
    tangent = math.tan(0.5 * FIELD_OF_VIEW) * (1.0 - 2.0 * MARGIN)
    # the planes through the camera that bound the picture touch the points
    distance = z.max() + 0.01
    for offsets, slope in ((x, tangent * aspect), (y, tangent)):
        upper, lower = (offsets + z * slope).max(), (z * slope - offsets).max()
        distance = max(distance, (upper + lower) / (2.0 * slope))
    center_x, center_y = (_center_offset(offsets, distance - z) for offsets in (x, y))
    center = center_x * right + center_y * up
    middle = 0.5 * (z.min() + z.max())
    return center + distance * back, center + middle * back


def _center_offset(offsets: Array, depths: Array) -> float:
    """Return the offset at which a camera sees points (n,) in the middle of the picture."""
    center = 0.5 * float(offsets.min() + offsets.max())
    for _ in range(CENTERING_ITERATIONS):
        slopes = (offsets - center) / depths
        first, last = slopes.argmin(), slopes.argmax()
        # the offset at which the slopes of the two outermost points are opposite
        d, e = depths[first], depths[last]
        center = float((offsets[first] * e + offsets[last] * d) / (d + e))
    return center


def raise_to_ground(points: Array, ground: float) -> Array:
    """Return points (n, 3), with those below the ground raised to its height [m]."""
    raised = points.copy()
    raised[:, 2] = np.maximum(points[:, 2], ground)
    return raised


class Cameras:
    """The cameras of all browsers."""

    def __init__(self, server: viser.ViserServer) -> None:
        self._server = server
        self._lock = threading.Lock()
        self._points = np.zeros((1, 3))
        self._views: dict[int, _View] = {}
        server.on_client_connect(self._connect)
        server.on_client_disconnect(self._disconnect)

    def show(self, points: ArrayLike) -> None:
        """Fit all cameras to new points (n, 3), including cameras that users have moved."""
        with self._lock:
            self._points = np.asarray(points, float)
            camera = self._server.initial_camera
            camera.fov = FIELD_OF_VIEW
            initial = fit_camera(self._points, INITIAL_ASPECT)
            camera.position, camera.look_at = (tuple(vector.tolist()) for vector in initial)
            for view in self._views.values():
                view.expect(*initial)  # a browser that is just connecting starts with it
                view.fit(self._points)

    def follow(self, points: ArrayLike) -> None:
        """Fit the cameras that no user has moved to points (n, 3) that have moved."""
        with self._lock:
            self._points = np.asarray(points, float)
            for view in self._views.values():
                if not view.is_moved:
                    view.fit(self._points)

    def fit(self, client_id: int | None = None) -> None:
        """Fit the camera of one browser, or of all browsers."""
        with self._lock:
            for id, view in self._views.items():
                if client_id in (None, id):
                    view.fit(self._points)

    async def _connect(self, client: viser.ClientHandle) -> None:
        """Fit the camera of a new browser, and follow its updates."""
        with self._lock:
            initial = [
                (np.array(camera.position), np.array(camera.look_at))
                for camera in (client.camera, self._server.initial_camera)
            ]
            view = self._views[client.client_id] = _View(client, [VISER_CAMERA, *initial])
            view.fit(self._points)

        async def on_camera_update(camera: viser.CameraHandle) -> None:
            with self._lock:
                view.handle_update(self._points)

        client.camera.on_update(on_camera_update)

    async def _disconnect(self, client: viser.ClientHandle) -> None:
        with self._lock:
            self._views.pop(client.client_id, None)


class _View:
    """The camera of one browser; `is_moved` if its user has moved it.

    `cameras` are positions and targets, (3,) each, one of which the browser starts with.
    """

    def __init__(self, client: viser.ClientHandle, cameras: list[tuple[Array, Array]]) -> None:
        self._client = client
        self.is_moved = False
        self._size = (0, 0)
        # a slow browser reports a camera after another one has been set
        self._expected = deque(cameras, maxlen=MAX_ECHOES)

    def expect(self, position: Array, target: Array) -> None:
        """Expect a browser to report a camera without its user having moved it."""
        self._expected.append((position, target))

    def fit(self, points: Array) -> None:
        """Fit the camera to points (n, 3)."""
        camera = self._client.camera
        self.is_moved = False
        self._size = camera.image_width, camera.image_height
        if min(self._size) <= 0:
            return
        position, target = fit_camera(points, camera.aspect)
        self.expect(position, target)
        with self._client.atomic():
            camera.fov = FIELD_OF_VIEW
            camera.up_direction = (0.0, 0.0, 1.0)
            camera.position = position
            camera.look_at = target

    def handle_update(self, points: Array) -> None:
        """Fit again if the window has a new size and the user has not moved the camera."""
        camera = self._client.camera
        self.is_moved = self.is_moved or not self._is_echo(camera.position, camera.look_at)
        if not self.is_moved and (camera.image_width, camera.image_height) != self._size:
            self.fit(points)

    def _is_echo(self, position: Array, target: Array) -> bool:
        """Return True if the reported camera was set here, and not by a user.

        A slow browser may report the position of one camera with the target of another.
        """
        matches = []
        for expected_position, expected_target in self._expected:
            tolerance = ECHO_TOLERANCE * np.linalg.norm(expected_position - expected_target)
            matches.append(
                [
                    np.linalg.norm(position - expected_position) < tolerance,
                    np.linalg.norm(target - expected_target) < tolerance,
                ]
            )
        return bool(np.any(matches, axis=0).all())
