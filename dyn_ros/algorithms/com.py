"""Centres of mass, their velocities and accelerations, and Jacobians.

All in the axes of the root; sums are about the first joint's origin (root_axes.py).
"""
from collections import namedtuple

from ..model.layout import A, Q, V, at, field, njoints, zero_unless_given
from ..spatial.algebra import (
    Force,
    add,
    force_add,
    force_cross,
    force_moved,
    load3,
    momentum,
    scale,
    store3,
    zero3,
)
from ..spatial.compiler import kernel
from ..spatial.lanes import all_above, load, store
from .call import Algorithm
from .root_axes import ORIGIN, acceleration, place_near, position, set_near_root, velocity

COM = field("com", (3,), "Centre of mass, in the world [m].")
VCOM = field("vcom", (3,), "Velocity of the centre of mass, in the world [m/s].")
ACOM = field("acom", (3,), "Acceleration of the centre of mass, in the world [m/s2].")
MASS = field("mass", (), "Mass of all that moves [kg].")

Bodies = namedtuple("Bodies", "mass moment momentum force")
# kg; kg m; Force and Force: of all bodies together, about the first joint's origin


@kernel
def sum_bodies(r):
    """Outward pass: mass, first moment, momentum and its rate of all bodies together."""
    set_near_root(r)
    zero = zero3(load(r.work, at(r, ORIGIN)))
    total = Bodies(zero[0], zero, Force(zero, zero), Force(zero, zero))
    for i in range(1, njoints(r) + 1):
        Y = place_near(r, i)
        v = velocity(r, i)
        a = acceleration(r, i, v)
        p = position(r, i)
        h = momentum(Y, v)
        f = force_add(momentum(Y, a), force_cross(v, h))
        total = Bodies(total.mass + Y.mass,
                       add(total.moment, add(Y.moment, scale(Y.mass, p))),
                       force_add(total.momentum, force_moved(p, h)),
                       force_add(total.force, force_moved(p, f)))
    return total


@kernel
def over_mass(x, mass):
    """x / mass; zero of what has no mass."""
    s = 0.0 * mass
    if all_above(mass, 0.0):
        s = 1.0 / mass
    return scale(s, x)


@kernel
def store_com(r, mass, moment):
    """Leave data.com and data.mass; give the centre from the first joint's origin."""
    o = load3(r.work, at(r, ORIGIN))
    c = scale(-1.0, o)                              # of no mass: the root's origin
    if all_above(mass, 0.0):
        c = over_mass(moment, mass)
    store3(r.work, at(r, COM), add(o, c))
    store(r.work, at(r, MASS), mass)
    return c


@kernel
def center_of_mass_kernel(r):
    zero_unless_given(r, V)
    zero_unless_given(r, A)
    bodies = sum_bodies(r)
    store_com(r, bodies.mass, bodies.moment)
    store3(r.work, at(r, VCOM), over_mass(bodies.momentum.linear, bodies.mass))
    store3(r.work, at(r, ACOM), over_mass(bodies.force.linear, bodies.mass))


_com = Algorithm("center_of_mass", center_of_mass_kernel, (Q, V, A), (COM, VCOM, ACOM, MASS),
                 optional=(V, A)).caller()


def center_of_mass(model, data, q, v=None, a=None, *, threads=1):
    """Centre of mass of all that moves, its velocity and acceleration.

    Sums over the bodies, Featherstone, Rigid Body Dynamics Algorithms (2008), section 2.13; O(n).
    The link on a fixed base does not move and does not count.

    Parameters
    ----------
    model : Model
    data : Data
        Made for the model. Keeps the result, until the next call.
    q : (nq,) or (B, nq) array_like
        Configuration [rad, m].
    v : (nv,) or (B, nv) array_like, optional
        Velocity [rad/s, m/s]; of floating and planar joints in their own frame. Zero where it
        is not given.
    a : (nv,) or (B, nv) array_like, optional
        Acceleration [rad/s2, m/s2]. Zero where it is not given.
    threads : int
        How many threads share a batch.

    Returns
    -------
    com, vcom, acom : (3,) ndarray
        Position [m], velocity [m/s] and acceleration [m/s2], in the world; acom is the rate of
        vcom, without gravity. For one state they are ``data.com`` and so on themselves; for a
        batch new arrays with the batch's axis in front. Of a robot without mass: zeros.
    mass : float, or (B,) ndarray
        [kg].

    Raises
    ------
    ValueError
        Names the argument, what was expected and what came: shape, dtype, a number that is not
        finite, a quaternion that is not unit.
    """
    return _com(model, data, threads, 0, q, v, a)
