# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""All terms of the equations of motion from one pass over the kinematics.

The placements of the joints, expressed in world axes (world_axes.py), are computed once and
shared by the inward passes: composite inertias for M, the momenta, the center of mass and the
gravity torques (Featherstone 2008, table 6.2; Orin, Goswami and Lee, 2013), and velocity-dependent
forces for the rest of nle (table 5.1).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, overload

from ..call.algorithm import Algorithm, public
from ..call.caller import BatchOptions
from ..call.data import Data
from ..call.result_selection import ResultSelection
from ..kernel.fields import Field
from ..kernel.types import Array, ArrayLike, OutArrays, Scalar
from ..kernel.vocabulary import *
from ..model.model import Model
from .centroidal import centroidal
from .centroidal.com import COM, JCOM, MASS, SUBTREE_COM, SUBTREE_MASS, VCOM, divided_by_mass
from .dynamics.crba import (
    INERTIA,
    M,
    composite_inertia,
    place_bodies_relative,
    store_inertia_matrix,
    sum_over_subtrees,
)
from .dynamics.momenta_and_energy import KINETIC, POTENTIAL, add_rotor_energy
from .dynamics.rnea import NLE, G
from .kinematics import world_axes as wa
from .kinematics.jacobians import J
from .kinematics.kinematics import OMF, place_frames

DHG_DRIFT = field(
    "dhg_drift",
    (6,),
    "Rate of hg for zero joint accelerations, dAg v; for accelerations a, the rate "
    "of hg is Ag a + dhg_drift [N, N m].",
)
FORCES = field("_forces", ("rows", 6))

# To add a term: add its field here and its name to ``Terms``, at the same place, the step that
# computes it to ``all_terms_kernel``, and the field to the masks of the steps that it needs.
FIELDS = (
    M,
    NLE,
    G,
    J,
    centroidal.AG,
    centroidal.HG,
    centroidal.IG,
    DHG_DRIFT,
    COM,
    VCOM,
    MASS,
    JCOM,
    SUBTREE_COM,
    SUBTREE_MASS,
    KINETIC,
    POTENTIAL,
    OMI,
    OMF,
)


def _mask(*terms: Field) -> int:
    """Return the bits of terms in the option ``TERMS``."""
    return sum(1 << FIELDS.index(term) for term in terms)


_ALL = _mask(*FIELDS)
_M, _J, _JCOM, _OMF = _mask(M), _mask(J), _mask(JCOM), _mask(OMF)
_NEEDS_PLACEMENTS = _mask(OMI, OMF)
_NEEDS_VELOCITY_FORCES = _mask(NLE, DHG_DRIFT)
_NEEDS_VELOCITY = _NEEDS_VELOCITY_FORCES | _mask(centroidal.HG, VCOM, KINETIC)
_NEEDS_GRAVITY = _NEEDS_VELOCITY_FORCES | _mask(G)
_NEEDS_MOMENTUM_COLUMNS = _mask(centroidal.AG, JCOM)
_NEEDS_SUBTREES = _mask(SUBTREE_COM, SUBTREE_MASS)
_NEEDS_TOTALS = _NEEDS_MOMENTUM_COLUMNS | _mask(
    centroidal.HG, centroidal.IG, DHG_DRIFT, COM, VCOM, MASS, POTENTIAL
)
_NEEDS_COMPOSITE = _NEEDS_GRAVITY | _NEEDS_TOTALS | _NEEDS_SUBTREES  # unless M is computed


@kernel
def store_placements(r):
    """Compute the placements of all joints in the world.

        oMi = (R_i, p_i)

    Reads ROTATION, ORIGIN, POSITION; writes OMI.
    """
    for i in range(1, njoints(r) + 1):
        R = rotation(r, wa.ROTATION, i)
        set_placement(r, OMI, i, SE3(R, wa.from_world_origin(r, i)))


@kernel
def store_joint_jacobians(r):
    """Compute the Jacobian of all joints in the world.

        J_c = (S_c.linear + p_i x S_c.angular, S_c.angular)

    Reads COLUMNS, ORIGIN, POSITION; writes J.
    """
    for i in range(1, njoints(r) + 1):
        back = scale(-1.0, wa.from_world_origin(r, i))
        for c in range(ncolumns(r, i)):
            set_column(r, J, i, c, motion_moved(back, wa.subspace_column(r, i, c)))


