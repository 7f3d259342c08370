# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Physically consistent parameters that minimize a quadratic cost, near a description.

The distance from the description is the Bregman divergence of the log-determinant of
pseudo-inertias (Lee, Wensing and Park, Geometric robot dynamic identification: a convex programming
approach, IEEE Transactions on Robotics 36, 2020). It is convex, and infinite where a body ceases to
be physical, so that Newton's method finds the only minimum and every iterate is physical. Numbers
that cannot be negative, such as friction, are treated alike, as matrices of one row.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import partial

import numpy as np
from scipy.linalg import LinAlgError, block_diag, cho_factor, cho_solve, eigh

from ..engine.kernel.types import Array
from ..engine.model import Model
from ..engine.model.parameters import from_pseudo_inertia, is_physical, pseudo_inertia
from .base_parameters import BaseParameters, Unknowns
from .link_hulls import THIN, Shapes, bounds_of, within
from .motion.numerics import MIN_SPEED, ROUNDOFF
from .samples import Samples

_LIGHTEST = 1e-2  # of the mean mass: the reference for a body without mass
MASSLESS = 1e-3  # kg: a body of less counts as one without mass, as does a robot on average
MIN_MASS_RATIO = 1e-3  # relative to the reference: a lighter body counts as one without mass
_FLAT = 0.1  # of its length: the thickness of the reference for a flat body
_SIZE = 0.05  # m: the extent of the reference for a body that has none
_UNKNOWN = 0.02  # of a joint's median torque: friction, if the description specifies none
WEAK_WEIGHT = 1e-2  # relative to the description; weight of shapes and of typical values
_STEPS = 200  # of Newton's method, at most
_CONVERGED = 1e-10  # squared Newton decrement
PATH_TOLERANCE = 0.1  # squared Newton decrement on the way, relative to the share
_CLOSE = 1e-4  # squared Newton decrement; below it, rounding hides the decrease of the cost


def _basis() -> Array:
    """An orthonormal basis of the symmetric 4x4 matrices, (10, 4, 4)."""
    basis = np.zeros((10, 4, 4))
    for k, (i, j) in enumerate(itertools.combinations_with_replacement(range(4), 2)):
        basis[k, i, j] = basis[k, j, i] = 1.0 if i == j else 1.0 / np.sqrt(2.0)
    return basis


BASIS = _basis()


class Bodies:
    """Bodies as variables: pseudo-inertias P = L Q L', where L L' is from the description.

    The variables are the numbers of Q in an orthonormal basis, so that the second derivative of the
    divergence at the description is the identity, whatever the sizes of the bodies.
    """

    def __init__(self, reference: Array) -> None:
        factors = np.linalg.cholesky(pseudo_inertia(reference))
        units = pseudo_inertia(np.eye(10)).reshape(10, 16)
        scaled = factors[:, None] @ BASIS @ factors[:, None].swapaxes(-1, -2)
        # columns: the parameters of each basis element
        self.transforms = (
            np.linalg.lstsq(units.T, scaled.reshape(-1, 16).T, rcond=None)[0]
            .reshape(10, len(reference), 10)
            .swapaxes(0, 1)
        )
        self.start = np.tile(np.einsum("kii->k", BASIS), (len(reference), 1))

    def divergence(self, z: Array) -> tuple[Array, Array, Array]:
        """The divergence of each body (n,), infinite if it is not physical; gradient, Hessian."""
        Q = np.einsum("nk,kij->nij", z, BASIS)
        try:
            L = np.linalg.cholesky(Q)
        except np.linalg.LinAlgError:
            return np.full(len(z), np.inf), z, z
        half = np.linalg.inv(L)
        inverse = half.swapaxes(1, 2) @ half
        logarithm = 2.0 * np.log(np.einsum("nii->ni", L)).sum(axis=1)
        value = np.trace(Q, axis1=1, axis2=2) - logarithm - 4.0
        gradient = np.einsum("kii->k", BASIS) - np.einsum("nij,kij->nk", inverse, BASIS)
        product = inverse[:, None] @ BASIS  # (n, 10, 4, 4)
        hessian = np.einsum("nkij,nlji->nkl", product, product)
        return value, gradient, hessian


