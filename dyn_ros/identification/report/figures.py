# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The figures of a report, with plotly: held-out torques, friction and bodies."""

from __future__ import annotations

import html
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import numpy as np

from ...engine.algorithms import frame_placements, joint_friction, rnea
from ...engine.call.data import Data
from ...engine.kernel.types import Array
from ...engine.model import Model
from ...engine.model.coordinates import is_actuated
from ...engine.model.parameters import pseudo_inertia
from ...recordings.tables.row_selection import MAX_GAP_PERIODS
from ..equation_sums import eliminations
from ..motion.filtering import split_at_gaps
from ..result import Identification
from ..samples import Samples

MEASURED, BEFORE, AFTER = "#aeb4bd", "#d08a35", "#2a6db0"
_GRID, _LINE, _TEXT, _QUIET = "#e8eaed", "#c9ccd1", "#3c4043", "#8a8f98"

_SAMPLES = 200_000  # of the held-out ones that are shown
_CHUNK = 8192  # samples
_POINTS = 4000  # of a curve at most
_ALL_POINTS = 240_000  # of all curves of the torques
_DOTS = 400  # of a joint's friction
_BINS = 61
_LATITUDES, _LONGITUDES = 17, 32


def plotly() -> tuple[ModuleType, ModuleType]:
    """Import plotly's graph objects and subplots."""
    try:
        from plotly import graph_objects, subplots
    except ImportError:
        raise ImportError('a report requires plotly: pip install "dyn_ros[identify]"') from None
    return graph_objects, subplots


def label(text: str) -> str:
    """A name as plotly shows it, which reads some tags."""
    return html.escape(text, quote=False)


def content(figure: Any) -> str:
    """A figure as JSON that can be part of a page, without the template that plotly adds."""
    from plotly.io import json

    parts = figure.to_dict()
    parts["layout"].pop("template", None)
    text: str = json.to_json_plotly(parts)
    return text.replace("<", "\\u003c")


# --- torques


