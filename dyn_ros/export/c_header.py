# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""C header: a template, and the documentation and declaration of each function."""

from __future__ import annotations

import inspect
import re
import textwrap
from collections.abc import Sequence
from pathlib import Path

from .. import __version__
from ..engine.kernel.fields import Axis, Field, Option
from .c_sources import is_number, prototypes
from .functions import Function, public_function

_TEMPLATE = Path(__file__).parent / "templates" / "dyn_ros.h"
_LINE_WIDTH = 110
_NEWLINE = "\n"
_UNBREAKABLE_SPACE = "\0"
_SECTION = re.compile(r"\n\n(\w+)\n-+\n")
_AXES: dict[Axis, str] = {
    "constraints": "rows",
    "rows": "njoints",
    "parameters": "10 njoints",
    "moments": "4 njoints",
    "placements": "6 njoints",
}
_ABOUT_PYTHON = re.compile(
    r"named tuple|new array|``MomentumObserver``|^Also computes|``only``|In Python"
)
# Summaries of functions that differ from their docstrings.
_SUMMARIES = {
    "cholesky_solve": "Product of a vector and M^-1, M, or a factor of M = U D U'.\n\n"
    "Featherstone (2008), section 6.5; O(n d^2) for a tree of depth d. M "
    "includes armature.",
}
# Texts about parameters that differ from the docstrings.
_PARAMETER_TEXTS = {
    "frame": "Index of a frame.",
    "joint": "Index of a joint.",
    "contacts": "From dyn_ros_contacts_init; `rows` is its number of rows.",
    "constraints": "From dyn_ros_constraints_init: tips, axes and policy of `rows` constraints.",
    "classical": "1: classical instead of spatial accelerations; otherwise 0.",
    "direct": "1: multiply the change of velocity by M instead of subtracting momenta; otherwise "
    "0.",
    "operation": "DYN_ROS_M_INVERSE and so on: the matrix that b is multiplied with.",
    "f_ext": "External wrench (force, moment) on each joint's body, at the origin of the joint "
    "frame and expressed in it [N, N m].",
    "wrenches": "The part of f_ext on the link of each frame, at the frame's origin and expressed "
    "in it [N, N m]; the rest of f_ext is on the link that the joint connects.",
    "offset": "A point fixed to the frame and expressed in it [m], used instead of its origin. "
    "NULL: its origin.",
    "gain": "Bandwidth for each velocity [1/s], more than 0.",
    "damping": "Viscous friction, such as model->damping.",
    "friction": "Coulomb friction, such as model->friction.",
}
_PYTHON_NAMES = {"torque_weights": "weights"}
_REFERENCE_FRAME = "DYN_ROS_WORLD, DYN_ROS_LOCAL or DYN_ROS_LOCAL_WORLD_ALIGNED."


def c_header_text(functions: list[Function]) -> str:
    """Return the text of ``dyn_ros.h``."""
    text = "\n".join(map(_function_text, functions))
    template = _TEMPLATE.read_text(encoding="utf-8")
    return template.replace("@FUNCTIONS@", text).replace("@VERSION@", __version__)


def error_codes() -> dict[str, int]:
    """Return the kinds of errors by name, such as NO_SUCH_FRAME."""
    template = _TEMPLATE.read_text(encoding="utf-8")
    return {name: int(code) for name, code in re.findall(r"DYN_ROS_(\w+) = (-\d+)", template)}


def _function_text(function: Function) -> str:
    """Return the comment and the prototypes of a function."""
    size, init, call = prototypes(function)
    return (
        f"/* {f'{_NEWLINE}   '.join(documentation_lines(function))} */\n{size};\n{init};\n"
        f"{wrap_prototype(call)};\n"
    )


