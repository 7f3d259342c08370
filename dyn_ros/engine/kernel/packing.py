# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The packed arrays that a kernel receives: how they are arranged, and access to them.

A kernel has one argument, a ``KernelArgs``: the integers of the model (sizes, the tree), the
integers of the call (status, options, offsets of fields), the floats of the model (its constants)
and the workspace. Each entry of the workspace is a float for one state, or ``LANES`` floats for as
many states.
"""

from collections import namedtuple
from collections.abc import Callable
from typing import Any

from ..machine_code.declare import kernel
from .algebra import SE3, Inertia, Motion, Symmetric, constant3, constant9
from .fields import MAX_FIELDS, MAX_OPTIONS, TERMS
from .lanes import LANES, SIMD_WIDTH, constant, holds_lanes, load, store, store_lane

KernelArgs = namedtuple("KernelArgs", "ints call_ints floats work")


# --- the model's integers: header, the tree of joints, the tree of velocities, lists

NJOINTS, NQ, NV, NALLCOLUMNS, NFRAMES, HAS_MIMIC_JOINTS, NUNIT, UNIT_LIST, FRAME_LIST = range(9)
TREE = 9
PARENT, KIND, IDX_Q, IDX_V, NCOLUMNS, IDX_COLUMN, HAS_CHILD, LAST_CHILD = range(8)
TREE_ROW = 8

REVOLUTE, PRISMATIC, PLANAR, FLOATING, SPHERICAL = range(5)

# --- the call's integers: header, options, for each field whether the caller passed it, its offset
# from the start of the workspace, and its number of entries; how many lanes hold a state

STATUS, NCONSTRAINTS = range(2)
OPTION = 2
HAS_INPUT = OPTION + MAX_OPTIONS
OFFSET = HAS_INPUT + MAX_FIELDS
SIZE = OFFSET + MAX_FIELDS
NSTATES = SIZE + MAX_FIELDS
CALL_INTS = NSTATES + 1

# --- floats: gravity, unit motions, a row per joint, the armature, the placements of frames, the
# inertias of their links

# The unit motions are the columns of S of a planar, a floating and a spherical joint. They overlap:
# those of each kind start three after those of the kind before.
UNIT_MOTIONS = (0, 1, 5, 0, 1, 2, 3, 4, 5)
UNITS_OF_KIND = 3

GRAVITY = 0
UNITS = 3
ROWS = UNITS + 6 * len(UNIT_MOTIONS)
PLACE, PLACE_SIN, PLACE_COS, TRANSLATION, SLIDE, AXIS, INERTIA, RATIO, SHIFT = (
    0,
    9,
    18,
    27,
    30,
    33,
    36,
    46,
    47,
)
FLOATS_ROW = 48
FRAME_ROW = 12
INERTIA_ROW = 10


def make_size_reader(index: int) -> Callable[..., Any]:
    """Return a kernel that reads an integer of the header."""

    @kernel
    def size_of_model(r):
        return constant(r.ints, index)

    return size_of_model


njoints = make_size_reader(NJOINTS)  # without the universe; they are numbered from 1
nv = make_size_reader(NV)
nallcolumns = make_size_reader(NALLCOLUMNS)  # sum of ncolumns of all joints
nframes = make_size_reader(NFRAMES)


@kernel
def padded_nv(r):
    """Return nv rounded up to a multiple of ``SIMD_WIDTH``."""
    return (nv(r) + SIMD_WIDTH - 1) // SIMD_WIDTH * SIMD_WIDTH


@kernel
def nconstraints(r):
    """Return the length of the axis "constraints" in this call."""
    return load(r.call_ints, NCONSTRAINTS)


@kernel
def offset(r, field):
    """Return the offset of a field from the start of the workspace.

    Public fields of one state are arrays of ``Data``, which lie elsewhere.
    """
    return constant(r.call_ints, OFFSET + field)


@kernel
def size(r, field):
    """Return the number of entries of a field."""
    return constant(r.call_ints, SIZE + field)


@kernel
def has_input(r, field):
    """Return True if the caller passed this optional input; False for other fields."""
    return load(r.call_ints, HAS_INPUT + field) != 0


@kernel
def option(r, which):
    """Return an integer that the caller passed, such as ``FRAME``."""
    return load(r.call_ints, OPTION + which)


@kernel
def is_requested(r, terms):
    """Return True if the call asks for one of the results with these bits in ``TERMS``."""
    return option(r, TERMS) & terms != 0


@kernel
def report_small_pivot(r, k):
    """Report that velocity k may have made the result singular; ``singular.py`` decides."""
    if load(r.call_ints, STATUS) == 0:
        store(r.call_ints, STATUS, k + 1)


@kernel
def has_mimic_joints(r):
    """Return True if there are mimic joints, so that joints share velocities."""
    return constant(r.ints, HAS_MIMIC_JOINTS) != 0


@kernel
def velocity_parent(r, k):
    """Return the parent of velocity k, or -1 if no velocity precedes it on the way to the root."""
    return constant(r.ints, TREE + TREE_ROW * (njoints(r) + 1) + k)


@kernel
def velocity_end(r, k):
    """Return the end of the range of velocity k and its descendants, which are consecutive."""
    return constant(r.ints, TREE + TREE_ROW * (njoints(r) + 1) + nv(r) + k)


def make_joint_reader(index: int) -> Callable[..., Any]:
    """Return a kernel that reads an integer of joint i."""

    @kernel
    def integer_of_joint(r, i):
        return constant(r.ints, TREE + TREE_ROW * i + index)

    return integer_of_joint


parent, kind, idx_q, idx_v = map(make_joint_reader, (PARENT, KIND, IDX_Q, IDX_V))
ncolumns = make_joint_reader(NCOLUMNS)  # columns of S
idx_column = make_joint_reader(IDX_COLUMN)  # first row in fields with the axis "ncolumns"


@kernel
def column_before(r, i, c):
    """Return the joint and the column before column c of joint i, on the way to the root.

    One loop over all columns on the way is faster than a loop over each joint's columns, before
    which the compiled code computes the addresses of all entries.
    """
    p = parent(r, i)
    last = ncolumns(r, p) - 1
    if c > 0:
        return i, c - 1
    return p, last


@kernel
def has_child(r, i):
    """Return True if joint i is the parent of a joint."""
    return constant(r.ints, TREE + TREE_ROW * i + HAS_CHILD) == 1


@kernel
def is_last_child(r, i):
    """Return True if joint i is the first of its siblings in an inward pass."""
    return constant(r.ints, TREE + TREE_ROW * i + LAST_CHILD) == 1


@kernel
def joint_floats(i):
    """Return the offset of the floats of joint i."""
    return ROWS + FLOATS_ROW * i


@kernel
def joint_constant(r, i, which):
    """Return a number among the floats of joint i, such as ``RATIO``."""
    return constant(r.floats, joint_floats(i) + which)


@kernel
def joint_constant3(r, i, which):
    """Return a vector among the floats of joint i, such as ``AXIS``."""
    return constant3(r.floats, joint_floats(i) + which)


@kernel
def joint_constant9(r, i, which):
    """Return a 3 x 3 matrix among the floats of joint i, such as ``PLACE``."""
    return constant9(r.floats, joint_floats(i) + which)


@kernel
def ratio(r, i):
    """Return the ratio of the velocity of joint i to its coordinate's: 1, or a mimic multiplier."""
    return joint_constant(r, i, RATIO)


