# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Library of functions for one robot, with its names and numbers as constants of C."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from .. import __version__
from ..engine.kernel.names import join_names, short_repr
from ..engine.model.model import Model
from .c_header import documentation_lines, wrap_prototype
from .c_library import link_library, resolve_targets
from .functions import Function, find_functions, parameter_name
from .robot_entries import RobotEntry, specialize_entry
from .robot_functions import (
    PARAMETERS,
    RobotFunction,
    parameters_struct,
    robot_parameters,
    specialize_function,
)
from .specialize.trace import NotTraceable

DEFAULT_FUNCTIONS = ("aba", "crba", "generalized_gravity", "nonlinear_effects", "rnea")
_TEMPLATE = Path(__file__).parent / "templates" / "robot.h"
_IDENTIFIER = re.compile(r"[A-Za-z_]\w*", re.ASCII)


class _Request(NamedTuple):
    """Requested function, and the values of its options, such as ``frame``."""

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
        Name of the library and prefix of its names, an identifier of C. Default: the robot's.
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
        Also include entries for ``load_native``, of functions without options and with at most one
        optional input; derivatives are omitted, since they would not be faster.
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
        raise ValueError(
            f"name: expected an identifier of C, and not dyn_ros, got {short_repr(prefix)}"
        )
    if not model.nv:
        raise ValueError(f"model: {model.name} has no joints, on which its functions would depend")
    target_names = resolve_targets(targets)
    requests = [_parse_request(text) for text in dict.fromkeys(names or DEFAULT_FUNCTIONS)]
    _check_inputs(inputs, [request.function for request in requests])
    functions: dict[str, list[RobotFunction]] = {}
    entries: dict[str, list[RobotEntry]] = {target: [] for target in target_names}
    for target in target_names:
        functions[target] = []
        for request in requests:
            if progress:
                progress(len(functions[target]), len(requests), request.function.name)
            functions[target].append(
                _specialize_request(model, request, prefix, target, settable, inputs)
            )
            if python:
                entries[target] += _python_entries(model, request.function, target)
        symbols = [function.symbol for function in functions[target]]
        for symbol in symbols:
            if symbols.count(symbol) > 1:
                raise ValueError(
                    f"functions: two of them would be {symbol} in C; export them "
                    "with different names to different folders"
                )
    first_target = target_names[0]
    specialized = list(zip(requests, functions[first_target]))
    header = _header_text(model, prefix, specialized, settable, inputs)

    def compiled_objects(target: str) -> dict[str, bytes]:
        return {function.symbol: function.content for function in functions[target]} | {
            entry.symbol: entry.content for entry in entries[target]
        }

    link_library(
        Path(folder),
        prefix,
        target_names,
        compiled_objects,
        {f"{prefix}.h": header},
        {"constants.c": _defaults_source(model, prefix)} if settable else {},
        hidden_from_c=[
            symbol
            for entry in entries[first_target]
            for symbol in (entry.symbol, entry.digest_symbol)
        ],
    )


def _check_inputs(inputs: Sequence[str], functions: Sequence[Function]) -> None:
    """Raise a ValueError if no function has one of the optional inputs."""
    available = sorted(
        {parameter_name(x) for function in functions for x in function.algorithm.optional}
    )
    for name in inputs:
        if name not in available:
            raise ValueError(
                f"inputs: no function has the optional input {name!r}; "
                f"available: {join_names(available)}"
            )


def _python_entries(model: Model, function: Function, target: str) -> list[RobotEntry]:
    """Return the entry for Python as a list, which is empty if the general one is as fast."""
    if "derivatives" in function.name:
        return []
    try:
        return [specialize_entry(model, function.name, target)]
    except NotTraceable:
        return []


def _parse_request(text: str) -> _Request:
    """Parse a function with its options, NAME or NAME:OPTION=VALUE,OPTION=VALUE.

    Raise a ValueError if there is no such function; options are checked later.
    """
    name, _, options = text.partition(":")
    pairs = [pair.partition("=") for pair in options.split(",") if pair]
    (function,) = find_functions([name])
    return _Request(function, {key: value for key, _, value in pairs})


