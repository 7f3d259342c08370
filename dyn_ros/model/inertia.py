"""Rigid-body inertias: brought to another frame, added up, looked at for sense."""
from dataclasses import dataclass

import numpy as np

# What a written inertia may miss physics by: rounding in the text, as a part of its largest
# moment, and moments too small to matter, kg m^2.
_ROUNDING = 1e-6
_NOTHING = 1e-15


@dataclass(frozen=True, eq=False)
class Inertia:
    """Rigid-body inertia, in the axes of the joint that carries the body.

    Attributes
    ----------
    mass : float
        kg.
    com : (3,) ndarray
        Center of mass, m.
    rotational : (3, 3) ndarray
        Rotational inertia about the center of mass, kg m^2.
    """

    mass: float
    com: np.ndarray
    rotational: np.ndarray


def moved(inertia, placement):
    """The inertia in the frame in which its present frame has the given placement."""
    rotation = placement[:3, :3]
    return Inertia(
        inertia.mass,
        rotation @ inertia.com + placement[:3, 3],
        rotation @ inertia.rotational @ rotation.T,
    )


def summed(inertias):
    """The inertia of several bodies as one, all in the same frame."""
    mass = sum(inertia.mass for inertia in inertias)
    com = np.zeros(3)
    if mass > 0.0:
        com = sum(inertia.mass * inertia.com for inertia in inertias) / mass
    rotational = np.zeros((3, 3))
    for inertia in inertias:
        rotational += inertia.rotational + point_mass(inertia.mass, inertia.com - com)
    return Inertia(float(mass), com, rotational)


def point_mass(mass, at):
    """Rotational inertia about the origin of a point mass."""
    return mass * (at @ at * np.eye(3) - np.outer(at, at))


def packed(inertia):
    """Mass, mass times com, and the rotational inertia about the origin: layout.INERTIA."""
    Y = inertia.rotational + point_mass(inertia.mass, inertia.com)
    return np.array([inertia.mass, *(inertia.mass * inertia.com),
                     Y[0, 0], Y[0, 1], Y[1, 1], Y[0, 2], Y[1, 2], Y[2, 2]])


def rotational_fault(rotational):
    """What keeps a matrix from being a body's inertia about its com, or an empty string."""
    low, middle, high = np.linalg.eigvalsh(rotational)
    allowed = _ROUNDING * max(abs(low), abs(high)) + _NOTHING
    if low < -allowed:
        return ("is not positive semidefinite: "
                f"its smallest principal moment is {low:.3g} kg m^2")
    if high - middle - low > allowed:
        return ("breaks the triangle inequality: its largest principal "
                f"moment {high:.3g} kg m^2 exceeds the sum of the others by "
                f"{high - middle - low:.3g} kg m^2")
    return ""
