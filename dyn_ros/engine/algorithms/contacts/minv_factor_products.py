# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Products with V and R = V J', where M^-1 = V' V and J M^-1 J' = R' R.

V and R are as sparse as the tree. Products are computed in blocks of three rows and three SIMD
vectors of columns.
"""

from ...kernel.vocabulary import *
from ..constrained import constraint_forces as cf
from ..constrained.semidefinite import WIDTH
from ..dynamics.minverse import MINV_FACTOR
from . import packed_contacts as packed
from .contact_rows import branch_velocities

# --- sparsity: contacts of two links, subtrees and branches


@kernel
def has_link_contacts(r):
    """Return True if a contact connects two links, whose branches then have nonzero dtau."""
    with_link_contacts = False
    for n in range(packed.ncontacts(r)):
        with_link_contacts = with_link_contacts or (
            packed.contact_joint(r, n, 0) > 0 and packed.contact_joint(r, n, 1) > 0
        )
    return with_link_contacts


@kernel
def clear_link_contacts(r, target):
    """Clear an nv x nv matrix in which contacts of two links set elements outside the tree.

    Writes target.
    """
    if has_link_contacts(r):
        clear_entries(r, target, nv(r) * nv(r))


@kernel
def velocity_subtree_end(r, first, last):
    """Return the end of the range of descendants of velocities ``first`` to ``last``."""
    end = last + 1
    for j in range(first, last):
        end = max(end, velocity_end(r, j))
    return max(end, velocity_end(r, last))


@kernel
def find_moved_contacts(r, first, last):
    """Return the contacts of bodies that velocities ``first`` to ``last`` move, one bit each."""
    mask, end = 0, velocity_subtree_end(r, first, last)
    for n in range(packed.ncontacts(r)):
        i, j = branch_velocities(r, n)
        if (first <= i and i < end) or (first <= j and j < end):
            mask |= 1 << n
    return mask


@kernel
def first_branch_velocity(r, j, k, stop):
    """Return the first velocity from j to the root in a range from k to ``stop`` or above it."""
    while j >= 0 and (j >= stop or velocity_end(r, j) <= k):
        j = velocity_parent(r, j)
    return j


# --- matrices


@kernel
def minv_factor_matrix(r):
    """Return V, (nv, nv)."""
    return matrix_of_width(r, MINV_FACTOR, padded_nv(r))


@kernel
def scaled_jacobian(r):
    """Return R = V J', (nv, m)."""
    return matrix_of_width(r, cf.SCALED_JACOBIAN, WIDTH)


# --- blocks of three rows


@kernel
def three_row_indices(r, i):
    """Return the numbers of rows i to i + 2; beyond the last row, that one is repeated."""
    last = nv(r) - 1
    return i, min(i + 1, last), min(i + 2, last)


@kernel
def three_elements(r, A, rows, j):
    """Return the elements of column j of A in three rows. Reads A."""
    return element(r, A, rows[0], j), element(r, A, rows[1], j), element(r, A, rows[2], j)


@kernel
def zero_block(r, C):
    """Return a block of zeros. Reads C."""
    zero = lift(0.0, elements(r, C, 0, 0, 1))
    return (zero, zero, zero), (zero, zero, zero), (zero, zero, zero)


@kernel
def three_vectors(r, A, rows, k, count):
    """Return up to ``count`` elements from column k of A on, in three rows. Reads A."""
    return (
        elements(r, A, rows[0], k, count),
        elements(r, A, rows[1], k, count),
        elements(r, A, rows[2], k, count),
    )


@kernel
def load_block(r, C, i, k):
    """Return the block of three rows and three vectors of columns from row i and column k on.

    Reads C.
    """
    rows, width, count = three_row_indices(r, i), simd_width(r.work), nv(r) - k
    return (
        three_vectors(r, C, rows, k, count),
        three_vectors(r, C, rows, k + width, count - width),
        three_vectors(r, C, rows, k + 2 * width, count - 2 * width),
    )


@kernel
def store_three_rows(r, C, i, k, x):
    """Store a block of three rows and three vectors of columns from row i and column k on.

    Elements beyond row and column nv are not stored.

    Writes C.
    """
    width, n = simd_width(r.work), nv(r)
    for v in range(3):
        for t in range(3):
            if i + t < n and k + width * v < n:
                set_elements(r, C, i + t, k + width * v, n - k - width * v, x[v][t])


