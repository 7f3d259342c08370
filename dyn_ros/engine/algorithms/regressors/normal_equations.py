# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Normal equations of the inertial parameters, summed over the states of a batch.

For each velocity, they are sums over the states of products of [w, features, torque] with itself,
with w a row of the torque regressor; only those of bodies that the velocity moves are not zero.

A row of each state is computed in the lanes of ``LANES`` states. The tile of these states and as
many columns is transposed, so that a vector holds columns of one state instead. Vectors of sums
are then loaded and stored once for ``LANES`` states.
"""

from __future__ import annotations

import functools
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...call.algorithm import algorithm, public
from ...call.data import Data
from ...kernel.types import Array, ArrayLike
from ...kernel.validation import require_entries, require_model, valid_array
from ...kernel.vocabulary import *
from ...model.model import Model
from ..dynamics.crba import joint_subtree_end
from .torque import parameter_columns, place_universe_with_gravity

NFEATURES = 7  # a vector of SIMD_WIDTH numbers holds them and the torque

FEATURES = field("_features", ("nv", NFEATURES))
ROW_WEIGHTS = field("_row_weights", ("nv",))
# A row for each velocity: columns of all bodies, zeros up to a multiple of SIMD_WIDTH, features,
# torque
EQUATIONS = field("_equations", ("nv", "regression"), zeros=True)
WEIGHT = field("_weight", (1,))  # weight of the current row; zero in padding lanes
WEIGHTED_ROW_TILE = field("_weighted_row_tile", (SIMD_WIDTH,))
ROW_BY_STATES = field("_row_by_states", ("regression",))
PRODUCTS = field(
    "_products",
    ("nv", "regression", "regression"),
    "Sums of products of the columns, in and above the diagonal blocks.",
    summed=True,
)


# --- the rows


@kernel
def row_length(r):
    """Return the length of a row of equations."""
    blocks = (10 * njoints(r) + SIMD_WIDTH - 1) // SIMD_WIDTH
    return blocks * SIMD_WIDTH + SIMD_WIDTH


@kernel
def equation_rows(r):
    """Return the rows of equations, a matrix with a row for each velocity."""
    return matrix_of_width(r, EQUATIONS, row_length(r))


@kernel
def first_feature(r):
    """Return the column of the first feature in a row of equations."""
    return row_length(r) - SIMD_WIDTH


@kernel
def store_features(r, k):
    """Store the features and the torque of velocity k behind the columns of bodies.

    Reads TAU_IN, FEATURES; writes EQUATIONS.
    """
    rows, start = equation_rows(r), first_feature(r)
    features = matrix_of_width(r, FEATURES, NFEATURES)
    for n in range(NFEATURES):
        set_element(r, rows, k, start + n, element(r, features, k, n))
    set_element(r, rows, k, start + NFEATURES, entry(r, TAU_IN, k))


@kernel
def store_weight(r, k):
    """Store the weight of the row of velocity k. Reads ROW_WEIGHTS; writes WEIGHT."""
    set_entry(r, WEIGHT, 0, 1.0)
    if has_input(r, ROW_WEIGHTS):
        set_entry(r, WEIGHT, 0, entry(r, ROW_WEIGHTS, k))
    clear_padding(r, WEIGHT, 0)


@kernel
def bodies_moved(r, k):
    """Return the first body that velocity k moves, and the end of the bodies; mimics leave gaps."""
    first, end = njoints(r) + 1, 0
    for i in range(1, njoints(r) + 1):
        if idx_v(r, i) <= k and k < idx_v(r, i) + ncolumns(r, i):
            first, end = min(first, i), max(end, joint_subtree_end(r, i))
    return first, end


# --- one state


@kernel
def add_products(r, k, i, start, end):
    """Add the products of column i with columns start to end of row k.

        PRODUCTS_kij = PRODUCTS_kij + weight y_ki y_kj

    Reads EQUATIONS, WEIGHT; writes PRODUCTS.
    """
    rows = equation_rows(r)
    sums = matrix_row(r, PRODUCTS, k, row_length(r), row_length(r))
    x = entry(r, WEIGHT, 0) * element(r, rows, k, i)
    for j in range(start, end):
        add_to_element(r, sums, i, j, x * element(r, rows, k, j))


@kernel
def add_row_products(r, k, start, end):
    """Add the products of the row of velocity k, for one state.

        W'W = W'W + w y_k y_k'

    Reads EQUATIONS, WEIGHT; writes PRODUCTS.
    """
    for i in range(start, end):
        add_products(r, k, i, i, end)
        add_products(r, k, i, first_feature(r), row_length(r))
    for i in range(first_feature(r), row_length(r)):
        add_products(r, k, i, i, row_length(r))


# --- lanes


@kernel
def transpose_block(r, k, n):
    """Multiply block n of LANES columns of row k by its weight, and transpose it.

        ROW_BY_STATES: a column of each state in place of a state of each column

    Reads EQUATIONS, WEIGHT; writes WEIGHTED_ROW_TILE, ROW_BY_STATES.
    """
    weight = entry(r, WEIGHT, 0)
    for c in range(LANES):
        x = weight * element(r, equation_rows(r), k, LANES * n + c)
        set_entry(r, WEIGHTED_ROW_TILE, c, x)
    transpose_tile(
        r.work, offset(r, WEIGHTED_ROW_TILE), offset(r, ROW_BY_STATES) + n, row_length(r) // LANES
    )


@kernel
def four_numbers(r, place, lane):
    """Return number ``place`` of the workspace in four lanes. Reads place."""
    return (
        load_lane(r.work, place, lane),
        load_lane(r.work, place, lane + 1),
        load_lane(r.work, place, lane + 2),
        load_lane(r.work, place, lane + 3),
    )


@kernel
def eight_numbers(r, place, lane):
    """Return number ``place`` of the workspace in eight lanes. Reads place."""
    return four_numbers(r, place, lane) + four_numbers(r, place, lane + 4)


numbers_of_lanes = {4: four_numbers, 8: eight_numbers}[LANES]


@kernel
def equation_of_lanes(r, k, i):
    """Return number i of row k of the equations of each state. Reads EQUATIONS."""
    return numbers_of_lanes(r, offset(r, EQUATIONS) + row_length(r) * k + i, 0)


@kernel
def add_block(r, sums, i, a, b, block):
    """Add the products of columns i and i + 1, a and b, with the columns in a block to the sums.

        sums_ij = sums_ij + sum of a_n c_nj over the states n

    Reads ROW_BY_STATES; writes sums.
    """
    columns = matrix_of_width(r, ROW_BY_STATES, row_length(r) // LANES)
    x, y = element(r, sums, i, block), element(r, sums, i + 1, block)
    for n in range(LANES):
        c = element(r, columns, n, block)
        x = x + a[n] * c
        y = y + b[n] * c
    set_element(r, sums, i, block, x)
    set_element(r, sums, i + 1, block, y)


@kernel
def add_pair(r, k, i, end):
    """Add the products of columns i and i + 1 with columns up to block ``end``, and the features.

    Reads EQUATIONS, ROW_BY_STATES; writes PRODUCTS.
    """
    blocks = row_length(r) // LANES
    sums = matrix_row(r, PRODUCTS, k, row_length(r), blocks)
    a, b = equation_of_lanes(r, k, i), equation_of_lanes(r, k, i + 1)
    for block in range(i // LANES, end):
        add_block(r, sums, i, a, b, block)
    for n in range(SIMD_WIDTH // LANES, 0, -1):
        add_block(r, sums, i, a, b, blocks - n)


@kernel
def add_lanes(r, k, start, end):
    """Add the products of row k in all lanes; start and end are blocks of ``LANES`` columns.

        W'W = W'W + sum of w y_k y_k' over the states

    Reads EQUATIONS, WEIGHT; writes WEIGHTED_ROW_TILE, ROW_BY_STATES, PRODUCTS.
    """
    features = first_feature(r) // LANES
    for n in range(start, end):
        transpose_block(r, k, n)
    for n in range(SIMD_WIDTH // LANES):
        transpose_block(r, k, features + n)
    for i in range(LANES * start, LANES * end, 2):
        add_pair(r, k, i, end)
    for i in range(LANES * features, LANES * features + NFEATURES + 1, 2):
        add_pair(r, k, i, features)


@kernel
def normal_equations_kernel(r):
    """Add the weighted normal equations of a state.

        W'W = W'W + sum of w_k y_k y_k'     y: row of the regressor, features and torque

    Reads Q, V, A, TAU_IN, FEATURES, ROW_WEIGHTS; writes WEIGHT; calls place_universe_with_gravity,
    parameter_columns, store_features, add_lanes, add_row_products.
    """
    if has_mimic_joints(r):
        clear_entries(r, EQUATIONS, size(r, EQUATIONS))
    clear_sum(r, PRODUCTS)
    place_universe_with_gravity(r)
    for i in range(1, njoints(r) + 1):
        parameter_columns(r, i, equation_rows(r))
    for k in range(nv(r)):
        store_features(r, k)
        store_weight(r, k)
        first, end = bodies_moved(r, k)
        start, stop = 10 * (first - 1), 10 * (end - 1)
        if is_batch(r):
            add_lanes(r, k, start // LANES, (stop + LANES - 1) // LANES)
        else:
            add_row_products(r, k, start, stop)


@public
class NormalEquations(NamedTuple):
    """Sums over all states, for each velocity k, where w is a row of its equations.

    Attributes
    ----------
    WW : (nv, P, P) ndarray
        Sums of w' w; P = 10 njoints + F: the parameters of all bodies, then the features. Zero for
        bodies that velocity k does not move.
    Wy : (nv, P) ndarray
        Sums of w' tau_k.
    yy : (nv,) ndarray
        Sums of tau_k^2.

    Examples
    --------
    >>> sums = dyn_ros.normal_equations(model, data, q, v, a, tau, np.zeros((7, 5)))
    >>> sums.WW.shape, sums.Wy.shape, sums.yy.shape
    ((7, 75, 75), (7, 75), (7,))
    """

    WW: Array
    Wy: Array
    yy: Array


@algorithm(
    normal_equations_kernel,
    inputs=(Q, V, A, TAU_IN, FEATURES, ROW_WEIGHTS),
    results=(PRODUCTS,),
    optional=(ROW_WEIGHTS,),
    needs_double=True,
)
def normal_equations(
    model: Model,
    data: Data,
    q: ArrayLike,
    v: ArrayLike,
    a: ArrayLike,
    tau: ArrayLike,
    features: ArrayLike,
    weights: ArrayLike | None = None,
    *,
    threads: int = 1,
) -> NormalEquations:
    """Compute normal equations of the inertial parameters, for each velocity, over all states.

    Torque k is the row of ``joint_torque_regressor`` times the inertial parameters of all bodies,
    plus the features of velocity k times further parameters of this velocity alone. The
    weighted sum of the squared residuals is ``x' WW[k] x - 2 x' Wy[k] + yy[k]``, with x these
    parameters. The sums of several batches or velocities can be added, each
    divided by the variance of its torque. The rows of the states are not stored, so that the
    memory does not depend on their number; O(B nv njoints^2).

    Parameters
    ----------
    data : Data
        Created for this model.
    tau : (nv,) or (B, nv) array_like
        Measured torques [N m, N].
    features : (nv, F) or (B, nv, F) array_like, F up to 7
        Further columns of the row of each velocity, such as a (armature), v (damping), sign(v)
        (Coulomb friction) and 1 (a constant torque); zeros for those that are not used.
    weights : (nv,) or (B, nv) array_like, optional
        Weights of the squared residuals, at least 0. Default: ones.

    Returns
    -------
    NormalEquations
        (WW, Wy, yy); new arrays without a batch axis.

    Examples
    --------
    The parameters of the model explain its own torques, so that their residual is zero:

    >>> theta = model.inertial_parameters.ravel()
    >>> tau = dyn_ros.joint_torque_regressor(model, data, q, v, a) @ theta
    >>> sums = dyn_ros.normal_equations(model, data, q, v, a, tau, np.zeros((7, 5)))
    >>> x = np.append(theta, np.zeros(5))
    >>> residual = [x @ WW @ x - 2 * x @ Wy + yy for WW, Wy, yy in zip(*sums)]
    >>> np.allclose(residual, 0.0)
    True
    """
    padded_features, count = _pad_features(features)
    sums: Array = normal_equations.call(
        model, data, threads, q, v, a, tau, padded_features, _not_negative(model, weights)
    )
    columns, pairs = _product_indices(10 * model.njoints, sums.shape[2], count)
    torque = sums.shape[2] - SIMD_WIDTH + NFEATURES
    return NormalEquations(
        sums.reshape(len(sums), -1).take(pairs, axis=1),
        sums[:, columns, torque],
        sums[:, torque, torque].copy(),
    )


@functools.lru_cache(64)
def _product_indices(
    nparameters: int, length: int, count: int
) -> tuple[NDArray[np.int_], NDArray[np.int_]]:
    """Return the indices of columns in a row of ``length`` numbers, and of their products.

    The columns are the parameters of all bodies and ``count`` features.
    """
    first = length - SIMD_WIDTH
    columns = np.r_[:nparameters, first : first + count]
    return columns, length * np.minimum.outer(columns, columns) + np.maximum.outer(columns, columns)


def assemble(WW: Array, Wy: Array, nparameters: int) -> tuple[Array, Array]:
    """Return the sums of the rows of all velocities, H (p, p) and g (p,) of all parameters.

    WW and Wy are divided by the variances of the torques. The parameters are ``nparameters`` of all
    bodies, then each feature for each velocity.
    """
    count, n = WW.shape[1] - nparameters, nparameters
    columns = n + len(WW) * np.arange(count) + np.arange(len(WW))[:, None]
    H = np.zeros((n + columns.size, n + columns.size))
    H[:n, :n] = WW[:, :n, :n].sum(axis=0)
    H[columns, :n] = WW[:, n:, :n]
    H[:n] = H[:, :n].T
    H[columns[:, :, None], columns[:, None]] = WW[:, n:, n:]
    g = np.concatenate([Wy[:, :n].sum(axis=0), Wy[:, n:].T.ravel()])
    return H, g


def _pad_features(features: ArrayLike) -> tuple[ArrayLike, int]:
    """Return features with zeros in unused columns, and the number of used columns."""
    try:
        array = np.asarray(features)
    except ValueError:  # the call rejects it
        return features, NFEATURES
    count = array.shape[-1] if array.ndim in (2, 3) else NFEATURES
    if count >= NFEATURES or array.dtype.kind not in "fiub":  # the call rejects other numbers
        return features, count
    padded = np.zeros((*array.shape[:-1], NFEATURES))
    padded[..., :count] = array
    return padded, count


def _not_negative(model: Model, weights: ArrayLike | None) -> Array | None:
    """Return weights as an array, or raise a ValueError."""
    if weights is None:
        return None
    array = valid_array(require_model(model), "weights", ("nv",), weights)
    require_entries("weights", array, array >= 0.0, "numbers of at least 0")
    return array
