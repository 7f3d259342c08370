# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The Jacobian of contacts, the Delassus matrix J M^-1 J', its inverse and its factor."""

from __future__ import annotations

from collections.abc import Sequence

from ...call.algorithm import algorithm
from ...call.caller import BatchOptions
from ...call.data import Data
from ...kernel.types import Array, ArrayLike, OutArrays
from ...kernel.vocabulary import *
from ...model.model import Model
from ..constrained import constraint_forces as cf
from ..constrained.semidefinite import factor_cholesky, invert_semidefinite
from ..dynamics.aba import eliminate_joints
from ..dynamics.cholesky import factor_inertia_matrix
from ..dynamics.crba import crba_kernel, place_bodies
from .contact_rows import (
    LINEAR_ROWS,
    MOMENT_ROWS,
    compute_contact_coupling,
    move_column_to_origin,
    propagate_contacts,
)
from .contacts import Contact
from .force_system import EIGENVALUE_TOLERANCE
from .packed_contacts import CONTACT_ROWS, CONTACTS, any_at_origin, contact_damping, pack_contacts

CONTACT_JACOBIAN = field(
    "contact_jacobian",
    ("constraints", "nv"),
    "Jacobian of contacts: the rows (linear, angular) of one contact after "
    "the other, in its axes [m, rad per rad, m]; mimic joints contribute to "
    "the columns of their masters.",
)
DELASSUS = field(
    "delassus",
    ("constraints", "constraints"),
    "J M^-1 J' of contacts and the damping, in the axes of each contact [1/kg, 1/(kg m2)].",
)
DELASSUS_INVERSE = field(
    "delassus_inverse",
    ("constraints", "constraints"),
    "Inverse of J M^-1 J' and the damping, in the axes of each contact [kg, kg m2].",
)
DELASSUS_CHOLESKY = field(
    "delassus_cholesky",
    ("constraints", "constraints"),
    "Lower triangular Cholesky factor of J M^-1 J' and the damping.",
)
PADDED_MATRIX = field("_padded_matrix", (MAX_CONSTRAINTS, cf.WIDTH))  # an inverse or a factor


@kernel
def store_jacobian(r, target):
    """Set a field to J, whose transpose ``propagate_contacts`` has computed.

    Reads JACOBIAN_TRANSPOSE; writes target.
    """
    J, J_transpose = matrix(r, target), matrix_of_width(r, cf.JACOBIAN_TRANSPOSE, cf.WIDTH)
    for k in range(nconstraints(r)):
        for j in range(nv(r)):
            set_element(r, J, k, j, element(r, J_transpose, j, k))


@kernel
def contact_jacobian_kernel(r):
    """Compute the Jacobian of contacts, J.

    Reads Q; writes CONTACT_JACOBIAN; calls place_bodies, propagate_contacts.
    """
    place_bodies(r)
    propagate_contacts(r, with_elimination=False, with_bias=False)
    store_jacobian(r, CONTACT_JACOBIAN)
    for j in range(nv(r)):
        move_column_to_origin(r, LINEAR_ROWS, matrix(r, CONTACT_JACOBIAN), j)


@kernel
def eliminate_contacts(r):
    """Compute D and L^-T J' at rest by elimination along the tree.

        M = L' D L

    Reads Q; calls place_bodies, eliminate_joints, propagate_contacts.
    """
    place_bodies(r)
    eliminate_joints(r)
    propagate_contacts(r, with_elimination=True, with_bias=False)


@kernel
def eliminate_contacts_with_mimic(r):
    """Compute D and L^-T J' from the factor of M, if there are mimic joints.

        M = L' D L

    Reads Q; writes M, DINV; calls crba_kernel, factor_inertia_matrix, propagate_contacts,
    eliminate_jacobian.
    """
    crba_kernel(r)
    factor_inertia_matrix(r)
    cf.store_pivots(r)
    propagate_contacts(r, with_elimination=False, with_bias=False)
    cf.eliminate_jacobian(r)


@kernel
def copy_matrix(r, source, target):
    """Copy an m x m matrix. Reads source; writes target."""
    m = nconstraints(r)
    for k in range(m):
        for i in range(0, m, simd_width(r.work)):
            set_elements(r, target, k, i, m - i, elements(r, source, k, i, m - i))


