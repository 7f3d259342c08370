# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Estimation of the parameters of a payload, from a few poses or a motion."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.special import stdtrit

from ..engine.algorithms import joint_torque_regressor, rnea
from ..engine.algorithms.dynamics.friction import subtract_friction
from ..engine.call.data import Data
from ..engine.kernel.names import short_repr
from ..engine.kernel.types import Array, ArrayLike
from ..engine.kernel.validation import one_each, require_model
from ..engine.model import Model
from ..engine.model.parameters import from_pseudo_inertia, pseudo_inertia
from ..engine.spatial.inertia import Inertia
from ..engine.spatial.value import require_type
from .base_parameters import BODY_PARAMETERS
from .equation_sums import correlation_length, leave_one_out_changes
from .friction_terms import friction_directions
from .motion.friction_changes import (
    FrictionChanges,
    possible_friction_changes,
    remove_friction_changes,
)
from .motion.numerics import BLOCK_SIZE, FOLDS, MAX_ROUNDS, RELATIVE_TOLERANCE
from .physical import MIN_MASS, fit_physical, invert_scaled
from .samples import Samples

_WATER_DENSITY = 1000.0  # kg/m3; a sphere of water replaces what the samples do not determine
_MIN_NEGATIVE_INTERVALS = 3.0  # half widths of the interval; a mass further below 0 is rejected
_NOTICEABLE_MASS = 0.01  # relative to the robot's mass; samples must determine at least this mass
_PRIOR_FREEDOM = (
    4.0  # holds that a prior counts as; with 1, intervals of six poses hold in 87 %, not 91 %
)
_MIN_HOLDS = 2  # poses of a motor; fewer do not show its friction at rest
_TYPICAL_SIZES = np.repeat([1.0, 0.1, 0.01], [1, 3, 6])  # SI units, for 1 kg and lengths of 0.1 m
# positions of Ixx ... Izz among the ten numbers
_MOMENT_INDICES = np.array([[4, 5, 7], [5, 6, 8], [7, 8, 9]])


