# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Operators: kernels that run on the arrays of other libraries, also with dual numbers.

An ``Operator`` belongs to a model. It has a workspace for each thread that runs it, and no
``Data``. The extension (``machine_code/operators.c``) copies numbers between arrays and lanes.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..kernel import packing
from ..kernel.fields import Field, axis_lengths
from ..kernel.lanes import DUAL_NUMBERS_AT, LANES, floats_at, integers_at, lanes_at, load
from ..kernel.model_parameters import PARAMETERS, set_constants
from ..machine_code import extension
from ..machine_code.compiler import Entry
from ..model.model import Model
from . import entries
from .algorithm import Program, load_function
from .workspace import Workspace

_NUMBERS_AT = (lanes_at, *DUAL_NUMBERS_AT)
_ORDER_NAMES = ((), ("dual",), ("dual2",))


def _make_entry(run: Callable[[Any], object], order: int, with_parameters: bool) -> Callable:
    """Return the entry for lanes of dual numbers of an order.

    ``with_parameters``: the constants of the model are such numbers, too, instead of floats.
    """
    numbers_at = _NUMBERS_AT[order]
    constants_at = numbers_at if with_parameters else floats_at

    def call(ints: int, call_ints: int, floats: int, work: int) -> int:
        r = packing.KernelArgs(
            integers_at(ints), integers_at(call_ints), constants_at(floats), numbers_at(work)
        )
        run(r)
        return load(r.call_ints, packing.STATUS)

    return call


@functools.cache
def find_entry(program: Program, order: int, with_parameters: bool) -> Entry:
    """Return the machine code of a program for lanes of dual numbers of an order."""
    if order == 0 and not with_parameters:
        return program.lanes
    parts = [program.name, *_ORDER_NAMES[order], *["parameters"] * with_parameters, "lanes"]
    return Entry("-".join(parts), _make_entry(program.kernel, order, with_parameters))


@functools.cache
def prepare_entry(order: int) -> Entry:
    """Return the machine code that sets the constants of lanes of dual numbers of an order."""
    parts = ["set-constants", *_ORDER_NAMES[order], "lanes"]
    return Entry("-".join(parts), _make_entry(set_constants, order, True))


class Part(NamedTuple):
    """An input or a result of an operator: a field, or the coefficients of an infinitesimal."""

    field: Field
    part: int = 0


class Operator:
    """A program for one model that runs on arrays of other libraries.

    ``inputs`` and ``results`` are parts of fields. Inputs that are None in a call are absent if
    they are optional, and zero otherwise. With parameters among the inputs, each state has
    constants of its own. ``has_input`` is also True for results that are wanted.
    """

    def __init__(
        self,
        model: Model,
        program: Program,
        order: int,
        inputs: Sequence[Part],
        results: Sequence[Part],
    ) -> None:
        self.input_shapes = tuple(state_shape(model, part.field) for part in inputs)
        self.shapes = tuple(state_shape(model, part.field) for part in results)
        has_parameters = any(part.field in PARAMETERS for part in inputs)
        entry = find_entry(program, order, has_parameters)
        load_function(entry)
        fields = {*program.fields, *(part.field for part in (*inputs, *results))}
        space = Workspace(model, fields, lanes=True)
        nparts, end = 2**order, len(space.work)
        prepare, nconstants = 0, 0
        if has_parameters:
            constants = prepare_entry(order)
            load_function(constants)
            prepare, nconstants = (
                constants.address,
                packing.joint_floats(model.njoints + 1) + model.nv,
            )
        work = np.zeros((end + nconstants, nparts, LANES))
        work[:end, 0] = space.work
        native = extension.native()
        ints, call_ints, floats, _ = entries.kernel_args_addresses(model, space)
        self.native = native.Operator(
            (space.call_ints, work, model._ints, model._floats),
            entry.address,
            prepare,
            ints,
            floats,
            nconstants,
            end,
            LANES,
            nparts,
            native.address(work),
            work.size,
            call_ints,
            len(space.call_ints),
            self._slots(space, inputs, are_results=False),
            self._slots(space, results, are_results=True),
        )

    @staticmethod
    def _slots(space: Workspace, parts: Sequence[Part], are_results: bool) -> Any:
        """Return the rows that describe inputs or results, as in operators.c."""
        rows = []
        for item, part in parts:
            shape = state_shape(space.model, item)
            start = math.prod(shape[1:]) if has_universe(item) else 0
            is_flagged = part == 0 or are_results
            is_passed = packing.HAS_INPUT + item if is_flagged else -1
            rows.append(
                (space.offset(item) + start, math.prod(shape), part, is_passed, item in PARAMETERS)
            )
        return np.array(rows, np.int64).reshape(-1, 5)


def has_universe(item: Field) -> bool:
    """Return True if row 0 of a field is the universe, which arrays of others lack."""
    return item.shape[:1] == ("rows",)


def state_shape(model: Model, item: Field) -> tuple[int, ...]:
    """Return the shape of a field of one state, without the universe."""
    shape = axis_lengths(model, item.shape)
    return (shape[0] - 1, *shape[1:]) if has_universe(item) else shape
