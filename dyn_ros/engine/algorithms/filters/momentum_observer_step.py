# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""One step of the momentum observer, and the filter over the samples of a recording.

With the generalized momentum p = M v and the known part of its rate,

    dp/dt = u + tau_ext,    u = tau + C' v - g - friction

the residual r of De Luca and Mattone (2005) follows the external efforts tau_ext with the gain K:
dr/dt = K (tau_ext - r). Over a step of length h in which the mean of tau_ext is d,

    d = (p1 - p0) / h - mean of u,    r1 = e r0 + (1 - e) d,    e = exp(-K h)

which is exact for constant tau_ext and any K h. The mean of u is that of its values at both ends.
The direct method filters M (v1 - v0) / h - (tau - C v - g - friction) in the same way.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...call.algorithm import algorithm, public
from ...call.data import Data
from ...kernel.names import short_repr
from ...kernel.types import Array, ArrayLike
from ...kernel.validation import one_each, require_bool, require_model
from ...kernel.vocabulary import *
from ...machine_code.compiler import Entry
from ...model.model import Model
from ..dynamics.friction import friction_effort
from ..dynamics.momentum_terms import P_RATE, P, compute_momentum, momentum_terms_kernel
from ..dynamics.rnea import NLE, nonlinear_effects_kernel
from .disturbance_filter import FILTER as KALMAN_FILTER
from .losses import Losses
from .low_pass import LOW_PASS

EXTERNAL = field("external_effort", ("nv",), "Estimated external efforts [N m, N].")
OBSERVED = field(
    "observed_momentum",
    ("nv",),
    "Generalized momentum of the observer's last sample [kg m2/s, kg m/s]; its velocity if direct.",
)
KNOWN_EFFORT = field(
    "known_effort",
    ("nv",),
    "Rate of the generalized momentum without external efforts "
    "at the observer's last sample [N m, N].",
)
STEP = field("_dt", (1,))
OBSERVER_GAIN = field("_observer_gain", ("nv",))
DAMPING = field("_damping", ("nv",))
COULOMB = field("_coulomb", ("nv",))
REVERSAL = field("_friction_velocity", ("nv",))
EXTERNAL_BEFORE = field("_external", ("nv",))
OBSERVED_BEFORE = field("_momentum", ("nv",))
KNOWN_EFFORT_BEFORE = field("_known_effort", ("nv",))
VELOCITY_CHANGE = field("_velocity_change", ("nv",))
DIRECT = declare_option("direct", bits=1)  # 1: M dv/dt instead of d(M v)/dt

_HALVINGS = 6
_MAX_EXPONENT = 0.625 * 2**_HALVINGS  # exp(-40) is zero compared with 1
_TAYLOR_RATIOS = tuple(1.0 / n for n in range(1, 18))  # consecutive coefficients of expm1


@kernel
def decay(x):
    """Return exp(-x) and 1 - exp(-x), both to a relative 2e-16, for x >= 0.

        expm1(y) = y + y^2 / 2! + ...,  expm1(2 y) = expm1(y) (expm1(y) + 2)

    The series is evaluated at y = -x / 2^6, which is then doubled six times.
    """
    y = select_above(_MAX_EXPONENT, x, x, _MAX_EXPONENT) * (-1.0 / 2**_HALVINGS)
    t = y * _TAYLOR_RATIOS[16]
    for n in range(15, -1, -1):
        t = y * _TAYLOR_RATIOS[n] * (1.0 + t)
    for _ in range(_HALVINGS):
        t = t * (t + 2.0)
    return 1.0 + t, -t


@kernel
def step_factors(gain, dt):
    """Return exp(-K h), 1 - exp(-K h) and (1 - exp(-K h)) / h; the last one is 0 for h = 0."""
    e, share = decay(gain * dt)
    return e, share, select_above(dt, 0.0, share, 0.0) / select_above(dt, 0.0, dt, 1.0)