def _specialize_request(
    model: Model,
    request: _Request,
    prefix: str,
    target: str,
    settable: bool,
    inputs: Sequence[str],
) -> RobotFunction:
    """Compile a requested function; raise a ValueError if it exists only for all robots."""
    optional = [parameter_name(x) for x in request.function.algorithm.optional]
    try:
        return specialize_function(
            model,
            request.function.name,
            prefix,
            target,
            settable,
            [name for name in inputs if name in optional],
            request.options,
        )
    except NotTraceable as error:
        raise ValueError(
            f"functions: {error}: it exists only in the library for all robots"
        ) from None


# --- the header


def _header_text(
    model: Model,
    prefix: str,
    specialized: Iterable[tuple[_Request, RobotFunction]],
    settable: bool,
    inputs: Sequence[str],
) -> str:
    """Return the header of the library."""
    declarations = []
    for request, robot_function in specialized:
        function = request.function
        parameters = [
            x
            for x in function.inputs
            if x not in function.algorithm.optional or parameter_name(x) in inputs
        ]
        lines = documentation_lines(function, parameters)
        if request.options:
            options = ", ".join(f"{key} = {value}" for key, value in request.options.items())
            lines.insert(1, f"For {options}.")
        if settable:
            lines.insert(
                lines.index("Results:"),
                f"  {PARAMETERS}: Gravity, inertias and "
                f"armature, such as &{prefix}_defaults; the last argument.",
            )
        comment = "\n".join(lines).replace("\n", "\n   ")
        declarations.append(f"/* {comment} */\n{wrap_prototype(robot_function.prototype)};\n")
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
        "CONSTANTS": _name_enumerations(model, upper),
        "PARAMETERS": structure,
        "FUNCTIONS": "\n".join(declarations),
    }
    text = _TEMPLATE.read_text(encoding="utf-8")
    for key, value in values.items():
        text = text.replace(f"@{key}@", value)
    return text


def _name_enumerations(model: Model, upper: str) -> str:
    """Return enumerations of sizes, joints, frames, and the indices of names in q and v."""
    sizes = {"NQ": model.nq, "NV": model.nv, "NJOINTS": model.njoints, "NFRAMES": model.nframes}
    frames = {name: model.frame_index(name) for name in model.frame_names}
    return "\n".join(
        [
            _c_enumeration(upper, "", sizes),
            _c_enumeration(upper, "JOINT_", _index_by_name(model.joint_names)),
            _c_enumeration(upper, "FRAME_", frames),
            _c_enumeration(upper, "Q_", _index_by_name(model.position_names)),
            _c_enumeration(upper, "V_", _index_by_name(model.velocity_names)),
        ]
    )


def _index_by_name(names: Iterable[str]) -> dict[str, int]:
    """Return the index of each name; for equal names, the last."""
    return {name: n for n, name in enumerate(names)}


def _c_enumeration(upper: str, kind: str, numbers: dict[str, int]) -> str:
    """Return an enumeration of C with a constant UPPER_KINDNAME for each number.

    Of names that result in one identifier, the first is used.
    """
    constants: dict[str, int] = {}
    for name, number in numbers.items():
        constants.setdefault(f"{upper}_{kind}{re.sub(r'[^A-Za-z0-9]', '_', name).upper()}", number)
    return "enum {\n" + "".join(f"  {name} = {n},\n" for name, n in constants.items()) + "};"


def _defaults_source(model: Model, prefix: str) -> str:
    """Return the source with the parameters of the description."""
    numbers = robot_parameters(model).tolist()
    bodies = [numbers[3 + 10 * i : 13 + 10 * i] for i in range(model.njoints)]
    rows = ", ".join(f"{{{', '.join(map(repr, row))}}}" for row in bodies)
    armature = ", ".join(map(repr, numbers[3 + 10 * model.njoints :]))
    return (
        f'#include "{prefix}.h"\n\nconst {prefix}_parameters {prefix}_defaults = {{\n'
        f"  {{{', '.join(map(repr, numbers[:3]))}}},\n  {{{rows}}},\n  {{{armature}}}}};\n"
    )
