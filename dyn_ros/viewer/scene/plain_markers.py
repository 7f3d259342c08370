# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Markers as plain values, for a page without ROS."""
from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np

from ...engine.kernel.types import Array

WORLD = "world"     # frame of the markers without ROS


@dataclass
class PlainLook:
    """A `Look` without ROS; `more` are the attributes of its kind."""

    name: str
    scale: float
    color: Sequence[float]
    width: float = 0.01
    more: Mapping[str, Any] = field(default_factory=dict)

    def __getattr__(self, name: str) -> Any:
        try:
            return self.__dict__["more"][name]
        except KeyError:
            raise AttributeError(name) from None

    def marker(self, namespace: str, type: int, points: int) -> SimpleNamespace:
        """Return what the markers of a namespace have in common."""
        return SimpleNamespace(
            header=SimpleNamespace(frame_id=WORLD, stamp=SimpleNamespace(sec=0, nanosec=0)),
            ns=namespace, type=type, lifetime=SimpleNamespace(sec=0, nanosec=0))


class PlainMarker(NamedTuple):
    """A Marker whose numbers are arrays: points (n, 3), colors (n, 4) and `numbers` (14,).

    These are position, orientation x y z w, scale and color.
    """

    header: Any
    ns: str
    id: int
    type: int
    action: int
    lifetime: Any
    numbers: Array
    points: Array
    colors: Array
    text: str = ""
    mesh_resource: str = ""


def plain_marker(marker: Any) -> PlainMarker:
    """Return a visualization_msgs/Marker as a `PlainMarker`."""
    p, turn = marker.pose.position, marker.pose.orientation
    scale, color = marker.scale, marker.color
    return PlainMarker(
        marker.header, marker.ns, marker.id, marker.type, marker.action, marker.lifetime,
        np.array([p.x, p.y, p.z, turn.x, turn.y, turn.z, turn.w, scale.x, scale.y, scale.z,
                  color.r, color.g, color.b, color.a]),
        np.array([(p.x, p.y, p.z) for p in marker.points]).reshape(-1, 3),
        np.array([(c.r, c.g, c.b, c.a) for c in marker.colors]).reshape(-1, 4),
        marker.text, marker.mesh_resource)


def plain_markers(arrays: Iterable[Any]) -> SimpleNamespace:
    """Return markers of a `PlainLook` as a MarkerArray of `PlainMarker`, in the frame `WORLD`."""
    return SimpleNamespace(markers=[marker for same in arrays for marker in _plain_markers(same)])


def _plain_markers(arrays: Any) -> Iterator[PlainMarker]:
    common, own = arrays.prototype, arrays.numbers
    numbers = np.concatenate([own["pose"], own["scale"], own["color"]], axis=1)
    flat = own.get("points", np.zeros((len(arrays), 0)))
    points = flat.reshape(len(arrays), flat.shape[1] // 3, 3).copy()
    colors = np.zeros((0, 4))
    for row, (id, action) in enumerate(zip(own["id"][:, 0].tolist(), own["action"][:, 0].tolist())):
        yield PlainMarker(common.header, common.ns, id, common.type, action, common.lifetime,
                          numbers[row], points[row], colors)
