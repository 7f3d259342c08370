# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Contacts packed for kernels: their integers and floats, checks, and accessors of kernels.

Contacts are packed once for each combination of contacts and settings, and cached in ``Data``. The
address of the packed numbers is an option of the call and holds them in memory.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...call.data import Data
from ...kernel.names import short_repr
from ...kernel.types import Array
from ...kernel.validation import finite_number, require_model
from ...kernel.vocabulary import *
from ...model.frames import ReferenceFrame, frame_number
from ...model.model import Model
from ..constrained.constraints import moving_frames
from .contacts import Contact

CONTACTS = declare_option("contacts")  # address of the packed numbers
CONTACT_ROWS = field(
    "_rows", ("constraints",)
)  # zeros; their number is the number of contacts' rows
SOLUTION = field(
    "_solution",
    (3,),
    "Number of independent equations, or of base torques that contacts balance; largest violation "
    "of a row [m/s2, rad/s2, for impulses m/s, rad/s] or of a torque [N m, N]; number of "
    "iterations.",
)

DAMPING, TARGET_RESIDUAL, MAX_ITERATIONS, RESTITUTION, NCONTACTS = range(5)
CONTACT = 5  # start of the first contact
JOINT, START, STOP, REFERENCE, AT_ORIGIN, KP, KD, PLACEMENT = 0, 2, 3, 4, 5, 6, 7, 8
"""Places in a contact's numbers; at JOINT and PLACEMENT, the numbers of c1 precede those for c2."""
CONTACT_SIZE = 32
MAX_CONTACTS = MAX_CONSTRAINTS // 3
MAX_CACHED_CONTACTS = 64  # combinations of contacts and settings in a Data


class PackedContacts(int):
    """The address of the numbers that kernels read; it keeps them in memory while it exists.

    Attributes
    ----------
    contacts : tuple of Contact
    numbers : (n,) ndarray of int64
        Settings, then ``CONTACT_SIZE`` numbers for each contact; floats are stored by their bits.
    zeros : (m,) ndarray
        A zero for each row.
    rows : dict
        Rows of each contact, by its name.
    damping : float
    """

    contacts: tuple[Contact, ...]
    numbers: NDArray[np.int64]
    zeros: Array
    rows: dict[str, slice]
    damping: float


class ContactSettings(NamedTuple):
    """The settings with which contacts are resolved.

    Iterations end when no row is violated by more than ``residual``, or after ``max_iterations``.
    """

    damping: float
    residual: float
    max_iterations: int
    restitution: float


def pack_contacts(
    model: Model,
    data: Data,
    contacts: Sequence[Contact],
    damping: float = 0.0,
    residual: float | None = None,
    max_iterations: int = 1,
    restitution: float = 0.0,
) -> PackedContacts:
    """Return contacts packed for kernels, found in ``Data`` or created.

    Raise a TypeError for anything but contacts, and a ValueError for a setting out of range or
    contacts that do not suit the model.

    Rows in WORLD are those in LOCAL_WORLD_ALIGNED, which do not lose accuracy far from the world's
    origin; kernels then move the results there.
    """
    settings = damping, residual, max_iterations, restitution
    try:
        hash(settings)  # an array of one number equals that number
        arguments, packed_contacts = data._last_packed
        # With a Data of another model, the call reports it.
        if arguments == (contacts, settings) and data.model is model:
            return packed_contacts
    except (AttributeError, TypeError, ValueError):  # not a Data; an array
        pass
    argument = contacts
    if type(contacts) is not tuple:
        contacts = tuple(contacts) if type(contacts) is list else as_contact_tuple(contacts)
    try:
        if data.model is model:
            return data._packed_constraints[contacts, settings]
    except (AttributeError, KeyError, TypeError):  # not a Data; new contacts; not hashable
        pass
    cache = data._packed_constraints if getattr(data, "model", None) is model else {}
    require_contacts(contacts)
    packed_contacts = _pack_numbers(require_model(model), contacts, _validate_settings(*settings))
    if len(cache) >= MAX_CACHED_CONTACTS:
        cache.clear()
    with contextlib.suppress(TypeError):  # damping is an array without an axis
        cache[contacts, settings] = packed_contacts
        if getattr(data, "model", None) is model and type(argument) in (tuple, list):
            data.__dict__["_last_packed"] = (argument[:], settings), packed_contacts
    return packed_contacts


