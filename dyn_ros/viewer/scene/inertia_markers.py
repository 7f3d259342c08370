# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Markers of the inertia of each body: a solid, or an outline if `dyn_ros check` reports it."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

from ...check import examine_urdf
from ...check.meshes import Folders
from ...engine.kernel.lie import matrix_quaternion
from ...engine.kernel.types import Array
from ...engine.model import Model
from . import geometry
from .camera import CAMERA_DIRECTION
from .marker_arrays import (
    CUBE,
    LINE_STRIP,
    SPHERE,
    TEXT_VIEW_FACING,
    THIN_LINE_WIDTH,
    Draw,
    MarkerArrays,
)

MAX_LABEL_SIZE = 60  # bytes
LABEL_HEIGHT = 0.02  # m; of letters
LABEL_OFFSET = 0.05  # m; of a label above the center of mass, and towards the camera
MAX_OUTLINE_SIZE = 2.0  # relative to the shapes; a larger outline is drawn at a smaller scale


class BodyFindings(NamedTuple):
    """Findings about the bodies of a robot, by the index of their joint, -1 for the base.

    Attributes
    ----------
    labels : dict
        Names of the links with findings, of bodies that have any.
    corners : dict
        Corners (n, 3) of the shapes of a body in the frame of its joint [m], of bodies whose
        links with mass have shapes that could be measured.
    """

    labels: dict[int, str]
    corners: dict[int, Array]


def find_bodies(xml: str, model: Model, folders: Folders = ()) -> BodyFindings:
    """Return the findings of `examine_urdf` about the bodies of a model of a description."""
    examination = examine_urdf(xml, folders=folders)
    reported_elements = {finding.where for finding in examination.findings}
    labels, corners = {}, {}
    for joint, links in model.tree.links_of_joint.items():
        names = [link.name for link in links if f'link "{link.name}"' in reported_elements]
        if names:
            labels[joint] = ", ".join(names)
        extents = {link.name: examination.extents.links[link.name].own for link in links}
        if all(extents[link.name] or not link.inertia.mass for link in links):
            points = [
                extent.hull.points @ link.placement[:3, :3].T + link.placement[:3, 3]
                for link in links
                if (extent := extents[link.name])
            ]
            if points:
                corners[joint] = np.concatenate(points)
    return BodyFindings(labels, corners)


