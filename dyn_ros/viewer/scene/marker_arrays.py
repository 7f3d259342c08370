# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Markers as arrays of numbers, for RViz and for the browser; independent of ROS.

Nodes serialize them as messages, see ``nodes/base/marker_output.py``. ``viewer/standalone.py``
passes them to a page without ROS.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ...engine.kernel.types import Array, ArrayLike
from ...engine.model import Model
from ...engine.model.coordinates import single_coordinate_joints
from . import geometry
from .camera import CAMERA_DIRECTION

# visualization_msgs/Marker
(
    ARROW,
    CUBE,
    SPHERE,
    CYLINDER,
    LINE_STRIP,
    LINE_LIST,
    CUBE_LIST,
    SPHERE_LIST,
    POINTS,
    TEXT_VIEW_FACING,
    MESH_RESOURCE,
    TRIANGLE_LIST,
) = range(12)
ADD, DELETE, DELETEALL = 0, 2, 3

MIN_WIDTH = 1e-3  # m; RViz warns about solids of width zero
MIN_ARROW_LENGTH = 1e-4  # m; shorter arrows are not shown
TEXT_SIZE = 16  # bytes; the longest text is "-1.23e+100 N m"
SPACE_WIDTH = 0.6  # relative to the height of letters; RViz's default is a meter or more
PADDING_WIDTH = 0.02  # width of a space / height, in texts whose spaces RViz centers too
SINGLE_TEXT_HEIGHT, TEXT_HEIGHT = 0.5, 0.3  # relative to the scale of the markers
TEXT_OFFSET = 1.2  # from a joint towards the camera, out of its links / scale
LINE_HEIGHT = 1.5  # from a text to the next one above / height of letters
THIN_LINE_WIDTH = 0.3  # relative to the width of other lines
MIN_TORQUE = 1e-3  # relative to the largest torque; smaller ones have no number
MIN_LOAD = 5e-3  # torque relative to its limit; smaller torques have no arrow

Draw: TypeAlias = "Callable[[Any, Any], Iterable[MarkerArrays]]"
"""A function that returns the markers for a state and for the results of ``all_terms``."""


class PlainMarker(NamedTuple):
    """A Marker whose numbers are arrays: points (n, 3), colors (n, 4) and `numbers` (14,).

    `numbers` are position, orientation x y z w, scale and color.
    """

    header: Any
    ns: str
    id: int
    type: int
    action: int
    lifetime: Any
    numbers: Array
    points: Array
    colors: Array
    text: str = ""
    mesh_resource: str = ""


def plain_marker(marker: Any) -> PlainMarker:
    """Convert a message visualization_msgs/Marker."""
    p, orientation = marker.pose.position, marker.pose.orientation
    scale, color = marker.scale, marker.color
    return PlainMarker(
        marker.header,
        marker.ns,
        marker.id,
        marker.type,
        marker.action,
        marker.lifetime,
        np.array(
            [
                p.x,
                p.y,
                p.z,
                orientation.x,
                orientation.y,
                orientation.z,
                orientation.w,
                scale.x,
                scale.y,
                scale.z,
                color.r,
                color.g,
                color.b,
                color.a,
            ]
        ),
        np.array([(p.x, p.y, p.z) for p in marker.points]).reshape(-1, 3),
        np.array([(c.r, c.g, c.b, c.a) for c in marker.colors]).reshape(-1, 4),
        marker.text,
        marker.mesh_resource,
    )


class Appearance(Protocol):
    """Name, size and color of one family of markers; a family may need more attributes.

    `width` is the width of lines and arrow shafts [m]; `scale` depends on the family.
    """

    name: str
    width: float
    scale: float
    color: Sequence[float]

    def make_prototype(self, namespace: str, type: int, points: int) -> Any:
        """Return a marker with the fields that all markers of a namespace have in common."""


