# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Momentum of each body, force of each joint; kinetic, potential and mechanical energy."""

from __future__ import annotations

from ...call.algorithm import Algorithm
from ...call.data import Data
from ...kernel import algebra as al
from ...kernel import packing as ly
from ...kernel.fields import F_EXT, JOINT_A, JOINT_F, JOINT_V, LIMI, OMI, A, Q, V, field
from ...kernel.joints import add_subspace_times
from ...kernel.lanes import lift, load, store
from ...kernel.types import Array, ArrayLike, Scalar
from ...machine_code.declare import kernel, sequence
from ...model.model import Model
from ..kinematics.kinematics import place_all, place_in_world
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
POTENTIAL = field("potential_energy", (), "Potential energy, -m g.com [J].")
MECHANICAL = field("mechanical_energy", (), "Sum of kinetic and potential energy [J].")


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


# --- energy


@kernel
def add_rotors(r, twice):
    """Add the rotors' part to twice the kinetic energy."""
    for k in range(ly.nv(r)):
        v_k = load(r.work, ly.offset(r, V) + k)
        twice = twice + ly.armature(r, k) * (v_k * v_k)
    return twice


@kernel
def store_kinetic(r):
    """Store the velocities of the joints and the kinetic energy, after ``place_all``."""
    ly.clear(r.work, ly.offset(r, JOINT_V), 6)
    twice = lift(0.0, load(r.work, ly.offset(r, JOINT_V)))
    for i in range(1, ly.njoints(r) + 1):
        v = joint_velocity(r, i)
        twice = twice + al.power(al.momentum(ly.body_inertia(r, i), v), v)
    store(r.work, ly.offset(r, KINETIC), 0.5 * add_rotors(r, twice))


@kernel
def store_potential(r):
    """Store the potential energy, after ``place_all``."""
    g = al.constant3(r.floats, ly.GRAVITY)
    total = lift(0.0, load(r.work, ly.offset(r, OMI)))
    for i in range(1, ly.njoints(r) + 1):
        X, Y = al.load_se3(r.work, ly.offset(r, OMI) + 16 * i), ly.body_inertia(r, i)
        moment = al.add(al.scale(Y.mass, X.translation), al.rotate(X.rotation, Y.moment))
        total = total - al.dot(g, moment)
    store(r.work, ly.offset(r, POTENTIAL), total)


@kernel
def store_sum(r):
    store(
        r.work,
        ly.offset(r, MECHANICAL),
        load(r.work, ly.offset(r, KINETIC)) + load(r.work, ly.offset(r, POTENTIAL)),
    )


_momenta = Algorithm(
    "body_momenta", body_momenta_kernel, (Q, V), (H, OH), also_writes=(JOINT_V, LIMI, OMI)
).caller()
_forces = Algorithm(
    "joint_forces",
    joint_forces_kernel,
    (Q, V, A, F_EXT),
    (JOINT_F, OF),
    optional=(F_EXT,),
    also_writes=(TAU, JOINT_V, JOINT_A, LIMI, OMI),
).caller()
_kinetic = Algorithm(
    "kinetic_energy",
    sequence(place_all, store_kinetic),
    (Q, V),
    (KINETIC,),
    also_writes=(JOINT_V, LIMI, OMI),
).caller()
_potential = Algorithm(
    "potential_energy",
    sequence(place_all, store_potential),
    (Q,),
    (POTENTIAL,),
    also_writes=(LIMI, OMI),
).caller()
_mechanical = Algorithm(
    "mechanical_energy",
    sequence(place_all, store_kinetic, store_potential, store_sum),
    (Q, V),
    (MECHANICAL,),
    also_writes=(KINETIC, POTENTIAL, JOINT_V, LIMI, OMI),
).caller()


def body_momenta(
    model: Model, data: Data, q: ArrayLike, v: ArrayLike, *, threads: int = 1
) -> tuple[Array, Array]:
    """Momentum of each joint's body.

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
    return _momenta(model, data, threads, q, v)


def joint_forces(
    model: Model,
    data: Data,
    q: ArrayLike,
    v: ArrayLike,
    a: ArrayLike,
    f_ext: ArrayLike | None = None,
    *,
    threads: int = 1,
) -> tuple[Array, Array]:
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


def kinetic_energy(
    model: Model, data: Data, q: ArrayLike, v: ArrayLike, *, threads: int = 1
) -> Scalar:
    """Kinetic energy, v' M v / 2, including the rotors (``model.armature``).

    Featherstone (2008), section 2.13, body by body; O(n).

    Examples
    --------
    >>> energy = dyn_ros.kinetic_energy(model, data, q, v)
    >>> bool(np.isclose(energy, 0.5 * v @ dyn_ros.crba(model, data, q) @ v))
    True
    """
    return _kinetic(model, data, threads, q, v)


def potential_energy(model: Model, data: Data, q: ArrayLike, *, threads: int = 1) -> Scalar:
    """Potential energy in the gravity field, -m g.com; zero if com is at the root's origin.

    O(n). The link of a fixed base is excluded.

    Examples
    --------
    The energy that lifting by gravity costs, from the height of the center of mass:

    >>> energy = dyn_ros.potential_energy(model, data, q)
    >>> com, _, _, mass = dyn_ros.center_of_mass(model, data, q)
    >>> bool(np.isclose(energy, 9.81 * mass * com[2]))
    True
    """
    return _potential(model, data, threads, q)


def mechanical_energy(
    model: Model, data: Data, q: ArrayLike, v: ArrayLike, *, threads: int = 1
) -> Scalar:
    """Sum of kinetic and potential energy; its rate is the power of the joint torques.

    O(n).

    Examples
    --------
    >>> energy = dyn_ros.mechanical_energy(model, data, q, v)
    >>> parts = dyn_ros.kinetic_energy(model, data, q, v), dyn_ros.potential_energy(model, data, q)
    >>> bool(np.isclose(energy, sum(parts)))
    True
    """
    return _mechanical(model, data, threads, q, v)
