# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Access to fields of the workspace: entries, rows, and matrices.

An entry is a number of a field, counted from the start of the field. A row holds a vector, a
rotation, a motion, a force, a placement or an inertia. Rows are counted from the start of the
field: in a field with one row for each joint, row i belongs to joint i, and row 0 to the universe.
The accessors of rows know how many entries a row has. A matrix consists of elements [i, j]; it is a
field, a part of one, or its transpose.

``add_to_...`` adds to what is stored. ``accumulate_...`` does so only if mimic joints share
velocities: otherwise each number is written once, so it is set and need not be cleared before.
"""

from collections import namedtuple

from ..machine_code.declare import kernel
from .algebra import (
    add,
    coriolis_add,
    force_add,
    inertia_add,
    load3,
    load9,
    load_articulated,
    load_coriolis,
    load_force,
    load_inertia,
    load_motion,
    load_se3,
    motion_add,
    store3,
    store9,
    store_articulated,
    store_coriolis,
    store_inertia,
    store_se3,
    store_spatial,
)
from .lanes import load, load_simd, store, store_simd
from .packing import clear, has_mimic_joints, idx_column, increase, is_batch, nv, offset, size

# --- numbers


@kernel
def entry(r, field, k):
    """Return entry k of a field."""
    return load(r.work, offset(r, field) + k)


@kernel
def set_entry(r, field, k, x):
    """Set entry k of a field."""
    store(r.work, offset(r, field) + k, x)


@kernel
def add_to_entry(r, field, k, x):
    """Add x to entry k of a field."""
    increase(r.work, offset(r, field) + k, x)


@kernel
def accumulate_entry(r, field, k, x):
    """Set entry k of a field to x, or add x if mimic joints share velocities."""
    if has_mimic_joints(r):
        x = x + load(r.work, offset(r, field) + k)
    store(r.work, offset(r, field) + k, x)


@kernel
def clear_entries(r, field, count):
    """Set the first ``count`` entries of a field to zero."""
    clear(r.work, offset(r, field), count)


@kernel
def entries(r, field, k, count):
    """Return the SIMD vector of the next ``simd_width`` entries of a field from entry k on.

    At most ``count`` entries are loaded; the rest of the vector is zero.
    """
    return load_simd(r.work, offset(r, field) + k, count)


@kernel
def set_entries(r, field, k, count, x):
    """Set at most ``count`` entries of a field from entry k on to a SIMD vector."""
    store_simd(r.work, offset(r, field) + k, count, x)


@kernel
def clear_row(r, field, i, length):
    """Set row i of a field whose rows have ``length`` entries to zero."""
    clear(r.work, offset(r, field) + length * i, length)


@kernel
def clear_sum(r, field):
    """Clear a summed field for one state. For a batch it is zero when the call starts."""
    if not is_batch(r):
        clear_entries(r, field, size(r, field))


@kernel
def clear_sparse(r, field):
    """Clear a field with the sparsity of the tree before ``accumulate_element``.

    The entries outside the tree must be zero. In the private workspace of a batch they stay zero,
    so it is cleared only if mimic joints share velocities.
    """
    if has_mimic_joints(r) or not is_batch(r):
        clear_entries(r, field, size(r, field))


# --- rows


@kernel
def vector(r, field, i):
    """Return row i, three numbers."""
    return load3(r.work, offset(r, field) + 3 * i)


@kernel
def set_vector(r, field, i, x):
    """Set row i to three numbers."""
    store3(r.work, offset(r, field) + 3 * i, x)


@kernel
def clear_vector(r, field, i):
    """Set row i, three numbers, to zero."""
    clear_row(r, field, i, 3)


@kernel
def add_to_vector(r, field, i, x):
    """Add three numbers to row i."""
    k = offset(r, field) + 3 * i
    store3(r.work, k, add(load3(r.work, k), x))


@kernel
def rotation(r, field, i):
    """Return row i, a 3 x 3 matrix."""
    return load9(r.work, offset(r, field) + 9 * i)


@kernel
def set_rotation(r, field, i, R):
    """Set row i to a 3 x 3 matrix."""
    store9(r.work, offset(r, field) + 9 * i, R)


@kernel
def set_identity_rotation(r, field, i):
    """Set row i to the 3 x 3 identity matrix."""
    clear_row(r, field, i, 9)
    for k in range(3):
        set_entry(r, field, 9 * i + 4 * k, 1.0)


@kernel
def motion(r, field, i):
    """Return row i, a motion."""
    return load_motion(r.work, offset(r, field) + 6 * i)


@kernel
def set_motion(r, field, i, m):
    """Set row i to a motion."""
    store_spatial(r.work, offset(r, field) + 6 * i, m)


@kernel
def clear_motion(r, field, i):
    """Set row i, a motion, to zero."""
    clear_row(r, field, i, 6)


@kernel
def add_to_motion(r, field, i, m):
    """Add a motion to row i."""
    k = offset(r, field) + 6 * i
    store_spatial(r.work, k, motion_add(load_motion(r.work, k), m))


@kernel
def force(r, field, i):
    """Return row i, a force."""
    return load_force(r.work, offset(r, field) + 6 * i)


@kernel
def set_force(r, field, i, f):
    """Set row i to a force."""
    store_spatial(r.work, offset(r, field) + 6 * i, f)


@kernel
def clear_force(r, field, i):
    """Set row i, a force, to zero."""
    clear_row(r, field, i, 6)


@kernel
def add_to_force(r, field, i, f):
    """Add a force to row i."""
    k = offset(r, field) + 6 * i
    store_spatial(r.work, k, force_add(load_force(r.work, k), f))


@kernel
def accumulate_force(r, field, i, f):
    """Set row i to a force, or add the force if mimic joints share velocities."""
    if has_mimic_joints(r):
        f = force_add(force(r, field, i), f)
    set_force(r, field, i, f)


@kernel
def placement(r, field, i):
    """Return row i, a placement, stored as a homogeneous matrix."""
    return load_se3(r.work, offset(r, field) + 16 * i)


@kernel
def set_placement(r, field, i, X):
    """Set row i to a placement."""
    store_se3(r.work, offset(r, field) + 16 * i, X)


@kernel
def inertia(r, field, i):
    """Return row i, the inertia of a rigid body."""
    return load_inertia(r.work, offset(r, field) + 10 * i)


@kernel
def set_inertia(r, field, i, Y):
    """Set row i to the inertia of a rigid body."""
    store_inertia(r.work, offset(r, field) + 10 * i, Y)


@kernel
def clear_inertia(r, field, i):
    """Set row i, the inertia of a rigid body, to zero."""
    clear_row(r, field, i, 10)


@kernel
def add_to_inertia(r, field, i, Y):
    """Add the inertia of a rigid body to row i."""
    k = offset(r, field) + 10 * i
    store_inertia(r.work, k, inertia_add(load_inertia(r.work, k), Y))


@kernel
def articulated_inertia(r, field, i):
    """Return row i, an articulated-body inertia."""
    return load_articulated(r.work, offset(r, field) + 21 * i)


@kernel
def set_articulated_inertia(r, field, i, Y):
    """Set row i to an articulated-body inertia."""
    store_articulated(r.work, offset(r, field) + 21 * i, Y)


@kernel
def coriolis(r, field, i):
    """Return row i, a Coriolis inertia."""
    return load_coriolis(r.work, offset(r, field) + 12 * i)


@kernel
def set_coriolis(r, field, i, B):
    """Set row i to a Coriolis inertia."""
    store_coriolis(r.work, offset(r, field) + 12 * i, B)


@kernel
def clear_coriolis(r, field, i):
    """Set row i, a Coriolis inertia, to zero."""
    clear_row(r, field, i, 12)


@kernel
def add_to_coriolis(r, field, i, B):
    """Add a Coriolis inertia to row i."""
    k = offset(r, field) + 12 * i
    store_coriolis(r.work, k, coriolis_add(load_coriolis(r.work, k), B))


# --- columns: rows of fields with one row for each column of each joint's motion subspace


@kernel
def motion_column(r, field, i, c):
    """Return column c of joint i, a motion."""
    return motion(r, field, idx_column(r, i) + c)


@kernel
def force_column(r, field, i, c):
    """Return column c of joint i, a force."""
    return force(r, field, idx_column(r, i) + c)


@kernel
def set_column(r, field, i, c, m):
    """Set column c of joint i to a motion or a force."""
    set_motion(r, field, idx_column(r, i) + c, m)


@kernel
def column_axis(r, field, i):
    """Return the axis of joint i of one degree of freedom: the first half of its column."""
    return vector(r, field, 2 * idx_column(r, i))


@kernel
def set_column_axis(r, field, i, u):
    """Set the axis of joint i of one degree of freedom: the first half of its column."""
    set_vector(r, field, 2 * idx_column(r, i), u)


# --- matrices

Matrix = namedtuple("Matrix", "start row_step column_step")
Matrix.__doc__ = """A matrix in the workspace: element (i, j) is number
``start + row_step * i + column_step * j`` of it."""


@kernel
def matrix_at(start, columns):
    """Return the matrix at an offset whose rows have ``columns`` numbers."""
    return Matrix(start, columns, 1)


@kernel
def matrix(r, field):
    """Return the matrix in a field whose rows have nv numbers."""
    return matrix_at(offset(r, field), nv(r))


@kernel
def matrix_of_width(r, field, columns):
    """Return the matrix in a field whose rows have ``columns`` numbers."""
    return matrix_at(offset(r, field), columns)


@kernel
def matrix_row(r, field, i, rows, columns):
    """Return row i of a field, a matrix of ``rows`` x ``columns``."""
    return matrix_at(offset(r, field) + rows * columns * i, columns)


@kernel
def columns_from(A, k):
    """Return the columns of A from column k on."""
    return Matrix(A.start + A.column_step * k, A.row_step, A.column_step)


@kernel
def matrix_transpose(A):
    """Return A', a view of the same numbers."""
    return Matrix(A.start, A.column_step, A.row_step)


