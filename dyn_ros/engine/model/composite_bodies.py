# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Rigid bodies joined as one, and momenta about another point, for one state or a batch.

Vectors are sequences of components, each a float or a (B,) ndarray: floats take a fifth of the time
of arrays with three numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ..kernel.types import Array
from ..spatial.inertia import Inertia

_MATRIX_ENTRIES = (0, 1, 2), (1, 3, 4), (2, 4, 5)  # indices into xx, xy, xz, yy, yz, zz


class Body(NamedTuple):
    """Mass [kg], center of mass [m], and rotational inertia about it [kg m2].

    ``com`` has three numbers, ``rotational`` xx, xy, xz, yy, yz, zz. In a batch, they are (B,).
    """

    mass: Any
    com: Sequence[Any]
    rotational: Sequence[Any]

    @classmethod
    def of_links(cls, Ig: Array, com: Array) -> Body:
        """Return the moving links as one body, from the centroidal inertia and center of mass."""
        rows: Any = Ig.tolist() if Ig.ndim == 2 else np.moveaxis(Ig, 0, -1)
        _, _, _, (*_, xx, xy, xz), (*_, yy, yz), (*_, zz) = rows
        return cls(rows[0][0], com.tolist() if com.ndim == 1 else com.T, (xx, xy, xz, yy, yz, zz))

    @classmethod
    def of(cls, inertia: Inertia) -> Body:
        """Return the body of a link, from its inertia."""
        (xx, xy, xz), (_, yy, yz), (_, _, zz) = inertia.rotational.tolist()
        return cls(inertia.mass, inertia.com.tolist(), (xx, xy, xz, yy, yz, zz))

    def matrix(self) -> Array:
        """Return the rotational inertia of a single body, (3, 3)."""
        return np.take(self.rotational, _MATRIX_ENTRIES)


def join_bodies(body: Body, attached_body: Body) -> tuple[Body, Sequence[Any]]:
    """Join a body to a single one or a batch, by the parallel axis theorem.

    Also returns the lever from the common center of mass to that of the first body.
    """
    if not attached_body.mass > 0.0:
        return body, (0.0, 0.0, 0.0)
    (cx, cy, cz), (ax, ay, az) = body.com, attached_body.com
    share = attached_body.mass / (body.mass + attached_body.mass)
    x, y, z = cx - ax, cy - ay, cz - az
    reduced = body.mass * share
    spread = (
        reduced * (y * y + z * z),
        -reduced * x * y,
        -reduced * x * z,
        reduced * (x * x + z * z),
        -reduced * y * z,
        reduced * (x * x + y * y),
    )
    lx, ly, lz = lever = share * x, share * y, share * z
    return Body(
        body.mass + attached_body.mass,
        (cx - lx, cy - ly, cz - lz),
        [a + b + c for a, b, c in zip(body.rotational, attached_body.rotational, spread)],
    ), lever


def move_reference_point(lever: Sequence[Any], force: Sequence[Any]) -> tuple[Any, ...]:
    """Return a momentum or its rate, given about O + ``lever``, about O: linear, then angular."""
    x, y, z = lever
    fx, fy, fz, mx, my, mz = force
    return fx, fy, fz, mx + y * fz - z * fy, my + z * fx - x * fz, mz + x * fy - y * fx
