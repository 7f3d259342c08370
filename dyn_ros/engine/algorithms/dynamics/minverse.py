# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Inverse of the joint-space inertia matrix.

With M = L' D L, sparse along the tree, M^-1 = V' V with V = D^-1/2 L^-T. Column k of L^-T consists
of the torques that a unit force of joint k causes at its ancestors in the articulated-body
algorithm: Featherstone (2008), sections 6.5 and 7.2. Carpentier (2018) computes the same torques,
and M^-1 from them in an outward pass; the product V' V is an arrangement of this package.
"""

from __future__ import annotations

from ...call.algorithm import algorithm
from ...call.data import Data
from ...kernel.types import Array, ArrayLike, OutArrays
from ...kernel.vocabulary import *
from ...model.model import Model
from ..kinematics import world_axes as wa
from .aba import DINV, U, eliminate_joints
from .cholesky import factor_inertia_matrix, pivot, solve_inward
from .crba import crba_kernel, place_bodies_relative

MINV = field(
    "Minv",
    ("nv", "nv"),
    "Inverse of the joint-space inertia matrix, full [rad/s2, m/s2 per N m, N].",
)
MINV_FACTOR = field("_minv_factor", ("nv", "padded"), zeros=True)  # V
SCALED_S = field("_scaled_s", ("nv", 6))  # D^-1/2 S, about the first joint's origin
SCALED_U = field("_scaled_u", ("nv", 6))  # D^-1/2 U, about the first joint's origin
SQRT_DINV = field("_sqrt_dinv", ("nv",))  # D^-1/2
PROPAGATED_FORCES = field("_propagated_forces", (6, "padded"))  # one per column
UNIT = field("_unit", ("nv",))


@kernel
def scale_columns(r):
    """Compute D^-1/2 S and D^-1/2 U of each velocity, about the first joint's origin.

        r_i = r_p + t                       t: vector from the parent's origin
        S = [1 [r]; 0 1] S,  U = [1 0; [r] 1] U

    Reads FROM_PARENT, COLUMNS, U, DINV; writes POSITION, SCALED_S, SCALED_U, SQRT_DINV.
    """
    for i in range(1, njoints(r) + 1):
        p = sub(wa.from_parent(r, i), wa.from_parent(r, 1))
        if parent(r, i) > 0:
            p = add(wa.from_parent(r, i), wa.position(r, parent(r, i)))
        set_vector(r, wa.POSITION, i, p)
        for c in range(ncolumns(r, i)):
            k = idx_v(r, i) + c
            s = sqrt(entry(r, DINV, k))
            S = motion_moved(scale(-1.0, p), wa.subspace_column(r, i, c))
            U_k = force_moved(p, force(r, U, k))
            set_motion(r, SCALED_S, k, motion_scale(s, S))
            set_force(r, SCALED_U, k, force_scale(s, U_k))
            set_entry(r, SQRT_DINV, k, s)


@kernel
def force_vectors(r, A, k, count):
    """Return the forces in columns k, k + 1, ... of A, whose six rows hold their components.

    Reads A.
    """
    return Force(
        (elements(r, A, 0, k, count), elements(r, A, 1, k, count), elements(r, A, 2, k, count)),
        (elements(r, A, 3, k, count), elements(r, A, 4, k, count), elements(r, A, 5, k, count)),
    )


@kernel
def set_propagated(r, k, count, f):
    """Store a vector of forces in columns k, k + 1, ... Writes PROPAGATED_FORCES."""
    columns = matrix_of_width(r, PROPAGATED_FORCES, padded_nv(r))
    for c in range(3):
        set_elements(r, columns, c, k, count, f.linear[c])
        set_elements(r, columns, 3 + c, k, count, f.angular[c])


@kernel
def compute_minv_factor(r):
    """Compute V, row by row from the tips, and the forces f_k that unit forces at joints cause.

        V_jj = D_j^-1/2,  f_j = D_j^-1 U_j
        V_jk = -D_j^-1/2 S_j' f_k
        f_k = f_k + D_j^-1/2 U_j V_jk           k: descendants of j

    Reads SCALED_S, SCALED_U, SQRT_DINV; writes MINV_FACTOR, PROPAGATED_FORCES.
    """
    V_, columns = (
        matrix_of_width(r, MINV_FACTOR, padded_nv(r)),
        matrix_of_width(r, PROPAGATED_FORCES, padded_nv(r)),
    )
    for j in range(nv(r) - 1, -1, -1):
        end = velocity_end(r, j)
        S, U_j, s = motion(r, SCALED_S, j), force(r, SCALED_U, j), entry(r, SQRT_DINV, j)
        for k in range(j + 1, end, simd_width(r.work)):
            f = force_vectors(r, columns, k, end - k)
            x = -power(f, S)
            set_elements(r, V_, j, k, end - k, x)
            set_propagated(r, k, end - k, force_add(f, force_scale(x, U_j)))
        set_element(r, V_, j, j, s)
        set_propagated(r, j, 1, force_scale(s, U_j))


@kernel
def solve_minv_factor(r):
    """Compute V if there are mimic joints, after ``factor_inertia_matrix``.

        V = D^-1/2 L^-T

    Reads L; writes MINV_FACTOR, UNIT.
    """
    V_ = matrix_of_width(r, MINV_FACTOR, padded_nv(r))
    for k in range(nv(r)):
        clear_entries(r, UNIT, nv(r))
        set_entry(r, UNIT, k, 1.0)
        solve_inward(r, UNIT)
        for j in range(k + 1):
            set_element(r, V_, j, k, entry(r, UNIT, j) / sqrt(pivot(r, j)))


@kernel
def add_scaled_four(total, a, x):
    """Return total + a x, for four numbers each."""
    return (total[0] + a[0] * x, total[1] + a[1] * x, total[2] + a[2] * x, total[3] + a[3] * x)


@kernel
def add_scaled(total, a, x):
    """Return total + a x, for eight numbers each."""
    return add_scaled_four(total[:4], a[:4], x) + add_scaled_four(total[4:], a[4:], x)


@kernel
def set_rows(r, A, i, j, x):
    """Store vectors x in rows i, i + 1, ... of A, (nv, nv), from column j on. Writes A."""
    for t in range(len(x)):
        if t < nv(r) - i:
            set_elements(r, A, i + t, j, nv(r) - j, x[t])


@kernel
def add_row(r, x, y, i, c, j):
    """Return x and y plus the part of row j of V in rows i to i + 3 of V' V, from column c on.

        Minv_ic = Minv_ic + V_ji V_jc

    Reads MINV_FACTOR.
    """
    V_ = matrix_of_width(r, MINV_FACTOR, padded_nv(r))
    a = elements4(r, V_, j, i)
    return (
        add_scaled_four(x, a, elements(r, V_, j, c, SIMD_WIDTH)),
        add_scaled_four(y, a, elements(r, V_, j, c + simd_width(r.work), SIMD_WIDTH)),
    )


@kernel
def store_block(r, i, c, x):
    """Store rows i to i + 3 of M^-1 in columns c, c + 1, ...; for a batch also transposed.

    Writes MINV.
    """
    n, Minv = nv(r), matrix(r, MINV)
    set_rows(r, Minv, i, c, x)
    if is_batch(r):
        for t in range(4):
            if i + t < n:
                set_elements(r, Minv, c, i + t, 1, x[t])


@kernel
def multiply_minv_factor(r):
    """Compute M^-1 = V' V, four rows at a time, right of the diagonal; the others by symmetry.

        Minv_ic = sum of V_ji V_jc over the common ancestors j of i and c

    Rows i to i + 3 of V' are nonzero only at these velocities and the ancestors of i. On the way
    to the root, the ancestors of column c come last.

    Reads MINV_FACTOR; writes MINV.
    """
    n, V_, Minv = nv(r), matrix_of_width(r, MINV_FACTOR, padded_nv(r)), matrix(r, MINV)
    width = simd_width(r.work)
    for i in range(0, n, 4):
        for c in range(i, n, 2 * width):
            zero = 0.0 * elements(r, V_, 0, c, SIMD_WIDTH)
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
            store_block(r, i, c, x)
            if c + width < n:
                store_block(r, i, c + width, y)
        if not is_batch(r):
            for c in range(i + 1, n):
                for j in range(i, min(i + 4, c)):
                    set_element(r, Minv, c, j, element(r, Minv, j, c))


@kernel
def compute_factor_after_elimination(r):
    """Compute V after ``eliminate_joints``, with M^-1 = V' V.

    Reads FROM_PARENT, COLUMNS, U, DINV; writes POSITION, MINV_FACTOR, SCALED_S, SCALED_U,
    SQRT_DINV, PROPAGATED_FORCES.
    """
    scale_columns(r)
    compute_minv_factor(r)


@kernel
def invert_after_elimination(r):
    """Compute M^-1 = V' V after ``eliminate_joints``.

    Reads FROM_PARENT, COLUMNS, U, DINV; writes POSITION, MINV, MINV_FACTOR, SCALED_S, SCALED_U,
    SQRT_DINV, PROPAGATED_FORCES.
    """
    compute_factor_after_elimination(r)
    multiply_minv_factor(r)


@kernel
def invert_after_factor(r):
    """Compute M^-1 = V' V if there are mimic joints, after ``factor_inertia_matrix``.

    Reads L; writes MINV, MINV_FACTOR, UNIT.
    """
    solve_minv_factor(r)
    multiply_minv_factor(r)


@kernel
def minverse_kernel(r):
    """Compute the inverse of the inertia matrix, M^-1 = V' V.

    Reads Q; writes MINV; calls place_bodies_relative, eliminate_joints, invert_after_elimination.
    """
    place_bodies_relative(r)
    eliminate_joints(r)
    invert_after_elimination(r)


@kernel
def mimic_minverse_kernel(r):
    """Compute M^-1 from the factor of M, if there are mimic joints.

    Reads Q; writes ROTATION, FROM_PARENT, COLUMNS, M, INERTIA, L, DIAGONAL_BOUND, MINV,
    MINV_FACTOR, UNIT.
    """
    crba_kernel(r)
    factor_inertia_matrix(r)
    invert_after_factor(r)


@algorithm(minverse_kernel, inputs=(Q,), results=(MINV,), mimic_kernel=mimic_minverse_kernel)
def minverse(
    model: Model, data: Data, q: ArrayLike, *, threads: int = 1, out: OutArrays | None = None
) -> Array:
    """Compute the inverse of the joint-space inertia matrix, full and symmetric.

    Featherstone (2008), sections 6.5 and 7.2; Carpentier (2018). O(n^2 d) for a tree of depth d.
    Includes ``model.armature``. If there are mimic joints, M is factored instead.

    Examples
    --------
    >>> Minv = dyn_ros.minverse(model, data, q).copy()
    >>> np.allclose(Minv @ dyn_ros.crba(model, data, q), np.eye(7))
    True
    """