@kernel
def compute_velocity_forces(r):
    """Compute velocity-dependent forces and the kinetic energy; return the momentum.

        v = X^-1 v_p + S qd,  a = X^-1 a_p + v x S qd
        f = Y a + v x* Y v
        h = sum of X* Y v,  T = 1/2 sum of v . Y v

    Reads V, FROM_PARENT, COLUMNS, ORIGIN, POSITION, INERTIA; writes A, BODY_VELOCITY,
    BODY_ACCELERATION, KINETIC, FORCES.
    """
    clear_entries(r, A, nv(r))
    zero = zero3(entry(r, wa.ORIGIN, 0))
    total, twice = Force(zero, zero), zero[0]
    for i in range(1, njoints(r) + 1):
        Y, v = inertia(r, INERTIA, i), wa.body_velocity(r, i)
        a, h = wa.body_acceleration(r, i, v), inertia_times(Y, v)
        total = force_add(total, force_moved(wa.position(r, i), h))
        twice = twice + power(h, v)
        set_force(r, FORCES, i, force_add(inertia_times(Y, a), force_cross(v, h)))
    set_entry(r, KINETIC, 0, 0.5 * add_rotor_energy(r, twice))
    return total


@kernel
def store_gravity(r):
    """Compute the gravity torques, from the weight of each joint's subtree.

        g_k = -S_k . (m gravity, m c x gravity)

    Reads COLUMNS, INERTIA; writes G.
    """
    clear_entries(r, G, nv(r))
    for i in range(1, njoints(r) + 1):
        Y = composite_inertia(r, i)
        up = scale(-1.0, lift3(gravity(r), Y.mass))
        f = Force(scale(Y.mass, up), cross(Y.first_moment, up))
        for c in range(ncolumns(r, i)):
            add_to_entry(r, G, idx_v(r, i) + c, wa.dot_column(r, i, c, f))


@kernel
def store_nonlinear_effects(r):
    """Compute g plus the torques of the velocity-dependent forces.

        nle_k = g_k + S_k . f,  f_p = f_p + X* f

    Reads FROM_PARENT, COLUMNS, G; writes NLE, FORCES.
    """
    for k in range(nv(r)):
        set_entry(r, NLE, k, entry(r, G, k))
    clear_force(r, FORCES, 0)
    for i in range(njoints(r), 0, -1):
        f = force(r, FORCES, i)
        for c in range(ncolumns(r, i)):
            add_to_entry(r, NLE, idx_v(r, i) + c, wa.dot_column(r, i, c, f))
        add_to_force(r, FORCES, parent(r, i), force_moved(wa.from_parent(r, i), f))


@kernel
def store_subtree_centers(r):
    """Compute mass and center of mass of each joint's subtree, c = (m c) / m.

    Reads ORIGIN, POSITION, INERTIA; writes SUBTREE_COM, SUBTREE_MASS.
    """
    for i in range(1, njoints(r) + 1):
        Y = composite_inertia(r, i)
        c = divided_by_mass(Y.first_moment, Y.mass)  # without mass: the joint's origin
        set_vector(r, SUBTREE_COM, i, add(wa.from_world_origin(r, i), c))
        set_entry(r, SUBTREE_MASS, i, Y.mass)


@kernel
def store_robot_totals(r, h):
    """Compute the totals of the robot, with h its momentum about the first joint's origin.

        hg = X* h,  dhg_drift = X* f        X: shift from the first joint's origin to com
        U = -m gravity . com,  Jcom = Ag.linear / m

    Reads V, FORCES; writes COM, VCOM, MASS, JCOM, AG, HG, IG, POTENTIAL, DHG_DRIFT; calls
    locate_com, store_momentum, store_momentum_columns.
    """
    c = centroidal.locate_com(r)
    back = scale(-1.0, c)
    if is_requested(r, _NEEDS_MOMENTUM_COLUMNS):
        centroidal.store_momentum_columns(r, c)
    centroidal.store_momentum(r, force_moved(back, h))
    if is_requested(r, _NEEDS_VELOCITY_FORCES):
        f = force(r, FORCES, 0)
        set_force(r, DHG_DRIFT, 0, force_moved(back, f))
    weight = scale(entry(r, MASS, 0), gravity(r))
    set_entry(r, POTENTIAL, 0, -dot(weight, vector(r, COM, 0)))
    if is_requested(r, _JCOM):
        mass = entry(r, MASS, 0)
        for k in range(nv(r)):
            momentum_k = motion(r, centroidal.AG, k).linear
            set_vector(r, JCOM, k, divided_by_mass(momentum_k, mass))


