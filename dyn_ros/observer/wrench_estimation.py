# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Wrenches at known places, from external efforts.

A wrench w at a frame with the Jacobian J causes the external effort tau_ext = J' w. To compare
forces and moments, w = D z, with a length in the rows of D that belong to moments; to compare
efforts, the equations are divided by the Cholesky factor of their covariance. The singular values s
of the product then state how well the efforts determine each direction of z: its estimate has the
standard deviation 1/s. The estimate divides by s down to the value ``damping``; below, it
multiplies by s / damping^2 (Chiaverini 1997 varies the damping in a similar way). It is exact if
all directions are observable, and does not jump when one becomes unobservable.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ..engine.algorithms import Contact, contact_jacobian, frame_jacobian, frame_placements
from ..engine.algorithms.contacts.packed_contacts import as_contact_tuple, require_contacts
from ..engine.call.data import Data
from ..engine.kernel.types import Array, ArrayLike
from ..engine.kernel.validation import positive_number, require_model, valid_array
from ..engine.model import Model, ReferenceFrame
from ..engine.model.frames import frame_number
from .hypotheses import skew
from .inputs import whitening_matrix

_DAMPING = 0.01  # m; singular value for efforts with a standard deviation of 1
_LENGTH = 0.1  # m


@dataclass(frozen=True, repr=False)
class ExternalWrench:
    """Result of ``dyn_ros.external_wrench``; for a batch, all arrays have a leading axis.

    Attributes
    ----------
    wrench : (6,) ndarray
        Force and moment on the robot at the frame [N, N m].
    covariance : (6, 6) ndarray, optional
        Of the error of ``wrench``; None without the covariance of the efforts. In directions that
        are damped, it includes the part of the wrench that the efforts do not show, for a wrench
        whose standard deviation there is 1/damping.
    singular_values : (6,) ndarray
        How well the efforts show each direction, in descending order: effort per force [m], or,
        with the covariance of the efforts, force per standard deviation [1/N].
    directions : (6, 6) ndarray
        The directions, one in each column: wrenches (force, moment) [N, N m]. Their norm is 1 N
        after their moments are divided by ``length``.
    rank : int or (B,) ndarray
        Number of singular values that are not damped. The wrench is exact if it is 6.
    residual : (nv,) ndarray
        The part of the external efforts that the wrench does not explain [N m, N].
    """

    wrench: Array
    covariance: Array | None
    singular_values: Array
    directions: Array
    rank: int | Array
    residual: Array

    @property
    def observable(self) -> Array:
        """Wrenches that the efforts show, one in each column, (6, rank); of a single state."""
        return self.directions[:, : _single_rank(self.rank)]

    @property
    def unobservable(self) -> Array:
        """Wrenches that load no joint, or barely, one in each column, (6, 6 - rank).

        Of a single state. The true wrench can differ from the estimate by any sum of them.
        """
        return self.directions[:, _single_rank(self.rank) :]

    def __repr__(self) -> str:
        """Return the wrench and the rank."""
        if np.ndim(self.rank):
            return f"ExternalWrench({len(self.wrench)} states)"
        return f"ExternalWrench({np.array2string(self.wrench, precision=4)}, rank={self.rank})"


@dataclass(frozen=True, repr=False)
class ExternalWrenches:
    """Result of ``dyn_ros.external_wrenches``; for a batch, all arrays have a leading axis.

    The numbers of all contacts are one after the other, m in total.

    Attributes
    ----------
    wrenches : dict of str to (3,) or (6,) ndarray
        Force, or force and moment, on the robot by name of the contact, in its axes [N, N m].
    covariance, singular_values, directions, rank, residual
        As of ``ExternalWrench``, with m in place of 6.
    """

    wrenches: dict[str, Array]
    covariance: Array | None
    singular_values: Array
    directions: Array
    rank: int | Array
    residual: Array

    def __repr__(self) -> str:
        """Return the names of the contacts and the rank."""
        return f"ExternalWrenches({', '.join(self.wrenches)}; rank={self.rank})"