@kernel
def element(r, A, i, j):
    """Return A[i, j]."""
    return load(r.work, A.start + A.row_step * i + A.column_step * j)


@kernel
def set_element(r, A, i, j, x):
    """Set A[i, j]."""
    store(r.work, A.start + A.row_step * i + A.column_step * j, x)


@kernel
def add_to_element(r, A, i, j, x):
    """Add x to A[i, j]."""
    increase(r.work, A.start + A.row_step * i + A.column_step * j, x)


@kernel
def set_elements3(r, A, i, j, x):
    """Set A[i, j], A[i, j + 1] and A[i, j + 2] to three numbers, in a row without gaps."""
    store3(r.work, A.start + A.row_step * i + j, x)


@kernel
def elements3(r, A, i, j):
    """Return A[i, j], A[i, j + 1] and A[i, j + 2], in a row without gaps."""
    return load3(r.work, A.start + A.row_step * i + j)


@kernel
def elements4(r, A, i, j):
    """Return A[i, j] to A[i, j + 3]."""
    return (
        element(r, A, i, j),
        element(r, A, i, j + 1),
        element(r, A, i, j + 2),
        element(r, A, i, j + 3),
    )


@kernel
def elements6(r, A, i, j):
    """Return A[i, j] to A[i, j + 5]."""
    return elements4(r, A, i, j) + (element(r, A, i, j + 4), element(r, A, i, j + 5))