@dataclass(frozen=True)
class PayloadEstimate:
    """Result of ``dyn_ros.identify_payload``.

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
        95 % confidence intervals of the same ten parameters. They include noise, errors that last,
        and friction at rest, but not errors of the gains.
    com_lower, com_upper : (3,) ndarray
        95 % confidence intervals of the center of mass [m]; infinite where it is not determined,
        or the mass may be zero.
    inertia_lower, inertia_upper : (3, 3) ndarray
        95 % confidence intervals of the inertia [kg m2]; infinite where it is not determined.
    determined : tuple of str
        Parameters that the samples determine, such as "m" and "m cx". The others are as in a
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

    At rest, the friction of a joint holds a torque between its two signs, which is constant while
    the joint rests. A pose is therefore one equation for each joint, whose error is as large as the
    friction of the model, or as the differences between poses show. Joints that move are used while
    they do.

    Parameters
    ----------
    model : Model
        The robot without the payload; best after ``identify``.
    samples : Samples
        A recording with the payload: a slow motion of all joints in both directions, or poses.
        A single pose requires that the friction of the model is known, or ``is_link_side`` of its
        drives.
    frame : str or int
        Name or index of the frame in which the result is expressed, and whose link carries the
        payload.
    offset : (nv,) array_like, optional
        Constant torques to subtract, in addition to ``model.drives.offset`` [N m, N].
    noise : (nv,) array_like, optional
        Standard deviation of the measured torques, at rest of their mean in a pose, including
        friction [N m, N]. Estimated by default.
    friction : bool, optional
        Also estimate changes of Coulomb, viscous and load friction and of the offset since the
        model was identified, as they happen from day to day. True: of all joints that move; None,
        the default: of joints that move in both directions, or whose friction the model does not
        have; False: of none, and a joint without friction in the model has none.

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
    if require_type("samples", samples, Samples).contacts:
        raise ValueError(
            "samples: expected a robot without contacts, got "
            f"{', '.join(samples.contacts)}; record it without, or pass the measured "
            "forces as f_ext to Samples.from_arrays"
        )
    index = _frame_index(model, frame)
    name = model.frame_names[index]
    direction = friction_directions(model.drives, samples)
    sigma = None if noise is None else one_each("noise", noise, model.nv)
    if sigma is not None and not (sigma > 0.0).all():
        raise ValueError(
            f"noise: expected positive numbers, got {sigma.min():g}; pass None to estimate it"
        )
    changes = possible_friction_changes(
        model,
        samples.q,
        samples.v,
        samples.tau,
        samples.weight,
        direction,
        friction,
        samples.repeats,
    )
    if sigma is not None:
        changes = changes._replace(stiction=sigma)
    direction[changes.holds >= 0] = 0.0
    equations = _merge_holds(
        *_payload_equations(model, samples, direction, index, offset), samples.weight, changes
    )
    W, y = equations.W, equations.y
    fit = _fit_payload(equations, sigma)
    value, center = fit.value, fit.value if fit.value[0] > 0.0 else np.eye(10)[0]
    deviations, half_widths = _standard_deviations(
        fit, np.vstack([np.eye(10), _central_gradient(center)])
    )
    deviation, half_width = deviations[:10], half_widths[:10]
    is_empty = value[0] <= 0.0
    is_negative = is_empty and value[0] + _MIN_NEGATIVE_INTERVALS * half_width[0] < 0.0
    mass = max(-value[0] if is_negative else value[0], MIN_MASS)
    is_determined = fit.is_determined & (
        deviation
        < np.append(max(mass, _NOTICEABLE_MASS * model.total_mass), _TYPICAL_SIZES[1:] * mass)
    )
    if not is_determined[0]:
        reason = _unit_contradiction(model, samples)
        reason = reason or _undetermined_reason(model, name, fit, half_width[0])
        raise ValueError(
            f"samples: they do not determine the mass of a payload on {name!r}: {reason}"
        )
    deviation, half_width = np.where(is_determined, (deviation, half_width), np.inf)
    if is_negative:
        raise ValueError(
            f"samples: the mass of a payload on {name!r} would be {value[0]:.3g} kg, "
            "which is not physical: "
            + (
                _unit_contradiction(model, samples)
                or ("check the signs and units of the efforts, and that the model has no payload")
            )
        )
    body = (
        np.zeros(10)
        if is_empty
        else fit_physical(
            fit.H, fit.g, _reference_sphere(value, is_determined), np.zeros(10, int), np.ones(10)
        )
    )
    com, inertia = _center_and_inertia(body)
    intervals = _central_intervals(
        center, half_widths[10:], is_determined & (value[0] > half_width[0])
    )
    return PayloadEstimate(
        frame=name,
        mass=float(body[0]),
        com=com,
        inertia=inertia,
        deviation=deviation,
        lower=value - half_width,
        upper=value + half_width,
        **intervals,
        determined=tuple(
            number for number, is_known in zip(BODY_PARAMETERS, is_determined) if is_known
        ),
        before=np.sqrt((y**2).sum(axis=0) / np.maximum(equations.counts, 1.0)),
        after=np.sqrt(
            (fit.project(y - W @ body) ** 2).sum(axis=0) / np.maximum(equations.counts, 1.0)
        ),
    )


def _unit_contradiction(model: Model, samples: Samples) -> str:
    """Return a sentence if efforts cannot be torques, else an empty string."""
    from .solution import effort_unit_warnings

    first, *further = effort_unit_warnings(model, samples) or [""]
    return first + (f" ({len(further)} more like this)" if further else "")


def _undetermined_reason(model: Model, name: str, fit: _PayloadFit, half_width: float) -> str:
    """Return why the mass on a frame is not determined, and a remedy."""
    weight = np.linalg.norm(fit.PW[..., 0], axis=0) / fit.sigma
    stuck = np.flatnonzero(fit.equations.is_loaded & (fit.equations.counts == 0.0))
    if len(stuck):
        names = ", ".join(model.velocity_names[k] for k in stuck)
        return (
            f"the friction of {names} at rest may hold it; record a slow motion of all joints in "
            "both directions, or several poses, or, for a single pose, add the friction to the "
            "description or the drives ('side: link' if sensors are behind the gears)"
        )
    if not fit.is_determined[0]:
        reason = (
            "its weight and its center have the same effect on all torques"
            if weight.any()
            else "its weight acts on no joint in these samples"
        )
        return f"{reason}; record poses in which gravity has other directions in this frame"
    k = int(np.argmax(weight))
    return (
        f"it would be {fit.value[0]:.2g} kg +- {half_width:.2g} kg, since the model explains the "
        f"torque of {model.velocity_names[k]} with an error of {fit.sigma[k]:.2g} N m or N; "
        "record more motion or poses, or identify the robot and its friction first"
    )


def _center_and_inertia(body: Array) -> tuple[Array, Array]:
    """Return the center of mass, and the inertia about it."""
    com = body[1:4] / max(body[0], 1e-300)
    P = pseudo_inertia(body)
    second = P[:3, :3] - body[0] * np.outer(com, com)
    return com, np.trace(second) * np.eye(3) - second


def _central_gradient(value: Array) -> Array:
    """Return the derivatives (12, 10) of the center of mass, and of the inertia about it."""
    com, identity = value[1:4] / value[0], np.eye(3)
    com_gradient, inertia_gradient = np.zeros((3, 10)), np.zeros((3, 3, 10))
    com_gradient[:, 0], com_gradient[:, 1:4] = -com / value[0], identity / value[0]
    inertia_gradient[..., 0] = com @ com * identity - np.outer(com, com)
    inertia_gradient[..., 1:4] = (
        com[:, None] * identity[:, None]
        + com[:, None, None] * identity
        - 2.0 * com * identity[..., None]
    )
    inertia_gradient[..., 4:] = _MOMENT_INDICES[..., None] == np.arange(4, 10)
    return np.vstack([com_gradient, inertia_gradient.reshape(9, 10)])


def _central_intervals(
    value: Array, half_width: Array, is_determined: np.ndarray
) -> dict[str, Array]:
    """Return intervals of the center of mass and of the inertia, from half widths (12,)."""
    com, inertia = _center_and_inertia(value)
    has_center = is_determined[:4].all()
    half_width[:3][~(is_determined[0] & is_determined[1:4])] = np.inf
    half_width[3:][~(has_center & is_determined[_MOMENT_INDICES].ravel())] = np.inf
    inertia_half_width = half_width[3:].reshape(3, 3)
    return {
        "com_lower": com - half_width[:3],
        "com_upper": com + half_width[:3],
        "inertia_lower": inertia - inertia_half_width,
        "inertia_upper": inertia + inertia_half_width,
    }


def payload_columns(model: Model, index: int) -> tuple[slice, Array]:
    """Return the columns of the body that carries a frame, and (10, 10) from frame to joint."""
    owner = model.tree.frames[index]
    if owner.parent < 0:
        raise ValueError(f"frame: {model.frame_names[index]!r} is fixed; name one that moves")
    X = owner.placement
    transform: Array = from_pseudo_inertia(X @ pseudo_inertia(np.eye(10)) @ X.T).T
    return slice(10 * owner.parent, 10 * owner.parent + 10), transform


def _frame_index(model: Model, frame: str | int) -> int:
    """Return the index of a frame; raise a ValueError if there is none."""
    index = frame if isinstance(frame, int) else model.frame_index(frame)
    if not 0 <= index < len(model.frame_names):
        raise ValueError(
            f"frame: expected a name, or an index from 0 to "
            f"{len(model.frame_names) - 1}, got {short_repr(frame)}"
        )
    return index


def _payload_equations(
    model: Model, samples: Samples, direction: Array, index: int, offset: ArrayLike | None
) -> tuple[Array, Array]:
    """Return the payload's regressor of motor torques, (B, nv, 10), and its torques, (B, nv)."""
    data, (columns, transform), drives = Data(model), payload_columns(model, index), model.drives
    offset_torque = 0.0 if offset is None else one_each("offset", offset, model.nv)
    W, y = [], []
    for first in range(0, len(samples), BLOCK_SIZE):
        block = samples.take(slice(first, first + BLOCK_SIZE))
        rows = (
            joint_torque_regressor(model, data, block.q, block.v, block.a)[..., columns] @ transform
        )
        W.append(drives.to_motors(rows.swapaxes(1, 2)).swapaxes(1, 2))
        applied = subtract_friction(
            model,
            drives,
            block.v,
            "tau",
            block.tau - offset_torque,
            direction[first : first + BLOCK_SIZE],
        )
        y.append(
            drives.to_motors(
                applied
                - rnea(model, data, block.q, block.v, block.a, block.f_ext)
                - drives.rotor_torque(block.a)
            )
        )
    return np.concatenate(W), np.concatenate(y)


