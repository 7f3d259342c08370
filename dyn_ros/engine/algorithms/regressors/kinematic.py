# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Kinematic regressors: how errors in the placements of joints move a frame.

Hollerbach, Khalil and Gautier (2016). The placement of each joint in its parent, for zero
coordinates, is multiplied by the exponential of a small motion, on the right. The motion of the
frame is that motion, transformed to the frame.
"""

from __future__ import annotations

from ...call.algorithm import algorithm, variant
from ...call.data import Data
from ...kernel.types import Array, ArrayLike, OutArrays
from ...kernel.vocabulary import *
from ...model.frames import ReferenceFrame, frame_selector, joint_selector
from ...model.model import Model
from ..kinematics.frame_motion import first_joint, frame_pose_in_joint, to_reference_frame

KINEMATIC_REGRESSOR = field(
    "frame_kinematic_regressor",
    ("placements", 6),
    "Derivatives of the placement of one frame with respect to the "
    "placements of all joints: rows (linear, angular) [m, rad], columns "
    "(linear, angular) of each joint [per m, rad].",
    transposed=True,
)
FROM_PLACEMENT = field("_from_placement", ("rows", 4, 4))  # relative to the joint at q = 0


@kernel
def fixed_placement(r, i, like):
    """Return the pose of joint i's frame in its parent's frame at zero angles and displacements."""
    P, p = joint_constant9(r, i, PLACE), joint_constant3(r, i, TRANSLATION)
    if kind(r, i) == REVOLUTE:  # see joint_placement
        C = joint_constant9(r, i, PLACE_COS)
        P = (
            P[0] + C[0],
            P[1] + C[1],
            P[2] + C[2],
            P[3] + C[3],
            P[4] + C[4],
            P[5] + C[5],
            P[6] + C[6],
            P[7] + C[7],
            P[8] + C[8],
        )
    return SE3(lift9(P, like), lift3(p, like))


@kernel
def traverse_placements(r):
    """Store the frame's pose in the placement of each joint above; return that in the world.

    Reads Q, POINT, OMI; writes FROM_PLACEMENT.
    """
    j, X = first_joint(r), frame_pose_in_joint(r)
    while j > 0:
        X = compose(joint_placement(r, j), X)
        fixed = fixed_placement(r, j, entry(r, OMI, 0))
        set_placement(r, FROM_PLACEMENT, j, compose(inverse(fixed), X))
        j = parent(r, j)
    return X


@kernel
def set_action(r, field, i, X):
    """Set row i of a field to the 6 x 6 transformation of motions from a frame at X, transposed.

    Writes field.
    """
    A = matrix_row(r, field, i, 6, 6)
    for c in range(3):
        u = X.rotation[c], X.rotation[3 + c], X.rotation[6 + c]
        set_elements3(r, A, c, 0, u)
        set_elements3(r, A, 3 + c, 0, cross(X.translation, u))
        set_elements3(r, A, 3 + c, 3, u)


@kernel
def kinematic_regressor_kernel(r):
    """Compute the regressor of a frame's placement, for each joint above it.

        T X_j^-1

    Reads Q, POINT, OMI; writes KINEMATIC_REGRESSOR, FROM_PLACEMENT.
    """
    clear_entries(r, KINEMATIC_REGRESSOR, size(r, KINEMATIC_REGRESSOR))
    T = to_reference_frame(traverse_placements(r), option(r, REFERENCE_FRAME))
    j = first_joint(r)
    while j > 0:
        X = placement(r, FROM_PLACEMENT, j)
        set_action(r, KINEMATIC_REGRESSOR, j - 1, compose(T, inverse(X)))
        j = parent(r, j)


@algorithm(
    kinematic_regressor_kernel,
    inputs=(Q,),
    results=(KINEMATIC_REGRESSOR,),
    options=(FRAME, REFERENCE_FRAME),
    selector=frame_selector,
)
def frame_kinematic_regressor(
    model: Model,
    data: Data,
    q: ArrayLike,
    frame: str | int,
    reference_frame: ReferenceFrame | int,
    *,
    threads: int = 1,
    out: OutArrays | None = None,
) -> Array:
    """Compute the regressor of a frame's placement: its motion if joint placements change.

    The six columns of a joint are the motions of the frame for small motions of the joint's
    placement in its parent, expressed in the joint's frame for zero angles and displacements.
    Columns of joints that do not move the frame are zero. Hollerbach, Khalil and Gautier (2016);
    O(d) for a frame at depth d.

    Examples
    --------
    An error of 1 mm in the placement of the first joint, along its z, moves the tool by 1 mm:

    >>> K = dyn_ros.frame_kinematic_regressor(
    ...     model, data, q, "tool", ReferenceFrame.LOCAL_WORLD_ALIGNED)
    >>> K.shape, round(float(np.linalg.norm(K[:3, 2] * 0.001)), 6)
    ((6, 42), 0.001)
    """


@variant(frame_kinematic_regressor, joint_selector)
def joint_kinematic_regressor(
    model: Model,
    data: Data,
    q: ArrayLike,
    joint: str | int,
    reference_frame: ReferenceFrame | int,
    *,
    threads: int = 1,
    out: OutArrays | None = None,
) -> Array:
    """Compute ``frame_kinematic_regressor`` for the frame of a joint.

    Examples
    --------
    >>> last = model.joint_names[-1]
    >>> K = dyn_ros.joint_kinematic_regressor(model, data, q, last, ReferenceFrame.WORLD)
    >>> K.shape
    (6, 42)
    """
