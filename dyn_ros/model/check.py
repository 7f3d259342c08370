# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Plausibility checks of a robot description.

The reader (urdf/) rejects what cannot be used. This module compares the inertia of each link with
physical limits, and with the space that the link's shapes occupy (extents.py).
"""
from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple
from xml.etree.ElementTree import Element

import numpy as np

from .extents import Extent, Extents, LinkExtents, Progress, find_extents, origin_of
from .inertia import LARGEST, rotational_fault
from .meshes import Folders
from .types import Array
from .urdf import children, parse_elements, read_urdf

LIGHTEST, DENSEST = 5.0, 8500.0      # kg/m3: a hollow shell; solid steel, and a little for what
#                                      coarse meshes leave out
MARGIN = 0.1                         # of the radius of the shapes: mass may be that far outside
SMALLEST_PART = 0.1                  # of a solid's radius of gyration; a smaller one is a point
TINY, HUGE = 1e-4, 20.0              # m: radii of gyration of links without known shapes
ROUNDING = 1e-12                     # of mass times radius squared: moments that mean zero
OTHER_UNIT = 100.0                   # times the lengths of the robot: a mesh in mm
NEGLIGIBLE = np.array([1e-3, 1e-2])  # of the mass and the moments of the links fixed to each other
SMALLEST_SIZE = 0.02                 # m: of a robot, if its joints are closer together
PLACEHOLDER = 3.0                    # times the moments of a solid: a round number by chance
SMALLEST_PLACEHOLDER = 1e-3          # kg m2: of links whose shapes are not known
NOISE = 1e-4                         # of the largest moment: smaller ones are written as 0
TURNED = 3                           # links that fit only meshes that are turned to z up

_ENTRIES = (("ixx", 0, 0), ("ixy", 0, 1), ("ixz", 0, 2), ("iyy", 1, 1), ("iyz", 1, 2),
            ("izz", 2, 2))
_ALWAYS = ("mesh-unit", "not-physical", "no-mass")       # matter to other programs in any case
_MISPLACED = ("com-outside", "mass-spread")
_UNUSABLE = ("point-mass", "not-physical")      # no radii of gyration follow from these

_MATERIALS = ((22.6e3, "denser than any material"), (11.3e3, "denser than lead"),
              (DENSEST, "denser than steel"), (0.0, "lighter than foam"))


class Finding(NamedTuple):
    """One finding.

    Attributes
    ----------
    where : str
        The element, such as 'link "arm"'.
    what : str
    advice : str
    kind : str
        Identifier of what was found, such as "mass-spread"; it does not change between versions.
    values : mapping of str to float, str or list
        The numbers of the description that were found, in SI units.
    limits : mapping of str to [low, high]
        What the shapes or physics allow for some of the values; None: unlimited.
    """

    where: str
    what: str
    advice: str
    kind: str
    values: Mapping[str, Any]
    limits: Mapping[str, list[float | None]]


@dataclass(frozen=True, eq=False)
class Examination:
    """The result of a check.

    Attributes
    ----------
    findings : list of Finding
        In the order of the description.
    unseen : list of str
        One line for each reason why shapes could not be examined.
    links : dict of str to LinkInertia
        The inertias of all links that have one, by the link's name.
    extents : Extents
        The space that the links' shapes occupy.
    negligible : set of str
        The links that do not count beside those they are fixed to, such as those of sensors. Only
        findings that matter to other programs are reported for them.
    """

    findings: list[Finding]
    unseen: list[str]
    links: dict[str, LinkInertia]
    extents: Extents
    negligible: set[str]


@dataclass(frozen=True, eq=False)
class LinkInertia:
    """The <inertial> of a link.

    Attributes
    ----------
    mass : float
        [kg]
    placement : (4, 4) ndarray
        Of <inertial>'s axes at the center of mass, in the link's frame.
    rpy : str
        The angles of <inertial>'s <origin>, as in the description.
    rotational : (3, 3) ndarray
        About the center of mass, in the axes of <inertial> [kg m2].
    """

    mass: float
    placement: Array
    rpy: str
    rotational: Array

    @property
    def com(self) -> Array:
        """Center of mass in the link's frame [m], (3,)."""
        return self.placement[:3, 3]

    def covariance(self) -> Array:
        """Mean of (x - com) (x - com)' over the mass, in the link's axes [m2], (3, 3).

        Numbers beyond 1e30 are cut off.
        """
        R = self.placement[:3, :3]
        half = 0.5 * np.trace(self.rotational) * np.eye(3)
        with np.errstate(over="ignore"):
            covariance = (half - self.rotational) / self.mass
        return R @ np.clip(covariance, -LARGEST, LARGEST) @ R.T


