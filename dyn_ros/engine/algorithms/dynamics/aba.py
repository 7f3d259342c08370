# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Forward dynamics by the articulated-body algorithm.

Featherstone (2008), table 7.1, expressed in world axes, about each joint's own origin. The columns
of a joint with several degrees of freedom are eliminated one by one. X is the shift from a joint's
origin to its parent's: X m and X* f are motions and forces about the parent's origin. With all
joints of the subtree locked, the inertia is the composite rigid body's.
"""

from __future__ import annotations

from ...call.algorithm import algorithm
from ...call.data import Data
from ...kernel.types import Array, ArrayLike, OutArrays
from ...kernel.vocabulary import *
from ...model.model import Model
from ..kinematics import world_axes as wa
from .cholesky import MIN_RELIABLE_PIVOT, factor_inertia_matrix, multiply_by_inverse
from .crba import INERTIA, crba_kernel
from .rnea import NLE, external_force, nonlinear_effects_kernel

DDQ = field("ddq", ("nv",), "Joint accelerations [rad/s2, m/s2].")
LINK_ACCELERATION = field(
    "link_accelerations",
    ("rows", 6),
    "Spatial acceleration of each joint's body minus gravity, or with the given acceleration of "
    "the root, expressed in the world at the joint's origin [m/s2, rad/s2].",
)
BIAS_ACCELERATION = field("_bias_acceleration", ("rows", 6))
CHILDREN = field("_children", ("rows", 21))  # articulated inertias of a joint's children
BIAS_FORCE = field("_bias_force", ("rows", 6))
U = field("_u", ("nv", 6))
DINV = field("_dinv", ("nv",))
BIAS_TORQUE = field("_bias_torque", ("nv",))
LOCKED_MASS = field("_locked_mass", ("rows",))
LOCKED_INERTIA_ESTIMATE = field("_locked_inertia_estimate", ("rows",))


@kernel
def outward_velocities(r):
    """Compute velocities, inertias, bias accelerations and forces of bodies, in an outward pass.

        v = X^-1 v_p + S qd
        c = v x S qd
        pA = v x* Y v - f_ext               Featherstone (2008), table 7.1

    Reads Q, V, F_EXT; writes ROTATION, FROM_PARENT, COLUMNS, BODY_VELOCITY, INERTIA,
    BIAS_ACCELERATION, BIAS_FORCE.
    """
    wa.place_universe_at_rest(r)
    clear_force(r, BIAS_FORCE, 0)
    for i in range(1, njoints(r) + 1):
        Y = wa.place_body(r, i)
        v = wa.body_velocity(r, i)
        pA = force_cross(v, inertia_times(Y, v))
        if has_input(r, F_EXT):
            R = rotation(r, wa.ROTATION, i)
            pA = force_sub(pA, force_rotated(R, external_force(r, i)))
        set_motion(r, BIAS_ACCELERATION, i, wa.bias_acceleration(r, i, v))
        set_inertia(r, INERTIA, i, Y)
        set_force(r, BIAS_FORCE, i, pA)


@kernel
def articulated_column(r, i, c, Y):
    """Return Y S_c for joint i, and an estimate of S_c' Y S_c with locked descendants.

    Reads COLUMNS, LOCKED_MASS, LOCKED_INERTIA_ESTIMATE.
    """
    if kind(r, i) == REVOLUTE:
        u = wa.world_axis(r, i)
        return (
            Force(rotate(Y.cross, u), symmetric_times(Y.angular, u)),
            entry(r, LOCKED_INERTIA_ESTIMATE, i),
        )
    if kind(r, i) == PRISMATIC:
        u = wa.world_axis(r, i)
        return (
            Force(symmetric_times(Y.linear, u), rotate_inverse(Y.cross, u)),
            entry(r, LOCKED_MASS, i),
        )
    S = motion(r, wa.COLUMNS, idx_column(r, i) + c)
    return (
        articulated_times(Y, S),
        dot(S.linear, S.linear) * entry(r, LOCKED_MASS, i)
        + dot(S.angular, S.angular) * entry(r, LOCKED_INERTIA_ESTIMATE, i),
    )


@kernel
def store_locked_inertia(r, i, mass, estimate):
    """Store the mass and an estimate of the inertia of the subtree of joint i with locked joints.

    ``mass`` and ``estimate`` belong to its body; the children's sums are added. Free joints reduce
    the locked inertia. The rest, a pivot, can be as small as the rounding error, which is
    proportional to the locked inertia; pivots are therefore compared with the estimate.

    The estimate is no bound, because it omits products of the offsets of successive joints: for a
    stretched chain of n equal links, it is up to n / 2 times too small. MIN_RELIABLE_PIVOT allows
    for that: it is about 1e8 times the rounding error.

    Writes LOCKED_MASS, LOCKED_INERTIA_ESTIMATE.
    """
    if has_child(r, i):
        mass = mass + entry(r, LOCKED_MASS, i)
        estimate = estimate + entry(r, LOCKED_INERTIA_ESTIMATE, i)
    set_entry(r, LOCKED_MASS, i, mass)
    set_entry(r, LOCKED_INERTIA_ESTIMATE, i, estimate)


@kernel
def add_locked_to_parent(r, i):
    """Add mass and inertia estimate of the subtree of joint i to the sums of its parent's children.

        m_p = m_p + m
        e_p = e_p + e + 2 m |t|^2           e: estimate; t: vector from the parent's origin

    Reads FROM_PARENT; writes LOCKED_MASS, LOCKED_INERTIA_ESTIMATE.
    """
    p, t = parent(r, i), wa.from_parent(r, i)
    mass = entry(r, LOCKED_MASS, i)
    estimate = entry(r, LOCKED_INERTIA_ESTIMATE, i) + 2.0 * dot(t, t) * mass
    if not is_last_child(r, i):
        mass = mass + entry(r, LOCKED_MASS, p)
        estimate = estimate + entry(r, LOCKED_INERTIA_ESTIMATE, p)
    set_entry(r, LOCKED_MASS, p, mass)
    set_entry(r, LOCKED_INERTIA_ESTIMATE, p, estimate)


@kernel
def finish_articulated_inertia(r, i):
    """Return the articulated-body inertia of the subtree of joint i; store its locked inertia.

        YA = Y + sum over children of X* Ya X^-1

    Reads INERTIA, CHILDREN; writes LOCKED_MASS, LOCKED_INERTIA_ESTIMATE.
    """
    Y = articulated(inertia(r, INERTIA, i))
    store_locked_inertia(r, i, Y.linear.xx, symmetric_norm_bound(Y.angular))
    if has_child(r, i):
        Y = articulated_add(Y, articulated_inertia(r, CHILDREN, i))
    return Y


@kernel
def eliminate_column(r, i, c, Y):
    """Store U and 1 / D of column c of joint i; return Y with this column eliminated.

        U = YA S,  D = S' U + armature
        Ya = YA - U D^-1 U'                 Featherstone (2008), table 7.1

    Reads COLUMNS, LOCKED_MASS, LOCKED_INERTIA_ESTIMATE; writes U, DINV.
    """
    k = idx_v(r, i) + c
    U_k, estimate = articulated_column(r, i, c, Y)
    d = wa.dot_column(r, i, c, U_k) + armature(r, k)
    if not all_above(d, MIN_RELIABLE_PIVOT * estimate):
        report_small_pivot(r, k)
    d = 1.0 / d
    set_force(r, U, k, U_k)
    set_entry(r, DINV, k, d)
    return articulated_less_outer(Y, U_k, d)


@kernel
def add_articulated_to_parent(r, i, Y):
    """Add Y, with all columns of joint i eliminated, to the children of its parent.

    Reads FROM_PARENT; writes CHILDREN, LOCKED_MASS, LOCKED_INERTIA_ESTIMATE.
    """
    p = parent(r, i)
    add_locked_to_parent(r, i)
    Y = articulated_moved(wa.from_parent(r, i), Y)
    if not is_last_child(r, i):
        Y = articulated_add(Y, articulated_inertia(r, CHILDREN, p))
    set_articulated_inertia(r, CHILDREN, p, Y)


@kernel
def eliminate_joints(r):
    """Compute articulated-body inertias without bias forces, in an inward pass.

        Ya = YA - U D^-1 U'
        YA_p = YA_p + X* Ya X^-1            Featherstone (2008), table 7.1

    Reads FROM_PARENT, COLUMNS, INERTIA; writes CHILDREN, U, DINV, LOCKED_MASS,
    LOCKED_INERTIA_ESTIMATE.
    """
    for i in range(njoints(r), 0, -1):
        Y = finish_articulated_inertia(r, i)
        for c in range(ncolumns(r, i) - 1, -1, -1):
            Y = eliminate_column(r, i, c, Y)
        if parent(r, i) > 0:
            add_articulated_to_parent(r, i, Y)


@kernel
def eliminate_bias_force(r, i):
    """Store the bias torques of joint i; return the bias force of its subtree without Ya c.

        u = tau - S' pA
        pa = pA + U D^-1 u                  Featherstone (2008), table 7.1

    Reads TAU_IN, COLUMNS, BIAS_FORCE, U, DINV; writes BIAS_TORQUE.
    """
    pA = force(r, BIAS_FORCE, i)
    for c in range(ncolumns(r, i) - 1, -1, -1):
        k = idx_v(r, i) + c
        u = entry(r, TAU_IN, k) - wa.dot_column(r, i, c, pA)
        set_entry(r, BIAS_TORQUE, k, u)
        pA = force_add(
            pA,
            force_scale(
                entry(r, DINV, k) * u,
                force(r, U, k),
            ),
        )
    return pA


@kernel
def inward_pass(r):
    """Compute articulated inertias and bias forces, in an inward pass.

        Ya = YA - U D^-1 U'
        pa = pA + Ya c + U D^-1 u
        YA_p = YA_p + X* Ya X^-1,  pA_p = pA_p + X* pa      Featherstone (2008), table 7.1

    For each joint, all columns are eliminated from the inertia before any from the force, because
    registers do not hold both.

    Reads TAU_IN, FROM_PARENT, COLUMNS, INERTIA, BIAS_ACCELERATION; writes CHILDREN, BIAS_FORCE, U,
    DINV, BIAS_TORQUE, LOCKED_MASS, LOCKED_INERTIA_ESTIMATE.
    """
    for i in range(njoints(r), 0, -1):
        Y = finish_articulated_inertia(r, i)
        for c in range(ncolumns(r, i) - 1, -1, -1):
            Y = eliminate_column(r, i, c, Y)
        f = articulated_times(Y, motion(r, BIAS_ACCELERATION, i))
        if parent(r, i) > 0:
            add_articulated_to_parent(r, i, Y)
        f = force_moved(wa.from_parent(r, i), force_add(eliminate_bias_force(r, i), f))
        add_to_force(r, BIAS_FORCE, parent(r, i), f)


@kernel
def outward_accelerations(r):
    """Compute the accelerations of joints and bodies, in an outward pass.

        a = X^-1 a_p + c
        qdd = D^-1 (u - U' a)
        a = a + S qdd                       Featherstone (2008), table 7.1

    Reads FROM_PARENT, COLUMNS, BIAS_ACCELERATION, U, DINV, BIAS_TORQUE; writes DDQ,
    LINK_ACCELERATION.
    """
    for i in range(1, njoints(r) + 1):
        a = motion_add(
            motion_moved(wa.from_parent(r, i), motion(r, LINK_ACCELERATION, parent(r, i))),
            motion(r, BIAS_ACCELERATION, i),
        )
        for c in range(ncolumns(r, i)):
            k = idx_v(r, i) + c
            x = entry(r, DINV, k) * (entry(r, BIAS_TORQUE, k) - power(force(r, U, k), a))
            set_entry(r, DDQ, k, x)
            a = wa.add_column(r, i, c, a, x)
        set_motion(r, LINK_ACCELERATION, i, a)


@kernel
def mimic_aba_kernel(r):
    """Compute the accelerations from the factor of M, if there are mimic joints.

        M qdd = tau - nle + J' f_ext        the field NLE has nle - J' f_ext

    Reads Q, V, A, TAU_IN, F_EXT; writes LIMI, JOINT_V, JOINT_A, JOINT_F, M, NLE, DDQ; calls
    crba_kernel, factor_inertia_matrix, nonlinear_effects_kernel.
    """
    crba_kernel(r)
    factor_inertia_matrix(r)
    nonlinear_effects_kernel(r)
    for k in range(nv(r)):
        set_entry(r, DDQ, k, entry(r, TAU_IN, k) - entry(r, NLE, k))
    multiply_by_inverse(r, DDQ)


@kernel
def aba_kernel(r):
    """Compute the accelerations by the articulated-body algorithm.

        qdd = M^-1 (tau - nle + J' f_ext)   Featherstone (2008), table 7.1

    Reads Q, V, TAU_IN, F_EXT; writes DDQ, LINK_ACCELERATION; calls outward_velocities, inward_pass,
    outward_accelerations.
    """
    outward_velocities(r)
    inward_pass(r)
    wa.set_universe_acceleration(r, LINK_ACCELERATION)
    outward_accelerations(r)


@algorithm(
    aba_kernel,
    inputs=(Q, V, TAU_IN, F_EXT),
    results=(DDQ,),
    optional=(F_EXT,),
    mimic_kernel=mimic_aba_kernel,
)
def aba(
    model: Model,
    data: Data,
    q: ArrayLike,
    v: ArrayLike,
    tau: ArrayLike,
    f_ext: ArrayLike | None = None,
    *,
    threads: int = 1,
    out: OutArrays | None = None,
) -> Array:
    """Compute forward dynamics: the joint accelerations M^-1 (tau - nle + J' f_ext).

    Articulated-body algorithm, Featherstone (2008), table 7.1; O(n). Includes ``model.armature``.
    If there are mimic joints, M is factored instead.

    Examples
    --------
    >>> ddq = dyn_ros.aba(model, data, q, v, tau).copy()
    >>> np.allclose(dyn_ros.rnea(model, data, q, v, ddq), tau)
    True
    """
