# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Jacobian of one frame or joint, its rate, and the kinematic Hessian."""

from __future__ import annotations

from ...call.algorithm import algorithm, variant
from ...call.data import Data
from ...kernel.types import Array, ArrayLike, OutArrays
from ...kernel.vocabulary import *
from ...model.frames import ReferenceFrame, frame_selector, joint_selector
from ...model.model import Model
from . import frame_motion
from .frame_motion import FRAME_COLUMNS, requested_reference_frame

FRAME_JACOBIAN = field(
    "frame_jacobian",
    ("nv", 6),
    "Jacobian of one frame: columns (linear, angular) [m, rad per rad, m]; a "
    "mimic joint contributes to the column of its master.",
    True,
)
FRAME_JACOBIAN_TIME_VARIATION = field(
    "frame_jacobian_time_variation",
    ("nv", 6),
    "Time derivative of the entries of frame_jacobian [m/s, rad/s per rad, m].",
    True,
)
FRAME_HESSIAN = field(
    "frame_hessian",
    (6, "nv", "nv"),
    "Kinematic Hessian of one frame, indexed by row (linear, angular) and column "
    "of the Jacobian, and coordinate: changes of the entries per rad, m.",
)


@kernel
def store_jacobians(r, with_velocity):
    """Compute the Jacobian of a frame; with ``with_velocity``, also its time derivative.

        J_k = T S_k
        dJ_k = T (dS_k + w x S_k)           w: velocity of the frame relative to the axes

    Reads Q, V, A, POINT, OMI; writes FRAME_COLUMNS, FRAME_COLUMN_RATES, FRAME_JACOBIAN,
    FRAME_JACOBIAN_TIME_VARIATION.
    """
    X, v, _ = frame_motion.traverse_to_root(r, with_velocity)
    T = frame_motion.to_reference_frame(X, requested_reference_frame(r))
    w = frame_motion.motion_of_axes(v, requested_reference_frame(r))
    clear_entries(r, FRAME_JACOBIAN, 6 * nv(r))
    if with_velocity:
        clear_entries(r, FRAME_JACOBIAN_TIME_VARIATION, 6 * nv(r))
    j = frame_motion.first_joint(r)
    while j > 0:
        for c in range(ncolumns(r, j)):
            u, k = motion_column(r, FRAME_COLUMNS, j, c), idx_v(r, j) + c
            add_to_motion(r, FRAME_JACOBIAN, k, motion_to_parent(T, u))
            if with_velocity:
                du = motion_add(
                    motion_column(r, frame_motion.FRAME_COLUMN_RATES, j, c), motion_cross(w, u)
                )
                add_to_motion(r, FRAME_JACOBIAN_TIME_VARIATION, k, motion_to_parent(T, du))
        j = parent(r, j)


@kernel
def jacobian_kernel(r):
    """Compute the Jacobian of a frame, J_k = T S_k.

    Reads Q, V, A, POINT, OMI; writes FRAME_COLUMNS, FRAME_COLUMN_RATES, FRAME_JACOBIAN,
    FRAME_JACOBIAN_TIME_VARIATION.
    """
    store_jacobians(r, False)


@kernel
def jacobian_time_variation_kernel(r):
    """Compute the Jacobian of a frame and its time derivative.

    Reads Q, V, POINT, OMI; writes A, FRAME_COLUMNS, FRAME_COLUMN_RATES, FRAME_JACOBIAN,
    FRAME_JACOBIAN_TIME_VARIATION.
    """
    clear_entries(r, A, nv(r))
    store_jacobians(r, True)


@kernel
def add_to_hessian(r, k, x, m):
    """Add m to the derivative of column k with respect to coordinate x, H[:, k, x].

    Writes FRAME_HESSIAN.
    """
    n = nv(r)
    for row in range(3):
        add_to_element(r, matrix_row(r, FRAME_HESSIAN, row, n, n), k, x, m.linear[row])
        add_to_element(r, matrix_row(r, FRAME_HESSIAN, 3 + row, n, n), k, x, m.angular[row])


@kernel
def hessian_kernel(r):
    """Store the derivatives of the Jacobian with respect to the coordinates.

        dJ_u/dx = -u_x x J_u        in the frame, for a column u closer to the root than x

    Reads Q, V, A, POINT, OMI; writes FRAME_COLUMNS, FRAME_COLUMN_RATES, FRAME_HESSIAN.
    """
    X, _, _ = frame_motion.traverse_to_root(r, False)
    T = frame_motion.to_reference_frame(X, requested_reference_frame(r))
    clear_entries(r, FRAME_HESSIAN, 6 * nv(r) * nv(r))
    i = frame_motion.first_joint(r)
    while i > 0:
        for b in range(ncolumns(r, i)):
            u_x = motion_column(r, FRAME_COLUMNS, i, b)
            w = frame_motion.motion_of_axes(u_x, requested_reference_frame(r))
            j = frame_motion.first_joint(r)
            while j > 0:
                turn = motion_sub(w, u_x) if j < i else w
                for c in range(ncolumns(r, j)):
                    m = motion_cross(turn, motion_column(r, FRAME_COLUMNS, j, c))
                    add_to_hessian(r, idx_v(r, j) + c, idx_v(r, i) + b, motion_to_parent(T, m))
                j = parent(r, j)
        i = parent(r, i)


