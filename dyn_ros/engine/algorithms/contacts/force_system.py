# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Solution of J M^-1 J' lambda + b = 0 for the contact forces; b is the constraint residual.

Redundant contacts make the matrix singular: their forces have the least norm, or are damped.
"""

from ...kernel.vocabulary import *
from ..constrained import semidefinite
from ..constrained.constraint_forces import CONSTRAINT_RESIDUAL, COUPLING
from ..constrained.semidefinite import WIDTH
from . import contacts
from . import packed_contacts as packed

SOLVED_FORCES = field("_solved_forces", ("constraints",))
VIOLATION = field("_violation", (WIDTH,))
EIGENVALUE_TOLERANCE = 1e-12
"""Eigenvalues up to this fraction of the largest are rounding errors; see ``is_regular``."""


@kernel
def largest_violation(r, forces):
    """Return the largest violation of a row; NaN if one is NaN.

        max |J M^-1 J' lambda + b|          b: the constraint residual

    Reads CONSTRAINT_RESIDUAL, COUPLING, SOLUTION, forces; writes VIOLATION.
    """
    m, largest = nconstraints(r), lift(0.0, entry(r, packed.SOLUTION, 0))
    G = matrix_of_width(r, COUPLING, WIDTH)
    for k in range(0, m, simd_width(r.work)):
        x = entries(r, CONSTRAINT_RESIDUAL, k, m - k)
        for i in range(m):
            x = x + entry(r, forces, i) * elements(r, G, i, k, SIMD_WIDTH)
        set_entries(r, VIOLATION, k, SIMD_WIDTH, x)
    total = largest
    for k in range(m):
        x = fabs(entry(r, VIOLATION, k))
        total = total + x
        largest = select_above(x, largest, x, largest)
    return largest + 0.0 * total


@kernel
def set_right_side(r, x):
    """Set field x to the right side of the system, -b. Reads CONSTRAINT_RESIDUAL; writes x."""
    for k in range(nconstraints(r)):
        set_entry(r, x, k, -entry(r, CONSTRAINT_RESIDUAL, k))


@kernel
def store_solution(r, rank, residual, iterations):
    """Store the rank, the largest violation and the number of iterations. Writes SOLUTION."""
    set_entry(r, packed.SOLUTION, contacts.RANK, rank)
    set_entry(r, packed.SOLUTION, contacts.RESIDUAL, residual)
    set_entry(r, packed.SOLUTION, contacts.ITERATIONS, iterations)


@kernel
def solve_least_norm(r, forces):
    """Compute the forces of least norm among those with the least violation.

        lambda = -(J M^-1 J')^+ b           b: the constraint residual

    Reads CONSTRAINT_RESIDUAL, COUPLING; writes FACTOR, FACTOR_INVERSE, INVERSE_PIVOTS, RIGHT_SIDE,
    TRACE_WEIGHTS, SOLUTION, VIOLATION, forces.
    """
    set_right_side(r, forces)
    rank = semidefinite.solve_scaled(r, nconstraints(r), COUPLING, forces, EIGENVALUE_TOLERANCE)
    store_solution(r, rank, largest_violation(r, forces), 1.0)


@kernel
def damping_above_rounding(r):
    """Return the damping, but at least the rounding errors of G = J M^-1 J'.

        mu = max(damping, EIGENVALUE_TOLERANCE trace(G))

    Reads COUPLING.
    """
    G, trace = matrix_of_width(r, COUPLING, WIDTH), lift(0.0, entry(r, COUPLING, 0))
    for k in range(nconstraints(r)):
        trace = trace + element(r, G, k, k)
    mu, rounding = packed.contact_damping(r), EIGENVALUE_TOLERANCE * trace
    return select_above(mu, rounding, mu, rounding)


@kernel
def run_proximal_iteration(r, forces, previous, n):
    """Run proximal iteration n (from 0) of the states that have not converged.

        (J M^-1 J' + mu I) lambda = mu lambda_previous - b      Parikh and Boyd (2014), 4.1

    Reads FACTOR, INVERSE_PIVOTS, CONSTRAINT_RESIDUAL, COUPLING; writes RIGHT_SIDE, SOLUTION,
    SOLVED_FORCES, VIOLATION, forces, previous.
    """
    m, mu = nconstraints(r), damping_above_rounding(r)
    set_right_side(r, SOLVED_FORCES)
    for k in range(m):
        add_to_entry(r, SOLVED_FORCES, k, mu * entry(r, forces, k))
    semidefinite.solve_factored(r, m, SOLVED_FORCES)
    residual = entry(r, packed.SOLUTION, contacts.RESIDUAL)
    target = packed.packed_float(r, packed.TARGET_RESIDUAL)
    for k in range(m):
        x, x_new, x_previous = (
            entry(r, forces, k),
            entry(r, SOLVED_FORCES, k),
            entry(r, previous, k),
        )
        set_entry(r, previous, k, select_above(residual, target, x, x_previous))
        set_entry(r, forces, k, select_above(residual, target, x_new, x))
    iterations = entry(r, packed.SOLUTION, contacts.ITERATIONS)
    set_entry(
        r,
        packed.SOLUTION,
        contacts.ITERATIONS,
        select_above(residual, target, n + 1.0, iterations),
    )
    set_entry(r, packed.SOLUTION, contacts.RESIDUAL, largest_violation(r, forces))


@kernel
def solve_damped(r, forces, previous):
    """Compute the forces with damping; further proximal iterations approach those without.

        (J M^-1 J' + mu I) lambda = -b

    Reads CONSTRAINT_RESIDUAL, COUPLING; writes FACTOR, FACTOR_INVERSE, INVERSE_PIVOTS, RIGHT_SIDE,
    TRACE_WEIGHTS, SOLUTION, SOLVED_FORCES, VIOLATION, forces, previous.
    """
    m, target = nconstraints(r), packed.packed_float(r, packed.TARGET_RESIDUAL)
    rank = semidefinite.numerical_rank(r, m, COUPLING, EIGENVALUE_TOLERANCE)
    store_solution(r, rank, target + 1.0, 0.0)
    semidefinite.factor_semidefinite(r, m, COUPLING, damping_above_rounding(r))
    for k in range(m):
        set_entry(r, forces, k, 0.0)
        set_entry(r, previous, k, 0.0)
    for n in range(packed.packed_integer(r, packed.MAX_ITERATIONS)):
        run_proximal_iteration(r, forces, previous, n)
        residual = entry(r, packed.SOLUTION, contacts.RESIDUAL)
        if all_above(target, residual):
            return


@subroutine
def solve_forces(r, forces, previous):
    """Set two fields to the forces of contacts, and to those before the last iteration.

        J M^-1 J' lambda + b = 0            b: the constraint residual

    Reads CONSTRAINT_RESIDUAL, COUPLING; writes FACTOR, FACTOR_INVERSE, INVERSE_PIVOTS, RIGHT_SIDE,
    TRACE_WEIGHTS, SOLUTION, SOLVED_FORCES, VIOLATION, forces, previous.
    """
    if packed.contact_damping(r) > 0.0:
        solve_damped(r, forces, previous)
    else:
        for k in range(nconstraints(r)):
            set_entry(r, previous, k, 0.0)
        solve_least_norm(r, forces)
