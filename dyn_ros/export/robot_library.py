# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""A library of functions for one robot, with its names and numbers as constants of C."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from .. import __version__
from ..engine.kernel.names import listed
from ..engine.model.model import Model
from .functions import Function, functions, parameter_name
from .header import declaration, documentation
from .library import checked_targets, link
from .robot_entries import SpecializedEntry, specialized_entry
from .robot_functions import PARAMETERS, Specialized, parameters, parameters_struct, specialized
from .specialize.trace import NotTraceable

USUAL = ("aba", "crba", "generalized_gravity", "nonlinear_effects", "rnea")
_TEMPLATE = Path(__file__).parent / "templates" / "robot.h"
_IDENTIFIER = re.compile(r"[A-Za-z_]\w*", re.ASCII)


class _Wanted(NamedTuple):
    """A function, and the values of its options, such as ``frame``."""

    function: Function
    options: dict[str, str]


def export_robot_library(
    folder: str | os.PathLike[str],
    model: Model,
    name: str | None = None,
    names: Sequence[str] | None = None,
    targets: Sequence[str] | None = None,
    settable: bool = True,
    inputs: Sequence[str] = (),
    python: bool = False,
    progress: Callable[[int, int, str], object] | None = None,
) -> None:
    """Write a library of functions for one robot, whose structure is part of the machine code.

    They take arrays, and need no model and no work space. Gravity, the inertias of bodies and the
    armature are an argument, a structure; the library contains the robot's own.

    Parameters
    ----------
    folder : str or path
        Where to write ``include`` and ``lib``; it is created if necessary.
    model : Model
        The robot.
    name : str, optional
        Of the library, and what its names begin with, an identifier of C. Default: the robot's.
    names : sequence of str, optional
        The functions, such as "rnea". Options follow a colon, and are constants:
        "frame_jacobian:frame=tool,reference_frame=LOCAL". Default: rnea, aba, crba,
        generalized_gravity and nonlinear_effects.
    targets : sequence of str, optional
        As for ``export_library``.
    settable : bool
        False: gravity, inertias and armature are constants, which is faster.
    inputs : sequence of str
        Optional inputs that the functions take, such as "f_ext".
    python : bool
        Also include what ``load_native`` loads, for functions without options and with at most one
        optional input; derivatives are not faster than those for all robots.
    progress : callable, optional
        Called as ``progress(done, total, name)`` before a function is compiled.

    Raises
    ------
    ValueError
        An unknown function, option or target; a name that is no identifier; a robot without
        joints; a function that cannot be written for one robot, such as one with contacts.
    OSError
        There is no C compiler, or a file cannot be written.
    """
    prefix = re.sub(r"\W", "_", model.name, flags=re.ASCII).lower() if name is None else name
    if not _IDENTIFIER.fullmatch(prefix) or prefix == "dyn_ros":
        raise ValueError(f"name: expected an identifier of C, and not dyn_ros, got {prefix!r:.80}")
    if not model.nv:
        raise ValueError(f"model: {model.name} has no joints, on which its functions would depend")
    levels, wanted = (
        checked_targets(targets),
        [_parsed(text) for text in dict.fromkeys(names or USUAL)],
    )
    _check_inputs(inputs, [one.function for one in wanted])
    made: dict[str, list[Specialized]] = {}
    entries: dict[str, list[SpecializedEntry]] = {level: [] for level in levels}
    for level in levels:
        made[level] = []
        for one in wanted:
            if progress:
                progress(len(made[level]), len(wanted), one.function.name)
            made[level].append(_specialized(model, one, prefix, level, settable, inputs))
            if python:
                entries[level] += _entries(model, one.function, level)
        symbols = [one.symbol for one in made[level]]
        for symbol in symbols:
            if symbols.count(symbol) > 1:
                raise ValueError(
                    f"functions: two of them would be {symbol} in C; export them "
                    "with different names to different folders"
                )
    text = _header(model, prefix, list(zip(wanted, made[levels[0]])), settable, inputs)
    link(
        Path(folder),
        prefix,
        levels,
        lambda level: (
            {one.symbol: one.content for one in made[level]}
            | {entry.symbol: entry.content for entry in entries[level]}
        ),
        {f"{prefix}.h": text},
        {"constants.c": _constants(model, prefix)} if settable else {},
        hidden_from_c=[
            symbol for entry in entries[levels[0]] for symbol in (entry.symbol, entry.digest_symbol)
        ],
    )


def _check_inputs(inputs: Sequence[str], chosen: Sequence[Function]) -> None:
    known = sorted({parameter_name(x) for one in chosen for x in one.algorithm.optional})
    for name in inputs:
        if name not in known:
            raise ValueError(
                f"inputs: no function has the optional input {name!r}; available: {listed(known)}"
            )


