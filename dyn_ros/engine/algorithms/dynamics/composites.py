# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Composite inertias of the subtrees of all joints, with the joints locked, and their rates.

They are expressed in the root frame, each about its own joint's origin (root_axes.py). The rate of
a rigid body's inertia has the form of an inertia without mass, whose first moment is the linear
momentum; rates are therefore transformed and summed like inertias.
"""
from ...call.algorithm import Algorithm
from ...call.data import Data
from ...kernel.algebra import (
    Inertia,
    Symmetric,
    add,
    cross,
    dot,
    inertia_add,
    inertia_moved,
    inertia_rotated,
    load3,
    load9,
    load_inertia,
    product,
    scale,
    skew,
    store_inertia,
    transposed,
)
from ...kernel.compiler import kernel
from ...kernel.fields import Q, V, field
from ...kernel.lanes import store
from ...kernel.layout import clear, njoints, offset, parent, zero_unless_input
from ...kernel.types import Array, ArrayLike
from ...model.model import Model
from ..kinematics.root_axes import (
    ORIGIN,
    ROTATION,
    body_velocity,
    from_parent,
    place_body_relative,
    position,
    set_root_relative,
)
from .crba import COMPOSITE

YCRB = field("Ycrb", ("rows", 6, 6), "Inertia of each joint's subtree, with joints locked, "
                                     "expressed in the joint frame [kg, kg m, kg m2].")
OYCRB = field("oYcrb", ("rows", 6, 6), "The same, expressed in the world.")
DYCRB = field("dYcrb", ("rows", 6, 6), "doYcrb, expressed in the joint frame.")
DOYCRB = field("doYcrb", ("rows", 6, 6), "Rate of oYcrb [kg/s, kg m/s, kg m2/s].")
COMPOSITE_RATE = field("_composite_rate", ("rows", 10))


@kernel
def composite(r, i):
    return load_inertia(r.work, offset(r, COMPOSITE) + 10 * i)


@kernel
def composite_rate(r, i):
    return load_inertia(r.work, offset(r, COMPOSITE_RATE) + 10 * i)


@kernel
def inertia_rate(Y, v):
    """v x* Y - Y v x, the rate of the inertia Y of a body with velocity v.

    Y is a sum of m (x.x - x x') over particles, whose rate contains x dx/dt twice.
    """
    S, h, u = Y.rotational, Y.moment, v.linear
    W = product(skew(v.angular), (S.xx, S.xy, S.xz, S.xy, S.yy, S.yz, S.xz, S.yz, S.zz))
    d = 2.0 * dot(u, h)
    return Inertia(0.0 * d, add(scale(Y.mass, u), cross(v.angular, h)), Symmetric(
        2.0 * (W[0] - u[0] * h[0]) + d, W[1] + W[3] - u[0] * h[1] - u[1] * h[0],
        2.0 * (W[4] - u[1] * h[1]) + d, W[2] + W[6] - u[0] * h[2] - u[2] * h[0],
        W[5] + W[7] - u[1] * h[2] - u[2] * h[1], 2.0 * (W[8] - u[2] * h[2]) + d))


@kernel
def place_bodies(r):
    """Place all joints; store each body's inertia."""
    set_root_relative(r)
    for i in range(1, njoints(r) + 1):
        store_inertia(r.work, offset(r, COMPOSITE) + 10 * i, place_body_relative(r, i))


@kernel
def move_bodies(r):
    """After ``place_bodies``: store velocities and the rates of the bodies' inertias."""
    for i in range(1, njoints(r) + 1):
        store_inertia(r.work, offset(r, COMPOSITE_RATE) + 10 * i,
                      inertia_rate(composite(r, i), body_velocity(r, i)))


@kernel
def sum_up(r, field):
    """Inward pass: sum the inertias of bodies to those of subtrees; row 0 is the whole robot."""
    clear(r.work, offset(r, field), 10)
    for i in range(njoints(r), 0, -1):
        Y = load_inertia(r.work, offset(r, field) + 10 * i)
        p = offset(r, field) + 10 * parent(r, i)
        store_inertia(r.work, p, inertia_add(load_inertia(r.work, p),
                                             inertia_moved(from_parent(r, i), Y)))


@kernel
def store_inertia_matrix(a, i, Y):
    """Store the 6 x 6 matrix of an inertia: [m, -[h]; [h], S]."""
    S, h = Y.rotational, Y.moment
    H = skew(h)
    angular = (S.xx, S.xy, S.xz, S.xy, S.yy, S.yz, S.xz, S.yz, S.zz)
    clear(a, i, 36)
    for j in range(3):
        store(a, i + 7 * j, Y.mass)
        for k in range(3):
            store(a, i + 18 + 6 * j + k, H[3 * j + k])
            store(a, i + 3 + 6 * j + k, -H[3 * j + k])
            store(a, i + 21 + 6 * j + k, angular[3 * j + k])


@kernel
def store_composite(r, i, Y, local, world):
    """Store an inertia about the origin of joint i, expressed in its frame and in the world."""
    R = load9(r.work, offset(r, ROTATION) + 9 * i)
    p = add(load3(r.work, offset(r, ORIGIN)), position(r, i))
    store_inertia_matrix(r.work, offset(r, local) + 36 * i, inertia_rotated(transposed(R), Y))
    store_inertia_matrix(r.work, offset(r, world) + 36 * i, inertia_moved(p, Y))


@kernel
def composite_inertias_kernel(r):
    zero_unless_input(r, V)
    place_bodies(r)
    move_bodies(r)
    sum_up(r, COMPOSITE)
    sum_up(r, COMPOSITE_RATE)
    for i in range(1, njoints(r) + 1):
        store_composite(r, i, composite(r, i), YCRB, OYCRB)
        store_composite(r, i, composite_rate(r, i), DYCRB, DOYCRB)


_composites = Algorithm("composite_inertias", composite_inertias_kernel, (Q, V),
                        (YCRB, OYCRB, DYCRB, DOYCRB), optional=(V,)).caller()


def composite_inertias(model: Model, data: Data, q: ArrayLike, v: ArrayLike | None = None, *,
                       threads: int = 1) -> tuple[Array, Array, Array, Array]:
    """Inertia of the subtree of each joint, with its joints locked, and its rate.

    Featherstone, Rigid Body Dynamics Algorithms (2008), section 6.2; O(n). The matrices map motions
    to momenta, with linear parts first.

    Parameters
    ----------
    model : Model
    data : Data
        Created for this model. Holds the result until the next call.
    q : (nq,) or (B, nq) array_like
        Configuration [rad, m].
    v : (nv,) or (B, nv) array_like, optional
        Velocity [rad/s, m/s]; for floating, planar and spherical joints, in their frame. Zero by
        default.
    threads : int
        Number of threads for a batch.

    Returns
    -------
    Ycrb, oYcrb : (njoints, 6, 6) ndarray
        Expressed in each joint frame, and in the world, at the respective origin [kg, kg m, kg m2].
    dYcrb, doYcrb : (njoints, 6, 6) ndarray
        doYcrb is the rate of oYcrb, the sum of ov x* Y - Y ov x over the bodies; dYcrb is the same
        tensor expressed in the joint frame. It is not the derivative of the entries of Ycrb, which
        do not depend on the joint's own motion [kg/s, kg m/s, kg m2/s].
        For a single state, ``data.Ycrb`` and so on; for a batch, new arrays with a leading batch
        axis.

    Raises
    ------
    ValueError
        Wrong shape or dtype, a number that is not finite, or a quaternion that is not unit; names
        the argument, the expected and the actual value.

    Examples
    --------
    The subtree of the first joint is the whole arm:

    >>> Ycrb, oYcrb, dYcrb, doYcrb = dyn_ros.composite_inertias(model, data, q, v)
    >>> oYcrb.shape, bool(np.isclose(oYcrb[0, 0, 0], model.total_mass))
    ((7, 6, 6), True)
    """
    return _composites(model, data, threads, q, v)
