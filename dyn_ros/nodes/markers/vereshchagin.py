# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Markers of vereshchagin_node: constraints, their forces, wrenches."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

import numpy as np

from dyn_ros import Model
from dyn_ros.engine.kernel.types import Array

from ...viewer.scene.marker_arrays import MarkerArrays, Screws
from ..base.markers import Draw, Kind, Look
from ..messages.constraints import Constraints
from ..robot import RobotContext, State, Terms
from .dynamics import NEWTON, WRENCH, placements_if, rotated, wrench


def constraint(node: Any, robot: RobotContext, look: Look) -> Draw:
    def directions(solution: Any, by_frame: _ByFrame, oMf: Array) -> tuple[list[int], Array]:
        directions = _normalized(by_frame.directions(solution.constraints, oMf))
        return by_frame.frames, directions

    return _screws(node, robot, look, directions)


def constraint_force(node: Any, robot: RobotContext, look: Look) -> Draw:
    def wrenches(solution: Any, by_frame: _ByFrame, oMf: Array) -> tuple[list[int], list[Array]]:
        directions = by_frame.directions(solution.constraints, oMf)
        forces = -solution.motion.nu[by_frame.order]
        return by_frame.distinct, [forces[own] @ directions[own] for own in by_frame.slices]

    return _screws(node, robot, look, wrenches)


def _screws(
    node: Any,
    robot: RobotContext,
    look: Look,
    read: Callable[[Any, _ByFrame, Array], tuple[list[int], Any]],
) -> Draw:
    """Return what shows the frames and the vectors (6,) that `read` returns of a solution."""
    screws, by_frame = Screws(look), _ByFrame(robot.model)

    def draw(state: State, terms: Terms) -> Iterable[MarkerArrays]:
        solution = node.solution(robot, state, terms)
        if solution is None:
            return screws.hide()
        frames, vectors = read(solution, by_frame, terms.oMf)
        return screws.show(range(len(vectors)), terms.oMf[frames, :3, 3], vectors)

    return draw


class _ByFrame:
    """Constraints in the `order` of their `frames`: those on one frame follow each other.

    `distinct` has each frame once, `slices` the constraints on it.
    """

    def __init__(self, model: Model) -> None:
        self._model = model
        self._known: Constraints | None = None

    def directions(self, constraints: Constraints, oMf: Array) -> Array:
        """Return the directions in the world, (m, 6), in this order."""
        if constraints is not self._known:
            self._known = constraints
            self._arrange(constraints)
        if self._axes is None:
            return self._directions
        return rotated(oMf[self._axes, :3, :3], self._directions)

    def _arrange(self, constraints: Constraints) -> None:
        index, axes = self._model.frame_index, constraints.axes
        self._axes = index(axes) if axes else None
        frames = [index(name) for name in constraints.frame]
        self.distinct = list(dict.fromkeys(frames))
        order = sorted(range(len(frames)), key=lambda i: self.distinct.index(frames[i]))
        self.order, self.frames = np.array(order, np.intp), [frames[i] for i in order]
        starts = [self.frames.index(frame) for frame in self.distinct]
        self.slices = list(map(slice, starts, [*starts[1:], len(frames)]))
        # without -0.0: its sign decides where a curved arrow starts
        self._directions = constraints.directions.T[self.order] + 0.0


def _normalized(vectors: Array) -> Array:
    """Scale vectors (n, 6) to norm 1, except zeros."""
    if not len(vectors):
        return vectors
    largest = abs(vectors).max(axis=1, keepdims=True)
    vectors = vectors / np.where(largest > 0.0, largest, 1.0)  # keeps the squares in range
    norms = np.sqrt((vectors * vectors).sum(axis=1, keepdims=True))
    return vectors / np.where(norms > 0.0, norms, 1.0)


def solution_reads(values: Mapping[str, Any]) -> tuple[str, ...]:
    """Return what `VereshchaginNode.solution` reads."""
    return ("g",) if values["feedforward"] == "gravity" else ()


def _constraint_reads(values: Mapping[str, Any]) -> tuple[str, ...]:
    return ("oMf", *solution_reads(values))


VERESHCHAGIN = (
    Kind(
        "constraint",
        constraint,
        "the directions of constraints",
        0.1,
        "Length or radius [m].",
        [0.51, 0.24, 0.49, 1.0],
        reads=_constraint_reads,
    ),
    Kind(
        "constraint_force",
        constraint_force,
        "the wrench of the constraints on each frame",
        0.01,
        "Length of 1 N, radius of 1 N m [m].",
        [0.6, 0.23, 0.0, 1.0],
        reads=_constraint_reads,
    ),
    Kind(
        "wrench",
        partial(wrench, "wrench_topics", "input_timeout"),
        WRENCH,
        *NEWTON,
        reads=placements_if("wrench_topics"),
    ),
)
