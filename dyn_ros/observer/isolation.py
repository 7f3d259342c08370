# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Isolation of a contact: the touched link, the force and its line, from external efforts."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..engine.algorithms import joint_jacobians
from ..engine.call.data import Data
from ..engine.kernel.names import short_repr
from ..engine.kernel.types import Array, ArrayLike
from ..engine.kernel.validation import positive_number, require_model, valid_array
from ..engine.model import Model
from .hypotheses import (
    MAX_COST_INCREASE,
    Hypothesis,
    place_bodies,
    rank_hypotheses,
    skew,
    touchable_bodies,
)
from .inputs import whitening_matrix

_THRESHOLD_DEVIATIONS = 4.0  # standard deviations of an effort in its threshold
_MAX_WHITENED_EFFORT = 1e100  # standard deviations; larger ones overflow
# Standard deviations of the efforts of a typical force; from 1e90, covariances overflow.
_MAX_EXPECTED_EFFORT = 1e50
_MAX_SCORE_INCREASE = 6.0  # twice the log ratio of evidences; a factor of 20
_MIN_PROBABILITY = 0.05  # less probable links do not contribute to the covariance
_MAX_FORCE_DEVIATION = 0.5  # standard deviation relative to the force
_MAX_LINE_DEVIATION = 0.1  # m; standard deviation of the line of action
_NAN3 = np.full(3, np.nan)


@dataclass(frozen=True, repr=False)
class IsolatedContact:
    """Result of ``dyn_ros.isolate_contact``. Vectors are expressed in the world.

    If the force is not determined, its magnitude, direction and torque, the line and all
    deviations are NaN.

    Attributes
    ----------
    collision : bool
        Whether the external effort of a joint exceeds its threshold. If not, all values below are
        empty, zero or NaN.
    joints : tuple of str
        Joints whose external effort exceeds the threshold.
    link : str
        The link that is most probably touched. Links that are fixed to each other are one body
        with the name of its first link. Empty without a collision, or if the efforts are too large
        to compute with.
    possible_links : tuple of str
        All links that explain the efforts, with ``link``, most probable first. Those beyond it
        require that the force passes the axes of their joints, which then have no effort.
    probabilities : tuple of float
        Of ``possible_links``, if all links are touched equally often.
    explained : bool
        Whether a single contact explains all efforts: no residual exceeds the threshold. If not,
        there are several contacts, or the efforts have large errors.
    residual : (nv,) ndarray
        The part of the external efforts that is not explained [N m, N].
    force : (3,) ndarray
        The force on the robot [N]; of the part that the efforts do not determine, the most probable
        value. See ``determined``.
    covariance : (3, 3) ndarray
        Of the errors of ``force`` [N2].
    determined : bool
        Whether the efforts determine the force: the standard deviation in no direction exceeds half
        of it. With fewer than five joints before the contact this is rare.
    magnitude, deviation : float
        Of the force, with its standard deviation [N].
    direction : (3,) ndarray
        Of the force, a unit vector.
    direction_deviation : float
        Its standard deviation in the worst direction [rad].
    line_valid : bool
        Whether the efforts determine the line of action: the standard deviation of ``point`` is at
        most 0.1 m.
    point : (3,) ndarray
        Of the line of action, the point nearest to the origin of the link, in the world [m]; NaN if
        the line is not valid. The contact is where the line enters the link.
    point_deviation : float
        Its standard deviation in the worst direction [m].
    is_pure_force : bool
        Whether a force without torque explains the efforts. If not, ``force`` belongs to a wrench
        with a torque, and the line is its central axis.
    torque, torque_deviation : float
        Torque about the line of action, with its standard deviation [N m]: a moment that no force
        explains. NaN if the efforts do not determine it, which requires six joints.
    """

    collision: bool
    joints: tuple[str, ...]
    link: str
    possible_links: tuple[str, ...]
    probabilities: tuple[float, ...]
    explained: bool
    residual: Array
    force: Array
    covariance: Array
    determined: bool
    magnitude: float
    deviation: float
    direction: Array
    direction_deviation: float
    line_valid: bool
    point: Array
    point_deviation: float
    is_pure_force: bool
    torque: float
    torque_deviation: float

    def __repr__(self) -> str:
        """Return the link and the force."""
        if not self.collision:
            return "IsolatedContact(no collision)"
        force = (
            f"{self.magnitude:.4g} N +- {self.deviation:.2g} N"
            if self.determined
            else "force not determined"
        )
        return f"IsolatedContact({self.link!r}, {force})"


