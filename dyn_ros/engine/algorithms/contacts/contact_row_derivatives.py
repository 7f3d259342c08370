# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Derivatives of the velocities and accelerations of contacts, and of J' lambda.

Motions are expressed in world axes. If a coordinate moves the subtree of a body along u, the
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
from ..kinematics.world_axes import position
from . import contact_rows
from . import packed_contacts as packed

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
# Derivatives of accelerations less stabilization: for each row with respect to q, then to v
ROW_RATES = field("_row_rates", ("constraints", 2, "nv"))
PUBLIC_RATES = (DAC_DQ, DAC_DV, DAC_DA, DVC_DQ)

ContactBody = namedtuple("ContactBody", "joint sign point v a")
"""A body of a contact: joint, 1 or -1, point where the forces act, and v and a of this point."""
RelativeMotion = namedtuple("RelativeMotion", "v a")
"""Velocity of a contact's first body relative to the second, and the constrained acceleration."""
ColumnRates = namedtuple("ColumnRates", "u dv da da_dv")
"""The motion of a body along a coordinate, and derivatives of v and a: d/dq v, d/dq a, d/dv a."""
RowRates = namedtuple("RowRates", "u dv da da_dv error")
"""Vectors of a ``ColumnRates`` for three rows of a contact, and the derivative of -kp err."""
ContactPoint = namedtuple("ContactPoint", "position axes twice_v turning_v turning_a")
"""A point of a contact: its position, the contact's axes times its sign, 2 v, and the velocity and
acceleration that turn relative to the axes if its body turns."""


@kernel
def contact_body(r, n, side):
    """Return the first (side 0) or second body of contact n; its acceleration excludes gravity.

        v = (v_i + w_i x p, w_i)
        a = (a_i + gravity + dw_i x p, dw_i)

    Reads POSITION, OV, OA_GF, FORCE_ARMS.
    """
    i, sign = packed.contact_joint(r, n, side), 1.0 if side == 0 else -1.0
    p = add(position(r, i), contact_rows.force_arm(r, n, side))
    a = motion(r, OA_GF, i)
    a = Motion(add(a.linear, gravity(r)), a.angular)
    return ContactBody(
        i,
        sign,
        p,
        motion_moved(p, motion(r, OV, i)),
        motion_moved(p, a),
    )


@kernel
def contact_bodies(r, n):
    """Return both bodies of contact n. Reads POSITION, OV, OA_GF, FORCE_ARMS."""
    return contact_rows.BodyPair(contact_body(r, n, 0), contact_body(r, n, 1))


@kernel
def select_body(bodies, side):
    """Return the first (side 0) or second body."""
    return bodies[0] if side == 0 else bodies[1]


@kernel
def body_rates(r, body, i, c):
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
    return ColumnRates(
        u,
        motion_add(psid, motion_cross(u, body.v)),
        motion_add(da, motion_cross(u, body.a)),
        motion_add(motion_moved(p, motion_column(r, rc.DADV, i, c)), motion_cross(u, body.v)),
    )


# --- rows of a contact of dimension 6


@kernel
def relative_motion(r, n, bodies):
    """Return velocity and acceleration of contact n, see ``frame_drift``.

        v = v_1 - v_2,  a = a_1 - a_2 + frame drift

    ``bodies`` are both bodies of the contact.
    """
    first, second = bodies
    drift = contact_rows.frame_drift(r, n, contact_rows.BodyPair(first.v, second.v))
    return RelativeMotion(
        motion_sub(first.v, second.v), motion_add(motion_sub(first.a, second.a), drift)
    )


