# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Bounds of the parameters of bodies from the shapes of their links.

If all mass of a body is between two parallel planes, n.x = a and n.x = b, then the integral of
(n.x - a) (b - n.x) dm is positive. It is linear in the parameters. For several directions n, such
bounds keep the center of mass and the spread of the mass within the shapes (Wensing, Kim and
Slotine, Linear matrix inequalities for physically consistent inertial parameter identification:
a statistical perspective on the mass distribution, IEEE Robotics and Automation Letters 3, 2018,
with an ellipsoid instead of the planes).
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..check.hulls import Hull
from ..check.meshes import Folders
from ..check.shapes import find_corners
from ..engine.kernel.types import Array, ArrayLike
from ..engine.model.model import Model
from ..engine.model.parameters import from_pseudo_inertia, pseudo_inertia
from ..engine.model.urdf import read_urdf

THIN = 5e-4  # m: a shape or a body of less extent counts as flat
_LEAST = 0.05  # lower bound, relative to a body that fills its shapes

Shapes = Mapping[str, ArrayLike]
"""By the name of each link whose shapes are known, points whose hull contains its mass."""


def link_shapes(description: str | bytes, folders: Folders = ()) -> dict[str, Array]:
    """The space that the shapes of each link of a robot occupy.

    Parameters
    ----------
    description : str or bytes
        The URDF.
    folders : sequence of str or PathLike
        Folders to search for meshes, in addition to a sourced ROS workspace. Meshes
        require trimesh: ``pip install "dyn_ros[check]"``.

    Returns
    -------
    dict of str to (n, 3) ndarray
        The corners of the convex hull of the visual and collision shapes of a link, in the link's
        frame [m]; n = 0 without shapes. A link with a shape that cannot be read is missing.

    Examples
    --------
    >>> dyn_ros.link_shapes(robot_file.read_text())["tool"].shape[1]
    3
    """
    return find_corners(description, read_urdf(description), folders)


class Bounds(NamedTuple):
    """Bounds of shapes on bodies: ``rows @ parameters`` are positive; (k, 10 njoints).

    ``of_joint`` (k,) are the joints that the rows are about. ``solids`` (njoints, 10) are bodies of
    the mass 1 that fill the shapes, NaN where these are not known.
    """

    rows: Array
    of_joint: NDArray[np.int_]
    solids: Array


def bounds_of(model: Model, shapes: Shapes) -> Bounds:
    """The bounds of the bodies all of whose links have known shapes, and that carry no payload."""
    links: dict[int, list[Array] | None] = {}
    for frame in model.tree.links:
        if frame.parent >= 0:
            known, points = links.setdefault(frame.parent, []), shapes.get(frame.name)
            if known is None or points is None:
                links[frame.parent] = None
            else:
                corners = np.asarray(points, float).reshape(-1, 3)
                known.append(corners @ frame.placement[:3, :3].T + frame.placement[:3, 3])
    loaded = {payload.joint for payload in model._payloads.values()}
    rows, of_joint, solids = [], [], np.full((model.njoints, 10), np.nan)
    for joint, known in links.items():
        if known and joint not in loaded and sum(map(len, known)):
            hull = Hull(np.vstack(known))
            if hull.solid.volume > THIN**3:
                own = np.zeros((len(_DIRECTIONS), model.njoints, 10))
                own[:, joint], solids[joint] = _of_hull(hull)
                rows.append(own.reshape(len(own), -1))
                of_joint += [joint] * len(own)
    return Bounds(
        np.concatenate([np.zeros((0, 10 * model.njoints)), *rows]), np.array(of_joint, int), solids
    )


def _of_hull(hull: Hull) -> tuple[Array, Array]:
    """The rows of a body, (k, 10), and one of the mass 1 that fills the hull."""
    solid = hull.solid
    axes = np.linalg.eigh(solid.covariance)[1]
    n = _DIRECTIONS @ axes.T
    along = hull.points @ n.T
    a, b = along.min(axis=0), along.max(axis=0)
    Q = np.zeros((len(n), 4, 4))
    Q[:, :3, :3] = -n[:, :, None] * n[:, None]
    Q[:, :3, 3] = Q[:, 3, :3] = 0.5 * (a + b)[:, None] * n
    Q[:, 3, 3] = -a * b
    second = np.vstack(
        [
            np.column_stack([solid.covariance + np.outer(solid.com, solid.com), solid.com]),
            [*solid.com, 1.0],
        ]
    )
    rows = np.einsum("kij,pij->kp", Q, pseudo_inertia(np.eye(10)))
    return rows, from_pseudo_inertia(second)


def _directions() -> Array:
    """Unit vectors to the faces, edges and corners of a cube, one of two opposite ones, (13, 3)."""
    vectors = [v for v in itertools.product((-1, 0, 1), repeat=3) if v > (0, 0, 0)]
    array = np.array(vectors, float)
    return array / np.linalg.norm(array, axis=1, keepdims=True)


_DIRECTIONS = _directions()


def within(bodies: Array, bounds: Bounds) -> Array:
    """Bodies (njoints, 10) with as much of those that fill their shapes that they are within."""
    changed = bodies.copy()
    for i, solid in enumerate(bounds.solids):
        if np.isnan(solid[0]):
            continue
        own = bounds.rows[bounds.of_joint == i, 10 * i : 10 * i + 10]
        full = bodies[i, 0] * solid
        value, least = own @ bodies[i], _LEAST * (own @ full)
        short = value < least
        if short.any():
            share = ((least - value) / (own @ full - value))[short].max()
            changed[i] = (1.0 - share) * bodies[i] + share * full
    return changed