@kernel
def filter_step(factors, external, change, effort_before, effort):
    """Return the residual after a step, from the change dp of the momentum.

        r = exp(-K h) r + (1 - exp(-K h)) / h dp - (1 - exp(-K h)) (u_0 + u_1) / 2

    ``external`` is r, and the efforts are u at the step's ends.
    """
    e, share, rate = factors
    return e * external + rate * change - share * (0.5 * (effort_before + effort))


# --- one step


@kernel
def observe_velocity(r):
    """Direct method: compute the terms that stand for the momentum's change and rate.

        P = M (v_1 - v_0),  P_RATE = -nle

    Reads Q, V, A, F_EXT, OBSERVED_BEFORE; writes LIMI, JOINT_V, JOINT_A, JOINT_F, NLE, P, P_RATE,
    OBSERVED, VELOCITY_CHANGE; calls compute_momentum, nonlinear_effects_kernel.
    """
    for k in range(nv(r)):
        set_entry(r, VELOCITY_CHANGE, k, entry(r, V, k) - entry(r, OBSERVED_BEFORE, k))
    compute_momentum(r, VELOCITY_CHANGE)
    nonlinear_effects_kernel(r)
    for k in range(nv(r)):
        set_entry(r, OBSERVED, k, entry(r, V, k))
        set_entry(r, P_RATE, k, -entry(r, NLE, k))


@kernel
def observe_momentum(r):
    """Compute the momentum's rate, and its change in P.

        P = p_1 - p_0,  p = M v,  P_RATE = C' v - g

    Reads Q, V, OBSERVED_BEFORE; writes LIMI, JOINT_V, P, P_RATE, SUBTREE_MOMENTUM, SUBTREE_MASS,
    SUBTREE_FIRST_MOMENT, GRAVITY_IN_JOINT, OBSERVED.
    """
    momentum_terms_kernel(r)
    for k in range(nv(r)):
        p = entry(r, P, k)
        set_entry(r, OBSERVED, k, p)
        set_entry(r, P, k, p - entry(r, OBSERVED_BEFORE, k))


@kernel
def momentum_observer_step_kernel(r):
    """Advance the observer by a step.

        u = tau + C' v - g - friction
        r = K (p - integral of (u + r))                 De Luca and Mattone (2005)

    Reads Q, V, A, TAU_IN, F_EXT, STEP, OBSERVER_GAIN, DAMPING, COULOMB, REVERSAL, EXTERNAL_BEFORE,
    OBSERVED_BEFORE, KNOWN_EFFORT_BEFORE; writes LIMI, JOINT_V, JOINT_A, JOINT_F, NLE, P, P_RATE,
    EXTERNAL, OBSERVED, KNOWN_EFFORT; calls observe_velocity, observe_momentum.
    """
    if option(r, DIRECT) == 1:
        observe_velocity(r)
    else:
        observe_momentum(r)
    dt = entry(r, STEP, 0)
    for k in range(0, nv(r), simd_width(r.work)):
        n = nv(r) - k
        friction = friction_effort(
            entries(r, V, k, n),
            entries(r, DAMPING, k, n),
            entries(r, COULOMB, k, n),
            entries(r, REVERSAL, k, n),
        )
        effort = entries(r, TAU_IN, k, n) + entries(r, P_RATE, k, n) - friction
        external = filter_step(
            step_factors(entries(r, OBSERVER_GAIN, k, n), dt),
            entries(r, EXTERNAL_BEFORE, k, n),
            entries(r, P, k, n),
            entries(r, KNOWN_EFFORT_BEFORE, k, n),
            effort,
        )
        set_entries(r, EXTERNAL, k, n, external)
        set_entries(r, KNOWN_EFFORT, k, n, effort)


# --- the samples of a recording, one after the other


