# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""trajectory_msgs/JointTrajectory as YAML or JSON, which is YAML too."""
from __future__ import annotations

import json
from collections.abc import Sequence
from os import PathLike
from pathlib import Path

from ..engine.kernel.types import Array

_DIGITS = 6


def suffix(path: str | PathLike[str]) -> str:
    """Return ``.yaml``, ``.json`` or ``.csv``; raise a ValueError for other files."""
    found = Path(path).suffix.lower().replace(".yml", ".yaml")
    if found not in (".yaml", ".json", ".csv"):
        raise ValueError(f"{str(path)!r}: expected a file that ends with .yaml, .json or .csv")
    return found


def write(path: str | PathLike[str], names: Sequence[str], time: Array, q: Array, v: Array,
          a: Array) -> None:
    """Write a JointTrajectory.

    Parameters
    ----------
    path : str or PathLike
        Ends with ``.yaml`` or ``.json``.
    names : sequence of str
        Of the joints.
    time : (B,) ndarray
        From the start [s].
    q, v, a : (B, number of joints) ndarray
        Positions, velocities and accelerations.

    Raises
    ------
    ValueError
        Another suffix.
    """
    points = [_point(*row) for row in zip(time, q, v, a)]
    if suffix(path) == ".json":
        text = json.dumps({"joint_names": list(names), "points": points}) + "\n"
    else:
        lines = [f"joint_names: {json.dumps(list(names))}", "points:",
                 *(f"- {json.dumps(point)}" for point in points)]
        text = "\n".join(lines) + "\n"
    Path(path).write_text(text, encoding="utf-8")


def _point(time: float, q: Array, v: Array, a: Array) -> dict[str, object]:
    nanoseconds = round(1e9 * float(time))
    return {"positions": _numbers(q), "velocities": _numbers(v), "accelerations": _numbers(a),
            "time_from_start": {"sec": nanoseconds // 10 ** 9, "nanosec": nanoseconds % 10 ** 9}}


def _numbers(values: Array) -> list[float]:
    """With a decimal point, as message fields of floats require."""
    return [round(float(value), _DIGITS) + 0.0 for value in values]
