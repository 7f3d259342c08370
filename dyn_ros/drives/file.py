# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The drives file next to a URDF: properties of efforts, rotor inertias, and friction."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from ..engine.kernel.names import join_names, short_repr, similar_names
from ..engine.kernel.types import Array
from ..engine.model import Drives, Model
from ..engine.model.drives import MAX_MEASUREMENT
from ..files.writing import write_whole_text
from ..files.yaml_text import read_yaml

_MODEL_PROPERTIES = {"armature": 0.0, "damping": 0.0, "friction": 0.0}
_DRIVE_PROPERTIES = {
    "delay": 0.0,
    "offset": 0.0,
    "load_friction": 0.0,
    "root_friction": 0.0,
    "stribeck": 0.0,
    "stribeck_velocity": np.inf,
    "friction_velocity": 0.0,
    "friction_distance": 0.0,
    "rotor_inertia": 0.0,
}
_FLAGS = {"gravity_compensated": "is_compensated", "smooth_friction": "has_smooth_friction"}
_PROPERTIES = (
    "unit",
    "gain",
    "gear_ratio",
    *_FLAGS,
    "side",
    *_MODEL_PROPERTIES,
    *_DRIVE_PROPERTIES,
)
_SIDES = ("motor", "link")
_ROTOR_PROPERTIES = ("armature", "rotor_inertia")
_TORQUE_UNITS = ("nm", "n·m", "n*m", "n-m", "n")  # units that need no gain, without spaces
_WRITTEN_DIGITS = 10
_ROUNDING_TOLERANCE = 1e-8  # relative; numbers that differ less are equal as they are written
_ROW_IN_MESSAGE = re.compile(r" in \w+\[(\d+)\]$")
_HEADER = """\
# What the drives of {name} report as effort, and what they lose to friction.
# Units: N m, rad, s, or N, m, s; see docs/real_robots.md.
"""


def load_drives(model: Model, path: str | PathLike[str]) -> None:
    """Set the drives, rotor inertias and friction of a model from a file.

    Properties that the file does not mention remain.

    Parameters
    ----------
    model : Model
        The model whose ``drives``, ``armature``, ``damping`` and ``friction`` change.
    path : str or PathLike
        A YAML file with ``joints``, a mapping from names, as in ``model.velocity_names``, to
        properties: ``unit``, ``gain``, ``gear_ratio``, ``gravity_compensated``, ``side`` ("motor"
        or "link"), ``smooth_friction``, ``armature``, ``damping``, ``friction``, and other
        attributes of ``Drives``. The gain is multiplied by the gear ratio. Motors that move several
        joints are described by ``motors``, with ``joints``, a list of the joints' names, and
        ``matrix``, from velocities of these joints to velocities of the motors. With ``motors``,
        ``armature`` follows from the ``rotor_inertia`` of the motors.

    Raises
    ------
    ValueError
        The file is not a drives file, a joint or property is unknown, or a number is out of range;
        the model does not change. The message names the file, the joint and the property.
    OSError
        The file cannot be read, or is not a regular file.

    Examples
    --------
    >>> text = "joints: {elbow_pitch: {unit: A, gain: 12.4, load_friction: 0.06}}"
    >>> place = tempfile.TemporaryDirectory()
    >>> drives_file = Path(place.name) / "arm.drives.yaml"
    >>> size = drives_file.write_text(text)
    >>> robot = copy.copy(model)
    >>> dyn_ros.load_drives(robot, drives_file)
    >>> print(robot.drives.gain)
    [ 1.   1.   1.  12.4  1.   1.   1. ]
    """
    place = Path(path)
    try:
        content = _read_content(place)
        model_arrays, values = _read_properties(model, content)
        drives = _make_drives(model, values)
        _add_motor_armature(model, model_arrays, drives, content["joints"])
        previous_arrays = {name: getattr(model, name).copy() for name in model_arrays}
        try:
            for name, array in model_arrays.items():
                setattr(model, name, array)
        except ValueError:
            for name, array in previous_arrays.items():
                setattr(model, name, array)
            raise
    except ValueError as error:
        raise ValueError(f"{place}: {error}") from None
    model.drives = drives


def missing_gains(path: str | PathLike[str], joints: Iterable[str]) -> dict[str, str]:
    """Return a message for each of these joints whose efforts have a unit, but no gain.

    ``load_drives`` has read the file before.
    """
    content = _read_content(Path(path))["joints"]
    units = {
        name: content[name]["unit"]
        for name in joints
        if "unit" in (content.get(name) or {}) and "gain" not in content[name]
    }
    return {
        name: f"joint {name!r}: its efforts have the unit {unit}, and no gain makes them "
        f"torques: declare gain, in N m or N for 1 {unit}"
        for name, unit in units.items()
        if not is_torque_unit(unit)
    }


def is_torque_unit(unit: str) -> bool:
    """Return True for N m and N, which need no gain."""
    return unit.replace(" ", "").lower() in _TORQUE_UNITS


