# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Plausibility checks of a robot description.

The reader (urdf/) rejects what cannot be used. This module compares the inertia of each link with
physical limits, and with the space that the link's shapes occupy (`shapes`, `link_findings`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
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

NEGLIGIBLE = np.array([1e-3, 1e-2])  # of the mass and the moments of the links fixed to each other
SHAPELESS = 10.0  # times as much, of links without shapes: axes of sensors
OPTICAL = ("_optical", "_optical_frame")  # names of axes of cameras, without a body: REP 103
SMALLEST_SIZE = 0.02  # m: of a robot, if its joints are closer together
TURNED = 3  # links that fit only meshes that are turned to z up

_ALWAYS = ("mesh-unit", "not-physical", "no-mass")  # matter to other programs in any case
_MISPLACED = ("com-outside", "mass-spread")


@dataclass(frozen=True, eq=False)
class Examination:
    """The result of a check.

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
    """The findings of `examine_urdf`."""
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
    tree, faults = _read(xml, root_joint)
    root = urdf.parse_elements(xml)
    robot = urdf.read_values(root, [])
    elements = {element.get("name", ""): element for element in urdf.children(root, "link")}
    links = {
        link.name: _link_inertia(elements[link.name], link.inertial)
        for link in robot.links
        if link.inertial
    }
    readings = find_extents(xml, tree, folders, progress)
    of_links = [_link_findings(links, extents, _robot_size(robot)) for extents in readings]
    better = _misplaced(of_links[0]) - _misplaced(of_links[-1])
    best = len(readings) - 1 if better >= TURNED else 0
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
    if best:
        findings.append(_axis_finding(readings[0], better))
    findings += of_links[best]
    mimics = {joint.name for joint in robot.joints if joint.mimic}
    for joint in tree.joints:
        if joint.name not in mimics:
            findings += _joint_findings(joint)
    return Examination(
        findings, readings[best].unseen, links, readings[best], _negligible(links, readings[best])
    )


def _read(xml: str | bytes, root_joint: str | None) -> tuple[Tree, list[str]]:
    """The description, and what is wrong with its mimic joints if they had to be ignored."""
    try:
        return urdf.read_urdf(xml, root_joint), []
    except UrdfError as error:
        try:
            return urdf.read_urdf(xml, root_joint, "ignore"), [str(error)]
        except UrdfError:
            raise error from None


def _axis_finding(extents: Extents, better: int) -> Finding:
    return Finding(
        "description",
        f"has {len(extents.y_up)} COLLADA meshes whose up axis is y, "
        f"such as '{extents.y_up[0]}'; they fit the inertias of {better} more links if "
        "they are turned to z up, but RViz and the viewer do not turn them",
        "export them with z up; here they are turned",
        "mesh-axis",
        {"meshes": list(extents.y_up)},
        {},
    )


def _misplaced(findings: Sequence[Finding]) -> int:
    """The number of findings about links whose mass is elsewhere than their shapes."""
    return len({finding.where for finding in findings if finding.kind in _MISPLACED})


# --- a link


def _link_inertia(link: Element, inertial: Any) -> LinkInertia:
    element = urdf.child(link, "inertial")
    origin = None if element is None else urdf.child(element, "origin")
    rpy = "0 0 0" if origin is None else origin.get("rpy", "0 0 0")
    return LinkInertia(
        inertial.mass, urdf.placement_of(inertial), rpy, urdf.rotational_of(inertial)
    )


def _negligible(links: Mapping[str, LinkInertia], extents: Extents) -> set[str]:
    """The links that are negligible beside links that they are fixed to, such as sensors."""
    sums: dict[str, Array] = {}
    for name, inertia in links.items():
        body, own = extents.bodies[name], extents.links[name].own
        solid = own.solid.inertia(inertia.mass) if own else np.zeros((3, 3))
        moments = max(np.trace(inertia.rotational), np.trace(solid))
        sums[body] = sums.get(body, np.zeros(2)) + (inertia.mass, moments)
    return {
        name
        for name, inertia in links.items()
        if name.endswith(OPTICAL)
        or (
            (inertia.mass, np.trace(inertia.rotational))
            < (1.0 if extents.links[name].own else SHAPELESS)
            * NEGLIGIBLE
            * sums[extents.bodies[name]]
        ).all()
    }


def _link_findings(
    links: Mapping[str, LinkInertia], extents: Extents, size: float
) -> list[Finding]:
    negligible = _negligible(links, extents)
    return [
        finding
        for name, known in extents.links.items()
        for finding in link_findings(name, links.get(name), known, size)
        if name not in negligible or finding.kind in _ALWAYS
    ]


def _robot_size(robot: Any) -> float:
    """The largest distance of a joint from the origin of its parent link [m]; 0 if all are 0."""
    lengths = [float(np.linalg.norm(urdf.placement_of(joint)[:3, 3])) for joint in robot.joints]
    longest = max(lengths, default=0.0)
    return max(longest, SMALLEST_SIZE) if longest > 0.0 else 0.0


# --- a joint


def _joint_findings(joint: Joint) -> Iterator[Finding]:
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
    for what, value, unit in (
        ("effort", joint.effort, "N m or N"),
        ("velocity", joint.velocity, "rad/s or m/s"),
    ):
        if value <= 0.0:
            yield Finding(
                where,
                f"has the {what} limit {value:g}",
                f"set {what} of <limit>, in {unit}",
                f"{what}-limit",
                {what: value},
                {what: [0.0, None]},
            )
