# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""All terms of the equations of motion from one pass over the kinematics.

The placements of the joints, expressed in the root frame (root_axes.py), are computed once and
shared by the inward passes: composite inertias for M, the momenta, the center of mass and the
gravity torques (Featherstone 2008, table 6.2; Orin, Goswami and Lee, 2013), and velocity-dependent
forces for the rest of nle (table 5.1).
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple, overload

from ..call.algorithm import Algorithm
from ..call.data import Data
from ..kernel import algebra as al
from ..kernel import packing as ly
from ..kernel.fields import OMI, TERMS, A, Q, V, field
from ..kernel.lanes import load, store
from ..kernel.names import listed
from ..kernel.types import Array, ArrayLike, Scalar
from ..machine_code.declare import kernel, subroutine
from ..model.model import Model
from .centroidal import centroidal
from .centroidal.com import COM, JCOM, MASS, SUBTREE_COM, SUBTREE_MASS, VCOM, divided_by_mass
from .dynamics.bodies import KINETIC, POTENTIAL, add_rotors
from .dynamics.crba import COMPOSITE, M, composite, inertia_matrix, place_bodies, sum_up
from .dynamics.rnea import NLE, G, add_force
from .kinematics import root_axes as ra
from .kinematics.jacobians import J, store_column
from .kinematics.kinematics import OMF, place_frames

DHG_DRIFT = field(
    "dhg_drift",
    (6,),
    "Rate of hg for zero joint accelerations, dAg v; for accelerations a, the rate "
    "of hg is Ag a + dhg_drift [N, N m].",
)
FORCES = field("_velocity_force", ("rows", 6))

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
(
    _M,
    _NLE,
    _G,
    _J,
    _AG,
    _HG,
    _IG,
    _DHG_DRIFT,
    _COM,
    _VCOM,
    _MASS,
    _JCOM,
    _SUBTREE_COM,
    _SUBTREE_MASS,
    _KINETIC,
    _POTENTIAL,
    _OMI,
    _OMF,
) = (1 << k for k in range(len(FIELDS)))
_ALL = (1 << len(FIELDS)) - 1
_FORCES = _NLE | _DHG_DRIFT
_MOVING = _FORCES | _HG | _VCOM | _KINETIC
_WHOLE = _AG | _HG | _IG | _DHG_DRIFT | _COM | _VCOM | _MASS | _JCOM | _POTENTIAL
_SUBTREES = _SUBTREE_COM | _SUBTREE_MASS
_COMPOSITE = _G | _FORCES | _WHOLE | _SUBTREES


@kernel
def wanted(r, terms):
    return ly.option(r, TERMS) & terms != 0


@kernel
def store_placements(r):
    for i in range(1, ly.njoints(r) + 1):
        R = al.load9(r.work, ly.offset(r, ra.ROTATION) + 9 * i)
        al.store_se3(r.work, ly.offset(r, OMI) + 16 * i, al.SE3(R, ra.from_root(r, i)))


@kernel
def store_jacobian(r):
    for i in range(1, ly.njoints(r) + 1):
        back = al.scale(-1.0, ra.from_root(r, i))
        for c in range(ly.ncolumns(r, i)):
            store_column(r, J, i, c, al.motion_moved(back, ra.load_column(r, i, c)))


@kernel
def move_bodies(r):
    """Outward pass; return the momentum about the first joint's origin."""
    ly.clear(r.work, ly.offset(r, A), ly.nv(r))
    zero = al.zero3(load(r.work, ly.offset(r, ra.ORIGIN)))
    total, twice = al.Force(zero, zero), zero[0]
    for i in range(1, ly.njoints(r) + 1):
        Y, v = composite(r, i), ra.body_velocity(r, i)
        a, h = ra.body_acceleration(r, i, v), al.momentum(Y, v)
        total = al.force_add(total, al.force_moved(ra.position(r, i), h))
        twice = twice + al.power(h, v)
        al.store_spatial(
            r.work,
            ly.offset(r, FORCES) + 6 * i,
            al.force_add(al.momentum(Y, a), al.force_cross(v, h)),
        )
    store(r.work, ly.offset(r, KINETIC), 0.5 * add_rotors(r, twice))
    return total


@kernel
def store_gravity(r):
    """Store the gravity torques, from the weight of each joint's subtree."""
    ly.clear(r.work, ly.offset(r, G), ly.nv(r))
    for i in range(1, ly.njoints(r) + 1):
        Y = composite(r, i)
        up = al.scale(-1.0, al.lift3(al.constant3(r.floats, ly.GRAVITY), Y.mass))
        f = al.Force(al.scale(Y.mass, up), al.cross(Y.moment, up))
        for c in range(ly.ncolumns(r, i)):
            ly.increase(r.work, ly.offset(r, G) + ly.idx_v(r, i) + c, ra.dot_column(r, i, c, f))


