# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Calls of the engine on the memory of tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from ..differentiable.rules import Call
from ..engine.call.operator import Operator

Inputs = Sequence[Tensor | None]


def prepare(call: Call, inputs: Inputs) -> tuple[Operator, Sequence[Any]]:
    """Return the operator for a call, and the inputs that it takes."""
    with_parameters, selected = call.operation.select(call.kind, inputs)
    return call.operation.operator(call.model, call.kind, with_parameters), selected


def _leading_shape(operator: Operator, inputs: Inputs) -> tuple[int, ...]:
    """Return the leading axes of the results."""
    shapes = [
        tuple(x.shape[: x.ndim - len(shape)])
        for x, shape in zip(inputs, operator.input_shapes)
        if x is not None
    ]
    first = shapes[0]
    if all(shape == first for shape in shapes):
        return first
    return tuple(torch.broadcast_shapes(*shapes))


def _result_type(inputs: Inputs) -> torch.dtype:
    """Return float64 if an input has this type, otherwise float32."""
    is_double = any(x is not None and x.dtype == torch.float64 for x in inputs)
    return torch.float64 if is_double else torch.float32


def empty_results(call: Call, inputs: Inputs, wanted: Sequence[bool]) -> list[Tensor]:
    """Return uninitialized tensors for the wanted results of a call."""
    operator, selected = prepare(call, inputs)
    lead, dtype = _leading_shape(operator, selected), _result_type(inputs)
    example = next(x for x in inputs if x is not None)
    return [
        example.new_empty((*lead, *shape), dtype=dtype)
        for is_wanted, shape in zip(wanted, operator.shapes)
        if is_wanted
    ]


def run_engine(call: Call, inputs: Inputs, wanted: Sequence[bool]) -> list[Tensor]:
    """Run a call in the engine; return the wanted results."""
    operator, selected = prepare(call, inputs)
    lead, dtype = _leading_shape(operator, selected), _result_type(inputs)
    buffers: list[Any] = []
    kept = []  # copies that have to outlive the call
    for x, shape in zip(selected, operator.input_shapes):
        if x is None:
            buffers.append(None)
            continue
        if not x.is_contiguous():
            x = x.contiguous()
        kept.append(x)
        buffers.append(
            (x.data_ptr(), x.dtype == torch.float32, tuple(x.shape[: x.ndim - len(shape)]))
        )
    results: list[Tensor] = []
    targets: list[Any] = []
    for is_wanted, shape in zip(wanted, operator.shapes):
        if is_wanted:
            result = torch.empty((*lead, *shape), dtype=dtype)
            results.append(result)
            targets.append((result.data_ptr(), dtype == torch.float32, lead))
        else:
            targets.append(None)
    targets += [None] * (len(operator.shapes) - len(targets))
    operator.native.run(buffers, targets, lead)
    return results


def summed_to(gradient: Tensor | None, like: Tensor | None) -> Tensor | None:
    """Return a gradient, summed over axes along which an input was broadcast, of its type."""
    if gradient is None or like is None:
        return None
    if gradient.shape != like.shape:
        gradient = gradient.sum_to_size(like.shape)
    return gradient if gradient.dtype == like.dtype else gradient.to(like.dtype)


def place(wanted: Sequence[bool], results: Sequence[Any]) -> list[Any]:
    """Return the results at the places where they are wanted, None elsewhere."""
    remaining = iter(results)
    return [next(remaining) if is_wanted else None for is_wanted in wanted]
