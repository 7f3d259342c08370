# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The parameters of a payload, from a few poses or a motion."""
from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import stdtrit

from ..engine.algorithms import joint_torque_regressor, rnea, torque_without_friction
from ..engine.call.data import Data
from ..engine.kernel.types import Array, ArrayLike
from ..engine.model import Model
from ..engine.model.inputs import one_each, require_model
from ..engine.model.parameters import from_pseudo_inertia, pseudo_inertia
from ..engine.spatial.inertia import Inertia
from ..engine.spatial.value import require
from .base_parameters import NUMBERS
from .motion.filtering import is_actuated
from .normal_equations import correlation_length
from .physical import decomposed, fit
from .samples import Samples

_PART = 4096
_DENSITY = 1000.0       # kg/m3: of the sphere that stands for what the samples do not determine
_LIGHTEST = 1e-3        # kg
_CERTAIN = 3.0          # intervals below zero: a mass is negative
_LITTLE = 0.01          # of the mass of the robot: which it is certain to notice
_TYPICAL = np.repeat([1.0, 0.1, 0.01], [1, 3, 6])       # per kg: lengths of 0.1 m
_SINGULAR = 1e-12       # of the largest eigenvalue of the scaled normal equations
_MOVES = 0.01           # rad/s, m/s: a joint that is never faster is at rest
_SLOW = 0.05            # of its largest velocity: Coulomb friction has no definite sign below
_WHITE = 1.5            # samples: noise that is correlated over fewer counts as independent
_LENGTHS = 3.0          # correlation lengths of a block
_FEWEST_BLOCKS = 8
_FEWEST = 20            # samples in which a joint moves, to determine its friction


@dataclass(frozen=True)
class PayloadEstimate:
    """The result of ``dyn_ros.identify_payload``.

    Attributes
    ----------
    frame : str
        Frame in which the values are expressed.
    mass : float
        [kg]; 0 if there is no payload.
    com : (3,) ndarray
        Center of mass [m].
    inertia : (3, 3) ndarray
        About the center of mass [kg m2]. Physical together with mass and com.
    deviation : (10,) ndarray
        Standard deviations of m, m cx, m cy, m cz, Ixx, Ixy, Iyy, Ixz, Iyz, Izz about the frame's
        origin, as the samples determine them [kg, kg m, kg m2]; infinite if they do not.
    lower, upper : (10,) ndarray
        95 % confidence intervals of the same.
    determined : tuple of str
        Which of these the samples determine, such as "m" and "m cx". The others are those of a
        sphere of water with this mass and center.
    before, after : (nv,) ndarray
        RMS difference of measured and modeled torque without and with the payload [N m, N].

    Examples
    --------
    >>> found = dyn_ros.identify_payload(model, loaded, "tool")
    >>> print(found.frame, round(found.mass, 3), "m" in found.determined)
    tool 0.5 True
    """

    frame: str
    mass: float
    com: Array
    inertia: Array
    deviation: Array
    lower: Array
    upper: Array
    determined: tuple[str, ...]
    before: Array
    after: Array


