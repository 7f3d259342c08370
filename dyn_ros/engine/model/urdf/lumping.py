# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Lumped inertias of the links on each joint, and joints without inertia."""

import numpy as np

from ...spatial.inertia import Inertia
from ...spatial.se3 import SE3
from .text import UrdfError
from .tree import ONE_DOF
from .values import placement_of

_ROUNDING = 1e-15  # relative to the largest number of a vector or matrix
_TEXT_ROUNDING = 1e-6  # of moments in a description, relative to the largest one
_NOTHING = 1e-15  # kg m2: negligible moments


def lumped(links, placed, count, inertias):
    """The inertia of all links on each moving joint, and of those on the universe as the last one.

    ``placed`` is the joint and the placement of each link, see ``walk``, and ``inertias`` what
    ``link_inertia`` returns for each.
    """
    bodies: list[list[Inertia]] = [[] for _ in range(count + 1)]
    for link in links:
        if link.inertial is not None:
            joint, placement = placed[link.name]
            X = SE3.from_homogeneous(placement)
            bodies[joint].append(X.act(inertias[link.name]))
    return [sum(parts, Inertia.zero()) for parts in bodies]


def link_inertia(link, warnings):
    """A link's inertia, expressed in the link's frame."""
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


def rotational_fault(rotational):
    """Return why a matrix is not the inertia of a body about its com, or an empty string."""
    low, middle, high = np.linalg.eigvalsh(rotational)
    allowed = _TEXT_ROUNDING * max(abs(low), abs(high)) + _NOTHING
    if low < -allowed:
        return f"is not positive semidefinite: its smallest principal moment is {low:.3g} kg m^2"
    if high - middle - low > allowed:
        return (
            "violates the triangle inequality: its largest principal "
            f"moment {high:.3g} kg m^2 exceeds the sum of the others by "
            f"{high - middle - low:.3g} kg m^2"
        )
    return ""


def rotational_of(inertial):
    """The matrix of an <inertial>, about the center of mass in its own axes [kg m2]."""
    I = inertial.inertia
    if I is None:
        return np.zeros((3, 3))
    return np.array([[I.ixx, I.ixy, I.ixz], [I.ixy, I.iyy, I.iyz], [I.ixz, I.iyz, I.izz]])


def warn_massless(joints, warnings):
    """Warn about joints that move no mass, for which the inertia matrix is singular.

    A joint and its mimic joints are considered together.
    """
    inner = {joint.parent for joint in joints}
    heavy = _heavy(joints)
    driven_by: dict[int, list[bool]] = {}
    for index, joint in enumerate(joints):
        nothing = index not in heavy or (index not in inner and _moves_nothing(joint))
        driver = index if joint.mimic is None else joint.mimic.joint
        driven_by.setdefault(driver, []).append(nothing)
    for driver, nothing in driven_by.items():
        if all(nothing):
            warnings.append(
                f'joint "{joints[driver].name}" moves no {_missing(joints[driver])}: the inertia '
                "matrix is singular; add an inertia to its link, or set its armature"
            )


def _heavy(joints):
    """The joints with any inertia in their subtrees."""
    heavy: set[int] = set()
    for index in reversed(range(len(joints))):
        inertia = joints[index].inertia
        if index in heavy or inertia.mass > 0.0 or inertia.rotational.any():
            heavy.update((index, joints[index].parent))
    return heavy


def _moves_nothing(joint):
    """Whether a joint at the end of a branch moves no inertia in some direction."""
    inertia = joint.inertia
    rounding = _ROUNDING * np.abs(inertia.rotational).max()
    if joint.kind == "prismatic":
        return inertia.mass == 0.0
    if joint.kind == "planar":
        return inertia.mass == 0.0 or inertia.rotational[2, 2] <= rounding
    if joint.kind == "floating":
        return inertia.mass == 0.0 or np.linalg.eigvalsh(inertia.rotational)[0] <= rounding
    if joint.kind == "spherical":
        return _turns_nothing(inertia)
    return _about_axis(inertia, joint.axis) <= 0.0


def _turns_nothing(inertia):
    """Whether the moment of inertia about some axis through the origin is zero.

    Only that of the axis through the center of mass, or one about this center, can be.
    """
    distance = np.linalg.norm(inertia.com)
    if inertia.mass == 0.0 or distance == 0.0:
        moments = np.linalg.eigvalsh(inertia.rotational)
        return moments[0] <= _ROUNDING * abs(moments[-1])
    return _about_axis(inertia, inertia.com / distance) <= 0.0


def _about_axis(inertia, axis):
    """The moment of inertia about an axis through the origin; 0 if it is a rounding error.

    It is not computed from the moments about the origin, which a distant center of mass
    dominates.
    """
    own = axis @ inertia.rotational @ axis
    if abs(own) <= _ROUNDING * np.abs(inertia.rotational).max():
        own = 0.0
    arm, distance = np.linalg.norm(np.cross(axis, inertia.com)), np.linalg.norm(inertia.com)
    return own if arm <= _ROUNDING * distance else own + inertia.mass * arm * arm


def _missing(joint):
    if joint.kind == "prismatic" or joint.inertia.mass == 0.0:
        return "mass"
    return "inertia about its axis" if joint.kind in ONE_DOF else "rotational inertia"
