# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Impacts: the velocity after a collision, and its derivatives."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ...call.algorithm import algorithm, public
from ...call.caller import BatchOptions
from ...call.data import Data
from ...kernel.types import Array, ArrayLike, OutArrays
from ...kernel.vocabulary import *
from ...model.model import Model
from ..constrained import constraint_forces as cf
from ..constrained import products
from ..derivatives import rnea_columns as rc
from ..derivatives import rnea_derivatives as rd
from ..dynamics import aba
from ..dynamics.cholesky import factor_inertia_matrix, solve_outward
from ..dynamics.crba import crba_kernel, place_bodies
from ..dynamics.minverse import compute_factor_after_elimination, solve_minv_factor
from ..kinematics.jacobians import J
from ..kinematics.kinematics import OA_GF, OV
from ..kinematics.world_axes import BODY_VELOCITY, body_velocity
from . import contact_response, contact_row_derivatives, contact_rows, minv_factor_products
from . import packed_contacts as packed
from .contacts import Contact, ContactForces
from .force_system import solve_forces
from .packed_contacts import CONTACT_ROWS, CONTACTS, SOLUTION, pack_contacts

DQ_AFTER = field("dq_after", ("nv",), "Velocity after an impact [rad/s, m/s].")
IMPULSE_C = field(
    "impulse_c", ("constraints",), "Impulses of contacts, in their axes [N s, N m s]."
)
DQ_AFTER_DQ = field(
    "dq_after_dq",
    ("nv", "nv"),
    "Derivative of the velocity after an impact with respect to configuration: [i, "
    "j] of velocity i along velocity j, in the tangent space [rad/s, m/s "
    "per rad, m].",
)
DQ_AFTER_DV = field(
    "dq_after_dv",
    ("nv", "nv"),
    "Derivative of the velocity after an impact with respect to the one before "
    "[rad/s, m/s per rad/s, m/s].",
)
DIMPULSE_DQ = field(
    "dimpulse_dq",
    ("constraints", "nv"),
    "Derivative of the impulses, in the axes of each contact, with respect to "
    "configuration [N s, N m s per rad, m].",
)
DIMPULSE_DV = field(
    "dimpulse_dv",
    ("constraints", "nv"),
    "Derivative of the impulses with respect to velocity [N s, N m s per rad/s, m/s].",
)
PREVIOUS_IMPULSE = field("_previous_impulse", ("constraints",))


# --- the impact


@kernel
def set_impact_residual(r):
    """Set the constraint residual to the velocity that the impulses have to remove.

        b = (1 + e) J v

    Reads BODY_VELOCITY, CONTACT_AXES, FORCE_ARMS; writes CONSTRAINT_RESIDUAL.
    """
    for n in range(packed.ncontacts(r)):
        v = contact_rows.contact_velocities(r, n)
        m = motion_sub(v.first, v.second)
        for k in range(packed.row_start(r, n), packed.row_stop(r, n)):
            f = contact_rows.row_force(r, n, k - packed.row_start(r, n))
            residual = (1.0 + packed.packed_float(r, packed.RESTITUTION)) * power(f, m)
            set_entry(r, cf.CONSTRAINT_RESIDUAL, k, residual)


@kernel
def solve_impact(r, torques):
    """Compute the impulses from L^-T J', and set the field ``torques`` to L^-T J' impulse.

        J M^-1 J' impulse = -(1 + e) J v

    Writes IMPULSE_C, PREVIOUS_IMPULSE, torques; calls compute_contact_coupling,
    set_impact_residual, solve_forces.
    """
    contact_rows.compute_contact_coupling(r)
    set_impact_residual(r)
    solve_forces(r, IMPULSE_C, PREVIOUS_IMPULSE)
    cf.eliminated_jacobian_times(r, IMPULSE_C, torques, 1.0)


@kernel
def add_velocity_change(r):
    """Compute the velocity after the impact, v + M^-1 J' impulse. Reads V, DDQ; writes DQ_AFTER."""
    for k in range(nv(r)):
        set_entry(r, DQ_AFTER, k, entry(r, V, k) + entry(r, aba.DDQ, k))


