# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Joints in kernels: placement and motion subspace S, which is constant in the joint frame.

S has a few columns: the axis for a revolute or prismatic joint, unit motions for a planar,
spherical or floating one. Textbook formulas in S apply to all types: S x, S' f, and single columns.
"""
from .algebra import (
    SE3,
    Motion,
    add,
    constant3,
    constant9,
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
from .compiler import kernel
from .fields import Q, field
from .lanes import (
    constant,
    holds_lanes,
    lift,
    load,
    load_simd,
    simd_width,
    sincos,
    store,
    store_simd,
)
from .layout import (
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
    UNITS,
    UNITS_OF_KIND,
    axis,
    constants,
    idx_q,
    idx_v,
    increase,
    kind,
    njoints,
    offset,
    ratio,
)

SINE = field("_sine", ("rows",))
COSINE = field("_cosine", ("rows",))


@kernel
def displacement(r, i, x):
    """Angle or displacement of joint i with coordinate x; differs from x for a mimic joint."""
    row = constants(i)
    return constant(r.floats, row + RATIO) * x + constant(r.floats, row + SHIFT)


@kernel
def compute_sines(r):
    """Sines and cosines for ``joint_placement`` for one state, several joints at a time."""
    n, s, c = njoints(r), offset(r, SINE), offset(r, COSINE)
    for i in range(1, n + 1):
        x = load(r.work, offset(r, Q) + idx_q(r, i))
        store(r.work, c + i, displacement(r, i, x))
    for i in range(1, n + 1, simd_width(r.work)):
        sine, cosine = sincos(load_simd(r.work, c + i, n + 1 - i))
        store_simd(r.work, s + i, n + 1 - i, sine)
        store_simd(r.work, c + i, n + 1 - i, cosine)


@kernel
def sine_and_cosine(r, i, x):
    """Sine and cosine of the angle of revolute joint i.

    For one state, ``compute_sines`` has computed them; for a batch, they are computed here for
    eight states at a time.
    """
    if holds_lanes(r.work):
        return sincos(displacement(r, i, x))
    return load(r.work, offset(r, SINE) + i), load(r.work, offset(r, COSINE) + i)


@kernel
def load_rotation(r, n):
    """Rotation of the quaternion at offset n."""
    return quaternion_rotation(load(r.work, n), load(r.work, n + 1), load(r.work, n + 2),
                               load(r.work, n + 3))


@kernel
def revolute_placement(r, i):
    """Pose of a revolute joint.

    The rotation about an axis u after a constant rotation P is P uu' + sin P [u]
    + cos P (1 - uu') (Rodrigues' formula); its three matrices are constants of the model.
    """
    row = constants(i)
    P = constant9(r.floats, row + PLACE)
    S = constant9(r.floats, row + PLACE_SIN)
    C = constant9(r.floats, row + PLACE_COS)
    x = load(r.work, offset(r, Q) + idx_q(r, i))
    s, c = sine_and_cosine(r, i, x)
    return SE3((P[0] + s * S[0] + c * C[0], P[1] + s * S[1] + c * C[1],
                P[2] + s * S[2] + c * C[2], P[3] + s * S[3] + c * C[3],
                P[4] + s * S[4] + c * C[4], P[5] + s * S[5] + c * C[5],
                P[6] + s * S[6] + c * C[6], P[7] + s * S[7] + c * C[7],
                P[8] + s * S[8] + c * C[8]), lift3(constant3(r.floats, row + TRANSLATION), x))


@kernel
def prismatic_placement(r, i):
    """Pose of a prismatic joint."""
    row = constants(i)
    x = load(r.work, offset(r, Q) + idx_q(r, i))
    t = scale(displacement(r, i, x), constant3(r.floats, row + SLIDE))
    return SE3(lift9(constant9(r.floats, row + PLACE), x),
               add(constant3(r.floats, row + TRANSLATION), t))


@kernel
def multi_dof_placement(r, i):
    """Pose of a planar, spherical or floating joint."""
    row, k, n = constants(i), kind(r, i), offset(r, Q) + idx_q(r, i)
    x = load(r.work, n)
    zero, one = lift(0.0, x), lift(1.0, x)
    if k == PLANAR:
        s, c = sincos(load(r.work, n + 2))
        R, t = (c, -s, zero, s, c, zero, zero, zero, one), (x, load(r.work, n + 1), zero)
    elif k == FLOATING:
        R, t = load_rotation(r, n + 3), load3(r.work, n)
    else:
        R, t = load_rotation(r, n), (zero, zero, zero)
    P = constant9(r.floats, row + PLACE)
    return SE3(product(P, R), add(constant3(r.floats, row + TRANSLATION), rotate(P, t)))


@kernel
def joint_placement(r, i):
    """Pose of the frame of joint i in its parent's frame."""
    k = kind(r, i)
    if k == REVOLUTE:
        return revolute_placement(r, i)
    if k == PRISMATIC:
        return prismatic_placement(r, i)
    return multi_dof_placement(r, i)