@kernel
def elements8(r, A, i, j):
    """Return A[i, j] to A[i, j + 7]."""
    return elements4(r, A, i, j) + elements4(r, A, i, j + 4)


@kernel
def elements9(r, A, i, j):
    """Return nine numbers from A[i, j] on, a 3 x 3 matrix, in rows without gaps."""
    return load9(r.work, A.start + A.row_step * i + j)


@kernel
def set_elements9(r, A, i, j, R):
    """Set nine numbers from A[i, j] on to a 3 x 3 matrix, in rows without gaps."""
    store9(r.work, A.start + A.row_step * i + j, R)


@kernel
def elements(r, A, i, j, count):
    """Return the SIMD vector of the next ``simd_width`` numbers from A[i, j] on.

    At most ``count`` numbers are loaded; the rest of the vector is zero. Elements of a row must be
    adjacent.
    """
    return load_simd(r.work, A.start + A.row_step * i + j, count)


@kernel
def set_elements(r, A, i, j, count, x):
    """Set at most ``count`` numbers from A[i, j] on, in a row without gaps, to a SIMD vector."""
    store_simd(r.work, A.start + A.row_step * i + j, count, x)


@kernel
def add_to_elements(r, A, i, j, count, x):
    """Add a SIMD vector to at most ``count`` numbers from A[i, j] on, in a row without gaps."""
    k = A.start + A.row_step * i + j
    store_simd(r.work, k, count, load_simd(r.work, k, count) + x)


@kernel
def accumulate_inertia(r, A, i, j, Y):
    """Set ten numbers from A[i, j] on to an inertia, or add it if mimic joints share velocities."""
    k = A.start + A.row_step * i + j
    if has_mimic_joints(r):
        Y = inertia_add(load_inertia(r.work, k), Y)
    store_inertia(r.work, k, Y)


@kernel
def accumulate_element(r, A, i, j, x):
    """Set A[i, j] to x, or add x if mimic joints share velocities."""
    k = A.start + A.row_step * i + A.column_step * j
    if has_mimic_joints(r):
        x = x + load(r.work, k)
    store(r.work, k, x)
