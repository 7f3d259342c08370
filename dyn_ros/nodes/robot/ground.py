# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""A robot as one body, the forces of the ground on its feet, and points on the ground."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, cast

import numpy as np

import dyn_ros
from dyn_ros import Contact, ReferenceFrame
from dyn_ros.engine.algorithms.contacts.contacts import Dimension
from dyn_ros.engine.algorithms.contacts.packed_contacts import pack_contacts
from dyn_ros.engine.kernel.types import Array
from dyn_ros.engine.model.composite_bodies import Body, join_bodies, move_reference_point

from ...states.joint_states import Rejected, State, abbreviate_names, find_duplicates
from .context import DynamicsTerms, RobotContext, parameter_errors

COMPOSITE_TERMS = "com", "Ig", "hg"
"""The terms that `composite_body` reads."""

TOO_LARGE = "the numbers in the state are too large to compute with"
MIN_VERTICAL_FORCE = 1e-3  # relative to the weight; below it, points on the ground are undefined
_COLLINEARITY_TOLERANCE = 1e-14  # relative to the largest coordinate; for points on an edge


class CompositeBody(NamedTuple):
    """A robot as one body, including a fixed base and payloads."""

    body: Body
    momentum: Sequence[float] | None  # (6,), about the center of mass; None: unknown velocity
    lever: Sequence[float]  # (3,), m; from the center of mass of all links to the moving links'


def composite_body(robot: RobotContext, state: State, terms: DynamicsTerms) -> CompositeBody:
    """Return the robot as one body, cached for the latest state."""
    return robot.compute_once(
        state, "composite body", lambda: _compute_composite_body(robot, state, terms)
    )


def _compute_composite_body(
    robot: RobotContext, state: State, terms: DynamicsTerms
) -> CompositeBody:
    """Join the moving links and the fixed base; raise `Rejected` if numbers are too large."""
    moving = Body.of_links(terms.Ig, terms.com)
    if not math.isfinite(moving.mass + sum(moving.com) + sum(moving.rotational)):
        raise Rejected(TOO_LARGE)
    body, lever = join_bodies(moving, robot.base)
    momentum = None if state.v is None else move_reference_point(lever, terms.hg.tolist())
    return CompositeBody(body, momentum, lever)


class GroundForces(NamedTuple):
    """The forces of the ground on the contact frames in one state, in the axes of the world."""

    active: Array  # (n,), bool; True in contact, other forces are zero
    points: Array  # (n, 3), m; origins of the frames, where the forces act
    forces: Array  # (n, 6), N, N m; force and moment
    acceleration: Array | None  # (nv,); None: unknown, forces are computed without it
    rank: int  # rank of the contact Jacobian
    residual: float  # N m, N; maximum generalized force that the forces do not explain


class ContactFrames(NamedTuple):
    """The frames on which the ground acts, in the axes of the world."""

    indices: list[int]
    contacts: list[Contact]

    @classmethod
    def from_parameters(cls, robot: RobotContext, values: Mapping[str, Any]) -> ContactFrames:
        """Return the frames in the parameters; raise a ValueError that names the parameter."""
        frames: Sequence[str] = values["contact_frames"]
        repeated = find_duplicates(frames)
        if repeated:
            raise Rejected(f"contact_frames: duplicate names: {abbreviate_names(repeated)}")
        dimension = cast(Dimension, values["contact_dimension"])
        contacts = [
            Contact(frame, dimension, ReferenceFrame.LOCAL_WORLD_ALIGNED) for frame in frames
        ]
        with parameter_errors("contact_frames"):
            pack_contacts(robot.model, robot.data, contacts)
        return cls([robot.model.frame_index(frame) for frame in frames], contacts)


def compute_ground_forces(
    robot: RobotContext,
    state: State,
    terms: DynamicsTerms,
    feet: ContactFrames,
    active: Array,
    values: Mapping[str, Any],
) -> GroundForces | None:
    """Return the forces on the active feet; None if an input is missing in the state.

    `active` (n,) is True for each of the n `feet` in contact; `values` are the node's parameters.
    Raises `Rejected` if numbers are too large.
    """
    contacts = [contact for contact, is_active in zip(feet.contacts, active) if is_active]
    result = _solve_forces(robot, state, values["acceleration_source"], contacts)
    if result is None:
        return None
    acceleration, solution, residual = result
    if not (
        np.isfinite(solution.lambda_c).all()
        and (acceleration is None or np.isfinite(acceleration).all())
    ):
        raise Rejected(TOO_LARGE)
    forces, dimension = np.zeros((len(active), 6)), values["contact_dimension"]
    forces[active, :dimension] = solution.lambda_c.reshape(-1, dimension)
    return GroundForces(
        active, terms.oMf[feet.indices, :3, 3], forces, acceleration, solution.rank, residual
    )


