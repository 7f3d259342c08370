# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Where everything lies: the packed arrays that a kernel receives, and how it reads them.

A kernel has one argument, a ``KernelArgs``: integers (sizes, offsets, the tree), floats (the
constants of the model) and the work space (inputs, intermediate and final results). The
work space has one axis for one state and a second one, of ``LANES``, for many.

Row 0 of every field that counts joints is the universe; the rows that people see start at 1.
"""
from collections import namedtuple
from typing import NamedTuple

from ..spatial.algebra import SE3, Inertia, Symmetric, constant3, constant9
from ..spatial.compiler import kernel
from ..spatial.lanes import LANES, constant, holds_lanes, load, store

KernelArgs = namedtuple("KernelArgs", "ints floats work")


# --- fields of the work space

class Field(NamedTuple):
    """One named array in the work space."""

    name: str
    shape: tuple      # of ints and names of axes, see field()
    doc: str
    transposed: bool
    sparse: bool


FIELDS: list[Field] = []
MAX_FIELDS = 256
MAX_CONSTRAINTS = 36


def field(name, shape, doc="", transposed=False, sparse=False):
    """Give a new array a place in the work space of every ``Data``.

    Parameters
    ----------
    name : str
        Its name in ``Data``; one that starts with an underscore stays hidden.
    shape : tuple
        Its axes: ints, "nq", "nv", "njoints", "nframes", "rows" (njoints and the universe before
        them), "ncolumns" (one for each column of each joint's motion subspace; with mimic
        joints there are more of these than velocities), "padded" (nv rounded up to whole
        ``LANES``) or, as the last one, "constraints" (as many as a call has, up to
        ``MAX_CONSTRAINTS``). None: a number. Two last axes of (4, 4) are placements, whose last
        row Data writes once.
    doc : str
        What it is, with unit and frame.
    transposed : bool
        People see the two last axes exchanged: columns of a matrix lie whole in memory.
    sparse : bool
        Each axis is "nv", and numbers of velocities on no common way to the root are zero: no
        kernel for a batch ever writes them.

    Returns
    -------
    int
        Its number, for ``offset``.
    """
    if any(known.name == name for known in FIELDS):
        raise ValueError(f"a field named {name!r} exists already; choose another name")
    if len(FIELDS) == MAX_FIELDS:
        raise ValueError(f"more than {MAX_FIELDS} fields; raise MAX_FIELDS in model/layout.py")
    FIELDS.append(Field(name, shape, doc, transposed, sparse))
    return len(FIELDS) - 1


def is_open(field):
    """Whether the length of a field's last axis is up to the call."""
    return FIELDS[field].shape[-1:] == ("constraints",)


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
LIMI = field("liMi", ("rows", 4, 4), "Placement of each joint frame in its parent's [m].")
OMI = field("oMi", ("rows", 4, 4), "Placement of each joint frame in the world [m].")
JOINT_V = field("v", ("rows", 6), "Velocity of each joint frame, in that frame [m/s, rad/s].")
JOINT_A = field("a_gf", ("rows", 6), "Acceleration of each joint frame less gravity, in that "
                                     "frame [m/s2, rad/s2].")
JOINT_F = field("f", ("rows", 6), "Force that each joint transmits to its body, in the joint's "
                                  "frame, at its origin [N, N m].")
ZEROS = field("_zeros", (LANES,))                   # which nobody writes


# --- integers: header, offsets and sizes of the fields, the tree

(NJOINTS, NQ, NV, NALLCOLUMNS, NFRAMES, GIVEN, WHERE, STATUS, COUPLED, NUNIT, UNIT_LIST,
 FRAME_LIST, NCONSTRAINTS) = range(13)
OFFSET = 13
SIZE = OFFSET + MAX_FIELDS
TREE = SIZE + MAX_FIELDS
PARENT, KIND, IDX_Q, IDX_V, NCOLUMNS, IDX_COLUMN, HAS_CHILD, LAST_CHILD = range(8)
TREE_ROW = 8

REVOLUTE, PRISMATIC, PLANAR, FLOATING = range(4)

# --- floats: gravity, the six unit motions, a row per joint, the armature, the frames

GRAVITY = 0
UNITS = 3
ROWS = UNITS + 36
PLACE, PLACE_SIN, PLACE_COS, TRANSLATION, SLIDE, AXIS, INERTIA, RATIO, SHIFT = (
    0, 9, 18, 27, 30, 33, 36, 46, 47)
FLOATS_ROW = 48
FRAME_ROW = 12


@kernel
def njoints(r):
    """Joints without the universe; they are numbered from 1."""
    return constant(r.ints, NJOINTS)


@kernel
def nv(r):
    return constant(r.ints, NV)


@kernel
def padded(r):
    """nv rounded up to whole ``LANES``."""
    return (nv(r) + LANES - 1) // LANES * LANES


@kernel
def nallcolumns(r):
    """Columns of all joints' motion subspaces."""
    return constant(r.ints, NALLCOLUMNS)


