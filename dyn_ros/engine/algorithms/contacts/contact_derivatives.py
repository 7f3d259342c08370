# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Derivatives of the dynamics of a robot in contact.

Carpentier, Budhiraja and Mansard (2021), section V: the response (contact_response.py) to
the derivatives dtau of rnea less J' lambda and drow of the rows, at constant ddq and lambda.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ...call.algorithm import algorithm, public
from ...call.caller import BatchOptions
from ...call.data import Data
from ...kernel.types import Array, ArrayLike, OutArrays
from ...kernel.vocabulary import *
from ...model.model import Model
from ..derivatives import rnea_columns as rc
from ..derivatives import rnea_derivatives as rd
from ..derivatives.aba_derivatives import DDQ_DQ, DDQ_DV
from ..dynamics.aba import DDQ
from ..dynamics.minverse import MINV, invert_after_elimination, invert_after_factor
from ..kinematics.kinematics import OA_GF
from ..kinematics.world_axes import set_universe_acceleration
from . import contact_dynamics, contact_row_derivatives
from .contact_response import Rates, Response, compute_responses, compute_torque_response
from .contact_rows import MOMENT_ROWS, move_column_to_origin
from .contacts import Contact
from .minv_factor_products import clear_link_contacts
from .packed_contacts import CONTACT_ROWS, CONTACTS, pack_contacts

DDQ_DTAU = field(
    "ddq_dtau",
    ("nv", "nv"),
    "Derivative of the joint accelerations in contact with "
    "respect to torque [rad/s2, m/s2 per N m, N].",
)
DLAMBDA_DQ = field(
    "dlambda_dq",
    ("constraints", "nv"),
    "Derivative of the contact forces, in the axes of each contact, with respect to "
    "configuration [N, N m per rad, m].",
)
DLAMBDA_DV = field(
    "dlambda_dv",
    ("constraints", "nv"),
    "Derivative of the contact forces with respect to velocity [N, N m per rad/s, m/s].",
)
DLAMBDA_DTAU = field(
    "dlambda_dtau",
    ("constraints", "nv"),
    "Derivative of the contact forces with respect to torque [N, N m per N m, N].",
)


@subroutine
def differentiate_contact_dynamics(r):
    """Compute all derivatives, after the dynamics and the inverse of M.

        M d(ddq) - J' d(lambda) = -dtau
        J d(ddq) + mu d(lambda) = -drow     mu: the damping

    Reads Q, V, F_EXT, DDQ; writes A, M, OV, OA_GF, TAU, J, DJ, PSID, PSIDD, DADQ, DADV, DTAU_DQ,
    DTAU_DV, DFDA, DFDQ, DFDV, DDQ_DQ, DDQ_DV, LAMBDA_C, LAMBDA_C_PROX, DIFF_LAMBDA_C, DAC_DQ,
    DAC_DV, DAC_DA, DVC_DQ, DDQ_DTAU, DLAMBDA_DQ, DLAMBDA_DV, DLAMBDA_DTAU; calls
    outward_pass_from_universe, subtract_contact_forces, differentiate_inward,
    differentiate_contacts, differentiate_forces, compute_torque_response, move_rates_to_origin,
    move_forces.
    """
    n = nv(r)
    for k in range(n):
        set_entry(r, A, k, entry(r, DDQ, k))
    set_universe_acceleration(r, OA_GF)
    rc.outward_pass_from_universe(r, True, False)
    contact_row_derivatives.subtract_contact_forces(r, contact_dynamics.LAMBDA_C, rc.SUBTREE_FORCE)
    rd.differentiate_inward(r, False)
    contact_row_derivatives.differentiate_contacts(r, with_acceleration=True)
    contact_row_derivatives.differentiate_forces(r, contact_dynamics.LAMBDA_C, rd.DTAU_DQ)
    response = Response(matrix(r, DDQ_DTAU), matrix(r, DLAMBDA_DTAU))
    compute_torque_response(r, response)
    compute_responses(
        r,
        response,
        Rates(matrix(r, rd.DTAU_DQ), contact_row_derivatives.rates_by_configuration(r)),
        Rates(matrix(r, rd.DTAU_DV), contact_row_derivatives.rates_by_velocity(r)),
        Response(matrix(r, DDQ_DQ), matrix(r, DLAMBDA_DQ)),
        Response(matrix(r, DDQ_DV), matrix(r, DLAMBDA_DV)),
    )
    contact_row_derivatives.move_rates_to_origin(r, contact_dynamics.LAMBDA_C, DLAMBDA_DQ)
    for j in range(n):
        move_column_to_origin(r, MOMENT_ROWS, matrix(r, DLAMBDA_DV), j)
        move_column_to_origin(r, MOMENT_ROWS, matrix(r, DLAMBDA_DTAU), j)
    contact_dynamics.move_forces(r)
    clear_link_contacts(r, rd.DTAU_DQ)


