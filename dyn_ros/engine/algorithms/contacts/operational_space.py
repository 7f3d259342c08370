# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Operational space: the dynamics of a frame, treated as a contact."""

from __future__ import annotations

from ...call.algorithm import algorithm
from ...call.caller import BatchOptions
from ...call.data import Data
from ...kernel.types import Array, ArrayLike, OutArrays
from ...kernel.validation import require_model
from ...kernel.vocabulary import *
from ...model.frames import ReferenceFrame
from ...model.model import Model
from ..constrained import constraint_forces as cf
from ..constrained.constraints import moving_index
from ..constrained.products import transpose_times
from ..constrained.semidefinite import WIDTH
from ..dynamics.aba import LINK_ACCELERATION, eliminate_joints, outward_velocities
from ..dynamics.cholesky import factor_inertia_matrix
from ..dynamics.crba import crba_kernel
from ..dynamics.minverse import MINV, invert_after_elimination, invert_after_factor
from ..dynamics.rnea import NLE, G, generalized_gravity_kernel, nonlinear_effects_kernel
from . import contact_rows, contacts, delassus
from . import packed_contacts as packed

OSIM = field(
    "osim",
    ("constraints", "constraints"),
    "Operational-space inertia of one frame [kg, kg m, kg m2].",
)
JBAR = field(
    "dynamically_consistent_inverse",
    ("nv", "constraints"),
    "Inverse Jbar of the Jacobian of one frame, which weighs with M.",
)
PROJECTOR = field(
    "null_space_projector",
    ("nv", "nv"),
    "Projector N of torques that do not accelerate one frame, in tau = J' f + N tau_0.",
)
OPERATIONAL_CORIOLIS = field(
    "operational_coriolis",
    ("constraints",),
    "Coriolis and centrifugal forces at one frame, mu = Lambda (J M^-1 C v - dJ/dt v) [N, N m].",
)
OPERATIONAL_GRAVITY = field(
    "operational_gravity",
    ("constraints",),
    "Gravity forces at one frame, p = Lambda J M^-1 g [N, N m].",
)
FRAME_RESPONSE = field("_frame_response", ("nv", "constraints"))  # W = M^-1 J'


# --- Lambda


@kernel
def compute_operational_inertia(r):
    """Compute the operational-space inertia, Lambda = (J M^-1 J' + mu I)^-1.

    Reads CONTACT_POINTS; writes OSIM; calls compute_contact_coupling, invert_coupling.
    """
    contact_rows.compute_contact_coupling(r)
    delassus.add_damping(r)
    delassus.invert_coupling(r, OSIM)
    delassus.move_matrix_to_origin(r, contact_rows.MOMENT_ROWS, OSIM)


# --- the Jacobian and its inverse


@kernel
def compute_frame_jacobian(r):
    """Compute J, and set the constraint residual to dJ v, the bias of the frame's acceleration.

        b_k = f_k . c                       spatial
        b_k = f_k . (c + (w x v, 0))        classical, in LOCAL_WORLD_ALIGNED

    Reads BODY_VELOCITY; writes LINK_ACCELERATION, CONTACT_JACOBIAN; calls place_contact,
    propagate_contact.
    """
    cf.clear_jacobian(r)
    clear_entries(r, cf.CONSTRAINT_RESIDUAL, nconstraints(r))
    clear_motion(r, LINK_ACCELERATION, 0)
    contact_rows.place_contact(r, 0)
    contact_rows.propagate_contact(r, 0, with_bias=True)
    delassus.store_jacobian(r, delassus.CONTACT_JACOBIAN)
    v = contact_rows.contact_velocities(r, 0).first
    if packed.reference_frame(r, 0) != contact_rows.LOCAL and not packed.is_at_origin(r, 0):
        a = Motion(cross(v.angular, v.linear), zero3(v.linear[0]))
        for k in range(nconstraints(r)):
            add_to_entry(r, cf.CONSTRAINT_RESIDUAL, k, power(contact_rows.row_force(r, 0, k), a))


