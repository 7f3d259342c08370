# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Draws the diagrams of frames, of torques, and of the momentum observer.

    python docs/draw_diagrams.py

It writes frames.svg (of docs/conventions.md), torques.svg (docs/nodes.md) and observer_loop.svg
(docs/observer.md) to docs/images.
"""

from pathlib import Path

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import FancyBboxPatch
from numpy.typing import NDArray

matplotlib.use("Agg")
import matplotlib.pyplot as plt

IMAGES = Path(__file__).parent / "images"
TEXT, GRAY, LINK = "#22262b", "#7a808a", "#c9ced6"
X_AXIS, Y_AXIS, VELOCITY = "#c83a2a", "#2b8a3a", "#2460b8"
Point = NDArray[np.float64]


def arrow(
    axes: Axes, start: Point, end: Point, color: str, width: float = 1.8, style: str = "-|>"
) -> None:
    """Draw an arrow."""
    axes.annotate(
        "",
        end,
        start,
        arrowprops={
            "arrowstyle": style,
            "color": color,
            "linewidth": width,
            "shrinkA": 0,
            "shrinkB": 0,
        },
    )


def frame(
    axes: Axes, origin: Point, angle: float, length: float = 0.42, fade: bool = False
) -> None:
    """Draw the x and y axes of a frame that is turned by an angle [rad]."""
    for turn, color, name in ((0.0, X_AXIS, "x"), (np.pi / 2, Y_AXIS, "y")):
        direction = np.array([np.cos(angle + turn), np.sin(angle + turn)])
        shown = LINK if fade else color
        arrow(axes, origin, origin + length * direction, shown)
        if not fade:
            place = origin + (length + 0.1) * direction
            axes.text(*place, name, color=color, fontsize=9, ha="center", va="center")


def bare(axes: Axes, title: str, x: tuple[float, float], y: tuple[float, float]) -> None:
    """Give axes a title and limits, and hide their lines."""
    axes.set_title(title, fontsize=11, loc="left", color=TEXT)
    axes.set_xlim(x)
    axes.set_ylim(y)
    axes.set_aspect("equal")
    axes.axis("off")


# --- frames

WORLD = np.array([0.0, 0.0])
SHOULDER, ELBOW, TOOL = np.array([[0.9, 0.35], [1.75, 1.15], [2.85, 1.4]])
TOOL_ANGLE = np.arctan2(*(TOOL - ELBOW)[::-1])
RATE = 0.8  # rad/s, of the shoulder
VIEW = (-0.6, 3.75), (-0.75, 2.75)  # m


def turned_velocity(point: Point) -> Point:
    """Return the velocity of a point of a body that turns about the shoulder [m/s]."""
    lever = point - SHOULDER
    return RATE * np.array([-lever[1], lever[0]])


def draw_links(axes: Axes) -> None:
    """Draw the links from the world to the tool."""
    axes.plot(*np.array([WORLD, SHOULDER, ELBOW, TOOL]).T, color=LINK, linewidth=10, zorder=0)
    axes.plot(
        *np.array([SHOULDER, ELBOW]).T, "o", color="white", markeredgecolor=GRAY, markersize=9
    )


def draw_frames_of_links(axes: Axes) -> None:
    """Draw which frames an arm has."""
    bare(axes, "Frames of an arm", *VIEW)
    draw_links(axes)
    upper_angle = np.arctan2(*(ELBOW - SHOULDER)[::-1])
    for origin, angle in (
        (WORLD, 0.0),
        (SHOULDER, upper_angle),
        (ELBOW, TOOL_ANGLE),
        (TOOL, TOOL_ANGLE),
    ):
        frame(axes, origin, angle)
    center = ELBOW + 0.72 * (TOOL - ELBOW)
    axes.plot(*center, "o", color=TEXT, markersize=5)
    notes = (
        (WORLD + [-0.1, -0.15], "root link\n= world", "left"),
        (SHOULDER + [0.2, -0.1], "joint shoulder\n= its child link", "left"),
        (ELBOW + [0.15, -0.2], "joint elbow\n= its child link", "left"),
        (TOOL + [0.08, -0.15], "tool, fixed\nto this link", "left"),
        (center + [-0.3, 0.36], "center of mass", "center"),
    )
    for place, words, align in notes:
        axes.text(*place, words, fontsize=9, color=TEXT, ha=align, va="top", linespacing=1.2)


def draw_reference_frame(
    axes: Axes, name: str, value: int, point: Point, angle: float, words: str
) -> None:
    """Draw the axes and the reference point of a ReferenceFrame, with the velocity of the tool."""
    bare(axes, f"{name} ({value})", *VIEW)
    axes.text(-0.55, 2.75, words, fontsize=9, color=GRAY, va="top", linespacing=1.3)
    draw_links(axes)
    for origin, turn in ((WORLD, 0.0), (TOOL, TOOL_ANGLE)):
        frame(axes, origin, turn, fade=True)
    frame(axes, point, angle)
    velocity = turned_velocity(point)
    arrow(axes, point, point + 0.75 * velocity, VELOCITY, 2.4)
    inverse = np.array([[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]])
    x, y = inverse @ velocity
    axes.text(
        3.7,
        -0.65,
        f"linear {x:.2f}  {y:.2f} m/s\nangular {RATE:.2f} rad/s",
        fontsize=9,
        color=VELOCITY,
        ha="right",
        linespacing=1.3,
    )
    sweep = np.linspace(-0.4, 1.1, 30)
    axes.plot(
        SHOULDER[0] + 0.24 * np.cos(sweep), SHOULDER[1] + 0.24 * np.sin(sweep), color=VELOCITY
    )
    axes.text(-0.07, -0.12, "world", fontsize=9, color=GRAY, ha="right")
    axes.text(*(TOOL + [0.05, -0.25]), "tool", fontsize=9, color=GRAY)


def draw_frames() -> None:
    """Draw frames.svg."""
    figure, panels = plt.subplots(2, 2, figsize=(9.2, 7.0))
    draw_frames_of_links(panels[0, 0])
    cases = (
        (
            "WORLD",
            0,
            WORLD,
            0.0,
            "world's axes; velocity of the point of the tool's body\nthat is at the world's origin",
        ),
        ("LOCAL", 1, TOOL, TOOL_ANGLE, "tool's axes; velocity of the tool's origin"),
        ("LOCAL_WORLD_ALIGNED", 2, TOOL, 0.0, "world's axes; velocity of the tool's origin"),
    )
    for axes, case in zip((panels[0, 1], panels[1, 0], panels[1, 1]), cases):
        draw_reference_frame(axes, *case)
    save(figure, "frames")


# --- torques

TERMS = (
    ("gravity\ng", "#e3b23c"),
    ("Coriolis,\ncentrifugal\nC v", "#7fb069"),
    ("inertia\nM a", "#6ca6cd"),
    ("friction", "#c98bb9"),
    ("external\nefforts", "#e07a5f"),
)
TORQUES = (  # the terms: 1 contained, -1 subtracted, 0.5 with include_friction
    ("~/gravity, command: gravity", (1, 0, 0, 0, 0)),
    ("~/nle", (1, 1, 0, 0, 0)),
    ("~/state: nle, command: nle", (1, 1, 0, 0.5, 0)),
    ("~/get_inverse_dynamics", (1, 1, 1, 0.5, 0)),
    ("effort of a motor (measured)", (1, 1, 1, 1, -1)),
    ("~/residual of observer_node", (0, 0, 0, 0, -1)),
    ("~/external_efforts of observer_node", (0, 0, 0, 0, 1)),
)


def draw_torques() -> None:
    """Draw torques.svg: the terms of each torque."""
    figure, axes = plt.subplots(figsize=(9.2, 4.1))
    axes.axis("off")
    axes.set_xlim(-3.7, len(TERMS))
    axes.set_ylim(-len(TORQUES) - 0.1, 1.2)
    for column, (term, _) in enumerate(TERMS):
        axes.text(column + 0.5, 0.15, term, ha="center", va="bottom", fontsize=10, color=TEXT)
    for row, (name, shares) in enumerate(TORQUES):
        middle = -row - 0.5
        axes.text(-0.15, middle, name, ha="right", va="center", fontsize=10, color=TEXT)
        axes.plot([-3.7, len(TERMS)], [-row - 1, -row - 1], color="#e6e8ec", linewidth=1)
        for column, (share, (_, color)) in enumerate(zip(shares, TERMS)):
            if not share:
                continue
            optional = share == 0.5
            axes.add_patch(
                FancyBboxPatch(
                    (column + 0.1, middle - 0.3),
                    0.8,
                    0.6,
                    boxstyle="round,pad=0,rounding_size=0.12",
                    facecolor="white" if optional else color,
                    edgecolor=color,
                    linewidth=1.5,
                    linestyle="--" if optional else "-",
                )
            )
            words = "optional" if optional else "+" if share > 0 else "\N{MINUS SIGN}"
            axes.text(column + 0.5, middle, words, ha="center", va="center", fontsize=9, color=TEXT)
    save(figure, "torques")


# --- the momentum observer


def box(axes: Axes, center: tuple[float, float], words: str, width: float, color: str) -> None:
    """Draw a block with a text."""
    x, y = center
    axes.add_patch(
        FancyBboxPatch(
            (x - width / 2, y - 0.3),
            width,
            0.6,
            boxstyle="round,pad=0,rounding_size=0.08",
            facecolor=color,
            edgecolor=GRAY,
            linewidth=1.2,
        )
    )
    axes.text(x, y, words, ha="center", va="center", fontsize=10, color=TEXT)


def junction(axes: Axes, center: tuple[float, float]) -> None:
    """Draw the circle of a sum."""
    axes.plot(*center, "o", color="white", markeredgecolor=GRAY, markersize=15, zorder=3)
    axes.text(*center, "+", ha="center", va="center", fontsize=11, color=TEXT, zorder=4)


def path(axes: Axes, points: list[tuple[float, float]], color: str = GRAY) -> None:
    """Draw a line with a corner at each point, and an arrow at its end."""
    axes.plot(*np.array(points[:-1]).T, color=color, linewidth=1.5, solid_capstyle="butt")
    arrow(axes, np.array(points[-2]), np.array(points[-1]), color, 1.5)


def draw_observer_loop() -> None:
    """Draw observer_loop.svg."""
    figure, axes = plt.subplots(figsize=(9.2, 3.5))
    axes.axis("off")
    axes.set_xlim(0, 11.6)
    axes.set_ylim(-0.1, 3.75)
    robot, model = "#eef1f5", "#dfe9f5"
    box(axes, (1.0, 1.7), "robot", 1.3, robot)
    box(axes, (3.4, 3.2), "p = M v", 1.7, model)
    box(axes, (3.4, 2.35), "C' v \N{MINUS SIGN} g \N{MINUS SIGN} friction", 2.3, model)
    box(axes, (6.8, 1.55), "integral", 1.1, model)
    box(axes, (9.2, 1.55), "gain K", 1.1, model)
    for x in (5.0, 5.7, 7.9):
        junction(axes, (x, 1.55))
    path(axes, [(1.65, 1.85), (1.95, 1.85), (1.95, 3.2), (2.55, 3.2)])
    path(axes, [(1.95, 2.35), (2.25, 2.35)])
    path(axes, [(1.65, 1.55), (4.82, 1.55)])
    path(axes, [(4.55, 2.35), (5.0, 2.35), (5.0, 1.77)])
    path(axes, [(5.18, 1.55), (5.52, 1.55)])
    path(axes, [(5.88, 1.55), (6.25, 1.55)])
    path(axes, [(7.35, 1.55), (7.72, 1.55)])
    path(axes, [(4.25, 3.2), (7.9, 3.2), (7.9, 1.77)])
    path(axes, [(8.08, 1.55), (8.65, 1.55)])
    path(axes, [(9.75, 1.55), (11.4, 1.55)], VELOCITY)
    path(axes, [(10.3, 1.55), (10.3, 0.6), (5.7, 0.6), (5.7, 1.33)], VELOCITY)
    path(axes, [(1.0, 3.1), (1.0, 2.02)], X_AXIS)
    labels = (
        (
            1.0,
            3.2,
            "external effort \N{GREEK SMALL LETTER TAU}\u2091\u2093\u209c",
            X_AXIS,
            "center",
        ),
        (2.0, 2.72, "q, v", TEXT, "left"),
        (4.6, 1.3, "measured effort \N{GREEK SMALL LETTER TAU}", TEXT, "right"),
        (7.7, 1.22, "\N{MINUS SIGN}", TEXT, "right"),
        (10.4, 1.68, "residual r", VELOCITY, "left"),
    )
    for x, y, words, color, align in labels:
        axes.text(x, y, words, fontsize=10, color=color, ha=align)
    axes.text(
        5.8,
        0.05,
        "dr/dt = K (\N{GREEK SMALL LETTER TAU}\u2091\u2093\u209c \N{MINUS SIGN} r): "
        "the residual is the external effort after a low-pass filter",
        fontsize=9,
        color=GRAY,
        ha="center",
    )
    save(figure, "observer_loop")


def save(figure: plt.Figure, name: str) -> None:
    """Write a picture of docs/images."""
    figure.tight_layout()
    figure.savefig(IMAGES / f"{name}.svg", metadata={"Date": None, "Creator": None})


def main() -> None:
    """Draw all diagrams."""
    plt.rcParams.update({"font.family": "DejaVu Sans", "svg.hashsalt": "dyn_ros"})
    draw_frames()
    draw_torques()
    draw_observer_loop()


if __name__ == "__main__":
    main()