@kernel
def place_moving_robot(r):
    """Place all bodies in world axes, with their inertias and velocities.

    Reads Q, V; writes ROTATION, FROM_PARENT, COLUMNS, BODY_VELOCITY, INERTIA.
    """
    place_bodies(r)
    clear_motion(r, BODY_VELOCITY, 0)
    for i in range(1, njoints(r) + 1):
        body_velocity(r, i)


@subroutine
def solve_impulses(r):
    """Compute the velocity after an impact and the impulses, by sweeps along the tree.

        M (v_after - v) = J' impulse,  J v_after = -e J v

    Reads Q, V; writes DDQ, LINK_ACCELERATION, BIAS_ACCELERATION, BIAS_TORQUE, DQ_AFTER, IMPULSE_C;
    calls place_moving_robot, eliminate_joints, propagate_contacts, solve_impact,
    outward_accelerations, add_velocity_change.
    """
    place_moving_robot(r)
    aba.eliminate_joints(r)
    contact_rows.propagate_contacts(r, with_elimination=True, with_bias=False)
    solve_impact(r, aba.BIAS_TORQUE)
    for i in range(njoints(r) + 1):
        clear_motion(r, aba.BIAS_ACCELERATION, i)
    clear_motion(r, aba.LINK_ACCELERATION, 0)
    aba.outward_accelerations(r)
    add_velocity_change(r)


@subroutine
def solve_impulses_with_mimic(r):
    """Compute the same from the factor of M, if there are mimic joints.

        v_after = v + M^-1 J' impulse

    Reads Q, V; writes M, DDQ, DINV, DQ_AFTER, IMPULSE_C; calls crba_kernel, factor_inertia_matrix,
    place_moving_robot, propagate_contacts, eliminate_jacobian, solve_impact, add_velocity_change.
    """
    crba_kernel(r)
    factor_inertia_matrix(r)
    cf.store_pivots(r)
    place_moving_robot(r)
    contact_rows.propagate_contacts(r, with_elimination=False, with_bias=False)
    cf.eliminate_jacobian(r)
    solve_impact(r, aba.DDQ)
    solve_outward(r, aba.DDQ)
    add_velocity_change(r)


@kernel
def move_impulses(r):
    """Move the impulses of contacts in WORLD to the world's origin.

    Reads CONTACT_POINTS; writes IMPULSE_C.
    """
    contact_rows.move_entries_to_origin(r, contact_rows.MOMENT_ROWS, IMPULSE_C)


# --- its derivatives: with M^-1 = V' V, R = V J', G = R' R + mu I and the damping mu, the solution
# of
#
#     M d(v) - J' d(impulse) = -dp,  J d(v) + mu d(impulse) = -drow
#
# is d(impulse) = -G^-1 (drow - R' V dp) and d(v) = V' (R d(impulse) - V dp). A batch leaves out
# products with the zeros of drow, and columns along which nothing changes.


@kernel
def count_invariant_columns(r):
    """Return the number of velocities of the first joint if no result changes along them, or 0.

    If all contacts are with the world and in LOCAL, no result depends on the first joint's pose.
    """
    if has_mimic_joints(r):
        return 0
    for n in range(packed.ncontacts(r)):
        if packed.contact_joint(r, n, 1) > 0 or packed.reference_frame(r, n) != contact_rows.LOCAL:
            return 0
    return ncolumns(r, 1)


@kernel
def store_two_columns(r, C, x, y, i, rows, k):
    """Store six numbers each in columns k and k + 1 of C, from row i on. Writes C."""
    products.store_six_rows(r, C, 1.0, x, i, rows, k, 1)
    if k + 1 < nv(r):
        products.store_six_rows(r, C, 1.0, y, i, rows, k + 1, 1)


@kernel
def clear_first_columns(r, C, rows, count):
    """Clear the first ``count`` columns of C. Writes C."""
    for i in range(rows):
        for k in range(count):
            set_element(r, C, i, k, 0.0)


