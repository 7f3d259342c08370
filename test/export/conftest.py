# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Library of all functions, and robots with states and results, for the tests of export."""

import numpy as np
import pytest
from export import caller, cases
from export.tools import ROBOTS, require_tools, robot

import dyn_ros
from dyn_ros.export.functions import find_functions
from dyn_ros.export.model_file import write_model

STATES = 3


@pytest.fixture(scope="session")
def library(tmp_path_factory):
    """Return the folder of a library of all functions, for this processor."""
    pytest.importorskip("numba", reason="nothing can be compiled")
    from dyn_ros.export.c_library import export_library

    require_tools("cc", "ar")
    folder = tmp_path_factory.mktemp("library")
    export_library(folder)
    return folder


@pytest.fixture(scope="session")
def source(tmp_path_factory):
    """Return the source of a program that calls all functions."""
    path = tmp_path_factory.mktemp("caller") / "caller.c"
    path.write_text(caller.program())
    return path


@pytest.fixture(scope="session", params=ROBOTS)
def files(request, tmp_path_factory):
    """Return the file of a robot, and the file of states with the results of Python."""
    folder, model = tmp_path_factory.mktemp(request.param), robot(request.param)
    data, rng, parts = dyn_ros.Data(model), np.random.default_rng(1), []
    for function in find_functions():
        states = b"".join(
            caller.pack([*arguments, *results])
            for arguments, results in (
                cases.draw_case(function, model, data, rng) for _ in range(STATES)
            )
        )
        parts += [np.array([STATES, len(states) // 8], float).tobytes(), states]
    write_model(model, folder / "robot.dynros")
    (folder / "states").write_bytes(b"".join(parts))
    return folder / "robot.dynros", folder / "states"
