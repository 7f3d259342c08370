# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Symmetric positive semidefinite systems A x = b of n numbers, with policies for singular A.

A = L D L' is factored first, and its inverse bounds the smallest eigenvalue. Only if A is nearly
singular are the singular values computed, by one-sided Jacobi rotations (Hestenes 1958; Demmel and
Veselic 1992): pairs of columns of A are rotated until all are orthogonal; their norms are then the
singular values. Both methods also run on lanes.
"""
import math

from ..model.fields import field
from ..model.layout import increase, offset
from ..spatial.compiler import kernel
from ..spatial.lanes import (
    all_above,
    lift,
    load,
    load_simd,
    select_above,
    simd_width,
    sqrt,
    store,
    store_simd,
)

RELATIVE, ABSOLUTE, DAMPED = range(3)

FACTOR = field("_semidefinite_L", ("constraints", "constraints"))
INVERSE = field("_semidefinite_Linv", ("constraints", "constraints"))
PIVOTS = field("_semidefinite_Dinv", ("constraints",))
RIGHT = field("_semidefinite_b", ("constraints",))
ORTHOGONAL = 1e-14                   # largest cosine between columns regarded as orthogonal
SWEEPS = 40                          # maximum; typically 4 to 9 are sufficient
TINY = 1e-300


@kernel
def absolute(x):
    return select_above(x, 0.0, x, -x)


@kernel
def factor_semidefinite(r, n, A, shift):
    """L below the diagonal and the inverse pivots of A + shift I; that of a zero row is 0."""
    L, D = offset(r, FACTOR), offset(r, PIVOTS)
    for k in range(n):
        row = L + k * n
        for j in range(k):
            w = load(r.work, A + k * n + j)
            for p in range(j):
                w = w - load(r.work, row + p) * load(r.work, L + j * n + p)
            store(r.work, row + j, w)
        diagonal = load(r.work, A + k * n + k) + shift
        d = diagonal
        for j in range(k):
            w = load(r.work, row + j)
            x = w * load(r.work, D + j)
            d = d - w * x
            store(r.work, row + j, x)
        d = select_above(absolute(d), TINY, d, TINY)
        store(r.work, D + k, 1.0 / select_above(diagonal, 0.0, d, math.inf))


@kernel
def trace_of_inverse(r, n):
    """Upper bound on the inverse of the smallest eigenvalue, after ``factor_semidefinite``."""
    L, inverse, D = offset(r, FACTOR), offset(r, INVERSE), offset(r, PIVOTS)
    trace = lift(0.0, load(r.work, D))
    for k in range(n):
        squares = lift(1.0, trace)
        for j in range(k):
            x = load(r.work, L + k * n + j)
            for p in range(j + 1, k):
                x = x + load(r.work, L + k * n + p) * load(r.work, inverse + p * n + j)
            store(r.work, inverse + k * n + j, -x)
            squares = squares + x * x
        trace = trace + absolute(load(r.work, D + k)) * squares
    return trace


@kernel
def solve_factored(r, n, x):
    """x <- A^-1 x, after ``factor_semidefinite``."""
    L, D = offset(r, FACTOR), offset(r, PIVOTS)
    for k in range(n):
        x_k = load(r.work, x + k)
        for j in range(k):
            x_k = x_k - load(r.work, L + k * n + j) * load(r.work, x + j)
        store(r.work, x + k, x_k)
    for k in range(n - 1, -1, -1):
        x_k = load(r.work, x + k) * load(r.work, D + k)
        for j in range(k + 1, n):
            x_k = x_k - load(r.work, L + j * n + k) * load(r.work, x + j)
        store(r.work, x + k, x_k)


@kernel
def dot_rows(r, n, a, b):
    total = lift(0.0, load(r.work, a))
    for k in range(n):
        total = total + load(r.work, a + k) * load(r.work, b + k)
    return total


@kernel
def orthogonalize(r, n, W):
    """Rotate pairs of rows of W until all are orthogonal."""
    for _ in range(SWEEPS):
        finished = True
        for p in range(n - 1):
            for q in range(p + 1, n):
                a, b = W + p * n, W + q * n
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
    largest = lift(0.0, load(r.work, W))
    for k in range(n):
        square = dot_rows(r, n, W + k * n, W + k * n)
        largest = select_above(square, largest, square, largest)
    return sqrt(largest)


@kernel
def solve_singular(r, n, A, x, policy, tolerance):
    """x <- the truncated or damped inverse of A, times x; return the rank."""
    W, b = offset(r, FACTOR), offset(r, RIGHT)
    for k in range(n * n):
        store(r.work, W + k, load(r.work, A + k))
    orthogonalize(r, n, W)
    cut = lift(tolerance, load(r.work, x))
    if policy != ABSOLUTE:
        cut = cut * largest_length(r, n, W)
    rank = lift(0.0, load(r.work, x))
    for k in range(n):
        store(r.work, b + k, load(r.work, x + k))
        store(r.work, x + k, 0.0)
    for p in range(n):
        row = W + p * n
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


@kernel
def factor_cholesky(r, n, A, L, tolerance):
    """L with A = L L'; return the rank. The column of a row that depends on others is 0."""
    rank = lift(0.0, load(r.work, A))
    for k in range(n):
        for i in range(n):
            x = load(r.work, A + n * i + k)
            for j in range(k):
                x = x - load(r.work, L + n * i + j) * load(r.work, L + n * k + j)
            store(r.work, L + n * i + k, x if i >= k else 0.0 * x)
        d, cut = load(r.work, L + n * k + k), tolerance * load(r.work, A + n * k + k)
        rank = rank + select_above(d, cut, 1.0, 0.0)
        s = select_above(d, cut, 1.0 / sqrt(select_above(d, cut, d, 1.0)), 0.0)
        for i in range(k, n):
            store(r.work, L + n * i + k, s * load(r.work, L + n * i + k))
    return rank


