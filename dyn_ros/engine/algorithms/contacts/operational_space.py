# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Operational space: the dynamics of a frame, seen from its own motion.

Khatib, "A unified approach for motion and force control of robot manipulators: the operational
space formulation" (1987): with x' = J v, forces f at the frame and torques J' f,

    Lambda x'' + mu + p = f

The frame is treated as a contact, by the same elimination along the tree.
"""
from ...call.algorithm import Algorithm
from ...call.data import Data
from ...kernel.algebra import Motion, cross, power, zero3
from ...kernel.compiler import kernel, subroutine
from ...kernel.fields import Q, V, field
from ...kernel.lanes import lift, load, store
from ...kernel.layout import clear, increase, nconstraints, nv, offset, zero_unless_input
from ...kernel.types import Array, ArrayLike
from ...model.frames import ReferenceFrame
from ...model.inputs import require_model
from ...model.model import Model
from ..constrained.constraint_forces import COUPLING, ELIMINATED, EXCESS, clear_eliminated
from ..constrained.constraints import moving_index
from ..constrained.products import multiply, rows_of
from ..constrained.semidefinite import WIDTH, invert_semidefinite
from ..dynamics.aba import LINK_ACCELERATION, eliminate_all, outward_velocities
from ..dynamics.crba import crba_kernel
from ..dynamics.factor import factor
from ..dynamics.minverse import MINV, inverse_after_elimination, inverse_after_factor
from ..dynamics.rnea import NLE, G, generalized_gravity_kernel, nonlinear_effects_kernel
from .contacts import (
    CONTACTS,
    ROWS,
    Contact,
    ContactTable,
    Dimension,
    axes_of,
    contact_table,
    is_at_origin,
)
from .delassus import (
    CONTACT_JACOBIAN,
    PADDED,
    compact,
    damp,
    eliminate_contacts,
    eliminate_contacts_projected,
    inertia_to_origin,
    store_jacobian,
)
from .response import RESPONSE
from .rows import (
    LOCAL,
    contact_velocities,
    couple_contacts,
    forces_to_origin,
    propagate_contact,
    row_force,
    set_contact,
)
from .system import TOLERANCE

OSIM = field("osim", ("constraints", "constraints"), "Operational-space inertia of one frame [kg, "
                                                     "kg m, kg m2].")
JBAR = field("dynamically_consistent_inverse", ("nv", "constraints"),
             "Inverse of the Jacobian of one frame that weighs with M.")
PROJECTOR = field("null_space_projector", ("nv", "nv"), "Projects torques so that one frame does "
                                                        "not accelerate.")
MU = field("operational_coriolis", ("constraints",), "Coriolis and centrifugal forces at one frame "
                                                     "[N, N m].")
P = field("operational_gravity", ("constraints",), "Gravity forces at one frame [N, N m].")


# --- Lambda

@kernel
def invert_padded(r):
    invert_semidefinite(r, nconstraints(r), offset(r, COUPLING), 0.0, TOLERANCE,
                        offset(r, PADDED))
    compact(r, PADDED, OSIM)


@kernel
def invert_coupling(r):
    couple_contacts(r)
    damp(r)
    invert_padded(r)


@kernel
def inertia_kernel(r):
    eliminate_contacts(r)
    invert_coupling(r)
    inertia_to_origin(r, offset(r, OSIM))


@kernel
def projected_inertia_kernel(r):
    eliminate_contacts_projected(r)
    invert_coupling(r)
    inertia_to_origin(r, offset(r, OSIM))


# --- the Jacobian and its inverse

@kernel
def set_frame(r):
    """Store J, and J' v in the excess, with ' the time derivative."""
    clear_eliminated(r)
    clear(r.work, offset(r, EXCESS), nconstraints(r))
    clear(r.work, offset(r, LINK_ACCELERATION), 6)
    set_contact(r, 0)
    propagate_contact(r, 0, True)
    store_jacobian(r, offset(r, CONTACT_JACOBIAN))
    v = contact_velocities(r, 0).first
    if axes_of(r, 0) != LOCAL and not is_at_origin(r, 0):
        a = Motion(cross(v.angular, v.linear), zero3(v.linear[0]))
        for k in range(nconstraints(r)):
            increase(r.work, offset(r, EXCESS) + k, power(row_force(r, 0, k), a))


@kernel
def invert_jacobian(r):
    """Lambda and M^-1 J' Lambda, after ``set_frame`` and the inverse of M."""
    n, m, columns = nv(r), nconstraints(r), rows_of(offset(r, ELIMINATED), WIDTH)
    Y, lambda_ = rows_of(offset(r, RESPONSE), m), rows_of(offset(r, PADDED), WIDTH)
    multiply(r, Y, 1.0, rows_of(offset(r, MINV), n), columns, n, n, m)
    multiply(r, rows_of(offset(r, COUPLING), WIDTH), 1.0, columns, Y, m, n, m)
    damp(r)
    invert_padded(r)
    for j in range(n):
        multiply(r, rows_of(offset(r, JBAR) + m * j, m), 1.0, rows_of(Y.start + m * j, 1), lambda_,
                 1, m, m)


