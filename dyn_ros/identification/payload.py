# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The parameters of a payload, from a few poses or a motion."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.special import stdtrit

from ..engine.algorithms import joint_torque_regressor, rnea
from ..engine.algorithms.dynamics.friction import without_friction
from ..engine.call.data import Data
from ..engine.kernel.types import Array, ArrayLike
from ..engine.kernel.validation import one_each, require_model
from ..engine.model import Model
from ..engine.model.parameters import from_pseudo_inertia, pseudo_inertia
from ..engine.spatial.inertia import Inertia
from ..engine.spatial.value import require
from .base_parameters import NUMBERS
from .friction_terms import friction_directions
from .motion.losses import Losses, losses, rest_of
from .motion.numerics import BLOCK, FOLDS, ROUNDS
from .normal_equations import correlation_length, leave_one_out_changes
from .physical import MASSLESS, decomposed, fit_physical
from .samples import Samples

_DENSITY = 1000.0  # kg/m3: of the sphere that stands for what the samples do not determine
_CERTAIN = 3.0  # intervals below zero: a mass is negative
_LITTLE = 0.01  # of the mass of the robot: which it is certain to notice
_TYPICAL = np.repeat([1.0, 0.1, 0.01], [1, 3, 6])  # per kg: lengths of 0.1 m
_MOMENTS = np.array([[4, 5, 7], [5, 6, 8], [7, 8, 9]])  # Ixx ... Izz of the ten numbers


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
    com_lower, com_upper : (3,) ndarray
        95 % confidence intervals of the center of mass [m]; infinite where it is not determined,
        or the mass may be zero.
    inertia_lower, inertia_upper : (3, 3) ndarray
        95 % confidence intervals of the inertia [kg m2]; infinite where it is not determined.
    determined : tuple of str
        Which of the ten the samples determine, such as "m" and "m cx". The others are as in a
        sphere of water with this mass and center.
    before, after : (nv,) ndarray
        RMS difference of measured and modeled torque without the payload, and with it and with the
        friction that was estimated [N m, N]. Of the motors, if these are coupled.

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
    com_lower: Array
    com_upper: Array
    inertia_lower: Array
    inertia_upper: Array
    determined: tuple[str, ...]
    before: Array
    after: Array


