# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Centers of mass, their velocities and accelerations, and Jacobians.

All are expressed in world axes; sums are about the first joint's origin (world_axes.py).
"""

from __future__ import annotations

from collections import namedtuple

from ...call.algorithm import algorithm
from ...call.data import Data
from ...kernel.types import Array, ArrayLike, OutArrays, Scalar
from ...kernel.vocabulary import *
from ...model.frames import ReferenceFrame, joint_selector
from ...model.model import Model
from ..dynamics.crba import (
    INERTIA,
    composite_column,
    composite_inertia,
    joint_subtree_end,
    place_bodies_relative,
    sum_over_subtrees,
)
from ..kinematics import world_axes as wa
from ..kinematics.frame_motion import first_joint

COM = field("com", (3,), "Center of mass, expressed in the world [m].")
VCOM = field("vcom", (3,), "Velocity of the center of mass, expressed in the world [m/s].")
ACOM = field(
    "acom",
    (3,),
    "Acceleration of the center of mass, the rate of vcom, without gravity, "
    "expressed in the world [m/s2].",
)
MASS = field("mass", (), "Mass of all moving links [kg].")
SUBTREE_COM = field(
    "subtree_com",
    ("rows", 3),
    "Center of mass of each joint's subtree, expressed in the world [m].",
)
SUBTREE_VCOM = field(
    "subtree_vcom", ("rows", 3), "Velocity of subtree_com, expressed in the world [m/s]."
)
SUBTREE_ACOM = field(
    "subtree_acom",
    ("rows", 3),
    "Acceleration of subtree_com without gravity, expressed in the world [m/s2].",
)
SUBTREE_MASS = field("subtree_mass", ("rows",), "Mass of each joint's subtree [kg].")
JCOM = field(
    "Jcom",
    ("nv", 3),
    "Jacobian of the center of mass, expressed in the world [m/rad, 1].",
    transposed=True,
)
SUBTREE_JCOM = field(
    "subtree_Jcom",
    ("nv", 3),
    "Jacobian of the center of mass of one joint's subtree, expressed in the world [m/rad, 1].",
    transposed=True,
)
MASS_SUM = field("_mass_sum", ("rows",))  # these are sums over the bodies of a subtree
FIRST_MOMENT_SUM = field("_first_moment_sum", ("rows", 3))  # about the joint's origin
MOMENTUM_SUM = field("_momentum_sum", ("rows", 3))
FORCE_SUM = field("_force_sum", ("rows", 3))

Bodies = namedtuple("Bodies", "mass first_moment momentum force")
# kg; kg m; Force; Force: totals of all bodies, about the first joint's origin


@kernel
def sum_bodies(r):
    """Return total mass, first moment, momentum and its rate, about the first joint's origin.

        m = sum of m_i,  m c = sum of m_i c_i
        h = sum of Y_i v_i,  dh = sum of Y_i a_i + v_i x* Y_i v_i

    Reads Q, V, A; writes ROTATION, FROM_PARENT, COLUMNS, BODY_VELOCITY, BODY_ACCELERATION, ORIGIN,
    POSITION.
    """
    wa.place_universe_relative(r)
    zero = zero3(entry(r, wa.ORIGIN, 0))
    total = Bodies(zero[0], zero, Force(zero, zero), Force(zero, zero))
    for i in range(1, njoints(r) + 1):
        Y = wa.place_body_relative(r, i)
        v = wa.body_velocity(r, i)
        a = wa.body_acceleration(r, i, v)
        p = wa.position(r, i)
        h = inertia_times(Y, v)
        f = force_add(inertia_times(Y, a), force_cross(v, h))
        total = Bodies(
            total.mass + Y.mass,
            add(total.first_moment, add(Y.first_moment, scale(Y.mass, p))),
            force_add(total.momentum, force_moved(p, h)),
            force_add(total.force, force_moved(p, f)),
        )
    return total


@kernel
def divided_by_mass(x, mass):
    """Return x / mass, or zero without mass."""
    s = 0.0 * mass
    if all_above(mass, 0.0):
        s = 1.0 / mass
    return scale(s, x)


@kernel
def store_com(r, mass, moment):
    """Store com and mass; return the center of mass relative to the first joint's origin.

        com = sum of m_i c_i / m

    Reads ORIGIN; writes COM, MASS.
    """
    o = vector(r, wa.ORIGIN, 0)
    c = scale(-1.0, o)  # without mass: the world's origin
    if all_above(mass, 0.0):
        c = divided_by_mass(moment, mass)
    set_vector(r, COM, 0, add(o, c))
    set_entry(r, MASS, 0, mass)
    return c


@kernel
def center_of_mass_kernel(r):
    """Compute the center of mass, its velocity and its acceleration.

        com = sum of m_i c_i / m,  vcom = h.linear / m,  acom = dh.linear / m

    Reads Q; writes V, A, COM, VCOM, ACOM, MASS; calls sum_bodies, store_com.
    """
    zero_unless_input(r, V)
    zero_unless_input(r, A)
    bodies = sum_bodies(r)
    store_com(r, bodies.mass, bodies.first_moment)
    set_vector(r, VCOM, 0, divided_by_mass(bodies.momentum.linear, bodies.mass))
    set_vector(r, ACOM, 0, divided_by_mass(bodies.force.linear, bodies.mass))


# --- subtrees


@kernel
def store_body_sums(r):
    """Store mass, first moment, momentum and its rate of each body, about its joint's origin.

        h = Y v,  f = Y a + v x* h

    Reads Q, V, A; writes MASS_SUM, FIRST_MOMENT_SUM, MOMENTUM_SUM, FORCE_SUM; calls
    place_universe_relative, place_body_relative, body_velocity, body_acceleration.
    """
    wa.place_universe_relative(r)
    for i in range(1, njoints(r) + 1):
        Y = wa.place_body_relative(r, i)
        v = wa.body_velocity(r, i)
        a = wa.body_acceleration(r, i, v)
        h = inertia_times(Y, v)
        f = force_add(inertia_times(Y, a), force_cross(v, h))
        set_entry(r, MASS_SUM, i, Y.mass)
        set_vector(r, FIRST_MOMENT_SUM, i, Y.first_moment)
        set_vector(r, MOMENTUM_SUM, i, h.linear)
        set_vector(r, FORCE_SUM, i, f.linear)


@kernel
def sum_subtrees(r):
    """Sum the quantities of ``store_body_sums`` over the bodies of each subtree.

        m_p = m_p + m,  (m c)_p = (m c)_p + m c + m p
        h_p = h_p + h,  f_p = f_p + f

    Reads FROM_PARENT; writes MASS_SUM, FIRST_MOMENT_SUM, MOMENTUM_SUM, FORCE_SUM.
    """
    for i in range(njoints(r), 0, -1):
        p = parent(r, i)
        if p > 0:
            m = entry(r, MASS_SUM, i)
            moment = add(vector(r, FIRST_MOMENT_SUM, i), scale(m, wa.from_parent(r, i)))
            add_to_entry(r, MASS_SUM, p, m)
            add_to_vector(r, FIRST_MOMENT_SUM, p, moment)
            add_to_vector(r, MOMENTUM_SUM, p, vector(r, MOMENTUM_SUM, i))
            add_to_vector(r, FORCE_SUM, p, vector(r, FORCE_SUM, i))


@kernel
def subtree_centers_kernel(r):
    """Compute mass and center of mass of each subtree, and the center's velocity and acceleration.

        c = (m c) / m,  vc = h.linear / m,  ac = f.linear / m

    Reads Q; writes V, A, SUBTREE_COM, SUBTREE_VCOM, SUBTREE_ACOM, SUBTREE_MASS; calls
    store_body_sums, sum_subtrees.
    """
    zero_unless_input(r, V)
    zero_unless_input(r, A)
    store_body_sums(r)
    sum_subtrees(r)
    for i in range(1, njoints(r) + 1):
        m, moment = entry(r, MASS_SUM, i), vector(r, FIRST_MOMENT_SUM, i)
        h, f = vector(r, MOMENTUM_SUM, i), vector(r, FORCE_SUM, i)
        v = motion(r, wa.BODY_VELOCITY, i)
        a = motion(r, wa.BODY_ACCELERATION, i)
        c, vc = zero3(m), v.linear  # without mass: the joint's origin
        ac = add(a.linear, cross(v.angular, v.linear))
        if all_above(m, 0.0):
            c, vc, ac = divided_by_mass(moment, m), divided_by_mass(h, m), divided_by_mass(f, m)
        set_vector(r, SUBTREE_COM, i, add(wa.from_world_origin(r, i), c))
        set_vector(r, SUBTREE_VCOM, i, vc)
        set_vector(r, SUBTREE_ACOM, i, ac)
        set_entry(r, SUBTREE_MASS, i, m)


# --- Jacobians


@kernel
def add_subtree_columns(r, i, mass, jacobian):
    """Add the columns of a joint inside the subtree of the given mass to a Jacobian of its center.

        J_k = (Y S_k).linear / mass

    Reads COLUMNS, INERTIA; writes jacobian.
    """
    Y = composite_inertia(r, i)
    for c in range(ncolumns(r, i)):
        F = composite_column(r, i, c, Y)
        add_to_vector(r, jacobian, idx_v(r, i) + c, divided_by_mass(F.linear, mass))


@kernel
def add_ancestor_columns(r, i, p, jacobian):
    """Add the columns of an ancestor to a Jacobian; p is the point, from the first joint's origin.

        J_k = S_k.linear + S_k.angular x (p - p_i)

    Reads COLUMNS, POSITION; writes jacobian.
    """
    zero = zero3(p[0])
    for c in range(ncolumns(r, i)):
        S = wa.add_column(r, i, c, Motion(zero, zero), 1.0)
        u = motion_moved(sub(p, wa.position(r, i)), S).linear
        add_to_vector(r, jacobian, idx_v(r, i) + c, u)


@kernel
def com_jacobian_kernel(r):
    """Compute the Jacobian of the center of mass.

        Jcom_k = (Y S_k).linear / m         Y of the subtree that velocity k moves

    Reads Q; writes ROTATION, FROM_PARENT, COLUMNS, BODY_VELOCITY, BODY_ACCELERATION, ORIGIN,
    POSITION, INERTIA, JCOM.
    """
    place_bodies_relative(r)
    sum_over_subtrees(r, INERTIA)
    clear_entries(r, JCOM, 3 * nv(r))
    for i in range(1, njoints(r) + 1):
        add_subtree_columns(r, i, composite_inertia(r, 0).mass, JCOM)


@kernel
def subtree_com_jacobian_kernel(r):
    """Compute the Jacobian of a subtree's center of mass.

        J_k = (Y S_k).linear / m            velocities inside the subtree
        J_k = S_k.linear + S_k.angular x (c - p_k)            velocities that carry it

    Reads Q; writes ROTATION, FROM_PARENT, COLUMNS, BODY_VELOCITY, BODY_ACCELERATION, ORIGIN,
    POSITION, INERTIA, SUBTREE_JCOM.
    """
    place_bodies_relative(r)
    sum_over_subtrees(r, INERTIA)
    clear_entries(r, SUBTREE_JCOM, 3 * nv(r))
    first = first_joint(r)
    Y = composite_inertia(r, first)
    for i in range(first + 1, joint_subtree_end(r, first)):
        add_subtree_columns(r, i, Y.mass, SUBTREE_JCOM)
    p = add(wa.position(r, first), divided_by_mass(Y.first_moment, Y.mass))
    i = first
    while i > 0:
        add_ancestor_columns(r, i, p, SUBTREE_JCOM)
        i = parent(r, i)


@algorithm(
    center_of_mass_kernel, inputs=(Q, V, A), results=(COM, VCOM, ACOM, MASS), optional=(V, A)
)
def center_of_mass(
    model: Model,
    data: Data,
    q: ArrayLike,
    v: ArrayLike | None = None,
    a: ArrayLike | None = None,
    *,
    threads: int = 1,
    out: OutArrays | None = None,
) -> tuple[Array, Array, Array, Scalar]:
    """Compute the center of mass of all moving links, its velocity and acceleration.

    Sums over the bodies, Featherstone (2008), section 2.13; O(n). The link of a fixed base is
    excluded. Zeros if the robot has no mass.

    Examples
    --------
    >>> com, vcom, acom, mass = dyn_ros.center_of_mass(model, data, q, v, a)
    >>> print(com.round(3), round(mass, 2))
    [-0.056  0.001  0.569] 15.6
    """


@algorithm(
    subtree_centers_kernel,
    inputs=(Q, V, A),
    results=(SUBTREE_COM, SUBTREE_VCOM, SUBTREE_ACOM, SUBTREE_MASS),
    optional=(V, A),
)
def subtree_centers_of_mass(
    model: Model,
    data: Data,
    q: ArrayLike,
    v: ArrayLike | None = None,
    a: ArrayLike | None = None,
    *,
    threads: int = 1,
    out: OutArrays | None = None,
) -> tuple[Array, Array, Array, Array]:
    """Compute the center of mass of each joint's subtree, its velocity and acceleration.

    The subtree of a joint consists of its body and all descendants; the center of mass of a
    massless one is defined as the joint's origin. Sums over the bodies, Featherstone (2008),
    section 2.13; O(n). All results are expressed in the world, unlike Pinocchio's ``data.com[j]``,
    ``vcom[j]`` and ``acom[j]``, which are expressed in the frame of joint j.

    Examples
    --------
    The subtree of the first joint is the whole arm:

    >>> com, vcom, acom, mass = dyn_ros.subtree_centers_of_mass(model, data, q)
    >>> first = com[0].copy()
    >>> np.allclose(first, dyn_ros.center_of_mass(model, data, q)[0])
    True
    """


@algorithm(com_jacobian_kernel, inputs=(Q,), results=(JCOM,))
def com_jacobian(
    model: Model, data: Data, q: ArrayLike, *, threads: int = 1, out: OutArrays | None = None
) -> Array:
    """Compute the Jacobian of the center of mass: vcom = Jcom v.

    Computed from composite inertias, Orin, Goswami and Lee (2013): the linear rows of the
    centroidal momentum matrix divided by the mass; O(n). Zeros if the robot has no mass.

    Examples
    --------
    >>> Jcom = dyn_ros.com_jacobian(model, data, q).copy()
    >>> np.allclose(Jcom @ v, dyn_ros.center_of_mass(model, data, q, v)[1])
    True
    """


def _joint_selector(model: Model, joint: str | int) -> int:
    """Return the option FRAME of a joint."""
    return joint_selector(model, joint, ReferenceFrame.WORLD)


@algorithm(
    subtree_com_jacobian_kernel,
    inputs=(Q,),
    results=(SUBTREE_JCOM,),
    options=(FRAME, REFERENCE_FRAME),
    selector=_joint_selector,
)
def subtree_com_jacobian(
    model: Model,
    data: Data,
    q: ArrayLike,
    joint: str | int,
    *,
    threads: int = 1,
    out: OutArrays | None = None,
) -> Array:
    """Compute the Jacobian of a joint's subtree_com: subtree_vcom[joint] = J v.

    A joint in the subtree moves part of its mass; an ancestor moves the center of mass as a point
    fixed to the subtree. A massless subtree has its center at its joint's origin. O(n).

    Examples
    --------
    >>> elbow = model.joint_names[3]
    >>> J = dyn_ros.subtree_com_jacobian(model, data, q, elbow).copy()
    >>> np.allclose(J @ v, dyn_ros.subtree_centers_of_mass(model, data, q, v)[1][3])
    True
    """
