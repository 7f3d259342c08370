# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Joints in kernels: placement and motion subspace S, which is constant in the joint frame.

S has a few columns: the axis for a revolute or prismatic joint, unit motions for a planar,
spherical or floating one. Textbook formulas in S apply to all types: S x, S' f, and single columns.
"""

from ..machine_code.declare import kernel
from .algebra import (
    SE3,
    Motion,
    add,
    cross,
    dot,
    lift3,
    lift9,
    load3,
    motion_add,
    motion_cross,
    product,
    quaternion_rotation,
    rotate,
    scale,
    zero3,
)
from .field_rows import add_to_entry, entry
from .fields import Q, field
from .lanes import holds_lanes, lift, load_simd, simd_width, sincos, store, store_simd
from .packing import (
    FLOATING,
    PLACE,
    PLACE_COS,
    PLACE_SIN,
    PLANAR,
    PRISMATIC,
    RATIO,
    REVOLUTE,
    SHIFT,
    SLIDE,
    TRANSLATION,
    axis,
    idx_q,
    idx_v,
    joint_constant,
    joint_constant3,
    joint_constant9,
    kind,
    njoints,
    offset,
    ratio,
    unit_motion,
)

SINE = field("_sine", ("rows",))
COSINE = field("_cosine", ("rows",))


@kernel
def displacement(r, i, x):
    """Return the angle or displacement of joint i with coordinate x.

    It is x, or ratio x + shift for a mimic joint.
    """
    return joint_constant(r, i, RATIO) * x + joint_constant(r, i, SHIFT)


@kernel
def compute_sines(r):
    """Compute sines and cosines for ``joint_placement`` for one state, several joints at a time.

    sin(displacement(q_i)), cos(displacement(q_i))
    """
    n, s, c = njoints(r), offset(r, SINE), offset(r, COSINE)
    for i in range(1, n + 1):
        store(r.work, c + i, displacement(r, i, entry(r, Q, idx_q(r, i))))
    for i in range(1, n + 1, simd_width(r.work)):
        sine, cosine = sincos(load_simd(r.work, c + i, n + 1 - i))
        store_simd(r.work, s + i, n + 1 - i, sine)
        store_simd(r.work, c + i, n + 1 - i, cosine)


@kernel
def sine_and_cosine(r, i, x):
    """Return sine and cosine of the angle of revolute joint i.

    For one state, ``compute_sines`` has computed them; for a batch, they are computed here for
    several states at a time.
    """
    if holds_lanes(r.work):
        return sincos(displacement(r, i, x))
    return entry(r, SINE, i), entry(r, COSINE, i)


@kernel
def quaternion_at(r, k):
    """Return the rotation of the quaternion (x, y, z, w) at number k of q."""
    return quaternion_rotation(
        entry(r, Q, k), entry(r, Q, k + 1), entry(r, Q, k + 2), entry(r, Q, k + 3)
    )


@kernel
def revolute_placement(r, i):
    """Return the placement of a revolute joint, by Rodrigues' formula.

    The rotation by an angle x about an axis u after a constant rotation P is
    P u u' + sin x P [u] + cos x P (1 - u u'); its three matrices are constants of the model.
    """
    P = joint_constant9(r, i, PLACE)
    S = joint_constant9(r, i, PLACE_SIN)
    C = joint_constant9(r, i, PLACE_COS)
    x = entry(r, Q, idx_q(r, i))
    s, c = sine_and_cosine(r, i, x)
    return SE3(
        (
            P[0] + s * S[0] + c * C[0],
            P[1] + s * S[1] + c * C[1],
            P[2] + s * S[2] + c * C[2],
            P[3] + s * S[3] + c * C[3],
            P[4] + s * S[4] + c * C[4],
            P[5] + s * S[5] + c * C[5],
            P[6] + s * S[6] + c * C[6],
            P[7] + s * S[7] + c * C[7],
            P[8] + s * S[8] + c * C[8],
        ),
        lift3(joint_constant3(r, i, TRANSLATION), x),
    )


@kernel
def prismatic_placement(r, i):
    """Return the placement of a prismatic joint: the constant one, shifted along the axis."""
    x = entry(r, Q, idx_q(r, i))
    t = scale(displacement(r, i, x), joint_constant3(r, i, SLIDE))
    return SE3(lift9(joint_constant9(r, i, PLACE), x), add(joint_constant3(r, i, TRANSLATION), t))


@kernel
def multi_dof_placement(r, i):
    """Return the placement of a planar, spherical or floating joint: P (R, t), with P constant."""
    k = idx_q(r, i)
    x = entry(r, Q, k)
    zero, unit = lift(0.0, x), lift(1.0, x)
    if kind(r, i) == PLANAR:
        s, c = sincos(entry(r, Q, k + 2))
        R, t = (c, -s, zero, s, c, zero, zero, zero, unit), (x, entry(r, Q, k + 1), zero)
    elif kind(r, i) == FLOATING:
        R, t = quaternion_at(r, k + 3), load3(r.work, offset(r, Q) + k)
    else:
        R, t = quaternion_at(r, k), (zero, zero, zero)
    P = joint_constant9(r, i, PLACE)
    return SE3(product(P, R), add(joint_constant3(r, i, TRANSLATION), rotate(P, t)))


@kernel
def joint_placement(r, i):
    """Return the placement of joint i in its parent's frame, liMi."""
    k = kind(r, i)
    if k == REVOLUTE:
        return revolute_placement(r, i)
    if k == PRISMATIC:
        return prismatic_placement(r, i)
    return multi_dof_placement(r, i)


