# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Plain least squares of a robot's torques, to compare the identified model with."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Sequence

import numpy as np

from ..engine.kernel.types import Array
from ..engine.model.urdf.tree import MAX_URDF_NUMBER
from .base_parameters import Unknowns
from .equation_sums import Conditions, Equations, add_sums
from .friction_terms import FrictionTerms
from .least_squares import Estimator
from .motion.numerics import REGRESSION_SAMPLES, evenly_spaced
from .result import PlainModel
from .samples import Samples
from .torque_equations import TorqueEquations

_FEATURES = ("damping", "friction", "offset")
_MAX_SAMPLES = 2 * REGRESSION_SAMPLES


def fit_plain_models(
    estimator: Estimator, samples: Samples, conditions: Conditions, row_sets: Sequence[np.ndarray]
) -> list[PlainModel]:
    """Fit a model to the first set of rows of samples, one to the first two sets, and so on.

    Samples in which a joint moves count, with viscous and Coulomb friction and an offset of each
    joint; of a long set, some that are evenly spaced, which are enough for so few parameters.
    ``estimator`` and ``conditions`` are from the identification to compare with.
    """
    model = estimator.unknowns.model
    unknowns = Unknowns(model, _FEATURES, bool(samples.contacts))
    # least squares finds the smallest of all parameters that give the same torques
    base = dataclasses.replace(estimator.base, independent=np.flatnonzero(unknowns.is_active))
    plain_estimator = estimator._replace(unknowns=unknowns, base=base)
    conditions = conditions._replace(terms=FrictionTerms.none(model), reversal_margin=0)
    models: list[PlainModel] = []
    sums: Equations | None = None
    equations = TorqueEquations(unknowns, samples, row_sets[0], conditions)
    selection = evenly_spaced(len(samples), _MAX_SAMPLES, samples.repeats)
    for rows in row_sets:
        set_sums = equations.with_rows(rows[selection]).sums()
        sums = set_sums if sums is None else add_sums(sums, set_sums)
        estimate = plain_estimator.estimate_base_parameters(sums, estimator.noise)
        models.append(_make_model(unknowns, estimate.parameters))
    return models


def _make_model(unknowns: Unknowns, parameters: Array) -> PlainModel:
    """Return the model with parameters (p,)."""
    bodies = copy.copy(unknowns.model)
    # what multiplies rounding errors of the motion may exceed the numbers of a description
    parameters = np.where(np.abs(parameters) <= MAX_URDF_NUMBER, parameters, 0.0)
    bodies.inertial_parameters = parameters[: unknowns.body_parameter_count].reshape(-1, 10)
    bodies.armature = np.zeros(bodies.nv)
    rows = parameters[unknowns.body_parameter_count :].reshape(-1, bodies.nv)
    return PlainModel(bodies, *(rows[unknowns.features.index(name)] for name in _FEATURES))