class BodyCheck:
    """Findings about the bodies of a robot, from a thread that starts when they are needed.

    Meshes take seconds to read.
    """

    def __init__(self, xml: str, model: Model, folders: Folders = ()) -> None:
        self._xml, self._model, self._folders = xml, model, folders
        self._thread: threading.Thread | None = None
        self._findings: BodyFindings | None = None

    def findings(self) -> BodyFindings | None:
        """Return the findings; None until they are known."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._find, daemon=True)
            self._thread.start()
        return self._findings

    def _find(self) -> None:
        self._findings = find_bodies(self._xml, self._model, self._folders)


class _Solids(NamedTuple):
    """Homogeneous solids with the inertia of bodies.

    Attributes
    ----------
    ids : list of int
        0 for the base, and 1, 2, ... for the joints.
    com : array (n, 3)
        Centers of mass in the frame of the joint [m].
    axes : array (n, 3, 3)
        Principal axes, as the columns of a rotation.
    widths : array (n, 3)
        Widths along these [m].
    """

    ids: list[int]
    com: Array
    axes: Array
    widths: Array

    def select(self, mask: Array) -> _Solids:
        """Return the solids where a mask (n,) is True."""
        ids = [id for id, is_selected in zip(self.ids, mask, strict=True) if is_selected]
        return _Solids(ids, self.com[mask], self.axes[mask], self.widths[mask])

    def limit_widths(self, corners: Mapping[int, Array]) -> None:
        """Make solids no wider than the shapes of their bodies."""
        for k, id in enumerate(self.ids):
            if id - 1 in corners:
                spans = np.ptp(corners[id - 1] @ self.axes[k], axis=0)
                self.widths[k] = np.minimum(self.widths[k], spans)

    def shrink(self, corners: Mapping[int, Array]) -> list[float]:
        """Shrink solids much larger than the shapes of their bodies; return by which factors."""
        factors = [1.0] * len(self.ids)
        for k, id in enumerate(self.ids):
            if id - 1 in corners:
                size = MAX_OUTLINE_SIZE * float(np.ptp(corners[id - 1], axis=0).max())
                factors[k] = max(float(self.widths[k].max()) / size, 1.0)
                self.widths[k] /= factors[k]
        return factors

    def place(self, oMi: Array) -> tuple[Array, Array]:
        """Return centers (n, 3) and rotations (n, 3, 3) for the placements of all joints."""
        X = np.concatenate([np.eye(4)[None], oMi])[self.ids]
        R = X[:, :3, :3]
        return (R @ self.com[..., None])[..., 0] + X[:, :3, 3], R @ self.axes


def make_inertia_markers(
    model: Model, appearance: Any, payloads: Mapping[str, Any], check: BodyCheck
) -> Draw:
    """Return the `Draw` of the body of each joint, and of the base link of a fixed base.

    Each is the homogeneous ellipsoid or box with the same mass and inertia, but no wider than the
    shapes of its links. Where `check` has findings, it is an outline with the names of the links,
    and at the scale in its label if it is much larger than the shapes. `appearance` also has the
    attributes `shape` and `finding_color`. `payloads` is a dict that changes when a payload is set
    or cleared.
    """
    is_ellipsoid = appearance.shape == "ellipsoid"
    solid_markers = MarkerArrays(appearance, SPHERE if is_ellipsoid else CUBE)
    outlines = _Outlines(model, appearance)
    scale = geometry.ELLIPSOID_WIDTH if is_ellipsoid else geometry.BOX_WIDTH
    drawn: tuple[list[Any], BodyFindings | None] | None = None
    solids = reported = _Solids([], np.zeros((0, 3)), np.zeros((0, 3, 3)), np.zeros((0, 3)))

    def draw(state: Any, terms: Any) -> Iterable[MarkerArrays]:
        nonlocal drawn, solids, reported
        current = list(payloads.values()), check.findings()
        if drawn is None or current[1] is not drawn[1] or not _are_same(current[0], drawn[0]):
            drawn, solids = current, _homogeneous_solids(model, scale)
            if findings := current[1]:
                mask = np.array([id - 1 in findings.labels for id in solids.ids], bool)
                solids, reported = solids.select(~mask), solids.select(mask)
                solids.limit_widths(findings.corners)
                factors = reported.shrink(findings.corners)
                outlines.label(
                    [
                        findings.labels[id - 1] + (f" (1:{factor:.2g})" if factor > 1.0 else "")
                        for id, factor in zip(reported.ids, factors, strict=True)
                    ]
                )
        centers, R = solids.place(terms.oMi)
        solid_markers.show_solids(
            solids.ids, centers, matrix_quaternion(R), appearance.scale * solids.widths
        )
        return solid_markers, *outlines.show(reported, terms.oMi)

    return draw


def _are_same(first: list[Any], second: list[Any]) -> bool:
    """Return True if two lists have the same objects."""
    return list(map(id, first)) == list(map(id, second))


class _Outlines:
    """Outlines of solids, with labels."""

    def __init__(self, model: Model, appearance: Any) -> None:
        self._scale = appearance.scale
        self._outline = (
            geometry.ellipsoid_outline()
            if appearance.shape == "ellipsoid"
            else geometry.box_outline()
        )
        self._lines = MarkerArrays(
            appearance,
            LINE_STRIP,
            "findings",
            len(self._outline),
            THIN_LINE_WIDTH * appearance.width,
        )
        self._labels = MarkerArrays(
            appearance, TEXT_VIEW_FACING, "labels", characters=MAX_LABEL_SIZE
        )
        self._color = np.array(appearance.finding_color)
        self._offset = LABEL_OFFSET * (geometry.up_direction(model.gravity) + CAMERA_DIRECTION)
        self._texts: list[str] = []

    def label(self, texts: list[str]) -> None:
        """Set the labels of the solids that are shown from now on."""
        self._texts = texts

    def show(self, solids: _Solids, oMi: Array) -> tuple[MarkerArrays, ...]:
        """Show the outlines of solids."""
        centers, axes = solids.place(oMi)
        half_widths = 0.5 * self._scale * solids.widths
        points = (self._outline * half_widths[:, None]) @ axes.swapaxes(1, 2) + centers[:, None]
        self._lines.show_lines(solids.ids, points)
        self._labels.show_texts(solids.ids, centers + self._offset, self._texts, LABEL_HEIGHT)
        for markers in (self._lines, self._labels):
            markers.set_colors(solids.ids, np.tile(self._color, (len(solids.ids), 1)))
        return self._lines, self._labels


def _homogeneous_solids(model: Model, scale: float) -> _Solids:
    """Return the solids of all bodies that have mass; `scale` is their width / spread."""
    bodies = [model.base_inertia, *model.inertias]
    ids = [i for i, body in enumerate(bodies) if body.mass > 0.0]
    mass, com, rotational = (
        np.array([getattr(bodies[i], attribute) for i in ids]).reshape(-1, *shape)
        for attribute, shape in (("mass", ()), ("com", (3,)), ("rotational", (3, 3)))
    )
    spread, axes = geometry.principal_spread(mass, rotational)
    return _Solids(ids, com, axes, scale * spread)