def identify_payload(
    model: Model,
    samples: Samples,
    frame: str | int,
    *,
    offset: ArrayLike | None = None,
    noise: ArrayLike | None = None,
    friction: bool | None = None,
) -> PayloadEstimate:
    """Estimate mass, center of mass and inertia of a payload from measured torques.

    The robot's own parameters and payloads are from the model. A few poses at rest, with
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
    friction : bool, optional
        Also estimate by how much Coulomb, viscous and load friction and the offset of joints that
        move differ from the model, as they do from day to day: True, or None, the
        default: of joints that move in both directions. False: friction is as in the model.

    Raises
    ------
    ValueError
        An unknown frame, one that nothing moves, a mass that is certainly negative, or samples
        that do not determine the mass, with the reason.

    References
    ----------
    Atkeson, C., An, C. and Hollerbach, J.: Estimation of inertial parameters of manipulator loads
    and links. International Journal of Robotics Research 5 (1986).
    Cameron, A. C., Gelbach, J. and Miller, D.: Robust inference with multiway clustering. Journal
    of Business and Economic Statistics 29 (2011), for the intervals: errors of the model last, and
    errors of one joint are alike.

    Examples
    --------
    The arm carries 0.5 kg, 0.1 m in front of the tool:

    >>> found = dyn_ros.identify_payload(model, loaded, "tool")
    >>> round(found.mass, 3), np.allclose(found.com, [0.0, 0.0, 0.1], atol=1e-3)
    (0.5, True)
    """
    require_model(model)
    if require("samples", samples, Samples).contacts:
        raise ValueError(
            "samples: expected a robot without contacts, got "
            f"{', '.join(samples.contacts)}; record it without, or pass the measured "
            "forces as f_ext to Samples.from_arrays"
        )
    index = _frame_index(model, frame)
    name = model.frame_names[index]
    direction = friction_directions(model.drives, samples)
    W, y = _equations(model, samples, direction, index, offset)
    lost, used = losses(model, samples.v, samples.tau, samples.weight, direction, friction)
    W[~used] = y[~used] = 0.0
    sigma = None if noise is None else one_each("noise", noise, model.nv)
    if sigma is not None and not (sigma > 0.0).all():
        raise ValueError(
            f"noise: expected positive numbers, got {sigma.min():g}; pass None to estimate it"
        )
    solved = _solved(W, y, lost, sigma)
    value, (deviation, half) = solved.value, _spread(solved, np.eye(10))
    mass = max(abs(value[0]), MASSLESS)
    known = solved.known & (
        deviation < np.append(max(mass, _LITTLE * model.total_mass), _TYPICAL[1:] * mass)
    )
    if not known[0]:
        raise ValueError(
            f"samples: they do not determine the mass of a payload on {name!r}"
            f": {_units(model, samples) or _reason(model, name, solved, half[0])}"
        )
    deviation, half = np.where(known, (deviation, half), np.inf)
    is_empty = value[0] <= 0.0
    if is_empty and value[0] + _CERTAIN * half[0] < 0.0:
        raise ValueError(
            f"samples: the mass of a payload on {name!r} would be {value[0]:.3g} kg, "
            "which is not physical: "
            + (
                _units(model, samples)
                or ("check the signs and units of the efforts, and that the model has no payload")
            )
        )
    body = (
        np.zeros(10)
        if is_empty
        else fit_physical(solved.H, solved.g, _sphere(value, known), np.zeros(10, int), np.ones(10))
    )
    com, inertia = _central(body)
    ends = _central_intervals(solved, known & (value[0] > half[0]))
    return PayloadEstimate(
        frame=name,
        mass=float(body[0]),
        com=com,
        inertia=inertia,
        deviation=deviation,
        lower=value - half,
        upper=value + half,
        **ends,
        determined=tuple(number for number, is_known in zip(NUMBERS, known) if is_known),
        before=np.sqrt((y**2).sum(axis=0) / lost.rows),
        after=np.sqrt((solved.rest(y - W @ body) ** 2).sum(axis=0) / lost.rows),
    )


def _units(model: Model, samples: Samples) -> str:
    """What contradicts efforts that are torques; empty if nothing does."""
    from .solution import effort_unit_warnings

    first, *others = effort_unit_warnings(model, samples) or [""]
    return first + (f" ({len(others)} more like this)" if others else "")


def _reason(model: Model, name: str, solved: _Solved, half: float) -> str:
    """Why the mass on a frame is not determined, and what would help."""
    weight = np.linalg.norm(solved.PW[..., 0], axis=0) / solved.sigma
    if not solved.known[0]:
        why = (
            "its weight and its center have the same effect on all torques"
            if weight.any()
            else "its weight acts on no joint in these samples"
        )
        return f"{why}; record poses in which gravity has other directions in this frame"
    k = int(np.argmax(weight))
    return (
        f"it would be {solved.value[0]:.2g} kg +- {half:.2g} kg, since the model explains the "
        f"torque of {model.velocity_names[k]} with an error of {solved.sigma[k]:.2g} N m or N; "
        "record more motion or poses, or identify the robot and its friction first"
    )


def _central(body: Array) -> tuple[Array, Array]:
    """Center of mass, and inertia about it."""
    com = body[1:4] / max(body[0], 1e-300)
    P = pseudo_inertia(body)
    second = P[:3, :3] - body[0] * np.outer(com, com)
    return com, np.trace(second) * np.eye(3) - second


