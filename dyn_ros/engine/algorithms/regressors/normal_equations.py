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
from ..dynamics.crba import subtree_end
from .torque import parameter_columns, set_falling_root

NFEATURES = 7  # a vector of SIMD_WIDTH numbers holds them and the torque

FEATURES = field("_features", ("nv", NFEATURES))
ROW_WEIGHTS = field("_row_weights", ("nv",))
# A row per velocity: columns of all bodies, zeros up to a multiple of SIMD_WIDTH, features, torque
EQUATIONS = field("_equations", ("nv", "regression"), zeros=True)
WEIGHT = field("_weight", (1,))  # weight of the current row; zero in padding lanes
WEIGHTED_ROW_TILE = field("_weighted", (SIMD_WIDTH,))
ROW_BY_STATES = field("_equations_by_state", ("regression",))
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
def first_feature(r):
    """Return the column of the first feature in a row of equations."""
    return row_length(r) - SIMD_WIDTH


@kernel
def store_features(r, k):
    """Store the features and the torque of velocity k behind the columns of bodies.

    Reads TAU_IN, FEATURES; writes EQUATIONS.
    """
    start = offset(r, EQUATIONS) + row_length(r) * k + first_feature(r)
    for n in range(NFEATURES):
        store(r.work, start + n, load(r.work, offset(r, FEATURES) + NFEATURES * k + n))
    store(r.work, start + NFEATURES, entry(r, TAU_IN, k))


@kernel
def store_weight(r, k):
    """Store the weight of the row of velocity k. Reads ROW_WEIGHTS; writes WEIGHT."""
    set_entry(r, WEIGHT, 0, 1.0)
    if has_input(r, ROW_WEIGHTS):
        set_entry(r, WEIGHT, 0, entry(r, ROW_WEIGHTS, k))
    clear_padding(r, offset(r, WEIGHT))


@kernel
def bodies_moved(r, k):
    """The first body that velocity k moves, and the one after the last; mimics leave gaps."""
    first, end = njoints(r) + 1, 0
    for i in range(1, njoints(r) + 1):
        if idx_v(r, i) <= k and k < idx_v(r, i) + ncolumns(r, i):
            first, end = min(first, i), max(end, subtree_end(r, i))
    return first, end


# --- one state


@kernel
def add_products(r, k, i, start, end):
    """Add the products of column i with columns start to end of row k.

    Reads EQUATIONS, WEIGHT; writes PRODUCTS.
    """
    row = offset(r, EQUATIONS) + row_length(r) * k
    sums = offset(r, PRODUCTS) + row_length(r) * (row_length(r) * k + i)
    x = entry(r, WEIGHT, 0) * load(r.work, row + i)
    for j in range(start, end):
        increase(r.work, sums + j, x * load(r.work, row + j))


@kernel
def add_row(r, k, start, end):
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
    """Multiply columns LANES n ... of row k by its weight, and transpose them.

    Reads EQUATIONS, WEIGHT; writes WEIGHTED_ROW_TILE.
    """
    row = offset(r, EQUATIONS) + row_length(r) * k + LANES * n
    weight = entry(r, WEIGHT, 0)
    for c in range(LANES):
        set_entry(r, WEIGHTED_ROW_TILE, c, weight * load(r.work, row + c))
    transpose_tile(
        r.work, offset(r, WEIGHTED_ROW_TILE), offset(r, ROW_BY_STATES) + n, row_length(r) // LANES
    )


@kernel
def four_numbers(r, k, lane):
    """Return four numbers of a lane."""
    return (
        load_lane(r.work, k, lane),
        load_lane(r.work, k, lane + 1),
        load_lane(r.work, k, lane + 2),
        load_lane(r.work, k, lane + 3),
    )


@kernel
def eight_numbers(r, k, lane):
    """Return eight numbers of a lane."""
    return four_numbers(r, k, lane) + four_numbers(r, k, lane + 4)


numbers = {4: four_numbers, 8: eight_numbers}[LANES]


@kernel
def add_block(r, sums, a, b, block, blocks):
    """Add the products of columns a and b with the columns in a block to vectors of sums.

    Reads ROW_BY_STATES; writes block, blocks, sums.
    """
    t = offset(r, ROW_BY_STATES) + block
    x, y = load(r.work, sums + block), load(r.work, sums + blocks + block)
    for n in range(LANES):
        c = load(r.work, t + blocks * n)
        x = x + a[n] * c
        y = y + b[n] * c
    store(r.work, sums + block, x)
    store(r.work, sums + blocks + block, y)


