# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Gradients of a weighted sum of joint torques, or of joint placements, in one sweep each way.

Reverse-mode differentiation (Griewank and Walther 2008, chapter 3) of the recursive Newton-Euler
algorithm and of forward kinematics, in body frames; O(n). A gradient is that of the formulas of
the algorithm with respect to their numbers: nq of a configuration, whose quaternions are
normalized, and the 12 of a placement, whose rotation is not. Therefore, second derivatives are
symmetric, and dual numbers yield them.

The motion u is the motion of the bodies for the joint velocities w, the weights. In the formulas,
y~ is the gradient with respect to y.
"""

from __future__ import annotations

from ..kernel.vocabulary import *
from .dynamics.rnea import (
    TAU,
    newton_euler_outward,
    set_universe_at_rest,
    transmit_forces,
)
from .regressors.torque import power_derivatives

TAU_WEIGHTS = field("_tau_weights", ("nv",))
PLACEMENT_WEIGHTS = field("_placement_weights", ("njoints", 4, 4))
Q_GRADIENT = field("_q_gradient", ("nq",))
V_GRADIENT = field("_v_gradient", ("nv",))
A_GRADIENT = field("_a_gradient", ("nv",))
F_EXT_GRADIENT = field("_f_ext_gradient", ("njoints", 6))
INERTIAL_GRADIENT = field("_inertial_gradient", ("njoints", 10))
ARMATURE_GRADIENT = field("_armature_gradient", ("nv",))
GRAVITY_GRADIENT = field("_gravity_gradient", (3,))
JOINT_PLACEMENT_GRADIENT = field("_joint_placement_gradient", ("njoints", 4, 4))

_WEIGHTED_MOTION = field("_weighted_motion", ("rows", 6))  # u
_WEIGHTED_FORCE = field("_weighted_force", ("rows", 6))  # a~
_TURNED_FORCE = field("_turned_force", ("rows", 6))  # v~
_WORLD_PLACEMENT_GRADIENT = field("_world_placement_gradient", ("rows", 12))


# --- gradients with respect to the numbers of one joint


@kernel
def inner_product(A, B):
    """Return the sum of the products of the entries of two 3 x 3 matrices."""
    return (
        dot((A[0], A[1], A[2]), (B[0], B[1], B[2]))
        + dot((A[3], A[4], A[5]), (B[3], B[4], B[5]))
        + dot((A[6], A[7], A[8]), (B[6], B[7], B[8]))
    )


@kernel
def se3_add(X, Y):
    """Return the sum of two placements, or gradients of one, by entries."""
    return SE3(add9(X.rotation, Y.rotation), add(X.translation, Y.translation))


@kernel
def motion_to_child_gradient(X, m, f):
    """Return X~ of f . X^-1 m, with a motion m in the parent frame and a force f in the child's.

    X^-1 m = (R' (m.linear + m.angular x p), R' m.angular)
    """
    point = add(m.linear, cross(m.angular, X.translation))
    R = add9(outer_product(point, f.linear), outer_product(m.angular, f.angular))
    return SE3(R, cross(rotate(X.rotation, f.linear), m.angular))


@kernel
def store_quaternion_gradient(r, k, G):
    """Add the gradient with respect to a quaternion of any norm, from that of its rotation, G.

    R = 1 + s M(x, y, z, w),  s = 2 / |quaternion|^2

    Reads Q; writes Q_GRADIENT.
    """
    x, y, z, w = entry(r, Q, k), entry(r, Q, k + 1), entry(r, Q, k + 2), entry(r, Q, k + 3)
    s = 2.0 / (x * x + y * y + z * z + w * w)
    dx = y * (G[1] + G[3]) + z * (G[2] + G[6]) + w * (G[7] - G[5]) - 2.0 * x * (G[4] + G[8])
    dy = x * (G[1] + G[3]) + z * (G[5] + G[7]) + w * (G[2] - G[6]) - 2.0 * y * (G[0] + G[8])
    dz = x * (G[2] + G[6]) + y * (G[5] + G[7]) + w * (G[3] - G[1]) - 2.0 * z * (G[0] + G[4])
    dw = x * (G[7] - G[5]) + y * (G[2] - G[6]) + z * (G[3] - G[1])
    # M is quadratic: its product with G is half of (x, y, z, w) . (dx, dy, dz, dw)
    radial = 0.5 * s * s * (x * dx + y * dy + z * dz + w * dw)
    add_to_entry(r, Q_GRADIENT, k, s * dx - radial * x)
    add_to_entry(r, Q_GRADIENT, k + 1, s * dy - radial * y)
    add_to_entry(r, Q_GRADIENT, k + 2, s * dz - radial * z)
    add_to_entry(r, Q_GRADIENT, k + 3, s * dw - radial * w)


@kernel
def moving_placement(r, i):
    """Return the placement of joint i after its constant placement, a function of q alone.

    Reads Q.
    """
    k = idx_q(r, i)
    x = entry(r, Q, k)
    zero, unit = lift(0.0, x), lift(1.0, x)
    R, t = (unit, zero, zero, zero, unit, zero, zero, zero, unit), zero3(x)
    joint = kind(r, i)
    if joint == REVOLUTE:
        s, c = sine_and_cosine(r, i, x)
        u = lift3(axis(r, i), x)
        K = outer_product(u, scale(unit - c, u))
        R = add9(K, (c, -s * u[2], s * u[1], s * u[2], c, -s * u[0], -s * u[1], s * u[0], c))
    elif joint == PRISMATIC:
        t = scale(displacement(r, i, x), lift3(axis(r, i), x))
    elif joint == PLANAR:
        s, c = sincos(entry(r, Q, k + 2))
        R, t = (c, -s, zero, s, c, zero, zero, zero, unit), (x, entry(r, Q, k + 1), zero)
    elif joint == FLOATING:
        R, t = quaternion_at(r, k + 3), load3(r.work, offset(r, Q) + k)
    else:
        R = quaternion_at(r, k)
    return SE3(R, t)


@kernel
def store_multi_dof_gradients(r, i, G):
    """Add the gradients with respect to the coordinates of a planar, spherical or floating joint.

        J~ = P' X~

    Reads Q; writes Q_GRADIENT.
    """
    k = idx_q(r, i)
    P = joint_constant9(r, i, PLACE)
    R, t = product(transposed(P), G.rotation), rotate_inverse(P, G.translation)
    if kind(r, i) == PLANAR:
        s, c = sincos(entry(r, Q, k + 2))
        add_to_entry(r, Q_GRADIENT, k, t[0])
        add_to_entry(r, Q_GRADIENT, k + 1, t[1])
        add_to_entry(r, Q_GRADIENT, k + 2, c * (R[3] - R[1]) - s * (R[0] + R[4]))
    elif kind(r, i) == FLOATING:
        for n in range(3):
            add_to_entry(r, Q_GRADIENT, k + n, t[n])
        store_quaternion_gradient(r, k + 3, R)
    else:
        store_quaternion_gradient(r, k, R)


@kernel
def store_joint_gradients(r, i, G):
    """Add the gradients with respect to the coordinates of joint i, and to its constant placement.

    They follow from the gradient with respect to its placement, G = X~.

        X = P J(q):  J~ = P' X~,  P~ = X~ J'

    Reads Q; writes Q_GRADIENT, JOINT_PLACEMENT_GRADIENT.
    """
    k, joint = idx_q(r, i), kind(r, i)
    x = entry(r, Q, k)
    if joint == REVOLUTE:
        s, c = sine_and_cosine(r, i, x)
        S, C = joint_constant9(r, i, PLACE_SIN), joint_constant9(r, i, PLACE_COS)
        slope = c * inner_product(G.rotation, S) - s * inner_product(G.rotation, C)
        add_to_entry(r, Q_GRADIENT, k, ratio(r, i) * slope)
    elif joint == PRISMATIC:
        slope = dot(joint_constant3(r, i, SLIDE), G.translation)
        add_to_entry(r, Q_GRADIENT, k, ratio(r, i) * slope)
    else:
        store_multi_dof_gradients(r, i, G)
    if has_input(r, JOINT_PLACEMENT_GRADIENT):
        J = moving_placement(r, i)
        rotation_gradient = add9(
            product(G.rotation, transposed(J.rotation)), outer_product(G.translation, J.translation)
        )
        set_placement_gradient(r, i, SE3(rotation_gradient, G.translation))


@kernel
def set_placement_gradient(r, i, G):
    """Store a gradient with respect to the constant placement of joint i; its last row is zero.

    Writes JOINT_PLACEMENT_GRADIENT.
    """
    set_placement(r, JOINT_PLACEMENT_GRADIENT, i - 1, G)
    set_entry(r, JOINT_PLACEMENT_GRADIENT, 16 * i - 1, 0.0)


# --- joint torques


@kernel
def weighted_motion_outward(r, i):
    """Compute the motion u of joint i for the weights, in its frame.

        u = X^-1 u_p + S w

    Reads LIMI, TAU_WEIGHTS; writes _WEIGHTED_MOTION.
    """
    u = motion_to_child(placement(r, LIMI, i), motion(r, _WEIGHTED_MOTION, parent(r, i)))
    set_motion(r, _WEIGHTED_MOTION, i, add_subspace_times(r, i, u, TAU_WEIGHTS))


@kernel
def start_gradients_of_body(r, i):
    """Compute the gradients of the power u . f of the force on body i.

        a~ = Y u,  v~ = Y (u x v) - u x* Y v,  f_ext~ = -u

    Reads JOINT_V, JOINT_A, _WEIGHTED_MOTION; writes _WEIGHTED_FORCE, _TURNED_FORCE,
    F_EXT_GRADIENT, INERTIAL_GRADIENT.
    """
    Y = body_inertia(r, i)
    u, v, a = motion(r, _WEIGHTED_MOTION, i), motion(r, JOINT_V, i), motion(r, JOINT_A, i)
    turned = force_sub(inertia_times(Y, motion_cross(u, v)), force_cross(u, inertia_times(Y, v)))
    set_force(r, _WEIGHTED_FORCE, i, inertia_times(Y, u))
    set_force(r, _TURNED_FORCE, i, turned)
    if has_input(r, F_EXT_GRADIENT):
        set_motion(r, F_EXT_GRADIENT, i - 1, motion_scale(-1.0, u))
    if has_input(r, INERTIAL_GRADIENT):
        point = Motion(add(a.linear, cross(v.angular, v.linear)), a.angular)
        set_inertia(r, INERTIAL_GRADIENT, i - 1, power_derivatives(v.angular, point, u))


@kernel
def pass_gradients_inward(r, i):
    """Compute the gradients with respect to the numbers of joint i, and add to its parent's.

        v~ += (S qd) x* a~,  qdd~ = S' a~,  qd~ = S' (v~ - v x* a~)
        a_p~ += X* a~,  v_p~ += X* v~

    X~ is the sum for the three motions of the parent, a_p, v_p and u_p, with the forces a~, v~ and
    f, the force that the joint transmits.

    Reads Q, V, LIMI, JOINT_V, JOINT_A, JOINT_F, _WEIGHTED_MOTION; writes _WEIGHTED_FORCE,
    _TURNED_FORCE, V_GRADIENT, A_GRADIENT, Q_GRADIENT, JOINT_PLACEMENT_GRADIENT.
    """
    p, X = parent(r, i), placement(r, LIMI, i)
    v, va, f = motion(r, JOINT_V, i), force(r, _WEIGHTED_FORCE, i), force(r, JOINT_F, i)
    s = add_subspace_times(r, i, Motion(zero3(v.linear[0]), zero3(v.linear[0])), V)
    vv = force_add(force(r, _TURNED_FORCE, i), force_cross(s, va))
    add_subspace_transpose_times(r, i, va, A_GRADIENT)
    add_subspace_transpose_times(r, i, force_sub(vv, force_cross(v, va)), V_GRADIENT)
    add_to_force(r, _WEIGHTED_FORCE, p, force_to_parent(X, va))
    add_to_force(r, _TURNED_FORCE, p, force_to_parent(X, vv))
    G = se3_add(
        motion_to_child_gradient(X, motion(r, JOINT_A, p), va),
        se3_add(
            motion_to_child_gradient(X, motion(r, JOINT_V, p), vv),
            motion_to_child_gradient(X, motion(r, _WEIGHTED_MOTION, p), f),
        ),
    )
    store_joint_gradients(r, i, G)


@kernel
def rnea_gradient_kernel(r):
    """Compute the gradients of w . tau, with tau the joint torques of a motion, and tau.

        w . tau = sum u . f + w . (armature qdd)

    Reads Q, V, A, F_EXT, TAU_WEIGHTS; writes LIMI, JOINT_V, JOINT_A, JOINT_F, TAU,
    _WEIGHTED_MOTION, _WEIGHTED_FORCE, _TURNED_FORCE, Q_GRADIENT, V_GRADIENT, A_GRADIENT,
    F_EXT_GRADIENT, INERTIAL_GRADIENT, ARMATURE_GRADIENT, GRAVITY_GRADIENT,
    JOINT_PLACEMENT_GRADIENT.
    """
    set_universe_at_rest(r)
    clear_motion(r, _WEIGHTED_MOTION, 0)
    clear_force(r, _WEIGHTED_FORCE, 0)
    clear_force(r, _TURNED_FORCE, 0)
    clear_entries(r, Q_GRADIENT, size(r, Q_GRADIENT))
    clear_entries(r, V_GRADIENT, nv(r))
    clear_entries(r, A_GRADIENT, nv(r))
    for i in range(1, njoints(r) + 1):
        newton_euler_outward(r, i, True)
        weighted_motion_outward(r, i)
        start_gradients_of_body(r, i)
    transmit_forces(r, TAU)
    for i in range(njoints(r), 0, -1):
        pass_gradients_inward(r, i)
    for k in range(3):
        set_entry(r, GRAVITY_GRADIENT, k, -entry(r, _WEIGHTED_FORCE, k))
    for k in range(nv(r)):
        w, a = entry(r, TAU_WEIGHTS, k), entry(r, A, k)
        add_to_entry(r, TAU, k, armature(r, k) * a)
        add_to_entry(r, A_GRADIENT, k, armature(r, k) * w)
        set_entry(r, ARMATURE_GRADIENT, k, w * a)


# --- joint placements


@kernel
def placement_outward(r, i):
    """Compute the placement of joint i in its parent and in the world.

        oMi = oMp X

    Reads Q; writes LIMI, OMI.
    """
    X = joint_placement(r, i)
    set_placement(r, LIMI, i, X)
    set_placement(r, OMI, i, compose(placement(r, OMI, parent(r, i)), X))


@kernel
def forward_kinematics_kernel(r):
    """Compute the placements of the joints in the world.

    Reads Q; writes LIMI, OMI.
    """
    for i in range(1, njoints(r) + 1):
        placement_outward(r, i)


@kernel
def placement_gradient(r, i):
    """Return the gradient with respect to the placement of joint i in the world.

    Reads _WORLD_PLACEMENT_GRADIENT.
    """
    k = offset(r, _WORLD_PLACEMENT_GRADIENT) + 12 * i
    return SE3(load9(r.work, k), load3(r.work, k + 9))


@kernel
def set_world_placement_gradient(r, i, G):
    """Store the gradient with respect to the placement of joint i in the world.

    Writes _WORLD_PLACEMENT_GRADIENT.
    """
    k = offset(r, _WORLD_PLACEMENT_GRADIENT) + 12 * i
    store9(r.work, k, G.rotation)
    store3(r.work, k + 9, G.translation)


@kernel
def forward_kinematics_gradient_kernel(r):
    """Compute the gradients of a weighted sum of the entries of all joint placements.

        X~ = (Rp' R~, Rp' p~),  Rp~ += R~ X.rotation' + p~ X.translation',  pp~ += p~

    R and p are parts of the placement in the world, Rp and pp of the parent's.

    Reads Q, PLACEMENT_WEIGHTS; writes LIMI, OMI, _WORLD_PLACEMENT_GRADIENT, Q_GRADIENT,
    JOINT_PLACEMENT_GRADIENT.
    """
    clear_entries(r, Q_GRADIENT, size(r, Q_GRADIENT))
    clear_row(r, _WORLD_PLACEMENT_GRADIENT, 0, 12)
    forward_kinematics_kernel(r)
    for i in range(1, njoints(r) + 1):
        set_world_placement_gradient(r, i, placement(r, PLACEMENT_WEIGHTS, i - 1))
    for i in range(njoints(r), 0, -1):
        p, X, G = parent(r, i), placement(r, LIMI, i), placement_gradient(r, i)
        R = placement(r, OMI, p).rotation
        store_joint_gradients(
            r, i, SE3(product(transposed(R), G.rotation), rotate_inverse(R, G.translation))
        )
        parent_gradient = SE3(
            add9(
                product(G.rotation, transposed(X.rotation)),
                outer_product(G.translation, X.translation),
            ),
            G.translation,
        )
        set_world_placement_gradient(r, p, se3_add(placement_gradient(r, p), parent_gradient))
