# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Operations as a primitive of JAX: differentiation, batching and lowering.

The primitive has the inputs of a call that are passed, in its order. XLA calls the extension of
dyn_ros (``engine/machine_code/operators.c``) with the arrays in its own memory.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.extend
import jax.numpy as jnp
import numpy as np
from jax.interpreters import ad, batching, mlir

from ..differentiable import rules
from ..differentiable.robot import robot_of
from ..differentiable.rules import Call
from ..engine.call.operator import Operator
from ..engine.machine_code.extension import native
from ..engine.model.model import Model

_TARGET = "dyn_ros_call"
jax.ffi.register_ffi_target(_TARGET, native().xla_handler(), platform="cpu")


@dataclass(frozen=True)
class _Request:
    """A static description of a call: which inputs are passed, and which results are wanted."""

    call: Call
    passed: tuple[bool, ...]
    wanted: tuple[bool, ...]

    def operator(self) -> tuple[Operator, tuple[bool, ...]]:
        """Return the operator, and which of its inputs are passed."""
        call = self.call
        with_parameters, passed = call.operation.select(
            call.kind, [item or None for item in self.passed]
        )
        operator = call.operation.operator(call.model, call.kind, with_parameters)
        return operator, tuple(item is not None for item in passed)

    def shapes(self) -> list[tuple[int, ...]]:
        """Return the shapes of one state of the inputs that are passed."""
        operator, passed = self.operator()
        return [shape for shape, is_passed in zip(operator.input_shapes, passed) if is_passed]

    def place(self, arrays: Sequence[Any]) -> list[Any]:
        """Return all inputs of the call, None for those that are not passed."""
        return _place(self.passed, arrays)


def _place(passed: Sequence[bool], items: Sequence[Any]) -> list[Any]:
    remaining = iter(items)
    return [next(remaining) if is_passed else None for is_passed in passed]


