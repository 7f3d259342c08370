# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Functions for one robot, whose structure and constants are part of the machine code.

A function takes arrays and keeps intermediate results in registers and on the stack. It needs no
model and no workspace, and only calls ``memset``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ..engine.call import entries
from ..engine.call.algorithm import Algorithm
from ..engine.call.robot_library import link_inertia_indices, parameter_indices, rounded_floats
from ..engine.call.workspace import Workspace
from ..engine.kernel import packing
from ..engine.kernel.fields import FRAME, REFERENCE_FRAME, TERMS, Field, Option
from ..engine.kernel.names import join_names, short_repr
from ..engine.kernel.types import Array
from ..engine.model.frames import ReferenceFrame
from ..engine.model.model import Model
from .functions import Function, find_functions, option_end, parameter_name, structure_name
from .model_file import frames_of_joints
from .specialize.llvm_ir import (
    InstructionWriter,
    compile_object,
    has_fma,
    intrinsic_declarations,
    sincos_functions,
)
from .specialize.order import schedule_operations
from .specialize.trace import (
    NotTraceable,
    Operand,
    Trace,
    TracedCallIntegers,
    as_operands,
    run_kernels,
)

PARAMETERS, LINKS = "parameters", "links"
"""Names of the arrays that contain the settable floats of a model."""


class RobotFunction(NamedTuple):
    """ELF object, C name and prototype of a function for one robot."""

    content: bytes
    symbol: str
    prototype: str


class RecordedKernel(NamedTuple):
    """Trace of a kernel that ran for one robot, and the operands of each field that it wrote."""

    trace: Trace
    fields: dict[Field, list[Operand]]


def specialize_function(
    model: Model,
    name: str,
    prefix: str,
    target: str,
    settable: bool = True,
    with_inputs: Sequence[str] = (),
    options: Mapping[str, int | str] | None = None,
) -> RobotFunction:
    """Compile a function for one robot: ``PREFIX_NAME``.

    In C, it takes the inputs of the public function, its results, and if ``settable`` a
    ``const PREFIX_parameters *`` with the numbers of ``robot_parameters``. It returns 0, or the
    number, from 1, of a velocity whose pivot may be singular. Arrays must not overlap. The caller
    ensures that numbers are finite, quaternions are unit, and angles are below 1e14.

    Parameters
    ----------
    name : str
        Name of the algorithm, such as "rnea".
    prefix : str
        Prefix of the symbol, an identifier of C.
    target : str
        Processor, such as "x86-64-v3"; see ``engine/machine_code/emit.py``.
    settable : bool
        If True, gravity, inertias and armature are arguments; otherwise constants.
    with_inputs : sequence of str
        Optional inputs that are arguments, too, such as "f_ext"; others are omitted.
    options : dict, optional
        Values of the function's options. They are constants and become part of the name:
        ``{"frame": "tool", "reference_frame": "LOCAL"}`` results in ``PREFIX_NAME_tool_local``.

    Raises
    ------
    NotTraceable
        The function exists only for all robots: its control flow depends on its inputs, as with
        contacts, or it has so many operations that loops are faster.
    ValueError
        Unknown function, input or option.
    """
    (function,) = find_functions([name])
    algorithm = function.algorithm
    selected_inputs = _select_inputs(algorithm, with_inputs)
    inputs = [x for x in function.inputs if x in selected_inputs]
    option_values, suffix = _parse_options(model, function, options or {})
    symbol = f"{prefix}_{name}{suffix}"
    kernel = record_kernel(
        model,
        algorithm,
        inputs,
        option_values,
        settable_floats(model) if settable else {},
        rounded_floats(model),
    )
    results = {function.result_name(f): kernel.fields[f] for f in function.results}
    needed_operands = [
        *(x for values in results.values() for x in values),
        *(x for a, b, _ in kernel.trace.checks for x in (a, b)),
    ]
    operations, order = schedule_operations(
        kernel.trace.operations, needed_operands, has_fma(target)
    )
    if any(operations[n][:2] == ("input", LINKS) for n in order):
        raise NotTraceable(f"{name} depends on inertias of single links; use settable=False")
    input_names = [parameter_name(f) for f in inputs]
    sources = {f.name: f"%{name}" for f, name in zip(inputs, input_names)}
    writer = InstructionWriter(operations, sources | {PARAMETERS: f"%{PARAMETERS}"})
    writer.write_operations(order)
    for result, values in results.items():
        for k, value in enumerate(values):
            writer.append_store(f"%{result}", k, value)
    parameters = [PARAMETERS] if settable else []
    arguments = [*input_names, *results, *parameters]
    read_only = [*input_names, *parameters]
    status = writer.append_status(kernel.trace.checks)
    content = compile_object(_module_text(writer, symbol, arguments, read_only, status), target)
    return RobotFunction(
        content, symbol, _c_prototype(symbol, prefix, input_names, list(results), settable)
    )


def robot_parameters(model: Model) -> Array:
    """Return the numbers of the C structure of a robot's settable parameters.

    They are gravity (3), for each body its mass, first moments (3) and inertia about the joint's
    origin (xx, xy, yy, xz, yz, zz), and the armature (nv).
    """
    return model._floats[parameter_indices(model)]


def parameters_struct(model: Model, prefix: str) -> str:
    """Return the declaration of the C structure that contains ``robot_parameters``."""
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
    """Return the array and the index in it that each settable float of a model is read from."""
    return {k: (LINKS, k) for k in link_inertia_indices(model)} | {
        k: (PARAMETERS, n) for n, k in enumerate(parameter_indices(model))
    }


