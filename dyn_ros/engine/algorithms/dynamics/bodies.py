# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Momentum of each body, and force of each joint."""
from __future__ import annotations

from ...call.algorithm import Algorithm
from ...call.data import Data
from ...kernel import algebra as al
from ...kernel import layout as ly
from ...kernel.compiler import kernel
from ...kernel.fields import F_EXT, JOINT_A, JOINT_F, JOINT_V, LIMI, OMI, A, Q, V, field
from ...kernel.joints import add_subspace_times
from ...kernel.types import Array, ArrayLike
from ...model.model import Model
from ..kinematics.kinematics import place_all, place_in_world
from .rnea import TAU, newton_euler

H = field("h", ("rows", 6), "Momentum (linear, angular) of each joint's body, expressed in the "
                            "joint frame, at its origin [kg m/s, kg m2/s].")
OH = field("oh", ("rows", 6), "Momentum (linear, angular) of each joint's body, expressed in the "
                              "world, at its origin [kg m/s, kg m2/s].")
OF = field("of", ("rows", 6), "Force and moment that each joint transmits to its body, expressed "
                              "in the world, at its origin [N, N m].")


@kernel
def joint_velocity(r, i):
    """Store and return the velocity of joint i in its frame, after its placement."""
    v_ = ly.offset(r, JOINT_V)
    X = al.load_se3(r.work, ly.offset(r, LIMI) + 16 * i)
    v = al.to_child(X, al.load_motion(r.work, v_ + 6 * ly.parent(r, i)))
    v = add_subspace_times(r, i, v, ly.offset(r, V))
    al.store_spatial(r.work, v_ + 6 * i, v)
    return v


@kernel
def store_in_world(r, field, i, f):
    X = al.load_se3(r.work, ly.offset(r, OMI) + 16 * i)
    al.store_spatial(r.work, ly.offset(r, field) + 6 * i, al.to_parent(X, f))


@kernel
def body_momenta_kernel(r):
    place_all(r)
    ly.clear(r.work, ly.offset(r, JOINT_V), 6)
    for i in range(1, ly.njoints(r) + 1):
        h = al.momentum(ly.body_inertia(r, i), joint_velocity(r, i))
        al.store_spatial(r.work, ly.offset(r, H) + 6 * i, h)
        store_in_world(r, OH, i, h)


@kernel
def joint_forces_kernel(r):
    newton_euler(r, True, ly.offset(r, TAU))
    for i in range(1, ly.njoints(r) + 1):
        place_in_world(r, i, al.load_se3(r.work, ly.offset(r, LIMI) + 16 * i))
        store_in_world(r, OF, i, al.load_force(r.work, ly.offset(r, JOINT_F) + 6 * i))


_momenta = Algorithm("body_momenta", body_momenta_kernel, (Q, V), (H, OH),
                     also_writes=(JOINT_V, LIMI, OMI)).caller()
_forces = Algorithm("joint_forces", joint_forces_kernel, (Q, V, A, F_EXT), (JOINT_F, OF),
                    optional=(F_EXT,), also_writes=(TAU, JOINT_V, JOINT_A, LIMI, OMI)).caller()


def body_momenta(model: Model, data: Data, q: ArrayLike, v: ArrayLike, *,
                 threads: int = 1) -> tuple[Array, Array]:
    """Momentum of each joint's body.

    Featherstone (2008), section 2.13; O(n). The momentum is that of the single body, as after
    Pinocchio's rnea; Pinocchio's computeCentroidalMomentum stores that of the subtree under the
    same name.

    Examples
    --------
    >>> h, oh = dyn_ros.body_momenta(model, data, q, v)
    >>> linear = oh[:, :3].sum(axis=0)
    >>> np.allclose(linear, model.total_mass * dyn_ros.center_of_mass(model, data, q, v)[1])
    True
    """
    return _momenta(model, data, threads, q, v)


def joint_forces(model: Model, data: Data, q: ArrayLike, v: ArrayLike, a: ArrayLike,
                 f_ext: ArrayLike | None = None, *, threads: int = 1) -> tuple[Array, Array]:
    """Force that each joint transmits to its body, which moves and supports the whole subtree.

    Recursive Newton-Euler algorithm, Featherstone (2008), table 5.1; O(n). The force includes the
    reaction to gravity, minus external forces; the joint torque is S' f, excluding armature.

    Examples
    --------
    The first joint carries the weight of the arm:

    >>> f, of = dyn_ros.joint_forces(model, data, q, 0.0 * v, 0.0 * a)
    >>> bool(np.isclose(of[0, 2], 9.81 * model.total_mass))
    True
    """
    return _forces(model, data, threads, q, v, a, f_ext)
