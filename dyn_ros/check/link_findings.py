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
from ..engine.model.urdf import MAX_URDF_NUMBER, rotational_fault
from .shapes import Extent, LinkExtents

MIN_DENSITY = 5.0  # kg/m3, a hollow shell
MAX_DENSITY = 8500.0  # kg/m3, solid steel and an allowance for coarse meshes
HULL_MARGIN = 0.1  # relative to the radius of the hull; mass may be that far outside
MIN_GYRATION_RATIO = 0.1  # relative to a solid's radius of gyration; below it, a point mass
MIN_GYRATION, MAX_GYRATION = 1e-4, 20.0  # m, radius of gyration of a link without measured shapes
MOMENT_TOLERANCE = 1e-12  # relative to mass times radius squared; smaller moments are 0
MAX_MESH_RATIO = 100.0  # relative to the size of the robot; a larger mesh is probably in mm
PLACEHOLDER_FACTOR = 3.0  # ratio to a solid's moments; below it, a round moment may be right
MIN_PLACEHOLDER = 1e-3  # kg m2, of a link without measured shapes
MIN_SWAP_RATIO = 3.0  # ratio to a solid's moments; below it, moments are not called swapped
MAX_SWAPPED_RATIO = 1.5  # ratio of swapped moments to a solid's; shells have up to 5/3
ROUNDING_FACTOR = 1.006  # a limit divided by it is still met after rounding to 3 digits
ENTRY_TOLERANCE = 1e-4  # relative to the largest moment; smaller ones are written as 0

_ENTRIES = (
    ("ixx", 0, 0),
    ("ixy", 0, 1),
    ("ixz", 0, 2),
    ("iyy", 1, 1),
    ("iyz", 1, 2),
    ("izz", 2, 2),
)
UNUSABLE_KINDS = ("point-mass", "not-physical")  # no radius of gyration can be computed

_MATERIALS = (
    (22.6e3, "denser than any material"),
    (11.3e3, "denser than lead"),
    (MAX_DENSITY, "denser than steel"),
    (0.0, "lighter than foam"),
)


class Finding(NamedTuple):
    """Finding about an element of a description.

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
    """<inertial> of a link: mass [kg], and rotational inertia [kg m2], (3, 3).

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
        """Return the mean of (x - com) (x - com)' over the mass, in the link's axes [m2], (3, 3).

        Numbers beyond 1e30 are clipped.
        """
        R = self.placement[:3, :3]
        half_trace = 0.5 * np.trace(self.rotational) * np.eye(3)
        with np.errstate(over="ignore"):
            covariance = (half_trace - self.rotational) / self.mass
        return R @ np.clip(covariance, -MAX_URDF_NUMBER, MAX_URDF_NUMBER) @ R.T


def link_findings(
    name: str, inertia: LinkInertia | None, extents: LinkExtents, size: float
) -> Iterator[Finding]:
    """Yield findings about a link of a robot with a ``size`` [m], 0 if unknown."""
    where = f'link "{name}"'
    if size > 0.0 and extents.mesh_radius > MAX_MESH_RATIO * size:
        yield _unit_finding(where, extents.mesh_radius, size)
        extents = LinkExtents()  # without shapes, which have the wrong unit
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
    faults = list(_inertia_faults(where, inertia, extents.own or extents.allowed))
    yield from faults
    if not any(finding.kind in UNUSABLE_KINDS for finding in faults):
        yield from _inertia_findings(where, inertia, extents)
    if extents.allowed is not None:
        yield from _com_findings(where, inertia, extents.allowed, extents.is_coarse)
        yield from _density_findings(where, inertia, extents.allowed, extents.own)


def _unit_finding(where: str, radius: float, size: float) -> Finding:
    """Return the finding that a mesh of this radius is too large for the robot's size [m]."""
    return Finding(
        where,
        f"has a mesh that extends {radius:.3g} m from its center; the joints of "
        f"the robot are at most {size:.3g} m apart",
        'if the file is in mm, add scale="0.001 0.001 0.001" to <mesh>',
        "mesh-unit",
        {"radius": radius},
        {"radius": [0.0, MAX_MESH_RATIO * size]},
    )


# --- the inertia alone


def _inertia_faults(where: str, inertia: LinkInertia, extent: Extent | None) -> Iterator[Finding]:
    """Yield findings about an inertia that no body of more than a point has."""
    moments = _inertia_entries(inertia)
    solid = _solid_advice(inertia, extent)
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
    radius = extent.hull.radius if extent else 1.0
    if max(-smallest, largest) <= MOMENT_TOLERANCE * inertia.mass * radius**2:
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
            _join_advice(
                "this is not physical: <inertia> is about the center of mass, in the axes of "
                "<inertial>'s <origin>; check the order and the signs.",
                solid,
            ),
            "not-physical",
            moments,
            {},
        )
    elif negative:
        assignments = ", ".join(f"{key} = {moments[key]:.3g}" for key in negative)
        yield Finding(
            where,
            f"has a negative {assignments}, which is a rounding error",
            f"write 0 for {', '.join(negative)}",
            "rounding",
            moments,
            {key: [0.0, None] for key in negative},
        )