class MarkerArrays:
    """Markers of one namespace and type, whose numbers are filled in for each state.

    Strips have a number of `points`, texts a number of `characters` [bytes]. The namespace is
    `namespace`, by default the name of the appearance, followed by a slash and `suffix` unless it
    is empty. `width` is the width of lines and arrows [m], by default the one in the appearance.
    `prototype` has the fields that all markers have in common, `numbers` the other fields by name,
    with a row for each marker shown so far: `action` is DELETE for markers that are hidden now.
    `changed` are the names of the fields in `numbers` that a serialized message does not contain
    yet.
    """

    def __init__(
        self,
        appearance: Appearance,
        type: int,
        suffix: str = "",
        points: int = 0,
        width: float | None = None,
        characters: int = 0,
        namespace: str = "",
    ) -> None:
        if type == ARROW:
            points = 2
        namespace = namespace or appearance.name
        self.prototype = appearance.make_prototype(
            f"{namespace}/{suffix}" if suffix else namespace, type, points
        )
        self._new_row = {
            "id": np.zeros(1, np.int32),
            "action": np.zeros(1, np.int32),
            "pose": np.array([0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0]),
            "scale": _initial_scale(type, appearance.width if width is None else width),
            "color": np.array(appearance.color),
        }
        if points:
            self._new_row["points"] = np.zeros(3 * points)
        if characters:
            self.prototype.text = " " * characters
            self._new_row["text"] = np.frombuffer(self.prototype.text.encode(), np.uint8)
        self.numbers = {
            name: values[:0].reshape(0, len(values)) for name, values in self._new_row.items()
        }
        self.changed: set[str] = set()
        self._row_of_id: dict[int, int] = {}
        self._shown_ids: list[int] = []
        self._shown_rows: Array = np.zeros(0, np.intp)

    def __len__(self) -> int:
        """Return the number of markers shown so far, hidden ones included."""
        return len(self._row_of_id)

    def show(self, ids: Iterable[int]) -> Array:
        """Show only the markers with these ids; return their rows in `numbers`."""
        ids = list(ids)
        if ids != self._shown_ids:
            self._shown_ids = ids
            self._add_rows([id for id in ids if id not in self._row_of_id])
            self._shown_rows = np.array([self._row_of_id[id] for id in ids], np.intp)
            self.numbers["action"][:] = DELETE
            self.numbers["action"][self._shown_rows] = ADD
            self.changed.add("action")
        return self._shown_rows

    def _add_rows(self, ids: Sequence[int]) -> None:
        """Add rows for new markers."""
        for name, values in self._new_row.items():
            self.numbers[name] = np.concatenate(
                [self.numbers[name], np.tile(values, (len(ids), 1))]
            )
        for id in ids:
            row = self._row_of_id[id] = len(self._row_of_id)
            self.numbers["id"][row] = id

    def show_solids(
        self, ids: Sequence[int], centers: ArrayLike, quaternions: Array, widths: Array
    ) -> None:
        """Show ellipsoids, boxes or cylinders: centers (n, 3), quaternions (n, 4), widths (n, 3).

        For a single solid, the arrays may lack the first axis.
        """
        rows = self.show(ids)
        pose = self.numbers["pose"]
        pose[rows, :3] = centers
        pose[rows, 3:] = quaternions
        self.numbers["scale"][rows] = np.maximum(widths, MIN_WIDTH)
        self.changed.update(("pose", "scale"))

    def show_spheres(self, ids: Sequence[int], centers: ArrayLike, diameters: Array) -> None:
        """Show spheres with centers (n, 3) and diameters (n,)."""
        rows = self.show(ids)
        self.numbers["pose"][rows, :3] = centers
        self.numbers["scale"][rows] = np.maximum(diameters, MIN_WIDTH)[:, None]
        self.changed.update(("pose", "scale"))

    def show_arrows(self, ids: Sequence[int], starts: Array, vectors: Array) -> None:
        """Show straight arrows from `starts` along `vectors`, (n, 3) each.

        Arrows shorter than `MIN_ARROW_LENGTH` are omitted.
        """
        mask = np.sqrt((vectors * vectors).sum(-1)) > MIN_ARROW_LENGTH
        if not mask.all():
            ids, starts, vectors = _masked_ids(ids, mask), starts[mask], vectors[mask]
        self.show_lines(ids, np.concatenate((starts, starts + vectors), 1))

    def show_curved_arrows(
        self,
        ids: Sequence[int],
        centers: Array,
        first: Array,
        second: Array,
        radii: Array,
        angles: Array,
    ) -> None:
        """Show curved arrows, with the arguments of `geometry.curved_arrow_points`.

        Arrows shorter than `MIN_ARROW_LENGTH` are omitted.
        """
        mask = abs(radii * angles) > MIN_ARROW_LENGTH
        if not mask.all():
            ids = _masked_ids(ids, mask)
            centers, first, second = centers[mask], first[mask], second[mask]
            radii, angles = radii[mask], angles[mask]
        self.show_lines(ids, geometry.curved_arrow_points(centers, first, second, radii, angles))

    def show_lines(self, ids: Sequence[int], points: Array) -> None:
        """Show lines, each through k points, (n, k, 3)."""
        rows, target = self.show(ids), self.numbers["points"]
        target[rows] = points.reshape(-1, target.shape[1])
        self.changed.add("points")

    def show_texts(
        self, ids: Sequence[int], centers: Array, texts: Sequence[str], height: float
    ) -> None:
        """Show texts with letters of a height [m], centered at `centers` (n, 3).

        Spaces are narrow in texts with less than all characters.
        """
        rows = self.show(ids)
        self.numbers["pose"][rows, :3] = centers
        size = self.numbers["text"].shape[1]
        for row, text in zip(rows, texts, strict=True):
            padded = _pad_text(text, size)
            space_width = PADDING_WIDTH if padded.endswith(b" ") else SPACE_WIDTH
            self.numbers["scale"][row] = space_width * height, 0.0, height
            self.numbers["text"][row] = np.frombuffer(padded, np.uint8)
        self.changed.update(("pose", "scale", "text"))

    def set_colors(self, ids: Sequence[int], colors: Array) -> None:
        """Set colors (n, 4) of single markers; markers never shown are ignored."""
        indices = [i for i, id in enumerate(ids) if id in self._row_of_id]
        self.numbers["color"][[self._row_of_id[ids[i]] for i in indices]] = colors[indices]
        self.changed.add("color")