def external_wrench(
    model: Model,
    data: Data,
    q: ArrayLike,
    tau_ext: ArrayLike,
    frame: str | int,
    reference_frame: ReferenceFrame | int = ReferenceFrame.LOCAL,
    offset: ArrayLike | None = None,
    *,
    covariance: ArrayLike | None = None,
    damping: float | None = None,
    length: float = _LENGTH,
) -> ExternalWrench:
    """Estimate the wrench at a frame that explains the external efforts of the joints.

    Weighted least squares with the transposed Jacobian, damped near singular configurations;
    Magrini, Flacco and De Luca (2014). No other wrench may act on the robot: it would distort the
    estimate, or appear in ``residual``. A robot with fewer than six joints, or in a singular
    configuration, shows only a part of the wrench: ``rank`` is below 6, and the part in
    ``unobservable`` is damped toward zero: to (s / ``damping``)^2 of its value, with its singular
    value s.

    Parameters
    ----------
    model, data, q, frame, reference_frame, offset
        As for ``frame_jacobian``: where the wrench acts, and in which axes it is expressed.
    tau_ext : (nv,) or (B, nv) array_like
        Efforts that the environment exerts on the joints [N m, N], as ``MomentumObserver`` returns
        them.
    covariance : (nv, nv) array_like, optional
        Covariance of the errors of ``tau_ext`` [N2 m2, N2]. By default all have the same weight,
        errors of 1 N m and of 1 N.
    damping : float, optional
        Directions with a smaller singular value are damped: lever arm of the force [m], or, with
        ``covariance``, one divided by the largest acceptable standard deviation [1/N]. Default:
        0.01 m, divided by the root mean square of the standard deviations.
    length : float
        By which moments are divided to compare them with forces [m].

    Returns
    -------
    ExternalWrench
        New arrays.

    Raises
    ------
    ValueError
        An invalid array, an unknown frame, one that no joint moves, or a number that is not
        positive; names the argument, the expected and the actual value.

    Examples
    --------
    A push of 5 N at the tool, down in the world:

    >>> axes = ReferenceFrame.LOCAL_WORLD_ALIGNED
    >>> J = dyn_ros.frame_jacobian(model, data, q, "tool", axes)
    >>> external = J.T @ [0.0, 0.0, -5.0, 0.0, 0.0, 0.0]      # as MomentumObserver returns it
    >>> found = dyn_ros.external_wrench(model, data, q, external, "tool", axes)
    >>> np.allclose(found.wrench, [0.0, 0.0, -5.0, 0.0, 0.0, 0.0]), found.rank
    (True, 6)
    """
    tau = valid_array(require_model(model), "tau_ext", ("nv",), tau_ext)
    number = frame_number(model, frame)
    if model.tree.frames[number].parent < 0:
        raise ValueError(
            f"frame: no joint moves {model.frame_names[number]!r}, so that its wrench "
            "causes no effort; name a frame that moves"
        )
    at_origin = reference_frame == ReferenceFrame.WORLD
    axes = ReferenceFrame.LOCAL_WORLD_ALIGNED if at_origin else reference_frame
    J = frame_jacobian(model, data, q, frame, axes, offset)
    lengths = np.array([1.0, 1.0, 1.0, *3 * (positive_number("length", length),)])
    solution = _solve_wrench(model, J, tau, lengths, covariance, damping)
    if at_origin:
        solution = _move_to_world_origin(solution, _frame_point(model, data, q, number, offset))
    return solution


def external_wrenches(
    model: Model,
    data: Data,
    q: ArrayLike,
    tau_ext: ArrayLike,
    contacts: Sequence[Contact | str],
    *,
    covariance: ArrayLike | None = None,
    damping: float | None = None,
    length: float = _LENGTH,
) -> ExternalWrenches:
    """Estimate the wrenches at several contacts that explain the external efforts of the joints.

    As ``external_wrench``, for all contacts together. Efforts determine only as many numbers as
    there are joints: for two hands or four feet, contacts of dimension 3 are often all that can be
    determined.

    Parameters
    ----------
    model, data, q, tau_ext
        As for ``external_wrench``.
    contacts : sequence of Contact or str
        Where the wrenches act, and in which axes they are expressed: of dimension 3, a force;
        of dimension 6, force and moment. A name stands for a contact of dimension 6 in the axes of
        this frame. For a contact with another link, the wrench on ``frame``; the opposite one
        acts on the other link.
    covariance, damping, length
        As for ``external_wrench``.

    Returns
    -------
    ExternalWrenches
        New arrays.

    Raises
    ------
    ValueError
        An invalid array or contact, or a number that is not positive; names the argument, the
        expected and the actual value.

    Examples
    --------
    >>> J = dyn_ros.contact_jacobian(walker, walker_data, stand, feet[:1])
    >>> external = J.T @ [1.0, 2.0, 20.0]
    >>> found = dyn_ros.external_wrenches(walker, walker_data, stand, external, feet)
    >>> print(found.wrenches["front_left_foot"].round(2))
    [ 1.  2. 20.]
    """
    tau = valid_array(require_model(model), "tau_ext", ("nv",), tau_ext)
    valid_contacts = tuple(
        Contact(contact) if isinstance(contact, str) else contact
        for contact in ([contacts] if isinstance(contacts, str) else as_contact_tuple(contacts))
    )
    require_contacts(valid_contacts)
    if not valid_contacts:
        raise ValueError("contacts: expected at least one, got none")
    J = contact_jacobian(
        model, data, q, [_move_moments_to_contact(contact) for contact in valid_contacts]
    )
    metric = positive_number("length", length)
    lengths = np.concatenate(
        [[1.0, 1.0, 1.0, metric, metric, metric][: contact.dimension] for contact in valid_contacts]
    )
    ends = np.cumsum([0, *(contact.dimension for contact in valid_contacts)])
    solution = _solve_wrench(model, J, tau, lengths, covariance, damping)
    for contact, start in zip(valid_contacts, ends):
        if contact.dimension == 6 and contact.reference_frame == ReferenceFrame.WORLD:
            solution = _move_to_world_origin(
                solution,
                _frame_point(
                    model,
                    data,
                    q,
                    frame_number(model, contact.frame),
                    contact.placement.translation,
                ),
                int(start),
            )
    wrenches = {
        contact.name or model.frame_names[int(contact.frame)]: solution.wrench[..., start:stop]
        for contact, start, stop in zip(valid_contacts, ends, ends[1:])
    }
    return ExternalWrenches(
        wrenches,
        solution.covariance,
        solution.singular_values,
        solution.directions,
        solution.rank,
        solution.residual,
    )


