# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The fields of the workspace and the options of a call, which kernels refer to.

A field is an array with a name and a shape. An algorithm declares its input and result fields;
the other fields that its kernel refers to are scratch. Field and Option are ints, which are
constants in compiled code.

Row 0 of every field with one row per joint is the universe; public results start at row 1.
"""

import math
from collections.abc import Iterable
from typing import Protocol, TypeAlias

from .lanes import SIMD_WIDTH
from .types import Array

Axis: TypeAlias = int | str

FIELDS: list["Field"] = []
OPTIONS: list["Option"] = []
_AXES = (
    "nq",
    "nv",
    "njoints",
    "rows",
    "ncolumns",
    "nframes",
    "constraints",
    "padded",
    "parameters",
    "moments",
    "placements",
    "regression",
)
_RESERVED = ("model", "release")
MAX_FIELDS = 512
MAX_OPTIONS = 16
MAX_CONSTRAINTS = 36


class Sizes(Protocol):
    """A robot, as far as the sizes of fields depend on it."""

    njoints: int
    nq: int
    nv: int
    nframes: int
    _ncolumns: int


class Field(int):
    """One named array in the workspace; see ``field``."""

    name: str
    shape: tuple[Axis, ...]
    doc: str
    transposed: bool
    sparse: bool
    zeros: bool
    summed: bool

    @property
    def is_public(self) -> bool:
        """Return True if it is an attribute of ``Data``."""
        return not self.name.startswith("_")

    @property
    def is_open(self) -> bool:
        """Return True if its size depends on the number of constraints in the call."""
        return "constraints" in self.shape

    @property
    def holds_placements(self) -> bool:
        """Return True if it contains homogeneous matrices, which are initialized as identities."""
        return self.shape[-2:] == (4, 4)


def field(
    name: str,
    shape: tuple[Axis, ...],
    doc: str = "",
    transposed: bool = False,
    sparse: bool = False,
    zeros: bool = False,
    summed: bool = False,
) -> Field:
    """Declare an array of the workspace, an attribute of ``Data`` unless the name starts with "_".

    The axes in ``shape`` are ints, "nq", "nv", "njoints", "nframes", "rows" (the universe and
    njoints), "ncolumns" (one for each column of each joint's motion subspace; more than nv if there
    are mimic joints), "parameters" (the dynamic parameters of all bodies, 10 njoints), "moments"
    (masses and first moments, 4 njoints), "placements" (6 njoints), "padded" and "regression" (nv
    and 10 njoints, rounded up to a multiple of ``SIMD_WIDTH``; the latter has ``SIMD_WIDTH`` more),
    or "constraints" (the number in the call, up to ``MAX_CONSTRAINTS``; for an input the last axis
    only; kernels store the entries without gaps). An empty tuple is a single number; fields that
    end in (4, 4) are placements. ``doc`` has the unit and the frame.

    ``transposed``: the last two axes are exposed transposed, so that the matrix's columns are
    contiguous.
    ``sparse``: entries of velocities (nv, nv) in different branches are zero, or in (nv,
    "parameters") those of bodies that the joint does not carry. Kernels for batches never write
    them.
    ``zeros``: entries that no kernel writes are zero. Other scratch is initialized with NaN, which
    exposes kernels that read entries they have not written.
    ``summed``: a result is the sum over the states of a batch. In a workspace of lanes it has no
    lanes: entry n is number n % ``LANES`` of row n // ``LANES``. Kernels add to it, after
    ``clear_sum``. The lanes beyond the last state of a batch repeat this state, so kernels multiply
    by a number that ``clear_padding`` has set to zero there.
    """
    if any(declared.name == name for declared in FIELDS):
        raise ValueError(f"a field named {name!r} exists already; choose another name")
    if not name.isidentifier() or name in _RESERVED:
        raise ValueError(
            f"a field cannot be named {name!r}: choose an identifier that is "
            "not an attribute of Data"
        )
    if not isinstance(shape, tuple) or not all(
        isinstance(axis, int) or axis in _AXES for axis in shape
    ):
        raise ValueError(
            f"{name}: shape: expected a tuple of ints and {', '.join(_AXES)}, got {shape!r}"
        )
    if len(FIELDS) == MAX_FIELDS:
        raise ValueError(f"more than {MAX_FIELDS} fields; raise MAX_FIELDS in kernel/fields.py")
    new = Field(len(FIELDS))
    new.name, new.shape, new.doc = name, shape, doc
    new.transposed, new.sparse, new.summed = transposed, sparse, summed
    new.zeros = sparse or zeros or summed
    FIELDS.append(new)
    return new


class Option(int):
    """An integer that a call passes to its kernel; see ``declare_option``."""

    name: str
    bits: int


def declare_option(name: str, bits: int = 0) -> Option:
    """Declare an option; ``name`` is for error messages.

    ``bits`` = 0: all remaining bits, which only the first option of an algorithm can have.
    """
    if len(OPTIONS) == MAX_OPTIONS:
        raise ValueError(f"more than {MAX_OPTIONS} options; raise MAX_OPTIONS in kernel/fields.py")
    new = Option(len(OPTIONS))
    new.name, new.bits = name, bits
    OPTIONS.append(new)
    return new


def axis_lengths(
    model: Sizes, shape: tuple[Axis, ...], constraints: int = MAX_CONSTRAINTS
) -> tuple[int, ...]:
    """Return the lengths of a field's axes for a model and a number of constraints."""
    sizes = {
        "nq": model.nq,
        "nv": model.nv,
        "njoints": model.njoints,
        "rows": model.njoints + 1,
        "ncolumns": model._ncolumns,
        "nframes": model.nframes,
        "constraints": constraints,
        "padded": -(-model.nv // SIMD_WIDTH) * SIMD_WIDTH,
        "parameters": 10 * model.njoints,
        "moments": 4 * model.njoints,
        "placements": 6 * model.njoints,
        "regression": (-(-10 * model.njoints // SIMD_WIDTH) + 1) * SIMD_WIDTH,
    }
    return tuple(sizes[axis] if isinstance(axis, str) else axis for axis in shape)


def initialize(item: Field, array: Array, scratch: float) -> None:
    """Initialize a field before any kernel runs; ``array`` can have an axis of lanes."""
    array[...] = scratch
    if item.holds_placements:
        axis = len(item.shape) - 2
        array[...] = 0.0
        for k in range(4):
            array[(slice(None),) * axis + (k, k)] = 1.0


def public_view(model: Sizes, item: Field, array: Array, constraints: int = 0) -> Array:
    """Return the public view of a field's array: without the universe, not transposed."""
    if item.shape[:1] == ("rows",):
        array = array[1:]
    if item.is_open:
        shape = axis_lengths(model, item.shape, constraints)
        array = array.reshape(-1)[: math.prod(shape)].reshape(shape)
    return array.swapaxes(-1, -2) if item.transposed else array


def fields_among(constants: Iterable[object]) -> set[Field]:
    """Return the fields among the constants of a kernel, including those in tuples."""
    fields: set[Field] = set()
    for value in constants:
        if isinstance(value, Field):
            fields.add(value)
        elif isinstance(value, tuple) and not hasattr(value, "_fields"):
            fields |= fields_among(value)
    return fields


# The inputs of kernels, and what several algorithms share.
Q = field("_q", ("nq",))
V = field("_v", ("nv",))
A = field("_a", ("nv",))
TAU_IN = field("_tau", ("nv",))
F_EXT = field("_f_ext", ("njoints", 6))
POINT = field("_offset", (3,))
ALPHA = field("_alpha", (6, "constraints"))
BETA = field("_beta", ("constraints",))
ROOT_ACC = field("_root_acc", (6,))
FF_TORQUES = field("_ff_torques", ("nv",))
DIRECTIONS = field("_directions", (6, "constraints"))
DESIRED = field("_accelerations", ("constraints",))
LIMI = field(
    "liMi",
    ("rows", 4, 4),
    "Placement of each joint frame in its parent joint's frame, homogeneous [m].",
)
OMI = field("oMi", ("rows", 4, 4), "Placement of each joint frame in the world, homogeneous [m].")
JOINT_V = field(
    "v",
    ("rows", 6),
    "Velocity (linear, angular) of each joint frame, expressed in it [m/s, rad/s].",
)
JOINT_A = field(
    "a_gf",
    ("rows", 6),
    "Spatial acceleration of each joint frame minus gravity, expressed in it [m/s2, rad/s2].",
)
JOINT_F = field(
    "f",
    ("rows", 6),
    "Force and moment that each joint transmits to its body, "
    "expressed in the joint frame, at its origin [N, N m].",
)
EMPTY = field("_empty", (2 * SIMD_WIDTH,), zeros=True)  # source of the empty tiles of a batch

FRAME = declare_option("frame")  # an index into model.frame_names
REFERENCE_FRAME = declare_option("reference_frame", bits=2)
CLASSICAL = declare_option("classical", bits=1)  # 1: classical instead of spatial acceleration
TERMS = declare_option("terms")  # a bit for each result, see ResultSelection
CONSTRAINTS = declare_option("constraints")  # the address of a table, see constraints.py
