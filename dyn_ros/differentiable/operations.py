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
import functools
import weakref
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from ..engine.algorithms import vector_jacobian_products as products
from ..engine.algorithms.dynamics import aba as aba_module
from ..engine.algorithms.dynamics import crba as crba_module
from ..engine.algorithms.dynamics import inertia_solve, minverse, rnea
from ..engine.call.algorithm import Program
from ..engine.call.operator import Operator, Part, find_entry, prepare_entry
from ..engine.kernel.fields import F_EXT, OMI, TAU_IN, A, Field, Q, V
from ..engine.kernel.model_parameters import (
    ARMATURE,
    GRAVITY_IN,
    INERTIAL_PARAMETERS,
    JOINT_PLACEMENTS,
    PARAMETERS,
)
from ..engine.machine_code.compiler import Entry
from ..engine.model.model import Model


class Kind(enum.Enum):
    """Quantity that a call of an operation computes."""

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
    def order(self) -> int:
        """Return the order of the dual numbers: how many tangents of the arguments follow."""
        return _ORDERS.get(self, 0)


_ORDERS = {Kind.JVP: 1, Kind.VJP_JVP: 1, Kind.JVP2: 2}


class Programs(Protocol):
    """Programs of one algorithm: one, or two if models with mimic joints have their own."""

    @property
    def programs(self) -> list[Program]:
        """All programs."""

    def program(self, model: Model) -> Program:
        """Return the program for a model."""


class _ProgramPair(NamedTuple):
    """A program, and the one for models with mimic joints."""

    plain: Program
    mimic: Program

    @property
    def programs(self) -> list[Program]:
        """All programs."""
        return list(dict.fromkeys(self))

    def program(self, model: Model) -> Program:
        """Return the program for a model."""
        return self.mimic if model._has_mimic_joints else self.plain


class _Layout(NamedTuple):
    """The positions of states and of parameters of the robot among the inputs of a call."""

    states: tuple[int, ...]
    parameters: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Operation:
    """A function of the engine, y = f(x).

    Attributes
    ----------
    name : str
        Name of the function.
    arguments : tuple of Field
        x; parameters of the robot last.
    result : Field
        y.
    programs : Programs
        What computes y.
    weights, gradients, gradient_programs : Field, tuple of Field, Programs
        What computes the gradient for each argument, and from which weights of the result; None if
        the derivatives follow from those of other operations.
    """

    name: str
    arguments: tuple[Field, ...]
    result: Field
    programs: Programs
    weights: Field | None = None
    gradients: tuple[Field, ...] = ()
    gradient_programs: Programs | None = None
    _operators: Any = field(default_factory=weakref.WeakKeyDictionary)

    def operator(self, model: Model, kind: Kind, with_parameters: bool) -> Operator:
        """Return the operator of a model for a kind; without parameters, theirs are left out."""
        operators = self._operators.get(model)
        if operators is None:
            operators = self._operators[model] = {}
        key = kind, with_parameters
        operator: Operator | None = operators.get(key)
        if operator is None:
            operator = operators[key] = self._make_operator(model, kind, with_parameters)
        return operator

    def _make_operator(self, model: Model, kind: Kind, with_parameters: bool) -> Operator:
        fields = self.arguments if with_parameters else self._states
        inputs = [Part(item) for item in fields]
        if kind.has_weights:
            assert self.weights is not None
            inputs.append(Part(self.weights))
        for bit in range(kind.order):
            inputs += [Part(item, 1 << bit) for item in fields]
        part = 2**kind.order - 1
        results = self.gradients[: len(fields)] if kind.has_weights else (self.result,)
        return Operator(
            model,
            self._programs_of(kind).program(model),
            kind.order,
            inputs,
            [Part(item, part) for item in results],
        )

    def _programs_of(self, kind: Kind) -> Programs:
        if not kind.has_weights:
            return self.programs
        assert self.gradient_programs is not None
        return self.gradient_programs

    @functools.cached_property
    def _states(self) -> tuple[Field, ...]:
        """The arguments that are no parameters of the robot."""
        return tuple(item for item in self.arguments if item not in PARAMETERS)

    @property
    def kinds(self) -> tuple[Kind, ...]:
        """What the engine computes."""
        return tuple(Kind) if self.gradient_programs else (Kind.VALUE,)

    def entries(self) -> Iterator[Entry]:
        """Yield the machine code of all kinds."""
        for kind in self.kinds:
            for program in self._programs_of(kind).programs:
                for with_parameters in (False, True):
                    yield find_entry(program, kind.order, with_parameters)

    @functools.cache  # noqa: B019  # operations live as long as the module
    def _layout(self, kind: Kind) -> _Layout:
        n = len(self.arguments)
        positions: tuple[list[int], list[int]] = [], []
        start = 0
        for length in self._lengths(kind):
            for k in range(length):
                is_parameter = length == n and self.arguments[k] in PARAMETERS
                positions[is_parameter].append(start + k)
            start += length
        return _Layout(*map(tuple, positions))

    def _lengths(self, kind: Kind) -> list[int]:
        """Return the numbers of arguments, of weights, and of tangents of each order."""
        n = len(self.arguments)
        return [n, *([1] if kind.has_weights else []), *[n] * kind.order]

    def select(self, kind: Kind, inputs: Sequence[Any]) -> tuple[bool, Sequence[Any]]:
        """Return whether parameters are passed, and the inputs without those that are not."""
        layout = self._layout(kind)
        for n in layout.parameters:
            if inputs[n] is not None:
                return True, inputs
        return False, [inputs[n] for n in layout.states]

    def split(self, kind: Kind, inputs: Sequence[Any]) -> list[tuple[Any, ...]]:
        """Return the arguments, the weights, and the tangents of the arguments."""
        groups, start = [], 0
        for length in self._lengths(kind):
            groups.append(tuple(inputs[start : start + length]))
            start += length
        return groups


