# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Joint-space inertia matrix by the composite-rigid-body algorithm.

Featherstone, Rigid Body Dynamics Algorithms (2008), table 6.2, expressed in the root frame.
"""
from ...call.algorithm import Algorithm
from ...call.data import Data
from ...kernel.algebra import (
    Force,
    cross,
    force_moved,
    inertia_add,
    inertia_moved,
    load3,
    load_inertia,
    load_motion,
    momentum,
    scale,
    store_inertia,
    symmetric_times,
)
from ...kernel.compiler import kernel
from ...kernel.fields import Q, field
from ...kernel.layout import (
    PRISMATIC,
    REVOLUTE,
    accumulate,
    armature,
    clear,
    clear_matrix,
    idx_column,
    idx_v,
    increase,
    kind,
    ncolumns,
    njoints,
    nv,
    offset,
    parent,
)
from ...kernel.types import Array, ArrayLike
from ...model.model import Model
from ..kinematics.root_axes import COLUMNS, dot_column, from_parent, place_body, set_root

M = field("M", ("nv", "nv"), "Joint-space inertia matrix, full [kg m2, kg m, kg].", sparse=True)
COMPOSITE = field("_composite", ("rows", 10))


@kernel
def composite_column(r, i, c, Y):
    """Y S_c, the momentum of the subtree of joint i if only its column c moves."""
    s = offset(r, COLUMNS) + 6 * (idx_column(r, i) + c)
    if kind(r, i) == REVOLUTE:
        u = load3(r.work, s)
        return Force(cross(u, Y.moment), symmetric_times(Y.rotational, u))
    if kind(r, i) == PRISMATIC:
        u = load3(r.work, s)
        return Force(scale(Y.mass, u), cross(Y.moment, u))
    return momentum(Y, load_motion(r.work, s))


@kernel
def inertia_matrix(r):
    """Inward pass, after the inertias of all bodies: store M and the inertias of the subtrees."""
    Y_, M_, n = offset(r, COMPOSITE), offset(r, M), nv(r)
    clear(r.work, Y_, 10)
    clear_matrix(r, M_)
    for i in range(njoints(r), 0, -1):
        Y = load_inertia(r.work, Y_ + 10 * i)
        y = Y_ + 10 * parent(r, i)
        store_inertia(r.work, y, inertia_add(load_inertia(r.work, y),
                                             inertia_moved(from_parent(r, i), Y)))
        for c in range(ncolumns(r, i)):
            k = idx_v(r, i) + c
            F = composite_column(r, i, c, Y)
            for d in range(ncolumns(r, i)):
                accumulate(r, M_ + (idx_v(r, i) + d) * n + k, dot_column(r, i, d, F))
            j = i
            while parent(r, j) > 0:
                F = force_moved(from_parent(r, j), F)
                j = parent(r, j)
                for d in range(ncolumns(r, j)):
                    x = dot_column(r, j, d, F)
                    accumulate(r, M_ + (idx_v(r, j) + d) * n + k, x)
                    accumulate(r, M_ + k * n + idx_v(r, j) + d, x)
    for k in range(n):
        increase(r.work, M_ + k * n + k, armature(r, k))


@kernel
def crba_kernel(r):
    set_root(r)
    for i in range(1, njoints(r) + 1):
        store_inertia(r.work, offset(r, COMPOSITE) + 10 * i, place_body(r, i))
    inertia_matrix(r)


_crba = Algorithm("crba", crba_kernel, (Q,), (M,)).caller()


def crba(model: Model, data: Data, q: ArrayLike, *, threads: int = 1) -> Array:
    """Joint-space inertia matrix M, full and symmetric.

    Composite-rigid-body algorithm, Featherstone (2008), table 6.2; O(n d) for a tree of depth d.
    The diagonal includes ``model.armature``.

    Parameters
    ----------
    model : Model
    data : Data
        Created for this model. Holds the result until the next call.
    q : (nq,) or (B, nq) array_like
        Configuration [rad, m].
    threads : int
        Number of threads for a batch.

    Returns
    -------
    (nv, nv) ndarray
        Inertia matrix [kg m2, kg m, kg]. For a single state, ``data.M``; for a batch, a new array
        with a leading batch axis.

    Raises
    ------
    ValueError
        Wrong shape or dtype, a number that is not finite, or a quaternion that is not unit; names
        the argument, the expected and the actual value.

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