@kernel
def relative_rates(r, n, bodies, side, x):
    """Return derivatives of v and a of contact n if a body moves as column x, in fixed axes.

        dv = s dv_i
        da = s da_i + d(frame drift)(dv_i)
        da/dv = s da/dv_i + d(frame drift)(u_i)

    d(frame drift)(x) is x_1 x v_2 or v_1 x x_2 in LOCAL, and zero in other axes.
    """
    body = select_body(bodies, side)
    dv, da = motion_scale(body.sign, x.dv), motion_scale(body.sign, x.da)
    da_dv = motion_scale(body.sign, x.da_dv)
    if packed.reference_frame(r, n) == contact_rows.LOCAL:
        if side == 0:
            da = motion_add(da, motion_cross(x.dv, bodies[1].v))
            da_dv = motion_add(da_dv, motion_cross(x.u, bodies[1].v))
        else:
            da = motion_add(da, motion_cross(bodies[0].v, x.dv))
            da_dv = motion_add(da_dv, motion_cross(bodies[0].v, x.u))
    return dv, da, da_dv


@kernel
def pose_error_rate(r, n, side, u):
    """Return the derivative of the pose error m of contact n if a body moves along u; fixed axes.

        d = R_2' (u.linear + u.angular x gap, u.angular)
        dm = u x m - R_1 dlog6(R_1' m) d    first body
        dm = R_1 dlog6(R_1' m) d            second body

    Reads CONTACT_POSES, POSE_ERRORS.
    """
    R1, R2 = contact_rows.contact_orientation(r, n, 0), contact_rows.contact_orientation(r, n, 1)
    gap = contact_rows.relative_origin(r, n)
    m = motion(r, contact_rows.POSE_ERRORS, n)
    d = motion_rotated(transposed(R2), motion_moved(gap, u))
    if side == 0:
        d = motion_scale(-1.0, d)
    rate = motion_rotated(R1, log6_rate(motion_rotated(transposed(R1), m), d))
    if side == 0:
        rate = motion_add(rate, motion_cross(u, m))
    return rate


@kernel
def rate_in_axes(r, n, side, u, m, rate):
    """Return the derivative of a motion m of contact n in its axes, if a body moves along u.

        dm - u x m                          first body, LOCAL
        dm + (m.angular x u.linear, 0)      first body, LOCAL_WORLD_ALIGNED
        dm                                  second body

    ``rate`` is dm, the derivative in fixed axes.
    """
    if side == 1:
        return rate
    if packed.reference_frame(r, n) == contact_rows.LOCAL:
        return motion_sub(rate, motion_cross(u, m))
    return Motion(add(rate.linear, cross(m.angular, u.linear)), rate.angular)


@kernel
def add_vector_in_axes(r, axes, A, row, k, x):
    """Add a vector, in the axes of a contact, to three rows of column k of A.

        A_k = A_k + E' x

    Writes A.
    """
    x = rotate_inverse(axes, x)
    for c in range(3):
        add_to_element(r, A, row + c, k, x[c])


@kernel
def rates_by_configuration(r):
    """Return the derivatives with respect to q of accelerations less stabilization, a matrix."""
    return matrix_of_width(r, ROW_RATES, 2 * nv(r))


@kernel
def rates_by_velocity(r):
    """Return the derivatives with respect to v of accelerations less stabilization, a matrix."""
    return columns_from(rates_by_configuration(r), nv(r))


@kernel
def add_row_rates(r, n, axes, row, k, x, with_acceleration):
    """Add derivatives along velocity k to three rows of contact n; a batch omits public results.

        drow/dq = da + kd dv - d(kp err)
        drow/dv = da/dv + kd u

    Writes DAC_DQ, DAC_DV, DAC_DA, DVC_DQ, ROW_RATES.
    """
    _, kd = packed.baumgarte_gains(r, n)
    if not (with_acceleration and is_batch(r)):
        add_vector_in_axes(r, axes, matrix(r, DAC_DA), row, k, x.u)
        add_vector_in_axes(r, axes, matrix(r, DVC_DQ), row, k, x.dv)
    if not with_acceleration:
        return
    if not is_batch(r):
        add_vector_in_axes(r, axes, matrix(r, DAC_DQ), row, k, x.da)
        add_vector_in_axes(r, axes, matrix(r, DAC_DV), row, k, x.da_dv)
    drow_dq = add(add(x.da, scale(kd, x.dv)), x.error)
    drow_dv = add(x.da_dv, scale(kd, x.u))
    add_vector_in_axes(r, axes, rates_by_configuration(r), row, k, drow_dq)
    add_vector_in_axes(r, axes, rates_by_velocity(r), row, k, drow_dv)


