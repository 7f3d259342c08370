# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Forward dynamics by the articulated-body algorithm.

Featherstone, Rigid Body Dynamics Algorithms (2008), table 7.1, expressed in the root frame. The
columns of a joint with several degrees of freedom are eliminated one by one.
"""
from ...call.algorithm import Algorithm
from ...call.data import Data
from ...kernel.algebra import (
    Force,
    articulated,
    articulated_add,
    articulated_less_outer,
    articulated_moved,
    articulated_times,
    constant3,
    dot,
    force_add,
    force_cross,
    force_moved,
    force_rotated,
    force_scale,
    force_sub,
    load3,
    load9,
    load_articulated,
    load_force,
    load_inertia,
    load_motion,
    momentum,
    motion_add,
    motion_moved,
    power,
    rotate,
    rotate_inverse,
    scale,
    store3,
    store_articulated,
    store_inertia,
    store_spatial,
    symmetric_size,
    symmetric_times,
)
from ...kernel.compiler import kernel
from ...kernel.fields import F_EXT, TAU_IN, Q, V, field
from ...kernel.lanes import all_above, load, store
from ...kernel.layout import (
    GRAVITY,
    PRISMATIC,
    REVOLUTE,
    armature,
    clear,
    fail,
    has_child,
    has_input,
    idx_column,
    idx_v,
    is_last_child,
    kind,
    ncolumns,
    njoints,
    nv,
    offset,
    parent,
)
from ...kernel.types import Array, ArrayLike
from ...model.model import Model
from ..kinematics.root_axes import (
    BODY_VELOCITY,
    COLUMNS,
    ROTATION,
    add_column,
    bias_acceleration,
    body_velocity,
    dot_column,
    from_parent,
    place_body,
    set_root,
)
from .crba import COMPOSITE, crba_kernel
from .factor import DOUBTFUL, factor, solve
from .rnea import NLE, external_force, nonlinear_effects_kernel

DDQ = field("ddq", ("nv",), "Joint accelerations from aba [rad/s2, m/s2].")
LINK_ACCELERATION = field(
    "link_accelerations", ("rows", 6), "Spatial acceleration of each joint's body from "
                                       "vereshchagin, including that of the root, expressed in "
                                       "the root frame at the joint's origin [m/s2, rad/s2].")
BIAS = field("_c", ("rows", 6))
CHILDREN = field("_Yaba", ("rows", 21))       # articulated inertias of a joint's children
BIAS_FORCE = field("_pA", ("rows", 6))
U = field("_U", ("nv", 6))
DINV = field("_Dinv", ("nv",))
BIAS_TORQUE = field("_u", ("nv",))
SIZE = field("_carried", ("rows", 2))         # mass and inertia of a joint's subtree; see add_size


@kernel
def outward_velocities(r):
    """Pass 1: velocities, bias accelerations and forces, rigid inertias."""
    set_root(r)
    p_ = offset(r, BIAS_FORCE)
    clear(r.work, offset(r, BODY_VELOCITY), 6)
    clear(r.work, p_, 6)
    for i in range(1, njoints(r) + 1):
        Y = place_body(r, i)
        v = body_velocity(r, i)
        pA = force_cross(v, momentum(Y, v))
        if has_input(r, F_EXT):
            R = load9(r.work, offset(r, ROTATION) + 9 * i)
            pA = force_sub(pA, force_rotated(R, external_force(r, i)))
        store_spatial(r.work, offset(r, BIAS) + 6 * i, bias_acceleration(r, i, v))
        store_inertia(r.work, offset(r, COMPOSITE) + 10 * i, Y)
        store_spatial(r.work, p_ + 6 * i, pA)


@kernel
def articulated_column(r, i, c, Y):
    """Y S_c for joint i, and the size of S_c' Y S_c with all descendants locked."""
    s, size = offset(r, COLUMNS) + 6 * (idx_column(r, i) + c), offset(r, SIZE) + 2 * i
    if kind(r, i) == REVOLUTE:
        u = load3(r.work, s)
        return (Force(rotate(Y.cross, u), symmetric_times(Y.angular, u)),
                load(r.work, size + 1))
    if kind(r, i) == PRISMATIC:
        u = load3(r.work, s)
        return (Force(symmetric_times(Y.linear, u), rotate_inverse(Y.cross, u)),
                load(r.work, size))
    S = load_motion(r.work, s)
    return (articulated_times(Y, S), dot(S.linear, S.linear) * load(r.work, size)
            + dot(S.angular, S.angular) * load(r.work, size + 1))


