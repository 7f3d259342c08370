# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Products with V and R = V J', where M^-1 = V' V and J M^-1 J' = R' R.

V and R are as sparse as the tree. Products are computed in blocks of three rows and three vectors
of columns.
"""

from ...kernel.vocabulary import *
from ..constrained import constraint_forces as cf
from ..constrained.semidefinite import WIDTH
from ..dynamics.minverse import ROOT
from . import packed
from .contact_rows import branches

# --- what is linked


@kernel
def are_linked(r):
    """Return True if a contact connects two links, whose branches then have nonzero dtau."""
    linked = False
    for n in range(packed.ncontacts(r)):
        linked = linked or (packed.body(r, n, 0) > 0 and packed.body(r, n, 1) > 0)
    return linked


@kernel
def clear_linked(r, target):
    """Clear an nv x nv matrix in which contacts of two links set elements outside the tree.

    Writes target.
    """
    if are_linked(r):
        clear_entries(r, target, nv(r) * nv(r))


@kernel
def subtree_end(r, first, last):
    """Return the end of the range of descendants of velocities ``first`` to ``last``."""
    end = last + 1
    for j in range(first, last):
        end = max(end, velocity_end(r, j))
    return max(end, velocity_end(r, last))


@kernel
def moved_contacts(r, first, last):
    """Return the contacts of bodies that velocities ``first`` to ``last`` move, one bit each."""
    mask, end = 0, subtree_end(r, first, last)
    for n in range(packed.ncontacts(r)):
        p, q = branches(r, n)
        if (first <= p and p < end) or (first <= q and q < end):
            mask |= 1 << n
    return mask


@kernel
def first_in_branch(r, j, k, stop):
    """Return the first velocity from j to the root that is from k to ``stop`` or above these."""
    while j >= 0 and (j >= stop or velocity_end(r, j) <= k):
        j = velocity_parent(r, j)
    return j


# --- the matrices


@kernel
def root(r):
    """Return V, a matrix."""
    return matrix_at(offset(r, ROOT), padded(r))


@kernel
def reactions(r):
    """Return R, a matrix."""
    return matrix_at(offset(r, cf.SCALED), WIDTH)


# --- blocks


@kernel
def three_rows(r, A, i):
    """Return the offsets of rows i to i + 2; beyond the last one, it is repeated."""
    last = nv(r) - 1
    return (
        A.start + A.step * i,
        A.start + A.step * min(i + 1, last),
        A.start + A.step * min(i + 2, last),
    )


@kernel
def load_three(r, rows, j):
    """Return number j of three rows. Reads rows."""
    return load(r.work, rows[0] + j), load(r.work, rows[1] + j), load(r.work, rows[2] + j)


@kernel
def zero_block(r, C):
    """Return a block of zeros. Reads C."""
    zero = lift(0.0, load_simd(r.work, C.start, 1))
    return (zero, zero, zero), (zero, zero, zero), (zero, zero, zero)


@kernel
def load_vectors(r, rows, k, count):
    """Return a vector of columns of three rows. Reads rows."""
    return (
        load_simd(r.work, rows[0] + k, count),
        load_simd(r.work, rows[1] + k, count),
        load_simd(r.work, rows[2] + k, count),
    )


@kernel
def load_block(r, C, i, k):
    """Return the block of three rows and three vectors of columns from row i and column k on.

    Reads C.
    """
    rows, width, count = three_rows(r, C, i), simd_width(r.work), nv(r) - k
    return (
        load_vectors(r, rows, k, count),
        load_vectors(r, rows, k + width, count - width),
        load_vectors(r, rows, k + 2 * width, count - 2 * width),
    )


@kernel
def store_block(r, C, i, k, x):
    """Store a block from row i and column k on. Writes C."""
    width, n = simd_width(r.work), nv(r)
    for v in range(3):
        for t in range(3):
            if i + t < n and k + width * v < n:
                store_simd(
                    r.work, C.start + C.step * (i + t) + k + width * v, n - k - width * v, x[v][t]
                )


@kernel
def add_to_block(r, x, a, B, j, k):
    """Return x plus three numbers times row j of B. Reads B."""
    b, width, count = B.start + B.step * j + k, simd_width(r.work), nv(r) - k
    return (
        cf.add_three(x[0], a, load_simd(r.work, b, count)),
        cf.add_three(x[1], a, load_simd(r.work, b + width, count - width)),
        cf.add_three(x[2], a, load_simd(r.work, b + 2 * width, count - 2 * width)),
    )


# --- products; all matrices have nv columns


@kernel
def minus_root_times(r, C, B, first):
    """Set C to -V B from column ``first`` on; B is as sparse as the tree, unless contacts link it.

    Reads ROOT, B; writes C.
    """
    n, width, linked = nv(r), simd_width(r.work), are_linked(r)
    for k in range(first, n, 3 * width):
        low = 0 if linked else k
        stop = n if linked else subtree_end(r, k, min(k + 3 * width, n) - 1)
        for i in range(0, n, 3):
            x, rows = zero_block(r, C), three_rows(r, root(r), i)
            end = subtree_end(r, i, min(i + 2, n - 1))
            j = min(end, stop) - 1 if end > low else -1
            while j >= i:
                x = add_to_block(r, x, scale(-1.0, load_three(r, rows, j)), B, j, k)
                j = j - 1 if j > low else velocity_parent(r, j)
            store_block(r, C, i, k, x)


@kernel
def root_transposed_times(r, C, first):
    """Replace C with V' C from column ``first`` on, from the last row to the first.

    Reads ROOT; writes C.
    """
    n, V_ = nv(r), root(r)
    for i in range((n - 1) // 3 * 3, -1, -3):
        for k in range(first, n, 3 * simd_width(r.work)):
            x, j = zero_block(r, C), min(i + 2, n - 1)
            while j >= 0:
                v = V_.start + V_.step * j + i
                x = add_to_block(r, x, load_three(r, (v, v + 1, v + 2), 0), C, j, k)
                j = j - 1 if j > i else velocity_parent(r, j)
            store_block(r, C, i, k, x)


@kernel
def add_reactions(r, C, forces, first, adding):
    """Set C to R forces from column ``first`` on; if adding, plus C.

    Reads SCALED, forces; writes C.
    """
    n = nv(r)
    for i in range(0, n, 3):
        rows, moved = three_rows(r, reactions(r), i), moved_contacts(r, i, min(i + 2, n - 1))
        for k in range(first, n, 3 * simd_width(r.work)):
            x = load_block(r, C, i, k) if adding else zero_block(r, C)
            for contact in range(packed.ncontacts(r)):
                if moved >> contact & 1:
                    for j in range(packed.row_start(r, contact), packed.row_stop(r, contact)):
                        x = add_to_block(r, x, load_three(r, rows, j), forces, j, k)
            store_block(r, C, i, k, x)


@kernel
def add_motions(r, W, T, first):
    """Add R' T to W from column ``first`` on; T is the result of ``minus_root_times``.

    Reads SCALED, T.
    """
    n, width, linked = nv(r), simd_width(r.work), are_linked(r)
    for contact in range(packed.ncontacts(r)):
        p, q = branches(r, contact)
        for c in range(first, n, 2 * width):
            stop = n if linked else subtree_end(r, c, min(c + 2 * width, n) - 1)
            low = 0 if linked else c
            a, b = first_in_branch(r, p, low, stop), first_in_branch(r, q, low, stop)
            for k in range(packed.row_start(r, contact), packed.row_stop(r, contact), 3):
                R = reactions(r)
                x, y = cf.product_along(
                    r, matrix_at(R.start + k, R.step), matrix_at(T.start + c, T.step), n - c, a, b
                )
                for t in range(3):
                    w = W.start + W.step * (k + t) + c
                    cf.increase_simd(r, w, n - c, x[t])
                    if c + width < n:
                        cf.increase_simd(r, w + width, n - c - width, y[t])
