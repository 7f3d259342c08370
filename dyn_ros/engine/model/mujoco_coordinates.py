# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Coordinates of a model and of the mjModel that it was read from: states, armature and damping."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from ..kernel import lie
from ..kernel.types import Array, ArrayLike
from ..kernel.validation import require_model, shaped_array, valid_array
from .mjcf import MjModel, dof_armature, dof_damping, dof_friction
from .physical_constants import PhysicalConstants
from .urdf import ONE_DOF

__all__ = ["mujoco_to_state", "state_to_mujoco"]

_SIZES = {"floating": (7, 6), "spherical": (4, 3)}  # in qpos and qvel; others have one number


class _JointRows(NamedTuple):
    """The numbers of a joint in qpos and qvel, and in q and v."""

    joint: int
    kind: str
    qpos: slice
    qvel: slice
    q: slice
    v: slice


def _joint_rows(model: PhysicalConstants) -> Iterator[_JointRows]:
    """Yield the numbers of all joints; a mimic joint has the numbers of its master in q and v."""
    qpos = qvel = 0
    for index, joint in enumerate(model.tree.joints):
        nq, nv = _SIZES.get(joint.kind, (1, 1))
        yield _JointRows(
            index,
            joint.kind,
            slice(qpos, qpos + nq),
            slice(qvel, qvel + nv),
            slice(model.idx_q[index], model.idx_q[index] + nq),
            slice(model.idx_v[index], model.idx_v[index] + nv),
        )
        qpos, qvel = qpos + nq, qvel + nv


def _sizes(model: PhysicalConstants) -> tuple[int, int]:
    """Return the lengths of qpos and qvel."""
    sizes = [_SIZES.get(joint.kind, (1, 1)) for joint in model.tree.joints]
    return sum(nq for nq, _ in sizes), sum(nv for _, nv in sizes)


def assign_dof_constants(model: PhysicalConstants, source: MjModel) -> None:
    """Set the armature of all coordinates, and the damping and friction of ball and free joints.

    The armature of mimic joints is reflected to their master.
    """
    armature, damping, friction = dof_armature(source), dof_damping(source), dof_friction(source)
    for row in _joint_rows(model):
        rule = model.tree.joints[row.joint].mimic
        ratio = rule.multiplier if rule else 1.0
        model.armature[row.v] += ratio * ratio * armature[row.qvel]
        if row.kind not in ONE_DOF:
            model.damping[row.v] = damping[row.qvel]
            model.friction[row.v] = friction[row.qvel]


def mujoco_to_state(
    model: PhysicalConstants, qpos: ArrayLike, qvel: ArrayLike
) -> tuple[Array, Array]:
    """Convert positions and velocities of MuJoCo to q and v of a model.

    MuJoCo writes quaternions as w x y z, and the linear velocity of a free joint in the axes of the
    world. All other numbers are the same, in the same order. The numbers of mimic joints are
    dropped, since they follow their masters.

    Parameters
    ----------
    model : Model
        From ``Model.from_mujoco``.
    qpos : (..., nq of MuJoCo) array_like
        As ``mjData.qpos`` [rad, m].
    qvel : (..., nv of MuJoCo) array_like
        As ``mjData.qvel`` [rad/s, m/s].

    Returns
    -------
    q : (..., nq) ndarray
        Positions [rad, m].
    v : (..., nv) ndarray
        Velocities [rad/s, m/s]; a free joint has its velocities in the axes of its body.

    Raises
    ------
    ValueError
        Another shape, or a number that is not finite.

    Notes
    -----
    Torques of ``rnea`` equal ``mj_inverse`` without passive forces and constraints. For a
    free joint with the rotation R and the velocities v, w in the body, the accelerations are
    R' qacc - w x v and the forces R' qfrc in their linear parts.

    Examples
    --------
    >>> ball = "<worldbody><body><freejoint/><geom size='0.1'/></body></worldbody>"
    >>> robot = dyn_ros.Model.from_mujoco(f"<mujoco>{ball}</mujoco>")
    >>> upside_down = [0.0, 0.0, 1.0, 0.0, 1.0, 0.0, 0.0]
    >>> q, v = dyn_ros.mujoco_to_state(robot, upside_down, [0.0, 0.0, 2.0, 0.0, 0.0, 0.0])
    >>> print(q, v + 0.0)
    [0. 0. 1. 1. 0. 0. 0.] [ 0.  0. -2.  0.  0.  0.]
    """
    nqpos, nqvel = _sizes(require_model(model))
    positions = shaped_array("qpos", qpos, (nqpos,), leading=True)
    velocities = shaped_array("qvel", qvel, (nqvel,), leading=True)
    q = np.empty((*positions.shape[:-1], model.nq))
    v = np.empty((*velocities.shape[:-1], model.nv))
    for row in _joint_rows(model):
        if model.tree.joints[row.joint].mimic is not None:
            continue
        position, velocity = positions[..., row.qpos], velocities[..., row.qvel]
        if row.kind in _SIZES:
            quaternion = np.roll(position[..., -4:], -1, -1)
            position = np.concatenate([position[..., :-4], quaternion], -1)
            if row.kind == "floating":
                linear = lie.rotate(lie.conjugate(quaternion), velocity[..., :3])
                velocity = np.concatenate([linear, velocity[..., 3:]], -1)
        q[..., row.q], v[..., row.v] = position, velocity
    return q, v


