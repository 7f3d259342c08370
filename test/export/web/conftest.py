# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The WebAssembly module of all functions, and programs that call it."""

import shutil
from pathlib import Path

import pytest
from export.tools import require_tools, require_web_tools
from viewer.chromium import open_browser

PROGRAMS = Path(__file__).parent


@pytest.fixture(scope="session")
def module(tmp_path_factory):
    """Return the folder of the module of all functions, and of the programs that call it."""
    return export_module(tmp_path_factory.mktemp("module"), "wasm32")


def export_module(folder, target, functions=None):
    """Export functions, by default all, to a folder beside the programs; return the folder."""
    pytest.importorskip("numba", reason="nothing can be compiled")
    from dyn_ros.export.web.module import export_web_module

    require_web_tools()
    export_web_module(folder, functions, target)
    for program in PROGRAMS.glob("*.mjs"):
        shutil.copy(program, folder)
    return folder


@pytest.fixture(scope="session")
def node():
    require_tools("node")
    return "node"


@pytest.fixture(scope="module")
def browser():
    """Chromium, if it is installed."""
    with open_browser() as browser:
        yield browser
