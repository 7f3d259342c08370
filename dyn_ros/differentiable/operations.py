# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Operations of the engine on the arrays of other libraries.

An operation is y = f(x), with several arguments x. Its kinds are f itself and derivatives of it, of
which each is one call of the engine:

    VALUE     f(x)
    JVP       f'(x) t, the derivative along t
    VJP       f'(x)' w, the gradients of w . f
    JVP2      f''(x)(t, s), the derivative of JVP along s
    VJP_JVP   the derivative of VJP along t: f''(x)(t, .)' w

Griewank and Walther (2008), chapters 3 and 13.
"""

from __future__ import annotations

import enum
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..engine.algorithms.derivatives import vector_jacobian_products as products
from ..engine.algorithms.dynamics import aba as aba_module
from ..engine.algorithms.dynamics import crba as crba_module
from ..engine.algorithms.dynamics import inertia_solve, minverse, rnea
from ..engine.call.algorithm import Program
from ..engine.call.operator import Operator, Part
from ..engine.kernel.fields import F_EXT, OMI, TAU_IN, A, Field, Q, V
from ..engine.kernel.model_parameters import (
    ARMATURE,
    GRAVITY_IN,
    INERTIAL_PARAMETERS,
    JOINT_PLACEMENTS,
    PARAMETERS,
)
from ..engine.model.model import Model


class Kind(enum.Enum):
    """What a call of an operation computes."""

    VALUE = "value"
    JVP = "jvp"
    VJP = "vjp"
    JVP2 = "jvp2"
    VJP_JVP = "vjp_jvp"

    @property
    def has_weights(self) -> bool:
        """Return True if the weights of the result follow the arguments."""
        return self in (Kind.VJP, Kind.VJP_JVP)

    @property
    def ntangents(self) -> int:
        """Return how many tangents of the arguments follow."""
        return {Kind.JVP: 1, Kind.VJP_JVP: 1, Kind.JVP2: 2}.get(self, 0)

    @property
    def order(self) -> int:
        """Return the order of the dual numbers."""
        return self.ntangents


@dataclass(frozen=True, eq=False)
class Operation:
    """A function of the engine, y = f(x).

    Attributes
    ----------
    name : str
        Name of its machine code.
    arguments : tuple of Field
        x; parameters of the model last.
    result : Field
        y.
    kernel, mimic_kernel : Callable
        What computes y; the latter for models with mimic joints.
    weights, gradients : Field, tuple of Field
        What ``gradient_kernel`` reads and computes, the gradient for each argument; None if the
        derivatives follow from those of other operations.
    """

    name: str
    arguments: tuple[Field, ...]
    result: Field
    kernel: Callable[..., Any]
    mimic_kernel: Callable[..., Any] | None = None
    weights: Field | None = None
    gradients: tuple[Field, ...] = ()
    gradient_kernel: Callable[..., Any] | None = None
    _operators: Any = field(default_factory=weakref.WeakKeyDictionary)
    _programs: dict[str, Program] = field(default_factory=dict)

    def operator(self, model: Model, kind: Kind, with_parameters: bool) -> Operator:
        """Return the operator of a model for a kind; without parameters, theirs are left out."""
        operators = self._operators.setdefault(model, {})
        key = kind, with_parameters
        if key not in operators:
            operators[key] = self._make_operator(model, *key)
        operator: Operator = operators[key]
        return operator

    def _make_operator(self, model: Model, kind: Kind, with_parameters: bool) -> Operator:
        fields = self.arguments[: self.count(with_parameters)]
        inputs = [Part(item) for item in fields]
        if kind.has_weights:
            assert self.weights is not None
            inputs.append(Part(self.weights))
        for bit in range(kind.ntangents):
            inputs += [Part(item, 1 << bit) for item in fields]
        part = 2**kind.order - 1
        results = self.gradients[: len(fields)] if kind.has_weights else (self.result,)
        return Operator(
            model,
            self._program(model, kind),
            kind.order,
            inputs,
            [Part(item, part) for item in results],
        )

    def _program(self, model: Model, kind: Kind) -> Program:
        """Return the program of a kind for a model."""
        name, kernel, reads = self.name, self.kernel, self.arguments
        if kind.has_weights:
            assert self.gradient_kernel is not None and self.weights is not None
            name, kernel = f"{name}-gradient", self.gradient_kernel
            reads = (*reads, self.weights)
        elif self.mimic_kernel is not None and model._has_mimic_joints:
            name, kernel = f"{name}-mimic", self.mimic_kernel
        if name not in self._programs:
            states = [item for item in reads if item not in PARAMETERS]
            self._programs[name] = Program(name, kernel, states)
        return self._programs[name]

    def count(self, with_parameters: bool) -> int:
        """Return the number of arguments, with or without parameters of the model."""
        return len(self.arguments) - (0 if with_parameters else self.nparameters)

    @property
    def nparameters(self) -> int:
        """Return the number of arguments that are parameters of the model."""
        return sum(item in PARAMETERS for item in self.arguments)

    def select(self, kind: Kind, inputs: Sequence[Any]) -> tuple[bool, list[Any]]:
        """Return whether parameters are passed, and the inputs without those that are not."""
        n, groups = len(self.arguments), self.split(kind, inputs)
        states = self.count(False)
        with_parameters = any(
            x is not None for group in groups if len(group) == n for x in group[states:]
        )
        if with_parameters:
            return True, list(inputs)
        return False, [
            x for group in groups for x in (group[:states] if len(group) == n else group)
        ]

    def split(self, kind: Kind, inputs: Sequence[Any]) -> list[tuple[Any, ...]]:
        """Return the arguments, the weights, and the tangents of the arguments."""
        n = len(self.arguments)
        lengths = [n, *([1] if kind.has_weights else []), *[n] * kind.ntangents]
        groups, start = [], 0
        for length in lengths:
            groups.append(tuple(inputs[start : start + length]))
            start += length
        return groups


RNEA = Operation(
    "learn-rnea",
    (Q, V, A, F_EXT, INERTIAL_PARAMETERS, ARMATURE, GRAVITY_IN, JOINT_PLACEMENTS),
    rnea.TAU,
    rnea.rnea_kernel,
    weights=products.TAU_WEIGHTS,
    gradients=(
        products.Q_GRADIENT,
        products.V_GRADIENT,
        products.A_GRADIENT,
        products.F_EXT_GRADIENT,
        products.INERTIAL_GRADIENT,
        products.ARMATURE_GRADIENT,
        products.GRAVITY_GRADIENT,
        products.JOINT_PLACEMENT_GRADIENT,
    ),
    gradient_kernel=products.rnea_gradient_kernel,
)
FORWARD_KINEMATICS = Operation(
    "learn-forward-kinematics",
    (Q, JOINT_PLACEMENTS),
    OMI,
    products.forward_kinematics_kernel,
    weights=products.PLACEMENT_WEIGHTS,
    gradients=(products.Q_GRADIENT, products.JOINT_PLACEMENT_GRADIENT),
    gradient_kernel=products.forward_kinematics_gradient_kernel,
)
ABA = Operation(
    "learn-aba",
    (Q, V, TAU_IN, F_EXT, INERTIAL_PARAMETERS, ARMATURE, GRAVITY_IN, JOINT_PLACEMENTS),
    aba_module.DDQ,
    aba_module.aba_kernel,
    aba_module.mimic_aba_kernel,
)
INERTIA_SOLVE = Operation(
    "learn-inertia-solve",
    (Q, TAU_IN, INERTIAL_PARAMETERS, ARMATURE, JOINT_PLACEMENTS),
    aba_module.DDQ,
    inertia_solve.inertia_solve_kernel,
    inertia_solve.mimic_inertia_solve_kernel,
)
CRBA = Operation(
    "learn-crba",
    (Q, INERTIAL_PARAMETERS, ARMATURE, JOINT_PLACEMENTS),
    crba_module.M,
    crba_module.crba_kernel,
)
MINVERSE = Operation(
    "learn-minverse",
    (Q, INERTIAL_PARAMETERS, ARMATURE, JOINT_PLACEMENTS),
    minverse.MINV,
    minverse.minverse_kernel,
    minverse.mimic_minverse_kernel,
)
OPERATIONS = {
    operation.name: operation
    for operation in (RNEA, FORWARD_KINEMATICS, ABA, INERTIA_SOLVE, CRBA, MINVERSE)
}
