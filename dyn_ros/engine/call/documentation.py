# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Completion of the docstrings of algorithms by what they declare, and by shared arguments."""

import functools
import inspect
import re
from collections.abc import Callable, Iterable
from typing import Any

from ..kernel.fields import Axis, Field
from .algorithm import ALGORITHMS, Algorithm

# By name: the type, and what the argument is. One whose default is None is optional.
_ARGUMENTS = {
    "model": ("Model", ""),
    "data": (
        "Data",
        "Created for this model. Holds the results of a single state until the next "
        "call; results of a batch are new arrays with a leading batch axis.",
    ),
    "frame": ("str or int", "Name or index of a frame: link, joint or fixed joint."),
    "joint": ("str or int", "Name or index of a joint, in ``model.joint_names``."),
    "reference_frame": (
        "ReferenceFrame",
        "WORLD: expressed in the world, at the world's origin. LOCAL: expressed in the {frame}, at "
        "its origin. LOCAL_WORLD_ALIGNED: expressed in the world, at the {frame}'s origin.",
    ),
    "offset": (
        "(3,) or (B, 3) array_like",
        "A point fixed to the {frame} and expressed in it [m], used instead of its origin.",
    ),
    "q": ("(nq,) or (B, nq) array_like", "Configuration [rad, m]."),
    "v": (
        "(nv,) or (B, nv) array_like",
        "Velocity [rad/s, m/s]; for floating, planar and spherical joints, in their frame.",
    ),
    "a": ("(nv,) or (B, nv) array_like", "Acceleration [rad/s2, m/s2]."),
    "tau": ("(nv,) or (B, nv) array_like", "Joint torques and forces [N m, N]."),
    "b": ("(nv,) or (B, nv) array_like", "The vector."),
    "f_ext": (
        "(njoints, 6) or (B, njoints, 6) array_like",
        "External wrench (force, moment) on each joint's body, at the origin of the joint frame "
        "and expressed in it [N, N m]. ``Model.external_forces`` converts wrenches on any frame.",
    ),
    "contacts": (
        "sequence of Contact",
        "At most 36 rows, 3 or 6 for each contact; of distinct names.",
    ),
    "out": (
        "ndarray, or sequence of ndarray, optional",
        "Arrays for the results of a batch, in their order: float64, C-contiguous, with a leading "
        "batch axis. New arrays for None, and for those that are missing at the end.",
    ),
    "threads": ("int", "Number of threads for a batch."),
    "parameters": (
        "(..., 10) array_like",
        "m, m cx, m cy, m cz, Ixx, Ixy, Iyy, Ixz, Iyz, Izz [kg, kg m, kg m2].",
    ),
    "reference": ("(..., 10) array_like", "Parameters of another body; leading axes broadcast."),
    "coordinates": ("(..., 10) array_like", "alpha, d1, d2, d3, s12, s23, s13, t1, t2, t3."),
}
_BY_FRAME = (
    "dict of str to (6,) array_like, or (njoints, 6) or (B, njoints, 6)",
    "External wrenches (force, moment) [N, N m]: by frame name, at the frame's origin and "
    "expressed in it; or as an array as for ``aba``.",
)
_ENTRIES_WITH = {  # by companion: another argument of the function, which changes entries
    "contacts": {
        "f_ext": _BY_FRAME,
        "damping": (
            "float",
            "Added to the diagonal of J M^-1 J' [1/kg, 1/(kg m2)], 0 or more; for "
            "contacts in WORLD to the rows at c1.",
        ),
        "restitution": ("float", "From 0 (the contacts stay closed) to 1 (no energy is lost)."),
    },
    "directions": {"f_ext": _BY_FRAME},
    "dimension": {
        "frame": (
            "str or int",
            "Name or index of a frame that a joint moves: link, joint or fixed joint.",
        ),
        "dimension": ("6 or 3", "The pose, or the position of the frame's origin."),
        "damping": (
            "float",
            "Added to the diagonal of J M^-1 J', 0 or more, to avoid large "
            "numbers near singularities.",
        ),
    },
}
_ZERO_BY_DEFAULT = ("v", "a")
_IN_A_RANGE = {"damping", "dt", "gain", "restitution", "residual", "weights"}
_ONE_OF = {
    "frame": "frame",
    "joint": "joint",
    "reference_frame": "reference frame",
    "contacts": "frame of a contact",
    "only": "name in ``only``",
}
_SINGULAR = (
    "The inertia matrix is singular; names the first joint from the tips that moves no inertia."
)
_AXES: dict[Axis, Axis] = {
    "rows": "njoints",
    "ncolumns": "n",
    "parameters": "10 njoints",
    "moments": "4 njoints",
    "placements": "6 njoints",
}
_SECTIONS = ("Parameters", "Returns", "Raises", "Notes", "Examples")
_SECTION = re.compile(rf"\n\n({'|'.join(_SECTIONS)})\n-+\n")
_LINE = re.compile(r"(.{1,92})(?: |$)")


