# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Derivatives of operations, as calls of operations.

A ``Call`` has inputs in the order of its operation: the arguments x, for VJP and VJP_JVP the
weights w, then tangents t and s. None is zero, and absent for an optional argument. The results of
VJP and VJP_JVP are gradients, one for each argument; the others have one result.

``differentiate`` computes the derivative along tangents of the inputs, ``pull_back`` the gradients
of the inputs. For aba, inertia_solve, crba and minverse they follow from the derivatives of rnea,
as derivatives of implicit functions, Griewank and Walther (2008), chapter 15:

    rnea(q, v, ddq) = tau:  M d(ddq) = d(tau) - rnea'(q, v, ddq) (dq, dv, 0)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

from ..engine.model.model import Model
from .operations import (
    ABA,
    CRBA,
    INERTIA_SOLVE,
    MINVERSE,
    RNEA,
    Kind,
    Operation,
)


class Call(NamedTuple):
    """A call of an operation for a model."""

    model: Model
    operation: Operation
    kind: Kind = Kind.VALUE


class Arrays(Protocol):
    """What rules need of a library of arrays."""

    def run(self, call: Call, inputs: Sequence[Any], wanted: Sequence[bool]) -> list[Any]:
        """Run a call, which is differentiable; return its results, None if not wanted."""

    def eye(self, n: int, like: Any) -> Any:
        """Return the identity matrix, of the type of an array."""

    def zeros(self, n: int, like: Any) -> Any:
        """Return a vector of zeros, of the type of an array."""


THIRD_DERIVATIVES = (
    "third derivatives are not available, here of {name}, on which the function is based; dyn_ros "
    "differentiates its functions twice"
)


def _add(a: Any, b: Any) -> Any:
    return b if a is None else a if b is None else a + b


def _negative(x: Any) -> Any:
    return None if x is None else -x


def _add_all(a: Sequence[Any], b: Sequence[Any]) -> list[Any]:
    return [_add(x, y) for x, y in zip(a, b)]


def _is_passed(items: Sequence[Any]) -> list[bool]:
    return [item is not None for item in items]


def nresults(call: Call) -> int:
    """Return the number of results of a call."""
    return len(call.operation.arguments) if call.kind.has_weights else 1


def differentiate(
    arrays: Arrays,
    call: Call,
    inputs: Sequence[Any],
    output: Any,
    tangents: Sequence[Any],
    wanted: Sequence[bool],
) -> list[Any]:
    """Return the tangents of the results along tangents of the inputs; None is zero.

    ``output`` is the result of a VALUE.
    """
    if not any(_is_passed(tangents)):
        return [None] * nresults(call)
    if call.kind is Kind.VALUE and not call.operation.gradient_programs:
        return [_DIFFERENTIATE[call.operation](arrays, call.model, inputs, output, tangents)]
    terms = _derivative_terms(call, inputs, tangents)
    total: list[Any] = [None] * nresults(call)
    for kind, terms_inputs in terms:
        total = _add_all(total, arrays.run(call._replace(kind=kind), terms_inputs, wanted))
    return total


def _derivative_terms(
    call: Call, inputs: Sequence[Any], tangents: Sequence[Any]
) -> list[tuple[Kind, list[Any]]]:
    """Return the calls whose sum is the derivative of a call along tangents of its inputs."""
    operation, kind = call.operation, call.kind
    groups, changes = operation.split(kind, inputs), operation.split(kind, tangents)
    x, dx = groups[0], changes[0]
    moves_x = any(_is_passed(dx))
    terms: list[tuple[Kind, list[Any]]] = []
    if kind is Kind.VALUE:
        terms.append((Kind.JVP, [*x, *dx]))
    elif kind is Kind.JVP:
        if moves_x:
            terms.append((Kind.JVP2, [*x, *groups[1], *dx]))
        if any(_is_passed(changes[1])):
            terms.append((Kind.JVP, [*x, *changes[1]]))
    elif kind is Kind.VJP:
        if moves_x:
            terms.append((Kind.VJP_JVP, [*x, *groups[1], *dx]))
        if changes[1][0] is not None:
            terms.append((Kind.VJP, [*x, *changes[1]]))
    elif moves_x:
        raise NotImplementedError(THIRD_DERIVATIVES.format(name=operation.name))
    else:  # JVP2 and VJP_JVP are linear in what follows the arguments
        for n in (1, 2):
            if any(_is_passed(changes[n])):
                changed = [groups[1], groups[2]]
                changed[n - 1] = changes[n]
                terms.append((kind, [*x, *changed[0], *changed[1]]))
    return terms