def check_urdf(xml: str | bytes, root_joint: str | None = None,
               folders: Folders = ()) -> list[Finding]:
    """Find implausible masses, inertias, meshes and limits.

    Parameters
    ----------
    xml : str or bytes
        The URDF.
    root_joint : {None, "floating", "planar"}
        As for ``Model.from_urdf``.
    folders : sequence of path-like
        Folders to search for the meshes of relative paths and of packages, in addition to those
        of a sourced ROS workspace.

    Returns
    -------
    list of Finding
        Findings in the order of the description.

    Raises
    ------
    UrdfError
        The description cannot be used.
    """
    return examine_urdf(xml, root_joint, folders).findings


def examine_urdf(xml: str | bytes, root_joint: str | None = None, folders: Folders = (),
                 progress: Progress | None = None) -> Examination:
    """Find what `check_urdf` finds, and what it could not examine.

    Parameters
    ----------
    xml, root_joint, folders
        As for `check_urdf`.
    progress : callable, optional
        Called before each mesh is read, and at the end, with the number of meshes that have been
        read, that of all, and the next one's file.

    Returns
    -------
    Examination

    Raises
    ------
    UrdfError
        The description cannot be used.
    """
    tree = read_urdf(xml, root_joint)
    root = parse_elements(xml)
    links = _link_inertias(root)
    readings = find_extents(xml, folders, progress)
    found = [_all_link_findings(links, extents, _robot_size(root)) for extents in readings]
    better = _misplaced(found[0]) - _misplaced(found[-1])
    best = len(found) - 1 if better >= TURNED else 0
    findings = [Finding("description", text, "correct it, or verify what the reader assumes",
                        "description", {}, {})
                for text in tree.warnings if not text.startswith("inertia of link")]
    if best:
        findings.append(_axis_finding(readings[0], better))
    findings += found[best]
    for joint in tree.joints:
        findings += _joint_findings(joint)
    return Examination(findings, readings[best].unseen, links, readings[best],
                       _negligible(links, readings[best]))


def _axis_finding(extents: Extents, better: int) -> Finding:
    return Finding("description", f"has {len(extents.y_up)} COLLADA meshes whose up axis is y, "
                   f"such as '{extents.y_up[0]}'; they fit the inertias of {better} more links if "
                   "they are turned to z up, but RViz and the viewer do not turn them",
                   "export them with z up; here they are turned", "mesh-axis",
                   {"meshes": list(extents.y_up)}, {})


def _misplaced(findings: Sequence[Finding]) -> int:
    """The number of findings about links whose mass is elsewhere than their shapes."""
    return len({finding.where for finding in findings if finding.kind in _MISPLACED})


# --- a link

def _link_inertias(root: Element) -> dict[str, LinkInertia]:
    """The <inertial> of each link that has one; the reader has validated them."""
    inertias = {}
    for link in children(root, "link"):
        for inertial in children(link, "inertial")[:1]:
            mass = float(children(inertial, "mass")[0].get("value", "0"))
            origins = children(inertial, "origin")
            rpy = origins[0].get("rpy", "0 0 0") if origins else "0 0 0"
            inertias[link.get("name", "")] = LinkInertia(mass, origin_of(inertial), rpy,
                                                         _rotational(inertial))
    return inertias