@kernel
def project(r):
    """I - J' Jbar'."""
    n, m = nv(r), nconstraints(r)
    clear(r.work, offset(r, PROJECTOR), n * n)
    for k in range(n):
        increase(r.work, offset(r, PROJECTOR) + k * (n + 1), 1.0)
        for i in range(m):
            x = load(r.work, offset(r, CONTACT_JACOBIAN) + n * i + k)
            for j in range(n):
                increase(r.work, offset(r, PROJECTOR) + n * k + j,
                         -x * load(r.work, offset(r, JBAR) + m * j + i))


@kernel
def seen_from_frame(r):
    """mu and p: Jbar' (nle - g) - Lambda J' v, Jbar' g."""
    n, m = nv(r), nconstraints(r)
    for k in range(m):
        mu = lift(0.0, load(r.work, offset(r, OSIM)))
        p = mu
        for i in range(m):
            mu = mu - (load(r.work, offset(r, OSIM) + m * k + i)
                       * load(r.work, offset(r, EXCESS) + i))
        for j in range(n):
            x, g = load(r.work, offset(r, JBAR) + m * j + k), load(r.work, offset(r, G) + j)
            mu = mu + x * (load(r.work, offset(r, NLE) + j) - g)
            p = p + x * g
        store(r.work, offset(r, MU) + k, mu)
        store(r.work, offset(r, P) + k, p)


@subroutine
def invert(r):
    zero_unless_input(r, V)
    outward_velocities(r)
    eliminate_all(r)
    inverse_after_elimination(r)
    set_frame(r)
    invert_jacobian(r)
    project(r)


@subroutine
def invert_projected(r):
    """The same with the factor of M, if mimic joints couple branches."""
    zero_unless_input(r, V)
    crba_kernel(r)
    factor(r)
    inverse_after_factor(r)
    outward_velocities(r)
    set_frame(r)
    invert_jacobian(r)
    project(r)


@kernel
def move_results(r):
    """Move the results for a frame in WORLD to the world's origin."""
    inertia_to_origin(r, offset(r, OSIM))
    for j in range(nv(r)):
        forces_to_origin(r, offset(r, JBAR) + nconstraints(r) * j, 1)


@kernel
def inverse_kernel(r):
    invert(r)
    move_results(r)


@kernel
def projected_inverse_kernel(r):
    invert_projected(r)
    move_results(r)


@kernel
def bias_forces(r):
    nonlinear_effects_kernel(r)
    generalized_gravity_kernel(r)
    seen_from_frame(r)
    move_results(r)
    forces_to_origin(r, offset(r, MU), 1)
    forces_to_origin(r, offset(r, P), 1)


@kernel
def bias_kernel(r):
    invert(r)
    bias_forces(r)


@kernel
def projected_bias_kernel(r):
    invert_projected(r)
    bias_forces(r)


_inertia = Algorithm("operational_space_inertia", inertia_kernel, (Q, ROWS), (OSIM,),
                     options=(CONTACTS,), coupled=projected_inertia_kernel).caller()
_inverse = Algorithm("dynamically_consistent_inverse", inverse_kernel, (Q, ROWS), (JBAR,),
                     leaves=(OSIM,), options=(CONTACTS,),
                     coupled=projected_inverse_kernel).caller()
_projector = Algorithm("null_space_projector", inverse_kernel, (Q, ROWS), (PROJECTOR,),
                       leaves=(OSIM, JBAR), options=(CONTACTS,),
                       coupled=projected_inverse_kernel).caller()
_bias = Algorithm("operational_space_bias", bias_kernel, (Q, V, ROWS), (MU, P),
                  leaves=(OSIM, JBAR), options=(CONTACTS,),
                  coupled=projected_bias_kernel).caller()


def _table(model: Model, data: Data, frame: str | int, reference_frame: ReferenceFrame | int,
           dimension: Dimension, damping: float) -> ContactTable:
    """The table of the frame as a contact, found in ``Data`` or created."""
    try:
        if data.model is model:                     # otherwise the call reports it
            return data._tables[frame, reference_frame, dimension, damping]
    except (AttributeError, KeyError, TypeError):
        pass
    moving_index(require_model(model), "frame", frame)
    contact = Contact(frame, dimension, reference_frame)
    table = contact_table(model, data, (contact,), damping)
    if getattr(data, "model", None) is model:
        data._tables[frame, reference_frame, dimension, damping] = table
    return table


