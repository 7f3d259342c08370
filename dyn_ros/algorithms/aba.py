"""Forward dynamics by the articulated-body algorithm.

Featherstone, Rigid Body Dynamics Algorithms (2008), table 7.1. As in crba, each body has its own
origin and all have the axes of the root: articulated-body inertias then only move on their way
down. A joint with several degrees of freedom is eliminated one column of its motion subspace
after the other.
"""
from ..model.layout import (F_EXT, GRAVITY, PRISMATIC, Q, REVOLUTE, TAU_IN, V, armature, at,
                            clear, coupled, fail, field, given, idx_v, kind, ncolumns, njoints,
                            nv, parent)
from ..spatial.algebra import (Force, articulated, articulated_add,
                               articulated_less_outer, articulated_moved, articulated_times,
                               constant3, dot, force_add, force_cross, force_moved, force_rotated,
                               force_scale, force_sub, load3, load9, load_articulated, load_force,
                               load_inertia, load_motion, momentum, motion_add, motion_cross,
                               motion_moved, motion_scale, power, rotate, rotate_back, scale,
                               store3, store_articulated, store_spatial, symmetric_times,
                               symmetric_trace)
from ..spatial.compiler import kernel
from ..spatial.lanes import all_above, load, store
from .call import Algorithm
from .crba import ARM, COMPOSITE, ROTATION, crba_kernel, load_column, outward_root_axes
from .minverse import SINGULAR, factor, solve
from .rnea import NLE, external_force, nonlinear_effects_kernel

DDQ = field("ddq", ("nv",), "Joint accelerations of aba [rad/s2, m/s2].")
VELOCITY = field("_v_root", ("rows", 6))
ACCELERATION = field("_a_root", ("rows", 6))
BIAS = field("_c", ("rows", 6))
ARTICULATED = field("_Yaba", ("rows", 21))
BIAS_FORCE = field("_pA", ("rows", 6))
U = field("_U", ("nv", 6))
DINV = field("_Dinv", ("nv",))
REST = field("_u", ("nv",))


@kernel
def outward_velocities(r):
    """Pass 1: velocities, bias accelerations and forces, rigid inertias."""
    outward_root_axes(r)
    v_, p_ = at(r, VELOCITY), at(r, BIAS_FORCE)
    clear(r.work, v_, 6)
    for i in range(1, njoints(r) + 1):
        v_p = motion_moved(load3(r.work, at(r, ARM) + 3 * i),
                           load_motion(r.work, v_ + 6 * parent(r, i)))
        vJ = motion_scale(load(r.work, at(r, V) + idx_v(r, i)), load_column(r, i, 0))
        for c in range(1, ncolumns(r, i)):
            vJ = motion_add(vJ, motion_scale(load(r.work, at(r, V) + idx_v(r, i) + c),
                                             load_column(r, i, c)))
        v = motion_add(v_p, vJ)
        Y = load_inertia(r.work, at(r, COMPOSITE) + 10 * i)
        pA = force_cross(v, momentum(Y, v))
        if given(r, F_EXT):
            R = load9(r.work, at(r, ROTATION) + 9 * i)
            pA = force_sub(pA, force_rotated(R, external_force(r, i)))
        store_spatial(r.work, v_ + 6 * i, v)
        store_spatial(r.work, at(r, BIAS) + 6 * i, motion_cross(v, vJ))
        store_articulated(r.work, at(r, ARTICULATED) + 21 * i, articulated(Y))
        store_spatial(r.work, p_ + 6 * i, pA)


@kernel
def articulated_column(r, i, S, Y):
    """Y S for a column S of joint i, and the trace of Y that the diagonal entry S' Y S is part of.
    """
    if kind(r, i) == REVOLUTE:
        u = S.angular
        return (Force(rotate(Y.cross, u), symmetric_times(Y.angular, u)),
                symmetric_trace(Y.angular))
    if kind(r, i) == PRISMATIC:
        u = S.linear
        return (Force(symmetric_times(Y.linear, u), rotate_back(Y.cross, u)),
                symmetric_trace(Y.linear))
    return (articulated_times(Y, S),
            dot(S.angular, S.angular) * symmetric_trace(Y.angular)
            + dot(S.linear, S.linear) * symmetric_trace(Y.linear))


