# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Response of a robot in contact to changes of torques and of the rows of its contacts.

With W = M^-1 J', G = J W + mu I, K = G^-1 W', P = M^-1 - W K and the damping mu, the solution of

    M d(ddq) - J' d(lambda) = -dtau,  J d(ddq) + mu d(lambda) = -drow

is d(ddq) = -P dtau - K' drow and d(lambda) = K dtau - G^-1 drow. A batch leaves out products with
the zeros of dtau and drow, whose columns are as sparse as the tree.
"""

from collections import namedtuple

from ...kernel.vocabulary import *
from ..constrained import constraint_forces as cf
from ..constrained import products
from ..constrained.semidefinite import WIDTH, invert_factored
from ..dynamics.minverse import MINV
from .contact_rows import branch_velocities
from .force_system import EIGENVALUE_TOLERANCE, damping_above_rounding
from .minv_factor_products import (
    find_moved_contacts,
    first_branch_velocity,
    has_link_contacts,
    minv_factor_matrix,
    scaled_jacobian,
)
from .packed_contacts import contact_damping, ncontacts, row_start, row_stop

RESPONSE = field("_response", ("constraints", "nv"))  # W' = J M^-1
COUPLING_INVERSE = field("_coupling_inverse", (MAX_CONSTRAINTS, WIDTH))  # G^-1

Rates = namedtuple("Rates", "torques rows")
"""The matrices dtau, (nv, nv), and drow, (m, nv)."""
Response = namedtuple("Response", "motions forces")
"""The matrices d(ddq), (nv, nv), and d(lambda), (m, nv)."""


@kernel
def coupling_inverse(r):
    """Return G^-1, (m, m)."""
    return matrix_of_width(r, COUPLING_INVERSE, WIDTH)


@kernel
def compute_response_of_contact(r, n):
    """Compute the rows of W' of contact n; a batch leaves out zeros of V.

        W' = J M^-1 = R' V,  R = V J'

    Reads MINV_FACTOR, SCALED_JACOBIAN; writes RESPONSE.
    """
    columns, width, (first, second) = nv(r), simd_width(r.work), branch_velocities(r, n)
    R, V_, W_transpose = scaled_jacobian(r), minv_factor_matrix(r), matrix(r, RESPONSE)
    for k in range(row_start(r, n), row_stop(r, n), 3):
        for c in range(0, columns, 2 * width):
            if is_batch(r):
                i = first_branch_velocity(r, first, c, c + 2)
                j = first_branch_velocity(r, second, c, c + 2)
            else:
                i, j = first, second
            x, y = cf.product_along_paths(
                r, columns_from(R, k), columns_from(V_, c), columns - c, i, j
            )
            for t in range(3):
                set_elements(r, W_transpose, k + t, c, columns - c, x[t])
                if c + width < columns:
                    set_elements(r, W_transpose, k + t, c + width, columns - c - width, y[t])


@kernel
def compute_contact_response(r):
    """Compute W' = J M^-1 and G^-1, with G = J M^-1 J' + mu I.

    Reads INVERSE_PIVOTS, MINV_FACTOR, SCALED_JACOBIAN, COUPLING; writes FACTOR, FACTOR_INVERSE,
    RIGHT_SIDE, TRACE_WEIGHTS, RESPONSE, COUPLING_INVERSE.
    """
    set_coupling_inverse(r)
    for contact in range(ncontacts(r)):
        compute_response_of_contact(r, contact)


@kernel
def set_coupling_inverse(r):
    """Compute G^-1 from the factor of G with which the contact forces were solved.

        G = J M^-1 J' + mu I                mu: the damping

    Reads INVERSE_PIVOTS, COUPLING; writes FACTOR, FACTOR_INVERSE, RIGHT_SIDE, TRACE_WEIGHTS,
    COUPLING_INVERSE.
    """
    shift = lift(0.0, entry(r, cf.COUPLING, 0))
    if contact_damping(r) > 0.0:
        shift = damping_above_rounding(r)
    invert_factored(r, nconstraints(r), cf.COUPLING, shift, EIGENVALUE_TOLERANCE, COUPLING_INVERSE)


@kernel
def multiply_add_pair(r, x, y, A, B, B2, j, i, k):
    """Return x and y plus six numbers of row j of A, from i on, times B_jk and B2_jk.

        x_t = x_t + A_j,i+t B_jk,  y_t = y_t + A_j,i+t B2_jk

    Reads A, B, B2.
    """
    a = elements6(r, A, j, i)
    return (
        products.multiply_add6(x, a, element(r, B, j, k)),
        products.multiply_add6(y, a, element(r, B2, j, k)),
    )


@kernel
def compute_symmetric_projection(r, P, minus_K):
    """Compute P for a batch: the upper triangle, and the lower one by symmetry.

        P = M^-1 - W K

    Blocks of six rows from i on, and of columns k and k + 1.

    Reads MINV, RESPONSE, minus_K; writes P.
    """
    n, m, Minv, W_transpose = nv(r), nconstraints(r), matrix(r, MINV), matrix(r, RESPONSE)
    next_column = columns_from(minus_K, 1)
    for i in range(0, n, 6):
        for k in range(i, n, 2):
            x = elements6(r, Minv, k, i)
            y = elements6(r, Minv, min(k + 1, n - 1), i)
            for j in range(m):
                x, y = multiply_add_pair(r, x, y, W_transpose, minus_K, next_column, j, i, k)
            for t in range(2):
                if k + t < n:
                    block = x if t == 0 else y
                    products.store_six_rows(r, P, 1.0, block, i, n, k + t, 1)
                    products.store_six_rows(r, matrix_transpose(P), 1.0, block, i, n, k + t, 1)


@kernel
def compute_projection(r, P, minus_K):
    """Compute P, the response of accelerations to torques.

        P = M^-1 - W K

    Reads MINV, RESPONSE, minus_K; writes P.
    """
    n, m, Minv, W_transpose = nv(r), nconstraints(r), matrix(r, MINV), matrix(r, RESPONSE)
    if is_batch(r):
        compute_symmetric_projection(r, P, minus_K)
        return
    products.transpose_times(r, P, 1.0, W_transpose, minus_K, n, m, n)
    for k in range(n * n):  # both matrices have no gaps
        add_to_element(r, P, 0, k, element(r, Minv, 0, k))


@kernel
def compute_torque_response(r, response):
    """Compute G^-1, and the response to torques.

        d(ddq) = P = M^-1 - W K,  d(lambda) = -K = -G^-1 W'

    Reads INVERSE_PIVOTS, MINV, MINV_FACTOR, SCALED_JACOBIAN, COUPLING; writes FACTOR,
    FACTOR_INVERSE, RIGHT_SIDE, TRACE_WEIGHTS, RESPONSE, COUPLING_INVERSE, response.
    """
    n, m = nv(r), nconstraints(r)
    compute_contact_response(r)
    products.transpose_times(
        r, response.forces, -1.0, coupling_inverse(r), matrix(r, RESPONSE), m, m, n
    )
    compute_projection(r, response.motions, response.forces)


# --- columns of a batch: two right sides, six rows at a time


@kernel
def add_torque_rate_products(r, x, y, A, B, B2, i, k, last, with_link_contacts):
    """Return x and y plus rows i to i + 5 of A' times column k of two matrices dtau, B and B2.

        x_t = x_t + sum of A_j,i+t B_jk,  y_t = y_t + sum of A_j,i+t B2_jk

    Velocities j that are neither descendants nor ancestors of k to ``last`` are left out, unless
    contacts connect links.

    Reads A, B, B2.
    """
    stop = nv(r) if with_link_contacts else max(velocity_end(r, k), velocity_end(r, last))
    j = stop - 1
    while j >= 0:
        x, y = multiply_add_pair(r, x, y, A, B, B2, j, i, k)
        j = j - 1 if with_link_contacts or j > k else velocity_parent(r, j)
    return x, y


@kernel
def add_row_rate_products(r, x, y, A, B, B2, i, k, last):
    """Return x and y plus rows i to i + 5 of A' times column k of two matrices drow, B and B2.

        x_t = x_t + sum of A_j,i+t B_jk,  y_t = y_t + sum of A_j,i+t B2_jk

    Rows j of contacts that velocities k to ``last`` do not move are left out.

    Reads A, B, B2.
    """
    contact_mask = find_moved_contacts(r, k, last)
    for n in range(ncontacts(r)):
        if contact_mask >> n & 1:
            for j in range(row_start(r, n), row_stop(r, n)):
                x, y = multiply_add_pair(r, x, y, A, B, B2, j, i, k)
    return x, y


@kernel
def compute_sparse_responses(r, C, C2, s_tau, A_tau, s_row, A_row, rates, rates2, rows):
    """Set C and C2, of ``rows`` rows, to products with the sparse matrices dtau and drow of rates.

        C = s_tau A_tau' dtau + s_row A_row' drow           of ``rates``, and C2 of ``rates2``

    s_tau and s_row are 1 or -1. Six rows and one column of C and C2 are computed at a time.

    Reads A_row, A_tau, rates, rates2; writes C, C2.
    """
    with_link_contacts, s = has_link_contacts(r), s_tau * s_row
    for i in range(0, rows, 6):
        for k in range(nv(r)):
            x = products.zero6(r, C)
            x, y = add_torque_rate_products(
                r, x, x, A_tau, rates.torques, rates2.torques, i, k, k, with_link_contacts
            )
            x, y = products.scale6(s, x), products.scale6(s, y)
            x, y = add_row_rate_products(r, x, y, A_row, rates.rows, rates2.rows, i, k, k)
            products.store_six_rows(r, C, s_row, x, i, rows, k, 1)
            products.store_six_rows(r, C2, s_row, y, i, rows, k, 1)


@kernel
def compute_responses(r, to_torques, rates, rates2, response, response2):
    """Compute the responses to two rates; see ``compute_torque_response`` for ``to_torques``.

        d(ddq) = -P dtau - K' drow,  d(lambda) = K dtau - G^-1 drow

    Reads COUPLING_INVERSE, rates, rates2, to_torques; writes response, response2.
    """
    n, m, P, minus_K = nv(r), nconstraints(r), to_torques.motions, to_torques.forces
    Ginv, minus_K_transpose = coupling_inverse(r), matrix_transpose(minus_K)
    if is_batch(r):
        compute_sparse_responses(
            r, response.motions, response2.motions, -1.0, P, 1.0, minus_K, rates, rates2, n
        )
        compute_sparse_responses(
            r,
            response.forces,
            response2.forces,
            -1.0,
            minus_K_transpose,
            -1.0,
            Ginv,
            rates,
            rates2,
            m,
        )
        return
    for k in range(2):
        x, y = rates, response
        if k == 1:
            x, y = rates2, response2
        products.sum_of_transpose_times(
            r, y.motions, -1.0, P, x.torques, n, 1.0, minus_K, x.rows, m, n, n
        )
        products.sum_of_transpose_times(
            r, y.forces, -1.0, minus_K_transpose, x.torques, n, -1.0, Ginv, x.rows, m, m, n
        )