def operational_space_inertia(model: Model, data: Data, q: ArrayLike, frame: str | int,
                              reference_frame: ReferenceFrame | int,
                              dimension: Dimension = 6, damping: float = 0.0, *,
                              threads: int = 1) -> Array:
    """Operational-space inertia Lambda of a frame, (J M^-1 J')^-1.

    The apparent inertia at the frame while all joints are free: Khatib (1987); by elimination along
    the tree, O(n + d). At a singularity the pseudoinverse, in which the lost
    directions are 0.

    Parameters
    ----------
    model : Model
    data : Data
        Created for this model. Holds the result until the next call.
    q : (nq,) or (B, nq) array_like
        Configuration [rad, m].
    frame : str or int
        Name or index of a frame that a joint moves: link, joint or fixed joint.
    reference_frame : ReferenceFrame
        The axes, and the reference point, as for ``frame_jacobian``.
    dimension : 6 or 3
        The pose, or the position of the frame's origin.
    damping : float
        Added to the diagonal of J M^-1 J', 0 or more, to avoid large numbers near singularities.
    threads : int
        Number of threads for a batch.

    Returns
    -------
    (dimension, dimension) ndarray
        [kg, kg m, kg m2]. For a single state, ``data.osim``;
        for a batch, a new array with a leading batch axis.

    Raises
    ------
    ValueError
        An invalid array, frame or setting; names it, the expected and the actual value.
    numpy.linalg.LinAlgError
        The inertia matrix is singular; names the first joint from the tips that moves no inertia.

    Examples
    --------
    >>> Lambda = dyn_ros.operational_space_inertia(
    ...     model, data, q, "tool", ReferenceFrame.LOCAL_WORLD_ALIGNED, dimension=3).copy()
    >>> J = dyn_ros.frame_jacobian(model, data, q, "tool", ReferenceFrame.LOCAL_WORLD_ALIGNED)[:3]
    >>> np.allclose(Lambda @ (J @ dyn_ros.minverse(model, data, q) @ J.T), np.eye(3))
    True
    """
    table = _table(model, data, frame, reference_frame, dimension, damping)
    return _inertia(model, data, threads, table, q, table.zeros)


def dynamically_consistent_inverse(model: Model, data: Data, q: ArrayLike, frame: str | int,
                                   reference_frame: ReferenceFrame | int,
                                   dimension: Dimension = 6, damping: float = 0.0, *,
                                   threads: int = 1) -> Array:
    """Dynamically consistent inverse of a frame's Jacobian, M^-1 J' Lambda.

    Of all v with J v = x', it finds that of least kinetic energy: Khatib (1987). Its transpose maps
    torques to the force at the frame. O(n^3). Also computes ``data.osim``.

    Parameters
    ----------
    model : Model
    data : Data
        Created for this model. Holds the result until the next call.
    q : (nq,) or (B, nq) array_like
        Configuration [rad, m].
    frame : str or int
        Name or index of a frame that a joint moves: link, joint or fixed joint.
    reference_frame : ReferenceFrame
        The axes, and the reference point, as for ``frame_jacobian``.
    dimension : 6 or 3
        The pose, or the position of the frame's origin.
    damping : float
        Added to the diagonal of J M^-1 J', 0 or more, to avoid large numbers near singularities.
    threads : int
        Number of threads for a batch.

    Returns
    -------
    (nv, dimension) ndarray
        Jbar. For a single state, ``data.dynamically_consistent_inverse``;
        for a batch, a new array with a leading batch axis.

    Raises
    ------
    ValueError
        An invalid array, frame or setting; names it, the expected and the actual value.
    numpy.linalg.LinAlgError
        The inertia matrix is singular; names the first joint from the tips that moves no inertia.

    Examples
    --------
    >>> Jbar = dyn_ros.dynamically_consistent_inverse(
    ...     model, data, q, "tool", ReferenceFrame.LOCAL).copy()
    >>> J = dyn_ros.frame_jacobian(model, data, q, "tool", ReferenceFrame.LOCAL)
    >>> np.allclose(J @ Jbar, np.eye(6))
    True
    """
    table = _table(model, data, frame, reference_frame, dimension, damping)
    return _inverse(model, data, threads, table, q, table.zeros)


