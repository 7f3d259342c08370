# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Frames, momentum and energy, as array expressions of the joint placements in the world.

A motion is (linear, angular), expressed in the world at its origin, unless a frame is named. All
joints carry bodies, and columns of motion subspaces are expressed in the world: see ``Robot``.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from ..engine.model.frames import ReferenceFrame
from ..engine.model.model import Model
from .library import Library
from .motion import cross, times


class BodyMotion(NamedTuple):
    """Columns in the world (..., ncolumns, 6), and velocities of bodies (..., njoints, 6)."""

    columns: Any
    velocities: Any


def rotation(X: Any) -> Any:
    """Return the rotation matrices of placements."""
    return X[..., :3, :3]


def translation(X: Any) -> Any:
    """Return the translations of placements."""
    return X[..., :3, 3]


def placed_motion(lib: Library, X: Any, m: Any) -> Any:
    """Return motions, expressed in frames with placements X, in the world."""
    R = rotation(X)
    angular = times(R, m[..., 3:])
    linear = times(R, m[..., :3]) + cross(lib, translation(X), angular)
    return lib.xp.concatenate([linear, angular], -1)


def world_columns(lib: Library, model: Model, placements: Any) -> Any:
    """Return the columns of the motion subspaces, expressed in the world."""
    robot = lib.robot(model)
    columns = lib.constant(robot.columns, placements)
    return placed_motion(lib, placements[..., lib.xp.asarray(robot.column_joints), :, :], columns)


def column_rates(lib: Library, model: Model, v: Any) -> Any:
    """Return the rate of the coordinate of each column, (..., ncolumns)."""
    return v @ lib.constant(lib.robot(model).column_velocities.T, v)


def body_motion(lib: Library, model: Model, placements: Any, v: Any) -> BodyMotion:
    """Return the columns, and the velocities of the bodies."""
    columns = world_columns(lib, model, placements)
    rates = column_rates(lib, model, v)[..., None] * columns
    carries = lib.constant(lib.robot(model).carries.T, rates)
    return BodyMotion(columns, carries @ rates)


# --- frames


def frame_placements(lib: Library, model: Model, placements: Any) -> Any:
    """Return the placements of all frames in the world, (..., nframes, 4, 4)."""
    robot, xp = lib.robot(model), lib.xp
    fixed = lib.eye(4, placements)
    lead = tuple(placements.shape[:-3])
    world = xp.broadcast_to(fixed, (*lead, 1, 4, 4))
    carriers = xp.concatenate([placements, world], -3)
    return carriers[..., lib.xp.asarray(robot.frame_joints), :, :] @ lib.constant(
        robot.frame_placements, placements
    )


def frame_placement(lib: Library, model: Model, placements: Any, frame: int) -> Any:
    """Return the placement of one frame, (..., 4, 4)."""
    robot = lib.robot(model)
    X = lib.constant(robot.frame_placements[frame], placements)
    joint = int(robot.frame_joints[frame])
    if joint < 0:
        return lib.xp.broadcast_to(X, (*placements.shape[:-3], 4, 4))
    return placements[..., joint, :, :] @ X


def in_reference_frame(lib: Library, X: Any, m: Any, reference_frame: int) -> Any:
    """Return motions (..., 6) of the world in the reference frame of a frame at X."""
    if reference_frame == ReferenceFrame.WORLD:
        return m
    linear = m[..., :3] + cross(lib, m[..., 3:], translation(X))
    angular = m[..., 3:]
    if reference_frame == ReferenceFrame.LOCAL:
        R = rotation(X).swapaxes(-1, -2)
        linear, angular = times(R, linear), times(R, angular)
    return lib.xp.concatenate([linear, angular], -1)


def carried_by(lib: Library, model: Model, joint: int, like: Any) -> Any:
    """Return 1 for the columns that carry a joint, -1 being the world, (ncolumns,)."""
    carries = lib.robot(model).carries
    return lib.constant(0.0 * carries[:, :1] if joint < 0 else carries[:, joint : joint + 1], like)[
        ..., 0
    ]


def jacobian_of_columns(lib: Library, model: Model, columns: Any) -> Any:
    """Return the matrix (..., 6, nv) of columns (..., ncolumns, 6)."""
    selection = lib.constant(lib.robot(model).column_velocities, columns)
    return columns.swapaxes(-1, -2) @ selection


