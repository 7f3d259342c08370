# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Generalized momentum, and its rate without efforts.

The generalized momentum p = M v changes with the joint efforts, gravity and the motion of the axes:

    dp/dt = tau + C' v - g

De Luca and Mattone, "Sensorless robot collision detection and hybrid force/motion control" (2005),
for C with dM/dt = C + C'. A column s of the motion subspace of joint i, which moves with the
velocity v_i, and the subtree of this joint with the momentum h_i and the weight w_i contribute
s . h_i to p and (v_i x s) . h_i + s . w_i to C' v - g. The sums over subtrees take one inward pass;
C is not needed.
"""
from ...call.algorithm import Algorithm
from ...call.data import Data
from ...kernel.algebra import (
    Force,
    add,
    cross,
    force_add,
    force_cross,
    force_sub,
    load3,
    load_force,
    load_motion,
    load_se3,
    momentum,
    rotate,
    rotate_inverse,
    scale,
    store3,
    store_se3,
    store_spatial,
    to_child,
    to_parent,
)
from ...kernel.compiler import kernel
from ...kernel.fields import JOINT_V, LIMI, Q, V, field
from ...kernel.joints import add_subspace_times, add_subspace_transpose_times, joint_placement
from ...kernel.lanes import constant, load, store
from ...kernel.layout import (
    GRAVITY,
    armature,
    body_inertia,
    clear,
    increase,
    njoints,
    nv,
    offset,
    parent,
)
from ...kernel.types import Array, ArrayLike
from ...model.model import Model

P = field("generalized_momentum", ("nv",), "Generalized momentum, M v [kg m2/s, kg m/s].")
P_RATE = field("momentum_rate", ("nv",), "Rate of the generalized momentum without joint efforts, "
                                         "C' v - g [N m, N].")
SUBTREE_MOMENTUM = field("_subtree_momentum", ("rows", 6))
SUBTREE_MASS = field("_subtree_mass", ("rows", 4))      # mass and first moment
FALL = field("_fall", ("rows", 3))                      # gravity, in the axes of each joint


@kernel
def clear_universe(r):
    clear(r.work, offset(r, JOINT_V), 6)
    clear(r.work, offset(r, SUBTREE_MOMENTUM), 6)
    clear(r.work, offset(r, SUBTREE_MASS), 4)
    for k in range(3):
        store(r.work, offset(r, FALL) + k, constant(r.floats, GRAVITY + k))


@kernel
def momenta_of_bodies(r, velocity):
    """Outward pass: placements, velocities, momenta, masses, and gravity in the axes of joints.

    velocity is the offset of a field with nv numbers.
    """
    X_, v_, h_ = offset(r, LIMI), offset(r, JOINT_V), offset(r, SUBTREE_MOMENTUM)
    for i in range(1, njoints(r) + 1):
        p = parent(r, i)
        X = joint_placement(r, i)
        v = add_subspace_times(r, i, to_child(X, load_motion(r.work, v_ + 6 * p)), velocity)
        Y = body_inertia(r, i)
        store_se3(r.work, X_ + 16 * i, X)
        store_spatial(r.work, v_ + 6 * i, v)
        store_spatial(r.work, h_ + 6 * i, momentum(Y, v))
        store(r.work, offset(r, SUBTREE_MASS) + 4 * i, Y.mass)
        store3(r.work, offset(r, SUBTREE_MASS) + 4 * i + 1, Y.moment)
        store3(r.work, offset(r, FALL) + 3 * i,
               rotate_inverse(X.rotation, load3(r.work, offset(r, FALL) + 3 * p)))


@kernel
def add_momentum_to_parent(r, i, h):
    X = load_se3(r.work, offset(r, LIMI) + 16 * i)
    k = offset(r, SUBTREE_MOMENTUM) + 6 * parent(r, i)
    store_spatial(r.work, k, force_add(load_force(r.work, k), to_parent(X, h)))


@kernel
def add_mass_to_parent(r, i, mass, moment):
    X = load_se3(r.work, offset(r, LIMI) + 16 * i)
    k = offset(r, SUBTREE_MASS) + 4 * parent(r, i)
    moved = add(rotate(X.rotation, moment), scale(mass, X.translation))
    increase(r.work, k, mass)
    store3(r.work, k + 1, add(load3(r.work, k + 1), moved))


@kernel
def add_rotor_momenta(r, velocity):
    for k in range(nv(r)):
        increase(r.work, offset(r, P) + k, armature(r, k) * load(r.work, velocity + k))


@kernel
def momentum_of(r, velocity):
    """Store M times a velocity in P, and the subtrees' momenta."""
    clear_universe(r)
    momenta_of_bodies(r, velocity)
    clear(r.work, offset(r, P), nv(r))
    for i in range(njoints(r), 0, -1):
        h = load_force(r.work, offset(r, SUBTREE_MOMENTUM) + 6 * i)
        add_subspace_transpose_times(r, i, h, offset(r, P), 1)
        add_momentum_to_parent(r, i, h)
    add_rotor_momenta(r, velocity)