@kernel
def compute_configuration_response(r, dp, drow, dv, impulses):
    """Compute d(v) and d(impulse) from dp and drow, which is overwritten.

        d(impulse) = -G^-1 (drow - R' V dp)
        d(v) = V' (R d(impulse) - V dp)

    Reads MINV_FACTOR, SCALED_JACOBIAN, COUPLING_INVERSE, dp; writes drow, dv, impulses.
    """
    m, n, first = nconstraints(r), nv(r), 0
    if is_batch(r):
        first = count_invariant_columns(r)
        clear_first_columns(r, dv, n, first)
        clear_first_columns(r, impulses, m, first)
    minv_factor_products.minus_minv_factor_times(r, dv, dp, first)
    minv_factor_products.add_scaled_jacobian_transposed_times(r, drow, dv, first)
    products.transpose_times(
        r,
        columns_from(impulses, first),
        -1.0,
        contact_response.coupling_inverse(r),
        columns_from(drow, first),
        m,
        m,
        n - first,
    )
    minv_factor_products.scaled_jacobian_times(r, dv, impulses, first, with_initial=True)
    minv_factor_products.minv_factor_transposed_times(r, dv, first)


@kernel
def multiply_by_coupling_inverse(r, s, drow, impulses):
    """Compute d(impulse) = s G^-1 drow in a batch, without products with the zeros of drow.

    Reads COUPLING_INVERSE, drow; writes impulses.
    """
    m, n, next_column = nconstraints(r), nv(r), columns_from(drow, 1)
    Ginv = contact_response.coupling_inverse(r)
    for i in range(0, m, 6):
        for k in range(0, n, 2):
            x = products.zero6(r, drow)
            x, y = contact_response.add_row_rate_products(
                r, x, x, Ginv, drow, next_column, i, k, min(k + 1, n - 1)
            )
            store_two_columns(r, impulses, products.scale6(s, x), products.scale6(s, y), i, m, k)


@kernel
def compute_row_response(r, s, drow, dv, impulses):
    """Compute d(v) and d(impulse) from s drow, without dp.

        d(impulse) = -s G^-1 drow
        d(v) = V' R d(impulse)

    Reads MINV_FACTOR, SCALED_JACOBIAN, COUPLING_INVERSE, drow; writes dv, impulses.
    """
    m, n = nconstraints(r), nv(r)
    if is_batch(r):
        multiply_by_coupling_inverse(r, -s, drow, impulses)
    else:
        products.transpose_times(
            r, impulses, -s, contact_response.coupling_inverse(r), drow, m, m, n
        )
    minv_factor_products.scaled_jacobian_times(r, dv, impulses, 0, with_initial=False)
    minv_factor_products.minv_factor_transposed_times(r, dv, 0)


@kernel
def outward_impact_pass(r):
    """Compute motions and forces of bodies at rest, with the change of velocity as acceleration.

        v = v_p + S (v_after + e v_before)
        a = a_p + S (v_after - v_before)
        psid = v_p x S,  psidd = a_p x S
        f = Y a

    Reads V, DQ_AFTER; writes OV, OA_GF, J, PSID, PSIDD, SUBTREE_INERTIA, SUBTREE_FORCE; calls
    place_universe_for_columns, store_placed_columns.
    """
    restitution = packed.packed_float(r, packed.RESTITUTION)
    rc.place_universe_for_columns(r)
    clear_motion(r, OA_GF, 0)
    for i in range(1, njoints(r) + 1):
        Y, p = rc.store_placed_columns(r, i), parent(r, i)
        ov = motion(r, OV, p)
        oa = motion(r, OA_GF, p)
        v, a = ov, oa
        for c in range(ncolumns(r, i)):
            S, k = motion_column(r, J, i, c), idx_v(r, i) + c
            v_before, v_after = entry(r, V, k), entry(r, DQ_AFTER, k)
            set_column(r, rc.PSID, i, c, motion_cross(ov, S))
            set_column(r, rc.PSIDD, i, c, motion_cross(oa, S))
            v = motion_add(v, motion_scale(v_after + restitution * v_before, S))
            a = motion_add(a, motion_scale(v_after - v_before, S))
        set_motion(r, OV, i, v)
        set_motion(r, OA_GF, i, a)
        set_inertia(r, rc.SUBTREE_INERTIA, i, Y)
        set_force(r, rc.SUBTREE_FORCE, i, inertia_times(Y, a))


