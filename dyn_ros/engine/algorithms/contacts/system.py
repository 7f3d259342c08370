# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The system of contact forces, J M^-1 J' lambda + excess = 0, and what redundant contacts do."""

from ...kernel.vocabulary import *
from ..constrained import semidefinite
from ..constrained.constraint_forces import COUPLING, EXCESS
from . import contacts, packed

STEP = field("_step", ("constraints",))
VIOLATION = field("_violation", (semidefinite.WIDTH,))
TOLERANCE = 1e-12
"""Eigenvalues up to this fraction of the largest are rounding errors; see ``is_regular``."""


@kernel
def largest_violation(r, forces):
    """Return the largest entry of J M^-1 J' lambda + excess.

    Reads EXCESS, COUPLING, SOLUTION, forces; writes VIOLATION.
    """
    m, largest = nconstraints(r), lift(0.0, entry(r, packed.SOLUTION, 0))
    for k in range(0, m, simd_width(r.work)):
        x = load_simd(r.work, offset(r, EXCESS) + k, m - k)
        for i in range(m):
            x = x + load(r.work, forces + i) * load_simd(
                r.work, offset(r, COUPLING) + semidefinite.WIDTH * i + k, SIMD_WIDTH
            )
        store_simd(r.work, offset(r, VIOLATION) + k, SIMD_WIDTH, x)
    total = largest
    for k in range(m):
        x = semidefinite.absolute(entry(r, VIOLATION, k))
        total = total + x
        largest = select_above(x, largest, x, largest)
    return largest + 0.0 * total  # NaN if a violation is


@kernel
def store_wanted(r, x):
    """Set the numbers at offset x to minus the excess. Reads EXCESS; writes x."""
    for k in range(nconstraints(r)):
        store(r.work, x + k, -entry(r, EXCESS, k))


@kernel
def report(r, rank, residual, iterations):
    """Store rank, residual and number of iterations. Writes SOLUTION."""
    set_entry(r, packed.SOLUTION, contacts.RANK, rank)
    set_entry(r, packed.SOLUTION, contacts.RESIDUAL, residual)
    set_entry(r, packed.SOLUTION, contacts.ITERATIONS, iterations)


@kernel
def solve_least_norm(r, forces):
    """Compute the forces of least norm among those with the least violation.

    Reads EXCESS, COUPLING; writes FACTOR, INVERSE, PIVOTS, RIGHT, WEIGHTS, SOLUTION, VIOLATION,
    forces.
    """
    store_wanted(r, forces)
    rank = semidefinite.solve_scaled(r, nconstraints(r), offset(r, COUPLING), forces, TOLERANCE)
    report(r, rank, largest_violation(r, forces), 1.0)


@kernel
def damping_above_rounding(r):
    """Return the damping, but at least the rounding errors of J M^-1 J'. Reads COUPLING."""
    trace = lift(0.0, entry(r, COUPLING, 0))
    for k in range(nconstraints(r)):
        trace = trace + load(r.work, offset(r, COUPLING) + (semidefinite.WIDTH + 1) * k)
    return select_above(packed.damping(r), TOLERANCE * trace, packed.damping(r), TOLERANCE * trace)


@kernel
def iterate(r, forces, previous, n):
    """Run one proximal iteration of states not yet converged.

        (J M^-1 J' + mu I) lambda = mu lambda_previous - excess     Parikh and Boyd (2014), 4.1

    Reads FACTOR, PIVOTS, EXCESS, COUPLING; writes RIGHT, SOLUTION, STEP, VIOLATION, forces,
    previous.
    """
    m, step = nconstraints(r), offset(r, STEP)
    mu = damping_above_rounding(r)
    store_wanted(r, step)
    for k in range(m):
        store(r.work, step + k, load(r.work, step + k) + mu * load(r.work, forces + k))
    semidefinite.solve_factored(r, m, step)
    residual = entry(r, packed.SOLUTION, contacts.RESIDUAL)
    wanted = packed.setting(r, packed.TARGET_RESIDUAL)
    for k in range(m):
        old, new, older = (
            load(r.work, forces + k),
            load(r.work, step + k),
            load(r.work, previous + k),
        )
        store(r.work, previous + k, select_above(residual, wanted, old, older))
        store(r.work, forces + k, select_above(residual, wanted, new, old))
    set_entry(
        r,
        packed.SOLUTION,
        contacts.ITERATIONS,
        select_above(residual, wanted, n + 1.0, entry(r, packed.SOLUTION, contacts.ITERATIONS)),
    )
    set_entry(r, packed.SOLUTION, contacts.RESIDUAL, largest_violation(r, forces))


@kernel
def solve_damped(r, forces, previous):
    """Compute damped forces; further iterations approach those without damping.

    Reads EXCESS, COUPLING; writes FACTOR, INVERSE, PIVOTS, RIGHT, WEIGHTS, SOLUTION, STEP,
    VIOLATION, forces, previous.
    """
    wanted = packed.setting(r, packed.TARGET_RESIDUAL)
    report(
        r,
        semidefinite.rank_of(r, nconstraints(r), offset(r, COUPLING), TOLERANCE),
        wanted + 1.0,
        0.0,
    )
    semidefinite.factor_semidefinite(
        r, nconstraints(r), offset(r, COUPLING), damping_above_rounding(r)
    )
    for k in range(nconstraints(r)):
        store(r.work, forces + k, 0.0)
        store(r.work, previous + k, 0.0)
    for n in range(packed.integer(r, packed.MAX_ITERATIONS)):
        iterate(r, forces, previous, n)
        residual = entry(r, packed.SOLUTION, contacts.RESIDUAL)
        if all_above(wanted, residual):
            return


@subroutine
def solve_forces(r, forces, previous):
    """Compute the forces of contacts, and those before the last iteration.

    Reads EXCESS, COUPLING; writes FACTOR, INVERSE, PIVOTS, RIGHT, WEIGHTS, SOLUTION, STEP,
    VIOLATION, forces, previous.
    """
    if packed.damping(r) > 0.0:
        solve_damped(r, forces, previous)
    else:
        for k in range(nconstraints(r)):
            store(r.work, previous + k, 0.0)
        solve_least_norm(r, forces)
