# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Write the file of each robot, and states with the results of Python, to a folder."""

import sys
from pathlib import Path

import numpy as np
from export import caller, cases
from export.tools import ROBOTS, robot

import dyn_ros
from dyn_ros.export.functions import find_functions
from dyn_ros.export.model_file import write_model


def write_states(folder, name, count):
    """Write ``NAME.dynros`` and ``NAME.states`` with a number of states for each function."""
    model = robot(name)
    data, rng, parts = dyn_ros.Data(model), np.random.default_rng(1), []
    for function in find_functions():
        states = b"".join(
            caller.pack([*arguments, *results])
            for arguments, results in (
                cases.draw_case(function, model, data, rng) for _ in range(count)
            )
        )
        parts += [np.array([count, len(states) // 8], float).tobytes(), states]
    write_model(model, folder / f"{name}.dynros")
    (folder / f"{name}.states").write_bytes(b"".join(parts))


if __name__ == "__main__":
    for robot_name in ROBOTS:
        write_states(Path(sys.argv[1]), robot_name, int(sys.argv[2]))
