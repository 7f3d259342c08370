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
from ...call.data import Data
from ...kernel.types import Array, ArrayLike
from ...kernel.validation import as_array, require_entries
from ...kernel.vocabulary import *
from ...model.model import Model
from ..constrained.constraint_forces import ELIMINATED
from ..constrained.semidefinite import WIDTH, absolute, solve_scaled
from ..dynamics.crba import place_robot
from ..dynamics.rnea import TAU, newton_euler
from ..kinematics.root_axes import from_parent
from . import contact_rows as rows
from . import packed
from .contacts import Contact, ContactForces
from .dynamics import LAMBDA_C
from .packed import CONTACTS, ROWS, SOLUTION, pack_contacts
from .system import TOLERANCE, store_solution

WEIGHTS = field("_weights", ("constraints",))  # of the squares of forces
TORQUE_WEIGHTS = field("_torque_weights", ("nv",))
NORMAL = field("_normal", (MAX_CONSTRAINTS, WIDTH))
BASE = field("_base_system", (6, WIDTH))
BASE_FORCE = field("_base_force", (6,))
ALL_WEIGHTS = field("_all_weights", ("nv",))  # of torques
REST = field("_rest", ("nv",))  # rnea less tau


@kernel
def jacobian_entry(r, k, j):
    """Return J_kj. Reads ELIMINATED."""
    return load(r.work, offset(r, ELIMINATED) + WIDTH * j + k)


@kernel
def nbase(r):
    """Return the number of velocities of a floating or planar base."""
    if njoints(r) > 0 and parent(r, 1) == 0 and (kind(r, 1) == FLOATING or kind(r, 1) == PLANAR):
        return ncolumns(r, 1)
    return 0


@kernel
def violation(r, rest, count):
    """Return the largest absolute value of some numbers. Reads rest."""
    largest = lift(0.0, load(r.work, rest))
    for j in range(count):
        x = absolute(load(r.work, rest + j))
        largest = select_above(x, largest, x, largest)
    return largest


@kernel
def subtract_forces(r, torque):
    """Subtract J' lambda from the torques at an offset.

    Reads ELIMINATED, LAMBDA_C; writes torque.
    """
    for j in range(nv(r)):
        for k in range(nconstraints(r)):
            increase(
                r.work,
                torque + j,
                -jacobian_entry(r, k, j) * entry(r, LAMBDA_C, k),
            )


# --- the forces that carry the base


@kernel
def compliance(r, k):
    """Return the inverse weight of row k. Reads ELIMINATED, WEIGHTS."""
    x = lift(1.0, entry(r, ELIMINATED, 0))
    if has_input(r, WEIGHTS):
        x = x / entry(r, WEIGHTS, k)
    return x


@kernel
def base_size(r, i, lever):
    """Return the size that a row of contact forces at a lever on joint i can have in the base.

    Reads FROM_PARENT.
    """
    reach = sqrt(dot(lever, lever)) + lift(1.0, lever[0])
    while i > 1:
        p = from_parent(r, i)
        reach, i = reach + sqrt(dot(p, p)), parent(r, i)
    return reach * reach


@kernel
def drop_balanced(r, b, N):
    """Clear rows of the base system that are rounding errors: the contacts are balanced.

    Reads FROM_PARENT, TAU, ELIMINATED, ARMS, WEIGHTS; writes N.
    """
    size = lift(0.0, entry(r, TAU, 0))
    for n in range(packed.ncontacts(r)):
        for which in range(2):
            i = packed.body(r, n, which)
            if i > 0:
                for k in range(packed.row_start(r, n), packed.row_stop(r, n)):
                    size = size + compliance(r, k) * base_size(r, i, rows.arm(r, n, which))
    for i in range(b):
        rows.drop_row(r, matrix_at(N, WIDTH), i, b, size)


@kernel
def carry_base(r):
    """Compute the contact forces of least weighted norm that carry the base; return the rank.

        lambda = W^-1 J_b y,  J_b' W^-1 J_b y = tau_b

    Writes LAMBDA_C, BASE, BASE_FORCE; calls drop_balanced, solve_scaled.
    """
    m, b, N, y = nconstraints(r), nbase(r), offset(r, BASE), offset(r, BASE_FORCE)
    for i in range(b):
        store(r.work, y + i, entry(r, TAU, i))
        for j in range(b):
            x = lift(0.0, entry(r, TAU, 0))
            for k in range(m):
                x = x + compliance(r, k) * (jacobian_entry(r, k, i) * jacobian_entry(r, k, j))
            store(r.work, N + WIDTH * i + j, x)
    rank = lift(0.0, entry(r, TAU, 0))
    drop_balanced(r, b, N)
    if b > 0:
        rank = solve_scaled(r, b, N, y, TOLERANCE)
    for k in range(m):
        x = lift(0.0, rank)
        for i in range(b):
            x = x + jacobian_entry(r, k, i) * load(r.work, y + i)
        set_entry(r, LAMBDA_C, k, compliance(r, k) * x)
    return rank


