# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The configuration space: integration, difference, their derivatives, and interpolation."""
from __future__ import annotations

from typing import Any

import numpy as np

from ..kernel import lie
from ..kernel.types import Array, ArrayLike, Scalar
from .inputs import (
    as_array,
    coordinate,
    finite_array,
    require_equal,
    require_finite,
    require_valid,
)
from .lie_groups import normalized, several, single
from .structure import Structure

_UNLIMITED = 1e4                     # rad, m: larger limits are regarded as unlimited


def _together(model: Structure, **arguments: Any) -> list[Array]:
    """Check the arguments; return them with a common leading axis, or without one."""
    arrays = {name: as_array(model, name, axes, value)
              for name, (axes, value) in arguments.items()}
    for name, (array, _) in arrays.items():
        require_valid(model, name, arguments[name][0], array)
    sizes = {name: len(array) for name, (array, batched) in arrays.items() if batched}
    require_equal("expected batches of one size", sizes)
    lead = (next(iter(sizes.values())),) if sizes else ()
    return [np.broadcast_to(array, lead + array.shape[batched:])
            for array, batched in arrays.values()]


def _finite(model: Structure, q: ArrayLike) -> Array:
    """Check a configuration, but not its quaternions; return a copy."""
    array, _ = as_array(model, "q", ("nq",), q)
    require_finite(model, "q", ("nq",), array)
    return np.array(array)


def _identities(model, v):
    """An identity matrix for each velocity, writable."""
    return np.tile(np.eye(model.nv), (*v.shape[:-1], 1, 1))


def _require_not_zero(model, size, k):
    if not size.all():
        row = "".join(f"{n}, " for n in np.argwhere(size == 0.0)[0])
        raise ValueError(f"q: expected a quaternion (x y z w) that is not zero in "
                         f"q[{row}{k}:{k + 4}]{coordinate(model, ('nq',), (k,))}, got 0 0 0 0; "
                         "use 0 0 0 1 for no rotation")


