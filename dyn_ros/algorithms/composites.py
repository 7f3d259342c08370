"""Composite inertias of every joint's subtree, and their rates.

In the axes of the root, each about its own joint's origin (root_axes.py). The rate of a rigid
body's inertia has the form of an inertia without mass, whose first moment is the linear
momentum; so rates move and add up as inertias do.
"""
from ..model.layout import at, clear, field, njoints, parent
from ..spatial.algebra import (
    Inertia,
    Symmetric,
    add,
    cross,
    dot,
    inertia_add,
    inertia_moved,
    load_inertia,
    product,
    scale,
    skew,
    store_inertia,
)
from ..spatial.compiler import kernel
from .crba import COMPOSITE
from .root_axes import arm, place_near, set_near_root, velocity

COMPOSITE_RATE = field("_composite_rate", ("rows", 10))


@kernel
def composite(r, i):
    return load_inertia(r.work, at(r, COMPOSITE) + 10 * i)


@kernel
def composite_rate(r, i):
    return load_inertia(r.work, at(r, COMPOSITE_RATE) + 10 * i)


@kernel
def inertia_rate(Y, v):
    """v x* Y - Y v x, of the sum of m (x.x - x x') over particles: by twice x dx/dt."""
    S, h, u = Y.rotational, Y.moment, v.linear
    W = product(skew(v.angular), (S.xx, S.xy, S.xz, S.xy, S.yy, S.yz, S.xz, S.yz, S.zz))
    d = 2.0 * dot(u, h)
    return Inertia(0.0 * d, add(scale(Y.mass, u), cross(v.angular, h)), Symmetric(
        2.0 * (W[0] - u[0] * h[0]) + d, W[1] + W[3] - u[0] * h[1] - u[1] * h[0],
        2.0 * (W[4] - u[1] * h[1]) + d, W[2] + W[6] - u[0] * h[2] - u[2] * h[0],
        W[5] + W[7] - u[1] * h[2] - u[2] * h[1], 2.0 * (W[8] - u[2] * h[2]) + d))


@kernel
def place_bodies(r):
    """Place all joints; leave each body's inertia."""
    set_near_root(r)
    for i in range(1, njoints(r) + 1):
        store_inertia(r.work, at(r, COMPOSITE) + 10 * i, place_near(r, i))


@kernel
def move_bodies(r):
    """After ``place_bodies``: leave velocities and the rates of the bodies' inertias."""
    for i in range(1, njoints(r) + 1):
        store_inertia(r.work, at(r, COMPOSITE_RATE) + 10 * i,
                      inertia_rate(composite(r, i), velocity(r, i)))


@kernel
def sum_up(r, field):
    """Inward pass: from inertias of bodies to those of subtrees; row 0 is the whole robot's."""
    clear(r.work, at(r, field), 10)
    for i in range(njoints(r), 0, -1):
        Y = load_inertia(r.work, at(r, field) + 10 * i)
        p = at(r, field) + 10 * parent(r, i)
        store_inertia(r.work, p, inertia_add(load_inertia(r.work, p),
                                             inertia_moved(arm(r, i), Y)))
