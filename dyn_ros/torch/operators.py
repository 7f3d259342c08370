# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Operations as functions of torch tensors: automatic differentiation, vmap and compilation.

A call is one ``torch.autograd.Function``, whose derivatives are calls again. ``torch.compile``
sees the custom operator ``dyn_ros::call`` in its place.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function, forward_ad
from torch.nn import Parameter

from ..differentiable import rules
from ..differentiable.robot import robot_of
from ..differentiable.rules import Call
from ..engine.call.operator import Operator
from ..engine.model.model import Model
from .compilation import run_operator
from .engine import Inputs, place, prepare, run_engine, summed_to

_INTEGERS = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)


def _run(call: Call, inputs: Inputs, wanted: Sequence[bool]) -> list[Tensor]:
    """Run a call in the engine, or record it while torch compiles."""
    if all(x is None or type(x) is Tensor or type(x) is Parameter for x in inputs):
        return run_engine(call, inputs, wanted)
    return run_operator(call, inputs, wanted)


def _primal(x: Tensor | None) -> Tensor | None:
    """Return a tensor without its tangent of the innermost jvp."""
    return None if x is None else forward_ad.unpack_dual(x).primal


class _Run(Function):
    """A call whose inputs torch differentiates."""

    @staticmethod
    def forward(call: Call, wanted: tuple[bool, ...], *inputs: Tensor | None) -> Any:
        return tuple(_run(call, inputs, wanted))

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.call, ctx.wanted, *tensors = inputs
        ctx.save_for_backward(*tensors, output[0])
        ctx.save_for_forward(*tensors, output[0])
        ctx.set_materialize_grads(False)

    @staticmethod
    def backward(ctx: Any, *weights: Tensor | None) -> Any:
        *inputs, output = ctx.saved_tensors
        gradients = rules.pull_back(
            TENSORS,
            ctx.call,
            inputs,
            output,
            place(ctx.wanted, weights),
            ctx.needs_input_grad[2:],
        )
        return None, None, *map(summed_to, gradients, inputs)

    @staticmethod
    def jvp(ctx: Any, _call: None, _wanted: None, *tangents: Tensor | None) -> Any:
        # torch disables forward mode here, also of an outer jvp, and then loses its tangents.
        with forward_ad._set_fwd_grad_enabled(True):
            *inputs, output = map(_primal, ctx.saved_tensors)
            results = rules.differentiate(TENSORS, ctx.call, inputs, output, tangents, ctx.wanted)
        return tuple(x for x, is_wanted in zip(results, ctx.wanted) if is_wanted)

    @staticmethod
    def vmap(
        info: Any, axes: tuple[int | None, ...], call: Call, wanted: Any, *inputs: Tensor | None
    ) -> Any:
        operator, _ = prepare(call, inputs)
        shapes = _input_shapes(call, operator, inputs)
        batched = _align(info.batch_size, axes[2:], inputs, shapes)
        results = _Run.apply(call, wanted, *batched)
        return results, (0,) * len(results)


def _input_shapes(call: Call, operator: Operator, inputs: Inputs) -> list[tuple[int, ...]]:
    """Return the shapes of one state for all inputs of a call, also for absent parameters."""
    if len(inputs) == len(operator.input_shapes):
        return list(operator.input_shapes)
    full = call.operation.operator(call.model, call.kind, True)
    return list(full.input_shapes)


def _align(
    size: int,
    axes: Sequence[int | None],
    inputs: Inputs,
    shapes: Sequence[tuple[int, ...]],
) -> list[Tensor | None]:
    """Return inputs with the mapped axis first, such that the axes after it broadcast."""
    naxes = 0
    for x, axis, shape in zip(inputs, axes, shapes):
        if x is not None:
            naxes = max(naxes, x.ndim - len(shape) - (axis is not None))
    aligned: list[Tensor | None] = []
    for x, axis, shape in zip(inputs, axes, shapes):
        if x is not None and axis is not None:
            x = x.movedim(axis, 0)
            missing = naxes - (x.ndim - 1 - len(shape))
            x = x.reshape((size, *(1,) * missing, *x.shape[1:]))
        aligned.append(x)
    return aligned


# Otherwise, torch inspects the signature in each call, which takes longer than the call.
_Run.forward.__signature__ = inspect.signature(_Run.forward)  # type: ignore[attr-defined]


class _WithDerivatives(Function):
    """The identity with other derivatives."""

    generate_vmap_rule = True

    @staticmethod
    def forward(push: Any, pull: Any, x: Tensor) -> Tensor:
        return x.clone()

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.push, ctx.pull, x = inputs
        ctx.save_for_backward(x)
        ctx.save_for_forward(x)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        (x,) = ctx.saved_tensors
        return None, None, ctx.pull(x, gradient)

    @staticmethod
    def jvp(ctx: Any, _push: None, _pull: None, tangent: Tensor) -> Any:
        with forward_ad._set_fwd_grad_enabled(True):  # as in _Run
            return ctx.push(_primal(ctx.saved_tensors[0]), tangent)


class Tensors:
    """A ``Library`` of torch tensors."""

    xp: Any = torch
    robot = staticmethod(robot_of)

    @staticmethod
    def array(value: Any) -> Tensor:
        """Return a value as a tensor on the CPU."""
        tensor = value if isinstance(value, Tensor) else torch.as_tensor(value)
        if tensor.layout != torch.strided:
            raise ValueError("expected a dense tensor, got a sparse one; call x.to_dense()")
        if tensor.device.type != "cpu":
            raise ValueError(f"expected a tensor on the CPU, got {tensor.device}; call x.cpu()")
        if tensor.dtype in (torch.float16, torch.bfloat16) or not (
            tensor.dtype.is_floating_point or tensor.dtype in _INTEGERS
        ):
            raise TypeError(f"expected float64 or float32, got {tensor.dtype}; call x.float()")
        return tensor.resolve_neg() if tensor.is_neg() else tensor

    @staticmethod
    def as_type(value: Tensor, dtype: torch.dtype) -> Tensor:
        """Return a tensor with a type."""
        return value.to(dtype)

    @staticmethod
    def float_type(arrays: Sequence[Tensor]) -> torch.dtype:
        """Return float64 if a tensor has this type or is of integers, otherwise float32."""
        is_single = all(x.dtype == torch.float32 for x in arrays)
        return torch.float32 if is_single else torch.float64

    @staticmethod
    def with_derivatives(x: Tensor, push: Any, pull: Any) -> Tensor:
        """Return x, whose tangents t become push(x, t), and gradients g pull(x, g)."""
        result: Tensor = _WithDerivatives.apply(push, pull, x)
        return result

    @staticmethod
    def run(call: Call, inputs: Inputs, wanted: Sequence[bool]) -> list[Any]:
        """Run a call; return its results, None if not wanted."""
        wanted = tuple(wanted)
        return place(wanted, _Run.apply(call, wanted, *inputs))

    @staticmethod
    def eye(n: int, like: Tensor) -> Tensor:
        """Return the identity matrix."""
        return torch.eye(n, dtype=like.dtype)

    @staticmethod
    def zeros(n: int, like: Tensor) -> Tensor:
        """Return a vector of zeros."""
        return torch.zeros(n, dtype=like.dtype)

    @staticmethod
    def parameter(model: Model, name: str, like: Tensor) -> Tensor:
        """Return an attribute of a model with the type of a tensor."""
        return torch.tensor(getattr(model, name), dtype=like.dtype)

    @staticmethod
    def constant(value: Any, like: Tensor) -> Tensor:
        """Return constants of the type of a tensor."""
        return torch.tensor(value, dtype=like.dtype)


TENSORS = Tensors()
