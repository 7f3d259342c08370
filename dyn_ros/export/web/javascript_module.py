# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""ES module of the functions: a template, their declarations, and their types."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ... import __version__
from ...engine.kernel.fields import MAX_CONSTRAINTS, Field, Option
from ..c_header import documentation_lines, error_codes
from ..c_sources import is_number
from ..functions import Function, structure_name
from .layout import layout_module

_TEMPLATES = Path(__file__).parent / "javascript"
# Texts that differ from those for C.
_JAVASCRIPT_TEXTS = {
    "NULL": "null",
    "Index of a frame.": "A frame.",
    "Index of a joint.": "A joint.",
    "From dyn_ros_contacts_init; `rows` is its number of rows.": "From contacts().",
    "From dyn_ros_constraints_init: tips, axes and policy of `rows` constraints.": (
        "From constraints()."
    ),
    "DYN_ROS_WORLD, DYN_ROS_LOCAL or DYN_ROS_LOCAL_WORLD_ALIGNED.": (
        "WORLD, LOCAL or LOCAL_WORLD_ALIGNED."
    ),
    "DYN_ROS_M_INVERSE and so on: the": (
        "0 M^-1, 1 M, 2 U, 3 U', 4 U^-1, 5 U'^-1 of M = U D U': the"
    ),
    "model->": "model.",
}


def module_texts(functions: Sequence[Function], members: Mapping[str, str]) -> dict[str, str]:
    """Return the texts of the files beside ``dyn_ros.wasm``, by file name.

    ``members`` are the names of members of C structures.
    """
    values = {
        "VERSION": __version__,
        "MAX_CONSTRAINTS": str(MAX_CONSTRAINTS),
        "MEMBERS": json.dumps({name: text.split() for name, text in members.items()}),
        "ERRORS": json.dumps(error_codes()),
    }
    declarations = {function.name: _declaration(function) for function in functions}
    return {
        "dyn_ros.mjs": _fill("dyn_ros.mjs", values | {"FUNCTIONS": _compact_json(declarations)}),
        "dyn_ros.d.ts": _fill(
            "dyn_ros.d.ts", values | {"FUNCTIONS": "\n".join(map(_method, functions))}
        ),
        "package.json": _fill("package.json", values),
        **reader_texts(),
    }


def reader_texts() -> dict[str, str]:
    """Return the texts of the modules that read robot descriptions, by file name."""
    modules = {path.name: path.read_text(encoding="utf-8") for path in _TEMPLATES.glob("*.mjs")}
    del modules["dyn_ros.mjs"]
    types = (_TEMPLATES / "urdf.d.ts").read_text(encoding="utf-8")
    return {**modules, "urdf.d.ts": types, "layout.mjs": layout_module()}


def _fill(file: str, values: Mapping[str, str]) -> str:
    """Return the text of a template with its values."""
    text = (_TEMPLATES / file).read_text(encoding="utf-8")
    return re.sub(r"@([A-Z_]+)@", lambda match: values[match[1]], text)


def _compact_json(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))


# --- declarations


def _declaration(function: Function) -> dict[str, Any]:
    """Return what JavaScript must know of a function's arguments and results."""
    return {
        "inputs": [_input_declaration(function, x) for x in function.parameters],
        "results": [
            {"name": function.result_name(x), "shape": list(x.shape)} for x in function.results
        ],
    }


def _input_declaration(function: Function, parameter: Field | Option) -> dict[str, Any]:
    declaration: dict[str, Any] = {
        "name": function.parameter_name(parameter),
        "kind": _kind(parameter),
    }
    if isinstance(parameter, Field) and declaration["kind"] == "array":
        declaration["shape"] = list(parameter.shape)
        if parameter in function.algorithm.optional:
            declaration["optional"] = 1
    if _has_default(function, parameter):
        declaration["fallback"] = 0
    return declaration


def _kind(parameter: Field | Option) -> str:
    """Return "array", "number", "integer", "contacts" or "constraints"."""
    if isinstance(parameter, Option):
        return structure_name(parameter) or "integer"
    return "number" if is_number(parameter) else "array"


def _has_default(function: Function, parameter: Field | Option) -> bool:
    """Return True for an option that is false unless it is passed."""
    return function.parameter_name(parameter) in ("classical", "direct")


# --- types


def _method(function: Function) -> str:
    """Return the declaration of a method of the model, with its documentation."""
    text = "\n".join(f"   * {line}".rstrip() for line in documentation_lines(function))
    for text_in_c, text_in_javascript in _JAVASCRIPT_TEXTS.items():
        text = text.replace(text_in_c, text_in_javascript)
    is_optional = [
        (isinstance(x, Field) and x in function.algorithm.optional) or _has_default(function, x)
        for x in function.parameters
    ]
    parameters = [
        _parameter(function, x, can_be_null=optional, can_be_omitted=all(is_optional[n:]))
        for n, (x, optional) in enumerate(zip(function.parameters, is_optional))
    ]
    results = [
        f"{function.result_name(x)}: {'Float64Array' if x.shape else 'number'}"
        for x in function.results
    ]
    return (
        f"  /**\n{text}\n   */\n"
        f"  {function.name}({', '.join(parameters)}): {{{', '.join(results)}}}\n"
    )


def _parameter(
    function: Function, parameter: Field | Option, can_be_null: bool, can_be_omitted: bool
) -> str:
    """Return the declaration of a parameter."""
    name, kind = function.parameter_name(parameter), _kind(parameter)
    types = {"array": "Numbers", "number": "number", "integer": "number"}
    names = {
        "frame": "Frame",
        "joint": "Joint",
        "reference_frame": "ReferenceFrame",
        "classical": "boolean",
        "direct": "boolean",
    }
    type_name = names.get(name) or types.get(kind) or f"Structure<'{kind}'>"
    if can_be_null and kind == "array":
        type_name += " | null"
    return f"{name}{'?' * can_be_omitted}: {type_name}"
