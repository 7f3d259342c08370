# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The configuration space: integration, difference, their derivatives, and interpolation."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..kernel import algebra as al
from ..kernel import lie
from ..kernel.names import short_repr
from ..kernel.types import Array, ArrayLike, Scalar
from ..kernel.validation import (
    as_array,
    describe_coordinate,
    finite_number,
    require_entries,
    require_equal,
    require_valid,
)
from .structure import Structure
from .urdf import Joint

_MAX_POSITION_LIMIT = 1e4  # rad, m; a larger limit counts as none


# --- the configurations of joints, on arrays with leading batch axes; kernels have ``joints.py``


def single_coordinate_indices(model: Structure) -> tuple[NDArray[np.intp], ...]:
    """Return the indices into q and v of the joints with one coordinate."""
    pairs = [(q, v) for q, v, nq in zip(model.idx_q, model.idx_v, model.nqs) if nq == 1]
    return tuple(np.array(pairs, dtype=int).reshape(-1, 2).T)


def position(model: Structure, index: int, q: Array) -> Array:
    """Return the position of a joint, (..., nq), in a configuration."""
    joint, start = model.tree.joints[index], model.idx_q[index]
    if joint.mimic:
        return joint.mimic.multiplier * q[..., start : start + 1] + joint.mimic.offset
    return q[..., start : start + model.nqs[index]]


def joint_motion(joint: Joint, x: Array) -> Array:
    """Return the motion (..., 4, 4) of a joint's frame from position zero to x, (..., nq)."""
    X = np.tile(np.eye(4), (*np.shape(x)[:-1], 1, 1))
    if joint.kind in ("floating", "spherical"):
        R = al.quaternion_rotation(*np.moveaxis(x[..., -4:], -1, 0))
        X[..., :3, :3] = np.stack(R, -1).reshape(X[..., :3, :3].shape)
        if joint.kind == "floating":
            X[..., :3, 3] = x[..., :3]
    elif joint.kind == "planar":
        X[..., :3, :3] = _axis_rotation(joint.axis, x[..., 2])
        X[..., :2, 3] = x[..., :2]
    elif joint.kind == "prismatic":
        X[..., :3, 3] = x * joint.axis
    else:
        X[..., :3, :3] = _axis_rotation(joint.axis, x[..., 0])
    return X


def _axis_rotation(axis: Array, angle: Array) -> Array:
    """Compute rotation matrices (..., 3, 3) about an axis by Rodrigues' formula."""
    along, across = np.outer(axis, axis), np.reshape(al.skew(axis), (3, 3))
    angle = np.asarray(angle)[..., None, None]
    return along + np.cos(angle) * (np.eye(3) - along) + np.sin(angle) * across


# --- integration and difference of joints with several coordinates


def _rotate_in_plane(angle: Array, xy: Array) -> Array:
    """Rotate vectors of the plane (..., 2) by angles (...)."""
    c, s = np.cos(angle)[..., None], np.sin(angle)[..., None]
    x, y = xy[..., :1], xy[..., 1:]
    return np.concatenate([c * x - s * y, s * x + c * y], -1)


def normalize_quaternion(quaternion: Array) -> Array:
    """Return unit quaternions (..., 4)."""
    return quaternion / np.linalg.norm(quaternion, axis=-1, keepdims=True)


def _integrate_floating(q: Array, v: Array) -> Array:
    """Return the configuration after the velocity v for one unit of time, (..., 7)."""
    p, turn = lie.se3_exp(v)
    rotation = normalize_quaternion(lie.quaternion_product(q[..., 3:], turn))
    return np.concatenate([q[..., :3] + lie.rotate(q[..., 3:], p), rotation], -1)


def _difference_floating(q0: Array, q1: Array) -> Array:
    """Return the velocity that moves q0 to q1 in one unit of time, (..., 6)."""
    inverse_rotation = lie.conjugate(q0[..., 3:])
    return lie.se3_log(
        lie.rotate(inverse_rotation, q1[..., :3] - q0[..., :3]),
        lie.quaternion_product(inverse_rotation, q1[..., 3:]),
    )


def _integrate_planar(q: Array, v: Array) -> Array:
    """Return the configuration after the velocity v for one unit of time, (..., 3)."""
    p, _ = lie.se3_exp(GROUPS["planar"].twist(v))
    return np.concatenate(
        [q[..., :2] + _rotate_in_plane(q[..., 2], p[..., :2]), q[..., 2:] + v[..., 2:]], -1
    )


def _difference_planar(q0: Array, q1: Array) -> Array:
    """Return the velocity that moves q0 to q1 in one unit of time, (..., 3)."""
    p = _rotate_in_plane(-q0[..., 2], q1[..., :2] - q0[..., :2])
    half_angle = 0.5 * (q1[..., 2:] - q0[..., 2:])
    zero = np.zeros_like(half_angle)
    twist = lie.se3_log(
        np.concatenate([p, zero], -1),
        np.concatenate([zero, zero, np.sin(half_angle), np.cos(half_angle)], -1),
    )
    return twist[..., [0, 1, 5]]  # its angle is in [-pi, pi]