def _negligible(links: Mapping[str, LinkInertia], extents: Extents) -> set[str]:
    """The links that do not count beside those they are fixed to, such as those of sensors."""
    sums: dict[str, Array] = {}
    for name, inertia in links.items():
        body, own = extents.bodies[name], extents.links[name].own
        solid = own.solid.inertia(inertia.mass) if own else np.zeros((3, 3))
        moments = max(np.trace(inertia.rotational), np.trace(solid))
        sums[body] = sums.get(body, np.zeros(2)) + (inertia.mass, moments)
    return {name for name, inertia in links.items()
            if ((inertia.mass, np.trace(inertia.rotational))
                < NEGLIGIBLE * sums[extents.bodies[name]]).all()}


def _rotational(inertial: Element) -> Array:
    for element in children(inertial, "inertia"):
        xx, xy, xz, yy, yz, zz = (float(element.get(key, "0"))
                                  for key in ("ixx", "ixy", "ixz", "iyy", "iyz", "izz"))
        return np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
    return np.zeros((3, 3))


def _all_link_findings(links: Mapping[str, LinkInertia], extents: Extents,
                       size: float) -> list[Finding]:
    negligible = _negligible(links, extents)
    return [finding for name, known in extents.links.items()
            for finding in _link_findings(name, links.get(name), known, size)
            if name not in negligible or finding.kind in _ALWAYS]


def _link_findings(name: str, inertia: LinkInertia | None, extents: LinkExtents,
                   size: float) -> Iterator[Finding]:
    where = f'link "{name}"'
    if size > 0.0 and extents.mesh > OTHER_UNIT * size:
        yield _unit_finding(where, extents.mesh, size)
        extents = LinkExtents()         # its shapes are no measure
    if inertia is None:
        return
    if inertia.mass == 0.0:
        if inertia.rotational.any():
            yield Finding(where, "has inertia, but no mass", "set <mass> in kg", "no-mass",
                          {"mass": 0.0}, {"mass": [0.0, None]})
        return
    own = extents.own or extents.allowed
    faults = list(_faults(where, inertia, own))
    yield from faults
    if not any(finding.kind in _UNUSABLE for finding in faults):
        yield from _inertia_findings(where, inertia, extents)
    if extents.allowed is not None:
        yield from _com_findings(where, inertia, extents.allowed)
        yield from _density_findings(where, inertia, extents)


def _unit_finding(where: str, radius: float, size: float) -> Finding:
    return Finding(where, f"has a mesh that extends {radius:.3g} m from its center; the joints of "
                   f"the robot are at most {size:.3g} m apart",
                   'if the file is in mm, add scale="0.001 0.001 0.001" to <mesh>', "mesh-unit",
                   {"radius": radius}, {"radius": [0.0, OTHER_UNIT * size]})


def _robot_size(root: Element) -> float:
    """The largest distance of a joint from the origin of its parent link [m]; 0 if all are 0."""
    lengths = [float(np.linalg.norm(origin_of(joint)[:3, 3])) for joint in children(root, "joint")]
    longest = max(lengths, default=0.0)
    return max(longest, SMALLEST_SIZE) if longest > 0.0 else 0.0


# --- the inertia alone

def _faults(where: str, inertia: LinkInertia, own: Extent | None) -> Iterator[Finding]:
    """Findings about an inertia that is not that of a body with an extent."""
    moments = _moments(inertia)
    solid = _solid_advice(inertia, own)
    advice = solid or "set <inertia>, about the center of mass in kg m2"
    if not inertia.rotational.any():
        yield Finding(where, "has mass, but no rotational inertia, like a point mass", advice,
                      "point-mass", moments, {})
        return
    smallest, _, largest = np.linalg.eigvalsh(inertia.rotational)
    nothing = ROUNDING * inertia.mass * (own.hull.radius if own else 1.0) ** 2
    if max(-smallest, largest) <= nothing:
        yield Finding(where, f"has moments of inertia up to {max(-smallest, largest):.2g} kg m2, "
                      "which are rounding errors of 0: a point mass", advice, "point-mass",
                      moments, {})
        return
    rounded = {key: value for key, value in moments.items()
               if key in ("ixx", "iyy", "izz") and -max(nothing, ROUNDING * largest) <= value < 0.0}
    if rounded:
        named = ", ".join(f"{key} = {value:.3g}" for key, value in rounded.items())
        yield Finding(where, f"has a negative {named}, which is a rounding error",
                      f"write 0 for {', '.join(rounded)}", "rounding", moments,
                      {key: [0.0, None] for key in rounded})
    fault = rotational_fault(inertia.rotational)
    if fault:
        yield Finding(where, f"has an inertia that {fault}", _joined(
            "this is not physical: <inertia> is about the center of mass, in the axes of "
            "<inertial>'s <origin>; check the order and the signs.", solid), "not-physical",
            moments, {})


