# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The configuration space: integration, difference, their derivatives, and interpolation."""
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ..kernel import lie
from ..kernel.types import Array
from .inputs import as_array, coordinate, finite_array, require_finite, require_valid

_UNLIMITED = 1e4                     # rad, m: larger limits are regarded as unlimited


def _together(model, **arguments):
    """Check the arguments; return them with a common leading axis, or without one."""
    arrays = {name: as_array(model, name, axes, value)
              for name, (axes, value) in arguments.items()}
    for name, (array, _) in arrays.items():
        require_valid(model, name, arguments[name][0], array)
    sizes = {name: len(array) for name, (array, batched) in arrays.items() if batched}
    if len(set(sizes.values())) > 1:
        raise ValueError("expected batches of one size, got "
                         + ", ".join(f"{name}: {size}" for name, size in sizes.items()))
    lead = (next(iter(sizes.values())),) if sizes else ()
    return [np.broadcast_to(array, lead + array.shape[batched:])
            for array, batched in arrays.values()]


def _single(model):
    """Indices into q and v of the joints with one coordinate."""
    pairs = [(q, v) for q, v, nq in zip(model.idx_q, model.idx_v, model.nqs) if nq == 1]
    return tuple(np.array(pairs, dtype=int).reshape(-1, 2).T)


def neutral(model):
    """The configuration of zeros and identity rotations, (nq,)."""
    q = np.zeros(model.nq)
    for k in model._unit_quaternions:
        q[k + 3] = 1.0
    return q


# --- joints with several coordinates: q moved by v, and the v that moves q0 to q1

def _turn(angle, xy):
    c, s = np.cos(angle)[..., None], np.sin(angle)[..., None]
    x, y = xy[..., :1], xy[..., 1:]
    return np.concatenate([c * x - s * y, s * x + c * y], -1)


def _normalized(quaternion):
    return quaternion / np.linalg.norm(quaternion, axis=-1, keepdims=True)


def _integrate_floating(q, v):
    p, turn = lie.se3_exp(v)
    rotation = _normalized(lie.quaternion_product(q[..., 3:], turn))
    return np.concatenate([q[..., :3] + lie.rotate(q[..., 3:], p), rotation], -1)


def _difference_floating(q0, q1):
    back = lie.conjugate(q0[..., 3:])
    return lie.se3_log(lie.rotate(back, q1[..., :3] - q0[..., :3]),
                       lie.quaternion_product(back, q1[..., 3:]))


def _integrate_planar(q, v):
    step = lie.se2_exp(v)
    return np.concatenate([q[..., :2] + _turn(q[..., 2], step[..., :2]),
                           q[..., 2:] + step[..., 2:]], -1)


def _difference_planar(q0, q1):
    return lie.se2_log(np.concatenate(
        [_turn(-q0[..., 2], q1[..., :2] - q0[..., :2]), q1[..., 2:] - q0[..., 2:]], -1))


def _integrate_spherical(q, v):
    return _normalized(lie.quaternion_product(q, lie.quaternion_exp(v)))


def _difference_spherical(q0, q1):
    return lie.quaternion_log(lie.quaternion_product(lie.conjugate(q0), q1))


class _LieGroup(NamedTuple):
    """The configurations of a joint with several coordinates, a subgroup of SE(3)."""

    components: list[int]       # of a twist: those of v
    integrate: Callable[[Array, Array], Array]
    difference: Callable[[Array, Array], Array]

    def twist(self, v):
        """The twists (..., 6) of velocities."""
        twist = np.zeros((*v.shape[:-1], 6))
        twist[..., self.components] = v
        return twist

    def block(self, matrix):
        """The rows and columns of v in a matrix of SE(3), which leaves the subgroup invariant."""
        return matrix[..., self.components, :][..., self.components]


_GROUPS = {"floating": _LieGroup(list(range(6)), _integrate_floating, _difference_floating),
           "planar": _LieGroup([0, 1, 5], _integrate_planar, _difference_planar),
           "spherical": _LieGroup([3, 4, 5], _integrate_spherical, _difference_spherical)}


def _several(model):
    """The group, and the slices of q and v, of each joint with several coordinates."""
    for joint, q, nq, v, nv in zip(model.tree.joints, model.idx_q, model.nqs, model.idx_v,
                                   model.nvs):
        if joint.kind in _GROUPS:
            yield _GROUPS[joint.kind], slice(q, q + nq), slice(v, v + nv)


# --- robots

def integrate(model, q, v):
    """Integrate v from q for one unit of time."""
    q, v = _together(model, q=(("nq",), q), v=(("nv",), v))
    moved = q.copy()
    iq, iv = _single(model)
    moved[..., iq] += v[..., iv]
    for group, sq, sv in _several(model):
        moved[..., sq] = group.integrate(q[..., sq], v[..., sv])
    return moved