def _integrate_spherical(q: Array, v: Array) -> Array:
    """Return the quaternions after the velocity v for one unit of time, (..., 4)."""
    return normalize_quaternion(lie.quaternion_product(q, lie.quaternion_exp(v)))


def _difference_spherical(q0: Array, q1: Array) -> Array:
    """Return the angular velocity that moves q0 to q1 in one unit of time, (..., 3)."""
    return lie.quaternion_log(lie.quaternion_product(lie.conjugate(q0), q1))


class LieGroup(NamedTuple):
    """The configurations of a joint with several coordinates, a subgroup of SE(3)."""

    components: list[int]  # indices of the entries of v in a twist
    integrate: Callable[[Array, Array], Array]  # (q, v) -> q moved by v
    difference: Callable[[Array, Array], Array]  # (q0, q1) -> v that moves q0 to q1

    def twist(self, v: Array) -> Array:
        """Return the twists (..., 6) of velocities."""
        twist = np.zeros((*v.shape[:-1], 6))
        twist[..., self.components] = v
        return twist

    def block(self, matrix: Array) -> Array:
        """Return the rows and columns of v in a matrix of SE(3) that preserves the subgroup."""
        return matrix[..., self.components, :][..., self.components]


GROUPS = {
    "floating": LieGroup(list(range(6)), _integrate_floating, _difference_floating),
    "planar": LieGroup([0, 1, 5], _integrate_planar, _difference_planar),
    "spherical": LieGroup([3, 4, 5], _integrate_spherical, _difference_spherical),
}


def lie_group_joints(model: Structure) -> Iterator[tuple[LieGroup, slice, slice]]:
    """Yield the group, and the slices of q and v, of each joint with several coordinates."""
    for joint, q, nq, v, nv in zip(
        model.tree.joints, model.idx_q, model.nqs, model.idx_v, model.nvs
    ):
        if joint.kind in GROUPS:
            yield GROUPS[joint.kind], slice(q, q + nq), slice(v, v + nv)


# --- arguments


def _common_batch(model: Structure, **arguments: Any) -> list[Array]:
    """Check the arguments; return them with a common leading axis, or without one."""
    arrays = {name: as_array(model, name, axes, value) for name, (axes, value) in arguments.items()}
    for name, (array, _) in arrays.items():
        require_valid(model, name, arguments[name][0], array)
    sizes = {name: len(array) for name, (array, batched) in arrays.items() if batched}
    require_equal("expected batches of one size", sizes)
    batch_shape = (next(iter(sizes.values())),) if sizes else ()
    return [
        np.broadcast_to(array, batch_shape + array.shape[batched:])
        for array, batched in arrays.values()
    ]


def _finite_configuration(model: Structure, q: ArrayLike) -> Array:
    """Return a copy of a configuration of finite numbers; its quaternions are not checked."""
    array, _ = as_array(model, "q", ("nq",), q)
    require_entries(
        "q",
        array,
        np.isfinite(array),
        "finite numbers",
        lambda index: describe_coordinate(model, ("nq",), index),
    )
    return np.array(array)


def _identity_matrices(model: Structure, v: Array) -> Array:
    """Return a writable identity matrix for each velocity."""
    return np.tile(np.eye(model.nv), (*v.shape[:-1], 1, 1))


def _require_not_zero(model: Structure, size: Array, k: int) -> None:
    """Raise a ValueError if the quaternion at index k has the size 0 in a configuration."""
    if not size.all():
        row = "".join(f"{n}, " for n in np.argwhere(size == 0.0)[0])
        raise ValueError(
            f"q: expected a quaternion (x y z w) that is not zero in "
            f"q[{row}{k}:{k + 4}]{describe_coordinate(model, ('nq',), (k,))}, got 0 0 0 0; "
            "use 0 0 0 1 for no rotation"
        )


