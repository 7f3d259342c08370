# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""A robot as one body, what the ground exerts on its feet, and points on the ground."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, cast

import numpy as np

import dyn_ros
from dyn_ros import Contact, ReferenceFrame
from dyn_ros.engine.algorithms.contacts.contacts import Dimension
from dyn_ros.engine.algorithms.contacts.packed import contact_table
from dyn_ros.engine.kernel.types import Array
from dyn_ros.engine.model.bodies import Body, join_bodies, move_reference_point

from ...states.joint_states import Rejected, State, abbreviated, duplicates
from .context import RobotContext, Terms, blamed_on

COMPOSITE_TERMS = "com", "Ig", "hg"  # that `composite_body` reads
TOO_LARGE = "the numbers in the state are too large to compute with"
LEAST_SUPPORT = 1e-3  # of the weight: with less vertical force, no point on the ground is known
_ROUNDING = 1e-14  # of the largest coordinate: a point so close to an edge is on it


class CompositeBody(NamedTuple):
    body: Body
    momentum: Sequence[float] | None  # (6,) about the center of mass; None: unknown velocity
    lever: Sequence[float]  # from the robot's center of mass to that of the moving links


def composite_body(robot: RobotContext, state: State, terms: Terms) -> CompositeBody:
    """Return the robot as one body; computed once for each state."""
    return robot.once(state, "composite body", lambda: _computed(robot, state, terms))


def _computed(robot: RobotContext, state: State, terms: Terms) -> CompositeBody:
    moving = Body.of_links(terms.Ig, terms.com)
    if not math.isfinite(moving.mass + sum(moving.com) + sum(moving.rotational)):
        raise Rejected(TOO_LARGE)
    body, lever = join_bodies(moving, robot.base)
    momentum = None if state.v is None else move_reference_point(lever, terms.hg.tolist())
    return CompositeBody(body, momentum, lever)


class Support(NamedTuple):
    """The forces of the ground on a robot in one state, in the axes of the world."""

    active: Array  # (n,): whether each frame is in contact; other forces are zero
    points: Array  # (n, 3): where the forces act, the origins of the frames [m]
    forces: Array  # (n, 6): force and moment [N, N m]
    acceleration: Array | None  # (nv,); None: unknown, and the forces are those without it
    rank: int
    residual: float  # largest generalized force that they do not explain [N m, N]


class ContactFrames(NamedTuple):
    """The frames on which the ground acts, in the axes of the world."""

    indices: list[int]
    contacts: list[Contact]

    @classmethod
    def of(cls, robot: RobotContext, values: Mapping[str, Any]) -> ContactFrames:
        """Return those in the parameters; a ValueError names the parameter."""
        frames: Sequence[str] = values["contact_frames"]
        repeated = duplicates(frames)
        if repeated:
            raise Rejected(f"contact_frames: duplicate names: {abbreviated(repeated)}")
        dimension = cast(Dimension, values["contact_dimension"])
        contacts = [
            Contact(frame, dimension, ReferenceFrame.LOCAL_WORLD_ALIGNED) for frame in frames
        ]
        with blamed_on("contact_frames"):
            contact_table(robot.model, robot.data, contacts)
        return cls([robot.model.frame_index(frame) for frame in frames], contacts)


def support(
    robot: RobotContext,
    state: State,
    terms: Terms,
    feet: ContactFrames,
    active: Array,
    values: Mapping[str, Any],
) -> Support | None:
    """Return the forces on the feet that are active; None if the state lacks an input."""
    contacts = [contact for contact, holds in zip(feet.contacts, active) if holds]
    solved = _solved(robot, state, values["acceleration_source"], contacts)
    if solved is None:
        return None
    acceleration, solution, residual = solved
    if not (
        np.isfinite(solution.lambda_c).all()
        and (acceleration is None or np.isfinite(acceleration).all())
    ):
        raise Rejected(TOO_LARGE)
    forces, dimension = np.zeros((len(active), 6)), values["contact_dimension"]
    forces[active, :dimension] = solution.lambda_c.reshape(-1, dimension)
    return Support(
        active, terms.oMf[feet.indices, :3, 3], forces, acceleration, solution.rank, residual
    )


