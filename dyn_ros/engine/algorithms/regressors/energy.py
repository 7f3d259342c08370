# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Regressors of the energies and of the center of mass: a row for each, instead of one per joint.

With the velocity v and angular velocity w of the origin of a body's joint, in its axes, and its
position p and rotation R in the world, the energies of a body with mass m, first moment h = m c and
rotational inertia I are

    T = m v.v / 2 + h . (v x w) + w . I w / 2,  U = -gravity . (m p + R h)
"""

from __future__ import annotations

from ...call.algorithm import algorithm
from ...call.data import Data
from ...kernel.types import Array, ArrayLike, OutArrays
from ...kernel.vocabulary import *
from ...model.model import Model
from ..kinematics.kinematics import place_in_world
from .torque import symmetric_product

KINETIC_ENERGY_REGRESSOR = field(
    "kinetic_energy_regressor",
    ("parameters",),
    "Derivatives of the kinetic energy with respect to the dynamic parameters of all bodies "
    "[J per kg, kg m, kg m2].",
)
POTENTIAL_ENERGY_REGRESSOR = field(
    "potential_energy_regressor",
    ("parameters",),
    "Derivatives of the potential energy with respect to the dynamic parameters of all bodies "
    "[J per kg, kg m, kg m2].",
)
STATIC_REGRESSOR = field(
    "static_regressor",
    ("moments", 3),
    "Matrix that maps masses and first moments of all bodies to the center of "
    "mass, expressed in the world [m per kg, kg m].",
    transposed=True,
)


@kernel
def kinetic_energy_regressor_kernel(r):
    """Compute the regressor of the kinetic energy.

        1/2 v.v, v x w, derivatives of 1/2 w . I w

    Reads Q, V; writes JOINT_V, KINETIC_ENERGY_REGRESSOR.
    """
    clear_motion(r, JOINT_V, 0)
    for i in range(1, njoints(r) + 1):
        m = motion_to_child(joint_placement(r, i), motion(r, JOINT_V, parent(r, i)))
        v, w = add_subspace_times(r, i, m, V)
        set_motion(r, JOINT_V, i, Motion(v, w))
        rotational = symmetric_product(w, scale(0.5, w))
        set_inertia(
            r, KINETIC_ENERGY_REGRESSOR, i - 1, Inertia(0.5 * dot(v, v), cross(v, w), rotational)
        )


@kernel
def potential_energy_regressor_kernel(r):
    """Compute the regressor of the potential energy.

        -g . p, -R' g, 0

    Reads Q; writes OMI, POTENTIAL_ENERGY_REGRESSOR.
    """
    up = scale(-1.0, gravity(r))
    for i in range(1, njoints(r) + 1):
        R, p = place_in_world(r, i, joint_placement(r, i))
        zero = zero3(p[0])
        set_inertia(
            r,
            POTENTIAL_ENERGY_REGRESSOR,
            i - 1,
            Inertia(
                dot(up, p),
                rotate_inverse(R, up),
                Symmetric(zero[0], zero[0], zero[0], zero[0], zero[0], zero[0]),
            ),
        )


@kernel
def inverse_mass(r):
    """Return 1 / mass of all bodies; zero without mass."""
    mass = 0.0
    for i in range(1, njoints(r) + 1):
        mass = mass + body_inertia(r, i).mass
    return 1.0 / mass if mass > 0.0 else 0.0


@kernel
def static_regressor_kernel(r):
    """Compute the matrix that maps masses and first moments to the center of mass.

        com = sum of (p_i m_i + R_i m_i c_i) / m

    Reads Q; writes OMI, STATIC_REGRESSOR.
    """
    s = inverse_mass(r)
    for i in range(1, njoints(r) + 1):
        R, p = place_in_world(r, i, joint_placement(r, i))
        A = matrix_row(r, STATIC_REGRESSOR, i - 1, 4, 3)
        set_elements3(r, A, 0, 0, scale(s, p))
        for c in range(3):
            set_elements3(r, A, 1 + c, 0, scale(s, (R[c], R[3 + c], R[6 + c])))


@algorithm(kinetic_energy_regressor_kernel, inputs=(Q, V), results=(KINETIC_ENERGY_REGRESSOR,))
def kinetic_energy_regressor(
    model: Model,
    data: Data,
    q: ArrayLike,
    v: ArrayLike,
    *,
    threads: int = 1,
    out: OutArrays | None = None,
) -> Array:
    """Compute the regressor y of the kinetic energy without rotors, y . theta.

    theta as for ``joint_torque_regressor``. The rotors add the sum of
    ``model.armature * v * v / 2``. Gautier (1997); O(n).

    Examples
    --------
    >>> y = dyn_ros.kinetic_energy_regressor(model, data, q, v)
    >>> energy = y @ model.inertial_parameters.ravel() + 0.5 * model.armature @ v**2
    >>> bool(np.isclose(energy, dyn_ros.kinetic_energy(model, data, q, v)))
    True
    """


@algorithm(potential_energy_regressor_kernel, inputs=(Q,), results=(POTENTIAL_ENERGY_REGRESSOR,))
def potential_energy_regressor(
    model: Model, data: Data, q: ArrayLike, *, threads: int = 1, out: OutArrays | None = None
) -> Array:
    """Compute the regressor y of the potential energy, y . theta.

    theta as for ``joint_torque_regressor``. Gautier (1997); O(n).

    Examples
    --------
    >>> y = dyn_ros.potential_energy_regressor(model, data, q)
    >>> bool(np.isclose(y @ model.inertial_parameters.ravel(),
    ...                 dyn_ros.potential_energy(model, data, q)))
    True
    """


@algorithm(static_regressor_kernel, inputs=(Q,), results=(STATIC_REGRESSOR,))
def static_regressor(
    model: Model, data: Data, q: ArrayLike, *, threads: int = 1, out: OutArrays | None = None
) -> Array:
    """Compute the regressor Y of the center of mass: com = Y x, with the current total mass.

    x contains the first four parameters of each body, m, m cx, m cy, m cz, one body after the
    other. Y is divided by the total mass of the model, as in Pinocchio: it is linear only in
    changes of x that keep it. Zero if the robot has no mass. O(n).

    Examples
    --------
    >>> Y = dyn_ros.static_regressor(model, data, q)
    >>> x = model.inertial_parameters[:, :4].ravel()          # m, m cx, m cy, m cz of each body
    >>> np.allclose(Y @ x, dyn_ros.center_of_mass(model, data, q)[0])
    True
    """
