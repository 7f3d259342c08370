# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""A base for pages without ROS: an actor, and the markers that the nodes publish."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np

import dyn_ros

from ..engine.kernel.types import Array
from ..engine.model import Model
from ..engine.model.composite_bodies import Body, join_bodies
from ..engine.model.urdf import read_urdf
from .actor import Actor
from .page.plots import Progress
from .scene import legend, marker_arrays
from .scene.inertia_markers import BodyCheck, make_inertia_markers
from .scene.marker_arrays import PlainMarker
from .session import Session

TERMS = ("g", "nle", "oMi", "com", "Ig")
"""Results of ``all_terms`` that `DynamicsMarkers` show."""

DYNAMICS_TOPIC, CENTROIDAL_TOPIC = "dynamics/markers", "centroidal/markers"
WORLD_FRAME = "world"
LIMIT_COLOR = (0.88, 0.04, 0.11, 1.0)  # red, green, blue, alpha; a torque at its limit
COM_DIAMETER = 0.08  # m; sphere at the center of mass


class StandaloneActor(Actor):
    """An actor in the process of its page, which shows the actor's problems."""

    _session: Session | None = None

    def show(self, session: Session, xml: str) -> None:
        """Show the robot with a description on a page."""
        self._session = session
        session.show_robot(read_urdf(xml), xml, self.expected_positions())

    def expected_positions(self) -> Array | None:
        """Return positions of joints (k, n) to which the page is fitted; None if any may occur."""
        return None

    def reject(self, subject: str, reason: object) -> None:
        """Show a problem on the page."""
        if self._session is not None:
            self._session.show_problem(subject, reason)

    def report_refusal(self, line: str) -> None:
        """Print the reason why a request was refused."""
        print(line, flush=True)


def compile_torques(
    model: Model, names: Sequence[str], report: Callable[[Progress], object], **options: Any
) -> None:
    """Compile algorithms in processes of their own, and report the progress.

    For `options` see `precompile`.
    """

    def on_progress(done: int, total: int, name: str) -> None:
        is_complete = done >= total
        text = f"compiling the torques, {done} of {total}"
        report(Progress() if is_complete else Progress(text, done / total))

    coupled = any(joint.mimic is not None for joint in model.tree.joints)
    dyn_ros.precompile(names, coupled=coupled, progress=on_progress, **options)


class DynamicsMarkers:
    """The markers of one robot, as the nodes publish them by default.

    `check` has the findings about its bodies. `frame` is the world, or the root link if only the
    page moves it.
    """

    def __init__(self, model: Model, check: BodyCheck, frame: str = WORLD_FRAME) -> None:
        self._model, self._data = model, dyn_ros.Data(model)
        self._draw_torques = marker_arrays.make_torque_markers(
            model,
            PlainAppearance(
                "torque",
                0.1,
                full_color=LIMIT_COLOR,
                unlimited=100.0,
                source="nle",
                numbers="none",
                frame=frame,
            ),
        )
        self._draw_inertias = make_inertia_markers(
            model,
            PlainAppearance(
                "inertia", 1.0, 0.4, shape="ellipsoid", finding_color=LIMIT_COLOR, frame=frame
            ),
            {},
            check,
        )
        self._com = marker_arrays.MarkerArrays(
            PlainAppearance("com", COM_DIAMETER, frame=frame), marker_arrays.SPHERE
        )

    def compute(self, q: Array, v: Array) -> SimpleNamespace:
        """Return the `TERMS` of a state as attributes, which are valid until the next call."""
        terms = dyn_ros.all_terms(self._model, self._data, q, v, only=TERMS)
        return SimpleNamespace(**dict(zip(TERMS, terms)))

    def draw(self, session: Session, v: Array, terms: SimpleNamespace) -> None:
        """Pass the markers of a state to a page."""
        state = SimpleNamespace(v=v, effort=None)
        shows_inertia = session.drawing.families.get((DYNAMICS_TOPIC, "inertia"), True)
        inertias = self._draw_inertias(state, terms) if shows_inertia else ()
        robot, _ = join_bodies(
            Body.of_links(terms.Ig, terms.com), Body.of(self._model.base_inertia)
        )
        if robot.mass > 0.0:
            self._com.show_spheres([0], np.array([robot.com]), np.array([COM_DIAMETER]))
        for topic, arrays in (
            (DYNAMICS_TOPIC, [*self._draw_torques(state, terms), *inertias]),
            (CENTROIDAL_TOPIC, [self._com]),
        ):
            message: Any = SimpleNamespace(
                markers=[marker for array in arrays for marker in plain_markers(array)]
            )
            session.receive_markers(topic, message)


class PlainAppearance(marker_arrays.Appearance):
    """The appearance of a family of markers without ROS, in the color of the legend.

    `attributes` are those that only this family has.
    """

    frame = WORLD_FRAME

    def __init__(self, family: str, scale: float, alpha: float = 1.0, **attributes: object) -> None:
        code = legend.LEGEND_BY_FAMILY[family].color
        color = tuple(int(code[k : k + 2], 16) / 255 for k in (1, 3, 5))
        self.name, self.width, self.scale, self.color = family, 0.01, scale, (*color, alpha)
        vars(self).update(attributes)

    def make_prototype(self, namespace: str, type: int, points: int) -> SimpleNamespace:
        """Return a marker as an object, without ROS."""
        return SimpleNamespace(
            header=SimpleNamespace(frame_id=self.frame, stamp=SimpleNamespace(sec=0, nanosec=0)),
            ns=namespace,
            type=type,
            lifetime=SimpleNamespace(sec=0, nanosec=0),
        )


def plain_markers(arrays: marker_arrays.MarkerArrays) -> Iterator[PlainMarker]:
    """Yield the markers of a `PlainAppearance`."""
    prototype, fields = arrays.prototype, arrays.numbers
    numbers = np.concatenate([fields["pose"], fields["scale"], fields["color"]], axis=1)
    flat_points = fields.get("points", np.zeros((len(arrays), 0)))
    points = flat_points.reshape(len(arrays), flat_points.shape[1] // 3, 3).copy()
    colors = np.zeros((0, 4))
    ids, actions = fields["id"][:, 0].tolist(), fields["action"][:, 0].tolist()
    for row, (id, action) in enumerate(zip(ids, actions)):
        yield PlainMarker(
            prototype.header,
            prototype.ns,
            id,
            prototype.type,
            action,
            prototype.lifetime,
            numbers[row],
            points[row],
            colors,
            bytes(fields["text"][row]).decode().strip() if "text" in fields else "",
        )
