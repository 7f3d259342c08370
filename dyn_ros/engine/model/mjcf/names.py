# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Names of the elements of an mjModel, also of those without a name."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable
from typing import Any, NamedTuple

from .source import MjModel


class ElementNames(NamedTuple):
    """Name of a robot, its bodies and its joints, unique within each kind."""

    model: str
    bodies: tuple[str, ...]
    joints: tuple[str, ...]

    @classmethod
    def of(cls, source: MjModel) -> ElementNames:
        """Return the names of an mjModel."""
        model = source.names.split(b"\0", 1)[0].decode()
        bodies = names_of("body", source.body, range(source.nbody))
        return cls(model, bodies, names_of("joint", source.joint, range(source.njnt)))


def names_of(kind: str, element: Callable[[int], Any], ids: Iterable[int]) -> tuple[str, ...]:
    """Return the names of elements; one without a name is called by its kind and number.

    ``element`` returns the element of a number, such as ``source.body``.
    """
    given = {i: element(i).name for i in ids}
    taken = set(given.values())
    return tuple(name or unused_name(f"{kind}_{i}", taken) for i, name in given.items())


def unused_name(name: str, taken: Container[str]) -> str:
    """Return the name, with underscores behind it if others have it."""
    while name in taken:
        name += "_"
    return name
