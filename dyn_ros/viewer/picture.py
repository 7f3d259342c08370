# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The markers of the nodes for a page without ROS: torques, inertias, center of mass."""
from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np

from ..engine.kernel.types import Array
from ..engine.model import Model
from ..engine.model.bodies import Body, joined
from .scene import kinds, marker_arrays, plain_markers
from .session import Session

TERMS = ("g", "nle", "oMi", "com", "Ig")
"""Results of ``all_terms`` that a `Picture` shows."""

DYNAMICS, CENTROIDAL = "dynamics/markers", "centroidal/markers"     # topics of the nodes
FULL_LOAD = (0.88, 0.04, 0.11, 1.0)     # color of a torque at the joint's limit
BALL = 0.08             # diameter of the center of mass [m]


class Picture:
    """The markers of one robot, as the nodes publish them by default."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self._torques = marker_arrays.torque(model, look(
            "torque", 0.1, full_color=FULL_LOAD, unlimited=100.0, source="nle"))
        self._bodies = marker_arrays.inertia(
            model, look("inertia", 1.0, 0.4, shape="ellipsoid"), {})
        self._ball = marker_arrays.MarkerArrays(look("com", BALL), marker_arrays.SPHERE)

    def draw(self, session: Session, v: Array, terms: Any) -> None:
        """Pass the markers of a state to a page: v (nv,), and terms with `TERMS` as attributes."""
        state = SimpleNamespace(v=v, effort=None)
        bodies = self._bodies(state, terms) if wanted(session, "inertia") else ()
        whole, _ = joined(Body.of_links(terms.Ig, terms.com), Body.of(self._model.base_inertia))
        if whole.mass > 0.0:
            self._ball.balls([0], np.array([whole.com]), np.array([BALL]))
        for topic, some in (
                (DYNAMICS, [*self._torques(state, terms), *bodies]),
                (CENTROIDAL, [self._ball])):
            session.receive_markers(topic, plain_markers.plain_markers(some))


def wanted(session: Session, family: str) -> bool:
    """Whether a page shows a family of markers, or does not know it yet."""
    return session.drawing.families.get((DYNAMICS, family), True)


def look(family: str, scale: float, alpha: float = 1.0, **more: object) -> plain_markers.PlainLook:
    """Return the appearance of a kind of marker, in its color."""
    code = kinds.BY_FAMILY[family].color
    color = tuple(int(code[k:k + 2], 16) / 255 for k in (1, 3, 5))
    return plain_markers.PlainLook(family, scale, (*color, alpha), more=more)
