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
from .link_hulls import MIN_THICKNESS, Shapes, move_into_shapes, shape_bounds
from .motion.numerics import MIN_SPEED, ROUNDOFF
from .samples import Samples

_MIN_REFERENCE_MASS = 1e-2  # relative to the mean mass; reference of a body without mass
MIN_MASS = 1e-3  # kg; a lighter payload, or lighter mean body of a robot, has no mass
MIN_MASS_RATIO = 1e-3  # relative to the reference mass; a lighter body has no mass
_MIN_THICKNESS_RATIO = 0.1  # relative to the length; reference of a flat body
_DEFAULT_EXTENT = 0.05  # m; reference of a body without extent
_TYPICAL_FRICTION = 0.02  # relative to a joint's median torque; if the description has no friction
WEAK_WEIGHT = 1e-2  # relative to the description; weight of shapes and of typical values
_MAX_NEWTON_STEPS = 200  # steps of one minimization
_CONVERGENCE_TOLERANCE = 1e-10  # squared Newton decrement
PATH_TOLERANCE = 0.1  # squared Newton decrement on the way, relative to the share
_ROUNDING_DECREMENT = 1e-4  # squared Newton decrement; below it, rounding hides the decrease


def _symmetric_basis() -> Array:
    """Return an orthonormal basis of the symmetric 4x4 matrices, (10, 4, 4)."""
    basis = np.zeros((10, 4, 4))
    for k, (i, j) in enumerate(itertools.combinations_with_replacement(range(4), 2)):
        basis[k, i, j] = basis[k, j, i] = 1.0 if i == j else 1.0 / np.sqrt(2.0)
    return basis


BASIS = _symmetric_basis()
BODY_NUMBER, POSITIVE_NUMBER, SIGNED_NUMBER = range(3)  # kinds of parameters, see `fit_physical`