def isolate_contact(
    model: Model,
    data: Data,
    q: ArrayLike,
    tau_ext: ArrayLike,
    threshold: ArrayLike,
    *,
    covariance: ArrayLike | None = None,
    force: float = 100.0,
) -> IsolatedContact:
    """Find the link that a single unknown contact touches, and the force and its line of action.

    Haddadin, De Luca and Albu-Schaeffer (2017), section V: a contact acts on the joints before it,
    not on those beyond it; with six joints or more before it, the force and its line of action
    follow. Here each link is a hypothesis, weighted by the noise of the efforts, and the contact
    exerts a force without a torque: five joints can suffice. Robots may branch and may have a
    floating base, whose external wrench, if it is known, determines the force.

    What joints cannot show: a contact with a fixed base; forces through all their axes; on which of
    several links a force acts whose line passes the axes between them; where on its line it acts,
    and so whether it pushes or pulls.

    Parameters
    ----------
    model, data, q, tau_ext, covariance
        As for ``external_wrench``, of a single state. Without a covariance the errors of efforts
        are independent, with a standard deviation of a quarter of the threshold.
    threshold : float or (nv,) array_like
        Efforts above it are a collision [N m, N]; positive. Infinite for joints whose efforts are
        not measured.
    force : float
        Typical magnitude of unknown forces [N]. Its order of magnitude is enough.

    Raises
    ------
    ValueError
        An invalid array, a threshold or force that is not positive, or a covariance that is not
        positive definite; names the argument, the expected and the actual value.

    Examples
    --------
    Something pushes the tool with 15 N:

    >>> J = dyn_ros.frame_jacobian(model, data, q, "tool", ReferenceFrame.LOCAL_WORLD_ALIGNED)
    >>> external = J[:3].T @ [3.0, 0.0, -15.0]                # as MomentumObserver returns it
    >>> contact = dyn_ros.isolate_contact(model, data, q, external, threshold=0.3)
    >>> contact.collision, contact.explained, contact.link in contact.possible_links
    (True, True, True)
    """
    tau = valid_array(require_model(model), "tau_ext", ("nv",), tau_ext)
    if tau.ndim > 1:
        raise ValueError(
            f"tau_ext: expected a single state, got a batch of shape {tau.shape}; "
            "pass one state after the other"
        )
    limits = _valid_thresholds(model, threshold)
    force = positive_number("force", force)
    J = joint_jacobians(model, data, q)
    if J.ndim > 2:
        raise ValueError(
            f"q: expected a single state, got a batch of shape {np.shape(q)}; pass "
            "one state after the other"
        )
    W = (
        np.diag(_THRESHOLD_DEVIATIONS / limits)
        if covariance is None
        else whitening_matrix(model, covariance)
    )
    is_exceeded = np.abs(tau) > limits
    bodies = touchable_bodies(model)
    if not is_exceeded.any() or not bodies.names:
        return _no_collision(tau)
    joints = tuple(dict.fromkeys(bodies.joints[k] for k in np.flatnonzero(is_exceeded)))
    places = place_bodies(data, J, bodies)
    with np.errstate(over="ignore", invalid="ignore"):  # a joint may be at 1e308 m
        expected_efforts = force * (W @ places.columns)
    if not (
        np.abs(W @ tau).max() < _MAX_WHITENED_EFFORT
        and np.abs(expected_efforts).max() < _MAX_EXPECTED_EFFORT
    ):
        return replace(_no_collision(tau), collision=True, joints=joints, explained=False)
    candidates = rank_hypotheses(places, W, tau, bodies.lengths, force)
    explaining_hypotheses = [
        candidate for candidate in candidates if (np.abs(candidate.residual) <= limits).all()
    ]
    candidates = explaining_hypotheses or candidates
    best = candidates[0]
    min_cost = min(candidate.cost for candidate in candidates)
    possible_hypotheses = [
        candidate
        for candidate in candidates
        if candidate.cost <= min_cost + MAX_COST_INCREASE
        or candidate.score <= best.score + _MAX_SCORE_INCREASE
    ]
    odds = [math.exp(0.5 * (best.score - candidate.score)) for candidate in possible_hypotheses]
    probabilities = [weight / sum(odds) for weight in odds]
    origin = places.origins[best.body]
    wrench, spread = _wrench_at_point(possible_hypotheses, probabilities, places.centers, origin)
    return IsolatedContact(
        True,
        joints,
        bodies.names[best.body],
        tuple(bodies.names[candidate.body] for candidate in possible_hypotheses),
        tuple(probabilities),
        bool(explaining_hypotheses),
        best.residual,
        *_force_and_line(best, wrench, spread, origin),
    )