@kernel
def add_frame_column(r, n, bodies, relative, side, i, c, with_acceleration):
    """Add column c of joint i, which moves a body, to the derivatives of contact n.

    Reads J, PSID, PSIDD, DADV, CONTACT_AXES, CONTACT_POSES, POSE_ERRORS; writes DAC_DQ, DAC_DV,
    DAC_DA, DVC_DQ, ROW_RATES.
    """
    k, row, (kp, _) = idx_v(r, i) + c, packed.row_start(r, n), packed.baumgarte_gains(r, n)
    body = select_body(bodies, side)
    x, (v, a) = body_rates(r, body, i, c), relative
    dv, da, da_dv = relative_rates(r, n, bodies, side, x)
    dv, da = rate_in_axes(r, n, side, x.u, v, dv), rate_in_axes(r, n, side, x.u, a, da)
    u, error = motion_scale(body.sign, x.u), motion_scale(0.0, x.u)
    if with_acceleration and kp > 0.0:
        m = motion(r, contact_rows.POSE_ERRORS, n)
        dm = rate_in_axes(r, n, side, x.u, m, pose_error_rate(r, n, side, x.u))
        error = motion_scale(-kp, dm)
    axes = rotation(r, contact_rows.CONTACT_AXES, n)
    linear = RowRates(u.linear, dv.linear, da.linear, da_dv.linear, error.linear)
    angular = RowRates(u.angular, dv.angular, da.angular, da_dv.angular, error.angular)
    add_row_rates(r, n, axes, row, k, linear, with_acceleration)
    add_row_rates(r, n, axes, row + 3, k, angular, with_acceleration)


# --- rows of a contact of dimension 3


@kernel
def contact_point(r, n, bodies, side):
    """Return the point of contact n on a body.

        a = a.linear + w x v - gravity      classical

    v, w and a belong to the body that turns relative to the axes: to this body, or if the axes are
    fixed in the first body, to the second.

    Reads CONTACT_AXES.
    """
    body = select_body(bodies, side)
    turning = body
    if packed.reference_frame(r, n) == contact_rows.LOCAL:
        turning = bodies[1]
    E, v, w = rotation(r, contact_rows.CONTACT_AXES, n), turning.v.linear, turning.v.angular
    a = sub(add(turning.a.linear, cross(w, v)), gravity(r))
    return ContactPoint(
        body.point,
        scale(body.sign, E[:3]) + scale(body.sign, E[3:6]) + scale(body.sign, E[6:]),
        scale(2.0, body.v.linear),
        v,
        a,
    )


@kernel
def add_point_column(r, n, point, side, i, c, with_acceleration):
    """Add column c of joint i, which moves a body, to the derivatives of contact n of dimension 3.

        dv = psid + u.angular x v_t
        da = psidd + 2 psid.angular x v + u.angular x a_t
        da/dv = dAdv + 2 u.angular x v

    v_t and a_t are the velocity and acceleration that turn relative to the axes.

    Reads J, PSID, PSIDD, DADV, POSE_ERRORS; writes DAC_DQ, DAC_DV, DAC_DA, DVC_DQ, ROW_RATES.
    """
    p, (kp, _) = point.position, packed.baumgarte_gains(r, n)
    S, psid = motion_column(r, J, i, c), motion_column(r, rc.PSID, i, c)
    w, u = S.angular, motion_moved(p, S).linear
    dv = add(motion_moved(p, psid).linear, cross(w, point.turning_v))
    da = add(cross(psid.angular, point.twice_v), cross(w, point.turning_a))
    da = add(da, motion_moved(p, motion_column(r, rc.PSIDD, i, c)).linear)
    da_dv = add(cross(w, point.twice_v), motion_moved(p, motion_column(r, rc.DADV, i, c)).linear)
    error = scale(kp, u)
    if (
        with_acceleration
        and kp > 0.0
        and side == 0
        and packed.reference_frame(r, n) == contact_rows.LOCAL
    ):
        gap = motion(r, contact_rows.POSE_ERRORS, n).linear
        error = add(error, scale(kp, cross(w, gap)))
    k, x = idx_v(r, i) + c, RowRates(u, dv, da, da_dv, error)
    add_row_rates(r, n, point.axes, packed.row_start(r, n), k, x, with_acceleration)


