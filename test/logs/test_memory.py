# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The memory of the command log does not grow with the length of a recording."""

import sys

from logs.memory import largest_memory
from logs.recorded import synthetic_mcap

import dyn_ros

ARM = "dyn_ros/robots/arm7.urdf"


def test_memory_is_flat(tmp_path, request):
    robot = request.config.rootpath / ARM
    model, sizes = dyn_ros.Model.from_urdf_file(robot), []
    for count in (600_000, 2_400_000):
        path = synthetic_mcap(tmp_path / f"{count}.mcap", model, count)
        sizes.append(
            largest_memory(
                [
                    sys.executable,
                    "-m",
                    "dyn_ros",
                    "log",
                    str(path),
                    "--robot",
                    str(robot),
                    "--compute",
                    "residual",
                    "--out",
                    str(tmp_path / "out"),
                    "--workers",
                    "2",
                ]
            )
        )
        path.unlink()
    assert max(size.total for size in sizes) < 1e9
    assert sizes[1].process < 1.15 * sizes[0].process
