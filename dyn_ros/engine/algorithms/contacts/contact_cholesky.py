# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Cholesky factors of the matrix of the dynamics in contact, and its right side.

    K = [-mu I  J; J'  M] = U D U'          mu: the damping

With the rows of contacts first, U keeps the sparsity of the tree.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ...call.algorithm import algorithm, public
from ...call.caller import BatchOptions
from ...call.data import Data
from ...kernel.types import Array, ArrayLike, OutArrays
from ...kernel.validation import finite_array
from ...kernel.vocabulary import *
from ...model.model import Model
from ..constrained.constraint_forces import CONSTRAINT_RESIDUAL
from ..dynamics.aba import LINK_ACCELERATION, outward_velocities
from ..dynamics.cholesky import cholesky
from ..dynamics.crba import crba
from ..dynamics.rnea import NLE, newton_euler
from .contact_rows import LINEAR_ROWS, move_entries_to_origin, propagate_contacts
from .contacts import Contact
from .delassus import contact_jacobian, delassus_matrix
from .force_system import EIGENVALUE_TOLERANCE
from .packed_contacts import CONTACT_ROWS, CONTACTS, pack_contacts

PRIMAL_RHS = field(
    "primal_rhs_contact",
    ("constraints",),
    "Acceleration J ddq that contacts demand, kp err - kd J v - drift, in the axes "
    "of each contact; J ddq + drift is their acceleration [m/s2, rad/s2].",
)
TORQUE_RESIDUAL = field(
    "torque_residual",
    ("nv",),
    "Torques less nonlinear effects, tau - nle, and generalized external forces [N m, N].",
)


@kernel
def right_side_kernel(r):
    """Compute the right side of the dynamics in contact.

        J ddq = kp err - kd J v - drift     PRIMAL_RHS
        M ddq - J' lambda = tau - nle       TORQUE_RESIDUAL

    The drift is what the acceleration of the contacts has in addition to J ddq.

    Reads Q, V, A, TAU_IN, F_EXT; writes LIMI, JOINT_V, JOINT_A, JOINT_F, NLE, LINK_ACCELERATION,
    PRIMAL_RHS, TORQUE_RESIDUAL; calls newton_euler, outward_velocities, propagate_contacts.
    """
    newton_euler(r, False, NLE)
    for k in range(nv(r)):
        set_entry(r, TORQUE_RESIDUAL, k, entry(r, TAU_IN, k) - entry(r, NLE, k))
    outward_velocities(r)
    clear_motion(r, LINK_ACCELERATION, 0)
    propagate_contacts(r, with_elimination=False, with_bias=True)
    for k in range(nconstraints(r)):
        set_entry(r, PRIMAL_RHS, k, -entry(r, CONSTRAINT_RESIDUAL, k))
    move_entries_to_origin(r, LINEAR_ROWS, PRIMAL_RHS)


@public
@dataclass(frozen=True, eq=False)
class ContactCholesky:
    """Matrix K = [-damping I, J; J', M] of the contact dynamics, and its factors, K = U D U'.

    Created by ``contact_cholesky``. For a batch, all arrays have a leading batch axis.

    Attributes
    ----------
    matrix : (m + nv, m + nv) ndarray
        K: the m rows of the contacts first.
    U : (m + nv, m + nv) ndarray
        Unit upper triangular; its last nv columns are zero outside the tree.
    D, Dinv : (m + nv,) ndarray
        The diagonal, negative in the rows of contacts, and its inverse.

    Examples
    --------
    >>> K = dyn_ros.contact_cholesky(walker, walker_data, stand, feet)
    >>> K.solve(np.zeros(30)).shape
    (30,)
    """

    matrix: Array
    U: Array
    D: Array
    Dinv: Array

    def solve(self, b: ArrayLike) -> Array:
        """Return K^-1 b.

        For b = (primal_rhs_contact, torque_residual) of ``contact_right_side``, the result is
        (-lambda_c, ddq) of ``contact_dynamics``; with damping, only if no contact is in WORLD,
        where the damping acts on the rows at the world's origin.

        Parameters
        ----------
        b : (m + nv,) or (m + nv, k) array_like
            For a batch, with a leading batch axis.

        Returns
        -------
        ndarray, of the shape of ``b``.

        Raises
        ------
        ValueError
            The shape is wrong, or a number is not finite.
        """
        x = np.asarray(b)
        lead, n = self.D.shape[:-1], self.D.shape[-1]
        is_vector = x.ndim == len(lead) + 1
        if x.shape[: len(lead) + 1] != (*lead, n) or x.ndim > len(lead) + 2:
            raise ValueError(f"b: expected shape {(*lead, n)} or {(*lead, n, 'k')}, got {x.shape}")
        x = finite_array("b", x, x.shape)
        x = np.linalg.solve(self.U, x[..., None] if is_vector else x)
        x = np.linalg.solve(self.U.swapaxes(-1, -2), self.Dinv[..., None] * x)
        return x[..., 0] if is_vector else x

    def inverse(self) -> Array:
        """Return K^-1, (m + nv, m + nv)."""
        eye = np.eye(self.D.shape[-1])
        return self.solve(np.broadcast_to(eye, self.matrix.shape))


def _upper_factors(G: Array, damping: float) -> tuple[Array, Array]:
    """Return U and D of positive definite matrices, G = U D U', (..., m, m) and (..., m).

    Raise a LinAlgError if one is not positive definite; ``damping`` is only for the message.
    """
    message = (
        f"contact_cholesky: the contacts depend on each other, and damping is {damping:g}; "
        "remove redundant ones, or set damping to about 1e-6"
    )
    try:
        C = np.linalg.cholesky(G[..., ::-1, ::-1])[..., ::-1, ::-1]
    except np.linalg.LinAlgError:
        raise np.linalg.LinAlgError(message) from None
    diagonal = np.diagonal(C, axis1=-2, axis2=-1)
    if (diagonal * diagonal <= EIGENVALUE_TOLERANCE * np.diagonal(G, axis1=-2, axis2=-1)).any():
        raise np.linalg.LinAlgError(message)
    return C / diagonal[..., None, :], diagonal * diagonal


@public
def contact_cholesky(
    model: Model,
    data: Data,
    q: ArrayLike,
    contacts: Sequence[Contact],
    damping: float = 0.0,
    *,
    threads: int = 1,
) -> ContactCholesky:
    """Factor the matrix of the contact dynamics, to solve with it several times.

    Carpentier, Budhiraja and Mansard (2021). ``contact_dynamics`` does not need it and is faster.
    Also computes ``data.U``, ``data.D``, ``data.Dinv``, ``data.M``, ``data.contact_jacobian`` and
    ``data.delassus``.

    Returns
    -------
    ContactCholesky
        ``matrix``, ``U``, ``D``, ``Dinv``, ``solve(b)`` and ``inverse()``; new arrays.

    Raises
    ------
    numpy.linalg.LinAlgError
        The contacts depend on each other and are not damped, or the inertia matrix is singular.

    Examples
    --------
    The dynamics in contact from one factorization:

    >>> K = dyn_ros.contact_cholesky(walker, walker_data, stand, feet)
    >>> right = dyn_ros.contact_right_side(walker, walker_data, stand, still, none, feet)
    >>> solution = K.solve(np.concatenate(right))
    >>> ddq, forces = dyn_ros.contact_dynamics(walker, walker_data, stand, still, none, feet)
    >>> np.allclose(solution[12:], ddq)
    True
    """
    U, D, Dinv = cholesky(model, data, q, threads=threads)
    J = contact_jacobian(model, data, q, contacts, threads=threads)
    mu = pack_contacts(model, data, contacts, damping).damping
    G = delassus_matrix(model, data, q, contacts, threads=threads)
    m, lead = G.shape[-1], G.shape[:-2]
    U_G, D_G = _upper_factors(G + mu * np.eye(m), mu)
    size = m + model.nv
    upper, matrix = np.zeros((2, *lead, size, size))
    upper[..., :m, :m], upper[..., m:, m:] = U_G, U
    upper[..., :m, m:] = (Dinv[..., None] * np.linalg.solve(U, J.swapaxes(-1, -2))).swapaxes(-1, -2)
    matrix[..., m:, m:] = crba(model, data, q, threads=threads)
    matrix[..., :m, m:], matrix[..., m:, :m] = J, J.swapaxes(-1, -2)
    matrix[..., range(m), range(m)] = -mu
    diagonal = np.concatenate([-D_G, D], -1)
    return ContactCholesky(matrix, upper, diagonal, np.concatenate([-1.0 / D_G, Dinv], -1))


@algorithm(
    right_side_kernel,
    inputs=(Q, V, TAU_IN, F_EXT, CONTACT_ROWS),
    results=(PRIMAL_RHS, TORQUE_RESIDUAL),
    optional=(F_EXT,),
    options=(CONTACTS,),
    needs_double=True,
)
def contact_right_side(
    model: Model,
    data: Data,
    q: ArrayLike,
    v: ArrayLike,
    tau: ArrayLike,
    contacts: Sequence[Contact],
    f_ext: ArrayLike | Mapping[str, ArrayLike] | None = None,
    *,
    threads: int = 1,
    out: OutArrays | None = None,
) -> tuple[Array, Array]:
    """Compute the right side of the contact dynamics: accelerations and torques.

    With (J ddq, M ddq - J' lambda) equal to both, ddq and lambda are the results of
    ``contact_dynamics``. Recursive Newton-Euler algorithm, Featherstone (2008), table 5.1; O(n + m
    d) for m rows and a tree of depth d.

    Examples
    --------
    >>> J_ddq, residual = dyn_ros.contact_right_side(
    ...     walker, walker_data, stand, still, none, feet)
    >>> J_ddq.shape, residual.shape
    ((12,), (18,))
    """
    packed_contacts = pack_contacts(model, data, contacts)
    if f_ext is not None and isinstance(f_ext, Mapping):
        f_ext = model.external_forces(f_ext)
    return contact_right_side.call(
        model,
        data,
        threads if out is None else BatchOptions(threads, out),
        packed_contacts,
        q,
        v,
        tau,
        f_ext,
        packed_contacts.zeros,
    )
