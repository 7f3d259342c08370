# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Generalized momentum, and its rate without efforts.

The generalized momentum p = M v changes by dp/dt = tau + C' v - g: with the joint efforts, gravity
and the motion of the axes; De Luca and Mattone (2005), for C with dM/dt = C + C'. A column s of the
motion subspace of joint i, which moves with the velocity v_i, and the subtree of this joint with
the momentum h_i and the weight w_i contribute s . h_i to p and (v_i x s) . h_i + s . w_i to the
rate C' v - g. The sums over subtrees take one inward pass; C is not needed.
"""

from __future__ import annotations

from ...call.algorithm import Algorithm
from ...call.data import Data
from ...kernel import algebra as al
from ...kernel import packing as ly
from ...kernel.fields import JOINT_V, LIMI, Q, V, field
from ...kernel.joints import add_subspace_times, add_subspace_transpose_times, joint_placement
from ...kernel.lanes import load, store
from ...kernel.types import Array, ArrayLike
from ...machine_code.declare import kernel
from ...model.model import Model
from .rnea import add_force

P = field("generalized_momentum", ("nv",), "Generalized momentum, M v [kg m2/s, kg m/s].")
P_RATE = field(
    "momentum_rate",
    ("nv",),
    "Rate of the generalized momentum without joint efforts, C' v - g [N m, N].",
)
SUBTREE_MOMENTUM = field("_subtree_momentum", ("rows", 6))
SUBTREE_MASS = field("_subtree_mass", ("rows", 4))  # mass and first moment
FALL = field("_fall", ("rows", 3))  # gravity, in the axes of each joint


@kernel
def momenta_of_bodies(r, velocity):
    """Outward pass, with the velocities at an offset; gravity is expressed in the joints' axes."""
    ly.clear(r.work, ly.offset(r, P), ly.nv(r))
    ly.clear(r.work, ly.offset(r, JOINT_V), 6)
    ly.clear(r.work, ly.offset(r, SUBTREE_MOMENTUM), 6)
    ly.clear(r.work, ly.offset(r, SUBTREE_MASS), 4)
    al.store3(r.work, ly.offset(r, FALL), al.constant3(r.floats, ly.GRAVITY))
    X_, v_, h_ = ly.offset(r, LIMI), ly.offset(r, JOINT_V), ly.offset(r, SUBTREE_MOMENTUM)
    for i in range(1, ly.njoints(r) + 1):
        p = ly.parent(r, i)
        X = joint_placement(r, i)
        v = add_subspace_times(r, i, al.to_child(X, al.load_motion(r.work, v_ + 6 * p)), velocity)
        Y = ly.body_inertia(r, i)
        al.store_se3(r.work, X_ + 16 * i, X)
        al.store_spatial(r.work, v_ + 6 * i, v)
        al.store_spatial(r.work, h_ + 6 * i, al.momentum(Y, v))
        store(r.work, ly.offset(r, SUBTREE_MASS) + 4 * i, Y.mass)
        al.store3(r.work, ly.offset(r, SUBTREE_MASS) + 4 * i + 1, Y.moment)
        al.store3(
            r.work,
            ly.offset(r, FALL) + 3 * i,
            al.rotate_inverse(X.rotation, al.load3(r.work, ly.offset(r, FALL) + 3 * p)),
        )


@kernel
def add_momentum_to_parent(r, i, h):
    X = al.load_se3(r.work, ly.offset(r, LIMI) + 16 * i)
    add_force(r, ly.offset(r, SUBTREE_MOMENTUM) + 6 * ly.parent(r, i), al.to_parent(X, h))


@kernel
def add_mass_to_parent(r, i, mass, moment):
    X = al.load_se3(r.work, ly.offset(r, LIMI) + 16 * i)
    k = ly.offset(r, SUBTREE_MASS) + 4 * ly.parent(r, i)
    moved = al.add(al.rotate(X.rotation, moment), al.scale(mass, X.translation))
    ly.increase(r.work, k, mass)
    al.store3(r.work, k + 1, al.add(al.load3(r.work, k + 1), moved))


@kernel
def add_rotor_momenta(r, velocity):
    for k in range(ly.nv(r)):
        ly.increase(r.work, ly.offset(r, P) + k, ly.armature(r, k) * load(r.work, velocity + k))


@kernel
def momentum_of(r, velocity):
    """Store M times a velocity in P, and the subtrees' momenta."""
    momenta_of_bodies(r, velocity)
    for i in range(ly.njoints(r), 0, -1):
        h = al.load_force(r.work, ly.offset(r, SUBTREE_MOMENTUM) + 6 * i)
        add_subspace_transpose_times(r, i, h, ly.offset(r, P), 1)
        add_momentum_to_parent(r, i, h)
    add_rotor_momenta(r, velocity)


@kernel
def momentum_terms_kernel(r):
    momenta_of_bodies(r, ly.offset(r, V))
    ly.clear(r.work, ly.offset(r, P_RATE), ly.nv(r))
    for i in range(ly.njoints(r), 0, -1):
        h = al.load_force(r.work, ly.offset(r, SUBTREE_MOMENTUM) + 6 * i)
        v = al.load_motion(r.work, ly.offset(r, JOINT_V) + 6 * i)
        mass = load(r.work, ly.offset(r, SUBTREE_MASS) + 4 * i)
        moment = al.load3(r.work, ly.offset(r, SUBTREE_MASS) + 4 * i + 1)
        g = al.load3(r.work, ly.offset(r, FALL) + 3 * i)
        weight = al.Force(al.scale(mass, g), al.cross(moment, g))
        add_subspace_transpose_times(r, i, h, ly.offset(r, P), 1)
        add_subspace_transpose_times(  # (v x s) . h = -s . (v x* h)
            r, i, al.force_sub(weight, al.force_cross(v, h)), ly.offset(r, P_RATE), 1
        )
        add_momentum_to_parent(r, i, h)
        add_mass_to_parent(r, i, mass, moment)
    add_rotor_momenta(r, ly.offset(r, V))


_momentum_terms = Algorithm(
    "momentum_terms", momentum_terms_kernel, (Q, V), (P, P_RATE), also_writes=(JOINT_V,)
).caller()


def momentum_terms(
    model: Model, data: Data, q: ArrayLike, v: ArrayLike, *, threads: int = 1
) -> tuple[Array, Array]:
    """Generalized momentum p = M v, and its rate without joint efforts, C' v - g.

    The joint efforts of a motion are tau = dp/dt - (C' v - g). De Luca and Mattone (2005), with C
    of ``coriolis_matrix``, which is not computed; O(n). Includes ``model.armature``. For floating,
    planar and spherical joints, dp/dt consists of the rates of the numbers in p.

    Examples
    --------
    The torques of a motion from the rate of the momentum, without accelerations:

    >>> p, rate = dyn_ros.momentum_terms(model, data, q, v)
    >>> np.allclose(p, dyn_ros.crba(model, data, q) @ v)
    True
    """
    momentum, rate = _momentum_terms(model, data, threads, q, v)
    return momentum, rate
