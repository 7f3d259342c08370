# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Declared contacts of a robot, and their forces by name."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from typing import Any, Literal, TypeAlias

import numpy as np

from ...call.algorithm import public
from ...kernel.names import short_repr, unknown_name
from ...kernel.types import Array, ArrayLike
from ...kernel.validation import finite_number
from ...model.frames import ReferenceFrame
from ...spatial.se3 import SE3

RANK, RESIDUAL, ITERATIONS = range(3)
"""Indices of the field SOLUTION in packed_contacts.py."""

Dimension: TypeAlias = Literal[3, 6]


@public
class Contact:
    """A contact of a robot's link with the world, or with another link of the robot.

    A contact holds a contact frame c1, fixed to a link, against a frame c2, which is fixed to the
    world or to another link: as a foot on the ground, two fingers on an object, or a loop that a
    URDF cannot close. Contacts are immutable and belong to no model: create them once.

    Parameters
    ----------
    frame : str or int
        Name or index of a frame that a joint moves: link, joint or fixed joint.
    dimension : 6 or 3
        6: the pose, whose spatial acceleration is constrained. 3: the position of the origin, whose
        classical acceleration is constrained. Between two links that move, the rows of dimension 6
        are the time derivative of the relative velocity in LOCAL, otherwise the difference of the
        spatial accelerations, as in Pinocchio.
    reference_frame : ReferenceFrame
        The axes of accelerations and forces. LOCAL: the axes of c1. LOCAL_WORLD_ALIGNED: the axes
        of the world, at the origin of c1. WORLD: the axes of the world, at its origin; for a
        contact of dimension 3 the same as LOCAL_WORLD_ALIGNED.
    other : str or int, optional
        Name or index of the frame of the other link. Forces (dimension 3) act at the origins of c1
        and c2, wrenches (dimension 6) at c1. Default: the world.
    placement : (4, 4) array_like or SE3, optional
        c1 in ``frame`` [m]. Default: the frame itself.
    other_placement : (4, 4) array_like or SE3, optional
        c2 in ``other``, or in the world [m]. Default: the frame itself, the world's origin.
    kp, kd : float
        Gains of Baumgarte (1972) [1/s2, 1/s], 0 or more: the constrained acceleration becomes
        kp err - kd v, with v the velocity of c1 relative to c2, and err the displacement from c1
        to c2: log6 of the placement of c2 in c1, or for dimension 3 the position of c2 relative to
        c1. Without gains, only the acceleration is constrained, and the placement of c2 has no
        effect unless its origin is where the force acts (dimension 3 and another link).
    name : str, optional
        The name of its forces in the results. Default: the name of ``frame``.

    Raises
    ------
    ValueError
        An invalid dimension, reference frame, placement or gain; names it.

    Examples
    --------
    A foot that pushes but does not twist, its force in the axes of the world:

    >>> foot = dyn_ros.Contact("front_left_foot", 3, ReferenceFrame.LOCAL_WORLD_ALIGNED)
    >>> dyn_ros.contact_jacobian(walker, walker_data, stand, [foot]).shape
    (3, 18)
    """

    __slots__ = (
        "dimension",
        "frame",
        "kd",
        "kp",
        "name",
        "other",
        "other_placement",
        "placement",
        "reference_frame",
    )

    frame: str | int
    dimension: int
    reference_frame: ReferenceFrame
    other: str | int | None
    placement: SE3
    other_placement: SE3
    kp: float
    kd: float
    name: str | None

    def __init__(
        self,
        frame: str | int,
        dimension: Dimension = 6,
        reference_frame: ReferenceFrame | int = ReferenceFrame.LOCAL,
        other: str | int | None = None,
        placement: ArrayLike | SE3 | None = None,
        other_placement: ArrayLike | SE3 | None = None,
        kp: float = 0.0,
        kd: float = 0.0,
        *,
        name: str | None = None,
    ) -> None:
        _require_frame("frame", frame)
        if other is not None:
            _require_frame("other", other)
        if (
            isinstance(dimension, bool)
            or not isinstance(dimension, (int, np.integer))
            or dimension not in (3, 6)
        ):
            raise ValueError(f"dimension: expected 6 or 3, got {short_repr(dimension)}")
        if not isinstance(reference_frame, (int, np.integer)) or reference_frame not in range(3):
            raise ValueError(
                "reference_frame: expected dyn_ros.ReferenceFrame, got "
                f"{short_repr(reference_frame)}"
            )
        if name is None and isinstance(frame, str):
            name = frame
        if name is not None and (not isinstance(name, str) or not name):
            raise ValueError(f"name: expected a name, got {short_repr(name)}")
        if hasattr(self, "frame"):
            raise TypeError(f"{self!r} is already initialized; create another Contact")
        values = {
            "frame": frame,
            "dimension": int(dimension),
            "other": other,
            "name": name,
            "reference_frame": ReferenceFrame(reference_frame),
            "placement": _as_placement("placement", placement),
            "other_placement": _as_placement("other_placement", other_placement),
            "kp": _as_gain("kp", kp),
            "kd": _as_gain("kd", kd),
        }
        for attribute, value in values.items():
            object.__setattr__(self, attribute, value)

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"a Contact cannot be changed; create another one to set {name!r}")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"a Contact cannot be changed; {name!r} cannot be deleted")

    def __reduce__(self) -> tuple[Any, ...]:
        values = {name: getattr(self, name) for name in self.__slots__}
        return functools.partial(Contact, **values), ()

    def __repr__(self) -> str:
        other = "" if self.other is None else f", other={self.other!r}"
        return (
            f"Contact({self.frame!r}, dimension={self.dimension}, "
            f"{self.reference_frame.name}{other}"
            f"{'' if self.name in (None, self.frame) else f', name={self.name!r}'})"
        )


