"""Forward dynamics by the articulated-body algorithm.

Featherstone, Rigid Body Dynamics Algorithms (2008), table 7.1, in body frames. A joint with
several degrees of freedom is eliminated one column of its motion subspace after the other.
"""
from ..model.joints import column, joint_placement, subspace_times
from ..model.layout import (F_EXT, JOINT_A, JOINT_V, LIMI, PRISMATIC, Q, REVOLUTE,
                            TAU_IN, V, armature, at, axis, body_inertia, coupled, fail, field, given,
                            idx_v, kind, ncolumns, njoints, nv, parent)
from ..spatial.algebra import (Force, articulated, articulated_add, articulated_less_outer,
                               articulated_times, articulated_to_parent, force_add, force_cross,
                               force_scale, force_sub, load_articulated, load_force,
                               load_motion, load_se3, momentum, motion_add,
                               motion_cross, motion_scale, power, rotate, rotate_back,
                               store_articulated, store_se3, store_spatial, symmetric_times,
                               symmetric_trace, to_child, to_parent)
from ..spatial.compiler import kernel
from ..spatial.lanes import all_above, load, store
from .call import Algorithm
from .crba import crba_kernel
from .minverse import SINGULAR, factor, solve
from .rnea import NLE, external_force, nonlinear_effects_kernel, set_base

DDQ = field("ddq", ("nv",), "Joint accelerations of aba [rad/s2, m/s2].")
BIAS = field("_c", ("rows", 6))
ARTICULATED = field("_Yaba", ("rows", 21))
BIAS_FORCE = field("_pA", ("rows", 6))
U = field("_U", ("nv", 6))
DINV = field("_Dinv", ("nv",))
REST = field("_u", ("nv",))


@kernel
def outward_velocities(r):
    """Pass 1: placements, velocities, bias accelerations and forces, rigid inertias."""
    set_base(r)
    v_, c_, Y_, p_ = at(r, JOINT_V), at(r, BIAS), at(r, ARTICULATED), at(r, BIAS_FORCE)
    for i in range(1, njoints(r) + 1):
        X = joint_placement(r, i)
        vJ = subspace_times(r, i, at(r, V))
        v = motion_add(to_child(X, load_motion(r.work, v_ + 6 * parent(r, i))), vJ)
        Y = body_inertia(r, i)
        pA = force_cross(v, momentum(Y, v))
        if given(r, F_EXT):
            pA = force_sub(pA, external_force(r, i))
        store_se3(r.work, at(r, LIMI) + 12 * i, X)
        store_spatial(r.work, v_ + 6 * i, v)
        store_spatial(r.work, c_ + 6 * i, motion_cross(v, vJ))
        store_articulated(r.work, Y_ + 21 * i, articulated(Y))
        store_spatial(r.work, p_ + 6 * i, pA)


@kernel
def articulated_column(r, i, c, Y):
    """Y S for column c of joint i's S, and the trace of Y that its diagonal entry is part of."""
    if kind(r, i) == REVOLUTE:
        u = axis(r, i)
        return (Force(rotate(Y.cross, u), symmetric_times(Y.angular, u)),
                symmetric_trace(Y.angular))
    if kind(r, i) == PRISMATIC:
        u = axis(r, i)
        return (Force(symmetric_times(Y.linear, u), rotate_back(Y.cross, u)),
                symmetric_trace(Y.linear))
    S = column(r, i, c)
    angular = S.angular[0] + S.angular[1] + S.angular[2]
    return (articulated_times(Y, S), angular * symmetric_trace(Y.angular)
            + (1.0 - angular) * symmetric_trace(Y.linear))


@kernel
def inward_inertias(r):
    """Pass 2: articulated-body inertias and bias forces, joints eliminated one by one."""
    Y_, p_ = at(r, ARTICULATED), at(r, BIAS_FORCE)
    for i in range(njoints(r), 0, -1):
        Y = load_articulated(r.work, Y_ + 21 * i)
        pA = load_force(r.work, p_ + 6 * i)
        for c in range(ncolumns(r, i) - 1, -1, -1):
            k = idx_v(r, i) + c
            S = column(r, i, c)
            U_k, trace = articulated_column(r, i, c, Y)
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
            X = load_se3(r.work, at(r, LIMI) + 12 * i)
            pA = force_add(pA, articulated_times(Y, load_motion(r.work, at(r, BIAS) + 6 * i)))
            store_articulated(r.work, Y_ + 21 * p, articulated_add(
                load_articulated(r.work, Y_ + 21 * p), articulated_to_parent(X, Y)))
            store_spatial(r.work, p_ + 6 * p, force_add(
                load_force(r.work, p_ + 6 * p), to_parent(X, pA)))


@kernel
def outward_accelerations(r):
    """Pass 3."""
    a_ = at(r, JOINT_A)
    for i in range(1, njoints(r) + 1):
        X = load_se3(r.work, at(r, LIMI) + 12 * i)
        a = motion_add(to_child(X, load_motion(r.work, a_ + 6 * parent(r, i))),
                       load_motion(r.work, at(r, BIAS) + 6 * i))
        for c in range(ncolumns(r, i)):
            k = idx_v(r, i) + c
            x = load(r.work, at(r, DINV) + k) * (
                load(r.work, at(r, REST) + k)
                - power(load_force(r.work, at(r, U) + 6 * k), a))
            store(r.work, at(r, DDQ) + k, x)
            a = motion_add(a, motion_scale(x, column(r, i, c)))
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
    return _aba(model, data, threads, q, v, tau, f_ext)
