# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Forward dynamics of a robot in contact, by the sweeps that ``vereshchagin`` also uses.

Of all accelerations that the contacts permit, the one closest to the free motion (Gauss's
principle).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ...call.algorithm import algorithm
from ...call.caller import BatchOptions
from ...call.data import Data
from ...kernel.types import Array, ArrayLike, OutArrays
from ...kernel.vocabulary import *
from ...model.model import Model
from ..constrained import constraint_forces as cf
from ..dynamics import aba
from ..dynamics.cholesky import factor_inertia_matrix
from ..dynamics.crba import crba_kernel
from ..kinematics.world_axes import set_universe_acceleration
from .contact_rows import (
    MOMENT_ROWS,
    compute_contact_coupling,
    move_entries_to_origin,
    propagate_contacts,
)
from .contacts import ITERATIONS, Contact, ContactForces
from .force_system import solve_forces
from .packed_contacts import CONTACT_ROWS, CONTACTS, SOLUTION, pack_contacts

LAMBDA_C = field(
    "lambda_c", ("constraints",), "Contact forces, in the axes of each contact [N, N m]."
)
LAMBDA_C_PROX = field(
    "lambda_c_prox", ("constraints",), "Contact forces before the last proximal iteration [N, N m]."
)
DIFF_LAMBDA_C = field("diff_lambda_c", ("constraints",), "lambda_c less lambda_c_prox [N, N m].")


@kernel
def apply_contact_forces(r):
    """Compute the contact forces, and add them to the bias torques u = L^-T (tau - nle).

        J M^-1 J' lambda + b = 0            b: the constraint residual
        u = u + L^-T J' lambda

    Writes BIAS_TORQUE, JACOBIAN_COLUMN, LAMBDA_C, LAMBDA_C_PROX, DIFF_LAMBDA_C; calls
    compute_contact_coupling, add_free_acceleration, solve_forces.
    """
    compute_contact_coupling(r)
    cf.add_free_acceleration(r, aba.BIAS_TORQUE)
    solve_forces(r, LAMBDA_C, LAMBDA_C_PROX)
    for k in range(nconstraints(r)):
        set_entry(r, DIFF_LAMBDA_C, k, entry(r, LAMBDA_C, k) - entry(r, LAMBDA_C_PROX, k))
    cf.eliminated_jacobian_times(r, LAMBDA_C, cf.JACOBIAN_COLUMN, 1.0)
    for j in range(nv(r)):
        add_to_entry(r, aba.BIAS_TORQUE, j, entry(r, cf.JACOBIAN_COLUMN, j))


@kernel
def move_forces(r):
    """Move the forces of contacts in WORLD to the world's origin.

    Reads CONTACT_POINTS; writes LAMBDA_C, LAMBDA_C_PROX, DIFF_LAMBDA_C.
    """
    for forces in (LAMBDA_C, LAMBDA_C_PROX, DIFF_LAMBDA_C):
        move_entries_to_origin(r, MOMENT_ROWS, forces)


@subroutine
def solve_contacts(r):
    """Compute accelerations and contact forces by three sweeps along the tree.

        M ddq + nle = tau + J' lambda
        J ddq + drift = kp err - kd J v     drift: J c + frame drift, see ``propagate_contacts``

    Reads Q, V, TAU_IN, F_EXT; writes DDQ, LINK_ACCELERATION, LAMBDA_C, LAMBDA_C_PROX,
    DIFF_LAMBDA_C; calls outward_velocities, inward_pass, propagate_contacts, apply_contact_forces,
    outward_accelerations.
    """
    aba.outward_velocities(r)
    set_universe_acceleration(r, aba.LINK_ACCELERATION)
    aba.inward_pass(r)
    propagate_contacts(r, with_elimination=True, with_bias=True)
    apply_contact_forces(r)
    aba.outward_accelerations(r)


@subroutine
def solve_contacts_with_mimic(r):
    """Compute the same from the factor of M, if there are mimic joints.

        M ddq = tau - nle + J' lambda

    Reads Q, V, TAU_IN, F_EXT; writes M, DDQ, LINK_ACCELERATION, LAMBDA_C, LAMBDA_C_PROX,
    DIFF_LAMBDA_C; calls crba_kernel, factor_inertia_matrix, outward_velocities,
    eliminate_with_mimic, propagate_contacts, eliminate_jacobian, apply_contact_forces,
    accelerate_with_mimic.
    """
    crba_kernel(r)
    factor_inertia_matrix(r)
    aba.outward_velocities(r)
    set_universe_acceleration(r, aba.LINK_ACCELERATION)
    cf.eliminate_with_mimic(r)
    propagate_contacts(r, with_elimination=False, with_bias=True)
    cf.eliminate_jacobian(r)
    apply_contact_forces(r)
    cf.accelerate_with_mimic(r)


