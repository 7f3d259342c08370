# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The terms of the equations of motion that an output declares, for the current state."""
from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import dyn_ros


class Terms:
    """The declared results of `dyn_ros.all_terms`, as attributes: arrays of `Data`.

    Those that depend on the velocity are of a robot at rest if `State.v` is None. Reading another
    attribute is an AttributeError, which names it and the declared ones.
    """

    def __init__(self, data: dyn_ros.Data, names: Iterable[str]) -> None:
        self._data, self._names = data, frozenset(names)

    def __getattr__(self, name: str) -> Any:
        if name in self._names:
            value = getattr(self._data, name)
            setattr(self, name, value)      # an array that stays: found here from now on
            return value
        raise AttributeError(
            f"the term {name!r} is not declared: add it to the `reads` of the output, which "
            f"declares {', '.join(sorted(self._names)) or 'none'}")
