# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Compare the engine with Pinocchio in one run: accuracy, single states, batches.

    python benchmarks/engine.py [--section "Large batches"] [--write docs/performance.md]

With `--section`, only this section is measured, and replaced in the page.

The two engines run alternately, with one untimed call before the timed ones. Single states: public
Python calls on both sides, including all checks; the fastest of 60 turns of 300 calls. Batches of
8000 states: the median of 3 turns of 5 successive calls, as in a program that processes batches
continuously.
"""

import argparse
import platform
import re
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pinocchio

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "test"))
import dense_contacts as scenes
import sizes

import dyn_ros
import peer
from dyn_ros.engine.call.algorithm import ALGORITHMS
from dyn_ros.engine.kernel.lanes import LANES
from dyn_ros.engine.machine_code.extension import native

STATES = 8000
SMALL_SIZES = 2, 8, 64
MIN_SPEEDUP = 10.0  # of a batch, relative to a loop with Pinocchio
MIN_FILL_SHARE = 0.8  # of a batch's time, that filling its results takes
RECORDING_LENGTH = 1_000_000  # samples
MAX_UNLISTED_ERROR = 1e-14  # relative
ARM = Path(dyn_ros.__file__).parent / "robots" / "arm7.urdf"


def symmetric(upper):
    """Return a symmetric matrix from its upper triangle, which is what Pinocchio fills."""
    return np.triu(upper) + np.triu(upper, 1).T


class Case(NamedTuple):
    """Algorithm of Pinocchio to compare with.

    ``function`` takes (model, data, *arguments), and ``arguments`` are the first of "qva".
    ``results`` returns a tuple of dyn_ros's results from Pinocchio's Data; None: ``function``
    returns them. ``batch_function`` takes (threads, pool, *arguments).
    """

    function: Callable
    arguments: str
    results: Callable = None
    batch_function: Callable = None


CASES = {
    "rnea": Case(pinocchio.rnea, "qva", lambda d: (d.tau,), pinocchio.rneaInParallel),
    "nonlinear_effects": Case(pinocchio.nonLinearEffects, "qv", lambda d: (d.nle,)),
    "generalized_gravity": Case(pinocchio.computeGeneralizedGravity, "q", lambda d: (d.g,)),
    "crba": Case(pinocchio.crba, "q", lambda d: (symmetric(d.M),)),
    "aba": Case(pinocchio.aba, "qva", lambda d: (d.ddq,), pinocchio.abaInParallel),
    "minverse": Case(pinocchio.computeMinverse, "q", lambda d: (symmetric(d.Minv),)),
    "forward_kinematics": Case(
        pinocchio.forwardKinematics,
        "qva",
        lambda d: (
            [X.homogeneous for X in d.oMi][1:],
            [X.homogeneous for X in d.liMi][1:],
            [m.vector for m in d.v][1:],
            [m.vector for m in d.a][1:],
        ),
    ),
    "joint_jacobians": Case(pinocchio.computeJointJacobians, "q", lambda d: (d.J,)),
    "joint_jacobians_time_variation": Case(
        pinocchio.computeJointJacobiansTimeVariation, "qv", lambda d: (d.dJ,)
    ),
    "center_of_mass": Case(
        lambda m, d, q, v, a: pinocchio.centerOfMass(m, d, q, v, a, False),
        "qva",
        lambda d: (d.com[0], d.vcom[0], d.acom[0], d.mass[0]),
    ),
    "com_jacobian": Case(pinocchio.jacobianCenterOfMass, "q", lambda d: (d.Jcom,)),
    "mechanical_energy": Case(
        pinocchio.computeMechanicalEnergy, "qv", lambda d: (d.mechanical_energy,)
    ),
    "ccrba": Case(pinocchio.ccrba, "qv", lambda d: (d.Ag, d.hg.vector, d.Ig.matrix())),
    "dccrba": Case(pinocchio.dccrba, "qv", lambda d: (d.dAg,)),
    "centroidal_momentum_time_derivative": Case(
        pinocchio.computeCentroidalMomentumTimeVariation, "qva", lambda d: (d.dhg.vector,)
    ),
    "all_terms": Case(
        pinocchio.computeAllTerms,
        "qv",
        lambda d: (symmetric(d.M), d.nle, d.g, d.J, d.Ag, d.hg.vector, d.Ig.matrix()),
    ),
    "coriolis_matrix": Case(pinocchio.computeCoriolisMatrix, "qv", lambda d: (d.C,)),
    "momentum_terms": Case(
        lambda m, d, q, v: (
            symmetric(pinocchio.crba(m, d, q)) @ v,
            pinocchio.computeCoriolisMatrix(m, d, q, v).T @ v
            - pinocchio.computeGeneralizedGravity(m, d, q),
        ),
        "qv",
    ),
    "joint_torque_regressor": Case(
        pinocchio.computeJointTorqueRegressor, "qva", lambda d: (d.jointTorqueRegressor,)
    ),
    "static_regressor": Case(pinocchio.computeStaticRegressor, "q", lambda d: (d.staticRegressor,)),
    "kinetic_energy_regressor": Case(
        pinocchio.computeKineticEnergyRegressor, "qv", lambda d: (d.kineticEnergyRegressor,)
    ),
    "potential_energy_regressor": Case(
        pinocchio.computePotentialEnergyRegressor, "q", lambda d: (d.potentialEnergyRegressor,)
    ),
    "rnea_derivatives": Case(
        pinocchio.computeRNEADerivatives, "qva", lambda d: (d.dtau_dq, d.dtau_dv, symmetric(d.M))
    ),
    "aba_derivatives": Case(
        pinocchio.computeABADerivatives, "qva", lambda d: (d.ddq_dq, d.ddq_dv, symmetric(d.Minv))
    ),
    "generalized_gravity_derivatives": Case(pinocchio.computeGeneralizedGravityDerivatives, "q"),
    "centroidal_derivatives": Case(pinocchio.computeCentroidalDynamicsDerivatives, "qva"),
}
# They take as long as related functions, so only their results are compared.
UNTIMED_FUNCTIONS = (
    "static_regressor",
    "kinetic_energy_regressor",
    "potential_energy_regressor",
    "generalized_gravity_derivatives",
    "com_jacobian",
    "joint_jacobians_time_variation",
)
TIMED_CASES = {name: case for name, case in CASES.items() if name not in UNTIMED_FUNCTIONS}
ROBOTS = (("panda", None), ("talos_reduced", "floating"))
CONTACT_CASES = (
    "contact_dynamics",
    "contact_dynamics_derivatives",
    "impulse_dynamics",
    "impulse_dynamics_derivatives",
    "delassus_matrix",
)


def time_in_turns(ours, theirs, turns, rounds, repeats):
    """Return the microseconds per call in each round, [engine, turn * round]."""
    times = [[], []]
    for _ in range(turns):
        for call, durations in zip((ours, theirs), times):
            call()  # warm-up
            for _ in range(rounds):
                start = time.perf_counter()
                for _ in range(repeats):
                    call()
                durations.append((time.perf_counter() - start) / repeats * 1e6)
    return np.array(times)


def time_cell(ours, theirs, digits):
    """Return the time of dyn_ros, and the speedup in parentheses."""
    return f"{ours:.{digits}f} ({theirs / ours:.1f})"


def table_lines(head, *columns):
    """Yield the lines of a table with the head of each column."""
    yield "| | " + " | ".join(head) + " |"
    yield "| --- |" + " --- |" * len(head)
    for cells in zip(*columns, strict=True):
        assert len({name for name, _ in cells}) == 1
        yield "| " + " | ".join([f"`{cells[0][0]}`", *(text for _, text in cells)]) + " |"


def state_cells(pair):
    """Yield the name and the time cell of each function, called with single states."""
    q, v, a, _ = pair.state()
    for name, case in TIMED_CASES.items():
        count = len(case.arguments)
        ours, theirs = time_in_turns(
            partial(getattr(dyn_ros, name), pair.model, pair.data, *(q, v, a)[:count]),
            partial(case.function, pair.pin, pair.pin_data, *(pair.to_pin_q(q), v, a)[:count]),
            60,
            1,
            300,
        ).min(axis=1)
        yield name, time_cell(ours, theirs, 2)


def thread_gain_sentence(one_thread, two_threads):
    """Return a sentence on the speedup by a second thread, from the cells of both."""
    ratios = [
        float(a.split()[0]) / float(b.split()[0])
        for (_, a), (_, b) in zip(one_thread, two_threads, strict=True)
    ]
    return (
        f"With two threads, batches run {min(ratios):.1f} to {max(ratios):.1f} times faster "
        f"(median {np.median(ratios):.1f})."
    )


def call_each(function, pair, arrays):
    """Call a function for each state, as a Python user of Pinocchio does."""
    for state in zip(*arrays):
        function(pair.pin, pair.pin_data, *state)


def batch_cells(pair, threads):
    """Yield the name and the time cell of each function, per state of a batch."""
    q, v, a, _ = pair.states(STATES)
    pin_arrays = np.array([pair.to_pin_q(x) for x in q]), v, a
    columns = [np.asfortranarray(x.T) for x in pin_arrays]
    pool = pinocchio.ModelPool(pair.pin, threads)
    for name, case in TIMED_CASES.items():
        count = len(case.arguments)
        our_call = partial(
            getattr(dyn_ros, name), pair.model, pair.data, *(q, v, a)[:count], threads=threads
        )
        if case.batch_function:
            their_call = partial(case.batch_function, threads, pool, *columns)
        else:
            their_call = partial(call_each, case.function, pair, pin_arrays[:count])
        ours, theirs = np.median(time_in_turns(our_call, their_call, 3, 5, 1), axis=1) / STATES
        yield name, time_cell(ours, theirs, 3)


class LargeBatch(NamedTuple):
    """Times of a batch [us per state]."""

    robot: str
    name: str
    ours: float
    loop: float  # of Pinocchio
    filling: float  # of arrays such as the results, already in use, with one number
    kernel: float  # without reading arguments and storing results
    size: int  # of the results [bytes per state]

    @property
    def speedup(self):
        return self.loop / self.ours

    @property
    def fill_share(self):
        return self.filling / self.ours

    @property
    def reason(self):
        """Return why it is not faster; "" if it is fast enough."""
        if self.speedup >= MIN_SPEEDUP or self.fill_share >= MIN_FILL_SHARE:
            return ""
        kernel_speedup = self.loop / self.kernel
        limit = "arithmetic" if kernel_speedup < MIN_SPEEDUP else "memory"
        return (
            f"`{self.name}` of {self.robot}, {self.speedup:.1f} times and "
            f"{100 * self.fill_share:.0f} %: {limit}; {kernel_speedup:.1f} times without results, "
            f"which have {self.size / 1e3:.1f} kB for each state."
        )


def kernel_of_batch(pair, name):
    """Return a function that runs the kernel as often as a batch does, without copying arrays."""
    space = pair.data._batch_spaces[ALGORITHMS[name]][0]
    code, _, _, *places = space._arguments[:7]
    kernel = native().Function(code, "qqqq")

    def run():
        for _ in range(STATES // LANES):
            kernel(*places)

    return run


def large_batches(robot, pair):
    """Yield a LargeBatch for each function."""
    q, v, a, _ = pair.states(STATES)
    pin_arrays = np.array([pair.to_pin_q(x) for x in q]), v, a
    for name, case in TIMED_CASES.items():
        count = len(case.arguments)
        our_call = partial(getattr(dyn_ros, name), pair.model, pair.data, *(q, v, a)[:count])
        results = as_tuple(our_call())

        def fill(results=results):
            for array in results:
                array.fill(1.0)

        loop = partial(call_each, case.function, pair, pin_arrays[:count])
        ours, theirs = np.median(time_in_turns(our_call, loop, 3, 5, 1), axis=1) / STATES
        _, filling = np.median(time_in_turns(our_call, fill, 3, 5, 1), axis=1) / STATES
        run_kernel = kernel_of_batch(pair, name)
        _, kernel = np.median(time_in_turns(our_call, run_kernel, 3, 5, 1), axis=1) / STATES
        size = sum(array.nbytes for array in results) // STATES
        yield LargeBatch(robot, name, ours, theirs, filling, kernel, size)


def large_batch_report():
    """Yield the lines of the section on the limits of large batches."""
    yield (
        f"The first column of each robot shows the time of a Python loop with Pinocchio over "
        f"{STATES} states divided by the time of a batch of dyn_ros in one thread. The second one "
        "shows how long it takes to fill arrays of the size of the results with one number, "
        "relative to the batch. It exceeds 100 % if storing the results past the caches is faster."
    )
    yield ""
    head, columns, batches = [], [], []
    for robot, root_joint in ROBOTS:
        each = list(large_batches(robot, peer.new_pair(robot, root_joint, "ignore")))
        head += [robot, f"{robot}, filling"]
        columns.append([(batch.name, f"{batch.speedup:.1f}") for batch in each])
        columns.append([(batch.name, f"{100 * batch.fill_share:.0f} %") for batch in each])
        batches += each
    yield from table_lines(head, *columns)
    yield ""
    reasons = [batch.reason for batch in batches if batch.reason]
    goal = f"{MIN_SPEEDUP:.0f} times or {100 * MIN_FILL_SHARE:.0f} %"
    if not reasons:
        yield f"All reach {goal}."
        return
    yield f"These do not reach {goal}, and are bound by:"
    yield ""
    for reason in reasons:
        yield f"- {reason}"


def single_precision_cells(pair):
    """Yield the name of each function, and the speedup and the error of float32."""
    states = pair.states(STATES)
    single = dyn_ros.Data(pair.model, dtype=np.float32)
    for name, case in TIMED_CASES.items():
        arrays = states[: len(case.arguments)]
        function, model = getattr(dyn_ros, name), pair.model
        short_arrays = [array.astype(np.float32) for array in arrays]
        double_call = partial(function, model, pair.data, *arrays)
        single_call = partial(function, model, single, *short_arrays)
        times = np.median(time_in_turns(double_call, single_call, 3, 5, 1), axis=1)
        error = max(map(relative_error, as_tuple(single_call()), as_tuple(double_call())))
        yield name, f"{times[0] / times[1]:.1f} ({error:.0e})"


def single_precision_report():
    """Yield the lines of the section on float32."""
    yield (
        f"Each cell shows the time of a batch of {STATES} states in one thread divided by the time "
        "of the same batch in float32, `Data(model, dtype=np.float32)`, and in parentheses the "
        "largest difference of the results, relative to the largest number in them."
    )
    yield ""
    pairs = [peer.new_pair(robot, root_joint) for robot, root_joint in ROBOTS]
    yield from table_lines([robot for robot, _ in ROBOTS], *map(single_precision_cells, pairs))


def small_batch_cells(pair, size):
    """Yield the name and the cell of each function: time of a small batch, and of a loop."""
    states = pair.states(size)
    for name, case in TIMED_CASES.items():
        arrays = states[: len(case.arguments)]
        function = partial(getattr(dyn_ros, name), pair.model, pair.data)

        def loop(function=function, arrays=arrays):
            for state in zip(*arrays):
                function(*state)

        batch, looped = time_in_turns(partial(function, *arrays), loop, 20, 1, 100).min(axis=1)
        yield name, time_cell(batch, looped, 1)


def small_batch_report():
    """Yield the lines of the section on small batches."""
    yield (
        "Each cell shows the time of a batch in microseconds and, in parentheses, the time of a "
        "Python loop over its states divided by the time of the batch. A loop writes all results "
        "to the same arrays and need not clear the zeros in them again."
    )
    pairs = [(robot, peer.new_pair(robot, root_joint)) for robot, root_joint in ROBOTS]
    kinds = [(robot, pair, size) for robot, pair in pairs for size in SMALL_SIZES]
    yield ""
    yield from table_lines(
        [f"{robot}, {size}" for robot, _, size in kinds],
        *(small_batch_cells(pair, size) for _, pair, size in kinds),
    )


def contact_cases(pair, contacts):
    """Return by name the calls of both engines for one state, (q, v, tau) -> None."""
    model, data, pin, pin_data = pair.model, pair.data, pair.pin, scenes.contact_data(pair)
    our_contacts, (models, datas) = scenes.ours(contacts), scenes.rigid(pair, contacts)
    settings = pinocchio.ProximalSettings()

    def dynamics(q, v, tau):
        pinocchio.constraintDynamics(pin, pin_data, q, v, tau, models, datas, settings)

    def dynamics_derivatives(q, v, tau):
        dynamics(q, v, tau)
        pinocchio.computeConstraintDynamicsDerivatives(pin, pin_data, models, datas, settings)

    def impulses(q, v, tau):
        pinocchio.impulseDynamics(pin, pin_data, q, v, models, datas, 0.0, settings)

    def impulse_derivatives(q, v, tau):
        impulses(q, v, tau)
        pinocchio.computeImpulseDynamicsDerivatives(pin, pin_data, models, datas, 0.0, settings)

    def delassus(q, v, tau):
        pinocchio.computeDelassusMatrix(pin, pin_data, q, models, datas)

    return {
        "contact_dynamics": (
            lambda q, v, tau: dyn_ros.contact_dynamics(model, data, q, v, tau, our_contacts),
            dynamics,
        ),
        "contact_dynamics_derivatives": (
            lambda q, v, tau: dyn_ros.contact_dynamics_derivatives(
                model, data, q, v, tau, our_contacts
            ),
            dynamics_derivatives,
        ),
        "impulse_dynamics": (
            lambda q, v, tau: dyn_ros.impulse_dynamics(model, data, q, v, our_contacts),
            impulses,
        ),
        "impulse_dynamics_derivatives": (
            lambda q, v, tau: dyn_ros.impulse_dynamics_derivatives(model, data, q, v, our_contacts),
            impulse_derivatives,
        ),
        "delassus_matrix": (
            lambda q, v, tau: dyn_ros.delassus_matrix(model, data, q, our_contacts),
            delassus,
        ),
    }


def contact_state_cells(pair, cases):
    """Yield the cells of `state_cells` for a robot in contact."""
    q, v, _, tau = pair.state()
    for name, (our_function, their_function) in cases.items():
        ours, theirs = time_in_turns(
            partial(our_function, q, v, tau),
            partial(their_function, pair.to_pin_q(q), v, tau),
            60,
            1,
            300,
        ).min(axis=1)
        yield name, time_cell(ours, theirs, 2)


def contact_batch_cells(pair, cases):
    """Yield the cells of `batch_cells` for a robot in contact, with one thread."""
    q, v, _, tau = pair.states(STATES)
    pin_arrays = np.array([pair.to_pin_q(x) for x in q]), v, tau

    def for_all_states(call):
        for state in zip(*pin_arrays):
            call(*state)

    for name, (our_function, their_function) in cases.items():
        times = time_in_turns(
            partial(our_function, q, v, tau), partial(for_all_states, their_function), 3, 5, 1
        )
        ours, theirs = np.median(times, axis=1) / STATES
        yield name, time_cell(ours, theirs, 3)


def relative_error(actual, expected):
    """Return the largest difference, relative to the largest number unless that is about zero."""
    actual, expected = np.asarray(actual, float), np.asarray(expected, float)
    largest = np.abs(expected).max()
    return np.abs(actual - expected).max() / (largest if largest > 1e-12 else 1.0)


def as_tuple(results):
    return results if isinstance(results, tuple) else (results,)


def accuracy_rows():
    """Yield rows of the functions whose largest error over all robots exceeds 1e-14."""
    max_errors = dict.fromkeys(CASES, (0.0, ""))
    for robot in peer.FILES:
        for root_joint in (None, "floating"):
            pair = peer.new_pair(robot, root_joint, "ignore")
            for seed in range(5):
                q, v, a, _ = pair.state(seed)
                for name, case in CASES.items():
                    count = len(case.arguments)
                    actual = getattr(dyn_ros, name)(pair.model, pair.data, *(q, v, a)[:count])
                    expected = case.function(
                        pair.pin, pair.pin_data, *(pair.to_pin_q(q), v, a)[:count]
                    )
                    if case.results:
                        expected = case.results(pair.pin_data)
                    e = max(map(relative_error, as_tuple(actual), as_tuple(expected)))
                    max_errors[name] = max(
                        max_errors[name], (e, f"{robot}, {root_joint or 'fixed'}")
                    )
    for name, (e, where) in max_errors.items():
        if e > MAX_UNLISTED_ERROR:
            yield f"| `{name}` | {e:.1e} | {where} |"


def contact_report():
    """Yield the lines of the section on contacts."""
    robot, root_joint, contacts = scenes.SCENES["solo12"]
    pair = peer.new_pair(robot, root_joint, "ignore")
    cases = contact_cases(pair, contacts)
    yield ""
    yield f"## {robot} on {len(contacts)} feet"
    yield ""
    yield "Each foot is a contact of dimension 3. The times of derivatives include the dynamics."
    yield ""
    yield from table_lines(
        ("one state", "batch"), contact_state_cells(pair, cases), contact_batch_cells(pair, cases)
    )


def noisy_observer(model, method):
    """Return a momentum observer that assumes noise."""
    return dyn_ros.MomentumObserver(
        model, method=method, torque_noise=0.5, velocity_noise=1e-3, disturbance_noise=30.0
    )


def fastest_update(model, method, samples):
    """Return the shortest time of an update [us]: the fastest of 60 turns of 300 calls."""
    observer, state = noisy_observer(model, method), [array[0].copy() for array in samples]
    times, _ = time_in_turns(lambda: observer.update(*state, 1e-3), lambda: None, 60, 1, 300)
    return times.min()


def observer_report():
    """Yield the lines of the section on external efforts."""
    model = dyn_ros.Model.from_urdf_file(ARM)
    samples = np.random.default_rng(0).uniform(-1.0, 1.0, (3, RECORDING_LENGTH, model.nv))
    yield ""
    yield "## External efforts of arm7"
    yield ""
    yield (
        "The time of `update` is for one call, and the time of a recording for "
        f"{RECORDING_LENGTH} samples."
    )
    yield ""
    yield "| method | update [us] | recording [s] |"
    yield "| --- | --- | --- |"
    for method in ("momentum", "direct", "kalman"):
        times, _ = time_in_turns(
            lambda method=method: noisy_observer(model, method).run(*samples, 1e-3),
            lambda: None,
            3,
            1,
            1,
        )
        yield (
            f"| `{method}` | {fastest_update(model, method, samples):.2f} "
            f"| {np.median(times) / 1e6:.2f} |"
        )


def report():
    """Yield the lines of the page."""
    yield "# Performance"
    yield ""
    yield (
        f"`make bench` writes this page, with Pinocchio {pinocchio.__version__} on "
        f"{platform.machine()}. The benchmark calls both libraries from Python, in turns. See also "
        "[calls from C++](native.md) and [in a web page](web_performance.md)."
    )
    yield ""
    yield "## One state and batches"
    yield ""
    yield (
        "Each cell shows the time of dyn_ros per state in microseconds and, in parentheses, the "
        "time of Pinocchio divided by the time of dyn_ros. A call for one state is repeated with "
        "the same arrays, so that code and data are in the caches of the processor; [in a control "
        "loop](in_the_loop.md), calls take longer. "
        f"Batches have {STATES} states and run in one thread. Pinocchio computes batches with "
        "`rneaInParallel`, `abaInParallel`, or a Python loop, and `momentum_terms` with three "
        "functions. "
        f"{ROBOTS[0][0]} has a fixed base, {ROBOTS[1][0]} a floating base."
    )
    head, columns = [], []
    for robot, root_joint in ROBOTS:
        pair = peer.new_pair(robot, root_joint, "ignore")
        head += [robot, f"{robot}, batch"]
        columns += [state_cells(pair), list(batch_cells(pair, 1))]
    yield ""
    yield from table_lines(head, *columns)
    yield ""
    yield thread_gain_sentence(columns[-1], batch_cells(pair, 2))
    yield ""
    for name, section in SECTIONS.items():
        yield f"## {name}"
        yield ""
        yield from section()
        yield ""
    yield from contact_report()
    yield from observer_report()
    yield ""
    yield "## Size"
    yield ""
    yield (
        "Times of dyn_ros/Pinocchio in microseconds, for one state of chains and binary trees of "
        "revolute joints. Memory is the growth of the process, including machine code. A dash "
        f"means that Pinocchio's `Data`, which grows with nv³, exceeds {sizes.MEMORY_LIMIT >> 30} "
        "GB."
    )
    yield ""
    yield from sizes.table_lines()
    yield ""
    yield "## Accuracy"
    yield ""
    yield (
        "The table lists the largest difference from Pinocchio, relative to the largest number in "
        f"the result, over 5 random states of {len(peer.FILES)} robots with fixed and floating "
        "base. Mimic joints are independent. The errors of all other functions are below "
        f"{MAX_UNLISTED_ERROR:.0e}."
    )
    yield ""
    yield "| | error | robot |"
    yield "| --- | --- | --- |"
    yield from accuracy_rows()


SECTIONS = {
    "Large batches": large_batch_report,
    "Single precision": single_precision_report,
    "Small batches": small_batch_report,
}


def with_section(page, name, text):
    """Return a page with another text of a section."""
    section = f"## {name}\n\n{text}\n"
    pattern = rf"^## {name}\n.*?(?=^## )"
    return re.sub(pattern, lambda _: section, page, flags=re.MULTILINE | re.DOTALL)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--write", type=Path, help="also write the page to this file")
    parser.add_argument("--section", choices=SECTIONS, help="measure only this section")
    arguments = parser.parse_args()
    path = arguments.write
    dyn_ros.precompile([*CASES, *CONTACT_CASES, "momentum_observer_step"])
    lines = []
    for line in SECTIONS[arguments.section]() if arguments.section else report():
        print(line, flush=True)
        lines.append(line)
    text = "\n".join(lines) + "\n"
    if path and arguments.section:
        text = with_section(path.read_text(), arguments.section, text)
    if path:
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)


if __name__ == "__main__":
    main()