@kernel
def add_body_columns(r, n, bodies, side, with_acceleration):
    """Add the columns of all joints that move a body to the derivatives of contact n.

    Reads J, PSID, PSIDD, DADV, CONTACT_AXES, CONTACT_POSES, POSE_ERRORS; writes DAC_DQ, DAC_DV,
    DAC_DA, DVC_DQ, ROW_RATES.
    """
    relative, point = relative_motion(r, n, bodies), contact_point(r, n, bodies, side)
    i = select_body(bodies, side).joint
    while i > 0:
        for c in range(ncolumns(r, i)):
            if packed.is_point(r, n):
                add_point_column(r, n, point, side, i, c, with_acceleration)
            else:
                add_frame_column(r, n, bodies, relative, side, i, c, with_acceleration)
        i = parent(r, i)


@kernel
def differentiate_contacts(r, with_acceleration):
    """Differentiate the rows of all contacts; without acceleration, only dvc_dq and dac_da.

    Needs the columns of rnea_columns.py.

    Writes DAC_DQ, DAC_DV, DAC_DA, DVC_DQ; calls contact_bodies, add_body_columns.
    """
    count = nconstraints(r) * nv(r)
    if not (with_acceleration and is_batch(r)):
        clear_entries(r, DAC_DA, count)
        clear_entries(r, DVC_DQ, count)
    if with_acceleration:
        clear_entries(r, ROW_RATES, 2 * count)
        if not is_batch(r):
            clear_entries(r, DAC_DQ, count)
            clear_entries(r, DAC_DV, count)
    for n in range(packed.ncontacts(r)):
        bodies = contact_bodies(r, n)
        add_body_columns(r, n, bodies, 0, with_acceleration)
        add_body_columns(r, n, bodies, 1, with_acceleration)


# --- J' lambda


@kernel
def contact_force(r, n, forces):
    """Return the force of contact n on its first body, about the point where it acts.

        f = sum of lambda_k f_k

    Reads CONTACT_AXES, forces.
    """
    start, stop = packed.row_start(r, n), packed.row_stop(r, n)
    f = force_scale(entry(r, forces, start), contact_rows.row_force(r, n, 0))
    for k in range(start + 1, stop):
        f = force_add(f, force_scale(entry(r, forces, k), contact_rows.row_force(r, n, k - start)))
    return f


@kernel
def force_rate(r, n, moving_side, side, u, f):
    """Return the rate of the force on body ``side``, relative to this body, in fixed axes.

        df - u x* f                         first body, if it moves along u
        0                                   first body, if the second one moves along u
        -df                                 second body, if the first one moves along u
        u x* f - df                         second body, if it moves along u

    f is the force on the first body; the force on the second is opposite. If the first body moves,
    df is u x* f in LOCAL, and (0, u.linear x f.linear) in other axes. In dimension 3, the opposite
    force acts at the second body's own point: df has no moment if the first body moves, and is
    (0, u.linear x f.linear) if the second one moves.
    """
    zero = zero3(u.linear[0])
    rate, moving = Force(zero, zero), force_cross(u, f)
    if moving_side == 0:
        rate = (
            moving
            if packed.reference_frame(r, n) == contact_rows.LOCAL
            else Force(zero, cross(u.linear, f.linear))
        )
    if side == 0:
        return force_sub(rate, moving) if moving_side == 0 else Force(zero, zero)
    if packed.is_point(r, n):
        rate = Force(rate.linear, zero)
        if moving_side == 1:
            rate = Force(zero, cross(u.linear, f.linear))
    rate = force_scale(-1.0, rate)
    return force_add(rate, moving) if moving_side == 1 else rate


