# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Inverse of the joint-space inertia matrix.

With M = L' D L, sparse along the tree, M^-1 = V' V with V = D^-1/2 L^-T. Column k of L^-T consists
of the torques that a unit force of joint k causes at its ancestors in the articulated-body
algorithm: Featherstone (2008), sections 6.5 and 7.2, and Carpentier (2018).
"""

from __future__ import annotations

from ...call.algorithm import Algorithm
from ...call.data import Data
from ...kernel import algebra as al
from ...kernel import lanes as la
from ...kernel import packing as ly
from ...kernel.fields import Q, field
from ...kernel.types import Array, ArrayLike
from ...machine_code.declare import kernel
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
    """Store S, U and 1 of each velocity, about the first joint's origin."""
    for i in range(1, ly.njoints(r) + 1):
        p = al.sub(ra.from_parent(r, i), ra.from_parent(r, 1))
        if ly.parent(r, i) > 0:
            p = al.add(
                ra.from_parent(r, i),
                al.load3(r.work, ly.offset(r, ra.POSITION) + 3 * ly.parent(r, i)),
            )
        al.store3(r.work, ly.offset(r, ra.POSITION) + 3 * i, p)
        for c in range(ly.ncolumns(r, i)):
            k = ly.idx_v(r, i) + c
            row, s = ly.offset(r, STEPS) + 13 * k, la.sqrt(la.load(r.work, ly.offset(r, DINV) + k))
            S = al.motion_moved(al.scale(-1.0, p), ra.load_column(r, i, c))
            U_k = al.force_moved(p, al.load_force(r.work, ly.offset(r, U) + 6 * k))
            al.store_spatial(r.work, row, al.motion_scale(s, S))
            al.store_spatial(r.work, row + 6, al.force_scale(s, U_k))
            la.store(r.work, row + 12, s)


@kernel
def load_forces(r, f, w, count):
    """Vectors of forces, one in each column from offset f on, in rows of w numbers."""
    return al.Force(
        (
            la.load_simd(r.work, f, count),
            la.load_simd(r.work, f + w, count),
            la.load_simd(r.work, f + 2 * w, count),
        ),
        (
            la.load_simd(r.work, f + 3 * w, count),
            la.load_simd(r.work, f + 4 * w, count),
            la.load_simd(r.work, f + 5 * w, count),
        ),
    )


@kernel
def store_propagated(r, k, count, f):
    for x in range(3):
        row = ly.offset(r, PROPAGATED) + ly.padded(r) * x + k
        la.store_simd(r.work, row, count, f.linear[x])
        la.store_simd(r.work, row + 3 * ly.padded(r), count, f.angular[x])


@kernel
def pass_inward(r):
    """V, row by row from the tips, from the forces of the descendants of each velocity."""
    for j in range(ly.nv(r) - 1, -1, -1):
        row, V_ = ly.offset(r, STEPS) + 13 * j, ly.offset(r, ROOT) + ly.padded(r) * j
        end = ly.velocity_end(r, j)
        S, U_j = al.load_motion(r.work, row), al.load_force(r.work, row + 6)
        s = la.load(r.work, row + 12)
        for k in range(j + 1, end, la.simd_width(r.work)):
            f = load_forces(r, ly.offset(r, PROPAGATED) + k, ly.padded(r), end - k)
            x = -al.power(f, S)
            la.store_simd(r.work, V_ + k, end - k, x)
            store_propagated(r, k, end - k, al.force_add(f, al.force_scale(x, U_j)))
        la.store(r.work, V_ + j, s)
        store_propagated(r, j, 1, al.force_scale(s, U_j))


@kernel
def solve_for_root(r):
    """V if mimic joints couple branches, after ``factor``."""
    for k in range(ly.nv(r)):
        ly.clear(r.work, ly.offset(r, UNIT), ly.nv(r))
        la.store(r.work, ly.offset(r, UNIT) + k, 1.0)
        solve_inward(r, ly.offset(r, UNIT))
        for j in range(k + 1):
            la.store(
                r.work,
                ly.offset(r, ROOT) + ly.padded(r) * j + k,
                la.load(r.work, ly.offset(r, UNIT) + j) / la.sqrt(pivot(r, j)),
            )