class _Equations(NamedTuple):
    """Equations of a payload: torques of samples in motion, and mean torques of holds."""

    W: Array  # (B, nv, 10) columns of the payload; zeros in rows that do not count
    y: Array  # (B, nv) torques [N m, N]
    counts: Array  # (nv,) number of the rows that count
    variance: Array  # (nv,) expected variance of mean torques in holds; infinite if it is unknown
    is_loaded: np.ndarray  # (nv,) of bool; true: the weight of the payload acts on the motor
    changes: FrictionChanges

    @property
    def rests(self) -> np.ndarray:
        """Indices of the motors that count only at rest."""
        return np.flatnonzero((self.changes.holds >= 0).any(axis=0))


def _merge_holds(W: Array, y: Array, weight: Array, changes: FrictionChanges) -> _Equations:
    """Return equations in which each hold has one row, with its mean torque.

    Motors whose friction is unknown do not count if they rest in one pose only.
    """
    root = np.sqrt(weight)[:, None] * changes.is_used
    equations = _Equations(
        W * root[..., None],
        y * root,
        (root**2).sum(axis=0),
        np.zeros(y.shape[1]),
        np.abs(W[..., 0]).max(axis=0) > RELATIVE_TOLERANCE,
        changes,
    )
    for k in equations.rests.tolist():
        rows = np.flatnonzero(changes.holds[:, k] >= 0)
        firsts = np.flatnonzero(np.diff(changes.holds[rows, k], prepend=-1))
        is_known = np.isfinite(changes.stiction[k])
        count = len(firsts) if is_known or len(firsts) >= _MIN_HOLDS else 0
        sizes = np.diff(np.append(firsts, len(rows)))
        means = np.add.reduceat(y[rows, k], firsts) / sizes
        noise = y[rows, k] - np.repeat(means, sizes)
        noise_variance = (noise**2).sum() * correlation_length(noise) / (sizes**2).sum()
        equations.W[:, k] = equations.y[:, k] = 0.0
        equations.counts[k] = count
        equations.variance[k] = changes.stiction[k] ** 2 + noise_variance
        if count:
            equations.W[rows[firsts], k] = np.add.reduceat(W[rows, k], firsts) / sizes[:, None]
            equations.y[rows[firsts], k] = means
    return equations