def _wrap(text: str, newline: str = "\n    ") -> str:
    return newline.join(_LINE.findall(text))


def _format_entry(head: str, text: str) -> str:
    """Return an entry of a section."""
    return f"{head}\n    {_wrap(text)}" if text else head


def _parse_entries(section: str) -> dict[str, str]:
    """Return the entries of a section by name; one of several names is there under each of them."""
    return {
        name: entry
        for entry in re.split(r"\n(?=\S)", section)
        if entry
        for name in entry.splitlines()[0].partition(" : ")[0].split(", ")
    }


def _join_words(words: list[str]) -> str:
    return " and ".join([*filter(None, [", ".join(words[:-1])]), words[-1]])


# --- arguments


def _optional_arguments(function: Callable[..., Any]) -> dict[str, bool]:
    """Return the names of the arguments, and whether their default is None."""
    code, defaults = function.__code__, function.__defaults__ or ()
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    positional = dict(zip(names[code.co_argcount - len(defaults) :], defaults))
    return {name: positional.get(name, ...) is None for name in names}


@functools.cache
def _argument_entry(name: str, optional: bool, companion: str, frame: str) -> str | None:
    """Return the entry of a shared argument; None if it is not shared."""
    kind, text = _ENTRIES_WITH.get(companion, {}).get(name) or _ARGUMENTS.get(name, ("", ""))
    if not kind:
        return None
    if optional:
        kind += ", optional"
        text += " Zero by default." if name in _ZERO_BY_DEFAULT else ""
    return _format_entry(f"{name} : {kind}", text.replace("{frame}", frame))


def _parameter_entries(arguments: dict[str, bool], documented: dict[str, str]) -> list[str]:
    """Return the entries of all arguments, in their order."""
    companion = next((name for name in _ENTRIES_WITH if name in arguments), "")
    frame = "joint frame" if "joint" in arguments else "frame"
    entries = [
        documented.get(name) or _argument_entry(name, optional, companion, frame)
        for name, optional in arguments.items()
    ]
    return [entry for entry in dict.fromkeys(entries) if entry]


# --- errors


def _value_error_text(arguments: dict[str, bool], parameters: list[str]) -> str:
    """Return the text about a ValueError."""
    causes = ["Wrong shape or dtype", "a number that is not finite"]
    if not _IN_A_RANGE.isdisjoint(arguments):
        causes[1] += " or out of its range"
    if "q" in arguments:
        causes.append("a quaternion that is not unit")
    if "contacts" in arguments:
        causes.append("contacts of the same name or of more than 36 rows")
    if "contacts" in arguments or "dimension" in arguments:
        causes.append("a frame that no joint moves")
    if "reference" in arguments:
        causes.append("parameters that are not physical (see ``is_physical``)")
    unknown = [word for name, word in _ONE_OF.items() if name in arguments]
    if any(entry.startswith("f_ext : dict") for entry in parameters):
        unknown.append("frame in ``f_ext``")
    if unknown:
        causes.append(f"an unknown {' or '.join(unknown)} (lists the valid ones)")
    return (
        f"{', '.join(causes[:-1])}, or {causes[-1]}; names the argument, the expected and the "
        "actual value."
    )


# --- results


