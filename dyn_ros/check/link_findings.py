# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Findings about the inertia of one link: alone, and in the space that its shapes occupy."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ..engine.kernel.types import Array
from ..engine.model.urdf import LARGEST, rotational_fault
from .shapes import Extent, LinkExtents

LIGHTEST, DENSEST = 5.0, 8500.0  # kg/m3: a hollow shell; solid steel, and a little for what
#                                      coarse meshes leave out
MARGIN = 0.1  # of the radius of the shapes: mass may be that far outside
SMALLEST_PART = 0.1  # of a solid's radius of gyration; a smaller one is a point
TINY, HUGE = 1e-4, 20.0  # m: radii of gyration of links without known shapes
ROUNDING = 1e-12  # of mass times radius squared: moments that mean zero
OTHER_UNIT = 100.0  # times the lengths of the robot: a mesh in mm
PLACEHOLDER = 3.0  # times the moments of a solid: a round number by chance
SMALLEST_PLACEHOLDER = 1e-3  # kg m2: of links whose shapes are not known
ROUNDED = 1.006  # a limit divided by it is still met after rounding to 3 digits
NOISE = 1e-4  # of the largest moment: smaller ones are written as 0

_ENTRIES = (
    ("ixx", 0, 0),
    ("ixy", 0, 1),
    ("ixz", 0, 2),
    ("iyy", 1, 1),
    ("iyz", 1, 2),
    ("izz", 2, 2),
)
_UNUSABLE = ("point-mass", "not-physical")  # no radii of gyration follow from these

_MATERIALS = (
    (22.6e3, "denser than any material"),
    (11.3e3, "denser than lead"),
    (DENSEST, "denser than steel"),
    (0.0, "lighter than foam"),
)


class Finding(NamedTuple):
    """One finding.

    `where` is the element, such as 'link "arm"'. `kind` identifies what was found, such as
    "mass-spread"; it does not change between versions. `values` are the numbers of the description
    that were found, in SI units, and `limits` the [low, high] that the shapes or physics allow for
    some of them; None: unlimited. `com` and `direction` are in the frame of the link; `spread` and
    `radius` are distances [m].
    """

    where: str
    what: str
    advice: str
    kind: str
    values: Mapping[str, Any]
    limits: Mapping[str, list[float | None]]


