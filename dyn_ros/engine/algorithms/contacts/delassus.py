# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The Jacobian of contacts, the Delassus matrix J M^-1 J', its inverse and its factor."""
from __future__ import annotations

from collections.abc import Sequence

from ...call.algorithm import Algorithm
from ...call.data import Data
from ...kernel import lanes as la
from ...kernel import layout as ly
from ...kernel.algebra import store_inertia
from ...kernel.compiler import kernel
from ...kernel.fields import MAX_CONSTRAINTS, Q, field
from ...kernel.types import Array, ArrayLike
from ...model.model import Model
from ..constrained import constraint_forces as cf
from ..constrained.products import copy_rows, rows_of
from ..constrained.semidefinite import factor_cholesky, invert_semidefinite
from ..dynamics.aba import eliminate_all
from ..dynamics.crba import COMPOSITE, crba_kernel
from ..dynamics.factor import factor
from ..kinematics.root_axes import place_body, set_root
from .contacts import Contact
from .packed import CONTACTS, ROWS, any_at_origin, contact_table, damping
from .rows import couple_contacts, forces_to_origin, motions_to_origin, propagate_contacts
from .system import TOLERANCE

CONTACT_JACOBIAN = field("contact_jacobian", ("constraints", "nv"),
                         "Jacobian of contacts: the rows (linear, angular) of one contact after "
                         "the other, in its axes [m, rad per rad, m]; mimic joints contribute to "
                         "the columns of their masters.")
DELASSUS = field("delassus", ("constraints", "constraints"),
                 "J M^-1 J' of contacts and the damping, in the axes of each contact [1/kg, 1/(kg "
                 "m2)].")
DELASSUS_INVERSE = field("delassus_inverse", ("constraints", "constraints"),
                         "Inverse of J M^-1 J' and the damping, in the axes of each contact [kg, "
                         "kg m2].")
DELASSUS_CHOLESKY = field("delassus_cholesky", ("constraints", "constraints"),
                          "Lower triangular Cholesky factor of J M^-1 J' and the damping.")
PADDED = field("_padded", (MAX_CONSTRAINTS, cf.WIDTH))


@kernel
def place_robot(r):
    """Place all bodies, with their inertias, in the root frame."""
    set_root(r)
    for i in range(1, ly.njoints(r) + 1):
        store_inertia(r.work, ly.offset(r, COMPOSITE) + 10 * i, place_body(r, i))


@kernel
def store_jacobian(r, target):
    """The rows of contacts from their columns, after ``propagate_contacts``."""
    for k in range(ly.nconstraints(r)):
        for j in range(ly.nv(r)):
            la.store(r.work, target + ly.nv(r) * k + j,
                     la.load(r.work, ly.offset(r, cf.ELIMINATED) + cf.WIDTH * j + k))


@kernel
def contact_jacobian_kernel(r):
    place_robot(r)
    propagate_contacts(r, False, False)
    store_jacobian(r, ly.offset(r, CONTACT_JACOBIAN))
    for j in range(ly.nv(r)):
        motions_to_origin(r, ly.offset(r, CONTACT_JACOBIAN) + j, ly.nv(r))


@kernel
def eliminate_contacts(r):
    """D and U^-1 J' without velocities."""
    place_robot(r)
    eliminate_all(r)
    propagate_contacts(r, True, False)


@kernel
def eliminate_contacts_projected(r):
    """The same with the factor of M, if mimic joints couple branches."""
    crba_kernel(r)
    factor(r)
    cf.store_pivots(r)
    propagate_contacts(r, False, False)
    cf.eliminate_columns(r)


@kernel
def compact(r, source, target):
    """Copy an m x m matrix without the gaps between its rows."""
    m = ly.nconstraints(r)
    for k in range(m):
        for i in range(0, m, la.simd_width(r.work)):
            la.store_simd(r.work, ly.offset(r, target) + m * k + i, m - i,
                          la.load_simd(r.work, ly.offset(r, source) + cf.WIDTH * k + i, la.LANES))


@kernel
def inertia_to_origin(r, inertia):
    """Move a compact inertia of contacts to the world's origin, for those in WORLD."""
    m = ly.nconstraints(r)
    if not any_at_origin(r):
        return
    for k in range(m):
        forces_to_origin(r, inertia + k, m)
    for k in range(m):
        forces_to_origin(r, inertia + m * k, 1)


@kernel
def publish_coupling(r):
    """Store J M^-1 J' as a public result."""
    m, G = ly.nconstraints(r), ly.offset(r, DELASSUS)
    compact(r, cf.COUPLING, DELASSUS)
    if not any_at_origin(r):
        return
    for k in range(m):
        motions_to_origin(r, G + k, m)
    for k in range(m):
        motions_to_origin(r, G + m * k, 1)


@kernel
def damp(r):
    for k in range(ly.nconstraints(r)):
        ly.increase(r.work, ly.offset(r, cf.COUPLING) + (cf.WIDTH + 1) * k, damping(r))


