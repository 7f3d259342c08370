# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The parameters of a description, and those near it that explain a recording; all physical."""
from __future__ import annotations

import numpy as np

from ..engine.kernel.types import Array
from ..engine.model import Model
from ..engine.model.parameters import from_pseudo_inertia, pseudo_inertia
from .fit import Bodies, fit
from .least_squares import assembled
from .normal_equations import Equations
from .samples import Samples
from .unknowns import FEATURES, Unknowns

_LIGHTEST = 1e-2        # of the mean mass: the reference for a body without mass
_NO_ROBOT = 1e-3        # kg: a robot of less has no masses in its description
_NOTHING = 1e-3         # of this: a body of less mass counts as one without
_THIN = 5e-4            # m: a body of less extent counts as flat
_FLAT = 0.1             # of its length: the thickness of the reference for a flat body
_SIZE = 0.05            # m: the extent of the reference for a body that has none
_UNKNOWN = 0.02         # of a joint's median torque: friction, if the description specifies none
_PRECISION = 1e-6       # of the RMS torque: less noise makes the cost too large for its rounding
_WEIGHT = 1e-2          # of the divergence from a reference that the description does not specify


def physical_bodies(model: Model) -> tuple[Array, list[int]]:
    """The parameters of the bodies, (njoints, 10), and the joints whose body had to be changed.

    A body of zero mass gets a small one. Mass within a plane or a line gets an extent, and negative
    moments are replaced.
    """
    bodies = np.array(model.inertial_parameters)
    mean = bodies[:, 0].mean() if len(bodies) else 0.0
    lightest = _LIGHTEST * (mean if mean > _NO_ROBOT else 1.0)
    changed = []
    for i in range(len(bodies)):
        nearest = _nearest(bodies[i], lightest)
        if np.abs(nearest - bodies[i]).max() > 1e-9 * np.abs(nearest).max():
            changed.append(i)
            bodies[i] = nearest
    return bodies, changed


def _nearest(body: Array, lightest: float) -> Array:
    """The body with a positive mass, and with extent in each direction."""
    mass, center, second = lightest, np.zeros(3), np.zeros((3, 3))
    if body[0] > _NOTHING * lightest:
        mass, center = body[0], body[1:4] / body[0]
        second = pseudo_inertia(body)[:3, :3] - mass * np.outer(center, center)
    spread, axes = np.linalg.eigh(second / mass)
    if spread[0] >= _THIN ** 2:
        return body
    least = _FLAT ** 2 * spread[2] if spread[2] > _THIN ** 2 else _SIZE ** 2
    second = mass * (axes * np.maximum(spread, least)) @ axes.T
    P = np.zeros((4, 4))
    P[:3, :3] = second + mass * np.outer(center, center)
    P[:3, 3] = P[3, :3] = mass * center
    P[3, 3] = mass
    return from_pseudo_inertia(P)


class Reference:
    """What the estimate is regularized towards: ``values`` (p,) of the description, with weights.

    Where it specifies no friction or rotor inertia, a small part of the joint's measured torque.
    ``changed`` are the joints whose body is not physical in the description.
    """

    def __init__(self, unknowns: Unknowns, samples: Samples) -> None:
        model = unknowns.model
        bodies, changed = physical_bodies(model)
        self.changed = tuple(model.joint_names[i] for i in changed)
        self._bodies = Bodies(bodies)
        of_bodies = np.ones((model.njoints, 10))
        of_bodies[changed] = _WEIGHT
        tau, v, a = (np.median(np.abs(x[::1 + len(x) // 100000]), axis=0) + 1e-9
                     for x in (samples.tau, samples.v, samples.a))
        unknown = _UNKNOWN * tau
        given = np.array([model.armature, model.damping, model.friction])
        values = np.where(given > 0.0, given, [unknown / a, unknown / v, unknown])
        values = np.vstack([values, 5.0 * unknown, unknown])
        weights = np.full((len(FEATURES), model.nv), _WEIGHT)
        weights[:3][given > 0.0] = 1.0
        self.values = np.concatenate([bodies.ravel(), values.ravel()])
        self.weights = np.concatenate([of_bodies.ravel(), weights.ravel()])

    def typical(self, unknowns: Unknowns, matrix: Array) -> Array:
        """What combinations of parameters typically are in a robot like this, (b,)."""
        count = unknowns.bodies // 10
        spread = np.einsum("bnk,nkl->bnl", matrix[:, :unknowns.bodies].reshape(-1, count, 10),
                           self._bodies.transforms).reshape(len(matrix), -1)
        own = matrix[:, unknowns.bodies:] * self.values[unknowns.bodies:]
        return np.sqrt((spread ** 2).sum(axis=1) + (own ** 2).sum(axis=1))


def physical_parameters(unknowns: Unknowns, sums: Equations, noise: Array, shift: Array,
                        reference: Reference, strength: float, near: Array | None) -> Array:
    """The parameters that minimize the weighted residuals and the distance from the reference.

    Their least squares are moved by ``shift`` (p,). The search starts near others, if they are
    known.
    """
    H, g = assembled(unknowns, sums, np.maximum(noise, _least_noise(sums)))
    g += H @ shift
    kinds = np.repeat([1, 1, 1, 2, 1], unknowns.model.nv)        # an offset can have any sign
    kind = np.concatenate([np.zeros(unknowns.bodies, int), kinds])
    order = np.argsort(kind, kind="stable")
    order = order[unknowns.active[order]]
    parameters = np.zeros(len(unknowns))
    parameters[order] = fit(H[np.ix_(order, order)], g[order], reference.values[order], kind[order],
                            strength * reference.weights[order],
                            None if near is None else near[order])
    return parameters


def _least_noise(sums: Equations) -> Array:
    """The least noise of each row, (nv,); rows without torque have that of the largest."""
    size = np.sqrt(sums.yy / np.maximum(sums.count, 1e-300))
    return _PRECISION * np.where(size > 0.0, size, size.max(initial=0.0))