@kernel
def load_four(a, i):
    return (la.load(a, i), la.load(a, i + 1), la.load(a, i + 2), la.load(a, i + 3))


@kernel
def load_eight(a, i):
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
            la.store_simd(r.work, k + ly.nv(r) * t, columns, x[t])


@kernel
def add_row(r, x, y, i, c, j):
    """Add the contribution of row j of V to rows i to i + 3 of V' V, in columns c, c + 1, ..."""
    row, k = ly.offset(r, ROOT) + ly.padded(r) * j + i, ly.offset(r, ROOT) + ly.padded(r) * j + c
    a = load_four(r.work, row)
    return (
        add_scaled_four(x, a, la.load_simd(r.work, k, la.SIMD_WIDTH)),
        add_scaled_four(y, a, la.load_simd(r.work, k + la.simd_width(r.work), la.SIMD_WIDTH)),
    )


@kernel
def store_part(r, i, c, x):
    """Store rows i to i + 3 of M^-1 in columns c, c + 1, ...; for a batch also transposed."""
    n, W = ly.nv(r), ly.offset(r, MINV)
    store_rows(r, W + n * i + c, n - i, n - c, x)
    if la.holds_lanes(r.work):
        for t in range(4):
            if i + t < n:
                la.store_simd(r.work, W + n * c + i + t, 1, x[t])


@kernel
def square_root(r):
    """V' V, four rows at a time, on and to the right of the diagonal; the rest by symmetry.

    Rows i to i + 3 of V' are nonzero only at these velocities and the ancestors of i. On the way
    to the root, those that are also ancestors of column c come last.
    """
    n, V_, W, some = ly.nv(r), ly.offset(r, ROOT), ly.offset(r, MINV), la.simd_width(r.work)
    for i in range(0, n, 4):
        for c in range(i, n, 2 * some):
            zero = 0.0 * la.load_simd(r.work, V_ + c, la.SIMD_WIDTH)
            x = (zero, zero, zero, zero)
            y = x
            for j in range(min(i + 4, n) - 1, i, -1):
                if ly.velocity_end(r, j) > c:
                    x, y = add_row(r, x, y, i, c, j)
            j = i
            while j >= 0 and ly.velocity_end(r, j) <= c:
                j = ly.velocity_parent(r, j)
            while j >= 0:
                x, y = add_row(r, x, y, i, c, j)
                j = ly.velocity_parent(r, j)
            store_part(r, i, c, x)
            if c + some < n:
                store_part(r, i, c + some, y)
        if not la.holds_lanes(r.work):
            for c in range(i + 1, n):
                for j in range(i, min(i + 4, c)):
                    la.store(r.work, W + n * c + j, la.load(r.work, W + n * j + c))


@kernel
def root_after_elimination(r):
    store_steps(r)
    pass_inward(r)


@kernel
def inverse_after_elimination(r):
    root_after_elimination(r)
    square_root(r)


@kernel
def inverse_after_factor(r):
    """The inverse if mimic joints couple branches, after ``factor``."""
    solve_for_root(r)
    square_root(r)


@kernel
def minverse_kernel(r):
    place_bodies(r)
    eliminate_all(r)
    inverse_after_elimination(r)


@kernel
def projected_minverse_kernel(r):
    crba_kernel(r)
    factor(r)
    inverse_after_factor(r)


_minverse = Algorithm(
    "minverse", minverse_kernel, (Q,), (MINV,), coupled=projected_minverse_kernel
).caller()


def minverse(model: Model, data: Data, q: ArrayLike, *, threads: int = 1) -> Array:
    """Inverse of the joint-space inertia matrix, full and symmetric.

    Featherstone (2008), sections 6.5 and 7.2; Carpentier (2018). O(n^2 d) for a tree of depth d.
    Includes ``model.armature``. If mimic joints couple branches, M is factored instead.

    Examples
    --------
    >>> Minv = dyn_ros.minverse(model, data, q).copy()
    >>> np.allclose(Minv @ dyn_ros.crba(model, data, q), np.eye(7))
    True
    """
    return _minverse(model, data, threads, q)
