# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Names of the elements of an mjModel, also of those without a name."""

from __future__ import annotations

from collections.abc import Container, Iterable
from typing import NamedTuple

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
        bodies = names_of(source, "body", range(source.nbody))
        return cls(model, bodies, names_of(source, "joint", range(source.njnt)))


def names_of(source: MjModel, kind: str, ids: Iterable[int]) -> tuple[str, ...]:
    """Return the names of elements; one without a name is called by its kind and number.

    ``kind`` is in mjtObj, such as "body".
    """
    names = {i: given_name(source, kind, i) for i in ids}
    taken = set(names.values())
    return tuple(name or unused_name(f"{kind}_{i}", taken) for i, name in names.items())


def given_name(source: MjModel, kind: str, index: int) -> str:
    """Return the name of an element in the description, or an empty string."""
    import mujoco

    return mujoco.mj_id2name(source, getattr(mujoco.mjtObj, f"mjOBJ_{kind.upper()}"), index) or ""


def unused_name(name: str, taken: Container[str]) -> str:
    """Return the name, with underscores behind it if others have it."""
    while name in taken:
        name += "_"
    return name
