# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Plausibility checks of a robot description.

The reader (urdf/) rejects what cannot be used. This module compares the inertia of each link with
physical limits and with the size of the link's shapes.
"""
import math
from typing import NamedTuple

import numpy as np

from .inertia import LARGEST, rotational_fault
from .urdf import children, parse_elements, parse_numbers, placement, read_urdf

LIGHTEST, DENSEST = 5.0, 25e3        # kg/m3: a hollow shell; solid platinum
SMALLEST_PART = 0.02                 # of the link's size; a smaller radius of gyration is a point
TINY, HUGE = 1e-4, 20.0              # m: radii of gyration of links without simple shapes


class Finding(NamedTuple):
    """One finding.

    Attributes
    ----------
    where : str
        The element, such as 'link "arm"'.
    what : str
    advice : str
    """

    where: str
    what: str
    advice: str


def check_urdf(xml, root_joint=None):
    """Find implausible masses, inertias and limits.

    Parameters
    ----------
    xml : str or bytes
        The URDF.
    root_joint : {None, "floating", "planar"}
        As for ``Model.from_urdf``.

    Returns
    -------
    list of Finding
        Findings in the order of the description.

    Raises
    ------
    UrdfError
        The description cannot be used.
    """
    tree = read_urdf(xml, root_joint)
    root = parse_elements(xml)
    findings = [Finding("description", text, "correct it, or verify what the reader assumes")
                for text in tree.warnings if not text.startswith("inertia of link")]
    for link in children(root, "link"):
        findings += [Finding(f'link "{link.get("name")}"', what, advice)
                     for what, advice in _link_findings(link)]
    for joint in tree.joints:
        findings += [Finding(f'joint "{joint.name}"', what, advice)
                     for what, advice in _joint_findings(joint)]
    return findings


# --- a link

def _link_findings(link):
    """Yield (what, advice) for a link's inertial element, which the reader has validated."""
    inertial = _child(link, "inertial")
    if inertial is None:
        return
    mass = float(_child(inertial, "mass").get("value"))
    rotational = _rotational(_child(inertial, "inertia"))
    if mass == 0.0:
        if rotational.any():
            yield "has inertia, but no mass", "set <mass> in kg"
        return
    if not rotational.any():
        yield ("has mass, but no rotational inertia, like a point mass",
               "set <inertia>, about the center of mass in kg m2")
        return
    fault = rotational_fault(rotational)
    if fault:
        yield (f"has an inertia that {fault}", "this is not physical: <inertia> is about the "
               "center of mass, in the axes of <inertial>'s <origin>; check the order and the "
               "signs")
        return
    com = _placed(inertial)[:3, 3]
    yield from _size_findings(mass, com, rotational, _Shapes(link))


def _size_findings(mass, com, rotational, shapes):
    gyration = math.sqrt(max(0.0, 0.5 * float(np.trace(rotational)) / mass))
    if not shapes.known:
        if not TINY < gyration < HUGE:
            yield (f"spreads its mass over {gyration:.3g} m (RMS distance from its center)",
                   "is <inertia> in kg m2, and <mass> in kg?")
        return
    low, high = shapes.box
    size = 0.5 * np.linalg.norm(high - low)
    x, y, z = high - low
    solid = mass / 12.0 * np.array([y * y + z * z, x * x + z * z, x * x + y * y])
    advice = ("is <inertia> in kg m2, about the center of mass? A solid box around the shapes has "
              f"ixx, iyy, izz = {', '.join(f'{i:.3g}' for i in solid)}")
    if gyration > size:
        yield (f"spreads its mass over {gyration:.3g} m; its shapes only extend {size:.3g} m from "
               "their center", advice)
    elif gyration < SMALLEST_PART * size:
        yield (f"has its mass within {gyration:.3g} m, nearly a point mass; its shapes extend "
               f"{size:.3g} m from their center", advice)
    outside = np.linalg.norm(np.maximum(np.maximum(low - com, com - high), 0.0))
    if outside > 0.1 * size:
        yield (f"has its center of mass {outside:.3g} m outside its shapes",
               "<origin> of <inertial> is expressed in the link's frame, in m")
    density = mass / shapes.volume
    if not LIGHTEST < density < DENSEST:
        yield (f"has {mass:.3g} kg in shapes of {1e3 * shapes.volume:.3g} l: {density:.3g} kg/m3",
               "is <mass> in kg, and are the shapes in m?")


def _rotational(element):
    if element is None:
        return np.zeros((3, 3))
    xx, xy, xz, yy, yz, zz = (float(element.get(key))
                              for key in ("ixx", "ixy", "ixz", "iyy", "iyz", "izz"))
    return np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])


def _child(element, tag):
    """The first child with a name, which is the one that the reader uses, or None."""
    return next(iter(children(element, tag)), None)


def _placed(element):
    """The placement specified by an element's <origin>."""
    origin = _child(element, "origin")
    words = {} if origin is None else origin.attrib
    return placement(*(parse_numbers(words.get(key, "0 0 0"), 3, LARGEST)
                       for key in ("xyz", "rpy")))


class _Shapes:
    """The boxes, spheres and cylinders of a link.

    Attributes
    ----------
    known : bool
        Whether these are all visual and collision shapes of the link: at least one, and no
        meshes.
    box : (low, high)
        Corners of their bounding box, in the link's frame [m].
    volume : float
        Total of the visual or of the collision shapes, whichever is larger [m3]; overlaps count
        twice.
    """

    def __init__(self, link):
        corners, volumes = [], [0.0, 0.0]
        try:
            for n, use in enumerate(("visual", "collision")):
                for shape in children(link, use):
                    half, volume = _extent(_child(shape, "geometry")[0])
                    X = _placed(shape)
                    reach = np.abs(X[:3, :3]) @ half
                    corners += [X[:3, 3] - reach, X[:3, 3] + reach]
                    volumes[n] += volume
        except (IndexError, KeyError, TypeError, ValueError):
            corners = []                # a mesh, or a shape that only viewers understand
        self.volume = max(volumes)
        self.known = bool(corners) and self.volume > 0.0
        if self.known:
            self.box = np.min(corners, 0), np.max(corners, 0)


def _extent(geometry):
    """Half the edges of a shape's bounding box, and its volume."""
    def numbers(key, count=1):
        return parse_numbers(geometry.attrib[key], count, LARGEST)

    kind = geometry.tag.rpartition("}")[2]
    if kind == "box":
        x, y, z = numbers("size", 3)
        return np.array([x, y, z]) / 2.0, x * y * z
    if kind == "sphere":
        (r,) = numbers("radius")
        return np.array([r, r, r]), 4.0 / 3.0 * math.pi * r ** 3
    if kind == "cylinder":
        (r,), (h,) = numbers("radius"), numbers("length")
        return np.array([r, r, h / 2.0]), math.pi * r * r * h
    raise ValueError(kind)


# --- a joint

def _joint_findings(joint):
    if joint.mimic is not None:
        return
    if joint.lower == joint.upper:
        yield (f"cannot move: both limits are {joint.lower:g}",
               "set lower and upper of <limit>, or make it a fixed joint")
    for what, value, unit in (("effort", joint.effort, "N m or N"),
                              ("velocity", joint.velocity, "rad/s or m/s")):
        if value <= 0.0:
            yield (f"has the {what} limit {value:g}", f"set {what} of <limit>, in {unit}")