def save_drives(model: Model, path: str | PathLike[str]) -> None:
    """Write the drives, rotor inertias and friction of a model to a file for ``load_drives``.

    A previous file remains if it cannot be written.

    Raises
    ------
    OSError
        The file cannot be written.

    Examples
    --------
    >>> robot = copy.copy(model)
    >>> robot.drives = robot.drives.with_values(offset=0.2)
    >>> place = tempfile.TemporaryDirectory()
    >>> drives_file = Path(place.name) / "arm.drives.yaml"
    >>> dyn_ros.save_drives(robot, drives_file)
    >>> print(drives_file.read_text().splitlines()[3])
      shoulder_yaw:
    """
    write_whole_text(path, drives_text(model))


def drives_text(model: Model) -> str:
    """Return the content of the file that `save_drives` writes."""
    import yaml

    drives, joints = model.drives, {}
    armature = _motor_armature(drives)
    for k, name in enumerate(model.velocity_names):
        joint: dict[str, Any] = {}
        if drives.unit[k] != "N m":  # a gain alone does not say which unit
            joint["unit"] = drives.unit[k]
        if drives.gain[k] != 1.0 or "unit" in joint:
            joint["gain"] = _round_number(drives.gain[k])
        joint |= {key: True for key, name in _FLAGS.items() if getattr(drives, name)[k]}
        if drives.is_link_side[k]:
            joint["side"] = "link"
        for source, names in ((model, _MODEL_PROPERTIES), (drives, _DRIVE_PROPERTIES)):
            joint |= {
                key: _round_number(getattr(source, key)[k])
                for key, default in names.items()
                if getattr(source, key)[k] != default
            }
        if armature[k] and np.isclose(model.armature[k], armature[k], _ROUNDING_TOLERANCE, 0.0):
            joint.pop("armature", None)  # `load_drives` computes it from the motors
        joints[name] = joint
    content: dict[str, Any] = {"joints": joints}
    if drives.coupling is not None:
        is_coupled = drives.coupling != np.eye(model.nv)
        rows = np.flatnonzero(is_coupled.any(axis=0) | is_coupled.any(axis=1))
        rows = rows if len(rows) else np.arange(model.nv)  # the matrix must not be empty
        content["motors"] = {
            "joints": [model.velocity_names[k] for k in rows],
            "matrix": [
                [_round_number(x) for x in row] for row in drives.coupling[np.ix_(rows, rows)]
            ],
        }
    return _HEADER.format(name=model.name) + str(
        yaml.safe_dump(content, sort_keys=False, allow_unicode=True)
    )


def _make_drives(model: Model, values: dict[str, Any]) -> Drives:
    """Return drives with these values; a ValueError names the joint instead of its row."""
    try:
        return Drives.of(model.nv, **values)
    except ValueError as error:
        match = _ROW_IN_MESSAGE.search(str(error))
        if match is None:
            raise
        raise ValueError(
            f"joint {model.velocity_names[int(match[1])]!r}: {_ROW_IN_MESSAGE.sub('', str(error))}"
        ) from None


def _motor_armature(drives: Drives) -> Array:
    """Return the armature of each joint that the rotors of coupled motors cause, (nv,)."""
    if drives.coupling is None:
        return np.zeros(len(drives.gain))
    armature: Array = (drives.coupling**2).T @ drives.rotor_inertia
    return armature


def _add_motor_armature(
    model: Model, model_arrays: dict[str, Array], drives: Drives, joints: Mapping[str, Any]
) -> None:
    """Set the armature of the joints that coupled motors move, unless the file states it."""
    for name in joints if drives.coupling is None else ():
        if drives.rotor_inertia[model.velocity_names.index(name)]:
            raise ValueError(
                f"joint {name!r}: rotor_inertia: expected only with motors that move "
                "several joints; declare armature instead"
            )
    for name, inertia in zip(model.velocity_names, _motor_armature(drives)):
        if inertia and "armature" not in (joints.get(name) or {}):
            model_arrays["armature"][model.velocity_names.index(name)] = inertia


def _round_number(number: float) -> float:
    return float(f"{number:.{_WRITTEN_DIGITS}g}")


def _read_content(path: Path) -> Mapping[str, Any]:
    """Return the content of a drives file; raise a ValueError for other keys."""
    content = read_yaml(path)
    if content and isinstance(content, dict):
        _require_available("key", content, ("joints", "motors"))
        content.setdefault("joints", {})
    if not content or not isinstance(content, dict) or not isinstance(content["joints"], dict):
        raise ValueError("expected 'joints:', a mapping from names of joints to properties")
    return content


def _require_available(
    kind: str, names: Iterable[Any], available: Iterable[str], where: str = ""
) -> None:
    """Raise a ValueError for a name that is not available."""
    available = tuple(available)
    for name in names:
        if name not in available:
            suggestions = similar_names(str(name), available, 1)
            hint = f"; did you mean {suggestions[0]!r}?" if suggestions else ""
            raise ValueError(
                f"{where}no {kind} {short_repr(str(name))}{hint}; available: "
                f"{join_names(available)}"
            )