def fit_physical(
    H: Array,
    g: Array,
    reference: Array,
    positive: Array,
    strength: Array,
    near: Array | None = None,
    bounds: Array | None = None,
    bounding: float = 0.0,
) -> Array:
    """Minimize x.H.x / 2 - g.x + the sum of strength * divergence from the reference; all (p,).

    ``positive`` is, in ascending order, 0 for the 10 numbers of each body, which must be physical
    in the reference, 1 for numbers that remain positive, 2 for any numbers. ``strength`` is that of
    the divergence of each body, in its first number, and of each positive number; and of the
    squared distance of the others from zero, in units of the reference. The search starts at
    parameters ``near`` the minimum. Bodies of the result are physical, with a margin for rounding.
    ``bounds @ parameters`` (k, p) remain positive, with the strength ``bounding``.
    """
    n = int((positive == 0).sum()) // 10
    bodies, places = Bodies(reference[: 10 * n].reshape(n, 10)), np.arange(10 * n).reshape(n, 10)
    of_body, s, is_positive = strength[: 10 * n : 10], strength[10 * n :], positive[10 * n :] == 1
    # variables: Q of each body; multiples of the reference; free numbers in their own unit
    T = block_diag(*bodies.transforms, np.diag(np.abs(reference[10 * n :])))
    quadratic, linear = T.T @ H @ T, T.T @ g
    quadratic = (quadratic + quadratic.T) / 2.0
    F, d, _ = decomposed(quadratic, np.ones(len(linear)))
    best = F @ (d * (F.T @ linear))  # of the data alone: the smallest minimum
    z = np.concatenate([bodies.start.ravel(), np.where(is_positive, 1.0, 0.0)])
    inside = np.zeros((0, len(z))) if bounds is None else bounds @ T / (bounds @ reference)[:, None]

    def cost(z: Array, share: float) -> tuple[float, Array, Array]:
        value, gradient, hessian = bodies.divergence(z[: 10 * n].reshape(n, 10))
        x, within = z[10 * n :], inside @ z
        if not np.isfinite(value).all() or (x[is_positive] <= 0.0).any() or (within <= 0.0).any():
            return np.inf, z, z
        size = np.where(is_positive, x, 1.0)
        slope = np.concatenate(
            [
                (of_body[:, None] * gradient).ravel(),
                np.where(is_positive, s * (1.0 - 1.0 / size), s * x),
            ]
        )
        slope += bounding * inside.T @ (1.0 - 1.0 / within)
        bend = np.diag(np.concatenate([np.zeros(10 * n), s / size**2]))
        bend[places[:, :, None], places[:, None]] = of_body[:, None, None] * hessian
        bend += bounding * (inside.T / within**2) @ inside
        distance = (
            float(of_body @ value)
            + float((s * (size - np.log(size) - 1.0))[is_positive].sum())
            + 0.5 * float((s * x**2)[~is_positive].sum())
            + bounding * float((within - np.log(within) - 1.0).sum())
        )
        error = quadratic @ (z - best)
        return (
            share * distance + 0.5 * float((z - best) @ error),
            share * slope + error,
            share * bend + quadratic,
        )

    # from the description to the data: few steps from one share to the next
    def decrement(z: Array) -> float:
        value, slope, bend = cost(z, 1.0)
        return float(slope @ _solve(bend, slope)) if np.isfinite(value) else np.inf

    largest = max(1.0, decrement(z))
    if near is not None:
        start = np.linalg.solve(T, near).astype(np.float64)
        if (from_start := max(1.0, decrement(start))) < largest:
            z, largest = start, from_start
    for share in np.geomspace(largest, 1.0, 2 + int(np.log10(largest))):
        z = minimize(
            partial(cost, share=share), z, _CONVERGED if share == 1.0 else PATH_TOLERANCE * share
        )
    x = T @ z
    x[: 10 * n] = _inside(x[: 10 * n].reshape(n, 10), reference[: 10 * n].reshape(n, 10)).ravel()
    return x


def decomposed(H: Array, scale: Array) -> tuple[Array, Array, np.ndarray]:
    """F and d with the inverse F d F' of scaled normal equations, and what these determine."""
    eigenvalues, vectors = eigh(H * scale * scale[:, None])
    kept = eigenvalues > ROUNDOFF * max(eigenvalues[-1], 1e-300)
    inverse = np.where(kept, 1.0 / np.where(kept, eigenvalues, 1.0), 0.0)
    return scale[:, None] * vectors, inverse, (np.abs(vectors[:, ~kept]) < 1e-6).all(axis=1)


def _inside(bodies: Array, reference: Array) -> Array:
    """Bodies at the boundary, moved by as much of the reference as is necessary."""
    share = 1e-12
    while not (inside := np.asarray(is_physical(bodies))).all():
        bodies = np.where(inside[:, None], bodies, bodies + share * reference)
        share *= 10.0
    return bodies


