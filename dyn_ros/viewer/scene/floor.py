# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The floor, the fog and the light, for each browser in its light or dark colors."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ...engine.kernel.types import Array

if TYPE_CHECKING:
    import viser

Color = tuple[int, int, int]


@dataclass(frozen=True)
class FloorColors:
    """Colors of the floor and the fog: red, green, blue, 0 to 255.

    The background is in page.css, and ends at the horizon.
    """

    horizon: Color
    floor: Color
    cell: Color
    section: Color
    shadow_opacity: float


LIGHT_COLORS = FloorColors((236, 240, 245), (222, 228, 235), (204, 212, 221), (183, 193, 205), 0.22)
DARK_COLORS = FloorColors((52, 59, 72), (72, 82, 97), (86, 97, 113), (108, 120, 137), 0.45)


def light_simply(client: viser.ClientHandle) -> None:
    """Light the robot without shadows, and by a uniform sky instead of viser's picture of a hall.

    Without a graphics card, filtering this picture would take more than five seconds.
    """
    client.scene.configure_default_lights(cast_shadow=False)
    client.scene.configure_environment_map(None)
    client.scene.add_light_hemisphere(
        "/sky", sky_color=(240, 240, 255), ground_color=(122, 122, 140), intensity=2.9
    )


class Floor:
    """The floor and the fog around the robot, in each browser."""

    def __init__(self, server: viser.ViserServer) -> None:
        self._server = server
        self._dark: dict[int, bool] = {}
        self._grids: dict[int, viser.GridHandle] = {}
        self._section_size = 1.0  # m; sections of the grid
        self._extent = 2.0  # m; size of the robot
        self._position = (0.0, 0.0, 0.0)
        server.on_client_connect(self._connect)
        server.on_client_disconnect(self._disconnect)

    async def _connect(self, client: viser.ClientHandle) -> None:
        self.show(client, self._dark.get(client.client_id, False))

    async def _disconnect(self, client: viser.ClientHandle) -> None:
        self._dark.pop(client.client_id, None)
        self._grids.pop(client.client_id, None)

    def show(self, client: viser.ClientHandle, dark: bool) -> None:
        """Show the floor to a browser, in dark or light colors."""
        if client.client_id not in self._grids or self._dark.get(client.client_id) != dark:
            self._draw(client, dark)

    def _draw(self, client: viser.ClientHandle, dark: bool) -> None:
        colors = DARK_COLORS if dark else LIGHT_COLORS
        self._dark[client.client_id] = dark
        self._grids[client.client_id] = client.scene.add_grid(
            "/floor",
            infinite_grid=True,
            cell_size=0.1 * self._section_size,
            section_size=self._section_size,
            cell_color=colors.cell,
            section_color=colors.section,
            cell_thickness=0.8,
            section_thickness=1.0,
            fade_distance=6.0 * self._extent,
            fade_strength=1.5,
            fade_from="origin",
            plane_color=colors.floor,
            plane_opacity=1.0,
            shadow_opacity=colors.shadow_opacity,
            position=self._position,
        )
        # fog begins behind the robot, even in a narrow window, whose camera is far away
        client.scene.configure_fog(8.0 * self._extent, 18.0 * self._extent, color=colors.horizon)

    def place(self, points: Array, height: float) -> None:
        """Place the floor around points (n, 3), at a height [m]; its lines stay where they are."""
        width = max(float(np.ptp(points, axis=0).max()), 1e-2)
        section_size = 10.0 ** round(math.log10(width) - 0.3)
        extent = 2.0 ** round(math.log2(width))
        center = 0.5 * (points.min(axis=0) + points.max(axis=0))
        x, y = (section_size * np.round(center[:2] / section_size)).tolist()
        self._position = (x, y, height)
        if (section_size, extent) != (self._section_size, self._extent):
            self._section_size, self._extent = section_size, extent
            for client_id, client in self._server.get_clients().items():
                self._draw(client, self._dark.get(client_id, False))
        self._update_grids()

    def lower(self, height: float, margin: float) -> None:
        """Lower the floor to a height [m], unless it is less than a margin above it."""
        x, y, floor_height = self._position
        if height < floor_height - margin:
            self._position = x, y, height
            self._update_grids()

    def _update_grids(self) -> None:
        for grid in list(self._grids.values()):
            grid.position = self._position