def _pad_text(text: str, size: int) -> bytes:
    """Return a text of `size` bytes in UTF-8, with spaces after it, or cut at its end.

    RViz does not show a text with spaces before it, whose box it expects meters beside the text.
    """
    return text.encode()[:size].decode(errors="ignore").encode().ljust(size)


def _masked_ids(ids: Sequence[int], mask: NDArray[np.bool_]) -> list[int]:
    """Return the ids where a mask (n,) is True."""
    return [id for id, is_included in zip(ids, mask.tolist()) if is_included]


def _initial_scale(type: int, width: float) -> Array:
    """Return the scale of a new marker: widths of a line or arrow, zeros for a solid."""
    if type == ARROW:
        return width * np.array([1.0, 2.0, 4.0])
    return np.array([width if type == LINE_STRIP else 0.0, 0.0, 0.0])


class _Arrows:
    """Straight and curved arrows, each in a `MarkerArrays`."""

    arrays: tuple[MarkerArrays, MarkerArrays]

    def hide(self) -> tuple[MarkerArrays, ...]:
        """Hide all arrows; return the arrays."""
        for arrays in self.arrays:
            arrays.show([])
        return self.arrays


class Screws(_Arrows):
    """Motions or forces (6,), drawn as straight linear and curved angular arrows."""

    def __init__(self, appearance: Appearance) -> None:
        self._scale = appearance.scale
        self.arrays = (
            MarkerArrays(appearance, ARROW, "linear"),
            MarkerArrays(appearance, LINE_STRIP, "angular", geometry.CURVED_ARROW_POINTS),
        )

    def show(self, ids: Sequence[int], points: Any, vectors: Any) -> tuple[MarkerArrays, ...]:
        """Show vectors (n, 6) at points (n, 3), expressed in the same frame; return the arrays."""
        straight, curved = self.arrays
        points, vectors = np.reshape(points, (-1, 3)), np.reshape(vectors, (-1, 6))
        straight.show_arrows(ids, points, self._scale * vectors[:, :3])
        moments = vectors[:, 3:]
        norms = np.sqrt((moments * moments).sum(-1))
        mask = norms > 0.0
        if not mask.any():
            curved.show([])
            return self.arrays
        if not mask.all():
            ids, points = _masked_ids(ids, mask), points[mask]
            moments, norms = moments[mask], norms[mask]
        first, second = geometry.perpendicular_vectors(moments / norms[:, None])
        curved.show_curved_arrows(
            ids, points, first, second, self._scale * norms, np.full(len(norms), geometry.MAX_ARC)
        )
        return self.arrays


