# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Constrained forward dynamics with the algorithm of Popov and Vereshchagin.

Popov, Vereshchagin and Zenkevich (1978), Vereshchagin (1989); on trees, with several tips:
Shakhimardanov (2015). Three sweeps, expressed in the root frame: outward for the velocities,
inward for the articulated-body inertias and, with them, the unit constraint forces, outward for
the accelerations. A small system for the constraint forces is solved before the last sweep.

The inward sweep is an elimination of joints. With the inertia matrix M = U D U', U upper
triangular, it computes the columns of U^-1 J' alpha, the diagonal D and U^-1 (tau - nle).
"""
from ...call.algorithm import Algorithm
from ...call.data import Data
from ...kernel.algebra import (
    Force,
    force_add,
    force_moved,
    force_rotated,
    force_scale,
    force_sub,
    load9,
    load_force,
    load_motion,
    store_spatial,
)
from ...kernel.compiler import kernel, subroutine
from ...kernel.fields import (
    ALPHA,
    BETA,
    CONSTRAINTS,
    F_EXT,
    FF_TORQUES,
    ROOT_ACC,
    TAU_IN,
    Q,
    V,
    field,
)
from ...kernel.lanes import load, store
from ...kernel.layout import (
    clear,
    has_input,
    idx_v,
    increase,
    ncolumns,
    nconstraints,
    njoints,
    nv,
    offset,
    parent,
    zero_unless_input,
)
from ...kernel.types import ArrayLike
from ...model.model import Model
from ..dynamics.aba import (
    BIAS_TORQUE,
    DDQ,
    DINV,
    LINK_ACCELERATION,
    U,
    accelerate_root,
    inward_inertias,
    outward_accelerations,
    outward_velocities,
)
from ..dynamics.crba import crba_kernel
from ..dynamics.factor import factor, solve_inward
from ..dynamics.rnea import external_force
from ..kinematics.root_axes import ROTATION, dot_column, from_parent
from .constraint_forces import (
    COUPLING,
    EXCESS,
    FORCE,
    UNIT_FORCES,
    accelerate_projected,
    add_free_motion,
    clear_eliminated,
    couple,
    eliminate_columns,
    eliminate_projected,
    eliminated_times,
    last_velocity,
    propagate,
    scale_eliminated,
    store_unit_force,
    transmit_inward,
)
from .constraints import (
    EXTERNAL,
    FEEDFORWARD,
    OPPOSED,
    POLICY,
    ConstrainedMotion,
    Frames,
    Priority,
    Singularity,
    as_motion,
    constraint_table,
    nruns,
    run_start,
    run_stop,
    setting,
    tip_joint,
    tip_translation,
    tolerance,
)
from .semidefinite import solve_semidefinite

NU = field("_nu", ("constraints",))
RANK = field("_rank", ())
CONSTRAINT_TORQUES = field(
    "constraint_torques", ("nv",), "KDL's result, U^-1 (-J' alpha nu) with M = U D U'; not a "
                                   "generalized force [N m, N].")
TOTAL_TORQUE = field(
    "total_torque", ("nv",), "KDL's result, D ddq with M = U D U'; not a generalized force [N m, "
                             "N].")
CONSTRAINT_FORCES = field(
    "constraint_generalized_forces", ("nv",), "Generalized forces of the constraints, "
                                              "-J' alpha nu, to send to the joints [N m, N].")
UNOPPOSED = field("_unopposed", ("nv",))      # U^-1 of the forces not opposed by the constraints


@kernel
def unit_force(r, k):
    """Column k of alpha."""
    a, m = offset(r, ALPHA) + k, nconstraints(r)
    return Force((load(r.work, a), load(r.work, a + m), load(r.work, a + 2 * m)),
                 (load(r.work, a + 3 * m), load(r.work, a + 4 * m), load(r.work, a + 5 * m)))


@kernel
def set_root_acceleration(r):
    accelerate_root(r)
    if has_input(r, ROOT_ACC):
        store_spatial(r.work, offset(r, LINK_ACCELERATION),
                      load_motion(r.work, offset(r, ROOT_ACC)))


@kernel
def propagate_constraints(r, eliminating):
    """U^-1 J' alpha, and the error of the bias acceleration, alpha' a - beta."""
    clear_eliminated(r)
    for n in range(nruns(r)):
        p = tip_translation(r, n)
        for k in range(run_start(r, n), run_stop(r, n)):
            store_unit_force(r, k, force_moved(p, unit_force(r, k)))
            store(r.work, offset(r, EXCESS) + k, -load(r.work, offset(r, BETA) + k))
        propagate(r, offset(r, UNIT_FORCES), tip_joint(r, n), 0, run_start(r, n), run_stop(r, n),
                  eliminating, True)
    if not eliminating:
        eliminate_columns(r)


@kernel
def unopposed_forces(r):
    """Store external forces that the constraints do not oppose, expressed in the root frame."""
    f_ = offset(r, FORCE)
    clear(r.work, f_, 6 * (njoints(r) + 1))
    if has_input(r, F_EXT) and setting(r, OPPOSED) & EXTERNAL == 0:
        for i in range(1, njoints(r) + 1):
            R = load9(r.work, offset(r, ROTATION) + 9 * i)
            store_spatial(r.work, f_ + 6 * i, force_rotated(R, external_force(r, i)))


@kernel
def add_unopposed_torques(r):
    if setting(r, OPPOSED) & FEEDFORWARD == 0:
        for k in range(nv(r)):
            increase(r.work, offset(r, UNOPPOSED) + k, load(r.work, offset(r, TAU_IN) + k))


@kernel
def eliminate_unopposed(r):
    """U^-1 of the forces that the constraints do not oppose, joint by joint."""
    y_, f_ = offset(r, UNOPPOSED), offset(r, FORCE)
    clear(r.work, y_, nv(r))
    if setting(r, OPPOSED) == EXTERNAL | FEEDFORWARD:
        return
    unopposed_forces(r)
    add_unopposed_torques(r)
    for i in range(njoints(r), 0, -1):
        f = load_force(r.work, f_ + 6 * i)
        for c in range(ncolumns(r, i) - 1, -1, -1):
            k = idx_v(r, i) + c
            y = load(r.work, y_ + k) + dot_column(r, i, c, f)
            store(r.work, y_ + k, y)
            f = force_sub(f, force_scale(y * load(r.work, offset(r, DINV) + k),
                                         load_force(r.work, offset(r, U) + 6 * k)))
        p = f_ + 6 * parent(r, i)
        store_spatial(r.work, p, force_add(load_force(r.work, p),
                                           force_moved(from_parent(r, i), f)))


@kernel
def eliminate_unopposed_projected(r):
    """The same with the factor of M, if mimic joints couple branches."""
    clear(r.work, offset(r, UNOPPOSED), nv(r))
    if setting(r, OPPOSED) == EXTERNAL | FEEDFORWARD:
        return
    unopposed_forces(r)
    transmit_inward(r, offset(r, UNOPPOSED))
    add_unopposed_torques(r)
    solve_inward(r, offset(r, UNOPPOSED))


@kernel
def constrain(r):
    """Solve for the constraint forces, and add their effect to the bias torques."""
    torque, w, n = offset(r, BIAS_TORQUE), offset(r, CONSTRAINT_TORQUES), nv(r)
    scale_eliminated(r)
    for run in range(nruns(r)):
        couple(r, run_start(r, run), run_stop(r, run), last_velocity(r, tip_joint(r, run)), -1)
    for j in range(n):
        store(r.work, w + j, load(r.work, torque + j) - load(r.work, offset(r, UNOPPOSED) + j))
    add_free_motion(r, w)
    for k in range(nconstraints(r)):
        store(r.work, offset(r, NU) + k, load(r.work, offset(r, EXCESS) + k))
    store(r.work, offset(r, RANK), solve_semidefinite(
        r, nconstraints(r), offset(r, COUPLING), offset(r, NU), setting(r, POLICY), tolerance(r)))
    eliminated_times(r, offset(r, NU), w, -1.0)
    for j in range(n):
        increase(r.work, torque + j, load(r.work, w + j))


@kernel
def transmit_constraints(r):
    """-J' alpha nu."""
    clear(r.work, offset(r, FORCE), 6 * (njoints(r) + 1))
    for n in range(nruns(r)):
        f_ = offset(r, FORCE) + 6 * tip_joint(r, n)
        p = tip_translation(r, n)
        for k in range(run_start(r, n), run_stop(r, n)):
            store_spatial(r.work, f_, force_sub(load_force(r.work, f_), force_scale(
                load(r.work, offset(r, NU) + k), force_moved(p, unit_force(r, k)))))
    transmit_inward(r, offset(r, CONSTRAINT_FORCES))