@kernel
def remove_padding(r, source, target):
    """Copy an m x m matrix to a field without padding of its rows. Reads source; writes target."""
    copy_matrix(
        r,
        matrix_of_width(r, source, cf.WIDTH),
        matrix_of_width(r, target, nconstraints(r)),
    )


@kernel
def move_matrix_to_origin(r, dependent_rows, target):
    """Move the columns and rows of an m x m matrix in a field to the world's origin, in WORLD.

        A = X A X'

    Reads CONTACT_POINTS; writes target.
    """
    m = nconstraints(r)
    A = matrix_of_width(r, target, m)
    if any_at_origin(r):
        for k in range(m):
            move_column_to_origin(r, dependent_rows, A, k)
        for k in range(m):
            move_column_to_origin(r, dependent_rows, matrix_transpose(A), k)


@kernel
def add_damping(r):
    """Add the damping to the diagonal, G = J M^-1 J' + mu I. Writes COUPLING."""
    G = matrix_of_width(r, cf.COUPLING, cf.WIDTH)
    for k in range(nconstraints(r)):
        add_to_element(r, G, k, k, contact_damping(r))


@kernel
def compute_delassus(r):
    """Compute the Delassus matrix with the damping, after ``eliminate_contacts``.

        G = (L^-T J')' D^-1 (L^-T J') + mu I

    Reads FROM_PARENT, COLUMNS, DINV, JACOBIAN_TRANSPOSE, FORCE_ARMS, CONTACT_POINTS; writes
    SCALED_JACOBIAN, COUPLING, DELASSUS.
    """
    compute_contact_coupling(r)
    add_damping(r)
    remove_padding(r, cf.COUPLING, DELASSUS)
    move_matrix_to_origin(r, LINEAR_ROWS, DELASSUS)


@kernel
def invert_coupling(r, target):
    """Set a field to (J M^-1 J' + mu I)^-1, or to the pseudoinverse, after ``add_damping``.

    Reads COUPLING; writes FACTOR, FACTOR_INVERSE, INVERSE_PIVOTS, RIGHT_SIDE, TRACE_WEIGHTS,
    PADDED_MATRIX, target.
    """
    invert_semidefinite(r, nconstraints(r), cf.COUPLING, 0.0, EIGENVALUE_TOLERANCE, PADDED_MATRIX)
    remove_padding(r, PADDED_MATRIX, target)


@kernel
def invert_delassus(r):
    """Compute the inverse of the Delassus matrix, (J M^-1 J' + mu I)^-1.

    Writes DELASSUS, DELASSUS_INVERSE; calls compute_delassus, invert_coupling.
    """
    compute_delassus(r)
    invert_coupling(r, DELASSUS_INVERSE)
    move_matrix_to_origin(r, MOMENT_ROWS, DELASSUS_INVERSE)


@kernel
def factor_delassus(r):
    """Compute the Cholesky factor of the Delassus matrix, L L' = J M^-1 J' + mu I.

    Reads FROM_PARENT, COLUMNS, DINV, JACOBIAN_TRANSPOSE, FORCE_ARMS, CONTACT_POINTS; writes
    SCALED_JACOBIAN, COUPLING, DELASSUS, DELASSUS_CHOLESKY, PADDED_MATRIX.
    """
    compute_delassus(r)
    m = nconstraints(r)
    copy_matrix(r, matrix_of_width(r, DELASSUS, m), matrix_of_width(r, cf.COUPLING, cf.WIDTH))
    factor_cholesky(r, m, cf.COUPLING, PADDED_MATRIX, EIGENVALUE_TOLERANCE)
    remove_padding(r, PADDED_MATRIX, DELASSUS_CHOLESKY)


@algorithm(
    contact_jacobian_kernel,
    inputs=(Q, CONTACT_ROWS),
    results=(CONTACT_JACOBIAN,),
    options=(CONTACTS,),
    needs_double=True,
)
def contact_jacobian(
    model: Model,
    data: Data,
    q: ArrayLike,
    contacts: Sequence[Contact],
    *,
    threads: int = 1,
    out: OutArrays | None = None,
) -> Array:
    """Compute the Jacobian J of contacts; J v is the velocity of each c1 relative to c2.

    Featherstone (2008), section 4.1; O(m d) for m rows and a tree of depth d.

    Examples
    --------
    >>> J = dyn_ros.contact_jacobian(walker, walker_data, stand, feet)
    >>> J.shape
    (12, 18)
    """
    packed_contacts = pack_contacts(model, data, contacts)
    return contact_jacobian.call(
        model,
        data,
        threads if out is None else BatchOptions(threads, out),
        packed_contacts,
        q,
        packed_contacts.zeros,
    )


