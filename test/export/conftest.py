# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Library of all functions, and robots with states and results, for the tests of export."""

import pytest
from export import caller
from export.tools import ROBOTS, require_tools
from export.web.write_states import write_states

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
    folder = tmp_path_factory.mktemp(request.param)
    write_states(folder, request.param, STATES)
    return folder / f"{request.param}.dynros", folder / f"{request.param}.states"