def state_to_mujoco(model: PhysicalConstants, q: ArrayLike, v: ArrayLike) -> tuple[Array, Array]:
    """Convert q and v of a model to positions and velocities of MuJoCo.

    The inverse of ``mujoco_to_state``. Mimic joints have the numbers that follow from their
    masters.

    Parameters
    ----------
    model : Model
        From ``Model.from_mujoco``.
    q : (nq,) or (B, nq) array_like
        Positions [rad, m].
    v : (nv,) or (B, nv) array_like
        Velocities [rad/s, m/s].

    Returns
    -------
    qpos : (nq of MuJoCo,) or (B, nq of MuJoCo) ndarray
        For ``mjData.qpos`` [rad, m].
    qvel : (nv of MuJoCo,) or (B, nv of MuJoCo) ndarray
        For ``mjData.qvel`` [rad/s, m/s].

    Raises
    ------
    ValueError
        Another shape, a number that is not finite, or a quaternion that is not unit.

    Examples
    --------
    >>> ball = "<worldbody><body><freejoint/><geom size='0.1'/></body></worldbody>"
    >>> robot = dyn_ros.Model.from_mujoco(f"<mujoco>{ball}</mujoco>")
    >>> qpos, qvel = dyn_ros.state_to_mujoco(robot, [0, 0, 1, 0, 0, 0, 1], [0, 0, 2, 0, 0, 0])
    >>> print(qpos, qvel)
    [0. 0. 1. 1. 0. 0. 0.] [0. 0. 2. 0. 0. 0.]
    """
    positions = valid_array(require_model(model), "q", ("nq",), q)
    velocities = valid_array(model, "v", ("nv",), v)
    nqpos, nqvel = _sizes(model)
    qpos = np.empty((*positions.shape[:-1], nqpos))
    qvel = np.empty((*velocities.shape[:-1], nqvel))
    for row in _joint_rows(model):
        position, velocity = positions[..., row.q], velocities[..., row.v]
        if rule := model.tree.joints[row.joint].mimic:
            position = rule.multiplier * position + rule.offset
            velocity = rule.multiplier * velocity
        elif row.kind in _SIZES:
            quaternion = position[..., -4:]
            position = np.concatenate([position[..., :-4], np.roll(quaternion, 1, -1)], -1)
            if row.kind == "floating":
                linear = lie.rotate(quaternion, velocity[..., :3])
                velocity = np.concatenate([linear, velocity[..., 3:]], -1)
        qpos[..., row.qpos], qvel[..., row.qvel] = position, velocity
    return qpos, qvel