@kernel
def inward_inertias(r):
    """Pass 2: articulated-body inertias and bias forces, joints eliminated one by one."""
    Y_, p_ = at(r, ARTICULATED), at(r, BIAS_FORCE)
    for i in range(njoints(r), 0, -1):
        Y = load_articulated(r.work, Y_ + 21 * i)
        pA = load_force(r.work, p_ + 6 * i)
        for c in range(ncolumns(r, i) - 1, -1, -1):
            k = idx_v(r, i) + c
            S = load_column(r, i, c)
            U_k, trace = articulated_column(r, i, S, Y)
            d = power(U_k, S) + armature(r, k)
            if not all_above(d, SINGULAR * trace):
                fail(r, k)
            d = 1.0 / d
            u = load(r.work, at(r, TAU_IN) + k) - power(pA, S)
            store_spatial(r.work, at(r, U) + 6 * k, U_k)
            store(r.work, at(r, DINV) + k, d)
            store(r.work, at(r, REST) + k, u)
            Y = articulated_less_outer(Y, U_k, d)
            pA = force_add(pA, force_scale(d * u, U_k))
        p = parent(r, i)
        if p > 0:
            arm = load3(r.work, at(r, ARM) + 3 * i)
            pA = force_add(pA, articulated_times(Y, load_motion(r.work, at(r, BIAS) + 6 * i)))
            store_articulated(r.work, Y_ + 21 * p, articulated_add(
                load_articulated(r.work, Y_ + 21 * p), articulated_moved(arm, Y)))
            store_spatial(r.work, p_ + 6 * p, force_add(
                load_force(r.work, p_ + 6 * p), force_moved(arm, pA)))


@kernel
def outward_accelerations(r):
    """Pass 3: the universe accelerates against gravity, each joint yields to its rest force."""
    a_ = at(r, ACCELERATION)
    clear(r.work, a_, 6)
    store3(r.work, a_, scale(-1.0, constant3(r.floats, GRAVITY)))
    for i in range(1, njoints(r) + 1):
        a = motion_add(motion_moved(load3(r.work, at(r, ARM) + 3 * i),
                                    load_motion(r.work, a_ + 6 * parent(r, i))),
                       load_motion(r.work, at(r, BIAS) + 6 * i))
        for c in range(ncolumns(r, i)):
            k = idx_v(r, i) + c
            x = load(r.work, at(r, DINV) + k) * (
                load(r.work, at(r, REST) + k)
                - power(load_force(r.work, at(r, U) + 6 * k), a))
            store(r.work, at(r, DDQ) + k, x)
            a = motion_add(a, motion_scale(x, load_column(r, i, c)))
        store_spatial(r.work, a_ + 6 * i, a)


@kernel
def projected_dynamics(r):
    """Where mimic joints couple branches: M ddq = tau - nle."""
    crba_kernel(r)
    factor(r)
    nonlinear_effects_kernel(r)
    for k in range(nv(r)):
        store(r.work, at(r, DDQ) + k,
              load(r.work, at(r, TAU_IN) + k) - load(r.work, at(r, NLE) + k))
    solve(r, at(r, DDQ))


@kernel
def aba_kernel(r):
    if coupled(r):
        projected_dynamics(r)
    else:
        outward_velocities(r)
        inward_inertias(r)
        outward_accelerations(r)


_aba = Algorithm("aba", aba_kernel, (Q, V, TAU_IN, F_EXT), (DDQ,)).caller()


def aba(model, data, q, v, tau, f_ext=None, *, threads=1):
    """Forward dynamics: the joint accelerations that torques give, M^-1 (tau - nle + J' f_ext).

    Articulated-body algorithm, Featherstone (2008), table 7.1; O(n). ``model.armature`` counts.
    With mimic joints, which couple branches, by M and its factor instead.

    Parameters
    ----------
    model : Model
    data : Data
        Made for the model. Keeps the result, until the next call.
    q : (nq,) or (B, nq) array_like
        Configuration [rad, m].
    v : (nv,) or (B, nv) array_like
        Velocity [rad/s, m/s]; of floating and planar joints in their own frame.
    tau : (nv,) or (B, nv) array_like
        Joint torques and forces [N m, N].
    f_ext : (njoints, 6) or (B, njoints, 6) array_like, optional
        External wrench on each joint's body (force, moment), in the joint's frame, at its
        origin [N, N m]. ``Model.external_forces`` brings it there from any frame.
    threads : int
        How many threads share a batch.

    Returns
    -------
    (nv,) ndarray
        Joint accelerations [rad/s2, m/s2]. For one state it is ``data.ddq`` itself; for a batch a
        new array with the batch's axis in front.

    Raises
    ------
    ValueError
        Names the argument, what was expected and what came: shape, dtype, a number that is not
        finite, a quaternion that is not unit.
    numpy.linalg.LinAlgError
        Names the first joint (from the tips) that moves no inertia.
    """
    return _aba(model, data, threads, q, v, tau, f_ext)