def _central_intervals(solved: _Solved, known: np.ndarray) -> dict[str, Array]:
    """Intervals of the center of mass and of the inertia about it, to the first order."""
    value, E = solved.value if known.any() else np.eye(10)[0], np.eye(3)
    com, inertia = _central(value)
    of_com, of_inertia = np.zeros((3, 10)), np.zeros((3, 3, 10))
    of_com[:, 0], of_com[:, 1:4] = -com / value[0], E / value[0]
    of_inertia[..., 0] = com @ com * E - np.outer(com, com)
    of_inertia[..., 1:4] = (
        com[:, None] * E[:, None] + com[:, None, None] * E - 2.0 * com * E[..., None]
    )
    of_inertia[..., 4:] = _MOMENTS[..., None] == np.arange(4, 10)
    half = _spread(solved, np.vstack([of_com, of_inertia.reshape(9, 10)]))[1]
    whole = known[:4].all()
    half[:3][~(known[0] & known[1:4])] = np.inf
    half[3:][~(whole & known[_MOMENTS].ravel())] = np.inf
    around = half[3:].reshape(3, 3)
    return {
        "com_lower": com - half[:3],
        "com_upper": com + half[:3],
        "inertia_lower": inertia - around,
        "inertia_upper": inertia + around,
    }


def payload_columns(model: Model, index: int) -> tuple[slice, Array]:
    """The columns of the body that carries a frame, and (10, 10) from the frame to its joint."""
    place = model.tree.frames[index]
    if place.parent < 0:
        raise ValueError(f"frame: {model.frame_names[index]!r} is fixed; name one that moves")
    X = place.placement
    own: Array = from_pseudo_inertia(X @ pseudo_inertia(np.eye(10)) @ X.T).T
    return slice(10 * place.parent, 10 * place.parent + 10), own


def _frame_index(model: Model, frame: str | int) -> int:
    index = frame if isinstance(frame, int) else model.frame_index(frame)
    if not 0 <= index < len(model.frame_names):
        raise ValueError(
            f"frame: expected a name, or an index from 0 to "
            f"{len(model.frame_names) - 1}, got {frame!r}"
        )
    return index


def _equations(
    model: Model, samples: Samples, direction: Array, index: int, offset: ArrayLike | None
) -> tuple[Array, Array]:
    """The payload's columns of the torques of motors, (B, nv, 10), and what they explain."""
    data, (columns, own), drives = Data(model), payload_columns(model, index), model.drives
    constant = 0.0 if offset is None else one_each("offset", offset, model.nv)
    W, y = [], []
    for first in range(0, len(samples), BLOCK):
        part = samples.take(slice(first, first + BLOCK))
        rows = joint_torque_regressor(model, data, part.q, part.v, part.a)[..., columns] @ own
        W.append(drives.to_motors(rows.swapaxes(1, 2)).swapaxes(1, 2))
        applied = without_friction(
            model, drives, part.v, "tau", part.tau - constant, direction[first : first + BLOCK]
        )
        y.append(
            drives.to_motors(
                applied
                - rnea(model, data, part.q, part.v, part.a, part.f_ext)
                - drives.rotor_torque(part.a)
            )
        )
    weight = np.sqrt(samples.weight)[:, None]
    return np.concatenate(W) * weight[..., None], np.concatenate(y) * weight


class _Solved(NamedTuple):
    """Least squares of a body and of changes of friction."""

    value: Array  # (10,) of the body
    H: Array  # (10, 10) and
    g: Array  # (10,) of its normal equations
    F: Array  # (10, n), with the inverse F F' of H
    known: np.ndarray  # (10,) of bool: what H determines
    lost: Losses
    inverses: list[Array]  # of the losses
    PW: Array  # (B, nv, 10), columns of the body without what the losses explain
    r: Array  # (B, nv), residuals
    sigma: Array  # (nv,), standard deviation of each motor's torque

    def rest(self, y: Array) -> Array:
        """Torques (B, nv) without what the losses explain."""
        return rest_of(y, self.lost, self.inverses)


