# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Contacts: what a caller declares, the table that kernels read, and the forces by name.

A table of integers is created once for each combination of contacts and options, and cached in
``Data``. Its address is an option of the call and holds the table in memory.
"""
from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ...call.data import Data
from ...kernel.algebra import SE3 as Placement
from ...kernel.compiler import kernel
from ...kernel.fields import MAX_CONSTRAINTS, declare_option, field
from ...kernel.lanes import floats_at, integers_at, load
from ...kernel.layout import option
from ...kernel.types import Array, ArrayLike
from ...model.frames import ReferenceFrame, frame_number
from ...model.inputs import finite_array, require_model
from ...model.model import Model
from ...spatial.se3 import SE3

CONTACTS = declare_option("contacts")               # the address of a table
ROWS = field("_rows", ("constraints",))             # zeros: as many as the contacts have rows
SOLUTION = field("_solution", (3,))                 # of the contact forces, see below
RANK, RESIDUAL, ITERATIONS = range(3)

DAMPING, WANTED_RESIDUAL, MOST_ITERATIONS, RESTITUTION, NCONTACTS = range(5)
CONTACT = 5                                         # the first contact
JOINT, OTHER, START, STOP, REFERENCE, AT_ORIGIN, KP, KD, PLACEMENT, OTHER_PLACEMENT = (
    0, 1, 2, 3, 4, 5, 6, 7, 8, 20)
CONTACT_SIZE = 32
MAX_CONTACTS = MAX_CONSTRAINTS // 3
_KEPT = 64                                          # tables that a Data keeps
_MOST_ITERATIONS = 1_000_000
_PLACEMENT = "a 4 x 4 homogeneous matrix or a dyn_ros.SE3"

Dimension: TypeAlias = Literal[3, 6]


class Contact:
    """A contact of a robot's link with the world, or with another of its links.

    A contact holds a contact frame c1, fixed to a link, against a frame c2, which is fixed to the
    world or to another link: as a foot on the ground, two fingers on an object, or a loop that a
    URDF cannot close. Contacts are immutable and belong to no model: create them once.

    Parameters
    ----------
    frame : str or int
        Name or index of a frame that a joint moves: link, joint or fixed joint.
    dimension : 6 or 3
        6: the pose, whose spatial acceleration is constrained. 3: the position of the origin, whose
        classical acceleration is constrained.
    reference_frame : ReferenceFrame
        The axes of accelerations and forces. LOCAL: those of c1. LOCAL_WORLD_ALIGNED: those of the
        world, at the origin of c1. WORLD: those of the world, at its origin; for a contact of
        dimension 3 the same as LOCAL_WORLD_ALIGNED.
    other : str or int, optional
        Name or index of the frame of the other link. Default: the world.
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
        By which the forces are found. Default: the name of ``frame``.

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

    __slots__ = ("dimension", "frame", "kd", "kp", "name", "other", "other_placement", "placement",
                 "reference_frame")

    frame: str | int
    dimension: int
    reference_frame: ReferenceFrame
    other: str | int | None
    placement: SE3
    other_placement: SE3
    kp: float
    kd: float
    name: str | None

    def __init__(self, frame: str | int, dimension: Dimension = 6,
                 reference_frame: ReferenceFrame | int = ReferenceFrame.LOCAL,
                 other: str | int | None = None, placement: ArrayLike | SE3 | None = None,
                 other_placement: ArrayLike | SE3 | None = None, kp: float = 0.0,
                 kd: float = 0.0, *, name: str | None = None) -> None:
        _require_frame("frame", frame)
        if other is not None:
            _require_frame("other", other)
        if (isinstance(dimension, bool) or not isinstance(dimension, (int, np.integer))
                or dimension not in (3, 6)):
            raise ValueError(f"dimension: expected 6 or 3, got {dimension!r:.80}")
        if not isinstance(reference_frame, (int, np.integer)) or reference_frame not in range(3):
            raise ValueError(f"reference_frame: expected dyn_ros.ReferenceFrame, got "
                             f"{reference_frame!r:.80}")
        if name is None and isinstance(frame, str):
            name = frame
        if name is not None and (not isinstance(name, str) or not name):
            raise ValueError(f"name: expected a name, got {name!r:.80}")
        if hasattr(self, "frame"):
            raise TypeError(f"{self!r} is already initialized; create another Contact")
        values = {"frame": frame, "dimension": int(dimension), "other": other, "name": name,
                  "reference_frame": ReferenceFrame(reference_frame),
                  "placement": _placement("placement", placement),
                  "other_placement": _placement("other_placement", other_placement),
                  "kp": _gain("kp", kp), "kd": _gain("kd", kd)}
        for attribute, value in values.items():
            object.__setattr__(self, attribute, value)

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"a Contact cannot be changed; create another one to set {name!r}")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"a Contact cannot be changed; {name!r} cannot be deleted")

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, tuple(getattr(self, name) for name in (
            "frame", "dimension", "reference_frame", "other", "placement", "other_placement",
            "kp", "kd", "name"))

    def __repr__(self) -> str:
        other = "" if self.other is None else f", other={self.other!r}"
        return (f"Contact({self.frame!r}, dimension={self.dimension}, "
                f"{self.reference_frame.name}{other}"
                f"{'' if self.name in (None, self.frame) else f', name={self.name!r}'})")


