# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Constrained dynamics in terms of classical accelerations of frames."""

from __future__ import annotations

from ...call.algorithm import algorithm
from ...call.caller import BatchOptions
from ...call.data import Data
from ...kernel.types import ArrayLike, OutArrays
from ...kernel.vocabulary import *
from ...model.model import Model
from ..dynamics.aba import LINK_ACCELERATION
from ..kinematics.world_axes import BODY_VELOCITY
from . import constraints, vereshchagin


@kernel
def rotate_directions(r, n):
    """Compute alpha of run n, its directions expressed in world axes.

        alpha = [R 0; 0 R] directions

    Reads DIRECTIONS, ROTATION; writes ALPHA.
    """
    R, m = constraints.run_axes(r, n), nconstraints(r)
    D, alpha = matrix_of_width(r, DIRECTIONS, m), matrix_of_width(r, ALPHA, m)
    for k in range(constraints.run_start(r, n), constraints.run_stop(r, n)):
        for i in (0, 3):  # linear and angular rows
            x = rotate(R, (element(r, D, i, k), element(r, D, i + 1, k), element(r, D, i + 2, k)))
            for c in range(3):
                set_element(r, alpha, i + c, k, x[c])


@kernel
def set_spatial_accelerations(r, n):
    """Compute beta of run n: the desired accelerations, including the root's, as spatial ones.

        beta = desired + alpha' (a_0 - w x v, 0)

    ``desired`` has a classical acceleration along each direction, and a_0 is the acceleration of
    the root, minus gravity. A frame with the velocity (v, w) and the spatial acceleration (a, b)
    has the classical acceleration (a + w x v, b).

    Reads ALPHA, DESIRED, ROTATION, BODY_VELOCITY, LINK_ACCELERATION; writes BETA.
    """
    v = motion_moved(
        constraints.tip_translation(r, n),
        motion(r, BODY_VELOCITY, constraints.tip_joint(r, n)),
    )
    root_acceleration = vector(r, LINK_ACCELERATION, 0)
    shift = Motion(add(root_acceleration, cross(v.linear, v.angular)), zero3(v.linear[0]))
    for k in range(constraints.run_start(r, n), constraints.run_stop(r, n)):
        set_entry(r, BETA, k, entry(r, DESIRED, k) + power(vereshchagin.unit_force(r, k), shift))


@kernel
def set_alpha_and_beta(r):
    """Compute alpha and beta, after ``sweep_outward``.

    Reads DIRECTIONS, ROTATION, BODY_VELOCITY, LINK_ACCELERATION; writes TAU_IN, ALPHA, BETA,
    DESIRED.
    """
    zero_unless_input(r, TAU_IN)
    zero_unless_input(r, DESIRED)
    for n in range(constraints.nruns(r)):
        rotate_directions(r, n)
        set_spatial_accelerations(r, n)


@algorithm(
    sequence(vereshchagin.sweep_outward, set_alpha_and_beta, vereshchagin.solve_constrained),
    inputs=(Q, V, DIRECTIONS, DESIRED, TAU_IN, F_EXT),
    results=vereshchagin.RESULTS,
    optional=(DESIRED, TAU_IN, F_EXT),
    options=(CONSTRAINTS,),
    mimic_kernel=sequence(
        vereshchagin.sweep_outward_with_mimic,
        set_alpha_and_beta,
        vereshchagin.solve_constrained_with_mimic,
    ),
    make=constraints.as_constrained_motion,
    needs_double=True,
)
def constrained_dynamics(
    model: Model,
    data: Data,
    q: ArrayLike,
    v: ArrayLike,
    frame: constraints.Frames,
    directions: ArrayLike,
    accelerations: ArrayLike | None = None,
    tau: ArrayLike | None = None,
    f_ext: ArrayLike | dict[str, ArrayLike] | None = None,
    *,
    axes: constraints.Frames | None = None,
    singularity: constraints.Singularity = "relative",
    tolerance: float | None = None,
    priority: constraints.Priority = "constraint",
    threads: int = 1,
    out: OutArrays | None = None,
) -> constraints.ConstrainedMotion:
    """Compute motion and torques for desired accelerations of frames, by default zero.

    Like ``vereshchagin``, but with classical accelerations, which do not include gravity: a frame
    with acceleration 0 along all directions keeps its velocity, or stays at rest.
    The torques to send are ``tau`` plus ``constraint_generalized_forces``. The constraints act on a
    frame with the wrench -directions nu.

    Parameters
    ----------
    frame : str or int, or sequence of these
        The constrained frame, by name or index; or one for each direction. Any frame that a joint
        moves.
    directions : (6, m) or (B, 6, m) array_like
        The columns are the constrained directions (linear, angular) at the frame's origin:
        the identity constrains the whole pose, its first three columns the position. At most 36
        columns, and 6 per frame. Columns of zeros are inactive. Use norms of the same order for
        the others, because they weight the constraints when their rank is determined.
    accelerations : (m,) or (B, m) array_like, optional
        Desired acceleration along each direction [m/s2, rad/s2]. Default: zeros.
    tau : (nv,) or (B, nv) array_like, optional
        Joint torques and forces that are applied in any case [N m, N]. Default: zeros.
    axes : str or int, or sequence of these, optional
        Frame in which the directions are expressed, such as the constrained frame; or one for each
        direction. Default: the world.
    singularity, tolerance, priority
        As in ``vereshchagin``.

    Raises
    ------
    ValueError
        As for ``vereshchagin``, or an unknown frame in ``axes`` or ``f_ext``.

    Examples
    --------
    Hold the position of the tool while the rest of the arm falls:

    >>> motion = dyn_ros.constrained_dynamics(model, data, q, 0.0 * v, "tool", np.eye(6)[:, :3])
    >>> J = dyn_ros.frame_jacobian(model, data, q, "tool", ReferenceFrame.LOCAL_WORLD_ALIGNED)
    >>> np.allclose(J[:3] @ motion.ddq, 0.0)
    True
    >>> send = motion.constraint_generalized_forces           # torques for the motors
    >>> np.allclose(dyn_ros.aba(model, data, q, 0.0 * v, send), motion.ddq)
    True
    """
    options, directions = constraints.constraint_options(
        model,
        data,
        "frame",
        frame,
        axes,
        ("directions", directions),
        singularity,
        tolerance,
        priority,
    )
    if isinstance(f_ext, dict):
        f_ext = model.external_forces(f_ext)
    return constrained_dynamics.call(
        model,
        data,
        threads if out is None else BatchOptions(threads, out),
        options,
        q,
        v,
        directions,
        accelerations,
        tau,
        f_ext,
    )
