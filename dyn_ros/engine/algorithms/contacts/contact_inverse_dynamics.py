# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Inverse dynamics with contacts, and contact forces from measured torques.

Both solve J' lambda = rnea(q, v, a) - tau: the rows of a floating or planar base, which have no
motor, for the forces that carry the robot; all rows for those that measured torques reveal
(Righetti et al. 2013).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...call.algorithm import algorithm
from ...call.caller import BatchOptions
from ...call.data import Data
from ...kernel.types import Array, ArrayLike, OutArrays
from ...kernel.validation import as_array, require_entries
from ...kernel.vocabulary import *
from ...model.model import Model
from ..constrained.constraint_forces import JACOBIAN_TRANSPOSE
from ..constrained.semidefinite import WIDTH, solve_scaled
from ..dynamics.crba import place_bodies
from ..dynamics.rnea import TAU, newton_euler
from ..kinematics.world_axes import from_parent
from . import contact_rows
from . import packed_contacts as packed
from .contact_dynamics import LAMBDA_C
from .contacts import Contact, ContactForces
from .force_system import EIGENVALUE_TOLERANCE, store_solution
from .packed_contacts import CONTACT_ROWS, CONTACTS, SOLUTION, pack_contacts

FORCE_WEIGHTS = field("_weights", ("constraints",))
TORQUE_WEIGHTS = field("_torque_weights", ("nv",))
NORMAL_MATRIX = field("_normal_matrix", (MAX_CONSTRAINTS, WIDTH))  # J W J'
BASE_MATRIX = field("_base_matrix", (6, WIDTH))  # J_b' W^-1 J_b
BASE_SOLUTION = field("_base_solution", (6,))  # y
EFFECTIVE_WEIGHTS = field("_effective_weights", ("nv",))  # diagonal W: torque weights, or ones
CONTACT_TORQUES = field("_contact_torques", ("nv",))  # rnea(q, v, a) - tau; then less J' lambda


@kernel
def jacobian_entry(r, k, j):
    """Return J_kj. Reads JACOBIAN_TRANSPOSE."""
    return element(r, matrix_of_width(r, JACOBIAN_TRANSPOSE, WIDTH), j, k)


@kernel
def nbase(r):
    """Return the number of velocities of a floating or planar base."""
    if njoints(r) > 0 and parent(r, 1) == 0 and (kind(r, 1) == FLOATING or kind(r, 1) == PLANAR):
        return ncolumns(r, 1)
    return 0


@kernel
def largest_torque(r, torques, count):
    """Return the largest absolute value of the first ``count`` torques of a field.

    Reads torques.
    """
    largest = lift(0.0, entry(r, torques, 0))
    for j in range(count):
        x = fabs(entry(r, torques, j))
        largest = select_above(x, largest, x, largest)
    return largest


@kernel
def subtract_contact_torques(r, torques):
    """Subtract the torques of the contact forces from a field.

        tau = tau - J' lambda

    Reads JACOBIAN_TRANSPOSE, LAMBDA_C; writes torques.
    """
    for j in range(nv(r)):
        for k in range(nconstraints(r)):
            add_to_entry(r, torques, j, -jacobian_entry(r, k, j) * entry(r, LAMBDA_C, k))


# --- the forces that carry the base


@kernel
def inverse_weight(r, k):
    """Return the inverse weight of the force of row k, 1 / W_k.

    Reads JACOBIAN_TRANSPOSE, FORCE_WEIGHTS.
    """
    x = lift(1.0, entry(r, JACOBIAN_TRANSPOSE, 0))
    if has_input(r, FORCE_WEIGHTS):
        x = x / entry(r, FORCE_WEIGHTS, k)
    return x


@kernel
def base_row_square_bound(r, i, lever):
    """Return the largest square of J_b of a row at a lever on joint i, without cancellation.

        (1 + |lever| + |p|)^2               |p|: length of the way to the base

    Reads FROM_PARENT.
    """
    reach = sqrt(dot(lever, lever)) + lift(1.0, lever[0])
    while i > 1:
        p = from_parent(r, i)
        reach, i = reach + sqrt(dot(p, p)), parent(r, i)
    return reach * reach


