# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The factors of the inertia matrix along the tree, and products with them.

M = L' D L with L unit lower triangular and as sparse as the tree: Featherstone, Rigid Body
Dynamics Algorithms (2008), tables 6.3 to 6.5. Public results are those of M = U D U' with U = L'.
No product computes an entry of a matrix that is not in the tree.
"""

from __future__ import annotations

from ...call.algorithm import algorithm, variant
from ...call.data import Data
from ...kernel.types import Array, ArrayLike, OutArrays
from ...kernel.vocabulary import *
from ...model.model import Model
from ..kinematics.world_axes import subspace_column
from .crba import INERTIA, M, crba_kernel

L = field("_l", ("nv", "nv"))  # L below the diagonal, D on it
DIAGONAL_BOUND = field("_diagonal_bound", ("nv",))
MIN_RELIABLE_PIVOT = 1e-7
"""A smaller pivot, relative to the inertia of the subtree, may be a rounding error.

singular.py decides whether it is. The value is about the square root of the machine epsilon: a
pivot d, for inertias of size 1, amplifies rounding errors of later pivots by up to 1 / d. If no
pivot is below the threshold, none is a rounding error.
"""
UPPER = field(
    "U",
    ("nv", "nv"),
    "Unit upper triangular factor of M = U D U', as sparse as the tree; complete, with "
    "the zeros below the diagonal and the ones on it.",
    True,
)
D = field(
    "D",
    ("nv",),
    "Diagonal of M = U D U': the inertia that each velocity moves while its "
    "descendants are free [kg m2, kg].",
)
D_INVERSE = field("Dinv", ("nv",), "Inverse of D [1/(kg m2), 1/kg].")
VECTOR = field("_b", ("nv",))
PRODUCT = field("_product", ("nv",), "The vector times the matrix.")

OPERATION = declare_option("operation")
SOLVE, M_TIMES, U_TIMES, UT_TIMES, U_SOLVE, UT_SOLVE = range(6)


@kernel
def pivot(r, k):
    """Return D_k, after ``factor_inertia_matrix``. Reads L."""
    return element(r, matrix(r, L), k, k)


@kernel
def store_diagonal_bounds(r):
    """Compute bounds of the diagonal of M without cancellation, after ``crba_kernel``.

        |S_k.linear|^2 m + |S_k.angular|^2 |I|      m, I: mass and rotational inertia of the subtree

    Reads COLUMNS, INERTIA; writes DIAGONAL_BOUND.
    """
    clear_entries(r, DIAGONAL_BOUND, nv(r))
    for i in range(1, njoints(r) + 1):
        Y = inertia(r, INERTIA, i)
        for c in range(ncolumns(r, i)):
            S = subspace_column(r, i, c)
            add_to_entry(
                r,
                DIAGONAL_BOUND,
                idx_v(r, i) + c,
                dot(S.linear, S.linear) * Y.mass
                + dot(S.angular, S.angular) * symmetric_norm_bound(Y.rotational),
            )


@kernel
def factor_inertia_matrix(r):
    """Factor M = L' D L; L has D on its diagonal.

    For each velocity k from the tips, and its ancestors i and j, after L = M:

        D_k = L_kk
        L_ij = L_ij - L_kj L_ki / D_k
        L_ki = L_ki / D_k                           Featherstone (2008), table 6.3

    Reads COLUMNS, M, INERTIA; writes L, DIAGONAL_BOUND.
    """
    store_diagonal_bounds(r)
    M_, L_ = matrix(r, M), matrix(r, L)
    for k in range(nv(r)):
        for j in range(k + 1):
            set_element(r, L_, k, j, element(r, M_, k, j))
    for k in range(nv(r) - 1, -1, -1):
        D_k = pivot(r, k)
        if not all_above(D_k, MIN_RELIABLE_PIVOT * entry(r, DIAGONAL_BOUND, k)):
            report_small_pivot(r, k)
        i = velocity_parent(r, k)
        while i >= 0:
            L_ki = element(r, L_, k, i) / D_k
            j = i
            while j >= 0:
                set_element(r, L_, i, j, element(r, L_, i, j) - element(r, L_, k, j) * L_ki)
                j = velocity_parent(r, j)
            set_element(r, L_, k, i, L_ki)
            i = velocity_parent(r, i)


@kernel
def add_to_ancestors(r, x, k, s):
    """Add s L_kj x_k to x_j, for the ancestors j of velocity k; x is a field. Reads L; writes x."""
    L_, x_k = matrix(r, L), entry(r, x, k)
    j = velocity_parent(r, k)
    while j >= 0:
        add_to_entry(r, x, j, s * element(r, L_, k, j) * x_k)
        j = velocity_parent(r, j)


@kernel
def add_ancestors(r, x, k, x_k, s):
    """Set x_k to a number plus the sum of s L_kj x_j over the ancestors j of velocity k.

    Reads L; writes x.
    """
    L_, j = matrix(r, L), velocity_parent(r, k)
    while j >= 0:
        x_k = x_k + s * element(r, L_, k, j) * entry(r, x, j)
        j = velocity_parent(r, j)
    set_entry(r, x, k, x_k)


@kernel
def solve_inward(r, x):
    """Replace the field x with L^-T x, after ``factor_inertia_matrix``. Reads L; writes x."""
    for k in range(nv(r) - 1, -1, -1):
        add_to_ancestors(r, x, k, -1.0)


@kernel
def solve_outward(r, x):
    """Replace the field x with L^-1 D^-1 x, the second half of M^-1 x. Reads L; writes x."""
    for k in range(nv(r)):
        add_ancestors(r, x, k, entry(r, x, k) / pivot(r, k), -1.0)


@kernel
def multiply_by_inverse(r, x):
    """Replace the field x with M^-1 x, after ``factor_inertia_matrix``. Reads L; writes x."""
    solve_inward(r, x)
    solve_outward(r, x)


@kernel
def cholesky_kernel(r):
    """Compute the factors of the inertia matrix.

        M = U D U',  U = L'                 Featherstone (2008), table 6.3

    Reads Q; writes ROTATION, FROM_PARENT, COLUMNS, M, INERTIA, L, DIAGONAL_BOUND, UPPER, D,
    D_INVERSE.
    """
    crba_kernel(r)
    factor_inertia_matrix(r)
    L_, columns = matrix(r, L), matrix(r, UPPER)  # U' in rows
    for k in range(nv(r)):
        for i in range(k):
            set_element(r, columns, k, i, element(r, L_, k, i))
        set_element(r, columns, k, k, 1.0)
        for i in range(k + 1, nv(r)):
            set_element(r, columns, k, i, 0.0)
        set_entry(r, D, k, pivot(r, k))
        set_entry(r, D_INVERSE, k, 1.0 / pivot(r, k))


@kernel
def multiply_by_inertia_matrix(r, b, x):
    """Set the field x to M b, with b a field. Reads M, b; writes x."""
    M_ = matrix(r, M)
    for k in range(nv(r)):
        b_k = entry(r, b, k)
        x_k = element(r, M_, k, k) * b_k
        j = velocity_parent(r, k)
        while j >= 0:
            x_k = x_k + element(r, M_, k, j) * entry(r, b, j)
            add_to_entry(r, x, j, element(r, M_, k, j) * b_k)
            j = velocity_parent(r, j)
        set_entry(r, x, k, x_k)


@kernel
def apply_factors(r, operation, x):
    """Multiply the field x by factors of M, after ``factor_inertia_matrix``. Reads L; writes x."""
    if operation == SOLVE:
        multiply_by_inverse(r, x)
    elif operation == U_SOLVE:
        solve_inward(r, x)
    elif operation == U_TIMES:
        for k in range(nv(r)):
            add_to_ancestors(r, x, k, 1.0)
    elif operation == UT_TIMES:
        for k in range(nv(r) - 1, -1, -1):
            add_ancestors(r, x, k, entry(r, x, k), 1.0)
    else:
        for k in range(nv(r)):
            add_ancestors(r, x, k, entry(r, x, k), -1.0)


@kernel
def product_kernel(r):
    """Compute the product of a vector and M, its inverse, or one of its factors.

    Reads Q, VECTOR; writes ROTATION, FROM_PARENT, COLUMNS, M, INERTIA, L, DIAGONAL_BOUND, PRODUCT.
    """
    crba_kernel(r)
    if option(r, OPERATION) == M_TIMES:
        multiply_by_inertia_matrix(r, VECTOR, PRODUCT)
    else:
        factor_inertia_matrix(r)
        for k in range(nv(r)):
            set_entry(r, PRODUCT, k, entry(r, VECTOR, k))
        apply_factors(r, option(r, OPERATION), PRODUCT)


@algorithm(cholesky_kernel, inputs=(Q,), results=(UPPER, D, D_INVERSE))
def cholesky(
    model: Model, data: Data, q: ArrayLike, *, threads: int = 1, out: OutArrays | None = None
) -> tuple[Array, Array, Array]:
    """Factor the inertia matrix, M = U D U'.

    U is unit upper triangular, and nonzero only where a joint is an ancestor of the other one:
    Featherstone (2008), section 6.5, with U = L'; O(n d^2) for a tree of depth d. If there are
    mimic joints, each entry above the diagonal can be nonzero. M includes ``model.armature``.

    Examples
    --------
    >>> U, D, Dinv = dyn_ros.cholesky(model, data, q)
    >>> np.allclose(U * D @ U.T, dyn_ros.crba(model, data, q))
    True
    """


@algorithm(
    product_kernel, inputs=(Q, VECTOR), results=(PRODUCT,), options=(OPERATION,), selector=SOLVE
)
def cholesky_solve(
    model: Model,
    data: Data,
    q: ArrayLike,
    b: ArrayLike,
    *,
    threads: int = 1,
    out: OutArrays | None = None,
) -> Array:
    """Compute M^-1 b, without computing M^-1.

    Featherstone (2008), section 6.5; O(n d^2) for a tree of depth d. M includes
    ``model.armature``. For torques b, these are the accelerations that they add.

    Returns
    -------
    (nv,) ndarray
        For torques and forces b [N m, N], accelerations [rad/s2, m/s2].

    Examples
    --------
    >>> x = dyn_ros.cholesky_solve(model, data, q, tau).copy()
    >>> np.allclose(dyn_ros.crba(model, data, q) @ x, tau)
    True
    """


@variant(cholesky_solve, M_TIMES, own_results=True)
def cholesky_M_times(
    model: Model,
    data: Data,
    q: ArrayLike,
    b: ArrayLike,
    *,
    threads: int = 1,
    out: OutArrays | None = None,
) -> Array:
    """Compute M b, without the products with zeros of M.

    Featherstone (2008), section 6.5; O(n d) for a tree of depth d. M includes ``model.armature``.
    For accelerations b, these are the torques that cause them. M is not factored, so it may be
    singular.

    Returns
    -------
    (nv,) ndarray
        For accelerations b [rad/s2, m/s2], torques and forces [N m, N].

    Examples
    --------
    >>> b = dyn_ros.cholesky_M_times(model, data, q, a).copy()
    >>> np.allclose(b, dyn_ros.crba(model, data, q) @ a)
    True
    """


@variant(cholesky_solve, U_TIMES, own_results=True)
def cholesky_U_times(
    model: Model,
    data: Data,
    q: ArrayLike,
    b: ArrayLike,
    *,
    threads: int = 1,
    out: OutArrays | None = None,
) -> Array:
    """Compute U b, with M = U D U' as in ``cholesky``; O(n d^2), as M is factored first.

    Examples
    --------
    >>> U, D, Dinv = dyn_ros.cholesky(model, data, q)
    >>> np.allclose(dyn_ros.cholesky_U_times(model, data, q, tau), U @ tau)
    True
    """


@variant(cholesky_solve, UT_TIMES, own_results=True)
def cholesky_Ut_times(
    model: Model,
    data: Data,
    q: ArrayLike,
    b: ArrayLike,
    *,
    threads: int = 1,
    out: OutArrays | None = None,
) -> Array:
    """Compute U' b, with M = U D U' as in ``cholesky``; O(n d^2), as M is factored first.

    Examples
    --------
    >>> U, D, Dinv = dyn_ros.cholesky(model, data, q)
    >>> np.allclose(dyn_ros.cholesky_Ut_times(model, data, q, tau), U.T @ tau)
    True
    """


@variant(cholesky_solve, U_SOLVE, own_results=True)
def cholesky_U_solve(
    model: Model,
    data: Data,
    q: ArrayLike,
    b: ArrayLike,
    *,
    threads: int = 1,
    out: OutArrays | None = None,
) -> Array:
    """Compute U^-1 b, with M = U D U' as in ``cholesky``; O(n d^2), as M is factored first.

    Examples
    --------
    >>> x = dyn_ros.cholesky_U_solve(model, data, q, tau).copy()
    >>> np.allclose(dyn_ros.cholesky_U_times(model, data, q, x), tau)
    True
    """


@variant(cholesky_solve, UT_SOLVE, own_results=True)
def cholesky_Ut_solve(
    model: Model,
    data: Data,
    q: ArrayLike,
    b: ArrayLike,
    *,
    threads: int = 1,
    out: OutArrays | None = None,
) -> Array:
    """Compute U'^-1 b, with M = U D U' as in ``cholesky``; O(n d^2), as M is factored first.

    Examples
    --------
    >>> x = dyn_ros.cholesky_Ut_solve(model, data, q, tau).copy()
    >>> np.allclose(dyn_ros.cholesky_Ut_times(model, data, q, x), tau)
    True
    """