@kernel
def differentiate_momentum(r):
    """Differentiate the momentum that the impulses lack with respect to configuration.

        dp = d(M (v_after - v) - J' impulse)

    Reads IMPULSE_C; writes DTAU_DQ, DFDQ; calls subtract_contact_forces,
    differentiate_inward_at_rest, differentiate_forces.
    """
    contact_row_derivatives.subtract_contact_forces(r, IMPULSE_C, rc.SUBTREE_FORCE)
    rd.differentiate_inward_at_rest(r, rd.DTAU_DQ)
    contact_row_derivatives.differentiate_forces(r, IMPULSE_C, rd.DTAU_DQ)


@kernel
def solve_impact_derivatives(r):
    """Compute d(v_after) and d(impulse) from the rates of momentum and rows.

        with respect to q: p = M (v_after - v) - J' impulse,  row = J v_after + e J v
        with respect to v, less v: dp = 0,  drow = (1 + e) J

    Reads DTAU_DQ, DAC_DA; writes DVC_DQ, DQ_AFTER_DQ, DQ_AFTER_DV, DIMPULSE_DQ, DIMPULSE_DV; calls
    set_coupling_inverse, compute_configuration_response, compute_row_response.
    """
    contact_response.set_coupling_inverse(r)
    compute_configuration_response(
        r,
        matrix(r, rd.DTAU_DQ),
        matrix(r, contact_row_derivatives.DVC_DQ),
        matrix(r, DQ_AFTER_DQ),
        matrix(r, DIMPULSE_DQ),
    )
    compute_row_response(
        r,
        1.0 + packed.packed_float(r, packed.RESTITUTION),
        matrix(r, contact_row_derivatives.DAC_DA),
        matrix(r, DQ_AFTER_DV),
        matrix(r, DIMPULSE_DV),
    )
    for k in range(nv(r)):
        add_to_element(r, matrix(r, DQ_AFTER_DV), k, k, 1.0)


@subroutine
def differentiate_impact(r):
    """Compute all derivatives, after the impact and the root of M^-1.

    Reads V; writes OV, OA_GF, J, PSID, PSIDD, DTAU_DQ, DFDQ, DAC_DQ, DAC_DV, DAC_DA, DVC_DQ,
    IMPULSE_C, DQ_AFTER_DQ, DQ_AFTER_DV, DIMPULSE_DQ, DIMPULSE_DV; calls outward_impact_pass,
    differentiate_contacts, differentiate_momentum, solve_impact_derivatives, move_rates_to_origin.
    """
    outward_impact_pass(r)
    contact_row_derivatives.differentiate_contacts(r, with_acceleration=False)
    differentiate_momentum(r)
    solve_impact_derivatives(r)
    contact_row_derivatives.move_rates_to_origin(r, IMPULSE_C, DIMPULSE_DQ)
    for j in range(nv(r)):
        contact_rows.move_column_to_origin(r, contact_rows.MOMENT_ROWS, matrix(r, DIMPULSE_DV), j)
    move_impulses(r)
    minv_factor_products.clear_link_contacts(r, rd.DTAU_DQ)


@public
class ImpulseDerivatives(NamedTuple):
    """Result of ``impulse_dynamics_derivatives``.

    Examples
    --------
    >>> d = dyn_ros.impulse_dynamics_derivatives(walker, walker_data, stand, np.zeros(18), feet)
    >>> d._fields
    ('dv_dq', 'dv_dv', 'dimpulse_dq', 'dimpulse_dv')
    """

    dv_dq: Array
    dv_dv: Array
    dimpulse_dq: Array
    dimpulse_dv: Array