def as_contact_tuple(contacts: Any) -> tuple[Any, ...]:
    """Return contacts as a tuple; anything else in a tuple, for ``require_contacts`` to report."""
    try:
        return tuple(contacts)
    except TypeError:
        return (contacts,)


def require_contacts(contacts: Iterable[object]) -> None:
    """Raise a TypeError if an object is not a ``Contact``."""
    for contact in contacts:
        if not isinstance(contact, Contact):
            raise TypeError(
                f"contacts: expected a sequence of dyn_ros.Contact, got "
                f"{type(contact).__name__}: {short_repr(contact)}"
            )


def _validate_settings(
    damping: float,
    residual: float | None,
    max_iterations: int,
    restitution: float,
    *,
    iteration_limit: int = 1_000_000,
) -> ContactSettings:
    """Return the settings, or raise a ValueError if one is not valid.

    Without a residual, contacts are resolved without iterations.
    """
    damping = finite_number("damping", damping)
    if damping < 0.0:
        raise ValueError(f"damping: expected a number of 0 or more, got {damping:g}")
    restitution = finite_number("restitution", restitution)
    if not 0.0 <= restitution <= 1.0:
        raise ValueError(f"restitution: expected a number from 0 to 1, got {restitution:g}")
    if residual is None:
        return ContactSettings(damping, 0.0, 1, restitution)
    residual = finite_number("residual", residual)
    if residual < 0.0:
        raise ValueError(f"residual: expected a number of 0 or more, got {residual:g}")
    if damping == 0.0:
        raise ValueError(
            "damping: expected a positive number for proximal iterations, got 0; "
            "set it to about 1e-6, or omit residual"
        )
    if (
        isinstance(max_iterations, bool)
        or not isinstance(max_iterations, (int, np.integer))
        or not 1 <= max_iterations <= iteration_limit
    ):
        raise ValueError(
            f"max_iterations: expected a whole number from 1 to {iteration_limit}, "
            f"got {short_repr(max_iterations)}"
        )
    return ContactSettings(damping, residual, int(max_iterations), restitution)


def _pack_numbers(
    model: Model, contacts: tuple[Contact, ...], settings: ContactSettings
) -> PackedContacts:
    """Pack valid settings and contacts; raise a ValueError if they do not suit the model."""
    ends = np.cumsum([0, *(contact.dimension for contact in contacts)])
    if ends[-1] > MAX_CONSTRAINTS:
        raise ValueError(
            f"contacts: expected at most {MAX_CONSTRAINTS} rows, 3 or 6 for each "
            f"contact, got {ends[-1]} in {len(contacts)} contacts"
        )
    numbers = np.zeros(CONTACT + CONTACT_SIZE * len(contacts), np.int64)
    floats = numbers.view(np.float64)
    floats[DAMPING], floats[TARGET_RESIDUAL] = settings.damping, settings.residual
    numbers[MAX_ITERATIONS], floats[RESTITUTION] = settings.max_iterations, settings.restitution
    numbers[NCONTACTS] = len(contacts)
    rows: dict[str, slice] = {}
    for n, contact in enumerate(contacts):
        span = slice(CONTACT + CONTACT_SIZE * n, CONTACT + CONTACT_SIZE * (n + 1))
        name = _write_contact(model, contact, int(ends[n]), numbers[span], floats[span])
        if name in rows:
            raise ValueError(f"contacts: two are named {name!r}; set the argument name of one")
        rows[name] = slice(int(ends[n]), int(ends[n + 1]))
    packed_contacts = PackedContacts(numbers.ctypes.data)
    packed_contacts.contacts, packed_contacts.numbers = contacts, numbers
    packed_contacts.zeros, packed_contacts.rows = np.zeros(ends[-1]), rows
    packed_contacts.damping = settings.damping
    return packed_contacts