def _entries(model: Model, function: Function, level: str) -> list[SpecializedEntry]:
    """The entry for Python, if there can be one that pays."""
    if "derivatives" in function.name:
        return []
    try:
        return [specialized_entry(model, function.name, level)]
    except NotTraceable:
        return []


def _parsed(text: str) -> _Wanted:
    """A function with its options, from NAME or NAME:OPTION=VALUE,OPTION=VALUE."""
    name, _, options = text.partition(":")
    pairs = [pair.partition("=") for pair in options.split(",") if pair]
    (function,) = functions([name])
    return _Wanted(function, {key: value for key, _, value in pairs})


def _specialized(
    model: Model, one: _Wanted, prefix: str, level: str, settable: bool, inputs: Sequence[str]
) -> Specialized:
    optional = [parameter_name(x) for x in one.function.algorithm.optional]
    try:
        return specialized(
            model,
            one.function.name,
            prefix,
            level,
            settable,
            [name for name in inputs if name in optional],
            one.options,
        )
    except NotTraceable as error:
        raise ValueError(
            f"functions: {error}: it exists only in the library for all robots"
        ) from None


# --- the header


def _header(
    model: Model,
    prefix: str,
    made: Iterable[tuple[_Wanted, Specialized]],
    settable: bool,
    inputs: Sequence[str],
) -> str:
    parts = []
    for one, result in made:
        function = one.function
        known = [
            x
            for x in function.inputs
            if x not in function.algorithm.optional or parameter_name(x) in inputs
        ]
        lines = documentation(function, known)
        if one.options:
            lines.insert(1, f"For {', '.join(f'{k} = {v}' for k, v in one.options.items())}.")
        if settable:
            lines.insert(
                lines.index("Results:"),
                f"  {PARAMETERS}: Gravity, inertias and "
                f"armature, such as &{prefix}_defaults; the last argument.",
            )
        parts.append(
            f"/* {chr(10).join(lines).replace(chr(10), chr(10) + '   ')} */\n"
            f"{declaration(result.prototype)};\n"
        )
    upper = prefix.upper()
    structure = (
        f"{parameters_struct(model, prefix)}\n/* What the robot's description says. */\n"
        f"extern const {prefix}_parameters {prefix}_defaults;\n\n"
        if settable
        else ""
    )
    values = {
        "VERSION": __version__,
        "ROBOT": model.name.replace("*/", "* /"),
        "UPPER": upper,
        "CONSTANTS": _names(model, upper),
        "PARAMETERS": structure,
        "FUNCTIONS": "\n".join(parts),
    }
    text = _TEMPLATE.read_text(encoding="utf-8")
    for key, value in values.items():
        text = text.replace(f"@{key}@", value)
    return text


def _names(model: Model, upper: str) -> str:
    """Enumerations: sizes, joints, frames, and where each number is in q and v."""
    sizes = {"NQ": model.nq, "NV": model.nv, "NJOINTS": model.njoints, "NFRAMES": model.nframes}
    frames = {name: model.frame_index(name) for name in model.frame_names}
    return "\n".join(
        [
            _enumeration(upper, "", sizes),
            _enumeration(upper, "JOINT_", _numbered(model.joint_names)),
            _enumeration(upper, "FRAME_", frames),
            _enumeration(upper, "Q_", _numbered(model.position_names)),
            _enumeration(upper, "V_", _numbered(model.velocity_names)),
        ]
    )


def _numbered(names: Iterable[str]) -> dict[str, int]:
    return {name: n for n, name in enumerate(names)}


def _enumeration(upper: str, kind: str, numbers: dict[str, int]) -> str:
    """Constants of C; names that are the same as identifiers keep the first one."""
    lines: dict[str, int] = {}
    for name, number in numbers.items():
        lines.setdefault(f"{upper}_{kind}{re.sub(r'[^A-Za-z0-9]', '_', name).upper()}", number)
    return "enum {\n" + "".join(f"  {name} = {n},\n" for name, n in lines.items()) + "};"


def _constants(model: Model, prefix: str) -> str:
    """The source with the parameters of the description."""
    numbers = parameters(model).tolist()
    bodies = [numbers[3 + 10 * i : 13 + 10 * i] for i in range(model.njoints)]
    rows = ", ".join(f"{{{', '.join(map(repr, row))}}}" for row in bodies)
    armature = ", ".join(map(repr, numbers[3 + 10 * model.njoints :]))
    return (
        f'#include "{prefix}.h"\n\nconst {prefix}_parameters {prefix}_defaults = {{\n'
        f"  {{{', '.join(map(repr, numbers[:3]))}}},\n  {{{rows}}},\n  {{{armature}}}}};\n"
    )
