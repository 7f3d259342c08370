# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Machine code for one robot, from libraries that ``dyn_ros export --robot`` writes."""

from __future__ import annotations

import ctypes
import hashlib
from typing import Any

import numpy as np

from ..kernel import packing as ly
from ..kernel.types import Array
from ..model.model import Model

_MAX_ZERO_ENTRY = 1e-15  # smaller entries of a rotation are zero; cos(pi / 2) gives 6e-17
_DECIMALS = 12
_ROTATIONS = (slice(ly.PLACE, ly.TRANSLATION), slice(ly.SLIDE, ly.INERTIA))
LIBRARIES: dict[str, Any] = {}
"""The loaded libraries by their path, the newest one last."""


def address(algorithm: Any, model: Model) -> int:
    """Return the address of the code of an algorithm for this robot, or 0."""
    return next(
        (
            library.address(f"dyn_ros_{algorithm.name}_one")
            for library in reversed(LIBRARIES.values())
            if is_for(library, algorithm, model)
        ),
        0,
    )


def is_for(library: Any, algorithm: Any, model: Model) -> bool:
    """Return True if a library has the code of an algorithm for this robot."""
    place = library.address(f"dyn_ros_{algorithm.name}_robot")
    return bool(place) and ctypes.c_int64.from_address(place).value == digest(model, algorithm)


def digest(model: Any, algorithm: Any) -> int:
    """Return a number that differs if the code of an algorithm differs between models.

    It depends on the structure, on all constants that a model cannot change, on the numbers of
    fields, and on the source of the kernel. Constants are rounded: products of placements differ in
    the last bits between processors.
    """
    program, floats = algorithm.program(model), constants(model)
    floats[parameter_places(model) + link_places(model)] = 0.0
    layout = [(int(f), f.name, f.shape) for f in sorted(program.fields)]
    rounded = floats.round(_DECIMALS) + 0.0  # no -0.0
    parts = (program.one.digest, layout, np.asarray(model._ints).tolist(), rounded.tolist())
    return int.from_bytes(hashlib.sha256(repr(parts).encode()).digest()[:8], "little", signed=True)


def constants(model: Model) -> Array:
    """Return the floats of a model; entries of rotations that are rounding errors are zero."""
    floats: Array = model._floats.copy()
    frames = ly.joint_floats(model.njoints + 1) + model.nv
    rows = [
        floats[ly.ROWS : ly.joint_floats(model.njoints + 1)].reshape(-1, ly.FLOATS_ROW)[:, part]
        for part in _ROTATIONS
    ]
    placements = floats[frames : frames + ly.FRAME_ROW * model.nframes]
    for part in (*rows, placements.reshape(-1, ly.FRAME_ROW)[:, :9]):
        part[np.abs(part) < _MAX_ZERO_ENTRY] = 0.0
    return floats


def parameter_places(model: Model) -> list[int]:
    """Return the places of gravity, inertias and armature in the floats of a model."""
    rows = [ly.joint_floats(i) + ly.INERTIA for i in range(1, model.njoints + 1)]
    armature = ly.joint_floats(model.njoints + 1)
    return [
        *range(ly.GRAVITY, ly.GRAVITY + 3),
        *(k for row in rows for k in range(row, row + 10)),
        *range(armature, armature + model.nv),
    ]


def link_places(model: Model) -> list[int]:
    """Return the places of the inertias of links in the floats of a model."""
    start = ly.joint_floats(model.njoints + 1) + model.nv + ly.FRAME_ROW * model.nframes
    return [*range(start, start + ly.INERTIA_ROW * model.nframes)]