# --- the inertia and the shapes

def _inertia_findings(where: str, inertia: LinkInertia, extents: LinkExtents) -> Iterator[Finding]:
    with np.errstate(over="ignore"):
        gyration = math.sqrt(float(np.trace(inertia.rotational)) / 2.0 / inertia.mass)
    if _is_placeholder(inertia, extents, gyration):
        moment = float(inertia.rotational[0, 0])
        yield Finding(where, f"has the placeholder ixx = iyy = izz = {moment:g}, which spreads its "
                      f"mass over {gyration:.3g} m (RMS distance from its center)",
                      _solid_advice(inertia, extents.own)
                      or "set <inertia>, about the center of mass in kg m2", "placeholder",
                      _moments(inertia), {})
        return
    if extents.allowed is None:
        if not TINY < gyration < HUGE:
            yield Finding(where, f"spreads its mass over {gyration:.3g} m (RMS distance from its "
                          "center)", "is <inertia> in kg m2, and <mass> in kg?", "mass-spread",
                          {"spread": gyration}, {"spread": [TINY, HUGE]})
        return
    yield from _spread_findings(where, inertia, extents)
    if extents.own is None:
        return
    of_solid = math.sqrt(np.trace(extents.own.solid.covariance))
    if gyration < SMALLEST_PART * of_solid:
        yield Finding(where, f"has its mass within {gyration:.3g} m (RMS distance from its "
                      f"center), nearly a point mass; a solid of its shapes has {of_solid:.3g} m",
                      _joined("is <inertia> in kg m2?", _solid_advice(inertia, extents.own)),
                      "point-like", {"spread": gyration},
                      {"spread": [SMALLEST_PART * of_solid, None]})


def _spread_findings(where: str, inertia: LinkInertia, extents: LinkExtents) -> Iterator[Finding]:
    """Compare the second moments of mass with what the hull of the shapes allows.

    Mass on an interval [a, b] whose mean is c has a variance of at most (b - c) (c - a): that of
    two point masses at its ends. The interval is that of the hull, with its margin, along the
    principal axes of the inertia and those of the shapes.
    """
    allowed, covariance = extents.allowed, inertia.covariance()
    if allowed is None:
        return
    margin = MARGIN * allowed.hull.radius
    worst, found = 1.0, None
    for axis in (*np.linalg.eigh(covariance)[1].T, *allowed.solid.axes.T):
        low, high = allowed.hull.interval(axis)
        low, high, mean = low - margin, high + margin, float(axis @ inertia.com)
        limit = (high - mean) * (mean - low)
        if limit <= 0.0:                # the center of mass is outside, which is another finding
            limit = 0.25 * (high - low) ** 2
        variance = float(axis @ covariance @ axis)
        if variance > worst * limit:
            worst, found = variance / limit, (axis, math.sqrt(variance), math.sqrt(limit))
    if found is not None:
        axis, spread, most = found
        yield Finding(where, f"spreads its mass over {spread:.3g} m along {_axis_name(axis)} (RMS "
                      f"distance from its center of mass); mass in its shapes spreads over at most "
                      f"{most:.3g} m", _joined(
                          "is <inertia> in kg m2, about the center of mass, and do the shapes show "
                          "the whole link?", _solid_advice(inertia, extents.own)),
                      "mass-spread", {"spread": spread, "direction": axis.tolist()},
                      {"spread": [0.0, most]})


