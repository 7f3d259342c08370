# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Spatial algebra on tuples, in one module, as kernels import it whole; linear part first.

Featherstone, Rigid Body Dynamics Algorithms (2008), chapter 2, with linear and angular parts
exchanged.
"""

from collections import namedtuple
from collections.abc import Callable
from typing import Any

from ..machine_code.declare import kernel
from .lanes import constant, fabs, holds_lanes, lift, load, store

Motion = namedtuple("Motion", "linear angular")  # m/s, rad/s; or its time derivative
Force = namedtuple("Force", "linear angular")  # N, N m; or momentum
SE3 = namedtuple("SE3", "rotation translation")  # row-major 9 numbers; m
Inertia = namedtuple("Inertia", "mass first_moment rotational")
# kg; mass times center of mass, kg m; Symmetric about the frame's origin, kg m2
ArticulatedInertia = namedtuple("ArticulatedInertia", "linear cross angular")
# force = [linear cross; cross' angular] motion: Symmetric, row-major 9 numbers, Symmetric
Symmetric = namedtuple("Symmetric", "xx xy yy xz yz zz")
CoriolisInertia = namedtuple("CoriolisInertia", "momentum angular")
# force = [0 -[momentum]; 0 angular] motion: three numbers, row-major 9 numbers


# --- three numbers


@kernel
def add(a, b):
    """Return a + b."""
    return a[0] + b[0], a[1] + b[1], a[2] + b[2]


@kernel
def sub(a, b):
    """Return a - b."""
    return a[0] - b[0], a[1] - b[1], a[2] - b[2]


@kernel
def scale(s, a):
    """Return s a."""
    return s * a[0], s * a[1], s * a[2]


@kernel
def dot(a, b):
    """Return a . b."""
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]


@kernel
def cross(a, b):
    """Return a x b."""
    return a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]


@kernel
def lift3(a, like):
    """Return three constants as numbers of the type of ``like``."""
    return lift(a[0], like), lift(a[1], like), lift(a[2], like)


@kernel
def zero3(like):
    """Return three zeros of the type of ``like``."""
    return lift3((0.0, 0.0, 0.0), like)


# --- rotations and 3 x 3 matrices


@kernel
def rotate(R, a):
    """Return R a."""
    return (
        R[0] * a[0] + R[1] * a[1] + R[2] * a[2],
        R[3] * a[0] + R[4] * a[1] + R[5] * a[2],
        R[6] * a[0] + R[7] * a[1] + R[8] * a[2],
    )


@kernel
def rotate_inverse(R, a):
    """Return R' a."""
    return (
        R[0] * a[0] + R[3] * a[1] + R[6] * a[2],
        R[1] * a[0] + R[4] * a[1] + R[7] * a[2],
        R[2] * a[0] + R[5] * a[1] + R[8] * a[2],
    )


@kernel
def product(A, B):
    """Return A B."""
    return (
        A[0] * B[0] + A[1] * B[3] + A[2] * B[6],
        A[0] * B[1] + A[1] * B[4] + A[2] * B[7],
        A[0] * B[2] + A[1] * B[5] + A[2] * B[8],
        A[3] * B[0] + A[4] * B[3] + A[5] * B[6],
        A[3] * B[1] + A[4] * B[4] + A[5] * B[7],
        A[3] * B[2] + A[4] * B[5] + A[5] * B[8],
        A[6] * B[0] + A[7] * B[3] + A[8] * B[6],
        A[6] * B[1] + A[7] * B[4] + A[8] * B[7],
        A[6] * B[2] + A[7] * B[5] + A[8] * B[8],
    )


@kernel
def lift9(A, like):
    """Return nine constants as numbers of the type of ``like``."""
    return (
        lift(A[0], like),
        lift(A[1], like),
        lift(A[2], like),
        lift(A[3], like),
        lift(A[4], like),
        lift(A[5], like),
        lift(A[6], like),
        lift(A[7], like),
        lift(A[8], like),
    )