def frame_jacobian(
    lib: Library, model: Model, placements: Any, frame: int, reference_frame: int
) -> Any:
    """Return the Jacobian of a frame, (..., 6, nv)."""
    columns = world_columns(lib, model, placements)
    joint = int(lib.robot(model).frame_joints[frame])
    columns = carried_by(lib, model, joint, columns)[..., None] * columns
    X = frame_placement(lib, model, placements, frame)[..., None, :, :]
    return jacobian_of_columns(lib, model, in_reference_frame(lib, X, columns, reference_frame))


def frame_velocity(
    lib: Library, model: Model, placements: Any, v: Any, frame: int, reference_frame: int
) -> Any:
    """Return the velocity of a frame, (..., 6)."""
    columns = world_columns(lib, model, placements)
    joint = int(lib.robot(model).frame_joints[frame])
    rates = carried_by(lib, model, joint, columns) * column_rates(lib, model, v)
    motion = (rates[..., None, :] @ columns)[..., 0, :]
    X = frame_placement(lib, model, placements, frame)
    return in_reference_frame(lib, X, motion, reference_frame)


# --- bodies


def _symmetric(lib: Library, numbers: Any) -> Any:
    """Return the matrices (..., 3, 3) of xx, xy, yy, xz, yz, zz."""
    xx, xy, yy, xz, yz, zz = (numbers[..., k] for k in range(6))
    rows = [xx, xy, xz, xy, yy, yz, xz, yz, zz]
    return lib.xp.stack(rows, -1).reshape((*numbers.shape[:-1], 3, 3))


def center_of_mass(lib: Library, placements: Any, parameters: Any) -> Any:
    """Return the center of mass of bodies with inertial parameters (..., njoints, 10)."""
    mass, first_moment = parameters[..., :1], parameters[..., 1:4]
    moments = mass * translation(placements) + times(rotation(placements), first_moment)
    return moments.sum(-2) / mass.sum(-2)


def body_momenta(lib: Library, placements: Any, velocities: Any, parameters: Any) -> Any:
    """Return the momenta of bodies (..., njoints, 6), expressed in the world at its origin."""
    R, p = rotation(placements), translation(placements)
    inverse = R.swapaxes(-1, -2)
    w = times(inverse, velocities[..., 3:])
    u = times(inverse, velocities[..., :3] + cross(lib, velocities[..., 3:], p))
    mass, first_moment = parameters[..., :1], parameters[..., 1:4]
    linear = times(R, mass * u + cross(lib, w, first_moment))
    spin = times(_symmetric(lib, parameters[..., 4:]), w) + cross(lib, first_moment, u)
    return lib.xp.concatenate([linear, times(R, spin) + cross(lib, p, linear)], -1)


def centroidal_momentum(
    lib: Library, model: Model, placements: Any, v: Any, parameters: Any
) -> Any:
    """Return the momentum about the center of mass, expressed in the world, (..., 6)."""
    velocities = body_motion(lib, model, placements, v).velocities
    total = body_momenta(lib, placements, velocities, parameters).sum(-2)
    com = center_of_mass(lib, placements, parameters)
    linear = total[..., :3]
    return lib.xp.concatenate([linear, total[..., 3:] - cross(lib, com, linear)], -1)


def kinetic_energy(
    lib: Library, model: Model, placements: Any, v: Any, parameters: Any, armature: Any
) -> Any:
    """Return the kinetic energy of bodies and rotors, (...)."""
    velocities = body_motion(lib, model, placements, v).velocities
    momenta = body_momenta(lib, placements, velocities, parameters)
    bodies = (momenta * velocities).sum(-1).sum(-1)
    return 0.5 * (bodies + (armature * v * v).sum(-1))


def potential_energy(lib: Library, placements: Any, parameters: Any, gravity: Any) -> Any:
    """Return the potential energy of bodies, zero at the world's origin, (...)."""
    mass, first_moment = parameters[..., :1], parameters[..., 1:4]
    moments = mass * translation(placements) + times(rotation(placements), first_moment)
    return -(moments.sum(-2) * gravity).sum(-1)