@kernel
def subtract_torque_rates(r, A, body, df, k):
    """Subtract the torques of the rate of the force on a body from column k of A.

        A_jk = A_jk - S_j' df

    Reads J; writes A.
    """
    j = body.joint
    while j > 0:
        for c in range(ncolumns(r, j)):
            S = motion_moved(body.point, motion_column(r, J, j, c))
            add_to_element(r, A, idx_v(r, j) + c, k, -power(df, S))
        j = parent(r, j)


@kernel
def subtract_force_rates(r, n, bodies, side, f, target):
    """Subtract the derivative of J' lambda along the coordinates that move a body of contact n.

    Forces fixed to the bodies are excluded.

    Reads J; writes target.
    """
    body, A = select_body(bodies, side), matrix(r, target)
    i = body.joint
    while i > 0:
        for c in range(ncolumns(r, i)):
            u, k = motion_moved(body.point, motion_column(r, J, i, c)), idx_v(r, i) + c
            subtract_torque_rates(r, A, bodies[0], force_rate(r, n, side, 0, u, f), k)
            subtract_torque_rates(r, A, bodies[1], force_rate(r, n, side, 1, u, f), k)
        i = parent(r, i)


@kernel
def differentiate_forces(r, forces, target):
    """Subtract the derivative of J' lambda from a field, except for forces fixed to bodies.

        dtau_jk = dtau_jk - S_j' df_k

    Reads POSITION, OV, OA_GF, J, CONTACT_AXES, FORCE_ARMS, forces; writes target.
    """
    for n in range(packed.ncontacts(r)):
        if packed.contact_joint(r, n, 1) > 0 or packed.reference_frame(r, n) != contact_rows.LOCAL:
            bodies, f = contact_bodies(r, n), contact_force(r, n, forces)
            subtract_force_rates(r, n, bodies, 0, f, target)
            subtract_force_rates(r, n, bodies, 1, f, target)


@kernel
def add_lever_rates(r, n, forces, target):
    """Add the change of the lever to the derivative of the moment about the world's origin.

        dn = dn + u.linear x f              n: the moment of contact n

    Reads POSITION, J, FORCE_ARMS, forces; writes target.
    """
    start, i, A = packed.row_start(r, n), packed.contact_joint(r, n, 0), matrix(r, target)
    f = (entry(r, forces, start), entry(r, forces, start + 1), entry(r, forces, start + 2))
    p = add(position(r, i), contact_rows.force_arm(r, n, 0))
    while i > 0:
        for c in range(ncolumns(r, i)):
            m = cross(motion_moved(p, motion_column(r, J, i, c)).linear, f)
            for x in range(3):
                add_to_element(r, A, start + 3 + x, idx_v(r, i) + c, m[x])
        i = parent(r, i)


@kernel
def move_rates_to_origin(r, forces, target):
    """Move derivatives of forces with respect to q to the world's origin in WORLD.

        dn = dn + p x df + dp x f

    Reads POSITION, J, FORCE_ARMS, CONTACT_POINTS, forces; writes target.
    """
    for j in range(nv(r)):
        contact_rows.move_column_to_origin(r, contact_rows.MOMENT_ROWS, matrix(r, target), j)
    for n in range(packed.ncontacts(r)):
        if packed.is_at_origin(r, n):
            add_lever_rates(r, n, forces, target)


@kernel
def subtract_contact_force(r, n, side, f, target):
    """Subtract the force of contact n on a body from the force that its joint transmits.

        f_i = f_i - s (f.linear, f.angular + p x f.linear)

    Reads POSITION, FORCE_ARMS; writes target.
    """
    i = packed.contact_joint(r, n, side)
    if i > 0:
        p = add(position(r, i), contact_rows.force_arm(r, n, side))
        add_to_force(r, target, i, force_moved(p, force_scale(-1.0 if side == 0 else 1.0, f)))


@kernel
def subtract_contact_forces(r, forces, target):
    """Subtract the forces of all contacts from forces of bodies, about the first joint's origin.

    Reads POSITION, CONTACT_AXES, FORCE_ARMS, forces; writes target.
    """
    for n in range(packed.ncontacts(r)):
        f = contact_force(r, n, forces)
        subtract_contact_force(r, n, 0, f, target)
        subtract_contact_force(r, n, 1, f, target)
