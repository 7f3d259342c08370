# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Derivatives of the dynamics of a robot in contact.

Carpentier, Budhiraja and Mansard, "Proximal and sparse resolution of constrained dynamic equations"
(2021), section V. With Y = M^-1 J', G = J Y, K = G^-1 Y' and P = M^-1 - Y K, from
M d(ddq) - J' d(lambda) = -dtau and J d(ddq) = -drow:

    d(ddq) = -P dtau - K' drow,  d(lambda) = K dtau - G^-1 drow

with the derivatives dtau of rnea and J' lambda, and drow of the rows, at constant ddq and lambda.
"""
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ..model.fields import F_EXT, MAX_CONSTRAINTS, TAU_IN, A, Q, V, field
from ..model.layout import increase, nconstraints, nv, offset
from ..model.types import Array, ArrayLike, Data, Model
from ..spatial.compiler import kernel
from ..spatial.lanes import lift, load, simd_width, store, store_simd
from .aba import DDQ
from .aba_derivatives import DDQ_DQ, DDQ_DV
from .algorithm import Algorithm
from .constraint_forces import COUPLING, last_velocity, product_along
from .contact_dynamics import (
    DIFF_LAMBDA_C,
    LAMBDA_C,
    LAMBDA_C_PROX,
    move_forces,
    solve_contacts,
    solve_contacts_projected,
)
from .contact_rates import (
    DAC_DA,
    RATES,
    ROW_RATES,
    add_contact_forces,
    differentiate_contacts,
    differentiate_forces,
    rates_to_origin,
)
from .contact_rows import forces_to_origin
from .contact_system import TOLERANCE, damping_above_rounding
from .contacts import (
    CONTACTS,
    ROWS,
    Contact,
    contact_table,
    damping,
    first_body,
    ncontacts,
    row_start,
    row_stop,
    second_body,
)
from .minverse import MINV, inverse_after_elimination, inverse_after_factor
from .products import Matrix, combine, copy_rows, multiply
from .rnea_derivatives import (
    COMPOSITE_FORCE,
    DTAU_DQ,
    DTAU_DV,
    inward,
    outward_bodies,
    set_gravity,
)
from .semidefinite import WIDTH, invert_semidefinite

DDQ_DTAU = field("ddq_dtau", ("nv", "nv"), "Derivative of the joint accelerations in contact with "
                                           "respect to torque [rad/s2, m/s2 per N m, N].")
DLAMBDA_DQ = field("dlambda_dq", ("constraints", "nv"),
                   "Derivative of the contact forces with respect to configuration [N, N m per "
                   "rad, m].")
DLAMBDA_DV = field("dlambda_dv", ("constraints", "nv"),
                   "Derivative of the contact forces with respect to velocity [N, N m per rad/s, "
                   "m/s].")
DLAMBDA_DTAU = field("dlambda_dtau", ("constraints", "nv"),
                     "Derivative of the contact forces with respect to torque [N, N m per N m, "
                     "N].")
TORQUE_RATES = field("_torque_rates", ("nv", 2, "nv"))  # q and v, of rnea less J' lambda
MOTION_RATES = field("_motion_rates", ("nv", 2, "nv"))
FORCE_RATES = field("_force_rates", ("constraints", 2, "nv"))
RESPONSE = field("_response", ("constraints", "nv"))    # Y'
GAIN = field("_gain", ("constraints", "nv"))            # K
MINUS_GAIN = field("_minus_gain", ("nv", MAX_CONSTRAINTS))          # -K'
INVERSE = field("_coupling_inverse", (MAX_CONSTRAINTS, WIDTH))


@kernel
def matrix(r, known):
    """A matrix with nv columns."""
    return Matrix(offset(r, known), nv(r))


@kernel
def pair(r, known):
    """A matrix with nv columns for q and nv columns for v."""
    return Matrix(offset(r, known), 2 * nv(r))


@kernel
def coupling_inverse(r):
    return Matrix(offset(r, INVERSE), WIDTH)


@kernel
def minus_gain(r):
    return Matrix(offset(r, MINUS_GAIN), MAX_CONSTRAINTS)


@kernel
def response_of(r, n):
    """The rows of J M^-1 that belong to contact n."""
    i, j, columns, some = first_body(r, n), second_body(r, n), nv(r), simd_width(r.work)
    first = last_velocity(r, i) if i > 0 else -1
    second = last_velocity(r, j) if j > 0 else -1
    for k in range(row_start(r, n), row_stop(r, n), 3):
        J = Matrix(offset(r, DAC_DA) + columns * k, 1)
        for c in range(0, columns, 2 * some):
            x, y = product_along(r, J, columns, Matrix(offset(r, MINV) + c, columns), columns - c,
                                 first, second)
            for t in range(3):
                row = offset(r, RESPONSE) + columns * (k + t) + c
                store_simd(r.work, row, columns - c, x[t])
                if c + some < columns:
                    store_simd(r.work, row + some, columns - c - some, y[t])


@kernel
def respond(r):
    """G^-1, Y' and -K', from M^-1, the rows J and G: how lambda responds to torques."""
    n, m = nv(r), nconstraints(r)
    shift = lift(0.0, load(r.work, offset(r, COUPLING)))
    if damping(r) > 0.0:
        shift = damping_above_rounding(r)
    invert_semidefinite(r, m, offset(r, COUPLING), shift, TOLERANCE, offset(r, INVERSE))
    for contact in range(ncontacts(r)):
        response_of(r, contact)
    multiply(r, minus_gain(r), -1.0, matrix(r, RESPONSE), coupling_inverse(r), n, m, m)


@kernel
def respond_to_torques(r):
    """P and K, after ``respond``."""
    n, m = nv(r), nconstraints(r)
    K, Y, P = matrix(r, GAIN), matrix(r, RESPONSE), matrix(r, DDQ_DTAU)
    multiply(r, K, 1.0, coupling_inverse(r), Y, m, m, n)
    copy_rows(r, K, matrix(r, DLAMBDA_DTAU), -1.0, m, n)
    multiply(r, P, -1.0, Y, K, n, m, n)
    for k in range(n * n):
        increase(r.work, P.start + k, load(r.work, offset(r, MINV) + k))


@kernel
def solve_rates(r):
    """d(ddq) and d(lambda) from those of torques and rows."""
    n, m, torques, row = nv(r), nconstraints(r), pair(r, TORQUE_RATES), pair(r, ROW_RATES)
    combine(r, pair(r, MOTION_RATES), -1.0, matrix(r, DDQ_DTAU), torques, n,
            matrix(r, GAIN), row, m, n, 2 * n)
    combine(r, pair(r, FORCE_RATES), -1.0, minus_gain(r), torques, n,
            coupling_inverse(r), row, m, m, 2 * n)


@kernel
def half(A, n):
    """The columns of a pair for v."""
    return Matrix(A.start + n, A.step)


@kernel
def differentiate(r):
    """All derivatives, after the dynamics and the inverse of M."""
    n, m, torques = nv(r), nconstraints(r), pair(r, TORQUE_RATES)
    for k in range(n):
        store(r.work, offset(r, A) + k, load(r.work, offset(r, DDQ) + k))
    set_gravity(r)
    outward_bodies(r, False)
    add_contact_forces(r, offset(r, LAMBDA_C), offset(r, COMPOSITE_FORCE))
    inward(r)
    differentiate_contacts(r, True)
    copy_rows(r, matrix(r, DTAU_DQ), torques, 1.0, n, n)
    copy_rows(r, matrix(r, DTAU_DV), half(torques, n), 1.0, n, n)
    differentiate_forces(r, offset(r, LAMBDA_C), torques.start, torques.step)
    respond(r)
    respond_to_torques(r)
    solve_rates(r)
    motions, forces = pair(r, MOTION_RATES), pair(r, FORCE_RATES)
    copy_rows(r, motions, matrix(r, DDQ_DQ), 1.0, n, n)
    copy_rows(r, half(motions, n), matrix(r, DDQ_DV), 1.0, n, n)
    copy_rows(r, forces, matrix(r, DLAMBDA_DQ), 1.0, m, n)
    copy_rows(r, half(forces, n), matrix(r, DLAMBDA_DV), 1.0, m, n)
    rates_to_origin(r, offset(r, LAMBDA_C), offset(r, DLAMBDA_DQ))
    for j in range(n):
        forces_to_origin(r, offset(r, DLAMBDA_DV) + j, n)
        forces_to_origin(r, offset(r, DLAMBDA_DTAU) + j, n)
    move_forces(r)


@kernel
def contact_derivatives_kernel(r):
    solve_contacts(r)
    inverse_after_elimination(r)
    differentiate(r)


@kernel
def projected_contact_derivatives_kernel(r):
    """The kernel for models whose mimic joints couple branches."""
    solve_contacts_projected(r)
    inverse_after_factor(r)
    differentiate(r)


class ContactDerivatives(NamedTuple):
    """The result of ``contact_dynamics_derivatives``; see there.

    Examples
    --------
    >>> still, none = np.zeros(18), np.zeros(18)
    >>> d = dyn_ros.contact_dynamics_derivatives(walker, walker_data, stand, still, none, feet)
    >>> d._fields[:3]
    ('ddq_dq', 'ddq_dv', 'ddq_dtau')
    """

    ddq_dq: Array
    ddq_dv: Array
    ddq_dtau: Array
    dlambda_dq: Array
    dlambda_dv: Array
    dlambda_dtau: Array


_derivatives = Algorithm(
    "contact_dynamics_derivatives", contact_derivatives_kernel, (Q, V, TAU_IN, F_EXT, ROWS),
    (DDQ_DQ, DDQ_DV, DDQ_DTAU, DLAMBDA_DQ, DLAMBDA_DV, DLAMBDA_DTAU), optional=(F_EXT,),
    leaves=(DDQ, LAMBDA_C, LAMBDA_C_PROX, DIFF_LAMBDA_C, MINV, *RATES), options=(CONTACTS,),
    coupled=projected_contact_derivatives_kernel).caller(
        make=lambda results: ContactDerivatives(*results))


def contact_dynamics_derivatives(model: Model, data: Data, q: ArrayLike, v: ArrayLike,
                                 tau: ArrayLike, contacts: Sequence[Contact],
                                 f_ext: ArrayLike | Mapping[str, ArrayLike] | None = None,
                                 damping: float = 0.0, *,
                                 threads: int = 1) -> ContactDerivatives:
    """Derivatives of ``contact_dynamics`` with respect to configuration, velocity and torque.

    Carpentier, Budhiraja and Mansard (2021); O(n^3 + n^2 m + m^3) for m rows. They are exact for
    all reference frames, gains and two-body contacts. Pinocchio's with respect to configuration
    are not: in LOCAL_WORLD_ALIGNED for contacts of dimension 6 with kp, or with damping; for two
    bodies in dimension 3 on a fixed base. External forces are constant in the joint frames. If
    contacts are redundant, the derivatives of the motion are exact, and those of the forces the
    solution of least norm, not the derivatives of the forces of least norm. Contacts that
    contradict each other require damping. Also computes ``data.ddq``, ``data.lambda_c``,
    ``data.lambda_c_prox``, ``data.diff_lambda_c``, ``data.Minv`` and, for contacts in WORLD at the
    origin of c1, ``data.dac_dq``, ``data.dac_dv``, ``data.dac_da`` and ``data.dvc_dq``.

    Parameters
    ----------
    model : Model
    data : Data
        Created for this model. Holds the result until the next call.
    q : (nq,) or (B, nq) array_like
        Configuration [rad, m].
    v : (nv,) or (B, nv) array_like
        Velocity [rad/s, m/s]; for floating and planar joints expressed in the joint frame.
    tau : (nv,) or (B, nv) array_like
        Joint torques and forces [N m, N].
    contacts : sequence of Contact
        As for ``contact_dynamics``.
    f_ext : dict of str to (6,) array_like, or (njoints, 6) or (B, njoints, 6), optional
        External wrenches (force, moment) [N, N m], as for ``contact_dynamics``.
    damping : float
        As for ``contact_dynamics``.
    threads : int
        Number of threads for a batch.

    Returns
    -------
    ddq_dq, ddq_dv, ddq_dtau : (nv, nv) ndarray
        [i, j] is the derivative of acceleration i along velocity j, in the tangent space of q
        [rad/s2, m/s2 per rad, m]; with respect to velocity and torque.
    dlambda_dq, dlambda_dv, dlambda_dtau : (m, nv) ndarray
        Derivatives of the contact forces, in the axes of each contact [N, N m per rad, m].
        For a single state, ``data.ddq_dq`` and so on; for a batch, new arrays with a leading batch
        axis.

    Raises
    ------
    ValueError
        As for ``contact_dynamics``.
    numpy.linalg.LinAlgError
        The inertia matrix is singular; names the first joint from the tips that moves no inertia.

    Examples
    --------
    >>> still, none = np.zeros(18), np.zeros(18)
    >>> d = dyn_ros.contact_dynamics_derivatives(walker, walker_data, stand, still, none, feet)
    >>> d.ddq_dtau.shape, d.dlambda_dq.shape
    ((18, 18), (12, 18))
    """
    table = contact_table(model, data, contacts, damping)
    if f_ext is not None and isinstance(f_ext, Mapping):
        f_ext = model.external_forces(f_ext)
    return _derivatives(model, data, threads, table, q, v, tau, f_ext, table.zeros)
