# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Compilation of MJCF by MuJoCo, and the constants of its enumerations."""

from __future__ import annotations

import os
from typing import Any, TypeAlias

import numpy as np

from ...kernel.types import Array
from ...kernel.validation import require_entries
from ..urdf import UrdfError

MjModel: TypeAlias = Any
"""A ``mujoco.MjModel``; its types are not imported, because the package is optional."""

# enumeration mjtJoint, kind of joint
KINDS = ("floating", "spherical", "prismatic", "revolute")

# enumeration mjtEq
JOINT_EQUALITY = 2

# enumeration mjtTrn: joint and jointinparent
JOINT_TRANSMISSIONS = (0, 1)

_NUMBERS = (
    *("body_mass", "body_inertia", "body_pos", "body_quat", "body_ipos", "body_iquat"),
    *("jnt_pos", "jnt_axis", "qpos0", "dof_armature", "dof_damping", "dof_frictionloss"),
    *("site_pos", "site_quat"),
)


def load_model(mjcf: object) -> MjModel:
    """Return the mjModel of an MJCF, see ``Model.from_mujoco``."""
    try:
        import mujoco
    except ImportError as error:
        raise ImportError(
            f'MJCF requires the package mujoco: pip install "dyn_ros[mujoco]" ({error})',
            name=error.name,
        ) from None
    if isinstance(mjcf, mujoco.MjModel):
        return mjcf
    if not isinstance(mjcf, (str, os.PathLike)):
        raise TypeError(
            "mjcf: expected a mujoco.MjModel, the text of an MJCF or the path of a file, got "
            f"{type(mjcf).__name__}: {mjcf!r:.80}"
        )
    is_text = isinstance(mjcf, str) and mjcf.lstrip("\ufeff \t\r\n").startswith("<")
    if not is_text:
        os.stat(mjcf)  # a FileNotFoundError, as of Model.from_urdf_file
    try:
        if is_text:
            return mujoco.MjModel.from_xml_string(mjcf)
        return mujoco.MjModel.from_xml_path(os.fspath(mjcf))
    except ValueError as error:
        text = " ".join(str(error).split())
        if is_text and "file" in text.lower():
            text += "; to read files next to the MJCF, pass the path of its file"
        raise UrdfError(f"MuJoCo rejects the description: {text}") from None


def check_numbers(source: MjModel) -> None:
    """Raise a ValueError if a number is not finite, or a mass is negative.

    MuJoCo checks this when it compiles, but programs can change an mjModel later.
    """
    for name in _NUMBERS:
        array = getattr(source, name)
        require_entries(f"mjModel.{name}", array, np.isfinite(array), "finite numbers")
    require_entries("mjModel.body_mass", source.body_mass, source.body_mass >= 0.0, "0 or more")


def gravity_of(source: MjModel) -> Array:
    """Return gravity, (3,) [m/s2]; zero if the description disables it."""
    return np.zeros(3) if _has_disabled(source, "GRAVITY") else np.array(source.opt.gravity)


def active_equalities(source: MjModel) -> list[int]:
    """Return the indices of the equality constraints that are active at first."""
    if _has_disabled(source, "CONSTRAINT") or _has_disabled(source, "EQUALITY"):
        return []
    indices: list[int] = np.flatnonzero(source.eq_active0).tolist()
    return indices


def _has_disabled(source: MjModel, flag: str) -> bool:
    """Return True if a flag disables part of a model; its bit differs between versions."""
    from mujoco import mjtDisableBit

    return bool(source.opt.disableflags & int(getattr(mjtDisableBit, f"mjDSBL_{flag}")))
