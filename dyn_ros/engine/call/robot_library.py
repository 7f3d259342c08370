# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Machine code for one robot, from libraries that ``dyn_ros export --robot`` writes."""

from __future__ import annotations

import ctypes
import hashlib
from typing import Any

import numpy as np

from ..kernel import packing
from ..kernel.types import Array
from ..model.model import Model

_MAX_ZERO_ENTRY = 1e-15  # smaller entries of a rotation are zero; cos(pi / 2) gives 6e-17
_DECIMALS = 12
_DIRECTION_COLUMNS = (
    slice(packing.PLACE, packing.TRANSLATION),
    slice(packing.SLIDE, packing.INERTIA),
)
LIBRARIES: dict[str, Any] = {}
"""The loaded libraries by their path, the newest one last."""


def find_code(algorithm: Any, model: Model) -> int:
    """Return the address of the code of an algorithm for this robot, or 0."""
    return next(
        (
            library.address(f"dyn_ros_{algorithm.name}_one")
            for library in reversed(LIBRARIES.values())
            if has_code_for(library, algorithm, model)
        ),
        0,
    )


def has_code_for(library: Any, algorithm: Any, model: Model) -> bool:
    """Return True if a library has the code of an algorithm for this robot."""
    digest = library.address(f"dyn_ros_{algorithm.name}_robot")
    return bool(digest) and ctypes.c_int64.from_address(digest).value == code_digest(
        model, algorithm
    )


def code_digest(model: Any, algorithm: Any) -> int:
    """Return a number that differs if the code of an algorithm differs between models.

    It depends on the structure, on all constants that a model cannot change, on the numbers of
    fields, and on the source of the kernel. Constants are rounded: products of placements differ in
    the last bits between processors.
    """
    program, floats = algorithm.program(model), rounded_floats(model)
    floats[parameter_indices(model) + link_inertia_indices(model)] = 0.0
    layout = [(int(f), f.name, f.shape) for f in sorted(program.fields)]
    rounded = floats.round(_DECIMALS) + 0.0  # no -0.0
    parts = (program.one.digest, layout, np.asarray(model._ints).tolist(), rounded.tolist())
    return int.from_bytes(hashlib.sha256(repr(parts).encode()).digest()[:8], "little", signed=True)


def rounded_floats(model: Model) -> Array:
    """Return the floats of a model; entries of rotations that are rounding errors are zero."""
    floats: Array = model._floats.copy()
    frames = packing.joint_floats(model.njoints + 1) + model.nv
    rows = [
        floats[packing.ROWS : packing.joint_floats(model.njoints + 1)].reshape(
            -1, packing.FLOATS_ROW
        )[:, part]
        for part in _DIRECTION_COLUMNS
    ]
    placements = floats[frames : frames + packing.FRAME_ROW * model.nframes]
    for part in (*rows, placements.reshape(-1, packing.FRAME_ROW)[:, :9]):
        part[np.abs(part) < _MAX_ZERO_ENTRY] = 0.0
    return floats


def parameter_indices(model: Model) -> list[int]:
    """Return the indices in ``model._floats`` of gravity, inertias of bodies and armature.

    A model can change these numbers without new code.
    """
    inertias = [packing.joint_floats(i) + packing.INERTIA for i in range(1, model.njoints + 1)]
    armature = packing.joint_floats(model.njoints + 1)
    return [
        *range(packing.GRAVITY, packing.GRAVITY + 3),
        *(k for start in inertias for k in range(start, start + packing.INERTIA_ROW)),
        *range(armature, armature + model.nv),
    ]


def link_inertia_indices(model: Model) -> list[int]:
    """Return the indices in ``model._floats`` of the inertias of links."""
    start = packing.joint_floats(model.njoints + 1) + model.nv + packing.FRAME_ROW * model.nframes
    return [*range(start, start + packing.INERTIA_ROW * model.nframes)]
