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

MEMORY = 3  # rows: external, momentum, known effort
BLOCKS = 3  # covariance of momentum, of momentum and external efforts, of external efforts
SCRATCH = 4  # matrices: L; L^-1 times the first two blocks; a column


@kernel
def measurement_covariance(M, variance, n, i, j):
    """Return entry i, j of M R M'."""
    total = 0.0
    for k in range(n):
        total = total + load(M, i * n + k) * load(variance, k) * load(M, j * n + k)
    return total


@kernel
def row_of(address, row, n):
    """Return row ``row`` of a matrix with rows of n numbers."""
    return floats_at(address + 8 * row * n)


@kernel
def start_covariance(M, settings, P, n):
    """Store the covariance of the first measurement.

    The external efforts are those after a second of a random walk from zero.
    """
    for i in range(n):
        for j in range(n):
            store(P, i * n + j, measurement_covariance(M, floats_at(settings + 16 * n), n, i, j))
            store(P, n * n + i * n + j, 0.0)
            store(P, 2 * n * n + i * n + j, 0.0)
        store(P, 2 * n * n + i * n + i, load(floats_at(settings), n + i))


@kernel
def predict_covariance(settings, P, h, n):
    """Advance the covariance of momentum and external efforts by a step h.

        P = F P F' + Q,  F = [1 h; 0 1]

    Q is the covariance of the noise that the step adds.
    """
    block = n * n
    for i in range(n):
        for j in range(i + 1):
            a, b = i * n + j, j * n + i
            total = (
                load(P, a)
                + h * (load(P, block + a) + load(P, block + b))
                + h * h * load(P, 2 * block + a)
            )
            store(P, a, total)
            store(P, b, total)
    for k in range(block):
        store(P, block + k, load(P, block + k) + h * load(P, 2 * block + k))
    for i in range(n):
        k = i * n + i
        effort, drift = load(settings, i), load(settings, n + i)
        store(P, k, load(P, k) + h * h * (effort + drift * h / 3.0))
        store(P, block + k, load(P, block + k) + 0.5 * drift * h * h)
        store(P, 2 * block + k, load(P, 2 * block + k) + drift * h)


@kernel
def factorize(M, variance, P, scratch, n):
    """Store L of P + M R M'."""
    for i in range(n):
        for j in range(i + 1):
            total = load(P, i * n + j) + measurement_covariance(M, variance, n, i, j)
            for k in range(j):
                total = total - load(scratch, i * n + k) * load(scratch, j * n + k)
            if i == j:
                store(scratch, i * n + i, sqrt(total))
            else:
                store(scratch, i * n + j, total / load(scratch, j * n + j))


@kernel
def solve_lower(scratch, x, columns, n):
    """Solve L x = x for n rows."""
    for i in range(n):
        for k in range(i):
            factor = load(scratch, i * n + k)
            for c in range(columns):
                store(
                    x, i * columns + c, load(x, i * columns + c) - factor * load(x, k * columns + c)
                )
        inverse = 1.0 / load(scratch, i * n + i)
        for c in range(columns):
            store(x, i * columns + c, inverse * load(x, i * columns + c))


@kernel
def subtract_products(target, A, B, n):
    """Subtract A' B from the target."""
    for k in range(n):
        for i in range(n):
            factor = load(A, k * n + i)
            for j in range(n):
                store(target, i * n + j, load(target, i * n + j) - factor * load(B, k * n + j))


@kernel
def make_symmetric(target, n):
    """Copy the lower triangle of a matrix to the upper one."""
    for i in range(n):
        for j in range(i):
            store(target, j * n + i, load(target, i * n + j))


@kernel
def correct(M, settings, memory, P, scratch, p, n):
    """Apply a measurement of the momentum to the estimate and its covariance."""
    block = 8 * n * n
    factorize(M, floats_at(settings + 16 * n), floats_at(P), floats_at(scratch), n)
    L = floats_at(scratch)
    W1, W2, z = (
        floats_at(scratch + block),
        floats_at(scratch + 2 * block),
        floats_at(scratch + 3 * block),
    )
    x = floats_at(memory)
    for k in range(n * n):
        store(W1, k, load(floats_at(P), k))
        store(W2, k, load(floats_at(P), n * n + k))
    for k in range(n):
        store(z, k, load(p, k) - load(x, n + k))
    solve_lower(L, W1, n, n)
    solve_lower(L, W2, n, n)
    solve_lower(L, z, 1, n)
    for i in range(n):
        for k in range(n):
            store(x, n + k, load(x, n + k) + load(W1, i * n + k) * load(z, i))
            store(x, k, load(x, k) + load(W2, i * n + k) * load(z, i))
    subtract_products(floats_at(P), W1, W1, n)
    subtract_products(floats_at(P + block), W1, W2, n)
    subtract_products(floats_at(P + 2 * block), W2, W2, n)
    make_symmetric(floats_at(P), n)
    make_symmetric(floats_at(P + 2 * block), n)


@kernel
def predict(memory, effort, P, settings, h, n):
    """Advance the estimate and its covariance by a step."""
    x = floats_at(memory)
    for k in range(n):
        mean = 0.5 * (load(x, 2 * n + k) + load(effort, k))
        store(x, n + k, load(x, n + k) + h * (mean + load(x, k)))
    predict_covariance(floats_at(settings), floats_at(P), h, n)


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
    x, dt, external = floats_at(memory), floats_at(dt), floats_at(external)
    for row in range(count):
        M1 = floats_at(M + row * M_stride)
        p1, effort = row_of(p, row, n), row_of(efforts, row, n)
        if starts == 1 and row == 0:
            for k in range(n):
                store(x, n + k, load(p1, k))
            start_covariance(M1, settings, floats_at(P), n)
        else:
            predict(memory, effort, P, settings, dt[row * dt_stride], n)
            correct(M1, settings, memory, P, scratch, p1, n)
        for k in range(n):
            store(x, 2 * n + k, load(effort, k))
            external[row * n + k] = load(x, k)
    return 0


FILTER = Entry("momentum_observer-kalman", filter_samples, "ppqqpqpppppqqq")