@kernel
def compute_consistent_inverse(r):
    """Compute Lambda and Jbar, after ``compute_frame_jacobian`` and the inverse of M.

        W = M^-1 J'
        Lambda = (J W + mu I)^-1
        Jbar = W Lambda

    Reads MINV, JACOBIAN_TRANSPOSE; writes FACTOR, FACTOR_INVERSE, INVERSE_PIVOTS, RIGHT_SIDE,
    TRACE_WEIGHTS, COUPLING, PADDED_MATRIX, OSIM, JBAR, FRAME_RESPONSE.
    """
    n, m = nv(r), nconstraints(r)
    J_transpose = matrix_of_width(r, cf.JACOBIAN_TRANSPOSE, WIDTH)
    W, G = matrix_of_width(r, FRAME_RESPONSE, m), matrix_of_width(r, cf.COUPLING, WIDTH)
    transpose_times(r, W, 1.0, matrix(r, MINV), J_transpose, n, n, m)  # M^-1 is its transpose
    transpose_times(r, G, 1.0, J_transpose, W, m, n, m)
    delassus.add_damping(r)
    delassus.invert_coupling(r, OSIM)
    Lambda = matrix_of_width(r, delassus.PADDED_MATRIX, WIDTH)
    for j in range(n):  # row j of Jbar; row j of W is passed as a column
        w = matrix_row(r, FRAME_RESPONSE, j, m, 1)
        transpose_times(r, matrix_row(r, JBAR, j, 1, m), 1.0, w, Lambda, 1, m, m)


@kernel
def compute_projector(r):
    """Compute the projector N = I - J' Jbar'. Reads CONTACT_JACOBIAN, JBAR; writes PROJECTOR."""
    n, m = nv(r), nconstraints(r)
    N, J = matrix(r, PROJECTOR), matrix(r, delassus.CONTACT_JACOBIAN)
    Jbar = matrix_of_width(r, JBAR, m)
    clear_entries(r, PROJECTOR, n * n)
    for k in range(n):
        add_to_element(r, N, k, k, 1.0)
        for i in range(m):
            x = element(r, J, i, k)
            for j in range(n):
                add_to_element(r, N, k, j, -x * element(r, Jbar, j, i))


@kernel
def project_bias_forces(r):
    """Project the bias forces of the joints to the frame.

        mu = Jbar' (nle - g) - Lambda dJ v,  p = Jbar' g            Khatib (1987)

    Reads NLE, G, CONSTRAINT_RESIDUAL, OSIM, JBAR; writes OPERATIONAL_CORIOLIS, OPERATIONAL_GRAVITY.
    """
    n, m = nv(r), nconstraints(r)
    Lambda, Jbar = matrix_of_width(r, OSIM, m), matrix_of_width(r, JBAR, m)
    for k in range(m):
        mu = lift(0.0, entry(r, OSIM, 0))
        p = mu
        for i in range(m):
            mu = mu - element(r, Lambda, k, i) * entry(r, cf.CONSTRAINT_RESIDUAL, i)
        for j in range(n):
            x, g = element(r, Jbar, j, k), entry(r, G, j)
            mu = mu + x * (entry(r, NLE, j) - g)
            p = p + x * g
        set_entry(r, OPERATIONAL_CORIOLIS, k, mu)
        set_entry(r, OPERATIONAL_GRAVITY, k, p)


@kernel
def invert_inertia_matrix(r):
    """Compute M^-1 by elimination along the tree.

    Reads Q, F_EXT; writes V, MINV; calls outward_velocities, eliminate_joints,
    invert_after_elimination.
    """
    zero_unless_input(r, V)
    outward_velocities(r)
    eliminate_joints(r)
    invert_after_elimination(r)


@kernel
def invert_inertia_matrix_with_mimic(r):
    """Compute M^-1 from the factor of M, if there are mimic joints.

    Reads Q, F_EXT; writes V, M, MINV; calls crba_kernel, factor_inertia_matrix,
    invert_after_factor, outward_velocities.
    """
    zero_unless_input(r, V)
    crba_kernel(r)
    factor_inertia_matrix(r)
    invert_after_factor(r)
    outward_velocities(r)


@subroutine
def compute_frame_inverses(r):
    """Compute J, Lambda, Jbar and the projector N, after the inverse of M.

    Writes LINK_ACCELERATION, CONTACT_JACOBIAN, OSIM, JBAR, PROJECTOR; calls compute_frame_jacobian,
    compute_consistent_inverse, compute_projector.
    """
    compute_frame_jacobian(r)
    compute_consistent_inverse(r)
    compute_projector(r)


@kernel
def move_inverse_to_origin(r):
    """Move Lambda and Jbar of a frame in WORLD to the world's origin.

        Lambda = X Lambda X',  Jbar = Jbar X'

    Reads CONTACT_POINTS; writes OSIM, JBAR.
    """
    delassus.move_matrix_to_origin(r, contact_rows.MOMENT_ROWS, OSIM)
    Jbar = matrix_of_width(r, JBAR, nconstraints(r))
    for j in range(nv(r)):
        contact_rows.move_column_to_origin(r, contact_rows.MOMENT_ROWS, matrix_transpose(Jbar), j)