def _solved(W: Array, y: Array, lost: Losses, noise: Array | None) -> _Solved:
    """Weighted least squares; the noise is estimated unless it is given.

    Residuals that are correlated say as much about friction as fewer ones.
    """
    least = 1e-9 + 1e-6 * np.abs(y).max()
    free = max(1.0 - 10.0 / y.size, 0.1)
    sigma, lengths, r = np.ones(y.shape[1]), np.ones(y.shape[1]), y
    for n in range(ROUNDS):
        if noise is None:
            sigma = np.maximum(np.sqrt((r**2).sum(axis=0) / lost.rows / free), least)
            lengths = np.array([correlation_length(x) for x in r.T]) if n else lengths
        else:
            sigma = noise
        inverses = lost.inverses(sigma**2 * lengths)
        PW = rest_of(W, lost, inverses)
        H = np.einsum("bki,bkj,k->ij", W, PW, sigma**-2.0, optimize=True)
        g = np.einsum("bki,bk,k->i", PW, y, sigma**-2.0, optimize=True)
        F, d, known = decomposed(H, _TYPICAL)
        F = (F * np.sqrt(d))[:, d > 0.0]
        value = F @ (F.T @ g)
        r = rest_of(y - W @ value, lost, inverses)
        if noise is not None:
            break
    return _Solved(value, H, g, F, known, lost, inverses, PW, r, sigma)


def _spread(solved: _Solved, J: Array) -> tuple[Array, Array]:
    """Standard deviations of J @ body, (n, 10) @ (10,), and half their 95 % intervals.

    Residuals of a motion are errors of the model, which last, and of a joint, in all of a
    recording: they count as independent if both joint and block of samples differ. What a block
    changes is the difference of the result without it.
    """
    F, Z, R = J @ solved.F, solved.PW @ solved.F / solved.sigma[:, None], solved.r / solved.sigma
    edges = np.linspace(0, len(Z), min(len(Z), FOLDS) + 1).astype(int)
    parts = [(Z[i:j], R[i:j]) for i, j in itertools.pairwise(edges)]
    scores = np.array([np.einsum("bki,bk->ki", z, rest, optimize=True) for z, rest in parts])
    H = np.array([np.einsum("bki,bkj->ij", z, z, optimize=True) for z, _ in parts])
    changes, cells = leave_one_out_changes(scores.sum(axis=1)[None], H[None], F)[0], scores @ F.T
    blocks, joints = len(changes), Z.shape[1]
    of_blocks = (changes**2).sum(axis=0) * (1.0 - 1.0 / blocks)
    of_joints = (cells.sum(axis=0) ** 2).sum(axis=0) * joints / max(joints - 1, 1)
    of_joints = np.maximum(of_joints - (cells**2).sum(axis=(0, 1)), 0.0)
    variance = of_blocks + of_joints
    freedom = variance**2 / np.maximum(  # Satterthwaite 1946
        of_blocks**2 / max(blocks - 1, 1) + of_joints**2 / max(joints - 1, 1), 1e-300
    )
    for k, (C, size) in enumerate(zip(solved.lost.columns, solved.lost.sizes)):
        some = np.isfinite(size)  # what is not corrected of changes of friction
        effect = solved.PW[:, k].T @ C[:, some] * (size[some] / solved.sigma[k] ** 2)
        variance += ((F @ (solved.F.T @ effect)) ** 2).sum(axis=1)
    # with a few poses, the scatter of their residuals says little; noise alone is the least
    deviation = np.sqrt(np.maximum(variance, (F**2).sum(axis=1)))
    return deviation, stdtrit(np.maximum(freedom, 1.0), 0.975) * deviation


def _sphere(value: Array, known: np.ndarray) -> Array:
    """A sphere of water with the mass and center that are known."""
    mass = max(value[0], MASSLESS)
    com = np.where(known[1:4], value[1:4], 0.0) / mass
    radius = (0.75 * mass / (np.pi * _DENSITY)) ** (1.0 / 3.0)
    return Inertia(mass, com, np.eye(3) * 0.4 * mass * radius**2).dynamic_parameters()