@kernel
def outer_product(a, b):
    """Return a b'."""
    return (
        a[0] * b[0],
        a[0] * b[1],
        a[0] * b[2],
        a[1] * b[0],
        a[1] * b[1],
        a[1] * b[2],
        a[2] * b[0],
        a[2] * b[1],
        a[2] * b[2],
    )


@kernel
def add9(A, B):
    """Return A + B."""
    return (
        A[0] + B[0],
        A[1] + B[1],
        A[2] + B[2],
        A[3] + B[3],
        A[4] + B[4],
        A[5] + B[5],
        A[6] + B[6],
        A[7] + B[7],
        A[8] + B[8],
    )


@kernel
def transposed(A):
    """Return A'."""
    return A[0], A[3], A[6], A[1], A[4], A[7], A[2], A[5], A[8]


@kernel
def skew(a):
    """Return the cross-product matrix [a]."""
    zero = lift(0.0, a[0])
    return zero, -a[2], a[1], a[2], zero, -a[0], -a[1], a[0], zero


@kernel
def quaternion_rotation(x, y, z, w):
    """Return the rotation matrix of a quaternion of any nonzero norm."""
    s = 2.0 / (x * x + y * y + z * z + w * w)
    return (
        1.0 - s * (y * y + z * z),
        s * (x * y - z * w),
        s * (x * z + y * w),
        s * (x * y + z * w),
        1.0 - s * (x * x + z * z),
        s * (y * z - x * w),
        s * (x * z - y * w),
        s * (y * z + x * w),
        1.0 - s * (x * x + y * y),
    )


@kernel
def symmetric_times(S, a):
    """Return S a."""
    return (
        S.xx * a[0] + S.xy * a[1] + S.xz * a[2],
        S.xy * a[0] + S.yy * a[1] + S.yz * a[2],
        S.xz * a[0] + S.yz * a[1] + S.zz * a[2],
    )


@kernel
def symmetric_add(a, b):
    """Return a + b."""
    return Symmetric(a[0] + b[0], a[1] + b[1], a[2] + b[2], a[3] + b[3], a[4] + b[4], a[5] + b[5])


@kernel
def symmetric_norm_bound(S):
    """Return a bound of |eigenvalues| of S, at most twice its trace if S is semidefinite."""
    return fabs(S.xx) + fabs(S.yy) + fabs(S.zz) + fabs(S.xy) + fabs(S.xz) + fabs(S.yz)


@kernel
def rotate_symmetric(R, S):
    """Return R S R'."""
    A = product(R, (S.xx, S.xy, S.xz, S.xy, S.yy, S.yz, S.xz, S.yz, S.zz))
    return Symmetric(
        A[0] * R[0] + A[1] * R[1] + A[2] * R[2],
        A[0] * R[3] + A[1] * R[4] + A[2] * R[5],
        A[3] * R[3] + A[4] * R[4] + A[5] * R[5],
        A[0] * R[6] + A[1] * R[7] + A[2] * R[8],
        A[3] * R[6] + A[4] * R[7] + A[5] * R[8],
        A[6] * R[6] + A[7] * R[7] + A[8] * R[8],
    )


# --- motions and forces


def _linear(kind: type) -> tuple[Callable[..., Any], ...]:
    """Return sum, difference, multiple, rotation and load of motions, or of forces."""

    @kernel
    def added(a, b):
        """Return a + b."""
        return kind(add(a.linear, b.linear), add(a.angular, b.angular))

    @kernel
    def subtracted(a, b):
        """Return a - b."""
        return kind(sub(a.linear, b.linear), sub(a.angular, b.angular))

    @kernel
    def scaled(s, a):
        """Return s a."""
        return kind(scale(s, a.linear), scale(s, a.angular))

    @kernel
    def rotated(R, a):
        """Return R a."""
        return kind(rotate(R, a.linear), rotate(R, a.angular))

    @kernel
    def loaded(a, i):
        """Return the spatial vector from number i on."""
        return kind(load3(a, i), load3(a, i + 3))

    return added, subtracted, scaled, rotated, loaded


