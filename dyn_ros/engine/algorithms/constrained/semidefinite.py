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

from ...kernel import algebra as al
from ...kernel import lanes as la
from ...kernel import packing as ly
from ...kernel.fields import MAX_CONSTRAINTS, field
from ...machine_code.declare import kernel, subroutine

WIDTH = -(-MAX_CONSTRAINTS // la.SIMD_WIDTH) * la.SIMD_WIDTH + la.SIMD_WIDTH
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
    return la.select_above(x, 0.0, x, -x)


@kernel
def copy_rows(r, n, A, target):
    """target <- A, in whole vectors."""
    for i in range(0, WIDTH * n, WIDTH):
        for k in range(i, i + n, la.simd_width(r.work)):
            la.store_simd(
                r.work, target + k, la.SIMD_WIDTH, la.load_simd(r.work, A + k, la.SIMD_WIDTH)
            )


@kernel
def clear_rows(r, rows, n, A):
    """Clear rows of n numbers, in whole vectors."""
    for i in range(0, WIDTH * rows, WIDTH):
        for k in range(i, i + n, la.simd_width(r.work)):
            la.store_simd(
                r.work, A + k, la.SIMD_WIDTH, la.lift(0.0, la.load_simd(r.work, A, la.SIMD_WIDTH))
            )


@kernel
def subtract_row(r, a, s, b, count):
    """a <- a - s b for rows at offsets a and b."""
    for j in range(0, count, la.simd_width(r.work)):
        la.store_simd(
            r.work,
            a + j,
            la.SIMD_WIDTH,
            la.load_simd(r.work, a + j, la.SIMD_WIDTH)
            - s * la.load_simd(r.work, b + j, la.SIMD_WIDTH),
        )


@kernel
def invert_pivot(r, k, d, diagonal):
    """Store and return the inverse of pivot d, whose diagonal entry in A + shift I is given."""
    d = la.select_above(absolute(d), TINY, d, TINY)
    d = 1.0 / la.select_above(diagonal, 0.0, d, math.inf)
    la.store(r.work, ly.offset(r, PIVOTS) + k, d)
    return d


@kernel
def factor_lanes(r, n, A, shift):
    """``factor_semidefinite`` for a batch: three numbers of a row, each stored only once.

    D L' replaces the diagonal and what is above it, the rows of L^-1 follow from those before.
    """
    W, E = ly.offset(r, FACTOR), ly.offset(r, INVERSE)
    for k in range(n):
        row = W + WIDTH * k
        for i in range(k, n, 3):
            x = al.load3(r.work, A + WIDTH * k + i)
            for j in range(k):
                x = al.sub(
                    x, al.scale(la.load(r.work, row + j), al.load3(r.work, W + WIDTH * j + i))
                )
            al.store3(r.work, row + i, x)
        d = invert_pivot(
            r, k, la.load(r.work, row + k) + shift, la.load(r.work, A + (WIDTH + 1) * k) + shift
        )
        for i in range(k + 1, n):
            la.store(r.work, W + WIDTH * i + k, d * la.load(r.work, row + i))
    for i in range(n):
        for j in range(0, i + 1, 3):
            x = al.zero3(la.load(r.work, A))
            for k in range(j, i):
                x = al.sub(
                    x,
                    al.scale(
                        la.load(r.work, W + WIDTH * i + k), al.load3(r.work, E + WIDTH * k + j)
                    ),
                )
            al.store3(r.work, E + WIDTH * i + j, x)
        la.store(r.work, E + (WIDTH + 1) * i, 1.0)


@kernel
def factor_semidefinite(r, n, A, shift):
    """L, L^-1 and the inverse pivots of A + shift I = L D L'; the pivot of a zero row is 0.

    Gauss's elimination of the rows of A, and with them of those of the identity. L remains below
    the diagonal of the former.
    """
    if la.holds_lanes(r.work):
        factor_lanes(r, n, A, shift)
        return
    W, E = ly.offset(r, FACTOR), ly.offset(r, INVERSE)
    copy_rows(r, n, A, W)
    clear_rows(r, n, n, E)
    for k in range(n):
        ly.increase(r.work, W + WIDTH * k + k, shift)
        la.store(r.work, E + WIDTH * k + k, 1.0)
    for k in range(n):
        row = W + WIDTH * k
        d = invert_pivot(r, k, la.load(r.work, row + k), la.load(r.work, A + WIDTH * k + k) + shift)
        for i in range(k + 1, n):
            x = d * la.load(r.work, W + WIDTH * i + k)
            la.store(r.work, W + WIDTH * i + k, x)
            subtract_row(r, W + WIDTH * i + k + 1, x, row + k + 1, n - k - 1)
            subtract_row(r, E + WIDTH * i, x, E + WIDTH * k, k + 1)


@kernel
def sum_simd(r, x):
    """The sum of a vector."""
    la.store_simd(r.work, ly.offset(r, RIGHT), la.SIMD_WIDTH, x)
    total = la.load(r.work, ly.offset(r, RIGHT))
    for t in range(1, la.simd_width(r.work)):
        total = total + la.load(r.work, ly.offset(r, RIGHT) + t)
    return total


@kernel
def trace_of_inverse(r, n, weights):
    """Sum of the diagonal of A^-1 with weights, after ``factor_semidefinite``.

    With weights 1, an upper bound on the inverse of the smallest eigenvalue; with the diagonal of
    A, the same of D^-1/2 A D^-1/2, with D that diagonal.
    """
    E, D = ly.offset(r, INVERSE), ly.offset(r, PIVOTS)
    squares = la.lift(0.0, la.load_simd(r.work, E, la.SIMD_WIDTH))
    for k in range(n):
        d = absolute(la.load(r.work, D + k))
        for j in range(0, k + 1, la.simd_width(r.work)):
            x = la.load_simd(r.work, E + WIDTH * k + j, la.SIMD_WIDTH)
            squares = squares + d * (x * x * la.load_simd(r.work, weights + j, la.SIMD_WIDTH))
    return sum_simd(r, squares)


@kernel
def set_weights(r, n, A, scaled):
    """Weights of ``trace_of_inverse``; return their trace and the number of rows not zero."""
    w = ly.offset(r, WEIGHTS)
    ly.clear(r.work, w, WIDTH)
    trace = la.lift(0.0, la.load(r.work, A))
    rank = trace
    for k in range(n):
        diagonal = la.load(r.work, A + (WIDTH + 1) * k)
        trace = trace + diagonal
        rank = rank + la.select_above(diagonal, 0.0, 1.0, 0.0)
        la.store(r.work, w + k, diagonal if scaled else la.lift(1.0, diagonal))
    return trace, rank


@kernel
def is_regular(r, n, A, tolerance):
    """Whether no eigenvalue of D^-1/2 A D^-1/2, D the diagonal of A, is a rounding error."""
    _, rank = set_weights(r, n, A, True)
    return la.all_above(1.0, tolerance * rank * trace_of_inverse(r, n, ly.offset(r, WEIGHTS)))


@kernel
def solve_factored(r, n, x):
    """x <- A^-1 x, after ``factor_semidefinite``."""
    L, D, y = ly.offset(r, FACTOR), ly.offset(r, PIVOTS), ly.offset(r, RIGHT)
    for k in range(n):
        y_k = la.load(r.work, x + k)
        for j in range(k):
            y_k = y_k - la.load(r.work, L + WIDTH * k + j) * la.load(r.work, x + j)
        la.store(r.work, x + k, y_k)
        la.store(r.work, y + k, la.load(r.work, D + k) * y_k)
    for k in range(n - 1, -1, -1):
        x_k = la.load(r.work, y + k)
        la.store(r.work, x + k, x_k)
        for j in range(0, k, la.simd_width(r.work)):
            la.store_simd(
                r.work,
                y + j,
                la.SIMD_WIDTH,
                la.load_simd(r.work, y + j, la.SIMD_WIDTH)
                - x_k * la.load_simd(r.work, L + WIDTH * k + j, k - j),
            )


@kernel
def dot_rows(r, n, a, b):
    total = la.lift(0.0, la.load(r.work, a))
    for k in range(n):
        total = total + la.load(r.work, a + k) * la.load(r.work, b + k)
    return total


@kernel
def orthogonalize(r, n, A, W):
    """W <- A, with pairs of rows rotated until all are orthogonal."""
    copy_rows(r, n, A, W)
    for _ in range(SWEEPS):
        finished = True
        for p in range(n - 1):
            for q in range(p + 1, n):
                a, b = W + WIDTH * p, W + WIDTH * q
                aa, bb, ab = dot_rows(r, n, a, a), dot_rows(r, n, b, b), dot_rows(r, n, a, b)
                if la.all_above(ORTHOGONAL * ORTHOGONAL * aa * bb + TINY, ab * ab):
                    continue
                finished = False
                z = bb - aa
                t = 2.0 * ab / (absolute(z) + la.sqrt(z * z + 4.0 * ab * ab) + TINY)
                t = la.select_above(0.0, z, -t, t)
                c = 1.0 / la.sqrt(1.0 + t * t)
                s = c * t
                for k in range(n):
                    x, y = la.load(r.work, a + k), la.load(r.work, b + k)
                    la.store(r.work, a + k, c * x - s * y)
                    la.store(r.work, b + k, s * x + c * y)
        if finished:
            return


@kernel
def largest_length(r, n, W):
    largest = la.lift(0.0, la.load(r.work, W))
    for k in range(n):
        square = dot_rows(r, n, W + WIDTH * k, W + WIDTH * k)
        largest = la.select_above(square, largest, square, largest)
    return la.sqrt(largest)


@subroutine
def solve_singular(r, n, A, x, policy, tolerance):
    """x <- the truncated or damped inverse of A, times x; return the rank."""
    W, b = ly.offset(r, FACTOR), ly.offset(r, RIGHT)
    orthogonalize(r, n, A, W)
    cut = la.lift(tolerance, la.load(r.work, x))
    if policy != ABSOLUTE:
        cut = cut * largest_length(r, n, W)
    rank = la.lift(0.0, la.load(r.work, x))
    for k in range(n):
        la.store(r.work, b + k, la.load(r.work, x + k))
        la.store(r.work, x + k, 0.0)
    for p in range(n):
        row = W + WIDTH * p
        value = la.sqrt(dot_rows(r, n, row, row))
        rank = rank + la.select_above(value, cut, 1.0, 0.0)
        if policy == DAMPED:
            gain = 1.0 / (value * (value * value + cut * cut) + TINY)
        else:
            gain = la.select_above(value, cut, 1.0 / (value * value * value + TINY), 0.0)
        gain = gain * dot_rows(r, n, row, b)
        for k in range(n):
            ly.increase(r.work, x + k, gain * la.load(r.work, row + k))
    return rank


@subroutine
def rank_of(r, n, A, tolerance):
    """Number of eigenvalues that are not rounding errors."""
    factor_semidefinite(r, n, A, 0.0)
    if is_regular(r, n, A, tolerance):
        return set_weights(r, n, A, True)[1]
    W = ly.offset(r, FACTOR)
    orthogonalize(r, n, A, W)
    cut = tolerance * largest_length(r, n, W)
    rank = la.lift(0.0, cut)
    for p in range(n):
        row = W + WIDTH * p
        rank = rank + la.select_above(la.sqrt(dot_rows(r, n, row, row)), cut, 1.0, 0.0)
    return rank


@kernel
def factor_cholesky(r, n, A, L, tolerance):
    """L with A = L L'; return the rank. The column of a row that depends on others is 0."""
    rank = la.lift(0.0, la.load(r.work, A))
    for k in range(n):
        for i in range(n):
            x = la.load(r.work, A + WIDTH * i + k)
            for j in range(k):
                x = x - la.load(r.work, L + WIDTH * i + j) * la.load(r.work, L + WIDTH * k + j)
            la.store(r.work, L + WIDTH * i + k, x if i >= k else 0.0 * x)
        d, cut = la.load(r.work, L + WIDTH * k + k), tolerance * la.load(r.work, A + WIDTH * k + k)
        rank = rank + la.select_above(d, cut, 1.0, 0.0)
        s = la.select_above(d, cut, 1.0 / la.sqrt(la.select_above(d, cut, d, 1.0)), 0.0)
        for i in range(k, n):
            la.store(r.work, L + WIDTH * i + k, s * la.load(r.work, L + WIDTH * i + k))
    return rank


@kernel
def square_lanes(r, n, target):
    """target <- E' E for a batch, with E the lower triangular matrix that replaced L^-1."""
    E = ly.offset(r, INVERSE)
    for i in range(n):
        for j in range(0, i + 1, 3):
            x = al.zero3(la.load(r.work, E))
            for k in range(i, n):
                row = E + WIDTH * k
                x = al.add(x, al.scale(la.load(r.work, row + i), al.load3(r.work, row + j)))
            al.store3(r.work, target + WIDTH * i + j, x)
            for t in range(3):
                la.store(r.work, target + WIDTH * (j + t) + i, x[t])


@kernel
def store_inverse(r, n, target):
    """target <- A^-1 = L^-T D^-1 L^-1, after ``factor_semidefinite``, whose result it scales."""
    E = ly.offset(r, INVERSE)
    for k in range(n):
        s = la.sqrt(absolute(la.load(r.work, ly.offset(r, PIVOTS) + k)))
        for j in range(0, k + 1, la.simd_width(r.work)):
            row = E + WIDTH * k + j
            la.store_simd(r.work, row, la.SIMD_WIDTH, s * la.load_simd(r.work, row, la.SIMD_WIDTH))
    if la.holds_lanes(r.work):
        square_lanes(r, n, target)
        return
    for i in range(n):
        for j in range(0, n, la.simd_width(r.work)):
            total = la.lift(0.0, la.load_simd(r.work, E, la.SIMD_WIDTH))
            for k in range(max(i, j), n):
                row = E + WIDTH * k
                total = total + la.load(r.work, row + i) * la.load_simd(
                    r.work, row + j, la.SIMD_WIDTH
                )
            la.store_simd(r.work, target + WIDTH * i + j, la.SIMD_WIDTH, total)


@subroutine
def store_pseudoinverse(r, n, A, tolerance, target):
    W = ly.offset(r, FACTOR)
    orthogonalize(r, n, A, W)
    cut = tolerance * largest_length(r, n, W)
    ly.clear(r.work, target, WIDTH * n)
    for p in range(n):
        row = W + WIDTH * p
        value = la.sqrt(dot_rows(r, n, row, row))
        gain = la.select_above(value, cut, 1.0 / (value * value * value + TINY), 0.0)
        for i in range(n):
            a = gain * la.load(r.work, row + i)
            for j in range(n):
                ly.increase(r.work, target + WIDTH * i + j, a * la.load(r.work, row + j))


@kernel
def invert_semidefinite(r, n, A, shift, tolerance, target):
    """target <- (A + shift I)^-1; without shift, the pseudoinverse if A is singular."""
    factor_semidefinite(r, n, A, shift)
    invert_factored(r, n, A, shift, tolerance, target)


@subroutine
def invert_factored(r, n, A, shift, tolerance, target):
    """``invert_semidefinite``, after ``factor_semidefinite``."""
    if la.all_above(shift, 0.0) or is_regular(r, n, A, tolerance):
        store_inverse(r, n, target)
    else:
        store_pseudoinverse(r, n, A, tolerance, target)


@subroutine
def solve_scaled(r, n, A, x, tolerance):
    """``solve_semidefinite`` with RELATIVE, unless A is only singular because its rows differ."""
    factor_semidefinite(r, n, A, 0.0)
    if is_regular(r, n, A, tolerance):
        solve_factored(r, n, x)
        return set_weights(r, n, A, True)[1]
    return solve_singular(r, n, A, x, RELATIVE, tolerance)


@subroutine
def solve_semidefinite(r, n, A, x, policy, tolerance):
    """x <- A^-1 x, with a policy for a singular A; return the rank.

    RELATIVE: eigenvalues up to ``tolerance`` times the largest, and their inverses, are treated as
    zero. ABSOLUTE: those up to ``tolerance``. DAMPED: the inverse of an eigenvalue e is
    e / (e^2 + d^2), with d = ``tolerance`` times the largest; the rank is the number of
    eigenvalues above d.
    """
    if policy != DAMPED:
        factor_semidefinite(r, n, A, 0.0)
        trace, rank = set_weights(r, n, A, False)
        bound = tolerance * trace_of_inverse(r, n, ly.offset(r, WEIGHTS))
        if policy == RELATIVE:
            bound = bound * trace
        if la.all_above(1.0, bound):  # every eigenvalue is above the cut
            solve_factored(r, n, x)
            return rank
    return solve_singular(r, n, A, x, policy, tolerance)