@kernel
def store_inverse(r, n, target):
    """target <- A^-1, after ``factor_semidefinite`` and ``trace_of_inverse``."""
    inverse, D = offset(r, INVERSE), offset(r, PIVOTS)
    for k in range(n):
        row = inverse + k * n
        store(r.work, row + k, 1.0)
        for i in range(k + 1):
            a = load(r.work, D + k) * load(r.work, row + i)
            for j in range(0, k + 1, simd_width(r.work)):
                count, t = k + 1 - j, target + i * n + j
                store_simd(r.work, t, count, load_simd(r.work, t, count)
                           + a * load_simd(r.work, row + j, count))


@kernel
def store_pseudoinverse(r, n, A, tolerance, target):
    W = offset(r, FACTOR)
    for k in range(n * n):
        store(r.work, W + k, load(r.work, A + k))
    orthogonalize(r, n, W)
    cut = tolerance * largest_length(r, n, W)
    for p in range(n):
        row = W + p * n
        value = sqrt(dot_rows(r, n, row, row))
        gain = select_above(value, cut, 1.0 / (value * value * value + TINY), 0.0)
        for i in range(n):
            a = gain * load(r.work, row + i)
            for j in range(n):
                increase(r.work, target + i * n + j, a * load(r.work, row + j))


@kernel
def invert_semidefinite(r, n, A, shift, tolerance, target):
    """target <- (A + shift I)^-1; without shift, the pseudoinverse if A is singular."""
    for k in range(n * n):
        store(r.work, target + k, 0.0)
    factor_semidefinite(r, n, A, shift)
    bound = tolerance * trace_of_inverse(r, n)
    trace = lift(0.0, bound)
    for k in range(n):
        trace = trace + load(r.work, A + k * n + k)
    if shift > 0.0 or all_above(1.0, bound * trace):
        store_inverse(r, n, target)
    else:
        store_pseudoinverse(r, n, A, tolerance, target)


@kernel
def solve_semidefinite(r, n, A, x, policy, tolerance):
    """x <- A^-1 x, with a policy for a singular A; return the rank.

    RELATIVE: eigenvalues up to ``tolerance`` times the largest, and their inverses, are treated as
    zero. ABSOLUTE: those up to ``tolerance``. DAMPED: the inverse of an eigenvalue e is
    e / (e^2 + d^2), with d = ``tolerance`` times the largest; the rank is the number of
    eigenvalues above d.
    """
    rank = lift(0.0, load(r.work, x))
    if policy != DAMPED:
        factor_semidefinite(r, n, A, 0.0)
        bound = tolerance * trace_of_inverse(r, n)
        trace = lift(0.0, bound)
        for k in range(n):
            diagonal = load(r.work, A + k * n + k)
            trace = trace + diagonal
            rank = rank + select_above(diagonal, 0.0, 1.0, 0.0)
        if policy == RELATIVE:
            bound = bound * trace
        if all_above(1.0, bound):                   # every eigenvalue is above the cut
            solve_factored(r, n, x)
            return rank
    return solve_singular(r, n, A, x, policy, tolerance)
