# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Markers that name the kinds of markers of a node in their colors."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

import dyn_ros

from ...engine.model import Model
from .camera import CAMERA_DIRECTION
from .marker_arrays import TEXT_VIEW_FACING, Appearance, Draw, MarkerArrays

COLUMNS = ("dynamics", "centroidal", "vereshchagin", "observer")
"""Names of nodes; each has a column, so that their legends do not hide each other."""

LETTER_HEIGHT = 0.06  # relative to the size of the robot
LINE_HEIGHT, COLUMN_WIDTH = 1.5, 10.0  # relative to the height of letters
MIN_SIZE = 0.3  # m; of a robot whose frames coincide
MAX_TEXT_SIZE = 40  # bytes


def make_legend(node: str, model: Model, appearances: Sequence[Appearance]) -> Draw:
    """Return the `Draw` of a list of names, beside the robot as the camera of RViz sees it.

    It moves with the root link, and begins at the height of the robot in its neutral position.
    """
    points = dyn_ros.frame_placements(model, dyn_ros.Data(model), model.neutral())[:, :3, 3]
    root_frame = model.frame_index(model.tree.root_link)
    points = points - points[root_frame]
    size = max(float(np.ptp(points, axis=0).max()), MIN_SIZE)
    height = LETTER_HEIGHT * size
    up = np.array([0.0, 0.0, 1.0])
    right = np.cross(up, CAMERA_DIRECTION)
    right /= np.linalg.norm(right)
    column = COLUMNS.index(node) if node in COLUMNS else 0
    corner = (points @ up).max() * up + (
        (points @ right).max() + COLUMN_WIDTH * (0.5 + column) * height
    ) * right
    texts = [
        MarkerArrays(appearance, TEXT_VIEW_FACING, "legend", characters=MAX_TEXT_SIZE)
        for appearance in appearances
    ]

    def draw(state: Any, terms: Any) -> Iterable[MarkerArrays]:
        root = terms.oMf[root_frame, :3, 3]
        for line, (text, appearance) in enumerate(zip(texts, appearances, strict=True)):
            center = root + corner - line * LINE_HEIGHT * height * up
            text.show_texts([0], center[None], [appearance.name.replace("_", " ")], height)
        return texts

    return draw
