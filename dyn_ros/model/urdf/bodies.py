# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""What the joints carry: the links' inertias, lumped; joints that carry none."""
import numpy as np

from ...spatial.inertia import Inertia
from ...spatial.se3 import SE3
from ..inertia import rotational_fault
from .error import UrdfError
from .origin import origin_placement
from .tree import ONE_DOF

_ROUNDING = 1e-15                    # of the largest number that a vector or a matrix has


def lumped(links, seats, count, warnings):
    """The inertia of all links on each moving joint; after them, of those on the universe."""
    carried = [[] for _ in range(count + 1)]
    for link in links:
        if link.inertial is not None:
            seat, placement = seats[link.name]
            X = SE3.from_homogeneous(placement)
            carried[seat].append(X.act(_link_inertia(link, warnings)))
    return [sum(inertias, Inertia.zero()) for inertias in carried]


def _link_inertia(link, warnings):
    """A link's inertia in the link's frame."""
    inertial = link.inertial
    if inertial.mass < 0.0:
        raise UrdfError(f'mass of link "{link.name}" is {inertial.mass:g}; expected 0 or more')
    if inertial.inertia is None:
        warnings.append(f'link "{link.name}" has no <inertia>: taken as a point mass')
        rotational = np.zeros((3, 3))
    else:
        rotational = np.array(inertial.inertia.to_matrix())
        fault = rotational_fault(rotational)
        if fault:
            warnings.append(f'inertia of link "{link.name}" {fault}')
    X = SE3.from_homogeneous(origin_placement(inertial.origin))
    return X.act(Inertia(inertial.mass, np.zeros(3), rotational))


def warn_massless(joints, warnings):
    """Warn of joints whose motion moves no mass: the inertia matrix is singular there.

    A joint is looked at together with the joints that mimic it: one of them with mass is enough.
    """
    inner = {joint.parent for joint in joints}
    heavy = _heavy(joints)
    driven_by = {}
    for index, joint in enumerate(joints):
        nothing = index not in heavy or (index not in inner and _moves_nothing(joint))
        driver = index if joint.mimic is None else joint.mimic.joint
        driven_by.setdefault(driver, []).append(nothing)
    for driver, nothing in driven_by.items():
        if all(nothing):
            warnings.append(
                f'joint "{joints[driver].name}" moves no {_missing(joints[driver])}: the inertia '
                "matrix is singular; give its link an inertia, or the joint an armature"
            )


def _heavy(joints):
    """The joints that carry any inertia, on themselves or further out."""
    heavy = set()
    for index in reversed(range(len(joints))):
        inertia = joints[index].inertia
        if index in heavy or inertia.mass > 0.0 or inertia.rotational.any():
            heavy.update((index, joints[index].parent))
    return heavy


def _moves_nothing(joint):
    """Whether a joint at the end of its branch moves without resistance in some direction."""
    inertia = joint.inertia
    rounding = _ROUNDING * np.abs(inertia.rotational).max()
    if joint.kind == "prismatic":
        return inertia.mass == 0.0
    if joint.kind == "planar":
        return inertia.mass == 0.0 or inertia.rotational[2, 2] <= rounding
    if joint.kind == "floating":
        return inertia.mass == 0.0 or np.linalg.eigvalsh(inertia.rotational)[0] <= rounding
    return _about_axis(inertia, joint.axis) <= 0.0


def _about_axis(inertia, axis):
    """The moment of inertia about an axis through the origin; 0 where there is but rounding.

    Not from the moments about the origin, in which a distant center of mass hides all others.
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