def filter_samples(
    v: int,
    tau: int,
    momentum: int,
    momentum_rate: int,
    dt: int,
    dt_stride: int,
    settings: int,
    memory: int,
    external: int,
    nv: int,
    count: int,
    direct: int,
) -> int:
    """Compute the residual of each sample, in order; all but the last three are addresses.

    ``momentum`` contains the momenta or, if direct, M times the changes of velocity. ``dt_stride``
    is 0 if all steps have one length, 1 if ``dt`` has a length for each sample. ``settings`` are
    gain, damping, Coulomb friction and the velocity of its reversal; ``memory`` is the residual,
    the momentum and its known rate at the sample before, replaced by those at the last one; nv
    numbers each.
    """
    v, tau, momentum, momentum_rate, dt, settings, memory, external = (
        floats_at(v),
        floats_at(tau),
        floats_at(momentum),
        floats_at(momentum_rate),
        floats_at(dt),
        floats_at(settings),
        floats_at(memory),
        floats_at(external),
    )
    for k in range(0, nv, simd_width(v)):
        n = nv - k
        gain, damping = load_simd(settings, k, n), load_simd(settings, nv + k, n)
        coulomb, reversal = (
            load_simd(settings, 2 * nv + k, n),
            load_simd(settings, 3 * nv + k, n),
        )
        r, p, u = (
            load_simd(memory, k, n),
            load_simd(memory, nv + k, n),
            load_simd(memory, 2 * nv + k, n),
        )
        h = load(dt, 0)
        factors = step_factors(gain, h)
        for row in range(count):
            if load(dt, row * dt_stride) != h:
                h = load(dt, row * dt_stride)
                factors = step_factors(gain, h)
            i = row * nv + k
            friction = friction_effort(load_simd(v, i, n), damping, coulomb, reversal)
            effort = load_simd(tau, i, n) + load_simd(momentum_rate, i, n) - friction
            p1 = load_simd(momentum, i, n)
            change = p1
            if direct == 0:
                change = p1 - p
            r = filter_step(factors, r, change, u, effort)
            p, u = p1, effort
            store_simd(external, i, n, r)
        store_simd(memory, k, n, r)
        store_simd(memory, nv + k, n, p)
        store_simd(memory, 2 * nv + k, n, u)
    return 0


FILTER = Entry("momentum_observer-filter", filter_samples, "q" * 12)


@public
class ObserverState(NamedTuple):
    """The state of a momentum observer after a sample.

    Attributes
    ----------
    external : (nv,) ndarray
        Estimated external efforts [N m, N].
    momentum : (nv,) ndarray
        Generalized momentum [kg m2/s, kg m/s]; with ``direct=True`` the velocity [rad/s, m/s].
    known_effort : (nv,) ndarray
        Its rate without external efforts [N m, N].

    Examples
    --------
    >>> state = dyn_ros.momentum_observer_step(
    ...     model, data, q, v, tau, 0.0, 50.0, np.zeros(7), np.zeros(7), np.zeros(7))
    >>> state._fields
    ('external', 'momentum', 'known_effort')
    """

    external: Array
    momentum: Array
    known_effort: Array


