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
from dyn_ros.engine.model.coordinates import has_single_coordinate

from ...cdr.template import Template
from ...states.joint_states import Rejected
from ..messages import message_fields
from ..robot import DynamicsTerms, RobotContext, SettingError, State
from .dispatch import Compute, Output
from .lifecycle import BaseNode
from .node_parameters import Spec

TorqueFunction: TypeAlias = Callable[[RobotContext, State, DynamicsTerms], "Array | None"]
"""Returns the torques of all rows of the model, (nv,), or None if an input is missing."""


def command_parameters(*choices: str) -> tuple[Spec, ...]:
    """Return the node parameters of `~/command`.

    `choices` are the values of the parameter `command`, without "none".
    """
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


class CommandOutput:
    """The output `~/command` of a node: torques, clipped to the effort limits.

    The node has the parameters that `command_parameters` returns. `choices` maps each value of the
    parameter `command` to a callable as in `Output.reads`, and to the function that returns the
    torques.
    """

    def __init__(
        self,
        node: BaseNode,
        choices: Mapping[str, tuple[Callable[[], Iterable[str]], TorqueFunction]],
    ) -> None:
        self._node, self._choices = node, choices
        self._stop_reason = ""  # empty while `~/command` is published
        self._published = 0  # messages since the last call of `diagnostic_values`
        self._was_published = False  # value at the last call of `diagnostic_values`
        self.output = Output("~/command", Float64MultiArray, self._make, self._reads, stamped=False)

    def _reads(self) -> Iterable[str] | None:
        """Return what the chosen torques depend on, see `Output.reads`; None to publish nothing."""
        choice = self._node.parameters.values["command"]
        return None if choice == "none" else self._choices[choice][0]()

    def _make(self, robot: RobotContext) -> Compute:
        """Prepare `~/command`: torques times `command_scale`, in the order of `joints`."""
        rows, names = _actuated_rows(robot)
        limits = np.maximum(robot.model.effort_limit[rows], 0.0)
        message = Float64MultiArray(data=message_fields.zero_field(len(rows)))
        template = Template(message)
        data, parameters = template.array("data"), self._node.parameters
        scales = lru_cache(1)(lambda changes: self.scale_factors(robot, parameters.values))

        def scaled_torques(state: State, terms: DynamicsTerms) -> Array:
            """Return the torques before clipping; raise a ValueError if an input is missing."""
            if fault := robot.collector.jumps.command_fault():
                raise Rejected(fault)
            factors = scales(parameters.changes)
            torques = self._choices[parameters.values["command"]][1](robot, state, terms)
            if torques is None:
                raise Rejected("an input is missing that the torques depend on")
            scaled = factors * torques[rows]
            finite = np.isfinite(scaled)
            if not finite.all():
                raise Rejected(f"the torque of {names[np.argmin(finite)]} is not finite")
            return scaled

        def compute(state: State, terms: DynamicsTerms) -> Template | None:
            """Return `~/command`; log the reason and return None if it cannot be computed."""
            try:
                torques = scaled_torques(state, terms)
            except ValueError as error:
                self._log_stop(str(error))
                return None
            np.clip(torques, -limits, limits, out=data)
            clipped_rows = np.flatnonzero(data != torques)
            if len(clipped_rows):
                row = clipped_rows[0]
                self._report_clipping(names[row], torques[row], limits[row])
            self._published += 1
            self._stop_reason = ""
            return template

        return compute

    def scale_factors(self, robot: RobotContext, values: Mapping[str, Any]) -> Array:
        """Return a factor for each row; raise a `SettingError` if command_scale does not fit."""
        scales, names = values["command_scale"], _actuated_rows(robot)[1]
        count = len(names)
        if len(scales) not in (0, 1, count):
            raise SettingError(
                "command_scale",
                f"expected one number, or {count} for {', '.join(names)}; got {len(scales)}",
            )
        return np.broadcast_to(np.array(scales or [0.0]), count)

    def _report_clipping(self, name: str, torque: float, limit: float) -> None:
        """Count a message with clipped torques [N m, N]; log the first clipped row of it."""
        report = self._node.report
        report.count.clipped += 1
        report.log(
            "command",
            f"~/command is clipped: {name} would get {torque:.6g}, but its "
            f"effort limit is {limit:.6g}",
        )

    def _log_stop(self, reason: str) -> None:
        """Log why `~/command` stops, unless this reason was logged last."""
        self._published = 0
        if reason != self._stop_reason:
            self._stop_reason = reason
            self._node.report.log("command stopped", f"~/command stopped: {reason}")

    def stop(self, reason: str) -> None:
        """Log why `~/command` is no longer published, if it was."""
        if self._published or self._was_published:
            self._log_stop(reason)
        self._was_published = False

    def diagnostic_values(self, waiting: str) -> dict[str, str]:
        """Return values for the diagnostics, and restart the count of messages.

        `waiting` is the reason why the node publishes nothing, or empty.
        """
        choice, published = self._node.parameters.values["command"], self._published
        if choice == "none":
            self._stop_reason = ""
        elif not published and waiting:
            self.stop(waiting)
            self._stop_reason = waiting
        self._was_published, self._published = published > 0, 0
        status = "published" if published else self._stop_reason or "no subscriber"
        return {
            "command": choice if choice == "none" else f"{choice}: {status}",
            "commands clipped": str(self._node.report.count.clipped),
        }


def _actuated_rows(robot: RobotContext) -> tuple[list[int], list[str]]:
    """Return the published rows of joints with one coordinate, and their names."""
    model = robot.model
    is_single = has_single_coordinate(model)
    rows = [row for row in np.arange(model.nv)[robot.rows].tolist() if is_single[row]]
    return rows, [model.velocity_names[row] for row in rows]
