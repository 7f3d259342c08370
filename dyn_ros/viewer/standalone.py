# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""What pages without ROS have in common: an actor, and the markers as the nodes publish them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np

import dyn_ros

from ..engine.kernel.types import Array
from ..engine.model import Model
from ..engine.model.bodies import Body, joined
from ..engine.model.urdf import read_urdf
from .actor import Actor
from .page.plots import Progress
from .scene import legend, marker_arrays
from .scene.marker_arrays import PlainMarker
from .session import Session

TERMS = ("g", "nle", "oMi", "com", "Ig")
"""Results of ``all_terms`` that a `Picture` shows."""

DYNAMICS, CENTROIDAL = "dynamics/markers", "centroidal/markers"  # topics of the nodes
WORLD = "world"  # frame of the markers
FULL_LOAD = (0.88, 0.04, 0.11, 1.0)  # color of a torque at the joint's limit
BALL = 0.08  # diameter of the center of mass [m]


class StandaloneActor(Actor):
    """An actor in the process of its page, on which it reports what goes wrong."""

    _session: Session | None = None

    def show(self, session: Session, xml: str) -> None:
        self._session = session
        session.show_robot(read_urdf(xml), xml, self.expected())

    def expected(self) -> Array | None:
        """Return positions of joints (k, n) that the page should fit to; None: any."""
        return None

    def reject(self, what: str, why: object) -> None:
        if self._session is not None:
            self._session.show_problem(what, why)

    def report_refusal(self, line: str) -> None:
        print(line, flush=True)


def compile_torques(
    model: Model, names: Sequence[str], say: Callable[[Progress], object], **options: Any
) -> None:
    """Compile algorithms in processes of their own, and report the progress."""
    coupled = any(joint.mimic is not None for joint in model.tree.joints)
    dyn_ros.precompile(
        names,
        coupled=coupled,
        progress=lambda done, total, name: say(
            Progress(f"compiling the torques, {done} of {total}", done / total)
            if done < total
            else Progress()
        ),
        **options,
    )


class Picture:
    """The markers of one robot in `frame`, as the nodes publish them by default.

    This is the world, or the root link if only the page moves it.
    """

    def __init__(self, model: Model, frame: str = WORLD) -> None:
        self._model, self._data = model, dyn_ros.Data(model)
        self._torques = marker_arrays.torque(
            model,
            PlainAppearance(
                "torque", 0.1, full_color=FULL_LOAD, unlimited=100.0, source="nle", frame=frame
            ),
        )
        self._bodies = marker_arrays.inertia(
            model, PlainAppearance("inertia", 1.0, 0.4, shape="ellipsoid", frame=frame), {}
        )
        self._ball = marker_arrays.MarkerArrays(
            PlainAppearance("com", BALL, frame=frame), marker_arrays.SPHERE
        )

    def compute(self, q: Array, v: Array) -> SimpleNamespace:
        """Return `TERMS` of a state, as attributes; they are valid until the next call."""
        terms = dyn_ros.all_terms(self._model, self._data, q, v, only=TERMS)
        return SimpleNamespace(**dict(zip(TERMS, terms)))

    def draw(self, session: Session, v: Array, terms: SimpleNamespace) -> None:
        """Pass the markers of a state to a page."""
        state = SimpleNamespace(v=v, effort=None)
        wanted = session.drawing.families.get((DYNAMICS, "inertia"), True)
        bodies = self._bodies(state, terms) if wanted else ()
        whole, _ = joined(Body.of_links(terms.Ig, terms.com), Body.of(self._model.base_inertia))
        if whole.mass > 0.0:
            self._ball.show_spheres([0], np.array([whole.com]), np.array([BALL]))
        for topic, drawn in (
            (DYNAMICS, [*self._torques(state, terms), *bodies]),
            (CENTROIDAL, [self._ball]),
        ):
            array: Any = SimpleNamespace(
                markers=[marker for markers in drawn for marker in plain_markers(markers)]
            )
            session.receive_markers(topic, array)


class PlainAppearance(marker_arrays.Appearance):
    """The appearance without ROS, in the color of its kind, to which `more` belongs."""

    frame = WORLD

    def __init__(self, family: str, scale: float, alpha: float = 1.0, **more: object) -> None:
        code = legend.LEGEND_BY_FAMILY[family].color
        color = tuple(int(code[k : k + 2], 16) / 255 for k in (1, 3, 5))
        self.name, self.width, self.scale, self.color = family, 0.01, scale, (*color, alpha)
        vars(self).update(more)

    def marker(self, namespace: str, type: int, points: int) -> SimpleNamespace:
        return SimpleNamespace(
            header=SimpleNamespace(frame_id=self.frame, stamp=SimpleNamespace(sec=0, nanosec=0)),
            ns=namespace,
            type=type,
            lifetime=SimpleNamespace(sec=0, nanosec=0),
        )


def plain_markers(arrays: marker_arrays.MarkerArrays) -> Iterator[PlainMarker]:
    """Yield the markers of a `PlainAppearance`."""
    common, own = arrays.prototype, arrays.numbers
    numbers = np.concatenate([own["pose"], own["scale"], own["color"]], axis=1)
    flat = own.get("points", np.zeros((len(arrays), 0)))
    points = flat.reshape(len(arrays), flat.shape[1] // 3, 3).copy()
    colors = np.zeros((0, 4))
    for row, (id, action) in enumerate(zip(own["id"][:, 0].tolist(), own["action"][:, 0].tolist())):
        yield PlainMarker(
            common.header,
            common.ns,
            id,
            common.type,
            action,
            common.lifetime,
            numbers[row],
            points[row],
            colors,
        )
