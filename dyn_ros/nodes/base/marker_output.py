# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The output `~/markers`: markers for RViz and their parameters.

A kind of marker is a function and a `MarkerKind` in the file of its node, such as
`markers/dynamics_markers.py`. It keeps the numbers of its markers in arrays. Those that change are
written into a serialized message, since rclpy's conversion of so many fields would take most of
the time. The message is serialized again only if markers are added.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

from builtin_interfaces.msg import Duration
from geometry_msgs.msg import Point
from std_msgs.msg import Header
from visualization_msgs.msg import Marker, MarkerArray

from ...cdr.template import Template
from ...states.rate_limiter import StampLimiter
from ...viewer.scene.legend_markers import make_legend
from ...viewer.scene.marker_arrays import MarkerArrays
from ..robot import DynamicsTerms, RobotContext, State
from .dispatch import Compute
from .node_parameters import Spec

COMMON_MARKER_SPECS = (
    Spec(
        "markers.rate",
        30.0,
        "Maximum rate of ~/markers by stamps [Hz]. 0: every state.",
        limits=(0.0, 1e5),
    ),
    Spec("markers.lifetime", 2.0, "Lifetime of markers [s]. 0: unlimited.", limits=(0.0, 3600.0)),
    Spec("markers.width", 0.01, "Width of lines and arrow shafts [m].", limits=(1e-5, 10.0)),
    Spec("markers.legend", False, "Whether ~/markers names its kinds beside the robot."),
)


def warning_color_spec(name: str, description: str) -> Spec:
    """Return the parameter for the color of what deserves attention, red by default."""
    return Spec(name, [0.88, 0.04, 0.11, 1.0], description, size=4, limits=(0.0, 1.0))


class MarkerKind:
    """A kind of marker of a node, with the parameters `markers.<name>.*`.

    `make(node, robot, style)` returns a function `(state, terms)` that returns the `MarkerArrays`
    that it has filled, or raises a ValueError if a parameter does not fit the robot. `subject`,
    `scale`, `scale_text`, `color` and `show` are descriptions and defaults of the parameters that
    all kinds have; `specs` are further ones. `reads`, a tuple or a function of the parameters'
    values, names what the function reads, as in `Output.reads`; `kernels` are the public functions
    that it calls.
    """

    def __init__(
        self,
        name: str,
        make: Callable[[Any, RobotContext, MarkerStyle], Draw],
        subject: str,
        scale: float,
        scale_text: str,
        color: list[float],
        *specs: Spec,
        reads: tuple[str, ...] | Callable[[Mapping[str, Any]], tuple[str, ...]],
        show: bool = True,
        kernels: tuple[str, ...] = (),
    ) -> None:
        prefix = f"markers.{name}."
        self.name, self.make, self.kernels = name, make, kernels
        self.reads = reads if callable(reads) else lambda values: reads
        self.specs = (
            Spec(prefix + "show", show, f"Whether ~/markers shows {subject}."),
            Spec(prefix + "scale", scale, scale_text, limits=(0.0, 1e6)),
            Spec(prefix + "color", color, "Red, green, blue, alpha.", size=4, limits=(0.0, 1.0)),
            *(replace(spec, name=prefix + spec.name) for spec in specs),
        )


Draw: TypeAlias = "Callable[[State, DynamicsTerms], Iterable[MarkerArrays]]"
"""Fills the arrays of one kind of marker for a state, and returns them."""


class MarkerStyle:
    """Values of the parameters of one kind of marker: `show`, `scale`, `color`, and others."""

    def __init__(self, kind: MarkerKind, values: Mapping[str, Any], header: Header) -> None:
        self.name = kind.name
        self.header = header
        self.width = values["markers.width"]
        seconds, fraction = divmod(values["markers.lifetime"], 1.0)
        self.lifetime = Duration(sec=int(seconds), nanosec=int(1e9 * fraction))
        for spec in kind.specs:
            setattr(self, spec.name.split(".")[-1], values[spec.name])

    def make_prototype(self, namespace: str, type: int, points: int) -> Marker:
        """Return a prototype of the markers of a namespace, with a number of points."""
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