def _leading_shape(request: _Request, shapes: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    leads = [shape[: len(shape) - len(state)] for shape, state in zip(shapes, request.shapes())]
    return tuple(np.broadcast_shapes(*leads))


def _results(request: _Request, arrays: Sequence[Any]) -> list[jax.ShapeDtypeStruct]:
    """Return the shapes and the type of the wanted results."""
    operator, _ = request.operator()
    lead = _leading_shape(request, [tuple(x.shape) for x in arrays])
    dtype = _result_type(arrays)
    return [
        jax.ShapeDtypeStruct((*lead, *shape), dtype)
        for shape, is_wanted in zip(operator.shapes, request.wanted)
        if is_wanted
    ]


def _result_type(arrays: Sequence[Any]) -> Any:
    is_double = any(x.dtype == jnp.float64 for x in arrays)
    return jnp.dtype("float64" if is_double else "float32")


def _mask(items: Sequence[bool]) -> np.int64:
    return np.int64(sum(1 << n for n, item in enumerate(items) if item))


_call_p = jax.extend.core.Primitive("dyn_ros_call")
_call_p.multiple_results = True


@functools.cache
def _compiled(request: _Request) -> Callable[..., Any]:
    return jax.jit(functools.partial(_call_p.bind, request=request))


@_call_p.def_impl
def _(*arrays: Any, request: _Request) -> Any:
    with jax.disable_jit(False):  # a caller may have disabled it to inspect values
        return _compiled(request)(*arrays)


@_call_p.def_abstract_eval
def _(*arrays: Any, request: _Request) -> Any:
    return [jax.core.ShapedArray(x.shape, x.dtype) for x in _results(request, arrays)]


def _call_engine(*arrays: Any, request: _Request) -> Any:
    operator, passed = request.operator()
    call = jax.ffi.ffi_call(_TARGET, _results(request, arrays))
    return call(
        *arrays,
        operator=np.int64(operator.native.register()),
        passed=_mask(passed),
        wanted=_mask(request.wanted),
    )


mlir.register_lowering(_call_p, mlir.lower_fun(_call_engine, multiple_results=True), platform="cpu")


# --- differentiation


def _instantiated(tangents: Sequence[Any]) -> list[Any]:
    """Return tangents, None in place of symbolic zeros."""
    return [None if type(t) is ad.Zero else t for t in tangents]


def _differentiate(primals: Any, tangents: Any, *, request: _Request) -> Any:
    results = _call_p.bind(*primals, request=request)
    inputs, changes = request.place(primals), request.place(_instantiated(tangents))
    derivatives = rules.differentiate(
        ARRAYS, request.call, inputs, results[0], changes, request.wanted
    )
    wanted = [x for x, is_wanted in zip(derivatives, request.wanted) if is_wanted]
    return results, [
        ad.Zero.from_primal_value(y) if t is None else jnp.broadcast_to(t, y.shape)
        for y, t in zip(results, wanted)
    ]


def _transpose(weights: Any, *inputs: Any, request: _Request) -> Any:
    unknown = [ad.is_undefined_primal(x) for x in inputs]
    known = request.place([None if is_unknown else x for x, is_unknown in zip(inputs, unknown)])
    wanted = [bool(item) for item in request.place(unknown)]
    gradients = rules.transpose(
        ARRAYS, request.call, known, _place(request.wanted, _instantiated(weights)), wanted
    )
    passed = [x for x, is_passed in zip(gradients, request.passed) if is_passed]
    return [
        (ad.Zero(x.aval) if gradient is None else _summed_to(gradient, x.aval.shape))
        if is_unknown
        else None
        for gradient, x, is_unknown in zip(passed, inputs, unknown)
    ]


def _summed_to(gradient: Any, shape: tuple[int, ...]) -> Any:
    """Return a gradient, summed over the axes along which an input was broadcast."""
    if gradient.shape == shape:
        return gradient
    missing = gradient.ndim - len(shape)
    axes = [
        *range(missing),
        *(
            missing + n
            for n, length in enumerate(shape)
            if length == 1 and gradient.shape[missing + n] != 1
        ),
    ]
    return gradient.sum(tuple(axes), keepdims=True).reshape(shape)


ad.primitive_jvps[_call_p] = _differentiate
ad.primitive_transposes[_call_p] = _transpose


# --- batching


def _batch(arrays: Any, axes: Any, *, request: _Request) -> Any:
    shapes = request.shapes()
    naxes = max(
        x.ndim - len(shape) - (axis is not None) for x, axis, shape in zip(arrays, axes, shapes)
    )
    aligned = []
    for x, axis, shape in zip(arrays, axes, shapes):
        if axis is not None:
            x = jnp.moveaxis(x, axis, 0)
            missing = naxes - (x.ndim - 1 - len(shape))
            x = x.reshape((x.shape[0], *(1,) * missing, *x.shape[1:]))
        aligned.append(x)
    results = _call_p.bind(*aligned, request=request)
    return results, [0] * len(results)


batching.primitive_batchers[_call_p] = _batch


# --- the library


class Arrays:
    """A ``Library`` of JAX arrays."""

    xp: Any = jnp
    robot = staticmethod(robot_of)

    @staticmethod
    def run(call: Call, inputs: Sequence[Any], wanted: Sequence[bool]) -> list[Any]:
        """Run a call; return its results, None if not wanted."""
        passed = [x for x in inputs if x is not None]
        wanted = tuple(map(bool, wanted))
        request = _Request(call, tuple(x is not None for x in inputs), wanted)
        return _place(wanted, _call_p.bind(*passed, request=request))

    @staticmethod
    def array(value: Any) -> Any:
        """Return a value as an array."""
        array = jnp.asarray(value)
        kind = array.dtype
        if not (kind in (jnp.float64, jnp.float32) or jnp.issubdtype(kind, jnp.integer)):
            raise TypeError(f"expected float64 or float32, got {kind}; call x.astype(float)")
        return array

    @staticmethod
    def as_type(value: Any, dtype: Any) -> Any:
        """Return an array with a type."""
        return value.astype(dtype)

    @staticmethod
    def float_type(arrays: Sequence[Any]) -> Any:
        """Return float32 if all arrays have this type, otherwise the type of Python's floats."""
        is_single = all(x.dtype == jnp.float32 for x in arrays)
        return jnp.dtype("float32") if is_single else jnp.result_type(float)

    @staticmethod
    def with_derivatives(x: Any, push: Callable[[Any, Any], Any], pull: Any) -> Any:
        """Return x, whose tangents t become push(x, t); JAX transposes push."""

        @jax.custom_jvp
        def identity(y: Any) -> Any:
            return y

        identity.defjvp(lambda y, t: (y[0], push(y[0], t[0])))
        return identity(x)

    @staticmethod
    def eye(n: int, like: Any) -> Any:
        """Return the identity matrix."""
        return jnp.eye(n, dtype=like.dtype)

    @staticmethod
    def zeros(n: int, like: Any) -> Any:
        """Return a vector of zeros."""
        return jnp.zeros(n, dtype=like.dtype)

    @staticmethod
    def parameter(model: Model, name: str, like: Any) -> Any:
        """Return an attribute of a model with the type of an array."""
        return jnp.asarray(np.array(getattr(model, name)), dtype=like.dtype)

    @staticmethod
    def constant(value: Any, like: Any) -> Any:
        """Return constants with the type of an array."""
        return jnp.asarray(value, dtype=like.dtype)


ARRAYS = Arrays()