def record_kernel(
    model: Model,
    algorithm: Algorithm,
    inputs: Sequence[Field],
    options: Mapping[int, int],
    settable: Mapping[int, tuple[str, int]],
    floats: Array,
) -> RecordedKernel:
    """Run the kernel of an algorithm on numbers that record its operations.

    ``options`` are values by option. ``settable`` are the array and the index in it of floats that
    are inputs; ``floats`` are the model's.
    """
    program, trace = algorithm.program(model), Trace()
    space = Workspace(model, program.fields)
    call_ints, work = list(map(int, space.call_ints)), _float_list(space.work)
    model_floats = _float_list(floats)
    for f in inputs:
        if f.is_open:
            raise NotTraceable(f"{algorithm.name} takes constraints or contacts")
        call_ints[packing.HAS_INPUT + f] = 1
        for k in range(call_ints[packing.SIZE + f]):
            work[call_ints[packing.OFFSET + f] + k] = trace.record_input(f.name, k)
    for option, value in options.items():
        call_ints[packing.OPTION + option] = value
    for k, (source, n) in settable.items():
        model_floats[k] = trace.record_input(source, n)
    run_kernels(
        trace,
        (*entries.ALWAYS, program.kernel),
        packing.KernelArgs(
            model._ints.tolist(), TracedCallIntegers(call_ints, trace), model_floats, work
        ),
    )
    written = {}
    for f in {*algorithm.results, *algorithm.also_writes}:
        start, end = (
            call_ints[packing.OFFSET + f],
            call_ints[packing.OFFSET + f] + call_ints[packing.SIZE + f],
        )
        if f.shape[:1] == ("rows",):
            # The first row is for the universe.
            start += (end - start) // (model.njoints + 1)
        written[f] = as_operands(work[start:end])
    return RecordedKernel(trace, written)


def _float_list(numbers: Array) -> list[Any]:
    """Return numbers as a list of floats, in which a trace can replace some."""
    return list(map(float, numbers))


def _select_inputs(algorithm: Algorithm, with_inputs: Sequence[str]) -> list[Field]:
    """Return the required inputs, and the optional ones with the names ``with_inputs``.

    Raise a ValueError if there is no such optional input.
    """
    optional = [parameter_name(f) for f in algorithm.optional]
    unknown = [name for name in with_inputs if name not in optional]
    if unknown:
        raise ValueError(
            f"with_inputs: {algorithm.name} has no optional input {unknown[0]!r}; "
            f"available: {join_names(optional)}"
        )
    return [
        f
        for f in algorithm.inputs
        if f not in algorithm.optional or parameter_name(f) in with_inputs
    ]


def _parse_options(
    model: Model, function: Function, values: Mapping[str, int | str]
) -> tuple[dict[int, int], str]:
    """Return the values by option, and the part of the function's name that they make.

    Raise NotTraceable if an option is a structure of C, and a ValueError if a value or an option is
    missing, unknown or out of range.
    """
    algorithm = function.algorithm
    if any(map(structure_name, algorithm.options)):
        raise NotTraceable(f"{algorithm.name} takes constraints or contacts")
    options = {
        function.parameter_name(option): option
        for option in function.parameters
        if isinstance(option, Option)
    }
    if sorted(values) != sorted(options):
        raise ValueError(
            f"options: {algorithm.name} expects {join_names(options)}, got {join_names(values)}"
        )
    all_terms = option_end(algorithm, TERMS) - 1
    numbers, suffix = {int(TERMS): all_terms}, ""
    for name, option in options.items():
        value = values[name]
        if option == FRAME:
            frames = range(model.nframes) if name == "frame" else frames_of_joints(model)
            index = model.frame_index if name == "frame" else model.joint_index
            numbers[int(option)] = frames[index(str(value))]
        elif option == REFERENCE_FRAME:
            reference_frames = ReferenceFrame.__members__
            if value not in reference_frames:
                raise ValueError(
                    f"options: reference_frame: expected {join_names(reference_frames)}, "
                    f"got {short_repr(value)}"
                )
            numbers[int(option)], value = int(reference_frames[str(value)]), str(value).lower()
        else:
            end = option_end(algorithm, option)
            if not str(value).isdecimal() or int(value) >= end:
                raise ValueError(
                    f"options: {name}: expected 0 to {end - 1}, got {short_repr(value)}"
                )
            numbers[int(option)] = int(value)
        suffix += "_" + re.sub(r"\W", "_", str(value), flags=re.ASCII)
    return numbers, suffix


def _module_text(
    writer: InstructionWriter,
    symbol: str,
    arguments: Sequence[str],
    read_only: Sequence[str],
    status: str,
) -> str:
    """Return an LLVM module with a function that consists of the written instructions."""
    parameters = ", ".join(
        f"ptr noalias {'readonly ' * (name in read_only)}%{name}" for name in arguments
    )
    status = writer.append(f"trunc i64 {status} to i32")
    body = "\n".join(writer.lines)
    return (
        intrinsic_declarations(writer.sine_widths)
        + sincos_functions(writer.sine_widths)
        + f"define i32 @{symbol}({parameters}) nounwind willreturn {{\n{body}\n"
        f"  ret i32 {status}\n}}\n"
    )


def _c_prototype(
    symbol: str, prefix: str, inputs: Sequence[str], results: Sequence[str], settable: bool
) -> str:
    """Return the C prototype of a function, without semicolon."""
    arguments = [
        *(f"const double *{name}" for name in inputs),
        *(f"double *{name}" for name in results),
        *([f"const {prefix}_parameters *{PARAMETERS}"] if settable else []),
    ]
    return f"int {symbol}({', '.join(arguments)})"
