# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""What is read of the elements: attributes and children, each value checked."""
from __future__ import annotations

import math
import re
import xml.etree.ElementTree as ElementTree

from ..inertia import LARGEST
from .error import UrdfError
from .text import local_name, namespace
from .tree import LARGEST_RATIO, SUPPORTED

_REQUIRED = object()
_TEXT = 0

# What is read of each element: attribute -> (what it holds, what stands for a missing one).
# It holds a text, one of several words, or so many numbers. A default of None leaves the
# attribute out: the specification's own default then holds.
_ATTRIBUTES = {
    "robot": {"name": (_TEXT, _REQUIRED)},
    "link": {"name": (_TEXT, _REQUIRED)},
    "joint": {"name": (_TEXT, _REQUIRED), "type": (SUPPORTED, _REQUIRED)},
    "inertial": {},
    "origin": {"xyz": (3, None), "rpy": (3, None)},
    "mass": {"value": (1, _REQUIRED)},
    "inertia": dict.fromkeys(("ixx", "ixy", "ixz", "iyy", "iyz", "izz"), (1, _REQUIRED)),
    "parent": {"link": (_TEXT, _REQUIRED)},
    "child": {"link": (_TEXT, _REQUIRED)},
    "axis": {"xyz": (3, _REQUIRED)},
    "limit": {
        "lower": (1, None),
        "upper": (1, None),
        "effort": (1, "inf"),
        "velocity": (1, "inf"),
    },
    "mimic": {"joint": (_TEXT, _REQUIRED), "multiplier": (1, None), "offset": (1, None)},
}

# The largest number of an element, where it is not that of masses and lengths.
_LARGEST = {"axis": math.inf, "limit": math.inf, "mimic": LARGEST_RATIO}

# What is read inside each element: child -> whether it must be there.
_CHILDREN = {
    "robot": {"link": False, "joint": False},
    "link": {"inertial": False},
    "inertial": {"origin": False, "mass": True, "inertia": False},
    "fixed joint": {"origin": False, "parent": True, "child": True},
    "joint": {
        "origin": False,
        "parent": True,
        "child": True,
        "axis": False,
        "limit": False,
        "mimic": False,
    },
}


def parse_values(elements, warnings):
    """The robot as urdf_parser_py's objects, every value in it checked."""
    from urdf_parser_py.urdf import URDF

    needed = _needed(elements, "", warnings)
    try:
        return URDF.from_xml_string(ElementTree.tostring(needed))
    except Exception as error:  # whatever the library trips over, the caller gets one kind
        raise UrdfError(f"urdf_parser_py cannot read the description: {error}") from error


def _needed(element, inside, warnings):
    """A copy of the element with only what dynamics needs, all its values checked."""
    tag = local_name(element)
    copy = ElementTree.Element(tag)
    where = f"<{tag}>{inside}"
    for attribute, (holds, default) in _ATTRIBUTES[tag].items():
        value = element.get(attribute)
        if value is not None:
            largest = _LARGEST.get(tag, LARGEST)
            _check_value(value, holds, f"{attribute} of {where}", largest)
            copy.set(attribute, value)
        elif default is _REQUIRED:
            raise UrdfError(f"{where} has no attribute {attribute}; add it")
        elif default is not None:
            warnings.append(f"{where} has no {attribute}: taken as {default}")
            copy.set(attribute, default)
        if attribute == "name":
            where = f'{tag} "{value}"'
    if tag == "origin" and element.get("quat_xyzw") is not None:
        raise UrdfError(f"quat_xyzw of {where} is not supported; write the rotation as rpy")
    for child in _needed_children(element, where, warnings):
        copy.append(_needed(child, f" of {where}" if tag != "robot" else "", warnings))
    return copy


def _needed_children(element, where, warnings):
    """The children that are read: of the URDF's own namespace; where one is meant, the first."""
    kind = "fixed joint" if element.get("type") == "fixed" else local_name(element)
    expected = _CHILDREN.get(kind, {})
    kept, seen = [], set()
    for child in element:
        tag = local_name(child)
        if tag not in expected or namespace(child) != namespace(element):
            continue
        if tag in seen and tag not in ("link", "joint"):
            warnings.append(f"{where} has more than one <{tag}>: only the first is used")
            continue
        seen.add(tag)
        kept.append(child)
    missing = [tag for tag, required in expected.items() if required and tag not in seen]
    if missing:
        raise UrdfError(f"{where} has no <{missing[0]}>; add it")
    return kept


def _check_value(value, holds, where, largest):
    if "${" in value or "$(" in value:
        raise UrdfError(f"{where} is {value!r:.80}; run the xacro command first")
    if holds is SUPPORTED:
        if value not in SUPPORTED:
            raise UrdfError(f"{where} is {value!r:.80}; supported: {', '.join(SUPPORTED)}")
    elif holds == _TEXT:
        if not value.strip():
            raise UrdfError(f"{where} is empty; give it a value")
    else:
        try:
            parse_numbers(value, holds, largest)
        except ValueError as error:
            raise UrdfError(f"{where} {error}") from None


_SPACE = re.compile(r"[ \t\r\n]+")
_NUMBER = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")


def parse_numbers(text: str, count: int, largest: float = math.inf) -> list[float]:
    """The numbers of an attribute, as XML Schema's type double has them.

    Python's ``float`` takes more: digits of every script, 1_000, and other white space.

    Parameters
    ----------
    text : str
    count : int
        How many there have to be.
    largest : float
        The largest magnitude of each.

    Returns
    -------
    list of float
        Finite.

    Raises
    ------
    ValueError
        Says what the text is, or which number it has, and what would do.
    """
    words = [word for word in _SPACE.split(text) if word]
    if len(words) != count:
        expected = "one number" if count == 1 else f"{count} numbers"
        raise ValueError(f"is {text!r:.80}; expected {expected}")
    for word in words:
        if not _NUMBER.fullmatch(word) or math.isinf(float(word)):
            raise ValueError(f"has {word!r:.80}; expected a finite number, such as 0.5")
        if abs(float(word)) > largest:
            raise ValueError(f"has {word!r:.80}; at most {largest:g} can be computed with")
    return [float(word) for word in words]
