# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""How a robot in contact responds to changes of torques and of the rows of its contacts.

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
from ..dynamics.minverse import MINV, ROOT
from .contact_rows import branches
from .packed import damping, ncontacts, row_start, row_stop
from .root_products import are_linked, first_in_branch, moved_contacts
from .system import TOLERANCE, damping_above_rounding

RESPONSE = field("_response", ("constraints", "nv"))  # Y'
INVERSE = field("_coupling_inverse", (MAX_CONSTRAINTS, WIDTH))

Rates = namedtuple("Rates", "torques rows")  # dtau and drow
Response = namedtuple("Response", "motions forces")  # d(ddq) and d(lambda)


@kernel
def coupling_inverse(r):
    """Return G^-1, a matrix."""
    return matrix_at(offset(r, INVERSE), WIDTH)


@kernel
def response_of(r, n):
    """Compute the rows of J M^-1 = (V J')' V of contact n; a batch leaves out zeros of V.

    Reads ROOT, SCALED; writes RESPONSE.
    """
    columns, width, (first, second) = nv(r), simd_width(r.work), branches(r, n)
    for k in range(row_start(r, n), row_stop(r, n), 3):
        X = matrix_at(offset(r, cf.SCALED) + k, WIDTH)
        for c in range(0, columns, 2 * width):
            if is_batch(r):
                i = first_in_branch(r, first, c, c + 2)
                j = first_in_branch(r, second, c, c + 2)
            else:
                i, j = first, second
            x, y = cf.product_along(
                r, X, matrix_at(offset(r, ROOT) + c, padded(r)), columns - c, i, j
            )
            for t in range(3):
                row = offset(r, RESPONSE) + columns * (k + t) + c
                store_simd(r.work, row, columns - c, x[t])
                if c + width < columns:
                    store_simd(r.work, row + width, columns - c - width, y[t])


@kernel
def set_response(r):
    """Compute Y' = J M^-1 and G^-1 = (J M^-1 J')^-1.

    Reads PIVOTS, ROOT, SCALED, COUPLING; writes FACTOR, INVERSE, RIGHT, WEIGHTS, RESPONSE, INVERSE.
    """
    invert_coupling(r)
    for contact in range(ncontacts(r)):
        response_of(r, contact)


@kernel
def invert_coupling(r):
    """Compute G^-1, from the factor of G that the contact forces were solved with.

    Reads PIVOTS, COUPLING; writes FACTOR, INVERSE, RIGHT, WEIGHTS, INVERSE.
    """
    shift = lift(0.0, entry(r, cf.COUPLING, 0))
    if damping(r) > 0.0:
        shift = damping_above_rounding(r)
    invert_factored(
        r, nconstraints(r), offset(r, cf.COUPLING), shift, TOLERANCE, offset(r, INVERSE)
    )


@kernel
def add_pair(r, x, y, A, B, B2, j, i, k):
    """Add row j of A times column k of B and of B2. Reads A, B, B2."""
    a = products.load_six(r, A, j, i)
    return (
        products.add_six(x, a, load(r.work, B.start + B.step * j + k)),
        products.add_six(y, a, load(r.work, B2.start + B2.step * j + k)),
    )


@kernel
def project(r, P, minus_K):
    """Compute P = M^-1 - Y K; a batch computes the upper triangle, and the lower one by symmetry.

    Reads MINV, RESPONSE, minus_K; writes P.
    """
    n, m, W, Y = nv(r), nconstraints(r), matrix(r, MINV), matrix(r, RESPONSE)
    if not is_batch(r):
        products.multiply(r, P, 1.0, Y, minus_K, n, m, n)
        for k in range(n * n):
            store(r.work, P.start + k, load(r.work, P.start + k) + load(r.work, W.start + k))
        return
    for i in range(0, n, 6):
        for k in range(i, n, 2):
            x, y = products.load_six(r, W, k, i), products.load_six(r, W, min(k + 1, n - 1), i)
            for j in range(m):
                x, y = add_pair(r, x, y, Y, minus_K, matrix_at(minus_K.start + 1, n), j, i, k)
            for t in range(2):
                if k + t < n:
                    products.store_six(r, P, 1.0, x if t == 0 else y, i, n, k + t, 1)
                    products.store_six(r, transpose(P), 1.0, x if t == 0 else y, i, n, k + t, 1)


@kernel
def respond_to_torques(r, response):
    """Compute G^-1, and the response to torques, P and -K.

    Reads PIVOTS, MINV, ROOT, SCALED, COUPLING; writes FACTOR, INVERSE, RIGHT, WEIGHTS, RESPONSE,
    INVERSE, response.
    """
    n, m = nv(r), nconstraints(r)
    set_response(r)
    products.multiply(r, response.forces, -1.0, coupling_inverse(r), matrix(r, RESPONSE), m, m, n)
    project(r, response.motions, response.forces)


# --- the columns of a batch


@kernel
def add_torques(r, x, y, A, B, B2, i, k, last, linked):
    """Add A' times columns of two dtau, from the tips of the branches of velocities k to last.

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
    """Add A' times columns of two drow, of velocities k to last. Reads A, B, B2."""
    moved = moved_contacts(r, k, last)
    for n in range(ncontacts(r)):
        if moved >> n & 1:
            for j in range(row_start(r, n), row_stop(r, n)):
                x, y = add_pair(r, x, y, A, B, B2, j, i, k)
    return x, y


@kernel
def respond_sparsely(r, C, C2, s, A, s2, A2, rates, rates2, rows):
    """Set C to s A' dtau + s2 A2' drow, and C2 from the other rates, six rows at a time.

    Reads A, A2, rates, rates2; writes C, C2.
    """
    linked, t = are_linked(r), s * s2
    for i in range(0, rows, 6):
        for k in range(nv(r)):
            x = products.zero_six(r, C)
            x, y = add_torques(r, x, x, A, rates.torques, rates2.torques, i, k, k, linked)
            x, y = add_rows(
                r,
                products.scale_six(t, x),
                products.scale_six(t, y),
                A2,
                rates.rows,
                rates2.rows,
                i,
                k,
                k,
            )
            products.store_six(r, C, s2, x, i, rows, k, 1)
            products.store_six(r, C2, s2, y, i, rows, k, 1)


@kernel
def respond(r, to_torques, rates, rates2, response, response2):
    """Compute the responses to two rates, after ``respond_to_torques``.

        d(ddq) = -P dtau - K' drow,  d(lambda) = K dtau - G^-1 drow

    Reads INVERSE, rates, rates2, to_torques; writes response, response2.
    """
    n, m, P, minus_K = nv(r), nconstraints(r), to_torques.motions, to_torques.forces
    if is_batch(r):
        respond_sparsely(
            r, response.motions, response2.motions, -1.0, P, 1.0, minus_K, rates, rates2, n
        )
        respond_sparsely(
            r,
            response.forces,
            response2.forces,
            -1.0,
            transpose(minus_K),
            -1.0,
            coupling_inverse(r),
            rates,
            rates2,
            m,
        )
        return
    for second in range(2):
        x, columns = rates, response
        if second == 1:
            x, columns = rates2, response2
        products.combine(r, columns.motions, -1.0, P, x.torques, n, 1.0, minus_K, x.rows, m, n, n)
        products.combine(
            r,
            columns.forces,
            -1.0,
            transpose(minus_K),
            x.torques,
            n,
            -1.0,
            coupling_inverse(r),
            x.rows,
            m,
            m,
            n,
        )
