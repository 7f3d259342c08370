# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""What the ground exerts on the feet of a robot, from its efforts."""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, cast

import numpy as np

import dyn_ros
from dyn_ros import Contact, ReferenceFrame
from dyn_ros.engine.algorithms.contacts.contacts import Dimension
from dyn_ros.engine.algorithms.contacts.packed import contact_table
from dyn_ros.engine.kernel.types import Array
from dyn_ros.states.joint_states import duplicates

from ...states.joint_states import Rejected, abbreviated
from ...states.states import State
from .composite_body import COMPOSITE_TERMS, TOO_LARGE
from .context import RobotContext
from .terms import Terms


class Support(NamedTuple):
    """The forces of the ground on a robot in one state, in the axes of the world."""

    active: Array           # (n,): whether each frame is in contact; other forces are zero
    points: Array           # (n, 3): where the forces act, the origins of the frames [m]
    forces: Array           # (n, 6): force and moment [N, N m]
    acceleration: Array | None      # (nv,); None: unknown, and the forces are those without it
    rank: int
    residual: float         # largest generalized force that they do not explain [N m, N]


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
        contacts = [Contact(frame, dimension, ReferenceFrame.LOCAL_WORLD_ALIGNED)
                    for frame in frames]
        try:
            contact_table(robot.model, robot.data, contacts)
        except ValueError as error:
            raise Rejected(f"contact_frames: {error}") from None
        return cls([robot.model.frame_index(frame) for frame in frames], contacts)


def support(robot: RobotContext, state: State, terms: Terms, feet: ContactFrames, active: Array,
            values: Mapping[str, Any]) -> Support | None:
    """Return the forces on the feet that are active; None if the state lacks an input."""
    contacts = [contact for contact, holds in zip(feet.contacts, active) if holds]
    solved = _solved(robot, state, values["acceleration_source"], contacts)
    if solved is None:
        return None
    acceleration, solution, residual = solved
    if not (np.isfinite(solution.lambda_c).all()
            and (acceleration is None or np.isfinite(acceleration).all())):
        raise Rejected(TOO_LARGE)
    forces, dimension = np.zeros((len(active), 6)), values["contact_dimension"]
    forces[active, :dimension] = solution.lambda_c.reshape(-1, dimension)
    return Support(active, terms.oMf[feet.indices, :3, 3], forces, acceleration, solution.rank,
                   residual)


def _solved(robot: RobotContext, state: State, source: str, contacts: Sequence[Contact],
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
    forces = dyn_ros.contact_forces(model, data, q, still if v is None else v,
                                    still if known is None else known, tau, contacts)
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