@kernel
def drop_base_rounding(r, nb, N):
    """Clear rows of the base's matrix N that are rounding errors: no contact force acts along them.

    Reads FROM_PARENT, TAU, JACOBIAN_TRANSPOSE, FORCE_ARMS, FORCE_WEIGHTS; writes N.
    """
    size = lift(0.0, entry(r, TAU, 0))
    for n in range(packed.ncontacts(r)):
        for side in range(2):
            i = packed.contact_joint(r, n, side)
            if i > 0:
                for k in range(packed.row_start(r, n), packed.row_stop(r, n)):
                    size = size + inverse_weight(r, k) * base_row_square_bound(
                        r, i, contact_rows.force_arm(r, n, side)
                    )
    for i in range(nb):
        contact_rows.drop_row(r, N, i, nb, size)


@kernel
def set_base_system(r, nb, N):
    """Set the system N y = tau_b of the base.

        N = J_b' W^-1 J_b                   J_b: columns of J of the base

    Reads TAU, JACOBIAN_TRANSPOSE, FORCE_WEIGHTS; writes BASE_SOLUTION, N.
    """
    for i in range(nb):
        set_entry(r, BASE_SOLUTION, i, entry(r, TAU, i))
        for j in range(nb):
            x = lift(0.0, entry(r, TAU, 0))
            for k in range(nconstraints(r)):
                x = x + inverse_weight(r, k) * (jacobian_entry(r, k, i) * jacobian_entry(r, k, j))
            set_element(r, N, i, j, x)


@kernel
def solve_base_forces(r):
    """Compute the contact forces of least weighted norm that carry the base; return the rank.

        lambda = W^-1 J_b y,  J_b' W^-1 J_b y = tau_b       Righetti et al. (2013)

    Reads FORCE_WEIGHTS; writes LAMBDA_C, BASE_MATRIX; calls set_base_system, drop_base_rounding,
    solve_scaled.
    """
    nb, N = nbase(r), matrix_of_width(r, BASE_MATRIX, WIDTH)
    set_base_system(r, nb, N)
    rank = lift(0.0, entry(r, TAU, 0))
    drop_base_rounding(r, nb, N)
    if nb > 0:
        rank = solve_scaled(r, nb, BASE_MATRIX, BASE_SOLUTION, EIGENVALUE_TOLERANCE)
    for k in range(nconstraints(r)):
        x = lift(0.0, rank)
        for i in range(nb):
            x = x + jacobian_entry(r, k, i) * entry(r, BASE_SOLUTION, i)
        set_entry(r, LAMBDA_C, k, inverse_weight(r, k) * x)
    return rank


@kernel
def contact_inverse_dynamics_kernel(r):
    """Compute joint torques and contact forces of a motion.

        tau = rnea(q, v, a) - J' lambda, zero at the base

    Reads Q, V, A, F_EXT, FORCE_WEIGHTS; writes LIMI, JOINT_V, JOINT_A, JOINT_F, TAU, SOLUTION,
    LAMBDA_C; calls newton_euler, place_bodies, propagate_contacts, solve_base_forces.
    """
    newton_euler(r, True, TAU)
    place_bodies(r)
    contact_rows.propagate_contacts(r, with_elimination=False, with_bias=False)
    rank = solve_base_forces(r)
    subtract_contact_torques(r, TAU)
    store_solution(r, rank, largest_torque(r, TAU, nbase(r)), 1.0)
    contact_rows.move_entries_to_origin(r, contact_rows.MOMENT_ROWS, LAMBDA_C)


# --- the forces that measured torques reveal


@kernel
def torque_weight(r, j):
    """Return the weight of the torque of velocity j. Reads JACOBIAN_TRANSPOSE, TORQUE_WEIGHTS."""
    x = lift(1.0, entry(r, JACOBIAN_TRANSPOSE, 0))
    if has_input(r, TORQUE_WEIGHTS):
        x = x * entry(r, TORQUE_WEIGHTS, j)
    return x