@kernel
def nframes(r):
    return constant(r.ints, NFRAMES)


@kernel
def nconstraints(r):
    """Length of the axis "constraints" in this call."""
    return load(r.ints, NCONSTRAINTS)


@kernel
def offset(r, field):
    """Offset of a field in the work space."""
    return constant(r.ints, OFFSET + field)


@kernel
def has_input(r, field):
    """Whether the caller gave this optional input (one of the first 32 fields)."""
    return (load(r.ints, GIVEN) >> field) & 1 == 1


@kernel
def where(r):
    """The integer that came with the call: a joint, or a frame and a reference frame."""
    return load(r.ints, WHERE)


@kernel
def fail(r, k):
    """Say that velocity k may have made the result singular; ``singular.py`` decides."""
    if load(r.ints, STATUS) == 0:
        store(r.ints, STATUS, k + 1)


@kernel
def coupled(r):
    """Whether mimic joints couple branches of the tree."""
    return constant(r.ints, COUPLED) != 0


@kernel
def velocity_parent(r, k):
    """The velocity before k on the way to the root, or -1."""
    return constant(r.ints, TREE + TREE_ROW * (njoints(r) + 1) + k)


@kernel
def velocity_end(r, k):
    """The velocities after k and before this one have k on their way to the root."""
    return constant(r.ints, TREE + TREE_ROW * (njoints(r) + 1) + nv(r) + k)


@kernel
def parent(r, i):
    return constant(r.ints, TREE + TREE_ROW * i + PARENT)


@kernel
def kind(r, i):
    return constant(r.ints, TREE + TREE_ROW * i + KIND)


@kernel
def idx_q(r, i):
    return constant(r.ints, TREE + TREE_ROW * i + IDX_Q)


@kernel
def idx_v(r, i):
    return constant(r.ints, TREE + TREE_ROW * i + IDX_V)


@kernel
def ncolumns(r, i):
    """Columns of the joint's motion subspace."""
    return constant(r.ints, TREE + TREE_ROW * i + NCOLUMNS)


@kernel
def idx_column(r, i):
    """Number of the joint's first column among those of all joints."""
    return constant(r.ints, TREE + TREE_ROW * i + IDX_COLUMN)


@kernel
def has_child(r, i):
    return constant(r.ints, TREE + TREE_ROW * i + HAS_CHILD) == 1


@kernel
def is_last_child(r, i):
    """Whether joint i is the first of its siblings that an inward pass meets."""
    return constant(r.ints, TREE + TREE_ROW * i + LAST_CHILD) == 1


@kernel
def constants(i):
    """Where the floats of joint i start."""
    return ROWS + FLOATS_ROW * i


@kernel
def ratio(r, i):
    """Velocity of joint i over that of the coordinate it hangs on: 1, or a mimic's multiplier."""
    return constant(r.floats, constants(i) + RATIO)


@kernel
def axis(r, i):
    """Axis of a revolute or prismatic joint, in its frame."""
    return constant3(r.floats, constants(i) + AXIS)


@kernel
def body_inertia(r, i):
    """Of what joint i carries, in its frame, about its origin."""
    k = constants(i) + INERTIA
    return Inertia(constant(r.floats, k), constant3(r.floats, k + 1), Symmetric(
        constant(r.floats, k + 4), constant(r.floats, k + 5), constant(r.floats, k + 6),
        constant(r.floats, k + 7), constant(r.floats, k + 8), constant(r.floats, k + 9)))


@kernel
def armature(r, k):
    """Rotor inertia of coordinate k."""
    return constant(r.floats, ROWS + FLOATS_ROW * (njoints(r) + 1) + k)


@kernel
def frame_parent(r, f):
    """The joint that carries frame f, or 0."""
    return constant(r.ints, constant(r.ints, FRAME_LIST) + f)


@kernel
def frame_placement(r, f):
    """Pose of frame f in its joint's frame."""
    k = ROWS + FLOATS_ROW * (njoints(r) + 1) + nv(r) + FRAME_ROW * f
    return SE3(constant9(r.floats, k), constant3(r.floats, k + 9))


@kernel
def clear(a, start, count):
    """Set work[start : start + count] to zero."""
    for k in range(start, start + count):
        store(a, k, 0.0)


@kernel
def increase(a, k, x):
    store(a, k, load(a, k) + x)


@kernel
def accumulate(r, k, x):
    """Leave a number; where mimic joints share velocities, add it."""
    if coupled(r):
        x = x + load(r.work, k)
    store(r.work, k, x)


@kernel
def clear_matrix(r, start):
    """Zeros where ``accumulate`` leaves an nv x nv matrix that is sparse along the tree.

    A batch's work space, which nobody else sees, keeps those off the tree.
    """
    if coupled(r) or not holds_lanes(r.work):
        clear(r.work, start, nv(r) * nv(r))


@kernel
def zero_unless_input(r, field):
    """An optional input that the caller left out counts as zero."""
    if not has_input(r, field):
        clear(r.work, offset(r, field), load(r.ints, SIZE + field))