@kernel
def add_to_block(r, x, a, B, j, k):
    """Return x plus three numbers times row j of B. Reads B."""
    width, count = simd_width(r.work), nv(r) - k
    return (
        cf.multiply_add3(x[0], a, elements(r, B, j, k, count)),
        cf.multiply_add3(x[1], a, elements(r, B, j, k + width, count - width)),
        cf.multiply_add3(x[2], a, elements(r, B, j, k + 2 * width, count - 2 * width)),
    )


# --- products; all matrices have nv columns


@kernel
def minus_minv_factor_times(r, C, B, first):
    """Set C to -V B from column ``first`` on; B is as sparse as the tree, unless contacts link it.

        C_ik = - sum of V_ij B_jk over j in the subtree of i

    Reads MINV_FACTOR, B; writes C.
    """
    n, width, with_link_contacts = nv(r), simd_width(r.work), has_link_contacts(r)
    for k in range(first, n, 3 * width):
        low = 0 if with_link_contacts else k
        stop = n if with_link_contacts else velocity_subtree_end(r, k, min(k + 3 * width, n) - 1)
        for i in range(0, n, 3):
            x, rows = zero_block(r, C), three_row_indices(r, i)
            end = velocity_subtree_end(r, i, min(i + 2, n - 1))
            j = min(end, stop) - 1 if end > low else -1
            while j >= i:
                v = three_elements(r, minv_factor_matrix(r), rows, j)
                x = add_to_block(r, x, scale(-1.0, v), B, j, k)
                j = j - 1 if j > low else velocity_parent(r, j)
            store_three_rows(r, C, i, k, x)


@kernel
def minv_factor_transposed_times(r, C, first):
    """Replace C with V' C from column ``first`` on, from the last row to the first.

        C_ik = sum of V_ji C_jk over the ancestors j of i

    Reads MINV_FACTOR; writes C.
    """
    n, V_transpose = nv(r), matrix_transpose(minv_factor_matrix(r))
    for i in range((n - 1) // 3 * 3, -1, -3):
        for k in range(first, n, 3 * simd_width(r.work)):
            x, j = zero_block(r, C), min(i + 2, n - 1)
            while j >= 0:
                v = three_elements(r, V_transpose, (i, i + 1, i + 2), j)
                x = add_to_block(r, x, v, C, j, k)
                j = j - 1 if j > i else velocity_parent(r, j)
            store_three_rows(r, C, i, k, x)


@kernel
def scaled_jacobian_times(r, C, forces, first, with_initial):
    """Set C to R F from column ``first`` on, with F the forces; with its initial value, to C + R F.

        C_i = sum of R_ij F_j               over the rows j of contacts that velocity i moves

    Reads SCALED_JACOBIAN, forces; writes C.
    """
    n = nv(r)
    for i in range(0, n, 3):
        rows, contact_mask = three_row_indices(r, i), find_moved_contacts(r, i, min(i + 2, n - 1))
        for k in range(first, n, 3 * simd_width(r.work)):
            x = load_block(r, C, i, k) if with_initial else zero_block(r, C)
            for contact in range(packed.ncontacts(r)):
                if contact_mask >> contact & 1:
                    for j in range(packed.row_start(r, contact), packed.row_stop(r, contact)):
                        a = three_elements(r, scaled_jacobian(r), rows, j)
                        x = add_to_block(r, x, a, forces, j, k)
            store_three_rows(r, C, i, k, x)


@kernel
def add_scaled_jacobian_transposed_times(r, C, T, first):
    """Add R' T to C from column ``first`` on; T is the result of ``minus_minv_factor_times``.

        C_k = C_k + sum of R_jk T_j         over velocities j that move a body of the contact

    Reads SCALED_JACOBIAN, T; writes C.
    """
    n, width, R = nv(r), simd_width(r.work), scaled_jacobian(r)
    with_link_contacts = has_link_contacts(r)
    for contact in range(packed.ncontacts(r)):
        i, j = branch_velocities(r, contact)
        for c in range(first, n, 2 * width):
            stop = (
                n if with_link_contacts else velocity_subtree_end(r, c, min(c + 2 * width, n) - 1)
            )
            low = 0 if with_link_contacts else c
            i_first, j_first = (
                first_branch_velocity(r, i, low, stop),
                first_branch_velocity(r, j, low, stop),
            )
            for k in range(packed.row_start(r, contact), packed.row_stop(r, contact), 3):
                x, y = cf.product_along_paths(
                    r, columns_from(R, k), columns_from(T, c), n - c, i_first, j_first
                )
                for t in range(3):
                    add_to_elements(r, C, k + t, c, n - c, x[t])
                    if c + width < n:
                        add_to_elements(r, C, k + t, c + width, n - c - width, y[t])