@dataclass(frozen=True, eq=False)
class LinkInertia:
    """The <inertial> of a link: mass [kg], and rotational inertia [kg m2], (3, 3).

    The latter is about the center of mass, in the axes of <inertial>; their `placement` is
    homogeneous (4, 4), in the link's frame, and `rpy` its angles as in the description.
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


def link_findings(
    name: str, inertia: LinkInertia | None, extents: LinkExtents, size: float
) -> Iterator[Finding]:
    """Yield what is implausible about a link of a robot with a ``size`` [m], 0 if unknown."""
    where = f'link "{name}"'
    if size > 0.0 and extents.mesh > OTHER_UNIT * size:
        yield _unit_finding(where, extents.mesh, size)
        extents = LinkExtents()  # its shapes are no measure
    if inertia is None:
        return
    if inertia.mass == 0.0:
        if inertia.rotational.any():
            yield Finding(
                where,
                "has inertia, but no mass",
                "set <mass> in kg",
                "no-mass",
                {"mass": 0.0},
                {"mass": [0.0, None]},
            )
        return
    own = extents.own or extents.allowed
    faults = list(_faults(where, inertia, own))
    yield from faults
    if not any(finding.kind in _UNUSABLE for finding in faults):
        yield from _inertia_findings(where, inertia, extents)
    if extents.allowed is not None:
        yield from _com_findings(where, inertia, extents.allowed)
        yield from _density_findings(where, inertia, extents.allowed, extents.own)


def _unit_finding(where: str, radius: float, size: float) -> Finding:
    return Finding(
        where,
        f"has a mesh that extends {radius:.3g} m from its center; the joints of "
        f"the robot are at most {size:.3g} m apart",
        'if the file is in mm, add scale="0.001 0.001 0.001" to <mesh>',
        "mesh-unit",
        {"radius": radius},
        {"radius": [0.0, OTHER_UNIT * size]},
    )


# --- the inertia alone


def _faults(where: str, inertia: LinkInertia, own: Extent | None) -> Iterator[Finding]:
    """Findings about an inertia that no body with an extent has."""
    moments = _moments(inertia)
    solid = _solid_advice(inertia, own)
    advice = solid or "set <inertia>, about the center of mass in kg m2"
    if not inertia.rotational.any():
        yield Finding(
            where,
            "has mass, but no rotational inertia, like a point mass",
            advice,
            "point-mass",
            moments,
            {},
        )
        return
    smallest, _, largest = np.linalg.eigvalsh(inertia.rotational)
    nothing = ROUNDING * inertia.mass * (own.hull.radius if own else 1.0) ** 2
    if max(-smallest, largest) <= nothing:
        yield Finding(
            where,
            f"has moments of inertia up to {max(-smallest, largest):.2g} kg m2, "
            "which are rounding errors; it is a point mass",
            advice,
            "point-mass",
            moments,
            {},
        )
        return
    fault = rotational_fault(inertia.rotational)
    negative = [key for key in ("ixx", "iyy", "izz") if moments[key] < 0.0]
    if fault:
        yield Finding(
            where,
            f"has an inertia that {fault}",
            _joined(
                "this is not physical: <inertia> is about the center of mass, in the axes of "
                "<inertial>'s <origin>; check the order and the signs.",
                solid,
            ),
            "not-physical",
            moments,
            {},
        )
    elif negative:
        named = ", ".join(f"{key} = {moments[key]:.3g}" for key in negative)
        yield Finding(
            where,
            f"has a negative {named}, which is a rounding error",
            f"write 0 for {', '.join(negative)}",
            "rounding",
            moments,
            {key: [0.0, None] for key in negative},
        )


# --- the inertia and the shapes


def _inertia_findings(where: str, inertia: LinkInertia, extents: LinkExtents) -> Iterator[Finding]:
    trace = max(0.0, float(np.trace(inertia.rotational)))
    gyration = math.sqrt(trace / 2.0 / inertia.mass)
    if _is_placeholder(inertia, extents, gyration):
        moment = float(inertia.rotational[0, 0])
        yield Finding(
            where,
            f"has the placeholder ixx = iyy = izz = {moment:g}, which spreads its "
            f"mass over {gyration:.3g} m (RMS distance from its center)",
            _solid_advice(inertia, extents.own)
            or "set <inertia>, about the center of mass in kg m2",
            "placeholder",
            _moments(inertia),
            {},
        )
        return
    if extents.allowed is None:
        if not TINY < gyration < HUGE:
            yield Finding(
                where,
                f"spreads its mass over {gyration:.3g} m (RMS distance from its center)",
                "is <inertia> in kg m2, and <mass> in kg?",
                "mass-spread",
                {"spread": gyration},
                {"spread": [TINY, HUGE]},
            )
        return
    yield from _spread_findings(where, inertia, extents.allowed, extents.own)
    if extents.own is None:
        return
    of_solid = math.sqrt(np.trace(extents.own.solid.covariance))
    if gyration < SMALLEST_PART * of_solid:
        yield Finding(
            where,
            f"has its mass within {gyration:.3g} m (RMS distance from its "
            f"center), nearly a point mass; a solid of its shapes has {of_solid:.3g} m",
            _joined("is <inertia> in kg m2?", _solid_advice(inertia, extents.own)),
            "point-like",
            {"spread": gyration},
            {"spread": [SMALLEST_PART * of_solid, None]},
        )


def _spread_findings(
    where: str, inertia: LinkInertia, allowed: Extent, own: Extent | None
) -> Iterator[Finding]:
    """Compare the second moments of mass with what the hull of the shapes allows.

    Mass on an interval [a, b] whose mean is c has a variance of at most (b - c) (c - a): that of
    two point masses at its ends. The interval is that of the hull, with its margin, along the
    principal axes of the inertia and those of the shapes.
    """
    covariance = inertia.covariance()
    margin = MARGIN * allowed.hull.radius
    worst, excess = 1.0, None
    for axis in (*np.linalg.eigh(covariance)[1].T, *np.linalg.eigh(allowed.solid.covariance)[1].T):
        along, mean = allowed.hull.points @ axis, float(axis @ inertia.com)
        low, high = float(along.min()) - margin, float(along.max()) + margin
        limit = (high - mean) * (mean - low)
        if limit <= 0.0:  # the center of mass is outside, which is another finding
            limit = 0.25 * (high - low) ** 2
        variance = float(axis @ covariance @ axis)
        if variance > worst * limit:
            worst, excess = variance / limit, (axis, math.sqrt(variance), math.sqrt(limit))
    if excess is not None:
        axis, spread, most = excess
        yield Finding(
            where,
            f"spreads its mass over {spread:.3g} m along {_axis_name(axis)} (RMS "
            f"distance from its center of mass); mass in its shapes spreads over at most "
            f"{most:.3g} m",
            _joined(
                "is <inertia> in kg m2, about the center of mass, and do the shapes show "
                "the whole link?",
                _solid_advice(inertia, own),
            ),
            "mass-spread",
            {"spread": spread, "direction": axis.tolist()},
            {"spread": [0.0, most]},
        )


def _is_placeholder(inertia: LinkInertia, extents: LinkExtents, gyration: float) -> bool:
    """Whether the inertia is a power of ten times the identity, unlike its shapes' inertia."""
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
    xyz = " ".join(_number(round(float(x), 6)) for x in allowed.solid.com)
    yield Finding(
        where,
        f"has its center of mass {outside:.3g} m outside its shapes",
        "<origin> of <inertial> is expressed in the link's frame, in m; the center of "
        f'its shapes: <origin xyz="{xyz}" rpy="{inertia.rpy}"/>',
        "com-outside",
        {"distance": outside, "com": inertia.com.tolist()},
        {"distance": [0.0, MARGIN * allowed.hull.radius]},
    )


