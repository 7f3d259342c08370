# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Plausibility checks of a robot description.

The reader (urdf/) rejects what cannot be used. This module compares the inertia of each link with
physical limits, and with the space that the link's shapes occupy (`shapes`, `link_findings`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from xml.etree.ElementTree import Element

import numpy as np

from ..engine.kernel.types import Array
from ..engine.model import urdf
from ..engine.model.urdf import Joint, Tree, UrdfError
from .link_findings import Finding, LinkInertia, link_findings
from .meshes import Folders, Progress
from .shapes import Extents, find_extents

NEGLIGIBLE_FRACTIONS = np.array([1e-3, 1e-2])
"""Mass and moments, as fractions of a rigid body's; a link with less is negligible."""
SHAPELESS_FACTOR = 10.0
"""Factor of NEGLIGIBLE_FRACTIONS for links without shapes, which are usually axes of sensors."""
OPTICAL_SUFFIXES = ("_optical", "_optical_frame")
"""Suffixes of names of camera axes, which have no body (REP 103)."""
MIN_ROBOT_SIZE = 0.02  # m; a robot whose joints are closer together has this size
MIN_TURNED_LINKS = 3  # links; if fewer fit better, meshes are not turned to z up

MAX_ORIENTATION = 6.3
"""Largest angle of an <origin> [rad], a full turn; larger ones are probably in degrees."""
MAX_POSITION, MAX_DEGREES = 8.0 * math.pi, 720.0
"""Limits between four turns [rad] and two turns in degrees are probably in degrees.

Joints that turn several times have up to 12.6 rad; larger numbers mean that there is no limit.
"""
MAX_VELOCITY, MIN_PLACEHOLDER_VELOCITY = 100.0, 1000.0
"""Velocity limits between these are probably in degrees/s; larger ones are placeholders [rad/s].

Joints of legged robots and hands reach 60 rad/s. Continuous joints may be propellers or wheels.
"""

KINDS_FOR_NEGLIGIBLE_LINKS = ("mesh-unit", "not-physical", "no-mass")  # other programs may fail
_SHAPE_TAGS = ("visual", "collision")
_MISPLACEMENT_KINDS = ("com-outside", "mass-spread")


@dataclass(frozen=True, eq=False)
class Examination:
    """Result of a check.

    `findings` are in the order of the description. `unseen` has a line for each reason why shapes
    could not be examined, `links` the inertias of all links that have one, by the link's name. The
    `negligible` links, such as sensors, are light beside the links that they are fixed to; only
    findings that matter to other programs are reported for them.
    """

    findings: list[Finding]
    unseen: list[str]
    links: dict[str, LinkInertia]
    extents: Extents
    negligible: set[str]


def check_urdf(
    xml: str | bytes, root_joint: str | None = None, folders: Folders = ()
) -> list[Finding]:
    """Return the findings of `examine_urdf`."""
    return examine_urdf(xml, root_joint, folders).findings