@subroutine
def all_terms_kernel(r):
    """Compute the terms that the call asks for, in one pass over the kinematics.

    See the functions that it calls for their formulas.

    Reads Q; writes V, OMI, M, COM, VCOM, MASS, SUBTREE_COM, SUBTREE_MASS, JCOM, AG, HG, IG, OMF,
    NLE, G, KINETIC, POTENTIAL, J, DHG_DRIFT; calls place_bodies_relative, store_placements,
    store_joint_jacobians, compute_velocity_forces, store_inertia_matrix, store_gravity,
    store_nonlinear_effects, store_robot_totals, store_subtree_centers.
    """
    place_bodies_relative(r)
    if is_requested(r, _NEEDS_PLACEMENTS):
        store_placements(r)
    if is_requested(r, _OMF):
        place_frames(r)
    if is_requested(r, _J):
        store_joint_jacobians(r)
    zero = zero3(entry(r, wa.ORIGIN, 0))
    h = Force(zero, zero)
    if is_requested(r, _NEEDS_VELOCITY):
        zero_unless_input(r, V)
        h = compute_velocity_forces(r)
    if is_requested(r, _M):
        store_inertia_matrix(r)
    elif is_requested(r, _NEEDS_COMPOSITE):
        sum_over_subtrees(r, INERTIA)
    if is_requested(r, _NEEDS_GRAVITY):
        store_gravity(r)
    if is_requested(r, _NEEDS_VELOCITY_FORCES):
        store_nonlinear_effects(r)
    if is_requested(r, _NEEDS_TOTALS):
        store_robot_totals(r, h)
    if is_requested(r, _NEEDS_SUBTREES):
        store_subtree_centers(r)


class Terms(NamedTuple):
    """The results of ``all_terms``, named as in ``Data``."""

    M: Array
    nle: Array
    g: Array
    J: Array
    Ag: Array
    hg: Array
    Ig: Array
    dhg_drift: Array
    com: Array
    vcom: Array
    mass: Scalar
    Jcom: Array
    subtree_com: Array
    subtree_mass: Array
    kinetic_energy: Scalar
    potential_energy: Scalar
    oMi: Array
    oMf: Array


_algorithm = Algorithm(
    "all_terms", all_terms_kernel, (Q, V), FIELDS, optional=(V,), options=(TERMS,)
)
_all = _algorithm.make_call(make=Terms._make)


_selection = ResultSelection(_algorithm)


@overload
def all_terms(
    model: Model,
    data: Data,
    q: ArrayLike,
    v: ArrayLike | None = None,
    only: None = None,
    *,
    threads: int = 1,
    out: OutArrays | None = None,
) -> Terms: ...


@overload
def all_terms(
    model: Model,
    data: Data,
    q: ArrayLike,
    v: ArrayLike | None = None,
    *,
    only: Sequence[str],
    threads: int = 1,
    out: OutArrays | None = None,
) -> Any: ...


@public
def all_terms(
    model: Model,
    data: Data,
    q: ArrayLike,
    v: ArrayLike | None = None,
    only: Sequence[str] | None = None,
    *,
    threads: int = 1,
    out: OutArrays | None = None,
) -> Terms | Any:
    """Compute terms of the equations of motion in one pass over the kinematics.

    The same results as of the separate functions, in less time. Featherstone (2008), tables 5.1
    and 6.2, and Orin, Goswami and Lee (2013), with common placements of the joints; O(n d) for a
    tree of depth d, or O(n) without M. The link of a fixed base is excluded. Returns a named tuple;
    with ``only``, a tuple of these terms in the given order, or the term itself if there is only
    one.

    Parameters
    ----------
    only : sequence of str, optional
        Names of the terms to compute, fields of ``Terms``; other fields of ``data`` do not change.
        A batch has memory for these terms alone. Default: all.

    Examples
    --------
    >>> M, nle = dyn_ros.all_terms(model, data, q, v, only=("M", "nle"))
    >>> np.allclose(M @ a + nle, dyn_ros.rnea(model, data, q, v, a))
    True
    """
    if only is None:
        return _all(model, data, threads if out is None else BatchOptions(threads, out), _ALL, q, v)
    terms, call = _selection.find_call(only)
    return call(model, data, threads if out is None else BatchOptions(threads, out), terms, q, v)
