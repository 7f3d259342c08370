# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Articulated-body inertias of the subtrees of all joints.

Featherstone (2008), table 7.1, expressed in world axes, each about its own joint's origin. If
there are mimic joints, the subtree of each joint is treated on its own: with its composite
inertia Y, the inertia matrix H of its descendants, and the forces F on its body that hold it while
these joints accelerate, it is Y - F H^-1 F' (section 7.2).
"""

from __future__ import annotations

from ...call.algorithm import algorithm
from ...call.data import Data
from ...kernel.types import Array, ArrayLike, OutArrays
from ...kernel.vocabulary import *
from ...model.model import Model
from ..kinematics import world_axes as wa
from .aba import add_articulated_to_parent, eliminate_column, finish_articulated_inertia
from .cholesky import MIN_RELIABLE_PIVOT
from .crba import (
    INERTIA,
    composite_column,
    composite_inertia,
    joint_subtree_end,
    place_bodies_relative,
    set_articulated_matrix,
    sum_over_subtrees,
)

YABA = field(
    "Yaba",
    ("rows", 6, 6),
    "Articulated-body inertia of each joint's subtree, expressed "
    "in the joint frame, at its origin [kg, kg m, kg m2].",
)
OYABA = field(
    "oYaba",
    ("rows", 6, 6),
    "Articulated-body inertia of each joint's subtree, "
    "expressed in the world, at its origin [kg, kg m, kg m2].",
)
DESCENDANT_INERTIA = field("_descendant_inertia", ("nv", "nv"))  # H of a joint's descendants
DESCENDANT_FORCES = field("_descendant_forces", ("nv", 6))  # F, a row for each velocity
DESCENDANT_BOUND = field("_descendant_bound", ("nv",))  # bound for the diagonal of H
MAX_ROUNDING_ERROR = 2e-15
"""A smaller pivot, relative to the inertia of the subtree, is a rounding error."""


@kernel
def store_articulated_inertia(r, i, Y):
    """Store an inertia about the origin of joint i, expressed in its frame and in the world.

        Yaba = R' Y R,  oYaba = X* Y X^-1   X: shift from joint i to the world's origin

    Reads ROTATION, ORIGIN, POSITION; writes YABA, OYABA.
    """
    R = rotation(r, wa.ROTATION, i)
    set_articulated_matrix(r, YABA, i, articulated_rotated(transposed(R), Y))
    set_articulated_matrix(r, OYABA, i, articulated_moved(wa.from_world_origin(r, i), Y))


@kernel
def articulated_inertias_kernel(r):
    """Compute the articulated-body inertia of each joint's subtree.

        YA = Y + sum over children of X* (YA - U D^-1 U') X^-1        Featherstone (2008), table 7.1

    Reads Q; writes YABA, OYABA; calls place_bodies_relative, finish_articulated_inertia,
    store_articulated_inertia, add_articulated_to_parent, eliminate_column.
    """
    place_bodies_relative(r)
    for i in range(njoints(r), 0, -1):
        Y = finish_articulated_inertia(r, i)
        store_articulated_inertia(r, i, Y)
        if parent(r, i) > 0:
            for c in range(ncolumns(r, i) - 1, -1, -1):
                Y = eliminate_column(r, i, c, Y)
            add_articulated_to_parent(r, i, Y)


# --- with mimic joints


@kernel
def is_last_with_velocity(r, j, end):
    """Return True if no joint between j and end has the velocity of joint j."""
    joint = j + 1
    while joint < end and idx_v(r, joint) != idx_v(r, j):
        joint += 1
    return joint == end


@kernel
def add_descendant_column(r, i, j, c):
    """Add column c of joint j, a descendant of joint i, to H and F.

        F_k = Y S_k,  H_lk = S_l' F_k       Featherstone (2008), table 6.2

    Reads FROM_PARENT, COLUMNS, INERTIA; writes DESCENDANT_INERTIA, DESCENDANT_FORCES,
    DESCENDANT_BOUND.
    """
    H = matrix(r, DESCENDANT_INERTIA)
    k, Y, S = idx_v(r, j) + c, composite_inertia(r, j), wa.subspace_column(r, j, c)
    F = composite_column(r, j, c, Y)
    add_to_entry(
        r,
        DESCENDANT_BOUND,
        k,
        dot(S.linear, S.linear) * Y.mass
        + dot(S.angular, S.angular) * symmetric_norm_bound(Y.rotational),
    )
    for d in range(ncolumns(r, j)):
        add_to_element(r, H, idx_v(r, j) + d, k, wa.dot_column(r, j, d, F))
    F = force_moved(wa.from_parent(r, j), F)
    p = parent(r, j)
    while p != i:
        for d in range(ncolumns(r, p)):
            x = wa.dot_column(r, p, d, F)
            add_to_element(r, H, idx_v(r, p) + d, k, x)
            add_to_element(r, H, k, idx_v(r, p) + d, x)
        F = force_moved(wa.from_parent(r, p), F)
        p = parent(r, p)
    add_to_force(r, DESCENDANT_FORCES, k, F)


@kernel
def compute_descendant_inertia(r, i, end):
    """Compute H and F of the descendants of joint i, the joints up to joint ``end``.

    Reads FROM_PARENT, COLUMNS, INERTIA; writes DESCENDANT_INERTIA, DESCENDANT_FORCES,
    DESCENDANT_BOUND.
    """
    n = nv(r)
    clear_entries(r, DESCENDANT_INERTIA, n * n)
    clear_entries(r, DESCENDANT_FORCES, 6 * n)
    clear_entries(r, DESCENDANT_BOUND, n)
    for j in range(i + 1, end):
        for c in range(ncolumns(r, j)):
            add_descendant_column(r, i, j, c)
            k = idx_v(r, j) + c
            if is_last_with_velocity(r, j, end):
                add_to_element(r, matrix(r, DESCENDANT_INERTIA), k, k, armature(r, k))


@kernel
def eliminate_descendant(r, k, Y):
    """Eliminate velocity k of descendants, if it moves inertia, from H, F and Y; return Y.

        H_ab = H_ab - H_ak H_kb / H_kk
        F_a = F_a - H_ak F_k / H_kk
        Y = Y - F_k F_k' / H_kk

    Reads DESCENDANT_BOUND; writes DESCENDANT_INERTIA, DESCENDANT_FORCES.
    """
    n, H = nv(r), matrix(r, DESCENDANT_INERTIA)
    d, bound = element(r, H, k, k), entry(r, DESCENDANT_BOUND, k)
    if not all_above(d, MIN_RELIABLE_PIVOT * bound):
        report_small_pivot(r, k)
    s = select_above(d, MAX_ROUNDING_ERROR * bound, 1.0 / d, 0.0)
    F = force(r, DESCENDANT_FORCES, k)
    for a in range(n):
        x = s * element(r, H, a, k)
        if a != k:
            for b in range(n):
                add_to_element(r, H, a, b, -x * element(r, H, k, b))
            set_force(
                r,
                DESCENDANT_FORCES,
                a,
                force_sub(force(r, DESCENDANT_FORCES, a), force_scale(x, F)),
            )
    return articulated_less_outer(Y, F, s)


@kernel
def mimic_articulated_inertias_kernel(r):
    """Compute articulated-body inertias if there are mimic joints, subtree by subtree.

        YA = Y - F H^-1 F'                  H, F: of the joint's descendants

    Reads Q; writes YABA, OYABA; calls place_bodies_relative, compute_descendant_inertia,
    store_articulated_inertia, eliminate_descendant.
    """
    place_bodies_relative(r)
    sum_over_subtrees(r, INERTIA)
    for i in range(1, njoints(r) + 1):
        end = joint_subtree_end(r, i)
        compute_descendant_inertia(r, i, end)
        Y = articulated(composite_inertia(r, i))
        for j in range(end - 1, i, -1):
            if is_last_with_velocity(r, j, end):
                for c in range(ncolumns(r, j)):
                    Y = eliminate_descendant(r, idx_v(r, j) + c, Y)
        store_articulated_inertia(r, i, Y)


@algorithm(
    articulated_inertias_kernel,
    inputs=(Q,),
    results=(YABA, OYABA),
    mimic_kernel=mimic_articulated_inertias_kernel,
)
def articulated_inertias(
    model: Model, data: Data, q: ArrayLike, *, threads: int = 1, out: OutArrays | None = None
) -> tuple[Array, Array]:
    """Compute the articulated-body inertia of each joint's subtree with free joints.

    The inertia of the body of the joint when it is moved as a handle, if the joint and
    everything between it and the root are removed: the force is this inertia times the
    acceleration of the body, plus a force that does not depend on it. I^A of Featherstone (2008),
    table 7.1; O(n). Includes ``model.armature`` of the descendants of the joint, but not of the
    joint itself. The matrices map accelerations to forces, with linear parts first.

    Pinocchio's ``data.Yaba`` (``aba`` with Convention.LOCAL) and ``data.oYaba`` (Convention.WORLD,
    ``computeMinverse``) equal these for joints of the root link. For other joints, the joint itself
    is eliminated in them as well: with its motion subspace S and D = S' Yaba S + armature, they
    contain Yaba - Yaba S D^-1 S' Yaba.

    A mimic joint in the subtree moves with the joints in the subtree that have the same coordinate.
    Joints outside the subtree, and the joint itself, do not hold it, even if they have this
    coordinate; its armature counts completely. If there are mimic joints, H of the descendants
    of each joint is factored; O(n^4) in the worst case.

    Raises
    ------
    numpy.linalg.LinAlgError
        The inertia matrix is singular because of a descendant of a joint; names the first joint
        from the tips that moves no inertia.

    Examples
    --------
    Behind the last joint nothing moves freely, so the inertia is its body's.

    >>> Yaba, oYaba = dyn_ros.articulated_inertias(model, data, q)
    >>> np.allclose(Yaba[-1], np.asarray(model.inertias[-1]))
    True
    """