@kernel
def store_torques(r):
    """Store the torques that follow from ddq and nu."""
    for j in range(nv(r)):
        store(r.work, offset(r, TOTAL_TORQUE) + j,
              load(r.work, offset(r, DDQ) + j) / load(r.work, offset(r, DINV) + j))
    transmit_constraints(r)


@subroutine
def solve_constrained(r):
    """Sweeps 2 and 3, after ``sweep_outward``, for alpha, beta and the root's acceleration."""
    inward_inertias(r)
    propagate_constraints(r, True)
    eliminate_unopposed(r)
    constrain(r)
    outward_accelerations(r)
    store_torques(r)


@subroutine
def solve_constrained_projected(r):
    """The same with the factor of M, if mimic joints couple branches."""
    eliminate_projected(r)
    propagate_constraints(r, False)
    eliminate_unopposed_projected(r)
    constrain(r)
    accelerate_projected(r)
    store_torques(r)


@kernel
def sweep_outward(r):
    """Sweep 1."""
    outward_velocities(r)
    set_root_acceleration(r)


@kernel
def sweep_outward_projected(r):
    """The same after M and its factor, if mimic joints couple branches."""
    crba_kernel(r)
    factor(r)
    sweep_outward(r)


@kernel
def set_torques(r):
    zero_unless_input(r, FF_TORQUES)
    for k in range(nv(r)):
        store(r.work, offset(r, TAU_IN) + k, load(r.work, offset(r, FF_TORQUES) + k))