motion_add, motion_sub, motion_scale, motion_rotated, load_motion = _linear(Motion)
force_add, force_sub, force_scale, force_rotated, load_force = _linear(Force)


@kernel
def motion_cross(v, m):
    """Return v x m."""
    return Motion(
        add(cross(v.angular, m.linear), cross(v.linear, m.angular)), cross(v.angular, m.angular)
    )


@kernel
def force_cross(v, f):
    """Return v x* f."""
    return Force(
        cross(v.angular, f.linear), add(cross(v.angular, f.angular), cross(v.linear, f.linear))
    )


@kernel
def power(f, m):
    """Return the scalar product f . m."""
    return dot(f.linear, m.linear) + dot(f.angular, m.angular)


@kernel
def motion_to_child(X, m):
    """Return X^-1 m: transform a motion from the parent frame to the child frame placed at X."""
    return Motion(
        rotate_inverse(X.rotation, sub(m.linear, cross(X.translation, m.angular))),
        rotate_inverse(X.rotation, m.angular),
    )


@kernel
def force_to_parent(X, f):
    """Return X* f: transform a force from the child frame placed at X to the parent frame."""
    linear = rotate(X.rotation, f.linear)
    return Force(linear, add(rotate(X.rotation, f.angular), cross(X.translation, linear)))


@kernel
def motion_to_parent(X, m):
    """Return X m: transform a motion from the child frame placed at X to the parent frame."""
    angular = rotate(X.rotation, m.angular)
    return Motion(add(rotate(X.rotation, m.linear), cross(X.translation, angular)), angular)


@kernel
def force_to_child(X, f):
    """Return X*^-1 f: transform a force from the parent frame to the child frame placed at X."""
    moment = sub(f.angular, cross(X.translation, f.linear))
    return Force(rotate_inverse(X.rotation, f.linear), rotate_inverse(X.rotation, moment))


@kernel
def motion_moved(p, m):
    """Return a motion m about O + p, given about O."""
    return Motion(add(m.linear, cross(m.angular, p)), m.angular)


@kernel
def force_moved(p, f):
    """Return a force f about O, given about O + p."""
    return Force(f.linear, add(f.angular, cross(p, f.linear)))


@kernel
def compose(X, Y):
    """Return X Y."""
    return SE3(
        product(X.rotation, Y.rotation), add(X.translation, rotate(X.rotation, Y.translation))
    )


@kernel
def inverse(X):
    """Return the inverse placement X^-1."""
    return SE3(transposed(X.rotation), scale(-1.0, rotate_inverse(X.rotation, X.translation)))


# --- inertias


@kernel
def inertia_times(Y, v):
    """Return Y v, the momentum of a rigid body; or Y a, a force."""
    return Force(
        add(scale(Y.mass, v.linear), cross(v.angular, Y.first_moment)),
        add(symmetric_times(Y.rotational, v.angular), cross(Y.first_moment, v.linear)),
    )


@kernel
def body_force(Y, v, a):
    """Return Y a + v x* Y v, the force that gives a rigid body with velocity v the acceleration a.

    With the acceleration of the origin, a.linear + v.angular x v.linear, terms cancel.
    """
    w, h = v.angular, Y.first_moment
    linear, momentum_of_spin = add(a.linear, cross(w, v.linear)), symmetric_times(Y.rotational, w)
    return Force(
        add(add(scale(Y.mass, linear), cross(a.angular, h)), cross(w, cross(w, h))),
        add(
            add(symmetric_times(Y.rotational, a.angular), cross(w, momentum_of_spin)),
            cross(h, linear),
        ),
    )


@kernel
def inertia_add(a, b):
    """Return a + b, inertias about the same point."""
    return Inertia(
        a.mass + b.mass,
        add(a.first_moment, b.first_moment),
        symmetric_add(a.rotational, b.rotational),
    )


@kernel
def inertia_rotated(R, Y):
    """Return R Y R', with Y expressed in other axes."""
    return Inertia(Y.mass, rotate(R, Y.first_moment), rotate_symmetric(R, Y.rotational))


