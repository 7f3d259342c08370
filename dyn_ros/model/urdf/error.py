# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The error of a description that cannot be used."""
from collections.abc import Iterable


class UrdfError(ValueError):
    """A robot description that cannot be used; the message names the element and the remedy."""


def listed(names: Iterable[str], most: int = 10) -> str:
    """Names in quotes, for a message; of many only the first."""
    names = list(names)
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(f'"{name}"' for name in names[:most]) + more
