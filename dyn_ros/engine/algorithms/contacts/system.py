# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The system of contact forces, J M^-1 J' lambda + excess = 0, and what redundant contacts do."""

from ...kernel import lanes as la
from ...kernel.fields import field
from ...kernel.packing import nconstraints, offset
from ...machine_code.declare import kernel, subroutine
from ..constrained import semidefinite
from ..constrained.constraint_forces import COUPLING, EXCESS
from . import contacts, packed

STEP = field("_step", ("constraints",))
VIOLATION = field("_violation", (semidefinite.WIDTH,))
TOLERANCE = 1e-12
"""Eigenvalues up to this fraction of the largest are rounding errors; see ``is_regular``."""


@kernel
def largest_violation(r, forces):
    """The largest entry of J M^-1 J' lambda + excess."""
    m, largest = nconstraints(r), la.lift(0.0, la.load(r.work, offset(r, packed.SOLUTION)))
    for k in range(0, m, la.simd_width(r.work)):
        x = la.load_simd(r.work, offset(r, EXCESS) + k, m - k)
        for i in range(m):
            x = x + la.load(r.work, forces + i) * la.load_simd(
                r.work, offset(r, COUPLING) + semidefinite.WIDTH * i + k, la.SIMD_WIDTH
            )
        la.store_simd(r.work, offset(r, VIOLATION) + k, la.SIMD_WIDTH, x)
    total = largest
    for k in range(m):
        x = semidefinite.absolute(la.load(r.work, offset(r, VIOLATION) + k))
        total = total + x
        largest = la.select_above(x, largest, x, largest)
    return largest + 0.0 * total  # NaN if a violation is


@kernel
def store_wanted(r, x):
    """x <- minus the excess."""
    for k in range(nconstraints(r)):
        la.store(r.work, x + k, -la.load(r.work, offset(r, EXCESS) + k))


@kernel
def report(r, rank, residual, iterations):
    solution = offset(r, packed.SOLUTION)
    la.store(r.work, solution + contacts.RANK, rank)
    la.store(r.work, solution + contacts.RESIDUAL, residual)
    la.store(r.work, solution + contacts.ITERATIONS, iterations)


@kernel
def solve_least_norm(r, forces):
    """The forces of least norm among those with the least violation."""
    store_wanted(r, forces)
    rank = semidefinite.solve_scaled(r, nconstraints(r), offset(r, COUPLING), forces, TOLERANCE)
    report(r, rank, largest_violation(r, forces), 1.0)


@kernel
def damping_above_rounding(r):
    """The damping, but at least the rounding errors of J M^-1 J'."""
    trace = la.lift(0.0, la.load(r.work, offset(r, COUPLING)))
    for k in range(nconstraints(r)):
        trace = trace + la.load(r.work, offset(r, COUPLING) + (semidefinite.WIDTH + 1) * k)
    return la.select_above(
        packed.damping(r), TOLERANCE * trace, packed.damping(r), TOLERANCE * trace
    )


@kernel
def iterate(r, forces, previous, n):
    """One proximal iteration, Parikh and Boyd (2014), section 4.1, of states not yet converged."""
    m, step, solution = nconstraints(r), offset(r, STEP), offset(r, packed.SOLUTION)
    mu = damping_above_rounding(r)
    store_wanted(r, step)
    for k in range(m):
        la.store(r.work, step + k, la.load(r.work, step + k) + mu * la.load(r.work, forces + k))
    semidefinite.solve_factored(r, m, step)
    residual = la.load(r.work, solution + contacts.RESIDUAL)
    wanted = packed.setting(r, packed.WANTED_RESIDUAL)
    for k in range(m):
        old, new, older = (
            la.load(r.work, forces + k),
            la.load(r.work, step + k),
            la.load(r.work, previous + k),
        )
        la.store(r.work, previous + k, la.select_above(residual, wanted, old, older))
        la.store(r.work, forces + k, la.select_above(residual, wanted, new, old))
    la.store(
        r.work,
        solution + contacts.ITERATIONS,
        la.select_above(residual, wanted, n + 1.0, la.load(r.work, solution + contacts.ITERATIONS)),
    )
    la.store(r.work, solution + contacts.RESIDUAL, largest_violation(r, forces))


@kernel
def solve_damped(r, forces, previous):
    """Damped forces; further iterations approach those without damping."""
    wanted = packed.setting(r, packed.WANTED_RESIDUAL)
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
        la.store(r.work, forces + k, 0.0)
        la.store(r.work, previous + k, 0.0)
    for n in range(packed.integer(r, packed.MOST_ITERATIONS)):
        iterate(r, forces, previous, n)
        residual = la.load(r.work, offset(r, packed.SOLUTION) + contacts.RESIDUAL)
        if la.all_above(wanted, residual):
            return


@subroutine
def solve_forces(r, forces, previous):
    """The forces of contacts, and those before the last iteration; the damping is an option."""
    if packed.damping(r) > 0.0:
        solve_damped(r, forces, previous)
    else:
        for k in range(nconstraints(r)):
            la.store(r.work, previous + k, 0.0)
        solve_least_norm(r, forces)