def rows_of_joints(model: Model) -> tuple[list[int], list[int]]:
    """Return the joints with exactly one coordinate, and their rows in vectors of the model."""
    joints = list(single_coordinate_joints(model).values())
    return joints, [model.idx_v[i] for i in joints]


# --- torques


class JointArrows(_Arrows):
    """An arrow at each joint: a curved one about the axis of revolute joints, or a straight one.

    The scale of the appearance is the radius, and the length of a straight arrow. `rows` are the
    rows of the joints in vectors of the model.
    """

    def __init__(self, model: Model, appearance: Appearance) -> None:
        joints, self.rows = rows_of_joints(model)
        self._scale = appearance.scale
        is_prismatic = np.array([model.tree.joints[i].kind == "prismatic" for i in joints], bool)
        self._revolute, self._prismatic = (
            _JointAxes(model, joints, np.flatnonzero(mask).tolist())
            for mask in (~is_prismatic, is_prismatic)
        )
        self._radii = np.full(len(self._revolute.indices), self._scale)
        self.arrays = (
            MarkerArrays(appearance, LINE_STRIP, points=geometry.CURVED_ARROW_POINTS),
            MarkerArrays(appearance, ARROW),
        )

    def show(self, oMi: Array, load: Array, colors: Array) -> tuple[MarkerArrays, ...]:
        """Show arrows of size `load` (n,), from -1 to 1, in colors (n, 4); return the arrays.

        `oMi` are the placements of all joints of the model, (njoints, 4, 4).
        """
        curved, straight = self.arrays
        revolute, prismatic = self._revolute, self._prismatic
        if revolute.ids:
            p, axes = revolute.axes_at(oMi)
            curved.show_curved_arrows(
                revolute.ids,
                p,
                axes[..., 1],
                axes[..., 2],
                self._radii,
                geometry.MAX_ARC * load[revolute.indices],
            )
            curved.set_colors(revolute.ids, colors[revolute.indices])
        if prismatic.ids:
            p, axes = prismatic.axes_at(oMi)
            vectors = self._scale * load[prismatic.indices, None] * axes[..., 0]
            straight.show_arrows(prismatic.ids, p, vectors)
            straight.set_colors(prismatic.ids, colors[prismatic.indices])
        return self.arrays


class _JointAxes:
    """The axes of some of the joints in a list, each with two vectors perpendicular to it.

    `indices` (n,) are the indices of these joints in the list.
    """

    def __init__(self, model: Model, joints: Sequence[int], indices: Sequence[int]) -> None:
        self.indices = np.array(indices, np.intp)
        self._joints = np.array([joints[i] for i in indices], np.intp)
        self.ids = (self._joints + 1).tolist()
        axes = np.array([model.tree.joints[i].axis for i in self._joints]).reshape(-1, 3)
        self._bases = np.stack([axes, *geometry.perpendicular_vectors(axes)], axis=-1)

    def axes_at(self, oMi: Array) -> tuple[Array, Array]:
        """Return origins (n, 3) of the joints, and axis and perpendicular vectors as columns."""
        X = oMi[self._joints]
        return X[:, :3, 3], X[:, :3, :3] @ self._bases


