# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Lumped inertias of the links on each joint, and joints without inertia."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from ...kernel.types import Array
from ...spatial.inertia import Inertia
from ...spatial.se3 import SE3
from .text import UrdfError
from .tree import ONE_DOF, Joint
from .values import placement_of

if TYPE_CHECKING:
    from urdf_parser_py import urdf

ROUNDING_ERROR = 1e-15  # relative to the largest number of a vector or matrix
MOMENT_TOLERANCE = 1e-6  # relative to the largest moment; moments of descriptions are rounded
ABSOLUTE_TOLERANCE = 1e-15  # kg m2


def lump_inertias(
    links: Iterable[urdf.Link],
    carriers: Mapping[str, tuple[int, Array]],
    njoints: int,
    inertias: Mapping[str, Inertia],
) -> list[Inertia]:
    """Return the inertia of all links on each moving joint, and of the fixed base as the last one.

    ``carriers`` has the joint and the placement of each link, see ``traverse_tree``, and
    ``inertias`` the inertia from ``link_inertia``.
    """
    inertias_of_joints: list[list[Inertia]] = [[] for _ in range(njoints + 1)]
    for link in links:
        if link.inertial is not None:
            joint, placement = carriers[link.name]
            X = SE3.from_homogeneous(placement)
            inertias_of_joints[joint].append(X.act(inertias[link.name]))
    return [sum(body_inertias, Inertia.zero()) for body_inertias in inertias_of_joints]


def link_inertia(link: urdf.Link, warnings: list[str]) -> Inertia:
    """Return a link's inertia, expressed in the link's frame."""
    inertial = link.inertial
    if inertial is None:
        return Inertia.zero()
    if inertial.mass < 0.0:
        raise UrdfError(f'mass of link "{link.name}" is {inertial.mass:g}; expected 0 or more')
    if inertial.inertia is None:
        warnings.append(f'link "{link.name}" has no <inertia>: assumed to be a point mass')
    rotational = rotational_of(inertial)
    if fault := rotational_fault(rotational):
        warnings.append(f'inertia of link "{link.name}" {fault}')
    X = SE3.from_homogeneous(placement_of(inertial))
    return X.act(Inertia(inertial.mass, np.zeros(3), rotational))


def rotational_fault(rotational: Array) -> str:
    """Return the reason why a rotational inertia is not physical, or an empty string."""
    smallest, middle, largest = np.linalg.eigvalsh(rotational)
    tolerance = MOMENT_TOLERANCE * max(abs(smallest), abs(largest)) + ABSOLUTE_TOLERANCE
    if smallest < -tolerance:
        return (
            f"is not positive semidefinite: its smallest principal moment is {smallest:.3g} kg m^2"
        )
    if largest - middle - smallest > tolerance:
        return (
            "violates the triangle inequality: its largest principal "
            f"moment {largest:.3g} kg m^2 exceeds the sum of the others by "
            f"{largest - middle - smallest:.3g} kg m^2"
        )
    return ""


def rotational_of(inertial: urdf.Inertial) -> Array:
    """Return the matrix of an <inertial>, about the center of mass in its own axes [kg m2]."""
    I = inertial.inertia
    if I is None:
        return np.zeros((3, 3))
    return np.array([[I.ixx, I.ixy, I.ixz], [I.ixy, I.iyy, I.iyz], [I.ixz, I.iyz, I.izz]])


def warn_massless(joints: Sequence[Joint], warnings: list[str]) -> None:
    """Warn about joints that move no mass, for which the inertia matrix is singular.

    A joint and its mimic joints are considered together.
    """
    parents = {joint.parent for joint in joints}
    joints_with_inertia = _joints_with_inertia(joints)
    massless_by_driver: dict[int, list[bool]] = {}
    for index, joint in enumerate(joints):
        is_massless = index not in joints_with_inertia or (
            index not in parents and _is_massless_at_end(joint)
        )
        driver = index if joint.mimic is None else joint.mimic.joint
        massless_by_driver.setdefault(driver, []).append(is_massless)
    for driver, flags in massless_by_driver.items():
        if all(flags):
            warnings.append(
                f'joint "{joints[driver].name}" moves no {_missing_inertia(joints[driver])}: the '
                "inertia matrix is singular; add an inertia to its link, or set its armature"
            )


def _joints_with_inertia(joints: Sequence[Joint]) -> set[int]:
    """Return the indices of joints with any inertia in their subtrees."""
    indices: set[int] = set()
    for index in reversed(range(len(joints))):
        inertia = joints[index].inertia
        if index in indices or inertia.mass > 0.0 or inertia.rotational.any():
            indices.update((index, joints[index].parent))
    return indices


def _is_massless_at_end(joint: Joint) -> bool:
    """Return True if a joint at the end of a branch moves no inertia in some direction."""
    inertia = joint.inertia
    rounding = ROUNDING_ERROR * np.abs(inertia.rotational).max()
    if joint.kind == "prismatic":
        return inertia.mass == 0.0
    if joint.kind == "planar":
        return inertia.mass == 0.0 or inertia.rotational[2, 2] <= rounding
    if joint.kind == "floating":
        return inertia.mass == 0.0 or np.linalg.eigvalsh(inertia.rotational)[0] <= rounding
    if joint.kind == "spherical":
        return _has_massless_axis(inertia)
    return _moment_about_axis(inertia, joint.axis) <= 0.0


def _has_massless_axis(inertia: Inertia) -> bool:
    """Return True if the moment of inertia about some axis through the origin is zero.

    This must be the axis through the center of mass or, if that is at the origin, a principal axis.
    """
    distance = np.linalg.norm(inertia.com)
    if inertia.mass == 0.0 or distance == 0.0:
        moments = np.linalg.eigvalsh(inertia.rotational)
        return moments[0] <= ROUNDING_ERROR * abs(moments[-1])
    return _moment_about_axis(inertia, inertia.com / distance) <= 0.0


def _moment_about_axis(inertia: Inertia, axis: Array) -> float:
    """Compute the moment of inertia about an axis through the origin; 0 if it is a rounding error.

    It is not computed from the moments about the origin, in which the term of a distant center of
    mass dominates.
    """
    central_moment = float(axis @ inertia.rotational @ axis)
    if abs(central_moment) <= ROUNDING_ERROR * np.abs(inertia.rotational).max():
        central_moment = 0.0
    arm, distance = np.linalg.norm(np.cross(axis, inertia.com)), np.linalg.norm(inertia.com)
    if arm <= ROUNDING_ERROR * distance:
        return central_moment
    return float(central_moment + inertia.mass * arm * arm)


def _missing_inertia(joint: Joint) -> str:
    """Return what a joint without inertia lacks, for a message."""
    if joint.kind == "prismatic" or joint.inertia.mass == 0.0:
        return "mass"
    return "inertia about its axis" if joint.kind in ONE_DOF else "rotational inertia"