# --- the inertia and the shapes


def _inertia_findings(where: str, inertia: LinkInertia, extents: LinkExtents) -> Iterator[Finding]:
    """Yield findings about an inertia that is a placeholder, or spreads too far or too little."""
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
            _inertia_entries(inertia),
            {},
        )
        return
    if extents.allowed is None:
        if not MIN_GYRATION < gyration < MAX_GYRATION:
            yield Finding(
                where,
                f"spreads its mass over {gyration:.3g} m (RMS distance from its center)",
                "is <inertia> in kg m2, and <mass> in kg?",
                "mass-spread",
                {"spread": gyration},
                {"spread": [MIN_GYRATION, MAX_GYRATION]},
            )
        return
    if extents.own is not None and (names := _swapped_moments(inertia, extents.own)):
        first, second = names
        yield Finding(
            where,
            f"has {first} and {second} that fit its shapes only if they are swapped",
            f"swap {first} and {second}, if <inertia> is in the axes of <inertial>'s <origin>",
            "swapped-moments",
            _inertia_entries(inertia),
            {},
        )
        return
    yield from _spread_findings(where, inertia, extents.allowed, extents.own)
    if extents.own is None:
        return
    solid_gyration = math.sqrt(np.trace(extents.own.solid.covariance))
    if gyration < MIN_GYRATION_RATIO * solid_gyration:
        yield Finding(
            where,
            f"has its mass within {gyration:.3g} m (RMS distance from its "
            f"center), nearly a point mass; a solid of its shapes has {solid_gyration:.3g} m",
            _join_advice("is <inertia> in kg m2?", _solid_advice(inertia, extents.own)),
            "point-like",
            {"spread": gyration},
            {"spread": [MIN_GYRATION_RATIO * solid_gyration, None]},
        )


def _swapped_moments(inertia: LinkInertia, extent: Extent) -> tuple[str, str] | None:
    """Return the names of two moments of inertia that fit the solid of the shapes if swapped.

    None if they fit, or if no swap makes all moments nearly equal to the moments of the solid.
    """
    R = inertia.placement[:3, :3]
    solid = np.diag(R.T @ extent.solid.inertia(inertia.mass) @ R)
    moments = np.diag(inertia.rotational)
    if min(*solid, *moments) <= 0.0:
        return None
    if np.abs(np.log(moments) - np.log(solid)).max() < math.log(MIN_SWAP_RATIO):
        return None
    names = ("ixx", "iyy", "izz")
    for first, second in ((0, 2), (0, 1), (1, 2)):
        swapped = moments.copy()
        swapped[[first, second]] = moments[[second, first]]
        if np.abs(np.log(swapped) - np.log(solid)).max() < math.log(MAX_SWAPPED_RATIO):
            return names[first], names[second]
    return None


def _spread_findings(
    where: str, inertia: LinkInertia, allowed: Extent, link_extent: Extent | None
) -> Iterator[Finding]:
    """Compare the second moments of mass with what the hull of the shapes allows.

    Mass on an interval [a, b] whose mean is c has a variance of at most (b - c) (c - a), which two
    point masses at its ends have. The interval is the extent of the hull with its margin along each
    principal axis of the inertia, and of the shapes.
    """
    covariance = inertia.covariance()
    margin = HULL_MARGIN * allowed.hull.radius
    max_ratio, worst_spread = 1.0, None
    for axis in (*np.linalg.eigh(covariance)[1].T, *np.linalg.eigh(allowed.solid.covariance)[1].T):
        projections, mean = allowed.hull.points @ axis, float(axis @ inertia.com)
        low, high = float(projections.min()) - margin, float(projections.max()) + margin
        limit = (high - mean) * (mean - low)
        if limit <= 0.0:  # a center of mass outside is another finding
            limit = 0.25 * (high - low) ** 2
        variance = float(axis @ covariance @ axis)
        if variance > max_ratio * limit:
            max_ratio = variance / limit
            worst_spread = axis, math.sqrt(variance), math.sqrt(limit)
    if worst_spread is not None:
        axis, spread, max_spread = worst_spread
        yield Finding(
            where,
            f"spreads its mass over {spread:.3g} m along {_axis_name(axis)} (RMS "
            f"distance from its center of mass); mass in its shapes spreads over at most "
            f"{max_spread:.3g} m",
            _join_advice(
                "is <inertia> in kg m2, about the center of mass, and do the shapes show "
                "the whole link?",
                _solid_advice(inertia, link_extent),
            ),
            "mass-spread",
            {"spread": spread, "direction": axis.tolist()},
            {"spread": [0.0, max_spread]},
        )