@kernel
def multi_dof_subspace_times(r, i, n):
    """S x of a planar, spherical or floating joint, with x at offset n."""
    x = load3(r.work, n)
    if kind(r, i) == FLOATING:
        return Motion(x, load3(r.work, n + 3))
    zero = zero3(x[0])
    if kind(r, i) == PLANAR:
        return Motion((x[0], x[1], zero[0]), (zero[0], zero[0], x[2]))
    return Motion(zero, x)


@kernel
def add_subspace_times(r, i, m, x):
    """m + S x, with x the offset of a field with nv numbers."""
    n = x + idx_v(r, i)
    k = kind(r, i)
    if k == REVOLUTE:
        u = scale(ratio(r, i) * load(r.work, n), axis(r, i))
        return Motion(m.linear, add(m.angular, u))
    if k == PRISMATIC:
        u = scale(ratio(r, i) * load(r.work, n), axis(r, i))
        return Motion(add(m.linear, u), m.angular)
    return motion_add(m, multi_dof_subspace_times(r, i, n))


@kernel
def cross_subspace_times(r, i, v, x):
    """v x (S x), with x the offset of a field with nv numbers."""
    n = x + idx_v(r, i)
    k = kind(r, i)
    if k == REVOLUTE:
        u = scale(ratio(r, i) * load(r.work, n), axis(r, i))
        return Motion(cross(v.linear, u), cross(v.angular, u))
    if k == PRISMATIC:
        u = scale(ratio(r, i) * load(r.work, n), axis(r, i))
        return Motion(cross(v.angular, u), zero3(v.angular[0]))
    return motion_cross(v, multi_dof_subspace_times(r, i, n))


@kernel
def add_subspace_transpose_times(r, i, f, x, step):
    """x += S' f for the nv numbers at offset x with stride ``step``."""
    n = x + step * idx_v(r, i)
    k = kind(r, i)
    if k == REVOLUTE:
        u = axis(r, i)
        increase(r.work, n, ratio(r, i) * dot(u, f.angular))
    elif k == PRISMATIC:
        u = axis(r, i)
        increase(r.work, n, ratio(r, i) * dot(u, f.linear))
    elif k == PLANAR:
        increase(r.work, n, f.linear[0])
        increase(r.work, n + step, f.linear[1])
        increase(r.work, n + 2 * step, f.angular[2])
    else:
        if k == FLOATING:
            for c in range(3):
                increase(r.work, n + c * step, f.linear[c])
            n = n + 3 * step
        for c in range(3):
            increase(r.work, n + c * step, f.angular[c])


@kernel
def column(r, i, c):
    """Column c of S, in plain floats, without the multiplier of a mimic joint."""
    k = kind(r, i)
    zero = (0.0, 0.0, 0.0)
    if k == REVOLUTE:
        return Motion(zero, axis(r, i))
    if k == PRISMATIC:
        return Motion(axis(r, i), zero)
    unit = UNITS + 6 * (UNITS_OF_KIND * (k - PLANAR) + c)
    return Motion(constant3(r.floats, unit), constant3(r.floats, unit + 3))