def _density_findings(
    where: str, inertia: LinkInertia, allowed: Extent, own: Extent | None
) -> Iterator[Finding]:
    """Compare with the largest volume that mass can be in, and the least that it has to fill."""
    volumes = [(allowed.largest, 0.0, DENSEST)]
    if own is not None:
        volumes.append((own.solid.volume, LIGHTEST, math.inf))
    for volume, low, high in volumes:
        density = inertia.mass / float(volume)
        if low <= density <= high:
            continue
        material = next(text for least, text in _MATERIALS if density >= least)
        bound = (
            f"at most {high * volume / ROUNDED:.3g}"
            if density > high
            else f"at least {low * volume * ROUNDED:.3g}"
        )
        yield Finding(
            where,
            f"has {inertia.mass:.3g} kg in shapes of {1e3 * volume:.3g} l: "
            f"{density:.3g} kg/m3, {material}",
            f"is <mass> in kg, and are the shapes in m? If they are, it is {bound} kg",
            "density",
            {"mass": inertia.mass, "volume": float(volume), "density": density},
            {"density": [LIGHTEST, DENSEST]},
        )


# --- what the description should say


def _solid_advice(inertia: LinkInertia, own: Extent | None) -> str:
    """The inertia of a solid of the link's shapes, as a line of a description."""
    if own is None:
        return ""
    R = inertia.placement[:3, :3]
    I = R.T @ own.solid.inertia(inertia.mass) @ R
    I[np.abs(I) < NOISE * np.abs(I).max()] = 0.0
    words = " ".join(f'{key}="{_number(I[row, column])}"' for key, row, column in _ENTRIES)
    return f"write <inertia {words}/>, the inertia of a solid with its shapes"


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