def _result_entry(field: Field, name: str, dimension: str) -> str:
    """Return the entry of a result."""
    axes = [
        str(_AXES.get(axis, axis)) if axis != "constraints" else dimension for axis in field.shape
    ]
    if field.transposed:
        axes[-2:] = axes[-1], axes[-2]
    kind = (
        f"({', '.join(axes)}{',' * (len(axes) == 1)}) ndarray"
        if axes
        else "number, or (B,) ndarray"
    )
    place = f"; ``data.{field.name}``." if field.is_public else "."
    return _format_entry(
        f"{name} : {kind}" if name else kind, field.doc and field.doc.removesuffix(".") + place
    )


def _results_section(algorithm: Algorithm, arguments: Iterable[str]) -> str:
    """Return the section about the results."""
    dimension = "dimension" if "dimension" in arguments else "m"
    several = len(algorithm.results) > 1
    return "\n".join(
        _result_entry(field, several * field.name.lstrip("_"), dimension)
        for field in algorithm.results
    )


def _also_computes_text(algorithm: Algorithm) -> str:
    """Return the paragraph about the other fields that an algorithm writes."""
    names = [f"``data.{field.name}``" for field in algorithm.also_writes]
    return "\n\n" + _wrap(f"Also computes {_join_words(names)}.", "\n") if names else ""


@functools.cache
def _first_writers() -> dict[Field, str]:
    """Return the fields that no function returns, each with the first algorithm that writes it."""
    returned = {field for algorithm in ALGORITHMS.values() for field in algorithm.results}
    return {
        field: algorithm.name
        for algorithm in reversed(ALGORITHMS.values())
        for field in algorithm.also_writes
        if field not in returned
    }


def _notes_section(algorithm: Algorithm, arguments: Iterable[str]) -> str:
    """Return the entries of the fields that no function returns, where they are written first."""
    dimension = "dimension" if "dimension" in arguments else "m"
    entries = [
        _result_entry(field, field.name, dimension)
        for field in algorithm.also_writes
        if _first_writers().get(field) == algorithm.name
    ]
    head = "Fields of ``data`` that no function returns:\n"
    return "\n".join([head, *entries]) if entries else ""


def complete_docstring(function: Callable[..., Any]) -> None:
    """Add to the docstring of an algorithm what it declares, and what all algorithms share.

    Entries that it has itself are kept; so is a section "Returns" that it has itself.
    """
    if not function.__doc__:  # python -OO
        return
    summary, *parts = _SECTION.split(inspect.cleandoc(function.__doc__))
    sections = dict(zip(parts[::2], parts[1::2]))
    algorithm: Algorithm | None = getattr(function, "algorithm", ALGORITHMS.get(function.__name__))
    arguments = _optional_arguments(function)
    parameters = _parameter_entries(arguments, _parse_entries(sections.get("Parameters", "")))
    errors = {"ValueError": _format_entry("ValueError", _value_error_text(arguments, parameters))}
    if algorithm:
        summary += _also_computes_text(algorithm)
        sections.setdefault("Returns", _results_section(algorithm, arguments))
        notes = filter(None, [sections.get("Notes", ""), _notes_section(algorithm, arguments)])
        sections |= {"Notes": text} if (text := "\n\n".join(notes)) else {}
        can_fail = any(program.can_fail for program in algorithm.programs)
        if can_fail and function.__name__ != "cholesky_M_times":  # divides by nothing
            errors["numpy.linalg.LinAlgError"] = _format_entry(
                "numpy.linalg.LinAlgError", _SINGULAR
            )
    errors |= _parse_entries(sections.get("Raises", ""))
    sections |= {"Parameters": "\n".join(parameters), "Raises": "\n".join(errors.values())}
    text = "".join(
        f"\n\n{title}\n{'-' * len(title)}\n{sections[title]}"
        for title in _SECTIONS
        if title in sections
    )
    function.__doc__ = f"{summary}{text}\n"


def complete_docstrings(items: Iterable[Callable[..., Any]]) -> None:
    """Complete the docstrings of functions; classes remain as they are."""
    for item in items:
        if hasattr(item, "__code__"):
            complete_docstring(item)