@kernel
def compute_bias_forces(r):
    """Compute mu and p after ``compute_frame_inverses``; move all results to the world's origin.

    Reads Q, V, A, F_EXT; writes LIMI, JOINT_V, JOINT_A, JOINT_F, NLE, G, OSIM, JBAR,
    OPERATIONAL_CORIOLIS, OPERATIONAL_GRAVITY; calls nonlinear_effects_kernel,
    generalized_gravity_kernel, project_bias_forces, move_inverse_to_origin.
    """
    nonlinear_effects_kernel(r)
    generalized_gravity_kernel(r)
    project_bias_forces(r)
    move_inverse_to_origin(r)
    contact_rows.move_entries_to_origin(r, contact_rows.MOMENT_ROWS, OPERATIONAL_CORIOLIS)
    contact_rows.move_entries_to_origin(r, contact_rows.MOMENT_ROWS, OPERATIONAL_GRAVITY)


_inverse_kernel = sequence(invert_inertia_matrix, compute_frame_inverses, move_inverse_to_origin)
_mimic_inverse_kernel = sequence(
    invert_inertia_matrix_with_mimic, compute_frame_inverses, move_inverse_to_origin
)


def _pack_frame(
    model: Model,
    data: Data,
    frame: str | int,
    reference_frame: ReferenceFrame | int,
    dimension: contacts.Dimension,
    damping: float,
) -> packed.PackedContacts:
    """Return the frame as a packed contact, found in ``Data`` or created."""
    try:
        if data.model is model:  # otherwise the call reports it
            return data._packed_constraints[frame, reference_frame, dimension, damping]
    except (AttributeError, KeyError, TypeError):
        pass
    moving_index(require_model(model), "frame", frame)
    contact = contacts.Contact(frame, dimension, reference_frame)
    packed_contacts = packed.pack_contacts(model, data, (contact,), damping)
    if getattr(data, "model", None) is model:
        data._packed_constraints[frame, reference_frame, dimension, damping] = packed_contacts
    return packed_contacts


@algorithm(
    sequence(delassus.eliminate_contacts, compute_operational_inertia),
    inputs=(Q, packed.CONTACT_ROWS),
    results=(OSIM,),
    options=(packed.CONTACTS,),
    mimic_kernel=sequence(delassus.eliminate_contacts_with_mimic, compute_operational_inertia),
    needs_double=True,
)
def operational_space_inertia(
    model: Model,
    data: Data,
    q: ArrayLike,
    frame: str | int,
    reference_frame: ReferenceFrame | int,
    dimension: contacts.Dimension = 6,
    damping: float = 0.0,
    *,
    threads: int = 1,
    out: OutArrays | None = None,
) -> Array:
    """Compute the operational-space inertia Lambda of a frame, (J M^-1 J')^-1.

    The apparent inertia at the frame while all joints are free: Khatib (1987); by elimination along
    the tree, O(n). At a singularity the pseudoinverse, in which the lost directions are 0.

    Examples
    --------
    >>> Lambda = dyn_ros.operational_space_inertia(
    ...     model, data, q, "tool", ReferenceFrame.LOCAL_WORLD_ALIGNED, dimension=3).copy()
    >>> J = dyn_ros.frame_jacobian(model, data, q, "tool", ReferenceFrame.LOCAL_WORLD_ALIGNED)[:3]
    >>> np.allclose(Lambda @ (J @ dyn_ros.minverse(model, data, q) @ J.T), np.eye(3))
    True
    """
    packed_contacts = _pack_frame(model, data, frame, reference_frame, dimension, damping)
    return operational_space_inertia.call(
        model,
        data,
        threads if out is None else BatchOptions(threads, out),
        packed_contacts,
        q,
        packed_contacts.zeros,
    )