@kernel
def inertia_moved(p, Y):
    """Return a rigid-body inertia Y about O, given about O + p."""
    m, h, S = Y
    k = add(h, scale(m, p))  # S - [p] [h] - [h] [p] - m [p] [p]
    return Inertia(
        m,
        k,
        Symmetric(
            S.xx + p[1] * (h[1] + k[1]) + p[2] * (h[2] + k[2]),
            S.xy - h[0] * p[1] - p[0] * k[1],
            S.yy + p[0] * (h[0] + k[0]) + p[2] * (h[2] + k[2]),
            S.xz - h[0] * p[2] - p[0] * k[2],
            S.yz - h[1] * p[2] - p[1] * k[2],
            S.zz + p[0] * (h[0] + k[0]) + p[1] * (h[1] + k[1]),
        ),
    )


@kernel
def articulated(Y):
    """Convert a rigid-body inertia Y to an articulated-body inertia."""
    h = Y.first_moment
    m, zero = lift(Y.mass, h[0]), lift(0.0, h[0])
    return ArticulatedInertia(
        Symmetric(m, zero, m, zero, zero, m),
        (zero, h[2], -h[1], -h[2], zero, h[0], h[1], -h[0], zero),
        Y.rotational,
    )


@kernel
def articulated_times(Y, m):
    """Return Y m, a force."""
    return Force(
        add(symmetric_times(Y.linear, m.linear), rotate(Y.cross, m.angular)),
        add(rotate_inverse(Y.cross, m.linear), symmetric_times(Y.angular, m.angular)),
    )


@kernel
def articulated_add(a, b):
    """Return a + b."""
    return ArticulatedInertia(
        symmetric_add(a.linear, b.linear),
        (
            a.cross[0] + b.cross[0],
            a.cross[1] + b.cross[1],
            a.cross[2] + b.cross[2],
            a.cross[3] + b.cross[3],
            a.cross[4] + b.cross[4],
            a.cross[5] + b.cross[5],
            a.cross[6] + b.cross[6],
            a.cross[7] + b.cross[7],
            a.cross[8] + b.cross[8],
        ),
        symmetric_add(a.angular, b.angular),
    )


@kernel
def articulated_less_outer(Y, U, s):
    """Return Y - s U U' with U a force."""
    f, n = U
    sf, sn = scale(s, f), scale(s, n)
    A, B, C = Y
    return ArticulatedInertia(
        Symmetric(
            A.xx - sf[0] * f[0],
            A.xy - sf[0] * f[1],
            A.yy - sf[1] * f[1],
            A.xz - sf[0] * f[2],
            A.yz - sf[1] * f[2],
            A.zz - sf[2] * f[2],
        ),
        (
            B[0] - sf[0] * n[0],
            B[1] - sf[0] * n[1],
            B[2] - sf[0] * n[2],
            B[3] - sf[1] * n[0],
            B[4] - sf[1] * n[1],
            B[5] - sf[1] * n[2],
            B[6] - sf[2] * n[0],
            B[7] - sf[2] * n[1],
            B[8] - sf[2] * n[2],
        ),
        Symmetric(
            C.xx - sn[0] * n[0],
            C.xy - sn[0] * n[1],
            C.yy - sn[1] * n[1],
            C.xz - sn[0] * n[2],
            C.yz - sn[1] * n[2],
            C.zz - sn[2] * n[2],
        ),
    )


@kernel
def articulated_rotated(R, Y):
    """Return R Y R'."""
    return ArticulatedInertia(
        rotate_symmetric(R, Y.linear),
        product(R, product(Y.cross, transposed(R))),
        rotate_symmetric(R, Y.angular),
    )


