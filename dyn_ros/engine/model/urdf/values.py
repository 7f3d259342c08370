# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Validated values of a description that dynamics requires: elements become records.

Records have the types of `urdf_parser_py.urdf`. They contain what is read here: no visuals,
collisions, materials, transmissions or safety controllers, and of fixed joints only the origin. A
missing element is None, a missing value its default, or None where the specification has none.

The parser of urdf_parser_py is not used. It refuses descriptions because of meshes, transmissions
and other elements that dynamics does not need, and limits without effort; it accepts nan, "1_0" and
digits of any script as numbers; it ignores repeated elements and prints unknown ones to stderr; and
it knows no namespaces. Robots that it has read pass the checks below as elements (`to_element`).
"""

from __future__ import annotations

import math
import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from ...kernel.lie import unit_vector
from ...kernel.names import join_names, short_repr
from ...kernel.types import Array
from .text import XACRO_REMEDY, IncompleteElement, UrdfError, local_name, namespace
from .tree import MAX_MIMIC_RATIO, MAX_URDF_NUMBER, SUPPORTED

KNOWN_VERSIONS = ("1.0", "1.1", "1.2")
"""Versions of URDF that urdfdom 6 reads; the first is the default."""

NO_DEFAULT = object()
TEXT = 0


class Attribute(NamedTuple):
    """Type and default of an attribute."""

    content: Any  # TEXT, the words of which it is one, or the count of its numbers
    default: Any = NO_DEFAULT
    assumed: str = ""  # default in a warning, if the specification has none


_NUMBER, _ZERO = Attribute(1), Attribute(1, 0.0)
_VECTOR, _NAME = Attribute(3, (0.0, 0.0, 0.0)), Attribute(TEXT)
_UNLIMITED_NUMBER = Attribute(1, None, assumed="inf")

ATTRIBUTES: dict[str, dict[str, Attribute]] = {
    "robot": {"name": Attribute(TEXT, "robot", assumed="robot")},
    "link": {"name": _NAME},
    "joint": {"name": _NAME, "type": Attribute(SUPPORTED)},
    "inertial": {},
    "origin": {"xyz": _VECTOR, "rpy": _VECTOR},
    "mass": {"value": _NUMBER},
    "inertia": dict.fromkeys(("ixx", "ixy", "ixz", "iyy", "iyz", "izz"), _NUMBER),
    "parent": {"link": _NAME},
    "child": {"link": _NAME},
    "axis": {"xyz": Attribute(3)},
    "limit": {
        "lower": _ZERO,
        "upper": _ZERO,
        "effort": _UNLIMITED_NUMBER,
        "velocity": _UNLIMITED_NUMBER,
    },
    "dynamics": {"damping": _ZERO, "friction": _ZERO},
    "mimic": {"joint": _NAME, "multiplier": Attribute(1, 1.0), "offset": _ZERO},
}
SINGLE_VALUES = ("mass", "parent", "child", "axis")  # elements whose value replaces a record

# Limits of the numbers of an element, if they differ from MAX_URDF_NUMBER.
NUMBER_LIMITS = {"axis": math.inf, "limit": math.inf, "mimic": MAX_MIMIC_RATIO}

# Children that are read from each element: name -> True if it is required.
CHILDREN = {
    "robot": {"link": False, "joint": False},
    "link": {"inertial": False},
    "inertial": {"origin": False, "mass": True, "inertia": False},
    "joint": {
        "origin": False,
        "parent": True,
        "child": True,
        "axis": False,
        "limit": False,
        "dynamics": False,
        "mimic": False,
    },
    "fixed joint": {"origin": False, "parent": True, "child": True},
}


@cache
def record_types() -> dict[str, Any]:
    """Return the types of the records, by element; their import takes up to 30 ms."""
    from urdf_parser_py import urdf

    return {
        "robot": urdf.Robot,
        "link": urdf.Link,
        "inertial": urdf.Inertial,
        "inertia": urdf.Inertia,
        "origin": urdf.Pose,
        "joint": urdf.Joint,
        "limit": urdf.JointLimit,
        "dynamics": urdf.JointDynamics,
        "mimic": urdf.JointMimic,
    }


def read_values(element: ElementTree.Element, warnings: list[str], inside: str = "") -> Any:
    """Return the record of an element; ``inside`` names the elements around it for messages."""
    tag = local_name(element)
    label = f"<{tag}>{inside}"
    values = {}
    for attribute in ATTRIBUTES[tag]:
        values[attribute] = _attribute_value(element, tag, attribute, label, warnings)
        if attribute == "name":
            label = f'{tag} "{element.get("name")}"'
    if tag == "robot":
        _warn_of_version(element, label, warnings)
    if tag == "origin" and element.get("quat_xyzw") is not None:
        try:
            values["rpy"] = read_angles(element)
        except ValueError as error:
            raise UrdfError(f"quat_xyzw of {label} {error}") from None
    if tag in SINGLE_VALUES:
        return values.popitem()[1]
    record = record_types()[tag]()
    for name, value in values.items():
        setattr(record, name, value)
    for child in _children_to_read(element, label, warnings):
        name = local_name(child)
        value = read_values(child, warnings, f" of {label}" if tag != "robot" else "")
        if tag == "robot":
            record.add_aggregate(name, value)
        else:
            setattr(record, name, value)
    return record


def to_element(record: Any, tag: str = "robot", inside: str = "") -> ElementTree.Element:
    """Return the element from which a record would be read, with all digits of its numbers.

    Numbers and words of a wrong type become texts that `read_values` rejects, a record of a wrong
    type is a UrdfError.
    """
    element = ElementTree.Element(tag)
    expected = object if tag in SINGLE_VALUES else record_types()[tag]
    if not isinstance(record, expected):
        raise UrdfError(
            f"<{tag}>{inside} is {short_repr(record)}; expected a "
            f"urdf_parser_py.urdf.{expected.__name__}"
        )
    for attribute in ATTRIBUTES[tag]:
        value = record if tag in SINGLE_VALUES else getattr(record, attribute, None)
        if value is not None:
            element.set(attribute, _text_of_value(value))
    named = f"{tag} {record.name!r}" if hasattr(record, "name") else f"<{tag}>"
    for name in _expected_children(element):
        if tag == "robot":
            for child in getattr(record, f"{name}s"):
                element.append(to_element(child, name))
        elif (child := getattr(record, name, None)) is not None:
            element.append(to_element(child, name, f" of {named}{inside}"))
    return element


def _text_of_value(value: Any) -> str:
    """Return the text of an attribute, with all digits of numbers."""
    if isinstance(value, str):
        return value
    numbers = np.array(value, dtype=object).ravel()
    return " ".join(repr(x.item() if isinstance(x, np.generic) else x) for x in numbers)


def _attribute_value(
    element: ElementTree.Element, tag: str, attribute: str, label: str, warnings: list[str]
) -> Any:
    """Return the value of an attribute, or its default."""
    content, default, assumed = ATTRIBUTES[tag][attribute]
    text = element.get(attribute)
    if tag == "robot" and not (text or "").strip():
        text = None  # an empty name, which other programs accept
    if text is not None:
        if content == TEXT and not text.strip():
            raise IncompleteElement(f"{attribute} of {label} is empty; set a value", element)
        return _parsed_text(
            text, content, f"{attribute} of {label}", NUMBER_LIMITS.get(tag, MAX_URDF_NUMBER)
        )
    if default is NO_DEFAULT:
        raise IncompleteElement(f"{label} has no attribute {attribute}; add it", element)
    if assumed:
        warnings.append(f"{label} has no {attribute}: assumed to be {assumed}")
    return default


def _parsed_text(text: str, content: Any, label: str, largest: float) -> Any:
    """Return the value of an attribute with this content."""
    if "${" in text or "$(" in text:
        raise UrdfError(f"{label} is {text!r:.80}, an expression of xacro; {XACRO_REMEDY}")
    if content is SUPPORTED:
        if text not in SUPPORTED:
            raise UrdfError(f"{label} is {text!r:.80}; supported: {join_names(SUPPORTED)}")
        return text
    if content == TEXT:
        return text
    try:
        numbers = parse_numbers(text, content, largest)
    except ValueError as error:
        raise UrdfError(f"{label} {error}") from None
    return numbers[0] if content == 1 else numbers


def _warn_of_version(robot: ElementTree.Element, label: str, warnings: list[str]) -> None:
    """Append to the warnings if the version is unknown, or too old for elements of the robot."""
    version = robot.get("version", KNOWN_VERSIONS[0])
    if version not in KNOWN_VERSIONS:
        warnings.append(
            f"version of {label} is {version!r:.80}; known: {join_names(KNOWN_VERSIONS)}: "
            f"assumed to be {KNOWN_VERSIONS[-1]}"
        )
    elif version == KNOWN_VERSIONS[0] and any(
        element.get("quat_xyzw") is not None
        for element in robot.iter()
        if local_name(element) == "origin" and namespace(element) == namespace(robot)
    ):
        warnings.append(
            f"{label} has version {version}, in which urdfdom ignores quat_xyzw; it is used here: "
            'set version="1.1"'
        )


def _expected_children(element: ElementTree.Element) -> dict[str, bool]:
    """Return the names of the children that are read, and True for those that are required."""
    kind = "fixed joint" if element.get("type") == "fixed" else local_name(element)
    return CHILDREN.get(kind, {})


def _children_to_read(
    element: ElementTree.Element, label: str, warnings: list[str]
) -> list[ElementTree.Element]:
    """Return the children in the URDF's namespace that are read; the first if one is allowed."""
    expected = _expected_children(element)
    children: list[ElementTree.Element] = []
    tags: set[str] = set()
    for child in element:
        tag = local_name(child)
        if tag not in expected or namespace(child) != namespace(element):
            continue
        if tag in tags and tag not in ("link", "joint"):
            warnings.append(f"{label} has more than one <{tag}>; only the first is used")
            continue
        tags.add(tag)
        children.append(child)
    missing = [tag for tag, required in expected.items() if required and tag not in tags]
    if missing:
        raise IncompleteElement(f"{label} has no <{missing[0]}>; add it", element)
    return children


