# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The attributes and children that are read from the elements, with validation."""
from __future__ import annotations

import math
import re
import xml.etree.ElementTree as ElementTree
from typing import Any

from ..inertia import LARGEST
from .error import UrdfError
from .text import local_name, namespace
from .tree import LARGEST_RATIO, SUPPORTED

_REQUIRED = object()
_TEXT = 0

# The attributes read from each element: name -> (type, default). The type is text, one of several
# words, or a number of numbers. A default of None omits the attribute, so that the default of the
# specification applies.
_ATTRIBUTES: dict[str, dict[str, tuple[Any, Any]]] = {
    "robot": {"name": (_TEXT, "robot")},
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
    "dynamics": {"damping": (1, None), "friction": (1, None)},
    "mimic": {"joint": (_TEXT, _REQUIRED), "multiplier": (1, None), "offset": (1, None)},
}

# The largest number of an element, if it differs from that of masses and lengths.
_LARGEST = {"axis": math.inf, "limit": math.inf, "mimic": LARGEST_RATIO}

# The children read from each element: name -> whether it is required.
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
        "dynamics": False,
        "mimic": False,
    },
}


def parse_values(elements, warnings):
    """Return the robot as objects of urdf_parser_py, with all values validated."""
    from urdf_parser_py.urdf import URDF

    needed = _needed(elements, "", warnings)
    try:
        return URDF.from_xml_string(ElementTree.tostring(needed))
    except Exception as error:  # callers get the same error type for all failures of the library
        raise UrdfError(f"urdf_parser_py cannot read the description: {error}") from error


def _needed(element, inside, warnings):
    """Return a copy of the element with only the validated values that dynamics requires."""
    tag = local_name(element)
    copy = ElementTree.Element(tag)
    where = f"<{tag}>{inside}"
    for attribute, (holds, default) in _ATTRIBUTES[tag].items():
        value = element.get(attribute)
        if tag == "robot" and not (value or "").strip():
            value = None                    # other programs accept it
        if value is not None:
            largest = _LARGEST.get(tag, LARGEST)
            _check_value(value, holds, f"{attribute} of {where}", largest)
            copy.set(attribute, value)
        elif default is _REQUIRED:
            raise UrdfError(f"{where} has no attribute {attribute}; add it")
        elif default is not None:
            warnings.append(f"{where} has no {attribute}: assumed to be {default}")
            copy.set(attribute, default)
        if attribute == "name":
            where = f'{tag} "{value}"'
    if tag == "origin" and element.get("quat_xyzw") is not None:
        raise UrdfError(f"quat_xyzw of {where} is not supported; use rpy")
    for child in _needed_children(element, where, warnings):
        copy.append(_needed(child, f" of {where}" if tag != "robot" else "", warnings))
    return copy


def _needed_children(element, where, warnings):
    """Return the children to read: those in the URDF's namespace, the first if one is allowed."""
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
            raise UrdfError(f"{where} is empty; set a value")
    else:
        try:
            parse_numbers(value, holds, largest)
        except ValueError as error:
            raise UrdfError(f"{where} {error}") from None


_SPACE = re.compile(r"[ \t\r\n]+")
_NUMBER = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")


def parse_numbers(text: str, count: int, largest: float = math.inf) -> list[float]:
    """Parse the numbers of an attribute, in the format of type double of XML Schema.

    Python's ``float`` also accepts digits of any script, 1_000, and other white space.

    Parameters
    ----------
    text : str
    count : int
        The required number of numbers.
    largest : float
        The largest magnitude of each.

    Returns
    -------
    list of float
        Finite.

    Raises
    ------
    ValueError
        The text is not valid; quotes it or the number, and names what is expected.
    """
    words = [word for word in _SPACE.split(text) if word]
    if len(words) != count:
        expected = "one number" if count == 1 else f"{count} numbers"
        raise ValueError(f"is {text!r:.80}; expected {expected}")
    for word in words:
        if not _NUMBER.fullmatch(word) or math.isinf(float(word)):
            raise ValueError(f"has {word!r:.80}; expected a finite number, such as 0.5")
        if abs(float(word)) > largest:
            raise ValueError(f"has {word!r:.80}; at most {largest:g} is supported")
    return [float(word) for word in words]