def null_space_projector(model: Model, data: Data, q: ArrayLike, frame: str | int,
                         reference_frame: ReferenceFrame | int,
                         dimension: Dimension = 6, damping: float = 0.0, *,
                         threads: int = 1) -> Array:
    """Projector of torques that do not accelerate a frame, I - J' Jbar'.

    Khatib (1987). Its transpose projects velocities that do not move the frame. O(n^3). Also
    computes ``data.osim`` and ``data.dynamically_consistent_inverse``.

    Parameters
    ----------
    model : Model
    data : Data
        Created for this model. Holds the result until the next call.
    q : (nq,) or (B, nq) array_like
        Configuration [rad, m].
    frame : str or int
        Name or index of a frame that a joint moves: link, joint or fixed joint.
    reference_frame : ReferenceFrame
        The axes, and the reference point, as for ``frame_jacobian``.
    dimension : 6 or 3
        The pose, or the position of the frame's origin.
    damping : float
        Added to the diagonal of J M^-1 J', 0 or more, to avoid large numbers near singularities.
    threads : int
        Number of threads for a batch.

    Returns
    -------
    (nv, nv) ndarray
        The matrix N in tau = J' f + N tau_0. For a single state, ``data.null_space_projector``;
        for a batch, a new array with a leading batch axis.

    Raises
    ------
    ValueError
        An invalid array, frame or setting; names it, the expected and the actual value.
    numpy.linalg.LinAlgError
        The inertia matrix is singular; names the first joint from the tips that moves no inertia.

    Examples
    --------
    Torques that move the elbow and leave the tool alone:

    >>> N = dyn_ros.null_space_projector(model, data, q, "tool", ReferenceFrame.LOCAL).copy()
    >>> J = dyn_ros.frame_jacobian(model, data, q, "tool", ReferenceFrame.LOCAL)
    >>> np.allclose(J @ dyn_ros.minverse(model, data, q) @ N @ tau, 0.0)
    True
    """
    table = _table(model, data, frame, reference_frame, dimension, damping)
    return _projector(model, data, threads, table, q, table.zeros)


def operational_space_bias(model: Model, data: Data, q: ArrayLike, v: ArrayLike, frame: str | int,
                           reference_frame: ReferenceFrame | int,
                           dimension: Dimension = 6, damping: float = 0.0, *,
                           threads: int = 1) -> tuple[Array, Array]:
    """Coriolis and gravity forces at a frame, mu and p.

    Khatib (1987), Lambda x'' + mu + p = f, with x'' the time derivative of J v: spatial in LOCAL
    and WORLD, classical in LOCAL_WORLD_ALIGNED. O(n^3). Also computes ``data.osim`` and
    ``data.dynamically_consistent_inverse``.

    Parameters
    ----------
    model : Model
    data : Data
        Created for this model. Holds the result until the next call.
    q : (nq,) or (B, nq) array_like
        Configuration [rad, m].
    v : (nv,) or (B, nv) array_like
        Velocity [rad/s, m/s]; for floating and planar joints expressed in the joint frame.
    frame : str or int
        Name or index of a frame that a joint moves: link, joint or fixed joint.
    reference_frame : ReferenceFrame
        The axes, and the reference point, as for ``frame_jacobian``.
    dimension : 6 or 3
        The pose, or the position of the frame's origin.
    damping : float
        Added to the diagonal of J M^-1 J', 0 or more, to avoid large numbers near singularities.
    threads : int
        Number of threads for a batch.

    Returns
    -------
    mu : (dimension,) ndarray
        Lambda (J M^-1 C v - dJ/dt v) [N, N m].
    p : (dimension,) ndarray
        Lambda J M^-1 g [N, N m].
        For a single state, ``data.operational_coriolis`` and ``data.operational_gravity``; for a
        batch, new arrays with a leading batch axis.

    Raises
    ------
    ValueError
        An invalid array, frame or setting; names it, the expected and the actual value.
    numpy.linalg.LinAlgError
        The inertia matrix is singular; names the first joint from the tips that moves no inertia.

    Examples
    --------
    A force that makes the tool accelerate by ``wanted`` in spite of gravity and motion:

    >>> axes, wanted = ReferenceFrame.LOCAL_WORLD_ALIGNED, np.array([0.0, 0.0, 1.0, 0.0, 0.0, 0.0])
    >>> mu, p = dyn_ros.operational_space_bias(model, data, q, v, "tool", axes)
    >>> force = data.osim @ wanted + mu + p
    >>> J = dyn_ros.frame_jacobian(model, data, q, "tool", axes).copy()
    >>> ddq = dyn_ros.aba(model, data, q, v, J.T @ force).copy()
    >>> dJ = dyn_ros.frame_jacobian_time_variation(model, data, q, v, "tool", axes)
    >>> np.allclose(J @ ddq + dJ @ v, wanted)
    True
    """
    table = _table(model, data, frame, reference_frame, dimension, damping)
    return _bias(model, data, threads, table, q, v, table.zeros)