@kernel
def add_size(r, i, mass, inertia):
    """Store the size of the subtree of joint i: of its body and, from ``pass_size``, its children.

    Articulated inertias do not contain it, because the inertia that a free joint moves cancels;
    the rounding error, which is proportional to the size, remains.
    """
    size = offset(r, SIZE) + 2 * i
    if has_child(r, i):
        mass, inertia = mass + load(r.work, size), inertia + load(r.work, size + 1)
    store(r.work, size, mass)
    store(r.work, size + 1, inertia)


@kernel
def pass_size(r, i):
    """Add the size of the subtree of joint i to the children of its parent."""
    size, total, p = offset(r, SIZE) + 2 * i, offset(r, SIZE) + 2 * parent(r, i), from_parent(r, i)
    mass = load(r.work, size)
    inertia = load(r.work, size + 1) + 2.0 * dot(p, p) * mass
    if not is_last_child(r, i):
        mass, inertia = mass + load(r.work, total), inertia + load(r.work, total + 1)
    store(r.work, total, mass)
    store(r.work, total + 1, inertia)


@kernel
def articulated_body_inertia(r, i):
    """Articulated-body inertia of the subtree of joint i."""
    Y = articulated(load_inertia(r.work, offset(r, COMPOSITE) + 10 * i))
    add_size(r, i, Y.linear.xx, symmetric_size(Y.angular))
    if has_child(r, i):
        Y = articulated_add(Y, load_articulated(r.work, offset(r, CHILDREN) + 21 * i))
    return Y


@kernel
def eliminate(r, i, c, Y):
    """Store U and 1 / D of column c of joint i; return Y with this column eliminated."""
    k = idx_v(r, i) + c
    U_k, size = articulated_column(r, i, c, Y)
    d = dot_column(r, i, c, U_k) + armature(r, k)
    if not all_above(d, DOUBTFUL * size):
        fail(r, k)
    d = 1.0 / d
    store_spatial(r.work, offset(r, U) + 6 * k, U_k)
    store(r.work, offset(r, DINV) + k, d)
    return articulated_less_outer(Y, U_k, d)


@kernel
def add_to_parent(r, i, Y):
    """Add Y, with all columns of joint i eliminated, to the children of its parent."""
    Y_ = offset(r, CHILDREN) + 21 * parent(r, i)
    pass_size(r, i)
    Y = articulated_moved(from_parent(r, i), Y)
    if not is_last_child(r, i):
        Y = articulated_add(Y, load_articulated(r.work, Y_))
    store_articulated(r.work, Y_, Y)


@kernel
def eliminate_all(r):
    """Only articulated-body inertias, from rigid-body inertias expressed in the root frame."""
    for i in range(njoints(r), 0, -1):
        Y = articulated_body_inertia(r, i)
        for c in range(ncolumns(r, i) - 1, -1, -1):
            Y = eliminate(r, i, c, Y)
        if parent(r, i) > 0:
            add_to_parent(r, i, Y)


@kernel
def bias_force(r, i):
    """Store the bias torques of joint i; return its bias force, with the joint free to move."""
    pA = load_force(r.work, offset(r, BIAS_FORCE) + 6 * i)
    for c in range(ncolumns(r, i) - 1, -1, -1):
        k = idx_v(r, i) + c
        u = load(r.work, offset(r, TAU_IN) + k) - dot_column(r, i, c, pA)
        store(r.work, offset(r, BIAS_TORQUE) + k, u)
        pA = force_add(pA, force_scale(load(r.work, offset(r, DINV) + k) * u,
                                       load_force(r.work, offset(r, U) + 6 * k)))
    return pA


