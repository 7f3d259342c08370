# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Functions for one robot: its structure and constants are part of the machine code.

A function takes arrays and keeps its intermediate results in registers and on the stack. It needs
no model and no work space, and calls nothing but ``memset``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ..engine.call import entries
from ..engine.call.algorithm import Algorithm
from ..engine.call.robot_library import constants, link_places, parameter_places
from ..engine.call.workspace import Workspace
from ..engine.kernel import packing as ly
from ..engine.kernel.fields import FRAME, REFERENCE_FRAME, TERMS, Field, Option
from ..engine.kernel.names import listed
from ..engine.kernel.types import Array
from ..engine.model.frames import ReferenceFrame
from ..engine.model.model import Model
from .functions import Function, functions, option_end, parameter_name, table_name
from .model_file import frames_of_joints
from .specialize.emit import Writer, declarations, has_fma, object_of, sincos_functions
from .specialize.order import ordered
from .specialize.trace import NotTraceable, Operand, Table, Trace, operands, run

PARAMETERS, LINKS = "parameters", "links"


class Specialized(NamedTuple):
    """The object of a function, its name in C, and its prototype."""

    content: bytes
    symbol: str
    prototype: str


class Record(NamedTuple):
    """What a kernel does for one robot: a trace, and the operands of each field that it wrote."""

    trace: Trace
    fields: dict[Field, list[Operand]]


def specialized(
    model: Model,
    name: str,
    prefix: str,
    target: str,
    settable: bool = True,
    with_inputs: Sequence[str] = (),
    options: Mapping[str, int | str] | None = None,
) -> Specialized:
    """A function for one robot: ``PREFIX_NAME``.

    In C, it takes the inputs of the public function, its results, and with ``settable`` a
    ``const PREFIX_parameters *`` with what ``parameters`` returns. It returns 0, or the number from
    1 of a velocity whose pivot may be singular. Arrays must not overlap; the caller makes sure
    that numbers are finite, quaternions unit, and angles below 1e14.

    Parameters
    ----------
    name : str
        Name of the algorithm, such as "rnea".
    prefix : str
        Of the symbol: an identifier of C.
    target : str
        Processor, such as "x86-64-v3"; see ``engine/machine_code/emit.py``.
    settable : bool
        Whether gravity, inertias and armature are arguments instead of constants.
    with_inputs : sequence of str
        Optional inputs that are arguments too, such as "f_ext"; others are left out.
    options : dict, optional
        Values of the function's options. They are constants and become part of the name:
        ``{"frame": "tool", "reference_frame": "LOCAL"}`` results in ``PREFIX_NAME_tool_local``.

    Raises
    ------
    NotTraceable
        There is only the function for any robot: what it does depends on its inputs, as with
        contacts, or it has so many operations that loops are faster.
    ValueError
        Unknown function, input or option.
    """
    (function,) = functions([name])
    algorithm, wanted = function.algorithm, _inputs(function.algorithm, with_inputs)
    inputs = [x for x in function.inputs if x in wanted]
    numbers, suffix = _options(model, function, options or {})
    symbol = f"{prefix}_{name}{suffix}"
    floats = constants(model)
    record = recorded(
        model, algorithm, inputs, numbers, settable_floats(model) if settable else {}, floats
    )
    results = {function.result_name(f): record.fields[f] for f in function.results}
    kept = [
        *(x for values in results.values() for x in values),
        *(x for a, b, _ in record.trace.checks for x in (a, b)),
    ]
    operations, order = ordered(record.trace.operations, kept, has_fma(target))
    if any(operations[n][:2] == ("input", LINKS) for n in order):
        raise NotTraceable(f"{name} depends on inertias of single links; use settable=False")
    names = [parameter_name(f) for f in inputs]
    sources = {f.name: f"%{name}" for f, name in zip(inputs, names)}
    writer = Writer(operations, sources | {PARAMETERS: f"%{PARAMETERS}"})
    writer.write(order)
    for result, values in results.items():
        for k, value in enumerate(values):
            writer.store(f"%{result}", k, value)
    read = [*names, *([PARAMETERS] if settable else [])]
    arguments = [*names, *results, *read[len(names) :]]
    status = writer.status(record.trace.checks)
    content = object_of(_module(writer, symbol, arguments, read, status), target)
    return Specialized(content, symbol, _prototype(symbol, prefix, names, list(results), settable))


def parameters(model: Model) -> Array:
    """What the functions of a robot read if it is settable, as in the C structure: ``floats``.

    Gravity (3), for each body its mass, first moments (3) and inertia about the joint's origin
    (xx, xy, yy, xz, yz, zz), and the armature (nv).
    """
    return model._floats[parameter_places(model)]


def parameters_struct(model: Model, prefix: str) -> str:
    """The declaration of the structure of C that contains ``parameters``."""
    return (
        "/* What can be set. A body: mass [kg], first moments [kg m], inertia xx xy yy xz yz "
        "zz about the\n   origin of the joint's frame [kg m2]; all in the axes of this frame. "
        "*/\n"
        "typedef struct {\n"
        "  double gravity[3];    /* [m/s2], in the world */\n"
        f"  double bodies[{model.njoints}][10]; /* in the order of the joints */\n"
        f"  double armature[{model.nv}];   /* rotor inertia [kg m2, kg] */\n"
        f"}} {prefix}_parameters;\n"
    )