def _is_placeholder(inertia: LinkInertia, extents: LinkExtents, gyration: float) -> bool:
    """Return True if the inertia is a power of ten times the identity, unlike its shapes'."""
    moment = float(inertia.rotational[0, 0])
    if moment <= 0.0 or (inertia.rotational != moment * np.eye(3)).any():
        return False
    if not math.isclose(moment, 10.0 ** round(math.log10(moment)), rel_tol=1e-9):
        return False
    if extents.own is None:
        if extents.allowed is None:
            return moment >= MIN_PLACEHOLDER
        return gyration > 0.5 * extents.allowed.hull.radius
    solid = np.linalg.eigvalsh(extents.own.solid.inertia(inertia.mass))
    is_smaller = (solid * PLACEHOLDER_FACTOR < moment).any()
    is_larger = (solid > PLACEHOLDER_FACTOR * moment).any()
    return bool(is_smaller or is_larger)


def _com_findings(
    where: str, inertia: LinkInertia, allowed: Extent, is_coarse: bool
) -> Iterator[Finding]:
    """Yield a finding if the center of mass is farther outside the hull than the margin.

    The advice is no other center if the shapes are coarse.
    """
    distance = allowed.hull.distance(inertia.com)
    if distance <= HULL_MARGIN * allowed.hull.radius:
        return
    advice = "<origin> of <inertial> is expressed in the link's frame, in m; "
    if is_coarse:
        advice += "do the collision shapes show the whole link? If they do not, it may be right"
    else:
        xyz = " ".join(_number_text(round(float(x), 6)) for x in allowed.solid.com)
        advice += f'the center of its shapes: <origin xyz="{xyz}" rpy="{inertia.rpy}"/>'
    yield Finding(
        where,
        f"has its center of mass {distance:.3g} m outside its shapes",
        advice,
        "com-outside",
        {"distance": distance, "com": inertia.com.tolist()},
        {"distance": [0.0, HULL_MARGIN * allowed.hull.radius]},
    )


def _density_findings(
    where: str, inertia: LinkInertia, allowed: Extent, link_extent: Extent | None
) -> Iterator[Finding]:
    """Compare the mass with the largest volume it can be in, and the solid it has to fill."""
    volumes = [(allowed.max_volume, 0.0, MAX_DENSITY)]
    if link_extent is not None:
        volumes.append((link_extent.solid.volume, MIN_DENSITY, math.inf))
    for volume, low, high in volumes:
        density = inertia.mass / float(volume)
        if low <= density <= high:
            continue
        material = next(text for min_density, text in _MATERIALS if density >= min_density)
        bound = (
            f"at most {high * volume / ROUNDING_FACTOR:.3g}"
            if density > high
            else f"at least {low * volume * ROUNDING_FACTOR:.3g}"
        )
        yield Finding(
            where,
            f"has {inertia.mass:.3g} kg in shapes of {1e3 * volume:.3g} l: "
            f"{density:.3g} kg/m3, {material}",
            f"is <mass> in kg, and are the shapes in m? If they are, it is {bound} kg",
            "density",
            {"mass": inertia.mass, "volume": float(volume), "density": density},
            {"density": [MIN_DENSITY, MAX_DENSITY]},
        )


# --- what the description should say


def _solid_advice(inertia: LinkInertia, extent: Extent | None) -> str:
    """Return the advice to write the inertia of a solid of the link's shapes; "" without these."""
    if extent is None:
        return ""
    R = inertia.placement[:3, :3]
    I = R.T @ extent.solid.inertia(inertia.mass) @ R
    I[np.abs(I) < ENTRY_TOLERANCE * np.abs(I).max()] = 0.0
    words = " ".join(f'{key}="{_number_text(I[row, column])}"' for key, row, column in _ENTRIES)
    return f"write <inertia {words}/>, the inertia of a solid with its shapes"


def _join_advice(question: str, solid: str) -> str:
    """Join a question and the advice from the shapes, which may be empty."""
    return f"{question} Without better values, {solid}" if solid else question


def _inertia_entries(inertia: LinkInertia) -> dict[str, float]:
    """Return the entries of the rotational inertia by the attributes of <inertia>."""
    return {key: float(inertia.rotational[row, column]) for key, row, column in _ENTRIES}


def _number_text(x: float) -> str:
    """Return a number with up to six digits, as a URDF writes it; no minus before 0."""
    return f"{x:.6g}" if x else "0"


def _axis_name(axis: Array) -> str:
    """Return x, y or z if the direction is nearly that axis of the link; else its coordinates."""
    largest = int(np.abs(axis).argmax())
    if abs(axis[largest]) > 0.99:
        return "xyz"[largest]
    return "({:.2f}, {:.2f}, {:.2f})".format(*(axis * np.sign(axis[largest])))
