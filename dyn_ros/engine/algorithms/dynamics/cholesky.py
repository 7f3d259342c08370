# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The factors of the inertia matrix along the tree, and products with them.

M = L' D L with L unit lower triangular and as sparse as the tree: Featherstone, Rigid Body
Dynamics Algorithms (2008), tables 6.3 to 6.5. Public results are those of M = U D U' with U = L'.
No product computes an entry of a matrix that is not in the tree.
"""

from __future__ import annotations

from ...call.algorithm import Algorithm
from ...call.data import Data
from ...kernel import algebra as al
from ...kernel import packing as ly
from ...kernel.fields import Q, declare_option, field
from ...kernel.lanes import all_above, load, store
from ...kernel.types import Array, ArrayLike
from ...machine_code.declare import kernel
from ...model.model import Model
from ..kinematics.root_axes import load_column
from .crba import COMPOSITE, M, crba_kernel

L = field("_L", ("nv", "nv"))  # L below the diagonal, D on it
DIAGONAL_SIZE = field("_diagonal_size", ("nv",))
DOUBTFUL = 1e-7
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
    """D of velocity k, after ``factor``."""
    return load(r.work, ly.offset(r, L) + k * (ly.nv(r) + 1))


@kernel
def diagonal_sizes(r):
    """Size of the diagonal entries of M without cancellation, after ``crba_kernel``."""
    ly.clear(r.work, ly.offset(r, DIAGONAL_SIZE), ly.nv(r))
    for i in range(1, ly.njoints(r) + 1):
        Y = al.load_inertia(r.work, ly.offset(r, COMPOSITE) + 10 * i)
        for c in range(ly.ncolumns(r, i)):
            S = load_column(r, i, c)
            ly.increase(
                r.work,
                ly.offset(r, DIAGONAL_SIZE) + ly.idx_v(r, i) + c,
                al.dot(S.linear, S.linear) * Y.mass
                + al.dot(S.angular, S.angular) * al.symmetric_size(Y.rotational),
            )


@kernel
def factor(r):
    """L and D of M."""
    diagonal_sizes(r)
    n, M_, L_ = ly.nv(r), ly.offset(r, M), ly.offset(r, L)
    for k in range(n):
        for j in range(k + 1):
            store(r.work, L_ + k * n + j, load(r.work, M_ + k * n + j))
    for k in range(n - 1, -1, -1):
        row = L_ + k * n
        d = load(r.work, row + k)
        if not all_above(d, DOUBTFUL * load(r.work, ly.offset(r, DIAGONAL_SIZE) + k)):
            ly.fail(r, k)
        i = ly.velocity_parent(r, k)
        while i >= 0:
            a = load(r.work, row + i) / d
            j = i
            while j >= 0:
                ij = L_ + i * n + j
                store(r.work, ij, load(r.work, ij) - load(r.work, row + j) * a)
                j = ly.velocity_parent(r, j)
            store(r.work, row + i, a)
            i = ly.velocity_parent(r, i)


@kernel
def add_to_ancestors(r, x, k, s):
    """x_j <- x_j + s L_kj x_k for the ancestors j of velocity k, with x at an offset."""
    row, x_k = ly.offset(r, L) + k * ly.nv(r), load(r.work, x + k)
    j = ly.velocity_parent(r, k)
    while j >= 0:
        ly.increase(r.work, x + j, s * load(r.work, row + j) * x_k)
        j = ly.velocity_parent(r, j)


@kernel
def add_ancestors(r, x, k, x_k, s):
    """x_k <- x_k + the sum of s L_kj x_j over the ancestors j of velocity k."""
    row, j = ly.offset(r, L) + k * ly.nv(r), ly.velocity_parent(r, k)
    while j >= 0:
        x_k = x_k + s * load(r.work, row + j) * load(r.work, x + j)
        j = ly.velocity_parent(r, j)
    store(r.work, x + k, x_k)


@kernel
def solve_inward(r, x):
    """x <- L^-T x for the nv numbers at offset x, after ``factor``."""
    for k in range(ly.nv(r) - 1, -1, -1):
        add_to_ancestors(r, x, k, -1.0)


@kernel
def solve_outward(r, x):
    """x <- L^-1 D^-1 x, the second half of M^-1 x."""
    for k in range(ly.nv(r)):
        add_ancestors(r, x, k, load(r.work, x + k) / pivot(r, k), -1.0)


@kernel
def solve(r, x):
    """x <- M^-1 x for the nv numbers at offset x, after ``factor``."""
    solve_inward(r, x)
    solve_outward(r, x)


@kernel
def cholesky_kernel(r):
    crba_kernel(r)
    factor(r)
    n = ly.nv(r)
    for k in range(n):
        column = ly.offset(r, UPPER) + k * n
        for i in range(k):
            store(r.work, column + i, load(r.work, ly.offset(r, L) + k * n + i))
        store(r.work, column + k, 1.0)
        ly.clear(r.work, column + k + 1, n - k - 1)
        store(r.work, ly.offset(r, D) + k, pivot(r, k))
        store(r.work, ly.offset(r, D_INVERSE) + k, 1.0 / pivot(r, k))


@kernel
def times_M(r, b, x):
    """x <- M b, for the nv numbers at offsets b and x."""
    n = ly.nv(r)
    for k in range(n):
        row, b_k = ly.offset(r, M) + k * n, load(r.work, b + k)
        x_k = load(r.work, row + k) * b_k
        j = ly.velocity_parent(r, k)
        while j >= 0:
            x_k = x_k + load(r.work, row + j) * load(r.work, b + j)
            ly.increase(r.work, x + j, load(r.work, row + j) * b_k)
            j = ly.velocity_parent(r, j)
        store(r.work, x + k, x_k)


@kernel
def apply_factors(r, operation, x):
    """x <- the product of x with factors of M, after ``factor``."""
    n = ly.nv(r)
    if operation == SOLVE:
        solve(r, x)
    elif operation == U_SOLVE:
        solve_inward(r, x)
    elif operation == U_TIMES:
        for k in range(n):
            add_to_ancestors(r, x, k, 1.0)
    elif operation == UT_TIMES:
        for k in range(n - 1, -1, -1):
            add_ancestors(r, x, k, load(r.work, x + k), 1.0)
    else:
        for k in range(n):
            add_ancestors(r, x, k, load(r.work, x + k), -1.0)


@kernel
def product_kernel(r):
    crba_kernel(r)
    b, x = ly.offset(r, VECTOR), ly.offset(r, PRODUCT)
    if ly.option(r, OPERATION) == M_TIMES:
        times_M(r, b, x)
    else:
        factor(r)
        for k in range(ly.nv(r)):
            store(r.work, x + k, load(r.work, b + k))
        apply_factors(r, ly.option(r, OPERATION), x)


_cholesky = Algorithm("cholesky", cholesky_kernel, (Q,), (UPPER, D, D_INVERSE)).caller()
_products = Algorithm(
    "cholesky_solve", product_kernel, (Q, VECTOR), (PRODUCT,), options=(OPERATION,)
)
_solve, _M_times, _U_times, _Ut_times, _U_solve, _Ut_solve = (
    _products.caller() for _ in range(6)
)  # each has its own array for a single state


def cholesky(
    model: Model, data: Data, q: ArrayLike, *, threads: int = 1
) -> tuple[Array, Array, Array]:
    """Factors of the inertia matrix, M = U D U'.

    U is unit upper triangular, and nonzero only where a joint is an ancestor of the other one:
    Featherstone (2008), section 6.5, with U = L'; O(n d^2) for a tree of depth d. If mimic joints
    couple branches, each entry above the diagonal can be nonzero. M includes ``model.armature``.

    Examples
    --------
    >>> U, D, Dinv = dyn_ros.cholesky(model, data, q)
    >>> np.allclose(U * D @ U.T, dyn_ros.crba(model, data, q))
    True
    """
    return _cholesky(model, data, threads, q)


def cholesky_solve(
    model: Model, data: Data, q: ArrayLike, b: ArrayLike, *, threads: int = 1
) -> Array:
    """M^-1 b, without computing M^-1.

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
    return _solve(model, data, threads, SOLVE, q, b)


