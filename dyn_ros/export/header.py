# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The header for C: a template, and the docstring and declaration of each function."""

from __future__ import annotations

import inspect
import re
import textwrap
from collections.abc import Sequence
from pathlib import Path

from .. import __version__
from ..engine.kernel.fields import Axis, Field, Option
from .functions import Function, public_function
from .sources import is_number, prototypes

_TEMPLATE = Path(__file__).parent / "templates" / "dyn_ros.h"
_WIDTH = 110
_NEWLINE, _HARD = "\n", "\0"  # a space where no line ends
_SECTION = re.compile(r"\n\n(\w+)\n-+\n")
_AXES: dict[Axis, str] = {
    "constraints": "rows",
    "rows": "njoints",
    "parameters": "10 njoints",
    "moments": "4 njoints",
    "placements": "6 njoints",
}
_OF_PYTHON = re.compile(
    r"named tuple|new array|``MomentumObserver``|^Also computes|``only``|In Python"
)
_SUMMARIES = {  # of functions that differ from those in Python
    "cholesky_solve": "Product of a vector and M^-1, M, or a factor of M = U D U'.\n\n"
    "Featherstone (2008), section 6.5; O(n d^2) for a tree of depth d. M "
    "includes armature.",
}
_TEXTS = {  # of parameters that differ from those in Python
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
_RENAMED = {"torque_weights": "weights"}
_REFERENCE_FRAME = "DYN_ROS_WORLD, DYN_ROS_LOCAL or DYN_ROS_LOCAL_WORLD_ALIGNED."


def header(functions: list[Function]) -> str:
    """``dyn_ros.h``."""
    text = "\n".join(map(_function, functions))
    template = _TEMPLATE.read_text(encoding="utf-8")
    return template.replace("@FUNCTIONS@", text).replace("@VERSION@", __version__)


def _function(one: Function) -> str:
    """The comment and the prototypes of a function."""
    size, init, call = prototypes(one)
    return (
        f"/* {f'{_NEWLINE}   '.join(documentation(one))} */\n{size};\n{init};\n"
        f"{declaration(call)};\n"
    )


def declaration(prototype: str) -> str:
    """A prototype in lines."""
    head, _, arguments = prototype.partition("(")
    whole = textwrap.fill(
        arguments.replace(" ", _HARD).replace(f",{_HARD}", ", "),
        _WIDTH,
        initial_indent=f"{head}(",
        subsequent_indent="        ",
    )
    return whole.replace(_HARD, " ")


def documentation(one: Function, parameters: Sequence[Field | Option] | None = None) -> list[str]:
    """Lines about a function: what it computes, its parameters and its results.

    ``parameters`` are those that it has, by default all.
    """
    summary, *sections = _SECTION.split(inspect.cleandoc(public_function(one.name).__doc__ or ""))
    summary = _SUMMARIES.get(one.name, summary)
    texts = dict(zip(sections[::2], sections[1::2])).get("Parameters", "")
    lines = [line for paragraph in summary.split("\n\n") for line in _paragraph(paragraph)]
    for x in one.parameters if parameters is None else parameters:
        name = one.parameter_name(x)
        entry = f"{name}: {_shape(x)}{_text(name, texts)}"
        if isinstance(x, Field) and x in one.algorithm.optional and "NULL" not in entry:
            entry += " NULL: zeros."
        lines += _filled(entry, "    ")
    for n, known in enumerate(one.results):
        lead = "Results:" if n == 0 else ""
        doc = _plain(known.doc).removesuffix(".")
        lines += [lead] * bool(lead)
        lines += _filled(f"{one.result_name(known)}: {_shape(known)}{doc}.", "    ")
    return lines


def _paragraph(text: str) -> list[str]:
    """The lines of a paragraph, without sentences about Python; formulas as they are."""
    if text.startswith("    "):
        return text.splitlines()
    sentences = re.split(r"(?<=[.;:]) +(?=[A-Z`])", " ".join(text.split()))
    kept = " ".join(sentence for sentence in sentences if not _OF_PYTHON.search(sentence))
    return _filled(_plain(kept)) if kept else []


def _plain(text: str) -> str:
    """Text without marks of reStructuredText, and without repetitions of the conventions."""
    text = re.sub(r"``(?:model\.|data\.)?(.*?)``", r"\1", " ".join(text.split()))
    return text.replace(", the direction in which Model.integrate moves q", "")


def _filled(text: str, indent: str = "") -> list[str]:
    return textwrap.wrap(
        text,
        _WIDTH,
        subsequent_indent=indent,
        initial_indent=indent[:2],
        break_long_words=False,
        break_on_hyphens=False,
    )


def _shape(known: Field | Option) -> str:
    """The shape of a parameter or result, if it is an array."""
    if isinstance(known, Option) or is_number(known) or not known.shape:
        return ""
    axes = [_AXES.get(axis, str(axis)) for axis in known.shape]
    if known.transposed:
        axes[-2:] = axes[-1], axes[-2]
    by_columns = "by columns: " if known.transposed else ""
    return f"({', '.join(axes)}{',' * (len(axes) == 1)}) {by_columns}"


def _text(name: str, section: str) -> str:
    """The text about a parameter, from here or from the docstring."""
    if name in _TEXTS:
        return _TEXTS[name]
    if name == "reference_frame":
        return _REFERENCE_FRAME
    for entry in re.split(r"\n(?=\S)", section):
        head, _, text = entry.partition("\n")
        if _RENAMED.get(name, name) in head.partition(" : ")[0].split(", "):
            return re.sub(r"Zero by default\.", "NULL: zeros.", _plain(text)).replace(
                "Default:", "NULL:"
            )
    raise AssertionError(f"{name}: a parameter without documentation; add it to _TEXTS")