def _is_placeholder(inertia: LinkInertia, extents: LinkExtents, gyration: float) -> bool:
    """Whether the inertia is a power of ten times the identity, but not that of its shapes."""
    moment = float(inertia.rotational[0, 0])
    if moment <= 0.0 or (inertia.rotational != moment * np.eye(3)).any():
        return False
    if not math.isclose(moment, 10.0 ** round(math.log10(moment)), rel_tol=1e-9):
        return False
    if extents.own is None:
        if extents.allowed is None:
            return moment >= SMALLEST_PLACEHOLDER
        return gyration > 0.5 * extents.allowed.hull.radius
    solid = np.linalg.eigvalsh(extents.own.solid.inertia(inertia.mass))
    return bool((solid * PLACEHOLDER < moment).any() or (solid > PLACEHOLDER * moment).any())


def _com_findings(where: str, inertia: LinkInertia, allowed: Extent) -> Iterator[Finding]:
    outside = allowed.hull.distance(inertia.com)
    if outside <= MARGIN * allowed.hull.radius:
        return
    rpy = inertia.rpy
    xyz = " ".join(_number(round(float(x), 6)) for x in allowed.solid.com)
    yield Finding(where, f"has its center of mass {outside:.3g} m outside its shapes",
                  "<origin> of <inertial> is expressed in the link's frame, in m; the center of "
                  f'its shapes: <origin xyz="{xyz}" rpy="{rpy}"/>', "com-outside",
                  {"distance": outside, "com": inertia.com.tolist()},
                  {"distance": [0.0, MARGIN * allowed.hull.radius]})


def _density_findings(where: str, inertia: LinkInertia,
                      extents: LinkExtents) -> Iterator[Finding]:
    for extent, low, high in ((extents.allowed, 0.0, DENSEST), (extents.own, LIGHTEST, math.inf)):
        if extent is None:
            continue
        density = inertia.mass / extent.largest
        if low <= density <= high:
            continue
        material = next(text for least, text in _MATERIALS if density >= least)
        yield Finding(where, f"has {inertia.mass:.3g} kg in shapes of {1e3 * extent.largest:.3g} "
                      f"l: {density:.3g} kg/m3, {material}",
                      "is <mass> in kg, and are the shapes in m?", "density",
                      {"mass": inertia.mass, "volume": extent.largest, "density": density},
                      {"density": [LIGHTEST, DENSEST]})


# --- what the description should say

def _solid_advice(inertia: LinkInertia, own: Extent | None) -> str:
    """The inertia of a solid of the link's shapes, as a line of a description."""
    if own is None:
        return ""
    R = inertia.placement[:3, :3]
    I = R.T @ own.solid.inertia(inertia.mass) @ R
    I[np.abs(I) < NOISE * np.abs(I).max()] = 0.0
    words = " ".join(f'{key}="{_number(I[row, column])}"' for key, row, column in _ENTRIES)
    return f"write <inertia {words}/>, that of a solid with its shapes"


def _joined(question: str, solid: str) -> str:
    """A question, and the advice from the shapes, which may be empty."""
    return f"{question} Without better values, {solid}" if solid else question


def _moments(inertia: LinkInertia) -> dict[str, float]:
    return {key: float(inertia.rotational[row, column]) for key, row, column in _ENTRIES}


def _number(x: float) -> str:
    return f"{x:.6g}" if x else "0"


def _axis_name(axis: Array) -> str:
    """x, y or z if the direction is nearly that axis of the link, or its coordinates."""
    main = int(np.abs(axis).argmax())
    if abs(axis[main]) > 0.99:
        return "xyz"[main]
    return "({:.2f}, {:.2f}, {:.2f})".format(*(axis * np.sign(axis[main])))


# --- a joint

def _joint_findings(joint):
    if joint.mimic is not None:
        return
    where = f'joint "{joint.name}"'
    if joint.lower == joint.upper:
        yield Finding(where, f"cannot move: both limits are {joint.lower:g}",
                      "set lower and upper of <limit>, or make it a fixed joint", "no-motion",
                      {"lower": joint.lower, "upper": joint.upper}, {})
    for what, value, unit in (("effort", joint.effort, "N m or N"),
                              ("velocity", joint.velocity, "rad/s or m/s")):
        if value <= 0.0:
            yield Finding(where, f"has the {what} limit {value:g}",
                          f"set {what} of <limit>, in {unit}", f"{what}-limit", {what: value},
                          {what: [0.0, None]})