@kernel
def momentum_terms_kernel(r):
    clear_universe(r)
    momenta_of_bodies(r, offset(r, V))
    clear(r.work, offset(r, P), nv(r))
    clear(r.work, offset(r, P_RATE), nv(r))
    for i in range(njoints(r), 0, -1):
        h = load_force(r.work, offset(r, SUBTREE_MOMENTUM) + 6 * i)
        v = load_motion(r.work, offset(r, JOINT_V) + 6 * i)
        mass = load(r.work, offset(r, SUBTREE_MASS) + 4 * i)
        moment = load3(r.work, offset(r, SUBTREE_MASS) + 4 * i + 1)
        g = load3(r.work, offset(r, FALL) + 3 * i)
        weight = Force(scale(mass, g), cross(moment, g))
        add_subspace_transpose_times(r, i, h, offset(r, P), 1)
        add_subspace_transpose_times(      # (v x s) . h = -s . (v x* h)
            r, i, force_sub(weight, force_cross(v, h)), offset(r, P_RATE), 1)
        add_momentum_to_parent(r, i, h)
        add_mass_to_parent(r, i, mass, moment)
    add_rotor_momenta(r, offset(r, V))


_momentum_terms = Algorithm("momentum_terms", momentum_terms_kernel, (Q, V), (P, P_RATE),
                            leaves=(JOINT_V,)).caller()


def momentum_terms(model: Model, data: Data, q: ArrayLike, v: ArrayLike, *,
                   threads: int = 1) -> tuple[Array, Array]:
    """Generalized momentum p = M v, and its rate without joint efforts, C' v - g.

    The joint efforts of a motion are tau = dp/dt - (C' v - g). De Luca and Mattone (2005), with C
    of ``coriolis_matrix``, which is not computed; O(n). Includes ``model.armature``. For floating,
    planar and spherical joints, dp/dt consists of the rates of the numbers in p. Also computes
    ``data.v``.

    Parameters
    ----------
    model : Model
    data : Data
        Created for this model. Holds the results until the next call.
    q : (nq,) or (B, nq) array_like
        Configuration [rad, m].
    v : (nv,) or (B, nv) array_like
        Velocity [rad/s, m/s]; for floating, planar and spherical joints, in their frame.
    threads : int
        Number of threads for a batch.

    Returns
    -------
    generalized_momentum : (nv,) ndarray
        M v [kg m2/s, kg m/s]. For a single state, an attribute of ``data``, as is the other one;
        for a batch, new arrays with a leading batch axis.
    momentum_rate : (nv,) ndarray
        C' v - g [N m, N].

    Raises
    ------
    ValueError
        Wrong shape or dtype, a number that is not finite, or a quaternion that is not unit; names
        the argument, the expected and the actual value.

    Examples
    --------
    The torques of a motion from the rate of the momentum, without accelerations:

    >>> p, rate = dyn_ros.momentum_terms(model, data, q, v)
    >>> np.allclose(p, dyn_ros.crba(model, data, q) @ v)
    True
    """
    momentum, rate = _momentum_terms(model, data, threads, q, v)
    return momentum, rate
