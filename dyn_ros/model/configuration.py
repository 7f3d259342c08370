"""The space of configurations: how q moves along a velocity, and what lies between two q."""
import numpy as np

from ..spatial import lie
from .inputs import as_array


def _together(model, **arguments):
    """The checked arguments with one common leading axis, or none."""
    arrays = {name: as_array(model, name, axes, value)
              for name, (axes, value) in arguments.items()}
    sizes = {name: len(array) for name, (array, batched) in arrays.items() if batched}
    if len(set(sizes.values())) > 1:
        raise ValueError("expected batches of one size, got "
                         + ", ".join(f"{name}: {size}" for name, size in sizes.items()))
    lead = (next(iter(sizes.values())),) if sizes else ()
    return [np.broadcast_to(array, lead + array.shape[batched:])
            for array, batched in arrays.values()]


def _single(model):
    """Indices into q and v of the coordinates that are plain numbers."""
    pairs = [(q, v) for q, v, nq in zip(model.idx_q, model.idx_v, model.nqs) if nq == 1]
    return tuple(np.array(pairs, dtype=int).reshape(-1, 2).T)


def _several(model, kind):
    """Slices of q and v of every joint of a kind with several coordinates."""
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
    """q moved along v for one unit of time."""
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


def random_configuration(model, rng):
    """A configuration inside the limits, (nq,)."""
    lower = np.where(np.isfinite(model.lower), model.lower, -1.0)
    upper = np.where(np.isfinite(model.upper), model.upper, 1.0)
    for joint, k, nq in zip(model.tree.joints, model.idx_q, model.nqs):
        angle = {"revolute": k, "continuous": k, "planar": k + 2}.get(joint.kind)
        if nq and angle is not None and not np.isfinite(model.upper[angle] - model.lower[angle]):
            lower[angle], upper[angle] = -np.pi, np.pi
    q = rng.uniform(lower, upper)
    for k in model._unit_quaternions:
        x = rng.standard_normal(4)
        q[k:k + 4] = x / np.linalg.norm(x)
    return q