@kernel
def articulated_moved(p, Y):
    """Return an articulated-body inertia Y about O, given about O + p."""
    A, B, C = Y  # N = B - A [p]; C - B' [p] + [p] N
    N = (
        B[0] - A.xy * p[2] + A.xz * p[1],
        B[1] + A.xx * p[2] - A.xz * p[0],
        B[2] - A.xx * p[1] + A.xy * p[0],
        B[3] - A.yy * p[2] + A.yz * p[1],
        B[4] + A.xy * p[2] - A.yz * p[0],
        B[5] - A.xy * p[1] + A.yy * p[0],
        B[6] - A.yz * p[2] + A.zz * p[1],
        B[7] + A.xz * p[2] - A.zz * p[0],
        B[8] - A.xz * p[1] + A.yz * p[0],
    )
    return ArticulatedInertia(
        A,
        N,
        Symmetric(
            C.xx - B[3] * p[2] + B[6] * p[1] + p[1] * N[6] - p[2] * N[3],
            C.xy - B[4] * p[2] + B[7] * p[1] + p[2] * N[0] - p[0] * N[6],
            C.yy + B[1] * p[2] - B[7] * p[0] + p[2] * N[1] - p[0] * N[7],
            C.xz - B[5] * p[2] + B[8] * p[1] + p[0] * N[3] - p[1] * N[0],
            C.yz + B[2] * p[2] - B[8] * p[0] + p[0] * N[4] - p[1] * N[1],
            C.zz - B[2] * p[1] + B[5] * p[0] + p[0] * N[5] - p[1] * N[2],
        ),
    )


@kernel
def coriolis_inertia(Y, v, p):
    """Return the operator u -> v x* (Y u) - Y (v x u) + u x* (Y v) of a body Y.

    Twice B of Echeandia and Wensing (2021). The body has velocity v and linear momentum p. The
    operator corresponds to the force 2 m u.angular x dx/dt on each particle of mass m at x. Its
    momentum is therefore 2 p, and its angular part 2 (tr K - K), with K the sum of m dx/dt x'.
    """
    J, v_lin = Y.rotational, v.linear
    two_h, two_w = scale(2.0, Y.first_moment), scale(2.0, v.angular)
    half = 0.5 * (J.xx + J.yy + J.zz)  # the sum of m x x' is tr J / 2 - J
    x, y, z = half - J.xx, half - J.yy, half - J.zz
    trace = dot(v_lin, two_h)
    return CoriolisInertia(
        scale(2.0, p),
        (
            trace - v_lin[0] * two_h[0] + two_w[1] * J.xz - two_w[2] * J.xy,
            two_w[1] * J.yz + two_w[2] * y - v_lin[0] * two_h[1],
            -two_w[1] * z - two_w[2] * J.yz - v_lin[0] * two_h[2],
            -two_w[2] * x - two_w[0] * J.xz - v_lin[1] * two_h[0],
            trace - v_lin[1] * two_h[1] + two_w[2] * J.xy - two_w[0] * J.yz,
            two_w[2] * J.xz + two_w[0] * z - v_lin[1] * two_h[2],
            two_w[0] * J.xy + two_w[1] * x - v_lin[2] * two_h[0],
            -two_w[0] * y - two_w[1] * J.xy - v_lin[2] * two_h[1],
            trace - v_lin[2] * two_h[2] + two_w[0] * J.yz - two_w[1] * J.xz,
        ),
    )


@kernel
def coriolis_add(a, b):
    """Return a + b."""
    return CoriolisInertia(
        add(a.momentum, b.momentum),
        (
            a.angular[0] + b.angular[0],
            a.angular[1] + b.angular[1],
            a.angular[2] + b.angular[2],
            a.angular[3] + b.angular[3],
            a.angular[4] + b.angular[4],
            a.angular[5] + b.angular[5],
            a.angular[6] + b.angular[6],
            a.angular[7] + b.angular[7],
            a.angular[8] + b.angular[8],
        ),
    )


@kernel
def coriolis_times(B, m):
    """Return B m, a force."""
    return Force(cross(m.angular, B.momentum), rotate(B.angular, m.angular))


@kernel
def coriolis_transpose_times(B, m):
    """Return the angular part of B' m; its linear part is zero."""
    return add(cross(B.momentum, m.linear), rotate_inverse(B.angular, m.angular))


# --- to and from a workspace


@kernel
def load3(a, i):
    """Return three numbers, from number i on."""
    return load(a, i), load(a, i + 1), load(a, i + 2)