def make_torque_markers(model: Model, appearance: Any) -> Draw:
    """Return the `Draw` of the torque of each joint, an arrow about or along its axis.

    The size of an arrow is the square root of the load, so that small torques can be read.
    `appearance` also has `source`, `unlimited`, `full_color` and `numbers`, see
    ``config/dynamics.yaml``.
    """
    arrows, numbers = JointArrows(model, appearance), _TorqueNumbers(model, appearance)
    limits = model.effort_limit[arrows.rows]
    limits = np.where(np.isfinite(limits) & (limits > 0.0), limits, appearance.unlimited)
    color = np.array(appearance.color)
    color_change = np.array(appearance.full_color) - color

    def draw(state: Any, terms: Any) -> Iterable[MarkerArrays]:
        tau = _select_torques(appearance.source, state, terms)
        if tau is None:
            return *arrows.hide(), *numbers.hide()
        load = tau[arrows.rows] / limits
        magnitude = np.minimum(abs(load), 1.0)
        size = np.where(magnitude < MIN_LOAD, 0.0, np.copysign(np.sqrt(magnitude), load))
        colors = color + magnitude[:, None] * color_change
        return *arrows.show(terms.oMi, size, colors), *numbers.show(terms.oMi, tau, colors)

    return draw


class _TorqueNumbers:
    """Torques as texts before the joints, as the attribute `numbers` of the appearance specifies.

    "all": all torques that are not zero; "largest": the largest one relative to the effort limit of
    its joint, as a percentage, if any joint has a limit; "none".
    """

    def __init__(self, model: Model, appearance: Any) -> None:
        joints, self._rows = rows_of_joints(model)
        self._joints = np.array(joints, np.intp)
        self._units = ["N" if model.tree.joints[i].kind == "prismatic" else "N m" for i in joints]
        self._limits = model.effort_limit[self._rows]
        self._limited = np.flatnonzero(np.isfinite(self._limits) & (self._limits > 0.0))
        self._choice = appearance.numbers
        height = TEXT_HEIGHT if self._choice == "all" else SINGLE_TEXT_HEIGHT
        self._height = height * appearance.scale
        self._offset = TEXT_OFFSET * appearance.scale * CAMERA_DIRECTION
        self._up = geometry.up_direction(model.gravity)
        self._texts = MarkerArrays(appearance, TEXT_VIEW_FACING, "numbers", characters=TEXT_SIZE)

    def hide(self) -> tuple[MarkerArrays, ...]:
        """Hide all texts."""
        self._texts.show([])
        return (self._texts,)

    def show(self, oMi: Array, tau: Array, colors: Array) -> tuple[MarkerArrays, ...]:
        """Show the torques `tau` (nv,), in the colors (n, 4) of the joints."""
        ids, shown, texts = self._choose(tau[self._rows])
        origins = oMi[self._joints[shown], :3, 3]
        rise = LINE_HEIGHT * self._height * self._up
        centers = origins + self._offset + _count_lines(origins, self._height)[:, None] * rise
        self._texts.show_texts(ids, centers, texts, self._height)
        self._texts.set_colors(ids, colors[shown])
        return (self._texts,)

    def _choose(self, torques: Array) -> tuple[list[int], NDArray[np.intp], list[str]]:
        """Return ids and texts of the numbers to show, and the indices of their joints (n,)."""
        if self._choice == "all":
            smallest = MIN_TORQUE * abs(torques).max(initial=0.0)
            shown = np.flatnonzero(abs(torques) > smallest)
            texts = [f"{torques[i]:.3g} {self._units[i]}" for i in shown]
            return (self._joints[shown] + 1).tolist(), shown, texts
        if self._choice == "largest" and len(self._limited):
            loads = abs(torques[self._limited]) / self._limits[self._limited]
            largest = loads.argmax()
            if loads[largest] >= MIN_LOAD:
                return [0], self._limited[[largest]], [f"{loads[largest]:.0%}"]
        return [], np.zeros(0, np.intp), []


def _count_lines(points: Array, height: float) -> Array:
    """Return how many points (n, 3) before each one are within a height of the next one, (n,)."""
    counts = np.zeros(len(points))
    distances = np.sqrt((np.diff(points, axis=0) ** 2).sum(-1))
    for i in np.flatnonzero(distances < height):
        counts[i + 1] = counts[i] + 1.0
    return counts


def _select_torques(source: str, state: Any, terms: Any) -> Array | None:
    """Return the torques (nv,) that a parameter `source` names; None if they are unknown."""
    if source == "effort":
        return state.effort
    if source == "gravity":
        return terms.g
    return None if state.v is None else terms.nle