def cholesky_M_times(
    model: Model, data: Data, q: ArrayLike, b: ArrayLike, *, threads: int = 1
) -> Array:
    """M b, without the products with zeros of M.

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
    return _M_times(model, data, threads, M_TIMES, q, b)


def cholesky_U_times(
    model: Model, data: Data, q: ArrayLike, b: ArrayLike, *, threads: int = 1
) -> Array:
    """U b, with M = U D U' as in ``cholesky``; O(n d^2), as M is factored first.

    Examples
    --------
    >>> U, D, Dinv = dyn_ros.cholesky(model, data, q)
    >>> np.allclose(dyn_ros.cholesky_U_times(model, data, q, tau), U @ tau)
    True
    """
    return _U_times(model, data, threads, U_TIMES, q, b)


def cholesky_Ut_times(
    model: Model, data: Data, q: ArrayLike, b: ArrayLike, *, threads: int = 1
) -> Array:
    """U' b, with M = U D U' as in ``cholesky``; O(n d^2), as M is factored first.

    Examples
    --------
    >>> U, D, Dinv = dyn_ros.cholesky(model, data, q)
    >>> np.allclose(dyn_ros.cholesky_Ut_times(model, data, q, tau), U.T @ tau)
    True
    """
    return _Ut_times(model, data, threads, UT_TIMES, q, b)


def cholesky_U_solve(
    model: Model, data: Data, q: ArrayLike, b: ArrayLike, *, threads: int = 1
) -> Array:
    """U^-1 b, with M = U D U' as in ``cholesky``; O(n d^2), as M is factored first.

    Examples
    --------
    >>> x = dyn_ros.cholesky_U_solve(model, data, q, tau).copy()
    >>> np.allclose(dyn_ros.cholesky_U_times(model, data, q, x), tau)
    True
    """
    return _U_solve(model, data, threads, U_SOLVE, q, b)


def cholesky_Ut_solve(
    model: Model, data: Data, q: ArrayLike, b: ArrayLike, *, threads: int = 1
) -> Array:
    """U'^-1 b, with M = U D U' as in ``cholesky``; O(n d^2), as M is factored first.

    Examples
    --------
    >>> x = dyn_ros.cholesky_Ut_solve(model, data, q, tau).copy()
    >>> np.allclose(dyn_ros.cholesky_Ut_times(model, data, q, x), tau)
    True
    """
    return _Ut_solve(model, data, threads, UT_SOLVE, q, b)