class ConfigurationSpace(Structure):
    """The configurations of a robot, a manifold."""

    def neutral(self) -> Array:
        """The configuration of zeros and identity rotations, (nq,) ndarray."""
        q = np.zeros(self.nq)
        for k in self._unit_quaternions:
            q[k + 3] = 1.0
        return q

    def integrate(self, q: ArrayLike, v: ArrayLike) -> Array:
        """Integrate a velocity from a configuration for one unit of time, on the manifold.

        Parameters
        ----------
        q : (nq,) or (B, nq) array_like
        v : (nv,) or (B, nv) array_like
            Velocity times duration; for floating, planar and spherical joints expressed in their
            frame.

        Returns
        -------
        (nq,) or (B, nq) ndarray
            The quaternions are normalized.
        """
        q, v = _together(self, q=(("nq",), q), v=(("nv",), v))
        moved = q.copy()
        iq, iv = single(self)
        moved[..., iq] += v[..., iv]
        for group, sq, sv in several(self):
            moved[..., sq] = group.integrate(q[..., sq], v[..., sv])
        return moved

    def difference(self, q0: ArrayLike, q1: ArrayLike) -> Array:
        """The velocity with which ``integrate`` moves from q0 to q1.

        Parameters
        ----------
        q0, q1 : (nq,) or (B, nq) array_like

        Returns
        -------
        (nv,) or (B, nv) ndarray
            Rotations of floating, planar and spherical joints are at most pi; the angles of
            continuous joints are subtracted without wrapping.
        """
        q0, q1 = _together(self, q0=(("nq",), q0), q1=(("nq",), q1))
        v = np.zeros((*q0.shape[:-1], self.nv))
        iq, iv = single(self)
        v[..., iv] = q1[..., iq] - q0[..., iq]
        for group, sq, sv in several(self):
            v[..., sv] = group.difference(q0[..., sq], q1[..., sq])
        return v

    def d_integrate(self, q: ArrayLike, v: ArrayLike) -> tuple[Array, Array]:
        """Derivatives of ``integrate(q, v)`` with respect to q and v.

        Changes of q and of the result are velocities, in the sense of ``integrate``: to first
        order, ``integrate(integrate(q, x), v + y)`` is
        ``integrate(integrate(q, v), dq @ x + dv @ y)``.

        Parameters
        ----------
        q : (nq,) or (B, nq) array_like
        v : (nv,) or (B, nv) array_like
            As for ``integrate``.

        Returns
        -------
        dq, dv : (nv, nv) or (B, nv, nv) ndarray
            Identity matrices except for floating, planar and spherical joints.
        """
        _, v = _together(self, q=(("nq",), q), v=(("nv",), v))
        dq, dv = _identities(self, v), _identities(self, v)
        for group, _, sv in several(self):
            twist = group.twist(v[..., sv])
            dq[..., sv, sv] = group.block(lie.se3_adjoint(*lie.se3_exp(-twist)))
            dv[..., sv, sv] = group.block(lie.se3_jexp(twist))
        return dq, dv

    def d_difference(self, q0: ArrayLike, q1: ArrayLike) -> tuple[Array, Array]:
        """Derivatives of ``difference(q0, q1)`` with respect to q0 and q1.

        Changes of q0 and q1 are velocities, in the sense of ``integrate``: to first order,
        ``difference(integrate(q0, x), integrate(q1, y))`` is
        ``difference(q0, q1) + d0 @ x + d1 @ y``.

        Parameters
        ----------
        q0, q1 : (nq,) or (B, nq) array_like

        Returns
        -------
        d0, d1 : (nv, nv) or (B, nv, nv) ndarray
            Minus the identity and the identity, except for floating, planar and spherical joints.
            Rotations by pi, where the difference is not continuous, have the derivatives of the
            branch that ``difference`` returns.
        """
        v = self.difference(q0, q1)
        d0, d1 = -_identities(self, v), _identities(self, v)
        for group, _, sv in several(self):
            twist = group.twist(v[..., sv])
            d0[..., sv, sv] = -group.block(lie.se3_jlog(-twist))
            d1[..., sv, sv] = group.block(lie.se3_jlog(twist))
        return d0, d1

    def distance(self, q0: ArrayLike, q1: ArrayLike) -> Scalar:
        """The length of ``difference(q0, q1)``, a float or (B,) ndarray.

        Square root of the sum of squares; adds angles [rad] and lengths [m].
        """
        length = np.linalg.norm(self.difference(q0, q1), axis=-1)
        return length if length.ndim else float(length)

    def normalize(self, q: ArrayLike) -> Array:
        """Divide all quaternions of a configuration by their lengths.

        Parameters
        ----------
        q : (nq,) or (B, nq) array_like
            Quaternions of any length except zero.

        Returns
        -------
        (nq,) or (B, nq) ndarray
            A copy; the other numbers do not change.
        """
        q = _finite(self, q)
        for k in self._unit_quaternions:
            x = q[..., k:k + 4]
            largest = np.abs(x).max(-1, keepdims=True)      # no underflow or overflow of the norm
            _require_not_zero(self, largest[..., 0], k)
            x[...] = normalized(x / largest)
        return q

    def is_normalized(self, q: ArrayLike, tolerance: float = lie.UNIT_TOLERANCE) -> Scalar:
        """Whether all quaternions of a configuration are unit.

        Parameters
        ----------
        q : (nq,) or (B, nq) array_like
        tolerance : float
            The squared lengths differ from 1 by less. The default, 1e-6, is what all functions
            accept.

        Returns
        -------
        bool or (B,) ndarray of bool
        """
        q = _finite(self, q)
        tolerance = finite_array("tolerance", tolerance, ())
        if tolerance <= 0.0:
            raise ValueError(f"tolerance: expected a number above 0, got {tolerance:g}; it applies "
                             "to the squared lengths of quaternions")
        unit = np.ones(q.shape[:-1], np.bool_)
        with np.errstate(over="ignore"):
            for k in self._unit_quaternions:
                unit &= np.abs(np.sum(q[..., k:k + 4] ** 2, -1) - 1.0) < tolerance
        return unit if unit.ndim else bool(unit)

    def interpolate(self, q0: ArrayLike, q1: ArrayLike, u: float | ArrayLike) -> Array:
        """Interpolate from q0 to q1 by the fraction u.

        Parameters
        ----------
        q0, q1 : (nq,) or (B, nq) array_like
        u : float or (B,) array_like
            0: q0, 1: q1.

        Returns
        -------
        (nq,) or (B, nq) ndarray
        """
        step = self.difference(q0, q1)
        expected = "u: expected a finite number, or one for each state of a batch"
        try:
            fraction = np.asarray(u, dtype=np.float64)
        except (TypeError, ValueError, OverflowError):
            raise ValueError(f"{expected}, got {u!r:.80}") from None
        if fraction.ndim > 1 or not np.isfinite(fraction).all() or (
                fraction.ndim == 1 and step.ndim == 2 and len(fraction) != len(step)):
            raise ValueError(f"{expected}, got shape {fraction.shape}: {fraction!r:.80}")
        return self.integrate(q0, fraction[..., None] * step)

    def random_configuration(self, rng: np.random.Generator | None = None) -> Array:
        """A random configuration inside the position limits, (nq,) ndarray.

        For revolute joints without limits, the angle is in [-pi, pi); for prismatic ones, the
        position is in [-1, 1) m. Limits beyond 1e4 rad or m count as none. Rotations are uniformly
        distributed.
        """
        rng = np.random.default_rng() if rng is None else rng
        if not hasattr(rng, "standard_normal"):
            raise TypeError(f"rng: expected a numpy.random.Generator, got {type(rng).__name__}: "
                            f"{rng!r:.80}")
        lower, upper = self.lower.copy(), self.upper.copy()
        for joint, start, nq in zip(self.tree.joints, self.idx_q, self.nqs):
            angle = {"revolute": start, "continuous": start, "planar": start + 2}.get(joint.kind)
            for k in range(start, start + nq):
                reach = np.pi if k == angle else 1.0
                if lower[k] < -_UNLIMITED:
                    lower[k] = max(lower[k], min(-reach, upper[k] - 2.0 * reach))
                if upper[k] > _UNLIMITED:
                    upper[k] = min(upper[k], max(reach, lower[k] + 2.0 * reach))
        q = rng.uniform(lower + 0.0, upper + 0.0)       # uniform rejects 0.0 to -0.0
        for k in self._unit_quaternions:
            x = rng.standard_normal(4)
            q[k:k + 4] = x / np.linalg.norm(x)
        return q