@algorithm(
    sequence(solve_contacts, move_forces),
    inputs=(Q, V, TAU_IN, F_EXT, CONTACT_ROWS),
    results=(aba.DDQ, LAMBDA_C, SOLUTION),
    optional=(F_EXT,),
    also_writes=(LAMBDA_C_PROX, DIFF_LAMBDA_C),
    options=(CONTACTS,),
    mimic_kernel=sequence(solve_contacts_with_mimic, move_forces),
    needs_double=True,
)
def contact_dynamics(
    model: Model,
    data: Data,
    q: ArrayLike,
    v: ArrayLike,
    tau: ArrayLike,
    contacts: Sequence[Contact],
    f_ext: ArrayLike | Mapping[str, ArrayLike] | None = None,
    damping: float = 0.0,
    *,
    residual: float | None = None,
    max_iterations: int = 100,
    threads: int = 1,
    out: OutArrays | None = None,
) -> tuple[Array, ContactForces]:
    """Compute forward dynamics with contacts: accelerations and contact forces.

    The sweeps of Vereshchagin (1989), O(n + m^2 d + m^3) for m rows and a tree of depth
    d. Includes ``model.armature``; mimic joints follow their masters. Without contacts, it is
    ``aba``. The forces act on the bodies of the contacts' frames, and against the other bodies:

        M ddq + nle = tau + J' lambda + J_ext' f_ext,  J ddq + drift = kp err - kd J v

    Contacts can be redundant, such as two of one link, or contradict each other: without damping,
    the violation of all rows is minimized (least squares), and then the forces (least norm); in
    WORLD, of the rows at c1. Damping lets each row give way in proportion to its force, J ddq +
    drift + damping lambda; it is at least the rounding errors of J M^-1 J'. With ``residual``,
    proximal iterations (Carpentier, Budhiraja and Mansard 2021) then remove its effect.

    Parameters
    ----------
    residual : float, optional
        Iterate until all rows are satisfied to this number [m/s2, rad/s2]; needs damping.
    max_iterations : int
        Largest number of proximal iterations.

    Returns
    -------
    ddq : (nv,) ndarray
        Joint accelerations [rad/s2, m/s2]; ``data.ddq``.
    forces : ContactForces
        ``forces["left_foot"]`` is a force (3,) or a wrench (6,) in the axes of the contact
        [N, N m]; ``forces.lambda_c`` all of them, ``data.lambda_c``. Also ``rank``, ``residual``
        and ``iterations``.

    Examples
    --------
    Without torques the legs give way, but the feet stay where they are:

    >>> ddq, forces = dyn_ros.contact_dynamics(walker, walker_data, stand, still, none, feet)
    >>> np.allclose(dyn_ros.contact_jacobian(walker, walker_data, stand, feet) @ ddq, 0.0)
    True
    >>> forces["hind_left_foot"].shape                        # N, in the axes of the world
    (3,)
    """
    packed_contacts = pack_contacts(model, data, contacts, damping, residual, max_iterations)
    if f_ext is not None and isinstance(f_ext, Mapping):
        f_ext = model.external_forces(f_ext)
    if not packed_contacts.rows:  # aba has the same results to the bit, and is faster
        own = out[:1] if isinstance(out, (tuple, list)) else out
        ddq = aba.aba(model, data, q, v, tau, f_ext, out=own, threads=threads)
        return ddq, _empty_forces(data, ddq.shape[:-1])
    ddq, lambda_c, solution = contact_dynamics.call(
        model,
        data,
        threads if out is None else BatchOptions(threads, out),
        packed_contacts,
        q,
        v,
        tau,
        f_ext,
        packed_contacts.zeros,
    )
    return ddq, ContactForces(packed_contacts.rows, lambda_c, solution)


def _empty_forces(data: Data, lead: tuple[int, ...]) -> ContactForces:
    """Return the forces of no contacts; for a single state, ``data`` has them too."""
    if not lead:
        for forces in (LAMBDA_C, LAMBDA_C_PROX, DIFF_LAMBDA_C):
            data._array(forces)
            data._publish(forces, 0)
    solution = np.zeros((*lead, 3))
    solution[..., ITERATIONS] = 1.0
    return ContactForces({}, np.zeros((*lead, 0)), solution)
