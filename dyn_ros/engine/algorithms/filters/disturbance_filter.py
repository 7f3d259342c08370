# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""A Kalman filter of the generalized momentum and the external efforts.

Wahrburg et al. (2018). The state consists of the momentum p and the external efforts d, which walk
at random:

    dp/dt = u + d,    dd/dt = noise,    u = tau + C' v - g - friction

Measured are M v, whose noise has the covariance M R M' if R is that of the velocities. The noise
of the efforts is white from sample to sample, so that a step of length h adds its variance times
h^2 to that of p. For the covariance, L is the Cholesky factor of that of M v less its prediction.
"""

from typing import Any

from ...kernel.vocabulary import *
from ...machine_code.compiler import Entry

EFFORT_VARIANCE, DRIFT_VARIANCE, VELOCITY_VARIANCE = range(3)  # rows of n settings
EXTERNAL, MOMENTUM, KNOWN_EFFORT = range(3)  # rows of n numbers of the memory
MEMORY = 3  # rows
PP, PD, DD = range(3)  # blocks (n, n) of the covariance of p and d
BLOCKS = 3
FACTOR, SCALED_PP, SCALED_PD, SCALED_ERROR = range(4)  # scratch: L, and L^-1 times blocks and error
SCRATCH = 4  # matrices


# --- matrices and rows at an address


@kernel
def row_of(address, row, n):
    """Return row ``row`` of a matrix with rows of n numbers."""
    return floats_at(address + 8 * row * n)


@kernel
def block_of(address, block, n):
    """Return a block, an (n, n) matrix, of those that follow each other from an address on."""
    return floats_at(address + 8 * block * n * n)


@kernel
def element_of(A, n, i, j):
    """Return A[i, j] of a matrix with n columns."""
    return load(A, i * n + j)


@kernel
def set_element_of(A, n, i, j, x):
    """Set A[i, j] of a matrix with n columns."""
    store(A, i * n + j, x)


@kernel
def add_to_element_of(A, n, i, j, x):
    """Add x to A[i, j] of a matrix with n columns."""
    store(A, i * n + j, load(A, i * n + j) + x)


# --- the filter


@kernel
def measurement_covariance(M, variance, n, i, j):
    """Return entry i, j of M R M'."""
    total = 0.0
    for k in range(n):
        total = total + element_of(M, n, i, k) * load(variance, k) * element_of(M, n, j, k)
    return total


@kernel
def start_covariance(M, settings, P, n):
    """Store the covariance of the first measurement.

    The external efforts are those after a second of a random walk from zero.
    """
    drift, variance = row_of(settings, DRIFT_VARIANCE, n), row_of(settings, VELOCITY_VARIANCE, n)
    Ppp, Ppd, Pdd = block_of(P, PP, n), block_of(P, PD, n), block_of(P, DD, n)
    for i in range(n):
        for j in range(n):
            set_element_of(Ppp, n, i, j, measurement_covariance(M, variance, n, i, j))
            set_element_of(Ppd, n, i, j, 0.0)
            set_element_of(Pdd, n, i, j, 0.0)
        set_element_of(Pdd, n, i, i, load(drift, i))


@kernel
def predict_covariance(settings, P, h, n):
    """Advance the covariance of momentum and external efforts by a step h.

        P = F P F' + Q,  F = [1 h; 0 1]

    Q is the covariance of the noise that the step adds.
    """
    Ppp, Ppd, Pdd = block_of(P, PP, n), block_of(P, PD, n), block_of(P, DD, n)
    for i in range(n):
        for j in range(i + 1):
            total = (
                element_of(Ppp, n, i, j)
                + h * (element_of(Ppd, n, i, j) + element_of(Ppd, n, j, i))
                + h * h * element_of(Pdd, n, i, j)
            )
            set_element_of(Ppp, n, i, j, total)
            set_element_of(Ppp, n, j, i, total)
    for k in range(n * n):
        store(Ppd, k, load(Ppd, k) + h * load(Pdd, k))
    for i in range(n):
        effort = load(row_of(settings, EFFORT_VARIANCE, n), i)
        drift = load(row_of(settings, DRIFT_VARIANCE, n), i)
        add_to_element_of(Ppp, n, i, i, h * h * (effort + drift * h / 3.0))
        add_to_element_of(Ppd, n, i, i, 0.5 * drift * h * h)
        add_to_element_of(Pdd, n, i, i, drift * h)


@kernel
def factorize_covariance(M, variance, P, L, n):
    """Store L, with L L' = P + M R M'; P is the covariance of the momentum."""
    for i in range(n):
        for j in range(i + 1):
            total = element_of(P, n, i, j) + measurement_covariance(M, variance, n, i, j)
            for k in range(j):
                total = total - element_of(L, n, i, k) * element_of(L, n, j, k)
            if i == j:
                set_element_of(L, n, i, i, sqrt(total))
            else:
                set_element_of(L, n, i, j, total / element_of(L, n, j, j))