@kernel
def fit_forces(r):
    """Fit the contact forces to the torques of contacts by least squares; return the rank.

        J W J' lambda = J W tau_c           tau_c = rnea(q, v, a) - tau

    Reads JACOBIAN_TRANSPOSE, TORQUE_WEIGHTS, CONTACT_TORQUES; writes LAMBDA_C, NORMAL_MATRIX,
    EFFECTIVE_WEIGHTS; calls drop_rounding_errors, solve_scaled.
    """
    m, n, N = nconstraints(r), nv(r), matrix_of_width(r, NORMAL_MATRIX, WIDTH)
    for k in range(m):
        clear_row(r, NORMAL_MATRIX, k, WIDTH)
    clear_entries(r, LAMBDA_C, m)
    for j in range(n):
        for k in range(m):
            x = torque_weight(r, j) * jacobian_entry(r, k, j)
            add_to_entry(r, LAMBDA_C, k, x * entry(r, CONTACT_TORQUES, j))
            for i in range(m):
                add_to_element(r, N, k, i, x * jacobian_entry(r, i, j))
    for j in range(n):
        set_entry(r, EFFECTIVE_WEIGHTS, j, torque_weight(r, j))
    contact_rows.drop_rounding_errors(r, N, EFFECTIVE_WEIGHTS)
    return solve_scaled(r, m, NORMAL_MATRIX, LAMBDA_C, EIGENVALUE_TOLERANCE)


@kernel
def contact_forces_kernel(r):
    """Compute the contact forces that explain measured torques.

        J' lambda = rnea(q, v, a) - tau

    Reads Q, V, A, TAU_IN, F_EXT, TORQUE_WEIGHTS; writes LIMI, JOINT_V, JOINT_A, JOINT_F, TAU,
    SOLUTION, LAMBDA_C, CONTACT_TORQUES; calls newton_euler, place_bodies, propagate_contacts,
    fit_forces.
    """
    newton_euler(r, True, TAU)
    for j in range(nv(r)):
        set_entry(r, CONTACT_TORQUES, j, entry(r, TAU, j) - entry(r, TAU_IN, j))
    place_bodies(r)
    contact_rows.propagate_contacts(r, with_elimination=False, with_bias=False)
    rank = fit_forces(r)
    subtract_contact_torques(r, CONTACT_TORQUES)
    store_solution(r, rank, largest_torque(r, CONTACT_TORQUES, nv(r)), 1.0)
    contact_rows.move_entries_to_origin(r, contact_rows.MOMENT_ROWS, LAMBDA_C)


@algorithm(
    contact_inverse_dynamics_kernel,
    inputs=(Q, V, A, F_EXT, FORCE_WEIGHTS, CONTACT_ROWS),
    results=(TAU, LAMBDA_C, SOLUTION),
    optional=(F_EXT, FORCE_WEIGHTS),
    options=(CONTACTS,),
    needs_double=True,
)
def contact_inverse_dynamics(
    model: Model,
    data: Data,
    q: ArrayLike,
    v: ArrayLike,
    a: ArrayLike,
    contacts: Sequence[Contact],
    f_ext: ArrayLike | Mapping[str, ArrayLike] | None = None,
    weights: ArrayLike | None = None,
    *,
    threads: int = 1,
    out: OutArrays | None = None,
) -> tuple[Array, ContactForces]:
    """Compute inverse dynamics of a robot whose base is carried by contacts.

    The contact forces of least (weighted) norm that make the torques of a floating or planar root
    zero, and the torques of the joints: rnea(q, v, a) - J' lambda. Righetti et al.
    (2013); O(n + m d). With a fixed base, no force is required and all are zero. Forces may pull:
    neither friction nor unilateral contact is considered.

    Parameters
    ----------
    weights : (m,) or (B, m) array_like, optional
        Positive weights of the squares of forces and moments. Default: ones.

    Returns
    -------
    tau : (nv,) ndarray
        Joint torques and forces [N m, N]; zero for the base, if the contacts can carry it;
        ``data.tau``.
    forces : ContactForces
        By name, in the axes of each contact [N, N m]; ``data.lambda_c``. ``residual`` is the
        largest torque or force of the base that the contacts cannot balance, ``rank`` the number of
        balanced ones.

    Examples
    --------
    The torques with which the robot stands, and the forces of the ground:

    >>> tau, forces = dyn_ros.contact_inverse_dynamics(
    ...     walker, walker_data, stand, still, still, feet)
    >>> np.allclose(tau[:6], 0.0)                             # the base has no motors
    True
    >>> bool(np.isclose(sum(f[2] for f in forces.values()), 9.81 * walker.total_mass))
    True
    """
    packed_contacts = pack_contacts(model, data, contacts)
    if f_ext is not None and isinstance(f_ext, Mapping):
        f_ext = model.external_forces(f_ext)
    tau, lambda_c, solution = contact_inverse_dynamics.call(
        model,
        data,
        threads if out is None else BatchOptions(threads, out),
        packed_contacts,
        q,
        v,
        a,
        f_ext,
        _as_weights(weights, len(packed_contacts.zeros)),
        packed_contacts.zeros,
    )
    return tau, ContactForces(packed_contacts.rows, lambda_c, solution)


