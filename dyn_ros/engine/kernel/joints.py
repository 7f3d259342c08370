# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Joints in kernels: placement and motion subspace S, which is constant in the joint frame.

S has a few columns: the axis for a revolute or prismatic joint, unit motions for a planar,
spherical or floating one. Textbook formulas in S apply to all types: S x, S' f, and single columns.
"""

from ..machine_code.declare import kernel
from . import algebra as al
from . import lanes as la
from . import packing as ly
from .fields import Q, field

SINE = field("_sine", ("rows",))
COSINE = field("_cosine", ("rows",))


@kernel
def displacement(r, i, x):
    """Angle or displacement of joint i with coordinate x; differs from x for a mimic joint."""
    row = ly.constants(i)
    return la.constant(r.floats, row + ly.RATIO) * x + la.constant(r.floats, row + ly.SHIFT)


@kernel
def compute_sines(r):
    """Sines and cosines for ``joint_placement`` for one state, several joints at a time."""
    n, s, c = ly.njoints(r), ly.offset(r, SINE), ly.offset(r, COSINE)
    for i in range(1, n + 1):
        x = la.load(r.work, ly.offset(r, Q) + ly.idx_q(r, i))
        la.store(r.work, c + i, displacement(r, i, x))
    for i in range(1, n + 1, la.simd_width(r.work)):
        sine, cosine = la.sincos(la.load_simd(r.work, c + i, n + 1 - i))
        la.store_simd(r.work, s + i, n + 1 - i, sine)
        la.store_simd(r.work, c + i, n + 1 - i, cosine)


@kernel
def sine_and_cosine(r, i, x):
    """Sine and cosine of the angle of revolute joint i.

    For one state, ``compute_sines`` has computed them; for a batch, they are computed here for
    several states at a time.
    """
    if la.holds_lanes(r.work):
        return la.sincos(displacement(r, i, x))
    return la.load(r.work, ly.offset(r, SINE) + i), la.load(r.work, ly.offset(r, COSINE) + i)


@kernel
def load_rotation(r, n):
    """Rotation of the quaternion at offset n."""
    return al.quaternion_rotation(
        la.load(r.work, n), la.load(r.work, n + 1), la.load(r.work, n + 2), la.load(r.work, n + 3)
    )


@kernel
def revolute_placement(r, i):
    """Pose of a revolute joint.

    The rotation about an axis u after a constant rotation P is P uu' + sin P [u]
    + cos P (1 - uu') (Rodrigues' formula); its three matrices are constants of the model.
    """
    row = ly.constants(i)
    P = al.constant9(r.floats, row + ly.PLACE)
    S = al.constant9(r.floats, row + ly.PLACE_SIN)
    C = al.constant9(r.floats, row + ly.PLACE_COS)
    x = la.load(r.work, ly.offset(r, Q) + ly.idx_q(r, i))
    s, c = sine_and_cosine(r, i, x)
    return al.SE3(
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
        al.lift3(al.constant3(r.floats, row + ly.TRANSLATION), x),
    )


@kernel
def prismatic_placement(r, i):
    """Pose of a prismatic joint."""
    row = ly.constants(i)
    x = la.load(r.work, ly.offset(r, Q) + ly.idx_q(r, i))
    t = al.scale(displacement(r, i, x), al.constant3(r.floats, row + ly.SLIDE))
    return al.SE3(
        al.lift9(al.constant9(r.floats, row + ly.PLACE), x),
        al.add(al.constant3(r.floats, row + ly.TRANSLATION), t),
    )


@kernel
def multi_dof_placement(r, i):
    """Pose of a planar, spherical or floating joint."""
    row, k, n = ly.constants(i), ly.kind(r, i), ly.offset(r, Q) + ly.idx_q(r, i)
    x = la.load(r.work, n)
    zero, one = la.lift(0.0, x), la.lift(1.0, x)
    if k == ly.PLANAR:
        s, c = la.sincos(la.load(r.work, n + 2))
        R, t = (c, -s, zero, s, c, zero, zero, zero, one), (x, la.load(r.work, n + 1), zero)
    elif k == ly.FLOATING:
        R, t = load_rotation(r, n + 3), al.load3(r.work, n)
    else:
        R, t = load_rotation(r, n), (zero, zero, zero)
    P = al.constant9(r.floats, row + ly.PLACE)
    return al.SE3(
        al.product(P, R), al.add(al.constant3(r.floats, row + ly.TRANSLATION), al.rotate(P, t))
    )


@kernel
def joint_placement(r, i):
    """Pose of the frame of joint i in its parent's frame."""
    k = ly.kind(r, i)
    if k == ly.REVOLUTE:
        return revolute_placement(r, i)
    if k == ly.PRISMATIC:
        return prismatic_placement(r, i)
    return multi_dof_placement(r, i)