def _write_contact(
    model: Model, contact: Contact, start: int, numbers: NDArray[np.int64], floats: Array
) -> str:
    """Write a contact, whose first row is ``start``, to its numbers; return its name.

    ``numbers`` and ``floats`` are views of the same memory.
    """
    frame_index = _frame_index(model, contact, "frame")
    frame, frame_name = model.tree.frames[frame_index], model.frame_names[frame_index]
    name = contact.name or frame_name
    other_parent, other_placement = -1, np.eye(4)
    if contact.other is not None:
        other_frame = model.tree.frames[_frame_index(model, contact, "other")]
        other_parent, other_placement = other_frame.parent, other_frame.placement
    if frame.parent < 0 and other_parent < 0:
        raise ValueError(
            f"contacts: no joint moves the frame {frame_name!r} of "
            f"contact {name!r}; available: {moving_frames(model)}"
        )
    if frame.parent == other_parent:
        raise ValueError(
            f"contacts: the frames {contact.frame!r} and {contact.other!r} of contact "
            f"{name!r} belong to the same body, which the joint "
            f"{model.joint_names[frame.parent]!r} moves; choose frames of two bodies"
        )
    numbers[JOINT : JOINT + 2] = frame.parent + 1, other_parent + 1
    numbers[START], numbers[STOP] = start, start + contact.dimension
    numbers[REFERENCE] = contact.reference_frame
    if contact.reference_frame == ReferenceFrame.WORLD:
        numbers[REFERENCE] = ReferenceFrame.LOCAL_WORLD_ALIGNED
        numbers[AT_ORIGIN] = contact.dimension == 6
    floats[KP], floats[KD] = contact.kp, contact.kd
    for k, X in (
        (PLACEMENT, frame.placement @ contact.placement.as_homogeneous()),
        (PLACEMENT + 12, other_placement @ contact.other_placement.as_homogeneous()),
    ):
        floats[k : k + 9], floats[k + 9 : k + 12] = X[:3, :3].ravel(), X[:3, 3]
    return name


def _frame_index(model: Model, contact: Contact, attribute: str) -> int:
    """Return the index of a frame of a contact; errors name the contact."""
    try:
        return frame_number(model, getattr(contact, attribute), attribute)
    except ValueError as error:
        if attribute == "frame" and contact.name in (None, contact.frame):
            raise
        raise ValueError(
            f"{attribute} of contact {short_repr(contact.name or contact.frame)}: {error}"
        ) from None


# --- accessors of kernels


@kernel
def packed_integer(r, k):
    """Return integer k of the packed numbers, such as ``MAX_ITERATIONS``."""
    return load(integers_at(option(r, CONTACTS)), k)


@kernel
def ncontacts(r):
    """Return the number of contacts."""
    return packed_integer(r, NCONTACTS)


@kernel
def packed_float(r, k):
    """Return float k of the packed numbers, such as ``RESTITUTION``."""
    return load(floats_at(option(r, CONTACTS)), k)


@kernel
def contact_damping(r):
    """Return the damping."""
    return packed_float(r, DAMPING)


@kernel
def contact_integer(r, n, k):
    """Return integer k of contact n."""
    return packed_integer(r, CONTACT + CONTACT_SIZE * n + k)


@kernel
def contact_joint(r, n, side):
    """Return the joint that moves frame c1 (side 0) or c2 (side 1) of contact n; 0 is the world."""
    return contact_integer(r, n, JOINT + side)


@kernel
def row_start(r, n):
    """Return the first row of contact n."""
    return contact_integer(r, n, START)


@kernel
def row_stop(r, n):
    """Return the end of the rows of contact n."""
    return contact_integer(r, n, STOP)


@kernel
def is_point(r, n):
    """Return True if contact n has dimension 3."""
    return row_stop(r, n) - row_start(r, n) == 3


@kernel
def reference_frame(r, n):
    """Return the reference frame of contact n, a number of ReferenceFrame."""
    return contact_integer(r, n, REFERENCE)


@kernel
def is_at_origin(r, n):
    """Return True if results of contact n, computed at c1, refer to the world's origin."""
    return contact_integer(r, n, AT_ORIGIN) == 1


@kernel
def any_at_origin(r):
    """Return True if results of a contact refer to the world's origin."""
    at_origin = False
    for n in range(ncontacts(r)):
        at_origin = at_origin or is_at_origin(r, n)
    return at_origin


@kernel
def baumgarte_gains(r, n):
    """Return the gains kp and kd of contact n [1/s2, 1/s]."""
    k = CONTACT + CONTACT_SIZE * n
    return packed_float(r, k + KP), packed_float(r, k + KD)


@kernel
def contact_placement(r, n, side):
    """Return c1 (side 0) or c2 (side 1) of contact n in its joint's frame, or in the world."""
    floats, k = (
        floats_at(option(r, CONTACTS)),
        CONTACT + CONTACT_SIZE * n + PLACEMENT + 12 * side,
    )
    return SE3(load9(floats, k), load3(floats, k + 9))