@kernel
def add_pair(r, k, i, end):
    """Add the products of columns i and i + 1 with those up to block ``end``, and the features.

    Reads ROW_BY_STATES; writes PRODUCTS.
    """
    blocks = row_length(r) // LANES
    column = offset(r, EQUATIONS) + row_length(r) * k + i
    sums = offset(r, PRODUCTS) + blocks * (row_length(r) * k + i)
    a, b = numbers(r, column, 0), numbers(r, column + 1, 0)
    for block in range(i // LANES, end):
        add_block(r, sums, a, b, block, blocks)
    for n in range(SIMD_WIDTH // LANES, 0, -1):
        add_block(r, sums, a, b, blocks - n, blocks)


@kernel
def add_lanes(r, k, start, end):
    """Add the products of row k in all lanes; start and end are blocks of ``LANES`` columns.

    Reads EQUATIONS, WEIGHT, ROW_BY_STATES; writes WEIGHTED_ROW_TILE, PRODUCTS.
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

    Reads ROW_WEIGHTS; writes WEIGHT; calls set_falling_root, parameter_columns, store_features,
    add_lanes, add_row.
    """
    if coupled(r):
        clear_entries(r, EQUATIONS, size(r, EQUATIONS))
    clear_sum(r, PRODUCTS)
    set_falling_root(r)
    equations = matrix_of_width(r, EQUATIONS, row_length(r))
    for i in range(1, njoints(r) + 1):
        parameter_columns(r, i, equations)
    for k in range(nv(r)):
        store_features(r, k)
        store_weight(r, k)
        first, end = bodies_moved(r, k)
        start, stop = 10 * (first - 1), 10 * (end - 1)
        if is_batch(r):
            add_lanes(r, k, start // LANES, (stop + LANES - 1) // LANES)
        else:
            add_row(r, k, start, stop)


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
    further, count = _padded(features)
    sums: Array = normal_equations.call(
        model, data, threads, q, v, a, tau, further, _not_negative(model, weights)
    )
    columns, pairs = _places(10 * model.njoints, sums.shape[2], count)
    torque = sums.shape[2] - SIMD_WIDTH + NFEATURES
    return NormalEquations(
        sums.reshape(len(sums), -1).take(pairs, axis=1),
        sums[:, columns, torque],
        sums[:, torque, torque].copy(),
    )


@functools.lru_cache(64)
def _places(bodies: int, length: int, count: int) -> tuple[NDArray[np.int_], NDArray[np.int_]]:
    """Return the places in rows of a length of the columns, and of their products."""
    first = length - SIMD_WIDTH
    columns = np.r_[:bodies, first : first + count]
    return columns, length * np.minimum.outer(columns, columns) + np.maximum.outer(columns, columns)


def assembled(WW: Array, Wy: Array, bodies: int) -> tuple[Array, Array]:
    """Add sums of rows, each divided by its variance: H (p, p) and g (p,) of all parameters.

    These are the ``bodies`` parameters of all bodies, then each feature for each velocity.
    """
    count = WW.shape[1] - bodies
    columns = bodies + len(WW) * np.arange(count) + np.arange(len(WW))[:, None]
    H = np.zeros((bodies + columns.size, bodies + columns.size))
    H[:bodies, :bodies] = WW[:, :bodies, :bodies].sum(axis=0)
    H[columns, :bodies] = WW[:, bodies:, :bodies]
    H[:bodies] = H[:, :bodies].T
    H[columns[:, :, None], columns[:, None]] = WW[:, bodies:, bodies:]
    g = np.concatenate([Wy[:, :bodies].sum(axis=0), Wy[:, bodies:].T.ravel()])
    return H, g


def _padded(features: ArrayLike) -> tuple[ArrayLike, int]:
    """Features with zeros in the columns that are not used, and the number of the others."""
    try:
        array = np.asarray(features)
    except ValueError:  # rejected as other arrays are
        return features, NFEATURES
    count = array.shape[-1] if array.ndim in (2, 3) else NFEATURES
    if count >= NFEATURES:
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