@algorithm(
    _inverse_kernel,
    inputs=(Q, packed.CONTACT_ROWS),
    results=(JBAR,),
    also_writes=(OSIM,),
    options=(packed.CONTACTS,),
    mimic_kernel=_mimic_inverse_kernel,
    needs_double=True,
)
def dynamically_consistent_inverse(
    model: Model,
    data: Data,
    q: ArrayLike,
    frame: str | int,
    reference_frame: ReferenceFrame | int,
    dimension: contacts.Dimension = 6,
    damping: float = 0.0,
    *,
    threads: int = 1,
    out: OutArrays | None = None,
) -> Array:
    """Compute the dynamically consistent inverse of a frame's Jacobian, M^-1 J' Lambda.

    Of all v with J v = x', it finds the one of least kinetic energy: Khatib (1987). Its transpose
    maps torques to the force at the frame. O(n^3).

    Examples
    --------
    >>> Jbar = dyn_ros.dynamically_consistent_inverse(
    ...     model, data, q, "tool", ReferenceFrame.LOCAL).copy()
    >>> J = dyn_ros.frame_jacobian(model, data, q, "tool", ReferenceFrame.LOCAL)
    >>> np.allclose(J @ Jbar, np.eye(6))
    True
    """
    packed_contacts = _pack_frame(model, data, frame, reference_frame, dimension, damping)
    return dynamically_consistent_inverse.call(
        model,
        data,
        threads if out is None else BatchOptions(threads, out),
        packed_contacts,
        q,
        packed_contacts.zeros,
    )


@algorithm(
    _inverse_kernel,
    inputs=(Q, packed.CONTACT_ROWS),
    results=(PROJECTOR,),
    also_writes=(OSIM, JBAR),
    options=(packed.CONTACTS,),
    mimic_kernel=_mimic_inverse_kernel,
    needs_double=True,
)
def null_space_projector(
    model: Model,
    data: Data,
    q: ArrayLike,
    frame: str | int,
    reference_frame: ReferenceFrame | int,
    dimension: contacts.Dimension = 6,
    damping: float = 0.0,
    *,
    threads: int = 1,
    out: OutArrays | None = None,
) -> Array:
    """Compute the projector onto torques that do not accelerate a frame, I - J' Jbar'.

    Khatib (1987). Its transpose projects velocities that do not move the frame. O(n^3).

    Examples
    --------
    Torques that move the elbow and leave the tool alone:

    >>> N = dyn_ros.null_space_projector(model, data, q, "tool", ReferenceFrame.LOCAL).copy()
    >>> J = dyn_ros.frame_jacobian(model, data, q, "tool", ReferenceFrame.LOCAL)
    >>> np.allclose(J @ dyn_ros.minverse(model, data, q) @ N @ tau, 0.0)
    True
    """
    packed_contacts = _pack_frame(model, data, frame, reference_frame, dimension, damping)
    return null_space_projector.call(
        model,
        data,
        threads if out is None else BatchOptions(threads, out),
        packed_contacts,
        q,
        packed_contacts.zeros,
    )


@algorithm(
    sequence(invert_inertia_matrix, compute_frame_inverses, compute_bias_forces),
    inputs=(Q, V, packed.CONTACT_ROWS),
    results=(OPERATIONAL_CORIOLIS, OPERATIONAL_GRAVITY),
    also_writes=(OSIM, JBAR),
    options=(packed.CONTACTS,),
    mimic_kernel=sequence(
        invert_inertia_matrix_with_mimic, compute_frame_inverses, compute_bias_forces
    ),
    needs_double=True,
)
def operational_space_bias(
    model: Model,
    data: Data,
    q: ArrayLike,
    v: ArrayLike,
    frame: str | int,
    reference_frame: ReferenceFrame | int,
    dimension: contacts.Dimension = 6,
    damping: float = 0.0,
    *,
    threads: int = 1,
    out: OutArrays | None = None,
) -> tuple[Array, Array]:
    """Compute the Coriolis and gravity forces at a frame, mu and p.

    Khatib (1987), Lambda x'' + mu + p = f, with x'' the time derivative of J v: spatial in LOCAL
    and WORLD, classical in LOCAL_WORLD_ALIGNED. O(n^3).

    Examples
    --------
    A force that makes the tool accelerate by ``a`` in spite of gravity and motion:

    >>> axes, a = ReferenceFrame.LOCAL_WORLD_ALIGNED, np.array([0.0, 0.0, 1.0, 0.0, 0.0, 0.0])
    >>> mu, p = dyn_ros.operational_space_bias(model, data, q, v, "tool", axes)
    >>> force = data.osim @ a + mu + p
    >>> J = dyn_ros.frame_jacobian(model, data, q, "tool", axes).copy()
    >>> ddq = dyn_ros.aba(model, data, q, v, J.T @ force).copy()
    >>> dJ = dyn_ros.frame_jacobian_time_variation(model, data, q, v, "tool", axes)
    >>> np.allclose(J @ ddq + dJ @ v, a)
    True
    """
    packed_contacts = _pack_frame(model, data, frame, reference_frame, dimension, damping)
    return operational_space_bias.call(
        model,
        data,
        threads if out is None else BatchOptions(threads, out),
        packed_contacts,
        q,
        v,
        packed_contacts.zeros,
    )
