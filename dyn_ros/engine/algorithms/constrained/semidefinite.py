# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Symmetric positive semidefinite systems A x = b of n numbers, with policies for singular A.

A = L D L' is factored first, and its inverse bounds the smallest eigenvalue. Only if A is nearly
singular are the singular values computed, by one-sided Jacobi rotations (Hestenes 1958; Demmel and
Veselic 1992): pairs of columns of A are rotated until all are orthogonal; their norms are then the
singular values. Both methods also run on lanes.

The rows of all matrices are ``WIDTH`` numbers apart, so that a vector that starts at any of their
numbers ends within the row.
"""

import math

from ...kernel.vocabulary import *

WIDTH = -(-MAX_CONSTRAINTS // SIMD_WIDTH) * SIMD_WIDTH + SIMD_WIDTH
RELATIVE, ABSOLUTE, DAMPED = range(3)

FACTOR = field("_semidefinite_work", (MAX_CONSTRAINTS, WIDTH))
INVERSE = field("_semidefinite_Linv", (MAX_CONSTRAINTS, WIDTH))
PIVOTS = field("_semidefinite_Dinv", (WIDTH,))
RIGHT = field("_semidefinite_b", (WIDTH,))
WEIGHTS = field("_semidefinite_weights", (WIDTH,))
ORTHOGONAL = 1e-14  # largest cosine between columns regarded as orthogonal
SWEEPS = 40  # maximum; typically 4 to 9 are sufficient
TINY = 1e-300


@kernel
def absolute(x):
    """Return |x|."""
    return select_above(x, 0.0, x, -x)


@kernel
def copy_rows(r, n, A, target):
    """Copy A to ``target``, in whole vectors. Reads A; writes target."""
    for i in range(0, WIDTH * n, WIDTH):
        for k in range(i, i + n, simd_width(r.work)):
            store_simd(r.work, target + k, SIMD_WIDTH, load_simd(r.work, A + k, SIMD_WIDTH))


@kernel
def clear_rows(r, rows, n, A):
    """Clear rows of n numbers, in whole vectors. Writes A."""
    for i in range(0, WIDTH * rows, WIDTH):
        for k in range(i, i + n, simd_width(r.work)):
            store_simd(r.work, A + k, SIMD_WIDTH, lift(0.0, load_simd(r.work, A, SIMD_WIDTH)))


@kernel
def subtract_row(r, a, s, b, count):
    """Replace row a with a - s b, for rows at offsets a and b. Reads b; writes a."""
    for j in range(0, count, simd_width(r.work)):
        store_simd(
            r.work,
            a + j,
            SIMD_WIDTH,
            load_simd(r.work, a + j, SIMD_WIDTH) - s * load_simd(r.work, b + j, SIMD_WIDTH),
        )


@kernel
def invert_pivot(r, k, d, diagonal):
    """Store and return the inverse of pivot d, whose diagonal entry in A + shift I is given.

    Writes PIVOTS.
    """
    d = select_above(absolute(d), TINY, d, TINY)
    d = 1.0 / select_above(diagonal, 0.0, d, math.inf)
    set_entry(r, PIVOTS, k, d)
    return d


@kernel
def factor_lanes(r, n, A, shift):
    """Factor as ``factor_semidefinite`` for a batch: three numbers of a row, each stored only once.

        L_ik = (A_ik - sum of L_ij D_j L_kj) / D_k

    D L' replaces the diagonal and what is above it, the rows of L^-1 follow from those before.

    Reads A; writes FACTOR, INVERSE, PIVOTS.
    """
    W, E = offset(r, FACTOR), offset(r, INVERSE)
    for k in range(n):
        row = W + WIDTH * k
        for i in range(k, n, 3):
            x = load3(r.work, A + WIDTH * k + i)
            for j in range(k):
                x = sub(x, scale(load(r.work, row + j), load3(r.work, W + WIDTH * j + i)))
            store3(r.work, row + i, x)
        d = invert_pivot(
            r, k, load(r.work, row + k) + shift, load(r.work, A + (WIDTH + 1) * k) + shift
        )
        for i in range(k + 1, n):
            store(r.work, W + WIDTH * i + k, d * load(r.work, row + i))
    for i in range(n):
        for j in range(0, i + 1, 3):
            x = zero3(load(r.work, A))
            for k in range(j, i):
                x = sub(
                    x,
                    scale(load(r.work, W + WIDTH * i + k), load3(r.work, E + WIDTH * k + j)),
                )
            store3(r.work, E + WIDTH * i + j, x)
        store(r.work, E + (WIDTH + 1) * i, 1.0)


@kernel
def factor_semidefinite(r, n, A, shift):
    """Compute L, L^-1 and the inverse pivots of A + shift I; the pivot of a zero row is 0.

        A + shift I = L D L'

    Gauss's elimination of the rows of A, and with them of those of the identity. L remains below
    the diagonal of the former.

    Reads A; writes FACTOR, INVERSE, PIVOTS.
    """
    if is_batch(r):
        factor_lanes(r, n, A, shift)
        return
    W, E = offset(r, FACTOR), offset(r, INVERSE)
    copy_rows(r, n, A, W)
    clear_rows(r, n, n, E)
    for k in range(n):
        increase(r.work, W + WIDTH * k + k, shift)
        store(r.work, E + WIDTH * k + k, 1.0)
    for k in range(n):
        row = W + WIDTH * k
        d = invert_pivot(r, k, load(r.work, row + k), load(r.work, A + WIDTH * k + k) + shift)
        for i in range(k + 1, n):
            x = d * load(r.work, W + WIDTH * i + k)
            store(r.work, W + WIDTH * i + k, x)
            subtract_row(r, W + WIDTH * i + k + 1, x, row + k + 1, n - k - 1)
            subtract_row(r, E + WIDTH * i, x, E + WIDTH * k, k + 1)


@kernel
def sum_simd(r, x):
    """Return the sum of a vector. Writes RIGHT."""
    store_simd(r.work, offset(r, RIGHT), SIMD_WIDTH, x)
    total = entry(r, RIGHT, 0)
    for t in range(1, simd_width(r.work)):
        total = total + entry(r, RIGHT, t)
    return total


@kernel
def trace_of_inverse(r, n, weights):
    """Return the sum of the diagonal of A^-1 with weights, after ``factor_semidefinite``.

        sum of w_j |D_k^-1| (L^-1)_kj^2

    With weights 1, an upper bound on the inverse of the smallest eigenvalue; with the diagonal of
    A, the same of D^-1/2 A D^-1/2, with D that diagonal.

    Reads INVERSE, PIVOTS, weights; writes RIGHT.
    """
    E, D = offset(r, INVERSE), offset(r, PIVOTS)
    squares = lift(0.0, load_simd(r.work, E, SIMD_WIDTH))
    for k in range(n):
        d = absolute(load(r.work, D + k))
        for j in range(0, k + 1, simd_width(r.work)):
            x = load_simd(r.work, E + WIDTH * k + j, SIMD_WIDTH)
            squares = squares + d * (x * x * load_simd(r.work, weights + j, SIMD_WIDTH))
    return sum_simd(r, squares)


@kernel
def set_weights(r, n, A, scaled):
    """Set the weights of ``trace_of_inverse``; return their trace and the number of rows not zero.

    Reads A; writes WEIGHTS.
    """
    clear_entries(r, WEIGHTS, WIDTH)
    trace = lift(0.0, load(r.work, A))
    rank = trace
    for k in range(n):
        diagonal = load(r.work, A + (WIDTH + 1) * k)
        trace = trace + diagonal
        rank = rank + select_above(diagonal, 0.0, 1.0, 0.0)
        set_entry(r, WEIGHTS, k, diagonal if scaled else lift(1.0, diagonal))
    return trace, rank


@kernel
def is_regular(r, n, A, tolerance):
    """Return True if no eigenvalue of D^-1/2 A D^-1/2, D the diagonal of A, is a rounding error.

    Reads INVERSE, PIVOTS, A; writes RIGHT, WEIGHTS.
    """
    _, rank = set_weights(r, n, A, True)
    return all_above(1.0, tolerance * rank * trace_of_inverse(r, n, offset(r, WEIGHTS)))


@kernel
def solve_factored(r, n, x):
    """Replace x with A^-1 x = L^-T D^-1 L^-1 x, after ``factor_semidefinite``.

    Reads FACTOR, PIVOTS; writes RIGHT, x.
    """
    L, y = offset(r, FACTOR), offset(r, RIGHT)
    for k in range(n):
        y_k = load(r.work, x + k)
        for j in range(k):
            y_k = y_k - load(r.work, L + WIDTH * k + j) * load(r.work, x + j)
        store(r.work, x + k, y_k)
        store(r.work, y + k, entry(r, PIVOTS, k) * y_k)
    for k in range(n - 1, -1, -1):
        x_k = load(r.work, y + k)
        store(r.work, x + k, x_k)
        for j in range(0, k, simd_width(r.work)):
            store_simd(
                r.work,
                y + j,
                SIMD_WIDTH,
                load_simd(r.work, y + j, SIMD_WIDTH)
                - x_k * load_simd(r.work, L + WIDTH * k + j, k - j),
            )


@kernel
def dot_rows(r, n, a, b):
    """Return the scalar product of two rows. Reads a, b."""
    total = lift(0.0, load(r.work, a))
    for k in range(n):
        total = total + load(r.work, a + k) * load(r.work, b + k)
    return total


@kernel
def orthogonalize(r, n, A, W):
    """Set W to A, with pairs of rows rotated until all are orthogonal.

        [a; b] = [c -s; s c] [a; b]         Hestenes (1958)

    Reads A; writes W.
    """
    copy_rows(r, n, A, W)
    for _ in range(SWEEPS):
        finished = True
        for p in range(n - 1):
            for q in range(p + 1, n):
                a, b = W + WIDTH * p, W + WIDTH * q
                aa, bb, ab = dot_rows(r, n, a, a), dot_rows(r, n, b, b), dot_rows(r, n, a, b)
                if all_above(ORTHOGONAL * ORTHOGONAL * aa * bb + TINY, ab * ab):
                    continue
                finished = False
                z = bb - aa
                t = 2.0 * ab / (absolute(z) + sqrt(z * z + 4.0 * ab * ab) + TINY)
                t = select_above(0.0, z, -t, t)
                c = 1.0 / sqrt(1.0 + t * t)
                s = c * t
                for k in range(n):
                    x, y = load(r.work, a + k), load(r.work, b + k)
                    store(r.work, a + k, c * x - s * y)
                    store(r.work, b + k, s * x + c * y)
        if finished:
            return


@kernel
def largest_length(r, n, W):
    """Return the largest norm of a row, the largest singular value after ``orthogonalize``.

    Reads W.
    """
    largest = lift(0.0, load(r.work, W))
    for k in range(n):
        square = dot_rows(r, n, W + WIDTH * k, W + WIDTH * k)
        largest = select_above(square, largest, square, largest)
    return sqrt(largest)


@subroutine
def solve_singular(r, n, A, x, policy, tolerance):
    """Replace x with the truncated or damped inverse of A times x; return the rank.

        x = sum of w_p w_p' x / s_p^3       w_p: rows of ``orthogonalize``, of norm s_p

    Reads A; writes FACTOR, RIGHT, x.
    """
    W, b = offset(r, FACTOR), offset(r, RIGHT)
    orthogonalize(r, n, A, W)
    cut = lift(tolerance, load(r.work, x))
    if policy != ABSOLUTE:
        cut = cut * largest_length(r, n, W)
    rank = lift(0.0, load(r.work, x))
    for k in range(n):
        store(r.work, b + k, load(r.work, x + k))
        store(r.work, x + k, 0.0)
    for p in range(n):
        row = W + WIDTH * p
        value = sqrt(dot_rows(r, n, row, row))
        rank = rank + select_above(value, cut, 1.0, 0.0)
        if policy == DAMPED:
            gain = 1.0 / (value * (value * value + cut * cut) + TINY)
        else:
            gain = select_above(value, cut, 1.0 / (value * value * value + TINY), 0.0)
        gain = gain * dot_rows(r, n, row, b)
        for k in range(n):
            increase(r.work, x + k, gain * load(r.work, row + k))
    return rank


@subroutine
def rank_of(r, n, A, tolerance):
    """Return the number of eigenvalues that are not rounding errors.

    Reads A; writes FACTOR, INVERSE, PIVOTS, RIGHT, WEIGHTS.
    """
    factor_semidefinite(r, n, A, 0.0)
    if is_regular(r, n, A, tolerance):
        return set_weights(r, n, A, True)[1]
    W = offset(r, FACTOR)
    orthogonalize(r, n, A, W)
    cut = tolerance * largest_length(r, n, W)
    rank = lift(0.0, cut)
    for p in range(n):
        row = W + WIDTH * p
        rank = rank + select_above(sqrt(dot_rows(r, n, row, row)), cut, 1.0, 0.0)
    return rank


@kernel
def factor_cholesky(r, n, A, L, tolerance):
    """Compute L with A = L L'; return the rank. The column of a row that depends on others is 0.

    Reads A; writes L.
    """
    rank = lift(0.0, load(r.work, A))
    for k in range(n):
        for i in range(n):
            x = load(r.work, A + WIDTH * i + k)
            for j in range(k):
                x = x - load(r.work, L + WIDTH * i + j) * load(r.work, L + WIDTH * k + j)
            store(r.work, L + WIDTH * i + k, x if i >= k else 0.0 * x)
        d, cut = load(r.work, L + WIDTH * k + k), tolerance * load(r.work, A + WIDTH * k + k)
        rank = rank + select_above(d, cut, 1.0, 0.0)
        s = select_above(d, cut, 1.0 / sqrt(select_above(d, cut, d, 1.0)), 0.0)
        for i in range(k, n):
            store(r.work, L + WIDTH * i + k, s * load(r.work, L + WIDTH * i + k))
    return rank


@kernel
def square_lanes(r, n, target):
    """Set ``target`` to E' E for a batch, with E the lower triangular matrix that replaced L^-1.

    Reads INVERSE; writes target.
    """
    E = offset(r, INVERSE)
    for i in range(n):
        for j in range(0, i + 1, 3):
            x = zero3(load(r.work, E))
            for k in range(i, n):
                row = E + WIDTH * k
                x = add(x, scale(load(r.work, row + i), load3(r.work, row + j)))
            store3(r.work, target + WIDTH * i + j, x)
            for t in range(3):
                store(r.work, target + WIDTH * (j + t) + i, x[t])


@kernel
def store_inverse(r, n, target):
    """Set ``target`` to A^-1, after ``factor_semidefinite``, whose result it scales.

        A^-1 = L^-T D^-1 L^-1

    Reads PIVOTS; writes INVERSE, target.
    """
    E = offset(r, INVERSE)
    for k in range(n):
        s = sqrt(absolute(entry(r, PIVOTS, k)))
        for j in range(0, k + 1, simd_width(r.work)):
            row = E + WIDTH * k + j
            store_simd(r.work, row, SIMD_WIDTH, s * load_simd(r.work, row, SIMD_WIDTH))
    if is_batch(r):
        square_lanes(r, n, target)
        return
    for i in range(n):
        for j in range(0, n, simd_width(r.work)):
            total = lift(0.0, load_simd(r.work, E, SIMD_WIDTH))
            for k in range(max(i, j), n):
                row = E + WIDTH * k
                total = total + load(r.work, row + i) * load_simd(r.work, row + j, SIMD_WIDTH)
            store_simd(r.work, target + WIDTH * i + j, SIMD_WIDTH, total)


@subroutine
def store_pseudoinverse(r, n, A, tolerance, target):
    """Set ``target`` to the pseudoinverse of A.

        A^+ = sum of w_p w_p' / s_p^3       w_p: rows of ``orthogonalize``, of norm s_p

    Reads A; writes FACTOR, target.
    """
    W = offset(r, FACTOR)
    orthogonalize(r, n, A, W)
    cut = tolerance * largest_length(r, n, W)
    clear(r.work, target, WIDTH * n)
    for p in range(n):
        row = W + WIDTH * p
        value = sqrt(dot_rows(r, n, row, row))
        gain = select_above(value, cut, 1.0 / (value * value * value + TINY), 0.0)
        for i in range(n):
            a = gain * load(r.work, row + i)
            for j in range(n):
                increase(r.work, target + WIDTH * i + j, a * load(r.work, row + j))


@kernel
def invert_semidefinite(r, n, A, shift, tolerance, target):
    """Set ``target`` to (A + shift I)^-1; without shift, to the pseudoinverse if A is singular.

    Reads A; writes FACTOR, INVERSE, PIVOTS, RIGHT, WEIGHTS, target.
    """
    factor_semidefinite(r, n, A, shift)
    invert_factored(r, n, A, shift, tolerance, target)


@subroutine
def invert_factored(r, n, A, shift, tolerance, target):
    """Invert as ``invert_semidefinite``, after ``factor_semidefinite``.

    Reads PIVOTS, A; writes FACTOR, INVERSE, RIGHT, WEIGHTS, target.
    """
    if all_above(shift, 0.0) or is_regular(r, n, A, tolerance):
        store_inverse(r, n, target)
    else:
        store_pseudoinverse(r, n, A, tolerance, target)


@subroutine
def solve_scaled(r, n, A, x, tolerance):
    """Solve with RELATIVE, unless A is singular only because the sizes of its rows differ.

    Reads A; writes FACTOR, INVERSE, PIVOTS, RIGHT, WEIGHTS, x.
    """
    factor_semidefinite(r, n, A, 0.0)
    if is_regular(r, n, A, tolerance):
        solve_factored(r, n, x)
        return set_weights(r, n, A, True)[1]
    return solve_singular(r, n, A, x, RELATIVE, tolerance)


@subroutine
def solve_semidefinite(r, n, A, x, policy, tolerance):
    """Replace x with A^-1 x, with a policy for a singular A; return the rank.

    RELATIVE: eigenvalues up to ``tolerance`` times the largest, and their inverses, are treated as
    zero. ABSOLUTE: those up to ``tolerance``. DAMPED: the inverse of an eigenvalue e is
    e / (e^2 + d^2), with d = ``tolerance`` times the largest; the rank is the number of
    eigenvalues above d.

    Reads A; writes FACTOR, INVERSE, PIVOTS, RIGHT, WEIGHTS, x.
    """
    if policy != DAMPED:
        factor_semidefinite(r, n, A, 0.0)
        trace, rank = set_weights(r, n, A, False)
        bound = tolerance * trace_of_inverse(r, n, offset(r, WEIGHTS))
        if policy == RELATIVE:
            bound = bound * trace
        if all_above(1.0, bound):  # every eigenvalue is above the cut
            solve_factored(r, n, x)
            return rank
    return solve_singular(r, n, A, x, policy, tolerance)
