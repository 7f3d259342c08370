# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Contacts packed for kernels: the table, its checks, and what kernels read from it.

A table of integers is created once for each combination of contacts and options, and cached in
``Data``. Its address is an option of the call and holds the table in memory.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ...call.data import Data
from ...kernel.types import Array
from ...kernel.validation import finite_number, require_model
from ...kernel.vocabulary import *
from ...model.frames import ReferenceFrame, frame_number
from ...model.model import Model
from ..constrained.constraints import moving_frames
from .contacts import Contact

CONTACTS = declare_option("contacts")  # the address of a table
ROWS = field("_rows", ("constraints",))  # zeros: as many as the contacts have rows
SOLUTION = field(
    "_solution",
    (3,),
    "Number of independent rows, largest violation of a row "
    "[m/s2, rad/s2, for impulses m/s, rad/s], number of iterations.",
)

DAMPING, TARGET_RESIDUAL, MAX_ITERATIONS, RESTITUTION, NCONTACTS = range(5)
CONTACT = 5  # the first contact
JOINT, START, STOP, REFERENCE, AT_ORIGIN, KP, KD, PLACEMENT = 0, 2, 3, 4, 5, 6, 7, 8
CONTACT_SIZE = 32  # of c1, then of c2: JOINT and PLACEMENT
MAX_CONTACTS = MAX_CONSTRAINTS // 3
_KEPT = 64  # tables that a Data keeps
_ITERATION_LIMIT = 1_000_000


class PackedContacts(int):
    """The address of the integers that a kernel reads; it keeps them in memory while it exists."""

    contacts: tuple[Contact, ...]
    numbers: NDArray[np.int64]
    zeros: Array  # one for each row
    rows: dict[str, slice]
    damping: float


def pack_contacts(
    model: Model,
    data: Data,
    contacts: Sequence[Contact],
    damping: float = 0.0,
    residual: float | None = None,
    max_iterations: int = 1,
    restitution: float = 0.0,
) -> PackedContacts:
    """The table of some contacts, found in ``Data`` or created.

    Rows in WORLD are those in LOCAL_WORLD_ALIGNED, which do not lose accuracy far from the world's
    origin; kernels then move the results there.
    """
    settings = damping, residual, max_iterations, restitution
    try:
        hash(settings)  # an array of one number equals that number
        known, table = data._last_packed
        if known == (contacts, settings) and data.model is model:  # otherwise the call reports it
            return table
    except (AttributeError, TypeError, ValueError):  # not a Data; an array
        pass
    given = contacts
    if type(contacts) is not tuple:
        contacts = tuple(contacts) if type(contacts) is list else as_tuple(contacts)
    try:
        if data.model is model:
            return data._packed_constraints[contacts, settings]
    except (AttributeError, KeyError, TypeError):  # not a Data; a new table; not hashable
        pass
    kept = data._packed_constraints if getattr(data, "model", None) is model else {}
    require_contacts(contacts)
    table = _new_table(require_model(model), contacts, _checked_settings(*settings))
    if len(kept) >= _KEPT:
        kept.clear()
    with contextlib.suppress(TypeError):  # damping is an array without an axis
        kept[contacts, settings] = table
        if getattr(data, "model", None) is model and type(given) in (tuple, list):
            data.__dict__["_last_packed"] = (given[:], settings), table
    return table


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
            raise TypeError(
                f"contacts: expected a sequence of dyn_ros.Contact, got "
                f"{type(contact).__name__}: {contact!r:.80}"
            )


def _checked_settings(damping, residual, most, restitution):
    """How contacts are resolved; iterations end at the residual, or after the most."""
    damping = finite_number("damping", damping)
    if damping < 0.0:
        raise ValueError(f"damping: expected a number of 0 or more, got {damping:g}")
    restitution = finite_number("restitution", restitution)
    if not 0.0 <= restitution <= 1.0:
        raise ValueError(f"restitution: expected a number from 0 to 1, got {restitution:g}")
    if residual is None:
        return damping, 0.0, 1, restitution
    residual = finite_number("residual", residual)
    if residual < 0.0:
        raise ValueError(f"residual: expected a number of 0 or more, got {residual:g}")
    if damping == 0.0:
        raise ValueError(
            "damping: expected a positive number for proximal iterations, got 0; "
            "set it to about 1e-6, or omit residual"
        )
    if (
        isinstance(most, bool)
        or not isinstance(most, (int, np.integer))
        or not 1 <= most <= _ITERATION_LIMIT
    ):
        raise ValueError(
            f"max_iterations: expected a whole number from 1 to {_ITERATION_LIMIT}, "
            f"got {most!r:.80}"
        )
    return damping, residual, int(most), restitution


