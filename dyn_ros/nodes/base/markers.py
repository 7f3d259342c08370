# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Markers for RViz: what all kinds have in common, their parameters and their messages.

A kind is one function and one entry in the file of its node, such as markers/dynamics.py. It keeps
the numbers of its markers in arrays, of which those that change are written into a serialized
message: rclpy's conversion of so many fields would take most of the time. Another message is
serialized only if markers are added.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

from builtin_interfaces.msg import Duration
from geometry_msgs.msg import Point
from std_msgs.msg import Header
from visualization_msgs.msg import Marker, MarkerArray

from ...cdr.template import Template
from ...states.rate_limiter import StampLimiter
from ...viewer.scene.marker_arrays import MarkerArrays
from ..robot import RobotContext, State, Terms
from .dispatch import Compute
from .parameters import Spec

SHARED = (
    Spec(
        "markers.rate",
        30.0,
        "Maximum rate of ~/markers by stamps [Hz]. 0: every state.",
        limits=(0.0, 1e5),
    ),
    Spec("markers.lifetime", 2.0, "Lifetime of markers [s]. 0: unlimited.", limits=(0.0, 3600.0)),
    Spec("markers.width", 0.01, "Width of lines and arrow shafts [m].", limits=(1e-5, 10.0)),
)


class Kind:
    """One kind of marker, with the parameters common to all kinds, and `more`.

    `make(node, robot, look)` returns a function `(state, terms)` that returns the `MarkerArrays`
    that it has filled, or raises a ValueError if a parameter does not fit the robot. `reads`, or
    what it returns for the parameters' values, is what the function reads, as `Output.reads`;
    `kernels` are the public functions that it calls.
    """

    def __init__(
        self,
        name: str,
        make: Callable[[Any, RobotContext, Look], Draw],
        what: str,
        scale: float,
        scaled: str,
        color: list[float],
        *more: Spec,
        reads: tuple[str, ...] | Callable[[Mapping[str, Any]], tuple[str, ...]],
        show: bool = True,
        kernels: tuple[str, ...] = (),
    ) -> None:
        prefix = f"markers.{name}."
        self.name, self.make, self.kernels = name, make, kernels
        self.reads = reads if callable(reads) else lambda values: reads
        self.specs = (
            Spec(prefix + "show", show, f"Whether ~/markers shows {what}."),
            Spec(prefix + "scale", scale, scaled, limits=(0.0, 1e6)),
            Spec(prefix + "color", color, "Red, green, blue, alpha.", size=4, limits=(0.0, 1.0)),
            *(replace(spec, name=prefix + spec.name) for spec in more),
        )


Draw: TypeAlias = "Callable[[State, Terms], Iterable[MarkerArrays]]"


class Look:
    """Appearance of one kind: its parameters `show`, `scale`, `color` .., and the common ones."""

    def __init__(self, kind: Kind, values: Mapping[str, Any], header: Header) -> None:
        self.name = kind.name
        self.header = header
        self.width = values["markers.width"]
        seconds, part = divmod(values["markers.lifetime"], 1.0)
        self.lifetime = Duration(sec=int(seconds), nanosec=int(1e9 * part))
        for spec in kind.specs:
            setattr(self, spec.name.split(".")[-1], values[spec.name])

    def marker(self, namespace: str, type: int, points: int) -> Marker:
        """Return what the markers of a namespace have in common, with a number of points."""
        return Marker(
            header=self.header,
            ns=namespace,
            type=type,
            lifetime=self.lifetime,
            frame_locked=True,
            points=[Point() for _ in range(points)],
        )

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"markers of the kind {self.name!r} have no parameter {name!r}")


