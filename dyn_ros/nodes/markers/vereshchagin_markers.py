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
from ..base.marker_output import Draw, MarkerKind, MarkerStyle
from ..messages.acceleration_constraints import Constraints
from ..robot import DynamicsTerms, RobotContext, State
from .dynamics_markers import (
    WRENCH_SCALE,
    WRENCH_TEXT,
    make_wrench_markers,
    placement_reads,
    rotate_vectors,
)


def make_constraint_markers(node: Any, robot: RobotContext, style: MarkerStyle) -> Draw:
    """Return the `Draw` of the direction of each constraint."""

    def select_directions(
        solution: Any, groups: _FrameGroups, oMf: Array
    ) -> tuple[list[int], Array]:
        directions = _normalize_vectors(groups.directions(solution.constraints, oMf))
        return groups.frames, directions

    return _make_screw_markers(node, robot, style, select_directions)


def make_constraint_force_markers(node: Any, robot: RobotContext, style: MarkerStyle) -> Draw:
    """Return the `Draw` of the constraint wrench on each frame."""

    def select_wrenches(
        solution: Any, groups: _FrameGroups, oMf: Array
    ) -> tuple[list[int], list[Array]]:
        directions = groups.directions(solution.constraints, oMf)
        forces = -solution.motion.nu[groups.order]
        return groups.unique_frames, [forces[rows] @ directions[rows] for rows in groups.slices]

    return _make_screw_markers(node, robot, style, select_wrenches)


def _make_screw_markers(
    node: Any,
    robot: RobotContext,
    style: MarkerStyle,
    read: Callable[[Any, _FrameGroups, Array], tuple[list[int], Any]],
) -> Draw:
    """Return the `Draw` of the vectors (n, 6) at n frames that `read` takes from a solution."""
    screws, groups = Screws(style), _FrameGroups(robot.model)

    def draw(state: State, terms: DynamicsTerms) -> Iterable[MarkerArrays]:
        solution = node.solution(robot, state, terms)
        if solution is None:
            return screws.hide()
        frames, vectors = read(solution, groups, terms.oMf)
        return screws.show(range(len(vectors)), terms.oMf[frames, :3, 3], vectors)

    return draw


class _FrameGroups:
    """Constraints grouped by frame.

    `order` sorts the constraints by frame, and `frames` are the frames in this order.
    `unique_frames` has each frame once, and `slices` the range of constraints on each.
    """

    def __init__(self, model: Model) -> None:
        self._model = model
        self._constraints: Constraints | None = None

    def directions(self, constraints: Constraints, oMf: Array) -> Array:
        """Return the directions in the axes of the world, (m, 6), in this order."""
        if constraints is not self._constraints:
            self._constraints = constraints
            self._arrange(constraints)
        if self._axes is None:
            return self._directions
        return rotate_vectors(oMf[self._axes, :3, :3], self._directions)

    def _arrange(self, constraints: Constraints) -> None:
        """Set the order, the frames and the directions for these constraints."""
        index, axes = self._model.frame_index, constraints.axes
        self._axes = index(axes) if axes else None
        frames = [index(name) for name in constraints.frame]
        self.unique_frames = list(dict.fromkeys(frames))
        order = sorted(range(len(frames)), key=lambda i: self.unique_frames.index(frames[i]))
        self.order, self.frames = np.array(order, np.intp), [frames[i] for i in order]
        starts = [self.frames.index(frame) for frame in self.unique_frames]
        self.slices = list(map(slice, starts, [*starts[1:], len(frames)]))
        # converts -0.0 to 0.0, as the sign decides where a curved arrow starts
        self._directions = constraints.directions.T[self.order] + 0.0


def _normalize_vectors(vectors: Array) -> Array:
    """Scale vectors (n, 6) to norm 1, except zeros."""
    if not len(vectors):
        return vectors
    maxima = abs(vectors).max(axis=1, keepdims=True)
    vectors = vectors / np.where(maxima > 0.0, maxima, 1.0)  # so that squares do not overflow
    norms = np.sqrt((vectors * vectors).sum(axis=1, keepdims=True))
    return vectors / np.where(norms > 0.0, norms, 1.0)


def solution_reads(values: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the names of what `VereshchaginNode.solution` reads."""
    return ("g",) if values["feedforward"] == "gravity" else ()


def _constraint_reads(values: Mapping[str, Any]) -> tuple[str, ...]:
    return ("oMf", *solution_reads(values))


VERESHCHAGIN = (
    MarkerKind(
        "constraint",
        make_constraint_markers,
        "the directions of constraints",
        0.1,
        "Length or radius [m].",
        [0.51, 0.24, 0.49, 1.0],
        reads=_constraint_reads,
    ),
    MarkerKind(
        "constraint_force",
        make_constraint_force_markers,
        "the wrench of the constraints on each frame",
        0.01,
        "Length of 1 N, radius of 1 N m [m].",
        [0.6, 0.23, 0.0, 1.0],
        reads=_constraint_reads,
    ),
    MarkerKind(
        "wrench",
        partial(make_wrench_markers, "wrench_topics", "input_timeout"),
        WRENCH_TEXT,
        *WRENCH_SCALE,
        reads=placement_reads("wrench_topics"),
    ),
)
