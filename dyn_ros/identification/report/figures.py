# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Figures of a report, drawn with plotly: held-out torques, errors, friction and bodies."""

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
from ...engine.model.coordinates import has_single_coordinate
from ...engine.model.parameters import pseudo_inertia
from ...recordings.tables.row_selection import MAX_GAP_PERIODS
from ..equation_sums import contact_eliminations
from ..motion.filtering import split_at_gaps
from ..result import Identification
from ..samples import Samples

MEASURED_COLOR, BEFORE_COLOR, AFTER_COLOR = "#aeb4bd", "#d08a35", "#2a6db0"
_GRID_COLOR, _LINE_COLOR, _TEXT_COLOR, _SECONDARY_COLOR = "#e8eaed", "#c9ccd1", "#3c4043", "#8a8f98"

_MAX_SAMPLES = 200_000  # held-out samples, of all blocks
_BLOCK_SIZE = 8192  # samples
_MAX_CURVE_POINTS = 4000
_MAX_TOTAL_POINTS = 240_000  # all curves of torques
_MAX_FRICTION_POINTS = 400  # samples per joint
_BIN_COUNT = 61
_LATITUDE_COUNT, _LONGITUDE_COUNT = 17, 32


def import_plotly() -> tuple[ModuleType, ModuleType]:
    """Import plotly's graph objects and subplots."""
    try:
        from plotly import graph_objects, subplots
    except ImportError:
        raise ImportError('a report requires plotly: pip install "dyn_ros[identify]"') from None
    return graph_objects, subplots


def escape_label(text: str) -> str:
    """Return a name escaped for plotly, which interprets some tags."""
    return html.escape(text, quote=False)


def figure_json(figure: Any) -> str:
    """Return a figure as JSON for a page, without the template that plotly adds."""
    from plotly.io import json

    fields = figure.to_dict()
    fields["layout"].pop("template", None)
    text: str = json.to_json_plotly(fields)
    return text.replace("<", "\\u003c")


# --- torques