def wrap_prototype(prototype: str) -> str:
    """Return a prototype, wrapped to the width of the header."""
    head, _, arguments = prototype.partition("(")
    wrapped = textwrap.fill(
        arguments.replace(" ", _UNBREAKABLE_SPACE).replace(f",{_UNBREAKABLE_SPACE}", ", "),
        _LINE_WIDTH,
        initial_indent=f"{head}(",
        subsequent_indent="        ",
    )
    return wrapped.replace(_UNBREAKABLE_SPACE, " ")


def documentation_lines(
    function: Function, parameters: Sequence[Field | Option] | None = None
) -> list[str]:
    """Return lines about what a function computes, its parameters and its results.

    ``parameters`` are those to document, by default all.
    """
    docstring = inspect.cleandoc(public_function(function.name).__doc__ or "")
    summary, *sections = _SECTION.split(docstring)
    summary = _SUMMARIES.get(function.name, summary)
    section = dict(zip(sections[::2], sections[1::2])).get("Parameters", "")
    lines = [line for paragraph in summary.split("\n\n") for line in _paragraph_lines(paragraph)]
    for parameter in function.parameters if parameters is None else parameters:
        name = function.parameter_name(parameter)
        entry = f"{name}: {_shape_text(parameter)}{_parameter_text(name, section)}"
        is_optional = isinstance(parameter, Field) and parameter in function.algorithm.optional
        if is_optional and "NULL" not in entry:
            entry += " NULL: zeros."
        lines += _wrapped_lines(entry, "    ")
    if function.results:
        lines.append("Results:")
    for result in function.results:
        doc = _plain_text(result.doc).removesuffix(".")
        lines += _wrapped_lines(
            f"{function.result_name(result)}: {_shape_text(result)}{doc}.", "    "
        )
    return lines


def _paragraph_lines(text: str) -> list[str]:
    """Return the lines of a paragraph, without sentences about Python; formulas as they are."""
    if text.startswith("    "):
        return text.splitlines()
    sentences = re.split(r"(?<=[.;:]) +(?=[A-Z`])", " ".join(text.split()))
    text = " ".join(sentence for sentence in sentences if not _ABOUT_PYTHON.search(sentence))
    return _wrapped_lines(_plain_text(text)) if text else []


def _plain_text(text: str) -> str:
    """Return text without marks of reStructuredText and without repeated conventions."""
    text = re.sub(r"``(?:model\.|data\.)?(.*?)``", r"\1", " ".join(text.split()))
    return text.replace(", the direction in which Model.integrate moves q", "")


def _wrapped_lines(text: str, indent: str = "") -> list[str]:
    """Return text in lines; the first is indented by up to 2 spaces, others by ``indent``."""
    return textwrap.wrap(
        text,
        _LINE_WIDTH,
        subsequent_indent=indent,
        initial_indent=indent[:2],
        break_long_words=False,
        break_on_hyphens=False,
    )


def _shape_text(value: Field | Option) -> str:
    """Return the shape of a parameter or result; "" unless it is an array."""
    if isinstance(value, Option) or is_number(value) or not value.shape:
        return ""
    axes = [_AXES.get(axis, str(axis)) for axis in value.shape]
    if value.transposed:
        axes[-2:] = axes[-1], axes[-2]
    by_columns = "by columns: " if value.transposed else ""
    return f"({', '.join(axes)}{',' * (len(axes) == 1)}) {by_columns}"


def _parameter_text(name: str, section: str) -> str:
    """Return the text about a parameter, from here or from the section of a docstring."""
    if name in _PARAMETER_TEXTS:
        return _PARAMETER_TEXTS[name]
    if name == "reference_frame":
        return _REFERENCE_FRAME
    for entry in re.split(r"\n(?=\S)", section):
        head, _, text = entry.partition("\n")
        if _PYTHON_NAMES.get(name, name) in head.partition(" : ")[0].split(", "):
            return re.sub(r"Zero by default\.", "NULL: zeros.", _plain_text(text)).replace(
                "Default:", "NULL:"
            )
    raise AssertionError(f"{name}: a parameter without documentation; add it to _PARAMETER_TEXTS")