def identify_payload(model: Model, samples: Samples, frame: str | int, *,
                     offset: ArrayLike | None = None, noise: ArrayLike | None = None,
                     friction: bool = False) -> PayloadEstimate:
    """Estimate mass, center of mass and inertia of a payload from measured torques.

    The robot's own parameters and payloads are those of the model. A few poses at rest, with
    different directions of gravity in the frame, determine mass and center of mass; the inertia
    requires rotations with acceleration. The result is physical.

    Parameters
    ----------
    model : Model
        Of the robot without the payload; best after ``identify``.
    samples : Samples
        With the payload. At rest, friction makes the torque of a joint uncertain: include motions
        between the poses, or approach each of them from both directions.
    frame : str or int
        Name or index of the frame in which the result is expressed, and whose link carries the
        payload.
    offset : (nv,) array_like, optional
        Constant torques to subtract, in addition to ``model.drives.offset`` [N m, N].
    noise : (nv,) array_like, optional
        Standard deviation of the measured torques [N m, N]. Estimated by default.
    friction : bool
        Also estimate by how much the Coulomb and viscous friction of joints that move differs from
        that of the model. This requires motions in both directions: for some seconds at least.

    Raises
    ------
    ValueError
        An unknown frame, one that nothing moves, samples that do not determine the mass, or a
        mass that is certainly negative.

    References
    ----------
    Atkeson, C., An, C. and Hollerbach, J.: Estimation of inertial parameters of manipulator loads
    and links. International Journal of Robotics Research 5 (1986).

    Examples
    --------
    The arm carries 0.5 kg, 0.1 m in front of the tool:

    >>> found = dyn_ros.identify_payload(model, loaded, "tool")
    >>> round(found.mass, 3), np.allclose(found.com, [0.0, 0.0, 0.1], atol=1e-3)
    (0.5, True)
    """
    require_model(model)
    if require("samples", samples, Samples).contacts:
        raise ValueError("samples: expected a robot without contacts, got "
                         f"{', '.join(samples.contacts)}; record it without, or pass the measured "
                         "forces as f_ext to Samples.from_arrays")
    W, y = _equations(model, samples, frame, offset)
    before = np.sqrt((y ** 2).mean(axis=0))
    count = (_eliminate_friction(model, samples, W, y) if friction
             else np.full(model.nv, len(y)))
    sigma = _noise(W, y, count) if noise is None else one_each("noise", noise, model.nv)
    if not (sigma > 0.0).all():
        raise ValueError(f"noise: expected positive numbers, got {sigma.min():g}; pass None to "
                         "estimate it")
    H, g, value, inverse, known = _least_squares(W, y, sigma, _LITTLE * model.total_mass)
    if not known[0]:
        raise ValueError(f"samples: they do not determine the mass of a payload on {frame!r}; "
                         "record poses in which gravity has other directions in this frame")
    is_empty = value[0] <= 0.0
    body = np.zeros(10) if is_empty else fit(H, g, _sphere(value, known), np.zeros(10, int),
                                             np.ones(10))
    rest = y - W @ (value if is_empty else body)
    changes = np.einsum("ij,bkj,bk,k->ikb", inverse, W, rest, sigma ** -2.0, optimize=True)
    scatter, blocks = _scatter(changes)
    # with a few poses, the scatter of their residuals says little; noise alone is the least
    variance = np.maximum(scatter, np.diag(inverse))
    deviation = np.where(known, np.sqrt(variance), np.inf)
    mass, com = body[0], body[1:4] / max(body[0], 1e-300)
    P = pseudo_inertia(body)
    second = P[:3, :3] - mass * np.outer(com, com)
    interval = float(stdtrit(blocks - 1, 0.975)) * deviation
    if is_empty and value[0] + _CERTAIN * interval[0] < 0.0:
        raise ValueError(f"samples: the mass of a payload on {frame!r} would be {value[0]:.3g} kg, "
                         "which is not physical: check the signs and units of the efforts, and "
                         "that the model has no payload")
    return PayloadEstimate(
        frame=model.frame_names[frame] if isinstance(frame, int) else frame, mass=float(mass),
        com=com, inertia=np.trace(second) * np.eye(3) - second, deviation=deviation,
        lower=np.where(known, value - interval, -np.inf),
        upper=np.where(known, value + interval, np.inf),
        determined=tuple(name for name, is_known in zip(NUMBERS, known) if is_known),
        before=before, after=np.sqrt(((y - W @ body) ** 2).sum(axis=0) / count))


