# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Two bodies joined as one, and momenta about another point. Arrays may have a leading axis."""
from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..spatial.types import Array

_EYE = np.eye(3)


class Body(NamedTuple):
    """Mass [kg], center of mass [m], and rotational inertia about it [kg m2].

    Attributes
    ----------
    mass : float or (B,) ndarray
    com : (3,) or (B, 3) ndarray
    rotational : (3, 3) or (B, 3, 3) ndarray
    """

    mass: Any
    com: Array
    rotational: Array


def joined(body: Body, mass: float, com: Array, rotational: Array) -> tuple[Body, Array]:
    """Join a body and another one, by the parallel axis theorem.

    Parameters
    ----------
    body : Body
        May be many.
    mass, com, rotational : float, (3,) ndarray, (3, 3) ndarray
        Those of the other one.

    Returns
    -------
    body : Body
    lever : (3,) or (B, 3) ndarray
        From the common center of mass to that of the first body.
    """
    if not mass > 0.0:
        return body, np.zeros_like(body.com)
    share = mass / (body.mass + mass)
    between = body.com - com
    lever = (share * between.T).T
    reduced = np.asarray(body.mass * share)[..., None, None]
    squares = (between * between).sum(-1)[..., None, None]
    spread = reduced * (squares * _EYE - between[..., :, None] * between[..., None, :])
    return Body(body.mass + mass, body.com - lever, body.rotational + rotational + spread), lever


def moved(lever: Array, force: Array) -> tuple[Any, ...]:
    """Shift a momentum or its rate to the point at -``lever`` from its own.

    Parameters
    ----------
    lever : (3,) or (B, 3) ndarray
    force : (6,) or (B, 6) ndarray
        Linear, angular.

    Returns
    -------
    tuple of six float or (B,) ndarray
    """
    x, y, z = lever.T
    fx, fy, fz, mx, my, mz = force.T
    return fx, fy, fz, mx + y * fz - z * fy, my + z * fx - x * fz, mz + x * fy - y * fx