@kernel
def vereshchagin_kernel(r):
    set_torques(r)
    sweep_outward(r)
    solve_constrained(r)


@kernel
def projected_vereshchagin_kernel(r):
    set_torques(r)
    sweep_outward_projected(r)
    solve_constrained_projected(r)


RESULTS = (DDQ, NU, CONSTRAINT_TORQUES, TOTAL_TORQUE, CONSTRAINT_FORCES, LINK_ACCELERATION, RANK)
_vereshchagin = Algorithm(
    "vereshchagin", vereshchagin_kernel, (Q, V, ALPHA, BETA, ROOT_ACC, F_EXT, FF_TORQUES), RESULTS,
    optional=(ROOT_ACC, F_EXT, FF_TORQUES), options=(CONSTRAINTS,),
    coupled=projected_vereshchagin_kernel).caller(make=as_motion)


def vereshchagin(model: Model, data: Data, q: ArrayLike, v: ArrayLike, alpha: ArrayLike,
                 beta: ArrayLike, tip: Frames, root_acc: ArrayLike | None = None,
                 f_ext: ArrayLike | None = None, ff_torques: ArrayLike | None = None, *,
                 singularity: Singularity = "relative", tolerance: float | None = None,
                 priority: Priority = "constraint", threads: int = 1) -> ConstrainedMotion:
    """Compute accelerations under acceleration constraints, and the torques that enforce them.

    The algorithm of Popov and Vereshchagin, O(n + m^3): of all motions for which the spatial
    accelerations a of the tips satisfy alpha' a = beta, it selects the one closest to the free
    motion (Gauss's principle of least constraint). It extends KDL's ``ChainHdSolver_Vereshchagin``
    to trees, any base and joints, several tips and inner links. Vereshchagin (1989); Shakhimardanov
    (2015). Includes ``model.armature``. Without constraints, or with alpha = 0, the result is that
    of ``aba``. If mimic joints couple branches, M is factored instead.

    Parameters
    ----------
    model : Model
    data : Data
        Created for this model. Holds the result until the next call.
    q : (nq,) or (B, nq) array_like
        Configuration [rad, m].
    v : (nv,) or (B, nv) array_like
        Velocity [rad/s, m/s]; for floating, planar and spherical joints, in their frame.
    alpha : (6, m) or (B, 6, m) array_like
        The columns are unit constraint forces (force, moment), expressed in the root frame at the
        tip's origin. At most 36 columns, and 6 per tip. A column of zeros is inactive.
    beta : (m,) or (B, m) array_like
        Desired value of alpha' a [m/s2, rad/s2], with a the spatial acceleration of the tip,
        expressed in the root frame at the tip's origin, including the acceleration of the root:
        along z, beta = 0 lets the tip fall, and 9.81 holds it. ``constrained_dynamics`` takes
        classical accelerations of the tip instead.
    tip : str or int, or sequence of these
        The constrained frame, by name or index; or one for each column of alpha. Any frame that a
        joint moves, also on inner links.
    root_acc : (6,) or (B, 6) array_like, optional
        Spatial acceleration of the root (linear, angular) minus gravity [m/s2, rad/s2]. Default:
        minus ``model.gravity``.
    f_ext : (njoints, 6) or (B, njoints, 6) array_like, optional
        External wrench (force, moment) on each joint's body, at the origin of the joint frame and
        expressed in it [N, N m]. ``Model.external_forces`` converts wrenches on any frame. (KDL
        expects it at the origin of each segment's tip, expressed in the base frame.)
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
    threads : int
        Number of threads for a batch.

    Returns
    -------
    ConstrainedMotion
        A named tuple (ddq, nu, constraint_torques, total_torque, constraint_generalized_forces,
        link_accelerations, rank). Send ``constraint_generalized_forces`` to the joints, added to
        ``ff_torques``.

    Raises
    ------
    ValueError
        Wrong shape or dtype, a number that is not finite, a quaternion that is not unit, an unknown
        tip (lists the valid ones), a tip that no joint moves, more than 6 constraints on a tip, or
        an unknown policy or priority; names the argument, the expected and the actual value.
    numpy.linalg.LinAlgError
        The inertia matrix is singular; names the first joint from the tips that moves no inertia.

    Examples
    --------
    Hold the height of the tool: its acceleration along z, less gravity, is 9.81 m/s2.

    >>> up = np.array([[0.0, 0.0, 1.0, 0.0, 0.0, 0.0]]).T
    >>> motion = dyn_ros.vereshchagin(model, data, q, 0.0 * v, up, [9.81], "tool")
    >>> J = dyn_ros.frame_jacobian(model, data, q, "tool", ReferenceFrame.LOCAL_WORLD_ALIGNED)
    >>> np.allclose(J[2] @ motion.ddq, 0.0)
    True
    """
    table, alpha = constraint_table(model, data, "tip", tip, None, ("alpha", alpha), singularity,
                                    tolerance, priority)
    return _vereshchagin(model, data, threads, table, q, v, alpha, beta, root_acc,
                         f_ext, ff_torques)
