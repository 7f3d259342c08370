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

from ...call.algorithm import algorithm
from ...call.data import Data
from ...kernel.types import Array, ArrayLike, OutArrays
from ...kernel.vocabulary import *
from ...model.model import Model

P = field("generalized_momentum", ("nv",), "Generalized momentum, M v [kg m2/s, kg m/s].")
P_RATE = field(
    "momentum_rate",
    ("nv",),
    "Rate of the generalized momentum without joint efforts, C' v - g [N m, N].",
)
SUBTREE_MOMENTUM = field("_subtree_momentum", ("rows", 6))
SUBTREE_MASS = field("_subtree_mass", ("rows",))
SUBTREE_FIRST_MOMENT = field("_subtree_first_moment", ("rows", 3))  # mass times center of mass
GRAVITY_IN_JOINT = field("_gravity_in_joint", ("rows", 3))  # expressed in each joint's axes


@kernel
def compute_body_momenta(r, velocity):
    """Compute the momenta of bodies with the velocities of a field, in an outward pass.

        v = X^-1 v_p + S qd,  h = Y v,  g_i = R' g_p        X = (R, p) = liMi

    Reads Q, velocity; writes LIMI, JOINT_V, P, SUBTREE_MOMENTUM, SUBTREE_MASS,
    SUBTREE_FIRST_MOMENT, GRAVITY_IN_JOINT.
    """
    clear_entries(r, P, nv(r))
    clear_motion(r, JOINT_V, 0)
    clear_force(r, SUBTREE_MOMENTUM, 0)
    set_entry(r, SUBTREE_MASS, 0, 0.0)
    clear_vector(r, SUBTREE_FIRST_MOMENT, 0)
    set_vector(r, GRAVITY_IN_JOINT, 0, gravity(r))
    for i in range(1, njoints(r) + 1):
        p = parent(r, i)
        X = joint_placement(r, i)
        v = add_subspace_times(r, i, motion_to_child(X, motion(r, JOINT_V, p)), velocity)
        Y = body_inertia(r, i)
        set_placement(r, LIMI, i, X)
        set_motion(r, JOINT_V, i, v)
        set_force(r, SUBTREE_MOMENTUM, i, inertia_times(Y, v))
        set_entry(r, SUBTREE_MASS, i, Y.mass)
        set_vector(r, SUBTREE_FIRST_MOMENT, i, Y.first_moment)
        set_vector(
            r, GRAVITY_IN_JOINT, i, rotate_inverse(X.rotation, vector(r, GRAVITY_IN_JOINT, p))
        )


@kernel
def add_momentum_to_parent(r, i, h):
    """Add the momentum of the subtree of joint i to its parent's.

        h_p = h_p + X* h

    Reads LIMI; writes SUBTREE_MOMENTUM.
    """
    X = placement(r, LIMI, i)
    add_to_force(r, SUBTREE_MOMENTUM, parent(r, i), force_to_parent(X, h))


@kernel
def add_mass_to_parent(r, i, mass, moment):
    """Add mass and first moment of the subtree of joint i to its parent's.

        (m c)_p = (m c)_p + R m c + m p

    Reads LIMI; writes SUBTREE_MASS, SUBTREE_FIRST_MOMENT.
    """
    p, X = parent(r, i), placement(r, LIMI, i)
    moved = add(rotate(X.rotation, moment), scale(mass, X.translation))
    add_to_entry(r, SUBTREE_MASS, p, mass)
    set_vector(r, SUBTREE_FIRST_MOMENT, p, add(vector(r, SUBTREE_FIRST_MOMENT, p), moved))


@kernel
def add_rotor_momenta(r, velocity):
    """Add the momenta of the rotors, armature_k qd_k. Reads velocity; writes P."""
    for k in range(nv(r)):
        add_to_entry(r, P, k, armature(r, k) * entry(r, velocity, k))


@kernel
def compute_momentum(r, velocity):
    """Compute M times the velocity in a field, and the subtrees' momenta.

        p = S' h

    Reads Q, velocity; writes LIMI, JOINT_V, P, SUBTREE_MOMENTUM, SUBTREE_MASS,
    SUBTREE_FIRST_MOMENT, GRAVITY_IN_JOINT.
    """
    compute_body_momenta(r, velocity)
    for i in range(njoints(r), 0, -1):
        h = force(r, SUBTREE_MOMENTUM, i)
        add_subspace_transpose_times(r, i, h, P)
        add_momentum_to_parent(r, i, h)
    add_rotor_momenta(r, velocity)


@kernel
def momentum_terms_kernel(r):
    """Compute the generalized momentum and its rate without joint efforts.

        p = M v
        C' v - g = S' (w - v x* h)          w: weight; De Luca and Mattone (2005)

    Reads Q, V; writes LIMI, JOINT_V, P, P_RATE, SUBTREE_MOMENTUM, SUBTREE_MASS,
    SUBTREE_FIRST_MOMENT, GRAVITY_IN_JOINT.
    """
    compute_body_momenta(r, V)
    clear_entries(r, P_RATE, nv(r))
    for i in range(njoints(r), 0, -1):
        h = force(r, SUBTREE_MOMENTUM, i)
        v = motion(r, JOINT_V, i)
        mass, moment = entry(r, SUBTREE_MASS, i), vector(r, SUBTREE_FIRST_MOMENT, i)
        g = vector(r, GRAVITY_IN_JOINT, i)
        weight = Force(scale(mass, g), cross(moment, g))
        add_subspace_transpose_times(r, i, h, P)
        add_subspace_transpose_times(  # (v x s) . h = -s . (v x* h)
            r, i, force_sub(weight, force_cross(v, h)), P_RATE
        )
        add_momentum_to_parent(r, i, h)
        add_mass_to_parent(r, i, mass, moment)
    add_rotor_momenta(r, V)


@algorithm(momentum_terms_kernel, inputs=(Q, V), results=(P, P_RATE), also_writes=(JOINT_V,))
def momentum_terms(
    model: Model,
    data: Data,
    q: ArrayLike,
    v: ArrayLike,
    *,
    threads: int = 1,
    out: OutArrays | None = None,
) -> tuple[Array, Array]:
    """Compute the generalized momentum p = M v, and its rate without joint efforts, C' v - g.

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
