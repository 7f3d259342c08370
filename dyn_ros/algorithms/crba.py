"""Joint-space inertia matrix by the composite-rigid-body algorithm.

Featherstone, Rigid Body Dynamics Algorithms (2008), table 6.2, in body frames.
"""
from ..model.joints import add_subspace_transpose_times, column, joint_placement
from ..model.layout import (INERTIA, LIMI, Q, armature, at, clear, constants, field, idx_v,
                            increase, ncolumns, njoints, nv, parent, ratio)
from ..spatial.algebra import (force_scale, inertia_add, inertia_to_parent,
                               load_inertia, load_se3, momentum, store_inertia, store_se3,
                               to_parent)
from ..spatial.compiler import kernel
from .call import Algorithm

M = field("M", ("nv", "nv"), "Joint-space inertia matrix, full [kg m2, kg m, kg].")
COMPOSITE = field("_composite", ("rows", 10))


@kernel
def crba_kernel(r):
    X_, Y_, M_, n = at(r, LIMI), at(r, COMPOSITE), at(r, M), nv(r)
    clear(r.work, M_, n * n)
    for i in range(1, njoints(r) + 1):
        X = joint_placement(r, i)
        store_se3(r.work, X_ + 12 * i, X)
        Y = load_inertia(r.floats, constants(i) + INERTIA)
        store_inertia(r.work, Y_ + 10 * i, Y)
    for i in range(njoints(r), 0, -1):
        Y = load_inertia(r.work, Y_ + 10 * i)
        if parent(r, i) > 0:
            y = Y_ + 10 * parent(r, i)
            X = load_se3(r.work, X_ + 12 * i)
            store_inertia(r.work, y, inertia_add(load_inertia(r.work, y),
                                                 inertia_to_parent(X, Y)))
        for c in range(ncolumns(r, i)):
            k = idx_v(r, i) + c
            F = force_scale(ratio(r, i), momentum(Y, column(r, i, c)))
            add_subspace_transpose_times(r, i, F, M_ + k, n)
            j = i
            while parent(r, j) > 0:
                F = to_parent(load_se3(r.work, X_ + 12 * j), F)
                j = parent(r, j)
                add_subspace_transpose_times(r, j, F, M_ + k, n)
                add_subspace_transpose_times(r, j, F, M_ + k * n, 1)
    for k in range(n):
        increase(r.work, M_ + k * n + k, armature(r, k))


_crba = Algorithm("crba", crba_kernel, (Q,), (M,)).caller()


def crba(model, data, q, *, threads=1):
    return _crba(model, data, threads, q)
