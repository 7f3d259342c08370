# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Forward dynamics by the articulated-body algorithm.

Featherstone (2008), table 7.1, expressed in the root frame. The columns of a joint with several
degrees of freedom are eliminated one by one.
"""

from __future__ import annotations

from ...call.algorithm import Algorithm
from ...call.data import Data
from ...kernel import algebra as al
from ...kernel import packing as ly
from ...kernel.fields import F_EXT, TAU_IN, Q, V, field
from ...kernel.lanes import all_above, load, store
from ...kernel.types import Array, ArrayLike
from ...machine_code.declare import kernel
from ...model.model import Model
from ..kinematics import root_axes as ra
from .cholesky import DOUBTFUL, factor, solve
from .crba import COMPOSITE, crba_kernel
from .rnea import NLE, add_force, external_force, nonlinear_effects_kernel

DDQ = field("ddq", ("nv",), "Joint accelerations [rad/s2, m/s2].")
LINK_ACCELERATION = field(
    "link_accelerations",
    ("rows", 6),
    "Spatial acceleration of each joint's body, including the root's, "
    "expressed in the world at the joint's origin [m/s2, rad/s2].",
)
BIAS = field("_c", ("rows", 6))
CHILDREN = field("_Yaba", ("rows", 21))  # articulated inertias of a joint's children
BIAS_FORCE = field("_pA", ("rows", 6))
U = field("_U", ("nv", 6))
DINV = field("_Dinv", ("nv",))
BIAS_TORQUE = field("_u", ("nv",))
SIZE = field("_carried", ("rows", 2))  # mass and inertia of a joint's subtree; see add_size


@kernel
def outward_velocities(r):
    """Pass 1: velocities, bias accelerations and forces, rigid inertias."""
    ra.set_root_at_rest(r)
    p_ = ly.offset(r, BIAS_FORCE)
    ly.clear(r.work, p_, 6)
    for i in range(1, ly.njoints(r) + 1):
        Y = ra.place_body(r, i)
        v = ra.body_velocity(r, i)
        pA = al.force_cross(v, al.momentum(Y, v))
        if ly.has_input(r, F_EXT):
            R = al.load9(r.work, ly.offset(r, ra.ROTATION) + 9 * i)
            pA = al.force_sub(pA, al.force_rotated(R, external_force(r, i)))
        al.store_spatial(r.work, ly.offset(r, BIAS) + 6 * i, ra.bias_acceleration(r, i, v))
        al.store_inertia(r.work, ly.offset(r, COMPOSITE) + 10 * i, Y)
        al.store_spatial(r.work, p_ + 6 * i, pA)


@kernel
def articulated_column(r, i, c, Y):
    """Y S_c for joint i, and the size of S_c' Y S_c with all descendants locked."""
    s, size = ly.offset(r, ra.COLUMNS) + 6 * (ly.idx_column(r, i) + c), ly.offset(r, SIZE) + 2 * i
    if ly.kind(r, i) == ly.REVOLUTE:
        u = al.load3(r.work, s)
        return (
            al.Force(al.rotate(Y.cross, u), al.symmetric_times(Y.angular, u)),
            load(r.work, size + 1),
        )
    if ly.kind(r, i) == ly.PRISMATIC:
        u = al.load3(r.work, s)
        return (
            al.Force(al.symmetric_times(Y.linear, u), al.rotate_inverse(Y.cross, u)),
            load(r.work, size),
        )
    S = al.load_motion(r.work, s)
    return (
        al.articulated_times(Y, S),
        al.dot(S.linear, S.linear) * load(r.work, size)
        + al.dot(S.angular, S.angular) * load(r.work, size + 1),
    )


@kernel
def add_size(r, i, mass, inertia):
    """Store the size of the subtree of joint i: of its body and, from ``pass_size``, its children.

    Articulated inertias do not contain it, because the inertia that a free joint moves cancels;
    the rounding error, which is proportional to the size, remains.
    """
    size = ly.offset(r, SIZE) + 2 * i
    if ly.has_child(r, i):
        mass, inertia = mass + load(r.work, size), inertia + load(r.work, size + 1)
    store(r.work, size, mass)
    store(r.work, size + 1, inertia)


@kernel
def pass_size(r, i):
    """Add the size of the subtree of joint i to the children of its parent."""
    size, total, p = (
        ly.offset(r, SIZE) + 2 * i,
        ly.offset(r, SIZE) + 2 * ly.parent(r, i),
        ra.from_parent(r, i),
    )
    mass = load(r.work, size)
    inertia = load(r.work, size + 1) + 2.0 * al.dot(p, p) * mass
    if not ly.is_last_child(r, i):
        mass, inertia = mass + load(r.work, total), inertia + load(r.work, total + 1)
    store(r.work, total, mass)
    store(r.work, total + 1, inertia)


@kernel
def articulated_body_inertia(r, i):
    """Articulated-body inertia of the subtree of joint i."""
    Y = al.articulated(al.load_inertia(r.work, ly.offset(r, COMPOSITE) + 10 * i))
    add_size(r, i, Y.linear.xx, al.symmetric_size(Y.angular))
    if ly.has_child(r, i):
        Y = al.articulated_add(Y, al.load_articulated(r.work, ly.offset(r, CHILDREN) + 21 * i))
    return Y