class MarkerOutput:
    """The output `~/markers` of a node."""

    def __init__(self, node: Any, kinds: Sequence[MarkerKind]) -> None:
        self._node, self._kinds = node, kinds
        self.kernels = tuple(dict.fromkeys(name for kind in kinds for name in kind.kernels))
        self.specs = self.marker_parameters(kinds)
        self._limiter_key: Any = None  # robot, number of changes of parameters
        self._limiter = StampLimiter(0.0)

    @staticmethod
    def marker_parameters(kinds: Sequence[MarkerKind]) -> list[Spec]:
        """Return the parameters of kinds, with the common ones if there are any kinds."""
        if not kinds:
            return []
        return [*COMMON_MARKER_SPECS, *(spec for kind in kinds for spec in kind.specs)]

    def check(self, robot: RobotContext, values: Mapping[str, Any]) -> None:
        """Raise a ValueError if a parameter does not fit the robot."""
        for kind in self._kinds:
            kind.make(self._node, robot, MarkerStyle(kind, values, Header()))

    def required_reads(self) -> Iterable[str] | None:
        """Return the names of what the markers read for a state; None to skip it.

        Call it once for each state, as it limits the rate.
        """
        parameters = self._node.parameters
        limiter_key = self._node.robot, parameters.changes
        if limiter_key != self._limiter_key:
            self._limiter_key = limiter_key
            self._limiter = StampLimiter(parameters.values["markers.rate"])
        robot = self._node.robot
        stamp = robot.collector.stamp if robot else 0
        return self._marker_reads() if self._limiter.admit(stamp, time.perf_counter()) else None

    def _marker_reads(self) -> Iterable[str]:
        """Return the names of what the kinds that are shown read, as in `Output.reads`."""
        values = self._node.parameters.values
        reads = {
            name
            for kind in self._kinds
            if values[f"markers.{kind.name}.show"]
            for name in kind.reads(values)
        }
        return reads | {"oMf"} if values["markers.legend"] else reads

    def make(self, robot: RobotContext) -> Compute:
        """Prepare `~/markers`: markers for RViz."""
        parameters, draws_version, header = self._node.parameters, -1, Header()
        draws: list[Draw] = []
        array = _SerializedArray(header)

        def compute(state: State, terms: DynamicsTerms) -> Template | None:
            nonlocal draws_version, draws
            if parameters.changes != draws_version:
                draws_version = parameters.changes
                draws = self._make_draws(robot, parameters.values, header)
                array.clears = True
            header.frame_id = robot.world_frame
            return array.fill([arrays for draw in draws for arrays in draw(state, terms)])

        return compute

    def _make_draws(
        self, robot: RobotContext, values: Mapping[str, Any], header: Header
    ) -> list[Draw]:
        """Return the `Draw` of each kind that is shown; log those with invalid parameters."""
        draws, styles = [], []
        for kind in self._kinds:
            if values[f"markers.{kind.name}.show"]:
                style = MarkerStyle(kind, values, header)
                try:
                    draws.append(kind.make(self._node, robot, style))
                except ValueError as error:
                    self._node.reject("markers", error)
                else:
                    styles.append(style)
        if values["markers.legend"]:
            return [make_legend(self._node.get_name(), robot.model, styles, draws)]
        return draws

    @staticmethod
    def clear() -> MarkerArray:
        """Return the message that deletes all markers."""
        return MarkerArray(markers=[Marker(action=Marker.DELETEALL)])


class _SerializedArray:
    """A serialized MarkerArray, which is serialized again only if markers are added or removed."""

    def __init__(self, header: Header) -> None:
        self._header = header
        self.clears = False  # the next message starts with DELETEALL
        self._structure: Any = None  # frame, arrays and sizes of the template
        self._template: Template | None = None

    def fill(self, marker_arrays: Iterable[MarkerArrays]) -> Template | None:
        """Return the message with the numbers of these arrays; None if all are empty."""
        visible_arrays = [arrays for arrays in marker_arrays if len(arrays)]
        clears, self.clears = self.clears, False
        structure = (
            clears,
            self._header.frame_id,
            [(arrays, len(arrays)) for arrays in visible_arrays],
        )
        if structure != self._structure:
            self._structure = structure
            self._template = self._serialize(visible_arrays, clears)
            for arrays in visible_arrays:
                arrays.changed.update(arrays.numbers)
        if self._template:
            for i, arrays in enumerate(visible_arrays, clears):
                for name in arrays.changed:
                    self._template.write(f"markers.{i}.{name}", arrays.numbers[name])
                arrays.changed.clear()
        return self._template

    def _serialize(self, visible_arrays: Sequence[MarkerArrays], clears: bool) -> Template | None:
        """Return a template of arrays, after DELETEALL if `clears`; None if it is empty."""
        markers = [arrays.prototype for arrays in visible_arrays]
        counts = [len(arrays) for arrays in visible_arrays]
        if clears:
            markers.insert(0, Marker(header=self._header, action=Marker.DELETEALL))
            counts.insert(0, 1)
        return Template(MarkerArray(markers=markers), counts) if markers else None
