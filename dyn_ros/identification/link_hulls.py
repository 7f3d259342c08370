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

MIN_THICKNESS = 5e-4  # m; a thinner shape or body counts as flat
_MIN_BOUND_RATIO = 0.05  # relative to a body that fills its shapes; lower bound

Shapes = Mapping[str, ArrayLike]
"""Points (n, 3) [m] whose convex hull contains the mass of a link, by the name of the link."""


def link_shapes(description: str | bytes, folders: Folders = ()) -> dict[str, Array]:
    """Compute the space that the shapes of each link of a robot occupy.

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
    """Bounds of shapes on the parameters of bodies: ``rows @ parameters`` is positive."""

    rows: Array  # (k, 10 njoints)
    bound_joints: NDArray[np.int_]  # (k,) joint of each row
    solids: Array  # (njoints, 10) bodies of 1 kg that fill the shapes; NaN if these are unknown


def shape_bounds(model: Model, shapes: Shapes) -> Bounds:
    """Return bounds of the bodies whose links all have known shapes, and that carry no payload."""
    links: dict[int, list[Array] | None] = {}
    for frame in model.tree.links:
        if frame.parent >= 0:
            corners_of_joint, points = links.setdefault(frame.parent, []), shapes.get(frame.name)
            if corners_of_joint is None or points is None:
                links[frame.parent] = None
            else:
                corners = np.asarray(points, float).reshape(-1, 3)
                corners_of_joint.append(
                    corners @ frame.placement[:3, :3].T + frame.placement[:3, 3]
                )
    loaded_joints = {payload.joint for payload in model._payloads.values()}
    rows, bound_joints, solids = [], [], np.full((model.njoints, 10), np.nan)
    for joint, corners_of_joint in links.items():
        if corners_of_joint and joint not in loaded_joints and sum(map(len, corners_of_joint)):
            hull = Hull(np.vstack(corners_of_joint))
            if hull.solid.volume > MIN_THICKNESS**3:
                joint_rows = np.zeros((len(_DIRECTIONS), model.njoints, 10))
                joint_rows[:, joint], solids[joint] = _hull_bounds(hull)
                rows.append(joint_rows.reshape(len(joint_rows), -1))
                bound_joints += [joint] * len(joint_rows)
    return Bounds(
        np.concatenate([np.zeros((0, 10 * model.njoints)), *rows]),
        np.array(bound_joints, int),
        solids,
    )


def _hull_bounds(hull: Hull) -> tuple[Array, Array]:
    """Return the bounds of a body in a hull, (k, 10), and the body of 1 kg that fills it, (10,)."""
    solid = hull.solid
    axes = np.linalg.eigh(solid.covariance)[1]
    n = _DIRECTIONS @ axes.T
    projections = hull.points @ n.T
    a, b = projections.min(axis=0), projections.max(axis=0)
    Q = np.zeros((len(n), 4, 4))
    Q[:, :3, :3] = -n[:, :, None] * n[:, None]
    Q[:, :3, 3] = Q[:, 3, :3] = 0.5 * (a + b)[:, None] * n
    Q[:, 3, 3] = -a * b
    second_moment = np.vstack(
        [
            np.column_stack([solid.covariance + np.outer(solid.com, solid.com), solid.com]),
            [*solid.com, 1.0],
        ]
    )
    rows = np.einsum("kij,pij->kp", Q, pseudo_inertia(np.eye(10)))
    return rows, from_pseudo_inertia(second_moment)


def _cube_directions() -> Array:
    """Return unit vectors (13, 3) to faces, edges and corners of a cube, without opposite ones."""
    vectors = [v for v in itertools.product((-1, 0, 1), repeat=3) if v > (0, 0, 0)]
    array = np.array(vectors, float)
    return array / np.linalg.norm(array, axis=1, keepdims=True)


_DIRECTIONS = _cube_directions()


def move_into_shapes(bodies: Array, bounds: Bounds) -> Array:
    """Move bodies (njoints, 10) towards those that fill their shapes, until they are within."""
    moved_bodies = bodies.copy()
    for i, solid in enumerate(bounds.solids):
        if np.isnan(solid[0]):
            continue
        rows = bounds.rows[bounds.bound_joints == i, 10 * i : 10 * i + 10]
        solid_body = bodies[i, 0] * solid
        value, lower_bound = rows @ bodies[i], _MIN_BOUND_RATIO * (rows @ solid_body)
        is_outside = value < lower_bound
        if is_outside.any():
            share = ((lower_bound - value) / (rows @ solid_body - value))[is_outside].max()
            moved_bodies[i] = (1.0 - share) * bodies[i] + share * solid_body
    return moved_bodies
