# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Constrained forward dynamics with the algorithm of Popov and Vereshchagin.

Popov, Vereshchagin and Zenkevich (1978), Vereshchagin (1989); on trees, with several tips:
Shakhimardanov (2015). Three sweeps, expressed in world axes: outward for the velocities,
inward for the articulated-body inertias and, with them, the unit constraint forces, outward for
the accelerations. A small system for the constraint forces is solved before the last sweep.

The inward sweep is an elimination of joints. With the inertia matrix M = L' D L (see
cholesky.py), it computes the columns of L^-T J' alpha, the diagonal D and L^-T (tau - nle). Public
results and their descriptions write U for L'.
"""

from __future__ import annotations

from ...call.algorithm import algorithm
from ...call.caller import BatchOptions
from ...call.data import Data
from ...kernel.types import ArrayLike, OutArrays
from ...kernel.vocabulary import *
from ...model.model import Model
from ..dynamics import aba
from ..dynamics.cholesky import factor_inertia_matrix, solve_inward
from ..dynamics.crba import crba_kernel
from ..dynamics.rnea import external_force
from ..kinematics import world_axes as wa
from . import constraint_forces as cf
from . import constraints
from .semidefinite import solve_semidefinite

NU = field(
    "_nu",
    ("constraints",),
    "Lagrange multipliers: the constraints act on their tips with -alpha nu [N, N m].",
)
RANK = field("_rank", (), "Number of independent constraints, a whole number.")
CONSTRAINT_TORQUES = field(
    "constraint_torques",
    ("nv",),
    "KDL's result, U^-1 (-J' alpha nu) with M = U D U'; not a generalized force [N m, N].",
)
TOTAL_TORQUE = field(
    "total_torque",
    ("nv",),
    "KDL's result, D ddq with M = U D U'; not a generalized force [N m, N].",
)
CONSTRAINT_FORCES = field(
    "constraint_generalized_forces",
    ("nv",),
    "Generalized forces of the constraints, -J' alpha nu, to send to the joints [N m, N].",
)
UNOPPOSED_TORQUES = field(
    "_unopposed_torques", ("nv",)
)  # L^-T tau, without forces that constraints oppose


@kernel
def unit_force(r, k):
    """Return column k of alpha. Reads ALPHA."""
    alpha = matrix_of_width(r, ALPHA, nconstraints(r))
    return Force(
        (element(r, alpha, 0, k), element(r, alpha, 1, k), element(r, alpha, 2, k)),
        (element(r, alpha, 3, k), element(r, alpha, 4, k), element(r, alpha, 5, k)),
    )


@kernel
def propagate_constraints(r, with_elimination):
    """Compute L^-T J' alpha, and the constraint residual of the bias accelerations.

        b = alpha' a_free - beta            after ``add_free_acceleration``, which completes it

    a_free is the acceleration of the tip.

    Reads ALPHA, BETA, ROTATION; writes UNIT_FORCES; calls propagate_forces, eliminate_jacobian.
    """
    cf.clear_jacobian(r)
    for n in range(constraints.nruns(r)):
        p = constraints.tip_translation(r, n)
        for k in range(constraints.run_start(r, n), constraints.run_stop(r, n)):
            cf.store_unit_force(r, k, force_moved(p, unit_force(r, k)))
            set_entry(r, cf.CONSTRAINT_RESIDUAL, k, -entry(r, BETA, k))
        cf.propagate_forces(
            r,
            cf.UNIT_FORCES,
            constraints.tip_joint(r, n),
            0,
            constraints.run_start(r, n),
            constraints.run_stop(r, n),
            with_elimination,
            with_bias=True,
        )
    if not with_elimination:
        cf.eliminate_jacobian(r)


@kernel
def collect_unopposed_forces(r):
    """Return True if there are forces that constraints do not oppose; store the external ones.

        f = R f_ext                         in world axes

    Reads F_EXT, ROTATION; writes TRANSMITTED_FORCE, UNOPPOSED_TORQUES.
    """
    opposed = constraints.integer_setting(r, constraints.OPPOSED)
    clear_entries(r, UNOPPOSED_TORQUES, nv(r))
    if opposed == constraints.EXTERNAL | constraints.FEEDFORWARD:
        return False
    clear_entries(r, cf.TRANSMITTED_FORCE, 6 * (njoints(r) + 1))
    if has_input(r, F_EXT) and opposed & constraints.EXTERNAL == 0:
        for i in range(1, njoints(r) + 1):
            R = rotation(r, wa.ROTATION, i)
            set_force(r, cf.TRANSMITTED_FORCE, i, force_rotated(R, external_force(r, i)))
    return True


@kernel
def add_unopposed_torques(r):
    """Add the feedforward torques to the unopposed ones, unless the constraints oppose them.

    Reads TAU_IN; writes UNOPPOSED_TORQUES.
    """
    if constraints.integer_setting(r, constraints.OPPOSED) & constraints.FEEDFORWARD == 0:
        for k in range(nv(r)):
            add_to_entry(r, UNOPPOSED_TORQUES, k, entry(r, TAU_IN, k))


@kernel
def eliminate_unopposed_forces(r):
    """Compute L^-T of the forces that the constraints do not oppose, joint by joint.

        y = tau + S' f,  f = f - U D^-1 y,  f_p = f_p + f

    Reads TAU_IN, F_EXT, ROTATION, FROM_PARENT, COLUMNS, U, DINV; writes TRANSMITTED_FORCE,
    UNOPPOSED_TORQUES.
    """
    if not collect_unopposed_forces(r):
        return
    add_unopposed_torques(r)
    for i in range(njoints(r), 0, -1):
        f = force(r, cf.TRANSMITTED_FORCE, i)
        for c in range(ncolumns(r, i) - 1, -1, -1):
            k = idx_v(r, i) + c
            y = entry(r, UNOPPOSED_TORQUES, k) + wa.dot_column(r, i, c, f)
            set_entry(r, UNOPPOSED_TORQUES, k, y)
            f = cf.eliminate_velocity(r, f, k, y)
        add_to_force(r, cf.TRANSMITTED_FORCE, parent(r, i), force_moved(wa.from_parent(r, i), f))


@kernel
def eliminate_unopposed_forces_with_mimic(r):
    """Compute L^-T of the forces that the constraints do not oppose, with the factor of M.

        y = L^-T (tau + J' f_ext)

    Reads TAU_IN, F_EXT, ROTATION, FROM_PARENT, COLUMNS, L; writes TRANSMITTED_FORCE,
    UNOPPOSED_TORQUES.
    """
    if collect_unopposed_forces(r):
        cf.transmit_forces_inward(r, UNOPPOSED_TORQUES)
        add_unopposed_torques(r)
        solve_inward(r, UNOPPOSED_TORQUES)


@kernel
def apply_constraint_forces(r):
    """Solve for the constraint forces, and add their effect to the bias torques.

        alpha' J M^-1 J' alpha nu = alpha' a_free - beta
        u = u - L^-T J' alpha nu            Vereshchagin (1989)

    a_free is the acceleration of the tip without constraints and without the forces that the
    constraints do not oppose. nu = -lambda, see constraint_forces.py.

    Reads UNOPPOSED_TORQUES; writes BIAS_TORQUE, COUPLING, NU, RANK, CONSTRAINT_TORQUES; calls
    scale_jacobian, add_free_acceleration, solve_semidefinite.
    """
    cf.scale_jacobian(r)
    for n in range(constraints.nruns(r)):
        first = cf.last_velocity(r, constraints.tip_joint(r, n))
        cf.compute_coupling_rows(
            r, constraints.run_start(r, n), constraints.run_stop(r, n), first, -1
        )
    for j in range(nv(r)):
        u = entry(r, aba.BIAS_TORQUE, j) - entry(r, UNOPPOSED_TORQUES, j)
        set_entry(r, CONSTRAINT_TORQUES, j, u)
    cf.add_free_acceleration(r, CONSTRAINT_TORQUES)
    for k in range(nconstraints(r)):
        set_entry(r, NU, k, entry(r, cf.CONSTRAINT_RESIDUAL, k))
    policy = constraints.integer_setting(r, constraints.POLICY)
    tolerance = constraints.rank_tolerance(r)
    rank = solve_semidefinite(r, nconstraints(r), cf.COUPLING, NU, policy, tolerance)
    set_entry(r, RANK, 0, rank)
    cf.eliminated_jacobian_times(r, NU, CONSTRAINT_TORQUES, -1.0)
    for j in range(nv(r)):
        add_to_entry(r, aba.BIAS_TORQUE, j, entry(r, CONSTRAINT_TORQUES, j))


@kernel
def transmit_constraint_forces(r):
    """Compute the joint torques of the constraint forces.

        tau = -J' alpha nu

    Reads ALPHA, ROTATION, FROM_PARENT, COLUMNS, NU; writes TRANSMITTED_FORCE, CONSTRAINT_FORCES.
    """
    clear_entries(r, cf.TRANSMITTED_FORCE, 6 * (njoints(r) + 1))
    for n in range(constraints.nruns(r)):
        i, p = constraints.tip_joint(r, n), constraints.tip_translation(r, n)
        for k in range(constraints.run_start(r, n), constraints.run_stop(r, n)):
            f = force_scale(entry(r, NU, k), force_moved(p, unit_force(r, k)))
            set_force(r, cf.TRANSMITTED_FORCE, i, force_sub(force(r, cf.TRANSMITTED_FORCE, i), f))
    cf.transmit_forces_inward(r, CONSTRAINT_FORCES)


@kernel
def store_torques(r):
    """Compute the torques that follow from qdd and nu.

        total_torque = D qdd,  constraint_generalized_forces = -J' alpha nu

    Reads ALPHA, ROTATION, FROM_PARENT, COLUMNS, DDQ, DINV, NU; writes TRANSMITTED_FORCE,
    TOTAL_TORQUE, CONSTRAINT_FORCES.
    """
    for j in range(nv(r)):
        set_entry(r, TOTAL_TORQUE, j, entry(r, aba.DDQ, j) / entry(r, aba.DINV, j))
    transmit_constraint_forces(r)


@subroutine
def solve_constrained(r):
    """Run sweeps 2 and 3, after ``sweep_outward``, for alpha, beta and the root's acceleration.

    Reads TAU_IN, F_EXT, ALPHA, BETA; writes DDQ, LINK_ACCELERATION, CONSTRAINT_TORQUES,
    TOTAL_TORQUE, CONSTRAINT_FORCES; calls inward_pass, propagate_constraints,
    eliminate_unopposed_forces, apply_constraint_forces, outward_accelerations, store_torques.
    """
    aba.inward_pass(r)
    propagate_constraints(r, with_elimination=True)
    eliminate_unopposed_forces(r)
    apply_constraint_forces(r)
    aba.outward_accelerations(r)
    store_torques(r)


@subroutine
def solve_constrained_with_mimic(r):
    """Run sweeps 2 and 3 with the factor of M, if there are mimic joints.

    Reads TAU_IN, F_EXT, ALPHA, BETA; writes DDQ, LINK_ACCELERATION, CONSTRAINT_TORQUES,
    TOTAL_TORQUE, CONSTRAINT_FORCES; calls eliminate_with_mimic, propagate_constraints,
    eliminate_unopposed_forces_with_mimic, apply_constraint_forces, accelerate_with_mimic,
    store_torques.
    """
    cf.eliminate_with_mimic(r)
    propagate_constraints(r, with_elimination=False)
    eliminate_unopposed_forces_with_mimic(r)
    apply_constraint_forces(r)
    cf.accelerate_with_mimic(r)
    store_torques(r)


@kernel
def sweep_outward(r):
    """Run sweep 1, and set the acceleration of the root.

    Reads Q, V, F_EXT, ROOT_ACC; writes ROTATION, FROM_PARENT, COLUMNS, BODY_VELOCITY, INERTIA,
    LINK_ACCELERATION, BIAS_ACCELERATION, BIAS_FORCE.
    """
    aba.outward_velocities(r)
    wa.set_universe_acceleration(r, aba.LINK_ACCELERATION)
    if has_input(r, ROOT_ACC):
        set_motion(r, aba.LINK_ACCELERATION, 0, motion(r, ROOT_ACC, 0))


@kernel
def sweep_outward_with_mimic(r):
    """Run sweep 1 after M and its factor, if there are mimic joints.

    Reads Q, V, F_EXT, ROOT_ACC; writes M, LINK_ACCELERATION; calls crba_kernel,
    factor_inertia_matrix, sweep_outward.
    """
    crba_kernel(r)
    factor_inertia_matrix(r)
    sweep_outward(r)


@kernel
def set_applied_torques(r):
    """Set the joint torques to the feedforward torques. Writes TAU_IN, FF_TORQUES."""
    zero_unless_input(r, FF_TORQUES)
    for k in range(nv(r)):
        set_entry(r, TAU_IN, k, entry(r, FF_TORQUES, k))


RESULTS = (
    aba.DDQ,
    NU,
    CONSTRAINT_TORQUES,
    TOTAL_TORQUE,
    CONSTRAINT_FORCES,
    aba.LINK_ACCELERATION,
    RANK,
)


@algorithm(
    sequence(set_applied_torques, sweep_outward, solve_constrained),
    inputs=(Q, V, ALPHA, BETA, ROOT_ACC, F_EXT, FF_TORQUES),
    results=RESULTS,
    optional=(ROOT_ACC, F_EXT, FF_TORQUES),
    options=(CONSTRAINTS,),
    mimic_kernel=sequence(
        set_applied_torques, sweep_outward_with_mimic, solve_constrained_with_mimic
    ),
    make=constraints.as_constrained_motion,
    needs_double=True,
)
def vereshchagin(
    model: Model,
    data: Data,
    q: ArrayLike,
    v: ArrayLike,
    alpha: ArrayLike,
    beta: ArrayLike,
    tip: constraints.Frames,
    root_acc: ArrayLike | None = None,
    f_ext: ArrayLike | None = None,
    ff_torques: ArrayLike | None = None,
    *,
    singularity: constraints.Singularity = "relative",
    tolerance: float | None = None,
    priority: constraints.Priority = "constraint",
    threads: int = 1,
    out: OutArrays | None = None,
) -> constraints.ConstrainedMotion:
    """Compute accelerations under acceleration constraints, and the torques that enforce them.

    The algorithm of Popov and Vereshchagin, O(n + m^2 d + m^3) for a tree of depth d: of all
    motions for which the spatial accelerations a of the tips satisfy alpha' a = beta, it selects
    the one closest to the free motion (Gauss's principle of least constraint). It extends KDL's
    ``ChainHdSolver_Vereshchagin`` to trees, any base and joints, several tips and inner links.
    Vereshchagin (1989); Shakhimardanov (2015). Includes ``model.armature``. Without constraints, or
    with alpha = 0, it is ``aba``. If there are mimic joints, M is factored instead. KDL expects
    ``f_ext`` at the origin of each segment's tip, expressed in the base frame.

    The result is a named tuple. Send ``constraint_generalized_forces`` to the joints, added to
    ``ff_torques``: together they produce ``ddq`` in the robot without constraints. J is the
    Jacobian of the tips.

    Parameters
    ----------
    alpha : (6, m) or (B, 6, m) array_like
        The columns are unit constraint forces (force, moment), expressed in the world at the
        tip's origin. At most 36 columns, and 6 per tip. A column of zeros is inactive.
    beta : (m,) or (B, m) array_like
        Desired value of alpha' a [m/s2, rad/s2], with a the spatial acceleration of the tip,
        expressed in the world at the tip's origin, including the acceleration of the root:
        along z, beta = 0 lets the tip fall, and 9.81 holds it. ``constrained_dynamics`` takes
        classical accelerations of the tip instead.
    tip : str or int, or sequence of these
        The constrained frame, by name or index; or one for each column of alpha. Any frame that a
        joint moves, also on inner links.
    root_acc : (6,) or (B, 6) array_like, optional
        Spatial acceleration of the root (linear, angular) minus gravity [m/s2, rad/s2]. Default:
        minus ``model.gravity``.
    ff_torques : (nv,) or (B, nv) array_like, optional
        Feed-forward joint torques and forces [N m, N]. Default: zeros.
    singularity : "relative", "absolute" or "damped"
        How to treat constraints that are dependent or that the robot cannot meet, for which
        eigenvalues e of alpha' J M^-1 J' alpha are zero or nearly zero. "relative" drops those up
        to ``tolerance`` times the largest, "absolute" those up to ``tolerance`` (with the default
        tolerance, this is KDL's policy). The remaining constraints are met as well as possible, in
        the least-squares sense of alpha' a - beta, with the smallest nu. "damped" replaces 1 / e
        with e / (e^2 + d^2), where d is ``tolerance`` times the largest (damped least squares), so
        that constraints are relaxed near a singularity instead of requiring very large
        accelerations.
    tolerance : float, optional
        Default: 1e-12 for "relative", 1e-14 for "absolute", 1e-6 for "damped".
    priority : "constraint", "external_force", "feedforward" or "equal"
        The motion is linear in the forces that drive it (Schneider and Bruyninckx 2019), so the
        constraint forces can oppose selected drivers only. "constraint": they oppose all of them,
        and the constraints are always met (as in KDL). "external_force": they do not oppose
        ``f_ext``, which accelerates the tip as without constraints, in addition to beta.
        "feedforward": the same for ``ff_torques``. "equal": the same for both. Gravity and velocity
        are always opposed.

    Raises
    ------
    ValueError
        Wrong shape or dtype, a number that is not finite, a quaternion that is not unit, an unknown
        tip (lists the valid ones), a tip that no joint moves, more than 6 constraints on a tip, or
        an unknown policy or priority; names the argument, the expected and the actual value.

    Examples
    --------
    Hold the height of the tool: its acceleration along z, less gravity, is 9.81 m/s2.

    >>> up = np.array([[0.0, 0.0, 1.0, 0.0, 0.0, 0.0]]).T
    >>> motion = dyn_ros.vereshchagin(model, data, q, 0.0 * v, up, [9.81], "tool")
    >>> J = dyn_ros.frame_jacobian(model, data, q, "tool", ReferenceFrame.LOCAL_WORLD_ALIGNED)
    >>> np.allclose(J[2] @ motion.ddq, 0.0)
    True
    """
    options, alpha = constraints.constraint_options(
        model, data, "tip", tip, None, ("alpha", alpha), singularity, tolerance, priority
    )
    return vereshchagin.call(
        model,
        data,
        threads if out is None else BatchOptions(threads, out),
        options,
        q,
        v,
        alpha,
        beta,
        root_acc,
        f_ext,
        ff_torques,
    )