class _PayloadFit(NamedTuple):
    """Least squares of a payload and of changes of friction."""

    value: Array  # (10,) parameters of the payload
    H: Array  # (10, 10) normal equations H value = g
    g: Array  # (10,)
    F: Array  # (10, n), where F F' is the inverse of H
    is_determined: np.ndarray  # (10,) of bool
    equations: _Equations
    inverses: list[Array]  # inverse normal equations of the changes of friction
    PW: Array  # (B, nv, 10) columns of the payload, without what changes of friction explain
    r: Array  # (B, nv) residuals [N m, N]
    sigma: Array  # (nv,) standard deviation of each motor's torque [N m, N]
    freedom: Array  # (nv,) degrees of freedom of sigma of motors at rest
    lengths: Array  # (nv,) samples for which errors of a motor last

    def project(self, y: Array) -> Array:
        """Return torques (B, nv) without what changes of friction explain."""
        return remove_friction_changes(y, self.equations.changes, self.inverses)


def _fit_payload(equations: _Equations, noise: Array | None) -> _PayloadFit:
    """Solve weighted least squares; the noise is estimated unless it is given.

    Correlated residuals count as fewer independent ones when changes of friction are weighted.
    """
    W, y, counts, _, _, changes = equations
    min_noise = 1e-9 + 1e-6 * np.abs(y).max()
    counts = np.maximum(counts, 1.0)
    freedom_ratio = max(1.0 - 10.0 / y.size, 0.1)
    sigma, lengths, r = np.ones(y.shape[1]), np.ones(y.shape[1]), y
    freedom, leverage = np.full(y.shape[1], np.inf), np.zeros(y.shape[1])
    for n in range(MAX_ROUNDS):
        if noise is None:
            sigma = np.sqrt((r**2).sum(axis=0) / counts / freedom_ratio)
            variance, freedom = _hold_variance(equations, r, leverage)
            rests = equations.rests
            sigma[rests] = np.sqrt(variance[rests])
            sigma = np.maximum(sigma, min_noise)
            lengths = np.array([correlation_length(x) for x in r.T]) if n else lengths
            lengths[rests] = 1.0
        else:
            sigma = noise
        inverses = changes.inverses(sigma**2 * lengths)
        PW = remove_friction_changes(W, changes, inverses)
        H = np.einsum("bki,bkj,k->ij", W, PW, sigma**-2.0, optimize=True)
        g = np.einsum("bki,bk,k->i", PW, y, sigma**-2.0, optimize=True)
        F, d, is_determined = invert_scaled(H, _TYPICAL_SIZES)
        F = (F * np.sqrt(d))[:, d > 0.0]
        value = F @ (F.T @ g)
        r = remove_friction_changes(y - W @ value, changes, inverses)
        if noise is not None:
            break
        leverage[rests] = [((PW[:, k] @ F) ** 2).sum() for k in rests.tolist()]
        leverage /= sigma**2
    return _PayloadFit(
        value, H, g, F, is_determined, equations, inverses, PW, r, sigma, freedom, lengths
    )


