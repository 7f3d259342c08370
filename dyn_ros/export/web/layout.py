# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Constants that the JavaScript of a page shares with Python, as a module that it imports."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from encodings.aliases import aliases
from types import ModuleType
from typing import Any
from xml.parsers import expat

from ...check import check, link_findings
from ...engine.kernel import packing
from ...engine.model import structure
from ...engine.model.urdf import lumping, moving_joints, text, tree, values
from .. import model_file

_NAMES: dict[str, dict[ModuleType, str]] = {
    "packing": {
        packing: "TREE TREE_ROW FLOATS_ROW PLACE PLACE_SIN PLACE_COS TRANSLATION SLIDE AXIS "
        "INERTIA RATIO SHIFT UNIT_MOTIONS REVOLUTE"
    },
    "file": {
        model_file: "HEADER SECTIONS ALIGNMENT MAX_PAYLOADS PAYLOAD_SIZE MAGIC CHECKSUM_START "
        "CHECKSUM_FACTOR"
    },
    "joints": {
        structure: "COORDINATE_SUFFIXES JOINT_KINDS QUATERNION_STARTS",
        tree: "ONE_DOF SUPPORTED",
        moving_joints: "ROOT_JOINT_NAME",
    },
    "description": {
        text: "MAX_CHARACTERS END_OF_MESSAGE BANNER_END PYTHON_ENCODINGS",
        tree: "MAX_LINKS MAX_ANGLE MAX_URDF_NUMBER MAX_MIMIC_RATIO",
        values: "KNOWN_VERSIONS SINGLE_VALUES CHILDREN",
    },
    "inertias": {lumping: "ROUNDING_ERROR MOMENT_TOLERANCE ABSOLUTE_TOLERANCE"},
    "findings": {
        link_findings: "MIN_GYRATION MAX_GYRATION MIN_PLACEHOLDER MOMENT_TOLERANCE UNUSABLE_KINDS",
        check: "SHAPELESS_FACTOR OPTICAL_SUFFIXES KINDS_FOR_NEGLIGIBLE_LINKS",
    },
}
"""Names of the constants of each part of the layout, by the module that defines them."""

_MAX_SAFE_INTEGER = 2**53 - 1  # larger integers are strings, since JavaScript rounds them
_CODECS = ("ascii", "latin_1", "utf_8", "utf_8_sig", "utf_16", "utf_16_le", "utf_16_be")


def layout_module() -> str:
    """Return the text of ``layout.mjs``, which exports the constants as ``LAYOUT``.

    Integers that a JavaScript number cannot hold are strings; an infinite limit is null.
    """
    parts = "".join(f"  {part}: {json.dumps(layout)},\n" for part, layout in _layout().items())
    return (
        "// Written by dyn_ros/export/web/layout.py\n"
        "/** Constants of model files and of the reader of descriptions, named as in Python. */\n"
        f"export const LAYOUT = {{\n{parts}}}\n"
    )


def _layout() -> dict[str, dict[str, Any]]:
    """Return the constants of each part by their names."""
    layout = {
        part: {
            name: _json_value(getattr(module, name))
            for module, names in names_by_module.items()
            for name in names.split()
        }
        for part, names_by_module in _NAMES.items()
    }
    layout["file"]["FORMAT_DIGEST"] = str(model_file.format_digest())
    layout["description"]["ATTRIBUTES"] = {
        tag: {name: _attribute(attribute) for name, attribute in attributes.items()}
        for tag, attributes in values.ATTRIBUTES.items()
    }
    layout["description"]["NUMBER_LIMITS"] = {
        tag: None if limit == math.inf else limit for tag, limit in values.NUMBER_LIMITS.items()
    }
    layout["description"]["ENCODINGS"] = {
        **{codec: codec for codec in _CODECS},
        **{alias: codec for alias, codec in aliases.items() if codec in _CODECS},
    }
    layout["findings"]["NEGLIGIBLE_FRACTIONS"] = check.NEGLIGIBLE_FRACTIONS.tolist()
    layout["xml"] = {
        "NAME_START": _accepted_characters(lambda character: f"<{character}/>"),
        "NAME_CHARACTER": _accepted_characters(lambda character: f"<a{character}a/>"),
    }
    return layout


def _json_value(value: Any) -> Any:
    """Return a value for JSON; integers that a JavaScript number cannot hold become strings."""
    if isinstance(value, int) and value > _MAX_SAFE_INTEGER:
        return str(value)
    return dict(value) if isinstance(value, Mapping) else value


def _attribute(attribute: values.Attribute) -> dict[str, Any]:
    """Return what is read from an attribute; without ``default`` if it is required."""
    content = attribute.content
    entry: dict[str, Any] = {"words": content} if isinstance(content, tuple) else {"count": content}
    if attribute.default is not values.NO_DEFAULT:
        entry["default"] = attribute.default
    if attribute.assumed:
        entry["assumed"] = attribute.assumed
    return entry


def _accepted_characters(document_with: Callable[[str], str]) -> str:
    """Return the characters with which expat accepts a document, for a regular expression's class.

    XML limits names to characters of the Unicode of 1996 in its first four editions, which expat
    implements, and extends them in its fifth, which other parsers implement.
    """
    ranges: list[tuple[str, str]] = []
    for code in range(0x10000):  # expat accepts no names with characters beyond
        character = chr(code)
        if 0xD800 <= code < 0xE000 or not _is_accepted(document_with(character)):
            continue
        if ranges and ord(ranges[-1][1]) == code - 1:
            ranges[-1] = ranges[-1][0], character
        else:
            ranges.append((character, character))
    return "".join(f"{first}-{last}" for first, last in ranges)


def _is_accepted(document: str) -> bool:
    """Return True if a document is well-formed without namespaces, according to expat."""
    try:
        expat.ParserCreate("utf-8").Parse(document.encode(), True)
    except expat.ExpatError:
        return False
    return True