def shown(result: Identification) -> Samples:
    """The held-out samples, or the beginning of each block if they are many."""
    most = max(2, _SAMPLES // max(len(result.held_out), 1))
    rows = [
        np.arange(block.start, min(block.stop, block.start + most)) for block in result.held_out
    ]
    return result.samples.take(np.concatenate([np.arange(0), *rows]))


def stretches_of(samples: Samples) -> list[slice]:
    if len(samples) == 0:
        return []
    return [slice(*stretch) for stretch in split_at_gaps(samples.time, MAX_GAP_PERIODS)[0]]


def joined_time(samples: Samples, stretches: list[slice]) -> Array:
    """Time that passed in the stretches before each sample, with small pauses between them [s]."""
    time = np.empty(len(samples))
    total = sum(
        samples.time[stretch.stop - 1] - samples.time[stretch.start] for stretch in stretches
    )
    now, pause = 0.0, 0.004 * total
    for stretch in stretches:
        time[stretch] = now + samples.time[stretch] - samples.time[stretch.start]
        now = time[stretch.stop - 1] + pause
    return time


def peaks(x: Array, y: Array, most: int) -> tuple[Array, Array]:
    """At most so many points of a curve: the lowest and the highest one of each interval."""
    count = len(x)
    if count <= most or most < 4:
        return x, y
    edges = np.linspace(0, count, most // 2 + 1).astype(int)[:-1]
    width = np.diff([*edges, count]).max()
    index = np.minimum(edges[:, None] + np.arange(width), count - 1)
    inside = index < np.append(edges[1:], count)[:, None]
    low = np.where(inside, y[index], np.inf).argmin(1)
    high = np.where(inside, y[index], -np.inf).argmax(1)
    rows = np.arange(len(edges))
    chosen = np.unique(np.concatenate([index[rows, low], index[rows, high]]))
    return x[chosen], y[chosen]


def curve(time: Array, y: Array, stretches: list[slice], most: int) -> tuple[Array, Array]:
    """The points of a curve that is interrupted between stretches."""
    share = most / max(len(time), 1)
    xs: list[Array] = []
    ys: list[Array] = []
    pause = np.array([np.nan])
    for stretch in stretches:
        count = int(share * (stretch.stop - stretch.start))
        x, part = peaks(time[stretch], y[stretch], max(4, count))
        xs += [x, pause]
        ys += [part, pause]
    return (np.concatenate(xs).astype(np.float32), np.concatenate(ys).astype(np.float32))


def predicted(result: Identification, samples: Samples) -> tuple[Array, Array]:
    """Torques before and after, including unknown contact forces, (B, nv) each."""
    before, after = result.described_torque(samples), result.torque(samples)
    return (
        before + contact_torques(result, samples, samples.tau - before),
        after + contact_torques(result, samples, samples.tau - after),
    )


def contact_torques(result: Identification, samples: Samples, residual: Array) -> Array:
    """The part of a residual that contact forces explain, by weighted least squares."""
    explained = np.zeros_like(residual)
    if not samples.contacts:
        return explained
    noise = np.array([joint.noise for joint in result.joints])
    noise = np.where(noise > 0.0, noise, 1.0)
    data = Data(result.model)
    for start in range(0, len(samples), _CHUNK):
        rows = slice(start, start + _CHUNK)
        E = eliminations(result.model, data, samples.take(rows), result.contact_dimension, noise)
        explained[rows] = residual[rows] - np.einsum("bij,bj->bi", E, residual[rows])
    return explained


def _layout(figure: Any, height: int, **options: Any) -> Any:
    options = {"margin": dict(l=56, r=12, t=48, b=40), **options}
    figure.update_layout(
        height=height,
        paper_bgcolor="white",
        plot_bgcolor="white",
        font=dict(family="system-ui, sans-serif", size=12, color=_TEXT),
        dragmode="zoom",
        hovermode="closest",
        legend=dict(
            orientation="h",
            x=0.0,
            y=1.0,
            yanchor="bottom",
            yref="container",
            xanchor="left",
            bgcolor="rgba(0,0,0,0)",
        )
        | options.pop("legend", {}),
        **options,
    )
    axis = dict(
        gridcolor=_GRID,
        zerolinecolor=_LINE,
        linecolor=_LINE,
        automargin=True,
        zeroline=True,
        title_font_size=12,
    )
    figure.update_xaxes(**axis)
    figure.update_yaxes(**axis)
    figure.update_annotations(font_size=12)
    return figure


def _top_legend(height: int) -> dict[str, Any]:
    return dict(y=1.0 - 4.0 / height, yanchor="top")


def torques(result: Identification) -> Iterator[Any]:
    """Of each joint, measured and predicted torque over time, and histograms of the difference."""
    graph, subplots = plotly()
    samples = shown(result)
    stretches = stretches_of(samples)
    if not stretches:
        return
    before, after = predicted(result, samples)
    time = joined_time(samples, stretches)
    most = min(_POINTS, max(300, _ALL_POINTS // (3 * len(result.joints))))
    for k, joint in enumerate(result.joints):
        figure = subplots.make_subplots(
            rows=1,
            cols=2,
            column_widths=[0.76, 0.24],
            horizontal_spacing=0.05,
            subplot_titles=[
                f"<b>{label(joint.name)}</b> [{joint.unit}]",
                f"measured \u2212 model [{joint.unit}]",
            ],
        )
        for name, y, color, width in (
            ("measured", samples.tau, MEASURED, 4.0),
            ("before", before, BEFORE, 1.3),
            ("after", after, AFTER, 1.3),
        ):
            xs, ys = curve(time, y[:, k], stretches, most)
            figure.add_trace(
                graph.Scatter(
                    x=xs,
                    y=ys,
                    name=name,
                    mode="lines",
                    line=dict(color=color, width=width),
                    hovertemplate="%{y:.4g} at %{x:.2f} s",
                ),
                1,
                1,
            )
        for name, y, color in (("before", before, BEFORE), ("after", after, AFTER)):
            _add_histogram(graph, figure, (samples.tau - y)[:, k], name, color)
        _layout(figure, 190, showlegend=False, margin=dict(l=56, r=12, t=28, b=28))
        figure.update_yaxes(showticklabels=False, col=2)
        figure.layout.annotations[0].update(x=0.0, xanchor="left")
        yield figure


def _add_histogram(graph: ModuleType, figure: Any, residual: Array, name: str, color: str) -> None:
    """An outline of the distribution; the tails beyond 99.8 % are left out."""
    residual = residual[np.isfinite(residual)]
    if len(residual) == 0:
        return
    low, high = np.quantile(residual, [0.001, 0.999])
    if not high > low:
        low, high = low - 1e-9, high + 1e-9
    density, edges = np.histogram(residual, _BINS, (low, high), density=True)
    figure.add_trace(
        graph.Scatter(
            x=np.repeat(edges, 2).astype(np.float32),
            y=np.concatenate([[0.0], np.repeat(density, 2), [0.0]]).astype(np.float32),
            name=name,
            mode="lines",
            line=dict(color=color, width=1),
            fill="tozeroy",
            opacity=0.8,
            hoverinfo="skip",
        ),
        1,
        2,
    )


def errors(result: Identification) -> Any:
    """RMS error of each joint relative to its RMS torque, with its noise."""
    graph, _ = plotly()
    joints = [joint for joint in result.joints if joint.torque > 0.0][::-1]
    if not joints:
        return None
    names = [label(joint.name) for joint in joints]
    torque = np.array([joint.torque for joint in joints])
    figure = graph.Figure()
    noise = graph.Scatter(
        mode="markers", marker=dict(symbol="line-ns", size=18, line=dict(color=_TEXT, width=2))
    )
    for name, trace in (
        ("noise", noise),
        ("after", graph.Bar(marker_color=AFTER)),
        ("before", graph.Bar(marker_color=BEFORE)),
    ):
        values = np.array([getattr(joint, name) for joint in joints])
        figure.add_trace(
            trace.update(
                x=100.0 * values / torque,
                y=names,
                orientation="h",
                name=name,
                customdata=[f"{value:.4g} {joint.unit}" for value, joint in zip(values, joints)],
                hovertemplate="%{y}: %{customdata} (%{x:.1f} %)",
            )
        )
    height = 110 + (34 if len(joints) < 16 else 24) * len(joints)
    _layout(figure, height, legend=_top_legend(height) | dict(traceorder="reversed"), bargap=0.3)
    figure.update_xaxes(
        title_text="RMS error of the torque [% of the RMS torque]", rangemode="tozero"
    )
    figure.update_yaxes(range=[-0.6, len(joints) - 0.4])
    return figure


# --- friction


def friction_torque(model: Model, k: int, v: Array, load: Array | float = 0.0) -> Array:
    """Friction and offset of a joint that moves alone, with a torque that moves the links."""
    speeds, torque = np.zeros((2, len(v), model.nv))
    speeds[:, k], torque[:, k] = v, load
    return joint_friction(model, speeds, torque)[:, k]


def friction(result: Identification) -> Iterator[Any]:
    """Of each joint, torque less inverse dynamics over velocity, with the models of friction."""
    graph, _ = plotly()
    model, samples = result.identified, shown(result)
    if len(samples) == 0:
        return
    fastest = np.abs(samples.v).max(axis=0)
    samples = samples.take(np.linspace(0, len(samples) - 1, min(_DOTS, len(samples))).astype(int))
    rigid = rnea(model, Data(model), samples.q, samples.v, samples.a, samples.f_ext)
    rigid += model.drives.rotor_torque(samples.a)
    left = samples.tau - rigid
    left -= contact_torques(result, samples, samples.tau - result.torque(samples))
    for k in np.flatnonzero(is_actuated(model)).tolist():
        joint = result.joints[k]
        figure = graph.Figure(
            graph.Scatter(
                x=samples.v[:, k].astype(np.float32),
                y=left[:, k].astype(np.float32),
                mode="markers",
                marker=dict(color=_QUIET, size=3, opacity=0.4),
                name="measured",
                hoverinfo="skip",
            )
        )
        rising = np.linspace(1e-9, 1.0, 60) * fastest[k]
        v, load = np.concatenate([-rising[::-1], [0.0], rising]), np.abs(rigid[:, k]).mean()
        for name, described, color in (("before", result.model, BEFORE), ("after", model, AFTER)):
            y = friction_torque(described, k, v, load)
            figure.add_trace(
                graph.Scatter(
                    x=v.astype(np.float32),
                    y=y.astype(np.float32),
                    mode="lines",
                    name=name,
                    line=dict(color=color, width=2),
                    hovertemplate="%{y:.4g} at %{x:.3g}",
                )
            )
        _layout(
            figure,
            240,
            showlegend=False,
            margin=dict(l=48, r=8, t=28, b=36),
            title=dict(
                text=f"<b>{label(joint.name)}</b> [{joint.unit}]", font_size=12, x=0.5, y=0.96
            ),
        )
        figure.update_xaxes(
            title_text=f"[{'m/s' if joint.unit == 'N' else 'rad/s'}]", title_standoff=4
        )
        yield figure


# --- bodies


def central(parameters: Array) -> tuple[float, Array, Array, Array]:
    """Mass, center of mass, second moments of the mass about it per mass, and their axes.

    The moments, (3,) [m2], are ascending, and zero if they are negative.
    """
    P = pseudo_inertia(parameters)
    if not P[3, 3] > 0.0:
        return float(P[3, 3]), np.full(3, np.nan), np.full(3, np.nan), np.eye(3)
    com = P[:3, 3] / P[3, 3]
    moments, axes = np.linalg.eigh(P[:3, :3] / P[3, 3] - np.outer(com, com))
    return float(P[3, 3]), com, np.maximum(moments, 0.0), axes


def _sphere() -> tuple[Array, np.ndarray]:
    """Points and triangles of the unit sphere."""
    latitude, longitude = np.meshgrid(
        np.linspace(0.0, np.pi, _LATITUDES),
        np.linspace(0.0, 2.0 * np.pi, _LONGITUDES, endpoint=False),
        indexing="ij",
    )
    points = np.stack(
        [
            np.sin(latitude) * np.cos(longitude),
            np.sin(latitude) * np.sin(longitude),
            np.cos(latitude),
        ],
        axis=-1,
    ).reshape(-1, 3)
    a = np.arange(len(points) - _LONGITUDES).reshape(-1, _LONGITUDES)
    b, c, d = np.roll(a, -1, axis=1), a + _LONGITUDES, np.roll(a, -1, axis=1) + _LONGITUDES
    return points, np.stack([a, b, c, b, d, c], axis=-1).reshape(-1, 3)


def bodies(result: Identification) -> Any:
    """Each body as a solid ellipsoid of uniform density, and the robot's skeleton."""
    graph, _ = plotly()
    model = result.model
    frames = model.tree.frames
    X = np.asarray(frame_placements(model, Data(model), model.neutral())).copy()
    places = {frame.parent: X[i] @ np.linalg.inv(frame.placement) for i, frame in enumerate(frames)}
    figure = graph.Figure()
    lines: list[Array] = []
    for i, frame in enumerate(frames):
        if frame.kind == "body" and frame.parent_frame > 0:
            above = frames[frame.parent_frame].parent_frame
            if above >= 0:
                lines += [X[above, :3, 3], X[i, :3, 3], np.full(3, np.nan)]
    if lines:
        x, y, z = np.array(lines).T
        figure.add_trace(
            graph.Scatter3d(
                x=x,
                y=y,
                z=z,
                mode="lines+markers",
                line=dict(color=_TEXT, width=4),
                marker=dict(color=_TEXT, size=3),
                name="frames",
                hoverinfo="skip",
            )
        )
    points, triangles = _sphere()
    i, j, k = triangles.T.astype(np.int16)
    outline = graph.Scatter3d(mode="lines", line=dict(color=BEFORE, width=3))
    solid = graph.Mesh3d(
        i=i,
        j=j,
        k=k,
        color=AFTER,
        opacity=0.35,
        flatshading=False,
        lighting=dict(ambient=0.75, diffuse=0.4, specular=0.05, roughness=0.9),
    )
    shapes = (("before", model, outline, _circles()), ("after", result.identified, solid, points))
    for joint, link in enumerate(model.tree.body_links):
        for name, robot, trace, surface in shapes:
            parameters = robot.inertial_parameters[joint]
            if parameters[0] > 0.0:
                x, y, z = _ellipsoid(places[joint], parameters, surface).T
                figure.add_trace(
                    trace.update(
                        x=x,
                        y=y,
                        z=z,
                        name=name,
                        legendgroup=name,
                        showlegend=not list(figure.select_traces(dict(name=name))),
                        hovertemplate=(
                            f"{label(link)}, {name}: {parameters[0]:.4g} kg<extra></extra>"
                        ),
                    )
                )
    _layout(figure, 600, legend=_top_legend(600), margin=dict(l=0, r=0, t=32, b=0))
    figure.update_layout(scene=_scene(figure))
    return figure


def _circles() -> Array:
    """Three ellipses around the unit sphere."""
    angle = np.linspace(0.0, 2.0 * np.pi, 49)
    circle = np.array([np.cos(angle), np.sin(angle), 0.0 * angle]).T
    end = np.full((1, 3), np.nan)
    return np.concatenate([curve for n in range(3) for curve in (np.roll(circle, n, 1), end)])


def _ellipsoid(place: Array, parameters: Array, points: Array) -> Array:
    """Points of the unit sphere on the ellipsoid of a body, in the world."""
    _, com, moments, axes = central(parameters)
    surface = com + (points * np.sqrt(5.0 * moments)) @ axes.T
    return (surface @ place[:3, :3].T + place[:3, 3]).astype(np.float32)


def _scene(figure: Any) -> dict[str, Any]:
    """Axes and camera with which all traces are in view, in proportion."""
    points = np.concatenate(
        [np.array([trace.x, trace.y, trace.z], float).T for trace in figure.data]
    )
    low, high = np.nanmin(points, 0), np.nanmax(points, 0)
    extent = np.maximum(1.05 * (high - low), 1e-6)
    extent = np.maximum(extent, 0.15 * extent.max())
    middle, ratio = 0.5 * (low + high), extent / np.linalg.norm(extent)
    power = 10.0 ** np.floor(np.log10(extent.max() / 2.0))
    step = power
    for factor in (2.0, 5.0):
        if factor * power <= extent.max() / 2.0:
            step = factor * power
    axes = {}
    for n, axis in enumerate(("xaxis", "yaxis", "zaxis")):
        axes[axis] = dict(
            showbackground=False,
            gridcolor=_GRID,
            zerolinecolor=_GRID,
            title=dict(text=axis[0] + " [m]", font=dict(color=_QUIET, size=11)),
            showspikes=False,
            tickfont=dict(color=_QUIET, size=10),
            dtick=step,
            range=(middle[n] + 0.5 * extent[n] * np.array([-1.0, 1.0])).tolist(),
        )
    camera = dict(eye=dict(x=1.25, y=1.25, z=0.5), projection=dict(type="orthographic"))
    return dict(
        aspectmode="manual", aspectratio=dict(zip("xyz", 2.1 * ratio)), **axes, camera=camera
    )
