# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Inverse dynamics by the recursive Newton-Euler algorithm, in body frames, and its relatives."""

from __future__ import annotations

from ...call.algorithm import Algorithm
from ...call.data import Data
from ...kernel import algebra as al
from ...kernel import joints
from ...kernel import packing as ly
from ...kernel.fields import F_EXT, JOINT_A, JOINT_F, JOINT_V, LIMI, A, Q, V, field
from ...kernel.lanes import load
from ...kernel.types import Array, ArrayLike
from ...machine_code.declare import kernel
from ...model.model import Model
from ..kinematics.root_axes import let_fall

TAU = field("tau", ("nv",), "Joint torques and forces [N m, N].")
NLE = field("nle", ("nv",), "Coriolis, centrifugal and gravity torques [N m, N].")
G = field("g", ("nv",), "Gravity torques [N m, N].")


@kernel
def set_base(r):
    """Set the universe to rest with an acceleration of minus gravity."""
    ly.clear(r.work, ly.offset(r, JOINT_V), 6)
    ly.clear(r.work, ly.offset(r, JOINT_F), 6)
    let_fall(r, JOINT_A)


@kernel
def add_force(r, k, f):
    """Add a force to that at offset k."""
    al.store_spatial(r.work, k, al.force_add(al.load_force(r.work, k), f))


@kernel
def transmit_forces(r, tau):
    """Backward pass: sum the forces toward the base and compute the joint torques S' f."""
    ly.clear(r.work, tau, ly.nv(r))
    f = ly.offset(r, JOINT_F)
    for i in range(ly.njoints(r), 0, -1):
        f_i = al.load_force(r.work, f + 6 * i)
        joints.add_subspace_transpose_times(r, i, f_i, tau, 1)
        X = al.load_se3(r.work, ly.offset(r, LIMI) + 16 * i)
        add_force(r, f + 6 * ly.parent(r, i), al.to_parent(X, f_i))


@kernel
def external_force(r, i):
    return al.load_force(r.work, ly.offset(r, F_EXT) + 6 * (i - 1))


@kernel
def newton_euler(r, accelerated, tau):
    set_base(r)
    X_, v_, a_, f_ = (
        ly.offset(r, LIMI),
        ly.offset(r, JOINT_V),
        ly.offset(r, JOINT_A),
        ly.offset(r, JOINT_F),
    )
    for i in range(1, ly.njoints(r) + 1):
        p = ly.parent(r, i)
        X = joints.joint_placement(r, i)
        al.store_se3(r.work, X_ + 16 * i, X)
        v = joints.add_subspace_times(
            r, i, al.to_child(X, al.load_motion(r.work, v_ + 6 * p)), ly.offset(r, V)
        )
        a = al.motion_add(
            al.to_child(X, al.load_motion(r.work, a_ + 6 * p)),
            joints.cross_subspace_times(r, i, v, ly.offset(r, V)),
        )
        if accelerated:
            a = joints.add_subspace_times(r, i, a, ly.offset(r, A))
        Y = ly.body_inertia(r, i)
        f = al.body_force(Y, v, a)
        if ly.has_input(r, F_EXT):
            f = al.force_sub(f, external_force(r, i))
        al.store_spatial(r.work, v_ + 6 * i, v)
        al.store_spatial(r.work, a_ + 6 * i, a)
        al.store_spatial(r.work, f_ + 6 * i, f)
    transmit_forces(r, tau)
    if accelerated:
        for k in range(ly.nv(r)):
            ly.increase(r.work, tau + k, ly.armature(r, k) * load(r.work, ly.offset(r, A) + k))


@kernel
def rnea_kernel(r):
    newton_euler(r, True, ly.offset(r, TAU))


@kernel
def nonlinear_effects_kernel(r):
    newton_euler(r, False, ly.offset(r, NLE))


@kernel
def static_torques(r, tau):
    set_base(r)
    X_, a_, f_ = ly.offset(r, LIMI), ly.offset(r, JOINT_A), ly.offset(r, JOINT_F)
    for i in range(1, ly.njoints(r) + 1):
        X = joints.joint_placement(r, i)
        a = al.to_child(X, al.load_motion(r.work, a_ + 6 * ly.parent(r, i)))
        f = al.momentum(ly.body_inertia(r, i), a)
        if ly.has_input(r, F_EXT):
            f = al.force_sub(f, external_force(r, i))
        al.store_se3(r.work, X_ + 16 * i, X)
        al.store_spatial(r.work, a_ + 6 * i, a)
        al.store_spatial(r.work, f_ + 6 * i, f)
    transmit_forces(r, tau)


