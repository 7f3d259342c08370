# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Draws what tuning changes in the external efforts of an arm, for docs/observer.md.

    python docs/draw_observer.py        writes docs/images/observer_*.svg

A simulated arm moves, and is pushed at its tool with 5 N. Its efforts have noise, and what the
observer assumes differs from the truth by one thing in each figure.
"""

from pathlib import Path
from typing import NamedTuple

import numpy as np

import dyn_ros

ROOT = Path(__file__).resolve().parents[1]
ARM = ROOT / "dyn_ros" / "robots" / "arm7.urdf"
IMAGES = ROOT / "docs" / "images"
POSTURE = np.array([0.0, 0.6, 0.0, 1.2, 0.0, 0.7, 0.0])
SWING, FREQUENCY = 0.4, 0.35  # rad, Hz
STEP = 1e-3  # s
NOISE = 0.01  # of the largest effort of each joint
FRICTION, DAMPING = 1.5, 0.8  # N m, N m s/rad in each joint
PUSH, PUSHED = 5.0, (1.0, 2.0)  # N, s
SHOWN = 1  # the joint in the figures


class Recording(NamedTuple):
    """A motion and the measured efforts."""

    time: np.ndarray
    q: np.ndarray
    v: np.ndarray
    tau: np.ndarray


def arm():
    model = dyn_ros.Model.from_urdf_file(ARM)
    model.friction, model.damping = [FRICTION] * model.nv, [DAMPING] * model.nv
    return model


def record(model, duration, *, moving=True, pushed=False, delay=0.0):
    """Return what the sensors of a model measure; the efforts lag by a delay [s]."""
    data, rng = dyn_ros.Data(model), np.random.default_rng(0)
    time = np.arange(0.0, duration, STEP)

    def motion(at):
        phase = 2.0 * np.pi * FREQUENCY * at[:, None] + np.arange(model.nv)
        rate = 2.0 * np.pi * FREQUENCY
        size = SWING * moving
        return (
            POSTURE + size * (np.sin(phase) - np.sin(np.arange(model.nv))),
            size * rate * np.cos(phase),
            -size * rate**2 * np.sin(phase),
        )

    q, v, a = motion(time - delay)
    tau = dyn_ros.rnea(model, data, q, v, a) + dyn_ros.joint_friction(model, v)
    if pushed:
        J = dyn_ros.frame_jacobian(
            model, data, q, "tool", dyn_ros.ReferenceFrame.LOCAL_WORLD_ALIGNED
        )
        acts = (time >= PUSHED[0]) & (time < PUSHED[1])
        tau += PUSH * J[:, 2] * acts[:, None]  # downward
    tau += NOISE * abs(tau).max(axis=0) * rng.standard_normal(tau.shape)
    return Recording(time, *motion(time)[:2], tau)


def external(model, recording, gain=100.0, **settings):
    """Return the external efforts of the joint in the figures."""
    return observed(model, recording, gain, **settings)[:, SHOWN]


def observed(model, recording, gain=100.0, **settings):
    """Return the external efforts as observer_node computes them."""
    residual = dyn_ros.momentum_observer(
        model, recording.q, recording.v, recording.tau, STEP, gain, **settings
    )
    return dyn_ros.LowPass(gain).run(residual, STEP)


# --- the figures

BLUE, RED, GREEN, GRAY = "#2471a3", "#c0392b", "#1e8449", "#999"
WIDTH, HEIGHT = 760, 230
LEFT, RIGHT, TOP, BOTTOM = 60, 745, 40, 190


class Curve(NamedTuple):
    label: str
    color: str
    value: np.ndarray


def line(points, color, width=1.5, dashes=""):
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    return (
        f'<polyline points="{path}" fill="none" stroke="{color}" stroke-width="{width}" '
        f'stroke-dasharray="{dashes}" stroke-linejoin="round"/>'
    )


def text(x, y, words, color="#333", anchor="start"):
    return f'<text x="{x:.1f}" y="{y:.1f}" fill="{color}" text-anchor="{anchor}">{words}</text>'


def figure(time, curves, title, limits=(), band=None):
    """Return an SVG of curves over time [s]; limits are drawn dashed, a band of time is gray."""
    low = min(0.0, *(curve.value.min() for curve in curves), *limits)
    high = max(0.0, *(curve.value.max() for curve in curves), *limits)
    unit = next(unit for unit in (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0) if (high - low) / unit <= 5.0)
    low, high = unit * np.floor(low / unit), unit * np.ceil(high / unit)

    def place(t, value):
        return (
            LEFT + (RIGHT - LEFT) * (t - time[0]) / (time[-1] - time[0]),
            BOTTOM - (BOTTOM - TOP) * (value - low) / (high - low),
        )

    parts = []
    if band:
        x0, x1 = (place(np.clip(t, time[0], time[-1]), low)[0] for t in band)
        parts += [
            f'<rect x="{x0:.1f}" y="{TOP}" width="{x1 - x0:.1f}" height="{BOTTOM - TOP}" '
            'fill="#eee"/>',
            text((x0 + x1) / 2, BOTTOM - 4, f"push, {PUSH:g} N", "#777", "middle"),
        ]
    for value in np.arange(low, high + unit / 2, unit):
        y = place(0.0, value)[1]
        parts += [
            line([(LEFT, y), (RIGHT, y)], "#666" if abs(value) < unit / 2 else "#ddd", 1.0),
            text(LEFT - 8, y + 4, f"{value + 0.0:.3g}", anchor="end"),
        ]
    parts += [
        line([(LEFT, place(0.0, value)[1]), (RIGHT, place(0.0, value)[1])], RED, 1.2, "6 4")
        for value in limits
    ]
    stride = max(1, len(time) // 900)
    for n, curve in enumerate(curves):
        parts.append(
            line([place(t, x) for t, x in zip(time[::stride], curve.value[::stride])], curve.color)
        )
        x = RIGHT - 430 / len(curves) * (len(curves) - n - 1) - 5
        parts.append(text(x, 24, curve.label, curve.color, "end"))
    tick = 0.05 if time[-1] - time[0] < 1.0 else 0.5
    for t in np.arange(np.ceil(time[0] / tick), np.floor(time[-1] / tick + 0.5) + 1) * tick:
        parts.append(text(place(t, low)[0], BOTTOM + 18, f"{t:.3g}", anchor="middle"))
    parts += [
        text(LEFT, 24, title),
        text((LEFT + RIGHT) / 2, HEIGHT - 5, "time [s]", anchor="middle"),
    ]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
        'font-family="sans-serif" font-size="13">'
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>\n'
        + "\n".join(parts)
        + "\n</svg>\n"
    )


def of_the_model():
    """A tool of 0.4 kg that the description does not contain."""
    true, known = arm(), arm()
    true.set_payload("tool", "tool", 0.4, np.zeros(3), 1e-4 * np.eye(3))
    recording = record(true, 4.001)
    return figure(
        recording.time,
        [
            Curve("without the tool in the model", RED, external(known, recording)),
            Curve("with it", BLUE, external(true, recording)),
        ],
        "external effort [N m]",
    )


def of_friction():
    true = arm()
    recording = record(true, 4.001)
    return figure(
        recording.time,
        [
            Curve("a model without friction", RED, external(true, recording, friction=False)),
            Curve("with friction", BLUE, external(true, recording)),
        ],
        "external effort [N m]",
    )


def of_delay():
    true, late = arm(), 30
    recording = record(true, 4.001 + late * STEP, delay=late * STEP)
    aligned = Recording(
        recording.time[late:], recording.q[:-late], recording.v[:-late], recording.tau[late:]
    )
    return figure(
        aligned.time,
        [
            Curve("efforts that lag by 30 ms", RED, external(true, recording)[late:]),
            Curve("effort_delay: 0.03", BLUE, external(true, aligned)),
        ],
        "external effort [N m]",
    )


def of_gain():
    true = arm()
    recording = record(true, 1.201, moving=False, pushed=True)
    shown = slice(900, None)
    colors = {20.0: GREEN, 100.0: BLUE, 500.0: RED}
    return figure(
        recording.time[shown],
        [
            Curve(f"{gain:g} /s", color, external(true, recording, gain)[shown])
            for gain, color in colors.items()
        ],
        "external effort [N m]; gain and smoothing:",
        band=(PUSHED[0], 1.2),
    )


def of_thresholds():
    true = arm()
    free = record(true, 30.0)
    at_rest = np.zeros(true.nv)
    settled = slice(200, None)
    r = observed(true, free)
    level = dyn_ros.calibrate_thresholds(r[settled], free.v[settled], STEP).of(at_rest)[SHOWN]
    recording = record(true, 3.001, pushed=True)
    return figure(
        recording.time,
        [Curve("external effort", BLUE, external(true, recording))],
        "external effort [N m]; dashed: thresholds",
        (-level, level),
        PUSHED,
    )


FIGURES = {
    "model": of_the_model,
    "friction": of_friction,
    "delay": of_delay,
    "gain": of_gain,
    "thresholds": of_thresholds,
}


def main():
    for name, draw in FIGURES.items():
        (IMAGES / f"observer_{name}.svg").write_text(draw())


if __name__ == "__main__":
    main()
