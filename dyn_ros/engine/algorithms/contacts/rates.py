# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Derivatives of the velocities and accelerations of contacts, and of J' lambda.

Motions are expressed in the root frame. If a coordinate moves the subtree of a body along u, the
velocity v and the acceleration a of the body change, in its own axes, by psid and
dAdq + psid x v (see rnea_derivatives.py); in fixed axes also by u x v and u x a. The derivative of
a motion m of a contact in fixed axes becomes that in LOCAL if u x m is subtracted, with u of the
first body. In LOCAL_WORLD_ALIGNED, the reference point moves, which adds (m.angular x u.linear, 0).
"""

from collections import namedtuple

from ...kernel.vocabulary import *
from ..derivatives import rnea_columns as rc
from ..kinematics.jacobians import J
from ..kinematics.kinematics import OA_GF, OV
from ..kinematics.root_axes import position
from . import contact_rows as rows
from . import packed

DAC_DQ = field(
    "dac_dq",
    ("constraints", "nv"),
    "Derivative of the accelerations of contacts with respect to configuration, in "
    "their axes, at the origin of c1 [m/s2, rad/s2 per rad, m].",
)
DAC_DV = field(
    "dac_dv",
    ("constraints", "nv"),
    "Derivative of the same accelerations with respect to velocity [m/s, rad/s per rad, m].",
)
DAC_DA = field(
    "dac_da",
    ("constraints", "nv"),
    "Derivative of the same accelerations with respect to acceleration: the Jacobian of "
    "contacts [m, rad per rad, m].",
)
DVC_DQ = field(
    "dvc_dq",
    ("constraints", "nv"),
    "Derivative of the velocities of contacts with respect to configuration, in their "
    "axes, at the origin of c1 [m/s, rad/s per rad, m].",
)
# With respect to q and v, of dac less the stabilization
ROW_RATES = field("_row_rates", ("constraints", 2, "nv"))
RATES = (DAC_DQ, DAC_DV, DAC_DA, DVC_DQ)

Body = namedtuple("Body", "joint sign point v a")  # of a contact, where the forces act
Column = namedtuple("Column", "u dv da da_dv")  # of a joint: how it moves a body
Rates = namedtuple("Rates", "u dv da da_dv error")  # of three rows; error is that of -kp err
Point = namedtuple("Point", "position axes twice_v turned_v turned_a")


@kernel
def body_of(r, n, which):
    """Return body 0 or 1 of contact n, with its acceleration without gravity.

    Reads POSITION, OV, OA_GF, ARMS.
    """
    i, sign = packed.body(r, n, which), 1.0 if which == 0 else -1.0
    p = add(position(r, i), rows.arm(r, n, which))
    a = motion(r, OA_GF, i)
    a = Motion(add(a.linear, gravity(r)), a.angular)
    return Body(
        i,
        sign,
        p,
        motion_moved(p, motion(r, OV, i)),
        motion_moved(p, a),
    )


@kernel
def column_of(r, body, i, c):
    """Return how column c of joint i moves a body, in fixed axes.

        dv = psid + u x v
        da = dAdq + psid x v + u x a
        da/dv = dAdv + u x v

    Reads J, PSID, PSIDD, DADV.
    """
    p = body.point
    u = motion_moved(p, motion_column(r, J, i, c))
    psid = motion_moved(p, motion_column(r, rc.PSID, i, c))
    psidd = motion_moved(p, motion_column(r, rc.PSIDD, i, c))
    g = gravity(r)
    turned = Motion(add(psidd.linear, cross(g, u.angular)), psidd.angular)
    da = motion_add(turned, motion_cross(psid, body.v))
    return Column(
        u,
        motion_add(psid, motion_cross(u, body.v)),
        motion_add(da, motion_cross(u, body.a)),
        motion_add(motion_moved(p, motion_column(r, rc.DADV, i, c)), motion_cross(u, body.v)),
    )


# --- of a contact of dimension 6


@kernel
def relative_motion(r, n, bodies):
    """Return velocity and acceleration of contact n.

    v = v_1 - v_2,  a = a_1 - a_2 + drift
    """
    first, second = bodies
    v, a = motion_sub(first.v, second.v), motion_sub(first.a, second.a)
    return rows.BodyPair(v, motion_add(a, rows.drift(r, n, rows.BodyPair(first.v, second.v))))


@kernel
def relative_rates(r, n, bodies, which, x):
    """Return derivatives of v and a, and of a along v, if a body moves along x; fixed axes."""
    body = bodies[0] if which == 0 else bodies[1]
    dv, da = motion_scale(body.sign, x.dv), motion_scale(body.sign, x.da)
    da_dv = motion_scale(body.sign, x.da_dv)
    if packed.axes_of(r, n) == rows.LOCAL:  # v1 x v2
        if which == 0:
            da = motion_add(da, motion_cross(x.dv, bodies[1].v))
            da_dv = motion_add(da_dv, motion_cross(x.u, bodies[1].v))
        else:
            da = motion_add(da, motion_cross(bodies[0].v, x.dv))
            da_dv = motion_add(da_dv, motion_cross(bodies[0].v, x.u))
    return dv, da, da_dv


@kernel
def error_rate(r, n, which, u):
    """Return the derivative of the pose error, if a body moves along u; fixed axes.

    Reads POSES, ERRORS.
    """
    R1, R2 = rows.orientation(r, n, 0), rows.orientation(r, n, 1)
    gap = rows.relative_origin(r, n)
    m = motion(r, rows.ERRORS, n)
    d = motion_rotated(transposed(R2), motion_moved(gap, u))
    if which == 0:
        d = motion_scale(-1.0, d)
    rate = motion_rotated(R1, log6_rate(motion_rotated(transposed(R1), m), d))
    if which == 0:
        rate = motion_add(rate, motion_cross(u, m))
    return rate


@kernel
def in_axes(r, n, which, u, m, rate):
    """Return the derivative of a motion m of contact n in its axes, from that in fixed axes.

    LOCAL: dm - u x m
    LOCAL_WORLD_ALIGNED: dm + (m.angular x u.linear, 0)
    """
    if which == 1:
        return rate
    if packed.axes_of(r, n) == rows.LOCAL:
        return motion_sub(rate, motion_cross(u, m))
    return Motion(add(rate.linear, cross(m.angular, u.linear)), rate.angular)


@kernel
def add_three(r, axes, k, step, x):
    """Add a vector, in the axes of a contact, to three entries of a column."""
    x = rotate_inverse(axes, x)
    for c in range(3):
        increase(r.work, k + step * c, x[c])


@kernel
def add_rates(r, n, axes, row, k, x, accelerated):
    """Add derivatives along velocity k to three rows of contact n; a batch needs only some."""
    step, (_, kd) = nv(r), packed.gains(r, n)
    k = step * row + k
    if not (accelerated and is_batch(r)):
        add_three(r, axes, offset(r, DAC_DA) + k, step, x.u)
        add_three(r, axes, offset(r, DVC_DQ) + k, step, x.dv)
    if not accelerated:
        return
    if not is_batch(r):
        add_three(r, axes, offset(r, DAC_DQ) + k, step, x.da)
        add_three(r, axes, offset(r, DAC_DV) + k, step, x.da_dv)
    k = offset(r, ROW_RATES) + k + step * row
    add_three(r, axes, k, 2 * step, add(add(x.da, scale(kd, x.dv)), x.error))
    add_three(r, axes, k + step, 2 * step, add(x.da_dv, scale(kd, x.u)))


@kernel
def add_column(r, n, bodies, relative, which, i, c, accelerated):
    """Add column c of joint i, which moves a body, to the derivatives of contact n.

    Reads J, PSID, PSIDD, DADV, AXES, POSES, ERRORS.
    """
    k, row, (kp, _) = idx_v(r, i) + c, packed.row_start(r, n), packed.gains(r, n)
    body = bodies[0] if which == 0 else bodies[1]
    x, (v, a) = column_of(r, body, i, c), relative
    dv, da, da_dv = relative_rates(r, n, bodies, which, x)
    dv, da = in_axes(r, n, which, x.u, v, dv), in_axes(r, n, which, x.u, a, da)
    u, error = motion_scale(body.sign, x.u), motion_scale(0.0, x.u)
    if accelerated and kp > 0.0:
        m = motion(r, rows.ERRORS, n)
        error = motion_scale(-kp, in_axes(r, n, which, x.u, m, error_rate(r, n, which, x.u)))
    axes = rotation(r, rows.AXES, n)
    add_rates(
        r,
        n,
        axes,
        row,
        k,
        Rates(u.linear, dv.linear, da.linear, da_dv.linear, error.linear),
        accelerated,
    )
    add_rates(
        r,
        n,
        axes,
        row + 3,
        k,
        Rates(u.angular, dv.angular, da.angular, da_dv.angular, error.angular),
        accelerated,
    )


# --- of a point


@kernel
def point_of(r, n, bodies, which):
    """Return the point of a body, with what changes in the axes of contact n as the body turns:
    motions of this body, unless the axes turn with it; then those of the other one.

    Reads AXES.
    """
    body, fixed = (bodies[0], bodies[0]) if which == 0 else (bodies[1], bodies[1])
    if packed.axes_of(r, n) == rows.LOCAL:
        fixed = bodies[1]
    E, v, w = rotation(r, rows.AXES, n), fixed.v.linear, fixed.v.angular
    a = sub(add(fixed.a.linear, cross(w, v)), gravity(r))
    return Point(
        body.point,
        scale(body.sign, E[:3]) + scale(body.sign, E[3:6]) + scale(body.sign, E[6:]),
        scale(2.0, body.v.linear),
        v,
        a,
    )


@kernel
def add_point_column(r, n, point, which, i, c, accelerated):
    """Add a column as ``add_column`` for a contact of dimension 3.

    A point moves with the acceleration a.linear + v.angular x v.linear, which changes in the axes
    of the body by (dAdq + 2 psid.angular x v).linear.

    Reads J, PSID, PSIDD, DADV, ERRORS.
    """
    p, (kp, _) = point.position, packed.gains(r, n)
    S, psid = motion_column(r, J, i, c), motion_column(r, rc.PSID, i, c)
    w, u = S.angular, motion_moved(p, S).linear
    dv = add(motion_moved(p, psid).linear, cross(w, point.turned_v))
    da = add(cross(psid.angular, point.twice_v), cross(w, point.turned_a))
    da = add(da, motion_moved(p, motion_column(r, rc.PSIDD, i, c)).linear)
    da_dv = add(cross(w, point.twice_v), motion_moved(p, motion_column(r, rc.DADV, i, c)).linear)
    error = scale(kp, u)
    if accelerated and kp > 0.0 and which == 0 and packed.axes_of(r, n) == rows.LOCAL:
        gap = load3(r.work, offset(r, rows.ERRORS) + 6 * n)
        error = add(error, scale(kp, cross(w, gap)))
    add_rates(
        r,
        n,
        point.axes,
        packed.row_start(r, n),
        idx_v(r, i) + c,
        Rates(u, dv, da, da_dv, error),
        accelerated,
    )


@kernel
def add_columns(r, n, bodies, which, accelerated):
    """Add the columns of all joints that move a body to the derivatives of contact n.

    Reads J, PSID, PSIDD, DADV, AXES, POSES, ERRORS.
    """
    relative, point = relative_motion(r, n, bodies), point_of(r, n, bodies, which)
    i = bodies[0].joint if which == 0 else bodies[1].joint
    while i > 0:
        for c in range(ncolumns(r, i)):
            if packed.is_point(r, n):
                add_point_column(r, n, point, which, i, c, accelerated)
            else:
                add_column(r, n, bodies, relative, which, i, c, accelerated)
        i = parent(r, i)


@kernel
def differentiate_contacts(r, accelerated):
    """Differentiate all rows, after ``outward``; without acceleration, only dvc_dq and dac_da.

    Writes DAC_DQ, DAC_DV, DAC_DA, DVC_DQ, ROW_RATES; calls add_columns, body_of.
    """
    count = nconstraints(r) * nv(r)
    if not (accelerated and is_batch(r)):
        clear_entries(r, DAC_DA, count)
        clear_entries(r, DVC_DQ, count)
    if accelerated:
        clear_entries(r, ROW_RATES, 2 * count)
        if not is_batch(r):
            clear_entries(r, DAC_DQ, count)
            clear_entries(r, DAC_DV, count)
    for n in range(packed.ncontacts(r)):
        bodies = rows.BodyPair(body_of(r, n, 0), body_of(r, n, 1))
        add_columns(r, n, bodies, 0, accelerated)
        add_columns(r, n, bodies, 1, accelerated)


# --- J' lambda


@kernel
def contact_force(r, n, forces):
    """Return the force of contact n on its first body, where it acts; its numbers are at an offset.

    Reads AXES, forces.
    """
    f = force_scale(load(r.work, forces + packed.row_start(r, n)), rows.row_force(r, n, 0))
    for k in range(packed.row_start(r, n) + 1, packed.row_stop(r, n)):
        f = force_add(
            f,
            force_scale(load(r.work, forces + k), rows.row_force(r, n, k - packed.row_start(r, n))),
        )
    return f


@kernel
def force_rate(r, n, which, of, u, f):
    """Return how the force on a body differs from one fixed to it, if body ``which`` moves along u.

    f is the force on the first body. That on the second is opposite; it is expressed in the same
    axes, and for a contact of dimension 3, it acts at its own point.
    """
    zero = zero3(u.linear[0])
    rate, fixed = Force(zero, zero), force_cross(u, f)
    if which == 0:
        rate = (
            fixed if packed.axes_of(r, n) == rows.LOCAL else Force(zero, cross(u.linear, f.linear))
        )
    if of == 0:
        return force_sub(rate, fixed) if which == 0 else Force(zero, zero)
    if packed.is_point(r, n):  # about the point of the second body
        rate = Force(rate.linear, zero)
        if which == 1:
            rate = Force(zero, cross(u.linear, f.linear))
    rate = force_scale(-1.0, rate)
    return force_add(rate, fixed) if which == 1 else rate


@kernel
def add_force_rates(r, n, bodies, which, f, target, step):
    """Subtract the derivative of J' lambda, less the part for forces fixed to both bodies.

    Reads J; writes target.
    """
    body = bodies[0] if which == 0 else bodies[1]
    i = body.joint
    while i > 0:
        for c in range(ncolumns(r, i)):
            u = motion_moved(body.point, motion_column(r, J, i, c))
            for of in range(2):
                other = bodies[0] if of == 0 else bodies[1]
                df = force_rate(r, n, which, of, u, f)
                j = other.joint
                while j > 0:
                    for d in range(ncolumns(r, j)):
                        S = motion_moved(other.point, motion_column(r, J, j, d))
                        increase(
                            r.work,
                            target + step * (idx_v(r, j) + d) + idx_v(r, i) + c,
                            -power(df, S),
                        )
                    j = parent(r, j)
        i = parent(r, i)


@kernel
def differentiate_forces(r, forces, target, step):
    """Subtract the derivative of J' lambda from a matrix, except for forces fixed to bodies.

    Reads POSITION, OV, OA_GF, J, AXES, ARMS, forces; writes target.
    """
    for n in range(packed.ncontacts(r)):
        if packed.body(r, n, 1) > 0 or packed.axes_of(r, n) != rows.LOCAL:
            bodies, f = (
                rows.BodyPair(body_of(r, n, 0), body_of(r, n, 1)),
                contact_force(r, n, forces),
            )
            add_force_rates(r, n, bodies, 0, f, target, step)
            add_force_rates(r, n, bodies, 1, f, target, step)


@kernel
def move_force_rates(r, n, forces, target):
    """Add u.linear x f to the derivative of the moment of contact n about the world's origin.

    Reads POSITION, J, ARMS, forces; writes target.
    """
    k, i = forces + packed.row_start(r, n), packed.body(r, n, 0)
    f = (load(r.work, k), load(r.work, k + 1), load(r.work, k + 2))
    p, row = (
        add(position(r, i), rows.arm(r, n, 0)),
        target + nv(r) * (packed.row_start(r, n) + 3),
    )
    while i > 0:
        for c in range(ncolumns(r, i)):
            m = cross(motion_moved(p, motion_column(r, J, i, c)).linear, f)
            for x in range(3):
                increase(r.work, row + nv(r) * x + idx_v(r, i) + c, m[x])
        i = parent(r, i)


@kernel
def rates_to_origin(r, forces, d_dq):
    """Move derivatives of forces with respect to q to the origin, as ``move_column_to_origin``.

    Reads POSITION, J, ARMS, POINTS, forces; writes d_dq.
    """
    for j in range(nv(r)):
        rows.move_column_to_origin(r, rows.FORCES, matrix_at(d_dq, nv(r)), j)
    for n in range(packed.ncontacts(r)):
        if packed.is_at_origin(r, n):
            move_force_rates(r, n, forces, d_dq)


@kernel
def add_contact_force(r, n, which, f, target):
    """Subtract the force of contact n from those that a joint transmits to a body.

    Reads POSITION, ARMS; writes target.
    """
    i = packed.body(r, n, which)
    if i > 0:
        p = add(position(r, i), rows.arm(r, n, which))
        add_to_force(r, target, i, force_moved(p, force_scale(-1.0 if which == 0 else 1.0, f)))


@kernel
def add_contact_forces(r, forces, target):
    """Subtract the forces of all contacts from forces of bodies, about the first joint's origin.

    Reads POSITION, AXES, ARMS, forces; writes target.
    """
    for n in range(packed.ncontacts(r)):
        f = contact_force(r, n, forces)
        add_contact_force(r, n, 0, f, target)
        add_contact_force(r, n, 1, f, target)
