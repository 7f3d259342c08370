# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Joint-space inertia matrix by the composite-rigid-body algorithm, in the root frame."""
from __future__ import annotations

from ...call.algorithm import Algorithm
from ...call.data import Data
from ...kernel import algebra as al
from ...kernel import layout as ly
from ...kernel.compiler import kernel
from ...kernel.fields import Q, field
from ...kernel.types import Array, ArrayLike
from ...model.model import Model
from ..kinematics import root_axes as ra

M = field("M", ("nv", "nv"), "Joint-space inertia matrix, full [kg m2, kg m, kg].", sparse=True)
COMPOSITE = field("_composite", ("rows", 10))


@kernel
def composite_column(r, i, c, Y):
    """Y S_c, the momentum of the subtree of joint i if only its column c moves."""
    s = ly.offset(r, ra.COLUMNS) + 6 * (ly.idx_column(r, i) + c)
    if ly.kind(r, i) == ly.REVOLUTE:
        u = al.load3(r.work, s)
        return al.Force(al.cross(u, Y.moment), al.symmetric_times(Y.rotational, u))
    if ly.kind(r, i) == ly.PRISMATIC:
        u = al.load3(r.work, s)
        return al.Force(al.scale(Y.mass, u), al.cross(Y.moment, u))
    return al.momentum(Y, al.load_motion(r.work, s))


@kernel
def inertia_matrix(r):
    """Inward pass, after the inertias of all bodies: store M and the inertias of the subtrees."""
    Y_, M_, n = ly.offset(r, COMPOSITE), ly.offset(r, M), ly.nv(r)
    ly.clear(r.work, Y_, 10)
    ly.clear_matrix(r, M_)
    for i in range(ly.njoints(r), 0, -1):
        Y = al.load_inertia(r.work, Y_ + 10 * i)
        y = Y_ + 10 * ly.parent(r, i)
        al.store_inertia(r.work, y, al.inertia_add(al.load_inertia(r.work, y),
                                                   al.inertia_moved(ra.from_parent(r, i), Y)))
        for c in range(ly.ncolumns(r, i)):
            k = ly.idx_v(r, i) + c
            F = composite_column(r, i, c, Y)
            for d in range(ly.ncolumns(r, i)):
                ly.accumulate(r, M_ + (ly.idx_v(r, i) + d) * n + k, ra.dot_column(r, i, d, F))
            j = i
            while ly.parent(r, j) > 0:
                F = al.force_moved(ra.from_parent(r, j), F)
                j = ly.parent(r, j)
                for d in range(ly.ncolumns(r, j)):
                    x = ra.dot_column(r, j, d, F)
                    ly.accumulate(r, M_ + (ly.idx_v(r, j) + d) * n + k, x)
                    ly.accumulate(r, M_ + k * n + ly.idx_v(r, j) + d, x)
    for k in range(n):
        ly.increase(r.work, M_ + k * n + k, ly.armature(r, k))


@kernel
def place_robot(r):
    """Place all bodies, with their inertias, in the root frame."""
    ra.set_root(r)
    for i in range(1, ly.njoints(r) + 1):
        al.store_inertia(r.work, ly.offset(r, COMPOSITE) + 10 * i, ra.place_body(r, i))


@kernel
def crba_kernel(r):
    place_robot(r)
    inertia_matrix(r)


_crba = Algorithm("crba", crba_kernel, (Q,), (M,)).caller()


def crba(model: Model, data: Data, q: ArrayLike, *, threads: int = 1) -> Array:
    """Joint-space inertia matrix M, full and symmetric.

    Composite-rigid-body algorithm, Featherstone (2008), table 6.2; O(n d) for a tree of depth d.
    The diagonal includes ``model.armature``.

    Examples
    --------
    >>> M = dyn_ros.crba(model, data, q).copy()
    >>> M.shape, np.allclose(M, M.T)
    ((7, 7), True)
    >>> np.allclose(M @ a + dyn_ros.nonlinear_effects(model, data, q, v),
    ...             dyn_ros.rnea(model, data, q, v, a))
    True
    """
    return _crba(model, data, threads, q)