@kernel
def solve_lower(L, x, columns, n):
    """Replace x, n rows of ``columns`` numbers, with L^-1 x."""
    for i in range(n):
        for k in range(i):
            L_ik = element_of(L, n, i, k)
            for c in range(columns):
                x_ic = element_of(x, columns, i, c) - L_ik * element_of(x, columns, k, c)
                set_element_of(x, columns, i, c, x_ic)
        inverse_pivot = 1.0 / element_of(L, n, i, i)
        for c in range(columns):
            set_element_of(x, columns, i, c, inverse_pivot * element_of(x, columns, i, c))


@kernel
def subtract_products(target, A, B, n):
    """Subtract A' B from the target."""
    for k in range(n):
        for i in range(n):
            A_ki = element_of(A, n, k, i)
            for j in range(n):
                x = element_of(target, n, i, j) - A_ki * element_of(B, n, k, j)
                set_element_of(target, n, i, j, x)


@kernel
def make_symmetric(target, n):
    """Copy the lower triangle of a matrix to the upper one."""
    for i in range(n):
        for j in range(i):
            set_element_of(target, n, j, i, element_of(target, n, i, j))


@kernel
def correct_estimate(M, settings, memory, P, scratch, p, n):
    """Apply a measurement p of the momentum to the estimate and its covariance.

    L L' = P_pp + M R M',  z = L^-1 (p - p_estimated)
    W1 = L^-1 P_pp,  W2 = L^-1 P_pd
    p_estimated = p_estimated + W1' z,  d = d + W2' z
    P_pp = P_pp - W1' W1,  P_pd = P_pd - W1' W2,  P_dd = P_dd - W2' W2
    """
    Ppp, Ppd, Pdd = block_of(P, PP, n), block_of(P, PD, n), block_of(P, DD, n)
    L, z = block_of(scratch, FACTOR, n), block_of(scratch, SCALED_ERROR, n)
    W1, W2 = block_of(scratch, SCALED_PP, n), block_of(scratch, SCALED_PD, n)
    external, momentum = row_of(memory, EXTERNAL, n), row_of(memory, MOMENTUM, n)
    factorize_covariance(M, row_of(settings, VELOCITY_VARIANCE, n), Ppp, L, n)
    for k in range(n * n):
        store(W1, k, load(Ppp, k))
        store(W2, k, load(Ppd, k))
    for k in range(n):
        store(z, k, load(p, k) - load(momentum, k))
    solve_lower(L, W1, n, n)
    solve_lower(L, W2, n, n)
    solve_lower(L, z, 1, n)
    for i in range(n):
        for k in range(n):
            store(momentum, k, load(momentum, k) + element_of(W1, n, i, k) * load(z, i))
            store(external, k, load(external, k) + element_of(W2, n, i, k) * load(z, i))
    subtract_products(Ppp, W1, W1, n)
    subtract_products(Ppd, W1, W2, n)
    subtract_products(Pdd, W2, W2, n)
    make_symmetric(Ppp, n)
    make_symmetric(Pdd, n)


@kernel
def predict_estimate(memory, effort, P, settings, h, n):
    """Advance the estimate and its covariance by a step h.

    p = p + h ((u_0 + u_1) / 2 + d)
    """
    external, momentum = row_of(memory, EXTERNAL, n), row_of(memory, MOMENTUM, n)
    for k in range(n):
        mean = 0.5 * (load(row_of(memory, KNOWN_EFFORT, n), k) + load(effort, k))
        store(momentum, k, load(momentum, k) + h * (mean + load(external, k)))
    predict_covariance(settings, P, h, n)


def filter_samples(
    p: int,
    efforts: int,
    M: int,
    M_stride: int,
    dt: Any,
    dt_stride: int,
    settings: int,
    memory: int,
    P: int,
    scratch: int,
    external: Any,
    n: int,
    count: int,
    starts: int,
) -> int:
    """Compute the estimate of each sample, in order, in ``external``.

    M_stride is the distance of two matrices [bytes]. dt_stride is 0 for one length of all steps, 1
    for one for each sample. ``starts``: the first sample is the first of all.
    """
    dt, external = floats_at(dt), floats_at(external)
    for row in range(count):
        M1 = floats_at(M + row * M_stride)
        p1, effort = row_of(p, row, n), row_of(efforts, row, n)
        if starts == 1 and row == 0:
            for k in range(n):
                store(row_of(memory, MOMENTUM, n), k, load(p1, k))
            start_covariance(M1, settings, P, n)
        else:
            predict_estimate(memory, effort, P, settings, dt[row * dt_stride], n)
            correct_estimate(M1, settings, memory, P, scratch, p1, n)
        for k in range(n):
            store(row_of(memory, KNOWN_EFFORT, n), k, load(effort, k))
            external[row * n + k] = load(row_of(memory, EXTERNAL, n), k)
    return 0


FILTER = Entry("momentum_observer-kalman", filter_samples, "ppqqpqpppppqqq")