def _require_frame(name: str, value: object) -> None:
    """Raise a ValueError if an argument is neither a name nor an index."""
    if isinstance(value, bool) or not isinstance(value, (str, int, np.integer)):
        raise ValueError(
            f"{name}: expected the name or the index of a frame, got {short_repr(value)}"
        )


def _as_placement(name: str, value: ArrayLike | SE3 | None) -> SE3:
    """Return a placement as SE3, the identity for None; raise a ValueError if it is not one."""
    if value is None:
        return SE3.identity()
    if isinstance(value, SE3):
        return value
    try:
        return SE3.from_homogeneous(np.asarray(value, dtype=float))
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"{name}: expected a 4 x 4 homogeneous matrix or a dyn_ros.SE3: {error}"
        ) from None


def _as_gain(name: str, value: float) -> float:
    """Return a gain as a float; raise a ValueError if it is negative or not finite."""
    gain = finite_number(name, value)
    if gain < 0.0:
        raise ValueError(
            f"{name}: expected a number of 0 or more, got {gain:g}; a negative gain "
            "would increase the error of the contact"
        )
    return gain


@public
class ContactForces(Mapping[str, Array]):
    """Forces of contacts, by name.

    For a single state, the arrays are views of ``Data``, and the numbers are from its last call;
    for a batch, all have a leading batch axis.

    Attributes
    ----------
    lambda_c : (m,) ndarray
        The forces of all contacts, one after the other, in the axes of each contact [N, N m].

    Examples
    --------
    A mapping from the names of contacts to forces:

    >>> tau, forces = dyn_ros.contact_inverse_dynamics(
    ...     walker, walker_data, stand, still, still, feet)
    >>> sorted(forces), forces.rank
    (['front_left_foot', 'front_right_foot', 'hind_left_foot', 'hind_right_foot'], 6)
    """

    __slots__ = ("_rows", "_solution", "lambda_c")
    __eq__ = object.__eq__  # Comparing arrays gives no bool.
    __hash__ = object.__hash__

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the contacts."""
        return tuple(self._rows)

    def __init__(self, rows: dict[str, slice], lambda_c: Array, solution: Array) -> None:
        self._rows, self.lambda_c, self._solution = rows, lambda_c, solution

    def __getitem__(self, name: str) -> Array:
        try:
            return self.lambda_c[..., self._rows[name]]
        except (KeyError, TypeError):
            raise KeyError(unknown_name("contact", name, self._rows)) from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def rank(self) -> Any:
        """Number of independent equations, an int or (B,); less than m if contacts are redundant.

        Of ``contact_inverse_dynamics``, the number of base torques that the contacts balance.
        """
        rank = self._solution[..., RANK]
        return rank.astype(int) if rank.ndim else int(rank)

    @property
    def residual(self) -> Any:
        """Largest violation, a float or (B,).

        Of a row of the contacts [m/s2, rad/s2, for impulses m/s, rad/s]; it exceeds rounding errors
        if contacts contradict each other, or with damping. Of ``contact_inverse_dynamics`` and
        ``contact_forces``, of a torque that the contact forces do not explain [N m, N].
        """
        residual = self._solution[..., RESIDUAL]
        return residual if residual.ndim else float(residual)

    @property
    def iterations(self) -> Any:
        """Number of proximal iterations, an int or (B,); 1 without iteration."""
        iterations = self._solution[..., ITERATIONS]
        return iterations.astype(int) if iterations.ndim else int(iterations)

    def __repr__(self) -> str:
        if self.lambda_c.ndim > 1:
            return f"ContactForces({', '.join(self._rows)}; {len(self.lambda_c)} states)"
        return (
            "ContactForces({"
            + ", ".join(f"{name!r}: {np.array2string(self[name], precision=4)}" for name in self)
            + "})"
        )
