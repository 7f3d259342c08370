# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Symmetric positive semidefinite systems A x = b of n numbers, with policies for singular A.

A = L D L' is factored first, and its inverse bounds the smallest eigenvalue. Only if A is nearly
singular are the singular values computed, by one-sided Jacobi rotations (Hestenes 1958; Demmel and
Veselic 1992): pairs of columns of A are rotated until all are orthogonal; their norms are then the
singular values. Both methods also run on lanes.

A, x and the results are fields. The rows of all matrices are ``WIDTH`` numbers apart, so that a
SIMD vector that starts at any of their n numbers ends within the row.
"""

import math

from ...kernel.vocabulary import *

WIDTH = -(-MAX_CONSTRAINTS // SIMD_WIDTH) * SIMD_WIDTH + SIMD_WIDTH
RELATIVE, ABSOLUTE, DAMPED = range(3)

FACTOR = field("_factor", (MAX_CONSTRAINTS, WIDTH))  # L, or orthogonal rows
FACTOR_INVERSE = field("_factor_inverse", (MAX_CONSTRAINTS, WIDTH))  # L^-1
INVERSE_PIVOTS = field("_inverse_pivots", (WIDTH,))  # D^-1
RIGHT_SIDE = field("_right_side", (WIDTH,))  # right side
TRACE_WEIGHTS = field("_trace_weights", (WIDTH,))
MAX_COSINE = 1e-14  # rows whose angle has a smaller one count as orthogonal
MAX_SWEEPS = 40  # typically, 4 to 9 are sufficient
MIN_DIVISOR = 1e-300


@kernel
def copy_rows(r, n, A, B):
    """Copy n rows of n numbers of field A to field B, in whole vectors. Reads A; writes B."""
    source, target = matrix_of_width(r, A, WIDTH), matrix_of_width(r, B, WIDTH)
    for i in range(n):
        for k in range(0, n, simd_width(r.work)):
            set_elements(r, target, i, k, SIMD_WIDTH, elements(r, source, i, k, SIMD_WIDTH))


@kernel
def clear_rows(r, rows, n, A):
    """Clear rows of n numbers of field A, in whole vectors. Writes A."""
    target = matrix_of_width(r, A, WIDTH)
    for i in range(rows):
        for k in range(0, n, simd_width(r.work)):
            zero = lift(0.0, elements(r, target, 0, 0, SIMD_WIDTH))
            set_elements(r, target, i, k, SIMD_WIDTH, zero)


@kernel
def subtract_row(r, A, i, s, k, start, stop):
    """Subtract s times row k of A from row i, in columns ``start`` to ``stop``. Writes A."""
    for j in range(start, stop, simd_width(r.work)):
        x = elements(r, A, i, j, SIMD_WIDTH) - s * elements(r, A, k, j, SIMD_WIDTH)
        set_elements(r, A, i, j, SIMD_WIDTH, x)


@kernel
def invert_pivot(r, k, d, diagonal):
    """Store and return the inverse of pivot d; 0 if the diagonal entry in A + shift I is 0.

    Writes INVERSE_PIVOTS.
    """
    d = select_above(fabs(d), MIN_DIVISOR, d, MIN_DIVISOR)
    d = 1.0 / select_above(diagonal, 0.0, d, math.inf)
    set_entry(r, INVERSE_PIVOTS, k, d)
    return d


@kernel
def factor_batch(r, n, A, shift):
    """Factor as ``factor_semidefinite``, for a batch: three numbers of a row at a time.

        L_ik = (A_ik - sum of L_ij D_j L_kj) / D_k

    D L' replaces the diagonal and the numbers above it.

    Reads A; writes FACTOR, FACTOR_INVERSE, INVERSE_PIVOTS.
    """
    M, W = matrix_of_width(r, A, WIDTH), matrix_of_width(r, FACTOR, WIDTH)
    for k in range(n):
        for i in range(k, n, 3):
            x = elements3(r, M, k, i)
            for j in range(k):
                x = sub(x, scale(element(r, W, k, j), elements3(r, W, j, i)))
            set_elements3(r, W, k, i, x)
        d = invert_pivot(r, k, element(r, W, k, k) + shift, element(r, M, k, k) + shift)
        for i in range(k + 1, n):
            set_element(r, W, i, k, d * element(r, W, k, i))
    invert_factor_batch(r, n)


@kernel
def invert_factor_batch(r, n):
    """Compute L^-1 for a batch, row by row.

        Linv_ij = - sum of L_ik Linv_kj over j <= k < i,  Linv_ii = 1

    Reads FACTOR; writes FACTOR_INVERSE.
    """
    W, E = matrix_of_width(r, FACTOR, WIDTH), matrix_of_width(r, FACTOR_INVERSE, WIDTH)
    for i in range(n):
        for j in range(0, i + 1, 3):
            x = zero3(element(r, W, 0, 0))
            for k in range(j, i):
                x = sub(x, scale(element(r, W, i, k), elements3(r, E, k, j)))
            set_elements3(r, E, i, j, x)
        set_element(r, E, i, i, 1.0)


@kernel
def factor_semidefinite(r, n, A, shift):
    """Compute L, L^-1 and the inverse pivots of A + shift I; the pivot of a zero row is 0.

        A + shift I = L D L'

    Gauss's elimination of the rows of A, together with the rows of the identity. L remains below
    the diagonal of FACTOR.

    Reads A; writes FACTOR, FACTOR_INVERSE, INVERSE_PIVOTS.
    """
    if is_batch(r):
        factor_batch(r, n, A, shift)
        return
    W, E = matrix_of_width(r, FACTOR, WIDTH), matrix_of_width(r, FACTOR_INVERSE, WIDTH)
    copy_rows(r, n, A, FACTOR)
    clear_rows(r, n, n, FACTOR_INVERSE)
    for k in range(n):
        add_to_element(r, W, k, k, shift)
        set_element(r, E, k, k, 1.0)
    for k in range(n):
        diagonal = element(r, matrix_of_width(r, A, WIDTH), k, k) + shift
        d = invert_pivot(r, k, element(r, W, k, k), diagonal)
        for i in range(k + 1, n):
            x = d * element(r, W, i, k)
            set_element(r, W, i, k, x)
            subtract_row(r, W, i, x, k, k + 1, n)
            subtract_row(r, E, i, x, k, 0, k + 1)


@kernel
def sum_simd(r, x):
    """Return the sum of the numbers of a vector. Writes RIGHT_SIDE."""
    set_entries(r, RIGHT_SIDE, 0, SIMD_WIDTH, x)
    total = entry(r, RIGHT_SIDE, 0)
    for t in range(1, simd_width(r.work)):
        total = total + entry(r, RIGHT_SIDE, t)
    return total


@kernel
def trace_of_inverse(r, n):
    """Return the sum of the diagonal of A^-1 with weights, after ``factor_semidefinite``.

        sum of w_j |D_k^-1| (L^-1)_kj^2

    It is an upper bound on the inverse of the smallest eigenvalue: of A with weights 1, and of
    C^-1/2 A C^-1/2 with the diagonal of A as weights, where C is this diagonal.

    Reads FACTOR_INVERSE, INVERSE_PIVOTS, TRACE_WEIGHTS; writes RIGHT_SIDE.
    """
    E = matrix_of_width(r, FACTOR_INVERSE, WIDTH)
    squares = lift(0.0, elements(r, E, 0, 0, SIMD_WIDTH))
    for k in range(n):
        d = fabs(entry(r, INVERSE_PIVOTS, k))
        for j in range(0, k + 1, simd_width(r.work)):
            x = elements(r, E, k, j, SIMD_WIDTH)
            squares = squares + d * (x * x * entries(r, TRACE_WEIGHTS, j, SIMD_WIDTH))
    return sum_simd(r, squares)


@kernel
def set_weights(r, n, A, with_diagonal):
    """Set the weights w of ``trace_of_inverse``; return trace and number of nonzero rows of A.

        w_k = A_kk with diagonal, otherwise 1

    Reads A; writes TRACE_WEIGHTS.
    """
    M = matrix_of_width(r, A, WIDTH)
    clear_entries(r, TRACE_WEIGHTS, WIDTH)
    trace = lift(0.0, element(r, M, 0, 0))
    rank = trace
    for k in range(n):
        diagonal = element(r, M, k, k)
        trace = trace + diagonal
        rank = rank + select_above(diagonal, 0.0, 1.0, 0.0)
        set_entry(r, TRACE_WEIGHTS, k, diagonal if with_diagonal else lift(1.0, diagonal))
    return trace, rank


@kernel
def is_regular(r, n, A, tolerance):
    """Return True if no eigenvalue of C^-1/2 A C^-1/2, C the diagonal of A, is a rounding error.

        tolerance rank trace(C^1/2 A^-1 C^1/2) < 1

    Reads FACTOR_INVERSE, INVERSE_PIVOTS, A; writes RIGHT_SIDE, TRACE_WEIGHTS.
    """
    _, rank = set_weights(r, n, A, with_diagonal=True)
    return all_above(1.0, tolerance * rank * trace_of_inverse(r, n))


@kernel
def solve_factored(r, n, x):
    """Replace the field x with A^-1 x, after ``factor_semidefinite``.

        A^-1 x = L^-T D^-1 L^-1 x

    Reads FACTOR, INVERSE_PIVOTS; writes RIGHT_SIDE, x.
    """
    L = matrix_of_width(r, FACTOR, WIDTH)
    for k in range(n):
        y_k = entry(r, x, k)
        for j in range(k):
            y_k = y_k - element(r, L, k, j) * entry(r, x, j)
        set_entry(r, x, k, y_k)
        set_entry(r, RIGHT_SIDE, k, entry(r, INVERSE_PIVOTS, k) * y_k)
    for k in range(n - 1, -1, -1):
        x_k = entry(r, RIGHT_SIDE, k)
        set_entry(r, x, k, x_k)
        for j in range(0, k, simd_width(r.work)):
            y = entries(r, RIGHT_SIDE, j, SIMD_WIDTH) - x_k * elements(r, L, k, j, k - j)
            set_entries(r, RIGHT_SIDE, j, SIMD_WIDTH, y)


@kernel
def dot_rows(r, n, p, q):
    """Return the scalar product of rows p and q, of n numbers. Reads FACTOR."""
    W = matrix_of_width(r, FACTOR, WIDTH)
    total = lift(0.0, element(r, W, p, 0))
    for k in range(n):
        total = total + element(r, W, p, k) * element(r, W, q, k)
    return total


@kernel
def rotate_rows(r, n, p, q, c, s):
    """Rotate rows p and q.

        [w_p; w_q] = [c -s; s c] [w_p; w_q]

    Writes FACTOR.
    """
    W = matrix_of_width(r, FACTOR, WIDTH)
    for k in range(n):
        x, y = element(r, W, p, k), element(r, W, q, k)
        set_element(r, W, p, k, c * x - s * y)
        set_element(r, W, q, k, s * x + c * y)


@kernel
def orthogonalize_rows(r, n, A):
    """Set FACTOR to A, with pairs of rows rotated until all are orthogonal.

        z = w_q . w_q - w_p . w_p
        t = 2 w_p . w_q / (z + sign(z) sqrt(z^2 + 4 (w_p . w_q)^2))
        c = 1 / sqrt(1 + t^2),  s = c t                 Hestenes (1958)

    Reads A; writes FACTOR.
    """
    copy_rows(r, n, A, FACTOR)
    for _ in range(MAX_SWEEPS):
        finished = True
        for p in range(n - 1):
            for q in range(p + 1, n):
                aa, bb, ab = dot_rows(r, n, p, p), dot_rows(r, n, q, q), dot_rows(r, n, p, q)
                if all_above(MAX_COSINE * MAX_COSINE * aa * bb + MIN_DIVISOR, ab * ab):
                    continue
                finished = False
                z = bb - aa
                t = 2.0 * ab / (fabs(z) + sqrt(z * z + 4.0 * ab * ab) + MIN_DIVISOR)
                t = select_above(0.0, z, -t, t)
                c = 1.0 / sqrt(1.0 + t * t)
                rotate_rows(r, n, p, q, c, c * t)
        if finished:
            return


@kernel
def largest_singular_value(r, n):
    """Return the largest singular value, the largest norm of a row after ``orthogonalize_rows``.

        max of |w_k|

    Reads FACTOR.
    """
    largest = lift(0.0, element(r, matrix_of_width(r, FACTOR, WIDTH), 0, 0))
    for k in range(n):
        square = dot_rows(r, n, k, k)
        largest = select_above(square, largest, square, largest)
    return sqrt(largest)


@subroutine
def solve_singular(r, n, A, x, policy, tolerance):
    """Replace the field x with the truncated or damped inverse of A times x; return the rank.

        x = sum of w_p w_p' x / s_p^3       w_p: rows of ``orthogonalize_rows``, of norm s_p

    If damped, 1 / s_p^3 is 1 / (s_p (s_p^2 + cut^2)).

    Reads A; writes FACTOR, RIGHT_SIDE, x.
    """
    W = matrix_of_width(r, FACTOR, WIDTH)
    orthogonalize_rows(r, n, A)
    cut = lift(tolerance, entry(r, x, 0))
    if policy != ABSOLUTE:
        cut = cut * largest_singular_value(r, n)
    rank = lift(0.0, entry(r, x, 0))
    for k in range(n):
        set_entry(r, RIGHT_SIDE, k, entry(r, x, k))
        set_entry(r, x, k, 0.0)
    for p in range(n):
        value = sqrt(dot_rows(r, n, p, p))
        rank = rank + select_above(value, cut, 1.0, 0.0)
        if policy == DAMPED:
            gain = 1.0 / (value * (value * value + cut * cut) + MIN_DIVISOR)
        else:
            gain = select_above(value, cut, 1.0 / (value * value * value + MIN_DIVISOR), 0.0)
        total = lift(0.0, element(r, W, p, 0))
        for k in range(n):
            total = total + element(r, W, p, k) * entry(r, RIGHT_SIDE, k)
        gain = gain * total
        for k in range(n):
            add_to_entry(r, x, k, gain * element(r, W, p, k))
    return rank


@subroutine
def numerical_rank(r, n, A, tolerance):
    """Return the number of eigenvalues that are not rounding errors.

        number of s_p > tolerance max(s)    s_p: norms of the rows of ``orthogonalize_rows``

    If A is regular, it is the number of rows that are not zero.

    Reads A; writes FACTOR, FACTOR_INVERSE, INVERSE_PIVOTS, RIGHT_SIDE, TRACE_WEIGHTS.
    """
    factor_semidefinite(r, n, A, 0.0)
    if is_regular(r, n, A, tolerance):
        return set_weights(r, n, A, with_diagonal=True)[1]
    orthogonalize_rows(r, n, A)
    cut = tolerance * largest_singular_value(r, n)
    rank = lift(0.0, cut)
    for p in range(n):
        rank = rank + select_above(sqrt(dot_rows(r, n, p, p)), cut, 1.0, 0.0)
    return rank


@kernel
def factor_cholesky(r, n, A, factor, tolerance):
    """Compute the lower triangular factor of A in a field; return the rank.

        A = L L'
        L_ik = (A_ik - sum of L_ij L_kj) / L_kk

    The column of a row that depends on others is 0.

    Reads A; writes factor.
    """
    M, L = matrix_of_width(r, A, WIDTH), matrix_of_width(r, factor, WIDTH)
    rank = lift(0.0, element(r, M, 0, 0))
    for k in range(n):
        for i in range(n):
            x = element(r, M, i, k)
            for j in range(k):
                x = x - element(r, L, i, j) * element(r, L, k, j)
            set_element(r, L, i, k, x if i >= k else 0.0 * x)
        d, cut = element(r, L, k, k), tolerance * element(r, M, k, k)
        rank = rank + select_above(d, cut, 1.0, 0.0)
        s = select_above(d, cut, 1.0 / sqrt(select_above(d, cut, d, 1.0)), 0.0)
        for i in range(k, n):
            set_element(r, L, i, k, s * element(r, L, i, k))
    return rank


@kernel
def square_inverse_factor_batch(r, n, target):
    """Set a field to E' E for a batch, with E the lower triangular matrix that replaced L^-1.

        T_ij = T_ji = sum of E_ki E_kj over k >= i >= j

    Reads FACTOR_INVERSE; writes target.
    """
    E, T = matrix_of_width(r, FACTOR_INVERSE, WIDTH), matrix_of_width(r, target, WIDTH)
    for i in range(n):
        for j in range(0, i + 1, 3):
            x = zero3(element(r, E, 0, 0))
            for k in range(i, n):
                x = add(x, scale(element(r, E, k, i), elements3(r, E, k, j)))
            set_elements3(r, T, i, j, x)
            for t in range(3):
                set_element(r, T, j + t, i, x[t])


@kernel
def store_inverse(r, n, target):
    """Set a field to A^-1, after ``factor_semidefinite``, whose result it scales.

        A^-1 = E' E,  E = |D|^-1/2 L^-1

    Reads INVERSE_PIVOTS; writes FACTOR_INVERSE, target.
    """
    E, T = matrix_of_width(r, FACTOR_INVERSE, WIDTH), matrix_of_width(r, target, WIDTH)
    for k in range(n):
        s = sqrt(fabs(entry(r, INVERSE_PIVOTS, k)))
        for j in range(0, k + 1, simd_width(r.work)):
            set_elements(r, E, k, j, SIMD_WIDTH, s * elements(r, E, k, j, SIMD_WIDTH))
    if is_batch(r):
        square_inverse_factor_batch(r, n, target)
        return
    for i in range(n):
        for j in range(0, n, simd_width(r.work)):
            total = lift(0.0, elements(r, E, 0, 0, SIMD_WIDTH))
            for k in range(max(i, j), n):
                total = total + element(r, E, k, i) * elements(r, E, k, j, SIMD_WIDTH)
            set_elements(r, T, i, j, SIMD_WIDTH, total)


@subroutine
def store_pseudoinverse(r, n, A, tolerance, target):
    """Set a field to the pseudoinverse of A.

        A^+ = sum of w_p w_p' / s_p^3       w_p: rows of ``orthogonalize_rows``, of norm s_p

    Reads A; writes FACTOR, target.
    """
    W, T = matrix_of_width(r, FACTOR, WIDTH), matrix_of_width(r, target, WIDTH)
    orthogonalize_rows(r, n, A)
    cut = tolerance * largest_singular_value(r, n)
    clear_entries(r, target, WIDTH * n)
    for p in range(n):
        value = sqrt(dot_rows(r, n, p, p))
        gain = select_above(value, cut, 1.0 / (value * value * value + MIN_DIVISOR), 0.0)
        for i in range(n):
            a = gain * element(r, W, p, i)
            for j in range(n):
                add_to_element(r, T, i, j, a * element(r, W, p, j))


@kernel
def invert_semidefinite(r, n, A, shift, tolerance, target):
    """Set a field to (A + shift I)^-1; without shift, to the pseudoinverse if A is singular.

    Reads A; writes FACTOR, FACTOR_INVERSE, INVERSE_PIVOTS, RIGHT_SIDE, TRACE_WEIGHTS, target.
    """
    factor_semidefinite(r, n, A, shift)
    invert_factored(r, n, A, shift, tolerance, target)


@subroutine
def invert_factored(r, n, A, shift, tolerance, target):
    """Set a field as ``invert_semidefinite`` does, from the factor of A + shift I.

    Reads INVERSE_PIVOTS, A; writes FACTOR, FACTOR_INVERSE, RIGHT_SIDE, TRACE_WEIGHTS, target.
    """
    if all_above(shift, 0.0) or is_regular(r, n, A, tolerance):
        store_inverse(r, n, target)
    else:
        store_pseudoinverse(r, n, A, tolerance, target)


@subroutine
def solve_scaled(r, n, A, x, tolerance):
    """Replace the field x with A^-1 x, or with A^+ x if A is singular; return the rank.

    The policy is RELATIVE, but A is not singular if only the sizes of its rows differ much.

    Reads A; writes FACTOR, FACTOR_INVERSE, INVERSE_PIVOTS, RIGHT_SIDE, TRACE_WEIGHTS, x.
    """
    factor_semidefinite(r, n, A, 0.0)
    if is_regular(r, n, A, tolerance):
        solve_factored(r, n, x)
        return set_weights(r, n, A, with_diagonal=True)[1]
    return solve_singular(r, n, A, x, RELATIVE, tolerance)


@subroutine
def solve_semidefinite(r, n, A, x, policy, tolerance):
    """Replace the field x with A^-1 x, with a policy for a singular A; return the rank.

    RELATIVE: eigenvalues up to ``tolerance`` times the largest, and their inverses, are treated as
    zero. ABSOLUTE: those up to ``tolerance``. DAMPED: the inverse of an eigenvalue e is
    e / (e^2 + d^2), with d = ``tolerance`` times the largest; the rank is the number of
    eigenvalues above d.

    Reads A; writes FACTOR, FACTOR_INVERSE, INVERSE_PIVOTS, RIGHT_SIDE, TRACE_WEIGHTS, x.
    """
    if policy != DAMPED:
        factor_semidefinite(r, n, A, 0.0)
        trace, rank = set_weights(r, n, A, with_diagonal=False)
        bound = tolerance * trace_of_inverse(r, n)
        if policy == RELATIVE:
            bound = bound * trace
        if all_above(1.0, bound):  # every eigenvalue is above the cut
            solve_factored(r, n, x)
            return rank
    return solve_singular(r, n, A, x, policy, tolerance)
