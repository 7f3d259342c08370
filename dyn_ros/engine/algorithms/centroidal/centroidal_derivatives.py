# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Derivatives of the momentum about the center of mass, and of its rate.

Carpentier and Mansard (2018), with the composite quantities of Singh, Russell and Wensing (2022):
derivatives of the momentum of each subtree and of its rate (rnea_derivatives.py, without gravity),
shifted to the moving center of mass.
"""

from __future__ import annotations

from ...call.algorithm import algorithm
from ...call.data import Data
from ...kernel.types import Array, ArrayLike, OutArrays
from ...kernel.vocabulary import *
from ...model.model import Model
from ..derivatives import rnea_columns as rc
from ..derivatives import rnea_derivatives as rd
from ..kinematics.jacobians import DJ, J, move_columns
from ..kinematics.kinematics import OA, OV
from .centroidal import DHG, HG, clear_columns
from .com import COM, MASS, VCOM, divided_by_mass, store_com

DH_DQ = field(
    "dh_dq",
    ("nv", 6),
    "Derivative of hg with respect to configuration; each column is along one velocity, "
    "in the tangent space [kg m/s, kg m2/s per rad, m].",
    True,
)
DHDOT_DQ = field(
    "dhdot_dq",
    ("nv", 6),
    "Derivative of the rate of hg with respect to configuration [N, N m per rad, m].",
    True,
)
DHDOT_DV = field(
    "dhdot_dv",
    ("nv", 6),
    "Derivative of the rate of hg with respect to velocity [N, N m per rad/s, m/s].",
    True,
)
DHDOT_DA = field(
    "dhdot_da",
    ("nv", 6),
    "Derivative of the rate of hg with respect to acceleration; equal to Ag [kg, kg m, kg m2].",
    True,
)
DVCOM_DQ = field(
    "dvcom_dq",
    ("nv", 3),
    "Derivative of vcom with respect to configuration, expressed in the world; each "
    "column is along one velocity, in the tangent space [m/s per rad, m].",
    True,
)
DHDQ = field(
    "dHdq",
    ("ncolumns", 6),
    "Derivative of the momentum of a joint's subtree with respect to q, expressed in the "
    "world, at its origin [kg m/s, kg m2/s per rad, m].",
    True,
)
# Of each body, then of each subtree, about the first joint's origin
MOMENTUM_AT_ROOT = field("_momentum_at_root", ("rows", 6))


@kernel
def compute_columns_and_forces(r):
    """Compute columns, velocities, accelerations and bodies of all joints, without gravity.

    Reads Q, V, A; writes OV, OA, J, DJ, PSID, DADQ, DADV, MOMENTUM_AT_ROOT; calls
    place_universe_for_columns, place_body_columns, move_columns, store_velocity_columns,
    store_acceleration_columns, store_body.
    """
    rc.place_universe_for_columns(r)
    clear_motion(r, OA, 0)
    for i in range(1, njoints(r) + 1):
        Y = rc.place_body_columns(r, i)
        move_columns(r, i)
        rc.store_velocity_columns(r, i)
        rc.store_acceleration_columns(r, i, OA, rc.DADQ)
        set_motion(r, MOMENTUM_AT_ROOT, i, rc.store_body(r, i, OA, Y))


@kernel
def momentum_column(r, i, c, Y, h):
    """Return the derivative of the momentum h of the subtree of joint i along its column c.

        dh/dq_k = S_k x* h + Y psid_k

    Reads J, PSID.
    """
    return force_add(
        force_cross(motion_column(r, J, i, c), h), inertia_times(Y, motion_column(r, rc.PSID, i, c))
    )


@kernel
def store_force_columns(r):
    """Compute derivatives of each joint's forces and momenta; row 0 of the composites is the robot.

        dF/da_k = Y S_k
        dF/dv_k = B S_k + Y dAdv_k
        dF/dq_k = S_k x* f + B psid_k + Y dAdq_k
        dh/dq_k = S_k x* h + Y psid_k

    Reads J, PSID, DADQ, DADV; writes SUBTREE_INERTIA, SUBTREE_CORIOLIS, SUBTREE_FORCE, DFDA, DFDQ,
    DFDV, DHDQ, MOMENTUM_AT_ROOT.
    """
    rc.clear_subtree_sums(r)
    clear_force(r, MOMENTUM_AT_ROOT, 0)
    for i in range(njoints(r), 0, -1):
        Y, B = rc.add_inertia_to_parent(r, i), rc.add_coriolis_to_parent(r, i)
        f = rc.add_force_to_parent(r, rc.SUBTREE_FORCE, i)
        h = rc.add_force_to_parent(r, MOMENTUM_AT_ROOT, i)
        for c in range(ncolumns(r, i)):
            S = motion_column(r, J, i, c)
            set_column(r, rd.DFDA, i, c, inertia_times(Y, S))
            set_column(
                r,
                rd.DFDV,
                i,
                c,
                force_add(coriolis_times(B, S), inertia_times(Y, motion_column(r, rc.DADV, i, c))),
            )
            set_column(
                r,
                rd.DFDQ,
                i,
                c,
                force_add(
                    force_cross(S, f),
                    force_add(
                        coriolis_times(B, motion_column(r, rc.PSID, i, c)),
                        inertia_times(Y, motion_column(r, rc.DADQ, i, c)),
                    ),
                ),
            )
            set_column(r, DHDQ, i, c, momentum_column(r, i, c, Y, h))


@kernel
def column_about_com(r, columns, i, c, com):
    """Return a column of forces or momenta, about the center of mass. Reads columns."""
    return force_moved(scale(-1.0, com), force_column(r, columns, i, c))


@kernel
def subtract_center_motion(f, shift, total):
    """Return f corrected for the motion of the center that ``total`` refers to.

    f.angular - shift x total.linear
    """
    return Force(f.linear, sub(f.angular, cross(shift, total.linear)))


@kernel
def centroidal_derivatives_kernel(r):
    """Compute hg, its rate, and their derivatives with respect to q, v and a.

        s_k = (dF/da_k).linear / m          motion of the center of mass c along velocity k
        dhg/dq_k = X* dh/dq_k - (0, s_k x hg.linear)
        ddhg/dq_k = X* dF/dq_k - (0, s_k x dhg.linear)
        ddhg/dv_k = X* dF/dv_k,  ddhg/da_k = X* dF/da_k         X*: shifts a force to c

    ``store_force_columns`` has stored the columns.

    Reads Q, V, A; writes COM, MASS, HG, DHG, OV, OA, J, DJ, PSID, DVDQ, DADQ, DADV, DFDA, DFDQ,
    DFDV, DH_DQ, DHDOT_DQ, DHDOT_DV, DHDOT_DA, DHDQ; calls compute_columns_and_forces,
    store_force_columns, store_com, shift_velocity_columns_to_world.
    """
    compute_columns_and_forces(r)
    store_force_columns(r)
    Y = inertia(r, rc.SUBTREE_INERTIA, 0)
    com = store_com(r, Y.mass, Y.first_moment)
    h = force_moved(scale(-1.0, com), force(r, MOMENTUM_AT_ROOT, 0))
    f = force_moved(scale(-1.0, com), force(r, rc.SUBTREE_FORCE, 0))
    set_force(r, HG, 0, h)
    set_force(r, DHG, 0, f)
    for columns in (DH_DQ, DHDOT_DQ, DHDOT_DV, DHDOT_DA):
        clear_columns(r, columns)
    for i in range(1, njoints(r) + 1):
        for c in range(ncolumns(r, i)):
            k = idx_v(r, i) + c
            Fa = column_about_com(r, rd.DFDA, i, c, com)
            shift = divided_by_mass(Fa.linear, Y.mass)
            accumulate_force(
                r, DH_DQ, k, subtract_center_motion(column_about_com(r, DHDQ, i, c, com), shift, h)
            )
            accumulate_force(
                r,
                DHDOT_DQ,
                k,
                subtract_center_motion(column_about_com(r, rd.DFDQ, i, c, com), shift, f),
            )
            accumulate_force(r, DHDOT_DV, k, column_about_com(r, rd.DFDV, i, c, com))
            accumulate_force(r, DHDOT_DA, k, Fa)
    rd.shift_velocity_columns_to_world(r)
    rd.shift_motions_to_world(r, rc.DADQ, nallcolumns(r))
    rd.shift_motions_to_world(r, OA, njoints(r) + 1)
    for columns in (rd.DFDA, rd.DFDQ, rd.DFDV, DHDQ):
        rd.shift_forces_to_world(r, columns, nallcolumns(r))


@kernel
def com_velocity_derivatives_kernel(r):
    """Compute the derivative of the velocity of the center of mass with respect to q.

        dvcom/dq_k = (S_k x* h + Y psid_k).linear / m

    Reads Q, V; writes VCOM, OV, J, DJ, PSID, DVDQ, DADV, DVCOM_DQ, DHDQ, MOMENTUM_AT_ROOT; calls
    place_universe_for_columns, clear_subtree_sums, shift_velocity_columns_to_world,
    place_body_columns, move_columns, store_velocity_columns.
    """
    rc.place_universe_for_columns(r)
    for i in range(1, njoints(r) + 1):
        Y = rc.place_body_columns(r, i)
        move_columns(r, i)
        rc.store_velocity_columns(r, i)
        set_inertia(r, rc.SUBTREE_INERTIA, i, Y)
        set_force(r, MOMENTUM_AT_ROOT, i, inertia_times(Y, motion(r, OV, i)))
    rc.clear_subtree_sums(r)
    clear_force(r, MOMENTUM_AT_ROOT, 0)
    clear_entries(r, DVCOM_DQ, 3 * nv(r))
    for i in range(njoints(r), 0, -1):
        Y, h = rc.add_inertia_to_parent(r, i), rc.add_force_to_parent(r, MOMENTUM_AT_ROOT, i)
        for c in range(ncolumns(r, i)):
            set_column(r, DHDQ, i, c, momentum_column(r, i, c, Y, h))
    Y = inertia(r, rc.SUBTREE_INERTIA, 0)
    set_vector(r, VCOM, 0, divided_by_mass(force(r, MOMENTUM_AT_ROOT, 0).linear, Y.mass))
    for i in range(1, njoints(r) + 1):
        for c in range(ncolumns(r, i)):
            dh = force_column(r, DHDQ, i, c)
            add_to_vector(r, DVCOM_DQ, idx_v(r, i) + c, divided_by_mass(dh.linear, Y.mass))
    rd.shift_velocity_columns_to_world(r)
    rd.shift_forces_to_world(r, DHDQ, nallcolumns(r))


@algorithm(
    centroidal_derivatives_kernel,
    inputs=(Q, V, A),
    results=(DH_DQ, DHDOT_DQ, DHDOT_DV, DHDOT_DA),
    also_writes=(
        HG,
        DHG,
        COM,
        MASS,
        DHDQ,
        rd.DFDQ,
        rd.DFDV,
        rd.DFDA,
        J,
        DJ,
        rc.PSID,
        rc.DVDQ,
        rc.DADQ,
        rc.DADV,
        OV,
        OA,
    ),
)
def centroidal_derivatives(
    model: Model,
    data: Data,
    q: ArrayLike,
    v: ArrayLike,
    a: ArrayLike,
    *,
    threads: int = 1,
    out: OutArrays | None = None,
) -> tuple[Array, Array, Array, Array]:
    """Compute derivatives of the momentum about the center of mass, and of its rate.

    Carpentier and Mansard (2018); O(n). The rate equals the sum of all external forces, weight
    among them; in free flight, (m g, 0). The link of a fixed base is excluded.

    Examples
    --------
    >>> dh_dq, dhdot_dq, dhdot_dv, dhdot_da = dyn_ros.centroidal_derivatives(model, data, q, v, a)
    >>> np.allclose(dhdot_da, dyn_ros.ccrba(model, data, q, v)[0])
    True
    """


@algorithm(
    com_velocity_derivatives_kernel,
    inputs=(Q, V),
    results=(DVCOM_DQ,),
    also_writes=(VCOM, DHDQ, J, DJ, rc.PSID, rc.DVDQ, rc.DADV, OV),
)
def com_velocity_derivatives(
    model: Model,
    data: Data,
    q: ArrayLike,
    v: ArrayLike,
    *,
    threads: int = 1,
    out: OutArrays | None = None,
) -> Array:
    """Compute the derivative of the center of mass's velocity with respect to configuration.

    The linear part of dh_dq of ``centroidal_derivatives`` divided by the mass; O(n).

    Examples
    --------
    >>> dvcom_dq = dyn_ros.com_velocity_derivatives(model, data, q, v).copy()
    >>> h = 1e-6
    >>> after = dyn_ros.center_of_mass(model, data, q + h * a, v)[1].copy()
    >>> before = dyn_ros.center_of_mass(model, data, q - h * a, v)[1]
    >>> np.allclose(dvcom_dq @ a, (after - before) / (2 * h), atol=1e-8)
    True
    """