def _new_table(model, contacts, settings):
    ends = np.cumsum([0, *(contact.dimension for contact in contacts)])
    if ends[-1] > MAX_CONSTRAINTS:
        raise ValueError(
            f"contacts: expected at most {MAX_CONSTRAINTS} rows, 3 or 6 for each "
            f"contact, got {ends[-1]} in {len(contacts)} contacts"
        )
    numbers = np.zeros(CONTACT + CONTACT_SIZE * len(contacts), np.int64)
    floats = numbers.view(np.float64)
    (floats[DAMPING], floats[TARGET_RESIDUAL], numbers[MAX_ITERATIONS], floats[RESTITUTION]) = (
        settings
    )
    numbers[NCONTACTS] = len(contacts)
    rows: dict[str, slice] = {}
    for n, contact in enumerate(contacts):
        row = slice(CONTACT + CONTACT_SIZE * n, CONTACT + CONTACT_SIZE * (n + 1))
        name = _write_contact(model, contact, ends[n], numbers[row], floats[row])
        if name in rows:
            raise ValueError(f"contacts: two are named {name!r}; set the argument name of one")
        rows[name] = slice(int(ends[n]), int(ends[n + 1]))
    table = PackedContacts(numbers.ctypes.data)
    table.contacts, table.numbers, table.rows = contacts, numbers, rows
    table.zeros, table.damping = np.zeros(ends[-1]), settings[0]
    return table


def _write_contact(model, contact, start, numbers, floats):
    """Write a contact to its part of the table, as integers and floats; return its name."""
    index = _frame(model, contact, "frame")
    frame, name = model.tree.frames[index], contact.name or model.frame_names[index]
    other_joint, other_place = -1, np.eye(4)
    if contact.other is not None:
        other = model.tree.frames[_frame(model, contact, "other")]
        other_joint, other_place = other.parent, other.placement
    if frame.parent < 0 and other_joint < 0:
        raise ValueError(
            f"contacts: no joint moves the frame {model.frame_names[index]!r} of "
            f"contact {name!r}; available: {moving_frames(model)}"
        )
    if frame.parent == other_joint:
        raise ValueError(
            f"contacts: the frames {contact.frame!r} and {contact.other!r} of contact "
            f"{name!r} belong to the same body, which the joint "
            f"{model.joint_names[frame.parent]!r} moves; choose frames of two bodies"
        )
    numbers[JOINT : JOINT + 2] = frame.parent + 1, other_joint + 1
    numbers[START], numbers[STOP] = start, start + contact.dimension
    numbers[REFERENCE] = contact.reference_frame
    if contact.reference_frame == ReferenceFrame.WORLD:
        numbers[REFERENCE] = ReferenceFrame.LOCAL_WORLD_ALIGNED
        numbers[AT_ORIGIN] = contact.dimension == 6
    floats[KP], floats[KD] = contact.kp, contact.kd
    for place, X in (
        (PLACEMENT, frame.placement @ contact.placement.as_homogeneous()),
        (PLACEMENT + 12, other_place @ contact.other_placement.as_homogeneous()),
    ):
        floats[place : place + 9], floats[place + 9 : place + 12] = X[:3, :3].ravel(), X[:3, 3]
    return name


def _frame(model, contact, attribute):
    """Index of the frame of a contact."""
    try:
        return frame_number(model, getattr(contact, attribute), attribute)
    except ValueError as error:
        if attribute == "frame" and contact.name in (None, contact.frame):
            raise
        raise ValueError(
            f"{attribute} of contact {contact.name or contact.frame!r:.80}: {error}"
        ) from None


# --- the table in kernels


@kernel
def integer(r, k):
    """Return an integer of the table, such as ``MAX_ITERATIONS``."""
    return load(integers_at(option(r, CONTACTS)), k)


@kernel
def ncontacts(r):
    """Return the number of contacts."""
    return integer(r, NCONTACTS)


@kernel
def setting(r, k):
    """Return a float of the table, such as ``RESTITUTION``."""
    return load(floats_at(option(r, CONTACTS)), k)


@kernel
def damping(r):
    """Return the damping."""
    return setting(r, DAMPING)


@kernel
def _integer(r, n, k):
    """Return integer k of contact n."""
    return integer(r, CONTACT + CONTACT_SIZE * n + k)


@kernel
def body(r, n, which):
    """Return the joint that moves frame c1 (0) or c2 (1) of contact n, or 0."""
    return _integer(r, n, JOINT + which)


@kernel
def row_start(r, n):
    """Return the first row of contact n."""
    return _integer(r, n, START)


@kernel
def row_stop(r, n):
    """Return the end of the rows of contact n."""
    return _integer(r, n, STOP)


@kernel
def is_point(r, n):
    """Return True if contact n has dimension 3."""
    return row_stop(r, n) - row_start(r, n) == 3


@kernel
def axes_of(r, n):
    """Return the reference frame of contact n, a number of ReferenceFrame."""
    return _integer(r, n, REFERENCE)


@kernel
def is_at_origin(r, n):
    """Return True if results of contact n, found at c1, are wanted at the world's origin."""
    return _integer(r, n, AT_ORIGIN) == 1


@kernel
def any_at_origin(r):
    """Return True if results of a contact are wanted at the world's origin."""
    is_any = False
    for n in range(ncontacts(r)):
        is_any = is_any or is_at_origin(r, n)
    return is_any


@kernel
def gains(r, n):
    """Return kp and kd."""
    return (
        setting(r, CONTACT + CONTACT_SIZE * n + KP),
        setting(r, CONTACT + CONTACT_SIZE * n + KD),
    )


@kernel
def body_placement(r, n, which):
    """Return frame c1 (0) or c2 (1) of contact n in the frame of its joint, or in the world."""
    a, k = floats_at(option(r, CONTACTS)), CONTACT + CONTACT_SIZE * n + PLACEMENT + 12 * which
    return SE3(load9(a, k), load3(a, k + 9))