class Bodies:
    """Bodies as variables of an optimization: pseudo-inertias P = L Q L'.

    L L' is the pseudo-inertia of the description. The variables are the coordinates of Q in an
    orthonormal basis, so that the second derivative of the divergence at the description is the
    identity, whatever the sizes of the bodies.
    """

    def __init__(self, reference: Array) -> None:
        factors = np.linalg.cholesky(pseudo_inertia(reference))
        units = pseudo_inertia(np.eye(10)).reshape(10, 16)
        scaled = factors[:, None] @ BASIS @ factors[:, None].swapaxes(-1, -2)
        # (n, 10, 10), from coordinates of Q to parameters
        self.transforms = (
            np.linalg.lstsq(units.T, scaled.reshape(-1, 16).T, rcond=None)[0]
            .reshape(10, len(reference), 10)
            .swapaxes(0, 1)
        )
        self.start = np.tile(np.einsum("kii->k", BASIS), (len(reference), 1))

    def divergence(self, z: Array) -> tuple[Array, Array, Array]:
        """Return the divergence of each body (n,), infinite if not physical; gradient, Hessian."""
        Q = np.einsum("nk,kij->nij", z, BASIS)
        try:
            L = np.linalg.cholesky(Q)
        except np.linalg.LinAlgError:
            return np.full(len(z), np.inf), z, z
        factor_inverse = np.linalg.inv(L)
        inverse = factor_inverse.swapaxes(1, 2) @ factor_inverse
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
    kinds: Array,
    strength: Array,
    initial: Array | None = None,
    bounds: Array | None = None,
    bound_strength: float = 0.0,
) -> Array:
    """Minimize x.H.x / 2 - g.x + the sum of strength * divergence from the reference; all (p,).

    ``kinds`` are, in ascending order, BODY_NUMBER for the 10 numbers of each body, which must be
    physical in the reference, POSITIVE_NUMBER for numbers that remain positive, and SIGNED_NUMBER
    for numbers of any sign. ``strength`` weights the divergence of each body (in its first number)
    and of each positive number, and the squared distance of the other numbers from zero, in units
    of the reference. ``bounds`` (k, p) times the parameters remain positive, by a barrier with the
    weight ``bound_strength``. The search starts at the parameters ``initial`` (p,). Bodies of the
    result are physical, with a margin for rounding.
    """
    n = int((kinds == BODY_NUMBER).sum()) // 10
    bodies = Bodies(reference[: 10 * n].reshape(n, 10))
    body_indices = np.arange(10 * n).reshape(n, 10)
    body_strength = strength[: 10 * n : 10]
    number_strength = strength[10 * n :]
    is_positive = kinds[10 * n :] == POSITIVE_NUMBER
    # variables: Q of each body; positive numbers relative to the reference; numbers of any sign
    T = block_diag(*bodies.transforms, np.diag(np.abs(reference[10 * n :])))
    quadratic, linear = T.T @ H @ T, T.T @ g
    quadratic = (quadratic + quadratic.T) / 2.0
    F, d, _ = invert_scaled(quadratic, np.ones(len(linear)))
    data_minimum = F @ (d * (F.T @ linear))  # shortest minimizer of the quadratic cost
    z = np.concatenate([bodies.start.ravel(), np.where(is_positive, 1.0, 0.0)])
    scaled_bounds = (
        np.zeros((0, len(z))) if bounds is None else bounds @ T / (bounds @ reference)[:, None]
    )

    def path_cost(z: Array, share: float) -> tuple[float, Array, Array]:
        """Return cost, gradient and Hessian, with the divergence times ``share``; or infinity."""
        value, body_gradient, body_hessian = bodies.divergence(z[: 10 * n].reshape(n, 10))
        x, bound_values = z[10 * n :], scaled_bounds @ z
        if (
            not np.isfinite(value).all()
            or (x[is_positive] <= 0.0).any()
            or (bound_values <= 0.0).any()
        ):
            return np.inf, z, z
        size = np.where(is_positive, x, 1.0)
        gradient = np.concatenate(
            [
                (body_strength[:, None] * body_gradient).ravel(),
                np.where(is_positive, number_strength * (1.0 - 1.0 / size), number_strength * x),
            ]
        )
        gradient += bound_strength * scaled_bounds.T @ (1.0 - 1.0 / bound_values)
        hessian = np.diag(np.concatenate([np.zeros(10 * n), number_strength / size**2]))
        hessian[body_indices[:, :, None], body_indices[:, None]] = (
            body_strength[:, None, None] * body_hessian
        )
        hessian += bound_strength * (scaled_bounds.T / bound_values**2) @ scaled_bounds
        distance = (
            float(body_strength @ value)
            + float((number_strength * (size - np.log(size) - 1.0))[is_positive].sum())
            + 0.5 * float((number_strength * x**2)[~is_positive].sum())
            + bound_strength * float((bound_values - np.log(bound_values) - 1.0).sum())
        )
        error = quadratic @ (z - data_minimum)
        return (
            share * distance + 0.5 * float((z - data_minimum) @ error),
            share * gradient + error,
            share * hessian + quadratic,
        )

    def newton_decrement(z: Array) -> float:
        """Return the squared Newton decrement, infinite where the cost is."""
        value, gradient, hessian = path_cost(z, 1.0)
        return float(gradient @ _newton_step(hessian, gradient)) if np.isfinite(value) else np.inf

    initial_share = max(1.0, newton_decrement(z))
    if initial is not None:
        start = np.linalg.solve(T, initial).astype(np.float64)
        if (start_share := max(1.0, newton_decrement(start))) < initial_share:
            z, initial_share = start, start_share
    # follow the path from the description (large share) to the data (share 1)
    for share in np.geomspace(initial_share, 1.0, 2 + int(np.log10(initial_share))):
        z = minimize_by_newton(
            partial(path_cost, share=share),
            z,
            _CONVERGENCE_TOLERANCE if share == 1.0 else PATH_TOLERANCE * share,
        )
    x = T @ z
    x[: 10 * n] = _make_physical(
        x[: 10 * n].reshape(n, 10), reference[: 10 * n].reshape(n, 10)
    ).ravel()
    return x


