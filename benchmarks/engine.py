# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Compares the engine with Pinocchio in one run: accuracy, single states, batches.

    python benchmarks/engine.py [--write docs/performance.md]

The two engines run alternately, with one untimed call before the timed ones. Single states: public
Python calls on both sides, including all checks; the fastest of 60 turns of 300 calls. Batches of
8000 states: the median of 3 turns of 5 successive calls, as in a program that processes batches
continuously.
"""

import argparse
import platform
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

STATES = 8000
RECORDED = 1_000_000
SMALL = 1e-14  # errors up to here are not listed
ARM = Path(dyn_ros.__file__).parent / "robots" / "arm7.urdf"


def full(upper):
    """Return a symmetric matrix of which Pinocchio fills only the upper triangle."""
    return np.triu(upper) + np.triu(upper, 1).T


class Case(NamedTuple):
    """One algorithm in both libraries."""

    theirs: Callable  # (model, data, *arguments)
    takes: str  # of q, v, a
    results: Callable = None  # Pinocchio's Data -> what ours returns, as a tuple;
    #                                   None: what theirs returns
    in_parallel: Callable = None  # Pinocchio's batch


CASES = {
    "rnea": Case(pinocchio.rnea, "qva", lambda d: (d.tau,), pinocchio.rneaInParallel),
    "nonlinear_effects": Case(pinocchio.nonLinearEffects, "qv", lambda d: (d.nle,)),
    "generalized_gravity": Case(pinocchio.computeGeneralizedGravity, "q", lambda d: (d.g,)),
    "crba": Case(pinocchio.crba, "q", lambda d: (full(d.M),)),
    "aba": Case(pinocchio.aba, "qva", lambda d: (d.ddq,), pinocchio.abaInParallel),
    "minverse": Case(pinocchio.computeMinverse, "q", lambda d: (full(d.Minv),)),
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
        lambda d: (full(d.M), d.nle, d.g, d.J, d.Ag, d.hg.vector, d.Ig.matrix()),
    ),
    "coriolis_matrix": Case(pinocchio.computeCoriolisMatrix, "qv", lambda d: (d.C,)),
    "momentum_terms": Case(
        lambda m, d, q, v: (
            full(pinocchio.crba(m, d, q)) @ v,
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
        pinocchio.computeRNEADerivatives, "qva", lambda d: (d.dtau_dq, d.dtau_dv, full(d.M))
    ),
    "aba_derivatives": Case(
        pinocchio.computeABADerivatives, "qva", lambda d: (d.ddq_dq, d.ddq_dv, full(d.Minv))
    ),
    "generalized_gravity_derivatives": Case(pinocchio.computeGeneralizedGravityDerivatives, "q"),
    "centroidal_derivatives": Case(pinocchio.computeCentroidalDynamicsDerivatives, "qva"),
}
NOT_TIMED = (
    "static_regressor",
    "kinetic_energy_regressor",
    "potential_energy_regressor",
    "generalized_gravity_derivatives",
    "com_jacobian",
    "joint_jacobians_time_variation",
)  # like others; only their results are compared
TIMED = {name: case for name, case in CASES.items() if name not in NOT_TIMED}
ROBOTS = (("panda", None), ("talos_reduced", "floating"))
CONTACT_CASES = (
    "contact_dynamics",
    "contact_dynamics_derivatives",
    "impulse_dynamics",
    "impulse_dynamics_derivatives",
    "delassus_matrix",
)


def take_turns(ours, theirs, turns, rounds, repeats):
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


def cell(ours, theirs, digits):
    """Return the time of dyn_ros, and the speedup in parentheses."""
    return f"{ours:.{digits}f} ({theirs / ours:.1f})"


def table(head, *columns):
    """Yield the lines of a table, with the head of each column."""
    yield "| | " + " | ".join(head) + " |"
    yield "| --- |" + " --- |" * len(head)
    for cells in zip(*columns, strict=True):
        assert len({name for name, _ in cells}) == 1
        yield "| " + " | ".join([f"`{cells[0][0]}`", *(text for _, text in cells)]) + " |"


def one_state(pair):
    """Yield the name and the cell of each function, of single states."""
    q, v, a, _ = pair.state()
    for name, case in TIMED.items():
        count = len(case.takes)
        a_, b_ = take_turns(
            partial(getattr(dyn_ros, name), pair.model, pair.data, *(q, v, a)[:count]),
            partial(case.theirs, pair.pin, pair.pin_data, *(pair.to_pin_q(q), v, a)[:count]),
            60,
            1,
            300,
        ).min(axis=1)
        yield name, cell(a_, b_, 2)


def gain(one, two):
    """Return a sentence on the speedup by a second thread."""
    ratios = [
        float(a.split()[0]) / float(b.split()[0]) for (_, a), (_, b) in zip(one, two, strict=True)
    ]
    return (
        f"With two threads, batches are {min(ratios):.1f} to {max(ratios):.1f} times as fast, "
        f"in the median {np.median(ratios):.1f} times."
    )


def call_each(function, pair, arrays):
    """Loop over states, as a Python user of Pinocchio would."""
    for state in zip(*arrays):
        function(pair.pin, pair.pin_data, *state)


def batch(pair, threads):
    """Yield the name and the cell of each function, per state of a batch."""
    q, v, a, _ = pair.states(STATES)
    theirs = np.array([pair.to_pin_q(x) for x in q]), v, a
    columns = [np.asfortranarray(x.T) for x in theirs]
    pool = pinocchio.ModelPool(pair.pin, threads)
    for name, case in TIMED.items():
        count = len(case.takes)
        mine = partial(
            getattr(dyn_ros, name), pair.model, pair.data, *(q, v, a)[:count], threads=threads
        )
        if case.in_parallel:
            yours = partial(case.in_parallel, threads, pool, *columns)
        else:
            yours = partial(call_each, case.theirs, pair, theirs[:count])
        a_, b_ = np.median(take_turns(mine, yours, 3, 5, 1), axis=1)
        yield name, cell(a_ / STATES, b_ / STATES, 3)


def contact_cases(pair, contacts):
    """Return by name the calls of both engines for one state, (q, v, tau) -> None."""
    model, data, pin, pin_data = pair.model, pair.data, pair.pin, scenes.contact_data(pair)
    mine, (models, datas) = scenes.ours(contacts), scenes.rigid(pair, contacts)
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
            lambda q, v, tau: dyn_ros.contact_dynamics(model, data, q, v, tau, mine),
            dynamics,
        ),
        "contact_dynamics_derivatives": (
            lambda q, v, tau: dyn_ros.contact_dynamics_derivatives(model, data, q, v, tau, mine),
            dynamics_derivatives,
        ),
        "impulse_dynamics": (
            lambda q, v, tau: dyn_ros.impulse_dynamics(model, data, q, v, mine),
            impulses,
        ),
        "impulse_dynamics_derivatives": (
            lambda q, v, tau: dyn_ros.impulse_dynamics_derivatives(model, data, q, v, mine),
            impulse_derivatives,
        ),
        "delassus_matrix": (
            lambda q, v, tau: dyn_ros.delassus_matrix(model, data, q, mine),
            delassus,
        ),
    }


def contacts_one_state(pair, cases):
    """Yield the same as `one_state`, of robots in contact."""
    q, v, _, tau = pair.state()
    for name, (ours, theirs) in cases.items():
        a_, b_ = take_turns(
            partial(ours, q, v, tau), partial(theirs, pair.to_pin_q(q), v, tau), 60, 1, 300
        ).min(axis=1)
        yield name, cell(a_, b_, 2)


def contacts_batch(pair, cases):
    """Yield the same as `batch`, of robots in contact, with one thread."""
    q, v, _, tau = pair.states(STATES)
    theirs = np.array([pair.to_pin_q(x) for x in q]), v, tau

    def for_all_states(call):
        for state in zip(*theirs):
            call(*state)

    for name, (ours, call) in cases.items():
        a_, b_ = np.median(
            take_turns(partial(ours, q, v, tau), partial(for_all_states, call), 3, 5, 1), axis=1
        )
        yield name, cell(a_ / STATES, b_ / STATES, 3)


def error(actual, expected):
    """Return the largest difference, relative to the largest number unless that is about zero."""
    actual, expected = np.asarray(actual, float), np.asarray(expected, float)
    largest = np.abs(expected).max()
    return np.abs(actual - expected).max() / (largest if largest > 1e-12 else 1.0)


def as_tuple(results):
    return results if isinstance(results, tuple) else (results,)


def accuracy():
    """Yield rows of the functions whose largest error exceeds 1e-14, over all robots."""
    worst = dict.fromkeys(CASES, (0.0, ""))
    for robot in peer.FILES:
        for root_joint in (None, "floating"):
            pair = peer.new_pair(robot, root_joint, "ignore")
            for seed in range(5):
                q, v, a, _ = pair.state(seed)
                for name, case in CASES.items():
                    count = len(case.takes)
                    actual = getattr(dyn_ros, name)(pair.model, pair.data, *(q, v, a)[:count])
                    expected = case.theirs(
                        pair.pin, pair.pin_data, *(pair.to_pin_q(q), v, a)[:count]
                    )
                    if case.results:
                        expected = case.results(pair.pin_data)
                    e = max(map(error, as_tuple(actual), as_tuple(expected)))
                    worst[name] = max(worst[name], (e, f"{robot}, {root_joint or 'fixed'}"))
    for name, (e, where) in worst.items():
        if e > SMALL:
            yield f"| `{name}` | {e:.1e} | {where} |"


def contact_report():
    """Yield the lines of the section on contacts."""
    robot, root_joint, contacts = scenes.SCENES["solo12"]
    pair = peer.new_pair(robot, root_joint, "ignore")
    cases = contact_cases(pair, contacts)
    yield ""
    yield f"## {robot} on {len(contacts)} feet"
    yield ""
    yield "Each foot is a contact of dimension 3. Derivatives include the dynamics."
    yield ""
    yield from table(
        ("one state", "batch"), contacts_one_state(pair, cases), contacts_batch(pair, cases)
    )


def observer_of(model, method):
    """Return a momentum observer with some noise."""
    return dyn_ros.MomentumObserver(
        model, method=method, torque_noise=0.5, velocity_noise=1e-3, disturbance_noise=30.0
    )


def best_update(model, method, samples):
    """Return the shortest time of an update [us]: the fastest of 60 turns of 300 calls."""
    observer, state = observer_of(model, method), [array[0].copy() for array in samples]
    ours, _ = take_turns(lambda: observer.update(*state, 1e-3), lambda: None, 60, 1, 300)
    return ours.min()


def observer_report():
    """Yield the lines of the section on external efforts."""
    model = dyn_ros.Model.from_urdf_file(ARM)
    samples = np.random.default_rng(0).uniform(-1.0, 1.0, (3, RECORDED, model.nv))
    yield ""
    yield "## External efforts of arm7"
    yield ""
    yield f"`update` is one call, and a recording has {RECORDED} samples."
    yield ""
    yield "| method | update [us] | recording [s] |"
    yield "| --- | --- | --- |"
    for method in ("momentum", "direct", "kalman"):
        times, _ = take_turns(
            lambda method=method: observer_of(model, method).run(*samples, 1e-3),
            lambda: None,
            3,
            1,
            1,
        )
        yield (
            f"| `{method}` | {best_update(model, method, samples):.2f} "
            f"| {np.median(times) / 1e6:.2f} |"
        )


def report():
    """Yield the lines of the page."""
    yield "# Performance"
    yield ""
    yield (
        f"`make bench` writes this page, with Pinocchio {pinocchio.__version__} on "
        f"{platform.machine()}. Both engines are called from Python in turns. [Calls from "
        "C++](native.md) have their own page."
    )
    yield ""
    yield "## One state and batches"
    yield ""
    yield (
        "Cells show microseconds per state of dyn_ros and, in parentheses, how many times as "
        f"long Pinocchio takes. Pinocchio runs batches of {STATES} states in one thread, with "
        "`rneaInParallel`, `abaInParallel`, or a Python loop, and `momentum_terms` by three "
        f"functions. {ROBOTS[0][0]} has a fixed, {ROBOTS[1][0]} a floating base."
    )
    head, columns = [], []
    for robot, root_joint in ROBOTS:
        pair = peer.new_pair(robot, root_joint, "ignore")
        head += [robot, f"{robot}, batch"]
        columns += [one_state(pair), list(batch(pair, 1))]
    yield ""
    yield from table(head, *columns)
    yield ""
    yield gain(columns[-1], batch(pair, 2))
    yield from contact_report()
    yield from observer_report()
    yield ""
    yield "## Size"
    yield ""
    yield (
        "Microseconds of dyn_ros/Pinocchio for one state of chains and binary trees of revolute "
        "joints. Memory is the process's growth, including machine code. At a dash, "
        f"Pinocchio's `Data`, which grows with nv³, exceeds {sizes.MEMORY >> 30} GB."
    )
    yield ""
    yield from sizes.rows()
    yield ""
    yield "## Accuracy"
    yield ""
    yield (
        "The largest difference from Pinocchio, relative to the result's largest number, "
        f"over 5 random states of {len(peer.FILES)} robots with fixed and floating base, mimic "
        f"joints independent. Other functions are below {SMALL:.0e}."
    )
    yield ""
    yield "| | error | robot |"
    yield "| --- | --- | --- |"
    yield from accuracy()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--write", type=Path, help="also write the page to this file")
    path = parser.parse_args().write
    dyn_ros.precompile([*CASES, *CONTACT_CASES, "momentum_observer_step"])
    lines = []
    for line in report():
        print(line, flush=True)
        lines.append(line)
    if path:
        path.parent.mkdir(exist_ok=True)
        path.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
