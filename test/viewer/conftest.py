# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""A page without a browser: what is sent to browsers can be read back from its handles."""
import pytest


@pytest.fixture
def server():
    pytest.importorskip("viser", reason="no viser: pip install viser")
    from dyn_ros.viewer import page
    server = page.serve("127.0.0.1", 0, "test")
    yield server
    server.stop()