def invert_scaled(H: Array, scale: Array) -> tuple[Array, Array, np.ndarray]:
    """Return the inverse of normal equations H (p, p) as F, d, so that it is F diag(d) F'.

    The equations are scaled by ``scale`` (p,) on both sides before small eigenvalues are taken as
    zero. Also returns a mask (p,) of the determined values.
    """
    eigenvalues, vectors = eigh(H * scale * scale[:, None])
    is_significant = eigenvalues > ROUNDOFF * max(eigenvalues[-1], 1e-300)
    inverse = np.where(is_significant, 1.0 / np.where(is_significant, eigenvalues, 1.0), 0.0)
    return (
        scale[:, None] * vectors,
        inverse,
        (np.abs(vectors[:, ~is_significant]) < 1e-6).all(axis=1),
    )


def _make_physical(bodies: Array, reference: Array) -> Array:
    """Move bodies that rounding made unphysical towards the reference, as little as necessary."""
    share = 1e-12
    while not (is_valid := np.asarray(is_physical(bodies))).all():
        bodies = np.where(is_valid[:, None], bodies, bodies + share * reference)
        share *= 10.0
    return bodies


def minimize_by_newton(
    cost: Callable[[Array], tuple[float, Array, Array]], z: Array, tolerance: float
) -> Array:
    """Minimize by Newton's method with backtracking, until the squared decrement is small.

    ``cost`` returns the cost, infinite outside its domain, its gradient and its Hessian.
    """
    value, gradient, hessian = cost(z)
    for _ in range(_MAX_NEWTON_STEPS):
        direction = -_newton_step(hessian, gradient)
        decrease = -float(gradient @ direction)
        if decrease < tolerance:
            break
        length = 1.0
        candidate = cost(z + direction)
        # close to the minimum, the decrease of the cost is lost in its rounding errors
        while (
            decrease > _ROUNDING_DECREMENT and not candidate[0] <= value - 1e-4 * length * decrease
        ):
            length *= 0.5
            if length < ROUNDOFF:
                return z
            candidate = cost(z + length * direction)
        if not np.isfinite(candidate[0]):
            return z
        z = z + length * direction
        value, gradient, hessian = candidate
    return z


def _newton_step(hessian: Array, gradient: Array) -> Array:
    """Return Newton's step; scaled first, since entries differ by many orders of magnitude."""
    scale = 1.0 / np.sqrt(np.diag(hessian))
    try:
        factor = cho_factor(hessian * scale * scale[:, None])
        return scale * cho_solve(factor, scale * gradient)
    except LinAlgError:  # rounding made it indefinite
        F, d, _ = invert_scaled(hessian, scale)
        return np.asarray(F @ (d * (F.T @ gradient)))


# --- reference


def regularize_bodies(model: Model) -> tuple[Array, list[int]]:
    """Return bodies (njoints, 10) with mass and extent, and the joints with a changed body."""
    bodies = np.array(model.inertial_parameters)
    mean_mass = bodies[:, 0].mean() if len(bodies) else 0.0
    reference_mass = _MIN_REFERENCE_MASS * (mean_mass if mean_mass > MIN_MASS else 1.0)
    changed_joints = []
    for i in range(len(bodies)):
        regular_body = _nearest_regular_body(bodies[i], reference_mass)
        if np.abs(regular_body - bodies[i]).max() > 1e-9 * np.abs(regular_body).max():
            changed_joints.append(i)
            bodies[i] = regular_body
    return bodies, changed_joints