def displayed_samples(result: Identification) -> Samples:
    """Return the held-out samples, or the beginning of each block if they are many."""
    block_size = max(2, _MAX_SAMPLES // max(len(result.held_out), 1))
    rows = [
        np.arange(block.start, min(block.stop, block.start + block_size))
        for block in result.held_out
    ]
    return result.samples.take(np.concatenate([np.arange(0), *rows]))


def gapless_stretches(samples: Samples) -> list[slice]:
    """Return the rows of stretches without gaps."""
    if len(samples) == 0:
        return []
    return [slice(*stretch) for stretch in split_at_gaps(samples.time, MAX_GAP_PERIODS)[0]]


def time_without_gaps(samples: Samples, stretches: list[slice]) -> Array:
    """Return the time of samples with small pauses in place of the gaps between stretches [s]."""
    time = np.empty(len(samples))
    total = sum(
        samples.time[stretch.stop - 1] - samples.time[stretch.start] for stretch in stretches
    )
    now, pause = 0.0, 0.004 * total
    for stretch in stretches:
        time[stretch] = now + samples.time[stretch] - samples.time[stretch.start]
        now = time[stretch.stop - 1] + pause
    return time


def decimate_curve(x: Array, y: Array, max_points: int) -> tuple[Array, Array]:
    """Return at most ``max_points`` of a curve: the lowest and the highest of each interval."""
    count = len(x)
    if count <= max_points or max_points < 4:
        return x, y
    edges = np.linspace(0, count, max_points // 2 + 1).astype(int)[:-1]
    width = np.diff([*edges, count]).max()
    index = np.minimum(edges[:, None] + np.arange(width), count - 1)
    inside = index < np.append(edges[1:], count)[:, None]
    low = np.where(inside, y[index], np.inf).argmin(1)
    high = np.where(inside, y[index], -np.inf).argmax(1)
    rows = np.arange(len(edges))
    indices = np.unique(np.concatenate([index[rows, low], index[rows, high]]))
    return x[indices], y[indices]


def interrupted_curve(
    time: Array, y: Array, stretches: list[slice], max_points: int
) -> tuple[Array, Array]:
    """Return the points of a curve that is interrupted between stretches."""
    ratio = max_points / max(len(time), 1)
    xs: list[Array] = []
    ys: list[Array] = []
    pause = np.array([np.nan])
    for stretch in stretches:
        count = int(ratio * (stretch.stop - stretch.start))
        x, stretch_y = decimate_curve(time[stretch], y[stretch], max(4, count))
        xs += [x, pause]
        ys += [stretch_y, pause]
    return (np.concatenate(xs).astype(np.float32), np.concatenate(ys).astype(np.float32))


def predicted_torques(result: Identification, samples: Samples) -> tuple[Array, Array]:
    """Return torques (B, nv) of both models, including unknown contact forces."""
    before, after = result.described_torque(samples), result.torque(samples)
    return (
        before + contact_torques(result, samples, samples.tau - before),
        after + contact_torques(result, samples, samples.tau - after),
    )


def contact_torques(result: Identification, samples: Samples, residual: Array) -> Array:
    """Return the torques (B, nv) in a residual that contact forces explain, by least squares."""
    explained = np.zeros_like(residual)
    if not samples.contacts:
        return explained
    noise = np.array([joint.noise for joint in result.joints])
    noise = np.where(noise > 0.0, noise, 1.0)
    data = Data(result.model)
    for start in range(0, len(samples), _BLOCK_SIZE):
        rows = slice(start, start + _BLOCK_SIZE)
        E = contact_eliminations(
            result.model, data, samples.take(rows), result.contact_dimension, noise
        )
        explained[rows] = residual[rows] - np.einsum("bij,bj->bi", E, residual[rows])
    return explained


def _set_layout(figure: Any, height: int, **options: Any) -> Any:
    """Set height, colors and axes of a figure, and return it."""
    options = {"margin": dict(l=56, r=12, t=48, b=40), **options}
    figure.update_layout(
        height=height,
        paper_bgcolor="white",
        plot_bgcolor="white",
        font=dict(family="system-ui, sans-serif", size=12, color=_TEXT_COLOR),
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
        gridcolor=_GRID_COLOR,
        zerolinecolor=_LINE_COLOR,
        linecolor=_LINE_COLOR,
        automargin=True,
        zeroline=True,
        title_font_size=12,
    )
    figure.update_xaxes(**axis)
    figure.update_yaxes(**axis)
    figure.update_annotations(font_size=12)
    return figure


def _top_legend(height: int) -> dict[str, Any]:
    """Return the options of a legend at the top of a figure."""
    return dict(y=1.0 - 4.0 / height, yanchor="top")


def torque_figures(result: Identification) -> Iterator[Any]:
    """Yield for each joint measured and predicted torque over time, with histograms of errors."""
    graph, subplots = import_plotly()
    samples = displayed_samples(result)
    stretches = gapless_stretches(samples)
    if not stretches:
        return
    before, after = predicted_torques(result, samples)
    time = time_without_gaps(samples, stretches)
    max_points = min(_MAX_CURVE_POINTS, max(300, _MAX_TOTAL_POINTS // (3 * len(result.joints))))
    for k, joint in enumerate(result.joints):
        figure = subplots.make_subplots(
            rows=1,
            cols=2,
            column_widths=[0.76, 0.24],
            horizontal_spacing=0.05,
            subplot_titles=[
                f"<b>{escape_label(joint.name)}</b> [{joint.unit}]",
                f"measured \u2212 model [{joint.unit}]",
            ],
        )
        for name, y, color, width in (
            ("measured", samples.tau, MEASURED_COLOR, 4.0),
            ("before", before, BEFORE_COLOR, 1.3),
            ("after", after, AFTER_COLOR, 1.3),
        ):
            xs, ys = interrupted_curve(time, y[:, k], stretches, max_points)
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
        for name, y, color in (("before", before, BEFORE_COLOR), ("after", after, AFTER_COLOR)):
            _add_histogram(graph, figure, (samples.tau - y)[:, k], name, color)
        _set_layout(figure, 190, showlegend=False, margin=dict(l=56, r=12, t=28, b=28))
        figure.update_yaxes(showticklabels=False, col=2)
        figure.layout.annotations[0].update(x=0.0, xanchor="left")
        yield figure


def _add_histogram(graph: ModuleType, figure: Any, residual: Array, name: str, color: str) -> None:
    """Add the outline of a histogram without the tails beyond 99.8 %."""
    residual = residual[np.isfinite(residual)]
    if len(residual) == 0:
        return
    low, high = np.quantile(residual, [0.001, 0.999])
    if not high > low:
        low, high = low - 1e-9, high + 1e-9
    density, edges = np.histogram(residual, _BIN_COUNT, (low, high), density=True)
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


def error_figure(result: Identification) -> Any:
    """Return a figure of RMS errors and noise relative to the RMS torques; None without torques."""
    graph, _ = import_plotly()
    joints = [joint for joint in result.joints if joint.torque > 0.0][::-1]
    if not joints:
        return None
    names = [escape_label(joint.name) for joint in joints]
    torque = np.array([joint.torque for joint in joints])
    figure = graph.Figure()
    noise = graph.Scatter(
        mode="markers",
        marker=dict(symbol="line-ns", size=18, line=dict(color=_TEXT_COLOR, width=2)),
    )
    for name, trace in (
        ("noise", noise),
        ("after", graph.Bar(marker_color=AFTER_COLOR)),
        ("before", graph.Bar(marker_color=BEFORE_COLOR)),
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
    _set_layout(
        figure, height, legend=_top_legend(height) | dict(traceorder="reversed"), bargap=0.3
    )
    figure.update_xaxes(
        title_text="RMS error of the torque [% of the RMS torque]", rangemode="tozero"
    )
    figure.update_yaxes(range=[-0.6, len(joints) - 0.4])
    return figure


# --- friction


def friction_torque(model: Model, k: int, v: Array, load: Array | float = 0.0) -> Array:
    """Return friction and offset of joint k, which moves alone with a torque of the links."""
    speeds, torque = np.zeros((2, len(v), model.nv))
    speeds[:, k], torque[:, k] = v, load
    return joint_friction(model, speeds, torque)[:, k]


def friction_figures(result: Identification) -> Iterator[Any]:
    """Yield for each joint torque minus inverse dynamics over velocity, with models of friction."""
    graph, _ = import_plotly()
    model, samples = result.identified, displayed_samples(result)
    if len(samples) == 0:
        return
    max_speed = np.abs(samples.v).max(axis=0)
    samples = samples.take(
        np.linspace(0, len(samples) - 1, min(_MAX_FRICTION_POINTS, len(samples))).astype(int)
    )
    rigid = rnea(model, Data(model), samples.q, samples.v, samples.a, samples.f_ext)
    rigid += model.drives.rotor_torque(samples.a)
    residual = samples.tau - rigid
    residual -= contact_torques(result, samples, samples.tau - result.torque(samples))
    for k in np.flatnonzero(has_single_coordinate(model)).tolist():
        joint = result.joints[k]
        figure = graph.Figure(
            graph.Scatter(
                x=samples.v[:, k].astype(np.float32),
                y=residual[:, k].astype(np.float32),
                mode="markers",
                marker=dict(color=_SECONDARY_COLOR, size=3, opacity=0.4),
                name="measured",
                hoverinfo="skip",
            )
        )
        speeds = np.linspace(1e-9, 1.0, 60) * max_speed[k]
        v, load = np.concatenate([-speeds[::-1], [0.0], speeds]), np.abs(rigid[:, k]).mean()
        for name, friction_model, color in (
            ("before", result.model, BEFORE_COLOR),
            ("after", model, AFTER_COLOR),
        ):
            y = friction_torque(friction_model, k, v, load)
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
        _set_layout(
            figure,
            240,
            showlegend=False,
            margin=dict(l=48, r=8, t=28, b=36),
            title=dict(
                text=f"<b>{escape_label(joint.name)}</b> [{joint.unit}]",
                font_size=12,
                x=0.5,
                y=0.96,
            ),
        )
        figure.update_xaxes(
            title_text=f"[{'m/s' if joint.unit == 'N' else 'rad/s'}]", title_standoff=4
        )
        yield figure


# --- bodies


def central_inertia(parameters: Array) -> tuple[float, Array, Array, Array]:
    """Return mass, center of mass, second moments about it per mass, and their axes.

    The moments, (3,) [m2], are ascending, and zero if they are negative.
    """
    P = pseudo_inertia(parameters)
    if not P[3, 3] > 0.0:
        return float(P[3, 3]), np.full(3, np.nan), np.full(3, np.nan), np.eye(3)
    com = P[:3, 3] / P[3, 3]
    moments, axes = np.linalg.eigh(P[:3, :3] / P[3, 3] - np.outer(com, com))
    return float(P[3, 3]), com, np.maximum(moments, 0.0), axes


def _unit_sphere() -> tuple[Array, np.ndarray]:
    """Return points and triangles of the unit sphere."""
    latitude, longitude = np.meshgrid(
        np.linspace(0.0, np.pi, _LATITUDE_COUNT),
        np.linspace(0.0, 2.0 * np.pi, _LONGITUDE_COUNT, endpoint=False),
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
    a = np.arange(len(points) - _LONGITUDE_COUNT).reshape(-1, _LONGITUDE_COUNT)
    b, c, d = (
        np.roll(a, -1, axis=1),
        a + _LONGITUDE_COUNT,
        np.roll(a, -1, axis=1) + _LONGITUDE_COUNT,
    )
    return points, np.stack([a, b, c, b, d, c], axis=-1).reshape(-1, 3)


def body_figure(result: Identification) -> Any:
    """Return a figure of each body as an ellipsoid of uniform density, and the skeleton."""
    graph, _ = import_plotly()
    model = result.model
    frames = model.tree.frames
    X = np.asarray(frame_placements(model, Data(model), model.neutral())).copy()
    placements = {
        frame.parent: X[i] @ np.linalg.inv(frame.placement) for i, frame in enumerate(frames)
    }
    figure = graph.Figure()
    lines: list[Array] = []
    for i, frame in enumerate(frames):
        if frame.kind == "body" and frame.parent_frame > 0:
            parent = frames[frame.parent_frame].parent_frame
            if parent >= 0:
                lines += [X[parent, :3, 3], X[i, :3, 3], np.full(3, np.nan)]
    if lines:
        x, y, z = np.array(lines).T
        figure.add_trace(
            graph.Scatter3d(
                x=x,
                y=y,
                z=z,
                mode="lines+markers",
                line=dict(color=_TEXT_COLOR, width=4),
                marker=dict(color=_TEXT_COLOR, size=3),
                name="frames",
                hoverinfo="skip",
            )
        )
    points, triangles = _unit_sphere()
    i, j, k = triangles.T.astype(np.int16)
    outline = graph.Scatter3d(mode="lines", line=dict(color=BEFORE_COLOR, width=3))
    solid = graph.Mesh3d(
        i=i,
        j=j,
        k=k,
        color=AFTER_COLOR,
        opacity=0.35,
        flatshading=False,
        lighting=dict(ambient=0.75, diffuse=0.4, specular=0.05, roughness=0.9),
    )
    shapes = (
        ("before", model, outline, _unit_circles()),
        ("after", result.identified, solid, points),
    )
    for joint, link in enumerate(model.tree.body_links):
        for name, robot, trace, surface in shapes:
            parameters = robot.inertial_parameters[joint]
            if parameters[0] > 0.0:
                x, y, z = _body_ellipsoid(placements[joint], parameters, surface).T
                figure.add_trace(
                    trace.update(
                        x=x,
                        y=y,
                        z=z,
                        name=name,
                        legendgroup=name,
                        showlegend=not list(figure.select_traces(dict(name=name))),
                        hovertemplate=(
                            f"{escape_label(link)}, {name}: {parameters[0]:.4g} kg<extra></extra>"
                        ),
                    )
                )
    _set_layout(figure, 600, legend=_top_legend(600), margin=dict(l=0, r=0, t=32, b=0))
    figure.update_layout(scene=_scene_layout(figure))
    return figure


def _unit_circles() -> Array:
    """Return three circles around the unit sphere, separated by NaN."""
    angle = np.linspace(0.0, 2.0 * np.pi, 49)
    circle = np.array([np.cos(angle), np.sin(angle), 0.0 * angle]).T
    separator = np.full((1, 3), np.nan)
    return np.concatenate([curve for n in range(3) for curve in (np.roll(circle, n, 1), separator)])


def _body_ellipsoid(placement: Array, parameters: Array, points: Array) -> Array:
    """Return points of the unit sphere on the ellipsoid of a body, in the world."""
    _, com, moments, axes = central_inertia(parameters)
    surface = com + (points * np.sqrt(5.0 * moments)) @ axes.T
    return (surface @ placement[:3, :3].T + placement[:3, 3]).astype(np.float32)


def _scene_layout(figure: Any) -> dict[str, Any]:
    """Return axes and camera with all traces in view, in proportion."""
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
            gridcolor=_GRID_COLOR,
            zerolinecolor=_GRID_COLOR,
            title=dict(text=axis[0] + " [m]", font=dict(color=_SECONDARY_COLOR, size=11)),
            showspikes=False,
            tickfont=dict(color=_SECONDARY_COLOR, size=10),
            dtick=step,
            range=(middle[n] + 0.5 * extent[n] * np.array([-1.0, 1.0])).tolist(),
        )
    camera = dict(eye=dict(x=1.25, y=1.25, z=0.5), projection=dict(type="orthographic"))
    return dict(
        aspectmode="manual", aspectratio=dict(zip("xyz", 2.1 * ratio)), **axes, camera=camera
    )