def _hold_variance(equations: _Equations, r: Array, leverage: Array) -> tuple[Array, Array]:
    """Return the variance of mean torques in holds, (nv,), and its degrees of freedom, (nv,).

    Residuals r (B, nv) of few holds do not determine it: the prior, which counts as some holds, is
    the largest friction of the model, or the variance of all motors whose friction is unknown. The
    friction of the model is also the least: stuck in one direction, it looks like a payload, not
    like residuals. ``leverage`` (nv,) is the number of parameters that each motor's torques
    determine.
    """
    squares, freedom = (r**2).sum(axis=0), np.maximum(equations.counts - leverage, 0.0)
    is_unknown = np.isinf(equations.variance)
    mean_variance = squares[is_unknown].sum() / max(freedom[is_unknown].sum(), 1e-3)
    prior = np.where(is_unknown, mean_variance, equations.variance)
    variance = (_PRIOR_FREEDOM * prior + squares) / (_PRIOR_FREEDOM + freedom)
    variance = np.where(is_unknown, variance, np.maximum(variance, prior))
    return variance, np.where(is_unknown, _PRIOR_FREEDOM + freedom, np.inf)


def _standard_deviations(fit: _PayloadFit, J: Array) -> tuple[Array, Array]:
    """Return standard deviations of J @ payload, (n, 10) @ (10,), and half their 95 % intervals.

    Residuals of motions are mostly errors of the model, which last over a block of samples, and
    over all samples of a joint. They count as independent if both joint and block differ (two-way
    clustering). The contribution of a block is the change of the result without it. Mean torques of
    holds are independent.
    """
    equations, F = fit.equations, J @ fit.F
    columns, deviations = equations.changes.columns, equations.changes.deviations
    rests = equations.rests
    Z = fit.PW @ fit.F / fit.sigma[:, None]
    noise_variance = fit.lengths[:, None] * np.array(
        [((z @ F.T) ** 2).sum(0) for z in Z.swapaxes(0, 1)]
    )
    block_variance, joint_variance, counts = _motion_variance(fit, F, Z)
    variance = block_variance + joint_variance + noise_variance[rests].sum(axis=0)
    with np.errstate(over="ignore"):  # infinite if friction at rest is known
        freedom = variance**2 / np.maximum(  # Satterthwaite 1946
            block_variance**2 / max(counts[0] - 1, 1)
            + joint_variance**2 / max(counts[1] - 1, 1)
            + (noise_variance[rests] ** 2 / fit.freedom[rests, None]).sum(axis=0),
            1e-300,
        )
    for k, (C, size) in enumerate(zip(columns, deviations)):
        is_limited = np.isfinite(size)
        effect = fit.PW[:, k].T @ C[:, is_limited] * (size[is_limited] / fit.sigma[k] ** 2)
        variance += ((F @ (fit.F.T @ effect)) ** 2).sum(axis=1)
    # few samples do not determine the scatter of residuals; noise alone is the minimum
    deviation = np.sqrt(np.maximum(variance, noise_variance.sum(axis=0)))
    return deviation, stdtrit(np.maximum(freedom, 1.0), 0.975) * deviation


