# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""A picture of the shapes and the inertias of a robot's links, as a page for a browser."""

from __future__ import annotations

import os
from html import escape
from typing import Any, TypeAlias

import numpy as np

from ...check import Examination, LinkInertia
from ...check.hulls import Hull, measure_box
from ...engine.kernel.types import Array
from ...files.writing import write_whole_text

INERTIA_COLOR, FINDING_COLOR = "#2a78d6", "#d03b3b"
HULL_COLOR, NAME_COLOR = "#9aa0a6", "#7a1010"

Trace: TypeAlias = dict[str, Any]
"""A drawn object of plotly."""


def import_plotly() -> Any:
    """Return the objects of plotly; raise an ImportError with a remedy if it is not installed."""
    try:
        import plotly.graph_objects as graph
    except ImportError as error:
        raise ImportError(
            'a picture requires plotly: pip install "dyn_ros[identify]"', name=error.name
        ) from None
    return graph


def save_picture(examination: Examination, path: str | os.PathLike[str], title: str = "") -> None:
    """Save a picture of the links with all joints at 0, as a self-contained HTML file.

    Each inertia is shown as the box of uniform density that has it, in the convex hull of the
    link's shapes; inertias with findings are red and named. Raise an ImportError without plotly.
    """
    graph = import_plotly()
    links = examination.extents.links
    traces = [trace for name in links for trace in _link_traces(examination, name)]
    figure = graph.Figure([*traces, *_legend_traces()])
    count = len({finding.where for finding in examination.findings})
    camera = {"eye": {"x": 2.0, "y": 2.0, "z": 1.0}, "projection": {"type": "orthographic"}}
    figure.update_layout(
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
    write_whole_text(path, figure.to_html(include_plotlyjs=True))


def _link_traces(examination: Examination, name: str) -> list[Trace]:
    """Return the hull of a link, the box of its inertia, and its name if it has findings."""
    placement = examination.extents.placements[name]
    extent = examination.extents.links[name].own
    texts = [finding.what for finding in examination.findings if finding.where == f'link "{name}"']
    hover = "<br>".join(
        [f"<b>{escape(name, quote=False)}</b>", *(escape(text, quote=False) for text in texts)]
    )
    traces = []
    if extent is not None and len(extent.hull.triangles):
        traces.append(_mesh_trace(extent.hull, placement, HULL_COLOR, 0.4, hover))
    inertia = examination.links.get(name)
    is_drawn = bool(texts) or name not in examination.negligible
    if inertia is not None and inertia.mass > 0.0 and is_drawn:
        corners, color = equivalent_box(inertia), FINDING_COLOR if texts else INERTIA_COLOR
        hull = Hull(corners)
        if len(hull.triangles):
            traces.append(_mesh_trace(hull, placement, color, 0.12, hover))
        traces.append(_edges_trace(corners, placement, color))
    if texts:
        center = np.zeros(3) if inertia is None else inertia.com
        traces.append(_label_trace(_transform_points(center, placement), name, hover))
    return traces


def equivalent_box(inertia: LinkInertia) -> Array:
    """Return the corners (8, 3) of the uniform box with a link's inertia, in its frame [m].

    Negative second moments, which no body has, count as 0.
    """
    moments, axes = np.linalg.eigh(inertia.covariance())
    corners, _ = measure_box(*np.sqrt(12.0 * np.maximum(moments, 0.0)))
    return corners @ axes.T + inertia.com


def _mesh_trace(hull: Hull, placement: Array, color: str, opacity: float, hover: str) -> Trace:
    """Return the faces of a hull at a placement (4, 4)."""
    x, y, z = _transform_points(hull.points, placement).T
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


def _edges_trace(corners: Array, placement: Array, color: str) -> Trace:
    """Return the edges of a box whose corners are in the order of `box`."""
    points, gap = _transform_points(corners, placement), np.full(3, np.nan)
    return _points_trace(
        [
            point
            for i in range(8)
            for bit in (1, 2, 4)
            if not i & bit
            for point in (points[i], points[i | bit], gap)
        ],
        mode="lines",
        line={"color": color, "width": 4},
        hoverinfo="skip",
        showlegend=False,
    )


def _label_trace(point: Array, name: str, hover: str) -> Trace:
    """Return a name at a point (3,)."""
    return _points_trace(
        [point],
        mode="markers+text",
        text=[f"<b>{escape(name, quote=False)}</b>"],
        textfont={"color": NAME_COLOR, "size": 14},
        hovertext=[hover],
        hoverinfo="text",
        showlegend=False,
        marker={"color": FINDING_COLOR, "size": 4},
    )


def _legend_traces() -> list[Trace]:
    """Return traces without points, one for each color of the legend."""
    return [
        _points_trace(
            [[None] * 3],
            mode="markers",
            name=name,
            marker={"color": color, "symbol": "square", "size": 10},
        )
        for name, color in (
            ("inertia", INERTIA_COLOR),
            ("inertia with findings", FINDING_COLOR),
            ("hull of the shapes", HULL_COLOR),
        )
    ]


def _points_trace(points: Any, **options: Any) -> Trace:
    """Return points (n, 3), with options of plotly."""
    x, y, z = np.transpose(points)
    return {"type": "scatter3d", "x": x, "y": y, "z": z, **options}


def _transform_points(points: Array, placement: Array) -> Array:
    """Transform points (..., 3) from a frame to the axes of its placement (4, 4)."""
    return points @ placement[:3, :3].T + placement[:3, 3]
