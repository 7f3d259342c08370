# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Joint-space inertia matrix by the composite-rigid-body algorithm, and composite inertias.

The composite inertias of the subtrees of all joints, with the joints locked, are expressed in world
axes, each about its own joint's origin (world_axes.py). The rate of a rigid body's inertia has the
form of an inertia without mass, whose first moment is the linear momentum; rates are therefore
transformed and summed like inertias. X is the shift from a joint's origin to its parent's: X m and
X* f are motions and forces about the parent's origin, and X* Y X^-1 is an inertia about it.
"""

from __future__ import annotations

from ...call.algorithm import algorithm
from ...call.data import Data
from ...kernel.types import Array, ArrayLike, OutArrays
from ...kernel.vocabulary import *
from ...model.model import Model
from ..kinematics import world_axes as wa

M = field("M", ("nv", "nv"), "Joint-space inertia matrix, full [kg m2, kg m, kg].", sparse=True)
# The inertia of each body and its rate; after sum_over_subtrees or store_inertia_matrix, the
# composite inertia of each joint's subtree and its rate.
INERTIA = field("_inertia", ("rows", 10))
INERTIA_RATE = field("_inertia_rate", ("rows", 10))
YCRB = field(
    "Ycrb",
    ("rows", 6, 6),
    "Inertia of each joint's subtree, with joints locked, expressed in the joint frame, "
    "at its origin [kg, kg m, kg m2].",
)
OYCRB = field(
    "oYcrb",
    ("rows", 6, 6),
    "Inertia of each joint's subtree, with joints locked, "
    "expressed in the world, at its origin [kg, kg m, kg m2].",
)
DYCRB = field(
    "dYcrb",
    ("rows", 6, 6),
    "doYcrb, expressed in the joint frame, at its origin; not "
    "the derivative of the entries of Ycrb, which do not depend "
    "on the joint's own motion [kg/s, kg m/s, kg m2/s].",
)
DOYCRB = field(
    "doYcrb",
    ("rows", 6, 6),
    "Rate of oYcrb, the sum of ov x* Y - Y ov x over the bodies [kg/s, kg m/s, kg m2/s].",
)


@kernel
def composite_column(r, i, c, Y):
    """Return Y S_c, the momentum of the subtree of joint i if only its column c moves.

    Reads COLUMNS.
    """
    if kind(r, i) == REVOLUTE:
        u = wa.world_axis(r, i)
        return Force(cross(u, Y.first_moment), symmetric_times(Y.rotational, u))
    if kind(r, i) == PRISMATIC:
        u = wa.world_axis(r, i)
        return Force(scale(Y.mass, u), cross(Y.first_moment, u))
    return inertia_times(Y, motion(r, wa.COLUMNS, idx_column(r, i) + c))


@kernel
def add_moved_inertia_to_parent(r, field, i):
    """Add the inertia of the subtree of joint i, moved, to its parent's; return it unmoved.

        Y_p = Y_p + X* Y X^-1

    Reads FROM_PARENT; writes field.
    """
    Y = inertia(r, field, i)
    add_to_inertia(r, field, parent(r, i), inertia_moved(wa.from_parent(r, i), Y))
    return Y


@kernel
def store_inertia_matrix(r):
    """Compute M and the inertias of the subtrees from all bodies' inertias, in an inward pass.

        Y_p = Y_p + X* Y X^-1
        F = Y S_i,  M_ii = S_i' F
        F = X* F,  M_ji = M_ij = S_j' F     on the way from i to the root, for its ancestors j

    Featherstone (2008), table 6.2; armature is added to the diagonal.

    Reads FROM_PARENT, COLUMNS; writes M, INERTIA.
    """
    H = matrix(r, M)
    clear_inertia(r, INERTIA, 0)
    clear_sparse(r, M)
    for i in range(njoints(r), 0, -1):
        Y = add_moved_inertia_to_parent(r, INERTIA, i)
        for c in range(ncolumns(r, i)):
            k = idx_v(r, i) + c
            F = composite_column(r, i, c, Y)
            for d in range(ncolumns(r, i)):
                accumulate_element(r, H, idx_v(r, i) + d, k, wa.dot_column(r, i, d, F))
            j = i
            while parent(r, j) > 0:
                F = force_moved(wa.from_parent(r, j), F)
                j = parent(r, j)
                for d in range(ncolumns(r, j)):
                    x = wa.dot_column(r, j, d, F)
                    accumulate_element(r, H, idx_v(r, j) + d, k, x)
                    accumulate_element(r, H, k, idx_v(r, j) + d, x)
    for k in range(nv(r)):
        add_to_element(r, H, k, k, armature(r, k))


@kernel
def place_bodies(r):
    """Compute the placements of all bodies and their inertias in world axes, R Y R'.

    Reads Q; writes ROTATION, FROM_PARENT, COLUMNS, INERTIA.
    """
    wa.place_universe(r)
    for i in range(1, njoints(r) + 1):
        set_inertia(r, INERTIA, i, wa.place_body(r, i))


@kernel
def crba_kernel(r):
    """Compute the inertia matrix by the composite-rigid-body algorithm.

        M_ij = S_i' X* Y_j S_j              X: from joint j to its ancestor i, or 1 if i is j

    Featherstone (2008), table 6.2; Y_j is the inertia of the subtree of joint j.

    Reads Q; writes ROTATION, FROM_PARENT, COLUMNS, M, INERTIA.
    """
    place_bodies(r)
    store_inertia_matrix(r)


# --- composite inertias


@kernel
def composite_inertia(r, i):
    """Return the inertia of the subtree of joint i with locked joints, once bodies are summed.

    Reads INERTIA.
    """
    return inertia(r, INERTIA, i)


@kernel
def composite_rate(r, i):
    """Return the rate of the inertia of the subtree of joint i, after ``sum_over_subtrees``.

    Reads INERTIA_RATE.
    """
    return inertia(r, INERTIA_RATE, i)


@kernel
def inertia_rate(Y, v):
    """Return the rate of the inertia Y of a body with velocity v.

        dY = v x* Y - Y v x

    Y is a sum of m (x.x - x x') over particles, whose rate contains x dx/dt twice.
    """
    S, h, u = Y.rotational, Y.first_moment, v.linear
    W = product(skew(v.angular), (S.xx, S.xy, S.xz, S.xy, S.yy, S.yz, S.xz, S.yz, S.zz))
    d = 2.0 * dot(u, h)
    return Inertia(
        0.0 * d,
        add(scale(Y.mass, u), cross(v.angular, h)),
        Symmetric(
            2.0 * (W[0] - u[0] * h[0]) + d,
            W[1] + W[3] - u[0] * h[1] - u[1] * h[0],
            2.0 * (W[4] - u[1] * h[1]) + d,
            W[2] + W[6] - u[0] * h[2] - u[2] * h[0],
            W[5] + W[7] - u[1] * h[2] - u[2] * h[1],
            2.0 * (W[8] - u[2] * h[2]) + d,
        ),
    )


@kernel
def place_bodies_relative(r):
    """Compute placements and inertias of all bodies, relative to the first joint's origin.

    Reads Q; writes ROTATION, FROM_PARENT, COLUMNS, BODY_VELOCITY, BODY_ACCELERATION, ORIGIN,
    POSITION, INERTIA.
    """
    wa.place_universe_relative(r)
    for i in range(1, njoints(r) + 1):
        set_inertia(r, INERTIA, i, wa.place_body_relative(r, i))


@kernel
def compute_inertia_rates(r):
    """Compute velocities and rates of the bodies' inertias, after ``place_bodies_relative``.

        v = X^-1 v_p + S qd
        dY = v x* Y - Y v x

    Reads V, FROM_PARENT, COLUMNS, INERTIA; writes BODY_VELOCITY, INERTIA_RATE.
    """
    for i in range(1, njoints(r) + 1):
        Y = inertia(r, INERTIA, i)
        set_inertia(r, INERTIA_RATE, i, inertia_rate(Y, wa.body_velocity(r, i)))


@kernel
def sum_over_subtrees(r, field):
    """Sum the inertias of bodies in a field over subtrees; row 0 is the whole robot's.

        Y_p = Y_p + X* Y X^-1

    Reads FROM_PARENT; writes field.
    """
    clear_inertia(r, field, 0)
    for i in range(njoints(r), 0, -1):
        add_moved_inertia_to_parent(r, field, i)


@kernel
def set_block(r, A, i, j, S):
    """Set the 3 x 3 block of A from row i and column j on to a symmetric matrix. Writes A."""
    rows = ((S.xx, S.xy, S.xz), (S.xy, S.yy, S.yz), (S.xz, S.yz, S.zz))
    for n in range(3):
        for k in range(3):
            set_element(r, A, i + n, j + k, rows[n][k])


@kernel
def set_articulated_matrix(r, field, i, Y):
    """Set row i of a field to the 6 x 6 matrix of an articulated-body inertia. Writes field."""
    A = matrix_row(r, field, i, 6, 6)
    set_block(r, A, 0, 0, Y.linear)
    set_block(r, A, 3, 3, Y.angular)
    for j in range(3):
        for k in range(3):
            set_element(r, A, j, 3 + k, Y.cross[3 * j + k])
            set_element(r, A, 3 + k, j, Y.cross[3 * j + k])


@kernel
def set_spatial_inertia(r, field, i, Y):
    """Set row i of a field to the 6 x 6 matrix of a rigid-body inertia. Writes field."""
    set_articulated_matrix(r, field, i, articulated(Y))


@kernel
def store_composite(r, i, Y, local_field, world_field):
    """Store an inertia about the origin of joint i as matrices, in its frame and in the world.

        R' Y R,  X* Y X^-1                  X: shift from joint i to the world's origin

    Reads ROTATION, ORIGIN, POSITION; writes local_field, world_field.
    """
    R = rotation(r, wa.ROTATION, i)
    set_spatial_inertia(r, local_field, i, inertia_rotated(transposed(R), Y))
    set_spatial_inertia(r, world_field, i, inertia_moved(wa.from_world_origin(r, i), Y))


@kernel
def joint_subtree_end(r, i):
    """Return the end of the range of the joints in the subtree of joint i."""
    end = i + 1
    while end <= njoints(r) and parent(r, end) >= i:
        end += 1
    return end


@kernel
def composite_inertias_kernel(r):
    """Compute the inertia of each joint's subtree with its joints locked, and its rate with v.

        Y = sum of X_i* Y_i X_i^-1
        dY = sum of X_i* (v_i x* Y_i - Y_i v_i x) X_i^-1        X_i: from body i to the joint

    Reads Q; writes V, YCRB, OYCRB, DYCRB, DOYCRB; calls place_bodies_relative,
    compute_inertia_rates, store_composite.
    """
    zero_unless_input(r, V)
    place_bodies_relative(r)
    compute_inertia_rates(r)
    sum_over_subtrees(r, INERTIA)
    sum_over_subtrees(r, INERTIA_RATE)
    for i in range(1, njoints(r) + 1):
        store_composite(r, i, composite_inertia(r, i), YCRB, OYCRB)
        store_composite(r, i, composite_rate(r, i), DYCRB, DOYCRB)


@algorithm(crba_kernel, inputs=(Q,), results=(M,))
def crba(
    model: Model, data: Data, q: ArrayLike, *, threads: int = 1, out: OutArrays | None = None
) -> Array:
    """Compute the joint-space inertia matrix M, full and symmetric.

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


@algorithm(
    composite_inertias_kernel, inputs=(Q, V), results=(YCRB, OYCRB, DYCRB, DOYCRB), optional=(V,)
)
def composite_inertias(
    model: Model,
    data: Data,
    q: ArrayLike,
    v: ArrayLike | None = None,
    *,
    threads: int = 1,
    out: OutArrays | None = None,
) -> tuple[Array, Array, Array, Array]:
    """Compute the inertia of each joint's subtree with its joints locked, and its rate.

    The rate is the derivative of this inertia while all joints move with v.
    Featherstone (2008), section 6.2; O(n). The matrices map motions to momenta, with linear parts
    first.

    Examples
    --------
    The subtree of the first joint is the whole arm:

    >>> Ycrb, oYcrb, dYcrb, doYcrb = dyn_ros.composite_inertias(model, data, q, v)
    >>> oYcrb.shape, bool(np.isclose(oYcrb[0, 0, 0], model.total_mass))
    ((7, 6, 6), True)
    """
