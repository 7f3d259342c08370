# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Inverse of the joint-space inertia matrix.

With M = L' D L, sparse along the tree, M^-1 = V' V with V = D^-1/2 L^-T. Column k of L^-T consists
of the torques that a unit force of joint k causes at its ancestors in the articulated-body
algorithm: Featherstone (2008), sections 6.5 and 7.2, and Carpentier (2018).
"""

from __future__ import annotations

from ...call.algorithm import algorithm
from ...call.data import Data
from ...kernel.types import Array, ArrayLike
from ...kernel.vocabulary import *
from ...model.model import Model
from ..kinematics import root_axes as ra
from .aba import DINV, U, eliminate_all
from .cholesky import factor, pivot, solve_inward
from .crba import crba_kernel, place_bodies

MINV = field(
    "Minv",
    ("nv", "nv"),
    "Inverse of the joint-space inertia matrix, full [rad/s2, m/s2 per N m, N].",
)
ROOT = field("_root_of_Minv", ("nv", "padded"), zeros=True)  # V
STEPS = field("_steps", ("nv", 13))  # S, U and 1, all times D^-1/2
PROPAGATED = field("_passing", (6, "padded"))  # forces, one per column
UNIT = field("_unit", ("nv",))


@kernel
def store_steps(r):
    """Store S, U and 1 of each velocity, about the first joint's origin.

    Reads FROM_PARENT, COLUMNS, U, DINV; writes POSITION, STEPS.
    """
    for i in range(1, njoints(r) + 1):
        p = sub(ra.from_parent(r, i), ra.from_parent(r, 1))
        if parent(r, i) > 0:
            p = add(
                ra.from_parent(r, i),
                vector(r, ra.POSITION, parent(r, i)),
            )
        set_vector(r, ra.POSITION, i, p)
        for c in range(ncolumns(r, i)):
            k = idx_v(r, i) + c
            row, s = offset(r, STEPS) + 13 * k, sqrt(entry(r, DINV, k))
            S = motion_moved(scale(-1.0, p), ra.subspace_column(r, i, c))
            U_k = force_moved(p, force(r, U, k))
            store_spatial(r.work, row, motion_scale(s, S))
            store_spatial(r.work, row + 6, force_scale(s, U_k))
            store(r.work, row + 12, s)


@kernel
def load_forces(r, f, w, count):
    """Vectors of forces, one in each column from offset f on, in rows of w numbers. Reads f, w."""
    return Force(
        (
            load_simd(r.work, f, count),
            load_simd(r.work, f + w, count),
            load_simd(r.work, f + 2 * w, count),
        ),
        (
            load_simd(r.work, f + 3 * w, count),
            load_simd(r.work, f + 4 * w, count),
            load_simd(r.work, f + 5 * w, count),
        ),
    )


@kernel
def store_propagated(r, k, count, f):
    """Store a vector of forces in columns k, k + 1, ... Writes PROPAGATED."""
    for x in range(3):
        row = offset(r, PROPAGATED) + padded(r) * x + k
        store_simd(r.work, row, count, f.linear[x])
        store_simd(r.work, row + 3 * padded(r), count, f.angular[x])


@kernel
def pass_inward(r):
    """V, row by row from the tips, from the forces of the descendants of each velocity.

    Reads STEPS; writes ROOT, PROPAGATED.
    """
    for j in range(nv(r) - 1, -1, -1):
        row, V_ = offset(r, STEPS) + 13 * j, offset(r, ROOT) + padded(r) * j
        end = velocity_end(r, j)
        S, U_j = load_motion(r.work, row), load_force(r.work, row + 6)
        s = load(r.work, row + 12)
        for k in range(j + 1, end, simd_width(r.work)):
            f = load_forces(r, offset(r, PROPAGATED) + k, padded(r), end - k)
            x = -power(f, S)
            store_simd(r.work, V_ + k, end - k, x)
            store_propagated(r, k, end - k, force_add(f, force_scale(x, U_j)))
        store(r.work, V_ + j, s)
        store_propagated(r, j, 1, force_scale(s, U_j))


@kernel
def solve_for_root(r):
    """V if mimic joints couple branches, after ``factor``. Reads L; writes ROOT, UNIT."""
    for k in range(nv(r)):
        clear_entries(r, UNIT, nv(r))
        set_entry(r, UNIT, k, 1.0)
        solve_inward(r, UNIT)
        for j in range(k + 1):
            store(
                r.work,
                offset(r, ROOT) + padded(r) * j + k,
                entry(r, UNIT, j) / sqrt(pivot(r, j)),
            )


@kernel
def load_four(a, i):
    """Return four adjacent numbers."""
    return (load(a, i), load(a, i + 1), load(a, i + 2), load(a, i + 3))


@kernel
def load_eight(a, i):
    """Return eight adjacent numbers."""
    return load_four(a, i) + load_four(a, i + 4)


@kernel
def add_scaled_four(total, a, x):
    """total + a x, for four numbers each."""
    return (total[0] + a[0] * x, total[1] + a[1] * x, total[2] + a[2] * x, total[3] + a[3] * x)


@kernel
def add_scaled(total, a, x):
    """total + a x, for eight numbers each."""
    return add_scaled_four(total[:4], a[:4], x) + add_scaled_four(total[4:], a[4:], x)


@kernel
def store_rows(r, k, rows, columns, x):
    """Store numbers in consecutive rows of an nv x nv matrix, starting at offset k."""
    for t in range(len(x)):
        if t < rows:
            store_simd(r.work, k + nv(r) * t, columns, x[t])


@kernel
def add_row(r, x, y, i, c, j):
    """Add the contribution of row j of V to rows i to i + 3 of V' V, in columns c, c + 1, ...

    Reads ROOT.
    """
    row, k = offset(r, ROOT) + padded(r) * j + i, offset(r, ROOT) + padded(r) * j + c
    a = load_four(r.work, row)
    return (
        add_scaled_four(x, a, load_simd(r.work, k, SIMD_WIDTH)),
        add_scaled_four(y, a, load_simd(r.work, k + simd_width(r.work), SIMD_WIDTH)),
    )


@kernel
def store_part(r, i, c, x):
    """Store rows i to i + 3 of M^-1 in columns c, c + 1, ...; for a batch also transposed.

    Writes MINV.
    """
    n, W = nv(r), offset(r, MINV)
    store_rows(r, W + n * i + c, n - i, n - c, x)
    if is_batch(r):
        for t in range(4):
            if i + t < n:
                store_simd(r.work, W + n * c + i + t, 1, x[t])


@kernel
def square_root(r):
    """V' V, four rows at a time, on and to the right of the diagonal; the rest by symmetry.

    Rows i to i + 3 of V' are nonzero only at these velocities and the ancestors of i. On the way
    to the root, those that are also ancestors of column c come last.

    Reads ROOT; writes MINV.
    """
    n, V_, W, width = nv(r), offset(r, ROOT), offset(r, MINV), simd_width(r.work)
    for i in range(0, n, 4):
        for c in range(i, n, 2 * width):
            zero = 0.0 * load_simd(r.work, V_ + c, SIMD_WIDTH)
            x = (zero, zero, zero, zero)
            y = x
            for j in range(min(i + 4, n) - 1, i, -1):
                if velocity_end(r, j) > c:
                    x, y = add_row(r, x, y, i, c, j)
            j = i
            while j >= 0 and velocity_end(r, j) <= c:
                j = velocity_parent(r, j)
            while j >= 0:
                x, y = add_row(r, x, y, i, c, j)
                j = velocity_parent(r, j)
            store_part(r, i, c, x)
            if c + width < n:
                store_part(r, i, c + width, y)
        if not is_batch(r):
            for c in range(i + 1, n):
                for j in range(i, min(i + 4, c)):
                    store(r.work, W + n * c + j, load(r.work, W + n * j + c))


@kernel
def root_after_elimination(r):
    """Compute V after ``eliminate_all``, with M^-1 = V' V.

    Reads FROM_PARENT, COLUMNS, U, DINV; writes POSITION, ROOT, STEPS, PROPAGATED.
    """
    store_steps(r)
    pass_inward(r)


@kernel
def inverse_after_elimination(r):
    """Compute M^-1 = V' V after ``eliminate_all``.

    Reads FROM_PARENT, COLUMNS, U, DINV; writes POSITION, MINV, ROOT, STEPS, PROPAGATED.
    """
    root_after_elimination(r)
    square_root(r)


@kernel
def inverse_after_factor(r):
    """Compute M^-1 = V' V if mimic joints couple branches, after ``factor``.

    Reads L; writes MINV, ROOT, UNIT.
    """
    solve_for_root(r)
    square_root(r)


@kernel
def minverse_kernel(r):
    """Compute the inverse of the inertia matrix, M^-1 = V' V.

    Calls place_bodies, eliminate_all, inverse_after_elimination.
    """
    place_bodies(r)
    eliminate_all(r)
    inverse_after_elimination(r)


@kernel
def projected_minverse_kernel(r):
    """Compute M^-1 from the factor of M, if mimic joints couple branches.

    Reads Q; writes ROTATION, FROM_PARENT, COLUMNS, M, COMPOSITE, L, DIAGONAL_SIZE, MINV, ROOT,
    UNIT.
    """
    crba_kernel(r)
    factor(r)
    inverse_after_factor(r)


@algorithm(minverse_kernel, inputs=(Q,), results=(MINV,), coupled=projected_minverse_kernel)
def minverse(model: Model, data: Data, q: ArrayLike, *, threads: int = 1) -> Array:
    """Compute the inverse of the joint-space inertia matrix, full and symmetric.

    Featherstone (2008), sections 6.5 and 7.2; Carpentier (2018). O(n^2 d) for a tree of depth d.
    Includes ``model.armature``. If mimic joints couple branches, M is factored instead.

    Examples
    --------
    >>> Minv = dyn_ros.minverse(model, data, q).copy()
    >>> np.allclose(Minv @ dyn_ros.crba(model, data, q), np.eye(7))
    True
    """
