# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The shapes of a robot's links: boxes, cylinders, spheres and meshes of its description (URDF)."""
from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias
from xml.etree.ElementTree import Element

import numpy as np

from ..engine.kernel.types import Array
from ..engine.model.urdf import child, children, parse_elements, parse_numbers, placement

Color: TypeAlias = tuple[float, ...]
"""Red, green, blue, alpha from 0 to 1."""


@dataclass(frozen=True, eq=False)
class Shape:
    """One shape of a link: "box", "cylinder", "sphere" or "mesh", which has a `uri`.

    `placement` is homogeneous (4, 4), in the link's frame. `size` is the edge lengths of a box;
    radius and length of a cylinder, along z; radius of a sphere [m]; scale of a mesh [-]. `color`
    is red, green, blue, alpha from 0 to 1; None if the description specifies none.
    """

    kind: str
    placement: Array
    size: tuple[float, ...]
    color: Color | None = None
    uri: str = ""


def read_shapes(
        xml: str | bytes) -> tuple[dict[str, list[Shape]], dict[str, list[Shape]], list[str]]:
    """Read the visual and the collision shapes by the link's name, and lines about omitted ones."""
    robot = parse_elements(xml)
    problems: list[str] = []
    colors: dict[str, Color | None] = {}
    for material in children(robot, "material"):
        colors[material.get("name", "")] = _color(material, {}, problems)
    shapes: dict[str, dict[str, list[Shape]]] = {"visual": {}, "collision": {}}
    for link in children(robot, "link"):
        for kind, of_link in shapes.items():
            for element in children(link, kind):
                try:
                    shape = _shape(element, colors, problems)
                except ValueError as error:
                    problems.append(f"a {kind} of link '{link.get('name')}' is omitted: {error}")
                else:
                    of_link.setdefault(link.get("name", ""), []).append(shape)
    return shapes["visual"], shapes["collision"], problems


def _shape(element: Element, colors: Mapping[str, Color | None], problems: list[str]) -> Shape:
    origin, geometry = child(element, "origin"), child(element, "geometry")
    placed = np.eye(4)
    if origin is not None:
        placed = placement(*(_numbers(origin.get(name, "0 0 0"), 3) for name in ("xyz", "rpy")))
    material = child(element, "material")
    color = None if material is None else _color(material, colors, problems)
    form = next(iter(geometry), None) if geometry is not None else None
    if form is None:
        raise ValueError("it has no geometry")
    kind = form.tag.rpartition("}")[2]
    if kind == "mesh":
        scale = _numbers(form.get("scale", "1 1 1"), 3)
        return Shape(kind, placed, scale, color, form.get("filename", ""))
    if kind not in _SIZES:
        raise ValueError(f"{kind} is not supported; use box, cylinder, sphere or mesh")
    size = tuple(number for attribute, count in _SIZES[kind]
                 for number in _numbers(form.get(attribute, ""), count))
    if min(size) < 0.0:
        raise ValueError(f"the size of the {kind} is negative: {size}")
    return Shape(kind, placed, size, color)


_SIZES = {"box": (("size", 3),), "cylinder": (("radius", 1), ("length", 1)),
          "sphere": (("radius", 1),)}


def _color(material: Element, known: Mapping[str, Color | None],
           problems: list[str]) -> Color | None:
    color = child(material, "color")
    if color is None:
        return known.get(material.get("name", ""))
    try:
        return tuple(min(max(x, 0.0), 1.0) for x in _numbers(color.get("rgba", ""), 4))
    except ValueError as error:
        problems.append(f"the color of material '{material.get('name')}' is ignored: {error}")
        return None


def _numbers(text: str, count: int) -> tuple[float, ...]:
    try:
        return tuple(parse_numbers(text, count))
    except ValueError:
        raise ValueError(f"expected {count} finite numbers, got '{text}'") from None