@algorithm(
    sequence(solve_impulses, move_impulses),
    inputs=(Q, V, CONTACT_ROWS),
    results=(DQ_AFTER, IMPULSE_C, SOLUTION),
    options=(CONTACTS,),
    mimic_kernel=sequence(solve_impulses_with_mimic, move_impulses),
    needs_double=True,
)
def impulse_dynamics(
    model: Model,
    data: Data,
    q: ArrayLike,
    v: ArrayLike,
    contacts: Sequence[Contact],
    restitution: float = 0.0,
    damping: float = 0.0,
    *,
    threads: int = 1,
    out: OutArrays | None = None,
) -> tuple[Array, ContactForces]:
    """Compute the velocity after an impact, and the impulses of the contacts.

    Newton's law of impact for all contacts at once, Featherstone (2008), section 11.7;
    O(n + m^2 d + m^3) for m rows and a tree of depth d. Includes ``model.armature``:

        M (v_after - v) = J' impulse,  J v_after = -restitution J v

    Redundant contacts and damping are treated as in ``contact_dynamics``; gains have no effect. v
    is the velocity before the impact.

    Returns
    -------
    v_after : (nv,) ndarray
        [rad/s, m/s]; ``data.dq_after``.
    impulses : ContactForces
        By name, in the axes of each contact [N s, N m s]; ``impulses.lambda_c`` is
        ``data.impulse_c``.

    Examples
    --------
    The robot falls on its feet, which stay on the ground:

    >>> falling = np.zeros(18)
    >>> falling[2] = -0.5
    >>> v_after, impulses = dyn_ros.impulse_dynamics(walker, walker_data, stand, falling, feet)
    >>> np.allclose(dyn_ros.contact_jacobian(walker, walker_data, stand, feet) @ v_after, 0.0)
    True
    >>> bool(impulses["hind_left_foot"][2] > 0.0)             # the ground pushes up
    True
    """
    packed_contacts = pack_contacts(model, data, contacts, damping, restitution=restitution)
    v_after, impulse_c, solution = impulse_dynamics.call(
        model,
        data,
        threads if out is None else BatchOptions(threads, out),
        packed_contacts,
        q,
        v,
        packed_contacts.zeros,
    )
    return v_after, ContactForces(packed_contacts.rows, impulse_c, solution)


@algorithm(
    sequence(solve_impulses, compute_factor_after_elimination, differentiate_impact),
    inputs=(Q, V, CONTACT_ROWS),
    results=(DQ_AFTER_DQ, DQ_AFTER_DV, DIMPULSE_DQ, DIMPULSE_DV),
    also_writes=(DQ_AFTER, IMPULSE_C),
    options=(CONTACTS,),
    mimic_kernel=sequence(solve_impulses_with_mimic, solve_minv_factor, differentiate_impact),
    make=ImpulseDerivatives._make,
    needs_double=True,
)
def impulse_dynamics_derivatives(
    model: Model,
    data: Data,
    q: ArrayLike,
    v: ArrayLike,
    contacts: Sequence[Contact],
    restitution: float = 0.0,
    damping: float = 0.0,
    *,
    threads: int = 1,
    out: OutArrays | None = None,
) -> ImpulseDerivatives:
    """Compute derivatives of ``impulse_dynamics`` with respect to configuration and velocity.

    Carpentier, Budhiraja and Mansard (2021), applied to momentum; O(n^3 + n^2 m + m^3) for m rows.
    The result is a named tuple (dv_dq, dv_dv, dimpulse_dq, dimpulse_dv).

    Examples
    --------
    >>> falling = np.zeros(18)
    >>> falling[2] = -0.5
    >>> d = dyn_ros.impulse_dynamics_derivatives(walker, walker_data, stand, falling, feet)
    >>> d.dv_dq.shape, d.dimpulse_dv.shape
    ((18, 18), (12, 18))
    """
    packed_contacts = pack_contacts(model, data, contacts, damping, restitution=restitution)
    return impulse_dynamics_derivatives.call(
        model,
        data,
        threads if out is None else BatchOptions(threads, out),
        packed_contacts,
        q,
        v,
        packed_contacts.zeros,
    )