def _pair(name: str, kernel: Any, reads: Sequence[Field], mimic_kernel: Any = None) -> _ProgramPair:
    """Return the programs of a kernel, which reads fields, and of one for mimic joints."""
    plain = Program(name, kernel, reads)
    mimic = Program(f"{name}-mimic", mimic_kernel, reads) if mimic_kernel else plain
    return _ProgramPair(plain, mimic)


RNEA = Operation(
    "rnea",
    (Q, V, A, F_EXT, INERTIAL_PARAMETERS, ARMATURE, GRAVITY_IN, JOINT_PLACEMENTS),
    rnea.TAU,
    rnea.rnea.algorithm,
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
    gradient_programs=_pair(
        "rnea-gradient", products.rnea_gradient_kernel, (Q, V, A, F_EXT, products.TAU_WEIGHTS)
    ),
)
FORWARD_KINEMATICS = Operation(
    "joint_placements",
    (Q, JOINT_PLACEMENTS),
    OMI,
    _pair("joint-placements", products.forward_kinematics_kernel, (Q,)),
    weights=products.PLACEMENT_WEIGHTS,
    gradients=(products.Q_GRADIENT, products.JOINT_PLACEMENT_GRADIENT),
    gradient_programs=_pair(
        "joint-placements-gradient",
        products.forward_kinematics_gradient_kernel,
        (Q, products.PLACEMENT_WEIGHTS),
    ),
)
ABA = Operation(
    "aba",
    (Q, V, TAU_IN, F_EXT, INERTIAL_PARAMETERS, ARMATURE, GRAVITY_IN, JOINT_PLACEMENTS),
    aba_module.DDQ,
    aba_module.aba.algorithm,
)
INERTIA_SOLVE = Operation(
    "inertia_solve",
    (Q, TAU_IN, INERTIAL_PARAMETERS, ARMATURE, JOINT_PLACEMENTS),
    aba_module.DDQ,
    _pair(
        "inertia-solve",
        inertia_solve.inertia_solve_kernel,
        (Q, TAU_IN),
        inertia_solve.mimic_inertia_solve_kernel,
    ),
)
CRBA = Operation(
    "crba",
    (Q, INERTIAL_PARAMETERS, ARMATURE, JOINT_PLACEMENTS),
    crba_module.M,
    crba_module.crba.algorithm,
)
MINVERSE = Operation(
    "minverse",
    (Q, INERTIAL_PARAMETERS, ARMATURE, JOINT_PLACEMENTS),
    minverse.MINV,
    minverse.minverse.algorithm,
)
OPERATIONS = {
    operation.name: operation
    for operation in (RNEA, FORWARD_KINEMATICS, ABA, INERTIA_SOLVE, CRBA, MINVERSE)
}


def all_entries() -> list[Entry]:
    """Return the machine code of all operations."""
    entries = [entry for operation in OPERATIONS.values() for entry in operation.entries()]
    return [*dict.fromkeys(entries), *map(prepare_entry, range(3))]
