# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""A picture of the shapes and the inertias of a robot's links, as a page for a browser."""

from __future__ import annotations

import os
from html import escape
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from ...check import Examination, LinkInertia
from ...check.hulls import Hull, box
from ...engine.kernel.types import Array

GOOD, BAD, SHAPE, NAME = "#2a78d6", "#d03b3b", "#9aa0a6", "#7a1010"

Trace: TypeAlias = dict[str, Any]
"""What plotly draws."""


def save_picture(examined: Examination, path: str | os.PathLike[str], title: str = "") -> None:
    """Save a picture of the links with all joints at 0, as HTML that contains all that it needs.

    Each inertia is shown as the box of uniform density that has it, in the convex hull of the
    link's shapes; those with findings are red and named. An ImportError without plotly.
    """
    try:
        import plotly.graph_objects as graph
    except ImportError as error:
        raise ImportError(
            'a picture requires plotly: pip install "dyn_ros[identify]"', name=error.name
        ) from None

    traces = [trace for name in examined.extents.links for trace in _link_traces(examined, name)]
    page = graph.Figure([*traces, *_legend()])
    count = len({finding.where for finding in examined.findings})
    camera = {"eye": {"x": 2.0, "y": 2.0, "z": 1.0}, "projection": {"type": "orthographic"}}
    page.update_layout(
        title=f"{escape(title, quote=False)}: inertias as boxes of uniform density, in the hulls "
        f"of the shapes; {count} links or joints with findings",
        scene={
            "aspectmode": "data",
            "camera": camera,
            "xaxis_title": "x [m]",
            "yaxis_title": "y [m]",
            "zaxis_title": "z [m]",
        },
        legend={"itemsizing": "constant"},
        margin={"l": 0, "r": 0, "b": 0, "t": 50},
    )
    Path(path).write_text(page.to_html(include_plotlyjs=True), encoding="utf-8")


def _link_traces(examined: Examination, name: str) -> list[Trace]:
    """The hull of a link's shapes, the box of its inertia, and its name if it has findings."""
    placement = examined.extents.placements[name]
    own = examined.extents.links[name].own
    texts = [finding.what for finding in examined.findings if finding.where == f'link "{name}"']
    hover = "<br>".join(
        [f"<b>{escape(name, quote=False)}</b>", *(escape(text, quote=False) for text in texts)]
    )
    traces = []
    if own is not None and len(own.hull.triangles):
        traces.append(_mesh(own.hull, placement, SHAPE, 0.4, hover))
    inertia = examined.links.get(name)
    if inertia is not None and inertia.mass > 0.0 and (texts or name not in examined.negligible):
        corners, color = equivalent_box(inertia), BAD if texts else GOOD
        drawn = Hull(corners)
        if len(drawn.triangles):
            traces.append(_mesh(drawn, placement, color, 0.12, hover))
        traces.append(_edges(corners, placement, color))
    if texts:
        center = np.zeros(3) if inertia is None else inertia.com
        traces.append(_label(_placed(center, placement), name, hover))
    return traces


def equivalent_box(inertia: LinkInertia) -> Array:
    """The corners (8, 3) of the uniform box with a link's mass and inertia, in its frame [m].

    Negative second moments, which no body has, count as 0.
    """
    moments, axes = np.linalg.eigh(inertia.covariance())
    corners, _ = box(*np.sqrt(12.0 * np.maximum(moments, 0.0)))
    return corners @ axes.T + inertia.com


def _mesh(hull: Hull, placement: Array, color: str, opacity: float, hover: str) -> Trace:
    x, y, z = _placed(hull.points, placement).T
    i, j, k = hull.triangles.T
    return {
        "type": "mesh3d",
        "x": x,
        "y": y,
        "z": z,
        "i": i,
        "j": j,
        "k": k,
        "color": color,
        "opacity": opacity,
        "flatshading": True,
        "hovertext": hover,
        "hoverinfo": "text",
    }


def _edges(corners: Array, placement: Array, color: str) -> Trace:
    """The edges of a box whose corners are in the order of `box`."""
    placed, gap = _placed(corners, placement), np.full(3, np.nan)
    return _points(
        [
            point
            for i in range(8)
            for bit in (1, 2, 4)
            if not i & bit
            for point in (placed[i], placed[i | bit], gap)
        ],
        mode="lines",
        line={"color": color, "width": 4},
        hoverinfo="skip",
        showlegend=False,
    )


def _label(point: Array, name: str, hover: str) -> Trace:
    return _points(
        [point],
        mode="markers+text",
        text=[f"<b>{escape(name, quote=False)}</b>"],
        textfont={"color": NAME, "size": 14},
        hovertext=[hover],
        hoverinfo="text",
        showlegend=False,
        marker={"color": BAD, "size": 4},
    )


def _legend() -> list[Trace]:
    """Traces without points, for the names of the colors."""
    return [
        _points(
            [[None] * 3],
            mode="markers",
            name=name,
            marker={"color": color, "symbol": "square", "size": 10},
        )
        for name, color in (
            ("inertia", GOOD),
            ("inertia with findings", BAD),
            ("hull of the shapes", SHAPE),
        )
    ]


def _points(points: Any, **options: Any) -> Trace:
    x, y, z = np.transpose(points)
    return {"type": "scatter3d", "x": x, "y": y, "z": z, **options}


def _placed(points: Array, placement: Array) -> Array:
    return points @ placement[:3, :3].T + placement[:3, 3]