@kernel
def generalized_gravity_kernel(r):
    static_torques(r, ly.offset(r, G))


@kernel
def static_torque_kernel(r):
    static_torques(r, ly.offset(r, TAU))


_rnea = Algorithm(
    "rnea",
    rnea_kernel,
    (Q, V, A, F_EXT),
    (TAU,),
    optional=(F_EXT,),
    also_writes=(JOINT_V, JOINT_A, JOINT_F),
).caller()
_nle = Algorithm(
    "nonlinear_effects",
    nonlinear_effects_kernel,
    (Q, V),
    (NLE,),
    also_writes=(JOINT_V, JOINT_A, JOINT_F),
).caller()
_gravity = Algorithm(
    "generalized_gravity", generalized_gravity_kernel, (Q,), (G,), also_writes=(JOINT_A, JOINT_F)
).caller()
_static = Algorithm(
    "static_torque",
    static_torque_kernel,
    (Q, F_EXT),
    (TAU,),
    optional=(F_EXT,),
    also_writes=(JOINT_A, JOINT_F),
).caller()


def rnea(
    model: Model,
    data: Data,
    q: ArrayLike,
    v: ArrayLike,
    a: ArrayLike,
    f_ext: ArrayLike | None = None,
    *,
    threads: int = 1,
) -> Array:
    """Inverse dynamics: the joint torques for a motion, M a + nle - J' f_ext.

    Recursive Newton-Euler algorithm, Featherstone (2008), table 5.1; O(n). Includes
    ``model.armature``.

    Examples
    --------
    >>> tau = dyn_ros.rnea(model, data, q, v, a)
    >>> np.allclose(dyn_ros.aba(model, data, q, v, tau.copy()), a)
    True

    A batch of 100 states in one call:

    >>> dyn_ros.rnea(model, data, np.tile(q, (100, 1)), v, a).shape
    (100, 7)
    """
    return _rnea(model, data, threads, q, v, a, f_ext)


def nonlinear_effects(
    model: Model, data: Data, q: ArrayLike, v: ArrayLike, *, threads: int = 1
) -> Array:
    """Coriolis, centrifugal and gravity torques: ``rnea`` at zero acceleration.

    Featherstone (2008), table 5.1; O(n).

    Examples
    --------
    >>> nle = dyn_ros.nonlinear_effects(model, data, q, v)
    >>> np.allclose(nle, dyn_ros.rnea(model, data, q, v, np.zeros(model.nv)))
    True
    """
    return _nle(model, data, threads, q, v)


def generalized_gravity(model: Model, data: Data, q: ArrayLike, *, threads: int = 1) -> Array:
    """Gravity torques, the gradient of the potential energy: ``rnea`` at rest.

    Featherstone (2008), table 5.1 with v = a = 0; O(n).

    Examples
    --------
    The torques that hold the arm still:

    >>> g = dyn_ros.generalized_gravity(model, data, q).copy()
    >>> print(g.round(2))
    [ 0.    8.17 -1.27 -7.69 -0.27 -1.35  0.  ]
    >>> np.allclose(dyn_ros.aba(model, data, q, np.zeros(7), g), 0.0)
    True
    """
    return _gravity(model, data, threads, q)


def static_torque(
    model: Model, data: Data, q: ArrayLike, f_ext: ArrayLike, *, threads: int = 1
) -> Array:
    """Torques that hold the robot still under gravity and external forces, g - J' f_ext.

    Featherstone (2008), table 5.1 with v = a = 0; O(n).

    Examples
    --------
    A load of 10 N that pulls the tool down, along -z of the world:

    >>> load = model.external_forces({"tool": [0.0, 0.0, -10.0, 0.0, 0.0, 0.0]}, q, axes="world")
    >>> tau = dyn_ros.static_torque(model, data, q, load).copy()
    >>> J = dyn_ros.frame_jacobian(model, data, q, "tool", ReferenceFrame.LOCAL_WORLD_ALIGNED)
    >>> np.allclose(tau, dyn_ros.generalized_gravity(model, data, q) + 10.0 * J[2])
    True
    """
    return _static(model, data, threads, q, f_ext)