def _nearest_regular_body(body: Array, reference_mass: float) -> Array:
    """Return the nearest body with a positive mass and with extent in each direction."""
    mass, center, second_moment = reference_mass, np.zeros(3), np.zeros((3, 3))
    if body[0] > MIN_MASS_RATIO * reference_mass:
        mass, center = body[0], body[1:4] / body[0]
        second_moment = pseudo_inertia(body)[:3, :3] - mass * np.outer(center, center)
    spread, axes = np.linalg.eigh(second_moment / mass)
    if spread[0] >= MIN_THICKNESS**2:
        return body
    min_spread = (
        _MIN_THICKNESS_RATIO**2 * spread[2] if spread[2] > MIN_THICKNESS**2 else _DEFAULT_EXTENT**2
    )
    second_moment = mass * (axes * np.maximum(spread, min_spread)) @ axes.T
    upper = np.column_stack([second_moment + mass * np.outer(center, center), mass * center])
    return from_pseudo_inertia(np.vstack([upper, [*mass * center, mass]]))


class Reference:
    """Reference of the regularization: parameters of the description, made physical.

    Friction and rotor inertia are at least a small fraction of the joint's measured torque. Bodies
    are moved into the shapes of their links.

    Attributes
    ----------
    values, weights : (p,) ndarray
        Parameters, and the weight of the divergence from them.
    bounds : (k, p) ndarray
        Bounds of shapes: ``bounds @ parameters`` is positive.
    bound_joints : (k,) ndarray of int
        Joint of each bound.
    described_parameters : (p,) ndarray
        Parameters exactly as in the description.
    unphysical_joints : tuple of str
        Joints whose body is not physical in the description.
    typical_sizes : (b,) ndarray
        Typical sizes of the base parameters in a robot like this.
    """

    def __init__(
        self,
        unknowns: Unknowns,
        base: BaseParameters,
        samples: Samples,
        shapes: Shapes | None = None,
    ) -> None:
        model, count = unknowns.model, unknowns.body_parameter_count
        bodies, changed_joints = regularize_bodies(model)
        bounds = shape_bounds(model, shapes or {})
        bodies = move_into_shapes(bodies, bounds)
        self.unphysical_joints = tuple(model.joint_names[i] for i in changed_joints)
        body_weights = np.ones((model.njoints, 10))
        body_weights[changed_joints] = WEAK_WEIGHT
        tau, v, a = (
            np.median(np.abs(x[:: 1 + len(x) // 100000]), axis=0)
            for x in (samples.tau, samples.v, samples.a)
        )
        typical_friction = _TYPICAL_FRICTION * (tau + 1e-9)
        v, a = (np.where(x > MIN_SPEED, x, 1.0) for x in (v, a))
        described_features = np.array([model.armature, model.damping, model.friction])
        min_features = np.array([typical_friction / a, typical_friction / v, typical_friction])
        # smaller values are placeholders, such as 1e-3
        is_described = described_features > min_features
        values = np.where(is_described, described_features, min_features)
        values = np.vstack(
            [
                values,
                5.0 * typical_friction,
                typical_friction,
                typical_friction / np.sqrt(v),
                np.full(model.nv, _TYPICAL_FRICTION),
            ]
        )[: len(unknowns.features)]
        weights = np.full(values.shape, WEAK_WEIGHT)
        weights[:3][is_described] = 1.0
        self.values = np.concatenate([bodies.ravel(), values.ravel()])
        self.bound_joints = bounds.bound_joints
        self.bounds = np.hstack([bounds.rows, np.zeros((len(bounds.rows), values.size))])
        self.weights = np.concatenate([body_weights.ravel(), weights.ravel()])
        self.described_parameters = np.concatenate(
            [
                np.ravel(model.inertial_parameters),
                described_features.ravel(),
                np.zeros(values.size - 3 * model.nv),
            ]
        )
        spread = np.einsum(
            "bnk,nkl->bnl",
            base.matrix[:, :count].reshape(-1, model.njoints, 10),
            Bodies(bodies).transforms,
        ).reshape(len(base), -1)
        feature_sizes = base.matrix[:, count:] * self.values[count:]
        self.typical_sizes = np.sqrt((spread**2).sum(axis=1) + (feature_sizes**2).sum(axis=1))