def _solve_forces(
    robot: RobotContext,
    state: State,
    acceleration_source: str,
    contacts: Sequence[Contact],
) -> tuple[Array | None, dyn_ros.ContactForces, float] | None:
    """Return accelerations (nv,), contact forces and residual; None if an input is missing.

    Accelerations are None if they are unknown; unknown velocities and accelerations count as zero.
    `acceleration_source` is the parameter of this name.
    """
    model, data, q, v, tau = robot.model, robot.data, state.q, state.v, robot.joint_torque(state)
    if tau is None:
        return None
    if acceleration_source == "forward_dynamics":
        if v is None:
            return None
        ddq, forces = dyn_ros.contact_dynamics(model, data, q, v, tau, contacts)
        return ddq.copy(), forces, 0.0
    a = None if acceleration_source == "none" else state.acceleration
    zero = np.zeros(model.nv)
    forces = dyn_ros.contact_forces(
        model, data, q, zero if v is None else v, zero if a is None else a, tau, contacts
    )
    return a, forces, forces.residual


def ground_force_reads(values: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the names of what `compute_ground_forces` reads, as in `Output.reads`."""
    if not values["contact_frames"]:
        return ()
    if values["acceleration_source"] == "finite_difference":
        return "oMf", "effort", "acceleration"
    return "oMf", "effort"


def rate_reads(values: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the names of what the rate of the momentum is computed from, as in `Output.reads`."""
    if values["acceleration_source"] == "none":
        return COMPOSITE_TERMS
    if values["acceleration_source"] == "finite_difference":
        return *COMPOSITE_TERMS, "Ag", "dhg_drift", "acceleration"
    return (*COMPOSITE_TERMS, "Ag", "dhg_drift", "effort", *ground_force_reads(values))


def zero_moment_point(
    force: Array, moment: Array, up: Array, height: float, weight: float
) -> Array:
    """Return the point on the ground about which forces have no horizontal moment.

    For the forces that balance gravity and the rate of the centroidal momentum, it is the zero
    moment point (Vukobratovic and Borovac 2004). For contact forces, it is the center of pressure,
    if all contacts are on the ground (Sardain and Bessonnet 2004).

    `force` is the sum of the forces [N], `moment` their sum of moments about the origin [N m], `up`
    the unit normal of the ground, and `height` its height above the origin [m]. Raises `Rejected`
    if the vertical force is too small, relative to the `weight` of the robot [N].
    """
    vertical = float(force @ up)
    if not vertical > MIN_VERTICAL_FORCE * weight:
        raise Rejected(
            f"the ground exerts a vertical force of {vertical:.6g} N, expected more "
            f"than {MIN_VERTICAL_FORCE:g} of the weight, {weight:.6g} N"
        )
    point = (np.cross(up, moment) + height * force) / vertical
    if not np.isfinite(point).all():
        raise Rejected(
            f"the forces of the ground, {vertical:.6g} N up, are too large to compute with"
        )
    return point


def moment_about_origin(forces: Array, points: Array) -> Array:
    """Return the sum (6,) of wrenches (n, 6) at points (n, 3): force, moment about the origin."""
    total: Array = forces.sum(axis=0)
    total[3:] += np.cross(points, forces[:, :3]).sum(axis=0)
    return total


def convex_hull(points: Array) -> Array:
    """Return the corners of the convex hull of points (n, 2), counterclockwise (Andrew 1979).

    Points on an edge are omitted. If all points are on one line, the corners are its ends.
    """
    ordered = np.unique(points, axis=0)  # sorted by x, then by y
    if len(ordered) < 3:
        return ordered
    tolerance = _COLLINEARITY_TOLERANCE * float(np.abs(ordered).max())
    return np.array(
        _hull_chain(ordered, tolerance)[:-1] + _hull_chain(ordered[::-1], tolerance)[:-1]
    )


def _hull_chain(points: Array, tolerance: float) -> list[Array]:
    """Return the corners from the first to the last point, at which the chain turns left."""
    corners: list[Array] = []
    for point in points:
        while (
            len(corners) > 1
            and _distance_right_of_line(corners[-2], corners[-1], point) <= tolerance
        ):
            corners.pop()
        corners.append(point)
    return corners


def _distance_right_of_line(a: Array, b: Array, c: Array) -> float:
    """Return the distance of b from the line from a to c, positive to its right."""
    along, toward = c - a, b - a
    return float((toward[0] * along[1] - toward[1] * along[0]) / math.hypot(*along))