def _valid_thresholds(model: Model, threshold: ArrayLike) -> Array:
    """Return one positive, possibly infinite number for each effort, or raise a ValueError."""
    expected = f"threshold: expected {model.nv} positive numbers, or one for all"
    try:
        limits = np.asarray(threshold)
    except ValueError:  # a ragged list
        raise ValueError(f"{expected}, got {short_repr(threshold)}") from None
    if limits.dtype.kind not in "fiu" or limits.shape not in ((), (model.nv,)):
        raise ValueError(f"{expected}, got {short_repr(threshold)}")
    limits = np.array(np.broadcast_to(limits, (model.nv,)), float)
    if not (limits > 0.0).all():  # or NaN
        k = int(np.argmin(limits > 0.0))
        raise ValueError(
            f"{expected}, got {limits[k]:g} in threshold[{k}] ({model.velocity_names[k]!r})"
        )
    if len(limits) and np.isinf(limits).all():
        raise ValueError(f"{expected}, got inf for all, so that nothing is a collision")
    return limits


def _no_collision(tau: Array) -> IsolatedContact:
    """Return the result without a collision, in which efforts (nv,) are the residual."""
    return IsolatedContact(
        False,
        (),
        "",
        (),
        (),
        True,
        np.array(tau),
        *_undetermined_fields(np.zeros(3), np.zeros((3, 3)), True),
    )


# --- force and line


def _undetermined_fields(force: Array, covariance: Array, is_pure_force: bool) -> tuple[Any, ...]:
    """Return the fields of ``IsolatedContact`` from ``force`` on, if it is not determined."""
    nan = math.nan
    return (
        force,
        covariance,
        False,
        nan,
        nan,
        _NAN3.copy(),
        nan,
        False,
        _NAN3.copy(),
        nan,
        is_pure_force,
        nan,
        nan,
    )


def _wrench_at_point(
    possible: list[Hypothesis], probabilities: list[float], centers: Array, point: Array
) -> tuple[Array, Array]:
    """Return the most probable wrench at a point, (6,), and the covariance of all possible ones."""
    wrench, total, sum_of_weights = np.zeros(6), np.zeros((6, 6)), 0.0
    for n, (hypothesis, probability) in enumerate(zip(possible, probabilities)):
        if n > 0 and probability < _MIN_PROBABILITY:
            break
        move = np.eye(6)
        move[3:, :3] = skew(centers[hypothesis.body] - point)
        w, C = move @ hypothesis.wrench, move @ hypothesis.covariance @ move.T
        if n == 0:
            wrench = w
        total += probability * (C + np.outer(w - wrench, w - wrench))
        sum_of_weights += probability
    return wrench, total / sum_of_weights


def _force_and_line(
    best: Hypothesis, wrench: Array, covariance: Array, origin: Array
) -> tuple[Any, ...]:
    """Return the fields of ``IsolatedContact`` from ``force`` on; the wrench acts at the origin."""
    f, m = wrench[:3].copy(), wrench[3:]
    C = covariance[:3, :3].copy()
    size = math.sqrt(float(f @ f))
    if size == 0.0:
        return _undetermined_fields(f, C, best.is_pure_force)
    u, squared = f / size, size * size
    across = (np.eye(3) - np.outer(u, u)) / size
    p = (
        np.array([f[1] * m[2] - f[2] * m[1], f[2] * m[0] - f[0] * m[2], f[0] * m[1] - f[1] * m[0]])
        / squared
    )
    D = np.empty((3, 6))  # derivative of p with respect to force and moment
    D[:, :3] = (-skew(m) - 2.0 * np.outer(p, f)) / squared
    D[:, 3:] = skew(f) / squared
    variances = np.linalg.eigvalsh(
        np.array([C, across @ C @ across, D @ covariance @ D.T, best.linear_covariance[:3, :3]])
    )
    force_deviation, direction_deviation, line_deviation, linear_deviation = np.sqrt(
        np.maximum(variances[:, -1], 0.0)
    ).tolist()
    if force_deviation > _MAX_FORCE_DEVIATION * size:
        return _undetermined_fields(f, C, best.is_pure_force)
    line_valid = line_deviation <= _MAX_LINE_DEVIATION
    return (
        f,
        C,
        True,
        size,
        math.sqrt(max(float(u @ C @ u), 0.0)),
        u,
        direction_deviation,
        line_valid,
        p + origin if line_valid else _NAN3.copy(),
        line_deviation,
        best.is_pure_force,
        *_torque_about_force(best, linear_deviation),
    )


def _torque_about_force(best: Hypothesis, force_deviation: float) -> tuple[float, float]:
    """Return the torque about the force if there is one, and its standard deviation, or NaN."""
    f, m = best.linear[:3], best.linear[3:]
    C, size = best.linear_covariance, math.sqrt(float(f @ f))
    if size == 0.0 or force_deviation > _MAX_FORCE_DEVIATION * size:
        return math.nan, math.nan
    u = f / size
    torque = float(u @ m)
    g = np.concatenate([(m - torque * u) / size, u])
    deviation = math.sqrt(max(float(g @ C @ g), 0.0))
    if deviation > _MAX_LINE_DEVIATION * size:
        return math.nan, math.nan
    return torque, deviation