@algorithm(
    jacobian_kernel,
    inputs=(Q, POINT),
    results=(FRAME_JACOBIAN,),
    optional=(POINT,),
    options=(FRAME, REFERENCE_FRAME),
    selector=frame_selector,
)
def frame_jacobian(
    model: Model,
    data: Data,
    q: ArrayLike,
    frame: str | int,
    reference_frame: ReferenceFrame | int,
    offset: ArrayLike | None = None,
    *,
    threads: int = 1,
    out: OutArrays | None = None,
) -> Array:
    """Compute the Jacobian J of a frame; J v is the velocity of the frame.

    Featherstone (2008), section 4.1; O(d) for a frame at depth d.

    Examples
    --------
    The velocity of a point 0.1 m in front of the tool:

    >>> J = dyn_ros.frame_jacobian(model, data, q, "tool", ReferenceFrame.LOCAL_WORLD_ALIGNED,
    ...                            offset=[0.0, 0.0, 0.1])
    >>> J.shape, (J @ v).shape
    ((6, 7), (6,))
    """


@algorithm(
    jacobian_time_variation_kernel,
    inputs=(Q, V, POINT),
    results=(FRAME_JACOBIAN_TIME_VARIATION,),
    optional=(POINT,),
    also_writes=(FRAME_JACOBIAN,),
    options=(FRAME, REFERENCE_FRAME),
    selector=frame_selector,
)
def frame_jacobian_time_variation(
    model: Model,
    data: Data,
    q: ArrayLike,
    v: ArrayLike,
    frame: str | int,
    reference_frame: ReferenceFrame | int,
    offset: ArrayLike | None = None,
    *,
    threads: int = 1,
    out: OutArrays | None = None,
) -> Array:
    """Compute the time derivative of the entries of ``frame_jacobian``.

    Multiplied by v, plus the Jacobian times a, it is the spatial acceleration in WORLD and LOCAL,
    and the classical one in LOCAL_WORLD_ALIGNED. Featherstone (2008), section 2.10; O(d) for a
    frame at depth d.

    Examples
    --------
    >>> axes = ReferenceFrame.LOCAL_WORLD_ALIGNED
    >>> dJ = dyn_ros.frame_jacobian_time_variation(model, data, q, v, "tool", axes).copy()
    >>> h = 1e-6
    >>> after = dyn_ros.frame_jacobian(model, data, q + h * v, "tool", axes).copy()
    >>> before = dyn_ros.frame_jacobian(model, data, q - h * v, "tool", axes)
    >>> np.allclose(dJ, (after - before) / (2 * h), atol=1e-8)
    True
    """


@algorithm(
    hessian_kernel,
    inputs=(Q,),
    results=(FRAME_HESSIAN,),
    options=(FRAME, REFERENCE_FRAME),
    selector=frame_selector,
)
def frame_hessian(
    model: Model,
    data: Data,
    q: ArrayLike,
    frame: str | int,
    reference_frame: ReferenceFrame | int,
    *,
    threads: int = 1,
    out: OutArrays | None = None,
) -> Array:
    """Compute the kinematic Hessian of a frame: the derivative of its Jacobian by q.

    H[i, j, k] is the derivative of entry i, j of the Jacobian along coordinate k, that is along
    ``integrate(q, e_k)``; its sum over k with v_k is the time variation. It is not symmetric in j
    and k. By products of the columns of the Jacobian, Featherstone (2008), section 2.10; O(d^2) for
    a frame at depth d, also for joints with several coordinates.

    Examples
    --------
    Its sum with the velocities is the time variation of the Jacobian:

    >>> H = dyn_ros.frame_hessian(model, data, q, "tool", ReferenceFrame.WORLD).copy()
    >>> dJ = dyn_ros.frame_jacobian_time_variation(model, data, q, v, "tool", ReferenceFrame.WORLD)
    >>> H.shape, np.allclose(H @ v, dJ)
    ((6, 7, 7), True)
    """


@variant(frame_jacobian, joint_selector)
def joint_jacobian(
    model: Model,
    data: Data,
    q: ArrayLike,
    joint: str | int,
    reference_frame: ReferenceFrame | int,
    offset: ArrayLike | None = None,
    *,
    threads: int = 1,
    out: OutArrays | None = None,
) -> Array:
    """Compute ``frame_jacobian`` for the frame of a joint.

    Examples
    --------
    The last column of a revolute joint's own Jacobian is its axis, z:

    >>> J = dyn_ros.joint_jacobian(model, data, q, model.joint_names[-1], ReferenceFrame.LOCAL)
    >>> print(J[:, -1])
    [0. 0. 0. 0. 0. 1.]
    """


@variant(frame_jacobian_time_variation, joint_selector)
def joint_jacobian_time_variation(
    model: Model,
    data: Data,
    q: ArrayLike,
    v: ArrayLike,
    joint: str | int,
    reference_frame: ReferenceFrame | int,
    offset: ArrayLike | None = None,
    *,
    threads: int = 1,
    out: OutArrays | None = None,
) -> Array:
    """Compute ``frame_jacobian_time_variation`` for the frame of a joint.

    Examples
    --------
    >>> last = model.joint_names[-1]
    >>> dJ = dyn_ros.joint_jacobian_time_variation(model, data, q, v, last, ReferenceFrame.WORLD)
    >>> dJ = dJ.copy()
    >>> np.allclose(dJ, dyn_ros.joint_jacobians_time_variation(model, data, q, v))
    True
    """


@variant(frame_hessian, joint_selector)
def joint_hessian(
    model: Model,
    data: Data,
    q: ArrayLike,
    joint: str | int,
    reference_frame: ReferenceFrame | int,
    *,
    threads: int = 1,
    out: OutArrays | None = None,
) -> Array:
    """Compute ``frame_hessian`` for the frame of a joint.

    Examples
    --------
    >>> last = model.joint_names[-1]
    >>> H = dyn_ros.joint_hessian(model, data, q, last, ReferenceFrame.LOCAL).copy()
    >>> dJ = dyn_ros.joint_jacobian_time_variation(model, data, q, v, last, ReferenceFrame.LOCAL)
    >>> np.allclose(H @ v, dJ)
    True
    """