@kernel
def contact_inverse_dynamics_kernel(r):
    """Compute joint torques and contact forces of a motion.

        tau = rnea(q, v, a) - J' lambda, zero at the base

    Writes TAU, SOLUTION; calls newton_euler, place_robot, propagate_contacts, carry_base.
    """
    newton_euler(r, True, TAU)
    place_robot(r)
    rows.propagate_contacts(r, False, False)
    rank = carry_base(r)
    subtract_forces(r, offset(r, TAU))
    store_solution(r, rank, violation(r, offset(r, TAU), nbase(r)), 1.0)
    rows.move_entries_to_origin(r, rows.FORCES, LAMBDA_C)


# --- the forces that measured torques reveal


@kernel
def torque_weight(r, j):
    """Return the weight of the torque of velocity j. Reads ELIMINATED, TORQUE_WEIGHTS."""
    x = lift(1.0, entry(r, ELIMINATED, 0))
    if has_input(r, TORQUE_WEIGHTS):
        x = x * entry(r, TORQUE_WEIGHTS, j)
    return x


@kernel
def fit_forces(r):
    """Fit the contact forces by least squares of J' lambda - rest; return the rank.

        J W J' lambda = J W rest

    Reads ELIMINATED, TORQUE_WEIGHTS, REST; writes LAMBDA_C, NORMAL, ALL_WEIGHTS; calls
    drop_rounding_errors, solve_scaled.
    """
    m, n, N = nconstraints(r), nv(r), offset(r, NORMAL)
    clear(r.work, N, WIDTH * m)
    clear_entries(r, LAMBDA_C, m)
    for j in range(n):
        for k in range(m):
            x = torque_weight(r, j) * jacobian_entry(r, k, j)
            add_to_entry(r, LAMBDA_C, k, x * entry(r, REST, j))
            for i in range(m):
                increase(r.work, N + WIDTH * k + i, x * jacobian_entry(r, i, j))
    for j in range(n):
        set_entry(r, ALL_WEIGHTS, j, torque_weight(r, j))
    rows.drop_rounding_errors(r, matrix_at(N, WIDTH), ALL_WEIGHTS)
    return solve_scaled(r, m, N, offset(r, LAMBDA_C), TOLERANCE)


@kernel
def contact_forces_kernel(r):
    """Compute the contact forces that explain measured torques, rest = rnea(q, v, a) - tau.

    Reads TAU_IN; writes TAU, SOLUTION, REST; calls newton_euler, place_robot, propagate_contacts,
    fit_forces.
    """
    newton_euler(r, True, TAU)
    for j in range(nv(r)):
        set_entry(r, REST, j, entry(r, TAU, j) - entry(r, TAU_IN, j))
    place_robot(r)
    rows.propagate_contacts(r, False, False)
    rank = fit_forces(r)
    subtract_forces(r, offset(r, REST))
    store_solution(r, rank, violation(r, offset(r, REST), nv(r)), 1.0)
    rows.move_entries_to_origin(r, rows.FORCES, LAMBDA_C)


@algorithm(
    contact_inverse_dynamics_kernel,
    inputs=(Q, V, A, F_EXT, WEIGHTS, ROWS),
    results=(TAU, LAMBDA_C, SOLUTION),
    optional=(F_EXT, WEIGHTS),
    options=(CONTACTS,),
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
) -> tuple[Array, ContactForces]:
    """Inverse dynamics of a robot whose base is carried by contacts.

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
        threads,
        packed_contacts,
        q,
        v,
        a,
        f_ext,
        _positive(weights, len(packed_contacts.zeros)),
        packed_contacts.zeros,
    )
    return tau, ContactForces(packed_contacts.rows, lambda_c, solution)


@algorithm(
    contact_forces_kernel,
    inputs=(Q, V, A, TAU_IN, F_EXT, TORQUE_WEIGHTS, ROWS),
    results=(LAMBDA_C, SOLUTION),
    optional=(F_EXT, TORQUE_WEIGHTS),
    options=(CONTACTS,),
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
) -> ContactForces:
    """Contact forces from measured torques, such as of the ground on the feet of a robot.

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
        threads,
        packed_contacts,
        q,
        v,
        a,
        tau,
        f_ext,
        _positive(weights, model.nv),
        packed_contacts.zeros,
    )
    return ContactForces(packed_contacts.rows, lambda_c, solution)


def _positive(weights: ArrayLike | None, count: int) -> Array | None:
    """Validate weights, a number for each of some rows or torques."""
    if weights is None:
        return None
    array, _ = as_array(None, "weights", (count,), weights)
    require_entries("weights", array, array > 0.0, "positive numbers")
    return array