def minimize(
    cost: Callable[[Array], tuple[float, Array, Array]], z: Array, tolerance: float
) -> Array:
    """Newton's method with backtracking, until its squared decrement is below the tolerance."""
    value, gradient, hessian = cost(z)
    for _ in range(_STEPS):
        direction = -_solve(hessian, gradient)
        decrease = -float(gradient @ direction)
        if decrease < tolerance:
            break
        length = 1.0
        moved = cost(z + direction)
        # close to the minimum, the decrease of the cost is lost in its rounding errors
        while decrease > _CLOSE and not moved[0] <= value - 1e-4 * length * decrease:
            length *= 0.5
            if length < ROUNDOFF:
                return z
            moved = cost(z + length * direction)
        if not np.isfinite(moved[0]):
            return z
        z = z + length * direction
        value, gradient, hessian = moved
    return z


def _solve(hessian: Array, gradient: Array) -> Array:
    """Newton's step; symmetric scaling first, since its entries differ by many orders."""
    scale = 1.0 / np.sqrt(np.diag(hessian))
    try:
        factor = cho_factor(hessian * scale * scale[:, None])
        return scale * cho_solve(factor, scale * gradient)
    except LinAlgError:  # positive definite but for rounding
        F, d, _ = decomposed(hessian, scale)
        return np.asarray(F @ (d * (F.T @ gradient)))


# --- the description


def physical_bodies(model: Model) -> tuple[Array, list[int]]:
    """The bodies (njoints, 10) with mass and extent, and the joints whose body was changed."""
    bodies = np.array(model.inertial_parameters)
    mean = bodies[:, 0].mean() if len(bodies) else 0.0
    lightest = _LIGHTEST * (mean if mean > MASSLESS else 1.0)
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
    if body[0] > MIN_MASS_RATIO * lightest:
        mass, center = body[0], body[1:4] / body[0]
        second = pseudo_inertia(body)[:3, :3] - mass * np.outer(center, center)
    spread, axes = np.linalg.eigh(second / mass)
    if spread[0] >= THIN**2:
        return body
    least = _FLAT**2 * spread[2] if spread[2] > THIN**2 else _SIZE**2
    second = mass * (axes * np.maximum(spread, least)) @ axes.T
    upper = np.column_stack([second + mass * np.outer(center, center), mass * center])
    return from_pseudo_inertia(np.vstack([upper, [*mass * center, mass]]))


class Reference:
    """What the estimate is regularized towards: ``values`` (p,) of the description, with weights.

    Where it specifies less friction or rotor inertia, a small part of the joint's measured torque.
    Bodies are moved into their shapes, whose bounds are ``bounds`` (k, p), of the joints
    ``of_joint`` (k,). ``described`` (p,) are the parameters as they are in the description,
    ``changed`` the joints whose body is not physical there, ``typical`` (b,) what the base
    parameters typically are in a robot like this.
    """

    def __init__(
        self,
        unknowns: Unknowns,
        base: BaseParameters,
        samples: Samples,
        shapes: Shapes | None = None,
    ) -> None:
        model, count = unknowns.model, unknowns.bodies
        bodies, changed = physical_bodies(model)
        bounds = bounds_of(model, shapes or {})
        bodies = within(bodies, bounds)
        self.changed = tuple(model.joint_names[i] for i in changed)
        of_bodies = np.ones((model.njoints, 10))
        of_bodies[changed] = WEAK_WEIGHT
        tau, v, a = (
            np.median(np.abs(x[:: 1 + len(x) // 100000]), axis=0)
            for x in (samples.tau, samples.v, samples.a)
        )
        unknown = _UNKNOWN * (tau + 1e-9)
        v, a = (np.where(x > MIN_SPEED, x, 1.0) for x in (v, a))
        given = np.array([model.armature, model.damping, model.friction])
        little = np.array([unknown / a, unknown / v, unknown])
        is_given = given > little  # a placeholder such as 1e-3 says nothing
        values = np.where(is_given, given, little)
        values = np.vstack(
            [values, 5.0 * unknown, unknown, unknown / np.sqrt(v), np.full(model.nv, _UNKNOWN)]
        )[: len(unknowns.features)]
        weights = np.full(values.shape, WEAK_WEIGHT)
        weights[:3][is_given] = 1.0
        self.values = np.concatenate([bodies.ravel(), values.ravel()])
        self.of_joint = bounds.of_joint
        self.bounds = np.hstack([bounds.rows, np.zeros((len(bounds.rows), values.size))])
        self.weights = np.concatenate([of_bodies.ravel(), weights.ravel()])
        self.described = np.concatenate(
            [
                np.ravel(model.inertial_parameters),
                given.ravel(),
                np.zeros(values.size - 3 * model.nv),
            ]
        )
        spread = np.einsum(
            "bnk,nkl->bnl",
            base.matrix[:, :count].reshape(-1, model.njoints, 10),
            Bodies(bodies).transforms,
        ).reshape(len(base), -1)
        own = base.matrix[:, count:] * self.values[count:]
        self.typical = np.sqrt((spread**2).sum(axis=1) + (own**2).sum(axis=1))
