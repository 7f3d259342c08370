# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Response of a robot in contact to changes of torques and of the rows of its contacts.

With Y = M^-1 J', G = J Y, K = G^-1 Y' and P = M^-1 - Y K, the solution of

    M d(ddq) - J' d(lambda) = -dtau,  J d(ddq) = -drow

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
from .force_system import TOLERANCE, damping_above_rounding
from .minv_factor_products import (
    are_linked,
    first_in_branch,
    minv_factor_matrix,
    moved_contacts,
    response_matrix,
)
from .packed_contacts import damping, ncontacts, row_start, row_stop

RESPONSE = field("_response", ("constraints", "nv"))  # Y' = J M^-1
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
def set_contact_response(r, n):
    """Compute the rows of Y' of contact n; a batch leaves out zeros of V.

        Y' = J M^-1 = R' V,  R = V J'

    Reads MINV_FACTOR, SCALED_JACOBIAN; writes RESPONSE.
    """
    columns, width, (first, second) = nv(r), simd_width(r.work), branch_velocities(r, n)
    R, V_, Y = response_matrix(r), minv_factor_matrix(r), matrix(r, RESPONSE)
    for k in range(row_start(r, n), row_stop(r, n), 3):
        for c in range(0, columns, 2 * width):
            if is_batch(r):
                i = first_in_branch(r, first, c, c + 2)
                j = first_in_branch(r, second, c, c + 2)
            else:
                i, j = first, second
            x, y = cf.product_along(r, columns_from(R, k), columns_from(V_, c), columns - c, i, j)
            for t in range(3):
                set_elements(r, Y, k + t, c, columns - c, x[t])
                if c + width < columns:
                    set_elements(r, Y, k + t, c + width, columns - c - width, y[t])


@kernel
def set_response(r):
    """Compute Y' = J M^-1 and G^-1, with G = J M^-1 J'.

    Reads PIVOTS, MINV_FACTOR, SCALED_JACOBIAN, COUPLING; writes FACTOR, FACTOR_INVERSE, RIGHT,
    WEIGHTS, RESPONSE, COUPLING_INVERSE.
    """
    set_coupling_inverse(r)
    for contact in range(ncontacts(r)):
        set_contact_response(r, contact)


@kernel
def set_coupling_inverse(r):
    """Compute G^-1 from the factor of G with which the contact forces were solved.

        G = J M^-1 J' + mu I                mu: the damping

    Reads PIVOTS, COUPLING; writes FACTOR, FACTOR_INVERSE, RIGHT, WEIGHTS, COUPLING_INVERSE.
    """
    shift = lift(0.0, entry(r, cf.COUPLING, 0))
    if damping(r) > 0.0:
        shift = damping_above_rounding(r)
    invert_factored(r, nconstraints(r), cf.COUPLING, shift, TOLERANCE, COUPLING_INVERSE)


@kernel
def add_pair(r, x, y, A, B, B2, j, i, k):
    """Return x and y plus six numbers of row j of A, from i on, times B_jk and B2_jk.

    Reads A, B, B2.
    """
    a = elements6(r, A, j, i)
    return (
        products.add_six(x, a, element(r, B, j, k)),
        products.add_six(y, a, element(r, B2, j, k)),
    )


@kernel
def project_symmetric(r, P, minus_K):
    """Compute P = M^-1 - Y K for a batch: the upper triangle, and the lower one by symmetry.

    Reads MINV, RESPONSE, minus_K; writes P.
    """
    n, m, Minv, Y_transpose = nv(r), nconstraints(r), matrix(r, MINV), matrix(r, RESPONSE)
    next_column = columns_from(minus_K, 1)
    for i in range(0, n, 6):
        for k in range(i, n, 2):
            x = elements6(r, Minv, k, i)
            y = elements6(r, Minv, min(k + 1, n - 1), i)
            for j in range(m):
                x, y = add_pair(r, x, y, Y_transpose, minus_K, next_column, j, i, k)
            for t in range(2):
                if k + t < n:
                    products.store_six(r, P, 1.0, x if t == 0 else y, i, n, k + t, 1)
                    products.store_six(r, transpose(P), 1.0, x if t == 0 else y, i, n, k + t, 1)