def _read_properties(
    model: Model, content: Mapping[str, Any]
) -> tuple[dict[str, Array], dict[str, Any]]:
    """Return new arrays of the model, and values of its drives."""
    model_arrays = {name: getattr(model, name).copy() for name in _MODEL_PROPERTIES}
    values = {
        name: value.copy() if isinstance(value, np.ndarray) else value
        for name, value in vars(model.drives).items()
    }
    unit = list(values["unit"])
    _require_available("joint", content["joints"], model.velocity_names)
    for name, joint in content["joints"].items():
        k, where = model.velocity_names.index(name), f"joint {name!r}: "
        if not isinstance(joint, dict | None):
            raise ValueError(f"{where}expected a mapping of properties, got {short_repr(joint)}")
        joint = joint or {}
        _require_available("property", joint, _PROPERTIES, where)
        unit[k] = joint.get("unit", unit[k])
        if not isinstance(unit[k], str):
            raise ValueError(f"{where}unit: expected a text, such as A, got {short_repr(unit[k])}")
        if "gain" in joint or "gear_ratio" in joint:
            ratio = _parse_number(where, "gear_ratio", joint.get("gear_ratio", 1.0))
            if not 0.0 < abs(ratio) < np.inf:
                raise ValueError(
                    f"{where}gear_ratio: expected a finite number other than 0, got {ratio:g}"
                )
            values["gain"][k] = ratio * _parse_number(where, "gain", joint.get("gain", 1.0))
        for key, name in _FLAGS.items():
            if key in joint:
                values[name][k] = _parse_flag(where, key, joint[key])
        if "side" in joint:
            if joint["side"] not in _SIDES:
                raise ValueError(
                    f"{where}side: expected motor or link, got {short_repr(joint['side'])}"
                )
            values["is_link_side"][k] = joint["side"] == "link"
            for key in _ROTOR_PROPERTIES if joint["side"] == "link" else ():
                if joint.get(key):
                    raise ValueError(
                        f"{where}{key}: expected none with side: link, where rotors "
                        f"do not act, got {short_repr(joint[key])}; remove one of them"
                    )
        for arrays, names in ((model_arrays, _MODEL_PROPERTIES), (values, _DRIVE_PROPERTIES)):
            for key in names:
                if key in joint:
                    arrays[key][k] = _parse_number(where, key, joint[key])
                    if arrays is model_arrays and not np.isfinite(arrays[key][k]):
                        raise ValueError(
                            f"{where}{key}: expected a finite number, got {arrays[key][k]:g}"
                        )
        if "armature" in joint and model_arrays["armature"][k] < 0.0:
            raise ValueError(
                f"{where}armature: expected 0 or more, got {model_arrays['armature'][k]:g}"
            )
    values["unit"] = tuple(unit)
    if "motors" in content:
        values["coupling"] = _parse_coupling(model, content["motors"])
    return model_arrays, values


def _parse_number(where: str, key: str, value: Any) -> float:
    """Return a number; raise a ValueError for other values, and for numbers that are too large."""
    if not _is_number(value) or MAX_MEASUREMENT <= abs(value) < np.inf:
        raise ValueError(
            f"{where}{key}: expected a number, without quotes, got {short_repr(value)}; "
            f"the largest is {MAX_MEASUREMENT:g}"
        )
    return float(value)


def _parse_flag(where: str, key: str, value: Any) -> bool:
    """Return a Boolean; raise a ValueError for other values."""
    if not isinstance(value, bool):
        raise ValueError(f"{where}{key}: expected true or false, got {short_repr(value)}")
    return value


def _parse_coupling(model: Model, motors: Any) -> Array:
    """Return the coupling of all motors from the motors that move several joints."""
    if isinstance(motors, dict):
        _require_available("key", motors, ("joints", "matrix"), "motors: ")
    if not isinstance(motors, dict) or len(motors) < 2:
        raise ValueError("motors: expected 'joints', a list of names, and 'matrix', a list of rows")
    names = motors["joints"]
    if not isinstance(names, list) or not 0 < len(names) == len(set(map(str, names))):
        raise ValueError(
            f"motors: joints: expected a list of different names, got {short_repr(names)}"
        )
    _require_available("joint", names, model.velocity_names, "motors: ")
    rows = [model.velocity_names.index(name) for name in names]
    matrix = motors["matrix"]
    if not _is_square_matrix(matrix, len(rows)):
        raise ValueError(
            f"motors: matrix: expected {len(rows)} rows of {len(rows)} numbers that are finite, "
            f"without quotes, a row for each of the joints, got {short_repr(matrix)}"
        )
    coupling = np.eye(model.nv)
    coupling[np.ix_(rows, rows)] = matrix
    return coupling


def _is_square_matrix(matrix: Any, size: int) -> bool:
    """Return True for a list of rows, (size, size), of numbers that are not too large."""
    return (
        isinstance(matrix, list)
        and len(matrix) == size
        and all(isinstance(row, list) and len(row) == size for row in matrix)
        and all(_is_number(x) and abs(x) < MAX_MEASUREMENT for row in matrix for x in row)
    )


def _is_number(value: Any) -> bool:
    """Return True for an integer or a float, but not for a Boolean."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)