@algorithm(
    momentum_observer_step_kernel,
    inputs=(
        Q,
        V,
        TAU_IN,
        STEP,
        OBSERVER_GAIN,
        DAMPING,
        COULOMB,
        REVERSAL,
        EXTERNAL_BEFORE,
        OBSERVED_BEFORE,
        KNOWN_EFFORT_BEFORE,
    ),
    results=(EXTERNAL, OBSERVED, KNOWN_EFFORT),
    options=(DIRECT,),
    others=(FILTER, KALMAN_FILTER, LOW_PASS),
)
def momentum_observer_step(
    model: Model,
    data: Data,
    q: ArrayLike,
    v: ArrayLike,
    tau: ArrayLike,
    dt: float | ArrayLike,
    gain: float | ArrayLike,
    external: ArrayLike,
    momentum: ArrayLike,
    known_effort: ArrayLike,
    *,
    friction: bool = True,
    friction_velocity: float | ArrayLike = 0.0,
    direct: bool = False,
    threads: int = 1,
) -> ObserverState:
    """Compute one step of the momentum observer; the caller keeps its state.

    ``MomentumObserver`` keeps it, and ``momentum_observer`` computes a whole recording; a batch is
    one step of many robots. De Luca and Mattone (2005), exact for external efforts that are
    constant in the step; O(n).

    Parameters
    ----------
    tau : (nv,) or (B, nv) array_like
        Torques that the drives exert, measured with q and v, as from ``measured_torque`` [N m, N];
        zero for a floating base.
    dt : float or (B,) array_like
        Time since the previous sample [s], 0 or more. 0 for the first one: the external efforts
        remain.
    gain : float or (nv,) array_like
        Bandwidth [1/s], more than 0.
    external, momentum, known_effort : (nv,) or (B, nv) array_like
        The result for the previous sample; zeros for the first one.
    friction : bool
        Whether the joints have the friction of the model, see ``joint_friction``.
    friction_velocity : float or (nv,) array_like
        Coulomb friction changes its sign linearly between minus and plus this velocity [rad/s,
        m/s], 0 or more; with 0 it changes at once. Where drives have a larger one, that counts.
    direct : bool
        Multiply the change of velocity by M instead of subtracting momenta.

    Returns
    -------
    ObserverState
        (external, momentum, known_effort); ``data.external_effort``, ``data.observed_momentum`` and
        ``data.known_effort``.

    Examples
    --------
    A contact exerts 2 N m on each joint of the arm at rest. The estimate approaches it:

    >>> tau = dyn_ros.generalized_gravity(model, data, q) - 2.0
    >>> state, zero = (np.zeros(7),) * 3, np.zeros(7)
    >>> for dt in [0.0] + 200 * [0.001]:
    ...     state = [array.copy() for array in dyn_ros.momentum_observer_step(
    ...         model, data, q, zero, tau, dt, 50.0, *state)]
    >>> print(state[0].round(3))
    [2. 2. 2. 2. 2. 2. 2.]
    """
    gains, reversal = (
        positive(model, "gain", gain),
        not_negative(model, "friction_velocity", friction_velocity),
    )
    losses = Losses(model, friction, reversal)
    tau = losses.removed(v, tau)
    state: tuple[Array, Array, Array] = momentum_observer_step.call(
        model,
        data,
        threads,
        int(require_bool("direct", direct)),
        q,
        v,
        tau,
        _step_lengths(dt),
        gains,
        *losses.kernel,
        external,
        momentum,
        known_effort,
    )
    return ObserverState(*state)


def positive(model: Model, name: str, value: float | ArrayLike) -> Array:
    """Return positive numbers for all velocities, or raise a ValueError."""
    return _velocity_numbers(model, name, value, "more than 0", lambda array: array > 0.0)


def not_negative(model: Model, name: str, value: float | ArrayLike) -> Array:
    """Return numbers of at least zero for all velocities, or raise a ValueError."""
    return _velocity_numbers(model, name, value, "at least 0", lambda array: array >= 0.0)


def _velocity_numbers(
    model: Model,
    name: str,
    value: float | ArrayLike,
    limit: str,
    accepts: Callable[[Array], NDArray[np.bool_]],
) -> Array:
    """Return numbers that are accepted for all velocities, or raise a ValueError."""
    array = one_each(name, value, require_model(model).nv)
    rejected = np.flatnonzero(~accepts(array))
    if rejected.size:
        k = int(rejected[0])
        raise ValueError(
            f"{name}: expected {limit} for each velocity, got {array[k]} for "
            f"{model.velocity_names[k]!r}"
        )
    return array


def _step_lengths(dt: float | ArrayLike) -> Array:
    """Return the lengths of the steps as a column, or raise a ValueError."""
    try:
        array = np.asarray(dt)
    except ValueError:  # a ragged list
        array = np.array(None)
    if array.dtype.kind not in "fiub" or array.ndim > 1 or not (array >= 0.0).all():
        raise ValueError(
            f"dt: expected a number of at least 0, or one for each state, got {short_repr(dt)}"
        )
    return array.astype(float).reshape(*array.shape, 1)