def _scatter(changes: Array) -> tuple[Array, int]:
    """Variances of the result from what each equation changes in it, (10, nv, B); and blocks.

    Residuals of a motion are errors of the model, which last, and of a joint, in all of a
    recording: they count as independent if both joint and block of samples differ (Cameron, Gelbach
    and Miller 2011). Blocks are longer than the correlation of residuals.
    """
    joints, count = changes.shape[1:]
    length = max(correlation_length(one) for one in changes.sum(axis=1))
    if length < _WHITE:
        return (changes.sum(axis=1) ** 2).sum(axis=1) * count / max(count - 1, 1), max(count, 2)
    size = max(1, min(round(_LENGTHS * length), count // _FEWEST_BLOCKS))
    cells = np.add.reduceat(changes, np.arange(0, count, size), axis=2)
    blocks = max(cells.shape[2], 2)
    both = (cells ** 2).sum(axis=(1, 2))
    of_blocks = (cells.sum(axis=1) ** 2).sum(axis=1) * blocks / (blocks - 1)
    of_joints = (cells.sum(axis=2) ** 2).sum(axis=1) * joints / max(joints - 1, 1)
    return np.maximum(of_blocks + of_joints - both, of_blocks), blocks


def payload_columns(model: Model, index: int) -> tuple[slice, Array]:
    """The columns of the body that carries a frame, and (10, 10) from the frame to its joint."""
    place = model.tree.frames[index]
    if place.parent < 0:
        raise ValueError(f"frame: {model.frame_names[index]!r} is fixed; name one that moves")
    X = place.placement
    own: Array = from_pseudo_inertia(X @ pseudo_inertia(np.eye(10)) @ X.T).T
    return slice(10 * place.parent, 10 * place.parent + 10), own


def _equations(model: Model, samples: Samples, frame: str | int,
               offset: ArrayLike | None) -> tuple[Array, Array]:
    """The payload's columns of the regressor, (B, nv, 10), and the torques that it explains."""
    index = frame if isinstance(frame, int) else model.frame_index(frame)
    if not 0 <= index < len(model.frame_names):
        raise ValueError(f"frame: expected a name, or an index from 0 to "
                         f"{len(model.frame_names) - 1}, got {frame!r}")
    data, (columns, own) = Data(model), payload_columns(model, index)
    constant = 0.0 if offset is None else one_each("offset", offset, model.nv)
    W, y = [], []
    for first in range(0, len(samples), _PART):
        part = samples.take(slice(first, first + _PART))
        W.append(joint_torque_regressor(model, data, part.q, part.v, part.a)[..., columns] @ own)
        y.append(torque_without_friction(model, part.v, part.tau - constant)
                 - rnea(model, data, part.q, part.v, part.a, part.f_ext))
    weight = np.sqrt(samples.weight)[:, None]
    return np.concatenate(W) * weight[..., None], np.concatenate(y) * weight


def _eliminate_friction(model: Model, samples: Samples, W: Array, y: Array) -> Array:
    """Remove what friction can explain from the equations of joints that move, in place.

    What remains is orthogonal to the friction's columns, sign(v) and v, which has the same effect
    as estimating their factors too. Slow samples of such joints are left out, and joints with
    Coulomb friction that rest while others move. Returns how many equations of each row count,
    (nv,).
    """
    weight, count = np.sqrt(samples.weight), np.full(model.nv, len(y))
    speed = np.abs(samples.v)
    moves = speed > np.maximum(_MOVES, _SLOW * speed.max(axis=0))
    in_motion = moves.any(axis=1)
    for k in np.flatnonzero(is_actuated(model)):
        fast = moves[:, k]
        if np.sum(fast) < _FEWEST:      # what it withstands at rest changes with the motion
            used = ~in_motion if model.friction[k] > 0.0 else np.ones(len(y), bool)
            columns = np.zeros((len(y), 0))
        else:
            used = fast
            columns = (used * weight)[:, None] * np.stack(
                [np.sign(samples.v[:, k]), samples.v[:, k]], axis=1)
        W[~used, k] = y[~used, k] = 0.0
        Q = np.linalg.qr(columns)[0]
        W[:, k] -= Q @ (Q.T @ W[:, k])
        y[:, k] -= Q @ (Q.T @ y[:, k])
        count[k] = max(np.sum(used), 1)
    return count


def _noise(W: Array, y: Array, count: Array) -> Array:
    """Standard deviation of the torques of each row, of which some equations count, (nv,)."""
    sigma = np.ones(y.shape[1])
    for _ in range(5):
        r = y - W @ _least_squares(W, y, sigma)[2]
        free = max(1.0 - 10.0 / y.size, 0.1)
        sigma = np.maximum(np.sqrt((r ** 2).sum(axis=0) / count / free),
                           1e-9 + 1e-6 * np.abs(y).max())
    return sigma


def _least_squares(W: Array, y: Array, sigma: Array, little: float = 0.0
                   ) -> tuple[Array, Array, Array, Array, np.ndarray]:
    """H, g, H^-1 g, H^-1, and which values the samples determine better than guesses.

    A mass is determined with a standard deviation of ``little``, however small it is.
    """
    H = np.einsum("bki,bkj,k->ij", W, W, sigma ** -2.0)
    g = np.einsum("bki,bk,k->i", W, y, sigma ** -2.0)
    F, d, known = decomposed(H, _TYPICAL, _SINGULAR)
    inverse = F * d @ F.T
    value = inverse @ g
    deviation, mass = np.sqrt(np.diag(inverse)), max(abs(value[0]), _LIGHTEST)
    known &= deviation < np.append(max(mass, little), _TYPICAL[1:] * mass)
    return H, g, value, inverse, known


def _sphere(value: Array, known: np.ndarray) -> Array:
    """A sphere of water with the mass and center that are known."""
    mass = max(value[0], _LIGHTEST)
    com = np.where(known[1:4], value[1:4], 0.0) / mass
    radius = (0.75 * mass / (np.pi * _DENSITY)) ** (1.0 / 3.0)
    return Inertia(mass, com, np.eye(3) * 0.4 * mass * radius ** 2).dynamic_parameters()