def _motion_variance(fit: _PayloadFit, F: Array, Z: Array) -> tuple[Array, Array, tuple[int, int]]:
    """Return the variances of n values from errors of blocks, and of motors, that move.

    Z (B, nv, m) is the payload's regressor in coordinates in which the normal equations are the
    identity, and F (n, m) maps these to the values. Also returns the numbers of blocks and motors.
    """
    equations = fit.equations
    moves = np.setdiff1d(np.arange(Z.shape[1]), equations.rests)
    rows = np.flatnonzero(equations.changes.is_used[:, moves].any(axis=1))
    if not len(rows):
        return np.zeros(len(F)), np.zeros(len(F)), (0, 0)
    blocks = np.array_split(rows, min(len(rows), FOLDS))
    changes = _changes_without_blocks(fit, F, Z, moves, blocks)
    cells = (
        np.array(
            [
                np.einsum(
                    "bki,bk->ki",
                    Z[block][:, moves],
                    (fit.r / fit.sigma)[block][:, moves],
                    optimize=True,
                )
                for block in blocks
            ]
        )
        @ F.T
    )
    block_variance = (changes**2).sum(axis=0) * (1.0 - 1.0 / len(blocks))
    joint_variance = (cells.sum(axis=0) ** 2).sum(axis=0) * len(moves) / max(len(moves) - 1, 1)
    joint_variance = np.maximum(joint_variance - (cells**2).sum(axis=(0, 1)), 0.0)
    return block_variance, joint_variance, (len(blocks), len(moves))


def _changes_without_blocks(
    fit: _PayloadFit, F: Array, Z: Array, moves: np.ndarray, blocks: list[np.ndarray]
) -> Array:
    """Return the change of n values without each block of samples, which friction fits too.

    The unknowns are the payload, and then the factors of each motor's changes of friction.
    """
    equations, m = fit.equations, F.shape[1]
    sizes = [C.shape[1] for C in equations.changes.columns]
    ends = m + np.cumsum(sizes)
    scores, H = np.zeros((len(blocks), ends[-1])), np.zeros((len(blocks), ends[-1], ends[-1]))
    for k in moves.tolist():
        unknowns = np.append(np.arange(m), np.arange(ends[k] - sizes[k], ends[k]))
        A = np.hstack([equations.W[:, k] @ fit.F, equations.changes.columns[k]]) / fit.sigma[k]
        for n, block in enumerate(blocks):
            scores[n, unknowns] += A[block].T @ (fit.r[block, k] / fit.sigma[k])
            H[n][np.ix_(unknowns, unknowns)] += A[block].T @ A[block]
    total = H.sum(axis=0)
    for k in equations.rests.tolist():
        total[:m, :m] += Z[:, k].T @ Z[:, k]
    prior = [length / size**2 for length, size in zip(fit.lengths, equations.changes.deviations)]
    total[np.diag_indices(len(total))] += np.concatenate([np.zeros(m), *prior])
    scale = 1.0 / np.sqrt(np.maximum(np.diag(total), 1e-300))
    vectors, inverse, _ = invert_scaled(total, scale)
    G = (vectors * np.sqrt(inverse))[:, inverse > 0.0]
    changes: Array = leave_one_out_changes((scores @ G)[None], (G.T @ H @ G)[None], F @ G[:m])[0]
    return changes


def _reference_sphere(value: Array, is_determined: np.ndarray) -> Array:
    """Return a sphere of water, with the mass and center as far as they are determined."""
    mass = max(value[0], MIN_MASS)
    com = np.where(is_determined[1:4], value[1:4], 0.0) / mass
    radius = (0.75 * mass / (np.pi * _WATER_DENSITY)) ** (1.0 / 3.0)
    return Inertia(mass, com, np.eye(3) * 0.4 * mass * radius**2).dynamic_parameters()