def _solved(
    robot: RobotContext,
    state: State,
    source: str,
    contacts: Sequence[Contact],
) -> tuple[Array | None, dyn_ros.ContactForces, float] | None:
    """Return acceleration, forces and residual for an acceleration_source."""
    model, data, q, v, tau = robot.model, robot.data, state.q, state.v, state.effort
    if tau is None:
        return None
    if source == "forward_dynamics":
        if v is None:
            return None
        a, forces = dyn_ros.contact_dynamics(model, data, q, v, tau, contacts)
        return a.copy(), forces, 0.0
    known, still = state.acceleration, np.zeros(model.nv)
    if source == "none":
        known = None
    forces = dyn_ros.contact_forces(
        model, data, q, still if v is None else v, still if known is None else known, tau, contacts
    )
    return known, forces, forces.residual


def reads(values: Mapping[str, Any]) -> tuple[str, ...]:
    """Return what `support` reads with these parameters; see `Output.reads`."""
    if not values["contact_frames"]:
        return ()
    if values["acceleration_source"] == "finite_difference":
        return "oMf", "effort", "acceleration"
    return "oMf", "effort"


def rate_reads(values: Mapping[str, Any]) -> tuple[str, ...]:
    """Return what the rates of the momentum are computed from; see `Output.reads`."""
    if values["acceleration_source"] == "none":
        return COMPOSITE_TERMS
    if values["acceleration_source"] == "finite_difference":
        return *COMPOSITE_TERMS, "Ag", "dhg_drift", "acceleration"
    return (*COMPOSITE_TERMS, "Ag", "dhg_drift", "effort", *reads(values))


def zero_moment_point(
    force: Array, moment: Array, up: Array, height: float, weight: float
) -> Array:
    """Point on the ground about which forces have no horizontal moment.

    For the forces that balance gravity and the rate of the centroidal momentum, it is the zero
    moment point (Vukobratovic and Borovac 2004); for those of contacts, the center of pressure, if
    all contacts are on the ground (Sardain and Bessonnet 2004).

    `force` is the sum of the forces [N], `moment` theirs about the origin [N m], `up` the unit
    normal of the ground, which is `height` above the origin [m]. Forces that barely push up,
    compared with the `weight` of the robot [N], are `Rejected`.
    """
    vertical = float(force @ up)
    if not vertical > LEAST_SUPPORT * weight:
        raise Rejected(
            f"the ground exerts a vertical force of {vertical:.6g} N, expected more "
            f"than {LEAST_SUPPORT:g} of the weight, {weight:.6g} N"
        )
    point = (np.cross(up, moment) + height * force) / vertical
    if not np.isfinite(point).all():
        raise Rejected(
            f"the forces of the ground, {vertical:.6g} N up, are too large to compute with"
        )
    return point


def moment_about_origin(forces: Array, points: Array) -> Array:
    """Sum of wrenches (n, 6) that act at points (n, 3), about the origin: force and moment (6,)."""
    total: Array = forces.sum(axis=0)
    total[3:] += np.cross(points, forces[:, :3]).sum(axis=0)
    return total


def convex_hull(points: Array) -> Array:
    """Corners of the convex hull of points (n, 2), counterclockwise (Andrew 1979).

    Without points on an edge; both ends if all points are on one line.
    """
    ordered = np.unique(points, axis=0)  # sorted by x, then by y
    if len(ordered) < 3:
        return ordered
    least = _ROUNDING * float(np.abs(ordered).max())
    return np.array(_chain(ordered, least)[:-1] + _chain(ordered[::-1], least)[:-1])


def _chain(points: Array, least: float) -> list[Array]:
    """Return the corners from the first to the last point, at which the chain turns left."""
    corners: list[Array] = []
    for point in points:
        while len(corners) > 1 and _distance(corners[-2], corners[-1], point) <= least:
            corners.pop()
        corners.append(point)
    return corners


def _distance(a: Array, b: Array, c: Array) -> float:
    """How far b is to the right of the line from a to c."""
    along, toward = c - a, b - a
    return float((toward[0] * along[1] - toward[1] * along[0]) / math.hypot(*along))