@kernel
def inward_inertias(r):
    """Pass 2: articulated-body inertias and bias forces, joints eliminated one by one.

    The bias force of a joint follows its inertia, as registers do not hold both.
    """
    for i in range(njoints(r), 0, -1):
        Y = articulated_body_inertia(r, i)
        for c in range(ncolumns(r, i) - 1, -1, -1):
            Y = eliminate(r, i, c, Y)
        f = articulated_times(Y, load_motion(r.work, offset(r, BIAS) + 6 * i))
        if parent(r, i) > 0:
            add_to_parent(r, i, Y)
        f = force_moved(from_parent(r, i), force_add(bias_force(r, i), f))
        p = offset(r, BIAS_FORCE) + 6 * parent(r, i)
        store_spatial(r.work, p, force_add(load_force(r.work, p), f))


@kernel
def accelerate_root(r):
    """Set the acceleration of the universe to minus gravity."""
    clear(r.work, offset(r, LINK_ACCELERATION), 6)
    store3(r.work, offset(r, LINK_ACCELERATION), scale(-1.0, constant3(r.floats, GRAVITY)))


@kernel
def outward_accelerations(r):
    """Pass 3: joint accelerations."""
    a_ = offset(r, LINK_ACCELERATION)
    for i in range(1, njoints(r) + 1):
        a = motion_add(motion_moved(from_parent(r, i), load_motion(r.work, a_ + 6 * parent(r, i))),
                       load_motion(r.work, offset(r, BIAS) + 6 * i))
        for c in range(ncolumns(r, i)):
            k = idx_v(r, i) + c
            x = load(r.work, offset(r, DINV) + k) * (
                load(r.work, offset(r, BIAS_TORQUE) + k)
                - power(load_force(r.work, offset(r, U) + 6 * k), a))
            store(r.work, offset(r, DDQ) + k, x)
            a = add_column(r, i, c, a, x)
        store_spatial(r.work, a_ + 6 * i, a)


@kernel
def projected_aba_kernel(r):
    """If mimic joints couple branches: M ddq = tau - nle."""
    crba_kernel(r)
    factor(r)
    nonlinear_effects_kernel(r)
    for k in range(nv(r)):
        store(r.work, offset(r, DDQ) + k,
              load(r.work, offset(r, TAU_IN) + k) - load(r.work, offset(r, NLE) + k))
    solve(r, offset(r, DDQ))


@kernel
def aba_kernel(r):
    outward_velocities(r)
    inward_inertias(r)
    accelerate_root(r)
    outward_accelerations(r)


_aba = Algorithm("aba", aba_kernel, (Q, V, TAU_IN, F_EXT), (DDQ,), optional=(F_EXT,),
                 coupled=projected_aba_kernel).caller()


def aba(model: Model, data: Data, q: ArrayLike, v: ArrayLike, tau: ArrayLike,
        f_ext: ArrayLike | None = None, *, threads: int = 1) -> Array:
    """Forward dynamics: the joint accelerations for given torques, M^-1 (tau - nle + J' f_ext).

    Articulated-body algorithm, Featherstone (2008), table 7.1; O(n). Includes ``model.armature``.
    If mimic joints couple branches, M is factored instead.

    Parameters
    ----------
    model : Model
    data : Data
        Created for this model. Holds the result until the next call.
    q : (nq,) or (B, nq) array_like
        Configuration [rad, m].
    v : (nv,) or (B, nv) array_like
        Velocity [rad/s, m/s]; for floating, planar and spherical joints, in their frame.
    tau : (nv,) or (B, nv) array_like
        Joint torques and forces [N m, N].
    f_ext : (njoints, 6) or (B, njoints, 6) array_like, optional
        External wrench (force, moment) on each joint's body, at the origin of the joint frame and
        expressed in it [N, N m]. ``Model.external_forces`` converts wrenches on any frame.
    threads : int
        Number of threads for a batch.

    Returns
    -------
    (nv,) ndarray
        Joint accelerations [rad/s2, m/s2]. For a single state, ``data.ddq``; for a batch, a new
        array with a leading batch axis.

    Raises
    ------
    ValueError
        Wrong shape or dtype, a number that is not finite, or a quaternion that is not unit; names
        the argument, the expected and the actual value.
    numpy.linalg.LinAlgError
        The inertia matrix is singular; names the first joint from the tips that moves no inertia.

    Examples
    --------
    >>> ddq = dyn_ros.aba(model, data, q, v, tau).copy()
    >>> np.allclose(dyn_ros.rnea(model, data, q, v, ddq), tau)
    True
    """
    return _aba(model, data, threads, q, v, tau, f_ext)
