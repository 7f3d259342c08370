# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Placements, velocities and accelerations of all joints; Featherstone (2008), equations 4.6.

X = liMi transforms motions from a joint's frame to its parent's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, overload

from ...call.algorithm import Algorithm, algorithm, public
from ...call.caller import BatchOptions
from ...call.data import Data
from ...call.result_selection import ResultSelection
from ...kernel.types import Array, ArrayLike, OutArrays
from ...kernel.vocabulary import *
from ...model.model import Model

JOINT_ACC = field(
    "a",
    ("rows", 6),
    "Spatial acceleration (linear, angular) of each joint frame, expressed in it [m/s2, rad/s2].",
)
OV = field(
    "ov",
    ("rows", 6),
    "Velocity of each joint frame, expressed in the world, at its origin [m/s, rad/s].",
)
OA = field(
    "oa",
    ("rows", 6),
    "Spatial acceleration of each joint frame, expressed in the world, "
    "at its origin [m/s2, rad/s2].",
)
OA_GF = field(
    "oa_gf",
    ("rows", 6),
    "Spatial acceleration of each joint frame minus gravity, "
    "expressed in the world, at its origin [m/s2, rad/s2].",
)
OA_DRIFT = field(
    "oa_drift",
    ("rows", 6),
    "Spatial acceleration of each joint frame for zero joint accelerations, expressed "
    "in the world, at its origin [m/s2, rad/s2].",
)
OMF = field(
    "oMf",
    ("nframes", 4, 4),
    "Placement of each frame in the world, in the order of the frames, homogeneous [m].",
)

MOTION = (OMI, LIMI, JOINT_V, JOINT_ACC, OV, OA)  # the results of forward_kinematics
_NEEDS_VELOCITY = 1 << MOTION.index(JOINT_V) | 1 << MOTION.index(OV)
_NEEDS_ACCELERATION = 1 << MOTION.index(JOINT_ACC) | 1 << MOTION.index(OA)
_LESS_GRAVITY = 1 << len(MOTION)
_ALL = 2 * _LESS_GRAVITY - 1


@kernel
def place_in_world(r, i, X):
    """Store and return the placement of joint i in the world, with X that in its parent.

        oMi = oM_p liMi

    Writes OMI.
    """
    oMi = compose(placement(r, OMI, parent(r, i)), X)
    set_placement(r, OMI, i, oMi)
    return oMi


@kernel
def world_column(r, i, c, X):
    """Return column c of joint i, placed at X, in the world; with the multiplier of a mimic joint.

    X S_c
    """
    if kind(r, i) == REVOLUTE:
        u = rotate(X.rotation, scale(ratio(r, i), axis(r, i)))
        return Motion(cross(X.translation, u), u)
    if kind(r, i) == PRISMATIC:
        u = rotate(X.rotation, scale(ratio(r, i), axis(r, i)))
        return Motion(u, zero3(u[0]))
    return motion_to_parent(X, column(r, i, c))


@kernel
def place_joints(r):
    """Compute the placements of all joints in their parents and in the world.

        oMi = oM_p liMi

    Reads Q; writes LIMI, OMI.
    """
    for i in range(1, njoints(r) + 1):
        X = joint_placement(r, i)
        set_placement(r, LIMI, i, X)
        place_in_world(r, i, X)


@kernel
def store_motion_in_world(r, field, i, m):
    """Store a motion of joint i, expressed in its frame, in a field of motions in the world.

        m = oMi m

    Reads OMI; writes field.
    """
    X = placement(r, OMI, i)
    set_motion(r, field, i, motion_to_parent(X, m))


@kernel
def move_joints(r):
    """Compute velocities and accelerations of all joints, after ``place_joints``.

        v = X^-1 v_p + S qd
        a = X^-1 a_p + S qdd + v x S qd                     Featherstone (2008), table 5.1

    Reads V, A, LIMI, OMI; writes JOINT_V, JOINT_ACC, OV, OA.
    """
    clear_motion(r, JOINT_V, 0)
    clear_motion(r, JOINT_ACC, 0)
    for i in range(1, njoints(r) + 1):
        p = parent(r, i)
        X = placement(r, LIMI, i)
        v = add_subspace_times(r, i, motion_to_child(X, motion(r, JOINT_V, p)), V)
        a = motion_add(
            motion_to_child(X, motion(r, JOINT_ACC, p)),
            cross_subspace_times(r, i, v, V),
        )
        a = add_subspace_times(r, i, a, A)
        set_motion(r, JOINT_V, i, v)
        set_motion(r, JOINT_ACC, i, a)
        store_motion_in_world(r, OV, i, v)
        store_motion_in_world(r, OA, i, a)


