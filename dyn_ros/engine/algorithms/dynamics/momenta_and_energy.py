# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Momentum of each body, force of each joint; kinetic, potential and mechanical energy.

X = liMi transforms motions from a joint's frame to its parent's, and oMi to the world.
"""

from __future__ import annotations

from ...call.algorithm import algorithm
from ...call.data import Data
from ...kernel.types import Array, ArrayLike, OutArrays, Scalar
from ...kernel.vocabulary import *
from ...model.model import Model
from ..kinematics.kinematics import place_in_world, place_joints
from .rnea import TAU, newton_euler

H = field(
    "h",
    ("rows", 6),
    "Momentum (linear, angular) of each joint's body, expressed in the "
    "joint frame, at its origin [kg m/s, kg m2/s].",
)
OH = field(
    "oh",
    ("rows", 6),
    "Momentum (linear, angular) of each joint's body, expressed in the "
    "world, at its origin [kg m/s, kg m2/s].",
)
OF = field(
    "of",
    ("rows", 6),
    "Force and moment that each joint transmits to its body, expressed "
    "in the world, at its origin [N, N m].",
)
KINETIC = field("kinetic_energy", (), "Kinetic energy, including the rotors [J].")
POTENTIAL = field("potential_energy", (), "Potential energy, -m gravity . com [J].")
MECHANICAL = field("mechanical_energy", (), "Sum of kinetic and potential energy [J].")


@kernel
def compute_joint_velocity(r, i):
    """Compute and return the velocity of joint i in its frame, after its placement.

        v = X^-1 v_p + S qd

    Reads V, LIMI; writes JOINT_V.
    """
    X = placement(r, LIMI, i)
    v = motion_to_child(X, motion(r, JOINT_V, parent(r, i)))
    v = add_subspace_times(r, i, v, V)
    set_motion(r, JOINT_V, i, v)
    return v


@kernel
def store_force_in_world(r, field, i, f):
    """Store a force of joint i, expressed in its frame, in a field of forces in the world.

        f = oMi* f

    Reads OMI; writes field.
    """
    X = placement(r, OMI, i)
    set_force(r, field, i, force_to_parent(X, f))


@kernel
def body_momenta_kernel(r):
    """Compute the momentum of each body, in its joint's frame and in the world.

        h = Y v,  oh = oMi* h

    Reads Q, V; writes LIMI, OMI, JOINT_V, H, OH.
    """
    place_joints(r)
    clear_motion(r, JOINT_V, 0)
    for i in range(1, njoints(r) + 1):
        h = inertia_times(body_inertia(r, i), compute_joint_velocity(r, i))
        set_force(r, H, i, h)
        store_force_in_world(r, OH, i, h)


@kernel
def joint_forces_kernel(r):
    """Compute the force that each joint transmits, in its frame and in the world.

        f = Y a + v x* Y v - f_ext + sum of X* f of the children,  of = oMi* f

    Reads Q, V, A, F_EXT; writes LIMI, OMI, JOINT_V, JOINT_A, JOINT_F, TAU, OF.
    """
    newton_euler(r, True, TAU)
    for i in range(1, njoints(r) + 1):
        place_in_world(r, i, placement(r, LIMI, i))
        store_force_in_world(r, OF, i, force(r, JOINT_F, i))


# --- energy


@kernel
def add_rotor_energy(r, twice):
    """Return twice the kinetic energy with the part of the rotors, sum of armature_k qd_k^2.

    Reads V.
    """
    for k in range(nv(r)):
        v_k = entry(r, V, k)
        twice = twice + armature(r, k) * (v_k * v_k)
    return twice


@kernel
def store_kinetic_energy(r):
    """Compute the velocities of the joints and the kinetic energy, after ``place_joints``.

        T = 1/2 sum of v . Y v + 1/2 sum of armature qd^2

    Reads V, LIMI; writes JOINT_V, KINETIC.
    """
    clear_motion(r, JOINT_V, 0)
    twice = lift(0.0, entry(r, JOINT_V, 0))
    for i in range(1, njoints(r) + 1):
        v = compute_joint_velocity(r, i)
        twice = twice + power(inertia_times(body_inertia(r, i), v), v)
    set_entry(r, KINETIC, 0, 0.5 * add_rotor_energy(r, twice))


@kernel
def store_potential_energy(r):
    """Compute the potential energy, after ``place_joints``.

        U = -sum of m_i gravity . c_i

    Reads OMI; writes POTENTIAL.
    """
    g = gravity(r)
    total = lift(0.0, entry(r, OMI, 0))
    for i in range(1, njoints(r) + 1):
        X, Y = placement(r, OMI, i), body_inertia(r, i)
        moment = add(scale(Y.mass, X.translation), rotate(X.rotation, Y.first_moment))
        total = total - dot(g, moment)
    set_entry(r, POTENTIAL, 0, total)


@kernel
def store_mechanical_energy(r):
    """Compute the mechanical energy, T + U. Reads KINETIC, POTENTIAL; writes MECHANICAL."""
    set_entry(r, MECHANICAL, 0, entry(r, KINETIC, 0) + entry(r, POTENTIAL, 0))


@algorithm(body_momenta_kernel, inputs=(Q, V), results=(H, OH), also_writes=(JOINT_V, LIMI, OMI))
def body_momenta(
    model: Model,
    data: Data,
    q: ArrayLike,
    v: ArrayLike,
    *,
    threads: int = 1,
    out: OutArrays | None = None,
) -> tuple[Array, Array]:
    """Compute the momentum of each joint's body.

    Featherstone (2008), section 2.13; O(n). This is the momentum of the single body, as after
    Pinocchio's rnea; Pinocchio's computeCentroidalMomentum stores the momentum of the subtree under
    the same name.

    Examples
    --------
    >>> h, oh = dyn_ros.body_momenta(model, data, q, v)
    >>> linear = oh[:, :3].sum(axis=0)
    >>> np.allclose(linear, model.total_mass * dyn_ros.center_of_mass(model, data, q, v)[1])
    True
    """


@algorithm(
    joint_forces_kernel,
    inputs=(Q, V, A, F_EXT),
    results=(JOINT_F, OF),
    optional=(F_EXT,),
    also_writes=(TAU, JOINT_V, JOINT_A, LIMI, OMI),
)
def joint_forces(
    model: Model,
    data: Data,
    q: ArrayLike,
    v: ArrayLike,
    a: ArrayLike,
    f_ext: ArrayLike | None = None,
    *,
    threads: int = 1,
    out: OutArrays | None = None,
) -> tuple[Array, Array]:
    """Compute the force that each joint transmits to its body to move and support its subtree.

    Recursive Newton-Euler algorithm, Featherstone (2008), table 5.1; O(n). The force includes the
    reaction to gravity, minus external forces; the joint torque is S' f, excluding armature.

    Examples
    --------
    The first joint carries the weight of the arm:

    >>> f, of = dyn_ros.joint_forces(model, data, q, 0.0 * v, 0.0 * a)
    >>> bool(np.isclose(of[0, 2], 9.81 * model.total_mass))
    True
    """


@algorithm(
    sequence(place_joints, store_kinetic_energy),
    inputs=(Q, V),
    results=(KINETIC,),
    also_writes=(JOINT_V, LIMI, OMI),
)
def kinetic_energy(
    model: Model,
    data: Data,
    q: ArrayLike,
    v: ArrayLike,
    *,
    threads: int = 1,
    out: OutArrays | None = None,
) -> Scalar:
    """Compute the kinetic energy, v' M v / 2, including the rotors (``model.armature``).

    Featherstone (2008), section 2.13, body by body; O(n).

    Examples
    --------
    >>> energy = dyn_ros.kinetic_energy(model, data, q, v)
    >>> bool(np.isclose(energy, 0.5 * v @ dyn_ros.crba(model, data, q) @ v))
    True
    """


@algorithm(
    sequence(place_joints, store_potential_energy),
    inputs=(Q,),
    results=(POTENTIAL,),
    also_writes=(LIMI, OMI),
)
def potential_energy(
    model: Model, data: Data, q: ArrayLike, *, threads: int = 1, out: OutArrays | None = None
) -> Scalar:
    """Compute the potential energy -m gravity . com, which is zero if com is at the world's origin.

    O(n). The link of a fixed base is excluded.

    Examples
    --------
    The energy that lifting by gravity costs, from the height of the center of mass:

    >>> energy = dyn_ros.potential_energy(model, data, q)
    >>> com, _, _, mass = dyn_ros.center_of_mass(model, data, q)
    >>> bool(np.isclose(energy, 9.81 * mass * com[2]))
    True
    """


@algorithm(
    sequence(place_joints, store_kinetic_energy, store_potential_energy, store_mechanical_energy),
    inputs=(Q, V),
    results=(MECHANICAL,),
    also_writes=(KINETIC, POTENTIAL, JOINT_V, LIMI, OMI),
)
def mechanical_energy(
    model: Model,
    data: Data,
    q: ArrayLike,
    v: ArrayLike,
    *,
    threads: int = 1,
    out: OutArrays | None = None,
) -> Scalar:
    """Compute kinetic plus potential energy; the rate is the power of the joint torques.

    O(n).

    Examples
    --------
    >>> energy = dyn_ros.mechanical_energy(model, data, q, v)
    >>> parts = dyn_ros.kinetic_energy(model, data, q, v), dyn_ros.potential_energy(model, data, q)
    >>> bool(np.isclose(energy, sum(parts)))
    True
    """
