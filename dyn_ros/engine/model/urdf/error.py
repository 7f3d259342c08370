# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The error of a description that cannot be used."""
from __future__ import annotations

from collections.abc import Iterable


class UrdfError(ValueError):
    """A robot description that cannot be used; the message names the element and the remedy.

    Examples
    --------
    >>> try:
    ...     dyn_ros.Model.from_urdf("<robot name='r'/>")
    ... except dyn_ros.UrdfError as error:
    ...     print(error)
    robot "r" has no links; expected at least one
    """


def listed(names: Iterable[str], most: int = 10) -> str:
    """Format names in quotes for a message, up to ``most`` of them."""
    names = list(names)
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(f'"{name}"' for name in names[:most]) + more