@kernel
def store3(a, i, x):
    """Store three numbers, from number i on."""
    store(a, i, x[0])
    store(a, i + 1, x[1])
    store(a, i + 2, x[2])


@kernel
def load9(a, i):
    """Return nine numbers, from number i on."""
    return (
        load(a, i),
        load(a, i + 1),
        load(a, i + 2),
        load(a, i + 3),
        load(a, i + 4),
        load(a, i + 5),
        load(a, i + 6),
        load(a, i + 7),
        load(a, i + 8),
    )


@kernel
def store9(a, i, x):
    """Store nine numbers, from number i on."""
    for k in range(9):
        store(a, i + k, x[k])


@kernel
def load_symmetric(a, i):
    """Return a symmetric matrix, from number i on."""
    return Symmetric(
        load(a, i), load(a, i + 1), load(a, i + 2), load(a, i + 3), load(a, i + 4), load(a, i + 5)
    )


@kernel
def store_symmetric(a, i, S):
    """Store a symmetric matrix, from number i on."""
    for k in range(6):
        store(a, i + k, S[k])


@kernel
def store_spatial(a, i, m):
    """Store a motion or a force."""
    store3(a, i, m.linear)
    store3(a, i + 3, m.angular)


@kernel
def load_se3(a, i):
    """Load a placement, which a workspace stores as a homogeneous matrix."""
    return SE3(
        (
            load(a, i),
            load(a, i + 1),
            load(a, i + 2),
            load(a, i + 4),
            load(a, i + 5),
            load(a, i + 6),
            load(a, i + 8),
            load(a, i + 9),
            load(a, i + 10),
        ),
        (load(a, i + 3), load(a, i + 7), load(a, i + 11)),
    )


@kernel
def store_se3(a, i, X):
    """Store a placement. No caller can write to the workspace of a batch: its last row stays."""
    for k in range(3):
        store3(a, i + 4 * k, (X.rotation[3 * k], X.rotation[3 * k + 1], X.rotation[3 * k + 2]))
        store(a, i + 4 * k + 3, X.translation[k])
    if not holds_lanes(a):
        store3(a, i + 12, (0.0, 0.0, 0.0))
        store(a, i + 15, 1.0)


@kernel
def load_inertia(a, i):
    """Return the inertia of a rigid body, from number i on."""
    return Inertia(load(a, i), load3(a, i + 1), load_symmetric(a, i + 4))


@kernel
def constant3(a, i):
    """Return three constants, from number i on."""
    return constant(a, i), constant(a, i + 1), constant(a, i + 2)


@kernel
def constant9(a, i):
    """Return nine constants, from number i on."""
    return (
        constant(a, i),
        constant(a, i + 1),
        constant(a, i + 2),
        constant(a, i + 3),
        constant(a, i + 4),
        constant(a, i + 5),
        constant(a, i + 6),
        constant(a, i + 7),
        constant(a, i + 8),
    )


@kernel
def store_inertia(a, i, Y):
    """Store the inertia of a rigid body, from number i on."""
    store(a, i, Y.mass)
    store3(a, i + 1, Y.first_moment)
    store_symmetric(a, i + 4, Y.rotational)


@kernel
def load_articulated(a, i):
    """Return an articulated-body inertia, from number i on."""
    return ArticulatedInertia(load_symmetric(a, i), load9(a, i + 6), load_symmetric(a, i + 15))


@kernel
def store_articulated(a, i, Y):
    """Store an articulated-body inertia, from number i on."""
    store_symmetric(a, i, Y.linear)
    store9(a, i + 6, Y.cross)
    store_symmetric(a, i + 15, Y.angular)


@kernel
def load_coriolis(a, i):
    """Return a Coriolis inertia, from number i on."""
    return CoriolisInertia(load3(a, i), load9(a, i + 3))


@kernel
def store_coriolis(a, i, B):
    """Store a Coriolis inertia, from number i on."""
    store3(a, i, B.momentum)
    store9(a, i + 3, B.angular)
