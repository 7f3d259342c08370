# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Jacobians of all joints, expressed in the world, and their first and second time derivatives.

Column c of a joint is its motion subspace S_c, which is constant in the joint frame; expressed in
the world, its rate is ov x S_c (Featherstone 2008, section 2.10).
"""

from __future__ import annotations

from ...call.algorithm import algorithm
from ...call.data import Data
from ...kernel.types import Array, ArrayLike, OutArrays
from ...kernel.vocabulary import *
from ...model.model import Model
from .kinematics import OA, OV, place_in_world, world_column

J = field(
    "J",
    ("ncolumns", 6),
    "Jacobian columns (linear, angular) in the order of the joints, expressed in the world, "
    "at its origin [m, rad per rad, m]; the columns of mimic joints include their "
    "multipliers.",
    True,
)
DJ = field(
    "dJ", ("ncolumns", 6), "Time derivative of J, in the same order [m/s, rad/s per rad, m].", True
)
DDJ = field(
    "ddJ",
    ("ncolumns", 6),
    "Second time derivative of J, in the same order [m/s2, rad/s2 per rad, m].",
    True,
)


@kernel
def place_columns(r, i):
    """Compute the placement of joint i and its columns of J.

        oMi = oM_p liMi
        J_c = oMi S_c

    Reads Q; writes OMI, J.
    """
    X = place_in_world(r, i, joint_placement(r, i))
    for c in range(ncolumns(r, i)):
        set_column(r, J, i, c, world_column(r, i, c, X))


@kernel
def add_columns(r, i, m, columns, rates):
    """Return m plus the columns of joint i times its numbers in the field ``rates``.

        m + sum of J_c x_c

    Reads columns, rates.
    """
    for c in range(ncolumns(r, i)):
        x_c = entry(r, rates, idx_v(r, i) + c)
        m = motion_add(m, motion_scale(x_c, motion_column(r, columns, i, c)))
    return m


@kernel
def move_columns(r, i):
    """Compute ov and the columns of dJ of joint i, after ``place_columns``.

        ov = ov_p + J qd
        dJ_c = ov x J_c

    Reads V, J; writes OV, DJ.
    """
    ov = add_columns(r, i, motion(r, OV, parent(r, i)), J, V)
    set_motion(r, OV, i, ov)
    for c in range(ncolumns(r, i)):
        set_column(r, DJ, i, c, motion_cross(ov, motion_column(r, J, i, c)))


@kernel
def accelerate_columns(r, i):
    """Compute oa and the columns of ddJ of joint i, after ``move_columns``.

        oa = oa_p + J qdd + dJ qd
        ddJ_c = oa x J_c + ov x dJ_c

    Reads V, A, OV, J, DJ; writes OA, DDJ.
    """
    oa = motion(r, OA, parent(r, i))
    oa = add_columns(r, i, add_columns(r, i, oa, J, A), DJ, V)
    set_motion(r, OA, i, oa)
    ov = motion(r, OV, i)
    for c in range(ncolumns(r, i)):
        set_column(
            r,
            DDJ,
            i,
            c,
            motion_add(
                motion_cross(oa, motion_column(r, J, i, c)),
                motion_cross(ov, motion_column(r, DJ, i, c)),
            ),
        )


@kernel
def joint_jacobians_kernel(r):
    """Compute the Jacobian of all joints in the world, J_c = oMi S_c. Reads Q; writes OMI, J."""
    for i in range(1, njoints(r) + 1):
        place_columns(r, i)


@kernel
def time_variation_kernel(r):
    """Compute J and its time derivative, dJ_c = ov x J_c. Reads Q, V; writes OMI, OV, J, DJ."""
    clear_motion(r, OV, 0)
    for i in range(1, njoints(r) + 1):
        place_columns(r, i)
        move_columns(r, i)


@kernel
def second_time_variation_kernel(r):
    """Compute J and its time derivatives, ddJ_c = oa x J_c + ov x dJ_c.

    Reads Q, V, A; writes OMI, OV, OA, J, DJ, DDJ.
    """
    clear_motion(r, OV, 0)
    clear_motion(r, OA, 0)
    for i in range(1, njoints(r) + 1):
        place_columns(r, i)
        move_columns(r, i)
        accelerate_columns(r, i)


@algorithm(joint_jacobians_kernel, inputs=(Q,), results=(J,), also_writes=(OMI,))
def joint_jacobians(
    model: Model, data: Data, q: ArrayLike, *, threads: int = 1, out: OutArrays | None = None
) -> Array:
    """Compute the Jacobian columns of all joints, expressed in the world.

    The columns of the joints that move a body, times their velocities, sum to the body's velocity,
    expressed in the world at its origin. Featherstone (2008), section 4.1; O(n).

    Examples
    --------
    >>> J = dyn_ros.joint_jacobians(model, data, q)
    >>> np.allclose(J @ v, dyn_ros.frame_velocity(model, data, q, v, "tool", ReferenceFrame.WORLD))
    True
    """


@algorithm(time_variation_kernel, inputs=(Q, V), results=(DJ,), also_writes=(J, OV, OMI))
def joint_jacobians_time_variation(
    model: Model,
    data: Data,
    q: ArrayLike,
    v: ArrayLike,
    *,
    threads: int = 1,
    out: OutArrays | None = None,
) -> Array:
    """Compute the time derivative of ``joint_jacobians``.

    Featherstone (2008), section 2.10: ov x S for each column; O(n).

    Examples
    --------
    >>> dJ = dyn_ros.joint_jacobians_time_variation(model, data, q, v).copy()
    >>> J = dyn_ros.joint_jacobians(model, data, q)
    >>> np.allclose(J @ a + dJ @ v, dyn_ros.frame_acceleration(
    ...     model, data, q, v, a, "tool", ReferenceFrame.WORLD))
    True
    """


@algorithm(
    second_time_variation_kernel, inputs=(Q, V, A), results=(DDJ,), also_writes=(DJ, J, OV, OA, OMI)
)
def joint_jacobians_second_time_variation(
    model: Model,
    data: Data,
    q: ArrayLike,
    v: ArrayLike,
    a: ArrayLike,
    *,
    threads: int = 1,
    out: OutArrays | None = None,
) -> Array:
    """Compute the second time derivative of ``joint_jacobians``.

    The derivative of ov x S, oa x S + ov x (ov x S), for each column: Featherstone (2008), section
    2.10; O(n).

    Examples
    --------
    >>> ddJ = dyn_ros.joint_jacobians_second_time_variation(model, data, q, v, 0.0 * v).copy()
    >>> h = 1e-5
    >>> after = dyn_ros.joint_jacobians_time_variation(model, data, q + h * v, v).copy()
    >>> before = dyn_ros.joint_jacobians_time_variation(model, data, q - h * v, v)
    >>> np.allclose(ddJ, (after - before) / (2 * h), atol=1e-8)
    True
    """