def examine_urdf(
    xml: str | bytes,
    root_joint: str | None = None,
    folders: Folders = (),
    progress: Progress | None = None,
) -> Examination:
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
    progress : callable, optional
        Called before each mesh is read, and at the end, with the number of meshes that have been
        read, the number of all meshes, and the next file.

    Raises
    ------
    UrdfError
        The description cannot be used.
    """
    tree, faults = _read_description(xml, root_joint)
    root = urdf.parse_elements(xml)
    robot = urdf.read_values(root, [])
    elements = {element.get("name", ""): element for element in urdf.children(root, "link")}
    links = {
        link.name: _link_inertia(elements[link.name], link.inertial)
        for link in robot.links
        if link.inertial
    }
    variants = find_extents(xml, tree, folders, progress)
    size = _robot_size(robot)
    link_findings_of_variants = [_findings_of_links(links, extents, size) for extents in variants]
    improved_count = _count_misplaced(link_findings_of_variants[0]) - _count_misplaced(
        link_findings_of_variants[-1]
    )
    variant = len(variants) - 1 if improved_count >= MIN_TURNED_LINKS else 0
    extents = variants[variant]
    findings = [
        Finding(
            "description",
            text,
            "correct it, or verify what the reader assumes",
            "description",
            {},
            {},
        )
        for text in (*faults, *tree.warnings)
        if not text.startswith("inertia of link")
    ]
    if variant:
        findings.append(_axis_finding(variants[0], improved_count))
    findings += link_findings_of_variants[variant]
    for tag in ("link", "joint"):
        for element in urdf.children(root, tag):
            findings += _orientation_findings(tag, element)
    mimics = {joint.name for joint in robot.joints if joint.mimic}
    for joint in tree.joints:
        if joint.name not in mimics:
            findings += _joint_findings(joint)
    findings += _planar_joint_findings(robot)
    findings += _base_findings(tree)
    unseen = [*extents.unseen, *_unchecked_shapes(elements.values(), extents)]
    return Examination(findings, unseen, links, extents, _negligible_links(links, extents))


def _read_description(xml: str | bytes, root_joint: str | None) -> tuple[Tree, list[str]]:
    """Read a description; if its mimic joints had to be ignored, also return what is wrong."""
    try:
        return urdf.read_urdf(xml, root_joint), []
    except UrdfError as error:
        try:
            return urdf.read_urdf(xml, root_joint, "ignore"), [str(error)]
        except UrdfError:
            raise error from None


def _unchecked_shapes(links: Iterable[Element], extents: Extents) -> list[str]:
    """Return a line if there are links with shapes, but none of these could be measured."""
    has_shapes = any(urdf.child(link, tag) is not None for link in links for tag in _SHAPE_TAGS)
    if not has_shapes or any(link_extents.own for link_extents in extents.links.values()):
        return []
    return ["no shapes could be measured: centers of mass, spreads and densities are not checked"]


def _axis_finding(extents: Extents, improved_count: int) -> Finding:
    """Return the finding that meshes whose up axis is y fit better if they are turned to z up."""
    return Finding(
        "description",
        f"has {len(extents.y_up)} COLLADA meshes whose up axis is y, "
        f"such as '{extents.y_up[0]}'; they fit the inertias of {improved_count} more links if "
        "they are turned to z up, but RViz and the viewer do not turn them",
        "export them with z up; here they are turned",
        "mesh-axis",
        {"meshes": list(extents.y_up)},
        {},
    )


def _count_misplaced(findings: Sequence[Finding]) -> int:
    """Return the number of links whose mass is not in their shapes, according to findings."""
    return len({finding.where for finding in findings if finding.kind in _MISPLACEMENT_KINDS})


# --- a link


def _link_inertia(link: Element, inertial: Any) -> LinkInertia:
    """Return the inertia of a <link>, whose values ``read_values`` has read as ``inertial``."""
    element = urdf.child(link, "inertial")
    origin = None if element is None else urdf.child(element, "origin")
    rpy = "0 0 0" if origin is None else origin.get("rpy", "0 0 0")
    if origin is not None and origin.get("quat_xyzw") is not None:
        rpy = " ".join(f"{angle:.6g}" for angle in inertial.origin.rpy)
    return LinkInertia(
        inertial.mass, urdf.placement_of(inertial), rpy, urdf.rotational_of(inertial)
    )


def _negligible_links(links: Mapping[str, LinkInertia], extents: Extents) -> set[str]:
    """Return the links that are negligible compared with the links they are fixed to."""
    sums: dict[str, Array] = {}
    for name, inertia in links.items():
        body, extent = extents.bodies[name], extents.links[name].own
        solid = extent.solid.inertia(inertia.mass) if extent else np.zeros((3, 3))
        moments = max(np.trace(inertia.rotational), np.trace(solid))
        sums[body] = sums.get(body, np.zeros(2)) + (inertia.mass, moments)

    def is_negligible(name: str, inertia: LinkInertia) -> bool:
        factor = 1.0 if extents.links[name].own else SHAPELESS_FACTOR
        limits = factor * NEGLIGIBLE_FRACTIONS * sums[extents.bodies[name]]
        return bool(((inertia.mass, np.trace(inertia.rotational)) < limits).all())

    return {
        name
        for name, inertia in links.items()
        if name.endswith(OPTICAL_SUFFIXES) or is_negligible(name, inertia)
    }


def _findings_of_links(
    links: Mapping[str, LinkInertia], extents: Extents, size: float
) -> list[Finding]:
    """Return the findings about all links of a robot with a ``size`` [m], 0 if unknown.

    Of negligible links, only those that matter to other programs.
    """
    negligible = _negligible_links(links, extents)
    return [
        finding
        for name, link_extents in extents.links.items()
        for finding in link_findings(name, links.get(name), link_extents, size)
        if name not in negligible or finding.kind in KINDS_FOR_NEGLIGIBLE_LINKS
    ]


def _robot_size(robot: Any) -> float:
    """Return the largest distance of a joint from its parent link's origin [m]; 0 if all are 0."""
    lengths = [float(np.linalg.norm(urdf.placement_of(joint)[:3, 3])) for joint in robot.joints]
    size = max(lengths, default=0.0)
    return max(size, MIN_ROBOT_SIZE) if size > 0.0 else 0.0