@kernel
def subtract_gravity(r):
    """Compute a_gf and oa_gf from a and oa.

        a_gf = a - R' g,  oa_gf = oa - g

    Reads OMI, JOINT_ACC, OA; writes JOINT_A, OA_GF.
    """
    g = gravity(r)
    for i in range(1, njoints(r) + 1):
        R = placement(r, OMI, i).rotation
        a = motion(r, JOINT_ACC, i)
        oa = motion(r, OA, i)
        set_motion(
            r, JOINT_A, i, Motion(sub(a.linear, rotate_inverse(R, lift3(g, R[0]))), a.angular)
        )
        set_motion(r, OA_GF, i, Motion(sub(oa.linear, g), oa.angular))


@kernel
def store_velocities(r):
    """Compute velocities of all joints, as ``move_joints``, after ``place_joints``.

        v = X^-1 v_p + S qd

    Reads V, LIMI, OMI; writes JOINT_V, OV.
    """
    clear_motion(r, JOINT_V, 0)
    for i in range(1, njoints(r) + 1):
        v = motion_to_child(placement(r, LIMI, i), motion(r, JOINT_V, parent(r, i)))
        v = add_subspace_times(r, i, v, V)
        set_motion(r, JOINT_V, i, v)
        store_motion_in_world(r, OV, i, v)


@kernel
def forward_kinematics_kernel(r):
    """Compute what the call asks for of the motion of all joints.

        oMi = oM_p liMi
        v = X^-1 v_p + S qd
        a = X^-1 a_p + S qdd + v x S qd

    Reads Q; writes V, A, LIMI, OMI, JOINT_V, JOINT_A, JOINT_ACC, OV, OA, OA_GF.
    """
    place_joints(r)
    if is_requested(r, _NEEDS_ACCELERATION):
        zero_unless_input(r, V)
        zero_unless_input(r, A)
        move_joints(r)
    elif is_requested(r, _NEEDS_VELOCITY):
        zero_unless_input(r, V)
        store_velocities(r)
    if is_requested(r, _LESS_GRAVITY) and not holds_lanes(r.work):  # a batch does not return them
        subtract_gravity(r)


@kernel
def accelerations_less_gravity_kernel(r):
    """Compute accelerations of all joints minus gravity.

        a_gf = a - R' g,  oa_gf = oa - g

    Reads Q; writes V, A, LIMI, OMI, JOINT_V, JOINT_A, JOINT_ACC, OV, OA, OA_GF.
    """
    place_joints(r)
    zero_unless_input(r, V)
    zero_unless_input(r, A)
    move_joints(r)
    subtract_gravity(r)


@kernel
def bias_acceleration_kernel(r):
    """Compute the accelerations of all joints for zero joint accelerations, qdd = 0.

        a = X^-1 a_p + v x S qd

    Reads Q, V; writes A, LIMI, OMI, JOINT_V, JOINT_ACC, OV, OA, OA_DRIFT.
    """
    clear_entries(r, A, nv(r))
    place_joints(r)
    move_joints(r)
    for k in range(6 * (njoints(r) + 1)):
        set_entry(r, OA_DRIFT, k, entry(r, OA, k))


@kernel
def place_frames(r):
    """Store oMf, after oMi. Reads OMI; writes OMF."""
    for f in range(nframes(r)):
        X = placement(r, OMI, frame_parent(r, f))
        set_placement(r, OMF, f, compose(X, frame_placement(r, f)))


_algorithm = Algorithm(
    "forward_kinematics",
    forward_kinematics_kernel,
    inputs=(Q, V, A),
    results=MOTION,
    optional=(V, A),
    also_writes=(JOINT_A, OA_GF),
    options=(TERMS,),
)
_all = _algorithm.make_call()
_selection = ResultSelection(_algorithm)