@kernel
def multi_dof_subspace_times(r, i, field):
    """Return S x of a planar, spherical or floating joint, with x its numbers in a field."""
    k = offset(r, field) + idx_v(r, i)
    x = load3(r.work, k)
    if kind(r, i) == FLOATING:
        return Motion(x, load3(r.work, k + 3))
    zero = zero3(x[0])
    if kind(r, i) == PLANAR:
        return Motion((x[0], x[1], zero[0]), (zero[0], zero[0], x[2]))
    return Motion(zero, x)


@kernel
def add_subspace_times(r, i, m, field):
    """Return m + S x, with x the numbers of joint i in a field with nv numbers."""
    k = kind(r, i)
    if k == REVOLUTE:
        u = scale(ratio(r, i) * entry(r, field, idx_v(r, i)), axis(r, i))
        return Motion(m.linear, add(m.angular, u))
    if k == PRISMATIC:
        u = scale(ratio(r, i) * entry(r, field, idx_v(r, i)), axis(r, i))
        return Motion(add(m.linear, u), m.angular)
    return motion_add(m, multi_dof_subspace_times(r, i, field))


@kernel
def cross_subspace_times(r, i, v, field):
    """Return v x (S x), with x the numbers of joint i in a field with nv numbers."""
    k = kind(r, i)
    if k == REVOLUTE:
        u = scale(ratio(r, i) * entry(r, field, idx_v(r, i)), axis(r, i))
        return Motion(cross(v.linear, u), cross(v.angular, u))
    if k == PRISMATIC:
        u = scale(ratio(r, i) * entry(r, field, idx_v(r, i)), axis(r, i))
        return Motion(cross(v.angular, u), zero3(v.angular[0]))
    return motion_cross(v, multi_dof_subspace_times(r, i, field))


@kernel
def add_subspace_transpose_times(r, i, f, field):
    """Add S' f to the numbers of joint i in a field with nv numbers."""
    n = idx_v(r, i)
    k = kind(r, i)
    if k == REVOLUTE:
        add_to_entry(r, field, n, ratio(r, i) * dot(axis(r, i), f.angular))
    elif k == PRISMATIC:
        add_to_entry(r, field, n, ratio(r, i) * dot(axis(r, i), f.linear))
    elif k == PLANAR:
        add_to_entry(r, field, n, f.linear[0])
        add_to_entry(r, field, n + 1, f.linear[1])
        add_to_entry(r, field, n + 2, f.angular[2])
    else:
        if k == FLOATING:
            for c in range(3):
                add_to_entry(r, field, n + c, f.linear[c])
            n = n + 3
        for c in range(3):
            add_to_entry(r, field, n + c, f.angular[c])


@kernel
def column(r, i, c):
    """Return column c of S, a constant, without the multiplier of a mimic joint."""
    k, u = kind(r, i), axis(r, i)
    zero = zero3(u[0])
    if k == REVOLUTE:
        return Motion(zero, u)
    if k == PRISMATIC:
        return Motion(u, zero)
    return unit_motion(r, k, c)
