# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""A page without a browser: what is sent to browsers can be read back from its handles."""

import pytest

from .chromium import open_browser


@pytest.fixture
def server():
    pytest.importorskip("viser", reason="no viser: pip install viser")
    from dyn_ros.viewer.page import page

    server = page.serve_page("127.0.0.1", 0, "test")
    yield server
    server.stop()


@pytest.fixture(scope="module")
def browser():
    """Chromium, if it is installed."""
    with open_browser() as browser:
        yield browser
