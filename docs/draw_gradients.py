# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Draws docs/images/gradients.svg, the two kinds of gradients of docs/learners.md.

python docs/draw_gradients.py
"""

from pathlib import Path

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from numpy.typing import NDArray

matplotlib.use("Agg")
import matplotlib.pyplot as plt

FIGURE = Path(__file__).parent / "images" / "gradients.svg"
ANGLE, NORM = 35.0, 1.25  # of q, which is not normalized
STEP = 0.75  # of the optimizer, in radians of the unit circle
GRAY, CIRCLE, GRADIENT, VELOCITY = "#8a8f98", "#c9ced6", "#d0412f", "#2460b8"


def direction(angle: float) -> NDArray[np.float64]:
    """Return the unit vector at an angle [degrees]."""
    return np.array([np.cos(np.deg2rad(angle)), np.sin(np.deg2rad(angle))])


def draw_circle(axes: Axes, title: str) -> None:
    """Draw the unit quaternions, of which two axes of four are shown."""
    turns = np.linspace(0.0, 2.0 * np.pi, 200)
    axes.plot(np.cos(turns), np.sin(turns), color=CIRCLE, linewidth=3)
    axes.text(-0.66, -0.86, "norm 1", color=GRAY, fontsize=9, ha="right", va="top")
    axes.plot(0.0, 0.0, "+", color=GRAY)
    axes.set_title(title, fontsize=11, loc="left")
    axes.set_aspect("equal")
    axes.set_xlim(-1.25, 1.75)
    axes.set_ylim(-1.15, 1.75)
    axes.axis("off")


def draw_arrow(
    axes: Axes, start: NDArray[np.float64], end: NDArray[np.float64], color: str
) -> None:
    """Draw a vector."""
    axes.annotate(
        "",
        end,
        start,
        arrowprops={
            "arrowstyle": "-|>",
            "color": color,
            "linewidth": 1.8,
            "shrinkA": 0,
            "shrinkB": 0,
        },
    )


def draw_point(
    axes: Axes, point: NDArray[np.float64], text: str, shift: tuple[float, float]
) -> None:
    """Draw a point with a name."""
    axes.plot(*point, "o", color="black", markersize=5, zorder=3)
    axes.text(*(point + shift), text, fontsize=10)


def draw_numbers(axes: Axes) -> None:
    """Draw a step along the gradient in the numbers of q."""
    draw_circle(axes, "Gradient in nq numbers")
    unit, across = direction(ANGLE), direction(ANGLE + 90.0)
    q = NORM * unit
    moved = q + STEP / NORM * across
    axes.plot(*np.array([[0.0, 0.0], q]).T, ":", color=GRAY)
    axes.plot(*np.array([[0.0, 0.0], moved]).T, ":", color=GRAY)
    draw_arrow(axes, q, moved, GRADIENT)
    draw_point(axes, q, "q", (0.06, -0.04))
    draw_point(axes, moved, "q after a step", (0.06, 0.06))
    draw_point(axes, unit, "normalize(q)", (0.1, -0.1))
    draw_point(axes, moved / np.linalg.norm(moved), "", (0.0, 0.0))


def draw_tangent(axes: Axes) -> None:
    """Draw a step along a velocity."""
    draw_circle(axes, "tangent=True: gradient in nv numbers")
    unit, across = direction(ANGLE), direction(ANGLE + 90.0)
    draw_arrow(axes, unit, unit + STEP * across, VELOCITY)
    turns = np.deg2rad(np.linspace(ANGLE, ANGLE + np.rad2deg(STEP), 50))
    axes.plot(np.cos(turns), np.sin(turns), color=VELOCITY, linewidth=3)
    draw_point(axes, unit, "q", (0.06, -0.04))
    draw_point(axes, direction(ANGLE + np.rad2deg(STEP)), "", (0.0, 0.0))
    axes.text(0.16, 1.08, "integrate(q, v)", fontsize=10, ha="right")
    axes.text(0.62, 1.16, "v", color=VELOCITY, fontsize=10)


def main() -> None:
    """Draw the figure."""
    plt.rcParams.update({"font.family": "DejaVu Sans", "svg.hashsalt": "dyn_ros"})
    figure, (left, right) = plt.subplots(1, 2, figsize=(9.0, 4.2))
    draw_numbers(left)
    draw_tangent(right)
    figure.tight_layout()
    figure.savefig(FIGURE, metadata={"Date": None, "Creator": None})


if __name__ == "__main__":
    main()