@overload
def forward_kinematics(
    model: Model,
    data: Data,
    q: ArrayLike,
    v: ArrayLike | None = None,
    a: ArrayLike | None = None,
    only: None = None,
    *,
    threads: int = 1,
    out: OutArrays | None = None,
) -> tuple[Array, Array, Array, Array, Array, Array]: ...


@overload
def forward_kinematics(
    model: Model,
    data: Data,
    q: ArrayLike,
    v: ArrayLike | None = None,
    a: ArrayLike | None = None,
    *,
    only: Sequence[str],
    threads: int = 1,
    out: OutArrays | None = None,
) -> Any: ...


@public
def forward_kinematics(
    model: Model,
    data: Data,
    q: ArrayLike,
    v: ArrayLike | None = None,
    a: ArrayLike | None = None,
    only: Sequence[str] | None = None,
    *,
    threads: int = 1,
    out: OutArrays | None = None,
) -> tuple[Array, Array, Array, Array, Array, Array]:
    """Compute the placement, velocity and acceleration of every joint frame.

    Featherstone (2008), table 5.1, first loop; O(n). With ``only``, returns a tuple of these
    results in the given order, or the result itself if there is only one.

    Parameters
    ----------
    only : sequence of str, optional
        Names of the results to compute, such as ``("oMi", "ov")``; other fields of ``data`` do not
        change. A batch has memory for these results alone. Default: all.

    Examples
    --------
    The placement of the last joint, and its velocity in the world:

    >>> motion = dyn_ros.forward_kinematics(model, data, q, v, a)
    >>> data.oMi[-1].shape, np.allclose(data.ov[-1], dyn_ros.joint_jacobians(model, data, q) @ v)
    ((4, 4), True)
    >>> oMi = dyn_ros.forward_kinematics(model, data, q, only=("oMi",))
    """
    if only is None:
        return _all(
            model, data, threads if out is None else BatchOptions(threads, out), _ALL, q, v, a
        )
    terms, call = _selection.find_call(only)
    return call(model, data, threads if out is None else BatchOptions(threads, out), terms, q, v, a)


@algorithm(
    accelerations_less_gravity_kernel,
    inputs=(Q, V, A),
    results=(JOINT_A, OA_GF),
    optional=(V, A),
    also_writes=(OMI, LIMI, JOINT_V, JOINT_ACC, OV, OA),
)
def accelerations_less_gravity(
    model: Model,
    data: Data,
    q: ArrayLike,
    v: ArrayLike | None = None,
    a: ArrayLike | None = None,
    *,
    threads: int = 1,
    out: OutArrays | None = None,
) -> tuple[Array, Array]:
    """Compute the spatial accelerations of all joint frames minus gravity, as used in rnea.

    Featherstone (2008), table 5.1, first loop; O(n).

    Examples
    --------
    At rest, a body accelerates as if the arm were lifted with 9.81 m/s2:

    >>> a_gf, oa_gf = dyn_ros.accelerations_less_gravity(model, data, q)
    >>> print(oa_gf[-1].round(2))
    [0.   0.   9.81 0.   0.   0.  ]
    """


@algorithm(bias_acceleration_kernel, inputs=(Q, V), results=(OA_DRIFT,))
def bias_acceleration(
    model: Model,
    data: Data,
    q: ArrayLike,
    v: ArrayLike,
    *,
    threads: int = 1,
    out: OutArrays | None = None,
) -> Array:
    """Compute the spatial acceleration of every joint frame for zero joint accelerations.

    Featherstone (2008), table 5.1, first loop with a = 0 and no gravity; O(n).

    Examples
    --------
    >>> oa_drift = dyn_ros.bias_acceleration(model, data, q, v).copy()
    >>> still = dyn_ros.forward_kinematics(model, data, q, v, np.zeros(7))
    >>> np.allclose(oa_drift, data.oa)
    True
    """


@algorithm(
    sequence(place_joints, place_frames), inputs=(Q,), results=(OMF,), also_writes=(OMI, LIMI)
)
def frame_placements(
    model: Model, data: Data, q: ArrayLike, *, threads: int = 1, out: OutArrays | None = None
) -> Array:
    """Compute the placement of every frame: joints, fixed joints and links.

    Examples
    --------
    >>> oMf = dyn_ros.frame_placements(model, data, q)
    >>> print(oMf[model.frame_index("tool"), :3, 3].round(3))
    [0.139 0.104 0.999]
    """