# --- orientations


def _orientation_findings(tag: str, element: Element) -> Iterator[Finding]:
    """Yield a finding if an <origin> of a <link> or <joint> has an angle beyond a full turn."""
    parents = [element]
    for name in ("inertial", *_SHAPE_TAGS) if tag == "link" else ():
        parents += urdf.children(element, name)
    for parent in parents:
        origin = urdf.child(parent, "origin")
        text = "" if origin is None else origin.get("rpy", "")
        try:
            angles = urdf.parse_numbers(text, 3)
        except ValueError:
            # the reader rejects wrong angles, except in shapes
            continue
        if max(map(abs, angles)) > MAX_ORIENTATION:
            radians = " ".join(f"{math.radians(angle):.6g}" for angle in angles)
            yield Finding(
                f'{tag} "{element.get("name")}"',
                f'has an <origin> with rpy="{text}", angles beyond a full turn',
                f'rpy is in rad; if these are degrees, write rpy="{radians}"',
                "degrees",
                {"rpy": angles},
                {"rpy": [-MAX_ORIENTATION, MAX_ORIENTATION]},
            )
            return


# --- a joint


def _planar_joint_findings(robot: Any) -> Iterator[Finding]:
    """Yield findings about planar joints without an axis."""
    for joint in robot.joints:
        if joint.type == "planar" and joint.axis is None:
            yield Finding(
                f'joint "{joint.name}"',
                "is planar and has no <axis>: by default, it moves in the y-z plane of its frame "
                "according to the specification, but in the x-y plane here and in MoveIt",
                'add <axis xyz="0 0 1"/>, and rotate its <origin> if it moves in another plane',
                "planar-axis",
                {},
                {},
            )


def _base_findings(tree: Tree) -> Iterator[Finding]:
    """Yield a finding about a joint whose position neither nodes nor recordings can know."""
    if (unreported := urdf.find_unreported_joint(tree)) is not None:
        yield Finding(
            f'joint "{unreported.joint}"',
            unreported.reason,
            unreported.remedy,
            "unreported-joint",
            {},
            {},
        )


def _joint_findings(joint: Joint) -> Iterator[Finding]:
    """Yield findings about the limits of a joint."""
    where = f'joint "{joint.name}"'
    if joint.lower == joint.upper:
        yield Finding(
            where,
            f"cannot move, because both limits are {joint.lower:g}",
            "set lower and upper of <limit>, or make it a fixed joint",
            "no-motion",
            {"lower": joint.lower, "upper": joint.upper},
            {},
        )
    if joint.kind == "revolute":
        yield from _angle_findings(where, joint)
    for quantity, value, unit in (
        ("effort", joint.effort, "N m or N"),
        ("velocity", joint.velocity, "rad/s or m/s"),
    ):
        if value <= 0.0:
            yield Finding(
                where,
                f"has the {quantity} limit {value:g}",
                f"set {quantity} of <limit>, in {unit}",
                f"{quantity}-limit",
                {quantity: value},
                {quantity: [0.0, None]},
            )


def _angle_findings(where: str, joint: Joint) -> Iterator[Finding]:
    """Yield findings about limits of a revolute joint that are in degrees or are placeholders."""
    if MAX_POSITION < max(abs(joint.lower), abs(joint.upper)) <= MAX_DEGREES:
        yield Finding(
            where,
            f"turns from {joint.lower:g} to {joint.upper:g} rad, "
            f"{(joint.upper - joint.lower) / math.tau:.3g} turns",
            f'if these are degrees, write lower="{math.radians(joint.lower):.6g}" '
            f'upper="{math.radians(joint.upper):.6g}"; if it turns without limits, make it a '
            "continuous joint",
            "degrees",
            {"lower": joint.lower, "upper": joint.upper},
            {"lower": [-MAX_POSITION, MAX_POSITION], "upper": [-MAX_POSITION, MAX_POSITION]},
        )
    if not MAX_VELOCITY < joint.velocity < math.inf:
        return
    is_placeholder = joint.velocity >= MIN_PLACEHOLDER_VELOCITY
    yield Finding(
        where,
        f"has the velocity limit {joint.velocity:g} rad/s, {joint.velocity / math.tau:.3g} turns/s",
        "set velocity of <limit>, in rad/s, to what its drive reaches"
        if is_placeholder
        else f'if these are degrees/s, write velocity="{math.radians(joint.velocity):.6g}"',
        "velocity-limit" if is_placeholder else "degrees",
        {"velocity": joint.velocity},
        {"velocity": [0.0, MAX_VELOCITY]},
    )