def pull_back(
    arrays: Arrays,
    call: Call,
    inputs: Sequence[Any],
    output: Any,
    weights: Sequence[Any],
    wanted: Sequence[bool],
) -> list[Any]:
    """Return the gradients of the inputs, for weights of the results; None is zero.

    ``output`` is the result of a VALUE. A gradient can have leading axes that its input lacks.
    """
    operation, kind = call.operation, call.kind
    if not any(_is_passed(weights)):
        return [None] * len(inputs)
    if kind is Kind.VALUE and not operation.gradient_programs:
        rule = _PULL_BACK[operation]
        return rule(arrays, call.model, inputs, output, weights[0], list(wanted))
    groups, wanted_groups = operation.split(kind, inputs), operation.split(kind, wanted)
    x, wanted_x = groups[0], wanted_groups[0]

    def run(which: Kind, items: Sequence[Any], results: Sequence[bool]) -> list[Any]:
        if not any(results):
            return [None] * len(results)
        return arrays.run(call._replace(kind=which), items, results)

    if kind is Kind.VALUE:
        return run(Kind.VJP, [*x, weights[0]], wanted_x)
    if kind is Kind.JVP:
        w, t = weights[0], groups[1]
        return [
            *run(Kind.VJP_JVP, [*x, w, *t], wanted_x),
            *run(Kind.VJP, [*x, w], wanted_groups[1]),
        ]
    if kind is Kind.VJP:
        w = groups[1][0]
        return [
            *run(Kind.VJP_JVP, [*x, w, *weights], wanted_x),
            *run(Kind.JVP, [*x, *weights], wanted_groups[1]),
        ]
    if any(wanted_x):
        raise NotImplementedError(THIRD_DERIVATIVES.format(name=operation.name))
    none = [None] * len(x)
    if kind is Kind.JVP2:
        w, t, s = weights[0], groups[1], groups[2]
        return [
            *none,
            *run(Kind.VJP_JVP, [*x, w, *s], wanted_groups[1]),
            *run(Kind.VJP_JVP, [*x, w, *t], wanted_groups[2]),
        ]
    w, t = groups[1][0], groups[2]
    return [
        *none,
        *run(Kind.JVP2, [*x, *t, *weights], wanted_groups[1]),
        *run(Kind.VJP_JVP, [*x, w, *weights], wanted_groups[2]),
    ]


def transpose(
    arrays: Arrays,
    call: Call,
    inputs: Sequence[Any],
    weights: Sequence[Any],
    wanted: Sequence[bool],
) -> list[Any]:
    """Return the gradients of inputs in which a call is linear, and which may be unknown (None)."""
    if call.operation is INERTIA_SOLVE and call.kind is Kind.VALUE:
        q, _, *parameters = inputs
        solved = arrays.run(call, [q, weights[0], *parameters], [True])
        return [None, solved[0], *[None] * len(parameters)]
    return pull_back(arrays, call, inputs, None, weights, wanted)


# --- implicit functions of rnea


def _solve(arrays: Arrays, model: Model, q: Any, b: Any, parameters: Sequence[Any]) -> Any:
    """Return M^-1 b, for the inertial parameters, the armature and the joint placements."""
    return arrays.run(Call(model, INERTIA_SOLVE), [q, b, *parameters], [True])[0]


def _rnea_derivative(arrays: Arrays, model: Model, x: Sequence[Any], t: Sequence[Any]) -> Any:
    """Return the derivative of rnea along tangents, or None."""
    return differentiate(arrays, Call(model, RNEA), x, None, t, [True])[0]


def _rnea_gradients(
    arrays: Arrays, model: Model, x: Sequence[Any], w: Any, wanted: Sequence[bool]
) -> list[Any]:
    """Return minus the gradients of w . rnea(x)."""
    gradients = pull_back(arrays, Call(model, RNEA), x, None, [w], wanted)
    return [_negative(gradient) for gradient in gradients]


def _without_gravity(parameters: Sequence[Any]) -> list[Any]:
    """Return the inertial parameters, the armature and the joint placements."""
    inertial, armature, _, placements = parameters
    return [inertial, armature, placements]


def _at_rest(arrays: Arrays, q: Any, a: Any, parameters: Sequence[Any]) -> list[Any]:
    """Return arguments of rnea for M a: without velocity, force and gravity."""
    inertial, armature, placements = parameters
    return [q, None, a, None, inertial, armature, arrays.zeros(3, a), placements]


def _differentiate_aba(
    arrays: Arrays, model: Model, x: Sequence[Any], ddq: Any, dx: Sequence[Any]
) -> Any:
    (q, v, _, f_ext, *parameters), (dq, dv, dtau, df, *dparameters) = x, dx
    change = _rnea_derivative(
        arrays, model, [q, v, ddq, f_ext, *parameters], [dq, dv, None, df, *dparameters]
    )
    return _solve(arrays, model, q, _add(dtau, _negative(change)), _without_gravity(parameters))


