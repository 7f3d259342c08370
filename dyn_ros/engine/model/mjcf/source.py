# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Compilation of MJCF by MuJoCo, and the constants of its enumerations."""

from __future__ import annotations

import html
import os
import re
from typing import Any, TypeAlias

import numpy as np

from ....files.reading import open_regular_file
from ...kernel.names import short_repr
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

MAX_FILE_SIZE = 100_000_000  # bytes; of an MJCF, and of a file that it refers to

_FOLDER = re.compile(r"""\b(?:asset|mesh|texture)dir\s*=\s*["']([^"']*)""")
_FILE = re.compile(r"""\bfile\w*\s*=\s*["']([^"']*)""")

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
            f"{type(mjcf).__name__}: {short_repr(mjcf)}"
        )
    is_text = isinstance(mjcf, str) and mjcf.lstrip("\ufeff \t\r\n").startswith("<")
    if is_text:
        _require_regular_references(str(mjcf), os.curdir, set())
    else:
        _require_regular_file(os.fspath(mjcf), set())
    try:
        os.fspath(mjcf).encode()
    except UnicodeEncodeError:
        raise UrdfError(
            f"MuJoCo reads only UTF-8, but {short_repr(os.fspath(mjcf))} is not; rename or save it"
        ) from None
    try:
        if is_text:
            return mujoco.MjModel.from_xml_string(mjcf)
        return mujoco.MjModel.from_xml_path(os.fspath(mjcf))
    except (ValueError, mujoco.FatalError, mujoco.UnexpectedError) as error:
        text = " ".join(str(error).split())
        if is_text and "file" in text.lower():
            text += "; to read files next to the MJCF, pass the path of its file"
        raise UrdfError(f"MuJoCo rejects the description: {text}") from None


def _require_regular_file(path: str, checked_paths: set[str]) -> None:
    """Raise an error unless an MJCF file, and the files that it refers to, are regular.

    MuJoCo would wait for a pipe, and read a device without end. Raises an OSError, or a UrdfError
    if a file is too large.
    """
    with open_regular_file(path) as file:
        size = os.fstat(file.fileno()).st_size
        if size > MAX_FILE_SIZE:
            raise UrdfError(
                f"{path}: expected at most {MAX_FILE_SIZE / 1e6:.0f} MB, got {size / 1e6:.0f} MB"
            )
        real_path = os.path.realpath(path)
        if real_path in checked_paths:
            return
        checked_paths.add(real_path)
        if file.read(1024).lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"<"):
            file.seek(0)
            text = file.read().decode("utf-8", "replace")
            _require_regular_references(text, os.path.dirname(path), checked_paths)


def _require_regular_references(text: str, folder: str, checked_paths: set[str]) -> None:
    """Raise an error unless the files that an MJCF may refer to are regular; they may be missing.

    Names are searched in all folders that MuJoCo may choose.
    """
    folders = {"", *(html.unescape(name) for name in _FOLDER.findall(text))}
    for name in {html.unescape(name) for name in _FILE.findall(text)}:
        for asset_folder in folders:
            path = os.path.join(folder, asset_folder, name)
            if os.path.exists(path):
                _require_regular_file(path, checked_paths)


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
