# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Markers that name the kinds of markers of a node in their colors."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from ...engine.kernel.types import Array
from ...engine.model import Model
from .first_view import RIGHT, UP, WINDOW_ASPECT, fit_first_view
from .legend import LEGEND_NAMESPACE
from .marker_arrays import TEXT_VIEW_FACING, Appearance, Draw, MarkerArrays

CORNERS = {
    "dynamics": (-1.0, 1.0),
    "centroidal": (1.0, 1.0),
    "vereshchagin": (-1.0, -1.0),
    "observer": (1.0, -1.0),
}
"""Corner of the picture (to the right, up) for each node, so that no legend hides another."""

LETTER_HEIGHT = 0.04  # relative to half the height of the picture
LINE_HEIGHT, MARGIN = 1.6, 5.0  # relative to the height of letters; margin beside the middle


def make_legend(
    node: str, model: Model, appearances: Sequence[Appearance], draws: Sequence[Draw]
) -> Draw:
    """Return a `Draw` that also names what it draws, in a corner of the first view of RViz.

    It calls `draws`, and lists the appearances of those that have shown any markers. The list moves
    with the root link.
    """
    root_frame = model.frame_index(model.tree.root_link)
    names = [appearance.name.replace("_", " ") for appearance in appearances]
    texts = [
        MarkerArrays(appearance, TEXT_VIEW_FACING, characters=len(name), namespace=LEGEND_NAMESPACE)
        for appearance, name in zip(appearances, names, strict=True)
    ]
    height, first_center = first_line(node, model, len(names))

    def draw(state: Any, terms: Any) -> Iterable[MarkerArrays]:
        drawn = [list(draw(state, terms)) for draw in draws]
        position = terms.oMf[root_frame, :3, 3] + first_center
        for id, arrays in enumerate(drawn):
            if any(map(len, arrays)):
                texts[id].show_texts([id], position[None], [names[id]], height)
                texts[id].set_colors([id], np.array([[*appearances[id].color[:3], 1.0]]))
                position = position - LINE_HEIGHT * height * UP
        return [each for arrays in (*drawn, texts) for each in arrays]

    return draw


def first_line(node: str, model: Model, count: int) -> tuple[float, Array]:
    """Return the height of letters, and the middle (3,) of the first line of a list [m].

    The list has at most `count` lines; its place is relative to the root link.
    """
    view = fit_first_view(model)
    half_height = view.half_height()
    height = LETTER_HEIGHT * half_height
    right, up = CORNERS.get(node, (-1.0, 1.0))
    across = WINDOW_ASPECT * half_height - MARGIN * height
    top = half_height - LINE_HEIGHT * height
    rise = top if up > 0.0 else (count - 1) * LINE_HEIGHT * height - top
    return height, np.asarray(view.target + right * across * RIGHT + rise * UP)