@kernel
def project(r, P, minus_K):
    """Compute the projection P = M^-1 - Y K, the response of accelerations to torques.

    Reads MINV, RESPONSE, minus_K; writes P.
    """
    n, m, Minv, Y_transpose = nv(r), nconstraints(r), matrix(r, MINV), matrix(r, RESPONSE)
    if is_batch(r):
        project_symmetric(r, P, minus_K)
        return
    products.multiply(r, P, 1.0, Y_transpose, minus_K, n, m, n)
    for k in range(n * n):  # both matrices have no gaps
        add_to_element(r, P, 0, k, element(r, Minv, 0, k))


@kernel
def respond_to_torques(r, response):
    """Compute G^-1, and the response to torques.

        d(ddq) = P = M^-1 - Y K,  d(lambda) = -K = -G^-1 Y'

    Reads PIVOTS, MINV, MINV_FACTOR, SCALED_JACOBIAN, COUPLING; writes FACTOR, FACTOR_INVERSE,
    RIGHT, WEIGHTS, RESPONSE, COUPLING_INVERSE, response.
    """
    n, m = nv(r), nconstraints(r)
    set_response(r)
    products.multiply(r, response.forces, -1.0, coupling_inverse(r), matrix(r, RESPONSE), m, m, n)
    project(r, response.motions, response.forces)


# --- columns of a batch: two right sides, six rows at a time


@kernel
def add_torques(r, x, y, A, B, B2, i, k, last, linked):
    """Return x and y plus rows i to i + 5 of A' times column k of two matrices dtau, B and B2.

    Velocities that are neither descendants nor ancestors of k to ``last`` are left out.

    Reads A, B, B2.
    """
    stop = nv(r) if linked else max(velocity_end(r, k), velocity_end(r, last))
    j = stop - 1
    while j >= 0:
        x, y = add_pair(r, x, y, A, B, B2, j, i, k)
        j = j - 1 if linked or j > k else velocity_parent(r, j)
    return x, y


@kernel
def add_rows(r, x, y, A, B, B2, i, k, last):
    """Return x and y plus rows i to i + 5 of A' times column k of two matrices drow, B and B2.

    Contacts that velocities k to ``last`` do not move are left out.

    Reads A, B, B2.
    """
    moved = moved_contacts(r, k, last)
    for n in range(ncontacts(r)):
        if moved >> n & 1:
            for j in range(row_start(r, n), row_stop(r, n)):
                x, y = add_pair(r, x, y, A, B, B2, j, i, k)
    return x, y


@kernel
def respond_sparsely(r, C, C2, s, A, s2, A2, rates, rates2, rows):
    """Set C to s A' dtau + s2 A2' drow, and C2 from ``rates2``, with s and s2 of 1 or -1.

    Reads A, A2, rates, rates2; writes C, C2.
    """
    linked, t = are_linked(r), s * s2
    for i in range(0, rows, 6):
        for k in range(nv(r)):
            x = products.zero_six(r, C)
            x, y = add_torques(r, x, x, A, rates.torques, rates2.torques, i, k, k, linked)
            x, y = products.scale_six(t, x), products.scale_six(t, y)
            x, y = add_rows(r, x, y, A2, rates.rows, rates2.rows, i, k, k)
            products.store_six(r, C, s2, x, i, rows, k, 1)
            products.store_six(r, C2, s2, y, i, rows, k, 1)


@kernel
def respond(r, to_torques, rates, rates2, response, response2):
    """Compute the responses to two rates, after ``respond_to_torques``.

        d(ddq) = -P dtau - K' drow,  d(lambda) = K dtau - G^-1 drow

    Reads COUPLING_INVERSE, rates, rates2, to_torques; writes response, response2.
    """
    n, m, P, minus_K = nv(r), nconstraints(r), to_torques.motions, to_torques.forces
    Ginv, minus_K_transpose = coupling_inverse(r), transpose(minus_K)
    if is_batch(r):
        respond_sparsely(
            r, response.motions, response2.motions, -1.0, P, 1.0, minus_K, rates, rates2, n
        )
        respond_sparsely(
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
        products.combine(r, y.motions, -1.0, P, x.torques, n, 1.0, minus_K, x.rows, m, n, n)
        products.combine(
            r, y.forces, -1.0, minus_K_transpose, x.torques, n, -1.0, Ginv, x.rows, m, m, n
        )