def _move_moments_to_contact(contact: Contact) -> Contact:
    """Return the same contact, with moments about its own origin instead of the world's."""
    if contact.reference_frame != ReferenceFrame.WORLD:
        return contact
    return Contact(
        contact.frame,
        6 if contact.dimension == 6 else 3,
        ReferenceFrame.LOCAL_WORLD_ALIGNED,
        contact.other,
        contact.placement,
        contact.other_placement,
        name=contact.name,
    )


def _solve_wrench(
    model: Model,
    J: Array,
    tau: Array,
    lengths: Array,
    covariance: ArrayLike | None,
    damping: float | None,
) -> ExternalWrench:
    """Solve tau = J' w by damped least squares, with w = lengths z; see the top of this file.

    J is (m, nv) or (B, m, nv), ``tau`` (nv,) or (B, nv), ``lengths`` (m,). Without ``damping``,
    directions with singular values below ``_DAMPING`` are damped.
    """
    if J.ndim == 3 and tau.ndim == 2 and len(J) != len(tau):
        raise ValueError(
            "batch: expected the same number of states in each argument, got "
            f"q: {len(J)}, tau_ext: {len(tau)}"
        )
    if J.ndim != tau.ndim + 1:
        states = J.shape[:-2] or tau.shape[:-1]
        J = np.broadcast_to(J, (*states, *J.shape[-2:]))
        tau = np.broadcast_to(tau, (*states, model.nv))
    A = np.swapaxes(J, -1, -2) * lengths
    is_finite = np.asarray(np.isfinite(A).all(axis=(-2, -1)))
    if not is_finite.all():  # a configuration too large to compute with
        A = np.where(is_finite[..., None, None], A, 0.0)
        tau = np.where(is_finite[..., None], tau, np.nan)
    weighted, b, min_singular_value = A, tau, _DAMPING
    if covariance is not None:
        W = whitening_matrix(model, covariance)
        weighted, b = W @ A, tau @ W.T
        min_singular_value = _DAMPING / float(np.sqrt(np.mean(np.diagonal(np.asarray(covariance)))))
    if damping is not None:
        min_singular_value = positive_number("damping", damping)
    m = len(lengths)
    # all directions, also those beyond the number of efforts
    U, s, Vt = np.linalg.svd(weighted, full_matrices=model.nv < m)
    U = U[..., : s.shape[-1]]
    damped_s = np.maximum(s, min_singular_value)
    projection = (U * (s / damped_s**2)[..., None, :]).swapaxes(-1, -2) @ b[..., None]
    z = (np.swapaxes(Vt[..., : s.shape[-1], :], -1, -2) @ projection)[..., 0]
    if s.shape[-1] < m:
        s = np.concatenate([s, np.zeros((*s.shape[:-1], m - s.shape[-1]))], axis=-1)
    directions = lengths[:, None] * np.swapaxes(Vt, -1, -2)
    spread = directions / np.maximum(s, min_singular_value)[..., None, :]
    rank = (s >= min_singular_value).sum(axis=-1)
    return ExternalWrench(
        lengths * z,
        None if covariance is None else spread @ np.swapaxes(spread, -1, -2),
        s,
        directions,
        rank if np.ndim(rank) else int(rank),
        tau - (A @ z[..., None])[..., 0],
    )


def _frame_point(
    model: Model, data: Data, q: ArrayLike, frame: int, offset: ArrayLike | None
) -> Array:
    """Return the point of a frame in the world, (3,) or (B, 3)."""
    X = frame_placements(model, data, q)[..., frame, :, :]
    local = np.zeros(3) if offset is None else np.asarray(offset, float)
    point: Array = (X[..., :3, :3] @ local[..., None])[..., 0] + X[..., :3, 3]
    return point


def _move_to_world_origin(solution: ExternalWrench, p: Array, start: int = 0) -> ExternalWrench:
    """Return a solution whose wrench at p, at index start, is moved to the world's origin."""
    m = solution.wrench.shape[-1]
    T = np.zeros((*p.shape[:-1], m, m))
    T[...] = np.eye(m)
    T[..., start + 3 : start + 6, start : start + 3] = skew(p)
    covariance = solution.covariance
    if covariance is not None:
        covariance = T @ covariance @ np.swapaxes(T, -1, -2)
    return replace(
        solution,
        wrench=(T @ solution.wrench[..., None])[..., 0],
        directions=T @ solution.directions,
        covariance=covariance,
    )


def _single_rank(rank: int | Array) -> int:
    """Return the rank of a single state; raise a ValueError for a batch."""
    if np.ndim(rank):
        raise ValueError(
            "rank: expected the result of a single state, got a batch; select a state "
            "in directions and rank"
        )
    return int(rank)
