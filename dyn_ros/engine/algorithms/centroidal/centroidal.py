# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Momentum of the whole robot about its center of mass.

Orin, Goswami and Lee (2013); its rate according to Wensing and Orin (2016). Expressed in world
axes; each column of the centroidal momentum matrix is shifted from its joint's origin directly to
the center of mass.
"""

from __future__ import annotations

from ...call.algorithm import algorithm
from ...call.data import Data
from ...kernel.types import Array, ArrayLike, OutArrays
from ...kernel.vocabulary import *
from ...model.model import Model
from ..dynamics import crba
from ..kinematics import world_axes as wa
from . import com

AG = field(
    "Ag",
    ("nv", 6),
    "Centroidal momentum matrix, hg = Ag v, expressed in the world [kg, kg m, kg m2].",
    transposed=True,
)
DAG = field(
    "dAg",
    ("nv", 6),
    "Rate of Ag, about the moving center of mass, expressed in the world [kg/s, kg m/s, kg m2/s].",
    transposed=True,
)
HG = field(
    "hg",
    (6,),
    "Momentum (linear, angular) about the center of mass, expressed in the "
    "world [kg m/s, kg m2/s].",
)
DHG = field(
    "dhg",
    (6,),
    "Rate of the momentum (linear, angular) about the center of mass, "
    "expressed in the world: the sum of all external forces, weight among them [N, N m].",
)
IG = field(
    "Ig",
    (6, 6),
    "Inertia of the whole robot about the center of mass, with joints locked, "
    "expressed in the world [kg, kg m2].",
)


@kernel
def locate_com(r):
    """Store com and Ig of the whole robot; return com relative to the first joint's origin.

        c = sum of m_i c_i / m
        Ig = inertia of the whole robot about c, with its joints locked

    Reads ORIGIN, INERTIA; writes COM, MASS, IG.
    """
    Y = crba.composite_inertia(r, 0)
    c = com.store_com(r, Y.mass, Y.first_moment)
    about_com = inertia_moved(scale(-1.0, c), Y).rotational
    crba.set_spatial_inertia(r, IG, 0, Inertia(Y.mass, zero3(c[0]), about_com))
    return c


@kernel
def clear_columns(r, field):
    """Clear the columns before ``accumulate_force`` if mimic joints share them. Writes field."""
    if has_mimic_joints(r):
        clear_entries(r, field, 6 * nv(r))


@kernel
def store_momentum(r, h):
    """Store hg, and the velocity of the center of mass.

        hg = h
        vcom = h.linear / m

    Reads INERTIA; writes VCOM, HG.
    """
    set_force(r, HG, 0, h)
    set_vector(r, com.VCOM, 0, com.divided_by_mass(h.linear, crba.composite_inertia(r, 0).mass))


@kernel
def store_momentum_columns(r, c):
    """Store Ag; return the momentum about com. c is com relative to the first joint's origin.

        Ag_k = X* Y S_k                     Y: subtree of the joint; X: shift from it to com
        h = Ag v                            Orin, Goswami and Lee (2013)

    Reads V, COLUMNS, POSITION, INERTIA; writes AG.
    """
    h = Force(zero3(c[0]), zero3(c[0]))
    clear_columns(r, AG)
    for i in range(1, njoints(r) + 1):
        Y, p = crba.composite_inertia(r, i), sub(wa.position(r, i), c)
        for d in range(ncolumns(r, i)):
            k = idx_v(r, i) + d
            f = force_moved(p, crba.composite_column(r, i, d, Y))
            accumulate_force(r, AG, k, f)
            h = force_add(h, force_scale(entry(r, V, k), f))
    return h


@kernel
def ccrba_kernel(r):
    """Compute the centroidal momentum matrix.

        hg = Ag v                           Orin, Goswami and Lee (2013)

    Reads Q, V; writes COM, VCOM, MASS, AG, HG, IG; calls place_bodies_relative, store_momentum,
    store_momentum_columns, locate_com.
    """
    crba.place_bodies_relative(r)
    crba.sum_over_subtrees(r, crba.INERTIA)
    store_momentum(r, store_momentum_columns(r, locate_com(r)))


@kernel
def dccrba_kernel(r):
    """Compute the centroidal momentum matrix and its time derivative.

        Ag_k = X* Y S_k                     Y: subtree of the joint; X: shift from it to com
        dAg_k = X* (dY S_k + Y (v x S_k)) - (0, vcom x Ag_k.linear)

    Reads Q, V; writes COM, VCOM, MASS, AG, DAG, HG, IG; calls place_bodies_relative,
    compute_inertia_rates, locate_com, store_momentum.
    """
    crba.place_bodies_relative(r)
    crba.compute_inertia_rates(r)
    crba.sum_over_subtrees(r, crba.INERTIA)
    crba.sum_over_subtrees(r, crba.INERTIA_RATE)
    c = locate_com(r)
    h = Force(zero3(c[0]), zero3(c[0]))
    vcom = com.divided_by_mass(
        crba.composite_rate(r, 0).first_moment, crba.composite_inertia(r, 0).mass
    )
    clear_columns(r, AG)
    clear_columns(r, DAG)
    for i in range(1, njoints(r) + 1):
        Y, dY = crba.composite_inertia(r, i), crba.composite_rate(r, i)
        p = sub(wa.position(r, i), c)
        v = motion(r, wa.BODY_VELOCITY, i)
        for d in range(ncolumns(r, i)):
            dS = wa.cross_column(r, i, d, v, lift(1.0, p[0]))
            f = force_moved(p, crba.composite_column(r, i, d, Y))
            df = force_add(crba.composite_column(r, i, d, dY), inertia_times(Y, dS))
            df = force_moved(p, df)
            df = Force(df.linear, sub(df.angular, cross(vcom, f.linear)))
            k = idx_v(r, i) + d
            accumulate_force(r, AG, k, f)
            accumulate_force(r, DAG, k, df)
            h = force_add(h, force_scale(entry(r, V, k), f))
    store_momentum(r, h)


@kernel
def momentum_rate_kernel(r):
    """Compute the centroidal momentum and its rate from sums over all bodies.

        hg = sum of X_i* Y_i v_i            X_i: shift from joint i to com
        dhg = sum of X_i* (Y_i a_i + v_i x* Y_i v_i)

    Reads Q, V, A; writes COM, VCOM, ACOM, MASS, HG, DHG; calls sum_bodies, store_com.
    """
    bodies = com.sum_bodies(r)
    c = scale(-1.0, com.store_com(r, bodies.mass, bodies.first_moment))
    set_force(r, HG, 0, force_moved(c, bodies.momentum))
    set_force(r, DHG, 0, force_moved(c, bodies.force))
    set_vector(r, com.VCOM, 0, com.divided_by_mass(bodies.momentum.linear, bodies.mass))
    set_vector(r, com.ACOM, 0, com.divided_by_mass(bodies.force.linear, bodies.mass))


@algorithm(
    ccrba_kernel, inputs=(Q, V), results=(AG, HG, IG), also_writes=(com.COM, com.VCOM, com.MASS)
)
def ccrba(
    model: Model,
    data: Data,
    q: ArrayLike,
    v: ArrayLike,
    *,
    threads: int = 1,
    out: OutArrays | None = None,
) -> tuple[Array, Array, Array]:
    """Compute the centroidal momentum matrix, momentum and inertia of the whole robot.

    Centroidal composite-rigid-body algorithm, Orin, Goswami and Lee (2013); O(n). The link of a
    fixed base is excluded.

    Examples
    --------
    >>> Ag, hg, Ig = dyn_ros.ccrba(model, data, q, v)
    >>> np.allclose(Ag @ v, hg), bool(np.isclose(Ig[0, 0], model.total_mass))
    (True, True)
    """


@algorithm(
    dccrba_kernel,
    inputs=(Q, V),
    results=(DAG,),
    also_writes=(AG, HG, IG, com.COM, com.VCOM, com.MASS),
)
def dccrba(
    model: Model,
    data: Data,
    q: ArrayLike,
    v: ArrayLike,
    *,
    threads: int = 1,
    out: OutArrays | None = None,
) -> Array:
    """Compute the rate of the centroidal momentum matrix along a velocity.

    Wensing and Orin (2016), with rates of composite inertias, O(n). The rate of the momentum is Ag
    a + dAg v.

    Examples
    --------
    >>> dAg = dyn_ros.dccrba(model, data, q, v).copy()
    >>> dhg = dyn_ros.centroidal_momentum_time_derivative(model, data, q, v, a).copy()
    >>> np.allclose(dyn_ros.ccrba(model, data, q, v)[0] @ a + dAg @ v, dhg)
    True
    """


@algorithm(
    momentum_rate_kernel,
    inputs=(Q, V, A),
    results=(DHG,),
    also_writes=(HG, com.COM, com.VCOM, com.ACOM, com.MASS),
)
def centroidal_momentum_time_derivative(
    model: Model,
    data: Data,
    q: ArrayLike,
    v: ArrayLike,
    a: ArrayLike,
    *,
    threads: int = 1,
    out: OutArrays | None = None,
) -> Array:
    """Compute the rate of the centroidal momentum.

    The sum of the rates of all bodies; Featherstone (2008), section 2.14; O(n). It equals the sum
    of all external forces, weight among them; in free flight, (m g, 0).

    Examples
    --------
    The linear part is mass times the acceleration of the center of mass:

    >>> dhg = dyn_ros.centroidal_momentum_time_derivative(model, data, q, v, a).copy()
    >>> com, vcom, acom, mass = dyn_ros.center_of_mass(model, data, q, v, a)
    >>> np.allclose(dhg[:3], mass * acom)
    True
    """
