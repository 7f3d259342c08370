# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Composite inertias of the subtrees of all joints, with the joints locked, and their rates.

They are expressed in the root frame, each about its own joint's origin (root_axes.py). The rate of
a rigid body's inertia has the form of an inertia without mass, whose first moment is the linear
momentum; rates are therefore transformed and summed like inertias.
"""
from __future__ import annotations

from ...call.algorithm import Algorithm
from ...call.data import Data
from ...kernel import algebra as al
from ...kernel import layout as ly
from ...kernel.compiler import kernel
from ...kernel.fields import Q, V, field
from ...kernel.lanes import store
from ...kernel.types import Array, ArrayLike
from ...model.model import Model
from ..kinematics import root_axes as ra
from .crba import COMPOSITE

YCRB = field("Ycrb", ("rows", 6, 6),
             "Inertia of each joint's subtree, with joints locked, expressed in the joint frame, "
             "at its origin [kg, kg m, kg m2].")
OYCRB = field("oYcrb", ("rows", 6, 6), "Inertia of each joint's subtree, with joints locked, "
                                       "expressed in the world, at its origin [kg, kg m, kg m2].")
DYCRB = field("dYcrb", ("rows", 6, 6), "doYcrb, expressed in the joint frame, at its origin; not "
                                       "the derivative of the entries of Ycrb, which do not depend "
                                       "on the joint's own motion [kg/s, kg m/s, kg m2/s].")
DOYCRB = field("doYcrb", ("rows", 6, 6), "Rate of oYcrb, the sum of ov x* Y - Y ov x over the "
                                         "bodies [kg/s, kg m/s, kg m2/s].")
COMPOSITE_RATE = field("_composite_rate", ("rows", 10))


@kernel
def composite(r, i):
    return al.load_inertia(r.work, ly.offset(r, COMPOSITE) + 10 * i)


@kernel
def composite_rate(r, i):
    return al.load_inertia(r.work, ly.offset(r, COMPOSITE_RATE) + 10 * i)


@kernel
def inertia_rate(Y, v):
    """v x* Y - Y v x, the rate of the inertia Y of a body with velocity v.

    Y is a sum of m (x.x - x x') over particles, whose rate contains x dx/dt twice.
    """
    S, h, u = Y.rotational, Y.moment, v.linear
    W = al.product(al.skew(v.angular), (S.xx, S.xy, S.xz, S.xy, S.yy, S.yz, S.xz, S.yz, S.zz))
    d = 2.0 * al.dot(u, h)
    return al.Inertia(0.0 * d, al.add(al.scale(Y.mass, u), al.cross(v.angular, h)),
                      al.Symmetric(2.0 * (W[0] - u[0] * h[0]) + d, W[1] + W[3] - u[0] * h[1]
                                   - u[1] * h[0], 2.0 * (W[4] - u[1] * h[1]) + d,
                                   W[2] + W[6] - u[0] * h[2] - u[2] * h[0], W[5] + W[7]
                                   - u[1] * h[2] - u[2] * h[1], 2.0 * (W[8] - u[2] * h[2]) + d))


@kernel
def place_bodies(r):
    """Place all joints; store each body's inertia."""
    ra.set_root_relative(r)
    for i in range(1, ly.njoints(r) + 1):
        al.store_inertia(r.work, ly.offset(r, COMPOSITE) + 10 * i, ra.place_body_relative(r, i))


@kernel
def move_bodies(r):
    """After ``place_bodies``: store velocities and the rates of the bodies' inertias."""
    for i in range(1, ly.njoints(r) + 1):
        al.store_inertia(r.work, ly.offset(r, COMPOSITE_RATE) + 10 * i,
                         inertia_rate(composite(r, i), ra.body_velocity(r, i)))


@kernel
def sum_up(r, field):
    """Inward pass: sum the inertias of bodies to those of subtrees; row 0 is the whole robot."""
    ly.clear(r.work, ly.offset(r, field), 10)
    for i in range(ly.njoints(r), 0, -1):
        Y = al.load_inertia(r.work, ly.offset(r, field) + 10 * i)
        p = ly.offset(r, field) + 10 * ly.parent(r, i)
        al.store_inertia(r.work, p, al.inertia_add(al.load_inertia(r.work, p),
                                                   al.inertia_moved(ra.from_parent(r, i), Y)))


@kernel
def store_symmetric_matrix(a, i, S, step):
    """Store a symmetric 3 x 3 matrix in rows of the given length."""
    rows = ((S.xx, S.xy, S.xz), (S.xy, S.yy, S.yz), (S.xz, S.yz, S.zz))
    for j in range(3):
        for k in range(3):
            store(a, i + step * j + k, rows[j][k])


@kernel
def store_articulated_matrix(a, i, Y):
    """Store the 6 x 6 matrix of an articulated-body inertia."""
    store_symmetric_matrix(a, i, Y.linear, 6)
    store_symmetric_matrix(a, i + 21, Y.angular, 6)
    for j in range(3):
        for k in range(3):
            store(a, i + 6 * j + 3 + k, Y.cross[3 * j + k])
            store(a, i + 18 + 6 * k + j, Y.cross[3 * j + k])


@kernel
def store_inertia_matrix(a, i, Y):
    store_articulated_matrix(a, i, al.articulated(Y))


@kernel
def store_composite(r, i, Y, local, world):
    """Store an inertia about the origin of joint i, expressed in its frame and in the world."""
    R = al.load9(r.work, ly.offset(r, ra.ROTATION) + 9 * i)
    store_inertia_matrix(r.work, ly.offset(r, local) + 36 * i,
                         al.inertia_rotated(al.transposed(R), Y))
    store_inertia_matrix(r.work, ly.offset(r, world) + 36 * i,
                         al.inertia_moved(ra.from_root(r, i), Y))


@kernel
def subtree_end(r, i):
    """End of the range of the joints in the subtree of joint i."""
    end = i + 1
    while end <= ly.njoints(r) and ly.parent(r, end) >= i:
        end += 1
    return end


@kernel
def composite_inertias_kernel(r):
    ly.zero_unless_input(r, V)
    place_bodies(r)
    move_bodies(r)
    sum_up(r, COMPOSITE)
    sum_up(r, COMPOSITE_RATE)
    for i in range(1, ly.njoints(r) + 1):
        store_composite(r, i, composite(r, i), YCRB, OYCRB)
        store_composite(r, i, composite_rate(r, i), DYCRB, DOYCRB)


_composites = Algorithm("composite_inertias", composite_inertias_kernel, (Q, V),
                        (YCRB, OYCRB, DYCRB, DOYCRB), optional=(V,)).caller()


def composite_inertias(model: Model, data: Data, q: ArrayLike, v: ArrayLike | None = None, *,
                       threads: int = 1) -> tuple[Array, Array, Array, Array]:
    """Inertia of the subtree of each joint, with its joints locked, and its rate.

    Featherstone (2008), section 6.2; O(n). The matrices map motions to momenta, with linear parts
    first.

    Examples
    --------
    The subtree of the first joint is the whole arm:

    >>> Ycrb, oYcrb, dYcrb, doYcrb = dyn_ros.composite_inertias(model, data, q, v)
    >>> oYcrb.shape, bool(np.isclose(oYcrb[0, 0, 0], model.total_mass))
    ((7, 6, 6), True)
    """
    return _composites(model, data, threads, q, v)
