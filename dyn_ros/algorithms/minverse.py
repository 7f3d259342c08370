"""Factorisation of the inertia matrix along the tree, and its inverse.

M = L' D L with L unit lower triangular and as sparse as the tree: Featherstone, Rigid Body
Dynamics Algorithms (2008), tables 6.3 to 6.5.
"""
from ..model.layout import Q, at, clear, fail, field, nv, velocity_parent
from ..spatial.compiler import kernel
from ..spatial.lanes import all_above, load, store
from .call import Algorithm
from .crba import M, crba_kernel

L = field("_L", ("nv", "nv"))        # L below the diagonal, D on it
MINV = field("Minv", ("nv", "nv"), "Inverse of the joint-space inertia matrix, full.")
SINGULAR = 1e-14                     # a pivot this small beside its diagonal entry is rounding


@kernel
def factor(r):
    """L and D of M."""
    n, M_, L_ = nv(r), at(r, M), at(r, L)
    for k in range(n):
        for j in range(k + 1):
            store(r.work, L_ + k * n + j, load(r.work, M_ + k * n + j))
    for k in range(n - 1, -1, -1):
        row = L_ + k * n
        d = load(r.work, row + k)
        if not all_above(d, SINGULAR * load(r.work, M_ + k * n + k)):
            fail(r, k)
        i = velocity_parent(r, k)
        while i >= 0:
            a = load(r.work, row + i) / d
            j = i
            while j >= 0:
                ij = L_ + i * n + j
                store(r.work, ij, load(r.work, ij) - load(r.work, row + j) * a)
                j = velocity_parent(r, j)
            store(r.work, row + i, a)
            i = velocity_parent(r, i)


@kernel
def solve_inward(r, x):
    """x <- L^-T x for the nv numbers at offset x, after ``factor``."""
    n, L_ = nv(r), at(r, L)
    for i in range(n - 1, -1, -1):
        x_i = load(r.work, x + i)
        j = velocity_parent(r, i)
        while j >= 0:
            store(r.work, x + j, load(r.work, x + j) - load(r.work, L_ + i * n + j) * x_i)
            j = velocity_parent(r, j)


@kernel
def solve_outward(r, x):
    """x <- L^-1 D^-1 x, the other half of M^-1 x."""
    n, L_ = nv(r), at(r, L)
    for i in range(n):
        x_i = load(r.work, x + i) / load(r.work, L_ + i * n + i)
        j = velocity_parent(r, i)
        while j >= 0:
            x_i = x_i - load(r.work, L_ + i * n + j) * load(r.work, x + j)
            j = velocity_parent(r, j)
        store(r.work, x + i, x_i)


@kernel
def solve(r, x):
    """x <- M^-1 x for the nv numbers at offset x, after ``factor``."""
    solve_inward(r, x)
    solve_outward(r, x)


@kernel
def minverse_kernel(r):
    """Row k of L M^-1 = D^-1 L^-T, whose right side is upper triangular."""
    crba_kernel(r)
    factor(r)
    n, L_, W = nv(r), at(r, L), at(r, MINV)
    for k in range(n):
        row = W + k * n
        clear(r.work, row, k)
        store(r.work, row + k, 1.0 / load(r.work, L_ + k * n + k))
        i = velocity_parent(r, k)
        while i >= 0:
            a = load(r.work, L_ + k * n + i)
            for j in range(k):
                store(r.work, row + j, load(r.work, row + j) - a * load(r.work, W + i * n + j))
            i = velocity_parent(r, i)
        i = velocity_parent(r, k)
        while i >= 0:
            store(r.work, row + k, load(r.work, row + k)
                  - load(r.work, L_ + k * n + i) * load(r.work, row + i))
            i = velocity_parent(r, i)
        for j in range(k):
            store(r.work, W + j * n + k, load(r.work, row + j))


_minverse = Algorithm("minverse", minverse_kernel, (Q,), (MINV,)).caller()


def minverse(model, data, q, *, threads=1):
    """Inverse of the joint-space inertia matrix, full and symmetric.

    By the factor M = L' D L, sparse along the tree: Featherstone (2008), tables 6.3 to 6.5;
    O(n2 d) for a tree of depth d. ``model.armature`` counts. Leaves ``data.M``.

    Parameters
    ----------
    model : Model
    data : Data
        Made for the model. Keeps the result, until the next call.
    q : (nq,) or (B, nq) array_like
        Configuration [rad, m].
    threads : int
        How many threads share a batch.

    Returns
    -------
    (nv, nv) ndarray
        Inverse of M. For one state it is ``data.Minv`` itself; for a batch a
        new array with the batch's axis in front.

    Raises
    ------
    ValueError
        Names the argument, what was expected and what came: shape, dtype, a number that is not
        finite, a quaternion that is not unit.
    numpy.linalg.LinAlgError
        Names the first joint (from the tips) that moves no inertia.
    """
    return _minverse(model, data, threads, 0, q)
