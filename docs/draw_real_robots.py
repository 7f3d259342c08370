# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Draws docs/images/real_robots.svg: errors of identified models of real robots.

    python docs/draw_real_robots.py

The numbers are results of `python benchmarks/held_out.py` with the recordings that
docs/real_robots.md lists.
"""

from pathlib import Path
from typing import NamedTuple

import matplotlib
import numpy as np
from matplotlib.axes import Axes

matplotlib.use("Agg")
import matplotlib.pyplot as plt

FIGURE = Path(__file__).parent / "images" / "real_robots.svg"
LEAST_SQUARES, PUBLISHED = "#2f6fb0", "#e0a030"
TEXT, GRAY = "#22262b", "#7a808a"


class Errors(NamedTuple):
    """RMS torque error of each joint, relative to other parameters of the same robot."""

    title: str
    least_squares: tuple[float, ...]
    """Relative to plain least squares."""
    published: tuple[float, ...] = ()
    """Relative to published parameters."""


RECORDINGS = (
    Errors("UR10e, 20 s", (0.76, 0.63, 0.75, 0.59, 0.75, 0.54)),
    Errors(
        "UR10e, 50 s (orange: all recordings)",
        (0.82, 0.68, 0.75, 0.81, 0.84, 0.85),
        (0.83, 0.73, 0.71, 0.65, 0.85, 0.89),
    ),
    Errors(
        "Panda, 1000 samples/s",
        (0.97, 0.99, 0.96, 0.96, 0.93, 0.99, 0.62),
        (0.85, 0.65, 0.86, 0.86, 0.65, 0.82, 0.54),
    ),
    Errors("Panda, 30 samples/s", (1.13, 0.91, 1.06, 0.99, 0.89, 1.00, 0.99)),
    Errors("TIAGo, torso and arm", (1.08, 0.99, 0.91, 0.86, 1.01, 0.75, 0.98, 0.96)),
    Errors("UR10", (0.30, 0.57, 0.67, 0.58, 0.79, 1.03)),
    Errors("KUKA LBR Med 7", (0.72, 0.49, 0.60, 0.45, 0.36, 0.36, 0.41)),
    Errors("TX40, coupled wrist", (1.00, 0.99, 0.94, 0.91, 0.98, 0.82)),
)


def draw_recording(axes: Axes, errors: Errors) -> None:
    """Draw the bars of each joint."""
    joints = np.arange(1, len(errors.least_squares) + 1)
    width = 0.38 if errors.published else 0.6
    offset = width / 2 if errors.published else 0.0
    for place, values, color, text_color in (
        (joints - offset, errors.least_squares, LEAST_SQUARES, "white"),
        (joints + offset, errors.published, PUBLISHED, TEXT),
    ):
        if not values:
            continue
        axes.bar(place, values, width, color=color, zorder=2)
        for x, value in zip(place, values):
            axes.text(
                x,
                value - 0.04,
                f"{value:.2f}",
                ha="center",
                va="top",
                color=text_color,
                fontsize=6.5 if offset else 8,
                zorder=3,
            )
    axes.axhline(1.0, color=GRAY, linewidth=1, linestyle="--", zorder=1)
    axes.set_title(errors.title, fontsize=10, loc="left", color=TEXT)
    axes.set_ylim(0, 1.3)
    axes.set_xticks(joints)
    axes.set_yticks([0, 0.5, 1])
    axes.tick_params(labelsize=8, colors=TEXT)
    axes.spines[["top", "right"]].set_visible(False)


def main() -> None:
    """Draw the figure."""
    plt.rcParams.update({"font.family": "DejaVu Sans", "svg.hashsalt": "dyn_ros"})
    figure, panels = plt.subplots(4, 2, figsize=(9.2, 8.6))
    for axes, errors in zip(panels.flat, RECORDINGS):
        draw_recording(axes, errors)
    for axes in panels[-1]:
        axes.set_xlabel("joint", fontsize=9)
    for axes in panels[:, 0]:
        axes.set_ylabel("relative error", fontsize=9)
    handles = [plt.Rectangle((0, 0), 1, 1, color=color) for color in (LEAST_SQUARES, PUBLISHED)]
    figure.legend(
        handles,
        ["relative to plain least squares", "relative to published parameters"],
        loc="upper center",
        ncols=2,
        frameon=False,
        fontsize=10,
    )
    figure.tight_layout(rect=(0, 0, 1, 0.96))
    figure.savefig(FIGURE, metadata={"Date": None, "Creator": None})


if __name__ == "__main__":
    main()