@kernel
def store_nonlinear_effects(r):
    """Inward pass: g plus the torques of the velocity-dependent forces."""
    for k in range(ly.nv(r)):
        store(r.work, ly.offset(r, NLE) + k, load(r.work, ly.offset(r, G) + k))
    ly.clear(r.work, ly.offset(r, FORCES), 6)
    for i in range(ly.njoints(r), 0, -1):
        f = al.load_force(r.work, ly.offset(r, FORCES) + 6 * i)
        for c in range(ly.ncolumns(r, i)):
            ly.increase(r.work, ly.offset(r, NLE) + ly.idx_v(r, i) + c, ra.dot_column(r, i, c, f))
        add_force(
            r, ly.offset(r, FORCES) + 6 * ly.parent(r, i), al.force_moved(ra.from_parent(r, i), f)
        )


@kernel
def store_subtrees(r):
    for i in range(1, ly.njoints(r) + 1):
        Y = composite(r, i)
        c = divided_by_mass(Y.moment, Y.mass)  # without mass: the joint's origin
        al.store3(r.work, ly.offset(r, SUBTREE_COM) + 3 * i, al.add(ra.from_root(r, i), c))
        store(r.work, ly.offset(r, SUBTREE_MASS) + i, Y.mass)


@kernel
def store_whole(r, h):
    """Store the totals of the robot, with h its momentum about the first joint's origin."""
    c = centroidal.locate_com(r)
    back = al.scale(-1.0, c)
    if wanted(r, _AG | _JCOM):
        centroidal.momentum_columns(r, c)
    centroidal.store_momentum(r, al.force_moved(back, h))
    if wanted(r, _FORCES):
        f = al.load_force(r.work, ly.offset(r, FORCES))
        al.store_spatial(r.work, ly.offset(r, DHG_DRIFT), al.force_moved(back, f))
    weight = al.scale(load(r.work, ly.offset(r, MASS)), al.constant3(r.floats, ly.GRAVITY))
    store(r.work, ly.offset(r, POTENTIAL), -al.dot(weight, al.load3(r.work, ly.offset(r, COM))))
    if wanted(r, _JCOM):
        mass = load(r.work, ly.offset(r, MASS))
        for k in range(ly.nv(r)):
            momentum_k = al.load3(r.work, ly.offset(r, centroidal.AG) + 6 * k)
            al.store3(r.work, ly.offset(r, JCOM) + 3 * k, divided_by_mass(momentum_k, mass))


@subroutine
def all_terms_kernel(r):
    place_bodies(r)
    if wanted(r, _OMI | _OMF):
        store_placements(r)
    if wanted(r, _OMF):
        place_frames(r)
    if wanted(r, _J):
        store_jacobian(r)
    zero = al.zero3(load(r.work, ly.offset(r, ra.ORIGIN)))
    h = al.Force(zero, zero)
    if wanted(r, _MOVING):
        ly.zero_unless_input(r, V)
        h = move_bodies(r)
    if wanted(r, _M):
        inertia_matrix(r)
    elif wanted(r, _COMPOSITE):
        sum_up(r, COMPOSITE)
    if wanted(r, _G | _FORCES):
        store_gravity(r)
    if wanted(r, _FORCES):
        store_nonlinear_effects(r)
    if wanted(r, _WHOLE):
        store_whole(r, h)
    if wanted(r, _SUBTREES):
        store_subtrees(r)


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
_all = _algorithm.caller(make=Terms._make)


def _names(only):
    """The names in ``only`` as a tuple; ValueError if it is not a sequence of strings."""
    if not isinstance(only, str):
        try:
            names = tuple(only)
        except TypeError:
            names = ()
        if names and all(isinstance(name, str) for name in names):
            return names
    raise ValueError(
        f"only: expected a sequence of names of terms, got {only!r:.80}; available: "
        + listed(Terms._fields)
    )


@functools.lru_cache
def _selection(only):
    """Return the bit mask of the terms, and the call that returns them."""
    unknown = [name for name in only if name not in Terms._fields]
    if unknown:
        raise ValueError(
            f"only: expected names of terms, got {listed(unknown, write=repr)}; "
            f"available: {listed(Terms._fields)}"
        )
    numbers = [Terms._fields.index(name) for name in only]
    return (
        sum(1 << k for k in set(numbers)),
        _algorithm.caller(results=[FIELDS[k] for k in numbers]),
    )


@overload
def all_terms(
    model: Model,
    data: Data,
    q: ArrayLike,
    v: ArrayLike | None = None,
    only: None = None,
    *,
    threads: int = 1,
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
) -> Any: ...


def all_terms(
    model: Model,
    data: Data,
    q: ArrayLike,
    v: ArrayLike | None = None,
    only: Sequence[str] | None = None,
    *,
    threads: int = 1,
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
    terms, call = (_ALL, _all) if only is None else _selection(_names(only))
    return call(model, data, threads, terms, q, v)