_SPACE_PATTERN = re.compile(r"[ \t\r\n]+")
_NUMBER_PATTERN = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")


def parse_numbers(text: str, count: int, largest: float = math.inf) -> list[float]:
    """Parse finite numbers in the format of type double of XML Schema.

    Python's ``float`` also accepts digits of any script, 1_000, and other white space. The
    ValueError for anything else quotes the text or the number, and names what is expected.
    """
    words = [word for word in _SPACE_PATTERN.split(text) if word]
    if len(words) != count:
        expected = "one number" if count == 1 else f"{count} numbers"
        raise ValueError(f"is {text!r:.80}; expected {expected}")
    for word in words:
        if not _NUMBER_PATTERN.fullmatch(word) or math.isinf(float(word)):
            raise ValueError(f"has {word!r:.80}; expected a finite number, such as 0.5")
        if abs(float(word)) > largest:
            raise ValueError(f"has {word!r:.80}; at most {largest:g} is supported")
    return [float(word) for word in words]


def read_angles(origin: ElementTree.Element) -> list[float]:
    """Return the fixed-axis angles of an <origin> [rad], from rpy or from quat_xyzw of any norm.

    The ValueError for other text says what is expected, as in `parse_numbers`.
    """
    text = origin.get("quat_xyzw")
    if text is None:
        return parse_numbers(origin.get("rpy", "0 0 0"), 3)
    if origin.get("rpy") is not None:
        raise ValueError("is beside rpy; expected one of the two")
    quaternion = np.array(parse_numbers(text, 4))
    if not quaternion.any():
        raise ValueError(f"is {text!r:.80}; expected a quaternion x y z w of norm 1")
    x, y, z, w = unit_vector(quaternion).tolist()
    R = np.array(
        [
            [1.0 - 2.0 * (y * y + z * z), 2.0 * (x * y - w * z), 2.0 * (x * z + w * y)],
            [2.0 * (x * y + w * z), 1.0 - 2.0 * (x * x + z * z), 2.0 * (y * z - w * x)],
            [2.0 * (x * z - w * y), 2.0 * (y * z + w * x), 1.0 - 2.0 * (x * x + y * y)],
        ]
    )
    yaw = math.atan2(R[1, 0], R[0, 0])
    cy, sy = math.cos(yaw), math.sin(yaw)
    pitch = math.atan2(-R[2, 0], cy * R[0, 0] + sy * R[1, 0])
    roll = math.atan2(sy * R[0, 2] - cy * R[1, 2], cy * R[1, 1] - sy * R[0, 1])
    return [roll, pitch, yaw]


def placement_of(record: Any) -> Array:
    """Return the homogeneous matrix of the <origin> of a record; the identity if it is missing."""
    return np.eye(4) if record.origin is None else placement(record.origin.xyz, record.origin.rpy)


def placement(xyz: Sequence[float], rpy: Sequence[float]) -> Array:
    """Return the homogeneous matrix of a translation [m] and fixed-axis angles [rad]."""
    (cr, cp, cy), (sr, sp, sy) = map(math.cos, rpy), map(math.sin, rpy)
    return np.array(
        [
            [cy * cp, cy * sp * sr - sy * cr, cy * sp * cr + sy * sr, xyz[0]],
            [sy * cp, sy * sp * sr + cy * cr, sy * sp * cr - cy * sr, xyz[1]],
            [-sp, cp * sr, cp * cr, xyz[2]],
            [0.0, 0.0, 0.0, 1.0],
        ]
    )