@algorithm(
    contact_forces_kernel,
    inputs=(Q, V, A, TAU_IN, F_EXT, TORQUE_WEIGHTS, CONTACT_ROWS),
    results=(LAMBDA_C, SOLUTION),
    optional=(F_EXT, TORQUE_WEIGHTS),
    options=(CONTACTS,),
    needs_double=True,
)
def contact_forces(
    model: Model,
    data: Data,
    q: ArrayLike,
    v: ArrayLike,
    a: ArrayLike,
    tau: ArrayLike,
    contacts: Sequence[Contact],
    f_ext: ArrayLike | Mapping[str, ArrayLike] | None = None,
    weights: ArrayLike | None = None,
    *,
    threads: int = 1,
    out: OutArrays | None = None,
) -> ContactForces:
    """Compute contact forces from measured torques, such as ground forces on a robot's feet.

    The least squares of J' lambda = rnea(q, v, a) - tau over all rows; O(n m^2 + m^3) for m rows.
    The torques of a floating or planar base, which has no motors, are usually 0. The forces act on
    the robot.

    Parameters
    ----------
    weights : (nv,) or (B, nv) array_like, optional
        Positive weights of the squared errors of the torques, such as the inverse variances of
        their noise. Default: ones.

    Returns
    -------
    ContactForces
        By name, in the axes of each contact [N, N m]; ``data.lambda_c``. ``residual`` is the
        largest torque [N m, N] that the contacts cannot explain. If ``rank`` is less than m, the
        torques do not determine all forces; the result has the least norm.

    Examples
    --------
    >>> tau, forces = dyn_ros.contact_inverse_dynamics(
    ...     walker, walker_data, stand, still, still, feet)
    >>> expected = forces["front_left_foot"].copy()
    >>> again = dyn_ros.contact_forces(walker, walker_data, stand, still, still, tau.copy(), feet)
    >>> np.allclose(again["front_left_foot"], expected)
    True
    """
    packed_contacts = pack_contacts(model, data, contacts)
    if f_ext is not None and isinstance(f_ext, Mapping):
        f_ext = model.external_forces(f_ext)
    lambda_c, solution = contact_forces.call(
        model,
        data,
        threads if out is None else BatchOptions(threads, out),
        packed_contacts,
        q,
        v,
        a,
        tau,
        f_ext,
        _as_weights(weights, model.nv),
        packed_contacts.zeros,
    )
    return ContactForces(packed_contacts.rows, lambda_c, solution)


def _as_weights(weights: ArrayLike | None, count: int) -> Array | None:
    """Return ``count`` weights of rows or torques as an array; None if omitted.

    Raise a ValueError if they are not positive.
    """
    if weights is None:
        return None
    array, _ = as_array(None, "weights", (count,), weights)
    require_entries("weights", array, array > 0.0, "positive numbers")
    return array
