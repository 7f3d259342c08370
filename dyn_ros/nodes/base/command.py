# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The output `~/command`: torques for an effort controller of ros2_control."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np
from rclpy.parameter import Parameter
from std_msgs.msg import Float64MultiArray

from dyn_ros.engine.kernel.types import Array
from dyn_ros.engine.model.coordinates import is_actuated

from ...cdr.template import Template
from ...states.joint_states import Rejected
from ..messages import conversions
from ..robot import RobotContext, SettingError, State, Terms
from .dispatch import Compute, Output
from .lifecycle import BaseNode
from .parameters import Spec

Torques: TypeAlias = Callable[[RobotContext, State, Terms], "Array | None"]
"""Returns the torques of all rows of the model, (nv,), or None if an input is missing."""


def specs(*choices: str) -> tuple[Spec, ...]:
    """Return the parameters, with the choices of torques other than "none"."""
    return (
        Spec(
            "command",
            "none",
            "Torques to publish on ~/command for an effort controller.",
            choices=("none", *choices),
        ),
        Spec(
            "command_scale",
            Parameter.Type.DOUBLE_ARRAY,
            "Factor from 0 to 1 for each row of ~/command, or one for all. Empty: 0.",
            limits=(0.0, 1.0),
        ),
    )


class Command:
    """The output `~/command` of a node with the parameters `specs`: torques, clipped to limits.

    `choices` has, for each choice of torques, what it reads, as a callable `Output.reads`, and the
    function that returns them.
    """

    def __init__(
        self, node: BaseNode, choices: Mapping[str, tuple[Callable[[], Iterable[str]], Torques]]
    ) -> None:
        self._node, self._choices = node, choices
        self._stopped = ""  # the reason; empty while it is published
        self._published = 0  # messages since the last `details`
        self._publishes = False  # whether there were any before that
        self.output = Output("~/command", Float64MultiArray, self._make, self._reads, stamped=False)

    def _reads(self) -> Iterable[str] | None:
        choice = self._node.parameters.values["command"]
        return None if choice == "none" else self._choices[choice][0]()

    def _make(self, robot: RobotContext) -> Compute:
        """`~/command`: torques times `command_scale`, in the order of `joints`."""
        rows, names = _motors(robot)
        limits = np.maximum(robot.model.effort_limit[rows], 0.0)
        message = Float64MultiArray(data=conversions.zeros(len(rows)))
        template = Template(message)
        data, parameters = template.array("data"), self._node.parameters
        scales = lru_cache(1)(lambda changes: self.scales(robot, parameters.values))

        def commanded(state: State, terms: Terms) -> Array:
            """Return the torques before clipping; a ValueError states why there are none."""
            factors = scales(parameters.changes)
            torques = self._choices[parameters.values["command"]][1](robot, state, terms)
            if torques is None:
                raise Rejected("an input is missing that the torques depend on")
            wanted = factors * torques[rows]
            if not np.isfinite(wanted).all():
                raise Rejected(
                    f"the torque of {names[np.argmin(np.isfinite(wanted))]} is not finite"
                )
            return wanted

        def compute(state: State, terms: Terms) -> Template | None:
            try:
                wanted = commanded(state, terms)
            except ValueError as error:
                self._stop(str(error))
                return None
            np.clip(wanted, -limits, limits, out=data)
            beyond = np.flatnonzero(data != wanted)
            if len(beyond):
                self._clipped(names[beyond[0]], wanted[beyond[0]], limits[beyond[0]])
            self._published += 1
            self._stopped = ""
            return template

        return compute

    def scales(self, robot: RobotContext, values: Mapping[str, Any]) -> Array:
        """Return the factors in command_scale; a ValueError if they do not fit the robot."""
        count, scales = len(_motors(robot)[0]), values["command_scale"]
        if len(scales) not in (0, 1, count):
            raise SettingError(
                "command_scale",
                f"expected one number, or {count} for "
                f"{', '.join(_motors(robot)[1])}; got {len(scales)}",
            )
        return np.broadcast_to(np.array(scales or [0.0]), count)

    def _clipped(self, name: str, torque: float, limit: float) -> None:
        report = self._node.report
        report.count.clipped += 1
        report.log(
            "command",
            f"~/command is clipped: {name} would get {torque:.6g}, but its "
            f"effort limit is {limit:.6g}",
        )

    def _stop(self, reason: str) -> None:
        self._published = 0
        if reason != self._stopped:
            self._stopped = reason
            self._node.report.log("command stopped", f"~/command stopped: {reason}")

    def stop(self, reason: str) -> None:
        """Record why the node publishes nothing anymore, if it has published."""
        if self._published or self._publishes:
            self._stop(reason)
        self._publishes = False

    def details(self, waiting: str) -> dict[str, str]:
        """Return the text for diagnostics, given what the node waits for; resets the counter."""
        choice, published = self._node.parameters.values["command"], self._published
        if choice == "none":
            self._stopped = ""
        elif not published and waiting:
            self.stop(waiting)
            self._stopped = waiting
        self._publishes, self._published = published > 0, 0
        state = "published" if published else self._stopped or "no subscriber"
        return {
            "command": choice if choice == "none" else f"{choice}: {state}",
            "commands clipped": str(self._node.report.count.clipped),
        }


def _motors(robot: RobotContext) -> tuple[list[int], list[str]]:
    """Return the published rows of joints with one coordinate, and their names."""
    model = robot.model
    single = is_actuated(model)
    rows = [row for row in np.arange(model.nv)[robot.rows].tolist() if single[row]]
    return rows, [model.velocity_names[row] for row in rows]