@kernel
def eliminate(r, i, c, Y):
    """Store U and 1 / D of column c of joint i; return Y with this column eliminated."""
    k = ly.idx_v(r, i) + c
    U_k, size = articulated_column(r, i, c, Y)
    d = ra.dot_column(r, i, c, U_k) + ly.armature(r, k)
    if not all_above(d, DOUBTFUL * size):
        ly.fail(r, k)
    d = 1.0 / d
    al.store_spatial(r.work, ly.offset(r, U) + 6 * k, U_k)
    store(r.work, ly.offset(r, DINV) + k, d)
    return al.articulated_less_outer(Y, U_k, d)


@kernel
def add_to_parent(r, i, Y):
    """Add Y, with all columns of joint i eliminated, to the children of its parent."""
    Y_ = ly.offset(r, CHILDREN) + 21 * ly.parent(r, i)
    pass_size(r, i)
    Y = al.articulated_moved(ra.from_parent(r, i), Y)
    if not ly.is_last_child(r, i):
        Y = al.articulated_add(Y, al.load_articulated(r.work, Y_))
    al.store_articulated(r.work, Y_, Y)


@kernel
def eliminate_all(r):
    """Only articulated-body inertias, from rigid-body inertias expressed in the root frame."""
    for i in range(ly.njoints(r), 0, -1):
        Y = articulated_body_inertia(r, i)
        for c in range(ly.ncolumns(r, i) - 1, -1, -1):
            Y = eliminate(r, i, c, Y)
        if ly.parent(r, i) > 0:
            add_to_parent(r, i, Y)


@kernel
def bias_force(r, i):
    """Store the bias torques of joint i; return its bias force, with the joint free to move."""
    pA = al.load_force(r.work, ly.offset(r, BIAS_FORCE) + 6 * i)
    for c in range(ly.ncolumns(r, i) - 1, -1, -1):
        k = ly.idx_v(r, i) + c
        u = load(r.work, ly.offset(r, TAU_IN) + k) - ra.dot_column(r, i, c, pA)
        store(r.work, ly.offset(r, BIAS_TORQUE) + k, u)
        pA = al.force_add(
            pA,
            al.force_scale(
                load(r.work, ly.offset(r, DINV) + k) * u,
                al.load_force(r.work, ly.offset(r, U) + 6 * k),
            ),
        )
    return pA


@kernel
def inward_inertias(r):
    """Pass 2: articulated inertias, then bias forces, as registers do not hold both."""
    for i in range(ly.njoints(r), 0, -1):
        Y = articulated_body_inertia(r, i)
        for c in range(ly.ncolumns(r, i) - 1, -1, -1):
            Y = eliminate(r, i, c, Y)
        f = al.articulated_times(Y, al.load_motion(r.work, ly.offset(r, BIAS) + 6 * i))
        if ly.parent(r, i) > 0:
            add_to_parent(r, i, Y)
        f = al.force_moved(ra.from_parent(r, i), al.force_add(bias_force(r, i), f))
        add_force(r, ly.offset(r, BIAS_FORCE) + 6 * ly.parent(r, i), f)


@kernel
def outward_accelerations(r):
    """Pass 3: joint accelerations."""
    a_ = ly.offset(r, LINK_ACCELERATION)
    for i in range(1, ly.njoints(r) + 1):
        a = al.motion_add(
            al.motion_moved(ra.from_parent(r, i), al.load_motion(r.work, a_ + 6 * ly.parent(r, i))),
            al.load_motion(r.work, ly.offset(r, BIAS) + 6 * i),
        )
        for c in range(ly.ncolumns(r, i)):
            k = ly.idx_v(r, i) + c
            x = load(r.work, ly.offset(r, DINV) + k) * (
                load(r.work, ly.offset(r, BIAS_TORQUE) + k)
                - al.power(al.load_force(r.work, ly.offset(r, U) + 6 * k), a)
            )
            store(r.work, ly.offset(r, DDQ) + k, x)
            a = ra.add_column(r, i, c, a, x)
        al.store_spatial(r.work, a_ + 6 * i, a)


@kernel
def projected_aba_kernel(r):
    """If mimic joints couple branches: M ddq = tau - nle."""
    crba_kernel(r)
    factor(r)
    nonlinear_effects_kernel(r)
    for k in range(ly.nv(r)):
        store(
            r.work,
            ly.offset(r, DDQ) + k,
            load(r.work, ly.offset(r, TAU_IN) + k) - load(r.work, ly.offset(r, NLE) + k),
        )
    solve(r, ly.offset(r, DDQ))


@kernel
def aba_kernel(r):
    outward_velocities(r)
    inward_inertias(r)
    ra.let_fall(r, LINK_ACCELERATION)
    outward_accelerations(r)


_aba = Algorithm(
    "aba",
    aba_kernel,
    (Q, V, TAU_IN, F_EXT),
    (DDQ,),
    optional=(F_EXT,),
    coupled=projected_aba_kernel,
).caller()


def aba(
    model: Model,
    data: Data,
    q: ArrayLike,
    v: ArrayLike,
    tau: ArrayLike,
    f_ext: ArrayLike | None = None,
    *,
    threads: int = 1,
) -> Array:
    """Forward dynamics: the joint accelerations for given torques, M^-1 (tau - nle + J' f_ext).

    Articulated-body algorithm, Featherstone (2008), table 7.1; O(n). Includes ``model.armature``.
    If mimic joints couple branches, M is factored instead.

    Examples
    --------
    >>> ddq = dyn_ros.aba(model, data, q, v, tau).copy()
    >>> np.allclose(dyn_ros.rnea(model, data, q, v, ddq), tau)
    True
    """
    return _aba(model, data, threads, q, v, tau, f_ext)