def settable_floats(model: Model) -> dict[int, tuple[str, int]]:
    """For the floats that are not constants, where they are read from."""
    return {k: (LINKS, k) for k in link_places(model)} | {
        k: (PARAMETERS, n) for n, k in enumerate(parameter_places(model))
    }


def recorded(
    model: Model,
    algorithm: Algorithm,
    inputs: Sequence[Field],
    options: Mapping[int, int],
    settable: Mapping[int, tuple[str, int]],
    floats: Array,
) -> Record:
    """Run the kernel of an algorithm on numbers that record what it does."""
    program, trace = algorithm.program(model), Trace()
    space = Workspace(model, program.fields)
    table, work = list(map(int, space.table)), _list(space.work)
    numbers_of_model = _list(floats)
    for f in inputs:
        if f.is_open:
            raise NotTraceable(f"{algorithm.name} takes constraints or contacts")
        table[ly.HAS_INPUT + f] = 1
        for k in range(table[ly.SIZE + f]):
            work[table[ly.OFFSET + f] + k] = trace.input(f.name, k)
    for option, value in options.items():
        table[ly.OPTION + option] = value
    for k, (source, n) in settable.items():
        numbers_of_model[k] = trace.input(source, n)
    run(
        trace,
        (*entries.ALWAYS, program.kernel),
        ly.KernelArgs(model._ints.tolist(), Table(table, trace), numbers_of_model, work),
    )
    written = {}
    for f in {*algorithm.results, *algorithm.also_writes}:
        start, end = table[ly.OFFSET + f], table[ly.OFFSET + f] + table[ly.SIZE + f]
        if f.shape[:1] == ("rows",):  # without the universe
            start += (end - start) // (model.njoints + 1)
        written[f] = operands(work[start:end])
    return Record(trace, written)


def _list(numbers: Array) -> list[Any]:
    return list(map(float, numbers))


def _inputs(algorithm: Algorithm, with_inputs: Sequence[str]) -> list[Field]:
    """The inputs that are required, and those optional ones that are wanted."""
    optional = [parameter_name(f) for f in algorithm.optional]
    unknown = [name for name in with_inputs if name not in optional]
    if unknown:
        raise ValueError(
            f"with_inputs: {algorithm.name} has no optional input {unknown[0]!r}; "
            f"available: {listed(optional)}"
        )
    return [
        f
        for f in algorithm.inputs
        if f not in algorithm.optional or parameter_name(f) in with_inputs
    ]


def _options(
    model: Model, function: Function, values: Mapping[str, int | str]
) -> tuple[dict[int, int], str]:
    """The numbers of options, and their part of the name of the function."""
    algorithm = function.algorithm
    if any(map(table_name, algorithm.options)):
        raise NotTraceable(f"{algorithm.name} takes constraints or contacts")
    names = {
        function.parameter_name(option): option
        for option in function.parameters
        if isinstance(option, Option)
    }
    if sorted(values) != sorted(names):
        raise ValueError(f"options: {algorithm.name} expects {listed(names)}, got {listed(values)}")
    numbers, suffix = {int(TERMS): option_end(algorithm, TERMS) - 1}, ""  # all of them
    for name, option in names.items():
        value = values[name]
        if option == FRAME:
            frames = range(model.nframes) if name == "frame" else frames_of_joints(model)
            index = model.frame_index if name == "frame" else model.joint_index
            numbers[int(option)] = frames[index(str(value))]
        elif option == REFERENCE_FRAME:
            known = ReferenceFrame.__members__
            if value not in known:
                raise ValueError(
                    f"options: reference_frame: expected {listed(known)}, got {value!r:.80}"
                )
            numbers[int(option)], value = int(known[str(value)]), str(value).lower()
        else:
            end = option_end(algorithm, option)
            if not str(value).isdecimal() or int(value) >= end:
                raise ValueError(f"options: {name}: expected 0 to {end - 1}, got {value!r:.80}")
            numbers[int(option)] = int(value)
        suffix += "_" + re.sub(r"\W", "_", str(value), flags=re.ASCII)
    return numbers, suffix


def _module(
    writer: Writer, symbol: str, arguments: Sequence[str], constant: Sequence[str], status: str
) -> str:
    """The text of a module with a function that consists of what has been written."""
    list_ = ", ".join(
        f"ptr noalias {'readonly ' * (name in constant)}%{name}" for name in arguments
    )
    status = writer.new(f"trunc i64 {status} to i32")
    body = "\n".join(writer.lines)
    return (
        declarations(writer.widths)
        + sincos_functions(writer.widths)
        + f"define i32 @{symbol}({list_}) nounwind willreturn {{\n{body}\n"
        f"  ret i32 {status}\n}}\n"
    )


def _prototype(
    symbol: str, prefix: str, inputs: Sequence[str], results: Sequence[str], settable: bool
) -> str:
    arguments = [
        *(f"const double *{name}" for name in inputs),
        *(f"double *{name}" for name in results),
        *([f"const {prefix}_parameters *{PARAMETERS}"] if settable else []),
    ]
    return f"int {symbol}({', '.join(arguments)})"