@kernel
def multi_dof_subspace_times(r, i, n):
    """S x of a planar, spherical or floating joint, with x at offset n."""
    x = al.load3(r.work, n)
    if ly.kind(r, i) == ly.FLOATING:
        return al.Motion(x, al.load3(r.work, n + 3))
    zero = al.zero3(x[0])
    if ly.kind(r, i) == ly.PLANAR:
        return al.Motion((x[0], x[1], zero[0]), (zero[0], zero[0], x[2]))
    return al.Motion(zero, x)


@kernel
def add_subspace_times(r, i, m, x):
    """m + S x, with x the offset of a field with nv numbers."""
    n = x + ly.idx_v(r, i)
    k = ly.kind(r, i)
    if k == ly.REVOLUTE:
        u = al.scale(ly.ratio(r, i) * la.load(r.work, n), ly.axis(r, i))
        return al.Motion(m.linear, al.add(m.angular, u))
    if k == ly.PRISMATIC:
        u = al.scale(ly.ratio(r, i) * la.load(r.work, n), ly.axis(r, i))
        return al.Motion(al.add(m.linear, u), m.angular)
    return al.motion_add(m, multi_dof_subspace_times(r, i, n))


@kernel
def cross_subspace_times(r, i, v, x):
    """v x (S x), with x the offset of a field with nv numbers."""
    n = x + ly.idx_v(r, i)
    k = ly.kind(r, i)
    if k == ly.REVOLUTE:
        u = al.scale(ly.ratio(r, i) * la.load(r.work, n), ly.axis(r, i))
        return al.Motion(al.cross(v.linear, u), al.cross(v.angular, u))
    if k == ly.PRISMATIC:
        u = al.scale(ly.ratio(r, i) * la.load(r.work, n), ly.axis(r, i))
        return al.Motion(al.cross(v.angular, u), al.zero3(v.angular[0]))
    return al.motion_cross(v, multi_dof_subspace_times(r, i, n))


@kernel
def add_subspace_transpose_times(r, i, f, x, step):
    """x += S' f for the nv numbers at offset x with stride ``step``."""
    n = x + step * ly.idx_v(r, i)
    k = ly.kind(r, i)
    if k == ly.REVOLUTE:
        u = ly.axis(r, i)
        ly.increase(r.work, n, ly.ratio(r, i) * al.dot(u, f.angular))
    elif k == ly.PRISMATIC:
        u = ly.axis(r, i)
        ly.increase(r.work, n, ly.ratio(r, i) * al.dot(u, f.linear))
    elif k == ly.PLANAR:
        ly.increase(r.work, n, f.linear[0])
        ly.increase(r.work, n + step, f.linear[1])
        ly.increase(r.work, n + 2 * step, f.angular[2])
    else:
        if k == ly.FLOATING:
            for c in range(3):
                ly.increase(r.work, n + c * step, f.linear[c])
            n = n + 3 * step
        for c in range(3):
            ly.increase(r.work, n + c * step, f.angular[c])


@kernel
def column(r, i, c):
    """Column c of S, in plain floats, without the multiplier of a mimic joint."""
    k = ly.kind(r, i)
    zero = (0.0, 0.0, 0.0)
    if k == ly.REVOLUTE:
        return al.Motion(zero, ly.axis(r, i))
    if k == ly.PRISMATIC:
        return al.Motion(ly.axis(r, i), zero)
    unit = ly.UNITS + 6 * (ly.UNITS_OF_KIND * (k - ly.PLANAR) + c)
    return al.Motion(al.constant3(r.floats, unit), al.constant3(r.floats, unit + 3))
