# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The configuration space: integration, difference and interpolation."""
import numpy as np

from ..spatial import lie
from .inputs import as_array, require_valid

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


def _several(model, kind):
    """Slices of q and v of all joints of a kind that has several coordinates."""
    for joint, q, nq, v, nv in zip(model.tree.joints, model.idx_q, model.nqs, model.idx_v,
                                   model.nvs):
        if joint.kind == kind:
            yield slice(q, q + nq), slice(v, v + nv)


def neutral(model):
    """The configuration of zeros and identity rotations, (nq,)."""
    q = np.zeros(model.nq)
    for k in model._unit_quaternions:
        q[k + 3] = 1.0
    return q


def _turn(angle, xy):
    c, s = np.cos(angle)[..., None], np.sin(angle)[..., None]
    x, y = xy[..., :1], xy[..., 1:]
    return np.concatenate([c * x - s * y, s * x + c * y], -1)


def integrate(model, q, v):
    """Integrate v from q for one unit of time."""
    q, v = _together(model, q=(("nq",), q), v=(("nv",), v))
    moved = q.copy()
    iq, iv = _single(model)
    moved[..., iq] += v[..., iv]
    for sq, sv in _several(model, "floating"):
        p, turn = lie.se3_exp(v[..., sv])
        here = q[..., sq]
        rotation = lie.quaternion_product(here[..., 3:], turn)
        rotation = rotation / np.linalg.norm(rotation, axis=-1, keepdims=True)
        moved[..., sq] = np.concatenate([here[..., :3] + lie.rotate(here[..., 3:], p), rotation],
                                        -1)
    for sq, sv in _several(model, "planar"):
        step, here = lie.se2_exp(v[..., sv]), q[..., sq]
        moved[..., sq] = np.concatenate([here[..., :2] + _turn(here[..., 2], step[..., :2]),
                                         here[..., 2:] + step[..., 2:]], -1)
    return moved


def difference(model, q0, q1):
    """The v that moves q0 to q1 in one unit of time."""
    q0, q1 = _together(model, q0=(("nq",), q0), q1=(("nq",), q1))
    v = np.zeros((*q0.shape[:-1], model.nv))
    iq, iv = _single(model)
    v[..., iv] = q1[..., iq] - q0[..., iq]
    for sq, sv in _several(model, "floating"):
        a, b = q0[..., sq], q1[..., sq]
        back = lie.conjugate(a[..., 3:])
        v[..., sv] = lie.se3_log(lie.rotate(back, b[..., :3] - a[..., :3]),
                                 lie.quaternion_product(back, b[..., 3:]))
    for sq, sv in _several(model, "planar"):
        a, b = q0[..., sq], q1[..., sq]
        v[..., sv] = lie.se2_log(np.concatenate(
            [_turn(-a[..., 2], b[..., :2] - a[..., :2]), b[..., 2:] - a[..., 2:]], -1))
    return v


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
