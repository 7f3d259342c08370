# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""HTML of the panels."""

from __future__ import annotations

from html import escape


def text_line(text: str, classes: str = "") -> str:
    """Return a line of text of a panel, as HTML; `classes` are defined in page.css."""
    return f'<div class="dyn {classes}">{escape(text)}</div>'
