# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Inverse dynamics, nonlinear effects and static torques, by the recursive Newton-Euler algorithm.

Featherstone (2008), table 5.1, in body frames. X is the placement of a joint in its parent, liMi:
it transforms motions from the joint frame to the parent frame, and X* forces.
"""

from __future__ import annotations

from ...call.algorithm import algorithm
from ...call.data import Data
from ...kernel.types import Array, ArrayLike, OutArrays
from ...kernel.vocabulary import *
from ...model.model import Model
from ..kinematics.world_axes import set_universe_acceleration

TAU = field("tau", ("nv",), "Joint torques and forces [N m, N].")
NLE = field("nle", ("nv",), "Coriolis, centrifugal and gravity torques [N m, N].")
G = field("g", ("nv",), "Gravity torques [N m, N].")


@kernel
def set_universe_at_rest(r):
    """Set the universe to rest, with an acceleration of minus gravity.

        v_0 = 0,  a_0 = -gravity,  f_0 = 0

    Writes JOINT_V, JOINT_A, JOINT_F.
    """
    clear_motion(r, JOINT_V, 0)
    clear_force(r, JOINT_F, 0)
    set_universe_acceleration(r, JOINT_A)


@kernel
def external_force(r, i):
    """Return the external force on the body of joint i; the input has no row for the universe.

    Reads F_EXT.
    """
    return force(r, F_EXT, i - 1)


@kernel
def newton_euler_outward(r, i, with_acceleration):
    """Compute the motion of joint i and the force that joints exert on its body, in its frame.

        v = X^-1 v_p + S qd
        a = X^-1 a_p + S qdd + v x S qd
        f = Y a + v x* Y v - f_ext                      Featherstone (2008), table 5.1

    p is the parent joint. Without ``with_acceleration``, qdd is zero.

    Reads Q, V, A, F_EXT; writes LIMI, JOINT_V, JOINT_A, JOINT_F.
    """
    p, X = parent(r, i), joint_placement(r, i)
    set_placement(r, LIMI, i, X)
    v = add_subspace_times(r, i, motion_to_child(X, motion(r, JOINT_V, p)), V)
    a = motion_add(motion_to_child(X, motion(r, JOINT_A, p)), cross_subspace_times(r, i, v, V))
    if with_acceleration:
        a = add_subspace_times(r, i, a, A)
    f = body_force(body_inertia(r, i), v, a)
    if has_input(r, F_EXT):
        f = force_sub(f, external_force(r, i))
    set_motion(r, JOINT_V, i, v)
    set_motion(r, JOINT_A, i, a)
    set_force(r, JOINT_F, i, f)


@kernel
def transmit_forces(r, tau):
    """Compute the joint torques and the forces that joints exert on subtrees, in an inward pass.

        tau = S' f
        f_p = f_p + X* f                                Featherstone (2008), table 5.1

    The torques are stored in the field ``tau``. The force on the universe is the sum of all.

    Reads LIMI; writes JOINT_F, tau.
    """
    clear_entries(r, tau, nv(r))
    for i in range(njoints(r), 0, -1):
        f = force(r, JOINT_F, i)
        add_subspace_transpose_times(r, i, f, tau)
        add_to_force(r, JOINT_F, parent(r, i), force_to_parent(placement(r, LIMI, i), f))


@kernel
def newton_euler(r, with_acceleration, tau):
    """Compute the joint torques by the recursive Newton-Euler algorithm, in the field ``tau``.

        tau = S' f + armature qdd

    Without ``with_acceleration``, qdd is zero.

    Reads Q, V, A, F_EXT; writes LIMI, JOINT_V, JOINT_A, JOINT_F, tau.
    """
    set_universe_at_rest(r)
    for i in range(1, njoints(r) + 1):
        newton_euler_outward(r, i, with_acceleration)
    transmit_forces(r, tau)
    if with_acceleration:
        for k in range(nv(r)):
            add_to_entry(r, tau, k, armature(r, k) * entry(r, A, k))


@kernel
def rnea_kernel(r):
    """Compute the joint torques of a motion.

        tau = M qdd + nle - J' f_ext

    Reads Q, V, A, F_EXT; writes LIMI, JOINT_V, JOINT_A, JOINT_F, TAU.
    """
    newton_euler(r, True, TAU)


@kernel
def nonlinear_effects_kernel(r):
    """Compute the joint torques for qdd = 0.

        nle = C qd + g - J' f_ext           without f_ext, if it is no input

    Reads Q, V, A, F_EXT; writes LIMI, JOINT_V, JOINT_A, JOINT_F, NLE.
    """
    newton_euler(r, False, NLE)


@kernel
def compute_static_force(r, i):
    """Compute the force that joints exert on the body of joint i at rest, in its frame.

        a = X^-1 a_p
        f = Y a - f_ext

    Reads Q, F_EXT; writes LIMI, JOINT_A, JOINT_F.
    """
    X = joint_placement(r, i)
    a = motion_to_child(X, motion(r, JOINT_A, parent(r, i)))
    f = inertia_times(body_inertia(r, i), a)
    if has_input(r, F_EXT):
        f = force_sub(f, external_force(r, i))
    set_placement(r, LIMI, i, X)
    set_motion(r, JOINT_A, i, a)
    set_force(r, JOINT_F, i, f)


@kernel
def compute_static_torques(r, tau):
    """Compute the torques at rest, g - J' f_ext, in the field ``tau``.

    Reads Q, F_EXT; writes LIMI, JOINT_V, JOINT_A, JOINT_F, tau.
    """
    set_universe_at_rest(r)
    for i in range(1, njoints(r) + 1):
        compute_static_force(r, i)
    transmit_forces(r, tau)


@kernel
def generalized_gravity_kernel(r):
    """Compute the gravity torques, g, without f_ext, which is no input.

    Reads Q, F_EXT; writes LIMI, JOINT_V, JOINT_A, JOINT_F, G.
    """
    compute_static_torques(r, G)


@kernel
def static_torque_kernel(r):
    """Compute the torques at rest under external forces, g - J' f_ext.

    Reads Q, F_EXT; writes LIMI, JOINT_V, JOINT_A, JOINT_F, TAU.
    """
    compute_static_torques(r, TAU)


@algorithm(
    rnea_kernel,
    inputs=(Q, V, A, F_EXT),
    results=(TAU,),
    optional=(F_EXT,),
    also_writes=(JOINT_V, JOINT_A, JOINT_F),
)
def rnea(
    model: Model,
    data: Data,
    q: ArrayLike,
    v: ArrayLike,
    a: ArrayLike,
    f_ext: ArrayLike | None = None,
    *,
    threads: int = 1,
    out: OutArrays | None = None,
) -> Array:
    """Compute inverse dynamics: the joint torques for a motion, M a + nle - J' f_ext.

    Recursive Newton-Euler algorithm, Featherstone (2008), table 5.1; O(n). Includes
    ``model.armature``.

    Examples
    --------
    >>> tau = dyn_ros.rnea(model, data, q, v, a)
    >>> np.allclose(dyn_ros.aba(model, data, q, v, tau.copy()), a)
    True

    A batch of 100 states in one call:

    >>> dyn_ros.rnea(model, data, np.tile(q, (100, 1)), v, a).shape
    (100, 7)
    """


@algorithm(
    nonlinear_effects_kernel, inputs=(Q, V), results=(NLE,), also_writes=(JOINT_V, JOINT_A, JOINT_F)
)
def nonlinear_effects(
    model: Model,
    data: Data,
    q: ArrayLike,
    v: ArrayLike,
    *,
    threads: int = 1,
    out: OutArrays | None = None,
) -> Array:
    """Compute Coriolis, centrifugal and gravity torques: ``rnea`` at zero acceleration.

    Featherstone (2008), table 5.1; O(n).

    Examples
    --------
    >>> nle = dyn_ros.nonlinear_effects(model, data, q, v)
    >>> np.allclose(nle, dyn_ros.rnea(model, data, q, v, np.zeros(model.nv)))
    True
    """


@algorithm(generalized_gravity_kernel, inputs=(Q,), results=(G,), also_writes=(JOINT_A, JOINT_F))
def generalized_gravity(
    model: Model, data: Data, q: ArrayLike, *, threads: int = 1, out: OutArrays | None = None
) -> Array:
    """Compute gravity torques, the gradient of the potential energy: ``rnea`` at rest.

    Featherstone (2008), table 5.1 with v = a = 0; O(n).

    Examples
    --------
    The torques that hold the arm still:

    >>> g = dyn_ros.generalized_gravity(model, data, q).copy()
    >>> print(g.round(2))
    [ 0.    8.17 -1.27 -7.69 -0.27 -1.35  0.  ]
    >>> np.allclose(dyn_ros.aba(model, data, q, np.zeros(7), g), 0.0)
    True
    """


@algorithm(
    static_torque_kernel,
    inputs=(Q, F_EXT),
    results=(TAU,),
    optional=(F_EXT,),
    also_writes=(JOINT_A, JOINT_F),
)
def static_torque(
    model: Model,
    data: Data,
    q: ArrayLike,
    f_ext: ArrayLike,
    *,
    threads: int = 1,
    out: OutArrays | None = None,
) -> Array:
    """Compute the torques that hold the robot still under external forces, g - J' f_ext.

    Featherstone (2008), table 5.1 with v = a = 0; O(n).

    Examples
    --------
    A load of 10 N that pulls the tool down, along -z of the world:

    >>> load = model.external_forces({"tool": [0.0, 0.0, -10.0, 0.0, 0.0, 0.0]}, q, axes="world")
    >>> tau = dyn_ros.static_torque(model, data, q, load).copy()
    >>> J = dyn_ros.frame_jacobian(model, data, q, "tool", ReferenceFrame.LOCAL_WORLD_ALIGNED)
    >>> np.allclose(tau, dyn_ros.generalized_gravity(model, data, q) + 10.0 * J[2])
    True
    """