@kernel
def delassus_kernel(r):
    eliminate_contacts(r)
    couple_contacts(r)
    damp(r)
    publish_coupling(r)


@kernel
def projected_delassus_kernel(r):
    eliminate_contacts_projected(r)
    couple_contacts(r)
    damp(r)
    publish_coupling(r)


@kernel
def invert_delassus(r):
    invert_semidefinite(r, ly.nconstraints(r), ly.offset(r, cf.COUPLING), 0.0, TOLERANCE,
                        ly.offset(r, PADDED))
    compact(r, PADDED, DELASSUS_INVERSE)
    inertia_to_origin(r, ly.offset(r, DELASSUS_INVERSE))


@kernel
def inverse_kernel(r):
    delassus_kernel(r)
    invert_delassus(r)


@kernel
def projected_inverse_kernel(r):
    projected_delassus_kernel(r)
    invert_delassus(r)


@kernel
def factor_delassus(r):
    m = ly.nconstraints(r)
    copy_rows(r, rows_of(ly.offset(r, DELASSUS), m), rows_of(ly.offset(r, cf.COUPLING), cf.WIDTH),
              1.0, m, m)
    factor_cholesky(r, m, ly.offset(r, cf.COUPLING), ly.offset(r, PADDED), TOLERANCE)
    compact(r, PADDED, DELASSUS_CHOLESKY)


@kernel
def cholesky_kernel(r):
    delassus_kernel(r)
    factor_delassus(r)


@kernel
def projected_cholesky_kernel(r):
    projected_delassus_kernel(r)
    factor_delassus(r)


_jacobian = Algorithm("contact_jacobian", contact_jacobian_kernel, (Q, ROWS), (CONTACT_JACOBIAN,),
                      options=(CONTACTS,)).caller()
_delassus = Algorithm("delassus_matrix", delassus_kernel, (Q, ROWS), (DELASSUS,),
                      options=(CONTACTS,), coupled=projected_delassus_kernel).caller()
_inverse = Algorithm("delassus_inverse", inverse_kernel, (Q, ROWS), (DELASSUS_INVERSE,),
                     also_writes=(DELASSUS,), options=(CONTACTS,),
                     coupled=projected_inverse_kernel).caller()
_cholesky = Algorithm("delassus_cholesky", cholesky_kernel, (Q, ROWS), (DELASSUS_CHOLESKY,),
                      also_writes=(DELASSUS,), options=(CONTACTS,),
                      coupled=projected_cholesky_kernel).caller()


def contact_jacobian(model: Model, data: Data, q: ArrayLike, contacts: Sequence[Contact], *,
                     threads: int = 1) -> Array:
    """Jacobian of contacts; multiplied by v, it is the velocity of each c1 relative to c2.

    Featherstone (2008), section 4.1; O(m d) for m rows and a tree of depth d.

    Examples
    --------
    >>> J = dyn_ros.contact_jacobian(walker, walker_data, stand, feet)
    >>> J.shape
    (12, 18)
    """
    table = contact_table(model, data, contacts)
    return _jacobian(model, data, threads, table, q, table.zeros)


def delassus_matrix(model: Model, data: Data, q: ArrayLike, contacts: Sequence[Contact],
                    damping: float = 0.0, *, threads: int = 1) -> Array:
    """The Delassus matrix J M^-1 J' of contacts: how they accelerate per contact force.

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
    table = contact_table(model, data, contacts, damping)
    return _delassus(model, data, threads, table, q, table.zeros)


def delassus_inverse(model: Model, data: Data, q: ArrayLike, contacts: Sequence[Contact],
                     damping: float = 0.0, *, threads: int = 1) -> Array:
    """Inverse of the Delassus matrix: the inertia that contacts feel.

    If contacts depend on each other and the damping is 0, the pseudoinverse.

    Examples
    --------
    >>> inverse = dyn_ros.delassus_inverse(walker, walker_data, stand, feet)
    >>> np.allclose(inverse @ walker_data.delassus, np.eye(12))
    True
    """
    table = contact_table(model, data, contacts, damping)
    return _inverse(model, data, threads, table, q, table.zeros)


def delassus_cholesky(model: Model, data: Data, q: ArrayLike, contacts: Sequence[Contact],
                      damping: float = 0.0, *, threads: int = 1) -> Array:
    """Cholesky factor L of the Delassus matrix, L L' = J M^-1 J'.

    If contacts depend on each other and the damping is 0, the columns of rows that depend on
    earlier ones are zero.

    Examples
    --------
    >>> L = dyn_ros.delassus_cholesky(walker, walker_data, stand, feet)
    >>> np.allclose(L @ L.T, walker_data.delassus)
    True
    """
    table = contact_table(model, data, contacts, damping)
    return _cholesky(model, data, threads, table, q, table.zeros)