def difference(model, q0, q1):
    """The v that moves q0 to q1 in one unit of time."""
    q0, q1 = _together(model, q0=(("nq",), q0), q1=(("nq",), q1))
    v = np.zeros((*q0.shape[:-1], model.nv))
    iq, iv = _single(model)
    v[..., iv] = q1[..., iq] - q0[..., iq]
    for group, sq, sv in _several(model):
        v[..., sv] = group.difference(q0[..., sq], q1[..., sq])
    return v


def d_integrate(model, q, v):
    """Derivatives of ``integrate`` with respect to q and v, at the result."""
    _, v = _together(model, q=(("nq",), q), v=(("nv",), v))
    dq, dv = _identities(model, v), _identities(model, v)
    for group, _, sv in _several(model):
        twist = group.twist(v[..., sv])
        dq[..., sv, sv] = group.block(lie.se3_adjoint(*lie.se3_exp(-twist)))
        dv[..., sv, sv] = group.block(lie.se3_jexp(twist))
    return dq, dv


def d_difference(model, q0, q1):
    """Derivatives of ``difference`` with respect to q0 and q1."""
    v = difference(model, q0, q1)
    d0, d1 = -_identities(model, v), _identities(model, v)
    for group, _, sv in _several(model):
        twist = group.twist(v[..., sv])
        d0[..., sv, sv] = -group.block(lie.se3_jlog(-twist))
        d1[..., sv, sv] = group.block(lie.se3_jlog(twist))
    return d0, d1


def _identities(model, v):
    """An identity matrix for each velocity, writable."""
    return np.tile(np.eye(model.nv), (*v.shape[:-1], 1, 1))


def distance(model, q0, q1):
    """The length of the difference of two configurations."""
    length = np.linalg.norm(difference(model, q0, q1), axis=-1)
    return length if length.ndim else float(length)


def normalize(model, q):
    """A copy of q with quaternions of length 1."""
    q, _ = as_array(model, "q", ("nq",), q)
    require_finite(model, "q", ("nq",), q)
    q = q.copy()
    for k in model._unit_quaternions:
        x = q[..., k:k + 4]
        largest = np.abs(x).max(-1, keepdims=True)      # avoids underflow and overflow of the norm
        _require_not_zero(model, largest[..., 0], k)
        x[...] = _normalized(x / largest)
    return q


def _require_not_zero(model, size, k):
    if not size.all():
        row = "".join(f"{n}, " for n in np.argwhere(size == 0.0)[0])
        raise ValueError(f"q: expected a quaternion (x y z w) that is not zero in "
                         f"q[{row}{k}:{k + 4}]{coordinate(model, ('nq',), (k,))}, got 0 0 0 0; "
                         "use 0 0 0 1 for no rotation")


def is_normalized(model, q, tolerance):
    """Whether all quaternions of a configuration are unit."""
    q, _ = as_array(model, "q", ("nq",), q)
    require_finite(model, "q", ("nq",), q)
    tolerance = finite_array("tolerance", tolerance, ())
    if tolerance <= 0.0:
        raise ValueError(f"tolerance: expected a number above 0, got {tolerance:g}; it applies to "
                         "the squared lengths of quaternions")
    unit = np.ones(q.shape[:-1], bool)
    with np.errstate(over="ignore"):
        for k in model._unit_quaternions:
            unit &= np.abs(np.sum(q[..., k:k + 4] ** 2, -1) - 1.0) < tolerance
    return unit if unit.ndim else bool(unit)


def interpolate(model, q0, q1, u):
    """Interpolate from q0 to q1 by the fraction u."""
    step = difference(model, q0, q1)
    expected = "u: expected a finite number, or one for each state of a batch"
    try:
        u = np.asarray(u, dtype=float)
    except (TypeError, ValueError):
        raise ValueError(f"{expected}, got {u!r:.80}") from None
    if u.ndim > 1 or not np.isfinite(u).all() or (
            u.ndim == 1 and step.ndim == 2 and len(u) != len(step)):
        raise ValueError(f"{expected}, got shape {u.shape}: {u!r:.80}")
    return integrate(model, q0, u[..., None] * step)


def random_configuration(model, rng):
    """A configuration inside the limits, (nq,); limits beyond 1e4 rad or m are ignored."""
    lower, upper = model.lower.copy(), model.upper.copy()
    for joint, start, nq in zip(model.tree.joints, model.idx_q, model.nqs):
        angle = {"revolute": start, "continuous": start, "planar": start + 2}.get(joint.kind)
        for k in range(start, start + nq):
            reach = np.pi if k == angle else 1.0
            if lower[k] < -_UNLIMITED:
                lower[k] = max(lower[k], min(-reach, upper[k] - 2.0 * reach))
            if upper[k] > _UNLIMITED:
                upper[k] = min(upper[k], max(reach, lower[k] + 2.0 * reach))
    q = rng.uniform(lower + 0.0, upper + 0.0)       # uniform rejects 0.0 to -0.0
    for k in model._unit_quaternions:
        x = rng.standard_normal(4)
        q[k:k + 4] = x / np.linalg.norm(x)
    return q
