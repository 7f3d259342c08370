"""Joint-space inertia matrix by the composite-rigid-body algorithm.

Featherstone, Rigid Body Dynamics Algorithms (2008), table 6.2. Each body has its own origin,
all have the axes of the root: so inertias and forces only move on their way down, they do not
turn.
"""
from ..model.joints import column, joint_placement
from ..model.layout import (Q, armature, at, body_inertia, clear, field, idx_column, idx_v,
                            increase, ncolumns, njoints, nv, parent, ratio)
from ..spatial.algebra import (force_moved, inertia_add, inertia_moved, inertia_rotated, load3,
                               load9, load_inertia, load_motion, momentum, motion_rotated,
                               motion_scale, power, product, rotate, store3, store9,
                               store_inertia, store_spatial)
from ..spatial.compiler import kernel
from ..spatial.lanes import store
from .call import Algorithm

M = field("M", ("nv", "nv"), "Joint-space inertia matrix, full [kg m2, kg m, kg].")
ROTATION = field("_oR", ("rows", 9))         # from the joint's axes to the root's
ARM = field("_arm", ("rows", 3))             # from the parent's origin to the joint's, root axes
COLUMNS = field("_columns", ("ncolumns", 6))  # S in root axes, times a mimic's multiplier
COMPOSITE = field("_composite", ("rows", 10))


@kernel
def outward_root_axes(r):
    """Rotations, arms, motion subspaces and inertias of all bodies in the axes of the root."""
    R_ = at(r, ROTATION)
    clear(r.work, R_, 9)
    clear(r.work, at(r, COMPOSITE), 10)
    for k in range(3):
        store(r.work, R_ + 4 * k, 1.0)
    for i in range(1, njoints(r) + 1):
        R_p = load9(r.work, R_ + 9 * parent(r, i))
        X = joint_placement(r, i)
        R = product(R_p, X.rotation)
        store9(r.work, R_ + 9 * i, R)
        store3(r.work, at(r, ARM) + 3 * i, rotate(R_p, X.translation))
        store_inertia(r.work, at(r, COMPOSITE) + 10 * i, inertia_rotated(R, body_inertia(r, i)))
        for c in range(ncolumns(r, i)):
            store_spatial(r.work, at(r, COLUMNS) + 6 * (idx_column(r, i) + c),
                          motion_scale(ratio(r, i), motion_rotated(R, column(r, i, c))))


@kernel
def load_column(r, i, c):
    return load_motion(r.work, at(r, COLUMNS) + 6 * (idx_column(r, i) + c))


@kernel
def crba_kernel(r):
    outward_root_axes(r)
    p_, Y_, M_, n = at(r, ARM), at(r, COMPOSITE), at(r, M), nv(r)
    clear(r.work, M_, n * n)
    for i in range(njoints(r), 0, -1):
        Y = load_inertia(r.work, Y_ + 10 * i)
        y = Y_ + 10 * parent(r, i)
        store_inertia(r.work, y, inertia_add(
            load_inertia(r.work, y), inertia_moved(load3(r.work, p_ + 3 * i), Y)))
        for c in range(ncolumns(r, i)):
            k = idx_v(r, i) + c
            F = momentum(Y, load_column(r, i, c))
            for d in range(ncolumns(r, i)):
                increase(r.work, M_ + (idx_v(r, i) + d) * n + k, power(F, load_column(r, i, d)))
            j = i
            while parent(r, j) > 0:
                F = force_moved(load3(r.work, p_ + 3 * j), F)
                j = parent(r, j)
                for d in range(ncolumns(r, j)):
                    x = power(F, load_column(r, j, d))
                    increase(r.work, M_ + (idx_v(r, j) + d) * n + k, x)
                    increase(r.work, M_ + k * n + idx_v(r, j) + d, x)
    for k in range(n):
        increase(r.work, M_ + k * n + k, armature(r, k))


_crba = Algorithm("crba", crba_kernel, (Q,), (M,)).caller()


def crba(model, data, q, *, threads=1):
    """Joint-space inertia matrix M, full and symmetric.

    Composite-rigid-body algorithm, Featherstone (2008), table 6.2; O(n d) for a tree of depth d.
    ``model.armature`` is on the diagonal.

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
        Inertia matrix [kg m2, kg m, kg]. For one state it is ``data.M`` itself; for a batch a
        new array with the batch's axis in front.

    Raises
    ------
    ValueError
        Names the argument, what was expected and what came: shape, dtype, a number that is not
        finite, a quaternion that is not unit.
    """
    return _crba(model, data, threads, q)
