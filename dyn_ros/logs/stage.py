# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""What each part of a recording contributes to an identification, and how this is added up."""
from __future__ import annotations

import dataclasses
import operator
from collections import Counter
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ..engine.kernel.types import Array
from ..engine.model import Model
from ..identification import Samples
from ..identification.normal_equations import Conditions, Equations, columns
from ..identification.solution import Squares
from ..identification.torque_equations import TorqueEquations
from ..identification.unknowns import Unknowns

Load = Callable[..., tuple[Samples, float, float]]


class Scatter(NamedTuple):
    """How much the gradients of blocks of samples differ.

    Sum of their outer products, (b, b); of the gradients times the sizes of their blocks, (b,); of
    the gradients, (b,); of the sizes and of their squares; number of blocks.
    """

    products: Array
    weighted: Array
    total: Array
    sizes: float
    squares: float
    blocks: float

    def centered(self) -> Array:
        """The products less what all samples have in common, (b, b).

        The sum of all gradients is zero at the final estimate, but not at the first one.
        """
        mean = self.total / max(self.sizes, 1.0)
        cross = np.outer(mean, self.weighted)
        return self.products - cross - cross.T + self.squares * np.outer(mean, mean)


class Sums(NamedTuple):
    """What parts of a recording contribute to the estimate.

    Equations without what outliers contribute too much; numbers of outliers and of all residuals,
    and of samples; squares of the parts that the first estimate does not know; why parts do not
    contribute.
    """

    equations: Equations
    outliers: int
    rows: int
    size: int
    squares: Squares
    scatter: Scatter
    left_out: Counter[str]


def add(one: Sums, other: Sums) -> Sums:
    """Add the sums of other parts; the first ones are changed."""
    one.equations.add(other.equations)
    return Sums(one.equations, one.outliers + other.outliers, one.rows + other.rows,
                one.size + other.size,
                Squares(*map(operator.add, one.squares, other.squares)),
                Scatter(*map(operator.add, one.scatter, other.scatter)),
                one.left_out + other.left_out)


@dataclasses.dataclass(frozen=True, eq=False)
class Stage:
    """What the first estimate decides for all parts.

    Features that are estimated; velocity of Stribeck friction, motor constants, (nv,); cutoff of
    the filter [Hz]; indices of the independent parameters; parameters of which residuals are
    outliers or not, and their limit, infinite if there are none; noise of correlated samples, and
    the multiple of it to which residuals count for the intervals; described and identified
    parameters to compare; number of samples of a block.
    """

    model: Model
    chosen: tuple[str, ...]
    velocity: Array
    constants: Array
    contact_dimension: int
    has_contacts: bool
    cutoff: float
    conditions: Conditions
    independent: np.ndarray
    estimate: Array
    limit: Array
    noise: Array
    huber: float
    models: tuple[Array, Array]
    length: int

    def sums(self, is_known: bool, load: Load, *arguments: Any) -> Sums:
        """Compute what a part contributes; ``is_known``: the first estimate is made of it, too."""
        try:
            samples, first, last = load(self.cutoff, *arguments)
        except ValueError as error:             # such as a part that is too short for the filter
            return self._nothing(str(error))
        rows = np.flatnonzero((samples.time >= first) & (samples.time <= last)).astype(np.int32)
        if not len(rows):
            return self._nothing("the filter leaves no samples of it")
        samples = dataclasses.replace(samples, tau=samples.tau * self.constants)
        return self._of(self._rows(samples, rows), is_known)

    def _rows(self, samples: Samples, rows: np.ndarray) -> TorqueEquations:
        return TorqueEquations(
            Unknowns(self.model, self.chosen), samples, rows, self.velocity, 1,
            lambda done, what: None, self.contact_dimension, self.conditions)

    def _of(self, rows: TorqueEquations, is_known: bool) -> Sums:
        equations, outliers, count = rows.sums(0.0, 0.0), 0, 0
        if np.isfinite(self.limit).any():
            excess, outliers, count = rows.excess(self.estimate, self.limit)
            equations = equations.minus(excess)
        squares = Squares.nothing(rows.nv)
        if not is_known:
            for part in rows.comparison(rows.indices, self.models):
                squares = squares.plus(part)
        return Sums(equations, outliers, count, rows.size, squares, self._scatter(rows), Counter())

    def _scatter(self, rows: TorqueEquations) -> Scatter:
        scores = rows.scores(self.estimate, self.huber * self.noise, self.noise,
                             self.length)[:, self.independent]
        sizes = rows.block_sizes(self.length)
        return Scatter(scores.T @ scores, sizes @ scores, scores.sum(axis=0), float(sizes.sum()),
                       float((sizes ** 2).sum()), float(len(sizes)))

    def _nothing(self, reason: str) -> Sums:
        b, nv = len(self.independent), self.model.nv
        local = columns(Unknowns(self.model, self.chosen), self.has_contacts)
        return Sums(Equations.nothing(local), 0, 0, 0, Squares.nothing(nv),
                    Scatter(np.zeros((b, b)), np.zeros(b), np.zeros(b), 0.0, 0.0, 0.0),
                    Counter([reason]))
