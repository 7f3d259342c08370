# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Compiled code around a kernel: its entries for one state and for lanes, and the rows of a batch.

Entries have plain addresses as arguments; the extension (``machine_code/extension.py``) calls them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..kernel import packing
from ..kernel.fields import MAX_CONSTRAINTS, Field, Option, axis_lengths
from ..kernel.joints import compute_sines
from ..kernel.lanes import (
    floats_at,
    integers_at,
    lanes_at,
    load,
    store,
)
from ..machine_code import extension
from ..model.model import Model
from .workspace import Workspace

ALWAYS = (compute_sines,)
"""Kernels that every call for one state runs in addition to the kernel of the algorithm."""


# --- the entries of an algorithm


def make_state_entry(run: Callable[[Any], object]) -> Callable:
    """Return the entry for one state: a workspace of floats; returns the status."""

    def call(ints: int, call_ints: int, floats: int, work: int) -> int:
        r = packing.KernelArgs(
            integers_at(ints),
            integers_at(call_ints),
            floats_at(floats),
            floats_at(work),
        )
        store(r.call_ints, packing.STATUS, 0)
        compute_sines(r)
        run(r)
        return load(r.call_ints, packing.STATUS)

    return call


def make_lanes_entry(
    run: Callable[[Any], object],
    lanes_at: Callable[[int], Any] = lanes_at,
    floats_at: Callable[[int], Any] = floats_at,
) -> Callable:
    """Return the entry for the states of lanes; its caller clears the status."""

    def call(ints: int, call_ints: int, floats: int, work: int) -> int:
        r = packing.KernelArgs(
            integers_at(ints), integers_at(call_ints), floats_at(floats), lanes_at(work)
        )
        run(r)
        return load(r.call_ints, packing.STATUS)

    return call


# --- how the extension finds what it reads


def kernel_args_addresses(model: Model, workspace: Workspace) -> tuple[int, int, int, int]:
    """Return the four addresses in ``KernelArgs``: ints, call_ints, floats, work."""
    ints, call_ints, floats, work = map(
        extension.native().address,
        (model._ints, workspace.call_ints, model._floats, workspace.work),
    )
    return ints, call_ints, floats, work


def locate_quaternions(model: Model) -> tuple[int, int]:
    """Return the address of the offsets of the quaternions in a configuration, and their number."""
    start = 8 * int(model._ints[packing.UNIT_LIST])
    return extension.native().address(model._ints) + start, int(model._ints[packing.NUNIT])


def option_shifts(options: Sequence[Option]) -> list[tuple[Option, int, int]]:
    """Return options with shifts and masks to extract them from a selector, lowest bits last."""
    return [
        (
            option,
            sum(later.bits for later in options[n + 1 :]),
            (1 << option.bits) - 1 if option.bits else -1,
        )
        for n, option in enumerate(options)
    ]


def option_rows(options: Sequence[Option], call_ints: int) -> NDArray[np.int64]:
    """Return options as the extension sets them: an address, a shift and a mask in each row."""
    rows = [
        (call_ints + 8 * (packing.OPTION + option), shift, mask)
        for option, shift, mask in option_shifts(options)
    ]
    return np.array(rows, np.int64).reshape(-1, 3)


def open_input_rows(field: Field) -> int:
    """Return the rows of an input with a variable last axis, 1 for a vector."""
    return math.prod(int(axis) for axis in field.shape[:-1])


def prepare_call(
    algorithm: Any,
    data: Any,
    workspace: Workspace,
    code: int,
    results: Any,
    finish: Callable[[], Any] | None,
) -> Any:
    """Return the call for one state of a Data, for the extension; ``code`` is an address."""
    model, places = data.model, kernel_args_addresses(data.model, workspace)
    call_ints, work = places[1], places[3]
    inputs = [
        (
            work + 8 * workspace.offset(f),
            call_ints + 8 * (packing.HAS_INPUT + f),
            *_input_shape(model, f),
            f not in algorithm.optional,
            f.is_open,
            f.shape == ("nq",),
        )
        for f in algorithm.inputs
    ]
    return extension.native().Prepared(
        model,
        (workspace, model._ints, model._floats),
        results,
        finish,
        np.array(
            [
                (
                    code,
                    *places,
                    call_ints + 8 * packing.NCONSTRAINTS,
                    MAX_CONSTRAINTS,
                    *locate_quaternions(model),
                )
            ]
        ),
        np.array(inputs, np.int64),
        option_rows(algorithm.options, call_ints),
    )


def _input_shape(model: Model, field: Field) -> tuple[int, int]:
    """Return the rows and columns of an input; no columns for a vector or an open input."""
    if field.is_open:
        return open_input_rows(field), 0
    rows, columns = (*axis_lengths(model, field.shape), 0)[:2]
    return rows, columns