def _pull_back_aba(
    arrays: Arrays, model: Model, x: Sequence[Any], ddq: Any, w: Any, wanted: list[bool]
) -> list[Any]:
    q, v, _, f_ext, *parameters = x
    solved = _solve(arrays, model, q, w, _without_gravity(parameters))
    dq, dv, _, df, *dparameters = _rnea_gradients(
        arrays,
        model,
        [q, v, ddq, f_ext, *parameters],
        solved,
        [wanted[0], wanted[1], False, *wanted[3:]],
    )
    return [dq, dv, solved, df, *dparameters]


def _differentiate_solve(
    arrays: Arrays, model: Model, x: Sequence[Any], y: Any, dx: Sequence[Any]
) -> Any:
    (q, _, *parameters), (dq, db, dinertial, darmature, dplacements) = x, dx
    change = _rnea_derivative(
        arrays,
        model,
        _at_rest(arrays, q, y, parameters),
        [dq, None, None, None, dinertial, darmature, None, dplacements],
    )
    return _solve(arrays, model, q, _add(db, _negative(change)), parameters)


def _pull_back_solve(
    arrays: Arrays, model: Model, x: Sequence[Any], y: Any, w: Any, wanted: list[bool]
) -> list[Any]:
    q, _, *parameters = x
    solved = _solve(arrays, model, q, w, parameters)
    dq, _, _, _, dinertial, darmature, _, dplacements = _rnea_gradients(
        arrays,
        model,
        _at_rest(arrays, q, y, parameters),
        solved,
        [wanted[0], False, False, False, wanted[2], wanted[3], False, wanted[4]],
    )
    return [dq, solved, dinertial, darmature, dplacements]


def _for_columns(array: Any, naxes: int) -> Any:
    """Return an array with an axis of length 1 before its last ``naxes`` axes, or None."""
    if array is None:
        return None
    shape = tuple(array.shape)
    position = len(shape) - naxes
    return array.reshape((*shape[:position], 1, *shape[position:]))


_CRBA_AXES = (1, 2, 1, 3)
"""Numbers of axes of one state: q, inertial parameters, armature and joint placements."""


def _columns_of_inertia(arrays: Arrays, model: Model, x: Sequence[Any]) -> list[Any]:
    """Return the arguments of rnea for the columns M e_k, along a new axis."""
    q, *parameters = [_for_columns(array, naxes) for array, naxes in zip(x, _CRBA_AXES)]
    return _at_rest(arrays, q, arrays.eye(model.nv, q), parameters)


def _differentiate_crba(
    arrays: Arrays, model: Model, x: Sequence[Any], _: Any, dx: Sequence[Any]
) -> Any:
    dq, dinertial, darmature, dplacements = [
        _for_columns(array, naxes) for array, naxes in zip(dx, _CRBA_AXES)
    ]
    tangents = [dq, None, None, None, dinertial, darmature, None, dplacements]
    return _rnea_derivative(arrays, model, _columns_of_inertia(arrays, model, x), tangents)


def _pull_back_crba(
    arrays: Arrays, model: Model, x: Sequence[Any], _: Any, w: Any, wanted: list[bool]
) -> list[Any]:
    dq, _, _, _, dinertial, darmature, _, dplacements = pull_back(
        arrays,
        Call(model, RNEA),
        _columns_of_inertia(arrays, model, x),
        None,
        [w.swapaxes(-1, -2)],
        [wanted[0], False, False, False, wanted[1], wanted[2], False, wanted[3]],
    )
    return [
        None if gradient is None else gradient.sum(len(gradient.shape) - naxes - 1)
        for gradient, naxes in zip((dq, dinertial, darmature, dplacements), _CRBA_AXES)
    ]


def _differentiate_minverse(
    arrays: Arrays, model: Model, x: Sequence[Any], y: Any, dx: Sequence[Any]
) -> Any:
    return -(y @ _differentiate_crba(arrays, model, x, None, dx) @ y)


def _pull_back_minverse(
    arrays: Arrays, model: Model, x: Sequence[Any], y: Any, w: Any, wanted: list[bool]
) -> list[Any]:
    return _pull_back_crba(arrays, model, x, None, -(y @ w @ y), wanted)


_DIFFERENTIATE: dict[Operation, Callable[..., Any]] = {
    ABA: _differentiate_aba,
    INERTIA_SOLVE: _differentiate_solve,
    CRBA: _differentiate_crba,
    MINVERSE: _differentiate_minverse,
}
_PULL_BACK: dict[Operation, Callable[..., list[Any]]] = {
    ABA: _pull_back_aba,
    INERTIA_SOLVE: _pull_back_solve,
    CRBA: _pull_back_crba,
    MINVERSE: _pull_back_minverse,
}