@kernel
def axis(r, i):
    """Return the axis of a revolute or prismatic joint, expressed in its frame."""
    return joint_constant3(r, i, AXIS)


@kernel
def gravity(r):
    """Return the acceleration of gravity, expressed in the world [m/s2]."""
    return constant3(r.floats, GRAVITY)


@kernel
def unit_motion(r, joint_kind, c):
    """Return column c of S of a planar, floating or spherical joint."""
    k = UNITS + 6 * (UNITS_OF_KIND * (joint_kind - PLANAR) + c)
    return Motion(constant3(r.floats, k), constant3(r.floats, k + 3))


@kernel
def _inertia(r, k):
    """Return the inertia of a rigid body among the floats, from number k on."""
    return Inertia(
        constant(r.floats, k),
        constant3(r.floats, k + 1),
        Symmetric(
            constant(r.floats, k + 4),
            constant(r.floats, k + 5),
            constant(r.floats, k + 6),
            constant(r.floats, k + 7),
            constant(r.floats, k + 8),
            constant(r.floats, k + 9),
        ),
    )


@kernel
def body_inertia(r, i):
    """Return the inertia of the body of joint i, expressed in its frame, about its origin."""
    return _inertia(r, joint_floats(i) + INERTIA)


@kernel
def armature(r, k):
    """Return the rotor inertia of velocity k, reflected to it."""
    return constant(r.floats, joint_floats(njoints(r) + 1) + k)


@kernel
def frame_floats(r):
    """Return the offset of the placements of frames, which follow the armature."""
    return joint_floats(njoints(r) + 1) + nv(r)


@kernel
def frame_placement(r, f):
    """Return the placement of frame f in the frame of the joint that moves it."""
    k = frame_floats(r) + FRAME_ROW * f
    return SE3(constant9(r.floats, k), constant3(r.floats, k + 9))


@kernel
def frame_inertia(r, f):
    """Return the inertia of frame f's link, expressed in the joint that moves it, at its origin."""
    return _inertia(r, frame_floats(r) + FRAME_ROW * nframes(r) + INERTIA_ROW * f)


def make_frame_reader(row: int) -> Callable[..., Any]:
    """Return a kernel that reads an integer of frame f."""

    @kernel
    def integer_of_frame(r, f):
        return constant(r.ints, constant(r.ints, FRAME_LIST) + row * nframes(r) + f)

    return integer_of_frame


frame_parent = make_frame_reader(0)  # the joint that moves it, or 0
connecting_frame = make_frame_reader(1)  # the joint that connects link f; f for other frames
connecting_frame_above = make_frame_reader(2)  # for a joint, its link's connecting frame; or -1
frame_joint = make_frame_reader(3)  # the moving joint whose frame it is, or 0


@kernel
def is_batch(r):
    """Return True if a kernel runs on lanes, several states of a batch at once."""
    return holds_lanes(r.work)


@kernel
def clear(a, start, count):
    """Set work[start : start + count] to zero."""
    for k in range(start, start + count):
        store(a, k, 0.0)


@kernel
def increase(a, k, x):
    """Add x to number k of a workspace."""
    store(a, k, load(a, k) + x)


@kernel
def clear_padding(r, field, k):
    """Set entry k of a field to zero in the lanes beyond the last state of a batch."""
    if holds_lanes(r.work):
        for lane in range(load(r.call_ints, NSTATES), LANES):
            store_lane(r.work, offset(r, field) + k, lane, 0.0)


@kernel
def zero_unless_input(r, field):
    """Set an optional input to zero if the caller omitted it."""
    if not has_input(r, field):
        clear(r.work, offset(r, field), size(r, field))