class ConfigurationSpace(Structure):
    """The manifold of a robot's configurations."""

    def neutral(self) -> Array:
        """Return the configuration of zeros and identity rotations, (nq,) ndarray."""
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
        q, v = _common_batch(self, q=(("nq",), q), v=(("nv",), v))
        q_next = q.copy()
        iq, iv = single_coordinate_indices(self)
        q_next[..., iq] += v[..., iv]
        for group, sq, sv in lie_group_joints(self):
            q_next[..., sq] = group.integrate(q[..., sq], v[..., sv])
        return q_next

    def difference(self, q0: ArrayLike, q1: ArrayLike) -> Array:
        """Compute the velocity with which ``integrate`` moves from q0 to q1.

        Parameters
        ----------
        q0, q1 : (nq,) or (B, nq) array_like

        Returns
        -------
        (nv,) or (B, nv) ndarray
            Rotations of floating, planar and spherical joints are at most pi; the angles of
            continuous joints are subtracted without wrapping.
        """
        q0, q1 = _common_batch(self, q0=(("nq",), q0), q1=(("nq",), q1))
        v = np.zeros((*q0.shape[:-1], self.nv))
        iq, iv = single_coordinate_indices(self)
        v[..., iv] = q1[..., iq] - q0[..., iq]
        for group, sq, sv in lie_group_joints(self):
            v[..., sv] = group.difference(q0[..., sq], q1[..., sq])
        return v

    def d_integrate(self, q: ArrayLike, v: ArrayLike) -> tuple[Array, Array]:
        """Compute the derivatives of ``integrate(q, v)`` with respect to q and v.

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
        _, v = _common_batch(self, q=(("nq",), q), v=(("nv",), v))
        dq, dv = _identity_matrices(self, v), _identity_matrices(self, v)
        for group, _, sv in lie_group_joints(self):
            twist = group.twist(v[..., sv])
            dq[..., sv, sv] = group.block(lie.se3_adjoint(*lie.se3_exp(-twist)))
            dv[..., sv, sv] = group.block(lie.se3_jexp(twist))
        return dq, dv

    def d_difference(self, q0: ArrayLike, q1: ArrayLike) -> tuple[Array, Array]:
        """Compute the derivatives of ``difference(q0, q1)`` with respect to q0 and q1.

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
        d0, d1 = -_identity_matrices(self, v), _identity_matrices(self, v)
        for group, _, sv in lie_group_joints(self):
            twist = group.twist(v[..., sv])
            d0[..., sv, sv] = -group.block(lie.se3_jlog(-twist))
            d1[..., sv, sv] = group.block(lie.se3_jlog(twist))
        return d0, d1

    def distance(self, q0: ArrayLike, q1: ArrayLike) -> Scalar:
        """Compute the length of ``difference(q0, q1)``, a float or (B,) ndarray.

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
        q = _finite_configuration(self, q)
        for k in self._unit_quaternions:
            x = q[..., k : k + 4]
            largest = np.abs(x).max(-1, keepdims=True)  # avoids underflow and overflow of the norm
            _require_not_zero(self, largest[..., 0], k)
            x[...] = normalize_quaternion(x / largest)
        return q

    def is_normalized(self, q: ArrayLike, tolerance: float = lie.UNIT_TOLERANCE) -> Scalar:
        """Return True if all quaternions of a configuration are unit.

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
        q = _finite_configuration(self, q)
        tolerance = finite_number("tolerance", tolerance)
        if tolerance <= 0.0:
            raise ValueError(
                f"tolerance: expected a number above 0, got {tolerance:g}; it applies "
                "to the squared lengths of quaternions"
            )
        unit = np.ones(q.shape[:-1], np.bool_)
        with np.errstate(over="ignore"):
            for k in self._unit_quaternions:
                unit &= np.abs(np.sum(q[..., k : k + 4] ** 2, -1) - 1.0) < tolerance
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
            raise ValueError(f"{expected}, got {short_repr(u)}") from None
        if (
            fraction.ndim > 1
            or not np.isfinite(fraction).all()
            or (fraction.ndim == 1 and step.ndim == 2 and len(fraction) != len(step))
        ):
            raise ValueError(f"{expected}, got shape {fraction.shape}: {short_repr(fraction)}")
        return self.integrate(q0, fraction[..., None] * step)

    def random_configuration(self, rng: np.random.Generator | None = None) -> Array:
        """Draw a random configuration inside the position limits, (nq,) ndarray.

        For revolute joints without limits, the angle is in [-pi, pi); for prismatic ones, the
        position is in [-1, 1) m. Limits beyond 1e4 rad or m count as none. Rotations are uniformly
        distributed.
        """
        rng = np.random.default_rng() if rng is None else rng
        if not hasattr(rng, "standard_normal"):
            raise TypeError(
                f"rng: expected a numpy.random.Generator, got {type(rng).__name__}: "
                f"{short_repr(rng)}"
            )
        lower, upper = self.lower.copy(), self.upper.copy()
        for joint, start, nq in zip(self.tree.joints, self.idx_q, self.nqs):
            angle = {"revolute": start, "continuous": start, "planar": start + 2}.get(joint.kind)
            for k in range(start, start + nq):
                reach = np.pi if k == angle else 1.0
                if lower[k] < -_MAX_POSITION_LIMIT:
                    lower[k] = max(lower[k], min(-reach, upper[k] - 2.0 * reach))
                if upper[k] > _MAX_POSITION_LIMIT:
                    upper[k] = min(upper[k], max(reach, lower[k] + 2.0 * reach))
        q = rng.uniform(lower + 0.0, upper + 0.0)  # uniform rejects 0.0 to -0.0
        for k in self._unit_quaternions:
            x = rng.standard_normal(4)
            q[k : k + 4] = x / np.linalg.norm(x)
        return q
