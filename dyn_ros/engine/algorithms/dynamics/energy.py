# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Kinetic, potential and mechanical energy."""
from __future__ import annotations

from ...call.algorithm import Algorithm
from ...call.data import Data
from ...kernel import algebra as al
from ...kernel import layout as ly
from ...kernel.compiler import kernel, sequence
from ...kernel.fields import JOINT_V, LIMI, OMI, Q, V, field
from ...kernel.lanes import lift, load, store
from ...kernel.types import ArrayLike, Scalar
from ...model.model import Model
from ..kinematics.kinematics import place_all
from .bodies import joint_velocity

KINETIC = field("kinetic_energy", (), "Kinetic energy, including the rotors [J].")
POTENTIAL = field("potential_energy", (), "Potential energy, -m g.com [J].")
MECHANICAL = field("mechanical_energy", (), "Sum of kinetic and potential energy [J].")


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
    store(r.work, ly.offset(r, MECHANICAL),
          load(r.work, ly.offset(r, KINETIC)) + load(r.work, ly.offset(r, POTENTIAL)))


_kinetic = Algorithm("kinetic_energy", sequence(place_all, store_kinetic), (Q, V), (KINETIC,),
                     also_writes=(JOINT_V, LIMI, OMI)).caller()
_potential = Algorithm("potential_energy", sequence(place_all, store_potential), (Q,),
                       (POTENTIAL,), also_writes=(LIMI, OMI)).caller()
_mechanical = Algorithm(
    "mechanical_energy", sequence(place_all, store_kinetic, store_potential, store_sum), (Q, V),
    (MECHANICAL,), also_writes=(KINETIC, POTENTIAL, JOINT_V, LIMI, OMI)).caller()


def kinetic_energy(model: Model, data: Data, q: ArrayLike, v: ArrayLike, *,
                   threads: int = 1) -> Scalar:
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


def mechanical_energy(model: Model, data: Data, q: ArrayLike, v: ArrayLike, *,
                      threads: int = 1) -> Scalar:
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
