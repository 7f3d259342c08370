# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The system of contact forces, J M^-1 J' lambda + excess = 0, and what redundant contacts do."""
from ...kernel.compiler import kernel, subroutine
from ...kernel.fields import field
from ...kernel.lanes import (
    LANES,
    all_above,
    lift,
    load,
    load_simd,
    select_above,
    simd_width,
    store,
    store_simd,
)
from ...kernel.layout import nconstraints, offset
from ..constrained.constraint_forces import COUPLING, EXCESS
from ..constrained.semidefinite import (
    WIDTH,
    absolute,
    factor_semidefinite,
    rank_of,
    solve_factored,
    solve_scaled,
)
from .contacts import (
    ITERATIONS,
    RANK,
    RESIDUAL,
    SOLUTION,
    damping,
    most_iterations,
    wanted_residual,
)

STEP = field("_step", ("constraints",))
VIOLATION = field("_violation", (WIDTH,))
TOLERANCE = 1e-12
"""Eigenvalues up to this fraction of the largest are rounding errors; see ``is_regular``."""


@kernel
def largest_violation(r, forces):
    """The largest entry of J M^-1 J' lambda + excess."""
    m, largest = nconstraints(r), lift(0.0, load(r.work, offset(r, SOLUTION)))
    for k in range(0, m, simd_width(r.work)):
        x = load_simd(r.work, offset(r, EXCESS) + k, m - k)
        for i in range(m):
            x = x + load(r.work, forces + i) * load_simd(
                r.work, offset(r, COUPLING) + WIDTH * i + k, LANES)
        store_simd(r.work, offset(r, VIOLATION) + k, LANES, x)
    total = largest
    for k in range(m):
        x = absolute(load(r.work, offset(r, VIOLATION) + k))
        total = total + x
        largest = select_above(x, largest, x, largest)
    return largest + 0.0 * total                    # NaN if a violation is


@kernel
def store_wanted(r, x):
    """x <- minus the excess."""
    for k in range(nconstraints(r)):
        store(r.work, x + k, -load(r.work, offset(r, EXCESS) + k))


@kernel
def solve_least_norm(r, forces):
    """The forces of least norm among those with the least violation."""
    store_wanted(r, forces)
    rank = solve_scaled(r, nconstraints(r), offset(r, COUPLING), forces, TOLERANCE)
    store(r.work, offset(r, SOLUTION) + RANK, rank)
    store(r.work, offset(r, SOLUTION) + RESIDUAL, largest_violation(r, forces))
    store(r.work, offset(r, SOLUTION) + ITERATIONS, 1.0)


@kernel
def damping_above_rounding(r):
    """The damping, but at least the rounding errors of J M^-1 J'."""
    trace = lift(0.0, load(r.work, offset(r, COUPLING)))
    for k in range(nconstraints(r)):
        trace = trace + load(r.work, offset(r, COUPLING) + (WIDTH + 1) * k)
    return select_above(damping(r), TOLERANCE * trace, damping(r), TOLERANCE * trace)


@kernel
def iterate(r, forces, previous, n):
    """One proximal iteration. States that have converged keep their forces.

    (J M^-1 J' + mu) lambda = mu lambda_prox - excess: Parikh and Boyd (2014), section 4.1.
    """
    m, step, solution = nconstraints(r), offset(r, STEP), offset(r, SOLUTION)
    mu = damping_above_rounding(r)
    store_wanted(r, step)
    for k in range(m):
        store(r.work, step + k, load(r.work, step + k) + mu * load(r.work, forces + k))
    solve_factored(r, m, step)
    residual, wanted = load(r.work, solution + RESIDUAL), wanted_residual(r)
    for k in range(m):
        old, new, older = (load(r.work, forces + k), load(r.work, step + k),
                           load(r.work, previous + k))
        store(r.work, previous + k, select_above(residual, wanted, old, older))
        store(r.work, forces + k, select_above(residual, wanted, new, old))
    store(r.work, solution + ITERATIONS, select_above(
        residual, wanted, n + 1.0, load(r.work, solution + ITERATIONS)))
    store(r.work, solution + RESIDUAL, largest_violation(r, forces))


@kernel
def solve_damped(r, forces, previous):
    """Damped forces; further iterations approach those without damping."""
    solution = offset(r, SOLUTION)
    store(r.work, solution + RANK, rank_of(r, nconstraints(r), offset(r, COUPLING), TOLERANCE))
    factor_semidefinite(r, nconstraints(r), offset(r, COUPLING), damping_above_rounding(r))
    for k in range(nconstraints(r)):
        store(r.work, forces + k, 0.0)
        store(r.work, previous + k, 0.0)
    store(r.work, solution + ITERATIONS, 0.0)
    store(r.work, solution + RESIDUAL, wanted_residual(r) + 1.0)
    for n in range(most_iterations(r)):
        iterate(r, forces, previous, n)
        if all_above(wanted_residual(r), load(r.work, solution + RESIDUAL)):
            return


@subroutine
def solve_forces(r, forces, previous):
    """The forces of contacts, and those before the last proximal iteration; the damping is an
    option.
    """
    if damping(r) > 0.0:
        solve_damped(r, forces, previous)
    else:
        for k in range(nconstraints(r)):
            store(r.work, previous + k, 0.0)
        solve_least_norm(r, forces)
