# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Names in messages: lists of them, unknown ones, and those that are similar."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable


def join_names(
    names: Iterable[str], most: int | None = None, write: Callable[[str], str] = str
) -> str:
    """Join names, up to ``most`` of them and the number of the others; "none" without any."""
    names = list(names)
    more = "" if most is None or len(names) <= most else f" and {len(names) - most} more"
    return (", ".join(map(write, names[:most])) or "none") + more


def unknown_name(what: str, name: object, names: Iterable[str], most: int | None = None) -> str:
    """Say that nothing has this name, and list the names that exist."""
    return f"no {what} named {name!r:.80}; available: {join_names(names, most)}"


def similar_names(name: str, names: Iterable[str], most: int = 2, least: float = 0.6) -> list[str]:
    """Return the most similar names; ``least`` is the similarity, 1 of equal names."""
    return difflib.get_close_matches(name, list(names), most, least)