@algorithm(
    sequence(eliminate_contacts, compute_delassus),
    inputs=(Q, CONTACT_ROWS),
    results=(DELASSUS,),
    options=(CONTACTS,),
    mimic_kernel=sequence(eliminate_contacts_with_mimic, compute_delassus),
    needs_double=True,
)
def delassus_matrix(
    model: Model,
    data: Data,
    q: ArrayLike,
    contacts: Sequence[Contact],
    damping: float = 0.0,
    *,
    threads: int = 1,
    out: OutArrays | None = None,
) -> Array:
    """Compute the Delassus matrix J M^-1 J': accelerations of contacts per contact force.

    By elimination along the tree, O(n + m^2 d) for m rows and a tree of depth d; Featherstone
    (2010). Includes ``model.armature``. Pinocchio's ``computeDelassusMatrix`` is always in LOCAL,
    and leaves out the second body.

    Examples
    --------
    >>> G = dyn_ros.delassus_matrix(walker, walker_data, stand, feet).copy()
    >>> J = dyn_ros.contact_jacobian(walker, walker_data, stand, feet)
    >>> np.allclose(G, J @ dyn_ros.minverse(walker, walker_data, stand) @ J.T)
    True
    """
    packed_contacts = pack_contacts(model, data, contacts, damping)
    return delassus_matrix.call(
        model,
        data,
        threads if out is None else BatchOptions(threads, out),
        packed_contacts,
        q,
        packed_contacts.zeros,
    )


@algorithm(
    sequence(eliminate_contacts, invert_delassus),
    inputs=(Q, CONTACT_ROWS),
    results=(DELASSUS_INVERSE,),
    also_writes=(DELASSUS,),
    options=(CONTACTS,),
    mimic_kernel=sequence(eliminate_contacts_with_mimic, invert_delassus),
    needs_double=True,
)
def delassus_inverse(
    model: Model,
    data: Data,
    q: ArrayLike,
    contacts: Sequence[Contact],
    damping: float = 0.0,
    *,
    threads: int = 1,
    out: OutArrays | None = None,
) -> Array:
    """Compute the inverse of the Delassus matrix: the inertia at the contacts.

    If contacts depend on each other and the damping is 0, the pseudoinverse.

    Examples
    --------
    >>> inverse = dyn_ros.delassus_inverse(walker, walker_data, stand, feet)
    >>> np.allclose(inverse @ walker_data.delassus, np.eye(12))
    True
    """
    packed_contacts = pack_contacts(model, data, contacts, damping)
    return delassus_inverse.call(
        model,
        data,
        threads if out is None else BatchOptions(threads, out),
        packed_contacts,
        q,
        packed_contacts.zeros,
    )


@algorithm(
    sequence(eliminate_contacts, factor_delassus),
    inputs=(Q, CONTACT_ROWS),
    results=(DELASSUS_CHOLESKY,),
    also_writes=(DELASSUS,),
    options=(CONTACTS,),
    mimic_kernel=sequence(eliminate_contacts_with_mimic, factor_delassus),
    needs_double=True,
)
def delassus_cholesky(
    model: Model,
    data: Data,
    q: ArrayLike,
    contacts: Sequence[Contact],
    damping: float = 0.0,
    *,
    threads: int = 1,
    out: OutArrays | None = None,
) -> Array:
    """Compute the Cholesky factor L of the Delassus matrix, L L' = J M^-1 J'.

    If contacts depend on each other and the damping is 0, the columns of rows that depend on
    earlier ones are zero.

    Examples
    --------
    >>> L = dyn_ros.delassus_cholesky(walker, walker_data, stand, feet)
    >>> np.allclose(L @ L.T, walker_data.delassus)
    True
    """
    packed_contacts = pack_contacts(model, data, contacts, damping)
    return delassus_cholesky.call(
        model,
        data,
        threads if out is None else BatchOptions(threads, out),
        packed_contacts,
        q,
        packed_contacts.zeros,
    )
