# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Draws docs/images/coordinates.svg, the four systems of coordinates of docs/coordinates.md.

python docs/draw_coordinates.py
"""

from pathlib import Path

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from numpy.typing import NDArray

matplotlib.use("Agg")
import matplotlib.pyplot as plt

FIGURE = Path(__file__).parent / "images" / "coordinates.svg"
WORLD = np.array([-0.9, -0.55])
JOINTS = np.array([[0.0, 0.0], [0.75, 0.62], [1.75, 0.5]])
TIP = np.array([2.45, 0.95])
ANGLES = [40.0, -7.0, 33.0]  # of the joint frames, degrees
AXIS_LENGTH = 0.34
GRAY, LINK, X_AXIS, Y_AXIS, OFFSET = "#8a8f98", "#c9ced6", "#d0412f", "#2f8f3e", "#2460b8"
PANELS = (
    ("Body frames", "rnea, forward kinematics, momentum terms"),
    ("World axes, about each joint", "crba, aba, torque regressor"),
    ("World axes, relative to the first joint", "centers of mass, all_terms, minverse"),
    ("Fixed axes at the first joint", "derivatives, Coriolis matrix"),
)


def draw_frame(axes: Axes, origin: NDArray[np.float64], angle: float, color: bool = True) -> None:
    """Draw the axes of a frame, in gray if nothing is expressed in it."""
    for turn, hue in ((0.0, X_AXIS), (90.0, Y_AXIS)):
        direction = np.deg2rad(angle + turn)
        tip = origin + AXIS_LENGTH * np.array([np.cos(direction), np.sin(direction)])
        axes.annotate(
            "",
            tip,
            origin,
            arrowprops={
                "arrowstyle": "-|>",
                "color": hue if color else GRAY,
                "linewidth": 1.8 if color else 1.0,
                "shrinkA": 0,
                "shrinkB": 0,
            },
        )


def draw_offset(axes: Axes, start: NDArray[np.float64], end: NDArray[np.float64]) -> None:
    """Draw the vector by which quantities are shifted."""
    axes.annotate(
        "",
        end,
        start,
        arrowprops={"arrowstyle": "->", "color": OFFSET, "linestyle": "--", "shrinkB": 5},
    )


def draw_arm(axes: Axes, title: str, users: str) -> None:
    """Draw an arm with three joints, and the frame of the world."""
    points = np.vstack([JOINTS, TIP])
    axes.plot(*points.T, color=LINK, linewidth=9, solid_capstyle="round", zorder=0)
    axes.plot(*JOINTS.T, "o", color="white", markeredgecolor=GRAY, markersize=8, zorder=1)
    draw_frame(axes, WORLD, 0.0, color=False)
    axes.text(*(WORLD + [0.02, -0.18]), "world", color=GRAY, fontsize=9, ha="center")
    axes.set_title(title, fontsize=11, loc="left", pad=14)
    axes.text(0.0, 1.02, users, transform=axes.transAxes, color=GRAY, fontsize=9)
    axes.set_aspect("equal")
    axes.set_xlim(-1.2, 2.75)
    axes.set_ylim(-0.85, 1.3)
    axes.axis("off")


def main() -> None:
    """Draw the figure."""
    plt.rcParams.update({"font.family": "DejaVu Sans", "svg.hashsalt": "dyn_ros"})
    figure, panels = plt.subplots(2, 2, figsize=(9.2, 6.0))
    for axes, (title, users) in zip(panels.flat, PANELS):
        draw_arm(axes, title, users)
    body, about, relative, fixed = panels.flat
    for joint, angle in zip(JOINTS, ANGLES):
        draw_frame(body, joint, angle)
        draw_frame(about, joint, 0.0)
        draw_frame(relative, joint, 0.0)
    for start, end in zip([WORLD, *JOINTS], JOINTS):
        draw_offset(about, start, end)
    for joint in JOINTS[1:]:
        draw_offset(relative, JOINTS[0], joint)
    draw_frame(fixed, JOINTS[0], 0.0)
    figure.tight_layout()
    figure.savefig(FIGURE, metadata={"Date": None, "Creator": None})


if __name__ == "__main__":
    main()