class Markers:
    """The output `~/markers` of a node."""

    def __init__(self, node: Any, kinds: Sequence[Kind]) -> None:
        self._node, self._kinds = node, kinds
        self.kernels = tuple(dict.fromkeys(name for kind in kinds for name in kind.kernels))
        self.specs = self.specs_of(kinds)
        self._limited: Any = None  # robot and parameters of the limiter
        self._limiter = StampLimiter(0.0)

    @staticmethod
    def specs_of(kinds: Sequence[Kind]) -> list[Spec]:
        """Return the parameters of kinds; none if there are no kinds."""
        return [*SHARED, *(spec for kind in kinds for spec in kind.specs)] if kinds else []

    def check(self, robot: RobotContext, values: Mapping[str, Any]) -> None:
        """Raise a ValueError if a parameter does not fit the robot."""
        for kind in self._kinds:
            kind.make(self._node, robot, Look(kind, values, Header()))

    def reads(self) -> Iterable[str] | None:
        """Return what is read for a state; None to skip it."""
        parameters = self._node.parameters
        limited = self._node.robot, parameters.changes
        if limited != self._limited:
            self._limited = limited
            self._limiter = StampLimiter(parameters.values["markers.rate"])
        robot = self._node.robot
        stamp = robot.collector.stamp if robot else 0
        return self._reads() if self._limiter.due(stamp, time.perf_counter()) else None

    def _reads(self) -> Iterable[str]:
        values = self._node.parameters.values
        return {
            name
            for kind in self._kinds
            if values[f"markers.{kind.name}.show"]
            for name in kind.reads(values)
        }

    def make(self, robot: RobotContext) -> Compute:
        """`~/markers`: markers for RViz."""
        parameters, made_at, header = self._node.parameters, -1, Header()
        draws: list[Draw] = []
        array = _SerializedArray(header)

        def compute(state: State, terms: Terms) -> Template | None:
            nonlocal made_at, draws
            if parameters.changes != made_at:
                made_at = parameters.changes
                draws = list(self._draws(robot, parameters.values, header))
                array.clears = True
            header.frame_id = robot.world_frame
            return array.filled([arrays for draw in draws for arrays in draw(state, terms)])

        return compute

    def _draws(
        self, robot: RobotContext, values: Mapping[str, Any], header: Header
    ) -> Iterator[Draw]:
        for kind in self._kinds:
            if values[f"markers.{kind.name}.show"]:
                try:
                    yield kind.make(self._node, robot, Look(kind, values, header))
                except ValueError as error:
                    self._node.reject("markers", error)

    @staticmethod
    def clear() -> MarkerArray:
        """Return the message that deletes all markers."""
        return MarkerArray(markers=[Marker(action=Marker.DELETEALL)])


class _SerializedArray:
    """A MarkerArray, serialized again only if it contains other markers than before."""

    def __init__(self, header: Header) -> None:
        self._header = header
        self.clears = False  # whether the next array starts with DELETEALL
        self._structure: Any = None  # frame, arrays and their sizes that the template is for
        self._template: Template | None = None

    def filled(self, shown: Iterable[MarkerArrays]) -> Template | None:
        """Return the message with the numbers of these markers; None if there are none."""
        shown = [arrays for arrays in shown if len(arrays)]
        clears, self.clears = self.clears, False
        structure = clears, self._header.frame_id, [(arrays, len(arrays)) for arrays in shown]
        if structure != self._structure:
            self._structure = structure
            self._template = self._serialized(shown, clears)
            for arrays in shown:
                arrays.changed.update(arrays.numbers)
        if self._template:
            for i, arrays in enumerate(shown, clears):
                for name in arrays.changed:
                    self._template.write(f"markers.{i}.{name}", arrays.numbers[name])
                arrays.changed.clear()
        return self._template

    def _serialized(self, shown: Sequence[MarkerArrays], clears: bool) -> Template | None:
        markers = [arrays.prototype for arrays in shown]
        counts = [len(arrays) for arrays in shown]
        if clears:
            markers.insert(0, Marker(header=self._header, action=Marker.DELETEALL))
            counts.insert(0, 1)
        return Template(MarkerArray(markers=markers), counts) if markers else None
