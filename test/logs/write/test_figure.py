# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The plot in docs/recordings.md can be drawn again."""

import importlib
import struct


def test_the_plot_is_drawn(tmp_path, request, monkeypatch):
    monkeypatch.syspath_prepend(str(request.config.rootpath / "docs"))
    importlib.import_module("draw_recordings").draw(tmp_path / "log.png")
    head = (tmp_path / "log.png").read_bytes()[:24]
    assert head.startswith(b"\x89PNG")
    assert min(struct.unpack(">II", head[16:24])) > 500