def _restored(*values: Any) -> Contact:
    return Contact(*values[:-1], name=values[-1])


def _require_frame(name: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, (str, int, np.integer)):
        raise ValueError(f"{name}: expected the name or the index of a frame, got {value!r:.80}")


def _placement(name: str, value: ArrayLike | SE3 | None) -> SE3:
    if value is None:
        return SE3.identity()
    if isinstance(value, SE3):
        return value
    try:
        return SE3.from_homogeneous(np.asarray(value, dtype=float))
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name}: expected {_PLACEMENT}: {error}") from None


def _gain(name: str, value: float) -> float:
    gain = float(finite_array(name, value, ()))
    if gain < 0.0:
        raise ValueError(f"{name}: expected a number of 0 or more, got {gain:g}; a negative gain "
                         "would increase the error of the contact")
    return gain


class ContactForces(Mapping[str, Array]):
    """The forces of contacts, by name.

    For a single state, the arrays are views of ``Data``, and the numbers those of its last call;
    for a batch, all have a leading batch axis.

    Attributes
    ----------
    lambda_c : (m,) ndarray
        The forces of all contacts, one after the other, in the axes of each contact [N, N m].

    Examples
    --------
    A mapping from the names of contacts to forces:

    >>> still = np.zeros(18)
    >>> tau, forces = dyn_ros.contact_inverse_dynamics(
    ...     walker, walker_data, stand, still, still, feet)
    >>> sorted(forces), forces.rank
    (['front_left_foot', 'front_right_foot', 'hind_left_foot', 'hind_right_foot'], 6)
    """

    __slots__ = ("_rows", "_solution", "lambda_c")
    __eq__ = object.__eq__                          # not of dicts of arrays
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
            raise KeyError(f"no contact named {name!r:.80}; available: "
                           f"{', '.join(self._rows) or 'none'}") from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def rank(self) -> Any:
        """Number of independent rows, an int or (B,); fewer than m if contacts are redundant."""
        rank = self._solution[..., RANK]
        return rank.astype(int) if rank.ndim else int(rank)

    @property
    def residual(self) -> Any:
        """Largest violation of a row of the constraint [m/s2, rad/s2, for impulses m/s, rad/s].

        A float or (B,). It exceeds rounding errors if contacts contradict each other, or with
        damping.
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
        return "ContactForces({" + ", ".join(
            f"{name!r}: {np.array2string(self[name], precision=4)}" for name in self) + "})"


# --- the table

class ContactTable(int):
    """The address of the integers that a kernel reads; who has it holds them in memory."""

    contacts: tuple[Contact, ...]
    numbers: NDArray[np.int64]
    zeros: Array                        # one for each row
    rows: dict[str, slice]
    damping: float


class Settings(NamedTuple):
    """How contacts are resolved."""

    damping: float = 0.0
    residual: float | None = None       # that ends proximal iterations
    max_iterations: int = 1
    restitution: float = 0.0


def contact_table(model: Model, data: Data, contacts: Sequence[Contact],
                  damping: float = 0.0, residual: float | None = None,
                  max_iterations: int = 1, restitution: float = 0.0) -> ContactTable:
    """The table of some contacts, found in ``Data`` or created.

    Rows in WORLD are those in LOCAL_WORLD_ALIGNED, which do not lose accuracy far from the world's
    origin; kernels then move the results there.

    Raises
    ------
    ValueError
        Unknown frames, contacts of the same name, more rows than ``MAX_CONSTRAINTS``, a frame that
        no joint moves, or an invalid setting.
    """
    settings = damping, residual, max_iterations, restitution
    try:
        hash(settings)                              # an array of one number equals that number
        known, found = data._newest_table
        if known == (contacts, settings) and data.model is model:   # otherwise the call reports it
            return found
    except (AttributeError, TypeError, ValueError):     # not a Data; an array
        pass
    given = contacts
    if type(contacts) is not tuple:
        contacts = tuple(contacts) if type(contacts) is list else as_tuple(contacts)
    try:
        if data.model is model:
            return data._tables[contacts, settings]
    except (AttributeError, KeyError, TypeError):   # not a Data; a new table; not hashable
        pass
    kept = data._tables if getattr(data, "model", None) is model else {}
    require_contacts(contacts)
    found = _new_table(require_model(model), contacts, _checked_settings(*settings))
    if len(kept) >= _KEPT:
        kept.clear()
    with contextlib.suppress(TypeError):            # damping is an array without an axis
        kept[contacts, settings] = found
        if getattr(data, "model", None) is model and type(given) in (tuple, list):
            data.__dict__["_newest_table"] = (given[:], settings), found
    return found


def as_tuple(contacts):
    """Contacts, or anything else in a tuple, for ``require_contacts`` to report."""
    try:
        return tuple(contacts)
    except TypeError:
        return (contacts,)


def require_contacts(contacts):
    """Raise a TypeError if something is not a ``Contact``."""
    for contact in contacts:
        if not isinstance(contact, Contact):
            raise TypeError(f"contacts: expected a sequence of dyn_ros.Contact, got "
                            f"{type(contact).__name__}: {contact!r:.80}")


def _checked_settings(damping, residual, most, restitution):
    damping = float(finite_array("damping", damping, ()))
    if damping < 0.0:
        raise ValueError(f"damping: expected a number of 0 or more, got {damping:g}")
    restitution = float(finite_array("restitution", restitution, ()))
    if not 0.0 <= restitution <= 1.0:
        raise ValueError(f"restitution: expected a number from 0 to 1, got {restitution:g}")
    if residual is None:
        return Settings(damping, None, 1, restitution)
    residual = float(finite_array("residual", residual, ()))
    if residual < 0.0:
        raise ValueError(f"residual: expected a number of 0 or more, got {residual:g}")
    if damping == 0.0:
        raise ValueError("damping: expected a positive number for proximal iterations, got 0; "
                         "set it to about 1e-6, or omit residual")
    if (isinstance(most, bool) or not isinstance(most, (int, np.integer))
            or not 1 <= most <= _MOST_ITERATIONS):
        raise ValueError(f"max_iterations: expected a whole number from 1 to {_MOST_ITERATIONS}, "
                         f"got {most!r:.80}")
    return Settings(damping, residual, int(most), restitution)


def _new_table(model, contacts, settings):
    ends = np.cumsum([0, *(contact.dimension for contact in contacts)])
    if ends[-1] > MAX_CONSTRAINTS:
        raise ValueError(f"contacts: expected at most {MAX_CONSTRAINTS} rows, 3 or 6 for each "
                         f"contact, got {ends[-1]} in {len(contacts)} contacts")
    numbers = np.zeros(CONTACT + CONTACT_SIZE * len(contacts), np.int64)
    numbers[NCONTACTS], numbers[MOST_ITERATIONS] = len(contacts), settings.max_iterations
    floats = numbers.view(np.float64)
    floats[DAMPING], floats[WANTED_RESIDUAL] = settings.damping, settings.residual or 0.0
    floats[RESTITUTION] = settings.restitution
    rows: dict[str, slice] = {}
    for n, contact in enumerate(contacts):
        row = slice(CONTACT + CONTACT_SIZE * n, CONTACT + CONTACT_SIZE * (n + 1))
        name = _write_contact(model, contact, ends[n], numbers[row], floats[row])
        if name in rows:
            raise ValueError(f"contacts: two are named {name!r}; set the argument name of one")
        rows[name] = slice(int(ends[n]), int(ends[n + 1]))
    found = ContactTable(numbers.ctypes.data)
    found.contacts, found.numbers, found.rows = contacts, numbers, rows
    found.zeros, found.damping = np.zeros(ends[-1]), settings.damping
    return found


def _write_contact(model, contact, start, numbers, floats):
    """Write a contact to its part of the table, as integers and floats; return its name."""
    index = _frame(model, contact, "frame")
    frame, name = model.tree.frames[index], contact.name or model.frame_names[index]
    other_joint, other_place = -1, np.eye(4)
    if contact.other is not None:
        other = model.tree.frames[_frame(model, contact, "other")]
        other_joint, other_place = other.parent, other.placement
    if frame.parent < 0 and other_joint < 0:
        raise ValueError(f"contacts: no joint moves the frame {model.frame_names[index]!r} of "
                         f"contact {name!r}; available: {_moving_frames(model)}")
    if frame.parent == other_joint:
        raise ValueError(f"contacts: the frames {contact.frame!r} and {contact.other!r} of contact "
                         f"{name!r} belong to the same body, which the joint "
                         f"{model.joint_names[frame.parent]!r} moves; choose frames of two bodies")
    numbers[JOINT], numbers[OTHER] = frame.parent + 1, other_joint + 1
    numbers[START], numbers[STOP] = start, start + contact.dimension
    numbers[REFERENCE] = contact.reference_frame
    if contact.reference_frame == ReferenceFrame.WORLD:
        numbers[REFERENCE] = ReferenceFrame.LOCAL_WORLD_ALIGNED
        numbers[AT_ORIGIN] = contact.dimension == 6
    floats[KP], floats[KD] = contact.kp, contact.kd
    for place, X in ((PLACEMENT, frame.placement @ contact.placement.as_homogeneous()),
                     (OTHER_PLACEMENT, other_place @ contact.other_placement.as_homogeneous())):
        floats[place:place + 9], floats[place + 9:place + 12] = X[:3, :3].ravel(), X[:3, 3]
    return name


def _frame(model, contact, attribute):
    """Index of the frame of a contact."""
    try:
        return frame_number(model, getattr(contact, attribute), attribute)
    except ValueError as error:
        if attribute == "frame" and contact.name in (None, contact.frame):
            raise
        raise ValueError(f"{attribute} of contact {contact.name or contact.frame!r:.80}: "
                         f"{error}") from None


def _moving_frames(model):
    return ", ".join(known.name for known in model.tree.frames if known.parent >= 0)


# --- the table in kernels

@kernel
def ncontacts(r):
    return load(integers_at(option(r, CONTACTS)), NCONTACTS)


@kernel
def damping(r):
    return load(floats_at(option(r, CONTACTS)), DAMPING)


@kernel
def wanted_residual(r):
    return load(floats_at(option(r, CONTACTS)), WANTED_RESIDUAL)


@kernel
def restitution(r):
    return load(floats_at(option(r, CONTACTS)), RESTITUTION)


@kernel
def most_iterations(r):
    return load(integers_at(option(r, CONTACTS)), MOST_ITERATIONS)


@kernel
def _integer(r, n, k):
    return load(integers_at(option(r, CONTACTS)), CONTACT + CONTACT_SIZE * n + k)


@kernel
def _number(r, n, k):
    return load(floats_at(option(r, CONTACTS)), CONTACT + CONTACT_SIZE * n + k)


@kernel
def first_body(r, n):
    """The joint that moves c1 of contact n, or 0."""
    return _integer(r, n, JOINT)


@kernel
def second_body(r, n):
    """The joint that moves c2, or 0."""
    return _integer(r, n, OTHER)


@kernel
def row_start(r, n):
    return _integer(r, n, START)


@kernel
def row_stop(r, n):
    return _integer(r, n, STOP)


@kernel
def is_point(r, n):
    """Whether contact n has dimension 3."""
    return row_stop(r, n) - row_start(r, n) == 3


@kernel
def axes_of(r, n):
    """The reference frame of contact n, a number of ReferenceFrame."""
    return _integer(r, n, REFERENCE)


@kernel
def is_at_origin(r, n):
    """Whether results of contact n, found at c1, are wanted at the world's origin."""
    return _integer(r, n, AT_ORIGIN) == 1


@kernel
def any_at_origin(r):
    """Whether results of a contact are wanted at the world's origin."""
    found = False
    for n in range(ncontacts(r)):
        found = found or is_at_origin(r, n)
    return found


@kernel
def gains(r, n):
    """kp and kd."""
    return _number(r, n, KP), _number(r, n, KD)


@kernel
def _load_placement(r, n, k):
    a, k = floats_at(option(r, CONTACTS)), CONTACT + CONTACT_SIZE * n + k
    return Placement((load(a, k), load(a, k + 1), load(a, k + 2),
                      load(a, k + 3), load(a, k + 4), load(a, k + 5),
                      load(a, k + 6), load(a, k + 7), load(a, k + 8)),
                     (load(a, k + 9), load(a, k + 10), load(a, k + 11)))


@kernel
def first_placement(r, n):
    """c1 in the frame of its joint."""
    return _load_placement(r, n, PLACEMENT)


@kernel
def second_placement(r, n):
    """c2 in the frame of its joint, or in the world."""
    return _load_placement(r, n, OTHER_PLACEMENT)
