# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Draws docs/images/log.png, the plot of `dyn_ros log` in docs/recordings.md, of a pushed arm.

    python docs/draw_recordings.py

The arm is that of draw_observer.py.
"""

import re
import tempfile
from pathlib import Path

from draw_observer import ARM, DAMPING, FRICTION, IMAGES, arm, record

from dyn_ros.command import main as cli
from dyn_ros.recordings.tables.columns import write_columns

DURATION = 6.0  # s


def with_friction(urdf: str) -> str:
    """Return the description with the friction of the arm that is recorded."""
    return re.sub(
        "<dynamics [^>]*/>", f'<dynamics damping="{DAMPING}" friction="{FRICTION}"/>', urdf
    )


def draw(path: Path) -> None:
    """Record a moving arm that is pushed, and plot what the command computes."""
    model = arm()
    moved = record(model, DURATION, pushed=True)
    table = {"time": moved.time}
    for signal, values in (("position", moved.q), ("velocity", moved.v), ("effort", moved.tau)):
        table |= {f"{signal}.{name}": values[:, k] for k, name in enumerate(model.velocity_names)}
    with tempfile.TemporaryDirectory() as folder:
        recording, robot = Path(folder) / "pushed_arm.parquet", Path(folder) / "arm.urdf"
        write_columns(recording, table)
        robot.write_text(with_friction(ARM.read_text()))
        cli.main(
            [
                "log",
                str(recording),
                "--robot",
                str(robot),
                "--compute",
                "external",
                "power",
                "--joints",
                "shoulder_pitch",
                "elbow_pitch",
                "wrist_pitch",
                "--out",
                str(Path(folder) / "results"),
                "--plot",
                str(path),
                "--workers",
                "1",
            ]
        )


if __name__ == "__main__":
    draw(IMAGES / "log.png")