@public
class ContactDerivatives(NamedTuple):
    """Result of ``contact_dynamics_derivatives``.

    Examples
    --------
    >>> d = dyn_ros.contact_dynamics_derivatives(walker, walker_data, stand, still, none, feet)
    >>> d._fields[:3]
    ('ddq_dq', 'ddq_dv', 'ddq_dtau')
    """

    ddq_dq: Array
    ddq_dv: Array
    ddq_dtau: Array
    dlambda_dq: Array
    dlambda_dv: Array
    dlambda_dtau: Array


@algorithm(
    sequence(
        contact_dynamics.solve_contacts, invert_after_elimination, differentiate_contact_dynamics
    ),
    inputs=(Q, V, TAU_IN, F_EXT, CONTACT_ROWS),
    results=(DDQ_DQ, DDQ_DV, DDQ_DTAU, DLAMBDA_DQ, DLAMBDA_DV, DLAMBDA_DTAU),
    optional=(F_EXT,),
    also_writes=(
        DDQ,
        contact_dynamics.LAMBDA_C,
        contact_dynamics.LAMBDA_C_PROX,
        contact_dynamics.DIFF_LAMBDA_C,
        MINV,
        *contact_row_derivatives.PUBLIC_RATES,
    ),
    options=(CONTACTS,),
    mimic_kernel=sequence(
        contact_dynamics.solve_contacts_with_mimic,
        invert_after_factor,
        differentiate_contact_dynamics,
    ),
    make=ContactDerivatives._make,
    needs_double=True,
)
def contact_dynamics_derivatives(
    model: Model,
    data: Data,
    q: ArrayLike,
    v: ArrayLike,
    tau: ArrayLike,
    contacts: Sequence[Contact],
    f_ext: ArrayLike | Mapping[str, ArrayLike] | None = None,
    damping: float = 0.0,
    *,
    threads: int = 1,
    out: OutArrays | None = None,
) -> ContactDerivatives:
    """Compute derivatives of ``contact_dynamics`` by configuration, velocity and torque.

    Carpentier, Budhiraja and Mansard (2021); O(n^3 + n^2 m + m^3) for m rows. They are exact for
    all reference frames, gains and two-body contacts. Pinocchio's with respect to configuration are
    not: in LOCAL_WORLD_ALIGNED for contacts of dimension 6 with kp, or with damping; for two bodies
    in dimension 3 on a fixed base. External forces are constant in the joint frames. If contacts
    are redundant, the derivatives of the motion are exact. The derivatives of the forces are then a
    solution of least norm, not the derivatives of the forces of least norm. Contacts that
    contradict each other require damping.

    Examples
    --------
    >>> d = dyn_ros.contact_dynamics_derivatives(walker, walker_data, stand, still, none, feet)
    >>> d.ddq_dtau.shape, d.dlambda_dq.shape
    ((18, 18), (12, 18))
    """
    packed_contacts = pack_contacts(model, data, contacts, damping)
    if f_ext is not None and isinstance(f_ext, Mapping):
        f_ext = model.external_forces(f_ext)
    return contact_dynamics_derivatives.call(
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
